/* host_custom.c: from a host step to the caller's compute: sizes by the rules that infer gave, memory, the call. */
#include "runtime/host_custom.h"

#include <string.h>

typedef struct Calling {
    const NstCustomStep *bound;
    NstHostStep *step;
    uint32_t k; /* output that is being given memory */
    bool *given;
} Calling;

static NstStatus give_body(NstCtx *ctx, void *arg)
{
    (void)ctx;
    Calling *c = arg;
    return c->step->give(c->step, c->k);
}

/* nst_operator_give: nothing unwinds through the caller's function. */
static NstStatus give(NstOperatorCall *call, uint32_t k, const int64_t *shape)
{
    Calling *c = call->owner;
    if (k >= c->step->n_out || c->given[k])
        return call->failed =
                   nst_operator_fail(call, NST_E_INVALID, "output %u is given memory, but %s", k,
                                     k >= c->step->n_out ? "there is none of that number" : "it has some already");
    NstTensor *out = &c->step->out[k];
    const NstOperatorType *rule = &c->bound->node.out[k];
    for (int d = 0; d < out->rank; d++) {
        uint32_t input;
        int axis;
        int64_t wanted = rule->shape[d] >= 0 ? rule->shape[d] : shape[d];
        if (nst_custom_same(rule->shape[d], &input, &axis)) wanted = out->shape[d];
        if (shape[d] < 0 || shape[d] != wanted)
            return call->failed = nst_operator_fail(
                       call, NST_E_SHAPE, "output %u is given size %lld at axis %d, allowed: %s%lld", k,
                       (long long)shape[d], d, shape[d] < 0 ? "at least " : "", shape[d] < 0 ? 0LL : (long long)wanted);
    }
    memcpy(out->shape, shape, (size_t)out->rank * sizeof *shape);
    c->k = k;
    NstStatus status = nst_guard(c->step->ctx, give_body, c);
    if (status != NST_OK) call->failed = status;
    c->given[k] = status == NST_OK;
    return status;
}

/* Inputs in the places the node has them; one that is not aligned for its elements is copied. */
static NstTensor *place_inputs(const NstCustomStep *bound, NstHostStep *step)
{
    NstTensor *in = NST_NEW_ARRAY(step->arena, NstTensor, bound->node.n_in);
    uint32_t next = 0;
    for (uint32_t k = 0; k < bound->node.n_in; k++) {
        if (!bound->node.given[k]) continue;
        in[k] = step->in[next++];
        size_t element = (size_t)nst_dtype_info(in[k].dtype)->bytes;
        if (in[k].bytes == 0 || (uintptr_t)in[k].data % element == 0) continue;
        void *copy = nst_alloc_aligned(step->arena, in[k].bytes, 64);
        memcpy(copy, in[k].data, in[k].bytes);
        in[k].data = copy;
    }
    return in;
}

/* Sizes that are known before the call; memory where all of an output's are. */
static NstStatus prepare_output(Calling *c, const NstTensor *in, uint32_t k)
{
    const NstOperatorType *rule = &c->bound->node.out[k];
    NstTensor *out = &c->step->out[k];
    bool counted = false;
    for (int d = 0; d < out->rank; d++) {
        uint32_t input;
        int axis;
        out->shape[d] = rule->shape[d];
        if (rule->shape[d] == NST_COUNTED_SIZE) counted = true;
        if (!nst_custom_same(rule->shape[d], &input, &axis)) continue;
        NST_CHECK(c->step->ctx, axis < in[input].rank, NST_E_INVALID, "%s: a step of another form", c->step->name);
        out->shape[d] = in[input].shape[axis];
    }
    if (counted) return NST_OK;
    c->given[k] = true;
    return c->step->give(c->step, k);
}

NstStatus nst_custom_call(const NstCustomStep *bound, NstHostStep *step)
{
    const NstOperator *op = bound->op;
    Calling calling = {bound, step, 0, NST_NEW_ARRAY(step->arena, bool, step->n_out)};
    NstTensor *in = place_inputs(bound, step);
    for (uint32_t k = 0; k < step->n_out; k++) NST_TRY(prepare_output(&calling, in, k));
    NstOperatorCall call = {.node = &bound->node, .give = give, .owner = &calling};
    NstStatus status = op->compute(op->user, &call, in, bound->node.n_in, step->out, step->n_out);
    NST_TRY(nst_custom_outcome(step->ctx, op->name, &call, status));
    for (uint32_t k = 0; k < step->n_out; k++)
        NST_CHECK(step->ctx, calling.given[k], NST_E_INVALID,
                  "%s: output %u has a counted size, but compute gave it none (nst_operator_give)", op->name, k);
    return NST_OK;
}

NstStatus nst_custom_bind(NstCtx *ctx, NstArena *arena, const NstCustom *list, const NstHostStep *step,
                          NstCustomStep *bound)
{
    uint32_t n_given = 0;
    bound->op = nst_custom_find_name(arena, list, step->name);
    NST_CHECK(ctx, bound->op, NST_E_UNSUPPORTED,
              "operator '%s' (domain, name, version) is not registered with this engine", step->name);
    bool fits = step->config && nst_custom_node_read(arena, step->config, &bound->node);
    for (uint32_t k = 0; fits && k < bound->node.n_in; k++) n_given += bound->node.given[k];
    fits = fits && n_given == step->n_in && bound->node.n_out == step->n_out;
    for (uint32_t k = 0; fits && k < step->n_out; k++) fits = bound->node.out[k].rank == step->out[k].rank;
    NST_CHECK(ctx, fits, NST_E_INVALID, "operator '%s': a step of another form", step->name);
    return NST_OK;
}
