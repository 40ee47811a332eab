/* canon.c: see canon.h.
 *
 * Every buffer becomes one row of elements, and every access one sum of terms; a term's constant becomes an argument when the
 * loop it belongs to is walked by a pointer, so that it makes no difference whether the step is known: all loops but the
 * innermost ones, whose steps addressing folds, and the unrolled ones, whose places are displacements.  A loop keeps its trip
 * count where conditions, bounds or quotients have its variable: there code is folded by it.  One argument stands
 * for one number as the step of one variable in one buffer.  Cost: linear in the kernel. */
#include "passes/canon.h"

#include "ir/base/map.h"

/* Trip counts are said to be at most one of these: code for loops of little work does not look at the cancel flag
 * (codegen/emit_loop.c), and each look is a block of code more. */
#define SHORT_TRIPS 256
#define LONG_TRIPS  8192

typedef enum Walk {
    WALK_NONE,  /* no loop variable */
    WALK_FAR,   /* steps are added to a pointer, or are multiplied once an iteration of much work */
    WALK_NEAR,  /* of an innermost loop */
    WALK_LANES, /* of a vector loop */
    WALK_UNROLL /* copies of code */
} Walk;

/* Where a number stands: the buffer (0: bounds of loops) and the variable that it is the step of (0: none). */
typedef struct Place {
    uint32_t buffer, var;
} Place;

typedef struct Number {
    Place place;
    NstDim value;
    NstSym sym;
} Number;

typedef struct Canon {
    NstKernel *kernel;
    NstDims *dims;
    NstCanonSyms *syms;
    bool once;
    NstMap walk;             /* index symbol -> Walk */
    NstMap stays;            /* buffer -> 1: keeps its form */
    NstMap judged;           /* index symbol -> 1: more depends on its bounds than places in memory */
    NstMap stated;           /* index symbol -> 1: its bounds are those of the new loops */
    const NstLayout *layout; /* by argument: as it was */
    NST_VEC(Number) numbers;
} Canon;

/* --- arguments ----------------------------------------------------------------------------------------------- */

static bool is_used(const Canon *c, NstSym sym)
{
    for (uint32_t k = 0; k < c->numbers.n; k++)
        if (c->numbers.at[k].sym.i == sym.i) return true;
    return false;
}

/* A symbol of lo .. hi that stands for nothing yet. */
static NstSym free_symbol(Canon *c, int64_t lo, int64_t hi)
{
    NstArena *arena = c->kernel->arena;
    for (uint32_t k = 0; k < c->syms->n; k++) {
        const NstSymInfo *info = nst_dims_sym_info(c->dims, c->syms->at[k]);
        if (info->lo == lo && info->hi == hi && !is_used(c, c->syms->at[k])) return c->syms->at[k];
    }
    const char *name;
    uint32_t number = c->syms->n;
    do name = nst_format(arena, "size%u", number++);
    while (nst_dims_find_sym(c->dims, name, strlen(name)).i);
    NstSym sym = nst_dims_new_sym(c->dims, NST_SYM_INPUT, name, lo, hi);
    nst_vec_push(arena, c->syms, sym);
    return sym;
}

/* The argument that stands for a number at that place. */
static NstDim argument(Canon *c, Place place, NstDim value, int64_t lo, int64_t hi)
{
    for (uint32_t k = 0; k < c->numbers.n; k++) {
        const Number *n = &c->numbers.at[k];
        if (n->place.buffer == place.buffer && n->place.var == place.var && nst_dim_same(n->value, value))
            return nst_dim_sym(c->dims, n->sym);
    }
    Number number = {place, value, free_symbol(c, lo, hi)};
    nst_vec_push(c->kernel->arena, &c->numbers, number);
    return nst_dim_sym(c->dims, number.sym);
}

static NstDim stride(Canon *c, Place place, int64_t value)
{
    return argument(c, place, nst_dim_const(c->dims, value < 0 ? -value : value), 1, INT64_MAX);
}

static Walk walk_of(const Canon *c, NstDim atom)
{
    const NstDimNode *node = nst_dim_node(c->dims, atom);
    if (node->op != NST_DIM_SYM) return WALK_NONE;
    return (Walk)nst_map_get(&c->walk, node->sym.i, WALK_NONE);
}

static bool becomes_argument(const Canon *c, Walk walk)
{
    return walk == WALK_FAR || (c->once && walk != WALK_NONE);
}

static bool is_number(int64_t value)
{
    return (value > 1 || value < -1) && value != INT64_MIN;
}

/* The sum with the numbers of its terms as arguments; offset: its constant too. */
static NstDim rewrite_sum(Canon *c, uint32_t buffer, NstDim sum, bool offset)
{
    const NstDimNode node = *nst_dim_node(c->dims, sum);
    if (node.op != NST_DIM_SUM && node.op != NST_DIM_CONST) return sum;
    offset = offset && is_number(node.value);
    NstDim result = nst_dim_const(c->dims, offset ? 0 : node.value);
    for (uint32_t k = 0; k < node.n; k++) {
        int64_t coef = node.coef[k];
        NstDim term = node.arg[k];
        if (is_number(coef) && becomes_argument(c, walk_of(c, term))) {
            Place place = {buffer, nst_dim_node(c->dims, term)->sym.i};
            term = nst_dim_mul(c->dims, stride(c, place, coef), term);
            coef = coef < 0 ? -1 : 1;
        }
        result = nst_dim_add(c->dims, result, nst_dim_mul_const(c->dims, term, coef));
    }
    if (!offset) return result;
    return nst_dim_add(c->dims, result,
                       nst_dim_mul_const(c->dims, stride(c, (Place){buffer, 0}, node.value), node.value < 0 ? -1 : 1));
}

/* --- loops --------------------------------------------------------------------------------------------------- */

static Walk loop_walk(const NstFor *loop)
{
    if (loop->kind == NST_FOR_VECTOR) return WALK_LANES;
    if (loop->kind == NST_FOR_UNROLL) return WALK_UNROLL;
    return nst_block_has_loop(&loop->body) ? WALK_FAR : WALK_NEAR;
}

static void look_at(void *arg, NstStmt *stmt, int depth)
{
    Canon *c = arg;
    (void)depth;
    switch (stmt->kind) {
    case NST_STMT_FOR: nst_map_put(&c->walk, stmt->u.loop.var.i, loop_walk(&stmt->u.loop)); break;
    case NST_STMT_INDEX: nst_map_put(&c->walk, stmt->u.index.var.i, WALK_FAR); break;
    case NST_STMT_MATRIX: nst_map_put(&c->stays, stmt->u.matrix.memory.i, 1); break;
    case NST_STMT_CALL:
        for (uint32_t k = 0; k < stmt->u.call.n_buffers; k++) nst_map_put(&c->stays, stmt->u.call.buffer[k].i, 1);
        break;
    case NST_STMT_STORE: /* of several buffers at one index: all keep one form */
        for (uint32_t k = 0; stmt->u.store.n_targets > 1 && k < stmt->u.store.n_targets; k++)
            nst_map_put(&c->stays, stmt->u.store.target[k].buffer.i, 1);
        break;
    case NST_STMT_WHILE:
    case NST_STMT_BREAK:
    case NST_STMT_IF:
    case NST_STMT_LET:
    case NST_STMT_ALLOC:
    case NST_STMT_PREFETCH:
    case NST_STMT_BARRIER:
    case NST_STMT_ASSERT: break;
    }
}

/* True for sums of constants and multiples of variables. */
static bool is_linear(const Canon *c, NstDim dim)
{
    const NstDimNode *node = nst_dim_node(c->dims, dim);
    if (node->op == NST_DIM_CONST || node->op == NST_DIM_SYM) return true;
    if (node->op != NST_DIM_SUM) return false;
    for (uint32_t k = 0; k < node->n; k++)
        if (nst_dim_node(c->dims, node->arg[k])->op != NST_DIM_SYM) return false;
    return true;
}

static bool has_constant_extent(const Canon *c, const NstFor *loop, int64_t *trips)
{
    return is_linear(c, loop->begin) && nst_dim_is_const(c->dims, nst_dim_sub(c->dims, loop->end, loop->begin), trips);
}

/* What is folded or decided by the bounds of the variables in a dim; `linear`: their multiples in a sum are not. */
static void judge_dim(Canon *c, NstDim dim, bool linear)
{
    const NstDimNode *node = nst_dim_node(c->dims, dim);
    if (node->op == NST_DIM_SYM && !linear) nst_map_put(&c->judged, node->sym.i, 1);
    bool sum = node->op == NST_DIM_SUM || node->op == NST_DIM_PRODUCT;
    for (uint32_t k = 0; node->op != NST_DIM_CONST && k < node->n; k++) judge_dim(c, node->arg[k], linear && sum);
}

static void judge_node(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    for (uint32_t k = 0; k < node->n_index; k++) judge_dim(arg, node->index[k], node->op == NST_OP_LOAD);
}

static void judge_expr(void *arg, NstExpr *e)
{
    Canon *c = arg;
    if (e->i) nst_expr_visit(c->kernel->exprs, *e, judge_node, c);
}

static void judge_stmt(void *arg, NstStmt *stmt, int depth)
{
    Canon *c = arg;
    int64_t trips;
    (void)depth;
    nst_stmt_visit_exprs(stmt, judge_expr, c);
    if (stmt->kind == NST_STMT_FOR) {
        bool linear = has_constant_extent(c, &stmt->u.loop, &trips);
        judge_dim(c, stmt->u.loop.begin, linear);
        judge_dim(c, stmt->u.loop.end, linear);
    } else if (stmt->kind == NST_STMT_INDEX) {
        judge_dim(c, stmt->u.index.lo, false);
        judge_dim(c, stmt->u.index.hi, false);
    } else if (stmt->kind == NST_STMT_STORE) {
        for (uint32_t k = 0; k < stmt->u.store.n_index; k++) judge_dim(c, stmt->u.store.index[k], true);
    } else if (stmt->kind == NST_STMT_PREFETCH) {
        for (uint32_t k = 0; k < stmt->u.prefetch.n_index; k++) judge_dim(c, stmt->u.prefetch.index[k], true);
    } else if (stmt->kind == NST_STMT_MATRIX) {
        for (uint32_t k = 0; k < stmt->u.matrix.n_index; k++) judge_dim(c, stmt->u.matrix.index[k], true);
    }
}

/* begin .. begin + constant becomes begin' .. begin' + argument. */
static void rewrite_bounds(Canon *c, NstFor *loop)
{
    int64_t trips;
    if (loop->kind == NST_FOR_VECTOR || loop->kind == NST_FOR_UNROLL || nst_map_get(&c->judged, loop->var.i, 0)) return;
    if (!has_constant_extent(c, loop, &trips) || trips <= 1) return;
    NstDim extent = nst_dim_const(c->dims, trips);
    loop->begin = rewrite_sum(c, 0, loop->begin, true);
    int64_t most = trips <= SHORT_TRIPS ? SHORT_TRIPS : trips <= LONG_TRIPS ? LONG_TRIPS : INT64_MAX;
    extent = argument(c, (Place){0, loop->var.i}, extent, 1, most);
    loop->end = nst_dim_add(c->dims, loop->begin, extent);
}

/* What is known of a variable is what the text says of it: kernels of one text may be one. */
static void restate(Canon *c, NstSym var, NstDim begin, NstDim end)
{
    NstSymInfo old = *nst_dims_sym_info(c->dims, var);
    nst_kernel_index_bounds(c->kernel, var, begin, end);
    if (!nst_map_get(&c->stated, var.i, 0)) {
        nst_map_put(&c->stated, var.i, 1);
        return;
    }
    NstSymInfo *info = nst_dims_sym(c->dims, var); /* of several loops: what holds in all */
    info->lo = old.lo < info->lo ? old.lo : info->lo;
    info->hi = old.hi > info->hi ? old.hi : info->hi;
    if (!nst_dim_same(old.lo_dim, info->lo_dim)) info->lo_dim = (NstDim){0};
    if (!nst_dim_same(old.hi_dim, info->hi_dim)) info->hi_dim = (NstDim){0};
}

static void rewrite_loop(void *arg, NstStmt *stmt, int depth)
{
    Canon *c = arg;
    (void)depth;
    if (stmt->kind == NST_STMT_FOR) {
        rewrite_bounds(c, &stmt->u.loop);
        restate(c, stmt->u.loop.var, stmt->u.loop.begin, stmt->u.loop.end);
    }
    if (stmt->kind == NST_STMT_INDEX) restate(c, stmt->u.index.var, stmt->u.index.lo, stmt->u.index.hi);
}

/* --- accesses ------------------------------------------------------------------------------------------------ */

static bool is_flat(const Canon *c, NstBuf buffer)
{
    const NstBuffer *info = nst_kernel_buffer(c->kernel, buffer);
    return info->space == NST_SPACE_ARG && info->layout.bits >= 8 && nst_map_get(&c->stays, buffer.i, 0) == 0;
}

/* The one index that stands for several. */
static NstDim *address(Canon *c, NstBuf buffer, const NstDim *index)
{
    NstDim at = nst_layout_offset(c->dims, &c->layout[buffer.i], index);
    NstDim *one = NST_NEW(c->kernel->arena, NstDim);
    *one = rewrite_sum(c, buffer.i, at, c->once);
    return one;
}

static NstExpr rewrite_load(void *arg, NstExprs *exprs, NstExpr e)
{
    Canon *c = arg;
    const NstExprNode node = *nst_expr(exprs, e);
    NstBuf buffer = {node.ref};
    if (node.op != NST_OP_LOAD || !is_flat(c, buffer)) return (NstExpr){0};
    return nst_expr_load(exprs, node.type, buffer, address(c, buffer, node.index), 1);
}

static void rewrite_expr(void *arg, NstExpr *e)
{
    Canon *c = arg;
    if (e->i) *e = nst_expr_rewrite(c->kernel->exprs, *e, rewrite_load, c);
}

static void rewrite_stmt(void *arg, NstStmt *stmt, int depth)
{
    Canon *c = arg;
    (void)depth;
    nst_stmt_visit_exprs(stmt, rewrite_expr, c);
    if (stmt->kind == NST_STMT_STORE && is_flat(c, stmt->u.store.target[0].buffer)) {
        stmt->u.store.index = address(c, stmt->u.store.target[0].buffer, stmt->u.store.index);
        stmt->u.store.n_index = 1;
    }
    if (stmt->kind == NST_STMT_PREFETCH && is_flat(c, stmt->u.prefetch.buffer)) {
        stmt->u.prefetch.index = address(c, stmt->u.prefetch.buffer, stmt->u.prefetch.index);
        stmt->u.prefetch.n_index = 1;
    }
}

/* Buffers as rows of elements, as many as an argument says. */
static void flatten(Canon *c)
{
    NstLayout *layout = NST_NEW_ARRAY(c->kernel->arena, NstLayout, c->kernel->n_args + 1);
    c->layout = layout;
    for (uint32_t k = 1; k <= c->kernel->n_args; k++) {
        NstBuffer *buffer = nst_kernel_buffer(c->kernel, (NstBuf){k});
        layout[k] = buffer->layout;
        if (!is_flat(c, (NstBuf){k})) continue;
        NstDim *shape = NST_NEW(c->kernel->arena, NstDim);
        *shape = argument(c, (Place){k, 0}, buffer->layout.elements, 0, INT64_MAX);
        buffer->rank = 1;
        buffer->shape = shape;
        buffer->layout = nst_layout_row_major(c->kernel->arena, c->dims, buffer->dtype, 1, shape);
    }
}

void nst_kernel_to_canon(NstKernel *kernel, NstCanonSyms *syms, bool once, NstDim **value)
{
    Canon c = {.kernel = kernel, .dims = kernel->dims, .syms = syms, .once = once};
    nst_map_init(&c.walk, kernel->arena);
    nst_map_init(&c.stays, kernel->arena);
    nst_map_init(&c.judged, kernel->arena);
    nst_map_init(&c.stated, kernel->arena);
    nst_block_visit(&kernel->body, look_at, &c);
    flatten(&c);
    nst_block_visit(&kernel->body, rewrite_stmt, &c); /* first: indices are folded by what loops' bounds say */
    nst_block_visit(&kernel->body, judge_stmt, &c);
    nst_block_visit(&kernel->body, rewrite_loop, &c);
    kernel->params.n = 0;
    nst_kernel_collect_params(kernel);
    *value = NST_NEW_ARRAY(kernel->arena, NstDim, kernel->params.n);
    for (uint32_t k = 0; k < kernel->params.n; k++) {
        (*value)[k] = nst_dim_sym(kernel->dims, kernel->params.at[k]);
        for (uint32_t n = 0; n < c.numbers.n; n++)
            if (c.numbers.at[n].sym.i == kernel->params.at[k].i) (*value)[k] = c.numbers.at[n].value;
    }
}
