/* reading.c: see reading.h.
 *
 * In: a value and an index.  Out: an expression over loads of stored buffers.  What lies outside (pads, concats) is a select
 * whose loads are clamped into their buffers; scheduling later splits loops where such conditions change. */
#include "passes/lowering.h"

static NstDim constant(NstLowering *lower, int64_t value)
{
    return nst_dim_const(lower->dims, value);
}

NstVal nst_lowered_value(const NstLowering *lower, NstVal value)
{
    while (lower->stands_for[value.i].i) value = lower->stands_for[value.i];
    return value;
}

/* True if no axis of the value can be empty. */
static bool never_empty(const NstLowering *lower, NstVal value)
{
    const NstType *type = nst_value_type(lower->graph, value);
    for (int k = 0; k < type->rank; k++)
        if (nst_dim_compare(lower->dims, type->shape[k], NST_DIM_GE, nst_dim_const(lower->dims, 1)) != NST_TRUE)
            return false;
    return true;
}

/* True if every user, through views, is pointwise. */
static bool only_pointwise_users(const NstLowering *lower, NstVal value)
{
    const NstValue *info = nst_graph_value(lower->graph, value);
    for (uint32_t k = 0; k < info->uses.n; k++) {
        const NstNode *user = nst_graph_node(lower->graph, info->uses.at[k].node);
        NstPrimGroup group = nst_prim_info(user->prim)->group;
        if (group == NST_GROUP_POINTWISE) continue;
        if (group != NST_GROUP_VIEW || !only_pointwise_users(lower, user->out[0])) return false;
    }
    return true;
}

bool nst_is_view(const NstLowering *lower, NstVal value)
{
    const NstNode *node = nst_value_node(lower->graph, value);
    switch (node->prim) {
    case NST_PRIM_CONST: return !node->attr.constant.data;
    case NST_PRIM_IOTA:
    case NST_PRIM_DIM_VALUE:
    case NST_PRIM_RESHAPE:
    case NST_PRIM_PERMUTE:
    case NST_PRIM_EXPAND:
    case NST_PRIM_SLICE: return true;
    case NST_PRIM_PAD:
    case NST_PRIM_CONCAT:
        /* Conditions inside a reduction cost more than a copy; clamping needs an element to clamp to.  Formulas choose
         * between scalars of at most 8 bytes. */
        if (nst_value_type(lower->graph, value)->dtype == NST_C128) return false;
        for (uint32_t k = 0; k < node->n_in; k++)
            if (!never_empty(lower, node->in[k])) return false;
        return only_pointwise_users(lower, value);
    case NST_PRIM_WINDOW: return true;
    default: return false;
    }
}

/* --- conditions ---------------------------------------------------------------------------------------------- */

NstExpr nst_and(NstExprs *exprs, NstExpr a, NstExpr b)
{
    if (!a.i) return b;
    if (!b.i) return a;
    return nst_expr_binary(exprs, NST_OP_AND, a, b);
}

/* index op bound as an expression; none if it is proven. */
static NstExpr compare(NstLowering *lower, NstDim index, NstDimCompare how, NstScalarOp op, NstDim bound)
{
    NstTruth truth = nst_dim_compare(lower->dims, index, how, bound);
    if (truth == NST_TRUE) return (NstExpr){0};
    if (truth == NST_FALSE) return nst_expr_int(lower->exprs, NST_BOOL, 0);
    return nst_expr_binary(lower->exprs, op, nst_expr_index(lower->exprs, index), nst_expr_index(lower->exprs, bound));
}

NstExpr nst_in_range(NstLowering *lower, NstDim index, NstDim extent)
{
    NstExpr low = compare(lower, index, NST_DIM_GE, NST_OP_GE, constant(lower, 0));
    return nst_and(lower->exprs, low, compare(lower, index, NST_DIM_LT, NST_OP_LT, extent));
}

NstDim nst_clamp_index(NstLowering *lower, NstDim index, NstDim extent)
{
    NstDim last = nst_dim_add_const(lower->dims, extent, -1), zero = constant(lower, 0);
    if (nst_dim_compare(lower->dims, index, NST_DIM_LE, last) != NST_TRUE)
        index = nst_dim_min(lower->dims, index, last);
    if (nst_dim_compare(lower->dims, index, NST_DIM_GE, zero) != NST_TRUE)
        index = nst_dim_max(lower->dims, index, zero);
    return index;
}

NstDim nst_read_broadcast(NstLowering *lower, NstDim index, NstDim from, NstDim to)
{
    if (nst_dim_same(from, to) || nst_dim_compare(lower->dims, from, NST_DIM_EQ, to) == NST_TRUE) return index;
    if (nst_dim_compare(lower->dims, from, NST_DIM_EQ, constant(lower, 1)) == NST_TRUE) return constant(lower, 0);
    if (nst_dim_compare(lower->dims, from, NST_DIM_NE, constant(lower, 1)) == NST_TRUE) return index;
    NstDim stride = nst_dim_min(lower->dims, nst_dim_add_const(lower->dims, from, -1), constant(lower, 1));
    return nst_dim_mul(lower->dims, index, stride);
}

/* --- lets ---------------------------------------------------------------------------------------------------- */

NstDim nst_read_let_of(NstReading *reading, NstExpr value, NstDim lo, NstDim hi, bool checked, NstOrigin origin)
{
    NstLowering *lower = reading->lower;
    NstIndexLet let = {.value = value, .lo = lo, .hi = hi, .checked = checked, .origin = origin};
    int64_t least, most, ignored;
    nst_dim_bounds(lower->dims, lo, &least, &ignored);
    nst_dim_bounds(lower->dims, hi, &ignored, &most);
    let.var = nst_dims_new_sym(lower->dims, NST_SYM_INDEX, "at", least, most == INT64_MAX ? most : most - 1);
    NstSymInfo *info = nst_dims_sym(lower->dims, let.var);
    info->lo_dim = lo;
    info->hi_dim = nst_dim_add_const(lower->dims, hi, -1);
    nst_vec_push(lower->arena, &reading->lets, let);
    nst_vec_push(lower->arena, &reading->let_value, (NstVal){0});
    return nst_dim_sym(lower->dims, let.var);
}

NstDim nst_read_let(NstReading *reading, NstVal value, NstDim lo, NstDim hi, NstOrigin origin)
{
    for (uint32_t k = 0; k < reading->lets.n; k++)
        if (reading->let_value.at[k].i == value.i && nst_dim_same(reading->lets.at[k].lo, lo) &&
            nst_dim_same(reading->lets.at[k].hi, hi))
            return nst_dim_sym(reading->lower->dims, reading->lets.at[k].var);
    NstDims *dims = reading->lower->dims;
    NstExpr scalar = nst_expr_convert(reading->lower->exprs, NST_I64, nst_read_value(reading, value, NULL), false);
    const NstExprNode *known = nst_expr(reading->lower->exprs, scalar);
    if (known->op == NST_OP_INDEX) { /* the step of a loop: nothing to check where the bounds are proven */
        NstDim at = known->index[0];
        if (nst_dim_compare(dims, at, NST_DIM_GE, lo) == NST_TRUE &&
            nst_dim_compare(dims, at, NST_DIM_LT, hi) == NST_TRUE)
            return at;
    }
    NstDim var = nst_read_let_of(reading, scalar, lo, hi, true, origin);
    reading->let_value.at[reading->lets.n - 1] = value;
    return var;
}

void nst_read_finish(NstReading *reading)
{
    reading->nest->let = reading->lets.at;
    reading->nest->n_lets = reading->lets.n;
    reading->nest->guard = reading->guard;
}

/* --- views --------------------------------------------------------------------------------------------------- */

/* One run of axes in each of two shapes of equal product. */
typedef struct Run {
    int in, n_in, out, n_out;
} Run;

/* The index of element number `linear` within axes first .. first + n - 1 of shape. */
static void delinearise(NstLowering *lower, NstDim linear, const NstDim *shape, int first, int n, NstDim *index)
{
    NstDim stride = constant(lower, 1);
    for (int k = first + n - 1; k >= first; k--) {
        NstDim at = nst_dim_floordiv(lower->dims, linear, stride);
        index[k] = k == first ? at : nst_dim_mod(lower->dims, at, shape[k]);
        stride = nst_dim_mul(lower->dims, stride, shape[k]);
    }
}

static void map_run(NstLowering *lower, const NstType *in, const NstType *out, Run run, const NstDim *index,
                    NstDim *in_index)
{
    NstDim linear = constant(lower, 0);
    for (int k = run.out; k < run.out + run.n_out; k++)
        linear = nst_dim_add(lower->dims, nst_dim_mul(lower->dims, linear, out->shape[k]), index[k]);
    delinearise(lower, linear, in->shape, run.in, run.n_in, in_index);
}

/* Where element `index` of a reshaped value lies before the reshape: runs of axes whose products agree are mapped apart. */
static void reshape_index(NstLowering *lower, const NstType *in, const NstType *out, const NstDim *index,
                          NstDim *in_index)
{
    NstDims *dims = lower->dims;
    NstDim one = constant(lower, 1), in_product = one, out_product = one;
    Run run = {0, 0, 0, 0};
    while (run.in + run.n_in < in->rank || run.out + run.n_out < out->rank) {
        int64_t a, b;
        bool more_in = run.in + run.n_in < in->rank, more_out = run.out + run.n_out < out->rank;
        bool known = nst_dim_is_const(dims, in_product, &a) && nst_dim_is_const(dims, out_product, &b);
        bool take_in = more_in && (!more_out || (known ? a <= b : run.n_in <= run.n_out));
        if (take_in) {
            in_product = nst_dim_mul(dims, in_product, in->shape[run.in + run.n_in++]);
        } else {
            out_product = nst_dim_mul(dims, out_product, out->shape[run.out + run.n_out++]);
        }
        bool equal = run.n_in && run.n_out && nst_dim_same(in_product, out_product) && !nst_dim_same(in_product, one);
        if (!equal) continue;
        map_run(lower, in, out, run, index, in_index);
        run = (Run){run.in + run.n_in, 0, run.out + run.n_out, 0};
        in_product = out_product = one;
    }
    map_run(lower, in, out, run, index, in_index);
}

static void slice_index(NstReading *reading, const NstNode *node, const NstDim *index, NstDim *in_index)
{
    NstLowering *lower = reading->lower;
    const NstType *in = nst_value_type(lower->graph, node->in[0]), *out = nst_value_type(lower->graph, node->out[0]);
    for (int k = 0; k < in->rank; k++) {
        int64_t step = node->attr.slice.step ? node->attr.slice.step[k] : 1;
        int input = node->attr.slice.start_input ? node->attr.slice.start_input[k] : 0;
        NstDim start = node->attr.slice.start ? node->attr.slice.start[k] : constant(lower, 0);
        if (input > 0) {
            NstDim span = nst_dim_mul_const(lower->dims, nst_dim_add_const(lower->dims, out->shape[k], -1), step);
            NstDim zero = constant(lower, 0);
            NstDim lo = step > 0 ? zero : nst_dim_mul_const(lower->dims, span, -1);
            NstDim hi = step > 0 ? nst_dim_sub(lower->dims, in->shape[k], span) : in->shape[k];
            start = nst_read_let(reading, node->in[input], lo, hi, node->origin);
        }
        in_index[k] = nst_dim_add(lower->dims, start, nst_dim_mul_const(lower->dims, index[k], step));
    }
}

NstExpr nst_read_padding(NstReading *reading, const NstNode *node)
{
    if (node->n_in > 1) return nst_read_value(reading, node->in[1], NULL);
    NstDtype type = nst_value_type(reading->lower->graph, node->in[0])->dtype;
    return nst_expr_const(reading->lower->exprs, type, (NstScalar){0});
}

/* Index before a pad; conditions for being inside join *inside. */
static NstDim pad_index(NstLowering *lower, const NstAttrs *attr, int axis, NstDim n, NstDim index, NstExpr *inside)
{
    NstDims *dims = lower->dims;
    NstDim j = nst_dim_sub(dims, index, attr->pad.lo[axis]), one = constant(lower, 1);
    int64_t interior = attr->pad.interior ? attr->pad.interior[axis] : 0;
    switch (attr->pad.mode) {
    case NST_PAD_EDGE: break;
    case NST_PAD_WRAP: j = nst_dim_mod(dims, j, nst_dim_max(dims, n, one)); break;
    case NST_PAD_REFLECT: {
        NstDim last = nst_dim_add_const(dims, n, -1);
        NstDim period = nst_dim_max(dims, nst_dim_mul_const(dims, last, 2), one);
        NstDim phase = nst_dim_mod(dims, j, period);
        j = nst_dim_min(dims, phase, nst_dim_sub(dims, nst_dim_mul_const(dims, last, 2), phase));
        break;
    }
    case NST_PAD_CONSTANT:
        if (interior > 0) {
            NstDim step = constant(lower, interior + 1);
            NstDim off = nst_dim_mod(dims, j, step);
            NstExpr on = compare(lower, off, NST_DIM_EQ, NST_OP_EQ, constant(lower, 0));
            *inside = nst_and(lower->exprs, *inside, on);
            j = nst_dim_floordiv(dims, j, step);
        }
        *inside = nst_and(lower->exprs, *inside, nst_in_range(lower, j, n));
        break;
    }
    return nst_clamp_index(lower, j, n);
}

static NstExpr read_pad(NstReading *reading, const NstNode *node, const NstDim *index)
{
    NstLowering *lower = reading->lower;
    const NstType *in = nst_value_type(lower->graph, node->in[0]);
    NstDim in_index[NST_MAX_RANK];
    NstExpr inside = {0};
    for (int k = 0; k < in->rank; k++) in_index[k] = pad_index(lower, &node->attr, k, in->shape[k], index[k], &inside);
    NstExpr value = nst_read_value(reading, node->in[0], in_index);
    if (!inside.i) return value;
    return nst_expr_ternary(lower->exprs, NST_OP_SELECT, inside, value, nst_read_padding(reading, node));
}

static NstExpr read_concat(NstReading *reading, const NstNode *node, const NstDim *index)
{
    NstLowering *lower = reading->lower;
    int axis = node->attr.concat.axis, rank = nst_value_type(lower->graph, node->out[0])->rank;
    NstDim begin = nst_value_type(lower->graph, node->out[0])->shape[axis], in_index[NST_MAX_RANK];
    NstExpr value = {0};
    memcpy(in_index, index, sizeof *index * (size_t)rank);
    for (uint32_t k = node->n_in; k-- > 0;) {
        NstDim extent = nst_value_type(lower->graph, node->in[k])->shape[axis];
        NstDim end = begin;
        begin = nst_dim_sub(lower->dims, begin, extent);
        in_index[axis] = nst_clamp_index(lower, nst_dim_sub(lower->dims, index[axis], begin), extent);
        NstExpr piece = nst_read_value(reading, node->in[k], in_index);
        if (!value.i) {
            value = piece;
            continue;
        }
        NstExpr before = compare(lower, index[axis], NST_DIM_LT, NST_OP_LT, end);
        value = before.i ? nst_expr_ternary(lower->exprs, NST_OP_SELECT, before, piece, value) : piece;
    }
    return value;
}

static NstExpr read_window(NstReading *reading, const NstNode *node, const NstDim *index)
{
    NstLowering *lower = reading->lower;
    NstDims *dims = lower->dims;
    const NstType *in = nst_value_type(lower->graph, node->in[0]);
    NstDim in_index[NST_MAX_RANK];
    NstExpr inside = {0};
    memcpy(in_index, index, sizeof *index * (size_t)in->rank);
    for (int w = 0; w < node->attr.window.n; w++) {
        int axis = node->attr.window.axis[w];
        NstDim at = nst_dim_mul_const(dims, index[axis], node->attr.window.stride[w]);
        at = nst_dim_add(dims, at, nst_dim_mul_const(dims, index[in->rank + w], node->attr.window.dilation[w]));
        at = nst_dim_sub(dims, at, node->attr.window.lo[w]);
        inside = nst_and(lower->exprs, inside, nst_in_range(lower, at, in->shape[axis]));
        in_index[axis] = reading->skip_padding ? at : nst_clamp_index(lower, at, in->shape[axis]);
    }
    if (reading->skip_padding) reading->guard = nst_and(lower->exprs, reading->guard, inside);
    NstExpr value = nst_read_value(reading, node->in[0], in_index);
    if (reading->skip_padding || !inside.i) return value;
    return nst_expr_ternary(lower->exprs, NST_OP_SELECT, inside, value, nst_read_padding(reading, node));
}

NstExpr nst_read_view(NstReading *reading, const NstNode *node, const NstDim *index)
{
    NstLowering *lower = reading->lower;
    const NstType *out = nst_value_type(lower->graph, node->out[0]);
    NstDim in_index[NST_MAX_RANK];
    switch (node->prim) {
    case NST_PRIM_CONST: return nst_expr_const(lower->exprs, out->dtype, node->attr.constant.splat);
    case NST_PRIM_IOTA: return nst_expr_index(lower->exprs, index[0]);
    case NST_PRIM_DIM_VALUE: return nst_expr_index(lower->exprs, node->attr.dim_value.dim);
    case NST_PRIM_RESHAPE: reshape_index(lower, nst_value_type(lower->graph, node->in[0]), out, index, in_index); break;
    case NST_PRIM_PERMUTE:
        for (int k = 0; k < out->rank; k++) in_index[node->attr.permute.order[k]] = index[k];
        break;
    case NST_PRIM_EXPAND:
        for (int k = 0; k < out->rank; k++)
            in_index[k] =
                nst_read_broadcast(lower, index[k], nst_value_type(lower->graph, node->in[0])->shape[k], out->shape[k]);
        break;
    case NST_PRIM_SLICE: slice_index(reading, node, index, in_index); break;
    case NST_PRIM_PAD: return read_pad(reading, node, index);
    case NST_PRIM_CONCAT: return read_concat(reading, node, index);
    case NST_PRIM_WINDOW: return read_window(reading, node, index);
    default: NST_ASSERT(!"a view");
    }
    return nst_read_value(reading, node->in[0], in_index);
}

NstExpr nst_read_value(NstReading *reading, NstVal value, const NstDim *index)
{
    NstLowering *lower = reading->lower;
    value = nst_lowered_value(lower, value);
    const NstType *type = nst_value_type(lower->graph, value);
    NstBuf buffer = lower->buffer_of[value.i];
    if (value.i == lower->iteration.i && lower->in_loop) return nst_expr_index(lower->exprs, reading->step);
    if (value.i == lower->go.i && lower->in_loop) return nst_expr_int(lower->exprs, NST_BOOL, 1);
    bool is_state = lower->history[value.i].i != 0;
    if (is_state) buffer = lower->history[value.i];
    if (buffer.i && (is_state || lower->per_step[value.i])) {
        NstDim at[NST_MAX_RANK + 1];
        at[0] = is_state && lower->history_step[value.i].i ? lower->history_step[value.i] : reading->step;
        for (int d = 0; d < type->rank; d++) at[d + 1] = index[d];
        return nst_expr_load(lower->exprs, type->dtype, buffer, at, (uint32_t)type->rank + 1);
    }
    if (!buffer.i && !nst_is_view(lower, value)) buffer = nst_lower_capture(lower, value);
    if (buffer.i) return nst_expr_load(lower->exprs, type->dtype, buffer, index, (uint32_t)type->rank);
    return nst_read_view(reading, nst_value_node(lower->graph, value), index);
}
