/* run_state.h: what one run needs; kept in a pool and reused.  Shared by exec.c and run_state.c. */
#ifndef NST_RUNTIME_RUN_STATE_H
#define NST_RUNTIME_RUN_STATE_H

#include <stdatomic.h>
#include "ir/base/os.h"
#include "runtime/exec.h"
#include "runtime/plan_layout.h"

#define NST_EXEC_SPARE 32 /* run states kept for later runs */

typedef struct NstRunState NstRunState;

struct NstExec {
    NstPlan *plan;
    NstPool *pool;
    NstSizes sizes;        /* [arena of the plan] */
    NstKernelFn *function; /* by kernel [arena of the plan] */
    const struct NstCustomStep *
        *custom;                /* by step: the registered operator that does it, or NULL [arena of the plan] */
    const NstCustom *operators; /* [borrowed] */
    NstExec **body;             /* by body of the plan [arena of the plan] */
    NstMapping code;
    uint32_t n_syms;      /* one more than the highest symbol */
    uint32_t n_in_dims;   /* ranks of all inputs together */
    uint32_t max_buffers; /* of a step */
    uint32_t n_params;    /* of all steps together */
    bool value_defined;   /* sizes depend on values read while running */
    bool has_strings;     /* here or in a body */
    _Atomic(NstRunState *) spare[NST_EXEC_SPARE];
    _Atomic uint64_t n_states, arena_bytes;
};

/* A block that grows. */
typedef struct NstBlockMemory {
    char *at;
    size_t bytes;
} NstBlockMemory;

typedef struct NstStepState {
    int threads;
    int64_t ns; /* on one thread, about; INT64_MAX: not known */
    int64_t *params;
} NstStepState;

struct NstRunState {
    NstExec *exec;
    NstCtx ctx;
    bool ready;     /* what follows belongs to `shape` */
    bool placed;    /* `at` of constants and of the arena too */
    int64_t *shape; /* of all inputs */
    int64_t *outer; /* by symbol: what the run around had, where outer_known */
    bool *outer_known;
    int64_t *sym;     /* by symbol */
    bool *known;      /* by symbol */
    int64_t *value;   /* by node of exec->sizes */
    uint8_t *state;   /* likewise */
    void **at;        /* by buffer; NULL = no memory yet */
    uint64_t *offset; /* by buffer: in the arena */
    NstStepState *step;
    void **args;          /* of the step that runs */
    NstArena *beside;     /* what a step that is no kernel needs beside its buffers: emptied when one begins */
    NstBlockMemory *own;  /* by buffer: inputs made dense, outputs nobody wanted, sizes known late */
    NstBlockMemory arena; /* planned */
    NstBlockMemory
        scratch; /* per_thread bytes a thread of the pool, then the kernel's shared memory, then the barrier */
    size_t per_thread, shared;
    NstErrorSlot error;
    /* Of this run alone, over the table of the plan or of the run around; NULL where the plan has no strings. */
    NstStrings *strings;
    NstArena *string_memory;
};

/* A fresh state.  Errors: NST_E_NOMEM. */
NstStatus nst_run_state_new(NstExec *exec, NstRunState **state) NST_MUST_CHECK;
void nst_run_state_free(NstRunState *state);

/* Checks the inputs against the plan and prepares symbols, sizes and memory for their shapes, unless they are those of
 * the last run.  Errors are in state->ctx. */
NstStatus nst_run_state_prepare(NstRunState *state, const NstExecRun *run) NST_MUST_CHECK;

/* The same; then binds inputs and outputs. */
NstStatus nst_run_state_bind(NstRunState *state, const NstExecRun *run) NST_MUST_CHECK;

/* Gives a symbol its value while running and memory to what is known by that.  Errors are in state->ctx. */
NstStatus nst_run_state_learn(NstRunState *state, const NstExecRun *run, NstSym sym, int64_t value) NST_MUST_CHECK;

/* Buffer b is made with this shape: symbols that stand alone on its axes get their value if they have none, and it gets memory
 * if it has none.  Errors are in state->ctx: NST_E_SHAPE where it should have another shape. */
NstStatus nst_run_state_shape(NstRunState *state, const NstExecRun *run, uint32_t b,
                              const int64_t *shape) NST_MUST_CHECK;

/* Fills in shapes, copies outputs that were not written in place.  Errors are in state->ctx. */
NstStatus nst_run_state_finish(NstRunState *state, const NstExecRun *run) NST_MUST_CHECK;

/* The value of a dim in this run. */
NstStatus nst_run_state_size(NstRunState *state, NstDim dim, const char *what, int64_t *value) NST_MUST_CHECK;

/* Parameters of a kernel step in this run; 0 for those that are not known yet.  Errors: NST_E_SHAPE for sizes past 64 bits. */
NstStatus nst_run_state_params(NstRunState *state, const NstPlanStep *step, int64_t *params) NST_MUST_CHECK;

/* Scratch, shared memory and the barrier.  Only for steps whose sizes are known. */
NstStatus nst_run_state_scratch(NstRunState *state, const NstPlanStep *steps, uint32_t n) NST_MUST_CHECK;
struct NstBarrier *nst_run_state_barrier(const NstRunState *state);

/* Element type, rank and number of elements are what the plan says of that input.  Errors: NST_E_TYPE, NST_E_SHAPE. */
NstStatus nst_input_check(NstCtx *ctx, const NstPlan *plan, const NstPlanPort *port,
                          const NstTensor *tensor) NST_MUST_CHECK;

/* Bytes from the first element of an input to the end of its last, 0 if it is empty.  size: bytes of an element.
 * Errors: NST_E_INVALID for negative strides, NST_E_SHAPE for sizes past 64 bits. */
NstStatus nst_tensor_span(NstCtx *ctx, const NstTensor *tensor, size_t size, const char *name,
                          size_t *bytes) NST_MUST_CHECK;
/* Copies a caller's tensor row-major and dense; strides may be NULL. */
void nst_tensor_gather(char *to, const NstTensor *tensor);

/* Memory aligned to 64 that the interface can hand out; NULL when there is none. */
void *nst_memory_new(size_t bytes);

#endif
