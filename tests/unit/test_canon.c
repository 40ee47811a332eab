/* test_canon.c: the canonical form of kernels: which sizes and strides make no difference, that nothing is computed otherwise,
 * and that the code of a kernel depends on its text alone, which is what lets kernels of one text share it. */
#include <criterion/criterion.h>
#include <string.h>
#include "codegen/codegen.h"
#include "passes/canon.h"
#include "tests/unit/support_loop.h"
#include "tests/unit/support_module.h"
#include "tests/unit/support_nest.h"
#include "tests/unit/support_random_graph.h"

static NstCtx ctx;

static void start(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void stop(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(canon, .init = start, .fini = stop);

/* The text that is hashed of a kernel in canonical form. */
static const char *canonical(const char *text, bool once)
{
    NstCanonSyms syms = {0};
    NstDim *value;
    NstText result;
    NstKernel *kernel = nst_test_parse_kernel(&ctx, text);
    nst_kernel_to_canon(kernel, &syms, once, &value);
    cr_assert_eq(nst_kernel_verify(&ctx, kernel), NST_OK, "%s", ctx.error);
    nst_text_init(&result, ctx.arena);
    nst_kernel_canonical(&result, kernel);
    return nst_text_get(&result);
}

static bool same_form(const char *a, const char *b, bool once)
{
    return strcmp(canonical(a, once), canonical(b, once)) == 0;
}

/* Rows of `cols` elements, `rows` of them, in panels of 16 columns, four rows at a time. */
static const char *pack(int rows, int cols)
{
    return nst_format(ctx.arena,
                      "kernel pack() in w: f32[%d, %d], out p: f32[%d, %d] layout(1/16, 0, 1%%16) {\n"
                      "  for parallel j in 0..%d {\n for i in 0..%d step 4 {\n for unroll r in 0..4 {\n"
                      "    for vector l in 0..16 width 16 {\n p[i + r, 16*j + l] = w[i + r, 16*j + l]\n } } } }\n}\n",
                      rows, cols, rows, cols, cols / 16, rows);
}

Test(canon, sizes_and_outer_strides_make_no_difference)
{
    static const char scale[] = "kernel k() in x: f32[%d, %d], out y: f32[%d, %d] {\n for parallel i in 0..%d {\n"
                                " for j in 0..%d {\n for k in 0..8 {\n y[i, 8*j + k] = x[i, 8*j + k] * 2\n } } }\n}\n";
    const char *a = nst_format(ctx.arena, scale, 4, 24, 4, 24, 4, 3),
               *b = nst_format(ctx.arena, scale, 5, 40, 5, 40, 5, 5);
    cr_expect(same_form(a, b, false), "%s\n%s", canonical(a, false), canonical(b, false));
    cr_expect(same_form(a, b, true));
}

/* An unrolled row's place is a displacement where the kernel runs often. */
Test(canon, strides_of_unrolled_rows_count_unless_it_runs_once)
{
    const char *a = pack(8, 32), *b = pack(12, 64);
    cr_expect_not(same_form(a, b, false));
    cr_expect(same_form(a, b, true), "%s\n%s", canonical(a, true), canonical(b, true));
}

Test(canon, what_is_computed_makes_a_difference)
{
    static const char *const kernels[] = {
        "kernel k() in x: f32[8], out y: f32[8] {\n for i in 0..8 {\n y[i] = x[i] * 2\n }\n}\n",
        "kernel k() in x: f32[8], out y: f32[8] {\n for i in 0..8 {\n y[i] = x[i] * 3\n }\n}\n",
        "kernel k() in x: f64[8], out y: f64[8] {\n for i in 0..8 {\n y[i] = x[i] * 2\n }\n}\n",
        "kernel k() in x: f32[8], out y: f32[8] {\n for i in 0..8 {\n y[i] = x[7 - i] * 2\n }\n}\n",
        "kernel k() in x: f32[8], out y: f32[8] {\n for parallel i in 0..8 {\n y[i] = x[i] * 2\n }\n}\n",
        "kernel k() in x: f32[8], out y: f32[8] {\n for unroll i in 0..8 {\n y[i] = x[i] * 2\n }\n}\n",
        "kernel k() in x: f32[8], out y: f32[8] {\n for unroll i in 0..7 {\n y[i] = x[i] * 2\n }\n}\n",
        "kernel k() in x: f32[8], out y: f32[8] {\n for vector i in 0..8 width 8 {\n y[i] = x[i] * 2\n }\n}\n",
        "kernel k() in x: f32[8], out y: f32[8] {\n for vector i in 0..7 width 8 {\n y[i] = x[i] * 2\n }\n}\n",
        "kernel k() in x: f32[8], out y: f32[8] {\n for i in 0..8 {\n if (index(i) < 5) {\n y[i] = x[i] * 2\n } }\n}\n",
        "kernel k() in x: f32[8], out y: f32[8] {\n for i in 0..8 {\n if (index(i) < 6) {\n y[i] = x[i] * 2\n } }\n}\n",
    };
    for (size_t a = 0; a < sizeof kernels / sizeof *kernels; a++)
        for (size_t b = 0; b < a; b++)
            for (int once = 0; once < 2; once++)
                cr_expect_not(same_form(kernels[a], kernels[b], once), "%s\n%s", kernels[a], kernels[b]);
}

/* Code is folded by the bounds of a variable that conditions or bounds of loops inside have. */
Test(canon, trips_of_judged_variables_count)
{
    static const char text[] = "kernel k() in x: f32[64], out y: f32[64] {\n for i in 0..%d {\n"
                               " for vector l in 0..min(16, 17 - i) width 16 {\n y[16*i + l] = x[16*i + l]\n } }\n}\n";
    cr_expect_not(same_form(nst_format(ctx.arena, text, 3), nst_format(ctx.arena, text, 4), false));
}

/* --- sharing ------------------------------------------------------------------------------------------------- */

static const char products[] = "graph g(x: f32[5, 128], y: f32[5, 96], z: f32[7, 33]) {\n"
                               "  %w = const f32[128, 320] seed 1\n  %v = const f32[96, 640] seed 2\n"
                               "  %a = contract \"ik,kj->ij\" %x, %w\n  %b = contract \"ik,kj->ij\" %y, %v\n"
                               "  %c = map \"exp(a)\" %z\n  return a = %a, b = %b, c = %c\n}\n";

Test(canon, kernels_that_come_to_one_text_share_it_and_others_keep_their_sizes)
{
    NstTarget target = support_target(NST_TARGET_AVX512);
    NstGraph *graph;
    NstModule *module;
    NstScheduledList run, prepack;
    cr_assert_eq(nst_graph_parse(&ctx, ctx.arena, products, strlen(products), &graph), NST_OK, "%s", ctx.error);
    cr_assert_eq(nst_lower_graph(&ctx, ctx.arena, graph, &target, NULL, &module), NST_OK, "%s", ctx.error);
    cr_assert_eq(nst_schedule_module(&ctx, module, NULL, &run, &prepack), NST_OK, "%s", ctx.error);
    cr_assert_eq(prepack.n, 2);
    cr_expect_eq(prepack.at[0].text.n, prepack.at[1].text.n);
    cr_expect_eq(memcmp(prepack.at[0].text.at, prepack.at[1].text.at, prepack.at[0].text.n), 0);
    cr_expect_gt(prepack.at[0].kernel->params.n, 0);
    bool differ = false;
    for (uint32_t k = 0; k < prepack.at[0].kernel->params.n; k++)
        differ = differ || !nst_dim_same(prepack.at[0].size[k], prepack.at[1].size[k]);
    cr_expect(differ);
    cr_expect_eq(run.at[run.n - 1].kernel->params.n, 0, "the map shares with none");
}

Test(canon, gives_the_same_results)
{
    static const char *const graphs[] = {
        products,
        "graph g(x: f32[n, 70], b: f32[1, 70]) {\n  symbols n in 1..9\n  %s = reduce \"a + b\" axes [1] keep %x\n"
        "  %y = map \"a / b + c\" %x, %s, %b\n  return y = %y\n}\n",
        "graph g(x: f32[1, 5, 9, 9], i: i64[3]) {\n  %k = const f32[20, 5, 3, 3] seed 3\n"
        "  %w = window [axis 2 size 3 stride 2 dilation 1 pad 1, 1; axis 3 size 3 stride 1 dilation 1 pad 1, 1] %x\n"
        "  %c = contract \"nchwuv,fcuv->nfhw\" %w, %k\n  %g = gather axis 2 %c, %i\n"
        "  %t = permute [0, 3, 1, 2] %g\n  return t = %t\n}\n"};
    NstTarget host;
    nst_target_host(&host);
    for (size_t k = 0; k < sizeof graphs / sizeof *graphs; k++) {
        ModuleCase test = {.text = graphs[k], .sizes = k == 1 ? "n=7" : NULL, .seed = k, .index_limit = 3};
        ModuleRun wanted = support_run_module(&ctx, &test, &host, NULL, 0);
        for (test.canon = 0; test.canon <= 2; test.canon++) {
            NstPassOptions options = {.strict = true, .off = test.canon ? 1u << NST_PASS_CANON : 0};
            ModuleRun run = support_run_module(&ctx, &test, &host, &options, 2);
            support_same_results(&wanted, &run, nst_format(ctx.arena, "graph %zu, form %d", k, test.canon));
        }
    }
}

/* --- text ---------------------------------------------------------------------------------------------------- */

static const char *code_of(const NstKernel *kernel, const NstTarget *target)
{
    NstText text;
    NstCodegenOptions options = {0};
    nst_text_init(&text, ctx.arena);
    cr_assert_eq(nst_codegen_ir_text(&ctx, kernel, target, &options, &text), NST_OK, "%s", ctx.error);
    return nst_text_get(&text);
}

static void check_kernel(const NstScheduled *scheduled, const NstTarget *target)
{
    NstText text;
    NstKernel *again;
    nst_text_init(&text, ctx.arena);
    nst_kernel_print(&text, scheduled->kernel);
    cr_assert_eq(nst_kernel_parse(&ctx, ctx.arena, nst_text_get(&text), text.n, &again), NST_OK, "%s", ctx.error);
    cr_expect_str_eq(code_of(again, target), code_of(scheduled->kernel, target), "%s", nst_text_get(&text));
}

Test(canon, code_depends_on_the_text_alone)
{
    NstTarget target = support_target(NST_TARGET_AVX512);
    uint32_t kernels = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        RandomOptions options = {.seed = seed,
                                 .prims = 1u << NST_PRIM_MAP | 1u << NST_PRIM_CONTRACT | 1u << NST_PRIM_CONST |
                                          1u << NST_PRIM_REDUCE | 1u << NST_PRIM_PERMUTE | 1u << NST_PRIM_WINDOW |
                                          1u << NST_PRIM_CONCAT | 1u << NST_PRIM_PAD | 1u << NST_PRIM_GATHER};
        NstPassOptions passes = {.off = 1u << NST_PASS_CANON};
        NstModule *module;
        NstScheduledList run, prepack;
        NstGraph *graph = random_graph(&ctx, ctx.arena, &options, NULL);
        if (nst_lower_graph(&ctx, ctx.arena, graph, &target, &passes, &module) != NST_OK ||
            nst_schedule_module(&ctx, module, &passes, &run, &prepack) != NST_OK) {
            nst_ctx_clear(&ctx);
            continue;
        }
        NstCanonSyms syms = {0};
        for (uint32_t k = 0; k < run.n; k++) {
            kernels++;
            check_kernel(&run.at[k], &target);
            nst_kernel_to_canon(run.at[k].kernel, &syms, seed % 2 == 0, &run.at[k].size);
            check_kernel(&run.at[k], &target);
        }
    }
    cr_expect_geq(kernels, 60, "%u kernels", kernels);
}
