/* support_loop.c: see support_loop.h. */
#include "tests/unit/support_loop.h"

#include <criterion/criterion.h>
#include <string.h>

NstKernel *nst_test_parse_kernel(NstCtx *ctx, const char *text)
{
    NstKernel *kernel = NULL;
    cr_assert_eq(nst_kernel_parse(ctx, ctx->arena, text, strlen(text), &kernel), NST_OK, "%s\n%s", ctx->error, text);
    cr_assert_eq(nst_kernel_verify(ctx, kernel), NST_OK, "%s\n%s", ctx->error, text);
    return kernel;
}

const char *nst_test_kernel_text(NstCtx *ctx, const NstKernel *kernel)
{
    NstText text;
    nst_text_init(&text, ctx->arena);
    nst_kernel_print(&text, kernel);
    return nst_text_get(&text);
}

/* Source: SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t bytes_of(NstCtx *ctx, const NstKernel *kernel, const NstBuffer *buffer, const int64_t *param)
{
    uint32_t n = nst_dims_sym_count(kernel->dims) + 1;
    int64_t *value = NST_NEW_ARRAY(ctx->arena, int64_t, n), elements;
    for (uint32_t k = 0; k < kernel->params.n; k++) value[kernel->params.at[k].i] = param[k];
    NstStatus status = nst_dim_eval(ctx, kernel->dims, buffer->layout.elements, value, n, &elements);
    cr_assert_eq(status, NST_OK, "%s", ctx->error);
    return (size_t)((elements * buffer->layout.bits + 7) / 8);
}

/* Floats are small multiples of 1/4; integers 0..7, so that they serve as indices. */
static void fill(const NstBuffer *buffer, char *at, size_t bytes, uint64_t seed)
{
    size_t size = (size_t)nst_dtype_info(buffer->dtype)->bytes;
    for (size_t k = 0; k + size <= bytes; k += size) {
        int64_t value = (int64_t)(next_random(&seed) % 8);
        NstScalar scalar = {.i = value};
        if (nst_dtype_is_float(buffer->dtype))
            scalar = nst_scalar_convert(buffer->dtype, NST_F64, (NstScalar){.f = (double)(value - 4) / 4}, false);
        if (buffer->dtype == NST_BOOL) scalar.i = value & 1;
        nst_scalar_store(buffer->dtype, at + k, scalar);
    }
}

static NstStatus run(NstCtx *ctx, const NstKernel *kernel, const int64_t *param, uint64_t seed, void **at,
                     size_t *bytes)
{
    for (uint32_t k = 0; k < kernel->n_args; k++) {
        const NstBuffer *buffer = nst_kernel_buffer(kernel, (NstBuf){k + 1});
        bytes[k] = bytes_of(ctx, kernel, buffer, param);
        at[k] = nst_alloc(ctx->arena, bytes[k]);
        fill(buffer, at[k], bytes[k], seed + k);
    }
    NstKernelRun given = {.buffer = at, .buffer_bytes = bytes, .param = param, .has_fma = true, .find_races = true};
    return nst_kernel_interpret(ctx, kernel, &given);
}

void nst_test_same_results(NstCtx *ctx, const NstKernel *given, const NstKernel *changed, const int64_t *param,
                           uint64_t seed)
{
    enum { MAX_ARGS = 16 };
    void *at[2][MAX_ARGS];
    size_t bytes[2][MAX_ARGS];
    const char *text = nst_test_kernel_text(ctx, changed);
    cr_assert_eq(nst_kernel_verify(ctx, changed), NST_OK, "%s\n%s", ctx->error, text);
    cr_assert(given->n_args == changed->n_args && given->n_args <= MAX_ARGS);
    NstStatus first = run(ctx, given, param, seed, at[0], bytes[0]);
    nst_ctx_clear(ctx);
    NstStatus second = run(ctx, changed, param, seed, at[1], bytes[1]);
    cr_assert_eq(first, second, "%s: %s\n%s", nst_status_name(first), ctx->error, text);
    nst_ctx_clear(ctx);
    for (uint32_t k = 0; k < given->n_args; k++) {
        const char *name = nst_kernel_buffer(given, (NstBuf){k + 1})->name;
        bool same = bytes[0][k] == bytes[1][k] && memcmp(at[0][k], at[1][k], bytes[0][k]) == 0;
        cr_assert(same, "'%s' differs (%lld)\n%s", name, (long long)param[0], text);
    }
}
