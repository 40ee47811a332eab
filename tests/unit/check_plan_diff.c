/* check_plan_diff.c: random graphs of every primitive but host as whole plans: compiled, read back from the cache, with one
 * and two threads, against the interpreter; half of the graphs are mostly steps that are no kernels (sort, compact,
 * random_bits, if, loop).
 *
 * NST_DIFF_SEED=n runs that seed only and prints its graph; NST_DIFF_COUNT=n changes the number of graphs. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include "nestor/session.h"
#include "runtime/compiler.h"
#include "tests/unit/support_random_graph.h"

extern const NstCompilerTable nst_compiler_table;

#define GRAPHS      600
#define REFUSED_PER 20
#define STEPS                                                                                                          \
    (1u << NST_PRIM_SORT | 1u << NST_PRIM_COMPACT | 1u << NST_PRIM_RANDOM_BITS | 1u << NST_PRIM_IF |                   \
     1u << NST_PRIM_LOOP | 1u << NST_PRIM_CALL | 1u << NST_PRIM_MAP | 1u << NST_PRIM_RESHAPE | 1u << NST_PRIM_CONST)

typedef struct Case {
    NstCtx ctx;
    uint64_t seed;
    NstGraph *graph;
    const char *text;
    NstTensorValue input[8], wanted[8];
    uint32_t n_in, n_out;
} Case;

static NstEngine *engine[2]; /* of one and two threads */

static const char *run_session(Case *c, NstModel *model, bool from_cache, bool *refused)
{
    NstSession *session = NULL;
    NstSessionOptions options = {.strict = 1, .fail_on_compile = from_cache};
    NstNamedTensor in[8] = {{0}}, out[8] = {{0}};
    const char *wrong = NULL;
    NstStatus status = nst_session_new(model, &options, &session);
    *refused = status == NST_E_UNSUPPORTED;
    if (status != NST_OK) return *refused ? NULL : nst_format(c->ctx.arena, "session: %s", nst_error_text());
    for (uint32_t k = 0; k < c->n_in; k++) {
        in[k].tensor = (NstTensor){
            .dtype = c->input[k].dtype, .rank = c->input[k].rank, .data = c->input[k].data, .bytes = c->input[k].bytes};
        memcpy(in[k].tensor.shape, c->input[k].shape, sizeof c->input[k].shape);
    }
    /* Twice: a run state that was used before gives the same. */
    for (int round = 0; round < 2 && !wrong; round++) {
        status = nst_session_run(session, in, c->n_in, out, c->n_out, NULL);
        if (status != NST_OK) wrong = nst_format(c->ctx.arena, "run: %s", nst_error_text());
        for (uint32_t k = 0; k < c->n_out && status == NST_OK; k++) {
            const NstTensor *given = &out[k].tensor;
            NstTensorValue got = {
                .dtype = given->dtype, .rank = given->rank, .data = given->data, .bytes = c->wanted[k].bytes};
            char what[200];
            memcpy(got.shape, given->shape, sizeof got.shape);
            if (!wrong && !random_same_bits(&c->wanted[k], &got, what, sizeof what))
                wrong = nst_format(c->ctx.arena, "result %u, %s", k, what);
            nst_tensor_release(&out[k].tensor);
        }
    }
    nst_session_free(session);
    return wrong;
}

static const char *run_case(Case *c, bool *refused)
{
    if (nst_graph_interpret(&c->ctx, c->ctx.arena, c->graph, c->input, c->n_in, engine[0] != NULL, NULL, c->wanted) !=
        NST_OK)
        return nst_format(c->ctx.arena, "interpreter: %s", c->ctx.error);
    for (int t = 0; t < 2; t++) {
        NstModel *model;
        cr_assert_eq(nst_model_open_memory(engine[t], "random", c->text, strlen(c->text), &model), NST_OK);
        const char *wrong = run_session(c, model, false, refused);
        if (!wrong && !*refused) wrong = run_session(c, model, true, refused);
        nst_model_free(model);
        if (wrong) return nst_format(c->ctx.arena, "%d threads: %s", t + 1, wrong);
        if (*refused) return NULL;
    }
    return NULL;
}

static void make_case(Case *c, uint64_t seed, RandomCounts *counts)
{
    NstText text;
    int64_t sym[64];
    *c = (Case){.seed = seed};
    cr_assert_eq(nst_ctx_init(&c->ctx), NST_OK);
    RandomOptions options = {.seed = seed, .prims = seed % 2 ? 0 : STEPS};
    c->graph = random_graph(&c->ctx, c->ctx.arena, &options, counts);
    random_inputs(&c->ctx, c->ctx.arena, c->graph, seed, c->input, sym);
    nst_text_init(&text, c->ctx.arena);
    nst_graph_print(&text, c->graph);
    c->text = nst_text_get(&text);
    c->n_in = nst_graph_region(c->graph, NST_GRAPH_REGION)->params.n;
    c->n_out = nst_graph_region(c->graph, NST_GRAPH_REGION)->results.n;
}

Test(plan_diff, whole_plans_give_what_the_interpreter_gives, .timeout = 800)
{
    static RandomCounts counts;
    const char *only = getenv("NST_DIFF_SEED"), *count = getenv("NST_DIFF_COUNT");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1;
    uint64_t last = only ? first : count ? strtoull(count, NULL, 10) : GRAPHS, failed = 0, refusals = 0;
    nst_compiler_set(&nst_compiler_table);
    for (int t = 0; t < 2; t++) {
        NstEngineOptions options = {.threads = t + 1, .cache = ""};
        cr_assert_eq(nst_engine_new(&options, &engine[t]), NST_OK, "%s", nst_error_text());
    }
    for (uint64_t seed = first; seed <= last; seed++) {
        Case c;
        bool refused = false;
        make_case(&c, seed, &counts);
        if (only) fprintf(stderr, "%s", c.text);
        const char *wrong = run_case(&c, &refused);
        if (wrong) fprintf(stderr, "seed %lu: %.600s\n", seed, wrong);
        if (refused) fprintf(stderr, "seed %lu refused: %s\n", seed, nst_error_text());
        failed += wrong != NULL;
        refusals += refused;
        nst_ctx_dispose(&c.ctx);
    }
    fprintf(stderr, "%lu graphs, %lu refused as unsupported\n", last - first + 1, refusals);
    cr_expect_eq(failed, 0, "%lu graphs fail", failed);
    cr_expect_leq(refusals * REFUSED_PER, last - first + REFUSED_PER, "more than one graph in %d is refused",
                  REFUSED_PER);
    for (int prim = 0; prim < NST_PRIM_COUNT && !only && !count; prim++) {
        uint64_t n = 0;
        for (int type = 1; type < NST_DTYPE_COUNT; type++) n += counts.of[prim][type];
        cr_expect(n > 0 || prim == NST_PRIM_HOST, "no %s", nst_prim_info((NstPrim)prim)->name);
    }
    for (int t = 0; t < 2; t++) nst_engine_free(engine[t]);
}
