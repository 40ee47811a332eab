/* expr_fold.c: the constructors of operations: fold constants, INDEX arithmetic and exact identities.
 *
 * An identity is applied only if it keeps every bit for every operand, -0 and infinities included; a NaN stays a NaN.
 * A constant stands on the right of a commutative operation or compare.  FMA and elementary functions of constants fold
 * only when fma and mul then add agree (the target decides which it is). */
#include "ir/expr_pool.h"

#include <math.h>

#define DIM_CONST_LIMIT (INT64_C(1) << 47) /* larger constants stay out of dims: index arithmetic must not overflow */

static const NstExpr no_expr = {0};

static NstDtype type_of(const NstExprs *exprs, NstExpr e)
{
    return nst_expr(exprs, e)->type;
}

static bool is_const(const NstExprs *exprs, NstExpr e)
{
    return nst_expr(exprs, e)->op == NST_OP_CONST;
}

static bool is_float_type(NstDtype type)
{
    return nst_dtype_is_float(type);
}

/* True if e is the integer (or bool) constant `value` of its type. */
static bool is_int_const(const NstExprs *exprs, NstExpr e, int64_t value)
{
    const NstExprNode *node = nst_expr(exprs, e);
    return node->op == NST_OP_CONST && !is_float_type(node->type) && node->imm.i == value;
}

/* True if e is the float constant with exactly these bits (so -0 is not 0). */
static bool is_float_const(const NstExprs *exprs, NstExpr e, double value)
{
    const NstExprNode *node = nst_expr(exprs, e);
    return node->op == NST_OP_CONST && (node->type == NST_F32 || node->type == NST_F64) &&
           node->imm.bits == (NstScalar){.f = value}.bits;
}

/* The integer constant with all bits set (bool: true). */
static bool is_all_ones(const NstExprs *exprs, NstExpr e)
{
    const NstExprNode *node = nst_expr(exprs, e);
    if (node->op != NST_OP_CONST || is_float_type(node->type)) return false;
    uint64_t ones = node->type == NST_BOOL ? 1 : UINT64_MAX;
    return node->imm.bits == nst_scalar_normal(node->type, (NstScalar){.bits = ones}).bits;
}

static NstExpr zero_of(NstExprs *exprs, NstDtype type)
{
    return nst_expr_const(exprs, type, (NstScalar){.i = 0});
}

static NstExpr bool_of(NstExprs *exprs, bool value)
{
    return nst_expr_const(exprs, NST_BOOL, (NstScalar){.i = value});
}

/* -- constants ------------------------------------------------------------------------------------------------- */

/* The constant that op makes of constant operands; none if one is not, or if the target decides. */
static NstExpr fold_consts(NstExprs *exprs, NstScalarOp op, NstDtype type, const NstExpr *arg)
{
    const NstScalarInfo *info = nst_scalar_info(op);
    NstScalar value[3];
    for (int k = 0; k < info->arity; k++) {
        const NstExprNode *node = nst_expr(exprs, arg[k]);
        if (node->op != NST_OP_CONST) return no_expr;
        value[k] = node->imm;
    }
    NstDtype from = type_of(exprs, arg[0]);
    NstScalar result = nst_scalar_eval(op, type, from, value, true);
    bool fused = op == NST_OP_FMA || info->expanded;
    if (fused && result.bits != nst_scalar_eval(op, type, from, value, false).bits) return no_expr;
    return nst_expr_const(exprs, type, result);
}

/* -- INDEX arithmetic ------------------------------------------------------------------------------------------ */

/* The dim of an INDEX leaf or of a small i64 constant; none otherwise. */
static NstDim dim_of(NstExprs *exprs, NstExpr e)
{
    const NstExprNode *node = nst_expr(exprs, e);
    if (node->op == NST_OP_INDEX) return node->index[0];
    bool small = node->op == NST_OP_CONST && node->type == NST_I64 && node->imm.i > -DIM_CONST_LIMIT &&
                 node->imm.i < DIM_CONST_LIMIT;
    return small ? nst_dim_const(nst_exprs_dims(exprs), node->imm.i) : (NstDim){0};
}

static bool proves(NstExprs *exprs, NstDim a, NstDimCompare op, int64_t b)
{
    NstDims *dims = nst_exprs_dims(exprs);
    return nst_dim_compare(dims, a, op, nst_dim_const(dims, b)) == NST_TRUE;
}

static NstExpr compare_dims(NstExprs *exprs, NstScalarOp op, NstDim a, NstDim b)
{
    static const NstDimCompare compare[NST_OP_COUNT] = {
        [NST_OP_EQ] = NST_DIM_EQ, [NST_OP_NE] = NST_DIM_NE, [NST_OP_LT] = NST_DIM_LT,
        [NST_OP_LE] = NST_DIM_LE, [NST_OP_GT] = NST_DIM_GT, [NST_OP_GE] = NST_DIM_GE};
    NstTruth truth = nst_dim_compare(nst_exprs_dims(exprs), a, compare[op], b);
    return truth == NST_UNKNOWN ? no_expr : bool_of(exprs, truth == NST_TRUE);
}

/* a op b as one INDEX (or a folded compare), where the integer algebra agrees with the scalar table.  Index
 * values are sizes and positions: they never come near the wrap of 64 bits. */
static NstExpr fold_index(NstExprs *exprs, NstScalarOp op, NstExpr left, NstExpr right)
{
    if (nst_expr(exprs, left)->op != NST_OP_INDEX && nst_expr(exprs, right)->op != NST_OP_INDEX) return no_expr;
    NstDims *dims = nst_exprs_dims(exprs);
    NstDim a = dim_of(exprs, left), b = dim_of(exprs, right);
    if (a.i == 0 || b.i == 0) return no_expr;
    if (nst_scalar_info(op)->rule == NST_RULE_COMPARE) return compare_dims(exprs, op, a, b);
    bool truncated = op == NST_OP_DIV || op == NST_OP_REM;
    if (truncated && !(proves(exprs, a, NST_DIM_GE, 0) && proves(exprs, b, NST_DIM_GT, 0))) return no_expr;
    switch (op) {
    case NST_OP_ADD: return nst_expr_index(exprs, nst_dim_add(dims, a, b));
    case NST_OP_SUB: return nst_expr_index(exprs, nst_dim_sub(dims, a, b));
    case NST_OP_MUL: return nst_expr_index(exprs, nst_dim_mul(dims, a, b));
    case NST_OP_MIN: return nst_expr_index(exprs, nst_dim_min(dims, a, b));
    case NST_OP_MAX: return nst_expr_index(exprs, nst_dim_max(dims, a, b));
    case NST_OP_DIV:
    case NST_OP_FLOORDIV:
        return proves(exprs, b, NST_DIM_NE, 0) ? nst_expr_index(exprs, nst_dim_floordiv(dims, a, b)) : no_expr;
    case NST_OP_REM:
    case NST_OP_MOD: return proves(exprs, b, NST_DIM_NE, 0) ? nst_expr_index(exprs, nst_dim_mod(dims, a, b)) : no_expr;
    default: return no_expr;
    }
}

static NstExpr fold_index_unary(NstExprs *exprs, NstScalarOp op, NstExpr a)
{
    const NstExprNode *node = nst_expr(exprs, a);
    if (node->op != NST_OP_INDEX) return no_expr;
    NstDim dim = node->index[0];
    if (op == NST_OP_NEG) return nst_expr_index(exprs, nst_dim_mul_const(nst_exprs_dims(exprs), dim, -1));
    return op == NST_OP_ABS && proves(exprs, dim, NST_DIM_GE, 0) ? a : no_expr;
}

/* -- identities of two operands -------------------------------------------------------------------------------- */

/* x op x. */
static NstExpr fold_equal(NstExprs *exprs, NstScalarOp op, NstExpr x)
{
    NstDtype type = type_of(exprs, x);
    bool exact = !is_float_type(type); /* x - x and x == x are not 0 and true for a NaN */
    switch (op) {
    case NST_OP_MIN:
    case NST_OP_MAX:
    case NST_OP_AND:
    case NST_OP_OR: return x;
    case NST_OP_SUB:
    case NST_OP_XOR: return exact ? zero_of(exprs, type) : no_expr;
    case NST_OP_EQ:
    case NST_OP_LE:
    case NST_OP_GE: return exact ? bool_of(exprs, true) : no_expr;
    case NST_OP_NE: return exact ? bool_of(exprs, false) : no_expr;
    case NST_OP_LT:
    case NST_OP_GT: return bool_of(exprs, false);
    default: return no_expr;
    }
}

/* x op c for integers and bools. */
static NstExpr fold_int_right(NstExprs *exprs, NstScalarOp op, NstExpr x, NstExpr c)
{
    bool zero = is_int_const(exprs, c, 0), one = is_int_const(exprs, c, 1), ones = is_all_ones(exprs, c);
    switch (op) {
    case NST_OP_ADD:
    case NST_OP_SUB:
    case NST_OP_SHL:
    case NST_OP_SHR:
    case NST_OP_SAR: return zero ? x : no_expr;
    case NST_OP_XOR: return zero ? x : ones ? nst_expr_unary(exprs, NST_OP_NOT, x) : no_expr;
    case NST_OP_MUL: return zero ? c : one ? x : no_expr;
    case NST_OP_AND: return zero ? c : ones ? x : no_expr;
    case NST_OP_OR: return zero ? x : ones ? c : no_expr;
    case NST_OP_DIV:
    case NST_OP_FLOORDIV: return one ? x : zero ? c : no_expr;
    case NST_OP_MOD:
    case NST_OP_REM: return one ? zero_of(exprs, type_of(exprs, x)) : zero ? x : no_expr;
    default: return no_expr;
    }
}

/* x == true and its relatives. */
static NstExpr fold_bool_right(NstExprs *exprs, NstScalarOp op, NstExpr x, NstExpr c)
{
    bool value = nst_expr(exprs, c)->imm.i != 0;
    if (op == NST_OP_EQ || op == NST_OP_NE)
        return value == (op == NST_OP_EQ) ? x : nst_expr_unary(exprs, NST_OP_NOT, x);
    return fold_int_right(exprs, op, x, c);
}

/* x / c as a product where both give the same real number before rounding. */
static NstExpr divide_by_power_of_two(NstExprs *exprs, NstExpr x, NstExpr c)
{
    NstDtype type = type_of(exprs, c);
    int exponent;
    double divisor = nst_expr(exprs, c)->imm.f, fraction = frexp(divisor, &exponent), reciprocal = 1 / divisor;
    if (!isfinite(divisor) || fabs(fraction) != 0.5) return no_expr;
    bool normal = type == NST_F32 ? isnormal((float)reciprocal) != 0 : isnormal(reciprocal) != 0;
    return normal ? nst_expr_binary(exprs, NST_OP_MUL, x, nst_expr_float(exprs, type, reciprocal)) : no_expr;
}

/* x op c for f32 and f64. */
static NstExpr fold_float_right(NstExprs *exprs, NstScalarOp op, NstExpr x, NstExpr c)
{
    switch (op) {
    case NST_OP_ADD: return is_float_const(exprs, c, -0.0) ? x : no_expr;
    case NST_OP_SUB: return is_float_const(exprs, c, 0.0) ? x : no_expr;
    case NST_OP_MUL:
        if (is_float_const(exprs, c, 1.0)) return x;
        return is_float_const(exprs, c, -1.0) ? nst_expr_unary(exprs, NST_OP_NEG, x) : no_expr;
    case NST_OP_DIV: return is_float_const(exprs, c, 1.0) ? x : divide_by_power_of_two(exprs, x, c);
    default: return no_expr;
    }
}

static bool is_commutative(NstScalarOp op)
{
    switch (op) {
    case NST_OP_ADD:
    case NST_OP_MUL:
    case NST_OP_MIN:
    case NST_OP_MAX:
    case NST_OP_AND:
    case NST_OP_OR:
    case NST_OP_XOR:
    case NST_OP_EQ:
    case NST_OP_NE: return true;
    default: return false;
    }
}

/* The operation that means the same with its operands exchanged; NONE if there is none. */
static NstScalarOp exchanged(NstScalarOp op)
{
    switch (op) {
    case NST_OP_LT: return NST_OP_GT;
    case NST_OP_LE: return NST_OP_GE;
    case NST_OP_GT: return NST_OP_LT;
    case NST_OP_GE: return NST_OP_LE;
    default: return is_commutative(op) ? op : NST_OP_NONE;
    }
}

/* (x op c1) op c2 where the constants combine: wrapping integers, and min and max of all types. */
static NstExpr reassociate(NstExprs *exprs, NstScalarOp op, NstExpr left, NstExpr c)
{
    const NstExprNode *node = nst_expr(exprs, left);
    bool exact = !is_float_type(node->type) || op == NST_OP_MIN || op == NST_OP_MAX;
    bool associative = exact && is_commutative(op) && nst_scalar_info(op)->rule != NST_RULE_COMPARE;
    if (!associative || node->op != op || !is_const(exprs, node->arg[1])) return no_expr;
    NstExpr x = node->arg[0];
    return nst_expr_binary(exprs, op, x, nst_expr_binary(exprs, op, node->arg[1], c));
}

static NstExpr fold_right(NstExprs *exprs, NstScalarOp op, NstExpr x, NstExpr c)
{
    NstDtype type = type_of(exprs, x);
    NstExpr folded;
    if (is_float_type(type))
        folded = fold_float_right(exprs, op, x, c);
    else
        folded = type == NST_BOOL ? fold_bool_right(exprs, op, x, c) : fold_int_right(exprs, op, x, c);
    return folded.i ? folded : reassociate(exprs, op, x, c);
}

static bool has_operand(const NstExprs *exprs, NstExpr e, NstScalarOp op, NstExpr x)
{
    const NstExprNode *node = nst_expr(exprs, e);
    return node->op == op && (node->arg[0].i == x.i || node->arg[1].i == x.i);
}

/* (x op y) op x where taking x twice changes nothing. */
static NstExpr absorb(NstExprs *exprs, NstScalarOp op, NstExpr a, NstExpr b)
{
    if (op != NST_OP_AND && op != NST_OP_OR && op != NST_OP_MIN && op != NST_OP_MAX) return no_expr;
    if (has_operand(exprs, a, op, b)) return a;
    return has_operand(exprs, b, op, a) ? b : no_expr;
}

/* a + -b, a - -b, -a * -b. */
static NstExpr fold_signs(NstExprs *exprs, NstScalarOp op, NstExpr a, NstExpr b)
{
    const NstExprNode *left = nst_expr(exprs, a), *right = nst_expr(exprs, b);
    if (right->op != NST_OP_NEG) return no_expr;
    if (op == NST_OP_ADD) return nst_expr_binary(exprs, NST_OP_SUB, a, right->arg[0]);
    if (op == NST_OP_SUB) return nst_expr_binary(exprs, NST_OP_ADD, a, right->arg[0]);
    bool product = op == NST_OP_MUL || (op == NST_OP_DIV && is_float_type(left->type));
    return product && left->op == NST_OP_NEG ? nst_expr_binary(exprs, op, left->arg[0], right->arg[0]) : no_expr;
}

static NstExpr fold_binary(NstExprs *exprs, NstScalarOp op, NstExpr a, NstExpr b)
{
    NstExpr folded = fold_index(exprs, op, a, b);
    if (folded.i == 0 && a.i == b.i) folded = fold_equal(exprs, op, a);
    if (folded.i == 0) folded = absorb(exprs, op, a, b);
    if (folded.i == 0) folded = fold_signs(exprs, op, a, b);
    if (folded.i == 0 && is_const(exprs, b)) folded = fold_right(exprs, op, a, b);
    if (folded.i != 0 || !is_const(exprs, a) || is_const(exprs, b)) return folded;
    if (exchanged(op) != NST_OP_NONE) return nst_expr_binary(exprs, exchanged(op), b, a);
    bool zero_stays = op == NST_OP_SHL || op == NST_OP_SHR || op == NST_OP_SAR || op == NST_OP_DIV ||
                      op == NST_OP_FLOORDIV || op == NST_OP_MOD || op == NST_OP_REM;
    if (zero_stays && is_int_const(exprs, a, 0)) return a;
    return op == NST_OP_SUB && is_int_const(exprs, a, 0) ? nst_expr_unary(exprs, NST_OP_NEG, b) : no_expr;
}

/* -- identities of one and three operands ---------------------------------------------------------------------- */

/* not(a < b) is a >= b, but only where no NaN can be. */
static NstExpr fold_not(NstExprs *exprs, const NstExprNode *node)
{
    static const NstScalarOp opposite[NST_OP_COUNT] = {
        [NST_OP_EQ] = NST_OP_NE, [NST_OP_NE] = NST_OP_EQ, [NST_OP_LT] = NST_OP_GE,
        [NST_OP_LE] = NST_OP_GT, [NST_OP_GT] = NST_OP_LE, [NST_OP_GE] = NST_OP_LT};
    if (node->op == NST_OP_NOT) return node->arg[0];
    if (opposite[node->op] == NST_OP_NONE) return no_expr;
    bool ordered = node->op == NST_OP_EQ || node->op == NST_OP_NE || !is_float_type(type_of(exprs, node->arg[0]));
    return ordered ? nst_expr_binary(exprs, opposite[node->op], node->arg[0], node->arg[1]) : no_expr;
}

/* A float that is a whole number, an infinity or a NaN always. */
static bool is_integral(const NstExprs *exprs, const NstExprNode *node)
{
    switch (node->op) {
    case NST_OP_FLOOR:
    case NST_OP_CEIL:
    case NST_OP_TRUNC:
    case NST_OP_ROUND: return true;
    case NST_OP_CONVERT: return !is_float_type(type_of(exprs, node->arg[0]));
    default: return false;
    }
}

static NstExpr fold_unary(NstExprs *exprs, NstScalarOp op, NstExpr a)
{
    const NstExprNode *node = nst_expr(exprs, a);
    NstExpr folded = fold_index_unary(exprs, op, a);
    if (folded.i != 0) return folded;
    switch (op) {
    case NST_OP_NEG: return node->op == NST_OP_NEG ? node->arg[0] : no_expr;
    case NST_OP_NOT: return fold_not(exprs, node);
    case NST_OP_ABS:
        if (node->op == NST_OP_ABS || (nst_dtype_is_int(node->type) && !nst_dtype_is_signed(node->type))) return a;
        return node->op == NST_OP_NEG ? nst_expr_unary(exprs, op, node->arg[0]) : no_expr;
    case NST_OP_FLOOR:
    case NST_OP_CEIL:
    case NST_OP_TRUNC:
    case NST_OP_ROUND: return is_integral(exprs, node) ? a : no_expr;
    default: return no_expr;
    }
}

static NstExpr fold_select(NstExprs *exprs, NstExpr condition, NstExpr a, NstExpr b)
{
    const NstExprNode *node = nst_expr(exprs, condition);
    if (node->op == NST_OP_CONST) return node->imm.i ? a : b;
    if (a.i == b.i) return a;
    if (node->op == NST_OP_NOT) return nst_expr_ternary(exprs, NST_OP_SELECT, node->arg[0], b, a);
    const NstExprNode *then = nst_expr(exprs, a), *other = nst_expr(exprs, b);
    if (then->op == NST_OP_SELECT && then->arg[0].i == condition.i)
        return nst_expr_ternary(exprs, NST_OP_SELECT, condition, then->arg[1], b);
    if (other->op == NST_OP_SELECT && other->arg[0].i == condition.i)
        return nst_expr_ternary(exprs, NST_OP_SELECT, condition, a, other->arg[2]);
    if (type_of(exprs, a) != NST_BOOL) return no_expr;
    if (is_int_const(exprs, a, 1)) return nst_expr_binary(exprs, NST_OP_OR, condition, b);
    if (is_int_const(exprs, b, 0)) return nst_expr_binary(exprs, NST_OP_AND, condition, a);
    return no_expr;
}

/* a * 1 + c and a * b + -0 round once whatever the target. */
static NstExpr fold_fma(NstExprs *exprs, NstExpr a, NstExpr b, NstExpr c)
{
    if (is_const(exprs, a) && !is_const(exprs, b)) return nst_expr_ternary(exprs, NST_OP_FMA, b, a, c);
    if (is_float_const(exprs, b, 1.0)) return nst_expr_binary(exprs, NST_OP_ADD, a, c);
    if (is_float_const(exprs, b, -1.0)) return nst_expr_binary(exprs, NST_OP_SUB, c, a);
    return is_float_const(exprs, c, -0.0) ? nst_expr_binary(exprs, NST_OP_MUL, a, b) : no_expr;
}

/* -- conversions ----------------------------------------------------------------------------------------------- */

/* convert<to>(convert<middle>(x)) as one conversion, where that keeps the value. */
static NstExpr fold_convert_chain(NstExprs *exprs, NstDtype to, const NstExprNode *inner, bool saturate)
{
    if (inner->op != NST_OP_CONVERT && inner->op != NST_OP_CONVERT_SAT) return no_expr;
    NstExpr x = inner->arg[0];
    NstDtype from = type_of(exprs, x), middle = inner->type;
    bool same_kind = nst_dtype_is_float(from) == nst_dtype_is_float(middle);
    if (nst_scalar_convert_is_exact(middle, from) && (same_kind || nst_scalar_convert_is_exact(to, from)))
        return nst_expr_convert(exprs, to, x, saturate);
    bool wraps = !saturate && inner->op == NST_OP_CONVERT && nst_dtype_is_int(from) && nst_dtype_is_int(middle) &&
                 nst_dtype_is_int(to) && nst_dtype_info(to)->bits <= nst_dtype_info(middle)->bits;
    return wraps ? nst_expr_convert(exprs, to, x, false) : no_expr;
}

NstExpr nst_expr_convert(NstExprs *exprs, NstDtype to, NstExpr a, bool saturate)
{
    const NstExprNode *node = nst_expr(exprs, a);
    NST_ASSERT(nst_scalar_can_convert(to, node->type));
    if (to == node->type) return a;
    if (to == NST_BOOL || nst_scalar_convert_is_exact(to, node->type)) saturate = false;
    NstScalarOp op = saturate ? NST_OP_CONVERT_SAT : NST_OP_CONVERT;
    NstExpr folded = fold_consts(exprs, op, to, &a);
    if (folded.i == 0) folded = fold_convert_chain(exprs, to, node, saturate);
    if (folded.i == 0 && node->op == NST_OP_TRUNC && nst_dtype_is_int(to))
        folded = nst_expr_convert(exprs, to, node->arg[0], saturate);
    if (folded.i != 0) return folded;
    return nst_expr_intern(exprs, &(NstExprNode){.op = op, .type = to, .arg = {a}});
}

NstExpr nst_expr_bitcast(NstExprs *exprs, NstDtype to, NstExpr a)
{
    const NstExprNode *node = nst_expr(exprs, a);
    NST_ASSERT(nst_scalar_can_bitcast(to, node->type));
    if (to == node->type) return a;
    if (to == NST_BOOL || node->type == NST_BOOL) { /* any byte but 0 is true, and true is 1 */
        NstExpr byte =
            nst_expr_convert(exprs, NST_U8, node->type == NST_BOOL ? a : nst_expr_bitcast(exprs, NST_U8, a), false);
        return to == NST_BOOL ? nst_expr_convert(exprs, to, byte, false) : nst_expr_bitcast(exprs, to, byte);
    }
    if (node->op == NST_OP_BITCAST && nst_scalar_can_bitcast(to, type_of(exprs, node->arg[0])))
        return nst_expr_bitcast(exprs, to, node->arg[0]);
    NstExpr folded = fold_consts(exprs, NST_OP_BITCAST, to, &a);
    return folded.i ? folded : nst_expr_intern(exprs, &(NstExprNode){.op = NST_OP_BITCAST, .type = to, .arg = {a}});
}

/* -- entry points ---------------------------------------------------------------------------------------------- */

static NstExpr make_operation(NstExprs *exprs, NstScalarOp op, const NstExpr *arg, int n)
{
    NstDtype operand[3] = {NST_DTYPE_NONE, NST_DTYPE_NONE, NST_DTYPE_NONE};
    for (int k = 0; k < n; k++) operand[k] = type_of(exprs, arg[k]);
    NstDtype type = nst_scalar_result(op, operand, n);
    NST_ASSERT(type != NST_DTYPE_NONE);
    NstExpr folded = fold_consts(exprs, op, type, arg);
    if (folded.i == 0 && n == 1) folded = fold_unary(exprs, op, arg[0]);
    if (folded.i == 0 && n == 2) folded = fold_binary(exprs, op, arg[0], arg[1]);
    if (folded.i == 0 && op == NST_OP_SELECT) folded = fold_select(exprs, arg[0], arg[1], arg[2]);
    if (folded.i == 0 && op == NST_OP_FMA) folded = fold_fma(exprs, arg[0], arg[1], arg[2]);
    if (folded.i != 0) return folded;
    NstExprNode node = {.op = op, .type = type};
    for (int k = 0; k < n; k++) node.arg[k] = arg[k];
    return nst_expr_intern(exprs, &node);
}

NstExpr nst_expr_unary(NstExprs *exprs, NstScalarOp op, NstExpr a)
{
    return make_operation(exprs, op, (const NstExpr[]){a}, 1);
}

NstExpr nst_expr_binary(NstExprs *exprs, NstScalarOp op, NstExpr a, NstExpr b)
{
    return make_operation(exprs, op, (const NstExpr[]){a, b}, 2);
}

NstExpr nst_expr_ternary(NstExprs *exprs, NstScalarOp op, NstExpr a, NstExpr b, NstExpr c)
{
    return make_operation(exprs, op, (const NstExpr[]){a, b, c}, 3);
}

NstExpr nst_expr_make(NstExprs *exprs, NstScalarOp op, NstDtype type, const NstExpr *arg)
{
    if (op == NST_OP_CONVERT || op == NST_OP_CONVERT_SAT)
        return nst_expr_convert(exprs, type, arg[0], op == NST_OP_CONVERT_SAT);
    if (op == NST_OP_BITCAST) return nst_expr_bitcast(exprs, type, arg[0]);
    return make_operation(exprs, op, arg, nst_scalar_info(op)->arity);
}
