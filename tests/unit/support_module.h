/* support_module.h: lowers a graph's text to kernels and runs them in order, interpreted or compiled. */
#ifndef NST_TESTS_UNIT_SUPPORT_MODULE_H
#define NST_TESTS_UNIT_SUPPORT_MODULE_H

#include "passes/pass.h"

typedef struct ModuleRun {
    NstModule *module;
    NstScheduled *kernel;
    uint32_t n_kernels;
    uint32_t n_results;
    void **result;
    size_t *bytes;
} ModuleRun;

typedef struct ModuleCase {
    const char *text;    /* .nsg */
    const char *orders;  /* the same graph with sizes open: its sums have their orders from there; NULL: their own */
    const char *sizes;   /* "n=5 m=3": the input symbols; NULL: none */
    uint64_t seed;       /* of the inputs */
    int64_t index_limit; /* integer inputs hold 0 .. index_limit - 1; 0 = as support_fill */
    const NstTensorValue *input; /* by param: these instead of seeded ones; NULL = seeded */
    int canon; /* every kernel takes the canonical form: 1 of a run's, 2 of one that runs once; with the pass off */
    bool unchecked; /* compiled without checks of bounds */
    bool
        no_denormals; /* asserts that compiled kernels on one thread compute with none: inputs have none, unwritten memory does */
    bool sequences; /* short groups become one kernel; else they stay apart, whatever the options say */
} ModuleCase;

/* Lowers, schedules, verifies and runs on seeded inputs; asserts success (Criterion).  threads 0: interpreted.  options NULL:
 * all exact passes. */
ModuleRun support_run_module(NstCtx *ctx, const ModuleCase *test, const NstTarget *target,
                             const NstPassOptions *options, int threads);
/* The same, of which one step may fail: gives the status of the run. */
NstStatus support_try_module(NstCtx *ctx, const ModuleCase *test, const NstTarget *target,
                             const NstPassOptions *options, int threads, ModuleRun *run);

/* Groups of a module, members of sequences too, that `is` says yes to. */
uint32_t support_count_groups(const NstModule *module, bool (*is)(const NstGroup *group));
bool support_is_sequence(const NstGroup *group);

/* The graph interpreter's results on the same inputs. */
ModuleRun support_interpret_graph(NstCtx *ctx, const ModuleCase *test, const NstTarget *target);

/* Asserts that both runs gave the same bits; *a on failure names what differs. */
void support_same_results(const ModuleRun *a, const ModuleRun *b, const char *what);

/* Asserts that the kernels interpreted, and compiled on one and on two threads, give the graph interpreter's bits. */
void support_same_on_threads(NstCtx *ctx, const ModuleCase *test, const NstTarget *target, const char *what);

/* A graph's text and the sizes to run it at; NULL after the last. */
typedef struct SizedCase {
    const char *text;
    const char *sizes[3];
} SizedCase;

/* support_same_on_threads for each case at each of its sizes, on a target; nothing where this machine lacks it. */
void support_same_on_target(const SizedCase *cases, size_t n, const char *target_name);

#endif
