/* verify_loop.c: checks a kernel against the rules of loop.h, numbered in verify.def.
 *
 * One walk in program order keeps what is in scope: symbols with how they vary, lets, buffers with where they live.  The
 * first broken rule is reported.  Cost: linear in the statements and the distinct nodes of each statement's expressions,
 * plus the prover's steps for bounds. */
#include "ir/verify_impl.h"

#include "ir/abi.h"

#define MAX_UNROLL 256
#define MAX_WIDTH  256
#define MAX_REG    4096

/* --- statements ---------------------------------------------------------------------------------------------- */

static NstStatus check_block(NstVerifier *v, const NstBlock *block);

static bool is_no_param(const NstVerifier *v, NstSym sym)
{
    return v->sym[sym.i] != SYM_PARAM;
}

/* True if some index keeps lanes apart: linear in the lane variable with a stride that no loop changes (it could be 0 there);
 * unless `itself` is asked for, also any other function of what differs by lane. */
static bool is_indexed_by_lane(NstVerifier *v, const NstStore *store, bool itself)
{
    NstDims *dims = v->kernel->dims;
    for (uint32_t k = 0; k < store->n_index; k++) {
        NstDim coef, rest, index = store->index[k];
        bool uses = nst_dim_uses(dims, index, v->vector->var);
        if (uses && nst_dim_linear(dims, index, v->vector->var, &coef, &rest)) {
            if (!nst_verify_any_sym(v, coef, is_no_param)) return true;
        } else if (!itself && nst_verify_any_sym(v, index, nst_verify_is_by_lane)) {
            return true;
        }
    }
    return false;
}

static NstStatus check_target(NstVerifier *v, const NstStore *store, const NstStoreTarget *target)
{
    NST_TRY(nst_verify_access(v, target->buffer, store->index, store->n_index));
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, target->buffer);
    if (buffer->space == NST_SPACE_ARG && buffer->access == NST_ACCESS_IN)
        return nst_verify_broken(v, 12, "argument '%s' is written", buffer->name);
    NST_TRY(nst_verify_expr(v, target->value, buffer->dtype, "the stored value"));
    if (v->vector != NULL && !is_indexed_by_lane(v, store, store->update))
        return nst_verify_broken(v, 21, "%s '%s'", store->update ? "update of" : "store to", buffer->name);
    return nst_verify_parallel_store(v, target->buffer, store->index, store->n_index);
}

static NstStatus check_store(NstVerifier *v, const NstStore *store)
{
    if (store->n_targets == 0) return nst_verify_broken(v, 13, "no target");
    for (uint32_t k = 0; k < store->n_targets; k++) {
        NST_TRY(check_target(v, store, &store->target[k]));
        for (uint32_t m = 0; m < k; m++)
            if (store->target[m].buffer.i == store->target[k].buffer.i)
                return nst_verify_broken(v, 13, "buffer '%s' twice",
                                         nst_verify_buffer_name(v, store->target[k].buffer));
    }
    for (uint32_t k = 0; store->update && k < store->n_targets; k++)
        NST_TRY(nst_verify_merge(v, store, &store->target[k]));
    return NST_OK;
}

/* True if end - begin is provably at most so much: where end is a least value, one of those that it is the least of is enough, which
 * the prover's budget does not always come to. */
static bool is_at_most(NstDims *dims, NstDim begin, NstDim end, int64_t most)
{
    if (nst_dim_compare(dims, nst_dim_sub(dims, end, begin), NST_DIM_LE, nst_dim_const(dims, most)) == NST_TRUE)
        return true;
    uint32_t n = nst_dim_node(dims, end)->op == NST_DIM_MIN ? nst_dim_node(dims, end)->n : 0;
    for (uint32_t k = 0; k < n; k++)
        if (is_at_most(dims, begin, nst_dim_node(dims, end)->arg[k], most)) return true;
    return false;
}

static NstStatus check_trip_count(NstVerifier *v, const NstFor *loop)
{
    NstDims *dims = v->kernel->dims;
    NstDim length = nst_dim_sub(dims, loop->end, loop->begin);
    int64_t n;
    if (loop->kind == NST_FOR_UNROLL && (!nst_dim_is_const(dims, length, &n) || n > MAX_UNROLL * loop->step))
        return nst_verify_broken(v, 17, "from %s to %s by %lld", nst_verify_dim_text(v, loop->begin),
                                 nst_verify_dim_text(v, loop->end), (long long)loop->step);
    if (loop->kind != NST_FOR_VECTOR) return NST_OK;
    bool fits = loop->width >= 1 && loop->width <= MAX_WIDTH && loop->step <= INT32_MAX &&
                is_at_most(dims, loop->begin, loop->end, loop->width * loop->step);
    if (!fits)
        return nst_verify_broken(v, 18, "from %s to %s by %lld, width %lld", nst_verify_dim_text(v, loop->begin),
                                 nst_verify_dim_text(v, loop->end), (long long)loop->step, (long long)loop->width);
    return NST_OK;
}

static NstStatus check_known_bounds(NstVerifier *v, NstSym var, NstDim begin, NstDim end)
{
    NstDims *dims = v->kernel->dims;
    const NstSymInfo *info = nst_dims_sym(dims, var);
    NstDim last = nst_dim_add_const(dims, end, -1);
    if (info->kind != NST_SYM_INDEX) return nst_verify_broken(v, 1, "'%s' is no index variable", info->name);
    if (nst_dim_compare(dims, begin, NST_DIM_GE, end) == NST_TRUE) return NST_OK; /* never runs */
    bool wrong = (info->lo_dim.i != 0 && nst_dim_compare(dims, begin, NST_DIM_LT, info->lo_dim) == NST_TRUE) ||
                 (info->hi_dim.i != 0 && nst_dim_compare(dims, last, NST_DIM_GT, info->hi_dim) == NST_TRUE);
    int64_t value;
    wrong = wrong || (nst_dim_is_const(dims, begin, &value) && value < info->lo);
    wrong = wrong || (nst_dim_is_const(dims, last, &value) && value > info->hi);
    if (wrong)
        return nst_verify_broken(v, 32, "'%s' from %s to %s", info->name, nst_verify_dim_text(v, begin),
                                 nst_verify_dim_text(v, end));
    return NST_OK;
}

static NstStatus check_for_place(NstVerifier *v, const NstFor *loop)
{
    if (v->vector != NULL && (loop->kind == NST_FOR_VECTOR || loop->kind == NST_FOR_PARALLEL))
        return nst_verify_broken(v, 19, "%s loop '%s'", nst_for_text(loop->kind), nst_verify_sym_name(v, loop->var.i));
    if (v->vector != NULL && (nst_verify_any_sym(v, loop->begin, nst_verify_is_by_lane) ||
                              nst_verify_any_sym(v, loop->end, nst_verify_is_by_lane)))
        return nst_verify_broken(v, 20, "loop '%s' from %s to %s", nst_verify_sym_name(v, loop->var.i),
                                 nst_verify_dim_text(v, loop->begin), nst_verify_dim_text(v, loop->end));
    if (v->parallel != 0 && loop->kind == NST_FOR_PARALLEL)
        return nst_verify_broken(v, 26, "parallel loop '%s'", nst_verify_sym_name(v, loop->var.i));
    return NST_OK;
}

static NstStatus check_for(NstVerifier *v, const NstFor *loop)
{
    static const NstVerifySym state[] = {SYM_SERIAL, SYM_PARALLEL, SYM_VECTOR, SYM_UNROLL};
    if (loop->kind > NST_FOR_UNROLL || loop->step < 1)
        return nst_verify_broken(v, 1, "step %lld", (long long)loop->step);
    NST_TRY(nst_verify_dim(v, loop->begin));
    NST_TRY(nst_verify_dim(v, loop->end));
    NST_TRY(check_for_place(v, loop));
    NST_TRY(check_trip_count(v, loop));
    bool by_iteration = nst_verify_any_sym(v, loop->begin, nst_verify_is_by_iteration) ||
                        nst_verify_any_sym(v, loop->end, nst_verify_is_by_iteration);
    uint32_t mark = v->scope.n, parallel = v->parallel;
    const NstFor *vector = v->vector;
    bool in_while = v->in_while, once = v->parallel_once;
    NST_TRY(nst_verify_define_sym(v, loop->var, state[loop->kind]));
    NST_TRY(check_known_bounds(v, loop->var, loop->begin, loop->end));
    v->sym_by_iteration[loop->var.i] = by_iteration || loop->kind == NST_FOR_PARALLEL;
    v->sym_by_lane[loop->var.i] = loop->kind == NST_FOR_VECTOR;
    if (loop->kind == NST_FOR_PARALLEL) {
        NstDim second = nst_dim_add_const(v->kernel->dims, loop->begin, loop->step);
        v->parallel = ++v->n_parallel;
        v->parallel_once = nst_dim_compare(v->kernel->dims, loop->end, NST_DIM_LE, second) == NST_TRUE;
    }
    if (loop->kind == NST_FOR_VECTOR) v->vector = loop;
    v->in_while = false;
    bool never = nst_dim_compare(v->kernel->dims, loop->begin, NST_DIM_GE, loop->end) == NST_TRUE;
    int64_t begin;
    bool moving = !nst_dim_is_const(v->kernel->dims, loop->begin, &begin); /* a rest: often empty */
    bool maybe_never =
        never || (moving && nst_dim_compare(v->kernel->dims, loop->begin, NST_DIM_LT, loop->end) != NST_TRUE);
    v->maybe_dead += maybe_never;
    v->never += never;
    NST_TRY(check_block(v, &loop->body));
    v->maybe_dead -= maybe_never;
    v->never -= never;
    v->in_while = in_while;
    v->vector = vector;
    v->parallel = parallel;
    v->parallel_once = once;
    nst_verify_leave_scope(v, mark);
    return NST_OK;
}

static NstStatus check_while(NstVerifier *v, const NstStmt *stmt)
{
    if (v->vector != NULL) return nst_verify_broken(v, 19, "while");
    bool in_while = v->in_while;
    v->in_while = true;
    NST_TRY(check_block(v, &stmt->u.repeat.body));
    v->in_while = in_while;
    return NST_OK;
}

static NstStatus check_let(NstVerifier *v, const NstStmt *stmt)
{
    uint32_t id = stmt->u.let.id;
    if (id == 0 || id >= v->kernel->lets.n) return nst_verify_broken(v, 1, "let number %u", id);
    const NstLetInfo *info = &v->kernel->lets.at[id];
    NST_TRY(nst_verify_expr(v, stmt->u.let.value, info->type, "the value"));
    if (v->let[id]) return nst_verify_broken(v, 8, "let '%s'", info->name);
    v->let[id] = true;
    nst_verify_enter_scope(v, SCOPE_LET, id);
    return NST_OK;
}

static NstStatus check_index_let(NstVerifier *v, const NstStmt *stmt)
{
    NST_TRY(nst_verify_expr(v, stmt->u.index.value, NST_I64, "the value"));
    NST_TRY(nst_verify_dim(v, stmt->u.index.lo));
    NST_TRY(nst_verify_dim(v, stmt->u.index.hi));
    NstSym var = stmt->u.index.var;
    NST_TRY(nst_verify_define_sym(v, var, SYM_INDEX));
    v->sym_by_iteration[var.i] = v->parallel != 0; /* it may come from a load */
    v->sym_by_lane[var.i] = v->vector != NULL;
    return check_known_bounds(v, var, stmt->u.index.lo, stmt->u.index.hi);
}

static NstStatus check_reg_shape(NstVerifier *v, const NstBuffer *buffer)
{
    NstDims *dims = v->kernel->dims;
    int64_t size, product = 1;
    for (int axis = 0; axis < buffer->rank; axis++) {
        bool fits = nst_dim_is_const(dims, buffer->shape[axis], &size) && size >= 0 && size <= MAX_REG;
        product = fits ? product * size : MAX_REG + 1;
        if (product > MAX_REG)
            return nst_verify_broken(v, 23, "register tile '%s' axis %d: size %s", buffer->name, axis,
                                     nst_verify_dim_text(v, buffer->shape[axis]));
    }
    if (!nst_layout_is_row_major(dims, &buffer->layout, buffer->rank, buffer->shape))
        return nst_verify_broken(v, 23, "register tile '%s' has a layout", buffer->name);
    return NST_OK;
}

static NstStatus check_alloc(NstVerifier *v, const NstStmt *stmt)
{
    NstBuf id = stmt->u.alloc.buffer;
    if (id.i <= v->kernel->n_args || id.i >= v->kernel->buffers.n)
        return nst_verify_broken(v, 1, "buffer number %u", id.i);
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, id);
    if (v->buffer[id.i]) return nst_verify_broken(v, 8, "buffer '%s'", buffer->name);
    NST_TRY(nst_verify_buffer(v, buffer));
    if (v->vector != NULL && buffer->space != NST_SPACE_REG)
        return nst_verify_broken(v, 19, "alloc of '%s'", buffer->name);
    if (buffer->space == NST_SPACE_SHARED && v->parallel != 0)
        return nst_verify_broken(v, 27, "buffer '%s'", buffer->name);
    if (buffer->space == NST_SPACE_REG) NST_TRY(check_reg_shape(v, buffer));
    if (buffer->space == NST_SPACE_MATRIX) NST_TRY(nst_verify_matrix_shape(v, id));
    v->buffer[id.i] = true;
    v->buffer_loop[id.i] = v->parallel;
    nst_verify_enter_scope(v, SCOPE_BUFFER, id.i);
    return NST_OK;
}

static NstStatus check_prefetch(NstVerifier *v, const NstStmt *stmt)
{
    NstBuf id = stmt->u.prefetch.buffer;
    NST_TRY(nst_verify_buffer_use(v, id));
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, id);
    if (buffer->space == NST_SPACE_REG || buffer->space == NST_SPACE_MATRIX)
        return nst_verify_broken(v, 29, "prefetch of '%s'", buffer->name);
    if (stmt->u.prefetch.level < 1 || stmt->u.prefetch.level > 3)
        return nst_verify_broken(v, 1, "level %d", stmt->u.prefetch.level);
    if (stmt->u.prefetch.n_index != (uint32_t)buffer->rank)
        return nst_verify_broken(v, 9, "buffer '%s' has %d axes and is accessed with %u indices", buffer->name,
                                 buffer->rank, stmt->u.prefetch.n_index);
    for (int axis = 0; axis < buffer->rank; axis++)
        NST_TRY(nst_verify_dim(v, stmt->u.prefetch.index[axis])); /* anywhere */
    return NST_OK;
}

/* copy(bytes) on to, from; fill(byte, bytes) on to: the helpers that work on whole buffers. */
static NstStatus check_call(NstVerifier *v, const NstStmt *stmt)
{
    if (v->vector != NULL) return nst_verify_broken(v, 19, "call");
    uint32_t helper = stmt->u.call.helper, n_args = stmt->u.call.n_args, n_buffers = stmt->u.call.n_buffers;
    bool known = (helper == NST_HELPER_copy && n_args == 1 && n_buffers == 2) ||
                 (helper == NST_HELPER_fill && n_args == 2 && n_buffers == 1);
    const char *name = nst_helper_text(helper);
    if (!known)
        return nst_verify_broken(v, 30, "'%s' of %u values on %u buffers", name ? name : "?", n_args, n_buffers);
    for (uint32_t k = 0; k < n_args; k++) {
        bool byte = helper == NST_HELPER_fill && k == 0;
        NST_TRY(nst_verify_expr(v, stmt->u.call.arg[k], byte ? NST_I32 : NST_I64, "an argument"));
    }
    for (uint32_t k = 0; k < n_buffers; k++) {
        NstBuf id = stmt->u.call.buffer[k];
        NST_TRY(nst_verify_buffer_use(v, id));
        const NstBuffer *buffer = nst_kernel_buffer(v->kernel, id);
        if (buffer->space == NST_SPACE_REG || buffer->space == NST_SPACE_MATRIX)
            return nst_verify_broken(v, 30, "register '%s'", buffer->name);
        if (k == 0 && buffer->space == NST_SPACE_ARG && buffer->access == NST_ACCESS_IN)
            return nst_verify_broken(v, 12, "argument '%s' is written", buffer->name);
    }
    return NST_OK;
}

static NstStatus check_if(NstVerifier *v, const NstStmt *stmt)
{
    NST_TRY(nst_verify_expr(v, stmt->u.branch.condition, NST_BOOL, "the condition"));
    v->maybe_dead++;
    NST_TRY(check_block(v, &stmt->u.branch.then));
    NST_TRY(check_block(v, &stmt->u.branch.otherwise));
    v->maybe_dead--;
    return NST_OK;
}

static NstStatus check_barrier(NstVerifier *v)
{
    if (v->vector != NULL) return nst_verify_broken(v, 19, "barrier");
    if (v->parallel != 0) return nst_verify_broken(v, 26, "barrier");
    return NST_OK;
}

static NstStatus check_stmt(NstVerifier *v, const NstStmt *stmt)
{
    switch (stmt->kind) {
    case NST_STMT_FOR: return check_for(v, &stmt->u.loop);
    case NST_STMT_WHILE: return check_while(v, stmt);
    case NST_STMT_BREAK: return v->in_while ? NST_OK : nst_verify_broken(v, 28, "break");
    case NST_STMT_IF: return check_if(v, stmt);
    case NST_STMT_LET: return check_let(v, stmt);
    case NST_STMT_INDEX: return check_index_let(v, stmt);
    case NST_STMT_ALLOC: return check_alloc(v, stmt);
    case NST_STMT_STORE: return check_store(v, &stmt->u.store);
    case NST_STMT_PREFETCH: return check_prefetch(v, stmt);
    case NST_STMT_CALL: return check_call(v, stmt);
    case NST_STMT_MATRIX: return nst_verify_matrix(v, &stmt->u.matrix);
    case NST_STMT_BARRIER: return check_barrier(v);
    case NST_STMT_ASSERT:
        if (stmt->u.check.message >= v->kernel->messages.n)
            return nst_verify_broken(v, 1, "message %u", stmt->u.check.message);
        return nst_verify_expr(v, stmt->u.check.condition, NST_BOOL, "the condition");
    }
    return nst_verify_broken(v, 1, "statement kind %d", (int)stmt->kind);
}

static NstStatus check_block(NstVerifier *v, const NstBlock *block)
{
    if (v->depth == NST_TEXT_MAX_DEPTH) return nst_verify_broken(v, 33, "block %d", v->depth + 1);
    uint32_t mark = v->scope.n;
    v->depth++;
    for (uint32_t k = 0; k < block->n; k++) {
        v->statement++;
        v->stmt = block->at[k];
        if (v->stmt == NULL) return nst_verify_broken(v, 1, "a statement is not set");
        NST_TRY(check_stmt(v, block->at[k]));
    }
    v->depth--;
    nst_verify_leave_scope(v, mark);
    return NST_OK;
}

/* --- entry --------------------------------------------------------------------------------------------------- */

static NstStatus check_params(NstVerifier *v)
{
    for (uint32_t k = 0; k < v->kernel->params.n; k++) {
        NstSym sym = v->kernel->params.at[k];
        if (sym.i == 0 || sym.i >= v->n_syms) return nst_verify_broken(v, 1, "symbol %u", sym.i);
        bool index = nst_dims_sym(v->kernel->dims, sym)->kind == NST_SYM_INDEX;
        if (index || v->sym[sym.i] != SYM_UNKNOWN)
            return nst_verify_broken(v, 34, "'%s'", nst_verify_sym_name(v, sym.i));
        v->sym[sym.i] = SYM_PARAM;
    }
    return NST_OK;
}

static NstStatus verify(NstVerifier *v)
{
    const NstKernel *kernel = v->kernel;
    v->n_syms = nst_dims_sym_count(kernel->dims) + 1;
    v->sym = NST_NEW_ARRAY(v->arena, uint8_t, v->n_syms);
    v->sym_by_iteration = NST_NEW_ARRAY(v->arena, bool, v->n_syms);
    v->sym_by_lane = NST_NEW_ARRAY(v->arena, bool, v->n_syms);
    v->let = NST_NEW_ARRAY(v->arena, bool, kernel->lets.n);
    v->buffer = NST_NEW_ARRAY(v->arena, bool, kernel->buffers.n);
    v->buffer_loop = NST_NEW_ARRAY(v->arena, uint32_t, kernel->buffers.n);
    NST_TRY(check_params(v));
    NST_TRY(nst_verify_args(v));
    return check_block(v, &kernel->body);
}

NstStatus nst_kernel_verify(NstCtx *ctx, const NstKernel *kernel)
{
    NstVerifier v = {.ctx = ctx, .kernel = kernel};
    v.arena = nst_arena_new(ctx, ctx->arena);
    NstStatus status = verify(&v);
    nst_arena_free(v.arena);
    return status;
}
