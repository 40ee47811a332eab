/* support_math_near.h: what all 2^32 floats need to be quick: a function of double near its libm values over a block of
 * neighbouring floats, and the search of a block for results that may be the worst.
 *
 * libm decides: a result that may be the worst is compared with libm's own value, so that the worst and its place are those
 * of a comparison with libm everywhere, as long as near values are within MATH_NEAR of it. */
#ifndef NST_TESTS_SUPPORT_MATH_NEAR_H
#define NST_TESTS_SUPPORT_MATH_NEAR_H

#include "tests/unit/support_math.h"

#define MATH_NEAR 0x1p-36 /* of the value: 2^-12 ulp of a float */

/* Sines and cosines of the distances to a block's first float; {0} before the first block. */
typedef struct MathArcs {
    double step; /* between two floats of the block */
    double sin[BLOCK], cos[BLOCK];
} MathArcs;

/* near[i]: the function at x[i], BLOCK floats in the order of their bits, equally far apart there.
 * sin, cos and tan come from sum formulas, the others from a cubic through libm's values at four places that meets five
 * more; libm gives all values where the floats have not one exponent and where the cubic does not fit. */
void math_near(const MathFunction *function, MathArcs *arcs, const float *x, double *near);

/* Whether a result may be farther than limit (ulp, at least 2^-10) from libm's, or not be comparable by its distance: a zero
 * of either, one NaN.  flush as in math_ulp. */
bool math_may_exceed(const float *got, const double *near, double flush, double limit);

#endif
