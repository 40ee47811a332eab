/* test_arena.c: ir/base/arena.h. */
#include <criterion/criterion.h>
#include <string.h>
#include "ir/base/status.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

static char order[16];

static void note_order(void *arg)
{
    strcat(order, arg);
}

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    order[0] = '\0';
}

static void end(void)
{
    nst_arena_fail_after(0);
    nst_ctx_dispose(&ctx);
}

TestSuite(arena, .init = begin, .fini = end);

Test(arena, cleanups_run_last_in_first_out)
{
    NstArena *arena = nst_arena_new(&ctx, ctx.arena);
    nst_arena_on_free(arena, note_order, "a");
    nst_arena_on_free(arena, note_order, "b");
    nst_arena_free(arena);
    cr_assert_str_eq(order, "ba");
}

Test(arena, children_end_before_the_parents_cleanups)
{
    NstArena *arena = nst_arena_new(&ctx, NULL);
    NstArena *first = nst_arena_new(&ctx, arena), *second = nst_arena_new(&ctx, arena);
    NstArena *grandchild = nst_arena_new(&ctx, first);
    nst_arena_on_free(arena, note_order, "p");
    nst_arena_on_free(first, note_order, "1");
    nst_arena_on_free(second, note_order, "2");
    nst_arena_on_free(grandchild, note_order, "g");
    nst_arena_free(arena);
    cr_assert_str_eq(order, "2g1p");
}

Test(arena, a_child_freed_in_the_middle_leaves_its_siblings)
{
    NstArena *child[3];
    for (int i = 0; i < 3; i++) {
        child[i] = nst_arena_new(&ctx, ctx.arena);
        nst_arena_on_free(child[i], note_order, i == 0 ? "0" : i == 1 ? "1" : "2");
    }
    nst_arena_free(child[1]);
    cr_assert_str_eq(order, "1");
    nst_arena_reset(ctx.arena);
    cr_assert_str_eq(order, "120");
}

Test(arena, memory_is_zeroed_and_aligned_also_after_reset)
{
    NstArena *arena = nst_arena_new(&ctx, ctx.arena);
    for (int round = 0; round < 3; round++) {
        for (size_t bytes = 0; bytes < 9000; bytes = bytes * 2 + 1) {
            unsigned char *piece = nst_alloc(arena, bytes);
            cr_assert_eq((uintptr_t)piece % 16, 0);
            for (size_t i = 0; i < bytes; i++) cr_assert_eq(piece[i], 0);
            memset(piece, 0xa5, bytes);
        }
        for (size_t align = 1; align <= 4096; align *= 2) {
            unsigned char *piece = nst_alloc_aligned(arena, 3, align);
            cr_assert_eq((uintptr_t)piece % align, 0);
            cr_assert(piece[0] == 0 && piece[1] == 0 && piece[2] == 0);
            memset(piece, 0xa5, 3);
        }
        nst_arena_reset(arena);
    }
}

Test(arena, pieces_do_not_overlap)
{
    unsigned char *piece[300];
    for (size_t i = 0; i < 300; i++) {
        piece[i] = nst_alloc(ctx.arena, i * 37 % 5000);
        memset(piece[i], (int)(i & 0xff), i * 37 % 5000);
    }
    for (size_t i = 0; i < 300; i++)
        for (size_t k = 0; k < i * 37 % 5000; k++) cr_assert_eq(piece[i][k], (unsigned char)(i & 0xff));
}

Test(arena, empty_pieces_are_distinct)
{
    cr_assert_neq(nst_alloc(ctx.arena, 0), nst_alloc(ctx.arena, 0));
}

Test(arena, bytes_counts_children_and_falls_with_them)
{
    NstArena *child = nst_arena_new(&ctx, ctx.arena);
    size_t before = nst_arena_bytes(ctx.arena);
    nst_alloc(child, 100);
    nst_alloc(ctx.arena, 10000);
    cr_assert_eq(nst_arena_bytes(ctx.arena), before + 10100);
    cr_assert_eq(nst_arena_bytes(child), 100);
    nst_arena_reset(child);
    cr_assert_eq(nst_arena_bytes(ctx.arena), before + 10000);
}

Test(arena, copies_and_texts)
{
    cr_assert_str_eq(nst_copy_text(ctx.arena, "hello", 4), "hell");
    cr_assert_str_eq(nst_copy_text(ctx.arena, NULL, 0), "");
    cr_assert_str_eq(nst_strdup(ctx.arena, "x"), "x");
    cr_assert_str_eq(nst_format(ctx.arena, "%d-%s", 7, "seven"), "7-seven");
    cr_assert_eq(memcmp(nst_copy(ctx.arena, "a\0b", 3), "a\0b", 3), 0);
    nst_copy(ctx.arena, NULL, 0);
}

typedef struct Much {
    NstArena *arena;
    int done;
} Much;

static NstStatus allocate_much(NstCtx *c, void *arg)
{
    Much *much = arg;
    (void)c;
    for (int i = 0; i < 10000; i++) {
        nst_alloc(much->arena, 1000);
        much->done++;
    }
    return NST_OK;
}

Test(arena, the_nth_chunk_fails_and_the_guard_catches)
{
    int before = -1;
    for (uint64_t n = 1; n < 12; n++) {
        Much much = {nst_arena_new(&ctx, ctx.arena), 0};
        nst_ctx_clear(&ctx);
        nst_arena_fail_after(n);
        cr_assert_eq(nst_guard(&ctx, allocate_much, &much), NST_E_NOMEM);
        cr_assert_eq(ctx.status, NST_E_NOMEM);
        cr_assert_null(ctx.guard);
        cr_assert_gt(much.done, before);
        before = much.done;
        nst_ctx_clear(&ctx);
        much.done = 0;
        cr_assert_eq(nst_guard(&ctx, allocate_much, &much), NST_OK, "the hook fires once, the arena goes on");
        cr_assert_eq(much.done, 10000);
        nst_arena_free(much.arena);
    }
}

static NstStatus allocate_absurd(NstCtx *c, void *arg)
{
    switch (*(int *)arg) {
    case 0: nst_alloc_array(c->arena, SIZE_MAX / 2, 3); break;
    case 1: nst_alloc(c->arena, SIZE_MAX); break;
    case 2: nst_alloc(c->arena, SIZE_MAX / 2); break;
    case 3: nst_alloc_aligned(c->arena, SIZE_MAX - 64, 4096); break;
    case 4: nst_copy_text(c->arena, "", SIZE_MAX); break;
    }
    return NST_OK;
}

Test(arena, absurd_sizes_are_out_of_memory)
{
#if defined(__SANITIZE_ADDRESS__)
    cr_skip_test("the sanitizer ends the process where malloc would return NULL");
#endif
    for (int i = 0; i < 5; i++) cr_assert_eq(nst_guard(&ctx, allocate_absurd, &i), NST_E_NOMEM, "case %d", i);
}

static NstStatus attach(NstCtx *c, void *arg)
{
    NstArena *arena = arg;
    (void)c;
    nst_arena_fail_after(1);
    nst_arena_on_free(arena, note_order, "x");
    return NST_OK;
}

Test(arena, a_cleanup_that_cannot_be_kept_runs_at_once)
{
    NstArena *arena = nst_arena_new(&ctx, NULL);
    cr_assert_eq(nst_guard(&ctx, attach, arena), NST_E_NOMEM);
    cr_assert_str_eq(order, "x");
    nst_arena_free(arena);
    cr_assert_str_eq(order, "x");
}

Test(arena, try_new_returns_null)
{
    nst_arena_fail_after(1);
    cr_assert_null(nst_arena_try_new(&ctx, ctx.arena));
    NstArena *arena = nst_arena_try_new(&ctx, ctx.arena);
    cr_assert_not_null(arena);
    nst_arena_free(NULL);
    NstCtx other;
    nst_arena_fail_after(1);
    cr_assert_eq(nst_ctx_init(&other), NST_E_NOMEM);
}

Test(arena, the_sanitizer_sees_past_the_end)
{
#if defined(__SANITIZE_ADDRESS__)
    char *piece = nst_alloc(ctx.arena, 100);
    cr_assert_not(__asan_address_is_poisoned(piece + 99));
    cr_assert(__asan_address_is_poisoned(piece + 100));
    NstArena *arena = nst_arena_new(&ctx, ctx.arena);
    piece = nst_alloc(arena, 32);
    nst_arena_reset(arena);
    cr_assert(__asan_address_is_poisoned(piece));
#else
    cr_skip_test("only with the address sanitizer");
#endif
}
