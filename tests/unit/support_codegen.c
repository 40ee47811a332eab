/* support_codegen.c: see support_codegen.h. */
#include "tests/unit/support_codegen.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include "tests/unit/support_amx.h"

#define MAX_THREADS 8

struct NstBarrier {
    pthread_mutex_t mutex;
    pthread_cond_t all;
    int waiting;
    int round;
};

static int32_t wait_for_all(struct NstBarrier *barrier, int32_t threads)
{
    pthread_mutex_lock(&barrier->mutex);
    int round = barrier->round;
    if (++barrier->waiting == threads) {
        barrier->waiting = 0;
        barrier->round++;
        pthread_cond_broadcast(&barrier->all);
    }
    while (round == barrier->round) pthread_cond_wait(&barrier->all, &barrier->mutex);
    pthread_mutex_unlock(&barrier->mutex);
    return 0;
}

static float half_to_float(uint16_t bits)
{
    return nst_narrow_to_f32(NST_F16, bits);
}

static uint16_t float_to_half(float value)
{
    return (uint16_t)nst_f32_to_narrow(NST_F16, value, false);
}

static uint16_t double_to_half(double value)
{
    return (uint16_t)nst_f64_to_narrow(NST_F16, value, false);
}

static void copy_bytes(void *to, const void *from, int64_t bytes)
{
    memmove(to, from, (size_t)bytes);
}

static void fill_bytes(void *to, int32_t byte, int64_t bytes)
{
    memset(to, byte, (size_t)bytes);
}

static double scale_double(double a, double b)
{
    if (isinf(b)) return isnan(a) ? a : b > 0 ? a * INFINITY : a * 0;
    return isnan(b) ? b : scalbn(a, (int)fmax(-5000, fmin(5000, floor(b))));
}

static float scale_float(float a, float b)
{
    if (isinf(b) || isnan(b)) return (float)scale_double((double)a, (double)b);
    return scalbnf(a, (int)fmaxf(-5000, fminf(5000, floorf(b))));
}

static const NstHelpers helpers = {
    .barrier = wait_for_all,
    .fmod_f32 = fmodf,
    .fmod_f64 = fmod,
    .round_f32 = rintf,
    .round_f64 = rint,
    .floor_f32 = floorf,
    .floor_f64 = floor,
    .ceil_f32 = ceilf,
    .ceil_f64 = ceil,
    .trunc_f32 = truncf,
    .trunc_f64 = trunc,
    .fma_f32 = fmaf,
    .fma_f64 = fma,
    .f16_to_f32 = half_to_float,
    .f32_to_f16 = float_to_half,
    .f64_to_f16 = double_to_half,
    .copy = copy_bytes,
    .fill = fill_bytes,
    .scale_f32 = scale_float,
    .scale_f64 = scale_double,
};

NstKernel *support_parse(NstCtx *ctx, const char *text)
{
    NstKernel *kernel = NULL;
    cr_assert_eq(nst_kernel_parse(ctx, ctx->arena, text, strlen(text), &kernel), NST_OK, "%s\n%s", ctx->error, text);
    cr_assert_eq(nst_kernel_verify(ctx, kernel), NST_OK, "%s\n%s", ctx->error, text);
    return kernel;
}

Compiled support_compile(NstCtx *ctx, const NstKernel *kernel, const NstTarget *target, bool bounds_checks)
{
    Compiled compiled = {.mapping = {NULL, 0}};
    NstCodegenOptions options = {.bounds_checks = bounds_checks};
    NstStatus status = nst_codegen_compile(ctx, ctx->arena, &kernel, 1, target, &options, &compiled.code);
    cr_assert_eq(status, NST_OK, "%s", ctx->error);
    status = nst_os_map_code(ctx, compiled.code.bytes, compiled.code.size, &compiled.mapping);
    cr_assert_eq(status, NST_OK, "%s", ctx->error);
    const unsigned char *entry = compiled.mapping.at + compiled.code.kernel[0].entry;
    memcpy(&compiled.run, &entry, sizeof compiled.run);
    return compiled;
}

void support_release(Compiled *compiled)
{
    nst_os_unmap(&compiled->mapping);
}

/* --- data ------------------------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double random_float(uint64_t *state, bool specials)
{
    static const double special[] = {0.0,
                                     -0.0,
                                     1.0,
                                     -1.0,
                                     (double)INFINITY,
                                     (double)-INFINITY,
                                     (double)NAN,
                                     1e-40,
                                     -1e-40,
                                     3.4e38,
                                     -3.4e38,
                                     2147483648.0,
                                     4294967296.0,
                                     -2147483649.0,
                                     0.5,
                                     1.5,
                                     2.5,
                                     -0.5,
                                     65504.0,
                                     65520.0,
                                     448.0,
                                     464.0,
                                     480.0,
                                     57344.0,
                                     61440.0,
                                     9.3e18,
                                     1.9e19,
                                     255.5,
                                     127.5,
                                     -128.5,
                                     1e-7,
                                     6e-8,
                                     8388609.0,
                                     1e300};
    uint64_t bits = next_random(state);
    if (specials && bits % 3 == 0) return special[(bits >> 8) % (sizeof special / sizeof *special)];
    if (specials && bits % 3 == 1) return ldexp((double)(int64_t)(bits >> 11) / 4e15, (int)(bits % 97) - 48);
    return ((double)(bits >> 11) / 9007199254740992.0 - 0.5) * 4;
}

static NstScalar random_scalar(NstDtype type, uint64_t *state, bool specials, int64_t index_limit)
{
    NstScalar value = {.bits = 0};
    if (type == NST_F32 || type == NST_F64) {
        value.f = random_float(state, specials);
        return type == NST_F32 ? nst_scalar_convert(NST_F32, NST_F64, value, false) : value;
    }
    if (nst_dtype_is_float(type)) {
        if (specials) return (NstScalar){.bits = next_random(state) & ((1u << nst_dtype_info(type)->bits) - 1)};
        value.f = random_float(state, false);
        return nst_scalar_convert(type, NST_F64, value, true);
    }
    uint64_t bits = next_random(state);
    if (index_limit > 0)
        bits %= (uint64_t)index_limit;
    else if (bits % 4 == 0)
        bits = (bits >> 8) % 5 - 2;
    else if (bits % 16 == 1)
        bits = (uint64_t)1 << (nst_dtype_info(type)->bits - 1);
    value.i = (int64_t)bits;
    if (!nst_scalar_can_convert(type, NST_I64)) return value; /* strings and complex numbers move as bits */
    return nst_scalar_convert(type, NST_I64, value, false);
}

static int64_t eval_elements(NstCtx *ctx, const NstKernel *kernel, const NstBuffer *buffer, const int64_t *param)
{
    uint32_t n = nst_dims_sym_count(kernel->dims) + 1;
    int64_t *value = NST_NEW_ARRAY(ctx->arena, int64_t, n), elements;
    for (uint32_t k = 0; k < kernel->params.n; k++) value[kernel->params.at[k].i] = param[k];
    cr_assert_eq(nst_dim_eval(ctx, kernel->dims, buffer->layout.elements, value, n, &elements), NST_OK, "%s",
                 ctx->error);
    return elements;
}

Data support_data(NstCtx *ctx, const NstKernel *kernel, const int64_t *param, uint64_t seed, bool specials,
                  int64_t index_limit)
{
    Data data = {.n = kernel->n_args};
    data.at = NST_NEW_ARRAY(ctx->arena, void *, data.n);
    data.bytes = NST_NEW_ARRAY(ctx->arena, size_t, data.n);
    for (uint32_t k = 0; k < data.n; k++) {
        const NstBuffer *buffer = nst_kernel_buffer(kernel, (NstBuf){k + 1});
        int64_t n = eval_elements(ctx, kernel, buffer, param), bytes = nst_dtype_info(buffer->dtype)->bytes;
        bool is_packed = buffer->layout.bits < 8;
        data.bytes[k] = is_packed ? (size_t)(n * buffer->layout.bits + 7) / 8 : (size_t)(n * bytes);
        data.at[k] = nst_alloc_aligned(ctx->arena, data.bytes[k] + 64, 64);
        bool is_index = buffer->access == NST_ACCESS_IN && (buffer->dtype == NST_I64 || buffer->dtype == NST_I32);
        for (int64_t i = 0; i < n && !is_packed; i++)
            nst_scalar_store(buffer->dtype, (char *)data.at[k] + i * bytes,
                             random_scalar(buffer->dtype, &seed, specials, is_index ? index_limit : 0));
        for (size_t i = 0; is_packed && i < data.bytes[k]; i++)
            ((uint8_t *)data.at[k])[i] = (uint8_t)next_random(&seed);
    }
    return data;
}

Data support_copy(NstCtx *ctx, const Data *data)
{
    Data copy = *data;
    copy.at = NST_NEW_ARRAY(ctx->arena, void *, data->n);
    for (uint32_t k = 0; k < data->n; k++) {
        copy.at[k] = nst_alloc_aligned(ctx->arena, data->bytes[k] + 64, 64);
        memcpy(copy.at[k], data->at[k], data->bytes[k]);
    }
    return copy;
}

static bool is_nan(NstDtype type, NstScalar value)
{
    if (type == NST_F32 || type == NST_F64) return value.f != value.f;
    return nst_dtype_is_float(type) && isnan(nst_narrow_to_f32(type, (uint32_t)value.bits));
}

const char *support_difference(NstCtx *ctx, const NstKernel *kernel, const Data *a, const Data *b)
{
    for (uint32_t k = 0; k < a->n; k++) {
        const NstBuffer *buffer = nst_kernel_buffer(kernel, (NstBuf){k + 1});
        size_t bytes = (size_t)nst_dtype_info(buffer->dtype)->bytes;
        for (size_t i = 0; i + bytes <= a->bytes[k] && bytes <= 8; i += bytes) {
            NstScalar x = nst_scalar_load(buffer->dtype, (char *)a->at[k] + i);
            NstScalar y = nst_scalar_load(buffer->dtype, (char *)b->at[k] + i);
            if (x.bits == y.bits || (is_nan(buffer->dtype, x) && is_nan(buffer->dtype, y))) continue;
            return nst_format(ctx->arena, "%s[%zu]: %#llx (%g) and %#llx (%g)", buffer->name, i / bytes,
                              (unsigned long long)x.bits, x.f, (unsigned long long)y.bits, y.f);
        }
    }
    return NULL;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

typedef struct Thread {
    const Compiled *compiled;
    NstKernelArgs args;
    int32_t status;
    bool left_tiles;
} Thread;

static void *run_thread(void *arg)
{
    Thread *thread = arg;
    thread->status = thread->compiled->run(&thread->args);
    thread->left_tiles = support_amx_is_configured();
    return NULL;
}

NstStatus support_run(NstCtx *ctx, const Compiled *compiled, const Data *data, const int64_t *param, int threads,
                      NstErrorSlot *error, const int32_t *cancel)
{
    static const int32_t never = 0;
    struct NstBarrier barrier = {.mutex = PTHREAD_MUTEX_INITIALIZER, .all = PTHREAD_COND_INITIALIZER};
    NstErrorSlot ignored = {0};
    Thread thread[MAX_THREADS];
    pthread_t id[MAX_THREADS];
    int64_t scratch, shared;
    NstStatus status = nst_kernel_code_memory(ctx, &compiled->code.kernel[0], param, &scratch, &shared);
    cr_assert_eq(status, NST_OK, "%s", ctx->error);
    char *common = nst_alloc_aligned(ctx->arena, (size_t)shared + 64, 64);
    for (int k = 0; k < threads; k++) {
        char *own = nst_alloc_aligned(ctx->arena, (size_t)scratch + 64, 64);
        thread[k] = (Thread){compiled,
                             {data->at, param, k, threads, &barrier, own, common, error ? error : &ignored,
                              cancel ? cancel : &never, &helpers},
                             0,
                             false};
        if (k > 0) cr_assert_eq(pthread_create(&id[k], NULL, run_thread, &thread[k]), 0, "no thread %d", k);
    }
    run_thread(&thread[0]);
    for (int k = 0; k < threads; k++) {
        if (k > 0) pthread_join(id[k], NULL);
        if (thread[k].status != NST_OK) status = (NstStatus)thread[k].status;
        cr_assert_not(thread[k].left_tiles, "thread %d returns with tiles set up", k);
    }
    return status;
}

void support_check(NstCtx *ctx, const NstKernel *kernel, const int64_t *param, const char *target_name,
                   bool bounds_checks, uint64_t seed, bool specials, int64_t index_limit)
{
    NstTarget target;
    if (support_runnable_target(ctx, target_name, &target))
        support_check_on(ctx, kernel, param, &target, bounds_checks, seed, specials, index_limit);
}

void support_check_on(NstCtx *ctx, const NstKernel *kernel, const int64_t *param, const NstTarget *target,
                      bool bounds_checks, uint64_t seed, bool specials, int64_t index_limit)
{
    const char *target_name = nst_target_level_name(target->level);
    Data start = support_data(ctx, kernel, param, seed, specials, index_limit);
    Data expected = support_copy(ctx, &start);
    NstKernelRun run = {.buffer = expected.at,
                        .buffer_bytes = expected.bytes,
                        .param = param,
                        .has_fma = target->has_fma,
                        .find_races = true};
    cr_assert_eq(nst_kernel_interpret(ctx, kernel, &run), NST_OK, "%s: %s", kernel->name, ctx->error);
    Compiled compiled = support_compile(ctx, kernel, target, bounds_checks);
    for (int threads = 1; threads <= 2; threads++) {
        Data data = support_copy(ctx, &start);
        NstErrorSlot error = {0};
        NstStatus status = support_run(ctx, &compiled, &data, param, threads, &error, NULL);
        cr_assert_eq(status, NST_OK, "%s on %s, %d threads: %s, statement %u, value %lld, limit %lld", kernel->name,
                     target_name, threads, nst_status_name(status), error.origin, (long long)error.value,
                     (long long)error.limit);
        const char *difference = support_difference(ctx, kernel, &expected, &data);
        cr_assert_null(difference, "%s on %s%s, %d threads: interpreted and compiled: %s", kernel->name, target_name,
                       bounds_checks ? " with checks" : "", threads, difference);
    }
    support_release(&compiled);
}
