/* conv.c: convolutions and pools: a sliding view, then a contraction or reduction over its kernel axes. */
#include "frontend/lower.h"

#include <math.h>

#define MAX_SPATIAL 6

/* How a kernel slides over the spatial axes of [N, C, spatial...]. */
typedef struct Geometry {
    int n; /* spatial axes */
    D size[MAX_SPATIAL], lo[MAX_SPATIAL], hi[MAX_SPATIAL];
    int64_t stride[MAX_SPATIAL], dilation[MAX_SPATIAL];
    D more[MAX_SPATIAL]; /* extra padding behind hi that ceil_mode asks for */
} Geometry;

/* An attribute with an entry a spatial axis, or `otherwise` for each. */
static bool spatial_ints(NstLower *c, const char *name, int n, int64_t otherwise, int64_t at_least, int64_t *value)
{
    int count;
    const int64_t *list = attr_ints(c, name, &count);
    if (count != 0 && count != n) fail(c, NST_E_MODEL, "%s has %d entries, allowed: %d", name, count, n);
    for (int k = 0; k < n && !failed(c); k++) {
        value[k] = count ? list[k] : otherwise;
        if (value[k] < at_least || value[k] > INT32_MAX)
            fail(c, NST_E_MODEL, "%s has entry %lld, allowed: %lld to %d", name, (long long)value[k],
                 (long long)at_least, INT32_MAX);
    }
    return !failed(c);
}

/* (k - 1) * dilation + 1 */
static D reach(NstLower *c, const Geometry *q, int k)
{
    return add(c, mul(c, minus1(c, q->size[k]), num(c, q->dilation[k])), num(c, 1));
}

/* Padding of auto_pad SAME_*: the output has ceil(n / stride) entries. */
static void pad_same(NstLower *c, V x, Geometry *q, bool upper)
{
    NstDims *dims = c->b->graph->dims;
    for (int k = 0; k < q->n; k++) {
        D n = dim(c, x, k + 2), outs = nst_dim_ceildiv(dims, n, num(c, q->stride[k]));
        D all = add(c, mul(c, minus1(c, outs), num(c, q->stride[k])), sub(c, reach(c, q, k), n));
        all = most(c, all, num(c, 0));
        D half = nst_dim_floordiv(dims, all, num(c, 2));
        q->lo[k] = upper ? half : sub(c, all, half);
        q->hi[k] = sub(c, all, q->lo[k]);
    }
}

/* Resolves strides, dilations and padding; the kernel's sizes are there. */
static bool geometry(NstLower *c, V x, Geometry *q)
{
    int n;
    const int64_t *pads = attr_ints(c, "pads", &n);
    const char *mode = attr_s(c, "auto_pad");
    if (!spatial_ints(c, "strides", q->n, 1, 1, q->stride) || !spatial_ints(c, "dilations", q->n, 1, 1, q->dilation))
        return false;
    bool explicit = *mode == '\0' || strcmp(mode, "NOTSET") == 0;
    if (explicit && n != 0 && n != 2 * q->n) fail(c, NST_E_MODEL, "pads has %d entries, allowed: %d", n, 2 * q->n);
    for (int k = 0; k < q->n && !failed(c); k++) {
        q->lo[k] = num(c, explicit && n ? pads[k] : 0);
        q->hi[k] = num(c, explicit && n ? pads[k + q->n] : 0);
        q->more[k] = num(c, 0);
        if (explicit && n && (pads[k] < 0 || pads[k + q->n] < 0 || pads[k] > INT32_MAX || pads[k + q->n] > INT32_MAX))
            fail(c, NST_E_MODEL, "pads has entry %lld, allowed: 0 to %d",
                 (long long)(pads[k] < 0 || pads[k] > INT32_MAX ? pads[k] : pads[k + q->n]), INT32_MAX);
    }
    if (failed(c)) return false;
    if (strcmp(mode, "SAME_UPPER") == 0 || strcmp(mode, "SAME_LOWER") == 0)
        pad_same(c, x, q, strcmp(mode, "SAME_UPPER") == 0);
    else if (!explicit && strcmp(mode, "VALID") != 0)
        fail(c, NST_E_MODEL, "auto_pad '%s', allowed: NOTSET, SAME_UPPER, SAME_LOWER, VALID", mode);
    return !failed(c);
}

/* The view [batch axes..., out..., kernel...] of x, whose spatial axes begin at `first`. */
static V slide(NstLower *c, V x, int first, const Geometry *q, V padding)
{
    NstWindowAxis w[MAX_SPATIAL];
    if (rank(c, x) + q->n > NST_MAX_RANK) return fail(c, NST_E_LIMIT, "%d spatial axes are too many", q->n);
    for (int k = 0; k < q->n; k++)
        w[k] = (NstWindowAxis){first + k,      q->size[k], q->stride[k],
                               q->dilation[k], q->lo[k],   add(c, q->hi[k], q->more[k])};
    return nst_build_window(c->b, x, q->n, w, padding);
}

/* --- convolution ----------------------------------------------------------------------------------------------- */

/* Ranks and channels of X[N, g*C, ...] and W, whose channel axis is w_axis and holds C (or, transposed, g*C). */
static bool check_conv(NstLower *c, V x, V w, int64_t g, bool transposed)
{
    int r = rank(c, x);
    int64_t channels, wanted;
    if (failed(c)) return false;
    if (r < 3 || r > MAX_SPATIAL + 2 || rank(c, w) != r)
        fail(c, NST_E_SHAPE, "X has rank %d, W %d, allowed: equal, 3 to %d", r, rank(c, w), MAX_SPATIAL + 2);
    else if (g < 1 || g > INT32_MAX)
        fail(c, NST_E_MODEL, "group %lld, allowed: at least 1", (long long)g);
    else if (known(c, dim(c, x, 1), &channels) && known(c, dim(c, w, transposed ? 0 : 1), &wanted)) {
        if (channels % g != 0 || channels / (transposed ? 1 : g) != wanted)
            fail(c, NST_E_SHAPE, "W has %lld input channels, X has %lld/group %lld = %lld", (long long)wanted,
                 (long long)channels, (long long)g, (long long)(channels / g));
        else if (known(c, dim(c, w, 0), &wanted) && wanted % g != 0)
            fail(c, NST_E_SHAPE, "W has %lld output channels, allowed: a multiple of group %lld", (long long)wanted,
                 (long long)g);
    }
    return !failed(c);
}

/* kernel_shape, where given, repeats what W's shape says. */
static bool kernel_sizes(NstLower *c, V w, Geometry *q)
{
    int n;
    const int64_t *given = attr_ints(c, "kernel_shape", &n);
    q->n = rank(c, w) - 2;
    for (int k = 0; k < q->n; k++) {
        int64_t own;
        q->size[k] = dim(c, w, k + 2);
        if (n > 0 && (n != q->n || (known(c, q->size[k], &own) && own != given[k])))
            fail(c, NST_E_SHAPE, "kernel_shape does not agree with W's extent %d", k + 2);
    }
    return !failed(c);
}

/* Labels of a convolution's operands and result: "n[g]cyxuv", "[g]fcuv" (transposed: "[g]cfuv"), "n[g]fyx". */
typedef struct Labels {
    const char *x, *w, *y;
} Labels;

static Labels conv_labels(NstLower *c, int n, bool grouped, bool transposed)
{
    static const char outs[] = "uvwxyz", kernel[] = "opqrst";
    const char *g = grouped ? "g" : "";
    return (Labels){nst_format(c->arena, "n%sc%.*s%.*s", g, n, outs, n, kernel),
                    nst_format(c->arena, "%s%s%.*s", g, transposed ? "cf" : "fc", n, kernel),
                    nst_format(c->arena, "n%sf%.*s", g, n, outs)};
}

static const char *equation(NstLower *c, Labels l)
{
    return nst_format(c->arena, "%s,%s->%s", l.x, l.w, l.y);
}

/* Adds B[F] at axis 1. */
static V add_channel(NstLower *c, V y, V bias)
{
    return bias.i == 0 ? y : map(c, "a + b", y, along(c, bias, 1, rank(c, y)));
}

/* X[N, g*C, sp...]  W[g*F, C, k...]  ->  Y[N, g*F, o...]; any spatial rank.  Integers: less their zero points, in i32; a
 * tap in the padding contributes nothing. */
static V convolve(NstLower *c, V x, V w, V x_zero, V w_zero)
{
    int64_t g = attr_i(c, "group");
    Geometry q = {0};
    if (!check_conv(c, x, w, g, false) || !kernel_sizes(c, w, &q) || !geometry(c, x, &q)) return (V){0};
    bool grouped = g > 1;
    if (grouped) x = split_axis(c, x, 1, g), w = split_axis(c, w, 0, g);
    if (grouped && w_zero.i && rank(c, w_zero) == 1) w_zero = split_axis(c, w_zero, 0, g);
    Labels l = conv_labels(c, q.n, grouped, false);
    V view = slide(c, x, 2 + grouped, &q, (V){0});
    V y = nst_dtype_is_float(dtype(c, x))
              ? contract(c, equation(c, l), view, w)
              : contract_less(c, l.x, l.w, l.y, view, x_zero, "", w, w_zero, grouped ? "gf" : "f");
    return grouped ? merge_axes(c, y, 1) : y;
}

LOWER(conv)
{
    out(c, 0, add_channel(c, convolve(c, in(c, 0), in(c, 1), (V){0}, (V){0}), in(c, 2)));
}

/* A parameter of one entry, or of one an output channel. */
static V scalar_or_channels(NstLower *c, V p)
{
    return p.i && rank(c, p) == 1 && is_num(c, dim(c, p, 0), 1) ? drop_axis(c, p, 0) : p;
}

LOWER(conv_integer)
{
    out(c, 0, convolve(c, in(c, 0), in(c, 1), scalar_or_channels(c, in(c, 2)), scalar_or_channels(c, in(c, 3))));
}

/* x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, B */
LOWER(qlinear_conv)
{
    V one[9];
    for (int k = 0; k < 9; k++) one[k] = scalar_or_channels(c, in(c, k));
    V sum = add_channel(c, convolve(c, in(c, 0), in(c, 3), one[2], one[5]), in(c, 8));
    V scale = map(c, "a * b / c", one[1], one[4], one[6]);
    if (rank(c, scale) == 1) scale = along(c, scale, 1, rank(c, sum));
    out(c, 0, quantize_to(c, map(c, "a * b", convert(c, sum, NST_F32), scale), one[7], dtype(c, in(c, 7))));
}

/* Padding of a transposed convolution: what output_shape or auto_pad ask for, else pads; more = output_padding. */
static void transposed_padding(NstLower *c, V x, Geometry *q)
{
    int64_t extra[MAX_SPATIAL];
    int n;
    const int64_t *wanted = attr_ints(c, "output_shape", &n);
    bool upper = attr_is(c, "auto_pad", "SAME_UPPER"), same = upper || attr_is(c, "auto_pad", "SAME_LOWER");
    if (!spatial_ints(c, "output_padding", q->n, 0, 0, extra)) return;
    if (n != 0 && n != q->n) fail(c, NST_E_MODEL, "output_shape has %d entries, allowed: %d", n, q->n);
    for (int k = 0; k < q->n && !failed(c); k++) {
        D size = dim(c, x, k + 2), full = add(c, mul(c, minus1(c, size), num(c, q->stride[k])), reach(c, q, k));
        full = add(c, full, num(c, extra[k]));
        q->more[k] = num(c, extra[k]);
        if (n == 0 && !same) continue;
        D all = sub(c, full, n ? num(c, wanted[k]) : mul(c, size, num(c, q->stride[k])));
        /* An output larger than what the kernel reaches has the rest at its end. */
        D cropped = most(c, all, num(c, 0)), half = nst_dim_floordiv(c->b->graph->dims, cropped, num(c, 2));
        q->lo[k] = upper ? half : sub(c, cropped, half);
        q->hi[k] = sub(c, all, q->lo[k]);
    }
}

/* How a transposed convolution falls apart along an axis.  Output o, counted from before the padding is cut off, gets x[i] w[k]
 * where o = stride i + dilation k.  With g = gcd(stride, dilation) and k = phases j + r, phases = stride / g, that is
 * o = stride (i + (dilation / g) j) + dilation r: each r is a convolution of its own with every phases-th tap, at
 * q = i + (dilation / g) j, and no zeros stand between elements of X. */
typedef struct Phases {
    int64_t n;
    int64_t step; /* dilation / g */
    D taps;       /* the most of a phase */
    D from, to;   /* q of what is kept: from <= q < to */
    D size;       /* of the output */
} Phases;

static Phases phases_of(NstLower *c, V x, const Geometry *q, int k)
{
    NstDims *dims = c->b->graph->dims;
    int64_t common = nst_gcd_i64(q->stride[k], q->dilation[k]);
    Phases p = {.n = q->stride[k] / common, .step = q->dilation[k] / common};
    D stride = num(c, q->stride[k]), full = mul(c, minus1(c, dim(c, x, k + 2)), stride);
    full = add(c, add(c, full, reach(c, q, k)), q->more[k]);
    p.size = sub(c, full, add(c, q->lo[k], q->hi[k]));
    p.taps = nst_dim_ceildiv(dims, q->size[k], num(c, p.n));
    /* Without dilation the phases of one q lie inside its stride; else the last may reach what is kept from before. */
    int64_t reached = q->dilation[k] == 1 ? 0 : q->dilation[k] * (p.n - 1);
    p.from = nst_dim_floordiv(dims, sub(c, q->lo[k], num(c, reached)), stride);
    p.to = nst_dim_ceildiv(dims, add(c, q->lo[k], p.size), stride);
    return p;
}

/* x[.., q, taps..]: the windows of all phases, taps from the last to the first. */
static V phase_windows(NstLower *c, V x, int first, const Geometry *q, const Phases *p)
{
    Geometry own = {.n = q->n};
    for (int k = 0; k < q->n; k++) {
        own.size[k] = p[k].taps;
        own.stride[k] = 1;
        own.dilation[k] = p[k].step;
        own.lo[k] = sub(c, mul(c, minus1(c, p[k].taps), num(c, p[k].step)), p[k].from);
        own.hi[k] = sub(c, p[k].to, dim(c, x, first + k));
        own.more[k] = num(c, 0);
    }
    return slide(c, x, first, &own, (V){0});
}

/* w[.., taps.., phases..] of w[.., kernel..]; axes of one phase have no axis of phases.  What a phase lacks of taps is padding. */
static V phase_taps(NstLower *c, V w, int first, const Geometry *q, const Phases *p)
{
    NstWindowAxis axis[MAX_SPATIAL];
    int n = 0;
    for (int k = 0; k < q->n; k++) {
        D phases = num(c, p[k].n);
        if (p[k].n > 1)
            axis[n++] =
                (NstWindowAxis){first + k, phases, p[k].n, 1, num(c, 0), sub(c, mul(c, p[k].taps, phases), q->size[k])};
    }
    if (rank(c, w) + n > NST_MAX_RANK) return fail(c, NST_E_LIMIT, "%d spatial axes are too many", q->n);
    if (n) w = nst_build_window(c->b, w, n, axis, (V){0});
    for (int k = first; k < first + q->n; k++) w = slice1(c, w, k, minus1(c, p[k - first].taps), -1, p[k - first].taps);
    return w;
}

/* x and w as the two above give them; y[n, g, f, q, r, q, r..]. */
static const char *phase_equation(NstLower *c, int n, bool grouped, const Phases *p)
{
    static const char letters[] = "abdehi";
    Labels l = conv_labels(c, n, grouped, true);
    char phases[MAX_SPATIAL + 1], y[2 * MAX_SPATIAL + 1];
    size_t used = 0, length = 0, before = strlen(l.y) - (size_t)n;
    for (int k = 0; k < n; k++) {
        y[length++] = l.y[before + (size_t)k];
        if (p[k].n > 1) y[length++] = phases[used++] = letters[k];
    }
    return nst_format(c->arena, "%s,%s%.*s->%.*s%.*s", l.x, l.w, (int)used, phases, (int)before, l.y, (int)length, y);
}

/* Element q of phase r goes to stride q + dilation r: y[.., axis = q, r, ..] becomes [.., size, ..]. */
static V interleave(NstLower *c, V y, int axis, const Geometry *q, const Phases *p, int k)
{
    int64_t stride = q->stride[k], dilation = q->dilation[k], inverse = 1;
    D start = sub(c, q->lo[k], mul(c, p->from, num(c, stride)));
    if (p->n > 1) y = merge_axes(c, y, axis);
    if (stride == 1 || dilation == 1) return slice1(c, y, axis, start, 1, p->size);
    /* dilation r = o modulo stride; r is the quotient by g of both, times the inverse of dilation / g modulo the phases. */
    while (p->n > 1 && p->step % p->n * inverse % p->n != 1) inverse++;
    V o = map(c, "a + b", nst_build_iota(c->b, p->size), size_value(c, q->lo[k]));
    V s = number(c, NST_I64, (double)stride), g = number(c, NST_I64, (double)(stride / p->n)),
      n = number(c, NST_I64, (double)p->n);
    V r = map(c, "a % b / c * d % e", o, s, g, number(c, NST_I64, (double)inverse), n);
    V at = map(c, "(a - b * c) / d - e", o, r, number(c, NST_I64, (double)dilation), s, size_value(c, p->from));
    at = map(c, "a % b % c == 0 ? d * e + f : -1", o, s, g, at, n, r); /* between g and g there is nothing */
    return gather(c, y, at, axis, NST_INDEX_FILL);
}

/* X[N, g*C, ...]  W[g*C, F, k...]: what each element of X adds to the output; a convolution for each place between the strides. */
LOWER(conv_transpose)
{
    V x = in(c, 0), w = in(c, 1);
    int64_t g = attr_i(c, "group");
    bool grouped = g > 1;
    Geometry q = {0};
    Phases p[MAX_SPATIAL];
    if (!check_conv(c, x, w, g, true) || !kernel_sizes(c, w, &q)) return;
    NstAttr *mode = nst_attrs_find(&c->attrs, "auto_pad");
    const char *asked = mode->s;
    mode->s = strncmp(asked, "SAME", 4) == 0 ? "VALID" : asked; /* SAME means the output's size here */
    if (!geometry(c, x, &q)) return;
    mode->s = asked;
    transposed_padding(c, x, &q);
    for (int k = 0; k < q.n && !failed(c); k++) p[k] = phases_of(c, x, &q, k);
    if (failed(c)) return;
    if (grouped) x = split_axis(c, x, 1, g), w = split_axis(c, w, 0, g);
    V y = contract(c, phase_equation(c, q.n, grouped, p), phase_windows(c, x, 2 + grouped, &q, p),
                   phase_taps(c, w, 2 + grouped, &q, p));
    for (int k = 0; k < q.n; k++) y = interleave(c, y, 2 + grouped + k, &q, &p[k], k);
    if (grouped) y = merge_axes(c, y, 1);
    out(c, 0, add_channel(c, y, in(c, 2)));
}

/* --- pools ----------------------------------------------------------------------------------------------------- */

/* ceil_mode: the last window may reach past the padding, if it begins before the padding on the right. */
static void round_up(NstLower *c, V x, Geometry *q)
{
    NstDims *dims = c->b->graph->dims;
    for (int k = 0; k < q->n; k++) {
        D n = dim(c, x, k + 2), step = num(c, q->stride[k]), padded = add(c, n, add(c, q->lo[k], q->hi[k]));
        D last = nst_dim_ceildiv(dims, sub(c, padded, reach(c, q, k)), step); /* windows - 1, rounded up */
        last = least(c, last, nst_dim_floordiv(dims, minus1(c, add(c, n, q->lo[k])), step)); /* begins inside */
        D need = add(c, mul(c, last, step), reach(c, q, k));
        q->more[k] = sub(c, need, padded);
    }
}

static bool pool_geometry(NstLower *c, V x, Geometry *q)
{
    int64_t size[MAX_SPATIAL];
    q->n = rank(c, x) - 2;
    if (failed(c)) return false;
    if (q->n < 1 || q->n > MAX_SPATIAL)
        fail(c, NST_E_SHAPE, "X has rank %d, allowed: 3 to %d", q->n + 2, MAX_SPATIAL + 2);
    if (failed(c) || !spatial_ints(c, "kernel_shape", q->n, 1, 1, size)) return false;
    for (int k = 0; k < q->n; k++) q->size[k] = num(c, size[k]);
    if (!geometry(c, x, q)) return false;
    if (attr_i(c, "ceil_mode") && strncmp(attr_s(c, "auto_pad"), "SAME", 4) != 0) round_up(c, x, q);
    return !failed(c);
}

/* The least value of a type. */
static V lowest(NstLower *c, NstDtype t)
{
    return number(c, t,
                  nst_dtype_is_float(t)    ? -INFINITY
                  : nst_dtype_is_signed(t) ? -ldexp(1, nst_dtype_info(t)->bits - 1)
                                           : 0);
}

/* Where in the whole input the largest element of each window lies: its place among the spatial ones (rows or columns
 * first), and those of its sample and channel before it. */
static V max_places(NstLower *c, V x, V view, const Geometry *q)
{
    int r = rank(c, x), vr = r + q->n;
    D spatial = product(c, x, 2, r), shape[NST_MAX_RANK];
    NstDtype t = dtype(c, x), args[4] = {t, NST_I64, t, NST_I64};
    int order[MAX_SPATIAL + 2] = {0, 1};
    bool columns = attr_i(c, "storage_order") != 0;
    for (int k = 0; k < r; k++) shape[k] = k < 2 ? num(c, 1) : dim(c, x, columns ? r + 1 - k : k);
    for (int k = 2; k < r; k++) order[k] = columns ? r + 1 - k : k;
    V place = permute(c, reshape(c, nst_build_iota(c->b, spatial), r, shape), order);
    place = slide(c, place, 2, q, number(c, NST_I64, -1));
    if (failed(c)) return (V){0};
    place = expand(c, place, vr, type(c, view)->shape);
    static const char wins[] = "d >= 0 & (c > a | b < 0)";
    NstExpr step[2] = {nst_build_formula(c->b, nst_format(c->arena, "%s ? c : a", wins), args, 4, t),
                       nst_build_formula(c->b, nst_format(c->arena, "%s ? d : b", wins), args, 4, NST_I64)};
    NstScalar least_value = {.f = -INFINITY};
    NstExprs *exprs = c->b->graph->exprs;
    NstExpr init[2] = {nst_expr_const(exprs, t, nst_scalar_convert(t, NST_F64, least_value, true)),
                       nst_expr_int(exprs, NST_I64, -1)};
    Axes axes = axes_from(r, vr);
    V both[2] = {{0}}, pair[2] = {view, place};
    if (!failed(c))
        (void)nst_build_reduce_tuple(c->b, 2, pair, (NstCombine){2, step, step, init}, axes.n, axes.at, false, false,
                                     both);
    V before[2] = {along(c, nst_build_iota(c->b, dim(c, x, 0)), 0, r),
                   along(c, nst_build_iota(c->b, dim(c, x, 1)), 1, r)};
    return map(c, "a + (b * d + c) * e", both[1], before[0], before[1], size_value(c, dim(c, x, 1)),
               size_value(c, spatial));
}

LOWER(max_pool)
{
    V x = in(c, 0);
    Geometry q = {0};
    if (!pool_geometry(c, x, &q)) return;
    V wide = widen(c, x), view = slide(c, x, 2, &q, lowest(c, dtype(c, x)));
    out(c, 0, reduce(c, "max(a, b)", view, axes_from(q.n + 2, 2 * q.n + 2), DROP));
    if (wants(c, 1)) out(c, 1, max_places(c, wide, slide(c, wide, 2, &q, lowest(c, dtype(c, wide))), &q));
}

/* Elements go where the pooling took them from; an output_shape adds zeros behind. */
LOWER(max_unpool)
{
    V x = in(c, 0);
    Geometry q = {0};
    int n;
    if (!pool_geometry(c, x, &q)) return;
    const D *wanted = sizes_in(c, 2, "output_shape", 0, &n);
    int r = q.n + 2;
    D shape[MAX_SPATIAL + 2] = {dim(c, x, 0), dim(c, x, 1)}, lo[MAX_SPATIAL + 2], hi[MAX_SPATIAL + 2], all = num(c, 1);
    if (n >= 0 && n != r) fail(c, NST_E_MODEL, "output_shape has %d entries, allowed: %d", n, r);
    for (int k = 0; k < q.n; k++) {
        D full = add(c, mul(c, minus1(c, dim(c, x, k + 2)), num(c, q.stride[k])), q.size[k]);
        shape[k + 2] = n >= 0 ? full : sub(c, full, add(c, q.lo[k], q.hi[k]));
    }
    for (int k = 0; k < r; k++) all = mul(c, all, shape[k]);
    if (failed(c)) return;
    D count = product(c, x, 0, r);
    V y = nst_build_scatter(c->b, expand(c, number(c, dtype(c, x), 0), 1, &all), reshape(c, in(c, 1), 1, &count),
                            reshape(c, x, 1, &count), 0, false, NULL, NST_INDEX_CHECKED);
    y = reshape(c, y, r, shape);
    for (int k = 0; k < r; k++) {
        lo[k] = num(c, 0);
        hi[k] = n >= 0 ? sub(c, wanted[k], shape[k]) : num(c, 0);
    }
    out(c, 0, failed(c) || n < 0 ? y : nst_build_pad(c->b, y, lo, hi, NULL, NST_PAD_CONSTANT, (V){0}));
}

/* The spatial axes of an image and of its blocks. */
static bool block_geometry(NstLower *c, Geometry *q, const D **image)
{
    int n, m;
    *image = sizes_in(c, 1, "image_shape", 0, &n);
    const D *block = sizes_in(c, 2, "block_shape", 1, &m);
    if (!failed(c) && (n != m || n < 1 || n > MAX_SPATIAL || rank(c, in(c, 0)) != 3))
        fail(c, NST_E_SHAPE, "image_shape has %d entries, block_shape %d, input rank %d, allowed: equal, 1 to %d, 3", n,
             m, rank(c, in(c, 0)), MAX_SPATIAL);
    q->n = n;
    for (int k = 0; k < n && !failed(c); k++) q->size[k] = block[k];
    return !failed(c) && geometry(c, (V){0}, q);
}

/* Columns [N, C * block..., blocks...] summed where they lie in the image [N, C, image...]. */
LOWER(col2im)
{
    V x = in(c, 0), index = {0};
    Geometry q = {0};
    const D *image;
    if (!block_geometry(c, &q, &image)) return;
    D shape[MAX_SPATIAL + 2] = {dim(c, x, 0)}, pixels = num(c, 1), elements = num(c, 1), blocks = num(c, 1);
    for (int k = 0; k < q.n; k++) { /* index: [block..., blocks...] */
        D padded = add(c, image[k], add(c, q.lo[k], q.hi[k])), size = num(c, q.stride[k]);
        D count = add(c, nst_dim_floordiv(c->b->graph->dims, sub(c, padded, reach(c, &q, k)), size), num(c, 1));
        V i = along(c, nst_build_iota(c->b, q.size[k]), k, 2 * q.n),
          b = along(c, nst_build_iota(c->b, count), q.n + k, 2 * q.n);
        V at = map(c, "a * b + c * d - e", i, size_value(c, num(c, q.dilation[k])), b, size_value(c, size),
                   size_value(c, q.lo[k]));
        V own = map(c, "a >= 0 & a < b ? a : -1", at, size_value(c, image[k]));
        index = k == 0 ? own : map(c, "a < 0 | b < 0 ? -1 : a * c + b", index, own, size_value(c, image[k]));
        pixels = mul(c, pixels, image[k]);
        elements = mul(c, elements, q.size[k]);
        blocks = mul(c, blocks, count);
        shape[k + 2] = image[k];
    }
    shape[1] = nst_dim_floordiv(c->b->graph->dims, dim(c, x, 1), elements);
    D rows = mul(c, shape[0], shape[1]), count = mul(c, elements, blocks), flat[2] = {rows, count},
      zeros[2] = {rows, pixels};
    V base = expand(c, number(c, dtype(c, x), 0), 2, zeros);
    if (failed(c)) return;
    V y = nst_build_scatter(c->b, base, reshape(c, index, 1, &count), reshape(c, x, 2, flat), 1, false, "a + b",
                            NST_INDEX_FILL);
    out(c, 0, reshape(c, y, q.n + 2, shape));
}

/* (sum of |x|^p)^(1/p) over each window. */
LOWER(lp_pool)
{
    V x = widen(c, in(c, 0)), p = number(c, dtype(c, x), (double)attr_i(c, "p"));
    Geometry q = {0};
    if (!pool_geometry(c, x, &q)) return;
    V view = slide(c, map(c, "pow(abs(a), b)", x, p), 2, &q, (V){0});
    V sum = reduce(c, "a + b", view, axes_from(q.n + 2, 2 * q.n + 2), DROP);
    out(c, 0, convert(c, map(c, "pow(a, 1 / b)", sum, p), dtype(c, in(c, 0))));
}

LOWER(global_lp_pool)
{
    V x = widen(c, in(c, 0)), p = number(c, dtype(c, x), (double)attr_i(c, "p"));
    V sum = reduce(c, "a + b", map(c, "pow(abs(a), b)", x, p), axes_from(2, rank(c, x)), KEEP);
    out(c, 0, convert(c, map(c, "pow(a, 1 / b)", sum, p), dtype(c, in(c, 0))));
}

/* How many elements each window averages: [1, 1, out...]. */
static V window_count(NstLower *c, V x, const Geometry *q, bool include_pad)
{
    D shape[MAX_SPATIAL + 2], lo[MAX_SPATIAL + 2], hi[MAX_SPATIAL + 2];
    Geometry own = *q;
    for (int k = 0; k < q->n + 2; k++) {
        shape[k] = k < 2 ? num(c, 1) : dim(c, x, k);
        lo[k] = k < 2 || !include_pad ? num(c, 0) : q->lo[k - 2];
        hi[k] = k < 2 || !include_pad ? num(c, 0) : q->hi[k - 2];
    }
    for (int k = 0; k < q->n && include_pad; k++) own.lo[k] = own.hi[k] = num(c, 0);
    V one = number(c, dtype(c, x), 1);
    V ones = nst_build_pad(c->b, expand(c, one, q->n + 2, shape), lo, hi, NULL, NST_PAD_CONSTANT, one);
    return reduce(c, "a + b", slide(c, ones, 2, &own, (V){0}), axes_from(q->n + 2, 2 * q->n + 2), DROP);
}

LOWER(average_pool)
{
    V x = widen(c, in(c, 0));
    Geometry q = {0};
    if (!pool_geometry(c, x, &q)) return;
    bool plain = true; /* all windows lie inside */
    double count = 1;
    int64_t size;
    for (int k = 0; k < q.n; k++) {
        plain = plain && is_num(c, q.lo[k], 0) && is_num(c, q.hi[k], 0) && is_num(c, q.more[k], 0);
        if (known(c, q.size[k], &size)) count *= (double)size;
    }
    V sum = reduce(c, "a + b", slide(c, x, 2, &q, (V){0}), axes_from(q.n + 2, 2 * q.n + 2), DROP);
    V n = plain ? number(c, dtype(c, x), count) : window_count(c, x, &q, attr_i(c, "count_include_pad") != 0);
    out(c, 0, convert(c, map(c, "a / b", sum, n), dtype(c, in(c, 0))));
}

/* arg: "combine | after" with b = the number of elements. */
LOWER(global_pool)
{
    const char *bar = strchr(arg, '|');
    V x = widen(c, in(c, 0));
    int r = rank(c, x);
    if (r < 2) fail(c, NST_E_SHAPE, "X has rank %d, allowed: at least 2", r);
    V y = reduce(c, nst_copy_text(c->arena, arg, (size_t)(bar - arg)), x, axes_from(2, r), KEEP);
    if (strchr(bar, 'b')) y = map(c, bar + 1, y, convert(c, size_value(c, product(c, x, 2, r)), dtype(c, x)));
    out(c, 0, convert(c, y, dtype(c, in(c, 0))));
}
