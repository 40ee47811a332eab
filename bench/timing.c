/* timing.c: the interleaved timer and its team of threads. */
#include "bench/timing.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "ir/base/os.h"
#include "runtime/threads.h"

const NstBenchLimits NST_BENCH_DEFAULT = {
    .seconds = 0.5, .sample_ns = 50e3, .warm_calls = 1, .min_rounds = 7, .max_rounds = 2000};

/* -- statistics
 * ------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile_of_sorted(const double *values, int n, double q)
{
    int rank = (int)(q * (n - 1) + 0.5);
    return values[rank];
}

double nst_bench_quantile(double *values, int n, double q)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return quantile_of_sorted(values, n, q);
}

double nst_bench_rate(const NstBench *bench, int i)
{
    return bench->cases[i].work / bench->times[i].best;
}

double nst_bench_least(const double *ns, int n)
{
    double least = ns[0];
    for (int k = 1; k < n; k++) least = ns[k] < least ? ns[k] : least;
    return least;
}

double nst_bench_median_rate(const NstBench *bench, int i)
{
    return bench->cases[i].work / bench->times[i].median;
}

/* Scratch for one value a round lies behind the samples. */
static double *scratch(const NstBench *bench)
{
    return bench->samples + (size_t)bench->n_rounds * (size_t)bench->n_cases;
}

NstBenchRatio nst_bench_by_round(const NstBench *bench, NstBenchSays *says, const void *subject)
{
    double *ratios = scratch(bench);
    for (int r = 0; r < bench->n_rounds; r++)
        ratios[r] = says(subject, bench->samples + (size_t)r * (size_t)bench->n_cases);
    double median = nst_bench_quantile(ratios, bench->n_rounds, 0.5);
    return (NstBenchRatio){.median = median,
                           .low = quantile_of_sorted(ratios, bench->n_rounds, 0.1),
                           .high = quantile_of_sorted(ratios, bench->n_rounds, 0.9)};
}

typedef struct Pair {
    int over, under;
} Pair;

static double ratio_of(const void *subject, const double *ns)
{
    const Pair *pair = subject;
    return ns[pair->over] / ns[pair->under];
}

NstBenchRatio nst_bench_ratio(const NstBench *bench, int over, int under)
{
    return nst_bench_by_round(bench, ratio_of, &(Pair){.over = over, .under = under});
}

static void summarise(NstBench *bench)
{
    double *column = scratch(bench);
    for (int i = 0; i < bench->n_cases; i++) {
        for (int r = 0; r < bench->n_rounds; r++) column[r] = bench->samples[r * bench->n_cases + i];
        bench->times[i].median = nst_bench_quantile(column, bench->n_rounds, 0.5);
        bench->times[i].best = column[0];
        bench->times[i].p99 = quantile_of_sorted(column, bench->n_rounds, 0.99);
    }
}

/* -- measuring
 * -------------------------------------------------------------------------------------------------- */

/* Longer calls seldom pass without losing the processor on a busy machine; shorter ones do, and the best of many is found
 * by wall time, which is finer: processor time was seen up to 15 % short. */
#define LONG_CALL_NS 2e6

static int64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double time_calls(const NstBenchCase *c, int calls)
{
    int64_t start = nst_os_now_ns();
    for (int i = 0; i < calls; i++) c->run(c->arg);
    return (double)(nst_os_now_ns() - start) / calls;
}

static double processor_time_of_calls(const NstBenchCase *c, int calls)
{
    int64_t start = thread_ns();
    for (int i = 0; i < calls; i++) c->run(c->arg);
    return (double)(thread_ns() - start) / calls;
}

/* Calls a sample needs to last sample_ns.  Also warms caches, branch predictors and the clock. */
static int calibrate(const NstBenchCase *c, double sample_ns)
{
    double once = time_calls(c, 1);
    for (int i = 0; i < 2; i++) {
        double again = time_calls(c, 1);
        if (again < once) once = again;
    }
    if (once >= sample_ns) return 1;
    double calls = sample_ns / (once < 1 ? 1 : once);
    double precise = time_calls(c, (int)calls + 1);
    calls = sample_ns / (precise < 1 ? 1 : precise);
    return calls > 1e8 ? 100000000 : (int)calls + 1;
}

/* Room for one round more, and for the scratch behind all. */
static NstStatus make_room(NstCtx *ctx, NstBench *bench)
{
    if (bench->n_rounds < bench->room) return NST_OK;
    int room = bench->room ? 2 * bench->room : 256;
    double *samples = realloc(bench->samples, (size_t)room * ((size_t)bench->n_cases + 1) * sizeof *samples);
    NST_CHECK(ctx, samples, NST_E_NOMEM, "no memory for %d rounds of %d cases", room, bench->n_cases);
    bench->samples = samples;
    bench->room = room;
    return NST_OK;
}

/* One sample of each case. */
static void time_round(NstBench *bench)
{
    double *samples = bench->samples + (size_t)bench->n_rounds++ * (size_t)bench->n_cases;
    for (int i = 0; i < bench->n_cases; i++) {
        const NstBenchCase *c = &bench->cases[i];
        for (int w = 0; w < bench->limits.warm_calls; w++) c->run(c->arg);
        samples[i] =
            bench->by_processor[i] ? processor_time_of_calls(c, bench->calls[i]) : time_calls(c, bench->calls[i]);
    }
}

/* At least and at most so many rounds, between them as many as fit the seconds. */
static NstStatus time_rounds(NstCtx *ctx, NstBench *bench, int least, int most, double seconds)
{
    int64_t end = nst_os_now_ns() + (int64_t)(seconds * 1e9);
    for (int k = 0; k < most && (k < least || nst_os_now_ns() < end); k++) {
        NST_TRY(make_room(ctx, bench));
        time_round(bench);
    }
    summarise(bench);
    return NST_OK;
}

NstStatus nst_bench_run(NstCtx *ctx, const NstBenchCase *cases, int n, NstBenchLimits limits, NstBench *bench)
{
    *bench = (NstBench){.limits = limits};
    NST_CHECK(ctx, n >= 1 && n <= NST_BENCH_MAX_CASES, NST_E_INVALID, "%d cases given, 1 to %d are allowed", n,
              NST_BENCH_MAX_CASES);
    NST_CHECK(ctx, limits.min_rounds >= 1 && limits.min_rounds <= limits.max_rounds, NST_E_INVALID,
              "%d to %d rounds given, at least 1 and in this order are allowed", limits.min_rounds, limits.max_rounds);
    bench->n_cases = n;
    memcpy(bench->cases, cases, (size_t)n * sizeof *cases);
    for (int i = 0; i < n; i++) bench->calls[i] = calibrate(&cases[i], limits.sample_ns);
    for (int i = 0; i < n; i++)
        bench->by_processor[i] =
            limits.processor_time && bench->calls[i] == 1 && time_calls(&cases[i], 1) > LONG_CALL_NS;
    return time_rounds(ctx, bench, limits.min_rounds, limits.max_rounds, limits.seconds);
}

NstStatus nst_bench_extend(NstCtx *ctx, NstBench *bench, double seconds)
{
    return time_rounds(ctx, bench, 1, INT_MAX, seconds);
}

void nst_bench_dispose(NstBench *bench)
{
    free(bench->samples);
    bench->samples = NULL;
}

/* -- team
 * ------------------------------------------------------------------------------------------------------- */

struct NstBenchTeam {
    NstPool *pool;
    int n_threads;
};

/* The system may have started fewer threads than there are parts. */
static void run_parts(void *arg, int thread, int threads)
{
    const NstBenchJob *job = arg;
    for (int t = thread; t < job->team->n_threads; t += threads) job->parts[t].run(job->parts[t].arg);
}

static void run_job(void *arg)
{
    const NstBenchJob *job = arg;
    nst_pool_run(job->team->pool, job->team->n_threads, run_parts, arg);
}

NstBenchCase nst_bench_job_case(NstBenchJob *job, const char *name)
{
    NstBenchCase whole = {.name = name, .run = run_job, .arg = job};
    for (int t = 0; t < job->team->n_threads; t++) whole.work += job->parts[t].work;
    return whole;
}

NstStatus nst_bench_team_new(NstCtx *ctx, int threads, NstBenchTeam **out)
{
    *out = NULL;
    NST_CHECK(ctx, threads >= 1 && threads <= NST_BENCH_MAX_THREADS, NST_E_INVALID,
              "%d threads given, 1 to %d are allowed", threads, NST_BENCH_MAX_THREADS);
    NstBenchTeam *team = malloc(sizeof *team);
    if (!team || nst_pool_new(threads, &team->pool) != NST_OK) {
        free(team);
        NST_FAIL(ctx, NST_E_NOMEM, "no memory for a team of %d threads", threads);
    }
    team->n_threads = threads;
    *out = team;
    return NST_OK;
}

void nst_bench_team_free(NstBenchTeam *team)
{
    if (!team) return;
    nst_pool_free(team->pool);
    free(team);
}
