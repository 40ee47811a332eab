/* breaks.c: where along an axis the conditions and clamps of a nest change: loops are split there, so that pads and concats
 * cost no select. */
#include "passes/flat.h"

typedef struct BreakVisit {
    NstWriter *w;
    const NstNest *nest;
    uint32_t n_common, axis;
    NST_VEC(NstDim) found;
} BreakVisit;

/* True if dim depends on no axis of the nest that is not bound outside. */
static bool is_fixed(const BreakVisit *v, NstDim dim)
{
    for (uint32_t k = v->n_common; k < v->nest->n_axes; k++)
        if (nst_dim_uses(v->w->module->dims, dim, v->nest->axis[k].var)) return false;
    for (uint32_t k = 0; k < v->nest->n_lets; k++)
        if (nst_dim_uses(v->w->module->dims, dim, v->nest->let[k].var)) return false;
    for (uint32_t k = 0; k < v->nest->n_reduce; k++)
        if (nst_dim_uses(v->w->module->dims, dim, v->nest->reduce[k].var)) return false;
    return true;
}

/* Notes the place where `difference >= 0` changes. */
static void note(BreakVisit *v, NstDim difference)
{
    NstDims *dims = v->w->module->dims;
    NstSym var = v->nest->axis[v->axis].var;
    NstDim coef, rest, at;
    int64_t c;
    if (!nst_dim_uses(dims, difference, var)) return;
    if (!nst_dim_linear(dims, difference, var, &coef, &rest) || !nst_dim_is_const(dims, coef, &c) || c == 0) return;
    if (!is_fixed(v, rest)) return;
    rest = nst_writer_dim(v->w, rest);
    if (c > 0)
        at = nst_dim_ceildiv(dims, nst_dim_mul_const(dims, rest, -1), nst_dim_const(dims, c));
    else
        at = nst_dim_add_const(dims, nst_dim_floordiv(dims, rest, nst_dim_const(dims, -c)), 1);
    NstDim extent = nst_writer_dim(v->w, v->nest->axis[v->axis].extent);
    at = nst_dim_min(dims, nst_dim_max(dims, at, nst_dim_const(dims, 0)), extent);
    if (nst_dim_same(at, nst_dim_const(dims, 0)) || nst_dim_same(at, extent)) return;
    for (uint32_t k = 0; k < v->found.n; k++)
        if (nst_dim_same(v->found.at[k], at)) return;
    nst_vec_push(v->w->module->arena, &v->found, at);
}

static void look_in_dim(BreakVisit *v, NstDim dim)
{
    NstDims *dims = v->w->module->dims;
    const NstDimNode *node = nst_dim_node(dims, dim);
    /* Where both sides are equal either serves: the place is put where the piece that is clamped to ends or begins. */
    if (node->op == NST_DIM_MIN || node->op == NST_DIM_MAX) {
        NstDim difference = nst_dim_sub(dims, node->arg[0], node->arg[1]);
        int64_t c;
        NstSym var = v->nest->axis[v->axis].var;
        bool is_min = nst_dim_node(dims, dim)->op == NST_DIM_MIN;
        if (nst_dim_stride(dims, difference, var, &c) && c != 0)
            note(v, (c > 0) == is_min ? nst_dim_add_const(dims, difference, -1) : difference);
    }
    node = nst_dim_node(dims, dim);
    for (uint32_t k = 0; k < node->n; k++) {
        look_in_dim(v, node->arg[k]);
        node = nst_dim_node(dims, dim);
    }
}

static bool side_of(BreakVisit *v, NstExpr e, NstDim *dim)
{
    const NstExprNode *node = nst_expr(v->w->module->exprs, e);
    if (node->op == NST_OP_INDEX) *dim = node->index[0];
    if (node->op == NST_OP_CONST && node->type == NST_I64) *dim = nst_dim_const(v->w->module->dims, node->imm.i);
    return dim->i != 0;
}

static void visit_break(void *arg, NstExpr e, const NstExprNode *node)
{
    BreakVisit *v = arg;
    (void)e;
    NstDims *dims = v->w->module->dims;
    NstDim a = {0}, b = {0};
    switch (node->op) {
    case NST_OP_LOAD: look_in_dim(v, node->index[0]); return;
    case NST_OP_GE:
    case NST_OP_LT:
        if (side_of(v, node->arg[0], &a) && side_of(v, node->arg[1], &b)) note(v, nst_dim_sub(dims, a, b));
        return;
    case NST_OP_GT:
    case NST_OP_LE:
        if (side_of(v, node->arg[0], &a) && side_of(v, node->arg[1], &b))
            note(v, nst_dim_add_const(dims, nst_dim_sub(dims, a, b), -1));
        return;
    default: return;
    }
}

uint32_t nst_breaks(NstWriter *w, const NstNest *nest, uint32_t n_common, uint32_t k, NstDim *at, uint32_t max)
{
    BreakVisit v = {.w = w, .nest = nest, .n_common = n_common, .axis = k};
    NstExprs *exprs = w->module->exprs;
    NstDims *dims = w->module->dims;
    for (uint32_t o = 0; o < nest->n_outs; o++) nst_expr_visit(exprs, nest->out[o].value, visit_break, &v);
    uint32_t n = 0;
    for (uint32_t f = 0; f < v.found.n && n < max; f++) {
        uint32_t place = n;
        bool ordered = true;
        for (; place > 0; place--) {
            if (nst_dim_compare(dims, at[place - 1], NST_DIM_LE, v.found.at[f]) == NST_TRUE) break;
            if (nst_dim_compare(dims, at[place - 1], NST_DIM_GE, v.found.at[f]) != NST_TRUE) ordered = false;
        }
        if (!ordered) continue;
        for (uint32_t m = n; m > place; m--) at[m] = at[m - 1];
        at[place] = v.found.at[f];
        n++;
    }
    return n;
}
