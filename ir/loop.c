/* loop.c: building, copying and walking kernels of the loop-nest IR. */
#include "ir/loop.h"
#include "ir/base/status.h"

/* --- kernels ------------------------------------------------------------------------------------------------- */

NstKernel *nst_kernel_new(NstArena *arena, NstDims *dims, NstExprs *exprs, NstOrigins *origins, const char *name)
{
    NstKernel *kernel = NST_NEW(arena, NstKernel);
    kernel->arena = arena;
    kernel->dims = dims;
    kernel->exprs = exprs;
    kernel->origins = origins;
    kernel->name = nst_strdup(arena, name);
    nst_vec_push(arena, &kernel->buffers, (NstBuffer){0});
    nst_vec_push(arena, &kernel->lets, (NstLetInfo){0});
    return kernel;
}

NstBuffer *nst_kernel_buffer(const NstKernel *kernel, NstBuf buffer)
{
    NST_ASSERT(buffer.i != 0 && buffer.i < kernel->buffers.n);
    return &kernel->buffers.at[buffer.i];
}

static NstBuf add_buffer(NstKernel *kernel, NstBuffer buffer)
{
    NstArena *arena = kernel->arena;
    NST_ASSERT(buffer.rank >= 0 && buffer.rank <= NST_MAX_RANK);
    buffer.name = nst_strdup(arena, buffer.name);
    buffer.shape = nst_copy(arena, buffer.shape, (size_t)buffer.rank * sizeof *buffer.shape);
    buffer.layout = nst_layout_row_major(arena, kernel->dims, buffer.dtype, buffer.rank, buffer.shape);
    nst_vec_push(arena, &kernel->buffers, buffer);
    return (NstBuf){kernel->buffers.n - 1};
}

NstBuf nst_kernel_arg(NstKernel *kernel, const char *name, NstDtype dtype, int rank, const NstDim *shape,
                      NstAccess access)
{
    NST_ASSERT(kernel->buffers.n == kernel->n_args + 1);
    kernel->n_args++;
    return add_buffer(
        kernel,
        (NstBuffer){
            .name = name, .dtype = dtype, .space = NST_SPACE_ARG, .access = access, .rank = rank, .shape = shape});
}

NstBuf nst_kernel_local(NstKernel *kernel, const char *name, NstDtype dtype, NstSpace space, int rank,
                        const NstDim *shape)
{
    NST_ASSERT(space != NST_SPACE_ARG);
    return add_buffer(kernel, (NstBuffer){.name = name, .dtype = dtype, .space = space, .rank = rank, .shape = shape});
}

void nst_kernel_param(NstKernel *kernel, NstSym sym)
{
    for (uint32_t k = 0; k < kernel->params.n; k++)
        if (kernel->params.at[k].i == sym.i) return;
    nst_vec_push(kernel->arena, &kernel->params, sym);
}

uint32_t nst_kernel_let(NstKernel *kernel, const char *name, NstDtype type)
{
    NstLetInfo info = {.name = nst_strdup(kernel->arena, name), .type = type};
    nst_vec_push(kernel->arena, &kernel->lets, info);
    return kernel->lets.n - 1;
}

NstSym nst_kernel_index(NstKernel *kernel, const char *name, NstDim begin, NstDim end)
{
    NstDims *dims = kernel->dims;
    NstSym sym = nst_dims_new_sym(dims, NST_SYM_INDEX, name, INT64_MIN, INT64_MAX);
    nst_kernel_index_bounds(kernel, sym, begin, end);
    return sym;
}

void nst_kernel_index_bounds(NstKernel *kernel, NstSym var, NstDim begin, NstDim end)
{
    NstDims *dims = kernel->dims;
    NstDim last = nst_dim_add_const(dims, end, -1);
    int64_t lo, hi, unused;
    nst_dim_bounds(dims, begin, &lo, &unused);
    nst_dim_bounds(dims, last, &unused, &hi);
    NstSymInfo *info = nst_dims_sym(dims, var);
    info->lo = lo;
    info->hi = hi;
    info->lo_dim = begin;
    info->hi_dim = last;
}

/* --- statements ---------------------------------------------------------------------------------------------- */

static NstStmt *new_stmt(NstKernel *kernel, NstStmtKind kind)
{
    NstStmt *stmt = NST_NEW(kernel->arena, NstStmt);
    stmt->kind = kind;
    stmt->origin = kernel->origin;
    return stmt;
}

static NstDim *copy_index(NstKernel *kernel, const NstDim *index, uint32_t n)
{
    return nst_copy(kernel->arena, index, n * sizeof *index);
}

NstStmt *nst_stmt_for(NstKernel *kernel, NstSym var, NstDim begin, NstDim end, int64_t step, NstForKind kind,
                      int64_t width)
{
    NstStmt *stmt = new_stmt(kernel, NST_STMT_FOR);
    stmt->u.loop = (NstFor){.var = var, .begin = begin, .end = end, .step = step, .kind = kind, .width = width};
    return stmt;
}

NstStmt *nst_stmt_store(NstKernel *kernel, NstBuf buffer, const NstDim *index, uint32_t n_index, NstExpr value)
{
    NstStoreTarget target = {.buffer = buffer, .value = value};
    NstStmt *stmt = nst_stmt_update(kernel, 1, &target, index, n_index);
    stmt->u.store.update = false;
    return stmt;
}

NstStmt *nst_stmt_update(NstKernel *kernel, uint32_t n_targets, const NstStoreTarget *target, const NstDim *index,
                         uint32_t n_index)
{
    NstStmt *stmt = new_stmt(kernel, NST_STMT_STORE);
    stmt->u.store = (NstStore){.n_targets = n_targets,
                               .target = nst_copy(kernel->arena, target, n_targets * sizeof *target),
                               .n_index = n_index,
                               .index = copy_index(kernel, index, n_index),
                               .update = true};
    return stmt;
}

NstStmt *nst_stmt_let(NstKernel *kernel, uint32_t id, NstExpr value)
{
    NstStmt *stmt = new_stmt(kernel, NST_STMT_LET);
    stmt->u.let.id = id;
    stmt->u.let.value = value;
    return stmt;
}

NstStmt *nst_stmt_index(NstKernel *kernel, NstSym var, NstExpr value, NstDim lo, NstDim hi, bool checked)
{
    NstStmt *stmt = new_stmt(kernel, NST_STMT_INDEX);
    stmt->u.index.var = var;
    stmt->u.index.value = value;
    stmt->u.index.lo = lo;
    stmt->u.index.hi = hi;
    stmt->u.index.checked = checked;
    return stmt;
}

NstStmt *nst_stmt_if(NstKernel *kernel, NstExpr condition)
{
    NstStmt *stmt = new_stmt(kernel, NST_STMT_IF);
    stmt->u.branch.condition = condition;
    return stmt;
}

NstStmt *nst_stmt_while(NstKernel *kernel)
{
    return new_stmt(kernel, NST_STMT_WHILE);
}

NstStmt *nst_stmt_break(NstKernel *kernel)
{
    return new_stmt(kernel, NST_STMT_BREAK);
}

NstStmt *nst_stmt_alloc(NstKernel *kernel, NstBuf buffer)
{
    NstStmt *stmt = new_stmt(kernel, NST_STMT_ALLOC);
    stmt->u.alloc.buffer = buffer;
    return stmt;
}

NstStmt *nst_stmt_prefetch(NstKernel *kernel, NstBuf buffer, const NstDim *index, uint32_t n_index, int level,
                           bool write)
{
    NstStmt *stmt = new_stmt(kernel, NST_STMT_PREFETCH);
    stmt->u.prefetch.buffer = buffer;
    stmt->u.prefetch.index = copy_index(kernel, index, n_index);
    stmt->u.prefetch.n_index = n_index;
    stmt->u.prefetch.level = level;
    stmt->u.prefetch.write = write;
    return stmt;
}

NstStmt *nst_stmt_barrier(NstKernel *kernel)
{
    return new_stmt(kernel, NST_STMT_BARRIER);
}

NstStmt *nst_stmt_assert(NstKernel *kernel, NstExpr condition, const char *message)
{
    uint32_t id = 0;
    while (id < kernel->messages.n && strcmp(kernel->messages.at[id], message) != 0) id++;
    if (id == kernel->messages.n) nst_vec_push(kernel->arena, &kernel->messages, nst_strdup(kernel->arena, message));
    NstStmt *stmt = new_stmt(kernel, NST_STMT_ASSERT);
    stmt->u.check.condition = condition;
    stmt->u.check.message = id;
    return stmt;
}

NstStmt *nst_stmt_call(NstKernel *kernel, uint32_t helper, const NstExpr *arg, uint32_t n_args, const NstBuf *buffer,
                       uint32_t n_buffers)
{
    NstStmt *stmt = new_stmt(kernel, NST_STMT_CALL);
    stmt->u.call.helper = helper;
    stmt->u.call.arg = nst_copy(kernel->arena, arg, n_args * sizeof *arg);
    stmt->u.call.n_args = n_args;
    stmt->u.call.buffer = nst_copy(kernel->arena, buffer, n_buffers * sizeof *buffer);
    stmt->u.call.n_buffers = n_buffers;
    return stmt;
}

NstStmt *nst_stmt_matrix(NstKernel *kernel, const NstMatrix *matrix)
{
    NstStmt *stmt = new_stmt(kernel, NST_STMT_MATRIX);
    stmt->u.matrix = *matrix;
    stmt->u.matrix.index = copy_index(kernel, matrix->index, matrix->n_index);
    return stmt;
}

NstBuf nst_matrix_written(const NstMatrix *matrix)
{
    return matrix->op == NST_MATRIX_STORE ? matrix->memory : matrix->matrix;
}

bool nst_matrix_shape(const NstKernel *kernel, NstBuf matrix, int64_t shape[2])
{
    const NstBuffer *buffer = nst_kernel_buffer(kernel, matrix);
    return buffer->rank == 2 && nst_dim_is_const(kernel->dims, buffer->shape[0], &shape[0]) &&
           nst_dim_is_const(kernel->dims, buffer->shape[1], &shape[1]);
}

void nst_matrix_index(const NstKernel *kernel, const NstMatrix *matrix, int64_t row, int64_t column, NstDim *index)
{
    int wide = nst_dtype_info(nst_kernel_buffer(kernel, matrix->matrix)->dtype)->bytes;
    int64_t elements = wide / nst_dtype_info(nst_kernel_buffer(kernel, matrix->memory)->dtype)->bytes;
    for (uint32_t k = 0; k < matrix->n_index; k++) {
        int64_t add = (int)k == matrix->row_axis ? row : (int)k == matrix->col_axis ? column * elements : 0;
        index[k] = nst_dim_add_const(kernel->dims, matrix->index[k], add);
    }
}

NstDim nst_matrix_stride(NstDims *dims, const NstLayout *layout, const NstMatrix *matrix, const NstDim *index)
{
    NstDim next[NST_MAX_RANK];
    memcpy(next, index, matrix->n_index * sizeof *next);
    next[matrix->row_axis] = nst_dim_add_const(dims, next[matrix->row_axis], 1);
    return nst_dim_sub(dims, nst_layout_offset(dims, layout, next), nst_layout_offset(dims, layout, index));
}

void nst_block_add(NstKernel *kernel, NstBlock *block, NstStmt *stmt)
{
    nst_vec_push(kernel->arena, block, stmt);
}

/* --- copies -------------------------------------------------------------------------------------------------- */

/* What a copy replaces.  Tables are indexed by the old id; none / 0 keeps. */
typedef struct Cloner {
    NstKernel *kernel; /* whose arena the copy lives in and whose tables get the fresh names */
    NstDim *sym_value; /* lent by the dims; NULL: nothing is replaced */
    uint32_t n_syms;
    NST_VEC(NstSym) replaced; /* what sym_value holds values for */
    bool fresh;
    bool renamed; /* a let or buffer has been given a new id */
    uint32_t *let_id, *buffer_id;
    uint32_t n_lets, n_buffers;
} Cloner;

static NstDim clone_dim(const Cloner *c, NstDim dim)
{
    if (c->sym_value == NULL || dim.i == 0) return dim;
    return nst_dim_subst_all(c->kernel->dims, dim, c->sym_value, c->n_syms);
}

static NstDim *clone_dims(const Cloner *c, const NstDim *dim, uint32_t n)
{
    NstDim *copy = NST_NEW_ARRAY(c->kernel->arena, NstDim, n);
    for (uint32_t k = 0; k < n; k++) copy[k] = clone_dim(c, dim[k]);
    return copy;
}

static NstBuf clone_buf(const Cloner *c, NstBuf buffer)
{
    bool known = c->renamed && buffer.i < c->n_buffers && c->buffer_id[buffer.i] != 0;
    return known ? (NstBuf){c->buffer_id[buffer.i]} : buffer;
}

static NstExpr rename_node(void *arg, NstExprs *exprs, NstExpr e)
{
    const Cloner *c = arg;
    const NstExprNode *node = nst_expr(exprs, e);
    if (node->op == NST_OP_LOAD) {
        NstBuf buffer = clone_buf(c, (NstBuf){node->ref});
        if (buffer.i != node->ref) return nst_expr_load(exprs, node->type, buffer, node->index, node->n_index);
    }
    if (node->op == NST_OP_LET && node->ref < c->n_lets && c->let_id[node->ref] != 0)
        return nst_expr_let(exprs, node->type, c->let_id[node->ref]);
    return (NstExpr){0};
}

static NstExpr clone_expr(Cloner *c, NstExpr e)
{
    if (e.i == 0) return e;
    if (c->sym_value != NULL) e = nst_expr_subst_syms(c->kernel->exprs, e, c->sym_value, c->n_syms);
    return c->renamed ? nst_expr_rewrite(c->kernel->exprs, e, rename_node, c) : e;
}

static void replace_sym(Cloner *c, NstSym sym, NstDim value)
{
    NST_ASSERT(sym.i < c->n_syms);
    c->sym_value[sym.i] = value;
    nst_vec_push(c->kernel->arena, &c->replaced, sym);
}

/* A symbol defined by a copied statement: itself, or a fresh one that stands for it from here on. */
static NstSym clone_sym(Cloner *c, NstSym sym, NstDim begin, NstDim end)
{
    if (!c->fresh) return sym;
    NstSym fresh = nst_kernel_index(c->kernel, nst_dims_sym(c->kernel->dims, sym)->name, begin, end);
    replace_sym(c, sym, nst_dim_sym(c->kernel->dims, fresh));
    return fresh;
}

static NstLayout clone_layout(const Cloner *c, const NstLayout *layout, int rank)
{
    NstArena *arena = c->kernel->arena;
    NstLayout copy = *layout;
    NstLayoutPart *part = nst_copy(arena, layout->parts, layout->n_parts * sizeof *part);
    for (uint32_t k = 0; k < layout->n_parts; k++) part[k].stride = clone_dim(c, part[k].stride);
    copy.parts = part;
    copy.offset = clone_dim(c, layout->offset);
    copy.elements = clone_dim(c, layout->elements);
    if (layout->halo != NULL) copy.halo = nst_copy(arena, layout->halo, (size_t)rank * sizeof *layout->halo);
    return copy;
}

static NstBuffer clone_buffer(const Cloner *c, const NstBuffer *buffer)
{
    NstBuffer copy = *buffer;
    copy.name = nst_strdup(c->kernel->arena, buffer->name);
    copy.shape = clone_dims(c, buffer->shape, (uint32_t)buffer->rank);
    copy.layout = clone_layout(c, &buffer->layout, buffer->rank);
    return copy;
}

static NstBuf clone_alloc(Cloner *c, NstBuf buffer)
{
    if (!c->fresh) return clone_buf(c, buffer);
    NstBuffer copy = clone_buffer(c, nst_kernel_buffer(c->kernel, buffer));
    nst_vec_push(c->kernel->arena, &c->kernel->buffers, copy);
    c->buffer_id[buffer.i] = c->kernel->buffers.n - 1;
    c->renamed = true;
    return (NstBuf){c->kernel->buffers.n - 1};
}

static uint32_t clone_let(Cloner *c, uint32_t id)
{
    if (!c->fresh) return id;
    NstLetInfo info = c->kernel->lets.at[id];
    nst_vec_push(c->kernel->arena, &c->kernel->lets, info);
    c->let_id[id] = c->kernel->lets.n - 1;
    c->renamed = true;
    return c->kernel->lets.n - 1;
}

static NstStmt *clone_stmt(Cloner *c, const NstStmt *stmt);

static NstBlock clone_block(Cloner *c, const NstBlock *block)
{
    NstBlock copy = {0};
    nst_vec_reserve(c->kernel->arena, &copy, block->n);
    for (uint32_t k = 0; k < block->n; k++) nst_block_add(c->kernel, &copy, clone_stmt(c, block->at[k]));
    return copy;
}

static void clone_for(Cloner *c, NstFor *loop)
{
    loop->begin = clone_dim(c, loop->begin);
    loop->end = clone_dim(c, loop->end);
    loop->var = clone_sym(c, loop->var, loop->begin, loop->end);
    loop->body = clone_block(c, &loop->body);
}

static void clone_store(Cloner *c, NstStore *store)
{
    store->index = clone_dims(c, store->index, store->n_index);
    store->target = nst_copy(c->kernel->arena, store->target, store->n_targets * sizeof *store->target);
    for (uint32_t k = 0; k < store->n_targets; k++) {
        store->target[k].buffer = clone_buf(c, store->target[k].buffer);
        store->target[k].value = clone_expr(c, store->target[k].value);
    }
}

static void clone_call(Cloner *c, NstStmt *stmt)
{
    NstArena *arena = c->kernel->arena;
    stmt->u.call.arg = nst_copy(arena, stmt->u.call.arg, stmt->u.call.n_args * sizeof(NstExpr));
    stmt->u.call.buffer = nst_copy(arena, stmt->u.call.buffer, stmt->u.call.n_buffers * sizeof(NstBuf));
    for (uint32_t k = 0; k < stmt->u.call.n_args; k++) stmt->u.call.arg[k] = clone_expr(c, stmt->u.call.arg[k]);
    for (uint32_t k = 0; k < stmt->u.call.n_buffers; k++) stmt->u.call.buffer[k] = clone_buf(c, stmt->u.call.buffer[k]);
}

static void clone_matrix(Cloner *c, NstMatrix *matrix)
{
    matrix->matrix = clone_buf(c, matrix->matrix);
    matrix->a = clone_buf(c, matrix->a);
    matrix->b = clone_buf(c, matrix->b);
    matrix->memory = clone_buf(c, matrix->memory);
    matrix->index = clone_dims(c, matrix->index, matrix->n_index);
}

static NstStmt *clone_stmt(Cloner *c, const NstStmt *stmt)
{
    NstStmt *copy = nst_copy(c->kernel->arena, stmt, sizeof *stmt);
    switch (stmt->kind) {
    case NST_STMT_FOR: clone_for(c, &copy->u.loop); break;
    case NST_STMT_WHILE: copy->u.repeat.body = clone_block(c, &stmt->u.repeat.body); break;
    case NST_STMT_IF:
        copy->u.branch.condition = clone_expr(c, stmt->u.branch.condition);
        copy->u.branch.then = clone_block(c, &stmt->u.branch.then);
        copy->u.branch.otherwise = clone_block(c, &stmt->u.branch.otherwise);
        break;
    case NST_STMT_LET:
        copy->u.let.value = clone_expr(c, stmt->u.let.value);
        copy->u.let.id = clone_let(c, stmt->u.let.id);
        break;
    case NST_STMT_INDEX:
        copy->u.index.value = clone_expr(c, stmt->u.index.value);
        copy->u.index.lo = clone_dim(c, stmt->u.index.lo);
        copy->u.index.hi = clone_dim(c, stmt->u.index.hi);
        copy->u.index.var = clone_sym(c, stmt->u.index.var, copy->u.index.lo, copy->u.index.hi);
        break;
    case NST_STMT_ALLOC: copy->u.alloc.buffer = clone_alloc(c, stmt->u.alloc.buffer); break;
    case NST_STMT_STORE: clone_store(c, &copy->u.store); break;
    case NST_STMT_PREFETCH:
        copy->u.prefetch.buffer = clone_buf(c, stmt->u.prefetch.buffer);
        copy->u.prefetch.index = clone_dims(c, stmt->u.prefetch.index, stmt->u.prefetch.n_index);
        break;
    case NST_STMT_CALL: clone_call(c, copy); break;
    case NST_STMT_MATRIX: clone_matrix(c, &copy->u.matrix); break;
    case NST_STMT_ASSERT: copy->u.check.condition = clone_expr(c, stmt->u.check.condition); break;
    case NST_STMT_BREAK:
    case NST_STMT_BARRIER: break;
    }
    return copy;
}

static Cloner begin_clone(NstKernel *kernel, const NstSymValue *replace, uint32_t n, bool fresh)
{
    NstArena *arena = kernel->arena;
    Cloner c = {.kernel = kernel, .fresh = fresh, .n_lets = kernel->lets.n, .n_buffers = kernel->buffers.n};
    if (n != 0 || fresh) c.sym_value = nst_dims_scratch(kernel->dims, &c.n_syms);
    for (uint32_t k = 0; k < n; k++) replace_sym(&c, replace[k].sym, replace[k].value);
    if (fresh) {
        c.let_id = NST_NEW_ARRAY(arena, uint32_t, c.n_lets);
        c.buffer_id = NST_NEW_ARRAY(arena, uint32_t, c.n_buffers);
    }
    return c;
}

static void end_clone(Cloner *c)
{
    if (c->sym_value == NULL) return;
    for (uint32_t k = 0; k < c->replaced.n; k++) c->sym_value[c->replaced.at[k].i] = (NstDim){0};
    nst_dims_scratch_return(c->kernel->dims);
}

NstStmt *nst_stmt_clone(NstKernel *kernel, const NstStmt *stmt, const NstSymValue *replace, uint32_t n, bool fresh)
{
    Cloner c = begin_clone(kernel, replace, n, fresh);
    NstStmt *copy = clone_stmt(&c, stmt);
    end_clone(&c);
    return copy;
}

NstBlock nst_block_clone(NstKernel *kernel, const NstBlock *block, const NstSymValue *replace, uint32_t n, bool fresh)
{
    Cloner c = begin_clone(kernel, replace, n, fresh);
    NstBlock copy = clone_block(&c, block);
    end_clone(&c);
    return copy;
}

void nst_block_splice(NstKernel *kernel, NstBlock *block, uint32_t at, uint32_t n_removed, NstStmt *const *stmt,
                      uint32_t n_inserted)
{
    NST_ASSERT(at <= block->n && n_removed <= block->n - at);
    NstBlock result = {0};
    nst_vec_reserve(kernel->arena, &result, block->n - n_removed + n_inserted);
    for (uint32_t k = 0; k < at; k++) nst_block_add(kernel, &result, block->at[k]);
    for (uint32_t k = 0; k < n_inserted; k++) nst_block_add(kernel, &result, stmt[k]);
    for (uint32_t k = at + n_removed; k < block->n; k++) nst_block_add(kernel, &result, block->at[k]);
    *block = result;
}

NstKernel *nst_kernel_clone(NstArena *arena, const NstKernel *kernel)
{
    NstKernel *copy = nst_kernel_new(arena, kernel->dims, kernel->exprs, kernel->origins, kernel->name);
    Cloner c = {.kernel = copy};
    for (uint32_t k = 1; k < kernel->buffers.n; k++)
        nst_vec_push(arena, &copy->buffers, clone_buffer(&c, &kernel->buffers.at[k]));
    for (uint32_t k = 1; k < kernel->lets.n; k++) {
        NstLetInfo info = {.name = nst_strdup(arena, kernel->lets.at[k].name), .type = kernel->lets.at[k].type};
        nst_vec_push(arena, &copy->lets, info);
    }
    for (uint32_t k = 0; k < kernel->params.n; k++) nst_vec_push(arena, &copy->params, kernel->params.at[k]);
    for (uint32_t k = 0; k < kernel->messages.n; k++)
        nst_vec_push(arena, &copy->messages, nst_strdup(arena, kernel->messages.at[k]));
    copy->n_args = kernel->n_args;
    copy->origin = kernel->origin;
    copy->body = clone_block(&c, &kernel->body);
    return copy;
}

/* --- walks --------------------------------------------------------------------------------------------------- */

void nst_stmt_visit_exprs(NstStmt *stmt, void (*visit)(void *arg, NstExpr *e), void *arg)
{
    switch (stmt->kind) {
    case NST_STMT_IF: visit(arg, &stmt->u.branch.condition); break;
    case NST_STMT_LET: visit(arg, &stmt->u.let.value); break;
    case NST_STMT_INDEX: visit(arg, &stmt->u.index.value); break;
    case NST_STMT_ASSERT: visit(arg, &stmt->u.check.condition); break;
    case NST_STMT_STORE:
        for (uint32_t k = 0; k < stmt->u.store.n_targets; k++) visit(arg, &stmt->u.store.target[k].value);
        break;
    case NST_STMT_CALL:
        for (uint32_t k = 0; k < stmt->u.call.n_args; k++) visit(arg, &stmt->u.call.arg[k]);
        break;
    case NST_STMT_FOR:
    case NST_STMT_WHILE:
    case NST_STMT_BREAK:
    case NST_STMT_ALLOC:
    case NST_STMT_PREFETCH:
    case NST_STMT_MATRIX:
    case NST_STMT_BARRIER: break;
    }
}

bool nst_block_has_loop(const NstBlock *block)
{
    for (uint32_t k = 0; k < block->n; k++) {
        const NstStmt *stmt = block->at[k];
        if (stmt->kind == NST_STMT_WHILE) return true;
        if (stmt->kind == NST_STMT_IF &&
            (nst_block_has_loop(&stmt->u.branch.then) || nst_block_has_loop(&stmt->u.branch.otherwise)))
            return true;
        if (stmt->kind != NST_STMT_FOR) continue;
        NstForKind kind = stmt->u.loop.kind;
        if (kind == NST_FOR_SERIAL || kind == NST_FOR_PARALLEL || nst_block_has_loop(&stmt->u.loop.body)) return true;
    }
    return false;
}

static void visit_block(NstBlock *block, void (*visit)(void *arg, NstStmt *stmt, int depth), void *arg, int depth)
{
    for (uint32_t k = 0; k < block->n; k++) {
        NstStmt *stmt = block->at[k];
        visit(arg, stmt, depth);
        if (stmt->kind == NST_STMT_FOR) visit_block(&stmt->u.loop.body, visit, arg, depth + 1);
        if (stmt->kind == NST_STMT_WHILE) visit_block(&stmt->u.repeat.body, visit, arg, depth + 1);
        if (stmt->kind == NST_STMT_IF) {
            visit_block(&stmt->u.branch.then, visit, arg, depth + 1);
            visit_block(&stmt->u.branch.otherwise, visit, arg, depth + 1);
        }
    }
}

void nst_block_visit(NstBlock *block, void (*visit)(void *arg, NstStmt *stmt, int depth), void *arg)
{
    visit_block(block, visit, arg, 0);
}
