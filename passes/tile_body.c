/* tile_body.c: one register tile: its states, the reduction over them, the stores.
 *
 * Guards over the reduction (padding of a window) tighten the reduction's loops where they involve one reduction axis and
 * bound variables; where they involve the tile's rows, tiles at the border stand at constant positions and have the
 * reduction axis unrolled, so that every tap is known to count or not; what cannot be known becomes an if. */
#include "passes/tiler.h"

#define MAX_UNROLLED_TAPS 11 /* widest window whose taps are written out at a border */

static bool is_bound(void *arg, NstSym sym)
{
    const NstTiler *t = arg;
    for (uint32_t k = 0; k < t->unbound.n; k++)
        if (t->unbound.at[k].i == sym.i) return false;
    return true;
}

NstTilerLanes nst_tiler_open_lanes(NstTiler *t, NstBlock *block, const NstTileAt *tile, NstDim i, bool masked)
{
    int64_t lanes = t->s->lanes, columns = t->s->columns;
    NstTilerLanes open = {.index = {i}};
    block = nst_writer_loop(t->w, block, "v", nst_tiler_const(t, 0), nst_tiler_const(t, tile->vectors), 1,
                            NST_FOR_UNROLL, 0, &open.index[1]);
    NstDim base = nst_dim_add(t->dims, tile->col, nst_dim_mul_const(t->dims, open.index[1], columns));
    NstDim end = nst_tiler_const(t, columns);
    if (masked)
        end = nst_dim_min(t->dims, end, nst_dim_sub(t->dims, nst_writer_dim(t->w, nst_tiler_col_axis(t).extent), base));
    open.body = nst_writer_loop(t->w, block, "l", nst_tiler_const(t, 0), end, 1, NST_FOR_VECTOR, lanes, &open.index[2]);
    nst_writer_bind(t->w, nst_tiler_col_axis(t).var, nst_dim_add(t->dims, base, open.index[2]));
    return open;
}

/* Opens the unrolled loop over the rows of a tile without planes but those left out, and binds the row axis. */
static NstBlock *open_rows_between(NstTiler *t, NstBlock *block, const NstTileAt *tile, NstRowsLeftOut left_out,
                                   NstDim *i)
{
    int end = tile->rows - left_out.last;
    *i = nst_tiler_const(t, left_out.first);
    if (end - left_out.first > 1)
        block = nst_writer_loop(t->w, block, "i", nst_tiler_const(t, left_out.first), nst_tiler_const(t, end), 1,
                                NST_FOR_UNROLL, 0, i);
    if (t->s->row_axis >= 0) nst_writer_bind(t->w, nst_tiler_row_axis(t).var, nst_dim_add(t->dims, tile->row, *i));
    return block;
}

/* Opens the unrolled loops over all rows, of all planes, and binds their axes; *i is the row among the states. */
static NstBlock *open_rows(NstTiler *t, NstBlock *block, const NstTileAt *tile, NstDim *i)
{
    NstDim plane = nst_tiler_const(t, 0), row;
    if (tile->planes) {
        block =
            nst_writer_loop(t->w, block, "p", plane, nst_tiler_const(t, tile->planes), 1, NST_FOR_UNROLL, 0, &plane);
        nst_writer_bind(t->w, nst_tiler_plane_axis(t).var, nst_dim_add(t->dims, tile->plane, plane));
    }
    block = open_rows_between(t, block, tile, (NstRowsLeftOut){0, 0}, &row);
    *i = nst_dim_add(t->dims, nst_dim_mul_const(t->dims, plane, tile->rows), row);
    return block;
}

static void bind_states(NstTiler *t, const NstDim *index)
{
    t->w->n_states = t->nest->n_states;
    for (uint32_t k = 0; k < t->nest->n_states; k++)
        t->w->state[k] = nst_expr_load(t->w->module->exprs, t->nest->state[k].dtype, t->state[k], index, 3);
}

static void store_states(NstTiler *t, NstBlock *block, const NstDim *index, const NstExpr *value)
{
    NstStoreTarget *target = NST_NEW_ARRAY(t->w->kernel->arena, NstStoreTarget, t->nest->n_states);
    for (uint32_t k = 0; k < t->nest->n_states; k++)
        target[k] = (NstStoreTarget){t->state[k], value[k], t->nest->state[k].merge, t->nest->state[k].identity};
    nst_block_add(t->w->kernel, block, nst_stmt_update(t->w->kernel, t->nest->n_states, target, index, 3));
}

static void allocate_states(NstTiler *t, NstBlock *block, const NstTileAt *tile)
{
    int planes = tile->planes ? tile->planes : 1;
    NstDim shape[3] = {nst_tiler_const(t, tile->rows * planes), nst_tiler_const(t, tile->vectors),
                       nst_tiler_const(t, t->s->lanes)};
    for (uint32_t k = 0; k < t->nest->n_states; k++) {
        t->state[k] = nst_kernel_local(t->w->kernel, "acc", t->nest->state[k].dtype, NST_SPACE_REG, 3, shape);
        nst_block_add(t->w->kernel, block, nst_stmt_alloc(t->w->kernel, t->state[k]));
    }
}

/* parts[0]: where a tile is at the end of the k blocks that `at_end` tells (none: there are no blocks), parts[1]: elsewhere. */
static void split_by_block(NstTiler *t, NstBlock *block, NstExpr at_end, NstBlock *parts[2])
{
    parts[0] = block;
    parts[1] = NULL;
    if (!at_end.i) return;
    NstStmt *branch = nst_stmt_if(t->w->kernel, at_end);
    nst_block_add(t->w->kernel, block, branch);
    parts[0] = &branch->u.branch.then;
    parts[1] = &branch->u.branch.otherwise;
}

static NstBlock *open_if(NstTiler *t, NstBlock *block, NstExpr condition)
{
    NstStmt *branch = nst_stmt_if(t->w->kernel, condition);
    nst_block_add(t->w->kernel, block, branch);
    return &branch->u.branch.then;
}

/* Whether row i of the tile is one that it has. */
static NstExpr is_row(NstTiler *t, const NstTileAt *tile, NstDim i)
{
    NstExprs *exprs = t->w->module->exprs;
    NstDim after = nst_dim_add_const(t->dims, nst_dim_sub(t->dims, tile->asked, i), -1);
    return nst_expr_binary(exprs, NST_OP_GE, nst_expr_index(exprs, after), nst_expr_int(exprs, NST_I64, 0));
}

/* The partial sum in the output, from the k blocks before. */
static NstExpr partial_sum(NstTiler *t)
{
    const NstNestOut *out = &t->nest->out[0];
    uint32_t n;
    NstDim *index = nst_writer_index(t->w, out->buffer, out->index, out->n_index, &n);
    return nst_expr_load(t->w->module->exprs, t->nest->state[0].dtype, nst_writer_buffer(t->w, out->buffer), index, n);
}

/* Sets the states to their identities, or, after the first k block, to the partial sums in the output: unless the blocks of the
 * nest's sum start anew. */
static void start_states(NstTiler *t, NstBlock *block, const NstTileAt *tile)
{
    NstKernel *kernel = t->w->kernel;
    NstBlock *parts[2];
    split_by_block(t, block, t->nest->block ? (NstExpr){0} : t->first, parts);
    for (int p = 0; p < 2 && parts[p]; p++) {
        NstDim i;
        NstBlock *rows = open_rows(t, parts[p], tile, &i);
        if (p == 1 && tile->asked.i) rows = open_if(t, rows, is_row(t, tile, i));
        NstTilerLanes lanes = nst_tiler_open_lanes(t, rows, tile, i, p == 1 && tile->ragged);
        for (uint32_t k = 0; k < t->nest->n_states; k++) {
            NstExpr value = p == 1 ? partial_sum(t) : t->nest->state[k].identity;
            nst_block_add(kernel, lanes.body, nst_stmt_store(kernel, t->state[k], lanes.index, 3, value));
        }
    }
}

/* True if the guard differs by column. */
static bool guards_columns(NstTiler *t)
{
    return nst_expr_uses_sym(t->w->module->exprs, t->nest->guard, nst_tiler_col_axis(t).var);
}

/* What is still open for row i at the taps chosen. */
static NstExpr guard_of(NstTiler *t, const NstTileAt *tile, NstDim i)
{
    NstExpr guard = nst_conditions_now(t->w, &t->guard, t->open, true);
    if (!tile->asked.i) return guard;
    NstExpr row = is_row(t, tile, i);
    return guard.i ? nst_expr_binary(t->w->module->exprs, NST_OP_AND, guard, row) : row;
}

void nst_tiler_step(NstTiler *t, NstTilerLanes *open)
{
    NstExpr value[NST_TILER_MAX_STATES];
    bind_states(t, open->index);
    for (uint32_t k = 0; k < t->nest->n_states; k++) value[k] = nst_writer_expr(t->w, t->nest->state[k].step);
    store_states(t, open->body, open->index, value);
}

/* One element of the reduction for rows that all count, or (border) for one row at a constant place. */
static void step_rows(NstTiler *t, NstBlock *block, const NstTileAt *tile)
{
    bool masked = tile->ragged && !t->s->padded;
    int written_out = tile->border ? tile->rows : 1;
    for (int r = 0; r < written_out; r++) {
        NstBlock *rows = block;
        NstDim i = nst_tiler_const(t, r);
        if (tile->border)
            nst_writer_bind(t->w, nst_tiler_row_axis(t).var, nst_dim_add_const(t->dims, tile->row, r));
        else
            rows = open_rows_between(t, block, tile, t->left_out, &i);
        NstExpr guard = guard_of(t, tile, i);
        const NstExprNode *known = guard.i ? nst_expr(t->w->module->exprs, guard) : NULL;
        if (known && known->op == NST_OP_CONST && !known->imm.i) continue;
        if (guard.i && !guards_columns(t)) rows = open_if(t, rows, guard);
        NstTilerLanes lanes = nst_tiler_open_lanes(t, rows, tile, i, masked);
        if (guard.i && guards_columns(t)) lanes.body = open_if(t, lanes.body, guard_of(t, tile, i));
        nst_tiler_step(t, &lanes);
    }
}

bool nst_tiler_least_over_taps(NstTiler *t, NstDim *e)
{
    for (uint32_t k = 0; k < t->nest->n_reduce; k++) {
        NstDim coef, rest;
        int64_t c;
        NstAxis axis = t->nest->reduce[k];
        if (!nst_dim_uses(t->dims, *e, axis.var) || is_bound(t, axis.var)) continue;
        if (!nst_dim_linear(t->dims, *e, axis.var, &coef, &rest) || !nst_dim_is_const(t->dims, coef, &c)) return false;
        NstDim at = c >= 0 ? nst_tiler_const(t, 0) : nst_dim_add_const(t->dims, axis.extent, -1);
        *e = nst_dim_add(t->dims, rest, nst_dim_mul_const(t->dims, at, c));
    }
    return true;
}

NstConditionSet nst_tiler_row_conditions(NstTiler *t, NstDim first, NstDim last, NstExpr *inside)
{
    NstExprs *exprs = t->w->module->exprs;
    NstConditionSet set = 0;
    NstSym x = nst_tiler_row_axis(t).var;
    *inside = (NstExpr){0};
    for (uint32_t k = 0; k < t->guard.nonnegative.n && k < 64; k++) {
        NstDim e = t->guard.nonnegative.at[k];
        if (!nst_condition_in(t->open, k) || !nst_dim_uses(t->dims, e, x)) continue;
        if (!nst_tiler_least_over_taps(t, &e)) return 0;
        for (int at = 0; at < 2; at++) {
            NstDim place = nst_writer_dim(t->w, nst_dim_subst(t->dims, e, x, at ? last : first));
            NstExpr holds =
                nst_expr_binary(exprs, NST_OP_GE, nst_expr_index(exprs, place), nst_expr_int(exprs, NST_I64, 0));
            *inside = inside->i ? nst_expr_binary(exprs, NST_OP_AND, *inside, holds) : holds;
        }
        set |= (NstConditionSet)1 << k;
    }
    return set;
}

static void reduce_from(NstTiler *t, NstBlock *block, const NstTileAt *tile, uint32_t depth);
static void reduce_range(NstTiler *t, NstBlock *block, const NstTileAt *tile, uint32_t depth, NstDim begin, NstDim end);

static void unrolled_taps(NstTiler *t, NstBlock *block, const NstTileAt *tile, uint32_t depth, int64_t taps)
{
    NstSym var = t->nest->reduce[depth].var;
    for (int64_t tap = 0; tap < taps; tap++) {
        nst_writer_bind(t->w, var, nst_tiler_const(t, tap));
        nst_tiler_mark(t, var, true);
        reduce_from(t, block, tile, depth + 1);
    }
}

/* The conditions on rows that only bound reduction axes take part in. */
static NstConditionSet decided_by_taps(NstTiler *t)
{
    NstConditionSet set = 0;
    for (uint32_t k = 0; k < t->guard.nonnegative.n && k < 64; k++) {
        NstDim e = t->guard.nonnegative.at[k];
        bool decided = nst_condition_in(t->open & ~t->split, k) && nst_dim_uses(t->dims, e, nst_tiler_row_axis(t).var);
        for (uint32_t a = 0; a < t->nest->n_reduce && decided; a++)
            decided = !nst_dim_uses(t->dims, e, t->nest->reduce[a].var) || is_bound(t, t->nest->reduce[a].var);
        set |= (NstConditionSet)decided << k;
    }
    return set;
}

/* Rows left out at the ends of a tile, a version each; a window shifted by one loses one row there. */
static const NstRowsLeftOut rows_left_out[] = {{0, 0}, {1, 0}, {0, 1}};

/* What follows once a tap is chosen, in versions: all rows of the tile keep their conditions at this tap, all but one at an end,
 * else each row is asked.  (That all but the first keep them and not all do, says that the first does not.) */
static void reduce_tap(NstTiler *t, NstBlock *block, const NstTileAt *tile, uint32_t depth)
{
    const NstConditionSet open = t->open, split = t->split;
    NstConditionSet set = 0;
    if (!tile->border && !tile->asked.i && t->s->row_axis >= 0 && depth < t->nest->n_reduce) set = decided_by_taps(t);
    for (size_t v = 0; v < sizeof rows_left_out / sizeof *rows_left_out && set; v++) {
        int first = rows_left_out[v].first, rows = tile->rows - first - rows_left_out[v].last;
        NstExpr inside = {0};
        if (rows < 1) continue;
        NstDim from = nst_dim_add_const(t->dims, tile->row, first);
        t->open = set;
        set = nst_tiler_row_conditions(t, from, nst_dim_add_const(t->dims, from, rows - 1), &inside);
        t->open = open;
        if (!set) break;
        NstStmt *branch = nst_stmt_if(t->w->kernel, inside);
        nst_block_add(t->w->kernel, block, branch);
        t->open = open & ~set;
        t->left_out = rows_left_out[v];
        reduce_from(t, &branch->u.branch.then, tile, depth);
        t->left_out = rows_left_out[0];
        t->open = open;
        t->split = split | set;
        block = &branch->u.branch.otherwise;
    }
    reduce_from(t, block, tile, depth);
    t->split = split;
}

/* --- blocks of the nest's sum -------------------------------------------------------------------------------- */

/* Where the sum of the blocks before stands. */
typedef enum Before { BEFORE_NONE, BEFORE_IN_OUTPUT, BEFORE_IN_MEMORY } Before;

/* to = before + states.  (BEFORE_NONE: the states alone; to none: the states themselves.)  What lies past the columns of a ragged tile
 * takes no part: it may be anything. */
static void add_before(NstTiler *t, NstBlock *block, const NstTileAt *tile, Before before, NstBuf total, NstBuf to)
{
    NstExprs *exprs = t->w->module->exprs;
    NstDim i;
    if (before == BEFORE_NONE && !to.i) return;
    block = open_rows(t, block, tile, &i);
    NstTilerLanes lanes = nst_tiler_open_lanes(t, block, tile, i, tile->ragged);
    bind_states(t, lanes.index);
    NstExpr side[2] = {{0}, t->w->state[0]}, value = side[1];
    if (before != BEFORE_NONE) {
        side[0] = before == BEFORE_IN_OUTPUT ? partial_sum(t)
                                             : nst_expr_load(exprs, t->nest->state[0].dtype, total, lanes.index, 3);
        value = nst_expr_subst_args(exprs, t->nest->state[0].merge, side, 2);
    }
    nst_block_add(t->w->kernel, lanes.body,
                  nst_stmt_store(t->w->kernel, to.i ? to : t->state[0], lanes.index, 3, value));
}

/* The same where the sum of the k blocks before, if there are any, is all that stands before. */
static void add_first(NstTiler *t, NstBlock *block, const NstTileAt *tile, NstBuf to)
{
    NstBlock *parts[2];
    split_by_block(t, block, t->first, parts);
    add_before(t, parts[0], tile, BEFORE_NONE, (NstBuf){0}, to);
    if (parts[1]) add_before(t, parts[1], tile, BEFORE_IN_OUTPUT, (NstBuf){0}, to);
}

/* parts[0] where number > at, parts[1] elsewhere; NULL: nowhere. */
static void split_past(NstTiler *t, NstBlock *block, NstDim number, int64_t at, NstBlock *parts[2])
{
    NstExprs *exprs = t->w->module->exprs;
    int64_t known;
    parts[0] = parts[1] = NULL;
    if (nst_dim_is_const(t->dims, number, &known)) {
        parts[known <= at] = block;
        return;
    }
    NstExpr past = nst_expr_binary(exprs, NST_OP_GT, nst_expr_index(exprs, number), nst_expr_int(exprs, NST_I64, at));
    split_by_block(t, block, past, parts);
}

/* The elements begin .. end - 1 of a sum in blocks.  The registers hold one block's sum, memory that of the blocks before it, from
 * the second block on. */
static void reduce_blocks(NstTiler *t, NstBlock *block, const NstTileAt *tile, NstDim begin, NstDim end)
{
    NstDims *dims = t->dims;
    NstDim size = nst_tiler_const(t, t->nest->block), which;
    NstDim count = nst_dim_ceildiv(dims, nst_dim_sub(dims, end, begin), size);
    NstBlock *parts[2], *several[2];
    int64_t known;
    if (nst_dim_is_const(dims, count, &known) && known <= 1) {
        reduce_range(t, block, tile, 0, begin, end);
        add_first(t, block, tile, (NstBuf){0});
        return;
    }
    NstBuf total = nst_kernel_local(t->w->kernel, "total", t->nest->state[0].dtype, NST_SPACE_SCRATCH, 3,
                                    nst_kernel_buffer(t->w->kernel, t->state[0])->shape);
    nst_block_add(t->w->kernel, block, nst_stmt_alloc(t->w->kernel, total));
    NstBlock *body = nst_writer_loop(t->w, block, "kb", nst_tiler_const(t, 0), count, 1, NST_FOR_SERIAL, 0, &which);
    split_past(t, body, which, 0, parts);
    split_past(t, parts[0], which, 1, several);
    add_before(t, several[0], tile, BEFORE_IN_MEMORY, total, total);
    add_first(t, several[1], tile, total);
    start_states(t, parts[0], tile);
    NstDim first = nst_dim_add(dims, begin, nst_dim_mul(dims, which, size));
    reduce_range(t, body, tile, 0, first, nst_dim_min(dims, end, nst_dim_add(dims, first, size)));
    split_past(t, block, count, 1, several);
    if (several[0]) add_before(t, several[0], tile, BEFORE_IN_MEMORY, total, (NstBuf){0});
    if (several[1]) add_first(t, several[1], tile, (NstBuf){0});
}

/* --- the reduction ------------------------------------------------------------------------------------------- */

/* The reduction loops from axis `depth` inward; axes that are block loops are bound already. */
static void reduce_from(NstTiler *t, NstBlock *block, const NstTileAt *tile, uint32_t depth)
{
    if (depth == t->nest->n_reduce) {
        step_rows(t, block, tile);
        return;
    }
    if (depth == nst_tiler_swept_from(t, tile)) {
        nst_tiler_sweep(t, block, tile, depth);
        return;
    }
    NstAxis axis = t->nest->reduce[depth];
    bool block_loop = (int)depth < t->s->k_outer;
    NstDim begin = nst_tiler_const(t, 0), end = nst_writer_dim(t->w, axis.extent);
    int64_t taps;
    if (block_loop) {
        /* Bound by the loop outside the tiles: only the guard that it decides remains. */
        reduce_from(t, block, tile, depth + 1);
        return;
    }
    if (tile->border && t->unroll[depth] && !t->nest->block && nst_dim_is_const(t->dims, end, &taps) &&
        taps <= MAX_UNROLLED_TAPS) {
        unrolled_taps(t, block, tile, depth, taps);
        nst_tiler_mark(t, axis.var, false);
        return;
    }
    if (t->block.i && (int)depth == t->s->k_outer) {
        begin = nst_dim_mul_const(t->dims, t->block, t->s->k_block);
        end = nst_dim_min(t->dims, end, nst_dim_add_const(t->dims, begin, t->s->k_block));
    }
    if (t->nest->block)
        reduce_blocks(t, block, tile, begin, end);
    else
        reduce_range(t, block, tile, depth, begin, end);
}

/* Elements begin .. end - 1 of axis `depth`, and all of the axes inside of it. */
static void reduce_range(NstTiler *t, NstBlock *block, const NstTileAt *tile, uint32_t depth, NstDim begin, NstDim end)
{
    NstAxis axis = t->nest->reduce[depth];
    NstConditionSet open = t->open;
    t->open = nst_conditions_tighten(t->w, &t->guard, open, axis.var, is_bound, t, &begin, &end);
    NstDim k;
    int64_t known;
    bool written_out = !tile->asked.i && (int)(t->nest->n_reduce - depth) <= t->s->taps &&
                       nst_dim_is_const(t->dims, begin, &known) && nst_dim_is_const(t->dims, end, &known);
    block = nst_writer_loop(t->w, block, nst_dims_sym(t->dims, axis.var)->name, begin, end, 1,
                            written_out ? NST_FOR_UNROLL : NST_FOR_SERIAL, 0, &k);
    nst_writer_bind(t->w, axis.var, k);
    nst_tiler_mark(t, axis.var, true);
    if (depth + 1 == t->nest->n_reduce) nst_tiler_prefetch(t, block, tile);
    reduce_tap(t, block, tile, depth + 1);
    nst_tiler_mark(t, axis.var, false);
    t->open = open;
}

/* Stores the outputs, or before the last k block the raw states. */
static void finish_states(NstTiler *t, NstBlock *block, const NstTileAt *tile)
{
    NstKernel *kernel = t->w->kernel;
    NstBlock *parts[2];
    split_by_block(t, block, t->last, parts);
    for (int p = 0; p < 2 && parts[p]; p++) {
        NstDim i;
        NstBlock *rows = open_rows(t, parts[p], tile, &i);
        if (tile->asked.i) rows = open_if(t, rows, is_row(t, tile, i));
        NstTilerLanes lanes = nst_tiler_open_lanes(t, rows, tile, i, tile->ragged);
        bind_states(t, lanes.index);
        if (p == 0) {
            nst_writer_stores(t->w, lanes.body, t->nest);
            continue;
        }
        const NstNestOut *out = &t->nest->out[0];
        uint32_t n;
        NstDim *index = nst_writer_index(t->w, out->buffer, out->index, out->n_index, &n);
        nst_block_add(kernel, lanes.body,
                      nst_stmt_store(kernel, nst_writer_buffer(t->w, out->buffer), index, n, t->w->state[0]));
    }
}

/* Opens an if for the conditions that are decided before the reduction starts. */
static NstBlock *decided_outside(NstTiler *t, NstBlock *block, NstConditionSet decided)
{
    NstExpr guard = nst_conditions_now(t->w, &t->guard, decided, false);
    return guard.i ? open_if(t, block, guard) : block;
}

void nst_tiler_write(NstTiler *t, NstBlock *block, const NstTileAt *tile)
{
    NstKernel *kernel = t->w->kernel;
    /* A block of its own keeps the states' lives apart. */
    NstStmt *scope = nst_stmt_if(kernel, nst_expr_int(t->w->module->exprs, NST_BOOL, 1));
    nst_block_add(kernel, block, scope);
    block = &scope->u.branch.then;
    if (t->nest->n_states == 0) { /* a map: nothing to reduce */
        finish_states(t, block, tile);
        return;
    }
    allocate_states(t, block, tile);
    start_states(t, block, tile);
    nst_tiler_prefetch_window(t, block, tile);
    NstConditionSet open = t->open, decided = nst_conditions_bound(t->w->module, &t->guard, open, is_bound, t);
    t->open = open & ~decided;
    reduce_from(t, decided_outside(t, block, decided), tile, 0);
    t->open = open;
    finish_states(t, block, tile);
}
