/* emit_float.c: operations on f32 and f64: rounding, remainders, minimum and maximum. */
#include "codegen/emit.h"

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
    case NST_OP_SQRT: return nst_llvm_call_same(e->llvm, "llvm.sqrt", a, NULL, NULL);
    case NST_OP_FLOOR:
    case NST_OP_CEIL:
    case NST_OP_TRUNC:
    case NST_OP_ROUND: return round_to_integer(e, op, a);
    default: NST_ASSERT(!"a float operation"); return NULL;
    }
}
