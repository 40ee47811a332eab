/* svm.c: support vectors: regression, and classes by votes of pairs. */
#include "frontend/lower/ml.h"

/* x[N, F] and vectors [S, F]: their kernel's values [N, S]. */
static V kernel_of(NstLower *c, V x, V vectors)
{
    const NstAttr *p = nst_attrs_find(&c->attrs, "kernel_params");
    NstDtype t = dtype(c, x);
    V param[3];
    for (size_t k = 0; k < 3; k++) param[k] = number(c, t, p && k < p->n ? (double)p->floats[k] : 0);
    V dot = contract(c, "nf,sf->ns", x, vectors);
    if (attr_is(c, "kernel_type", "LINEAR")) return dot;
    if (attr_is(c, "kernel_type", "POLY")) return map(c, "pow(b * a + c, d)", dot, param[0], param[1], param[2]);
    if (attr_is(c, "kernel_type", "SIGMOID")) return map(c, "tanh(b * a + c)", dot, param[0], param[1]);
    if (!attr_is(c, "kernel_type", "RBF"))
        return fail(c, NST_E_MODEL, "kernel_type '%s', allowed: LINEAR, POLY, RBF, SIGMOID", attr_s(c, "kernel_type"));
    V d = map(c, "a - b", insert_axis(c, x, 1), vectors);
    return map(c, "exp(-b * a)", reduce(c, "a + b", map(c, "a * a", d), axes_from(2, 3), DROP), param[0]);
}

/* The weighted sum of the kernel's values (without vectors: of the features), plus rho. */
LOWER(svm_regressor)
{
    V x = as_rows(c, as_score(c, in(c, 0))), w = numbers_attr(c, "coefficients", dtype(c, x)),
      rho = numbers_attr(c, "rho", dtype(c, x)), vectors = numbers_attr(c, "support_vectors", dtype(c, x)), k = x;
    int64_t n = attr_i(c, "n_supports");
    if (!w.i || !rho.i || (n > 0 && !vectors.i)) fail(c, NST_E_MODEL, "without coefficients, rho or support_vectors");
    if (failed(c)) return;
    D shape[2] = {num(c, n), dim(c, x, 1)};
    if (n > 0) k = kernel_of(c, x, reshape(c, vectors, 2, shape));
    V y = map(c, "a + b", contract(c, "nk,k->n", k, w), drop_axis(c, slice1(c, rho, 0, num(c, 0), 1, num(c, 1)), 0));
    if (attr_i(c, "one_class")) y = map(c, "a > 0 ? 1 : -1", y);
    out(c, 0, convert(c, post_transform(c, attr_s(c, "post_transform"), insert_axis(c, y, 1)), NST_F32));
}

/* A classifier's tables.  Without support vectors there is a row of coefficients a class; with them, vectors lie class by class, and
 * each pair of classes (i before j) has a score: more than 0 is a vote for i, else for j. */
typedef struct Svm {
    int64_t classes, pairs, vectors;
    const int64_t *per_class;
    V coefficients, rho, vector, prob_a, prob_b; /* prob_*: of each pair, or none */
} Svm;

/* Whether a list has at least so many entries. */
static bool has_entries(NstLower *c, const char *name, int64_t least_count)
{
    const NstAttr *a = nst_attrs_find(&c->attrs, name);
    int64_t n = a ? (int64_t)a->n : 0;
    if (n < least_count)
        fail(c, NST_E_MODEL, "%s has %lld entries, allowed: at least %lld", name, (long long)n, (long long)least_count);
    return !failed(c);
}

/* The first n entries of a list. */
static V first_entries(NstLower *c, const char *name, int64_t n, NstDtype t)
{
    if (!has_entries(c, name, n)) return (V){0};
    return slice1(c, numbers_attr(c, name, t), 0, num(c, 0), 1, num(c, n));
}

/* Reads the tables that lie beside `labels`. */
static bool read_svm(NstLower *c, V x, V labels, Svm *s)
{
    NstDtype t = dtype(c, x);
    int n;
    s->per_class = attr_ints(c, "vectors_per_class", &n);
    if (failed(c) || !known(c, dim(c, labels, 0), &s->classes)) return false;
    for (int k = 0; k < n; k++) {
        if (s->per_class[k] < 0 || s->per_class[k] > INT32_MAX)
            fail(c, NST_E_MODEL, "vectors_per_class has entry %lld, allowed: 0 to %d", (long long)s->per_class[k],
                 INT32_MAX);
        s->vectors += s->per_class[k];
    }
    if (s->vectors > 0 && n != s->classes)
        fail(c, NST_E_MODEL, "vectors_per_class has %d entries, allowed: one of each of %lld classes", n,
             (long long)s->classes);
    if (s->vectors > 0 && s->classes < 2)
        fail(c, NST_E_MODEL, "support vectors of one class, allowed: at least 2 classes");
    if (s->classes > INT16_MAX)
        fail(c, NST_E_LIMIT, "%lld classes, allowed: at most %d", (long long)s->classes, INT16_MAX);
    if (failed(c)) return false;
    bool pairs = s->vectors > 0, prob = nst_attrs_find(&c->attrs, "prob_a") || nst_attrs_find(&c->attrs, "prob_b");
    s->pairs = pairs ? s->classes * (s->classes - 1) / 2 : 0;
    s->rho = first_entries(c, "rho", pairs ? s->pairs : 1, t);
    if (!has_entries(c, "coefficients", pairs ? (s->classes - 1) * s->vectors : 1) ||
        !has_entries(c, "support_vectors", pairs))
        return false;
    if (prob && pairs) {
        s->prob_a = first_entries(c, "prob_a", s->pairs, t);
        s->prob_b = first_entries(c, "prob_b", s->pairs, t);
    }
    if (pairs) {
        D shape[2] = {num(c, s->vectors), dim(c, x, 1)}, rows[2] = {num(c, s->classes - 1), num(c, s->vectors)};
        s->coefficients = reshape(c, first_entries(c, "coefficients", (s->classes - 1) * s->vectors, t), 2, rows);
        s->vector = reshape(c, numbers_attr(c, "support_vectors", t), 2, shape);
    }
    return !failed(c);
}

/* For each pair of classes the weights of i's vectors against j, row j - 1, and of j's against i, row i: [N, pairs]. */
static V pair_scores(NstLower *c, V x, const Svm *s, V first, V second)
{
    V kernel = kernel_of(c, x, s->vector), *sum = NST_NEW_ARRAY(c->arena, V, s->classes);
    D shape[2] = {dim(c, x, 0), num(c, s->classes * (s->classes - 1))};
    int64_t at = 0;
    for (int64_t k = 0; k < s->classes && !failed(c); at += s->per_class[k++]) {
        D begin = num(c, at), n = num(c, s->per_class[k]);
        V own = contract(c, "ns,rs->nr", slice1(c, kernel, 1, begin, 1, n), slice1(c, s->coefficients, 1, begin, 1, n));
        sum[k] = insert_axis(c, own, 1);
    }
    if (failed(c)) return (V){0};
    V all = reshape(c, concat(c, (int)s->classes, sum, 1), 2, shape),
      rows = number(c, NST_I64, (double)(s->classes - 1));
    V i = map(c, "a * c + b - 1", first, second, rows), j = map(c, "b * c + a", first, second, rows);
    return map(c, "a + b + c", gather(c, all, i, 1, NST_INDEX_CHECKED), gather(c, all, j, 1, NST_INDEX_CHECKED),
               s->rho);
}

/* What of x[N, pairs] belongs to i and j of each pair as [N, classes, classes], 0 on the diagonal. */
static V by_classes(NstLower *c, const Svm *s, V before, V after)
{
    int64_t n = s->classes * s->classes, *at = nst_alloc(c->arena, sizeof *at * (size_t)n), pair = 0;
    for (int64_t k = 0; k < n; k++) at[k] = -1;
    for (int64_t i = 0; i < s->classes; i++)
        for (int64_t j = i + 1; j < s->classes; j++, pair++) {
            at[i * s->classes + j] = pair;
            at[j * s->classes + i] = s->pairs + pair;
        }
    V both[2] = {before, after};
    D shape[3] = {dim(c, before, 0), num(c, s->classes), num(c, s->classes)};
    V all = gather(c, concat(c, 2, both, 1), nst_build_const(c->b, NST_I64, 1, &n, at), 1, NST_INDEX_FILL);
    return reshape(c, all, 3, shape);
}

typedef struct Coupling {
    V q, eps; /* q[N, classes, classes] */
} Coupling;

/* One class after the other takes its step: states p[N, classes], q p, p q p [N, 1]. */
static NstRegionId couple_class(NstLower *c, const Coupling *u, const NstType *vector, const NstType *one)
{
    Inner inner;
    V to[4];
    enter(c, &inner);
    V k = loop_params(c, "class", &to[0]);
    V p = param(c, "p", vector), qp = param(c, "qp", vector), pqp = param(c, "pqp", one);
    V row = drop_axis(c, step_slice(c, u->q, 1, k), 1), own = step_slice(c, row, 1, k), old = step_slice(c, qp, 1, k);
    V step = map(c, "(a - b) / c", pqp, old, own), here = map(c, "a == b", nst_build_iota(c->b, dim(c, p, 1)), k);
    to[1] = map(c, "(d ? a + b : a) / (1 + b)", p, step, step, here);
    to[2] = map(c, "(a + b * c) / (1 + b)", qp, step, row);
    to[3] = map(c, "(a + b * (b * c + 2 * d)) / (1 + b) / (1 + b)", pqp, step, own, old);
    return leave(c, &inner, 4, to);
}

/* A round, in which rows that are near enough stay as they are. */
static NstRegionId couple_round(NstLower *c, const Coupling *u, const NstType *vector)
{
    Axes classes = axes_from(1, 2);
    Inner inner;
    V to[2], made[3];
    enter(c, &inner);
    (void)loop_params(c, "round", &to[0]);
    V p = param(c, "p", vector), qp = contract(c, "nij,nj->ni", u->q, p);
    V pqp = reduce(c, "a + b", map(c, "a * b", p, qp), classes, KEEP);
    V far = map(c, "a >= b", reduce(c, "max(a, b)", map(c, "abs(a - b)", qp, pqp), classes, KEEP), u->eps);
    V state[3] = {p, qp, pqp};
    to[0] = reduce(c, "a | b", far, axes_from(0, 2), DROP);
    if (failed(c)) return (NstRegionId){0};
    NstRegionId region = couple_class(c, u, vector, type(c, pqp));
    if (!failed(c)) (void)nst_build_loop(c->b, size_value(c, dim(c, p, 1)), (V){0}, 3, state, region, made, 3);
    to[1] = map(c, "a ? b : c", far, made[0], p);
    return leave(c, &inner, 2, to);
}

/* Probabilities of classes from those of pairs: p that makes p Q p least, by at most 100 rounds.
 * Source: Wu, Lin, Weng: Probability Estimates for Multi-class Classification by Pairwise Coupling (2004), algorithm 2. */
static V couple(NstLower *c, const Svm *s, V scores)
{
    V p = map(c, "a * b + c", scores, s->prob_a, s->prob_b);
    p = map(c, "max(1e-7, min(1 - 1e-7, 1 - sigmoid(a)))", p);
    V r = by_classes(c, s, p, map(c, "1 - a", p));
    static const int turned[] = {0, 2, 1};
    V back = permute(c, r, turned), i = nst_build_iota(c->b, num(c, s->classes)), j = insert_axis(c, i, 1);
    V square = insert_axis(c, reduce(c, "a + b", map(c, "a * a", back), axes_from(2, 3), DROP), 2);
    Coupling u = {.q = map(c, "a == b ? c : -(d * e)", i, j, square, r, back)};
    NstDtype t = dtype(c, r);
    u.eps = number(c, t, 0.005 / (double)s->classes);
    D shape[2] = {dim(c, r, 0), num(c, s->classes)};
    V start = expand(c, number(c, t, 1 / (double)s->classes), 2, shape), result = {0};
    if (failed(c)) return (V){0};
    NstRegionId region = couple_round(c, &u, type(c, start));
    if (!failed(c)) (void)nst_build_loop(c->b, size_value(c, num(c, 100)), (V){0}, 1, &start, region, &result, 1);
    return result;
}

/* The label with the most votes; scores of pairs, of two classes both ways, or probabilities of classes. */
static V vote(NstLower *c, V x, const Svm *s, const char *transform, V *place)
{
    int64_t *first = nst_alloc(c->arena, sizeof *first * (size_t)s->pairs),
            *second = nst_alloc(c->arena, sizeof *second * (size_t)s->pairs), n = 0;
    for (int64_t i = 0; i < s->classes; i++)
        for (int64_t j = i + 1; j < s->classes; j++) first[n] = i, second[n++] = j;
    V i = nst_build_const(c->b, NST_I64, 1, &n, first), j = nst_build_const(c->b, NST_I64, 1, &n, second);
    V scores = pair_scores(c, x, s, i, j), winner = insert_axis(c, map(c, "a > 0 ? b : c", scores, i, j), 2);
    V votes = map(c, "a == b ? 1 : 0", winner, nst_build_iota(c->b, num(c, s->classes)));
    *place = first_largest(c, reduce(c, "a + b", votes, axes_from(1, 2), DROP));
    if (s->prob_a.i) return post_transform(c, transform, couple(c, s, scores));
    V by_sign; /* as the votes have it */
    if (s->classes == 2) return two_of_one(c, scores, transform, false, &by_sign);
    return post_transform(c, transform, scores);
}

/* Without support vectors: a score a class.  Of two classes the second is taken for a greatest score above 0 (of weights that are
 * all positive: from 0.5 on), as ONNX Runtime has it. */
static V class_scores(NstLower *c, V x, const Svm *s, const char *transform, V *place)
{
    V w = numbers_attr(c, "coefficients", dtype(c, x));
    const NstAttr *list = nst_attrs_find(&c->attrs, "coefficients");
    D shape[2] = {num(c, s->classes), dim(c, x, 1)};
    V y = map(c, "a + b", contract(c, "nf,kf->nk", x, reshape(c, w, 2, shape)), s->rho);
    if (failed(c)) return (V){0};
    *place = first_largest(c, y);
    bool positive = true;
    for (size_t k = 0; k < list->n; k++) positive = positive && list->floats[k] >= 0;
    V most = reduce(c, "max(a, b)", y, axes_from(1, 2), DROP);
    if (s->classes == 2 && !nst_attrs_find(&c->attrs, "prob_a"))
        *place = map(c, positive ? "a >= 0.5 ? 1 : b" : "a > 0 ? 1 : b", most, *place);
    /* One score alone is no distribution. */
    bool raw = s->classes == 1 && strcmp(transform, "PROBIT") != 0;
    return post_transform(c, raw ? "NONE" : transform, y);
}

LOWER(svm_classifier)
{
    V x = as_rows(c, as_score(c, in(c, 0))), labels = labels_attr(c, "classlabels_ints", "classlabels_strings"),
      place = {0};
    const char *transform = attr_s(c, "post_transform");
    Svm s = {0};
    if (failed(c) || !read_svm(c, x, labels, &s)) return;
    V scores = s.pairs > 0 ? vote(c, x, &s, transform, &place) : class_scores(c, x, &s, transform, &place);
    if (failed(c)) return;
    out(c, 0, gather(c, labels, place, 0, NST_INDEX_CHECKED));
    out(c, 1, convert(c, scores, NST_F32));
}
