/* test_ahead.c: what is made of constants alone runs before the first run, with the same bits; what is not stays. */
#include <criterion/criterion.h>
#include <string.h>
#include "tests/unit/support_module.h"

static NstCtx ctx;

static void start(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void stop(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(ahead, .init = start, .fini = stop);

/* Groups ahead of the run before weights are packed, by the pass alone. */
static void check(const char *text, uint32_t ahead, uint32_t groups)
{
    NstTarget host;
    NstGraph *graph;
    NstModule *module;
    NstPassOptions nests = {.strict = true, .off = UINT64_C(1) << NST_PASS_SMALL};
    nst_target_host(&host);
    cr_assert_eq(nst_graph_parse(&ctx, ctx.arena, text, strlen(text), &graph), NST_OK, "%s", ctx.error);
    cr_assert_eq(nst_lower_graph(&ctx, ctx.arena, graph, &host, &nests, &module), NST_OK, "%s", ctx.error);
    cr_expect_eq(module->prepack.n, ahead, "%u ahead: %s", module->prepack.n, text);
    cr_expect_eq(module->groups.n, groups, "%u groups: %s", module->groups.n, text);
    ModuleCase test = {.text = text, .sizes = strstr(text, "symbols") ? "n=3" : NULL, .seed = 4, .index_limit = 4};
    support_same_on_threads(&ctx, &test, &host, text);
}

Test(ahead, weights_that_are_computed)
{
    check("graph g(x: f32[4, 24]) {\n  %q = const i8[24, 40] seed 1\n  %s = const f32[1, 40] seed 2\n"
          "  %f = convert f32 %q\n  %w = map \"a * b\" %f, %s\n  %c = contract \"ik,kj->ij\" %x, %w\n  return c = "
          "%c\n}\n",
          1, 1);
    check("graph g(x: f32[4, 24]) {\n  %q = const f32[24, 40] seed 1\n  %m = reduce \"max(a, b)\" axes [0] keep %q\n"
          "  %e = map \"exp(a - b)\" %q, %m\n  %p = prefix \"a + b\" axis 0 %e\n"
          "  %c = contract \"ik,kj->ij\" %x, %p\n  return c = %c\n}\n",
          1, 2); /* a scan carries state: it stays */
}

/* A stored concat has a nest a piece: all of them go, or none. */
Test(ahead, weights_in_pieces)
{
    check("graph g(x: f32[4, 24]) {\n  %a = const f32[16, 40] seed 1\n  %b = const f32[8, 40] seed 2\n"
          "  %w = concat axis 0 %a, %b\n  %c = contract \"ik,kj->ij\" %x, %w\n  return c = %c\n}\n",
          2, 1);
    check("graph g(x: f32[4, 24], y: f32[8, 40]) {\n  %a = const f32[16, 40] seed 1\n"
          "  %w = concat axis 0 %a, %y\n  %c = contract \"ik,kj->ij\" %x, %w\n  return c = %c\n}\n",
          0, 3);
}

/* A factor of constants and of a size that is open belongs to the run. */
Test(ahead, what_a_size_is_part_of_stays)
{
    check("graph g(x: f32[n, 5]) {\n  symbols n in 1..9\n  %q = const f32[5, 40] seed 1\n  %d = dim_value n\n"
          "  %f = convert f32 %d\n  %g = reshape %f : f32[1, 1]\n  %w = map \"exp(a) / b\" %q, %g\n  %c = contract "
          "\"ik,kj->ij\" %x, %w\n  return c = "
          "%c\n}\n",
          0, 2);
}

Test(ahead, results_inputs_and_what_may_fail_stay)
{
    check("graph g(x: f32[4]) {\n  %q = const f32[4] seed 1\n  %e = map \"exp(a)\" %q\n  %y = map \"a + b\" %x, %q\n"
          "  return e = %e, y = %y\n}\n",
          0, 2);
    check("graph g(x: f32[4, 5]) {\n  %q = const f32[7, 5] seed 1\n  %i = const i64[5] data [0i64, 1i64, 2i64, 3i64, "
          "0i64]\n"
          "  %g = gather axis 0 %q, %i\n  %c = contract \"ik,jk->ij\" %x, %g\n  return c = %c\n}\n",
          0, 2);
    check("graph g(x: f32[n, 5]) {\n  symbols n in 1..9\n  %q = const f32[1, 5] seed 1\n  %e = map \"exp(a)\" %q\n"
          "  %b = expand %e : f32[n, 5]\n  %p = prefix \"a + b\" axis 0 %b\n  %y = map \"a + b\" %x, %p\n  return y = "
          "%y\n}\n",
          1, 2);
}
