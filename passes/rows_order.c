/* rows_order.c: reductions whose result does not depend on the order of their elements run in that of memory.
 *
 * In: a flat nest.  Out: where every state is a minimum, a maximum, a bitwise operation or a sum or product of integers (which wrap), its reduced
 * axes as its first load runs through memory, merged where they can be, and lanes where the innermost one is adjacent. */
#include "passes/rows_impl.h"

#include "ir/order.h"

#include <stdlib.h>

static bool is_free(NstScalarOp op, NstDtype type)
{
    switch (op) {
    case NST_OP_MIN: /* NaN wins, -0 < +0 (ir/scalar.def) */
    case NST_OP_MAX:
    case NST_OP_AND:
    case NST_OP_OR:
    case NST_OP_XOR: return true;
    case NST_OP_ADD:
    case NST_OP_MUL: return !nst_dtype_is_float(type);
    default: return false;
    }
}

static bool is_arg(const NstExprs *exprs, NstExpr e, uint32_t which)
{
    const NstExprNode *node = nst_expr(exprs, e);
    return node->op == NST_OP_ARG && node->ref == which;
}

static void note_arg(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    *(bool *)arg |= node->op == NST_OP_ARG;
}

/* step = op(state, element) and merge = op(left, right), the same op, which takes its operands in any order. */
static bool state_is_free(NstExprs *exprs, const NstNest *nest, uint32_t k)
{
    const NstExprNode step = *nst_expr(exprs, nest->state[k].step), merge = *nst_expr(exprs, nest->state[k].merge);
    if (step.op != merge.op || !is_free(step.op, step.type)) return false;
    if (!is_arg(exprs, merge.arg[0], k) || !is_arg(exprs, merge.arg[1], nest->n_states + k)) return false;
    bool first = is_arg(exprs, step.arg[0], k), uses_state = false;
    if (!first && !is_arg(exprs, step.arg[1], k)) return false;
    nst_expr_visit(exprs, step.arg[first], note_arg, &uses_state);
    return !uses_state;
}

/* The distance of neighbours along reduced axis k in the first load that moves with any; false if it is not known. */
static bool distance(NstModule *module, const NstNest *nest, const NstTouched *t, uint32_t k, int64_t *stride)
{
    for (uint32_t a = 0; a < t->address.n; a++) {
        bool moves = false;
        for (uint32_t r = 0; r < nest->n_reduce; r++)
            moves = moves || nst_dim_uses(module->dims, t->address.at[a], nest->reduce[r].var);
        if (!moves) continue;
        *stride = 0;
        return !nst_dim_uses(module->dims, t->address.at[a], nest->reduce[k].var) ||
               nst_dim_stride(module->dims, t->address.at[a], nest->reduce[k].var, stride);
    }
    return false;
}

/* Sorts the reduced axes, those further apart outside; false if that cannot be said. */
static bool sort_axes(NstModule *module, NstNest *nest)
{
    int64_t stride[NST_MAX_RANK];
    NstTouched t;
    nst_touched(module, nest, &t);
    for (uint32_t k = 0; k < nest->n_reduce; k++)
        if (!distance(module, nest, &t, k, &stride[k])) return false;
    for (uint32_t k = 1; k < nest->n_reduce; k++)
        for (uint32_t at = k; at > 0 && llabs(stride[at - 1]) < llabs(stride[at]); at--) {
            NstAxis axis = nest->reduce[at];
            int64_t apart = stride[at];
            nest->reduce[at] = nest->reduce[at - 1], stride[at] = stride[at - 1];
            nest->reduce[at - 1] = axis, stride[at - 1] = apart;
        }
    return true;
}

static bool is_adjacent(NstModule *module, const NstNest *nest)
{
    NstTouched t;
    NstSym last = nest->reduce[nest->n_reduce - 1].var;
    int64_t stride;
    nst_touched(module, nest, &t);
    for (uint32_t k = 0; k < t.address.n; k++)
        if (nst_dim_uses(module->dims, t.address.at[k], last) &&
            (!nst_dim_stride(module->dims, t.address.at[k], last, &stride) || stride != 1))
            return false;
    return true;
}

void nst_rows_free_order(NstModule *module, NstNest *flat)
{
    if (!flat->n_reduce || flat->n_lets) return;
    for (uint32_t k = 0; k < flat->n_states; k++)
        if (!state_is_free(module->exprs, flat, k)) return;
    if (!sort_axes(module, flat)) return;
    nst_flat_merge_reduced(module, flat);
    uint32_t lanes = (uint32_t)nst_order_reduce_lanes(module->dims, flat->reduce[flat->n_reduce - 1].extent, true);
    if (!is_adjacent(module, flat))
        flat->lanes = 1;
    else if (lanes > flat->lanes)
        flat->lanes = lanes;
}
