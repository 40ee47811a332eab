/* tile_matrix.c: the register-tile schedule by matrix registers.
 *
 * In: a contraction in words whose operands nst_matrix_axes takes.  Out: statements
 *   [outer axes] [blocks of columns] [rows by tiles] [columns by tiles]
 *       { registers = 0; reduction: load, multiply; store; epilogue }
 * A tile has as many accumulators as the row of the table says, two by two.  Whole tiles come first; at the end of rows and of columns stands one of as many
 * registers as are left.  Registers there are whole too, since operands are padded: what is too much is not stored.
 * Columns run inside rows, so that the rows of a tile stay in L1, the columns' packed registers stream from L2 and results are written row
 * by row (512^3, u8 with zero points: 117 us, 128 with the rows inside; Emerald Rapids, 2026-11).
 * Accumulators go through scratch to the epilogue, which runs by rows in vectors.  The sum is one of integers modulo 2^32:
 * any order gives the same bits. */
#include "passes/sched.h"

enum { MOST = 4 }; /* registers of a tile along rows, along columns: what arrays here hold */

typedef struct Matrices {
    NstWriter *w;
    NstDims *dims;
    const NstNest *nest;
    const NstTileSchedule *s;
    const NstTensorInsnInfo *insn;
    NstExpr a, b;
    NstScalarOp step;
    NstDim row_lo, row_hi, col_lo, col_hi; /* tiles of this thread; hi none: all */
} Matrices;

/* A part of rows or columns: `registers` blocks from start on, of which the last may be partly past `end`. */
typedef struct Span {
    NstDim start;
    int registers;
    bool partial;
} Span;

static NstDim constant(Matrices *t, int64_t value)
{
    return nst_dim_const(t->dims, value);
}

static NstAxis row_axis(Matrices *t)
{
    return t->nest->axis[t->s->row_axis];
}

static NstAxis col_axis(Matrices *t)
{
    return t->nest->axis[t->s->col_axis];
}

static NstAxis word_axis(Matrices *t)
{
    return t->nest->reduce[t->nest->n_reduce - 1];
}

/* Words that a register holds along k. */
static int64_t words_a_register(Matrices *t)
{
    return (int64_t)t->insn->k_step * nst_dtype_info(t->insn->a)->bytes / nst_dtype_info(NST_I32)->bytes;
}

/* --- one tile ------------------------------------------------------------------------------------------------ */

static NstBuf open_matrix(Matrices *t, NstBlock *block, const char *name, int64_t rows, int64_t columns)
{
    NstDim shape[2] = {constant(t, rows), constant(t, columns)};
    NstBuf matrix = nst_kernel_local(t->w->kernel, name, NST_I32, NST_SPACE_MATRIX, 2, shape);
    nst_block_add(t->w->kernel, block, nst_stmt_alloc(t->w->kernel, matrix));
    return matrix;
}

static void add_matrix(Matrices *t, NstBlock *block, NstMatrix matrix)
{
    nst_block_add(t->w->kernel, block, nst_stmt_matrix(t->w->kernel, &matrix));
}

/* Loads the register of an operand at what its axes are bound to now. */
static void load_operand(Matrices *t, NstBlock *block, NstBuf matrix, NstExpr operand, uint32_t x, bool words_down)
{
    const NstExprNode *load = nst_expr(t->w->module->exprs, operand);
    int x_axis = 0, k_axis = 0;
    bool known = nst_matrix_axes(t->w->module, t->nest, operand, x, &x_axis, &k_axis);
    NST_ASSERT(known);
    NstMatrix m = {.op = NST_MATRIX_LOAD, .matrix = matrix, .memory = nst_writer_buffer(t->w, (NstBuf){load->ref})};
    m.index = nst_writer_index(t->w, (NstBuf){load->ref}, load->index, load->n_index, &m.n_index);
    m.row_axis = words_down ? k_axis : x_axis;
    m.col_axis = words_down ? x_axis : k_axis;
    add_matrix(t, block, m);
}

/* acc[i][j] += row registers i times column registers j, for one step along k. */
static void multiply(Matrices *t, NstBlock *block, NstBuf acc[MOST][MOST], const Span *rows, const Span *cols)
{
    int64_t words = words_a_register(t);
    NstBuf a[MOST], b[MOST];
    for (int i = 0; i < rows->registers; i++) a[i] = open_matrix(t, block, "a", t->insn->matrix_rows, words);
    for (int j = 0; j < cols->registers; j++) b[j] = open_matrix(t, block, "b", words, t->insn->lanes);
    for (int j = 0; j < cols->registers; j++) {
        nst_writer_bind(t->w, col_axis(t).var, nst_dim_add_const(t->dims, cols->start, (int64_t)j * t->insn->lanes));
        load_operand(t, block, b[j], t->b, (uint32_t)t->s->col_axis, true);
    }
    for (int i = 0; i < rows->registers; i++) {
        nst_writer_bind(t->w, row_axis(t).var,
                        nst_dim_add_const(t->dims, rows->start, (int64_t)i * t->insn->matrix_rows));
        load_operand(t, block, a[i], t->a, (uint32_t)t->s->row_axis, false);
        for (int j = 0; j < cols->registers; j++)
            add_matrix(t, block,
                       (NstMatrix){.op = NST_MATRIX_DOT, .matrix = acc[i][j], .a = a[i], .b = b[j], .step = t->step});
    }
}

static void reduce(Matrices *t, NstBlock *block, NstBuf acc[MOST][MOST], const Span *rows, const Span *cols)
{
    for (uint32_t k = 0; k + 1 < t->nest->n_reduce; k++)
        block = nst_writer_axis_loop(t->w, block, t->nest->reduce[k], NST_FOR_SERIAL);
    NstDim words = constant(t, words_a_register(t)), k;
    NstDim steps = nst_dim_floordiv(t->dims, nst_writer_dim(t->w, word_axis(t).extent), words);
    block = nst_writer_loop(t->w, block, "kb", constant(t, 0), steps, 1, NST_FOR_SERIAL, 0, &k);
    nst_writer_bind(t->w, word_axis(t).var, nst_dim_mul(t->dims, k, words));
    multiply(t, block, acc, rows, cols);
}

/* The end of a span that may be partial: at most its size, counted from its start. */
static NstDim length_of(Matrices *t, const Span *span, int64_t block, NstAxis axis)
{
    NstDim size = constant(t, span->registers * block);
    if (!span->partial) return size;
    return nst_dim_min(t->dims, size, nst_dim_sub(t->dims, nst_writer_dim(t->w, axis.extent), span->start));
}

/* The outputs of the tile, whose sums lie in scratch. */
static void finish(Matrices *t, NstBlock *block, NstBuf sums, const Span *rows, const Span *cols)
{
    int64_t lanes = t->insn->lanes;
    NstDim index[2], v, lane;
    block = nst_writer_loop(t->w, block, "i", constant(t, 0), length_of(t, rows, t->insn->matrix_rows, row_axis(t)), 1,
                            NST_FOR_SERIAL, 0, &index[0]);
    nst_writer_bind(t->w, row_axis(t).var, nst_dim_add(t->dims, rows->start, index[0]));
    block = nst_writer_loop(t->w, block, "v", constant(t, 0), constant(t, cols->registers), 1, NST_FOR_UNROLL, 0, &v);
    NstDim base = nst_dim_mul_const(t->dims, v, lanes), end = constant(t, lanes);
    if (cols->partial)
        end = nst_dim_min(t->dims, end, nst_dim_sub(t->dims, length_of(t, cols, lanes, col_axis(t)), base));
    block = nst_writer_loop(t->w, block, "l", constant(t, 0), end, 1, NST_FOR_VECTOR, lanes, &lane);
    index[1] = nst_dim_add(t->dims, base, lane);
    nst_writer_bind(t->w, col_axis(t).var, nst_dim_add(t->dims, cols->start, index[1]));
    t->w->n_states = 1;
    t->w->state[0] = nst_expr_load(t->w->module->exprs, NST_I32, sums, index, 2);
    nst_writer_stores(t->w, block, t->nest);
}

static void write_tile(Matrices *t, NstBlock *block, const Span *rows, const Span *cols)
{
    NstKernel *kernel = t->w->kernel;
    int64_t lanes = t->insn->lanes, height = t->insn->matrix_rows;
    NstBuf acc[MOST][MOST];
    NstStmt *scope = nst_stmt_if(kernel, nst_expr_int(t->w->module->exprs, NST_BOOL, 1));
    nst_block_add(kernel, block, scope); /* a block of its own ends the registers' lives */
    block = &scope->u.branch.then;
    NstDim shape[2] = {constant(t, rows->registers * height), constant(t, cols->registers * lanes)};
    NstBuf sums = nst_kernel_local(kernel, "sums", NST_I32, NST_SPACE_SCRATCH, 2, shape);
    nst_block_add(kernel, block, nst_stmt_alloc(kernel, sums));
    for (int i = 0; i < rows->registers; i++)
        for (int j = 0; j < cols->registers; j++) {
            acc[i][j] = open_matrix(t, block, "acc", height, lanes);
            add_matrix(t, block, (NstMatrix){.op = NST_MATRIX_ZERO, .matrix = acc[i][j]});
        }
    reduce(t, block, acc, rows, cols);
    for (int i = 0; i < rows->registers; i++)
        for (int j = 0; j < cols->registers; j++) {
            NstDim at[2] = {constant(t, i * height), constant(t, j * lanes)};
            add_matrix(t, block,
                       (NstMatrix){.op = NST_MATRIX_STORE,
                                   .matrix = acc[i][j],
                                   .memory = sums,
                                   .index = at,
                                   .n_index = 2,
                                   .col_axis = 1});
        }
    finish(t, block, sums, rows, cols);
}

/* --- tiles over rows and columns ----------------------------------------------------------------------------- */

typedef struct Along {
    const char *name;
    NstAxis axis;
    int64_t block; /* elements of a register */
    int most;      /* registers of a tile */
    NstDim lo, hi; /* tiles; hi none: all */
} Along;

typedef void (*Next)(Matrices *t, NstBlock *block, const Span *span, const Span *outer);

/* The rest behind whole tiles, in a block that is reached only if there is one. */
static void rest_of(Matrices *t, NstBlock *block, const Along *along, NstDim start, NstDim rest, const Span *outer,
                    Next next)
{
    NstExprs *exprs = t->w->module->exprs;
    int64_t known;
    Span span = {.start = start, .partial = true};
    if (nst_dim_is_const(t->dims, rest, &known)) {
        span.registers = (int)((known + along->block - 1) / along->block);
        span.partial = known % along->block != 0;
        next(t, block, &span, outer);
        return;
    }
    for (span.registers = along->most; span.registers > 1; span.registers--) {
        NstExpr more = nst_expr_binary(exprs, NST_OP_GT, nst_expr_index(exprs, rest),
                                       nst_expr_int(exprs, NST_I64, (span.registers - 1) * along->block));
        NstStmt *branch = nst_stmt_if(t->w->kernel, more);
        nst_block_add(t->w->kernel, block, branch);
        next(t, &branch->u.branch.then, &span, outer);
        block = &branch->u.branch.otherwise;
    }
    next(t, block, &span, outer);
}

static void spans(Matrices *t, NstBlock *block, const Along *along, const Span *outer, Next next)
{
    NstDims *dims = t->dims;
    int64_t width = along->most * along->block, known;
    NstDim extent = nst_writer_dim(t->w, along->axis.extent), at;
    NstDim full = nst_dim_floordiv(dims, extent, constant(t, width));
    NstDim all = nst_dim_ceildiv(dims, extent, constant(t, width)), hi = along->hi.i ? along->hi : all;
    Span span = {.registers = along->most};
    if (!nst_dim_is_const(dims, full, &known) || known > 0) {
        NstBlock *body = nst_writer_loop(t->w, block, along->name, along->lo, nst_dim_min(dims, hi, full), 1,
                                         NST_FOR_SERIAL, 0, &at);
        span.start = nst_dim_mul_const(dims, at, width);
        next(t, body, &span, outer);
    }
    if (nst_dim_compare(dims, full, NST_DIM_EQ, all) == NST_TRUE) return;
    block =
        nst_writer_loop(t->w, block, along->name, nst_dim_max(dims, along->lo, full), hi, 1, NST_FOR_SERIAL, 0, &at);
    NstDim rest = nst_dim_sub(dims, extent, nst_dim_mul_const(dims, full, width));
    rest_of(t, block, along, nst_dim_mul_const(dims, at, width), rest, outer, next);
}

static Along along_rows(Matrices *t)
{
    int most = t->insn->rows / t->insn->matrix_rows;
    return (Along){"it", row_axis(t), t->insn->matrix_rows, most, t->row_lo, t->row_hi};
}

static Along along_cols(Matrices *t)
{
    return (Along){"jt", col_axis(t), t->insn->lanes, t->insn->vectors, t->col_lo, t->col_hi};
}

static void col_span(Matrices *t, NstBlock *block, const Span *cols, const Span *rows)
{
    write_tile(t, block, rows, cols);
}

static void row_span(Matrices *t, NstBlock *block, const Span *rows, const Span *unused)
{
    (void)unused;
    Along cols = along_cols(t);
    spans(t, block, &cols, rows, col_span);
}

static NstDim tiles_of(Matrices *t, Along along)
{
    NstDim extent = nst_writer_dim(t->w, along.axis.extent);
    return nst_dim_ceildiv(t->dims, extent, constant(t, along.most * along.block));
}

/* Opens the loop over blocks of column tiles; gives its body. */
static NstBlock *column_blocks(Matrices *t, NstBlock *block, NstForKind kind)
{
    NstDim tiles = tiles_of(t, along_cols(t)), at;
    NstDim blocks = nst_dim_ceildiv(t->dims, tiles, constant(t, t->s->col_block));
    block = nst_writer_loop(t->w, block, "jb", constant(t, 0), blocks, 1, kind, 0, &at);
    t->col_lo = nst_dim_mul_const(t->dims, at, t->s->col_block);
    t->col_hi = nst_dim_min(t->dims, tiles, nst_dim_add_const(t->dims, t->col_lo, t->s->col_block));
    return block;
}

/* Opens the loop over this schedule's share of threads; gives its body. */
static NstBlock *deal_to_threads(Matrices *t, NstBlock *block)
{
    const NstTileSchedule *s = t->s;
    NstDim part;
    if (s->parallel == NST_PARALLEL_OUTER)
        return nst_writer_axis_loop(t->w, block, t->nest->axis[s->parallel_axis], NST_FOR_PARALLEL);
    if (s->parallel == NST_PARALLEL_ROWS && s->row_chunks) {
        NstDim tiles = tiles_of(t, along_rows(t)), chunks = constant(t, s->row_chunks);
        block = nst_writer_loop(t->w, block, "chunk", constant(t, 0), chunks, 1, NST_FOR_PARALLEL, 0, &part);
        t->row_lo = nst_dim_floordiv(t->dims, nst_dim_mul(t->dims, part, tiles), chunks);
        t->row_hi = nst_dim_floordiv(t->dims, nst_dim_mul(t->dims, nst_dim_add_const(t->dims, part, 1), tiles), chunks);
    }
    if (s->parallel == NST_PARALLEL_COLS && s->col_block) block = column_blocks(t, block, NST_FOR_PARALLEL);
    return block;
}

NstStatus nst_tile_matrices(NstCtx *ctx, NstWriter *w, NstBlock *block, const NstNest *nest,
                            const NstTileSchedule *schedule)
{
    Matrices t = {.w = w, .dims = w->module->dims, .nest = nest, .s = schedule, .insn = schedule->matrix};
    NstContraction c;
    bool form = nst_nest_contraction_by(w->module, nest, (uint32_t)schedule->col_axis, &c);
    t.step = form ? nst_expr(w->module->exprs, nest->state[0].step)->op : NST_OP_NONE;
    NST_ASSERT(t.insn->rows <= MOST * t.insn->matrix_rows && t.insn->vectors <= MOST);
    NST_CHECK(ctx, form && nst_scalar_info(t.step)->rule == NST_RULE_DOT && !nest->n_lets && !nest->guard.i,
              NST_E_UNSUPPORTED,
              "nest '%s' is no contraction in words; the schedule by matrix registers takes no other", nest->name);
    t.a = c.a;
    t.b = c.b;
    t.row_lo = t.col_lo = constant(&t, 0);
    w->state = NST_NEW_ARRAY(w->kernel->arena, NstExpr, 1);
    block = deal_to_threads(&t, block);
    for (uint32_t k = 0; k < nest->n_axes; k++) {
        bool tiled = (int)k == schedule->row_axis || (int)k == schedule->col_axis;
        if (tiled || (schedule->parallel == NST_PARALLEL_OUTER && schedule->parallel_axis == (int)k)) continue;
        block = nst_writer_axis_loop(w, block, nest->axis[k], NST_FOR_SERIAL);
    }
    if (schedule->parallel != NST_PARALLEL_COLS && schedule->col_block)
        block = column_blocks(&t, block, NST_FOR_SERIAL);
    Along rows = along_rows(&t);
    spans(&t, block, &rows, NULL, row_span);
    return NST_OK;
}
