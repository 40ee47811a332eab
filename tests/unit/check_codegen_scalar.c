/* check_codegen_scalar.c: every scalar operation x type x target: compiled, linked without undefined symbols, run on
 * special and random values in a vector loop with a tail and in a scalar loop, and compared with the interpreter. */
#include <criterion/criterion.h>
#include <string.h>
#include "tests/unit/support_amx.h"
#include "tests/unit/support_codegen.h"

#define N     69 /* four vectors of 16 and a tail of 5 */
#define WIDTH 16
#define BATCH 24 /* kernels a module */

typedef struct Suite {
    NstCtx ctx;
    NstArena *arena; /* of the current batch */
    NstTarget target;
    const char *target_name;
    uint32_t n_kernels, n_all;
    NstKernel *kernel[BATCH];
} Suite;

/* --- one kernel: y[i] = op(a[i], b[i], c[i]) by vectors, z[i] the same by scalars ----------------------------- */

static NstExpr apply(NstExprs *exprs, NstScalarOp op, NstDtype type, const NstExpr *arg)
{
    switch (op) {
    case NST_OP_CONVERT: return nst_expr_convert(exprs, type, arg[0], false);
    case NST_OP_CONVERT_SAT: return nst_expr_convert(exprs, type, arg[0], true);
    case NST_OP_BITCAST: return nst_expr_bitcast(exprs, type, arg[0]);
    default: break;
    }
    int arity = nst_scalar_info(op)->arity;
    if (arity == 1) return nst_expr_unary(exprs, op, arg[0]);
    if (arity == 2) return nst_expr_binary(exprs, op, arg[0], arg[1]);
    return nst_expr_ternary(exprs, op, arg[0], arg[1], arg[2]);
}

static NstStmt *store_of(NstKernel *kernel, NstBuf out, NstScalarOp op, const NstBuf *in, int arity, NstSym var)
{
    NstDim at = nst_dim_sym(kernel->dims, var);
    NstExpr arg[3];
    for (int k = 0; k < arity; k++)
        arg[k] = nst_expr_load(kernel->exprs, nst_kernel_buffer(kernel, in[k])->dtype, in[k], &at, 1);
    NstExpr value = apply(kernel->exprs, op, nst_kernel_buffer(kernel, out)->dtype, arg);
    return nst_stmt_store(kernel, out, &at, 1, value);
}

static NstKernel *kernel_of(NstArena *arena, NstScalarOp op, const NstDtype *from, NstDtype to)
{
    NstDims *dims = nst_dims_new(arena);
    NstExprs *exprs = nst_exprs_new(arena, dims);
    const NstScalarInfo *info = nst_scalar_info(op);
    const char *name =
        nst_format(arena, "%s %s to %s", info->text, nst_dtype_info(from[0])->name, nst_dtype_info(to)->name);
    NstKernel *kernel = nst_kernel_new(arena, dims, exprs, nst_origins_new(arena), name);
    NstDim n = nst_dim_const(dims, N), zero = nst_dim_const(dims, 0);
    NstBuf in[3];
    for (int k = 0; k < info->arity; k++)
        in[k] = nst_kernel_arg(kernel, nst_format(arena, "in%d", k), from[k], 1, &n, NST_ACCESS_IN);
    NstBuf y = nst_kernel_arg(kernel, "y", to, 1, &n, NST_ACCESS_OUT);
    NstBuf z = nst_kernel_arg(kernel, "z", to, 1, &n, NST_ACCESS_OUT);
    NstSym i = nst_kernel_index(kernel, "i", zero, n), j = nst_kernel_index(kernel, "j", zero, n);
    NstDim from_i = nst_dim_sym(dims, i);
    NstDim to_i = nst_dim_min(dims, nst_dim_add_const(dims, from_i, WIDTH), n);
    NstSym lane = nst_kernel_index(kernel, "l", from_i, to_i);
    NstStmt *outer = nst_stmt_for(kernel, i, zero, n, WIDTH, NST_FOR_SERIAL, 0);
    NstStmt *vector = nst_stmt_for(kernel, lane, from_i, to_i, 1, NST_FOR_VECTOR, WIDTH);
    NstStmt *scalar = nst_stmt_for(kernel, j, zero, n, 1, NST_FOR_SERIAL, 0);
    nst_block_add(kernel, &vector->u.loop.body, store_of(kernel, y, op, in, info->arity, lane));
    nst_block_add(kernel, &outer->u.loop.body, vector);
    nst_block_add(kernel, &scalar->u.loop.body, store_of(kernel, z, op, in, info->arity, j));
    nst_block_add(kernel, &kernel->body, outer);
    nst_block_add(kernel, &kernel->body, scalar);
    return kernel;
}

/* --- batches ------------------------------------------------------------------------------------------------------- */

static void compare(Suite *suite, const Compiled *compiled, const NstKernel *kernel, uint64_t seed)
{
    NstCtx *ctx = &suite->ctx;
    Data start = support_data(ctx, kernel, NULL, seed, true, 0);
    Data expected = support_copy(ctx, &start), data = support_copy(ctx, &start);
    NstKernelRun run = {.buffer = expected.at, .buffer_bytes = expected.bytes, .has_fma = suite->target.has_fma};
    cr_assert_eq(nst_kernel_interpret(ctx, kernel, &run), NST_OK, "%s: %s", kernel->name, ctx->error);
    NstStatus status = support_run(ctx, compiled, &data, NULL, 1, NULL, NULL);
    cr_assert_eq(status, NST_OK, "%s: %s", kernel->name, nst_status_name(status));
    const char *difference = support_difference(ctx, kernel, &expected, &data);
    if (!difference) return;
    size_t at = strtoul(strchr(difference, '[') + 1, NULL, 10);
    NstText operands;
    nst_text_init(&operands, ctx->arena);
    for (uint32_t k = 0; k + 2 < kernel->n_args; k++) {
        NstDtype type = nst_kernel_buffer(kernel, (NstBuf){k + 1})->dtype;
        NstScalar value = nst_scalar_load(type, (char *)start.at[k] + at * (size_t)nst_dtype_info(type)->bytes);
        nst_text_add(&operands, " %#llx (%g)", (unsigned long long)value.bits, value.f);
    }
    cr_expect(false, "'%s' on %s of%s: interpreted and compiled: %s", kernel->name, suite->target_name,
              nst_text_get(&operands), difference);
}

static void finish_batch(Suite *suite)
{
    if (suite->n_kernels == 0) return;
    NstCtx *ctx = &suite->ctx;
    Compiled compiled;
    NstStatus status = nst_codegen_compile(ctx, suite->arena, (const NstKernel *const *)suite->kernel, suite->n_kernels,
                                           &suite->target, NULL, &compiled.code);
    cr_assert_eq(status, NST_OK, "batch from '%s' on %s: %s", suite->kernel[0]->name, suite->target_name, ctx->error);
    status = nst_os_map_code(ctx, compiled.code.bytes, compiled.code.size, &compiled.mapping);
    cr_assert_eq(status, NST_OK, "%s", ctx->error);
    for (uint32_t k = 0; k < suite->n_kernels; k++) {
        const unsigned char *entry = compiled.mapping.at + compiled.code.kernel[k].entry;
        memcpy(&compiled.run, &entry, sizeof compiled.run);
        for (uint64_t seed = 1; seed <= 3; seed++) compare(suite, &compiled, suite->kernel[k], seed);
    }
    support_release(&compiled);
    suite->n_all += suite->n_kernels;
    suite->n_kernels = 0;
    nst_arena_reset(suite->arena);
}

static void add_kernel(Suite *suite, NstScalarOp op, const NstDtype *from, NstDtype to)
{
    suite->kernel[suite->n_kernels++] = kernel_of(suite->arena, op, from, to);
    if (suite->n_kernels == BATCH) finish_batch(suite);
}

static bool can_hold(NstDtype type)
{
    return type != NST_C128;
}

static void add_operation(Suite *suite, NstScalarOp op)
{
    const NstScalarInfo *info = nst_scalar_info(op);
    for (int a = 1; a < NST_DTYPE_COUNT; a++) {
        NstDtype type = (NstDtype)a, operand[3] = {type, type, type};
        if (info->rule == NST_RULE_SELECT) operand[0] = NST_BOOL;
        if (info->rule != NST_RULE_CONVERT && info->rule != NST_RULE_BITCAST) {
            NstDtype result = nst_scalar_result(op, operand, info->arity);
            if (result != NST_DTYPE_NONE && can_hold(type)) add_kernel(suite, op, operand, result);
            continue;
        }
        for (int b = 1; b < NST_DTYPE_COUNT; b++) {
            bool allowed = info->rule == NST_RULE_CONVERT ? nst_scalar_can_convert((NstDtype)b, type)
                                                          : nst_scalar_can_bitcast((NstDtype)b, type);
            if (allowed) add_kernel(suite, op, operand, (NstDtype)b);
        }
    }
}

static void run_suite(const char *target, NstScalarOp first, NstScalarOp last, uint32_t at_least)
{
    Suite suite = {.target_name = target};
    cr_assert_eq(nst_ctx_init(&suite.ctx), NST_OK);
    if (support_runnable_target(&suite.ctx, target, &suite.target)) {
        suite.arena = nst_arena_new(&suite.ctx, suite.ctx.arena);
        for (int op = (int)first; op <= (int)last; op++) add_operation(&suite, (NstScalarOp)op);
        finish_batch(&suite);
        cr_assert(suite.n_all >= at_least, "%u kernels", suite.n_all);
    }
    nst_ctx_dispose(&suite.ctx);
}

#define SUITE(target)                                                                                                  \
    Test(codegen_scalar, target##_arithmetic)                                                                          \
    {                                                                                                                  \
        run_suite(#target, NST_OP_ADD, NST_OP_SELECT, 200);                                                            \
    }                                                                                                                  \
    Test(codegen_scalar, target##_convert)                                                                             \
    {                                                                                                                  \
        run_suite(#target, NST_OP_CONVERT, NST_OP_CONVERT, 300);                                                       \
    }                                                                                                                  \
    Test(codegen_scalar, target##_saturate)                                                                            \
    {                                                                                                                  \
        run_suite(#target, NST_OP_CONVERT_SAT, NST_OP_DOT2_S16, 300);                                                  \
    }                                                                                                                  \
    Test(codegen_scalar, target##_functions)                                                                           \
    {                                                                                                                  \
        run_suite(#target, NST_OP_EXP, (NstScalarOp)(NST_OP_COUNT - 1), 30);                                           \
    }

SUITE(baseline)
SUITE(avx2)
SUITE(avx512)
SUITE(vnni)
SUITE(amx)
