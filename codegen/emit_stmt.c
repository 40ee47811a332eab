/* emit_stmt.c: blocks and all statements but loops. */
#include "codegen/emit.h"

/* --- branches ------------------------------------------------------------------------------------------------------ */

/* Emits one side of a branch into `block`; gives the block it ends in, NULL if control does not come out. */
static LLVMBasicBlockRef emit_side(NstEmit *e, LLVMBasicBlockRef block, const NstBlock *body, LLVMBasicBlockRef after,
                                   LLVMValueRef ***values)
{
    nst_emit_open(e, block);
    nst_emit_block(e, body);
    LLVMBasicBlockRef end = e->dead ? NULL : LLVMGetInsertBlock(e->llvm->builder);
    *values = nst_emit_tiles_save(e);
    if (end) LLVMBuildBr(e->llvm->builder, after);
    e->dead = false;
    nst_emit_close(e, after);
    return end;
}

void nst_emit_guarded(NstEmit *e, LLVMValueRef condition, const NstBlock *body)
{
    LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(e->llvm->builder), NULL};
    LLVMBasicBlockRef inside = nst_emit_new_block(e, "if"), after = nst_emit_new_block(e, "end");
    LLVMValueRef **values[2] = {nst_emit_tiles_save(e), NULL};
    LLVMBuildCondBr(e->llvm->builder, condition, inside, after);
    from[1] = emit_side(e, inside, body, after, &values[1]);
    if (from[1])
        nst_emit_tiles_merge(e, 2, from, values);
    else
        nst_emit_tiles_restore(e, values[0]);
}

static void emit_two_sides(NstEmit *e, LLVMValueRef condition, const NstBlock *then, const NstBlock *otherwise)
{
    LLVMBasicBlockRef yes = nst_emit_new_block(e, "then"), no = nst_emit_new_block(e, "else"), from[2];
    LLVMBasicBlockRef after = nst_emit_new_block(e, "end");
    LLVMValueRef **saved = nst_emit_tiles_save(e), **values[2];
    LLVMBuildCondBr(e->llvm->builder, condition, yes, no);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->llvm->builder);
    from[0] = emit_side(e, yes, then, after, &values[0]);
    nst_emit_tiles_restore(e, saved);
    LLVMPositionBuilderAtEnd(e->llvm->builder, here); /* what is hoisted from the other side goes before the branch */
    from[1] = emit_side(e, no, otherwise, after, &values[1]);
    if (from[0] && from[1]) {
        nst_emit_tiles_merge(e, 2, from, values);
    } else if (from[0] || from[1]) {
        nst_emit_tiles_restore(e, from[0] ? values[0] : values[1]);
    } else {
        LLVMBuildUnreachable(e->llvm->builder);
        e->dead = true;
    }
}

/* Lanes take different sides: each side runs under its mask if any lane takes it. */
static void emit_lane_branch(NstEmit *e, LLVMValueRef condition, const NstBlock *then, const NstBlock *otherwise)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMValueRef outer = e->lane.mask;
    uint32_t first = e->lane.first;
    e->lane.first = 0;
    e->lane_depth++;
    if (then->n) {
        e->lane.mask = outer ? LLVMBuildAnd(builder, outer, condition, "") : condition;
        nst_emit_guarded(e, nst_llvm_any(e->llvm, e->lane.mask), then);
    }
    if (otherwise->n) {
        LLVMValueRef inverse = LLVMBuildNot(builder, condition, "");
        e->lane.mask = outer ? LLVMBuildAnd(builder, outer, inverse, "") : inverse;
        nst_emit_guarded(e, nst_llvm_any(e->llvm, e->lane.mask), otherwise);
    }
    e->lane_depth--;
    e->lane.mask = outer;
    e->lane.first = first;
}

void nst_emit_if(NstEmit *e, const NstStmt *stmt)
{
    const NstBlock *then = &stmt->u.branch.then, *otherwise = &stmt->u.branch.otherwise;
    NstLanes condition = nst_emit_expr(e, stmt->u.branch.condition);
    if (e->status != NST_OK) return;
    if (condition.n > 1) {
        emit_lane_branch(e, condition.v, then, otherwise);
    } else if (LLVMIsAConstantInt(condition.v)) {
        e->choices++;
        nst_emit_block(e, LLVMConstIntGetZExtValue(condition.v) ? then : otherwise);
        e->choices--;
    } else if (otherwise->n == 0) {
        nst_emit_guarded(e, condition.v, then);
    } else {
        emit_two_sides(e, condition.v, then, otherwise);
    }
}

/* --- small statements ------------------------------------------------------------------------------------------------- */

/* Each time the statement is emitted (unrolled loops) the index gets a symbol of its own: what is known about addresses and
 * loaded values is kept by symbol. */
static void bind_index(NstEmit *e, NstSym var, LLVMValueRef value)
{
    const NstSymInfo *info = nst_dims_sym(e->dims, var);
    int64_t multiple = info->multiple;
    NstDim lo_dim = info->lo_dim, hi_dim = info->hi_dim;
    NstSym own = nst_dims_new_sym(e->dims, NST_SYM_INDEX, info->name, info->lo, info->hi);
    NstSymInfo *facts = nst_dims_sym(e->dims, own);
    facts->multiple = multiple;
    facts->lo_dim = lo_dim;
    facts->hi_dim = hi_dim;
    nst_emit_bind_value(e, own, value);
    nst_emit_bind_replacement(e, var, nst_dim_sym(e->dims, own));
}

static void emit_index(NstEmit *e, const NstStmt *stmt)
{
    LLVMBuilderRef builder = e->llvm->builder;
    NstLanes value = nst_emit_expr(e, stmt->u.index.value);
    if (e->status != NST_OK) return;
    if (stmt->u.index.checked) {
        NstDim lo = nst_emit_dim(e, stmt->u.index.lo), hi = nst_emit_dim(e, stmt->u.index.hi);
        LLVMValueRef low = nst_llvm_splat(e->llvm, nst_emit_size(e, lo), value.n);
        LLVMValueRef extent = nst_emit_size(e, nst_dim_sub(e->dims, hi, lo)), limit = nst_emit_size(e, hi);
        LLVMValueRef from_low = LLVMBuildSub(builder, value.v, low, "");
        LLVMValueRef wide = nst_llvm_splat(e->llvm, extent, value.n);
        LLVMValueRef bad = LLVMBuildICmp(builder, LLVMIntUGE, from_low, wide, "");
        if (value.n > 1 && e->lane.mask) bad = LLVMBuildAnd(builder, bad, e->lane.mask, "");
        nst_emit_stop_if(e, bad, NST_E_INDEX, value.v, limit);
    }
    bind_index(e, nst_emit_import_sym(e, stmt->u.index.var), value.v);
}

static void emit_assert(NstEmit *e, const NstStmt *stmt)
{
    NstLanes condition = nst_emit_expr(e, stmt->u.check.condition);
    if (e->status != NST_OK) return;
    LLVMValueRef bad = LLVMBuildNot(e->llvm->builder, condition.v, "");
    if (condition.n > 1 && e->lane.mask) bad = LLVMBuildAnd(e->llvm->builder, bad, e->lane.mask, "");
    LLVMValueRef message = nst_llvm_int(e->llvm->i64, stmt->u.check.message);
    nst_emit_stop_if(e, bad, NST_E_ASSERT, message, nst_llvm_int(e->llvm->i64, 0));
}

static void emit_store(NstEmit *e, const NstStmt *stmt)
{
    const NstStore *store = &stmt->u.store;
    NstDim index[NST_MAX_RANK];
    NstLanes *value = NST_NEW_ARRAY(e->arena, NstLanes, store->n_targets);
    for (uint32_t k = 0; k < store->n_targets; k++) value[k] = nst_emit_expr(e, store->target[k].value);
    for (uint32_t k = 0; k < store->n_index; k++) index[k] = nst_emit_dim(e, store->index[k]);
    for (uint32_t k = 0; k < store->n_targets && e->status == NST_OK; k++) {
        NstBuf buffer = store->target[k].buffer;
        if (nst_kernel_buffer(e->kernel, buffer)->space == NST_SPACE_REG)
            nst_emit_tile_write(e, buffer, index, value[k]);
        else
            nst_emit_store_memory(e, buffer, index, value[k]);
    }
}

static void emit_barrier(NstEmit *e)
{
    nst_emit_streams_end(e);
    LLVMValueRef arg[2] = {nst_emit_argument(e, offsetof(NstKernelArgs, barrier), e->llvm->ptr),
                           nst_emit_argument(e, offsetof(NstKernelArgs, threads), e->llvm->i32)};
    nst_emit_return_if(e, nst_emit_helper(e, NST_HELPER_barrier, arg, 2));
    nst_emit_forget(e);
}

/* Statements one kernel may grow to by unrolling: a hundred times the largest tile, some seconds of LLVM. */
#define MAX_EMITTED 65536

/* Statement `at` of a block, whose pieces of scratch begin at first_piece. */
static void emit_stmt(NstEmit *e, const NstBlock *block, uint32_t at, uint32_t first_piece)
{
    const NstStmt *stmt = block->at[at];
    if (++e->n_emitted > MAX_EMITTED) {
        nst_emit_fail(e, NST_E_LIMIT, "kernel '%s' unrolls to more than %d statements", e->kernel->name, MAX_EMITTED);
        return;
    }
    e->statement = nst_map_get(&e->statement_number, (uint64_t)(uintptr_t)stmt, 0);
    e->generation++;
    switch (stmt->kind) {
    case NST_STMT_FOR: nst_emit_for(e, stmt); break;
    case NST_STMT_WHILE: nst_emit_while(e, stmt); break;
    case NST_STMT_BREAK: nst_emit_break(e); break;
    case NST_STMT_IF: nst_emit_if(e, stmt); break;
    case NST_STMT_LET: e->let[stmt->u.let.id] = nst_emit_expr(e, stmt->u.let.value); break;
    case NST_STMT_INDEX: emit_index(e, stmt); break;
    case NST_STMT_ALLOC: nst_emit_alloc(e, block, at, first_piece); break;
    case NST_STMT_STORE: emit_store(e, stmt); break;
    case NST_STMT_PREFETCH: nst_emit_prefetch(e, stmt); break;
    case NST_STMT_CALL: nst_emit_call(e, stmt); break;
    case NST_STMT_MATRIX: nst_emit_matrix(e, stmt); break;
    case NST_STMT_BARRIER: emit_barrier(e); break;
    case NST_STMT_ASSERT: emit_assert(e, stmt); break;
    }
}

/* --- blocks ------------------------------------------------------------------------------------------------------------ */

/* A break that leaves a loop around the statement. */
static bool breaks_out(const NstBlock *block)
{
    for (uint32_t k = 0; k < block->n; k++) {
        const NstStmt *stmt = block->at[k];
        if (stmt->kind == NST_STMT_BREAK) return true;
        if (stmt->kind == NST_STMT_FOR && breaks_out(&stmt->u.loop.body)) return true;
        if (stmt->kind == NST_STMT_IF && (breaks_out(&stmt->u.branch.then) || breaks_out(&stmt->u.branch.otherwise)))
            return true;
    }
    return false;
}

/* Whether all threads run the statement although it is outside parallel loops. */
static bool runs_everywhere(NstStmt *stmt)
{
    if (stmt->kind == NST_STMT_LET || stmt->kind == NST_STMT_INDEX || stmt->kind == NST_STMT_ALLOC) return true;
    NstBlock one = {.at = &stmt, .n = 1, .cap = 1};
    return nst_emit_has_parallel(&one) || breaks_out(&one);
}

static void emit_alone(NstEmit *e, const NstBlock *statements)
{
    LLVMValueRef thread = nst_emit_argument(e, offsetof(NstKernelArgs, thread), e->llvm->i32);
    LLVMValueRef zero = nst_llvm_int(e->llvm->i32, 0);
    e->alone = true;
    nst_emit_guarded(e, LLVMBuildICmp(e->llvm->builder, LLVMIntEQ, thread, zero, ""), statements);
    e->alone = false;
}

static void close_buffers(NstEmit *e, const NstBlock *block)
{
    for (uint32_t k = 0; k < block->n; k++) {
        if (block->at[k]->kind != NST_STMT_ALLOC) continue;
        NstBuf buffer = block->at[k]->u.alloc.buffer;
        if (nst_kernel_buffer(e->kernel, buffer)->space == NST_SPACE_REG) nst_emit_tile_close(e, buffer);
    }
}

void nst_emit_block(NstEmit *e, const NstBlock *block)
{
    NstDim scratch = e->top[0], shared = e->top[1];
    uint32_t first_piece = e->pieces.n;
    bool guards = e->has_parallel && !e->in_parallel && !e->alone;
    for (uint32_t k = 0; k < block->n && !e->dead && e->status == NST_OK;) {
        uint32_t run = 0;
        while (guards && k + run < block->n && !runs_everywhere(block->at[k + run])) run++;
        if (run > 0) {
            NstBlock alone = {.at = block->at + k, .n = run, .cap = run};
            emit_alone(e, &alone);
            k += run;
        } else {
            emit_stmt(e, block, k++, first_piece);
        }
    }
    close_buffers(e, block);
    e->top[0] = scratch;
    e->top[1] = shared;
    e->pieces.n = first_piece;
}
