/* writer.c: see writer.h. */
#include "passes/writer.h"

void nst_writer_bind(NstWriter *w, NstSym sym, NstDim value)
{
    NstWriterTables *t = w->tables;
    while (t->sym_value.n <= sym.i) nst_vec_push(w->module->arena, &t->sym_value, (NstDim){0});
    if (!t->sym_value.at[sym.i].i) nst_vec_push(w->module->arena, &t->bound, sym);
    t->sym_value.at[sym.i] = value;
}

NstDim nst_writer_dim(NstWriter *w, NstDim dim)
{
    return nst_dim_subst_all(w->module->dims, dim, w->tables->sym_value.at, w->tables->sym_value.n);
}

NstWriterBuffer *nst_writer_entry(NstWriter *w, NstBuf buffer)
{
    NstWriterTables *t = w->tables;
    while (t->buffer.n <= buffer.i) nst_vec_push(w->module->arena, &t->buffer, (NstWriterBuffer){0});
    return &t->buffer.at[buffer.i];
}

NstBuf nst_writer_buffer(NstWriter *w, NstBuf buffer)
{
    NST_ASSERT(nst_writer_entry(w, buffer)->to.i);
    return nst_writer_entry(w, buffer)->to;
}

uint32_t nst_writer_dropped(NstWriter *w, NstBuf buffer)
{
    return nst_writer_entry(w, buffer)->dropped;
}

void nst_writer_set_buffer(NstWriter *w, NstBuf buffer, NstBuf to, uint32_t dropped)
{
    NstWriterBuffer *entry = nst_writer_entry(w, buffer);
    if (!entry->to.i) nst_vec_push(w->module->arena, &w->tables->touched, buffer);
    entry->to = to;
    entry->dropped = dropped;
}

NstDim nst_writer_offset(NstWriter *w, NstBuf buffer, const NstDim *index)
{
    NstDims *dims = w->module->dims;
    const NstBuffer *b = &nst_module_get(w->module, buffer)->buffer;
    uint32_t drop = nst_writer_dropped(w, buffer);
    if (!drop) return nst_layout_offset(dims, &b->layout, index);
    NstDim offset = nst_dim_const(dims, 0);
    for (int k = (int)drop; k < b->rank; k++)
        offset = nst_dim_add(dims, nst_dim_mul(dims, offset, b->shape[k]), index[k]);
    return offset;
}

NstDim *nst_writer_index(NstWriter *w, NstBuf buffer, const NstDim *index, uint32_t n, uint32_t *n_out)
{
    uint32_t drop = w->flat ? 0 : nst_writer_dropped(w, buffer);
    NstDim *mapped = NST_NEW_ARRAY(w->kernel->arena, NstDim, n ? n : 1);
    if (!w->flat && nst_writer_entry(w, buffer)->flattened) {
        mapped[0] = nst_writer_dim(w, nst_writer_offset(w, buffer, index));
        *n_out = 1;
        return mapped;
    }
    for (uint32_t k = drop; k < n; k++) mapped[k - drop] = nst_writer_dim(w, index[k]);
    *n_out = n - drop;
    return mapped;
}

static NstExpr map_node(void *arg, NstExprs *exprs, NstExpr e)
{
    NstWriter *w = arg;
    const NstExprNode node = *nst_expr(exprs, e);
    switch (node.op) {
    case NST_OP_INDEX: return nst_expr_index(exprs, nst_writer_dim(w, node.index[0]));
    case NST_OP_ARG: return node.ref < w->n_states ? w->state[node.ref] : (NstExpr){0};
    case NST_OP_LOAD: {
        uint32_t n;
        NstDim *index = nst_writer_index(w, (NstBuf){node.ref}, node.index, node.n_index, &n);
        return nst_expr_load(exprs, node.type, nst_writer_buffer(w, (NstBuf){node.ref}), index, n);
    }
    default: return (NstExpr){0};
    }
}

NstExpr nst_writer_expr(NstWriter *w, NstExpr e)
{
    return e.i ? nst_expr_rewrite(w->module->exprs, e, map_node, w) : e;
}

NstBlock *nst_writer_loop(NstWriter *w, NstBlock *block, const char *name, NstDim begin, NstDim end, int64_t step,
                          NstForKind kind, int64_t width, NstDim *var)
{
    if (kind == NST_FOR_PARALLEL && w->alone) kind = NST_FOR_SERIAL;
    if (kind == NST_FOR_VECTOR) { /* what the prover cannot see is said: never more iterations than lanes */
        NstDims *dims = w->module->dims;
        NstDim most = nst_dim_add_const(dims, begin, width);
        if (nst_dim_compare(dims, end, NST_DIM_LE, most) != NST_TRUE) end = nst_dim_min(dims, end, most);
    }
    NstSym sym = nst_kernel_index(w->kernel, name, begin, end);
    NstStmt *loop = nst_stmt_for(w->kernel, sym, begin, end, step, kind, width);
    nst_block_add(w->kernel, block, loop);
    *var = nst_dim_sym(w->module->dims, sym);
    return &loop->u.loop.body;
}

NstBlock *nst_writer_axis_loop(NstWriter *w, NstBlock *block, NstAxis axis, NstForKind kind)
{
    NstDim var;
    const char *name = nst_dims_sym(w->module->dims, axis.var)->name;
    block = nst_writer_loop(w, block, name, nst_dim_const(w->module->dims, 0), nst_writer_dim(w, axis.extent), 1, kind,
                            0, &var);
    nst_writer_bind(w, axis.var, var);
    return block;
}

void nst_writer_lets(NstWriter *w, NstBlock *block, const NstNest *nest)
{
    for (uint32_t k = 0; k < nest->n_lets; k++) {
        const NstIndexLet *let = &nest->let[k];
        NstSymInfo info = *nst_dims_sym(w->module->dims, let->var);
        NstDim lo = nst_writer_dim(w, let->lo), hi = nst_writer_dim(w, let->hi);
        NstSym var = nst_kernel_index(w->kernel, info.name, lo, hi);
        NstStmt *stmt = nst_stmt_index(w->kernel, var, nst_writer_expr(w, let->value), lo, hi, let->checked);
        stmt->origin = let->origin;
        nst_block_add(w->kernel, block, stmt);
        nst_writer_bind(w, let->var, nst_dim_sym(w->module->dims, var));
    }
}

NstBlock *nst_writer_guard(NstWriter *w, NstBlock *block, NstExpr guard)
{
    if (!guard.i) return block;
    NstExpr condition = nst_writer_expr(w, guard);
    const NstExprNode *node = nst_expr(w->module->exprs, condition);
    if (node->op == NST_OP_CONST && node->imm.i) return block;
    NstStmt *branch = nst_stmt_if(w->kernel, condition);
    nst_block_add(w->kernel, block, branch);
    return &branch->u.branch.then;
}

/* Several results may share work and read what one of them overwrites: all are computed before the first is stored. */
static NstExpr name_value(NstWriter *w, NstBlock *block, NstExpr value)
{
    const NstExprNode *node = nst_expr(w->module->exprs, value);
    if (nst_scalar_info(node->op)->arity == 0) return value;
    NstDtype type = node->type;
    uint32_t id = nst_kernel_let(w->kernel, "result", type);
    nst_block_add(w->kernel, block, nst_stmt_let(w->kernel, id, value));
    return nst_expr_let(w->module->exprs, type, id);
}

void nst_writer_stores(NstWriter *w, NstBlock *block, const NstNest *nest)
{
    block = nst_writer_guard(w, block, nest->store_guard);
    NstExpr *value = NST_NEW_ARRAY(w->kernel->arena, NstExpr, nest->n_outs);
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        value[k] = nst_writer_expr(w, nest->out[k].value);
        if (nest->n_outs > 1) value[k] = name_value(w, block, value[k]);
    }
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        const NstNestOut *out = &nest->out[k];
        uint32_t n;
        NstDim *index = nst_writer_index(w, out->buffer, out->index, out->n_index, &n);
        NstStmt *store = nst_stmt_store(w->kernel, nst_writer_buffer(w, out->buffer), index, n, value[k]);
        store->origin = nest->origin;
        nst_block_add(w->kernel, block, store);
    }
}

/* Stores target[k] = value[k] at one index for all states at once. */
static void store_all(NstWriter *w, NstBlock *block, const NstNest *nest, const NstStoreTarget *target,
                      const NstDim *index, uint32_t n_index)
{
    NstStmt *stmt = nst_stmt_update(w->kernel, nest->n_states, target, index, n_index);
    stmt->u.store.update = false;
    nst_block_add(w->kernel, block, stmt);
}

/* Allocates the states of a reduction (`lanes` of each, 1: scalars), sets them to their identities, returns their buffers. */
static NstBuf *open_states(NstWriter *w, NstBlock *block, const NstNest *nest, int64_t lanes)
{
    NstKernel *kernel = w->kernel;
    NstDims *dims = w->module->dims;
    NstBuf *state = NST_NEW_ARRAY(kernel->arena, NstBuf, nest->n_states);
    NstDim extent = nst_dim_const(dims, lanes), at = nst_dim_const(dims, 0);
    uint32_t rank = lanes > 1;
    w->state = NST_NEW_ARRAY(kernel->arena, NstExpr, nest->n_states);
    for (uint32_t k = 0; k < nest->n_states; k++) {
        NstSpace space = rank ? NST_SPACE_SCRATCH : NST_SPACE_REG;
        state[k] = nst_kernel_local(kernel, "state", nest->state[k].dtype, space, (int)rank, &extent);
        nst_block_add(kernel, block, nst_stmt_alloc(kernel, state[k]));
        NstBlock *body = block;
        if (rank) body = nst_writer_loop(w, block, "l", nst_dim_const(dims, 0), extent, 1, NST_FOR_SERIAL, 0, &at);
        nst_block_add(kernel, body, nst_stmt_store(kernel, state[k], &at, rank, nest->state[k].identity));
    }
    w->n_states = nest->n_states;
    return state;
}

static void bind_states(NstWriter *w, const NstNest *nest, const NstBuf *state, NstDim at)
{
    for (uint32_t k = 0; k < nest->n_states; k++)
        w->state[k] = nst_expr_load(w->module->exprs, nest->state[k].dtype, state[k], &at, nest->lanes > 1);
}

/* state l = merge(state l, state l + h) for l < h, for h = lanes / 2, ..., 1. */
static void merge_lanes(NstWriter *w, NstBlock *block, const NstNest *nest, const NstBuf *state)
{
    NstDims *dims = w->module->dims;
    NstExprs *exprs = w->module->exprs;
    uint32_t m = nest->n_states;
    for (int64_t h = nest->lanes / 2; h >= 1; h /= 2) {
        NstDim at;
        NstBlock *body =
            nst_writer_loop(w, block, "l", nst_dim_const(dims, 0), nst_dim_const(dims, h), 1, NST_FOR_SERIAL, 0, &at);
        NstDim far = nst_dim_add_const(dims, at, h);
        NstExpr *side = NST_NEW_ARRAY(w->kernel->arena, NstExpr, 2 * m);
        for (uint32_t k = 0; k < m; k++) {
            side[k] = nst_expr_load(exprs, nest->state[k].dtype, state[k], &at, 1);
            side[m + k] = nst_expr_load(exprs, nest->state[k].dtype, state[k], &far, 1);
        }
        NstStoreTarget *target = NST_NEW_ARRAY(w->kernel->arena, NstStoreTarget, m);
        for (uint32_t k = 0; k < m; k++)
            target[k] = (NstStoreTarget){.buffer = state[k],
                                         .value = nst_expr_subst_args(exprs, nest->state[k].merge, side, 2 * m)};
        store_all(w, body, nest, target, &at, 1);
    }
}

NstBlock *nst_writer_sum_blocks(NstWriter *w, NstBlock *block, const NstNest *nest, NstDim *begin, NstDim *end,
                                NstExpr *later)
{
    NstDims *dims = w->module->dims;
    NstExprs *exprs = w->module->exprs;
    NstDim size = nst_dim_const(dims, nest->block),
           count = nst_dim_ceildiv(dims, nst_dim_sub(dims, *end, *begin), size);
    NstDim which;
    block = nst_writer_loop(w, block, "kb", nst_dim_const(dims, 0), count, 1, NST_FOR_SERIAL, 0, &which);
    *begin = nst_dim_add(dims, *begin, nst_dim_mul(dims, which, size));
    *end = nst_dim_min(dims, *end, nst_dim_add(dims, *begin, size));
    *later = nst_expr_binary(exprs, NST_OP_GT, nst_expr_index(exprs, which), nst_expr_int(exprs, NST_I64, 0));
    return block;
}

/* The state of the blocks so far becomes that of the first, then what it is merged with the next one's. */
static void merge_block(NstWriter *w, NstBlock *block, const NstNest *nest, const NstBuf *state, const NstBuf *sum,
                        NstExpr later)
{
    NstExprs *exprs = w->module->exprs;
    NstDim at = nst_dim_const(w->module->dims, 0);
    uint32_t m = nest->n_states;
    NstExpr *side = NST_NEW_ARRAY(w->kernel->arena, NstExpr, 2 * m);
    NstStmt *branch = nst_stmt_if(w->kernel, later);
    nst_block_add(w->kernel, block, branch);
    for (uint32_t k = 0; k < m; k++) {
        side[k] = nst_expr_load(exprs, nest->state[k].dtype, state[k], &at, 0);
        side[m + k] = nst_expr_load(exprs, nest->state[k].dtype, sum[k], &at, 0);
    }
    for (int is_first = 0; is_first < 2; is_first++) {
        NstStoreTarget *target = NST_NEW_ARRAY(w->kernel->arena, NstStoreTarget, m);
        for (uint32_t k = 0; k < m; k++) {
            NstExpr merged = nst_expr_subst_args(exprs, nest->state[k].merge, side, 2 * m);
            target[k] = (NstStoreTarget){.buffer = state[k], .value = is_first ? side[m + k] : merged};
        }
        store_all(w, is_first ? &branch->u.branch.otherwise : &branch->u.branch.then, nest, target, &at, 0);
    }
}

/* One element's step into the states at index `at`. */
static void write_step(NstWriter *w, NstBlock *block, const NstNest *nest, const NstBuf *state, NstDim at)
{
    bind_states(w, nest, state, at);
    block = nst_writer_guard(w, block, nest->guard);
    NstStoreTarget *target = NST_NEW_ARRAY(w->kernel->arena, NstStoreTarget, nest->n_states);
    for (uint32_t k = 0; k < nest->n_states; k++)
        target[k] = (NstStoreTarget){state[k], nst_writer_expr(w, nest->state[k].step), nest->state[k].merge,
                                     nest->state[k].identity};
    nst_block_add(w->kernel, block, nst_stmt_update(w->kernel, nest->n_states, target, &at, nest->lanes > 1));
}

static void write_blocks(NstWriter *w, NstBlock *block, const NstNest *nest, const NstBuf *state)
{
    NstDim begin = nst_dim_const(w->module->dims, 0), end = nst_writer_dim(w, nest->reduce[0].extent), k;
    NstExpr later;
    block = nst_writer_sum_blocks(w, block, nest, &begin, &end, &later);
    NstBuf *sum = open_states(w, block, nest, 1);
    NstBlock *inner = nst_writer_loop(w, block, "k", begin, end, 1, NST_FOR_SERIAL, 0, &k);
    nst_writer_bind(w, nest->reduce[0].var, k);
    write_step(w, inner, nest, sum, nst_dim_const(w->module->dims, 0));
    merge_block(w, block, nest, state, sum, later);
}

static void write_reduction(NstWriter *w, NstBlock *block, const NstNest *nest)
{
    NstDims *dims = w->module->dims;
    bool laned = nest->lanes > 1;
    NstBuf *state = open_states(w, block, nest, laned ? nest->lanes : 1);
    if (nest->block) {
        write_blocks(w, block, nest, state);
    } else {
        NstBlock *inner = block;
        for (uint32_t k = 0; k < nest->n_reduce; k++)
            inner = nst_writer_axis_loop(w, inner, nest->reduce[k], NST_FOR_SERIAL);
        NstDim at = nst_dim_const(dims, 0);
        if (laned) {
            NstDim r = nst_writer_dim(w, nst_dim_sym(dims, nest->reduce[nest->n_reduce - 1].var));
            at = nst_dim_mod(dims, r, nst_dim_const(dims, nest->lanes));
        }
        write_step(w, inner, nest, state, at);
        if (laned) merge_lanes(w, block, nest, state);
    }
    bind_states(w, nest, state, nst_dim_const(dims, 0));
}

void nst_writer_plain(NstWriter *w, NstBlock *block, const NstNest *nest, uint32_t n_common)
{
    for (uint32_t k = n_common; k < nest->n_axes; k++)
        block = nst_writer_axis_loop(w, block, nest->axis[k], NST_FOR_SERIAL);
    w->n_states = 0;
    nst_writer_lets(w, block, nest);
    if (nest->n_states) write_reduction(w, block, nest);
    if (nest->check.i) {
        NstStmt *stmt = nst_stmt_assert(w->kernel, nst_writer_expr(w, nest->check), nest->message);
        stmt->origin = nest->origin;
        nst_block_add(w->kernel, block, stmt);
    }
    nst_writer_stores(w, block, nest);
}

static bool touches(NstWriter *w, const NstGroup *group, NstBuf buffer)
{
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstGroupItem *item = &group->items.at[k];
        NstBufList list = {0};
        if (item->group && touches(w, item->group, buffer)) return true;
        if (item->nest) nst_nest_reads(w->module, item->nest, &list);
        if (item->nest) nst_nest_writes(w->module, item->nest, &list);
        for (uint32_t b = 0; b < list.n; b++)
            if (list.at[b].i == buffer.i) return true;
    }
    return false;
}

void nst_writer_open_locals(NstWriter *w, NstBlock *block, const NstGroup *sequence, uint32_t member)
{
    for (uint32_t k = 0; k < sequence->locals.n; k++) {
        NstBuf local = sequence->locals.at[k];
        uint32_t first = 0;
        while (first < member && !touches(w, sequence->items.at[first].group, local)) first++;
        if (first == member && touches(w, sequence->items.at[member].group, local))
            nst_block_add(w->kernel, block, nst_stmt_alloc(w->kernel, nst_writer_buffer(w, local)));
    }
}

/* --- arguments and locals ------------------------------------------------------------------------------------ */

typedef NST_VEC(int) AccessList; /* by argument: NST_ACCESS_IN, NST_ACCESS_OUT or both */

static void add_arg(NstWriter *w, NstBuf buffer, int how, AccessList *access)
{
    uint32_t k = 0;
    while (k < w->args.n && w->args.at[k].i != buffer.i) k++;
    if (k == w->args.n) {
        nst_vec_push(w->module->arena, &w->args, buffer);
        nst_vec_push(w->module->arena, access, 0);
    }
    access->at[k] |= how;
}

/* Adds the arguments of `group` in order of first use, and how it accesses them. */
static void collect_args(NstWriter *w, const NstGroup *top, const NstGroup *group, AccessList *access)
{
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstGroupItem *item = &group->items.at[k];
        if (item->group) {
            collect_args(w, top, item->group, access);
            continue;
        }
        NstBufList list = {0};
        nst_nest_reads(w->module, item->nest, &list);
        uint32_t n_reads = list.n;
        NstBufList writes = {0};
        nst_nest_writes(w->module, item->nest, &writes);
        for (uint32_t b = 0; b < writes.n; b++) nst_vec_push(w->module->arena, &list, writes.at[b]);
        for (uint32_t b = 0; b < list.n; b++) {
            if (nst_group_is_local(top, list.at[b])) continue;
            add_arg(w, list.at[b], b < n_reads ? NST_ACCESS_IN : NST_ACCESS_OUT, access);
        }
    }
}

static void make_args(NstWriter *w, const NstGroup *group)
{
    AccessList access = {0};
    collect_args(w, group, group, &access);
    for (uint32_t k = 0; k < w->args.n; k++) {
        const NstBuffer *from = &nst_module_get(w->module, w->args.at[k])->buffer;
        NstBuf to =
            nst_kernel_arg(w->kernel, from->name, from->dtype, from->rank, from->shape, (NstAccess)access.at[k]);
        NstBuffer *buffer = nst_kernel_buffer(w->kernel, to);
        buffer->layout = from->layout;
        buffer->constant = from->constant && buffer->access == NST_ACCESS_IN;
        buffer->origin = from->origin;
        nst_writer_set_buffer(w, w->args.at[k], to, 0);
    }
}

static void make_locals(NstWriter *w, const NstGroup *group, uint32_t depth)
{
    depth += group->n_axes;
    for (uint32_t k = 0; k < group->locals.n; k++) {
        NstBuf local = group->locals.at[k];
        const NstBuffer *from = &nst_module_get(w->module, local)->buffer;
        uint32_t drop = depth < (uint32_t)from->rank ? depth : (uint32_t)from->rank;
        NstBuf to = nst_kernel_local(w->kernel, from->name, from->dtype, NST_SPACE_SCRATCH, from->rank - (int)drop,
                                     from->shape + drop);
        if (group->sequence) nst_kernel_buffer(w->kernel, to)->layout = from->layout;
        nst_writer_set_buffer(w, local, to, drop);
    }
    for (uint32_t k = 0; k < group->items.n; k++)
        if (group->items.at[k].group) make_locals(w, group->items.at[k].group, depth);
}

void nst_writer_init(NstWriter *w, NstModule *module, const NstGroup *group)
{
    *w = (NstWriter){.module = module};
    w->kernel = nst_kernel_new(module->arena, module->dims, module->exprs, module->origins, group->name);
    w->kernel->origin = group->origin;
    w->alone = group->sequence;
    w->tables = module->tables ? module->tables : NST_NEW(module->arena, NstWriterTables);
    module->tables = NULL; /* lent: a second kernel at the same time makes its own */
    make_args(w, group);
    make_locals(w, group, 0);
}

static void give_back(NstWriter *w)
{
    NstWriterTables *t = w->tables;
    for (uint32_t k = 0; k < t->touched.n; k++) t->buffer.at[t->touched.at[k].i] = (NstWriterBuffer){0};
    for (uint32_t k = 0; k < t->bound.n; k++) t->sym_value.at[t->bound.at[k].i] = (NstDim){0};
    t->touched.n = t->bound.n = 0;
    w->module->tables = t;
}

void nst_writer_finish(NstWriter *w, NstKernel **kernel, NstBuf **arg_buffer)
{
    nst_kernel_collect_params(w->kernel);
    *kernel = w->kernel;
    *arg_buffer = w->args.at;
    give_back(w);
    *w = (NstWriter){0};
}
