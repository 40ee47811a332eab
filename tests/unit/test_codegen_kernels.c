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
