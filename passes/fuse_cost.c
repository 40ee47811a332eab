/* fuse_cost.c: the cost model of fusion.  Units: nominal scalar operations, elements, bytes.  No number depends on which
 * operator a nest came from. */
#include "passes/fuse.h"

/* Operations of an expanded function, of a division or root, relative to one add (measurements.md: exp 0.23 ns, an
 * elementary operation 0.015 ns an element in L1). */
enum { COST_EXPANDED = 14, COST_DIVIDE = 4 };
/* A producer of at most this cost may be evaluated several times rather than stored: one pass over an operand in L2 takes
 * about as long (72 GB/s, 8 bytes an element). */
enum { COST_REPEAT = 6 };
/* Inside a contraction each element of an operand is read once a column tile, one by one if it is broadcast: arithmetic there
 * takes the multiplications' slots (attention: 62 % of the peak with one product inside, 74 % with it in a pass of its own). */
enum { COST_IN_CONTRACTION = 0 };
/* An expression larger than this is cut: registers spill and compile time grows. */
enum { COST_LIMIT = 600 };

typedef struct CostVisit {
    uint32_t cost;
    bool but_conversions; /* those count nothing */
} CostVisit;

static void visit_cost(void *arg, NstExpr e, const NstExprNode *node)
{
    CostVisit *v = arg;
    (void)e;
    switch (node->op) {
    case NST_OP_CONST:
    case NST_OP_ARG:
    case NST_OP_INDEX:
    case NST_OP_LOAD:
    case NST_OP_LET: return;
    case NST_OP_CONVERT: v->cost += v->but_conversions ? 0 : 1; return;
    case NST_OP_DIV:
    case NST_OP_SQRT:
    case NST_OP_FLOORDIV:
    case NST_OP_MOD:
    case NST_OP_REM: v->cost += COST_DIVIDE; return;
    default: v->cost += nst_scalar_info(node->op)->expanded ? COST_EXPANDED : 1; return;
    }
}

uint32_t nst_fuse_cost(const NstFuser *f, NstExpr e)
{
    CostVisit v = {0, false};
    if (e.i) nst_expr_visit(f->exprs, e, visit_cost, &v);
    return v.cost;
}

static bool has_min_or_max(const NstDims *dims, NstDim dim)
{
    const NstDimNode *node = nst_dim_node(dims, dim);
    if (node->op == NST_DIM_MIN || node->op == NST_DIM_MAX) return true;
    for (uint32_t k = 0; k < node->n; k++)
        if (has_min_or_max(dims, node->arg[k])) return true;
    return false;
}

typedef struct ClampVisit {
    const NstDims *dims;
    bool found;
} ClampVisit;

static void visit_clamp(void *arg, NstExpr e, const NstExprNode *node)
{
    ClampVisit *v = arg;
    (void)e;
    for (uint32_t k = 0; node->op == NST_OP_LOAD && k < node->n_index && !v->found; k++)
        v->found = has_min_or_max(v->dims, node->index[k]);
}

bool nst_fuse_has_clamp(const NstFuser *f, NstExpr e)
{
    ClampVisit v = {f->dims, false};
    nst_expr_visit(f->exprs, e, visit_clamp, &v);
    return v.found;
}

/* How often a nest is evaluated: its steps, or (after) its results. */
static NstDim domain(const NstFuser *f, const NstNest *nest, bool after)
{
    NstDim n = nst_dim_const(f->dims, 1);
    for (uint32_t k = 0; k < nest->n_axes; k++) n = nst_dim_mul(f->dims, n, nest->axis[k].extent);
    for (uint32_t k = 0; k < nest->n_reduce && !after; k++) n = nst_dim_mul(f->dims, n, nest->reduce[k].extent);
    return n;
}

/* True if the nest reads the buffer only where its results are stored. */
static bool reads_after(const NstFuser *f, const NstNest *nest, NstBuf buffer)
{
    NstNest before = *nest;
    before.n_outs = 0;
    return !nst_fuse_loads(f, &before, buffer, NULL, 0);
}

static void add_domains(const NstFuser *f, const NstNest *producer, const NstGroup *group, NstDim *total, bool *repeats)
{
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstNest *nest = group->items.at[k].nest;
        NstExpr load[4];
        if (!nest) {
            add_domains(f, producer, group->items.at[k].group, total, repeats);
            continue;
        }
        uint32_t loads = nst_fuse_loads(f, nest, producer->out[0].buffer, load, 4), clamped = 0;
        if (!loads) continue;
        for (uint32_t l = 0; l < loads && l < 4; l++) clamped += nst_fuse_has_clamp(f, load[l]);
        if (clamped) {
            /* Each place of the result reads one of them, once loops are split; together not more than what there is to read. */
            *total = nst_dim_add(f->dims, *total, domain(f, producer, true));
            if (loads != clamped) *repeats = true;
            continue;
        }
        if (loads > 1) *repeats = true;
        *total = nst_dim_add(f->dims, *total, domain(f, nest, reads_after(f, nest, producer->out[0].buffer)));
    }
}

bool nst_fuse_repeats(const NstFuser *f, const NstNest *producer)
{
    NstDim total = nst_dim_const(f->dims, 0);
    bool repeats = false;
    NstPlaces readers = nst_fuser_readers(f, producer->out[0].buffer);
    for (uint32_t k = 0; k < readers.n && !repeats; k++)
        add_domains(f, producer, f->groups.at[readers.at[k]].group, &total, &repeats);
    return repeats || nst_dim_compare(f->dims, total, NST_DIM_LE, domain(f, producer, true)) != NST_TRUE;
}

static uint32_t total_cost(const NstFuser *f, const NstNest *nest)
{
    uint32_t cost = 0;
    for (uint32_t k = 0; k < nest->n_states; k++) cost += nst_fuse_cost(f, nest->state[k].step);
    for (uint32_t k = 0; k < nest->n_outs; k++) cost += nst_fuse_cost(f, nest->out[k].value);
    return cost;
}

bool nst_fuse_inline_pays(const NstFuser *f, const NstNest *producer, const NstNest *consumer, bool repeats,
                          const char **why)
{
    NstContraction c;
    uint32_t cost = nst_fuse_cost(f, producer->out[0].value);
    bool after = reads_after(f, consumer, producer->out[0].buffer);
    if (!after && nst_nest_contraction(f->module, consumer, &c) && (c.n_cols || c.n_rows)) {
        *why = "a contraction would evaluate it once a tile";
        CostVisit inside = {0, true};
        nst_expr_visit(f->exprs, producer->out[0].value, visit_cost, &inside);
        return inside.cost <= COST_IN_CONTRACTION && !nst_fuse_has_clamp(f, producer->out[0].value);
    }
    if (consumer->n_states && !after && nst_fuse_has_clamp(f, producer->out[0].value)) {
        *why = "conditions of a pad or concat inside a reduction cost more than a copy";
        return false;
    }
    if (cost > COST_REPEAT && repeats) {
        *why = "it is dear and its readers would evaluate it more than once an element";
        return false;
    }
    *why = "the expression would grow too large";
    return cost + total_cost(f, consumer) <= COST_LIMIT;
}

bool nst_fuse_row_fits(const NstFuser *f, NstBuf buffer, uint32_t n_common)
{
    const NstBuffer *b = &nst_module_get(f->module, buffer)->buffer;
    int64_t bytes = nst_dtype_info(b->dtype)->bytes, budget = f->module->target->l1_bytes / 2;
    for (int k = (int)n_common; k < b->rank; k++) {
        int64_t lo, hi;
        nst_dim_bounds(f->dims, b->shape[k], &lo, &hi);
        if (hi == INT64_MAX) continue; /* unknown: a row is taken to fit */
        if (hi > 0 && bytes > INT64_MAX / hi) return false;
        bytes *= hi > 0 ? hi : 1;
    }
    return bytes <= budget;
}
