/* test_gates.c: the frame of bench/gates: verdicts, and rows that are measured further. */
#include <criterion/criterion.h>
#include <string.h>
#include "bench/gates.h"
#include "ir/base/os.h"

/* Takes `slow_ns` until so many calls have passed, then `fast_ns`: wall time, by which the trials here go, for of the processor's
 * it takes less on a busy machine. */
typedef struct Work {
    int64_t slow_ns, fast_ns;
    int slow_calls, calls;
} Work;

static void run(void *arg)
{
    Work *w = arg;
    int64_t end = nst_os_now_ns() + (w->calls++ < w->slow_calls ? w->slow_ns : w->fast_ns);
    while (nst_os_now_ns() < end) continue;
}

static void begin(NstGates *g, double patience)
{
    *g = (NstGates){.quick = true, .patience = patience};
    cr_assert_eq(nst_ctx_init(&g->ctx), NST_OK);
}

/* --- verdicts ------------------------------------------------------------------------------------------------ */

Test(gates, row_is_met_by_its_kind_and_the_best_peak)
{
    NstGates g;
    begin(&g, 0);
    g.peak_rate[NST_PEAK_FMA_AVX2] = 100;
    NstGateRow most = {.kind = NST_GATE_MOST, .measured = 1.2, .required = 1.1};
    NstGateRow least = {.kind = NST_GATE_LEAST, .measured = 1.2, .required = 1.1};
    NstGateRow share = {.kind = NST_GATE_PEAK, .measured = 90, .required = 0.88, .peak = NST_PEAK_FMA_AVX2};
    NstGateRow info = {.kind = NST_GATE_INFO, .measured = 1.2, .required = 5};
    cr_assert_not(nst_gates_is_met(&g, &most));
    cr_assert(nst_gates_is_met(&g, &least));
    cr_assert(nst_gates_is_met(&g, &share));
    cr_assert(nst_gates_is_met(&g, &info));
    g.peak_rate[NST_PEAK_FMA_AVX2] = 110;
    cr_assert_not(nst_gates_is_met(&g, &share));
    g.smoke = true; /* half of everything */
    cr_assert(nst_gates_is_met(&g, &most));
    cr_assert(nst_gates_is_met(&g, &share));
    share.measured = 40;
    cr_assert_not(nst_gates_is_met(&g, &share));
    nst_ctx_dispose(&g.ctx);
}

Test(gates, table_counts_unmet_rows_but_known_ones)
{
    NstGates g;
    NstText text;
    begin(&g, 0);
    nst_text_init(&text, g.ctx.arena);
    nst_gates_least(&g, "good", 2, 1, "x", NULL);
    nst_gates_least(&g, "bad", 1, 2, "x", "a note");
    nst_gates_most(&g, "bad and known", 2, 1, "x", NULL);
    nst_gates_missing(&g, "broken", "no library", true);
    nst_gates_absent(&g, "elsewhere", "amx");
    nst_gates_add(
        &g,
        (NstGateRow){.name = "long", .unit = "x", .kind = NST_GATE_INFO, .note = "a note", .more = "measured more"});
    nst_vec_push(g.ctx.arena, &g.known, "bad and known");
    cr_assert_eq(nst_gates_table(&g, &text), 2);
    static const char *const lines[] = {"| good | 2 x | &ge; 1 x | met |  |\n",
                                        "| bad | 1 x | &ge; 2 x | **unmet** | a note |\n",
                                        "| bad and known | 2 x | &le; 1 x | **unmet** (known) |  |\n",
                                        "| broken | not measured: no library |  | **unmet** |  |\n",
                                        "| elsewhere | not measured: amx |  | not on this CPU |  |\n",
                                        "| a note; measured more |\n"};
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
        cr_assert(strstr(nst_text_get(&text), lines[k]), "%s is not in %s", lines[k], nst_text_get(&text));
    nst_ctx_dispose(&g.ctx);
}

/* --- measuring further --------------------------------------------------------------------------------------- */

/* Our time over the reference's, at most 2. */
typedef struct Pair {
    NstGates *g;
    NstGateTrial *trial;
    int looks;
} Pair;

static NstGateTrial *pair_behind(void *arg)
{
    Pair *p = arg;
    const NstBenchTimes *times = p->trial->bench.times;
    NstGateRow row = {.kind = NST_GATE_MOST, .measured = times[0].best / times[1].best, .required = 2};
    p->looks++;
    return nst_gates_is_met(p->g, &row) ? NULL : p->trial;
}

/* The text for the note, and the trial in `pair`. */
static const char *insist(NstGates *g, Work *ours, Work *reference, Pair *pair)
{
    const char *more = "not set";
    NstBenchCase cases[] = {{"ours", run, ours, 1}, {"reference", run, reference, 1}};
    *pair = (Pair){.g = g};
    cr_assert_eq(nst_gate_trial_of_threads(&g->ctx, g, cases, 2, &pair->trial), NST_OK);
    cr_assert_eq(nst_gates_insist(&g->ctx, g, pair_behind, pair, &more), NST_OK);
    return more;
}

Test(gates, met_row_gets_no_more_rounds)
{
    NstGates g;
    Pair pair;
    Work ours = {.fast_ns = 200000}, reference = {.fast_ns = 200000};
    begin(&g, 5);
    cr_assert_null(insist(&g, &ours, &reference, &pair));
    cr_assert_eq(pair.looks, 1);
    cr_assert_eq(pair.trial->more_seconds, 0);
    nst_ctx_dispose(&g.ctx);
}

/* Busy for 0.4 s of calls; the first rounds take 0.06 s. */
Test(gates, row_that_falls_short_is_measured_until_it_is_met_and_once_more)
{
    NstGates g;
    Pair pair;
    Work ours = {.slow_ns = 1000000, .fast_ns = 200000, .slow_calls = 400}, reference = {.fast_ns = 200000};
    begin(&g, 60);
    const char *more = insist(&g, &ours, &reference, &pair);
    cr_assert(more && strstr(more, "rounds more"));
    cr_assert(pair.trial->bench.times[0].best < 2 * pair.trial->bench.times[1].best);
    cr_assert_gt(pair.trial->more_seconds, 0.3, "a stretch to be met and one to be sure");
    cr_assert_lt(pair.trial->more_seconds, 30);
    nst_ctx_dispose(&g.ctx);
}

Test(gates, patience_ends)
{
    NstGates g;
    Pair pair;
    Work ours = {.fast_ns = 1000000}, reference = {.fast_ns = 200000};
    begin(&g, 0.3);
    cr_assert(insist(&g, &ours, &reference, &pair));
    cr_assert(pair.trial->more_seconds > 0 && pair.trial->more_seconds <= 0.31, "%g", pair.trial->more_seconds);
    g.patience = 0;
    cr_assert_null(insist(&g, &ours, &reference, &pair), "no patience, no more rounds");
    nst_ctx_dispose(&g.ctx);
}

/* --- the second judgement of smoke --------------------------------------------------------------------------- */

#define ROUNDS 9

/* A trial whose rounds took these times: our case, the reference, and the loop of a peak of 100 GOP/s. */
static NstGateTrial *trial_of(NstGates *g, const double ours[ROUNDS], const double reference[ROUNDS],
                              const double peak[ROUNDS])
{
    const double *cases[] = {ours, reference, peak};
    NstGateTrial *trial = NST_NEW(g->ctx.arena, NstGateTrial);
    NstBench *bench = &trial->bench;
    trial->peak = NST_PEAK_FMA_AVX2;
    bench->n_cases = 3;
    bench->n_rounds = ROUNDS;
    bench->cases[2].work = 1000;
    bench->samples = NST_NEW_ARRAY(g->ctx.arena, double, (bench->n_cases + 1) * ROUNDS);
    for (int c = 0; c < bench->n_cases; c++) {
        bench->times[c].best = nst_bench_least(cases[c], ROUNDS);
        for (int r = 0; r < ROUNDS; r++) bench->samples[r * bench->n_cases + c] = cases[c][r];
    }
    g->peak_rate[trial->peak] = 1000 / bench->times[2].best;
    return trial;
}

static double reference_over_ours(const void *arg, const NstGateTimes *times)
{
    (void)arg;
    return times->ns[1] / times->ns[0];
}

static double ours_over_reference(const void *arg, const NstGateTimes *times)
{
    return 1 / reference_over_ours(arg, times);
}

/* GOP/s of 1000 operations. */
static double thousand(const void *arg, const NstGateTimes *times)
{
    (void)arg;
    return 1000 / times->ns[0];
}

/* Rows of each kind that a trial is judged by; names hold what they are. */
static void add_each_kind(NstGates *g, const NstGateTrial *trial, const char *what)
{
    NstGateRow rows[] = {
        {.name = "share", .unit = "%", .kind = NST_GATE_PEAK, .required = 0.8, .peak = trial->peak},
        {.name = "least", .unit = "x", .kind = NST_GATE_LEAST, .required = 0.8},
        {.name = "most", .unit = "x", .kind = NST_GATE_MOST, .required = 1.25},
    };
    NstGateSays *const says[] = {thousand, reference_over_ours, ours_over_reference};
    for (int k = 0; k < 3; k++) {
        rows[k].name = nst_format(g->ctx.arena, "%s %s", what, rows[k].name);
        nst_gate_trial_judge(g, trial, says[k], NULL, &rows[k]);
        cr_assert_eq(rows[k].rounds, ROUNDS);
        nst_gates_add(g, rows[k]);
    }
}

/* Eight rounds in which neighbours make everything five times slower, and ours 1.3 times as slow as the reference; the ninth is
 * calm, but not before ours has run. */
static const double busy_ours[ROUNDS] = {65, 66, 64, 65, 67, 65, 63, 65, 64};
static const double busy_reference[ROUNDS] = {50, 51, 49, 50, 52, 50, 48, 50, 10};
/* The same rounds of a kernel that takes four times what it should. */
static const double slow_ours[ROUNDS] = {200, 204, 196, 200, 208, 200, 192, 200, 200};

Test(gates, smoke_judges_what_falls_short_by_its_median_beside_the_reference)
{
    NstGates g;
    NstText text;
    begin(&g, 0);
    g.smoke = true;
    nst_text_init(&text, g.ctx.arena);
    add_each_kind(&g, trial_of(&g, busy_ours, busy_reference, busy_reference), "disturbed");
    cr_assert_eq(nst_gates_table(&g, &text), 0);
    static const char *const lines[] = {"| disturbed share | 15.9 % (15.9) | &ge; 40.0 % | met | judged by the median "
                                        "of 9 rounds beside its peak: 76.9 % |\n",
                                        "| disturbed least | 0.159 x | &ge; 0.4 x | met | judged by the median of 9 "
                                        "rounds beside its reference: 0.769 x |\n",
                                        "| disturbed most | 6.3 x | &le; 2.5 x | met | judged by the median of 9 "
                                        "rounds beside its reference: 1.3 x |\n"};
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
        cr_assert(strstr(nst_text_get(&text), lines[k]), "%s is not in %s", lines[k], nst_text_get(&text));
    nst_ctx_dispose(&g.ctx);
}

Test(gates, slow_kernel_fails_both_judgements)
{
    NstGates g;
    NstText text;
    begin(&g, 0);
    g.smoke = true;
    nst_text_init(&text, g.ctx.arena);
    add_each_kind(&g, trial_of(&g, slow_ours, busy_reference, busy_reference), "slow");
    cr_assert_eq(nst_gates_table(&g, &text), 3);
    cr_assert_null(strstr(nst_text_get(&text), "judged by"));
    nst_ctx_dispose(&g.ctx);
}

Test(gates, full_values_are_judged_by_bests_alone)
{
    NstGates g;
    NstText text;
    begin(&g, 0);
    nst_text_init(&text, g.ctx.arena);
    add_each_kind(&g, trial_of(&g, busy_ours, busy_reference, busy_reference), "disturbed");
    cr_assert_eq(nst_gates_table(&g, &text), 3);
    cr_assert_null(strstr(nst_text_get(&text), "judged by"));
    nst_ctx_dispose(&g.ctx);
}

/* A shape that neighbours disturbed must not hide one that is slow, whichever of them has the worse best. */
Test(gates, each_shape_that_falls_short_is_judged_by_its_median)
{
    static const double good[ROUNDS] = {10, 10, 10, 10, 10, 10, 10, 10, 10};
    static const double slower_at_best[ROUNDS] = {260, 264, 256, 260, 268, 260, 252, 260, 256};
    static const double busier_reference[ROUNDS] = {200, 204, 196, 200, 208, 200, 192, 200, 10};
    NstGates g;
    begin(&g, 0);
    g.smoke = true;
    NstGateTrial *trials[3] = {trial_of(&g, good, good, good),
                               trial_of(&g, slower_at_best, busier_reference, busier_reference),
                               trial_of(&g, slow_ours, busy_reference, busy_reference)};
    const void *none[3] = {NULL, NULL, NULL};
    NstGateRow row = {.name = "shapes", .unit = "x", .kind = NST_GATE_LEAST, .required = 0.8};
    cr_assert_eq(nst_gates_judge_worst(&g, trials, reference_over_ours, none, 2, &row), 1, "the worst by its best");
    cr_assert_float_eq(row.typical, 0.769, 0.001, "%g", row.typical);
    cr_assert_eq(nst_gates_judge_worst(&g, trials, reference_over_ours, none, 3, &row), 1);
    cr_assert_float_eq(row.measured, 10 / 252.0, 1e-9, "%g", row.measured);
    cr_assert_float_eq(row.typical, 0.25, 0.001, "%g", row.typical);
    nst_ctx_dispose(&g.ctx);
}

/* --- shapes near a row's ------------------------------------------------------------------------------------- */

static double rate(const void *arg)
{
    const NstGateTrial *const *trial = arg;
    return nst_bench_rate(&(*trial)->bench, 0);
}

static double says_rate(const void *arg, const NstGateTimes *times)
{
    (void)arg;
    return 1 / times->ns[0];
}

/* The sixth is disturbed beyond its first rounds, the third slow for good. */
Test(gates, worst_shape_is_continued_and_named)
{
    NstGates g;
    begin(&g, 1.5);
    Work work[NST_GATES_NEAR];
    NstGateNear near = {.g = &g, .says = says_rate, .row = {.kind = NST_GATE_LEAST, .required = 1 / 10e6}};
    for (int k = 0; k < NST_GATES_NEAR; k++) {
        work[k] = (Work){.slow_ns = 40000000, .fast_ns = k == 2 ? 20000000 : 200000, .slow_calls = k == 5 ? 16 : 0};
        NstBenchCase one = {"shape", run, &work[k], 1};
        cr_assert_eq(nst_gate_trial_of_threads(&g.ctx, &g, &one, 1, &near.trial[k]), NST_OK);
        near.shape[k] = &near.trial[k];
    }
    cr_assert_eq(nst_gates_insist_near(&g.ctx, &near), NST_OK);
    cr_assert(near.row.more);
    cr_assert_eq(near.row.measured, rate(&near.trial[near.worst]));
    for (int k = 0; k < NST_GATES_NEAR; k++) {
        cr_assert_leq(near.row.measured, rate(&near.trial[k]), "shape %d is worse", k);
        if (k != 2 && k != 5) cr_assert_eq(near.trial[k]->more_seconds, 0, "shape %d was good", k);
    }
    cr_assert_gt(near.trial[5]->more_seconds, 0, "the worst at first");
    nst_ctx_dispose(&g.ctx);
}
