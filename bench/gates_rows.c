/* gates_rows.c: softmax and layer norm: one kernel, no intermediate, against the bare exp and a copy. */
#include "bench/bandwidth.h"
#include "bench/gates.h"
#include "bench/mvec.h"

#include <math.h>

typedef struct Rows {
    NstGates *g;
    int64_t rows, width;
    NstGateTrial *trial;
} Rows;

/* As the frontend lowers them. */
static const char softmax_body[] = "  %m = reduce \"max(a, b)\" axes [1] keep %x\n"
                                   "  %d = map \"a - b\" %x, %m\n"
                                   "  %e = map \"exp(a)\" %d\n"
                                   "  %s = reduce \"a + b\" axes [1] keep %e\n"
                                   "  %i = map \"1 / a\" %s\n"
                                   "  %y = map \"a * b\" %e, %i\n"
                                   "  return y = %y\n}\n";
static const char norm_body[] = "  %s = reduce \"a + b\" axes [1] keep %x\n"
                                "  %n = const f32[] splat {N}f32\n"
                                "  %n2 = reshape %n : f32[1, 1]\n"
                                "  %m = map \"a / b\" %s, %n2\n"
                                "  %d = map \"a - b\" %x, %m\n"
                                "  %q = map \"a * a\" %d\n"
                                "  %t = reduce \"a + b\" axes [1] keep %q\n"
                                "  %v = map \"a / b\" %t, %n2\n"
                                "  %i = map \"1 / sqrt(a + 0.00001)\" %v\n"
                                "  %z = map \"a * b\" %d, %i\n"
                                "  %g = const f32[1, {N}] seed 1\n"
                                "  %o = const f32[1, {N}] seed 2\n"
                                "  %w = map \"a * b\" %z, %g\n"
                                "  %y = map \"a + b\" %w, %o\n"
                                "  return y = %y\n}\n";

/* text with {N} written as the number */
static const char *with_width(NstCtx *ctx, const char *text, int64_t width)
{
    NstText out;
    nst_text_init(&out, ctx->arena);
    for (; *text; text++) {
        if (*text == '{' && text[1] == 'N') {
            nst_text_add(&out, "%lld", (long long)width);
            text += 2;
        } else {
            nst_text_add_n(&out, text, 1);
        }
    }
    return nst_text_get(&out);
}

static const char *head(NstCtx *ctx, const Rows *r, const char *name, const char *body)
{
    const char *text =
        nst_format(ctx->arena, "graph %s(x: f32[%lld, %lld]) {\n", name, (long long)r->rows, (long long)r->width);
    return nst_format(ctx->arena, "%s%s", text, with_width(ctx, body, r->width));
}

static const char *named(NstCtx *ctx, const Rows *r, const char *subject, const char *what)
{
    return nst_format(ctx->arena, "%s %lldx%lld, %s", subject, (long long)r->rows, (long long)r->width, what);
}

static void one_kernel(NstCtx *ctx, const Rows *r, const NstGateProgram *p, const char *subject)
{
    nst_gates_most(r->g, named(ctx, r, subject, "kernels"), nst_gate_program_kernels(p), 1, "",
                   nst_gate_program_facts(ctx, p));
    nst_gates_most(r->g, named(ctx, r, subject, "bytes of arena"), (double)p->arena_bytes, 0, "", NULL);
}

/* --- softmax against exp ------------------------------------------------------------------------------------- */

/* The cases of its trial. */
enum { SOFTMAX, OUR_EXP, LIBRARY_EXP };

/* A time over that of its reference. */
static NstGateRow time_over(const Rows *r, NstGateSays *says, double required)
{
    NstGateRow row = {.unit = "x", .kind = NST_GATE_MOST, .required = required};
    nst_gate_trial_judge(r->g, r->trial, says, r, &row);
    return row;
}

static double softmax_says(const void *arg, const NstGateTimes *times)
{
    (void)arg;
    return times->ns[SOFTMAX] / times->ns[OUR_EXP];
}

static NstGateRow softmax_row(const Rows *r)
{
    return time_over(r, softmax_says, 2);
}

static double exp_says(const void *arg, const NstGateTimes *times)
{
    (void)arg;
    return times->ns[OUR_EXP] / fmin(times->ns[OUR_EXP], times->ns[LIBRARY_EXP]);
}

static NstGateRow exp_row(const Rows *r)
{
    return time_over(r, exp_says, 1.2);
}

static NstGateTrial *softmax_behind(void *arg)
{
    Rows *r = arg;
    NstGateRow soft = softmax_row(r), exps = exp_row(r);
    bool met = nst_gates_is_met(r->g, &soft);
    if (r->trial->bench.n_cases > LIBRARY_EXP) met = met && nst_gates_is_met(r->g, &exps);
    return met ? NULL : r->trial;
}

static NstStatus add_softmax(NstCtx *ctx, const Rows *r, const char *library, const char *more)
{
    const NstBenchTimes *times = r->trial->bench.times;
    double n = (double)r->rows * (double)r->width;
    NstGateRow soft = softmax_row(r), exps = exp_row(r);
    soft.name = named(ctx, r, "softmax", "time over the bare exp");
    soft.note =
        nst_format(ctx->arena, "%.3f ns an element, exp %.3f", times[SOFTMAX].best / n, times[OUR_EXP].best / n);
    exps.name = named(ctx, r, "exp", "time over the faster of ours and libmvec");
    soft.more = exps.more = more;
    nst_gates_add(r->g, soft);
    if (r->trial->bench.n_cases <= LIBRARY_EXP) {
        nst_gates_missing(r->g, exps.name, "glibc's libmvec cannot be loaded", true);
        return NST_OK;
    }
    exps.note = nst_format(ctx->arena, "%s %.3f ns an element", library, times[LIBRARY_EXP].best / n);
    nst_gates_add(r->g, exps);
    return NST_OK;
}

static NstStatus softmax(NstCtx *ctx, void *arg)
{
    Rows *r = arg;
    NstGates *g = r->g;
    NstGateProgram *soft, *bare;
    const char *more;
    int64_t n = r->rows * r->width;
    NST_TRY(nst_gate_program_make(ctx, g, head(ctx, r, "softmax", softmax_body), &soft));
    one_kernel(ctx, r, soft, "softmax");
    NST_TRY(nst_gate_program_make(ctx, g, head(ctx, r, "bare_exp", "  %y = map \"exp(a)\" %x\n  return y = %y\n}\n"),
                                  &bare));
    NstMvec mvec = {.n = (int)n, .from = bare->on[0].run.inputs[0].data};
    mvec.to = nst_gates_floats(ctx->arena, (size_t)n, 1);
    NstBenchCase cases[3] = {nst_gate_program_case(soft, 0, (double)n), nst_gate_program_case(bare, 0, (double)n)};
    int n_cases = LIBRARY_EXP;
    if (nst_mvec_load(ctx, "expf", 16, &mvec) == NST_OK)
        cases[n_cases++] = nst_mvec_case(&mvec);
    else
        nst_ctx_clear(ctx);
    NST_TRY(nst_gate_trial_new(ctx, g, cases, n_cases, NST_PEAK_COUNT, &r->trial));
    NST_TRY(nst_gates_insist(ctx, g, softmax_behind, r, &more));
    return add_softmax(ctx, r, mvec.name, more);
}

/* --- layer norm against a copy ------------------------------------------------------------------------------- */

static double copy_ns(const NstGateTimes *times)
{
    return nst_bench_least(times->ns + 1, NST_COPY_CASES);
}

static double norm_says(const void *arg, const NstGateTimes *times)
{
    (void)arg;
    return times->ns[0] / copy_ns(times);
}

static NstGateRow norm_row(const Rows *r)
{
    return time_over(r, norm_says, 2);
}

static NstGateTrial *norm_behind(void *arg)
{
    Rows *r = arg;
    NstGateRow row = norm_row(r);
    return nst_gates_is_met(r->g, &row) ? NULL : r->trial;
}

static NstStatus layer_norm(NstCtx *ctx, void *arg)
{
    Rows *r = arg;
    NstGates *g = r->g;
    NstGateProgram *norm;
    const char *more;
    size_t n = (size_t)(r->rows * r->width);
    NST_TRY(nst_gate_program_make(ctx, g, head(ctx, r, "layer_norm", norm_body), &norm));
    one_kernel(ctx, r, norm, "layer norm");
    NstCopy copy = {
        .to = nst_gates_floats(ctx->arena, n, 1), .from = nst_gates_floats(ctx->arena, n, 2), .bytes = 4 * n};
    NstBenchCase cases[1 + NST_COPY_CASES] = {nst_gate_program_case(norm, 0, 8 * (double)n)};
    int n_cases = 1 + nst_copy_cases(&copy, cases + 1);
    NST_TRY(nst_gate_trial_new(ctx, g, cases, n_cases, NST_PEAK_COUNT, &r->trial));
    NST_TRY(nst_gates_insist(ctx, g, norm_behind, r, &more));
    NstGateRow row = norm_row(r);
    NstGateTimes bests = nst_gate_trial_bests(g, r->trial);
    row.name = named(ctx, r, "layer norm", "time over a copy");
    row.note = nst_format(ctx->arena, "%.1f us, copy %.1f us", bests.ns[0] / 1e3, copy_ns(&bests) / 1e3);
    row.more = more;
    nst_gates_add(g, row);
    return NST_OK;
}

void nst_gates_rows(NstGates *g)
{
    static const int64_t sizes[][2] = {{128, 768}, {32, 4096}};
    for (size_t k = 0; k < 2; k++) {
        Rows r = {.g = g, .rows = sizes[k][0], .width = sizes[k][1]};
        nst_gates_try(g, nst_format(g->ctx.arena, "softmax %lldx%lld", (long long)r.rows, (long long)r.width), softmax,
                      &r);
        nst_gates_try(g, nst_format(g->ctx.arena, "layer norm %lldx%lld", (long long)r.rows, (long long)r.width),
                      layer_norm, &r);
    }
}
