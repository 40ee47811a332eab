/* trees.c: tree ensembles.  All nodes of all trees are rows of constant tables; a loop of as many steps as the deepest tree
 * has moves each row of the input, in all trees at once, from node to node (leaves stay), then the weights of the nodes it came
 * to are summed.  Cost: rows * trees * depth steps. */
#include "frontend/lower/ml.h"

#include <math.h>
#include <stdlib.h>

enum { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF };
static const char *const mode_names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                         "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};

typedef struct Forest {
    int64_t n, trees, targets;          /* nodes, trees, weights of a node */
    int64_t *feature, *yes, *no, *root; /* leaves: yes = no = the leaf itself */
    int64_t *mode, *nan_yes;
    double *value;
    double *weight; /* [n, targets] */
    double absent;  /* weight of what has none */
    int64_t depth;
    V members; /* [n, most members], NaN where a node has fewer; or none */
} Forest;

/* --- attributes ------------------------------------------------------------------------------------------------ */

static const int64_t *ints_of(NstLower *c, const char *name, int64_t n)
{
    const NstAttr *a = nst_attrs_find(&c->attrs, name);
    if ((a ? (int64_t)a->n : 0) == n) return a ? a->ints : NULL;
    fail(c, NST_E_MODEL, "%s has %lld entries, allowed: %lld", name, a ? (long long)a->n : 0, (long long)n);
    return NULL;
}

static int64_t count_of(NstLower *c, const char *name)
{
    const NstAttr *a = nst_attrs_find(&c->attrs, name);
    return a ? (int64_t)a->n : 0;
}

/* Numbers of a list, or of the tensor that may stand for it; *n = 0 and NULL if there is neither. */
static const double *doubles_of(NstLower *c, const char *list, const char *tensor, int64_t *n)
{
    const NstAttr *a = nst_attrs_find(&c->attrs, list), *t = nst_attrs_find(&c->attrs, tensor);
    NstWeight w = {.dtype = NST_F32, .data = a ? a->floats : NULL, .count = a ? (int64_t)a->n : 0};
    if (t && !failed(c)) {
        NstStatus status =
            nst_weight_read(c->b->ctx, c->model, t->proto->t, nst_format(c->arena, "%s: %s", c->label, tensor), &w);
        if (status != NST_OK) c->b->status = status;
    }
    *n = failed(c) ? 0 : w.count;
    double *value = NST_NEW_ARRAY(c->arena, double, *n);
    for (int64_t k = 0; k < *n; k++) {
        NstScalar v = nst_scalar_load(w.dtype, (const char *)w.data + k * nst_dtype_info(w.dtype)->bytes);
        value[k] = nst_scalar_convert(NST_F64, w.dtype, v, false).f;
    }
    return *n ? value : NULL;
}

static const double *need_doubles(NstLower *c, const char *list, const char *tensor, int64_t n)
{
    int64_t own;
    const double *value = doubles_of(c, list, tensor, &own);
    if (own != n) fail(c, NST_E_MODEL, "%s has %lld entries, allowed: %lld", list, (long long)own, (long long)n);
    return value;
}

static void new_forest(NstLower *c, Forest *f)
{
    if (f->targets < 1 || f->targets > INT32_MAX || f->n * f->targets > (64 << 20))
        fail(c, NST_E_LIMIT, "%lld nodes of %lld targets, allowed: 1 to 64 million in all", (long long)f->n,
             (long long)f->targets);
    if (failed(c)) return;
    int64_t **table[] = {&f->feature, &f->yes, &f->no, &f->root, &f->mode, &f->nan_yes};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) *table[k] = NST_NEW_ARRAY(c->arena, int64_t, f->n);
    f->value = NST_NEW_ARRAY(c->arena, double, f->n);
    f->weight = NST_NEW_ARRAY(c->arena, double, f->n * f->targets);
    for (int64_t k = 0; k < f->n * f->targets; k++) f->weight[k] = f->absent;
}

static void add_weight(NstLower *c, Forest *f, int64_t node, int64_t target, double weight)
{
    if (target < 0 || target >= f->targets) {
        fail(c, NST_E_MODEL, "a weight of target %lld, allowed: 0 to %lld", (long long)target,
             (long long)f->targets - 1);
        return;
    }
    double *w = &f->weight[node * f->targets + target];
    *w = isinf(*w) ? weight : *w + weight;
}

/* The longest way from a root, in steps; fails where one comes by a node twice or leaves the table. */
static void measure_depth(NstLower *c, Forest *f)
{
    int64_t *level = NST_NEW_ARRAY(c->arena, int64_t, f->n), *queue = NST_NEW_ARRAY(c->arena, int64_t, f->n), n = 0;
    for (int64_t k = 0; k < f->trees && !failed(c); k++) {
        if (f->root[k] < 0 || f->root[k] >= f->n || level[f->root[k]])
            fail(c, NST_E_MODEL, "root %lld is none", (long long)f->root[k]);
        if (failed(c)) return;
        level[f->root[k]] = 1;
        queue[n++] = f->root[k];
    }
    for (int64_t at = 0; at < n; at++) {
        int64_t k = queue[at], to[2] = {f->yes[k], f->no[k]};
        if (level[k] - 1 > f->depth) f->depth = level[k] - 1;
        for (int j = 0; j < 2 && f->mode[k] != LEAF; j++) {
            if (to[j] < 0 || to[j] >= f->n || level[to[j]]) {
                if (to[0] == to[1] && j == 1) continue;
                fail(c, NST_E_MODEL, "node %lld leads to %lld, which is none or has another way to it", (long long)k,
                     (long long)to[j]);
                return;
            }
            level[to[j]] = level[k] + 1;
            queue[n++] = to[j];
        }
    }
}

/* --- the walk -------------------------------------------------------------------------------------------------- */

static V table(NstLower *c, int64_t n, const int64_t *value)
{
    return nst_build_const(c->b, NST_I64, 1, &n, value);
}

static V lookup(NstLower *c, V list, V at)
{
    return gather(c, list, at, 0, NST_INDEX_CLAMPED);
}

/* Whether element x goes to the first child: of one mode where all nodes have the same, else chosen by the node's. */
static V goes_yes(NstLower *c, const Forest *f, V x, V v, V at)
{
    static const char *const tests[] = {"a <= b", "a < b", "a >= b", "a > b", "a == b", "a != b"};
    int64_t seen = 0, one = LEQ;
    bool nan = false;
    for (int64_t k = 0; k < f->n; k++) {
        nan = nan || (f->mode[k] != LEAF && f->nan_yes[k]);
        if (f->mode[k] != LEAF) one = f->mode[k], seen |= (int64_t)1 << f->mode[k];
    }
    V yes;
    if ((seen & (seen - 1)) == 0 && one < MEMBER) {
        yes = map(c, tests[one], x, v);
    } else {
        yes = map(
            c, "c == 0 ? a <= b : (c == 1 ? a < b : (c == 2 ? a >= b : (c == 3 ? a > b : (c == 4 ? a == b : a != b))))",
            x, v, lookup(c, table(c, f->n, f->mode), at));
        if (seen >> MEMBER & 1) {
            V own = lookup(c, f->members, at); /* [N, T, members] */
            V is = reduce(c, "a | b", map(c, "a == b", insert_axis(c, x, 2), own), axes_from(2, 3), DROP);
            yes = map(c, "c == 6 ? b : a", yes, is, lookup(c, table(c, f->n, f->mode), at));
        }
    }
    return nan ? map(c, "a | (isnan(b) & c != 0)", yes, x, lookup(c, table(c, f->n, f->nan_yes), at)) : yes;
}

static NstRegionId walk_step(NstLower *c, const Forest *f, V x, const NstType *state)
{
    Inner inner;
    V to[2], value = nst_build_const(c->b, NST_F64, 1, &f->n, f->value);
    V feature = table(c, f->n, f->feature), yes = table(c, f->n, f->yes), no = table(c, f->n, f->no);
    value = convert(c, value, dtype(c, x));
    enter(c, &inner);
    (void)loop_params(c, "step", &to[0]);
    V at = param(c, "node", state);
    V own = nst_build_gather(c->b, x, lookup(c, feature, at), 1, 1, NST_INDEX_CHECKED); /* [N, T] */
    to[1] = map(c, "a ? b : c", goes_yes(c, f, own, lookup(c, value, at), at), lookup(c, yes, at), lookup(c, no, at));
    return leave(c, &inner, 2, to);
}

/* How the trees' weights become one: a combiner; average: divided by the number of trees. */
typedef struct Aggregate {
    const char *combine;
    bool average;
    double absent;
} Aggregate;

static const Aggregate aggregates[] = {
    {"a + b", true, 0}, {"a + b", false, 0}, {"min(a, b)", false, INFINITY}, {"max(a, b)", false, -INFINITY}};
static const char *const aggregate_names[] = {"AVERAGE", "SUM", "MIN", "MAX"};

/* x[N, F] -> [N, targets] */
static V scores_of(NstLower *c, Forest *f, V x, const Aggregate *by)
{
    if (!failed(c) && rank(c, x) != 2) fail(c, NST_E_SHAPE, "X has rank %d, allowed: 2", rank(c, x));
    if (f->trees < 1) fail(c, NST_E_MODEL, "no trees");
    if (!failed(c)) measure_depth(c, f);
    if (failed(c)) return x;
    D shape[2] = {dim(c, x, 0), num(c, f->trees)};
    V at = expand(c, table(c, f->trees, f->root), 2, shape), made = at;
    NstRegionId region = walk_step(c, f, x, type(c, at));
    if (failed(c)) return x;
    if (f->depth > 0) (void)nst_build_loop(c->b, size_value(c, num(c, f->depth)), (V){0}, 1, &at, region, &made, 1);
    int64_t w_shape[2] = {f->n, f->targets};
    V w = convert(c, nst_build_const(c->b, NST_F64, 2, w_shape, f->weight), dtype(c, x));
    V y = reduce(c, by->combine, lookup(c, w, made), axes_from(1, 2), DROP); /* [N, T, targets] -> [N, targets] */
    if (by->average) y = map(c, "a / b", y, number(c, dtype(c, y), (double)f->trees));
    return isinf(by->absent) ? map(c, "isinf(a) ? 0 : a", y) : y;
}

/* --- the form of version 5 ------------------------------------------------------------------------------------- */

/* Sets of members, split by NaN, one for each node of that mode. */
static void read_members(NstLower *c, Forest *f, int64_t n_inner)
{
    int64_t n, most_members = 1, at = 0, run = 0;
    const double *value = doubles_of(c, "", "membership_values", &n);
    for (int64_t k = 0; k < n; k++) {
        run = isnan(value[k]) ? 0 : run + 1;
        most_members = run > most_members ? run : most_members;
    }
    if (f->n * most_members > (64 << 20))
        fail(c, NST_E_LIMIT, "%lld nodes of %lld members", (long long)f->n, (long long)most_members);
    if (failed(c)) return;
    int64_t shape[2] = {f->n, most_members};
    double *all = NST_NEW_ARRAY(c->arena, double, f->n *most_members);
    for (int64_t k = 0; k < f->n * most_members; k++) all[k] = NAN;
    for (int64_t k = 0; k < n_inner; k++) {
        if (f->mode[k] != MEMBER) continue;
        for (run = 0; at < n && !isnan(value[at]); at++) all[k * most_members + run++] = value[at];
        at++;
    }
    f->members = nst_build_const(c->b, NST_F64, 2, shape, all);
}

/* Leaves come behind the inner nodes.  A tree that is one leaf has a node both of whose ways lead to it. */
static void read_nodes(NstLower *c, Forest *f, int64_t inner, int64_t leaves)
{
    const int64_t *feature = ints_of(c, "nodes_featureids", inner), *yes = ints_of(c, "nodes_truenodeids", inner),
                  *no = ints_of(c, "nodes_falsenodeids", inner), *yes_leaf = ints_of(c, "nodes_trueleafs", inner),
                  *no_leaf = ints_of(c, "nodes_falseleafs", inner), *target = ints_of(c, "leaf_targetids", leaves);
    const double *mode = need_doubles(c, "", "nodes_modes", inner), *split = need_doubles(c, "", "nodes_splits", inner),
                 *weight = need_doubles(c, "", "leaf_weights", leaves);
    const NstAttr *nan = nst_attrs_find(&c->attrs, "nodes_missing_value_tracks_true");
    bool members = false;
    for (int64_t k = 0; k < f->n && !failed(c); k++) {
        if (k >= inner) {
            f->yes[k] = f->no[k] = k;
            f->mode[k] = LEAF;
            add_weight(c, f, k, target[k - inner], weight[k - inner]);
            continue;
        }
        f->feature[k] = feature[k];
        f->yes[k] = yes_leaf[k] ? inner + yes[k] : yes[k];
        f->no[k] = no_leaf[k] ? inner + no[k] : no[k];
        f->mode[k] = (int64_t)mode[k];
        f->value[k] = split[k];
        f->nan_yes[k] = nan && (int64_t)nan->n == inner && nan->ints[k];
        members = members || f->mode[k] == MEMBER;
        if (f->mode[k] < 0 || f->mode[k] > MEMBER)
            fail(c, NST_E_MODEL, "mode %lld, allowed: 0 to 6", (long long)f->mode[k]);
    }
    if (members) read_members(c, f, inner);
}

LOWER(tree_ensemble)
{
    static const char *const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    V x = widen(c, in(c, 0));
    int64_t by = attr_i(c, "aggregate_function"), transform = attr_i(c, "post_transform"),
            inner = count_of(c, "nodes_featureids"), leaves = count_of(c, "leaf_targetids");
    if (by < 0 || by > 3 || transform < 0 || transform > 4)
        fail(c, NST_E_MODEL, "aggregate_function %lld, post_transform %lld, allowed: 0 to 3, 0 to 4", (long long)by,
             (long long)transform);
    if (failed(c)) return;
    Forest f = {.n = inner + leaves,
                .trees = count_of(c, "tree_roots"),
                .targets = has_attr(c, "n_targets") ? attr_i(c, "n_targets") : 1};
    f.absent = aggregates[by].absent;
    new_forest(c, &f);
    if (!failed(c)) read_nodes(c, &f, inner, leaves);
    const int64_t *roots = ints_of(c, "tree_roots", f.trees);
    if (failed(c) || f.trees > f.n) return;
    if (f.trees) memcpy(f.root, roots, (size_t)f.trees * sizeof *roots);
    if (f.members.i) f.members = convert(c, f.members, dtype(c, x));
    out(c, 0,
        convert(c, post_transform(c, transforms[transform], scores_of(c, &f, x, &aggregates[by])), dtype(c, in(c, 0))));
}

/* --- the form before ------------------------------------------------------------------------------------------- */

typedef struct NodeId {
    int64_t tree, node, place;
} NodeId;

static int by_id(const void *a, const void *b)
{
    const NodeId *x = a, *y = b;
    if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
    return x->node == y->node ? 0 : x->node < y->node ? -1 : 1;
}

static int64_t find_node(NstLower *c, const NodeId *id, int64_t n, int64_t tree, int64_t node)
{
    NodeId key = {tree, node, 0};
    const NodeId *found = n ? bsearch(&key, id, (size_t)n, sizeof key, by_id) : NULL;
    if (!found) fail(c, NST_E_MODEL, "tree %lld has no node %lld", (long long)tree, (long long)node);
    return found ? found->place : 0;
}

static int64_t mode_of(NstLower *c, const char *name)
{
    for (int64_t k = 0; k <= LEAF; k++)
        if (k != MEMBER && strcmp(name, mode_names[k]) == 0) return k;
    fail(c, NST_E_MODEL, "nodes_modes has '%s', allowed: BRANCH_LEQ, .., LEAF", name);
    return LEAF;
}

/* A tree's root is its first node. */
static NodeId *read_old_nodes(NstLower *c, Forest *f)
{
    const int64_t *tree = ints_of(c, "nodes_treeids", f->n), *node = ints_of(c, "nodes_nodeids", f->n),
                  *feature = ints_of(c, "nodes_featureids", f->n), *yes = ints_of(c, "nodes_truenodeids", f->n),
                  *no = ints_of(c, "nodes_falsenodeids", f->n);
    const double *value = need_doubles(c, "nodes_values", "nodes_values_as_tensor", f->n);
    const NstAttr *modes = nst_attrs_find(&c->attrs, "nodes_modes"),
                  *nan = nst_attrs_find(&c->attrs, "nodes_missing_value_tracks_true");
    if (!modes || (int64_t)modes->n != f->n)
        fail(c, NST_E_MODEL, "nodes_modes does not have %lld entries", (long long)f->n);
    NodeId *id = NST_NEW_ARRAY(c->arena, NodeId, f->n);
    for (int64_t k = 0; k < f->n && !failed(c); k++) id[k] = (NodeId){tree[k], node[k], k};
    if (!failed(c) && f->n) qsort(id, (size_t)f->n, sizeof *id, by_id);
    for (int64_t k = 0; k < f->n && !failed(c); k++) {
        if (k > 0 && by_id(&id[k - 1], &id[k]) == 0)
            fail(c, NST_E_MODEL, "tree %lld has node %lld twice", (long long)id[k].tree, (long long)id[k].node);
        if (k == 0 || id[k].tree != id[k - 1].tree) f->root[f->trees++] = id[k].place;
        f->mode[k] = mode_of(c, modes->strings[k]);
        bool leaf = f->mode[k] == LEAF;
        f->value[k] = value[k];
        f->nan_yes[k] = nan && (int64_t)nan->n == f->n && nan->ints[k];
        f->feature[k] = leaf ? 0 : feature[k];
        f->yes[k] = leaf ? k : find_node(c, id, f->n, tree[k], yes[k]);
        f->no[k] = leaf ? k : find_node(c, id, f->n, tree[k], no[k]);
    }
    return id;
}

/* prefix: "target" or "class", of the attributes that say which weights nodes have. */
static bool read_old(NstLower *c, Forest *f, const char *prefix)
{
    f->n = count_of(c, "nodes_nodeids");
    new_forest(c, f);
    if (failed(c)) return false;
    const NodeId *id = read_old_nodes(c, f);
    const char *weights = nst_format(c->arena, "%s_weights", prefix);
    int64_t n = count_of(c, nst_format(c->arena, "%s_ids", prefix));
    const int64_t *target = ints_of(c, nst_format(c->arena, "%s_ids", prefix), n),
                  *tree = ints_of(c, nst_format(c->arena, "%s_treeids", prefix), n),
                  *node = ints_of(c, nst_format(c->arena, "%s_nodeids", prefix), n);
    const double *weight = need_doubles(c, weights, nst_format(c->arena, "%s_as_tensor", weights), n);
    for (int64_t k = 0; k < n && !failed(c); k++)
        add_weight(c, f, find_node(c, id, f->n, tree[k], node[k]), target[k], weight[k]);
    return !failed(c);
}

/* base_values added to scores. */
static V with_base(NstLower *c, V y, int64_t *n)
{
    const double *base = doubles_of(c, "base_values", "base_values_as_tensor", n);
    if (*n == 0) return y;
    return map(c, "a + b", y, convert(c, nst_build_const(c->b, NST_F64, 1, n, base), dtype(c, y)));
}

LOWER(tree_regressor)
{
    V x = as_score(c, in(c, 0));
    int64_t n;
    int by = 0;
    while (by < 4 && !attr_is(c, "aggregate_function", aggregate_names[by])) by++;
    if (by == 4)
        fail(c, NST_E_MODEL, "aggregate_function '%s', allowed: AVERAGE, SUM, MIN, MAX",
             attr_s(c, "aggregate_function"));
    if (failed(c)) return;
    Forest f = {.targets = has_attr(c, "n_targets") ? attr_i(c, "n_targets") : 1, .absent = aggregates[by].absent};
    if (!read_old(c, &f, "target")) return;
    V y = with_base(c, scores_of(c, &f, x, &aggregates[by]), &n);
    out(c, 0, convert(c, post_transform(c, attr_s(c, "post_transform"), y), NST_F32));
}

/* The label of the greatest score, and the scores.  Where only one of two classes has weights, its score decides: against 0.5 if
 * all weights are positive and nothing is to be transformed, else against 0. */
LOWER(tree_classifier)
{
    V x = as_score(c, in(c, 0)), labels = labels_attr(c, "classlabels_int64s", "classlabels_strings"), place;
    const NstAttr *ids = nst_attrs_find(&c->attrs, "class_ids");
    const char *transform = attr_s(c, "post_transform");
    int64_t classes = 0, n;
    bool one = true, positive = true;
    if (failed(c) || !known(c, dim(c, labels, 0), &classes)) return;
    Forest f = {.targets = classes};
    if (!read_old(c, &f, "class")) return;
    for (size_t k = 1; ids && k < ids->n; k++) one = one && ids->ints[k] == ids->ints[0];
    for (int64_t k = 0; k < f.n * f.targets; k++) positive = positive && f.weight[k] >= 0;
    V scores = scores_of(c, &f, x, &aggregates[1]);
    if (classes == 2 && one && ids && ids->n) {
        scores = slice1(c, scores, 1, num(c, ids->ints[0]), 1, num(c, 1));
        V base = with_base(c, scores, &n);
        scores = two_of_one(c, n == 2 ? slice1(c, base, 1, num(c, 1), 1, num(c, 1)) : base, transform,
                            positive && strcmp(transform, "NONE") == 0, &place);
    } else {
        scores = with_base(c, scores, &n);
        place = first_largest(c, scores);
        scores = post_transform(c, transform, scores);
    }
    out(c, 0, gather(c, labels, place, 0, NST_INDEX_CHECKED));
    out(c, 1, convert(c, scores, NST_F32));
}
