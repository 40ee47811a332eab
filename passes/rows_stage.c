/* rows_stage.c: dear maps in pieces: one elementary function a piece, over a strip that lies in L1.
 *
 * Each exp is 45 cycles of latency.  A chain of three fills the window of instructions a core looks at with two vectors; a
 * piece with one of them leaves room for ten.  (20 maps with three exp in L1, Zen 5, 2026-11:
 * 33 cycles a vector in one piece, 25 in three.) */
#include "passes/rows_impl.h"

/* Elements of a strip along the row: 4 KB of f32, so that all strips of a map share L1 with what it reads; operations of a part (2,
 * 3, 4 and 6 are equal). */
enum { STRIP_ELEMENTS = 1024, PART_OPERATIONS = 4 };

typedef struct Count {
    const NstExprs *exprs;
    uint32_t functions;
} Count;

static void count_functions(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    Count *c = arg;
    c->functions += nst_scalar_info(node->op)->expanded;
}

/* Elementary functions in e. */
static uint32_t functions_in(const NstExprs *exprs, NstExpr e)
{
    Count c = {exprs, 0};
    nst_expr_visit(exprs, e, count_functions, &c);
    return c.functions;
}

typedef struct Largest {
    const NstExprs *exprs;
    NstExpr e;
    uint32_t cost;
} Largest;

static void keep_largest(void *arg, NstExpr e, const NstExprNode *node)
{
    Largest *l = arg;
    if (node->type != NST_F32 && node->type != NST_F64) return;
    uint32_t cost = nst_expr_cost(l->exprs, e);
    if (cost <= l->cost || functions_in(l->exprs, e) != 1) return;
    l->cost = cost;
    l->e = e;
}

typedef struct Cut {
    NstExpr piece, arg;
} Cut;

static NstExpr piece_to_arg(void *arg, NstExprs *exprs, NstExpr e)
{
    (void)exprs;
    const Cut *c = arg;
    return e.i == c->piece.i ? c->arg : (NstExpr){0};
}

/* The value with ARG `slot` where it has the piece. */
static NstExpr without_piece(NstExprs *exprs, NstExpr value, NstExpr piece, uint32_t slot)
{
    Cut cut = {piece, nst_expr_arg(exprs, nst_expr(exprs, piece)->type, slot)};
    return nst_expr_rewrite(exprs, value, piece_to_arg, &cut);
}

typedef struct Use {
    uint32_t slot;
    bool found;
} Use;

static void find_slot(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    Use *use = arg;
    use->found = use->found || (node->op == NST_OP_ARG && node->ref == use->slot);
}

static bool asks_for(const NstExprs *exprs, NstExpr value, uint32_t slot)
{
    Use use = {slot, false};
    nst_expr_visit(exprs, value, find_slot, &use);
    return use.found;
}

NstStages *nst_rows_stages(Rows *r)
{
    NstNest *nest = r->nest;
    NstExprs *exprs = r->w->module->exprs;
    if (r->jam || r->n_common || nest->n_outs != 1 || nest->n_lets || nest->store_guard.i || nest->check.i ||
        nest->n_axes == 0 || !r->join)
        return NULL;
    NstStages *s = NST_NEW(r->w->kernel->arena, NstStages);
    NstExpr rest = nest->out[0].value;
    while (functions_in(exprs, rest) > 1) {
        Largest l = {exprs, {0}, 0};
        nst_expr_visit(exprs, rest, keep_largest, &l);
        if (!l.e.i || s->n + 1 == NST_ROWS_MAX_STAGES) return NULL;
        rest = without_piece(exprs, rest, l.e, s->n);
        s->value[s->n++] = l.e;
    }
    s->value[s->n++] = rest;
    return s;
}

typedef struct Smallest {
    const NstExprs *exprs;
    NstDtype type;
    NstExpr e;
    uint32_t cost;
} Smallest;

static void keep_smallest(void *arg, NstExpr e, const NstExprNode *node)
{
    Smallest *s = arg;
    if (node->type != s->type || node->op == NST_OP_LOAD) return;
    uint32_t cost = nst_expr_cost(s->exprs, e);
    if (cost < PART_OPERATIONS || cost >= s->cost) return;
    s->cost = cost;
    s->e = e;
}

bool nst_rows_parts(Rows *r, uint32_t most, NstStages *parts)
{
    NstExprs *exprs = r->w->module->exprs;
    NstExpr rest = r->nest->out[0].value;
    if (nst_expr_cost(exprs, rest) > most) return false;
    *parts = (NstStages){0};
    while (parts->n + 1 < NST_ROWS_MAX_STAGES) {
        Smallest s = {exprs, nst_expr(exprs, r->nest->out[0].value)->type, {0}, UINT32_MAX};
        nst_expr_visit(exprs, rest, keep_smallest, &s);
        if (!s.e.i || s.e.i == rest.i) break;
        NstExpr after = without_piece(exprs, rest, s.e, parts->n);
        uint32_t before = parts->n - 1;
        if (parts->n > 0 && (!asks_for(exprs, s.e, before) || asks_for(exprs, after, before))) break;
        parts->value[parts->n++] = s.e;
        rest = after;
    }
    parts->value[parts->n++] = rest;
    return true;
}

/* The element of the strips that belongs to where the nest is now. */
static NstDim strip_index(Rows *r)
{
    NstDim at = nst_writer_dim(r->w, nst_dim_sym(r->dims, r->nest->axis[r->nest->n_axes - 1].var));
    return nst_dim_sub(r->dims, at, r->stages->base);
}

void nst_rows_stage_point(Rows *r, NstBlock *block)
{
    NstStages *s = r->stages;
    NstWriter *w = r->w;
    NstExpr piece[NST_ROWS_MAX_STAGES];
    NstDim at = strip_index(r);
    for (uint32_t k = 0; k < s->at; k++)
        piece[k] =
            nst_expr_load(w->module->exprs, nst_kernel_buffer(w->kernel, s->strip[k])->dtype, s->strip[k], &at, 1);
    w->state = piece;
    w->n_states = s->at;
    if (s->strip[s->at].i) {
        NstStmt *store = nst_stmt_store(w->kernel, s->strip[s->at], &at, 1, nst_writer_expr(w, s->value[s->at]));
        store->origin = r->nest->origin;
        nst_block_add(w->kernel, block, store);
    } else {
        NstNest last = *r->nest;
        NstNestOut out = last.out[0];
        out.value = s->value[s->at];
        last.out = &out;
        nst_writer_stores(w, block, &last);
    }
    w->state = NULL;
    w->n_states = 0;
}

/* True if piece k may lie where piece k - 1 does: nothing after it asks for that one. */
static bool takes_over(const NstExprs *exprs, const NstStages *s, uint32_t k)
{
    for (uint32_t later = k + 1; later < s->n; later++)
        if (asks_for(exprs, s->value[later], k - 1)) return false;
    return nst_expr(exprs, s->value[k])->type == nst_expr(exprs, s->value[k - 1])->type;
}

NstBlock *nst_rows_open_strips(Rows *r, NstBlock *block, uint32_t n, int64_t elements)
{
    NstKernel *kernel = r->w->kernel;
    NstDim size = nst_rows_const(r, elements);
    NstStmt *scope = nst_stmt_if(kernel, nst_expr_int(r->w->module->exprs, NST_BOOL, 1));
    nst_block_add(kernel, block, scope);
    block = &scope->u.branch.then;
    for (uint32_t k = 0; k < r->stages->n; k++) {
        r->stages->strip[k] = (NstBuf){0};
        if (k >= n) continue;
        if (k > 0 && takes_over(r->w->module->exprs, r->stages, k)) {
            r->stages->strip[k] = r->stages->strip[k - 1];
            continue;
        }
        NstDtype type = nst_expr(r->w->module->exprs, r->stages->value[k])->type;
        r->stages->strip[k] = nst_kernel_local(kernel, "strip", type, NST_SPACE_SCRATCH, 1, &size);
        nst_block_add(kernel, block, nst_stmt_alloc(kernel, r->stages->strip[k]));
    }
    return block;
}

void nst_rows_run_stages(Rows *r, NstBlock *block, NstDim begin, NstDim end)
{
    NstDims *dims = r->dims;
    NstDim size = nst_rows_const(r, STRIP_ELEMENTS), strip;
    NstDim n = nst_dim_ceildiv(dims, nst_dim_sub(dims, end, begin), size);
    block = nst_rows_open_strips(r, block, r->stages->n - 1, STRIP_ELEMENTS);
    block = nst_writer_loop(r->w, block, "strip", nst_rows_const(r, 0), n, 1, NST_FOR_SERIAL, 0, &strip);
    NstDim from = nst_dim_add(dims, begin, nst_dim_mul(dims, strip, size));
    r->stages->base = from;
    for (r->stages->at = 0; r->stages->at < r->stages->n; r->stages->at++)
        nst_rows_run_piece(r, block, from, nst_dim_min(dims, end, nst_dim_add(dims, from, size)));
}
