/* math.h: expansion of elementary functions (scalar.def kind EXPANDED) into elementary operations.
 *
 * math.def states the error bounds, math_coefficients.def (made by tools/math_coefficients.py) holds the coefficients.
 * The same expansion is evaluated by the interpreter and emitted by code generation: with fma on the fma targets, mul and
 * add on the baseline, so that folded and compiled values agree bit for bit.  docs/MATH.md describes the methods. */
#ifndef NST_IR_MATH_H
#define NST_IR_MATH_H

#include "ir/expr.h"

typedef struct NstMathInfo {
    double max_ulp;        /* stated bound against the exact result, whole range, on targets with fma */
    double max_ulp_no_fma; /* the same where fma is mul then add */
    double flush;          /* exact results smaller in magnitude may come as 0; 0 = none do */
    const char *source;    /* paper or how the coefficients were made */
} NstMathInfo;

/* Stated accuracy of an expanded op for f32 or f64. */
const NstMathInfo *nst_math_info(NstScalarOp op, NstDtype type);

/* What the target of an expansion has. */
typedef struct NstMathForm {
    bool has_fma;   /* decides about results */
    bool has_scale; /* one instruction for SCALE: the same results, NaN payloads apart, by other operations */
} NstMathForm;

/* Replaces every EXPANDED node in e by elementary operations.  (FMA nodes stay FMA: what the target makes of them is the
 * target's.) */
NstExpr nst_math_expand(NstExprs *exprs, NstExpr e, NstMathForm form);

/* 2^(k/16) rounded to f32 or f64, 0 <= k < 16. */
double nst_math_sixteenth(NstDtype type, int k);

/* The value of an expanded op (f32 or f64): its expansion evaluated, operation by operation, by nst_scalar_eval.
 * Allocates nothing. */
NstScalar nst_math_eval(NstScalarOp op, NstDtype type, const NstScalar *arg, bool has_fma);

#endif
