/* text.c: strings.  In the graph they are handles that are equal where strings are: movement and comparison are primitives, what
 * makes new strings is a host function (runtime/host.def).  Words of an operator's attributes are constants of the table. */
#include "frontend/lower/text.h"

V handles(NstLower *c, V x)
{
    return dtype(c, x) == NST_STR ? nst_build_bitcast(c->b, x, NST_I64) : x;
}

V strings_const(NstLower *c, size_t n, const char *const *text)
{
    int64_t shape = (int64_t)n;
    uint64_t *handle = NST_NEW_ARRAY(c->arena, uint64_t, n);
    if (failed(c)) return (V){0};
    for (size_t k = 0; k < n; k++) handle[k] = nst_strings_put(c->model->strings, text[k], strlen(text[k]));
    return nst_build_const(c->b, NST_STR, 1, &shape, handle);
}

V strings_attr(NstLower *c, const char *name)
{
    const NstAttr *a = nst_attrs_find(&c->attrs, name);
    return a && a->n ? strings_const(c, a->n, a->strings) : (V){0};
}

/* A host function over strings, of one output. */
static V host(NstLower *c, const char *name, const char *config, int n, const V *x, NstDtype to, int rank,
              const D *shape)
{
    NstType type = nst_tensor_type(c->b->graph->arena, to, rank, shape);
    V made = {0};
    if (!failed(c)) (void)nst_build_host(c->b, name, config, (uint32_t)n, x, &type, 1, &made);
    return made;
}

V string_ranks(NstLower *c, V x)
{
    return host(c, "string_rank", "", 1, &x, NST_I64, rank(c, x), type(c, x)->shape);
}

LOWER(equal)
{
    out(c, 0, map(c, "a == b", handles(c, in(c, 0)), handles(c, in(c, 1))));
}

LOWER(string_concat)
{
    V both = map(c, "a + b", handles(c, in(c, 0)), handles(c, in(c, 1))), x[2]; /* for its shape alone */
    for (int k = 0; k < 2; k++) x[k] = expand(c, in(c, k), rank(c, both), type(c, both)->shape);
    out(c, 0, host(c, "string_concat", "", 2, x, NST_STR, rank(c, both), type(c, both)->shape));
}

/* The strings in an order that host functions of one row can rely on: [C] or [1, C]. */
LOWER(string_normalizer)
{
    V x[2] = {in(c, 0), strings_attr(c, "stopwords")};
    const char *change = attr_s(c, "case_change_action");
    int r = rank(c, x[0]);
    if (strcmp(change, "NONE") != 0 && strcmp(change, "LOWER") != 0 && strcmp(change, "UPPER") != 0)
        fail(c, NST_E_MODEL, "case_change_action '%s', allowed: NONE, LOWER, UPPER", change);
    if (r < 1 || r > 2) fail(c, NST_E_SHAPE, "X has rank %d, allowed: 1, 2", r);
    if (failed(c)) return;
    if (r == 2)
        nst_build_require_equal(c->b, dim(c, x[0], 0), num(c, 1), nst_format(c->arena, "%s: rows of X", c->label));
    D shape[2] = {num(c, 1), counted(c, 1)};
    const char *config = nst_format(c->arena, "%s %s", change, attr_i(c, "is_case_sensitive") ? "exact" : "any");
    out(c, 0, host(c, "string_normalize", config, x[1].i ? 2 : 1, x, NST_STR, r, shape + 2 - r));
}

/* Pieces [..., most pieces], filled up with empty strings, and how many there are. */
LOWER(string_split)
{
    V x = in(c, 0), made[2] = {{0}};
    int r = rank(c, x);
    D shape[NST_MAX_RANK];
    if (r >= NST_MAX_RANK) fail(c, NST_E_LIMIT, "rank %d, allowed: at most %d", r, NST_MAX_RANK - 1);
    if (failed(c)) return;
    for (int k = 0; k < r; k++) shape[k] = dim(c, x, k);
    shape[r] = counted(c, 0);
    NstType types[2] = {nst_tensor_type(c->b->graph->arena, NST_STR, r + 1, shape),
                        nst_tensor_type(c->b->graph->arena, NST_I64, r, shape)};
    const char *config = nst_format(
        c->arena, "%lld %s", has_attr(c, "maxsplit") ? (long long)attr_i(c, "maxsplit") : -1, attr_s(c, "delimiter"));
    if (nst_build_host(c->b, "string_split", config, 1, &x, types, 2, made) != NST_OK) return;
    out(c, 0, made[0]);
    out(c, 1, made[1]);
}

LOWER(regex_full_match)
{
    V x = in(c, 0);
    if (!has_attr(c, "pattern")) fail(c, NST_E_MODEL, "without a pattern");
    out(c, 0, host(c, "regex_full_match", attr_s(c, "pattern"), 1, &x, NST_BOOL, rank(c, x), type(c, x)->shape));
}

/* --- casts ----------------------------------------------------------------------------------------------------- */

V string_to_number(NstLower *c, V x, NstDtype to)
{
    bool whole = nst_dtype_is_int(to);
    if (!whole && !nst_dtype_is_float(to) && to != NST_BOOL)
        return fail(c, NST_E_UNSUPPORTED, "casts of strings to %s are not supported", nst_dtype_info(to)->name);
    return host(c, whole ? "string_to_integer" : "string_to_float", "", 1, &x, whole ? NST_I64 : NST_F64, rank(c, x),
                type(c, x)->shape);
}

V number_to_string(NstLower *c, V x)
{
    NstDtype from = dtype(c, x);
    bool is_float = nst_dtype_is_float(from), is_int = nst_dtype_is_int(from) && from != NST_U64;
    if (!is_int && from != NST_F32 && from != NST_F64)
        return fail(c, NST_E_UNSUPPORTED, "casts of %s to strings are not supported", nst_dtype_info(from)->name);
    if (!is_float) x = convert(c, x, NST_I64);
    return host(c, "number_to_string", "", 1, &x, NST_STR, rank(c, x), type(c, x)->shape);
}

/* --- n-grams --------------------------------------------------------------------------------------------------- */

typedef struct Grams {
    V pool; /* handles or numbers, i64 */
    const int64_t *start;
    int n_lengths;
    int64_t pool_n;
} Grams;

/* How often each gram of length m is in rows x[N, C], its elements skip + 1 apart: [N, grams].  Rows are filled up behind, so
 * that a gram can begin anywhere; those that would reach past the row do not count. */
static V count_grams(NstLower *c, V x, const Grams *g, int m, int64_t skip)
{
    int64_t first = g->start[m - 1], last = m < g->n_lengths ? g->start[m] : g->pool_n, past = (m - 1) * (skip + 1);
    D shape[2] = {num(c, (last - first) / m), num(c, m)}, n = dim(c, x, 1);
    V pool = reshape(c, slice1(c, g->pool, 0, num(c, first), 1, num(c, last - first)), 2, shape);
    NstWindowAxis w = {1, num(c, m), 1, skip + 1, num(c, 0), num(c, past)};
    V view = insert_axis(c, nst_build_window(c->b, x, 1, &w, (V){0}), 2); /* [N, places, 1, m] */
    V same = reduce(c, "a & b", map(c, "a == b", view, pool), axes_from(3, 4), DROP);
    V fits = map(c, "a < b", insert_axis(c, nst_build_iota(c->b, n), 1), size_value(c, sub(c, n, num(c, past))));
    return reduce(c, "a + b", convert(c, map(c, "a & b", same, fits), NST_F32), axes_from(1, 2), DROP);
}

/* Attribute lists that must fit together; the table of places in the output. */
static bool read_grams(NstLower *c, Grams *g, int64_t *n_places, const int64_t **place)
{
    const NstAttr *ints = nst_attrs_find(&c->attrs, "pool_int64s"), *words = nst_attrs_find(&c->attrs, "pool_strings"),
                  *at = nst_attrs_find(&c->attrs, "ngram_indexes"), *start = nst_attrs_find(&c->attrs, "ngram_counts");
    bool text = dtype(c, in(c, 0)) == NST_STR;
    const NstAttr *pool = text ? words : ints;
    g->pool_n = pool ? (int64_t)pool->n : 0;
    g->start = start->ints;
    g->n_lengths = start->n < 1000 ? (int)start->n : 1000;
    *n_places = (int64_t)at->n;
    *place = at->ints;
    if (g->pool_n == 0) fail(c, NST_E_MODEL, "without %s", text ? "pool_strings" : "pool_int64s");
    int64_t grams = 0;
    for (int m = 1; m <= g->n_lengths && !failed(c); m++) {
        int64_t first = g->start[m - 1], last = m < g->n_lengths ? g->start[m] : g->pool_n;
        if (first < 0 || last < first || last > g->pool_n || (last - first) % m != 0)
            fail(c, NST_E_MODEL, "ngram_counts has %lld for length %d in a pool of %lld", (long long)first, m,
                 (long long)g->pool_n);
        grams += failed(c) ? 0 : (last - first) / m;
    }
    if (!failed(c) && grams != *n_places)
        fail(c, NST_E_MODEL, "ngram_indexes has %lld entries, the pool %lld grams", (long long)*n_places,
             (long long)grams);
    if (failed(c)) return false;
    g->pool = text ? handles(c, strings_const(c, words->n, words->strings))
                   : nst_build_const(c->b, NST_I64, 1, &g->pool_n, ints->ints);
    return !failed(c);
}

/* Counts of all grams [N, grams], in the order of the pool. */
static V count_all(NstLower *c, V x, const Grams *g)
{
    int64_t skips = attr_i(c, "max_skip_count");
    V *part = NST_NEW_ARRAY(c->arena, V, g->n_lengths);
    int n = 0;
    for (int m = 1; m <= g->n_lengths && !failed(c); m++) {
        int64_t first = g->start[m - 1], last = m < g->n_lengths ? g->start[m] : g->pool_n;
        if (last == first) continue;
        D shape[2] = {dim(c, x, 0), num(c, (last - first) / m)};
        V sum = expand(c, number(c, NST_F32, 0), 2, shape);
        bool wanted = m >= attr_i(c, "min_gram_length") && m <= attr_i(c, "max_gram_length");
        for (int64_t skip = 0; wanted && skip <= (m == 1 ? 0 : skips) && !failed(c); skip++) {
            sum = map(c, "a + b", sum, count_grams(c, x, g, m, skip));
        }
        part[n++] = sum;
    }
    return n ? concat(c, n, part, 1) : fail(c, NST_E_MODEL, "a pool without grams");
}

LOWER(tf_idf)
{
    V x = in(c, 0), weights = {0};
    const NstAttr *w = nst_attrs_find(&c->attrs, "weights");
    Grams g;
    int64_t n, width = 0;
    const int64_t *place;
    bool flat = rank(c, x) == 1, tf = attr_is(c, "mode", "TF"), idf = attr_is(c, "mode", "IDF");
    if (!tf && !idf && !attr_is(c, "mode", "TFIDF"))
        fail(c, NST_E_MODEL, "mode '%s', allowed: TF, IDF, TFIDF", attr_s(c, "mode"));
    if (rank(c, x) < 1 || rank(c, x) > 2) fail(c, NST_E_SHAPE, "X has rank %d, allowed: 1, 2", rank(c, x));
    if (attr_i(c, "max_skip_count") < 0 || attr_i(c, "max_skip_count") > 1000)
        fail(c, NST_E_MODEL, "max_skip_count %lld, allowed: 0 to 1000", (long long)attr_i(c, "max_skip_count"));
    if (failed(c) || !read_grams(c, &g, &n, &place)) return;
    for (int64_t k = 0; k < n; k++) {
        if (place[k] < 0 || place[k] > INT32_MAX) fail(c, NST_E_MODEL, "ngram_indexes has %lld", (long long)place[k]);
        width = place[k] + 1 > width ? place[k] + 1 : width;
    }
    if (w && (int64_t)w->n != n) fail(c, NST_E_MODEL, "weights has %zu entries, allowed: %lld", w->n, (long long)n);
    x = convert(c, handles(c, flat ? insert_axis(c, x, 0) : x), NST_I64);
    V y = failed(c) ? x : count_all(c, x, &g);
    if (w && !tf) weights = nst_build_const(c->b, NST_F32, 1, &n, w->floats);
    if (idf) y = map(c, "min(a, 1)", y);
    if (weights.i) y = map(c, "a * b", y, weights);
    D shape[2] = {dim(c, y, 0), num(c, width)};
    V at = nst_build_const(c->b, NST_I64, 1, &n, place), zeros = expand(c, number(c, NST_F32, 0), 2, shape);
    if (failed(c)) return;
    y = nst_build_scatter(c->b, zeros, at, y, 1, false, "a + b", NST_INDEX_CHECKED);
    out(c, 0, flat ? drop_axis(c, y, 0) : y);
}
