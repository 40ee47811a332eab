/* dim_div.c: floordiv, mod, min and max: the rules that simplify them while they are built.
 *
 * floordiv and mod share their first step: the dividend is split into divisor * quotient + remainder, so that the two
 * see the same remainder and dim_sum.c can join them again.  Division by zero is a fault of evaluation, so every rule
 * may assume a divisor that is not 0. */
#include "ir/dim_impl.h"

static NstDim div_const(NstDims *dims, NstDim a, int64_t c, int depth);
static NstDim mod_const(NstDims *dims, NstDim a, int64_t c, int depth);

/* Nesting of rules through one another; past it nodes stay as they are. */
#define MAX_RULE_DEPTH 12

static NstDim raw(NstDims *dims, NstDimOp op, NstDim a, int64_t c)
{
    return nst_dim_binary(dims, op, a, nst_dim_const(dims, c));
}

static int64_t multiple_of(NstDims *dims, NstDim dim)
{
    NstDimEntry *entry = nst_dim_entry(dims, dim);
    nst_dim_refresh(dims, entry);
    return entry->multiple;
}

/* The largest known divisor of a term, capped. */
static int64_t term_multiple(NstDims *dims, NstDimTerm term)
{
    int64_t multiple;
    if (__builtin_mul_overflow(term.coef, multiple_of(dims, term.atom), &multiple)) multiple = term.coef;
    return nst_gcd_i64(multiple, 0);
}

/* What division by a constant c > 0 splits a into: a = c*whole + exact + rest, where c divides every term of exact
 * (a coefficient below c times an atom with a known multiple), and rest.value is in [0, c). */
typedef struct Split {
    NstDimSum whole, exact, rest;
} Split;

static void split_by(NstDims *dims, Split *split, NstDim a, int64_t c)
{
    NstDimSum sum;
    nst_dim_to_sum(dims, a, &sum);
    split->whole.n = split->exact.n = split->rest.n = 0;
    split->exact.value = 0;
    split->whole.value = nst_floordiv_i64(sum.value, c);
    split->rest.value = nst_mod_i64(sum.value, c);
    for (uint32_t k = 0; k < sum.n; k++) {
        NstDim atom = sum.at[k].atom;
        int64_t whole = sum.at[k].coef / c, part = sum.at[k].coef % c;
        if (whole != 0) split->whole.at[split->whole.n++] = (NstDimTerm){atom, whole};
        if (part == 0) continue;
        NstDimSum *to = term_multiple(dims, (NstDimTerm){atom, part}) % c == 0 ? &split->exact : &split->rest;
        to->at[to->n++] = (NstDimTerm){atom, part};
    }
}

/* If floordiv(x, g) is one number for all x in the sum's bounds, that number. */
static bool one_quotient(NstDims *dims, const NstDimSum *sum, int64_t g, int64_t *quotient)
{
    int64_t lo, hi;
    nst_dim_bounds(dims, nst_dim_from_sum(dims, sum), &lo, &hi);
    if (lo == INT64_MIN || hi == INT64_MAX) return false;
    *quotient = nst_floordiv_i64(lo, g);
    return nst_floordiv_i64(hi, g) == *quotient;
}

/* rest = g * high + low with low in [0, g): then floordiv(rest, g*d) = floordiv(high, d) and
 * mod(rest, g*d) = g * mod(high, d) + low.  `scaled`: high was divided by g; otherwise high is g times that. */
typedef struct Halves {
    int64_t g;
    bool scaled;
    NstDim high, low;
} Halves;

static bool halve_at(NstDims *dims, const NstDimSum *rest, int64_t g, Halves *out)
{
    NstDimSum high, low;
    nst_dim_sum_start(&high, rest->value - rest->value % g);
    nst_dim_sum_start(&low, rest->value % g);
    bool scaled = true;
    for (uint32_t k = 0; k < rest->n; k++) {
        bool divisible = term_multiple(dims, rest->at[k]) % g == 0;
        if (divisible && rest->at[k].coef % g != 0) scaled = false;
        NstDimSum *to = divisible ? &high : &low;
        to->at[to->n++] = rest->at[k];
    }
    int64_t quotient;
    if (high.n == 0 || !one_quotient(dims, &low, g, &quotient)) return false;
    if (!scaled && low.n == 0 && low.value == 0) return false; /* nothing gained */
    if (__builtin_mul_overflow(quotient, g, &quotient) || __builtin_add_overflow(high.value, quotient, &high.value) ||
        __builtin_sub_overflow(low.value, quotient, &low.value))
        return false;
    if (scaled) {
        high.value /= g;
        for (uint32_t k = 0; k < high.n; k++) high.at[k].coef /= g;
    }
    *out = (Halves){g, scaled, nst_dim_from_sum(dims, &high), nst_dim_from_sum(dims, &low)};
    return true;
}

/* Tries every g that divides c and some term, largest first. */
static bool halve(NstDims *dims, const NstDimSum *rest, int64_t c, Halves *out)
{
    int64_t last = c;
    for (;;) {
        int64_t best = 1;
        for (uint32_t k = 0; k < rest->n; k++) {
            int64_t g = nst_gcd_i64(term_multiple(dims, rest->at[k]), c);
            if (g < last && g > best) best = g;
        }
        if (best == 1) return false;
        if (halve_at(dims, rest, best, out)) return true;
        last = best;
    }
}

/* -- floordiv by a constant -- */

/* floordiv(floordiv(x, d) + t, c) = floordiv(x + d*t, d*c), and for -floordiv(x, d) through its ceiling. */
static bool merge_division(NstDims *dims, const NstDimSum *rest, int64_t c, NstDim *dividend, int64_t *divisor)
{
    for (uint32_t k = 0; k < rest->n; k++) {
        const NstDimNode *node = nst_dim_node(dims, rest->at[k].atom);
        int64_t d, coef = rest->at[k].coef;
        if (node->op != NST_DIM_FLOORDIV || (coef != 1 && coef != -1)) continue;
        if (!nst_dim_is_const(dims, node->arg[1], &d) || d <= 1 || __builtin_mul_overflow(d, c, divisor)) continue;
        NstDimSum sum;
        nst_dim_sum_start(&sum, 0);
        if (!nst_dim_sum_add(dims, &sum, node->arg[0], coef)) continue;
        if (coef < 0 && __builtin_add_overflow(sum.value, d - 1, &sum.value)) continue;
        NstDimSum others = *rest;
        memmove(&others.at[k], &others.at[k + 1], (others.n - k - 1) * sizeof others.at[0]);
        others.n--;
        if (!nst_dim_sum_add(dims, &sum, nst_dim_from_sum(dims, &others), d)) continue;
        *dividend = nst_dim_from_sum(dims, &sum);
        return true;
    }
    return false;
}

/* floordiv(rest, c) with every easy part taken out of rest already. */
static NstDim div_rest(NstDims *dims, const NstDimSum *rest, int64_t c, int depth)
{
    int64_t quotient, divisor, modulus;
    Halves halves;
    NstDim dividend = nst_dim_from_sum(dims, rest);
    if (one_quotient(dims, rest, c, &quotient)) return nst_dim_const(dims, quotient);
    if (depth >= MAX_RULE_DEPTH) return raw(dims, NST_DIM_FLOORDIV, dividend, c);
    if (halve(dims, rest, c, &halves)) return div_const(dims, halves.high, halves.scaled ? c / halves.g : c, depth + 1);
    NstDim merged;
    if (merge_division(dims, rest, c, &merged, &divisor)) return div_const(dims, merged, divisor, depth + 1);
    const NstDimNode *node = nst_dim_node(dims, dividend);
    if (node->op == NST_DIM_MOD && nst_dim_is_const(dims, node->arg[1], &modulus) && modulus > 0 && modulus % c == 0)
        return mod_const(dims, div_const(dims, node->arg[0], c, depth + 1), modulus / c, depth + 1);
    return raw(dims, NST_DIM_FLOORDIV, dividend, c);
}

/* sum += floordiv(coef * atom, c), where c divides coef * atom. */
static bool add_exact(NstDims *dims, NstDimSum *sum, NstDimTerm term, int64_t c)
{
    int64_t g = nst_gcd_i64(term.coef, c);
    NstDim quotient = raw(dims, NST_DIM_FLOORDIV, term.atom, c / g);
    const NstDimNode *node = nst_dim_node(dims, term.atom);
    int64_t divisor;
    if (node->op == NST_DIM_FLOORDIV && nst_dim_is_const(dims, node->arg[1], &divisor) && divisor > 0 &&
        !__builtin_mul_overflow(divisor, c / g, &divisor))
        quotient = div_const(dims, node->arg[0], divisor, MAX_RULE_DEPTH);
    return nst_dim_sum_add(dims, sum, quotient, term.coef / g);
}

/* floordiv(a, c), c > 0. */
static NstDim div_const(NstDims *dims, NstDim a, int64_t c, int depth)
{
    if (c == 1) return a;
    Split split;
    split_by(dims, &split, a, c);
    NstDimSum sum = split.whole;
    for (uint32_t k = 0; k < split.exact.n; k++)
        if (!add_exact(dims, &sum, split.exact.at[k], c)) return raw(dims, NST_DIM_FLOORDIV, a, c);
    if (split.rest.n == 0) return nst_dim_from_sum(dims, &sum);
    if (!nst_dim_sum_add(dims, &sum, div_rest(dims, &split.rest, c, depth), 1))
        return raw(dims, NST_DIM_FLOORDIV, a, c);
    return nst_dim_from_sum(dims, &sum);
}

/* -- mod by a constant -- */

/* k*mod(x, e) is k*x modulo c when c divides k*e. */
static bool open_mods(NstDims *dims, const NstDimSum *rest, int64_t c, NstDim *opened)
{
    NstDimSum sum;
    nst_dim_sum_start(&sum, rest->value);
    bool changed = false;
    for (uint32_t k = 0; k < rest->n; k++) {
        const NstDimNode *node = nst_dim_node(dims, rest->at[k].atom);
        int64_t modulus, scaled;
        bool open = node->op == NST_DIM_MOD && nst_dim_is_const(dims, node->arg[1], &modulus) && modulus != 0 &&
                    !__builtin_mul_overflow(modulus, rest->at[k].coef, &scaled) && scaled % c == 0;
        changed |= open;
        if (!nst_dim_sum_add(dims, &sum, open ? node->arg[0] : rest->at[k].atom, rest->at[k].coef)) return false;
    }
    if (changed) *opened = nst_dim_from_sum(dims, &sum);
    return changed;
}

/* mod(a, c), c > 0. */
static NstDim mod_const(NstDims *dims, NstDim a, int64_t c, int depth)
{
    if (c == 1) return nst_dim_const(dims, 0);
    Split split;
    int64_t quotient;
    Halves halves;
    NstDim opened;
    split_by(dims, &split, a, c);
    if (split.rest.n == 0) return nst_dim_const(dims, split.rest.value);
    NstDim dividend = nst_dim_from_sum(dims, &split.rest);
    if (one_quotient(dims, &split.rest, c, &quotient) && !__builtin_mul_overflow(quotient, c, &quotient) &&
        quotient != INT64_MIN)
        return nst_dim_add_const(dims, dividend, -quotient);
    if (depth >= MAX_RULE_DEPTH) return raw(dims, NST_DIM_MOD, dividend, c);
    if (open_mods(dims, &split.rest, c, &opened)) return mod_const(dims, opened, c, depth + 1);
    if (halve(dims, &split.rest, c, &halves)) {
        NstDim high = mod_const(dims, halves.high, halves.scaled ? c / halves.g : c, depth + 1);
        if (halves.scaled) high = nst_dim_mul_const(dims, high, halves.g);
        return nst_dim_add(dims, high, halves.low);
    }
    return raw(dims, NST_DIM_MOD, dividend, c);
}

/* -- division by a symbolic divisor -- */

/* a = b*quotient + rest by division of polynomials, highest term first. */
static bool divide_sums(NstDims *dims, NstDim a, NstDim b, NstDim *quotient, NstDim *rest)
{
    NstDimSum dividend, divisor, result;
    nst_dim_sum_start(&result, 0);
    nst_dim_to_sum(dims, a, &dividend);
    nst_dim_to_sum(dims, b, &divisor);
    bool lone = divisor.n == 1 && divisor.value == 0, changed = false;
    NstDimTerm lead = divisor.at[0];
    for (uint32_t k = 0, steps = 0; k < dividend.n && steps < NST_DIM_MAX_TERMS; steps++) {
        NstDimTerm term = dividend.at[k];
        NstDim factor;
        int64_t coef = term.coef == INT64_MIN ? 0 : term.coef / lead.coef;
        if (coef == 0 || (!lone && term.coef % lead.coef != 0) ||
            !nst_dim_divide_atom(dims, term.atom, lead.atom, &factor)) {
            k++;
            continue;
        }
        NstDim product = nst_dim_mul(dims, factor, b);
        NstDimSum saved = dividend;
        if (!nst_dim_sum_add(dims, &dividend, product, -coef) || !nst_dim_sum_add(dims, &result, factor, coef)) {
            dividend = saved;
            break;
        }
        changed = true;
        /* A joining rule inside the product may have left the term in place: then go on behind it. */
        if (k < dividend.n && dividend.at[k].atom.i == term.atom.i) k++;
    }
    *quotient = nst_dim_from_sum(dims, &result);
    *rest = nst_dim_from_sum(dims, &dividend);
    return changed;
}

/* Divides all terms of both by what they share: constant content and symbols.  Gives the common factor. */
static bool cancel_common(NstDims *dims, NstDim *a, NstDim *b, NstDim *common)
{
    NstDimSum x, y;
    nst_dim_to_sum(dims, *a, &x);
    nst_dim_to_sum(dims, *b, &y);
    int64_t g = nst_gcd_i64(x.value, y.value);
    for (uint32_t k = 0; k < x.n; k++) g = nst_gcd_i64(x.at[k].coef, g);
    for (uint32_t k = 0; k < y.n; k++) g = nst_gcd_i64(y.at[k].coef, g);
    NstDim shared = nst_dim_const(dims, 1);
    const NstDim *factor;
    uint32_t n = x.value == 0 && y.value == 0 && y.n > 0 ? nst_dim_factors(dims, &y.at[0].atom, &factor) : 0;
    for (uint32_t j = 0; j < n; j++) {
        NstDim wider = nst_dim_mul_atoms(dims, shared, factor[j]), ignored;
        bool all = true;
        for (uint32_t k = 0; k < x.n && all; k++) all = nst_dim_divide_atom(dims, x.at[k].atom, wider, &ignored);
        for (uint32_t k = 0; k < y.n && all; k++) all = nst_dim_divide_atom(dims, y.at[k].atom, wider, &ignored);
        if (all) shared = wider;
    }
    int64_t one;
    bool plain = nst_dim_is_const(dims, shared, &one);
    if ((g <= 1 && plain) || g == 0) return false;
    NstDimSum *sums[2] = {&x, &y};
    NstDim *results[2] = {a, b};
    for (int s = 0; s < 2; s++) {
        NstDimSum reduced;
        nst_dim_sum_start(&reduced, sums[s]->value / g);
        for (uint32_t k = 0; k < sums[s]->n; k++) {
            NstDim atom = sums[s]->at[k].atom;
            if (!plain) (void)nst_dim_divide_atom(dims, atom, shared, &atom);
            if (!nst_dim_sum_add(dims, &reduced, atom, sums[s]->at[k].coef / g)) return false;
        }
        *results[s] = nst_dim_from_sum(dims, &reduced);
    }
    *common = nst_dim_mul_const(dims, shared, g);
    return true;
}

/* If rest is proven to be in [m*b, (m + 1)*b) for m = 0 or -1, that m. */
static bool prove_quotient(NstDims *dims, NstDim rest, NstDim b, int64_t *m)
{
    int64_t lo, hi;
    nst_dim_bounds(dims, rest, &lo, &hi);
    *m = hi < 0 ? -1 : 0;
    if (*m == 0)
        return nst_dim_prove_nonneg(dims, rest) &&
               nst_dim_prove_nonneg(dims, nst_dim_add_const(dims, nst_dim_sub(dims, b, rest), -1));
    return nst_dim_prove_nonneg(dims, nst_dim_add(dims, rest, b));
}

static NstDim div_symbolic(NstDims *dims, NstDim a, NstDim b, int depth);
static NstDim divide(NstDims *dims, NstDimOp op, NstDim a, NstDim b);

/* floordiv(rest, b) after the quotient was taken out; b >= 0 is proven if `positive`. */
static NstDim div_symbolic_rest(NstDims *dims, NstDim rest, NstDim b, bool positive, int depth)
{
    int64_t m;
    NstDim common;
    if (prove_quotient(dims, rest, b, &m)) return nst_dim_const(dims, m);
    if (depth >= MAX_RULE_DEPTH) return nst_dim_binary(dims, NST_DIM_FLOORDIV, rest, b);
    if (cancel_common(dims, &rest, &b, &common)) return div_symbolic(dims, rest, b, depth + 1);
    const NstDimNode *node = nst_dim_node(dims, rest);
    if (node->op == NST_DIM_FLOORDIV && positive) {
        NstDim product = nst_dim_mul(dims, node->arg[1], b);
        if (nst_dim_node(dims, product)->op != NST_DIM_PRODUCT || !nst_dim_entry(dims, product)->opaque)
            return div_symbolic(dims, node->arg[0], product, depth + 1);
    }
    return nst_dim_binary(dims, NST_DIM_FLOORDIV, rest, b);
}

static NstDim div_symbolic(NstDims *dims, NstDim a, NstDim b, int depth)
{
    int64_t c;
    NstDim quotient, rest;
    if (nst_dim_is_const(dims, b, &c)) return divide(dims, NST_DIM_FLOORDIV, a, b);
    if (!divide_sums(dims, a, b, &quotient, &rest)) {
        quotient = nst_dim_const(dims, 0);
        rest = a;
    }
    if (nst_dim_is_const(dims, rest, &c) && c == 0) return quotient;
    bool positive = nst_dim_prove_nonneg(dims, b) || nst_dim_prove_positive(dims, b, rest);
    return nst_dim_add(dims, quotient, div_symbolic_rest(dims, rest, b, positive, depth));
}

static NstDim mod_symbolic(NstDims *dims, NstDim a, NstDim b, int depth)
{
    int64_t c, m;
    NstDim quotient, rest, common;
    if (nst_dim_is_const(dims, b, &c)) return divide(dims, NST_DIM_MOD, a, b);
    if (!divide_sums(dims, a, b, &quotient, &rest)) rest = a;
    if (nst_dim_is_const(dims, rest, &c) && c == 0) return rest;
    if (prove_quotient(dims, rest, b, &m)) return m == 0 ? rest : nst_dim_add(dims, rest, b);
    if (depth >= MAX_RULE_DEPTH) return nst_dim_binary(dims, NST_DIM_MOD, rest, b);
    if (cancel_common(dims, &rest, &b, &common))
        return nst_dim_mul(dims, common, mod_symbolic(dims, rest, b, depth + 1));
    const NstDimNode *node = nst_dim_node(dims, rest);
    if (node->op == NST_DIM_MOD && divide_sums(dims, node->arg[1], b, &quotient, &common) &&
        nst_dim_is_const(dims, common, &c) && c == 0)
        return mod_symbolic(dims, node->arg[0], b, depth + 1);
    return nst_dim_binary(dims, NST_DIM_MOD, rest, b);
}

/* -- entry points -- */

static NstDim divide(NstDims *dims, NstDimOp op, NstDim a, NstDim b)
{
    int64_t x, c;
    bool div = op == NST_DIM_FLOORDIV;
    if (!nst_dim_is_const(dims, b, &c)) return div ? div_symbolic(dims, a, b, 0) : mod_symbolic(dims, a, b, 0);
    if (c == 0) return nst_dim_binary(dims, op, a, b);
    if (nst_dim_is_const(dims, a, &x) && !(x == INT64_MIN && c == -1))
        return nst_dim_const(dims, div ? nst_floordiv_i64(x, c) : nst_mod_i64(x, c));
    if (c > 0) return div ? div_const(dims, a, c, 0) : mod_const(dims, a, c, 0);
    if (c == INT64_MIN) return nst_dim_binary(dims, op, a, b);
    NstDim negated = nst_dim_mul_const(dims, a, -1);
    if (div) return div_const(dims, negated, -c, 0);
    return nst_dim_mul_const(dims, mod_const(dims, negated, -c, 0), -1);
}

static NstDim divide_cached(NstDims *dims, NstDimOp op, NstDim a, NstDim b)
{
    NstDim result;
    if (nst_dim_cache_get(dims, op, a, b, &result)) return result;
    result = divide(dims, op, a, b);
    nst_dim_cache_put(dims, op, a, b, result);
    return result;
}

NstDim nst_dim_floordiv(NstDims *dims, NstDim a, NstDim b)
{
    return divide_cached(dims, NST_DIM_FLOORDIV, a, b);
}

NstDim nst_dim_mod(NstDims *dims, NstDim a, NstDim b)
{
    return divide_cached(dims, NST_DIM_MOD, a, b);
}

NstDim nst_dim_ceildiv(NstDims *dims, NstDim a, NstDim b)
{
    int64_t x, c;
    if (nst_dim_is_const(dims, b, &c) && nst_dim_is_const(dims, a, &x) && c != 0 && !(x == INT64_MIN && c == -1))
        return nst_dim_const(dims, nst_floordiv_i64(x, c) + (x % c != 0));
    /* -floordiv(-a, b) is right for either sign of b; the other form is the one other rules know. */
    if (!nst_dim_prove_nonneg(dims, b) && !nst_dim_prove_positive(dims, b, a))
        return nst_dim_mul_const(dims, nst_dim_floordiv(dims, nst_dim_mul_const(dims, a, -1), b), -1);
    return nst_dim_floordiv(dims, nst_dim_add_const(dims, nst_dim_add(dims, a, b), -1), b);
}

/* Operands of nested MINs (or MAXs), at most NST_DIM_MAX_CHOICES. */
typedef struct Choices {
    uint32_t n;
    bool full;
    NstDim at[NST_DIM_MAX_CHOICES];
} Choices;

/* Adds a choice unless another makes it needless; drops those it makes needless. */
static void add_choice(NstDims *dims, Choices *choices, NstDimOp op, NstDim dim)
{
    NstDimCompare wins = op == NST_DIM_MIN ? NST_DIM_LE : NST_DIM_GE;
    uint32_t kept = 0;
    for (uint32_t k = 0; k < choices->n; k++)
        if (nst_dim_compare(dims, choices->at[k], wins, dim) == NST_TRUE) return;
    for (uint32_t k = 0; k < choices->n; k++)
        if (nst_dim_compare(dims, dim, wins, choices->at[k]) != NST_TRUE) choices->at[kept++] = choices->at[k];
    choices->n = kept;
    if (kept == NST_DIM_MAX_CHOICES) {
        choices->full = true;
        return;
    }
    while (kept > 0 && nst_dim_order(dims, choices->at[kept - 1], dim) > 0) {
        choices->at[kept] = choices->at[kept - 1];
        kept--;
    }
    choices->at[kept] = dim;
    choices->n++;
}

static void flatten_choices(NstDims *dims, Choices *choices, NstDimOp op, NstDim dim)
{
    const NstDimEntry *entry = nst_dim_entry(dims, dim);
    while (entry->node.op == op && !entry->opaque) {
        add_choice(dims, choices, op, entry->node.arg[0]);
        dim = entry->node.arg[1];
        entry = nst_dim_entry(dims, dim);
    }
    add_choice(dims, choices, op, dim);
}

static NstDim choose(NstDims *dims, NstDimOp op, NstDim a, NstDim b)
{
    NstDim result;
    if (a.i == b.i) return a;
    if (nst_dim_order(dims, a, b) > 0) {
        NstDim swap = a;
        a = b;
        b = swap;
    }
    if (nst_dim_cache_get(dims, op, a, b, &result)) return result;
    Choices choices = {0};
    flatten_choices(dims, &choices, op, a);
    flatten_choices(dims, &choices, op, b);
    if (choices.full) {
        NstDim arg[2] = {a, b};
        result = nst_dim_intern(dims, op, 2, arg, NULL, 0, true);
    } else {
        result = choices.at[choices.n - 1];
        for (uint32_t k = choices.n - 1; k-- > 0;) result = nst_dim_binary(dims, op, choices.at[k], result);
    }
    nst_dim_cache_put(dims, op, a, b, result);
    return result;
}

NstDim nst_dim_min(NstDims *dims, NstDim a, NstDim b)
{
    return choose(dims, NST_DIM_MIN, a, b);
}

NstDim nst_dim_max(NstDims *dims, NstDim a, NstDim b)
{
    return choose(dims, NST_DIM_MAX, a, b);
}
