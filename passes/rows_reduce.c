/* rows_reduce.c: reductions along a row by lanes, and over other axes than the vector's by columns. */
#include "ir/order.h"
#include "passes/rows_impl.h"

/* A reduction of more states, or without adjacent elements, runs one element at a time. */
enum { MAX_STATES = 8 };

/* States of lanes that a loop keeps in registers, of all that there are; lanes beyond them take a loop of their own. */
enum { STATES_NUMERATOR = 3, STATES_DENOMINATOR = 4 };

/* --- row reductions ------------------------------------------------------------------------------------------ */

typedef struct Lanes {
    NstBuf state[MAX_STATES]; /* [rows side by side][vectors][width] */
    int64_t vectors, width;
    int64_t first; /* the first of these vectors among those of all lanes */
    NstDim row;    /* which of the rows, now */
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
    NstDim from = nst_dim_add(dims, base, nst_dim_mul_const(dims, nst_dim_add_const(dims, j, l->first), l->width));
    NstDim to = nst_dim_add_const(dims, from, l->width), lane;
    if (masked) to = nst_dim_min(dims, to, end);
    NstDim count = nst_dim_sub(dims, to, from);
    block = nst_writer_loop(r->w, block, "l", nst_rows_const(r, 0), count, 1, NST_FOR_VECTOR, l->width, &lane);
    element = nst_dim_add(dims, from, lane);
    nst_writer_bind(r->w, axis.var, element);
    bind_states(r, l, j, lane);
    for (uint32_t k = 0; k < r->nest->n_states; k++) value[k] = nst_writer_expr(r->w, r->nest->state[k].step);
    store_states(r, block, l, j, lane, value);
}

/* The first lanes of `near`, so many vectors of them, become their merge with those of `far` that lie so many vectors and lanes ahead. */
static void merge(Rows *r, NstBlock *block, Lanes *near, const Lanes *far, int64_t vectors, int64_t width,
                  int64_t vectors_ahead, int64_t lanes_ahead)
{
    NstExprs *exprs = r->w->module->exprs;
    uint32_t m = r->nest->n_states;
    NstExpr side[2 * MAX_STATES], value[MAX_STATES];
    NstDim j, lane;
    block = over_tile(r, block, near, vectors, width, &j, &lane);
    NstDim here[3] = {near->row, j, lane};
    NstDim ahead[3] = {near->row, nst_dim_add_const(r->dims, j, vectors_ahead),
                       nst_dim_add_const(r->dims, lane, lanes_ahead)};
    for (uint32_t k = 0; k < m; k++) {
        side[k] = nst_expr_load(exprs, r->nest->state[k].dtype, near->state[k], here, 3);
        side[m + k] = nst_expr_load(exprs, r->nest->state[k].dtype, far->state[k], ahead, 3);
    }
    for (uint32_t k = 0; k < m; k++) value[k] = nst_expr_subst_args(exprs, r->nest->state[k].merge, side, 2 * m);
    store_states(r, block, near, j, lane, value);
}

/* state l = merge(state l, state l + h) for l < h, h halving from all lanes: those of `n` groups, then those of the first. */
static void write_tree(Rows *r, NstBlock *block, Lanes *group, int64_t n)
{
    int64_t width = group->width;
    for (int64_t h = n / 2; h >= 1; h /= 2)
        for (int64_t g = 0; g < h; g++) merge(r, block, &group[g], &group[g + h], group->vectors, width, 0, 0);
    for (int64_t h = group->vectors / 2; h >= 1; h /= 2) merge(r, block, group, group, h, width, h, 0);
    for (int64_t h = width / 2; h >= 1; h /= 2) merge(r, block, group, group, 1, h, 0, h);
}

/* The states of some lanes: all their elements. */
static void sum_lanes(Rows *r, NstBlock *block, Lanes *l)
{
    NstDims *dims = r->dims;
    NstNest *nest = r->nest;
    open_lanes(r, block, l);
    for (uint32_t k = 0; k + 1 < nest->n_reduce; k++)
        block = nst_writer_axis_loop(r->w, block, nest->reduce[k], NST_FOR_SERIAL);
    NstDim n = nst_writer_dim(r->w, nest->reduce[nest->n_reduce - 1].extent), i;
    NstDim trips = nst_dim_floordiv(dims, n, nst_rows_const(r, nest->lanes));
    NstDim done = nst_dim_mul_const(dims, trips, nest->lanes);
    int64_t known;
    if (!nst_dim_is_const(dims, trips, &known) || known > 0) {
        NstBlock *inner = nst_writer_loop(r->w, block, "i", nst_rows_const(r, 0), trips, 1, NST_FOR_SERIAL, 0, &i);
        write_steps(r, inner, l, nst_dim_mul_const(dims, i, nest->lanes), n, false);
    }
    if (!nst_dim_is_const(dims, nst_dim_sub(dims, n, done), &known) || known > 0)
        write_steps(r, block, l, done, n, true);
}

void nst_rows_reduce(Rows *r, NstBlock *block)
{
    NstNest *nest = r->nest;
    Lanes group[NST_ORDER_MAX_LANES] = {{.width = nest->lanes < r->lanes ? nest->lanes : r->lanes}};
    int64_t n = 1, vectors = (int64_t)nest->lanes / group->width, registers = r->w->module->target->vector_registers;
    while (n < vectors &&
           nst_rows_jammed(r) * vectors / n * nest->n_states > registers * STATES_NUMERATOR / STATES_DENOMINATOR)
        n *= 2;
    r->w->state = NST_NEW_ARRAY(r->w->kernel->arena, NstExpr, nest->n_states);
    /* A block of its own keeps the states' lives apart. */
    NstStmt *scope = nst_stmt_if(r->w->kernel, nst_expr_int(r->w->module->exprs, NST_BOOL, 1));
    nst_block_add(r->w->kernel, block, scope);
    block = &scope->u.branch.then;
    for (int64_t g = 0; g < n; g++) {
        group[g] = (Lanes){.width = group->width, .vectors = vectors / n, .first = g * vectors / n};
        sum_lanes(r, block, &group[g]);
    }
    write_tree(r, block, group, n);
    block = nst_rows_open_jam(r, block, &group->row);
    bind_states(r, group, nst_rows_const(r, 0), nst_rows_const(r, 0));
    nst_writer_stores(r->w, block, nest);
}

/* --- reductions over other axes than the vector's -------------------------------------------------------------- */

/* Vectors side by side in one pass over the reduction. */
enum { COLUMN_VECTORS = 4 };

/* One step, or (first) the identities, or (last) the results, for vectors of `lanes` columns from base on, below end. */
typedef enum ColumnPart { COLUMN_START, COLUMN_STEP, COLUMN_END } ColumnPart;

/* Columns base .. end - 1 (end none: whole vectors), `vectors` of them at once. */
typedef struct Columns {
    NstDim base, end;
} Columns;

/* Opens the loops over the rows side by side and over the columns, and binds their axis. */
static NstBlock *open_columns(Rows *r, NstBlock *block, Lanes *l, const Columns *at, NstDim *j, NstDim *lane)
{
    NstDims *dims = r->dims;
    block = nst_rows_open_jam(r, block, &l->row);
    block =
        nst_writer_loop(r->w, block, "j", nst_rows_const(r, 0), nst_rows_const(r, l->vectors), 1, NST_FOR_UNROLL, 0, j);
    NstDim from = nst_dim_add(dims, at->base, nst_dim_mul_const(dims, *j, l->width));
    NstDim count = nst_rows_const(r, l->width);
    if (at->end.i) count = nst_dim_min(dims, count, nst_dim_sub(dims, at->end, from));
    block = nst_writer_loop(r->w, block, "l", nst_rows_const(r, 0), count, 1, NST_FOR_VECTOR, l->width, lane);
    nst_writer_bind(r->w, r->nest->axis[r->nest->n_axes - 1].var, nst_dim_add(dims, from, *lane));
    return block;
}

static void write_column_part(Rows *r, NstBlock *block, Lanes *l, const Columns *at, ColumnPart part)
{
    NstNest *nest = r->nest;
    NstDim j, lane;
    NstExpr value[MAX_STATES];
    block = open_columns(r, block, l, at, &j, &lane);
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

/* --- the same with lanes ------------------------------------------------------------------------------------- */

/* The states of all lanes of some columns, in memory: one lane after another is summed in registers and put there, then the tree
 * joins them.  [rows side by side][lanes][columns] */
typedef struct ColumnLanes {
    NstBuf state[MAX_STATES];
    Lanes *l;
    const Columns *at;
} ColumnLanes;

static void allocate_column_lanes(Rows *r, NstBlock *block, ColumnLanes *c)
{
    NstDim shape[3] = {nst_rows_const(r, nst_rows_jammed(r)), nst_rows_const(r, r->nest->lanes),
                       nst_rows_const(r, c->l->vectors * c->l->width)};
    for (uint32_t k = 0; k < r->nest->n_states; k++) {
        c->state[k] = nst_kernel_local(r->w->kernel, "lanes", r->nest->state[k].dtype, NST_SPACE_SCRATCH, 3, shape);
        nst_block_add(r->w->kernel, block, nst_stmt_alloc(r->w->kernel, c->state[k]));
    }
}

static NstDim column_of(Rows *r, const ColumnLanes *c, NstDim j, NstDim lane)
{
    return nst_dim_add(r->dims, nst_dim_mul_const(r->dims, j, c->l->width), lane);
}

static NstExpr column_state(Rows *r, const ColumnLanes *c, uint32_t k, NstDim which, NstDim column)
{
    NstDim index[3] = {c->l->row, which, column};
    return nst_expr_load(r->w->module->exprs, r->nest->state[k].dtype, c->state[k], index, 3);
}

static void put_column_states(Rows *r, NstBlock *block, const ColumnLanes *c, NstDim which, NstDim column,
                              const NstExpr *value)
{
    Lanes in_memory = *c->l;
    memcpy(in_memory.state, c->state, sizeof in_memory.state);
    store_states(r, block, &in_memory, which, column, value);
}

static void join_column_lanes(Rows *r, NstBlock *block, ColumnLanes *c)
{
    uint32_t m = r->nest->n_states;
    for (int64_t h = r->nest->lanes / 2; h >= 1; h /= 2) {
        NstDim which, j, lane, column;
        NstExpr side[2 * MAX_STATES], value[MAX_STATES];
        NstBlock *body = nst_writer_loop(r->w, block, "which", nst_rows_const(r, 0), nst_rows_const(r, h), 1,
                                         NST_FOR_SERIAL, 0, &which);
        body = open_columns(r, body, c->l, c->at, &j, &lane);
        column = column_of(r, c, j, lane);
        for (uint32_t k = 0; k < m; k++) {
            side[k] = column_state(r, c, k, which, column);
            side[m + k] = column_state(r, c, k, nst_dim_add_const(r->dims, which, h), column);
        }
        for (uint32_t k = 0; k < m; k++)
            value[k] = nst_expr_subst_args(r->w->module->exprs, r->nest->state[k].merge, side, 2 * m);
        put_column_states(r, body, c, which, column, value);
    }
}

/* The states in registers become the sums of the columns, whose elements go to lanes as ir/order.h says. */
static void sum_by_lanes(Rows *r, NstBlock *block, Lanes *l, const Columns *at)
{
    NstDims *dims = r->dims;
    const NstNest *nest = r->nest;
    NstAxis last = nest->reduce[nest->n_reduce - 1];
    NstDim which, i, j, lane, lanes = nst_rows_const(r, nest->lanes);
    ColumnLanes c = {.l = l, .at = at};
    NstExpr value[MAX_STATES];
    allocate_column_lanes(r, block, &c);
    NstBlock *body = nst_writer_loop(r->w, block, "which", nst_rows_const(r, 0), lanes, 1, NST_FOR_SERIAL, 0, &which);
    write_column_part(r, body, l, at, COLUMN_START);
    NstBlock *inner = body;
    for (uint32_t k = 0; k + 1 < nest->n_reduce; k++)
        inner = nst_writer_axis_loop(r->w, inner, nest->reduce[k], NST_FOR_SERIAL);
    NstDim count = nst_dim_ceildiv(dims, nst_dim_sub(dims, nst_writer_dim(r->w, last.extent), which), lanes);
    inner = nst_writer_loop(r->w, inner, "i", nst_rows_const(r, 0), nst_dim_max(dims, count, nst_rows_const(r, 0)), 1,
                            NST_FOR_SERIAL, 0, &i);
    nst_writer_bind(r->w, last.var, nst_dim_add(dims, nst_dim_mul_const(dims, i, nest->lanes), which));
    write_column_part(r, inner, l, at, COLUMN_STEP);
    body = open_columns(r, body, l, at, &j, &lane);
    bind_states(r, l, j, lane);
    put_column_states(r, body, &c, which, column_of(r, &c, j, lane), r->w->state);
    join_column_lanes(r, block, &c);
    body = open_columns(r, block, l, at, &j, &lane);
    for (uint32_t k = 0; k < nest->n_states; k++)
        value[k] = column_state(r, &c, k, nst_rows_const(r, 0), column_of(r, &c, j, lane));
    store_states(r, body, l, j, lane, value);
}

/* The states become the sums of the columns, merged from those of blocks. */
static void sum_by_blocks(Rows *r, NstBlock *block, const Lanes *l, const Columns *at)
{
    NstExprs *exprs = r->w->module->exprs;
    const NstNest *nest = r->nest;
    uint32_t m = nest->n_states;
    NstDim begin = nst_rows_const(r, 0), end = nst_writer_dim(r->w, nest->reduce[0].extent), k;
    NstExpr later, side[2 * MAX_STATES], value[MAX_STATES];
    Lanes sum = *l;
    block = nst_writer_sum_blocks(r->w, block, nest, &begin, &end, &later);
    allocate_states(r, block, &sum, "sum");
    write_column_part(r, block, &sum, at, COLUMN_START);
    NstBlock *inner = nst_writer_loop(r->w, block, "k", begin, end, 1, NST_FOR_SERIAL, 0, &k);
    nst_writer_bind(r->w, nest->reduce[0].var, k);
    write_column_part(r, inner, &sum, at, COLUMN_STEP);
    NstStmt *branch = nst_stmt_if(r->w->kernel, later);
    nst_block_add(r->w->kernel, block, branch);
    for (int is_first = 0; is_first < 2; is_first++) {
        NstDim j, lane;
        Lanes so_far = *l;
        NstBlock *body = is_first ? &branch->u.branch.otherwise : &branch->u.branch.then;
        body = open_columns(r, body, &so_far, at, &j, &lane);
        sum.row = so_far.row;
        bind_states(r, &so_far, j, lane);
        memcpy(side, r->w->state, m * sizeof *side);
        bind_states(r, &sum, j, lane);
        memcpy(side + m, r->w->state, m * sizeof *side);
        for (uint32_t s = 0; s < m; s++)
            value[s] = is_first ? side[m + s] : nst_expr_subst_args(exprs, nest->state[s].merge, side, 2 * m);
        store_states(r, body, &so_far, j, lane, value);
    }
}

/* --- blocks of columns --------------------------------------------------------------------------------------- */

static void write_columns(Rows *r, NstBlock *block, NstDim base, NstDim end, int64_t vectors)
{
    NstNest *nest = r->nest;
    Columns at = {base, end};
    Lanes l = {.vectors = vectors, .width = r->lanes};
    NstStmt *scope = nst_stmt_if(r->w->kernel, nst_expr_int(r->w->module->exprs, NST_BOOL, 1));
    nst_block_add(r->w->kernel, block, scope);
    block = &scope->u.branch.then;
    r->w->state = NST_NEW_ARRAY(r->w->kernel->arena, NstExpr, nest->n_states);
    allocate_states(r, block, &l, "acc");
    write_column_part(r, block, &l, &at, COLUMN_START);
    if (nest->lanes > 1) {
        sum_by_lanes(r, block, &l, &at);
    } else if (nest->block) {
        sum_by_blocks(r, block, &l, &at);
    } else {
        NstBlock *inner = block;
        for (uint32_t k = 0; k < nest->n_reduce; k++)
            inner = nst_writer_axis_loop(r->w, inner, nest->reduce[k], NST_FOR_SERIAL);
        write_column_part(r, inner, &l, &at, COLUMN_STEP);
    }
    write_column_part(r, block, &l, &at, COLUMN_END);
}

void nst_rows_reduce_columns(Rows *r, NstBlock *block)
{
    NstDims *dims = r->dims;
    NstDim n = nst_writer_dim(r->w, r->nest->axis[r->nest->n_axes - 1].extent), i;
    int64_t width = COLUMN_VECTORS * r->lanes, known;
    NstDim full = nst_dim_floordiv(dims, n, nst_rows_const(r, width)), done = nst_dim_mul_const(dims, full, width);
    NstForKind kind = r->parallel && r->nest->n_axes == r->n_common + 1 ? NST_FOR_PARALLEL : NST_FOR_SERIAL;
    if (!nst_dim_is_const(dims, full, &known) || known > 0) {
        NstBlock *body = nst_writer_loop(r->w, block, "i", nst_rows_const(r, 0), full, 1, kind, 0, &i);
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
    if (flat->n_axes == n_common || !flat->n_reduce || flat->n_lets || flat->check.i || flat->n_states > MAX_STATES)
        return false;
    NstSym last = flat->axis[flat->n_axes - 1].var;
    for (uint32_t k = 0; k < flat->n_outs; k++) {
        int64_t stride;
        if (!nst_dim_stride(module->dims, flat->out[k].index[0], last, &stride) || stride != 1) return false;
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
        if (!nst_dim_stride(module->dims, t.address.at[k], last, &stride) || stride != 1) return false;
    }
    return true;
}
