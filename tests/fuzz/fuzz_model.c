/* fuzz_model.c: any bytes are imported as an ONNX model or refused with a status and a message, without a fault. */
#include <stdlib.h>
#include "frontend/import.h"
#include "ir/base/status.h"

typedef struct Input {
    const uint8_t *data;
    size_t size;
} Input;

static NstStatus run(NstCtx *ctx, void *arg)
{
    const Input *input = arg;
    NstGraph *graph;
    NST_TRY(nst_import_onnx(ctx, ctx->arena, input->data, input->size, NULL, &graph));
    NstText text;
    nst_text_init(&text, ctx->arena);
    nst_graph_print(&text, graph);
    return NST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    NstCtx ctx;
    Input input = {data, size};
    if (nst_ctx_init(&ctx) != NST_OK) return 0;
    NstStatus status = nst_guard(&ctx, run, &input);
    if (status != NST_OK && !ctx.error[0] && status != NST_E_NOMEM) abort();
    nst_ctx_dispose(&ctx);
    return 0;
}
