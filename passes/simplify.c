/* simplify.c: what does not change is computed once: hoisting out of loops, sharing within a block.
 *
 * Both give a value to a let and put the let's name where the value stood.  Hoisting goes from the innermost loop out, so
 * that a value climbs one loop a step.  Cost: linear in the kernel times its depth, and in the values moved. */
#include "passes/simplify.h"

#include "ir/base/map.h"
#include "ir/base/status.h"

/* Lets that one loop may send out.  They live in registers across the loop: 16 is the number of vector registers of AVX2;
 * not measured (2026-11-29). */
#define MAX_HOISTED 16

/* --- replacing ----------------------------------------------------------------------------------------------- */

typedef struct Replace {
    NstExpr from, to;
} Replace;

static NstExpr replace_node(void *arg, NstExprs *exprs, NstExpr e)
{
    const Replace *replace = arg;
    (void)exprs;
    return e.i == replace->from.i ? replace->to : (NstExpr){0};
}

static NstExpr replace_in(NstKernel *kernel, NstExpr e, NstExpr from, NstExpr to)
{
    Replace replace = {.from = from, .to = to};
    return nst_expr_rewrite(kernel->exprs, e, replace_node, &replace);
}

/* A new let of a value: its statement, and the expression that names it. */
static NstStmt *new_let(NstKernel *kernel, const char *name, NstExpr value, NstOrigin origin, NstExpr *named)
{
    NstDtype type = nst_expr(kernel->exprs, value)->type;
    uint32_t id = nst_kernel_let(kernel, name, type);
    NstStmt *stmt = nst_stmt_let(kernel, id, value);
    stmt->origin = origin;
    *named = nst_expr_let(kernel->exprs, type, id);
    return stmt;
}

/* --- hoisting ------------------------------------------------------------------------------------------------ */

/* One loop that values may leave. */
typedef struct Hoist {
    NstKernel *kernel;
    const NstFor *loop;
    NstMap inner_sym, inner_let, touched; /* ids -> 1: defined inside; buffers written or allocated inside */
    bool loads;                           /* loads may leave here */
    NstMap invariant;                     /* of the expression looked at: id -> 1 */
    NST_VEC(NstExpr) from, to; /* values that left, users after their operands, and the lets that name them */
    NstBlock before;           /* the lets */
} Hoist;

static void note_defined(void *arg, NstStmt *stmt, int depth)
{
    Hoist *h = arg;
    (void)depth;
    switch (stmt->kind) {
    case NST_STMT_FOR: nst_map_put(&h->inner_sym, stmt->u.loop.var.i, 1); break;
    case NST_STMT_INDEX: nst_map_put(&h->inner_sym, stmt->u.index.var.i, 1); break;
    case NST_STMT_LET: nst_map_put(&h->inner_let, stmt->u.let.id, 1); break;
    case NST_STMT_ALLOC: nst_map_put(&h->touched, stmt->u.alloc.buffer.i, 1); break;
    case NST_STMT_STORE:
        for (uint32_t k = 0; k < stmt->u.store.n_targets; k++)
            nst_map_put(&h->touched, stmt->u.store.target[k].buffer.i, 1);
        break;
    case NST_STMT_MATRIX: nst_map_put(&h->touched, nst_matrix_written(&stmt->u.matrix).i, 1); break;
    case NST_STMT_CALL: /* it and other threads may write anything */
    case NST_STMT_BARRIER: h->loads = false; break;
    case NST_STMT_WHILE:
    case NST_STMT_BREAK:
    case NST_STMT_IF:
    case NST_STMT_PREFETCH:
    case NST_STMT_ASSERT: break;
    }
}

static bool uses_inner(const Hoist *h, NstDim dim)
{
    const NstDimNode *node = nst_dim_node(h->kernel->dims, dim);
    if (node->op == NST_DIM_SYM) return nst_map_get(&h->inner_sym, node->sym.i, 0) != 0;
    for (uint32_t k = 0; node->op != NST_DIM_CONST && k < node->n; k++)
        if (uses_inner(h, node->arg[k])) return true;
    return false;
}

static bool is_invariant(const Hoist *h, const NstExprNode *node)
{
    switch (node->op) {
    case NST_OP_CONST: return true;
    case NST_OP_ARG: return false;
    case NST_OP_INDEX: return !uses_inner(h, node->index[0]);
    case NST_OP_LET: return nst_map_get(&h->inner_let, node->ref, 0) == 0;
    case NST_OP_LOAD: {
        bool memory = nst_kernel_buffer(h->kernel, (NstBuf){node->ref})->space != NST_SPACE_REG;
        bool stays = !h->loads || !memory || nst_map_get(&h->touched, node->ref, 0) != 0;
        for (uint32_t k = 0; k < node->n_index; k++) stays = stays || uses_inner(h, node->index[k]);
        return !stays;
    }
    default:
        for (int k = 0; k < nst_scalar_info(node->op)->arity; k++)
            if (nst_map_get(&h->invariant, node->arg[k].i, 0) == 0) return false;
        return true;
    }
}

static void mark_invariant(void *arg, NstExpr e, const NstExprNode *node)
{
    Hoist *h = arg;
    nst_map_put(&h->invariant, e.i, is_invariant(h, node));
}

static bool is_worth_a_let(const Hoist *h, NstExpr e)
{
    const NstExprNode *node = nst_expr(h->kernel->exprs, e);
    return node->op == NST_OP_LOAD || nst_scalar_info(node->op)->arity > 0;
}

static void send_out(Hoist *h, NstExpr value)
{
    if (nst_map_get(&h->invariant, value.i, 0) == 0 || !is_worth_a_let(h, value)) return;
    for (uint32_t k = 0; k < h->from.n; k++)
        if (h->from.at[k].i == value.i) return;
    if (h->from.n == MAX_HOISTED) return;
    NstExpr named, short_value = value;
    for (uint32_t k = h->from.n; k-- > 0;) short_value = replace_in(h->kernel, short_value, h->from.at[k], h->to.at[k]);
    NstStmt *stmt = new_let(h->kernel, "h", short_value, h->kernel->origin, &named);
    nst_block_add(h->kernel, &h->before, stmt);
    nst_vec_push(h->kernel->arena, &h->from, value);
    nst_vec_push(h->kernel->arena, &h->to, named);
    for (uint32_t k = h->from.n - 1; k > 0 && h->from.at[k - 1].i > value.i; k--) {
        h->from.at[k] = h->from.at[k - 1];
        h->to.at[k] = h->to.at[k - 1];
        h->from.at[k - 1] = value;
        h->to.at[k - 1] = named;
    }
}

/* Operands that do not change of an operation that does. */
static void send_operands(void *arg, NstExpr e, const NstExprNode *node)
{
    Hoist *h = arg;
    if (nst_map_get(&h->invariant, e.i, 0) != 0) return;
    for (int k = 0; k < nst_scalar_info(node->op)->arity; k++) send_out(h, node->arg[k]);
}

static void hoist_root(void *arg, NstExpr *e)
{
    Hoist *h = arg;
    nst_map_init(&h->invariant, h->kernel->arena);
    nst_expr_visit(h->kernel->exprs, *e, mark_invariant, h);
    nst_expr_visit(h->kernel->exprs, *e, send_operands, h);
    send_out(h, *e);
    for (uint32_t k = h->from.n; k-- > 0;) *e = replace_in(h->kernel, *e, h->from.at[k], h->to.at[k]);
}

/* After a let became the mere name of another, later expressions see through it. */
typedef struct Alias {
    NstKernel *kernel;
    NstExpr from, to;
} Alias;

static void alias_root(void *arg, NstExpr *e)
{
    const Alias *alias = arg;
    *e = replace_in(alias->kernel, *e, alias->from, alias->to);
}

static void alias_stmt(void *arg, NstStmt *stmt, int depth)
{
    (void)depth;
    nst_stmt_visit_exprs(stmt, alias_root, arg);
}

static bool may_stop(const NstStmt *stmt)
{
    return stmt->kind == NST_STMT_ASSERT || stmt->kind == NST_STMT_WHILE || stmt->kind == NST_STMT_BREAK ||
           stmt->kind == NST_STMT_IF || stmt->kind == NST_STMT_FOR ||
           (stmt->kind == NST_STMT_INDEX && stmt->u.index.checked);
}

/* Takes a let out of the loop's body when its value left. */
static bool drop_alias(Hoist *h, NstFor *loop, uint32_t at)
{
    const NstStmt *stmt = loop->body.at[at];
    if (stmt->kind != NST_STMT_LET) return false;
    const NstExprNode *node = nst_expr(h->kernel->exprs, stmt->u.let.value);
    if (node->op != NST_OP_LET || nst_map_get(&h->inner_let, node->ref, 0) != 0) return false;
    Alias alias = {.kernel = h->kernel, .to = stmt->u.let.value};
    alias.from = nst_expr_let(h->kernel->exprs, node->type, stmt->u.let.id);
    nst_block_splice(h->kernel, &loop->body, at, 1, NULL, 0);
    NstBlock rest = {.at = loop->body.at + at, .n = loop->body.n - at};
    nst_block_visit(&rest, alias_stmt, &alias);
    return true;
}

/* Sends out of one loop what the statements directly in it compute alike each time; gives the lets. */
static NstBlock hoist_from(NstKernel *kernel, NstFor *loop)
{
    Hoist h = {.kernel = kernel, .loop = loop};
    nst_map_init(&h.inner_sym, kernel->arena);
    nst_map_init(&h.inner_let, kernel->arena);
    nst_map_init(&h.touched, kernel->arena);
    int64_t least, most;
    nst_dim_bounds(kernel->dims, nst_dim_sub(kernel->dims, loop->end, loop->begin), &least, &most);
    h.loads = least >= 1; /* it runs */
    nst_map_put(&h.inner_sym, loop->var.i, 1);
    nst_block_visit(&loop->body, note_defined, &h);
    for (uint32_t k = 0; k < loop->body.n;) {
        NstStmt *stmt = loop->body.at[k];
        nst_stmt_visit_exprs(stmt, hoist_root, &h);
        if (may_stop(stmt)) h.loads = false;
        if (!drop_alias(&h, loop, k)) k++;
    }
    return h.before;
}

static void hoist_block(NstKernel *kernel, NstBlock *block, bool *changed)
{
    for (uint32_t k = 0; k < block->n; k++) {
        NstStmt *stmt = block->at[k];
        if (stmt->kind == NST_STMT_WHILE) hoist_block(kernel, &stmt->u.repeat.body, changed);
        if (stmt->kind == NST_STMT_IF) {
            hoist_block(kernel, &stmt->u.branch.then, changed);
            hoist_block(kernel, &stmt->u.branch.otherwise, changed);
        }
        if (stmt->kind != NST_STMT_FOR) continue;
        hoist_block(kernel, &stmt->u.loop.body, changed);
        NstBlock lets = hoist_from(kernel, &stmt->u.loop);
        for (uint32_t m = 0; m < lets.n; m++) lets.at[m]->origin = stmt->origin;
        nst_block_splice(kernel, block, k, 0, lets.at, lets.n);
        k += lets.n;
        *changed = *changed || lets.n != 0;
    }
}

NstStatus nst_simplify_hoist(NstCtx *ctx, NstKernel *kernel, bool *changed)
{
    (void)ctx;
    *changed = false;
    hoist_block(kernel, &kernel->body, changed);
    return NST_OK;
}

/* --- sharing within a block ---------------------------------------------------------------------------------- */

/* What is shared must cost this many operations, or one that is slow: code generation joins equal operations of straight
 * code itself, and a value kept for later takes a register that a load folded into its user does not.  Not measured
 * (2026-11-29). */
#define MIN_SHARED_COST 4

typedef struct Share {
    NstKernel *kernel;
    const NstBlock *block;
    NstMap first;         /* value -> 1 + position of the statement that computed it first */
    NstMap named;         /* value -> the let expression that names it since then, 0 = none yet */
    uint32_t *last_write; /* by buffer: 1 + position of the last statement so far that wrote it */
    uint32_t n_buffers;
    uint32_t at;      /* position of the statement looked at */
    NstBlock *before; /* by position: new lets */
    bool valid, changed;
    uint32_t since; /* of the value looked at */
} Share;

static void check_load(void *arg, NstExpr e, const NstExprNode *node)
{
    Share *s = arg;
    (void)e;
    if (node->op == NST_OP_LOAD && s->last_write[node->ref] >= s->since) s->valid = false;
}

/* True if the value was computed at statement `since` - 1 and nothing it reads was written from there on. */
static bool still_holds(Share *s, NstExpr e, uint32_t since)
{
    s->valid = true;
    s->since = since;
    nst_expr_visit(s->kernel->exprs, e, check_load, s);
    return s->valid;
}

/* Gives the value a let before its first statement, used there and here. */
static void share(Share *s, NstExpr value, uint32_t first)
{
    Alias alias = {.kernel = s->kernel, .from = value, .to = {nst_map_get(&s->named, value.i, 0)}};
    if (alias.to.i == 0) {
        NstStmt *stmt = new_let(s->kernel, "c", value, s->block->at[first]->origin, &alias.to);
        nst_block_add(s->kernel, &s->before[first], stmt);
        nst_map_put(&s->named, value.i, alias.to.i);
    }
    for (uint32_t k = first; k <= s->at; k++) nst_stmt_visit_exprs(s->block->at[k], alias_root, &alias);
    s->changed = true;
}

static void visit_slow(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    bool slow = node->op == NST_OP_DIV || node->op == NST_OP_SQRT || node->op == NST_OP_MOD || node->op == NST_OP_REM ||
                node->op == NST_OP_FLOORDIV || nst_scalar_info(node->op)->expanded;
    if (slow) *(bool *)arg = true;
}

static bool is_worth_sharing(const Share *s, NstExpr e)
{
    bool slow = false;
    nst_expr_visit(s->kernel->exprs, e, visit_slow, &slow);
    return slow || nst_expr_cost(s->kernel->exprs, e) >= MIN_SHARED_COST;
}

/* The largest values of e that an earlier statement computed. */
static void share_in(Share *s, NstExpr *root)
{
    bool again = true;
    while (again) { /* each round replaces at least one value: ends */
        again = false;
        NST_VEC(NstExpr) stack = {0};
        nst_vec_push(s->kernel->arena, &stack, *root);
        NstMap seen;
        nst_map_init(&seen, s->kernel->arena);
        while (stack.n > 0 && !again) {
            NstExpr e = nst_vec_pop(&stack);
            const NstExprNode *node = nst_expr(s->kernel->exprs, e);
            int arity = nst_scalar_info(node->op)->arity;
            if (nst_map_get(&seen, e.i, 0) != 0) continue;
            nst_map_put(&seen, e.i, 1);
            uint32_t first = arity > 0 ? nst_map_get(&s->first, e.i, 0) : 0;
            if (first != 0 && first <= s->at && is_worth_sharing(s, e) && still_holds(s, e, first)) {
                share(s, e, first - 1);
                again = true;
            }
            for (int k = 0; k < arity; k++) nst_vec_push(s->kernel->arena, &stack, node->arg[k]);
        }
    }
}

static void share_root(void *arg, NstExpr *e)
{
    share_in(arg, e);
}

static void note_value(void *arg, NstExpr e, const NstExprNode *node)
{
    Share *s = arg;
    (void)node;
    uint32_t first = nst_map_get(&s->first, e.i, 0);
    if (first != 0 && still_holds(s, e, first)) return;
    nst_map_put(&s->first, e.i, s->at + 1);
    nst_map_put(&s->named, e.i, 0);
}

static void note_root(void *arg, NstExpr *e)
{
    Share *s = arg;
    nst_expr_visit(s->kernel->exprs, *e, note_value, s);
}

static void note_write(void *arg, NstStmt *stmt, int depth)
{
    Share *s = arg;
    (void)depth;
    if (stmt->kind == NST_STMT_STORE)
        for (uint32_t k = 0; k < stmt->u.store.n_targets; k++)
            s->last_write[stmt->u.store.target[k].buffer.i] = s->at + 1;
    if (stmt->kind == NST_STMT_ALLOC) s->last_write[stmt->u.alloc.buffer.i] = s->at + 1;
    if (stmt->kind == NST_STMT_MATRIX) s->last_write[nst_matrix_written(&stmt->u.matrix).i] = s->at + 1;
    if (stmt->kind == NST_STMT_CALL || stmt->kind == NST_STMT_BARRIER)
        for (uint32_t k = 0; k < s->n_buffers; k++) s->last_write[k] = s->at + 1;
}

static void share_block(NstKernel *kernel, NstBlock *block, bool *changed)
{
    Share s = {.kernel = kernel, .block = block, .n_buffers = kernel->buffers.n};
    nst_map_init(&s.first, kernel->arena);
    nst_map_init(&s.named, kernel->arena);
    s.last_write = NST_NEW_ARRAY(kernel->arena, uint32_t, s.n_buffers);
    s.before = NST_NEW_ARRAY(kernel->arena, NstBlock, block->n);
    for (s.at = 0; s.at < block->n; s.at++) {
        NstStmt *stmt = block->at[s.at];
        nst_stmt_visit_exprs(stmt, share_root, &s);
        nst_stmt_visit_exprs(stmt, note_root, &s);
        NstBlock one = {.at = &stmt, .n = 1};
        nst_block_visit(&one, note_write, &s);
        if (stmt->kind == NST_STMT_FOR) share_block(kernel, &stmt->u.loop.body, changed);
        if (stmt->kind == NST_STMT_WHILE) share_block(kernel, &stmt->u.repeat.body, changed);
        if (stmt->kind == NST_STMT_IF) {
            share_block(kernel, &stmt->u.branch.then, changed);
            share_block(kernel, &stmt->u.branch.otherwise, changed);
        }
    }
    *changed = *changed || s.changed;
    for (uint32_t k = block->n; k-- > 0;)
        if (s.before[k].n != 0) nst_block_splice(kernel, block, k, 0, s.before[k].at, s.before[k].n);
}

NstStatus nst_simplify_cse(NstCtx *ctx, NstKernel *kernel, bool *changed)
{
    (void)ctx;
    *changed = false;
    share_block(kernel, &kernel->body, changed);
    return NST_OK;
}

NstStatus nst_pass_simplify(NstCtx *ctx, NstKernel *kernel, bool *changed)
{
    bool guards, hoisted, shared;
    NST_TRY(nst_simplify_guards(ctx, kernel, &guards));
    NST_TRY(nst_simplify_hoist(ctx, kernel, &hoisted));
    NST_TRY(nst_simplify_cse(ctx, kernel, &shared));
    *changed = guards || hoisted || shared;
    return NST_OK;
}
