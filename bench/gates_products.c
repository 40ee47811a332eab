/* gates_products.c: f32 products: share of the peak, against oneDNN, thin ones against the read bandwidth. */
#include "bench/bandwidth.h"
#include "bench/gates.h"

#include <math.h>
#include <string.h>

#define SEED_WEIGHTS 7

typedef struct Product {
    NstGates *g;
    const char *name;
    int64_t m, n, k;
    double required;
    const char *target; /* NULL = host */
    NstPeak peak;       /* NST_PEAK_COUNT: of the read bandwidth */
    bool weights;       /* B is a constant, packed ahead */
    bool with_onednn;
    NstGateProgram *program;
    NstRead read;   /* cases 1 to NST_READ_CASES of a thin one */
    NstSgemm sgemm; /* c NULL: not measured; else the case before the peak loop */
    NstGateTrial *trial;
} Product;

static bool is_thin(const Product *p)
{
    return p->peak == NST_PEAK_COUNT;
}

static double operations(const Product *p)
{
    return 2.0 * (double)p->m * (double)p->n * (double)p->k;
}

static const char *text_of(NstCtx *ctx, const Product *p)
{
    long long m = p->m, n = p->n, k = p->k;
    const char *contract = "  %y = contract \"ik,kj->ij\" %a, %w\n  return y = %y\n}\n";
    if (p->weights)
        return nst_format(ctx->arena, "graph product(a: f32[%lld, %lld]) {\n  %%w = const f32[%lld, %lld] seed %d\n%s",
                          m, k, k, n, SEED_WEIGHTS, contract);
    return nst_format(ctx->arena, "graph product(a: f32[%lld, %lld], w: f32[%lld, %lld]) {\n%s", m, k, k, n, contract);
}

/* B as oneDNN reads it. */
static const float *weights_of(NstCtx *ctx, const Product *p)
{
    if (!p->weights) return p->program->on[0].run.inputs[1].data;
    float *w = nst_alloc_aligned(ctx->arena, (size_t)(p->k * p->n) * sizeof *w, 64);
    nst_const_fill_seeded(NST_F32, w, (size_t)(p->k * p->n), SEED_WEIGHTS);
    return w;
}

/* The packed weights, whose reading alone is the thin product's limit. */
static NstRead packed_weights(NstCtx *ctx, const NstGateProgram *program, size_t bytes)
{
    for (uint32_t k = 0; k < program->plan->constants.n; k++) {
        const NstPlanConst *constant = &program->plan->constants.at[k];
        if (constant->packed && constant->bytes >= bytes / 4096 * 4096)
            return (NstRead){constant->data, constant->bytes / 4096 * 4096};
    }
    return (NstRead){nst_gates_floats(ctx->arena, bytes / 4, 1), bytes / 4096 * 4096};
}

/* Both add up the same, in their own order: a wrong kernel must not be measured. */
static NstStatus check_result(NstCtx *ctx, const Product *p)
{
    const float *y = p->program->on[0].run.outputs[0].data, *expected = p->sgemm.c;
    for (int64_t i = 0; i < p->m * p->n; i++)
        NST_CHECK(ctx, fabsf(y[i] - expected[i]) <= 1e-5F * (float)p->k, NST_E_ASSERT,
                  "element %lld is %g, oneDNN gives %g", (long long)i, (double)y[i], (double)expected[i]);
    return NST_OK;
}

/* --- what a trial says --------------------------------------------------------------------------------------- */

static double read_ns(const NstGateTimes *times)
{
    return nst_bench_least(times->ns, 1 + NST_READ_CASES);
}

static double fma_ns(const Product *p, const NstGateTimes *times)
{
    return operations(p) / times->peak;
}

/* GOP/s.  Of a thin one: the time of the quickest read, or that of the FMAs at their peak where that is longer (eight rows on a
 * CPU whose last-level cache gives 128 GB/s), over the product's. */
static double says(const void *arg, const NstGateTimes *times)
{
    const Product *p = arg;
    return (is_thin(p) ? fmax(read_ns(times), fma_ns(p, times)) : operations(p)) / times->ns[0];
}

static NstGateRow share_row(const Product *p, double required)
{
    NstGateRow row = {.name = p->name,
                      .unit = "%",
                      .kind = is_thin(p) ? NST_GATE_LEAST : NST_GATE_PEAK,
                      .required = required,
                      .peak = p->peak};
    nst_gate_trial_judge(p->g, p->trial, says, p, &row);
    return row;
}

static const char *share_note(const Product *p)
{
    const char *facts = nst_gate_program_facts(&p->g->ctx, p->program);
    NstGateTimes bests = nst_gate_trial_bests(p->g, p->trial);
    if (!is_thin(p)) return facts;
    return nst_format(p->g->ctx.arena, "%.1f %% of the read bandwidth, %.1f %% of the FMA peak; %s",
                      100 * read_ns(&bests) / bests.ns[0], 100 * fma_ns(p, &bests) / bests.ns[0], facts);
}

static double onednn_says(const void *arg, const NstGateTimes *times)
{
    const Product *p = arg;
    return times->ns[p->trial->bench.n_cases - 2] / times->ns[0];
}

static NstGateRow onednn_row(const Product *p, const char *name)
{
    NstGateRow row = {
        .name = name, .unit = "x", .note = nst_onednn_version(p->g->onednn), .kind = NST_GATE_LEAST, .required = 0.95};
    nst_gate_trial_judge(p->g, p->trial, onednn_says, p, &row);
    return row;
}

static NstGateTrial *product_behind(void *arg)
{
    Product *p = arg;
    NstGateRow share = share_row(p, p->required);
    bool met = nst_gates_is_met(p->g, &share);
    if (met && p->sgemm.c) {
        NstGateRow onednn = onednn_row(p, NULL);
        met = nst_gates_is_met(p->g, &onednn);
    }
    return met ? NULL : p->trial;
}

/* --- measuring ----------------------------------------------------------------------------------------------- */

/* Compiles, and measures the first rounds. */
static NstStatus begin(NstCtx *ctx, Product *p)
{
    NstGates *g = p->g;
    NstGateSource source = {.text = text_of(ctx, p), .target = p->target};
    NST_TRY(nst_gate_program_new(ctx, g, &source, &p->program));
    NST_TRY(nst_gate_program_bind(ctx, g, p->program, NULL, 0));
    NstBenchCase cases[2 + NST_READ_CASES] = {nst_gate_program_case(p->program, 0, operations(p))};
    int n = 1;
    p->read = packed_weights(ctx, p->program, (size_t)(p->k * p->n) * 4);
    if (is_thin(p)) n += nst_read_cases(&p->read, cases + n);
    if (p->with_onednn && g->onednn) {
        p->sgemm = (NstSgemm){.onednn = g->onednn, .m = p->m, .n = p->n, .k = p->k};
        p->sgemm.a = p->program->on[0].run.inputs[0].data;
        p->sgemm.b = weights_of(ctx, p);
        p->sgemm.c = nst_alloc_aligned(ctx->arena, (size_t)(p->m * p->n) * 4, 64);
        cases[n++] = nst_onednn_case(&p->sgemm);
    }
    NST_TRY(nst_gate_trial_new(ctx, g, cases, n, is_thin(p) ? g->peak : p->peak, &p->trial));
    return p->sgemm.c ? check_result(ctx, p) : NST_OK;
}

static NstStatus measure(NstCtx *ctx, void *arg)
{
    Product *p = arg;
    NstGates *g = p->g;
    const char *more;
    NST_TRY(begin(ctx, p));
    NST_TRY(nst_gates_insist(ctx, g, product_behind, p, &more));
    NstGateRow share = share_row(p, p->required);
    share.note = share_note(p);
    share.more = more;
    nst_gates_add(g, share);
    if (!p->with_onednn) return NST_OK;
    const char *against = nst_format(ctx->arena, "%s, speed over oneDNN's sgemm", p->name);
    if (!p->sgemm.c) {
        nst_gates_missing(g, against, g->onednn_missing, true);
        return NST_OK;
    }
    NstGateRow onednn = onednn_row(p, against);
    onednn.more = more;
    nst_gates_add(g, onednn);
    return NST_OK;
}

/* The worst of the shapes near the row's. */
static NstStatus measure_near(NstCtx *ctx, void *arg)
{
    const Product *row = arg;
    uint64_t state = row->g->seed;
    Product *shapes = NST_NEW_ARRAY(ctx->arena, Product, NST_GATES_NEAR);
    NstGateNear near = {.g = row->g, .says = says};
    for (int k = 0; k < NST_GATES_NEAR; k++) {
        Product *p = &shapes[k];
        *p = *row;
        p->with_onednn = false;
        p->m = row->m == 1 ? 1 : nst_gates_near(&state, row->m);
        p->n = nst_gates_near(&state, row->n);
        p->k = nst_gates_near(&state, row->k);
        if (begin(ctx, p) != NST_OK)
            return nst_note(ctx, "at %lldx%lldx%lld", (long long)p->m, (long long)p->n, (long long)p->k);
        near.shape[k] = p;
        near.trial[k] = p->trial;
    }
    near.row = share_row(&shapes[0], row->required * NST_GATES_NEAR_SHARE);
    NST_TRY(nst_gates_insist_near(ctx, &near));
    const Product *worst = &shapes[near.worst];
    near.row.note = nst_format(ctx->arena, "worst %lldx%lldx%lld; seed %llu", (long long)worst->m, (long long)worst->n,
                               (long long)worst->k, (unsigned long long)row->g->seed);
    nst_gates_add(row->g, near.row);
    return NST_OK;
}

static void row(Product p)
{
    char name[128];
    snprintf(name, sizeof name, "product %s%lldx%lldx%lld%s%s", p.weights ? "" : "B not packed ahead ", (long long)p.m,
             (long long)p.n, (long long)p.k, p.target ? " " : "", p.target ? p.target : "");
    p.name = name;
    Product near = p;
    if (!nst_gates_try(p.g, name, measure, &p)) return;
    near.name = nst_format(p.g->ctx.arena, "%s, %d shapes near", name, NST_GATES_NEAR);
    nst_gates_try(p.g, near.name, measure_near, &near);
}

void nst_gates_products(NstGates *g)
{
    static const int64_t sizes[][3] = {{256, 256, 256},  {512, 512, 512},  {768, 768, 768}, {1024, 1024, 1024},
                                       {128, 768, 3072}, {128, 3072, 768}, {49, 512, 2048}};
    /* Issue 2 asks for 88 % with AVX-512 and 85 % with AVX2. */
    const double avx2 = 0.85, share = g->host.level >= NST_TARGET_AVX512 ? 0.88 : avx2;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        row((Product){.g = g,
                      .m = sizes[k][0],
                      .n = sizes[k][1],
                      .k = sizes[k][2],
                      .required = share,
                      .peak = g->peak,
                      .weights = true,
                      .with_onednn = true});
    row((Product){.g = g,
                  .m = 256,
                  .n = 256,
                  .k = 256,
                  .required = avx2,
                  .target = "avx2",
                  .peak = NST_PEAK_FMA_AVX2,
                  .weights = true});
    for (int64_t m = 1; m <= 8; m += 7)
        row((Product){.g = g, .m = m, .n = 3072, .k = 768, .required = 0.85, .peak = NST_PEAK_COUNT, .weights = true});
    row((Product){.g = g, .m = 512, .n = 512, .k = 512, .required = 0.70, .peak = g->peak});
}
