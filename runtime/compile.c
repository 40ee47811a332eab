/* compile.c: the table of libnestor-compiler: each function a context of its own, a guard, and results in memory of the
 * C library. */
#include "frontend/inspect.h"
#include "runtime/compile.h"
#include "runtime/host_eval.h"

#include <stdlib.h>
#include "runtime/run_state.h"
#include "runtime/string_tensor.h"

typedef struct Call {
    const NstCompileRequest *request;
    NstBlob *result;
    NstDumpStage stage;
    const char *text; /* kernel or passes */
    const NstTensor *inputs;
    NstTensor *outputs;
    uint32_t n_inputs, n_outputs;
    const char *type; /* of a value to read, and how many tensors it has */
    uint32_t *count;
} Call;

static NstStatus call_guarded(Call *call, NstStatus (*body)(NstCtx *ctx, void *arg))
{
    NstCtx ctx;
    const NstCompileRequest *request = call->request;
    NstStatus status = nst_ctx_init(&ctx);
    if (status != NST_OK) {
        snprintf(request->error, request->error_bytes, "no memory to compile '%s'", request->name);
        return status;
    }
    status = nst_guard(&ctx, body, call);
    if (status != NST_OK) snprintf(request->error, request->error_bytes, "%s", ctx.error);
    nst_ctx_dispose(&ctx);
    return status;
}

static NstCompile begin(NstCtx *ctx, const Call *call)
{
    return (NstCompile){.ctx = ctx, .arena = ctx->arena, .request = call->request};
}

static void free_lock(void *lock)
{
    nst_lock_free(lock);
}

/* Tells that compiling begins; only then are kernels counted. */
static NstStatus begin_count(NstCompile *c)
{
    if (!c->request->progress) return NST_OK;
    c->count = NST_NEW(c->arena, NstCompileCount);
    NST_CHECK(c->ctx, nst_lock_new(&c->count->lock) == NST_OK, NST_E_NOMEM, "no memory to compile '%s'",
              c->request->name);
    nst_arena_on_free(c->arena, free_lock, c->count->lock);
    nst_compile_count(c, 0, 0);
    return NST_OK;
}

static NstStatus hand_over(NstCtx *ctx, const NstPart *parts, int n_parts, NstBlob *blob)
{
    size_t bytes = 0;
    for (int k = 0; k < n_parts; k++) bytes += parts[k].size;
    char *at = blob->at = nst_memory_new(bytes);
    NST_CHECK(ctx, at, NST_E_NOMEM, "no memory for %zu bytes of result", bytes);
    blob->bytes = bytes;
    for (int k = 0; k < n_parts; k++) {
        if (parts[k].size != 0) memcpy(at, parts[k].at, parts[k].size);
        at += parts[k].size;
    }
    return NST_OK;
}

static NstStatus compile_body(NstCtx *ctx, void *arg)
{
    Call *call = arg;
    NstCompile c = begin(ctx, call);
    NstPlan *plan;
    NstPart *parts;
    int n_parts;
    NST_TRY(begin_count(&c));
    NstStatus read = nst_compile_read(&c);
    if (read != NST_OK && !c.by_shape) return read;
    if (read != NST_OK) nst_ctx_clear(ctx);
    if (read != NST_OK)
        NST_TRY(nst_compile_outline(&c, &plan));
    else if (call->request->options->interpret)
        NST_TRY(nst_compile_ports(&c, &plan));
    else
        NST_TRY(nst_compile_plan(&c, &plan));
    NST_TRY(nst_plan_write(ctx, ctx->arena, plan, &parts, &n_parts));
    return hand_over(ctx, parts, n_parts, call->result);
}

static NstStatus table_compile(const NstCompileRequest *request, NstBlob *plan)
{
    Call call = {.request = request, .result = plan};
    return call_guarded(&call, compile_body);
}

static NstStatus hand_over_text(NstCtx *ctx, const NstText *text, NstBlob *blob)
{
    const char *at = nst_text_get(text);
    NstPart part = {at, text->n + 1};
    return hand_over(ctx, &part, 1, blob);
}

static NstStatus dump_body(NstCtx *ctx, void *arg)
{
    Call *call = arg;
    NstCompile c = begin(ctx, call);
    NstText text;
    nst_text_init(&text, ctx->arena);
    NST_TRY(begin_count(&c));
    NST_TRY(nst_compile_dump(&c, call->stage, call->text, &text));
    return hand_over_text(ctx, &text, call->result);
}

static NstStatus table_dump(const NstCompileRequest *request, NstDumpStage stage, const char *kernel, NstBlob *text)
{
    Call call = {.request = request, .result = text, .stage = stage, .text = kernel};
    return call_guarded(&call, dump_body);
}

static NstStatus optimise_body(NstCtx *ctx, void *arg)
{
    Call *call = arg;
    NstCompile c = begin(ctx, call);
    NstText text;
    nst_text_init(&text, ctx->arena);
    NST_TRY(nst_compile_optimise(&c, call->text, &text));
    return hand_over_text(ctx, &text, call->result);
}

static NstStatus table_optimise(const NstCompileRequest *request, const char *passes, NstBlob *text)
{
    Call call = {.request = request, .result = text, .text = passes};
    return call_guarded(&call, optimise_body);
}

/* --- interpreting -------------------------------------------------------------------------------------------- */

static NstStatus interpret_input(NstCtx *ctx, NstStrings *strings, const NstTensor *tensor, const char *name,
                                 NstTensorValue *value)
{
    size_t size = nst_dtype_size(tensor->dtype), span;
    NST_CHECK(ctx, size != 0, NST_E_TYPE, "input '%s' has element type %d, which is none", name, (int)tensor->dtype);
    NST_CHECK(ctx, tensor->rank >= 0 && tensor->rank <= NST_MAX_RANK, NST_E_SHAPE,
              "input '%s' has rank %d, allowed are 0 to %d", name, (int)tensor->rank, NST_MAX_RANK);
    for (int axis = 0; axis < tensor->rank; axis++)
        NST_CHECK(ctx, tensor->shape[axis] >= 0, NST_E_SHAPE, "input '%s': axis %d is %lld, allowed are 0 and above",
                  name, axis, (long long)tensor->shape[axis]);
    NST_TRY(nst_tensor_span(ctx, tensor, size, name, &span));
    NST_CHECK(ctx, span <= tensor->bytes && (tensor->data || span == 0), NST_E_INVALID,
              "input '%s' is given %zu bytes, its shape needs %zu", name, tensor->data ? tensor->bytes : 0, span);
    *value = (NstTensorValue){.dtype = tensor->dtype, .rank = tensor->rank};
    value->bytes = (size_t)nst_dtype_info(tensor->dtype)->bytes;
    for (int axis = 0; axis < tensor->rank; axis++) {
        value->shape[axis] = tensor->shape[axis];
        bool over = __builtin_mul_overflow(value->bytes, (size_t)tensor->shape[axis], &value->bytes);
        NST_CHECK(ctx, !over && value->bytes <= (size_t)NST_MAX_TENSOR_BYTES, NST_E_LIMIT,
                  "input '%s' has more than %lld bytes", name, (long long)NST_MAX_TENSOR_BYTES);
    }
    value->data = nst_alloc_aligned(ctx->arena, value->bytes, 64);
    if (value->bytes == 0) return NST_OK;
    if (tensor->dtype == NST_STR) return nst_strings_take(ctx, strings, tensor, name, value->data);
    nst_tensor_gather(value->data, tensor);
    return NST_OK;
}

static NstStatus interpret_output(NstCtx *ctx, const NstStrings *strings, const NstTensorValue *value, const char *name,
                                  NstTensor *tensor)
{
    NstBlob blob = {NULL, 0};
    NstPart part = {value->data, value->bytes};
    *tensor = (NstTensor){.dtype = value->dtype, .rank = value->rank};
    memcpy(tensor->shape, value->shape, sizeof tensor->shape);
    if (value->dtype == NST_STR)
        return nst_strings_give(ctx, strings, value->data, value->bytes / sizeof(uint64_t), name, tensor);
    NST_TRY(hand_over(ctx, &part, 1, &blob));
    tensor->data = tensor->owned = blob.at;
    tensor->bytes = value->bytes;
    return NST_OK;
}

/* Inputs the graph was made for must have that value. */
static NstStatus check_fixed(const NstCompile *c, const NstTensorValue *in, uint32_t n)
{
    const NstRegion *top = nst_graph_region(c->graph, NST_GRAPH_REGION);
    for (uint32_t f = 0; f < c->n_fixed; f++) {
        const NstTensorValue *only = &c->fixed[f].value;
        uint32_t k = 0;
        while (k < n && strcmp(nst_value_node(c->graph, top->params.at[k])->attr.param.name, c->fixed[f].name) != 0)
            k++;
        bool same = k < n && in[k].rank == only->rank && in[k].bytes == only->bytes &&
                    memcmp(in[k].shape, only->shape, (size_t)only->rank * sizeof *only->shape) == 0 &&
                    (only->bytes == 0 || memcmp(in[k].data, only->data, only->bytes) == 0);
        NST_CHECK(c->ctx, same, NST_E_INVALID, "input '%s' has another value than the one the session was made for",
                  c->fixed[f].name);
    }
    return NST_OK;
}

static NstStatus interpret_body(NstCtx *ctx, void *arg)
{
    Call *call = arg;
    NstCompile c = begin(ctx, call);
    NST_TRY(nst_compile_read(&c));
    NstTensorValue *in = NST_NEW_ARRAY(ctx->arena, NstTensorValue, call->n_inputs);
    NstTensorValue *out = NST_NEW_ARRAY(ctx->arena, NstTensorValue, call->n_outputs);
    const NstRegion *top = nst_graph_region(c.graph, NST_GRAPH_REGION);
    for (uint32_t k = 0; k < call->n_inputs; k++)
        NST_TRY(interpret_input(ctx, c.graph->strings, &call->inputs[k],
                                nst_value_node(c.graph, top->params.at[k])->attr.param.name, &in[k]));
    NST_TRY(check_fixed(&c, in, call->n_inputs));
    NstHostGraph owner = {c.graph, call->request->operators};
    NstHostCall host = nst_host_for_graph(&owner);
    NST_TRY(
        nst_graph_interpret(ctx, ctx->arena, c.graph, in, call->n_inputs, call->request->target->has_fma, &host, out));
    for (uint32_t k = 0; k < call->n_outputs; k++) {
        const char *name = k < c.graph->result_names.n ? c.graph->result_names.at[k] : NULL;
        NST_TRY(interpret_output(ctx, c.graph->strings, &out[k], name ? name : "", &call->outputs[k]));
    }
    return NST_OK;
}

static NstStatus table_interpret(const NstCompileRequest *request, const NstTensor *inputs, uint32_t n_inputs,
                                 NstTensor *outputs, uint32_t n_outputs)
{
    Call call = {
        .request = request, .inputs = inputs, .outputs = outputs, .n_inputs = n_inputs, .n_outputs = n_outputs};
    for (uint32_t k = 0; k < n_outputs; k++) outputs[k] = (NstTensor){0};
    NstStatus status = call_guarded(&call, interpret_body);
    for (uint32_t k = 0; status != NST_OK && k < n_outputs; k++) nst_tensor_release(&outputs[k]);
    return status;
}

static NstStatus values_body(NstCtx *ctx, void *arg)
{
    Call *call = arg;
    const NstCompileRequest *request = call->request;
    NstTensorValue *value = NST_NEW_ARRAY(ctx->arena, NstTensorValue, call->n_outputs);
    NstStrings *strings = nst_strings_new(ctx->arena);
    NST_TRY(nst_import_values(ctx, ctx->arena, strings, request->name, call->type, request->bytes, request->size, value,
                              call->n_outputs, call->count));
    for (uint32_t k = 0; k < *call->count; k++)
        NST_TRY(interpret_output(ctx, strings, &value[k], request->name, &call->outputs[k]));
    return NST_OK;
}

static NstStatus table_values(const NstCompileRequest *request, const char *type, NstTensor *tensors, uint32_t room,
                              uint32_t *n)
{
    Call call = {.request = request, .outputs = tensors, .n_outputs = room, .type = type, .count = n};
    for (uint32_t k = 0; k < room; k++) tensors[k] = (NstTensor){0};
    *n = 0;
    NstStatus status = call_guarded(&call, values_body);
    for (uint32_t k = 0; k < room && status != NST_OK; k++) nst_tensor_release(&tensors[k]);
    return status;
}

static NstStatus operators_body(NstCtx *ctx, void *arg)
{
    Call *call = arg;
    NstText text;
    nst_text_init(&text, ctx->arena);
    nst_op_table_text(&text);
    return hand_over_text(ctx, &text, call->result);
}

static NstStatus table_operators(const NstCompileRequest *request, NstBlob *text)
{
    Call call = {.request = request, .result = text};
    return call_guarded(&call, operators_body);
}

NST_API extern const NstCompilerTable nst_compiler_table;
const NstCompilerTable nst_compiler_table = {.abi = NST_COMPILER_ABI,
                                             .build_id = nst_build_id,
                                             .compile = table_compile,
                                             .dump = table_dump,
                                             .optimise = table_optimise,
                                             .interpret = table_interpret,
                                             .values = table_values,
                                             .inspect = nst_compile_inspect,
                                             .inspect_free = nst_compile_inspect_free,
                                             .operators = table_operators};
