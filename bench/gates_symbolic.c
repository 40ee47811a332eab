/* gates_symbolic.c: graphs of open sizes against the same ones compiled for exactly those sizes. */
#include "bench/gates.h"

#include <limits.h>
#include <math.h>
#include <string.h>

typedef enum Subject { PRODUCT, SOFTMAX, CONVOLUTION } Subject;

#define MAX_SIZES 17

/* A size under measurement: the exact graph and the open one in the same rounds. */
typedef struct Size {
    NstGateSize of[2];
    NstGateTrial *trial;
} Size;

typedef struct Symbolic {
    NstGates *g;
    const char *name;
    Subject subject;
    NstGateProgram *open;
    int n, n_symbols, differ;
    Size size[MAX_SIZES];
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

static double operations(Subject subject, const NstGateSize of[2])
{
    double m = (double)of[0].value;
    if (subject == PRODUCT) return 2 * m * 768 * 768;
    if (subject == SOFTMAX) return m * 768;
    return 2 * m * (double)of[1].value * 64 * 64 * 9;
}

/* --- what the trials say ------------------------------------------------------------------------------------- */

static double over_exact(const void *size, const NstGateTimes *times)
{
    (void)size;
    return times->ns[1] / times->ns[0];
}

static double exact_rate(const void *size, const NstGateTimes *times)
{
    return ((const Size *)size)->trial->bench.cases[0].work / times->ns[0];
}

static double ratio_of(const Symbolic *s, const Size *size)
{
    NstGateTimes bests = nst_gate_trial_bests(s->g, size->trial);
    return over_exact(size, &bests);
}

static NstGateRow mean_row(const Symbolic *s)
{
    double sum = 0, typical = 0;
    int rounds = INT_MAX;
    for (int k = 0; k < s->n; k++) {
        const NstGateTrial *trial = s->size[k].trial;
        sum += log(ratio_of(s, &s->size[k]));
        typical += log(nst_gate_trial_typical(trial, over_exact, NULL));
        rounds = trial->bench.n_rounds < rounds ? trial->bench.n_rounds : rounds;
    }
    return (NstGateRow){.unit = "x",
                        .kind = NST_GATE_MOST,
                        .measured = exp(sum / s->n),
                        .required = 1.1,
                        .typical = exp(typical / s->n),
                        .rounds = rounds};
}

/* The worst of the sizes from `least` on, in the row. */
static const Size *worst_from(const Symbolic *s, int64_t least, NstGateSays *says, NstGateRow *row)
{
    NstGateTrial *trials[MAX_SIZES];
    const void *sizes[MAX_SIZES];
    int n = 0;
    for (int k = 0; k < s->n; k++) {
        if (s->size[k].of[0].value < least) continue;
        sizes[n] = &s->size[k];
        trials[n++] = s->size[k].trial;
    }
    return sizes[nst_gates_judge_worst(s->g, trials, says, sizes, n, row)];
}

static const Size *worst_row(const Symbolic *s, NstGateRow *row)
{
    *row = (NstGateRow){.unit = "x", .kind = NST_GATE_MOST, .required = 1.5};
    return worst_from(s, 0, over_exact, row);
}

/* Of the sizes from 14 on, for which a share of the peak is required; without a requirement for what is no contraction. */
static const Size *exact_row(const Symbolic *s, NstGateRow *row)
{
    *row = (NstGateRow){.unit = "%",
                        .kind = s->subject == SOFTMAX ? NST_GATE_INFO : NST_GATE_PEAK,
                        .required = 0.70,
                        .peak = s->g->peak,
                        .counts_skipped = s->subject == CONVOLUTION};
    return worst_from(s, 14, exact_rate, row);
}

/* Of the worst size and those that lie above what the mean may be, the one that was measured least. */
static NstGateTrial *least_measured_above(const Symbolic *s, double mean, const Size *worst)
{
    NstGateTrial *least = worst->trial;
    for (int k = 0; k < s->n; k++)
        if (ratio_of(s, &s->size[k]) > mean && s->size[k].trial->more_seconds < least->more_seconds)
            least = s->size[k].trial;
    return least;
}

static NstGateTrial *behind(void *arg)
{
    Symbolic *s = arg;
    NstGateRow worst, exact, mean = mean_row(s);
    const Size *slowest = worst_row(s, &worst), *slowest_exact = exact_row(s, &exact);
    if (!nst_gates_is_met(s->g, &worst)) return slowest->trial;
    if (!nst_gates_is_met(s->g, &exact)) return slowest_exact->trial;
    return nst_gates_is_met(s->g, &mean) ? NULL : least_measured_above(s, mean.required, slowest);
}

static const char *text_of_size(NstCtx *ctx, const Symbolic *s, const Size *size)
{
    long long h = size->of[0].value, w = size->of[1].value;
    return s->n_symbols == 2 ? nst_format(ctx->arena, "%lldx%lld", h, w) : nst_format(ctx->arena, "%lld", h);
}

static void add_rows(NstCtx *ctx, const Symbolic *s, const char *more)
{
    NstGateRow rows[3] = {mean_row(s)};
    const Size *slowest = worst_row(s, &rows[1]), *slowest_exact = exact_row(s, &rows[2]);
    for (int k = 0; k < 3; k++) rows[k].more = more;
    rows[0].name = nst_format(ctx->arena, "%s, time over exact, geometric mean", s->name);
    rows[0].note = nst_format(ctx->arena, "%d sizes", s->n);
    rows[1].name = nst_format(ctx->arena, "%s, time over exact, worst", s->name);
    rows[1].note = nst_format(ctx->arena, "at %s", text_of_size(ctx, s, slowest));
    rows[2].name = nst_format(ctx->arena, "%s, exact from 14 on", s->name);
    rows[2].note = nst_format(ctx->arena, "worst at %s", text_of_size(ctx, s, slowest_exact));
    nst_gates_add(s->g, rows[0]);
    nst_gates_add(s->g, rows[1]);
    nst_gates_most(s->g, nst_format(ctx->arena, "%s, sizes whose bits differ", s->name), s->differ, 0, "", NULL);
    if (rows[2].kind == NST_GATE_PEAK) nst_gates_add(s->g, rows[2]);
}

/* --- measuring ----------------------------------------------------------------------------------------------- */

/* The first rounds of one size. */
static NstStatus begin(NstCtx *ctx, Symbolic *s, Size *size)
{
    NstGates *g = s->g;
    NstGateProgram *exact, *open = nst_copy(ctx->arena, s->open, sizeof *open); /* bound to this size */
    const char *h = nst_format(ctx->arena, "%lld", (long long)size->of[0].value);
    const char *w = nst_format(ctx->arena, "%lld", (long long)size->of[1].value);
    NST_TRY(nst_gate_program_make(ctx, g, text_of(ctx, s->subject, h, w), &exact));
    NST_TRY(nst_gate_program_bind(ctx, g, open, size->of, s->n_symbols));
    const NstTensor *a = exact->on[0].run.outputs, *b = open->on[0].run.outputs;
    s->differ += a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes) != 0;
    double work = operations(s->subject, size->of);
    NstBenchCase cases[2] = {nst_gate_program_case(exact, 0, work), nst_gate_program_case(open, 0, work)};
    return nst_gate_trial_new(ctx, g, cases, 2, s->subject == SOFTMAX ? NST_PEAK_COUNT : g->peak, &size->trial);
}

static NstStatus measure(NstCtx *ctx, void *arg)
{
    static const int64_t rows[] = {2, 3, 5, 7, 8, 13, 14, 16, 23, 31, 49, 64, 97, 128, 197, 255, 300};
    static const int64_t planes[][2] = {{7, 7},   {7, 14},  {13, 13}, {14, 14}, {17, 31},
                                        {28, 28}, {45, 20}, {56, 56}, {63, 80}, {112, 112}};
    Symbolic *s = arg;
    bool plane = s->subject == CONVOLUTION;
    const char *more;
    NstGateSource source = {.text = text_of(ctx, s->subject, plane ? "h" : "m", "w")};
    NST_TRY(nst_gate_program_new(ctx, s->g, &source, &s->open));
    size_t n = plane ? sizeof planes / sizeof *planes : sizeof rows / sizeof *rows;
    s->n_symbols = plane ? 2 : 1;
    for (size_t k = 0; k < n; k++) {
        if (s->g->smoke && k % 3 != 2) continue;
        Size *size = &s->size[s->n++];
        size->of[0] = (NstGateSize){plane ? "h" : "m", plane ? planes[k][0] : rows[k]};
        size->of[1] = (NstGateSize){"w", plane ? planes[k][1] : 0};
        NST_TRY(begin(ctx, s, size));
    }
    NST_TRY(nst_gates_insist(ctx, s->g, behind, s, &more));
    add_rows(ctx, s, more);
    return NST_OK;
}

void nst_gates_symbolic(NstGates *g)
{
    static const char *const names[] = {"symbolic rows, product Mx768x768", "symbolic rows, softmax Mx768",
                                        "symbolic planes, 3x3 64->64"};
    for (int k = 0; k < 3; k++) {
        Symbolic s = {.g = g, .name = names[k], .subject = (Subject)k};
        nst_gates_try(g, s.name, measure, &s);
    }
}
