/* matmul.c: matrix products.  Contractions keep the operands' layouts: transposes are labels. */
#include "frontend/lower.h"

#include <ctype.h>

/* Labels of the batch axes are c, d, e...; i, j, k are rows, columns and the summed axis of the matrices. */
static char batch_label(int k)
{
    return (char)("cdefghlmnopqrstu"[k]);
}

/* Takes away batch axes of extent 1 that the other operand has larger, and appends the labels of those that stay. */
static V drop_broadcast(NstLower *c, V x, V other, int batch, char *labels)
{
    int own = rank(c, x) - 2, theirs = rank(c, other) - 2, at = 0, axis = 0;
    V y = x;
    for (int k = 0; k < own; k++) {
        int same = k + (batch - own), j = same - (batch - theirs);
        bool one = is_num(c, dim(c, x, k), 1) && j >= 0 && !is_num(c, dim(c, other, j), 1);
        if (one)
            y = drop_axis(c, y, axis);
        else
            labels[at++] = batch_label(same), axis++;
    }
    labels[at] = '\0';
    return y;
}

/* x with those batch axes expanded that may have extent 1 where the other's have another. */
static V spread_batch(NstLower *c, V x, V other)
{
    int r = rank(c, x), less = r - rank(c, other);
    D shape[NST_MAX_RANK];
    bool open = false;
    for (int k = 0; k < r; k++) {
        D own = shape[k] = dim(c, x, k);
        if (k >= r - 2 || k < less || is_num(c, own, 1) || compare(c, own, NST_DIM_EQ, num(c, 1)) == NST_FALSE ||
            compare(c, own, NST_DIM_EQ, dim(c, other, k - less)) == NST_TRUE)
            continue;
        shape[k] = broadcast_extent(c, own, dim(c, other, k - less));
        open |= !nst_dim_same(own, shape[k]);
    }
    return open ? expand(c, x, r, shape) : x;
}

/* [..., i, k] x [k, j] is one product of all rows. */
static V rows_by_matrix(NstLower *c, V a, V b)
{
    int r = rank(c, a);
    D flat[2] = {product(c, a, 0, r - 1), dim(c, a, r - 1)}, shape[NST_MAX_RANK];
    for (int k = 0; k < r - 1; k++) shape[k] = dim(c, a, k);
    shape[r - 1] = dim(c, b, 1);
    return reshape(c, contract(c, "ik,kj->ij", reshape(c, a, 2, flat), b), r, shape);
}

/* A zero point or scale of one entry as a scalar; [..., M, 1] and [..., 1, N] of one batch as [M], [N]. */
static V as_vector(NstLower *c, V p)
{
    int64_t extent;
    for (int k = rank(c, p) - 1; k >= 0 && !failed(c); k--)
        if (rank(c, p) > 1 && known(c, dim(c, p, k), &extent) && extent == 1) p = drop_axis(c, p, k);
    if (rank(c, p) == 1 && is_num(c, dim(c, p, 0), 1)) p = drop_axis(c, p, 0);
    return rank(c, p) > 1 ? fail(c, NST_E_UNSUPPORTED, "scales or zero points of rank %d: not supported", rank(c, p))
                          : p;
}

/* Batched matrices, ranks at least 2.  Zero points only for integers (else none). */
static V matrices(NstLower *c, V a, V b, V a_zero, V b_zero)
{
    char la[NST_MAX_RANK + 3], lb[NST_MAX_RANK + 3], all[NST_MAX_RANK + 3];
    int ra = rank(c, a), rb = rank(c, b), batch = (ra > rb ? ra : rb) - 2;
    V wide = spread_batch(c, a, b), broad = spread_batch(c, b, a);
    V x = drop_broadcast(c, wide, broad, batch, la), z = drop_broadcast(c, broad, wide, batch, lb);
    for (int k = 0; k < batch; k++) all[k] = batch_label(k);
    all[batch] = '\0';
    strcat(la, "ik");
    strcat(lb, "kj");
    strcat(all, "ij");
    bool narrow = nst_dtype_info(dtype(c, a))->bytes == 1 && nst_dtype_is_int(dtype(c, a));
    return narrow ? contract_less(c, la, lb, all, x, a_zero, "i", z, b_zero, "j")
                  : contract(c, nst_format(c->arena, "%s,%s->%s", la, lb, all), x, z);
}

/* The product of any ranks: vectors become matrices. */
static V matrix_product(NstLower *c, V a, V b, V a_zero, V b_zero)
{
    int ra = rank(c, a), rb = rank(c, b);
    if (ra == 0 || rb == 0 || ra > 14 || rb > 14)
        return fail(c, NST_E_SHAPE, "A has rank %d, B %d, allowed: 1 to 14", ra, rb);
    if (ra == 1) a = insert_axis(c, a, 0);
    if (rb == 1) b = insert_axis(c, b, 1);
    if (failed(c)) return (V){0};
    bool flat = rank(c, b) == 2 && rank(c, a) > 2 && nst_dtype_is_float(dtype(c, a));
    V y = flat ? rows_by_matrix(c, a, b) : matrices(c, a, b, a_zero, b_zero);
    if (rb == 1) y = drop_axis(c, y, rank(c, y) - 1);
    if (ra == 1) y = drop_axis(c, y, rank(c, y) - (rb == 1 ? 1 : 2));
    return y;
}

LOWER(matmul)
{
    out(c, 0, matrix_product(c, in(c, 0), in(c, 1), (V){0}, (V){0}));
}

static V optional_vector(NstLower *c, V p)
{
    return p.i ? as_vector(c, p) : p;
}

LOWER(matmul_integer)
{
    out(c, 0, matrix_product(c, in(c, 0), in(c, 1), optional_vector(c, in(c, 2)), optional_vector(c, in(c, 3))));
}

/* a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero */
LOWER(qlinear_matmul)
{
    V a = in(c, 0), a_scale = as_vector(c, in(c, 1)), b_scale = as_vector(c, in(c, 4)),
      y_scale = as_vector(c, in(c, 6));
    if (nst_dtype_is_float(dtype(c, a))) fail(c, NST_E_UNSUPPORTED, "on 8-bit floats: not supported");
    V sum = matrix_product(c, a, in(c, 3), as_vector(c, in(c, 2)), as_vector(c, in(c, 5)));
    if (rank(c, a_scale) == 1) a_scale = along(c, a_scale, rank(c, sum) - 2, rank(c, sum));
    V scale =
        map(c, "a * b / c", convert(c, a_scale, NST_F32), convert(c, b_scale, NST_F32), convert(c, y_scale, NST_F32));
    V y = map(c, "a * b", convert(c, sum, NST_F32), scale);
    out(c, 0, quantize_to(c, y, as_vector(c, in(c, 7)), dtype(c, in(c, 7))));
}

/* --- einsum ---------------------------------------------------------------------------------------------------- */

typedef struct Term {
    char label[NST_MAX_RANK + 1];
    int n;
} Term;

#define MAX_TERMS 4

/* One term of an equation of an operand of rank r: dots stand for the axes that have no letter, labelled from the end of
 * the alphabet of capitals. */
static const char *read_term(NstLower *c, const char *p, int r, Term *t)
{
    const char *end = p + strcspn(p, ",-");
    int letters = 0, dots = -1;
    t->n = 0;
    for (const char *q = p; q < end; q++) letters += isalpha((unsigned char)*q) != 0;
    for (; p < end; p++) {
        if (*p == ' ') continue;
        bool is_dots = p[0] == '.' && p[1] == '.' && p[2] == '.' && dots < 0;
        if (!is_dots && !isalpha((unsigned char)*p))
            fail(c, NST_E_MODEL, "equation '%s': '%c' is no label", attr_s(c, "equation"), *p);
        dots = is_dots ? r - letters : 0;
        for (int k = 0; is_dots && k < dots && t->n < NST_MAX_RANK; k++)
            t->label[t->n++] = (char)('Z' - (dots - 1 - k));
        if (is_dots) p += 2;
        if (!is_dots && t->n < NST_MAX_RANK) t->label[t->n++] = *p;
        if (failed(c)) break;
    }
    t->label[t->n] = '\0';
    if (!failed(c) && t->n != r)
        fail(c, NST_E_SHAPE, "equation '%s' has a term of %d labels for an input of rank %d", attr_s(c, "equation"),
             t->n, r);
    return end;
}

/* Labels of an implicit result: dots first, then what stands in one place only, in order. */
static void implicit_result(const Term *term, int n, Term *to)
{
    int count[128] = {0};
    for (int k = 0; k < n; k++)
        for (int j = 0; j < term[k].n; j++) count[(int)term[k].label[j]]++;
    to->n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int l = 0; l < 128; l++) {
            bool is_dots = l > 'Z' - NST_MAX_RANK && l <= 'Z';
            if (to->n < NST_MAX_RANK && (pass == 0 ? is_dots && count[l] : !is_dots && count[l] == 1))
                to->label[to->n++] = (char)l;
        }
    to->label[to->n] = '\0';
}

/* An operand without its axes of extent 1 that others have larger. */
static V drop_ones(NstLower *c, const Term *all, const V *x, int n, int k, Term *t)
{
    V y = x[k];
    for (int j = t->n - 1; j >= 0; j--) {
        bool larger = false;
        for (int o = 0; o < n; o++)
            for (int a = 0; a < all[o].n; a++)
                larger = larger || (o != k && all[o].label[a] == t->label[j] && !is_num(c, dim(c, x[o], a), 1));
        if (!larger || !is_num(c, dim(c, x[k], j), 1)) continue;
        y = drop_axis(c, y, j);
        memmove(t->label + j, t->label + j + 1, (size_t)(t->n - j));
        t->n--;
    }
    return y;
}

/* x with one axis for each label: of two axes with one label the diagonal stays. */
static V diagonals(NstLower *c, V x, Term *t)
{
    for (int i = 0; i < t->n && !failed(c); i++) {
        const char *again = strchr(t->label + i + 1, t->label[i]);
        if (!again) continue;
        int j = (int)(again - t->label), order[NST_MAX_RANK], back[NST_MAX_RANK], r = rank(c, x);
        order[0] = i;
        order[1] = j;
        for (int k = 0, at = 2; k < r; k++)
            if (k != i && k != j) order[at++] = k;
        V own = permute(c, x, order); /* [n, n, ...] */
        nst_build_require_equal(c->b, dim(c, own, 0), dim(c, own, 1),
                                nst_format(c->arena, "%s: axes of label %c", c->label, *again));
        own = failed(c) ? own
                        : nst_build_gather(c->b, own, nst_build_iota(c->b, dim(c, own, 0)), 1, 1, NST_INDEX_CHECKED);
        for (int k = 0, at = 1; k < r - 1; k++) back[k] = k == i ? 0 : at++;
        x = permute(c, own, back);
        memmove(t->label + j, t->label + j + 1, (size_t)(t->n - j));
        t->n--;
        i--;
    }
    return x;
}

LOWER(einsum)
{
    Term term[MAX_TERMS], own[MAX_TERMS], to;
    const char *p = attr_s(c, "equation");
    int n = c->n_ins;
    V x[MAX_TERMS];
    if (n > MAX_TERMS) fail(c, NST_E_UNSUPPORTED, "%d operands: not supported, allowed: at most %d", n, MAX_TERMS);
    for (int k = 0; k < n && !failed(c); k++) {
        p = read_term(c, p, rank(c, in(c, k)), &term[k]);
        c->ins[k] = diagonals(c, in(c, k), &term[k]);
        if (*p == ',') p++;
    }
    if (failed(c)) return;
    implicit_result(term, n, &to);
    if (*p == '-') {
        Term dots = {.n = 0};
        for (int l = 0; l < to.n; l++)
            if (to.label[l] > 'Z' - NST_MAX_RANK && to.label[l] <= 'Z') dots.n++;
        const char *text = p + 2;
        int letters = 0;
        for (const char *q = text; *q; q++) letters += isalpha((unsigned char)*q) != 0;
        (void)read_term(c, text, letters + (strchr(text, '.') ? dots.n : 0), &to);
    }
    if (n == 1) x[n] = number(c, dtype(c, in(c, 0)), 1), term[n++] = (Term){.n = 0};
    const char *equation = "";
    for (int k = 0; k < n && !failed(c); k++) {
        x[k] = k < c->n_ins ? in(c, k) : x[k];
        own[k] = term[k];
    }
    for (int k = 0; k < n && !failed(c); k++) {
        V in_k = drop_ones(c, term, x, n, k, &own[k]);
        equation = nst_format(c->arena, "%s%s%s", equation, k ? "," : "", own[k].label);
        c->ins[k] = in_k;
    }
    if (!failed(c))
        out(c, 0,
            nst_build_contract(c->b, nst_format(c->arena, "%s->%s", equation, to.label), (uint32_t)n, c->ins,
                               NST_DTYPE_NONE));
}

/* alpha * A' B' + beta * C */
LOWER(gemm)
{
    bool ta = attr_i(c, "transA") != 0, tb = attr_i(c, "transB") != 0;
    V a = in(c, 0), y;
    NstDtype own = dtype(c, a);
    if (rank(c, a) != 2 || rank(c, in(c, 1)) != 2)
        fail(c, NST_E_SHAPE, "A has rank %d, B %d, allowed: 2", rank(c, a), rank(c, in(c, 1)));
    y = contract(c, nst_format(c->arena, "%s,%s->ij", ta ? "ki" : "ik", tb ? "jk" : "kj"), a, in(c, 1));
    if (attr_f(c, "alpha") != 1) y = map(c, "a * b", y, number(c, own, attr_f(c, "alpha")));
    if (has(c, 2) && attr_f(c, "beta") != 0)
        y = attr_f(c, "beta") == 1 ? map(c, "a + b", y, in(c, 2))
                                   : map(c, "a + b * c", y, in(c, 2), number(c, own, attr_f(c, "beta")));
    out(c, 0, y);
}
