/* tile_lanes.c: reductions whose order has lanes (ir/order.h), vectorised along an axis that is not reduced.
 *
 * In: a nest with lanes > 1 and a schedule whose column axis has adjacent elements in the output.  Out: for one vector of that
 * axis at a time, the lanes' states as a register array [lane][element], filled in the order's sequence, then merged by the
 * order's tree.  Lanes that registers do not hold at once are done in groups that meet in scratch.  No step runs across
 * the vector. */
#include "passes/sched.h"

#define MAX_STATES 8

typedef struct LaneTiler {
    NstWriter *w;
    NstDims *dims;
    const NstNest *nest;
    NstAxis axis;           /* the column axis */
    int64_t width, group;   /* elements of a vector; lanes in registers at once */
    NstBuf acc[MAX_STATES]; /* registers [group][width] */
    NstBuf all[MAX_STATES]; /* scratch [lanes][width], where the groups are several */
    NstDim col, end;        /* first element of the vector, how many exist */
} LaneTiler;

static NstDim constant(LaneTiler *t, int64_t value)
{
    return nst_dim_const(t->dims, value);
}

static NstBlock *serial(LaneTiler *t, NstBlock *block, const char *name, NstDim begin, NstDim end, NstDim *var)
{
    return nst_writer_loop(t->w, block, name, begin, end, 1, NST_FOR_SERIAL, 0, var);
}

static NstBlock *unrolled(LaneTiler *t, NstBlock *block, int64_t count, NstDim *var)
{
    return nst_writer_loop(t->w, block, "l", constant(t, 0), constant(t, count), 1, NST_FOR_UNROLL, 0, var);
}

/* The lanes of the vector; binds the column axis. */
static NstBlock *elements(LaneTiler *t, NstBlock *block, NstDim *element)
{
    block = nst_writer_loop(t->w, block, "e", constant(t, 0), t->end, 1, NST_FOR_VECTOR, t->width, element);
    nst_writer_bind(t->w, t->axis.var, nst_dim_add(t->dims, t->col, *element));
    return block;
}

static NstExpr load(LaneTiler *t, NstBuf buffer, uint32_t state, NstDim lane, NstDim element)
{
    NstDim index[2] = {lane, element};
    return nst_expr_load(t->w->module->exprs, t->nest->state[state].dtype, buffer, index, 2);
}

static void bind_states(LaneTiler *t, NstDim lane, NstDim element)
{
    t->w->n_states = t->nest->n_states;
    for (uint32_t k = 0; k < t->nest->n_states; k++) t->w->state[k] = load(t, t->acc[k], k, lane, element);
}

static void store(LaneTiler *t, NstBlock *block, const NstBuf *buffer, const NstExpr *value, NstDim lane,
                  NstDim element)
{
    NstKernel *kernel = t->w->kernel;
    NstDim index[2] = {lane, element};
    NstStoreTarget *target = NST_NEW_ARRAY(kernel->arena, NstStoreTarget, t->nest->n_states);
    for (uint32_t k = 0; k < t->nest->n_states; k++)
        target[k] = (NstStoreTarget){.buffer = buffer[k], .value = value[k]};
    NstStmt *stmt = nst_stmt_update(kernel, t->nest->n_states, target, index, 2);
    stmt->u.store.update = false;
    nst_block_add(kernel, block, stmt);
}

/* The step for element `at` of the innermost reduction axis, in lane `lane` of the group; left out past `last` if given. */
static void step(LaneTiler *t, NstBlock *block, NstDim lane, NstDim at, NstDim last)
{
    NstExprs *exprs = t->w->module->exprs;
    NstExpr value[MAX_STATES];
    NstDim element;
    if (last.i)
        block = nst_writer_guard(
            t->w, block, nst_expr_binary(exprs, NST_OP_LT, nst_expr_index(exprs, at), nst_expr_index(exprs, last)));
    nst_writer_bind(t->w, t->nest->reduce[t->nest->n_reduce - 1].var, at);
    block = elements(t, block, &element);
    block = nst_writer_guard(t->w, block, t->nest->guard);
    bind_states(t, lane, element);
    for (uint32_t k = 0; k < t->nest->n_states; k++) value[k] = nst_writer_expr(t->w, t->nest->state[k].step);
    store(t, block, t->acc, value, lane, element);
}

/* Fills lanes first .. first + group - 1. */
static void fill_group(LaneTiler *t, NstBlock *block, NstDim first)
{
    NstDim lane, element, round, extent = nst_writer_dim(t->w, t->nest->reduce[t->nest->n_reduce - 1].extent);
    NstExpr identity[MAX_STATES];
    for (uint32_t k = 0; k < t->nest->n_states; k++) {
        NstDim shape[2] = {constant(t, t->group), constant(t, t->width)};
        identity[k] = t->nest->state[k].identity;
        t->acc[k] = nst_kernel_local(t->w->kernel, "acc", t->nest->state[k].dtype, NST_SPACE_REG, 2, shape);
        nst_block_add(t->w->kernel, block, nst_stmt_alloc(t->w->kernel, t->acc[k]));
    }
    NstBlock *body = unrolled(t, block, t->group, &lane);
    body = elements(t, body, &element);
    store(t, body, t->acc, identity, lane, element);
    for (uint32_t k = 0; k + 1 < t->nest->n_reduce; k++)
        block = nst_writer_axis_loop(t->w, block, t->nest->reduce[k], NST_FOR_SERIAL);
    NstDim lanes = constant(t, t->nest->lanes), rounds = nst_dim_floordiv(t->dims, extent, lanes),
           zero = constant(t, 0);
    body = serial(t, block, "r", zero, rounds, &round);
    body = unrolled(t, body, t->group, &lane);
    NstDim at = nst_dim_add(t->dims, first, lane);
    step(t, body, lane, nst_dim_add(t->dims, nst_dim_mul(t->dims, round, lanes), at), (NstDim){0});
    NstDim done = nst_dim_mul(t->dims, rounds, lanes);
    if (nst_dim_compare(t->dims, done, NST_DIM_EQ, extent) == NST_TRUE) return;
    body = unrolled(t, block, t->group, &lane);
    step(t, body, lane, nst_dim_add(t->dims, done, nst_dim_add(t->dims, first, lane)), extent);
}

/* state l = merge(state l, state l + h), read from `from` (l of it), written to `to`. */
static void merge(LaneTiler *t, NstBlock *block, const NstBuf *from, const NstBuf *to, NstDim lane, int64_t h)
{
    NstExpr side[2 * MAX_STATES], value[MAX_STATES];
    NstDim element;
    uint32_t m = t->nest->n_states;
    block = elements(t, block, &element);
    for (uint32_t k = 0; k < m; k++) {
        side[k] = load(t, from[k], k, lane, element);
        side[m + k] = load(t, from[k], k, nst_dim_add_const(t->dims, lane, h), element);
    }
    for (uint32_t k = 0; k < m; k++)
        value[k] = nst_expr_subst_args(t->w->module->exprs, t->nest->state[k].merge, side, 2 * m);
    store(t, block, to, value, lane, element);
}

/* All groups through scratch; the last merge that leaves one group brings it to registers. */
static void fill_by_groups(LaneTiler *t, NstBlock *block)
{
    NstKernel *kernel = t->w->kernel;
    NstDim shape[2] = {constant(t, t->nest->lanes), constant(t, t->width)}, part, lane, element;
    for (uint32_t k = 0; k < t->nest->n_states; k++) {
        t->all[k] = nst_kernel_local(kernel, "lanes", t->nest->state[k].dtype, NST_SPACE_SCRATCH, 2, shape);
        nst_block_add(kernel, block, nst_stmt_alloc(kernel, t->all[k]));
    }
    NstBlock *body = serial(t, block, "g", constant(t, 0), constant(t, t->nest->lanes / t->group), &part);
    NstDim first = nst_dim_mul_const(t->dims, part, t->group);
    fill_group(t, body, first);
    body = unrolled(t, body, t->group, &lane);
    body = elements(t, body, &element);
    bind_states(t, lane, element);
    store(t, body, t->all, t->w->state, nst_dim_add(t->dims, first, lane), element);
    for (int64_t h = t->nest->lanes / 2; h > t->group; h /= 2) {
        body = serial(t, block, "l", constant(t, 0), constant(t, h), &lane);
        merge(t, body, t->all, t->all, lane, h);
    }
    shape[0] = constant(t, t->group);
    for (uint32_t k = 0; k < t->nest->n_states; k++) {
        t->acc[k] = nst_kernel_local(kernel, "acc", t->nest->state[k].dtype, NST_SPACE_REG, 2, shape);
        nst_block_add(kernel, block, nst_stmt_alloc(kernel, t->acc[k]));
    }
    merge(t, unrolled(t, block, t->group, &lane), t->all, t->acc, lane, t->group);
}

static void write_vector(LaneTiler *t, NstBlock *block)
{
    NstStmt *scope = nst_stmt_if(t->w->kernel, nst_expr_int(t->w->module->exprs, NST_BOOL, 1));
    nst_block_add(t->w->kernel, block, scope);
    block = &scope->u.branch.then;
    if (t->group == (int64_t)t->nest->lanes)
        fill_group(t, block, constant(t, 0));
    else
        fill_by_groups(t, block);
    NstDim lane, element;
    for (int64_t h = t->group / 2; h >= 1; h /= 2) merge(t, unrolled(t, block, h, &lane), t->acc, t->acc, lane, h);
    block = elements(t, block, &element);
    bind_states(t, constant(t, 0), element);
    nst_writer_stores(t->w, block, t->nest);
}

NstStatus nst_tile_lanes(NstCtx *ctx, NstWriter *w, NstBlock *block, const NstNest *nest, uint32_t n_common,
                         const NstTileSchedule *schedule)
{
    NST_CHECK(ctx, nest->lanes > 1 && nest->n_states >= 1 && nest->n_states <= MAX_STATES && !nest->n_lets,
              NST_E_UNSUPPORTED,
              "nest '%s' has %u lanes, %u states, %u gathered indices; the lane schedule takes several lanes, 1 to %d "
              "states, none",
              nest->name, nest->lanes, nest->n_states, nest->n_lets, MAX_STATES);
    LaneTiler t = {.w = w, .dims = w->module->dims, .nest = nest, .width = schedule->lanes};
    t.axis = nest->axis[schedule->col_axis];
    /* Half of the registers hold states, the rest operands and temporaries. */
    int64_t registers = w->module->target->vector_registers / 2 / nest->n_states;
    for (t.group = (int64_t)nest->lanes; t.group > registers && t.group > 2;) t.group /= 2;
    w->state = NST_NEW_ARRAY(w->kernel->arena, NstExpr, nest->n_states);
    for (uint32_t k = n_common; k < nest->n_axes; k++)
        if ((int)k != schedule->col_axis) block = nst_writer_axis_loop(w, block, nest->axis[k], NST_FOR_SERIAL);
    NstDim extent = nst_writer_dim(w, t.axis.extent), width = constant(&t, t.width), v;
    NstDim full = nst_dim_floordiv(t.dims, extent, width), rest = nst_dim_mod(t.dims, extent, width);
    NstBlock *body = nst_writer_loop(w, block, "v", constant(&t, 0), full, 1, NST_FOR_SERIAL, 0, &v);
    t.col = nst_dim_mul(t.dims, v, width);
    t.end = width;
    write_vector(&t, body);
    if (nst_dim_compare(t.dims, rest, NST_DIM_EQ, constant(&t, 0)) == NST_TRUE) return NST_OK;
    body = nst_writer_loop(w, block, "v", full, nst_dim_ceildiv(t.dims, extent, width), 1, NST_FOR_SERIAL, 0, &v);
    t.col = nst_dim_mul(t.dims, v, width);
    t.end = nst_dim_min(t.dims, width, nst_dim_sub(t.dims, extent, t.col));
    write_vector(&t, body);
    return NST_OK;
}
