/* exec.h: a plan made ready to run, and its runs.
 *
 * Making ready: code is mapped, weights are packed by the plan's prepack steps.  A run takes a run state from a pool,
 * solves the symbols from the shapes of the inputs (or finds them the same as last time: then nothing is computed,
 * allocated or locked), and does the steps in order on the threads of the engine's pool. */
#ifndef NST_RUNTIME_EXEC_H
#define NST_RUNTIME_EXEC_H

#include "ir/abi.h"
#include "ir/custom.h"
#include "ir/plan.h"
#include "runtime/threads.h"

typedef struct NstExec NstExec;

typedef struct NstExecRun {
    const NstTensor *inputs; /* one an input of the plan */
    NstTensor *outputs;      /* one an output of the plan: see nestor/tensor.h; shape and dtype are set by the run */
    const bool *wanted;      /* outputs to give; NULL = all */
    const int32_t *cancel;   /* non-zero stops the run; NULL = never */
    /* Run whose step this is the body of: its symbols hold here too, strings are handles of its table.  Outputs whose
     * memory is too small then get memory of the engine.  NULL = none */
    struct NstRunState *outer;
    uint64_t *step_ns;         /* one a step of the plan: time is added; NULL = not measured */
    uint64_t *step_operations; /* with it: NstPlanKernel.operations are added */
    uint32_t only_step;        /* 1 + the one step to do, on what the last run left in the arena: to time it; 0 = all */
    char *error;               /* message of a failure */
    size_t error_bytes;
} NstExecRun;

/* Makes a plan ready.  `function` stands in for the code of the plan and then of its bodies, which
 * have none of their own (tests); NULL = take it from plan->code.
 * operators: the registered ones that host steps may name. [borrowed for the life of *exec]
 * The plan's prepack steps are done and dropped.  Owns: the caller ends it with nst_exec_free, before plan and pool.
 * Errors: NST_E_NOMEM; NST_E_UNSUPPORTED naming a step this version cannot run; what a prepack kernel reports. */
NstStatus nst_exec_new(NstCtx *ctx, NstPlan *plan, NstPool *pool, const NstKernelFn *function,
                       const NstCustom *operators, NstExec **exec) NST_MUST_CHECK;

/* No run may be under way.  NULL is allowed. */
void nst_exec_free(NstExec *exec);

/* One run.  On failure no output has engine memory.
 * Errors: NST_E_INVALID, NST_E_TYPE, NST_E_SHAPE for inputs and outputs that do not fit; NST_E_INDEX, NST_E_ASSERT,
 * NST_E_CANCELLED, NST_E_NOMEM while running.  Threads: any number of runs at once. */
NstStatus nst_exec_run(NstExec *exec, const NstExecRun *run) NST_MUST_CHECK;

/* Whether a run with these inputs may start: element types, ranks and sizes, as nst_exec_run checks them; their data is not
 * looked at. */
NstStatus nst_exec_check(NstExec *exec, const NstTensor *inputs, char *error, size_t error_bytes) NST_MUST_CHECK;

/* Run states made so far and bytes of arena of the largest: for statistics. */
void nst_exec_memory(const NstExec *exec, uint64_t *n_states, uint64_t *arena_bytes);

#endif
