/* test_bench_timing.c: bench/timing.h. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>
#include "bench/timing.h"
#include "ir/base/os.h"

Test(bench_timing, quantiles_are_nearest_ranks)
{
    double values[] = {5, 1, 4, 2, 3};
    cr_assert_eq(nst_bench_quantile(values, 5, 0.5), 3);
    cr_assert_eq(nst_bench_quantile(values, 5, 0), 1);
    cr_assert_eq(nst_bench_quantile(values, 5, 1), 5);
    cr_assert_eq(nst_bench_quantile(values, 5, 0.1), 1);
    cr_assert_eq(nst_bench_quantile(values, 1, 0.99), 1);
}

/* Spins for the nanoseconds that arg points to. */
static void spin(void *arg)
{
    int64_t end = nst_os_now_ns() + *(const int64_t *)arg;
    while (nst_os_now_ns() < end) continue;
}

Test(bench_timing, slower_case_has_the_larger_ratio)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    int64_t slow = 20000, fast = 5000;
    NstBenchCase cases[] = {{"slow", spin, &slow, 20000}, {"fast", spin, &fast, 20000}};
    NstBenchLimits limits = {.seconds = 10, .sample_ns = 0, .min_rounds = 3, .max_rounds = 51};
    NstBench bench;
    cr_assert_eq(nst_bench_run(&ctx, cases, 2, limits, &bench), NST_OK);
    cr_assert_eq(bench.n_rounds, 51);
    for (int i = 0; i < 2; i++) {
        cr_assert_leq(bench.times[i].best, bench.times[i].median);
        cr_assert_leq(bench.times[i].median, bench.times[i].p99);
    }
    cr_assert_geq(bench.times[0].best, 20000);
    cr_assert_geq(bench.times[1].best, 5000);
    cr_assert_leq(nst_bench_rate(&bench, 0), 1);
    NstBenchRatio ratio = nst_bench_ratio(&bench, 0, 1);
    cr_assert_gt(ratio.median, 1.5, "slow over fast is %g", ratio.median);
    cr_assert_leq(ratio.low, ratio.median);
    cr_assert_leq(ratio.median, ratio.high);
    nst_bench_dispose(&bench);
    nst_ctx_dispose(&ctx);
}

/* Slow until so many calls have passed: a machine that others keep busy at first. */
typedef struct Disturbed {
    int calls, disturbed_calls;
} Disturbed;

static void run_disturbed(void *arg)
{
    Disturbed *d = arg;
    int64_t ns = d->calls++ < d->disturbed_calls ? 40000 : 10000;
    spin(&ns);
}

Test(bench_timing, added_rounds_are_of_all_cases_and_keep_the_earlier_ones)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    Disturbed ours = {.disturbed_calls = 50}, reference = {.disturbed_calls = 50};
    NstBenchCase cases[] = {{"ours", run_disturbed, &ours, 1}, {"reference", run_disturbed, &reference, 1}};
    NstBenchLimits limits = {.seconds = 0, .sample_ns = 0, .min_rounds = 5, .max_rounds = 5};
    NstBench bench;
    cr_assert_eq(nst_bench_run(&ctx, cases, 2, limits, &bench), NST_OK);
    cr_assert_eq(bench.n_rounds, 5);
    double first[10], best = bench.times[0].best;
    memcpy(first, bench.samples, sizeof first);
    cr_assert_geq(best, 40000);
    cr_assert_eq(nst_bench_extend(&ctx, &bench, 0), NST_OK);
    cr_assert_eq(bench.n_rounds, 6, "no time left is one round");
    cr_assert_eq(nst_bench_extend(&ctx, &bench, 0.1), NST_OK); /* more than the first rounds had memory for */
    cr_assert_gt(bench.n_rounds, 300);
    cr_assert_eq(memcmp(first, bench.samples, sizeof first), 0);
    cr_assert_eq(ours.calls, reference.calls);
    for (int i = 0; i < 2; i++) {
        cr_assert_lt(bench.times[i].best, best / 2);
        cr_assert_lt(bench.times[i].median, best / 2, "the median is that of all rounds");
    }
    nst_bench_dispose(&bench);
    nst_ctx_dispose(&ctx);
}

Test(bench_timing, bad_limits_are_refused_with_values)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    int64_t ns = 1;
    NstBenchCase one = {"one", spin, &ns, 1};
    NstBenchLimits limits = {.min_rounds = 5, .max_rounds = 4};
    NstBench bench;
    cr_assert_eq(nst_bench_run(&ctx, &one, 1, limits, &bench), NST_E_INVALID);
    cr_assert(strstr(ctx.error, "5 to 4 rounds"));
    nst_bench_dispose(&bench);
    nst_ctx_clear(&ctx);
    cr_assert_eq(nst_bench_run(&ctx, &one, 0, NST_BENCH_DEFAULT, &bench), NST_E_INVALID);
    nst_bench_dispose(&bench);
    nst_ctx_dispose(&ctx);
}

static void count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

Test(bench_timing, team_runs_every_part_once_a_call)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    atomic_int counts[3] = {0};
    NstBenchJob job;
    cr_assert_eq(nst_bench_team_new(&ctx, 3, &job.team), NST_OK);
    for (int t = 0; t < 3; t++) job.parts[t] = (NstBenchCase){"part", count, &counts[t], t + 1};
    NstBenchCase whole = nst_bench_job_case(&job, "whole");
    cr_assert_eq(whole.work, 6);
    for (int call = 0; call < 100; call++) whole.run(whole.arg);
    for (int t = 0; t < 3; t++) cr_assert_eq(atomic_load(&counts[t]), 100);
    nst_bench_team_free(job.team);
    cr_assert_eq(nst_bench_team_new(&ctx, 0, &job.team), NST_E_INVALID);
    nst_ctx_dispose(&ctx);
}
