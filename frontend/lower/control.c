/* control.c: if, loop and scan. */
#include "frontend/lower.h"

#define MAX_STATES 64

static V scalar(NstLower *c, V x)
{
    return x.i && rank(c, x) > 0 ? reshape(c, x, 0, NULL) : x;
}

/* The value of a condition, if it is known. */
static bool known_flag(NstLower *c, V x, int64_t *value)
{
    NstShapeValue is = x.i && !failed(c) ? nst_shape_value(c->sizes, x) : (NstShapeValue){-1, NULL};
    return is.n == 1 && known(c, is.dim[0], value);
}

LOWER(branch)
{
    int64_t chosen;
    V x[MAX_STATES], condition = scalar(c, in(c, 0));
    int n = c->n_outs;
    if (n > MAX_STATES) fail(c, NST_E_LIMIT, "%d outputs, allowed: at most %d", n, MAX_STATES);
    if (failed(c)) return;
    if (known_flag(c, condition, &chosen)) {
        graph(c, chosen ? "then_branch" : "else_branch", 0, NULL, n, c->outs);
        return;
    }
    Inner inner;
    NstRegionId region[2];
    int ranks[MAX_STATES];
    for (int k = 0; k < 2; k++) {
        enter(c, &inner);
        graph(c, k == 0 ? "then_branch" : "else_branch", 0, NULL, n, x);
        for (int j = 0; j < n; j++) {
            if (k == 1 && ranks[j] != rank(c, x[j]))
                fail(c, NST_E_UNSUPPORTED, "output %d has rank %d or %d: not supported", j, ranks[j], rank(c, x[j]));
            ranks[j] = rank(c, x[j]);
        }
        region[k] = leave(c, &inner, n, x);
    }
    if (!failed(c)) (void)nst_build_if(c->b, condition, region[0], region[1], c->outs, (uint32_t)n);
}

/* States keep their types: what changes its shape from step to step is not supported yet. */
static void check_states(NstLower *c, int n, const V *from, const V *to)
{
    for (int k = 0; k < n && !failed(c); k++) {
        const NstType *a = type(c, from[k]), *b = type(c, to[k]);
        bool same =
            a->kind == NST_TYPE_TENSOR && b->kind == NST_TYPE_TENSOR && a->dtype == b->dtype && a->rank == b->rank;
        if (!same) fail(c, NST_E_MODEL, "state %d changes its type or rank", k);
        for (int axis = 0; same && axis < a->rank; axis++)
            if (compare(c, a->shape[axis], NST_DIM_EQ, b->shape[axis]) != NST_TRUE)
                fail(c, NST_E_UNSUPPORTED, "state %d changes its extent at axis %d: not supported", k, axis);
    }
}

static const NstType index_type = {.kind = NST_TYPE_TENSOR, .dtype = NST_I64},
                     flag_type = {.kind = NST_TYPE_TENSOR, .dtype = NST_BOOL};

/* A trip count that is a known size as the builder knows it. */
static V trips_of(NstLower *c, V trips)
{
    NstShapeValue is = trips.i && !failed(c) ? nst_shape_value(c->sizes, trips) : (NstShapeValue){-1, NULL};
    return is.n == 1 ? size_value(c, is.dim[0]) : trips;
}

/* Body parameters: iteration, condition, states; results: condition, states, scans. */
LOWER(loop)
{
    int states = c->n_ins > 2 ? c->n_ins - 2 : 0, results = graph_outputs(c, "body"), scans = results - 1 - states;
    V from[MAX_STATES + 2], to[2 * MAX_STATES + 1], condition = scalar(c, in(c, 1)), made[2 * MAX_STATES];
    int64_t go;
    if (states > MAX_STATES || scans > MAX_STATES || scans < 0 || c->n_outs > states + scans)
        fail(c, NST_E_MODEL, "%d states, %d results of the body and %d outputs do not fit together", states, results,
             c->n_outs);
    if (failed(c)) return;
    Inner inner;
    enter(c, &inner);
    from[0] = param(c, "iteration", &index_type);
    from[1] = param(c, "condition", &flag_type);
    for (int k = 0; k < states; k++) from[k + 2] = param(c, "state", type(c, in(c, k + 2)));
    graph(c, "body", states + 2, from, results, to);
    if (!failed(c)) to[0] = scalar(c, to[0]);
    check_states(c, states, from + 2, to + 1);
    bool always = to[0].i == from[1].i || (known_flag(c, to[0], &go) && go);
    NstRegionId region = leave(c, &inner, results, to);
    if (always && known_flag(c, condition, &go) && go) condition = (V){0};
    V trips = trips_of(c, scalar(c, in(c, 0)));
    if (failed(c)) return;
    (void)nst_build_loop(c->b, trips, condition, (uint32_t)states, c->ins + 2, region, made,
                         (uint32_t)(states + scans));
    for (int k = 0; k < c->n_outs; k++) out(c, k, made[k]);
}

/* Entry k of a list of axes or directions, 0 if there is no list. */
static int64_t entry(NstLower *c, const char *name, int k)
{
    int n;
    const int64_t *list = attr_ints(c, name, &n);
    return k < n ? list[k] : 0;
}

/* Slice t of scan input k. */
static V scan_slice(NstLower *c, V x, int k, V t)
{
    V start[NST_MAX_RANK] = {{0}};
    D size[NST_MAX_RANK];
    int axis = norm_axis(c, entry(c, "scan_input_axes", k), rank(c, x), false);
    for (int j = 0; j < rank(c, x); j++) size[j] = j == axis ? num(c, 1) : dim(c, x, j);
    start[axis] =
        entry(c, "scan_input_directions", k) ? map(c, "b - a", t, size_value(c, minus1(c, dim(c, x, axis)))) : t;
    return drop_axis(c, nst_build_slice_at(c->b, x, start, size), axis);
}

/* A scan output: the new axis goes where it is wanted, backwards if asked for. */
static V scan_output(NstLower *c, V y, int k)
{
    int r = rank(c, y), order[NST_MAX_RANK], axis = norm_axis(c, entry(c, "scan_output_axes", k), r, false);
    if (entry(c, "scan_output_directions", k)) y = slice1(c, y, 0, minus1(c, dim(c, y, 0)), -1, dim(c, y, 0));
    for (int j = 0; j < r; j++) order[j] = j == axis ? 0 : j < axis ? j + 1 : j;
    return permute(c, y, order);
}

/* Body parameters: states, slices; results: states, scans. */
LOWER(scan)
{
    int64_t scanned = attr_i(c, "num_scan_inputs");
    int n = scanned < 1 || scanned > c->n_ins ? 0 : (int)scanned, states = c->n_ins - n,
        results = graph_outputs(c, "body");
    V from[2 * MAX_STATES], to[2 * MAX_STATES + 1], made[2 * MAX_STATES];
    if (n < 1 || states < 0 || c->n_ins > MAX_STATES || results < states || results > MAX_STATES || c->n_outs > results)
        fail(c, NST_E_MODEL, "%d inputs, %d of them scanned, and %d results of the body do not fit together", c->n_ins,
             n, results);
    if (failed(c)) return;
    V first = in(c, states);
    D steps = dim(c, first, norm_axis(c, entry(c, "scan_input_axes", 0), rank(c, first), false));
    Inner inner;
    enter(c, &inner);
    V t = param(c, "step", &index_type);
    to[0] = param(c, "go", &flag_type);
    for (int k = 0; k < states; k++) from[k] = param(c, "state", type(c, in(c, k)));
    for (int k = 0; k < n; k++) from[states + k] = scan_slice(c, in(c, states + k), k, t);
    graph(c, "body", states + n, from, results, to + 1);
    check_states(c, states, from, to + 1);
    NstRegionId region = leave(c, &inner, results + 1, to);
    if (failed(c)) return;
    (void)nst_build_loop(c->b, size_value(c, steps), (V){0}, (uint32_t)states, c->ins, region, made, (uint32_t)results);
    for (int k = 0; k < c->n_outs; k++) out(c, k, k < states ? made[k] : scan_output(c, made[k], k - states));
}
