/* fuzz_formula.c: any text is parsed or refused without a fault; what parses prints, reads back as the same expression,
 * and evaluates (all operands replaced by constants, so that everything elementary folds). */
#include <string.h>

#include "ir/base/map.h"
#include "ir/expr.h"

static const NstDtype types[] = {NST_F32,  NST_I32, NST_BOOL, NST_F64, NST_I64, NST_U8,  NST_F16,
                                 NST_BF16, NST_I8,  NST_U64,  NST_I4,  NST_STR, NST_C64, NST_F8E8M0};
#define N_TYPES (sizeof types / sizeof *types)

typedef struct Input {
    const char *text;
    uint64_t seed;
} Input;

static const char *buffer_name(void *arg, NstBuf buffer)
{
    (void)arg;
    return buffer.i == 1 ? "x" : "y";
}

static bool find_buffer(void *arg, const char *name, size_t n, NstBuf *buffer, NstDtype *type)
{
    (void)arg;
    *buffer = (NstBuf){name[0] == 'x' ? 1 : 2};
    *type = name[0] == 'x' ? NST_F32 : NST_I8;
    return n == 1 && (name[0] == 'x' || name[0] == 'y');
}

static const NstFormulaNames names = {.buffer_name = buffer_name, .find_buffer = find_buffer};

static NstStatus run(NstCtx *ctx, void *arg)
{
    const Input *input = arg;
    NstDims *dims = nst_dims_new(ctx->arena);
    NstExprs *exprs = nst_exprs_new(ctx->arena, dims);
    nst_dims_new_sym(dims, NST_SYM_INPUT, "n", 0, 1000);
    const NstFormulaWord word = {"@alpha", nst_expr_float(exprs, NST_F32, 0.1)};
    NstExpr e, back;
    NST_TRY(nst_formula_parse(ctx, exprs, input->text, types, N_TYPES, &word, 1, NST_DTYPE_NONE, &names, &e));
    NstText text;
    nst_text_init(&text, ctx->arena);
    nst_expr_print(&text, exprs, e, &names);
    if (nst_formula_parse(ctx, exprs, nst_text_get(&text), types, N_TYPES, NULL, 0, NST_DTYPE_NONE, &names, &back) !=
            NST_OK ||
        back.i != e.i) {
        fprintf(stderr, "printed '%s': %s\n", nst_text_get(&text), ctx->error);
        __builtin_trap();
    }
    NstExpr with[N_TYPES];
    uint64_t bits = input->seed;
    for (size_t k = 0; k < N_TYPES; k++) {
        with[k] = nst_expr_const(exprs, types[k], (NstScalar){.bits = bits});
        bits = nst_hash_mix(bits, k);
    }
    (void)nst_expr_subst_args(exprs, e, with, N_TYPES);
    return NST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    NstCtx ctx;
    if (size < 8 || nst_ctx_init(&ctx) != NST_OK) return 0;
    Input input = {.text = nst_copy_text(ctx.arena, (const char *)data + 8, size - 8)};
    memcpy(&input.seed, data, 8);
    NstStatus status = nst_guard(&ctx, run, &input);
    (void)status;
    nst_ctx_dispose(&ctx);
    return 0;
}
