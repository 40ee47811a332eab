/* emit_convert.c: conversions between element types, with the results of nst_scalar_convert.
 *
 * Narrow floats (f16, bf16, 8 and 4 bits) are integers in registers and go through f32.  What a format is, is asked
 * from ir/base/dtype.h by converting a few values when code is made, so that formats are described there alone. */
#include "codegen/emit.h"

#include <math.h>

static bool is_compute_float(NstDtype type)
{
    return type == NST_F32 || type == NST_F64;
}

static LLVMTypeRef type_like(NstEmit *e, LLVMTypeRef element, LLVMValueRef value)
{
    (void)e;
    return nst_llvm_lanes(element, nst_llvm_lane_count(value));
}

static LLVMValueRef bits_of(NstEmit *e, LLVMValueRef value)
{
    return LLVMBuildBitCast(e->llvm->builder, value, type_like(e, e->llvm->i32, value), "");
}

static LLVMValueRef float_of(NstEmit *e, LLVMValueRef bits)
{
    return LLVMBuildBitCast(e->llvm->builder, bits, type_like(e, e->llvm->f32, bits), "");
}

static LLVMValueRef constant_like(LLVMValueRef value, int64_t constant)
{
    return nst_llvm_int(LLVMTypeOf(value), constant);
}

/* --- narrow formats -------------------------------------------------------------------------------------------- */

typedef struct Format {
    int bits;
    int mantissa;
    int unit;         /* the smallest positive value is 2^unit */
    uint32_t sign;    /* bit of the sign */
    uint32_t largest; /* code of the largest finite value */
} Format;

static Format format_of(NstDtype type)
{
    Format format = {.bits = nst_dtype_info(type)->bits};
    format.sign = 1u << (format.bits - 1);
    double smallest = (double)nst_narrow_to_f32(type, 1);
    frexp(smallest, &format.unit);
    format.unit--;
    /* Codes are multiples of the smallest value up to twice the smallest normal one. */
    uint32_t code = 1;
    while ((double)nst_narrow_to_f32(type, code) == code * smallest) code++;
    while ((2u << format.mantissa) + 1 < code) format.mantissa++;
    format.largest = format.sign - 1;
    while (!isfinite(nst_narrow_to_f32(type, format.largest))) format.largest--;
    return format;
}

/* Exponent of the format's encoding to that of f32, in place. */
static int64_t exponent_shift(const Format *format)
{
    int bias = 1 - format->mantissa - format->unit;
    return (int64_t)(127 - bias) << 23;
}

static LLVMValueRef widen_e8m0(NstEmit *e, LLVMValueRef code)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMValueRef bits = LLVMBuildShl(builder, code, constant_like(code, 23), "");
    LLVMValueRef is_zero = LLVMBuildICmp(builder, LLVMIntEQ, code, constant_like(code, 0), "");
    LLVMValueRef is_nan = LLVMBuildICmp(builder, LLVMIntEQ, code, constant_like(code, 255), "");
    bits = nst_llvm_select(e->llvm, is_zero, constant_like(code, 0x400000), bits);
    return nst_llvm_select(e->llvm, is_nan, constant_like(code, 0x7fc00000), bits);
}

/* Codes past the largest: infinity where the format has it, NaN for the rest. */
static LLVMValueRef widen_specials(NstEmit *e, NstDtype type, const Format *format, LLVMValueRef code,
                                   LLVMValueRef bits)
{
    LLVMBuilderRef builder = e->llvm->builder;
    if (format->largest == format->sign - 1) return bits;
    LLVMValueRef special = constant_like(code, 0x7fc00000);
    for (uint32_t k = format->largest + 1; k < format->sign; k++) {
        if (!isinf(nst_narrow_to_f32(type, k))) continue;
        LLVMValueRef is_infinity = LLVMBuildICmp(builder, LLVMIntEQ, code, constant_like(code, k), "");
        special = nst_llvm_select(e->llvm, is_infinity, constant_like(code, 0x7f800000), special);
        break;
    }
    LLVMValueRef is_special = LLVMBuildICmp(builder, LLVMIntUGT, code, constant_like(code, format->largest), "");
    return nst_llvm_select(e->llvm, is_special, special, bits);
}

static LLVMValueRef widen_bits(NstEmit *e, NstDtype type, LLVMValueRef all)
{
    LLVMBuilderRef builder = e->llvm->builder;
    if (type == NST_BF16) return LLVMBuildShl(builder, all, constant_like(all, 16), "");
    if (type == NST_F8E8M0) return widen_e8m0(e, all);
    Format format = format_of(type);
    LLVMValueRef code = LLVMBuildAnd(builder, all, constant_like(all, format.sign - 1), "");
    LLVMValueRef normal = LLVMBuildShl(builder, code, constant_like(code, 23 - format.mantissa), "");
    normal = LLVMBuildAdd(builder, normal, constant_like(code, exponent_shift(&format)), "");
    LLVMTypeRef real = type_like(e, e->llvm->f32, code);
    LLVMValueRef scaled = LLVMBuildFMul(builder, LLVMBuildSIToFP(builder, code, real, ""),
                                        nst_llvm_float(real, ldexp(1, format.unit)), "");
    LLVMValueRef is_small = LLVMBuildICmp(builder, LLVMIntULT, code, constant_like(code, 1 << format.mantissa), "");
    LLVMValueRef bits = nst_llvm_select(e->llvm, is_small, bits_of(e, scaled), normal);
    bits = widen_specials(e, type, &format, code, bits);
    LLVMValueRef sign = LLVMBuildAnd(builder, all, constant_like(all, format.sign), "");
    sign = LLVMBuildShl(builder, sign, constant_like(sign, 32 - format.bits), "");
    bits = LLVMBuildOr(builder, bits, sign, "");
    if (!isnan(nst_narrow_to_f32(type, format.sign))) return bits;
    LLVMValueRef is_nan = LLVMBuildICmp(builder, LLVMIntEQ, all, constant_like(all, format.sign), "");
    return nst_llvm_select(e->llvm, is_nan, constant_like(all, 0x7fc00000), bits);
}

static LLVMValueRef widen(NstEmit *e, NstDtype type, LLVMValueRef value)
{
    LLVMBuilderRef builder = e->llvm->builder;
    if (type == NST_F16 && e->target->level >= NST_TARGET_AVX2) {
        LLVMValueRef half = LLVMBuildBitCast(builder, value, type_like(e, e->llvm->f16, value), "");
        return LLVMBuildFPExt(builder, half, type_like(e, e->llvm->f32, value), "");
    }
    return float_of(e, widen_bits(e, type, LLVMBuildZExt(builder, value, type_like(e, e->llvm->i32, value), "")));
}

/* --- to narrow formats ------------------------------------------------------------------------------------------------ */

static LLVMValueRef narrow_e8m0(NstEmit *e, LLVMValueRef value, bool saturate)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMValueRef bits = bits_of(e, value), zero = constant_like(bits, 0), half = constant_like(bits, 0x400000);
    LLVMValueRef code = LLVMBuildLShr(builder, LLVMBuildAdd(builder, bits, half, ""), constant_like(bits, 23), "");
    LLVMValueRef is_denormal = LLVMBuildICmp(builder, LLVMIntULT, bits, constant_like(bits, 0x600000), "");
    code = nst_llvm_select(e->llvm, is_denormal, zero, code);
    LLVMValueRef over = constant_like(bits, saturate ? 254 : 255), under = constant_like(bits, saturate ? 0 : 255);
    code = nst_llvm_select(e->llvm, LLVMBuildICmp(builder, LLVMIntUGT, code, constant_like(bits, 254), ""), over, code);
    code = nst_llvm_select(e->llvm, LLVMBuildICmp(builder, LLVMIntULT, bits, half, ""), under, code);
    LLVMTypeRef real = LLVMTypeOf(value);
    LLVMValueRef below = LLVMBuildFCmp(builder, LLVMRealULT, value, nst_llvm_float(real, 0), ""); /* or NaN */
    code = nst_llvm_select(e->llvm, below, constant_like(bits, 255), code);
    LLVMValueRef is_minus_zero = LLVMBuildICmp(builder, LLVMIntEQ, bits, constant_like(bits, INT32_MIN), "");
    return nst_llvm_select(e->llvm, is_minus_zero, under, code);
}

/* Code of a magnitude, possibly past the largest. */
static LLVMValueRef round_code(NstEmit *e, const Format *format, LLVMValueRef magnitude)
{
    LLVMBuilderRef builder = e->llvm->builder;
    int drop = 23 - format->mantissa;
    LLVMValueRef moved = LLVMBuildSub(builder, magnitude, constant_like(magnitude, exponent_shift(format)), "");
    LLVMValueRef odd = LLVMBuildLShr(builder, moved, constant_like(magnitude, drop), "");
    odd = LLVMBuildAnd(builder, odd, constant_like(magnitude, 1), "");
    LLVMValueRef code = LLVMBuildAdd(builder, moved, constant_like(magnitude, (1 << (drop - 1)) - 1), "");
    code = LLVMBuildLShr(builder, LLVMBuildAdd(builder, code, odd, ""), constant_like(magnitude, drop), "");
    /* Below the smallest normal value: adding 2^(unit + 23) leaves the multiple of the unit in the low bits. */
    LLVMTypeRef real = type_like(e, e->llvm->f32, magnitude);
    LLVMValueRef magic = nst_llvm_float(real, ldexp(1, format->unit + 23));
    LLVMValueRef sum = LLVMBuildFAdd(builder, float_of(e, magnitude), magic, "");
    LLVMValueRef small = LLVMBuildSub(builder, bits_of(e, sum), bits_of(e, magic), "");
    int64_t smallest_normal = exponent_shift(format) + (1 << 23);
    LLVMValueRef is_small =
        LLVMBuildICmp(builder, LLVMIntULT, magnitude, constant_like(magnitude, smallest_normal), "");
    return nst_llvm_select(e->llvm, is_small, small, code);
}

static LLVMValueRef narrow_bf16(NstEmit *e, LLVMValueRef bits)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMValueRef sixteen = constant_like(bits, 16);
    LLVMValueRef odd = LLVMBuildAnd(builder, LLVMBuildLShr(builder, bits, sixteen, ""), constant_like(bits, 1), "");
    LLVMValueRef sum = LLVMBuildAdd(builder, bits, LLVMBuildAdd(builder, odd, constant_like(bits, 0x7fff), ""), "");
    return LLVMBuildLShr(builder, sum, sixteen, "");
}

static LLVMValueRef narrow_bits(NstEmit *e, NstDtype type, LLVMValueRef value, bool saturate)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMValueRef is_nan = LLVMBuildFCmp(builder, LLVMRealUNO, value, value, ""), bits = bits_of(e, value), code;
    LLVMValueRef nan = constant_like(bits, nst_f32_to_narrow(type, NAN, saturate));
    if (type == NST_BF16) return nst_llvm_select(e->llvm, is_nan, nan, narrow_bf16(e, bits));
    Format format = format_of(type);
    LLVMValueRef magnitude = LLVMBuildAnd(builder, bits, constant_like(bits, INT32_MAX), "");
    LLVMValueRef sign = LLVMBuildLShr(builder, bits, constant_like(bits, 32 - format.bits), "");
    sign = LLVMBuildAnd(builder, sign, constant_like(bits, format.sign), "");
    code = round_code(e, &format, magnitude);
    uint32_t overflow = nst_f32_to_narrow(type, INFINITY, saturate);
    LLVMValueRef over = LLVMBuildICmp(builder, LLVMIntUGT, code, constant_like(bits, format.largest), "");
    bool over_has_no_sign = overflow == nst_f32_to_narrow(type, -INFINITY, saturate);
    if (!over_has_no_sign) code = nst_llvm_select(e->llvm, over, constant_like(bits, overflow), code);
    LLVMValueRef result = LLVMBuildOr(builder, code, sign, "");
    if (nst_f32_to_narrow(type, -0.0f, saturate) == 0) {
        LLVMValueRef is_zero = LLVMBuildICmp(builder, LLVMIntEQ, code, constant_like(bits, 0), "");
        result = nst_llvm_select(e->llvm, is_zero, code, result);
    }
    if (over_has_no_sign) result = nst_llvm_select(e->llvm, over, constant_like(bits, overflow), result);
    return nst_llvm_select(e->llvm, is_nan, nan, result);
}

/* f64 to f32 rounded to odd: an inexact result gets an odd last bit, so that rounding it again rounds as once. */
static LLVMValueRef round_to_odd(NstEmit *e, LLVMValueRef value)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMTypeRef wide = LLVMTypeOf(value);
    LLVMValueRef near = LLVMBuildFPTrunc(builder, value, type_like(e, e->llvm->f32, value), "");
    LLVMValueRef back = LLVMBuildFPExt(builder, near, wide, ""), arg = value;
    LLVMValueRef magnitude = nst_llvm_intrinsic(e->llvm, "llvm.fabs", &wide, 1, &arg, 1);
    arg = back;
    LLVMValueRef back_magnitude = nst_llvm_intrinsic(e->llvm, "llvm.fabs", &wide, 1, &arg, 1);
    LLVMValueRef bits = bits_of(e, near);
    LLVMTypeRef word = LLVMTypeOf(bits);
    LLVMValueRef above = LLVMBuildFCmp(builder, LLVMRealOGT, back_magnitude, magnitude, "");
    LLVMValueRef inexact = LLVMBuildFCmp(builder, LLVMRealONE, back, value, "");
    bits = LLVMBuildSub(builder, bits, LLVMBuildZExt(builder, above, word, ""), "");
    return float_of(e, LLVMBuildOr(builder, bits, LLVMBuildZExt(builder, inexact, word, ""), ""));
}

static LLVMValueRef narrow(NstEmit *e, NstDtype to, NstDtype from, LLVMValueRef value, bool saturate)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMTypeRef storage = type_like(e, nst_llvm_storage_type(e->llvm, to), value);
    if (from == NST_F64) value = round_to_odd(e, value);
    if (to == NST_F16 && e->target->level >= NST_TARGET_AVX2) {
        LLVMValueRef half = LLVMBuildFPTrunc(builder, value, type_like(e, e->llvm->f16, value), "");
        return LLVMBuildBitCast(builder, half, storage, "");
    }
    LLVMValueRef bits = to == NST_F8E8M0 ? narrow_e8m0(e, value, saturate) : narrow_bits(e, to, value, saturate);
    return LLVMBuildTrunc(builder, bits, storage, "");
}

/* --- integers -------------------------------------------------------------------------------------------------------------- */

static int magnitude_bits(NstDtype type)
{
    return type == NST_BOOL ? 1 : nst_dtype_info(type)->bits - (nst_dtype_is_signed(type) ? 1 : 0);
}

LLVMValueRef nst_emit_part(NstEmit *e, NstDtype type, LLVMValueRef value)
{
    int unused = 8 * nst_dtype_info(type)->bytes - nst_dtype_info(type)->bits;
    if (unused == 0) return value;
    LLVMBuilderRef builder = e->llvm->builder;
    if (!nst_dtype_is_signed(type))
        return LLVMBuildAnd(builder, value, constant_like(value, (1 << nst_dtype_info(type)->bits) - 1), "");
    LLVMValueRef count = constant_like(value, unused);
    return LLVMBuildAShr(builder, LLVMBuildShl(builder, value, count, ""), count, "");
}

static LLVMValueRef resize_int(NstEmit *e, NstDtype to, NstDtype from, LLVMValueRef value)
{
    LLVMTypeRef type = type_like(e, nst_llvm_type(e->llvm, to), value);
    int has = from == NST_BOOL ? 1 : nst_dtype_info(from)->bytes * 8, wants = nst_dtype_info(to)->bytes * 8;
    if (has == wants) return value;
    if (has > wants) return LLVMBuildTrunc(e->llvm->builder, value, type, "");
    if (nst_dtype_is_signed(from)) return LLVMBuildSExt(e->llvm->builder, value, type, "");
    return LLVMBuildZExt(e->llvm->builder, value, type, "");
}

static LLVMValueRef clamp_int(NstEmit *e, NstDtype to, NstDtype from, LLVMValueRef value)
{
    if (from == NST_BOOL) return value;
    LLVMTypeRef type = LLVMTypeOf(value);
    bool is_signed = nst_dtype_is_signed(from), to_signed = nst_dtype_is_signed(to);
    LLVMValueRef arg[2] = {value, NULL};
    if (is_signed && (!to_signed || magnitude_bits(to) < magnitude_bits(from))) {
        arg[1] = nst_llvm_int(type, to_signed ? -((int64_t)1 << magnitude_bits(to)) : 0);
        arg[0] = nst_llvm_intrinsic(e->llvm, "llvm.smax", &type, 1, arg, 2);
    }
    if (magnitude_bits(to) < magnitude_bits(from)) {
        arg[1] = nst_llvm_int(type, (int64_t)((UINT64_C(1) << magnitude_bits(to)) - 1));
        arg[0] = nst_llvm_intrinsic(e->llvm, is_signed ? "llvm.smin" : "llvm.umin", &type, 1, arg, 2);
    }
    return arg[0];
}

static LLVMValueRef from_int(NstEmit *e, NstDtype to, NstDtype from, LLVMValueRef value, bool saturate)
{
    LLVMBuilderRef builder = e->llvm->builder;
    if (to == NST_BOOL) return LLVMBuildICmp(builder, LLVMIntNE, value, constant_like(value, 0), "");
    if (nst_dtype_is_int(to)) {
        if (saturate) value = clamp_int(e, to, from, value);
        return nst_emit_part(e, to, resize_int(e, to, from, value));
    }
    NstDtype real = to == NST_F64 ? NST_F64 : NST_F32;
    LLVMTypeRef type = type_like(e, nst_llvm_type(e->llvm, real), value);
    value = nst_dtype_is_signed(from) ? LLVMBuildSIToFP(builder, value, type, "")
                                      : LLVMBuildUIToFP(builder, value, type, "");
    return nst_emit_convert(e, to, real, value, saturate);
}

/* The limits of the type are values of the float type: clamp, then convert. */
static LLVMValueRef clamped_to_int(NstEmit *e, NstDtype to, LLVMValueRef value)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMTypeRef real = LLVMTypeOf(value);
    int bits = magnitude_bits(to);
    LLVMValueRef high = nst_llvm_float(real, ldexp(1, bits) - 1);
    LLVMValueRef low = nst_llvm_float(real, nst_dtype_is_signed(to) ? -ldexp(1, bits) : 0);
    LLVMValueRef ordered = LLVMBuildFCmp(builder, LLVMRealORD, value, value, "");
    value = nst_llvm_select(e->llvm, ordered, value, nst_llvm_float(real, 0));
    value = nst_llvm_select(e->llvm, LLVMBuildFCmp(builder, LLVMRealOLT, value, high, ""), value, high);
    value = nst_llvm_select(e->llvm, LLVMBuildFCmp(builder, LLVMRealOGT, value, low, ""), value, low);
    LLVMTypeRef wide = type_like(e, e->llvm->i32, value), type = type_like(e, nst_llvm_type(e->llvm, to), value);
    if (to == NST_U32) return LLVMBuildFPToUI(builder, value, type, "");
    value = LLVMBuildFPToSI(builder, value, wide, "");
    return to == NST_I32 ? value : LLVMBuildTrunc(builder, value, type, "");
}

/* The upper limit is none: values outside are converted as 0 and replaced after. */
static LLVMValueRef replaced_to_int(NstEmit *e, NstDtype to, LLVMValueRef value)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMTypeRef real = LLVMTypeOf(value), type = type_like(e, nst_llvm_type(e->llvm, to), value);
    int bits = magnitude_bits(to);
    bool is_signed = nst_dtype_is_signed(to);
    int64_t most = (int64_t)(bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
    LLVMValueRef over = LLVMBuildFCmp(builder, LLVMRealOGE, value, nst_llvm_float(real, ldexp(1, bits)), "");
    double lowest = is_signed ? -ldexp(1, bits) : 0;
    LLVMValueRef under = LLVMBuildFCmp(builder, LLVMRealULT, value, nst_llvm_float(real, lowest), ""); /* or NaN */
    LLVMValueRef outside = LLVMBuildOr(builder, over, under, "");
    LLVMValueRef safe = nst_llvm_select(e->llvm, outside, nst_llvm_float(real, 0), value);
    LLVMValueRef result =
        is_signed ? LLVMBuildFPToSI(builder, safe, type, "") : LLVMBuildFPToUI(builder, safe, type, "");
    result = nst_llvm_select(e->llvm, over, nst_llvm_int(type, most), result);
    if (!is_signed) return result;
    LLVMValueRef below = LLVMBuildFCmp(builder, LLVMRealOLT, value, nst_llvm_float(real, lowest), "");
    return nst_llvm_select(e->llvm, below, nst_llvm_int(type, -most - 1), result);
}

static LLVMValueRef from_float(NstEmit *e, NstDtype to, NstDtype from, LLVMValueRef value, bool saturate)
{
    LLVMBuilderRef builder = e->llvm->builder;
    if (to == NST_BOOL) return LLVMBuildFCmp(builder, LLVMRealUNE, value, nst_llvm_float(LLVMTypeOf(value), 0), "");
    if (nst_dtype_is_int(to)) {
        int exact = from == NST_F32 ? 24 : 53;
        return magnitude_bits(to) <= exact ? clamped_to_int(e, to, value) : replaced_to_int(e, to, value);
    }
    LLVMTypeRef type = type_like(e, nst_llvm_type(e->llvm, to), value);
    if (to == NST_F64) return LLVMBuildFPExt(builder, value, type, "");
    if (to == NST_F32) return LLVMBuildFPTrunc(builder, value, type, "");
    return narrow(e, to, from, value, saturate);
}

LLVMValueRef nst_emit_convert(NstEmit *e, NstDtype to, NstDtype from, LLVMValueRef value, bool saturate)
{
    if (to == from) return value;
    if (!nst_dtype_is_float(from)) return from_int(e, to, from, value, saturate);
    if (is_compute_float(from)) return from_float(e, to, from, value, saturate);
    value = widen(e, from, value);
    return to == NST_F32 ? value : from_float(e, to, NST_F32, value, saturate);
}
