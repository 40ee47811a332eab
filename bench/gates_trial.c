/* gates_trial.c: cases measured in turn, and further where a row falls short.
 *
 * On a machine whose cores serve others too, calm moments of a second or two come seldom: a row's bests and those of what it
 * is compared with are taken over the same rounds, however many it takes until all have seen one. */
#include "bench/gates.h"

#include <math.h>
#include <string.h>

#include "ir/base/os.h"

/* Rounds are added for so long at a time: short against the calm moments, which several shapes may share. */
#define STRETCH_SECONDS 0.25

/* A peak is looked for so many times as long as a row may take: many rows are judged by it, and one that rises after them leaves
 * them short with no time to go on.  Quick runs tell no shares. */
#define PEAK_PATIENCE      2
#define QUICK_PEAK_SECONDS 0.3

static NstBenchLimits limits_of(const NstGates *g, bool one_thread)
{
    return (NstBenchLimits){.seconds = g->quick ? 0.06 : 0.4,
                            .sample_ns = 100e3,
                            .warm_calls = 1,
                            .min_rounds = 5,
                            .max_rounds = 2000,
                            .processor_time = one_thread};
}

static void dispose(void *bench)
{
    nst_bench_dispose(bench);
}

static void remember_peak(NstGates *g, const NstGateTrial *trial)
{
    if (trial->peak == NST_PEAK_COUNT) return;
    double rate = nst_bench_rate(&trial->bench, trial->bench.n_cases - 1);
    if (rate > g->peak_rate[trial->peak]) g->peak_rate[trial->peak] = rate;
}

NstStatus nst_gate_trial_extend(NstCtx *ctx, NstGates *g, NstGateTrial *trial, double seconds)
{
    NST_TRY(nst_bench_extend(ctx, &trial->bench, seconds));
    trial->more_seconds += seconds;
    remember_peak(g, trial);
    return NST_OK;
}

static NstStatus start(NstCtx *ctx, NstGates *g, const NstBenchCase *cases, int n, NstPeak peak, NstBenchLimits limits,
                       NstGateTrial **trial)
{
    NstGateTrial *t = *trial = NST_NEW(ctx->arena, NstGateTrial);
    t->peak = peak;
    nst_arena_on_free(ctx->arena, dispose, &t->bench);
    NST_TRY(nst_bench_run(ctx, cases, n, limits, &t->bench));
    remember_peak(g, t);
    return NST_OK;
}

NstStatus nst_gate_trial_new(NstCtx *ctx, NstGates *g, const NstBenchCase *cases, int n, NstPeak peak,
                             NstGateTrial **trial)
{
    NstBenchCase all[NST_BENCH_MAX_CASES];
    NstBenchLimits limits = limits_of(g, true);
    memcpy(all, cases, (size_t)n * sizeof *cases);
    if (peak == NST_PEAK_COUNT) return start(ctx, g, all, n, peak, limits, trial);
    NST_TRY(nst_peak_case(ctx, peak, &all[n]));
    if (g->peak_rate[peak] == 0) {
        NST_TRY(start(ctx, g, &all[n], 1, peak, limits, trial));
        NST_TRY(nst_gate_trial_extend(ctx, g, *trial, g->quick ? QUICK_PEAK_SECONDS : PEAK_PATIENCE * g->patience));
    }
    return start(ctx, g, all, n + 1, peak, limits, trial);
}

NstStatus nst_gate_trial_of_threads(NstCtx *ctx, NstGates *g, const NstBenchCase *cases, int n, NstGateTrial **trial)
{
    return start(ctx, g, cases, n, NST_PEAK_COUNT, limits_of(g, false), trial);
}

const char *nst_gates_more(NstArena *arena, double seconds, int rounds)
{
    return nst_format(arena, "measured %.1f s and %d rounds more", seconds, rounds);
}

NstStatus nst_gates_insist(NstCtx *ctx, NstGates *g, NstGateBehind *behind, void *subject, const char **more)
{
    NstGateTrial *trial = NULL;
    double spent = 0;
    int rounds = 0;
    for (bool sure = true; spent < g->patience;) {
        NstGateTrial *short_one = behind(subject);
        if (!short_one && sure) break;
        sure = !short_one;
        if (short_one) trial = short_one;
        int64_t begin = nst_os_now_ns();
        int before = trial->bench.n_rounds;
        NST_TRY(nst_gate_trial_extend(ctx, g, trial, fmin(STRETCH_SECONDS, g->patience - spent)));
        spent += (double)(nst_os_now_ns() - begin) / 1e9;
        rounds += trial->bench.n_rounds - before;
    }
    *more = rounds ? nst_gates_more(ctx->arena, spent, rounds) : NULL;
    return NST_OK;
}

/* --- what a trial says --------------------------------------------------------------------------------------- */

NstGateTimes nst_gate_trial_bests(const NstGates *g, const NstGateTrial *trial)
{
    NstGateTimes times = {.peak = trial->peak == NST_PEAK_COUNT ? 0 : g->peak_rate[trial->peak]};
    for (int k = 0; k < trial->bench.n_cases; k++) times.ns[k] = trial->bench.times[k].best;
    return times;
}

typedef struct Round {
    const NstGateTrial *trial;
    NstGateSays *says;
    const void *subject;
    bool share; /* of the round's peak */
} Round;

static double round_says(const void *arg, const double *ns)
{
    const Round *r = arg;
    const NstBench *bench = &r->trial->bench;
    int last = bench->n_cases - 1;
    NstGateTimes times = {.peak = r->trial->peak == NST_PEAK_COUNT ? 0 : bench->cases[last].work / ns[last]};
    memcpy(times.ns, ns, (size_t)bench->n_cases * sizeof *ns);
    double said = r->says(r->subject, &times);
    return r->share ? said / times.peak : said;
}

static double typical_of(const NstGateTrial *trial, NstGateSays *says, const void *subject, bool share)
{
    Round round = {.trial = trial, .says = says, .subject = subject, .share = share};
    return nst_bench_by_round(&trial->bench, round_says, &round).median;
}

double nst_gate_trial_typical(const NstGateTrial *trial, NstGateSays *says, const void *subject)
{
    return typical_of(trial, says, subject, false);
}

void nst_gate_trial_judge(const NstGates *g, const NstGateTrial *trial, NstGateSays *says, const void *subject,
                          NstGateRow *row)
{
    NstGateTimes bests = nst_gate_trial_bests(g, trial);
    row->measured = says(subject, &bests);
    row->typical = typical_of(trial, says, subject, row->kind == NST_GATE_PEAK);
    row->rounds = trial->bench.n_rounds;
}

static bool is_worse(const NstGateRow *row, double a, double b)
{
    return row->kind == NST_GATE_MOST ? a > b : a < b;
}

int nst_gates_judge_worst(const NstGates *g, NstGateTrial *const *trials, NstGateSays *says,
                          const void *const *subjects, int n, NstGateRow *row)
{
    NstGateRow worst = *row, behind = *row; /* by bests; by medians, of those that fall short by bests */
    bool met = true;
    int at = 0;
    for (int k = 0; k < n; k++) {
        NstGateRow one = *row;
        nst_gate_trial_judge(g, trials[k], says, subjects[k], &one);
        if (k == 0 || is_worse(row, one.measured, worst.measured)) worst = one, at = k;
        if (nst_gates_is_met(g, &one)) continue;
        if (met || is_worse(row, one.typical, behind.typical)) behind = one;
        met = false;
    }
    row->measured = worst.measured;
    row->typical = met ? worst.typical : behind.typical;
    row->rounds = met ? worst.rounds : behind.rounds;
    return at;
}

/* --- one graph ----------------------------------------------------------------------------------------------- */

typedef struct Rate {
    const NstGates *g;
    NstGateRow *row;
    double work;
    NstGateTrial *trial;
} Rate;

static double rate_of(const void *arg, const NstGateTimes *times)
{
    return ((const Rate *)arg)->work / times->ns[0];
}

static NstGateTrial *rate_behind(void *arg)
{
    Rate *r = arg;
    nst_gate_trial_judge(r->g, r->trial, rate_of, r, r->row);
    return nst_gates_is_met(r->g, r->row) ? NULL : r->trial;
}

NstStatus nst_gates_rate_of(NstCtx *ctx, NstGates *g, const NstGateSource *source, double work, NstGateRow *row,
                            NstGateProgram **program)
{
    Rate rate = {.g = g, .row = row, .work = work};
    NST_TRY(nst_gate_program_new(ctx, g, source, program));
    NST_TRY(nst_gate_program_bind(ctx, g, *program, NULL, 0));
    NstBenchCase run = nst_gate_program_case(*program, 0, work);
    NST_TRY(nst_gate_trial_new(ctx, g, &run, 1, row->peak, &rate.trial));
    NST_TRY(nst_gates_insist(ctx, g, rate_behind, &rate, &row->more));
    nst_gate_trial_judge(g, rate.trial, rate_of, &rate, row);
    return NST_OK;
}

/* --- shapes near a row's ------------------------------------------------------------------------------------- */

static void find_worst(NstGateNear *near)
{
    near->worst = nst_gates_judge_worst(near->g, near->trial, near->says, near->shape, NST_GATES_NEAR, &near->row);
}

static NstGateTrial *near_behind(void *arg)
{
    NstGateNear *near = arg;
    find_worst(near);
    return nst_gates_is_met(near->g, &near->row) ? NULL : near->trial[near->worst];
}

NstStatus nst_gates_insist_near(NstCtx *ctx, NstGateNear *near)
{
    NST_TRY(nst_gates_insist(ctx, near->g, near_behind, near, &near->row.more));
    find_worst(near);
    return NST_OK;
}
