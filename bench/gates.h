/* gates.h: the frame of bench/gates: rows, their verdicts, and graphs compiled and run as a user's are.
 *
 * A row that falls short is measured further, for the machine may be busy: more rounds of all cases that it compares, until it
 * is met or the patience is used up.  Where one is then still short by its bests, smoke judges it a second time: by the median
 * over the rounds of what the times within one say, for what disturbs a round disturbs all of its cases, while the calm moment
 * of a short reference may be none for a long kernel.  Each gates_SUBJECT.c measures one subject and adds rows.  A row that stands for a share of the peak keeps its rate until
 * all is measured: the peak is the larger of the peak loops of the whole run and of the best row seen, not counting rows
 * whose work includes taps in the padding (they may lie above the peak).  Times are wall
 * time, but of calls of one thread over 2 ms its processor time, so that what others do on the machine counts less. */
#ifndef NST_BENCH_GATES_H
#define NST_BENCH_GATES_H

#include "bench/onednn.h"
#include "bench/ort.h"
#include "bench/peaks.h"
#include "runtime/compile.h"
#include "runtime/exec.h"

typedef enum NstGateKind {
    NST_GATE_PEAK,  /* measured: GOP/s; required: at least this share of row.peak */
    NST_GATE_LEAST, /* at least */
    NST_GATE_MOST,  /* at most */
    NST_GATE_INFO   /* printed only */
} NstGateKind;

typedef struct NstGateRow {
    const char *name, *unit, *note; /* unit: "%" shows shares as percents, else "x", "ms", .. */
    NstGateKind kind;
    double measured, required; /* required: smoke takes half of it, or allows twice as much */
    NstPeak peak;
    bool counts_skipped; /* work that no kernel need do (taps in the padding) is counted: no measure of the peak */
    double typical;      /* median over the rounds, of a rate its share of that round's peak; smoke judges by it too */
    int rounds;          /* of which `typical` is the median; 0 = none */
    const char *more;    /* how much longer it was measured; NULL = no longer */
    const char *missing; /* why there is no measurement; NULL = measured */
    bool absent;         /* this CPU lacks what the row is about: neither met nor unmet */
} NstGateRow;

typedef struct NstGates {
    NstCtx ctx; /* rows and what lives as long */
    bool quick, smoke;
    double patience;   /* seconds that a row which falls short may take beyond its first rounds */
    uint64_t seed;     /* of the shapes drawn near a row's */
    const char *row;   /* only convolutions whose names hold it; NULL: all */
    const char *build; /* folder of the build tree's programs */
    NstTarget host;
    NstPeak peak;     /* the widest FMA of this CPU */
    NstPool *pool[2]; /* of one and of two threads */
    NstOrt *ort;      /* NULL: ort_missing says why */
    NstOnednn *onednn;
    const char *ort_missing, *onednn_missing;
    double peak_rate[NST_PEAK_COUNT]; /* best seen */
    int cases_compared, cases_differ; /* 1 and 2 threads */
    char first_difference[128];
    NST_VEC(NstGateRow) rows;
    NST_VEC(const char *) known; /* names of rows that are known to be unmet: not counted by nst_gates_table */
} NstGates;

/* --- rows ---------------------------------------------------------------------------------------------------- */

/* Whether a row is met by what was measured best, and by the best peak so far; true for a row without a requirement. */
bool nst_gates_is_met(const NstGates *g, const NstGateRow *row);

/* Adds a row; texts are copied. */
void nst_gates_add(NstGates *g, NstGateRow row);
/* Rows of the kinds; unit "%" expects shares (0.88).  note NULL = none. */
void nst_gates_least(NstGates *g, const char *name, double value, double required, const char *unit, const char *note);
void nst_gates_most(NstGates *g, const char *name, double value, double required, const char *unit, const char *note);
void nst_gates_info(NstGates *g, const char *name, double value, const char *unit, const char *note);
/* A row without measurement: why; unmet if required is true. */
void nst_gates_missing(NstGates *g, const char *name, const char *why, bool required);
void nst_gates_absent(NstGates *g, const char *name, const char *what);

/* Runs body(ctx, arg) with a context of its own; a failure becomes a row of that name: unmet, with the text.
 * Result: true on success. */
bool nst_gates_try(NstGates *g, const char *name, NstStatus (*body)(NstCtx *ctx, void *arg), void *arg);

/* Takes the names of rows known to be unmet from a file: a name a line, a tab, why.  Errors: NST_E_IO, NST_E_PARSE. */
NstStatus nst_gates_read_known(NstCtx *ctx, NstGates *g, const char *path) NST_MUST_CHECK;

/* Adds the peaks and all rows as a table of Markdown; those that smoke judged by their medians say so.  Result: how many are
 * unmet, known ones left out. */
int nst_gates_table(const NstGates *g, NstText *text);

/* --- graphs -------------------------------------------------------------------------------------------------- */

/* One run of a program on one or two threads: a case of the timer. */
typedef struct NstGateRun {
    NstExec *exec;
    NstExecRun run;
    char error[256];
} NstGateRun;

/* A compiled graph with inputs and outputs. */
typedef struct NstGateProgram {
    NstPlan *plan;
    NstGateRun on[2]; /* one and two threads; the second's outputs are its own */
    double compile_ms;
    uint64_t arena_bytes; /* of the last bind */
} NstGateProgram;

typedef struct NstGateSource {
    const char *text;   /* .nsg, or a model's bytes */
    size_t size;        /* 0: text ends with NUL */
    const char *target; /* NULL = host */
    const char *passes_off;
    int compile_threads; /* 0 = 1 */
    bool strict;
} NstGateSource;

/* A size of an open dim. */
typedef struct NstGateSize {
    const char *symbol;
    int64_t value;
} NstGateSize;

/* Compiles and makes ready for both numbers of threads; then bind must give it inputs.
 * Owns: ctx's arena.  Errors: of the compiler, as a user would see them. */
NstStatus nst_gate_program_new(NstCtx *ctx, NstGates *g, const NstGateSource *source,
                               NstGateProgram **program) NST_MUST_CHECK;

/* Inputs of the sizes (n may be 0) from one seed, memory for outputs, a run on each number of threads, and the comparison of
 * their bits, which counts in g.  Errors: of the runs. */
NstStatus nst_gate_program_bind(NstCtx *ctx, NstGates *g, NstGateProgram *program, const NstGateSize *sizes,
                                int n) NST_MUST_CHECK;

/* Both, for a graph without open sizes. */
NstStatus nst_gate_program_make(NstCtx *ctx, NstGates *g, const char *text, NstGateProgram **program) NST_MUST_CHECK;

/* Runs the last bind on threads + 1 threads. [program borrowed] */
NstBenchCase nst_gate_program_case(NstGateProgram *program, int threads_less_1, double work);

/* Runs on one thread, again and again, the step of the last bind's runs that has the most operations, alone: between buffers of the
 * plan, in the layout that these have. [program borrowed; ctx's arena] */
NstStatus nst_gate_program_step_case(NstCtx *ctx, NstGateProgram *program, double work,
                                     NstBenchCase *run) NST_MUST_CHECK;

/* Kernels of the run. */
uint32_t nst_gate_program_kernels(const NstGateProgram *program);

/* "2 kernels, arena 393216 bytes, 4312 bytes of code" [ctx's arena] */
const char *nst_gate_program_facts(NstCtx *ctx, const NstGateProgram *program);

/* --- measuring ----------------------------------------------------------------------------------------------- */

/* Cases under measurement, to which rounds can be added. [arena] */
typedef struct NstGateTrial {
    NstBench bench;
    NstPeak peak;        /* its loop is the last case; NST_PEAK_COUNT: none */
    double more_seconds; /* beyond the first rounds */
} NstGateTrial;

/* Measures cases of one thread (by processor time) and, in the same rounds, the loop of `peak` (unless NST_PEAK_COUNT), and
 * remembers it.  A peak that is needed for the first time is looked for by itself before.  n + 1 cases at most
 * NST_BENCH_MAX_CASES. */
NstStatus nst_gate_trial_new(NstCtx *ctx, NstGates *g, const NstBenchCase *cases, int n, NstPeak peak,
                             NstGateTrial **trial) NST_MUST_CHECK;
/* The same by wall time, without a peak: for cases of several threads. */
NstStatus nst_gate_trial_of_threads(NstCtx *ctx, NstGates *g, const NstBenchCase *cases, int n,
                                    NstGateTrial **trial) NST_MUST_CHECK;
/* Adds rounds for so many seconds. */
NstStatus nst_gate_trial_extend(NstCtx *ctx, NstGates *g, NstGateTrial *trial, double seconds) NST_MUST_CHECK;

/* Times by which a row is judged: the best of each case, or those of one round. */
typedef struct NstGateTimes {
    double ns[NST_BENCH_MAX_CASES]; /* of a call */
    double peak;                    /* GOP/s: the best seen, or of that round; 0 = a trial without one */
} NstGateTimes;

/* What they say: GOP/s of a row of kind NST_GATE_PEAK, else what its `required` is compared with. */
typedef double NstGateSays(const void *subject, const NstGateTimes *times);

NstGateTimes nst_gate_trial_bests(const NstGates *g, const NstGateTrial *trial);
/* The median over the rounds of what the times of one say. */
double nst_gate_trial_typical(const NstGateTrial *trial, NstGateSays *says, const void *subject);

/* Sets the row's `measured`, `typical` and `rounds`. */
void nst_gate_trial_judge(const NstGates *g, const NstGateTrial *trial, NstGateSays *says, const void *subject,
                          NstGateRow *row);

/* The same for a row that the worst of n trials stands for: `typical` is the worst of those that fall short by their bests.
 * Result: the worst one's number. */
int nst_gates_judge_worst(const NstGates *g, NstGateTrial *const *trials, NstGateSays *says,
                          const void *const *subjects, int n, NstGateRow *row);

/* The subject's judgement of its rows by what is measured so far: the trial that one of them falls short by, NULL if all are
 * met. */
typedef NstGateTrial *NstGateBehind(void *subject);

/* Adds rounds to what falls short until nothing does, also after one stretch more (two bests may cross by chance), or the
 * patience is used up.  more: for the rows' notes, NULL if the first rounds were enough.  Comparisons of medians, which rounds
 * do not bring nearer to anything, are not for this but for nst_gate_trial_extend, once. */
NstStatus nst_gates_insist(NstCtx *ctx, NstGates *g, NstGateBehind *behind, void *subject,
                           const char **more) NST_MUST_CHECK;
/* "measured 12.0 s and 4321 rounds more" [arena] */
const char *nst_gates_more(NstArena *arena, double seconds, int rounds);

/* Best rate of a graph on one thread for a row of kind NST_GATE_PEAK or NST_GATE_INFO, whose peak is measured too: row's
 * `measured` and `more`.  work: operations of a run. */
NstStatus nst_gates_rate_of(NstCtx *ctx, NstGates *g, const NstGateSource *source, double work, NstGateRow *row,
                            NstGateProgram **program) NST_MUST_CHECK;

/* Shapes drawn near a row's, and the share of what it requires that they must reach. */
#define NST_GATES_NEAR       8
#define NST_GATES_NEAR_SHARE 0.85

/* A row that says how the worst of those shapes does. */
typedef struct NstGateNear {
    NstGates *g;
    NstGateRow row;                      /* of the worst; `required` is that of one shape */
    const void *shape[NST_GATES_NEAR];   /* the subject's */
    NstGateTrial *trial[NST_GATES_NEAR]; /* theirs */
    NstGateSays *says;                   /* of a shape */
    int worst;
} NstGateNear;

/* Finds the worst shape's measurement for the row, after more rounds of the shapes that fall short, the worst first: they
 * share the patience of one row. */
NstStatus nst_gates_insist_near(NstCtx *ctx, NstGateNear *near) NST_MUST_CHECK;

/* A number near base: 0.8 to 1.25 times it, at least 1; state is stepped. */
int64_t nst_gates_near(uint64_t *state, int64_t base);

/* Memory aligned to 64 with small random numbers. [arena] */
float *nst_gates_floats(NstArena *arena, size_t n, uint64_t seed);

/* --- subjects ------------------------------------------------------------------------------------------------ */

void nst_gates_products(NstGates *g);
void nst_gates_convolutions(NstGates *g);
void nst_gates_rows(NstGates *g);
void nst_gates_attention(NstGates *g);
void nst_gates_lstm(NstGates *g);
void nst_gates_integer(NstGates *g);
void nst_gates_symbolic(NstGates *g);
void nst_gates_maps(NstGates *g);
void nst_gates_warm(NstGates *g);
void nst_gates_compile(NstGates *g);
void nst_gates_trees(NstGates *g);

#endif
