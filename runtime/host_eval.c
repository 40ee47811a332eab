/* host_eval.c: a node of the interpreter as a step of the runtime. */
#include "runtime/host_eval.h"

#include <string.h>
#include "runtime/host_custom.h"

static NstStatus give(NstHostStep *step, uint32_t k)
{
    NstArena *arena = step->owner;
    NstTensor *out = &step->out[k];
    out->bytes = (size_t)nst_dtype_info(out->dtype)->bytes;
    for (int d = 0; d < out->rank; d++) out->bytes *= (size_t)out->shape[d];
    out->data = nst_alloc(arena, out->bytes);
    return NST_OK;
}

static NstStatus call(void *arg, NstCtx *ctx, NstArena *arena, const NstNode *node, const NstTensorValue *in,
                      NstTensorValue *out)
{
    const NstHostGraph *owner = arg;
    NstGraph *graph = owner->graph;
    const char *name = node->attr.host.name;
    NstHostFn function = nst_host_find(name);
    bool custom = nst_custom_is_name(name);
    NST_CHECK(ctx, function || custom, NST_E_UNSUPPORTED, "there is no host function '%s'", name);
    NstTensor *from = NST_NEW_ARRAY(arena, NstTensor, node->n_in), *to = NST_NEW_ARRAY(arena, NstTensor, node->n_out);
    for (uint32_t k = 0; k < node->n_in; k++) {
        from[k] = (NstTensor){.dtype = in[k].dtype, .rank = in[k].rank, .data = in[k].data, .bytes = in[k].bytes};
        memcpy(from[k].shape, in[k].shape, sizeof from[k].shape);
    }
    for (uint32_t k = 0; k < node->n_out; k++) {
        const NstType *type = nst_value_type(graph, node->out[k]);
        to[k] = (NstTensor){.dtype = type->dtype, .rank = type->rank};
    }
    NstHostStep step = {.ctx = ctx, .arena = arena, .name = name, .config = node->attr.host.config, .n_in = node->n_in};
    step.n_out = node->n_out;
    step.in = from;
    step.out = to;
    step.give = give;
    step.owner = arena;
    step.strings = graph->strings;
    if (custom) {
        NstCustomStep bound;
        NST_TRY(nst_custom_bind(ctx, arena, owner->operators, &step, &bound));
        NST_TRY(nst_custom_call(&bound, &step));
    } else {
        NST_TRY(function(&step));
    }
    for (uint32_t k = 0; k < node->n_out; k++) {
        out[k] = (NstTensorValue){.dtype = to[k].dtype, .rank = to[k].rank, .data = to[k].data, .bytes = to[k].bytes};
        memcpy(out[k].shape, to[k].shape, sizeof to[k].shape);
    }
    return NST_OK;
}

NstHostCall nst_host_for_graph(NstHostGraph *owner)
{
    return (NstHostCall){owner, call};
}
