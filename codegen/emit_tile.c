/* emit_tile.c: register tiles: REG buffers as SSA values.
 *
 * The last axis of a tile is cut into chunks as wide as its widest access in a vector loop; a chunk is one value.  Other
 * accesses shuffle, insert or extract.  Where control flow meets, phis are made for the values that differ. */
#include "codegen/emit.h"

/* --- what a kernel does with its tiles ------------------------------------------------------------------------ */

typedef struct Scan {
    NstEmit *e;
    NstSym var;
    uint32_t width, count; /* of the vector loop: lanes, and how many of them can be active */
} Scan;

static void note_access(const Scan *scan, NstBuf buffer, const NstDim *index, uint32_t n_index)
{
    const NstBuffer *info = nst_kernel_buffer(scan->e->kernel, buffer);
    if (info->space != NST_SPACE_REG || n_index == 0) return;
    uint32_t *lanes = &scan->e->tile_lanes[buffer.i];
    if (scan->width > *lanes && nst_dim_uses(scan->e->dims, index[n_index - 1], scan->var)) *lanes = scan->width;
}

static void note_read(const Scan *scan, const NstExprNode *node)
{
    NstEmit *e = scan->e;
    bool by_lane = scan->width > 1 && node->n_index > 0 &&
                   nst_dim_same(node->index[node->n_index - 1], nst_dim_sym(e->dims, scan->var));
    uint32_t reads = by_lane ? scan->count : UINT32_MAX;
    if (reads > e->tile_read[node->ref]) e->tile_read[node->ref] = reads;
}

static void note_load(void *arg, NstExpr expr, const NstExprNode *node)
{
    (void)expr;
    if (node->op != NST_OP_LOAD) return;
    note_access(arg, (NstBuf){node->ref}, node->index, node->n_index);
    note_read(arg, node);
}

static void scan_expr(Scan *scan, NstExpr expr)
{
    if (expr.i) nst_expr_visit(scan->e->exprs, nst_emit_import_expr(scan->e, expr), note_load, scan);
}

static void scan_block(Scan *scan, const NstBlock *block);

/* The most lanes of a vector loop that are active, the first ones. */
static uint32_t active_lanes(NstEmit *e, const NstFor *loop)
{
    int64_t lo, hi, zero;
    NstDim begin = nst_emit_import_dim(e, loop->begin), end = nst_emit_import_dim(e, loop->end);
    nst_dim_bounds(e->dims, end, &lo, &hi);
    bool plain = loop->step == 1 && nst_dim_is_const(e->dims, begin, &zero) && zero == 0;
    return plain && hi >= 0 && hi < loop->width ? (uint32_t)hi : (uint32_t)loop->width;
}

static void scan_store(Scan *scan, const NstStore *store)
{
    NstDim index[NST_MAX_RANK];
    for (uint32_t k = 0; k < store->n_index; k++) index[k] = nst_emit_import_dim(scan->e, store->index[k]);
    for (uint32_t k = 0; k < store->n_targets; k++) {
        if (scan->width > 1) note_access(scan, store->target[k].buffer, index, store->n_index);
        scan_expr(scan, store->target[k].value);
    }
}

static void scan_stmt(Scan *scan, const NstStmt *stmt)
{
    Scan outer = *scan;
    switch (stmt->kind) {
    case NST_STMT_FOR:
        if (stmt->u.loop.kind == NST_FOR_VECTOR) {
            scan->var = nst_emit_import_sym(scan->e, stmt->u.loop.var);
            scan->width = (uint32_t)stmt->u.loop.width;
            scan->count = active_lanes(scan->e, &stmt->u.loop);
        }
        scan_block(scan, &stmt->u.loop.body);
        *scan = outer;
        break;
    case NST_STMT_WHILE: scan_block(scan, &stmt->u.repeat.body); break;
    case NST_STMT_IF:
        scan_expr(scan, stmt->u.branch.condition);
        scan_block(scan, &stmt->u.branch.then);
        scan_block(scan, &stmt->u.branch.otherwise);
        break;
    case NST_STMT_LET: scan_expr(scan, stmt->u.let.value); break;
    case NST_STMT_INDEX: scan_expr(scan, stmt->u.index.value); break;
    case NST_STMT_STORE: scan_store(scan, &stmt->u.store); break;
    case NST_STMT_ASSERT: scan_expr(scan, stmt->u.check.condition); break;
    default: break;
    }
}

static void scan_block(Scan *scan, const NstBlock *block)
{
    for (uint32_t k = 0; k < block->n; k++) scan_stmt(scan, block->at[k]);
}

void nst_emit_tiles_scan(NstEmit *e)
{
    Scan scan = {e, {0}, 1, 1};
    for (uint32_t k = 0; k < e->kernel->buffers.n; k++) e->tile_lanes[k] = 1;
    scan_block(&scan, &e->kernel->body);
}

void nst_emit_tiles_stored(NstEmit *e, const NstBlock *block, bool *stored)
{
    for (uint32_t k = 0; k < block->n; k++) {
        const NstStmt *stmt = block->at[k];
        switch (stmt->kind) {
        case NST_STMT_FOR: nst_emit_tiles_stored(e, &stmt->u.loop.body, stored); break;
        case NST_STMT_WHILE: nst_emit_tiles_stored(e, &stmt->u.repeat.body, stored); break;
        case NST_STMT_IF:
            nst_emit_tiles_stored(e, &stmt->u.branch.then, stored);
            nst_emit_tiles_stored(e, &stmt->u.branch.otherwise, stored);
            break;
        case NST_STMT_STORE:
            for (uint32_t t = 0; t < stmt->u.store.n_targets; t++) stored[stmt->u.store.target[t].buffer.i] = true;
            break;
        default: break;
        }
    }
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

void nst_emit_tile_open(NstEmit *e, NstBuf buffer)
{
    const NstBuffer *info = nst_kernel_buffer(e->kernel, buffer);
    NstTile *tile = &e->tile[buffer.i];
    int64_t last = 1, rows = 1, *extents = NST_NEW_ARRAY(e->arena, int64_t, info->rank), extent;
    for (int axis = 0; axis < info->rank; axis++) {
        if (!nst_dim_is_const(e->dims, nst_emit_dim(e, info->shape[axis]), &extent) || extent < 0 || extent > 1024 ||
            rows * extent > 4096) {
            nst_emit_fail(e, NST_E_VERIFY, "register tile '%s' of kernel '%s' has no small constant shape", info->name,
                          e->kernel->name);
            return;
        }
        extents[axis] = extent;
        if (axis + 1 == info->rank)
            last = extent;
        else
            rows *= extent;
    }
    *tile = (NstTile){.live = true, .extent = extents, .lanes = e->tile_lanes[buffer.i]};
    tile->chunks = (last + tile->lanes - 1) / tile->lanes;
    tile->type = nst_llvm_lanes(nst_llvm_type(e->llvm, info->dtype), tile->lanes);
    tile->n = (uint32_t)(rows * tile->chunks);
    tile->value = NST_NEW_ARRAY(e->arena, LLVMValueRef, tile->n);
    /* Zero, not poison: an unset lane that a masked operation computes with must stay harmless. */
    for (uint32_t k = 0; k < tile->n; k++) tile->value[k] = LLVMConstNull(tile->type);
}

void nst_emit_tile_close(NstEmit *e, NstBuf buffer)
{
    e->tile[buffer.i].live = false;
}

/* --- access --------------------------------------------------------------------------------------------------------- */

typedef struct Place {
    NstTile *tile;
    int64_t row, at; /* element of lane 0 on the last axis */
    bool by_lane;
    bool turned; /* the lane is on the axis before the last: lane k reads row + k */
} Place;

static bool bad_index(NstEmit *e, NstBuf buffer, const char *why)
{
    nst_emit_fail(e, NST_E_VERIFY, "register tile '%s' of kernel '%s': %s", nst_kernel_buffer(e->kernel, buffer)->name,
                  e->kernel->name, why);
    return false;
}

static bool find_place(NstEmit *e, NstBuf buffer, const NstDim *index, Place *place)
{
    const NstBuffer *info = nst_kernel_buffer(e->kernel, buffer);
    *place = (Place){.tile = &e->tile[buffer.i]};
    if (!place->tile->live) return bad_index(e, buffer, "used where it is not allocated");
    for (int axis = 0; axis < info->rank; axis++) {
        int64_t at, extent = place->tile->extent[axis], stride = 1;
        NstDim coef, constant = index[axis];
        bool is_last = axis + 1 == info->rank, varies = nst_emit_varies(e, index[axis]);
        if (varies && axis + 2 == info->rank && !nst_emit_varies(e, index[axis + 1])) place->turned = true;
        if (varies && (is_last || place->turned)) {
            place->by_lane = true;
            if (!nst_dim_linear(e->dims, index[axis], e->lane.sym, &coef, &constant) ||
                !nst_dim_is_const(e->dims, coef, &stride) || stride != 1)
                return bad_index(e, buffer, "the lane must be added to a constant on the last axis, or the one before");
        }
        if (!nst_dim_is_const(e->dims, constant, &at)) return bad_index(e, buffer, "index is not constant");
        if (at < 0 || at >= extent) return bad_index(e, buffer, "index out of range");
        if (is_last)
            place->at = at;
        else
            place->row = place->row * extent + at;
    }
    return true;
}

static LLVMValueRef *chunk_at(const Place *place, int64_t chunk)
{
    return &place->tile->value[place->row * place->tile->chunks + chunk];
}

static LLVMValueRef lane_number(NstEmit *e, int64_t lane)
{
    return nst_llvm_int(e->llvm->i32, lane);
}

/* Lanes at..at + n - 1 of two neighbouring chunks (or of one). */
static LLVMValueRef read_lanes(NstEmit *e, const Place *place, uint32_t n)
{
    NstTile *tile = place->tile;
    int64_t chunk = place->at / tile->lanes, lane = place->at % tile->lanes;
    LLVMValueRef first = *chunk_at(place, chunk);
    if (lane == 0 && n == tile->lanes) return first;
    bool crosses = lane + n > tile->lanes && chunk + 1 < tile->chunks;
    LLVMValueRef second = crosses ? *chunk_at(place, chunk + 1) : first;
    LLVMValueRef mask[256];
    for (uint32_t k = 0; k < n; k++) {
        int64_t from = lane + k;
        mask[k] = lane_number(e, from < 2 * (int64_t)tile->lanes && (from < tile->lanes || crosses) ? from : 0);
    }
    if (tile->lanes == 1) return nst_llvm_splat(e->llvm, first, n);
    return LLVMBuildShuffleVector(e->llvm->builder, first, second, LLVMConstVector(mask, n), "");
}

/* Element `at` of rows row .. row + n - 1.  The whole square is transposed at the first such read and kept until something
 * is written or control flow meets. */
static LLVMValueRef read_turned(NstEmit *e, const Place *place, uint32_t n)
{
    NstTile *tile = place->tile;
    int64_t chunk = place->at / tile->lanes;
    if (tile->lanes != n || (n & (n - 1)) || (place->row + n) * tile->chunks > tile->n) {
        nst_emit_fail(e, NST_E_UNSUPPORTED, "kernel '%s': transposed read of %u rows of a register tile of %u lanes",
                      e->kernel->name, n, tile->lanes);
        return LLVMConstNull(tile->type);
    }
    bool known =
        tile->turned && tile->turned_edges == e->edges && tile->turned_row == place->row && tile->turned_chunk == chunk;
    if (!known) {
        tile->turned = NST_NEW_ARRAY(e->arena, LLVMValueRef, n);
        for (uint32_t k = 0; k < n; k++) tile->turned[k] = tile->value[(place->row + k) * tile->chunks + chunk];
        nst_emit_transpose(e, tile->turned, n);
        tile->turned_row = place->row;
        tile->turned_chunk = chunk;
        tile->turned_edges = e->edges;
    }
    return tile->turned[place->at % tile->lanes];
}

NstLanes nst_emit_tile_read(NstEmit *e, NstBuf buffer, const NstDim *index, NstDtype type)
{
    Place place;
    if (type != nst_kernel_buffer(e->kernel, buffer)->dtype) bad_index(e, buffer, "read with another type");
    if (e->status != NST_OK || !find_place(e, buffer, index, &place))
        return (NstLanes){LLVMConstNull(nst_llvm_type(e->llvm, type)), 1};
    NstTile *tile = place.tile;
    if (place.turned) return (NstLanes){read_turned(e, &place, e->lane.n), e->lane.n};
    if (place.by_lane) return (NstLanes){read_lanes(e, &place, e->lane.n), e->lane.n};
    LLVMValueRef chunk = *chunk_at(&place, place.at / tile->lanes);
    if (tile->lanes == 1) return (NstLanes){chunk, 1};
    return (NstLanes){LLVMBuildExtractElement(e->llvm->builder, chunk, lane_number(e, place.at % tile->lanes), ""), 1};
}

/* Blends n lanes of a value into the chunk, from its lane `lane` on; lanes of the value before `skip` are left out. */
static LLVMValueRef blend(NstEmit *e, LLVMValueRef chunk, uint32_t lanes, LLVMValueRef value, int64_t shift)
{
    LLVMValueRef widen[256], mix[256];
    uint32_t n = nst_llvm_lane_count(value);
    for (uint32_t k = 0; k < lanes; k++) {
        int64_t from = (int64_t)k - shift;
        bool taken = from >= 0 && from < n;
        widen[k] = taken ? lane_number(e, from) : LLVMGetPoison(e->llvm->i32);
        mix[k] = lane_number(e, taken ? (int64_t)lanes + k : k);
    }
    LLVMValueRef wide = LLVMBuildShuffleVector(e->llvm->builder, value, LLVMGetPoison(LLVMTypeOf(value)),
                                               LLVMConstVector(widen, lanes), "");
    return LLVMBuildShuffleVector(e->llvm->builder, chunk, wide, LLVMConstVector(mix, lanes), "");
}

static void write_lanes(NstEmit *e, const Place *place, LLVMValueRef value)
{
    NstTile *tile = place->tile;
    int64_t chunk = place->at / tile->lanes, lane = place->at % tile->lanes;
    if (lane == 0 && nst_llvm_lane_count(value) == tile->lanes) {
        *chunk_at(place, chunk) = value;
        return;
    }
    LLVMValueRef *first = chunk_at(place, chunk);
    *first = blend(e, *first, tile->lanes, value, lane);
    if (lane + nst_llvm_lane_count(value) <= tile->lanes || chunk + 1 >= tile->chunks) return;
    LLVMValueRef *second = chunk_at(place, chunk + 1);
    *second = blend(e, *second, tile->lanes, value, lane - tile->lanes);
}

void nst_emit_tile_write(NstEmit *e, NstBuf buffer, const NstDim *index, NstLanes value)
{
    Place place;
    if (e->status != NST_OK || !find_place(e, buffer, index, &place)) return;
    NstTile *tile = place.tile;
    tile->turned = NULL;
    if (place.turned) {
        bad_index(e, buffer, "a store has the lane on the last axis");
        return;
    }
    if (place.by_lane) {
        value = nst_emit_spread(e, value, e->lane.n);
        bool unread = place.at == 0 && e->lane.first >= e->tile_read[buffer.i]; /* the lanes that are not active */
        if (e->lane.mask && !unread)
            value.v = nst_llvm_select(e->llvm, e->lane.mask, value.v, read_lanes(e, &place, e->lane.n));
        write_lanes(e, &place, value.v);
        return;
    }
    value.v = nst_emit_last_lane(e, value);
    LLVMValueRef *chunk = chunk_at(&place, place.at / tile->lanes);
    if (tile->lanes == 1)
        *chunk = value.v;
    else
        *chunk = LLVMBuildInsertElement(e->llvm->builder, *chunk, value.v, lane_number(e, place.at % tile->lanes), "");
}

/* --- control flow ----------------------------------------------------------------------------------------------------- */

LLVMValueRef **nst_emit_tiles_save(NstEmit *e)
{
    LLVMValueRef **saved = NST_NEW_ARRAY(e->arena, LLVMValueRef *, e->kernel->buffers.n);
    for (uint32_t k = 0; k < e->kernel->buffers.n; k++)
        if (e->tile[k].live) saved[k] = nst_copy(e->arena, e->tile[k].value, e->tile[k].n * sizeof(LLVMValueRef));
    return saved;
}

void nst_emit_tiles_restore(NstEmit *e, LLVMValueRef **saved)
{
    for (uint32_t k = 0; k < e->kernel->buffers.n; k++)
        if (saved[k]) memcpy(e->tile[k].value, saved[k], e->tile[k].n * sizeof(LLVMValueRef));
}

void nst_emit_tiles_merge(NstEmit *e, uint32_t n, const LLVMBasicBlockRef *from, LLVMValueRef ***values)
{
    LLVMValueRef *incoming = NST_NEW_ARRAY(e->arena, LLVMValueRef, n);
    for (uint32_t k = 0; k < e->kernel->buffers.n; k++) {
        NstTile *tile = &e->tile[k];
        if (!tile->live || !values[0][k]) continue;
        for (uint32_t i = 0; i < tile->n; i++) {
            bool differ = false;
            for (uint32_t p = 0; p < n; p++) {
                incoming[p] = values[p][k][i];
                differ = differ || incoming[p] != incoming[0];
            }
            tile->value[i] = incoming[0];
            if (!differ) continue;
            tile->value[i] = LLVMBuildPhi(e->llvm->builder, tile->type, "");
            LLVMAddIncoming(tile->value[i], incoming, (LLVMBasicBlockRef *)from, n);
        }
    }
}
