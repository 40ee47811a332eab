/* infer.h: the type and shape rule of every primitive, and what its operands and attributes must satisfy.
 *
 * A rule fails only on what is provably wrong.  Equalities of extents that the prover cannot settle are taken as true and
 * listed, so are extents of its own that may be negative: the builder makes asserts of them, interpreter and compiled code check
 * at run time. */
#ifndef NST_IR_INFER_H
#define NST_IR_INFER_H

#include "ir/graph.h"

typedef struct NstDimPair {
    NstDim a, b;
} NstDimPair;

typedef struct NstInfer {
    NstCtx *ctx;
    NstGraph *graph; /* for lookups; dims and types are made in its arena */
    NST_VEC(NstDimPair) unproven;
    NST_VEC(NstDim) unsure; /* may be negative */
} NstInfer;

/* Gives the output types.  out[] comes in with the wanted type (kind NST_TYPE_NONE = none wanted) for primitives whose
 * operands do not determine it: param, const, random_bits (shape), reshape, expand, slice (size), host, if, loop, call.
 * Errors: NST_E_TYPE, NST_E_SHAPE, NST_E_INVALID (attributes), NST_E_LIMIT; the text says what was given and allowed. */
NstStatus nst_infer(NstInfer *infer, NstPrim prim, const NstAttrs *attr, const NstVal *in, uint32_t n_in, NstType *out,
                    uint32_t n_out) NST_MUST_CHECK;

/* True if a type of these symbols is a tensor of numbers (not bool, string or complex). */
bool nst_dtype_is_number(NstDtype dtype);

/* The neutral element of a combiner formula over ARG 0 and ARG 1 (+ * min max & | ^), as a constant of `type`;
 * none if it has no known one. */
NstExpr nst_combine_identity(NstExprs *exprs, NstExpr merge, NstDtype type);

/* Extent of a window's output: floordiv(n + lo + hi - (size - 1) * dilation - 1, stride) + 1. */
NstDim nst_window_extent(NstDims *dims, NstDim n, NstDim size, int64_t stride, int64_t dilation, NstDim lo, NstDim hi);

/* True if the trip count of a loop is a dim known before it runs (a constant or the value of a dim): then *extent is it. */
bool nst_known_trips(const NstGraph *graph, NstVal trips, NstDim *extent);

#endif
