#include "tests/unit/support_math.h"

#include <math.h>
#include <string.h>

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static long double sigmoid_long(long double x)
{
    return 1 / (1 + expl(-x));
}

const MathFunction math_functions[] = {
    {NST_OP_EXP, exp, expl},       {NST_OP_EXPM1, expm1, expm1l}, {NST_OP_LOG, log, logl},
    {NST_OP_LOG1P, log1p, log1pl}, {NST_OP_SIN, sin, sinl},       {NST_OP_COS, cos, cosl},
    {NST_OP_TAN, tan, tanl},       {NST_OP_ASIN, asin, asinl},    {NST_OP_ACOS, acos, acosl},
    {NST_OP_ATAN, atan, atanl},    {NST_OP_SINH, sinh, sinhl},    {NST_OP_COSH, cosh, coshl},
    {NST_OP_TANH, tanh, tanhl},    {NST_OP_ASINH, asinh, asinhl}, {NST_OP_ACOSH, acosh, acoshl},
    {NST_OP_ATANH, atanh, atanhl}, {NST_OP_ERF, erf, erfl},       {NST_OP_SIGMOID, sigmoid, sigmoid_long},
    {NST_OP_POW, NULL, NULL},
};
const size_t n_math_functions = sizeof math_functions / sizeof math_functions[0];

double math_ulp(double got, long double exact, NstDtype type, double flush)
{
    bool wide = type == NST_F64;
    if (isnan(exact) || isnan(got)) return isnan(exact) && isnan(got) ? 0 : INFINITY;
    if (got == 0 && fabsl(exact) < (long double)flush) return 0;
    if (exact == 0) return got == 0 && !signbit(got) == !signbit(exact) ? 0 : INFINITY;
    int bits = wide ? 53 : 24, top = wide ? 1024 : 128, least = wide ? -1021 : -125, exponent;
    long double limit = ldexpl(1, top), value = isinf(got) ? copysignl(limit, got) : (long double)got;
    if (fabsl(exact) > limit) exact = copysignl(limit, exact);
    (void)frexpl(exact, &exponent);
    if (exponent > top) exponent = top;
    if (exponent < least) exponent = least;
    return (double)ldexpl(fabsl(value - exact), bits - exponent);
}

NstExpr math_expansion(NstExprs *exprs, NstScalarOp op, NstDtype type, NstMathForm form)
{
    NstExpr x = nst_expr_arg(exprs, type, 0), e;
    if (nst_scalar_info(op)->arity == 2)
        e = nst_expr_binary(exprs, op, x, nst_expr_arg(exprs, type, 1));
    else
        e = nst_expr_unary(exprs, op, x);
    return nst_math_expand(exprs, e, form);
}

BlockProgram math_program(NstArena *arena, NstExprs *exprs, NstScalarOp op, NstDtype type)
{
    BlockRoot roots[2];
    for (int fused = 0; fused < 2; fused++)
        roots[fused] = (BlockRoot){math_expansion(exprs, op, type, (NstMathForm){.has_fma = fused}), fused};
    return block_program(arena, exprs, roots, 2);
}

static uint64_t random_bits(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

/* A random significand and sign with an exponent in [-reach, reach). */
static double random_near_one(uint64_t *state, unsigned reach)
{
    uint64_t bits = random_bits(state), exponent = 1023 - reach + random_bits(state) % (2 * reach);
    return double_of((bits & ~(UINT64_C(2047) << 52)) | exponent << 52);
}

double math_special(unsigned k)
{
    static const double values[] = {0.0,
                                    1,
                                    0.5,
                                    2,
                                    3,
                                    1.5,
                                    0x1p-149,
                                    0x1p-126,
                                    0x1p127,
                                    INFINITY,
                                    NAN,
                                    7,
                                    0.3,
                                    0x1p-1074,
                                    0x1p-1022,
                                    0x1p53,
                                    0x1p24,
                                    1e10,
                                    1e5,
                                    88.5,
                                    0x1.fffffep127,
                                    100.25,
                                    0x1.fffffffffffffp1023,
                                    0.25,
                                    0x1.fffffep-1,
                                    0x1.000002p0};
    unsigned n = sizeof values / sizeof values[0];
    return k % (2 * n) < n ? values[k % n] : -values[k % n];
}

void math_sample(NstDtype type, bool two, uint64_t k, uint64_t *state, double *x, double *y)
{
    unsigned reach = type == NST_F64 ? 1022 : 126;
    uint64_t specials = two ? MATH_SPECIALS * MATH_SPECIALS : MATH_SPECIALS;
    if (k < specials) {
        *x = math_special((unsigned)(two ? k / MATH_SPECIALS : k));
        *y = math_special((unsigned)(k % MATH_SPECIALS));
        return;
    }
    bool far = random_bits(state) >> 60 & 1;
    *x = random_near_one(state, far ? reach : 12);
    *y = random_near_one(state, far ? reach : 12);
    uint64_t choice = random_bits(state) >> 40;
    if (!two || (choice & 7) < 2) return;
    *x = type == NST_F64 ? fabs(*x) : fabsf((float)*x); /* most: a power in range, some of them of a negative base */
    double fraction = (double)(random_bits(state) >> 11) * 0x1p-52 - 1;
    *y = fraction * (type == NST_F64 ? 745 : 104) / log(*x);
    if ((choice >> 3 & 7) == 0) *y = trunc(*y), *x = -*x;
}

static void store(void *values, NstDtype type, int i, double *value)
{
    if (type == NST_F64) {
        ((double *)values)[i] = *value;
    } else {
        float narrow = (float)*value;
        ((float *)values)[i] = narrow;
        *value = narrow;
    }
}

static long double exact_of(const MathFunction *function, NstDtype type, double x, double y)
{
    if (type == NST_F64) return function->exact_long ? function->exact_long(x) : powl(x, y);
    return function->exact ? function->exact(x) : pow(x, y);
}

void math_measure(const BlockProgram *program, const MathFunction *function, NstDtype type, uint64_t blocks,
                  double flush, MathWorst *worst)
{
    bool two = program->operand[1];
    uint64_t state = 88172645463325252u;
    double x[BLOCK], y[BLOCK];
    long double exact[BLOCK];
    for (uint64_t block = 0; block < blocks; block++) {
        for (int i = 0; i < BLOCK; i++) {
            math_sample(type, two, block * BLOCK + (uint64_t)i, &state, &x[i], &y[i]);
            store(program->operand[0], type, i, &x[i]);
            if (two) store(program->operand[1], type, i, &y[i]);
            exact[i] = exact_of(function, type, x[i], y[i]);
        }
        block_run(program);
        for (int fused = 0; fused < 2; fused++) {
            const void *results = program->result[fused];
            for (int i = 0; i < BLOCK; i++) {
                double got = type == NST_F64 ? ((const double *)results)[i] : (double)((const float *)results)[i];
                double ulp = math_ulp(got, exact[i], type, flush);
                if (ulp > worst[fused].ulp)
                    worst[fused] = (MathWorst){ulp, x[i], two ? y[i] : 0, got, (double)exact[i]};
            }
        }
    }
}
