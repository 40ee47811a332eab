/* test_dtype.c: ir/base/dtype.h.  The narrow floats are checked over all their codes against a second, slow definition:
 * decoding by the formula of the format, encoding by search for the nearest code. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "ir/base/dtype.h"

Test(dtype, every_row_is_found_by_name_and_code)
{
    for (int t = 1; t < NST_DTYPE_COUNT; t++) {
        const NstDtypeInfo *info = nst_dtype_info((NstDtype)t);
        cr_assert_eq(nst_dtype_parse(info->name, strlen(info->name)), (NstDtype)t);
        cr_assert_eq(nst_dtype_from_onnx(info->onnx), (NstDtype)t);
        cr_assert(info->bits <= 8 * info->bytes);
        cr_assert_eq(nst_dtype_info(info->compute)->compute, info->compute);
    }
    cr_assert_eq(nst_dtype_parse("f3", 2), NST_DTYPE_NONE);
    cr_assert_eq(nst_dtype_parse("f32x", 4), NST_DTYPE_NONE);
    cr_assert_eq(nst_dtype_parse("f32x", 3), NST_F32);
    cr_assert_eq(nst_dtype_from_onnx(0), NST_DTYPE_NONE);
    cr_assert_str_eq(nst_dtype_info(NST_DTYPE_NONE)->name, "none");
}

Test(dtype, classes)
{
    cr_assert(nst_dtype_is_int(NST_I4) && nst_dtype_is_int(NST_U64) && nst_dtype_is_signed(NST_I2));
    cr_assert(!nst_dtype_is_int(NST_BOOL) && !nst_dtype_is_int(NST_F16) && !nst_dtype_is_int(NST_DTYPE_NONE));
    cr_assert(!nst_dtype_is_signed(NST_U8) && !nst_dtype_is_signed(NST_F32));
    cr_assert(nst_dtype_is_float(NST_F8E8M0) && !nst_dtype_is_float(NST_C64));
}

/* What the formats' documents say, apart from dtype.c: bits, mantissa, bias; which codes are infinity and NaN. */
typedef struct Layout {
    NstDtype type;
    int bits, mantissa, bias;
    bool ieee; /* the top exponent is infinity and NaN */
    bool fn;   /* all ones is NaN, no infinity */
    bool fnuz; /* minus zero is NaN, no infinity */
} Layout;

static const Layout layouts[] = {
    {NST_F16, 16, 10, 15, true, false, false},   {NST_BF16, 16, 7, 127, true, false, false},
    {NST_F8E4M3FN, 8, 3, 7, false, true, false}, {NST_F8E4M3FNUZ, 8, 3, 8, false, false, true},
    {NST_F8E5M2, 8, 2, 15, true, false, false},  {NST_F8E5M2FNUZ, 8, 2, 16, false, false, true},
    {NST_F4E2M1, 4, 1, 1, false, false, false},  {NST_F6E2M3, 6, 3, 1, false, false, false},
    {NST_F6E3M2, 6, 2, 3, false, false, false},
};
#define N_LAYOUTS (sizeof layouts / sizeof *layouts)

/* sign * fraction * 2^exponent, special codes as the document lists them. */
static double decode_slowly(const Layout *l, uint32_t code)
{
    uint32_t top = (1u << (l->bits - 1 - l->mantissa)) - 1;
    uint32_t sign = code >> (l->bits - 1), exponent = code >> l->mantissa & top;
    uint32_t fraction = code & ((1u << l->mantissa) - 1);
    double s = sign ? -1 : 1;
    if (l->ieee && exponent == top) return fraction ? (double)NAN : s * (double)INFINITY;
    if (l->fn && exponent == top && fraction == (1u << l->mantissa) - 1) return (double)NAN;
    if (l->fnuz && code == 1u << (l->bits - 1)) return (double)NAN;
    double m = (double)fraction / (double)(1u << l->mantissa);
    return exponent == 0 ? s * m * pow(2, 1 - l->bias) : s * (1 + m) * pow(2, (int)exponent - l->bias);
}

static bool same(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

Test(dtype, every_code_decodes_to_its_formula)
{
    for (size_t i = 0; i < N_LAYOUTS; i++)
        for (uint32_t code = 0; code < 1u << layouts[i].bits; code++) {
            double value = decode_slowly(&layouts[i], code);
            float got = nst_narrow_to_f32(layouts[i].type, code);
            cr_assert(same((double)got, value), "%s 0x%x gives %a, not %a", nst_dtype_info(layouts[i].type)->name, code,
                      (double)got, value);
        }
}

Test(dtype, bits_above_the_type_are_ignored)
{
    cr_assert_eq(nst_narrow_to_f32(NST_F4E2M1, 0xf2), 1.0f);
    cr_assert_eq(nst_narrow_to_f32(NST_F8E4M3FN, 0xff38), 1.0f);
    cr_assert_eq(nst_narrow_to_f32(NST_F16, 0x12343c00), 1.0f);
    cr_assert_eq(nst_narrow_to_f32(NST_F8E8M0, 0xff7f), 1.0f);
}

Test(dtype, every_finite_code_and_infinity_survives_f32)
{
    for (size_t i = 0; i < N_LAYOUTS; i++)
        for (uint32_t code = 0; code < 1u << layouts[i].bits; code++) {
            float value = nst_narrow_to_f32(layouts[i].type, code);
            for (int saturate = 0; saturate < 2; saturate++) {
                uint32_t back = nst_f32_to_narrow(layouts[i].type, value, saturate);
                if (isnan(value)) {
                    cr_assert(isnan(nst_narrow_to_f32(layouts[i].type, back)));
                    cr_assert(layouts[i].fnuz || back >> (layouts[i].bits - 1) == code >> (layouts[i].bits - 1));
                } else if (isinf(value) && saturate && layouts[i].bits == 8) {
                    cr_assert_eq(back, code - 1, "the largest finite value");
                } else {
                    cr_assert_eq(back, code, "%s 0x%x -> %a -> 0x%x", nst_dtype_info(layouts[i].type)->name, code,
                                 (double)value, back);
                }
            }
        }
}

/* The largest finite code, without sign. */
static uint32_t largest_of(const Layout *l)
{
    uint32_t code = (1u << (l->bits - 1)) - 1;
    while (!isfinite(decode_slowly(l, code))) code--;
    return code;
}

/* Between each two neighbours: a hair beside each end, a hair beside the middle, the middle itself (to the even code).
 * Above the largest, the grid goes on: half a step more is a tie that goes to the next, even code, which overflows. */
static void check_between(const Layout *l, uint32_t code, bool top)
{
    double lo = decode_slowly(l, code);
    double hi = top ? lo + (lo - decode_slowly(l, code - 1)) : decode_slowly(l, code + 1);
    double middle = lo + (hi - lo) / 2;
    const double probe[] = {nextafter(lo, hi), nextafter(middle, lo), middle, nextafter(middle, hi), nextafter(hi, lo)};
    for (size_t k = 0; k < sizeof probe / sizeof *probe; k++) {
        bool up = k > 2 || (k == 2 && (code & 1));
        if (top && up) continue; /* overflow has its own test */
        uint32_t want = up ? code + 1 : code, sign = 1u << (l->bits - 1);
        cr_assert_eq(nst_f64_to_narrow(l->type, probe[k], k & 1), want, "%s %a", nst_dtype_info(l->type)->name,
                     probe[k]);
        uint32_t minus = want == 0 && l->fnuz ? 0 : want | sign;
        cr_assert_eq(nst_f64_to_narrow(l->type, -probe[k], k & 1), minus);
        if ((double)(float)probe[k] == probe[k]) cr_assert_eq(nst_f32_to_narrow(l->type, (float)probe[k], true), want);
    }
}

Test(dtype, every_gap_rounds_to_nearest_even)
{
    for (size_t i = 0; i < N_LAYOUTS; i++) {
        uint32_t largest = largest_of(&layouts[i]);
        for (uint32_t code = 0; code < largest; code++) check_between(&layouts[i], code, false);
        check_between(&layouts[i], largest, true);
    }
}

/* Cast-25's tables: columns saturate and not; rows: +-infinity, +-(first value that rounds past the largest), NaN. */
Test(dtype, overflow_follows_the_tables_of_onnx)
{
    static const struct {
        NstDtype type;
        double
            past; /* the least that rounds past the largest: the tie, but after it for e4m3fn, whose largest is even */
        uint32_t saturated, not_saturated;
    } rows[] = {
        {NST_F8E4M3FN, 0x1.d000000000001p8, 0x7e, 0x7f},
        {NST_F8E4M3FNUZ, 248, 0x7f, 0x80},
        {NST_F8E5M2, 61440, 0x7b, 0x7c},
        {NST_F8E5M2FNUZ, 61440, 0x7f, 0x80},
        {NST_F4E2M1, 7, 0x7, 0x7},
        {NST_F6E2M3, 7.75, 0x1f, 0x1f},
        {NST_F6E3M2, 30, 0x1f, 0x1f},
        {NST_F16, 65520, 0x7c00, 0x7c00},
        {NST_BF16, 0x1.ffp127, 0x7f80, 0x7f80},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        NstDtype type = rows[i].type;
        uint32_t sign = 1u << (nst_dtype_info(type)->bits - 1);
        const double probe[] = {rows[i].past, 2 * rows[i].past, 1e300, (double)INFINITY};
        for (size_t k = 0; k < sizeof probe / sizeof *probe; k++) {
            cr_expect_eq(nst_f64_to_narrow(type, probe[k], true), rows[i].saturated);
            cr_expect_eq(nst_f64_to_narrow(type, -probe[k], true), rows[i].saturated | sign);
            cr_expect_eq(nst_f64_to_narrow(type, probe[k], false), rows[i].not_saturated);
            uint32_t minus = rows[i].not_saturated == sign ? sign : rows[i].not_saturated | sign;
            cr_expect_eq(nst_f64_to_narrow(type, -probe[k], false), minus);
        }
        double below = nextafter(rows[i].past, 0);
        cr_expect(isfinite(nst_narrow_to_f32(type, nst_f64_to_narrow(type, below, false))));
    }
}

Test(dtype, nan_and_zero_of_every_format)
{
    static const struct {
        NstDtype type;
        uint32_t nan, minus_nan, minus_zero;
    } rows[] = {
        {NST_F16, 0x7e00, 0xfe00, 0x8000}, {NST_BF16, 0x7fc0, 0xffc0, 0x8000}, {NST_F8E4M3FN, 0x7f, 0xff, 0x80},
        {NST_F8E4M3FNUZ, 0x80, 0x80, 0},   {NST_F8E5M2, 0x7f, 0xff, 0x80},     {NST_F8E5M2FNUZ, 0x80, 0x80, 0},
        {NST_F4E2M1, 0x7, 0x7, 0x8},       {NST_F6E2M3, 0x1f, 0x1f, 0x20},     {NST_F6E3M2, 0x1f, 0x1f, 0x20},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int saturate = 0; saturate < 2; saturate++) {
            float nan = copysignf(NAN, 1);
            cr_expect_eq(nst_f32_to_narrow(rows[i].type, nan, saturate), rows[i].nan);
            cr_expect_eq(nst_f32_to_narrow(rows[i].type, copysignf(nan, -1), saturate), rows[i].minus_nan);
            cr_expect_eq(nst_f32_to_narrow(rows[i].type, 0.0f, saturate), 0);
            cr_expect_eq(nst_f32_to_narrow(rows[i].type, -0.0f, saturate), rows[i].minus_zero);
            cr_expect_eq(nst_f64_to_narrow(rows[i].type, 5e-324, saturate), 0);
            cr_expect_eq(nst_f64_to_narrow(rows[i].type, -5e-324, saturate), rows[i].minus_zero);
        }
}

Test(dtype, f64_is_rounded_once)
{
    /* Just above the tie of 1 and the next f16; through f32 it would become the tie and go down to even. */
    double value = 1 + 0x1p-11 + 0x1p-40;
    cr_assert_eq(nst_f64_to_narrow(NST_F16, value, false), 0x3c01);
    cr_assert_eq(nst_f32_to_narrow(NST_F16, (float)value, false), 0x3c00);
    value = 1 + 0x1p-8 + 0x1p-50;
    cr_assert_eq(nst_f64_to_narrow(NST_BF16, value, false), 0x3f81);
}

Test(dtype, e8m0_is_powers_of_two)
{
    for (uint32_t code = 0; code < 0xff; code++) {
        double value = pow(2, (int)code - 127);
        cr_assert_eq((double)nst_narrow_to_f32(NST_F8E8M0, code), value);
        for (int saturate = 0; saturate < 2; saturate++) {
            cr_assert_eq(nst_f64_to_narrow(NST_F8E8M0, value, saturate), code);
            cr_assert_eq(nst_f64_to_narrow(NST_F8E8M0, nextafter(1.5 * value, 0), saturate), code);
            if (code < 0xfe) cr_assert_eq(nst_f64_to_narrow(NST_F8E8M0, 1.5 * value, saturate), code + 1, "ties up");
        }
    }
    cr_assert(isnan(nst_narrow_to_f32(NST_F8E8M0, 0xff)));
    const double over[] = {0x1.8p127, 0x1p128, 1e300, (double)INFINITY};
    const double under[] = {0x1.8p-128, 0x1p-140, 5e-324, 0, -0.0};
    for (size_t i = 0; i < 4; i++) {
        cr_expect_eq(nst_f64_to_narrow(NST_F8E8M0, over[i], true), 0xfe);
        cr_expect_eq(nst_f64_to_narrow(NST_F8E8M0, over[i], false), 0xff);
    }
    for (size_t i = 0; i < 5; i++) {
        cr_expect_eq(nst_f64_to_narrow(NST_F8E8M0, under[i], true), 0);
        cr_expect_eq(nst_f64_to_narrow(NST_F8E8M0, under[i], false), 0xff);
    }
    cr_expect_eq(nst_f64_to_narrow(NST_F8E8M0, (double)NAN, true), 0xff);
    cr_expect_eq(nst_f64_to_narrow(NST_F8E8M0, -1, true), 0xff);
    cr_expect_eq(nst_f64_to_narrow(NST_F8E8M0, -(double)INFINITY, true), 0xff);
}
