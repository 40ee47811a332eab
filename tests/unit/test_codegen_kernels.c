/* test_codegen_kernels.c: kernels of tests/kernels, compiled for each target and interpreted, give the same bytes. */
#include <criterion/criterion.h>
#include <string.h>
#include "tests/unit/support_codegen.h"

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(codegen_kernels, .init = begin, .fini = end);

typedef struct Case {
    const char *file;
    int64_t param[4];
    int64_t index_limit;
    bool specials;
} Case;

static const Case cases[] = {
    {"product_8x48", {16, 3, 37}, 0, false},
    {"matmul", {7}, 0, false},
    {"argmax", {5, 9}, 0, false},
    {"gather", {21, 13}, 13, false},
    {"control", {6}, 0, false},
    {"softmax", {5, 33}, 0, false},
    {"layouts", {4}, 0, false},
    {"map_tail", {5, 37}, 0, false},
    {"map_tail", {3, 16}, 0, false},
    {"map_tail", {3, 0}, 0, false},
    {"transpose", {5, 21}, 0, false},
    {"strided", {0}, 0, false},
    {"lane_if", {37}, 0, false},
    {"lane_tree", {3, 35}, 0, false},
    {"newton", {9}, 0, false},
    {"window", {5, 19}, 0, false},
    {"window", {1, 32}, 0, false},
    {"dot4", {5, 7}, 0, false},
    {"widen", {70}, 0, false},
    {"barriers", {13, 3}, 0, false},
    {"blocked", {3, 21}, 0, false},
    {"rows", {7, 5, 21}, 5, false},
    {"packed", {5}, 0, false},
    {"divide", {39}, 0, false},
    {"clamp", {61}, 0, true},
    {"turn", {32, 48}, 0, false},
    {"square", {32}, 0, false},
    {"reindex", {3, 5}, 5, false},
    {"stream", {5, 0}, 0, false},
    {"stream", {5, 16}, 0, false},
    {"stream", {3, 3}, 0, false},
};

static void check_all(const char *target)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char *text;
        size_t size;
        const char *path = nst_format(ctx.arena, "tests/kernels/%s.nsl", cases[k].file);
        cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, path, 1 << 20, &text, &size), NST_OK, "%s", ctx.error);
        NstKernel *kernel = support_parse(&ctx, text);
        support_check(&ctx, kernel, cases[k].param, target, false, k + 1, cases[k].specials, cases[k].index_limit);
        support_check(&ctx, kernel, cases[k].param, target, true, k + 2, cases[k].specials, cases[k].index_limit);
    }
}

Test(codegen_kernels, baseline)
{
    check_all("baseline");
}

Test(codegen_kernels, avx2)
{
    check_all("avx2");
}

Test(codegen_kernels, avx512)
{
    check_all("avx512");
}

Test(codegen_kernels, vnni)
{
    check_all("vnni");
}

Test(codegen_kernels, amx)
{
    check_all("amx");
}

/* The first lanes of a vector, as many as they are: what lies beyond keeps its bytes. */
Test(codegen_kernels, parts_of_vectors)
{
    static const char *const types[] = {"f32", "f64", "f16", "bf16", "i8", "u16", "i32", "i64", "b1"};
    static const char *const targets[] = {"baseline", "avx2", "avx512"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int lanes = 1; lanes < 16; lanes += 2) {
            const char *text = nst_format(ctx.arena,
                                          "kernel s() in x: %s[32], inout y: %s[32] {\n"
                                          "  for vector l in 0..%d width 16 {\n    y[l + 1] = x[l]\n  }\n}\n",
                                          types[t], types[t], lanes);
            NstKernel *kernel = support_parse(&ctx, text);
            for (size_t k = 0; k < sizeof targets / sizeof *targets; k++)
                support_check(&ctx, kernel, NULL, targets[k], false, (uint64_t)lanes, false, 0);
        }
}

/* Blocks of which each column is a vector, two of them side by side where vectors are of 8 lanes: turned in registers. */
Test(codegen_kernels, blocks_are_turned)
{
    static const char *const types[] = {"f32", "i32", "i8", "u8", "b1", "f8e4m3fn", "f16"};
    static const char *const targets[] = {"baseline", "avx2", "avx512"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int lanes = 4; lanes <= 16; lanes *= 2) {
            const char *text = nst_format(ctx.arena,
                                          "kernel s() in x: %s[%d, 35] out y: %s[32, %d] {\n  for b in 0..2 {\n"
                                          "    for unroll u in 0..16 {\n      for vector l in 0..%d width %d {\n"
                                          "        y[16 * b + u, l] = x[l, 16 * b + u + 3]\n      }\n    }\n  }\n}\n",
                                          types[t], lanes, types[t], lanes, lanes, lanes);
            NstKernel *kernel = support_parse(&ctx, text);
            for (size_t k = 0; k < sizeof targets / sizeof *targets; k++)
                support_check(&ctx, kernel, NULL, targets[k], false, (uint64_t)lanes, false, 0);
        }
}

/* Columns of one square: 64 shuffles transpose 16 x 16, however the stores between them branch. */
Test(codegen_kernels, a_square_is_transposed_once)
{
    NstTarget target;
    NstText ir;
    NstKernel *kernel = support_parse(&ctx, "kernel s() in x: f32[256] stream out y: f32[256] {\n"
                                            "  reg a: f32[16, 16]\n"
                                            "  for unroll u in 0..16 {\n    for vector l in 0..16 width 16 {\n"
                                            "      a[u, l] = x[16 * u + l]\n    }\n  }\n"
                                            "  for unroll u in 0..16 {\n    for vector l in 0..16 width 16 {\n"
                                            "      y[16 * u + l] = a[l, u]\n    }\n  }\n}\n");
    nst_text_init(&ir, ctx.arena);
    cr_assert_eq(nst_target_parse(&ctx, "nominal-avx512", &target), NST_OK);
    cr_assert_eq(nst_codegen_ir_text(&ctx, kernel, &target, NULL, &ir), NST_OK, "%s", ctx.error);
    int shuffles = 0;
    for (const char *at = nst_text_get(&ir); (at = strstr(at, "shufflevector")); at++) shuffles++;
    cr_assert_eq(shuffles, 64);
}

/* States that registers do not hold lie in the stack at multiples of their size: moves that need that are used, no others. */
Test(codegen_kernels, spilled_vectors_are_aligned)
{
    NstTarget target;
    NstText text;
    NstKernel *kernel = support_parse(&ctx, "kernel s(K) in x: f32[K, 256] out y: f32[256] {\n"
                                            "  reg a: f32[32, 8]\n"
                                            "  for unroll u in 0..32 {\n    for vector l in 0..8 width 8 {\n"
                                            "      a[u, l] = 0f32\n    }\n  }\n"
                                            "  for k in 0..K {\n    for unroll u in 0..32 {\n"
                                            "      for vector l in 0..8 width 8 {\n"
                                            "        a[u, l] = a[u, l] + x[k, 8 * u + l]\n      }\n    }\n  }\n"
                                            "  for unroll u in 0..32 {\n    for vector l in 0..8 width 8 {\n"
                                            "      y[8 * u + l] = a[u, l]\n    }\n  }\n}\n");
    nst_text_init(&text, ctx.arena);
    cr_assert_eq(nst_target_parse(&ctx, "nominal-avx2", &target), NST_OK);
    cr_assert_eq(nst_codegen_assembly_text(&ctx, kernel, &target, NULL, &text), NST_OK, "%s", ctx.error);
    int aligned = 0, unaligned = 0;
    for (const char *line = nst_text_get(&text), *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *stack = strstr(line, "(%rsp)");
        if (!stack || stack > end) continue;
        aligned += memcmp(line, "\tvmovaps", 8) == 0;
        unaligned += memcmp(line, "\tvmovups", 8) == 0;
    }
    cr_assert(aligned > 0);
    cr_assert_eq(unaligned, 0);
}
