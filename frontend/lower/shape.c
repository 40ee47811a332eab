/* shape.c: shapes and data movement. */
#include "frontend/lower/text.h"

LOWER(shape)
{
    V x = in(c, 0), entry[NST_MAX_RANK];
    int r = rank(c, x), n = 0;
    int64_t from = attr_i(c, "start"), to = has_attr(c, "end") ? attr_i(c, "end") : r;
    if (from < 0) from += r;
    if (to < 0) to += r;
    for (int64_t k = from < 0 ? 0 : from; k < to && k < r; k++)
        entry[n++] = insert_axis(c, size_value(c, dim(c, x, (int)k)), 0);
    int64_t none = 0;
    out(c, 0, n ? concat(c, n, entry, 0) : nst_build_const(c->b, NST_I64, 1, &none, NULL));
}

LOWER(size)
{
    out(c, 0, size_value(c, product(c, in(c, 0), 0, rank(c, in(c, 0)))));
}

/* A shape computed at run time, with its entries 0 and -1 replaced by what they stand for. */
static V resolve_shape(NstLower *c, V x, V shape)
{
    int64_t n;
    V own[NST_MAX_RANK];
    if (rank(c, shape) != 1 || !known(c, dim(c, shape, 0), &n) || n < 1 || n > NST_MAX_RANK) return shape;
    for (int k = 0; k < n; k++) own[k] = insert_axis(c, size_value(c, dim(c, x, k)), 0);
    if (!attr_i(c, "allowzero")) shape = map(c, "a == 0 ? b : a", shape, concat(c, (int)n, own, 0));
    V rest = reduce(c, "a * b", map(c, "a == -1 ? 1 : a", shape), axes_from(0, 1), KEEP);
    return map(c, "a == -1 ? b / c : a", shape, size_value(c, product(c, x, 0, rank(c, x))), rest);
}

/* 0 keeps an extent (unless allowzero), -1 takes what is left. */
LOWER(reshape)
{
    int n, open = -1;
    V x = in(c, 0);
    if (!failed(c) && nst_shape_value(c->sizes, in(c, 1)).n < 0) c->ins[1] = resolve_shape(c, x, in(c, 1));
    const D *wanted = sizes_in(c, 1, "shape", 0, &n);
    D shape[NST_MAX_RANK], rest = num(c, 1);
    if (n > NST_MAX_RANK) fail(c, NST_E_LIMIT, "shape has %d entries, allowed: at most %d", n, NST_MAX_RANK);
    for (int k = 0; k < n && !failed(c); k++) {
        shape[k] = wanted[k];
        if (is_num(c, wanted[k], 0) && !attr_i(c, "allowzero")) {
            if (k >= rank(c, x)) fail(c, NST_E_SHAPE, "entry %d of shape is 0, data has rank %d", k, rank(c, x));
            shape[k] = dim(c, x, k);
        }
        if (is_num(c, wanted[k], -1) && open >= 0) fail(c, NST_E_MODEL, "shape has more than one entry -1");
        if (is_num(c, wanted[k], -1))
            open = k;
        else
            rest = mul(c, rest, shape[k]);
    }
    if (open >= 0) {
        D all = product(c, x, 0, rank(c, x));
        if (is_num(c, rest, 0)) fail(c, NST_E_SHAPE, "shape has an entry -1 beside a size of 0");
        shape[open] = nst_dim_floordiv(c->b->graph->dims, all, rest);
    }
    out(c, 0, failed(c) ? x : reshape(c, x, n, shape));
}

LOWER(flatten)
{
    V x = in(c, 0);
    int r = rank(c, x), axis = norm_axis(c, attr_i(c, "axis"), r, true);
    D shape[2] = {product(c, x, 0, axis), product(c, x, axis, r)};
    out(c, 0, reshape(c, x, 2, shape));
}

LOWER(transpose)
{
    V x = in(c, 0);
    int n, r = rank(c, x), order[NST_MAX_RANK];
    const int64_t *perm = attr_ints(c, "perm", &n);
    bool given = has_attr(c, "perm");
    if (given && n != r) fail(c, NST_E_MODEL, "perm has %d entries, data has rank %d", n, r);
    for (int k = 0; k < r && !failed(c); k++) order[k] = given ? norm_axis(c, perm[k], r, false) : r - 1 - k;
    out(c, 0, permute(c, x, order));
}

LOWER(concat)
{
    int r = rank(c, in(c, 0));
    out(c, 0, concat(c, c->n_ins, c->ins, norm_axis(c, attr_i(c, "axis"), r, false)));
}

/* True if the shapes of inputs decide about the size, so that a plan for given shapes knows it. */
static bool follows_inputs(NstLower *c, D size)
{
    NstDims *dims = c->b->graph->dims;
    for (uint32_t k = 1; k <= nst_dims_sym_count(dims); k++)
        if (nst_dims_sym(dims, (NstSym){k})->kind != NST_SYM_INPUT && nst_dim_uses(dims, size, (NstSym){k}))
            return false;
    return true;
}

/* Whether an axis that is not named goes; one whose size is a value of the run stays, and is checked. */
static bool is_squeezed(NstLower *c, V x, int k)
{
    NstTruth one = compare(c, dim(c, x, k), NST_DIM_EQ, num(c, 1));
    if (one != NST_UNKNOWN) return one == NST_TRUE;
    if (follows_inputs(c, dim(c, x, k)))
        fail(c, NST_E_UNSUPPORTED, "axes are not given, and whether axis %d has extent 1 is not known: not supported",
             k);
    else
        nst_build_assert(c->b, map(c, "a != 1", size_value(c, dim(c, x, k))),
                         nst_format(c->arena, "%s: axes are not given, and axis %d has extent 1", c->label, k));
    return false;
}

LOWER(squeeze)
{
    V x = in(c, 0);
    int n;
    const int64_t *list = const_ints(c, 1, "axes", &n);
    Axes axes = axes_of(c, list, n > 0 ? n : 0, rank(c, x));
    for (int k = 0; n < 0 && k < rank(c, x) && !failed(c); k++)
        if (is_squeezed(c, x, k)) axes.at[axes.n++] = k;
    for (int k = axes.n - 1; k >= 0; k--) x = drop_axis(c, x, axes.at[k]);
    out(c, 0, x);
}

LOWER(unsqueeze)
{
    V x = in(c, 0);
    int n;
    const int64_t *list = const_ints(c, 1, "axes", &n);
    int to = rank(c, x) + (n > 0 ? n : 0);
    if (to > NST_MAX_RANK) fail(c, NST_E_LIMIT, "rank %d, allowed: at most %d", to, NST_MAX_RANK);
    Axes axes = failed(c) ? (Axes){0} : axes_of(c, list, n, to);
    for (int k = 0; k < axes.n; k++) x = insert_axis(c, x, axes.at[k]);
    out(c, 0, x);
}

LOWER(expand)
{
    V x = in(c, 0);
    int n;
    const D *wanted = sizes_in(c, 1, "shape", 0, &n);
    D shape[NST_MAX_RANK];
    int r = rank(c, x), to = n > r ? n : r;
    if (to > NST_MAX_RANK) fail(c, NST_E_LIMIT, "rank %d, allowed: at most %d", to, NST_MAX_RANK);
    for (int k = 0; k < to && !failed(c); k++) {
        D own = k >= to - r ? dim(c, x, k - (to - r)) : num(c, 1);
        shape[k] = k >= to - n ? broadcast_extent(c, own, wanted[k - (to - n)]) : own;
    }
    out(c, 0, failed(c) ? x : expand(c, x, to, shape));
}

LOWER(tile)
{
    V x = in(c, 0);
    int n, r = rank(c, x);
    const D *repeats = sizes_in(c, 1, "repeats", 0, &n);
    if (!failed(c) && n != r) fail(c, NST_E_SHAPE, "repeats has %d entries, input has rank %d", n, r);
    for (int k = 0; k < r && !failed(c); k++) {
        D shape[NST_MAX_RANK];
        if (is_num(c, repeats[k], 1)) continue;
        V y = insert_axis(c, x, k);
        for (int j = 0; j <= r && !failed(c); j++) shape[j] = j == k ? repeats[k] : dim(c, y, j);
        x = merge_axes(c, expand(c, y, r + 1, shape), k);
    }
    out(c, 0, x);
}

/* --- slices ---------------------------------------------------------------------------------------------------- */

/* A bound of a slice, counted from the end if negative, within lo..hi; the whole axis for what stands for "the end". */
static D bound(NstLower *c, D b, D n, D lo, D hi)
{
    int64_t value;
    D zero = num(c, 0);
    if (known(c, b, &value)) {
        if (value >= INT32_MAX) return hi;
        if (value <= -INT64_MAX) return least(c, lo, hi);
        return least(c, most(c, value < 0 ? add(c, n, b) : b, lo), hi);
    }
    if (compare(c, b, NST_DIM_GE, zero) != NST_TRUE) /* adds n if b < 0; no -b, which the least number has not */
        b = sub(c, b, mul(c, n, least(c, most(c, b, num(c, -1)), zero)));
    return least(c, most(c, b, lo), hi);
}

typedef struct Cut {
    D start, size;
} Cut;

static Cut cut(NstLower *c, D n, D start, D end, int64_t step)
{
    NstDims *dims = c->b->graph->dims;
    D zero = num(c, 0), last = minus1(c, n), from, to, span;
    if (step > 0) {
        from = bound(c, start, n, zero, n);
        to = bound(c, end, n, zero, n);
        span = sub(c, to, from);
    } else {
        int64_t value;
        from = bound(c, start, n, zero, last); /* of an empty axis: -1 */
        bool all = known(c, end, &value) && value <= -INT32_MAX;
        to = all ? num(c, -1) : bound(c, end, n, num(c, -1), last);
        span = sub(c, from, to);
    }
    return (Cut){from, most(c, nst_dim_ceildiv(dims, span, num(c, step > 0 ? step : -step)), zero)};
}

LOWER(slice)
{
    V x = in(c, 0);
    int n, m, n_axes, n_steps;
    const D *start = sizes_in(c, 1, "starts", INT64_MIN, &n), *end = sizes_in(c, 2, "ends", INT64_MIN, &m);
    const int64_t *axis = const_ints(c, 3, "axes", &n_axes), *step = const_ints(c, 4, "steps", &n_steps);
    if (!failed(c) && (n != m || (n_axes >= 0 && n_axes != n) || (n_steps >= 0 && n_steps != n)))
        fail(c, NST_E_MODEL, "starts, ends, axes and steps have %d, %d, %d and %d entries, allowed: equal", n, m,
             n_axes, n_steps);
    for (int k = 0; k < n && !failed(c); k++) {
        int a = norm_axis(c, n_axes >= 0 ? axis[k] : k, rank(c, x), false);
        int64_t s = n_steps >= 0 ? step[k] : 1;
        if (s == 0 || s <= -INT64_MAX) fail(c, NST_E_MODEL, "step %lld, allowed: not 0", (long long)s);
        if (failed(c)) break;
        Cut at = cut(c, dim(c, x, a), start[k], end[k], s);
        x = slice1(c, x, a, at.start, s, at.size);
    }
    out(c, 0, x);
}

/* By given sizes, else into equal parts of which the last may be smaller. */
LOWER(split)
{
    V x = in(c, 0);
    int n, axis = norm_axis(c, attr_i(c, "axis"), rank(c, x), false);
    const D *size = sizes_in(c, 1, "split", 0, &n);
    D at = num(c, 0), all = dim(c, x, axis);
    if (has_attr(c, "num_outputs") && attr_i(c, "num_outputs") != c->n_outs)
        fail(c, NST_E_MODEL, "num_outputs is %lld, the node has %d outputs", (long long)attr_i(c, "num_outputs"),
             c->n_outs);
    if (n >= 0 && n != c->n_outs) fail(c, NST_E_MODEL, "split has %d entries, the node has %d outputs", n, c->n_outs);
    D part = nst_dim_ceildiv(c->b->graph->dims, all, num(c, c->n_outs));
    for (int k = 0; k < c->n_outs && !failed(c); k++) {
        D own = n >= 0 ? size[k] : least(c, part, sub(c, all, at));
        out(c, k, slice1(c, x, axis, at, 1, own));
        at = add(c, at, own);
    }
    if (!failed(c)) nst_build_require_equal(c->b, at, all, nst_format(c->arena, "%s: sum of split", c->label));
}

/* --- padding and blocks ---------------------------------------------------------------------------------------- */

LOWER(pad)
{
    static const struct {
        const char *name;
        NstPadMode mode;
    } modes[] = {
        {"constant", NST_PAD_CONSTANT}, {"edge", NST_PAD_EDGE}, {"reflect", NST_PAD_REFLECT}, {"wrap", NST_PAD_WRAP}};
    V x = in(c, 0), value = in(c, 2);
    int n, n_axes, r = rank(c, x), mode = -1;
    const D *pads = sizes_in(c, 1, "pads", INT64_MIN, &n);
    const int64_t *axis = const_ints(c, 3, "axes", &n_axes);
    D lo[NST_MAX_RANK], hi[NST_MAX_RANK];
    for (int k = 0; k < 4; k++)
        if (attr_is(c, "mode", modes[k].name)) mode = k;
    if (mode < 0) fail(c, NST_E_MODEL, "mode '%s', allowed: constant, edge, reflect, wrap", attr_s(c, "mode"));
    int count = n_axes >= 0 ? n_axes : r;
    if (!failed(c) && n != 2 * count) fail(c, NST_E_MODEL, "pads has %d entries, allowed: %d", n, 2 * count);
    if (failed(c)) return;
    for (int k = 0; k < r; k++) lo[k] = hi[k] = num(c, 0);
    for (int k = 0; k < count; k++) {
        int a = n_axes >= 0 ? norm_axis(c, axis[k], r, false) : k;
        lo[a] = pads[k];
        hi[a] = pads[k + count];
    }
    if (value.i && rank(c, value) == 1) value = drop_axis(c, value, 0);
    out(c, 0,
        nst_build_pad(c->b, x, lo, hi, NULL, modes[mode].mode, modes[mode].mode == NST_PAD_CONSTANT ? value : (V){0}));
}

/* Cuts or fills with zeros to a size, on both sides alike; the odd one out is at the end. */
LOWER(center_crop_pad)
{
    V x = in(c, 0);
    int n, n_axes, r = rank(c, x);
    const int64_t *axis = attr_ints(c, "axes", &n_axes);
    const D *size = sizes_in(c, 1, "shape", 0, &n);
    bool all = !has_attr(c, "axes");
    D lo[NST_MAX_RANK], hi[NST_MAX_RANK], zero = num(c, 0), two = num(c, 2);
    NstDims *dims = c->b->graph->dims;
    if (!failed(c) && n != (all ? r : n_axes))
        fail(c, NST_E_MODEL, "shape has %d entries, allowed: %d", n, all ? r : n_axes);
    for (int k = 0; k < r; k++) lo[k] = hi[k] = zero;
    for (int k = 0; k < n && !failed(c); k++) {
        int a = all ? k : norm_axis(c, axis[k], r, false);
        D more = sub(c, size[k], dim(c, x, a)), less = most(c, sub(c, zero, more), zero);
        lo[a] = sub(c, nst_dim_floordiv(dims, most(c, more, zero), two), nst_dim_floordiv(dims, less, two));
        hi[a] = sub(c, more, lo[a]);
    }
    if (!failed(c)) out(c, 0, nst_build_pad(c->b, x, lo, hi, NULL, NST_PAD_CONSTANT, (V){0}));
}

LOWER(depth_to_space)
{
    V x = in(c, 0);
    int64_t b = attr_i(c, "blocksize");
    static const int dcr[] = {0, 3, 4, 1, 5, 2}, crd[] = {0, 1, 4, 2, 5, 3};
    bool columns = attr_is(c, "mode", "CRD");
    if (b < 1 || b > 65536 || rank(c, x) != 4)
        fail(c, NST_E_MODEL, "blocksize %lld, rank %d, allowed: 1 to 65536, 4", (long long)b, rank(c, x));
    if (failed(c)) return;
    D ch = nst_dim_floordiv(c->b->graph->dims, dim(c, x, 1), num(c, b * b)), n = num(c, b);
    D by_depth[6] = {dim(c, x, 0), n, n, ch, dim(c, x, 2), dim(c, x, 3)};
    D by_column[6] = {dim(c, x, 0), ch, n, n, dim(c, x, 2), dim(c, x, 3)};
    x = permute(c, reshape(c, x, 6, columns ? by_column : by_depth), columns ? crd : dcr);
    out(c, 0, merge_axes(c, merge_axes(c, x, 4), 2));
}

LOWER(space_to_depth)
{
    V x = in(c, 0);
    int64_t b = attr_i(c, "blocksize");
    static const int dcr[] = {0, 3, 5, 1, 2, 4}, crd[] = {0, 1, 3, 5, 2, 4};
    if (b < 1 || b > 65536 || rank(c, x) != 4)
        fail(c, NST_E_MODEL, "blocksize %lld, rank %d, allowed: 1 to 65536, 4", (long long)b, rank(c, x));
    if (failed(c)) return;
    NstDims *dims = c->b->graph->dims;
    D n = num(c, b), h = nst_dim_floordiv(dims, dim(c, x, 2), n), w = nst_dim_floordiv(dims, dim(c, x, 3), n);
    D apart[6] = {dim(c, x, 0), dim(c, x, 1), h, n, w, n};
    x = permute(c, reshape(c, x, 6, apart), attr_is(c, "mode", "CRD") ? crd : dcr);
    out(c, 0, merge_axes(c, merge_axes(c, x, 1), 1));
}

/* Elements above (upper 0: below) the k-th diagonal of the last two axes are 0. */
LOWER(trilu)
{
    V x = in(c, 0);
    int r = rank(c, x);
    V k = has(c, 1) && rank(c, in(c, 1)) == 1 ? drop_axis(c, in(c, 1), 0) : in(c, 1);
    if (r < 2) fail(c, NST_E_SHAPE, "input has rank %d, allowed: at least 2", r);
    if (failed(c)) return;
    V row = along(c, nst_build_iota(c->b, dim(c, x, r - 2)), r - 2, r);
    V column = along(c, nst_build_iota(c->b, dim(c, x, r - 1)), r - 1, r);
    V zero = number(c, dtype(c, x), 0);
    V keep = map(c, attr_i(c, "upper") ? "b >= a + c" : "b <= a + c", row, column, k.i ? k : number(c, NST_I64, 0));
    out(c, 0, where(c, keep, x, zero));
}

LOWER(eye_like)
{
    V x = in(c, 0);
    NstDtype t = attr_type(c, "dtype", dtype(c, x));
    if (rank(c, x) != 2) fail(c, NST_E_SHAPE, "input has rank %d, allowed: 2", rank(c, x));
    if (failed(c)) return;
    V row = along(c, nst_build_iota(c->b, dim(c, x, 0)), 0, 2),
      column = along(c, nst_build_iota(c->b, dim(c, x, 1)), 1, 2);
    out(c, 0, convert(c, map(c, "b == a + @k", row, column), t));
}

LOWER(bit_cast)
{
    NstDtype to = attr_type(c, "to", NST_DTYPE_NONE);
    V x = in(c, 0);
    if (dtype(c, x) == NST_BOOL) x = convert(c, x, NST_U8);
    if (!failed(c)) out(c, 0, to == NST_BOOL ? map(c, "a != 0", x) : nst_build_bitcast(c->b, x, to));
}

/* Reverses the first lengths[b] entries of the time axis. */
LOWER(reverse_sequence)
{
    V x = in(c, 0);
    int r = rank(c, x), time = norm_axis(c, attr_i(c, "time_axis"), r, false);
    int batch = norm_axis(c, attr_i(c, "batch_axis"), r, false);
    if (time + batch != 1) fail(c, NST_E_MODEL, "time and batch axis %d and %d, allowed: 0 and 1", time, batch);
    if (failed(c)) return;
    V place = insert_axis(c, nst_build_iota(c->b, dim(c, x, time)), 0), length = insert_axis(c, in(c, 1), 1);
    V from = map(c, "a < b ? b - 1 - a : a", place, length); /* [batch, time] */
    int order[NST_MAX_RANK] = {1, 0};
    for (int k = 2; k < r; k++) order[k] = k;
    if (batch == 1) x = permute(c, x, order);
    V y = nst_build_gather(c->b, x, from, 1, 1, NST_INDEX_CHECKED);
    out(c, 0, batch == 1 ? permute(c, y, order) : y);
}

/* --- constants ------------------------------------------------------------------------------------------------- */

LOWER(constant)
{
    const NstAttr *a = c->attrs.list.n == 1 ? &c->attrs.list.at[0] : NULL;
    int64_t n = a ? (int64_t)a->n : 0;
    if (!a)
        fail(c, NST_E_MODEL, "%u attributes, allowed: one", c->attrs.list.n);
    else if (strcmp(a->name, "value") == 0)
        out(c, 0, weight(c, a->proto->t, "value"));
    else if (strcmp(a->name, "sparse_value") == 0)
        out(c, 0, sparse_weight(c, a->proto->sparse_tensor, "sparse_value"));
    else if (strcmp(a->name, "value_int") == 0)
        out(c, 0, nst_build_const(c->b, NST_I64, 0, NULL, &a->i));
    else if (strcmp(a->name, "value_float") == 0)
        out(c, 0, number(c, NST_F32, a->f));
    else if (strcmp(a->name, "value_ints") == 0)
        out(c, 0, nst_build_const(c->b, NST_I64, 1, &n, a->ints));
    else if (strcmp(a->name, "value_floats") == 0)
        out(c, 0, nst_build_const(c->b, NST_F32, 1, &n, a->floats));
    else if (strcmp(a->name, "value_string") == 0)
        out(c, 0, reshape(c, strings_const(c, 1, &a->s), 0, NULL));
    else if (strcmp(a->name, "value_strings") == 0)
        out(c, 0, strings_const(c, a->n, a->strings));
    else
        fail(c, NST_E_UNSUPPORTED, "attribute '%s' is not supported", a->name);
}

LOWER(constant_of_shape)
{
    const NstAttr *a = nst_attrs_find(&c->attrs, "value");
    int n;
    const D *shape = sizes_in(c, 0, "input", 0, &n);
    V value = a ? weight(c, a->proto->t, "value") : number(c, NST_F32, 0);
    if (n > NST_MAX_RANK) fail(c, NST_E_LIMIT, "rank %d, allowed: at most %d", n, NST_MAX_RANK);
    if (!failed(c) && !is_num(c, product(c, value, 0, rank(c, value)), 1))
        fail(c, NST_E_MODEL, "attribute 'value' is no tensor of one number, allowed: one element");
    NstScalar splat;
    if (failed(c)) return;
    out(c, 0,
        const_scalar(c, value, &splat) ? nst_build_splat(c->b, dtype(c, value), n, shape, splat)
                                       : expand(c, reshape(c, value, 0, NULL), n, shape));
}

/* ceil((limit - start) / delta), at least 0: from known sizes, or as a size that is read at run time. */
static D range_count(NstLower *c)
{
    NstShapeValue start = nst_shape_value(c->sizes, in(c, 0)), limit = nst_shape_value(c->sizes, in(c, 1)),
                  delta = nst_shape_value(c->sizes, in(c, 2));
    int64_t step;
    if (start.n == 1 && limit.n == 1 && delta.n == 1 && known(c, delta.dim[0], &step) && step != 0 &&
        step > -INT64_MAX) {
        D span = step > 0 ? sub(c, limit.dim[0], start.dim[0]) : sub(c, start.dim[0], limit.dim[0]);
        return most(c, nst_dim_ceildiv(c->b->graph->dims, span, num(c, step > 0 ? step : -step)), num(c, 0));
    }
    V x[3] = {widen(c, in(c, 0)), widen(c, in(c, 1)), widen(c, in(c, 2))};
    const char *count = nst_dtype_is_float(dtype(c, x[0]))
                            ? "max(ceil((b - a) / c), 0)"
                            : "max(c > 0 ? floordiv(b - a + c - 1, c) : floordiv(a - b - c - 1, -c), 0)";
    return nst_build_value_dim(c->b, convert(c, mapn(c, count, 3, x), NST_I64), NULL, 0, INT64_MAX);
}

/* start + i * delta */
LOWER(range)
{
    for (int k = 0; k < 3; k++) {
        if (rank(c, in(c, k)) == 1) c->ins[k] = drop_axis(c, in(c, k), 0); /* one entry, as some exporters write it */
        if (rank(c, in(c, k)) != 0) fail(c, NST_E_SHAPE, "input %d has rank %d, allowed: 0", k, rank(c, in(c, k)));
    }
    if (failed(c)) return;
    V start = widen(c, in(c, 0)), i = convert(c, nst_build_iota(c->b, range_count(c)), dtype(c, start));
    out(c, 0, convert(c, map(c, "b + a * c", i, start, widen(c, in(c, 2))), dtype(c, in(c, 0))));
}
