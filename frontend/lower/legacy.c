/* legacy.c: operators that left the standard but live in old models and in ONNX Runtime's schemas. */
#include "frontend/lower.h"

/* A formula whose attributes have no default that is written down. */
LOWER(formula_of_given)
{
    for (int k = 0; k < 2; k++)
        if (!has_attr(c, k == 0 ? "alpha" : "beta"))
            fail(c, NST_E_UNSUPPORTED, "without attribute %s is not supported", k == 0 ? "alpha" : "beta");
    if (!failed(c)) out(c, 0, map(c, arg, in(c, 0)));
}

LOWER(affine)
{
    out(c, 0, map(c, has_attr(c, "beta") ? "@alpha * a + @beta" : "@alpha * a", in(c, 0)));
}

/* [N, C, H, W] less a border (left, top, right, bottom), or cut to a size from the border's left top on. */
LOWER(crop)
{
    V x = in(c, 0);
    int n, m;
    const int64_t *border = attr_ints(c, "border", &n), *size = attr_ints(c, "scale", &m);
    if (rank(c, x) != 4 || n != 4 || (m != 0 && m != 2))
        fail(c, NST_E_MODEL, "rank %d, %d entries of border, %d of scale, allowed: 4, 4, 0 or 2", rank(c, x), n, m);
    for (int k = 0; k < 4 && !failed(c); k++)
        if (border[k] < 0 || border[k] > NST_MAX_TENSOR_BYTES)
            fail(c, NST_E_MODEL, "border %lld, allowed: 0 and above, less than the extent", (long long)border[k]);
    for (int k = 0; k < 2 && !failed(c); k++) { /* height, width */
        D rest = sub(c, sub(c, dim(c, x, k + 2), num(c, border[1 - k])), num(c, border[3 - k]));
        x = slice1(c, x, k + 2, num(c, border[1 - k]), 1, m ? num(c, size[k]) : rest);
    }
    out(c, 0, x);
}

/* x * scale + bias[channel] */
LOWER(image_scaler)
{
    const NstAttr *bias = nst_attrs_find(&c->attrs, "bias");
    V x = widen(c, in(c, 0)), y = map(c, "a * @scale", x);
    int64_t n = bias ? (int64_t)bias->n : 0;
    if (rank(c, x) != 4) fail(c, NST_E_SHAPE, "input has rank %d, allowed: 4", rank(c, x));
    if (failed(c)) return;
    if (bias)
        y = map(c, "a + b", y,
                along(c, convert(c, nst_build_const(c->b, NST_F32, 1, &n, bias->floats), dtype(c, x)), 1, 4));
    out(c, 0, convert(c, y, dtype(c, in(c, 0))));
}

/* values in the shape of an attribute, of the input, or in the input's own shape; extra_shape is appended. */
LOWER(given_fill)
{
    const NstAttr *values = nst_attrs_find(&c->attrs, "values");
    int n = 0, m, extra;
    const int64_t *list = attr_ints(c, "shape", &m), *more = attr_ints(c, "extra_shape", &extra);
    bool by_value = has(c, 0) && attr_i(c, "input_as_shape");
    NstDtype own = has(c, 0) ? dtype(c, in(c, 0)) : NST_F32;
    if (by_value) c->ins[0] = convert(c, in(c, 0), NST_I64);
    const D *given = by_value ? sizes_in(c, 0, "shape", 0, &n) : type(c, in(c, 0))->shape;
    if (!by_value) n = has(c, 0) ? rank(c, in(c, 0)) : m;
    if (n + extra > NST_MAX_RANK) fail(c, NST_E_LIMIT, "rank %d, allowed: at most %d", n + extra, NST_MAX_RANK);
    D shape[NST_MAX_RANK];
    if (failed(c)) return;
    for (int k = 0; k < n; k++) shape[k] = has(c, 0) ? given[k] : num(c, list[k]);
    for (int k = 0; k < extra; k++) shape[n + k] = num(c, more[k]);
    int64_t count = values ? (int64_t)values->n : 0;
    V y = nst_build_const(c->b, NST_F32, 1, &count, values ? values->floats : NULL);
    out(c, 0, convert(c, reshape(c, y, n + extra, shape), own));
}

/* hidden_prev[1, N, D], gates[1, N, 3D] (reset, update, output), lengths[N], t: the step of a GRU whose reset gate was applied
 * before.  Past a row's length its state stays, or is 0 with drop_states. */
LOWER(gru_unit)
{
    V h = in(c, 0), gates = in(c, 1), part[3], length = in(c, 2), t = in(c, 3);
    int r = rank(c, h);
    if (r < 2 || rank(c, gates) != r)
        fail(c, NST_E_SHAPE, "hidden_prev has rank %d, gates %d, allowed: equal, at least 2", r, rank(c, gates));
    if (failed(c)) return;
    D size = dim(c, h, r - 1);
    for (int k = 0; k < 3; k++) part[k] = slice1(c, gates, r - 1, mul(c, size, num(c, k)), 1, size);
    V y = map(c, "a * sigmoid(b) + tanh(c) * (1 - sigmoid(b))", h, part[1], part[2]);
    V live = map(c, "b < a", along(c, length, r - 2, r), reshape(c, t, 0, NULL));
    out(c, 0, attr_i(c, "drop_states") ? map(c, "a ? b : 0", live, y) : map(c, "a ? b : c", live, y, h));
}
