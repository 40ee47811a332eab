/* test_origin.c: ir/origin.h. */
#include <criterion/criterion.h>
#include "ir/base/status.h"
#include "ir/origin.h"

static NstCtx ctx;
static NstOrigins *origins;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    origins = nst_origins_new(ctx.arena);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(origin, .init = begin, .fini = end);

Test(origin, one_name_has_one_id)
{
    NstOrigin a = nst_origin_of(origins, "a (Add)"), b = nst_origin_of(origins, "b");
    cr_assert_eq(a.i, nst_origin_of(origins, "a (Add)").i);
    cr_assert_neq(a.i, b.i);
    cr_assert_str_eq(nst_origin_text(origins, a), "a (Add)");
}

Test(origin, unknown_reads_as_a_question_mark)
{
    const char *const *names;
    cr_assert_str_eq(nst_origin_text(origins, (NstOrigin){0}), "?");
    cr_assert_eq(nst_origin_names(origins, (NstOrigin){0}, &names), 0);
}

Test(origin, merge_keeps_first_appearance_and_drops_repeats)
{
    NstOrigin a = nst_origin_of(origins, "a"), b = nst_origin_of(origins, "b"), c = nst_origin_of(origins, "c");
    NstOrigin ab = nst_origin_merge(origins, a, b), bc = nst_origin_merge(origins, b, c);
    NstOrigin all = nst_origin_merge(origins, ab, bc);
    cr_assert_str_eq(nst_origin_text(origins, all), "a, b, c");
    cr_assert_eq(nst_origin_merge(origins, all, bc).i, all.i);
    cr_assert_eq(nst_origin_merge(origins, ab, c).i, all.i);
    cr_assert_eq(nst_origin_merge(origins, (NstOrigin){0}, a).i, a.i);
    cr_assert_eq(nst_origin_merge(origins, a, (NstOrigin){0}).i, a.i);
    const char *const *names;
    cr_assert_eq(nst_origin_names(origins, all, &names), 3);
    cr_assert_str_eq(names[2], "c");
}
