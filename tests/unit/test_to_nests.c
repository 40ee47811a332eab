/* test_to_nests.c: graphs as nests: each primitive against hand-written results, fused and unfused against each other. */
#include <criterion/criterion.h>
#include <string.h>
#include "tests/unit/support_module.h"
#include "tests/unit/support_nest.h"

static NstCtx ctx;
static NstTarget target;

static void start(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    target = support_target(NST_TARGET_AVX512);
}

static void stop(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(to_nests, .init = start, .fini = stop);

static const NstPassOptions plain = {.strict = true, .off = 1u << NST_PASS_FUSE | 1u << NST_PASS_SCHEDULE};

static ModuleRun run_plain(const char *text)
{
    ModuleCase test = {.text = text, .seed = 1};
    return support_run_module(&ctx, &test, &target, &plain, 0);
}

static void expect_f32(const ModuleRun *run, uint32_t result, const float *wanted, size_t n)
{
    cr_assert_eq(run->bytes[result], n * sizeof(float));
    for (size_t k = 0; k < n; k++)
        cr_assert_float_eq(((const float *)run->result[result])[k], wanted[k], 0, "element %zu: %g, wanted %g", k,
                           (double)((const float *)run->result[result])[k], (double)wanted[k]);
}

#define EXPECT(run, result, ...)                                                                                       \
    do {                                                                                                               \
        static const float wanted[] = {__VA_ARGS__};                                                                   \
        expect_f32((run), (result), wanted, sizeof wanted / sizeof *wanted);                                           \
    } while (0)

#define X23 "  %x = const f32[2, 3] data [1f32, 2f32, 3f32, 4f32, 5f32, 6f32]\n"

Test(to_nests, views)
{
    ModuleRun run = run_plain("graph g() {\n" X23 "  %t = permute [1, 0] %x : f32[3, 2]\n"
                              "  %r = reshape %t : f32[2, 3]\n"
                              "  %s = slice start [1, 2] step [-1, -2] %x : f32[2, 2]\n"
                              "  %half = const f32[] splat 0.5f32\n"
                              "  %p = pad constant lo [1, 0] hi [0, -1] interior [0, 1] %x, %half : f32[3, 4]\n"
                              "  %e = pad edge lo [0, 1] hi [0, 1] %x : f32[2, 5]\n"
                              "  %f = pad reflect lo [0, 2] hi [0, 2] %x : f32[2, 7]\n"
                              "  %w = pad wrap lo [0, 1] hi [1, 0] %x : f32[3, 4]\n"
                              "  %c = concat axis 1 %x, %s, %x : f32[2, 8]\n"
                              "  return r = %r, s = %s, p = %p, e = %e, f = %f, w = %w, c = %c\n}\n");
    EXPECT(&run, 0, 1, 4, 2, 5, 3, 6);
    EXPECT(&run, 1, 6, 4, 3, 1);
    EXPECT(&run, 2, 0.5f, 0.5f, 0.5f, 0.5f, 1, 0.5f, 2, 0.5f, 4, 0.5f, 5, 0.5f);
    EXPECT(&run, 3, 1, 1, 2, 3, 3, 4, 4, 5, 6, 6);
    EXPECT(&run, 4, 3, 2, 1, 2, 3, 2, 1, 6, 5, 4, 5, 6, 5, 4);
    EXPECT(&run, 5, 3, 1, 2, 3, 6, 4, 5, 6, 3, 1, 2, 3);
    EXPECT(&run, 6, 1, 2, 3, 6, 4, 1, 2, 3, 4, 5, 6, 3, 1, 4, 5, 6);
}

Test(to_nests, maps_and_reductions)
{
    ModuleRun run = run_plain("graph g() {\n" X23 "  %b = const f32[1, 3] data [10f32, 20f32, 30f32]\n"
                              "  %m = map \"a * 2 + b\" %x, %b : f32[2, 3]\n"
                              "  %s = reduce \"a + b\" axes [1] %m : f32[2]\n"
                              "  %k = reduce \"max(a, b)\" axes [0, 1] keep %m : f32[1, 1]\n"
                              "  %p = prefix \"a + b\" axis 1 %x : f32[2, 3]\n"
                              "  %q = prefix \"a + b\" axis 0 exclusive reverse %x : f32[2, 3]\n"
                              "  return m = %m, s = %s, k = %k, p = %p, q = %q\n}\n");
    EXPECT(&run, 0, 12, 24, 36, 18, 30, 42);
    EXPECT(&run, 1, 72, 90);
    EXPECT(&run, 2, 42);
    EXPECT(&run, 3, 1, 3, 6, 4, 9, 15);
    EXPECT(&run, 4, 4, 5, 6, 0, 0, 0);
}

Test(to_nests, contraction_and_window)
{
    ModuleRun run = run_plain("graph g() {\n" X23 "  %y = contract \"ik,jk->ij\" %x, %x : f32[2, 2]\n"
                              "  %i = const f32[1, 1, 1, 4] data [1f32, 2f32, 3f32, 4f32]\n"
                              "  %win = window [axis 3 size 3 stride 1 dilation 1 pad 1, 1] %i : f32[1, 1, 1, 4, 3]\n"
                              "  %k = const f32[1, 1, 3] data [1f32, 10f32, 100f32]\n"
                              "  %conv = contract \"nchwv,fcv->nfhw\" %win, %k : f32[1, 1, 1, 4]\n"
                              "  %pool = reduce \"min(a, b)\" axes [4] skip_padding %win : f32[1, 1, 1, 4]\n"
                              "  %zero = reduce \"min(a, b)\" axes [4] %win : f32[1, 1, 1, 4]\n"
                              "  return y = %y, conv = %conv, pool = %pool, zero = %zero\n}\n");
    EXPECT(&run, 0, 14, 32, 32, 77);
    EXPECT(&run, 1, 210, 321, 432, 43);
    EXPECT(&run, 2, 1, 1, 2, 3);
    EXPECT(&run, 3, 0, 1, 2, 0);
}

Test(to_nests, gather_scatter_update)
{
    ModuleRun run = run_plain("graph g() {\n" X23 "  %i = const i64[2] data [1i64, 0i64]\n"
                              "  %g = gather axis 0 %x, %i : f32[2, 3]\n"
                              "  %far = const i64[3] data [2i64, -1i64, 7i64]\n"
                              "  %f = gather axis 1 fill %x, %far : f32[2, 3]\n"
                              "  %h = gather axis 1 clamped %x, %far : f32[2, 3]\n"
                              "  %two = const i64[2] data [1i64, 1i64]\n"
                              "  %sc = scatter axis 0 \"a + b\" %x, %two, %x : f32[2, 3]\n"
                              "  %one = const i64[] splat 1i64\n"
                              "  %u = const f32[1, 2] data [-1f32, -2f32]\n"
                              "  %up = update_slice start [0, %one] %x, %u : f32[2, 3]\n"
                              "  return g = %g, f = %f, h = %h, sc = %sc, up = %up\n}\n");
    EXPECT(&run, 0, 4, 5, 6, 1, 2, 3);
    EXPECT(&run, 1, 3, 0, 0, 6, 0, 0);
    EXPECT(&run, 2, 3, 1, 3, 6, 4, 6);
    EXPECT(&run, 3, 1, 2, 3, 9, 12, 15);
    EXPECT(&run, 4, 1, -1, -2, 4, 5, 6);
}

Test(to_nests, a_bad_index_is_an_error)
{
    ModuleCase test = {.text = "graph g() {\n" X23 "  %i = const i64[1] data [2i64]\n"
                               "  %g = gather axis 0 %x, %i : f32[1, 3]\n  return g = %g\n}\n"};
    ModuleRun run;
    cr_assert_eq(support_try_module(&ctx, &test, &target, &plain, 0, &run), NST_E_INDEX);
}

/* A step between nests is no kernel, and nothing is fused over it. */
Test(to_nests, what_has_no_nest_form_is_a_step)
{
    static const char text[] = "graph g(x: f32[8]) {\n  %h = map \"a + 1\" %x\n  %a = sort keys 1 axis 0 %h : f32[8]\n"
                               "  %b = map \"a * 2\" %a\n  return b = %b\n}\n";
    NstGraph *graph;
    NstModule *module;
    NstScheduledList run, prepack;
    cr_assert_eq(nst_graph_parse(&ctx, ctx.arena, text, strlen(text), &graph), NST_OK, "%s", ctx.error);
    cr_assert_eq(nst_lower_graph(&ctx, ctx.arena, graph, &target, NULL, &module), NST_OK, "%s", ctx.error);
    cr_assert_eq(nst_schedule_module(&ctx, module, NULL, &run, &prepack), NST_OK, "%s", ctx.error);
    cr_assert_eq(run.n, 3);
    cr_assert(run.at[0].kernel && !run.at[1].kernel && run.at[2].kernel);
    cr_assert_str_eq(run.at[1].group->name, "sort");
}
