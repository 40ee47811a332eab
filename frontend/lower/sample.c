/* sample.c: reading images at positions that are data: grids, regions, deformed kernels.
 *
 * A position in n spatial axes becomes taps: indices into the axes flattened, and weights, with an axis of taps for each
 * spatial axis behind the position's own.  One gather and one sum over those axes follow. */
#include "frontend/lower.h"

#include <math.h>

#define MAX_SPATIAL 4

/* Positions outside 0..n-1 read 0, the border, or what lies mirrored at lo and hi (slots a = position, b = n). */
typedef struct Fold {
    const char *position, *tap;
} Fold;

static const Fold to_zero = {"max(min(a, b + 4), -5)",
                             "a"}, /* no further than taps reach: weights of infinity are NaN */
    to_border = {"max(min(a, b - 1), 0)", "max(min(a, b - 1), 0)"},
                  /* positions up to the edges of the outer elements stay, as ONNX's reference has it */
    to_border_at_edges = {"a >= -0.5 & a <= b - 0.5 ? a : max(min(a, b - 1), 0)", "max(min(a, b - 1), 0)"},
                  mirrored_at_centres = {"b <= 1 ? 0 : b - 1 - abs(mod(a, 2*b - 2) - (b - 1))",
                                         "b <= 1 ? 0 : b - 1 - abs(mod(a, 2*b - 2) - (b - 1))"},
                  mirrored_at_edges = {"b - 0.5 - abs(mod(a + 0.5, 2*b) - b)", "b - 0.5 - abs(mod(a + 0.5, 2*b) - b)"};

typedef struct Kernel {
    int taps;           /* an axis; 1: the nearest */
    const char *first;  /* tap of a position */
    const char *weight; /* of a tap at distance a */
} Kernel;

static const Kernel nearest = {1, "round(a)", "1"}, linear = {2, "floor(a)", "max(1 - a, 0)"},
                    cubic = {4, "floor(a) - 1",
                             "a <= 1 ? (1.25*a - 2.25)*a*a + 1 : (a < 2 ? ((-0.75*a + 3.75)*a - 6)*a + 3 : 0)"};

typedef struct Taps {
    V index;  /* i64, -1 where a tap reads 0 */
    V weight; /* of the positions' type; none: 1 */
} Taps;

static V with_trailing_ones(NstLower *c, V x, int n)
{
    for (int k = 0; k < n; k++) x = insert_axis(c, x, rank(c, x));
    return x;
}

static V size_as(NstLower *c, D extent, NstDtype to)
{
    return convert(c, size_value(c, extent), to);
}

/* at[k]: positions along spatial axis k, of extent[k]; they broadcast. */
static Taps taps_of(NstLower *c, int n, const V *at, const D *extent, const Kernel *kernel, const Fold *fold)
{
    Taps t = {{0}, {0}};
    for (int k = 0; k < n && !failed(c); k++) {
        NstDtype type = dtype(c, at[k]);
        V size = size_as(c, extent[k], type), x = kernel->taps == 1 ? map(c, kernel->first, at[k]) : at[k];
        V p = map(c, "a >= 0 & a <= b - 1 ? a : c", x, size, map(c, fold->position, x, size)), tap = p;
        if (kernel->taps > 1) {
            V i = convert(c, along(c, nst_build_iota(c->b, num(c, kernel->taps)), k, n), type);
            p = with_trailing_ones(c, p, n);
            tap = map(c, "a + b", map(c, kernel->first, p), i);
            V w = map(c, kernel->weight, map(c, "abs(a - b)", p, tap));
            t.weight = k == 0 ? w : map(c, "a * b", t.weight, w);
        }
        V inside = map(c, "a >= 0 & a <= b - 1", tap, size);
        V own = convert(c, map(c, "a ? b : c", inside, tap, map(c, fold->tap, tap, size)), NST_I64);
        own = map(c, "a >= 0 & a < b ? a : -1", own, size_value(c, extent[k]));
        t.index = k == 0 ? own : map(c, "a < 0 | b < 0 ? -1 : a * c + b", t.index, own, size_value(c, extent[k]));
    }
    return t;
}

/* Gathered taps g, whose last n_taps axes are the taps, times their weights (broadcast to the right), summed. */
static V blend(NstLower *c, V g, V weight, int n_taps)
{
    int r = rank(c, g);
    if (!weight.i) return g;
    return reduce(c, "a + b", map(c, "a * b", g, convert(c, weight, dtype(c, g))), axes_from(r - n_taps, r), DROP);
}

/* Axes from..to-1 as one. */
static V merge_range(NstLower *c, V x, int from, int to)
{
    for (int k = from + 1; k < to; k++) x = merge_axes(c, x, from);
    return x;
}

static V last_entry(NstLower *c, V x, int k)
{
    int last = rank(c, x) - 1;
    return drop_axis(c, slice1(c, x, last, num(c, k), 1, num(c, 1)), last);
}

static bool is_mode(NstLower *c, const char *a, const char *b)
{
    return attr_is(c, "mode", a) || attr_is(c, "mode", b);
}

/* X[N, C, spatial...], grid[N, out..., n]: normalised positions, the last axis first. */
LOWER(grid_sample)
{
    V x = in(c, 0), grid = widen(c, in(c, 1)), at[MAX_SPATIAL];
    int n = rank(c, x) - 2;
    bool corners = attr_i(c, "align_corners") != 0;
    D extent[MAX_SPATIAL];
    const Kernel *kernel = attr_is(c, "mode", "nearest")      ? &nearest
                           : is_mode(c, "linear", "bilinear") ? &linear
                           : is_mode(c, "cubic", "bicubic")   ? &cubic
                                                              : NULL;
    const Fold *fold = attr_is(c, "padding_mode", "zeros")         ? &to_zero
                       : attr_is(c, "padding_mode", "border")      ? corners ? &to_border : &to_border_at_edges
                       : !attr_is(c, "padding_mode", "reflection") ? NULL
                       : corners                                   ? &mirrored_at_centres
                                                                   : &mirrored_at_edges;
    if (!kernel || !fold)
        fail(c, NST_E_MODEL, "mode '%s', padding_mode '%s', allowed: nearest, linear, cubic; zeros, border, reflection",
             attr_s(c, "mode"), attr_s(c, "padding_mode"));
    if (n < 1 || n > MAX_SPATIAL || rank(c, grid) != n + 2)
        fail(c, NST_E_SHAPE, "X has rank %d, grid %d, allowed: equal, 3 to %d", n + 2, rank(c, grid), MAX_SPATIAL + 2);
    require_size(c, dim(c, grid, n + 1), n, "the last extent of grid");
    for (int k = 0; k < n && !failed(c); k++) {
        extent[k] = dim(c, x, k + 2);
        at[k] = map(c, corners ? "(a + 1) / 2 * (b - 1)" : "((a + 1) * b - 1) / 2", last_entry(c, grid, n - 1 - k),
                    size_as(c, extent[k], dtype(c, grid)));
    }
    if (failed(c)) return;
    Taps t = taps_of(c, n, at, extent, kernel, fold);
    V flat = merge_range(c, x, 2, n + 2);
    if (kernel->taps > 1)
        flat = nst_dtype_is_float(dtype(c, x))
                   ? widen(c, flat)
                   : convert(c, flat, nst_dtype_info(dtype(c, x))->bytes < 4 ? NST_F32 : NST_F64);
    V y = nst_build_gather(c->b, flat, t.index, 2, 1, NST_INDEX_FILL); /* [N, C, out..., taps...] */
    out(c, 0, convert(c, blend(c, y, t.weight.i ? insert_axis(c, t.weight, 1) : t.weight, n), dtype(c, x)));
}

/* theta[N, n, n + 1] on positions -1..1 of an image of `size`: [N, spatial..., n], the last axis first. */
LOWER(affine_grid)
{
    int entries, n;
    V theta = widen(c, in(c, 0)), y[MAX_SPATIAL];
    const D *size = sizes_in(c, 1, "size", 0, &entries);
    n = entries - 2;
    if (!failed(c) && (n < 1 || n > MAX_SPATIAL || rank(c, theta) != 3))
        fail(c, NST_E_SHAPE, "size has %d entries, theta rank %d, allowed: n + 2, and [N, n, n + 1]", entries,
             rank(c, theta));
    require_size(c, dim(c, theta, 1), n, "the rows of theta");
    require_size(c, dim(c, theta, 2), n + 1, "the columns of theta");
    if (failed(c)) return;
    for (int row = 0; row < n && !failed(c); row++) {
        V own = drop_axis(c, slice1(c, theta, 1, num(c, row), 1, num(c, 1)), 1), sum = last_entry(c, own, n);
        sum = with_trailing_ones(c, sum, n);
        for (int k = 0; k < n; k++) {
            V i = convert(c, along(c, nst_build_iota(c->b, size[k + 2]), k, n), dtype(c, theta));
            V p = map(c, attr_i(c, "align_corners") ? "b > 1 ? 2*a / (b - 1) - 1 : 0" : "(2*a + 1) / b - 1", i,
                      size_as(c, size[k + 2], dtype(c, theta)));
            sum = map(c, "a + b * c", sum, with_trailing_ones(c, last_entry(c, own, n - 1 - k), n), p);
        }
        y[row] = insert_axis(c, sum, n + 1);
    }
    out(c, 0, convert(c, concat(c, n, y, n + 1), dtype(c, in(c, 0))));
}

/* --- regions --------------------------------------------------------------------------------------------------- */

/* Entry k of each region as [regions, 1, 1]. */
static V of_region(NstLower *c, V rois, int k)
{
    return with_trailing_ones(c, last_entry(c, rois, k), 2);
}

/* Sampling points of one axis of each region's bins: positions [R, bins, points]; *in_use: those that count (none: all),
 * *count: how many a bin has [R, 1, 1]. */
static V region_points(NstLower *c, V from, V to, int64_t bins, V *in_use, V *count)
{
    bool shifted = attr_is(c, "coordinate_transformation_mode", "half_pixel");
    int64_t ratio = attr_i(c, "sampling_ratio");
    NstDtype type = dtype(c, from);
    V start = map(c, shifted ? "a * @spatial_scale - 0.5" : "a * @spatial_scale", from);
    V length = map(c, shifted ? "(b - a) * @spatial_scale" : "max((b - a) * @spatial_scale, 1)", from, to);
    V bin = map(c, "a / b", length, number(c, type, (double)bins));
    D points = num(c, ratio);
    *in_use = (V){0};
    *count = ratio > 0 ? number(c, type, (double)ratio) : map(c, "ceil(a)", bin);
    if (ratio <= 0) {
        V most_points = reduce(c, "max(a, b)", map(c, "max(a, 0)", *count), axes_from(0, 3), DROP);
        points = nst_build_value_dim(c->b, convert(c, map(c, "max(a, 0)", most_points), NST_I64), NULL, 0, INT64_MAX);
    }
    V b = convert(c, along(c, nst_build_iota(c->b, num(c, bins)), 1, 3), type);
    V i = convert(c, along(c, nst_build_iota(c->b, points), 2, 3), type);
    if (ratio <= 0) *in_use = map(c, "a < b", i, *count);
    return map(c, "a + b * c + (d + 0.5) * c / e", start, b, bin, i, *count);
}

/* X[N, C, H, W] with the regions' images: channels first, all pixels as one axis; index + image * H * W. */
static V pixels(NstLower *c, V x)
{
    static const int order[] = {1, 0, 2, 3};
    return merge_range(c, permute(c, x, order), 1, 4);
}

static bool check_regions(NstLower *c, V x, V rois, int entries)
{
    if (rank(c, x) != 4 || rank(c, rois) != 2)
        fail(c, NST_E_SHAPE, "X has rank %d, rois %d, allowed: 4, and [regions, %d]", rank(c, x), rank(c, rois),
             entries);
    require_size(c, dim(c, rois, 1), entries, "the last extent of rois");
    return !failed(c);
}

/* Bins of bilinear samples.  A sample more than one pixel outside is 0, one closer reads the border.  mode max takes the
 * largest of the weighted corners, as the standard's cases do. */
LOWER(roi_align)
{
    V x = in(c, 0), rois = widen(c, in(c, 1)), at[2], in_use[2], count[2], valid = {0};
    int64_t bins[2] = {attr_i(c, "output_height"), attr_i(c, "output_width")};
    bool largest = attr_is(c, "mode", "max");
    if (!largest && !attr_is(c, "mode", "avg")) fail(c, NST_E_MODEL, "mode '%s', allowed: avg, max", attr_s(c, "mode"));
    if (bins[0] < 1 || bins[1] < 1)
        fail(c, NST_E_MODEL, "output of %lld by %lld", (long long)bins[0], (long long)bins[1]);
    if (!check_regions(c, x, rois, 4)) return;
    D extent[2] = {dim(c, x, 2), dim(c, x, 3)};
    for (int k = 0; k < 2; k++) {
        at[k] = region_points(c, of_region(c, rois, 1 - k), of_region(c, rois, 3 - k), bins[k], &in_use[k], &count[k]);
        V ok = map(c, "a >= -1 & a <= b", at[k], size_as(c, extent[k], dtype(c, rois)));
        if (in_use[k].i) ok = map(c, "a & b", ok, in_use[k]);
        at[k] = k == 0 ? with_trailing_ones(c, at[k], 2) : insert_axis(c, insert_axis(c, at[k], 1), 1);
        ok = k == 0 ? with_trailing_ones(c, ok, 2) : insert_axis(c, insert_axis(c, ok, 1), 1);
        valid = k == 0 ? ok : map(c, "a & b", valid, ok); /* [R, bins, points, bins, points] */
    }
    if (failed(c)) return;
    Taps t = taps_of(c, 2, at, extent, &linear, &to_border);
    V image = with_trailing_ones(c, convert(c, in(c, 2), NST_I64), 6);
    V ok = map(c, "a >= 0 & a < b", image, size_value(c, dim(c, x, 0)));
    nst_build_assert(c->b, ok, nst_format(c->arena, "%s: batch_indices name no image", c->label));
    t.index = map(c, "a + b * c * d", t.index, image, size_value(c, extent[0]), size_value(c, extent[1]));
    V w = map(c, "b ? a : 0", convert(c, t.weight, dtype(c, rois)), with_trailing_ones(c, valid, 2));
    V g = gather(c, widen(c, pixels(c, x)), t.index, 1, NST_INDEX_CLAMPED), y; /* [C, R, bins, points, .., taps] */
    if (largest) {
        y = map(c, "a * b", g, convert(c, w, dtype(c, g)));
        if (in_use[0].i)
            y = map(c, "a & b ? c : d", with_trailing_ones(c, in_use[0], 4),
                    with_trailing_ones(c, insert_axis(c, insert_axis(c, in_use[1], 1), 1), 2), y,
                    number(c, dtype(c, g), -INFINITY));
        y = reduce(c, "max(a, b)", y, axes_from(6, 8), DROP);
    } else {
        y = blend(c, g, w, 2);
    }
    Axes points = {2, {3, 5}};
    y = reduce(c, largest ? "max(a, b)" : "a + b", y, points, DROP); /* [C, R, bins, bins] */
    V all = map(c, "max(a * b, 1)", count[0], count[1]);
    static const int order[] = {1, 0, 2, 3};
    if (!largest) y = map(c, "a / b", y, convert(c, all, dtype(c, y)));
    out(c, 0, convert(c, permute(c, y, order), dtype(c, x)));
}

/* Whether pixel i of an axis lies in bin b of a region: [R, bins, extent]. */
static V bin_mask(NstLower *c, V from, V to, int64_t bins, D extent)
{
    NstDtype type = dtype(c, from);
    const char *nearest_pixel = "a < 0 ? ceil(a - 0.5) : floor(a + 0.5)";
    V first = map(c, nearest_pixel, map(c, "a * @spatial_scale", from)),
      last = map(c, nearest_pixel, map(c, "a * @spatial_scale", to));
    V size = map(c, "max(b - a + 1, 1) / c", first, last, number(c, type, (double)bins));
    V b = convert(c, along(c, nst_build_iota(c->b, num(c, bins)), 1, 3), type);
    V i = convert(c, along(c, nst_build_iota(c->b, extent), 2, 3), type);
    return map(c, "e >= floor(b * c) + a & e < ceil((b + 1) * c) + a", first, b, size, first, i);
}

/* The largest pixel of each bin, one axis after the other; bins without a pixel are 0. */
LOWER(max_roi_pool)
{
    V x = in(c, 0), rois = widen(c, in(c, 1));
    int n;
    const int64_t *bins = attr_ints(c, "pooled_shape", &n);
    if (n != 2 || bins[0] < 1 || bins[1] < 1) fail(c, NST_E_MODEL, "pooled_shape has %d entries, allowed: 2 sizes", n);
    if (!check_regions(c, x, rois, 5)) return;
    V y = gather(c, x, convert(c, last_entry(c, rois, 0), NST_I64), 0, NST_INDEX_CHECKED), any = {0};
    for (int k = 1; k >= 0; k--) { /* [R, C, H, W] -> [R, C, H, bins] -> [R, C, bins, bins] */
        V mask = bin_mask(c, of_region(c, rois, 2 - k), of_region(c, rois, 4 - k), bins[k], dim(c, x, k + 2));
        V some = reduce(c, "a | b", mask, axes_from(2, 3), DROP); /* [R, bins] */
        V none = number(c, dtype(c, x), -INFINITY);
        if (k == 1) {
            mask = insert_axis(c, insert_axis(c, mask, 1), 1); /* [R, 1, 1, bins, W] */
            y = insert_axis(c, y, 3);
            any = insert_axis(c, insert_axis(c, some, 1), 1);
        } else {
            mask = insert_axis(c, insert_axis(c, mask, 1), 4); /* [R, 1, bins, H, 1] */
            y = insert_axis(c, y, 2);
            any = map(c, "a & b", any, with_trailing_ones(c, insert_axis(c, some, 1), 1));
        }
        y = reduce(c, "max(a, b)", map(c, "a ? b : c", mask, y, none), axes_from(k == 1 ? 4 : 3, k == 1 ? 5 : 4), DROP);
    }
    out(c, 0, map(c, "a ? b : 0", any, y));
}

/* --- deformed convolution -------------------------------------------------------------------------------------- */

/* [N, groups * kernel * n, out...] -> [N, groups, kernel, n, out...] */
static V split_offsets(NstLower *c, V x, int64_t groups, int64_t kernel, int n)
{
    x = split_axis(c, x, 1, groups);
    x = split_axis(c, x, 2, kernel);
    return n ? x : drop_axis(c, x, 3);
}

/* An attribute with an entry a spatial axis, or `otherwise`. */
static int64_t spatial(NstLower *c, const char *name, int k, int n, int64_t otherwise)
{
    int count;
    const int64_t *list = attr_ints(c, name, &count);
    if (count != 0 && count != n) fail(c, NST_E_MODEL, "%s has %d entries, allowed: %d", name, count, n);
    return count == n ? list[k] : otherwise;
}

/* Position along spatial axis k of each kernel element: [N, groups, kernel, out...]. */
static V deformed(NstLower *c, V offset, int k, int n, const int64_t *size)
{
    NstDtype type = dtype(c, offset);
    int64_t stride = spatial(c, "strides", k, n, 1), dilation = spatial(c, "dilations", k, n, 1), inner = 1;
    int64_t pad = spatial(c, "pads", k, 2 * n, 0);
    for (int j = k + 1; j < n; j++) inner *= size[j];
    int64_t kernel = inner;
    for (int j = 0; j <= k; j++) kernel *= size[j];
    V i = convert(c, along(c, nst_build_iota(c->b, dim(c, offset, 4 + k)), k, n), type);
    V e = convert(c,
                  map(c, "a / b % c", nst_build_iota(c->b, num(c, kernel)), size_value(c, num(c, inner)),
                      size_value(c, num(c, size[k]))),
                  type);
    V own = drop_axis(c, slice1(c, offset, 3, num(c, k), 1, num(c, 1)), 3);
    return map(c, "a + b * c + d * e - f", own, i, number(c, type, (double)stride), along(c, e, 0, n + 1),
               number(c, type, (double)dilation), number(c, type, (double)pad));
}

/* X[N, C, ...] sampled at the deformed positions of W's elements, then a contraction. */
LOWER(deform_conv)
{
    V x = widen(c, in(c, 0)), w = in(c, 1), at[MAX_SPATIAL] = {{0}};
    int n = rank(c, x) - 2;
    int64_t g = attr_i(c, "group"), og = attr_i(c, "offset_group"), size[MAX_SPATIAL], kernel = 1;
    D extent[MAX_SPATIAL];
    if (n < 1 || n > 3 || rank(c, w) != n + 2 || rank(c, in(c, 2)) != n + 2 || g < 1 || og < 1)
        fail(c, NST_E_SHAPE, "X, W and offset have ranks %d, %d, %d, allowed: equal, 3 to 5", n + 2, rank(c, w),
             rank(c, in(c, 2)));
    for (int k = 0; k < n && !failed(c); k++) {
        if (!known(c, dim(c, w, k + 2), &size[k])) fail(c, NST_E_UNSUPPORTED, "W with open extents is not supported");
        if (!failed(c)) kernel *= size[k];
        extent[k] = dim(c, x, k + 2);
    }
    if (failed(c) || kernel < 1) return;
    V offset = split_offsets(c, convert(c, in(c, 2), dtype(c, x)), og, kernel, n);
    for (int k = 0; k < n && !failed(c); k++) at[k] = deformed(c, offset, k, n, size);
    Taps t = taps_of(c, n, at, extent, &linear, &to_zero);
    V flat = split_axis(c, merge_range(c, x, 2, n + 2), 1, og);        /* [N, og, C / og, S] */
    V y = nst_build_gather(c->b, flat, t.index, 3, 2, NST_INDEX_FILL); /* [N, og, C / og, kernel, out..., taps...] */
    y = blend(c, y, insert_axis(c, t.weight, 2), n);
    if (has(c, 4)) {
        V mask = split_offsets(c, convert(c, in(c, 4), dtype(c, y)), og, kernel, 0);
        y = map(c, "a * b", y, insert_axis(c, mask, 2));
    }
    y = split_axis(c, merge_range(c, merge_axes(c, y, 1), 3, n + 3), 1, g); /* [N, g, C / g, kernel, S] */
    w = split_axis(c, merge_range(c, convert(c, w, dtype(c, y)), 2, n + 2), 0, g);
    y = merge_axes(c, contract(c, "ngcks,gfck->ngfs", y, w), 1);
    D shape[MAX_SPATIAL + 2] = {dim(c, y, 0), dim(c, y, 1)};
    for (int k = 0; k < n; k++) shape[k + 2] = dim(c, in(c, 2), k + 2);
    y = reshape(c, y, n + 2, shape);
    if (has(c, 3)) y = map(c, "a + b", y, along(c, convert(c, in(c, 3), dtype(c, y)), 1, n + 2));
    out(c, 0, convert(c, y, dtype(c, in(c, 0))));
}
