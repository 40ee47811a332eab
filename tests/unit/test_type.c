/* test_type.c: ir/type.h. */
#include <criterion/criterion.h>
#include "ir/type.h"

static NstCtx ctx;
static NstDims *dims;

static void setup(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    dims = nst_dims_new(ctx.arena);
}

static void teardown(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(type, .init = setup, .fini = teardown);

Test(type, text_round_trips)
{
    static const char *const texts[] = {
        "f32[n, 3, 2*n + h]", "i64[]", "b1[0]", "seq<f32[n]>", "opt<seq<str[\"batch size\"]>>",
        "map<i64, f32[]>",    "none"};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        NstType type, again;
        NstText text;
        const char *p = texts[k];
        cr_assert_eq(nst_type_parse(&ctx, ctx.arena, dims, &p, &type), NST_OK, "%s", ctx.error);
        cr_expect_eq(*p, 0);
        nst_text_init(&text, ctx.arena);
        nst_type_print(&text, dims, &type);
        cr_expect_str_eq(nst_text_get(&text), texts[k]);
        p = nst_text_get(&text);
        cr_assert_eq(nst_type_parse(&ctx, ctx.arena, dims, &p, &again), NST_OK);
        cr_expect(nst_type_same(&type, &again));
    }
}

Test(type, bad_text_is_refused)
{
    static const char *const texts[] = {
        "f33[n]", "f32[n", "f32(n)", "seq<f32[n]", "map<f32[]>", "f32[n 3]", "f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        NstType type;
        const char *p = texts[k];
        cr_expect_neq(nst_type_parse(&ctx, ctx.arena, dims, &p, &type), NST_OK, "%s was taken", texts[k]);
        nst_ctx_clear(&ctx);
    }
}

Test(type, elements_and_sameness)
{
    NstType a, b;
    const char *p = "f32[n, 3, h]";
    cr_assert_eq(nst_type_parse(&ctx, ctx.arena, dims, &p, &a), NST_OK);
    p = "f32[n, 3, w]";
    cr_assert_eq(nst_type_parse(&ctx, ctx.arena, dims, &p, &b), NST_OK);
    cr_expect_not(nst_type_same(&a, &b));
    NstText text;
    nst_text_init(&text, ctx.arena);
    nst_dim_print(&text, dims, nst_type_elements(dims, &a), NULL, NULL);
    cr_expect_str_eq(nst_text_get(&text), "3*n*h");
}
