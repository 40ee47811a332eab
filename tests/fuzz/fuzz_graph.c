/* fuzz_graph.c: any text is parsed as .nsg or refused without a fault; what parses prints,
 * and prints the same after another reading. */
#include <stdio.h>
#include <string.h>

#include "ir/graph.h"

typedef struct Input {
    const char *text;
    size_t n;
} Input;

static NstStatus run(NstCtx *ctx, void *arg)
{
    const Input *input = arg;
    NstGraph *graph, *again;
    NST_TRY(nst_graph_parse(ctx, ctx->arena, input->text, input->n, &graph));
    NstText first, second;
    nst_text_init(&first, ctx->arena);
    nst_text_init(&second, ctx->arena);
    nst_graph_print(&first, graph);
    if (nst_graph_parse(ctx, ctx->arena, nst_text_get(&first), first.n, &again) != NST_OK) {
        fprintf(stderr, "printed text does not parse: %s\n%s\n", ctx->error, nst_text_get(&first));
        __builtin_trap();
    }
    nst_graph_print(&second, again);
    if (strcmp(nst_text_get(&first), nst_text_get(&second)) != 0) {
        fprintf(stderr, "printed:\n%s\nthen:\n%s\n", nst_text_get(&first), nst_text_get(&second));
        __builtin_trap();
    }
    return NST_OK;
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
