/* rows.c: see rows.h.  No schedule here changes the order of a sum: lanes and tree are the nest's (ir/order.h). */
#include "passes/rows_impl.h"

/* Elements of the parallel blocks of a map with one axis: 64 KB of f32, far above the cost of a fork. */
enum { BLOCK_ELEMENTS = 16 << 10 };
/* Vectors side by side in the main loop of a map: the latency of one hides behind the others.  Maps of more than UNROLL_COST
 * operations take them as one wide vector: unrolled one after another, a chain of 170 cycles fills the window of
 * instructions that a core looks at (20 maps with three exp in L1, Zen 5: 54 cycles a vector, 33 with four side by side). */
enum { UNROLL = 4, UNROLL_COST = 12 };
/* The same for a piece of a dear map (rows_stage.c), whose values fit into 32 registers more often (in L2: 22.4 -> 19.4 us,
 * without exp 7.7 -> 7.2); and the most lanes of a vector loop. */
enum { STAGE_UNROLL = 8, MAX_LANES = 256 };
/* Axes along which loops may be split: each split copies the body. */
enum { MAX_SPLIT_AXES = 2 };

static int64_t lanes_of(NstModule *module, const NstNest *nest)
{
    NstTouched t;
    nst_touched(module, nest, &t);
    return module->target->vector_bytes / (t.widest ? t.widest : 1);
}

/* The common axes' values in row number `row`. */
static void bind_row(NstWriter *w, const NstGroup *group, NstDim row)
{
    NstDims *dims = w->module->dims;
    NstDim stride = nst_dim_const(dims, 1);
    for (uint32_t k = group->n_axes; k-- > 0;) {
        NstDim extent = nst_writer_dim(w, group->axis[k].extent), at = nst_dim_floordiv(dims, row, stride);
        nst_writer_bind(w, group->axis[k].var, k ? nst_dim_mod(dims, at, extent) : at);
        stride = nst_dim_mul(dims, stride, extent);
    }
}

/* The same, also for the axes of the nest at hand. */
static void bind_nest_row(Rows *r, NstDim row)
{
    bind_row(r->w, r->jam->group, row);
    for (uint32_t k = 0; k < r->n_common; k++)
        nst_writer_bind(r->w, r->nest->axis[k].var,
                        nst_writer_dim(r->w, nst_dim_sym(r->dims, r->jam->group->axis[k].var)));
}

NstBlock *nst_rows_open_jam(Rows *r, NstBlock *block, NstDim *row)
{
    *row = nst_rows_const(r, 0);
    if (!r->jam) return block;
    if (r->jam->rows > 1)
        block = nst_writer_loop(r->w, block, "row", nst_rows_const(r, 0), nst_rows_const(r, r->jam->rows), 1,
                                NST_FOR_UNROLL, 0, row);
    nst_writer_bind(r->w, r->jam->which, nst_dim_add(r->dims, *row, r->jam->offset));
    bind_nest_row(r, nst_dim_add(r->dims, r->jam->first, *row));
    return block;
}

/* --- maps ---------------------------------------------------------------------------------------------------- */

/* An output of more bytes than this and than L2 is stored past the caches by maps: what reads it finds little of it there, and
 * the lines need not be fetched first (transposed 2048x2048: 1.7 ms, streamed 0.9; 2026-11, Zen 5 with 1 MB of L2.  1008x1008:
 * 0.355 ms, streamed 0.268; sums of 1024x1008, 768x1024, 600x1024: 0.495, 0.367, 0.299, streamed 0.395, 0.316, 0.232; 2026-11,
 * Emerald Rapids with 2 MB).  An input of as much is not found there. */
enum { STREAM_BYTES = 2 << 20 };

static bool is_past_caches(const NstWriter *w, const NstModuleBuffer *buffer)
{
    int64_t lo, hi;
    nst_dim_bounds(w->module->dims, buffer->buffer.layout.elements, &lo, &hi);
    int64_t l2 = w->module->target->l2_bytes, most = l2 > STREAM_BYTES ? l2 : STREAM_BYTES;
    return lo > most / nst_dtype_info(buffer->buffer.dtype)->bytes;
}

/* Prefetches what the vector at hand reads some rows on, where rows do not follow one another in memory: the core's own prefetch
 * ends with a row.  (20 maps, outer axes of 128x96x1024 permuted: one row on 8.9 ms, without exp 4.6; two rows 8.0 and 4.0;
 * Emerald Rapids, 2026-11.) */
enum { ROWS_AHEAD = 2 };

static void fetch_later_row(Rows *r, NstBlock *block)
{
    NstNest *nest = r->nest;
    NstTouched t;
    int64_t stride, length;
    if (r->jam || nest->n_axes < r->n_common + 2 || nest->n_lets || (r->stages && r->stages->at > 0)) return;
    NstAxis row = nest->axis[nest->n_axes - 2], along = nest->axis[nest->n_axes - 1];
    if (!nst_dim_is_const(r->dims, nst_writer_dim(r->w, along.extent), &length)) return;
    nst_touched(r->w->module, nest, &t);
    NstDim here = nst_writer_dim(r->w, nst_dim_sym(r->dims, row.var));
    nst_writer_bind(r->w, row.var, nst_dim_add_const(r->dims, here, ROWS_AHEAD));
    for (uint32_t k = 0; k < t.address.n; k++) {
        NstDim address = t.address.at[k];
        if (t.stored.at[k] || !is_past_caches(r->w, nst_module_get(r->w->module, t.buffer.at[k]))) continue;
        if (!nst_dim_stride(r->dims, address, along.var, &stride) || stride != 1) continue;
        if (!nst_dim_stride(r->dims, address, row.var, &stride) || (stride >= 0 && stride <= length)) continue;
        NstDim *index = NST_NEW_ARRAY(r->w->kernel->arena, NstDim, 1);
        *index = nst_writer_dim(r->w, address);
        NstBuf buffer = nst_writer_buffer(r->w, t.buffer.at[k]);
        nst_block_add(r->w->kernel, block, nst_stmt_prefetch(r->w->kernel, buffer, index, 1, 1, false));
    }
    nst_writer_bind(r->w, row.var, here);
}

/* True if e differs by the row of a common axis while rows are done side by side: it must stand with its row. */
static bool follows_row(const Rows *r, NstExpr e)
{
    for (uint32_t k = 0; r->jam && k < r->n_common; k++)
        if (nst_expr_uses_sym(r->w->module->exprs, e, r->nest->axis[k].var)) return true;
    return false;
}

/* Binds the index-lets that do not depend on the vector axis, or (all) the rest. */
static void write_lets(Rows *r, NstBlock *block, bool all)
{
    NstNest part = *r->nest;
    uint32_t end = r->next_let;
    NstSym vec = r->nest->n_axes ? r->nest->axis[r->nest->n_axes - 1].var : (NstSym){0};
    for (; end < r->nest->n_lets; end++) {
        const NstIndexLet *let = &r->nest->let[end];
        if (!all && (nst_expr_uses_sym(r->w->module->exprs, let->value, vec) || follows_row(r, let->value))) break;
    }
    part.let += r->next_let;
    part.n_lets = end - r->next_let;
    nst_writer_lets(r->w, block, &part);
    if (!all) r->next_let = end;
}

static void write_point(Rows *r, NstBlock *block)
{
    uint32_t bound = r->next_let;
    NstDim row;
    if (r->nest->n_axes == r->n_common) block = nst_rows_open_jam(r, block, &row);
    r->w->n_states = 0;
    write_lets(r, block, true);
    if (r->nest->check.i) {
        NstStmt *stmt = nst_stmt_assert(r->w->kernel, nst_writer_expr(r->w, r->nest->check), r->nest->message);
        stmt->origin = r->nest->origin;
        nst_block_add(r->w->kernel, block, stmt);
    }
    if (r->stages)
        nst_rows_stage_point(r, block);
    else
        nst_writer_stores(r->w, block, r->nest);
    r->next_let = bound;
}

/* One vector of the last axis: base .. end - 1, at most `lanes` elements. */
static void write_vector(Rows *r, NstBlock *block, NstDim base, NstDim end, int64_t lanes)
{
    NstDim var, row;
    NstAxis axis = r->nest->axis[r->nest->n_axes - 1];
    block = nst_rows_open_jam(r, block, &row);
    block = nst_writer_loop(r->w, block, "v", base, end, 1, NST_FOR_VECTOR, lanes, &var);
    nst_writer_bind(r->w, axis.var, var);
    fetch_later_row(r, block);
    write_point(r, block);
}

/* Vectors first .. last - 1 of a run, `wide` of them an iteration: unrolled, or one wide vector. */
static void write_vectors(Rows *r, NstBlock *block, NstDim begin, NstDim first, NstDim last, int wide)
{
    NstDims *dims = r->dims;
    NstDim i, u = nst_rows_const(r, 0);
    int64_t known;
    if (nst_dim_is_const(dims, nst_dim_sub(dims, last, first), &known) && known <= 0) return;
    block = nst_writer_loop(r->w, block, "i", first, last, 1, NST_FOR_SERIAL, 0, &i);
    int64_t lanes = r->join ? wide * r->lanes : r->lanes;
    if (wide > 1 && !r->join)
        block =
            nst_writer_loop(r->w, block, "u", nst_rows_const(r, 0), nst_rows_const(r, wide), 1, NST_FOR_UNROLL, 0, &u);
    NstDim vector = nst_dim_add(dims, nst_dim_mul_const(dims, i, wide), u);
    NstDim base = nst_dim_add(dims, begin, nst_dim_mul_const(dims, vector, r->lanes));
    write_vector(r, block, base, nst_dim_add_const(dims, base, lanes), lanes);
}

void nst_rows_run_piece(Rows *r, NstBlock *block, NstDim begin, NstDim end)
{
    NstDims *dims = r->dims;
    NstDim length = nst_dim_sub(dims, end, begin), full = nst_dim_floordiv(dims, length, nst_rows_const(r, r->lanes));
    NstDim wide = nst_dim_floordiv(dims, full, nst_rows_const(r, r->unroll));
    int64_t known;
    if (nst_dim_is_const(dims, length, &known) && known <= 0) return;
    if (r->unroll > 1) write_vectors(r, block, begin, nst_rows_const(r, 0), wide, r->unroll);
    write_vectors(r, block, begin, r->unroll > 1 ? nst_dim_mul_const(dims, wide, r->unroll) : nst_rows_const(r, 0),
                  full, 1);
    NstDim done = nst_dim_mul_const(dims, full, r->lanes);
    if (nst_dim_is_const(dims, nst_dim_sub(dims, length, done), &known) && known <= 0) return;
    write_vector(r, block, nst_dim_add(dims, begin, done), end, r->lanes);
}

void nst_rows_run(Rows *r, NstBlock *block, NstDim begin, NstDim end)
{
    if (r->stages && r->stages->n > 1) {
        nst_rows_run_stages(r, block, begin, end);
        return;
    }
    if (r->stages) *r->stages = (NstStages){.n = 1, .value = {r->nest->out[0].value}, .base = begin};
    nst_rows_run_piece(r, block, begin, end);
}

/* A map with one axis, dealt to the threads in blocks. */
static void write_blocks(Rows *r, NstBlock *block, NstDim begin, NstDim end)
{
    NstDims *dims = r->dims;
    NstDim length = nst_dim_sub(dims, end, begin), size = nst_rows_const(r, BLOCK_ELEMENTS), b;
    NstDim count = nst_dim_ceildiv(dims, length, size);
    int64_t least, most;
    nst_dim_bounds(dims, count, &least, &most);
    if (most <= 1) {
        nst_rows_run(r, block, begin, end);
        return;
    }
    block = nst_writer_loop(r->w, block, "block", nst_rows_const(r, 0), count, 1, NST_FOR_PARALLEL, 0, &b);
    NstDim from = nst_dim_add(dims, begin, nst_dim_mul(dims, b, size));
    nst_rows_run(r, block, from, nst_dim_min(dims, end, nst_dim_add(dims, from, size)));
}

static void write_axis(Rows *r, NstBlock *block, uint32_t k);

/* Axis k from begin to end. */
static void write_range(Rows *r, NstBlock *block, uint32_t k, NstDim begin, NstDim end, bool parallel)
{
    if (k + 1 == r->nest->n_axes) {
        write_lets(r, block, false);
        if (parallel)
            write_blocks(r, block, begin, end);
        else
            nst_rows_run(r, block, begin, end);
        return;
    }
    NstDim var;
    const char *name = nst_dims_sym(r->dims, r->nest->axis[k].var)->name;
    NstForKind kind = parallel ? NST_FOR_PARALLEL : NST_FOR_SERIAL;
    block = nst_writer_loop(r->w, block, name, begin, end, 1, kind, 0, &var);
    nst_writer_bind(r->w, r->nest->axis[k].var, var);
    write_axis(r, block, k + 1);
}

/* Loops over axis k and those inside, split where conditions change. */
static void write_axis(Rows *r, NstBlock *block, uint32_t k)
{
    NstDim at[NST_ROWS_MAX_BREAKS], begin = nst_rows_const(r, 0), end = nst_writer_dim(r->w, r->nest->axis[k].extent);
    uint32_t n = r->n_split < MAX_SPLIT_AXES
                     ? nst_breaks(r->w, r->nest, nst_rows_jammed(r) > 1 ? 0 : r->n_common, k, at, NST_ROWS_MAX_BREAKS)
                     : 0;
    uint32_t lets = r->next_let;
    bool parallel = r->parallel;
    r->parallel = false;
    r->n_split += n > 0;
    if (n == 0 && nst_rows_turn(r, block, k, parallel)) return;
    for (uint32_t b = 0; b <= n; b++) {
        NstDim stop = b < n ? at[b] : end;
        int64_t length;
        if (!nst_dim_is_const(r->dims, nst_dim_sub(r->dims, stop, begin), &length) || length > 0)
            write_range(r, block, k, begin, stop, parallel);
        r->next_let = lets;
        begin = stop;
    }
    r->n_split -= n > 0;
}

static uint32_t cost_of(const Rows *r)
{
    uint32_t cost = 0;
    for (uint32_t k = 0; k < r->nest->n_outs; k++) cost += nst_expr_cost(r->w->module->exprs, r->nest->out[k].value);
    return cost;
}

/* The longest outer axis comes first, so that threads share it. */
static void put_longest_first(Rows *r)
{
    NstNest *nest = r->nest;
    uint32_t best = r->n_common;
    int64_t most = 0, extent;
    for (uint32_t k = r->n_common; k + 1 < nest->n_axes; k++)
        if (nst_dim_is_const(r->dims, nest->axis[k].extent, &extent) && extent > most && most < 16) {
            most = extent;
            best = k;
        }
    NstAxis first = nest->axis[best];
    for (uint32_t k = best; k > r->n_common; k--) nest->axis[k] = nest->axis[k - 1];
    nest->axis[r->n_common] = first;
}

/* Narrows *run to the length of the runs that places of `dim` lie side by side in: the divisors of `var` in it. */
static void find_runs(const NstDims *dims, NstDim dim, NstSym var, int64_t *run)
{
    const NstDimNode *node = nst_dim_node(dims, dim);
    for (uint32_t k = 0; k < node->n; k++) {
        find_runs(dims, node->arg[k], var, run);
        node = nst_dim_node(dims, dim);
    }
    int64_t divisor;
    if ((node->op != NST_DIM_FLOORDIV && node->op != NST_DIM_MOD) || !nst_dim_uses(dims, node->arg[0], var)) return;
    if (!nst_dim_is_const(dims, node->arg[1], &divisor)) divisor = 1;
    *run = nst_gcd_i64(divisor, *run);
}

/* Elements of the last axis that a joined vector may store at once: panels of 48 columns take no vector of 128 (each lane alone: 15 KB
 * of code, in runs 1). */
static int64_t stored_run(Rows *r)
{
    const NstNest *nest = r->nest;
    int64_t run = 0;
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        const NstNestOut *out = &nest->out[k];
        bool flat = (int)out->n_index != nst_module_get(r->w->module, out->buffer)->buffer.rank;
        NstDim offset = flat ? out->index[0] : nst_writer_offset(r->w, out->buffer, out->index);
        find_runs(r->dims, offset, nest->axis[nest->n_axes - 1].var, &run);
    }
    return run;
}

/* Chooses how the vectors of a map run. */
static void begin_map(Rows *r)
{
    if (r->jam && nst_rows_jammed(r) == 1)
        bind_nest_row(r, r->jam->first); /* where conditions change may depend on the row */
    r->join = cost_of(r) > UNROLL_COST;
    int side_by_side = r->join && r->w->module->target->vector_registers < 32 ? UNROLL / 2 : UNROLL;
    r->unroll = nst_rows_jammed(r) < side_by_side ? side_by_side / (int)nst_rows_jammed(r) : 1;
    if (r->nest->n_axes == r->n_common) return;
    if (r->parallel && r->nest->n_axes > r->n_common + 2) put_longest_first(r);
    nst_rows_turn_order(r);
    r->stages = nst_rows_stages(r);
    if (r->stages && r->w->module->target->vector_registers >= 32) r->unroll = STAGE_UNROLL;
    int64_t run = r->join ? stored_run(r) : 0;
    while (r->join && r->unroll > 1 && (r->unroll * r->lanes > MAX_LANES || (run && run % (r->unroll * r->lanes))))
        r->unroll /= 2;
}

static void write_map(Rows *r, NstBlock *block)
{
    begin_map(r);
    if (r->nest->n_axes == r->n_common)
        write_point(r, block);
    else
        write_axis(r, block, r->n_common);
}

/* --- nests and groups ---------------------------------------------------------------------------------------- */

/* Adds which row's copy of a local is meant. */
typedef struct Copies {
    const NstGroup *group;
    NstWriter *w;
    NstSym which;
} Copies;

static NstDim copy_address(const Copies *c, NstBuf buffer, NstDim address)
{
    NstDims *dims = c->w->module->dims;
    const NstBuffer *b = &nst_module_get(c->w->module, buffer)->buffer;
    NstDim size = nst_dim_const(dims, 1);
    for (int k = (int)nst_writer_dropped(c->w, buffer); k < b->rank; k++) size = nst_dim_mul(dims, size, b->shape[k]);
    return nst_dim_add(dims, address, nst_dim_mul(dims, nst_dim_sym(dims, c->which), size));
}

static NstExpr copy_load(void *arg, NstExprs *exprs, NstExpr e)
{
    const Copies *c = arg;
    const NstExprNode node = *nst_expr(exprs, e);
    if (node.op != NST_OP_LOAD || !nst_group_is_local(c->group, (NstBuf){node.ref})) return (NstExpr){0};
    NstDim address = copy_address(c, (NstBuf){node.ref}, node.index[0]);
    return nst_expr_load(exprs, node.type, (NstBuf){node.ref}, &address, 1);
}

/* Locals of a flat nest become one a row. */
static void separate_locals(NstWriter *w, NstNest *flat, const NstJam *jam)
{
    Copies c = {jam->group, w, jam->which};
    NstExprs *exprs = w->module->exprs;
    for (uint32_t k = 0; k < flat->n_lets; k++)
        flat->let[k].value = nst_expr_rewrite(exprs, flat->let[k].value, copy_load, &c);
    for (uint32_t k = 0; k < flat->n_states; k++)
        flat->state[k].step = nst_expr_rewrite(exprs, flat->state[k].step, copy_load, &c);
    for (uint32_t k = 0; k < flat->n_outs; k++) {
        flat->out[k].value = nst_expr_rewrite(exprs, flat->out[k].value, copy_load, &c);
        if (nst_group_is_local(jam->group, flat->out[k].buffer))
            flat->out[k].index[0] = copy_address(&c, flat->out[k].buffer, flat->out[k].index[0]);
    }
}

static void write_nest(Rows *r, NstBlock *block)
{
    NstNest *flat = r->nest;
    NstModule *module = r->w->module;
    r->lanes = lanes_of(module, flat);
    if (!flat->n_states) {
        write_map(r, block);
        return;
    }
    nst_rows_free_order(module, flat);
    bool by_lanes = nst_rows_by_lanes(module, flat);
    bool columns = !by_lanes && nst_rows_by_columns(module, flat, r->n_common);
    for (uint32_t k = r->n_common; k + columns < flat->n_axes; k++) {
        NstForKind kind = k == r->n_common && r->parallel ? NST_FOR_PARALLEL : NST_FOR_SERIAL;
        block = nst_writer_axis_loop(r->w, block, flat->axis[k], kind);
    }
    NstDim row;
    if (columns)
        nst_rows_reduce_columns(r, block);
    else if (by_lanes)
        nst_rows_reduce(r, block);
    else
        nst_writer_plain(r->w, nst_rows_open_jam(r, block, &row), flat, flat->n_axes);
}

/* Parts that a map is cut into, at most, before its axes are ordered: what no condition divides merges and transposes best. */
enum { MAX_PARTS = 16 };

/* Cuts the flat nests of list (whose outer axes are not bound) along axis k where their conditions change. */
static void cut(NstWriter *w, NstNest **list, uint32_t *n, uint32_t k)
{
    NstDims *dims = w->module->dims;
    uint32_t before = *n;
    for (uint32_t i = 0; i < before; i++) {
        NstDim at[NST_ROWS_MAX_BREAKS + 1], begin = nst_dim_const(dims, 0);
        const NstNest *nest = list[i];
        uint32_t breaks = nst_breaks(w, nest, 0, k, at, NST_ROWS_MAX_BREAKS);
        if (!breaks || *n + breaks > MAX_PARTS) continue;
        at[breaks] = nest->axis[k].extent;
        for (uint32_t b = 0; b <= breaks; b++) {
            NstNest *part = nst_nest_range(w->module, nest, k, begin, at[b]);
            if (b == 0)
                list[i] = part;
            else
                list[(*n)++] = part;
            begin = at[b];
        }
    }
}

NstStatus nst_write_row_nest(NstCtx *ctx, NstWriter *w, NstBlock *block, const NstNest *nest, uint32_t n_common,
                             bool parallel)
{
    NstModule *module = w->module;
    NstNest *list[MAX_PARTS] = {nst_flat_addresses(w, nest)};
    uint32_t n = 1;
    for (uint32_t k = 0; k < nest->n_axes && !nest->n_states && n_common == 0; k++) cut(w, list, &n, k);
    for (uint32_t part = 0; part < n; part++) {
        NstNest *flat = list[part];
        nst_flat_axes(module, flat, n_common);
        for (uint32_t k = 0; k < n_common; k++) /* the copy's axes are new symbols */
            nst_writer_bind(w, flat->axis[k].var, nst_writer_dim(w, nst_dim_sym(module->dims, nest->axis[k].var)));
        Rows r = {.ctx = ctx, .w = w, .dims = module->dims, .nest = flat, .n_common = n_common, .parallel = parallel};
        write_nest(&r, block);
    }
    return NST_OK;
}

bool nst_is_row_group(const NstGroup *group)
{
    if (group->serial) return false;
    for (uint32_t k = 0; k < group->items.n; k++)
        if (!group->items.at[k].nest) return false;
    return true;
}

/* Scratch for the locals of `total` rows. */
static void open_locals(NstWriter *w, NstBlock *block, const NstGroup *group, int64_t total)
{
    NstDims *dims = w->module->dims;
    for (uint32_t k = 0; k < group->locals.n; k++) {
        NstBuf local = group->locals.at[k];
        const NstBuffer *from = &nst_module_get(w->module, local)->buffer;
        NstDim size = nst_dim_const(dims, total);
        for (int d = (int)group->n_axes; d < from->rank; d++) size = nst_dim_mul(dims, size, from->shape[d]);
        NstBuf to = nst_kernel_local(w->kernel, from->name, from->dtype, NST_SPACE_SCRATCH, 1, &size);
        nst_writer_set_buffer(w, local, to, nst_writer_dropped(w, local));
        nst_block_add(w->kernel, block, nst_stmt_alloc(w->kernel, to));
    }
}

/* Member k of the group as a nest over the rows of jam. */
static Rows open_member(NstCtx *ctx, NstWriter *w, const NstJam *jam, uint32_t k)
{
    const NstGroup *group = jam->group;
    NstNest *flat = nst_flat_nest(w, group->items.at[k].nest, group->n_axes);
    bind_row(w, group, jam->first);
    separate_locals(w, flat, jam);
    return (Rows){.ctx = ctx, .w = w, .dims = w->module->dims, .nest = flat, .n_common = group->n_axes, .jam = jam};
}

/* Columns lo .. hi - 1 of the last map for each row of an iteration. */
static void write_shared_columns(NstCtx *ctx, NstWriter *w, NstBlock *block, NstJam jam, NstDim row, NstDim total,
                                 NstDim lo, NstDim hi)
{
    NstDims *dims = w->module->dims;
    block = nst_writer_loop(w, block, "row", nst_dim_const(dims, 0), total, 1, NST_FOR_SERIAL, 0, &jam.offset);
    jam.first = nst_dim_add(dims, row, jam.offset);
    Rows r = open_member(ctx, w, &jam, jam.group->items.n - 1);
    r.lanes = lanes_of(w->module, r.nest);
    begin_map(&r);
    nst_rows_run(&r, block, lo, hi);
}

/* An iteration of rows one by one, whose last maps run in blocks of columns, so that what all rows read comes from L1. */
static void write_sharing_rows(NstCtx *ctx, NstWriter *w, NstBlock *block, const NstRowPlan *plan, NstJam jam,
                               NstDim row)
{
    NstDims *dims = w->module->dims;
    NstDim zero = nst_dim_const(dims, 0), total = nst_dim_const(dims, plan->total), c;
    NstBlock *body = nst_writer_loop(w, block, "row", zero, total, 1, NST_FOR_SERIAL, 0, &jam.offset);
    jam.first = nst_dim_add(dims, row, jam.offset);
    for (uint32_t k = 0; k + 1 < jam.group->items.n; k++) {
        Rows r = open_member(ctx, w, &jam, k);
        write_nest(&r, body);
    }
    const NstNest *last = nst_flat_nest(w, jam.group->items.at[jam.group->items.n - 1].nest, jam.group->n_axes);
    NstDim width = nst_writer_dim(w, last->axis[jam.group->n_axes].extent);
    NstDim columns = nst_dim_const(dims, plan->columns), whole = nst_dim_floordiv(dims, width, columns);
    body = nst_writer_loop(w, block, "c", zero, whole, 1, NST_FOR_SERIAL, 0, &c);
    NstDim lo = nst_dim_mul(dims, c, columns), done = nst_dim_mul(dims, whole, columns);
    write_shared_columns(ctx, w, body, jam, row, total, lo, nst_dim_add(dims, lo, columns));
    int64_t rest;
    if (!nst_dim_is_const(dims, nst_dim_sub(dims, width, done), &rest) || rest > 0)
        write_shared_columns(ctx, w, block, jam, row, total, done, width);
}

/* Rows first .. last - 1, in iterations of plan->total (which divides their number). */
static NstStatus write_rows(NstCtx *ctx, NstWriter *w, const NstGroup *group, NstDim first, NstDim last,
                            const NstRowPlan *plan)
{
    NstDims *dims = w->module->dims;
    NstDim row;
    NstBlock *block = nst_writer_loop(w, &w->kernel->body, "rows", first, last, plan->total, NST_FOR_PARALLEL, 0, &row);
    NstSym which = nst_dims_new_sym(dims, NST_SYM_INDEX, "row", 0, plan->total - 1);
    open_locals(w, block, group, plan->total);
    nst_writer_bind(w, which, nst_dim_const(dims, 0));
    if (plan->columns) {
        write_sharing_rows(ctx, w, block, plan, (NstJam){.rows = 1, .group = group, .which = which}, row);
        return NST_OK;
    }
    for (uint32_t k = 0; k < group->items.n; k++) {
        for (int64_t offset = 0; offset < plan->total; offset += plan->side_by_side) {
            NstJam jam = {plan->side_by_side, nst_dim_const(dims, offset), nst_dim_add_const(dims, row, offset), group,
                          which};
            Rows r = open_member(ctx, w, &jam, k);
            write_nest(&r, block);
        }
    }
    return NST_OK;
}

/* The group's rows; `fused` is the group before locals were put in place. */
static NstStatus write_common(NstCtx *ctx, NstWriter *w, const NstGroup *group, const NstGroup *fused)
{
    NstDims *dims = w->module->dims;
    NstDim rows = nst_dim_const(dims, 1), zero = nst_dim_const(dims, 0);
    for (uint32_t k = 0; k < group->n_axes; k++)
        rows = nst_dim_mul(dims, rows, nst_writer_dim(w, group->axis[k].extent));
    NstRowPlan plan = nst_rows_plan(w, fused, rows);
    int64_t total = plan.total, known;
    NstDim whole = nst_dim_mul_const(dims, nst_dim_floordiv(dims, rows, nst_dim_const(dims, total)), total);
    NST_TRY(write_rows(ctx, w, group, zero, whole, &plan));
    if (total == 1 || (nst_dim_is_const(dims, nst_dim_sub(dims, rows, whole), &known) && known == 0)) return NST_OK;
    return write_rows(ctx, w, group, whole, rows, &(NstRowPlan){1, 1, 0});
}

static void stream_outputs(NstWriter *w)
{
    for (uint32_t k = 0; k < w->args.n; k++) {
        const NstModuleBuffer *from = nst_module_get(w->module, w->args.at[k]);
        NstBuffer *buffer = nst_kernel_buffer(w->kernel, nst_writer_buffer(w, w->args.at[k]));
        buffer->streamed = from->role == NST_ROLE_OUTPUT && buffer->access == NST_ACCESS_OUT && is_past_caches(w, from);
    }
}

void nst_flatten_rows(NstWriter *w, const NstGroup *group)
{
    for (uint32_t k = 0; k < group->items.n; k++) nst_flat_touched(w, group->items.at[k].nest);
}

NstStatus nst_write_rows(NstCtx *ctx, NstWriter *w, const NstGroup *group, const NstGroup *fused)
{
    NST_CHECK(ctx, nst_is_row_group(group), NST_E_UNSUPPORTED, "group '%s' is no row group", group->name);
    nst_flatten_rows(w, group);
    w->flat = true;
    if (group->n_axes) NST_TRY(write_common(ctx, w, group, fused));
    for (uint32_t k = 0; k < group->items.n && !group->n_axes; k++)
        NST_TRY(nst_write_row_nest(ctx, w, &w->kernel->body, group->items.at[k].nest, 0, true));
    if (!group->n_axes && !w->alone) stream_outputs(w);
    w->flat = false;
    return NST_OK;
}
