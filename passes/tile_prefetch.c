/* tile_prefetch.c: what the innermost reduction loop of a register tile asks of its operands ahead of their use.
 *
 * In: a tile at its place, all loops around it bound.  Out: prefetches of the column operand, to L1 of the steps that follow, to L2
 * of the block of columns and reductions that the loops come to next, a line or so a step, so that it is there when the last row has
 * passed by; and of the row operand, to L1, the rows of the next tile.  Of a window, whose taps have no such loop, that is asked
 * before the tile starts. */
#include "passes/tiler.h"

/* The nest's read of the column operand. */
typedef struct ColumnRead {
    NstBuf columns;
    const NstExprNode *load;
    int64_t line; /* elements of one */
} ColumnRead;

static void find_column_read(void *arg, NstExpr e, const NstExprNode *node)
{
    ColumnRead *read = arg;
    (void)e;
    if (node->op == NST_OP_LOAD && node->ref == read->columns.i) read->load = node;
}

/* One line of what `load` reads, at an index of the nest. */
static void prefetch_at(NstTiler *t, NstBlock *block, const NstExprNode *load, const NstDim *index, int level)
{
    NstBuf buffer = {load->ref};
    uint32_t n;
    NstDim *at = nst_writer_index(t->w, buffer, index, load->n_index, &n);
    nst_block_add(t->w->kernel, block,
                  nst_stmt_prefetch(t->w->kernel, nst_writer_buffer(t->w, buffer), at, n, level, false));
}

/* One line of the column operand, at the column given, where `axis` is at `value`. */
static void prefetch(NstTiler *t, NstBlock *block, const ColumnRead *read, NstDim column, NstSym axis, NstDim value,
                     int level)
{
    const NstExprNode *load = read->load;
    NstDim *index = NST_NEW_ARRAY(t->w->kernel->arena, NstDim, load->n_index);
    nst_writer_bind(t->w, nst_tiler_col_axis(t).var, column);
    for (uint32_t d = 0; d < load->n_index; d++) index[d] = nst_dim_subst(t->dims, load->index[d], axis, value);
    prefetch_at(t, block, load, index, level);
}

/* What the tile reads `prefetch` steps later; past the end of the innermost axis that is the next tap of the same columns. */
static void next_steps(NstTiler *t, NstBlock *block, const NstTileAt *tile, const ColumnRead *read)
{
    NstSym innermost = t->nest->reduce[t->nest->n_reduce - 1].var;
    NstDim ahead = nst_dim_add_const(t->dims, nst_dim_sym(t->dims, innermost), t->s->prefetch);
    for (int64_t c = 0; c < (int64_t)tile->vectors * t->s->columns; c += read->line)
        prefetch(t, block, read, nst_dim_add_const(t->dims, tile->col, c), innermost, ahead, 1);
}

/* Counts the tiles that pass by the block: by rows or, where one tile has all of them, by the innermost other axis of rows.
 * False: one tile passes alone. */
static bool passes_of(NstTiler *t, const NstTileAt *tile, NstDim *pass)
{
    int64_t only;
    if (t->s->row_axis >= 0 && !nst_dim_is_const(t->dims, tile->row, &only)) {
        *pass = nst_dim_floordiv(t->dims, tile->row, nst_tiler_const(t, t->s->rows));
        return true;
    }
    for (uint32_t k = t->nest->n_axes; k-- > t->n_common;) {
        if (!(t->s->inside >> k & 1)) continue;
        *pass = nst_writer_dim(t->w, nst_dim_sym(t->dims, t->nest->axis[k].var));
        return true;
    }
    return false;
}

/* The block after the present one: the next part of the blocked reduction axis, after the last part the first one of the next
 * columns.  Each tile that passes by asks for one line in `vectors` of each step. */
static void next_block(NstTiler *t, NstBlock *block, const NstTileAt *tile, const ColumnRead *read)
{
    const NstTileSchedule *s = t->s;
    NstDims *dims = t->dims;
    NstDim pass, one = nst_tiler_const(t, 1), wraps = one;
    NstSym axis = t->nest->reduce[s->k_outer && !t->block.i ? s->k_outer - 1 : s->k_outer].var;
    NstDim at = nst_dim_sym(dims, axis);
    if (!passes_of(t, tile, &pass)) return;
    if (t->block.i) {
        NstDim extent = nst_writer_dim(t->w, t->nest->reduce[s->k_outer].extent),
               after = nst_dim_add_const(dims, t->block, 1);
        wraps = nst_dim_floordiv(dims, after, nst_dim_ceildiv(dims, extent, nst_tiler_const(t, s->k_block)));
        NstDim back = nst_dim_mul_const(dims, nst_dim_mul(dims, wraps, after), s->k_block);
        at = nst_dim_sub(dims, nst_dim_add_const(dims, at, s->k_block), back);
    } else if (s->k_outer) {
        NstDim extent = t->nest->reduce[s->k_outer - 1].extent, after = nst_dim_add_const(dims, at, 1);
        wraps = nst_dim_floordiv(dims, after, extent);
        at = nst_dim_mod(dims, after, extent);
    }
    NstDim line = nst_dim_mul_const(dims, nst_dim_mod(dims, pass, nst_tiler_const(t, tile->vectors)), s->columns);
    NstDim column = nst_dim_add(dims, tile->col, line),
           next = nst_dim_mul_const(dims, wraps, s->col_block * nst_tile_width(s));
    prefetch(t, block, read, nst_dim_add(dims, column, nst_writer_dim(t->w, next)), axis, at, 2);
}

/* Of the rows after the tile's the line that holds the present step, one row a step: all rows of the next tile, and some of the one
 * after it, have their turn before the steps come to another line. */
static void next_rows(NstTiler *t, NstBlock *block, const NstTileAt *tile, const NstExprNode *load)
{
    NstDim step = nst_writer_dim(t->w, nst_dim_sym(t->dims, t->nest->reduce[t->nest->n_reduce - 1].var));
    NstDim turn = nst_dim_mod(t->dims, step, nst_tiler_const(t, NST_LINE_BYTES / nst_dtype_info(load->type)->bytes));
    nst_writer_bind(t->w, nst_tiler_row_axis(t).var,
                    nst_dim_add(t->dims, nst_dim_add_const(t->dims, tile->row, tile->rows), turn));
    nst_writer_bind(t->w, nst_tiler_col_axis(t).var, tile->col); /* of products that share it */
    prefetch_at(t, block, load, load->index, 1);
}

/* --- windows ------------------------------------------------------------------------------------------------- */

/* The nest's first read that depends on rows. */
typedef struct RowRead {
    NstTiler *t;
    const NstExprNode *load;
} RowRead;

static void find_row_read(void *arg, NstExpr e, const NstExprNode *node)
{
    RowRead *read = arg;
    (void)e;
    for (uint32_t d = 0; node->op == NST_OP_LOAD && d < node->n_index && !read->load; d++)
        if (nst_dim_uses(read->t->dims, node->index[d], nst_tiler_row_axis(read->t).var)) read->load = node;
}

/* The axis along which the next tile of these columns lies, and how far. */
typedef struct Next {
    NstSym axis;
    int64_t by;
} Next;

static Next next_tile(NstTiler *t, const NstTileAt *tile)
{
    Next next = {.axis = nst_tiler_row_axis(t).var, .by = tile->rows};
    for (uint32_t k = t->n_common; k < t->nest->n_axes; k++)
        if (t->s->inside >> k & 1) next = (Next){t->nest->axis[k].var, 1};
    if (t->s->plane_axis >= 0) next = (Next){nst_tiler_plane_axis(t).var, tile->planes ? tile->planes : 1};
    return next;
}

/* By how many taps of a reduction axis the window moves from one place along `axis` to the next; 1 where that is not said. */
static int64_t taps_moved(NstTiler *t, const NstExprNode *load, NstAxis taps, NstSym axis)
{
    NstDim coef, rest;
    int64_t step, tap, extent;
    for (uint32_t d = 0; d < load->n_index; d++)
        if (nst_dim_linear(t->dims, load->index[d], axis, &coef, &rest) && nst_dim_is_const(t->dims, coef, &step) &&
            nst_dim_linear(t->dims, load->index[d], taps.var, &coef, &rest) && nst_dim_is_const(t->dims, coef, &tap) &&
            nst_dim_is_const(t->dims, taps.extent, &extent) && tap > 0 && step > tap)
            return (step + tap - 1) / tap < extent ? (step + tap - 1) / tap : extent;
    return 1;
}

/* Where each load is one of many for the same result, taps not swept, prefetches of one line a place cost nothing.  Swept ones, and
 * several a place of a window that moves by several taps, cost more than they gain while what is read lies in L3, of which neighbours
 * leave a part (swept 3x3 of 144 channels at 56 35 -> 37 us, at 144 1.45 -> 0.68 ms; 5x5 by 2, AVX2, 96 channels at 140 0.215 ->
 * 0.277 ms, at 168 0.61 -> 0.42, at 224 2.22 -> 1.07; AMD Zen 5, L3 of 32 MB, 2026-12). */
enum { L3_SHARE = 4 };
/* New taps of a place up to which they are asked for: of more, what asks costs as much as what it saves (11x11 by 8, 64 channels at 512,
 * 64 of 121 taps: 2.44 -> 2.88 ms, AVX2 3.06 -> 3.6; 5x5 by 4, 32 channels at 600, 16 taps: 1.07 -> 1.2 to 1.4, AVX2 1.76 -> 1.69; by 3,
 * 144 channels at 300, 9 taps: 2.05 -> 2.15, AVX2 3.8 -> 3.07; 7x7 by 2, 64 channels, 4 taps: 2.3 -> 1.9, AVX2 3.1 -> 2.4; AMD Zen 5,
 * 2026-12). */
enum { MOST_MOVED = 9 };

static bool fills_l3(NstTiler *t, const NstExprNode *load)
{
    const NstBuffer *buffer = &nst_module_get(t->w->module, (NstBuf){load->ref})->buffer;
    int64_t lo, elements, bytes = nst_dtype_info(load->type)->bytes;
    nst_dim_bounds(t->dims, buffer->layout.elements, &lo, &elements);
    return elements > t->w->module->target->l3_bytes / L3_SHARE / bytes;
}

/* What the next tile reads first: at each of its places by the last taps, as many as the window moves by. */
static void next_window(NstTiler *t, NstBlock *block, const NstTileAt *tile)
{
    RowRead read = {.t = t};
    nst_expr_visit(t->w->module->exprs, t->nest->state[0].step, find_row_read, &read);
    if (!read.load) return;
    Next next = next_tile(t, tile);
    int64_t moved[NST_MAX_RANK], n = 1, planes = tile->planes ? tile->planes : 1;
    for (uint32_t k = 0; k < t->nest->n_reduce; k++) {
        int64_t by_row = taps_moved(t, read.load, t->nest->reduce[k], nst_tiler_row_axis(t).var);
        int64_t by_next = taps_moved(t, read.load, t->nest->reduce[k], next.axis);
        moved[k] = by_row > by_next ? by_row : by_next;
        n *= moved[k];
    }
    if (n > MOST_MOVED || ((n > 1 || t->s->sweep) && !fills_l3(t, read.load))) return;
    nst_writer_bind(t->w, nst_tiler_col_axis(t).var, tile->col);
    if (tile->planes) nst_writer_bind(t->w, nst_tiler_plane_axis(t).var, tile->plane);
    NstDim *index = NST_NEW_ARRAY(t->w->kernel->arena, NstDim, read.load->n_index);
    for (int64_t at = 0; at < n * planes * tile->rows; at++) {
        int64_t rest = at / tile->rows / planes;
        nst_writer_bind(t->w, nst_tiler_row_axis(t).var, nst_dim_add_const(t->dims, tile->row, at % tile->rows));
        NstDim place = nst_dim_add_const(t->dims, nst_dim_sym(t->dims, next.axis), next.by + at / tile->rows % planes);
        for (uint32_t d = 0; d < read.load->n_index; d++)
            index[d] = nst_dim_subst(t->dims, read.load->index[d], next.axis, place);
        for (uint32_t k = 0; k < t->nest->n_reduce; rest /= moved[k++])
            for (uint32_t d = 0; d < read.load->n_index; d++)
                index[d] = nst_dim_subst(t->dims, index[d], t->nest->reduce[k].var,
                                         nst_dim_add_const(t->dims, t->nest->reduce[k].extent, -1 - rest % moved[k]));
        prefetch_at(t, block, read.load, index, 1);
    }
}

void nst_tiler_prefetch_window(NstTiler *t, NstBlock *block, const NstTileAt *tile)
{
    if (t->s->next_rows && t->s->taps) next_window(t, block, tile);
}

void nst_tiler_prefetch(NstTiler *t, NstBlock *block, const NstTileAt *tile)
{
    ColumnRead read = {.columns = t->s->columns_of};
    NstContraction c;
    if (!nst_nest_contraction_by(t->w->module, t->nest, (uint32_t)t->s->col_axis, &c)) return;
    if (t->s->next_rows && !t->s->taps && !tile->border) next_rows(t, block, tile, nst_expr(t->w->module->exprs, c.a));
    if (!t->s->prefetch && !t->s->next_block) return;
    nst_expr_visit(t->w->module->exprs, c.b, find_column_read, &read); /* the rows may be of the same buffer */
    if (!read.load) return;
    read.line = NST_LINE_BYTES / nst_dtype_info(read.load->type)->bytes;
    if (t->s->prefetch) next_steps(t, block, tile, &read);
    if (t->s->next_block) next_block(t, block, tile, &read);
}
