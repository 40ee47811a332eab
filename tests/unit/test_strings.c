/* test_strings.c: ir/strings.h, and what a function does with strings that no test can hold. */
#include <criterion/criterion.h>
#include <string.h>
#include "ir/base/status.h"
#include "ir/base/str.h"
#include "ir/strings.h"
#include "runtime/host.h"

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

static NstStatus give_eight(NstHostStep *step, uint32_t k)
{
    static uint64_t handle;
    step->out[k].data = &handle;
    return NST_OK;
}

/* A model of some concatenations must not ask for all the memory there is. */
Test(strings, two_that_are_too_long_together_are_refused)
{
    static const uint64_t long_one = 1;
    NstStrings *s = nst_strings_new(ctx.arena);
    (void)nst_strings_put(s, "a", 1);
    s->list.at[long_one].n = NST_MAX_STRING_BYTES / 2 + 1; /* it is refused before anybody reads that far */
    NstTensor in = {.dtype = NST_STR, .data = (void *)(uintptr_t)&long_one, .bytes = 8}, both[2] = {in, in},
              out = {.dtype = NST_STR};
    NstHostStep step = {.ctx = &ctx,
                        .arena = ctx.arena,
                        .name = "string_concat",
                        .config = "",
                        .n_in = 2,
                        .n_out = 1,
                        .in = both,
                        .out = &out,
                        .give = give_eight,
                        .strings = s};
    cr_assert_eq(nst_host_find("string_concat")(&step), NST_E_LIMIT);
    cr_assert_str_eq(ctx.error, "string_concat: 1073741824 and 1073741824 bytes, allowed: at most 2147483647 together");
}
