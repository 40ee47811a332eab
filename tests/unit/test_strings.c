/* test_strings.c: ir/strings.h. */
#include <criterion/criterion.h>
#include <string.h>
#include "ir/base/status.h"
#include "ir/base/str.h"
#include "ir/strings.h"

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(strings, .init = begin, .fini = end);

Test(strings, each_stands_once)
{
    NstStrings *s = nst_strings_new(ctx.arena);
    uint64_t a = nst_strings_put(s, "ab", 2), zero = nst_strings_put(s, "a\0b", 3), part = nst_strings_put(s, "ab", 1);
    cr_expect_eq(nst_strings_put(s, "", 0), 0);
    cr_expect(a != zero && zero != part && a != part && a != 0 && part != 0);
    cr_expect_eq(nst_strings_put(s, "ab", 2), a);
    cr_expect_eq(nst_strings_put(s, "a", 1), part);
    const NstString *got = nst_strings_get(s, zero);
    cr_assert(got && got->n == 3 && memcmp(got->at, "a\0b", 4) == 0);
    cr_expect_null(nst_strings_get(s, 4));
    cr_expect_null(nst_strings_get(s, UINT64_MAX));
}

Test(strings, many_keep_their_handles)
{
    NstStrings *s = nst_strings_new(ctx.arena);
    for (int round = 0; round < 2; round++)
        for (int k = 0; k < 5000; k++) {
            const char *text = nst_format(ctx.arena, "%d", k);
            cr_assert_eq(nst_strings_put(s, text, strlen(text)), (uint64_t)k + 1);
        }
}

/* Tables over tables: the handles of the lower one hold, what is new stands above it. */
Test(strings, a_table_stands_over_another)
{
    NstStrings *s = nst_strings_new(ctx.arena);
    uint64_t a = nst_strings_put(s, "a", 1);
    NstStrings *one = nst_strings_over(ctx.arena, s), *other = nst_strings_over(ctx.arena, s);
    cr_expect_eq(nst_strings_put(one, "a", 1), a);
    cr_expect_eq(nst_strings_put(one, "", 0), 0);
    uint64_t b = nst_strings_put(one, "b", 1), c = nst_strings_put(other, "c", 1);
    cr_expect(b == a + 1 && c == b);
    NstStrings *top = nst_strings_over(ctx.arena, one);
    cr_expect_eq(nst_strings_put(top, "b", 1), b);
    uint64_t d = nst_strings_put(top, "c", 1);
    cr_expect_eq(d, b + 1);
    cr_expect_str_eq(nst_strings_get(top, d)->at, "c");
    cr_expect_str_eq(nst_strings_get(top, b)->at, "b");
    cr_expect_str_eq(nst_strings_get(top, a)->at, "a");
    cr_expect_str_eq(nst_strings_get(other, c)->at, "c");
    cr_expect_null(nst_strings_get(one, d));
    cr_expect_null(nst_strings_get(top, d + 1));
    cr_expect_eq(nst_strings_count(top), d + 1);
    cr_expect_eq(nst_strings_count(s), a + 1);
}
