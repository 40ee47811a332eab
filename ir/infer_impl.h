/* infer_impl.h: what the files of inference share; private to ir/infer*.c. */
#ifndef NST_IR_INFER_IMPL_H
#define NST_IR_INFER_IMPL_H

#include "ir/infer.h"

/* One application of a rule. */
typedef struct NstRule {
    NstInfer *infer;
    NstCtx *ctx;
    NstGraph *graph;
    NstDims *dims;
    NstPrim prim;
    const char *name; /* of the primitive, for messages */
    const NstAttrs *attr;
    const NstVal *in;
    uint32_t n_in, n_out;
    NstType *out;
} NstRule;

/* Type of input k, which is known to be a tensor. */
const NstType *nst_rule_in(const NstRule *rule, uint32_t k);
/* Sets output k to a tensor type. */
void nst_rule_out(const NstRule *rule, uint32_t k, NstDtype dtype, int rank, const NstDim *shape);
/* Text of a dim or type for messages. */
const char *nst_rule_dim(const NstRule *rule, NstDim dim);
const char *nst_rule_type(const NstRule *rule, const NstType *type);

/* a == b: NST_E_SHAPE "PRIM: WHAT" if provably not, listed if unknown. */
NstStatus nst_rule_equal(const NstRule *rule, NstDim a, NstDim b, const char *what) NST_MUST_CHECK;
NstStatus nst_rule_same_dtype(const NstRule *rule, uint32_t a, uint32_t b) NST_MUST_CHECK;
NstStatus nst_rule_same_rank(const NstRule *rule, uint32_t a, uint32_t b) NST_MUST_CHECK;
/* Input k is an integer scalar of type i64. */
NstStatus nst_rule_i64_scalar(const NstRule *rule, uint32_t k, const char *what) NST_MUST_CHECK;
NstStatus nst_rule_axis(const NstRule *rule, int axis, int rank) NST_MUST_CHECK;
NstStatus nst_rule_rank(const NstRule *rule, int rank) NST_MUST_CHECK;
/* Output k was wanted as a tensor. */
NstStatus nst_rule_wanted(const NstRule *rule, uint32_t k) NST_MUST_CHECK;
/* Every ARG of a formula has slot < n and the type given; `what` names the formula. */
NstStatus nst_rule_formula(const NstRule *rule, NstExpr e, const NstDtype *type, uint32_t n,
                           const char *what) NST_MUST_CHECK;

NstStatus nst_infer_reshape(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_permute(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_expand(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_slice(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_pad(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_concat(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_window(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_update_slice(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_reduce(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_prefix(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_contract(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_sort(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_gather(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_scatter(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_compact(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_if(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_loop(NstRule *rule) NST_MUST_CHECK;
NstStatus nst_infer_call(NstRule *rule) NST_MUST_CHECK;

#endif
