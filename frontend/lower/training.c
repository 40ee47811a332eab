/* training.c: steps of optimisers.  Inputs: rate, count, then as many groups (variables, gradients, what is remembered) as
 * there are variables; outputs: new variables, then what is remembered. */
#include "frontend/lower.h"

/* Tensors an optimiser works on: group j of variable k is input 2 + j * n + k. */
static int variables(NstLower *c, int groups)
{
    int n = (c->n_ins - 2) / groups;
    if (c->n_ins < 2 + groups || (c->n_ins - 2) % groups != 0 || c->n_outs > (groups - 1) * n)
        fail(c, NST_E_MODEL, "%d inputs, %d outputs, allowed: 2 and %d a variable, %d a variable", c->n_ins, c->n_outs,
             groups, groups - 1);
    return failed(c) ? 0 : n;
}

static V regularized(NstLower *c, V x, V gradient)
{
    return map(c, "@norm_coefficient * a + b", x, gradient);
}

LOWER(adagrad)
{
    int n = variables(c, 3);
    V rate = map(c, "a / (1 + b * @decay_factor)", in(c, 0), convert(c, in(c, 1), dtype(c, in(c, 0))));
    for (int k = 0; k < n && !failed(c); k++) {
        V x = in(c, 2 + k), g = regularized(c, x, in(c, 2 + n + k)), h = map(c, "a + b * b", in(c, 2 + 2 * n + k), g);
        out(c, k, map(c, "a - b * c / (sqrt(d) + @epsilon)", x, convert(c, rate, dtype(c, x)), g, h));
        out(c, n + k, h);
    }
}

LOWER(adam)
{
    int n = variables(c, 4);
    NstDtype t = dtype(c, in(c, 0));
    V count = convert(c, in(c, 1), t), rate = in(c, 0);
    V adjusted = map(c, "b > 0 ? a * sqrt(1 - pow(d, b)) / (1 - pow(c, b)) : a", rate, count,
                     number(c, t, attr_f(c, "alpha")), number(c, t, attr_f(c, "beta")));
    for (int k = 0; k < n && !failed(c); k++) {
        V x = in(c, 2 + k), g = regularized(c, x, in(c, 2 + n + k));
        V v = map(c, "@alpha * a + (1 - @alpha) * b", in(c, 2 + 2 * n + k), g);
        V h = map(c, "@beta * a + (1 - @beta) * b * b", in(c, 2 + 3 * n + k), g);
        V y = map(c, "a - b * c / (sqrt(d) + @epsilon)", x, convert(c, adjusted, dtype(c, x)), v, h);
        out(c, k, map(c, "(1 - @norm_coefficient_post) * a", y));
        out(c, n + k, v);
        out(c, 2 * n + k, h);
    }
}

LOWER(momentum)
{
    int n = variables(c, 3);
    bool nesterov = attr_is(c, "mode", "nesterov");
    if (!nesterov && !attr_is(c, "mode", "standard"))
        fail(c, NST_E_MODEL, "mode '%s', allowed: standard, nesterov", attr_s(c, "mode"));
    for (int k = 0; k < n && !failed(c); k++) {
        V x = in(c, 2 + k), g = regularized(c, x, in(c, 2 + n + k)), rate = convert(c, in(c, 0), dtype(c, x));
        V v =
            map(c, "@alpha * a + (c > 0 ? @beta : 1) * b", in(c, 2 + 2 * n + k), g, convert(c, in(c, 1), dtype(c, x)));
        out(c, k, nesterov ? map(c, "a - b * (c + @alpha * d)", x, rate, g, v) : map(c, "a - b * d", x, rate, g, v));
        out(c, n + k, v);
    }
}
