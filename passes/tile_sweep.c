/* tile_sweep.c: the written-out part of a tile's reduction, in the order of what it reads.
 *
 * In: reduction axes whose steps are all written out (the taps of a window and the channels of a group), a tile of rows and maybe
 * planes.  Neighbouring rows read the same places at different taps: ordered by place, each is loaded once and used up before
 * the next, where the order of taps would keep as many vectors as there are rows.  Cost: statements = rows x steps. */
#include "passes/tiler.h"

#include <stdlib.h>

/* Symbols that a step binds: reduction axes, rows, planes. */
static bool is_swept(NstTiler *t, const NstTileAt *tile, uint32_t depth, NstSym sym)
{
    if (sym.i == nst_tiler_row_axis(t).var.i || (tile->planes && sym.i == nst_tiler_plane_axis(t).var.i)) return true;
    for (uint32_t k = depth; k < t->nest->n_reduce; k++)
        if (t->nest->reduce[k].var.i == sym.i) return true;
    return false;
}

/* True if a condition on the reduction axis can be decided when code is made: no other loop takes part. */
static bool decides_alone(NstTiler *t, const NstTileAt *tile, uint32_t depth)
{
    for (uint32_t g = 0; g < t->guard.nonnegative.n; g++) {
        NstDim e = t->guard.nonnegative.at[g];
        if (!nst_dim_uses(t->dims, e, t->nest->reduce[depth].var)) continue;
        for (uint32_t k = 0; k < t->nest->n_axes; k++)
            if (nst_dim_uses(t->dims, e, t->nest->axis[k].var) && !is_swept(t, tile, depth, t->nest->axis[k].var))
                return false;
    }
    return true;
}

uint32_t nst_tiler_swept_from(NstTiler *t, const NstTileAt *tile)
{
    uint32_t depth = t->nest->n_reduce, first = depth - (uint32_t)t->s->taps;
    if (!t->s->sweep || tile->asked.i || t->nest->block) return depth + 1;
    while (depth > first && decides_alone(t, tile, depth - 1)) depth--;
    return depth < t->nest->n_reduce ? depth : depth + 1;
}

/* One step of one row. */
typedef struct Step {
    int plane, row;
    int64_t tap, place; /* number of the step in the reduction's order; what it reads, from an origin of its own */
    uint32_t order;     /* tap by tap */
} Step;

typedef struct Strides {
    NstTiler *t;
    uint32_t depth;
    bool known;
    int64_t row, plane, tap[NST_MAX_RANK];
} Strides;

/* Strides of the first load that depends on rows. */
static void visit_place(void *arg, NstExpr e, const NstExprNode *node)
{
    Strides *s = arg;
    NstTiler *t = s->t;
    (void)e;
    if (node->op != NST_OP_LOAD || s->known) return;
    NstDim offset =
        nst_layout_offset(t->dims, &nst_module_get(t->w->module, (NstBuf){node->ref})->buffer.layout, node->index);
    if (!nst_dim_uses(t->dims, offset, nst_tiler_row_axis(t).var)) return;
    s->known = nst_dim_stride(t->dims, offset, nst_tiler_row_axis(t).var, &s->row);
    if (t->s->plane_axis >= 0) s->known &= nst_dim_stride(t->dims, offset, nst_tiler_plane_axis(t).var, &s->plane);
    for (uint32_t k = s->depth; k < t->nest->n_reduce; k++)
        s->known &= nst_dim_stride(t->dims, offset, t->nest->reduce[k].var, &s->tap[k]);
}

static int compare_places(const void *a, const void *b)
{
    const Step *x = a, *y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int compare_order(const void *a, const void *b)
{
    const Step *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* The extents of the swept axes; their product. */
static int64_t swept_steps(NstTiler *t, uint32_t depth, int64_t *extent)
{
    int64_t n = 1;
    for (uint32_t k = depth; k < t->nest->n_reduce; k++) {
        bool fixed = nst_dim_is_const(t->dims, nst_writer_dim(t->w, t->nest->reduce[k].extent), &extent[k]);
        NST_ASSERT(fixed);
        n *= extent[k];
    }
    return n;
}

/* By place where that leaves each row's steps in their order, else tap by tap. */
static void order_steps(Step *step, uint32_t n, int rows, int64_t *last)
{
    qsort(step, n, sizeof *step, compare_places);
    for (uint32_t k = 0; k < n; k++) {
        int64_t *before = &last[step[k].plane * rows + step[k].row];
        if (step[k].tap < *before) {
            qsort(step, n, sizeof *step, compare_order);
            return;
        }
        *before = step[k].tap;
    }
}

static void write_step(NstTiler *t, NstBlock *block, const NstTileAt *tile, const Step *step)
{
    nst_writer_bind(t->w, nst_tiler_row_axis(t).var, nst_dim_add_const(t->dims, tile->row, step->row));
    if (tile->planes)
        nst_writer_bind(t->w, nst_tiler_plane_axis(t).var, nst_dim_add_const(t->dims, tile->plane, step->plane));
    NstExpr guard = nst_conditions_now(t->w, &t->guard, t->open, true);
    const NstExprNode *known = guard.i ? nst_expr(t->w->module->exprs, guard) : NULL;
    if (known && known->op == NST_OP_CONST && !known->imm.i) return;
    if (guard.i) {
        NstStmt *branch = nst_stmt_if(t->w->kernel, guard);
        nst_block_add(t->w->kernel, block, branch);
        block = &branch->u.branch.then;
    }
    NstDim i = nst_tiler_const(t, step->plane * tile->rows + step->row);
    NstTilerLanes open = nst_tiler_open_lanes(t, block, tile, i, tile->ragged && !t->s->padded);
    nst_tiler_step(t, &open);
}

void nst_tiler_sweep(NstTiler *t, NstBlock *block, const NstTileAt *tile, uint32_t depth)
{
    int planes = tile->planes ? tile->planes : 1;
    int64_t extent[NST_MAX_RANK], taps = swept_steps(t, depth, extent), at[NST_MAX_RANK];
    uint32_t n = 0, total = (uint32_t)(taps * planes * tile->rows);
    Strides strides = {.t = t, .depth = depth};
    nst_expr_visit(t->w->module->exprs, t->nest->state[0].step, visit_place, &strides);
    Step *step = NST_NEW_ARRAY(t->w->kernel->arena, Step, total);
    int64_t *last = NST_NEW_ARRAY(t->w->kernel->arena, int64_t, planes * tile->rows);
    for (int64_t tap = 0; tap < taps; tap++) {
        int64_t rest = tap, place = 0;
        for (uint32_t k = t->nest->n_reduce; k-- > depth; rest /= extent[k])
            place += strides.tap[k] * (rest % extent[k]);
        for (int p = 0; p < planes; p++)
            for (int r = 0; r < tile->rows; r++, n++)
                step[n] = (Step){p, r, tap, place + strides.plane * p + strides.row * r, n};
    }
    if (strides.known) order_steps(step, n, tile->rows, last);
    for (uint32_t s = 0; s < n; s++) {
        int64_t rest = step[s].tap;
        for (uint32_t k = t->nest->n_reduce; k-- > depth; rest /= extent[k]) {
            at[k] = rest % extent[k];
            nst_writer_bind(t->w, t->nest->reduce[k].var, nst_tiler_const(t, at[k]));
        }
        write_step(t, block, tile, &step[s]);
    }
}
