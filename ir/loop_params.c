/* loop_params.c: which size symbols a kernel needs from its caller. */
#include "ir/base/map.h"
#include "ir/loop.h"

typedef struct Collector {
    NstKernel *kernel;
    NstMap dims; /* already walked */
} Collector;

static void collect_dim(Collector *c, NstDim dim)
{
    if (!dim.i || nst_map_get(&c->dims, dim.i, 0)) return;
    nst_map_put(&c->dims, dim.i, 1);
    const NstDimNode node = *nst_dim_node(c->kernel->dims, dim);
    if (node.op == NST_DIM_SYM && nst_dims_sym(c->kernel->dims, node.sym)->kind != NST_SYM_INDEX)
        nst_kernel_param(c->kernel, node.sym);
    for (uint32_t k = 0; k < node.n; k++) collect_dim(c, node.arg[k]);
}

static void collect_node(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    for (uint32_t k = 0; k < node->n_index; k++) collect_dim(arg, node->index[k]);
}

static void collect_expr(Collector *c, NstExpr e)
{
    if (e.i) nst_expr_visit(c->kernel->exprs, e, collect_node, c);
}

static void collect_buffer(Collector *c, const NstBuffer *buffer)
{
    for (int k = 0; k < buffer->rank; k++) collect_dim(c, buffer->shape[k]);
    for (uint32_t k = 0; k < buffer->layout.n_parts; k++) collect_dim(c, buffer->layout.parts[k].stride);
    collect_dim(c, buffer->layout.offset);
    collect_dim(c, buffer->layout.elements);
}

static void collect_store(Collector *c, const NstStore *store)
{
    for (uint32_t k = 0; k < store->n_index; k++) collect_dim(c, store->index[k]);
    for (uint32_t k = 0; k < store->n_targets; k++) collect_expr(c, store->target[k].value);
}

static void collect_stmt(void *arg, NstStmt *stmt, int depth)
{
    Collector *c = arg;
    (void)depth;
    switch (stmt->kind) {
    case NST_STMT_FOR:
        collect_dim(c, stmt->u.loop.begin);
        collect_dim(c, stmt->u.loop.end);
        break;
    case NST_STMT_IF: collect_expr(c, stmt->u.branch.condition); break;
    case NST_STMT_LET: collect_expr(c, stmt->u.let.value); break;
    case NST_STMT_INDEX:
        collect_expr(c, stmt->u.index.value);
        collect_dim(c, stmt->u.index.lo);
        collect_dim(c, stmt->u.index.hi);
        break;
    case NST_STMT_ALLOC: collect_buffer(c, nst_kernel_buffer(c->kernel, stmt->u.alloc.buffer)); break;
    case NST_STMT_STORE: collect_store(c, &stmt->u.store); break;
    case NST_STMT_PREFETCH:
        for (uint32_t k = 0; k < stmt->u.prefetch.n_index; k++) collect_dim(c, stmt->u.prefetch.index[k]);
        break;
    case NST_STMT_MATRIX:
        for (uint32_t k = 0; k < stmt->u.matrix.n_index; k++) collect_dim(c, stmt->u.matrix.index[k]);
        break;
    case NST_STMT_CALL:
        for (uint32_t k = 0; k < stmt->u.call.n_args; k++) collect_expr(c, stmt->u.call.arg[k]);
        break;
    case NST_STMT_ASSERT: collect_expr(c, stmt->u.check.condition); break;
    case NST_STMT_WHILE:
    case NST_STMT_BREAK:
    case NST_STMT_BARRIER: break;
    }
}

void nst_kernel_collect_params(NstKernel *kernel)
{
    Collector c = {.kernel = kernel};
    nst_map_init(&c.dims, kernel->arena);
    for (uint32_t k = 1; k <= kernel->n_args; k++) collect_buffer(&c, nst_kernel_buffer(kernel, (NstBuf){k}));
    nst_block_visit(&kernel->body, collect_stmt, &c);
}
