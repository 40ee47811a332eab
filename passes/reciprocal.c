/* reciprocal.c: division of a whole row by one value as a product with its reciprocal (softmax, norms).
 *
 * In: nests before fusion, whose form does not depend on what sizes let be fused: plans for open and for declared sizes divide
 * alike.  Out: in the values of maps and epilogues, x / d becomes x * (1 / d) where d is read from memory (not:
 * computed from sizes) and is the same all along the nest's last axis; "simplify" then computes 1 / d once a row.
 * A quotient that is rounded to a whole number (quantisation) stays one: an ulp would move it by a step.
 * Approximate: one rounding more, so at most 2 ulp from the quotient while |d| is in 2^-126 .. 2^126; outside, a reciprocal
 * may overflow or lose bits. */
#include "passes/pass.h"

typedef struct Row {
    NstModule *module;
    const bool *of_sizes; /* by buffer: computed from sizes alone */
    const NstNest *nest;
    NstSym last;
} Row;

typedef struct Leaves {
    const bool *of_sizes;
    bool load, arg;
} Leaves;

static void note_leaf(void *arg, NstExpr e, const NstExprNode *node)
{
    Leaves *leaves = arg;
    (void)e;
    leaves->load = leaves->load || (node->op == NST_OP_LOAD && !leaves->of_sizes[node->ref]);
    leaves->arg = leaves->arg || node->op == NST_OP_ARG;
}

static bool varies(const Row *row, NstExpr e, Leaves *leaves)
{
    NstExprs *exprs = row->module->exprs;
    *leaves = (Leaves){.of_sizes = row->of_sizes};
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

/* --- quotients that are rounded ------------------------------------------------------------------------------- */

typedef struct Rounded {
    NstExprs *exprs;
    bool *buffer;  /* by buffer: some nest rounds what it reads of it */
    bool quotient; /* a division is rounded in the expression itself */
} Rounded;

static bool is_rounding(const NstExprs *exprs, const NstExprNode *node)
{
    switch (node->op) {
    case NST_OP_ROUND:
    case NST_OP_FLOOR:
    case NST_OP_CEIL:
    case NST_OP_TRUNC: return true;
    case NST_OP_CONVERT:
        return !nst_dtype_is_float(node->type) && nst_dtype_is_float(nst_expr(exprs, node->arg[0])->type);
    default: return false;
    }
}

static void note_rounding(void *arg, NstExpr e, const NstExprNode *node)
{
    Rounded *rounded = arg;
    (void)e;
    if (!is_rounding(rounded->exprs, node)) return;
    const NstExprNode *of = nst_expr(rounded->exprs, node->arg[0]);
    if (of->op == NST_OP_LOAD) rounded->buffer[of->ref] = true;
    rounded->quotient |= of->op == NST_OP_DIV;
}

static void mark_rounded(NstModule *module, const NstGroup *group, bool *buffer)
{
    Rounded rounded = {module->exprs, buffer, false};
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstNest *nest = group->items.at[k].nest;
        if (!nest) {
            mark_rounded(module, group->items.at[k].group, buffer);
            continue;
        }
        for (uint32_t o = 0; o < nest->n_outs; o++)
            nst_expr_visit(module->exprs, nest->out[o].value, note_rounding, &rounded);
        for (uint32_t s = 0; s < nest->n_states; s++)
            nst_expr_visit(module->exprs, nest->state[s].step, note_rounding, &rounded);
    }
}

static bool is_rounded_quotient(NstModule *module, bool *rounded, const NstNestOut *out)
{
    Rounded here = {module->exprs, rounded, false};
    if (nst_expr(module->exprs, out->value)->op == NST_OP_DIV) return rounded[out->buffer.i];
    nst_expr_visit(module->exprs, out->value, note_rounding, &here);
    return here.quotient;
}

/* --- the pass -------------------------------------------------------------------------------------------------- */

/* By buffer: what is computed from sizes alone, and what is read to be rounded. */
typedef struct Marks {
    bool *of_sizes, *rounded;
} Marks;

static void rewrite_nest(NstModule *module, const Marks *marks, NstNest *nest)
{
    if (nest->n_axes == 0) return;
    const NstAxis *last = &nest->axis[nest->n_axes - 1];
    Row row = {module, marks->of_sizes, nest, last->var};
    for (uint32_t k = 0; k < nest->n_outs; k++)
        if (!is_rounded_quotient(module, marks->rounded, &nest->out[k]))
            nest->out[k].value = nst_expr_rewrite(module->exprs, nest->out[k].value, rewrite_division, &row);
}

static void rewrite_group(NstModule *module, const Marks *marks, NstGroup *group)
{
    for (uint32_t k = 0; k < group->items.n; k++) {
        if (group->items.at[k].nest)
            rewrite_nest(module, marks, group->items.at[k].nest);
        else
            rewrite_group(module, marks, group->items.at[k].group);
    }
}

/* Marks what is computed from sizes alone: a constant where sizes are declared, so that a division by it is left as it is. */
static void mark_sizes(NstModule *module, bool *of_sizes)
{
    bool *written = NST_NEW_ARRAY(module->arena, bool, module->buffers.n + 1);
    for (uint32_t k = 0; k < module->groups.n; k++) {
        const NstGroup *group = module->groups.at[k];
        const NstNest *nest = group->items.n == 1 && group->n_axes == 0 ? group->items.at[0].nest : NULL;
        if (!nest || nest->n_states || nest->n_lets) continue;
        for (uint32_t o = 0; o < nest->n_outs; o++) {
            Leaves leaves = {.of_sizes = of_sizes};
            nst_expr_visit(module->exprs, nest->out[o].value, note_leaf, &leaves);
            NstBuf to = nest->out[o].buffer;
            of_sizes[to.i] = !leaves.load && (!written[to.i] || of_sizes[to.i]);
            written[to.i] = true;
        }
    }
}

void nst_pass_reciprocal(NstModule *module)
{
    Marks marks = {NST_NEW_ARRAY(module->arena, bool, module->buffers.n + 1),
                   NST_NEW_ARRAY(module->arena, bool, module->buffers.n + 1)};
    mark_sizes(module, marks.of_sizes);
    for (uint32_t k = 0; k < module->groups.n; k++) mark_rounded(module, module->groups.at[k], marks.rounded);
    for (uint32_t k = 0; k < module->groups.n; k++) rewrite_group(module, &marks, module->groups.at[k]);
}
