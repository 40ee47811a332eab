/* math.c: from an expanded op to its expression: tables, stated accuracy, the rewrite. */
#include "ir/math_build.h"

/* -- tables ------------------------------------------------------------------------------------------------ */

#define NST_MATH_TABLE(name, form, error, ...) static const double table_##name[] = {__VA_ARGS__};
#define NST_MATH_WORDS(name, ...)              static const double table_##name[] = {__VA_ARGS__};
#include "ir/math_coefficients.def"
#undef NST_MATH_TABLE
#undef NST_MATH_WORDS

NstMathTable nst_math_table(NstMathTableId id)
{
#define NST_MATH_TABLE(name, form, error, ...) {(int)(sizeof table_##name / sizeof(double)), table_##name},
#define NST_MATH_WORDS(name, ...)              {(int)(sizeof table_##name / sizeof(double)), table_##name},
    static const NstMathTable tables[] = {
#include "ir/math_coefficients.def"
    };
#undef NST_MATH_TABLE
#undef NST_MATH_WORDS
    return tables[id];
}

double nst_math_sixteenth(NstDtype type, int k)
{
    NstMathTable table = nst_math_table(type == NST_F32 ? NST_TABLE_SIXTEENTHS_F32 : NST_TABLE_SIXTEENTHS_F64);
    return table.coefficient[table.n - 1 - k];
}

const NstMathInfo *nst_math_info(NstScalarOp op, NstDtype type)
{
#define NST_MATH(op, type, ulp, ulp_no_fma, flush, source) {NST_OP_##op, NST_##type, {ulp, ulp_no_fma, flush, source}},
    static const struct {
        NstScalarOp op;
        NstDtype type;
        NstMathInfo info;
    } rows[] = {
#include "ir/math.def"
    };
#undef NST_MATH
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        if (rows[k].op == op && rows[k].type == type) return &rows[k].info;
    return NULL;
}

/* -- shared pieces ----------------------------------------------------------------------------------------- */

E nst_math_poly(B b, NstMathTableId id, E x, double scale, double factor)
{
    NstMathTable table = nst_math_table(id);
    double power = factor;
    for (int k = 1; k < table.n; k++) power *= scale;
    E y = num(b, table.coefficient[0] * power);
    for (int k = 1; k < table.n; k++) {
        power /= scale;
        y = fused(b, y, x, num(b, table.coefficient[k] * power));
    }
    return y;
}

E nst_math_or_sign(B b, E y, E x)
{
    E sign = op2(b, NST_OP_AND, to_bits(b, x), to_bits(b, num(b, -0.0)));
    return from_bits(b, op2(b, NST_OP_OR, to_bits(b, y), sign));
}

NstMathBuild nst_math_build(B like, NstDtype type)
{
    static const NstMathBuild narrow = {.type = NST_F32,
                                        .bits = NST_I32,
                                        .wide = false,
                                        .mantissa = 23,
                                        .bias = 127,
                                        .magic = 0x1.8p23,
                                        .exp_low = -0x1.5d589ep+6,
                                        .exp_high = 0x1.62e42ep+6,
                                        .sinh_high = 89.6,
                                        .one_part = 18,
                                        .min_normal = 0x1p-126,
                                        .exp_table = NST_TABLE_EXP_F32,
                                        .ln2_table = NST_TABLE_LN2_F32,
                                        .asin_table = NST_TABLE_ASIN_F32,
                                        .pio2_table = NST_TABLE_PIO2_F32};
    static const NstMathBuild wide = {.type = NST_F64,
                                      .bits = NST_I64,
                                      .wide = true,
                                      .mantissa = 52,
                                      .bias = 1023,
                                      .magic = 0x1.8p52,
                                      .exp_low = -0x1.6232bdd7abcd2p+9,
                                      .exp_high = 0x1.62e42fefa39efp+9,
                                      .sinh_high = 710.6,
                                      .one_part = 40,
                                      .min_normal = 0x1p-1022,
                                      .exp_table = NST_TABLE_EXP_F64,
                                      .ln2_table = NST_TABLE_LN2_F64,
                                      .asin_table = NST_TABLE_ASIN_F64,
                                      .pio2_table = NST_TABLE_PIO2_F64};
    NstMathBuild build = type == NST_F64 ? wide : narrow;
    build.pool = like->pool;
    build.eval = like->eval;
    build.form = like->form;
    return build;
}

/* -- nodes or values --------------------------------------------------------------------------------------- */

static E push(B b, NstDtype type, NstScalar value)
{
    NstMathEval *eval = b->eval;
    NST_ASSERT(eval->n < NST_MATH_STEPS);
    eval->type[eval->n] = type;
    eval->value[eval->n] = value;
    return (E){eval->n++};
}

NstDtype nst_math_type(B b, E x)
{
    return b->pool ? nst_expr(b->pool, x)->type : b->eval->type[x.i];
}

E nst_math_float(B b, NstDtype type, double value)
{
    if (b->pool) return nst_expr_float(b->pool, type, value);
    return push(b, type, (NstScalar){.f = type == NST_F32 ? (double)(float)value : value});
}

E nst_math_int(B b, NstDtype type, int64_t value)
{
    if (b->pool) return nst_expr_int(b->pool, type, value);
    return push(b, type, nst_scalar_convert(type, NST_I64, (NstScalar){.i = value}, false));
}

static E evaluate(B b, NstScalarOp op, NstDtype type, E x, E y, E z)
{
    NstMathEval *eval = b->eval;
    NstScalar value[3] = {eval->value[x.i], eval->value[y.i], eval->value[z.i]};
    return push(b, type, nst_scalar_eval(op, type, eval->type[x.i], value, eval->has_fma));
}

E nst_math_op(B b, NstScalarOp op, E x, E y, E z)
{
    int arity = nst_scalar_info(op)->arity;
    if (b->pool == NULL) {
        NstDtype types[3] = {nst_math_type(b, x), nst_math_type(b, y), nst_math_type(b, z)};
        return evaluate(b, op, nst_scalar_result(op, types, arity), x, y, z);
    }
    if (arity == 1) return nst_expr_unary(b->pool, op, x);
    return arity == 2 ? nst_expr_binary(b->pool, op, x, y) : nst_expr_ternary(b->pool, op, x, y, z);
}

E nst_math_convert(B b, NstDtype type, E x)
{
    return b->pool ? nst_expr_convert(b->pool, type, x, false) : evaluate(b, NST_OP_CONVERT, type, x, x, x);
}

E nst_math_bitcast(B b, NstDtype type, E x)
{
    return b->pool ? nst_expr_bitcast(b->pool, type, x) : evaluate(b, NST_OP_BITCAST, type, x, x, x);
}

/* -- the rewrite ------------------------------------------------------------------------------------------- */

static E expand(B b, NstScalarOp op, E x, E y)
{
    switch (op) {
    case NST_OP_EXP:
    case NST_OP_EXPM1:
    case NST_OP_SIGMOID:
    case NST_OP_TANH:
    case NST_OP_SINH:
    case NST_OP_COSH:
    case NST_OP_ERF: return nst_math_expand_exp(b, op, x);
    case NST_OP_LOG:
    case NST_OP_LOG1P:
    case NST_OP_ASINH:
    case NST_OP_ACOSH:
    case NST_OP_ATANH: return nst_math_expand_log(b, op, x);
    case NST_OP_POW: return nst_math_expand_pow(b, x, y);
    default: return nst_math_expand_circle(b, op, x);
    }
}

static NstExpr expand_node(void *arg, NstExprs *exprs, NstExpr e)
{
    NstExprNode node = *nst_expr(exprs, e);
    if (!nst_scalar_info(node.op)->expanded) return (NstExpr){0};
    NST_ASSERT(node.type == NST_F32 || node.type == NST_F64);
    NstMathBuild to = {.pool = exprs, .form = *(const NstMathForm *)arg}, build = nst_math_build(&to, node.type);
    return expand(&build, node.op, node.arg[0], node.arg[1]);
}

NstExpr nst_math_expand(NstExprs *exprs, NstExpr e, NstMathForm form)
{
    return nst_expr_rewrite(exprs, e, expand_node, &form);
}

NstScalar nst_math_eval(NstScalarOp op, NstDtype type, const NstScalar *arg, bool has_fma)
{
    NST_ASSERT(nst_scalar_info(op)->expanded && (type == NST_F32 || type == NST_F64));
    NstMathEval eval;
    eval.has_fma = has_fma;
    eval.n = 1;
    eval.type[0] = NST_DTYPE_NONE;
    eval.value[0] = (NstScalar){.i = 0};
    NstMathBuild to = {.eval = &eval, .form = {.has_fma = has_fma}}, build = nst_math_build(&to, type);
    E x = push(&build, type, arg[0]), y = {0};
    if (nst_scalar_info(op)->arity > 1) y = push(&build, type, arg[1]);
    return eval.value[expand(&build, op, x, y).i];
}
