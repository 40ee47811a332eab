/* guard.c: see guard.h. */
#include "passes/guard.h"

static bool add_comparison(NstModule *module, const NstExprNode *node, NstConditions *conditions)
{
    NstDims *dims = module->dims;
    NstDim side[2];
    if (node->op != NST_OP_GE && node->op != NST_OP_LE && node->op != NST_OP_GT && node->op != NST_OP_LT) return false;
    for (int k = 0; k < 2; k++) {
        const NstExprNode *operand = nst_expr(module->exprs, node->arg[k]);
        if (operand->op == NST_OP_INDEX)
            side[k] = operand->index[0];
        else if (operand->op == NST_OP_CONST && operand->type == NST_I64)
            side[k] = nst_dim_const(dims, operand->imm.i);
        else
            return false;
    }
    NstDim a = side[0], b = side[1];
    NstDim difference;
    switch (node->op) {
    case NST_OP_GE: difference = nst_dim_sub(dims, a, b); break;
    case NST_OP_LE: difference = nst_dim_sub(dims, b, a); break;
    case NST_OP_GT: difference = nst_dim_add_const(dims, nst_dim_sub(dims, a, b), -1); break;
    case NST_OP_LT: difference = nst_dim_add_const(dims, nst_dim_sub(dims, b, a), -1); break;
    default: return false;
    }
    nst_vec_push(module->arena, &conditions->nonnegative, difference);
    return true;
}

static void split(NstModule *module, NstExpr guard, NstConditions *conditions)
{
    const NstExprNode node = *nst_expr(module->exprs, guard);
    if (node.op == NST_OP_AND) {
        split(module, node.arg[0], conditions);
        split(module, node.arg[1], conditions);
    } else if (node.op == NST_OP_CONST && node.imm.i) {
        return;
    } else if (!add_comparison(module, &node, conditions)) {
        conditions->rest =
            conditions->rest.i ? nst_expr_binary(module->exprs, NST_OP_AND, conditions->rest, guard) : guard;
    }
}

void nst_conditions_of(NstModule *module, NstExpr guard, NstConditions *conditions)
{
    *conditions = (NstConditions){0};
    if (guard.i) split(module, guard, conditions);
}

static bool is_nonnegative(NstDims *dims, NstDim e)
{
    int64_t least, most;
    nst_dim_bounds(dims, e, &least, &most);
    return least >= 0;
}

static bool is_among(const NstConditions *conditions, NstDim e)
{
    for (uint32_t k = 0; k < conditions->nonnegative.n; k++)
        if (nst_dim_same(conditions->nonnegative.at[k], e)) return true;
    return false;
}

bool nst_conditions_are_inside(NstModule *module, NstExpr guard, const NstExprNode *load)
{
    NstDims *dims = module->dims;
    const NstBuffer *from = &nst_module_get(module, (NstBuf){load->ref})->buffer;
    NstConditions conditions, met = {0};
    nst_conditions_of(module, guard, &conditions);
    if (conditions.rest.i) return false;
    for (uint32_t i = 0; i < load->n_index; i++) {
        NstDim behind = nst_dim_add_const(dims, nst_dim_sub(dims, from->shape[i], load->index[i]), -1);
        NstDim end[2] = {load->index[i], behind};
        for (int k = 0; k < 2; k++) {
            if (!is_among(&conditions, end[k]) && !is_nonnegative(dims, end[k])) return false;
            nst_vec_push(module->arena, &met.nonnegative, end[k]);
        }
    }
    for (uint32_t k = 0; k < conditions.nonnegative.n; k++)
        if (!is_among(&met, conditions.nonnegative.at[k])) return false;
    return true;
}

/* True if every index variable in e is accepted. */
static bool only_bound(NstDims *dims, NstDim e, bool (*bound)(void *arg, NstSym sym), void *arg)
{
    const NstDimNode *node = nst_dim_node(dims, e);
    if (node->op == NST_DIM_SYM) return nst_dims_sym(dims, node->sym)->kind != NST_SYM_INDEX || bound(arg, node->sym);
    for (uint32_t k = 0; k < node->n; k++)
        if (!only_bound(dims, node->arg[k], bound, arg)) return false;
    return true;
}

NstConditionSet nst_conditions_tighten(NstWriter *w, const NstConditions *conditions, NstConditionSet set, NstSym axis,
                                       bool (*bound)(void *arg, NstSym sym), void *arg, NstDim *begin, NstDim *end)
{
    NstDims *dims = w->module->dims;
    for (uint32_t k = 0; k < conditions->nonnegative.n && k < 64; k++) {
        NstDim coef, rest, e = conditions->nonnegative.at[k];
        int64_t c;
        if (!nst_condition_in(set, k) || !nst_dim_uses(dims, e, axis)) continue;
        if (!nst_dim_linear(dims, e, axis, &coef, &rest) || !nst_dim_is_const(dims, coef, &c) || c == 0) continue;
        if (!only_bound(dims, rest, bound, arg)) continue;
        rest = nst_writer_dim(w, rest);
        if (c > 0) { /* v >= ceil(-rest / c) */
            NstDim least = nst_dim_ceildiv(dims, nst_dim_mul_const(dims, rest, -1), nst_dim_const(dims, c));
            *begin = nst_dim_max(dims, *begin, least);
        } else { /* v <= floor(rest / -c) */
            NstDim most = nst_dim_floordiv(dims, rest, nst_dim_const(dims, -c));
            *end = nst_dim_min(dims, *end, nst_dim_add_const(dims, most, 1));
        }
        set &= ~((NstConditionSet)1 << k);
    }
    return set;
}

NstConditionSet nst_conditions_bound(NstModule *module, const NstConditions *conditions, NstConditionSet set,
                                     bool (*bound)(void *arg, NstSym sym), void *arg)
{
    NstConditionSet result = 0;
    for (uint32_t k = 0; k < conditions->nonnegative.n && k < 64; k++)
        if (nst_condition_in(set, k) && only_bound(module->dims, conditions->nonnegative.at[k], bound, arg))
            result |= (NstConditionSet)1 << k;
    return result;
}

NstExpr nst_conditions_now(NstWriter *w, const NstConditions *conditions, NstConditionSet set, bool with_rest)
{
    NstExprs *exprs = w->module->exprs;
    NstDim zero = nst_dim_const(w->module->dims, 0);
    NstExpr all = {0};
    for (uint32_t k = 0; k < conditions->nonnegative.n; k++) {
        if (!nst_condition_in(set, k)) continue;
        NstDim e = nst_writer_dim(w, conditions->nonnegative.at[k]);
        switch (nst_dim_compare(w->module->dims, e, NST_DIM_GE, zero)) {
        case NST_TRUE: continue;
        case NST_FALSE: return nst_expr_int(exprs, NST_BOOL, 0);
        case NST_UNKNOWN: break;
        }
        NstExpr one = nst_expr_binary(exprs, NST_OP_GE, nst_expr_index(exprs, e), nst_expr_int(exprs, NST_I64, 0));
        all = all.i ? nst_expr_binary(exprs, NST_OP_AND, all, one) : one;
    }
    if (!with_rest || !conditions->rest.i) return all;
    NstExpr rest = nst_writer_expr(w, conditions->rest);
    return all.i ? nst_expr_binary(exprs, NST_OP_AND, all, rest) : rest;
}
