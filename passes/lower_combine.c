/* lower_combine.c: reduce, prefix and contract as nests. */
#include "passes/lowering.h"

static void add_states(NstLowering *lower, NstNest *nest, const NstCombine *combine)
{
    nest->n_states = combine->n_states;
    nest->state = NST_NEW_ARRAY(lower->arena, NstState, combine->n_states);
    for (uint32_t k = 0; k < combine->n_states; k++) {
        nest->state[k].dtype = nst_expr(lower->exprs, combine->init[k])->type;
        nest->state[k].identity = combine->init[k];
        nest->state[k].merge = combine->merge[k];
    }
}

/* step[state] with the elements of the inputs at index put in; states stay ARG or are `state[..]`. */
static NstExpr step_with(NstReading *reading, const NstNode *node, NstExpr step, uint32_t n_states,
                         const NstExpr *state, const NstDim *index)
{
    NstLowering *lower = reading->lower;
    NstExpr *with = NST_NEW_ARRAY(lower->arena, NstExpr, n_states + node->n_in);
    for (uint32_t k = 0; k < n_states && state; k++) with[k] = state[k];
    for (uint32_t k = 0; k < node->n_in; k++) with[n_states + k] = nst_read_value(reading, node->in[k], index);
    return nst_expr_subst_args(lower->exprs, step, with, n_states + node->n_in);
}

/* Lanes of a nest whose innermost reduced index that is: an axis of one element is none, and all goes to the first lane. */
static uint32_t lanes_of(NstLowering *lower, const NstNest *nest, int lanes, NstDim innermost)
{
    bool has_axis = nest->n_reduce && nst_dim_uses(lower->dims, innermost, nest->reduce[nest->n_reduce - 1].var);
    return has_axis ? (uint32_t)lanes : 1;
}

void nst_lower_reduce(NstLowering *lower, const NstNode *node)
{
    const NstType *in = nst_value_type(lower->graph, node->in[0]), *out = nst_value_type(lower->graph, node->out[0]);
    NstReading reading = nst_lower_begin(lower, "reduce", node->origin, in->rank);
    NstNest *nest = reading.nest;
    reading.skip_padding = node->attr.reduce.skip_padding;
    bool reduced[NST_MAX_RANK] = {false};
    NstDim index[NST_MAX_RANK] = {{0}}, to[NST_MAX_RANK];
    int at = 0;
    for (int k = 0; k < node->attr.reduce.n_axes; k++) reduced[node->attr.reduce.axes[k]] = true;
    nest->reduce = NST_NEW_ARRAY(lower->arena, NstAxis, in->rank);
    for (int k = 0; k < in->rank; k++) {
        if (reduced[k]) {
            index[k] = nst_lower_axis(lower, nest->reduce, &nest->n_reduce, "r", k, in->shape[k]);
            if (node->attr.reduce.keep) to[at++] = nst_dim_const(lower->dims, 0);
        } else {
            index[k] = nst_lower_axis(lower, nest->axis, &nest->n_axes, "i", k, in->shape[k]);
            to[at++] = index[k];
        }
    }
    NST_ASSERT(at == out->rank);
    nest->lanes = lanes_of(lower, nest, node->attr.reduce.lanes, index[in->rank ? in->rank - 1 : 0]);
    add_states(lower, nest, &node->attr.reduce.combine);
    for (uint32_t k = 0; k < nest->n_states; k++) {
        nest->state[k].step = step_with(&reading, node, node->attr.reduce.combine.step[k], nest->n_states, NULL, index);
        NstExpr value = nst_expr_arg(lower->exprs, nest->state[k].dtype, k);
        nst_lower_store(lower, nest, nst_lower_output(lower, node->out[k]), to, value);
    }
    nst_read_finish(&reading);
    nst_lower_add(lower, nest);
}

/* State k after position i: read back from the output, which a serial group over the axis fills in order. */
void nst_lower_prefix(NstLowering *lower, const NstNode *node)
{
    const NstType *type = nst_value_type(lower->graph, node->in[0]);
    const NstCombine *combine = &node->attr.prefix.combine;
    NstDims *dims = lower->dims;
    int scan = node->attr.prefix.axis;
    uint32_t m = combine->n_states;
    NstNest *nest = nst_nest_new(lower->module, "prefix", node->origin);
    NstReading reading = {.lower = lower, .nest = nest};
    NstDim index[NST_MAX_RANK], from[NST_MAX_RANK], before[NST_MAX_RANK];
    nest->axis = NST_NEW_ARRAY(lower->arena, NstAxis, type->rank);
    nest->axis[nest->n_axes++] = nst_nest_axis(lower->module, "t", type->shape[scan]);
    NstDim t = nst_dim_sym(dims, nest->axis[0].var), zero = nst_dim_const(dims, 0);
    for (int k = 0; k < type->rank; k++)
        if (k != scan) index[k] = nst_lower_axis(lower, nest->axis, &nest->n_axes, "i", k, type->shape[k]);
    memcpy(from, index, sizeof index);
    memcpy(before, index, sizeof index);
    NstDim last = nst_dim_add_const(dims, type->shape[scan], -1), previous = nst_dim_add_const(dims, t, -1);
    NstDim first = nst_dim_max(dims, previous, zero);
    bool reverse = node->attr.prefix.reverse, exclusive = node->attr.prefix.exclusive;
    index[scan] = reverse ? nst_dim_sub(dims, last, t) : t;
    before[scan] = reverse ? nst_dim_sub(dims, last, first) : first;
    from[scan] = exclusive ? before[scan] : index[scan];
    NstExpr *state = NST_NEW_ARRAY(lower->arena, NstExpr, m);
    NstExpr at_start = nst_expr_binary(lower->exprs, NST_OP_EQ, nst_expr_index(lower->exprs, t),
                                       nst_expr_int(lower->exprs, NST_I64, 0));
    for (uint32_t k = 0; k < m; k++) {
        NstBuf buffer = nst_lower_output(lower, node->out[k]);
        NstDtype dtype = nst_value_type(lower->graph, node->out[k])->dtype;
        state[k] = nst_expr_load(lower->exprs, dtype, buffer, before, (uint32_t)type->rank);
        if (!exclusive) state[k] = nst_expr_ternary(lower->exprs, NST_OP_SELECT, at_start, combine->init[k], state[k]);
    }
    for (uint32_t k = 0; k < m; k++) {
        NstExpr value = step_with(&reading, node, combine->step[k], m, state, from);
        if (exclusive) value = nst_expr_ternary(lower->exprs, NST_OP_SELECT, at_start, combine->init[k], value);
        nst_lower_store(lower, nest, nst_lower_output(lower, node->out[k]), index, value);
    }
    nst_read_finish(&reading);
    NstGroup *group = nst_lower_add(lower, nest);
    group->n_axes = 1;
    group->axis = NST_NEW_ARRAY(lower->arena, NstAxis, 1);
    group->axis[0] = nst_nest_axis(lower->module, "t", type->shape[scan]);
    group->serial = true;
}

/* The element of operand j at the labels' indices, its pre formula applied, in the type of the sum. */
static NstExpr operand_value(NstReading *reading, const NstNode *node, int j, const NstDim *label_index)
{
    NstLowering *lower = reading->lower;
    const NstAttrs *a = &node->attr;
    uint32_t n_extra = node->n_in - (uint32_t)a->contract.n_operands;
    bool has_pre = a->contract.pre && a->contract.pre[j].i;
    NstExpr *with = NST_NEW_ARRAY(lower->arena, NstExpr, 1 + n_extra);
    for (uint32_t k = 0; k < (has_pre ? 1 + n_extra : 1); k++) {
        uint32_t input = k ? (uint32_t)a->contract.n_operands + k - 1 : (uint32_t)j;
        const NstType *type = nst_value_type(lower->graph, node->in[input]);
        NstDim index[NST_MAX_RANK];
        bool known = true;
        for (int axis = 0; axis < type->rank; axis++) {
            index[axis] = label_index[a->contract.labels[input][axis]];
            known = known && index[axis].i;
        }
        if (known) with[k] = nst_read_value(reading, node->in[input], index);
    }
    NstExpr value = has_pre ? nst_expr_subst_args(lower->exprs, a->contract.pre[j], with, 1 + n_extra) : with[0];
    return nst_expr_convert(lower->exprs, a->contract.accumulate, value, false);
}

static void label_extents(NstLowering *lower, const NstNode *node, NstDim *extent)
{
    for (int j = 0; j < node->attr.contract.n_operands; j++) {
        const NstType *type = nst_value_type(lower->graph, node->in[j]);
        for (int axis = 0; axis < type->rank; axis++) {
            uint8_t label = node->attr.contract.labels[j][axis];
            if (!extent[label].i) extent[label] = type->shape[axis];
        }
    }
}

/* The block of a contraction's sum; none where the sum is never longer. */
static uint32_t block_of(NstLowering *lower, const NstNode *node, const NstNest *nest)
{
    int64_t lo, hi;
    if (nest->n_reduce != 1) return 0;
    nst_dim_bounds(lower->dims, nest->reduce[0].extent, &lo, &hi);
    return hi > node->attr.contract.block ? (uint32_t)node->attr.contract.block : 0;
}

void nst_lower_contract(NstLowering *lower, const NstNode *node)
{
    const NstAttrs *a = &node->attr;
    NstExprs *exprs = lower->exprs;
    NstDim extent[NST_MAX_LABELS] = {{0}}, index[NST_MAX_LABELS] = {{0}}, to[NST_MAX_RANK];
    NstReading reading = nst_lower_begin(lower, "contract", node->origin, a->contract.out_rank);
    NstNest *nest = reading.nest;
    reading.skip_padding = true;
    label_extents(lower, node, extent);
    nest->reduce = NST_NEW_ARRAY(lower->arena, NstAxis, a->contract.n_sum);
    for (int k = 0; k < a->contract.out_rank; k++) {
        uint8_t label = a->contract.out_labels[k];
        to[k] = index[label] = nst_lower_axis(lower, nest->axis, &nest->n_axes, "i", k, extent[label]);
    }
    for (int k = 0; k < a->contract.n_sum; k++) {
        uint8_t label = a->contract.sum[k];
        index[label] = nst_lower_axis(lower, nest->reduce, &nest->n_reduce, "k", k, extent[label]);
    }
    NstDtype type = a->contract.accumulate;
    NstExpr product = operand_value(&reading, node, 0, index), sum = nst_expr_arg(exprs, type, 0), last = {0};
    for (int j = 1; j < a->contract.n_operands; j++) {
        last = operand_value(&reading, node, j, index);
        if (j + 1 < a->contract.n_operands) product = nst_expr_binary(exprs, NST_OP_MUL, product, last);
    }
    nest->block = block_of(lower, node, nest);
    if (a->contract.n_sum)
        nest->lanes = lanes_of(lower, nest, a->contract.lanes, index[a->contract.sum[a->contract.n_sum - 1]]);
    nest->n_states = 1;
    nest->state = NST_NEW_ARRAY(lower->arena, NstState, 1);
    nest->state[0].dtype = type;
    nest->state[0].identity =
        nst_dtype_is_float(type) ? nst_expr_float(exprs, type, 0.0) : nst_expr_int(exprs, type, 0);
    nest->state[0].merge = nst_expr_binary(exprs, NST_OP_ADD, sum, nst_expr_arg(exprs, type, 1));
    nest->state[0].step = nst_dtype_is_float(type) ? nst_expr_ternary(exprs, NST_OP_FMA, product, last, sum)
                                                   : nst_expr_binary(exprs, NST_OP_ADD, sum,
                                                                     nst_expr_binary(exprs, NST_OP_MUL, product, last));
    nst_lower_store(lower, nest, nst_lower_output(lower, node->out[0]), to, sum);
    nst_read_finish(&reading);
    nst_lower_add(lower, nest);
}
