/* math_circle.c: sin, cos, tan, asin, acos, atan.
 *
 * The first three are right over the whole range of the type: x mod pi/2 is taken in integers, as Payne and Hanek
 * describe (Radian Reduction for Trigonometric Functions, SIGNUM 1983).  x = m 2^E times 2/pi, modulo 4, needs only a
 * window of the bits of 2/pi that starts at E: the window is chosen from a table of words by selects on the bits of E,
 * multiplied by m, and gives the quadrant (two bits) and the fraction.  Integers make it independent of fma. */
#include "ir/math_build.h"

enum { MAX_WORDS = 48 };

/* |x| = quadrant * pi/2 + r, |r| <= pi/4 (a little more for the rounding). */
typedef struct Angle {
    E r;        /* float */
    E quadrant; /* integer of b->bits; only its low two bits count */
} Angle;

static E word(B b, NstDtype type, uint64_t value)
{
    return nst_math_int(b, type, (int64_t)value);
}
static E shift_by(B b, NstScalarOp op, E x, int count)
{
    return op2(b, op, x, nst_math_int(b, nst_math_type(b, x), count));
}
static E convert(B b, NstDtype type, E x)
{
    return nst_math_convert(b, type, x);
}

/* Words start / 32 .. + n - 1 of the table, start below 2^bits; type: that of start and of the words. */
static void window(B b, NstMathTableId id, NstDtype type, E start, int bits, int n, E *out)
{
    NstMathTable table = nst_math_table(id);
    E level[MAX_WORDS];
    NST_ASSERT(table.n <= MAX_WORDS);
    for (int k = 0; k < table.n; k++) level[k] = word(b, type, (uint64_t)table.coefficient[k]);
    for (int bit = bits - 1; bit >= 5; bit--) { /* a barrel shifter: 2^(bit - 5) words at a time */
        int step = 1 << (bit - 5), keep = n + step - 1;
        E test = op2(b, NST_OP_NE, op2(b, NST_OP_AND, start, word(b, type, UINT64_C(1) << bit)), word(b, type, 0));
        for (int k = 0; k < keep; k++) level[k] = choose(b, test, level[k + step], level[k]);
    }
    for (int k = 0; k < n; k++) out[k] = level[k];
}

/* f32: x 2/pi mod 4 as a 64-bit fraction of 4: the 24-bit mantissa times 96 bits. */
static Angle reduce_f32(B b, E x)
{
    NstDtype u32 = NST_U32, u64 = NST_U64;
    E bits = op2(b, NST_OP_AND, nst_math_bitcast(b, u32, x), word(b, u32, 0x7fffffff));
    E start = sub(b, shift_by(b, NST_OP_SHR, bits, 23), word(b, u32, 126));
    E m = op2(b, NST_OP_OR, op2(b, NST_OP_AND, bits, word(b, u32, 0x7fffff)), word(b, u32, 0x800000));
    E last = op2(b, NST_OP_EQ, start, word(b, u32, 128)); /* the top binade shares a window with the one below */
    m = choose(b, last, add(b, m, m), m);
    start = choose(b, last, word(b, u32, 127), start);
    E words[4], out[3];
    window(b, NST_TABLE_TWO_OVER_PI_F32, u32, start, 7, 4, words);
    E shift = op2(b, NST_OP_AND, start, word(b, u32, 31)), back = sub(b, word(b, u32, 32), shift);
    for (int k = 0; k < 3; k++)
        out[k] = op2(b, NST_OP_OR, op2(b, NST_OP_SHL, words[k], shift), op2(b, NST_OP_SHR, words[k + 1], back));
    E wide = convert(b, u64, m);
    E sum = shift_by(b, NST_OP_SHL, convert(b, u64, mul(b, m, out[0])), 32);
    sum = add(b, sum, mul(b, wide, convert(b, u64, out[1])));
    sum = add(b, sum, shift_by(b, NST_OP_SHR, mul(b, wide, convert(b, u64, out[2])), 32));
    E quadrant = shift_by(b, NST_OP_SHR, add(b, sum, word(b, u64, UINT64_C(1) << 61)), 62);
    E fraction = nst_math_bitcast(b, NST_I64, shift_by(b, NST_OP_SHL, sum, 2));
    E r = mul(b, convert(b, NST_F64, fraction), nst_math_float(b, NST_F64, 0x1.921fb54442d18p-64));
    return (Angle){convert(b, NST_F32, r), convert(b, NST_I32, quadrant)};
}

static E low_half(B b, E x)
{
    return op2(b, NST_OP_AND, x, word(b, NST_U64, UINT32_MAX));
}
static E high_half(B b, E x)
{
    return shift_by(b, NST_OP_SHR, x, 32);
}

/* f64: the 53-bit mantissa times 160 bits, of which 128 bits of the fraction of 4 are kept, most significant half first. */
static void product_f64(B b, E m, const E *out, E *fraction)
{
    E low = low_half(b, m), high = high_half(b, m), a[4], c[5];
    for (int k = 0; k < 4; k++) a[k] = mul(b, low, out[k]);  /* of weight 2^-32(k + 1) */
    for (int k = 1; k < 5; k++) c[k] = mul(b, high, out[k]); /* of weight 2^-32 k */
    E column[5], carry = word(b, NST_U64, 0);
    for (int k = 4; k >= 1; k--) { /* column k has weight 2^-32 k */
        E sum = add(b, carry, add(b, low_half(b, a[k - 1]), low_half(b, c[k])));
        if (k < 4) sum = add(b, sum, add(b, high_half(b, a[k]), high_half(b, c[k + 1])));
        column[k] = low_half(b, sum);
        carry = high_half(b, sum);
    }
    fraction[0] = op2(b, NST_OP_OR, shift_by(b, NST_OP_SHL, column[1], 32), column[2]);
    fraction[1] = op2(b, NST_OP_OR, shift_by(b, NST_OP_SHL, column[3], 32), column[4]);
}

static Angle reduce_f64(B b, E x)
{
    NstDtype u64 = NST_U64;
    E bits = op2(b, NST_OP_AND, nst_math_bitcast(b, u64, x), word(b, u64, INT64_MAX));
    E start = sub(b, shift_by(b, NST_OP_SHR, bits, 52), word(b, u64, 1022));
    E m = op2(b, NST_OP_AND, bits, word(b, u64, (UINT64_C(1) << 52) - 1));
    m = op2(b, NST_OP_OR, m, word(b, u64, UINT64_C(1) << 52));
    E last = op2(b, NST_OP_EQ, start, word(b, u64, 1024));
    m = choose(b, last, add(b, m, m), m);
    start = choose(b, last, word(b, u64, 1023), start);
    E words[6], out[5], fraction[2];
    window(b, NST_TABLE_TWO_OVER_PI_F64, u64, start, 10, 6, words);
    E shift = op2(b, NST_OP_AND, start, word(b, u64, 31));
    for (int k = 0; k < 5; k++) {
        E pair = op2(b, NST_OP_OR, shift_by(b, NST_OP_SHL, words[k], 32), words[k + 1]);
        out[k] = high_half(b, op2(b, NST_OP_SHL, pair, shift));
    }
    product_f64(b, m, out, fraction);
    E quadrant = shift_by(b, NST_OP_SHR, add(b, fraction[0], word(b, u64, UINT64_C(1) << 61)), 62);
    E upper = op2(b, NST_OP_OR, shift_by(b, NST_OP_SHL, fraction[0], 2), shift_by(b, NST_OP_SHR, fraction[1], 62));
    E lower = shift_by(b, NST_OP_SHR, shift_by(b, NST_OP_SHL, fraction[1], 2), 1);
    /* in units of 2^-64 quadrants: 27 bits, times the short part of pi/2 exact with and without fma, and the rest */
    E rest = op2(b, NST_OP_AND, upper, word(b, u64, (UINT64_C(1) << 37) - 1));
    upper = convert(b, NST_F64, nst_math_bitcast(b, NST_I64, sub(b, upper, rest)));
    rest = convert(b, NST_F64, nst_math_bitcast(b, NST_I64, rest));
    rest = fused(b, convert(b, NST_F64, nst_math_bitcast(b, NST_I64, lower)), num(b, 0x1p-63), rest);
    NstMathTable half_pi = nst_math_table(NST_TABLE_PIO2_SHORT_F64);
    E low = num(b, half_pi.coefficient[0] * 0x1p-64), high = num(b, half_pi.coefficient[1] * 0x1p-64);
    E r = fused(b, upper, high, fused(b, upper, low, mul(b, rest, num(b, 0x1.921fb54442d18p-64))));
    return (Angle){r, nst_math_bitcast(b, NST_I64, quadrant)};
}

/* sin r and cos r, signed for |x|'s quadrant: out[0] is the sine, out[1] the cosine of |x|. */
static void sine_and_cosine(B b, E x, E *out)
{
    E a = magnitude(b, x);
    Angle angle = b->wide ? reduce_f64(b, x) : reduce_f32(b, x);
    E near = less(b, a, num(b, 0.785398));
    E r = choose(b, near, a, angle.r);
    E quadrant = choose(b, near, bits_num(b, 0), angle.quadrant);
    E z = mul(b, r, r);
    E s = fused(b, mul(b, r, z), nst_math_poly(b, b->wide ? NST_TABLE_SIN_F64 : NST_TABLE_SIN_F32, z, 1, 1), r);
    E c = nst_math_poly(b, b->wide ? NST_TABLE_COS_F64 : NST_TABLE_COS_F32, z, 1, 1);
    c = fused(b, fused(b, c, z, num(b, -0.5)), z, num(b, 1));
    E odd = op2(b, NST_OP_NE, op2(b, NST_OP_AND, quadrant, bits_num(b, 1)), bits_num(b, 0));
    for (int k = 0; k < 2; k++) {
        E q = k ? add(b, quadrant, bits_num(b, 1)) : quadrant;
        E sign = shift_left(b, op2(b, NST_OP_AND, q, bits_num(b, 2)), b->wide ? 62 : 30);
        E value = choose(b, odd, k ? s : c, k ? c : s);
        out[k] = from_bits(b, op2(b, NST_OP_XOR, to_bits(b, value), sign));
    }
}

static E expand_circle(B b, NstScalarOp op, E x)
{
    E value[2], y;
    sine_and_cosine(b, x, value);
    if (op == NST_OP_COS)
        y = value[1];
    else
        y = op == NST_OP_SIN ? value[0] : quotient(b, value[0], value[1]);
    if (op != NST_OP_COS) { /* odd: sin |x| times the sign of x */
        E sign = op2(b, NST_OP_AND, to_bits(b, x), to_bits(b, num(b, -0.0)));
        y = from_bits(b, op2(b, NST_OP_XOR, to_bits(b, y), sign));
    }
    return choose(b, less(b, magnitude(b, x), num(b, INFINITY)), y, num(b, NAN));
}

/* p = asin s, s = |x| or beyond 1/2 sqrt((1 - |x|) / 2): asin |x| = pi/2 - 2 p there. */
static E expand_arc(B b, NstScalarOp op, E x)
{
    NstMathTable half_pi = nst_math_table(b->pio2_table); /* [0] low part, [1] high part */
    E low = num(b, half_pi.coefficient[0]), high = num(b, half_pi.coefficient[1]);
    E a = magnitude(b, x), big = less(b, num(b, 0.5), a);
    E z = choose(b, big, mul(b, sub(b, num(b, 1), a), num(b, 0.5)), mul(b, a, a));
    E s = choose(b, big, op1(b, NST_OP_SQRT, z), a);
    E p = fused(b, mul(b, s, z), nst_math_poly(b, b->asin_table, z, 1, 1), s);
    if (op == NST_OP_ASIN) {
        E y = choose(b, big, add(b, fused(b, p, num(b, -2), low), high), p);
        return nst_math_or_sign(b, y, x);
    }
    E negative = less(b, x, num(b, 0));
    E base = choose(b, negative, num(b, 2 * half_pi.coefficient[1]), num(b, 0));
    E rest = choose(b, negative, num(b, 2 * half_pi.coefficient[0]), num(b, 0));
    E q = choose(b, negative, op1(b, NST_OP_NEG, p), p);
    E y = fused(b, q, choose(b, big, num(b, 2), num(b, -1)), choose(b, big, rest, low));
    return add(b, y, choose(b, big, base, high));
}

/* f32: one polynomial on [0, 1], pi/2 - atan(1 / a) above.  f64: also pi/4 + atan((a - 1) / (a + 1)) in the middle. */
static E expand_atan(B b, E x)
{
    NstMathTable half_pi = nst_math_table(b->pio2_table);
    E a = magnitude(b, x), one = num(b, 1), t, high, low;
    if (b->wide) {
        E big = less(b, num(b, 2.4142135623730951), a), middle = less(b, num(b, 0.41421356237309503), a);
        E above = choose(b, big, num(b, -1), choose(b, middle, sub(b, a, one), a));
        t = quotient(b, above, choose(b, big, a, choose(b, middle, add(b, a, one), one)));
        high = choose(b, big, num(b, half_pi.coefficient[1]),
                      choose(b, middle, num(b, half_pi.coefficient[1] / 2), num(b, 0)));
        low = choose(b, big, num(b, half_pi.coefficient[0]),
                     choose(b, middle, num(b, half_pi.coefficient[0] / 2), num(b, 0)));
    } else {
        E big = less(b, one, a);
        t = choose(b, big, quotient(b, num(b, -1), a), a);
        high = choose(b, big, num(b, half_pi.coefficient[1]), num(b, 0));
        low = choose(b, big, num(b, half_pi.coefficient[0]), num(b, 0));
    }
    E z = mul(b, t, t);
    E p = nst_math_poly(b, b->wide ? NST_TABLE_ATAN_F64 : NST_TABLE_ATAN_F32, z, 1, 1);
    E y = fused(b, mul(b, t, z), p, low);
    return nst_math_or_sign(b, add(b, add(b, y, t), high), x);
}

E nst_math_expand_circle(B b, NstScalarOp op, E x)
{
    if (op == NST_OP_ATAN) return expand_atan(b, x);
    return op == NST_OP_ASIN || op == NST_OP_ACOS ? expand_arc(b, op, x) : expand_circle(b, op, x);
}
