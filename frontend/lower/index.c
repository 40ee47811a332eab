/* index.c: gathers, scatters, selections. */
#include "frontend/lower/text.h"

/* Negative indices count from the end. */
static V from_end(NstLower *c, V index, D extent)
{
    V n = convert(c, size_value(c, extent), dtype(c, index));
    return map(c, "a < 0 ? a + b : a", index, n);
}

LOWER(gather)
{
    V x = in(c, 0);
    int axis = norm_axis(c, attr_i(c, "axis"), rank(c, x), false);
    out(c, 0, gather(c, x, from_end(c, in(c, 1), dim(c, x, axis)), axis, NST_INDEX_CHECKED));
}

/* out[.., i, ..] = data[.., index[.., i, ..], ..]: the axis moves last, the others of data are cut to the index's. */
LOWER(gather_elements)
{
    V x = in(c, 0), index = in(c, 1);
    int r = rank(c, x), axis = norm_axis(c, attr_i(c, "axis"), r, false), order[NST_MAX_RANK], back[NST_MAX_RANK];
    if (rank(c, index) != r) fail(c, NST_E_SHAPE, "indices have rank %d, data %d", rank(c, index), r);
    if (failed(c)) return;
    for (int k = 0, at = 0; k < r; k++)
        if (k != axis) order[at++] = k;
    order[r - 1] = axis;
    for (int k = 0; k < r; k++) back[order[k]] = k;
    index = from_end(c, index, dim(c, x, axis));
    for (int k = 0; k < r; k++)
        if (k != axis) x = slice1(c, x, k, num(c, 0), 1, dim(c, index, k));
    V y = nst_build_gather(c->b, permute(c, x, order), permute(c, index, order), r - 1, r - 1, NST_INDEX_CHECKED);
    out(c, 0, permute(c, y, back));
}

/* Tuples of m indices of the axes from `first` on, as positions in those axes flattened: [..., m] -> [...]. */
static V flat_index(NstLower *c, V x, V index, int first, int m)
{
    int last = rank(c, index) - 1;
    V flat = {0};
    for (int k = 0; k < m; k++) {
        D extent = dim(c, x, first + k);
        V one = from_end(c, drop_axis(c, slice1(c, index, last, num(c, k), 1, num(c, 1)), last), extent);
        V ok = map(c, "a >= 0 & a < b", one, convert(c, size_value(c, extent), dtype(c, one)));
        one = map(c, "a ? b : -1", ok, one); /* an index outside stays outside once flattened */
        flat = k == 0 ? one
                      : map(c, "a < 0 | b < 0 ? -1 : a * c + b", flat, one,
                            convert(c, size_value(c, extent), dtype(c, one)));
    }
    return flat;
}

/* x with the m axes from `first` on as one. */
static V flatten_axes(NstLower *c, V x, int first, int m)
{
    for (int k = 1; k < m; k++) x = merge_axes(c, x, first);
    return x;
}

/* The length of the last axis of indices, which has to be known. */
static int tuple_size(NstLower *c, V x, V index, int batch)
{
    int64_t m;
    int r = rank(c, x), q = rank(c, index);
    if (failed(c) || q < 1 || !known(c, dim(c, index, q - 1), &m)) {
        fail(c, NST_E_UNSUPPORTED, "indices of rank %d whose last extent is not known: not supported", q);
        return 0;
    }
    if (m < 1 || m + batch > r || batch < 0 || batch >= q) {
        fail(c, NST_E_SHAPE, "indices have last extent %lld with %d batch axes, data have rank %d", (long long)m, batch,
             r);
        return 0;
    }
    return (int)m;
}

LOWER(gather_nd)
{
    V x = in(c, 0), index = in(c, 1);
    int batch = (int)attr_i(c, "batch_dims"), m = tuple_size(c, x, index, batch);
    if (failed(c)) return;
    V flat = flat_index(c, x, index, batch, m);
    out(c, 0, nst_build_gather(c->b, flatten_axes(c, x, batch, m), flat, batch, batch, NST_INDEX_CHECKED));
}

static const char *combiner(NstLower *c)
{
    static const char *const names[][2] = {
        {"none", NULL}, {"add", "a + b"}, {"mul", "a * b"}, {"max", "max(a, b)"}, {"min", "min(a, b)"}};
    for (int k = 0; k < 5; k++)
        if (attr_is(c, "reduction", names[k][0])) return names[k][1];
    fail(c, NST_E_MODEL, "reduction '%s', allowed: none, add, mul, max, min", attr_s(c, "reduction"));
    return NULL;
}

LOWER(scatter_nd)
{
    V x = in(c, 0), index = in(c, 1);
    int m = tuple_size(c, x, index, 0);
    if (failed(c)) return;
    V y = nst_build_scatter(c->b, flatten_axes(c, x, 0, m), flat_index(c, x, index, 0, m), in(c, 2), 0, false,
                            combiner(c), NST_INDEX_CHECKED);
    out(c, 0, reshape(c, y, rank(c, x), type(c, x)->shape));
}

LOWER(scatter_elements)
{
    V x = in(c, 0);
    int axis = norm_axis(c, attr_i(c, "axis"), rank(c, x), false);
    out(c, 0,
        nst_build_scatter(c->b, x, from_end(c, in(c, 1), dim(c, x, axis)), in(c, 2), axis, true,
                          has_attr(c, "reduction") ? combiner(c) : NULL, NST_INDEX_CHECKED));
}

/* The cache with an update written along an axis, from each sample's own index on. */
LOWER(tensor_scatter)
{
    V x = in(c, 0), update = in(c, 1), start[NST_MAX_RANK] = {{0}};
    int r = rank(c, x), axis = norm_axis(c, attr_i(c, "axis"), r, false), order[NST_MAX_RANK] = {0}, back[NST_MAX_RANK];
    bool circular = attr_is(c, "mode", "circular");
    if (!circular && !attr_is(c, "mode", "linear"))
        fail(c, NST_E_MODEL, "mode '%s', allowed: linear, circular", attr_s(c, "mode"));
    if (axis == 0 || rank(c, update) != r)
        fail(c, NST_E_MODEL, "axis %d, ranks %d and %d, allowed: not 0, equal", axis, r, rank(c, update));
    if (failed(c)) return;
    if (!has(c, 2) || (!circular && is_num(c, dim(c, x, 0), 1))) { /* one start for all */
        if (has(c, 2)) start[axis] = reshape(c, in(c, 2), 0, NULL);
        out(c, 0, nst_build_update_slice(c->b, x, update, start));
        return;
    }
    for (int k = 1, at = 2; k < r; k++) order[k == axis ? 1 : at++] = k;
    for (int k = 0; k < r; k++) back[order[k]] = k;
    V rows = permute(c, x, order), length = size_value(c, dim(c, x, axis)); /* [batch, axis, ...] */
    V at = map(c, "a + b", insert_axis(c, in(c, 2), 1), nst_build_iota(c->b, dim(c, update, axis)));
    at = map(c, circular ? "mod(a, b)" : "a >= 0 & a < b ? a : -1", at, length);
    at = map(c, "b < 0 ? b : a * c + b", insert_axis(c, nst_build_iota(c->b, dim(c, x, 0)), 1), at, length);
    V y = nst_build_scatter(c->b, merge_axes(c, rows, 0), at, permute(c, update, order), 0, false, NULL,
                            NST_INDEX_CHECKED);
    out(c, 0, permute(c, reshape(c, y, r, type(c, rows)->shape), back));
}

/* values = [off, on] at a new axis of `depth` entries. */
LOWER(one_hot)
{
    V index = in(c, 0), values = in(c, 2);
    int n, r = rank(c, index) + 1, axis = norm_axis(c, attr_i(c, "axis"), r, false);
    V depth_in = in(c, 1);
    if (nst_dtype_is_float(dtype(c, depth_in))) c->ins[1] = convert(c, depth_in, NST_I64);
    const D *depth = sizes_in(c, 1, "depth", 0, &n);
    if (failed(c) || n != 1) return;
    if (nst_dtype_is_float(dtype(c, index))) index = convert(c, index, NST_I64);
    index = insert_axis(c, from_end(c, index, depth[0]), axis);
    V place = convert(c, along(c, nst_build_iota(c->b, depth[0]), axis, r), dtype(c, index));
    V off = drop_axis(c, slice1(c, values, 0, num(c, 0), 1, num(c, 1)), 0);
    V on = drop_axis(c, slice1(c, values, 0, num(c, 1), 1, num(c, 1)), 0);
    out(c, 0, where(c, map(c, "a == b", index, place), on, off));
}

/* Keys are sorted with their places as payload; k leading ones are kept. */
LOWER(top_k)
{
    V x = in(c, 0);
    int n, r = rank(c, x), axis = norm_axis(c, attr_i(c, "axis"), r, false);
    const D *keep = sizes_in(c, 1, "K", 0, &n);
    if (!failed(c) && n != 1) fail(c, NST_E_MODEL, "K has %d entries, allowed: 1", n);
    if (failed(c)) return;
    V pair[2] = {x, expand(c, along(c, nst_build_iota(c->b, dim(c, x, axis)), axis, r), r, type(c, x)->shape)},
      sorted[2];
    if (nst_build_sort(c->b, 2, pair, 1, axis, attr_i(c, "largest") != 0, keep[0], sorted) != NST_OK) return;
    out(c, 0, sorted[0]);
    out(c, 1, sorted[1]);
}

/* Places of the elements that are not zero: [rank, count]. */
LOWER(non_zero)
{
    bool is_scalar = rank(c, in(c, 0)) == 0; /* counted as a list of one, whose axis has no row in the result */
    V x = is_scalar ? insert_axis(c, in(c, 0), 0) : in(c, 0), place[NST_MAX_RANK], kept[NST_MAX_RANK];
    int r = rank(c, x);
    D all = product(c, x, 0, r);
    NstSym count;
    if (failed(c)) return;
    V mask = dtype(c, x) == NST_BOOL ? x : map(c, "a != b", handles(c, x), handles(c, number(c, dtype(c, x), 0)));
    for (int k = 0; k < r; k++) {
        V own = expand(c, along(c, nst_build_iota(c->b, dim(c, x, k)), k, r), r, type(c, x)->shape);
        place[k] = reshape(c, own, 1, &all);
    }
    if (nst_build_compact(c->b, reshape(c, mask, 1, &all), (uint32_t)r, place, 0, kept, &count) != NST_OK) return;
    for (int k = 0; k < r; k++) kept[k] = insert_axis(c, kept[k], 0);
    V rows = concat(c, r, kept, 0);
    out(c, 0, is_scalar ? slice1(c, rows, 0, num(c, 0), 1, num(c, 0)) : rows);
}

/* The entries along an axis (or of all elements) where the condition holds; past its end nothing is kept. */
LOWER(compress)
{
    V x = in(c, 0), mask = in(c, 1), kept;
    bool flat = !has_attr(c, "axis");
    D all = product(c, x, 0, rank(c, x)), zero = num(c, 0);
    NstSym count;
    if (flat) x = reshape(c, x, 1, &all);
    int axis = flat ? 0 : norm_axis(c, attr_i(c, "axis"), rank(c, x), false);
    D rest = sub(c, dim(c, x, axis), dim(c, mask, 0));
    if (failed(c)) return;
    mask = nst_build_pad(c->b, mask, &zero, &rest, NULL, NST_PAD_CONSTANT, (V){0});
    if (nst_build_compact(c->b, mask, 1, &x, axis, &kept, &count) == NST_OK) out(c, 0, kept);
}
