/* emit_expr.c: scalar operations on scalars and vectors, in the semantics of ir/scalar.def: nothing traps, nothing is
 * poison, no fast-math. */
#include "codegen/emit.h"

#include <math.h>

NstLanes nst_emit_spread(NstEmit *e, NstLanes value, uint32_t lanes)
{
    if (value.n == lanes) return value;
    if (LLVMIsConstant(value.v)) return (NstLanes){nst_llvm_splat(e->llvm, value.v, lanes), lanes};
    for (uint32_t k = e->spreads.n; k-- > 0;)
        if (e->spreads.at[k].scalar == value.v && nst_llvm_lane_count(e->spreads.at[k].vector) == lanes)
            return (NstLanes){e->spreads.at[k].vector, lanes};
    NstSpread spread = {value.v, nst_llvm_splat(e->llvm, value.v, lanes)};
    nst_vec_push(e->arena, &e->spreads, spread);
    return (NstLanes){spread.vector, lanes};
}

/* --- integers -------------------------------------------------------------------------------------------------------- */

static LLVMValueRef equals(NstEmit *e, LLVMValueRef a, int64_t value)
{
    return LLVMBuildICmp(e->llvm->builder, LLVMIntEQ, a, nst_llvm_int(LLVMTypeOf(a), value), "");
}

/* Truncated quotient of operands whose divisor is not 0, nor -1 where signed.  Vectors of up to 32 bits divide as
 * floats, which is exact: a quotient that is no integer lies at least 1/divisor from one, further than the rounding
 * error of f32 for 16 bits and of f64 for 32. */
static LLVMValueRef quotient_of(NstEmit *e, bool is_signed, LLVMValueRef a, LLVMValueRef b)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMTypeRef type = LLVMTypeOf(a);
    uint32_t lanes = nst_llvm_lane_count(a);
    unsigned bits = LLVMGetIntTypeWidth(lanes > 1 ? LLVMGetElementType(type) : type);
    if (lanes == 1 || bits > 32 || LLVMIsConstant(b))
        return is_signed ? LLVMBuildSDiv(builder, a, b, "") : LLVMBuildUDiv(builder, a, b, "");
    LLVMTypeRef real = nst_llvm_lanes(bits > 16 ? e->llvm->f64 : e->llvm->f32, lanes);
    LLVMValueRef x = is_signed ? LLVMBuildSIToFP(builder, a, real, "") : LLVMBuildUIToFP(builder, a, real, "");
    LLVMValueRef y = is_signed ? LLVMBuildSIToFP(builder, b, real, "") : LLVMBuildUIToFP(builder, b, real, "");
    LLVMValueRef quotient = LLVMBuildFDiv(builder, x, y, "");
    return is_signed ? LLVMBuildFPToSI(builder, quotient, type, "") : LLVMBuildFPToUI(builder, quotient, type, "");
}

LLVMValueRef nst_emit_int_division(NstEmit *e, NstScalarOp op, NstDtype dtype, LLVMValueRef a, LLVMValueRef b)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMTypeRef type = LLVMTypeOf(a);
    bool is_signed = nst_dtype_is_signed(dtype);
    LLVMValueRef zero = nst_llvm_int(type, 0), one = nst_llvm_int(type, 1);
    LLVMValueRef is_zero = equals(e, b, 0), is_minus = is_signed ? equals(e, b, -1) : NULL;
    LLVMValueRef odd = is_signed ? LLVMBuildOr(builder, is_zero, is_minus, "") : is_zero;
    LLVMValueRef safe = nst_llvm_select(e->llvm, odd, one, b);
    LLVMValueRef quotient = quotient_of(e, is_signed, a, safe);
    LLVMValueRef product = LLVMBuildMul(builder, quotient, safe, "");
    LLVMValueRef rest = LLVMBuildSub(builder, a, product, "");
    LLVMValueRef differs = NULL;
    if (is_signed && (op == NST_OP_FLOORDIV || op == NST_OP_MOD)) {
        LLVMValueRef sign = LLVMBuildICmp(builder, LLVMIntSLT, LLVMBuildXor(builder, rest, safe, ""), zero, "");
        differs = LLVMBuildAnd(builder, sign, LLVMBuildICmp(builder, LLVMIntNE, rest, zero, ""), "");
    }
    if (op == NST_OP_DIV || op == NST_OP_FLOORDIV) {
        if (differs) quotient = LLVMBuildSub(builder, quotient, nst_llvm_select(e->llvm, differs, one, zero), "");
        if (is_signed) quotient = nst_llvm_select(e->llvm, is_minus, LLVMBuildNeg(builder, a, ""), quotient);
        return nst_llvm_select(e->llvm, is_zero, zero, quotient);
    }
    if (differs) rest = LLVMBuildAdd(builder, rest, nst_llvm_select(e->llvm, differs, safe, zero), "");
    return nst_llvm_select(e->llvm, is_zero, a, rest);
}

static LLVMValueRef shift(NstEmit *e, NstScalarOp op, NstDtype dtype, LLVMValueRef a, LLVMValueRef b)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMTypeRef type = LLVMTypeOf(a);
    int bits = 8 * nst_dtype_info(dtype)->bytes;
    LLVMValueRef fits = LLVMBuildICmp(builder, LLVMIntULT, b, nst_llvm_int(type, bits), "");
    if (op == NST_OP_SAR)
        return LLVMBuildAShr(builder, a, nst_llvm_select(e->llvm, fits, b, nst_llvm_int(type, bits - 1)), "");
    LLVMValueRef count = LLVMBuildAnd(builder, b, nst_llvm_int(type, bits - 1), "");
    LLVMValueRef shifted =
        op == NST_OP_SHL ? LLVMBuildShl(builder, a, count, "") : LLVMBuildLShr(builder, a, count, "");
    return nst_llvm_select(e->llvm, fits, shifted, nst_llvm_int(type, 0));
}

static LLVMValueRef int_op(NstEmit *e, NstScalarOp op, NstDtype type, LLVMValueRef a, LLVMValueRef b)
{
    LLVMBuilderRef builder = e->llvm->builder;
    bool is_signed = nst_dtype_is_signed(type);
    switch (op) {
    case NST_OP_ADD: return LLVMBuildAdd(builder, a, b, "");
    case NST_OP_SUB: return LLVMBuildSub(builder, a, b, "");
    case NST_OP_MUL: return LLVMBuildMul(builder, a, b, "");
    case NST_OP_DIV:
    case NST_OP_FLOORDIV:
    case NST_OP_MOD:
    case NST_OP_REM: return nst_emit_int_division(e, op, type, a, b);
    case NST_OP_NEG: return LLVMBuildNeg(builder, a, "");
    case NST_OP_ABS:
        if (!is_signed) return a;
        return nst_llvm_call_same(e->llvm, "llvm.smax", a, LLVMBuildNeg(builder, a, ""), NULL);
    case NST_OP_MIN: return nst_llvm_call_same(e->llvm, is_signed ? "llvm.smin" : "llvm.umin", a, b, NULL);
    case NST_OP_MAX: return nst_llvm_call_same(e->llvm, is_signed ? "llvm.smax" : "llvm.umax", a, b, NULL);
    case NST_OP_AND: return LLVMBuildAnd(builder, a, b, "");
    case NST_OP_OR: return LLVMBuildOr(builder, a, b, "");
    case NST_OP_XOR: return LLVMBuildXor(builder, a, b, "");
    case NST_OP_NOT: return LLVMBuildNot(builder, a, "");
    case NST_OP_SHL:
    case NST_OP_SHR:
    case NST_OP_SAR: return shift(e, op, type, a, b);
    default: NST_ASSERT(!"an integer operation"); return NULL;
    }
}

/* --- compares ------------------------------------------------------------------------------------------------------------ */

static LLVMValueRef compare(NstEmit *e, NstScalarOp op, NstDtype type, LLVMValueRef a, LLVMValueRef b)
{
    static const LLVMRealPredicate real[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
                                             LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
    static const LLVMIntPredicate sint[] = {LLVMIntEQ, LLVMIntNE, LLVMIntSLT, LLVMIntSLE, LLVMIntSGT, LLVMIntSGE};
    static const LLVMIntPredicate uint[] = {LLVMIntEQ, LLVMIntNE, LLVMIntULT, LLVMIntULE, LLVMIntUGT, LLVMIntUGE};
    _Static_assert(NST_OP_GE == NST_OP_EQ + 5 && NST_OP_LT == NST_OP_EQ + 2, "the order of scalar.def");
    int k = (int)op - NST_OP_EQ;
    if (nst_dtype_is_float(type)) return LLVMBuildFCmp(e->llvm->builder, real[k], a, b, "");
    return LLVMBuildICmp(e->llvm->builder, nst_dtype_is_signed(type) ? sint[k] : uint[k], a, b, "");
}

static LLVMValueRef test(NstEmit *e, NstScalarOp op, LLVMValueRef a)
{
    if (op == NST_OP_ISNAN) return LLVMBuildFCmp(e->llvm->builder, LLVMRealUNO, a, a, "");
    LLVMValueRef infinity = nst_llvm_float(LLVMTypeOf(a), (double)INFINITY);
    return LLVMBuildFCmp(e->llvm->builder, LLVMRealOEQ, nst_llvm_call_same(e->llvm, "llvm.fabs", a, NULL, NULL),
                         infinity, "");
}

/* --- packed dot products ------------------------------------------------------------------------------------------------------ */

/* Bits at .. at + bits - 1 of words of `width` bits, extended as the type says. */
static LLVMValueRef dot_lane(NstEmit *e, NstDtype type, int width, int at, LLVMValueRef words)
{
    LLVMBuilderRef builder = e->llvm->builder;
    int bits = nst_dtype_info(type)->bits;
    LLVMValueRef right = nst_llvm_int(LLVMTypeOf(words), width - bits);
    if (at + bits < width) {
        if (at == 0 && !nst_dtype_is_signed(type))
            return LLVMBuildAnd(builder, words, nst_llvm_int(LLVMTypeOf(words), (1 << bits) - 1), "");
        words = LLVMBuildShl(builder, words, nst_llvm_int(LLVMTypeOf(words), width - bits - at), "");
    }
    return nst_dtype_is_signed(type) ? LLVMBuildAShr(builder, words, right, "")
                                     : LLVMBuildLShr(builder, words, right, "");
}

/* Products of s16 pairs added to i32, the widest of SSE2, AVX2, AVX-512. */
static LLVMValueRef multiply_pairs(NstEmit *e, uint32_t lanes, LLVMValueRef b, LLVMValueRef c)
{
    const char *name = lanes == 4   ? "llvm.x86.sse2.pmadd.wd"
                       : lanes == 8 ? "llvm.x86.avx2.pmadd.wd"
                                    : "llvm.x86.avx512.pmaddw.d.512";
    LLVMTypeRef words = LLVMVectorType(e->llvm->i16, 2 * lanes);
    LLVMValueRef arg[2] = {LLVMBuildBitCast(e->llvm->builder, b, words, ""),
                           LLVMBuildBitCast(e->llvm->builder, c, words, "")};
    return nst_llvm_intrinsic(e->llvm, name, NULL, 0, arg, 2);
}

static bool has_pair_instruction(NstEmit *e, uint32_t lanes)
{
    return lanes == 4 || (lanes == 8 && e->target->level >= NST_TARGET_AVX2) ||
           (lanes == 16 && e->target->level >= NST_TARGET_AVX512);
}

/* Bytes through s16 pairs: even and odd bytes apart, exact. */
static LLVMValueRef dot4_by_pairs(NstEmit *e, NstDotLanes lane, LLVMValueRef acc, LLVMValueRef b, LLVMValueRef c)
{
    LLVMBuilderRef builder = e->llvm->builder;
    uint32_t lanes = nst_llvm_lane_count(b);
    LLVMTypeRef words = LLVMVectorType(e->llvm->i16, 2 * lanes);
    b = LLVMBuildBitCast(builder, b, words, "");
    c = LLVMBuildBitCast(builder, c, words, "");
    LLVMValueRef even = multiply_pairs(e, lanes, dot_lane(e, lane.b, 16, 0, b), dot_lane(e, lane.c, 16, 0, c));
    LLVMValueRef odd = multiply_pairs(e, lanes, dot_lane(e, lane.b, 16, 8, b), dot_lane(e, lane.c, 16, 8, c));
    return LLVMBuildAdd(builder, acc, LLVMBuildAdd(builder, even, odd, ""), "");
}

/* One instruction for u8 * s8, the operands in either order; NULL: none for these lanes on the target. */
static LLVMValueRef dot4_at_once(NstEmit *e, NstDotLanes lane, LLVMValueRef acc, LLVMValueRef b, LLVMValueRef c)
{
    uint32_t lanes = nst_llvm_lane_count(acc);
    bool mixed = (lane.b == NST_U8 && lane.c == NST_I8) || (lane.b == NST_I8 && lane.c == NST_U8);
    if (!mixed || e->target->level < NST_TARGET_AVX512_VNNI || (lanes != 16 && lanes != 8 && lanes != 4)) return NULL;
    const char *name = lanes == 16  ? "llvm.x86.avx512.vpdpbusd.512"
                       : lanes == 8 ? "llvm.x86.avx512.vpdpbusd.256"
                                    : "llvm.x86.avx512.vpdpbusd.128";
    LLVMValueRef arg[3] = {acc, lane.b == NST_U8 ? b : c, lane.b == NST_U8 ? c : b};
    return nst_llvm_intrinsic(e->llvm, name, NULL, 0, arg, 3);
}

/* Products of s16 pairs added to i32 and to acc by one instruction; NULL: the target has none for these lanes. */
static LLVMValueRef dot2_at_once(NstEmit *e, LLVMValueRef acc, LLVMValueRef b, LLVMValueRef c)
{
    uint32_t lanes = nst_llvm_lane_count(acc);
    if (e->target->level < NST_TARGET_AVX512_VNNI || (lanes != 16 && lanes != 8 && lanes != 4)) return NULL;
    const char *name = lanes == 16  ? "llvm.x86.avx512.vpdpwssd.512"
                       : lanes == 8 ? "llvm.x86.avx512.vpdpwssd.256"
                                    : "llvm.x86.avx512.vpdpwssd.128";
    LLVMValueRef arg[3] = {acc, b, c};
    return nst_llvm_intrinsic(e->llvm, name, NULL, 0, arg, 3);
}

LLVMValueRef nst_emit_dot(NstEmit *e, NstScalarOp op, LLVMValueRef acc, LLVMValueRef b, LLVMValueRef c)
{
    uint32_t lanes = nst_llvm_lane_count(acc);
    if (lanes % 2 == 0 && (int)lanes * 4 > e->target->vector_bytes) {
        NstLlvm *llvm = e->llvm;
        LLVMValueRef half[2];
        for (int k = 0; k < 2; k++)
            half[k] =
                nst_emit_dot(e, op, nst_llvm_half(llvm, acc, k), nst_llvm_half(llvm, b, k), nst_llvm_half(llvm, c, k));
        return nst_llvm_join(llvm, half[0], half[1]);
    }
    NstDotLanes lane = nst_scalar_dot_lanes(op);
    int bits = nst_dtype_info(lane.b)->bits;
    LLVMValueRef at_once = bits == 8 ? dot4_at_once(e, lane, acc, b, c) : dot2_at_once(e, acc, b, c);
    if (at_once) return at_once;
    if (has_pair_instruction(e, lanes))
        return bits == 8 ? dot4_by_pairs(e, lane, acc, b, c)
                         : LLVMBuildAdd(e->llvm->builder, acc, multiply_pairs(e, lanes, b, c), "");
    for (int at = 0; at < 32; at += bits) {
        LLVMValueRef x = dot_lane(e, lane.b, 32, at, b), y = dot_lane(e, lane.c, 32, at, c);
        acc = LLVMBuildAdd(e->llvm->builder, acc, LLVMBuildMul(e->llvm->builder, x, y, ""), "");
    }
    return acc;
}

/* --- expressions ------------------------------------------------------------------------------------------------------------- */

static NstLanes emit_node(NstEmit *e, NstExpr expr);

static NstLanes emit_private(NstEmit *e, NstExpr expr)
{
    nst_vec_reserve(e->arena, &e->memo, expr.i + 1);
    while (e->memo.n <= expr.i) memset(&e->memo.at[e->memo.n++], 0, sizeof(NstMemo));
    if (e->memo.at[expr.i].generation == e->generation) return e->memo.at[expr.i].value;
    uint32_t generation = e->generation;
    NstLanes value = emit_node(e, expr);
    if (generation == e->generation) e->memo.at[expr.i] = (NstMemo){generation, value};
    return value;
}

static NstLanes emit_const(NstEmit *e, const NstExprNode *node)
{
    LLVMTypeRef type = nst_llvm_type(e->llvm, node->type);
    bool is_real = node->type == NST_F32 || node->type == NST_F64;
    if (!is_real) return (NstLanes){nst_llvm_int(type, node->imm.i), 1};
    if (node->imm.f == node->imm.f) return (NstLanes){nst_llvm_float(type, node->imm.f), 1};
    return (NstLanes){nst_llvm_float(type, (double)NAN), 1};
}

static NstLanes emit_index_value(NstEmit *e, NstDim dim)
{
    NstDim at = nst_emit_replace(e, dim);
    if (nst_emit_varies(e, at)) return (NstLanes){nst_emit_lane_sizes(e, at), e->lane.n};
    return (NstLanes){nst_emit_size(e, at), 1};
}

static LLVMValueRef apply(NstEmit *e, const NstExprNode *node, NstDtype from, LLVMValueRef *v)
{
    switch (nst_scalar_info(node->op)->rule) {
    case NST_RULE_COMPARE: return compare(e, node->op, from, v[0], v[1]);
    case NST_RULE_TEST: return test(e, node->op, v[0]);
    case NST_RULE_CONVERT: return nst_emit_convert(e, node->type, from, v[0], node->op == NST_OP_CONVERT_SAT);
    case NST_RULE_BITCAST: {
        LLVMTypeRef to = nst_llvm_lanes(nst_llvm_type(e->llvm, node->type), nst_llvm_lane_count(v[0]));
        return nst_emit_part(e, node->type, LLVMBuildBitCast(e->llvm->builder, v[0], to, ""));
    }
    case NST_RULE_DOT: return nst_emit_dot(e, node->op, v[0], v[1], v[2]);
    case NST_RULE_SELECT: return nst_llvm_select(e->llvm, v[0], v[1], v[2]);
    default: break;
    }
    if (from == NST_F32 || from == NST_F64) return nst_emit_float(e, node->op, from, v[0], v[1], v[2]);
    return int_op(e, node->op, from, v[0], v[1]);
}

/* min and max of a float and a constant that is a number. */
static bool emit_clamp(NstEmit *e, const NstExprNode *node, NstLanes *result)
{
    if ((node->op != NST_OP_MIN && node->op != NST_OP_MAX) || !nst_dtype_is_float(node->type)) return false;
    for (int k = 0; k < 2; k++) {
        const NstExprNode *bound = nst_expr(e->exprs, node->arg[k]);
        if (bound->op != NST_OP_CONST || bound->imm.f != bound->imm.f) continue;
        double limit = bound->imm.f;
        NstLanes value = emit_private(e, node->arg[1 - k]);
        if (e->status == NST_OK) value.v = nst_emit_clamp(e, node->op == NST_OP_MAX, value.v, limit);
        *result = value;
        return true;
    }
    return false;
}

static NstLanes emit_node(NstEmit *e, NstExpr expr)
{
    NstLanes clamped;
    const NstExprNode node = *nst_expr(e->exprs, expr);
    if (e->status != NST_OK) return (NstLanes){LLVMConstNull(nst_llvm_type(e->llvm, node.type)), 1};
    switch (node.op) {
    case NST_OP_CONST: return emit_const(e, &node);
    case NST_OP_INDEX: return emit_index_value(e, node.index[0]);
    case NST_OP_LOAD: return nst_emit_load(e, &node);
    case NST_OP_LET: return e->let[node.ref];
    default: break;
    }
    if (emit_clamp(e, &node, &clamped)) return clamped;
    const NstScalarInfo *info = nst_scalar_info(node.op);
    NstLanes arg[3] = {{NULL, 1}, {NULL, 1}, {NULL, 1}};
    LLVMValueRef v[3] = {NULL, NULL, NULL};
    uint32_t lanes = 1;
    for (int k = 0; k < info->arity; k++) {
        arg[k] = emit_private(e, node.arg[k]);
        if (arg[k].n > lanes) lanes = arg[k].n;
    }
    if (e->status != NST_OK) return (NstLanes){LLVMConstNull(nst_llvm_type(e->llvm, node.type)), 1};
    if (info->expanded) {
        nst_emit_fail(e, NST_E_UNSUPPORTED, "kernel '%s': no expansion of %s for %s", e->kernel->name, info->text,
                      nst_dtype_info(node.type)->name);
        return (NstLanes){LLVMConstNull(nst_llvm_type(e->llvm, node.type)), 1};
    }
    for (int k = 0; k < info->arity; k++) {
        bool keeps = k == 0 && info->rule == NST_RULE_SELECT && arg[0].n == 1;
        v[k] = keeps ? arg[k].v : nst_emit_spread(e, arg[k], lanes).v;
    }
    return (NstLanes){apply(e, &node, nst_expr(e->exprs, node.arg[0])->type, v), lanes};
}

NstLanes nst_emit_expr(NstEmit *e, NstExpr expr)
{
    NstExpr copy = nst_emit_import_expr(e, expr);
    return emit_private(e, copy);
}
