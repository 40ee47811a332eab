/* test_arena.c: ir/base/arena.h. */
#include <criterion/criterion.h>
#include <string.h>
#include "ir/base/status.h"

static char order[16];

static void note_order(void *arg)
{
    strcat(order, arg);
}

Test(arena, cleanups_run_last_in_first_out)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    NstArena *arena = nst_arena_new(&ctx, ctx.arena);
    nst_arena_on_free(arena, note_order, "a");
    nst_arena_on_free(arena, note_order, "b");
    nst_arena_free(arena);
    cr_assert_str_eq(order, "ba");
    nst_ctx_dispose(&ctx);
}

static NstStatus allocate_much(NstCtx *ctx, void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) nst_alloc(ctx->arena, 1000);
    return NST_OK;
}

Test(arena, failing_allocation_unwinds_to_the_guard)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    nst_arena_fail_after(2);
    cr_assert_eq(nst_guard(&ctx, allocate_much, NULL), NST_E_NOMEM);
    cr_assert_eq(ctx.status, NST_E_NOMEM);
    cr_assert_null(ctx.guard);
    nst_arena_fail_after(0);
    nst_ctx_dispose(&ctx);
}
