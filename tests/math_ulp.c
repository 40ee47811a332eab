/* math_ulp.c: the largest error of the expanded elementary functions (ir/math.h), over all floats or samples of doubles.
 *
 *     math_ulp [-s STRIDE] [-n SAMPLES] [NAME...]      (NAME like exp or pow; all without)
 *
 * Prints max ulp with fma and with mul and add, where it is, and the number of operations; fails above the bounds of
 * ir/math.def.  f32 is compared with libm in double: every STRIDE-th float; f64, and f32 of two operands, with SAMPLES
 * values: f64 with libm in long double. */
#include "tests/unit/support_math.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* math_ulp without calls where the result is an ordinary float. */
static inline double ulp_f32(float got, double exact, double flush)
{
    union {
        double f;
        uint64_t i;
    } at = {exact}, unit;
    uint64_t exponent = at.i >> 52 & 2047;
    if ((double)got == exact && (got != 0 || !signbit(got) == !signbit(exact))) return 0;
    if (got == 0 && fabs(exact) < flush) return 0;
    if (isinf(got) && fabs(exact) >= 0x1p128 && (got > 0) == (exact > 0)) return 0;
    if (isnan(got) && isnan(exact)) return 0;
    if (exponent - (1023 - 126) >= 253 || got == 0) return math_ulp(got, exact, NST_F32, flush);
    unit.i = (2046 - (exponent - 23)) << 52;
    return fabs(got - exact) * unit.f;
}

static void all_floats(const BlockProgram program[2], const MathFunction *function, uint64_t stride, double flush,
                       MathWorst *worst)
{
    float *x = program[0].steps[program[0].operand[0]].values;
    static double exact[BLOCK];
    for (uint64_t first = 0; first <= UINT32_MAX; first += BLOCK * stride) {
        for (int i = 0; i < BLOCK; i++) {
            uint32_t bits = (uint32_t)(first + (uint64_t)i * stride);
            memcpy(&x[i], &bits, 4);
            exact[i] = function->exact(x[i]);
        }
        memcpy(program[1].steps[program[1].operand[0]].values, x, sizeof(float) * BLOCK);
        for (int fused = 0; fused < 2; fused++) {
            const float *got = block_run(&program[fused], fused);
            for (int i = 0; i < BLOCK; i++) {
                double ulp = ulp_f32(got[i], exact[i], flush);
                if (ulp > worst[fused].ulp) worst[fused] = (MathWorst){ulp, x[i], 0, got[i], exact[i]};
            }
        }
    }
}

typedef struct Request {
    uint64_t stride, samples;
    char **names;
    int n_names;
    bool failed;
} Request;

static bool wanted(const Request *request, const char *name)
{
    for (int k = 0; k < request->n_names; k++)
        if (strcmp(request->names[k], name) == 0) return true;
    return request->n_names == 0;
}

static void measure(NstCtx *ctx, const MathFunction *function, NstDtype type, Request *request)
{
    const NstMathInfo *info = nst_math_info(function->op, type);
    NstArena *arena = nst_arena_new(ctx, ctx->arena);
    NstExprs *exprs = nst_exprs_new(arena, nst_dims_new(arena));
    BlockProgram program[2];
    math_programs(arena, exprs, function->op, type, program);
    MathWorst worst[2] = {{.ulp = -1}, {.ulp = -1}};
    bool two = function->exact == NULL;
    if (type == NST_F64 || two)
        math_measure(program, function, type, request->samples / BLOCK + 4, info->flush, worst);
    else
        all_floats(program, function, request->stride, info->flush, worst);
    double bound[2] = {info->max_ulp_no_fma, info->max_ulp};
    for (int fused = 1; fused >= 0; fused--) {
        const MathWorst *w = &worst[fused];
        NstMathForm form = {.has_fma = fused};
        uint32_t operations = nst_expr_cost(exprs, math_expansion(exprs, function->op, type, form));
        bool bad = !(w->ulp <= bound[fused]);
        request->failed |= bad;
        printf("%-8s %s %-7s %8.4f ulp (bound %.2f) at %a", nst_scalar_info(function->op)->text,
               nst_dtype_info(type)->name, fused ? "fma" : "mul+add", w->ulp, bound[fused], w->x);
        if (two) printf(", %a", w->y);
        printf(": %a, exact %a; %u operations%s\n", w->got, w->exact, operations, bad ? "  TOO MUCH" : "");
        fflush(stdout);
    }
    nst_arena_free(arena);
}

static NstStatus measure_all(NstCtx *ctx, void *arg)
{
    Request *request = arg;
    for (size_t k = 0; k < n_math_functions; k++) {
        if (!wanted(request, nst_scalar_info(math_functions[k].op)->text)) continue;
        measure(ctx, &math_functions[k], NST_F32, request);
        measure(ctx, &math_functions[k], NST_F64, request);
    }
    return NST_OK;
}

int main(int argc, char **argv)
{
    Request request = {.stride = 1, .samples = 1000000};
    int at = 1;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        uint64_t value = strtoull(argv[at + 1], NULL, 10);
        if (strcmp(argv[at], "-s") == 0)
            request.stride = value ? value : 1;
        else
            request.samples = value;
    }
    request.names = argv + at;
    request.n_names = argc - at;
    NstCtx ctx;
    if (nst_ctx_init(&ctx) != NST_OK) return 2;
    NstStatus status = nst_guard(&ctx, measure_all, &request);
    if (status != NST_OK) fprintf(stderr, "math_ulp: %s\n", ctx.error);
    nst_ctx_dispose(&ctx);
    return status != NST_OK || request.failed;
}
