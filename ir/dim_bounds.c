/* dim_bounds.c: constant bounds and known divisors of dims, by interval arithmetic over the normal form.
 *
 * INT64_MIN and INT64_MAX stand for no bound; arithmetic saturates to them.  Results are kept in the entry and computed
 * again when facts were added since.  Cost: one visit a node and change of facts. */
#include "ir/dim_impl.h"

/* Bounds of symbols refer to other dims; deeper than this only their constants count. */
#define MAX_BOUNDS_DEPTH 48

typedef struct Range {
    int64_t lo, hi;
} Range;

static const Range everything = {INT64_MIN, INT64_MAX};

static int64_t saturate(NstWide value)
{
    return value <= INT64_MIN ? INT64_MIN : value >= INT64_MAX ? INT64_MAX : (int64_t)value;
}

static bool infinite(int64_t value)
{
    return value == INT64_MIN || value == INT64_MAX;
}

/* x * y where the extremes are infinities and 0 * infinity is 0. */
static int64_t times(int64_t x, int64_t y)
{
    if (x == 0 || y == 0) return 0;
    if (infinite(x) || infinite(y)) return (x < 0) == (y < 0) ? INT64_MAX : INT64_MIN;
    return saturate((NstWide)x * y);
}

static Range times_range(Range a, Range b)
{
    int64_t corner[4] = {times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi)};
    Range result = {corner[0], corner[0]};
    for (int k = 1; k < 4; k++) {
        if (corner[k] < result.lo) result.lo = corner[k];
        if (corner[k] > result.hi) result.hi = corner[k];
    }
    return result;
}

static NstDimEntry *fresh(NstDims *dims, NstDim dim)
{
    NstDimEntry *entry = nst_dim_entry(dims, dim);
    nst_dim_refresh(dims, entry);
    return entry;
}

static Range range_of(NstDims *dims, NstDim dim)
{
    const NstDimEntry *entry = fresh(dims, dim);
    return (Range){entry->lo, entry->hi};
}

static Range sum_range(NstDims *dims, const NstDimNode *node)
{
    NstWide lo = node->value, hi = node->value;
    bool no_lo = false, no_hi = false;
    for (uint32_t k = 0; k < node->n; k++) {
        Range term = times_range(range_of(dims, node->arg[k]), (Range){node->coef[k], node->coef[k]});
        no_lo |= term.lo == INT64_MIN;
        no_hi |= term.hi == INT64_MAX;
        lo += term.lo;
        hi += term.hi;
    }
    return (Range){no_lo ? INT64_MIN : saturate(lo), no_hi ? INT64_MAX : saturate(hi)};
}

/* x / y of a divisor >= 1, infinities kept: a finite number by infinity is 0 or -1. */
static int64_t divide_bound(int64_t x, int64_t y)
{
    if (infinite(x)) return y == INT64_MAX ? (x < 0 ? INT64_MIN : INT64_MAX) : x;
    if (y == INT64_MAX) return x < 0 ? -1 : 0;
    return nst_floordiv_i64(x, y);
}

static Range floordiv_range(Range a, Range b)
{
    if (b.lo >= 0) { /* 0 is a fault */
        int64_t least = b.lo == 0 ? 1 : b.lo, most = b.hi < least ? least : b.hi;
        return (Range){divide_bound(a.lo, a.lo < 0 ? least : most), divide_bound(a.hi, a.hi < 0 ? most : least)};
    }
    int64_t lo = a.lo < 0 ? a.lo : -a.lo, hi = a.hi > 0 ? -a.hi : a.hi; /* magnitudes, negated: no overflow */
    int64_t most = lo < hi ? lo : hi;
    if (most == INT64_MIN || most == -INT64_MAX) return everything;
    return (Range){most, -most};
}

static Range mod_range(Range a, Range b)
{
    if (b.lo >= 0) {
        int64_t hi = b.hi == INT64_MAX ? INT64_MAX : b.hi - 1;
        if (a.lo >= 0 && a.hi < b.lo) return a;
        if (a.lo >= 0 && a.hi < hi) hi = a.hi;
        return (Range){0, hi < 0 ? 0 : hi};
    }
    Range result = {b.lo == INT64_MIN ? INT64_MIN : b.lo + 1, 0};
    if (b.hi > 0) result.hi = b.hi == INT64_MAX ? INT64_MAX : b.hi - 1;
    return result;
}

static Range symbol_range(NstDims *dims, const NstSymInfo *info)
{
    Range range = {info->lo, info->hi};
    if (dims->bounds_depth >= MAX_BOUNDS_DEPTH) return range;
    dims->bounds_depth++;
    if (info->lo_dim.i != 0) {
        int64_t lo = range_of(dims, info->lo_dim).lo;
        if (lo > range.lo) range.lo = lo;
    }
    if (info->hi_dim.i != 0) {
        int64_t hi = range_of(dims, info->hi_dim).hi;
        if (hi < range.hi) range.hi = hi;
    }
    dims->bounds_depth--;
    return range;
}

static Range node_range(NstDims *dims, const NstDimNode *node)
{
    Range a, b;
    if (node->op == NST_DIM_CONST) return (Range){node->value, node->value};
    if (node->op == NST_DIM_SYM) return symbol_range(dims, &dims->syms.at[node->sym.i]->info);
    if (node->op == NST_DIM_SUM) return sum_range(dims, node);
    a = range_of(dims, node->arg[0]);
    if (node->op == NST_DIM_PRODUCT) {
        for (uint32_t k = 1; k < node->n; k++) a = times_range(a, range_of(dims, node->arg[k]));
        return a;
    }
    b = range_of(dims, node->arg[1]);
    if (node->op == NST_DIM_FLOORDIV) return floordiv_range(a, b);
    if (node->op == NST_DIM_MOD) return mod_range(a, b);
    if (node->op == NST_DIM_MIN) return (Range){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
    return (Range){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

/* -- divisors -- */

static int64_t sum_multiple(NstDims *dims, const NstDimNode *node)
{
    int64_t result = node->value;
    for (uint32_t k = 0; k < node->n; k++) {
        int64_t term;
        if (__builtin_mul_overflow(fresh(dims, node->arg[k])->multiple, node->coef[k], &term)) term = node->coef[k];
        result = nst_gcd_i64(result, term);
    }
    return nst_gcd_i64(result, 0);
}

static int64_t node_multiple(NstDims *dims, const NstDimNode *node)
{
    int64_t divisor, x, y;
    switch (node->op) {
    case NST_DIM_CONST: return nst_gcd_i64(node->value, 0);
    case NST_DIM_SYM: x = dims->syms.at[node->sym.i]->info.multiple; return x >= 1 ? x : 1;
    case NST_DIM_SUM: return sum_multiple(dims, node);
    case NST_DIM_PRODUCT:
        x = 1;
        for (uint32_t k = 0; k < node->n; k++) {
            y = fresh(dims, node->arg[k])->multiple;
            if (__builtin_mul_overflow(x, y, &divisor)) divisor = x > y ? x : y;
            x = divisor;
        }
        return x;
    case NST_DIM_FLOORDIV:
        x = fresh(dims, node->arg[0])->multiple;
        if (!nst_dim_is_const(dims, node->arg[1], &divisor) || divisor <= 0 || x % divisor != 0) return 1;
        return x == 0 ? 0 : x / divisor;
    case NST_DIM_MOD:
    case NST_DIM_MIN:
    case NST_DIM_MAX: break;
    }
    return nst_gcd_i64(fresh(dims, node->arg[0])->multiple, fresh(dims, node->arg[1])->multiple);
}

/* -- entry points -- */

static bool same_facts(const NstSymInfo *a, const NstSymInfo *b)
{
    return a->lo == b->lo && a->hi == b->hi && a->lo_dim.i == b->lo_dim.i && a->hi_dim.i == b->hi_dim.i &&
           a->multiple == b->multiple;
}

/* Notices what the caller wrote through nst_dims_sym. */
static void notice_facts(NstDims *dims)
{
    if (dims->exposed.i == 0) return;
    const NstSymInfo *info = &dims->syms.at[dims->exposed.i]->info;
    if (same_facts(info, &dims->seen)) return;
    dims->seen = *info;
    dims->facts++;
}

void nst_dim_refresh(NstDims *dims, NstDimEntry *entry)
{
    NST_ASSERT(!dims->shared);
    notice_facts(dims);
    if (entry->facts == dims->facts) return;
    /* Marked first: a symbol whose bounds refer to itself sees its constants. */
    if (entry->facts == 0) {
        entry->lo = INT64_MIN;
        entry->hi = INT64_MAX;
        entry->multiple = 1;
    }
    entry->facts = dims->facts;
    int64_t multiple = node_multiple(dims, &entry->node);
    Range range = node_range(dims, &entry->node);
    if (range.lo > entry->lo) entry->lo = range.lo;
    if (range.hi < entry->hi) entry->hi = range.hi;
    if (multiple == 0 || (entry->multiple != 0 && multiple > entry->multiple)) entry->multiple = multiple;
}

void nst_dim_bounds(NstDims *dims, NstDim dim, int64_t *lo, int64_t *hi)
{
    const NstDimEntry *entry = fresh(dims, dim);
    *lo = entry->lo;
    *hi = entry->hi;
}

int64_t nst_dim_known_multiple(NstDims *dims, NstDim dim)
{
    return fresh(dims, dim)->multiple;
}
