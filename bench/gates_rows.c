/* gates_rows.c: softmax and layer norm: one kernel, no intermediate, against the bare exp and a copy. */
#include "bench/bandwidth.h"
#include "bench/gates.h"
#include "bench/mvec.h"

#include <math.h>

typedef struct Rows {
    NstGates *g;
    int64_t rows, width;
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

static void one_kernel(NstCtx *ctx, const Rows *r, const NstGateProgram *p, const char *name)
{
    nst_gates_most(r->g, nst_format(ctx->arena, "%s %lldx%lld, kernels", name, (long long)r->rows, (long long)r->width),
                   nst_gate_program_kernels(p), 1, "", nst_gate_program_facts(ctx, p));
    nst_gates_most(
        r->g, nst_format(ctx->arena, "%s %lldx%lld, bytes of arena", name, (long long)r->rows, (long long)r->width),
        (double)p->arena_bytes, 0, "", NULL);
}

static NstStatus softmax(NstCtx *ctx, void *arg)
{
    Rows *r = arg;
    NstGates *g = r->g;
    NstGateProgram *soft, *bare;
    NstBench bench;
    int64_t n = r->rows * r->width;
    NST_TRY(nst_gate_program_make(ctx, g, head(ctx, r, "softmax", softmax_body), &soft));
    one_kernel(ctx, r, soft, "softmax");
    NST_TRY(nst_gate_program_make(ctx, g, head(ctx, r, "bare_exp", "  %y = map \"exp(a)\" %x\n  return y = %y\n}\n"),
                                  &bare));
    NstMvec mvec = {.n = (int)n, .from = bare->on[0].run.inputs[0].data};
    mvec.to = nst_gates_floats(ctx->arena, (size_t)n, 1);
    NstBenchCase cases[3] = {nst_gate_program_case(soft, 0, (double)n), nst_gate_program_case(bare, 0, (double)n)};
    int n_cases = 2;
    if (nst_mvec_load(ctx, "expf", 16, &mvec) == NST_OK)
        cases[n_cases++] = nst_mvec_case(&mvec);
    else
        nst_ctx_clear(ctx);
    NST_TRY(nst_gates_measure(ctx, g, cases, n_cases, NST_PEAK_COUNT, &bench));
    double soft_ns = bench.times[0].best, exp_ns = bench.times[1].best;
    const char *name =
        nst_format(ctx->arena, "softmax %lldx%lld, time over the bare exp", (long long)r->rows, (long long)r->width);
    nst_gates_most(g, name, soft_ns / exp_ns, 2, "x",
                   nst_format(ctx->arena, "%.3f ns an element, exp %.3f", soft_ns / (double)n, exp_ns / (double)n));
    name = nst_format(ctx->arena, "exp %lldx%lld, time over the faster of ours and libmvec", (long long)r->rows,
                      (long long)r->width);
    if (n_cases == 3)
        nst_gates_most(g, name, exp_ns / fmin(exp_ns, bench.times[2].best), 1.2, "x",
                       nst_format(ctx->arena, "%s %.3f ns an element", mvec.name, bench.times[2].best / (double)n));
    else
        nst_gates_missing(g, name, "glibc's libmvec cannot be loaded", true);
    nst_bench_dispose(&bench);
    return NST_OK;
}

static NstStatus layer_norm(NstCtx *ctx, void *arg)
{
    Rows *r = arg;
    NstGates *g = r->g;
    NstGateProgram *norm;
    NstBench bench;
    size_t n = (size_t)(r->rows * r->width);
    NST_TRY(nst_gate_program_make(ctx, g, head(ctx, r, "layer_norm", norm_body), &norm));
    one_kernel(ctx, r, norm, "layer norm");
    NstCopy copy = {
        .to = nst_gates_floats(ctx->arena, n, 1), .from = nst_gates_floats(ctx->arena, n, 2), .bytes = 4 * n};
    NstBenchCase cases[1 + NST_COPY_CASES] = {nst_gate_program_case(norm, 0, 8 * (double)n)};
    int n_copies = nst_copy_cases(&copy, cases + 1);
    NST_TRY(nst_gates_measure(ctx, g, cases, 1 + n_copies, NST_PEAK_COUNT, &bench));
    double best = INFINITY;
    for (int k = 1; k <= n_copies; k++) best = fmin(best, bench.times[k].best);
    nst_gates_most(
        g, nst_format(ctx->arena, "layer norm %lldx%lld, time over a copy", (long long)r->rows, (long long)r->width),
        bench.times[0].best / best, 2, "x",
        nst_format(ctx->arena, "%.1f us, copy %.1f us", bench.times[0].best / 1e3, best / 1e3));
    nst_bench_dispose(&bench);
    return NST_OK;
}

void nst_gates_rows(NstGates *g)
{
    static const int64_t sizes[][2] = {{128, 768}, {32, 4096}};
    for (size_t k = 0; k < 2; k++) {
        Rows r = {g, sizes[k][0], sizes[k][1]};
        nst_gates_try(g, nst_format(g->ctx.arena, "softmax %lldx%lld", (long long)r.rows, (long long)r.width), softmax,
                      &r);
        nst_gates_try(g, nst_format(g->ctx.arena, "layer norm %lldx%lld", (long long)r.rows, (long long)r.width),
                      layer_norm, &r);
    }
}
