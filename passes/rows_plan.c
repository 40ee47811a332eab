/* rows_plan.c: how many rows of a group are taken at once: side by side, in turn, or sharing blocks of what all of them read. */
#include "passes/flat.h"
#include "passes/rows_impl.h"

/* Rows side by side, at most; and the share of L1 that their inputs and locals may take. */
enum { MAX_JAM = 2, L1_SHARE_NUMERATOR = 3, L1_SHARE_DENOMINATOR = 4 };
/* Fewer rows than this are better dealt to the threads singly. */
enum { ROWS_TO_JAM = 16 };
/* Blocks of rows side by side that take turns, member by member: while one waits for the end of its reduction, the next has
 * work (layer norm of 64 rows of 768 in L2: 3.04 us, in two blocks 2.81; more blocks, and rows that fill L1, gain nothing;
 * 2026-11, Zen 5). */
enum { BLOCKS_IN_TURN = 2 };
/* Rows whose last maps share what all rows read, column block by column block, at most; iterations that must be left for the
 * threads; and the part of L1 that a block of what they share takes (layer norm of 32 rows of 4,096 with 32 KB of weights: 23.3
 * us row by row, 20.3 two side by side, 17.4 so; in C, blocks of 256 to 1,024 columns 16.9 to 16.6; 2026-11, Zen 4). */
enum { SHARING_ROWS = 8, SHARING_ITERATIONS = 4, SHARED_PART_OF_L1 = 8 };

/* Bytes that one row reads, each buffer once: what moves with the rows, and what is the same for all. */
typedef struct RowBytes {
    NstModule *module;
    const NstNest *nest;
    uint32_t n_common;
    NstBufList seen;
    int64_t moving, same;
} RowBytes;

static bool index_uses(const RowBytes *v, const NstExprNode *load, NstAxis axis)
{
    for (uint32_t d = 0; d < load->n_index; d++)
        if (nst_dim_uses(v->module->dims, load->index[d], axis.var)) return true;
    return false;
}

/* n times an extent; one that is not known is that of a middling row. */
static int64_t times_extent(const NstModule *module, int64_t n, NstDim extent)
{
    int64_t lo, hi;
    nst_dim_bounds(module->dims, extent, &lo, &hi);
    if (hi <= 0 || n >= INT64_MAX >> 21) return n;
    return n * (hi > (1 << 20) ? 1 << 10 : hi);
}

static void count_bytes(void *arg, NstExpr e, const NstExprNode *node)
{
    RowBytes *v = arg;
    bool moves = false;
    (void)e;
    if (node->op != NST_OP_LOAD) return;
    for (uint32_t k = 0; k < v->seen.n; k++)
        if (v->seen.at[k].i == node->ref) return;
    nst_vec_push(v->module->arena, &v->seen, (NstBuf){node->ref});
    int64_t bytes = nst_dtype_info(node->type)->bytes, lo, hi;
    for (uint32_t k = 0; k < v->nest->n_axes + v->nest->n_reduce; k++) {
        NstAxis axis = k < v->nest->n_axes ? v->nest->axis[k] : v->nest->reduce[k - v->nest->n_axes];
        if (!index_uses(v, node, axis)) continue;
        nst_dim_bounds(v->module->dims, axis.extent, &lo, &hi);
        if (k < v->n_common)
            moves = moves || hi > 1;
        else
            bytes = times_extent(v->module, bytes, axis.extent);
    }
    *(moves ? &v->moving : &v->same) += bytes;
}

static RowBytes row_bytes(NstModule *module, const NstGroup *group)
{
    RowBytes v = {.module = module, .n_common = group->n_axes};
    for (uint32_t k = 0; k < group->items.n; k++) {
        v.nest = group->items.at[k].nest;
        for (uint32_t s = 0; s < v.nest->n_states; s++)
            nst_expr_visit(module->exprs, v.nest->state[s].step, count_bytes, &v);
        for (uint32_t o = 0; o < v.nest->n_outs; o++)
            nst_expr_visit(module->exprs, v.nest->out[o].value, count_bytes, &v);
    }
    return v;
}

/* True if the last member is a map along one axis that can be cut anywhere, and no local is as long as a row. */
static bool ends_in_map(NstWriter *w, const NstGroup *group)
{
    NstDim at;
    const NstNest *last = group->items.at[group->items.n - 1].nest;
    for (uint32_t k = 0; k < group->locals.n; k++)
        if (nst_module_get(w->module, group->locals.at[k])->buffer.rank > (int)group->n_axes) return false;
    if (group->items.n < 2 || last->n_states || last->store_guard.i || last->check.i) return false;
    const NstNest *flat = nst_flat_nest(w, last, group->n_axes);
    return flat->n_axes == group->n_axes + 1 && !nst_breaks(w, flat, group->n_axes, group->n_axes, &at, 1);
}

NstRowPlan nst_rows_plan(NstWriter *w, const NstGroup *group, NstDim rows)
{
    NstModule *module = w->module;
    int64_t lo, hi, l1 = module->target->l1_bytes, share = l1 / L1_SHARE_DENOMINATOR * L1_SHARE_NUMERATOR;
    NstRowPlan one = {1, 1, 0}, plan = {MAX_JAM, MAX_JAM, 0};
    RowBytes bytes = row_bytes(module, group);
    nst_dim_bounds(module->dims, rows, &lo, &hi);
    for (uint32_t k = 0; k < group->items.n; k++)
        if (group->items.at[k].nest->n_lets) return one; /* they are bound once for all */
    if (hi < ROWS_TO_JAM) return one;
    int64_t sharing = SHARING_ROWS;
    while (sharing > 1 && hi / sharing < SHARING_ITERATIONS) sharing /= 2;
    if (plan.side_by_side * bytes.moving + bytes.same > l1 && bytes.same > l1 / 4 && sharing > 1 &&
        ends_in_map(w, group)) {
        const NstNest *last = group->items.at[group->items.n - 1].nest;
        int64_t columns = 1;
        for (uint32_t k = group->n_axes; k < last->n_axes; k++)
            columns = times_extent(module, columns, last->axis[k].extent);
        if (columns < INT64_MAX / l1) columns = columns * (l1 / SHARED_PART_OF_L1) / bytes.same / 64 * 64;
        return (NstRowPlan){1, sharing, columns > 64 ? columns : 64};
    }
    if (plan.side_by_side * bytes.moving > share) return one;
    if (hi >= BLOCKS_IN_TURN * ROWS_TO_JAM && plan.total * BLOCKS_IN_TURN * bytes.moving <= share)
        plan.total *= BLOCKS_IN_TURN;
    return plan;
}
