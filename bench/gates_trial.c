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

/* --- one graph ----------------------------------------------------------------------------------------------- */

typedef struct Rate {
    const NstGates *g;
    NstGateRow *row;
    NstGateTrial *trial;
} Rate;

static NstGateTrial *rate_behind(void *arg)
{
    Rate *r = arg;
    r->row->measured = nst_bench_rate(&r->trial->bench, 0);
    return nst_gates_is_met(r->g, r->row) ? NULL : r->trial;
}

NstStatus nst_gates_rate_of(NstCtx *ctx, NstGates *g, const NstGateSource *source, double work, NstGateRow *row,
                            NstGateProgram **program)
{
    Rate rate = {.g = g, .row = row};
    NST_TRY(nst_gate_program_new(ctx, g, source, program));
    NST_TRY(nst_gate_program_bind(ctx, g, *program, NULL, 0));
    NstBenchCase run = nst_gate_program_case(*program, 0, work);
    NST_TRY(nst_gate_trial_new(ctx, g, &run, 1, row->peak, &rate.trial));
    NST_TRY(nst_gates_insist(ctx, g, rate_behind, &rate, &row->more));
    row->measured = nst_bench_rate(&rate.trial->bench, 0);
    return NST_OK;
}

/* --- shapes near a row's ------------------------------------------------------------------------------------- */

static void find_worst(NstGateNear *near)
{
    near->row.measured = INFINITY;
    for (int k = 0; k < NST_GATES_NEAR; k++) {
        double measured = near->measured(near->shape[k]);
        if (measured >= near->row.measured) continue;
        near->row.measured = measured;
        near->worst = k;
    }
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
