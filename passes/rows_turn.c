/* rows_turn.c: maps that store along one axis what they read along another: squares are transposed in registers. */
#include "passes/rows_impl.h"

/* Squares go in blocks of so many elements along both axes, within a block along what is read: whole runs of lines come in, and
 * the lines of a row of squares are prefetched from the row before it.  (Zen 4, 2026-11, against one square of a band after
 * another along what is stored: transposing 2048x2048 1.87 -> 1.68 ms, 1008x1008 0.151 -> 0.146.)  At most so many loads. */
enum { BLOCK = 64, MAX_TURNED = 4 };

typedef struct Turned {
    Rows *r;
    uint32_t n;
    NstExpr load[MAX_TURNED]; /* of the flat nest */
    NstBuf tile[MAX_TURNED];
    NstAxis read, stored; /* the loads run along read, the outputs along stored */
} Turned;

typedef struct LoadVisit {
    Turned *t;
    bool fails;
} LoadVisit;

static bool is_stride(NstDims *dims, NstDim address, NstSym axis, int64_t wanted)
{
    int64_t stride;
    return nst_dim_stride(dims, address, axis, &stride) && stride == wanted;
}

static void visit_load(void *arg, NstExpr e, const NstExprNode *node)
{
    LoadVisit *v = arg;
    Turned *t = v->t;
    NstDims *dims = t->r->dims;
    if (node->op != NST_OP_LOAD || !nst_dim_uses(dims, node->index[0], t->stored.var)) return;
    if (is_stride(dims, node->index[0], t->stored.var, 1)) return;
    int64_t bytes = nst_dtype_info(node->type)->bytes;
    bool fits = is_stride(dims, node->index[0], t->read.var, 1) &&
                bytes * t->r->lanes == t->r->w->module->target->vector_bytes && node->type != NST_BOOL;
    NstDim coef, rest;
    fits = fits && nst_dim_linear(dims, node->index[0], t->stored.var, &coef, &rest);
    if (!fits || t->n == MAX_TURNED) {
        v->fails = true;
        return;
    }
    t->load[t->n++] = e;
}

/* Finds the loads to transpose when the squares lie over axes `read` and the last one. */
static bool find_turned(Rows *r, NstAxis read, Turned *t)
{
    NstNest *nest = r->nest;
    *t = (Turned){.r = r, .read = read, .stored = nest->axis[nest->n_axes - 1]};
    LoadVisit v = {t, false};
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        if (!is_stride(r->dims, nest->out[k].index[0], t->stored.var, 1)) return false;
        nst_expr_visit(r->w->module->exprs, nest->out[k].value, visit_load, &v);
    }
    return t->n > 0 && !v.fails;
}

static bool long_enough(Rows *r, NstAxis axis)
{
    int64_t lo, hi;
    nst_dim_bounds(r->dims, nst_writer_dim(r->w, axis.extent), &lo, &hi);
    return hi >= r->lanes;
}

void nst_rows_turn_order(Rows *r)
{
    NstNest *nest = r->nest;
    Turned t;
    if (nest->n_axes < r->n_common + 2 || nest->n_lets || nest->n_states) return;
    for (uint32_t k = r->n_common; k + 1 < nest->n_axes; k++) {
        NstAxis axis = nest->axis[k];
        if (!long_enough(r, axis) || !find_turned(r, axis, &t)) continue;
        for (uint32_t m = k; m + 2 < nest->n_axes; m++) nest->axis[m] = nest->axis[m + 1];
        nest->axis[nest->n_axes - 2] = axis;
        return;
    }
}

static NstExpr load_to_arg(void *arg, NstExprs *exprs, NstExpr e)
{
    const Turned *t = arg;
    for (uint32_t k = 0; k < t->n; k++)
        if (t->load[k].i == e.i) return nst_expr_arg(exprs, nst_expr(exprs, e)->type, k);
    return (NstExpr){0};
}

static NstDim constant(Turned *t, int64_t value)
{
    return nst_dim_const(t->r->dims, value);
}

static NstBuf add_square(Turned *t, NstBlock *block, NstDtype type)
{
    NstKernel *kernel = t->r->w->kernel;
    NstDim shape[2] = {constant(t, t->r->lanes), constant(t, t->r->lanes)};
    NstBuf tile = nst_kernel_local(kernel, "square", type, NST_SPACE_REG, 2, shape);
    nst_block_add(kernel, block, nst_stmt_alloc(kernel, tile));
    return tile;
}

static NstBlock *open_lanes(Turned *t, NstBlock *block, NstDim *lane)
{
    Rows *r = t->r;
    return nst_writer_loop(r->w, block, "l", constant(t, 0), constant(t, r->lanes), 1, NST_FOR_VECTOR, r->lanes, lane);
}

/* Loops over the rows of a square and the lanes of a row. */
static NstBlock *open_square(Turned *t, NstBlock *block, NstDim *i, NstDim *lane)
{
    Rows *r = t->r;
    block = nst_writer_loop(r->w, block, "i", constant(t, 0), constant(t, r->lanes), 1, NST_FOR_UNROLL, 0, i);
    return open_lanes(t, block, lane);
}

/* The columns of a square that holds results into the output. */
static void store_columns(Turned *t, NstBlock *block, NstBuf tile, NstDim read, NstDim stored)
{
    Rows *r = t->r;
    NstWriter *w = r->w;
    NstDtype type = nst_kernel_buffer(w->kernel, tile)->dtype;
    NstDim i, lane;
    NstBlock *body = open_square(t, block, &i, &lane);
    nst_writer_bind(w, t->read.var, nst_dim_add(r->dims, read, i));
    nst_writer_bind(w, t->stored.var, nst_dim_add(r->dims, stored, lane));
    NstDim index[2] = {lane, i};
    NstExpr turned = nst_expr_load(w->module->exprs, type, tile, index, 2);
    NstNest last = *r->nest;
    NstNestOut out = last.out[0];
    out.value = nst_expr_arg(w->module->exprs, type, 0);
    last.out = &out;
    w->state = &turned;
    w->n_states = 1;
    nst_writer_stores(w, body, &last);
    w->state = NULL;
    w->n_states = 0;
}

/* One square: rows of the loads into register tiles, then their columns into the outputs. */
static void write_square(Turned *t, NstBlock *block, NstDim read, NstDim stored)
{
    Rows *r = t->r;
    NstWriter *w = r->w;
    NstDims *dims = r->dims;
    NstExprs *exprs = w->module->exprs;
    NstDim i, lane;
    NstExpr state[MAX_TURNED];
    NstStmt *scope = nst_stmt_if(w->kernel, nst_expr_int(exprs, NST_BOOL, 1));
    nst_block_add(w->kernel, block, scope);
    block = &scope->u.branch.then;
    for (uint32_t k = 0; k < t->n; k++) t->tile[k] = add_square(t, block, nst_expr(exprs, t->load[k])->type);
    NstBlock *body = open_square(t, block, &i, &lane);
    nst_writer_bind(w, t->read.var, nst_dim_add(dims, read, lane));
    nst_writer_bind(w, t->stored.var, nst_dim_add(dims, stored, i));
    for (uint32_t k = 0; k < t->n; k++) {
        NstDim index[2] = {i, lane};
        nst_block_add(w->kernel, body, nst_stmt_store(w->kernel, t->tile[k], index, 2, nst_writer_expr(w, t->load[k])));
    }
    body = open_square(t, block, &i, &lane);
    nst_writer_bind(w, t->read.var, nst_dim_add(dims, read, i));
    nst_writer_bind(w, t->stored.var, nst_dim_add(dims, stored, lane));
    for (uint32_t k = 0; k < t->n; k++) {
        NstDim index[2] = {lane, i};
        state[k] = nst_expr_load(exprs, nst_expr(exprs, t->load[k])->type, t->tile[k], index, 2);
    }
    NstNest turned = *r->nest;
    turned.out = nst_copy(w->kernel->arena, turned.out, turned.n_outs * sizeof *turned.out);
    for (uint32_t k = 0; k < turned.n_outs; k++)
        turned.out[k].value = nst_expr_rewrite(exprs, turned.out[k].value, load_to_arg, t);
    w->state = state;
    w->n_states = t->n;
    nst_writer_stores(w, body, &turned);
    w->n_states = 0;
    w->state = NULL;
}

/* --- dear maps of one piece: computed along the rows they read, in registers, and turned there -------------------- */

/* A square is computed some rows at a time, those in parts: all of the rows do one part before any does the next, because the
 * operations of one row wait for each other and a core looks ahead over three or four rows (Zen 4: 64 operations of floats).
 * A quarter of the registers: the square takes half of them, constants the rest.  (20 maps without exp, 1008x1008, Zen 4,
 * 2026-11: row by row 0.32 ms, 2, 4, 8 rows 0.306, 0.295, 0.281, 16 spill.)  All rows are written out: maps of more
 * operations than this go through strips. */
enum { SQUARE_OPERATIONS = 64 };

/* Rows first .. first + n - 1 of the square at read and stored, part by part, into the tile. */
static void compute_rows(Turned *t, const NstStages *parts, NstBlock *block, NstBuf tile, NstDim read, NstDim stored,
                         int64_t first, int64_t n)
{
    Rows *r = t->r;
    NstWriter *w = r->w;
    NstExpr state[NST_ROWS_MAX_STAGES];
    NstDtype type = nst_kernel_buffer(w->kernel, tile)->dtype;
    NstDim i, lane;
    for (uint32_t k = 0; k < parts->n; k++) {
        NstBlock *body =
            nst_writer_loop(w, block, "i", constant(t, first), constant(t, first + n), 1, NST_FOR_UNROLL, 0, &i);
        body = open_lanes(t, body, &lane);
        nst_writer_bind(w, t->read.var, nst_dim_add(r->dims, read, lane));
        nst_writer_bind(w, t->stored.var, nst_dim_add(r->dims, stored, i));
        NstDim index[2] = {i, lane};
        if (k > 0) state[k - 1] = nst_expr_load(w->module->exprs, type, tile, index, 2);
        w->state = state;
        w->n_states = k;
        NstExpr value = nst_writer_expr(w, parts->value[k]);
        w->state = NULL;
        w->n_states = 0;
        nst_block_add(w->kernel, body, nst_stmt_store(w->kernel, tile, index, 2, value));
    }
}

static void write_computed_square(Turned *t, const NstStages *parts, NstBlock *block, NstDim read, NstDim stored)
{
    Rows *r = t->r;
    NstWriter *w = r->w;
    int64_t at_once = r->w->module->target->vector_registers / 4;
    if (at_once > r->lanes) at_once = r->lanes;
    NstStmt *scope = nst_stmt_if(w->kernel, nst_expr_int(w->module->exprs, NST_BOOL, 1));
    nst_block_add(w->kernel, block, scope);
    block = &scope->u.branch.then;
    NstBuf tile = add_square(t, block, nst_expr(w->module->exprs, parts->value[0])->type);
    for (int64_t first = 0; first < r->lanes; first += at_once)
        compute_rows(t, parts, block, tile, read, stored, first, at_once);
    store_columns(t, block, tile, read, stored);
}

/* Lines of the square after this one along the stored axis.  Where a row of it lies in two lines, the second: the first is that
 * of the square before. */
static void prefetch_next(Turned *t, NstBlock *block, NstDim read, NstDim stored)
{
    Rows *r = t->r;
    NstDim i;
    block = nst_writer_loop(r->w, block, "i", constant(t, 0), constant(t, r->lanes), 1, NST_FOR_UNROLL, 0, &i);
    nst_writer_bind(r->w, t->read.var, nst_dim_add_const(r->dims, read, r->lanes - 1));
    nst_writer_bind(r->w, t->stored.var, nst_dim_add_const(r->dims, nst_dim_add(r->dims, stored, i), r->lanes));
    for (uint32_t k = 0; k < t->n; k++) {
        const NstExprNode load = *nst_expr(r->w->module->exprs, t->load[k]);
        NstDim *index = nst_copy(r->w->kernel->arena, load.index, sizeof *index);
        index[0] = nst_writer_dim(r->w, load.index[0]);
        NstBuf buffer = nst_writer_buffer(r->w, (NstBuf){load.ref});
        nst_block_add(r->w->kernel, block, nst_stmt_prefetch(r->w->kernel, buffer, index, 1, 1, false));
    }
}

/* Squares read 0 .. n_read - 1 by stored 0 .. n_stored - 1; parts: computed before they are turned. */
static void write_squares(Turned *t, const NstStages *parts, NstBlock *block, NstDim n_read, NstDim n_stored,
                          bool parallel)
{
    Rows *r = t->r;
    NstDims *dims = r->dims;
    int64_t lanes = r->lanes, side = BLOCK / lanes;
    NstDim zero = constant(t, 0), bands = nst_dim_ceildiv(dims, n_stored, constant(t, side)), b, c, at, s;
    NstDim blocks = nst_dim_ceildiv(dims, n_read, constant(t, side));
    block = nst_writer_loop(r->w, block, "band", zero, bands, 1, parallel ? NST_FOR_PARALLEL : NST_FOR_SERIAL, 0, &b);
    block = nst_writer_loop(r->w, block, "block", zero, blocks, 1, NST_FOR_SERIAL, 0, &c);
    NstDim first = nst_dim_mul_const(dims, b, side), last = nst_dim_add_const(dims, first, side);
    /* Squares that fill a line of what is stored follow one another: a line stored past the caches in halves, with others in
     * between, is read and written twice (20 maps without exp, 1008x1008 transposed, Zen 3 with AVX2, 2026-12: 1.70 ms, so 0.48; not
     * streamed 0.60). */
    int64_t in_line = NST_LINE_BYTES / r->w->module->target->vector_bytes;
    block = nst_writer_loop(r->w, block, "s", first, nst_dim_min(dims, n_stored, last), in_line, NST_FOR_SERIAL, 0, &s);
    first = nst_dim_mul_const(dims, c, side);
    last = nst_dim_add_const(dims, first, side);
    block = nst_writer_loop(r->w, block, "c", first, nst_dim_min(dims, n_read, last), 1, NST_FOR_SERIAL, 0, &at);
    if (in_line > 1) {
        last = nst_dim_min(dims, nst_dim_add_const(dims, s, in_line), n_stored);
        block = nst_writer_loop(r->w, block, "h", s, last, 1, NST_FOR_SERIAL, 0, &s);
    }
    NstDim read = nst_dim_mul_const(dims, at, lanes), stored = nst_dim_mul_const(dims, s, lanes);
    prefetch_next(t, block, read, stored);
    if (parts)
        write_computed_square(t, parts, block, read, stored);
    else
        write_square(t, block, read, stored);
}

/* --- maps in pieces: a block computed along the rows it reads, turned at the end ---------------------------------------- */

/* Prefetches the block after this one along what is read, for the row at hand. */
static void prefetch_block(Turned *t, Rows *along, NstBlock *block, NstDim begin)
{
    NstTouched touched;
    NstDim at;
    nst_touched(along->w->module, along->nest, &touched);
    NstDim from = nst_dim_add_const(along->dims, begin, BLOCK), to = nst_dim_add_const(along->dims, from, BLOCK);
    block = nst_writer_loop(along->w, block, "v", from, to, 1, NST_FOR_VECTOR, BLOCK, &at);
    nst_writer_bind(along->w, t->read.var, at);
    for (uint32_t k = 0; k < touched.address.n; k++) {
        NstDim address = touched.address.at[k];
        if (touched.stored.at[k] || !nst_dim_uses(along->dims, address, t->stored.var) ||
            !is_stride(along->dims, address, t->read.var, 1))
            continue;
        NstDim *index = NST_NEW_ARRAY(along->w->kernel->arena, NstDim, 1);
        *index = nst_writer_dim(along->w, address);
        NstBuf buffer = nst_writer_buffer(along->w, touched.buffer.at[k]);
        nst_block_add(along->w->kernel, block, nst_stmt_prefetch(along->w->kernel, buffer, index, 1, 1, false));
    }
}

/* Piece by piece, elements begin .. end - 1 of what is read for each of `rows` rows from `stored` on, into the strips. */
static void write_pieces(Turned *t, Rows *along, NstBlock *block, NstDim begin, NstDim end, NstDim stored, NstDim rows)
{
    NstStages *s = along->stages;
    NstDim i;
    for (s->at = 0; s->at < s->n; s->at++) {
        NstBlock *body = nst_writer_loop(along->w, block, "i", constant(t, 0), rows, 1, NST_FOR_SERIAL, 0, &i);
        nst_writer_bind(along->w, t->stored.var, nst_dim_add(along->dims, stored, i));
        s->base = nst_dim_sub(along->dims, begin, nst_dim_mul_const(along->dims, i, BLOCK));
        if (s->at == 0) prefetch_block(t, along, body, begin);
        nst_rows_run_piece(along, body, begin, end);
    }
}

/* The squares of the last strip into the output: n_read along what is read, n_stored along what is stored. */
static void turn_strip(Turned *t, NstBlock *block, NstDim begin, NstDim n_read, NstDim stored, NstDim n_stored)
{
    Rows *r = t->r;
    NstWriter *w = r->w;
    NstDims *dims = r->dims;
    NstBuf strip = r->stages->strip[r->stages->n - 1];
    NstDtype type = nst_kernel_buffer(w->kernel, strip)->dtype;
    NstDim c, s, i, lane;
    block = nst_writer_loop(w, block, "c", constant(t, 0), n_read, 1, NST_FOR_SERIAL, 0, &c);
    block = nst_writer_loop(w, block, "s", constant(t, 0), n_stored, 1, NST_FOR_SERIAL, 0, &s);
    NstDim first_read = nst_dim_mul_const(dims, c, r->lanes), first_stored = nst_dim_mul_const(dims, s, r->lanes);
    NstBuf tile = add_square(t, block, type);
    NstBlock *body = open_square(t, block, &i, &lane);
    NstDim from = nst_dim_mul_const(dims, nst_dim_add(dims, first_stored, i), BLOCK), index[2] = {i, lane};
    from = nst_dim_add(dims, from, nst_dim_add(dims, first_read, lane));
    NstExpr load = nst_expr_load(w->module->exprs, type, strip, &from, 1);
    nst_block_add(w->kernel, body, nst_stmt_store(w->kernel, tile, index, 2, load));
    store_columns(t, block, tile, nst_dim_add(dims, begin, first_read), nst_dim_add(dims, stored, first_stored));
}

/* The same region as write_squares, in blocks. */
static void write_blocks(Turned *t, NstBlock *block, NstDim n_read, NstDim n_stored, bool parallel)
{
    Rows along = *t->r;
    NstDims *dims = along.dims;
    int64_t lanes = along.lanes, known;
    NstNest *nest = nst_copy(along.w->kernel->arena, along.nest, sizeof *nest);
    nest->axis = nst_copy(along.w->kernel->arena, nest->axis, nest->n_axes * sizeof *nest->axis);
    nest->axis[nest->n_axes - 2] = t->stored;
    nest->axis[nest->n_axes - 1] = t->read;
    along.nest = nest;
    if (along.unroll > BLOCK / lanes) along.unroll = BLOCK / (int)lanes;
    NstDim side = constant(t, BLOCK / lanes), b, c;
    NstDim bands = nst_dim_ceildiv(dims, n_stored, side), whole = nst_dim_floordiv(dims, n_read, side);
    block = nst_writer_loop(along.w, block, "band", constant(t, 0), bands, 1,
                            parallel ? NST_FOR_PARALLEL : NST_FOR_SERIAL, 0, &b);
    block = nst_rows_open_strips(&along, block, along.stages->n, (int64_t)BLOCK * BLOCK);
    NstDim first = nst_dim_mul(dims, b, side), stored = nst_dim_mul_const(dims, first, lanes);
    NstDim squares = nst_dim_min(dims, side, nst_dim_sub(dims, n_stored, first));
    for (int rest = 0; rest < 2; rest++) {
        NstDim n = rest ? nst_dim_sub(dims, n_read, nst_dim_mul(dims, whole, side)) : side, begin;
        NstBlock *body = block;
        if (nst_dim_is_const(dims, rest ? n : whole, &known) && known <= 0) continue;
        if (rest)
            c = whole;
        else
            body = nst_writer_loop(along.w, block, "c", constant(t, 0), whole, 1, NST_FOR_SERIAL, 0, &c);
        begin = nst_dim_mul_const(dims, c, BLOCK);
        NstDim end = nst_dim_add(dims, begin, nst_dim_mul_const(dims, n, lanes));
        write_pieces(t, &along, body, begin, end, stored, nst_dim_mul_const(dims, squares, lanes));
        turn_strip(t, body, begin, n, stored, squares);
    }
}

/* Axis read from begin to end, the stored one from first to last, without squares. */
static void write_rest(Turned *t, NstBlock *block, NstDim begin, NstDim end, NstDim first, NstDim last)
{
    Rows *r = t->r;
    int64_t n;
    NstDim var;
    if (nst_dim_is_const(r->dims, nst_dim_sub(r->dims, end, begin), &n) && n <= 0) return;
    if (nst_dim_is_const(r->dims, nst_dim_sub(r->dims, last, first), &n) && n <= 0) return;
    block = nst_writer_loop(r->w, block, "rest", begin, end, 1, NST_FOR_SERIAL, 0, &var);
    nst_writer_bind(r->w, t->read.var, var);
    nst_rows_run(r, block, first, last);
}

bool nst_rows_turn(Rows *r, NstBlock *block, uint32_t k, bool parallel)
{
    NstNest *nest = r->nest;
    NstDims *dims = r->dims;
    NstDim at[NST_ROWS_MAX_BREAKS], row;
    Turned t;
    if (k + 2 != nest->n_axes || nest->n_lets || nest->store_guard.i || nest->check.i || (r->jam && r->jam->rows > 1))
        return false;
    if (!long_enough(r, nest->axis[k]) || !long_enough(r, nest->axis[k + 1])) return false;
    if (!find_turned(r, nest->axis[k], &t)) return false;
    if (nst_breaks(r->w, nest, r->n_common, k + 1, at, NST_ROWS_MAX_BREAKS)) return false;
    block = nst_rows_open_jam(r, block, &row); /* one row: binds its axes, for prefetches too */
    NstDim lanes = nst_dim_const(dims, r->lanes), zero = nst_dim_const(dims, 0);
    NstDim read = nst_writer_dim(r->w, t.read.extent), stored = nst_writer_dim(r->w, t.stored.extent);
    NstDim n_read = nst_dim_floordiv(dims, read, lanes), n_stored = nst_dim_floordiv(dims, stored, lanes);
    NstDim done_read = nst_dim_mul(dims, n_read, lanes), done_stored = nst_dim_mul(dims, n_stored, lanes);
    NstStages parts;
    bool by_squares = !r->stages || (r->stages->n == 1 && nst_rows_parts(r, SQUARE_OPERATIONS, &parts));
    if (by_squares)
        write_squares(&t, r->stages ? &parts : NULL, block, n_read, n_stored, parallel);
    else
        write_blocks(&t, block, n_read, n_stored, parallel);
    write_rest(&t, block, done_read, read, zero, stored);
    write_rest(&t, block, zero, done_read, done_stored, stored);
    return true;
}
