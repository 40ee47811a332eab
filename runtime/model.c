/* model.c: models as bytes with a hash, and what can be asked of the compiler about them. */
#include <stdlib.h>
#include <time.h>
#include "runtime/engine.h"
#include "runtime/run_state.h"

/* From here on a file's hash is remembered by its mark: hashing runs at some 10 GB/s, finding an entry takes 0.05 ms. */
#define REMEMBER_FROM ((size_t)4 << 20) /* bytes */
/* A file changed less than this ago may change again under the same mark: clocks of file systems are coarse. */
#define MARK_AGE_NS ((int64_t)2000000000)

static void hash_bytes(NstModel *model)
{
    NstHash hash = nst_hash128(model->bytes, model->size);
    model->hash_lo = hash.lo;
    model->hash_hi = hash.hi;
}

/* The hash of a mapped file: from the cache if the file is the same as then. */
static void hash_file(NstModel *model)
{
    NstFileMark mark;
    NstCacheHit hit;
    uint64_t sum[2];
    bool marked = model->size >= REMEMBER_FROM && nst_file_mark(NULL, model->name, &mark) == NST_OK;
    if (!marked) {
        hash_bytes(model);
        return;
    }
    if (nst_cache_find(model->engine->cache, NST_CACHE_MODEL, &mark, sizeof mark, &hit)) {
        bool good = hit.bytes == sizeof sum;
        if (good) memcpy(sum, hit.at, sizeof sum);
        nst_cache_release(model->engine->cache, &hit);
        if (good) {
            model->hash_lo = sum[0];
            model->hash_hi = sum[1];
            return;
        }
    }
    hash_bytes(model);
    int64_t now = (int64_t)time(NULL) * 1000000000;
    if (now - mark.ctime_ns < MARK_AGE_NS || now - mark.mtime_ns < MARK_AGE_NS) return;
    sum[0] = model->hash_lo;
    sum[1] = model->hash_hi;
    nst_cache_store(model->engine->cache, NST_CACHE_MODEL, &mark, sizeof mark, &(NstPart){sum, sizeof sum}, 1);
}

static NstModel *new_model(NstEngine *engine, const char *name)
{
    NstModel *model = nst_alloc_should_fail() ? NULL : calloc(1, sizeof *model);
    if (!model) return NULL;
    model->name = nst_text_copy(name);
    if (!model->name) {
        free(model);
        return NULL;
    }
    model->users = 1;
    model->engine = engine;
    atomic_fetch_add(&engine->users, 1);
    return model;
}

void nst_model_free(NstModel *model)
{
    if (!model || atomic_fetch_sub(&model->users, 1) != 1) return;
    nst_engine_free(model->engine);
    nst_os_unmap(&model->mapping);
    free(model->copy);
    free(model->folder);
    free(model->name);
    free(model);
}

NstStatus nst_model_open_file(NstEngine *engine, const char *path, NstModel **model)
{
    if (!engine || !path || !model) return nst_report(NST_E_INVALID, "nst_model_open_file: NULL is given");
    *model = NULL;
    NstModel *made = new_model(engine, path);
    if (!made) return nst_report(NST_E_NOMEM, "no memory for model '%s'", path);
    NstCtx ctx;
    NstStatus status = nst_ctx_init(&ctx);
    if (status == NST_OK) {
        status = nst_os_map_file(&ctx, path, &made->mapping);
        if (status != NST_OK) nst_report(status, "%s", ctx.error);
        nst_ctx_dispose(&ctx);
    } else {
        nst_report(status, "no memory for model '%s'", path);
    }
    const char *slash = strrchr(path, '/');
    if (status == NST_OK) {
        made->folder = nst_text_copy(slash ? path : ".");
        if (made->folder && slash) made->folder[slash - path + 1] = '\0';
        if (!made->folder) status = nst_report(NST_E_NOMEM, "no memory for model '%s'", path);
    }
    if (status != NST_OK) {
        nst_model_free(made);
        return status;
    }
    made->bytes = made->mapping.at ? (const void *)made->mapping.at : "";
    made->size = made->mapping.size;
    hash_file(made);
    *model = made;
    return NST_OK;
}

NstStatus nst_model_open_memory(NstEngine *engine, const char *name, const void *bytes, size_t size, NstModel **model)
{
    if (!engine || !name || (!bytes && size != 0) || !model)
        return nst_report(NST_E_INVALID, "nst_model_open_memory: NULL is given");
    *model = NULL;
    NstModel *made = new_model(engine, name);
    if (made) made->copy = nst_memory_new(size);
    if (!made || !made->copy) {
        nst_model_free(made);
        return nst_report(NST_E_NOMEM, "no memory for model '%s'", name);
    }
    if (size != 0) memcpy(made->copy, bytes, size);
    made->bytes = made->copy;
    made->size = size;
    hash_bytes(made);
    *model = made;
    return NST_OK;
}

/* --- options ------------------------------------------------------------------------------------------------- */

static NstStatus check_value(const NstNamedTensor *value, uint32_t k)
{
    const NstTensor *tensor = &value->tensor;
    size_t bytes = nst_dtype_size(tensor->dtype);
    if (bytes == 0)
        return nst_report(NST_E_INVALID, "value %u has element type %d, which is none", k, (int)tensor->dtype);
    if (tensor->rank < 0 || tensor->rank > NST_TENSOR_MAX_RANK || tensor->strides)
        return nst_report(NST_E_INVALID, "value %u ('%s') is not dense or has rank %d, allowed are 0 to %d", k,
                          value->name ? value->name : "", (int)tensor->rank, NST_TENSOR_MAX_RANK);
    for (int axis = 0; axis < tensor->rank; axis++)
        if (tensor->shape[axis] < 0 || __builtin_mul_overflow(bytes, (size_t)tensor->shape[axis], &bytes))
            return nst_report(NST_E_INVALID, "value %u has an impossible shape", k);
    if (bytes != tensor->bytes || (bytes != 0 && !tensor->data))
        return nst_report(NST_E_INVALID, "value %u is given %zu bytes, its shape needs %zu", k,
                          tensor->data ? tensor->bytes : 0, bytes);
    return NST_OK;
}

NstStatus nst_session_options_check(const NstSessionOptions *options)
{
    if ((!options->shapes && options->n_shapes != 0) || (!options->values && options->n_values != 0) ||
        (!options->overridable && options->n_overridable != 0))
        return nst_report(NST_E_INVALID,
                          "options: %u shapes, %u values and %u overridable are given, and NULL for them",
                          options->n_shapes, options->n_values, options->n_overridable);
    for (uint32_t k = 0; k < options->n_shapes; k++) {
        const NstInputShape *shape = &options->shapes[k];
        if (!shape->name) return nst_report(NST_E_INVALID, "declared shape %u has no name", k);
        if (shape->rank < 0 || shape->rank > NST_TENSOR_MAX_RANK)
            return nst_report(NST_E_INVALID, "the declared shape of '%s' has rank %d, allowed are 0 to %d", shape->name,
                              (int)shape->rank, NST_TENSOR_MAX_RANK);
        for (uint32_t before = 0; before < k; before++)
            if (strcmp(options->shapes[before].name, shape->name) == 0)
                return nst_report(NST_E_INVALID, "the shape of '%s' is declared twice", shape->name);
    }
    for (uint32_t k = 0; k < options->n_overridable; k++)
        if (!options->overridable[k]) return nst_report(NST_E_INVALID, "overridable initializer %u has no name", k);
    for (uint32_t k = 0; k < options->n_values; k++) NST_TRY(check_value(&options->values[k], k));
    return NST_OK;
}

/* --- requests ------------------------------------------------------------------------------------------------ */

static bool find_kernel(void *arg, const void *material, size_t n, NstCacheHit *hit)
{
    return nst_cache_find(arg, NST_CACHE_KERNEL, material, n, hit);
}

static void release_kernel(void *arg, NstCacheHit *hit)
{
    nst_cache_release(arg, hit);
}

static void store_kernel(void *arg, const void *material, size_t n, const NstPart *parts, int n_parts)
{
    nst_cache_store(arg, NST_CACHE_KERNEL, material, n, parts, n_parts);
}

static void log_warning(void *arg, const char *text)
{
    const NstModel *model = arg;
    nst_engine_log(model->engine, NST_LOG_WARNING, "'%s': %s", model->name, text);
}

static void tell_progress(void *arg, uint32_t done, uint32_t total)
{
    const NstModel *model = arg;
    model->engine->progress(model->engine->progress_arg, model->name, done, total);
}

NstCompileRequest nst_model_request(const NstModel *model, const NstSessionOptions *options, char *error, size_t n)
{
    static const NstSessionOptions defaults;
    NstEngine *engine = model->engine;
    return (NstCompileRequest){.name = model->name,
                               .folder = model->folder,
                               .file = model->folder ? model->name : NULL,
                               .bytes = model->bytes,
                               .size = model->size,
                               .target = &engine->target,
                               .options = options ? options : &defaults,
                               .operators = atomic_load(&engine->operators),
                               .kernels = {engine->cache, find_kernel, release_kernel, store_kernel},
                               .threads = nst_pool_threads(engine->pool),
                               .error = error,
                               .error_bytes = n,
                               .warn = log_warning,
                               .warn_arg = (void *)(uintptr_t)model,
                               .progress = engine->progress ? tell_progress : NULL,
                               .progress_arg = (void *)(uintptr_t)model};
}

NstStatus nst_model_dump(NstModel *model, const NstSessionOptions *options, NstDumpStage stage, const char *kernel,
                         char **text)
{
    if (!model || !text) return nst_report(NST_E_INVALID, "nst_model_dump: NULL is given");
    *text = NULL;
    if (options) NST_TRY(nst_session_options_check(options));
    const NstCompilerTable *table;
    NST_TRY(nst_engine_compiler(model->engine, &table));
    char error[NST_ERROR_TEXT] = "";
    NstCompileRequest request = nst_model_request(model, options, error, sizeof error);
    NstBlob blob = {NULL, 0};
    NstStatus status = table->dump(&request, stage, kernel, &blob);
    if (status != NST_OK) return nst_report(status, "%s", error);
    *text = blob.at;
    return NST_OK;
}

NstStatus nst_text_optimise(NstEngine *engine, const char *name, const char *source, const char *passes, char **text)
{
    if (!engine || !name || !source || !passes || !text)
        return nst_report(NST_E_INVALID, "nst_text_optimise: NULL is given");
    *text = NULL;
    const NstCompilerTable *table;
    NST_TRY(nst_engine_compiler(engine, &table));
    char error[NST_ERROR_TEXT] = "";
    static const NstSessionOptions defaults;
    NstCompileRequest request = {.name = name,
                                 .bytes = source,
                                 .size = strlen(source),
                                 .target = &engine->target,
                                 .options = &defaults,
                                 .threads = 1,
                                 .error = error,
                                 .error_bytes = sizeof error};
    NstBlob blob = {NULL, 0};
    NstStatus status = table->optimise(&request, passes, &blob);
    if (status != NST_OK) return nst_report(status, "%s", error);
    *text = blob.at;
    return NST_OK;
}

NstStatus nst_tensor_read_onnx(NstEngine *engine, const char *name, const void *bytes, size_t size, NstTensor *tensor)
{
    uint32_t n;
    if (!tensor) return nst_report(NST_E_INVALID, "nst_tensor_read_onnx: NULL is given");
    *tensor = (NstTensor){0};
    return nst_values_read_onnx(engine, name, "", bytes, size, tensor, 1, &n);
}

NstStatus nst_values_read_onnx(NstEngine *engine, const char *name, const char *type, const void *bytes, size_t size,
                               NstTensor *tensors, uint32_t room, uint32_t *n)
{
    if (!engine || !name || !type || (!bytes && size != 0) || (!tensors && room != 0) || !n)
        return nst_report(NST_E_INVALID, "nst_values_read_onnx: NULL is given");
    *n = 0;
    const NstCompilerTable *table;
    NST_TRY(nst_engine_compiler(engine, &table));
    char error[NST_ERROR_TEXT] = "";
    static const NstSessionOptions defaults;
    NstCompileRequest request = {.name = name,
                                 .bytes = bytes,
                                 .size = size,
                                 .target = &engine->target,
                                 .options = &defaults,
                                 .threads = 1,
                                 .error = error,
                                 .error_bytes = sizeof error};
    NstStatus status = table->values(&request, type, tensors, room, n);
    return status == NST_OK ? status : nst_report(status, "%s", error);
}

void nst_text_free(char *text)
{
    free(text);
}
