/* test_random_graph.c: random graphs verify, round-trip as text, survive a sweep, and run; the generator covers every primitive
 * and type it claims to. */
#include <criterion/criterion.h>
#include "tests/unit/support_random_graph.h"

#define GRAPHS 4000 /* enough for every pair of primitive and type */

static void check_round_trip(NstCtx *ctx, const NstGraph *graph, uint64_t seed, const NstTensorValue *input, uint32_t n,
                             const NstTensorValue *wanted)
{
    NstText first, second;
    NstGraph *again;
    NstTensorValue result[8];
    char what[200];
    nst_text_init(&first, ctx->arena);
    nst_text_init(&second, ctx->arena);
    nst_graph_print(&first, graph);
    cr_assert_eq(nst_graph_parse(ctx, ctx->arena, first.at, first.n, &again), NST_OK, "seed %lu: %s\n%s", seed,
                 ctx->error, first.at);
    nst_graph_print(&second, again);
    cr_assert_str_eq(first.at, second.at);
    cr_assert_eq(nst_graph_verify(ctx, again), NST_OK, "seed %lu: %s\n%s", seed, ctx->error, first.at);
    NstStatus status = nst_graph_interpret(ctx, ctx->arena, again, input, n, true, NULL, result);
    cr_assert_eq(status, NST_OK, "seed %lu: %s\n%s", seed, ctx->error, first.at);
    for (uint32_t k = 0; k < nst_graph_region(graph, NST_GRAPH_REGION)->results.n; k++)
        cr_assert(random_same_bits(&wanted[k], &result[k], what, sizeof what), "seed %lu, result %u: %s", seed, k,
                  what);
}

static void check_seed(uint64_t seed, RandomCounts *counts)
{
    NstCtx ctx;
    NstTensorValue input[8], result[8];
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    RandomOptions options = {.seed = seed};
    NstGraph *graph = random_graph(&ctx, ctx.arena, &options, counts);
    uint32_t n = nst_graph_region(graph, NST_GRAPH_REGION)->params.n;
    random_inputs(&ctx, ctx.arena, graph, seed, input, NULL);
    NstStatus status = nst_graph_interpret(&ctx, ctx.arena, graph, input, n, true, NULL, result);
    if (status != NST_OK) {
        NstText text;
        nst_text_init(&text, ctx.arena);
        nst_graph_print(&text, graph);
        cr_assert(false, "seed %lu: %s\n%s", seed, ctx.error, text.at);
    }
    check_round_trip(&ctx, graph, seed, input, n, result);
    nst_ctx_dispose(&ctx);
}

Test(random_graph, graphs_run_and_round_trip, .timeout = 110)
{
    static RandomCounts counts;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) check_seed(seed, &counts);
    for (int prim = 0; prim < NST_PRIM_COUNT; prim++)
        for (int type = 1; type < NST_DTYPE_COUNT; type++)
            cr_expect(!random_graph_covers((NstPrim)prim, (NstDtype)type) || counts.of[prim][type] > 0, "no %s of %s",
                      nst_prim_info((NstPrim)prim)->name, nst_dtype_info((NstDtype)type)->name);
}
