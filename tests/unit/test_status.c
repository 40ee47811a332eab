/* test_status.c: ir/base/status.h and the public status texts. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "ir/base/status.h"

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(status, .init = begin, .fini = end);

Test(status, the_first_error_wins_and_notes_follow)
{
    cr_assert_eq(nst_note(&ctx, "nothing yet"), NST_OK);
    cr_assert_eq(nst_fail(&ctx, NST_E_SHAPE, "axis %d of %d", 3, 2), NST_E_SHAPE);
    cr_assert_eq(nst_fail(&ctx, NST_E_TYPE, "later"), NST_E_TYPE);
    cr_assert_eq(nst_note(&ctx, "node '%s'", "conv1"), NST_E_SHAPE);
    cr_assert_eq(ctx.status, NST_E_SHAPE);
    cr_assert_str_eq(ctx.error, "axis 3 of 2; node 'conv1'");
    nst_ctx_clear(&ctx);
    cr_assert_eq(ctx.status, NST_OK);
    cr_assert_str_eq(ctx.error, "");
}

Test(status, long_texts_are_cut_and_stay_terminated)
{
    char text[3 * NST_ERROR_TEXT];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    for (int n = NST_ERROR_TEXT - 4; n < NST_ERROR_TEXT + 4; n++) {
        nst_ctx_clear(&ctx);
        cr_assert_eq(nst_fail(&ctx, NST_E_PARSE, "%.*s", n, text), NST_E_PARSE);
        cr_assert_eq(nst_note(&ctx, "more %s", text), NST_E_PARSE);
        cr_assert_eq(strlen(ctx.error), NST_ERROR_TEXT - 1);
    }
}

static NstStatus run_dry(NstCtx *c, void *arg)
{
    (void)arg;
    nst_out_of_memory(c);
}

static NstStatus nest(NstCtx *c, void *arg)
{
    int *after = arg;
    cr_assert_eq(nst_guard(c, run_dry, NULL), NST_E_NOMEM);
    *after = 1;
    nst_out_of_memory(c);
}

Test(status, guards_nest_and_the_innermost_catches)
{
    int after = 0;
    cr_assert_eq(nst_guard(&ctx, nest, &after), NST_E_NOMEM);
    cr_assert_eq(after, 1);
    cr_assert_null(ctx.guard);
}

Test(status, out_of_memory_keeps_an_earlier_error)
{
    cr_assert_eq(nst_fail(&ctx, NST_E_MODEL, "first"), NST_E_MODEL);
    cr_assert_eq(nst_guard(&ctx, run_dry, NULL), NST_E_NOMEM);
    cr_assert_str_eq(ctx.error, "first");
}

static NstStatus try_and_check(NstCtx *c, void *arg)
{
    int *n = arg;
    NST_CHECK(c, *n > 0, NST_E_LIMIT, "n = %d, allowed are 1 and more", *n);
    NST_TRY(*n > 1 ? NST_E_CANCELLED : NST_OK);
    return NST_OK;
}

Test(status, try_and_check_leave_early)
{
    int n = 0;
    cr_assert_eq(nst_guard(&ctx, try_and_check, &n), NST_E_LIMIT);
    cr_assert_str_eq(ctx.error, "n = 0, allowed are 1 and more");
    n = 1;
    cr_assert_eq(nst_guard(&ctx, try_and_check, &n), NST_OK);
    n = 2;
    cr_assert_eq(nst_guard(&ctx, try_and_check, &n), NST_E_CANCELLED);
}

Test(status, out_of_memory_without_a_guard_aborts, .signal = SIGABRT)
{
    nst_out_of_memory(&ctx);
}

Test(status, a_false_assertion_aborts, .signal = SIGABRT)
{
    NST_ASSERT(1 + 1 == 3);
}

Test(status, every_code_has_a_name_and_a_meaning)
{
    cr_assert_str_eq(nst_status_name(NST_OK), "NST_OK");
    for (int code = 0; code <= NST_E_COMPILER; code++) {
        cr_assert_str_neq(nst_status_name((NstStatus)code), "NST_E_?");
        cr_assert_gt(strlen(nst_status_meaning((NstStatus)code)), 3);
    }
    cr_assert_str_eq(nst_status_name((NstStatus)999), "NST_E_?");
    cr_assert_str_eq(nst_status_meaning((NstStatus)-1), "no status of this version");
}

Test(status, version_is_that_of_the_header)
{
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", NST_VERSION_MAJOR, NST_VERSION_MINOR, NST_VERSION_PATCH);
    cr_assert_str_eq(nst_version(), text);
}
