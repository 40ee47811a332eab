/* strip.c: see strip.h.
 *
 * In: a group over common axes (..., q).  Out: loops over the others, tiles of q; in one tile, for each member a register-tiled
 * nest.  The rows of a tile lie side by side in every local (q innermost), so that row reductions need no horizontal step, a
 * strip is the packed operand of the next contraction, and a first contraction's q operand is packed once a tile. */
#include "passes/strip.h"

/* Vectors of the strip axis in one tile (measurements.md: 64 queries at 16 lanes; 32 is equal). */
enum { STRIP_VECTORS = 4 };

typedef struct Strip {
    NstCtx *ctx;
    NstModule *module;
    const NstGroup *group;
    NstWriter w;
    uint32_t n_common; /* common axes before the strip axis */
    int64_t tile;      /* elements of the strip axis */
    NstSym tile_index; /* stands for the number of the tile in member nests */
    NstBuf *local;     /* by module buffer: the strip that replaces a local of the group */
    uint32_t n_locals;
} Strip;

bool nst_is_strip_group(NstModule *module, const NstGroup *group)
{
    if (!group->n_axes || group->serial) return false;
    bool contraction = false;
    NstContraction c;
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstNest *nest = group->items.at[k].nest;
        if (!nest || nest->n_lets || nest->store_guard.i || nest->check.i) return false;
        contraction |= nst_nest_contraction(module, nest, &c);
    }
    int64_t lo, hi;
    nst_dim_bounds(module->dims, group->axis[group->n_axes - 1].extent, &lo, &hi);
    return contraction && hi >= nst_target_lanes(module->target, NST_F32);
}

/* --- members over a tile ------------------------------------------------------------------------------------- */

/* The strip of a local: [q in tile][rest], q innermost in memory. */
static void make_strip(Strip *s, NstBuf local)
{
    NstModule *module = s->module;
    const NstBuffer from = nst_module_get(module, local)->buffer;
    int drop = (int)s->n_common, rank = from.rank - drop;
    NstDim shape[NST_MAX_RANK];
    int order[NST_MAX_RANK];
    for (int k = 0; k < rank; k++) {
        shape[k] = k == 0 ? nst_dim_const(module->dims, s->tile) : from.shape[drop + k];
        order[k] = k + 1 < rank ? k + 1 : 0;
    }
    NstBuf strip = nst_module_buffer(module, from.name, from.dtype, rank, shape, NST_ROLE_TEMP);
    NstBuffer *buffer = &nst_module_get(module, strip)->buffer;
    buffer->layout = nst_layout_permuted(module->arena, module->dims, from.dtype, rank, buffer->shape, order);
    s->local[local.i] = strip;
}

static NstDim *strip_index(Strip *s, const NstDim *index, uint32_t n, NstDim first)
{
    NstDim *strip = NST_NEW_ARRAY(s->module->arena, NstDim, n);
    for (uint32_t k = s->n_common; k < n; k++) strip[k - s->n_common] = index[k];
    strip[0] = nst_dim_sub(s->module->dims, index[s->n_common], first);
    return strip;
}

typedef struct Redirect {
    Strip *s;
    NstDim first; /* of the tile */
} Redirect;

static NstExpr redirect_node(void *arg, NstExprs *exprs, NstExpr e)
{
    const Redirect *r = arg;
    const NstExprNode node = *nst_expr(exprs, e);
    if (node.op != NST_OP_LOAD || node.ref >= r->s->n_locals || !r->s->local[node.ref].i) return (NstExpr){0};
    return nst_expr_load(exprs, node.type, r->s->local[node.ref], strip_index(r->s, node.index, node.n_index, r->first),
                         node.n_index - r->s->n_common);
}

static NstExpr redirect(Redirect *r, NstExpr e)
{
    return e.i ? nst_expr_rewrite(r->s->module->exprs, e, redirect_node, r) : e;
}

/* The member with its strip axis running over one tile of `extent` rows and its locals replaced by strips. */
static NstNest *member_of_tile(Strip *s, const NstNest *member, NstDim extent)
{
    NstModule *module = s->module;
    NstDims *dims = module->dims;
    NstNest *nest = nst_nest_clone(module, member);
    NstDim first = nst_dim_mul_const(dims, nst_dim_sym(dims, s->tile_index), s->tile);
    NstAxis whole = nest->axis[s->n_common], part = nst_nest_axis(module, "q", extent);
    NstDim *value = NST_NEW_ARRAY(module->arena, NstDim, nst_dims_sym_count(dims) + 1);
    value[whole.var.i] = nst_dim_add(dims, first, nst_dim_sym(dims, part.var));
    nst_nest_subst(module, nest, value, nst_dims_sym_count(dims) + 1);
    nest->axis[s->n_common] = part;
    Redirect r = {s, first};
    nest->guard = redirect(&r, nest->guard);
    for (uint32_t k = 0; k < nest->n_states; k++) nest->state[k].step = redirect(&r, nest->state[k].step);
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        NstNestOut *out = &nest->out[k];
        out->value = redirect(&r, out->value);
        if (out->buffer.i >= s->n_locals || !s->local[out->buffer.i].i) continue;
        out->index = strip_index(s, out->index, out->n_index, first);
        out->n_index -= s->n_common;
        out->buffer = s->local[out->buffer.i];
    }
    return nest;
}

static void bind_common(Strip *s, const NstNest *nest)
{
    for (uint32_t k = 0; k < s->n_common; k++)
        nst_writer_bind(&s->w, nest->axis[k].var,
                        nst_writer_dim(&s->w, nst_dim_sym(s->module->dims, s->group->axis[k].var)));
}

static void add_scratch(Strip *s, NstBlock *block, NstBuf module_buffer)
{
    const NstBuffer *from = &nst_module_get(s->module, module_buffer)->buffer;
    NstBuf to = nst_kernel_local(s->w.kernel, from->name, from->dtype, NST_SPACE_SCRATCH, from->rank, from->shape);
    nst_kernel_buffer(s->w.kernel, to)->layout = from->layout;
    while (s->w.kernel_buffer.n <= module_buffer.i) {
        nst_vec_push(s->module->arena, &s->w.kernel_buffer, (NstBuf){0});
        nst_vec_push(s->module->arena, &s->w.dropped, 0);
    }
    s->w.kernel_buffer.at[module_buffer.i] = to;
    nst_block_add(s->w.kernel, block, nst_stmt_alloc(s->w.kernel, to));
}

static NstStatus write_member(Strip *s, NstBlock *block, NstNest *nest)
{
    NstTileSchedule schedule;
    if (!nst_tile_schedule_choose(s->module, nest, s->n_common, false, &schedule)) {
        bind_common(s, nest);
        nst_writer_plain(&s->w, block, nest, s->n_common);
        return NST_OK;
    }
    if (nest->lanes > 1) {
        bind_common(s, nest);
        return nst_tile_lanes(s->ctx, &s->w, block, nest, s->n_common, &schedule);
    }
    NstPacked packed = nst_pack_columns(s->module, nest, s->n_common, &schedule);
    if (packed.nest) {
        add_scratch(s, block, packed.buffer);
        NST_TRY(write_member(s, block, packed.nest));
    }
    bind_common(s, nest);
    return nst_tile_nest(s->ctx, &s->w, block, nest, s->n_common, &schedule);
}

/* The members over tiles lo .. hi - 1, each of `extent` rows. */
static NstStatus write_tiles(Strip *s, NstBlock *block, NstDim lo, NstDim hi, NstDim extent, NstForKind kind)
{
    NstDim tile;
    block = nst_writer_loop(&s->w, block, "qt", lo, hi, 1, kind, 0, &tile);
    nst_writer_bind(&s->w, s->tile_index, tile);
    for (uint32_t k = 0; k < s->group->locals.n; k++) {
        make_strip(s, s->group->locals.at[k]);
        add_scratch(s, block, s->local[s->group->locals.at[k].i]);
    }
    for (uint32_t k = 0; k < s->group->items.n; k++)
        NST_TRY(write_member(s, block, member_of_tile(s, s->group->items.at[k].nest, extent)));
    return NST_OK;
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
    if (longest >= 0) block = nst_writer_axis_loop(&s->w, block, s->group->axis[longest], NST_FOR_PARALLEL);
    for (uint32_t k = 0; k < s->n_common; k++)
        if ((int)k != longest) block = nst_writer_axis_loop(&s->w, block, s->group->axis[k], NST_FOR_SERIAL);
    return block;
}

NstStatus nst_schedule_strip(NstCtx *ctx, NstModule *module, const NstGroup *group, NstKernel **kernel,
                             NstBuf **arg_buffer)
{
    NST_CHECK(ctx, nst_is_strip_group(module, group), NST_E_UNSUPPORTED, "group '%s' is no strip group", group->name);
    NstDims *dims = module->dims;
    Strip s = {.ctx = ctx, .module = module, .group = group, .n_common = group->n_axes - 1};
    s.tile = (int64_t)STRIP_VECTORS * nst_target_lanes(module->target, NST_F32);
    NstDim rows = group->axis[s.n_common].extent, tile = nst_dim_const(dims, s.tile), zero = nst_dim_const(dims, 0);
    s.tile_index = nst_nest_axis(module, "qt", nst_dim_ceildiv(dims, rows, tile)).var;
    s.n_locals = module->buffers.n;
    s.local = NST_NEW_ARRAY(module->arena, NstBuf, s.n_locals);
    nst_writer_init(&s.w, module, group);
    bool parallel;
    NstBlock *block = common_loops(&s, &s.w.kernel->body, &parallel);
    NstForKind kind = parallel ? NST_FOR_SERIAL : NST_FOR_PARALLEL;
    NstDim full = nst_dim_floordiv(dims, rows, tile), rest = nst_dim_mod(dims, rows, tile);
    int64_t known;
    if (!nst_dim_is_const(dims, full, &known) || known > 0) NST_TRY(write_tiles(&s, block, zero, full, tile, kind));
    if (!nst_dim_is_const(dims, rest, &known) || known > 0) {
        NstDim some = nst_dim_min(dims, rest, nst_dim_const(dims, 1));
        NST_TRY(write_tiles(&s, block, full, nst_dim_add(dims, full, some), rest,
                            parallel ? NST_FOR_SERIAL : NST_FOR_PARALLEL));
    }
    nst_writer_finish(&s.w, kernel, arg_buffer);
    return NST_OK;
}
