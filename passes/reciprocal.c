/* reciprocal.c: division of a whole row by one value as a product with its reciprocal (softmax, norms).
 *
 * In: nests after fusion.  Out: in the values of maps and epilogues, x / d becomes x * (1 / d) where d is read from memory and is
 * the same all along the nest's last axis; "simplify" then computes 1 / d once a row.  Approximate: one rounding more, so at most
 * 2 ulp from the quotient while |d| is in 2^-126 .. 2^126; outside, a reciprocal may overflow or lose bits. */
#include "passes/pass.h"

/* Along fewer elements than this the extra operation does not pay: a division costs about as much as five products. */
#define LEAST_EXTENT 8

typedef struct Row {
    NstModule *module;
    const NstNest *nest;
    NstSym last;
} Row;

typedef struct Leaves {
    bool load, arg;
} Leaves;

static void note_leaf(void *arg, NstExpr e, const NstExprNode *node)
{
    Leaves *leaves = arg;
    (void)e;
    leaves->load = leaves->load || node->op == NST_OP_LOAD;
    leaves->arg = leaves->arg || node->op == NST_OP_ARG;
}

static bool varies(const Row *row, NstExpr e, Leaves *leaves)
{
    NstExprs *exprs = row->module->exprs;
    *leaves = (Leaves){0};
    nst_expr_visit(exprs, e, note_leaf, leaves);
    if (leaves->arg || nst_expr_uses_sym(exprs, e, row->last)) return true;
    for (uint32_t k = 0; k < row->nest->n_lets; k++)
        if (nst_expr_uses_sym(exprs, e, row->nest->let[k].var)) return true;
    return false;
}

static NstExpr rewrite_division(void *arg, NstExprs *exprs, NstExpr rebuilt)
{
    const Row *row = arg;
    const NstExprNode node = *nst_expr(exprs, rebuilt);
    Leaves leaves;
    if (node.op != NST_OP_DIV || !nst_dtype_is_float(node.type)) return (NstExpr){0};
    if (varies(row, node.arg[1], &leaves) || !leaves.load || !varies(row, node.arg[0], &leaves)) return (NstExpr){0};
    NstExpr one = nst_expr_float(exprs, node.type, 1);
    return nst_expr_binary(exprs, NST_OP_MUL, node.arg[0], nst_expr_binary(exprs, NST_OP_DIV, one, node.arg[1]));
}

static void rewrite_nest(NstModule *module, NstNest *nest)
{
    int64_t extent;
    if (nest->n_axes == 0) return;
    const NstAxis *last = &nest->axis[nest->n_axes - 1];
    if (nst_dim_is_const(module->dims, last->extent, &extent) && extent < LEAST_EXTENT) return;
    Row row = {module, nest, last->var};
    for (uint32_t k = 0; k < nest->n_outs; k++)
        nest->out[k].value = nst_expr_rewrite(module->exprs, nest->out[k].value, rewrite_division, &row);
}

static void rewrite_group(NstModule *module, NstGroup *group)
{
    for (uint32_t k = 0; k < group->items.n; k++) {
        if (group->items.at[k].nest)
            rewrite_nest(module, group->items.at[k].nest);
        else
            rewrite_group(module, group->items.at[k].group);
    }
}

void nst_pass_reciprocal(NstModule *module)
{
    for (uint32_t k = 0; k < module->groups.n; k++) rewrite_group(module, module->groups.at[k]);
}
