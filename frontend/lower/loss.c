/* loss.c: losses over classes. */
#include "frontend/lower.h"

/* The weighted negative entry of x[N, C, ...] at each target[N, ...], reduced as the node says. */
static V nll(NstLower *c, V x, V target, V weight_of)
{
    int r = rank(c, x), order[NST_MAX_RANK], n = 0;
    if (r < 2 || rank(c, target) != r - 1)
        return fail(c, NST_E_SHAPE, "input has rank %d, target %d, allowed: one less", r, rank(c, target));
    for (int k = 0; k < r; k++)
        if (k != 1) order[n++] = k;
    order[n] = 1;
    D rows = product(c, target, 0, r - 1), flat[2] = {rows, dim(c, x, 1)};
    V label = convert(c, reshape(c, target, 1, &rows), NST_I64), live = {0};
    if (has_attr(c, "ignore_index")) {
        live = map(c, "a != @ignore_index", label);
        label = map(c, "b ? a : 0", label, live);
    }
    V entry = nst_build_gather(c->b, reshape(c, permute(c, x, order), 2, flat), insert_axis(c, label, 1), 1, 1,
                               NST_INDEX_CHECKED);
    V loss = map(c, "-a", drop_axis(c, entry, 1));
    V w = weight_of.i ? gather(c, weight_of, label, 0, NST_INDEX_CHECKED)
                      : expand(c, number(c, dtype(c, x), 1), 1, &rows);
    if (live.i) w = map(c, "b ? a : 0", w, live);
    loss = map(c, "a * b", loss, w);
    if (attr_is(c, "reduction", "none")) return reshape(c, loss, r - 1, type(c, target)->shape);
    V sum = reduce(c, "a + b", loss, axes_from(0, 1), DROP);
    return attr_is(c, "reduction", "sum") ? sum : map(c, "a / b", sum, reduce(c, "a + b", w, axes_from(0, 1), DROP));
}

LOWER(nll_loss)
{
    V x = widen(c, in(c, 0));
    V w = has(c, 2) ? widen(c, in(c, 2)) : in(c, 2);
    out(c, 0, convert(c, nll(c, x, in(c, 1), w), dtype(c, in(c, 0))));
}

LOWER(softmax_cross_entropy)
{
    V x = widen(c, in(c, 0));
    Axes one = axes_from(1, 2);
    if (rank(c, x) < 2) fail(c, NST_E_SHAPE, "scores have rank %d, allowed: at least 2", rank(c, x));
    if (failed(c)) return;
    V d = map(c, "a - b", x, reduce(c, "max(a, b)", x, one, KEEP));
    V log_prob = map(c, "a - log(b)", d, reduce(c, "a + b", map(c, "exp(a)", d), one, KEEP));
    V w = has(c, 2) ? widen(c, in(c, 2)) : in(c, 2);
    out(c, 0, convert(c, nll(c, log_prob, in(c, 1), w), dtype(c, in(c, 0))));
    out(c, 1, convert(c, log_prob, dtype(c, in(c, 0))));
}
