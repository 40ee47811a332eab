/* test_xform.c: passes/xform.h: every transformation keeps what the interpreter computes. */
#include <criterion/criterion.h>
#include <string.h>
#include "passes/xform.h"
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

TestSuite(xform, .init = begin, .fini = end);

static const char *const copy_text = "kernel copy(n) in x: f32[3*n + 40] out y: f32[3*n + 40] {\n"
                                     "for i in n..3*n + 20 step 3 { let t: f32 = x[i] + 1\n y[i] = t * 2 } }";
static const char *const const_text = "kernel copy(n) in x: f32[40] out y: f32[40] {\n"
                                      "for i in 2..37 { scratch s: f32[2]\n s[1] = x[i]\n y[i] = s[1] } }";

static const int64_t sizes[] = {0, 1, 2, 3, 7, 8, 15, 16, 33};

static void expect_same(const NstKernel *given, const NstKernel *changed)
{
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int64_t param[2] = {sizes[k], 5};
        nst_test_same_results(&ctx, given, changed, param, k);
    }
}

Test(xform, splits_keep_results)
{
    static const NstSplit splits[] = {NST_SPLIT_MIN, NST_SPLIT_TAIL, NST_SPLIT_BALANCED};
    static const int64_t factors[] = {1, 2, 4, 7, 64};
    for (size_t text = 0; text < 2; text++)
        for (size_t s = 0; s < 3; s++)
            for (size_t f = 0; f < 5; f++) {
                NstKernel *given = nst_test_parse_kernel(&ctx, text ? const_text : copy_text);
                NstKernel *changed = nst_kernel_clone(ctx.arena, given);
                uint32_t n;
                cr_assert_eq(
                    nst_xform_split(&ctx, changed, &changed->body, 0, factors[f], splits[s], NST_FOR_SERIAL, 0, &n),
                    NST_OK, "%s", ctx.error);
                expect_same(given, changed);
            }
}

Test(xform, splits_into_vectors)
{
    static const NstSplit splits[] = {NST_SPLIT_MIN, NST_SPLIT_TAIL, NST_SPLIT_BALANCED};
    const char *text = "kernel f(n) in x: f32[n] out y: f32[n] { for i in 0..n { y[i] = x[i] * x[i] } }";
    for (size_t s = 0; s < 3; s++) {
        NstKernel *given = nst_test_parse_kernel(&ctx, text), *changed = nst_kernel_clone(ctx.arena, given);
        uint32_t n;
        NstStatus status = nst_xform_split(&ctx, changed, &changed->body, 0, 8, splits[s], NST_FOR_VECTOR, 8, &n);
        if (splits[s] == NST_SPLIT_BALANCED && status != NST_OK) { /* q + 1 <= 8 is beyond the prover for symbolic n */
            cr_assert_eq(status, NST_E_INVALID);
            nst_ctx_clear(&ctx);
            continue;
        }
        cr_assert_eq(status, NST_OK, "%s", ctx.error);
        expect_same(given, changed);
    }
}

Test(xform, exact_split_needs_proof)
{
    NstKernel *kernel =
        nst_test_parse_kernel(&ctx, "kernel f(n, m multiple 8) out y: f32[n, m] { for j in 0..m { for i in 0..n {"
                                    "y[i, j] = 1f32 } } }");
    NstKernel *given = nst_kernel_clone(ctx.arena, kernel);
    uint32_t n;
    cr_assert_eq(nst_xform_split(&ctx, kernel, &kernel->body, 0, 8, NST_SPLIT_EXACT, NST_FOR_UNROLL, 0, &n), NST_OK,
                 "%s", ctx.error);
    cr_assert_eq(n, 1);
    cr_expect(strstr(nst_test_kernel_text(&ctx, kernel), "for unroll j in 0..8") != NULL, "%s",
              nst_test_kernel_text(&ctx, kernel));
    int64_t param[2] = {3, 24};
    nst_test_same_results(&ctx, given, kernel, param, 1);
    NstBlock *inner = &kernel->body.at[0]->u.loop.body.at[0]->u.loop.body;
    cr_assert_eq(nst_xform_split(&ctx, kernel, inner, 0, 8, NST_SPLIT_EXACT, NST_FOR_SERIAL, 0, &n), NST_E_INVALID);
}

Test(xform, reorder)
{
    const char *text =
        "kernel f(n, m) in x: f32[n, m] out y: f32[m, n, 3] {\n"
        "for i in 0..n { for j in 0..m { for k in 0..3 { y[j, i, k] = x[i, j] + convert<f32>(index(k)) } } } }";
    static const uint32_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    for (size_t o = 0; o < 4; o++) {
        NstKernel *given = nst_test_parse_kernel(&ctx, text), *changed = nst_kernel_clone(ctx.arena, given);
        cr_assert_eq(nst_xform_reorder(&ctx, changed, &changed->body, 0, 3, orders[o]), NST_OK, "%s", ctx.error);
        NstSym outer = given->body.at[0]->u.loop.var;
        cr_expect_eq(changed->body.at[0]->u.loop.var.i == outer.i, orders[o][0] == 0);
        expect_same(given, changed);
    }
    NstKernel *triangle = nst_test_parse_kernel(
        &ctx, "kernel f(n) out y: f32[n, n] { for i in 0..n { for j in 0..i { y[i, j] = 0f32 } } }");
    cr_assert_eq(nst_xform_reorder(&ctx, triangle, &triangle->body, 0, 2, (const uint32_t[]){1, 0}), NST_E_INVALID);
    cr_expect_str_eq(ctx.error, "reorder: the bounds of 'j' depend on 'i'");
    nst_ctx_clear(&ctx);
    cr_assert_eq(nst_xform_reorder(&ctx, triangle, &triangle->body, 0, 3, orders[0]), NST_E_INVALID);
}

Test(xform, unroll)
{
    const char *text =
        "kernel f(n) in x: f32[n + 8] inout y: f32[n + 8] {\n"
        "for i in n..n + 7 step 2 { let t: f32 = x[i]\n reg r: f32[1]\n r[0] = t * y[i]\n y[i + 1] = r[0] } }";
    NstKernel *given = nst_test_parse_kernel(&ctx, text), *changed = nst_kernel_clone(ctx.arena, given);
    uint32_t n;
    cr_assert_eq(nst_xform_unroll(&ctx, changed, &changed->body, 0, 3, &n), NST_E_INVALID);
    nst_ctx_clear(&ctx);
    cr_assert_eq(nst_xform_unroll(&ctx, changed, &changed->body, 0, 4, &n), NST_OK, "%s", ctx.error);
    cr_assert_eq(n, 16);
    expect_same(given, changed);
}

Test(xform, cut)
{
    const char *text = "kernel f(n, m) in x: f32[n] out y: f32[n] { for i in 0..n { for j in 0..1 { y[i] = x[i] } } }";
    NstKernel *given = nst_test_parse_kernel(&ctx, text);
    NstDims *dims = given->dims;
    NstDim n = nst_dim_sym(dims, given->params.at[0]), m = nst_dim_sym(dims, given->params.at[1]);
    NstDim where[] = {nst_dim_const(dims, 1), nst_dim_add_const(dims, n, -1), m, nst_dim_const(dims, 0), n};
    for (size_t k = 0; k < 5; k++) {
        NstKernel *changed = nst_kernel_clone(ctx.arena, given);
        cr_assert_eq(nst_xform_cut(&ctx, changed, &changed->body, 0, where[k]), NST_OK, "%s", ctx.error);
        cr_assert_eq(changed->body.n, 2);
        expect_same(given, changed);
    }
}

Test(xform, fuse_what_may_be_fused)
{
    static const struct {
        const char *body;
        bool may;
    } cases[] = {
        {"for i in 0..n { y[i] = x[i] } for j in 0..n { z[j] = y[j] }", true},
        {"for i in 0..n { y[i] = x[i] } for j in 0..n { z[j] = y[n - 1 - j] }", false},
        {"for i in 0..n { y[i] = x[i] } for j in 0..n { z[j] = x[n - 1 - j] }", true},
        {"for i in 0..n { y[i] = x[i] } for j in 0..n { y[j] = y[j] + x[j] }", true},
        {"for i in 0..n { y[i] = x[i] } for j in 0..n { for k in 0..n { z[j] = y[k] } }", false},
        {"for i in 0..n { y[i] = x[i] } for j in 0..n { index q in 0..n = index(j) z[j] = y[q] }", false},
        {"for i in 0..n { y[i] = x[i] } for j in 0..n { z[j] = 1f32 }", true},
        {"for i in 0..n { y[i] = x[i] } for j in 0..n + 0 { call fill(0i32, 0i64) on y }", false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        NstText text; /* a formula ends with its line */
        nst_text_init(&text, ctx.arena);
        nst_text_add(&text, "kernel f(n) in x: f32[n] out y: f32[n] out z: f32[n] {\n");
        for (const char *c = cases[k].body; *c != '\0'; c++) nst_text_add(&text, *c == '}' ? "\n%c" : "%c", *c);
        nst_text_add(&text, "\n}");
        char *at = text.at;
        for (char *p = strstr(at, ") z["); p != NULL; p = NULL) p[1] = '\n';
        NstKernel *given = nst_test_parse_kernel(&ctx, at), *changed = nst_kernel_clone(ctx.arena, given);
        cr_expect_eq(nst_xform_may_fuse(changed, &changed->body, 0), cases[k].may, "%s", cases[k].body);
        if (!cases[k].may) continue;
        cr_assert_eq(nst_xform_fuse(&ctx, changed, &changed->body, 0), NST_OK, "%s", ctx.error);
        cr_assert_eq(changed->body.n, 1);
        expect_same(given, changed);
    }
}

Test(xform, independent_loops)
{
    static const struct {
        const char *body;
        bool independent;
    } cases[] = {
        {"for i in 0..n { y[i] = x[i]\n}", true},
        {"for i in 1..n { y[i] = y[i - 1]\n}", false},
        {"for i in 0..n { y[0] = x[i]\n}", false},
        {"for i in 0..n { scratch s: f32[1]\n s[0] = x[i]\n y[i] = s[0]\n}", true},
        {"for i in 0..n { for j in 0..n { z[i, j] = z[i, j] + x[j]\n} }", true},
        {"for i in 0..n { for j in 1..n { z[i, j] = z[i, j - 1]\n} }", true},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        NstKernel *kernel = nst_test_parse_kernel(
            &ctx,
            nst_format(ctx.arena, "kernel f(n) in x: f32[n] out y: f32[n] out z: f32[n, n] {\n%s\n}", cases[k].body));
        cr_expect_eq(nst_xform_is_independent(kernel, &kernel->body.at[0]->u.loop), cases[k].independent, "%s",
                     cases[k].body);
    }
}
