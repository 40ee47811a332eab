/* dim_sum.c: sums and products in normal form, and the rules that join floordiv and mod terms of one sum.
 *
 * A sum is a sorted list of coefficient * atom.  Adding is a merge, multiplying expands.  Cost is linear in the terms
 * (quadratic for products of two sums), and both are capped. */
#include "ir/dim_impl.h"

void nst_dim_to_sum(const NstDims *dims, NstDim dim, NstDimSum *sum)
{
    const NstDimEntry *entry = nst_dim_entry(dims, dim);
    sum->value = 0;
    sum->n = 0;
    if (entry->node.op == NST_DIM_CONST) {
        sum->value = entry->node.value;
    } else if (nst_dim_is_sum(entry)) {
        sum->value = entry->node.value;
        sum->n = entry->node.n;
        for (uint32_t k = 0; k < sum->n; k++) sum->at[k] = (NstDimTerm){entry->node.arg[k], entry->node.coef[k]};
    } else {
        sum->n = 1;
        sum->at[0] = (NstDimTerm){dim, 1};
    }
}

int64_t nst_dim_sum_coef(const NstDimSum *sum, NstDim atom)
{
    for (uint32_t k = 0; k < sum->n; k++)
        if (sum->at[k].atom.i == atom.i) return sum->at[k].coef;
    return 0;
}

/* out = a + coef * b. */
static bool merge_sums(const NstDims *dims, NstDimSum *out, const NstDimSum *a, const NstDimSum *b, int64_t coef)
{
    int64_t scaled;
    if (__builtin_mul_overflow(b->value, coef, &scaled) || __builtin_add_overflow(a->value, scaled, &out->value))
        return false;
    out->n = 0;
    for (uint32_t i = 0, j = 0; i < a->n || j < b->n;) {
        int order = i == a->n ? 1 : j == b->n ? -1 : nst_dim_order(dims, a->at[i].atom, b->at[j].atom);
        NstDimTerm term = order <= 0 ? a->at[i] : (NstDimTerm){b->at[j].atom, 0};
        if (order >= 0) {
            if (__builtin_mul_overflow(b->at[j].coef, coef, &scaled) ||
                __builtin_add_overflow(term.coef, scaled, &term.coef))
                return false;
            j++;
        }
        if (order <= 0) i++;
        if (term.coef == 0) continue;
        if (out->n == NST_DIM_MAX_TERMS) return false;
        out->at[out->n++] = term;
    }
    return true;
}

bool nst_dim_sum_add(const NstDims *dims, NstDimSum *sum, NstDim dim, int64_t coef)
{
    if (coef == 0) return true;
    NstDimSum other, left;
    nst_dim_to_sum(dims, dim, &other);
    left.value = sum->value;
    left.n = sum->n;
    memcpy(left.at, sum->at, sum->n * sizeof sum->at[0]);
    return merge_sums(dims, sum, &left, &other, coef);
}

bool nst_dim_single(const NstDims *dims, NstDim dim, NstDimTerm *term)
{
    const NstDimEntry *entry = nst_dim_entry(dims, dim);
    if (entry->node.op == NST_DIM_CONST) return false;
    *term = (NstDimTerm){dim, 1};
    if (!nst_dim_is_sum(entry)) return true;
    if (entry->node.n != 1 || entry->node.value != 0) return false;
    *term = (NstDimTerm){entry->node.arg[0], entry->node.coef[0]};
    return true;
}

/* -- rules that join terms -- */

/* True if the sum contains coef * dim term by term (the constant may differ). */
static bool contains(const NstDims *dims, const NstDimSum *sum, NstDim dim, int64_t coef)
{
    NstDimSum part;
    int64_t scaled;
    nst_dim_to_sum(dims, dim, &part);
    for (uint32_t k = 0; k < part.n; k++)
        if (__builtin_mul_overflow(part.at[k].coef, coef, &scaled) || nst_dim_sum_coef(sum, part.at[k].atom) != scaled)
            return false;
    return true;
}

/* sum += plus_coef * plus - minus_coef * minus, for rules: false leaves the sum as it was. */
static bool exchange(const NstDims *dims, NstDimSum *sum, NstDim minus, int64_t minus_coef, NstDim plus,
                     int64_t plus_coef)
{
    NstDimSum saved = *sum;
    if (minus_coef != INT64_MIN && nst_dim_sum_add(dims, sum, minus, -minus_coef) &&
        nst_dim_sum_add(dims, sum, plus, plus_coef))
        return true;
    *sum = saved;
    return false;
}

/* c * div, not joined itself. */
static NstDim plain_product(NstDims *dims, NstDim c, NstDim div)
{
    int depth = dims->combine_depth;
    dims->combine_depth = NST_DIM_NO_COMBINING;
    NstDim product = nst_dim_mul(dims, c, div);
    dims->combine_depth = depth;
    return product;
}

/* k*mod(x, c) + k*c*floordiv(x, c) = k*x. */
static bool join_mod_with_div(NstDims *dims, NstDimSum *sum, NstDimTerm mod)
{
    const NstDimNode *node = nst_dim_node(dims, mod.atom);
    NstDim div = nst_dim_find_binary(dims, NST_DIM_FLOORDIV, node->arg[0], node->arg[1]);
    if (div.i == 0) return false;
    NstDim whole = plain_product(dims, node->arg[1], div);
    if (!contains(dims, sum, whole, mod.coef)) return false;
    NstDimSum saved = *sum;
    if (exchange(dims, sum, whole, mod.coef, node->arg[0], mod.coef) &&
        exchange(dims, sum, mod.atom, mod.coef, mod.atom, 0))
        return true;
    *sum = saved;
    return false;
}

/* k*x - k*mod(x, c) = k*c*floordiv(x, c). */
static bool join_mod(NstDims *dims, NstDimSum *sum, NstDimTerm mod)
{
    NstDim x = nst_dim_node(dims, mod.atom)->arg[0], c = nst_dim_node(dims, mod.atom)->arg[1];
    if (mod.coef == INT64_MIN || !contains(dims, sum, x, -mod.coef)) return false;
    NstDim whole = plain_product(dims, c, nst_dim_floordiv(dims, x, c));
    NstDimSum saved = *sum;
    if (exchange(dims, sum, mod.atom, mod.coef, x, mod.coef) && exchange(dims, sum, mod.atom, 0, whole, -mod.coef))
        return true;
    *sum = saved;
    return false;
}

/* A factor of the atom that is a mod other than `except`; none if there is none. */
static NstDim find_mod(const NstDims *dims, NstDim atom, NstDim except)
{
    const NstDim *factor;
    uint32_t n = nst_dim_factors(dims, &atom, &factor);
    for (uint32_t k = 0; k < n; k++)
        if (factor[k].i != except.i && nst_dim_entry(dims, factor[k])->node.op == NST_DIM_MOD) return factor[k];
    return (NstDim){0};
}

static bool never_negative(NstDims *dims, NstDim dim)
{
    int64_t lo, hi;
    nst_dim_bounds(dims, dim, &lo, &hi);
    return lo >= 0;
}

/* For a, b > 0: k*mod(x, a) + k*a*mod(y, b) = k*mod(x + a*(y - floordiv(x, a)), a*b), if y contains floordiv(x, a). */
static bool join_mod_with_mod(NstDims *dims, NstDimSum *sum, NstDimTerm mod)
{
    const NstDimNode *node = nst_dim_node(dims, mod.atom);
    NstDim x = node->arg[0], a = node->arg[1], div = nst_dim_find_binary(dims, NST_DIM_FLOORDIV, x, a);
    if (div.i == 0 || !never_negative(dims, a)) return false;
    for (uint32_t k = 0; k < sum->n; k++) {
        NstDim other = find_mod(dims, sum->at[k].atom, mod.atom);
        NstDimSum inner;
        if (other.i == 0) continue;
        NstDim y = nst_dim_node(dims, other)->arg[0], b = nst_dim_node(dims, other)->arg[1];
        nst_dim_to_sum(dims, y, &inner);
        if (nst_dim_sum_coef(&inner, div) != 1 || !never_negative(dims, b)) continue;
        NstDim whole = plain_product(dims, a, other);
        if (!contains(dims, sum, whole, mod.coef)) continue;
        NstDim joined = nst_dim_add(dims, x, nst_dim_mul(dims, nst_dim_sub(dims, y, div), a));
        joined = nst_dim_mod(dims, joined, nst_dim_mul(dims, a, b));
        NstDimSum saved = *sum;
        if (exchange(dims, sum, mod.atom, mod.coef, joined, mod.coef) &&
            exchange(dims, sum, whole, mod.coef, joined, 0))
            return true;
        *sum = saved;
    }
    return false;
}

/* A term with exactly one FLOORDIV factor: coef * rest * floordiv(x, c). */
static bool find_division(const NstDims *dims, NstDim atom, NstDim *div)
{
    const NstDim *factor;
    uint32_t n = nst_dim_factors(dims, &atom, &factor), found = 0;
    for (uint32_t k = 0; k < n; k++)
        if (nst_dim_entry(dims, factor[k])->node.op == NST_DIM_FLOORDIV) {
            *div = factor[k];
            found++;
        }
    return found == 1;
}

/* k*x - k*c*floordiv(x, c) = k*mod(x, c), and k*c*floordiv(x, c) = k*x when c divides x. */
static bool join_div(NstDims *dims, NstDimSum *sum, NstDimTerm term)
{
    NstDim div;
    NstDimTerm whole;
    if (!find_division(dims, term.atom, &div)) return false;
    NstDim x = nst_dim_node(dims, div)->arg[0], c = nst_dim_node(dims, div)->arg[1];
    int64_t divisor, zero;
    if (nst_dim_is_const(dims, c, &zero) && zero == 0) return false;
    if (!nst_dim_single(dims, plain_product(dims, c, div), &whole) || whole.atom.i != term.atom.i) return false;
    if (whole.coef == 0 || term.coef % whole.coef != 0 || term.coef == INT64_MIN) return false;
    int64_t k = term.coef / whole.coef;
    if (nst_dim_is_const(dims, c, &divisor) && nst_dim_known_multiple(dims, x) % divisor == 0)
        return exchange(dims, sum, term.atom, term.coef, x, k);
    if (!contains(dims, sum, x, -k)) return false;
    NstDimSum saved = *sum;
    if (exchange(dims, sum, term.atom, term.coef, x, k) && nst_dim_sum_add(dims, sum, nst_dim_mod(dims, x, c), -k))
        return true;
    *sum = saved;
    return false;
}

/* Applies one rule; false if none applies. */
static bool combine_once(NstDims *dims, NstDimSum *sum)
{
    for (uint32_t k = 0; k < sum->n; k++) {
        NstDimTerm term = sum->at[k];
        NstDimOp op = nst_dim_entry(dims, term.atom)->node.op;
        if (op == NST_DIM_MOD &&
            (join_mod_with_div(dims, sum, term) || join_mod_with_mod(dims, sum, term) || join_mod(dims, sum, term)))
            return true;
        if ((op == NST_DIM_FLOORDIV || op == NST_DIM_PRODUCT) && join_div(dims, sum, term)) return true;
    }
    return false;
}

static bool wants_combining(const NstDims *dims, const NstDimSum *sum)
{
    for (uint32_t k = 0; k < sum->n; k++) {
        const NstDim *factor;
        uint32_t n = nst_dim_factors(dims, &sum->at[k].atom, &factor);
        for (uint32_t j = 0; j < n; j++) {
            NstDimOp op = nst_dim_entry(dims, factor[j])->node.op;
            if (op == NST_DIM_MOD || op == NST_DIM_FLOORDIV) return true;
        }
    }
    return false;
}

/* The sum as a dim, its terms taken as they are. */
static NstDim intern_sum(NstDims *dims, const NstDimSum *sum)
{
    if (sum->n == 0) return nst_dim_const(dims, sum->value);
    if (sum->n == 1 && sum->value == 0 && sum->at[0].coef == 1) return sum->at[0].atom;
    NstDim arg[NST_DIM_MAX_TERMS];
    int64_t coef[NST_DIM_MAX_TERMS];
    for (uint32_t k = 0; k < sum->n; k++) {
        arg[k] = sum->at[k].atom;
        coef[k] = sum->at[k].coef;
    }
    return nst_dim_intern(dims, NST_DIM_SUM, sum->n, arg, coef, sum->value, false);
}

NstDim nst_dim_from_sum(NstDims *dims, const NstDimSum *sum)
{
    if (dims->combine_depth >= NST_DIM_NO_COMBINING || !wants_combining(dims, sum)) return intern_sum(dims, sum);
    NstDimSum joined = *sum;
    dims->combine_depth++;
    for (uint32_t round = 0; round < NST_DIM_MAX_TERMS; round++)
        if (!combine_once(dims, &joined)) break;
    dims->combine_depth--;
    return intern_sum(dims, &joined);
}

/* -- addition and multiplication -- */

/* a op b kept as it is. */
static NstDim opaque_pair(NstDims *dims, NstDimOp op, NstDim a, NstDim b)
{
    static const int64_t ones[2] = {1, 1};
    NstDim arg[2] = {a, b};
    if (nst_dim_order(dims, a, b) > 0) {
        arg[0] = b;
        arg[1] = a;
    }
    return nst_dim_intern(dims, op, 2, arg, op == NST_DIM_SUM ? ones : NULL, 0, true);
}

/* a + coef * b. */
static NstDim add_scaled(NstDims *dims, NstDim a, NstDim b, int64_t coef)
{
    NstDimSum x, y, sum;
    nst_dim_to_sum(dims, a, &x);
    nst_dim_to_sum(dims, b, &y);
    if (merge_sums(dims, &sum, &x, &y, coef)) return nst_dim_from_sum(dims, &sum);
    /* What overflows when it is scaled is an atom, which may add up: as text of the result says it. */
    if (coef != 1) return add_scaled(dims, a, nst_dim_mul_const(dims, b, coef), 1);
    return opaque_pair(dims, NST_DIM_SUM, a, b);
}

NstDim nst_dim_add(NstDims *dims, NstDim a, NstDim b)
{
    return add_scaled(dims, a, b, 1);
}

NstDim nst_dim_sub(NstDims *dims, NstDim a, NstDim b)
{
    if (a.i == b.i) return nst_dim_const(dims, 0);
    return add_scaled(dims, a, b, -1);
}

NstDim nst_dim_add_const(NstDims *dims, NstDim a, int64_t b)
{
    return b == 0 ? a : add_scaled(dims, a, nst_dim_const(dims, b), 1);
}

NstDim nst_dim_mul_const(NstDims *dims, NstDim a, int64_t b)
{
    if (b == 1) return a;
    if (b == 0) return nst_dim_const(dims, 0);
    NstDimSum x, sum, zero;
    nst_dim_to_sum(dims, a, &x);
    zero.value = 0;
    zero.n = 0;
    if (merge_sums(dims, &sum, &zero, &x, b)) return nst_dim_from_sum(dims, &sum);
    return opaque_pair(dims, NST_DIM_PRODUCT, nst_dim_const(dims, b), a);
}

NstDim nst_dim_mul_atoms(NstDims *dims, NstDim a, NstDim b)
{
    int64_t value;
    if (nst_dim_is_const(dims, a, &value)) return nst_dim_mul_const(dims, b, value);
    if (nst_dim_is_const(dims, b, &value)) return nst_dim_mul_const(dims, a, value);
    const NstDim *x, *y;
    NstDim factor[NST_DIM_MAX_FACTORS];
    uint32_t n = nst_dim_factors(dims, &a, &x), m = nst_dim_factors(dims, &b, &y), k = 0;
    if (n + m > NST_DIM_MAX_FACTORS) return opaque_pair(dims, NST_DIM_PRODUCT, a, b);
    for (uint32_t i = 0, j = 0; i < n || j < m;)
        factor[k++] = j == m || (i < n && nst_dim_order(dims, x[i], y[j]) <= 0) ? x[i++] : y[j++];
    return nst_dim_intern(dims, NST_DIM_PRODUCT, k, factor, NULL, 0, false);
}

/* sum += coef * atom; false on overflow or past the cap. */
static bool insert_term(const NstDims *dims, NstDimSum *sum, NstDim atom, int64_t coef)
{
    uint32_t lo = 0, hi = sum->n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (nst_dim_order(dims, sum->at[mid].atom, atom) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < sum->n && sum->at[lo].atom.i == atom.i) {
        if (__builtin_add_overflow(sum->at[lo].coef, coef, &sum->at[lo].coef)) return false;
        if (sum->at[lo].coef != 0) return true;
        memmove(&sum->at[lo], &sum->at[lo + 1], (sum->n - lo - 1) * sizeof sum->at[0]);
        sum->n--;
        return true;
    }
    if (sum->n == NST_DIM_MAX_TERMS) return false;
    memmove(&sum->at[lo + 1], &sum->at[lo], (sum->n - lo) * sizeof sum->at[0]);
    sum->at[lo] = (NstDimTerm){atom, coef};
    sum->n++;
    return true;
}

/* out = x * y, expanded. */
static bool multiply_sums(NstDims *dims, NstDimSum *out, const NstDimSum *x, const NstDimSum *y)
{
    int64_t coef;
    out->n = 0;
    if (x->n * y->n > 4 * NST_DIM_MAX_TERMS) return false;
    if (__builtin_mul_overflow(x->value, y->value, &out->value)) return false;
    for (uint32_t i = 0; i < x->n; i++) {
        if (__builtin_mul_overflow(x->at[i].coef, y->value, &coef)) return false;
        if (coef != 0 && !insert_term(dims, out, x->at[i].atom, coef)) return false;
        for (uint32_t j = 0; j < y->n; j++) {
            if (__builtin_mul_overflow(x->at[i].coef, y->at[j].coef, &coef)) return false;
            NstDim product = nst_dim_mul_atoms(dims, x->at[i].atom, y->at[j].atom);
            if (nst_dim_entry(dims, product)->node.op == NST_DIM_PRODUCT || coef == 0) {
                if (!insert_term(dims, out, product, coef)) return false;
            } else if (!nst_dim_sum_add(dims, out, product, coef)) {
                return false;
            }
        }
    }
    for (uint32_t j = 0; j < y->n; j++) {
        if (__builtin_mul_overflow(x->value, y->at[j].coef, &coef)) return false;
        if (coef != 0 && !insert_term(dims, out, y->at[j].atom, coef)) return false;
    }
    return true;
}

NstDim nst_dim_mul(NstDims *dims, NstDim a, NstDim b)
{
    int64_t value;
    NstDimTerm x, y;
    if (nst_dim_is_const(dims, a, &value)) return nst_dim_mul_const(dims, b, value);
    if (nst_dim_is_const(dims, b, &value)) return nst_dim_mul_const(dims, a, value);
    if (nst_dim_single(dims, a, &x) && nst_dim_single(dims, b, &y) && !__builtin_mul_overflow(x.coef, y.coef, &value))
        return nst_dim_mul_const(dims, nst_dim_mul_atoms(dims, x.atom, y.atom), value);
    NstDimSum left, right, sum;
    nst_dim_to_sum(dims, a, &left);
    nst_dim_to_sum(dims, b, &right);
    if (multiply_sums(dims, &sum, &left, &right)) return nst_dim_from_sum(dims, &sum);
    return opaque_pair(dims, NST_DIM_PRODUCT, a, b);
}

bool nst_dim_divide_atom(NstDims *dims, NstDim atom, NstDim by, NstDim *quotient)
{
    const NstDim *x, *y;
    NstDim factor[NST_DIM_MAX_FACTORS];
    uint32_t n = nst_dim_factors(dims, &atom, &x), m = nst_dim_factors(dims, &by, &y), k = 0, j = 0;
    if (m > n) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (j < m && x[i].i == y[j].i)
            j++;
        else
            factor[k++] = x[i];
    }
    if (j < m) return false;
    if (k == 0)
        *quotient = nst_dim_const(dims, 1);
    else if (k == 1)
        *quotient = factor[0];
    else
        *quotient = nst_dim_intern(dims, NST_DIM_PRODUCT, k, factor, NULL, 0, false);
    return true;
}
