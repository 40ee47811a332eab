/* ml.c: classical models but for trees and support vectors: scalers, encoders, linear models.  Results are f32 whatever the
 * input's type; f64 inputs are computed in f64. */
#include "frontend/lower/ml.h"
#include "frontend/lower/text.h"

V numbers_attr(NstLower *c, const char *name, NstDtype to)
{
    const NstAttr *a = nst_attrs_find(&c->attrs, name);
    bool ints = a && a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS;
    int64_t n = a ? (int64_t)a->n : 0;
    if (n == 0) return (V){0};
    return convert(c, nst_build_const(c->b, ints ? NST_I64 : NST_F32, 1, &n, ints ? (const void *)a->ints : a->floats),
                   to);
}

/* f64 as it is, all else as f32. */
V as_score(NstLower *c, V x)
{
    return convert(c, x, dtype(c, x) == NST_F64 ? NST_F64 : NST_F32);
}

V as_rows(NstLower *c, V x)
{
    if (rank(c, x) == 1) x = insert_axis(c, x, 0);
    if (!failed(c) && rank(c, x) != 2) fail(c, NST_E_SHAPE, "X has rank %d, allowed: 1, 2", rank(c, x));
    return x;
}

/* A list of one number, or of one a feature, against x's last axis. */
static V per_feature(NstLower *c, V list)
{
    return list.i && is_num(c, dim(c, list, 0), 1) ? drop_axis(c, list, 0) : list;
}

/* --- transforms ------------------------------------------------------------------------------------------------ */

static V softmax_of(NstLower *c, V x, bool keep_zeros)
{
    Axes last = axes_from(rank(c, x) - 1, rank(c, x));
    V e = map(c, "exp(a - b)", x, reduce(c, "max(a, b)", x, last, KEEP));
    if (keep_zeros) e = map(c, "abs(a) > 1e-7 ? b : 0", x, e);
    return map(c, "a / b", e, reduce(c, "a + b", e, last, KEEP));
}

/* The normal distribution's quantile by the inverse of erf that ONNX's reference and ONNX Runtime have (Winitzki 2008, a =
 * 0.147: within 2e-3), so that scores are theirs. */
static V probit(NstLower *c, V x)
{
    V y = map(c, "2*a - 1", x), log = map(c, "a*a < 0.5 ? log1p(-(a*a)) : log((1 - a) * (1 + a))", y);
    V v = map(c, "4.330746750799873 + 0.5*a", log), root = map(c, "sqrt(b*b - a/0.147)", log, v);
    V size = map(c, "sqrt(b > 0 ? -a / 0.147 / (c + b) : c - b)", log, v, root);
    return map(c, "(a < 0 ? -1.41421356 : 1.41421356) * b", y, size);
}

V post_transform(NstLower *c, const char *name, V x)
{
    if (strcmp(name, "NONE") == 0) return x;
    if (strcmp(name, "LOGISTIC") == 0) return map(c, "sigmoid(a)", x);
    if (strcmp(name, "SOFTMAX") == 0) return softmax_of(c, x, false);
    if (strcmp(name, "SOFTMAX_ZERO") == 0) return softmax_of(c, x, true);
    if (strcmp(name, "PROBIT") == 0) return probit(c, x);
    return fail(c, NST_E_MODEL, "post_transform '%s', allowed: NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT", name);
}

/* --- elementwise ----------------------------------------------------------------------------------------------- */

LOWER(scaler)
{
    V x = as_score(c, in(c, 0)), offset = per_feature(c, numbers_attr(c, "offset", dtype(c, x))),
      scale = per_feature(c, numbers_attr(c, "scale", dtype(c, x)));
    if (offset.i) x = map(c, "a - b", x, offset);
    if (scale.i) x = map(c, "a * b", x, scale);
    out(c, 0, convert(c, x, NST_F32));
}

LOWER(binarizer)
{
    out(c, 0,
        convert(c,
                map(c, "a > b", in(c, 0), convert(c, number(c, NST_F32, attr_f(c, "threshold")), dtype(c, in(c, 0)))),
                dtype(c, in(c, 0))));
}

/* NaN is replaced where it is the value to be replaced. */
LOWER(imputer)
{
    V x = in(c, 0);
    NstDtype t = dtype(c, x);
    bool is_float = nst_dtype_is_float(t);
    const char *list = is_float ? "imputed_value_floats" : "imputed_value_int64s";
    V with = per_feature(c, numbers_attr(c, list, t));
    if (!with.i) fail(c, NST_E_MODEL, "without %s for %s", list, nst_dtype_info(t)->name);
    if (failed(c)) return;
    V old = is_float ? number(c, t, attr_f(c, "replaced_value_float"))
                     : number(c, t, (double)attr_i(c, "replaced_value_int64"));
    out(c, 0, map(c, is_float ? "a == b | (isnan(a) & isnan(b)) ? c : a" : "a == b ? c : a", x, old, with));
}

/* Of rows: by the greatest, by the sum of sizes, by the root of the sum of squares (with the element's sign). */
LOWER(normalizer)
{
    V x = as_score(c, in(c, 0));
    int r = rank(c, x);
    Axes last = axes_from(r - 1, r);
    if (r < 1) fail(c, NST_E_SHAPE, "X has rank 0, allowed: 1, 2");
    if (failed(c)) return;
    V by = {0};
    if (attr_is(c, "norm", "MAX"))
        by = reduce(c, "max(a, b)", x, last, KEEP);
    else if (attr_is(c, "norm", "L1"))
        by = reduce(c, "a + b", map(c, "abs(a)", x), last, KEEP);
    else if (attr_is(c, "norm", "L2"))
        by = map(c, "sqrt(a)", reduce(c, "a + b", map(c, "a * a", x), last, KEEP));
    else
        fail(c, NST_E_MODEL, "norm '%s', allowed: MAX, L1, L2", attr_s(c, "norm"));
    out(c, 0, convert(c, map(c, "b == 0 ? a : a / b", x, by), NST_F32));
}

/* --- selections and encodings ---------------------------------------------------------------------------------- */

/* Elements of the last axis at indices; a vector gives one row. */
LOWER(array_feature_extractor)
{
    V x = in(c, 0), index = in(c, 1);
    if (rank(c, x) == 1) x = insert_axis(c, x, 0);
    D n = product(c, index, 0, rank(c, index));
    if (!failed(c)) out(c, 0, gather(c, x, reshape(c, index, 1, &n), rank(c, x) - 1, NST_INDEX_CHECKED));
}

/* Inputs side by side, each cut or filled with zeros to its size. */
LOWER(feature_vectorizer)
{
    int n;
    const int64_t *size = attr_ints(c, "inputdimensions", &n);
    V *x = NST_NEW_ARRAY(c->arena, V, c->n_ins);
    if (n != 0 && n != c->n_ins) fail(c, NST_E_MODEL, "inputdimensions has %d entries, allowed: %d", n, c->n_ins);
    for (int k = 0; k < c->n_ins && !failed(c); k++) {
        x[k] = as_rows(c, convert(c, in(c, k), NST_F32));
        D lo[2] = {num(c, 0), num(c, 0)}, hi[2] = {num(c, 0), num(c, 0)};
        if (n) hi[1] = sub(c, num(c, size[k]), dim(c, x[k], 1));
        if (!failed(c)) x[k] = nst_build_pad(c->b, x[k], lo, hi, NULL, NST_PAD_CONSTANT, (V){0});
    }
    if (!failed(c)) out(c, 0, concat(c, c->n_ins, x, 1));
}

/* The place of each element in a list, n if it is not there. */
static V place_in(NstLower *c, V x, V list)
{
    x = handles(c, x);
    list = handles(c, list);
    bool is_float = nst_dtype_is_float(dtype(c, list));
    V same = map(c, is_float ? "a == b | (isnan(a) & isnan(b))" : "a == b", insert_axis(c, x, rank(c, x)), list);
    V n = size_value(c, dim(c, list, 0)), i = nst_build_iota(c->b, dim(c, list, 0));
    int r = rank(c, same);
    return reduce(c, "min(a, b)", map(c, "a ? b : c", same, i, n), axes_from(r - 1, r), DROP);
}

LOWER(one_hot_encoder)
{
    V x = in(c, 0);
    bool text = dtype(c, x) == NST_STR;
    V cats = text ? strings_attr(c, "cats_strings") : numbers_attr(c, "cats_int64s", NST_I64);
    if (!cats.i) fail(c, NST_E_MODEL, "without %s", text ? "cats_strings" : "cats_int64s");
    if (failed(c)) return;
    V place = place_in(c, text ? x : convert(c, x, NST_I64), cats), n = size_value(c, dim(c, cats, 0));
    if (!attr_i(c, "zeros"))
        nst_build_assert(c->b, map(c, "a < b", place, n), nst_format(c->arena, "%s: a value is no category", c->label));
    V hot = map(c, "a == b", insert_axis(c, place, rank(c, place)), nst_build_iota(c->b, dim(c, cats, 0)));
    out(c, 0, convert(c, hot, NST_F32));
}

/* Keys or values: a tensor, or the list of the one kind that is there. */
static V encoder_list(NstLower *c, const char *what)
{
    static const char *const kinds[] = {"int64s", "floats"};
    const NstAttr *tensor = nst_attrs_find(&c->attrs, nst_format(c->arena, "%s_tensor", what));
    if (tensor) return weight(c, tensor->proto->t, what);
    for (int k = 0; k < 2; k++) {
        V list = numbers_attr(c, nst_format(c->arena, "%s_%s", what, kinds[k]), k == 0 ? NST_I64 : NST_F32);
        if (list.i) return list;
    }
    V words = strings_attr(c, nst_format(c->arena, "%s_strings", what));
    return words.i ? words : fail(c, NST_E_MODEL, "without %s", what);
}

/* What stands for an element that is no key. */
static V encoder_default(NstLower *c, NstDtype to)
{
    const char *text = attr_s(c, "default_string");
    if (to == NST_STR) return reshape(c, strings_const(c, 1, &text), 0, NULL);
    return nst_dtype_is_float(to) ? number(c, to, attr_f(c, "default_float"))
                                  : number(c, to, (double)attr_i(c, "default_int64"));
}

static V look_up(NstLower *c, V x, V keys, V values, V otherwise)
{
    V both[2] = {values, insert_axis(c, otherwise, 0)};
    return gather(c, concat(c, 2, both, 0), place_in(c, x, keys), 0, NST_INDEX_CHECKED);
}

/* Strings to integers or back, by two lists. */
LOWER(category_mapper)
{
    V x = in(c, 0), ints = numbers_attr(c, "cats_int64s", NST_I64), words = strings_attr(c, "cats_strings");
    if (!ints.i || !words.i) fail(c, NST_E_MODEL, "without cats_int64s or cats_strings");
    if (failed(c)) return;
    nst_build_require_equal(c->b, dim(c, ints, 0), dim(c, words, 0), nst_format(c->arena, "%s: categories", c->label));
    bool text = dtype(c, x) == NST_STR;
    out(c, 0, look_up(c, x, text ? words : ints, text ? ints : words, encoder_default(c, text ? NST_I64 : NST_STR)));
}

LOWER(label_encoder)
{
    V x = in(c, 0), keys = encoder_list(c, "keys"), values = encoder_list(c, "values"), otherwise;
    NstDtype t = dtype(c, values);
    const NstAttr *tensor = nst_attrs_find(&c->attrs, "default_tensor");
    if (!failed(c) && (rank(c, keys) != 1 || rank(c, values) != 1 || dtype(c, keys) != dtype(c, x)))
        fail(c, NST_E_TYPE, "keys are %s, X is %s, allowed: lists, equal", nst_dtype_info(dtype(c, keys))->name,
             nst_dtype_info(dtype(c, x))->name);
    if (failed(c)) return;
    nst_build_require_equal(c->b, dim(c, keys, 0), dim(c, values, 0),
                            nst_format(c->arena, "%s: keys and values", c->label));
    otherwise = tensor ? reshape(c, weight(c, tensor->proto->t, "default"), 0, NULL) : encoder_default(c, t);
    out(c, 0, look_up(c, x, keys, values, otherwise));
}

/* --- linear models --------------------------------------------------------------------------------------------- */

/* x[N, F] times coefficients [rows, F], plus intercepts: [N, rows]. */
static V linear(NstLower *c, V x, int64_t rows)
{
    V w = numbers_attr(c, "coefficients", dtype(c, x)), b = numbers_attr(c, "intercepts", dtype(c, x));
    if (!w.i || rows < 1) return fail(c, NST_E_MODEL, "no coefficients, or %lld rows of them", (long long)rows);
    D shape[2] = {num(c, rows), dim(c, x, 1)};
    V y = contract(c, "nf,kf->nk", x, reshape(c, w, 2, shape));
    return b.i ? map(c, "a + b", y, b) : y;
}

LOWER(linear_regressor)
{
    V x = as_rows(c, as_score(c, in(c, 0)));
    out(c, 0, convert(c, post_transform(c, attr_s(c, "post_transform"), linear(c, x, attr_i(c, "targets"))), NST_F32));
}

V labels_attr(NstLower *c, const char *ints, const char *strings)
{
    V labels = numbers_attr(c, ints, NST_I64);
    if (!labels.i) labels = strings_attr(c, strings);
    return labels.i ? labels : fail(c, NST_E_MODEL, "without %s or %s", ints, strings);
}

V first_largest(NstLower *c, V x)
{
    V is_top = map(c, "a == b", x, reduce(c, "max(a, b)", x, axes_from(1, 2), KEEP));
    V i = nst_build_iota(c->b, dim(c, x, 1)), n = size_value(c, minus1(c, dim(c, x, 1)));
    return reduce(c, "min(a, b)", map(c, "a ? b : c", is_top, i, n), axes_from(1, 2), DROP);
}

/* One score of two labels: both scores, and the second label's place where it is more than a bound. */
V two_of_one(NstLower *c, V score, const char *transform, bool is_probability, V *place)
{
    V second = rank(c, score) == 2 ? drop_axis(c, score, 1) : score;
    V pair[2] = {map(c, is_probability ? "1 - a" : "-a", second), second};
    *place = convert(c, map(c, is_probability ? "a > 0.5" : "a > 0", second), NST_I64);
    for (int k = 0; k < 2; k++) pair[k] = insert_axis(c, pair[k], 1);
    V both = concat(c, 2, pair, 1);
    return is_probability ? both : post_transform(c, transform, both);
}

/* The label of the greatest score, and the scores.  One row of coefficients for two labels gives the second one's score. */
LOWER(linear_classifier)
{
    V x = as_rows(c, as_score(c, in(c, 0))), labels = labels_attr(c, "classlabels_ints", "classlabels_strings"), place;
    const NstAttr *w = nst_attrs_find(&c->attrs, "coefficients");
    int64_t features, classes = 0;
    const char *transform = attr_s(c, "post_transform");
    if (failed(c)) return;
    bool sizes = known(c, dim(c, labels, 0), &classes);
    bool one = sizes && classes == 2 && known(c, dim(c, x, 1), &features) && (int64_t)w->n == features;
    V scores = linear(c, x, one ? 1 : classes);
    if (one) {
        scores = two_of_one(c, scores, transform, false, &place);
    } else {
        place = first_largest(c, scores);
        scores = post_transform(c, transform, scores);
    }
    out(c, 0, gather(c, labels, place, 0, NST_INDEX_CHECKED));
    out(c, 1, convert(c, scores, NST_F32));
}
