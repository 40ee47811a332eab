/* emit_float.c: operations on f32 and f64: rounding, remainders, minimum and maximum. */
#include "codegen/emit.h"
#include "ir/math.h"

#include <math.h>

/* --- minimum and maximum ----------------------------------------------------------------------------------------
 *
 * NaN if an operand is NaN, -0 < +0.  `a > b ? a : b` is one instruction (maxps) that gives b where the operands are
 * equal or unordered; that and its mirror image differ just there. */

static LLVMValueRef choose(NstEmit *e, bool is_max, LLVMValueRef a, LLVMValueRef b)
{
    LLVMRealPredicate first = is_max ? LLVMRealOGT : LLVMRealOLT;
    return nst_llvm_select(e->llvm, LLVMBuildFCmp(e->llvm->builder, first, a, b, ""), a, b);
}

/* AVX-512: one logic instruction joins the two choices: magnitudes by or (NaN stays NaN), signs by and for max, or for min. */
static LLVMValueRef extremum_by_logic(NstEmit *e, bool is_max, LLVMValueRef a, LLVMValueRef b, bool is_f32,
                                      uint32_t bits)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMTypeRef word = nst_llvm_lanes(is_f32 ? e->llvm->i32 : e->llvm->i64, nst_llvm_lane_count(a));
    LLVMValueRef one = LLVMBuildBitCast(builder, choose(e, is_max, a, b), word, "");
    LLVMValueRef other = LLVMBuildBitCast(builder, choose(e, is_max, b, a), word, "");
    if (!is_max) return LLVMBuildBitCast(builder, LLVMBuildOr(builder, one, other, ""), type, "");
    char name[48];
    snprintf(name, sizeof name, "llvm.x86.avx512.pternlog.%c.%u", is_f32 ? 'd' : 'q', bits);
    int and_where_sign_else_or = 0xd4;
    LLVMValueRef sign = nst_llvm_int(word, is_f32 ? INT32_MIN : INT64_MIN);
    LLVMValueRef arg[4] = {one, other, sign, nst_llvm_int(e->llvm->i32, and_where_sign_else_or)};
    return LLVMBuildBitCast(builder, nst_llvm_intrinsic(e->llvm, name, NULL, 0, arg, 4), type, "");
}

/* The two choices agree but for zeros of both signs, which and / or joins, and NaN, which all ones are. */
static LLVMValueRef extremum_by_bits(NstEmit *e, bool is_max, LLVMValueRef a, LLVMValueRef b, bool is_f32)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMTypeRef word = nst_llvm_lanes(is_f32 ? e->llvm->i32 : e->llvm->i64, nst_llvm_lane_count(a));
    LLVMValueRef one = LLVMBuildBitCast(builder, choose(e, is_max, a, b), word, "");
    LLVMValueRef other = LLVMBuildBitCast(builder, choose(e, is_max, b, a), word, "");
    LLVMValueRef joined = is_max ? LLVMBuildAnd(builder, one, other, "") : LLVMBuildOr(builder, one, other, "");
    LLVMValueRef unordered = LLVMBuildFCmp(builder, LLVMRealUNO, a, b, "");
    joined = LLVMBuildOr(builder, joined, LLVMBuildSExt(builder, unordered, word, ""), "");
    return LLVMBuildBitCast(builder, joined, type, "");
}

static LLVMValueRef extremum(NstEmit *e, bool is_max, LLVMValueRef a, LLVMValueRef b)
{
    uint32_t lanes = nst_llvm_lane_count(a);
    LLVMTypeRef type = LLVMTypeOf(a), element = lanes > 1 ? LLVMGetElementType(type) : type;
    bool is_f32 = element == e->llvm->f32;
    uint32_t bits = lanes * (is_f32 ? 32 : 64);
    if (lanes == 1) { /* in a vector: logic on single floats would go through integer registers */
        LLVMValueRef zero = nst_llvm_int(e->llvm->i32, 0), none = LLVMGetPoison(LLVMVectorType(type, is_f32 ? 4 : 2));
        a = LLVMBuildInsertElement(e->llvm->builder, none, a, zero, "");
        b = LLVMBuildInsertElement(e->llvm->builder, none, b, zero, "");
        return LLVMBuildExtractElement(e->llvm->builder, extremum(e, is_max, a, b), zero, "");
    }
    if (e->target->level < NST_TARGET_AVX512 || bits < 128 || (bits & (bits - 1)))
        return extremum_by_bits(e, is_max, a, b, is_f32);
    if (bits <= 512) return extremum_by_logic(e, is_max, a, b, is_f32, bits);
    LLVMValueRef low = extremum(e, is_max, nst_llvm_half(e->llvm, a, 0), nst_llvm_half(e->llvm, b, 0));
    LLVMValueRef high = extremum(e, is_max, nst_llvm_half(e->llvm, a, 1), nst_llvm_half(e->llvm, b, 1));
    return nst_llvm_join(e->llvm, low, high);
}

/* With a bound that is a number, equal zeros are the only special case: choose(bound, value) keeps NaN and, of two
 * zeros, the value's.  Adding +0 makes that +0. */
LLVMValueRef nst_emit_clamp(NstEmit *e, bool is_max, LLVMValueRef value, double bound)
{
    LLVMTypeRef type = LLVMTypeOf(value);
    LLVMValueRef limit = nst_llvm_float(type, bound);
    bool bound_wins = bound == 0 && (signbit(bound) != 0) != is_max;
    if (bound_wins && !is_max) return extremum(e, is_max, value, limit);
    LLVMValueRef chosen = choose(e, is_max, limit, value);
    return bound_wins ? LLVMBuildFAdd(e->llvm->builder, chosen, nst_llvm_float(type, 0), "") : chosen;
}

/* --- rounding, remainders ---------------------------------------------------------------------------------------- */

/* The sign of b on the magnitude of a. */
static LLVMValueRef copy_sign(NstEmit *e, LLVMValueRef a, LLVMValueRef b)
{
    return nst_llvm_call_same(e->llvm, "llvm.copysign", a, b, NULL);
}

/* Rounding to integers where there is no instruction: adding and subtracting 2^mantissa rounds to even; floor, ceil
 * and trunc correct that by one.  Larger values and NaN are integers already. */
static LLVMValueRef round_by_adding(NstEmit *e, NstScalarOp op, LLVMValueRef value)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMTypeRef type = LLVMTypeOf(value);
    LLVMTypeRef element = nst_llvm_lane_count(value) > 1 ? LLVMGetElementType(type) : type;
    LLVMValueRef big = nst_llvm_float(type, element == e->llvm->f32 ? 0x1p23 : 0x1p52);
    LLVMValueRef one = nst_llvm_float(type, 1), zero = nst_llvm_float(type, 0);
    LLVMValueRef magnitude = nst_llvm_call_same(e->llvm, "llvm.fabs", value, NULL, NULL);
    LLVMValueRef rounded = LLVMBuildFSub(builder, LLVMBuildFAdd(builder, magnitude, big, ""), big, "");
    LLVMValueRef signed_one = rounded;
    if (op == NST_OP_TRUNC) {
        LLVMValueRef above = LLVMBuildFCmp(builder, LLVMRealOGT, rounded, magnitude, "");
        signed_one = LLVMBuildFSub(builder, rounded, nst_llvm_select(e->llvm, above, one, zero), "");
    }
    LLVMValueRef result = copy_sign(e, signed_one, value);
    if (op == NST_OP_FLOOR || op == NST_OP_CEIL) {
        bool down = op == NST_OP_FLOOR;
        LLVMValueRef wrong = LLVMBuildFCmp(builder, down ? LLVMRealOGT : LLVMRealOLT, result, value, "");
        LLVMValueRef fix = nst_llvm_select(e->llvm, wrong, nst_llvm_float(type, down ? 1 : -1), zero);
        result = copy_sign(e, LLVMBuildFSub(builder, result, fix, ""), value);
    }
    LLVMValueRef is_small = LLVMBuildFCmp(builder, LLVMRealOLT, magnitude, big, "");
    return nst_llvm_select(e->llvm, is_small, result, value);
}

static LLVMValueRef round_to_integer(NstEmit *e, NstScalarOp op, LLVMValueRef value)
{
    if (e->target->level < NST_TARGET_AVX2) return round_by_adding(e, op, value);
    const char *name = op == NST_OP_FLOOR   ? "llvm.floor"
                       : op == NST_OP_CEIL  ? "llvm.ceil"
                       : op == NST_OP_TRUNC ? "llvm.trunc"
                                            : "llvm.roundeven";
    return nst_llvm_call_same(e->llvm, name, value, NULL, NULL);
}

/* fmod is exact, so the result does not depend on how it is computed; zero takes the divisor's sign for MOD. */
static LLVMValueRef remainder_of(NstEmit *e, NstScalarOp op, NstDtype type, LLVMValueRef a, LLVMValueRef b)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMValueRef rest = nst_emit_helper_lanes(e, type == NST_F32 ? NST_HELPER_fmod_f32 : NST_HELPER_fmod_f64, a, b);
    if (op == NST_OP_REM) return rest;
    LLVMValueRef zero = nst_llvm_float(LLVMTypeOf(a), 0);
    LLVMValueRef rest_minus = LLVMBuildFCmp(builder, LLVMRealOLT, rest, zero, "");
    LLVMValueRef b_minus = LLVMBuildFCmp(builder, LLVMRealOLT, b, zero, "");
    LLVMValueRef differs = LLVMBuildXor(builder, rest_minus, b_minus, "");
    LLVMValueRef moved = nst_llvm_select(e->llvm, differs, LLVMBuildFAdd(builder, rest, b, ""), rest);
    LLVMValueRef is_zero = LLVMBuildFCmp(builder, LLVMRealOEQ, rest, zero, "");
    return nst_llvm_select(e->llvm, is_zero, copy_sign(e, zero, b), moved);
}

/* --- powers of two --------------------------------------------------------------------------------------------------- */

/* The first n lanes of a vector or number, or all of them and lanes of any value. */
static LLVMValueRef with_lanes(NstEmit *e, LLVMValueRef value, uint32_t n)
{
    uint32_t lanes = nst_llvm_lane_count(value);
    LLVMValueRef from[64], zero = nst_llvm_int(e->llvm->i32, 0);
    if (lanes == n) return value;
    if (n == 1) return LLVMBuildExtractElement(e->llvm->builder, value, zero, "");
    if (lanes == 1)
        return LLVMBuildInsertElement(e->llvm->builder, LLVMGetPoison(LLVMVectorType(LLVMTypeOf(value), n)), value,
                                      zero, "");
    for (uint32_t k = 0; k < n; k++) from[k] = k < lanes ? nst_llvm_int(e->llvm->i32, k) : LLVMGetPoison(e->llvm->i32);
    return LLVMBuildShuffleVector(e->llvm->builder, value, LLVMGetPoison(LLVMTypeOf(value)), LLVMConstVector(from, n),
                                  "");
}

/* AVX-512: one instruction. */
static LLVMValueRef scale_by_instruction(NstEmit *e, LLVMValueRef a, LLVMValueRef b, bool is_f32)
{
    uint32_t lanes = nst_llvm_lane_count(a), most = is_f32 ? 16 : 8;
    if (lanes > most) {
        LLVMValueRef low = scale_by_instruction(e, nst_llvm_half(e->llvm, a, 0), nst_llvm_half(e->llvm, b, 0), is_f32);
        LLVMValueRef high = scale_by_instruction(e, nst_llvm_half(e->llvm, a, 1), nst_llvm_half(e->llvm, b, 1), is_f32);
        return nst_llvm_join(e->llvm, low, high);
    }
    a = with_lanes(e, a, most);
    b = with_lanes(e, b, most);
    LLVMValueRef all = nst_llvm_int(is_f32 ? e->llvm->i16 : e->llvm->i8, -1),
                 as_the_mode_says = nst_llvm_int(e->llvm->i32, 4);
    LLVMValueRef arg[5] = {a, b, LLVMConstNull(LLVMTypeOf(a)), all, as_the_mode_says};
    const char *name = is_f32 ? "llvm.x86.avx512.mask.scalef.ps.512" : "llvm.x86.avx512.mask.scalef.pd.512";
    return with_lanes(e, nst_llvm_intrinsic(e->llvm, name, NULL, 0, arg, 5), lanes);
}

static LLVMValueRef scale(NstEmit *e, NstDtype type, LLVMValueRef a, LLVMValueRef b)
{
    uint32_t lanes = nst_llvm_lane_count(a);
    if (e->target->level >= NST_TARGET_AVX512 && (lanes & (lanes - 1)) == 0)
        return scale_by_instruction(e, a, b, type == NST_F32);
    return nst_emit_helper_lanes(e, type == NST_F32 ? NST_HELPER_scale_f32 : NST_HELPER_scale_f64, a, b);
}

/* Entries first .. first + n - 1 of the table of sixteenths. */
static LLVMValueRef sixteenths(NstEmit *e, NstDtype type, int first, uint32_t n)
{
    LLVMValueRef entry[16];
    for (uint32_t k = 0; k < n; k++)
        entry[k] = nst_llvm_float(nst_llvm_type(e->llvm, type), nst_math_sixteenth(type, first + (int)k));
    return LLVMConstVector(entry, n);
}

/* f32: a register of AVX-512 is the table; on AVX2 two are its halves, and the fourth bit chooses. */
static LLVMValueRef sixteenth_by_permutation(NstEmit *e, LLVMValueRef index)
{
    LLVMBuilderRef builder = e->llvm->builder;
    bool wide = e->target->level >= NST_TARGET_AVX512;
    uint32_t lanes = nst_llvm_lane_count(index), most = wide ? 16 : 8;
    if (lanes > most) {
        LLVMValueRef low = sixteenth_by_permutation(e, nst_llvm_half(e->llvm, index, 0));
        LLVMValueRef high = sixteenth_by_permutation(e, nst_llvm_half(e->llvm, index, 1));
        return nst_llvm_join(e->llvm, low, high);
    }
    index = with_lanes(e, index, most);
    const char *name = wide ? "llvm.x86.avx512.permvar.sf.512" : "llvm.x86.avx2.permps";
    LLVMValueRef arg[2] = {sixteenths(e, NST_F32, 0, most), index};
    LLVMValueRef value = nst_llvm_intrinsic(e->llvm, name, NULL, 0, arg, 2);
    if (!wide) {
        arg[0] = sixteenths(e, NST_F32, 8, 8);
        LLVMValueRef upper = nst_llvm_intrinsic(e->llvm, name, NULL, 0, arg, 2);
        LLVMTypeRef words = LLVMTypeOf(index);
        LLVMValueRef sign = LLVMBuildShl(builder, index, nst_llvm_int(words, 28), "");
        LLVMValueRef is_upper = LLVMBuildICmp(builder, LLVMIntSLT, sign, LLVMConstNull(words), "");
        value = nst_llvm_select(e->llvm, is_upper, upper, value);
    }
    return with_lanes(e, value, lanes);
}

static LLVMValueRef sixteenth(NstEmit *e, NstDtype type, LLVMValueRef a)
{
    LLVMBuilderRef builder = e->llvm->builder;
    uint32_t lanes = nst_llvm_lane_count(a);
    LLVMTypeRef words = nst_llvm_lanes(type == NST_F32 ? e->llvm->i32 : e->llvm->i64, lanes);
    LLVMValueRef index = LLVMBuildBitCast(builder, a, words, "");
    if (type == NST_F32 && e->target->level >= NST_TARGET_AVX2 && (lanes & (lanes - 1)) == 0)
        return sixteenth_by_permutation(e, index);
    index = LLVMBuildAnd(builder, index, nst_llvm_int(words, 15), "");
    LLVMValueRef table = sixteenths(e, type, 0, 16), value = LLVMGetPoison(LLVMTypeOf(a));
    if (lanes == 1) return LLVMBuildExtractElement(builder, table, index, "");
    for (uint32_t k = 0; k < lanes; k++) {
        LLVMValueRef lane = nst_llvm_int(e->llvm->i32, k), at = LLVMBuildExtractElement(builder, index, lane, "");
        value = LLVMBuildInsertElement(builder, value, LLVMBuildExtractElement(builder, table, at, ""), lane, "");
    }
    return value;
}

LLVMValueRef nst_emit_float(NstEmit *e, NstScalarOp op, NstDtype type, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMBuilderRef builder = e->llvm->builder;
    switch (op) {
    case NST_OP_ADD: return LLVMBuildFAdd(builder, a, b, "");
    case NST_OP_SUB: return LLVMBuildFSub(builder, a, b, "");
    case NST_OP_MUL: return LLVMBuildFMul(builder, a, b, "");
    case NST_OP_DIV: return LLVMBuildFDiv(builder, a, b, "");
    case NST_OP_MOD:
    case NST_OP_REM: return remainder_of(e, op, type, a, b);
    case NST_OP_NEG: return LLVMBuildFNeg(builder, a, "");
    case NST_OP_ABS: return nst_llvm_call_same(e->llvm, "llvm.fabs", a, NULL, NULL);
    case NST_OP_MIN:
    case NST_OP_MAX: return extremum(e, op == NST_OP_MAX, a, b);
    case NST_OP_FMA:
        if (e->target->has_fma) return nst_llvm_call_same(e->llvm, "llvm.fma", a, b, c);
        return LLVMBuildFAdd(builder, LLVMBuildFMul(builder, a, b, ""), c, "");
    case NST_OP_SCALE: return scale(e, type, a, b);
    case NST_OP_SIXTEENTH: return sixteenth(e, type, a);
    case NST_OP_SQRT: return nst_llvm_call_same(e->llvm, "llvm.sqrt", a, NULL, NULL);
    case NST_OP_FLOOR:
    case NST_OP_CEIL:
    case NST_OP_TRUNC:
    case NST_OP_ROUND: return round_to_integer(e, op, a);
    default: NST_ASSERT(!"a float operation"); return NULL;
    }
}
