/* gates_lstm.c: the LSTM of bench/models/lstm.py: read as ONNX, against ONNX Runtime on the same model, and on two threads. */
#include "bench/gates.h"

#include "ir/base/os.h"

#define MODEL "build/gates/lstm.onnx"
#define STEPS 100
#define WIDTH 256

typedef struct Lstm {
    NstGates *g;
    NstGateProgram *program;
    NstOrtSession *session;
    NstCtx *ctx;
} Lstm;

static void run_ort(void *arg)
{
    Lstm *l = arg;
    if (nst_ort_run(l->ctx, l->session) != NST_OK) nst_ctx_clear(l->ctx);
}

static NstStatus open_session(NstCtx *ctx, Lstm *l, const char *bytes, size_t size)
{
    NST_CHECK(ctx, l->g->ort, NST_E_NOT_FOUND, "ONNX Runtime: %s", l->g->ort_missing);
    NST_TRY(nst_ort_open_bytes(ctx, l->g->ort, bytes, size, (NstOrtOptions){.threads = 1}, &l->session));
    const NstTensor *x = &l->program->on[0].run.inputs[0];
    NstOrtTensor tensor = {.element = 1, .rank = x->rank, .data = x->data};
    for (int axis = 0; axis < x->rank; axis++) tensor.dims[axis] = x->shape[axis];
    NST_TRY(nst_ort_set_input(ctx, l->session, 0, &tensor));
    return nst_ort_run(ctx, l->session);
}

/* The two must agree before they are compared. */
static NstStatus check_result(NstCtx *ctx, const Lstm *l)
{
    NstOrtTensor theirs;
    NST_TRY(nst_ort_output(ctx, l->session, 0, &theirs));
    const float *a = l->program->on[0].run.outputs[0].data, *b = theirs.data;
    for (int k = 0; k < STEPS * WIDTH; k++)
        NST_CHECK(ctx, a[k] - b[k] < 1e-4F && b[k] - a[k] < 1e-4F, NST_E_ASSERT,
                  "element %d is %g, ONNX Runtime gives %g", k, (double)a[k], (double)b[k]);
    return NST_OK;
}

static NstStatus one_thread(NstCtx *ctx, Lstm *l)
{
    NstBench bench;
    NST_TRY(check_result(ctx, l));
    NstBenchCase cases[2] = {nst_gate_program_case(l->program, 0, 1),
                             {.name = "ort", .run = run_ort, .arg = l, .work = 1}};
    NST_TRY(nst_gates_measure(ctx, l->g, cases, 2, NST_PEAK_COUNT, &bench));
    const char *note =
        nst_format(ctx->arena, "medians %.2f and %.2f ms, ONNX Runtime %s; %s", bench.times[0].median / 1e6,
                   bench.times[1].median / 1e6, nst_ort_version(l->g->ort), nst_gate_program_facts(ctx, l->program));
    nst_gates_least(l->g, "LSTM, one thread, speed over ONNX Runtime", bench.times[1].median / bench.times[0].median,
                    1.1, "x", note);
    nst_bench_dispose(&bench);
    return NST_OK;
}

/* Below this the run says something about other processes, not about the program. */
#define LEAST_SCALING 1.2

/* Wall time: both threads' waits count. */
static NstStatus two_threads(NstCtx *ctx, Lstm *l)
{
    NstBench bench;
    NstBenchTeam *team;
    NstBenchCase peak;
    NST_TRY(nst_peak_case(ctx, l->g->peak, &peak));
    NST_TRY(nst_bench_team_new(ctx, 2, &team));
    NstBenchJob job = {.team = team, .parts = {peak, peak}};
    NstBenchCase cases[4] = {nst_gate_program_case(l->program, 0, 1), nst_gate_program_case(l->program, 1, 1), peak,
                             nst_bench_job_case(&job, "two")};
    NstStatus status = nst_bench_run(ctx, cases, 2, nst_gates_limits(l->g, false), &bench);
    double scaling = 0, one = 0, two = 0;
    if (status == NST_OK) one = bench.times[0].best, two = bench.times[1].best;
    if (status == NST_OK) nst_bench_dispose(&bench);
    if (status == NST_OK) status = nst_bench_run(ctx, cases + 2, 2, nst_gates_limits(l->g, false), &bench);
    if (status == NST_OK) scaling = nst_bench_rate(&bench, 1) / nst_bench_rate(&bench, 0);
    nst_bench_dispose(&bench);
    nst_bench_team_free(team);
    NST_TRY(status);
    if (scaling < LEAST_SCALING) {
        const char *why = nst_format(
            ctx->arena, "the FMA peak of two threads is %.2f of one thread's: the machine is busy, nothing can be said",
            scaling);
        nst_gates_missing(l->g, "LSTM, two threads, scaling over that of the FMA peak", why, !l->g->smoke);
        return NST_OK;
    }
    nst_gates_least(l->g, "LSTM, two threads, scaling over that of the FMA peak", one / two / scaling, 0.75, "x",
                    nst_format(ctx->arena, "%.2f and %.2f ms; the peak scales %.2f", one / 1e6, two / 1e6, scaling));
    return NST_OK;
}

static NstStatus measure(NstCtx *ctx, void *arg)
{
    Lstm *l = arg;
    char *bytes;
    size_t size;
    l->ctx = ctx;
    NST_TRY(nst_os_read_file(ctx, ctx->arena, MODEL, 1 << 26, &bytes, &size));
    NstGateSource source = {.text = bytes, .size = size};
    NST_TRY(nst_gate_program_new(ctx, l->g, &source, &l->program));
    NST_TRY(nst_gate_program_bind(ctx, l->g, l->program, NULL, 0));
    NstStatus status = open_session(ctx, l, bytes, size);
    if (status == NST_OK) status = one_thread(ctx, l);
    nst_ort_close(l->session);
    if (status != NST_OK) {
        nst_gates_missing(l->g, "LSTM, one thread, speed over ONNX Runtime", ctx->error, true);
        nst_ctx_clear(ctx);
    }
    return two_threads(ctx, l);
}

void nst_gates_lstm(NstGates *g)
{
    Lstm l = {.g = g};
    nst_gates_try(g, "LSTM, 2 layers, 100 steps, 256 wide, batch 1", measure, &l);
}
