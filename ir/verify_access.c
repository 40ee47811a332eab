/* verify_access.c: the part of the loop-nest verifier below statements: sizes, buffers, accesses, expressions. */
#include "ir/verify_impl.h"

#include <stdarg.h>
#include <string.h>

#define MESSAGE_TEXT 400

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

NstStatus nst_verify_broken(NstVerifier *v, int number, const char *format, ...)
{
    static const char *const kinds[] = {"for",   "while",    "break", "if",      "let",    "index", "alloc",
                                        "store", "prefetch", "call",  "barrier", "matrix", "assert"};
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

const char *nst_verify_dim_text(NstVerifier *v, NstDim dim)
{
    NstText text;
    nst_text_init(&text, v->arena);
    nst_dim_print(&text, v->kernel->dims, dim, NULL, NULL);
    return nst_text_get(&text);
}

const char *nst_verify_sym_name(NstVerifier *v, uint32_t sym)
{
    return sym != 0 && sym < v->n_syms ? nst_dims_sym(v->kernel->dims, (NstSym){sym})->name : "?";
}

const char *nst_verify_buffer_name(NstVerifier *v, NstBuf buffer)
{
    return nst_kernel_buffer(v->kernel, buffer)->name;
}

static const char *type_text(NstDtype type)
{
    return nst_dtype_info(type)->name;
}

/* --- scope --------------------------------------------------------------------------------------------------- */

void nst_verify_enter_scope(NstVerifier *v, int kind, uint32_t id)
{
    NstVerifyScope scope = {.kind = kind, .id = id};
    nst_vec_push(v->arena, &v->scope, scope);
}

void nst_verify_leave_scope(NstVerifier *v, uint32_t mark)
{
    while (v->scope.n > mark) {
        NstVerifyScope scope = nst_vec_pop(&v->scope);
        if (scope.kind == SCOPE_SYM) {
            v->sym[scope.id] = SYM_UNKNOWN;
            v->sym_by_iteration[scope.id] = v->sym_by_lane[scope.id] = false;
        }
        if (scope.kind == SCOPE_LET) v->let[scope.id] = false;
        if (scope.kind == SCOPE_BUFFER) v->buffer[scope.id] = false;
    }
}

NstStatus nst_verify_define_sym(NstVerifier *v, NstSym sym, NstVerifySym state)
{
    if (sym.i == 0 || sym.i >= v->n_syms) return nst_verify_broken(v, 1, "symbol %u", sym.i);
    if (v->sym[sym.i] != SYM_UNKNOWN)
        return nst_verify_broken(v, 8, "index variable '%s' (%u)", nst_verify_sym_name(v, sym.i), sym.i);
    v->sym[sym.i] = (uint8_t)state;
    nst_verify_enter_scope(v, SCOPE_SYM, sym.i);
    return NST_OK;
}

/* --- dims ---------------------------------------------------------------------------------------------------- */

/* True if any symbol of dim passes the test. */
bool nst_verify_any_sym(const NstVerifier *v, NstDim dim, NstVerifySymTest test)
{
    const NstDimNode *node = nst_dim_node(v->kernel->dims, dim);
    if (node->op == NST_DIM_SYM) return test(v, node->sym);
    for (uint32_t k = 0; node->op != NST_DIM_CONST && k < node->n; k++)
        if (nst_verify_any_sym(v, node->arg[k], test)) return true;
    return false;
}

static bool is_out_of_scope(const NstVerifier *v, NstSym sym)
{
    return sym.i >= v->n_syms || v->sym[sym.i] == SYM_UNKNOWN;
}

bool nst_verify_is_by_iteration(const NstVerifier *v, NstSym sym)
{
    return v->sym_by_iteration[sym.i];
}

bool nst_verify_is_by_lane(const NstVerifier *v, NstSym sym)
{
    return v->sym_by_lane[sym.i];
}

static bool is_not_unrolled(const NstVerifier *v, NstSym sym)
{
    return v->sym[sym.i] != SYM_UNROLL;
}

NstStatus nst_verify_dim(NstVerifier *v, NstDim dim)
{
    if (dim.i == 0) return nst_verify_broken(v, 1, "a size or index is not set");
    if (nst_verify_any_sym(v, dim, is_out_of_scope)) return nst_verify_broken(v, 5, "%s", nst_verify_dim_text(v, dim));
    return NST_OK;
}

/* --- buffers ------------------------------------------------------------------------------------------------- */

static NstStatus check_layout(NstVerifier *v, const NstBuffer *buffer)
{
    const NstLayout *layout = &buffer->layout;
    NstDims *dims = v->kernel->dims;
    bool covered[NST_MAX_RANK] = {false};
    for (uint32_t k = 0; k < layout->n_parts; k++) {
        const NstLayoutPart *part = &layout->parts[k];
        if (part->axis >= buffer->rank || part->divisor < 1 || part->modulus < 0)
            return nst_verify_broken(v, 1, "buffer '%s': part %u of its layout", buffer->name, k);
        NST_TRY(nst_verify_dim(v, part->stride));
        covered[part->axis] = true;
    }
    NST_TRY(nst_verify_dim(v, layout->offset));
    NST_TRY(nst_verify_dim(v, layout->elements));
    NstDim zero = nst_dim_const(dims, 0);
    if (nst_dim_compare(dims, layout->offset, NST_DIM_LT, zero) == NST_TRUE ||
        nst_dim_compare(dims, layout->elements, NST_DIM_LT, zero) == NST_TRUE)
        return nst_verify_broken(v, 2, "buffer '%s': offset %s, elements %s", buffer->name,
                                 nst_verify_dim_text(v, layout->offset), nst_verify_dim_text(v, layout->elements));
    for (int axis = 0; axis < buffer->rank; axis++)
        if (!covered[axis] &&
            nst_dim_compare(dims, buffer->shape[axis], NST_DIM_LE, nst_dim_const(dims, 1)) != NST_TRUE)
            return nst_verify_broken(v, 2, "buffer '%s': axis %d of size %s has no part", buffer->name, axis,
                                     nst_verify_dim_text(v, buffer->shape[axis]));
    return NST_OK;
}

static NstStatus check_bits(NstVerifier *v, const NstBuffer *buffer)
{
    const NstDtypeInfo *type = nst_dtype_info(buffer->dtype);
    bool packed = buffer->layout.bits == type->bits && type->bits < 8 && 8 % type->bits == 0 &&
                  buffer->space == NST_SPACE_ARG && buffer->access == NST_ACCESS_IN;
    if (buffer->layout.bits != 8 * type->bytes && !packed)
        return nst_verify_broken(v, 3, "buffer '%s' of %s has %d bits an element", buffer->name, type->name,
                                 buffer->layout.bits);
    return NST_OK;
}

NstStatus nst_verify_buffer(NstVerifier *v, const NstBuffer *buffer)
{
    bool valid = buffer->dtype > NST_DTYPE_NONE && buffer->dtype < NST_DTYPE_COUNT && buffer->rank >= 0 &&
                 buffer->rank <= NST_MAX_RANK && buffer->space <= NST_SPACE_MATRIX;
    if (!valid) return nst_verify_broken(v, 1, "buffer '%s'", buffer->name ? buffer->name : "?");
    for (int axis = 0; axis < buffer->rank; axis++) NST_TRY(nst_verify_dim(v, buffer->shape[axis]));
    NST_TRY(check_layout(v, buffer));
    return check_bits(v, buffer);
}

NstStatus nst_verify_args(NstVerifier *v)
{
    const NstKernel *kernel = v->kernel;
    if (kernel->n_args >= kernel->buffers.n) return nst_verify_broken(v, 1, "%u arguments", kernel->n_args);
    for (uint32_t k = 1; k < kernel->buffers.n; k++) {
        const NstBuffer *buffer = &kernel->buffers.at[k];
        if ((buffer->space == NST_SPACE_ARG) != (k <= kernel->n_args))
            return nst_verify_broken(v, 1, "buffer '%s' is number %u of %u arguments", buffer->name, k, kernel->n_args);
        if (k > kernel->n_args) continue;
        if (buffer->access < NST_ACCESS_IN || buffer->access > NST_ACCESS_INOUT)
            return nst_verify_broken(v, 1, "access of '%s'", buffer->name);
        if (buffer->constant && buffer->access != NST_ACCESS_IN)
            return nst_verify_broken(v, 12, "constant argument '%s' is %s", buffer->name,
                                     nst_access_text(buffer->access));
        if (buffer->streamed && buffer->access != NST_ACCESS_OUT)
            return nst_verify_broken(v, 12, "streamed argument '%s' is %s", buffer->name,
                                     nst_access_text(buffer->access));
        NST_TRY(nst_verify_buffer(v, buffer));
        v->buffer[k] = true;
    }
    return NST_OK;
}

NstStatus nst_verify_buffer_use(NstVerifier *v, NstBuf id)
{
    if (id.i == 0 || id.i >= v->kernel->buffers.n) return nst_verify_broken(v, 1, "buffer number %u", id.i);
    if (!v->buffer[id.i]) return nst_verify_broken(v, 7, "buffer '%s'", nst_verify_buffer_name(v, id));
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, id);
    bool private = buffer->space != NST_SPACE_ARG && buffer->space != NST_SPACE_SHARED;
    if (private && v->buffer_loop[id.i] != v->parallel)
        return nst_verify_broken(v, 24, "%s buffer '%s'", nst_space_text(buffer->space), buffer->name);
    return NST_OK;
}

/* --- accesses ------------------------------------------------------------------------------------------------ */

/* index < 0 - halo or index >= size + halo, rounded up to whole blocks, for all values of the symbols. */
static NstStatus check_range(NstVerifier *v, const NstBuffer *buffer, int axis, NstDim index)
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
        return nst_verify_broken(v, 31, "buffer '%s' axis %d of size %s: index %s", buffer->name, axis,
                                 nst_verify_dim_text(v, buffer->shape[axis]), nst_verify_dim_text(v, index));
    return NST_OK;
}

/* Register tile index: constants and unrolled variables; the last axis may add the lane, or, when it does not and the tile is
 * read, the one before (a transposed read). */
static NstStatus check_reg_index(NstVerifier *v, const NstBuffer *buffer, int axis, const NstDim *all, bool is_load)
{
    NstDims *dims = v->kernel->dims;
    NstDim index = all[axis], rest = index;
    bool may_add = axis == buffer->rank - 1;
    if (v->vector != NULL && is_load && axis == buffer->rank - 2)
        may_add = !nst_dim_uses(dims, all[axis + 1], v->vector->var);
    if (may_add && v->vector != NULL && nst_dim_uses(dims, index, v->vector->var)) {
        NstDim lane = nst_dim_sub(dims, nst_dim_sym(dims, v->vector->var), v->vector->begin);
        if (v->vector->step != 1) lane = nst_dim_floordiv(dims, lane, nst_dim_const(dims, v->vector->step));
        rest = nst_dim_sub(dims, index, lane);
    }
    if (nst_verify_any_sym(v, rest, is_not_unrolled))
        return nst_verify_broken(v, 22, "register tile '%s' axis %d: index %s", buffer->name, axis,
                                 nst_verify_dim_text(v, index));
    return NST_OK;
}

static NstStatus check_access(NstVerifier *v, NstBuf id, const NstDim *index, uint32_t n_index, bool is_load)
{
    NST_TRY(nst_verify_buffer_use(v, id));
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, id);
    if (n_index != (uint32_t)buffer->rank)
        return nst_verify_broken(v, 9, "buffer '%s' has %d axes and is accessed with %u indices", buffer->name,
                                 buffer->rank, n_index);
    if (buffer->space == NST_SPACE_MATRIX) return nst_verify_broken(v, 36, "an access to '%s'", buffer->name);
    for (int axis = 0; axis < buffer->rank; axis++) {
        NST_TRY(nst_verify_dim(v, index[axis]));
        if (buffer->space == NST_SPACE_REG) NST_TRY(check_reg_index(v, buffer, axis, index, is_load));
        if (v->maybe_dead == 0) NST_TRY(check_range(v, buffer, axis, index[axis]));
    }
    return NST_OK;
}

NstStatus nst_verify_parallel_store(NstVerifier *v, NstBuf id, const NstDim *index, uint32_t n_index)
{
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, id);
    bool outside = buffer->space == NST_SPACE_ARG || v->buffer_loop[id.i] != v->parallel;
    if (v->parallel == 0 || v->parallel_once || v->never != 0 || !outside) return NST_OK;
    for (uint32_t k = 0; k < n_index; k++)
        if (nst_verify_any_sym(v, index[k], nst_verify_is_by_iteration)) return NST_OK;
    return nst_verify_broken(v, 25, "store to '%s'", buffer->name);
}

NstStatus nst_verify_access(NstVerifier *v, NstBuf id, const NstDim *index, uint32_t n_index)
{
    return check_access(v, id, index, n_index, false);
}

static NstStatus check_load(NstVerifier *v, const NstExprNode *node)
{
    NST_TRY(check_access(v, (NstBuf){node->ref}, node->index, node->n_index, true));
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, (NstBuf){node->ref});
    int wide = nst_dtype_info(node->type)->bytes, bytes = nst_dtype_info(buffer->dtype)->bytes;
    bool whole = wide % bytes == 0 && buffer->layout.bits >= 8;
    if (node->type != buffer->dtype && !whole)
        return nst_verify_broken(v, 10, "buffer '%s' of %s is read as %s", buffer->name, type_text(buffer->dtype),
                                 type_text(node->type));
    return NST_OK;
}

/* --- expressions --------------------------------------------------------------------------------------------- */

static NstStatus check_node(NstVerifier *v, const NstExprNode *node)
{
    switch (node->op) {
    case NST_OP_LOAD: return check_load(v, node);
    case NST_OP_INDEX: return nst_verify_dim(v, node->index[0]);
    case NST_OP_ARG: return nst_verify_broken(v, 16, "operand slot %u", node->ref);
    case NST_OP_LET:
        if (node->ref == 0 || node->ref >= v->kernel->lets.n)
            return nst_verify_broken(v, 1, "let number %u", node->ref);
        if (!v->let[node->ref]) return nst_verify_broken(v, 6, "let '%s'", v->kernel->lets.at[node->ref].name);
        return NST_OK;
    default: return NST_OK;
    }
}

static void visit_node(void *arg, NstExpr e, const NstExprNode *node)
{
    NstVerifier *v = arg;
    (void)e;
    if (v->status == NST_OK) v->status = check_node(v, node);
}

NstStatus nst_verify_expr(NstVerifier *v, NstExpr e, NstDtype type, const char *what)
{
    if (e.i == 0 || e.i > nst_exprs_count(v->kernel->exprs)) return nst_verify_broken(v, 1, "%s is not set", what);
    v->status = NST_OK;
    nst_expr_visit(v->kernel->exprs, e, visit_node, v);
    NST_TRY(v->status);
    NstDtype given = nst_expr(v->kernel->exprs, e)->type;
    if (type != NST_DTYPE_NONE && given != type)
        return nst_verify_broken(v, 11, "%s is %s and must be %s", what, type_text(given), type_text(type));
    return NST_OK;
}

typedef struct Merge {
    NstVerifier *v;
    const NstStore *store;
} Merge;

static void visit_merge(void *arg, NstExpr e, const NstExprNode *node)
{
    Merge *merge = arg;
    NstVerifier *v = merge->v;
    (void)e;
    if (v->status != NST_OK) return;
    if (node->op == NST_OP_LOAD || node->op == NST_OP_LET || node->op == NST_OP_INDEX)
        v->status = nst_verify_broken(v, 14, "a merge reads something other than its operands");
    if (node->op != NST_OP_ARG) return;
    uint32_t n = merge->store->n_targets;
    bool known = node->ref < 2 * n;
    NstDtype type =
        known ? nst_kernel_buffer(v->kernel, merge->store->target[node->ref % n].buffer)->dtype : NST_DTYPE_NONE;
    if (!known || node->type != type)
        v->status = nst_verify_broken(v, 14, "operand slot %u of %s", node->ref, type_text(node->type));
}

NstStatus nst_verify_merge(NstVerifier *v, const NstStore *store, const NstStoreTarget *target)
{
    NstDtype type = nst_kernel_buffer(v->kernel, target->buffer)->dtype;
    const NstExprs *exprs = v->kernel->exprs;
    if (target->merge.i == 0 || target->identity.i == 0) return nst_verify_broken(v, 1, "merge or identity is not set");
    Merge merge = {.v = v, .store = store};
    v->status = NST_OK;
    nst_expr_visit(exprs, target->merge, visit_merge, &merge);
    NST_TRY(v->status);
    if (nst_expr(exprs, target->merge)->type != type)
        return nst_verify_broken(v, 14, "the merge gives %s for %s", type_text(nst_expr(exprs, target->merge)->type),
                                 type_text(type));
    if (nst_expr(exprs, target->identity)->op != NST_OP_CONST || nst_expr(exprs, target->identity)->type != type)
        return nst_verify_broken(v, 15, "identity of '%s'", nst_verify_buffer_name(v, target->buffer));
    return NST_OK;
}
