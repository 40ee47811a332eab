/* tile.c: the register-tile schedule: reductions whose states stay in registers, rows x vectors at a time.
 *
 * In: a nest with states and a NstTileSchedule.  Out: statements
 *   [outer axes] [column blocks] [k blocks] [row tiles] [column tiles] { states = identity or partial; reduction; store }
 * Tiles at the border of a guard's rows stand apart at constant positions.  The order of every sum is the nest's own. */
#include "passes/tiler.h"

/* --- tiles over columns and rows ----------------------------------------------------------------------------- */

typedef struct RowTile {
    NstDim row, plane, asked;
    int rows, planes;
    bool border;
} RowTile;

/* All column tiles of the current block for one row tile. */
static void column_tiles(NstTiler *t, NstBlock *block, const RowTile *row)
{
    NstDim lo = t->col_lo, hi = t->col_hi;
    int64_t width = nst_tile_width(t->s), columns = t->s->columns, extent;
    NstDim n = nst_writer_dim(t->w, nst_tiler_col_axis(t).extent);
    NstDim full = nst_dim_floordiv(t->dims, n, nst_tiler_const(t, width));
    bool fixed = nst_dim_is_const(t->dims, n, &extent);
    NstDim end = hi.i ? nst_dim_min(t->dims, hi, full) : full;
    NstTileAt tile = {.row = row->row,
                      .rows = row->rows,
                      .border = row->border,
                      .asked = row->asked,
                      .vectors = t->s->vectors,
                      .plane = row->plane,
                      .planes = row->planes};
    NstDim j;
    if (!fixed || extent >= width) {
        NstBlock *body = nst_writer_loop(t->w, block, "jt", lo, end, 1, NST_FOR_SERIAL, 0, &j);
        tile.col = nst_dim_mul_const(t->dims, j, width);
        nst_tiler_write(t, body, &tile);
    }
    if (fixed && extent % width == 0) return;
    /* The rest: one narrower tile, or single vectors where the extent is not known. */
    NstDim rest_tile = full;
    if (hi.i) /* at most one iteration: in the block that holds the rest */
        block =
            nst_writer_loop(t->w, block, "jr", nst_dim_max(t->dims, lo, full), hi, 1, NST_FOR_SERIAL, 0, &rest_tile);
    tile.col = nst_dim_mul_const(t->dims, rest_tile, width);
    tile.ragged = !fixed || extent % columns != 0;
    if (fixed) {
        tile.vectors = (int)((extent % width + columns - 1) / columns);
        nst_tiler_write(t, block, &tile);
        return;
    }
    NstDim rest = nst_dim_sub(t->dims, n, tile.col), v;
    NstBlock *body =
        nst_writer_loop(t->w, block, "jv", nst_tiler_const(t, 0),
                        nst_dim_ceildiv(t->dims, rest, nst_tiler_const(t, columns)), 1, NST_FOR_SERIAL, 0, &v);
    tile.col = nst_dim_add(t->dims, tile.col, nst_dim_mul_const(t->dims, v, columns));
    tile.vectors = 1;
    nst_tiler_write(t, body, &tile);
}

/* Loops over the outer axes picked by `inside`. */
static NstBlock *inside_axes(NstTiler *t, NstBlock *block)
{
    for (uint32_t k = t->n_common; k < t->nest->n_axes; k++)
        if (t->s->inside >> k & 1 && !(t->s->parallel == NST_PARALLEL_OUTER && t->s->parallel_axis == (int)k)) {
            block = nst_writer_axis_loop(t->w, block, t->nest->axis[k], NST_FOR_SERIAL);
            nst_tiler_mark(t, t->nest->axis[k].var, true);
        }
    return block;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Places lo .. hi - 1 along the plane axis at which no condition fails, whatever the taps; none where it cannot be said. */
static void planes_inside(NstTiler *t, int64_t *lo, int64_t *hi)
{
    NstAxis axis = nst_tiler_plane_axis(t);
    *lo = 0;
    if (!nst_dim_is_const(t->dims, nst_writer_dim(t->w, axis.extent), hi)) *hi = 0;
    for (uint32_t k = 0; k < t->guard.nonnegative.n; k++) {
        NstDim e = t->guard.nonnegative.at[k], coef, rest;
        int64_t step, start;
        if (!nst_dim_uses(t->dims, e, axis.var)) continue;
        if (!nst_tiler_least_over_taps(t, &e) || !nst_dim_linear(t->dims, e, axis.var, &coef, &rest) ||
            !nst_dim_is_const(t->dims, coef, &step) || !nst_dim_is_const(t->dims, rest, &start) || step == 0) {
            *hi = 0;
            return;
        }
        int64_t first = step > 0 ? -floor_div(start, step) : 0, end = step < 0 ? floor_div(start, -step) + 1 : *hi;
        *lo = first > *lo ? first : *lo;
        *hi = end < *hi ? end : *hi;
    }
    if (*hi < *lo) *hi = *lo;
}

/* Tiles of several planes where no border is near, then the single planes left on both sides. */
static void plane_tiles(NstTiler *t, NstBlock *block, const RowTile *row)
{
    NstAxis axis = nst_tiler_plane_axis(t);
    int64_t lo, hi, n = t->s->planes;
    planes_inside(t, &lo, &hi);
    if (row->asked.i) hi = lo;
    NstDim zero = nst_tiler_const(t, 0), count = nst_tiler_const(t, (hi - lo) / n), at;
    RowTile several = *row;
    several.planes = t->s->planes;
    if (hi - lo >= n) {
        NstBlock *body = nst_writer_loop(t->w, block, "pt", zero, count, 1, NST_FOR_SERIAL, 0, &at);
        several.plane = nst_dim_add_const(t->dims, nst_dim_mul_const(t->dims, at, n), lo);
        column_tiles(t, body, &several);
    }
    int64_t taken = (hi - lo) / n * n;
    NstDim extent = nst_dim_add_const(t->dims, nst_writer_dim(t->w, axis.extent), -taken);
    block = nst_writer_loop(t->w, block, "ps", zero, extent, 1, NST_FOR_SERIAL, 0, &at);
    NstDim behind =
        nst_dim_min(t->dims, nst_tiler_const(t, 1), nst_dim_max(t->dims, zero, nst_dim_add_const(t->dims, at, 1 - lo)));
    nst_writer_bind(t->w, axis.var, nst_dim_add(t->dims, at, nst_dim_mul_const(t->dims, behind, taken)));
    nst_tiler_mark(t, axis.var, true);
    column_tiles(t, block, row);
    nst_tiler_mark(t, axis.var, false);
}

/* What one row tile does. */
static void in_row_tile(NstTiler *t, NstBlock *block, const RowTile *row)
{
    if (t->s->rows_outside) block = inside_axes(t, block);
    if (t->s->plane_axis >= 0)
        plane_tiles(t, block, row);
    else
        column_tiles(t, block, row);
}

/* True if all guard conditions that involve the row axis hold for rows row .. row + rows - 1, whatever the taps. */
static bool rows_inside(NstTiler *t, int64_t row, int rows)
{
    NstDim zero = nst_tiler_const(t, 0);
    NstSym x = nst_tiler_row_axis(t).var;
    for (uint32_t k = 0; k < t->guard.nonnegative.n; k++) {
        NstDim e = t->guard.nonnegative.at[k];
        if (!nst_dim_uses(t->dims, e, x)) continue;
        for (int at = 0; at < 2; at++) {
            NstDim place = nst_dim_subst(t->dims, e, x, nst_tiler_const(t, row + (at ? rows - 1 : 0)));
            if (nst_dim_compare(t->dims, place, NST_DIM_GE, zero) != NST_TRUE) return false;
        }
    }
    return true;
}

static void row_tiles_fixed(NstTiler *t, NstBlock *block, int64_t extent, NstDim lo, NstDim hi)
{
    int64_t n_tiles = (extent + t->s->rows - 1) / t->s->rows;
    int64_t q = extent / n_tiles, larger = extent % n_tiles; /* the first `larger` tiles have q + 1 rows */
    for (int64_t at = 0; at < n_tiles;) {
        bool big = at < larger;
        int rows = (int)(big ? q + 1 : q);
        int64_t row = big ? at * (q + 1) : at * q + larger;
        int64_t stop = big ? larger : n_tiles, run = 1;
        RowTile tile = {.rows = rows};
        tile.border = !rows_inside(t, row, rows);
        if (!tile.border)
            while (at + run < stop && rows_inside(t, row + run * rows, rows)) run++;
        NstBlock *body = block;
        if (run == 1 && !t->s->row_chunks) {
            tile.row = nst_tiler_const(t, row);
        } else {
            NstDim it, begin = nst_tiler_const(t, at), end = nst_tiler_const(t, at + run);
            if (lo.i) {
                begin = nst_dim_max(t->dims, begin, lo);
                end = nst_dim_min(t->dims, end, hi);
            }
            body = nst_writer_loop(t->w, block, "it", begin, end, 1, NST_FOR_SERIAL, 0, &it);
            /* Also a border's row is said by `it`, which is then known to be `at`: threads store apart for all to see. */
            tile.row = nst_dim_add_const(t->dims, nst_dim_mul_const(t->dims, it, rows), big ? 0 : larger);
        }
        in_row_tile(t, body, &tile);
        at += run;
    }
}

/* 1 if dim == value, else 0, as a dim. */
static NstDim equals(NstTiler *t, NstDim dim, int64_t value)
{
    NstDim less = nst_dim_add_const(t->dims, dim, -value);
    NstDim distance = nst_dim_max(t->dims, less, nst_dim_mul_const(t->dims, less, -1));
    return nst_dim_max(t->dims, nst_tiler_const(t, 0), nst_dim_sub(t->dims, nst_tiler_const(t, 1), distance));
}

/* The tiles begin .. end - 1 that are this thread's. */
static NstBlock *tile_loop(NstTiler *t, NstBlock *block, NstDim begin, NstDim end, NstDim *it)
{
    if (t->deal.lo.i) {
        begin = nst_dim_max(t->dims, begin, t->deal.lo);
        end = nst_dim_min(t->dims, end, t->deal.hi);
    }
    return nst_writer_loop(t->w, block, "it", begin, end, 1, NST_FOR_SERIAL, 0, it);
}

/* A tile at a place known at run time only: without conditions on its rows where it is inside; at a border with them, or left to
 * asked_tiles. */
static void inner_or_border(NstTiler *t, NstBlock *block, const RowTile *tile)
{
    NstExpr inside;
    NstDim last = nst_dim_add_const(t->dims, tile->row, tile->rows - 1);
    NstConditionSet open = t->open, set = nst_tiler_row_conditions(t, tile->row, last, &inside);
    if (!set) {
        in_row_tile(t, block, tile);
        return;
    }
    NstStmt *branch = nst_stmt_if(t->w->kernel, inside);
    nst_block_add(t->w->kernel, block, branch);
    t->open = open & ~set;
    in_row_tile(t, &branch->u.branch.then, tile);
    t->open = open;
    if (!t->deal.asks) in_row_tile(t, &branch->u.branch.otherwise, tile);
}

/* One copy of the tile for all that are at a border or are what is left. */
static void asked_tiles(NstTiler *t, NstBlock *block)
{
    NstDims *dims = t->dims;
    NstExprs *exprs = t->w->module->exprs;
    const NstDeal *d = &t->deal;
    NstDim rows = nst_tiler_const(t, t->s->rows), it;
    NstExpr inside;
    block = tile_loop(t, block, nst_tiler_const(t, 0), d->n_tiles, &it);
    RowTile tile = {.rows = t->s->rows, .row = nst_dim_mul(dims, it, rows)};
    NstDim extent = nst_writer_dim(t->w, nst_tiler_row_axis(t).extent);
    tile.asked = nst_dim_min(dims, rows, nst_dim_sub(dims, extent, tile.row));
    (void)nst_tiler_row_conditions(t, tile.row, nst_dim_add_const(dims, tile.row, tile.rows - 1), &inside);
    NstExpr full = nst_expr_binary(exprs, NST_OP_LT, nst_expr_index(exprs, it), nst_expr_index(exprs, d->full));
    NstStmt *branch =
        nst_stmt_if(t->w->kernel, nst_expr_unary(exprs, NST_OP_NOT, nst_expr_binary(exprs, NST_OP_AND, full, inside)));
    nst_block_add(t->w->kernel, block, branch);
    in_row_tile(t, &branch->u.branch.then, &tile);
}

/* True if a row's conditions are asked for each step of the reduction, wherever a tile is not inside: then tiles can as well be
 * asked which rows they have. */
static bool asks_rows(NstTiler *t)
{
    uint32_t n = t->nest->n_reduce;
    NstExpr inside;
    NstDim zero = nst_tiler_const(t, 0);
    return n > 0 && t->unroll[n - 1] && nst_tiler_row_conditions(t, zero, zero, &inside) != 0;
}

/* A value of 0 .. most under a name of its own: what is built on it stays short. */
static NstDim named(NstTiler *t, NstBlock *block, const char *name, NstDim value, NstDim most)
{
    NstDim zero = nst_tiler_const(t, 0), end = nst_dim_add_const(t->dims, most, 1);
    NstSym var = nst_kernel_index(t->w->kernel, name, zero, end);
    NstExpr expr = nst_expr_index(t->w->module->exprs, value);
    nst_block_add(t->w->kernel, block, nst_stmt_index(t->w->kernel, var, expr, zero, end, false));
    return nst_dim_sym(t->dims, var);
}

/* How the rows are dealt out, where their number is known at run time only; said before all loops. */
static void deal_rows(NstTiler *t)
{
    NstDims *dims = t->dims;
    NstDeal *d = &t->deal;
    int64_t fixed, rows = t->s->rows;
    if (t->s->row_axis < 0) return;
    NstDim extent = nst_writer_dim(t->w, nst_tiler_row_axis(t).extent), one = nst_tiler_const(t, 1);
    if (nst_dim_is_const(dims, extent, &fixed)) return;
    d->asks = asks_rows(t);
    d->most = d->asks ? 0 : rows - 1;
    d->full = nst_dim_floordiv(dims, extent, nst_tiler_const(t, rows));
    d->rest = nst_dim_mod(dims, extent, nst_tiler_const(t, rows));
    d->start = nst_dim_sub(dims, extent, d->rest);
    d->n_tiles = nst_dim_add(dims, d->full, nst_dim_min(dims, d->rest, one));
}

/* Steps of a reduction inside a tap from which on it costs little to ask at each tap whether the tile is inside: two comparisons,
 * where a step takes some four cycles or more. */
enum { STEPS_INSIDE_TAP = 16 };

/* True if tiles at a border need no copy of their own: what they ask at each tap is little beside what follows. */
static bool asks_taps(NstTiler *t)
{
    int64_t steps = 1, extent;
    uint32_t k = t->nest->n_reduce;
    for (; k > 0 && !t->unroll[k - 1]; k--) {
        if (!nst_dim_is_const(t->dims, nst_writer_dim(t->w, t->nest->reduce[k - 1].extent), &extent)) return false;
        steps *= extent;
    }
    return k > 0 && steps >= STEPS_INSIDE_TAP && (int)k > t->s->k_outer;
}

/* Tiles of as many rows as the schedule says, then what is left: a copy of the tile for each count of rows.  Two tiles of half as
 * many instead read the columns' operand twice and leave FMAs waiting (3x3 64->64, open sizes over exact ones: planes of 7x7
 * 1.39, 13x13 1.32, 14x14 1.24, mean of ten 1.12, in one tile 1.01, 1.05, 1.03, 1.03; products of 768 columns and 5, 7, 13
 * rows 1.24, 1.28, 1.30, now 0.92, 0.98, 1.13; a network of 164 kernels compiles in 2.2 s instead of 1.8; Emerald Rapids,
 * 2026-11). */
static void row_tiles_symbolic(NstTiler *t, NstBlock *block)
{
    NstDims *dims = t->dims;
    const NstDeal *d = &t->deal;
    NstDim it;
    RowTile tile = {.rows = t->s->rows};
    NstBlock *body = tile_loop(t, block, nst_tiler_const(t, 0), d->full, &it);
    tile.row = nst_dim_mul_const(dims, it, tile.rows);
    if (asks_taps(t))
        in_row_tile(t, body, &tile);
    else
        inner_or_border(t, body, &tile);
    if (d->asks) asked_tiles(t, block);
    for (tile.rows = (int)d->most; tile.rows >= 1; tile.rows--) {
        NstDim end = nst_dim_add(dims, d->full, equals(t, d->rest, tile.rows));
        body = tile_loop(t, block, d->full, end, &it);
        tile.row = named(t, body, "row", d->start, nst_writer_dim(t->w, nst_tiler_row_axis(t).extent));
        in_row_tile(t, body, &tile);
    }
}

static void row_tiles(NstTiler *t, NstBlock *block, NstDim lo, NstDim hi)
{
    if (t->s->row_axis < 0) {
        RowTile tile = {.rows = 1, .row = nst_tiler_const(t, 0)};
        in_row_tile(t, block, &tile);
        return;
    }
    NstDim extent = nst_writer_dim(t->w, nst_tiler_row_axis(t).extent);
    int64_t fixed;
    if (nst_dim_is_const(t->dims, extent, &fixed)) {
        if (fixed > 0) row_tiles_fixed(t, block, fixed, lo, hi);
    } else {
        t->deal.lo = lo;
        t->deal.hi = hi;
        row_tiles_symbolic(t, block);
    }
}

/* --- loops around the tiles ---------------------------------------------------------------------------------- */

static NstDim row_tile_count(NstTiler *t)
{
    if (t->deal.full.i) return t->deal.n_tiles;
    NstDim extent = nst_writer_dim(t->w, nst_tiler_row_axis(t).extent);
    return nst_dim_ceildiv(t->dims, extent, nst_tiler_const(t, t->s->rows));
}

/* The axes picked by `inside` and the row tiles. */
static void inner_axes(NstTiler *t, NstBlock *block, NstDim lo, NstDim hi)
{
    row_tiles(t, t->s->rows_outside ? block : inside_axes(t, block), lo, hi);
}

static NstExpr both(NstTiler *t, NstExpr a, NstExpr b)
{
    return a.i ? nst_expr_binary(t->w->module->exprs, NST_OP_AND, a, b) : b;
}

/* Adds to `first` and `last` that this block loop is at its first, last iteration. */
static void add_block_ends(NstTiler *t, NstDim var, NstDim count)
{
    NstExprs *exprs = t->w->module->exprs;
    NstExpr at = nst_expr_index(exprs, var);
    t->first = both(t, t->first, nst_expr_binary(exprs, NST_OP_EQ, at, nst_expr_int(exprs, NST_I64, 0)));
    NstExpr end = nst_expr_index(exprs, nst_dim_add_const(t->dims, count, -1));
    t->last = both(t, t->last, nst_expr_binary(exprs, NST_OP_EQ, at, end));
}

static void k_blocks(NstTiler *t, NstBlock *block, NstDim lo, NstDim hi)
{
    t->first = t->last = (NstExpr){0};
    for (int k = 0; k < t->s->k_outer; k++) {
        NstAxis axis = t->nest->reduce[k];
        block = nst_writer_axis_loop(t->w, block, axis, NST_FOR_SERIAL);
        nst_tiler_mark(t, axis.var, true);
        add_block_ends(t, nst_writer_dim(t->w, nst_dim_sym(t->dims, axis.var)), nst_writer_dim(t->w, axis.extent));
    }
    t->block = (NstDim){0};
    if (t->s->k_block) {
        NstDim extent = nst_writer_dim(t->w, t->nest->reduce[t->s->k_outer].extent);
        NstDim count = nst_dim_ceildiv(t->dims, extent, nst_tiler_const(t, t->s->k_block));
        block = nst_writer_loop(t->w, block, "kb", nst_tiler_const(t, 0), count, 1, NST_FOR_SERIAL, 0, &t->block);
        add_block_ends(t, t->block, count);
    }
    inner_axes(t, block, lo, hi);
}

static void column_blocks(NstTiler *t, NstBlock *block, NstDim lo, NstDim hi)
{
    t->col_lo = nst_tiler_const(t, 0);
    t->col_hi = (NstDim){0};
    if (t->s->col_block) {
        int64_t width = nst_tile_width(t->s);
        NstDim extent = nst_writer_dim(t->w, nst_tiler_col_axis(t).extent), jb;
        NstDim tiles = nst_dim_ceildiv(t->dims, extent, nst_tiler_const(t, width));
        NstDim count = nst_dim_ceildiv(t->dims, tiles, nst_tiler_const(t, t->s->col_block));
        NstForKind kind = t->s->parallel == NST_PARALLEL_COLS ? NST_FOR_PARALLEL : NST_FOR_SERIAL;
        block = nst_writer_loop(t->w, block, "jb", nst_tiler_const(t, 0), count, 1, kind, 0, &jb);
        t->col_lo = nst_dim_mul_const(t->dims, jb, t->s->col_block);
        t->col_hi = nst_dim_min(t->dims, tiles, nst_dim_add_const(t->dims, t->col_lo, t->s->col_block));
    }
    k_blocks(t, block, lo, hi);
}

static void outer_loops(NstTiler *t, NstBlock *block)
{
    const NstTileSchedule *s = t->s;
    NstDim lo = {0}, hi = {0};
    if (s->parallel == NST_PARALLEL_OUTER) {
        block = nst_writer_axis_loop(t->w, block, t->nest->axis[s->parallel_axis], NST_FOR_PARALLEL);
        nst_tiler_mark(t, t->nest->axis[s->parallel_axis].var, true);
    }
    if (s->parallel == NST_PARALLEL_ROWS) {
        NstDim chunk, tiles = row_tile_count(t), chunks = nst_tiler_const(t, s->row_chunks);
        block = nst_writer_loop(t->w, block, "chunk", nst_tiler_const(t, 0), chunks, 1, NST_FOR_PARALLEL, 0, &chunk);
        lo = nst_dim_floordiv(t->dims, nst_dim_mul(t->dims, chunk, tiles), chunks);
        hi = nst_dim_floordiv(t->dims, nst_dim_mul(t->dims, nst_dim_add_const(t->dims, chunk, 1), tiles), chunks);
    }
    for (uint32_t k = t->n_common; k < t->nest->n_axes; k++) {
        bool tiled = (int)k == s->row_axis || (int)k == s->col_axis || (int)k == s->plane_axis;
        if (tiled || s->inside >> k & 1 || (s->parallel == NST_PARALLEL_OUTER && s->parallel_axis == (int)k)) continue;
        block = nst_writer_axis_loop(t->w, block, t->nest->axis[k], NST_FOR_SERIAL);
        nst_tiler_mark(t, t->nest->axis[k].var, true);
    }
    column_blocks(t, block, lo, hi);
}

/* Reduction axes that share a guard condition with the row axis: their taps are written out at the borders. */
static void find_taps(NstTiler *t)
{
    for (uint32_t k = 0; k < t->nest->n_reduce && t->s->row_axis >= 0; k++)
        for (uint32_t g = 0; g < t->guard.nonnegative.n; g++)
            if (nst_dim_uses(t->dims, t->guard.nonnegative.at[g], t->nest->reduce[k].var) &&
                nst_dim_uses(t->dims, t->guard.nonnegative.at[g], nst_tiler_row_axis(t).var))
                t->unroll[k] = true;
}

static bool is_axis(const NstNest *nest, uint32_t n_common, int axis)
{
    return axis >= (int)n_common && axis < (int)nest->n_axes;
}

static bool is_inside(const NstTileSchedule *s, int axis)
{
    return axis >= 0 && s->inside >> axis & 1;
}

/* Schedules may be read from a text: one of another nest would leave out work or sum in another order. */
static NstStatus check_fits(NstCtx *ctx, const NstNest *nest, uint32_t n_common, const NstTileSchedule *s)
{
    NST_CHECK(ctx,
              is_axis(nest, n_common, s->col_axis) && (s->row_axis == -1 || is_axis(nest, n_common, s->row_axis)) &&
                  (s->plane_axis == -1 || is_axis(nest, n_common, s->plane_axis)) &&
                  (s->parallel != NST_PARALLEL_OUTER || is_axis(nest, n_common, s->parallel_axis)) &&
                  !is_inside(s, s->col_axis) && !is_inside(s, s->row_axis),
              NST_E_INVALID,
              "nest '%s': row_axis=%d col_axis=%d plane_axis=%d parallel_axis=%d inside=%u, allowed: axes %u..%u, "
              "inside others than rows and columns",
              nest->name, s->row_axis, s->col_axis, s->plane_axis, s->parallel_axis, s->inside, n_common,
              nest->n_axes - 1);
    NST_CHECK(ctx,
              s->k_block >= 0 && s->col_block >= 0 && s->planes >= 0 && s->k_outer >= 0 &&
                  s->k_outer + (s->k_block > 0) <= (int)nest->n_reduce &&
                  (s->parallel != NST_PARALLEL_ROWS || s->row_chunks > 0),
              NST_E_INVALID,
              "nest '%s' of %u reduced axes: k_outer=%d k_block=%lld col_block=%lld planes=%d row_chunks=%d, allowed: "
              "k blocks of reduced axes, sizes of 0 or more, row chunks where rows are dealt out",
              nest->name, nest->n_reduce, s->k_outer, (long long)s->k_block, (long long)s->col_block, s->planes,
              s->row_chunks);
    bool is_multiple = !s->k_block || (s->k_block % (nest->block ? nest->block : 1) == 0 && !nest->guard.i);
    NST_CHECK(ctx, !nest->block || (is_multiple && !s->k_outer), NST_E_INVALID,
              "nest '%s' sums %sin blocks of %u, its schedule in k blocks of %lld, allowed: %s", nest->name,
              nest->guard.i ? "under a condition " : "", nest->block, s->k_outer ? 1LL : (long long)s->k_block,
              nest->guard.i ? "none" : "a multiple");
    return NST_OK;
}

NstStatus nst_tile_nest(NstCtx *ctx, NstWriter *w, NstBlock *block, const NstNest *nest, uint32_t n_common,
                        const NstTileSchedule *schedule)
{
    NST_CHECK(ctx, nest->n_states <= NST_TILER_MAX_STATES, NST_E_UNSUPPORTED,
              "nest '%s' has %u states; the register-tile schedule takes at most %d", nest->name, nest->n_states,
              NST_TILER_MAX_STATES);
    NST_CHECK(ctx, nest->n_lets == 0, NST_E_UNSUPPORTED,
              "nest '%s' has gathered indices; the register-tile schedule takes none", nest->name);
    NST_TRY(check_fits(ctx, nest, n_common, schedule));
    NstTiler t = {.ctx = ctx, .w = w, .dims = w->module->dims, .nest = nest, .s = schedule, .n_common = n_common};
    t.open = ~(NstConditionSet)0;
    nst_conditions_of(w->module, nest->guard, &t.guard);
    for (uint32_t k = n_common; k < nest->n_axes; k++) nst_tiler_mark(&t, nest->axis[k].var, false);
    for (uint32_t k = 0; k < nest->n_reduce; k++) nst_tiler_mark(&t, nest->reduce[k].var, false);
    t.unroll = NST_NEW_ARRAY(w->kernel->arena, bool, nest->n_reduce);
    w->state = NST_NEW_ARRAY(w->kernel->arena, NstExpr, nest->n_states);
    find_taps(&t);
    deal_rows(&t);
    outer_loops(&t, block);
    return NST_OK;
}
