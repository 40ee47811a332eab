/* compare.c: see compare.h. */
#include "tools/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ATOL 1e-7

typedef enum Special {
    SPECIAL_IEEE,    /* the highest exponent is infinity and NaN */
    SPECIAL_ALL_SET, /* NaN is all bits set, no infinity */
    SPECIAL_MINUS_0, /* NaN is what would be -0, no infinity */
    SPECIAL_NONE     /* every pattern is a number */
} Special;

/* How a float narrower than f32 is stored. */
typedef struct Format {
    NstDtype dtype;
    int exponent, mantissa, bias;
    Special special;
} Format;

static const Format formats[] = {{NST_F16, 5, 10, 15, SPECIAL_IEEE},       {NST_BF16, 8, 7, 127, SPECIAL_IEEE},
                                 {NST_F8E4M3FN, 4, 3, 7, SPECIAL_ALL_SET}, {NST_F8E4M3FNUZ, 4, 3, 8, SPECIAL_MINUS_0},
                                 {NST_F8E5M2, 5, 2, 15, SPECIAL_IEEE},     {NST_F8E5M2FNUZ, 5, 2, 16, SPECIAL_MINUS_0},
                                 {NST_F4E2M1, 2, 1, 1, SPECIAL_NONE},      {NST_F6E2M3, 2, 3, 1, SPECIAL_NONE},
                                 {NST_F6E3M2, 3, 2, 3, SPECIAL_NONE}};

static double decode(const Format *f, uint32_t bits)
{
    uint32_t sign = bits >> (f->exponent + f->mantissa) & 1, top = (1u << f->exponent) - 1;
    uint32_t exponent = bits >> f->mantissa & top, fraction = bits & ((1u << f->mantissa) - 1);
    if (f->special == SPECIAL_IEEE && exponent == top) return fraction ? NAN : sign ? -INFINITY : INFINITY;
    if (f->special == SPECIAL_ALL_SET && exponent == top && fraction == (1u << f->mantissa) - 1) return NAN;
    if (f->special == SPECIAL_MINUS_0 && sign && !exponent && !fraction) return NAN;
    double value = exponent ? ldexp(1 + ldexp(fraction, -f->mantissa), (int)exponent - f->bias)
                            : ldexp(fraction, 1 - f->bias - f->mantissa);
    return sign ? -value : value;
}

/* An element, or a part of a complex one, as a number and as a place among all numbers of its type. */
typedef struct Number {
    double value;
    int64_t place;
} Number;

static Number number_at(NstDtype dtype, const char *at)
{
    uint64_t bits = 0;
    Number n = {0, 0};
    size_t size = nst_dtype_size(dtype);
    memcpy(&bits, at, size); /* little-endian */
    uint64_t sign = (uint64_t)1 << (8 * size - 1);
    if (dtype == NST_F4E2M1) sign = 1 << 3;
    if (dtype == NST_F6E2M3 || dtype == NST_F6E3M2) sign = 1 << 5;
    n.place = bits & sign ? -(int64_t)(bits & ~sign) : (int64_t)bits;
    if (dtype == NST_F64) {
        memcpy(&n.value, at, sizeof n.value);
    } else if (dtype == NST_F32) {
        float value;
        memcpy(&value, at, sizeof value);
        n.value = (double)value;
    } else if (dtype == NST_F8E8M0) {
        n.place = (int64_t)bits;
        n.value = bits == 255 ? NAN : ldexp(1, (int)bits - 127);
    }
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++)
        if (formats[k].dtype == dtype) n.value = decode(&formats[k], (uint32_t)bits);
    return n;
}

static bool is_float(NstDtype dtype)
{
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++)
        if (formats[k].dtype == dtype) return true;
    return dtype == NST_F32 || dtype == NST_F64 || dtype == NST_F8E8M0;
}

static bool is_close(double given, double expected, double rtol)
{
    if (isnan(given) || isnan(expected)) return isnan(given) && isnan(expected);
    if (isinf(given) || isinf(expected)) return given == expected;
    return fabs(given - expected) <= ATOL + rtol * fabs(expected);
}

/* A whole number as text. */
static void print_integer(char text[32], NstDtype dtype, const char *at)
{
    uint64_t bits = 0;
    size_t size = nst_dtype_size(dtype);
    memcpy(&bits, at, size);
    bool is_signed = dtype == NST_I8 || dtype == NST_I16 || dtype == NST_I32 || dtype == NST_I64 || dtype == NST_I4 ||
                     dtype == NST_I2;
    if (is_signed && size < 8 && bits >> (8 * size - 1)) bits |= ~(uint64_t)0 << 8 * size;
    if (is_signed)
        snprintf(text, 32, "%" PRId64, (int64_t)bits);
    else
        snprintf(text, 32, "%" PRIu64, bits);
}

static NstString string_at(const char *at)
{
    NstString s;
    memcpy(&s, at, sizeof s);
    return s;
}

static bool same_strings(NstString a, NstString b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n) == 0);
}

static int shown(NstString s)
{
    return s.n < 100 ? (int)s.n : 100;
}

static void explain(char why[COMPARE_TEXT], NstDtype dtype, const char *given, const char *expected)
{
    size_t n = strlen(why);
    if (dtype == NST_STR) {
        NstString a = string_at(given), b = string_at(expected);
        snprintf(why + n, COMPARE_TEXT - n, ": \"%.*s\", expected \"%.*s\"", shown(a), a.n ? a.at : "", shown(b),
                 b.n ? b.at : "");
    } else if (is_float(dtype)) {
        Number a = number_at(dtype, given), b = number_at(dtype, expected);
        snprintf(why + n, COMPARE_TEXT - n, ": %.9g, expected %.9g, %" PRIu64 " ulp", a.value, b.value,
                 a.place > b.place ? (uint64_t)a.place - (uint64_t)b.place : (uint64_t)b.place - (uint64_t)a.place);
    } else {
        char a[32], b[32];
        print_integer(a, dtype, given);
        print_integer(b, dtype, expected);
        snprintf(why + n, COMPARE_TEXT - n, ": %s, expected %s", a, b);
    }
}

static bool same_element(NstDtype dtype, const char *a, const char *b, double rtol)
{
    if (dtype == NST_STR) return same_strings(string_at(a), string_at(b));
    if (is_float(dtype)) return is_close(number_at(dtype, a).value, number_at(dtype, b).value, rtol);
    return memcmp(a, b, nst_dtype_size(dtype)) == 0;
}

static void print_type(char text[160], const NstTensor *tensor)
{
    int n = snprintf(text, 160, "%s[", nst_dtype_name(tensor->dtype));
    for (int k = 0; k < tensor->rank && n < 130; k++)
        n += snprintf(text + n, (size_t)(160 - n), "%s%lld", k ? "x" : "", (long long)tensor->shape[k]);
    snprintf(text + n, (size_t)(160 - n), "]");
}

bool compare_tensors(const NstTensor *given, const NstTensor *expected, double rtol, char why[COMPARE_TEXT])
{
    bool same = given->dtype == expected->dtype && given->rank == expected->rank;
    size_t count = 1, bad = 0, first = 0;
    for (int k = 0; same && k < given->rank; k++) {
        same = given->shape[k] == expected->shape[k];
        count *= (size_t)given->shape[k];
    }
    if (!same) {
        char a[160], b[160];
        print_type(a, given);
        print_type(b, expected);
        snprintf(why, COMPARE_TEXT, "is %s, expected %s", a, b);
        return false;
    }
    NstDtype part = given->dtype;
    if (part == NST_C64 || part == NST_C128) {
        part = part == NST_C64 ? NST_F32 : NST_F64;
        count *= 2;
    }
    size_t size = nst_dtype_size(part);
    const char *a = given->data, *b = expected->data;
    for (size_t k = 0; k < count; k++) {
        if (same_element(part, a + k * size, b + k * size, rtol)) continue;
        if (bad++ == 0) first = k;
    }
    if (bad == 0) return true;
    snprintf(why, COMPARE_TEXT, "%zu of %zu elements differ, the first at %zu", bad, count, first);
    explain(why, part, a + first * size, b + first * size);
    return false;
}

uint64_t compare_hash(uint64_t hash, const NstTensor *tensor)
{
    const unsigned char *data = tensor->data;
    size_t bytes = nst_dtype_size(tensor->dtype);
    hash = (hash ^ (uint64_t)tensor->dtype) * 0x100000001b3u;
    for (int k = 0; k < tensor->rank; k++) {
        hash = (hash ^ (uint64_t)tensor->shape[k]) * 0x100000001b3u;
        bytes *= (size_t)tensor->shape[k];
    }
    for (size_t at = 0; tensor->dtype == NST_STR && at < bytes; at += sizeof(NstString)) {
        NstString s = string_at((const char *)data + at);
        hash = (hash ^ s.n) * 0x100000001b3u;
        for (size_t k = 0; k < s.n; k++) hash = (hash ^ (unsigned char)s.at[k]) * 0x100000001b3u;
    }
    if (tensor->dtype == NST_STR) return hash;
    for (size_t k = 0; k < bytes; k++) hash = (hash ^ data[k]) * 0x100000001b3u;
    return hash;
}
