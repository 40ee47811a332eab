/* work.c: see work.h. */
#include "passes/work.h"

/* Costs in units of 1 / NST_WORK_A_NS ns of one core with AVX-512 (design/measurements, 2026-11): 20 operations an element take 0.31 ns,
 * an exp 0.23 ns, an FMA of a contraction 1/85 ns; an element written and read back takes 0.1 (L2) to 0.4 ns (memory).  An element of weights
 * streams in 0.018 (L2) to 0.037 ns (L3): a product of one row takes that, not the time of its FMAs. */
enum { COST_OPERATION = 1, COST_FUNCTION = 16, COST_LOAD = 4, COST_ELEMENT = 16, COST_STREAM = 1 };

typedef struct Cost {
    int64_t operations, loads;
} Cost;

static void add_cost(void *arg, NstExpr e, const NstExprNode *node)
{
    Cost *cost = arg;
    (void)e;
    if (node->op == NST_OP_LOAD)
        cost->loads++;
    else if (node->op > NST_OP_LET)
        cost->operations += nst_scalar_info(node->op)->expanded ? COST_FUNCTION : COST_OPERATION;
}

static int64_t term_cost(NstModule *module, const NstNest *nest)
{
    NstContraction contraction;
    Cost cost = {0, 0};
    for (uint32_t s = 0; s < nest->n_states; s++) nst_expr_visit(module->exprs, nest->state[s].step, add_cost, &cost);
    if (nst_nest_contraction(module, nest, &contraction)) return cost.operations; /* loads are shared by a tile */
    return cost.operations + COST_LOAD * cost.loads;
}

static int64_t point_cost(NstModule *module, const NstNest *nest)
{
    Cost cost = {0, 0};
    for (uint32_t o = 0; o < nest->n_outs; o++) nst_expr_visit(module->exprs, nest->out[o].value, add_cost, &cost);
    return COST_ELEMENT * (int64_t)nest->n_outs + cost.operations + COST_LOAD * cost.loads;
}

/* A variable of a loop in the dim; none if there is none. */
static NstSym index_in(const NstDims *dims, NstDim dim)
{
    const NstDimNode *node = nst_dim_node(dims, dim);
    if (node->op == NST_DIM_SYM)
        return nst_dims_sym_info(dims, node->sym)->kind == NST_SYM_INDEX ? node->sym : (NstSym){0};
    NstSym found = {0};
    for (uint32_t k = 0; k < node->n && !found.i; k++) found = index_in(dims, node->arg[k]);
    return found;
}

/* An extent that depends on where a loop is counts as in the first iteration. */
static NstDim first_extent(NstDims *dims, NstDim extent)
{
    for (NstSym at = index_in(dims, extent); at.i; at = index_in(dims, extent))
        extent = nst_dim_subst(dims, extent, at, nst_dim_const(dims, 0));
    return extent;
}

/* The time that a contraction takes to bring its column operand in, once: what few rows do not hide. */
static NstDim stream_cost(NstModule *module, const NstNest *nest)
{
    NstDims *dims = module->dims;
    NstContraction c;
    if (!nst_nest_contraction(module, nest, &c) || c.n_cols == 0) return nst_dim_const(dims, 0);
    NstDim elements = nst_dim_const(dims, COST_STREAM);
    for (uint32_t k = 0; k < c.n_batch; k++)
        elements = nst_dim_mul(dims, elements, first_extent(dims, nest->axis[c.batch[k]].extent));
    for (uint32_t k = 0; k < c.n_cols; k++)
        elements = nst_dim_mul(dims, elements, first_extent(dims, nest->axis[c.cols[k]].extent));
    return nst_dim_mul(dims, elements, nst_axes_product(dims, nest->reduce, nest->n_reduce));
}

NstDim nst_axes_product(NstDims *dims, const NstAxis *axis, uint32_t n)
{
    NstDim product = nst_dim_const(dims, 1);
    for (uint32_t k = 0; k < n; k++) product = nst_dim_mul(dims, product, first_extent(dims, axis[k].extent));
    return product;
}

NstDim nst_group_work(NstModule *module, const NstGroup *group)
{
    NstDims *dims = module->dims;
    NstDim total = nst_dim_const(dims, 0);
    for (uint32_t k = 0; k < group->items.n; k++) {
        if (group->items.at[k].group) {
            total = nst_dim_add(dims, total, nst_group_work(module, group->items.at[k].group));
            continue;
        }
        const NstNest *nest = group->items.at[k].nest;
        NstDim points = nst_axes_product(dims, nest->axis, nest->n_axes);
        NstDim terms = nst_axes_product(dims, nest->reduce, nest->n_reduce);
        NstDim each = nst_dim_mul_const(dims, terms, term_cost(module, nest));
        each = nst_dim_add_const(dims, each, point_cost(module, nest));
        total = nst_dim_add(dims, total, nst_dim_mul(dims, points, each));
        total = nst_dim_add(dims, total, stream_cost(module, nest));
    }
    return total;
}
