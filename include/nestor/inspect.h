/* inspect.h: what a model holds, and which operators this build knows, without compiling anything. */
#ifndef NESTOR_INSPECT_H
#define NESTOR_INSPECT_H

#include "nestor/model.h"
#include "nestor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An input, output or overridable initializer as the model declares it. */
typedef struct NstModelPort {
    const char *name;
    const char
        *type; /* "f32", "seq(f32)", "optional(seq(f32))", "map(i64, f32)", "sparse(f32)"; "?" where it says none */
    NstDtype dtype;                          /* of a tensor; NST_DTYPE_NONE for other types */
    int32_t rank;                            /* -1 = not said */
    int64_t shape[NST_TENSOR_MAX_RANK];      /* -1 = open */
    const char *symbol[NST_TENSOR_MAX_RANK]; /* the name of an open size; NULL = it has none, or the size is known */
} NstModelPort;

/* A version of an operator set that the model imports; domain "ai.onnx" is the default one. */
typedef struct NstModelOpset {
    const char *domain;
    int64_t version;
} NstModelOpset;

typedef struct NstModelEntry {
    const char *key, *value;
} NstModelEntry;

typedef enum NstOperatorState {
    NST_OPERATOR_RUNS,     /* can be lowered; single attributes or types may still be refused, with a message */
    NST_OPERATOR_NOT_YET,  /* of the standard, not implemented here */
    NST_OPERATOR_FUNCTION, /* a function that the model itself defines */
    NST_OPERATOR_UNKNOWN,  /* of no operator set known here */
    NST_OPERATOR_CUSTOM    /* registered with the model's engine (custom.h), in a version that the model allows */
} NstOperatorState;

/* An operator that nodes of the model use, those inside of subgraphs and functions included. */
typedef struct NstModelOperator {
    const char *domain, *name;
    int64_t version; /* that is in force under the model's imports; 0 = none */
    NstOperatorState state;
    uint64_t nodes; /* that use it */
} NstModelOperator;

/* All of it lives as long as the information itself. */
typedef struct NstModelInfo {
    const char *format;                              /* "onnx" or "nsg" */
    const char *producer, *producer_version, *graph; /* "" where the model says nothing */
    int64_t ir_version, model_version;
    uint64_t nodes;        /* in the graph, subgraphs and functions */
    uint64_t weight_bytes; /* of initializers, external ones included, and of tensors in nodes (Constant) */
    uint32_t n_inputs, n_outputs, n_overridable, n_opsets, n_operators, n_functions, n_metadata;
    const NstModelPort *inputs; /* that a run must be given */
    const NstModelPort *outputs;
    const NstModelPort *overridable; /* initializers that are graph inputs too: they have a default */
    const NstModelOpset *opsets;
    const NstModelOperator *operators; /* sorted by domain and name */
    const char *const *functions;      /* "domain.name" */
    const NstModelEntry *metadata;
} NstModelInfo;

/* Reads a model's declarations; no operator is looked at closer than by its name, and by what is registered now.  A model in text form (.nsg) has inputs,
 * outputs and, as operators of domain "", the primitives.
 * Owns: the caller ends *info with nst_model_info_free; it may outlive the model.
 * Errors: NST_E_PARSE, NST_E_MODEL, NST_E_LIMIT, NST_E_UNSUPPORTED (IR version newer than known), NST_E_COMPILER.
 * Threads: any. */
NST_API NstStatus nst_model_info(NstModel *model, const NstModelInfo **info) NST_MUST_CHECK;

/* NULL is allowed. */
NST_API void nst_model_info_free(const NstModelInfo *info);

/* "runs", "not yet", "function", "unknown" or "custom".  Static storage. */
NST_API const char *nst_operator_state_name(NstOperatorState state);

/* The operator table as lines of text, columns between tabs, the first line naming them: domain, operator, version, state
 * ("runs", "not yet", "removed"), inputs and outputs, attributes, types.
 * Owns: *text is ended with nst_text_free.  Errors: NST_E_COMPILER, NST_E_NOMEM. */
NST_API NstStatus nst_operator_table(NstEngine *engine, char **text) NST_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
