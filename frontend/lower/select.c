/* select.c: operators that choose: unique elements, boxes that do not overlap; and determinants, which choose pivots. */
#include "frontend/lower/text.h"

#include <math.h>

/* --- unique ---------------------------------------------------------------------------------------------------- */

/* perm, stably sorted by key[perm]. */
static V sort_by(NstLower *c, V key, V perm)
{
    V pair[2] = {gather(c, key, perm, 0, NST_INDEX_CLAMPED), perm}, sorted[2] = {{0}};
    if (!failed(c)) (void)nst_build_sort(c->b, 2, pair, 1, 0, false, (NstDim){0}, sorted);
    return sorted[1];
}

/* The order of the rows of x[n, m]: by the last column first, so that earlier ones decide. */
static V row_order(NstLower *c, V x)
{
    V perm = nst_build_iota(c->b, dim(c, x, 0)), result = {0};
    if (is_num(c, dim(c, x, 1), 1)) return sort_by(c, drop_axis(c, x, 1), perm);
    Inner inner;
    V to[2], last = size_value(c, minus1(c, dim(c, x, 1)));
    const NstType *state = type(c, perm);
    if (failed(c)) return perm;
    enter(c, &inner);
    V t = loop_params(c, "column", &to[0]);
    V own = param(c, "order", state);
    to[1] = sort_by(c, drop_axis(c, step_slice(c, x, 1, map(c, "b - a", t, last)), 1), own);
    NstRegionId region = leave(c, &inner, 2, to);
    if (!failed(c)) (void)nst_build_loop(c->b, size_value(c, dim(c, x, 1)), (V){0}, 1, &perm, region, &result, 1);
    return result;
}

static V scatter_into(NstLower *c, D n, V at, V value, const char *combine)
{
    V zeros = expand(c, number(c, NST_I64, 0), 1, &n);
    return failed(c) ? zeros : nst_build_scatter(c->b, zeros, at, value, 0, false, combine, NST_INDEX_CHECKED);
}

typedef struct Groups {
    V first; /* place of each group's first row */
    V group; /* of each row, in the sorted order */
    V order;
} Groups;

/* Equal neighbours in the order become groups; in order of their first rows if not sorted. */
static bool find_groups(NstLower *c, V rows, bool sorted, Groups *g)
{
    V i = nst_build_iota(c->b, dim(c, rows, 0)), kept[2] = {{0}};
    NstSym count;
    g->order = row_order(c, rows);
    V now = gather(c, rows, g->order, 0, NST_INDEX_CLAMPED);
    V before = gather(c, now, map(c, "max(a - 1, 0)", i), 0, NST_INDEX_CLAMPED);
    V starts = map(c, "a | b == 0", reduce(c, "a | b", map(c, "a != b", now, before), axes_from(1, 2), DROP), i);
    if (failed(c) || nst_build_compact(c->b, starts, 1, &g->order, 0, &g->first, &count) != NST_OK) return false;
    g->group = map(c, "a - 1", nst_build_prefix(c->b, convert(c, starts, NST_I64), "a + b", 0, false, false));
    if (sorted) return !failed(c);
    V groups = nst_build_iota(c->b, dim(c, g->first, 0)), pair[2] = {g->first, groups};
    if (failed(c) || nst_build_sort(c->b, 2, pair, 1, 0, false, (NstDim){0}, kept) != NST_OK) return false;
    g->first = kept[0];
    g->group = gather(c, scatter_into(c, dim(c, groups, 0), kept[1], groups, NULL), g->group, 0, NST_INDEX_CHECKED);
    return !failed(c);
}

/* Outputs: rows (or elements), places of first ones, the group of each, how many each has. */
LOWER(unique)
{
    V x = in(c, 0);
    int r = rank(c, x), order[NST_MAX_RANK];
    bool flat = !has_attr(c, "axis");
    int axis = flat ? 0 : norm_axis(c, attr_i(c, "axis"), r, false);
    D shape[2] = {flat ? product(c, x, 0, r) : dim(c, x, axis), num(c, 1)};
    for (int k = 0, at = 1; k < r; k++) order[k == axis ? 0 : at++] = k;
    V front = flat ? x : permute(c, x, order);
    if (!flat) shape[1] = product(c, front, 1, r);
    V rows = reshape(c, front, 2, shape);
    if (dtype(c, rows) == NST_STR) rows = string_ranks(c, rows);
    if (dtype(c, rows) == NST_BOOL) rows = convert(c, rows, NST_U8);
    Groups g;
    if (failed(c) || !find_groups(c, widen(c, rows), attr_i(c, "sorted") != 0, &g)) return;
    V y = flat ? reshape(c, x, 1, shape) : x;
    D groups = dim(c, g.first, 0);
    out(c, 0, gather(c, y, g.first, axis, NST_INDEX_CHECKED));
    out(c, 1, g.first);
    out(c, 2, scatter_into(c, shape[0], g.order, g.group, NULL));
    V ones = expand(c, number(c, NST_I64, 1), 1, shape);
    out(c, 3, wants(c, 3) ? scatter_into(c, groups, g.group, ones, "a + b") : g.first);
}

/* --- boxes ----------------------------------------------------------------------------------------------------- */

/* Low and high corner of boxes along one axis (0 or 1), from two corners, or centre and size. */
static void corners(NstLower *c, V boxes, int axis, V corner[2])
{
    int last = rank(c, boxes) - 1;
    bool centred = attr_i(c, "center_point_box") != 0;
    V a = drop_axis(c, slice1(c, boxes, last, num(c, axis), 1, num(c, 1)), last),
      b = drop_axis(c, slice1(c, boxes, last, num(c, axis + 2), 1, num(c, 1)), last);
    corner[0] = map(c, centred ? "a - b / 2" : "min(a, b)", a, b);
    corner[1] = map(c, centred ? "a + b / 2" : "max(a, b)", a, b);
}

/* Whether boxes overlap: the quotient of common and joint area is more than a threshold.  one[B, K, 4], all[B, n, 4]. */
static V overlaps(NstLower *c, V one, V all, V threshold)
{
    V common = {0}, area[2] = {{0}};
    for (int axis = 0; axis < 2; axis++) {
        V a[2], b[2];
        corners(c, insert_axis(c, one, 2), axis, a);
        corners(c, insert_axis(c, all, 1), axis, b);
        V length = map(c, "max(min(b, d) - max(a, c), 0)", a[0], a[1], b[0], b[1]);
        V own = map(c, "b - a", a[0], a[1]), other = map(c, "b - a", b[0], b[1]);
        common = axis == 0 ? length : map(c, "a * b", common, length);
        area[0] = axis == 0 ? own : map(c, "a * b", area[0], own);
        area[1] = axis == 0 ? other : map(c, "a * b", area[1], other);
    }
    return map(c, "b > 0 & c > 0 & a > 0 & a / (b + c - a) > d", common, area[0], area[1], threshold);
}

static V scalar_or(NstLower *c, int k, V otherwise)
{
    return has(c, k) ? reshape(c, in(c, k), 0, NULL) : otherwise;
}

/* One choice a class: the best box that is left [B, K] (-1: none); those it overlaps go. */
static NstRegionId choose_step(NstLower *c, V boxes, V scores, V threshold)
{
    Inner inner;
    V to[3];
    NstType state = *type(c, scores);
    state.dtype = NST_BOOL;
    enter(c, &inner);
    (void)loop_params(c, "step", &to[0]);
    V left = param(c, "left", &state), j = nst_build_iota(c->b, dim(c, scores, 2));
    V own = map(c, "a ? b : c", left, scores, number(c, NST_F32, -INFINITY));
    V best = reduce(c, "max(a, b)", own, axes_from(2, 3), KEEP);
    V is_best = map(c, "a & b == c", left, scores, best), all = size_value(c, dim(c, scores, 2));
    V place = reduce(c, "min(a, b)", map(c, "a ? b : c", is_best, j, all), axes_from(2, 3), DROP);
    V chosen = nst_build_gather(c->b, boxes, place, 1, 1, NST_INDEX_FILL);
    V gone = overlaps(c, chosen, boxes, threshold);
    to[1] = map(c, "a & !b & c != d", left, gone, insert_axis(c, place, 2), j);
    Axes axes = axes_from(0, 3);
    to[0] = reduce(c, "a | b", to[1], axes, DROP);
    to[2] = map(c, "a < b ? a : -1", place, all);
    return leave(c, &inner, 3, to);
}

/* boxes[B, n, 4], scores[B, K, n] -> [chosen, 3]: image, class, box; of each class the best ones first.  Scores must be
 * greater than the threshold, as in the standard's reference. */
LOWER(non_max_suppression)
{
    V boxes = in(c, 0), scores = in(c, 1), made[2] = {{0}}, kept[3], place[3];
    if (rank(c, boxes) != 3 || rank(c, scores) != 3)
        fail(c, NST_E_SHAPE, "boxes have rank %d, scores %d, allowed: 3", rank(c, boxes), rank(c, scores));
    if (failed(c)) return;
    V most_boxes = scalar_or(c, 2, number(c, NST_I64, 0)), threshold = scalar_or(c, 3, number(c, NST_F32, 0));
    V left = has(c, 4) ? map(c, "a > b", scores, scalar_or(c, 4, (V){0})) : map(c, "a == a", scores);
    V trips = map(c, "max(min(a, b), 0)", most_boxes, size_value(c, dim(c, scores, 2)));
    V any = reduce(c, "a | b", left, axes_from(0, 3), DROP);
    NstRegionId region = choose_step(c, boxes, scores, threshold);
    if (failed(c) || nst_build_loop(c->b, trips, any, 1, &left, region, made, 2) != NST_OK) return;
    static const int order[] = {1, 2, 0};
    V chosen = permute(c, made[1], order); /* [B, K, steps] */
    D all = product(c, chosen, 0, 3);
    NstSym count;
    for (int k = 0; k < 2; k++)
        place[k] = expand(c, along(c, nst_build_iota(c->b, dim(c, chosen, k)), k, 3), 3, type(c, chosen)->shape);
    place[2] = chosen;
    for (int k = 0; k < 3; k++) place[k] = reshape(c, place[k], 1, &all);
    V mask = map(c, "a >= 0", place[2]);
    if (failed(c) || nst_build_compact(c->b, mask, 3, place, 0, kept, &count) != NST_OK) return;
    for (int k = 0; k < 3; k++) kept[k] = insert_axis(c, kept[k], 1);
    out(c, 0, concat(c, 3, kept, 1));
}

/* --- determinants ---------------------------------------------------------------------------------------------- */

/* Step k of an elimination of a[B, m, m]: the greatest of the rest of column k goes to row k, rows below lose it. */
static NstRegionId eliminate(NstLower *c, const NstType *matrix, const NstType *factor)
{
    Inner inner;
    V to[3];
    enter(c, &inner);
    V k = loop_params(c, "k", &to[0]);
    V a = param(c, "matrix", matrix), det = param(c, "determinant", factor);
    V i = nst_build_iota(c->b, dim(c, a, 1)), column = drop_axis(c, step_slice(c, a, 2, k), 2);
    V size = map(c, "a >= c ? abs(b) : -1", i, column, k);
    V most_size = reduce(c, "max(a, b)", size, axes_from(1, 2), KEEP), last = size_value(c, minus1(c, dim(c, a, 1)));
    V pivot = reduce(c, "min(a, b)", map(c, "a == b ? c : d", size, most_size, i, last), axes_from(1, 2), KEEP);
    V from = map(c, "a == b ? c : (a == c ? b : a)", i, k, pivot); /* [B, m] */
    a = nst_build_gather(c->b, a, from, 1, 1, NST_INDEX_CLAMPED);
    column = step_slice(c, a, 2, k);  /* [B, m, 1] */
    V top = step_slice(c, a, 1, k);   /* [B, 1, m] */
    V own = step_slice(c, top, 2, k); /* [B, 1, 1] */
    to[1] = map(c, "a > b & d != 0 ? c - e / d * f : c", insert_axis(c, i, 1), k, a, own, column, top);
    to[2] = map(c, "(b == c ? a : -a) * d", det, drop_axis(c, pivot, 1), k, drop_axis(c, drop_axis(c, own, 2), 1));
    return leave(c, &inner, 3, to);
}

LOWER(det)
{
    V x = widen(c, in(c, 0)), made[2] = {{0}};
    int r = rank(c, x);
    if (r < 2) fail(c, NST_E_SHAPE, "X has rank %d, allowed: at least 2", r);
    if (failed(c)) return;
    nst_build_require_equal(c->b, dim(c, x, r - 2), dim(c, x, r - 1),
                            nst_format(c->arena, "%s: rows and columns", c->label));
    D shape[3] = {product(c, x, 0, r - 2), dim(c, x, r - 1), dim(c, x, r - 1)}, result[NST_MAX_RANK];
    V state[2] = {reshape(c, x, 3, shape), expand(c, number(c, dtype(c, x), 1), 1, shape)};
    if (failed(c)) return;
    NstRegionId region = eliminate(c, type(c, state[0]), type(c, state[1]));
    if (failed(c) || nst_build_loop(c->b, size_value(c, shape[1]), (V){0}, 2, state, region, made, 2) != NST_OK) return;
    for (int k = 0; k < r - 2; k++) result[k] = dim(c, x, k);
    out(c, 0, convert(c, reshape(c, made[1], r - 2, result), dtype(c, in(c, 0))));
}
