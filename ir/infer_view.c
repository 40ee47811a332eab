/* infer_view.c: rules of the view primitives and update_slice. */
#include "ir/infer_impl.h"

NstStatus nst_infer_reshape(NstRule *rule)
{
    const NstType *x = nst_rule_in(rule, 0);
    NST_TRY(nst_rule_wanted(rule, 0));
    nst_rule_out(rule, 0, x->dtype, rule->out[0].rank, rule->out[0].shape);
    return nst_rule_equal(rule, nst_type_elements(rule->dims, x), nst_type_elements(rule->dims, &rule->out[0]),
                          "elements of operand and result");
}

NstStatus nst_infer_permute(NstRule *rule)
{
    const NstType *x = nst_rule_in(rule, 0);
    NstDim shape[NST_MAX_RANK];
    bool seen[NST_MAX_RANK] = {false};
    for (int k = 0; k < x->rank; k++) {
        int axis = rule->attr->permute.order[k];
        NST_TRY(nst_rule_axis(rule, axis, x->rank));
        NST_CHECK(rule->ctx, !seen[axis], NST_E_INVALID, "permute: axis %d appears twice", axis);
        seen[axis] = true;
        shape[k] = x->shape[axis];
    }
    nst_rule_out(rule, 0, x->dtype, x->rank, shape);
    return NST_OK;
}

NstStatus nst_infer_expand(NstRule *rule)
{
    const NstType *x = nst_rule_in(rule, 0);
    NST_TRY(nst_rule_wanted(rule, 0));
    const NstType *wanted = &rule->out[0];
    NST_CHECK(rule->ctx, wanted->rank == x->rank, NST_E_SHAPE, "expand: rank %d to %d, allowed: equal", x->rank,
              wanted->rank);
    for (int k = 0; k < x->rank; k++) {
        bool may = nst_dim_compare(rule->dims, x->shape[k], NST_DIM_EQ, nst_dim_const(rule->dims, 1)) != NST_FALSE ||
                   nst_dim_compare(rule->dims, x->shape[k], NST_DIM_EQ, wanted->shape[k]) != NST_FALSE;
        NST_CHECK(rule->ctx, may, NST_E_SHAPE, "expand: extent %s of axis %d to %s, allowed: from 1, or equal",
                  nst_rule_dim(rule, x->shape[k]), k, nst_rule_dim(rule, wanted->shape[k]));
    }
    nst_rule_out(rule, 0, x->dtype, x->rank, wanted->shape);
    return NST_OK;
}

/* Inputs `first`.. are run-time starts, each of one axis. */
static NstStatus check_starts(const NstRule *rule, int rank, uint32_t first)
{
    const int *start_input = rule->attr->slice.start_input;
    NST_CHECK(rule->ctx, rule->attr->slice.start || rank == 0, NST_E_INVALID, "%s: no starts", rule->name);
    for (int k = 0; k < rank && start_input; k++) {
        if (start_input[k] == 0) continue;
        NST_CHECK(rule->ctx, start_input[k] >= (int)first && start_input[k] < (int)rule->n_in, NST_E_INVALID,
                  "%s: start of axis %d is input %d, allowed: %u..%u", rule->name, k, start_input[k], first,
                  rule->n_in - 1);
        NST_TRY(nst_rule_i64_scalar(rule, (uint32_t)start_input[k], "start"));
    }
    return NST_OK;
}

/* Fails if index `at` of an axis of extent n is provably outside, for a slice of at least one element. */
static NstStatus check_inside(const NstRule *rule, int axis, NstDim at, NstDim n, NstDim size)
{
    NstDims *dims = rule->dims;
    if (nst_dim_compare(dims, size, NST_DIM_GT, nst_dim_const(dims, 0)) != NST_TRUE) return NST_OK;
    bool outside = nst_dim_compare(dims, at, NST_DIM_LT, nst_dim_const(dims, 0)) == NST_TRUE ||
                   nst_dim_compare(dims, at, NST_DIM_GE, n) == NST_TRUE;
    NST_CHECK(rule->ctx, !outside, NST_E_SHAPE, "%s: axis %d is read at index %s, allowed: 0 to below %s", rule->name,
              axis, nst_rule_dim(rule, at), nst_rule_dim(rule, n));
    return NST_OK;
}

NstStatus nst_infer_slice(NstRule *rule)
{
    const NstType *x = nst_rule_in(rule, 0);
    NstDims *dims = rule->dims;
    NST_TRY(nst_rule_wanted(rule, 0));
    NST_CHECK(rule->ctx, rule->out[0].rank == x->rank, NST_E_SHAPE, "slice: rank %d to %d, allowed: equal", x->rank,
              rule->out[0].rank);
    NST_TRY(check_starts(rule, x->rank, 1));
    const NstDim *size = rule->out[0].shape;
    for (int k = 0; k < x->rank; k++) {
        int64_t step = rule->attr->slice.step ? rule->attr->slice.step[k] : 1;
        NST_CHECK(rule->ctx, step != 0 && step != INT64_MIN, NST_E_INVALID,
                  "slice: step %lld of axis %d, allowed: not 0", (long long)step, k);
        NstDim span = nst_dim_mul_const(dims, nst_dim_add_const(dims, size[k], -1), step);
        if (rule->attr->slice.start_input && rule->attr->slice.start_input[k] != 0) {
            NST_TRY(check_inside(rule, k, step < 0 ? nst_dim_mul_const(dims, span, -1) : span, x->shape[k], size[k]));
            continue;
        }
        NST_TRY(check_inside(rule, k, rule->attr->slice.start[k], x->shape[k], size[k]));
        NST_TRY(check_inside(rule, k, nst_dim_add(dims, rule->attr->slice.start[k], span), x->shape[k], size[k]));
    }
    nst_rule_out(rule, 0, x->dtype, x->rank, size);
    return NST_OK;
}

NstStatus nst_infer_update_slice(NstRule *rule)
{
    const NstType *base = nst_rule_in(rule, 0), *update = nst_rule_in(rule, 1);
    NST_TRY(nst_rule_same_dtype(rule, 0, 1));
    NST_TRY(nst_rule_same_rank(rule, 0, 1));
    NST_TRY(check_starts(rule, base->rank, 2));
    for (int k = 0; k < base->rank; k++) {
        NstDim last = nst_dim_add_const(rule->dims, update->shape[k], -1);
        bool by_input = rule->attr->slice.start_input && rule->attr->slice.start_input[k] != 0;
        if (!by_input) {
            last = nst_dim_add(rule->dims, last, rule->attr->slice.start[k]);
            NST_TRY(check_inside(rule, k, rule->attr->slice.start[k], base->shape[k], update->shape[k]));
        }
        NST_TRY(check_inside(rule, k, last, base->shape[k], update->shape[k]));
    }
    nst_rule_out(rule, 0, base->dtype, base->rank, base->shape);
    return NST_OK;
}

/* Checks the optional scalar at input 1: what padding reads. */
static NstStatus check_padding(const NstRule *rule)
{
    if (rule->n_in < 2) return NST_OK;
    NST_TRY(nst_rule_same_dtype(rule, 0, 1));
    NST_CHECK(rule->ctx, nst_rule_in(rule, 1)->rank == 0, NST_E_SHAPE, "%s: padding value is %s, allowed: a scalar",
              rule->name, nst_rule_type(rule, nst_rule_in(rule, 1)));
    return NST_OK;
}

NstStatus nst_infer_pad(NstRule *rule)
{
    const NstType *x = nst_rule_in(rule, 0);
    NstDims *dims = rule->dims;
    NstDim shape[NST_MAX_RANK], zero = nst_dim_const(dims, 0);
    NST_TRY(check_padding(rule));
    bool constant = rule->attr->pad.mode == NST_PAD_CONSTANT;
    NST_CHECK(rule->ctx, constant || rule->n_in == 1, NST_E_INVALID, "pad: a value is allowed in constant mode only");
    NST_CHECK(rule->ctx, x->rank == 0 || (rule->attr->pad.lo && rule->attr->pad.hi), NST_E_INVALID, "pad: no sizes");
    for (int k = 0; k < x->rank; k++) {
        int64_t interior = rule->attr->pad.interior ? rule->attr->pad.interior[k] : 0;
        NST_CHECK(rule->ctx, interior >= 0 && (constant || interior == 0), NST_E_INVALID,
                  "pad: interior %lld of axis %d, allowed: >= 0, and 0 outside constant mode", (long long)interior, k);
        NstDim gaps = nst_dim_max(dims, nst_dim_add_const(dims, x->shape[k], -1), zero);
        NstDim inner = nst_dim_add(dims, x->shape[k], nst_dim_mul_const(dims, gaps, interior));
        if (interior == 0) inner = x->shape[k];
        shape[k] = nst_dim_add(dims, nst_dim_add(dims, inner, rule->attr->pad.lo[k]), rule->attr->pad.hi[k]);
        bool empty = nst_dim_compare(dims, x->shape[k], NST_DIM_EQ, zero) == NST_TRUE;
        NST_CHECK(rule->ctx, constant || !empty || nst_dim_compare(dims, shape[k], NST_DIM_EQ, zero) != NST_FALSE,
                  NST_E_SHAPE, "pad: axis %d is empty, allowed for a result that is not: constant mode", k);
    }
    nst_rule_out(rule, 0, x->dtype, x->rank, shape);
    return NST_OK;
}

NstStatus nst_infer_concat(NstRule *rule)
{
    const NstType *x = nst_rule_in(rule, 0);
    NstDim shape[NST_MAX_RANK];
    int axis = rule->attr->concat.axis;
    NST_TRY(nst_rule_axis(rule, axis, x->rank));
    memcpy(shape, x->shape, sizeof(NstDim) * (size_t)x->rank);
    for (uint32_t k = 1; k < rule->n_in; k++) {
        const NstType *y = nst_rule_in(rule, k);
        NST_TRY(nst_rule_same_dtype(rule, 0, k));
        NST_TRY(nst_rule_same_rank(rule, 0, k));
        for (int a = 0; a < x->rank; a++) {
            if (a == axis)
                shape[a] = nst_dim_add(rule->dims, shape[a], y->shape[a]);
            else
                NST_TRY(nst_rule_equal(rule, x->shape[a], y->shape[a], "extents beside the joined axis"));
        }
    }
    nst_rule_out(rule, 0, x->dtype, x->rank, shape);
    return NST_OK;
}

NstDim nst_window_extent(NstDims *dims, NstDim n, NstDim size, int64_t stride, int64_t dilation, NstDim lo, NstDim hi)
{
    NstDim reach = nst_dim_mul_const(dims, nst_dim_add_const(dims, size, -1), dilation);
    NstDim room = nst_dim_sub(dims, nst_dim_add(dims, nst_dim_add(dims, n, lo), hi), nst_dim_add_const(dims, reach, 1));
    if (stride == 1) return nst_dim_add_const(dims, room, 1);
    return nst_dim_add_const(dims, nst_dim_floordiv(dims, room, nst_dim_const(dims, stride)), 1);
}

NstStatus nst_infer_window(NstRule *rule)
{
    const NstType *x = nst_rule_in(rule, 0);
    const NstAttrs *a = rule->attr;
    NstDim shape[NST_MAX_RANK];
    bool seen[NST_MAX_RANK] = {false};
    int n = a->window.n;
    NST_TRY(check_padding(rule));
    NST_CHECK(rule->ctx, n >= 1 && n <= x->rank, NST_E_INVALID, "window: %d axes, allowed: 1..%d", n, x->rank);
    NST_TRY(nst_rule_rank(rule, x->rank + n));
    memcpy(shape, x->shape, sizeof(NstDim) * (size_t)x->rank);
    for (int w = 0; w < n; w++) {
        int axis = a->window.axis[w];
        NST_TRY(nst_rule_axis(rule, axis, x->rank));
        NST_CHECK(rule->ctx, !seen[axis], NST_E_INVALID, "window: axis %d appears twice", axis);
        seen[axis] = true;
        NST_CHECK(rule->ctx, a->window.stride[w] >= 1 && a->window.dilation[w] >= 1, NST_E_INVALID,
                  "window: stride %lld and dilation %lld of axis %d, allowed: >= 1", (long long)a->window.stride[w],
                  (long long)a->window.dilation[w], axis);
        NstTruth none = nst_dim_compare(rule->dims, a->window.size[w], NST_DIM_LT, nst_dim_const(rule->dims, 1));
        NST_CHECK(rule->ctx, none != NST_TRUE, NST_E_INVALID, "window: size %s of axis %d, allowed: >= 1",
                  nst_rule_dim(rule, a->window.size[w]), axis);
        NstDim extent = nst_window_extent(rule->dims, x->shape[axis], a->window.size[w], a->window.stride[w],
                                          a->window.dilation[w], a->window.lo[w], a->window.hi[w]);
        if (a->window.out) NST_TRY(nst_rule_equal(rule, extent, a->window.out[w], "extent of the windowed axis"));
        shape[axis] = a->window.out ? a->window.out[w] : extent;
        shape[x->rank + w] = a->window.size[w];
    }
    nst_rule_out(rule, 0, x->dtype, x->rank + n, shape);
    return NST_OK;
}
