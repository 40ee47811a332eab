/* eval_graph.h: what the files of the graph interpreter share; private to ir/eval_graph*.c. */
#ifndef NST_IR_EVAL_GRAPH_H
#define NST_IR_EVAL_GRAPH_H

#include "ir/base/map.h"
#include "ir/graph.h"

/* A value that was computed.  pad: by element, 1 = padding of a window; NULL = none.  Data are never written again. */
typedef struct NstEvalValue {
    NstTensorValue t;
    const uint8_t *pad;
    bool set;
} NstEvalValue;

typedef struct NstEval {
    NstCtx *ctx;
    NstArena *arena; /* of the iteration or run */
    const NstGraph *graph;
    const NstHostCall *host;
    bool has_fma;
    NstEvalValue *value; /* by value id */
    int64_t *sym;        /* by symbol */
    bool *known;         /* by symbol */
    uint32_t n_syms;
} NstEval;

/* One node while it is evaluated. */
typedef struct NstEvalNode {
    NstEval *eval;
    const NstNode *node;
    const NstEvalValue **in; /* NULL entries are absent */
    NstEvalValue *out;
} NstEvalNode;

/* Value of a dim; NST_E_SHAPE where a symbol is not known (yet). */
NstStatus nst_eval_dim(NstEval *eval, NstDim dim, int64_t *value) NST_MUST_CHECK;
/* Gives out->t shape and zeroed storage. */
NstStatus nst_eval_new(NstEval *eval, NstDtype dtype, int rank, const int64_t *shape, NstEvalValue *out) NST_MUST_CHECK;
int64_t nst_eval_count(const NstTensorValue *t); /* elements */
/* Row-major position of an index. */
int64_t nst_eval_position(const NstTensorValue *t, const int64_t *index);
/* Steps an index through a shape in row-major order; false after the last. */
bool nst_eval_next(int rank, const int64_t *shape, int64_t *index);
NstScalar nst_eval_get(const NstTensorValue *t, int64_t position);
void nst_eval_put(NstTensorValue *t, int64_t position, NstScalar value);
/* "axis 2 is read at index 7, allowed: 0 to below 5" */
NstStatus nst_eval_outside(NstEval *eval, NstStatus code, int axis, int64_t at, int64_t n) NST_MUST_CHECK;

/* A formula as a list of nodes, operands first, evaluated for one element at a time. */
typedef struct NstEvalFormula {
    const NstExprs *exprs;
    NstArena *arena;
    NstEval *eval;
    uint32_t n;
    NstExpr *node;
    uint32_t (*arg)[3]; /* positions of operands */
    NstScalar *value;   /* of nodes; INDEX and CONST are set once */
    NstMap where;
    uint32_t cap;
    NstStatus status;
} NstEvalFormula;
NstStatus nst_eval_formula_init(NstEval *eval, NstExpr e, NstEvalFormula *formula) NST_MUST_CHECK;
NstScalar nst_eval_formula(NstEvalFormula *formula, const NstScalar *arg);

/* The rules, one a primitive or family: inputs are there, outputs are made. */
NstStatus nst_eval_map(NstEvalNode *n) NST_MUST_CHECK;
NstStatus nst_eval_convert(NstEvalNode *n) NST_MUST_CHECK;
NstStatus nst_eval_source(NstEvalNode *n) NST_MUST_CHECK;
NstStatus nst_eval_view(NstEvalNode *n) NST_MUST_CHECK;
NstStatus nst_eval_concat(NstEvalNode *n) NST_MUST_CHECK;
NstStatus nst_eval_update_slice(NstEvalNode *n) NST_MUST_CHECK;
NstStatus nst_eval_reduce(NstEvalNode *n) NST_MUST_CHECK;
NstStatus nst_eval_prefix(NstEvalNode *n) NST_MUST_CHECK;
NstStatus nst_eval_contract(NstEvalNode *n) NST_MUST_CHECK;
NstStatus nst_eval_sort(NstEvalNode *n) NST_MUST_CHECK;
NstStatus nst_eval_gather(NstEvalNode *n) NST_MUST_CHECK;
NstStatus nst_eval_scatter(NstEvalNode *n) NST_MUST_CHECK;
NstStatus nst_eval_compact(NstEvalNode *n) NST_MUST_CHECK;

#endif
