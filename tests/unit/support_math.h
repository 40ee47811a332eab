/* support_math.h: the elementary functions with their references, sample values, and the error in ulp; for
 * unit/test_math.c and math_ulp.c. */
#ifndef NST_TESTS_SUPPORT_MATH_H
#define NST_TESTS_SUPPORT_MATH_H

#include "ir/math.h"
#include "tests/unit/support_math_block.h"

typedef struct MathFunction {
    NstScalarOp op;
    double (*exact)(double);                /* for f32; NULL: pow */
    long double (*exact_long)(long double); /* for f64 */
} MathFunction;

extern const MathFunction math_functions[];
extern const size_t n_math_functions;

/* The largest error seen and where. */
typedef struct MathWorst {
    double ulp;
    double x, y, got, exact;
} MathWorst;

/* |got - exact| in units of the last place of a float (double) at exact.  Infinity stands for 2^128 (2^1024); a wrong
 * NaN, a wrong sign of zero count as infinitely wrong.  Zero is right where |exact| < flush. */
double math_ulp(double got, long double exact, NstDtype type, double flush);

/* The expansion of a function on ARG 0 (and 1).  [in exprs] */
NstExpr math_expansion(NstExprs *exprs, NstScalarOp op, NstDtype type, NstMathForm form);

/* The expansions with mul and add (result 0), with fma (result 1). */
BlockProgram math_program(NstArena *arena, NstExprs *exprs, NstScalarOp op, NstDtype type);

enum { MATH_SPECIALS = 52 };
/* Zeros, infinities, NaN, limits of the formats, small integers; k < MATH_SPECIALS. */
double math_special(unsigned k);

/* The k-th sample: specials first (pairs for two operands), then random values of the state: of every exponent, of
 * moderate size, and pairs whose power is in range. */
void math_sample(NstDtype type, bool two, uint64_t k, uint64_t *state, double *x, double *y);

/* The largest errors of blocks of samples: worst[0] with mul and add, worst[1] with fma. */
void math_measure(const BlockProgram *program, const MathFunction *function, NstDtype type, uint64_t blocks,
                  double flush, MathWorst *worst);

#endif
