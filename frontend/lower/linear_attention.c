/* linear_attention.c: attention whose state is a matrix a head, one step after the other, and the short causal convolution that
 * goes before it. */
#include "frontend/lower.h"

typedef struct Steps {
    V q, k, v, decay, beta; /* [T, B, heads, ...] */
    bool delta;
    int64_t heads; /* of keys */
    V scale;
} Steps;

/* [B, T, heads * n] -> [T, B, heads, n] */
static V by_step(NstLower *c, V x, int64_t heads, NstDtype to)
{
    static const int order[] = {1, 0, 2, 3};
    return x.i ? permute(c, split_axis(c, convert(c, x, to), 2, heads), order) : x;
}

static V step_of(NstLower *c, V x, V t)
{
    return drop_axis(c, step_slice(c, x, 0, t), 0);
}

/* S <- exp(g) S + beta k (v - S k)^T, o = scale q S; without delta, beta v instead. */
static NstRegionId attention_step(NstLower *c, const Steps *s, const NstType *state)
{
    Inner inner;
    V results[3];
    enter(c, &inner);
    V t = loop_params(c, "t", &results[0]);
    V m = param(c, "state", state), k = step_of(c, s->k, t), v = step_of(c, s->v, t);
    if (s->decay.i) m = map(c, "a * exp(b)", m, insert_axis(c, step_of(c, s->decay, t), 3));
    if (s->delta) v = map(c, "(a - b) * c", v, contract(c, "bhk,bhkv->bhv", k, m), step_of(c, s->beta, t));
    m = map(c, "a + b * c", m, insert_axis(c, k, 3), insert_axis(c, v, 2));
    V q = split_axis(c, step_of(c, s->q, t), 1, s->heads); /* [B, heads, group, k] */
    results[1] = m;
    results[2] = map(c, "a * b", contract(c, "bhgk,bhkv->bhgv", q, m), s->scale);
    return leave(c, &inner, 3, results);
}

LOWER(linear_attention)
{
    static const int order[] = {1, 0, 2, 3, 4};
    int64_t q_heads = attr_i(c, "q_num_heads"), heads = attr_i(c, "kv_num_heads");
    bool gated = attr_is(c, "update_rule", "gated_delta") || attr_is(c, "update_rule", "gated"),
         delta = attr_is(c, "update_rule", "gated_delta") || attr_is(c, "update_rule", "delta");
    V x = widen(c, in(c, 0));
    NstDtype wide = dtype(c, x), own = dtype(c, in(c, 0)), kept = has(c, 3) ? dtype(c, in(c, 3)) : own;
    if (!gated && !delta && !attr_is(c, "update_rule", "linear"))
        fail(c, NST_E_MODEL, "update_rule '%s', allowed: linear, gated, delta, gated_delta", attr_s(c, "update_rule"));
    if (heads < 1 || q_heads < 1 || q_heads % heads != 0 || rank(c, x) != 3)
        fail(c, NST_E_MODEL, "%lld heads of queries, %lld of keys, rank %d, allowed: a multiple, 3", (long long)q_heads,
             (long long)heads, rank(c, x));
    if ((gated && !has(c, 4)) || (delta && !has(c, 5)))
        fail(c, NST_E_MODEL, "update_rule '%s' without %s", attr_s(c, "update_rule"),
             gated && !has(c, 4) ? "decay" : "beta");
    if (failed(c)) return;
    Steps s = {
        .q = by_step(c, x, q_heads, wide), .k = by_step(c, in(c, 1), heads, wide), .delta = delta, .heads = heads};
    s.v = by_step(c, in(c, 2), heads, wide);
    if (gated) s.decay = by_step(c, in(c, 4), heads, wide);
    if (delta) s.beta = by_step(c, in(c, 5), is_num(c, dim(c, in(c, 5), 2), 1) ? 1 : heads, wide);
    V e = convert(c, size_value(c, dim(c, s.q, 3)), wide);
    s.scale = attr_f(c, "scale") != 0 ? number(c, wide, attr_f(c, "scale")) : map(c, "1 / sqrt(a)", e);
    D shape[4] = {dim(c, x, 0), num(c, heads), dim(c, s.k, 3), dim(c, s.v, 3)};
    V state = has(c, 3) ? convert(c, in(c, 3), wide) : expand(c, number(c, wide, 0), 4, shape), result[2] = {{0}};
    if (failed(c)) return;
    NstRegionId region = attention_step(c, &s, type(c, state));
    if (failed(c)) return;
    (void)nst_build_loop(c->b, size_value(c, dim(c, x, 1)), (V){0}, 1, &state, region, result, 2);
    V y = permute(c, result[1], order); /* [B, T, heads, group, v] */
    out(c, 0, convert(c, merge_axes(c, merge_axes(c, y, 2), 2), own));
    out(c, 1, convert(c, result[0], kept));
}

/* Each channel with its own kernel over the entries before: input[B, C, L], weight[C, 1, k], state[B, C, k - 1]. */
LOWER(causal_conv)
{
    V x = widen(c, in(c, 0)), w = convert(c, in(c, 1), dtype(c, x)), both[2] = {{0}, x};
    bool silu = attr_is(c, "activation", "silu") || attr_is(c, "activation", "swish");
    if (!silu && !attr_is(c, "activation", "none"))
        fail(c, NST_E_MODEL, "activation '%s', allowed: silu, swish, none", attr_s(c, "activation"));
    if (rank(c, x) != 3 || rank(c, w) != 3)
        fail(c, NST_E_SHAPE, "input has rank %d, weight %d, allowed: 3", rank(c, x), rank(c, w));
    if (failed(c)) return;
    D past = minus1(c, dim(c, w, 2)), shape[3] = {dim(c, x, 0), dim(c, x, 1), past};
    both[0] = has(c, 3) ? convert(c, in(c, 3), dtype(c, x)) : expand(c, number(c, dtype(c, x), 0), 3, shape);
    V all = concat(c, 2, both, 2);
    NstWindowAxis window = {2, dim(c, w, 2), 1, 1, num(c, 0), num(c, 0)};
    V y = contract(c, "bclk,ck->bcl", nst_build_window(c->b, all, 1, &window, (V){0}), drop_axis(c, w, 1));
    if (has(c, 2)) y = map(c, "a + b", y, along(c, convert(c, in(c, 2), dtype(c, y)), 1, 3));
    out(c, 0, convert(c, silu ? map(c, "a * sigmoid(a)", y) : y, dtype(c, in(c, 0))));
    out(c, 1, convert(c, slice1(c, all, 2, dim(c, x, 2), 1, past), dtype(c, in(c, 0))));
}
