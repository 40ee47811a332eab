/* compile_inspect.c: what a model declares, and the operator table: bodies of the table's inspect and operators. */
#include "frontend/inspect.h"
#include "runtime/compile.h"

#include <stdlib.h>

static NstModelPort port_of(NstCompile *c, const char *name, const NstType *type)
{
    NstDims *dims = c->graph->dims;
    const char *element = nst_dtype_info(type->dtype)->name;
    NstModelPort port = {.name = nst_strdup(c->arena, name), .type = element, .dtype = type->dtype, .rank = type->rank};
    for (int axis = 0; axis < type->rank; axis++) {
        if (nst_dim_is_const(dims, type->shape[axis], &port.shape[axis])) continue;
        NstText text;
        nst_text_init(&text, c->arena);
        nst_dim_print(&text, dims, type->shape[axis], NULL, NULL);
        port.shape[axis] = -1;
        port.symbol[axis] = nst_text_get(&text);
    }
    return port;
}

static void count_primitives(NstCompile *c, NstModelInfo *info)
{
    uint64_t count[NST_PRIM_COUNT] = {0};
    NstModelOperator *operators = NST_NEW_ARRAY(c->arena, NstModelOperator, NST_PRIM_COUNT);
    for (uint32_t k = 1; k < c->graph->nodes.n; k++) {
        const NstNode *node = c->graph->nodes.at[k];
        if (node->dead || node->prim == NST_PRIM_PARAM) continue;
        count[node->prim]++;
        info->nodes++;
        if (node->prim == NST_PRIM_CONST) info->weight_bytes += node->attr.constant.bytes;
    }
    for (int prim = 0; prim < NST_PRIM_COUNT; prim++)
        if (count[prim])
            operators[info->n_operators++] =
                (NstModelOperator){"", nst_prim_info((NstPrim)prim)->name, 0, NST_OPERATOR_RUNS, count[prim]};
    info->operators = operators;
}

static NstStatus inspect_graph(NstCompile *c, NstModelInfo *info)
{
    const NstCompileRequest *request = c->request;
    NST_TRY(nst_graph_parse(c->ctx, c->arena, request->bytes, request->size, &c->graph));
    NST_TRY(nst_graph_verify(c->ctx, c->graph));
    const NstRegion *top = nst_graph_region(c->graph, NST_GRAPH_REGION);
    NstModelPort *inputs = NST_NEW_ARRAY(c->arena, NstModelPort, top->params.n);
    NstModelPort *outputs = NST_NEW_ARRAY(c->arena, NstModelPort, top->results.n);
    *info = (NstModelInfo){.format = "nsg",
                           .producer = "",
                           .producer_version = "",
                           .graph = nst_strdup(c->arena, c->graph->name ? c->graph->name : ""),
                           .n_inputs = top->params.n,
                           .n_outputs = top->results.n,
                           .inputs = inputs,
                           .outputs = outputs};
    for (uint32_t k = 0; k < top->params.n; k++)
        inputs[k] = port_of(c, nst_value_node(c->graph, top->params.at[k])->attr.param.name,
                            nst_value_type(c->graph, top->params.at[k]));
    for (uint32_t k = 0; k < top->results.n; k++)
        outputs[k] = port_of(c, c->graph->result_names.at[k], nst_value_type(c->graph, top->results.at[k]));
    count_primitives(c, info);
    return NST_OK;
}

/* What nst_compiler_table's inspect gives: the information and the memory it lies in. */
typedef struct Inspected {
    NstModelInfo info; /* first: what the caller holds */
    NstCtx ctx;
    const NstCompileRequest *request;
} Inspected;

static NstStatus inspect_body(NstCtx *ctx, void *arg)
{
    Inspected *in = arg;
    NstCompile c = {.ctx = ctx, .arena = ctx->arena, .request = in->request};
    const NstCompileRequest *request = in->request;
    if (nst_compile_is_graph_text(request->bytes, request->size)) return inspect_graph(&c, &in->info);
    return nst_onnx_inspect(ctx, ctx->arena, request->bytes, request->size, request->operators, &in->info);
}

NstStatus nst_compile_inspect(const NstCompileRequest *request, const NstModelInfo **info)
{
    Inspected *in = nst_alloc_should_fail() ? NULL : calloc(1, sizeof *in);
    NstStatus status = in ? nst_ctx_init(&in->ctx) : NST_E_NOMEM;
    if (status != NST_OK) {
        snprintf(request->error, request->error_bytes, "no memory to look at '%s'", request->name);
        free(in);
        return status;
    }
    in->request = request;
    status = nst_guard(&in->ctx, inspect_body, in);
    in->request = NULL;
    *info = &in->info;
    if (status == NST_OK) return NST_OK;
    snprintf(request->error, request->error_bytes, "%s", in->ctx.error);
    nst_compile_inspect_free(*info);
    *info = NULL;
    return status;
}

void nst_compile_inspect_free(const NstModelInfo *info)
{
    union {
        const NstModelInfo *info;
        Inspected *inspected;
    } whole = {.info = info};
    nst_ctx_dispose(&whole.inspected->ctx);
    free(whole.inspected);
}
