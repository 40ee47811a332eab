/* signal.c: windows and Fourier transforms.  A transform is a product with a matrix of cosines and sines: [n, parts] times
 * [n * parts, k * parts], where parts are real and imaginary; angles are whole numbers of quarter turns / n until the end.
 * Long ones of known length are split into short ones.  Source: Cooley and Tukey (1965). */
#include "frontend/lower.h"

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
    out(c, 0, convert(c, map(c, arg, angle), attr_type(c, "output_datatype", NST_DTYPE_NONE)));
}

/* --- transforms ------------------------------------------------------------------------------------------------ */

typedef struct Transform {
    D n, in_length, out_length; /* period; entries that are read and written */
    bool inverse;
    int in_parts, out_parts; /* 1: real, 2: complex */
    bool unscaled;           /* an inverse is not divided by n */
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
    V m = map(c, "a == b | a == 3 * b ? 0 : cos(1.5707963267948966 * (a / b))", convert(c, turn, NST_F64),
              convert(c, n, NST_F64)); /* no part of what is real in an imaginary zero */
    if (t->inverse && !t->unscaled) m = map(c, "a / b", m, convert(c, n, NST_F64));
    if (t->mirrored) m = map(c, "b == 0 | 2 * b == c ? a : 2 * a", m, i, n);
    D shape[2] = {mul(c, t->in_length, num(c, t->in_parts)), mul(c, t->out_length, num(c, t->out_parts))};
    return convert(c, reshape(c, m, 2, shape), type);
}

/* --- fast transforms ------------------------------------------------------------------------------------------- */

/* Transforms up to this length are one product with a matrix: 2 n^2 numbers of it, and as many multiplications an entry as a
 * split saves.  A split of n = a b costs a + b an entry instead. */
#define MATRIX_LENGTH 256
#define MAX_LENGTH    INT32_MAX /* to look for divisors of */

/* The largest divisor of n that is at most its root, 1 for a prime. */
static int64_t near_root(int64_t n)
{
    int64_t best = 1;
    for (int64_t a = 2; a * a <= n; a++)
        if (n % a == 0) best = a;
    return best;
}

/* x[R, rows, n, parts] over its last two axes by a matrix. */
static V by_matrix(NstLower *c, V x, int64_t n, bool inverse)
{
    int64_t parts = 1;
    (void)known(c, dim(c, x, 3), &parts);
    Transform t = {.n = num(c, n),
                   .in_length = num(c, n),
                   .out_length = num(c, n),
                   .inverse = inverse,
                   .in_parts = (int)parts,
                   .out_parts = 2,
                   .unscaled = true};
    V y = contract(c, "abn,nk->abk", merge_axes(c, x, 2), transform_matrix(c, &t, dtype(c, x)));
    return failed(c) ? y : split_axis(c, y, 2, n);
}

/* The same by a split n = a b (Cooley and Tukey): over n1 of n = b n1 + n2, a turn by n2 k1 / n, over n2; then k = k1 + a k2. */
static V by_split(NstLower *c, V x, int64_t n, bool inverse)
{
    static const int columns[] = {0, 1, 3, 2, 4}, joined[] = {0, 1, 3, 2, 4};
    int64_t a = n > MATRIX_LENGTH ? near_root(n) : 1, b = n / a;
    if (a == 1 || failed(c)) return by_matrix(c, x, n, inverse);
    NstDtype t = dtype(c, x);
    D rows = dim(c, x, 1);
    x = merge_axes(c, permute(c, split_axis(c, x, 2, a), columns), 1); /* [R, rows * b, a, parts] */
    x = by_split(c, x, a, inverse);                                    /* .. k1, 2 */
    D apart[5] = {dim(c, x, 0), rows, num(c, b), num(c, a), num(c, 2)};
    x = reshape(c, x, 5, apart);
    V n2 = insert_axis(c, nst_build_iota(c->b, num(c, b)), 1), k1 = nst_build_iota(c->b, num(c, a));
    V angle = map(c, inverse ? "-6.283185307179586 * a / b" : "6.283185307179586 * a / b",
                  convert(c, map(c, "a * b", n2, k1), NST_F64), number(c, NST_F64, (double)n));
    V turn[2] = {convert(c, map(c, "cos(a)", angle), t), convert(c, map(c, "sin(a)", angle), t)}, part[2], out2[2];
    for (int k = 0; k < 2; k++) part[k] = drop_axis(c, slice1(c, x, 4, num(c, k), 1, num(c, 1)), 4);
    out2[0] = insert_axis(c, map(c, "a * c + b * d", part[0], part[1], turn[0], turn[1]), 4);
    out2[1] = insert_axis(c, map(c, "b * c - a * d", part[0], part[1], turn[0], turn[1]), 4);
    x = merge_axes(c, permute(c, concat(c, 2, out2, 4), columns), 1); /* [R, rows * a, b, 2] */
    x = by_split(c, x, b, inverse);                                   /* .. k2, 2 */
    D again[5] = {dim(c, x, 0), rows, num(c, a), num(c, b), num(c, 2)};
    x = permute(c, reshape(c, x, 5, again), joined); /* [R, rows, k2, k1, 2] */
    return merge_axes(c, x, 2);
}

/* x[R, in_length, parts] by splits: whole spectra, of which the wanted part is taken. */
static V fast_transform(NstLower *c, V x, const Transform *t, int64_t n)
{
    if (t->mirrored) { /* entry n - k is the conjugate of entry k */
        D more = sub(c, t->n, t->in_length);
        V sign = nst_build_const(c->b, NST_F32, 1, (int64_t[]){2}, (float[]){1, -1});
        V both[2] = {x, map(c, "a * b", slice1(c, x, 1, more, -1, more), convert(c, sign, dtype(c, x)))};
        x = concat(c, 2, both, 1);
    }
    V y = drop_axis(c, by_split(c, insert_axis(c, x, 1), n, t->inverse), 1);
    y = slice1(c, slice1(c, y, 1, num(c, 0), 1, t->out_length), 2, num(c, 0), 1, num(c, t->out_parts));
    return t->inverse ? map(c, "a / b", y, number(c, dtype(c, y), (double)n)) : y;
}

/* x[..., n, parts], cut or filled with zeros to in_length, transformed over its last two axes. */
static V transform(NstLower *c, V x, const Transform *t)
{
    int r = rank(c, x);
    int64_t n = 0;
    D lo[NST_MAX_RANK], hi[NST_MAX_RANK], shape[NST_MAX_RANK];
    if (failed(c)) return (V){0}; /* x has no rank then */
    for (int k = 0; k < r; k++) lo[k] = hi[k] = num(c, 0);
    hi[r - 2] = sub(c, t->in_length, dim(c, x, r - 2));
    x = nst_build_pad(c->b, x, lo, hi, NULL, NST_PAD_CONSTANT, (V){0});
    bool split = choose(c, known(c, t->n, &n)) && n > MATRIX_LENGTH && n <= MAX_LENGTH && near_root(n) > 1;
    D flat[3] = {product(c, x, 0, r - 2), t->in_length, num(c, t->in_parts)};
    for (int k = 0; k < r - 2; k++) shape[k] = dim(c, x, k);
    shape[r - 2] = t->out_length;
    shape[r - 1] = num(c, t->out_parts);
    if (split) return reshape(c, fast_transform(c, reshape(c, x, 3, flat), t, n), r, shape);
    flat[1] = mul(c, flat[1], flat[2]);
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
                attr_type(c, "output_datatype", NST_DTYPE_NONE)));
}
