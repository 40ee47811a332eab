/* emit_alloc.c: where the local buffers of a kernel lie.
 *
 * Memory is taken at an alloc and given back at the end of its block.  Within a block, scratch that no later statement touches is
 * taken again by an alloc that it is provably large enough for: a kernel of many members needs the memory of those that are alive. */
#include "codegen/emit.h"

/* --- last uses --------------------------------------------------------------------------------------------------- */

typedef struct TouchVisit {
    NstEmit *e;
    NstBuf buffer;
    bool found;
} TouchVisit;

static void visit_load(void *arg, NstExpr e, const NstExprNode *node)
{
    TouchVisit *v = arg;
    (void)e;
    v->found |= node->op == NST_OP_LOAD && node->ref == v->buffer.i;
}

static void visit_value(void *arg, NstExpr *value)
{
    TouchVisit *v = arg;
    if (value->i && !v->found) nst_expr_visit(v->e->exprs, nst_emit_copy_expr(v->e, *value), visit_load, v);
}

static void visit_stmt(void *arg, NstStmt *stmt, int depth)
{
    TouchVisit *v = arg;
    (void)depth;
    nst_stmt_visit_exprs(stmt, visit_value, v);
    for (uint32_t k = 0; stmt->kind == NST_STMT_STORE && k < stmt->u.store.n_targets; k++)
        v->found |= stmt->u.store.target[k].buffer.i == v->buffer.i;
    for (uint32_t k = 0; stmt->kind == NST_STMT_CALL && k < stmt->u.call.n_buffers; k++)
        v->found |= stmt->u.call.buffer[k].i == v->buffer.i;
    if (stmt->kind == NST_STMT_MATRIX) v->found |= stmt->u.matrix.memory.i == v->buffer.i;
    if (stmt->kind == NST_STMT_PREFETCH) v->found |= stmt->u.prefetch.buffer.i == v->buffer.i;
}

/* The last statement of the block that touches what its statement `at` allocates. */
static uint32_t last_use(NstEmit *e, const NstBlock *block, uint32_t at)
{
    TouchVisit v = {e, block->at[at]->u.alloc.buffer, false};
    uint32_t last = block->n;
    while (--last > at) {
        NstBlock one = {.at = block->at + last, .n = 1, .cap = 1};
        nst_block_visit(&one, visit_stmt, &v);
        if (v.found) break;
    }
    return last;
}

/* --- places ------------------------------------------------------------------------------------------------------ */

/* Bytes a SCRATCH or SHARED buffer takes, rounded up to lines; over params alone. */
static NstDim storage_of(NstEmit *e, NstBuf buffer)
{
    const NstBuffer *info = nst_kernel_buffer(e->kernel, buffer);
    NstDim elements = nst_emit_replace(e, e->layout[buffer.i].elements);
    NstDim bytes = nst_dim_mul_const(e->dims, elements, nst_dtype_info(info->dtype)->bytes);
    for (uint32_t k = 1; k <= nst_dims_sym_count(e->dims); k++) {
        NstSym sym = {k};
        if (nst_emit_binding(e, sym)->scope == 0 || !nst_dim_uses(e->dims, bytes, sym)) continue;
        int64_t lo, hi;
        nst_dim_bounds(e->dims, bytes, &lo, &hi);
        if (hi == INT64_MAX) {
            nst_emit_fail(e, NST_E_UNSUPPORTED, "size of buffer '%s' of kernel '%s' depends on loop variable '%s'",
                          info->name, e->kernel->name, nst_dims_sym(e->dims, sym)->name);
            hi = 0;
        }
        bytes = nst_dim_const(e->dims, hi);
    }
    return nst_dim_mul_const(e->dims, nst_dim_ceildiv(e->dims, bytes, nst_dim_const(e->dims, 64)), 64);
}

/* The smallest piece of the block's scratch that is free from statement `at` on and large enough; NULL: none. */
static NstScratchPiece *free_piece(NstEmit *e, uint32_t first, uint32_t at, NstDim bytes)
{
    NstScratchPiece *best = NULL;
    for (uint32_t k = first; k < e->pieces.n; k++) {
        NstScratchPiece *piece = &e->pieces.at[k];
        if (piece->last >= at || nst_dim_compare(e->dims, piece->bytes, NST_DIM_GE, bytes) != NST_TRUE) continue;
        if (!best || nst_dim_compare(e->dims, piece->bytes, NST_DIM_LT, best->bytes) == NST_TRUE) best = piece;
    }
    return best;
}

static void place_scratch(NstEmit *e, const NstBlock *block, uint32_t at, uint32_t first_piece)
{
    NstBuf buffer = block->at[at]->u.alloc.buffer;
    NstDim bytes = storage_of(e, buffer);
    NstScratchPiece *piece = free_piece(e, first_piece, at, bytes);
    if (!piece) {
        nst_vec_push(e->arena, &e->pieces, ((NstScratchPiece){.at = e->top[0], .bytes = bytes}));
        piece = &e->pieces.at[e->pieces.n - 1];
        e->top[0] = nst_dim_add(e->dims, e->top[0], bytes);
    }
    piece->last = last_use(e, block, at);
    e->memory_at[buffer.i] = piece->at;
}

void nst_emit_alloc(NstEmit *e, const NstBlock *block, uint32_t at, uint32_t first_piece)
{
    NstBuf buffer = block->at[at]->u.alloc.buffer;
    const NstBuffer *info = nst_kernel_buffer(e->kernel, buffer);
    if (info->space == NST_SPACE_REG) {
        nst_emit_tile_open(e, buffer);
        return;
    }
    if (info->space == NST_SPACE_MATRIX) return; /* numbered ahead */
    if (e->lane.n > 1) {
        nst_emit_fail(e, NST_E_UNSUPPORTED, "buffer '%s' of kernel '%s': memory private to lanes of a vector loop",
                      info->name, e->kernel->name);
        return;
    }
    if (info->space == NST_SPACE_SHARED) { /* another thread may still be at what was there before */
        e->memory_at[buffer.i] = e->top[1];
        e->top[1] = nst_dim_add(e->dims, e->top[1], storage_of(e, buffer));
    } else {
        place_scratch(e, block, at, first_piece);
    }
    for (int kind = 0; kind < 2; kind++) e->most[kind] = nst_dim_max(e->dims, e->most[kind], e->top[kind]);
    nst_emit_forget_buffer(e, buffer);
}
