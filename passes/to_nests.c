/* to_nests.c: graph -> one nest a primitive.
 *
 * In: a verified graph.  Out: the module's buffers, constants and groups, a group a nest, in the order of the graph's nodes.
 * Views (reading.c) make no nests.  Sort, compact, random_bits, host, if and some loops have no nest form: they become steps
 * (lower_step.c). */
#include "passes/lowering.h"
#include "passes/pass.h"

/* --- buffers ------------------------------------------------------------------------------------------------- */

static const char *value_name(NstLowering *lower, NstVal value)
{
    const char *name = nst_graph_value(lower->graph, value)->name;
    const NstNode *node = nst_value_node(lower->graph, value);
    return name ? name : nst_format(lower->arena, "%s%u", nst_prim_info(node->prim)->name, value.i);
}

NstBuf nst_lower_buffer(NstLowering *lower, NstVal value, NstBufferRole role, uint32_t index)
{
    const NstType *type = nst_value_type(lower->graph, value);
    NstBuf buffer =
        nst_module_buffer(lower->module, value_name(lower, value), type->dtype, type->rank, type->shape, role);
    NstModuleBuffer *item = nst_module_get(lower->module, buffer);
    item->index = index;
    item->value = value;
    item->buffer.origin = nst_value_node(lower->graph, value)->origin;
    lower->buffer_of[value.i] = buffer;
    return buffer;
}

NstBuf nst_lower_output(NstLowering *lower, NstVal value)
{
    if (lower->buffer_of[value.i].i) return lower->buffer_of[value.i];
    uint32_t result = lower->result_of[value.i];
    if (lower->in_loop) {
        const NstType *type = nst_value_type(lower->graph, value);
        NstDim shape[NST_MAX_RANK + 1] = {lower->steps};
        for (int d = 0; d < type->rank; d++) shape[d + 1] = type->shape[d];
        NstBuf buffer = nst_lower_temporary(lower, value_name(lower, value), type->dtype, type->rank + 1, shape);
        lower->buffer_of[value.i] = buffer;
        lower->per_step[value.i] = true;
        nst_module_get(lower->module, buffer)->value = value;
        return buffer;
    }
    return result ? nst_lower_buffer(lower, value, NST_ROLE_OUTPUT, result - 1)
                  : nst_lower_buffer(lower, value, NST_ROLE_TEMP, 0);
}

NstBuf nst_lower_const(NstLowering *lower, NstVal value)
{
    const NstConst *constant = &nst_value_node(lower->graph, value)->attr.constant;
    NstModuleConst item = {nst_value_type(lower->graph, value)->dtype, constant->data, constant->bytes, constant->splat,
                           constant->id};
    nst_vec_push(lower->arena, &lower->module->consts, item);
    return nst_lower_buffer(lower, value, NST_ROLE_CONST, lower->module->consts.n - 1);
}

/* --- nests --------------------------------------------------------------------------------------------------- */

NstBuf nst_lower_temporary(NstLowering *lower, const char *name, NstDtype dtype, int rank, const NstDim *shape)
{
    return nst_module_buffer(lower->module, name, dtype, rank, shape, NST_ROLE_TEMP);
}

NstReading nst_lower_begin(NstLowering *lower, const char *name, NstOrigin origin, int rank)
{
    NstNest *nest = nst_nest_new(lower->module, name, origin);
    NstReading reading = {.lower = lower, .nest = nest};
    nest->axis = NST_NEW_ARRAY(lower->arena, NstAxis, rank + 1);
    if (lower->in_loop) {
        nest->axis[nest->n_axes++] = nst_nest_axis(lower->module, "step", lower->steps);
        reading.step = nst_dim_sym(lower->dims, nest->axis[0].var);
    }
    return reading;
}

NstDim *nst_lower_axes(NstLowering *lower, NstNest *nest, int rank, const NstDim *shape)
{
    NstDim *index = NST_NEW_ARRAY(lower->arena, NstDim, rank);
    for (int k = 0; k < rank; k++) index[k] = nst_lower_axis(lower, nest->axis, &nest->n_axes, "i", k, shape[k]);
    return index;
}

NstDim nst_lower_axis(NstLowering *lower, NstAxis *list, uint32_t *n, const char *letter, int number, NstDim extent)
{
    if (nst_dim_compare(lower->dims, extent, NST_DIM_EQ, nst_dim_const(lower->dims, 1)) == NST_TRUE)
        return nst_dim_const(lower->dims, 0);
    list[*n] = nst_nest_axis(lower->module, nst_format(lower->arena, "%s%d", letter, number), extent);
    return nst_dim_sym(lower->dims, list[(*n)++].var);
}

void nst_lower_store(NstLowering *lower, NstNest *nest, NstBuf buffer, const NstDim *index, NstExpr value)
{
    NstVal held = nst_module_get(lower->module, buffer)->value;
    NstDim at[NST_MAX_RANK + 1];
    if (!held.i || !lower->per_step[held.i]) {
        nst_lower_store_at(lower, nest, buffer, index, value);
        return;
    }
    at[0] = nst_dim_sym(lower->dims, nest->axis[0].var);
    int rank = nst_module_get(lower->module, buffer)->buffer.rank;
    if (rank > 1) memcpy(at + 1, index, (size_t)(rank - 1) * sizeof *at);
    nst_lower_store_at(lower, nest, buffer, at, value);
}

void nst_lower_store_at(NstLowering *lower, NstNest *nest, NstBuf buffer, const NstDim *index, NstExpr value)
{
    if (!nest->out) nest->out = NST_NEW_ARRAY(lower->arena, NstNestOut, NST_LOWER_MAX_OUTS);
    NST_ASSERT(nest->n_outs < NST_LOWER_MAX_OUTS);
    uint32_t rank = (uint32_t)nst_module_get(lower->module, buffer)->buffer.rank;
    nest->out[nest->n_outs++] = (NstNestOut){buffer, rank, nst_copy(lower->arena, index, rank * sizeof *index), value};
}

NstGroup *nst_lower_add(NstLowering *lower, NstNest *nest)
{
    NstGroup *group = nst_group_new(lower->module, nest);
    nst_vec_push(lower->arena, &lower->module->groups, group);
    return group;
}

void nst_lower_copy(NstLowering *lower, NstVal value, NstBuf buffer, const NstDim *begin, NstOrigin origin)
{
    const NstType *type = nst_value_type(lower->graph, value);
    NstReading reading = nst_lower_begin(lower, "copy", origin, type->rank);
    NstNest *nest = reading.nest;
    NstDim *index = nst_lower_axes(lower, nest, type->rank, type->shape);
    NstExpr e = nst_read_value(&reading, value, index);
    NstDim to[NST_MAX_RANK];
    for (int k = 0; k < type->rank; k++) to[k] = begin ? nst_dim_add(lower->dims, index[k], begin[k]) : index[k];
    nst_lower_store(lower, nest, buffer, to, e);
    nst_read_finish(&reading);
    nst_lower_add(lower, nest);
}

static NstExpr pointwise_value(NstReading *reading, const NstNode *node, const NstDim *index)
{
    NstLowering *lower = reading->lower;
    const NstType *out = nst_value_type(lower->graph, node->out[0]);
    NstExpr *operand = NST_NEW_ARRAY(lower->arena, NstExpr, node->n_in);
    NstDim in_index[NST_MAX_RANK];
    for (uint32_t k = 0; k < node->n_in; k++) {
        const NstType *in = nst_value_type(lower->graph, node->in[k]);
        for (int d = 0; d < out->rank; d++)
            in_index[d] = nst_read_broadcast(lower, index[d], in->shape[d], out->shape[d]);
        operand[k] = nst_read_value(reading, node->in[k], in_index);
    }
    switch (node->prim) {
    case NST_PRIM_CONVERT:
        return nst_expr_convert(lower->exprs, node->attr.convert.to, operand[0], node->attr.convert.saturate);
    case NST_PRIM_BITCAST: return nst_expr_bitcast(lower->exprs, node->attr.convert.to, operand[0]);
    default: return nst_expr_subst_args(lower->exprs, node->attr.map.formula, operand, node->n_in);
    }
}

static void lower_pointwise(NstLowering *lower, const NstNode *node)
{
    const NstType *out = nst_value_type(lower->graph, node->out[0]);
    NstReading reading = nst_lower_begin(lower, nst_prim_info(node->prim)->name, node->origin, out->rank);
    NstNest *nest = reading.nest;
    NstDim *index = nst_lower_axes(lower, nest, out->rank, out->shape);
    NstExpr value = pointwise_value(&reading, node, index);
    nst_lower_store(lower, nest, nst_lower_output(lower, node->out[0]), index, value);
    nst_read_finish(&reading);
    nst_lower_add(lower, nest);
}

/* The plan checks that two sizes are equal; in a loop, only if that has steps. */
static void add_check(NstLowering *lower, NstDim a, NstDim b, const char *message)
{
    if (lower->in_loop) {
        NstDim runs = nst_dim_min(lower->dims, lower->steps, nst_dim_const(lower->dims, 1));
        a = nst_dim_mul(lower->dims, a, runs);
        b = nst_dim_mul(lower->dims, b, runs);
    }
    nst_vec_push(lower->arena, &lower->module->checks, ((NstModuleCheck){a, b, message}));
}

/* An assert that two sizes are equal: checked by the plan, before anything relies on it. */
static bool lower_check(NstLowering *lower, const NstNode *node, const char *message)
{
    const NstNode *map = nst_value_node(lower->graph, nst_lowered_value(lower, node->in[0]));
    if (map->prim != NST_PRIM_MAP || map->n_in != 2) return false;
    const NstExprNode *formula = nst_expr(lower->exprs, map->attr.map.formula);
    if (formula->op != NST_OP_EQ) return false;
    NstDim side[2];
    for (int k = 0; k < 2; k++) {
        const NstExprNode *arg = nst_expr(lower->exprs, formula->arg[k]);
        if (arg->op != NST_OP_ARG || arg->ref > 1) return false;
        const NstNode *size = nst_value_node(lower->graph, nst_lowered_value(lower, map->in[arg->ref]));
        if (size->prim != NST_PRIM_DIM_VALUE) return false;
        side[k] = size->attr.dim_value.dim;
    }
    add_check(lower, side[0], side[1], message);
    return true;
}

static void lower_assert(NstLowering *lower, const NstNode *node)
{
    const char *message = node->attr.assertion.message ? node->attr.assertion.message : "assertion";
    if (lower_check(lower, node,
                    nst_format(lower->arena, "%s: %s", nst_origin_text(lower->module->origins, node->origin), message)))
        return;
    const NstType *type = nst_value_type(lower->graph, node->in[0]);
    NstReading reading = nst_lower_begin(lower, "assert", node->origin, type->rank);
    NstNest *nest = reading.nest;
    NstDim *index = nst_lower_axes(lower, nest, type->rank, type->shape);
    nest->check = nst_read_value(&reading, node->in[0], index);
    nest->message = message;
    nst_read_finish(&reading);
    const NstExprNode *known = nst_expr(lower->exprs, nest->check);
    if (known->op == NST_OP_CONST && known->imm.i) return;
    nst_lower_add(lower, nest);
}

/* A pad or concat that is stored: each piece by a nest of its own. */
static void lower_pieces(NstLowering *lower, const NstNode *node)
{
    const NstType *out = nst_value_type(lower->graph, node->out[0]);
    NstBuf buffer = nst_lower_output(lower, node->out[0]);
    NstDim begin[NST_MAX_RANK];
    for (int k = 0; k < out->rank; k++) begin[k] = nst_dim_const(lower->dims, 0);
    for (uint32_t k = 0; k < node->n_in; k++) {
        int axis = node->attr.concat.axis;
        nst_lower_copy(lower, node->in[k], buffer, begin, node->origin);
        begin[axis] = nst_dim_add(lower->dims, begin[axis], nst_value_type(lower->graph, node->in[k])->shape[axis]);
    }
}

static bool is_padded(const NstLowering *lower, const NstNode *node, int axis)
{
    NstDim zero = nst_dim_const(lower->dims, 0);
    if (node->attr.pad.interior && node->attr.pad.interior[axis] != 0) return true;
    return !nst_dim_same(node->attr.pad.lo[axis], zero) || !nst_dim_same(node->attr.pad.hi[axis], zero);
}

/* How many elements along an axis a pad keeps, from *begin on: negative padding crops. */
static NstDim kept_part(const NstLowering *lower, const NstNode *node, int axis, NstDim extent, NstDim *begin)
{
    NstDims *dims = lower->dims;
    NstDim zero = *begin = nst_dim_const(dims, 0);
    if (node->attr.pad.interior && node->attr.pad.interior[axis] != 0) return extent;
    NstDim lo = node->attr.pad.lo[axis], hi = node->attr.pad.hi[axis];
    *begin = nst_dim_max(dims, zero, nst_dim_mul_const(dims, lo, -1));
    NstDim end = nst_dim_add(dims, extent, nst_dim_min(dims, zero, hi));
    return nst_dim_max(dims, zero, nst_dim_sub(dims, end, *begin));
}

/* All of the output takes the value of the padding, then the input goes where it belongs. */
static void lower_filled(NstLowering *lower, const NstNode *node)
{
    const NstType *out = nst_value_type(lower->graph, node->out[0]), *in = nst_value_type(lower->graph, node->in[0]);
    NstBuf buffer = nst_lower_output(lower, node->out[0]);
    NstReading fill = nst_lower_begin(lower, "fill", node->origin, out->rank);
    NstDim *index = nst_lower_axes(lower, fill.nest, out->rank, out->shape), to[NST_MAX_RANK];
    nst_lower_store(lower, fill.nest, buffer, index, nst_read_padding(&fill, node));
    nst_read_finish(&fill);
    nst_lower_add(lower, fill.nest);
    NstReading copy = nst_lower_begin(lower, "copy", node->origin, in->rank);
    NstDim begin[NST_MAX_RANK], kept[NST_MAX_RANK];
    for (int k = 0; k < in->rank; k++) kept[k] = kept_part(lower, node, k, in->shape[k], &begin[k]);
    index = nst_lower_axes(lower, copy.nest, in->rank, kept);
    NstExpr inside = {0}; /* none if the padding never crops between elements of its own */
    for (int k = 0; k < in->rank; k++) {
        int64_t step = 1 + (node->attr.pad.interior ? node->attr.pad.interior[k] : 0);
        index[k] = nst_dim_add(lower->dims, index[k], begin[k]);
        to[k] = nst_dim_add(lower->dims, nst_dim_mul_const(lower->dims, index[k], step), node->attr.pad.lo[k]);
        if (step > 1) inside = nst_and(lower->exprs, inside, nst_in_range(lower, to[k], out->shape[k]));
    }
    copy.nest->store_guard = inside;
    nst_lower_store(lower, copy.nest, buffer, to, nst_read_value(&copy, node->in[0], index));
    nst_read_finish(&copy);
    nst_lower_add(lower, copy.nest);
}

/* The plan checks that an axis which gives the padding its elements has one, unless the result is empty along it too. */
static void check_not_empty(NstLowering *lower, const NstNode *node, int axis, NstDim extent, NstDim padded)
{
    NstDims *dims = lower->dims;
    NstDim least = nst_dim_min(dims, padded, nst_dim_const(dims, 1));
    const char *message =
        nst_format(lower->arena, "%s: axis %d is empty, allowed for a result that is not: constant mode",
                   nst_origin_text(lower->module->origins, node->origin), axis);
    add_check(lower, extent, nst_dim_max(dims, extent, least), message);
}

/* A pad that is stored.  Reading the input at a clamped index needs an element to clamp to. */
static void lower_pad(NstLowering *lower, const NstNode *node)
{
    const NstType *out = nst_value_type(lower->graph, node->out[0]), *in = nst_value_type(lower->graph, node->in[0]);
    bool filled = out->dtype == NST_C128,
         nothing = false; /* nothing: no element to read, as the plan's check will find */
    for (int k = 0; k < in->rank; k++) {
        NstDim one = nst_dim_const(lower->dims, 1);
        nothing |= nst_dim_compare(lower->dims, in->shape[k], NST_DIM_LT, one) == NST_TRUE;
        if (!is_padded(lower, node, k) || nst_dim_compare(lower->dims, in->shape[k], NST_DIM_GE, one) == NST_TRUE)
            continue;
        filled = true;
        if (node->attr.pad.mode != NST_PAD_CONSTANT) check_not_empty(lower, node, k, in->shape[k], out->shape[k]);
    }
    if (filled && (node->attr.pad.mode == NST_PAD_CONSTANT || (nothing && out->dtype != NST_C128))) {
        lower_filled(lower, node);
        return;
    }
    NstReading reading = nst_lower_begin(lower, "pad", node->origin, out->rank);
    NstNest *nest = reading.nest;
    NstDim *index = nst_lower_axes(lower, nest, out->rank, out->shape);
    NstExpr value = nst_read_view(&reading, node, index);
    nst_lower_store(lower, nest, nst_lower_output(lower, node->out[0]), index, value);
    nst_read_finish(&reading);
    nst_lower_add(lower, nest);
}

static void lower_update_slice(NstLowering *lower, const NstNode *node)
{
    const NstType *base = nst_value_type(lower->graph, node->in[0]);
    const NstType *update = nst_value_type(lower->graph, node->in[1]);
    NstBuf buffer = nst_lower_output(lower, node->out[0]);
    nst_lower_copy(lower, node->in[0], buffer, NULL, node->origin);
    NstReading reading = nst_lower_begin(lower, "update", node->origin, update->rank);
    NstNest *nest = reading.nest;
    NstDim *index = nst_lower_axes(lower, nest, update->rank, update->shape), to[NST_MAX_RANK];
    for (int k = 0; k < base->rank; k++) {
        int input = node->attr.slice.start_input ? node->attr.slice.start_input[k] : 0;
        NstDim zero = nst_dim_const(lower->dims, 0), start = node->attr.slice.start ? node->attr.slice.start[k] : zero;
        NstDim room = nst_dim_add_const(lower->dims, nst_dim_sub(lower->dims, base->shape[k], update->shape[k]), 1);
        if (input > 0) start = nst_read_let(&reading, node->in[input], zero, room, node->origin);
        to[k] = nst_dim_add(lower->dims, start, index[k]);
    }
    NstExpr value = nst_read_value(&reading, node->in[1], index);
    nst_lower_store(lower, nest, buffer, to, value);
    nst_read_finish(&reading);
    nst_lower_add(lower, nest);
}

/* --- the graph ----------------------------------------------------------------------------------------------- */

static NstStatus lower_call(NstLowering *lower, const NstNode *node)
{
    const NstRegion *body = nst_graph_region(lower->graph, node->attr.call.body);
    for (uint32_t k = 0; k < body->params.n; k++)
        lower->stands_for[body->params.at[k].i] = nst_lowered_value(lower, node->in[k]);
    NST_TRY(nst_lower_region(lower, node->attr.call.body));
    for (uint32_t k = 0; k < node->n_out; k++)
        lower->stands_for[node->out[k].i] = nst_lowered_value(lower, body->results.at[k]);
    return NST_OK;
}

static NstStatus lower_node(NstLowering *lower, const NstNode *node)
{
    if (node->n_out > 0 && nst_is_view(lower, node->out[0])) return NST_OK;
    switch (node->prim) {
    case NST_PRIM_PARAM: return NST_OK; /* the graph's own were made first, a region's stand for others */
    case NST_PRIM_CONST: nst_lower_const(lower, node->out[0]); return NST_OK;
    case NST_PRIM_MAP:
    case NST_PRIM_CONVERT:
    case NST_PRIM_BITCAST: lower_pointwise(lower, node); return NST_OK;
    case NST_PRIM_PAD: lower_pad(lower, node); return NST_OK;
    case NST_PRIM_CONCAT: lower_pieces(lower, node); return NST_OK;
    case NST_PRIM_UPDATE_SLICE: lower_update_slice(lower, node); return NST_OK;
    case NST_PRIM_REDUCE: nst_lower_reduce(lower, node); return NST_OK;
    case NST_PRIM_PREFIX: nst_lower_prefix(lower, node); return NST_OK;
    case NST_PRIM_CONTRACT: nst_lower_contract(lower, node); return NST_OK;
    case NST_PRIM_GATHER: nst_lower_gather(lower, node); return NST_OK;
    case NST_PRIM_SCATTER: nst_lower_scatter(lower, node); return NST_OK;
    case NST_PRIM_CALL: return lower_call(lower, node);
    case NST_PRIM_LOOP:
        return nst_loop_is_nest(lower, node) ? nst_lower_loop(lower, node) : nst_lower_step(lower, node);
    case NST_PRIM_ASSERT: lower_assert(lower, node); return NST_OK;
    case NST_PRIM_RANDOM_BITS:
    case NST_PRIM_SORT:
    case NST_PRIM_COMPACT:
    case NST_PRIM_IF:
    case NST_PRIM_HOST: return nst_lower_step(lower, node);
    case NST_PRIM_IOTA:
    case NST_PRIM_DIM_VALUE:
    case NST_PRIM_RESHAPE:
    case NST_PRIM_PERMUTE:
    case NST_PRIM_EXPAND:
    case NST_PRIM_SLICE:
    case NST_PRIM_WINDOW:
    case NST_PRIM_COUNT: break; /* views */
    }
    return NST_OK;
}

/* Scalars that value-defined symbols are read from are stored as soon as they are known: what comes later may use them. */
static void store_symbols(NstLowering *lower, const NstNode *node)
{
    for (uint32_t k = 0; k < lower->graph->sym_defs.n; k++) {
        NstVal value = lower->graph->sym_defs.at[k].value;
        if (nst_value_node(lower->graph, value) != node) continue;
        value = nst_lowered_value(lower, value);
        if (!lower->buffer_of[value.i].i && nst_is_view(lower, value)) {
            NstBuf buffer = nst_lower_buffer(lower, value, NST_ROLE_TEMP, 0);
            lower->buffer_of[value.i] = (NstBuf){0};
            nst_lower_copy(lower, value, buffer, NULL, node->origin);
            lower->buffer_of[value.i] = buffer;
        }
        NstModuleRead read = {lower->graph->sym_defs.at[k].sym, lower->buffer_of[value.i], node->origin};
        if (read.buffer.i) nst_vec_push(lower->arena, &lower->module->reads, read);
    }
}

NstStatus nst_lower_region(NstLowering *lower, NstRegionId region)
{
    const NstRegion *body = nst_graph_region(lower->graph, region);
    for (uint32_t k = 0; k < body->nodes.n; k++) {
        const NstNode *node = nst_graph_node(lower->graph, body->nodes.at[k]);
        if (node->dead) continue;
        NST_TRY(lower_node(lower, node));
        store_symbols(lower, node);
    }
    return NST_OK;
}

/* Marks computed results: they are stored where the result goes.  Views, inputs and constants are copied at the end. */
static void mark_results(NstLowering *lower, const NstRegion *top)
{
    for (uint32_t k = top->results.n; k-- > 0;) {
        NstVal value = top->results.at[k];
        const NstNode *node = nst_value_node(lower->graph, value);
        NstPrim prim = node->prim;
        bool is_state =
            prim == NST_PRIM_LOOP && nst_graph_value(lower->graph, value)->slot < (uint32_t)node->attr.loop.n_states;
        bool outer = node->region.i != lower->module->region.i;
        if (!outer && !is_state && prim != NST_PRIM_PARAM && prim != NST_PRIM_CONST && prim != NST_PRIM_CALL &&
            !nst_is_view(lower, value))
            lower->result_of[value.i] = k + 1;
    }
}

static void copy_results(NstLowering *lower, const NstRegion *top)
{
    for (uint32_t k = 0; k < top->results.n; k++) {
        NstVal value = top->results.at[k];
        if (lower->result_of[value.i] == k + 1) continue;
        const NstType *type = nst_value_type(lower->graph, value);
        const char *name = value_name(lower, value);
        NstBuf buffer = nst_module_buffer(lower->module, name, type->dtype, type->rank, type->shape, NST_ROLE_OUTPUT);
        nst_module_get(lower->module, buffer)->index = k;
        nst_module_get(lower->module, buffer)->value = value;
        nst_lower_copy(lower, value, buffer, NULL, nst_value_node(lower->graph, value)->origin);
    }
}

NstStatus nst_lower_module(NstCtx *ctx, NstModule *module, const NstLowering *outer)
{
    const NstGraph *graph = module->graph;
    NstLowering lower = {.ctx = ctx,
                         .module = module,
                         .graph = graph,
                         .dims = module->dims,
                         .exprs = module->exprs,
                         .arena = module->arena};
    const NstRegion *top = nst_graph_region(graph, module->region);
    lower.buffer_of = NST_NEW_ARRAY(module->arena, NstBuf, graph->values.n);
    lower.stands_for = NST_NEW_ARRAY(module->arena, NstVal, graph->values.n);
    lower.result_of = NST_NEW_ARRAY(module->arena, uint32_t, graph->values.n);
    lower.per_step = NST_NEW_ARRAY(module->arena, bool, graph->values.n);
    lower.history = NST_NEW_ARRAY(module->arena, NstBuf, graph->values.n);
    lower.history_step = NST_NEW_ARRAY(module->arena, NstDim, graph->values.n);
    if (outer) memcpy(lower.stands_for, outer->stands_for, graph->values.n * sizeof *lower.stands_for);
    mark_results(&lower, top);
    for (uint32_t k = 0; k < top->params.n; k++) {
        const NstType *type = nst_value_type(graph, top->params.at[k]);
        NST_CHECK(ctx, type->kind == NST_TYPE_TENSOR, NST_E_UNSUPPORTED,
                  "input %u is no tensor; only tensors can be compiled yet", k);
        nst_lower_buffer(&lower, top->params.at[k], NST_ROLE_INPUT, k);
    }
    NST_TRY(nst_lower_region(&lower, module->region));
    copy_results(&lower, top);
    return NST_OK;
}

NstStatus nst_to_nests(NstCtx *ctx, NstModule *module)
{
    return nst_lower_module(ctx, module, NULL);
}
