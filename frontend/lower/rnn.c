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

/* The layer in one direction. */
typedef struct Cell {
    NstLower *c;
    int direction; /* 0 or 1 */
    bool backwards;
    Activation f[3];
    V w, r, bias, peephole; /* of this direction: [4H, I], [4H, H], [4H], [3H] */
    V lengths;              /* [N, 1] or none */
    D steps, batch, hidden;
} Cell;

static V activate(NstLower *c, const Activation *f, V x)
{
    NstDtype t = dtype(c, x);
    return f->has_parameters ? map(c, f->formula, x, number(c, t, f->p), number(c, t, f->q)) : map(c, f->formula, x);
}

/* Names and parameters of the three functions of a direction. */
static void read_activations(Cell *s, int n_each)
{
    NstLower *c = s->c;
    static const char *const defaults[] = {"Sigmoid", "Tanh", "Tanh"};
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

/* One step: new h and c of the gates' sums [N, 4H] (order i, o, f, c). */
static void lstm_step(const Cell *s, V sums, V *h, V *cell)
{
    NstLower *c = s->c;
    V i = gate(s, 0, part(s, sums, 1, 0), 0, *cell);
    V f = attr_i(c, "input_forget") ? map(c, "1 - a", i) : gate(s, 0, part(s, sums, 1, 2), 2, *cell);
    V g = activate(c, &s->f[1], clipped(c, part(s, sums, 1, 3)));
    *cell = map(c, "a * b + c * d", f, *cell, i, g);
    V o = gate(s, 0, part(s, sums, 1, 1), 1, *cell);
    *h = map(c, "a * b", o, activate(c, &s->f[2], *cell));
}

static V step_index(const Cell *s, V t)
{
    return s->backwards ? map(s->c, "b - a", t, size_value(s->c, minus1(s->c, s->steps))) : t;
}

/* The body of the time loop: states h, c; scan h.  Past a row's length states stay and the scan is 0. */
static NstRegionId lstm_body(const Cell *s, V projected, const NstType *state)
{
    NstLower *c = s->c;
    Inner inner;
    NstType count = {.kind = NST_TYPE_TENSOR, .dtype = NST_I64}, flag = {.kind = NST_TYPE_TENSOR, .dtype = NST_BOOL};
    enter(c, &inner);
    V t = param(c, "t", &count), go = param(c, "go", &flag);
    V h = param(c, "h", state), cell = param(c, "c", state), old_h = h, old_c = cell;
    V start[3] = {step_index(s, t)};
    D size[3] = {num(c, 1), s->batch, mul(c, s->hidden, num(c, 4))};
    V x = drop_axis(c, nst_build_slice_at(c->b, projected, start, size), 0);
    lstm_step(s, map(c, "a + b", x, contract(c, "nh,gh->ng", h, s->r)), &h, &cell);
    V scan = h;
    if (s->lengths.i) {
        V live = map(c, "a < b", step_index(s, t), s->lengths);
        scan = map(c, "a ? b : 0", live, h);
        h = map(c, "a ? b : c", live, h, old_h);
        cell = map(c, "a ? b : c", live, cell, old_c);
    }
    V results[4] = {go, h, cell, scan};
    return leave(c, &inner, 4, results);
}

/* Runs one direction: y[T, N, H], last h and c [N, H]. */
static void lstm_direction(const Cell *s, V x, V h, V cell, V out3[3])
{
    NstLower *c = s->c;
    V projected = contract(c, "tni,gi->tng", x, s->w);
    if (s->bias.i) projected = map(c, "a + b", projected, s->bias);
    V state[2] = {h, cell}, result[3] = {{0}};
    if (failed(c)) return;
    NstRegionId body = lstm_body(s, projected, type(c, h));
    if (failed(c)) return;
    (void)nst_build_loop(c->b, size_value(c, s->steps), (V){0}, 2, state, body, result, 3);
    out3[0] = s->backwards ? slice1(c, result[2], 0, minus1(c, s->steps), -1, s->steps) : result[2];
    out3[1] = result[0];
    out3[2] = result[1];
}

static Cell lstm_cell(NstLower *c, V x, int direction)
{
    Cell s = {.c = c, .direction = direction, .backwards = direction == 1 || attr_is(c, "direction", "reverse")};
    s.steps = dim(c, x, 0);
    s.batch = dim(c, x, 1);
    s.hidden = dim(c, in(c, 2), 2);
    s.w = of_direction(c, in(c, 1), direction);
    s.r = of_direction(c, in(c, 2), direction);
    s.peephole = of_direction(c, in(c, 7), direction);
    if (has(c, 3)) {
        V b = of_direction(c, in(c, 3), direction);
        D half = mul(c, s.hidden, num(c, 4));
        s.bias = map(c, "a + b", slice1(c, b, 0, num(c, 0), 1, half), slice1(c, b, 0, half, 1, half));
    }
    if (has(c, 4)) s.lengths = insert_axis(c, convert(c, in(c, 4), NST_I64), 1);
    read_activations(&s, 3);
    return s;
}

/* Inputs X[T, N, I], or [N, T, I] with layout 1; states [directions, N, H], or [N, directions, H]. */
static V swap_axes(NstLower *c, V x, int a, int b)
{
    int order[NST_MAX_RANK];
    for (int k = 0; k < rank(c, x); k++) order[k] = k == a ? b : k == b ? a : k;
    return permute(c, x, order);
}

static bool check_lstm(NstLower *c, int n)
{
    for (int k = 0; k < 3; k++)
        if (rank(c, in(c, k)) != 3)
            fail(c, NST_E_SHAPE, "%s has rank %d, allowed: 3", k == 0 ? "X" : k == 1 ? "W" : "R", rank(c, in(c, k)));
    if (!failed(c) && !is_num(c, dim(c, in(c, 2), 0), n))
        fail(c, NST_E_SHAPE, "R has another number of directions than %d ('%s')", n, attr_s(c, "direction"));
    return !failed(c);
}

LOWER(lstm)
{
    int n = attr_is(c, "direction", "bidirectional") ? 2 : 1;
    bool batch_first = attr_i(c, "layout") == 1;
    V x = in(c, 0), all[3][2];
    if (!check_lstm(c, n)) return;
    if (batch_first) x = swap_axes(c, x, 0, 1);
    for (int d = 0; d < n && !failed(c); d++) {
        Cell s = lstm_cell(c, x, d);
        D shape[2] = {s.batch, s.hidden};
        V zero = expand(c, number(c, dtype(c, x), 0), 2, shape), start[2], one[3] = {{0}};
        for (int k = 0; k < 2; k++) {
            V given = has(c, 5 + k) && batch_first ? swap_axes(c, in(c, 5 + k), 0, 1) : in(c, 5 + k);
            start[k] = given.i ? of_direction(c, given, d) : zero;
        }
        lstm_direction(&s, x, start[0], start[1], one);
        for (int k = 0; k < 3; k++) all[k][d] = insert_axis(c, one[k], k == 0 ? 1 : 0);
    }
    for (int k = 0; k < 3 && !failed(c); k++) {
        V y = concat(c, n, all[k], k == 0 ? 1 : 0); /* [T, directions, N, H], [directions, N, H] */
        if (batch_first) y = k == 0 ? swap_axes(c, swap_axes(c, y, 0, 2), 1, 2) : swap_axes(c, y, 0, 1);
        out(c, k, y);
    }
}
