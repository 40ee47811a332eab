/* emit_loop.c: loops.
 *
 * Serial and parallel loops are rotated (tested at the end, a guard before where the trip count may be zero) and carry
 * the register tiles that their bodies store as phis.  Unrolled loops repeat the body; a vector loop is its body
 * with lanes. */
#include "codegen/emit.h"

/* An iteration of at least this many operations looks at the cancel flag each time: a look costs 3 instructions. */
#define POLL_OPERATIONS 1000
/* Loops of smaller iterations that may run for more operations than this (a millisecond) look once about so often. */
#define POLL_LONG 1000000
/* Trip count assumed for sizes that are not known, where work is estimated. */
#define POLL_TRIPS 64

/* --- what a block holds ----------------------------------------------------------------------------------------- */

static bool stmt_has_parallel(const NstStmt *stmt)
{
    switch (stmt->kind) {
    case NST_STMT_BARRIER: return true;
    case NST_STMT_FOR: return stmt->u.loop.kind == NST_FOR_PARALLEL || nst_emit_has_parallel(&stmt->u.loop.body);
    case NST_STMT_WHILE: return nst_emit_has_parallel(&stmt->u.repeat.body);
    case NST_STMT_IF:
        return nst_emit_has_parallel(&stmt->u.branch.then) || nst_emit_has_parallel(&stmt->u.branch.otherwise);
    default: return false;
    }
}

bool nst_emit_has_parallel(const NstBlock *block)
{
    for (uint32_t k = 0; k < block->n; k++)
        if (stmt_has_parallel(block->at[k])) return true;
    return false;
}

/* --- cancel ------------------------------------------------------------------------------------------------------- */

static double trips_of(NstEmit *e, const NstFor *loop)
{
    int64_t lo, hi;
    if (loop->kind == NST_FOR_VECTOR) return 1;
    NstDim begin = nst_emit_import_dim(e, loop->begin), end = nst_emit_import_dim(e, loop->end);
    nst_dim_bounds(e->dims, nst_dim_sub(e->dims, end, begin), &lo, &hi);
    if (hi <= 0) return 0;
    return hi == INT64_MAX ? POLL_TRIPS : (double)hi / (double)loop->step;
}

/* A matrix statement takes about as long as that many operations: 16 cycles for a product. */
#define MATRIX_WORK 16

static double work_of(NstEmit *e, const NstBlock *block)
{
    double work = 0;
    for (uint32_t k = 0; k < block->n; k++) {
        const NstStmt *stmt = block->at[k];
        if (stmt->kind == NST_STMT_FOR)
            work += trips_of(e, &stmt->u.loop) * work_of(e, &stmt->u.loop.body);
        else if (stmt->kind == NST_STMT_WHILE)
            work += POLL_TRIPS * work_of(e, &stmt->u.repeat.body);
        else if (stmt->kind == NST_STMT_IF)
            work += work_of(e, &stmt->u.branch.then) + work_of(e, &stmt->u.branch.otherwise);
        else if (stmt->kind == NST_STMT_STORE)
            for (uint32_t t = 0; t < stmt->u.store.n_targets; t++)
                work += 1 + nst_expr_cost(e->exprs, nst_emit_import_expr(e, stmt->u.store.target[t].value));
        else
            work += stmt->kind == NST_STMT_MATRIX ? MATRIX_WORK : 1;
    }
    return work;
}

/* Polls at the end of an iteration: always, about every POLL_LONG operations, or not at all (short loops: the loop
 * around them polls). */
static void poll_iteration(NstEmit *e, const NstFor *loop, LLVMValueRef var)
{
    int64_t lo, hi, span = 1;
    double work = work_of(e, &loop->body);
    if (work >= POLL_OPERATIONS) {
        nst_emit_poll_cancel(e);
        return;
    }
    NstDim begin = nst_emit_import_dim(e, loop->begin), end = nst_emit_import_dim(e, loop->end);
    nst_dim_bounds(e->dims, nst_dim_sub(e->dims, end, begin), &lo, &hi);
    if (hi != INT64_MAX && (double)hi / (double)loop->step * work < POLL_LONG) return;
    while (span < loop->step || (double)(2 * span) / (double)loop->step * work < POLL_LONG) span *= 2;
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMValueRef phase = LLVMBuildAnd(builder, var, nst_llvm_int(e->llvm->i64, span - 1), "");
    LLVMValueRef step = nst_llvm_int(e->llvm->i64, loop->step);
    LLVMBasicBlockRef look = nst_emit_new_block(e, "look"), go_on = nst_emit_new_block(e, "on");
    LLVMValueRef now = LLVMBuildICmp(builder, LLVMIntULT, phase, step, "");
    nst_llvm_unlikely(e->llvm, LLVMBuildCondBr(builder, now, look, go_on));
    LLVMPositionBuilderAtEnd(builder, look);
    nst_emit_poll_cancel(e);
    LLVMBuildBr(builder, go_on);
    LLVMPositionBuilderAtEnd(builder, go_on);
}

/* --- loops in machine code ------------------------------------------------------------------------------------------ */

typedef struct Frame {
    LLVMBasicBlockRef before, header, exit, latch;
    LLVMValueRef **saved; /* tiles before the loop */
    LLVMValueRef **phis;  /* tiles at the start of an iteration; NULL where not stored */
} Frame;

/* Opens the header with phis for the tiles that the body stores. */
static NstScope *open_header(NstEmit *e, Frame *frame, const NstBlock *body)
{
    uint32_t n = e->kernel->buffers.n;
    bool *stored = NST_NEW_ARRAY(e->arena, bool, n);
    nst_emit_tiles_stored(e, body, stored);
    NstScope *scope = nst_emit_open(e, frame->header);
    scope->header = frame->header;
    frame->phis = NST_NEW_ARRAY(e->arena, LLVMValueRef *, n);
    for (uint32_t k = 0; k < n; k++) {
        NstTile *tile = &e->tile[k];
        if (!tile->live || !stored[k]) continue;
        frame->phis[k] = NST_NEW_ARRAY(e->arena, LLVMValueRef, tile->n);
        for (uint32_t i = 0; i < tile->n; i++) {
            LLVMValueRef phi = LLVMBuildPhi(e->llvm->builder, tile->type, "");
            LLVMAddIncoming(phi, &tile->value[i], &frame->before, 1);
            frame->phis[k][i] = tile->value[i] = phi;
        }
    }
    return scope;
}

/* Joins the tiles' values at the end of an iteration to the header. */
static void close_latch(NstEmit *e, Frame *frame)
{
    frame->latch = LLVMGetInsertBlock(e->llvm->builder);
    for (uint32_t k = 0; k < e->kernel->buffers.n; k++)
        for (uint32_t i = 0; frame->phis[k] && i < e->tile[k].n; i++)
            LLVMAddIncoming(frame->phis[k][i], &e->tile[k].value[i], &frame->latch, 1);
}

static void end_iteration(NstEmit *e, Frame *frame, const NstFor *loop, LLVMValueRef var, LLVMValueRef end)
{
    LLVMBuilderRef builder = e->llvm->builder;
    poll_iteration(e, loop, var);
    close_latch(e, frame);
    nst_emit_step_cursors(e, frame->latch);
    LLVMValueRef next = LLVMBuildNSWAdd(builder, var, nst_llvm_int(e->llvm->i64, loop->step), "");
    LLVMValueRef again = LLVMBuildICmp(builder, LLVMIntSLT, next, end, "");
    LLVMBuildCondBr(builder, again, frame->header, frame->exit);
    LLVMAddIncoming(var, &next, &frame->latch, 1);
}

/* Iterations of an outermost loop around others up to which values known before it are computed where they are first used in
 * it: a kernel with code for many sizes of tiles keeps hundreds of them, and register allocation grows faster than their lives. */
#define FEW_TRIPS 8

static bool is_few(NstEmit *e, const NstFor *loop)
{
    NstDim trips = nst_dim_sub(e->dims, nst_emit_dim(e, loop->end), nst_emit_dim(e, loop->begin));
    int64_t lo, hi;
    nst_dim_bounds(e->dims, trips, &lo, &hi);
    return e->scopes.n == 2 && hi <= FEW_TRIPS && nst_block_has_loop(&loop->body);
}

/* The value of the loop's variable at `counter` if it runs from end to begin where `backwards`, else from begin to end. */
static LLVMValueRef turned(NstEmit *e, const NstFor *loop, LLVMValueRef counter, LLVMValueRef first, LLVMValueRef last,
                           LLVMValueRef backwards)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMValueRef ends = LLVMBuildNSWAdd(builder, first, last, "");
    ends = LLVMBuildNSWSub(builder, ends, nst_llvm_int(e->llvm->i64, loop->step), "");
    return LLVMBuildSelect(builder, backwards, LLVMBuildNSWSub(builder, ends, counter, ""), counter, "");
}

/* begin <= var < end, for bounds with values in the current scope; `backwards` (none: never): a flag, true where the
 * iterations run in reverse order, of which they must be a whole number. */
static void counted_loop(NstEmit *e, const NstFor *loop, NstSym var, NstDim begin, NstDim end, LLVMValueRef backwards)
{
    LLVMBuilderRef builder = e->llvm->builder;
    bool guarded = nst_dim_compare(e->dims, begin, NST_DIM_LT, end) != NST_TRUE;
    LLVMValueRef first = nst_emit_size(e, begin), last = nst_emit_size(e, end);
    Frame frame = {.before = LLVMGetInsertBlock(builder),
                   .header = nst_emit_new_block(e, "loop"),
                   .exit = nst_emit_new_block(e, "done"),
                   .saved = nst_emit_tiles_save(e)};
    if (guarded)
        LLVMBuildCondBr(builder, LLVMBuildICmp(builder, LLVMIntSLT, first, last, ""), frame.header, frame.exit);
    else
        LLVMBuildBr(builder, frame.header);
    NstScope *scope = open_header(e, &frame, &loop->body);
    scope->var = var;
    scope->begin = begin;
    scope->step = loop->step;
    scope->has_cursors = !nst_block_has_loop(&loop->body) && !backwards;
    scope->body = &loop->body;
    scope->is_sure = !guarded;
    scope->is_few = is_few(e, loop);
    LLVMValueRef counter = LLVMBuildPhi(builder, e->llvm->i64, "");
    LLVMAddIncoming(counter, &first, &frame.before, 1);
    nst_emit_bind_value(e, var, backwards ? turned(e, loop, counter, first, last, backwards) : counter);
    nst_emit_block(e, &loop->body);
    bool body_dead = e->dead;
    e->dead = false;
    if (!body_dead) end_iteration(e, &frame, loop, counter, last);
    LLVMValueRef **after = nst_emit_tiles_save(e);
    nst_emit_close(e, frame.exit);
    if (!body_dead && guarded) {
        LLVMBasicBlockRef from[2] = {frame.before, frame.latch};
        LLVMValueRef **values[2] = {frame.saved, after};
        nst_emit_tiles_merge(e, 2, from, values);
    } else if (guarded) {
        nst_emit_tiles_restore(e, frame.saved);
    } else if (body_dead) {
        LLVMBuildUnreachable(builder);
        e->dead = true;
    }
}

static void emit_serial(NstEmit *e, const NstFor *loop)
{
    NstDim begin = nst_emit_dim(e, loop->begin), end = nst_emit_dim(e, loop->end);
    NstSym var = nst_emit_import_sym(e, loop->var);
    int64_t trips = -1;
    if (nst_dim_is_const(e->dims, nst_dim_sub(e->dims, end, begin), &trips) && trips <= 0) return;
    if (trips > 0 && trips <= loop->step) {
        nst_emit_bind_replacement(e, var, begin);
        nst_emit_block(e, &loop->body);
        nst_emit_bind_replacement(e, var, (NstDim){0});
        return;
    }
    nst_emit_bind_replacement(e, var, (NstDim){0});
    const NstFor *around = e->serial;
    if (!e->in_parallel) e->serial = loop;
    counted_loop(e, loop, var, begin, end, NULL);
    e->serial = around;
}

/* --- parallel ------------------------------------------------------------------------------------------------------------ */

static NstDim bind_bound(NstEmit *e, const char *name, NstDim lo, NstDim hi, LLVMValueRef value)
{
    int64_t lowest, highest, unused;
    nst_dim_bounds(e->dims, lo, &lowest, &unused);
    nst_dim_bounds(e->dims, hi, &unused, &highest);
    NstSym sym = nst_dims_new_sym(e->dims, NST_SYM_INDEX, name, lowest, highest);
    nst_emit_bind_value(e, sym, value);
    return nst_dim_sym(e->dims, sym);
}

/* In a serial loop a thread takes its iterations there and back: what one round of it read last, the next reads first, so that
 * data of more than the cache (a recurrent layer's weights) do not push each other out of it in turn (1 MB of weights, read 100
 * times: 1,124 us, there and back 977; AMD Zen 4, 1 MB of L2, 2026-11).  The flag that says it is on its way back; NULL: one way. */
static LLVMValueRef on_the_way_back(NstEmit *e, const NstFor *loop)
{
    LLVMBuilderRef builder = e->llvm->builder;
    if (!e->serial || !nst_block_has_loop(&loop->body))
        return NULL; /* an innermost loop's addresses run with its variable */
    LLVMValueRef round = nst_emit_size(e, nst_dim_sym(e->dims, nst_emit_import_sym(e, e->serial->var)));
    round = LLVMBuildUDiv(builder, round, nst_llvm_int(e->llvm->i64, e->serial->step), "");
    return LLVMBuildTrunc(builder, round, e->llvm->i1, "");
}

/* Iterations are dealt in contiguous ranges of q or q + 1: thread t runs from t * q + min(t, r). */
static void emit_parallel(NstEmit *e, const NstFor *loop)
{
    LLVMBuilderRef builder = e->llvm->builder;
    NstDim begin = nst_emit_dim(e, loop->begin), end = nst_emit_dim(e, loop->end);
    NstDim extent = nst_dim_max(e->dims, nst_dim_sub(e->dims, end, begin), nst_dim_const(e->dims, 0));
    LLVMValueRef trips = nst_emit_size(e, nst_dim_ceildiv(e->dims, extent, nst_dim_const(e->dims, loop->step)));
    LLVMTypeRef i64 = e->llvm->i64, i32 = e->llvm->i32;
    LLVMValueRef thread = nst_emit_argument(e, offsetof(NstKernelArgs, thread), i32);
    LLVMValueRef threads = nst_emit_argument(e, offsetof(NstKernelArgs, threads), i32);
    thread = LLVMBuildZExt(builder, thread, i64, "");
    threads = LLVMBuildZExt(builder, threads, i64, "");
    LLVMValueRef quotient = LLVMBuildUDiv(builder, trips, threads, "");
    LLVMValueRef rest = LLVMBuildSub(builder, trips, LLVMBuildMul(builder, quotient, threads, ""), "");
    LLVMValueRef more = LLVMBuildICmp(builder, LLVMIntULT, thread, rest, "");
    LLVMValueRef skip = LLVMBuildSelect(builder, more, thread, rest, "");
    LLVMValueRef from = LLVMBuildAdd(builder, LLVMBuildMul(builder, thread, quotient, ""), skip, "");
    LLVMValueRef to = LLVMBuildAdd(builder, from, quotient, "");
    to = LLVMBuildAdd(builder, to, LLVMBuildZExt(builder, more, i64, ""), "");
    LLVMValueRef step = nst_llvm_int(i64, loop->step), start = nst_emit_size(e, begin);
    from = LLVMBuildAdd(builder, start, LLVMBuildMul(builder, from, step, ""), "");
    to = LLVMBuildAdd(builder, start, LLVMBuildMul(builder, to, step, ""), "");
    NstSym var = nst_emit_import_sym(e, loop->var);
    nst_emit_bind_replacement(e, var, (NstDim){0});
    NstDim last = nst_dim_add_const(e->dims, end, loop->step);
    NstDim lo = bind_bound(e, "from", begin, last, from), hi = bind_bound(e, "to", begin, last, to);
    e->in_parallel = true;
    counted_loop(e, loop, var, lo, hi, on_the_way_back(e, loop));
    e->in_parallel = false;
}

/* --- unrolled and vector loops ------------------------------------------------------------------------------------------------ */

static void emit_unrolled(NstEmit *e, const NstFor *loop)
{
    NstDim begin = nst_emit_dim(e, loop->begin), end = nst_emit_dim(e, loop->end);
    NstSym var = nst_emit_import_sym(e, loop->var);
    int64_t extent;
    if (!nst_dim_is_const(e->dims, nst_dim_sub(e->dims, end, begin), &extent) || extent > 4096) {
        nst_emit_fail(e, NST_E_VERIFY, "unrolled loop over '%s' of kernel '%s' has no small constant trip count",
                      nst_dims_sym(e->dims, var)->name, e->kernel->name);
        return;
    }
    NstUnrolled unrolled = {loop, var, begin, (extent + loop->step - 1) / loop->step, 0, e->scopes.n, e->choices};
    nst_vec_push(e->arena, &e->unrolled, unrolled);
    for (int64_t at = 0; at < extent && e->status == NST_OK && !e->dead; at += loop->step) {
        nst_emit_bind_replacement(e, var, nst_dim_add_const(e->dims, begin, at));
        nst_emit_block(e, &loop->body);
        e->unrolled.at[e->unrolled.n - 1].at++;
    }
    e->unrolled.n--;
    nst_emit_bind_replacement(e, var, (NstDim){0});
}

/* One symbol a width, so that equal vector loops have equal addresses. */
static NstSym lane_symbol(NstEmit *e, uint32_t width)
{
    for (uint32_t k = 0; k < e->lane_syms.n; k++)
        if (nst_dims_sym(e->dims, e->lane_syms.at[k])->hi == (int64_t)width - 1) return e->lane_syms.at[k];
    NstSym sym = nst_dims_new_sym(e->dims, NST_SYM_INDEX, "lane", 0, (int64_t)width - 1);
    nst_vec_push(e->arena, &e->lane_syms, sym);
    return sym;
}

static void emit_vector(NstEmit *e, const NstFor *loop)
{
    if (e->lane.n > 1 || loop->width > 256) {
        nst_emit_fail(e, NST_E_UNSUPPORTED, "kernel '%s': vector loop of %lld lanes %s", e->kernel->name,
                      (long long)loop->width, e->lane.n > 1 ? "inside another" : "(at most 256)");
        return;
    }
    NstDims *dims = e->dims;
    NstDim begin = nst_emit_dim(e, loop->begin), end = nst_emit_dim(e, loop->end);
    NstSym var = nst_emit_import_sym(e, loop->var);
    NstDim width = nst_dim_const(dims, loop->width), one = nst_dim_const(dims, 1);
    NstDim count = nst_dim_ceildiv(dims, nst_dim_sub(dims, end, begin), nst_dim_const(dims, loop->step));
    NstDim at = begin;
    bool is_full = nst_dim_compare(dims, count, NST_DIM_GE, width) == NST_TRUE;
    bool is_some = is_full || nst_dim_compare(dims, count, NST_DIM_GE, one) == NST_TRUE;
    if (loop->width > 1) {
        e->lane.n = (uint32_t)loop->width;
        e->lane.sym = lane_symbol(e, e->lane.n);
        e->lane.mask = is_full ? NULL : nst_emit_lane_mask(e, count, e->lane.n);
        int64_t known;
        bool is_known = nst_dim_is_const(dims, count, &known) && known > 0 && known < loop->width;
        e->lane.first = is_full ? e->lane.n : is_known ? (uint32_t)known : 0;
        at = nst_dim_add(dims, begin, nst_dim_mul_const(dims, nst_dim_sym(dims, e->lane.sym), loop->step));
    }
    nst_emit_bind_replacement(e, var, at);
    e->lane_depth++;
    if (is_some) {
        nst_emit_block(e, &loop->body);
    } else {
        LLVMValueRef zero = nst_llvm_int(e->llvm->i64, 0);
        LLVMValueRef some = LLVMBuildICmp(e->llvm->builder, LLVMIntSGT, nst_emit_size(e, count), zero, "");
        nst_emit_guarded(e, some, &loop->body);
    }
    e->lane_depth--;
    nst_emit_bind_replacement(e, var, (NstDim){0});
    e->lane = (NstLaneState){.n = 1};
}

void nst_emit_for(NstEmit *e, const NstStmt *stmt)
{
    const NstFor *loop = &stmt->u.loop;
    switch (loop->kind) {
    case NST_FOR_UNROLL: emit_unrolled(e, loop); return;
    case NST_FOR_VECTOR: emit_vector(e, loop); return;
    case NST_FOR_PARALLEL:
        if (!e->in_parallel && !e->alone) {
            emit_parallel(e, loop);
            return;
        }
        break;
    case NST_FOR_SERIAL: break;
    }
    emit_serial(e, loop);
}

/* --- while ---------------------------------------------------------------------------------------------------------------- */

void nst_emit_while(NstEmit *e, const NstStmt *stmt)
{
    Frame frame = {.before = LLVMGetInsertBlock(e->llvm->builder),
                   .header = nst_emit_new_block(e, "repeat"),
                   .exit = nst_emit_new_block(e, "left")};
    NstRepeat repeat = {.exit = frame.exit, .lane_depth = e->lane_depth}, *outer = e->repeat;
    LLVMBuildBr(e->llvm->builder, frame.header);
    open_header(e, &frame, &stmt->u.repeat.body);
    e->repeat = &repeat;
    nst_emit_block(e, &stmt->u.repeat.body);
    e->repeat = outer;
    if (!e->dead) {
        nst_emit_poll_cancel(e);
        close_latch(e, &frame);
        LLVMBuildBr(e->llvm->builder, frame.header);
    }
    nst_emit_close(e, frame.exit);
    e->dead = repeat.leaves.n == 0;
    if (e->dead) {
        LLVMBuildUnreachable(e->llvm->builder);
        return;
    }
    LLVMBasicBlockRef *from = NST_NEW_ARRAY(e->arena, LLVMBasicBlockRef, repeat.leaves.n);
    LLVMValueRef ***values = NST_NEW_ARRAY(e->arena, LLVMValueRef **, repeat.leaves.n);
    for (uint32_t k = 0; k < repeat.leaves.n; k++) {
        from[k] = repeat.leaves.at[k].block;
        values[k] = repeat.leaves.at[k].tile_value;
    }
    nst_emit_tiles_merge(e, repeat.leaves.n, from, values);
}

void nst_emit_break(NstEmit *e)
{
    if (!e->repeat || e->repeat->lane_depth != e->lane_depth) {
        nst_emit_fail(e, e->repeat ? NST_E_UNSUPPORTED : NST_E_VERIFY, "kernel '%s': break %s", e->kernel->name,
                      e->repeat ? "of single lanes out of a while" : "outside a while");
        return;
    }
    NstLeave leave = {LLVMGetInsertBlock(e->llvm->builder), nst_emit_tiles_save(e)};
    nst_vec_push(e->arena, &e->repeat->leaves, leave);
    LLVMBuildBr(e->llvm->builder, e->repeat->exit);
    e->dead = true;
}
