/* norm.c: softmax and normalisations.  Narrow floats are computed in f32 and rounded once. */
#include "frontend/lower.h"

/* arg "log": LogSoftmax.  Over axis, or over the axes an adapter gave. */
LOWER(softmax)
{
    V x = widen(c, in(c, 0));
    int n, r = rank(c, x);
    const int64_t *list = attr_ints(c, "axes", &n);
    int64_t axis = attr_i(c, "axis");
    Axes ax = has_attr(c, "axes") ? axes_of(c, list, n, r) : axes_of(c, &axis, 1, r);
    V d = map(c, "a - b", x, reduce(c, "max(a, b)", x, ax, KEEP)); /* d <= 0: exp cannot overflow */
    V e = map(c, "exp(a)", d), s = reduce(c, "a + b", e, ax, KEEP);
    V y = strcmp(arg, "log") == 0 ? map(c, "a - log(b)", d, s) : map(c, "a * b", e, map(c, "1 / a", s));
    out(c, 0, convert(c, y, dtype(c, in(c, 0)))); /* one division a row, not one an element */
}

/* (x - mean) / sqrt(var + epsilon) over axes; *mean and *inv (NULL: not asked for) with the axes kept. */
static V normalize(NstLower *c, V x, Axes axes, V *mean, V *inv)
{
    D n = num(c, 1);
    for (int k = 0; k < axes.n; k++) n = mul(c, n, dim(c, x, axes.at[k]));
    V count = convert(c, size_value(c, n), dtype(c, x));
    V m = map(c, "a / b", reduce(c, "a + b", x, axes, KEEP), count), d = map(c, "a - b", x, m);
    V var = map(c, "a / b", reduce(c, "a + b", map(c, "a * a", d), axes, KEEP), count);
    V i = map(c, "1 / sqrt(a + @epsilon)", var);
    if (mean) *mean = m;
    if (inv) *inv = i;
    return map(c, "a * b", d, i);
}

LOWER(layer_norm)
{
    V x = in(c, 0), wide = widen(c, x), mean, inv;
    NstDtype own = dtype(c, in(c, 1)), stash = attr_type(c, "stash_type", NST_F32);
    int r = rank(c, x), first = norm_axis(c, attr_i(c, "axis"), r, false);
    V y = normalize(c, wide, axes_from(first, r), &mean, &inv);
    y = map(c, "a * b", y, convert(c, widen(c, in(c, 1)), dtype(c, y)));
    if (has(c, 2)) y = map(c, "a + b", y, convert(c, widen(c, in(c, 2)), dtype(c, y)));
    out(c, 0, convert(c, y, own));
    if (wants(c, 1)) out(c, 1, convert(c, mean, stash));
    if (wants(c, 2)) out(c, 2, convert(c, inv, stash));
}

LOWER(instance_norm)
{
    V x = widen(c, in(c, 0));
    int r = rank(c, x);
    if (r < 3) fail(c, NST_E_SHAPE, "input has rank %d, allowed: at least 3", r);
    V y = normalize(c, x, axes_from(2, r), NULL, NULL);
    y = map(c, "a * b + c", y, along(c, widen(c, in(c, 1)), 1, r), along(c, widen(c, in(c, 2)), 1, r));
    out(c, 0, convert(c, y, dtype(c, in(c, 0))));
}

/* x / sqrt(mean of squares + epsilon) over the axes from axis on, times scale. */
LOWER(rms_norm)
{
    V x = in(c, 0), wide = widen(c, x);
    int r = rank(c, x);
    Axes axes = axes_from(norm_axis(c, attr_i(c, "axis"), r, false), r);
    V count = convert(c, size_value(c, product(c, x, axes.at[0], r)), dtype(c, wide));
    V mean = map(c, "a / b", reduce(c, "a + b", map(c, "a * a", wide), axes, KEEP), count);
    V inv = map(c, "1 / sqrt(a + @epsilon)", mean), y = map(c, "a * b", wide, inv);
    NstDtype result = dtype(c, in(c, 1));
    out(c, 0, convert(c, map(c, "a * b", y, convert(c, widen(c, in(c, 1)), dtype(c, y))), result));
    if (wants(c, 1)) out(c, 1, convert(c, inv, attr_type(c, "stash_type", NST_F32)));
}

/* Channels in groups: [N, G, C/G * spatial] normalised over the last axis, then scale and bias a channel. */
LOWER(group_norm)
{
    V x = widen(c, in(c, 0));
    int r = rank(c, x);
    int64_t g = attr_i(c, "num_groups");
    if (r < 2 || g < 1)
        fail(c, NST_E_MODEL, "X has rank %d, num_groups is %lld, allowed: at least 2, 1", r, (long long)g);
    if (failed(c)) return;
    V split = split_axis(c, x, 1, g);
    V y = normalize(c, split, axes_from(2, rank(c, split)), NULL, NULL);
    y = merge_axes(c, y, 1);
    y = map(c, "a * b + c", y, along(c, widen(c, in(c, 1)), 1, r), along(c, widen(c, in(c, 2)), 1, r));
    out(c, 0, convert(c, y, dtype(c, in(c, 0))));
}

/* (x - mean) / deviation over the axes in the attribute. */
LOWER(mean_variance_norm)
{
    int n;
    V x = widen(c, in(c, 0));
    const int64_t *list = attr_ints(c, "axes", &n);
    V count, d;
    Axes axes = axes_of(c, list, n, rank(c, x));
    D all = num(c, 1);
    for (int k = 0; k < axes.n; k++) all = mul(c, all, dim(c, x, axes.at[k]));
    count = convert(c, size_value(c, all), dtype(c, x));
    d = map(c, "a - b / c", x, reduce(c, "a + b", x, axes, KEEP), count);
    V var = map(c, "a / b", reduce(c, "a + b", map(c, "a * a", d), axes, KEEP), count);
    out(c, 0, convert(c, map(c, "a / (sqrt(b) + 1e-9)", d, var), dtype(c, in(c, 0))));
}

/* x / norm along an axis; rows of zeros stay zeros. */
LOWER(lp_norm)
{
    V x = widen(c, in(c, 0));
    int64_t axis = attr_i(c, "axis");
    bool one = attr_i(c, "p") == 1;
    if (!one && attr_i(c, "p") != 2) fail(c, NST_E_MODEL, "p is %lld, allowed: 1, 2", (long long)attr_i(c, "p"));
    V sum = reduce(c, "a + b", map(c, one ? "abs(a)" : "a * a", x), axes_of(c, &axis, 1, rank(c, x)), KEEP);
    V y = map(c, one ? "b == 0 ? 0 : a / b" : "b == 0 ? 0 : a / sqrt(b)", x, sum);
    out(c, 0, convert(c, y, dtype(c, in(c, 0))));
}

/* 1 at the first largest element along the axis, else 0. */
LOWER(hardmax)
{
    V x = in(c, 0);
    int r = rank(c, x), n;
    const int64_t *list = attr_ints(c, "axes", &n);
    int64_t axis = attr_i(c, "axis");
    Axes axes = has_attr(c, "axes") ? axes_of(c, list, n, r) : axes_of(c, &axis, 1, r);
    if (failed(c)) return;
    V top = map(c, "a == b", x, reduce(c, "max(a, b)", x, axes, KEEP)), place = number(c, NST_I64, 0);
    for (int k = 0; k < axes.n; k++)
        place = map(c, "a * b + c", place, size_value(c, dim(c, x, axes.at[k])),
                    along(c, nst_build_iota(c->b, dim(c, x, axes.at[k])), axes.at[k], r));
    V first = reduce(c, "min(a, b)", map(c, "a ? b : 0x7fffffffffffffffi64", top, place), axes, KEEP);
    out(c, 0, convert(c, map(c, "a == b", place, first), dtype(c, x)));
}

/* Mean and variance of each channel over all else. */
static void channel_statistics(NstLower *c, V x, V *mean, V *var)
{
    int r = rank(c, x);
    Axes axes = {0};
    D n = num(c, 1);
    for (int k = 0; k < r; k++) {
        if (k == 1) continue;
        axes.at[axes.n++] = k;
        n = mul(c, n, dim(c, x, k));
    }
    V count = convert(c, size_value(c, n), dtype(c, x)), m = map(c, "a / b", reduce(c, "a + b", x, axes, KEEP), count);
    V d = map(c, "a - b", x, m);
    D channels = dim(c, x, 1);
    *mean = reshape(c, m, 1, &channels);
    *var = map(c, "a / b", reduce(c, "a + b", map(c, "a * a", d), axes, DROP), count);
}

/* One factor and one term a channel, folded where the statistics are constants.  In training they are the input's own, and
 * also become part of the running ones. */
LOWER(batch_norm)
{
    V x = widen(c, in(c, 0)), mean = widen(c, in(c, 3)), var = widen(c, in(c, 4)), old[2] = {mean, var};
    NstDtype t = dtype(c, x);
    if (attr_i(c, "training_mode")) {
        channel_statistics(c, x, &mean, &var);
        for (int k = 0; k < 2; k++) {
            V running =
                map(c, "a * @momentum + b * (1 - @momentum)", old[k], convert(c, k ? var : mean, dtype(c, old[k])));
            out(c, k + 1, convert(c, running, dtype(c, in(c, 3 + k))));
        }
    }
    V s = map(c, "a / sqrt(b + @epsilon)", convert(c, widen(c, in(c, 1)), t), convert(c, var, t));
    V o = map(c, "a - b * c", convert(c, widen(c, in(c, 2)), t), convert(c, mean, t), s);
    int r = rank(c, x), axis = r > 1 ? 1 : 0;
    V y = map(c, "a * b + c", x, along(c, s, axis, r), along(c, o, axis, r));
    out(c, 0, convert(c, y, dtype(c, in(c, 0))));
}

/* x / (bias + alpha/size * sum of squares of the channels around)^beta */
LOWER(lrn)
{
    V x = widen(c, in(c, 0));
    int64_t size = attr_i(c, "size");
    int r = rank(c, x);
    if (size < 1 || r < 2) fail(c, NST_E_MODEL, "size %lld, rank %d, allowed: at least 1, 2", (long long)size, r);
    if (failed(c) || r >= NST_MAX_RANK) return;
    NstWindowAxis w = {1, num(c, size), 1, 1, num(c, (size - 1) / 2), num(c, size / 2)};
    V sum = reduce(c, "a + b", nst_build_window(c->b, map(c, "a * a", x), 1, &w, (V){0}), axes_from(r, r + 1), DROP);
    V base = map(c, "@bias + b * a", sum, number(c, dtype(c, x), attr_f(c, "alpha") / (double)size));
    out(c, 0,
        convert(c, map(c, "a / pow(b, c)", x, base, number(c, dtype(c, x), attr_f(c, "beta"))), dtype(c, in(c, 0))));
}
