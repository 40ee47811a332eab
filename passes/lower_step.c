/* lower_step.c: primitives without a nest form as steps of the plan, with the bodies of if and loop as modules of their own.
 *
 * A body reads values of the regions around it: constants are its own, sources and views are computed anew, all else is
 * captured: one more input of the body, which the step hands over. */
#include "passes/lowering.h"

NstBuf nst_lower_capture(NstLowering *lower, NstVal value)
{
    const NstNode *node = nst_value_node(lower->graph, value);
    if (node->prim == NST_PRIM_CONST) return nst_lower_const(lower, value);
    NST_ASSERT(node->region.i != lower->module->region.i);
    nst_vec_push(lower->arena, &lower->module->captures, value);
    uint32_t params = nst_graph_region(lower->graph, lower->module->region)->params.n;
    return nst_lower_buffer(lower, value, NST_ROLE_INPUT, params + lower->module->captures.n - 1);
}

/* The value in a row-major buffer that a step can read. */
static NstBuf operand(NstLowering *lower, NstVal value, NstOrigin origin)
{
    value = nst_lowered_value(lower, value);
    const NstType *type = nst_value_type(lower->graph, value);
    NstBuf buffer = lower->buffer_of[value.i];
    bool stored = buffer.i && !lower->history[value.i].i;
    if (!stored && !lower->history[value.i].i && !nst_is_view(lower, value)) {
        buffer = nst_lower_capture(lower, value);
        stored = true;
    }
    if (!stored) {
        const char *name = nst_graph_value(lower->graph, value)->name;
        buffer = nst_lower_temporary(lower, name ? name : "operand", type->dtype, type->rank, type->shape);
        nst_lower_copy(lower, value, buffer, NULL, origin);
    }
    nst_module_get(lower->module, buffer)->plain = true;
    return buffer;
}

/* A scalar constant that the graph does not have. */
static NstBuf scalar_const(NstLowering *lower, NstDtype dtype, int64_t value)
{
    NstModuleConst item = {.dtype = dtype, .splat = {.i = value}};
    nst_vec_push(lower->arena, &lower->module->consts, item);
    NstBuf buffer = nst_module_buffer(lower->module, "default", dtype, 0, NULL, NST_ROLE_CONST);
    nst_module_get(lower->module, buffer)->index = lower->module->consts.n - 1;
    return buffer;
}

typedef struct Making {
    NstLowering *lower;
    const NstNode *node;
    NstModuleStep *step;
    NST_VEC(NstBuf) in;
} Making;

/* The module of a region; what it captures becomes inputs of the step. */
static NstStatus add_body(Making *m, NstRegionId region, NstModule **body)
{
    NstLowering *lower = m->lower;
    NstModule *module = *body =
        nst_module_new(lower->arena, lower->module->graph, lower->module->target, lower->module->strict);
    module->region = region;
    NST_TRY(nst_lower_module(lower->ctx, module, lower));
    for (uint32_t k = 0; k < module->captures.n; k++)
        nst_vec_push(lower->arena, &m->in, operand(lower, module->captures.at[k], m->node->origin));
    return NST_OK;
}

static NstStatus add_inputs(Making *m)
{
    NstLowering *lower = m->lower;
    const NstNode *node = m->node;
    for (uint32_t k = 0; k < node->n_in; k++) {
        NstBuf buffer;
        if (node->in[k].i)
            buffer = operand(lower, node->in[k], node->origin);
        else if (node->prim == NST_PRIM_LOOP)
            buffer = k == 0 ? scalar_const(lower, NST_I64, INT64_MAX) : scalar_const(lower, NST_BOOL, 1);
        else
            NST_FAIL(lower->ctx, NST_E_UNSUPPORTED, "'%s' (%s) with an absent input cannot be compiled",
                     nst_prim_info(node->prim)->name, nst_origin_text(lower->module->origins, node->origin));
        nst_vec_push(lower->arena, &m->in, buffer);
    }
    if (node->prim == NST_PRIM_IF) {
        NST_TRY(add_body(m, node->attr.branch.then_region, &m->step->body[0]));
        NST_TRY(add_body(m, node->attr.branch.else_region, &m->step->body[1]));
    }
    if (node->prim == NST_PRIM_LOOP) NST_TRY(add_body(m, node->attr.loop.body, &m->step->body[0]));
    return NST_OK;
}

/* Counted symbols in a size. */
static void add_made(NstLowering *lower, NstModuleStep *step, NstDim dim)
{
    const NstDimNode *node = nst_dim_node(lower->dims, dim);
    if (node->op == NST_DIM_SYM && nst_dims_sym_info(lower->dims, node->sym)->kind == NST_SYM_COUNTED) {
        NstSym *makes = NST_NEW_ARRAY(lower->arena, NstSym, step->n_makes + 1);
        for (uint32_t k = 0; k < step->n_makes; k++) makes[k] = step->makes[k];
        makes[step->n_makes++] = node->sym;
        step->makes = makes;
    }
    for (uint32_t k = 0; k < node->n && node->arg; k++) add_made(lower, step, node->arg[k]);
}

static void add_outputs(Making *m)
{
    NstLowering *lower = m->lower;
    NstModuleStep *step = m->step;
    step->n_out = m->node->n_out;
    step->out = NST_NEW_ARRAY(lower->arena, NstBuf, step->n_out);
    for (uint32_t k = 0; k < step->n_out; k++) {
        const NstType *type = nst_value_type(lower->graph, m->node->out[k]);
        step->out[k] = nst_lower_output(lower, m->node->out[k]);
        nst_module_get(lower->module, step->out[k])->plain = true;
        for (int axis = 0; axis < type->rank; axis++) add_made(lower, step, type->shape[axis]);
    }
}

NstStatus nst_lower_step(NstLowering *lower, const NstNode *node)
{
    NstGroup *group = NST_NEW(lower->arena, NstGroup);
    Making m = {.lower = lower, .node = node, .step = NST_NEW(lower->arena, NstModuleStep)};
    for (uint32_t k = 0; k < node->n_out; k++)
        NST_CHECK(lower->ctx, nst_value_type(lower->graph, node->out[k])->kind == NST_TYPE_TENSOR, NST_E_UNSUPPORTED,
                  "'%s' (%s) gives what is no tensor; only tensors can be compiled yet",
                  nst_prim_info(node->prim)->name, nst_origin_text(lower->module->origins, node->origin));
    m.step->node = node;
    NST_TRY(add_inputs(&m));
    add_outputs(&m);
    m.step->in = m.in.at;
    m.step->n_in = m.in.n;
    group->name = nst_prim_info(node->prim)->name;
    group->origin = node->origin;
    group->step = m.step;
    nst_vec_push(lower->arena, &lower->module->groups, group);
    return NST_OK;
}
