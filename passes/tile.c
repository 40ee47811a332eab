/* tile.c: the register-tile schedule: reductions whose states stay in registers, rows x vectors at a time.
 *
 * In: a nest with states and a NstTileSchedule.  Out: statements
 *   [outer axes] [column blocks] [k blocks] [row tiles] [column tiles] { states = identity or partial; reduction; store }
 * Guards over the reduction (padding of a window) tighten the reduction's loops where they involve one reduction axis and
 * bound variables; where they involve the tile's rows, tiles at the border stand apart at constant positions with the
 * reduction axis unrolled, so that every tap is known to count or not; what cannot be known becomes an if.
 * The order of every sum is the nest's own. */
#include "passes/guard.h"
#include "passes/sched.h"

#define MAX_STATES 8
/* Rows not taken part in at the ends of a tile. */
typedef struct RowsLeftOut {
    int first, last;
} RowsLeftOut;

#define MAX_UNROLLED_TAPS 11 /* widest window whose taps are written out at a border */

typedef struct Tiler {
    NstCtx *ctx;
    NstWriter *w;
    NstDims *dims;
    const NstNest *nest;
    const NstTileSchedule *s;
    uint32_t n_common;
    NstConditions guard;
    NstConditionSet open;  /* conditions not yet taken care of by a loop bound or an if */
    RowsLeftOut left_out;  /* of the tile, in the version being written */
    NstConditionSet split; /* row conditions for whose taps two versions were written */
    bool *bound;           /* by symbol of the nest's axes: already a loop or fixed */
    uint32_t n_bound;
    NstDim col_lo, col_hi; /* column tiles of the current block; col_hi none: all */
    bool *unroll;          /* by reduction axis: taps written out in border tiles */
    NstDim block;          /* index of the block of the first reduction axis inside k_outer; none = not blocked */
    NstExpr first, last;   /* conditions of the k-block loops: none = there are none */
    NstBuf state[MAX_STATES];
} Tiler;

/* One register tile: rows start at row, columns at col. */
typedef struct Tile {
    NstDim row, col;
    int rows, vectors;
    bool border; /* row is a constant, taps are written out */
    bool ragged; /* the last vector may be partial: columns end at the axis's end */
} Tile;

static NstDim constant(Tiler *t, int64_t value)
{
    return nst_dim_const(t->dims, value);
}

static NstAxis row_axis(Tiler *t)
{
    return t->nest->axis[t->s->row_axis];
}

static NstAxis col_axis(Tiler *t)
{
    return t->nest->axis[t->s->col_axis];
}

static void mark_bound(Tiler *t, NstSym sym, bool bound)
{
    if (sym.i < t->n_bound) t->bound[sym.i] = bound;
}

static bool is_bound(void *arg, NstSym sym)
{
    Tiler *t = arg;
    return sym.i < t->n_bound ? t->bound[sym.i] : true;
}

/* --- one tile ------------------------------------------------------------------------------------------------ */

/* What a loop over the lanes of one vector of the tile binds. */
typedef struct Lanes {
    NstBlock *body;
    NstDim index[3]; /* of the state tile */
} Lanes;

/* Opens loops v (vectors, unrolled) and l (lanes) for row `i` of the tile and binds the column axis. */
static Lanes open_lanes(Tiler *t, NstBlock *block, const Tile *tile, NstDim i, bool masked)
{
    int64_t lanes = t->s->lanes;
    Lanes open = {.index = {i}};
    block = nst_writer_loop(t->w, block, "v", constant(t, 0), constant(t, tile->vectors), 1, NST_FOR_UNROLL, 0,
                            &open.index[1]);
    NstDim base = nst_dim_add(t->dims, tile->col, nst_dim_mul_const(t->dims, open.index[1], lanes));
    NstDim end = constant(t, lanes);
    if (masked) end = nst_dim_min(t->dims, end, nst_dim_sub(t->dims, nst_writer_dim(t->w, col_axis(t).extent), base));
    open.body = nst_writer_loop(t->w, block, "l", constant(t, 0), end, 1, NST_FOR_VECTOR, lanes, &open.index[2]);
    nst_writer_bind(t->w, col_axis(t).var, nst_dim_add(t->dims, base, open.index[2]));
    return open;
}

/* Opens the unrolled loop over the tile's rows but those left out, and binds the row axis. */
static NstBlock *open_rows_between(Tiler *t, NstBlock *block, const Tile *tile, RowsLeftOut left_out, NstDim *i)
{
    int end = tile->rows - left_out.last;
    *i = constant(t, left_out.first);
    if (end - left_out.first > 1)
        block =
            nst_writer_loop(t->w, block, "i", constant(t, left_out.first), constant(t, end), 1, NST_FOR_UNROLL, 0, i);
    if (t->s->row_axis >= 0) nst_writer_bind(t->w, row_axis(t).var, nst_dim_add(t->dims, tile->row, *i));
    return block;
}

static NstBlock *open_rows(Tiler *t, NstBlock *block, const Tile *tile, NstDim *i)
{
    return open_rows_between(t, block, tile, (RowsLeftOut){0, 0}, i);
}

static void bind_states(Tiler *t, const NstDim *index)
{
    t->w->n_states = t->nest->n_states;
    for (uint32_t k = 0; k < t->nest->n_states; k++)
        t->w->state[k] = nst_expr_load(t->w->module->exprs, t->nest->state[k].dtype, t->state[k], index, 3);
}

static void store_states(Tiler *t, NstBlock *block, const NstDim *index, const NstExpr *value)
{
    NstStoreTarget *target = NST_NEW_ARRAY(t->w->kernel->arena, NstStoreTarget, t->nest->n_states);
    for (uint32_t k = 0; k < t->nest->n_states; k++)
        target[k] = (NstStoreTarget){t->state[k], value[k], t->nest->state[k].merge, t->nest->state[k].identity};
    nst_block_add(t->w->kernel, block, nst_stmt_update(t->w->kernel, t->nest->n_states, target, index, 3));
}

static void allocate_states(Tiler *t, NstBlock *block, const Tile *tile)
{
    NstDim shape[3] = {constant(t, tile->rows), constant(t, tile->vectors), constant(t, t->s->lanes)};
    for (uint32_t k = 0; k < t->nest->n_states; k++) {
        t->state[k] = nst_kernel_local(t->w->kernel, "acc", t->nest->state[k].dtype, NST_SPACE_REG, 3, shape);
        nst_block_add(t->w->kernel, block, nst_stmt_alloc(t->w->kernel, t->state[k]));
    }
}

/* parts[0]: where a tile is at the end of the k blocks that `at_end` tells (none: there are no blocks), parts[1]: elsewhere. */
static void split_by_block(Tiler *t, NstBlock *block, NstExpr at_end, NstBlock *parts[2])
{
    parts[0] = block;
    parts[1] = NULL;
    if (!at_end.i) return;
    NstStmt *branch = nst_stmt_if(t->w->kernel, at_end);
    nst_block_add(t->w->kernel, block, branch);
    parts[0] = &branch->u.branch.then;
    parts[1] = &branch->u.branch.otherwise;
}

/* Sets the states to their identities, or, after the first k block, to the partial sums in the output. */
static void start_states(Tiler *t, NstBlock *block, const Tile *tile)
{
    NstKernel *kernel = t->w->kernel;
    NstBlock *parts[2];
    split_by_block(t, block, t->first, parts);
    for (int p = 0; p < 2 && parts[p]; p++) {
        NstDim i;
        NstBlock *rows = open_rows(t, parts[p], tile, &i);
        Lanes lanes = open_lanes(t, rows, tile, i, p == 1 && tile->ragged);
        for (uint32_t k = 0; k < t->nest->n_states; k++) {
            NstExpr value = t->nest->state[k].identity;
            if (p == 1) {
                const NstNestOut *out = &t->nest->out[0];
                uint32_t n;
                NstDim *index = nst_writer_index(t->w, out->buffer, out->index, out->n_index, &n);
                value = nst_expr_load(t->w->module->exprs, t->nest->state[k].dtype,
                                      nst_writer_buffer(t->w, out->buffer), index, n);
            }
            nst_block_add(kernel, lanes.body, nst_stmt_store(kernel, t->state[k], lanes.index, 3, value));
        }
    }
}

/* True if the guard differs by column. */
static bool guards_columns(Tiler *t)
{
    return nst_expr_uses_sym(t->w->module->exprs, t->nest->guard, col_axis(t).var);
}

static NstBlock *open_if(Tiler *t, NstBlock *block, NstExpr condition)
{
    NstStmt *branch = nst_stmt_if(t->w->kernel, condition);
    nst_block_add(t->w->kernel, block, branch);
    return &branch->u.branch.then;
}

/* One element of the reduction for rows that all count, or (border) for one row at a constant place. */
static void step_rows(Tiler *t, NstBlock *block, const Tile *tile)
{
    bool masked = tile->ragged && !t->s->padded;
    NstExpr value[MAX_STATES];
    int written_out = tile->border ? tile->rows : 1;
    for (int r = 0; r < written_out; r++) {
        NstBlock *rows = block;
        NstDim i = constant(t, r);
        if (tile->border)
            nst_writer_bind(t->w, row_axis(t).var, nst_dim_add_const(t->dims, tile->row, r));
        else
            rows = open_rows_between(t, block, tile, t->left_out, &i);
        NstExpr guard = nst_conditions_now(t->w, &t->guard, t->open, true);
        const NstExprNode *known = guard.i ? nst_expr(t->w->module->exprs, guard) : NULL;
        if (known && known->op == NST_OP_CONST && !known->imm.i) continue;
        if (guard.i && !guards_columns(t)) rows = open_if(t, rows, guard);
        Lanes lanes = open_lanes(t, rows, tile, i, masked);
        if (guard.i && guards_columns(t))
            lanes.body = open_if(t, lanes.body, nst_conditions_now(t->w, &t->guard, t->open, true));
        bind_states(t, lanes.index);
        for (uint32_t k = 0; k < t->nest->n_states; k++) value[k] = nst_writer_expr(t->w, t->nest->state[k].step);
        store_states(t, lanes.body, lanes.index, value);
    }
}

static void prefetch_ahead(Tiler *t, NstBlock *block, const Tile *tile, NstDim k)
{
    const NstBuffer *packed = nst_kernel_buffer(t->w->kernel, nst_writer_buffer(t->w, t->s->packed));
    int64_t line = 64 / nst_dtype_info(packed->dtype)->bytes, width = (int64_t)tile->vectors * t->s->lanes;
    /* The packed operand's k axis is its second to last logical axis, columns its last. */
    NstDim *index = NST_NEW_ARRAY(t->w->kernel->arena, NstDim, packed->rank);
    for (int d = 0; d < packed->rank; d++) index[d] = constant(t, 0);
    index[packed->rank - 2] = nst_dim_add_const(t->dims, k, t->s->prefetch);
    for (int64_t c = 0; c < width; c += line) {
        index[packed->rank - 1] = nst_dim_add_const(t->dims, tile->col, c);
        nst_block_add(t->w->kernel, block,
                      nst_stmt_prefetch(t->w->kernel, nst_writer_buffer(t->w, t->s->packed), index,
                                        (uint32_t)packed->rank, 1, false));
    }
}

/* e at its least over the taps of reduction axes not bound yet: false if it cannot be said. */
static bool least_over_taps(Tiler *t, NstDim *e)
{
    for (uint32_t k = 0; k < t->nest->n_reduce; k++) {
        NstDim coef, rest;
        int64_t c;
        NstAxis axis = t->nest->reduce[k];
        if (!nst_dim_uses(t->dims, *e, axis.var) || is_bound(t, axis.var)) continue;
        if (!nst_dim_linear(t->dims, *e, axis.var, &coef, &rest) || !nst_dim_is_const(t->dims, coef, &c)) return false;
        NstDim at = c >= 0 ? constant(t, 0) : nst_dim_add_const(t->dims, axis.extent, -1);
        *e = nst_dim_add(t->dims, rest, nst_dim_mul_const(t->dims, at, c));
    }
    return true;
}

/* The open conditions on rows that a tile inside the borders keeps for all its rows and taps; *inside says at run time that it
 * does.  The empty set: there are none, or one cannot be said. */
static NstConditionSet row_conditions(Tiler *t, NstDim first, int rows, NstExpr *inside)
{
    NstExprs *exprs = t->w->module->exprs;
    NstConditionSet set = 0;
    NstSym x = row_axis(t).var;
    *inside = (NstExpr){0};
    for (uint32_t k = 0; k < t->guard.nonnegative.n && k < 64; k++) {
        NstDim e = t->guard.nonnegative.at[k];
        if (!nst_condition_in(t->open, k) || !nst_dim_uses(t->dims, e, x)) continue;
        if (!least_over_taps(t, &e)) return 0;
        for (int at = 0; at < 2; at++) {
            NstDim row = nst_dim_add_const(t->dims, first, at ? rows - 1 : 0);
            NstDim place = nst_writer_dim(t->w, nst_dim_subst(t->dims, e, x, row));
            NstExpr holds =
                nst_expr_binary(exprs, NST_OP_GE, nst_expr_index(exprs, place), nst_expr_int(exprs, NST_I64, 0));
            *inside = inside->i ? nst_expr_binary(exprs, NST_OP_AND, *inside, holds) : holds;
        }
        set |= (NstConditionSet)1 << k;
    }
    return set;
}

static void reduce_from(Tiler *t, NstBlock *block, const Tile *tile, uint32_t depth);

static void unrolled_taps(Tiler *t, NstBlock *block, const Tile *tile, uint32_t depth, int64_t taps)
{
    NstSym var = t->nest->reduce[depth].var;
    for (int64_t tap = 0; tap < taps; tap++) {
        nst_writer_bind(t->w, var, constant(t, tap));
        mark_bound(t, var, true);
        reduce_from(t, block, tile, depth + 1);
    }
}

/* The conditions on rows that only bound reduction axes take part in. */
static NstConditionSet decided_by_taps(Tiler *t)
{
    NstConditionSet set = 0;
    for (uint32_t k = 0; k < t->guard.nonnegative.n && k < 64; k++) {
        NstDim e = t->guard.nonnegative.at[k];
        bool decided = nst_condition_in(t->open & ~t->split, k) && nst_dim_uses(t->dims, e, row_axis(t).var);
        for (uint32_t a = 0; a < t->nest->n_reduce && decided; a++)
            decided = !nst_dim_uses(t->dims, e, t->nest->reduce[a].var) || is_bound(t, t->nest->reduce[a].var);
        set |= (NstConditionSet)decided << k;
    }
    return set;
}

/* Rows left out at the ends of a tile, a version each; a window shifted by one loses one row there. */
static const RowsLeftOut rows_left_out[] = {{0, 0}, {1, 0}, {0, 1}};

/* What follows once a tap is chosen, in versions: all rows of the tile keep their conditions at this tap, all but one at an end,
 * else each row is asked.  (That all but the first keep them and not all do, says that the first does not.) */
static void reduce_tap(Tiler *t, NstBlock *block, const Tile *tile, uint32_t depth)
{
    const NstConditionSet open = t->open, split = t->split;
    NstConditionSet set = 0;
    if (!tile->border && t->s->row_axis >= 0 && depth < t->nest->n_reduce) set = decided_by_taps(t);
    for (size_t v = 0; v < sizeof rows_left_out / sizeof *rows_left_out && set; v++) {
        int first = rows_left_out[v].first, rows = tile->rows - first - rows_left_out[v].last;
        NstExpr inside = {0};
        if (rows < 1) continue;
        t->open = set;
        set = row_conditions(t, nst_dim_add_const(t->dims, tile->row, first), rows, &inside);
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

/* The reduction loops from axis `depth` inward; axes that are block loops are bound already. */
static void reduce_from(Tiler *t, NstBlock *block, const Tile *tile, uint32_t depth)
{
    if (depth == t->nest->n_reduce) {
        step_rows(t, block, tile);
        return;
    }
    NstAxis axis = t->nest->reduce[depth];
    bool block_loop = (int)depth < t->s->k_outer;
    NstDim begin = constant(t, 0), end = nst_writer_dim(t->w, axis.extent);
    int64_t taps;
    if (block_loop) {
        /* Bound by the loop outside the tiles: only the guard that it decides remains. */
        reduce_from(t, block, tile, depth + 1);
        return;
    }
    if (tile->border && t->unroll[depth] && nst_dim_is_const(t->dims, end, &taps) && taps <= MAX_UNROLLED_TAPS) {
        unrolled_taps(t, block, tile, depth, taps);
        mark_bound(t, axis.var, false);
        return;
    }
    NstConditionSet open = t->open;
    if (t->block.i && (int)depth == t->s->k_outer) {
        begin = nst_dim_mul_const(t->dims, t->block, t->s->k_block);
        end = nst_dim_min(t->dims, end, nst_dim_add_const(t->dims, begin, t->s->k_block));
    }
    t->open = nst_conditions_tighten(t->w, &t->guard, open, axis.var, is_bound, t, &begin, &end);
    NstDim k;
    int64_t known;
    bool written_out = (int)(t->nest->n_reduce - depth) <= t->s->taps && nst_dim_is_const(t->dims, begin, &known) &&
                       nst_dim_is_const(t->dims, end, &known);
    block = nst_writer_loop(t->w, block, nst_dims_sym(t->dims, axis.var)->name, begin, end, 1,
                            written_out ? NST_FOR_UNROLL : NST_FOR_SERIAL, 0, &k);
    nst_writer_bind(t->w, axis.var, k);
    mark_bound(t, axis.var, true);
    if (t->s->prefetch && depth + 1 == t->nest->n_reduce) prefetch_ahead(t, block, tile, k);
    reduce_tap(t, block, tile, depth + 1);
    mark_bound(t, axis.var, false);
    t->open = open;
}

/* Stores the outputs, or before the last k block the raw states. */
static void finish_states(Tiler *t, NstBlock *block, const Tile *tile)
{
    NstKernel *kernel = t->w->kernel;
    NstBlock *parts[2];
    split_by_block(t, block, t->last, parts);
    for (int p = 0; p < 2 && parts[p]; p++) {
        NstDim i;
        NstBlock *rows = open_rows(t, parts[p], tile, &i);
        Lanes lanes = open_lanes(t, rows, tile, i, tile->ragged);
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
static NstBlock *decided_outside(Tiler *t, NstBlock *block, NstConditionSet decided)
{
    NstExpr guard = nst_conditions_now(t->w, &t->guard, decided, false);
    return guard.i ? open_if(t, block, guard) : block;
}

static void write_tile(Tiler *t, NstBlock *block, const Tile *tile)
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
    NstConditionSet open = t->open, decided = nst_conditions_bound(t->w->module, &t->guard, open, is_bound, t);
    t->open = open & ~decided;
    reduce_from(t, decided_outside(t, block, decided), tile, 0);
    t->open = open;
    finish_states(t, block, tile);
}

/* --- tiles over columns and rows ----------------------------------------------------------------------------- */

typedef struct RowTile {
    NstDim row;
    int rows;
    bool border;
} RowTile;

/* All column tiles of the current block for one row tile. */
static void column_tiles(Tiler *t, NstBlock *block, const RowTile *row)
{
    NstDim lo = t->col_lo, hi = t->col_hi;
    int64_t width = (int64_t)t->s->vectors * t->s->lanes, extent;
    NstDim n = nst_writer_dim(t->w, col_axis(t).extent);
    NstDim full = nst_dim_floordiv(t->dims, n, constant(t, width));
    bool fixed = nst_dim_is_const(t->dims, n, &extent);
    NstDim end = hi.i ? nst_dim_min(t->dims, hi, full) : full;
    Tile tile = {.row = row->row, .rows = row->rows, .border = row->border, .vectors = t->s->vectors};
    NstDim j;
    if (!fixed || extent >= width) {
        NstBlock *body = nst_writer_loop(t->w, block, "jt", lo, end, 1, NST_FOR_SERIAL, 0, &j);
        tile.col = nst_dim_mul_const(t->dims, j, width);
        write_tile(t, body, &tile);
    }
    if (fixed && extent % width == 0) return;
    /* The rest: one narrower tile, or single vectors where the extent is not known. */
    NstDim rest_tile = full;
    if (hi.i) /* at most one iteration: in the block that holds the rest */
        block =
            nst_writer_loop(t->w, block, "jr", nst_dim_max(t->dims, lo, full), hi, 1, NST_FOR_SERIAL, 0, &rest_tile);
    tile.col = nst_dim_mul_const(t->dims, rest_tile, width);
    tile.ragged = !fixed || extent % t->s->lanes != 0;
    if (fixed) {
        tile.vectors = (int)((extent % width + t->s->lanes - 1) / t->s->lanes);
        write_tile(t, block, &tile);
        return;
    }
    NstDim rest = nst_dim_sub(t->dims, n, tile.col), v;
    NstBlock *body =
        nst_writer_loop(t->w, block, "jv", constant(t, 0), nst_dim_ceildiv(t->dims, rest, constant(t, t->s->lanes)), 1,
                        NST_FOR_SERIAL, 0, &v);
    tile.col = nst_dim_add(t->dims, tile.col, nst_dim_mul_const(t->dims, v, t->s->lanes));
    tile.vectors = 1;
    write_tile(t, body, &tile);
}

/* True if all guard conditions that involve the row axis hold for rows row .. row + rows - 1, whatever the taps. */
static bool rows_inside(Tiler *t, int64_t row, int rows)
{
    NstDim zero = constant(t, 0);
    NstSym x = row_axis(t).var;
    for (uint32_t k = 0; k < t->guard.nonnegative.n; k++) {
        NstDim e = t->guard.nonnegative.at[k];
        if (!nst_dim_uses(t->dims, e, x)) continue;
        for (int at = 0; at < 2; at++) {
            NstDim place = nst_dim_subst(t->dims, e, x, constant(t, row + (at ? rows - 1 : 0)));
            if (nst_dim_compare(t->dims, place, NST_DIM_GE, zero) != NST_TRUE) return false;
        }
    }
    return true;
}

static void row_tiles_fixed(Tiler *t, NstBlock *block, int64_t extent, NstDim lo, NstDim hi)
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
            tile.row = constant(t, row);
        } else {
            NstDim it, begin = constant(t, at), end = constant(t, at + run);
            if (lo.i) {
                begin = nst_dim_max(t->dims, begin, lo);
                end = nst_dim_min(t->dims, end, hi);
            }
            body = nst_writer_loop(t->w, block, "it", begin, end, 1, NST_FOR_SERIAL, 0, &it);
            tile.row = tile.border ? constant(t, row)
                                   : nst_dim_add_const(t->dims, nst_dim_mul_const(t->dims, it, rows), big ? 0 : larger);
        }
        column_tiles(t, body, &tile);
        at += run;
    }
}

/* 1 if dim == value, else 0, as a dim. */
static NstDim equals(Tiler *t, NstDim dim, int64_t value)
{
    NstDim less = nst_dim_add_const(t->dims, dim, -value);
    NstDim distance = nst_dim_max(t->dims, less, nst_dim_mul_const(t->dims, less, -1));
    return nst_dim_max(t->dims, constant(t, 0), nst_dim_sub(t->dims, constant(t, 1), distance));
}

/* A tile at a place known at run time only: without conditions on its rows where it is inside, with them at a border. */
static void inner_or_border(Tiler *t, NstBlock *block, const RowTile *tile)
{
    NstExpr inside;
    NstConditionSet open = t->open, set = row_conditions(t, tile->row, tile->rows, &inside);
    if (!set) {
        column_tiles(t, block, tile);
        return;
    }
    NstStmt *branch = nst_stmt_if(t->w->kernel, inside);
    nst_block_add(t->w->kernel, block, branch);
    t->open = open & ~set;
    column_tiles(t, &branch->u.branch.then, tile);
    t->open = open;
    column_tiles(t, &branch->u.branch.otherwise, tile);
}

/* Row count known at run time: tiles of q or q + 1 rows, one copy of the tile for each possible count of rows. */
static void row_tiles_symbolic(Tiler *t, NstBlock *block, NstDim extent, NstDim lo, NstDim hi)
{
    NstDims *dims = t->dims;
    NstDim n_tiles = nst_dim_ceildiv(dims, extent, constant(t, t->s->rows));
    NstDim divisor = nst_dim_max(dims, n_tiles, constant(t, 1));
    NstDim q = nst_dim_floordiv(dims, extent, divisor), larger = nst_dim_mod(dims, extent, divisor);
    for (int rows = t->s->rows; rows >= 1; rows--) {
        /* With q == rows these are tiles larger .. n_tiles - 1; with q + 1 == rows, 0 .. larger - 1. */
        NstDim is_q = equals(t, q, rows), is_larger = equals(t, q, rows - 1), it;
        NstDim begin = nst_dim_mul(dims, is_q, larger);
        NstDim end = nst_dim_add(dims, nst_dim_mul(dims, is_q, n_tiles), nst_dim_mul(dims, is_larger, larger));
        RowTile tile = {.rows = rows};
        NstDim skipped = begin;
        if (lo.i) {
            begin = nst_dim_max(dims, begin, lo);
            end = nst_dim_min(dims, end, hi);
        }
        NstBlock *body = nst_writer_loop(t->w, block, "it", begin, end, 1, NST_FOR_SERIAL, 0, &it);
        tile.row = nst_dim_add(dims, nst_dim_mul_const(dims, it, rows), skipped);
        inner_or_border(t, body, &tile);
    }
}

static void row_tiles(Tiler *t, NstBlock *block, NstDim lo, NstDim hi)
{
    if (t->s->row_axis < 0) {
        RowTile tile = {.rows = 1, .row = constant(t, 0)};
        column_tiles(t, block, &tile);
        return;
    }
    NstDim extent = nst_writer_dim(t->w, row_axis(t).extent);
    int64_t fixed;
    if (nst_dim_is_const(t->dims, extent, &fixed)) {
        if (fixed > 0) row_tiles_fixed(t, block, fixed, lo, hi);
    } else {
        row_tiles_symbolic(t, block, extent, lo, hi);
    }
}

/* --- loops around the tiles ---------------------------------------------------------------------------------- */

static NstDim row_tile_count(Tiler *t)
{
    NstDim extent = nst_writer_dim(t->w, row_axis(t).extent);
    return nst_dim_ceildiv(t->dims, extent, constant(t, t->s->rows));
}

/* Loops over the outer axes picked by `inside`, then the row tiles. */
static void inner_axes(Tiler *t, NstBlock *block, NstDim lo, NstDim hi)
{
    for (uint32_t k = t->n_common; k < t->nest->n_axes; k++)
        if (t->s->inside >> k & 1 && !(t->s->parallel == NST_PARALLEL_OUTER && t->s->parallel_axis == (int)k)) {
            block = nst_writer_axis_loop(t->w, block, t->nest->axis[k], NST_FOR_SERIAL);
            mark_bound(t, t->nest->axis[k].var, true);
        }
    row_tiles(t, block, lo, hi);
}

static NstExpr both(Tiler *t, NstExpr a, NstExpr b)
{
    return a.i ? nst_expr_binary(t->w->module->exprs, NST_OP_AND, a, b) : b;
}

/* Adds to `first` and `last` that this block loop is at its first, last iteration. */
static void add_block_ends(Tiler *t, NstDim var, NstDim count)
{
    NstExprs *exprs = t->w->module->exprs;
    NstExpr at = nst_expr_index(exprs, var);
    t->first = both(t, t->first, nst_expr_binary(exprs, NST_OP_EQ, at, nst_expr_int(exprs, NST_I64, 0)));
    NstExpr end = nst_expr_index(exprs, nst_dim_add_const(t->dims, count, -1));
    t->last = both(t, t->last, nst_expr_binary(exprs, NST_OP_EQ, at, end));
}

static void k_blocks(Tiler *t, NstBlock *block, NstDim lo, NstDim hi)
{
    t->first = t->last = (NstExpr){0};
    for (int k = 0; k < t->s->k_outer; k++) {
        NstAxis axis = t->nest->reduce[k];
        block = nst_writer_axis_loop(t->w, block, axis, NST_FOR_SERIAL);
        mark_bound(t, axis.var, true);
        add_block_ends(t, nst_writer_dim(t->w, nst_dim_sym(t->dims, axis.var)), nst_writer_dim(t->w, axis.extent));
    }
    t->block = (NstDim){0};
    if (t->s->k_block) {
        NstDim extent = nst_writer_dim(t->w, t->nest->reduce[t->s->k_outer].extent);
        NstDim count = nst_dim_ceildiv(t->dims, extent, constant(t, t->s->k_block));
        block = nst_writer_loop(t->w, block, "kb", constant(t, 0), count, 1, NST_FOR_SERIAL, 0, &t->block);
        add_block_ends(t, t->block, count);
    }
    inner_axes(t, block, lo, hi);
}

static void column_blocks(Tiler *t, NstBlock *block, NstDim lo, NstDim hi)
{
    t->col_lo = constant(t, 0);
    t->col_hi = (NstDim){0};
    if (t->s->col_block) {
        int64_t width = (int64_t)t->s->vectors * t->s->lanes;
        NstDim extent = nst_writer_dim(t->w, col_axis(t).extent), jb;
        NstDim tiles = nst_dim_ceildiv(t->dims, extent, constant(t, width));
        NstDim count = nst_dim_ceildiv(t->dims, tiles, constant(t, t->s->col_block));
        NstForKind kind = t->s->parallel == NST_PARALLEL_COLS ? NST_FOR_PARALLEL : NST_FOR_SERIAL;
        block = nst_writer_loop(t->w, block, "jb", constant(t, 0), count, 1, kind, 0, &jb);
        t->col_lo = nst_dim_mul_const(t->dims, jb, t->s->col_block);
        t->col_hi = nst_dim_min(t->dims, tiles, nst_dim_add_const(t->dims, t->col_lo, t->s->col_block));
    }
    k_blocks(t, block, lo, hi);
}

static void outer_loops(Tiler *t, NstBlock *block)
{
    const NstTileSchedule *s = t->s;
    NstDim lo = {0}, hi = {0};
    if (s->parallel == NST_PARALLEL_OUTER) {
        block = nst_writer_axis_loop(t->w, block, t->nest->axis[s->parallel_axis], NST_FOR_PARALLEL);
        mark_bound(t, t->nest->axis[s->parallel_axis].var, true);
    }
    if (s->parallel == NST_PARALLEL_ROWS) {
        NstDim chunk, tiles = row_tile_count(t), chunks = constant(t, s->row_chunks);
        block = nst_writer_loop(t->w, block, "chunk", constant(t, 0), chunks, 1, NST_FOR_PARALLEL, 0, &chunk);
        lo = nst_dim_floordiv(t->dims, nst_dim_mul(t->dims, chunk, tiles), chunks);
        hi = nst_dim_floordiv(t->dims, nst_dim_mul(t->dims, nst_dim_add_const(t->dims, chunk, 1), tiles), chunks);
    }
    for (uint32_t k = t->n_common; k < t->nest->n_axes; k++) {
        bool tiled = (int)k == s->row_axis || (int)k == s->col_axis;
        if (tiled || s->inside >> k & 1 || (s->parallel == NST_PARALLEL_OUTER && s->parallel_axis == (int)k)) continue;
        block = nst_writer_axis_loop(t->w, block, t->nest->axis[k], NST_FOR_SERIAL);
        mark_bound(t, t->nest->axis[k].var, true);
    }
    column_blocks(t, block, lo, hi);
}

/* Reduction axes that share a guard condition with the row axis: their taps are written out at the borders. */
static void find_taps(Tiler *t)
{
    for (uint32_t k = 0; k < t->nest->n_reduce && t->s->row_axis >= 0; k++)
        for (uint32_t g = 0; g < t->guard.nonnegative.n; g++)
            if (nst_dim_uses(t->dims, t->guard.nonnegative.at[g], t->nest->reduce[k].var) &&
                nst_dim_uses(t->dims, t->guard.nonnegative.at[g], row_axis(t).var))
                t->unroll[k] = true;
}

NstStatus nst_tile_nest(NstCtx *ctx, NstWriter *w, NstBlock *block, const NstNest *nest, uint32_t n_common,
                        const NstTileSchedule *schedule)
{
    NST_CHECK(ctx, nest->n_states <= MAX_STATES, NST_E_UNSUPPORTED,
              "nest '%s' has %u states; the register-tile schedule takes at most %d", nest->name, nest->n_states,
              MAX_STATES);
    NST_CHECK(ctx, nest->n_lets == 0, NST_E_UNSUPPORTED,
              "nest '%s' has gathered indices; the register-tile schedule takes none", nest->name);
    Tiler t = {.ctx = ctx, .w = w, .dims = w->module->dims, .nest = nest, .s = schedule, .n_common = n_common};
    t.open = ~(NstConditionSet)0;
    nst_conditions_of(w->module, nest->guard, &t.guard);
    t.n_bound = nst_dims_sym_count(t.dims) + 1;
    t.bound = NST_NEW_ARRAY(w->kernel->arena, bool, t.n_bound);
    memset(t.bound, true, t.n_bound);
    for (uint32_t k = n_common; k < nest->n_axes; k++) t.bound[nest->axis[k].var.i] = false;
    for (uint32_t k = 0; k < nest->n_reduce; k++) t.bound[nest->reduce[k].var.i] = false;
    t.unroll = NST_NEW_ARRAY(w->kernel->arena, bool, nest->n_reduce);
    w->state = NST_NEW_ARRAY(w->kernel->arena, NstExpr, nest->n_states);
    find_taps(&t);
    outer_loops(&t, block);
    return NST_OK;
}
