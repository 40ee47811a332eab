/* nest_kernel.c: groups of nests <-> plain kernels.
 *
 * nst_group_to_kernel writes a group as the loops it means, untouched by scheduling: the form that dumps print, the
 * interpreter runs and every schedule is compared with.  nst_kernel_to_module reads such a kernel back. */
#include "passes/nest.h"

/* --- group -> kernel ----------------------------------------------------------------------------------------- */

typedef struct Writer {
    NstModule *module;
    NstKernel *kernel;
    NstBuf *kernel_buffer;  /* by module buffer; none = not yet an argument */
    uint32_t *dropped;      /* by module buffer: leading indices dropped (locals of groups) */
    NST_VEC(NstBuf) args;   /* module buffers in ABI order */
    NstDim *sym_value;      /* by symbol: what stands for a member's common axis; none = itself */
    uint32_t n_syms;
    NstExpr *state;         /* loads of the current nest's states */
    uint32_t n_states;
} Writer;

static NstDim map_dim(Writer *w, NstDim dim)
{
    return nst_dim_subst_all(w->module->dims, dim, w->sym_value, w->n_syms);
}

static NstDim *map_index(Writer *w, NstBuf buffer, const NstDim *index, uint32_t n, uint32_t *n_out)
{
    uint32_t drop = w->dropped[buffer.i];
    NstDim *mapped = NST_NEW_ARRAY(w->kernel->arena, NstDim, n);
    for (uint32_t k = drop; k < n; k++) mapped[k - drop] = map_dim(w, index[k]);
    *n_out = n - drop;
    return mapped;
}

static NstExpr map_node(void *arg, NstExprs *exprs, NstExpr e)
{
    Writer *w = arg;
    const NstExprNode node = *nst_expr(exprs, e);
    switch (node.op) {
    case NST_OP_INDEX: return nst_expr_index(exprs, map_dim(w, node.index[0]));
    case NST_OP_ARG: return node.ref < w->n_states ? w->state[node.ref] : (NstExpr){0};
    case NST_OP_LOAD: {
        uint32_t n;
        NstDim *index = map_index(w, (NstBuf){node.ref}, node.index, node.n_index, &n);
        return nst_expr_load(exprs, node.type, w->kernel_buffer[node.ref], index, n);
    }
    default: return (NstExpr){0};
    }
}

static NstExpr map_expr(Writer *w, NstExpr e)
{
    return e.i ? nst_expr_rewrite(w->module->exprs, e, map_node, w) : e;
}

static NstBlock *open_loop(Writer *w, NstBlock *block, NstAxis axis)
{
    NstStmt *loop = nst_stmt_for(w->kernel, axis.var, nst_dim_const(w->module->dims, 0), map_dim(w, axis.extent), 1,
                                 NST_FOR_SERIAL, 0);
    nst_block_add(w->kernel, block, loop);
    return &loop->u.loop.body;
}

/* Allocates the states of a reduction, sets them to their identities and returns the loads that read them. */
static NstBuf *open_states(Writer *w, NstBlock *block, const NstNest *nest)
{
    NstKernel *kernel = w->kernel;
    NstBuf *state = NST_NEW_ARRAY(kernel->arena, NstBuf, nest->n_states);
    w->state = NST_NEW_ARRAY(kernel->arena, NstExpr, nest->n_states);
    for (uint32_t k = 0; k < nest->n_states; k++) {
        state[k] = nst_kernel_local(kernel, "state", nest->state[k].dtype, NST_SPACE_REG, 0, NULL);
        nst_block_add(kernel, block, nst_stmt_alloc(kernel, state[k]));
        nst_block_add(kernel, block, nst_stmt_store(kernel, state[k], NULL, 0, nest->state[k].identity));
        w->state[k] = nst_expr_load(w->module->exprs, nest->state[k].dtype, state[k], NULL, 0);
    }
    w->n_states = nest->n_states;
    return state;
}

static void write_reduction(Writer *w, NstBlock *block, const NstNest *nest)
{
    NstKernel *kernel = w->kernel;
    NstBuf *state = open_states(w, block, nest);
    for (uint32_t k = 0; k < nest->n_reduce; k++) block = open_loop(w, block, nest->reduce[k]);
    if (nest->guard.i) {
        NstStmt *branch = nst_stmt_if(kernel, map_expr(w, nest->guard));
        nst_block_add(kernel, block, branch);
        block = &branch->u.branch.then;
    }
    NstStoreTarget *target = NST_NEW_ARRAY(kernel->arena, NstStoreTarget, nest->n_states);
    for (uint32_t k = 0; k < nest->n_states; k++)
        target[k] = (NstStoreTarget){state[k], map_expr(w, nest->state[k].step), nest->state[k].merge, nest->state[k].identity};
    nst_block_add(kernel, block, nst_stmt_update(kernel, nest->n_states, target, NULL, 0));
}

static void write_nest(Writer *w, NstBlock *block, const NstNest *nest, const NstAxis *common, uint32_t n_common)
{
    NstKernel *kernel = w->kernel;
    for (uint32_t k = 0; k < n_common; k++)
        if (common[k].var.i != nest->axis[k].var.i)
            w->sym_value[nest->axis[k].var.i] = nst_dim_sym(w->module->dims, common[k].var);
    for (uint32_t k = n_common; k < nest->n_axes; k++) block = open_loop(w, block, nest->axis[k]);
    w->n_states = 0;
    for (uint32_t k = 0; k < nest->n_lets; k++) {
        const NstIndexLet *let = &nest->let[k];
        NstStmt *stmt = nst_stmt_index(kernel, let->var, map_expr(w, let->value), map_dim(w, let->lo), map_dim(w, let->hi),
                                       let->checked);
        stmt->origin = let->origin;
        nst_block_add(kernel, block, stmt);
    }
    if (nest->n_states) write_reduction(w, block, nest);
    if (nest->store_guard.i) {
        NstStmt *branch = nst_stmt_if(kernel, map_expr(w, nest->store_guard));
        nst_block_add(kernel, block, branch);
        block = &branch->u.branch.then;
    }
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        const NstNestOut *out = &nest->out[k];
        uint32_t n;
        NstDim *index = map_index(w, out->buffer, out->index, out->n_index, &n);
        NstStmt *store = nst_stmt_store(kernel, w->kernel_buffer[out->buffer.i], index, n, map_expr(w, out->value));
        store->origin = nest->origin;
        nst_block_add(kernel, block, store);
    }
}

static void write_group(Writer *w, NstBlock *block, const NstGroup *group, const NstAxis *outer, uint32_t n_outer)
{
    uint32_t n = n_outer + group->n_axes;
    NstAxis *common = NST_NEW_ARRAY(w->kernel->arena, NstAxis, n);
    for (uint32_t k = 0; k < n_outer; k++) common[k] = outer[k];
    for (uint32_t k = 0; k < group->n_axes; k++) {
        common[n_outer + k] = group->axis[k];
        block = open_loop(w, block, group->axis[k]);
    }
    for (uint32_t k = 0; k < group->locals.n; k++)
        nst_block_add(w->kernel, block, nst_stmt_alloc(w->kernel, w->kernel_buffer[group->locals.at[k].i]));
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstGroupItem *item = &group->items.at[k];
        if (item->group)
            write_group(w, block, item->group, common, n);
        else
            write_nest(w, block, item->nest, common, n);
    }
}

static bool is_local(const NstGroup *group, NstBuf buffer)
{
    for (uint32_t k = 0; k < group->locals.n; k++)
        if (group->locals.at[k].i == buffer.i) return true;
    for (uint32_t k = 0; k < group->items.n; k++)
        if (group->items.at[k].group && is_local(group->items.at[k].group, buffer)) return true;
    return false;
}

static void collect_args(Writer *w, const NstGroup *top, const NstGroup *group)
{
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstGroupItem *item = &group->items.at[k];
        if (item->group) {
            collect_args(w, top, item->group);
            continue;
        }
        NstBufList list = {0};
        nst_nest_reads(w->module, item->nest, &list);
        nst_nest_writes(w->module, item->nest, &list);
        for (uint32_t b = 0; b < list.n; b++) {
            bool known = is_local(top, list.at[b]);
            for (uint32_t a = 0; a < w->args.n && !known; a++) known = w->args.at[a].i == list.at[b].i;
            if (!known) nst_vec_push(w->module->arena, &w->args, list.at[b]);
        }
    }
}

static int access_in(NstModule *module, const NstGroup *group, NstBuf buffer)
{
    int access = 0;
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstGroupItem *item = &group->items.at[k];
        if (item->group) {
            access |= access_in(module, item->group, buffer);
            continue;
        }
        NstBufList reads = {0}, writes = {0};
        nst_nest_reads(module, item->nest, &reads);
        nst_nest_writes(module, item->nest, &writes);
        for (uint32_t b = 0; b < reads.n; b++) access |= reads.at[b].i == buffer.i ? NST_ACCESS_IN : 0;
        for (uint32_t b = 0; b < writes.n; b++) access |= writes.at[b].i == buffer.i ? NST_ACCESS_OUT : 0;
    }
    return access;
}

static void make_args(Writer *w, const NstGroup *group)
{
    for (uint32_t k = 0; k < w->args.n; k++) {
        const NstBuffer *from = &nst_module_get(w->module, w->args.at[k])->buffer;
        NstBuf to = nst_kernel_arg(w->kernel, from->name, from->dtype, from->rank, from->shape,
                                   (NstAccess)access_in(w->module, group, w->args.at[k]));
        NstBuffer *buffer = nst_kernel_buffer(w->kernel, to);
        buffer->layout = from->layout;
        buffer->constant = from->constant;
        buffer->origin = from->origin;
        w->kernel_buffer[w->args.at[k].i] = to;
    }
}

static void make_locals(Writer *w, const NstGroup *group, uint32_t depth)
{
    depth += group->n_axes;
    for (uint32_t k = 0; k < group->locals.n; k++) {
        const NstBuffer *from = &nst_module_get(w->module, group->locals.at[k])->buffer;
        uint32_t drop = depth < (uint32_t)from->rank ? depth : (uint32_t)from->rank;
        w->dropped[group->locals.at[k].i] = drop;
        w->kernel_buffer[group->locals.at[k].i] =
            nst_kernel_local(w->kernel, from->name, from->dtype, NST_SPACE_SCRATCH, from->rank - (int)drop, from->shape + drop);
    }
    for (uint32_t k = 0; k < group->items.n; k++)
        if (group->items.at[k].group) make_locals(w, group->items.at[k].group, depth);
}

NstStatus nst_group_to_kernel(NstCtx *ctx, NstModule *module, const NstGroup *group, NstKernel **kernel, NstBuf **arg_buffer)
{
    (void)ctx;
    Writer w = {.module = module};
    w.kernel = nst_kernel_new(module->arena, module->dims, module->exprs, module->origins, group->name);
    w.kernel->origin = group->origin;
    w.kernel_buffer = NST_NEW_ARRAY(module->arena, NstBuf, module->buffers.n);
    w.dropped = NST_NEW_ARRAY(module->arena, uint32_t, module->buffers.n);
    w.n_syms = nst_dims_sym_count(module->dims) + 1;
    w.sym_value = NST_NEW_ARRAY(module->arena, NstDim, w.n_syms);
    collect_args(&w, group, group);
    make_args(&w, group);
    make_locals(&w, group, 0);
    write_group(&w, &w.kernel->body, group, NULL, 0);
    nst_kernel_collect_params(w.kernel);
    *kernel = w.kernel;
    *arg_buffer = w.args.at;
    return NST_OK;
}

/* --- kernel -> module ---------------------------------------------------------------------------------------- */

typedef struct Reader {
    NstCtx *ctx;
    NstModule *module;
    const NstKernel *kernel;
    NstNest *nest;
    NstBuf state[8]; /* REG buffers of the kernel, rank 0 */
} Reader;

static NstExpr read_node(void *arg, NstExprs *exprs, NstExpr e)
{
    Reader *r = arg;
    const NstExprNode *node = nst_expr(exprs, e);
    if (node->op != NST_OP_LOAD) return (NstExpr){0};
    for (uint32_t k = 0; k < r->nest->n_states; k++)
        if (r->state[k].i == node->ref) return nst_expr_arg(exprs, node->type, k);
    return (NstExpr){0}; /* ARG buffers keep their numbers */
}

static NstExpr read_expr(Reader *r, NstExpr e)
{
    return nst_expr_rewrite(r->module->exprs, e, read_node, r);
}

#define NOT_PLAIN(r, what)                                                                                   \
    nst_fail((r)->ctx, NST_E_UNSUPPORTED, "kernel '%s' is not one plain nest: %s", (r)->kernel->name, (what))

/* Serial loops from 0 by 1, one inside the other, become axes; *block is left at the first block that is none. */
static NstStatus read_loops(Reader *r, NstBlock **block, NstAxis **axis, uint32_t *n)
{
    NST_VEC(NstAxis) list = {0};
    int64_t begin;
    while ((*block)->n == 1 && (*block)->at[0]->kind == NST_STMT_FOR) {
        NstFor *loop = &(*block)->at[0]->u.loop;
        if (loop->kind == NST_FOR_VECTOR || loop->kind == NST_FOR_UNROLL || loop->step != 1 ||
            !nst_dim_is_const(r->module->dims, loop->begin, &begin) || begin != 0)
            return NOT_PLAIN(r, "a loop is already scheduled");
        nst_vec_push(r->module->arena, &list, ((NstAxis){loop->var, loop->end}));
        *block = &loop->body;
    }
    *axis = list.at;
    *n = list.n;
    return NST_OK;
}

static NstStatus read_update(Reader *r, NstBlock *block)
{
    NstNest *nest = r->nest;
    NST_TRY(read_loops(r, &block, &nest->reduce, &nest->n_reduce));
    if (block->n == 1 && block->at[0]->kind == NST_STMT_IF && block->at[0]->u.branch.otherwise.n == 0) {
        nest->guard = read_expr(r, block->at[0]->u.branch.condition);
        block = &block->at[0]->u.branch.then;
    }
    if (block->n != 1 || block->at[0]->kind != NST_STMT_STORE || !block->at[0]->u.store.update ||
        block->at[0]->u.store.n_targets != nest->n_states)
        return NOT_PLAIN(r, "the innermost statement of a reduction must be one update of all its states");
    const NstStore *store = &block->at[0]->u.store;
    for (uint32_t k = 0; k < nest->n_states; k++) {
        if (store->target[k].buffer.i != r->state[k].i) return NOT_PLAIN(r, "states are updated out of order");
        nest->state[k].step = read_expr(r, store->target[k].value);
        nest->state[k].merge = store->target[k].merge;
        nest->state[k].identity = store->target[k].identity;
    }
    return NST_OK;
}

static NstStatus read_stores(Reader *r, NstBlock *block, uint32_t at)
{
    NstNest *nest = r->nest;
    if (at + 1 == block->n && block->at[at]->kind == NST_STMT_IF && block->at[at]->u.branch.otherwise.n == 0) {
        nest->store_guard = read_expr(r, block->at[at]->u.branch.condition);
        block = &block->at[at]->u.branch.then;
        at = 0;
    }
    NST_VEC(NstNestOut) outs = {0};
    for (; at < block->n; at++) {
        const NstStmt *stmt = block->at[at];
        if (stmt->kind != NST_STMT_STORE || stmt->u.store.n_targets != 1 || stmt->u.store.update)
            return NOT_PLAIN(r, "after the reduction only stores may stand");
        const NstStore *store = &stmt->u.store;
        NstNestOut out = {store->target[0].buffer, store->n_index, store->index, read_expr(r, store->target[0].value)};
        nst_vec_push(r->module->arena, &outs, out);
    }
    nest->out = outs.at;
    nest->n_outs = outs.n;
    return nest->n_outs ? NST_OK : NOT_PLAIN(r, "nothing is stored");
}

static NstStatus read_nest(Reader *r)
{
    NstNest *nest = r->nest;
    NstBlock *block = (NstBlock *)(uintptr_t)&r->kernel->body; /* read only */
    NST_TRY(read_loops(r, &block, &nest->axis, &nest->n_axes));
    uint32_t at = 0;
    NST_VEC(NstIndexLet) lets = {0};
    for (; at < block->n && block->at[at]->kind == NST_STMT_INDEX; at++) {
        const NstStmt *stmt = block->at[at];
        NstIndexLet let = {stmt->u.index.var, stmt->u.index.value, stmt->u.index.lo, stmt->u.index.hi,
                           stmt->u.index.checked, stmt->origin};
        nst_vec_push(r->module->arena, &lets, let);
    }
    nest->let = lets.at;
    nest->n_lets = lets.n;
    nest->state = NST_NEW_ARRAY(r->module->arena, NstState, 8);
    while (at + 1 < block->n && block->at[at]->kind == NST_STMT_ALLOC && nest->n_states < 8) {
        r->state[nest->n_states] = block->at[at]->u.alloc.buffer;
        NstBuffer *buffer = nst_kernel_buffer(r->kernel, r->state[nest->n_states]);
        if (buffer->space != NST_SPACE_REG || buffer->rank != 0) return NOT_PLAIN(r, "it has scratch memory");
        if (block->at[at + 1]->kind != NST_STMT_STORE) return NOT_PLAIN(r, "a state is not initialised");
        nest->state[nest->n_states++].dtype = buffer->dtype;
        at += 2;
    }
    if (nest->n_states) {
        if (at >= block->n) return NOT_PLAIN(r, "the reduction has no loop");
        NstBlock one = {.at = &block->at[at], .n = 1, .cap = 1};
        NST_TRY(read_update(r, &one));
        at++;
    }
    return read_stores(r, block, at);
}

NstStatus nst_kernel_to_module(NstCtx *ctx, NstArena *arena, const NstKernel *kernel, const NstTarget *target, NstModule **result)
{
    NstModule *module = NST_NEW(arena, NstModule);
    module->arena = arena;
    module->dims = kernel->dims;
    module->exprs = kernel->exprs;
    module->origins = kernel->origins;
    module->target = target;
    nst_vec_push(arena, &module->buffers, (NstModuleBuffer){0});
    nst_vec_push(arena, &module->consts, (NstModuleConst){0});
    for (uint32_t k = 1; k <= kernel->n_args; k++) {
        NstModuleBuffer item = {.buffer = *nst_kernel_buffer(kernel, (NstBuf){k}), .index = k - 1};
        item.role = item.buffer.access & NST_ACCESS_OUT ? NST_ROLE_OUTPUT : item.buffer.constant ? NST_ROLE_CONST : NST_ROLE_INPUT;
        nst_vec_push(arena, &module->buffers, item);
    }
    Reader r = {.ctx = ctx, .module = module, .kernel = kernel};
    r.nest = nst_nest_new(module, kernel->name, kernel->origin);
    NST_TRY(read_nest(&r));
    nst_vec_push(arena, &module->groups, nst_group_new(module, r.nest));
    *result = module;
    return NST_OK;
}
