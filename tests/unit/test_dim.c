/* test_dim.c: ir/dim.h: identities and proofs the engine depends on. */
#include <criterion/criterion.h>
#include <string.h>
#include "ir/dim.h"
#include "ir/type.h"
#include "tests/unit/support_dim.h"

static NstCtx ctx;
static NstDims *dims;
static NstSym n, h, w, m, i, j, t; /* sizes >= 1; i in [0, n), j in [0, 8), t in [0, 64) */

static void setup(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    dims = nst_dims_new(ctx.arena);
    n = nst_dims_new_sym(dims, NST_SYM_INPUT, "n", 1, INT64_MAX);
    h = nst_dims_new_sym(dims, NST_SYM_INPUT, "h", 1, INT64_MAX);
    w = nst_dims_new_sym(dims, NST_SYM_INPUT, "w", 1, INT64_MAX);
    m = nst_dims_new_sym(dims, NST_SYM_INPUT, "m", 0, INT64_MAX);
    i = nst_dims_new_sym(dims, NST_SYM_INDEX, "i", 0, INT64_MAX);
    nst_dims_sym(dims, i)->hi_dim = nst_dim_add_const(dims, nst_dim_sym(dims, n), -1);
    j = nst_dims_new_sym(dims, NST_SYM_INDEX, "j", 0, 7);
    t = nst_dims_new_sym(dims, NST_SYM_INDEX, "t", 0, 63);
}

static void teardown(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(dim, .init = setup, .fini = teardown);

static NstSym find(void *arg, const char *name, size_t length)
{
    (void)arg;
    if (length == 1 && *name == 'i') return i;
    if (length == 1 && *name == 'j') return j;
    if (length == 1 && *name == 't') return t;
    return nst_dims_find_sym(dims, name, length);
}

static const char *name_of(void *arg, NstSym sym)
{
    (void)arg;
    return nst_dims_sym_info(dims, sym)->name;
}

static NstDim read(const char *text)
{
    return support_dim_read(&ctx, dims, text, find);
}

static const char *show(NstDim dim)
{
    return support_dim_text(&ctx, dims, dim, name_of);
}

typedef struct Pair {
    const char *from, *to;
} Pair;

static void check_pairs(const Pair *pairs, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        NstDim dim = read(pairs[k].from);
        cr_expect_str_eq(show(dim), pairs[k].to, "%s gives %s, not %s", pairs[k].from, show(dim), pairs[k].to);
        cr_expect_eq(read(show(dim)).i, dim.i, "%s does not round-trip", show(dim));
    }
}

#define CHECK_PAIRS(pairs) check_pairs(pairs, sizeof pairs / sizeof pairs[0])

Test(dim, sums_and_products_have_one_form)
{
    static const Pair pairs[] = {
        {"1 + n - 1", "n"},
        {"n + h + n", "2*n + h"},
        {"n - n", "0"},
        {"2*(n + 3)*h", "2*n*h + 6*h"},
        {"(n + 1)*(n - 1)", "n*n - 1"},
        {"n*h*w - w*n*h", "0"},
        {"-n", "-n"},
        {"3 - 2*n", "-2*n + 3"},
        {"-9223372036854775808*n", "-9223372036854775808*n"},
        {"n - -9223372036854775808", "n + (-9223372036854775808*-1)"},
        {"9223372036854775807 + 1 + n", "n + (1 + 9223372036854775807)"},
    };
    CHECK_PAIRS(pairs);
}

Test(dim, division_by_constants)
{
    static const Pair pairs[] = {
        {"floordiv(16*n + j, 16)", "n"},
        {"mod(16*n + j, 16)", "j"},
        {"floordiv(16*n + t, 16)", "n + floordiv(t, 16)"},
        {"floordiv(floordiv(n, 3), 5)", "floordiv(n, 15)"},
        {"floordiv(4*n + 7, 4)", "n + 1"},
        {"floordiv(8*n + j, 32)", "floordiv(n, 4)"},
        {"mod(8*n + j, 32)", "8*mod(n, 4) + j"},
        {"floordiv(6*n + 4, 4)", "n + floordiv(n, 2) + 1"},
        {"mod(6*n + 4*h, 2)", "0"},
        {"16*floordiv(n, 16) + mod(n, 16)", "n"},
        {"n - 16*floordiv(n, 16)", "mod(n, 16)"},
        {"n - mod(n, 16)", "16*floordiv(n, 16)"},
        {"2*n + h - 2*mod(n, 16)", "32*floordiv(n, 16) + h"},
        {"32*floordiv(n, 32) + 4*mod(floordiv(n, 4), 8) + mod(n, 4)", "n"},
        {"4*mod(2*n + floordiv(t, 4), 8) + mod(t, 4)", "mod(8*n + t, 32)"},
        {"floordiv(mod(n, 32), 4)", "mod(floordiv(n, 4), 8)"},
        {"mod(mod(n, 32), 8)", "mod(n, 8)"},
        {"floordiv(floordiv(n + 1, 2) + 1, 2)", "floordiv(n + 3, 4)"},
        {"ceildiv(ceildiv(n, 2), 2)", "ceildiv(n, 4)"},
        {"floordiv(n, -2)", "floordiv(-n, 2)"},
        {"floordiv(j - 8, 8)", "-1"},
        {"mod(j - 8, 8)", "j"},
        {"floordiv(-7, 2)", "-4"},
        {"mod(-7, 2)", "1"},
        {"mod(7, -2)", "-1"},
        {"floordiv(n, 0)", "floordiv(n, 0)"},
    };
    Pair fixed[sizeof pairs / sizeof pairs[0]];
    memcpy(fixed, pairs, sizeof pairs);
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) fixed[k].to = show(read(pairs[k].to));
    CHECK_PAIRS(fixed);
}

Test(dim, division_by_symbols)
{
    static const Pair pairs[] = {
        {"floordiv(n*h*w, w)", "n*h"},
        {"floordiv(n*h*w, w*n)", "h"},
        {"mod(n*h*w, h)", "0"},
        {"floordiv(i*h + h - 1, h)", "i"},
        {"floordiv(j*n + i, n)", "j"},
        {"mod(j*n + i, n)", "i"},
        {"floordiv(n*n + 2*n + 1, n + 1)", "n + 1"},
        {"floordiv((h + 2)*(w + 2)*n, w + 2)", "n*h + 2*n"},
        {"floordiv(n*h, n*w)", "floordiv(h, w)"},
        {"mod(n*h, n*w)", "n*mod(h, w)"},
        {"floordiv(floordiv(n, h), w)", "floordiv(n, h*w)"},
        {"n*floordiv(t, n) + mod(t, n)", "t"},
        {"t - n*floordiv(t, n)", "mod(t, n)"},
        {"floordiv(5*n, -3*n)", "-2"},
        {"ceildiv(n*h, h)", "n"},
    };
    CHECK_PAIRS(pairs);
}

Test(dim, min_and_max)
{
    static const Pair pairs[] = {
        {"min(n, n + 1)", "n"},     {"max(n, n - 3)", "n"},     {"min(i, n)", "i"},
        {"max(0, n)", "n"},         {"min(7, j)", "j"},         {"min(min(n, h), min(h, n))", "min(n, h)"},
        {"min(h, max(h, n))", "h"}, {"max(m, 1)", "max(m, 1)"}, {"min(w, min(h, n))", "min(n, min(h, w))"},
    };
    CHECK_PAIRS(pairs);
}

typedef struct Verdict {
    const char *a;
    NstDimCompare op;
    const char *b;
    NstTruth truth;
} Verdict;

static void check_verdicts(const Verdict *verdicts, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const Verdict *v = &verdicts[k];
        NstTruth truth = nst_dim_compare(dims, read(v->a), v->op, read(v->b));
        cr_expect_eq(truth, v->truth, "%s %d %s: %d, not %d", v->a, v->op, v->b, truth, v->truth);
    }
}

#define CHECK_VERDICTS(v) check_verdicts(v, sizeof v / sizeof v[0])

Test(dim, compares_through_bounds_of_indices)
{
    NstSym outer = nst_dims_new_sym(dims, NST_SYM_INPUT, "o", 0, INT64_MAX);
    nst_dims_sym(dims, outer)->hi_dim = read("floordiv(n, 8) - 1");
    NstSym col = nst_dims_new_sym(dims, NST_SYM_INPUT, "c", 0, INT64_MAX);
    nst_dims_sym(dims, col)->hi_dim = read("m - 1");
    static const Verdict verdicts[] = {
        {"i", NST_DIM_LT, "n", NST_TRUE},
        {"i + 1", NST_DIM_LE, "n", NST_TRUE},
        {"i", NST_DIM_GE, "n", NST_FALSE},
        {"i", NST_DIM_EQ, "n", NST_FALSE},
        {"8*o + j", NST_DIM_LT, "n", NST_TRUE},
        {"8*o + j", NST_DIM_LT, "8*floordiv(n, 8)", NST_TRUE},
        {"n*c + i", NST_DIM_LT, "n*m", NST_TRUE},
        {"m*i + c", NST_DIM_LT, "n*m", NST_TRUE},
        {"floordiv(i, 4)", NST_DIM_LE, "floordiv(n - 1, 4)", NST_TRUE},
        {"16*floordiv(n, 16)", NST_DIM_LE, "n", NST_TRUE},
        {"16*ceildiv(n, 16)", NST_DIM_GE, "n", NST_TRUE},
        {"ceildiv(n, 16)", NST_DIM_LE, "n", NST_TRUE},
        {"mod(n, 16)", NST_DIM_LE, "n", NST_TRUE},
        {"floordiv(n, h)", NST_DIM_LE, "n", NST_TRUE},
        {"w*floordiv(n, 3*h)", NST_DIM_LE, "w*n", NST_TRUE},
        {"mod(n, 16)", NST_DIM_LT, "16", NST_TRUE},
        {"n", NST_DIM_LT, "h", NST_UNKNOWN},
        {"n*h", NST_DIM_GE, "n", NST_TRUE},
        {"n*h*w", NST_DIM_GE, "h*w", NST_TRUE},
        {"min(n, h)", NST_DIM_LE, "max(n, h)", NST_TRUE},
        {"min(n, h) + max(n, h)", NST_DIM_EQ, "n + h", NST_TRUE},
        {"2*n + 1", NST_DIM_EQ, "2*h", NST_FALSE},
        {"n", NST_DIM_EQ, "1", NST_UNKNOWN},
        {"n", NST_DIM_GE, "1", NST_TRUE},
        {"2*n - 8*floordiv(n, 8)", NST_DIM_EQ, "n + mod(n, 8)", NST_TRUE},
        {"min(16, n - 16*floordiv(i, 16))", NST_DIM_GE, "1", NST_TRUE},
    };
    CHECK_VERDICTS(verdicts);
}

Test(dim, sizes_of_convolution_and_pooling)
{
    static const Verdict verdicts[] = {
        /* "same" padding, stride 1 and 2 */
        {"h + 2 - 3 + 1", NST_DIM_EQ, "h", NST_TRUE},
        {"floordiv(h + 2 - 3, 2) + 1", NST_DIM_EQ, "ceildiv(h, 2)", NST_TRUE},
        {"floordiv(2*h - 1, 2)", NST_DIM_EQ, "h - 1", NST_TRUE},
        {"(floordiv(h - 1, 2) + 1)*2", NST_DIM_GE, "h", NST_TRUE},
        /* the last read of the last window */
        {"2*floordiv(h - 1, 2) + 2", NST_DIM_LE, "h + 1", NST_TRUE},
        /* Reshape */
        {"n*h*w", NST_DIM_EQ, "w*(h*n)", NST_TRUE},
        {"n*floordiv(n*h*w, n)", NST_DIM_EQ, "n*h*w", NST_TRUE},
    };
    CHECK_VERDICTS(verdicts);
}

Test(dim, assumed_facts_are_used)
{
    NstSym q = nst_dims_new_sym(dims, NST_SYM_INPUT, "q", 0, INT64_MAX);
    (void)q;
    cr_expect_eq(nst_dim_compare(dims, read("q + 1"), NST_DIM_EQ, read("n + 1")), NST_UNKNOWN);
    nst_dims_assume_equal(dims, read("q"), read("n"));
    cr_expect_eq(nst_dim_compare(dims, read("q + 1"), NST_DIM_EQ, read("n + 1")), NST_TRUE);
    cr_expect_eq(nst_dim_compare(dims, read("i"), NST_DIM_LT, read("q")), NST_TRUE);
    nst_dims_assume_equal(dims, read("n*h"), read("m*w"));
    cr_expect_eq(nst_dim_compare(dims, read("2*q*h + 1"), NST_DIM_EQ, read("2*m*w + 1")), NST_TRUE);
    cr_expect_eq(nst_dim_compare(dims, read("m"), NST_DIM_GE, read("h - 3")), NST_UNKNOWN);
    nst_dims_assume_nonneg(dims, read("m - h"));
    cr_expect_eq(nst_dim_compare(dims, read("m"), NST_DIM_GE, read("h - 3")), NST_TRUE);
}

Test(dim, multiples)
{
    NstSym a = nst_dims_new_sym(dims, NST_SYM_INPUT, "a", 0, INT64_MAX);
    nst_dims_sym(dims, a)->multiple = 16;
    cr_expect_eq(nst_dim_known_multiple(dims, read("a")), 16);
    cr_expect_eq(nst_dim_known_multiple(dims, read("3*a + 8")), 8);
    cr_expect_eq(nst_dim_known_multiple(dims, read("floordiv(a, 4)")), 4);
    cr_expect_eq(nst_dim_known_multiple(dims, read("0")), 0);
    cr_expect_eq(read("mod(a + j, 16)").i, read("j").i);
    cr_expect_eq(read("4*floordiv(a, 4)").i, read("a").i);
    cr_expect_eq(read("floordiv(a + j, 32)").i, read("floordiv(a, 32)").i);
}

Test(dim, linear_and_subst)
{
    NstDim coef, rest;
    cr_assert(nst_dim_linear(dims, read("4*n*i + i + h + 3"), i, &coef, &rest));
    cr_expect_str_eq(show(coef), "4*n + 1");
    cr_expect_str_eq(show(rest), "h + 3");
    cr_expect_not(nst_dim_linear(dims, read("i*i"), i, &coef, &rest));
    cr_expect_not(nst_dim_linear(dims, read("floordiv(i, 3)"), i, &coef, &rest));
    cr_assert(nst_dim_linear(dims, read("h"), i, &coef, &rest));
    cr_expect_str_eq(show(coef), "0");
    cr_expect_str_eq(show(nst_dim_subst(dims, read("floordiv(n, 16)*h"), n, read("16*w"))), "h*w");
    NstDim value_of[8] = {{0}};
    value_of[n.i] = read("h");
    value_of[h.i] = read("n");
    cr_expect_str_eq(show(nst_dim_subst_all(dims, read("n + 2*h"), value_of, 8)), "2*n + h");
    cr_expect(nst_dim_uses(dims, read("floordiv(n, 16)*h"), n));
    cr_expect_not(nst_dim_uses(dims, read("floordiv(n, 16)*h"), w));
}

Test(dim, evaluation_reports_faults)
{
    int64_t values[8] = {0}, value;
    values[n.i] = INT64_MAX;
    values[h.i] = 2;
    cr_expect_eq(nst_dim_eval(&ctx, dims, read("n - h"), values, 8, &value), NST_OK);
    cr_expect_eq(value, INT64_MAX - 2);
    cr_expect_eq(nst_dim_eval(&ctx, dims, read("n*h"), values, 8, &value), NST_E_SHAPE);
    nst_ctx_clear(&ctx);
    cr_expect_eq(nst_dim_eval(&ctx, dims, read("floordiv(n, m)"), values, 8, &value), NST_E_SHAPE);
    nst_ctx_clear(&ctx);
    cr_expect_eq(nst_dim_eval(&ctx, dims, read("t"), values, 2, &value), NST_E_INVALID);
}

Test(dim, assumptions_end_with_their_scope)
{
    NstDim a = read("m"), b = read("t + 2");
    uint32_t scope = nst_dims_enter(dims);
    nst_dims_assume_nonneg(dims, nst_dim_sub(dims, a, b));
    cr_expect_eq(nst_dim_compare(dims, a, NST_DIM_GT, read("t")), NST_TRUE);
    cr_expect_eq(nst_dim_max(dims, a, b).i, a.i);
    nst_dims_leave(dims, scope);
    cr_expect_eq(nst_dim_compare(dims, a, NST_DIM_GT, read("t")), NST_UNKNOWN);
    cr_expect_str_eq(show(nst_dim_max(dims, a, b)), "max(m, t + 2)");
}

static NstDim chain(int length)
{
    NstDim dim = read("n");
    for (int k = 0; k < length; k++) dim = nst_dim_floordiv(dims, nst_dim_mul(dims, dim, dim), read("7"));
    return dim;
}

Test(dim, hostile_growth_is_bounded)
{
    int64_t values[8] = {0}, value = 0;
    values[n.i] = 7;
    cr_expect_eq(nst_dim_eval(&ctx, dims, chain(300), values, 8, &value), NST_OK, "%s", ctx.error);
    cr_expect_eq(value, 7);
    cr_expect_eq(nst_dim_eval(&ctx, dims, chain(3000), values, 8, &value), NST_E_LIMIT);
    nst_ctx_clear(&ctx);
    (void)show(chain(3000));
    /* shared parts seen once a use: 2^60 of them */
    NstDim wide = read("n");
    for (int k = 0; k < 60; k++)
        wide = nst_dim_min(dims, nst_dim_mul(dims, wide, wide),
                           nst_dim_mod(dims, nst_dim_add_const(dims, wide, k), read("h*w + t")));
    cr_expect(strlen(show(wide)) > 0);
    NstStatus status = nst_dim_eval(&ctx, dims, wide, values, 8, &value);
    cr_expect(status == NST_OK || status == NST_E_LIMIT || status == NST_E_SHAPE);
    nst_ctx_clear(&ctx);
    (void)nst_dim_compare(dims, wide, NST_DIM_LT, read("i"));
    (void)nst_dim_subst(dims, wide, n, read("h + w"));
    for (int k = 0; k < 200; k++) wide = nst_dim_mul(dims, wide, nst_dim_add_const(dims, read("h"), k));
    for (int k = 0; k < 200; k++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", k);
        NstSym sym = nst_dims_new_sym(dims, NST_SYM_INPUT, name, 0, 10);
        wide = nst_dim_add(dims, wide, nst_dim_sym(dims, sym));
    }
    (void)nst_dim_mul(dims, wide, wide);
}
