/* lower_indirect.c: gather and scatter as nests with index-lets. */
#include "passes/lowering.h"

typedef struct Position {
    NstDim index;   /* inside 0 .. extent - 1 (or checked) */
    NstExpr inside; /* FILL: the condition for it; none = always */
} Position;

static bool may_be_empty(const NstLowering *lower, NstDim extent)
{
    return nst_dim_compare(lower->dims, extent, NST_DIM_GE, nst_dim_const(lower->dims, 1)) != NST_TRUE;
}

/* The axis position an index element says, by the node's mode.  Where the axis may be empty a clamped position is checked
 * (it has none), and that of FILL is 0, not to be read. */
static Position position_of(NstReading *reading, NstExpr element, NstIndexMode mode, NstDim extent, NstOrigin origin)
{
    NstLowering *lower = reading->lower;
    NstExprs *exprs = lower->exprs;
    NstDim zero = nst_dim_const(lower->dims, 0);
    NstExpr value = nst_expr_convert(exprs, NST_I64, element, false);
    Position position = {{0}, {0}};
    if (mode == NST_INDEX_CHECKED) {
        position.index = nst_read_let_of(reading, value, zero, extent, true, origin);
        return position;
    }
    bool empty = may_be_empty(lower, extent);
    NstExpr none = nst_expr_int(exprs, NST_I64, 0), end = nst_expr_index(exprs, extent);
    NstExpr last = nst_expr_index(exprs, nst_dim_add_const(lower->dims, extent, -1));
    NstExpr clamped = nst_expr_binary(exprs, NST_OP_MAX, nst_expr_binary(exprs, NST_OP_MIN, value, last), none);
    if (mode == NST_INDEX_FILL) {
        NstDim hi = empty ? nst_dim_max(lower->dims, extent, nst_dim_const(lower->dims, 1)) : extent;
        position.index = nst_read_let_of(reading, clamped, zero, hi, false, origin);
        position.inside = nst_and(exprs, nst_expr_binary(exprs, NST_OP_GE, value, none),
                                  nst_expr_binary(exprs, NST_OP_LT, value, end));
    } else {
        position.index = nst_read_let_of(reading, clamped, zero, extent, empty, origin);
    }
    return position;
}

static bool is_empty(const NstLowering *lower, NstDim extent)
{
    return nst_dim_same(extent, nst_dim_const(lower->dims, 0));
}

/* The output of a gather, zero. */
static void clear_output(NstLowering *lower, const NstNode *node)
{
    const NstType *out = nst_value_type(lower->graph, node->out[0]);
    NstNest *nest = nst_lower_begin(lower, "fill", node->origin, out->rank).nest;
    NstDim *at = nst_lower_axes(lower, nest, out->rank, out->shape);
    nst_lower_store(lower, nest, nst_lower_output(lower, node->out[0]), at,
                    nst_expr_const(lower->exprs, out->dtype, (NstScalar){0}));
    nst_lower_add(lower, nest);
}

void nst_lower_gather(NstLowering *lower, const NstNode *node)
{
    const NstType *data = nst_value_type(lower->graph, node->in[0]), *index = nst_value_type(lower->graph, node->in[1]);
    const NstType *out = nst_value_type(lower->graph, node->out[0]);
    int axis = node->attr.gather.axis, batch = node->attr.gather.batch, n_picked = index->rank - batch;
    bool by_guard = node->attr.gather.mode == NST_INDEX_FILL && may_be_empty(lower, data->shape[axis]);
    if (by_guard) clear_output(lower, node);
    if (by_guard && is_empty(lower, data->shape[axis])) return;
    NstReading reading = nst_lower_begin(lower, "gather", node->origin, out->rank);
    NstNest *nest = reading.nest;
    NstDim *at = nst_lower_axes(lower, nest, out->rank, out->shape), pick[NST_MAX_RANK], from[NST_MAX_RANK];
    for (int k = 0; k < batch; k++) pick[k] = at[k];
    for (int k = 0; k < n_picked; k++) pick[batch + k] = at[axis + k];
    NstExpr element = nst_read_value(&reading, node->in[1], pick);
    Position position = position_of(&reading, element, node->attr.gather.mode, data->shape[axis], node->origin);
    for (int k = 0; k < data->rank; k++) from[k] = k < axis ? at[k] : k == axis ? position.index : at[k - 1 + n_picked];
    /* Nothing is read of an axis without elements, whose positions the let refuses. */
    NstExpr value = is_empty(lower, data->shape[axis]) ? nst_expr_const(lower->exprs, data->dtype, (NstScalar){0})
                                                       : nst_read_value(&reading, node->in[0], from);
    if (by_guard)
        nest->store_guard = position.inside;
    else if (position.inside.i)
        value = nst_expr_ternary(lower->exprs, NST_OP_SELECT, position.inside, value,
                                 nst_expr_const(lower->exprs, data->dtype, (NstScalar){0}));
    nst_lower_store(lower, nest, nst_lower_output(lower, node->out[0]), at, value);
    nst_read_finish(&reading);
    nst_lower_add(lower, nest);
}

/* The old data, copied. */
static void copy_data(NstLowering *lower, const NstNode *node, NstBuf buffer)
{
    const NstType *data = nst_value_type(lower->graph, node->in[0]);
    NstReading reading = nst_lower_begin(lower, "copy", node->origin, data->rank);
    NstNest *nest = reading.nest;
    NstDim *index = nst_lower_axes(lower, nest, data->rank, data->shape);
    NstExpr value = nst_read_value(&reading, node->in[0], index);
    nst_lower_store(lower, nest, buffer, index, value);
    nst_read_finish(&reading);
    nst_lower_add(lower, nest);
}

/* Axes of the updates: those that choose rows first, in order, since updates of one place follow one another. */
static NstDim *scatter_axes(NstLowering *lower, NstNest *nest, const NstType *update, int first, int n)
{
    NstDim *at = NST_NEW_ARRAY(lower->arena, NstDim, update->rank);
    nest->axis = NST_NEW_ARRAY(lower->arena, NstAxis, update->rank);
    for (int k = first; k < first + n; k++)
        at[k] = nst_lower_axis(lower, nest->axis, &nest->n_axes, "u", k, update->shape[k]);
    for (int k = 0; k < update->rank; k++)
        if (k < first || k >= first + n)
            at[k] = nst_lower_axis(lower, nest->axis, &nest->n_axes, "i", k, update->shape[k]);
    return at;
}

static void make_serial(NstLowering *lower, NstGroup *group, const NstNest *nest, uint32_t n)
{
    group->n_axes = n;
    group->axis = NST_NEW_ARRAY(lower->arena, NstAxis, n);
    for (uint32_t k = 0; k < n; k++) group->axis[k] = nst_nest_axis(lower->module, "u", nest->axis[k].extent);
    group->serial = n > 0;
}

void nst_lower_scatter(NstLowering *lower, const NstNode *node)
{
    const NstType *data = nst_value_type(lower->graph, node->in[0]), *index = nst_value_type(lower->graph, node->in[1]);
    const NstType *update = nst_value_type(lower->graph, node->in[2]);
    int axis = node->attr.scatter.axis, n_picked = node->attr.scatter.elementwise ? 1 : index->rank;
    NstBuf buffer = nst_lower_output(lower, node->out[0]);
    copy_data(lower, node, buffer);
    if (node->attr.scatter.mode == NST_INDEX_FILL && is_empty(lower, data->shape[axis])) return;
    NstNest *nest = nst_nest_new(lower->module, "scatter", node->origin);
    NstReading reading = {.lower = lower, .nest = nest};
    NstDim *at = scatter_axes(lower, nest, update, axis, n_picked), to[NST_MAX_RANK];
    uint32_t n_serial = 0;
    for (int k = axis; k < axis + n_picked; k++) {
        int64_t value;
        n_serial += !nst_dim_is_const(lower->dims, at[k], &value);
    }
    NstExpr element = nst_read_value(&reading, node->in[1], node->attr.scatter.elementwise ? at : at + axis);
    Position position = position_of(&reading, element, node->attr.scatter.mode, data->shape[axis], node->origin);
    for (int k = 0; k < data->rank; k++) to[k] = k < axis ? at[k] : k == axis ? position.index : at[k - 1 + n_picked];
    NstExpr value = nst_read_value(&reading, node->in[2], at);
    if (is_empty(lower, data->shape[axis])) { /* nothing is written either */
        position.inside = nst_expr_int(lower->exprs, NST_BOOL, 0);
    } else if (node->attr.scatter.combine.i) {
        NstExpr pair[2] = {nst_expr_load(lower->exprs, data->dtype, buffer, to, (uint32_t)data->rank), value};
        value = nst_expr_subst_args(lower->exprs, node->attr.scatter.combine, pair, 2);
    }
    nest->store_guard = position.inside;
    nst_lower_store(lower, nest, buffer, to, value);
    nst_read_finish(&reading);
    make_serial(lower, nst_lower_add(lower, nest), nest, n_serial);
}
