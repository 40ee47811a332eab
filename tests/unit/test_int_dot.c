/* test_int_dot.c: 8-bit contractions through packed dot products are exact: every mix of signs, with and without zero points,
 * lengths of k that are no multiple of a word, constant and run-time operands. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "passes/int_dot.h"
#include "tests/unit/support_nest.h"

static const char text_form[] =
    "kernel q() in a: %s[5, %d], %s in b: %s[%d, 7], in za: i32[5], in zb: i32[7], out c: i32[5, 7] {\n"
    "  for i in 0..5 {\n for j in 0..7 {\n reg s: i32[]\n s[] = 0i32\n for k in 0..%d {\n"
    "   update s[] = s[] + (convert<i32>(a[i, k])%s) * (convert<i32>(b[k, j])%s) merge a + b from 0i32\n }\n"
    "   c[i, j] = s[]\n } }\n}\n";

/* Runs groups in order over shared memory; data[module buffer]. */
static void run_group(NstCtx *ctx, NstModule *module, const NstGroup *group, void **data)
{
    NstKernel *kernel;
    NstBuf *arg;
    cr_assert_eq(nst_group_to_kernel(ctx, module, group, &kernel, &arg), NST_OK, "%s", ctx->error);
    cr_assert_eq(nst_kernel_verify(ctx, kernel), NST_OK, "%s", ctx->error);
    void **buffer = NST_NEW_ARRAY(ctx->arena, void *, kernel->n_args);
    size_t *bytes = NST_NEW_ARRAY(ctx->arena, size_t, kernel->n_args);
    for (uint32_t k = 0; k < kernel->n_args; k++) {
        const NstBuffer *b = nst_kernel_buffer(kernel, (NstBuf){k + 1});
        int64_t elements = 0;
        cr_assert_eq(nst_dim_eval(ctx, kernel->dims, b->layout.elements, NULL, 0, &elements), NST_OK);
        bytes[k] = (size_t)elements * (size_t)nst_dtype_info(b->dtype)->bytes;
        if (!data[arg[k].i]) data[arg[k].i] = nst_alloc_aligned(ctx->arena, bytes[k] + 8, 64);
        buffer[k] = data[arg[k].i];
    }
    NstKernelRun run = {.buffer = buffer, .buffer_bytes = bytes, .has_fma = true};
    cr_assert_eq(nst_kernel_interpret(ctx, kernel, &run), NST_OK, "%s", ctx->error);
}

static void fill(NstModule *module, NstArena *arena, void **data, int k)
{
    static const size_t elements[] = {0, 5, 7, 5, 7, 35};
    for (uint32_t b = 1; b <= 5; b++) {
        const NstBuffer *buffer = &nst_module_get(module, (NstBuf){b})->buffer;
        size_t n = elements[b] * (b <= 2 ? (size_t)k : 1), bytes = n * (size_t)nst_dtype_info(buffer->dtype)->bytes;
        data[b] = nst_alloc_aligned(arena, bytes + 8, 64);
        if (buffer->access == NST_ACCESS_OUT) continue;
        for (size_t e = 0; e < n; e++) /* extremes included */
            nst_scalar_store(
                buffer->dtype, (char *)data[b] + e * (size_t)nst_dtype_info(buffer->dtype)->bytes,
                (NstScalar){.i = (int64_t)((e * 37 + b * 11) % 256) - (buffer->dtype == NST_U8 ? 0 : 128)});
    }
}

static void check(const char *a, const char *b, bool constant, bool zero_a, bool zero_b, int k)
{
    char text[1024];
    snprintf(text, sizeof text, text_form, a, k, constant ? "const" : "", b, k, k, zero_a ? " - za[i]" : "",
             zero_b ? " - zb[j]" : "");
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    NstTarget target = support_target(NST_TARGET_AVX512_VNNI);
    NstKernel *kernel;
    NstModule *module;
    cr_assert_eq(nst_kernel_parse(&ctx, ctx.arena, text, strlen(text), &kernel), NST_OK, "%s\n%s", ctx.error, text);
    cr_assert_eq(nst_kernel_to_module(&ctx, ctx.arena, kernel, &target, &module), NST_OK, "%s", ctx.error);
    void *expected[64] = {0}, *actual[64] = {0};
    fill(module, ctx.arena, expected, k);
    fill(module, ctx.arena, actual, k);
    run_group(&ctx, module, module->groups.at[0], expected);
    uint32_t at = 0;
    cr_assert(nst_integer_contraction(module, &at, 1, NULL), "%s", text);
    for (uint32_t g = 0; g < module->prepack.n; g++) run_group(&ctx, module, module->prepack.at[g], actual);
    for (uint32_t g = 0; g < module->groups.n; g++) run_group(&ctx, module, module->groups.at[g], actual);
    cr_assert_eq(memcmp(expected[5], actual[5], 35 * 4), 0, "%s", text);
    nst_ctx_dispose(&ctx);
}

Test(int_dot, is_exact_for_every_mix_of_signs_and_zero_points)
{
    static const char *const type[] = {"u8", "i8"};
    static const int length[] = {1, 3, 4, 8, 30, 64};
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++)
            for (int zeros = 0; zeros < 4; zeros++)
                for (size_t k = 0; k < sizeof length / sizeof *length; k++)
                    for (int constant = 0; constant < 2; constant++)
                        check(type[a], type[b], constant, zeros & 1, zeros & 2, length[k]);
}
