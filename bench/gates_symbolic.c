/* gates_symbolic.c: graphs of open sizes against the same ones compiled for exactly those sizes. */
#include "bench/gates.h"

#include <math.h>
#include <string.h>

typedef enum Subject { PRODUCT, SOFTMAX, CONVOLUTION } Subject;

typedef struct Symbolic {
    NstGates *g;
    Subject subject;
    NstGateProgram *open;
    NstGateSize size[2];
    int n_sizes;
    /* results over all sizes */
    double log_sum, worst, exact_worst; /* exact_worst: GOP/s, of sizes that count */
    int n, differ;
    char where[64], exact_where[64];
} Symbolic;

static const char *softmax(NstCtx *ctx, const char *m)
{
    return nst_format(ctx->arena,
                      "graph softmax(x: f32[%s, 768]) {\n%s"
                      "  %%t = reduce \"max(a, b)\" axes [1] keep %%x\n  %%d = map \"a - b\" %%x, %%t\n"
                      "  %%e = map \"exp(a)\" %%d\n  %%s = reduce \"a + b\" axes [1] keep %%e\n"
                      "  %%i = map \"1 / a\" %%s\n  %%y = map \"a * b\" %%e, %%i\n  return y = %%y\n}\n",
                      m, m[0] == 'm' ? "  symbols m in 1..4096\n" : "");
}

/* h, w: numbers or symbols. */
static const char *text_of(NstCtx *ctx, Subject subject, const char *h, const char *w)
{
    bool open = h[0] == 'm' || h[0] == 'h';
    if (subject == SOFTMAX) return softmax(ctx, h);
    if (subject == PRODUCT)
        return nst_format(ctx->arena,
                          "graph product(a: f32[%s, 768]) {\n%s  %%w = const f32[768, 768] seed 7\n"
                          "  %%y = contract \"ik,kj->ij\" %%a, %%w\n  return y = %%y\n}\n",
                          h, open ? "  symbols m in 1..4096\n" : "");
    return nst_format(
        ctx->arena,
        "graph convolution(last: f32[1, %s, %s, 64]) {\n%s  %%x = permute [0, 3, 1, 2] %%last\n"
        "  %%k = const f32[64, 64, 3, 3] seed 3\n"
        "  %%t = window [axis 2 size 3 stride 1 dilation 1 pad 1, 1; axis 3 size 3 stride 1 dilation 1 pad 1, 1]"
        " %%x\n  %%y = contract \"nchwuv,fcuv->nfhw\" %%t, %%k\n"
        "  %%out = permute [0, 2, 3, 1] %%y\n  return out = %%out\n}\n",
        h, w, open ? "  symbols h in 1..1024, w in 1..1024\n" : "");
}

static double operations(const Symbolic *s)
{
    double m = (double)s->size[0].value;
    if (s->subject == PRODUCT) return 2 * m * 768 * 768;
    if (s->subject == SOFTMAX) return m * 768;
    return 2 * m * (double)s->size[1].value * 64 * 64 * 9;
}

static void note_size(const Symbolic *s, char *text, size_t n)
{
    if (s->n_sizes == 2)
        snprintf(text, n, "%lldx%lld", (long long)s->size[0].value, (long long)s->size[1].value);
    else
        snprintf(text, n, "%lld", (long long)s->size[0].value);
}

/* One size: the open graph and the exact one in the same rounds. */
static NstStatus measure_size(NstCtx *ctx, Symbolic *s)
{
    NstGates *g = s->g;
    NstGateProgram *exact;
    NstBench bench;
    const char *h = nst_format(ctx->arena, "%lld", (long long)s->size[0].value);
    const char *w = nst_format(ctx->arena, "%lld", (long long)s->size[1].value);
    NST_TRY(nst_gate_program_make(ctx, g, text_of(ctx, s->subject, h, w), &exact));
    NST_TRY(nst_gate_program_bind(ctx, g, s->open, s->size, s->n_sizes));
    const NstTensor *a = exact->on[0].run.outputs, *b = s->open->on[0].run.outputs;
    s->differ += a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes) != 0;
    NstBenchCase cases[2] = {nst_gate_program_case(exact, 0, operations(s)),
                             nst_gate_program_case(s->open, 0, operations(s))};
    NST_TRY(nst_gates_measure(ctx, g, cases, 2, s->subject == SOFTMAX ? NST_PEAK_COUNT : g->peak, &bench));
    double ratio = bench.times[1].best / bench.times[0].best, rate = nst_bench_rate(&bench, 0);
    nst_bench_dispose(&bench);
    s->log_sum += log(ratio);
    s->n++;
    if (ratio > s->worst) {
        s->worst = ratio;
        note_size(s, s->where, sizeof s->where);
    }
    bool counts = s->size[0].value >= 14;
    if (counts && (s->exact_worst == 0 || rate < s->exact_worst)) {
        s->exact_worst = rate;
        note_size(s, s->exact_where, sizeof s->exact_where);
    }
    return NST_OK;
}

static NstStatus measure(NstCtx *ctx, void *arg)
{
    static const int64_t rows[] = {2, 3, 5, 7, 8, 13, 14, 16, 23, 31, 49, 64, 97, 128, 197, 255, 300};
    static const int64_t planes[][2] = {{7, 7},   {7, 14},  {13, 13}, {14, 14}, {17, 31},
                                        {28, 28}, {45, 20}, {56, 56}, {63, 80}, {112, 112}};
    Symbolic *s = arg;
    bool plane = s->subject == CONVOLUTION;
    NstGateSource source = {.text = text_of(ctx, s->subject, plane ? "h" : "m", "w")};
    NST_TRY(nst_gate_program_new(ctx, s->g, &source, &s->open));
    size_t n = plane ? sizeof planes / sizeof *planes : sizeof rows / sizeof *rows;
    s->n_sizes = plane ? 2 : 1;
    for (size_t k = 0; k < n; k++) {
        if (s->g->smoke && k % 3 != 2) continue;
        s->size[0] = (NstGateSize){plane ? "h" : "m", plane ? planes[k][0] : rows[k]};
        s->size[1] = (NstGateSize){"w", plane ? planes[k][1] : 0};
        NST_TRY(measure_size(ctx, s));
    }
    return NST_OK;
}

void nst_gates_symbolic(NstGates *g)
{
    static const char *const names[] = {"symbolic rows, product Mx768x768", "symbolic rows, softmax Mx768",
                                        "symbolic planes, 3x3 64->64"};
    for (int k = 0; k < 3; k++) {
        Symbolic s = {.g = g, .subject = (Subject)k};
        NstArena *arena = g->ctx.arena;
        if (!nst_gates_try(g, names[k], measure, &s)) continue;
        nst_gates_most(g, nst_format(arena, "%s, time over exact, geometric mean", names[k]), exp(s.log_sum / s.n), 1.1,
                       "x", nst_format(arena, "%d sizes", s.n));
        nst_gates_most(g, nst_format(arena, "%s, time over exact, worst", names[k]), s.worst, 1.5, "x",
                       nst_format(arena, "at %s", s.where));
        nst_gates_most(g, nst_format(arena, "%s, sizes whose bits differ", names[k]), s.differ, 0, "", NULL);
        if (s.subject != SOFTMAX)
            nst_gates_add(g, (NstGateRow){.name = nst_format(arena, "%s, exact from 14 on", names[k]),
                                          .unit = "%",
                                          .kind = NST_GATE_PEAK,
                                          .measured = s.exact_worst,
                                          .required = 0.70,
                                          .peak = g->peak,
                                          .counts_skipped = s.subject == CONVOLUTION,
                                          .note = nst_format(arena, "worst at %s", s.exact_where)});
    }
}
