/* cache.c: entries in memory (a list under a lock, least recently used go first) over entries on disk, in a folder of its own and
 * in layers that are only read. */
#include "runtime/cache.h"

#include <stdlib.h>
#include <string.h>
#include "runtime/cache_evict.h"
#include "runtime/run_state.h"
#include "runtime/threads.h"

#define SWEEP_SECONDS 600 /* age of temporary files that no living writer can still be at */

typedef struct Entry Entry;
struct Entry {
    Entry *next;
    char name[NST_CACHE_NAME_BYTES];
    NstPart material, payload;
    NstMapping mapping; /* of the file both lie in, or ... */
    void *block;        /* ... memory */
    uint32_t refs;      /* hits handed out */
    uint64_t used;      /* clock of the last find */
};

/* A folder that is only read. */
typedef struct Layer Layer;
struct Layer {
    Layer *next;
    int fd; /* -1: not open */
    NstTrust trust;
    bool tried;
    char path[]; /* with NUL */
};

struct NstCache {
    NstLock *lock;
    char *folder;
    int fd; /* -1: not open */
    NstTrust trust;
    bool tried, swept;
    uint64_t memory_limit, clock;
    uint64_t disk_limit;   /* bytes of the folder's entries */
    uint64_t disk_bytes;   /* of them, as far as is known ... */
    uint64_t disk_unknown; /* ... and stored since the folder was listed; UINT64_MAX = never listed */
    Layer *layers;
    Entry *entries;
    NstCacheStats stats;
};

const char *nst_cache_reason_text(NstCacheReason reason)
{
    static const char *const text[] = {
#define NST_CACHE_REASON(name, text) text,
#include "runtime/cache_reason.def"
#undef NST_CACHE_REASON
    };
    return (unsigned)reason < NST_CACHE_REASON_COUNT ? text[reason] : "?";
}

const char *nst_cache_kind_text(NstCacheKind kind)
{
    static const char *const text[NST_CACHE_KIND_COUNT] = {"plan", "kernel", "model"};
    return (unsigned)kind < NST_CACHE_KIND_COUNT ? text[kind] : "?";
}

static NstCacheReason reason_of(NstTrust trust)
{
    switch (trust) {
    case NST_TRUST_ABSENT: return NST_CACHE_ABSENT;
    case NST_TRUST_LINK: return NST_CACHE_LINK;
    case NST_TRUST_OWNER: return NST_CACHE_OWNER;
    case NST_TRUST_MODE: return NST_CACHE_MODE;
    case NST_TRUST_KIND: return NST_CACHE_KIND;
    case NST_TRUST_FULL: return NST_CACHE_FULL;
    case NST_TRUSTED:
    case NST_TRUST_IO: break;
    }
    return NST_CACHE_IO;
}

/* --- memory (under the lock) --------------------------------------------------------------------------------- */

static size_t entry_bytes(const Entry *entry)
{
    return entry->material.size + entry->payload.size;
}

static void free_entry(Entry *entry)
{
    nst_os_unmap(&entry->mapping);
    free(entry->block);
    free(entry);
}

static Entry *find_entry(NstCache *cache, const char *name, const void *material, size_t n)
{
    for (Entry *entry = cache->entries; entry; entry = entry->next)
        if (strcmp(entry->name, name) == 0 && entry->material.size == n && memcmp(entry->material.at, material, n) == 0)
            return entry;
    return NULL;
}

static void evict(NstCache *cache)
{
    while (cache->stats.memory_bytes > cache->memory_limit) {
        Entry **oldest = NULL;
        for (Entry **at = &cache->entries; *at; at = &(*at)->next)
            if ((*at)->refs == 0 && (!oldest || (*at)->used < (*oldest)->used)) oldest = at;
        if (!oldest) return;
        Entry *entry = *oldest;
        *oldest = entry->next;
        cache->stats.memory_bytes -= entry_bytes(entry);
        free_entry(entry);
    }
}

static void give_hit(NstCache *cache, Entry *entry, NstCacheHit *hit)
{
    entry->refs++;
    entry->used = ++cache->clock;
    *hit = (NstCacheHit){entry->payload.at, entry->payload.size, entry};
}

/* Adds entry unless an equal one came first, which then is returned. */
static Entry *add_entry(NstCache *cache, Entry *entry)
{
    Entry *other = find_entry(cache, entry->name, entry->material.at, entry->material.size);
    if (other) {
        free_entry(entry);
        return other;
    }
    entry->next = cache->entries;
    entry->used = ++cache->clock;
    cache->entries = entry;
    cache->stats.memory_bytes += entry_bytes(entry);
    return entry;
}

/* --- disk ---------------------------------------------------------------------------------------------------- */

static bool open_folder(NstCache *cache, bool create)
{
    if (!cache->folder) return false;
    if (cache->fd < 0 && (create || !cache->tried)) cache->trust = nst_folder_open(cache->folder, create, &cache->fd);
    cache->tried = true;
    return cache->fd >= 0;
}

static Entry *new_entry(const char *name)
{
    Entry *entry = nst_alloc_should_fail() ? NULL : calloc(1, sizeof *entry);
    if (entry) snprintf(entry->name, sizeof entry->name, "%s", name);
    return entry;
}

/* Reads an entry from disk; NULL and the reason when it cannot be used. */
static Entry *read_entry(int fd, NstCacheKind kind, const char *name, const void *material, size_t n,
                         NstCacheReason *reason)
{
    NstMapping mapping;
    NstPart found, payload;
    NstTrust trust = nst_folder_map(fd, name, &mapping);
    *reason = reason_of(trust);
    if (trust != NST_TRUSTED) return NULL;
    Entry *entry = NULL;
    if (!nst_cache_open(&mapping, kind, &found, &payload))
        *reason = NST_CACHE_TORN;
    else if (material && (found.size != n || (n != 0 && memcmp(found.at, material, n) != 0)))
        *reason = NST_CACHE_OTHER;
    else
        entry = new_entry(name);
    if (!entry) {
        nst_os_unmap(&mapping);
        return NULL;
    }
    entry->mapping = mapping;
    entry->material = found;
    entry->payload = payload;
    return entry;
}

/* The entry of the first layer that has it; what is wrong with a layer or its entry is counted. */
static Entry *read_layers(NstCache *cache, NstCacheKind kind, const char *name, const void *material, size_t n)
{
    Entry *entry = NULL;
    for (Layer *layer = cache->layers; layer && !entry; layer = layer->next) {
        nst_lock_take(cache->lock);
        if (!layer->tried) layer->trust = nst_folder_open_layer(layer->path, &layer->fd);
        layer->tried = true;
        nst_lock_drop(cache->lock);
        NstCacheReason reason = reason_of(layer->trust);
        if (layer->fd >= 0) entry = read_entry(layer->fd, kind, name, material, n, &reason);
        nst_lock_take(cache->lock);
        cache->stats.layer_hits += entry != NULL;
        if (!entry && reason != NST_CACHE_ABSENT) cache->stats.reason[reason]++;
        nst_lock_drop(cache->lock);
    }
    return entry;
}

bool nst_cache_find(NstCache *cache, NstCacheKind kind, const void *material, size_t n, NstCacheHit *hit)
{
    char name[NST_CACHE_NAME_BYTES];
    nst_cache_name(kind, material, n, name);
    nst_lock_take(cache->lock);
    Entry *entry = find_entry(cache, name, material, n);
    if (entry) {
        cache->stats.memory_hits++;
        give_hit(cache, entry, hit);
        nst_lock_drop(cache->lock);
        return true;
    }
    bool open = open_folder(cache, false);
    int fd = cache->fd;
    NstCacheReason reason = reason_of(cache->trust);
    nst_lock_drop(cache->lock);
    if (open) entry = read_entry(fd, kind, name, material, n, &reason);
    if (entry) (void)nst_folder_touch(fd, name); /* used now; where that fails it only looks older */
    if (!entry) entry = read_layers(cache, kind, name, material, n);
    nst_lock_take(cache->lock);
    if (entry) {
        cache->stats.disk_hits++;
        give_hit(cache, add_entry(cache, entry), hit);
        evict(cache);
    } else {
        cache->stats.misses++;
        if (cache->folder || cache->layers) cache->stats.reason[cache->folder ? reason : NST_CACHE_ABSENT]++;
    }
    nst_lock_drop(cache->lock);
    return entry != NULL;
}

void nst_cache_release(NstCache *cache, NstCacheHit *hit)
{
    if (!hit->hold) return;
    nst_lock_take(cache->lock);
    ((Entry *)hit->hold)->refs--;
    evict(cache);
    nst_lock_drop(cache->lock);
    *hit = (NstCacheHit){0};
}

static void keep_in_memory(NstCache *cache, const char *name, const void *material, size_t n, const NstPart *parts,
                           int n_parts)
{
    size_t bytes = 0;
    for (int k = 0; k < n_parts; k++) bytes += parts[k].size;
    if (bytes + n > cache->memory_limit) return;
    Entry *entry = new_entry(name);
    char *block = entry ? nst_memory_new(bytes + n) : NULL;
    if (!block) {
        free(entry);
        return; /* then it is found on disk or made again */
    }
    entry->block = block;
    entry->payload = (NstPart){block, bytes};
    for (int k = 0; k < n_parts; k++) {
        if (parts[k].size != 0) memcpy(block, parts[k].at, parts[k].size);
        block += parts[k].size;
    }
    if (n != 0) memcpy(block, material, n);
    entry->material = (NstPart){block, n};
    nst_lock_take(cache->lock);
    add_entry(cache, entry);
    evict(cache);
    nst_lock_drop(cache->lock);
}

/* Writes the file of an entry, unless it alone is more than the folder may hold. */
static bool write_entry(NstCache *cache, int fd, NstCacheKind kind, const char *name, const void *material, size_t n,
                        const NstPart *parts, int n_parts, uint64_t *bytes, NstCacheReason *reason)
{
    NstCacheHeader header;
    NstPart *file_parts = nst_alloc_should_fail() ? NULL : malloc(((size_t)n_parts + 3) * sizeof *file_parts);
    *reason = NST_CACHE_IO;
    if (!file_parts) return false;
    nst_cache_frame(kind, material, n, parts, n_parts, &header, file_parts);
    *bytes = header.file_bytes;
    NstTrust trust = NST_TRUST_FULL;
    if (header.file_bytes <= cache->disk_limit) {
        trust = nst_folder_write(fd, name, file_parts, n_parts + 3);
        *reason = reason_of(trust);
    } else {
        *reason = NST_CACHE_LIMIT;
    }
    free(file_parts);
    return trust == NST_TRUSTED;
}

/* After a store of that many bytes.  The folder is listed with the first store, when the limit seems to be reached, and after so
 * many bytes that others may have stored as much: each process is over the limit by an eighth at most. */
static void keep_limit(NstCache *cache, int fd, uint64_t bytes)
{
    uint64_t slack = cache->disk_limit / 8, found, removed;
    if (cache->disk_limit == UINT64_MAX) return;
    nst_lock_take(cache->lock);
    bool first = cache->disk_unknown == UINT64_MAX;
    if (!first) cache->disk_unknown += bytes;
    bool due = first || cache->disk_unknown > slack || cache->disk_bytes + cache->disk_unknown > cache->disk_limit;
    nst_lock_drop(cache->lock);
    if (!due || !nst_cache_evict(fd, cache->disk_limit, cache->disk_limit - slack, &found, &removed)) return;
    nst_lock_take(cache->lock);
    cache->disk_bytes = found;
    cache->disk_unknown = 0;
    cache->stats.evictions += removed;
    nst_lock_drop(cache->lock);
}

void nst_cache_store(NstCache *cache, NstCacheKind kind, const void *material, size_t n, const NstPart *parts,
                     int n_parts)
{
    char name[NST_CACHE_NAME_BYTES];
    nst_cache_name(kind, material, n, name);
    keep_in_memory(cache, name, material, n, parts, n_parts);
    if (!cache->folder) return;
    nst_lock_take(cache->lock);
    NstTrust trust = open_folder(cache, true) ? NST_TRUSTED : cache->trust;
    int fd = cache->fd;
    bool sweep = trust == NST_TRUSTED && !cache->swept;
    cache->swept |= sweep;
    nst_lock_drop(cache->lock);
    if (trust == NST_TRUSTED && sweep) nst_folder_sweep(fd, SWEEP_SECONDS);
    uint64_t bytes = 0;
    NstCacheReason reason = reason_of(trust);
    bool stored =
        trust == NST_TRUSTED && write_entry(cache, fd, kind, name, material, n, parts, n_parts, &bytes, &reason);
    nst_lock_take(cache->lock);
    if (stored)
        cache->stats.stores++;
    else
        cache->stats.reason[reason]++;
    nst_lock_drop(cache->lock);
    if (stored) keep_limit(cache, fd, bytes);
}

NstTrust nst_cache_trust(NstCache *cache)
{
    nst_lock_take(cache->lock);
    NstTrust trust = !cache->folder || cache->fd >= 0 ? NST_TRUSTED : cache->trust;
    nst_lock_drop(cache->lock);
    return trust;
}

void nst_cache_stats(NstCache *cache, NstCacheStats *stats)
{
    nst_lock_take(cache->lock);
    *stats = cache->stats;
    nst_lock_drop(cache->lock);
}

/* --- a look at the folder ------------------------------------------------------------------------------------ */

typedef struct Walk {
    NstCacheFolder *found;
    int fd;
    bool verify, remove_bad;
} Walk;

static bool entry_is_good(const Walk *walk, const char *name, NstCacheKind kind, size_t *bytes, NstCacheReason *reason)
{
    NstMapping mapping;
    NstPart material, payload;
    char expected[NST_CACHE_NAME_BYTES];
    NstTrust trust = nst_folder_map(walk->fd, name, &mapping);
    *bytes = mapping.size;
    *reason = reason_of(trust);
    if (trust != NST_TRUSTED) return false;
    bool good = true;
    if (walk->verify) {
        good = nst_cache_open(&mapping, kind, &material, &payload);
        *reason = NST_CACHE_TORN;
        if (good) {
            nst_cache_name(kind, material.at, material.size, expected);
            good = strcmp(expected, name) == 0;
            *reason = NST_CACHE_OTHER;
        }
    }
    nst_os_unmap(&mapping);
    return good;
}

static void walk_name(void *arg, const char *name)
{
    Walk *walk = arg;
    NstCacheKind kind = nst_cache_kind_of_name(name);
    size_t bytes = 0;
    NstCacheReason reason;
    if (kind == NST_CACHE_KIND_COUNT) {
        walk->found->other_files++;
        return;
    }
    if (entry_is_good(walk, name, kind, &bytes, &reason)) {
        walk->found->entries[kind]++;
        walk->found->bytes[kind] += bytes;
        return;
    }
    walk->found->bad[reason]++;
    if (walk->remove_bad) {
        NstTrust ignored = nst_folder_remove(walk->fd, name); /* what stays is reported again */
        (void)ignored;
    }
}

void nst_cache_walk(NstCache *cache, bool verify, bool remove_bad, NstCacheFolder *found)
{
    *found = (NstCacheFolder){.folder = NST_TRUST_ABSENT};
    nst_lock_take(cache->lock);
    bool open = open_folder(cache, false);
    Walk walk = {found, cache->fd, verify, remove_bad};
    if (cache->folder) found->folder = cache->trust;
    nst_lock_drop(cache->lock);
    if (!open) return;
    if (remove_bad) nst_folder_sweep(walk.fd, SWEEP_SECONDS);
    found->folder = nst_folder_list(walk.fd, walk_name, &walk);
}

/* --- life ---------------------------------------------------------------------------------------------------- */

const char *nst_cache_default_folder(NstArena *arena)
{
    const char *own = getenv("NESTOR_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own) return own[0] ? nst_strdup(arena, own) : NULL;
    if (cache && cache[0] == '/') return nst_format(arena, "%s/nestor", cache);
    return home && home[0] == '/' ? nst_format(arena, "%s/.cache/nestor", home) : NULL;
}

void nst_cache_limit(NstCache *cache, uint64_t bytes)
{
    cache->disk_limit = bytes;
}

NstStatus nst_cache_add_layer(NstCache *cache, const char *folder)
{
    size_t n = strlen(folder) + 1;
    Layer *made = nst_alloc_should_fail() ? NULL : malloc(sizeof *made + n), **end = &cache->layers;
    if (!made) return NST_E_NOMEM;
    *made = (Layer){.fd = -1, .trust = NST_TRUST_ABSENT};
    memcpy(made->path, folder, n);
    while (*end) end = &(*end)->next;
    *end = made;
    return NST_OK;
}

void nst_cache_free(NstCache *cache)
{
    if (!cache) return;
    while (cache->layers) {
        Layer *layer = cache->layers;
        cache->layers = layer->next;
        nst_folder_close(layer->fd);
        free(layer);
    }
    while (cache->entries) {
        Entry *entry = cache->entries;
        cache->entries = entry->next;
        free_entry(entry);
    }
    nst_folder_close(cache->fd);
    nst_lock_free(cache->lock);
    free(cache->folder);
    free(cache);
}

NstStatus nst_cache_new(const char *folder, uint64_t memory_limit, NstCache **cache)
{
    NstCache *made = nst_alloc_should_fail() ? NULL : calloc(1, sizeof *made);
    if (!made) return NST_E_NOMEM;
    made->fd = -1;
    made->memory_limit = memory_limit;
    made->disk_limit = made->disk_unknown = UINT64_MAX;
    made->trust = NST_TRUST_ABSENT;
    size_t n = folder ? strlen(folder) + 1 : 0;
    bool done = nst_lock_new(&made->lock) == NST_OK;
    if (done && folder) {
        made->folder = nst_alloc_should_fail() ? NULL : malloc(n);
        done = made->folder != NULL;
        if (done) memcpy(made->folder, folder, n);
    }
    if (!done) {
        nst_cache_free(made);
        return NST_E_NOMEM;
    }
    *cache = made;
    return NST_OK;
}
