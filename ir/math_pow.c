/* math_pow.c: pow as 2^(y log2 |x|): in f64 for f32; for f64 with the logarithm as a sum of two doubles.
 *
 * Two doubles: products are exact by Dekker's splitting (T. J. Dekker, A floating-point technique for extending the
 * available precision, 1971) with the halves cut by a mask, and never use fma: the same bits on every target. */
#include "ir/math_build.h"

/* The sign and the exceptions of C's pow around `power` = |x|^y, which must be right for x = 0 and infinity. */
static E with_specials(B b, E power, E x, E y)
{
    E zero = num(b, 0), one = num(b, 1), half = mul(b, y, num(b, 0.5));
    E whole = op2(b, NST_OP_EQ, op1(b, NST_OP_TRUNC, y), y);
    E even = op2(b, NST_OP_EQ, op1(b, NST_OP_TRUNC, half), half);
    E odd = op2(b, NST_OP_AND, whole, op1(b, NST_OP_NOT, even));
    E sign = op2(b, NST_OP_AND, to_bits(b, x), to_bits(b, num(b, -0.0)));
    E r = from_bits(b, op2(b, NST_OP_XOR, to_bits(b, power), choose(b, odd, sign, bits_num(b, 0))));
    E inside = op2(b, NST_OP_AND, less(b, x, zero), less(b, num(b, -INFINITY), x));
    r = choose(b, op2(b, NST_OP_AND, inside, op1(b, NST_OP_NOT, whole)), num(b, NAN), r);
    E unit = op2(b, NST_OP_OR, op2(b, NST_OP_EQ, x, one), op2(b, NST_OP_EQ, y, zero));
    return choose(b, unit, one, r);
}

/* log2 of a finite positive number of type f64 that is no denormal, to 2^-36. */
static E log2_short(B d, E x)
{
    E bits = to_bits(d, x);
    E field = op2(d, NST_OP_AND, sub(d, bits, to_bits(d, num(d, 2.0 / 3))), bits_num(d, -(INT64_C(1) << 52)));
    E f = sub(d, from_bits(d, sub(d, bits, field)), num(d, 1));
    E e = nst_math_convert(d, d->type, op2(d, NST_OP_SAR, field, bits_num(d, 52)));
    return fused(d, f, nst_math_poly(d, NST_TABLE_LOG2_POW_F64, f, 1, 1), e);
}

/* f32: in f64, 2^(y log2 |x|), rounded once at the end. */
static E expand_pow_f32(B b, E x, E y)
{
    NstMathBuild wide = nst_math_build(b, NST_F64);
    B d = &wide;
    E a = magnitude(b, x);
    E log = log2_short(d, nst_math_convert(b, NST_F64, a));
    log = choose(d, op2(b, NST_OP_EQ, a, num(b, 0)), num(d, -INFINITY), log);
    log = choose(d, less(b, a, num(b, INFINITY)), log, nst_math_convert(b, NST_F64, a));
    E power = at_least(b, at_most(b, y, 0x1p100), -0x1p100); /* finite, so that log = 0 gives 1; NaN stays */
    E product = mul(d, nst_math_convert(b, NST_F64, power), log);
    product = at_least(d, at_most(d, product, 300), -300);
    E magic = num(d, d->magic + d->bias);
    E sum = add(d, product, magic);
    E p = nst_math_poly(d, NST_TABLE_EXP2_POW_F64, sub(d, product, sub(d, sum, magic)), 1, 1);
    E r = mul(d, p, from_bits(d, shift_left(d, to_bits(d, sum), 52)));
    return with_specials(b, nst_math_convert(b, NST_F32, r), x, y);
}

/* -- f64 --------------------------------------------------------------------------------------------------- */

typedef struct Pair {
    E high, low;
} Pair;

/* a + b exactly, for |a| >= |b| or a = 0. */
static Pair ordered_sum(B b, E x, E y)
{
    E sum = add(b, x, y);
    return (Pair){sum, sub(b, y, sub(b, sum, x))};
}

static Pair halves(B b, E x)
{
    E high = from_bits(b, op2(b, NST_OP_AND, to_bits(b, x), bits_num(b, -(INT64_C(1) << 27))));
    return (Pair){high, sub(b, x, high)};
}

/* x * y exactly. */
static Pair product(B b, E x, E y)
{
    Pair p = halves(b, x), q = halves(b, y);
    E high = mul(b, x, y);
    E rest = sub(b, mul(b, p.high, q.high), high);
    rest = add(b, add(b, rest, mul(b, p.high, q.low)), mul(b, p.low, q.high));
    return (Pair){high, add(b, rest, mul(b, p.low, q.low))};
}

/* x * y, the product of the low parts left out. */
static Pair pair_product(B b, Pair x, Pair y)
{
    Pair p = product(b, x.high, y.high);
    return (Pair){p.high, add(b, p.low, add(b, mul(b, x.high, y.low), mul(b, x.low, y.high)))};
}

/* Constant (a table of two parts) plus a smaller term. */
static Pair constant_plus(B b, NstMathTableId id, Pair term)
{
    NstMathTable table = nst_math_table(id); /* [0] low part, [1] high part */
    Pair sum = ordered_sum(b, num(b, table.coefficient[1]), term.high);
    return (Pair){sum.high, add(b, sum.low, add(b, term.low, num(b, table.coefficient[0])))};
}

/* log2 a, relative error 2^-64; a positive and finite. */
static Pair log2_pair(B b, E a)
{
    E denormal = less(b, a, num(b, b->min_normal));
    E bits = to_bits(b, choose(b, denormal, mul(b, a, num(b, 0x1p54)), a));
    E field =
        op2(b, NST_OP_AND, sub(b, bits, bits_num(b, INT64_C(0x3fe6a09e667f3bcd))), bits_num(b, -(INT64_C(1) << 52)));
    E e = nst_math_convert(b, b->type, op2(b, NST_OP_SAR, field, bits_num(b, 52)));
    e = add(b, e, choose(b, denormal, num(b, -54), num(b, 0)));
    E f = sub(b, from_bits(b, sub(b, bits, field)), num(b, 1));
    Pair below = ordered_sum(b, num(b, 2), f), s, square, whole;
    s.high = quotient(b, f, below.high);
    Pair back = product(b, s.high, below.high);
    E rest = sub(b, sub(b, sub(b, f, back.high), back.low), mul(b, s.high, below.low));
    s.low = quotient(b, rest, below.high);
    square = pair_product(b, s, s);
    E tail = mul(b, square.high, nst_math_poly(b, NST_TABLE_LOG2_TAIL_F64, square.high, 1, 1));
    Pair inner = constant_plus(b, NST_TABLE_TWO_THIRDS_OVER_LN2_F64, (Pair){tail, num(b, 0)});
    inner = constant_plus(b, NST_TABLE_TWO_OVER_LN2_F64, pair_product(b, square, inner));
    inner = pair_product(b, s, inner);
    whole = ordered_sum(b, e, inner.high);
    return (Pair){whole.high, add(b, whole.low, inner.low)};
}

/* 2^(high + low), |low| small; in two steps of scaling, so that denormal results are rounded once. */
static E exp2_pair(B b, Pair t)
{
    E inside = less(b, magnitude(b, t.high), num(b, 1100));
    E high = at_least(b, at_most(b, t.high, 1100), -1100), magic = num(b, b->magic);
    E sum = add(b, high, magic);
    E r = add(b, sub(b, high, sub(b, sum, magic)), choose(b, inside, t.low, num(b, 0)));
    E p = fused(b, nst_math_poly(b, NST_TABLE_EXP2_FULL_F64, r, 1, 1), r, num(b, 1));
    E n = sub(b, to_bits(b, sum), to_bits(b, magic));
    E first = op2(b, NST_OP_SAR, n, bits_num(b, 1)), second = sub(b, n, first);
    p = mul(b, p, from_bits(b, shift_left(b, add(b, first, bits_num(b, b->bias)), 52)));
    return mul(b, p, from_bits(b, shift_left(b, add(b, second, bits_num(b, b->bias)), 52)));
}

static E expand_pow_f64(B b, E x, E y)
{
    E a = magnitude(b, x), zero = op2(b, NST_OP_EQ, a, num(b, 0));
    E power = at_least(b, at_most(b, y, 0x1p70), -0x1p70); /* finite, so that log = 0 gives 1; NaN stays */
    Pair log = log2_pair(b, a), t = product(b, power, log.high);
    t.low = add(b, t.low, mul(b, power, log.low));
    t.high = choose(b, zero, mul(b, power, num(b, -INFINITY)), t.high);
    t.high = choose(b, less(b, a, num(b, INFINITY)), t.high, mul(b, power, a));
    return with_specials(b, exp2_pair(b, t), x, y);
}

E nst_math_expand_pow(B b, E x, E y)
{
    return b->wide ? expand_pow_f64(b, x, y) : expand_pow_f32(b, x, y);
}
