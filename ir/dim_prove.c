/* dim_prove.c: proofs of inequalities, comparison, assumed facts.
 *
 * One question, dim >= 0, carries all others.  If interval bounds do not answer it, an atom of the sum is replaced by
 * something that makes the sum no larger at every point: an index by its symbolic bound, a floordiv by the two
 * inequalities that define it, a min or max by its operands; what remains is asked again.  The innermost index goes
 * first, because its bounds speak of the outer ones.  Steps are counted, so a proof costs at most MAX_STEPS small
 * sums. */
#include "ir/dim_impl.h"

#define MAX_STEPS       64
#define MAX_PROOF_DEPTH 12
/* Proofs started by the construction of a dim inside a proof: deeper than this they answer no. */
#define MAX_NESTED_PROOFS 2
/* Nodes looked at by one walk of a proof. */
#define MAX_VISITS 256
/* Assumed inequalities tried. */
#define MAX_ASSUMED 16

typedef struct NstDimProof {
    NstDims *dims;
    int steps; /* left; a proof inside this one draws on them */
} Proof;

static bool nonneg(Proof *p, NstDim dim, int depth);

static bool bounded_nonneg(NstDims *dims, NstDim dim)
{
    int64_t lo, hi;
    nst_dim_bounds(dims, dim, &lo, &hi);
    return lo >= 0;
}

static NstDim constant(NstDims *dims, int64_t value)
{
    return nst_dim_const(dims, value);
}

/* dim = coef * atom + rest, atom not a factor of coef or of the terms of rest (it may be inside their atoms). */
static bool split_atom(NstDims *dims, NstDim dim, NstDim atom, NstDim *coef, NstDim *rest)
{
    NstDimSum terms, left, factor;
    nst_dim_to_sum(dims, dim, &terms);
    nst_dim_sum_start(&left, terms.value);
    nst_dim_sum_start(&factor, 0);
    for (uint32_t k = 0; k < terms.n; k++) {
        NstDim quotient, again;
        if (!nst_dim_divide_atom(dims, terms.at[k].atom, atom, &quotient)) {
            left.at[left.n++] = terms.at[k];
            continue;
        }
        if (nst_dim_divide_atom(dims, quotient, atom, &again)) return false;
        if (!nst_dim_sum_add(dims, &factor, quotient, terms.at[k].coef)) return false;
    }
    *coef = nst_dim_from_sum(dims, &factor);
    *rest = nst_dim_from_sum(dims, &left);
    return true;
}

/* coef * value + rest >= 0? */
static bool replaced(Proof *p, NstDim coef, NstDim value, NstDim rest, int depth)
{
    return nonneg(p, nst_dim_add(p->dims, nst_dim_mul(p->dims, coef, value), rest), depth - 1);
}

/* -- directions: how a dim moves with an index -- */

typedef enum Direction { FLAT = 0, UP = 1, DOWN = 2, MIXED = 3 } Direction;

static Direction flip(Direction d)
{
    return d == UP ? DOWN : d == DOWN ? UP : d;
}

/* `visits` bounds the walk: shared parts are seen once a use. */
static Direction direction(NstDims *dims, NstDim dim, NstSym sym, int *visits)
{
    const NstDimEntry *entry = nst_dim_entry(dims, dim);
    const NstDimNode *node = &entry->node;
    int64_t lo, hi;
    if (!nst_dim_may_use(entry, sym)) return FLAT;
    if (--*visits < 0) return MIXED;
    int result = FLAT;
    switch (node->op) {
    case NST_DIM_CONST: return FLAT;
    case NST_DIM_SYM: return node->sym.i == sym.i ? UP : FLAT;
    case NST_DIM_SUM:
        for (uint32_t k = 0; k < node->n && result != MIXED; k++) {
            Direction part = direction(dims, node->arg[k], sym, visits);
            result |= node->coef[k] < 0 ? flip(part) : part;
        }
        return (Direction)result;
    case NST_DIM_PRODUCT:
        for (uint32_t k = 0; k < node->n && result != MIXED; k++) {
            nst_dim_bounds(dims, node->arg[k], &lo, &hi);
            if (lo < 0) return nst_dim_uses(dims, dim, sym) ? MIXED : FLAT;
            result |= direction(dims, node->arg[k], sym, visits);
        }
        return (Direction)result;
    case NST_DIM_FLOORDIV:
        nst_dim_bounds(dims, node->arg[1], &lo, &hi);
        if (lo >= 0 && direction(dims, node->arg[1], sym, visits) == FLAT)
            return direction(dims, node->arg[0], sym, visits);
        return MIXED;
    case NST_DIM_MOD: return nst_dim_uses(dims, dim, sym) ? MIXED : FLAT;
    case NST_DIM_MIN:
    case NST_DIM_MAX: break;
    }
    return (Direction)(direction(dims, node->arg[0], sym, visits) | direction(dims, node->arg[1], sym, visits));
}

/* -- elimination of one atom -- */

/* A symbol at its symbolic, else its constant, extreme. */
static bool eliminate_symbol(Proof *p, NstDim dim, NstSym sym, int depth)
{
    NstDims *dims = p->dims;
    const NstSymInfo *info = nst_dims_sym_info(dims, sym);
    NstDim coef, rest;
    int visits = MAX_VISITS;
    Direction way = direction(dims, dim, sym, &visits);
    NstDim bound = way == UP ? info->lo_dim : info->hi_dim;
    if (way == FLAT) return false;
    if (way != MIXED) {
        if (bound.i != 0 && nonneg(p, nst_dim_subst(dims, dim, sym, bound), depth - 1)) return true;
        int64_t value = way == UP ? info->lo : info->hi;
        return value != INT64_MIN && value != INT64_MAX &&
               nonneg(p, nst_dim_subst(dims, dim, sym, constant(dims, value)), depth - 1);
    }
    if (!split_atom(dims, dim, nst_dim_sym(dims, sym), &coef, &rest)) return false;
    int64_t zero;
    if (nst_dim_is_const(dims, coef, &zero) && zero == 0) return false;
    bool up = nonneg(p, coef, depth - 2);
    if (!up && !nonneg(p, nst_dim_mul_const(dims, coef, -1), depth - 2)) return false;
    bound = up ? info->lo_dim : info->hi_dim;
    if (bound.i != 0 && replaced(p, coef, bound, rest, depth)) return true;
    int64_t value = up ? info->lo : info->hi;
    return value != INT64_MIN && value != INT64_MAX && replaced(p, coef, constant(dims, value), rest, depth);
}

/* min(a, b) is one of the two; it is at most either. */
static bool eliminate_choice(Proof *p, NstDim coef, NstDim atom, NstDim rest, bool up, int depth)
{
    const NstDimNode *node = nst_dim_node(p->dims, atom);
    NstDim a = node->arg[0], b = node->arg[1];
    if ((node->op == NST_DIM_MIN) == up) return replaced(p, coef, a, rest, depth) && replaced(p, coef, b, rest, depth);
    return replaced(p, coef, a, rest, depth) || replaced(p, coef, b, rest, depth);
}

/* For c > 0: 0 <= mod(x, c) <= c - 1, mod(x, c) <= x if x >= 0, mod(x, c) = x - c*floordiv(x, c). */
static bool eliminate_mod(Proof *p, NstDim coef, NstDim atom, NstDim rest, bool up, int depth)
{
    NstDims *dims = p->dims;
    NstDim x = nst_dim_node(dims, atom)->arg[0], c = nst_dim_node(dims, atom)->arg[1];
    if (!nonneg(p, c, depth - 2)) return false;
    if (up && replaced(p, coef, constant(dims, 0), rest, depth)) return true;
    if (!up && replaced(p, coef, nst_dim_add_const(dims, c, -1), rest, depth)) return true;
    if (!up && nonneg(p, x, depth - 2) && replaced(p, coef, x, rest, depth)) return true;
    /* The exact form, written so that no rule joins it again: through the inequalities of the quotient. */
    NstDim div = nst_dim_floordiv(dims, x, c), div_coef, div_rest;
    if (!split_atom(dims, rest, div, &div_coef, &div_rest)) return false;
    int64_t zero;
    if (nst_dim_is_const(dims, div_coef, &zero) && zero == 0) return false;
    NstDim total = nst_dim_sub(dims, div_coef, nst_dim_mul(dims, coef, c));
    return nonneg(
        p, nst_dim_add(dims, nst_dim_add(dims, nst_dim_mul(dims, coef, x), nst_dim_mul(dims, total, div)), div_rest),
        depth - 1);
}

/* For c > 0: x - c + 1 <= c*floordiv(x, c) <= x, and floordiv(x, c) <= x if x >= 0. */
static bool eliminate_div(Proof *p, NstDim coef, NstDim atom, NstDim rest, bool up, int depth)
{
    NstDims *dims = p->dims;
    NstDim x = nst_dim_node(dims, atom)->arg[0], c = nst_dim_node(dims, atom)->arg[1];
    NstDim bound = up ? nst_dim_add_const(dims, nst_dim_sub(dims, x, c), 1) : x;
    int64_t divisor, k;
    if (nst_dim_is_const(dims, c, &divisor) && nst_dim_is_const(dims, coef, &k)) {
        if (divisor <= 0) return false;
        /* dim >= 0 iff m*dim >= -(m - 1), and m*coef is a multiple of c. */
        int64_t m = divisor / nst_gcd_i64(divisor, k);
        NstDim scaled = nst_dim_add_const(dims, nst_dim_mul_const(dims, rest, m), m - 1);
        return replaced(p, constant(dims, k / nst_gcd_i64(divisor, k)), bound, scaled, depth);
    }
    if (!nonneg(p, c, depth - 2)) return false;
    /* A symbolic c has to be a factor of the coefficient. */
    NstDim factor = nst_dim_floordiv(dims, coef, c);
    if (nst_dim_mul(dims, factor, c).i == coef.i && replaced(p, factor, bound, rest, depth)) return true;
    return !up && nonneg(p, x, depth - 2) && replaced(p, coef, x, rest, depth);
}

static bool eliminate_atom(Proof *p, NstDim dim, NstDim atom, int depth)
{
    NstDims *dims = p->dims;
    const NstDimEntry *entry = nst_dim_entry(dims, atom);
    NstDim coef, rest;
    if (entry->opaque) return false;
    if (entry->node.op == NST_DIM_SYM) return eliminate_symbol(p, dim, entry->node.sym, depth);
    if (!split_atom(dims, dim, atom, &coef, &rest)) return false;
    bool up = nonneg(p, coef, depth - 2);
    if (!up && !nonneg(p, nst_dim_mul_const(dims, coef, -1), depth - 2)) return false;
    switch (entry->node.op) {
    case NST_DIM_MIN:
    case NST_DIM_MAX: return eliminate_choice(p, coef, atom, rest, up, depth);
    case NST_DIM_MOD: return eliminate_mod(p, coef, atom, rest, up, depth);
    case NST_DIM_FLOORDIV: return eliminate_div(p, coef, atom, rest, up, depth);
    case NST_DIM_CONST:
    case NST_DIM_SYM:
    case NST_DIM_SUM:
    case NST_DIM_PRODUCT: break;
    }
    return false;
}

/* -- the order of elimination -- */

#define MAX_CANDIDATES 24

typedef struct Candidates {
    uint32_t n;
    NstDim at[MAX_CANDIDATES];
    int64_t rank[MAX_CANDIDATES]; /* higher goes first */
} Candidates;

static int64_t rank_of(NstDims *dims, NstDim atom)
{
    const NstDimEntry *entry = nst_dim_entry(dims, atom);
    if (entry->node.op == NST_DIM_MIN || entry->node.op == NST_DIM_MAX) return 3;
    if (entry->node.op == NST_DIM_MOD) return 2;
    if (entry->node.op != NST_DIM_SYM) return 1;
    const NstSymInfo *info = nst_dims_sym_info(dims, entry->node.sym);
    if (info->lo_dim.i != 0 || info->hi_dim.i != 0) return 16 + (int64_t)entry->node.sym.i;
    return -(int64_t)entry->node.sym.i; /* constant bounds: oldest last */
}

static void add_candidate(NstDims *dims, Candidates *c, NstDim atom, int level)
{
    const NstDimEntry *entry = nst_dim_entry(dims, atom);
    int64_t rank = rank_of(dims, atom);
    /* Inside other atoms only symbols with symbolic bounds are of use. */
    bool take = level == 0 || (entry->node.op == NST_DIM_SYM && rank > 16);
    for (uint32_t k = 0; k < c->n && take; k++) take = c->at[k].i != atom.i;
    if (take && c->n < MAX_CANDIDATES) {
        uint32_t at = c->n++;
        for (; at > 0 && c->rank[at - 1] < rank; at--) {
            c->at[at] = c->at[at - 1];
            c->rank[at] = c->rank[at - 1];
        }
        c->at[at] = atom;
        c->rank[at] = rank;
    }
    if (level < 4 && !entry->opaque)
        for (uint32_t k = 0; k < entry->node.n; k++) add_candidate(dims, c, entry->node.arg[k], level + 1);
}

static void list_candidates(NstDims *dims, NstDim dim, Candidates *c)
{
    NstDimSum sum;
    c->n = 0;
    nst_dim_to_sum(dims, dim, &sum);
    for (uint32_t k = 0; k < sum.n; k++) {
        const NstDim *factor;
        uint32_t n = nst_dim_factors(dims, &sum.at[k].atom, &factor);
        for (uint32_t j = 0; j < n; j++) add_candidate(dims, c, factor[j], 0);
    }
}

/* -- the search -- */

/* Divides by common content: g*d + v >= 0 iff d + floordiv(v, g) >= 0. */
static NstDim reduce_content(NstDims *dims, NstDim dim)
{
    NstDimSum sum;
    nst_dim_to_sum(dims, dim, &sum);
    int64_t g = 0;
    for (uint32_t k = 0; k < sum.n; k++) g = nst_gcd_i64(sum.at[k].coef, g);
    if (g <= 1) return dim;
    for (uint32_t k = 0; k < sum.n; k++) sum.at[k].coef /= g;
    sum.value = nst_floordiv_i64(sum.value, g);
    return nst_dim_from_sum(dims, &sum);
}

/* f*d >= 0 if d >= 0 for a factor f >= 0 shared by all terms: strips all of them. */
static NstDim strip_factors(NstDims *dims, NstDim dim)
{
    for (int round = 0; round < NST_DIM_MAX_FACTORS; round++) {
        NstDimSum sum;
        const NstDim *factor;
        nst_dim_to_sum(dims, dim, &sum);
        if (sum.n < 2 || sum.value != 0) return dim;
        uint32_t n = nst_dim_factors(dims, &sum.at[sum.n - 1].atom, &factor);
        bool changed = false;
        for (uint32_t j = 0; j < n && !changed; j++) {
            NstDimSum stripped;
            nst_dim_sum_start(&stripped, 0);
            bool all = bounded_nonneg(dims, factor[j]);
            for (uint32_t k = 0; k < sum.n && all; k++) {
                NstDim quotient;
                all = nst_dim_divide_atom(dims, sum.at[k].atom, factor[j], &quotient) &&
                      nst_dim_sum_add(dims, &stripped, quotient, sum.at[k].coef);
            }
            if (!all) continue;
            dim = nst_dim_from_sum(dims, &stripped);
            changed = true;
        }
        if (!changed) return dim;
    }
    return dim;
}

/* dim >= 0 follows from an assumed h >= 0 if dim - h >= 0. */
static bool use_assumptions(Proof *p, NstDim dim, int depth)
{
    NstDims *dims = p->dims;
    uint32_t n = dims->nonneg.n, first = n > MAX_ASSUMED ? n - MAX_ASSUMED : 0;
    for (uint32_t k = first; k < n; k++) {
        NstDim assumed = dims->nonneg.at[k];
        if ((nst_dim_entry(dims, assumed)->syms & nst_dim_entry(dims, dim)->syms) == 0) continue;
        if (nonneg(p, nst_dim_sub(dims, dim, assumed), depth < 4 ? depth - 1 : 3)) return true;
    }
    return false;
}

/* Large and deep sums cost more, so that a proof is bounded in time too. */
static int step_cost(const NstDims *dims, NstDim dim)
{
    const NstDimEntry *entry = nst_dim_entry(dims, dim);
    return 1 + (int)(entry->node.n / 8) + entry->depth / 8;
}

static bool nonneg(Proof *p, NstDim dim, int depth)
{
    NstDims *dims = p->dims;
    int64_t lo, hi;
    nst_dim_bounds(dims, dim, &lo, &hi);
    if (lo >= 0) return true;
    if (hi < 0 || depth <= 0 || p->steps <= 0) return false;
    p->steps -= step_cost(dims, dim);
    dim = strip_factors(dims, reduce_content(dims, dim));
    nst_dim_bounds(dims, dim, &lo, &hi);
    if (lo >= 0) return true;
    if (hi < 0) return false;
    Candidates candidates;
    list_candidates(dims, dim, &candidates);
    for (uint32_t k = 0; k < candidates.n && p->steps > 0; k++)
        if (eliminate_atom(p, dim, candidates.at[k], depth)) return true;
    return dims->nonneg.n != 0 && use_assumptions(p, dim, depth);
}

bool nst_dim_prove_nonneg(NstDims *dims, NstDim dim)
{
    int64_t lo, hi;
    nst_dim_bounds(dims, dim, &lo, &hi);
    if (lo >= 0) return true;
    if (hi < 0 || dims->prove_depth >= MAX_NESTED_PROOFS) return false;
    NstDim known, key = {dims->facts};
    /* The cache holds, for this state of facts, the dim itself if proven and another if not. */
    if (nst_dim_cache_get(dims, UINT32_MAX, dim, key, &known)) return known.i == dim.i;
    Proof p = {dims, MAX_STEPS}, *outer = dims->proof;
    if (outer) p.steps = outer->steps < MAX_STEPS / 4 ? outer->steps : MAX_STEPS / 4;
    int given = p.steps;
    dims->prove_depth++;
    dims->proof = &p;
    bool proven = nonneg(&p, dim, MAX_PROOF_DEPTH);
    dims->proof = outer;
    dims->prove_depth--;
    if (outer) outer->steps -= given - p.steps;
    nst_dim_cache_put(dims, UINT32_MAX, dim, key, proven ? dim : constant(dims, -1));
    return proven;
}

/* -- positivity in the context of loops -- */

/* Whether some index in dim could not have a value unless target >= 1: its range, hi - lo >= 0, implies it. */
static bool implied_by_loops(NstDims *dims, NstDim target, NstDim dim, int level, int *visits)
{
    const NstDimEntry *entry = nst_dim_entry(dims, dim);
    if (--*visits < 0) return false;
    if (entry->node.op == NST_DIM_SYM) {
        const NstSymInfo *info = nst_dims_sym_info(dims, entry->node.sym);
        if (info->hi_dim.i == 0) return false;
        NstDim lo = info->lo_dim.i != 0 ? info->lo_dim : constant(dims, info->lo);
        if (info->lo_dim.i == 0 && info->lo == INT64_MIN) return false;
        NstDim range = nst_dim_sub(dims, info->hi_dim, lo);
        return bounded_nonneg(dims, nst_dim_sub(dims, nst_dim_add_const(dims, target, -1), range));
    }
    for (uint32_t k = 0; k < entry->node.n && level < 6; k++)
        if (implied_by_loops(dims, target, entry->node.arg[k], level + 1, visits)) return true;
    return false;
}

bool nst_dim_prove_positive(NstDims *dims, NstDim dim, NstDim context)
{
    int64_t lo, hi;
    nst_dim_bounds(dims, dim, &lo, &hi);
    if (lo >= 1) return true;
    if (hi < 1) return false;
    const NstDimNode *node = nst_dim_node(dims, dim);
    if (node->op == NST_DIM_PRODUCT && !nst_dim_entry(dims, dim)->opaque) {
        bool all = true;
        for (uint32_t k = 0; k < node->n && all; k++) all = nst_dim_prove_positive(dims, node->arg[k], context);
        if (all) return true;
    }
    int visits = MAX_VISITS;
    return implied_by_loops(dims, dim, context, 0, &visits) ||
           nst_dim_prove_nonneg(dims, nst_dim_add_const(dims, dim, -1));
}

/* -- comparison -- */

/* dim without mod: x - c*floordiv(x, c) for each, interned as is, so that equal values have equal forms. */
static NstDim expand_mods(NstDims *dims, NstDim dim)
{
    NstDimSum sum, expanded;
    nst_dim_to_sum(dims, dim, &sum);
    nst_dim_sum_start(&expanded, sum.value);
    bool changed = false;
    for (uint32_t k = 0; k < sum.n; k++) {
        const NstDimNode *node = nst_dim_node(dims, sum.at[k].atom);
        int64_t coef = sum.at[k].coef, c;
        if (node->op != NST_DIM_MOD || !nst_dim_is_const(dims, node->arg[1], &c) || coef == INT64_MIN) {
            if (!nst_dim_sum_add(dims, &expanded, sum.at[k].atom, coef)) return dim;
            continue;
        }
        NstDim div = nst_dim_floordiv(dims, node->arg[0], node->arg[1]);
        if (__builtin_mul_overflow(coef, c, &c) || c == INT64_MIN ||
            !nst_dim_sum_add(dims, &expanded, node->arg[0], coef) || !nst_dim_sum_add(dims, &expanded, div, -c))
            return dim;
        changed = true;
    }
    if (!changed) return dim;
    /* Joining would bring the mods back: keep the plain form. */
    int depth = dims->combine_depth;
    dims->combine_depth = NST_DIM_NO_COMBINING;
    NstDim result = nst_dim_from_sum(dims, &expanded);
    dims->combine_depth = depth;
    return result;
}

static NstTruth negate(NstTruth truth)
{
    return truth == NST_TRUE ? NST_FALSE : truth == NST_FALSE ? NST_TRUE : NST_UNKNOWN;
}

/* diff == 0? */
static NstTruth is_zero(NstDims *dims, NstDim diff)
{
    int64_t lo, hi, value;
    if (nst_dim_is_const(dims, diff, &value)) return value == 0 ? NST_TRUE : NST_FALSE;
    nst_dim_bounds(dims, diff, &lo, &hi);
    if (lo > 0 || hi < 0) return NST_FALSE;
    NstDim expanded = expand_mods(dims, diff);
    if (nst_dim_is_const(dims, expanded, &value)) return value == 0 ? NST_TRUE : NST_FALSE;
    NstDimSum sum;
    nst_dim_to_sum(dims, expanded, &sum);
    int64_t g = 0;
    for (uint32_t k = 0; k < sum.n; k++) {
        int64_t multiple = nst_dim_known_multiple(dims, sum.at[k].atom);
        if (__builtin_mul_overflow(multiple, sum.at[k].coef, &multiple)) multiple = sum.at[k].coef;
        g = nst_gcd_i64(multiple, g);
    }
    if (g > 1 && sum.value % g != 0) return NST_FALSE;
    NstDim negative = nst_dim_mul_const(dims, diff, -1);
    bool over = nst_dim_prove_nonneg(dims, diff), under = nst_dim_prove_nonneg(dims, negative);
    if (over && under) return NST_TRUE;
    if (over && nst_dim_prove_nonneg(dims, nst_dim_add_const(dims, diff, -1))) return NST_FALSE;
    if (under && nst_dim_prove_nonneg(dims, nst_dim_add_const(dims, negative, -1))) return NST_FALSE;
    return NST_UNKNOWN;
}

/* a >= b? */
static bool at_least(NstDims *dims, NstDim a, NstDim b)
{
    return nst_dim_prove_nonneg(dims, nst_dim_sub(dims, a, b));
}

/* a > b? */
static bool above(NstDims *dims, NstDim a, NstDim b)
{
    return nst_dim_prove_nonneg(dims, nst_dim_add_const(dims, nst_dim_sub(dims, a, b), -1));
}

NstTruth nst_dim_compare(NstDims *dims, NstDim a, NstDimCompare op, NstDim b)
{
    NST_ASSERT(!dims->shared);
    a = nst_dim_resolve(dims, a);
    b = nst_dim_resolve(dims, b);
    switch (op) {
    case NST_DIM_EQ: return a.i == b.i ? NST_TRUE : is_zero(dims, nst_dim_sub(dims, a, b));
    case NST_DIM_NE: return a.i == b.i ? NST_FALSE : negate(is_zero(dims, nst_dim_sub(dims, a, b)));
    case NST_DIM_GE: return at_least(dims, a, b) ? NST_TRUE : above(dims, b, a) ? NST_FALSE : NST_UNKNOWN;
    case NST_DIM_LE: return at_least(dims, b, a) ? NST_TRUE : above(dims, a, b) ? NST_FALSE : NST_UNKNOWN;
    case NST_DIM_LT: return above(dims, b, a) ? NST_TRUE : at_least(dims, a, b) ? NST_FALSE : NST_UNKNOWN;
    case NST_DIM_GT: break;
    }
    return above(dims, a, b) ? NST_TRUE : at_least(dims, b, a) ? NST_FALSE : NST_UNKNOWN;
}

/* -- assumed facts -- */

/* One pass of the product rules over the terms of dim. */
static bool apply_rules(NstDims *dims, NstDim *dim)
{
    NstDimSum sum;
    nst_dim_to_sum(dims, *dim, &sum);
    for (uint32_t k = 0; k < sum.n; k++)
        for (uint32_t r = 0; r < dims->rules.n; r++) {
            NstDim quotient;
            if (!nst_dim_divide_atom(dims, sum.at[k].atom, dims->rules.at[r].left, &quotient)) continue;
            NstDim old = nst_dim_mul_const(dims, sum.at[k].atom, sum.at[k].coef);
            NstDim new = nst_dim_mul_const(dims, nst_dim_mul(dims, quotient, dims->rules.at[r].right), sum.at[k].coef);
            *dim = nst_dim_add(dims, nst_dim_sub(dims, *dim, old), new);
            return true;
        }
    return false;
}

NstDim nst_dim_resolve(NstDims *dims, NstDim dim)
{
    if (dims->n_solved != 0) dim = nst_dim_subst_all(dims, dim, dims->solved.at, dims->solved.n);
    for (int round = 0; round < NST_DIM_MAX_TERMS && dims->rules.n != 0; round++)
        if (!apply_rules(dims, &dim)) break;
    return dim;
}

/* The newest symbol that diff == 0 can be solved for: a term +-sym, the symbol nowhere else. */
static bool solve(NstDims *dims, NstDim diff, NstSym *sym, NstDim *value)
{
    NstDimSum sum;
    nst_dim_to_sum(dims, diff, &sum);
    sym->i = 0;
    for (uint32_t k = 0; k < sum.n; k++) {
        const NstDimNode *node = nst_dim_node(dims, sum.at[k].atom);
        if (node->op != NST_DIM_SYM || (sum.at[k].coef != 1 && sum.at[k].coef != -1) || node->sym.i < sym->i) continue;
        NstDim rest = nst_dim_sub(dims, diff, nst_dim_mul_const(dims, sum.at[k].atom, sum.at[k].coef));
        if (nst_dim_uses(dims, rest, node->sym)) continue;
        *sym = node->sym;
        *value = sum.at[k].coef == 1 ? nst_dim_mul_const(dims, rest, -1) : rest;
    }
    return sym->i != 0;
}

/* What is known of a solved symbol holds for its value too. */
static void share_bounds(NstDims *dims, NstSym sym, NstDim value)
{
    int64_t lo, hi;
    const NstDimNode *node = nst_dim_node(dims, value);
    nst_dim_bounds(dims, nst_dim_sym(dims, sym), &lo, &hi);
    if (node->op == NST_DIM_SYM) {
        NstSymInfo *info = &dims->syms.at[node->sym.i]->info;
        if (lo > info->lo) info->lo = lo;
        if (hi < info->hi) info->hi = hi;
    } else {
        if (lo != INT64_MIN) nst_dims_assume_nonneg(dims, nst_dim_add_const(dims, value, lo == INT64_MIN ? 0 : -lo));
        if (hi != INT64_MAX) nst_dims_assume_nonneg(dims, nst_dim_sub(dims, constant(dims, hi), value));
    }
}

static void solve_for(NstDims *dims, NstSym sym, NstDim value)
{
    while (dims->solved.n < dims->syms.n) nst_vec_push(dims->arena, &dims->solved, (NstDim){0});
    for (uint32_t i = 1; i < dims->solved.n; i++)
        if (dims->solved.at[i].i != 0) dims->solved.at[i] = nst_dim_subst(dims, dims->solved.at[i], sym, value);
    for (uint32_t r = 0; r < dims->rules.n; r++)
        dims->rules.at[r].right = nst_dim_subst(dims, dims->rules.at[r].right, sym, value);
    dims->solved.at[sym.i] = value;
    dims->n_solved++;
    share_bounds(dims, sym, value);
}

void nst_dims_assume_equal(NstDims *dims, NstDim a, NstDim b)
{
    NstSym sym;
    NstDim value;
    NstDim diff = nst_dim_sub(dims, nst_dim_resolve(dims, a), nst_dim_resolve(dims, b));
    if (nst_dim_node(dims, diff)->op == NST_DIM_CONST) return;
    if (solve(dims, diff, &sym, &value)) {
        solve_for(dims, sym, value);
    } else {
        /* The leading product, if its coefficient is 1 or -1, is rewritten to the rest: terms only go down in order. */
        NstDimSum sum;
        nst_dim_to_sum(dims, diff, &sum);
        NstDimTerm lead = sum.at[0];
        if (lead.coef != 1 && lead.coef != -1) return;
        NstDim rest = nst_dim_sub(dims, diff, nst_dim_mul_const(dims, lead.atom, lead.coef));
        if (lead.coef == 1) rest = nst_dim_mul_const(dims, rest, -1);
        nst_vec_push(dims->arena, &dims->rules, ((NstDimRule){lead.atom, rest}));
    }
    dims->facts++;
}

void nst_dims_assume_nonneg(NstDims *dims, NstDim dim)
{
    if (bounded_nonneg(dims, dim)) return;
    dim = nst_dim_resolve(dims, dim); /* it may ask for proofs: not while the list is being extended */
    nst_vec_push(dims->arena, &dims->nonneg, dim);
    dims->facts++;
}

uint32_t nst_dims_enter(const NstDims *dims)
{
    return dims->nonneg.n;
}

void nst_dims_leave(NstDims *dims, uint32_t scope)
{
    if (dims->nonneg.n <= scope) return;
    dims->nonneg.n = scope;
    dims->facts++;
    memset(dims->cache, 0, NST_DIM_CACHE * sizeof *dims->cache); /* results that relied on what was assumed */
}
