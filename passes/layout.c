/* layout.c: chooses the physical layout of intermediate buffers: channels last for what windows and weights work on.
 *
 * In: fused groups over row-major buffers.  Out: the same with other layouts, axes of the nests in the order of their output's
 * memory, and a copy nest where a result of the graph, which stays row-major, is better computed in another order.  Logical
 * indices do not change: a layout is only how they become addresses.
 *
 * Rule: a product with weights runs along the axis that the weights alone have (else one that both have), because the
 * weights can be packed for it and the other operand is read by broadcast; so that axis of its output should be adjacent in
 * memory.  Maps and window reductions then keep the layout of what they read.  What lies in such an order is padded to whole
 * vectors where that takes little memory (multiple_of); nothing reads or writes the padding. */
#include "passes/pass.h"

typedef struct LayoutPass {
    NstModule *module;
    NstDims *dims;
} LayoutPass;

static NstNest *single(const NstGroup *group)
{
    return group->items.n == 1 && !group->n_axes ? group->items.at[0].nest : NULL;
}

static NstBuffer *buffer_of(LayoutPass *p, NstBuf buffer)
{
    return &nst_module_get(p->module, buffer)->buffer;
}

typedef struct Constancy {
    NstModule *module;
    uint32_t loads, constant;
} Constancy;

static void visit_load(void *arg, NstExpr e, const NstExprNode *node)
{
    Constancy *c = arg;
    (void)e;
    if (node->op != NST_OP_LOAD) return;
    c->loads++;
    c->constant += nst_module_buffer_is_constant(c->module, (NstBuf){node->ref});
}

static bool is_constant(LayoutPass *p, NstExpr e)
{
    Constancy c = {.module = p->module};
    nst_expr_visit(p->module->exprs, e, visit_load, &c);
    return c.loads && c.loads == c.constant;
}

/* The logical axis of an output that a nest's axis alone steps through, by one; -1: none. */
static int axis_of_output(LayoutPass *p, const NstNestOut *out, NstSym var)
{
    for (uint32_t k = 0; k < out->n_index; k++) {
        int64_t step;
        if (!nst_dim_uses(p->dims, out->index[k], var)) continue;
        return nst_dim_stride(p->dims, out->index[k], var, &step) && step == 1 ? (int)k : -1;
    }
    return -1;
}

/* The axis of a product with weights to lay out last: the longest of the weights alone, else one of both operands; -1: none. */
static int wanted_axis(LayoutPass *p, const NstNest *nest)
{
    NstContraction c;
    if (nest->n_lets || nest->lanes > 1 || nest->n_outs != 1 || !nst_nest_contraction(p->module, nest, &c)) return -1;
    bool a_constant = is_constant(p, c.a), b_constant = is_constant(p, c.b);
    if (a_constant == b_constant) return -1;
    NstExpr weights = a_constant ? c.a : c.b, data = a_constant ? c.b : c.a;
    int alone = -1, shared = -1, others = 0;
    int64_t widest = 0;
    for (uint32_t k = 0; k < nest->n_axes; k++) {
        bool in_weights = nst_expr_uses_sym(p->module->exprs, weights, nest->axis[k].var);
        bool in_data = nst_expr_uses_sym(p->module->exprs, data, nest->axis[k].var);
        int64_t extent;
        if (!nst_dim_is_const(p->dims, nest->axis[k].extent, &extent)) extent = 1;
        if (in_weights && !in_data && extent >= widest) {
            alone = (int)k;
            widest = extent;
        }
        if (in_weights && in_data) shared = (int)k;
        others += !in_weights;
    }
    if (others == 0) return -1;
    return alone >= 0 ? alone : shared;
}

/* Padding an innermost extent to whole vectors may take so much memory more: one part of so many.  Vectors that straddle lines cost
 * a load or store twice, and the lines that they miss are waited for one by one (3x3 windows of 1,037 channels at 7 x 7: 15.5 us,
 * padded 6.3; 169 at 50 x 50: 243, 144; 28 channels at 64 x 64, a seventh more: 9.6, 8.4; 24 at 128 x 128, a third more: products that
 * read them 220, 285; Emerald Rapids, 2026-11). */
enum { PADDING_SHARE = 6 };

/* What the innermost extent is a multiple of in memory: the elements of a vector, or 1 where it is not padded. */
static int64_t multiple_of(LayoutPass *p, const NstBuffer *buffer, int last)
{
    int64_t extent, lanes = nst_target_lanes(p->module->target, buffer->dtype);
    if (!nst_dim_is_const(p->dims, buffer->shape[last], &extent)) return 1;
    int64_t padding = (lanes - extent % lanes) % lanes;
    return padding * PADDING_SHARE <= extent ? lanes : 1;
}

/* Row major but for one axis, which comes last, padded. */
static NstLayout layout_with_last(LayoutPass *p, const NstBuffer *buffer, int last)
{
    int order[NST_MAX_RANK], n = 0;
    for (int k = 0; k < buffer->rank; k++)
        if (k != last) order[n++] = k;
    order[n] = last;
    return nst_layout_permuted(p->module->arena, p->dims, buffer->dtype, buffer->rank, buffer->shape, order,
                               multiple_of(p, buffer, last));
}

/* The logical axis that lies innermost; -1 for rank 0 or a layout of another form. */
static int innermost(const NstBuffer *buffer)
{
    return buffer->layout.n_parts ? buffer->layout.parts[buffer->layout.n_parts - 1].axis : -1;
}

/* Puts the nest's axes in the order in which the output lies in memory; axes that share a logical axis keep theirs. */
static void order_axes(LayoutPass *p, NstNest *nest)
{
    const NstNestOut *out = &nest->out[0];
    const NstLayout *layout = &buffer_of(p, out->buffer)->layout;
    NstAxis *axis = NST_NEW_ARRAY(p->module->arena, NstAxis, nest->n_axes);
    bool *taken = NST_NEW_ARRAY(p->module->arena, bool, nest->n_axes);
    uint32_t n = 0;
    for (uint32_t k = 0; k < nest->n_axes; k++) /* axes the output does not show stay outermost */
        if (axis_of_output(p, out, nest->axis[k].var) < 0) {
            bool shown = false;
            for (uint32_t d = 0; d < out->n_index; d++)
                shown |= nst_dim_uses(p->dims, out->index[d], nest->axis[k].var);
            if (shown) continue;
            axis[n++] = nest->axis[k];
            taken[k] = true;
        }
    for (uint32_t part = 0; part < layout->n_parts; part++)
        for (uint32_t k = 0; k < nest->n_axes; k++) {
            if (taken[k] || !nst_dim_uses(p->dims, out->index[layout->parts[part].axis], nest->axis[k].var)) continue;
            axis[n++] = nest->axis[k];
            taken[k] = true;
        }
    NST_ASSERT(n == nest->n_axes);
    nest->axis = axis;
}

/* A group that copies one buffer to another of the same shape. */
static NstGroup *copy_group(LayoutPass *p, NstBuf from, NstBuf to, NstOrigin origin)
{
    NstModule *module = p->module;
    const NstBuffer buffer = *buffer_of(p, to);
    NstNest *copy = nst_nest_new(module, "copy", origin);
    NstDim *index = NST_NEW_ARRAY(module->arena, NstDim, buffer.rank);
    copy->axis = NST_NEW_ARRAY(module->arena, NstAxis, buffer.rank);
    for (int k = 0; k < buffer.rank; k++) {
        copy->axis[copy->n_axes] = nst_nest_axis(module, nst_format(module->arena, "i%d", k), buffer.shape[k]);
        index[k] = nst_dim_sym(p->dims, copy->axis[copy->n_axes++].var);
    }
    copy->out = NST_NEW(module->arena, NstNestOut);
    copy->n_outs = 1;
    NstExpr value = nst_expr_load(module->exprs, buffer.dtype, from, index, (uint32_t)buffer.rank);
    copy->out[0] = (NstNestOut){to, (uint32_t)buffer.rank, index, value};
    return nst_group_new(module, copy);
}

/* A temporary like `buffer`, row major. */
static NstBuf twin(LayoutPass *p, NstBuf buffer, const char *suffix)
{
    const NstBuffer from = *buffer_of(p, buffer);
    const char *name = nst_format(p->module->arena, "%s_%s", from.name, suffix);
    NstBuf made = nst_module_buffer(p->module, name, from.dtype, from.rank, from.shape, NST_ROLE_TEMP);
    buffer_of(p, made)->origin = from.origin;
    return made;
}

/* The nest computes into a buffer of its own; a copy after it writes the result where it belongs. */
static void compute_aside(LayoutPass *p, uint32_t at, NstNest *nest)
{
    NstGroup *group = p->module->groups.at[at];
    NstBuf result = nest->out[0].buffer, aside = twin(p, result, "aside");
    nest->out[0].buffer = aside;
    NstGroup *copy = copy_group(p, aside, result, nest->origin);
    copy->why_not_fused = group->why_not_fused;
    group->why_not_fused = "the result is computed in another layout than the graph gives it";
    nst_module_insert_group(p->module, copy, at + 1);
}

typedef struct Strided {
    LayoutPass *p;
    NstSym var;
    NstBuf buffer; /* found: an input read across its memory along var */
    int axis;
} Strided;

static void visit_strided(void *arg, NstExpr e, const NstExprNode *node)
{
    Strided *v = arg;
    (void)e;
    if (node->op != NST_OP_LOAD || v->buffer.i) return;
    const NstModuleBuffer *item = nst_module_get(v->p->module, (NstBuf){node->ref});
    if (item->role != NST_ROLE_INPUT || item->buffer.rank < 3) return;
    for (uint32_t k = 0; k < node->n_index; k++)
        if (nst_dim_uses(v->p->dims, node->index[k], v->var) && innermost(&item->buffer) != (int)k) {
            v->buffer = (NstBuf){node->ref};
            v->axis = (int)k;
        }
}

typedef struct Redirect {
    NstBuf from, to;
} Redirect;

static NstExpr redirect_node(void *arg, NstExprs *exprs, NstExpr e)
{
    const Redirect *r = arg;
    const NstExprNode node = *nst_expr(exprs, e);
    if (node.op != NST_OP_LOAD || node.ref != r->from.i) return (NstExpr){0};
    return nst_expr_load(exprs, node.type, r->to, node.index, node.n_index);
}

/* Where vectors run along an axis of a graph input that is not its innermost, a copy laid out for it goes before the nest.
 * Returns the number of groups put before it. */
static uint32_t read_aside(LayoutPass *p, uint32_t at, NstNest *nest, NstSym var)
{
    Strided v = {.p = p, .var = var};
    nst_expr_visit(p->module->exprs, nest->state[0].step, visit_strided, &v);
    if (!v.buffer.i) return 0;
    NstBuf aside = twin(p, v.buffer, "aside");
    NstBuffer *buffer = buffer_of(p, aside);
    buffer->layout = layout_with_last(p, buffer, v.axis);
    NstGroup *copy = copy_group(p, v.buffer, aside, nest->origin);
    order_axes(p, copy->items.at[0].nest);
    copy->why_not_fused = "its result is the input in another layout, read several times";
    Redirect r = {v.buffer, aside};
    nest->state = nst_copy(p->module->arena, nest->state, nest->n_states * sizeof *nest->state);
    nest->state[0].step = nst_expr_rewrite(p->module->exprs, nest->state[0].step, redirect_node, &r);
    nst_module_insert_group(p->module, copy, at);
    return 1;
}

static bool written_elsewhere(LayoutPass *p, const NstNest *nest, NstBuf buffer)
{
    for (uint32_t g = 0; g < p->module->groups.n; g++) {
        const NstNest *other = single(p->module->groups.at[g]);
        if (other == nest) continue;
        NstBufList writes = {0};
        if (other) nst_nest_writes(p->module, other, &writes);
        for (uint32_t k = 0; k < writes.n; k++)
            if (writes.at[k].i == buffer.i) return true;
    }
    return false;
}

/* True if a layout may still be chosen for what several nests write: all of them store into it as it comes to lie. */
static bool may_turn(const NstModuleBuffer *item)
{
    return item->role == NST_ROLE_TEMP && !item->plain && innermost(&item->buffer) == item->buffer.rank - 1;
}

static bool weighted(LayoutPass *p, uint32_t *at, NstNest *nest)
{
    int axis = wanted_axis(p, nest);
    if (axis < 0) return false;
    NstNestOut *out = &nest->out[0];
    NstSym var = nest->axis[axis].var;
    int last = axis_of_output(p, out, var);
    const NstModuleBuffer *item = nst_module_get(p->module, out->buffer);
    if (last < 0 || last == innermost(&item->buffer)) return last >= 0;
    if (item->role != NST_ROLE_TEMP && item->role != NST_ROLE_OUTPUT) return false;
    bool is_piece = written_elsewhere(p, nest, out->buffer);
    if (nest->store_guard.i || (is_piece && !may_turn(item))) return false;
    if (!is_piece && (item->role == NST_ROLE_OUTPUT || item->plain)) compute_aside(p, *at, nest);
    NstBuffer *buffer = buffer_of(p, out->buffer);
    buffer->layout = layout_with_last(p, buffer, last);
    order_axes(p, nest);
    *at += read_aside(p, *at, nest, var);
    return true;
}

typedef struct Alike {
    LayoutPass *p;
    const NstNestOut *out;
    NstBuf buffer;
    int axis;
    bool found;
} Alike;

static void visit_alike(void *arg, NstExpr e, const NstExprNode *node)
{
    Alike *v = arg;
    (void)e;
    if (v->found || node->op != NST_OP_LOAD || node->ref != v->buffer.i) return;
    NstDims *dims = v->p->dims;
    const NstDimNode *index = nst_dim_node(dims, node->index[v->axis]);
    for (uint32_t k = 0; k < index->n && index->op == NST_DIM_SUM; k++)
        if (nst_dim_node(dims, index->arg[k])->op == NST_DIM_SYM) index = nst_dim_node(dims, index->arg[k]);
    v->found = index->op == NST_DIM_SYM && axis_of_output(v->p, v->out, index->sym) == v->axis;
}

/* True if the nest steps through that axis of the buffer as it does through its output's. */
static bool steps_alike(LayoutPass *p, const NstNest *nest, NstBuf buffer, int axis)
{
    Alike v = {.p = p, .out = &nest->out[0], .buffer = buffer, .axis = axis};
    nst_expr_visit(p->module->exprs, nest->out[0].value, visit_alike, &v);
    return v.found;
}

/* The logical axis laid out last in an input of another layout that steps along the output's same axis; -1: none. */
static int inherited_axis(LayoutPass *p, const NstNest *nest)
{
    NstBufList reads = {0};
    nst_nest_reads(p->module, nest, &reads);
    const NstBuffer *out = buffer_of(p, nest->out[0].buffer);
    for (uint32_t k = 0; k < reads.n; k++) {
        const NstBuffer *in = buffer_of(p, reads.at[k]);
        int last = innermost(in);
        if (in->rank != out->rank || last < 0 || last == in->rank - 1) continue;
        if (nst_dim_same(in->shape[last], out->shape[last]) || steps_alike(p, nest, reads.at[k], last)) return last;
    }
    return -1;
}

/* True if the output may be laid out as the first one is: it is our own, and stored at the same place of the same shape. */
static bool turns_with_first(LayoutPass *p, const NstNest *nest, const NstNestOut *out)
{
    const NstNestOut *first = &nest->out[0];
    const NstModuleBuffer *item = nst_module_get(p->module, out->buffer);
    if (item->role != NST_ROLE_TEMP || item->plain || out->n_index != first->n_index) return false;
    for (uint32_t d = 0; d < out->n_index; d++)
        if (!nst_dim_same(out->index[d], first->index[d]) ||
            !nst_dim_same(item->buffer.shape[d], buffer_of(p, first->buffer)->shape[d]))
            return false;
    return !written_elsewhere(p, nest, out->buffer) || may_turn(item);
}

static void inherit(LayoutPass *p, NstNest *nest)
{
    if (!nest->n_outs || nest->store_guard.i || nest->check.i) return;
    for (uint32_t k = 0; k < nest->n_outs; k++)
        if (!turns_with_first(p, nest, &nest->out[k])) return;
    int last = inherited_axis(p, nest);
    if (last < 0) return;
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        NstBuffer *buffer = buffer_of(p, nest->out[k].buffer);
        buffer->layout = layout_with_last(p, buffer, last);
    }
    order_axes(p, nest);
}

/* What several nests write was perhaps turned after one of them was ordered. */
static void order_pieces(LayoutPass *p)
{
    for (uint32_t k = 0; k < p->module->groups.n; k++) {
        NstNest *nest = single(p->module->groups.at[k]);
        if (!nest || !nest->n_outs || nest->n_lets || nest->lanes > 1) continue;
        const NstBuffer *out = buffer_of(p, nest->out[0].buffer);
        if (innermost(out) < 0 || innermost(out) == out->rank - 1) continue;
        if (written_elsewhere(p, nest, nest->out[0].buffer)) order_axes(p, nest);
    }
}

NstStatus nst_pass_layout(NstCtx *ctx, NstModule *module)
{
    (void)ctx;
    LayoutPass p = {.module = module, .dims = module->dims};
    for (uint32_t k = 0; k < module->groups.n; k++) {
        NstNest *nest = single(module->groups.at[k]);
        if (nest && !weighted(&p, &k, nest)) inherit(&p, nest);
    }
    order_pieces(&p);
    return NST_OK;
}
