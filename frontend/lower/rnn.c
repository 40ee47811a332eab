/* rnn.c: recurrent layers.  The input projections of all steps are one contraction before the loop; the loop over time has
 * invariant shapes, and one contraction a step. */
#include "frontend/lower.h"

#include <ctype.h>

typedef struct Activation {
    const char *name, *formula; /* of a, and its parameters b and c */
    bool has_parameters;
    double p, q;
} Activation;

static const Activation activations[] = {{"Sigmoid", "sigmoid(a)", false, 0, 0},
                                         {"Tanh", "tanh(a)", false, 0, 0},
                                         {"Relu", "max(a, 0)", false, 0, 0},
                                         {"HardSigmoid", "max(0, min(1, b*a + c))", true, 0.2, 0.5},
                                         {"Affine", "b*a + c", true, 1, 0},
                                         {"LeakyRelu", "a < 0 ? b*a : a", true, 0.01, 0},
                                         {"ThresholdedRelu", "a > b ? a : 0", true, 1, 0},
                                         {"ScaledTanh", "b*tanh(c*a)", true, 1, 1},
                                         {"Elu", "a < 0 ? b*expm1(a) : a", true, 1, 0},
                                         {"Softsign", "a / (1 + abs(a))", false, 0, 0},
                                         {"Softplus", "max(a, 0) + log1p(exp(-abs(a)))", false, 0, 0}};

/* Names of activations are compared without regard to case. */
static bool same_letters(const char *a, const char *b)
{
    while (*a && tolower((unsigned char)*a) == tolower((unsigned char)*b)) a++, b++;
    return *a == *b;
}

/* The layer in one direction.  step makes new states of the old ones and of the step's input projections. */
typedef struct Cell Cell;
struct Cell {
    NstLower *c;
    int direction; /* 0 or 1 */
    bool backwards;
    int gates, states;
    void (*step)(const Cell *s, V projected, V state[2]);
    Activation f[3];
    V w, r, w_bias, r_bias, peephole;   /* of this direction: [gates * H, I], [gates * H, H], [gates * H], [3H] */
    bool quantised;                     /* w and r are integers, turned: [I, gates * H], [H, gates * H] */
    V w_scale, w_zero, r_scale, r_zero; /* then, each of one entry or of [gates * H] */
    V lengths;                          /* [N, 1] or none */
    D steps, batch, hidden;
};

static V activate(NstLower *c, const Activation *f, V x)
{
    NstDtype t = dtype(c, x);
    return f->has_parameters ? map(c, f->formula, x, number(c, t, f->p), number(c, t, f->q)) : map(c, f->formula, x);
}

/* Names and parameters of the functions of a direction. */
static void read_activations(Cell *s, int n_each, const char *const *defaults)
{
    NstLower *c = s->c;
    const NstAttr *names = nst_attrs_find(&c->attrs, "activations"), *p = nst_attrs_find(&c->attrs, "activation_alpha"),
                  *q = nst_attrs_find(&c->attrs, "activation_beta");
    for (int k = 0; k < n_each; k++) {
        size_t at = (size_t)(s->direction * n_each + k), j = 0;
        if (names && at >= names->n) {
            fail(c, NST_E_MODEL, "activations has %zu entries, allowed: %d a direction", names->n, n_each);
            return;
        }
        const char *name = names ? names->strings[at] : defaults[k];
        while (j < sizeof activations / sizeof *activations && !same_letters(activations[j].name, name)) j++;
        if (j == sizeof activations / sizeof *activations) {
            fail(c, NST_E_MODEL, "activation '%s' is none", name);
            return;
        }
        s->f[k] = activations[j];
        if (p && at < p->n) s->f[k].p = (double)p->floats[at];
        if (q && at < q->n) s->f[k].q = (double)q->floats[at];
    }
}

/* x[direction] of a tensor with a leading axis of directions. */
static V of_direction(NstLower *c, V x, int direction)
{
    return x.i == 0 ? x : drop_axis(c, slice1(c, x, 0, num(c, direction), 1, num(c, 1)), 0);
}

/* Part k of n equal parts of an axis. */
static V part(const Cell *s, V x, int axis, int k)
{
    return slice1(s->c, x, axis, mul(s->c, s->hidden, num(s->c, k)), 1, s->hidden);
}

/* The first n parts. */
static V first_parts(const Cell *s, V x, int axis, int n)
{
    return slice1(s->c, x, axis, num(s->c, 0), 1, mul(s->c, s->hidden, num(s->c, n)));
}

static V clipped(NstLower *c, V x)
{
    return has_attr(c, "clip") ? map(c, "max(min(a, @clip), -@clip)", x) : x;
}

/* gate = f(x + p * state), p the k-th peephole or none. */
static V gate(const Cell *s, int f, V x, int k, V state)
{
    if (s->peephole.i) x = map(s->c, "a + b * c", x, part(s, s->peephole, 0, k), state);
    return activate(s->c, &s->f[f], clipped(s->c, x));
}

/* x[rows.., i] times an integer matrix m[i, g]: x is quantised as a whole, the sum is exact. */
static V integer_product(NstLower *c, const char *rows, V x, V m, V scale, V zero)
{
    Quantized q = quantize_dynamically(c, x);
    V sum = contract_less(c, nst_format(c->arena, "%si", rows), "ig", nst_format(c->arena, "%sg", rows), q.x, q.zero,
                          "", m, zero, rank(c, zero) ? "g" : "");
    if (rank(c, scale) == 1) scale = along(c, scale, rank(c, sum) - 1, rank(c, sum));
    return map(c, "a * (b * c)", convert(c, sum, NST_F32), q.scale, scale);
}

/* x + h R^T, plus the biases that belong to it. */
static V recur(const Cell *s, V x, V h, V r)
{
    V product =
        s->quantised ? integer_product(s->c, "n", h, r, s->r_scale, s->r_zero) : contract(s->c, "nh,gh->ng", h, r);
    return map(s->c, "a + b", x, product);
}

/* Gates i, o, f, c. */
static void lstm_step(const Cell *s, V projected, V state[2])
{
    NstLower *c = s->c;
    V sums = recur(s, projected, state[0], s->r), cell = state[1];
    V i = gate(s, 0, part(s, sums, 1, 0), 0, cell);
    V f = attr_i(c, "input_forget") ? map(c, "1 - a", i) : gate(s, 0, part(s, sums, 1, 2), 2, cell);
    V g = activate(c, &s->f[1], clipped(c, part(s, sums, 1, 3)));
    state[1] = map(c, "a * b + c * d", f, cell, i, g);
    V o = gate(s, 0, part(s, sums, 1, 1), 1, state[1]);
    state[0] = map(c, "a * b", o, activate(c, &s->f[2], state[1]));
}

/* Gates z, r, h.  linear_before_reset: the reset gate acts on the product, else on the state. */
static void gru_step(const Cell *s, V projected, V state[2])
{
    NstLower *c = s->c;
    V h = state[0], candidate, x = part(s, projected, 1, 2), both = first_parts(s, projected, 1, 2);
    V sums = recur(s, both, h, first_parts(s, s->r, 0, 2));
    V z = activate(c, &s->f[0], clipped(c, part(s, sums, 1, 0))),
      r = activate(c, &s->f[0], clipped(c, part(s, sums, 1, 1)));
    V own = part(s, s->r, 0, 2), bias = s->r_bias.i ? part(s, s->r_bias, 0, 2) : number(c, dtype(c, h), 0);
    if (attr_i(c, "linear_before_reset"))
        candidate = map(c, "a + b * (c + d)", x, r, contract(c, "nh,gh->ng", h, own), bias);
    else
        candidate = map(c, "a + b + c", x, contract(c, "nh,gh->ng", map(c, "a * b", r, h), own), bias);
    candidate = activate(c, &s->f[1], clipped(c, candidate));
    state[0] = map(c, "(1 - a) * b + a * c", z, candidate, h);
}

static void rnn_step(const Cell *s, V projected, V state[2])
{
    state[0] = activate(s->c, &s->f[0], clipped(s->c, recur(s, projected, state[0], s->r)));
}

static V step_index(const Cell *s, V t)
{
    return s->backwards ? map(s->c, "b - a", t, size_value(s->c, minus1(s->c, s->steps))) : t;
}

/* The body of the time loop; scan: the first state.  Past a row's length states stay and the scan is 0. */
static NstRegionId time_step(const Cell *s, V projected, const NstType *state)
{
    NstLower *c = s->c;
    Inner inner;
    V old[2], now[2] = {{0}}, results[4];
    enter(c, &inner);
    V t = loop_params(c, "t", &results[0]);
    for (int k = 0; k < s->states; k++) now[k] = old[k] = param(c, k == 0 ? "h" : "c", state);
    s->step(s, drop_axis(c, step_slice(c, projected, 0, step_index(s, t)), 0), now);
    V scan = now[0];
    if (s->lengths.i) {
        V live = map(c, "a < b", step_index(s, t), s->lengths);
        scan = map(c, "a ? b : 0", live, scan);
        for (int k = 0; k < s->states; k++) now[k] = map(c, "a ? b : c", live, now[k], old[k]);
    }
    for (int k = 0; k < s->states; k++) results[k + 1] = now[k];
    results[s->states + 1] = scan;
    return leave(c, &inner, s->states + 2, results);
}

/* Biases that can be added to the input projections of all steps at once. */
static V early_bias(const Cell *s)
{
    NstLower *c = s->c;
    if (s->gates != 3) return map(c, "a + b", s->w_bias, s->r_bias);
    V zero = expand(c, number(c, dtype(c, s->r_bias), 0), 1, &s->hidden); /* GRU: not the last gate's */
    V recurrent[2] = {first_parts(s, s->r_bias, 0, 2), zero};
    return map(c, "a + b", s->w_bias, concat(c, 2, recurrent, 0));
}

/* Runs one direction: out = y[T, N, H], then the last states [N, H]. */
static void run_direction(const Cell *s, V x, const V state[2], V out3[3])
{
    NstLower *c = s->c;
    V projected =
          s->quantised ? integer_product(c, "tn", x, s->w, s->w_scale, s->w_zero) : contract(c, "tni,gi->tng", x, s->w),
      result[3] = {{0}};
    if (s->w_bias.i) projected = map(c, "a + b", projected, early_bias(s));
    if (failed(c)) return;
    NstRegionId region = time_step(s, projected, type(c, state[0]));
    if (failed(c)) return;
    (void)nst_build_loop(c->b, size_value(c, s->steps), (V){0}, (uint32_t)s->states, state, region, result,
                         (uint32_t)s->states + 1);
    V y = result[s->states];
    out3[0] = s->backwards ? slice1(c, y, 0, minus1(c, s->steps), -1, s->steps) : y;
    for (int k = 0; k < s->states; k++) out3[k + 1] = result[k];
}

static void read_cell(Cell *s, V x, int direction)
{
    NstLower *c = s->c;
    s->direction = direction;
    s->backwards = direction == 1 || attr_is(c, "direction", "reverse");
    s->steps = dim(c, x, 0);
    s->batch = dim(c, x, 1);
    s->hidden = dim(c, in(c, 2), s->quantised ? 1 : 2);
    s->w = of_direction(c, in(c, 1), direction);
    s->r = of_direction(c, in(c, 2), direction);
    s->peephole = of_direction(c, in(c, 7), direction);
    if (s->quantised) {
        s->w_scale = of_direction(c, in(c, 8), direction);
        s->w_zero = of_direction(c, in(c, 9), direction);
        s->r_scale = of_direction(c, in(c, 10), direction);
        s->r_zero = of_direction(c, in(c, 11), direction);
    }
    if (has(c, 3)) {
        V b = of_direction(c, in(c, 3), direction);
        D half = mul(c, s->hidden, num(c, s->gates));
        s->w_bias = slice1(c, b, 0, num(c, 0), 1, half);
        s->r_bias = slice1(c, b, 0, half, 1, half);
    }
    if (has(c, 4)) s->lengths = insert_axis(c, convert(c, in(c, 4), NST_I64), 1);
}

static V swap_axes(NstLower *c, V x, int a, int b)
{
    int order[NST_MAX_RANK];
    for (int k = 0; k < rank(c, x); k++) order[k] = k == a ? b : k == b ? a : k;
    return permute(c, x, order);
}

static bool check_layer(NstLower *c, int n)
{
    static const char *const names[] = {"X", "W", "R"};
    for (int k = 0; k < 3; k++)
        if (rank(c, in(c, k)) != 3) fail(c, NST_E_SHAPE, "%s has rank %d, allowed: 3", names[k], rank(c, in(c, k)));
    require_size(c, dim(c, in(c, 2), 0), n, "the number of directions of R");
    return !failed(c);
}

/* Inputs X[T, N, I], or [N, T, I] with layout 1; states [directions, N, H], or [N, directions, H]. */
static void layer(NstLower *c, Cell *s, int n_functions, const char *const *functions)
{
    int n = attr_is(c, "direction", "bidirectional") ? 2 : 1;
    bool batch_first = attr_i(c, "layout") == 1;
    V x = in(c, 0), all[3][2];
    if (!check_layer(c, n)) return;
    if (batch_first) x = swap_axes(c, x, 0, 1);
    for (int d = 0; d < n && !failed(c); d++) {
        s->c = c;
        read_cell(s, x, d);
        read_activations(s, n_functions, functions);
        D shape[2] = {s->batch, s->hidden};
        V start[2], one[3] = {{0}};
        for (int k = 0; k < s->states; k++) {
            V given = has(c, 5 + k) && batch_first ? swap_axes(c, in(c, 5 + k), 0, 1) : in(c, 5 + k);
            start[k] = given.i ? of_direction(c, given, d) : expand(c, number(c, dtype(c, x), 0), 2, shape);
        }
        if (!failed(c)) run_direction(s, x, start, one);
        for (int k = 0; k <= s->states; k++) all[k][d] = insert_axis(c, one[k], k == 0 ? 1 : 0);
    }
    for (int k = 0; k <= s->states && !failed(c); k++) {
        V y = concat(c, n, all[k], k == 0 ? 1 : 0); /* [T, directions, N, H], [directions, N, H] */
        if (batch_first) y = k == 0 ? swap_axes(c, swap_axes(c, y, 0, 2), 1, 2) : swap_axes(c, y, 0, 1);
        out(c, k, y);
    }
}

static const char *const usual[] = {"Sigmoid", "Tanh", "Tanh"};

LOWER(lstm)
{
    Cell s = {.gates = 4, .states = 2, .step = lstm_step};
    layer(c, &s, 3, usual);
}

/* Source: ONNX Runtime's contrib operators: LSTM with integer weights, whose inputs and states are quantised as they come. */
LOWER(lstm_dynamic)
{
    Cell s = {.gates = 4, .states = 2, .step = lstm_step, .quantised = true};
    layer(c, &s, 3, usual);
}

LOWER(gru)
{
    Cell s = {.gates = 3, .states = 1, .step = gru_step};
    layer(c, &s, 2, usual);
}

LOWER(rnn)
{
    Cell s = {.gates = 1, .states = 1, .step = rnn_step};
    layer(c, &s, 1, usual + 1);
}
