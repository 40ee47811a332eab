/* nest_kernel.c: groups of nests <-> plain kernels.
 *
 * nst_group_to_kernel writes a group as the loops it means, untouched by scheduling: the form that dumps print, the
 * interpreter runs and every schedule is compared with.  nst_kernel_to_module reads such a kernel back. */
#include "passes/writer.h"

/* --- group -> kernel ----------------------------------------------------------------------------------------- */

static void write_group(NstWriter *w, NstBlock *block, const NstGroup *group, const NstAxis *outer, uint32_t n_outer)
{
    uint32_t n = n_outer + group->n_axes;
    NstAxis *common = NST_NEW_ARRAY(w->kernel->arena, NstAxis, n);
    for (uint32_t k = 0; k < n_outer; k++) common[k] = outer[k];
    for (uint32_t k = 0; k < group->n_axes; k++) {
        common[n_outer + k] = group->axis[k];
        block = nst_writer_axis_loop(w, block, group->axis[k], NST_FOR_SERIAL);
    }
    for (uint32_t k = 0; k < group->locals.n && !group->sequence; k++)
        nst_block_add(w->kernel, block, nst_stmt_alloc(w->kernel, nst_writer_buffer(w, group->locals.at[k])));
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstGroupItem *item = &group->items.at[k];
        if (group->sequence) nst_writer_open_locals(w, block, group, k);
        if (item->group) {
            write_group(w, block, item->group, common, n);
            continue;
        }
        for (uint32_t c = 0; c < n; c++)
            nst_writer_bind(w, item->nest->axis[c].var, nst_writer_dim(w, nst_dim_sym(w->module->dims, common[c].var)));
        nst_writer_plain(w, block, item->nest, n);
    }
}

void nst_writer_plain_group(NstWriter *w, NstBlock *block, const NstGroup *group)
{
    write_group(w, block, group, NULL, 0);
}

NstStatus nst_group_to_kernel(NstCtx *ctx, NstModule *module, const NstGroup *group, NstKernel **kernel,
                              NstBuf **arg_buffer)
{
    (void)ctx;
    NstWriter w;
    nst_writer_init(&w, module, group);
    nst_writer_plain_group(&w, &w.kernel->body, group);
    nst_writer_finish(&w, kernel, arg_buffer);
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

#define NOT_PLAIN(r, what)                                                                                             \
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
        NstIndexLet let = {stmt->u.index.var, stmt->u.index.value,   stmt->u.index.lo,
                           stmt->u.index.hi,  stmt->u.index.checked, stmt->origin};
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

NstStatus nst_kernel_to_module(NstCtx *ctx, NstArena *arena, const NstKernel *kernel, const NstTarget *target,
                               NstModule **result)
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
        item.role = item.buffer.access & NST_ACCESS_OUT ? NST_ROLE_OUTPUT
                    : item.buffer.constant              ? NST_ROLE_CONST
                                                        : NST_ROLE_INPUT;
        nst_vec_push(arena, &module->buffers, item);
    }
    Reader r = {.ctx = ctx, .module = module, .kernel = kernel};
    r.nest = nst_nest_new(module, kernel->name, kernel->origin);
    NST_TRY(read_nest(&r));
    nst_vec_push(arena, &module->groups, nst_group_new(module, r.nest));
    *result = module;
    return NST_OK;
}
