/* merge_groups.c: narrow groups of columns side by side become one column axis.
 *
 * In: a product in groups, out[..., F*g + f, ...] with few columns f a group: vectors along f would be mostly empty.  Out: the
 * same with one axis c = F*g + f; the row operand is then read at g = floor(c / F), neighbouring lanes the same element. */
#include "passes/sched.h"

/* Axes g and f of an output index F*g + f + rest with F the extent of f, g in both operands, f in one; false if none. */
static bool find_groups(NstModule *module, const NstNest *nest, uint32_t *g, uint32_t *f)
{
    NstDims *dims = module->dims;
    NstContraction c;
    if (nest->n_outs != 1 || nest->n_lets || !nst_nest_contraction(module, nest, &c)) return false;
    const NstNestOut *out = &nest->out[0];
    for (uint32_t d = 0; d < out->n_index; d++)
        for (uint32_t a = 0; a < nest->n_axes; a++)
            for (uint32_t b = 0; b < nest->n_axes; b++) {
                NstDim together =
                    nst_dim_add(dims, nst_dim_mul(dims, nst_dim_sym(dims, nest->axis[a].var), nest->axis[b].extent),
                                nst_dim_sym(dims, nest->axis[b].var));
                bool shared = nst_expr_uses_sym(module->exprs, c.a, nest->axis[a].var) &&
                              nst_expr_uses_sym(module->exprs, c.b, nest->axis[a].var);
                if (a == b || !shared || !nst_dim_same(out->index[d], together)) continue;
                *g = a;
                *f = b;
                return true;
            }
    return false;
}

bool nst_merge_groups(NstModule *module, NstNest *nest)
{
    NstDims *dims = module->dims;
    uint32_t g, f;
    int64_t columns;
    if (!find_groups(module, nest, &g, &f) || !nst_dim_is_const(dims, nest->axis[f].extent, &columns)) return false;
    if (columns >= nst_target_lanes(module->target, nest->state[0].dtype)) return false;
    NstAxis both = nst_nest_axis(module, "gf", nst_dim_mul(dims, nest->axis[g].extent, nest->axis[f].extent));
    NstDim c = nst_dim_sym(dims, both.var);
    NstNestSubst subst;
    nst_subst_begin(&subst, module);
    nst_subst_set(&subst, nest->axis[g].var, nst_dim_floordiv(dims, c, nest->axis[f].extent));
    nst_subst_set(&subst, nest->axis[f].var, nst_dim_mod(dims, c, nest->axis[f].extent));
    NstAxis *axis = NST_NEW_ARRAY(module->arena, NstAxis, nest->n_axes);
    uint32_t n = 0;
    for (uint32_t k = 0; k < nest->n_axes; k++)
        if (k != g) axis[n++] = k == f ? both : nest->axis[k];
    nest->axis = axis;
    nest->n_axes = n;
    nest->out = nst_copy(module->arena, nest->out, sizeof *nest->out);
    nest->state = nst_copy(module->arena, nest->state, nest->n_states * sizeof *nest->state);
    nst_subst_end(&subst, nest);
    return true;
}
