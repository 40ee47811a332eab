/* math_build.h: what the expansions of math_*.c share: short constructors of operations, the constants of a float format,
 * the tables of math_coefficients.def.  Private to ir/math*.c. */
#ifndef NST_IR_MATH_BUILD_H
#define NST_IR_MATH_BUILD_H

#include "ir/math.h"

#include <math.h>

typedef NstExpr E;

typedef enum NstMathTableId {
#define NST_MATH_TABLE(name, form, error, ...) NST_TABLE_##name,
#define NST_MATH_WORDS(name, ...)              NST_TABLE_##name,
#include "ir/math_coefficients.def"
#undef NST_MATH_TABLE
#undef NST_MATH_WORDS
    NST_TABLE_COUNT
} NstMathTableId;

typedef struct NstMathTable {
    int n;
    const double *coefficient; /* highest power first; words: most significant first */
} NstMathTable;

NstMathTable nst_math_table(NstMathTableId id);

/* Values instead of nodes: an expansion built with this is evaluated on the way. */
enum { NST_MATH_STEPS = 512 };
typedef struct NstMathEval {
    bool has_fma;
    uint32_t n; /* the next step; step 0 is none */
    NstDtype type[NST_MATH_STEPS];
    NstScalar value[NST_MATH_STEPS];
} NstMathEval;

/* Where an expansion is built, the float type and its facts. */
typedef struct NstMathBuild {
    NstExprs *pool;    /* nodes go here ... */
    NstMathEval *eval; /* ... or, if pool is NULL, values here; E then numbers its steps */
    NstMathForm form;
    NstDtype type;    /* F32, F64 */
    NstDtype bits;    /* I32, I64: the same width */
    bool wide;        /* F64 */
    int mantissa;     /* stored bits: 23, 52 */
    int bias;         /* 127, 1023 */
    double magic;     /* 1.5 * 2^mantissa: adding and subtracting it rounds to nearest even */
    double exp_low;   /* below: exp is flushed to 0 (its result would be denormal) */
    double exp_high;  /* above: exp overflows */
    double sinh_high; /* above: sinh and cosh overflow; a little more than that */
    double one_part;  /* expm1(-x), tanh(x / 2): beyond this the result rounds to -1, 1 */
    double min_normal;
    NstMathTableId exp_table, ln2_table, asin_table, pio2_table;
} NstMathBuild;

typedef const NstMathBuild *B;

/* Constants of any type, an operation of scalar.def, its result type, type changes. */
E nst_math_float(B b, NstDtype type, double value);
E nst_math_int(B b, NstDtype type, int64_t value);
E nst_math_op(B b, NstScalarOp op, E x, E y, E z);
NstDtype nst_math_type(B b, E x);
E nst_math_convert(B b, NstDtype type, E x);
E nst_math_bitcast(B b, NstDtype type, E x);

/* Constants: of the float type, of its integer twin. */
static inline E num(B b, double value)
{
    return nst_math_float(b, b->type, value);
}
static inline E bits_num(B b, int64_t value)
{
    return nst_math_int(b, b->bits, value);
}

static inline E op1(B b, NstScalarOp op, E x)
{
    return nst_math_op(b, op, x, (E){0}, (E){0});
}
static inline E op2(B b, NstScalarOp op, E x, E y)
{
    return nst_math_op(b, op, x, y, (E){0});
}
static inline E add(B b, E x, E y)
{
    return op2(b, NST_OP_ADD, x, y);
}
static inline E sub(B b, E x, E y)
{
    return op2(b, NST_OP_SUB, x, y);
}
static inline E mul(B b, E x, E y)
{
    return op2(b, NST_OP_MUL, x, y);
}
static inline E quotient(B b, E x, E y)
{
    return op2(b, NST_OP_DIV, x, y);
}
/* x * y + z */
static inline E fused(B b, E x, E y, E z)
{
    return nst_math_op(b, NST_OP_FMA, x, y, z);
}
static inline E less(B b, E x, E y)
{
    return op2(b, NST_OP_LT, x, y);
}
static inline E choose(B b, E condition, E yes, E no)
{
    return nst_math_op(b, NST_OP_SELECT, condition, yes, no);
}
static inline E magnitude(B b, E x)
{
    return op1(b, NST_OP_ABS, x);
}
static inline E to_bits(B b, E x)
{
    return nst_math_bitcast(b, b->bits, x);
}
static inline E from_bits(B b, E x)
{
    return nst_math_bitcast(b, b->type, x);
}
static inline E shift_left(B b, E x, int count)
{
    return op2(b, NST_OP_SHL, x, nst_math_int(b, nst_math_type(b, x), count));
}
/* Not the MIN and MAX of scalar.def: a NaN in x stays, the order of zeros does not matter.  One instruction on x86. */
static inline E at_most(B b, E x, double limit)
{
    E most = num(b, limit);
    return choose(b, less(b, most, x), most, x);
}
static inline E at_least(B b, E x, double limit)
{
    E least = num(b, limit);
    return choose(b, less(b, x, least), least, x);
}

/* factor * sum of table[k] (scale x)^k by Horner's rule; scale and factor powers of two or their negatives: they go into
 * the coefficients and change no rounding. */
E nst_math_poly(B b, NstMathTableId table, E x, double scale, double factor);

/* y with its sign bit set where x's is: the sign of an odd function, also of its zeros. */
E nst_math_or_sign(B b, E y, E x);

/* The families: expansions of one op on x (and y) of type b->type. */
E nst_math_expand_exp(B b, NstScalarOp op, E x);    /* math_exp.c: exp expm1 sigmoid tanh sinh cosh erf */
E nst_math_expand_log(B b, NstScalarOp op, E x);    /* math_log.c: log log1p asinh acosh atanh */
E nst_math_expand_circle(B b, NstScalarOp op, E x); /* math_circle.c: sin cos tan asin acos atan */
E nst_math_expand_pow(B b, E x, E y);               /* math_pow.c */

/* The constants of F32 or F64, to build or evaluate where `like` does. */
NstMathBuild nst_math_build(B like, NstDtype type);

#endif
