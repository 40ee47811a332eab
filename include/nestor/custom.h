/* custom.h: operators of the caller's own.
 *
 * A node of a model whose domain and operator are registered with the engine is done by the caller's functions: `infer` when
 * the model is made ready (types and sizes), `compute` in every run.  docs/CUSTOM.md has the rules, examples/custom.c a whole
 * program. */
#ifndef NESTOR_CUSTOM_H
#define NESTOR_CUSTOM_H

#include "nestor/engine.h"
#include "nestor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A call of one of the caller's functions: what the node says, and where a failure goes.  Lives until the function returns. */
typedef struct NstOperatorCall NstOperatorCall;

/* The type of an input or output.  Sizes of inputs that are open are -1.  Sizes of outputs: a number, or
 * NST_SAME_SIZE(input, axis), or NST_COUNTED_SIZE. */
typedef struct NstOperatorType {
    NstDtype dtype; /* NST_DTYPE_NONE: an optional input that the node leaves out */
    int32_t rank;
    int64_t shape[NST_TENSOR_MAX_RANK];
} NstOperatorType;

/* As large as that axis of that input. */
#define NST_SAME_SIZE(input, axis) (-2 - ((int64_t)(input) * NST_TENSOR_MAX_RANK + (axis)))
/* Known only when computed: compute says it by nst_operator_give. */
#define NST_COUNTED_SIZE ((int64_t)-1)

/* Sets dtype, rank and sizes of every output from the inputs and the attributes. */
typedef NstStatus (*NstOperatorInfer)(void *user, NstOperatorCall *call, const NstOperatorType *inputs,
                                      uint32_t n_inputs, NstOperatorType *outputs, uint32_t n_outputs);
/* Fills outputs[..].data, row-major.  Inputs are row-major and dense, aligned for their type; one that is left out has dtype
 * NST_DTYPE_NONE.  4- and 2-bit types take a byte each.  Outputs have shape and memory, but for those with a counted size. */
typedef NstStatus (*NstOperatorCompute)(void *user, NstOperatorCall *call, const NstTensor *inputs, uint32_t n_inputs,
                                        NstTensor *outputs, uint32_t n_outputs);

typedef struct NstOperator {
    const char *domain, *name; /* no blanks; domain is not that of ONNX itself ("", "ai.onnx") */
    int32_t version; /* since when in the domain's operator set, at least 1: a model gets the newest one it allows */
    int32_t min_inputs, max_inputs;   /* max < 0: any number */
    int32_t min_outputs, max_outputs; /* at least 1 */
    NstOperatorInfer infer;
    NstOperatorCompute compute;
    void *user; /* handed to both */
} NstOperator;

/* Registers an operator for all models of the engine: sessions made from now on use it, before a function of the model and
 * before what Nestor has of that name.  It stays until the engine ends.  Texts are copied.
 * Errors: NST_E_INVALID for what is not allowed, or the same domain, name and version twice; NST_E_NOMEM.
 * Threads: any.  infer and compute are called from any thread that makes or runs a session, several at once. */
NST_API NstStatus nst_engine_add_operator(NstEngine *engine, const NstOperator *op) NST_MUST_CHECK;

/* Within infer and compute: an attribute of the node; `otherwise` (or NULL, *n = 0) where it has none of that name.  One of
 * another type fails the call with NST_E_TYPE after the function has returned.  Live as long as the call. */
NST_API int64_t nst_operator_int(NstOperatorCall *call, const char *name, int64_t otherwise);
NST_API float nst_operator_float(NstOperatorCall *call, const char *name, float otherwise);
NST_API const char *nst_operator_text(NstOperatorCall *call, const char *name, const char *otherwise);
NST_API const int64_t *nst_operator_ints(NstOperatorCall *call, const char *name, size_t *n);
NST_API const float *nst_operator_floats(NstOperatorCall *call, const char *name, size_t *n);
NST_API const char *const *nst_operator_texts(NstOperatorCall *call, const char *name, size_t *n);

/* Within compute: memory for an output that has a counted size, of this shape; outputs[output] then has it.  Once an output.
 * Errors: NST_E_SHAPE where infer said another size, NST_E_NOMEM; compute returns them. */
NST_API NstStatus nst_operator_give(NstOperatorCall *call, uint32_t output, const int64_t *shape) NST_MUST_CHECK;

/* Sets the text of a failure and returns status: `return nst_operator_fail(call, NST_E_SHAPE, "...", ...);`.  The engine adds
 * the node. */
NST_API NstStatus nst_operator_fail(NstOperatorCall *call, NstStatus status, const char *format, ...) NST_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif
#endif
