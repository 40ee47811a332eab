/* strip.c: see strip.h.
 *
 * In: a group over common axes (..., q).  Out: loops over the others, tiles of q; in one tile, for each member a register-tiled
 * nest.  The rows of a tile lie side by side in every local, a vector of them (q innermost, in panels), so that row reductions need
 * no horizontal step, a strip is the packed operand of the next contraction, and a first contraction's q operand is packed once a
 * tile.  A serial group among the members (online.c) is a loop in the tile; what it adds up from one iteration to the next lies row by
 * row, as the results it becomes. */
#include "passes/strip.h"

/* Vectors of the strip axis in one tile (measurements.md: 64 queries at 16 lanes; 32 is equal). */
enum { STRIP_VECTORS = 4 };
/* A strip takes at most this share of L2, so that the operands that stream by do not push it out. */
enum { STRIP_SHARE = 2 };

typedef struct Strip {
    NstCtx *ctx;
    NstModule *module;
    const NstGroup *group; /* whose members and locals are looked at: the whole one, or a serial one inside of it */
    NstWriter *w;
    const NstAxis *common; /* axes of the whole group, the strip axis last */
    uint32_t n_common;     /* those before the strip axis */
    uint32_t n_serial;     /* after it, of a serial group: bound by its loop */
    bool has_loop;         /* a serial group is among the members */
    bool apart;        /* rows share no operand of a contraction in that group: one at a time, vectors run along them */
    int64_t tile;      /* elements of the strip axis */
    NstSym tile_index; /* stands for the number of the tile in member nests */
    NstBuf *local;     /* by module buffer: the strip that replaces a local of the group */
    NstBuf *in_place;  /* by module buffer: the local whose strip it takes over; none = one of its own */
    uint32_t *n_serial_of; /* by module buffer: indices that a serial group's local leaves out */
    uint32_t n_locals;
} Strip;

/* True if the members have the form; *contraction: one of them is a contraction, *loop: a serial group is among them. */
static bool members_have_form(NstModule *module, const NstGroup *group, bool *contraction, bool *loop)
{
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstNest *nest = group->items.at[k].nest;
        const NstGroup *inner = group->items.at[k].group;
        if (inner) {
            if (!inner->serial || inner->n_axes != 1 || group->serial) return false;
            *loop = true;
            if (!members_have_form(module, inner, contraction, loop)) return false;
            continue;
        }
        if (nest->n_lets || nest->store_guard.i || nest->check.i) return false;
        *contraction |= nst_nest_is_product(module, nest);
    }
    return true;
}

bool nst_is_strip_group(NstModule *module, const NstGroup *group)
{
    if (!group->n_axes || group->serial) return false;
    bool contraction = false, loop = false;
    if (!members_have_form(module, group, &contraction, &loop)) return false;
    int64_t lo, hi;
    nst_dim_bounds(module->dims, group->axis[group->n_axes - 1].extent, &lo, &hi);
    return contraction && (loop || hi >= nst_target_lanes(module->target, NST_F32));
}

/* --- weights ------------------------------------------------------------------------------------------------- */

typedef struct Weight {
    NstModule *module;
    bool constant;
    uint32_t loads;
} Weight;

static void visit_weight(void *arg, NstExpr e, const NstExprNode *node)
{
    Weight *w = arg;
    (void)e;
    if (node->op != NST_OP_LOAD) return;
    w->loads++;
    NstBufferRole role = nst_module_get(w->module, (NstBuf){node->ref})->role;
    w->constant = w->constant && (role == NST_ROLE_CONST || role == NST_ROLE_PACKED);
}

/* True if the column operand is made of constants and is the same for every iteration of the common axes. */
static bool has_constant_columns(NstModule *module, const NstGroup *group, const NstNest *nest, int col_axis)
{
    NstContraction c;
    if (col_axis < (int)group->n_axes || !nst_nest_contraction_by(module, nest, (uint32_t)col_axis, &c)) return false;
    Weight w = {.module = module, .constant = true};
    nst_expr_visit(module->exprs, c.b, visit_weight, &w);
    for (uint32_t k = 0; k < group->n_axes; k++)
        w.constant = w.constant && !nst_expr_uses_sym(module->exprs, c.b, nest->axis[k].var);
    return w.constant && w.loads;
}

static bool writes_local(const NstGroup *group, const NstNest *nest)
{
    for (uint32_t o = 0; o < nest->n_outs; o++)
        for (uint32_t k = 0; k < group->locals.n; k++)
            if (group->locals.at[k].i == nest->out[o].buffer.i) return true;
    return false;
}

void nst_prepare_strip(NstModule *module, NstGroup *group)
{
    for (uint32_t k = 0; k < group->items.n; k++) {
        NstNest *nest = group->items.at[k].nest;
        NstTileSchedule schedule;
        NstContraction contraction;
        if (!nest || nest->lanes > 1 || writes_local(group, nest) ||
            !nst_nest_contraction(module, nest, &contraction) ||
            !nst_tile_schedule_choose(module, nest, group->n_axes - 1, false, &schedule) ||
            !has_constant_columns(module, group, nest, schedule.col_axis))
            continue;
        NstPacked packed = nst_pack_columns(module, nest, group->n_axes, &schedule);
        if (!packed.nest) continue;
        packed.nest->axis += group->n_axes; /* it depends on none of the common axes */
        packed.nest->n_axes -= group->n_axes;
        nst_vec_push(module->arena, &module->prepack, nst_group_new(module, packed.nest));
    }
}

/* --- strips in place ----------------------------------------------------------------------------------------- */

typedef struct SamePlace {
    NstModule *module;
    const NstNestOut *out;
    NstBuf buffer;
    uint32_t loads;
    bool same; /* every load of the buffer is at the place that is stored */
} SamePlace;

static void visit_same_place(void *arg, NstExpr e, const NstExprNode *node)
{
    SamePlace *v = arg;
    (void)e;
    if (node->op != NST_OP_LOAD || node->ref != v->buffer.i) return;
    v->loads++;
    for (uint32_t k = 0; k < node->n_index; k++) v->same = v->same && nst_dim_same(node->index[k], v->out->index[k]);
}

static bool read_after(Strip *s, uint32_t member, NstBuf buffer)
{
    for (uint32_t k = member + 1; k < s->group->items.n; k++) {
        NstBufList reads = {0};
        if (!s->group->items.at[k].nest) return true; /* an inner group's are not looked at */
        nst_nest_reads(s->module, s->group->items.at[k].nest, &reads);
        for (uint32_t r = 0; r < reads.n; r++)
            if (reads.at[r].i == buffer.i) return true;
    }
    return false;
}

/* The local that member's map may overwrite: read only there, at the very place stored, and never again. */
static NstBuf overwritten(Strip *s, uint32_t member)
{
    const NstNest *nest = s->group->items.at[member].nest;
    if (nest->n_states || nest->n_outs != 1) return (NstBuf){0};
    const NstNestOut *out = &nest->out[0];
    for (uint32_t k = 0; k < s->group->locals.n; k++) {
        NstBuf local = s->group->locals.at[k];
        const NstBuffer *from = &nst_module_get(s->module, local)->buffer,
                        *to = &nst_module_get(s->module, out->buffer)->buffer;
        if (local.i == out->buffer.i || from->rank != to->rank || from->dtype != to->dtype) continue;
        SamePlace v = {s->module, out, local, 0, true};
        nst_expr_visit(s->module->exprs, out->value, visit_same_place, &v);
        if (v.loads && v.same && !read_after(s, member, local)) return local;
    }
    return (NstBuf){0};
}

static void find_in_place(Strip *s)
{
    for (uint32_t k = 0; k < s->group->items.n; k++) {
        const NstNest *nest = s->group->items.at[k].nest;
        if (!nest) continue;
        NstBuf taken = overwritten(s, k);
        if (taken.i && nst_group_is_local(s->group, nest->out[0].buffer)) s->in_place[nest->out[0].buffer.i] = taken;
    }
}

/* True if a contraction reads an operand that is the same for all rows: their vector is worth a load of it. */
static bool shares_operand(const Strip *s)
{
    const NstExprs *exprs = s->module->exprs;
    for (uint32_t k = 0; k < s->group->items.n; k++) {
        const NstNest *nest = s->group->items.at[k].nest;
        NstContraction c;
        if (!nst_nest_contraction(s->module, nest, &c)) continue;
        NstSym row = nest->axis[s->n_common].var;
        if (!nst_expr_uses_sym(exprs, c.a, row) || !nst_expr_uses_sym(exprs, c.b, row)) return true;
    }
    return false;
}

/* The strips of a serial group: its members and locals are looked at; what is by buffer is shared. */
static Strip inside(const Strip *s, const NstGroup *serial)
{
    Strip inner = *s;
    inner.group = serial;
    inner.n_serial = serial->n_axes;
    return inner;
}

/* Elements of all strips for one row of the tile; unknown extents count as typical. */
static int64_t elements_a_row(Strip *s)
{
    int64_t total = 0, value;
    for (uint32_t k = 0; k < s->group->items.n; k++) {
        if (!s->group->items.at[k].group) continue;
        Strip inner = inside(s, s->group->items.at[k].group);
        total += elements_a_row(&inner);
    }
    for (uint32_t k = 0; k < s->group->locals.n; k++) {
        if (s->in_place[s->group->locals.at[k].i].i) continue;
        const NstBuffer *buffer = &nst_module_get(s->module, s->group->locals.at[k])->buffer;
        int64_t elements = 1;
        for (int d = (int)(s->n_common + 1 + s->n_serial); d < buffer->rank; d++)
            elements *= nst_dim_is_const(s->module->dims, buffer->shape[d], &value) ? value : 256;
        total += elements;
    }
    return total;
}

static void choose_tile_rows(Strip *s)
{
    if (s->apart) {
        s->tile = 1;
        return;
    }
    int64_t lanes = nst_target_lanes(s->module->target, NST_F32), vectors = STRIP_VECTORS;
    while (vectors > 1 && vectors * lanes * elements_a_row(s) * 4 > s->module->target->l2_bytes / STRIP_SHARE)
        vectors /= 2;
    s->tile = vectors * lanes;
}

/* --- members over a tile ------------------------------------------------------------------------------------- */

/* The index of a local's strip for an index of the local: that of the row in the tile, then what is neither common nor a serial
 * group's. */
static NstDim *strip_index(NstModule *module, const NstDim *index, uint32_t n, uint32_t n_common, uint32_t n_serial,
                           NstDim row)
{
    NstDim *strip = NST_NEW_ARRAY(module->arena, NstDim, n);
    strip[0] = row;
    for (uint32_t k = n_common + 1 + n_serial; k < n; k++) strip[k - n_common - n_serial] = index[k];
    return strip;
}

typedef struct Summing {
    const Strip *s;
    const NstNest *nest;
    bool found; /* a load of a local that moves with a reduced axis */
} Summing;

static void visit_summing(void *arg, NstExpr e, const NstExprNode *node)
{
    Summing *v = arg;
    (void)e;
    if (node->op != NST_OP_LOAD || !nst_group_is_local(v->s->group, (NstBuf){node->ref})) return;
    for (uint32_t d = 0; d < node->n_index; d++)
        for (uint32_t r = 0; r < v->nest->n_reduce; r++)
            v->found |= nst_dim_uses(v->s->module->dims, node->index[d], v->nest->reduce[r].var);
}

/* True if the local is what a loop adds up, or a sum along another strip that it adds: both become a result row by row. */
static bool lies_by_rows(const Strip *s, NstBuf local)
{
    if (!s->has_loop || !s->n_serial || s->apart) return s->has_loop;
    for (uint32_t k = 0; k < s->group->items.n; k++) {
        const NstNest *nest = s->group->items.at[k].nest;
        Summing v = {s, nest, false};
        if (nest->out[0].buffer.i != local.i) continue;
        for (uint32_t i = 0; i < nest->n_states; i++)
            nst_expr_visit(s->module->exprs, nest->state[i].step, visit_summing, &v);
        if (v.found) return true;
    }
    return false;
}

/* The strip of a local: [q in tile / lanes][rest][q mod lanes], so that a vector of rows is a run of lines, whatever the tile (rest
 * outermost: rows of 256 bytes, of which a tile of the next contraction reads half of a line in four).  What a loop adds up lies row by
 * row. */
static void make_strip(Strip *s, NstBuf local)
{
    NstModule *module = s->module;
    s->n_serial_of[local.i] = s->n_serial;
    if (s->in_place[local.i].i) {
        s->local[local.i] = s->local[s->in_place[local.i].i];
        return;
    }
    const NstBuffer from = nst_module_get(module, local)->buffer;
    int rank = from.rank - (int)(s->n_common + s->n_serial), order[NST_MAX_RANK];
    const NstDim *shape = strip_index(module, from.shape, (uint32_t)from.rank, s->n_common, s->n_serial,
                                      nst_dim_const(module->dims, s->tile));
    for (int k = 0; k < rank; k++) order[k] = k;
    NstBuf strip = nst_module_buffer(module, from.name, from.dtype, rank, shape, NST_ROLE_TEMP);
    NstBuffer *buffer = &nst_module_get(module, strip)->buffer;
    if (rank > 1 && !lies_by_rows(s, local))
        buffer->layout = nst_layout_blocked(module->arena, module->dims, from.dtype, rank, buffer->shape, order, 0,
                                            nst_target_lanes(module->target, NST_F32));
    s->local[local.i] = strip;
}

typedef struct Redirect {
    Strip *s;
    NstDim first; /* of the tile */
} Redirect;

/* The place in its strip of a place of a local; gives the number of indices. */
static uint32_t redirect_index(const Redirect *r, NstBuf local, const NstDim *index, uint32_t n, NstDim **strip)
{
    const Strip *s = r->s;
    uint32_t n_serial = s->n_serial_of[local.i];
    NstDim row = nst_dim_sub(s->module->dims, index[s->n_common], r->first);
    *strip = strip_index(s->module, index, n, s->n_common, n_serial, row);
    return n - s->n_common - n_serial;
}

static NstExpr redirect_node(void *arg, NstExprs *exprs, NstExpr e)
{
    const Redirect *r = arg;
    const NstExprNode node = *nst_expr(exprs, e);
    if (node.op != NST_OP_LOAD || node.ref >= r->s->n_locals || !r->s->local[node.ref].i) return (NstExpr){0};
    NstDim *index = NULL;
    uint32_t n = redirect_index(r, (NstBuf){node.ref}, node.index, node.n_index, &index);
    return nst_expr_load(exprs, node.type, r->s->local[node.ref], index, n);
}

static NstExpr redirect(Redirect *r, NstExpr e)
{
    return e.i ? nst_expr_rewrite(r->s->module->exprs, e, redirect_node, r) : e;
}

/* The nest within the loops of its serial group, whose axes stand right after the strip axis. */
static void bind_serial(Strip *s, NstNest *nest)
{
    NstModule *module = s->module;
    NstNestSubst subst;
    uint32_t at = s->n_common + 1;
    nst_subst_begin(&subst, module);
    for (uint32_t k = 0; k < s->n_serial; k++)
        nst_subst_set(&subst, nest->axis[at + k].var, nst_dim_sym(module->dims, s->group->axis[k].var));
    nst_subst_end(&subst, nest);
    for (uint32_t k = at; k + s->n_serial < nest->n_axes; k++) nest->axis[k] = nest->axis[k + s->n_serial];
    nest->n_axes -= s->n_serial;
}

/* The member with its strip axis running over one tile of `extent` rows and its locals replaced by strips. */
static NstNest *member_of_tile(Strip *s, const NstNest *member, NstDim extent)
{
    NstModule *module = s->module;
    NstDims *dims = module->dims;
    NstNest *nest = nst_nest_clone(module, member);
    if (s->n_serial) bind_serial(s, nest);
    NstDim first = nst_dim_mul_const(dims, nst_dim_sym(dims, s->tile_index), s->tile);
    NstAxis whole = nest->axis[s->n_common], part = nst_nest_axis(module, "q", extent);
    NstNestSubst subst;
    nst_subst_begin(&subst, module);
    nst_subst_set(&subst, whole.var, nst_dim_add(dims, first, nst_dim_sym(dims, part.var)));
    nst_subst_end(&subst, nest);
    nest->axis[s->n_common] = part;
    Redirect r = {s, first};
    nest->guard = redirect(&r, nest->guard);
    for (uint32_t k = 0; k < nest->n_states; k++) nest->state[k].step = redirect(&r, nest->state[k].step);
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        NstNestOut *out = &nest->out[k];
        out->value = redirect(&r, out->value);
        if (out->buffer.i >= s->n_locals || !s->local[out->buffer.i].i) continue;
        out->n_index = redirect_index(&r, out->buffer, out->index, out->n_index, &out->index);
        out->buffer = s->local[out->buffer.i];
    }
    return nest;
}

static void bind_common(Strip *s, const NstNest *nest)
{
    for (uint32_t k = 0; k < s->n_common; k++)
        nst_writer_bind(s->w, nest->axis[k].var, nst_writer_dim(s->w, nst_dim_sym(s->module->dims, s->common[k].var)));
}

static void add_scratch(Strip *s, NstBlock *block, NstBuf module_buffer)
{
    const NstBuffer *from = &nst_module_get(s->module, module_buffer)->buffer;
    NstBuf to = nst_kernel_local(s->w->kernel, from->name, from->dtype, NST_SPACE_SCRATCH, from->rank, from->shape);
    nst_kernel_buffer(s->w->kernel, to)->layout = from->layout;
    nst_writer_set_buffer(s->w, module_buffer, to, 0);
    nst_block_add(s->w->kernel, block, nst_stmt_alloc(s->w->kernel, to));
}

/* A pack nest: its last two axes in blocks of lanes x lanes, which code generation turns in registers where the operand is
 * adjacent along the other axis.  False where they do not divide into blocks. */
static bool write_pack(Strip *s, NstBlock *block, NstNest *nest)
{
    NstDims *dims = s->module->dims;
    int64_t lanes = nst_target_lanes(s->module->target, NST_F32), rows, columns, panel;
    if (nest->n_states || nest->n_lets || nest->check.i || nest->guard.i || nest->store_guard.i ||
        nest->n_axes != s->n_common + 2)
        return false;
    NstAxis row = nest->axis[s->n_common], column = nest->axis[s->n_common + 1];
    if (!nst_dim_is_const(dims, row.extent, &rows) || !nst_dim_is_const(dims, column.extent, &columns)) return false;
    panel = columns % (2 * lanes) == 0 ? 2 * lanes : lanes;
    if (rows % lanes || columns % panel || rows == 0 || columns == 0) return false;
    NstDim zero = nst_dim_const(dims, 0), p, b, h, u, l;
    bind_common(s, nest);
    block = nst_writer_loop(s->w, block, "p", zero, nst_dim_const(dims, columns / panel), 1, NST_FOR_SERIAL, 0, &p);
    block = nst_writer_loop(s->w, block, "b", zero, nst_dim_const(dims, rows / lanes), 1, NST_FOR_SERIAL, 0, &b);
    block = nst_writer_loop(s->w, block, "h", zero, nst_dim_const(dims, panel / lanes), 1, NST_FOR_UNROLL, 0, &h);
    block = nst_writer_loop(s->w, block, "u", zero, nst_dim_const(dims, lanes), 1, NST_FOR_UNROLL, 0, &u);
    block = nst_writer_loop(s->w, block, "l", zero, nst_dim_const(dims, lanes), 1, NST_FOR_VECTOR, lanes, &l);
    nst_writer_bind(s->w, row.var, nst_dim_add(dims, nst_dim_mul_const(dims, b, lanes), u));
    NstDim at = nst_dim_add(dims, nst_dim_mul_const(dims, p, panel), nst_dim_mul_const(dims, h, lanes));
    nst_writer_bind(s->w, column.var, nst_dim_add(dims, at, l));
    nst_writer_stores(s->w, block, nest);
    return true;
}

/* --- formulas apart from their contraction ---------------------------------------------------------------------- */

/* 32-bit elements of a line: what lies along the axis beside the rows is read by whole lines. */
enum { LINE_ELEMENTS = NST_LINE_BYTES / 4 };

/* Where it costs less, the formula of a contraction that reads something along its tiles' rows becomes a map over the strip, which
 * then holds the sums; NULL: the tile applies it. */
static NstNest *formula_apart(Strip *s, NstNest *nest, const NstTileSchedule *schedule)
{
    NstModule *module = s->module;
    NstNestOut *out = &nest->out[0];
    if (nest->n_axes != s->n_common + 2 || schedule->col_axis != (int)s->n_common || nest->n_states != 1 ||
        nest->n_outs != 1 || out->buffer.i < s->n_locals)
        return NULL;
    NstDtype type = nest->state[0].dtype;
    if (nst_dtype_info(type)->bytes != 4 || nst_module_get(module, out->buffer)->buffer.dtype != type ||
        !nst_tile_formula_apart(module, nest, s->n_common))
        return NULL;
    NstNest *map = nst_nest_clone(module, nest);
    NstNestOut *mapped = &map->out[0];
    NstExpr sum = nst_expr_load(module->exprs, type, mapped->buffer, mapped->index, mapped->n_index);
    mapped->value = nst_expr_subst_args(module->exprs, mapped->value, &sum, 1);
    map->n_reduce = map->n_states = 0;
    map->guard = (NstExpr){0};
    out->value = nst_expr_arg(module->exprs, type, 0);
    return map;
}

/* The map for rows first .. first + rows - 1, one vector, at place `at` of the other axis. */
static void write_vector(Strip *s, NstBlock *block, const NstNest *map, NstDim first, NstDim rows, NstDim at)
{
    NstDims *dims = s->module->dims;
    NstDim l;
    block = nst_writer_loop(s->w, block, "l", nst_dim_const(dims, 0), rows, 1, NST_FOR_VECTOR,
                            nst_target_lanes(s->module->target, NST_F32), &l);
    nst_writer_bind(s->w, map->axis[s->n_common].var, nst_dim_add(dims, first, l));
    nst_writer_bind(s->w, map->axis[s->n_common + 1].var, at);
    nst_writer_stores(s->w, block, map);
}

/* A map over the strip: lines of a vector of rows, which code generation turns in registers, then what is left of both. */
static void write_turned(Strip *s, NstBlock *block, const NstNest *map)
{
    NstDims *dims = s->module->dims;
    NstDim zero = nst_dim_const(dims, 0), line = nst_dim_const(dims, LINE_ELEMENTS), v, b, u;
    NstDim lanes = nst_dim_const(dims, nst_target_lanes(s->module->target, NST_F32));
    bind_common(s, map);
    NstDim rows = nst_writer_dim(s->w, map->axis[s->n_common].extent);
    NstDim places = nst_writer_dim(s->w, map->axis[s->n_common + 1].extent);
    NstDim vectors = nst_dim_floordiv(dims, rows, lanes), lines = nst_dim_floordiv(dims, places, line);
    NstBlock *body = nst_writer_loop(s->w, block, "v", zero, vectors, 1, NST_FOR_SERIAL, 0, &v);
    NstDim first = nst_dim_mul(dims, v, lanes);
    NstBlock *in_line = nst_writer_loop(s->w, body, "b", zero, lines, 1, NST_FOR_SERIAL, 0, &b);
    in_line = nst_writer_loop(s->w, in_line, "u", zero, line, 1, NST_FOR_UNROLL, 0, &u);
    write_vector(s, in_line, map, first, lanes, nst_dim_add(dims, nst_dim_mul(dims, b, line), u));
    body = nst_writer_loop(s->w, body, "u", nst_dim_mul(dims, lines, line), places, 1, NST_FOR_SERIAL, 0, &u);
    write_vector(s, body, map, first, lanes, u);
    body = nst_writer_loop(s->w, block, "v", vectors, nst_dim_ceildiv(dims, rows, lanes), 1, NST_FOR_SERIAL, 0, &v);
    body = nst_writer_loop(s->w, body, "u", zero, places, 1, NST_FOR_SERIAL, 0, &u);
    first = nst_dim_mul(dims, v, lanes);
    write_vector(s, body, map, first, nst_dim_min(dims, lanes, nst_dim_sub(dims, rows, first)), u);
}

static NstStatus write_member(Strip *s, NstBlock *block, NstNest *nest)
{
    NstTileSchedule schedule;
    if (!nst_tile_schedule_choose(s->module, nest, s->n_common, false, &schedule)) {
        bind_common(s, nest);
        nst_writer_plain(s->w, block, nest, s->n_common);
        return NST_OK;
    }
    NstNest *map = formula_apart(s, nest, &schedule);
    if (map) {
        NST_TRY(write_member(s, block, nest));
        write_turned(s, block, map);
        return NST_OK;
    }
    if (nest->lanes > 1) {
        bind_common(s, nest);
        return nst_tile_lanes(s->ctx, s->w, block, nest, s->n_common, &schedule);
    }
    NstPacked packed = nst_pack_columns(s->module, nest, s->n_common, &schedule);
    if (packed.nest) {
        add_scratch(s, block, packed.buffer);
        if (!write_pack(s, block, packed.nest)) NST_TRY(write_member(s, block, packed.nest));
        if (packed.rest) NST_TRY(write_member(s, block, packed.rest));
    }
    bind_common(s, nest);
    return nst_tile_nest(s->ctx, s->w, block, nest, s->n_common, &schedule);
}

static void open_strips(Strip *s, NstBlock *block)
{
    for (uint32_t k = 0; k < s->group->locals.n; k++)
        if (!s->in_place[s->group->locals.at[k].i].i) {
            make_strip(s, s->group->locals.at[k]);
            add_scratch(s, block, s->local[s->group->locals.at[k].i]);
        }
    for (uint32_t k = 0; k < s->group->items.n; k++) { /* in order: what takes over comes after what is taken over */
        const NstNest *nest = s->group->items.at[k].nest;
        if (nest && nst_group_is_local(s->group, nest->out[0].buffer) && s->in_place[nest->out[0].buffer.i].i)
            make_strip(s, nest->out[0].buffer);
    }
}

/* The members, each over the tile's `extent` rows. */
static NstStatus write_members(Strip *s, NstBlock *block, NstDim extent)
{
    open_strips(s, block);
    for (uint32_t k = 0; k < s->group->items.n; k++) {
        const NstGroupItem *item = &s->group->items.at[k];
        if (item->nest) {
            NST_TRY(write_member(s, block, member_of_tile(s, item->nest, extent)));
            continue;
        }
        Strip inner = inside(s, item->group);
        NstBlock *body = nst_writer_axis_loop(s->w, block, item->group->axis[0], NST_FOR_SERIAL);
        NST_TRY(write_members(&inner, body, extent));
    }
    return NST_OK;
}

/* The members over tiles lo .. hi - 1, each of `extent` rows. */
static NstStatus write_tiles(Strip *s, NstBlock *block, NstDim lo, NstDim hi, NstDim extent, NstForKind kind)
{
    NstDim tile;
    block = nst_writer_loop(s->w, block, "qt", lo, hi, 1, kind, 0, &tile);
    nst_writer_bind(s->w, s->tile_index, tile);
    return write_members(s, block, extent);
}

/* Loops over the common axes before the strip axis, the longest first and parallel; *parallel tells if there was one. */
static NstBlock *common_loops(Strip *s, NstBlock *block, bool *parallel)
{
    NstDims *dims = s->module->dims;
    int longest = -1;
    int64_t best = 1, lo, hi;
    for (uint32_t k = 0; k < s->n_common; k++) {
        nst_dim_bounds(dims, s->group->axis[k].extent, &lo, &hi);
        if (hi <= best) continue;
        best = hi;
        longest = (int)k;
    }
    *parallel = longest >= 0;
    if (longest >= 0) block = nst_writer_axis_loop(s->w, block, s->group->axis[longest], NST_FOR_PARALLEL);
    for (uint32_t k = 0; k < s->n_common; k++)
        if ((int)k != longest) block = nst_writer_axis_loop(s->w, block, s->group->axis[k], NST_FOR_SERIAL);
    return block;
}

NstStatus nst_write_strip(NstCtx *ctx, NstWriter *w, const NstGroup *group)
{
    NstModule *module = w->module;
    NST_CHECK(ctx, nst_is_strip_group(module, group), NST_E_UNSUPPORTED, "group '%s' is no strip group", group->name);
    NstDims *dims = module->dims;
    Strip s = {
        .ctx = ctx, .w = w, .module = module, .group = group, .common = group->axis, .n_common = group->n_axes - 1};
    s.n_locals = module->buffers.n;
    s.local = NST_NEW_ARRAY(module->arena, NstBuf, s.n_locals);
    s.in_place = NST_NEW_ARRAY(module->arena, NstBuf, s.n_locals);
    s.n_serial_of = NST_NEW_ARRAY(module->arena, uint32_t, s.n_locals);
    find_in_place(&s);
    for (uint32_t k = 0; k < group->items.n; k++) {
        if (!group->items.at[k].group) continue;
        Strip inner = inside(&s, group->items.at[k].group);
        s.has_loop = true;
        s.apart = !shares_operand(&inner);
        find_in_place(&inner);
    }
    choose_tile_rows(&s);
    NstDim rows = group->axis[s.n_common].extent, tile = nst_dim_const(dims, s.tile), zero = nst_dim_const(dims, 0);
    s.tile_index = nst_nest_axis(module, "qt", nst_dim_ceildiv(dims, rows, tile)).var;
    bool parallel;
    NstBlock *block = common_loops(&s, &w->kernel->body, &parallel);
    NstForKind kind = parallel ? NST_FOR_SERIAL : NST_FOR_PARALLEL;
    NstDim full = nst_dim_floordiv(dims, rows, tile), rest = nst_dim_mod(dims, rows, tile);
    int64_t known;
    if (!nst_dim_is_const(dims, full, &known) || known > 0) NST_TRY(write_tiles(&s, block, zero, full, tile, kind));
    if (!nst_dim_is_const(dims, rest, &known) || known > 0) {
        NstDim some = nst_dim_min(dims, rest, nst_dim_const(dims, 1));
        NST_TRY(write_tiles(&s, block, full, nst_dim_add(dims, full, some), rest,
                            parallel ? NST_FOR_SERIAL : NST_FOR_PARALLEL));
    }
    return NST_OK;
}
