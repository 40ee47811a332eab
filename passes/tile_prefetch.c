/* tile_prefetch.c: what the innermost reduction loop of a register tile asks of its operands ahead of their use.
 *
 * In: a tile at its place, all loops around it bound.  Out: prefetches of the column operand, to L1 of the steps that follow, to L2
 * of the block of columns and reductions that the loops come to next, a line or so a step, so that it is there when the last row has
 * passed by; and of the row operand, to L1, the rows of the next tile. */
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

void nst_tiler_prefetch(NstTiler *t, NstBlock *block, const NstTileAt *tile)
{
    ColumnRead read = {.columns = t->s->columns_of};
    NstContraction c;
    if (!nst_nest_contraction_by(t->w->module, t->nest, (uint32_t)t->s->col_axis, &c)) return;
    if (t->s->next_rows && !tile->border) next_rows(t, block, tile, nst_expr(t->w->module->exprs, c.a));
    if (!t->s->prefetch && !t->s->next_block) return;
    nst_expr_visit(t->w->module->exprs, c.b, find_column_read, &read); /* the rows may be of the same buffer */
    if (!read.load) return;
    read.line = NST_LINE_BYTES / nst_dtype_info(read.load->type)->bytes;
    if (t->s->prefetch) next_steps(t, block, tile, &read);
    if (t->s->next_block) next_block(t, block, tile, &read);
}
