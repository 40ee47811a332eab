/* math_exp.c: exp, expm1, sigmoid, tanh, sinh, cosh and erf.
 *
 * All but erf reduce x = n ln2 + r, |r| <= ln2 / 2, with n from adding and subtracting 1.5 * 2^mantissa: the low bits of
 * that sum are n as an integer, ready to be shifted into an exponent.  ln2 stands in two parts, the first short enough
 * for n * part to be exact, with or without fma.  Erf is an odd polynomial below 1 and 1 - 2^-p(x) above.
 * Branch-free; NaN goes through the arithmetic.  exp of f32 on targets with fma reduces to |r| <= ln2 / 32 instead. */
#include "ir/math_build.h"

/* exp(scale x) = 2^n exp(scale h). */
typedef struct Reduced {
    E sum; /* n + bias shift + magic: its low bits are the integer n + bias shift */
    E h;
} Reduced;

static Reduced reduce(B b, E x, double scale, double shift)
{
    NstMathTable ln2 = nst_math_table(b->ln2_table); /* [0] low part, [1] high part */
    E magic = num(b, b->magic + shift);
    E sum = fused(b, x, num(b, scale * 1.4426950408889634), magic);
    E n = sub(b, sum, magic);
    E h = fused(b, n, num(b, -ln2.coefficient[1] / scale), x);
    return (Reduced){sum, fused(b, n, num(b, -ln2.coefficient[0] / scale), h)};
}

/* exp(scale h): 1 + s h + (s h)^2 q(s h) by Horner's rule. */
static E exp_poly(B b, E h, double scale)
{
    E q = nst_math_poly(b, b->exp_table, h, scale, scale * scale);
    E p = fused(b, q, h, num(b, scale));
    return fused(b, p, h, num(b, 1));
}

/* expm1(scale h) / scale: h + scale h^2 q(scale h), the leading term apart. */
static E expm1_poly(B b, E h, double scale)
{
    E q = nst_math_poly(b, b->exp_table, h, scale, scale);
    return fused(b, mul(b, h, h), q, h);
}

/* 2^n as a number: the reduction had the bias in its shift. */
static E power_of_two(B b, Reduced reduced)
{
    return from_bits(b, shift_left(b, to_bits(b, reduced.sum), b->mantissa));
}

/* x + infinity, that is infinity, where x is above the range of exp, and NaN for NaN; else y. */
static E or_infinity(B b, E x, E y)
{
    E beyond = op1(b, NST_OP_NOT, op2(b, NST_OP_LE, x, num(b, b->exp_high)));
    return choose(b, beyond, add(b, x, num(b, INFINITY)), y);
}

/* f32 with fma: 2^(n/16) exp(h) with |h| <= ln2/32, sixteenths out of a table: a table of 16 is one register of AVX-512, and the
 * polynomial is three degrees shorter.  n/16 comes as a number and, in the sum's low bits, as an integer. */
static E exp_by_sixteenths(B b, E x)
{
    int fraction = b->mantissa - 4;
    NstMathTable ln2 = nst_math_table(b->ln2_table);
    E magic = num(b, ldexp(1.5, fraction));
    E limited = b->form.has_scale ? at_most(b, x, b->exp_high + 0.25) : x; /* SCALE makes infinity of more */
    E sum = fused(b, limited, num(b, 1.4426950408889634), magic);
    E n = sub(b, sum, magic);
    E h = fused(b, n, num(b, -ln2.coefficient[1]), limited);
    h = fused(b, n, num(b, -ln2.coefficient[0]), h);
    E p = mul(b, fused(b, nst_math_poly(b, NST_TABLE_EXP_16TH_F32, h, 1, 1), h, num(b, 1)), h);
    E power = op1(b, NST_OP_SIXTEENTH, sum), y = fused(b, power, p, power);
    E low = less(b, x, num(b, b->exp_low));
    if (b->form.has_scale) return choose(b, low, num(b, 0), op2(b, NST_OP_SCALE, y, n));
    E whole = shift_left(b, op2(b, NST_OP_AND, to_bits(b, sum), bits_num(b, -16)), fraction);
    E scaled = choose(b, low, bits_num(b, 0), op2(b, NST_OP_ADD, to_bits(b, y), whole));
    return or_infinity(b, x, from_bits(b, scaled));
}

static E expand_exp(B b, E x)
{
    if (b->form.has_fma && !b->wide) return exp_by_sixteenths(b, x);
    Reduced reduced = reduce(b, x, 1, 0);
    E p = exp_poly(b, reduced.h, 1);
    E n = shift_left(b, to_bits(b, reduced.sum), b->mantissa);
    /* Both choices follow an operation of their own type, so that masked targets make each of them one instruction. */
    E low = less(b, x, num(b, b->exp_low));
    E scaled = choose(b, low, bits_num(b, 0), op2(b, NST_OP_ADD, to_bits(b, p), n));
    return or_infinity(b, x, from_bits(b, scaled));
}

/* 1 / (1 + exp(-x)); exp in [2^-126, 2^127] by the clamps, below that 0 as exp is. */
static E expand_sigmoid(B b, E x)
{
    Reduced reduced = reduce(b, at_most(b, x, -b->exp_low), -1, b->bias);
    E p = exp_poly(b, reduced.h, -1);
    E y = quotient(b, num(b, 1), fused(b, p, power_of_two(b, reduced), num(b, 1)));
    return choose(b, less(b, x, num(b, b->exp_low)), num(b, 0), y);
}

/* expm1(x) / 2 = s p + (s - 1/2), s = 2^(n-1), so that s never overflows. */
static E expand_expm1(B b, E x)
{
    E clamped = at_least(b, at_most(b, x, b->exp_high + 0.25), -b->one_part);
    Reduced reduced = reduce(b, clamped, 1, b->bias - 1);
    E s = power_of_two(b, reduced);
    E half = fused(b, expm1_poly(b, reduced.h, 1), s, sub(b, s, num(b, 0.5)));
    return nst_math_or_sign(b, add(b, half, half), x);
}

/* e / (e + 2), e = expm1(2 x). */
static E expand_tanh(B b, E x)
{
    E clamped = at_least(b, at_most(b, x, b->one_part / 2 + 1), -b->one_part / 2 - 1);
    Reduced reduced = reduce(b, clamped, 2, b->bias);
    E s = power_of_two(b, reduced);
    E half = expm1_poly(b, reduced.h, 2);
    E e = fused(b, add(b, half, half), s, sub(b, s, num(b, 1)));
    return nst_math_or_sign(b, quotient(b, e, add(b, e, num(b, 2))), x);
}

/* exp(|x|) / 4 from s = 2^(n-2) and p = expm1(r), so that nothing overflows before the result does:
 * sinh = 2 (q + q / (4 q + 1)), q = expm1(|x|) / 4;  cosh = 2 (c + 1 / (16 c)), c = exp(|x|) / 4. */
static E expand_sinh_cosh(B b, E x, bool sine)
{
    E a = at_most(b, magnitude(b, x), b->sinh_high);
    Reduced reduced = reduce(b, a, 1, b->bias - 2);
    E s = power_of_two(b, reduced);
    E p = expm1_poly(b, reduced.h, 1);
    if (!sine) {
        E c = fused(b, p, s, s);
        E sum = add(b, c, quotient(b, num(b, 0.0625), c));
        return add(b, sum, sum);
    }
    E q = fused(b, p, s, sub(b, s, num(b, 0.25)));
    E sum = add(b, q, quotient(b, q, fused(b, q, num(b, 4), num(b, 1))));
    E y = nst_math_or_sign(b, add(b, sum, sum), x);
    E tiny = less(b, magnitude(b, x), num(b, b->wide ? 0x1p-27 : 0x1p-12));
    return choose(b, tiny, x, y);
}

static E expand_erf(B b, E x)
{
    E a = at_most(b, magnitude(b, x), b->wide ? 6.0 : 4.0);
    E square = mul(b, x, x);
    E small =
        fused(b, x, nst_math_poly(b, b->wide ? NST_TABLE_ERF_SMALL_F64 : NST_TABLE_ERF_SMALL_F32, square, 1, 1), x);
    E v = nst_math_poly(b, b->wide ? NST_TABLE_ERF_LARGE_F64 : NST_TABLE_ERF_LARGE_F32, a, 1, 1); /* log2 erfc */
    E magic = num(b, b->magic + b->bias);
    E sum = add(b, v, magic);
    E r = sub(b, v, sub(b, sum, magic));
    E p = nst_math_poly(b, b->wide ? NST_TABLE_EXP2_F64 : NST_TABLE_EXP2_F32, r, 1, -1);
    E s = from_bits(b, shift_left(b, to_bits(b, sum), b->mantissa));
    E large = nst_math_or_sign(b, fused(b, p, s, num(b, 1)), x);
    return choose(b, less(b, a, num(b, 1)), small, large);
}

E nst_math_expand_exp(B b, NstScalarOp op, E x)
{
    switch (op) {
    case NST_OP_EXP: return expand_exp(b, x);
    case NST_OP_EXPM1: return expand_expm1(b, x);
    case NST_OP_SIGMOID: return expand_sigmoid(b, x);
    case NST_OP_TANH: return expand_tanh(b, x);
    case NST_OP_SINH: return expand_sinh_cosh(b, x, true);
    case NST_OP_COSH: return expand_sinh_cosh(b, x, false);
    default: return expand_erf(b, x);
    }
}
