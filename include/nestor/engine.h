/* engine.h: the engine: what models and sessions of a process share: worker threads and caches. */
#ifndef NESTOR_ENGINE_H
#define NESTOR_ENGINE_H

#include "nestor/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct NstEngine NstEngine;

typedef enum NstLogLevel { NST_LOG_ERROR, NST_LOG_WARNING, NST_LOG_INFO, NST_LOG_TRACE } NstLogLevel;

/* Receives one line without its end.  May be called from any thread that calls the engine. */
typedef void (*NstLog)(void *arg, NstLogLevel level, const char *text);

/* Hears how far compiling a model has come: `done` of `total` kernels have code.  total is 0 while the model is read and
 * its kernels are made, and grows when the body of an if or a loop brings more; neither number ever falls.  Comes from the
 * thread that makes a session (or a dump) and from threads that compile for it, one call at a time for each of them; two
 * sessions that are made at once call at once.  Compiling waits for it: it should return soon, and must not use the engine.
 * What comes from a cache as a whole calls nothing. */
typedef void (*NstProgress)(void *arg, const char *model, uint32_t done, uint32_t total);

/* All zero = the defaults. */
typedef struct NstEngineOptions {
    int32_t threads;   /* of a run, the caller's included; 0 = what affinity mask and cgroup quota allow */
    const char *cache; /* folder of the disk cache, absolute; NULL = $NESTOR_CACHE, $XDG_CACHE_HOME/nestor or
                              $HOME/.cache/nestor; "" = none */
    const char
        *target; /* instruction set to compile for: "baseline", "avx2", "avx512", "vnni", "amx", "host"; NULL = host;
                    "nominal-avx2" and so on: the level on a nominal machine, for texts: no session compiles for it */
    uint64_t cache_memory; /* bytes of compiled things kept in memory; 0 = 256 MB */
    NstLog log;            /* NULL = none */
    void *log_arg;
    uint64_t cache_disk; /* bytes of the disk cache, above which what was unused for longest is removed; 0 = 4 GB,
                            UINT64_MAX = no limit; several processes may be over it by an eighth each */
    const char *const *cache_layers; /* folders, absolute, that are only read, in this order, when the disk cache lacks
                                        something; others may read them, but not write */
    uint32_t n_cache_layers;
    NstProgress progress; /* NULL = none */
    void *progress_arg;
} NstEngineOptions;

/* A new engine.  Owns: the caller ends it with nst_engine_free after its models and sessions.
 * Errors: NST_E_INVALID for an unknown target, NST_E_UNSUPPORTED when this machine lacks it, NST_E_NOMEM.
 * Threads: one engine may be used from any number of threads. */
NST_API NstStatus nst_engine_new(const NstEngineOptions *options, NstEngine **engine) NST_MUST_CHECK;

/* Ends the engine, or, while it has models or sessions, when the last of them is freed: its log may be called until
 * then.  NULL is allowed. */
NST_API void nst_engine_free(NstEngine *engine);

/* The message of the last call that failed on this thread: what was given, what was allowed, and where.  "" if none
 * failed.  Valid until the next call on this thread. */
NST_API const char *nst_error_text(void);

/* How the caches of an engine served. */
typedef struct NstCacheCounts {
    uint64_t memory_hits, disk_hits, misses, stores;
    uint64_t reasons;    /* different reasons why the disk did not help; nst_engine_cache_reason names them */
    uint64_t layer_hits; /* of disk_hits: from a folder that is only read */
    uint64_t evictions;  /* entries removed from disk to keep its limit */
} NstCacheCounts;
NST_API void nst_engine_cache_counts(NstEngine *engine, NstCacheCounts *counts);

/* The text of reason `index` (0 .. reasons - 1) and how often it came; NULL when there is none of that index.
 * Static storage. */
NST_API const char *nst_engine_cache_reason(NstEngine *engine, uint64_t index, uint64_t *count);

/* What lies in the folder of the disk cache. */
typedef struct NstCacheFolderReport {
    char folder[1024]; /* "" = no disk cache */
    char state[128];   /* why the folder is not used; "" = it is */
    uint64_t plans, plan_bytes, kernels, kernel_bytes, others;
    uint64_t damaged; /* entries that a run would not take */
    uint64_t removed; /* of them */
} NstCacheFolderReport;

/* Looks at every file of the disk cache.  check: reads and checks each entry; remove: removes the damaged ones and what
 * dead writers left.  Errors: NST_E_INVALID for NULL. */
NST_API NstStatus nst_engine_cache_report(NstEngine *engine, int check, int remove,
                                          NstCacheFolderReport *report) NST_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
