/* timing.c: the interleaved timer and its team of threads. */
#include "bench/timing.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "ir/base/os.h"

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

double nst_bench_median_rate(const NstBench *bench, int i)
{
    return bench->cases[i].work / bench->times[i].median;
}

/* Scratch for one value a round lies behind the samples. */
static double *scratch(const NstBench *bench)
{
    return bench->samples + (size_t)bench->n_rounds * (size_t)bench->n_cases;
}

NstBenchRatio nst_bench_ratio(const NstBench *bench, int over, int under)
{
    double *ratios = scratch(bench);
    for (int r = 0; r < bench->n_rounds; r++) {
        const double *round = bench->samples + (size_t)r * (size_t)bench->n_cases;
        ratios[r] = round[over] / round[under];
    }
    double median = nst_bench_quantile(ratios, bench->n_rounds, 0.5);
    return (NstBenchRatio){.median = median,
                           .low = quantile_of_sorted(ratios, bench->n_rounds, 0.1),
                           .high = quantile_of_sorted(ratios, bench->n_rounds, 0.9)};
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

NstStatus nst_bench_run(NstCtx *ctx, const NstBenchCase *cases, int n, NstBenchLimits limits, NstBench *bench)
{
    *bench = (NstBench){.n_cases = 0};
    NST_CHECK(ctx, n >= 1 && n <= NST_BENCH_MAX_CASES, NST_E_INVALID, "%d cases given, 1 to %d are allowed", n,
              NST_BENCH_MAX_CASES);
    NST_CHECK(ctx, limits.min_rounds >= 1 && limits.min_rounds <= limits.max_rounds, NST_E_INVALID,
              "%d to %d rounds given, at least 1 and in this order are allowed", limits.min_rounds, limits.max_rounds);
    bench->samples = calloc((size_t)limits.max_rounds * ((size_t)n + 1), sizeof *bench->samples);
    NST_CHECK(ctx, bench->samples, NST_E_NOMEM, "no memory for %d rounds of %d cases", limits.max_rounds, n);
    bench->n_cases = n;
    memcpy(bench->cases, cases, (size_t)n * sizeof *cases);
    int calls[NST_BENCH_MAX_CASES];
    for (int i = 0; i < n; i++) calls[i] = calibrate(&cases[i], limits.sample_ns);
    bool by_processor[NST_BENCH_MAX_CASES];
    for (int i = 0; i < n; i++)
        by_processor[i] = limits.processor_time && calls[i] == 1 && time_calls(&cases[i], 1) > LONG_CALL_NS;
    int64_t end = nst_os_now_ns() + (int64_t)(limits.seconds * 1e9);
    int round = 0;
    while (round < limits.max_rounds && (round < limits.min_rounds || nst_os_now_ns() < end)) {
        double *samples = bench->samples + (size_t)round * (size_t)n;
        for (int i = 0; i < n; i++) {
            for (int w = 0; w < limits.warm_calls; w++) cases[i].run(cases[i].arg);
            samples[i] =
                by_processor[i] ? processor_time_of_calls(&cases[i], calls[i]) : time_calls(&cases[i], calls[i]);
        }
        round++;
    }
    bench->n_rounds = round;
    summarise(bench);
    return NST_OK;
}

void nst_bench_dispose(NstBench *bench)
{
    free(bench->samples);
    bench->samples = NULL;
}

/* -- team
 * ------------------------------------------------------------------------------------------------------- */

/* A round starts when `started` grows; each thread adds one to `finished` when its part is done. */
struct NstBenchTeam {
    _Alignas(64) atomic_ulong started;
    _Alignas(64) atomic_ulong finished;
    _Alignas(64) atomic_bool quit;
    int n_threads, n_running;  /* running: threads that exist besides the caller */
    cpu_set_t all;             /* processors the threads may use */
    int avoided;               /* the one they keep off, where the caller was last */
    const NstBenchCase *parts; /* of the job that runs now */
    struct Member {
        NstBenchTeam *team;
        int index;
        pthread_t thread;
    } members[NST_BENCH_MAX_THREADS];
};

/* Waits a moment.  After many moments gives up the processor: where another process holds the second core, both
 * threads share one, and the one waited for could not run before the end of this one's time slice. */
static void pause_briefly(int *waited)
{
    enum { SPINS = 2000 }; /* about 50 us */
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (++*waited >= SPINS) {
        sched_yield();
        *waited = 0;
    }
}

static void *member_main(void *arg)
{
    struct Member *member = arg;
    NstBenchTeam *team = member->team;
    for (unsigned long seen = 0;; seen++) {
        int waited = 0;
        while (atomic_load_explicit(&team->started, memory_order_acquire) == seen) {
            if (atomic_load_explicit(&team->quit, memory_order_relaxed)) return NULL;
            pause_briefly(&waited);
        }
        const NstBenchCase *part = &team->parts[member->index];
        part->run(part->arg);
        atomic_fetch_add_explicit(&team->finished, 1, memory_order_release);
    }
}

/* Keeps the threads off the caller's processor: two that spin for one another look too busy to be parted, and a pair on one
 * processor takes each other's time for seconds. */
static void part_from_caller(NstBenchTeam *team)
{
    int cpu = sched_getcpu();
    cpu_set_t others = team->all;
    if (cpu == team->avoided || cpu < 0 || cpu >= CPU_SETSIZE) return;
    CPU_CLR((size_t)cpu, &others);
    if (CPU_COUNT(&others) == 0) return;
    team->avoided = cpu;
    for (int t = 1; t <= team->n_running; t++)
        (void)pthread_setaffinity_np(team->members[t].thread, sizeof others, &others);
}

static void run_job(void *arg)
{
    const NstBenchJob *job = arg;
    NstBenchTeam *team = job->team;
    part_from_caller(team);
    team->parts = job->parts;
    unsigned long wanted = atomic_load_explicit(&team->finished, memory_order_relaxed) + (unsigned long)team->n_running;
    atomic_fetch_add_explicit(&team->started, 1, memory_order_release);
    job->parts[0].run(job->parts[0].arg);
    int waited = 0;
    while (atomic_load_explicit(&team->finished, memory_order_acquire) != wanted) pause_briefly(&waited);
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
    size_t bytes = (sizeof(NstBenchTeam) + 63) / 64 * 64;
    NstBenchTeam *team = aligned_alloc(64, bytes);
    NST_CHECK(ctx, team, NST_E_NOMEM, "no memory for %zu bytes", bytes);
    memset(team, 0, sizeof *team);
    team->n_threads = threads;
    team->avoided = -1;
    if (sched_getaffinity(0, sizeof team->all, &team->all) != 0) CPU_ZERO(&team->all);
    for (int t = 1; t < threads; t++) {
        struct Member *member = &team->members[t];
        *member = (struct Member){.team = team, .index = t};
        if (pthread_create(&member->thread, NULL, member_main, member) != 0) {
            nst_bench_team_free(team);
            NST_FAIL(ctx, NST_E_NOMEM, "thread %d of %d could not be started", t + 1, threads);
        }
        team->n_running++;
    }
    *out = team;
    return NST_OK;
}

void nst_bench_team_free(NstBenchTeam *team)
{
    if (!team) return;
    atomic_store(&team->quit, true);
    for (int t = 1; t <= team->n_running; t++) pthread_join(team->members[t].thread, NULL);
    free(team);
}
