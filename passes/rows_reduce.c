/* rows_reduce.c: reductions along a row by lanes, and over other axes than the vector's by columns. */
#include "passes/rows_impl.h"

/* A reduction of more states, or without adjacent elements, runs one element at a time. */
enum { MAX_STATES = 8 };

/* --- row reductions ------------------------------------------------------------------------------------------ */

typedef struct Lanes {
    NstBuf state[MAX_STATES]; /* [rows side by side][vectors][width] */
    int64_t vectors, width;
    NstDim row; /* which of the rows, now */
} Lanes;

static void bind_states(Rows *r, const Lanes *l, NstDim j, NstDim lane)
{
    NstDim index[3] = {l->row, j, lane};
    r->w->n_states = r->nest->n_states;
    for (uint32_t k = 0; k < r->nest->n_states; k++)
        r->w->state[k] = nst_expr_load(r->w->module->exprs, r->nest->state[k].dtype, l->state[k], index, 3);
}

static void store_states(Rows *r, NstBlock *block, const Lanes *l, NstDim j, NstDim lane, const NstExpr *value)
{
    NstDim index[3] = {l->row, j, lane};
    NstStoreTarget *target = NST_NEW_ARRAY(r->w->kernel->arena, NstStoreTarget, r->nest->n_states);
    for (uint32_t k = 0; k < r->nest->n_states; k++)
        target[k] = (NstStoreTarget){.buffer = l->state[k], .value = value[k]};
    NstStmt *stmt = nst_stmt_update(r->w->kernel, r->nest->n_states, target, index, 3);
    stmt->u.store.update = false;
    nst_block_add(r->w->kernel, block, stmt);
}

static void allocate_states(Rows *r, NstBlock *block, Lanes *l, const char *name)
{
    NstDim shape[3] = {nst_rows_const(r, nst_rows_jammed(r)), nst_rows_const(r, l->vectors),
                       nst_rows_const(r, l->width)};
    for (uint32_t k = 0; k < r->nest->n_states; k++) {
        l->state[k] = nst_kernel_local(r->w->kernel, name, r->nest->state[k].dtype, NST_SPACE_REG, 3, shape);
        nst_block_add(r->w->kernel, block, nst_stmt_alloc(r->w->kernel, l->state[k]));
    }
}

/* Opens the loops over the rows and over `vectors` vectors of the tile. */
static NstBlock *over_tile(Rows *r, NstBlock *block, Lanes *l, int64_t vectors, int64_t width, NstDim *j, NstDim *lane)
{
    block = nst_rows_open_jam(r, block, &l->row);
    block =
        nst_writer_loop(r->w, block, "j", nst_rows_const(r, 0), nst_rows_const(r, vectors), 1, NST_FOR_UNROLL, 0, j);
    return nst_writer_loop(r->w, block, "l", nst_rows_const(r, 0), nst_rows_const(r, width), 1, NST_FOR_VECTOR, width,
                           lane);
}

static void open_lanes(Rows *r, NstBlock *block, Lanes *l)
{
    NstDim j, lane;
    NstExpr identity[MAX_STATES];
    allocate_states(r, block, l, "lanes");
    for (uint32_t k = 0; k < r->nest->n_states; k++) identity[k] = r->nest->state[k].identity;
    NstBlock *body = over_tile(r, block, l, l->vectors, l->width, &j, &lane);
    store_states(r, body, l, j, lane, identity);
}

/* One step for the elements base + j * width + lane below end. */
static void write_steps(Rows *r, NstBlock *block, Lanes *l, NstDim base, NstDim end, bool masked)
{
    NstDims *dims = r->dims;
    NstAxis axis = r->nest->reduce[r->nest->n_reduce - 1];
    NstExpr value[MAX_STATES];
    NstDim j, element;
    block = nst_rows_open_jam(r, block, &l->row);
    block = nst_writer_loop(r->w, block, "j", nst_rows_const(r, 0), nst_rows_const(r, l->vectors), 1, NST_FOR_UNROLL, 0,
                            &j);
    NstDim from = nst_dim_add(dims, base, nst_dim_mul_const(dims, j, l->width));
    NstDim to = nst_dim_add_const(dims, from, l->width), lane;
    if (masked) to = nst_dim_min(dims, to, end);
    NstDim count = nst_dim_sub(dims, to, from);
    block = nst_writer_loop(r->w, block, "l", nst_rows_const(r, 0), count, 1, NST_FOR_VECTOR, l->width, &lane);
    element = nst_dim_add(dims, from, lane);
    nst_writer_bind(r->w, axis.var, element);
    if (!masked) nst_rows_fetch_ahead(r, block, l->row);
    bind_states(r, l, j, lane);
    for (uint32_t k = 0; k < r->nest->n_states; k++) value[k] = nst_writer_expr(r->w, r->nest->state[k].step);
    store_states(r, block, l, j, lane, value);
}

/* state l = merge(state l, state l + h) for l < h, h halving from all lanes. */
static void write_tree(Rows *r, NstBlock *block, Lanes *l)
{
    NstExprs *exprs = r->w->module->exprs;
    uint32_t m = r->nest->n_states;
    for (int64_t h = l->vectors * l->width / 2; h >= 1; h /= 2) {
        NstDim j, lane, far_j, far_lane;
        bool whole = h >= l->width;
        NstBlock *body = over_tile(r, block, l, whole ? h / l->width : 1, whole ? l->width : h, &j, &lane);
        far_j = whole ? nst_dim_add_const(r->dims, j, h / l->width) : j;
        far_lane = whole ? lane : nst_dim_add_const(r->dims, lane, h);
        NstExpr side[2 * MAX_STATES], value[MAX_STATES];
        NstDim near[3] = {l->row, j, lane}, far[3] = {l->row, far_j, far_lane};
        for (uint32_t k = 0; k < m; k++) {
            side[k] = nst_expr_load(exprs, r->nest->state[k].dtype, l->state[k], near, 3);
            side[m + k] = nst_expr_load(exprs, r->nest->state[k].dtype, l->state[k], far, 3);
        }
        for (uint32_t k = 0; k < m; k++) value[k] = nst_expr_subst_args(exprs, r->nest->state[k].merge, side, 2 * m);
        store_states(r, body, l, j, lane, value);
    }
}

void nst_rows_reduce(Rows *r, NstBlock *block)
{
    NstDims *dims = r->dims;
    NstNest *nest = r->nest;
    Lanes l = {.width = nest->lanes < r->lanes ? nest->lanes : r->lanes};
    l.vectors = (int64_t)nest->lanes / l.width;
    r->w->state = NST_NEW_ARRAY(r->w->kernel->arena, NstExpr, nest->n_states);
    /* A block of its own keeps the states' lives apart. */
    NstStmt *scope = nst_stmt_if(r->w->kernel, nst_expr_int(r->w->module->exprs, NST_BOOL, 1));
    nst_block_add(r->w->kernel, block, scope);
    block = &scope->u.branch.then;
    open_lanes(r, block, &l);
    NstBlock *body = block;
    for (uint32_t k = 0; k + 1 < nest->n_reduce; k++)
        body = nst_writer_axis_loop(r->w, body, nest->reduce[k], NST_FOR_SERIAL);
    NstDim n = nst_writer_dim(r->w, nest->reduce[nest->n_reduce - 1].extent), i;
    NstDim trips = nst_dim_floordiv(dims, n, nst_rows_const(r, nest->lanes));
    NstDim done = nst_dim_mul_const(dims, trips, nest->lanes);
    int64_t known;
    if (!nst_dim_is_const(dims, trips, &known) || known > 0) {
        NstBlock *inner = nst_writer_loop(r->w, body, "i", nst_rows_const(r, 0), trips, 1, NST_FOR_SERIAL, 0, &i);
        write_steps(r, inner, &l, nst_dim_mul_const(dims, i, nest->lanes), n, false);
    }
    if (!nst_dim_is_const(dims, nst_dim_sub(dims, n, done), &known) || known > 0)
        write_steps(r, body, &l, done, n, true);
    write_tree(r, block, &l);
    block = nst_rows_open_jam(r, block, &l.row);
    bind_states(r, &l, nst_rows_const(r, 0), nst_rows_const(r, 0));
    nst_writer_stores(r->w, block, nest);
}

/* --- reductions over other axes than the vector's -------------------------------------------------------------- */

/* Vectors side by side in one pass over the reduction. */
enum { COLUMN_VECTORS = 4 };

/* One step, or (first) the identities, or (last) the results, for vectors of `lanes` columns from base on, below end. */
typedef enum ColumnPart { COLUMN_START, COLUMN_STEP, COLUMN_END } ColumnPart;

static void write_column_part(Rows *r, NstBlock *block, Lanes *l, NstDim base, NstDim end, ColumnPart part)
{
    NstDims *dims = r->dims;
    NstNest *nest = r->nest;
    NstDim j, lane;
    NstExpr value[MAX_STATES];
    block = nst_rows_open_jam(r, block, &l->row);
    block = nst_writer_loop(r->w, block, "j", nst_rows_const(r, 0), nst_rows_const(r, l->vectors), 1, NST_FOR_UNROLL, 0,
                            &j);
    NstDim from = nst_dim_add(dims, base, nst_dim_mul_const(dims, j, l->width));
    NstDim count = nst_rows_const(r, l->width);
    if (end.i) count = nst_dim_min(dims, count, nst_dim_sub(dims, end, from));
    block = nst_writer_loop(r->w, block, "l", nst_rows_const(r, 0), count, 1, NST_FOR_VECTOR, l->width, &lane);
    nst_writer_bind(r->w, nest->axis[nest->n_axes - 1].var, nst_dim_add(dims, from, lane));
    bind_states(r, l, j, lane);
    if (part == COLUMN_END) {
        nst_writer_stores(r->w, block, nest);
        return;
    }
    if (part == COLUMN_STEP) block = nst_writer_guard(r->w, block, nest->guard);
    for (uint32_t k = 0; k < nest->n_states; k++)
        value[k] = part == COLUMN_START ? nest->state[k].identity : nst_writer_expr(r->w, nest->state[k].step);
    store_states(r, block, l, j, lane, value);
}

static void write_columns(Rows *r, NstBlock *block, NstDim base, NstDim end, int64_t vectors)
{
    NstNest *nest = r->nest;
    Lanes l = {.vectors = vectors, .width = r->lanes};
    NstStmt *scope = nst_stmt_if(r->w->kernel, nst_expr_int(r->w->module->exprs, NST_BOOL, 1));
    nst_block_add(r->w->kernel, block, scope);
    block = &scope->u.branch.then;
    r->w->state = NST_NEW_ARRAY(r->w->kernel->arena, NstExpr, nest->n_states);
    allocate_states(r, block, &l, "acc");
    write_column_part(r, block, &l, base, end, COLUMN_START);
    NstBlock *inner = block;
    for (uint32_t k = 0; k < nest->n_reduce; k++)
        inner = nst_writer_axis_loop(r->w, inner, nest->reduce[k], NST_FOR_SERIAL);
    write_column_part(r, inner, &l, base, end, COLUMN_STEP);
    write_column_part(r, block, &l, base, end, COLUMN_END);
}

void nst_rows_reduce_columns(Rows *r, NstBlock *block)
{
    NstDims *dims = r->dims;
    NstDim n = nst_writer_dim(r->w, r->nest->axis[r->nest->n_axes - 1].extent), i;
    int64_t width = COLUMN_VECTORS * r->lanes, known;
    NstDim full = nst_dim_floordiv(dims, n, nst_rows_const(r, width)), done = nst_dim_mul_const(dims, full, width);
    if (!nst_dim_is_const(dims, full, &known) || known > 0) {
        NstBlock *body = nst_writer_loop(r->w, block, "i", nst_rows_const(r, 0), full, 1, NST_FOR_SERIAL, 0, &i);
        write_columns(r, body, nst_dim_mul_const(dims, i, width), (NstDim){0}, COLUMN_VECTORS);
    }
    NstDim rest = nst_dim_sub(dims, n, done);
    if (nst_dim_is_const(dims, rest, &known)) {
        if (known > 0) write_columns(r, block, done, n, (known + r->lanes - 1) / r->lanes);
        return;
    }
    NstDim vectors = nst_dim_ceildiv(dims, rest, nst_rows_const(r, r->lanes));
    NstBlock *body = nst_writer_loop(r->w, block, "i", nst_rows_const(r, 0), vectors, 1, NST_FOR_SERIAL, 0, &i);
    write_columns(r, body, nst_dim_add(dims, done, nst_dim_mul_const(dims, i, r->lanes)), n, 1);
}

bool nst_rows_by_columns(NstModule *module, const NstNest *flat, uint32_t n_common)
{
    if (flat->lanes > 1 || flat->n_axes == n_common || !flat->n_reduce || flat->n_lets || flat->check.i ||
        flat->n_states > MAX_STATES)
        return false;
    NstSym last = flat->axis[flat->n_axes - 1].var;
    for (uint32_t k = 0; k < flat->n_outs; k++) {
        int64_t stride;
        if (!nst_stride(module->dims, flat->out[k].index[0], last, &stride) || stride != 1) return false;
    }
    return true;
}

bool nst_rows_by_lanes(NstModule *module, const NstNest *flat)
{
    if (flat->lanes <= 1 || flat->guard.i || flat->check.i || flat->n_lets || flat->n_states > MAX_STATES) return false;
    NstTouched t;
    nst_touched(module, flat, &t);
    NstSym last = flat->reduce[flat->n_reduce - 1].var;
    for (uint32_t k = 0; k < t.address.n; k++) {
        int64_t stride;
        if (!nst_dim_uses(module->dims, t.address.at[k], last)) continue;
        if (!nst_stride(module->dims, t.address.at[k], last, &stride) || stride != 1) return false;
    }
    return true;
}
