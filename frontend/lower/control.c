/* control.c: if, loop and scan.
 *
 * A loop that carries sequences is imported step by step where the number of steps is known; else its steps may only add one
 * element each, which the loop then stacks like a scan. */
#include "frontend/import_impl.h"
#include "frontend/lower/sequence.h"

#define MAX_STATES   64
#define MAX_LEAVES   256  /* tensors in what branches give */
#define MAX_UNROLLED 1024 /* steps of a loop that is imported step by step */

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

/* The graph in an attribute in a region of its own.  x: its outputs; leaf: the tensors in them. */
static NstRegionId branch_region(NstLower *c, const char *attr, int n, V *x, V *leaf, int *n_leaves)
{
    Inner inner;
    enter(c, &inner);
    graph(c, attr, 0, NULL, n, x);
    *n_leaves = 0;
    for (int k = 0; k < n && !failed(c); k++) *n_leaves += count_leaves(c, x[k]);
    if (*n_leaves > MAX_LEAVES) fail(c, NST_E_LIMIT, "%d tensors in sequences, allowed: %d", *n_leaves, MAX_LEAVES);
    V *end = leaf;
    for (int k = 0; k < n && !failed(c); k++) end = put_leaves(c, x[k], end);
    return leave(c, &inner, failed(c) ? 0 : *n_leaves, leaf);
}

/* What two branches give for one output must be alike. */
static void check_alike(NstLower *c, int k, V condition, V a, V b)
{
    if (failed(c)) return;
    if (!same_structure(c, a, b)) {
        needs_value(c, condition);
        fail(c, NST_E_UNSUPPORTED,
             "output %d is a sequence or optional of another length in each branch: not supported", k);
    } else if (!is_parts(c, a) && rank(c, a) != rank(c, b)) {
        needs_value(c, condition);
        fail(c, NST_E_UNSUPPORTED, "output %d has rank %d or %d: not supported", k, rank(c, a), rank(c, b));
    }
}

/* What sizes make impossible in a branch or body that was imported, which is an error only if it runs: then the node goes on. */
static const char *refusal(NstLower *c)
{
    NstCtx *ctx = c->import->ctx;
    if (c->b->status != NST_E_SHAPE) return NULL;
    const char *why = nst_strdup(c->b->graph->arena, ctx->error);
    nst_ctx_clear(ctx);
    c->b->status = NST_OK;
    return why;
}

static bool has_known_extents(NstLower *c, V x)
{
    int64_t extent;
    for (int k = 0; k < rank(c, x); k++)
        if (!known(c, dim(c, x, k), &extent)) return false;
    return true;
}

/* A region in the place of a branch that sizes make impossible: an assertion that fails, and zeros of the types that the other
 * branch gives. */
static NstRegionId refused_region(NstLower *c, const char *why, int n, const V *like, V *leaf)
{
    Inner inner;
    for (int k = 0; k < n; k++)
        if (!has_known_extents(c, like[k])) fail(c, NST_E_SHAPE, "%s", why);
    enter(c, &inner);
    nst_build_assert(c->b, number(c, NST_BOOL, 0), why);
    for (int k = 0; k < n && !failed(c); k++) {
        const NstType *t = type(c, like[k]);
        leaf[k] = expand(c, number(c, t->dtype, 0), t->rank, t->shape);
    }
    return leave(c, &inner, failed(c) ? 0 : n, leaf);
}

LOWER(branch)
{
    int64_t chosen;
    V x[2][MAX_STATES], leaf[2][MAX_LEAVES], made[MAX_LEAVES] = {{0}}, condition = scalar(c, in(c, 0));
    int n = c->n_outs, n_leaves[2] = {0};
    if (n > MAX_STATES) fail(c, NST_E_LIMIT, "%d outputs, allowed: at most %d", n, MAX_STATES);
    if (failed(c)) return;
    if (known_flag(c, condition, &chosen)) {
        graph(c, chosen ? "then_branch" : "else_branch", 0, NULL, n, c->outs);
        return;
    }
    NstRegionId region[2];
    const char *why[2] = {NULL, NULL};
    for (int k = 0; k < 2; k++) {
        region[k] = branch_region(c, k == 0 ? "then_branch" : "else_branch", n, x[k], leaf[k], &n_leaves[k]);
        if (c->import->options->n_inputs > 0) why[k] = refusal(c);
    }
    int other = why[0] ? 1 : 0; /* the one that counts, if one is refused */
    if (why[0] && why[1]) fail(c, NST_E_SHAPE, "neither branch is possible: %s", why[0]);
    if ((why[0] || why[1]) && !failed(c))
        region[!other] = refused_region(c, why[!other], n_leaves[other], leaf[other], leaf[!other]);
    for (int j = 0; j < n && !why[0] && !why[1]; j++) check_alike(c, j, condition, x[0][j], x[1][j]);
    if (failed(c) || nst_build_if(c->b, condition, region[0], region[1], made, (uint32_t)n_leaves[other]) != NST_OK)
        return;
    const V *next = made;
    for (int k = 0; k < n; k++) out(c, k, with_leaves(c, x[other][k], &next));
}

/* Zeros as the body declares its output k, of size 0 where it leaves that open; rows: a leading axis of that extent, none: 0.
 * Where it declares no shape, what is wrong with the body is an error. */
static V declared_zeros(NstLower *c, int k, D rows, const char *why)
{
    D shape[NST_MAX_RANK + 1] = {rows};
    NstType t = {.dtype = NST_F32};
    int lead = rows.i != 0;
    if (!failed(c) && (!graph_output_type(c, "body", k, &t) || t.rank + lead > NST_MAX_RANK))
        return fail(c, NST_E_SHAPE, "%s", why);
    for (int axis = 0; axis < t.rank; axis++) shape[axis + lead] = t.shape[axis];
    return expand(c, number(c, t.dtype, 0), t.rank + lead, shape);
}

/* A region in the place of a body that sizes make impossible: an assertion that fails; states stay as they are, scans are what
 * the body's outputs from `first` on declare. */
static NstRegionId refused_body(NstLower *c, const char *why, int states, const V *start, int scans, int first)
{
    Inner inner;
    V to[2 * MAX_STATES + 1];
    enter(c, &inner);
    (void)loop_params(c, "step", &to[0]);
    for (int k = 0; k < states; k++) to[k + 1] = param(c, "state", type(c, start[k]));
    nst_build_assert(c->b, number(c, NST_BOOL, 0), why);
    for (int k = 0; k < scans; k++) to[states + 1 + k] = declared_zeros(c, first + k, (D){0}, why);
    return leave(c, &inner, failed(c) ? 0 : states + 1 + scans, to);
}

static bool has_steps(NstLower *c, D steps)
{
    return compare(c, steps, NST_DIM_GE, num(c, 1)) == NST_TRUE;
}

/* States of a scan keep their types and shapes; where that cannot be proven a reshape checks it. */
static void keep_states(NstLower *c, int n, const V *from, V *to)
{
    for (int k = 0; k < n && !failed(c); k++) {
        const NstType *a = type(c, from[k]), *b = type(c, to[k]);
        bool same =
            a->kind == NST_TYPE_TENSOR && b->kind == NST_TYPE_TENSOR && a->dtype == b->dtype && a->rank == b->rank;
        if (!same) fail(c, NST_E_MODEL, "state %d changes its type or rank", k);
        for (int axis = 0; !failed(c) && axis < a->rank; axis++) {
            NstTruth equal = compare(c, a->shape[axis], NST_DIM_EQ, b->shape[axis]);
            if (equal == NST_FALSE) fail(c, NST_E_MODEL, "state %d changes its extent at axis %d", k, axis);
            if (equal != NST_TRUE)
                nst_build_require_equal(c->b, a->shape[axis], b->shape[axis],
                                        nst_format(c->arena, "%s: state %d, axis %d", c->label, k, axis));
            same = same && equal == NST_TRUE;
        }
        if (!same && !failed(c)) to[k] = reshape(c, to[k], a->rank, a->shape);
    }
}

/* Axes of a loop's states whose extent differs from step to step. */
typedef struct OpenAxes {
    bool at[MAX_STATES][NST_MAX_RANK];
} OpenAxes;

/* Opens the axes along which a state comes out with another extent than it went in with; false if there are none. */
static bool open_axes(NstLower *c, int state, V from, V to, OpenAxes *open)
{
    bool more = false;
    const NstType *a = type(c, from), *b = type(c, to);
    if (failed(c)) return false;
    if (a->kind != NST_TYPE_TENSOR || b->kind != NST_TYPE_TENSOR || a->dtype != b->dtype || a->rank != b->rank) {
        fail(c, NST_E_MODEL, "state %d changes its type or rank", state);
        return false;
    }
    for (int axis = 0; axis < a->rank; axis++)
        if (!open->at[state][axis] && compare(c, a->shape[axis], NST_DIM_EQ, b->shape[axis]) != NST_TRUE)
            more = open->at[state][axis] = true;
    return more;
}

static const NstType index_type = {.kind = NST_TYPE_TENSOR, .dtype = NST_I64},
                     flag_type = {.kind = NST_TYPE_TENSOR, .dtype = NST_BOOL};

/* A trip count that is a known size as the builder knows it; none below 0 are the same as none. */
static V trips_of(NstLower *c, V trips)
{
    NstShapeValue is = trips.i && !failed(c) ? nst_shape_value(c->sizes, trips) : (NstShapeValue){-1, NULL};
    return is.n == 1 ? size_value(c, most(c, is.dim[0], num(c, 0))) : trips;
}

/* Whether the loop's states have sequences in them. */
static bool carries_parts(NstLower *c, int states)
{
    for (int k = 0; k < states; k++)
        if (is_parts(c, in(c, k + 2))) return true;
    return false;
}

/* x, as an optional if the state was one at first (a body may take an optional and give what is in it). */
static V as_optional_like(NstLower *c, V first, V x)
{
    bool wraps = is_parts(c, first) && parts_of(c, first).kind == NST_TYPE_OPTIONAL;
    if (!wraps || (is_parts(c, x) && parts_of(c, x).kind == NST_TYPE_OPTIONAL)) return x;
    return parts_value(c, NST_TYPE_OPTIONAL, parts_of(c, first).dtype, 1, &x, (char[]){PART_ONE, '\0'});
}

/* The iterations one after the other, where how many there are is known.  A condition must be known in each. */
static void unroll(NstLower *c, int states, int scans, int64_t trips)
{
    V from[MAX_STATES + 2], to[2 * MAX_STATES + 1], condition = scalar(c, in(c, 1));
    int64_t t = 0, go = 1, room = trips < MAX_UNROLLED ? trips : MAX_UNROLLED;
    V *scan = NST_NEW_ARRAY(c->arena, V, room * scans);
    for (int k = 0; k < states; k++) to[k + 1] = in(c, k + 2);
    for (; t < trips && !failed(c); t++) {
        if (condition.i && !known_flag(c, condition, &go)) {
            needs_value(c, condition);
            fail(c, NST_E_UNSUPPORTED,
                 "a loop that carries sequences with a condition computed at run time: not supported");
        }
        if (!go) break;
        if (t == MAX_UNROLLED)
            fail(c, NST_E_LIMIT, "a loop that carries sequences runs more than %d times", MAX_UNROLLED);
        if (failed(c)) return;
        from[0] = nst_build_const(c->b, NST_I64, 0, NULL, &t);
        from[1] = condition.i ? condition : number(c, NST_BOOL, 1);
        for (int k = 0; k < states; k++) from[k + 2] = as_optional_like(c, in(c, k + 2), to[k + 1]);
        graph(c, "body", states + 2, from, 1 + states + scans, to);
        if (failed(c)) return;
        if (has(c, 1)) condition = scalar(c, to[0]);
        for (int k = 0; k < scans; k++) scan[k * room + t] = insert_axis(c, to[states + 1 + k], 0);
    }
    for (int k = 0; k < states; k++) out(c, k, to[k + 1]);
    for (int k = 0; k < scans && states + k < c->n_outs; k++) {
        V none = t == 0 ? declared_zeros(c, 1 + states + k, num(c, 0), "a body that does not run declares no shape")
                        : (V){0};
        if (!failed(c)) out(c, states + k, t == 0 ? none : concat(c, (int)t, scan + k * room, 0));
    }
}

/* What the body is given for a state: a sequence shows nothing of what it has, as that changes from step to step. */
static V state_param(NstLower *c, int state, V from, OpenAxes *open)
{
    if (!is_parts(c, from)) {
        NstType own = *type(c, from);
        D shape[NST_MAX_RANK];
        for (int axis = 0; !failed(c) && axis < own.rank; axis++) {
            shape[axis] = open->at[state][axis] ? nst_build_counted_dim(c->b, "state") : own.shape[axis];
        }
        own.shape = shape;
        return param(c, "state", &own);
    }
    Parts p = parts_of(c, from);
    V before = number(c, NST_BOOL, 0);
    if (p.kind != NST_TYPE_SEQUENCE) fail(c, NST_E_UNSUPPORTED, "an optional carried by a loop is not supported");
    return parts_value(c, p.kind, p.dtype, 1, &before, (char[]){PART_BEFORE, '\0'});
}

/* The one element that a step adds at the end of a sequence, none if it adds nothing. */
static V added(NstLower *c, int k, V from, V to)
{
    Parts a = parts_of(c, from), b = parts_of(c, to);
    if (failed(c) || (b.n == 1 && b.at[0].i == a.at[0].i)) return (V){0};
    if (b.n != 2 || b.at[0].i != a.at[0].i || b.how[1] != PART_ONE)
        return fail(c, NST_E_UNSUPPORTED,
                    "state %d is a sequence to which a step does more than adding one element: not supported where the "
                    "number of steps is not known",
                    k);
    return b.at[1];
}

/* The sequence after the loop: what it had, and the elements of the steps. */
static V with_added(NstLower *c, V from, V steps)
{
    Parts p = parts_of(c, from);
    V *part = NST_NEW_ARRAY(c->arena, V, p.n + 1);
    for (int k = 0; k < p.n && !failed(c); k++) part[k] = p.at[k];
    part[p.n] = steps;
    return parts_value(c, p.kind, p.dtype, p.n + 1, part, nst_format(c->arena, "%s%c", p.n ? p.how : "", PART_STACK));
}

/* A loop while it is built: its tensor states come first, then scans, then what steps add to sequences. */
typedef struct LoopParts {
    int states, scans;
    V from[MAX_STATES + 2], to[2 * MAX_STATES + 1];
    V result[3 * MAX_STATES + 1];
    int n_results, tensors;
    V start[MAX_STATES];   /* of tensor states */
    bool adds[MAX_STATES]; /* whether a sequence grows */
} LoopParts;

static NstRegionId loop_region(NstLower *c, LoopParts *l, OpenAxes *open, bool *again, bool *always)
{
    Inner inner;
    int64_t go;
    l->n_results = l->tensors = 0;
    *again = false;
    enter(c, &inner);
    l->from[0] = param(c, "iteration", &index_type);
    l->from[1] = param(c, "condition", &flag_type);
    for (int k = 0; k < l->states; k++) l->from[k + 2] = state_param(c, k, in(c, k + 2), open);
    graph(c, "body", l->states + 2, l->from, 1 + l->states + l->scans, l->to);
    if (!failed(c)) l->result[l->n_results++] = scalar(c, l->to[0]);
    for (int k = 0; k < l->states && !failed(c); k++) {
        if (is_parts(c, l->from[k + 2])) continue;
        l->result[l->n_results++] = l->to[k + 1];
        l->start[l->tensors++] = in(c, k + 2);
        *again |= open_axes(c, k, l->from[k + 2], l->to[k + 1], open);
    }
    for (int k = 0; k < l->scans && !failed(c); k++) l->result[l->n_results++] = l->to[l->states + 1 + k];
    for (int k = 0; k < l->states && !failed(c); k++) {
        V more = is_parts(c, l->from[k + 2]) ? added(c, k, l->from[k + 2], l->to[k + 1]) : (V){0};
        l->adds[k] = more.i != 0;
        if (more.i) l->result[l->n_results++] = more;
    }
    *always = !failed(c) && (l->result[0].i == l->from[1].i || (known_flag(c, l->result[0], &go) && go));
    return leave(c, &inner, *again ? 0 : l->n_results, l->result);
}

/* What stands for a loop's body that sizes make impossible: nothing is added to sequences. */
static NstRegionId refused_loop(NstLower *c, LoopParts *l, const char *why)
{
    l->tensors = 0;
    for (int k = 0; k < l->states; k++) {
        l->adds[k] = false;
        if (!is_parts(c, in(c, k + 2))) l->start[l->tensors++] = in(c, k + 2);
    }
    l->n_results = 1 + l->tensors + l->scans;
    return refused_body(c, why, l->tensors, l->start, l->scans, 1 + l->states);
}

/* The loop's body.  It is imported again while that shows states that change their shape.  runs: whether there is a step. */
static NstRegionId loop_body(NstLower *c, LoopParts *l, bool runs, bool *always)
{
    OpenAxes *open = NST_NEW(c->arena, OpenAxes);
    for (;;) {
        bool again;
        NstRegionId region = loop_region(c, l, open, &again, always);
        const char *why = runs ? NULL : refusal(c);
        if (why) return refused_loop(c, l, why);
        if (!again || failed(c)) return region;
        nst_graph_drop_region(c->b->graph, region);
    }
}

/* Body parameters: iteration, condition, states; results: condition, states, scans. */
LOWER(loop)
{
    int states = c->n_ins > 2 ? c->n_ins - 2 : 0, results = graph_outputs(c, "body"), scans = results - 1 - states;
    V condition = scalar(c, in(c, 1)), made[3 * MAX_STATES] = {{0}};
    int64_t go = 1, count = 0;
    bool always, carries = carries_parts(c, states);
    if (states > MAX_STATES || scans > MAX_STATES || scans < 0 || c->n_outs > states + scans)
        fail(c, NST_E_MODEL, "%d states, %d results of the body and %d outputs do not fit together", states, results,
             c->n_outs);
    if (failed(c)) return;
    V trips = trips_of(c, scalar(c, in(c, 0)));
    NstShapeValue n_trips = trips.i && !failed(c) ? nst_shape_value(c->sizes, trips) : (NstShapeValue){-1, NULL};
    bool counted = n_trips.n == 1 && known(c, n_trips.dim[0], &count);
    bool decided = !condition.i || known_flag(c, condition, &go);
    if (carries && counted && decided) {
        unroll(c, states, scans, go ? count : 0);
        return;
    }
    LoopParts *l = NST_NEW(c->arena, LoopParts);
    l->states = states;
    l->scans = scans;
    bool runs = (trips.i == 0 || (n_trips.n == 1 && has_steps(c, n_trips.dim[0]))) && decided && go;
    NstRegionId region = loop_body(c, l, runs, &always);
    if (failed(c) && carries) needs_value(c, counted ? condition : trips);
    if (always && known_flag(c, condition, &go) && go) condition = (V){0};
    if (failed(c) || nst_build_loop(c->b, trips, condition, (uint32_t)l->tensors, l->start, region, made,
                                    (uint32_t)l->n_results - 1) != NST_OK)
        return;
    int tensor = 0, more = l->tensors + scans;
    for (int k = 0; k < states; k++) {
        V from = in(c, k + 2);
        bool parts = is_parts(c, from);
        out(c, k, !parts ? made[tensor++] : l->adds[k] ? with_added(c, from, made[more++]) : from);
    }
    for (int k = 0; k < scans; k++) out(c, states + k, made[l->tensors + k]);
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
    int axis = norm_axis(c, entry(c, "scan_input_axes", k), rank(c, x), false);
    if (entry(c, "scan_input_directions", k)) t = map(c, "b - a", t, size_value(c, minus1(c, dim(c, x, axis))));
    return drop_axis(c, step_slice(c, x, axis, t), axis);
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
    V t = loop_params(c, "step", &to[0]);
    for (int k = 0; k < states; k++) from[k] = param(c, "state", type(c, in(c, k)));
    for (int k = 0; k < n; k++) from[states + k] = scan_slice(c, in(c, states + k), k, t);
    graph(c, "body", states + n, from, results, to + 1);
    keep_states(c, states, from, to + 1);
    NstRegionId region = leave(c, &inner, results + 1, to);
    const char *why = has_steps(c, steps) ? NULL : refusal(c);
    if (why) region = refused_body(c, why, states, c->ins, results - states, states);
    if (failed(c)) return;
    (void)nst_build_loop(c->b, size_value(c, steps), (V){0}, (uint32_t)states, c->ins, region, made, (uint32_t)results);
    for (int k = 0; k < c->n_outs; k++) out(c, k, k < states ? made[k] : scan_output(c, made[k], k - states));
}

/* --- scan of version 8 ----------------------------------------------------------------------------------------- */

/* Entry b of x's first axis. */
static V entry_of(NstLower *c, V x, V b)
{
    return drop_axis(c, step_slice(c, x, 0, b), 0);
}

typedef struct OldScan {
    int states, n, results;
    const V *in; /* states, then what is scanned, with a batch axis each */
    V lengths;   /* or none */
    D steps, batch;
} OldScan;

/* Sample b: a loop over its steps.  made: final states and scans.  Past the sample's length states stay. */
static void scan_sample(NstLower *c, const OldScan *s, V b, V *made)
{
    Inner inner;
    V start[MAX_STATES], from[MAX_STATES], to[MAX_STATES + 1], scanned[MAX_STATES];
    for (int k = 0; k < s->states; k++) start[k] = entry_of(c, s->in[k], b);
    for (int k = 0; k < s->n; k++) scanned[k] = entry_of(c, s->in[s->states + k], b);
    V length = s->lengths.i ? entry_of(c, s->lengths, b) : (V){0};
    if (failed(c)) return;
    enter(c, &inner);
    V t = loop_params(c, "step", &to[0]), last = size_value(c, minus1(c, s->steps));
    for (int k = 0; k < s->states; k++) from[k] = param(c, "state", type(c, start[k]));
    for (int k = 0; k < s->n; k++)
        from[s->states + k] = entry_of(c, scanned[k], entry(c, "directions", k) ? map(c, "b - a", t, last) : t);
    graph(c, "body", s->states + s->n, from, s->results, to + 1);
    keep_states(c, s->states, from, to + 1);
    for (int k = 0; k < s->states && length.i; k++) to[k + 1] = map(c, "a < b ? c : d", t, length, to[k + 1], from[k]);
    NstRegionId region = leave(c, &inner, s->results + 1, to);
    const char *why = has_steps(c, s->steps) && has_steps(c, s->batch) ? NULL : refusal(c);
    if (why) region = refused_body(c, why, s->states, start, s->results - s->states, s->states);
    if (failed(c)) return;
    (void)nst_build_loop(c->b, size_value(c, s->steps), (V){0}, (uint32_t)s->states, start, region, made,
                         (uint32_t)s->results);
}

/* Inputs: lengths, states [B, ...], scanned [B, T, ...]: each sample by itself. */
LOWER(scan_8)
{
    int64_t scanned = attr_i(c, "num_scan_inputs");
    OldScan s = {.n = (int)scanned,
                 .states = c->n_ins - 1 - (int)scanned,
                 .results = graph_outputs(c, "body"),
                 .in = c->ins + 1};
    V made[MAX_STATES] = {{0}}, to[MAX_STATES + 1];
    if (scanned < 1 || scanned > c->n_ins - 1 || c->n_ins > MAX_STATES || s.results < s.states ||
        s.results > MAX_STATES || c->n_outs > s.results)
        fail(c, NST_E_MODEL, "%d inputs, %lld of them scanned, and %d results of the body do not fit together",
             c->n_ins - 1, (long long)scanned, s.results);
    if (failed(c)) return;
    if (rank(c, s.in[s.states]) < 2)
        fail(c, NST_E_SHAPE, "scan inputs have rank %d, allowed: at least 2", rank(c, s.in[s.states]));
    s.lengths = in(c, 0);
    s.steps = dim(c, s.in[s.states], 1);
    s.batch = dim(c, s.in[s.states], 0);
    Inner inner;
    enter(c, &inner);
    V b = loop_params(c, "sample", &to[0]);
    scan_sample(c, &s, b, to + 1);
    NstRegionId region = leave(c, &inner, s.results + 1, to);
    if (failed(c)) return;
    (void)nst_build_loop(c->b, size_value(c, s.batch), (V){0}, 0, NULL, region, made, (uint32_t)s.results);
    for (int k = 0; k < c->n_outs; k++) out(c, k, made[k]);
}
