/* lower_loop.c: loops of invariant shapes whose number of steps is a known dim.
 *
 * The loop becomes one serial group over the steps.  Each state has a history [steps + 1][state]: step t reads entry t and
 * writes entry t + 1, so that no step overwrites what it still reads.  Every value of the body is a buffer with a leading axis of
 * steps that is a local of the group. */
#include "passes/lowering.h"

static NstDim known_steps(NstLowering *lower, const NstNode *node)
{
    if (!node->in[0].i || node->attr.loop.count.i) return (NstDim){0};
    const NstNode *trips = nst_value_node(lower->graph, nst_lowered_value(lower, node->in[0]));
    if (trips->prim == NST_PRIM_DIM_VALUE) return trips->attr.dim_value.dim;
    if (trips->prim != NST_PRIM_CONST) return (NstDim){0};
    const NstConst *c = &trips->attr.constant;
    return nst_dim_const(lower->dims, c->data ? nst_scalar_load(NST_I64, c->data).i : c->splat.i);
}

/* True if the body never ends the loop: it hands its condition on, or says true. */
static bool goes_on(NstLowering *lower, const NstNode *node, const NstRegion *body)
{
    if (node->in[1].i) {
        const NstNode *start = nst_value_node(lower->graph, nst_lowered_value(lower, node->in[1]));
        if (start->prim != NST_PRIM_CONST || start->attr.constant.data || !start->attr.constant.splat.i) return false;
    }
    NstVal result = nst_lowered_value(lower, body->results.at[0]);
    if (result.i == body->params.at[1].i) return true;
    const NstNode *end = nst_value_node(lower->graph, result);
    return end->prim == NST_PRIM_CONST && !end->attr.constant.data && end->attr.constant.splat.i;
}

/* The history of state k, its first entry filled. */
static NstBuf open_history(NstLowering *lower, const NstNode *node, uint32_t k)
{
    NstVal start = node->in[k + 2];
    const NstType *type = nst_value_type(lower->graph, node->out[k]);
    NstDim shape[NST_MAX_RANK + 1] = {nst_dim_add_const(lower->dims, lower->steps, 1)};
    for (int d = 0; d < type->rank; d++) shape[d + 1] = type->shape[d];
    NstBuf history = nst_lower_temporary(lower, "states", type->dtype, type->rank + 1, shape);
    NstReading reading = nst_lower_begin(lower, "start", node->origin, type->rank);
    NstDim *index = nst_lower_axes(lower, reading.nest, type->rank, type->shape), at[NST_MAX_RANK + 1];
    at[0] = nst_dim_const(lower->dims, 0);
    for (int d = 0; d < type->rank; d++) at[d + 1] = index[d];
    nst_lower_store_at(lower, reading.nest, history, at, nst_read_value(&reading, start, index));
    nst_read_finish(&reading);
    nst_lower_add(lower, reading.nest);
    return history;
}

/* buffer[step + ahead] = value, in each step. */
static void write_entry(NstLowering *lower, NstVal value, NstBuf buffer, int64_t ahead, NstOrigin origin)
{
    const NstType *type = nst_value_type(lower->graph, value);
    NstReading reading = nst_lower_begin(lower, "state", origin, type->rank);
    NstDim *index = nst_lower_axes(lower, reading.nest, type->rank, type->shape), at[NST_MAX_RANK + 1];
    at[0] = nst_dim_add_const(lower->dims, reading.step, ahead);
    for (int d = 0; d < type->rank; d++) at[d + 1] = index[d];
    nst_lower_store_at(lower, reading.nest, buffer, at, nst_read_value(&reading, value, index));
    nst_read_finish(&reading);
    nst_lower_add(lower, reading.nest);
}

/* The groups made since `first` become the items of one serial group over the steps. */
static void close_group(NstLowering *lower, const NstNode *node, uint32_t first, uint32_t first_buffer)
{
    NstModule *module = lower->module;
    NstGroup *group = NST_NEW(lower->arena, NstGroup);
    group->name = "loop";
    group->origin = node->origin;
    group->n_axes = 1;
    group->axis = NST_NEW_ARRAY(lower->arena, NstAxis, 1);
    group->axis[0] = nst_nest_axis(module, "step", lower->steps);
    group->serial = true;
    for (uint32_t k = first; k < module->groups.n; k++)
        nst_vec_push(lower->arena, &group->items, module->groups.at[k]->items.at[0]);
    for (uint32_t b = first_buffer; b < module->buffers.n; b++) {
        NstVal held = module->buffers.at[b].value;
        if (held.i && lower->per_step[held.i]) nst_vec_push(lower->arena, &group->locals, (NstBuf){b});
    }
    module->groups.n = first;
    if (group->items.n) nst_vec_push(lower->arena, &module->groups, group);
}

/* Primitives of a body that a serial group of nests has no form for. */
static bool fits_nest(NstLowering *lower, const NstNode *node)
{
    switch (node->prim) {
    case NST_PRIM_PREFIX:
    case NST_PRIM_SCATTER:
    case NST_PRIM_LOOP:
    case NST_PRIM_IF:
    case NST_PRIM_HOST:
    case NST_PRIM_SORT:
    case NST_PRIM_COMPACT:
    case NST_PRIM_RANDOM_BITS: return false;
    case NST_PRIM_CALL: {
        const NstRegion *body = nst_graph_region(lower->graph, node->attr.call.body);
        for (uint32_t k = 0; k < body->nodes.n; k++)
            if (!fits_nest(lower, nst_graph_node(lower->graph, body->nodes.at[k]))) return false;
        break;
    }
    default: break;
    }
    for (uint32_t k = 0; k < node->n_out; k++) {
        if (nst_value_type(lower->graph, node->out[k])->rank >= NST_MAX_RANK) return false;
        for (uint32_t d = 0; d < lower->graph->sym_defs.n; d++) /* a size that differs by step */
            if (lower->graph->sym_defs.at[d].value.i == node->out[k].i) return false;
    }
    return true;
}

bool nst_loop_is_nest(NstLowering *lower, const NstNode *node)
{
    const NstRegion *body = nst_graph_region(lower->graph, node->attr.loop.body);
    if (lower->in_loop || !known_steps(lower, node).i || !goes_on(lower, node, body)) return false;
    for (uint32_t k = 0; k < body->nodes.n; k++) {
        const NstNode *inner = nst_graph_node(lower->graph, body->nodes.at[k]);
        if (!inner->dead && !fits_nest(lower, inner)) return false;
    }
    for (uint32_t k = 0; k < (uint32_t)node->attr.loop.n_states; k++) {
        const NstType *a = nst_value_type(lower->graph, node->in[k + 2]);
        const NstType *b = nst_value_type(lower->graph, body->params.at[k + 2]);
        const NstType *c = nst_value_type(lower->graph, body->results.at[k + 1]);
        for (int axis = 0; axis < a->rank; axis++)
            if (nst_dim_compare(lower->dims, a->shape[axis], NST_DIM_EQ, b->shape[axis]) != NST_TRUE ||
                nst_dim_compare(lower->dims, a->shape[axis], NST_DIM_EQ, c->shape[axis]) != NST_TRUE)
                return false;
    }
    return true;
}

NstStatus nst_lower_loop(NstLowering *lower, const NstNode *node)
{
    const NstRegion *body = nst_graph_region(lower->graph, node->attr.loop.body);
    uint32_t n = (uint32_t)node->attr.loop.n_states, scans = (uint32_t)node->attr.loop.n_scans;
    NstDim steps = known_steps(lower, node);
    lower->steps = steps;
    for (uint32_t k = 0; k < n; k++) {
        NstBuf history = open_history(lower, node, k);
        lower->history[body->params.at[k + 2].i] = lower->history[node->out[k].i] = history;
        lower->history_step[node->out[k].i] = steps;
    }
    for (uint32_t k = 0; k < scans; k++) (void)nst_lower_output(lower, node->out[n + k]);
    uint32_t first = lower->module->groups.n, first_buffer = lower->module->buffers.n;
    lower->in_loop = true;
    lower->iteration = body->params.at[0];
    lower->go = body->params.at[1];
    NST_TRY(nst_lower_region(lower, node->attr.loop.body));
    for (uint32_t k = 0; k < n; k++)
        write_entry(lower, body->results.at[k + 1], lower->history[node->out[k].i], 1, node->origin);
    for (uint32_t k = 0; k < scans; k++)
        write_entry(lower, body->results.at[n + 1 + k], lower->buffer_of[node->out[n + k].i], 0, node->origin);
    close_group(lower, node, first, first_buffer);
    lower->in_loop = false;
    return NST_OK;
}
