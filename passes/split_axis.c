/* split_axis.c: splits axes of nests where an index divides them, so that indices become linear again. */
#include "passes/flat.h"

void nst_nest_split_axis(NstModule *module, NstNest *nest, uint32_t k, NstDim inner)
{
    NstAxis whole = nest->axis[k];
    const char *name = nst_dims_sym(module->dims, whole.var)->name;
    NstAxis outer = nst_nest_axis(module, name, nst_dim_floordiv(module->dims, whole.extent, inner));
    NstAxis part = nst_nest_axis(module, name, inner);
    NstAxis *axis = NST_NEW_ARRAY(module->arena, NstAxis, nest->n_axes + 1);
    for (uint32_t a = 0; a < nest->n_axes; a++) axis[a + (a > k)] = nest->axis[a];
    axis[k] = outer;
    axis[k + 1] = part;
    NstNestSubst subst;
    nst_subst_begin(&subst, module);
    NstDim high = nst_dim_mul(module->dims, nst_dim_sym(module->dims, outer.var), inner);
    nst_subst_set(&subst, whole.var, nst_dim_add(module->dims, high, nst_dim_sym(module->dims, part.var)));
    nest->axis = axis;
    nest->n_axes++;
    nst_subst_end(&subst, nest);
}

typedef struct DivideVisit {
    NstModule *module;
    const NstNest *nest;
    uint32_t first; /* axes before are left whole */
    int axis;       /* found: position of the axis to split, else -1 */
    NstDim inner;
} DivideVisit;

/* floordiv(axis, c) or mod(axis, c) with c a proper divisor of the axis's extent. */
static void look_in(DivideVisit *v, NstDim dim)
{
    NstDims *dims = v->module->dims;
    const NstDimNode *node = nst_dim_node(dims, dim);
    if (v->axis >= 0) return;
    for (uint32_t k = 0; k < node->n; k++) {
        look_in(v, node->arg[k]);
        node = nst_dim_node(dims, dim);
    }
    if ((node->op != NST_DIM_FLOORDIV && node->op != NST_DIM_MOD) || v->axis >= 0) return;
    const NstDimNode *of = nst_dim_node(dims, node->arg[0]);
    NstDim inner = node->arg[1];
    if (of->op != NST_DIM_SYM) return;
    for (uint32_t k = v->first; k < v->nest->n_axes; k++) {
        if (v->nest->axis[k].var.i != of->sym.i) continue;
        NstDim rest = nst_dim_mod(dims, v->nest->axis[k].extent, inner);
        int64_t zero;
        if (!nst_dim_is_const(dims, rest, &zero) || zero != 0) return;
        v->axis = (int)k;
        v->inner = inner;
        return;
    }
}

static void visit_divided(void *arg, NstExpr e, const NstExprNode *node)
{
    DivideVisit *v = arg;
    (void)e;
    for (uint32_t k = 0; k < node->n_index; k++) look_in(v, node->index[k]);
}

static bool find_divided(NstModule *module, const NstNest *nest, uint32_t first, DivideVisit *v)
{
    *v = (DivideVisit){module, nest, first, -1, {0}};
    for (uint32_t k = 0; k < nest->n_lets; k++) nst_expr_visit(module->exprs, nest->let[k].value, visit_divided, v);
    for (uint32_t k = 0; k < nest->n_states; k++) nst_expr_visit(module->exprs, nest->state[k].step, visit_divided, v);
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        nst_expr_visit(module->exprs, nest->out[k].value, visit_divided, v);
        for (uint32_t d = 0; d < nest->out[k].n_index; d++) look_in(v, nest->out[k].index[d]);
    }
    return v->axis >= 0;
}

void nst_nest_split_divided(NstModule *module, NstNest *nest, uint32_t first)
{
    DivideVisit v;
    while (nest->n_axes < NST_MAX_RANK && find_divided(module, nest, first, &v))
        nst_nest_split_axis(module, nest, (uint32_t)v.axis, v.inner);
}
