/* reduce.c: reductions and running sums along axes. */
#include "frontend/lower.h"

#include <math.h>

typedef struct Parts {
    const char *before, *combine, *after;
} Parts;

/* "before | combine | after" */
static Parts split3(NstLower *c, const char *text)
{
    const char *a = strchr(text, '|'), *b = strchr(a + 1, '|');
    return (Parts){nst_copy_text(c->arena, text, (size_t)(a - text)),
                   nst_copy_text(c->arena, a + 1, (size_t)(b - a - 1)), b + 1};
}

static Axes reduced_axes(NstLower *c)
{
    int n, r = rank(c, in(c, 0));
    const int64_t *list = const_ints(c, 1, "axes", &n);
    if (n > 0) return axes_of(c, list, n, r);
    return attr_i(c, "noop_with_empty_axes") ? (Axes){0} : axes_from(0, r);
}

/* Number of elements that become one, in the type of x. */
static V count_of(NstLower *c, V x, const Axes *axes, NstDtype type)
{
    D n = num(c, 1);
    int64_t value;
    for (int k = 0; k < axes->n; k++) n = mul(c, n, dim(c, x, axes->at[k]));
    return known(c, n, &value) ? number(c, type, (double)value) : convert(c, size_value(c, n), type);
}

/* arg: "before | combine | after" with b = the number of elements in after.  The identity of the combiner comes with the
 * combiner, so that empty axes need no code here. */
LOWER(reduce)
{
    Parts p = split3(c, arg);
    V x = in(c, 0), wide = dtype(c, x) == NST_BOOL ? convert(c, x, NST_U8) : widen(c, x);
    Axes axes = reduced_axes(c);
    if (strcmp(p.before, "a ") != 0) wide = map(c, p.before, wide);
    V y = reduce(c, p.combine, wide, axes, attr_i(c, "keepdims") != 0);
    if (strchr(p.after, 'b'))
        y = map(c, p.after, y, count_of(c, x, &axes, dtype(c, wide)));
    else if (strcmp(p.after, " a") != 0)
        y = nst_dtype_is_float(dtype(c, y)) ? map(c, p.after, y) : map(c, p.after, convert(c, y, NST_F64));
    out(c, 0, convert(c, y, dtype(c, x)));
}

/* log(sum(exp(x))), with the largest element taken out first. */
LOWER(reduce_log_sum_exp)
{
    V x = in(c, 0), wide = nst_dtype_is_float(dtype(c, x)) ? widen(c, x) : convert(c, x, NST_F64);
    Axes axes = reduced_axes(c);
    V top = map(c, "isinf(a) ? 0 : a", reduce(c, "max(a, b)", wide, axes, KEEP));
    V sum = reduce(c, "a + b", map(c, "exp(a - b)", wide, top), axes, KEEP);
    V y = map(c, "a + log(b)", top, sum);
    if (!attr_i(c, "keepdims")) y = reduce(c, "a + b", y, axes, DROP);
    out(c, 0, convert(c, y, dtype(c, x)));
}

/* arg: ">" or "<".  Two states, the value and its index; NaN is not looked for. */
LOWER(arg_reduce)
{
    V x = widen(c, in(c, 0));
    int r = rank(c, x), axis = norm_axis(c, attr_i(c, "axis"), r, false);
    NstDtype t = dtype(c, x), args[4] = {t, NST_I64, t, NST_I64};
    bool last = attr_i(c, "select_last_index") != 0, largest = arg[0] == '>';
    if (failed(c)) return;
    V index = expand(c, along(c, nst_build_iota(c->b, dim(c, x, axis)), axis, r), r, type(c, x)->shape);
    const char *wins = nst_format(c->arena, "(c %s a | b < 0 | (c == a & %s))", arg, last ? "d > b" : "d >= 0 & d < b");
    NstExpr step[2] = {nst_build_formula(c->b, nst_format(c->arena, "%s & d >= 0 ? c : a", wins), args, 4, t),
                       nst_build_formula(c->b, nst_format(c->arena, "%s & d >= 0 ? d : b", wins), args, 4, NST_I64)};
    NstScalar worst = {.f = largest ? -INFINITY : INFINITY};
    NstExprs *exprs = c->b->graph->exprs;
    NstExpr init[2] = {nst_expr_const(exprs, t, nst_scalar_convert(t, NST_F64, worst, true)),
                       nst_expr_int(exprs, NST_I64, -1)};
    V both[2], pair[2] = {x, index};
    (void)nst_build_reduce_tuple(c->b, 2, pair, (NstCombine){2, step, step, init}, 1, &axis, attr_i(c, "keepdims") != 0,
                                 false, both);
    if (!failed(c)) out(c, 0, both[1]);
}

LOWER(prefix)
{
    int n;
    V x = in(c, 0);
    const int64_t *axis = const_ints(c, 1, "axis", &n);
    if (n != 1) {
        fail(c, NST_E_MODEL, "axis has %d entries, allowed: 1", n);
        return;
    }
    out(c, 0,
        nst_build_prefix(c->b, x, arg, norm_axis(c, axis[0], rank(c, x), false), attr_i(c, "exclusive") != 0,
                         attr_i(c, "reverse") != 0));
}
