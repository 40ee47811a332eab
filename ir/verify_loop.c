/* verify_loop.c: checks a kernel against the rules of loop.h, numbered in verify.def.
 *
 * One walk in program order keeps what is in scope: symbols with how they vary, lets, buffers with where they live.  The
 * first broken rule is reported.  Cost: linear in the statements and the distinct nodes of each statement's expressions,
 * plus the prover's steps for bounds. */
#include "ir/text_loop.h"

#include <stdarg.h>
#include <string.h>
#include "ir/abi.h"

#define MAX_UNROLL   256
#define MAX_WIDTH    256
#define MAX_REG      4096
#define MESSAGE_TEXT 400

/* How a symbol in scope varies. */
typedef enum SymState { SYM_UNKNOWN, SYM_PARAM, SYM_SERIAL, SYM_PARALLEL, SYM_VECTOR, SYM_UNROLL, SYM_INDEX } SymState;

typedef struct Scope { /* one thing in scope, to be taken out again */
    enum { SCOPE_SYM, SCOPE_LET, SCOPE_BUFFER } kind;
    uint32_t id;
} Scope;

typedef struct Verifier {
    NstCtx *ctx;
    NstArena *arena;
    const NstKernel *kernel;
    uint8_t *sym;           /* SymState by symbol */
    bool *sym_by_iteration; /* differs by iteration of the parallel loop around */
    bool *sym_by_lane;      /* may differ by lane of the vector loop around */
    bool *let;              /* in scope */
    bool *buffer;           /* in scope (ARGs always) */
    uint32_t *buffer_loop;  /* number of the parallel loop a local buffer was allocated in; 0 = none */
    uint32_t n_syms;
    NST_VEC(Scope) scope;
    uint32_t statement; /* number of the statement that is checked, from 1 in text order */
    const NstStmt *stmt;
    uint32_t parallel, n_parallel; /* number of the parallel loop around; 0 = none */
    const NstFor *vector;          /* the vector loop around */
    bool in_while;                 /* a break may stand here */
    int depth;
    NstStatus status; /* of a walk over an expression */
} Verifier;

/* --- messages ------------------------------------------------------------------------------------------------ */

static const char *rule_text(int number)
{
    switch (number) {
#define NST_LOOP_CHECK(number, tested, rule)                                                                           \
    case number: return rule;
#include "ir/verify.def"
#undef NST_LOOP_CHECK
    default: return "?";
    }
}

static NstStatus broken(Verifier *v, int number, const char *format, ...) NST_PRINTF(3, 4);

static NstStatus broken(Verifier *v, int number, const char *format, ...)
{
    static const char *const kinds[] = {"for",   "while", "break",    "if",   "let",     "index",
                                        "alloc", "store", "prefetch", "call", "barrier", "assert"};
    char values[MESSAGE_TEXT], where[64] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(values, sizeof values, format, args);
    va_end(args);
    if (v->stmt != NULL && v->stmt->kind <= NST_STMT_ASSERT)
        snprintf(where, sizeof where, ", statement %u (%s)", v->statement, kinds[v->stmt->kind]);
    return nst_fail(v->ctx, NST_E_VERIFY, "L%02d: kernel '%s'%s: %s; rule: %s", number, v->kernel->name, where, values,
                    rule_text(number));
}

static const char *dim_text(Verifier *v, NstDim dim)
{
    NstText text;
    nst_text_init(&text, v->arena);
    nst_dim_print(&text, v->kernel->dims, dim, NULL, NULL);
    return nst_text_get(&text);
}

static const char *sym_text(Verifier *v, uint32_t sym)
{
    return sym != 0 && sym < v->n_syms ? nst_dims_sym(v->kernel->dims, (NstSym){sym})->name : "?";
}

static const char *buffer_text(Verifier *v, NstBuf buffer)
{
    return nst_kernel_buffer(v->kernel, buffer)->name;
}

static const char *type_text(NstDtype type)
{
    return nst_dtype_info(type)->name;
}

/* --- scope --------------------------------------------------------------------------------------------------- */

static void enter_scope(Verifier *v, int kind, uint32_t id)
{
    Scope scope = {.kind = kind, .id = id};
    nst_vec_push(v->arena, &v->scope, scope);
}

static void leave_scope(Verifier *v, uint32_t mark)
{
    while (v->scope.n > mark) {
        Scope scope = nst_vec_pop(&v->scope);
        if (scope.kind == SCOPE_SYM) {
            v->sym[scope.id] = SYM_UNKNOWN;
            v->sym_by_iteration[scope.id] = v->sym_by_lane[scope.id] = false;
        }
        if (scope.kind == SCOPE_LET) v->let[scope.id] = false;
        if (scope.kind == SCOPE_BUFFER) v->buffer[scope.id] = false;
    }
}

static NstStatus define_sym(Verifier *v, NstSym sym, SymState state)
{
    if (sym.i == 0 || sym.i >= v->n_syms) return broken(v, 1, "symbol %u", sym.i);
    if (v->sym[sym.i] != SYM_UNKNOWN) return broken(v, 8, "index variable '%s' (%u)", sym_text(v, sym.i), sym.i);
    v->sym[sym.i] = (uint8_t)state;
    enter_scope(v, SCOPE_SYM, sym.i);
    return NST_OK;
}

/* --- dims ---------------------------------------------------------------------------------------------------- */

typedef bool (*SymTest)(const Verifier *v, NstSym sym);

/* True if any symbol of dim passes the test. */
static bool any_sym(const Verifier *v, NstDim dim, SymTest test)
{
    const NstDimNode *node = nst_dim_node(v->kernel->dims, dim);
    if (node->op == NST_DIM_SYM) return test(v, node->sym);
    for (uint32_t k = 0; node->op != NST_DIM_CONST && k < node->n; k++)
        if (any_sym(v, node->arg[k], test)) return true;
    return false;
}

static bool is_out_of_scope(const Verifier *v, NstSym sym)
{
    return sym.i >= v->n_syms || v->sym[sym.i] == SYM_UNKNOWN;
}

static bool is_no_param(const Verifier *v, NstSym sym)
{
    return sym.i >= v->n_syms || v->sym[sym.i] != SYM_PARAM;
}

static bool is_by_iteration(const Verifier *v, NstSym sym)
{
    return v->sym_by_iteration[sym.i];
}

static bool is_by_lane(const Verifier *v, NstSym sym)
{
    return v->sym_by_lane[sym.i];
}

static bool is_not_unrolled(const Verifier *v, NstSym sym)
{
    return v->sym[sym.i] != SYM_UNROLL;
}

static NstStatus check_dim(Verifier *v, NstDim dim)
{
    if (dim.i == 0) return broken(v, 1, "a size or index is not set");
    if (any_sym(v, dim, is_out_of_scope)) return broken(v, 5, "%s", dim_text(v, dim));
    return NST_OK;
}

/* --- buffers ------------------------------------------------------------------------------------------------- */

static NstStatus check_layout(Verifier *v, const NstBuffer *buffer)
{
    const NstLayout *layout = &buffer->layout;
    NstDims *dims = v->kernel->dims;
    bool covered[NST_MAX_RANK] = {false};
    for (uint32_t k = 0; k < layout->n_parts; k++) {
        const NstLayoutPart *part = &layout->parts[k];
        if (part->axis >= buffer->rank || part->divisor < 1 || part->modulus < 0)
            return broken(v, 1, "buffer '%s': part %u of its layout", buffer->name, k);
        NST_TRY(check_dim(v, part->stride));
        covered[part->axis] = true;
    }
    NST_TRY(check_dim(v, layout->offset));
    NST_TRY(check_dim(v, layout->elements));
    NstDim zero = nst_dim_const(dims, 0);
    if (nst_dim_compare(dims, layout->offset, NST_DIM_LT, zero) == NST_TRUE ||
        nst_dim_compare(dims, layout->elements, NST_DIM_LT, zero) == NST_TRUE)
        return broken(v, 2, "buffer '%s': offset %s, elements %s", buffer->name, dim_text(v, layout->offset),
                      dim_text(v, layout->elements));
    for (int axis = 0; axis < buffer->rank; axis++)
        if (!covered[axis] &&
            nst_dim_compare(dims, buffer->shape[axis], NST_DIM_LE, nst_dim_const(dims, 1)) != NST_TRUE)
            return broken(v, 2, "buffer '%s': axis %d of size %s has no part", buffer->name, axis,
                          dim_text(v, buffer->shape[axis]));
    return NST_OK;
}

static NstStatus check_bits(Verifier *v, const NstBuffer *buffer)
{
    const NstDtypeInfo *type = nst_dtype_info(buffer->dtype);
    bool packed = buffer->layout.bits == type->bits && type->bits < 8 && buffer->space == NST_SPACE_ARG &&
                  buffer->access == NST_ACCESS_IN;
    if (buffer->layout.bits != 8 * type->bytes && !packed)
        return broken(v, 3, "buffer '%s' of %s has %d bits an element", buffer->name, type->name, buffer->layout.bits);
    return NST_OK;
}

static NstStatus check_buffer(Verifier *v, const NstBuffer *buffer)
{
    bool valid = buffer->dtype > NST_DTYPE_NONE && buffer->dtype < NST_DTYPE_COUNT && buffer->rank >= 0 &&
                 buffer->rank <= NST_MAX_RANK && buffer->space <= NST_SPACE_SHARED;
    if (!valid) return broken(v, 1, "buffer '%s'", buffer->name ? buffer->name : "?");
    for (int axis = 0; axis < buffer->rank; axis++) NST_TRY(check_dim(v, buffer->shape[axis]));
    NST_TRY(check_layout(v, buffer));
    return check_bits(v, buffer);
}

static bool uses_other_than_params(Verifier *v, const NstBuffer *buffer)
{
    bool other = any_sym(v, buffer->layout.offset, is_no_param) || any_sym(v, buffer->layout.elements, is_no_param);
    for (int axis = 0; axis < buffer->rank; axis++) other = other || any_sym(v, buffer->shape[axis], is_no_param);
    for (uint32_t k = 0; k < buffer->layout.n_parts; k++)
        other = other || any_sym(v, buffer->layout.parts[k].stride, is_no_param);
    return other;
}

static NstStatus check_args(Verifier *v)
{
    const NstKernel *kernel = v->kernel;
    if (kernel->n_args >= kernel->buffers.n) return broken(v, 1, "%u arguments", kernel->n_args);
    for (uint32_t k = 1; k < kernel->buffers.n; k++) {
        const NstBuffer *buffer = &kernel->buffers.at[k];
        if ((buffer->space == NST_SPACE_ARG) != (k <= kernel->n_args))
            return broken(v, 1, "buffer '%s' is number %u of %u arguments", buffer->name, k, kernel->n_args);
        if (k > kernel->n_args) continue;
        if (buffer->access < NST_ACCESS_IN || buffer->access > NST_ACCESS_INOUT)
            return broken(v, 1, "access of '%s'", buffer->name);
        if (buffer->constant && buffer->access != NST_ACCESS_IN)
            return broken(v, 12, "constant argument '%s' is %s", buffer->name, nst_access_text(buffer->access));
        NST_TRY(check_buffer(v, buffer));
        if (uses_other_than_params(v, buffer)) return broken(v, 4, "argument '%s'", buffer->name);
        v->buffer[k] = true;
    }
    return NST_OK;
}

static NstStatus check_buffer_use(Verifier *v, NstBuf id)
{
    if (id.i == 0 || id.i >= v->kernel->buffers.n) return broken(v, 1, "buffer number %u", id.i);
    if (!v->buffer[id.i]) return broken(v, 7, "buffer '%s'", buffer_text(v, id));
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, id);
    bool private = buffer->space == NST_SPACE_REG || buffer->space == NST_SPACE_SCRATCH;
    if (private && v->buffer_loop[id.i] != v->parallel)
        return broken(v, 24, "%s buffer '%s'", nst_space_text(buffer->space), buffer->name);
    return NST_OK;
}

/* --- accesses ------------------------------------------------------------------------------------------------ */

/* index < 0 - halo or index >= size + halo, rounded up to whole blocks, for all values of the symbols. */
static NstStatus check_range(Verifier *v, const NstBuffer *buffer, int axis, NstDim index)
{
    NstDims *dims = v->kernel->dims;
    int64_t halo = nst_layout_halo(&buffer->layout, axis), block = 1;
    for (uint32_t k = 0; k < buffer->layout.n_parts; k++) {
        const NstLayoutPart *part = &buffer->layout.parts[k];
        if (part->axis == axis && part->divisor > block) block = part->divisor;
    }
    NstDim at = nst_dim_add_const(dims, index, halo), size = nst_dim_add_const(dims, buffer->shape[axis], 2 * halo);
    if (block > 1) size = nst_dim_mul_const(dims, nst_dim_ceildiv(dims, size, nst_dim_const(dims, block)), block);
    if (nst_dim_compare(dims, at, NST_DIM_LT, nst_dim_const(dims, 0)) == NST_TRUE ||
        nst_dim_compare(dims, at, NST_DIM_GE, size) == NST_TRUE)
        return broken(v, 31, "buffer '%s' axis %d of size %s: index %s", buffer->name, axis,
                      dim_text(v, buffer->shape[axis]), dim_text(v, index));
    return NST_OK;
}

/* Register tile index: constants and unrolled variables; the last axis may add the lane. */
static NstStatus check_reg_index(Verifier *v, const NstBuffer *buffer, int axis, NstDim index)
{
    NstDims *dims = v->kernel->dims;
    NstDim rest = index;
    if (axis == buffer->rank - 1 && v->vector != NULL && nst_dim_uses(dims, index, v->vector->var)) {
        NstDim lane = nst_dim_sub(dims, nst_dim_sym(dims, v->vector->var), v->vector->begin);
        if (v->vector->step != 1) lane = nst_dim_floordiv(dims, lane, nst_dim_const(dims, v->vector->step));
        rest = nst_dim_sub(dims, index, lane);
    }
    if (any_sym(v, rest, is_not_unrolled))
        return broken(v, 22, "register tile '%s' axis %d: index %s", buffer->name, axis, dim_text(v, index));
    return NST_OK;
}

static NstStatus check_access(Verifier *v, NstBuf id, const NstDim *index, uint32_t n_index)
{
    NST_TRY(check_buffer_use(v, id));
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, id);
    if (n_index != (uint32_t)buffer->rank)
        return broken(v, 9, "buffer '%s' has %d axes and is accessed with %u indices", buffer->name, buffer->rank,
                      n_index);
    for (int axis = 0; axis < buffer->rank; axis++) {
        NST_TRY(check_dim(v, index[axis]));
        if (buffer->space == NST_SPACE_REG) NST_TRY(check_reg_index(v, buffer, axis, index[axis]));
        NST_TRY(check_range(v, buffer, axis, index[axis]));
    }
    return NST_OK;
}

static NstStatus check_load(Verifier *v, const NstExprNode *node)
{
    NST_TRY(check_access(v, (NstBuf){node->ref}, node->index, node->n_index));
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, (NstBuf){node->ref});
    int wide = nst_dtype_info(node->type)->bytes, bytes = nst_dtype_info(buffer->dtype)->bytes;
    bool whole = wide % bytes == 0 && buffer->layout.bits >= 8;
    if (node->type != buffer->dtype && !whole)
        return broken(v, 10, "buffer '%s' of %s is read as %s", buffer->name, type_text(buffer->dtype),
                      type_text(node->type));
    return NST_OK;
}

/* --- expressions --------------------------------------------------------------------------------------------- */

static NstStatus check_node(Verifier *v, const NstExprNode *node)
{
    switch (node->op) {
    case NST_OP_LOAD: return check_load(v, node);
    case NST_OP_INDEX: return check_dim(v, node->index[0]);
    case NST_OP_ARG: return broken(v, 16, "operand slot %u", node->ref);
    case NST_OP_LET:
        if (node->ref == 0 || node->ref >= v->kernel->lets.n) return broken(v, 1, "let number %u", node->ref);
        if (!v->let[node->ref]) return broken(v, 6, "let '%s'", v->kernel->lets.at[node->ref].name);
        return NST_OK;
    default: return NST_OK;
    }
}

static void visit_node(void *arg, NstExpr e, const NstExprNode *node)
{
    Verifier *v = arg;
    (void)e;
    if (v->status == NST_OK) v->status = check_node(v, node);
}

static NstStatus check_expr(Verifier *v, NstExpr e, NstDtype type, const char *what)
{
    if (e.i == 0 || e.i > nst_exprs_count(v->kernel->exprs)) return broken(v, 1, "%s is not set", what);
    v->status = NST_OK;
    nst_expr_visit(v->kernel->exprs, e, visit_node, v);
    NST_TRY(v->status);
    NstDtype given = nst_expr(v->kernel->exprs, e)->type;
    if (type != NST_DTYPE_NONE && given != type)
        return broken(v, 11, "%s is %s and must be %s", what, type_text(given), type_text(type));
    return NST_OK;
}

typedef struct Merge {
    Verifier *v;
    const NstStore *store;
} Merge;

static void visit_merge(void *arg, NstExpr e, const NstExprNode *node)
{
    Merge *merge = arg;
    Verifier *v = merge->v;
    (void)e;
    if (v->status != NST_OK) return;
    if (node->op == NST_OP_LOAD || node->op == NST_OP_LET || node->op == NST_OP_INDEX)
        v->status = broken(v, 14, "a merge reads something other than its operands");
    if (node->op != NST_OP_ARG) return;
    uint32_t n = merge->store->n_targets;
    bool known = node->ref < 2 * n;
    NstDtype type =
        known ? nst_kernel_buffer(v->kernel, merge->store->target[node->ref % n].buffer)->dtype : NST_DTYPE_NONE;
    if (!known || node->type != type)
        v->status = broken(v, 14, "operand slot %u of %s", node->ref, type_text(node->type));
}

static NstStatus check_merge(Verifier *v, const NstStore *store, const NstStoreTarget *target)
{
    NstDtype type = nst_kernel_buffer(v->kernel, target->buffer)->dtype;
    const NstExprs *exprs = v->kernel->exprs;
    if (target->merge.i == 0 || target->identity.i == 0) return broken(v, 1, "merge or identity is not set");
    Merge merge = {.v = v, .store = store};
    v->status = NST_OK;
    nst_expr_visit(exprs, target->merge, visit_merge, &merge);
    NST_TRY(v->status);
    if (nst_expr(exprs, target->merge)->type != type)
        return broken(v, 14, "the merge gives %s for %s", type_text(nst_expr(exprs, target->merge)->type),
                      type_text(type));
    if (nst_expr(exprs, target->identity)->op != NST_OP_CONST || nst_expr(exprs, target->identity)->type != type)
        return broken(v, 15, "identity of '%s'", buffer_text(v, target->buffer));
    return NST_OK;
}

/* --- statements ---------------------------------------------------------------------------------------------- */

static NstStatus check_block(Verifier *v, const NstBlock *block);

static bool index_passes(const Verifier *v, const NstStore *store, SymTest test)
{
    for (uint32_t k = 0; k < store->n_index; k++)
        if (any_sym(v, store->index[k], test)) return true;
    return false;
}

/* True if some index is linear in the lane variable: no two lanes meet. */
static bool indexed_by_lane_itself(Verifier *v, const NstStore *store)
{
    NstDims *dims = v->kernel->dims;
    for (uint32_t k = 0; k < store->n_index; k++) {
        NstDim coef, rest;
        if (nst_dim_uses(dims, store->index[k], v->vector->var) &&
            nst_dim_linear(dims, store->index[k], v->vector->var, &coef, &rest))
            return true;
    }
    return false;
}

static NstStatus check_target(Verifier *v, const NstStore *store, const NstStoreTarget *target)
{
    NST_TRY(check_access(v, target->buffer, store->index, store->n_index));
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, target->buffer);
    if (buffer->space == NST_SPACE_ARG && buffer->access == NST_ACCESS_IN)
        return broken(v, 12, "argument '%s' is written", buffer->name);
    if (buffer->layout.bits < 8) return broken(v, 32, "buffer '%s'", buffer->name);
    NST_TRY(check_expr(v, target->value, buffer->dtype, "the stored value"));
    if (v->vector != NULL && !index_passes(v, store, is_by_lane)) return broken(v, 21, "store to '%s'", buffer->name);
    if (v->vector != NULL && store->update && !indexed_by_lane_itself(v, store))
        return broken(v, 21, "update of '%s'", buffer->name);
    bool outside = buffer->space == NST_SPACE_ARG || v->buffer_loop[target->buffer.i] != v->parallel;
    if (v->parallel != 0 && outside && !index_passes(v, store, is_by_iteration))
        return broken(v, 25, "store to '%s'", buffer->name);
    return NST_OK;
}

static NstStatus check_store(Verifier *v, const NstStore *store)
{
    if (store->n_targets == 0) return broken(v, 13, "no target");
    for (uint32_t k = 0; k < store->n_targets; k++) {
        NST_TRY(check_target(v, store, &store->target[k]));
        for (uint32_t m = 0; m < k; m++)
            if (store->target[m].buffer.i == store->target[k].buffer.i)
                return broken(v, 13, "buffer '%s' twice", buffer_text(v, store->target[k].buffer));
    }
    for (uint32_t k = 0; store->update && k < store->n_targets; k++) NST_TRY(check_merge(v, store, &store->target[k]));
    return NST_OK;
}

static NstStatus check_trip_count(Verifier *v, const NstFor *loop)
{
    NstDims *dims = v->kernel->dims;
    NstDim length = nst_dim_sub(dims, loop->end, loop->begin);
    int64_t n;
    if (loop->kind == NST_FOR_UNROLL && (!nst_dim_is_const(dims, length, &n) || n > MAX_UNROLL * loop->step))
        return broken(v, 17, "from %s to %s by %lld", dim_text(v, loop->begin), dim_text(v, loop->end),
                      (long long)loop->step);
    if (loop->kind != NST_FOR_VECTOR) return NST_OK;
    bool fits = loop->width >= 1 && loop->width <= MAX_WIDTH && loop->step <= INT32_MAX &&
                nst_dim_compare(dims, length, NST_DIM_LE, nst_dim_const(dims, loop->width * loop->step)) == NST_TRUE;
    if (!fits)
        return broken(v, 18, "from %s to %s by %lld, width %lld", dim_text(v, loop->begin), dim_text(v, loop->end),
                      (long long)loop->step, (long long)loop->width);
    return NST_OK;
}

static NstStatus check_known_bounds(Verifier *v, NstSym var, NstDim begin, NstDim end)
{
    NstDims *dims = v->kernel->dims;
    const NstSymInfo *info = nst_dims_sym(dims, var);
    NstDim last = nst_dim_add_const(dims, end, -1);
    if (info->kind != NST_SYM_INDEX) return broken(v, 1, "'%s' is no index variable", info->name);
    if (nst_dim_compare(dims, begin, NST_DIM_GE, end) == NST_TRUE) return NST_OK; /* never runs */
    bool wrong = (info->lo_dim.i != 0 && nst_dim_compare(dims, begin, NST_DIM_LT, info->lo_dim) == NST_TRUE) ||
                 (info->hi_dim.i != 0 && nst_dim_compare(dims, last, NST_DIM_GT, info->hi_dim) == NST_TRUE);
    int64_t value;
    wrong = wrong || (nst_dim_is_const(dims, begin, &value) && value < info->lo);
    wrong = wrong || (nst_dim_is_const(dims, last, &value) && value > info->hi);
    if (wrong) return broken(v, 33, "'%s' from %s to %s", info->name, dim_text(v, begin), dim_text(v, end));
    return NST_OK;
}

static NstStatus check_for_place(Verifier *v, const NstFor *loop)
{
    if (v->vector != NULL && (loop->kind == NST_FOR_VECTOR || loop->kind == NST_FOR_PARALLEL))
        return broken(v, 19, "%s loop '%s'", nst_for_text(loop->kind), sym_text(v, loop->var.i));
    if (v->vector != NULL && (any_sym(v, loop->begin, is_by_lane) || any_sym(v, loop->end, is_by_lane)))
        return broken(v, 20, "loop '%s' from %s to %s", sym_text(v, loop->var.i), dim_text(v, loop->begin),
                      dim_text(v, loop->end));
    if (v->parallel != 0 && loop->kind == NST_FOR_PARALLEL)
        return broken(v, 26, "parallel loop '%s'", sym_text(v, loop->var.i));
    return NST_OK;
}

static NstStatus check_for(Verifier *v, const NstFor *loop)
{
    static const SymState state[] = {SYM_SERIAL, SYM_PARALLEL, SYM_VECTOR, SYM_UNROLL};
    if (loop->kind > NST_FOR_UNROLL || loop->step < 1) return broken(v, 1, "step %lld", (long long)loop->step);
    NST_TRY(check_dim(v, loop->begin));
    NST_TRY(check_dim(v, loop->end));
    NST_TRY(check_for_place(v, loop));
    NST_TRY(check_trip_count(v, loop));
    bool by_iteration = any_sym(v, loop->begin, is_by_iteration) || any_sym(v, loop->end, is_by_iteration);
    uint32_t mark = v->scope.n, parallel = v->parallel;
    const NstFor *vector = v->vector;
    bool in_while = v->in_while;
    NST_TRY(define_sym(v, loop->var, state[loop->kind]));
    NST_TRY(check_known_bounds(v, loop->var, loop->begin, loop->end));
    v->sym_by_iteration[loop->var.i] = by_iteration || loop->kind == NST_FOR_PARALLEL;
    v->sym_by_lane[loop->var.i] = loop->kind == NST_FOR_VECTOR;
    if (loop->kind == NST_FOR_PARALLEL) v->parallel = ++v->n_parallel;
    if (loop->kind == NST_FOR_VECTOR) v->vector = loop;
    v->in_while = false;
    NST_TRY(check_block(v, &loop->body));
    v->in_while = in_while;
    v->vector = vector;
    v->parallel = parallel;
    leave_scope(v, mark);
    return NST_OK;
}

static NstStatus check_while(Verifier *v, const NstStmt *stmt)
{
    if (v->vector != NULL) return broken(v, 19, "while");
    bool in_while = v->in_while;
    v->in_while = true;
    NST_TRY(check_block(v, &stmt->u.repeat.body));
    v->in_while = in_while;
    return NST_OK;
}

static NstStatus check_let(Verifier *v, const NstStmt *stmt)
{
    uint32_t id = stmt->u.let.id;
    if (id == 0 || id >= v->kernel->lets.n) return broken(v, 1, "let number %u", id);
    const NstLetInfo *info = &v->kernel->lets.at[id];
    NST_TRY(check_expr(v, stmt->u.let.value, info->type, "the value"));
    if (v->let[id]) return broken(v, 8, "let '%s'", info->name);
    v->let[id] = true;
    enter_scope(v, SCOPE_LET, id);
    return NST_OK;
}

static NstStatus check_index_let(Verifier *v, const NstStmt *stmt)
{
    NST_TRY(check_expr(v, stmt->u.index.value, NST_I64, "the value"));
    NST_TRY(check_dim(v, stmt->u.index.lo));
    NST_TRY(check_dim(v, stmt->u.index.hi));
    NstSym var = stmt->u.index.var;
    NST_TRY(define_sym(v, var, SYM_INDEX));
    v->sym_by_iteration[var.i] = v->parallel != 0; /* it may come from a load */
    v->sym_by_lane[var.i] = v->vector != NULL;
    return check_known_bounds(v, var, stmt->u.index.lo, stmt->u.index.hi);
}

static NstStatus check_reg_shape(Verifier *v, const NstBuffer *buffer)
{
    NstDims *dims = v->kernel->dims;
    int64_t size, product = 1;
    for (int axis = 0; axis < buffer->rank; axis++) {
        bool fits = nst_dim_is_const(dims, buffer->shape[axis], &size) && size >= 0 && size <= MAX_REG;
        product = fits ? product * size : MAX_REG + 1;
        if (product > MAX_REG)
            return broken(v, 23, "register tile '%s' axis %d: size %s", buffer->name, axis,
                          dim_text(v, buffer->shape[axis]));
    }
    if (!nst_layout_is_row_major(dims, &buffer->layout, buffer->rank, buffer->shape))
        return broken(v, 23, "register tile '%s' has a layout", buffer->name);
    return NST_OK;
}

static NstStatus check_alloc(Verifier *v, const NstStmt *stmt)
{
    NstBuf id = stmt->u.alloc.buffer;
    if (id.i <= v->kernel->n_args || id.i >= v->kernel->buffers.n) return broken(v, 1, "buffer number %u", id.i);
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, id);
    if (v->buffer[id.i]) return broken(v, 8, "buffer '%s'", buffer->name);
    NST_TRY(check_buffer(v, buffer));
    if (v->vector != NULL && buffer->space != NST_SPACE_REG) return broken(v, 19, "alloc of '%s'", buffer->name);
    if (buffer->space == NST_SPACE_SHARED && v->parallel != 0) return broken(v, 27, "buffer '%s'", buffer->name);
    if (buffer->space == NST_SPACE_REG) NST_TRY(check_reg_shape(v, buffer));
    v->buffer[id.i] = true;
    v->buffer_loop[id.i] = v->parallel;
    enter_scope(v, SCOPE_BUFFER, id.i);
    return NST_OK;
}

static NstStatus check_prefetch(Verifier *v, const NstStmt *stmt)
{
    NstBuf id = stmt->u.prefetch.buffer;
    NST_TRY(check_buffer_use(v, id));
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, id);
    if (buffer->space == NST_SPACE_REG) return broken(v, 29, "prefetch of '%s'", buffer->name);
    if (stmt->u.prefetch.level < 1 || stmt->u.prefetch.level > 3)
        return broken(v, 1, "level %d", stmt->u.prefetch.level);
    if (stmt->u.prefetch.n_index != (uint32_t)buffer->rank)
        return broken(v, 9, "buffer '%s' has %d axes and is accessed with %u indices", buffer->name, buffer->rank,
                      stmt->u.prefetch.n_index);
    for (int axis = 0; axis < buffer->rank; axis++) NST_TRY(check_dim(v, stmt->u.prefetch.index[axis])); /* anywhere */
    return NST_OK;
}

/* copy(bytes) on to, from; fill(byte, bytes) on to: the helpers that work on whole buffers. */
static NstStatus check_call(Verifier *v, const NstStmt *stmt)
{
    if (v->vector != NULL) return broken(v, 19, "call");
    uint32_t helper = stmt->u.call.helper, n_args = stmt->u.call.n_args, n_buffers = stmt->u.call.n_buffers;
    bool known = (helper == NST_HELPER_copy && n_args == 1 && n_buffers == 2) ||
                 (helper == NST_HELPER_fill && n_args == 2 && n_buffers == 1);
    const char *name = nst_helper_text(helper);
    if (!known) return broken(v, 30, "'%s' of %u values on %u buffers", name ? name : "?", n_args, n_buffers);
    for (uint32_t k = 0; k < n_args; k++) {
        bool byte = helper == NST_HELPER_fill && k == 0;
        NST_TRY(check_expr(v, stmt->u.call.arg[k], byte ? NST_I32 : NST_I64, "an argument"));
    }
    for (uint32_t k = 0; k < n_buffers; k++) {
        NstBuf id = stmt->u.call.buffer[k];
        NST_TRY(check_buffer_use(v, id));
        const NstBuffer *buffer = nst_kernel_buffer(v->kernel, id);
        if (buffer->space == NST_SPACE_REG) return broken(v, 30, "register tile '%s'", buffer->name);
        if (k == 0 && buffer->space == NST_SPACE_ARG && buffer->access == NST_ACCESS_IN)
            return broken(v, 12, "argument '%s' is written", buffer->name);
    }
    return NST_OK;
}

static NstStatus check_if(Verifier *v, const NstStmt *stmt)
{
    NST_TRY(check_expr(v, stmt->u.branch.condition, NST_BOOL, "the condition"));
    NST_TRY(check_block(v, &stmt->u.branch.then));
    return check_block(v, &stmt->u.branch.otherwise);
}

static NstStatus check_barrier(Verifier *v)
{
    if (v->vector != NULL) return broken(v, 19, "barrier");
    if (v->parallel != 0) return broken(v, 26, "barrier");
    return NST_OK;
}

static NstStatus check_stmt(Verifier *v, const NstStmt *stmt)
{
    switch (stmt->kind) {
    case NST_STMT_FOR: return check_for(v, &stmt->u.loop);
    case NST_STMT_WHILE: return check_while(v, stmt);
    case NST_STMT_BREAK: return v->in_while ? NST_OK : broken(v, 28, "break");
    case NST_STMT_IF: return check_if(v, stmt);
    case NST_STMT_LET: return check_let(v, stmt);
    case NST_STMT_INDEX: return check_index_let(v, stmt);
    case NST_STMT_ALLOC: return check_alloc(v, stmt);
    case NST_STMT_STORE: return check_store(v, &stmt->u.store);
    case NST_STMT_PREFETCH: return check_prefetch(v, stmt);
    case NST_STMT_CALL: return check_call(v, stmt);
    case NST_STMT_BARRIER: return check_barrier(v);
    case NST_STMT_ASSERT:
        if (stmt->u.check.message >= v->kernel->messages.n) return broken(v, 1, "message %u", stmt->u.check.message);
        return check_expr(v, stmt->u.check.condition, NST_BOOL, "the condition");
    }
    return broken(v, 1, "statement kind %d", (int)stmt->kind);
}

static NstStatus check_block(Verifier *v, const NstBlock *block)
{
    if (v->depth == NST_TEXT_MAX_DEPTH) return broken(v, 34, "block %d", v->depth + 1);
    uint32_t mark = v->scope.n;
    v->depth++;
    for (uint32_t k = 0; k < block->n; k++) {
        v->statement++;
        v->stmt = block->at[k];
        if (v->stmt == NULL) return broken(v, 1, "a statement is not set");
        NST_TRY(check_stmt(v, block->at[k]));
    }
    v->depth--;
    leave_scope(v, mark);
    return NST_OK;
}

/* --- entry --------------------------------------------------------------------------------------------------- */

static NstStatus check_params(Verifier *v)
{
    for (uint32_t k = 0; k < v->kernel->params.n; k++) {
        NstSym sym = v->kernel->params.at[k];
        if (sym.i == 0 || sym.i >= v->n_syms) return broken(v, 1, "symbol %u", sym.i);
        bool index = nst_dims_sym(v->kernel->dims, sym)->kind == NST_SYM_INDEX;
        if (index || v->sym[sym.i] != SYM_UNKNOWN) return broken(v, 35, "'%s'", sym_text(v, sym.i));
        v->sym[sym.i] = SYM_PARAM;
    }
    return NST_OK;
}

static NstStatus verify(Verifier *v)
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
    NST_TRY(check_args(v));
    return check_block(v, &kernel->body);
}

NstStatus nst_kernel_verify(NstCtx *ctx, const NstKernel *kernel)
{
    Verifier v = {.ctx = ctx, .kernel = kernel};
    v.arena = nst_arena_new(ctx, ctx->arena);
    NstStatus status = verify(&v);
    nst_arena_free(v.arena);
    return status;
}
