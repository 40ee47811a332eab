/* test_dim_random.c: ir/dim.h against a naive evaluation of random expressions at random points.
 *
 * Every expression is built twice: as a dim, and as a plain tree that is evaluated as written.  At points within the
 * symbols' bounds, all that the algebra says of the dim has to hold of the tree's value. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include "ir/dim.h"
#include "tests/unit/support_dim.h"

#ifndef N_EXPRESSIONS
#define N_EXPRESSIONS 12000
#endif
#define N_POINTS 12
#define N_SYMS   12
#define MAX_TREE 64

static NstCtx ctx;
static NstDims *dims;
static uint64_t state;
static NstSym syms[N_SYMS];
static int64_t point[N_POINTS][N_SYMS + 1];

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int64_t between(int64_t lo, int64_t hi)
{
    return lo + (int64_t)(next() % (uint64_t)(hi - lo + 1));
}

/* -- plain trees -- */

typedef enum TreeOp { LEAF_CONST, LEAF_SYM, ADD, SUB, MUL, DIV, CEILDIV, MOD, MIN, MAX } TreeOp;

typedef struct Tree {
    TreeOp op;
    int64_t value;
    int left, right;
} Tree;

static Tree tree[MAX_TREE];
static int n_tree;

static int64_t floordiv(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return a % b != 0 && (a % b < 0) != (b < 0) ? q - 1 : q;
}

/* False on a fault or a value too large to be exact in the steps above. */
static bool value_of(int at, const int64_t *values, int64_t *result)
{
    const Tree *t = &tree[at];
    int64_t a = 0, b = 0;
    if (t->op == LEAF_CONST) *result = t->value;
    if (t->op == LEAF_SYM) *result = values[t->value];
    if (t->op == LEAF_CONST || t->op == LEAF_SYM) return true;
    if (!value_of(t->left, values, &a) || !value_of(t->right, values, &b)) return false;
    if (llabs(a) > 1000000000 || llabs(b) > 1000000000) return false;
    if ((t->op == DIV || t->op == MOD || t->op == CEILDIV) && b == 0) return false;
    switch (t->op) {
    case ADD: *result = a + b; break;
    case SUB: *result = a - b; break;
    case MUL: *result = a * b; break;
    case DIV: *result = floordiv(a, b); break;
    case CEILDIV: *result = -floordiv(-a, b); break;
    case MOD: *result = a - b * floordiv(a, b); break;
    case MIN: *result = a < b ? a : b; break;
    case MAX: *result = a > b ? a : b; break;
    case LEAF_CONST:
    case LEAF_SYM: break;
    }
    return true;
}

static NstDim build(int at)
{
    static NstDim (*const builders[])(NstDims *, NstDim, NstDim) = {
        [ADD] = nst_dim_add,         [SUB] = nst_dim_sub, [MUL] = nst_dim_mul, [DIV] = nst_dim_floordiv,
        [CEILDIV] = nst_dim_ceildiv, [MOD] = nst_dim_mod, [MIN] = nst_dim_min, [MAX] = nst_dim_max};
    const Tree *t = &tree[at];
    if (t->op == LEAF_CONST) return nst_dim_const(dims, t->value);
    if (t->op == LEAF_SYM) return nst_dim_sym(dims, syms[t->value - 1]);
    NstDim left = build(t->left), right = build(t->right);
    return builders[t->op](dims, left, right);
}

static int leaf(void)
{
    static const int64_t constants[] = {0, 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 32, -1, -2, -3, -8, -16};
    bool constant = next() % 3 == 0;
    tree[n_tree] = (Tree){.op = constant ? LEAF_CONST : LEAF_SYM};
    tree[n_tree].value = constant ? constants[next() % (sizeof constants / sizeof constants[0])] : between(1, N_SYMS);
    return n_tree++;
}

static int grow(int size)
{
    if (size <= 1 || n_tree > MAX_TREE - 8) return leaf();
    static const TreeOp ops[] = {ADD, ADD, ADD, SUB, SUB, MUL, MUL, DIV, DIV, DIV, CEILDIV, MOD, MOD, MOD, MIN, MAX};
    TreeOp op = ops[next() % (sizeof ops / sizeof ops[0])];
    int split = (int)between(1, size - 1);
    int left = grow(split), right = grow(op == DIV || op == MOD ? (next() % 4 == 0 ? 2 : 1) : size - split);
    tree[n_tree] = (Tree){op, 0, left, right};
    return n_tree++;
}

/* -- symbols and points -- */

static void make_symbols(void)
{
    static const int64_t lows[] = {0, 1, 1, 2, 0, -5};
    for (int k = 0; k < 6; k++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", k);
        bool open = next() % 3 == 0;
        syms[k] = nst_dims_new_sym(dims, NST_SYM_INPUT, name, lows[k], open ? INT64_MAX : between(5, 40));
    }
    nst_dims_sym(dims, syms[4])->multiple = 8;
    for (int k = 6; k < N_SYMS; k++) {
        char name[8];
        snprintf(name, sizeof name, "i%d", k);
        syms[k] = nst_dims_new_sym(dims, NST_SYM_INDEX, name, k == 11 ? INT64_MIN : 0, k < 8 ? 7 : INT64_MAX);
        NstDim size = nst_dim_sym(dims, syms[between(0, k - 1)]);
        NstDim eight = nst_dim_const(dims, 8);
        NstSymInfo *info = nst_dims_sym(dims, syms[k]);
        if (k == 8) info->hi_dim = nst_dim_add_const(dims, size, -1);
        if (k == 9) info->hi_dim = nst_dim_add_const(dims, nst_dim_floordiv(dims, size, eight), -1);
        if (k == 10) info->hi_dim = nst_dim_add_const(dims, nst_dim_ceildiv(dims, size, eight), -1);
        if (k == 11) {
            info->lo_dim = size;
            info->hi_dim = nst_dim_add_const(dims, size, 7);
        }
    }
}

/* Values within bounds, or false if an index has none. */
static bool pick_point(int64_t *values)
{
    for (int k = 0; k < N_SYMS; k++) {
        const NstSymInfo *info = nst_dims_sym_info(dims, syms[k]);
        int64_t lo = info->lo, hi = info->hi, bound;
        if (info->lo_dim.i != 0) {
            if (nst_dim_eval(&ctx, dims, info->lo_dim, values, N_SYMS + 1, &bound) != NST_OK) return false;
            if (bound > lo) lo = bound;
        }
        if (info->hi_dim.i != 0) {
            if (nst_dim_eval(&ctx, dims, info->hi_dim, values, N_SYMS + 1, &bound) != NST_OK) return false;
            if (bound < hi) hi = bound;
        }
        if (hi == INT64_MAX) hi = lo + 100;
        if (lo > hi) return false;
        values[syms[k].i] = next() % 4 == 0 ? (next() % 2 ? lo : hi) : between(lo, hi);
        values[syms[k].i] -= values[syms[k].i] % info->multiple;
    }
    return true;
}

static int make_points(void)
{
    int n = 0;
    for (int tries = 0; tries < 20 * N_POINTS && n < N_POINTS; tries++) n += pick_point(point[n]);
    return n;
}

/* -- checks -- */

static const char *show(NstDim dim)
{
    return support_dim_text(&ctx, dims, dim, NULL);
}

static int64_t eval(NstDim dim, const int64_t *values)
{
    int64_t value = 0;
    cr_assert_eq(nst_dim_eval(&ctx, dims, dim, values, N_SYMS + 1, &value), NST_OK, "%s: %s", show(dim), ctx.error);
    return value;
}

static void describe(NstText *text, int at)
{
    static const char *const names[] = {[ADD] = "+",      [SUB] = "-", [MUL] = "*",   [DIV] = "/",
                                        [CEILDIV] = "^/", [MOD] = "%", [MIN] = "min", [MAX] = "max"};
    const Tree *t = &tree[at];
    if (t->op == LEAF_CONST) {
        nst_text_add(text, "%lld", (long long)t->value);
    } else if (t->op == LEAF_SYM) {
        nst_text_add(text, "%s", nst_dims_sym_info(dims, syms[t->value - 1])->name);
    } else {
        nst_text_add(text, "(");
        describe(text, t->left);
        nst_text_add(text, " %s ", names[t->op]);
        describe(text, t->right);
        nst_text_add(text, ")");
    }
}

static const char *written(int at)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    describe(&text, at);
    return nst_text_get(&text);
}

static void check_value(int at, NstDim dim, const int64_t *values)
{
    int64_t expected = 0, lo, hi;
    if (!value_of(at, values, &expected)) return;
    int64_t value = eval(dim, values), multiple = nst_dim_known_multiple(dims, dim);
    cr_assert_eq(value, expected, "%s = %lld, but %s = %lld", written(at), (long long)expected, show(dim),
                 (long long)value);
    nst_dim_bounds(dims, dim, &lo, &hi);
    cr_assert(lo <= value && value <= hi, "%s = %lld outside [%lld, %lld]", show(dim), (long long)value, (long long)lo,
              (long long)hi);
    cr_assert(multiple == 0 ? value == 0 : value % multiple == 0, "%s = %lld is no multiple of %lld", show(dim),
              (long long)value, (long long)multiple);
}

static bool holds(int64_t a, NstDimCompare op, int64_t b)
{
    bool result[] = {[NST_DIM_EQ] = a == b,
                     [NST_DIM_NE] = a != b,
                     [NST_DIM_LT] = a<b, [NST_DIM_LE] = a <= b, [NST_DIM_GT] = a> b,
                     [NST_DIM_GE] = a >= b};
    return result[op];
}

static void check_compare(int left, int right, NstDim a, NstDim b, int n_points)
{
    for (NstDimCompare op = NST_DIM_EQ; op <= NST_DIM_GE; op++) {
        NstTruth truth = nst_dim_compare(dims, a, op, b);
        if (truth == NST_UNKNOWN) continue;
        for (int k = 0; k < n_points; k++) {
            int64_t x = 0, y = 0;
            if (!value_of(left, point[k], &x) || !value_of(right, point[k], &y)) continue;
            cr_assert_eq(holds(x, op, y), truth == NST_TRUE, "%s (%lld) against %s (%lld), op %d: said %d", show(a),
                         (long long)x, show(b), (long long)y, op, truth);
        }
    }
}

static NstSym find(void *arg, const char *name, size_t n)
{
    (void)arg;
    const char *hash = memchr(name, '#', n);
    if (hash) return (NstSym){(uint32_t)atoi(hash + 1)};
    return nst_dims_find_sym(dims, name, n);
}

static uint32_t n_other_form;

static void check_text(int at, NstDim dim, int n_points)
{
    const char *text = show(dim), *p = text;
    NstDim again;
    cr_assert_eq(nst_dim_parse(&ctx, dims, &p, find, NULL, &again), NST_OK, "%s: %s", text, ctx.error);
    cr_assert_eq(*p, 0);
    if (again.i != dim.i) n_other_form++;
    for (int k = 0; k < n_points; k++) check_value(at, again, point[k]);
}

static void check_subst(int at, NstDim dim, const int64_t *values)
{
    int64_t expected = 0, result;
    if (!value_of(at, values, &expected)) return;
    NstSym sym = syms[next() % N_SYMS];
    NstDim constant = nst_dim_const(dims, values[sym.i]), coef, rest;
    cr_assert_eq(eval(nst_dim_subst(dims, dim, sym, constant), values), expected, "%s with %s", show(dim),
                 nst_dims_sym_info(dims, sym)->name);
    NstDim all[N_SYMS + 1] = {{0}};
    for (int k = 0; k < N_SYMS; k++) all[syms[k].i] = nst_dim_const(dims, values[syms[k].i]);
    NstDim folded = nst_dim_subst_all(dims, dim, all, N_SYMS + 1);
    cr_assert(nst_dim_is_const(dims, folded, &result) && result == expected, "%s folds to %s", show(dim), show(folded));
    if (!nst_dim_linear(dims, dim, sym, &coef, &rest)) return;
    cr_assert_not(nst_dim_uses(dims, coef, sym) || nst_dim_uses(dims, rest, sym));
    cr_assert_eq(eval(coef, values) * values[sym.i] + eval(rest, values), expected, "%s linear in %s", show(dim),
                 nst_dims_sym_info(dims, sym)->name);
}

/* A table, its symbols and points; gives the number of points. */
static int start_round(uint64_t seed)
{
    state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    dims = nst_dims_new(ctx.arena);
    make_symbols();
    return make_points();
}

static void run_round(uint64_t seed, int count)
{
    int n_points = start_round(seed);
    for (int e = 0; e < count && n_points > 0; e++) {
        n_tree = 0;
        int left = grow((int)between(2, 9)), right = grow((int)between(1, 6));
        NstDim a = build(left), b = build(right);
        for (int k = 0; k < n_points; k++) check_value(left, a, point[k]);
        for (int k = 0; k < n_points; k++) check_subst(left, a, point[k]);
        check_text(left, a, n_points);
        check_compare(left, right, a, b, n_points);
    }
    nst_ctx_dispose(&ctx);
}

/* Assumes something that holds at some points, and drops the others. */
static int assume_something(int n_points)
{
    n_tree = 0;
    int left = grow((int)between(1, 3)), right = grow((int)between(1, 3)), kept = 0;
    bool equal = next() % 2;
    for (int k = 0; k < n_points; k++) {
        int64_t x = 0, y = 0;
        if (!value_of(left, point[k], &x) || !value_of(right, point[k], &y) || (equal ? x != y : x < y)) continue;
        memmove(point[kept++], point[k], sizeof point[k]);
    }
    if (kept == 0) return n_points;
    NstDim a = build(left), b = build(right);
    if (equal)
        nst_dims_assume_equal(dims, a, b);
    else
        nst_dims_assume_nonneg(dims, nst_dim_sub(dims, a, b));
    return kept;
}

Test(dim_random, agrees_under_assumptions)
{
    for (uint64_t seed = 1000; seed <= 1000 + N_EXPRESSIONS / 40; seed++) {
        int n_points = start_round(seed);
        for (int k = 0; k < 3 && n_points > 0; k++) n_points = assume_something(n_points);
        for (int e = 0; e < 20 && n_points > 0; e++) {
            n_tree = 0;
            int left = grow((int)between(1, 5)), right = grow((int)between(1, 5));
            NstDim a = build(left), b = build(right), resolved = nst_dim_resolve(dims, a);
            for (int k = 0; k < n_points; k++) check_value(left, a, point[k]);
            for (int k = 0; k < n_points; k++) check_value(left, resolved, point[k]);
            check_compare(left, right, a, b, n_points);
        }
        nst_ctx_dispose(&ctx);
    }
}

Test(dim_random, agrees_with_plain_evaluation)
{
    n_other_form = 0;
    for (uint64_t seed = 1; seed <= N_EXPRESSIONS / 100; seed++) run_round(seed, 100);
    /* Rules are tried in an order, so text may read back as another form of the same value; rarely. */
    cr_expect(n_other_form < N_EXPRESSIONS / 50, "%u of %d read back as another form", n_other_form, N_EXPRESSIONS);
}
