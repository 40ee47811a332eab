/* test_expr.c: the pool of expressions: sharing, constant folding, identities, INDEX arithmetic, walks. */
#include <criterion/criterion.h>
#include <math.h>

#include "ir/expr.h"

static NstCtx ctx;
static NstDims *dims;
static NstExprs *exprs;

static void setup(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    dims = nst_dims_new(ctx.arena);
    exprs = nst_exprs_new(ctx.arena, dims);
}

static void teardown(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(expr, .init = setup, .fini = teardown);

static NstExpr arg(NstDtype type, uint32_t slot)
{
    return nst_expr_arg(exprs, type, slot);
}

static NstExpr num(NstDtype type, double value)
{
    return nst_dtype_is_float(type) ? nst_expr_float(exprs, type, value) : nst_expr_int(exprs, type, (int64_t)value);
}

static NstExpr op2(NstScalarOp op, NstExpr a, NstExpr b)
{
    return nst_expr_binary(exprs, op, a, b);
}

static NstExpr op1(NstScalarOp op, NstExpr a)
{
    return nst_expr_unary(exprs, op, a);
}

static NstExpr index_of(NstSym sym)
{
    return nst_expr_index(exprs, nst_dim_sym(dims, sym));
}

#define SAME(a, b)      cr_assert_eq((a).i, (b).i)
#define DIFFERENT(a, b) cr_assert_neq((a).i, (b).i)

Test(expr, equal_nodes_are_one)
{
    NstExpr a = arg(NST_F32, 0), b = arg(NST_F32, 1);
    SAME(op2(NST_OP_ADD, a, b), op2(NST_OP_ADD, a, b));
    DIFFERENT(op2(NST_OP_ADD, a, b), op2(NST_OP_ADD, b, a));
    DIFFERENT(arg(NST_F64, 0), a);
    DIFFERENT(num(NST_F32, 0.0), num(NST_F32, -0.0));
    SAME(num(NST_F32, NAN), num(NST_F32, NAN));
    NstSym sym = nst_dims_new_sym(dims, NST_SYM_INPUT, "n", 0, 100);
    const NstDim index[2] = {nst_dim_sym(dims, sym), nst_dim_const(dims, 3)};
    SAME(nst_expr_load(exprs, NST_F32, (NstBuf){1}, index, 2), nst_expr_load(exprs, NST_F32, (NstBuf){1}, index, 2));
    DIFFERENT(nst_expr_load(exprs, NST_F32, (NstBuf){1}, index, 2),
              nst_expr_load(exprs, NST_F32, (NstBuf){1}, index, 1));
}

Test(expr, nodes_stay_while_the_pool_grows)
{
    NstExpr a = arg(NST_I32, 0);
    const NstExprNode *node = nst_expr(exprs, a);
    for (int k = 0; k < 20000; k++) (void)op2(NST_OP_MUL, a, nst_expr_int(exprs, NST_I32, k));
    cr_assert_eq(nst_expr(exprs, a), node);
    cr_assert_geq(nst_exprs_count(exprs), 39996u);
    for (int k = 2; k < 20000; k += 777) {
        const NstExprNode *product = nst_expr(exprs, op2(NST_OP_MUL, a, nst_expr_int(exprs, NST_I32, k)));
        cr_assert_eq(nst_expr(exprs, product->arg[1])->imm.i, k);
    }
}

Test(expr, constants_fold_in_their_type)
{
    SAME(op2(NST_OP_ADD, num(NST_I8, 127), num(NST_I8, 1)), num(NST_I8, -128));
    SAME(op2(NST_OP_DIV, num(NST_F32, 1), num(NST_F32, 3)), nst_expr_float(exprs, NST_F32, (double)(1.0f / 3.0f)));
    SAME(op2(NST_OP_LT, num(NST_U8, 200), num(NST_U8, 3)), nst_expr_int(exprs, NST_BOOL, 0));
    SAME(nst_expr_convert(exprs, NST_I8, num(NST_F32, 300), false), num(NST_I8, 127));
    SAME(nst_expr_bitcast(exprs, NST_U32, num(NST_F32, 1)), nst_expr_int(exprs, NST_U32, 0x3f800000));
    NstExpr exact = nst_expr_ternary(exprs, NST_OP_FMA, num(NST_F32, 2), num(NST_F32, 3), num(NST_F32, 1));
    SAME(exact, num(NST_F32, 7));
    NstExpr x = num(NST_F32, 1 + 0x1p-12), target = nst_expr_ternary(exprs, NST_OP_FMA, x, x, num(NST_F32, -1));
    cr_assert_eq(nst_expr(exprs, target)->op, NST_OP_FMA, "the target decides how often this rounds");
    SAME(op1(NST_OP_EXP, num(NST_F32, 0)), num(NST_F32, 1));
}

Test(expr, exact_identities_apply)
{
    NstExpr i = arg(NST_I32, 0), f = arg(NST_F32, 1), b = arg(NST_BOOL, 2), u = arg(NST_U8, 3);
    SAME(op2(NST_OP_ADD, i, num(NST_I32, 0)), i);
    SAME(op2(NST_OP_SUB, i, i), num(NST_I32, 0));
    SAME(op2(NST_OP_MUL, num(NST_I32, 1), i), i);
    SAME(op2(NST_OP_MUL, i, num(NST_I32, 0)), num(NST_I32, 0));
    SAME(op2(NST_OP_AND, u, num(NST_U8, 255)), u);
    SAME(op2(NST_OP_XOR, i, num(NST_I32, -1)), op1(NST_OP_NOT, i));
    SAME(op2(NST_OP_DIV, i, num(NST_I32, 0)), num(NST_I32, 0));
    SAME(op2(NST_OP_MOD, i, num(NST_I32, 0)), i);
    SAME(op2(NST_OP_ADD, op2(NST_OP_ADD, i, num(NST_I32, 5)), num(NST_I32, -5)), i);
    SAME(op2(NST_OP_MUL, f, num(NST_F32, 1)), f);
    SAME(op2(NST_OP_DIV, f, num(NST_F32, 4)), op2(NST_OP_MUL, f, num(NST_F32, 0.25)));
    SAME(op2(NST_OP_ADD, f, num(NST_F32, -0.0)), f);
    SAME(op2(NST_OP_SUB, f, num(NST_F32, 0.0)), f);
    SAME(op1(NST_OP_NEG, op1(NST_OP_NEG, f)), f);
    SAME(op1(NST_OP_ABS, op1(NST_OP_NEG, f)), op1(NST_OP_ABS, f));
    SAME(op1(NST_OP_FLOOR, op1(NST_OP_CEIL, f)), op1(NST_OP_CEIL, f));
    SAME(op2(NST_OP_MAX, f, f), f);
    NstExpr g = arg(NST_F32, 4), clipped = op2(NST_OP_MAX, f, num(NST_F32, 0));
    SAME(op2(NST_OP_MAX, clipped, num(NST_F32, 0)), clipped);
    SAME(op2(NST_OP_MAX, op2(NST_OP_MAX, f, g), f), op2(NST_OP_MAX, f, g));
    SAME(op2(NST_OP_ADD, f, op1(NST_OP_NEG, g)), op2(NST_OP_SUB, f, g));
    SAME(op2(NST_OP_SUB, f, op1(NST_OP_NEG, g)), op2(NST_OP_ADD, f, g));
    SAME(op2(NST_OP_MUL, op1(NST_OP_NEG, f), op1(NST_OP_NEG, g)), op2(NST_OP_MUL, f, g));
    SAME(op2(NST_OP_MUL, num(NST_F32, -1), f), op1(NST_OP_NEG, f));
    SAME(nst_expr_ternary(exprs, NST_OP_FMA, num(NST_F32, 1), f, g), op2(NST_OP_ADD, f, g));
    SAME(nst_expr_ternary(exprs, NST_OP_FMA, f, g, num(NST_F32, -0.0)), op2(NST_OP_MUL, f, g));
    SAME(op1(NST_OP_FLOOR, nst_expr_convert(exprs, NST_F32, i, false)), nst_expr_convert(exprs, NST_F32, i, false));
    SAME(nst_expr_convert(exprs, NST_I8, op1(NST_OP_TRUNC, f), false), nst_expr_convert(exprs, NST_I8, f, false));
    NstExpr chosen = nst_expr_ternary(exprs, NST_OP_SELECT, b, f, g);
    SAME(nst_expr_ternary(exprs, NST_OP_SELECT, b, chosen, num(NST_F32, 3)),
         nst_expr_ternary(exprs, NST_OP_SELECT, b, f, num(NST_F32, 3)));
    SAME(op1(NST_OP_NOT, op1(NST_OP_NOT, b)), b);
    SAME(op2(NST_OP_EQ, b, nst_expr_int(exprs, NST_BOOL, 1)), b);
    SAME(nst_expr_ternary(exprs, NST_OP_SELECT, b, f, f), f);
    SAME(nst_expr_ternary(exprs, NST_OP_SELECT, nst_expr_int(exprs, NST_BOOL, 0), f, num(NST_F32, 2)), num(NST_F32, 2));
    SAME(op1(NST_OP_NOT, op2(NST_OP_LT, i, num(NST_I32, 3))), op2(NST_OP_GE, i, num(NST_I32, 3)));
    SAME(op2(NST_OP_LT, num(NST_I32, 3), i), op2(NST_OP_GT, i, num(NST_I32, 3)));
}

Test(expr, inexact_identities_do_not_apply)
{
    NstExpr f = arg(NST_F32, 0), zero = num(NST_F32, 0);
    DIFFERENT(op2(NST_OP_ADD, f, zero), f);
    DIFFERENT(op2(NST_OP_SUB, f, num(NST_F32, -0.0)), f);
    DIFFERENT(op2(NST_OP_SUB, f, f), zero);
    DIFFERENT(op2(NST_OP_MUL, f, zero), zero);
    cr_assert_eq(nst_expr(exprs, op2(NST_OP_EQ, f, f))->op, NST_OP_EQ);
    cr_assert_eq(nst_expr(exprs, op1(NST_OP_NOT, op2(NST_OP_LT, f, zero)))->op, NST_OP_NOT);
    cr_assert_eq(nst_expr(exprs, op2(NST_OP_DIV, f, num(NST_F32, 3)))->op, NST_OP_DIV);
    cr_assert_eq(nst_expr(exprs, op2(NST_OP_DIV, f, num(NST_F32, 0x1p127)))->op, NST_OP_DIV, "1/c is denormal");
    NstExpr sum = op2(NST_OP_ADD, op2(NST_OP_ADD, f, num(NST_F32, 1)), num(NST_F32, 2));
    cr_assert_eq(nst_expr(exprs, nst_expr(exprs, sum)->arg[0])->op, NST_OP_ADD);
}

Test(expr, conversions_merge_where_they_lose_nothing)
{
    NstExpr h = arg(NST_F16, 0), f = arg(NST_F32, 1), i = arg(NST_I32, 2), b = arg(NST_I8, 3);
#define TO(type, e) nst_expr_convert(exprs, type, e, false)
    SAME(TO(NST_F16, TO(NST_F32, h)), h);
    DIFFERENT(TO(NST_F32, TO(NST_F16, f)), f);
    SAME(TO(NST_F16, TO(NST_F64, f)), TO(NST_F16, f));
    SAME(TO(NST_U8, TO(NST_I16, i)), TO(NST_U8, i));
    SAME(TO(NST_I8, TO(NST_F32, b)), b);
    DIFFERENT(TO(NST_I8, TO(NST_F64, i)), TO(NST_I8, i)); /* saturates, the direct one wraps */
    DIFFERENT(TO(NST_I64, TO(NST_U32, i)), TO(NST_I64, i));
    DIFFERENT(TO(NST_I8, nst_expr_convert(exprs, NST_I16, i, true)), TO(NST_I8, i));
    SAME(nst_expr_convert(exprs, NST_I64, i, true), TO(NST_I64, i));
    SAME(nst_expr_bitcast(exprs, NST_F32, nst_expr_bitcast(exprs, NST_I32, f)), f);
    SAME(nst_expr_bitcast(exprs, NST_BOOL, arg(NST_U8, 4)), TO(NST_BOOL, arg(NST_U8, 4)));
#undef TO
}

Test(expr, index_arithmetic_becomes_dims)
{
    NstSym n = nst_dims_new_sym(dims, NST_SYM_INPUT, "n", 1, 1000),
           i = nst_dims_new_sym(dims, NST_SYM_INDEX, "i", 0, 9);
    NstExpr en = index_of(n), ei = index_of(i), four = num(NST_I64, 4);
    NstDim dn = nst_dim_sym(dims, n), di = nst_dim_sym(dims, i);
    SAME(op2(NST_OP_ADD, op2(NST_OP_MUL, ei, four), en),
         nst_expr_index(exprs, nst_dim_add(dims, nst_dim_mul_const(dims, di, 4), dn)));
    SAME(op2(NST_OP_SUB, en, en), num(NST_I64, 0));
    SAME(op2(NST_OP_FLOORDIV, ei, four), nst_expr_index(exprs, nst_dim_floordiv(dims, di, nst_dim_const(dims, 4))));
    SAME(op2(NST_OP_REM, ei, four), nst_expr_index(exprs, nst_dim_mod(dims, di, nst_dim_const(dims, 4))));
    SAME(op2(NST_OP_MOD, ei, en), nst_expr_index(exprs, nst_dim_mod(dims, di, dn)));
    cr_assert_eq(nst_expr(exprs, op2(NST_OP_MOD, en, ei))->op, NST_OP_MOD, "the divisor may be 0");
    SAME(op2(NST_OP_LT, ei, num(NST_I64, 10)), nst_expr_int(exprs, NST_BOOL, 1));
    SAME(op2(NST_OP_GE, num(NST_I64, -1), ei), nst_expr_int(exprs, NST_BOOL, 0));
    cr_assert_eq(nst_expr(exprs, op2(NST_OP_LT, ei, en))->op, NST_OP_LT);
    SAME(op1(NST_OP_ABS, ei), ei);
    SAME(nst_expr_index(exprs, nst_dim_const(dims, 7)), num(NST_I64, 7));
    NstExpr large = nst_expr_int(exprs, NST_I64, INT64_MAX);
    cr_assert_eq(nst_expr(exprs, op2(NST_OP_ADD, ei, large))->op, NST_OP_ADD, "large constants stay out of dims");
}

Test(expr, substitution_rebuilds_and_folds)
{
    NstExpr a = arg(NST_I32, 0), b = arg(NST_I32, 1), e = op2(NST_OP_ADD, op2(NST_OP_MUL, a, b), a);
    const NstExpr with[2] = {num(NST_I32, 3), num(NST_I32, 4)}, second[2] = {{0}, num(NST_I32, 1)};
    SAME(nst_expr_subst_args(exprs, e, with, 2), num(NST_I32, 15));
    SAME(nst_expr_subst_args(exprs, e, second, 2), op2(NST_OP_ADD, a, a));
    SAME(nst_expr_subst_args(exprs, e, with, 0), e);
    const NstExpr swap[2] = {b, a};
    SAME(nst_expr_subst_args(exprs, e, swap, 2), op2(NST_OP_ADD, op2(NST_OP_MUL, b, a), b));
    NstSym n = nst_dims_new_sym(dims, NST_SYM_INPUT, "n", 0, 100);
    const NstDim at[1] = {nst_dim_add_const(dims, nst_dim_sym(dims, n), 1)};
    NstExpr load = nst_expr_load(exprs, NST_I64, (NstBuf){2}, at, 1);
    NstDim *value_of = NST_NEW_ARRAY(ctx.arena, NstDim, n.i + 1);
    value_of[n.i] = nst_dim_const(dims, 6);
    const NstDim seven[1] = {nst_dim_const(dims, 7)};
    NstExpr sum = op2(NST_OP_ADD, load, index_of(n)), got = nst_expr_subst_syms(exprs, sum, value_of, n.i + 1);
    SAME(got, op2(NST_OP_ADD, nst_expr_load(exprs, NST_I64, (NstBuf){2}, seven, 1), num(NST_I64, 6)));
    cr_assert(nst_expr_uses_sym(exprs, sum, n) && !nst_expr_uses_sym(exprs, got, n));
}

static void count_visit(void *count, NstExpr e, const NstExprNode *node)
{
    for (int k = 0; k < nst_scalar_info(node->op)->arity; k++) cr_assert_lt(node->arg[k].i, e.i);
    ++*(uint32_t *)count;
}

/* 100,000 operations deep, and 2^60 paths: walks are linear and keep their own stack. */
Test(expr, walks_are_linear_and_not_recursive)
{
    NstExpr deep = arg(NST_F32, 0), wide = arg(NST_F32, 0);
    for (int k = 0; k < 100000; k++) deep = op1(NST_OP_SQRT, deep);
    cr_assert_eq(nst_expr_cost(exprs, deep), 100000u);
    for (int k = 0; k < 60; k++) wide = op2(NST_OP_MUL, wide, wide);
    uint32_t visited = 0;
    nst_expr_visit(exprs, wide, count_visit, &visited);
    cr_assert_eq(visited, 61u);
    const NstExpr two[1] = {num(NST_F32, 1)};
    SAME(nst_expr_subst_args(exprs, wide, two, 1), num(NST_F32, 1));
    SAME(nst_expr_subst_args(exprs, deep, two, 1), num(NST_F32, 1));
}

static NstExpr nested_rewrite(void *count, NstExprs *pool, NstExpr e)
{
    *(uint32_t *)count += nst_expr_cost(pool, e); /* a walk within a walk */
    return (NstExpr){0};
}

Test(expr, walks_nest)
{
    uint32_t count = 0;
    NstExpr a = arg(NST_F32, 0), e = op1(NST_OP_SQRT, op2(NST_OP_MUL, a, a));
    SAME(nst_expr_rewrite(exprs, e, nested_rewrite, &count), e);
    cr_assert_eq(count, 3u);
}

/* What an operation folds to after substitution was substituted already. */
Test(expr, a_renamed_leaf_is_renamed_once)
{
    NstExpr a = arg(NST_F32, 0), b = arg(NST_F32, 1), c = arg(NST_BOOL, 2);
    NstExpr e = nst_expr_ternary(exprs, NST_OP_SELECT, c, a, b);
    const NstExpr swap[3] = {b, a, nst_expr_int(exprs, NST_BOOL, 1)};
    SAME(nst_expr_subst_args(exprs, e, swap, 3), b);
    NstExpr deeper = op1(NST_OP_NEG, e);
    SAME(nst_expr_subst_args(exprs, op1(NST_OP_NEG, deeper), swap, 3), b);
}
