/* test_vec.c: ir/base/vec.h and ir/base/map.h. */
#include <criterion/criterion.h>
#include "ir/base/map.h"
#include "ir/base/status.h"
#include "ir/base/vec.h"

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(vec, .init = begin, .fini = end);
TestSuite(map, .init = begin, .fini = end);

Test(vec, pushes_and_pops)
{
    NST_VEC(uint64_t) v = {0};
    for (uint64_t i = 0; i < 10000; i++) nst_vec_push(ctx.arena, &v, i * i);
    cr_assert_eq(v.n, 10000);
    for (uint64_t i = 0; i < 10000; i++) cr_assert_eq(v.at[i], i * i);
    cr_assert_eq(nst_vec_pop(&v), UINT64_C(9999) * 9999);
    cr_assert_eq(v.n, 9999);
}

Test(vec, reserve_keeps_the_items_and_grows_once)
{
    NST_VEC(char) v = {0};
    nst_vec_push(ctx.arena, &v, 'a');
    nst_vec_reserve(ctx.arena, &v, 1000);
    char *at = v.at;
    for (int i = 1; i < 1000; i++) nst_vec_push(ctx.arena, &v, 'b');
    cr_assert_eq(v.at, at);
    cr_assert_eq(v.at[0], 'a');
    nst_vec_reserve(ctx.arena, &v, 10);
    cr_assert_eq(v.at, at);
}

Test(map, holds_what_was_put_last)
{
    NstMap map;
    nst_map_init(&map, ctx.arena);
    cr_assert_eq(nst_map_get(&map, 5, 77), 77);
    for (uint64_t i = 0; i < 5000; i++) nst_map_put(&map, i << 40 | (i & 7), (uint32_t)i);
    for (uint64_t i = 0; i < 5000; i++) nst_map_put(&map, i << 40 | (i & 7), (uint32_t)(i + 1));
    cr_assert_eq(map.n, 5000);
    for (uint64_t i = 0; i < 5000; i++) {
        cr_assert_eq(nst_map_get(&map, i << 40 | (i & 7), 0), i + 1);
        cr_assert_eq(map.keys[i], i << 40 | (i & 7), "insertion order");
    }
    cr_assert_eq(nst_map_get(&map, UINT64_C(5000) << 40, 3), 3);
}

Test(map, takes_every_key_and_value)
{
    NstMap map;
    nst_map_init(&map, ctx.arena);
    nst_map_put(&map, 0, 0);
    nst_map_put(&map, UINT64_MAX, UINT32_MAX);
    cr_assert_eq(nst_map_get(&map, 0, 9), 0);
    cr_assert_eq(nst_map_get(&map, UINT64_MAX, 9), UINT32_MAX);
    cr_assert_eq(nst_map_get(&map, 1, 9), 9);
}

Test(map, hashes_depend_on_all_they_are_given)
{
    cr_assert_neq(nst_hash_bytes("abc", 3, 0), nst_hash_bytes("abd", 3, 0));
    cr_assert_neq(nst_hash_bytes("abc", 3, 0), nst_hash_bytes("abc", 3, 1));
    cr_assert_neq(nst_hash_mix(1, 2), nst_hash_mix(2, 1));
    cr_assert_eq(nst_hash_mix(1, 2), nst_hash_mix(1, 2));
}
