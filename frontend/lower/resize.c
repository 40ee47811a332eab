/* resize.c: resizing, one axis after the other: tap indices and weights are formulas of the output's index. */
#include "frontend/lower.h"

#include <math.h>

typedef struct Named {
    const char *name, *formula;
} Named;

/* The input coordinate of output o: s = scale, n and m = lengths of input and output, u and v = roi.  Slots o n m s u v are a to f. */
static const Named coordinates[] = {
    {"half_pixel", "(a + 0.5)/d - 0.5"},
    {"asymmetric", "a/d"},
    {"align_corners", "c == 1 ? 0 : a*(b - 1)/(b*d - 1)"},
    {"pytorch_half_pixel", "c > 1 ? (a + 0.5)/d - 0.5 : 0"},
    {"tf_half_pixel_for_nn", "(a + 0.5)/d"},
    {"half_pixel_symmetric", "b/2*(1 - c/(d*b)) + (a + 0.5)/d - 0.5"},
    {"tf_crop_and_resize", "c > 1 ? e*(b - 1) + a*(f - e)*(b - 1)/(c - 1) : 0.5*(e + f)*(b - 1)"}};

/* Of position a, with b = scale; simple: before there was the attribute. */
static const Named roundings[] = {{"simple", "b < 1 ? ceil(a) : floor(a)"},
                                  {"round_prefer_floor", "ceil(a - 0.5)"},
                                  {"round_prefer_ceil", "floor(a + 0.5)"},
                                  {"floor", "floor(a)"},
                                  {"ceil", "ceil(a)"}};

static const char *find(NstLower *c, const Named *list, size_t n, const char *attr)
{
    for (size_t k = 0; k < n; k++)
        if (attr_is(c, attr, list[k].name)) return list[k].formula;
    fail(c, NST_E_MODEL, "%s '%s' is none", attr, attr_s(c, attr));
    return "a";
}

/* One axis that is resized.  scale: f64 scalar. */
typedef struct Line {
    int axis;
    D n, m;
    V scale, roi[2];
    double known_scale; /* 0: by sizes, or not known */
    NstTruth stays;     /* its scale is 1: what is not known is decided at run time */
} Line;

/* Element k of a vector as an f64 scalar. */
static V element(NstLower *c, V x, int k)
{
    return convert(c, drop_axis(c, slice1(c, x, 0, num(c, k), 1, num(c, 1)), 0), NST_F64);
}

static V positions(NstLower *c, const Line *l)
{
    V zero = number(c, NST_F64, 0);
    V o = convert(c, nst_build_iota(c->b, l->m), NST_F64), n = convert(c, size_value(c, l->n), NST_F64);
    V m = convert(c, size_value(c, l->m), NST_F64);
    const char *formula =
        find(c, coordinates, sizeof coordinates / sizeof *coordinates, "coordinate_transformation_mode");
    return map(c, formula, o, n, m, l->scale, l->roi[0].i ? l->roi[0] : zero, l->roi[1].i ? l->roi[1] : zero);
}

/* How many taps a position has on each side: linear 1, cubic 2; more where an axis shrinks and the filter widens with it. */
static int64_t reach(NstLower *c, const Line *l, bool cubic, double *stretch)
{
    int64_t n, m;
    *stretch = 1;
    if (!attr_i(c, "antialias")) return cubic ? 2 : 1;
    double scale = l->known_scale;
    if (scale <= 0 && known(c, l->n, &n) && known(c, l->m, &m) && n > 0) scale = (double)m / (double)n;
    if (scale <= 0 && !failed(c)) {
        needs_value(c, has(c, 2) ? in(c, 2) : in(c, 3));
        fail(c, NST_E_UNSUPPORTED, "antialias with open sizes is not supported");
    }
    if (scale > 0 && scale < 1) *stretch = scale;
    if (ceil(2 / *stretch) > 65536) fail(c, NST_E_LIMIT, "antialias with a scale of %g", scale);
    return failed(c) ? 1 : (int64_t)ceil((cubic ? 2 : 1) / *stretch);
}

/* Weights [m, taps] of positions x[m], and indices of the taps. */
static V weights(NstLower *c, V x, bool cubic, int64_t side, double stretch, V *index)
{
    V first = map(c, "floor(a) - b", x, number(c, NST_F64, (double)side - 1)),
      tap = nst_build_iota(c->b, num(c, 2 * side));
    V at = map(c, "a + b", insert_axis(c, first, 1), convert(c, tap, NST_F64));
    V d = map(c, "abs(a - b) * c", at, insert_axis(c, x, 1), number(c, NST_F64, stretch));
    *index = at;
    return map(c,
               !cubic
                   ? "max(1 - a, 0)"
                   : "a <= 1 ? ((@cubic_coeff_a + 2)*a - (@cubic_coeff_a + 3))*a*a + 1 : "
                     "(a < 2 ? ((@cubic_coeff_a*a - 5*@cubic_coeff_a)*a + 8*@cubic_coeff_a)*a - 4*@cubic_coeff_a : 0)",
               d);
}

/* Position o of an axis. */
static V own_positions(NstLower *c, const Line *l)
{
    return nst_build_iota(c->b, l->m);
}

/* Of an axis that may stay as it is: what belongs to its own positions if it does. */
static V unless_it_stays(NstLower *c, const Line *l, V resized, V own)
{
    return map(c, "c == 1 ? b : a", resized, own, l->scale);
}

/* The sum of what taps give.  It begins with -0, which changes no term, and not with 0, which changes -0. */
static V sum_taps(NstLower *c, V terms, int axis)
{
    V sum;
    NstDtype type[2] = {dtype(c, terms), dtype(c, terms)};
    NstExpr step = nst_build_formula(c->b, "a + b", type, 2, type[0]);
    if (failed(c)) return (V){0};
    NstExpr init = nst_expr_float(c->b->graph->exprs, type[0], -0.0);
    (void)nst_build_reduce_tuple(c->b, 1, &terms, (NstCombine){1, &step, &step, &init}, 1, &axis, DROP, false, &sum);
    return sum;
}

/* y along one axis: the weighted sum of gathered taps. */
static V interpolate(NstLower *c, V y, const Line *l, V x, bool cubic)
{
    double stretch;
    int64_t side = reach(c, l, cubic, &stretch);
    V index, w = weights(c, x, cubic, side, stretch, &index), n = convert(c, size_value(c, l->n), NST_F64);
    bool outside = attr_i(c, "exclude_outside") != 0, open = l->stays == NST_UNKNOWN;
    if (outside) w = map(c, "b < 0 | b >= c ? 0 : a", w, index, n);
    if (outside || stretch < 1) w = map(c, "a / b", w, reduce(c, "a + b", w, axes_from(1, 2), KEEP));
    if (open) {
        V own = insert_axis(c, convert(c, own_positions(c, l), NST_F64), 1);
        w = unless_it_stays(c, l, w, map(c, "max(1 - abs(a - b), 0)", index, own));
    }
    index = convert(c, map(c, "max(min(a, b - 1), 0)", index, n), NST_I64);
    V g = gather(c, y, index, l->axis, NST_INDEX_CLAMPED);
    D shape[NST_MAX_RANK];
    for (int k = 0; k < rank(c, g); k++)
        shape[k] = k == l->axis ? l->m : k == l->axis + 1 ? num(c, 2 * side) : num(c, 1);
    w = reshape(c, convert(c, w, dtype(c, y)), rank(c, g), shape);
    V stays = map(c, "a == 1", l->scale);
    return sum_taps(c, open ? map(c, "c & b == 0 ? -0.0 : a * b", g, w, stays) : map(c, "a * b", g, w), l->axis + 1);
}

static V resize_axis(NstLower *c, V y, const Line *l)
{
    V x = positions(c, l), n = convert(c, size_value(c, l->n), NST_F64), inside = {0};
    if (attr_is(c, "coordinate_transformation_mode", "tf_crop_and_resize"))
        inside = along(c, map(c, "a >= 0 & a <= b - 1", x, n), l->axis, rank(c, y));
    if (attr_is(c, "mode", "nearest")) {
        V at = map(c, find(c, roundings, sizeof roundings / sizeof *roundings, "nearest_mode"), x, l->scale);
        at = convert(c, map(c, "max(min(a, b - 1), 0)", at, n), NST_I64);
        if (l->stays == NST_UNKNOWN) at = unless_it_stays(c, l, at, own_positions(c, l));
        y = gather(c, y, at, l->axis, NST_INDEX_CLAMPED);
    } else {
        y = interpolate(c, y, l, x, attr_is(c, "mode", "cubic"));
    }
    return inside.i ? map(c, "b ? a : c", y, inside, number(c, dtype(c, y), attr_f(c, "extrapolation_value"))) : y;
}

/* The constant numbers of input k. */
static bool const_floats(NstLower *c, int k, int n, double *value)
{
    const NstNode *node = failed(c) || !has(c, k) ? NULL : nst_value_node(c->b->graph, in(c, k));
    if (!node || node->prim != NST_PRIM_CONST) return false;
    const NstConst *k_const = &node->attr.constant;
    if (dtype(c, in(c, k)) != NST_F32 || !is_num(c, product(c, in(c, k), 0, rank(c, in(c, k))), n)) return false;
    for (int j = 0; j < n; j++)
        value[j] = k_const->data ? nst_scalar_load(NST_F32, (const char *)k_const->data + 4 * j).f : k_const->splat.f;
    return true;
}

/* A length from a product of sizes and scales. */
static D length_of(NstLower *c, double length)
{
    if (length >= 0 && length < (double)NST_MAX_TENSOR_BYTES) return num(c, (int64_t)length);
    fail(c, NST_E_MODEL, "an axis would get length %g, allowed: 0 to %lld", length, (long long)NST_MAX_TENSOR_BYTES);
    return num(c, 1);
}

/* Length of a resized axis by its scale: known, or floor(n * scale) read at run time. */
static D scaled(NstLower *c, D n, V scale, bool constant, double value)
{
    int64_t own;
    if (constant && known(c, n, &own)) return length_of(c, (double)own * value);
    if (constant && value >= 0 && value < 1e6 && value == (double)(int64_t)value)
        return mul(c, n, num(c, (int64_t)value));
    V length = map(c, "floor(a * b)", convert(c, size_value(c, n), NST_F64), scale);
    return nst_build_value_dim(c->b, convert(c, length, NST_I64), NULL, 0, INT64_MAX);
}

/* The same where sizes are read at run time. */
static bool keep_open_aspect(NstLower *c, Line *l, int n, bool smaller)
{
    V best = l[0].scale;
    for (int k = 1; k < n; k++) best = map(c, smaller ? "min(a, b)" : "max(a, b)", best, l[k].scale);
    for (int k = 0; k < n && !failed(c); k++) {
        V length = map(c, "floor(a * b + 0.5)", convert(c, size_value(c, l[k].n), NST_F64), best);
        l[k].m = nst_build_value_dim(c->b, convert(c, length, NST_I64), NULL, 0, INT64_MAX);
        l[k].scale = best;
        l[k].stays = NST_UNKNOWN;
    }
    return !failed(c);
}

/* sizes with keep_aspect_ratio_policy: all axes by the least or greatest of their scales. */
static bool keep_aspect(NstLower *c, Line *l, int n)
{
    double best = 0;
    bool smaller = attr_is(c, "keep_aspect_ratio_policy", "not_larger");
    int64_t from, to;
    if (!smaller && !attr_is(c, "keep_aspect_ratio_policy", "not_smaller")) return true;
    for (int k = 0; k < n; k++) {
        if (!known(c, l[k].n, &from) || !known(c, l[k].m, &to) || from == 0) return keep_open_aspect(c, l, n, smaller);
        double s = (double)to / (double)from;
        if (k == 0 || (smaller ? s < best : s > best)) best = s;
    }
    for (int k = 0; k < n; k++) {
        (void)known(c, l[k].n, &from);
        l[k].m = length_of(c, floor((double)from * best + 0.5));
        l[k].scale = number(c, NST_F64, best);
        l[k].known_scale = best;
    }
    return true;
}

/* What happens to each axis. */
static bool read_lines(NstLower *c, const Axes *axes, Line *l)
{
    int n;
    double value[NST_MAX_RANK] = {0};
    const D *size = sizes_in(c, 3, "sizes", 0, &n);
    if (n < 0 && !has(c, 2)) fail(c, NST_E_MODEL, "neither scales nor sizes");
    bool by_size = n >= 0, constant = !by_size && const_floats(c, 2, axes->n, value);
    bool crop = attr_is(c, "coordinate_transformation_mode", "tf_crop_and_resize");
    if (!failed(c) && by_size && n != axes->n) fail(c, NST_E_MODEL, "sizes has %d entries, allowed: %d", n, axes->n);
    if (!by_size) require_size(c, dim(c, in(c, 2), 0), axes->n, "the number of scales");
    if (crop) require_size(c, dim(c, in(c, 1), 0), 2 * axes->n, "the number of entries of roi");
    for (int k = 0; k < axes->n && !failed(c); k++) {
        l[k] = (Line){.axis = axes->at[k], .n = dim(c, in(c, 0), axes->at[k])};
        if (by_size) {
            l[k].m = size[k];
            V from = convert(c, size_value(c, l[k].n), NST_F64), to = convert(c, size_value(c, l[k].m), NST_F64);
            l[k].scale = map(c, "a / b", to, from);
            l[k].stays = compare(c, l[k].n, NST_DIM_EQ, l[k].m);
        } else {
            l[k].scale = constant ? number(c, NST_F64, value[k]) : element(c, in(c, 2), k);
            l[k].known_scale = constant ? value[k] : 0;
            l[k].m = scaled(c, l[k].n, l[k].scale, constant, value[k]);
        }
        if (crop) {
            l[k].roi[0] = element(c, in(c, 1), k);
            l[k].roi[1] = element(c, in(c, 1), k + axes->n);
        }
    }
    if (failed(c) || (by_size && !keep_aspect(c, l, axes->n))) return false;
    for (int k = 0; k < axes->n; k++) {
        if (l[k].known_scale > 0) l[k].stays = l[k].known_scale == 1 ? NST_TRUE : NST_FALSE;
        if (crop) l[k].stays = NST_FALSE;
    }
    return true;
}

LOWER(resize)
{
    int n;
    V x = in(c, 0), y = x;
    const int64_t *list = attr_ints(c, "axes", &n);
    Axes axes = n > 0 ? (Axes){0} : axes_from(0, rank(c, x));
    Line line[NST_MAX_RANK];
    for (int k = 0; k < n && k < NST_MAX_RANK; k++) axes.at[axes.n++] = norm_axis(c, list[k], rank(c, x), false);
    if (failed(c) || !read_lines(c, &axes, line)) return;
    if (!attr_is(c, "mode", "nearest")) y = nst_dtype_is_float(dtype(c, x)) ? widen(c, y) : convert(c, y, NST_F32);
    for (int k = 0; k < axes.n; k++)
        if (line[k].stays != NST_TRUE) y = resize_axis(c, y, &line[k]);
    out(c, 0, convert(c, y, dtype(c, x)));
}
