/* build.h: typed constructors of primitives: check operands, infer the output's type and shape, add the node.
 *
 * A builder on which an operation failed is poisoned: further calls return none and keep the first error, so that lowerings
 * need no error lines.  Check nst_build_status once.  A none operand of a required input poisons too.
 * Every inference rule is in infer.c, one switch over primitives.  Equalities of extents that the prover cannot settle
 * become assert nodes and, in the graph's own region, facts of the prover.
 * Calls that would change nothing (a permutation that is none, a reshape to the same shape...) return their operand. */
#ifndef NST_IR_BUILD_H
#define NST_IR_BUILD_H

#include "ir/graph.h"

typedef struct NstBuild {
    NstCtx *ctx;
    NstGraph *graph;
    NstRegionId region; /* where nodes go */
    NstOrigin origin;   /* given to new nodes */
    NstStatus status;   /* first failure */
    int depth;          /* of the region: 0 for the graph's own */
} NstBuild;

void nst_build_init(NstBuild *build, NstCtx *ctx, NstGraph *graph, NstRegionId region);
NstStatus nst_build_status(const NstBuild *build) NST_MUST_CHECK;
/* Poisons with an error of the caller. */
NstVal nst_build_fail(NstBuild *build, NstStatus status, const char *format, ...) NST_PRINTF(3, 4);

NstVal nst_build_param(NstBuild *build, const char *name, NstType type);
NstVal nst_build_const(NstBuild *build, NstDtype dtype, int rank, const int64_t *shape,
                       const void *data); /* data copied */
NstVal nst_build_const_view(NstBuild *build, NstDtype dtype, int rank, const int64_t *shape, const void *data,
                            size_t bytes); /* [borrowed for the graph's life] */
/* nst_const_fill_seeded's values */
NstVal nst_build_seeded(NstBuild *build, NstDtype dtype, int rank, const int64_t *shape, uint64_t seed);
NstVal nst_build_splat(NstBuild *build, NstDtype dtype, int rank, const NstDim *shape, NstScalar value);
NstVal nst_build_iota(NstBuild *build, NstDim extent);
NstVal nst_build_random_bits(NstBuild *build, NstVal key, int rank, const NstDim *shape);
NstVal nst_build_dim_value(NstBuild *build, NstDim dim);
/* A size that is known only when a value is there: of the parameter of a body whose state changes its shape. */
NstDim nst_build_counted_dim(NstBuild *build, const char *name);
/* A size read from a run-time integer scalar: the dim of a dim_value or constant, else a new VALUE symbol lo..hi that the
 * scalar defines (name may be NULL). */
NstDim nst_build_value_dim(NstBuild *build, NstVal scalar, const char *name, int64_t lo, int64_t hi);
/* Both dims are equal from here on: proven, asserted at run time, or an error. */
void nst_build_require_equal(NstBuild *build, NstDim a, NstDim b, const char *what);
/* Likewise for a dim that must not be negative. */
void nst_build_require_size(NstBuild *build, NstDim dim, const char *what);
/* A constant shape of extent 1 at every axis, and dims of an array of integers. [graph's arena] */
const NstDim *nst_build_dims(NstBuild *build, int rank, const int64_t *shape);

/* formula over slots a, b, c...; inputs are aligned by trailing axes and broadcast (ranks are raised by reshape).  word/n: named
 * constants.  The result type is what the formula gives, narrow floats rounded back when all float inputs are of one narrow type. */
NstVal nst_build_map(NstBuild *build, const char *formula, uint32_t n, const NstVal *in, const NstFormulaWord *word,
                     uint32_t n_words);
NstVal nst_build_map_expr(NstBuild *build, NstExpr formula, uint32_t n, const NstVal *in);
NstVal nst_build_convert(NstBuild *build, NstVal x, NstDtype to, bool saturate);
NstVal nst_build_bitcast(NstBuild *build, NstVal x, NstDtype to);

NstVal nst_build_reshape(NstBuild *build, NstVal x, int rank,
                         const NstDim *shape); /* equal element counts must be provable or are asserted at run time */
NstVal nst_build_permute(NstBuild *build, NstVal x, const int *order);
NstVal nst_build_expand(NstBuild *build, NstVal x, int rank, const NstDim *shape); /* may raise the rank */
NstVal nst_build_slice(NstBuild *build, NstVal x, const NstDim *start, const int64_t *step, const NstDim *size);
NstVal nst_build_slice_at(NstBuild *build, NstVal x, const NstVal *start,
                          const NstDim *size); /* run-time starts, none = 0; checked */
NstVal nst_build_pad(NstBuild *build, NstVal x, const NstDim *lo, const NstDim *hi, const int64_t *interior,
                     NstPadMode mode, NstVal value);
NstVal nst_build_concat(NstBuild *build, uint32_t n, const NstVal *in, int axis);
typedef struct NstWindowAxis {
    int axis;
    NstDim size;
    int64_t stride, dilation;
    NstDim lo, hi;
} NstWindowAxis;
NstVal nst_build_window(NstBuild *build, NstVal x, int n, const NstWindowAxis *axis, NstVal padding);
NstVal nst_build_update_slice(NstBuild *build, NstVal base, NstVal update, const NstVal *start);

/* reduce "a + b", "max(a, b)": a = state, b = element, merge the same, the neutral element is known for + * min max & | ^.
 * Narrow floats are reduced in f32 and the result is rounded back.  reduce_tuple: combine as it stands (formulas over ARG
 * slots; nst_build_formula makes them).  Lanes are chosen by ir/order.h. */
NstExpr nst_build_formula(NstBuild *build, const char *formula, const NstDtype *arg_type, uint32_t n_args,
                          NstDtype result_type);
NstVal nst_build_reduce(NstBuild *build, NstVal x, const char *combiner, int n_axes, const int *axes, bool keep);
NstStatus nst_build_reduce_tuple(NstBuild *build, uint32_t n_in, const NstVal *in, NstCombine combine, int n_axes,
                                 const int *axes, bool keep, bool skip_padding, NstVal *out);
NstVal nst_build_prefix(NstBuild *build, NstVal x, const char *combiner, int axis, bool exclusive, bool reverse);
/* equation "bik,bkj->bij": letters are axes; inputs of pre formulas follow a semicolon: "ik,kj;i,j->ij".  accumulate NONE =
 * compute type of the operands, and the result rounded back if they are narrow floats. */
NstVal nst_build_contract(NstBuild *build, const char *equation, uint32_t n, const NstVal *in, NstDtype accumulate);
/* Contract attributes as they stand; sum NULL, lanes 0 and block 0 are chosen by ir/order.h.  nst_build_equation fills labels,
 * out_labels, out_rank and n_operands from an equation. */
NstVal nst_build_contract_full(NstBuild *build, const NstAttrs *attr, uint32_t n, const NstVal *in);
NstStatus nst_build_equation(NstCtx *ctx, NstArena *arena, const char *equation, uint32_t n_in, NstAttrs *attr);
NstStatus nst_build_sort(NstBuild *build, uint32_t n, const NstVal *in, int n_keys, int axis, bool descending,
                         NstDim keep, NstVal *out);
NstVal nst_build_gather(NstBuild *build, NstVal data, NstVal indices, int axis, int batch, NstIndexMode mode);
NstVal nst_build_scatter(NstBuild *build, NstVal data, NstVal indices, NstVal updates, int axis, bool elementwise,
                         const char *combine, NstIndexMode mode);
NstStatus nst_build_compact(NstBuild *build, NstVal mask, uint32_t n, const NstVal *in, int axis, NstVal *out,
                            NstSym *count);

/* Structure: create the region first (nst_build_region), build into it with a NstBuild of its own, set its results with
 * nst_build_results, then add the node.  Results whose extents differ between branches, iterations or from outside get new
 * COUNTED symbols.  loop: without a condition input the body's condition result is ignored. */
NstRegionId nst_build_region(NstBuild *build, NstBuild *inner);
NstStatus nst_build_if(NstBuild *build, NstVal condition, NstRegionId then_region, NstRegionId else_region, NstVal *out,
                       uint32_t n_out);
NstStatus nst_build_loop(NstBuild *build, NstVal trips, NstVal condition, uint32_t n_states, const NstVal *state,
                         NstRegionId body, NstVal *out, uint32_t n_out);
NstStatus nst_build_call(NstBuild *build, NstRegionId body, const char *name, uint32_t n, const NstVal *in, NstVal *out,
                         uint32_t n_out);
NstStatus nst_build_host(NstBuild *build, const char *name, const char *config, uint32_t n, const NstVal *in,
                         const NstType *out_type, uint32_t n_out, NstVal *out);
void nst_build_assert(NstBuild *build, NstVal condition, const char *message);
void nst_build_results(NstBuild *build, uint32_t n, const NstVal *value, const char *const *name);

#endif
