/* timing.h: times alternatives of one piece of work against each other on a machine that others disturb.
 *
 * All cases run in turn, round after round, so that a disturbance hits them alike; per case the best, median
 * and 99th percentile are kept, and ratios are formed within a round.  Rounds can be added later: a machine that is seldom
 * quiet may need many, and all cases get them. */
#ifndef NST_BENCH_TIMING_H
#define NST_BENCH_TIMING_H

#include <stdbool.h>
#include "ir/base/status.h"

#define NST_BENCH_MAX_CASES   32
#define NST_BENCH_MAX_THREADS 16

/* One alternative: run(arg) does `work` units (floating-point operations, bytes: the caller's choice). */
typedef struct NstBenchCase {
    const char *name;
    void (*run)(void *arg);
    void *arg;
    double work;
} NstBenchCase;

typedef struct NstBenchLimits {
    double seconds;   /* of measuring in all; calibration and warming come on top */
    double sample_ns; /* a sample repeats a case until it takes about this long; 0 = one call a sample */
    int warm_calls;   /* untimed calls before each sample, so that it does not start from what others left in
                         cache */
    int min_rounds;   /* also when the time is over */
    int max_rounds;
    /* Samples of calls over 2 ms count only the time this thread held a processor: for work of one thread on a machine that
     * others use too. */
    bool processor_time;
} NstBenchLimits;

/* Half a second, samples of 50 us after one warm call, 7 to 2000 rounds. */
extern const NstBenchLimits NST_BENCH_DEFAULT;

/* Nanoseconds of one call. */
typedef struct NstBenchTimes {
    double best, median, p99;
} NstBenchTimes;

/* A ratio of cases over the rounds: median, and the tenth and ninetieth percentile. */
typedef struct NstBenchRatio {
    double median, low, high;
} NstBenchRatio;

typedef struct NstBench {
    NstBenchLimits limits;
    int n_cases, n_rounds;
    NstBenchCase cases[NST_BENCH_MAX_CASES];
    int calls[NST_BENCH_MAX_CASES];         /* of a sample */
    bool by_processor[NST_BENCH_MAX_CASES]; /* counts the time its thread held a processor */
    NstBenchTimes times[NST_BENCH_MAX_CASES];
    int room;        /* rounds that samples has memory for */
    double *samples; /* [round][case], ns of one call */
} NstBench;

/* Warms each case, finds its number of repetitions, then times all in turn within the limits.
 * Owns: bench is ended with nst_bench_dispose, also after an error.
 * Errors: NST_E_INVALID unless 1 <= n <= NST_BENCH_MAX_CASES and 1 <= min_rounds <= max_rounds; NST_E_NOMEM.
 */
NstStatus nst_bench_run(NstCtx *ctx, const NstBenchCase *cases, int n, NstBenchLimits limits,
                        NstBench *bench) NST_MUST_CHECK;

/* Adds rounds of all cases for so many seconds, one at least, max_rounds or not; times are then those of all rounds, the earlier
 * ones too.  Errors: NST_E_NOMEM. */
NstStatus nst_bench_extend(NstCtx *ctx, NstBench *bench, double seconds) NST_MUST_CHECK;

void nst_bench_dispose(NstBench *bench);

/* Work of case i over its best (median) time. Units: work/ns, thus GFLOP/s or GB/s. */
double nst_bench_rate(const NstBench *bench, int i);
double nst_bench_median_rate(const NstBench *bench, int i);

/* Time of case `over` divided by time of case `under`, round by round. */
NstBenchRatio nst_bench_ratio(const NstBench *bench, int over, int under);

/* The least of n times. */
double nst_bench_least(const double *ns, int n);

/* What the times of all cases in one round (ns of a call) say; [subject: the caller's]. */
typedef double NstBenchSays(const void *subject, const double *ns);

/* The same of any number made from a round's times. */
NstBenchRatio nst_bench_by_round(const NstBench *bench, NstBenchSays *says, const void *subject);

/* The q-quantile (0..1) of n values by the nearest rank; sorts them in place.  n >= 1. */
double nst_bench_quantile(double *values, int n, double q);

/* -- threads -- */

/* Threads of runtime/threads.h that run one case each at the same moment. */
typedef struct NstBenchTeam NstBenchTeam;

/* A team of this many threads, the caller being the first.
 * Owns: ended with nst_bench_team_free.  Errors: NST_E_INVALID unless 1 <= threads <= NST_BENCH_MAX_THREADS;
 * NST_E_NOMEM.  The parts of threads that the system does not start or that are late run after the caller's. */
NstStatus nst_bench_team_new(NstCtx *ctx, int threads, NstBenchTeam **team) NST_MUST_CHECK;

/* Joins the threads; NULL is allowed. */
void nst_bench_team_free(NstBenchTeam *team);

/* What the threads of a team run at the same moment: parts[t] on thread t. */
typedef struct NstBenchJob {
    NstBenchTeam *team;
    NstBenchCase parts[NST_BENCH_MAX_THREADS];
} NstBenchJob;

/* A case that runs all parts of the job and ends when the last does; its work is their sum.
 * [job and its team borrowed as long as the case runs] */
NstBenchCase nst_bench_job_case(NstBenchJob *job, const char *name);

#endif
