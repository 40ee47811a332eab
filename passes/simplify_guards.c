/* simplify_guards.c: conditions decided and loops narrowed, bottom up over the tree.
 *
 * A condition is a conjunction; one conjunct is decided from the bounds of the symbols in it (nst_dim_compare) or because an
 * if around has it.  Source: loop bounds from guards as in Fourier-Motzkin with one variable a step.  Cost: linear in the
 * kernel times the prover's steps. */
#include "passes/simplify.h"

#include "ir/base/map.h"
#include "ir/base/status.h"

#define MAX_CONJUNCTS 64

typedef struct Guards {
    NstCtx *ctx;
    NstKernel *kernel;
    NstDims *dims;
    NstExprs *exprs;
    NST_VEC(NstExpr) known; /* conjuncts of the ifs around */
    bool in_vector;
    NstMap by_lane; /* symbols that may differ by lane of the vector loop around -> 1 */
    NstMap n_loops; /* symbol -> loops that have it as their variable */
    bool changed;
} Guards;

/* --- conditions ---------------------------------------------------------------------------------------------- */

/* The operand of an index comparison as a dim. */
static bool operand_dim(const Guards *g, NstExpr e, NstDim *dim)
{
    const NstExprNode *node = nst_expr(g->exprs, e);
    if (node->op == NST_OP_INDEX)
        *dim = node->index[0];
    else if (node->op == NST_OP_CONST && node->type == NST_I64)
        *dim = nst_dim_const(g->dims, node->imm.i);
    else
        return false;
    return true;
}

static bool compare_op(NstScalarOp op, NstDimCompare *compare)
{
    switch (op) {
    case NST_OP_EQ: *compare = NST_DIM_EQ; return true;
    case NST_OP_NE: *compare = NST_DIM_NE; return true;
    case NST_OP_LT: *compare = NST_DIM_LT; return true;
    case NST_OP_LE: *compare = NST_DIM_LE; return true;
    case NST_OP_GT: *compare = NST_DIM_GT; return true;
    case NST_OP_GE: *compare = NST_DIM_GE; return true;
    default: return false;
    }
}

/* What is known of one comparison. */
static NstTruth decide(const Guards *g, const NstExprNode *node)
{
    NstDimCompare compare;
    NstDim a, b;
    if (!compare_op(node->op, &compare) || !operand_dim(g, node->arg[0], &a) || !operand_dim(g, node->arg[1], &b))
        return NST_UNKNOWN;
    return nst_dim_compare(g->dims, a, compare, b);
}

static NstExpr decide_node(void *arg, NstExprs *exprs, NstExpr e)
{
    const Guards *g = arg;
    const NstExprNode *node = nst_expr(exprs, e);
    if (node->type != NST_BOOL) return (NstExpr){0};
    for (uint32_t k = 0; k < g->known.n; k++)
        if (g->known.at[k].i == e.i) return nst_expr_int(exprs, NST_BOOL, 1);
    switch (decide(g, node)) {
    case NST_TRUE: return nst_expr_int(exprs, NST_BOOL, 1);
    case NST_FALSE: return nst_expr_int(exprs, NST_BOOL, 0);
    case NST_UNKNOWN: break;
    }
    return (NstExpr){0};
}

static void decide_in(Guards *g, NstExpr *e)
{
    NstExpr decided = nst_expr_rewrite(g->exprs, *e, decide_node, g);
    g->changed = g->changed || decided.i != e->i;
    *e = decided;
}

/* Appends the conjuncts of a condition; false if there are too many. */
static bool list_conjuncts(const Guards *g, NstExpr e, NstExpr *conjunct, uint32_t *n)
{
    const NstExprNode *node = nst_expr(g->exprs, e);
    if (node->op == NST_OP_AND)
        return list_conjuncts(g, node->arg[0], conjunct, n) && list_conjuncts(g, node->arg[1], conjunct, n);
    if (*n == MAX_CONJUNCTS) return false;
    conjunct[(*n)++] = e;
    return true;
}

static NstExpr join(const Guards *g, NstExpr a, NstExpr b)
{
    return a.i == 0 ? b : nst_expr_binary(g->exprs, NST_OP_AND, a, b);
}

static bool is_const_bool(const Guards *g, NstExpr e, bool *value)
{
    const NstExprNode *node = nst_expr(g->exprs, e);
    *value = node->imm.i != 0;
    return node->op == NST_OP_CONST;
}

/* --- loops --------------------------------------------------------------------------------------------------- */

/* A comparison as e >= 0 with e = coef * var + rest, coef a constant that is not 0. */
static bool linear_guard(const Guards *g, NstExpr condition, NstSym var, int64_t *coef, NstDim *rest)
{
    const NstExprNode *node = nst_expr(g->exprs, condition);
    NstDimCompare compare;
    NstDim a, b, e, factor;
    if (!compare_op(node->op, &compare) || !operand_dim(g, node->arg[0], &a) || !operand_dim(g, node->arg[1], &b))
        return false;
    switch (compare) {
    case NST_DIM_GE: e = nst_dim_sub(g->dims, a, b); break;
    case NST_DIM_LE: e = nst_dim_sub(g->dims, b, a); break;
    case NST_DIM_GT: e = nst_dim_add_const(g->dims, nst_dim_sub(g->dims, a, b), -1); break;
    case NST_DIM_LT: e = nst_dim_add_const(g->dims, nst_dim_sub(g->dims, b, a), -1); break;
    default: return false;
    }
    return nst_dim_uses(g->dims, e, var) && nst_dim_linear(g->dims, e, var, &factor, rest) &&
           nst_dim_is_const(g->dims, factor, coef) && *coef != 0 && *coef != INT64_MIN;
}

static bool differs_by_lane(const Guards *g, NstDim dim)
{
    const NstDimNode *node = nst_dim_node(g->dims, dim);
    if (node->op == NST_DIM_SYM) return nst_map_get(&g->by_lane, node->sym.i, 0) != 0;
    for (uint32_t k = 0; node->op != NST_DIM_CONST && k < node->n; k++)
        if (differs_by_lane(g, node->arg[k])) return true;
    return false;
}

/* Narrows a loop to where the condition holds; false if it cannot be said by the bounds of a loop of this kind. */
static bool narrow(Guards *g, NstFor *loop, NstExpr condition)
{
    int64_t coef, unused;
    NstDim rest, begin = loop->begin, end = loop->end;
    if (!linear_guard(g, condition, loop->var, &coef, &rest)) return false;
    if (coef > 0) {                                                        /* var >= ceil(-rest / coef) */
        if (loop->step != 1 || loop->kind == NST_FOR_VECTOR) return false; /* the phase, the lane 0 */
        NstDim least = nst_dim_ceildiv(g->dims, nst_dim_mul_const(g->dims, rest, -1), nst_dim_const(g->dims, coef));
        begin = nst_dim_max(g->dims, begin, least);
    } else { /* var <= floor(rest / -coef) */
        NstDim most = nst_dim_floordiv(g->dims, rest, nst_dim_const(g->dims, -coef));
        end = nst_dim_min(g->dims, end, nst_dim_add_const(g->dims, most, 1));
    }
    bool constant = nst_dim_is_const(g->dims, nst_dim_sub(g->dims, end, begin), &unused);
    if (loop->kind == NST_FOR_UNROLL && !constant) return false;
    if (g->in_vector && (differs_by_lane(g, begin) || differs_by_lane(g, end))) return false;
    loop->begin = begin;
    loop->end = end;
    bool shared = nst_map_get(&g->n_loops, loop->var.i, 0) > 1; /* then the wider bounds stay true of all */
    if (!shared) nst_kernel_index_bounds(g->kernel, loop->var, begin, end);
    return true;
}

/* True if a condition is made of indices alone and none of them is var. */
typedef struct Uses {
    const Guards *g;
    NstSym var;
    bool found;
} Uses;

static void visit_use(void *arg, NstExpr e, const NstExprNode *node)
{
    Uses *uses = arg;
    (void)e;
    if (node->op == NST_OP_LOAD || node->op == NST_OP_LET) uses->found = true;
    if (node->op == NST_OP_INDEX && nst_dim_uses(uses->g->dims, node->index[0], uses->var)) uses->found = true;
}

static bool is_free_of(const Guards *g, NstExpr condition, NstSym var)
{
    Uses uses = {.g = g, .var = var};
    nst_expr_visit(g->exprs, condition, visit_use, &uses);
    return !uses.found;
}

/* When an if without else is all of a loop's body, its conjuncts go to the loop's bounds or, through *outer (none when there
 * are none), to an if around the loop. */
static void split_guard(Guards *g, NstFor *loop, NstExpr *outer)
{
    NstStmt *branch = loop->body.n == 1 ? loop->body.at[0] : NULL;
    *outer = (NstExpr){0};
    if (branch == NULL || branch->kind != NST_STMT_IF || branch->u.branch.otherwise.n != 0) return;
    NstExpr conjunct[MAX_CONJUNCTS], rest = {0};
    uint32_t n = 0, kept = 0;
    if (!list_conjuncts(g, branch->u.branch.condition, conjunct, &n)) return;
    for (uint32_t k = 0; k < n; k++) {
        if (is_free_of(g, conjunct[k], loop->var))
            *outer = join(g, *outer, conjunct[k]);
        else if (!narrow(g, loop, conjunct[k])) {
            rest = join(g, rest, conjunct[k]);
            kept++;
        }
    }
    if (kept == n) return;
    g->changed = true;
    if (kept == 0)
        loop->body = branch->u.branch.then;
    else
        branch->u.branch.condition = rest;
}

/* --- walk ---------------------------------------------------------------------------------------------------- */

static void do_block(Guards *g, NstBlock *block);

/* A block made part of the block around: what it defines is defined anew, since a sibling may define the same ids. */
static void inline_block(Guards *g, const NstBlock *block, const NstSymValue *value, uint32_t n, NstBlock *out)
{
    NstBlock copy = nst_block_clone(g->kernel, block, value, n, true);
    for (uint32_t k = 0; k < copy.n; k++) nst_block_add(g->kernel, out, copy.at[k]);
}

static void do_for(Guards *g, NstStmt *stmt, NstBlock *out)
{
    NstFor *loop = &stmt->u.loop;
    NstDims *dims = g->dims;
    int64_t least, most; /* bounds are cheap; proofs for every loop were a seventh of compile time (2026-11-29) */
    nst_dim_bounds(dims, nst_dim_sub(dims, loop->end, loop->begin), &least, &most);
    if (most <= 0) {
        g->changed = true;
        return;
    }
    if (loop->kind == NST_FOR_VECTOR) {
        g->in_vector = true;
        nst_map_put(&g->by_lane, loop->var.i, 1);
    }
    do_block(g, &loop->body);
    if (loop->kind == NST_FOR_VECTOR) g->in_vector = false;
    NstExpr outer;
    split_guard(g, loop, &outer);
    if (loop->body.n == 0) {
        g->changed = true;
        return;
    }
    nst_dim_bounds(dims, nst_dim_sub(dims, loop->end, loop->begin), &least, &most); /* it may be narrower now */
    bool once = least >= 1 && most <= loop->step;
    if (outer.i != 0) {
        NstStmt *branch = nst_stmt_if(g->kernel, outer);
        branch->origin = stmt->origin;
        nst_block_add(g->kernel, out, branch);
        out = &branch->u.branch.then;
    }
    if (!once || loop->kind == NST_FOR_VECTOR) {
        nst_block_add(g->kernel, out, stmt);
        return;
    }
    g->changed = true;
    inline_block(g, &loop->body, &(NstSymValue){loop->var, loop->begin}, 1, out);
}

static void visit_load(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    if (node->op == NST_OP_LOAD) *(bool *)arg = true;
}

/* Inside an if its conjuncts are known, but for those that read what the body may change. */
static void push_known(Guards *g, NstExpr condition)
{
    NstExpr conjunct[MAX_CONJUNCTS];
    uint32_t n = 0;
    if (!list_conjuncts(g, condition, conjunct, &n)) return;
    for (uint32_t k = 0; k < n; k++) {
        bool loads = false;
        nst_expr_visit(g->exprs, conjunct[k], visit_load, &loads);
        if (!loads) nst_vec_push(g->kernel->arena, &g->known, conjunct[k]);
    }
}

static void do_if(Guards *g, NstStmt *stmt, NstBlock *out)
{
    NstBlock *then = &stmt->u.branch.then, *otherwise = &stmt->u.branch.otherwise;
    uint32_t mark = g->known.n;
    bool value;
    decide_in(g, &stmt->u.branch.condition);
    bool decided = is_const_bool(g, stmt->u.branch.condition, &value);
    if (!decided) push_known(g, stmt->u.branch.condition);
    if (!decided || value) do_block(g, then);
    g->known.n = mark;
    if (!decided || !value) do_block(g, otherwise);
    if (decided || (then->n == 0 && otherwise->n == 0)) g->changed = true;
    if (decided)
        inline_block(g, value ? then : otherwise, NULL, 0, out);
    else if (then->n != 0 || otherwise->n != 0)
        nst_block_add(g->kernel, out, stmt);
}

static void decide_root(void *arg, NstExpr *e)
{
    decide_in(arg, e);
}

static void do_block(Guards *g, NstBlock *block)
{
    NstBlock out = {0};
    for (uint32_t k = 0; k < block->n; k++) {
        NstStmt *stmt = block->at[k];
        if (stmt->kind != NST_STMT_IF) nst_stmt_visit_exprs(stmt, decide_root, g);
        if (stmt->kind == NST_STMT_INDEX && g->in_vector) nst_map_put(&g->by_lane, stmt->u.index.var.i, 1);
        if (stmt->kind == NST_STMT_FOR) {
            do_for(g, stmt, &out);
        } else if (stmt->kind == NST_STMT_IF) {
            do_if(g, stmt, &out);
        } else {
            if (stmt->kind == NST_STMT_WHILE) do_block(g, &stmt->u.repeat.body);
            nst_block_add(g->kernel, &out, stmt);
        }
    }
    *block = out;
}

static void count_loop(void *arg, NstStmt *stmt, int depth)
{
    Guards *g = arg;
    (void)depth;
    if (stmt->kind != NST_STMT_FOR) return;
    uint32_t var = stmt->u.loop.var.i;
    nst_map_put(&g->n_loops, var, nst_map_get(&g->n_loops, var, 0) + 1);
}

NstStatus nst_simplify_guards(NstCtx *ctx, NstKernel *kernel, bool *changed)
{
    Guards g = {.ctx = ctx, .kernel = kernel, .dims = kernel->dims, .exprs = kernel->exprs};
    nst_map_init(&g.n_loops, kernel->arena);
    nst_map_init(&g.by_lane, kernel->arena);
    nst_block_visit(&kernel->body, count_loop, &g);
    do_block(&g, &kernel->body);
    *changed = g.changed;
    return NST_OK;
}
