/* math_log.c: log, log1p, asinh, acosh, atanh.
 *
 * The argument becomes 2^e (1 + f), 2/3 <= 1 + f < 4/3 (f32) or 1/sqrt2 <= 1 + f < sqrt2 (f64), by integer arithmetic on
 * its bits.  f32: f - f^2/2 + f^3 p(f); f64: s = f / (2 + f), f - f^2/2 + s (f^2/2 + s^2 p(s^2)).  ln2 is added in two
 * parts, the first exact times e.  asinh, acosh and atanh are log1p of an argument that does not cancel. */
#include "ir/math_build.h"

/* Bits of 2/3 or 1/sqrt2: where the mantissa's interval begins. */
static E interval_start(B b)
{
    return bits_num(b, b->wide ? INT64_C(0x3fe6a09e667f3bcd) : 0x3f2aaaab);
}

/* log(2^e (1 + f)), e a float. */
static E log_of_parts(B b, E e, E f)
{
    NstMathTable ln2 = nst_math_table(b->ln2_table); /* [0] low part, [1] high part */
    E square = mul(b, f, f), y;
    if (b->wide) {
        E s = quotient(b, f, add(b, f, num(b, 2)));
        E z = mul(b, s, s);
        E half = mul(b, square, num(b, 0.5));
        E p = mul(b, z, nst_math_poly(b, NST_TABLE_LOG_F64, z, 1, 1));
        y = fused(b, e, num(b, ln2.coefficient[0]), mul(b, s, add(b, half, p)));
        y = sub(b, y, half);
    } else {
        E p = nst_math_poly(b, NST_TABLE_LOG_F32, f, 1, 1);
        p = fused(b, p, f, num(b, -0.5));
        y = fused(b, e, num(b, ln2.coefficient[0]), mul(b, p, square));
    }
    return fused(b, e, num(b, ln2.coefficient[1]), add(b, y, f));
}

/* The integer e << mantissa of a positive normal number's bits. */
static E exponent_field(B b, E bits)
{
    E above = sub(b, bits, interval_start(b));
    return op2(b, NST_OP_AND, above, bits_num(b, -(INT64_C(1) << b->mantissa)));
}

static E exponent_number(B b, E field)
{
    E e = op2(b, NST_OP_SAR, field, bits_num(b, b->mantissa));
    return nst_math_convert(b, b->type, e);
}

/* y where 0 < x < infinity; else infinity, at zero `pole`, and NaN below zero and for NaN. */
static E log_domain(B b, E y, E x, E zero)
{
    y = choose(b, less(b, x, num(b, INFINITY)), y, num(b, INFINITY));
    E pole = choose(b, op2(b, NST_OP_EQ, x, zero), num(b, -INFINITY), num(b, NAN));
    return choose(b, less(b, zero, x), y, pole);
}

static E expand_log(B b, E x)
{
    E denormal = less(b, x, num(b, b->min_normal));
    double scale = b->wide ? 0x1p54 : 0x1p25;
    E bits = to_bits(b, choose(b, denormal, mul(b, x, num(b, scale)), x));
    E field = exponent_field(b, bits);
    E f = sub(b, from_bits(b, sub(b, bits, field)), num(b, 1));
    E shift = choose(b, denormal, num(b, b->wide ? -54 : -25), num(b, 0));
    E y = log_of_parts(b, add(b, exponent_number(b, field), shift), f);
    return log_domain(b, y, x, num(b, 0));
}

/* u = 1 + x gives e; f = 2^-e x + (2^-e - 1) has but one rounding.  Where 2^-e may be denormal 1 + x = x, and f comes
 * from the bits of u. */
static E log1p_of(B b, E x)
{
    E bits = to_bits(b, add(b, x, num(b, 1)));
    E field = exponent_field(b, bits);
    E scale = from_bits(b, sub(b, to_bits(b, num(b, 1)), field));
    E f = fused(b, x, scale, sub(b, scale, num(b, 1)));
    E large = sub(b, from_bits(b, sub(b, bits, field)), num(b, 1));
    f = choose(b, less(b, num(b, b->wide ? 0x1p60 : 0x1p30), x), large, f);
    E y = log_of_parts(b, exponent_number(b, field), f);
    return log_domain(b, y, x, num(b, -1));
}

static E expand_asinh(B b, E x)
{
    E a = magnitude(b, x);
    E big = less(b, num(b, b->wide ? 0x1p510 : 0x1p62), a);
    E square = mul(b, a, a);
    E root = op1(b, NST_OP_SQRT, add(b, square, num(b, 1)));
    E argument = add(b, a, quotient(b, square, add(b, root, num(b, 1))));
    E y = log1p_of(b, choose(b, big, a, argument));
    y = add(b, y, choose(b, big, num(b, 0.69314718055994531), num(b, 0)));
    return nst_math_or_sign(b, y, x);
}

static E expand_acosh(B b, E x)
{
    E t = sub(b, x, num(b, 1));
    E big = less(b, num(b, b->wide ? 0x1p510 : 0x1p62), x);
    E root = op1(b, NST_OP_SQRT, mul(b, t, add(b, t, num(b, 2))));
    E y = log1p_of(b, choose(b, big, x, add(b, t, root)));
    y = add(b, y, choose(b, big, num(b, 0.69314718055994531), num(b, 0)));
    return choose(b, less(b, x, num(b, 1)), num(b, NAN), y);
}

static E expand_atanh(B b, E x)
{
    E a = magnitude(b, x);
    E argument = quotient(b, add(b, a, a), sub(b, num(b, 1), a));
    E y = mul(b, log1p_of(b, argument), num(b, 0.5));
    return nst_math_or_sign(b, y, x);
}

E nst_math_expand_log(B b, NstScalarOp op, E x)
{
    switch (op) {
    case NST_OP_LOG: return expand_log(b, x);
    case NST_OP_LOG1P: return nst_math_or_sign(b, log1p_of(b, x), x);
    case NST_OP_ASINH: return expand_asinh(b, x);
    case NST_OP_ACOSH: return expand_acosh(b, x);
    default: return expand_atanh(b, x);
    }
}
