/* gates.h: the frame of bench/gates: rows, their verdicts, and graphs compiled and run as a user's are.
 *
 * Each gates_SUBJECT.c measures one subject and adds rows.  A row that stands for a share of the peak keeps its rate until
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
    double measured, required;
    NstPeak peak;
    bool counts_skipped; /* work that no kernel need do (taps in the padding) is counted: no measure of the peak */
    const char *missing; /* why there is no measurement; NULL = measured */
    bool absent;         /* this CPU lacks what the row is about: neither met nor unmet */
} NstGateRow;

typedef struct NstGates {
    NstCtx ctx; /* rows and what lives as long */
    bool quick, smoke;
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
    NST_VEC(const char *) known; /* names of rows that are known to be unmet: not counted by nst_gates_print */
} NstGates;

/* --- rows ---------------------------------------------------------------------------------------------------- */

/* Adds a row; names and notes are copied.  Smoke halves what is required (doubles what is allowed). */
void nst_gates_add(NstGates *g, NstGateRow row);
/* Rows of the kinds; unit "%" expects shares (0.88).  note NULL = none. */
void nst_gates_rate(NstGates *g, const char *name, NstPeak peak, double rate, double required, const char *note);
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

/* Prints all rows as a table of Markdown.  Result: how many are unmet, known ones left out. */
int nst_gates_print(const NstGates *g, FILE *file);

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

/* Runs on threads + 1 threads. */
NstBenchCase nst_gate_program_case(NstGateProgram *program, int threads_less_1, double work);

/* Kernels of the run. */
uint32_t nst_gate_program_kernels(const NstGateProgram *program);

/* "2 kernels, arena 393216 bytes, 4312 bytes of code" [ctx's arena] */
const char *nst_gate_program_facts(NstCtx *ctx, const NstGateProgram *program);

/* --- measuring ----------------------------------------------------------------------------------------------- */

/* How long to measure: of one thread by processor time. */
NstBenchLimits nst_gates_limits(const NstGates *g, bool one_thread);

/* Measures cases and, in the same rounds, the loop of `peak` (unless NST_PEAK_COUNT), and remembers it.  n + 1 cases at
 * most NST_BENCH_MAX_CASES.  Owns: the caller disposes bench. */
NstStatus nst_gates_measure(NstCtx *ctx, NstGates *g, const NstBenchCase *cases, int n, NstPeak peak,
                            NstBench *bench) NST_MUST_CHECK;

/* Best rate of a graph on one thread.  work: operations of a run. */
NstStatus nst_gates_rate_of(NstCtx *ctx, NstGates *g, const NstGateSource *source, NstPeak peak, double work,
                            double *rate, NstGateProgram **program) NST_MUST_CHECK;

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
