/* xform.c: see xform.h.  A tile's variables count from 0; the old variable becomes begin + step * (tile * factor + inner), so
 * that indices stay sums that address arithmetic and register tiles can use. */
#include "passes/xform.h"

#include "ir/base/map.h"
#include "ir/base/status.h"

static NstFor *loop_at(const NstBlock *block, uint32_t at)
{
    NST_ASSERT(at < block->n && block->at[at]->kind == NST_STMT_FOR);
    return &block->at[at]->u.loop;
}

static const char *var_name(NstKernel *kernel, NstSym var)
{
    return nst_dims_sym(kernel->dims, var)->name;
}

static bool holds(NstDims *dims, NstDim a, NstDimCompare op, NstDim b)
{
    return nst_dim_compare(dims, a, op, b) == NST_TRUE;
}

/* Number of iterations, never negative. */
static NstDim trip_count(NstDims *dims, const NstFor *loop)
{
    NstDim zero = nst_dim_const(dims, 0);
    NstDim n = nst_dim_ceildiv(dims, nst_dim_sub(dims, loop->end, loop->begin), nst_dim_const(dims, loop->step));
    return holds(dims, n, NST_DIM_GE, zero) ? n : nst_dim_max(dims, n, zero);
}

/* --- split --------------------------------------------------------------------------------------------------- */

/* One loop over tiles [first, last), each of `size` iterations; the tile's first iteration is tile * stride + skip. */
typedef struct Tiles {
    NstDim first, last, size, stride, skip;
} Tiles;

typedef struct Splitter {
    NstCtx *ctx;
    NstKernel *kernel;
    const NstStmt *stmt; /* the loop that is split */
    NstForKind inner;
    int64_t width;
    bool copied; /* the body has been used once */
    NstStmt *made[2];
    uint32_t n;
} Splitter;

/* The body with the old variable standing for iteration `k` of the old loop. */
static NstBlock body_at(Splitter *s, NstDim k)
{
    const NstFor *loop = &s->stmt->u.loop;
    NstDims *dims = s->kernel->dims;
    NstDim value = nst_dim_add(dims, loop->begin, nst_dim_mul_const(dims, k, loop->step));
    NstBlock body = nst_block_clone(s->kernel, &loop->body, &(NstSymValue){loop->var, value}, 1, s->copied);
    s->copied = true;
    return body;
}

static NstStmt *new_loop(Splitter *s, const char *name, NstDim begin, NstDim end, NstForKind kind, NstDim *var)
{
    NstSym sym = nst_kernel_index(s->kernel, name, begin, end);
    NstStmt *stmt = nst_stmt_for(s->kernel, sym, begin, end, 1, kind, kind == NST_FOR_VECTOR ? s->width : 0);
    stmt->origin = s->stmt->origin;
    *var = nst_dim_sym(s->kernel->dims, sym);
    return stmt;
}

/* Whether the kind of the inner loops allows this many iterations. */
static NstStatus check_inner(Splitter *s, NstDim size)
{
    NstDims *dims = s->kernel->dims;
    int64_t value;
    const char *name = var_name(s->kernel, s->stmt->u.loop.var);
    NST_CHECK(s->ctx, s->inner != NST_FOR_UNROLL || nst_dim_is_const(dims, size, &value), NST_E_INVALID,
              "split of '%s': an unrolled inner loop needs a constant size", name);
    NST_CHECK(s->ctx, s->inner != NST_FOR_VECTOR || holds(dims, size, NST_DIM_LE, nst_dim_const(dims, s->width)),
              NST_E_INVALID, "split of '%s': tiles are not provably at most %lld wide", name, (long long)s->width);
    return NST_OK;
}

/* Appends tiles; a single tile has no outer loop.  The inner size may depend on the tile (end set: at most end - start). */
static NstStatus add_tiles(Splitter *s, Tiles tiles, NstDim end)
{
    NstKernel *kernel = s->kernel;
    NstDims *dims = kernel->dims;
    const NstFor *loop = &s->stmt->u.loop;
    const char *name = var_name(kernel, loop->var);
    if (holds(dims, tiles.first, NST_DIM_GE, tiles.last)) return NST_OK;
    NstDim tile, inner, one = nst_dim_const(dims, 1);
    bool single = nst_dim_same(nst_dim_sub(dims, tiles.last, tiles.first), one);
    NstStmt *outer = NULL;
    if (!single)
        outer = new_loop(s, nst_format(kernel->arena, "%s_tile", name), tiles.first, tiles.last, loop->kind, &tile);
    else
        tile = tiles.first;
    NstDim start = nst_dim_add(dims, nst_dim_mul(dims, tile, tiles.stride), tiles.skip), size = tiles.size;
    if (end.i != 0) size = nst_dim_min(dims, size, nst_dim_sub(dims, end, start));
    NST_TRY(check_inner(s, size));
    NstStmt *stmt = new_loop(s, name, nst_dim_const(dims, 0), size, s->inner, &inner);
    stmt->u.loop.body = body_at(s, nst_dim_add(dims, start, inner));
    if (outer != NULL) nst_block_add(kernel, &outer->u.loop.body, stmt);
    s->made[s->n++] = outer != NULL ? outer : stmt;
    return NST_OK;
}

static NstStatus split_balanced(Splitter *s, NstDim n, NstDim factor)
{
    NstDims *dims = s->kernel->dims;
    NstDim zero = nst_dim_const(dims, 0), one = nst_dim_const(dims, 1), none = {0};
    NstDim tiles = nst_dim_ceildiv(dims, n, factor);
    if (!holds(dims, tiles, NST_DIM_GE, one)) tiles = nst_dim_max(dims, tiles, one);
    NstDim q = nst_dim_floordiv(dims, n, tiles), larger = nst_dim_mod(dims, n, tiles);
    NstDim q1 = nst_dim_add_const(dims, q, 1);
    NST_TRY(add_tiles(s, (Tiles){.first = zero, .last = larger, .size = q1, .stride = q1, .skip = zero}, none));
    return add_tiles(s, (Tiles){.first = larger, .last = tiles, .size = q, .stride = q, .skip = larger}, none);
}

static NstStatus split_tail(Splitter *s, NstDim n, NstDim factor)
{
    NstDims *dims = s->kernel->dims;
    NstDim zero = nst_dim_const(dims, 0), one = nst_dim_const(dims, 1), none = {0};
    NstDim whole = nst_dim_floordiv(dims, n, factor), rest = nst_dim_mod(dims, n, factor);
    NST_TRY(add_tiles(s, (Tiles){.first = zero, .last = whole, .size = factor, .stride = factor, .skip = zero}, none));
    if (holds(dims, rest, NST_DIM_EQ, zero)) return NST_OK;
    Tiles tail = {.first = zero, .last = one, .size = rest, .stride = zero, .skip = nst_dim_mul(dims, whole, factor)};
    return add_tiles(s, tail, none);
}

NstStatus nst_xform_split(NstCtx *ctx, NstKernel *kernel, NstBlock *block, uint32_t at, int64_t factor, NstSplit split,
                          NstForKind inner, int64_t width, uint32_t *n)
{
    const NstFor *loop = loop_at(block, at);
    NstDims *dims = kernel->dims;
    Splitter s = {.ctx = ctx, .kernel = kernel, .stmt = block->at[at], .inner = inner, .width = width};
    NST_CHECK(ctx, loop->kind != NST_FOR_VECTOR && factor >= 1, NST_E_INVALID, "split of '%s' by %lld",
              var_name(kernel, loop->var), (long long)factor);
    NstDim count = trip_count(dims, loop), size = nst_dim_const(dims, factor), zero = nst_dim_const(dims, 0);
    Tiles tiles = {
        .first = zero, .last = nst_dim_ceildiv(dims, count, size), .size = size, .stride = size, .skip = zero};
    switch (split) {
    case NST_SPLIT_EXACT:
        NST_CHECK(ctx, holds(dims, nst_dim_mod(dims, count, size), NST_DIM_EQ, zero), NST_E_INVALID,
                  "split of '%s': %lld does not provably divide its trip count", var_name(kernel, loop->var),
                  (long long)factor);
        NST_TRY(add_tiles(&s, tiles, (NstDim){0}));
        break;
    case NST_SPLIT_MIN: NST_TRY(add_tiles(&s, tiles, count)); break;
    case NST_SPLIT_TAIL: NST_TRY(split_tail(&s, count, size)); break;
    case NST_SPLIT_BALANCED: NST_TRY(split_balanced(&s, count, size)); break;
    }
    nst_block_splice(kernel, block, at, 1, s.made, s.n);
    *n = s.n;
    return NST_OK;
}

/* --- reorder, unroll, cut, fuse ------------------------------------------------------------------------------ */

NstStatus nst_xform_reorder(NstCtx *ctx, NstKernel *kernel, NstBlock *block, uint32_t at, uint32_t n,
                            const uint32_t *order)
{
    NstStmt **stmt = NST_NEW_ARRAY(kernel->arena, NstStmt *, n);
    NstFor *old = NST_NEW_ARRAY(kernel->arena, NstFor, n);
    for (uint32_t k = 0; k < n; k++) {
        stmt[k] = k == 0 ? block->at[at] : old[k - 1].body.at[0];
        bool loop = stmt[k]->kind == NST_STMT_FOR && (k == 0 || old[k - 1].body.n == 1);
        NST_CHECK(ctx, loop, NST_E_INVALID, "reorder: the nest is perfect to depth %u of %u", k, n);
        old[k] = stmt[k]->u.loop;
        if (k + 1 < n) NST_CHECK(ctx, old[k].body.n >= 1, NST_E_INVALID, "reorder: the loop at depth %u is empty", k);
    }
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t inside = k + 1; inside < n; inside++) {
            NstSym var = old[order[inside]].var;
            bool uses = nst_dim_uses(kernel->dims, old[order[k]].begin, var) ||
                        nst_dim_uses(kernel->dims, old[order[k]].end, var);
            NST_CHECK(ctx, !uses, NST_E_INVALID, "reorder: the bounds of '%s' depend on '%s'",
                      var_name(kernel, old[order[k]].var), var_name(kernel, var));
        }
    NstBlock innermost = old[n - 1].body;
    for (uint32_t k = 0; k < n; k++) {
        NstBlock body = stmt[k]->u.loop.body;
        stmt[k]->u.loop = old[order[k]];
        stmt[k]->u.loop.body = k + 1 < n ? body : innermost;
    }
    return NST_OK;
}

NstStatus nst_xform_unroll(NstCtx *ctx, NstKernel *kernel, NstBlock *block, uint32_t at, int64_t limit, uint32_t *n)
{
    const NstFor *loop = loop_at(block, at);
    NstDims *dims = kernel->dims;
    int64_t count = 0;
    bool known = nst_dim_is_const(dims, trip_count(dims, loop), &count);
    NST_CHECK(ctx, known && count <= limit && loop->kind != NST_FOR_VECTOR, NST_E_INVALID,
              "unroll of '%s': the trip count is no constant of at most %lld", var_name(kernel, loop->var),
              (long long)limit);
    NstBlock made = {0};
    for (int64_t k = 0; k < count; k++) {
        NstDim value = nst_dim_add_const(dims, loop->begin, k * loop->step);
        NstBlock copy = nst_block_clone(kernel, &loop->body, &(NstSymValue){loop->var, value}, 1, k > 0);
        for (uint32_t m = 0; m < copy.n; m++) nst_block_add(kernel, &made, copy.at[m]);
    }
    nst_block_splice(kernel, block, at, 1, made.at, made.n);
    *n = made.n;
    return NST_OK;
}

NstStatus nst_xform_cut(NstCtx *ctx, NstKernel *kernel, NstBlock *block, uint32_t at, NstDim where)
{
    NstFor *loop = loop_at(block, at);
    NstDims *dims = kernel->dims;
    NstDim phase = nst_dim_mod(dims, nst_dim_sub(dims, where, loop->begin), nst_dim_const(dims, loop->step));
    bool fits = loop->step == 1 || holds(dims, phase, NST_DIM_EQ, nst_dim_const(dims, 0));
    NST_CHECK(ctx, fits && loop->kind != NST_FOR_VECTOR, NST_E_INVALID, "cut of '%s'", var_name(kernel, loop->var));
    if (!holds(dims, where, NST_DIM_GE, loop->begin)) where = nst_dim_max(dims, where, loop->begin);
    if (!holds(dims, where, NST_DIM_LE, loop->end)) where = nst_dim_min(dims, where, loop->end);
    NstDim begin = loop->begin;
    loop->begin = where;
    NstStmt *pair[2] = {block->at[at], nst_stmt_clone(kernel, block->at[at], NULL, 0, true)};
    loop->begin = begin;
    loop->end = where;
    nst_kernel_index_bounds(kernel, loop->var, begin, where);
    nst_block_splice(kernel, block, at, 1, pair, 2);
    return NST_OK;
}

static bool same_range(const NstFor *a, const NstFor *b)
{
    return nst_dim_same(a->begin, b->begin) && nst_dim_same(a->end, b->end) && a->step == b->step &&
           a->kind == b->kind && a->width == b->width;
}

NstStatus nst_xform_fuse(NstCtx *ctx, NstKernel *kernel, NstBlock *block, uint32_t at)
{
    NstFor *first = loop_at(block, at);
    const NstFor *second = loop_at(block, at + 1);
    NST_CHECK(ctx, same_range(first, second), NST_E_INVALID, "fuse: '%s' and '%s' run differently",
              var_name(kernel, first->var), var_name(kernel, second->var));
    NstSymValue value = {second->var, nst_dim_sym(kernel->dims, first->var)};
    NstBlock copy = nst_block_clone(kernel, &second->body, &value, 1, true);
    for (uint32_t k = 0; k < copy.n; k++) nst_block_add(kernel, &first->body, copy.at[k]);
    nst_block_splice(kernel, block, at + 1, 1, NULL, 0);
    return NST_OK;
}

/* --- independence -------------------------------------------------------------------------------------------- */

/* What accesses to one buffer have in common so far. */
typedef struct Touch {
    bool read, written, opaque; /* opaque: by a call, or with nothing in common */
    bool inside;                /* allocated inside the loop */
    uint32_t in_loops;          /* bit 0 / 1: by the first / second of two loops */
    uint32_t n_axes;
    NstDim *common; /* by axis: the index all share that is linear in the variable; none = not so */
} Touch;

typedef struct Touches {
    NstKernel *kernel;
    Touch *touch;  /* by buffer */
    NstMap inner;  /* symbols defined inside the loops -> 1 */
    NstSym var;    /* of the loop that is looked at */
    NstSym second; /* stands for var: the variable of the second of two loops; none = there is one loop */
    uint32_t loop; /* 0 or 1: the loop whose statements are visited */
    bool barrier;
} Touches;

static bool uses_inner(const Touches *t, NstDim dim)
{
    const NstDimNode *node = nst_dim_node(t->kernel->dims, dim);
    if (node->op == NST_DIM_SYM) return nst_map_get(&t->inner, node->sym.i, 0) != 0;
    for (uint32_t k = 0; node->op != NST_DIM_CONST && k < node->n; k++)
        if (uses_inner(t, node->arg[k])) return true;
    return false;
}

/* The index if it is a linear function of the loop variable that nothing inside the loop changes, else none. */
static NstDim private_index(const Touches *t, NstDim index)
{
    NstDims *dims = t->kernel->dims;
    NstDim coef, rest;
    int64_t c;
    if (t->second.i != 0) index = nst_dim_subst(dims, index, t->second, nst_dim_sym(dims, t->var));
    bool linear = nst_dim_linear(dims, index, t->var, &coef, &rest) && nst_dim_is_const(dims, coef, &c) && c != 0;
    return linear && !uses_inner(t, rest) ? index : (NstDim){0};
}

static void add_access(Touches *t, NstBuf buffer, const NstDim *index, uint32_t n, bool write)
{
    Touch *touch = &t->touch[buffer.i];
    bool first = !touch->read && !touch->written;
    touch->read = touch->read || !write;
    touch->written = touch->written || write;
    touch->in_loops |= 1u << t->loop;
    if (first) {
        touch->n_axes = n;
        touch->common = NST_NEW_ARRAY(t->kernel->arena, NstDim, n);
    }
    bool any = false;
    for (uint32_t axis = 0; axis < n && axis < touch->n_axes; axis++) {
        NstDim own = private_index(t, index[axis]);
        if (first)
            touch->common[axis] = own;
        else if (!nst_dim_same(touch->common[axis], own))
            touch->common[axis] = (NstDim){0};
        any = any || touch->common[axis].i != 0;
    }
    touch->opaque = touch->opaque || !any;
}

static void visit_load(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    if (node->op == NST_OP_LOAD) add_access(arg, (NstBuf){node->ref}, node->index, node->n_index, false);
}

static void visit_expr(Touches *t, NstExpr e)
{
    nst_expr_visit(t->kernel->exprs, e, visit_load, t);
}

/* Touched as a whole: nothing is known about where. */
static void add_opaque(Touches *t, NstBuf buffer)
{
    Touch *touch = &t->touch[buffer.i];
    touch->read = touch->written = touch->opaque = true;
    touch->in_loops |= 1u << t->loop;
}

static void visit_stmt(void *arg, NstStmt *stmt, int depth)
{
    Touches *t = arg;
    (void)depth;
    switch (stmt->kind) {
    case NST_STMT_IF: visit_expr(t, stmt->u.branch.condition); break;
    case NST_STMT_LET: visit_expr(t, stmt->u.let.value); break;
    case NST_STMT_INDEX: visit_expr(t, stmt->u.index.value); break;
    case NST_STMT_ASSERT: visit_expr(t, stmt->u.check.condition); break;
    case NST_STMT_STORE:
        for (uint32_t k = 0; k < stmt->u.store.n_targets; k++) {
            visit_expr(t, stmt->u.store.target[k].value);
            add_access(t, stmt->u.store.target[k].buffer, stmt->u.store.index, stmt->u.store.n_index, true);
        }
        break;
    case NST_STMT_CALL:
        for (uint32_t k = 0; k < stmt->u.call.n_args; k++) visit_expr(t, stmt->u.call.arg[k]);
        for (uint32_t k = 0; k < stmt->u.call.n_buffers; k++) add_opaque(t, stmt->u.call.buffer[k]);
        break;
    case NST_STMT_MATRIX:
        add_opaque(t, stmt->u.matrix.matrix);
        if (stmt->u.matrix.memory.i) add_opaque(t, stmt->u.matrix.memory);
        if (stmt->u.matrix.a.i) add_opaque(t, stmt->u.matrix.a);
        if (stmt->u.matrix.b.i) add_opaque(t, stmt->u.matrix.b);
        break;
    case NST_STMT_BARRIER: t->barrier = true; break;
    case NST_STMT_FOR:
    case NST_STMT_WHILE:
    case NST_STMT_BREAK:
    case NST_STMT_ALLOC:
    case NST_STMT_PREFETCH: break;
    }
}

static void visit_definition(void *arg, NstStmt *stmt, int depth)
{
    Touches *t = arg;
    (void)depth;
    if (stmt->kind == NST_STMT_FOR) nst_map_put(&t->inner, stmt->u.loop.var.i, 1);
    if (stmt->kind == NST_STMT_INDEX) nst_map_put(&t->inner, stmt->u.index.var.i, 1);
    if (stmt->kind == NST_STMT_ALLOC) t->touch[stmt->u.alloc.buffer.i].inside = true;
}

static Touches begin_touches(NstKernel *kernel, NstSym var)
{
    Touches t = {.kernel = kernel, .var = var};
    t.touch = NST_NEW_ARRAY(kernel->arena, Touch, kernel->buffers.n);
    nst_map_init(&t.inner, kernel->arena);
    return t;
}

bool nst_xform_may_fuse(NstKernel *kernel, const NstBlock *block, uint32_t at)
{
    const NstFor *loop[2] = {loop_at(block, at), loop_at(block, at + 1)};
    if (!same_range(loop[0], loop[1])) return false;
    Touches t = begin_touches(kernel, loop[0]->var);
    t.second = loop[1]->var;
    for (t.loop = 0; t.loop < 2; t.loop++) {
        NstBlock body = loop[t.loop]->body;
        nst_block_visit(&body, visit_definition, &t);
        nst_block_visit(&body, visit_stmt, &t);
    }
    for (uint32_t k = 1; k < kernel->buffers.n; k++)
        if (t.touch[k].in_loops == 3 && t.touch[k].written && t.touch[k].opaque) return false;
    return !t.barrier;
}

bool nst_xform_is_independent(NstKernel *kernel, const NstFor *loop)
{
    Touches t = begin_touches(kernel, loop->var);
    NstBlock body = loop->body;
    nst_block_visit(&body, visit_definition, &t);
    nst_block_visit(&body, visit_stmt, &t);
    for (uint32_t k = 1; k < kernel->buffers.n; k++)
        if (t.touch[k].written && t.touch[k].opaque && !t.touch[k].inside) return false;
    return !t.barrier;
}
