/* attention.c: scaled dot products of queries and keys, and what goes with them.  Separate primitives: fusion makes one
 * kernel of them, with any mask or formula in between. */
#include "frontend/lower.h"

#include <math.h>

/* The operands with their heads apart: q[B, H, S, E], k[B, G, T, E], v[B, G, T, F]. */
typedef struct Heads {
    V q, k, v;
    bool flat;      /* the model's operands are [B, S, H * E] */
    bool grouped;   /* more heads of queries than of keys */
    int64_t groups; /* G */
    D past;         /* keys that came with the past */
} Heads;

/* [B, S, H * E] -> [B, H, S, E] */
static V apart(NstLower *c, V x, int64_t heads)
{
    static const int order[] = {0, 2, 1, 3};
    return heads < 1 ? fail(c, NST_E_MODEL, "%lld heads for operands of rank 3, allowed: at least 1", (long long)heads)
                     : permute(c, split_axis(c, x, 2, heads), order);
}

static V with_past(NstLower *c, V past, V x)
{
    V both[2] = {past, x};
    return past.i ? concat(c, 2, both, 2) : x;
}

static bool read_heads(NstLower *c, Heads *h)
{
    int r = rank(c, in(c, 0));
    int64_t q_heads, kv_heads;
    h->flat = r == 3;
    for (int k = 0; k < 3; k++)
        if (rank(c, in(c, k)) != r || (r != 3 && r != 4))
            fail(c, NST_E_SHAPE, "Q, K and V have ranks %d, %d and %d, allowed: 3 or 4", r, rank(c, in(c, 1)),
                 rank(c, in(c, 2)));
    if (has(c, 4) != has(c, 5)) fail(c, NST_E_MODEL, "one of past_key and past_value alone");
    if (failed(c)) return false;
    h->q = h->flat ? apart(c, in(c, 0), attr_i(c, "q_num_heads")) : in(c, 0);
    h->k = h->flat ? apart(c, in(c, 1), attr_i(c, "kv_num_heads")) : in(c, 1);
    h->v = h->flat ? apart(c, in(c, 2), attr_i(c, "kv_num_heads")) : in(c, 2);
    h->past = has(c, 4) ? dim(c, in(c, 4), 2) : num(c, 0);
    h->k = with_past(c, in(c, 4), h->k);
    h->v = with_past(c, in(c, 5), h->v);
    if (!known(c, dim(c, h->q, 1), &q_heads) || !known(c, dim(c, h->k, 1), &kv_heads))
        fail(c, NST_E_UNSUPPORTED, "an open number of heads is not supported");
    else if (kv_heads < 1 || q_heads % kv_heads != 0)
        fail(c, NST_E_SHAPE, "%lld heads of queries and %lld of keys, allowed: a multiple", (long long)q_heads,
             (long long)kv_heads);
    h->groups = failed(c) ? 1 : kv_heads;
    h->grouped = !failed(c) && q_heads != kv_heads;
    return !failed(c);
}

/* Scores [B, H, S, T], scaled. */
static V scores(NstLower *c, const Heads *h)
{
    V q = widen(c, h->q), k = convert(c, widen(c, h->k), dtype(c, q)), s;
    if (h->grouped)
        s = merge_axes(c, contract(c, "bkgse,bkte->bkgst", split_axis(c, q, 1, h->groups), k), 1);
    else
        s = contract(c, "bhse,bhte->bhst", q, k);
    V e = convert(c, size_value(c, dim(c, h->q, 3)), dtype(c, s));
    return has_attr(c, "scale") ? map(c, "a * @scale", s) : map(c, "a * (1 / sqrt(b))", s, e);
}

static V both(NstLower *c, V a, V b)
{
    return a.i ? map(c, "a & b", a, b) : b;
}

/* Which keys take part by position: causal, windows, padding of the cache; none if all do.  [.., S, T] */
static V allowed_keys(NstLower *c, const Heads *h, V s)
{
    V i = insert_axis(c, nst_build_iota(c->b, dim(c, s, 2)), 1), j = nst_build_iota(c->b, dim(c, s, 3)), ok = {0};
    V offset = size_value(c, h->past), valid = has(c, 6) ? along(c, in(c, 6), 0, 4) : (V){0};
    int64_t left = attr_i(c, "left_window_size"), right = attr_i(c, "right_window_size");
    if (valid.i && !has(c, 4)) offset = map(c, "a - b", valid, size_value(c, dim(c, s, 2)));
    V at = map(c, "a + b", i, offset);
    if (valid.i) ok = map(c, "a < b", j, valid);
    if (attr_i(c, "is_causal")) ok = both(c, ok, map(c, "b <= a", at, j));
    if (left >= 0) ok = both(c, ok, map(c, "b >= a - @left_window_size", at, j));
    if (right >= 0) ok = both(c, ok, map(c, "b <= a + @right_window_size", at, j));
    return ok;
}

/* The mask as something to add, filled up with -infinity to T keys. */
static V mask_bias(NstLower *c, V mask, V s)
{
    NstDtype t = dtype(c, s);
    V out_of = number(c, t, -INFINITY);
    V bias = dtype(c, mask) == NST_BOOL ? map(c, "a ? 0 : b", mask, out_of) : convert(c, widen(c, mask), t);
    int r = rank(c, bias);
    D lo[NST_MAX_RANK], hi[NST_MAX_RANK];
    for (int k = 0; k < r; k++) lo[k] = hi[k] = num(c, 0);
    if (r > 0) hi[r - 1] = sub(c, dim(c, s, 3), dim(c, bias, r - 1));
    return nst_build_pad(c->b, bias, lo, hi, NULL, NST_PAD_CONSTANT, out_of);
}

/* Rows whose keys are all masked become zeros. */
static V masked_softmax(NstLower *c, V s, bool masked)
{
    Axes last = axes_from(3, 4);
    V top = reduce(c, "max(a, b)", s, last, KEEP);
    if (masked) top = map(c, "isinf(a) ? 0 : a", top);
    V e = map(c, "exp(a - b)", s, top), sum = reduce(c, "a + b", e, last, KEEP);
    return map(c, "a * b", e, map(c, masked ? "a == 0 ? 0 : 1 / a" : "1 / a", sum));
}

LOWER(attention)
{
    static const int back[] = {0, 2, 1, 3};
    Heads h;
    if (!read_heads(c, &h)) return;
    NstDtype own = dtype(c, in(c, 0));
    V stage[4] = {scores(c, &h)}, ok;
    stage[1] = attr_f(c, "softcap") > 0 ? map(c, "@softcap * tanh(a / @softcap)", stage[0]) : stage[0];
    ok = allowed_keys(c, &h, stage[1]);
    stage[2] = has(c, 3) ? map(c, "a + b", stage[1], mask_bias(c, in(c, 3), stage[1])) : stage[1];
    if (ok.i) stage[2] = map(c, "b ? a : c", stage[2], ok, number(c, dtype(c, stage[2]), -INFINITY));
    stage[3] = masked_softmax(c, stage[2], ok.i || has(c, 3));
    V v = convert(c, widen(c, h.v), dtype(c, stage[3])), y;
    if (h.grouped)
        y = merge_axes(c, contract(c, "bkgst,bktf->bkgsf", split_axis(c, stage[3], 1, h.groups), v), 1);
    else
        y = contract(c, "bhst,bhtf->bhsf", stage[3], v);
    if (h.flat) y = merge_axes(c, permute(c, y, back), 2);
    int64_t mode = attr_i(c, "qk_matmul_output_mode");
    if (mode < 0 || mode > 3) fail(c, NST_E_MODEL, "qk_matmul_output_mode %lld, allowed: 0 to 3", (long long)mode);
    if (failed(c)) return;
    out(c, 0, convert(c, y, own));
    out(c, 1, h.k);
    out(c, 2, h.v);
    out(c, 3, convert(c, stage[mode], own));
}

/* What the graph in an attribute makes of x, which keeps its type; x itself if there is none. */
static V modified(NstLower *c, const char *attr, V x)
{
    V y = x;
    if (has_attr(c, attr)) graph(c, attr, 1, &x, 1, &y);
    if (!failed(c) && (rank(c, y) != rank(c, x) || dtype(c, y) != dtype(c, x)))
        fail(c, NST_E_MODEL, "%s gives %s of rank %d, allowed: %s of rank %d", attr, nst_dtype_info(dtype(c, y))->name,
             rank(c, y), nst_dtype_info(dtype(c, x))->name, rank(c, x));
    return y;
}

/* Attention with graphs in between: q[B, H, S, E], k[B, G, T, E], v[B, G, T, F], computed in softmax_precision. */
LOWER(flex_attention)
{
    V q = in(c, 0), k = in(c, 1), v = in(c, 2);
    int64_t q_heads, heads;
    NstDtype own = dtype(c, q), wide = attr_type(c, "softmax_precision", own == NST_F64 ? NST_F64 : NST_F32);
    if (!nst_dtype_is_float(wide))
        fail(c, NST_E_MODEL, "softmax_precision %lld is no float", (long long)attr_i(c, "softmax_precision"));
    if (rank(c, q) != 4 || rank(c, k) != 4 || rank(c, v) != 4)
        fail(c, NST_E_SHAPE, "Q, K and V have ranks %d, %d and %d, allowed: 4", rank(c, q), rank(c, k), rank(c, v));
    if (failed(c)) return;
    if (!known(c, dim(c, q, 1), &q_heads) || !known(c, dim(c, k, 1), &heads) || heads < 1 || q_heads % heads != 0) {
        fail(c, NST_E_UNSUPPORTED, "numbers of heads that are open, or no multiples: not supported");
        return;
    }
    V s = contract(c, "bkgse,bkte->bkgst", split_axis(c, widen(c, q), 1, heads), widen(c, k));
    V e = convert(c, size_value(c, dim(c, q, 3)), dtype(c, s));
    s = has_attr(c, "scale") ? map(c, "a * @scale", s) : map(c, "a * (1 / sqrt(b))", s, e);
    s = modified(c, "score_mod", convert(c, merge_axes(c, s, 1), wide));
    V p = modified(c, "prob_mod", convert(c, masked_softmax(c, widen(c, s), true), wide));
    V y = contract(c, "bkgst,bktf->bkgsf", split_axis(c, widen(c, p), 1, heads),
                   convert(c, widen(c, v), dtype(c, widen(c, p))));
    out(c, 0, convert(c, merge_axes(c, y, 1), own));
}

/* Rotates pairs of the first 2 * n entries of each head by angles of the position. */
LOWER(rotary_embedding)
{
    V x = in(c, 0), table[2] = {in(c, 1), in(c, 2)}, half[2], turned[3];
    bool flat = rank(c, x) == 3, pairs = attr_i(c, "interleaved") != 0;
    static const int back[] = {0, 2, 1, 3};
    if (rank(c, x) != 3 && rank(c, x) != 4) fail(c, NST_E_SHAPE, "X has rank %d, allowed: 3 or 4", rank(c, x));
    if (failed(c)) return;
    if (flat) x = apart(c, x, attr_i(c, "num_heads")); /* [B, H, S, E] */
    int64_t n = attr_i(c, "rotary_embedding_dim");
    D used = n > 0 ? num(c, n) : dim(c, x, 3), m = nst_dim_floordiv(c->b->graph->dims, used, num(c, 2));
    for (int k = 0; k < 2; k++) {
        V t = has(c, 3) ? gather(c, table[k], in(c, 3), 0, NST_INDEX_CHECKED) : table[k]; /* [B, S, m] */
        table[k] = widen(c, insert_axis(c, t, 1));
        half[k] = widen(c, pairs ? slice1(c, x, 3, num(c, k), 2, m) : slice1(c, x, 3, k ? m : num(c, 0), 1, m));
    }
    turned[0] = map(c, "a * c - b * d", half[0], half[1], table[0], table[1]);
    turned[1] = map(c, "a * d + b * c", half[0], half[1], table[0], table[1]);
    for (int k = 0; k < 2 && pairs; k++) turned[k] = insert_axis(c, turned[k], 4);
    V y = convert(c, concat(c, 2, turned, pairs ? 4 : 3), dtype(c, x));
    if (pairs) y = merge_axes(c, y, 3);
    V rest[2] = {y, slice1(c, x, 3, used, 1, sub(c, dim(c, x, 3), used))};
    if (!is_num(c, sub(c, dim(c, x, 3), used), 0)) y = concat(c, 2, rest, 3);
    out(c, 0, flat ? merge_axes(c, permute(c, y, back), 2) : y);
}
