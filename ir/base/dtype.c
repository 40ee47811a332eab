/* dtype.c: facts of element types, conversions of the narrow floats.
 *
 * One description per narrow format serves both directions; values go through double, which holds every value
 * of every narrow format and every scaled intermediate exactly, so that there is one rounding and it is done
 * here. Source: ONNX Cast-25 tables, OCP 8-bit and microscaling formats, IEEE 754 (f16). */
#include "ir/base/dtype.h"

#include <math.h>
#include <string.h>
#include "ir/base/status.h"

static const NstDtypeInfo infos[NST_DTYPE_COUNT] = {
    {"none", 0, 0, 0, NST_CLASS_BOOL, NST_DTYPE_NONE},
#define NST_DTYPE(NAME, text, onnx, bits, bytes, klass, compute)                                                       \
    {text, onnx, bits, bytes, NST_CLASS_##klass, NST_##compute},
#include "nestor/dtype.def"
#undef NST_DTYPE
};

const NstDtypeInfo *nst_dtype_info(NstDtype type)
{
    NST_ASSERT((unsigned)type < NST_DTYPE_COUNT);
    return &infos[type];
}

NstDtype nst_dtype_parse(const char *name, size_t n)
{
    for (int type = NST_DTYPE_NONE + 1; type < NST_DTYPE_COUNT; type++)
        if (strlen(infos[type].name) == n && memcmp(infos[type].name, name, n) == 0) return (NstDtype)type;
    return NST_DTYPE_NONE;
}

NstDtype nst_dtype_from_onnx(int onnx)
{
    for (int type = NST_DTYPE_NONE + 1; type < NST_DTYPE_COUNT; type++)
        if (infos[type].onnx == onnx) return (NstDtype)type;
    return NST_DTYPE_NONE;
}

bool nst_dtype_is_int(NstDtype type)
{
    NstDtypeClass klass = nst_dtype_info(type)->klass;
    return type != NST_DTYPE_NONE && (klass == NST_CLASS_SINT || klass == NST_CLASS_UINT);
}

bool nst_dtype_is_signed(NstDtype type)
{
    return nst_dtype_info(type)->klass == NST_CLASS_SINT;
}

/* A sign bit (unless scale_only), exponent bits, `mantissa` bits.  Codes are without the sign bit. */
typedef struct Format {
    int bits;
    int mantissa;
    int bias;
    uint32_t largest;       /* code of the largest finite value */
    uint32_t infinity;      /* code, 0 = the format has none */
    uint32_t nan;           /* code, 0 = the format has none */
    bool nan_is_minus_zero; /* FNUZ: 0x80 is the one NaN, zero has no sign */
    bool always_infinity;   /* overflow gives infinity also when saturating */
} Format;

static const Format f16_format = {16, 10, 15, 0x7bff, 0x7c00, 0x7e00, false, true};
static const Format bf16_format = {16, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, false, true};
static const Format e4m3fn_format = {8, 3, 7, 0x7e, 0, 0x7f, false, false};
static const Format e4m3fnuz_format = {8, 3, 8, 0x7f, 0, 0, true, false};
static const Format e5m2_format = {8, 2, 15, 0x7b, 0x7c, 0x7f, false, false};
static const Format e5m2fnuz_format = {8, 2, 16, 0x7f, 0, 0, true, false};
static const Format e2m1_format = {4, 1, 1, 0x7, 0, 0, false, false};
static const Format e2m3_format = {6, 3, 1, 0x1f, 0, 0, false, false};
static const Format e3m2_format = {6, 2, 3, 0x1f, 0, 0, false, false};

static const Format *format_of(NstDtype type)
{
    switch (type) {
    case NST_F16: return &f16_format;
    case NST_BF16: return &bf16_format;
    case NST_F8E4M3FN: return &e4m3fn_format;
    case NST_F8E4M3FNUZ: return &e4m3fnuz_format;
    case NST_F8E5M2: return &e5m2_format;
    case NST_F8E5M2FNUZ: return &e5m2fnuz_format;
    case NST_F4E2M1: return &e2m1_format;
    case NST_F6E2M3: return &e2m3_format;
    case NST_F6E3M2: return &e3m2_format;
    default: NST_ASSERT(!"a narrow float type"); return NULL;
    }
}

static float decode(const Format *format, uint32_t bits)
{
    uint32_t sign = bits >> (format->bits - 1) & 1;
    uint32_t code = bits & ((1u << (format->bits - 1)) - 1);
    if (format->nan_is_minus_zero && sign && code == 0) return NAN;
    if (code > format->largest) {
        if (format->infinity != 0 && code == format->infinity) return sign ? -INFINITY : INFINITY;
        return sign ? -NAN : NAN;
    }
    int exponent = (int)(code >> format->mantissa);
    int fraction = (int)(code & ((1u << format->mantissa) - 1));
    int implicit = exponent ? 1 << format->mantissa : 0;
    int scale = (exponent ? exponent : 1) - format->bias - format->mantissa;
    float value = ldexpf((float)(implicit + fraction), scale);
    return sign ? -value : value;
}

/* E8M0: 2^(code - 127), 0xff is NaN; no zero, no sign. */
static float decode_e8m0(uint32_t bits)
{
    bits &= 0xff;
    return bits == 0xff ? NAN : ldexpf(1.0f, (int)bits - 127);
}

float nst_narrow_to_f32(NstDtype type, uint32_t bits)
{
    return type == NST_F8E8M0 ? decode_e8m0(bits) : decode(format_of(type), bits);
}

/* The code of a magnitude >= 0 rounded to nearest even, possibly above the largest. */
static uint32_t round_code(const Format *format, double magnitude)
{
    int exponent;
    frexp(magnitude, &exponent); /* magnitude in [2^(exponent - 1), 2^exponent) */
    int biased = exponent - 1 + format->bias;
    if (magnitude == 0 || biased < 1) biased = 1;
    double scaled = ldexp(magnitude, format->mantissa + format->bias - biased);
    double whole = floor(scaled), rest = scaled - whole;
    uint32_t rounded = (uint32_t)whole;
    if (rest > 0.5 || (rest == 0.5 && (rounded & 1))) rounded++;
    return ((uint32_t)(biased - 1) << format->mantissa) + rounded; /* the implicit bit adds the exponent's one */
}

static uint32_t encode(const Format *format, double value, bool saturate)
{
    uint32_t sign = signbit(value) ? 1u << (format->bits - 1) : 0;
    if (isnan(value)) {
        if (format->nan_is_minus_zero) return 1u << (format->bits - 1);
        return format->nan ? sign | format->nan : format->largest; /* without NaN: ONNX says +largest */
    }
    uint32_t code = isinf(value) ? UINT32_MAX : round_code(format, fabs(value));
    if (code > format->largest) {
        bool has_special = format->infinity || format->nan || format->nan_is_minus_zero;
        if (format->always_infinity || (!saturate && format->infinity))
            code = format->infinity;
        else if (saturate || !has_special)
            code = format->largest;
        else if (format->nan_is_minus_zero)
            return 1u << (format->bits - 1);
        else
            code = format->nan;
    }
    if (format->nan_is_minus_zero && code == 0) return 0;
    return sign | code;
}

/* Nearest power of two, ties up.  Negative values have no meaning here and give NaN, as do NaN and, when not
 * saturating, all that lies outside (zero too). */
static uint32_t encode_e8m0(double value, bool saturate)
{
    const uint32_t nan = 0xff, largest = 0xfe;
    if (isnan(value) || value < 0) return nan;
    if (isinf(value)) return saturate ? largest : nan;
    if (value < 0x1p-127) return saturate ? 0 : nan;
    int exponent;
    double fraction = frexp(value, &exponent); /* [0.5, 1) * 2^exponent */
    int code = exponent - 1 + 127 + (fraction >= 0.75 ? 1 : 0);
    if (code > (int)largest) return saturate ? largest : nan;
    return (uint32_t)code;
}

uint32_t nst_f64_to_narrow(NstDtype type, double value, bool saturate)
{
    return type == NST_F8E8M0 ? encode_e8m0(value, saturate) : encode(format_of(type), value, saturate);
}

uint32_t nst_f32_to_narrow(NstDtype type, float value, bool saturate)
{
    return nst_f64_to_narrow(type, (double)value, saturate);
}

const char *nst_dtype_name(NstDtype dtype)
{
    return (unsigned)dtype < NST_DTYPE_COUNT ? infos[dtype].name : infos[NST_DTYPE_NONE].name;
}

NstDtype nst_dtype_of_name(const char *name)
{
    return name ? nst_dtype_parse(name, strlen(name)) : NST_DTYPE_NONE;
}

size_t nst_dtype_size(NstDtype dtype)
{
    if (dtype == NST_STR) return sizeof(NstString);
    return (unsigned)dtype < NST_DTYPE_COUNT ? (size_t)infos[dtype].bytes : 0;
}
