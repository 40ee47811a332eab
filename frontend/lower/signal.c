/* signal.c: windows and Fourier transforms.  A transform is a product with a matrix of cosines and sines: [n, parts] times
 * [n * parts, k * parts], where parts are real and imaginary; angles are whole numbers of quarter turns / n until the end. */
#include "frontend/lower.h"

static NstDtype type_attr(NstLower *c, const char *name)
{
    int64_t code = attr_i(c, name);
    NstDtype t = code > 0 && code < 100 ? nst_dtype_from_onnx((int)code) : NST_DTYPE_NONE;
    if (t == NST_DTYPE_NONE) fail(c, NST_E_MODEL, "%s %lld, allowed: 1 to 26", name, (long long)code);
    return t == NST_DTYPE_NONE ? NST_F32 : t;
}

static D size_in(NstLower *c, int k, const char *what)
{
    int n;
    const D *size = sizes_in(c, k, what, 0, &n);
    if (!failed(c) && n != 1) fail(c, NST_E_MODEL, "%s has %d entries, allowed: 1", what, n);
    return failed(c) ? num(c, 1) : size[0];
}

/* arg: formula of the angle a. */
LOWER(window_function)
{
    D size = size_in(c, 0, "size"), period = attr_i(c, "periodic") ? size : minus1(c, size);
    V i = convert(c, nst_build_iota(c->b, size), NST_F64), n = convert(c, size_value(c, period), NST_F64);
    V angle = map(c, "b > 0 ? 6.283185307179586 * a / b : 3.141592653589793", i, n);
    out(c, 0, convert(c, map(c, arg, angle), type_attr(c, "output_datatype")));
}

/* --- transforms ------------------------------------------------------------------------------------------------ */

typedef struct Transform {
    D n, in_length, out_length; /* period; entries that are read and written */
    bool inverse;
    int in_parts, out_parts; /* 1: real, 2: complex */
    bool mirrored;           /* the entries read are half of a spectrum whose other half is their conjugate */
} Transform;

/* [in_length * in_parts, out_length * out_parts] */
static V transform_matrix(NstLower *c, const Transform *t, NstDtype type)
{
    V i = along(c, nst_build_iota(c->b, t->in_length), 0, 4),
      p = along(c, nst_build_iota(c->b, num(c, t->in_parts)), 1, 4);
    V k = along(c, nst_build_iota(c->b, t->out_length), 2, 4),
      q = along(c, nst_build_iota(c->b, num(c, t->out_parts)), 3, 4);
    V n = size_value(c, t->n);
    V turn = map(c, t->inverse ? "mod(4*a*b - (d - c)*e, 4*e)" : "mod(4*a*b + (d - c)*e, 4*e)", i, k, p, q, n);
    V m = map(c, "cos(1.5707963267948966 * (a / b))", convert(c, turn, NST_F64), convert(c, n, NST_F64));
    if (t->inverse) m = map(c, "a / b", m, convert(c, n, NST_F64));
    if (t->mirrored) m = map(c, "b == 0 | 2 * b == c ? a : 2 * a", m, i, n);
    D shape[2] = {mul(c, t->in_length, num(c, t->in_parts)), mul(c, t->out_length, num(c, t->out_parts))};
    return convert(c, reshape(c, m, 2, shape), type);
}

/* x[..., n, parts], cut or filled with zeros to in_length, transformed over its last two axes. */
static V transform(NstLower *c, V x, const Transform *t)
{
    int r = rank(c, x);
    D lo[NST_MAX_RANK], hi[NST_MAX_RANK], shape[NST_MAX_RANK];
    for (int k = 0; k < r; k++) lo[k] = hi[k] = num(c, 0);
    hi[r - 2] = sub(c, t->in_length, dim(c, x, r - 2));
    x = nst_build_pad(c->b, x, lo, hi, NULL, NST_PAD_CONSTANT, (V){0});
    D flat[2] = {product(c, x, 0, r - 2), mul(c, t->in_length, num(c, t->in_parts))};
    for (int k = 0; k < r - 2; k++) shape[k] = dim(c, x, k);
    shape[r - 2] = t->out_length;
    shape[r - 1] = num(c, t->out_parts);
    V y = contract(c, "rn,nk->rk", reshape(c, x, 2, flat), transform_matrix(c, t, dtype(c, x)));
    return reshape(c, y, r, shape);
}

static D half_plus_one(NstLower *c, D n)
{
    return add(c, nst_dim_floordiv(c->b->graph->dims, n, num(c, 2)), num(c, 1));
}

/* Number of parts of the last axis. */
static int parts_of(NstLower *c, V x)
{
    int64_t parts = 0;
    if (rank(c, x) >= 2 && !known(c, dim(c, x, rank(c, x) - 1), &parts))
        return fail(c, NST_E_UNSUPPORTED, "an input whose last extent is open (real or complex) is not supported"), 1;
    if (rank(c, x) < 2 || parts < 1 || parts > 2)
        return fail(c, NST_E_SHAPE, "input of rank %d, allowed: at least 2, the last extent 1 or 2", rank(c, x)), 1;
    return (int)parts;
}

/* Inputs: signal[..., 1 or 2], length, axis. */
LOWER(dft)
{
    V x = widen(c, in(c, 0));
    int n, r = rank(c, x), order[NST_MAX_RANK];
    const int64_t *given = const_ints(c, 2, "axis", &n);
    int axis = norm_axis(c, n == 1 ? given[0] : -2, r, false);
    bool onesided = attr_i(c, "onesided") != 0, inverse = attr_i(c, "inverse") != 0;
    Transform t = {.inverse = inverse, .in_parts = parts_of(c, x), .out_parts = onesided && inverse ? 1 : 2};
    if (!failed(c) && axis == r - 1) fail(c, NST_E_MODEL, "axis %d is that of real and imaginary parts", axis);
    if (!failed(c) && onesided && t.in_parts != (inverse ? 2 : 1))
        fail(c, NST_E_SHAPE, "onesided with %d parts, allowed: %s", t.in_parts, inverse ? "complex" : "real input");
    if (failed(c)) return;
    for (int k = 0, at = 0; k < r - 1; k++) order[k == axis ? r - 2 : at++] = k;
    order[r - 1] = r - 1;
    D own = dim(c, x, axis);
    t.n = has(c, 1) ? size_in(c, 1, "dft_length") : onesided && inverse ? mul(c, minus1(c, own), num(c, 2)) : own;
    t.mirrored = onesided && inverse;
    t.in_length = t.mirrored ? half_plus_one(c, t.n) : t.n;
    t.out_length = onesided && !inverse ? half_plus_one(c, t.n) : t.n;
    V y = failed(c) ? x : transform(c, permute(c, x, order), &t);
    int back[NST_MAX_RANK];
    for (int k = 0; k < r; k++) back[order[k]] = k;
    out(c, 0, convert(c, permute(c, y, back), dtype(c, in(c, 0))));
}

/* Frames of the signal [B, L, parts], times the window, transformed: [B, frames, bins, 2]. */
LOWER(stft)
{
    static const int order[] = {0, 1, 3, 2};
    V x = widen(c, in(c, 0));
    int n;
    const int64_t *step = const_ints(c, 1, "frame_step", &n);
    if (!failed(c) && (n != 1 || step[0] < 1 || step[0] > INT32_MAX))
        fail(c, NST_E_MODEL, "frame_step is %lld, allowed: at least 1", n == 1 ? (long long)step[0] : 0);
    if (!has(c, 2) && !has(c, 3)) fail(c, NST_E_MODEL, "neither window nor frame_length, allowed: at least one");
    if (rank(c, x) != 3) fail(c, NST_E_SHAPE, "signal has rank %d, allowed: 3", rank(c, x));
    Transform t = {.in_parts = parts_of(c, x), .out_parts = 2};
    bool onesided = attr_i(c, "onesided") != 0;
    if (!failed(c) && onesided && t.in_parts != 1)
        fail(c, NST_E_SHAPE, "onesided with a complex signal, allowed: real");
    if (failed(c)) return;
    t.n = t.in_length = has(c, 3) ? size_in(c, 3, "frame_length") : dim(c, in(c, 2), 0);
    t.out_length = onesided ? half_plus_one(c, t.n) : t.n;
    NstWindowAxis w = {1, t.n, step[0], 1, num(c, 0), num(c, 0)};
    V frames = permute(c, nst_build_window(c->b, x, 1, &w, (V){0}), order); /* [B, frames, length, parts] */
    if (has(c, 2)) frames = map(c, "a * b", frames, insert_axis(c, convert(c, in(c, 2), dtype(c, x)), 1));
    out(c, 0, convert(c, transform(c, frames, &t), dtype(c, in(c, 0))));
}

/* Triangles between neighbouring mel frequencies: [dft_length / 2 + 1, num_mel_bins]. */
LOWER(mel_weight_matrix)
{
    D mels = size_in(c, 0, "num_mel_bins"), length = size_in(c, 1, "dft_length");
    V rate = convert(c, in(c, 2), NST_F64), edge[2], bin[3];
    for (int k = 0; k < 2; k++)
        edge[k] = map(c, "2595 * log(1 + a / 700) / 2.302585092994046", convert(c, widen(c, in(c, 3 + k)), NST_F64));
    V i = convert(c, nst_build_iota(c->b, mels), NST_F64), n = convert(c, size_value(c, length), NST_F64);
    V step = map(c, "(b - a) / (c + 2)", edge[0], edge[1], convert(c, size_value(c, mels), NST_F64));
    for (int k = 0; k < 3; k++) {
        V mel = map(c, "(a + d) * b + c", i, step, edge[0], number(c, NST_F64, k));
        V hertz = map(c, "700 * (exp(a / 2595 * 2.302585092994046) - 1)", mel);
        bin[k] = map(c, "floor((a + 1) * b / c)", n, hertz, rate);
    }
    V j = convert(c, insert_axis(c, nst_build_iota(c->b, half_plus_one(c, length)), 1), NST_F64);
    V rise = map(c, "a < b | a > c ? 0 : (b == c ? 1 : (a - b) / (c - b))", j, bin[0], bin[1]);
    out(c, 0,
        convert(c, map(c, "a >= b & a < c ? (c - a) / (c - b) : d", j, bin[1], bin[2], rise),
                type_attr(c, "output_datatype")));
}
