/* gates_lstm.c: the LSTM of bench/models/lstm.py: read as ONNX, against ONNX Runtime on the same model, and on two threads. */
#include "bench/gates.h"

#include "ir/base/os.h"

#define MODEL "build/gates/lstm.onnx"
#define STEPS 100
#define WIDTH 256

static const char ort_name[] = "LSTM, one thread, speed over ONNX Runtime";

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

/* The time of ONNX Runtime over ours. */
static double speed_of(const void *arg, const NstGateTimes *times)
{
    (void)arg;
    return times->ns[1] / times->ns[0];
}

static NstGateRow ort_row(const NstGateTrial *trial)
{
    return (NstGateRow){.name = ort_name,
                        .unit = "x",
                        .kind = NST_GATE_LEAST,
                        .measured = trial->bench.times[1].median / trial->bench.times[0].median,
                        .required = 1.1,
                        .typical = nst_gate_trial_typical(trial, speed_of, NULL),
                        .rounds = trial->bench.n_rounds};
}

/* Medians: where they fall short, those of a longer time, whatever they say then. */
static NstStatus one_thread(NstCtx *ctx, Lstm *l)
{
    NstGateTrial *trial;
    NST_TRY(check_result(ctx, l));
    NstBenchCase cases[2] = {nst_gate_program_case(l->program, 0, 1),
                             {.name = "ort", .run = run_ort, .arg = l, .work = 1}};
    NST_TRY(nst_gate_trial_new(ctx, l->g, cases, 2, NST_PEAK_COUNT, &trial));
    NstGateRow row = ort_row(trial);
    if (!nst_gates_is_met(l->g, &row) && l->g->patience > 0) {
        int first = trial->bench.n_rounds;
        NST_TRY(nst_gate_trial_extend(ctx, l->g, trial, l->g->patience));
        row = ort_row(trial);
        row.more = nst_gates_more(ctx->arena, l->g->patience, trial->bench.n_rounds - first);
    }
    row.note = nst_format(ctx->arena, "medians %.2f and %.2f ms, ONNX Runtime %s; %s",
                          trial->bench.times[0].median / 1e6, trial->bench.times[1].median / 1e6,
                          nst_ort_version(l->g->ort), nst_gate_program_facts(ctx, l->program));
    nst_gates_add(l->g, row);
    return NST_OK;
}

/* --- two threads --------------------------------------------------------------------------------------------- */

/* Below this the run says something about other processes, not about the program. */
#define LEAST_SCALING 1.2

/* One and two threads of the program, and of the FMA peak.  Apart, for the workers of one wait spinning for a while, which would
 * take the processor from the other's. */
typedef struct Scaling {
    NstGates *g;
    NstGateTrial *program, *peak;
} Scaling;

/* How much more work two threads do than one in the same time. */
static double scaling_says(const void *arg, const NstGateTimes *times)
{
    const NstBenchCase *cases = ((const NstGateTrial *)arg)->bench.cases;
    return cases[1].work / times->ns[1] / (cases[0].work / times->ns[0]);
}

static double scaling_of(const Scaling *s, const NstGateTrial *trial)
{
    NstGateTimes bests = nst_gate_trial_bests(s->g, trial);
    return scaling_says(trial, &bests);
}

static NstGateRow scaling_row(const Scaling *s)
{
    const NstGateTrial *program = s->program, *peak = s->peak;
    return (NstGateRow){.name = "LSTM, two threads, scaling over that of the FMA peak",
                        .unit = "x",
                        .kind = NST_GATE_LEAST,
                        .measured = scaling_of(s, program) / scaling_of(s, peak),
                        .required = 0.75,
                        .typical = nst_gate_trial_typical(program, scaling_says, program) /
                                   nst_gate_trial_typical(peak, scaling_says, peak),
                        .rounds = program->bench.n_rounds};
}

/* Both for equally long. */
static NstGateTrial *scaling_behind(void *arg)
{
    Scaling *s = arg;
    NstGateRow row = scaling_row(s);
    if (scaling_of(s, s->peak) >= LEAST_SCALING && nst_gates_is_met(s->g, &row)) return NULL;
    return s->peak->more_seconds <= s->program->more_seconds ? s->peak : s->program;
}

static NstStatus compare_scaling(NstCtx *ctx, Scaling *s)
{
    const char *more;
    NST_TRY(nst_gates_insist(ctx, s->g, scaling_behind, s, &more));
    NstGateRow row = scaling_row(s);
    if (scaling_of(s, s->peak) < LEAST_SCALING) {
        const char *why = nst_format(
            ctx->arena, "the FMA peak of two threads is %.2f of one thread's: the machine is busy, nothing can be said",
            scaling_of(s, s->peak));
        nst_gates_missing(s->g, row.name, why, !s->g->smoke);
        return NST_OK;
    }
    const NstBenchTimes *times = s->program->bench.times;
    row.note = nst_format(ctx->arena, "%.2f and %.2f ms; the peak scales %.2f", times[0].best / 1e6,
                          times[1].best / 1e6, scaling_of(s, s->peak));
    row.more = more;
    nst_gates_add(s->g, row);
    return NST_OK;
}

static void free_team(void *team)
{
    nst_bench_team_free(team);
}

/* Wall time: both threads' waits count. */
static NstStatus two_threads(NstCtx *ctx, Lstm *l)
{
    Scaling s = {.g = l->g};
    NstBenchCase peak;
    NstBenchJob job;
    NST_TRY(nst_peak_case(ctx, l->g->peak, &peak));
    NST_TRY(nst_bench_team_new(ctx, 2, &job.team));
    nst_arena_on_free(ctx->arena, free_team, job.team);
    job.parts[0] = job.parts[1] = peak;
    NstBenchCase program[2] = {nst_gate_program_case(l->program, 0, 1), nst_gate_program_case(l->program, 1, 1)};
    NstBenchCase peaks[2] = {peak, nst_bench_job_case(&job, "two")};
    NST_TRY(nst_gate_trial_of_threads(ctx, l->g, program, 2, &s.program));
    NST_TRY(nst_gate_trial_of_threads(ctx, l->g, peaks, 2, &s.peak));
    return compare_scaling(ctx, &s);
}

/* --- the subject --------------------------------------------------------------------------------------------- */

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
        nst_gates_missing(l->g, ort_name, ctx->error, true);
        nst_ctx_clear(ctx);
    }
    return two_threads(ctx, l);
}

void nst_gates_lstm(NstGates *g)
{
    Lstm l = {.g = g};
    nst_gates_try(g, "LSTM, 2 layers, 100 steps, 256 wide, batch 1", measure, &l);
}
