/* test_scalar.c: every operation of scalar.def on every type it takes, over special values, against
 * expectations that are computed another way: integers with 128-bit arithmetic and floored division by
 * definition, floats with the compiler's own arithmetic and the rules for NaN and zeros written out. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "ir/expr.h"

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 UWide;

static const NstDtype int_types[] = {NST_I8, NST_I16, NST_I32, NST_I64, NST_U8, NST_U16, NST_U32, NST_U64};
#define N_INT_TYPES (sizeof int_types / sizeof *int_types)

static int bits_of(NstDtype type)
{
    return nst_dtype_info(type)->bits;
}

static Wide two_to(int n)
{
    return (Wide)1 << n;
}

/* Mathematical value of a held integer. */
static Wide wide(NstDtype type, int64_t held)
{
    return nst_dtype_is_signed(type) ? (Wide)held : (Wide)(uint64_t)held;
}

/* Wraps a mathematical value into the type, by the definition of modulo. */
static Wide wrapped(NstDtype type, Wide value)
{
    Wide span = two_to(bits_of(type));
    value %= span;
    if (value < 0) value += span;
    if (nst_dtype_is_signed(type) && value >= span / 2) value -= span;
    return value;
}

static int special_ints(NstDtype type, int64_t *out)
{
    static const int64_t some[] = {0,  1,  2,   3,   5,   7,   8,  9,  15, 16, 31, 32,   33,  63,
                                   64, 65, 100, 127, 128, 255, -1, -2, -3, -7, -8, -100, -128};
    int n = 0;
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) out[n++] = (int64_t)wrapped(type, some[k]);
    Wide span = two_to(bits_of(type));
    Wide low = nst_dtype_is_signed(type) ? -span / 2 : 0, high = nst_dtype_is_signed(type) ? span / 2 - 1 : span - 1;
    const Wide edge[] = {low, low + 1, high, high - 1, high / 2, high / 2 + 1, high / 3};
    for (size_t k = 0; k < sizeof edge / sizeof *edge; k++) out[n++] = (int64_t)edge[k];
    return n;
}

static Wide floor_div(Wide a, Wide b)
{
    Wide q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

/* Unsigned pattern of a value. */
static Wide pattern(NstDtype type, Wide value)
{
    Wide span = two_to(bits_of(type));
    value %= span;
    return value < 0 ? value + span : value;
}

static Wide bitwise(NstScalarOp op, Wide a, Wide b, int bits)
{
    Wide result = 0;
    for (int k = 0; k < bits; k++) {
        int x = (int)(a >> k & 1), y = (int)(b >> k & 1);
        int bit = op == NST_OP_AND ? x && y : op == NST_OP_OR ? x || y : x != y;
        result += bit ? two_to(k) : 0;
    }
    return result;
}

static Wide expected_int(NstScalarOp op, NstDtype type, Wide a, Wide b)
{
    int bits = bits_of(type);
    Wide count = pattern(type, b);
    switch (op) {
    case NST_OP_ADD: return a + b;
    case NST_OP_SUB: return a - b;
    case NST_OP_MUL: return (Wide)((UWide)pattern(type, a) * (UWide)pattern(type, b) % (UWide)two_to(bits));
    case NST_OP_DIV: return b == 0 ? 0 : a / b;
    case NST_OP_FLOORDIV: return b == 0 ? 0 : floor_div(a, b);
    case NST_OP_MOD: return b == 0 ? a : a - floor_div(a, b) * b;
    case NST_OP_REM: return b == 0 ? a : a - a / b * b;
    case NST_OP_NEG: return -a;
    case NST_OP_ABS: return a < 0 ? -a : a;
    case NST_OP_MIN: return a < b ? a : b;
    case NST_OP_MAX: return a > b ? a : b;
    case NST_OP_AND:
    case NST_OP_OR:
    case NST_OP_XOR: return bitwise(op, pattern(type, a), pattern(type, b), bits);
    case NST_OP_NOT: return -a - 1;
    case NST_OP_SHL: return count >= bits ? 0 : pattern(type, a) * two_to((int)count % 64);
    case NST_OP_SHR: return count >= bits ? 0 : pattern(type, a) / two_to((int)count);
    case NST_OP_SAR: {
        Wide negative = pattern(type, a) >= two_to(bits - 1);
        Wide value = negative ? pattern(type, a) - two_to(bits) : pattern(type, a);
        return floor_div(value, two_to(count >= bits ? bits : (int)count));
    }
    default: cr_assert(false, "no expectation for %s", nst_scalar_info(op)->text);
    }
    return 0;
}

static bool expected_compare(NstScalarOp op, int order)
{
    switch (op) {
    case NST_OP_EQ: return order == 0;
    case NST_OP_NE: return order != 0;
    case NST_OP_LT: return order < 0;
    case NST_OP_LE: return order <= 0;
    case NST_OP_GT: return order > 0;
    default: return order >= 0;
    }
}

static NstScalar eval1(NstScalarOp op, NstDtype type, NstDtype from, NstScalar a)
{
    return nst_scalar_eval(op, type, from, &a, true);
}

static NstScalar eval2(NstScalarOp op, NstDtype type, NstDtype from, NstScalar a, NstScalar b)
{
    const NstScalar arg[2] = {a, b};
    return nst_scalar_eval(op, type, from, arg, true);
}

static void check_int_op(NstScalarOp op, NstDtype type)
{
    int64_t value[64];
    int n = special_ints(type, value), arity = nst_scalar_info(op)->arity;
    bool compare = nst_scalar_info(op)->rule == NST_RULE_COMPARE;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            Wide a = wide(type, value[i]), b = wide(type, value[j]);
            NstScalar x = {.i = value[i]}, y = {.i = value[j]};
            if (compare) {
                bool got = eval2(op, NST_BOOL, type, x, y).i;
                cr_assert_eq(got, expected_compare(op, a < b ? -1 : a > b), "%s %s", nst_scalar_info(op)->text,
                             nst_dtype_info(type)->name);
                continue;
            }
            int64_t got = arity == 1 ? eval1(op, type, type, x).i : eval2(op, type, type, x, y).i;
            int64_t want = (int64_t)wrapped(type, expected_int(op, type, a, b));
            cr_assert_eq(got, want, "%s(%lld, %lld) on %s: got %lld, want %lld", nst_scalar_info(op)->text,
                         (long long)value[i], (long long)value[j], nst_dtype_info(type)->name, (long long)got,
                         (long long)want);
        }
}

Test(scalar, integers_match_128_bit_arithmetic)
{
    for (NstScalarOp op = NST_OP_LET + 1; op < NST_OP_COUNT; op++) {
        NstScalarRule rule = nst_scalar_info(op)->rule;
        if (rule != NST_RULE_NUMBER && rule != NST_RULE_INT && rule != NST_RULE_INT_BOOL && rule != NST_RULE_COMPARE)
            continue;
        for (size_t t = 0; t < N_INT_TYPES; t++) check_int_op(op, int_types[t]);
    }
}

Test(scalar, bools_follow_their_truth_tables)
{
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            NstScalar x = {.i = a}, y = {.i = b};
            cr_assert_eq(eval2(NST_OP_AND, NST_BOOL, NST_BOOL, x, y).i, a && b);
            cr_assert_eq(eval2(NST_OP_OR, NST_BOOL, NST_BOOL, x, y).i, a || b);
            cr_assert_eq(eval2(NST_OP_XOR, NST_BOOL, NST_BOOL, x, y).i, a != b);
            cr_assert_eq(eval1(NST_OP_NOT, NST_BOOL, NST_BOOL, x).i, !a);
            for (NstScalarOp op = NST_OP_EQ; op <= NST_OP_GE; op++)
                cr_assert_eq(eval2(op, NST_BOOL, NST_BOOL, x, y).i, expected_compare(op, a - b));
        }
}

/* -- floats ---------------------------------------------------------------------------------------------------- */

static const double special_floats[] = {0.0,    -0.0,    1,         -1,      0.5,      -0.5,      1.5,          -1.5,
                                        2.5,    -2.5,    3,         -3,      0.1,      1e-3,      7.25,         100,
                                        1e10,   -1e10,   8388607.5, 8388608, 16777216, 16777217,  2147483648.0, 9.3e18,
                                        1.9e19, 1e30,    1e38,      FLT_MAX, -FLT_MAX, FLT_MIN,   -FLT_MIN,     1e-40,
                                        -1e-45, DBL_MAX, DBL_MIN,   5e-324,  INFINITY, -INFINITY, NAN};
#define N_FLOATS (sizeof special_floats / sizeof *special_floats)

static bool same_float(double a, double b)
{
    return a != a ? b != b : a == b && signbit(a) == signbit(b);
}

/* floor, ceil, trunc and round to even by cases. */
static double expected_integral(NstScalarOp op, double a)
{
    if (!isfinite(a) || fabs(a) >= 4503599627370496.0) return a;
    double down = (double)(int64_t)a; /* towards zero */
    double rest = a - down, step = a < 0 ? -1 : 1, result = down;
    if (op == NST_OP_FLOOR && rest < 0) result = down - 1;
    if (op == NST_OP_CEIL && rest > 0) result = down + 1;
    if (op == NST_OP_ROUND && (fabs(rest) > 0.5 || (fabs(rest) == 0.5 && (int64_t)down % 2 != 0))) result = down + step;
    return copysign(result, a);
}

static double expected_mod(double a, double b, bool single)
{
    double rest = fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0)) return single ? (double)((float)rest + (float)b) : rest + b;
    return rest == 0 ? (signbit(b) ? -0.0 : 0.0) : rest;
}

static double expected_extreme(NstScalarOp op, double a, double b)
{
    if (a != a || b != b) return NAN;
    bool take_a = a < b || (a == b && signbit(a));
    return (op == NST_OP_MIN) == take_a ? a : b;
}

static double expected_sixteenth(double a, bool single)
{
    float narrow = (float)a;
    uint32_t low;
    uint64_t bits;
    memcpy(&low, &narrow, sizeof low);
    memcpy(&bits, &a, sizeof bits);
    double power = exp2((double)((single ? low : (uint32_t)bits) & 15) / 16);
    return single ? (double)(float)power : power;
}

static double expected_float(NstScalarOp op, double a, double b, bool single)
{
    volatile float x = (float)a, y = (float)b;
    volatile double u = a, v = b;
    switch (op) {
    case NST_OP_ADD: return single ? (double)(x + y) : u + v;
    case NST_OP_SUB: return single ? (double)(x - y) : u - v;
    case NST_OP_MUL: return single ? (double)(x * y) : u * v;
    case NST_OP_DIV: return single ? (double)(x / y) : u / v;
    case NST_OP_SQRT: return single ? (double)sqrtf(x) : sqrt(u);
    case NST_OP_SCALE:
        if (isnan(a) || isnan(b)) return NAN;
        if (isinf(b)) return b > 0 ? a * INFINITY : a * 0;
        b = fmax(-3000, fmin(3000, floor(b)));
        return single ? (double)scalbnf(x, (int)b) : scalbn(a, (int)b);
    case NST_OP_SIXTEENTH: return expected_sixteenth(a, single);
    case NST_OP_MOD: return expected_mod(a, b, single);
    case NST_OP_REM: return fmod(a, b);
    case NST_OP_NEG: return -a;
    case NST_OP_ABS: return a < 0 || signbit(a) ? -a : a;
    case NST_OP_MIN:
    case NST_OP_MAX: return expected_extreme(op, a, b);
    default: return expected_integral(op, a);
    }
}

static double in_type(NstDtype type, double value)
{
    volatile float narrow = (float)value; /* gcc -O2 was seen to drop the rounding of a denormal */
    return type == NST_F32 ? (double)narrow : value;
}

static void check_float_op(NstScalarOp op, NstDtype type)
{
    const NstScalarInfo *info = nst_scalar_info(op);
    for (size_t i = 0; i < N_FLOATS; i++)
        for (size_t j = 0; j < N_FLOATS; j++) {
            NstScalar a = {.f = in_type(type, special_floats[i])}, b = {.f = in_type(type, special_floats[j])};
            if (info->rule == NST_RULE_COMPARE) {
                bool ordered = a.f == a.f && b.f == b.f;
                bool want = ordered ? expected_compare(op, a.f < b.f ? -1 : a.f > b.f) : op == NST_OP_NE;
                cr_assert_eq((bool)eval2(op, NST_BOOL, type, a, b).i, want);
                continue;
            }
            double got = info->arity == 1 ? eval1(op, type, type, a).f : eval2(op, type, type, a, b).f;
            double want = expected_float(op, a.f, b.f, type == NST_F32);
            cr_assert(same_float(got, want), "%s(%a, %a) on %s: got %a, want %a", info->text, a.f, b.f,
                      nst_dtype_info(type)->name, got, want);
        }
}

Test(scalar, floats_match_the_compilers_arithmetic)
{
    for (NstScalarOp op = NST_OP_LET + 1; op < NST_OP_COUNT; op++) {
        const NstScalarInfo *info = nst_scalar_info(op);
        bool float_rule =
            info->rule == NST_RULE_NUMBER || info->rule == NST_RULE_COMPARE || info->rule == NST_RULE_FLOAT;
        if (!float_rule || info->expanded || op == NST_OP_FMA) continue;
        check_float_op(op, NST_F32);
        check_float_op(op, NST_F64);
    }
}

Test(scalar, fma_rounds_once_or_twice_as_the_target_does)
{
    const NstScalar a = {.f = 1.0 + 0x1p-12}, c = {.f = -1.0 - 0x1p-11}, arg[3] = {a, a, c};
    cr_assert_eq(nst_scalar_eval(NST_OP_FMA, NST_F32, NST_F32, arg, true).f, 0x1p-24);
    cr_assert_eq(nst_scalar_eval(NST_OP_FMA, NST_F32, NST_F32, arg, false).f, 0);
    const NstScalar wide_a = {.f = 1.0 + 0x1p-27}, wide_c = {.f = -1.0 - 0x1p-26},
                    wide_arg[3] = {wide_a, wide_a, wide_c};
    cr_assert_eq(nst_scalar_eval(NST_OP_FMA, NST_F64, NST_F64, wide_arg, true).f, 0x1p-54);
    cr_assert_eq(nst_scalar_eval(NST_OP_FMA, NST_F64, NST_F64, wide_arg, false).f, 0);
}

Test(scalar, tests_and_select)
{
    const NstScalar nan_value = {.f = NAN}, inf_value = {.f = -INFINITY}, one = {.f = 1};
    cr_assert_eq(eval1(NST_OP_ISNAN, NST_BOOL, NST_F32, nan_value).i, 1);
    cr_assert_eq(eval1(NST_OP_ISNAN, NST_BOOL, NST_F32, inf_value).i, 0);
    cr_assert_eq(eval1(NST_OP_ISINF, NST_BOOL, NST_F64, inf_value).i, 1);
    cr_assert_eq(eval1(NST_OP_ISINF, NST_BOOL, NST_F64, nan_value).i, 0);
    const NstScalar arg[3] = {{.i = 1}, one, nan_value}, other[3] = {{.i = 0}, one, nan_value};
    cr_assert_eq(nst_scalar_eval(NST_OP_SELECT, NST_F32, NST_F32, arg, true).f, 1);
    cr_assert(isnan(nst_scalar_eval(NST_OP_SELECT, NST_F32, NST_F32, other, true).f));
}

Test(scalar, packed_dots_wrap)
{
    const NstScalar arg[3] = {{.i = INT32_MAX}, {.i = (int32_t)0xff0201ffu}, {.i = (int32_t)0x80ff7f80u}};
    /* u8 lanes 255 1 2 255, s8 lanes -128 127 -1 -128 */
    int64_t sum = INT64_C(2147483647) + 255 * -128 + 127 - 2 + 255 * -128;
    cr_assert_eq(nst_scalar_eval(NST_OP_DOT4_U8S8, NST_I32, NST_I32, arg, true).i, sum);
    const NstScalar zero[3] = {{.i = 0}, arg[1], arg[2]}; /* as s8: -1 1 2 -1; as u8: 128 127 255 128 */
    cr_assert_eq(nst_scalar_eval(NST_OP_DOT4_S8S8, NST_I32, NST_I32, zero, true).i, 128 + 127 - 2 + 128);
    cr_assert_eq(nst_scalar_eval(NST_OP_DOT4_U8U8, NST_I32, NST_I32, zero, true).i, 255 * 128 + 127 + 510 + 255 * 128);
    cr_assert_eq(nst_scalar_eval(NST_OP_DOT4_S8U8, NST_I32, NST_I32, zero, true).i, -128 + 127 + 510 - 128);
    for (int op = NST_OP_DOT4_U8S8; op <= NST_OP_DOT2_S16; op++) {
        NstDotLanes lanes = nst_scalar_dot_lanes((NstScalarOp)op);
        cr_assert_eq((int)nst_scalar_dot_of(lanes.b, lanes.c), op);
    }
    cr_assert_eq(nst_scalar_dot_of(NST_F32, NST_F32), NST_OP_NONE);
    const NstScalar wrap[3] = {{.i = INT32_MAX}, {.i = INT32_MIN}, {.i = INT32_MIN}}; /* lanes 0 and -32768 */
    cr_assert_eq(nst_scalar_eval(NST_OP_DOT2_S16, NST_I32, NST_I32, wrap, true).i,
                 (int64_t)wrapped(NST_I32, (Wide)INT32_MAX + 1073741824));
}

/* -- conversions ----------------------------------------------------------------------------------------------- */

static Wide clamped(NstDtype type, Wide value)
{
    Wide span = two_to(bits_of(type));
    Wide low = nst_dtype_is_signed(type) ? -span / 2 : 0, high = nst_dtype_is_signed(type) ? span / 2 - 1 : span - 1;
    return value < low ? low : value > high ? high : value;
}

static const NstDtype all_ints[] = {NST_I8,  NST_I16, NST_I32, NST_I64, NST_U8, NST_U16,
                                    NST_U32, NST_U64, NST_I4,  NST_U4,  NST_I2, NST_U2};
#define N_ALL_INTS (sizeof all_ints / sizeof *all_ints)

Test(scalar, ints_convert_by_wrap_or_clamp)
{
    for (size_t s = 0; s < N_ALL_INTS; s++)
        for (size_t t = 0; t < N_ALL_INTS; t++) {
            NstDtype from = all_ints[s], to = all_ints[t];
            int64_t value[64];
            int n = special_ints(from, value);
            for (int i = 0; i < n; i++) {
                Wide v = wide(from, value[i]);
                cr_assert_eq(nst_scalar_convert(to, from, (NstScalar){.i = value[i]}, false).i,
                             (int64_t)wrapped(to, v));
                cr_assert_eq(nst_scalar_convert(to, from, (NstScalar){.i = value[i]}, true).i, (int64_t)clamped(to, v));
                cr_assert_eq(nst_scalar_convert(NST_BOOL, from, (NstScalar){.i = value[i]}, false).i, v != 0);
            }
        }
}

Test(scalar, floats_convert_to_ints_by_truncation_and_saturation)
{
    for (size_t t = 0; t < N_ALL_INTS; t++)
        for (size_t i = 0; i < N_FLOATS; i++) {
            double value = special_floats[i];
            Wide want = value != value  ? 0
                        : value > 1e25  ? clamped(all_ints[t], two_to(100))
                        : value < -1e25 ? clamped(all_ints[t], -two_to(100))
                                        : clamped(all_ints[t], (Wide)value);
            cr_assert_eq(nst_scalar_convert(all_ints[t], NST_F64, (NstScalar){.f = value}, false).i, (int64_t)want,
                         "%a to %s", value, nst_dtype_info(all_ints[t])->name);
        }
    cr_assert_eq(nst_scalar_convert(NST_BOOL, NST_F32, (NstScalar){.f = NAN}, false).i, 1);
    cr_assert_eq(nst_scalar_convert(NST_BOOL, NST_F32, (NstScalar){.f = -0.0}, false).i, 0);
    cr_assert_eq(nst_scalar_convert(NST_BOOL, NST_F64, (NstScalar){.f = 5e-324}, false).i, 1);
}

Test(scalar, ints_convert_to_floats_with_one_rounding)
{
    cr_assert_eq(nst_scalar_convert(NST_F32, NST_I64, (NstScalar){.i = INT64_C(0x40000040000001)}, false).f,
                 0x1.000002p54);
    cr_assert_eq(nst_scalar_convert(NST_F32, NST_I32, (NstScalar){.i = 16777217}, false).f, 16777216);
    cr_assert_eq(nst_scalar_convert(NST_F64, NST_U64, (NstScalar){.i = -1}, false).f, 18446744073709551616.0);
    cr_assert_eq(nst_scalar_convert(NST_F32, NST_U64, (NstScalar){.i = -1}, false).f, 18446744073709551616.0);
    cr_assert_eq(nst_scalar_convert(NST_F32, NST_I64, (NstScalar){.i = INT64_MIN}, false).f, -9223372036854775808.0);
    cr_assert_eq(nst_scalar_convert(NST_F16, NST_I32, (NstScalar){.i = 65519}, false).i, 0x7bff);
    cr_assert_eq(nst_scalar_convert(NST_F16, NST_I32, (NstScalar){.i = 65520}, false).i, 0x7c00);
    cr_assert_eq(nst_scalar_convert(NST_F32, NST_BOOL, (NstScalar){.i = 1}, false).f, 1);
}

Test(scalar, narrow_floats_convert_with_one_rounding)
{
    /* just above the midpoint of two f16, by less than f32 holds: through f32 it would round to even, down */
    double above = 1 + 0x1p-11 + 0x1p-40;
    cr_assert_eq(nst_scalar_convert(NST_F16, NST_F64, (NstScalar){.f = above}, false).i, 0x3c01);
    cr_assert_eq(nst_scalar_convert(NST_F64, NST_F16, (NstScalar){.i = 0x3c01}, false).f, 1 + 0x1p-10);
    cr_assert_eq(nst_scalar_convert(NST_BF16, NST_F16, (NstScalar){.i = 0x3c01}, false).i, 0x3f80);
    cr_assert_eq(nst_scalar_convert(NST_F32, NST_BF16, (NstScalar){.i = 0xff80}, false).f, -INFINITY);
    cr_assert_eq(nst_scalar_convert(NST_I8, NST_F16, (NstScalar){.i = 0xfc00}, false).i, -128);
    cr_assert_eq(nst_scalar_convert(NST_F32, NST_F64, (NstScalar){.f = DBL_MAX}, false).f, INFINITY);
}

Test(scalar, exact_conversions_keep_every_value)
{
    for (NstDtype from = 1; from < NST_DTYPE_COUNT; from++)
        for (NstDtype to = 1; to < NST_DTYPE_COUNT; to++) {
            const NstDtypeInfo *info = nst_dtype_info(from);
            if (from == to || info->bits > 16 || !nst_scalar_convert_is_exact(to, from)) continue;
            for (uint64_t bits = 0; bits < UINT64_C(1) << info->bits; bits++) {
                NstScalar value = nst_scalar_normal(from, (NstScalar){.bits = bits});
                NstScalar there = nst_scalar_convert(to, from, value, false);
                NstScalar back = nst_scalar_convert(from, to, there, false);
                bool is_nan = nst_dtype_is_float(from) && isnan(nst_scalar_convert(NST_F64, from, value, false).f);
                cr_assert(is_nan || back.bits == value.bits, "%s to %s", info->name, nst_dtype_info(to)->name);
            }
        }
    cr_assert(!nst_scalar_convert_is_exact(NST_F32, NST_I32) && nst_scalar_convert_is_exact(NST_F64, NST_I32));
    cr_assert(!nst_scalar_convert_is_exact(NST_U64, NST_I8) && nst_scalar_convert_is_exact(NST_I64, NST_U32));
    cr_assert(!nst_scalar_convert_is_exact(NST_F16, NST_BF16) && !nst_scalar_convert_is_exact(NST_F32, NST_F64));
}

/* -- memory ---------------------------------------------------------------------------------------------------- */

Test(scalar, load_and_store_keep_every_bit)
{
    static const uint64_t patterns[] = {0,
                                        1,
                                        0x7f,
                                        0x80,
                                        0xff,
                                        0x7c01,
                                        0x7f800001,
                                        0xffbfffff,
                                        0x7fc00000,
                                        0x80000000,
                                        UINT64_C(0x7ff0000000000001),
                                        UINT64_C(0xfff8000000000000),
                                        UINT64_C(0xffffffffffffffff),
                                        UINT64_C(0x8000000000000000),
                                        UINT64_C(0x0123456789abcdef)};
    for (NstDtype type = 1; type < NST_DTYPE_COUNT; type++) {
        const NstDtypeInfo *info = nst_dtype_info(type);
        if (info->bytes > 8 || info->bits < 8 || type == NST_BOOL) continue;
        for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
            unsigned char before[8], after[8];
            memcpy(before, &patterns[k], 8);
            memcpy(after, &patterns[k], 8);
            memset(after, 0x55, (size_t)info->bytes);
            nst_scalar_store(type, after, nst_scalar_load(type, before));
            cr_assert_eq(memcmp(before, after, 8), 0, "%s pattern %zu", info->name, k);
        }
    }
    unsigned char two = 2, out;
    nst_scalar_store(NST_BOOL, &out, nst_scalar_load(NST_BOOL, &two));
    cr_assert_eq(out, 1);
    unsigned char nibble = 0x0f;
    cr_assert_eq(nst_scalar_load(NST_I4, &nibble).i, -1);
    cr_assert_eq(nst_scalar_load(NST_U4, &nibble).i, 15);
}

Test(scalar, bitcast_moves_bits)
{
    NstScalar snan = eval1(NST_OP_BITCAST, NST_F32, NST_U32, (NstScalar){.i = 0x7fa00001});
    cr_assert(isnan(snan.f));
    cr_assert_eq(eval1(NST_OP_BITCAST, NST_U32, NST_F32, snan).i, 0x7fa00001);
    cr_assert_eq(eval1(NST_OP_BITCAST, NST_U32, NST_F32, eval1(NST_OP_NEG, NST_F32, NST_F32, snan)).i, 0xffa00001);
    cr_assert_eq(eval1(NST_OP_BITCAST, NST_I32, NST_F32, (NstScalar){.f = -0.0}).i, INT32_MIN);
    cr_assert_eq(eval1(NST_OP_BITCAST, NST_F64, NST_I64, (NstScalar){.i = INT64_MIN}).bits, UINT64_C(1) << 63);
    cr_assert_eq(eval1(NST_OP_BITCAST, NST_U16, NST_F16, (NstScalar){.i = 0x3c00}).i, 0x3c00);
    cr_assert_eq(eval1(NST_OP_BITCAST, NST_I16, NST_BF16, (NstScalar){.i = 0xff80}).i, -128);
}

/* -- types ----------------------------------------------------------------------------------------------------- */

Test(scalar, results_follow_the_rules)
{
    const NstDtype f[3] = {NST_F32, NST_F32, NST_F32}, h[3] = {NST_F16, NST_F16, NST_F16},
                   i[3] = {NST_I32, NST_I32, NST_I32};
    const NstDtype b[3] = {NST_BOOL, NST_BOOL, NST_BOOL}, mixed[3] = {NST_F32, NST_F64, NST_F32},
                   choose[3] = {NST_BOOL, NST_STR, NST_STR};
    cr_assert_eq(nst_scalar_result(NST_OP_ADD, f, 2), NST_F32);
    cr_assert_eq(nst_scalar_result(NST_OP_ADD, h, 2), NST_DTYPE_NONE);
    cr_assert_eq(nst_scalar_result(NST_OP_ADD, b, 2), NST_DTYPE_NONE);
    cr_assert_eq(nst_scalar_result(NST_OP_ADD, mixed, 2), NST_DTYPE_NONE);
    cr_assert_eq(nst_scalar_result(NST_OP_ADD, f, 1), NST_DTYPE_NONE);
    cr_assert_eq(nst_scalar_result(NST_OP_LT, i, 2), NST_BOOL);
    cr_assert_eq(nst_scalar_result(NST_OP_EQ, b, 2), NST_BOOL);
    cr_assert_eq(nst_scalar_result(NST_OP_ISNAN, i, 1), NST_DTYPE_NONE);
    cr_assert_eq(nst_scalar_result(NST_OP_EXP, i, 1), NST_DTYPE_NONE);
    cr_assert_eq(nst_scalar_result(NST_OP_EXP, f, 1), NST_F32);
    cr_assert_eq(nst_scalar_result(NST_OP_AND, b, 2), NST_BOOL);
    cr_assert_eq(nst_scalar_result(NST_OP_AND, f, 2), NST_DTYPE_NONE);
    cr_assert_eq(nst_scalar_result(NST_OP_SELECT, choose, 3), NST_STR);
    cr_assert_eq(nst_scalar_result(NST_OP_SELECT, i, 3), NST_DTYPE_NONE);
    cr_assert_eq(nst_scalar_result(NST_OP_DOT4_U8S8, i, 3), NST_I32);
    cr_assert(nst_scalar_can_convert(NST_F8E4M3FN, NST_BOOL) && !nst_scalar_can_convert(NST_STR, NST_I64));
    cr_assert(nst_scalar_can_bitcast(NST_F16, NST_I16) && !nst_scalar_can_bitcast(NST_F32, NST_I64));
}
