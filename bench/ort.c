/* ort.c: loads libonnxruntime.so and calls it through its table of functions, copied once into typed
 * pointers. memcpy turns table entries into function pointers, for ISO C has no cast from an object pointer
 * to one. */
#include "bench/ort.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ir/base/dtype.h"

typedef struct OrtStatus OrtStatus;
typedef struct OrtEnv OrtEnv;
typedef struct OrtOptions OrtOptions;
typedef struct OrtSession OrtSession;
typedef struct OrtValue OrtValue;
typedef struct OrtShape OrtShape;
typedef struct OrtMemory OrtMemory;
typedef struct OrtAllocator OrtAllocator;

enum {
    API_VERSION = 14, /* the oldest version asked for; libraries serve every version up to their own */
    LOG_ERRORS = 3,
    OPTIMISE_ALL = 99,
    ARENA_ALLOCATOR = 1,
    DEFAULT_MEMORY = 0
};

typedef struct Api {
#define ORT_SLOT(position, result, name, arguments) result(*name) arguments;
#include "bench/ort_slots.def"
#undef ORT_SLOT
} Api;

/* What OrtGetApiBase returns. */
typedef struct ApiBase {
    const void *const *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
} ApiBase;

struct NstOrt {
    Api api;
    const char *version;
    OrtEnv *env;
    OrtMemory *memory;
    OrtAllocator *allocator; /* the library's own, never released */
};

struct NstOrtSession {
    NstOrt *ort;
    OrtSession *session;
    int n_in, n_out;
    char *in_names[NST_ORT_MAX_VALUES], *out_names[NST_ORT_MAX_VALUES];
    OrtValue *ins[NST_ORT_MAX_VALUES], *outs[NST_ORT_MAX_VALUES];
};

/* Turns a status of the library into ours and releases it. */
static NstStatus check(NstCtx *ctx, const NstOrt *ort, OrtStatus *status, const char *what)
{
    if (!status) return NST_OK;
    nst_fail(ctx, NST_E_COMPILER, "ONNX Runtime, %s: %s", what, ort->api.GetErrorMessage(status));
    ort->api.ReleaseStatus(status);
    return NST_E_COMPILER;
}

/* -- library
 * ---------------------------------------------------------------------------------------------------- */

static void copy_table(Api *api, const void *const *table)
{
#define ORT_SLOT(position, result, name, arguments) memcpy(&api->name, &table[position], sizeof api->name);
#include "bench/ort_slots.def"
#undef ORT_SLOT
}

static NstStatus start(NstCtx *ctx, NstOrt *ort)
{
    NST_TRY(check(ctx, ort, ort->api.CreateEnv(LOG_ERRORS, "nestor-bench", &ort->env), "CreateEnv"));
    NST_TRY(check(ctx, ort, ort->api.CreateCpuMemoryInfo(ARENA_ALLOCATOR, DEFAULT_MEMORY, &ort->memory),
                  "CreateCpuMemoryInfo"));
    return check(ctx, ort, ort->api.GetAllocatorWithDefaultOptions(&ort->allocator), "GetAllocatorWithDefaultOptions");
}

NstStatus nst_ort_load(NstCtx *ctx, const char *path, NstOrt **out)
{
    *out = NULL;
    if (!path) path = NST_ORT_LIBRARY;
    NST_CHECK(ctx, access(path, R_OK) == 0, NST_E_NOT_FOUND, "ONNX Runtime is not at %s (bench/fetch_ort.sh brings it)",
              path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    NST_CHECK(ctx, library, NST_E_UNSUPPORTED, "%s", dlerror());
    void *symbol = dlsym(library, "OrtGetApiBase");
    NST_CHECK(ctx, symbol, NST_E_UNSUPPORTED, "%s has no OrtGetApiBase: not ONNX Runtime", path);
    const ApiBase *(*get_base)(void);
    memcpy(&get_base, &symbol, sizeof get_base);
    const ApiBase *base = get_base();
    const void *const *table = base->get_api(API_VERSION);
    NST_CHECK(ctx, table, NST_E_UNSUPPORTED, "%s is ONNX Runtime %s, which lacks version %d of the C API", path,
              base->get_version(), API_VERSION);
    NstOrt *ort = calloc(1, sizeof *ort);
    NST_CHECK(ctx, ort, NST_E_NOMEM, "no memory for %zu bytes", sizeof *ort);
    copy_table(&ort->api, table);
    ort->version = base->get_version();
    NstStatus status = start(ctx, ort);
    if (status != NST_OK) {
        nst_ort_unload(ort);
        return status;
    }
    *out = ort;
    return NST_OK;
}

void nst_ort_unload(NstOrt *ort)
{
    if (!ort) return;
    if (ort->memory) ort->api.ReleaseMemoryInfo(ort->memory);
    if (ort->env) ort->api.ReleaseEnv(ort->env);
    free(ort);
}

const char *nst_ort_version(const NstOrt *ort)
{
    return ort->version;
}

/* -- session
 * ---------------------------------------------------------------------------------------------------- */

static NstStatus set_options(NstCtx *ctx, NstOrt *ort, OrtOptions *to, NstOrtOptions options)
{
    const Api *api = &ort->api;
    NST_TRY(check(ctx, ort, api->SetSessionGraphOptimizationLevel(to, OPTIMISE_ALL), "optimisation level"));
    NST_TRY(check(ctx, ort, api->SetIntraOpNumThreads(to, options.threads), "threads inside an operator"));
    NST_TRY(check(ctx, ort, api->SetInterOpNumThreads(to, 1), "threads between operators"));
    if (!options.no_spin) return NST_OK;
    return check(ctx, ort, api->AddSessionConfigEntry(to, "session.intra_op.allow_spinning", "0"), "spinning");
}

/* Fills counts and names. */
static NstStatus read_interface(NstCtx *ctx, NstOrtSession *s)
{
    NstOrt *ort = s->ort;
    const Api *api = &ort->api;
    size_t n_in = 0, n_out = 0;
    NST_TRY(check(ctx, ort, api->SessionGetInputCount(s->session, &n_in), "number of inputs"));
    NST_TRY(check(ctx, ort, api->SessionGetOutputCount(s->session, &n_out), "number of outputs"));
    NST_CHECK(ctx, n_in <= NST_ORT_MAX_VALUES && n_out <= NST_ORT_MAX_VALUES, NST_E_LIMIT,
              "model has %zu inputs and %zu outputs, at most %d of each are allowed", n_in, n_out, NST_ORT_MAX_VALUES);
    s->n_in = (int)n_in, s->n_out = (int)n_out;
    for (size_t i = 0; i < n_in; i++)
        NST_TRY(
            check(ctx, ort, api->SessionGetInputName(s->session, i, ort->allocator, &s->in_names[i]), "input name"));
    for (size_t i = 0; i < n_out; i++)
        NST_TRY(
            check(ctx, ort, api->SessionGetOutputName(s->session, i, ort->allocator, &s->out_names[i]), "output name"));
    return NST_OK;
}

/* Where a model comes from: a file if path is set, else bytes. */
typedef struct Source {
    const char *path;
    const void *bytes;
    size_t size;
} Source;

static NstStatus create(NstCtx *ctx, NstOrtSession *s, Source from, NstOrtOptions options)
{
    NstOrt *ort = s->ort;
    const Api *api = &ort->api;
    OrtOptions *native = NULL;
    NST_TRY(check(ctx, ort, api->CreateSessionOptions(&native), "CreateSessionOptions"));
    NstStatus status = set_options(ctx, ort, native, options);
    if (status == NST_OK) {
        OrtStatus *made = from.path ? api->CreateSession(ort->env, from.path, native, &s->session)
                                    : api->CreateSessionFromArray(ort->env, from.bytes, from.size, native, &s->session);
        status = check(ctx, ort, made, "CreateSession");
    }
    api->ReleaseSessionOptions(native);
    NST_TRY(status);
    return read_interface(ctx, s);
}

static NstStatus open_source(NstCtx *ctx, NstOrt *ort, Source from, NstOrtOptions options, NstOrtSession **out)
{
    *out = NULL;
    NST_CHECK(ctx, options.threads >= 1, NST_E_INVALID, "%d threads given, at least 1 is allowed", options.threads);
    NstOrtSession *s = calloc(1, sizeof *s);
    NST_CHECK(ctx, s, NST_E_NOMEM, "no memory for %zu bytes", sizeof *s);
    s->ort = ort;
    NstStatus status = create(ctx, s, from, options);
    if (status != NST_OK) {
        nst_ort_close(s);
        return status;
    }
    *out = s;
    return NST_OK;
}

NstStatus nst_ort_open_file(NstCtx *ctx, NstOrt *ort, const char *path, NstOrtOptions options, NstOrtSession **session)
{
    return open_source(ctx, ort, (Source){.path = path}, options, session);
}

NstStatus nst_ort_open_bytes(NstCtx *ctx, NstOrt *ort, const void *bytes, size_t size, NstOrtOptions options,
                             NstOrtSession **session)
{
    return open_source(ctx, ort, (Source){.bytes = bytes, .size = size}, options, session);
}

static void release_value(NstOrt *ort, OrtValue **value)
{
    if (*value) ort->api.ReleaseValue(*value);
    *value = NULL;
}

static void release_name(NstOrt *ort, char *name)
{
    if (!name) return;
    OrtStatus *status = ort->api.AllocatorFree(ort->allocator, name);
    if (status) ort->api.ReleaseStatus(status);
}

void nst_ort_close(NstOrtSession *s)
{
    if (!s) return;
    for (int i = 0; i < NST_ORT_MAX_VALUES; i++) {
        release_value(s->ort, &s->ins[i]);
        release_value(s->ort, &s->outs[i]);
        release_name(s->ort, s->in_names[i]);
        release_name(s->ort, s->out_names[i]);
    }
    if (s->session) s->ort->api.ReleaseSession(s->session);
    free(s);
}

int nst_ort_input_count(const NstOrtSession *s)
{
    return s->n_in;
}

int nst_ort_output_count(const NstOrtSession *s)
{
    return s->n_out;
}

const char *nst_ort_input_name(const NstOrtSession *s, int index)
{
    return index >= 0 && index < s->n_in ? s->in_names[index] : NULL;
}

const char *nst_ort_output_name(const NstOrtSession *s, int index)
{
    return index >= 0 && index < s->n_out ? s->out_names[index] : NULL;
}

/* -- run
 * -------------------------------------------------------------------------------------------------------- */

/* Bytes of a tensor in ONNX storage (elements of less than a byte are packed). */
static NstStatus tensor_bytes(NstCtx *ctx, const NstOrtTensor *t, size_t *bytes)
{
    NstDtype type = nst_dtype_from_onnx(t->element);
    NST_CHECK(ctx, type != NST_DTYPE_NONE, NST_E_INVALID, "element type %d is none of ONNX", t->element);
    NST_CHECK(ctx, type != NST_STR, NST_E_UNSUPPORTED, "string tensors cannot be given to ONNX Runtime here");
    NST_CHECK(ctx, t->rank >= 0 && t->rank <= NST_ORT_MAX_RANK, NST_E_INVALID, "rank %d given, 0 to %d are allowed",
              t->rank, NST_ORT_MAX_RANK);
    size_t bits = (size_t)nst_dtype_info(type)->bits;
    for (int i = 0; i < t->rank; i++)
        NST_CHECK(ctx, t->dims[i] >= 0 && !__builtin_mul_overflow(bits, (size_t)t->dims[i], &bits), NST_E_INVALID,
                  "dim %d is %lld: negative, or the tensor is too large", i, (long long)t->dims[i]);
    *bytes = bits / 8 + (bits % 8 != 0);
    return NST_OK;
}

NstStatus nst_ort_set_input(NstCtx *ctx, NstOrtSession *s, int index, const NstOrtTensor *t)
{
    NST_CHECK(ctx, index >= 0 && index < s->n_in, NST_E_INVALID, "input %d given, the model has %d", index, s->n_in);
    size_t bytes = 0;
    NST_TRY(tensor_bytes(ctx, t, &bytes));
    for (int i = 0; i < s->n_out; i++) release_value(s->ort, &s->outs[i]);
    release_value(s->ort, &s->ins[index]);
    OrtStatus *made = s->ort->api.CreateTensorWithDataAsOrtValue(s->ort->memory, t->data, bytes, t->dims,
                                                                 (size_t)t->rank, t->element, &s->ins[index]);
    return check(ctx, s->ort, made, "CreateTensorWithDataAsOrtValue");
}

NstStatus nst_ort_run(NstCtx *ctx, NstOrtSession *s)
{
    for (int i = 0; i < s->n_in; i++)
        NST_CHECK(ctx, s->ins[i], NST_E_INVALID, "input %d '%s' was not set", i, s->in_names[i]);
    OrtStatus *status =
        s->ort->api.Run(s->session, NULL, (const char *const *)s->in_names, (const OrtValue *const *)s->ins,
                        (size_t)s->n_in, (const char *const *)s->out_names, (size_t)s->n_out, s->outs);
    return check(ctx, s->ort, status, "Run");
}

static NstStatus read_shape(NstCtx *ctx, const NstOrt *ort, const OrtShape *shape, NstOrtTensor *t)
{
    size_t rank = 0;
    NST_TRY(check(ctx, ort, ort->api.GetDimensionsCount(shape, &rank), "GetDimensionsCount"));
    NST_CHECK(ctx, rank <= NST_ORT_MAX_RANK, NST_E_UNSUPPORTED, "output has rank %zu, at most %d is allowed", rank,
              NST_ORT_MAX_RANK);
    t->rank = (int)rank;
    NST_TRY(check(ctx, ort, ort->api.GetTensorElementType(shape, &t->element), "GetTensorElementType"));
    return check(ctx, ort, ort->api.GetDimensions(shape, t->dims, rank), "GetDimensions");
}

NstStatus nst_ort_output(NstCtx *ctx, NstOrtSession *s, int index, NstOrtTensor *t)
{
    const NstOrt *ort = s->ort;
    NST_CHECK(ctx, index >= 0 && index < s->n_out, NST_E_INVALID, "output %d given, the model has %d", index, s->n_out);
    NST_CHECK(ctx, s->outs[index], NST_E_INVALID, "output %d was read before a run", index);
    int is_tensor = 0;
    NST_TRY(check(ctx, ort, ort->api.IsTensor(s->outs[index], &is_tensor), "IsTensor"));
    NST_CHECK(ctx, is_tensor, NST_E_UNSUPPORTED, "output '%s' is no tensor", s->out_names[index]);
    OrtShape *shape = NULL;
    NST_TRY(check(ctx, ort, ort->api.GetTensorTypeAndShape(s->outs[index], &shape), "GetTensorTypeAndShape"));
    NstStatus status = read_shape(ctx, ort, shape, t);
    ort->api.ReleaseTensorTypeAndShapeInfo(shape);
    NST_TRY(status);
    NST_CHECK(ctx, nst_dtype_from_onnx(t->element) != NST_STR, NST_E_UNSUPPORTED, "output '%s' holds strings",
              s->out_names[index]);
    return check(ctx, ort, ort->api.GetTensorMutableData(s->outs[index], &t->data), "GetTensorMutableData");
}
