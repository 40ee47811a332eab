/* cache.h: what was compiled, kept in memory and on disk: bytes under a key.
 *
 * The key is XXH3-128 of the key material; the material is stored and compared in full, since a hash is no identity.
 * On disk one file an entry in a trusted folder (ir/base/folder.h); written to a temporary file, synced and renamed, so
 * that readers see all or nothing; a checksum over every byte.  Whatever is wrong with an entry or the folder is a miss
 * with a counted reason, never an error.  Threads: all calls may come from any thread. */
#ifndef NST_RUNTIME_CACHE_H
#define NST_RUNTIME_CACHE_H

#include "ir/base/folder.h"

typedef struct NstCache NstCache;

typedef enum NstCacheKind { NST_CACHE_PLAN, NST_CACHE_KERNEL, NST_CACHE_MODEL, NST_CACHE_KIND_COUNT } NstCacheKind;

typedef enum NstCacheReason {
#define NST_CACHE_REASON(name, text) NST_CACHE_##name,
#include "runtime/cache_reason.def"
#undef NST_CACHE_REASON
    NST_CACHE_REASON_COUNT
} NstCacheReason;

const char *nst_cache_reason_text(NstCacheReason reason);
const char *nst_cache_kind_text(NstCacheKind kind);

typedef struct NstCacheStats {
    uint64_t memory_hits, disk_hits, misses, stores; /* misses: neither memory nor disk had it */
    uint64_t reason
        [NST_CACHE_REASON_COUNT]; /* of disk: one for each miss, each failed store and each layer that is not fine */
    uint64_t memory_bytes;
    uint64_t layer_hits; /* of disk_hits: from a layer that is only read */
    uint64_t evictions;  /* entries removed from the folder to keep its limit */
} NstCacheStats;

/* Bytes found; valid until nst_cache_release.  `at` is aligned to 64. */
typedef struct NstCacheHit {
    const void *at;
    size_t bytes;
    void *hold;
} NstCacheHit;

/* A cache over a folder (absolute path; NULL = memory only).  memory_limit: bytes kept in memory for later finds.
 * Owns: the caller ends it with nst_cache_free.  Errors: NST_E_NOMEM.  A folder that is not trusted or cannot be made is
 * no error: its finds are misses with the reason. */
NstStatus nst_cache_new(const char *folder, uint64_t memory_limit, NstCache **cache) NST_MUST_CHECK;
void nst_cache_free(NstCache *cache);

/* Before the first use: a limit for the bytes of the folder's entries (UINT64_MAX: none), kept by removing what was not found or
 * stored for longest; a larger entry is not stored. */
void nst_cache_limit(NstCache *cache, uint64_t bytes);
/* Before the first use: one more folder to look into after the others, never written.  Its rules are those of the other folder,
 * but that other users may read it.  Errors: NST_E_NOMEM. */
NstStatus nst_cache_add_layer(NstCache *cache, const char *folder) NST_MUST_CHECK;

/* The folder in use: $NESTOR_CACHE, else $XDG_CACHE_HOME/nestor, else $HOME/.cache/nestor; NULL if NESTOR_CACHE is
 * empty or nothing is set.  Owns: arena. */
const char *nst_cache_default_folder(NstArena *arena);

/* True when there is an entry for exactly this material. */
bool nst_cache_find(NstCache *cache, NstCacheKind kind, const void *material, size_t n, NstCacheHit *hit);
void nst_cache_release(NstCache *cache, NstCacheHit *hit);

/* Stores bytes (the parts one after the other) in memory and on disk; failures are counted. */
void nst_cache_store(NstCache *cache, NstCacheKind kind, const void *material, size_t n, const NstPart *parts,
                     int n_parts);

/* After a store: why the folder is not used; NST_TRUSTED if it is, or there is none. */
NstTrust nst_cache_trust(NstCache *cache);

void nst_cache_stats(NstCache *cache, NstCacheStats *stats);

/* What a look at every file of the folder found. */
typedef struct NstCacheFolder {
    uint64_t entries[NST_CACHE_KIND_COUNT], bytes[NST_CACHE_KIND_COUNT];
    uint64_t other_files;                 /* temporary ones too */
    uint64_t bad[NST_CACHE_REASON_COUNT]; /* entries a find would refuse */
    NstTrust folder;
} NstCacheFolder;
/* verify: also reads every entry and checks it.  remove_bad: removes what it refuses, and temporary files left over. */
void nst_cache_walk(NstCache *cache, bool verify, bool remove_bad, NstCacheFolder *found);

#endif
