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
