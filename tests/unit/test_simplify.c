/* test_simplify.c: passes/simplify.h: what becomes of kernels, and that they compute the same. */
#include <criterion/criterion.h>
#include <string.h>
#include "ir/base/os.h"
#include "passes/simplify.h"
#include "tests/unit/support_loop.h"

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(simplify, .init = begin, .fini = end);

typedef NstStatus (*Pass)(NstCtx *ctx, NstKernel *kernel, bool *changed);

#define HEAD "kernel f(n min 1, m)\n    in x: f32[n + 8]\n    in z: f32[n + 8, m + 8]\n    inout y: f32[n + 8]\n{\n"

/* The body that a pass makes of a body, once it has computed the same on several sizes. */
static const char *simplified(Pass pass, const char *body)
{
    NstKernel *given = nst_test_parse_kernel(&ctx, nst_format(ctx.arena, HEAD "%s\n}\n", body));
    NstKernel *changed = nst_kernel_clone(ctx.arena, given);
    bool any;
    cr_assert_eq(pass(&ctx, changed, &any), NST_OK, "%s", ctx.error);
    for (int64_t n = 1; n < 20; n += 3) {
        int64_t param[2] = {n, n % 5};
        nst_test_same_results(&ctx, given, changed, param, (uint64_t)n);
    }
    const char *text = nst_test_kernel_text(&ctx, changed);
    cr_expect_eq(any, strcmp(text, nst_test_kernel_text(&ctx, given)) != 0, "%s", text);
    return text;
}

static void expect(Pass pass, const char *body, const char *result)
{
    const char *text = simplified(pass, body), *wanted = nst_format(ctx.arena, HEAD "%s}\n", result);
    cr_expect_str_eq(text, wanted, "%s\nbecame\n%s\nnot\n%s", body, text, wanted);
}

Test(simplify, proven_guards_go)
{
    expect(nst_simplify_guards, "for i in 0..n {\nif (index(i) < index(n)) {\ny[i] = 1f32\n}\n}",
           "  for i in 0..n {\n    y[i] = 1f32\n  }\n");
    expect(nst_simplify_guards, "for i in 0..n {\ny[i] = 1f32\nif (index(i) > index(n)) {\ny[i] = 2f32\n}\n}",
           "  for i in 0..n {\n    y[i] = 1f32\n  }\n");
    expect(nst_simplify_guards, "for i in 0..n {\ny[i] = index(i) >= 0 ? x[i] : 0\n}",
           "  for i in 0..n {\n    y[i] = x[i]\n  }\n");
    expect(
        nst_simplify_guards,
        "for i in 0..n {\nif (index(i) > 3) {\ny[i] = 2f32\nif (index(i) > 3) {\ny[i + 1] = 1f32\n}\n}\ny[0] = 0f32\n}",
        "  for i in 0..n {\n    if (index(i) > 3) {\n      y[i] = 2f32\n      y[i + 1] = 1f32\n    }\n    y[0] = "
        "0f32\n  }\n");
}

Test(simplify, guards_narrow_loops)
{
    expect(nst_simplify_guards, "for i in 0..n {\nif (index(i) >= 2) {\ny[i] = 1f32\n}\n}",
           "  for i in 2..n {\n    y[i] = 1f32\n  }\n");
    expect(nst_simplify_guards, "for i in 0..n {\nif (index(2*i) <= index(n - 3) && x[i] > 0) {\ny[i] = 1f32\n}\n}",
           "  for i in 0..floordiv(n + 1, 2) - 1 {\n    if (x[i] > 0) {\n      y[i] = 1f32\n    }\n  }\n");
    /* two paddings of a window: one guard for each loop */
    simplified(nst_simplify_guards,
               "for i in 0..n {\nfor k in 0..3 {\nif (index(i + k) >= 1 && index(i + k) <= index(n)) {\n"
               "update y[i] = y[i] + x[i + k] merge a + b from 0f32\n}\n}\n}");
    expect(nst_simplify_guards,
           "for i in 0..n {\nfor k in 0..m {\nif (index(i) < 5 && index(k) < 4) {\ny[i] = z[i, k]\n}\n}\n}",
           "  for i in 0..min(n, 5) {\n    for k in 0..min(m, 4) {\n      y[i] = z[i, k]\n    }\n  }\n");
    expect(nst_simplify_guards, "for i in 0..n step 2 {\nif (index(i) >= 3) {\ny[i] = 1f32\n}\n}",
           "  for i in 0..n step 2 {\n    if (index(i) >= 3) {\n      y[i] = 1f32\n    }\n  }\n");
    expect(nst_simplify_guards, "for vector l in 0..8 width 8 {\nif (index(l) < index(m)) {\ny[l] = 1f32\n}\n}",
           "  for vector l in 0..min(m, 8) width 8 {\n    y[l] = 1f32\n  }\n");
}

Test(simplify, trivial_loops_go)
{
    expect(nst_simplify_guards,
           "for i in 0..1 {\nlet t: f32 = x[i]\ny[i] = t\n}\nfor i in 1..2 {\nlet t: f32 = x[i]\ny[i] = t\n}",
           "  let t: f32 = x[0]\n  y[0] = t\n  let t1: f32 = x[1]\n  y[1] = t1\n");
    expect(nst_simplify_guards, "for i in n..n {\ny[i] = 1f32\n}", "");
    expect(nst_simplify_guards, "for i in 0..n {\nfor k in 0..m {\n}\n}", "");
    expect(nst_simplify_guards, "for i in 0..n {\nfor k in i..i + 3 step 3 {\ny[k] = 1f32\n}\n}",
           "  for i in 0..n {\n    y[i] = 1f32\n  }\n");
}

Test(simplify, invariant_values_leave_loops)
{
    expect(nst_simplify_hoist, "for i in 0..n {\ny[i] = x[n] * 2 + z[0, i - i]\n}",
           "  let h: f32 = x[n] * 2 + z[0, 0]\n  for i in 0..n {\n    y[i] = h\n  }\n");
    expect(nst_simplify_hoist, "for i in 0..n {\nfor k in 0..4 {\ny[i] = x[i] + z[0, k]\n}\n}",
           "  for i in 0..n {\n    let h: f32 = x[i]\n    for k in 0..4 {\n      y[i] = h + z[0, k]\n    }\n  }\n");
    /* a value climbs loop by loop; a let that left is seen through */
    expect(nst_simplify_hoist, "for i in 0..n {\nfor k in 0..4 {\nlet t: f32 = x[0] - 1\ny[i + k] = t * t\n}\n}",
           "  let h: f32 = x[0] - 1\n  let h1: f32 = h * h\n  for i in 0..n {\n    for k in 0..4 {\n      y[i + k] = "
           "h1\n    }\n  }\n");
}

Test(simplify, what_may_not_leave_stays)
{
    static const char *const stay[] = {
        "  for i in 0..m {\n    y[i] = x[0]\n  }\n",                               /* it may not run */
        "  for i in 0..n {\n    y[i] = y[0] + x[i]\n  }\n",                        /* written inside */
        "  for i in 0..n {\n    if (x[i] > 0) {\n      y[i] = x[n]\n    }\n  }\n", /* not always read */
        "  for i in 0..n {\n    assert (x[i] < 100) \"small\"\n    y[i] = x[0]\n  }\n",
        "  for i in 0..n {\n    barrier\n    y[i] = x[0]\n  }\n",
        "  reg r: f32[1]\n  for i in 0..n {\n    r[0] = x[i]\n    y[i] = r[0]\n  }\n",
    };
    for (size_t k = 0; k < sizeof stay / sizeof *stay; k++) expect(nst_simplify_hoist, stay[k], stay[k]);
}

Test(simplify, dear_values_of_a_block_are_shared)
{
    expect(nst_simplify_cse, "for i in 0..n {\ny[i] = 3 / x[i]\ny[i + 1] = 3 / x[i] + 1\ny[i + 2] = 3 / x[i] + 2\n}",
           "  for i in 0..n {\n    let c: f32 = 3 / x[i]\n    y[i] = c\n    y[i + 1] = c + 1\n    y[i + 2] = c + 2\n  "
           "}\n");
    static const char *const stay[] = {
        "  for i in 0..n {\n    y[i] = 1 / y[i + 1]\n    y[i + 2] = 1 / y[i + 1]\n  }\n", /* the store may change it */
        "  for i in 0..n {\n    y[i] = x[i] * 3\n    y[i + 1] = x[i] * 3\n  }\n",         /* cheap */
    };
    for (size_t k = 0; k < sizeof stay / sizeof *stay; k++) expect(nst_simplify_cse, stay[k], stay[k]);
}

Test(simplify, whole_kernels_compute_the_same)
{
    static const char *const files[] = {"matmul", "softmax", "argmax", "gather", "control", "matrix"};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char *bytes;
        size_t size;
        const char *path = nst_format(ctx.arena, "tests/kernels/%s.nsl", files[k]);
        cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, path, 1 << 20, &bytes, &size), NST_OK, "%s", ctx.error);
        NstKernel *given = nst_test_parse_kernel(&ctx, bytes), *changed = nst_kernel_clone(ctx.arena, given);
        bool any;
        cr_assert_eq(nst_pass_simplify(&ctx, changed, &any), NST_OK, "%s", ctx.error);
        int64_t param[2] = {6, 7};
        nst_test_same_results(&ctx, given, changed, param, k);
        cr_expect_eq(any, strcmp(files[k], "matmul") == 0 || strcmp(files[k], "control") == 0, "%s\n%s", files[k],
                     nst_test_kernel_text(&ctx, changed));
    }
}
