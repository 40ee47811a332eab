/* math_ulp.c: the largest error of the expanded elementary functions (ir/math.h), over all floats or samples of doubles.
 *
 *     math_ulp [-s STRIDE] [-n SAMPLES] [NAME...]      (NAME like exp or pow; all without)
 *
 * Prints max ulp with fma and with mul and add, where it is, and the number of operations; fails above the bounds of
 * ir/math.def.  f32 is compared with libm in double: every STRIDE-th float (quick for powers of two:
 * unit/support_math_near.h); f64, and f32 of two operands, with SAMPLES values: f64 with libm in long double. */
#include "tests/unit/support_math_near.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Results nearer to the worst than this are compared with libm's own values; four times the error of near values. */
#define MARGIN 0x1p-10

/* The floats first, first + stride, ... by their bits. */
static void check_block(const BlockProgram *program, const MathFunction *function, MathArcs *arcs, uint64_t first,
                        uint64_t stride, double flush, MathWorst *worst)
{
    float *x = program->operand[0];
    double near[BLOCK];
    for (int i = 0; i < BLOCK; i++) {
        uint32_t bits = (uint32_t)(first + (uint64_t)i * stride);
        memcpy(&x[i], &bits, 4);
    }
    math_near(function, arcs, x, near);
    block_run(program);
    for (int fused = 0; fused < 2; fused++) {
        const float *got = program->result[fused];
        double limit = fmax(worst[fused].ulp - MARGIN, MARGIN);
        if (!math_may_exceed(got, near, flush, limit)) continue;
        for (int i = 0; i < BLOCK; i++) {
            double exact = function->exact(x[i]), ulp = math_ulp(got[i], exact, NST_F32, flush);
            if (ulp > worst[fused].ulp) worst[fused] = (MathWorst){ulp, x[i], 0, got[i], exact};
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
    BlockProgram program = math_program(arena, exprs, function->op, type);
    MathArcs *arcs = NST_NEW(arena, MathArcs);
    MathWorst worst[2] = {{.ulp = -1}, {.ulp = -1}};
    bool two = function->exact == NULL;
    if (type == NST_F64 || two)
        math_measure(&program, function, type, request->samples / BLOCK + 16, info->flush, worst);
    else
        for (uint64_t first = 0; first <= UINT32_MAX; first += BLOCK * request->stride)
            check_block(&program, function, arcs, first, request->stride, info->flush, worst);
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
