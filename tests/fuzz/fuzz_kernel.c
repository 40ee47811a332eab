/* fuzz_kernel.c: any text is parsed as .nsl or refused without a fault; what parses is judged by the verifier, prints,
 * and prints the same after another reading. */
#include <stdio.h>
#include <string.h>

#include "ir/loop.h"

typedef struct Input {
    const char *text;
    size_t n;
} Input;

static NstStatus run(NstCtx *ctx, void *arg)
{
    const Input *input = arg;
    NstKernel *kernel, *again;
    NST_TRY(nst_kernel_parse(ctx, ctx->arena, input->text, input->n, &kernel));
    NstText first, second, canonical;
    nst_text_init(&first, ctx->arena);
    nst_text_init(&second, ctx->arena);
    nst_text_init(&canonical, ctx->arena);
    nst_kernel_print(&first, kernel);
    if (nst_kernel_parse(ctx, ctx->arena, nst_text_get(&first), first.n, &again) != NST_OK) {
        fprintf(stderr, "printed text does not parse: %s\n%s\n", ctx->error, nst_text_get(&first));
        __builtin_trap();
    }
    nst_kernel_print(&second, again);
    if (strcmp(nst_text_get(&first), nst_text_get(&second)) != 0) {
        fprintf(stderr, "printed:\n%s\nthen:\n%s\n", nst_text_get(&first), nst_text_get(&second));
        __builtin_trap();
    }
    nst_kernel_canonical(&canonical, kernel);
    return nst_kernel_verify(ctx, kernel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    NstCtx ctx;
    if (nst_ctx_init(&ctx) != NST_OK) return 0;
    Input input = {.text = nst_copy_text(ctx.arena, (const char *)data, size), .n = size};
    NstStatus status = nst_guard(&ctx, run, &input);
    (void)status;
    nst_ctx_dispose(&ctx);
    return 0;
}
