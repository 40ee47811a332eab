#include "tests/unit/support_math_near.h"

#include <math.h>
#include <string.h>

#include "tests/unit/support_clones.h"

static void all_by_libm(const MathFunction *function, const float *x, double *near)
{
    for (int i = 0; i < BLOCK; i++) near[i] = function->exact(x[i]);
}

/* -- a cubic ----------------------------------------------------------------------------------------------- */

/* Zeros of the Chebyshev polynomial of degree 4 over [-1, 1], then where it is largest: there the cubic is farthest off. */
enum { NODES = 4, PLACES = 9 };
static const double places[PLACES] = {-0.92387953251128674,
                                      -0.38268343236508977,
                                      0.38268343236508977,
                                      0.92387953251128674,
                                      -1,
                                      -0.70710678118654752,
                                      0,
                                      0.70710678118654752,
                                      1};

typedef struct Cubic {
    double at[NODES], slope[NODES]; /* Newton's form */
} Cubic;

static double position(int i)
{
    return (2 * i - (BLOCK - 1)) * (1.0 / (BLOCK - 1));
}

static Cubic cubic_through(const double *at, const double *value)
{
    Cubic cubic;
    for (int k = 0; k < NODES; k++) {
        cubic.at[k] = at[k];
        cubic.slope[k] = value[k];
        for (int j = 0; j < k; j++) cubic.slope[k] = (cubic.slope[k] - cubic.slope[j]) / (at[k] - at[j]);
    }
    return cubic;
}

static inline double cubic_value(const Cubic *cubic, double at)
{
    double y = cubic->slope[3];
    y = y * (at - cubic->at[2]) + cubic->slope[2];
    y = y * (at - cubic->at[1]) + cubic->slope[1];
    return y * (at - cubic->at[0]) + cubic->slope[0];
}

CLONES static void cubic_values(const Cubic *cubic, double *values)
{
    const Cubic c = *cubic;
    for (int i = 0; i < BLOCK; i++) values[i] = cubic_value(&c, position(i));
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

/* All functions but sin, cos and tan are monotone where the exponent is one: between equal values lie the same. */
static void by_cubic(const MathFunction *function, const float *x, double *near)
{
    double at[PLACES], value[PLACES], least = INFINITY;
    bool equal = true;
    for (int k = 0; k < PLACES; k++) {
        int i = (int)lround((places[k] + 1) * 0.5 * (BLOCK - 1));
        at[k] = position(i);
        value[k] = function->exact(x[i]);
        equal &= same(value[k], value[0]);
        least = fmin(least, fabs(value[k]));
    }
    if (equal) {
        for (int i = 0; i < BLOCK; i++) near[i] = value[0];
        return;
    }
    Cubic cubic = cubic_through(at, value);
    for (int k = NODES; k < PLACES; k++)
        if (!(fabs(cubic_value(&cubic, at[k]) - value[k]) <= MATH_NEAR / 4 * least)) {
            all_by_libm(function, x, near);
            return;
        }
    cubic_values(&cubic, near);
}

/* -- sums of angles ---------------------------------------------------------------------------------------- */

/* Sums that cancel this far are libm's. */
#define CANCELLED 0x1p-14

typedef struct Sums {
    double near[BLOCK], room[BLOCK]; /* below 0: cancelled */
} Sums;

CLONES static void sums_of(NstScalarOp op, const MathArcs *arcs, double sin_first, double cos_first, Sums *sums)
{
    for (int i = 0; i < BLOCK; i++) {
        double sin_a = sin_first * arcs->cos[i], sin_b = cos_first * arcs->sin[i];
        double cos_a = cos_first * arcs->cos[i], cos_b = sin_first * arcs->sin[i];
        double sine = sin_a + sin_b, cosine = cos_a - cos_b;
        double sine_room = fabs(sine) - CANCELLED * (fabs(sin_a) + fabs(sin_b));
        double cosine_room = fabs(cosine) - CANCELLED * (fabs(cos_a) + fabs(cos_b));
        double less_room = sine_room < cosine_room ? sine_room : cosine_room;
        sums->near[i] = op == NST_OP_SIN ? sine : op == NST_OP_COS ? cosine : sine / cosine;
        sums->room[i] = op == NST_OP_SIN ? sine_room : op == NST_OP_COS ? cosine_room : less_room;
    }
}

static void by_sums(const MathFunction *function, MathArcs *arcs, const float *x, double *near)
{
    double step = (double)x[1] - x[0];
    for (int i = 0; arcs->step != step && i < BLOCK; i++) {
        arcs->sin[i] = sin(i * step);
        arcs->cos[i] = cos(i * step);
    }
    arcs->step = step;
    Sums sums;
    sums_of(function->op, arcs, sin(x[0]), cos(x[0]), &sums);
    for (int i = 0; i < BLOCK; i++) near[i] = sums.room[i] < 0 ? function->exact(x[i]) : sums.near[i];
}

void math_near(const MathFunction *function, MathArcs *arcs, const float *x, double *near)
{
    NstScalarOp op = function->op;
    uint32_t first, last;
    memcpy(&first, &x[0], 4);
    memcpy(&last, &x[BLOCK - 1], 4);
    bool circular = op == NST_OP_SIN || op == NST_OP_COS || op == NST_OP_TAN;
    if (first >> 23 != last >> 23 || (circular && !isfinite(x[0])) || isinf(x[0]))
        all_by_libm(function, x, near);
    else if (circular)
        by_sums(function, arcs, x, near);
    else
        by_cubic(function, x, near);
}

/* -- the search -------------------------------------------------------------------------------------------- */

static inline double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double limited(double value, double most)
{
    return value > most ? most : value < -most ? -most : value;
}

CLONES bool math_may_exceed(const float *got, const double *near, double flush, double limit)
{
    uint64_t any = 0;
    for (int i = 0; i < BLOCK; i++) {
        double result = got[i], exact = near[i];
        double distance = fabs(limited(result, 0x1p128) - limited(exact, 0x1p128));
        double power = double_of(bits_of(exact) & UINT64_C(2047) << 52); /* of two, at exact */
        power = limited(power < 0x1p-126 ? 0x1p-126 : power, 0x1p127);
        double ulp = distance * double_of((UINT64_C(2069) << 52) - bits_of(power));
        ulp = result == 0 || exact == 0 ? INFINITY : ulp;
        ulp = result == 0 && fabs(exact) < flush ? 0 : ulp;
        ulp = result != result && exact != exact ? 0 : ulp;
        any |= ulp <= limit ? 0 : UINT64_MAX;
    }
    return any;
}
