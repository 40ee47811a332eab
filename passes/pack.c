/* pack.c: gives the column operand of a contraction a layout that its schedule walks in order.
 *
 * The operand (with its pre-maps: a dequantised, converted, transposed or gathered read) is written by a pack nest into a
 * buffer whose logical axes are those it depends on and whose layout is panels: all of the reduction for `vectors * lanes` columns,
 * then the next columns.  The nest then reads that buffer; everything else is the layout's doing. */
#include "passes/sched.h"

/* Elements of an operand read in place without loss (measurements.md: B unpacked is fine to 256^3). */
enum { IN_PLACE_BYTES = 512 << 10 };
/* Fewer rows than this never repay packing an operand at run time. */
enum { ROWS_TO_REPAY = 48 };
/* Stands for an extent that is not known. */
enum { TYPICAL_EXTENT = 256 };
/* Bytes of a packed panel to prefetch ahead (128 x 768 x 3072 with 1536, 3072, 6144: 137, 144, 143 GFLOP/s, 127 without; 1024^3 the
 * same; Intel with 2 MB of L2, 2026-11.  9 rows of 3600 x 909 with 512, 1024, 2048, 4096: 1665, 1555, 1363, 1238 us, 8 rows of 3072 x
 * 768 with 3072, 4096: 845, 825; Zen 3, 2026-12), and rows of columns that lie apart. */
enum { PREFETCH_BYTES = 3072, PREFETCH_ROWS = 16 };
/* A product of few rows runs as fast as its panel comes, which the processor's own prefetch does better (1 x 3072 x 768: 99.9 % of the
 * read bandwidth, with prefetches 75 to 78 %, Zen 4; 1 x 2112 x 128: 9.3 us, with 9.6 to 11.7, Intel). */
enum { FEW_ROWS = 4 };

typedef struct LoadVisit {
    NstModule *module;
    NstSym col;
    bool inside;     /* all loads are at places that the buffer has, whatever the axes */
    int lanes;       /* of a vector of columns */
    bool contiguous; /* vectors of loads that depend on col are adjacent elements */
    uint32_t loads;
} LoadVisit;

static void visit_load(void *arg, NstExpr e, const NstExprNode *node)
{
    LoadVisit *v = arg;
    (void)e;
    if (node->op != NST_OP_LOAD) return;
    NstDims *dims = v->module->dims;
    const NstBuffer *loaded = &nst_module_get(v->module, (NstBuf){node->ref})->buffer;
    for (uint32_t k = 0; k < node->n_index; k++)
        v->inside &= nst_dim_compare(dims, node->index[k], NST_DIM_GE, nst_dim_const(dims, 0)) == NST_TRUE &&
                     nst_dim_compare(dims, node->index[k], NST_DIM_LT, loaded->shape[k]) == NST_TRUE;
    v->loads++;
    NstDim offset = nst_layout_offset(dims, &loaded->layout, node->index);
    if (!nst_dim_uses(dims, offset, v->col)) return;
    v->contiguous = v->contiguous && nst_layout_adjacent(dims, &loaded->layout, node->index, v->col, v->lanes);
}

/* Axes of the packed buffer: outer axes and further columns that the operand depends on, reductions, the column axis. */
typedef struct PackAxes {
    NstAxis axis[NST_MAX_RANK];
    int n, first_k, n_k;
} PackAxes;

static bool collect_axes(NstModule *module, const NstNest *nest, NstExpr b, int col_axis, uint32_t n_common,
                         PackAxes *axes)
{
    *axes = (PackAxes){0};
    for (uint32_t k = n_common; k < nest->n_axes; k++) {
        if ((int)k == col_axis || !nst_expr_uses_sym(module->exprs, b, nest->axis[k].var)) continue;
        if (axes->n == NST_MAX_RANK) return false;
        axes->axis[axes->n++] = nest->axis[k];
    }
    axes->first_k = axes->n;
    for (uint32_t k = 0; k < nest->n_reduce; k++) {
        if (!nst_expr_uses_sym(module->exprs, b, nest->reduce[k].var)) continue;
        if (axes->n == NST_MAX_RANK) return false;
        axes->axis[axes->n++] = nest->reduce[k];
    }
    axes->n_k = axes->n - axes->first_k;
    if (axes->n == NST_MAX_RANK || !axes->n_k) return false;
    axes->axis[axes->n++] = nest->axis[col_axis];
    return true;
}

/* [outer axes][columns / width][reductions][columns mod width, in a pitch of whole vectors] */
static NstLayout panel_layout(NstModule *module, NstDtype dtype, const PackAxes *axes, int64_t width, int64_t pitch)
{
    NstDims *dims = module->dims;
    int col = axes->n - 1;
    uint32_t n = 0;
    NstLayoutPart *part = NST_NEW_ARRAY(module->arena, NstLayoutPart, axes->n + 1);
    NstDim *extent = NST_NEW_ARRAY(module->arena, NstDim, axes->n + 1);
    for (int k = 0; k < axes->first_k; k++) {
        part[n] = (NstLayoutPart){.axis = (uint8_t)k, .divisor = 1};
        extent[n++] = axes->axis[k].extent;
    }
    part[n] = (NstLayoutPart){.axis = (uint8_t)col, .divisor = width};
    extent[n++] = nst_dim_ceildiv(dims, axes->axis[col].extent, nst_dim_const(dims, width));
    for (int k = axes->first_k; k < col; k++) {
        part[n] = (NstLayoutPart){.axis = (uint8_t)k, .divisor = 1};
        extent[n++] = axes->axis[k].extent;
    }
    part[n] = (NstLayoutPart){.axis = (uint8_t)col, .divisor = 1, .modulus = width};
    extent[n++] = nst_dim_const(dims, pitch);
    NstDim stride = nst_dim_const(dims, 1);
    for (uint32_t k = n; k-- > 0;) {
        part[k].stride = stride;
        stride = nst_dim_mul(dims, stride, extent[k]);
    }
    return (NstLayout){.n_parts = n,
                       .parts = part,
                       .offset = nst_dim_const(dims, 0),
                       .elements = stride,
                       .bits = 8 * nst_dtype_info(dtype)->bytes};
}

/* The nest that fills the packed buffer; its first n_common axes are those of `nest`. */
static NstNest *pack_nest(NstModule *module, const NstNest *nest, uint32_t n_common, const PackAxes *axes, NstExpr b,
                          NstBuf packed)
{
    NstNest *pack = nst_nest_new(module, nst_format(module->arena, "%s_pack", nest->name), nest->origin);
    pack->n_axes = n_common + (uint32_t)axes->n;
    pack->axis = NST_NEW_ARRAY(module->arena, NstAxis, pack->n_axes);
    for (uint32_t k = 0; k < n_common; k++) pack->axis[k] = nest->axis[k];
    for (int k = 0; k < axes->n; k++) pack->axis[n_common + (uint32_t)k] = axes->axis[k];
    pack->out = NST_NEW(module->arena, NstNestOut);
    pack->n_outs = 1;
    NstDim *index = NST_NEW_ARRAY(module->arena, NstDim, axes->n);
    for (int k = 0; k < axes->n; k++) index[k] = nst_dim_sym(module->dims, axes->axis[k].var);
    pack->out[0] = (NstNestOut){.buffer = packed, .n_index = (uint32_t)axes->n, .index = index, .value = b};
    return nst_nest_clone(module, pack);
}

/* The nest that writes zeros where the last panel has no columns; NULL where there are always as many as it has.  Reads of whole
 * vectors pass there, and what memory held before may be denormal, which takes Intel's multipliers 100 times as long
 * (503 x 452 x 527: 1.6 ms, then 8). */
static NstNest *rest_nest(NstModule *module, const NstNest *pack, NstDim columns, NstDim whole)
{
    NstDims *dims = module->dims;
    NstDim extent = nst_dim_sub(dims, whole, columns);
    if (nst_dim_same(extent, nst_dim_const(dims, 0))) return NULL;
    NstNest *rest = nst_nest_clone(module, pack);
    rest->name = nst_format(module->arena, "%s_rest", pack->name);
    NstNestOut *out = &rest->out[0];
    NstAxis *column = &rest->axis[rest->n_axes - 1];
    column->extent = extent;
    out->index[out->n_index - 1] = nst_dim_add(dims, columns, nst_dim_sym(dims, column->var));
    out->value = nst_expr_const(module->exprs, nst_expr(module->exprs, out->value)->type, (NstScalar){0});
    return rest;
}

void nst_module_insert_group(NstModule *module, NstGroup *group, uint32_t at)
{
    nst_vec_push(module->arena, &module->groups, group);
    for (uint32_t k = module->groups.n - 1; k > at; k--) module->groups.at[k] = module->groups.at[k - 1];
    module->groups.at[at] = group;
}

static int64_t row_count(const NstModule *module, const NstNest *nest, const NstContraction *c)
{
    int64_t rows = 1, value;
    for (uint32_t k = 0; k < c->n_rows; k++)
        rows *= nst_dim_is_const(module->dims, nest->axis[c->rows[k]].extent, &value) ? value : TYPICAL_EXTENT;
    return rows;
}

/* Tiles of rows that pass by a block of columns; 0 where their number is not known. */
static int64_t passes_of(const NstModule *module, const NstNest *nest, const NstContraction *c,
                         const NstTileSchedule *s)
{
    int64_t passes = 1, extent;
    for (uint32_t k = 0; k < c->n_rows; k++) {
        if (!nst_dim_is_const(module->dims, nest->axis[c->rows[k]].extent, &extent)) return 0;
        passes *= c->rows[k] == s->row_axis ? (extent + s->rows - 1) / s->rows : extent;
    }
    return passes;
}

/* True if packing pays; *axes are then those of the packed buffer. */
static bool worth_packing(NstModule *module, const NstNest *nest, const NstTileSchedule *s, uint32_t n_common,
                          const NstContraction *c, PackAxes *axes, bool *constant)
{
    NstSym col = nest->axis[s->col_axis].var;
    if (!nst_expr_uses_sym(module->exprs, c->b, col)) return false;
    LoadVisit visit = {.module = module, .col = col, .inside = true, .lanes = s->lanes, .contiguous = true};
    nst_expr_visit(module->exprs, c->b, visit_load, &visit);
    /* Under a condition (the padding of a window) a place may lie outside; the copy of it would not ask. */
    if (nest->guard.i && !visit.inside) return false;
    if (!visit.loads || !collect_axes(module, nest, c->b, s->col_axis, n_common, axes)) return false;
    *constant = nst_module_is_ahead(module, c->b, axes->axis, (uint32_t)axes->n);
    if (*constant) return true;
    int64_t bytes = nst_dtype_info(nst_expr(module->exprs, c->b)->type)->bytes, value;
    for (int k = axes->first_k; k < axes->n; k++)
        bytes *= nst_dim_is_const(module->dims, axes->axis[k].extent, &value) ? value : TYPICAL_EXTENT;
    return row_count(module, nest, c) >= ROWS_TO_REPAY && !(visit.contiguous && bytes <= IN_PLACE_BYTES);
}

/* Bytes of a buffer; TYPICAL where its size is not known. */
static int64_t bytes_of(NstModule *module, NstBuf packed)
{
    const NstBuffer *buffer = &nst_module_get(module, packed)->buffer;
    int64_t bytes = nst_dtype_info(buffer->dtype)->bytes, value;
    for (int d = 0; d < buffer->rank; d++)
        bytes *= nst_dim_is_const(module->dims, buffer->shape[d], &value) ? value : TYPICAL_EXTENT;
    return bytes;
}

/* The schedule reads columns of a packed buffer: the next steps are asked for ahead, and the next block where the whole does not stay
 * in L2 (128 x 768 x 3072: 149 -> 161 GFLOP/s) and all of it is asked for by the tiles that pass by (with fewer, or an unknown
 * number, the block at hand comes later: open sizes 1.17 times the time of exact ones, without 1.05; Intel, 2026-11).  What stays in
 * L1 is not asked for (32 groups of 3 channels: 147 us, 137 without; Zen 3, 2026-12). */
static void use_packed(NstModule *module, const NstNest *nest, const NstContraction *c, NstBuf packed,
                       NstTileSchedule *s)
{
    /* The other operand is not padded: where it has columns too, no vector may pass their end. */
    s->padded = !nst_expr_uses_sym(module->exprs, c->a, nest->axis[s->col_axis].var);
    s->columns_of = packed;
    bool few = row_count(module, nest, c) <= FEW_ROWS, blocked = s->k_block || s->k_outer || s->col_block;
    const NstDtypeInfo *type = nst_dtype_info(nst_module_get(module, packed)->buffer.dtype);
    int64_t row_bytes = (int64_t)s->vectors * s->lanes * type->bytes;
    bool in_l1 = bytes_of(module, packed) <= module->target->l1_bytes / 2;
    s->prefetch = few || in_l1 ? 0 : (int)(PREFETCH_BYTES / row_bytes);
    s->next_block = blocked && passes_of(module, nest, c, s) >= s->vectors &&
                    bytes_of(module, packed) > module->target->l2_bytes / 2;
}

/* The schedule reads columns where they lie: the next steps are asked for ahead where L1 does not hold the columns of a tile until the
 * next rows come (345 x 301 x 407 101 -> 119 GFLOP/s, 512 x 256 x 512 140 -> 148, 256^3 151 with and without; Intel, 2026-11). */
static void use_in_place(NstModule *module, const NstNest *nest, const NstContraction *c, NstTileSchedule *s)
{
    const NstExprNode *load = nst_expr(module->exprs, c->b);
    NstSym col = nest->axis[s->col_axis].var;
    if (load->op != NST_OP_LOAD || row_count(module, nest, c) <= FEW_ROWS ||
        nst_expr_uses_sym(module->exprs, c->a, col))
        return;
    LoadVisit visit = {.module = module, .col = col, .lanes = s->lanes, .contiguous = true};
    visit_load(&visit, c->b, load);
    int64_t steps = 1, extent;
    for (uint32_t k = 0; k < nest->n_reduce; k++)
        steps *= nst_dim_is_const(module->dims, nest->reduce[k].extent, &extent) ? extent : TYPICAL_EXTENT;
    if (s->k_block && s->k_block < steps) steps = s->k_block;
    if (!visit.contiguous || steps * nst_tile_width(s) * nst_dtype_info(load->type)->bytes <= module->target->l1_bytes)
        return;
    s->columns_of = (NstBuf){load->ref};
    s->prefetch = PREFETCH_ROWS;
}

/* True if the operand was packed ahead in panels that the schedule's vectors divide; *done also if they do not: packing it
 * again each run would not pay. */
static bool is_packed(NstModule *module, const NstContraction *c, const NstTileSchedule *s, NstBuf *packed, bool *done)
{
    const NstExprNode *node = nst_expr(module->exprs, c->b);
    if (node->op != NST_OP_LOAD) return false;
    packed->i = node->ref;
    const NstModuleBuffer *buffer = nst_module_get(module, *packed);
    const NstLayout *layout = &buffer->buffer.layout;
    *done = buffer->role == NST_ROLE_PACKED && layout->n_parts > 0 && layout->parts[layout->n_parts - 1].modulus > 0;
    return *done && layout->parts[layout->n_parts - 1].modulus % nst_tile_width(s) == 0;
}

NstPacked nst_pack_columns(NstModule *module, NstNest *nest, uint32_t n_common, NstTileSchedule *s)
{
    NstPacked result = {0};
    NstContraction c;
    PackAxes axes;
    NstBuf packed;
    bool done = false;
    if (!nst_nest_contraction_by(module, nest, (uint32_t)s->col_axis, &c)) return result;
    if (is_packed(module, &c, s, &packed, &done)) use_packed(module, nest, &c, packed, s);
    if (done) return result;
    if (!worth_packing(module, nest, s, n_common, &c, &axes, &result.constant)) {
        use_in_place(module, nest, &c, s);
        return result;
    }
    NstDim shape[NST_MAX_RANK];
    NstDim *index = NST_NEW_ARRAY(module->arena, NstDim, axes.n);
    for (int k = 0; k < axes.n; k++) {
        shape[k] = axes.axis[k].extent;
        index[k] = nst_dim_sym(module->dims, axes.axis[k].var);
    }
    NstDtype dtype = nst_expr(module->exprs, c.b)->type;
    NstDim columns = shape[axes.n - 1], width = nst_dim_const(module->dims, nst_tile_width(s));
    NstDim whole = nst_dim_mul(module->dims, nst_dim_ceildiv(module->dims, columns, width), width);
    if (!result.constant) shape[axes.n - 1] = whole;
    result.buffer = nst_module_buffer(module, nst_format(module->arena, "%s_packed", nest->name), dtype, axes.n, shape,
                                      result.constant ? NST_ROLE_PACKED : NST_ROLE_TEMP);
    NstModuleBuffer *buffer = nst_module_get(module, result.buffer);
    buffer->buffer.layout = panel_layout(module, dtype, &axes, nst_tile_width(s), (int64_t)s->vectors * s->lanes);
    buffer->buffer.constant = result.constant;
    result.nest = pack_nest(module, nest, n_common, &axes, c.b, result.buffer);
    if (!result.constant) result.rest = rest_nest(module, result.nest, columns, whole);
    nst_nest_replace_factor(module, nest, c.b,
                            nst_expr_load(module->exprs, dtype, result.buffer, index, (uint32_t)axes.n));
    use_packed(module, nest, &c, result.buffer, s);
    return result;
}
