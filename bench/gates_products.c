/* gates_products.c: f32 products: share of the peak, against oneDNN, thin ones against the read bandwidth. */
#include "bench/bandwidth.h"
#include "bench/gates.h"

#include <math.h>
#include <string.h>

#define NEAR         8    /* shapes drawn near each row's */
#define NEAR_SHARE   0.85 /* of what the row requires */
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
    /* results */
    double share, onednn; /* GOP/s or share of the bandwidth; times oneDNN's speed */
    const char *facts;
} Product;

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
static const float *weights_of(NstCtx *ctx, const Product *p, const NstGateProgram *program)
{
    if (!p->weights) return program->on[0].run.inputs[1].data;
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
static NstStatus check_result(NstCtx *ctx, const Product *p, const NstGateProgram *program, const float *expected)
{
    const float *y = program->on[0].run.outputs[0].data;
    for (int64_t i = 0; i < p->m * p->n; i++)
        NST_CHECK(ctx, fabsf(y[i] - expected[i]) <= 1e-5F * (float)p->k, NST_E_ASSERT,
                  "element %lld is %g, oneDNN gives %g", (long long)i, (double)y[i], (double)expected[i]);
    return NST_OK;
}

/* The time of the quickest read, or that of the FMAs at their peak where that is longer (eight rows on a CPU whose last-level
 * cache gives 128 GB/s), over the product's. */
static void share_of_roof(Product *p, const NstBench *bench, int n)
{
    double best = bench->times[0].best, read = bench->times[0].best;
    for (int k = 1; k <= NST_READ_CASES; k++) read = fmin(read, bench->times[k].best);
    double fma =
        2.0 * (double)p->m * (double)p->n * (double)p->k / fmax(nst_bench_rate(bench, n), p->g->peak_rate[p->g->peak]);
    p->share = fmax(read, fma) / best;
    p->facts = nst_format(p->g->ctx.arena, "%.1f %% of the read bandwidth, %.1f %% of the FMA peak; %s",
                          100 * read / best, 100 * fma / best, p->facts);
}

static NstStatus measure(NstCtx *ctx, void *arg)
{
    Product *p = arg;
    NstGates *g = p->g;
    NstGateProgram *program;
    NstBench bench;
    NstGateSource source = {.text = text_of(ctx, p), .target = p->target};
    NST_TRY(nst_gate_program_new(ctx, g, &source, &program));
    NST_TRY(nst_gate_program_bind(ctx, g, program, NULL, 0));
    bool thin = p->peak == NST_PEAK_COUNT;
    size_t bytes = (size_t)(p->k * p->n) * 4;
    double work = thin ? (double)bytes : 2.0 * (double)p->m * (double)p->n * (double)p->k;
    NstBenchCase cases[2 + NST_READ_CASES] = {nst_gate_program_case(program, 0, work)};
    int n = 1;
    NstSgemm sgemm = {.onednn = g->onednn, .m = p->m, .n = p->n, .k = p->k};
    NstRead read = packed_weights(ctx, program, bytes);
    if (thin) n += nst_read_cases(&read, cases + n);
    if (p->with_onednn && g->onednn) {
        sgemm.a = program->on[0].run.inputs[0].data;
        sgemm.b = weights_of(ctx, p, program);
        sgemm.c = nst_alloc_aligned(ctx->arena, (size_t)(p->m * p->n) * 4, 64);
        cases[n++] = nst_onednn_case(&sgemm);
    }
    NST_TRY(nst_gates_measure(ctx, g, cases, n, thin ? g->peak : p->peak, &bench));
    p->share = nst_bench_rate(&bench, 0);
    p->facts = nst_gate_program_facts(&g->ctx, program);
    if (thin) share_of_roof(p, &bench, n);
    if (sgemm.c) p->onednn = bench.times[n - 1].best / bench.times[0].best;
    nst_bench_dispose(&bench);
    return sgemm.c ? check_result(ctx, p, program, sgemm.c) : NST_OK;
}

static void add_share(const Product *p, const char *name, double share, double required, const char *note)
{
    if (p->peak == NST_PEAK_COUNT)
        nst_gates_least(p->g, name, share, required, "%", note);
    else
        nst_gates_rate(p->g, name, p->peak, share, required, note);
}

/* The worst of eight shapes near the row's. */
static void measure_near(const Product *row)
{
    NstGates *g = row->g;
    uint64_t state = g->seed;
    double worst = INFINITY;
    char note[128] = "", name[128];
    snprintf(name, sizeof name, "%s, %d shapes near", row->name, NEAR);
    for (int k = 0; k < NEAR; k++) {
        Product p = *row;
        p.with_onednn = false;
        p.m = row->m == 1 ? 1 : nst_gates_near(&state, row->m);
        p.n = nst_gates_near(&state, row->n);
        p.k = nst_gates_near(&state, row->k);
        if (!nst_gates_try(g, name, measure, &p)) return;
        if (p.share >= worst) continue;
        worst = p.share;
        snprintf(note, sizeof note, "worst %lldx%lldx%lld; seed %llu", (long long)p.m, (long long)p.n, (long long)p.k,
                 (unsigned long long)g->seed);
    }
    add_share(row, name, worst, row->required * NEAR_SHARE, note);
}

static void row(Product p)
{
    char name[128];
    snprintf(name, sizeof name, "product %s%lldx%lldx%lld%s%s", p.weights ? "" : "B not packed ahead ", (long long)p.m,
             (long long)p.n, (long long)p.k, p.target ? " " : "", p.target ? p.target : "");
    p.name = name;
    if (!nst_gates_try(p.g, name, measure, &p)) return;
    add_share(&p, name, p.share, p.required, p.facts);
    if (p.with_onednn) {
        char against[160];
        snprintf(against, sizeof against, "%s, speed over oneDNN's sgemm", name);
        if (p.g->onednn)
            nst_gates_least(p.g, against, p.onednn, 0.95, "x", nst_onednn_version(p.g->onednn));
        else
            nst_gates_missing(p.g, against, p.g->onednn_missing, true);
    }
    measure_near(&p);
}

void nst_gates_products(NstGates *g)
{
    static const int64_t sizes[][3] = {{256, 256, 256},  {512, 512, 512},  {768, 768, 768}, {1024, 1024, 1024},
                                       {128, 768, 3072}, {128, 3072, 768}, {49, 512, 2048}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        row((Product){.g = g,
                      .m = sizes[k][0],
                      .n = sizes[k][1],
                      .k = sizes[k][2],
                      .required = 0.88,
                      .peak = g->peak,
                      .weights = true,
                      .with_onednn = true});
    row((Product){.g = g,
                  .m = 256,
                  .n = 256,
                  .k = 256,
                  .required = 0.85,
                  .target = "avx2",
                  .peak = NST_PEAK_FMA_AVX2,
                  .weights = true});
    for (int64_t m = 1; m <= 8; m += 7)
        row((Product){.g = g, .m = m, .n = 3072, .k = 768, .required = 0.85, .peak = NST_PEAK_COUNT, .weights = true});
    row((Product){.g = g, .m = 512, .n = 512, .k = 512, .required = 0.70, .peak = g->peak});
}
