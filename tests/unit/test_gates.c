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

/* --- shapes near a row's ------------------------------------------------------------------------------------- */

static double rate(const void *arg)
{
    const NstGateTrial *const *trial = arg;
    return nst_bench_rate(&(*trial)->bench, 0);
}

/* The sixth is disturbed beyond its first rounds, the third slow for good. */
Test(gates, worst_shape_is_continued_and_named)
{
    NstGates g;
    begin(&g, 1.5);
    Work work[NST_GATES_NEAR];
    NstGateNear near = {.g = &g, .measured = rate, .row = {.kind = NST_GATE_LEAST, .required = 1 / 10e6}};
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
