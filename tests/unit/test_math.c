/* test_math.c: the expansions of the elementary functions: accuracy on samples, special values, and that the two
 * evaluators agree bit for bit. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "tests/unit/support_math.h"

enum { SAMPLE_BLOCKS = 102400 / BLOCK };

static void each_function(NstStatus (*body)(NstCtx *ctx, void *function))
{
    for (size_t k = 0; k < n_math_functions; k++) {
        NstCtx ctx;
        cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
        MathFunction function = math_functions[k];
        cr_assert_eq(nst_guard(&ctx, body, &function), NST_OK, "%s", ctx.error);
        nst_ctx_dispose(&ctx);
    }
}

static const NstDtype types[] = {NST_F32, NST_F64};

Test(math, every_expanded_op_states_its_accuracy)
{
    size_t count = 0;
    for (int op = NST_OP_NONE + 1; op < NST_OP_COUNT; op++) {
        if (!nst_scalar_info(op)->expanded) continue;
        count++;
        for (int t = 0; t < 2; t++) {
            const NstMathInfo *info = nst_math_info(op, types[t]);
            cr_assert_not_null(info, "%s", nst_scalar_info(op)->text);
            cr_assert(info->max_ulp > 0.5 && info->max_ulp <= 4 && info->max_ulp_no_fma <= 4);
        }
    }
    cr_assert_eq(count, n_math_functions);
    cr_assert_null(nst_math_info(NST_OP_ADD, NST_F32));
    cr_assert_null(nst_math_info(NST_OP_EXP, NST_F16));
}

static void refuse_expanded(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)arg;
    (void)e;
    cr_assert_not(nst_scalar_info(node->op)->expanded, "%s is left", nst_scalar_info(node->op)->text);
}

static NstStatus check_accuracy(NstCtx *ctx, void *arg)
{
    const MathFunction *function = arg;
    for (int t = 0; t < 2; t++) {
        NstExprs *exprs = nst_exprs_new(ctx->arena, nst_dims_new(ctx->arena));
        for (int form = 0; form < 4; form++) {
            NstMathForm has = {.has_fma = form & 1, .has_scale = form & 2};
            nst_expr_visit(exprs, math_expansion(exprs, function->op, types[t], has), refuse_expanded, NULL);
        }
        BlockProgram program = math_program(ctx->arena, exprs, function->op, types[t]);
        const NstMathInfo *info = nst_math_info(function->op, types[t]);
        MathWorst worst[2] = {{.ulp = -1}, {.ulp = -1}};
        math_measure(&program, function, types[t], SAMPLE_BLOCKS, info->flush, worst);
        for (int fused = 0; fused < 2; fused++) {
            const MathWorst *w = &worst[fused];
            cr_expect(w->ulp <= (fused ? info->max_ulp : info->max_ulp_no_fma), "%s %s: %g ulp at %a, %a: %a, exact %a",
                      nst_scalar_info(function->op)->text, nst_dtype_info(types[t])->name, w->ulp, w->x, w->y, w->got,
                      w->exact);
        }
    }
    return NST_OK;
}

Test(math, samples_are_within_the_stated_bounds)
{
    each_function(check_accuracy);
}

enum { FORMS = 3 };
static const NstMathForm forms[FORMS] = {{.has_fma = false}, {.has_fma = true}, {.has_fma = true, .has_scale = true}};

/* A block of samples from `first` on, through both. */
static void check_block(const BlockProgram *program, NstScalarOp op, NstDtype type, int first, uint64_t *state)
{
    bool two = program->operand[1];
    size_t bytes = type == NST_F64 ? 8 : 4;
    NstScalar value[BLOCK][2];
    for (int i = 0; i < BLOCK; i++) {
        int k = first + i;
        math_sample(type, two, (uint64_t)(two ? 2 * k + 1 : k), state, &value[i][0].f, &value[i][1].f);
        for (int a = 0; a < 1 + two; a++) {
            char *at = (char *)program->operand[a] + (size_t)i * bytes;
            nst_scalar_store(type, at, value[i][a]);
            value[i][a] = nst_scalar_load(type, at);
        }
    }
    block_run(program);
    for (int r = 0; r < FORMS; r++) {
        const char *results = program->result[r];
        for (int i = 0; i < BLOCK; i++) {
            NstScalar got = nst_scalar_eval(op, type, type, value[i], forms[r].has_fma);
            NstScalar other = nst_scalar_load(type, results + (size_t)i * bytes);
            bool same = got.bits == other.bits || (isnan(got.f) && isnan(other.f));
            cr_assert(same, "%s %s of %a, %a: %a and %a", nst_scalar_info(op)->text, nst_dtype_info(type)->name,
                      value[i][0].f, value[i][1].f, got.f, other.f);
        }
    }
}

/* nst_scalar_eval and the expression of nst_math_expand, run by the block evaluator: the same bits. */
static NstStatus check_agreement(NstCtx *ctx, void *arg)
{
    const MathFunction *function = arg;
    for (int t = 0; t < 2; t++) {
        NstExprs *exprs = nst_exprs_new(ctx->arena, nst_dims_new(ctx->arena));
        BlockRoot roots[FORMS];
        for (int r = 0; r < FORMS; r++)
            roots[r] = (BlockRoot){math_expansion(exprs, function->op, types[t], forms[r]), forms[r].has_fma};
        BlockProgram program = block_program(ctx->arena, exprs, roots, FORMS);
        uint64_t state = 0x9e3779b97f4a7c15u;
        for (int first = 0; first < 1024; first += BLOCK) check_block(&program, function->op, types[t], first, &state);
    }
    return NST_OK;
}

Test(math, scalar_eval_agrees_with_the_expansion)
{
    each_function(check_agreement);
}

/* -- special values: C11 Annex F.10, and limits of our own ------------------------------------------------- */

typedef struct Special {
    NstScalarOp op;
    double x, y, want;
} Special;

static const Special specials[] = {
    {NST_OP_EXP, 0, 0, 1},
    {NST_OP_EXP, -0.0, 0, 1},
    {NST_OP_EXP, INFINITY, 0, INFINITY},
    {NST_OP_EXP, -INFINITY, 0, 0},
    {NST_OP_EXP, NAN, 0, NAN},
    {NST_OP_EXP, 1e4, 0, INFINITY},
    {NST_OP_EXP, -1e4, 0, 0},
    {NST_OP_EXPM1, 0, 0, 0},
    {NST_OP_EXPM1, -0.0, 0, -0.0},
    {NST_OP_EXPM1, -INFINITY, 0, -1},
    {NST_OP_EXPM1, INFINITY, 0, INFINITY},
    {NST_OP_EXPM1, NAN, 0, NAN},
    {NST_OP_EXPM1, 1e4, 0, INFINITY},
    {NST_OP_LOG, 0, 0, -INFINITY},
    {NST_OP_LOG, -0.0, 0, -INFINITY},
    {NST_OP_LOG, 1, 0, 0},
    {NST_OP_LOG, -1, 0, NAN},
    {NST_OP_LOG, INFINITY, 0, INFINITY},
    {NST_OP_LOG, -INFINITY, 0, NAN},
    {NST_OP_LOG, NAN, 0, NAN},
    {NST_OP_LOG1P, 0, 0, 0},
    {NST_OP_LOG1P, -0.0, 0, -0.0},
    {NST_OP_LOG1P, -1, 0, -INFINITY},
    {NST_OP_LOG1P, -2, 0, NAN},
    {NST_OP_LOG1P, INFINITY, 0, INFINITY},
    {NST_OP_LOG1P, NAN, 0, NAN},
    {NST_OP_SIN, 0, 0, 0},
    {NST_OP_SIN, -0.0, 0, -0.0},
    {NST_OP_SIN, INFINITY, 0, NAN},
    {NST_OP_SIN, NAN, 0, NAN},
    {NST_OP_COS, 0, 0, 1},
    {NST_OP_COS, -0.0, 0, 1},
    {NST_OP_COS, -INFINITY, 0, NAN},
    {NST_OP_COS, NAN, 0, NAN},
    {NST_OP_TAN, 0, 0, 0},
    {NST_OP_TAN, -0.0, 0, -0.0},
    {NST_OP_TAN, INFINITY, 0, NAN},
    {NST_OP_TAN, NAN, 0, NAN},
    {NST_OP_ASIN, 0, 0, 0},
    {NST_OP_ASIN, -0.0, 0, -0.0},
    {NST_OP_ASIN, 1.5, 0, NAN},
    {NST_OP_ASIN, -INFINITY, 0, NAN},
    {NST_OP_ASIN, NAN, 0, NAN},
    {NST_OP_ACOS, 1, 0, 0},
    {NST_OP_ACOS, -1.5, 0, NAN},
    {NST_OP_ACOS, NAN, 0, NAN},
    {NST_OP_ATAN, 0, 0, 0},
    {NST_OP_ATAN, -0.0, 0, -0.0},
    {NST_OP_ATAN, NAN, 0, NAN},
    {NST_OP_SINH, 0, 0, 0},
    {NST_OP_SINH, -0.0, 0, -0.0},
    {NST_OP_SINH, INFINITY, 0, INFINITY},
    {NST_OP_SINH, -INFINITY, 0, -INFINITY},
    {NST_OP_SINH, NAN, 0, NAN},
    {NST_OP_COSH, 0, 0, 1},
    {NST_OP_COSH, -INFINITY, 0, INFINITY},
    {NST_OP_COSH, NAN, 0, NAN},
    {NST_OP_TANH, 0, 0, 0},
    {NST_OP_TANH, -0.0, 0, -0.0},
    {NST_OP_TANH, INFINITY, 0, 1},
    {NST_OP_TANH, -INFINITY, 0, -1},
    {NST_OP_TANH, NAN, 0, NAN},
    {NST_OP_ASINH, -0.0, 0, -0.0},
    {NST_OP_ASINH, INFINITY, 0, INFINITY},
    {NST_OP_ASINH, -INFINITY, 0, -INFINITY},
    {NST_OP_ASINH, NAN, 0, NAN},
    {NST_OP_ACOSH, 1, 0, 0},
    {NST_OP_ACOSH, 0.5, 0, NAN},
    {NST_OP_ACOSH, -INFINITY, 0, NAN},
    {NST_OP_ACOSH, INFINITY, 0, INFINITY},
    {NST_OP_ACOSH, NAN, 0, NAN},
    {NST_OP_ATANH, -0.0, 0, -0.0},
    {NST_OP_ATANH, 1, 0, INFINITY},
    {NST_OP_ATANH, -1, 0, -INFINITY},
    {NST_OP_ATANH, 2, 0, NAN},
    {NST_OP_ATANH, -INFINITY, 0, NAN},
    {NST_OP_ATANH, NAN, 0, NAN},
    {NST_OP_ERF, 0, 0, 0},
    {NST_OP_ERF, -0.0, 0, -0.0},
    {NST_OP_ERF, INFINITY, 0, 1},
    {NST_OP_ERF, -INFINITY, 0, -1},
    {NST_OP_ERF, NAN, 0, NAN},
    {NST_OP_SIGMOID, 0, 0, 0.5},
    {NST_OP_SIGMOID, INFINITY, 0, 1},
    {NST_OP_SIGMOID, -INFINITY, 0, 0},
    {NST_OP_SIGMOID, NAN, 0, NAN},
    {NST_OP_POW, 0, -3, INFINITY},
    {NST_OP_POW, -0.0, -3, -INFINITY},
    {NST_OP_POW, -0.0, -2, INFINITY},
    {NST_OP_POW, -0.0, -2.5, INFINITY},
    {NST_OP_POW, 0, -INFINITY, INFINITY},
    {NST_OP_POW, -0.0, 3, -0.0},
    {NST_OP_POW, -0.0, 2, 0},
    {NST_OP_POW, -1, INFINITY, 1},
    {NST_OP_POW, -1, -INFINITY, 1},
    {NST_OP_POW, 1, NAN, 1},
    {NST_OP_POW, NAN, 0, 1},
    {NST_OP_POW, NAN, -0.0, 1},
    {NST_OP_POW, -2, 0.5, NAN},
    {NST_OP_POW, 0.5, -INFINITY, INFINITY},
    {NST_OP_POW, 2, -INFINITY, 0},
    {NST_OP_POW, 0.5, INFINITY, 0},
    {NST_OP_POW, -2, INFINITY, INFINITY},
    {NST_OP_POW, -INFINITY, -3, -0.0},
    {NST_OP_POW, -INFINITY, -2, 0},
    {NST_OP_POW, -INFINITY, 3, -INFINITY},
    {NST_OP_POW, -INFINITY, 2.5, INFINITY},
    {NST_OP_POW, INFINITY, -1, 0},
    {NST_OP_POW, INFINITY, 0.5, INFINITY},
    {NST_OP_POW, NAN, 1, NAN},
    {NST_OP_POW, 2, NAN, NAN},
    {NST_OP_POW, -3, 3, -27},
    {NST_OP_POW, 2, -4, 0.0625},
    {NST_OP_POW, 10, 2, 100},
};

Test(math, special_values_follow_annex_f)
{
    for (size_t k = 0; k < sizeof specials / sizeof specials[0]; k++) {
        const Special *s = &specials[k];
        for (int t = 0; t < 4; t++) {
            NstScalar arg[2] = {{.f = s->x}, {.f = s->y}}, want = {.f = s->want};
            NstScalar got = nst_scalar_eval(s->op, types[t / 2], types[t / 2], arg, t % 2);
            cr_expect(isnan(want.f) ? isnan(got.f) : got.bits == want.bits, "%s %s of %a, %a: %a instead of %a",
                      nst_scalar_info(s->op)->text, nst_dtype_info(types[t / 2])->name, s->x, s->y, got.f, want.f);
        }
    }
}

/* A NaN of any payload stays one: its low bits must not be taken for a result. */
Test(math, every_nan_stays_one)
{
    for (size_t k = 0; k < n_math_functions; k++) {
        for (uint32_t bits = 0x7fc00000; bits < 0x7fc00800; bits += bits < 0x7fc00200 ? 1 : 37) {
            NstScalar arg[2] = {{.f = 0}, {.f = 0.5}};
            uint32_t signed_bits = bits ^ (bits & 1) << 31;
            arg[0] = nst_scalar_load(NST_F32, &signed_bits);
            NstScalar got = nst_scalar_eval(math_functions[k].op, NST_F32, NST_F32, arg, true);
            cr_assert(isnan(got.f), "%s of NaN %x: %a", nst_scalar_info(math_functions[k].op)->text,
                      (unsigned)signed_bits, got.f);
        }
    }
}
