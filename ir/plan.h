/* plan.h: what the compiler hands to the runtime: kernels' code, buffers, steps.  Flat, pointer-free to the outside,
 * serialisable: the plan cache stores exactly this.
 *
 * A run: solve the input symbols from the shapes of the inputs, evaluate dims, lay out the arena, do the steps in order.
 * Dims of a plan live in a table of their own (plan->dims); symbol numbers are those of that table. */
#ifndef NST_IR_PLAN_H
#define NST_IR_PLAN_H

#include "ir/base/folder.h"
#include "ir/base/vec.h"
#include "ir/expr.h"
#include "ir/strings.h"
#include "ir/type.h"

typedef enum NstPlanPlace {
    NST_PLACE_INPUT,  /* caller's input `index` */
    NST_PLACE_OUTPUT, /* result `index` */
    NST_PLACE_CONST,  /* bytes of plan->constant at `index` */
    NST_PLACE_ARENA,  /* planned memory */
    NST_PLACE_ALIAS   /* the storage of buffer `index`, from the start */
} NstPlanPlace;

typedef struct NstPlanBuffer {
    const char *name;
    NstPlanPlace place;
    uint32_t index;
    NstDtype dtype;
    int rank;
    const NstDim *shape;  /* logical */
    NstDim bytes;         /* storage, physical layout included */
    uint32_t first, last; /* ARENA: first and last step that uses it (inclusive) */
} NstPlanBuffer;

typedef struct NstPlanConst {
    NstDtype dtype;
    const void *data; /* 64-byte aligned when packed; may point into the mapped model */
    size_t bytes;
    uint64_t
        model_offset; /* of the bytes in the model as it was opened, when they are used as they lie there, else 0 */
    bool packed;      /* made by a prepack kernel */
} NstPlanConst;

/* Units of NstPlanKernel.work a ns. */
enum { NST_WORK_A_NS = 64 };
/* Work in ns from which on a second thread pays: with 2 us instead of 10 runs on two threads take 0.58 (embedding), 0.78 (ocr-cls)
 * of one's time instead of 0.68, 0.88; with 1 us the same (Zen 4, 2026-11). */
enum { NST_NS_FOR_TWO = 2000 };

typedef struct NstPlanKernel {
    const char *name;
    const char *origin;    /* ONNX nodes, for errors and profiles */
    const char *not_fused; /* why it was not fused with the next kernel; NULL if it is the last */
    uint64_t entry;        /* offset into plan->code */
    NstDim scratch_bytes;  /* per thread */
    NstDim shared_bytes;
    uint32_t n_args, n_params;
    bool parallel; /* has a parallel loop: worth all threads */
    NstDim work;   /* estimated time on one core, in 1 / NST_WORK_A_NS ns: decides the number of threads; none = all */
    NstDim operations;  /* of its contractions: 2 a multiply-add; none = not known before the run */
    uint32_t n_origins; /* origin[k]: text for NstErrorSlot.origin == k; message likewise for asserts */
    const char *const *origin_text;
    uint32_t n_messages;
    const char *const *message_text;
    uint64_t hash_lo, hash_hi; /* of the canonical nest */
} NstPlanKernel;

typedef enum NstPlanStepKind {
    NST_STEP_KERNEL,
    NST_STEP_READ,  /* symbol `sym` = the integer at buffer[0][0], checked against lo..hi (NST_E_SHAPE) */
    NST_STEP_CHECK, /* condition: dim_a == dim_b else NST_E_ASSERT with message (a broadcast or reshape not proven) */
    NST_STEP_HOST,  /* a function of runtime/host.def: `text` is its name, `config` its attributes */
    /* buffer[0] is the condition, then come the inputs of body `body`, done when it holds, and those of body `other` */
    NST_STEP_IF,
    /* body `body` while iterations are left and the condition holds: buffers are the trip count, the condition, the states
     * before the first iteration and what else the body reads; out: the states after the last, then scans along a new
     * first axis.  The body's inputs are the number of the iteration, the condition, the states and the rest; its outputs
     * the condition, the states, an entry of each scan. */
    NST_STEP_LOOP
} NstPlanStepKind;

/* HOST, IF and LOOP may give outputs whose sizes are known only then: symbols that stand alone on an axis of such a buffer get
 * their value from it. */

typedef struct NstPlanStep {
    NstPlanStepKind kind;
    uint32_t kernel;
    uint32_t n_buffers;
    const uint32_t *buffer; /* ARG order of the kernel */
    uint32_t n_sizes;
    const NstDim *size; /* KERNEL: values of the parameters in ABI order; READ: the one symbol */
    NstDim a, b;
    const char *text; /* CHECK, HOST: message, name */
    const char *config, *origin;
    uint32_t n_in; /* HOST, IF, LOOP: buffers that are read; the others are written */
    uint32_t body, other, n_states;
} NstPlanStep;

typedef struct NstPlanPort {
    const char *name;
    NstType type;
    uint32_t buffer;
    /* INPUT: the only value the plan holds for, row-major and dense; NULL = any */
    const void *only;
    size_t only_bytes;
    const int64_t *only_shape;
} NstPlanPort;

/* A file beside the model that constants were taken from; a plan is only as good as that file is the same. */
typedef struct NstPlanFile {
    const char *path;
    NstFileMark mark;
} NstPlanFile;

typedef struct NstPlan {
    NstArena *arena;
    NstDims *dims;
    const char *model_name;
    /* Why there is no plan for all sizes: open sizes decide about the model's structure.  Then there are inputs, and outputs as
     * the model declares them (rank -1: it does not), without buffers and steps; a run needs the plan for its shapes.
     * NULL for plans. */
    const char *by_shape;
    NST_VEC(NstPlanPort) inputs, outputs;
    NST_VEC(NstPlanBuffer) buffers;
    NST_VEC(NstPlanConst) constants;
    NST_VEC(NstPlanFile) files;
    NstStrings *strings; /* what handles in constants stand for, those of bodies too; NULL: none does */
    NST_VEC(NstPlanKernel) kernels;
    NST_VEC(NstPlanStep) prepack; /* run once when the plan is made: constants -> packed constants */
    NST_VEC(NstPlanStep) steps;
    NST_VEC(struct NstPlan *)
    bodies;           /* of IF and LOOP steps: plans over the same dims; symbols known outside hold in them */
    const void *code; /* one position-independent blob, executable once mapped */
    size_t code_bytes;
    uint64_t compile_ns; /* how long it took to make; 0 when it came from a cache */
} NstPlan;

/* Arena bytes at the given symbol values, and offsets of each ARENA buffer (offset[b], n = buffers.n; others untouched):
 * greedy by size over lifetimes, 64-byte aligned.  Buffers whose size needs a symbol without a value (s >= n_syms) are left
 * out: the runtime gives them memory of their own once it is known.  Errors: NST_E_SHAPE, NST_E_LIMIT. */
NstStatus nst_plan_layout(NstCtx *ctx, const NstPlan *plan, const int64_t *sym_value, uint32_t n_syms, uint64_t *offset,
                          uint64_t *bytes) NST_MUST_CHECK;

/* The plan without code and constants' bytes as text (dump-ir). */
void nst_plan_print(NstText *text, const NstPlan *plan);

#endif
