/* engine.c: engines: pool, caches, target; messages of failed calls. */
#include "runtime/engine.h"

#include <stdarg.h>
#include <stdlib.h>

#define DEFAULT_CACHE_MEMORY ((uint64_t)256 << 20) /* bytes */
#define DEFAULT_CACHE_DISK   ((uint64_t)4 << 30)   /* bytes: some eight of the largest plans that are stored packed */

static _Thread_local char error_text[NST_ERROR_TEXT];

const char *nst_error_text(void)
{
    return error_text;
}

NstStatus nst_report(NstStatus status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error_text, sizeof error_text, format, args);
    va_end(args);
    return status;
}

void nst_engine_log(const NstEngine *engine, NstLogLevel level, const char *format, ...)
{
    if (!engine->log) return;
    char text[NST_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    engine->log(engine->log_arg, level, text);
}

char *nst_text_copy(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = nst_alloc_should_fail() ? NULL : malloc(n);
    if (copy) memcpy(copy, text, n);
    return copy;
}

static NstStatus init_engine(NstCtx *ctx, void *arg)
{
    NstEngine *engine = ((void **)arg)[0];
    const NstEngineOptions *options = ((void **)arg)[1];
    NST_TRY(nst_target_parse(ctx, options->target ? options->target : "host", &engine->target));
    NST_CHECK(ctx, options->threads >= 0, NST_E_INVALID, "threads is %d, allowed are 0 and above",
              (int)options->threads);
    NST_CHECK(ctx, !options->cache || !options->cache[0] || options->cache[0] == '/', NST_E_INVALID,
              "cache is '%s', allowed: an absolute path, or \"\" for none", options->cache);
    const char *folder = options->cache ? options->cache : nst_cache_default_folder(ctx->arena);
    if (folder && folder[0]) {
        engine->folder = nst_text_copy(folder);
        NST_CHECK(ctx, engine->folder, NST_E_NOMEM, "no memory for an engine");
    }
    uint64_t memory = options->cache_memory ? options->cache_memory : DEFAULT_CACHE_MEMORY;
    NstStatus status = nst_cache_new(engine->folder, memory, &engine->cache);
    if (status == NST_OK)
        nst_cache_limit(engine->cache, options->cache_disk ? options->cache_disk : DEFAULT_CACHE_DISK);
    for (uint32_t k = 0; k < options->n_cache_layers && status == NST_OK; k++) {
        const char *layer = options->cache_layers ? options->cache_layers[k] : NULL;
        NST_CHECK(ctx, layer && layer[0] == '/', NST_E_INVALID,
                  "layer %u of the cache is '%s', allowed: absolute paths", k, layer ? layer : "");
        status = nst_cache_add_layer(engine->cache, layer);
    }
    if (status == NST_OK) status = nst_pool_new(options->threads, &engine->pool);
    NST_CHECK(ctx, status == NST_OK, status, "no memory for an engine");
    engine->log = options->log;
    engine->log_arg = options->log_arg;
    engine->progress = options->progress;
    engine->progress_arg = options->progress_arg;
    return NST_OK;
}

NstStatus nst_engine_new(const NstEngineOptions *options, NstEngine **engine)
{
    static const NstEngineOptions defaults;
    if (!engine) return nst_report(NST_E_INVALID, "nst_engine_new: no place for the engine");
    *engine = NULL;
    NstEngine *made = nst_alloc_should_fail() ? NULL : calloc(1, sizeof *made);
    if (!made) return nst_report(NST_E_NOMEM, "no memory for an engine");
    made->users = 1;
    NstCtx ctx;
    void *arg[2] = {made, (void *)(uintptr_t)(options ? options : &defaults)};
    NstStatus status = nst_ctx_init(&ctx);
    if (status != NST_OK) {
        nst_report(status, "no memory for an engine");
    } else {
        status = nst_guard(&ctx, init_engine, arg);
        if (status != NST_OK) nst_report(status, "%s", ctx.error);
        nst_ctx_dispose(&ctx);
    }
    if (status != NST_OK) {
        nst_engine_free(made);
        return status;
    }
    *engine = made;
    return NST_OK;
}

void nst_engine_free(NstEngine *engine)
{
    if (!engine || atomic_fetch_sub(&engine->users, 1) != 1) return;
    nst_pool_free(engine->pool);
    nst_cache_free(engine->cache);
    nst_operators_free(engine->operators);
    free(engine->folder);
    free(engine);
}

NstStatus nst_engine_compiler(const NstEngine *engine, const NstCompilerTable **table)
{
    NstCtx ctx;
    NstStatus status = nst_ctx_init(&ctx);
    if (status != NST_OK) return nst_report(status, "no memory to load the compiler");
    status = nst_compiler_get(&ctx, table);
    if (status != NST_OK) nst_report(status, "%s", ctx.error);
    nst_ctx_dispose(&ctx);
    if (status == NST_OK) nst_engine_log(engine, NST_LOG_TRACE, "the compiler is loaded");
    return status;
}

/* --- the cache ----------------------------------------------------------------------------------------------- */

void nst_engine_cache_counts(NstEngine *engine, NstCacheCounts *counts)
{
    NstCacheStats stats;
    if (!counts) return;
    *counts = (NstCacheCounts){0};
    if (!engine) return;
    nst_cache_stats(engine->cache, &stats);
    *counts = (NstCacheCounts){.memory_hits = stats.memory_hits,
                               .disk_hits = stats.disk_hits,
                               .misses = stats.misses,
                               .stores = stats.stores,
                               .layer_hits = stats.layer_hits,
                               .evictions = stats.evictions};
    for (int k = 0; k < NST_CACHE_REASON_COUNT; k++) counts->reasons += stats.reason[k] != 0;
}

const char *nst_engine_cache_reason(NstEngine *engine, uint64_t index, uint64_t *count)
{
    NstCacheStats stats;
    if (!engine) return NULL;
    nst_cache_stats(engine->cache, &stats);
    for (int k = 0; k < NST_CACHE_REASON_COUNT; k++) {
        if (stats.reason[k] == 0 || index-- != 0) continue;
        if (count) *count = stats.reason[k];
        return nst_cache_reason_text((NstCacheReason)k);
    }
    return NULL;
}

NstStatus nst_engine_cache_report(NstEngine *engine, int check, int remove, NstCacheFolderReport *report)
{
    if (!engine || !report) return nst_report(NST_E_INVALID, "nst_engine_cache_report: NULL is given");
    NstCacheFolder found;
    nst_cache_walk(engine->cache, check != 0, remove != 0, &found);
    memset(report, 0, sizeof *report);
    snprintf(report->folder, sizeof report->folder, "%s", engine->folder ? engine->folder : "");
    if (engine->folder && found.folder != NST_TRUSTED)
        snprintf(report->state, sizeof report->state, "%s", nst_trust_text(found.folder));
    report->plans = found.entries[NST_CACHE_PLAN];
    report->plan_bytes = found.bytes[NST_CACHE_PLAN];
    report->kernels = found.entries[NST_CACHE_KERNEL];
    report->kernel_bytes = found.bytes[NST_CACHE_KERNEL];
    report->others = found.other_files + found.entries[NST_CACHE_MODEL];
    for (int k = 0; k < NST_CACHE_REASON_COUNT; k++) report->damaged += found.bad[k];
    report->removed = remove ? report->damaged : 0;
    return NST_OK;
}
