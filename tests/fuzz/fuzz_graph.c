/* fuzz_graph.c: any text is parsed as .nsg or refused without a fault; what parses prints, and prints the same after
 * another reading; what verifies is interpreted on small inputs and must only fail with a status. */
#include <stdio.h>
#include <string.h>

#include "ir/graph.h"

#define MAX_INPUTS   16
#define MAX_NODES    200
#define MAX_ELEMENTS 2048 /* of a value that is still interpreted */

typedef struct Input {
    const char *text;
    size_t n;
} Input;

/* Pins every symbol to one small value, so that sizes are known. */
static void pin_symbols(NstDims *dims)
{
    for (uint32_t k = 1; k <= nst_dims_sym_count(dims); k++) {
        NstSymInfo *info = nst_dims_sym(dims, (NstSym){k});
        int64_t value = info->lo > 3 || info->hi < 3 ? info->lo : 3;
        if (info->kind == NST_SYM_INPUT) info->lo = info->hi = value;
    }
}

static bool is_small(const NstGraph *graph, const NstType *type)
{
    int64_t lo, hi;
    if (type->kind != NST_TYPE_TENSOR) return false;
    for (int axis = 0; axis < type->rank; axis++) {
        nst_dim_bounds(graph->dims, type->shape[axis], &lo, &hi);
        if (lo < 0 || hi > MAX_ELEMENTS) return false;
    }
    nst_dim_bounds(graph->dims, nst_type_elements(graph->dims, type), &lo, &hi);
    return hi <= MAX_ELEMENTS;
}

static bool can_run(const NstGraph *graph)
{
    if (graph->nodes.n > MAX_NODES || nst_graph_region(graph, NST_GRAPH_REGION)->params.n > MAX_INPUTS) return false;
    for (uint32_t k = 1; k < graph->nodes.n; k++)
        if (graph->nodes.at[k]->prim == NST_PRIM_LOOP) return false;
    for (uint32_t k = 1; k < graph->values.n; k++)
        if (!is_small(graph, &graph->values.at[k]->type)) return false;
    return true;
}

static NstStatus make_input(NstCtx *ctx, const NstGraph *graph, const NstType *type, uint64_t seed,
                            NstTensorValue *input)
{
    size_t elements = 1;
    *input = (NstTensorValue){.dtype = type->dtype, .rank = type->rank};
    for (int axis = 0; axis < type->rank; axis++) {
        int64_t hi;
        nst_dim_bounds(graph->dims, type->shape[axis], &input->shape[axis], &hi);
        elements *= (size_t)input->shape[axis];
    }
    input->bytes = elements * (size_t)nst_dtype_info(type->dtype)->bytes;
    input->data = nst_alloc(ctx->arena, input->bytes);
    bool number = type->dtype == NST_BOOL || nst_dtype_is_int(type->dtype) || nst_dtype_is_float(type->dtype);
    if (number) nst_const_fill_seeded(type->dtype, input->data, elements, seed);
    return NST_OK;
}

static NstStatus interpret(NstCtx *ctx, const NstGraph *graph)
{
    const NstRegion *region = nst_graph_region(graph, NST_GRAPH_REGION);
    NstTensorValue input[MAX_INPUTS];
    for (uint32_t k = 0; k < region->params.n; k++)
        NST_TRY(make_input(ctx, graph, nst_value_type(graph, region->params.at[k]), k, &input[k]));
    NstTensorValue *result = NST_NEW_ARRAY(ctx->arena, NstTensorValue, region->results.n + 1);
    return nst_graph_interpret(ctx, ctx->arena, graph, input, region->params.n, true, NULL, result);
}

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
    NST_TRY(nst_graph_verify(ctx, graph));
    nst_graph_sweep(graph);
    if (nst_graph_verify(ctx, graph) != NST_OK) {
        fprintf(stderr, "a swept graph is broken: %s\n%s\n", ctx->error, nst_text_get(&first));
        __builtin_trap();
    }
    pin_symbols(graph->dims);
    return can_run(graph) ? interpret(ctx, graph) : NST_OK;
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
