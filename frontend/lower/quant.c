/* quant.c: quantisation, and products of quantised operands. */
#include "frontend/lower.h"

/* A scale or zero point of one entry, of one an index of axis, or of one a block of indices, against x. */
static V spread(NstLower *c, V p, V x, int axis)
{
    int r = rank(c, x);
    int64_t block = attr_i(c, "block_size");
    if (rank(c, p) == 0 || failed(c)) return p;
    if (rank(c, p) == 1 && is_num(c, dim(c, p, 0), 1)) return drop_axis(c, p, 0);
    if (rank(c, p) == 1 && block == 0) return along(c, p, axis, r);
    if (block < 1 || rank(c, p) != r)
        return fail(c, NST_E_SHAPE, "scale has rank %d, allowed: 0, 1, or %d with block_size", rank(c, p), r);
    D shape[NST_MAX_RANK + 1];
    p = insert_axis(c, p, axis + 1);
    for (int k = 0; k <= r && !failed(c); k++) shape[k] = k == axis + 1 ? num(c, block) : dim(c, p, k);
    p = merge_axes(c, expand(c, p, r + 1, shape), axis);
    return slice1(c, p, axis, num(c, 0), 1, dim(c, x, axis)); /* the last block may be smaller */
}

static int quant_axis(NstLower *c, V scale, V x)
{
    bool one = rank(c, scale) == 0 || (rank(c, scale) == 1 && is_num(c, dim(c, scale, 0), 1));
    return one ? 0 : norm_axis(c, attr_i(c, "axis"), rank(c, x), false);
}

/* (x - zero) * scale */
LOWER(dequantize)
{
    V x = in(c, 0), scale = in(c, 1);
    int axis = quant_axis(c, scale, x);
    bool is_float = nst_dtype_is_float(dtype(c, x));
    NstDtype to = attr_type(c, "output_dtype", dtype(c, scale));
    V y = convert(c, x, is_float ? NST_F32 : NST_I32);
    if (has(c, 2)) y = map(c, "a - b", y, convert(c, spread(c, in(c, 2), x, axis), dtype(c, y)));
    y = map(c, "a * b", convert(c, y, NST_F32), convert(c, spread(c, scale, x, axis), NST_F32));
    out(c, 0, convert(c, y, to));
}

V quantize_to(NstLower *c, V y, V zero, NstDtype to)
{
    bool is_signed = nst_dtype_is_signed(to);
    if (!nst_dtype_is_int(to) || nst_dtype_info(to)->bits > 16)
        return fail(c, NST_E_UNSUPPORTED, "quantising to %s is not supported, only to integers of at most 16 bits",
                    nst_dtype_info(to)->name);
    int bits = nst_dtype_info(to)->bits - (is_signed ? 1 : 0);
    double top = (double)((1 << bits) - 1), low = is_signed ? -top - 1 : 0;
    y = map(c, "round(a)", y);
    if (zero.i) y = map(c, "a + b", y, convert(c, zero, dtype(c, y)));
    y = map(c, "max(min(a, b), c)", y, number(c, dtype(c, y), top), number(c, dtype(c, y), low));
    return convert(c, convert(c, y, NST_I32), to);
}

/* round(x / scale) + zero, kept inside the type. */
static V quantize(NstLower *c, V x, V scale, V zero, NstDtype to)
{
    V y = map(c, "a / b", x, scale);
    if (nst_dtype_is_float(to)) {
        if (zero.i) y = map(c, "a + b", y, convert(c, zero, NST_F32));
        return nst_build_convert(c->b, y, to, attr_i(c, "saturate") != 0);
    }
    return quantize_to(c, y, zero, to);
}

LOWER(quantize)
{
    V x = in(c, 0), scale = in(c, 1), zero = in(c, 2);
    int axis = quant_axis(c, scale, x);
    NstDtype to = zero.i ? dtype(c, zero) : attr_type(c, "output_dtype", NST_U8);
    x = convert(c, widen(c, x), NST_F32);
    scale = convert(c, spread(c, scale, x, axis), NST_F32);
    out(c, 0, quantize(c, x, scale, zero.i ? spread(c, zero, x, axis) : zero, to));
}

Quantized quantize_dynamically(NstLower *c, V x)
{
    Axes all = axes_from(0, rank(c, x));
    V top = map(c, "max(a, 0)", reduce(c, "max(a, b)", x, all, DROP));
    V low = map(c, "min(a, 0)", reduce(c, "min(a, b)", x, all, DROP));
    V scale = map(c, "(a - b) / 255", top, low);
    V zero = map(c, "b == 0 ? 0 : max(min(round(-a / b), 255), 0)", low, scale);
    zero = convert(c, convert(c, zero, NST_I32), NST_U8);
    return (Quantized){quantize(c, x, map(c, "a == 0 ? 1 : a", scale), zero, NST_U8), scale, zero};
}

LOWER(dynamic_quantize)
{
    Quantized q = quantize_dynamically(c, in(c, 0));
    out(c, 0, q.x);
    out(c, 1, q.scale);
    out(c, 2, q.zero);
}
