/* lanes.c: a reduction with lanes as two nests without: one that sums each lane in order, one that merges them by the tree
 * of ir/order.h.  For schedules that know only sums in order. */
#include "passes/lanes.h"

/* axis + lanes * i replaces the innermost reduction index; what passes the end is guarded off. */
static NstNest *lane_sums(NstModule *module, const NstNest *nest, const NstBuf *partial)
{
    NstDims *dims = module->dims;
    NstNest *sums = nst_nest_clone(module, nest);
    uint32_t last = sums->n_reduce - 1, n_syms;
    NstAxis whole = sums->reduce[last], lane = nst_nest_axis(module, "lane", nst_dim_const(dims, nest->lanes));
    NstDim n = whole.extent, lanes = nst_dim_const(dims, nest->lanes);
    NstAxis part = nst_nest_axis(module, "r", nst_dim_ceildiv(dims, n, lanes));
    NstDim element =
        nst_dim_add(dims, nst_dim_mul(dims, nst_dim_sym(dims, part.var), lanes), nst_dim_sym(dims, lane.var));
    n_syms = nst_dims_sym_count(dims) + 1;
    NstDim *table = NST_NEW_ARRAY(module->arena, NstDim, n_syms);
    table[whole.var.i] = element;
    sums->reduce[last] = part;
    nst_nest_subst(module, sums, table, n_syms);
    NstAxis *axis = NST_NEW_ARRAY(module->arena, NstAxis, sums->n_axes + 1);
    memcpy(axis, sums->axis, sums->n_axes * sizeof *axis);
    axis[sums->n_axes] = lane;
    sums->axis = axis;
    sums->n_axes++;
    sums->lanes = 1;
    if (nst_dim_compare(dims, nst_dim_mod(dims, n, lanes), NST_DIM_EQ, nst_dim_const(dims, 0)) != NST_TRUE) {
        NstExpr inside = nst_expr_binary(module->exprs, NST_OP_LT, nst_expr_index(module->exprs, element),
                                         nst_expr_index(module->exprs, n));
        sums->guard = sums->guard.i ? nst_expr_binary(module->exprs, NST_OP_AND, sums->guard, inside) : inside;
    }
    sums->n_outs = sums->n_states;
    sums->out = NST_NEW_ARRAY(module->arena, NstNestOut, sums->n_states);
    for (uint32_t k = 0; k < sums->n_states; k++) {
        NstDim *index = NST_NEW_ARRAY(module->arena, NstDim, sums->n_axes);
        for (uint32_t a = 0; a < sums->n_axes; a++) index[a] = nst_dim_sym(dims, sums->axis[a].var);
        NstExpr state = nst_expr_arg(module->exprs, sums->state[k].dtype, k);
        sums->out[k] = (NstNestOut){partial[k], sums->n_axes, index, state};
    }
    return sums;
}

/* The merged states as an expression over the partial ones. */
static void tree(NstModule *module, const NstNest *nest, NstExpr *state, NstExpr *merged)
{
    uint32_t m = nest->n_states;
    for (uint32_t h = nest->lanes / 2; h >= 1; h /= 2)
        for (uint32_t l = 0; l < h; l++) {
            NstExpr *side = NST_NEW_ARRAY(module->arena, NstExpr, 3 * m);
            for (uint32_t k = 0; k < m; k++) {
                side[k] = state[l * m + k];
                side[m + k] = state[(l + h) * m + k];
            }
            for (uint32_t k = 0; k < m; k++)
                side[2 * m + k] = nst_expr_subst_args(module->exprs, nest->state[k].merge, side, 2 * m);
            for (uint32_t k = 0; k < m; k++) state[l * m + k] = side[2 * m + k];
        }
    for (uint32_t k = 0; k < m; k++) merged[k] = state[k];
}

static NstNest *merge_lanes(NstModule *module, const NstNest *nest, const NstBuf *partial)
{
    NstDims *dims = module->dims;
    NstNest *map = nst_nest_clone(module, nest);
    uint32_t m = nest->n_states;
    NstExpr *state = NST_NEW_ARRAY(module->arena, NstExpr, (size_t)nest->lanes * m);
    NstDim index[NST_MAX_RANK + 1];
    for (uint32_t a = 0; a < map->n_axes; a++) index[a] = nst_dim_sym(dims, map->axis[a].var);
    for (uint32_t l = 0; l < nest->lanes; l++)
        for (uint32_t k = 0; k < m; k++) {
            index[map->n_axes] = nst_dim_const(dims, l);
            state[l * m + k] = nst_expr_load(module->exprs, nest->state[k].dtype, partial[k], index, map->n_axes + 1);
        }
    NstExpr *merged = NST_NEW_ARRAY(module->arena, NstExpr, m);
    tree(module, nest, state, merged);
    for (uint32_t k = 0; k < map->n_outs; k++)
        map->out[k].value = nst_expr_subst_args(module->exprs, map->out[k].value, merged, m);
    map->n_states = map->n_reduce = map->lanes = 0;
    map->guard = (NstExpr){0};
    return map;
}

bool nst_split_lanes(NstModule *module, const NstNest *nest, NstLaneSplit *split)
{
    *split = (NstLaneSplit){0};
    if (nest->lanes <= 1 || nest->n_axes >= NST_MAX_RANK || nest->n_lets) return false;
    NstDim shape[NST_MAX_RANK];
    for (uint32_t a = 0; a < nest->n_axes; a++) shape[a] = nest->axis[a].extent;
    shape[nest->n_axes] = nst_dim_const(module->dims, nest->lanes);
    split->partial = NST_NEW_ARRAY(module->arena, NstBuf, nest->n_states);
    for (uint32_t k = 0; k < nest->n_states; k++)
        split->partial[k] =
            nst_module_buffer(module, "lanes", nest->state[k].dtype, (int)nest->n_axes + 1, shape, NST_ROLE_TEMP);
    split->n_partial = nest->n_states;
    split->sums = lane_sums(module, nest, split->partial);
    split->merge = merge_lanes(module, nest, split->partial);
    return true;
}
