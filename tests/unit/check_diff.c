/* check_diff.c: random graphs, compiled against interpreted: the graph interpreter's results must be those of the scheduled
 * kernels, run by the kernel interpreter and as machine code on every target the host has, whole and with passes off one
 * by one.  Prints the counts of primitive x type; one that is zero fails.
 *
 * NST_DIFF_SEED=n runs that seed only and prints its graph; NST_DIFF_COUNT=n changes the number of graphs. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include "tests/unit/support_amx.h"
#include "tests/unit/support_module.h"
#include "tests/unit/support_nest.h"
#include "tests/unit/support_random_graph.h"

#define GRAPHS      2000
#define REFUSED_PER 20

/* What is no kernel but a step of the plan: check_plan_diff.c. */
#define NOT_COMPILED                                                                                                   \
    (1u << NST_PRIM_SORT | 1u << NST_PRIM_COMPACT | 1u << NST_PRIM_RANDOM_BITS | 1u << NST_PRIM_HOST |                 \
     1u << NST_PRIM_IF | 1u << NST_PRIM_LOOP)

typedef struct Variant {
    const char *name;
    NstTargetLevel level;
    uint64_t off;
    int threads;      /* 0: the kernel interpreter */
    int every;        /* graphs: compiling costs */
    bool approximate; /* with approximate passes, against the same kernels interpreted */
    int canon;        /* as in ModuleCase */
    bool sequences;   /* as in ModuleCase */
} Variant;

#define ALL_OFF (~(UINT64_C(1) << NST_PASS_TO_NESTS))

static const Variant variants[] = {
    {"plain nests, interpreted", NST_TARGET_AVX512, ALL_OFF, 0, 1, false, 0, false},
    {"all passes, interpreted", NST_TARGET_AVX2, 0, 0, 1, false, 0, true},
    {"avx512", NST_TARGET_AVX512, 0, 1, 2, false, 0, false},
    {"avx2, two threads", NST_TARGET_AVX2, 0, 2, 4, false, 0, false},
    {"baseline", NST_TARGET_BASELINE, 0, 1, 4, false, 0, true},
    {"approximate passes, avx512", NST_TARGET_AVX512, 0, 1, 4, true, 0, true},
    {"sizes as arguments, interpreted", NST_TARGET_AVX2, 1u << NST_PASS_CANON, 0, 2, false, 1, true},
    {"sizes as arguments, avx512", NST_TARGET_AVX512, 1u << NST_PASS_CANON, 2, 4, false, 1, false},
    {"sizes as arguments, runs once, avx512", NST_TARGET_AVX512, 1u << NST_PASS_CANON, 2, 4, false, 2, false},
    {"amx", NST_TARGET_AMX_INT8, 0, 1, 8, false, 0, false},
    {"short groups together, avx512, two threads", NST_TARGET_AVX512, 0, 2, 4, false, 0, true},
};

typedef struct Case {
    NstCtx ctx;
    uint64_t seed;
    NstGraph *graph;
    const char *text;
    NstTensorValue input[8];
    ModuleCase test;
    bool refused, siblings, sequences; /* refused as unsupported; products side by side, short groups in one kernel */
} Case;

static bool make_case(Case *c, uint64_t seed, RandomCounts *counts)
{
    int64_t sym[64];
    NstText text, sizes;
    *c = (Case){.seed = seed};
    cr_assert_eq(nst_ctx_init(&c->ctx), NST_OK);
    RandomOptions options = {.seed = seed, .prims = ~NOT_COMPILED};
    c->graph = random_graph(&c->ctx, c->ctx.arena, &options, counts);
    random_inputs(&c->ctx, c->ctx.arena, c->graph, seed, c->input, sym);
    nst_text_init(&text, c->ctx.arena);
    nst_text_init(&sizes, c->ctx.arena);
    nst_graph_print(&text, c->graph);
    for (uint32_t k = 1; k <= nst_dims_sym_count(c->graph->dims); k++)
        nst_text_add(&sizes, "%s=%lld ", nst_dims_sym(c->graph->dims, (NstSym){k})->name, (long long)sym[k]);
    c->text = nst_text_get(&text);
    c->test = (ModuleCase){.text = c->text, .sizes = nst_text_get(&sizes), .input = c->input};
    return true;
}

/* NULL if the variant gives the interpreter's results, else what differs. */
static const char *run_variant(Case *c, const Variant *variant)
{
    NstTensorValue wanted[8];
    NstTarget target = support_target(variant->level);
    NstPassOptions options = {.strict = !variant->approximate, .off = variant->off};
    ModuleRun run, interpreted;
    uint32_t n_in = nst_graph_region(c->graph, NST_GRAPH_REGION)->params.n;
    if (nst_graph_interpret(&c->ctx, c->ctx.arena, c->graph, c->input, n_in, target.has_fma, NULL, wanted) != NST_OK)
        return nst_format(c->ctx.arena, "interpreter: %s", c->ctx.error);
    c->test.canon = variant->canon;
    c->test.sequences = variant->sequences;
    NstStatus status = support_try_module(&c->ctx, &c->test, &target, &options, variant->threads, &run);
    c->refused = status == NST_E_UNSUPPORTED; /* a clear status is allowed, but not often */
    if (status != NST_OK)
        return c->refused ? NULL : nst_format(c->ctx.arena, "%s: %s", nst_status_name(status), c->ctx.error);
    c->siblings = c->siblings || support_count_groups(run.module, nst_is_sibling_group);
    c->sequences = c->sequences || support_count_groups(run.module, support_is_sequence);
    if (variant->approximate) {
        status = support_try_module(&c->ctx, &c->test, &target, &options, 0, &interpreted);
        if (status != NST_OK) return nst_format(c->ctx.arena, "%s: %s", nst_status_name(status), c->ctx.error);
        for (uint32_t k = 0; k < run.n_results; k++) wanted[k].data = interpreted.result[k];
    }
    for (uint32_t k = 0; k < run.n_results; k++) {
        char what[200];
        NstTensorValue got = wanted[k];
        got.data = run.result[k];
        if (run.bytes[k] != wanted[k].bytes)
            return nst_format(c->ctx.arena, "result %u: %zu bytes, wanted %zu", k, run.bytes[k], wanted[k].bytes);
        if (!random_same_bits(&wanted[k], &got, what, sizeof what))
            return nst_format(c->ctx.arena, "result %u, %s", k, what);
    }
    return NULL;
}

static bool can_run(NstTargetLevel level)
{
    NstCtx ctx;
    NstTarget target;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    bool can = support_runnable_target(&ctx, nst_target_level_name(level), &target);
    nst_ctx_dispose(&ctx);
    return can;
}

static void check_variant(const Variant *variant, RandomCounts *counts)
{
    const char *only = getenv("NST_DIFF_SEED"), *count = getenv("NST_DIFF_COUNT");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1, last = only    ? first
                                                                 : count ? strtoull(count, NULL, 10)
                                                                         : GRAPHS;
    uint64_t refused = 0, ran = 0, failed = 0, siblings = 0, sequences = 0;
    if (variant->threads && !can_run(variant->level)) return;
    for (uint64_t seed = first; seed <= last; seed++) {
        Case c;
        if (!only && seed % (uint64_t)variant->every != 0) continue;
        make_case(&c, seed, counts);
        if (only) fprintf(stderr, "%s sizes: %s\n", c.text, c.test.sizes);
        const char *wrong = run_variant(&c, variant);
        if (wrong) fprintf(stderr, "seed %lu, %s: %.600s\n", seed, variant->name, wrong);
        failed += wrong != NULL;
        refused += c.refused;
        siblings += c.siblings;
        sequences += c.sequences;
        ran++;
        nst_ctx_dispose(&c.ctx);
    }
    fprintf(stderr, "%s: %lu graphs, %lu refused as unsupported, %lu with siblings, %lu with sequences\n",
            variant->name, ran, refused, siblings, sequences);
    if (ran >= GRAPHS / 8 && !(variant->off >> NST_PASS_SIBLINGS & 1))
        cr_expect_gt(siblings, 0, "no graph has siblings");
    if (ran >= GRAPHS / 8 && variant->sequences && !(variant->off >> NST_PASS_SMALL & 1))
        cr_expect_gt(sequences, ran / 4, "few graphs have sequences");
    cr_expect_eq(failed, 0, "%lu graphs fail", failed);
    cr_expect_leq(refused * REFUSED_PER, ran + REFUSED_PER, "more than one graph in %d is refused", REFUSED_PER);
}

static void report(const RandomCounts *counts)
{
    for (int prim = 0; prim < NST_PRIM_COUNT; prim++) {
        if (NOT_COMPILED >> prim & 1) continue;
        fprintf(stderr, "%-13s", nst_prim_info((NstPrim)prim)->name);
        for (int type = 1; type < NST_DTYPE_COUNT; type++) {
            if (!random_graph_covers((NstPrim)prim, (NstDtype)type)) continue;
            uint64_t n = counts->of[prim][type];
            fprintf(stderr, " %s %lu", nst_dtype_info((NstDtype)type)->name, n);
            if (!getenv("NST_DIFF_SEED") && !getenv("NST_DIFF_COUNT"))
                cr_expect(n > 0, "no %s of %s", nst_prim_info((NstPrim)prim)->name,
                          nst_dtype_info((NstDtype)type)->name);
        }
        fprintf(stderr, "\n");
    }
}

static void check_numbered(int k)
{
    static RandomCounts counts;
    check_variant(&variants[k], &counts);
    if (variants[k].every == 1) report(&counts);
}

Test(diff, plain, .timeout = 800)
{
    check_numbered(0);
}

Test(diff, passes, .timeout = 800)
{
    check_numbered(1);
}

Test(diff, avx512, .timeout = 800)
{
    check_numbered(2);
}

Test(diff, avx2, .timeout = 800)
{
    check_numbered(3);
}

Test(diff, baseline, .timeout = 800)
{
    check_numbered(4);
}

Test(diff, approximate, .timeout = 800)
{
    check_numbered(5);
}

Test(diff, canonical, .timeout = 800)
{
    for (int k = 6; k <= 8; k++) check_numbered(k);
}

Test(diff, amx, .timeout = 800)
{
    check_numbered(9);
}

Test(diff, sequences, .timeout = 800)
{
    check_numbered(10);
}

Test(diff, each_pass_off, .timeout = 800)
{
    for (int pass = 0; pass < NST_PASS_COUNT; pass++) {
        if (pass == NST_PASS_TO_NESTS || !nst_pass_info((NstPass)pass)->exact)
            continue; /* strict, so that none else runs */
        char name[80];
        snprintf(name, sizeof name, "without %s, interpreted", nst_pass_info((NstPass)pass)->name);
        Variant variant = {name, NST_TARGET_AVX512, UINT64_C(1) << pass, 0, 1, false, 0, true};
        check_variant(&variant, NULL);
    }
}
