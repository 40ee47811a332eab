/* emit_memory.c: loads from and stores to buffers in memory.
 *
 * Inside a vector loop the byte offset decides: the same in all lanes, one element a lane further (a vector access), or
 * anything else (a gather or scatter).  Masked lanes touch no memory.  Buffers may have any alignment.  Values loaded in
 * a straight run of code are kept and used again until something may have changed them. */
#include "codegen/emit.h"

/* Loads looked back over when a value may be there already; larger runs are unrolled tiles of more operands. */
#define LOADED_LIMIT 128

uint32_t nst_emit_root(NstEmit *e, NstBuf buffer)
{
    const NstBuffer *info = nst_kernel_buffer(e->kernel, buffer);
    if (info->space == NST_SPACE_ARG) return buffer.i;
    return e->kernel->n_args + (info->space == NST_SPACE_SCRATCH ? 1 : 2);
}

static int64_t bytes_of(NstEmit *e, NstBuf buffer)
{
    return nst_dtype_info(nst_kernel_buffer(e->kernel, buffer)->dtype)->bytes;
}

/* Offset in elements from the buffer's own address. */
static NstDim elements_at(NstEmit *e, NstBuf buffer, const NstDim *index)
{
    return nst_emit_replace(e, nst_layout_offset(e->dims, &e->layout[buffer.i], index));
}

NstDim nst_emit_bytes(NstEmit *e, NstBuf buffer, const NstDim *index)
{
    NstDim bytes = nst_dim_mul_const(e->dims, elements_at(e, buffer, index), bytes_of(e, buffer));
    NstDim start = e->memory_at[buffer.i];
    return start.i ? nst_dim_add(e->dims, bytes, start) : bytes;
}

void nst_emit_forget_buffer(NstEmit *e, NstBuf buffer)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < e->loaded.n; k++)
        if (e->loaded.at[k].buffer.i != buffer.i) e->loaded.at[n++] = e->loaded.at[k];
    e->loaded.n = n;
}

/* --- checks ---------------------------------------------------------------------------------------------------- */

void nst_emit_check_bounds(NstEmit *e, NstBuf buffer, const NstDim *index, int64_t width)
{
    if (!e->options->bounds_checks) return;
    LLVMBuilderRef builder = e->llvm->builder;
    NstDim at = elements_at(e, buffer, index), last = nst_dim_add_const(e->dims, at, width - 1);
    NstDim elements = nst_emit_replace(e, e->layout[buffer.i].elements);
    NstDim zero = nst_dim_const(e->dims, 0);
    if (nst_dim_compare(e->dims, at, NST_DIM_GE, zero) == NST_TRUE &&
        nst_dim_compare(e->dims, last, NST_DIM_LT, elements) == NST_TRUE &&
        nst_kernel_buffer(e->kernel, buffer)->space != NST_SPACE_ARG)
        return;
    LLVMValueRef limit = nst_emit_size(e, elements);
    bool varies = nst_emit_varies(e, at);
    LLVMValueRef value = varies ? nst_emit_lane_sizes(e, at) : nst_emit_size(e, at);
    LLVMValueRef end = LLVMBuildAdd(builder, value, nst_llvm_int(LLVMTypeOf(value), width - 1), "");
    LLVMValueRef spread = varies ? nst_llvm_splat(e->llvm, limit, e->lane.n) : limit;
    LLVMValueRef below = LLVMBuildICmp(builder, LLVMIntSLT, value, nst_llvm_int(LLVMTypeOf(value), 0), "");
    LLVMValueRef bad = LLVMBuildOr(builder, below, LLVMBuildICmp(builder, LLVMIntSGE, end, spread, ""), "");
    if (varies && e->lane.mask) bad = LLVMBuildAnd(builder, bad, e->lane.mask, "");
    nst_emit_stop_if(e, bad, NST_E_INDEX, value, limit);
}

/* --- access patterns --------------------------------------------------------------------------------------------- */

typedef enum Pattern { PATTERN_SAME, PATTERN_NEXT, PATTERN_ANY } Pattern;

/* How the byte offset moves from lane to lane; *first is the offset of lane 0 for PATTERN_NEXT. */
static Pattern pattern_of(NstEmit *e, NstDim at, int64_t bytes, NstDim *first)
{
    *first = at;
    if (!nst_emit_varies(e, at)) return PATTERN_SAME;
    NstDim coef, rest;
    int64_t stride;
    if (!nst_dim_linear(e->dims, at, e->lane.sym, &coef, &rest)) return PATTERN_ANY;
    if (nst_emit_varies(e, rest) || !nst_dim_is_const(e->dims, coef, &stride) || stride != bytes) return PATTERN_ANY;
    *first = rest;
    return PATTERN_NEXT;
}

static LLVMValueRef int_arg(NstEmit *e, int64_t value)
{
    return nst_llvm_int(e->llvm->i32, value);
}

static LLVMValueRef load_vector(NstEmit *e, LLVMTypeRef element, LLVMValueRef at)
{
    LLVMTypeRef type = nst_llvm_lanes(element, e->lane.n);
    if (!e->lane.mask) return nst_llvm_load(e->llvm, type, at, 1);
    LLVMTypeRef overload[2] = {type, e->llvm->ptr};
    LLVMValueRef arg[4] = {at, int_arg(e, 1), e->lane.mask, LLVMConstNull(type)};
    return nst_llvm_intrinsic(e->llvm, "llvm.masked.load", overload, 2, arg, 4);
}

/* The part of an offset that all lanes share, and what each lane adds to it.  When the lanes' distances are constants
 * they are in fixed[], else in a vector. */
typedef struct LaneOffsets {
    LLVMValueRef base, moving;
    int64_t fixed[256];
    NstDim first; /* with fixed[]: of lane 0 */
    bool is_fixed;
} LaneOffsets;

static void split_lanes(NstEmit *e, uint32_t root, NstDim at, LaneOffsets *out)
{
    NstDim zero = nst_dim_const(e->dims, 0), first = {0};
    bool has_lanes = nst_dim_uses(e->dims, at, e->lane.sym);
    out->is_fixed = true;
    NST_ASSERT(e->lane.n <= 256);
    for (uint32_t k = 0; k < e->lane.n && out->is_fixed && has_lanes; k++) {
        NstDim here = nst_dim_subst(e->dims, at, e->lane.sym, nst_dim_const(e->dims, k));
        if (k == 0) first = here;
        out->is_fixed =
            nst_dim_is_const(e->dims, nst_dim_sub(e->dims, here, first), &out->fixed[k]) && !nst_emit_varies(e, first);
    }
    if (out->is_fixed && has_lanes) {
        out->base = nst_emit_address(e, root, first);
        out->first = first;
        return;
    }
    out->is_fixed = false;
    out->moving = nst_emit_lane_sizes(e, at);
    out->base = nst_emit_address(e, root, zero);
}

static LLVMValueRef lane_pointer(NstEmit *e, const LaneOffsets *offsets, uint32_t lane)
{
    if (offsets->is_fixed) return nst_llvm_offset_const(e->llvm, offsets->base, offsets->fixed[lane]);
    LLVMValueRef at = LLVMBuildExtractElement(e->llvm->builder, offsets->moving, int_arg(e, lane), "");
    return nst_llvm_offset(e->llvm, offsets->base, at);
}

static LLVMValueRef lane_pointers(NstEmit *e, const LaneOffsets *offsets)
{
    LLVMValueRef moving = offsets->moving;
    if (offsets->is_fixed) {
        LLVMValueRef lane[256];
        for (uint32_t k = 0; k < e->lane.n; k++) lane[k] = nst_llvm_int(e->llvm->i64, offsets->fixed[k]);
        moving = LLVMConstVector(lane, e->lane.n);
    }
    return LLVMBuildGEP2(e->llvm->builder, e->llvm->i8, offsets->base, &moving, 1, "");
}

/* Whether one gather instruction serves: 32- and 64-bit elements from AVX2 on. */
static bool has_gather(NstEmit *e, LLVMTypeRef element)
{
    if (e->target->level < NST_TARGET_AVX2) return false;
    LLVMTypeKind kind = LLVMGetTypeKind(element);
    if (kind == LLVMFloatTypeKind || kind == LLVMDoubleTypeKind) return true;
    return LLVMGetIntTypeWidth(element) == 32 || LLVMGetIntTypeWidth(element) == 64;
}

/* Bytes of an element as it is stored. */
static int64_t element_bytes(LLVMTypeRef element)
{
    LLVMTypeKind kind = LLVMGetTypeKind(element);
    if (kind == LLVMHalfTypeKind || kind == LLVMBFloatTypeKind) return 2;
    if (kind == LLVMFloatTypeKind) return 4;
    return kind == LLVMDoubleTypeKind ? 8 : LLVMGetIntTypeWidth(element) / 8;
}

/* A vector at `place` of which only the elements of `used` are touched. */
static LLVMValueRef load_used(NstEmit *e, LLVMTypeRef type, LLVMValueRef place, LLVMValueRef *used)
{
    LLVMTypeRef overload[2] = {type, e->llvm->ptr};
    LLVMValueRef arg[4] = {place, int_arg(e, 1), LLVMConstVector(used, e->lane.n), LLVMConstNull(type)};
    return nst_llvm_intrinsic(e->llvm, "llvm.masked.load", overload, 2, arg, 4);
}

/* All lanes' elements from one piece of `piece` elements, where the argument is a number of such pieces long and they lie in one of
 * these: it holds what a lane reads, so it lies in the argument too, whatever else it holds; NULL if not.  A whole vector needs no mask:
 * a masked load takes the place of a fma on cores with two ports for vectors, and vectors that straddle lines are loaded twice (32
 * groups of 4 channels, 3x3 at 28 x 28: 70 us masked, 57 whole; Emerald Rapids, 2026-11).  A shorter one is loaded once for all
 * channels of its groups (of 3 channels, AVX2: 171 us -> 150; Zen 3, 2026-12; of 3 to 4, at 29 x 29: 85 -> 63; Zen 5).  Lanes that are not
 * active hold anything. */
static LLVMValueRef load_piece(NstEmit *e, LLVMTypeRef element, uint32_t root, const LaneOffsets *offsets,
                               int64_t piece)
{
    int64_t n = e->lane.n, active = e->lane.first, bytes = element_bytes(element), rest, into;
    if (root > e->kernel->n_args) return NULL;
    NstDim elements = nst_emit_replace(e, e->layout[root].elements);
    NstDim whole = nst_dim_const(e->dims, piece), size = nst_dim_const(e->dims, piece * bytes);
    if (!nst_dim_is_const(e->dims, nst_dim_mod(e->dims, elements, whole), &rest) || rest) return NULL;
    if (!nst_dim_is_const(e->dims, nst_dim_mod(e->dims, offsets->first, size), &into)) return NULL;
    LLVMValueRef from[256], used[256];
    bool in_order = true;
    for (int64_t k = 0; k < active; k++) {
        int64_t at = into + offsets->fixed[k];
        if (at % bytes != 0 || at < 0 || at >= piece * bytes) return NULL;
        in_order &= at == k * bytes;
        from[k] = int_arg(e, at / bytes);
    }
    for (int64_t k = active; k < n; k++) from[k] = in_order ? int_arg(e, k) : from[0];
    for (int64_t k = 0; k < n; k++) used[k] = nst_llvm_int(e->llvm->i1, k < piece);
    LLVMTypeRef type = nst_llvm_lanes(element, e->lane.n);
    LLVMValueRef place = nst_llvm_offset_const(e->llvm, offsets->base, -into);
    LLVMValueRef loaded = piece < n ? load_used(e, type, place, used) : nst_llvm_load(e->llvm, type, place, 1);
    return LLVMBuildShuffleVector(e->llvm->builder, loaded, LLVMGetPoison(type), LLVMConstVector(from, e->lane.n), "");
}

/* Bytes of the groups of channels that the lanes read one of each: so many places at equal distances; 0: they do not. */
static int64_t span_of_groups(const NstEmit *e, const LaneOffsets *offsets)
{
    int64_t groups = 1, step = 0;
    for (uint32_t k = 1; k < e->lane.first; k++) {
        int64_t moved = offsets->fixed[k] - offsets->fixed[k - 1];
        if (moved == 0) continue;
        if (moved < 0 || (step && moved != step)) return 0;
        step = moved;
        groups++;
    }
    return groups * step;
}

/* All lanes' elements by one or two masked loads and a shuffle, where they lie within two vectors; NULL if not.  Lanes that are not
 * active read what lane 0 reads. */
static LLVMValueRef load_near(NstEmit *e, LLVMTypeRef element, uint32_t root, const LaneOffsets *offsets)
{
    uint32_t n = e->lane.n, active = e->lane.first;
    int64_t first = offsets->fixed[0], bytes = element_bytes(element);
    if (!offsets->is_fixed || !active || !has_gather(e, element)) return NULL;
    LLVMValueRef piece = load_piece(e, element, root, offsets, n);
    if (!piece && active < n) piece = load_piece(e, element, root, offsets, active);
    if (!piece && e->target->level < NST_TARGET_AVX512) { /* with mask registers three loads cost no more (24 us, 24) */
        int64_t groups = span_of_groups(e, offsets) / bytes;
        if (groups > 1 && groups < n) piece = load_piece(e, element, root, offsets, groups);
    }
    if (piece) return piece;
    for (uint32_t k = 1; k < active; k++) first = offsets->fixed[k] < first ? offsets->fixed[k] : first;
    LLVMValueRef used[512], from[256];
    bool is_far = false;
    for (uint32_t k = 0; k < 2 * n; k++) used[k] = nst_llvm_int(e->llvm->i1, 0);
    for (uint32_t k = 0; k < n; k++) {
        int64_t at = offsets->fixed[k < active ? k : 0] - first;
        if (at % bytes != 0 || at / bytes >= 2 * (int64_t)n) return NULL;
        used[at / bytes] = nst_llvm_int(e->llvm->i1, 1);
        from[k] = int_arg(e, at / bytes);
        is_far |= at / bytes >= (int64_t)n;
    }
    LLVMTypeRef type = nst_llvm_lanes(element, n);
    LLVMValueRef place = nst_llvm_offset_const(e->llvm, offsets->base, first), far = LLVMGetPoison(type);
    LLVMValueRef near = load_used(e, type, place, used);
    if (is_far) far = load_used(e, type, nst_llvm_offset_const(e->llvm, place, (int64_t)n * bytes), used + n);
    return LLVMBuildShuffleVector(e->llvm->builder, near, far, LLVMConstVector(from, n), "");
}

static LLVMValueRef gather(NstEmit *e, LLVMTypeRef element, uint32_t root, NstDim at)
{
    LLVMTypeRef type = nst_llvm_lanes(element, e->lane.n);
    LaneOffsets offsets;
    split_lanes(e, root, at, &offsets);
    LLVMValueRef near = load_near(e, element, root, &offsets);
    if (near) return near;
    if (e->lane.mask || (has_gather(e, element) && !offsets.is_fixed)) {
        LLVMTypeRef overload[2] = {type, nst_llvm_lanes(e->llvm->ptr, e->lane.n)};
        LLVMValueRef mask = e->lane.mask ? e->lane.mask : nst_llvm_int(nst_llvm_lanes(e->llvm->i1, e->lane.n), 1);
        LLVMValueRef arg[4] = {lane_pointers(e, &offsets), int_arg(e, 1), mask, LLVMConstNull(type)};
        return nst_llvm_intrinsic(e->llvm, "llvm.masked.gather", overload, 2, arg, 4);
    }
    LLVMValueRef vector = LLVMGetPoison(type);
    for (uint32_t k = 0; k < e->lane.n; k++) {
        LLVMValueRef value = nst_llvm_load(e->llvm, element, lane_pointer(e, &offsets, k), 1);
        vector = LLVMBuildInsertElement(e->llvm->builder, vector, value, int_arg(e, k), "");
    }
    return vector;
}

/* Elements of 4 or 2 bits, the first in the low bits of a byte; a byte each in registers. */
static NstLanes load_packed(NstEmit *e, const NstExprNode *node, const NstDim *index)
{
    LLVMBuilderRef builder = e->llvm->builder;
    NstBuf buffer = {node->ref};
    int bits = e->layout[buffer.i].bits;
    NstDim eight = nst_dim_const(e->dims, 8), at = nst_dim_mul_const(e->dims, elements_at(e, buffer, index), bits);
    NstDim byte_at = nst_dim_floordiv(e->dims, at, eight), shift_by = nst_dim_mod(e->dims, at, eight);
    bool varies = nst_emit_varies(e, at);
    uint32_t lanes = varies ? e->lane.n : 1, root = nst_emit_root(e, buffer);
    LLVMValueRef bytes, shift = varies ? nst_emit_lane_sizes(e, shift_by) : nst_emit_size(e, shift_by);
    if (varies)
        bytes = gather(e, e->llvm->i8, root, byte_at);
    else
        bytes = nst_llvm_load(e->llvm, e->llvm->i8, nst_emit_address(e, root, byte_at), 1);
    LLVMTypeRef type = LLVMTypeOf(bytes);
    LLVMValueRef value = LLVMBuildLShr(builder, bytes, LLVMBuildTrunc(builder, shift, type, ""), "");
    LLVMValueRef unused = nst_llvm_int(type, 8 - bits);
    value = LLVMBuildShl(builder, value, unused, "");
    if (nst_dtype_is_signed(node->type))
        value = LLVMBuildAShr(builder, value, unused, "");
    else
        value = LLVMBuildLShr(builder, value, unused, "");
    return (NstLanes){value, lanes};
}

/* --- load ---------------------------------------------------------------------------------------------------------- */

LLVMValueRef nst_emit_from_storage(NstEmit *e, NstDtype type, LLVMValueRef stored)
{
    if (type != NST_BOOL) return stored;
    return LLVMBuildICmp(e->llvm->builder, LLVMIntNE, stored, LLVMConstNull(LLVMTypeOf(stored)), "");
}

static NstLanes *find_loaded(NstEmit *e, NstBuf buffer, NstDim at, NstDtype type, bool varies)
{
    for (uint32_t k = e->loaded.n, looked = 0; k-- > 0 && looked < LOADED_LIMIT; looked++) {
        NstLoaded *known = &e->loaded.at[k];
        if (known->buffer.i == buffer.i && nst_dim_same(known->at, at) && known->type == type &&
            known->mask == (varies ? e->lane.mask : NULL) && (known->value.n == 1) == !varies)
            return &known->value;
    }
    return NULL;
}

/* A load at one place or of whole vectors; moved before the loops in which it does not change. */
static LLVMValueRef load_simple(NstEmit *e, const NstExprNode *node, Pattern pattern, NstDim at, NstDim first)
{
    NstBuf buffer = {node->ref};
    LLVMTypeRef element = nst_llvm_storage_type(e->llvm, node->type);
    uint32_t root = nst_emit_root(e, buffer), loop = 0;
    if (pattern == PATTERN_SAME || !e->lane.mask) loop = nst_emit_hoist_loop(e, buffer, first);
    LLVMValueRef value = loop ? nst_emit_find_hoisted(e, loop, buffer, node->type, at) : NULL;
    if (value) return value;
    if (loop && !nst_emit_may_hoist(e, loop)) loop = 0;
    LLVMBasicBlockRef here = loop ? nst_emit_enter_before(e, loop) : NULL;
    LLVMValueRef place = nst_emit_address(e, root, first);
    value = pattern == PATTERN_SAME ? nst_llvm_load(e->llvm, element, place, 1) : load_vector(e, element, place);
    value = nst_emit_from_storage(e, node->type, value);
    if (loop) nst_emit_leave_before(e, here, loop, buffer, node->type, at, value);
    return value;
}

NstLanes nst_emit_load(NstEmit *e, const NstExprNode *node)
{
    NstLanes transposed;
    NstBuf buffer = {node->ref};
    NstDim index[NST_MAX_RANK], first;
    for (uint32_t k = 0; k < node->n_index; k++) index[k] = nst_emit_replace(e, node->index[k]);
    if (nst_kernel_buffer(e->kernel, buffer)->space == NST_SPACE_REG)
        return nst_emit_tile_read(e, buffer, index, node->type);
    if (e->layout[buffer.i].bits < 8) {
        nst_emit_check_bounds(e, buffer, index, 1);
        return load_packed(e, node, index);
    }
    NstDim at = nst_emit_bytes(e, buffer, index);
    int64_t bytes = nst_dtype_info(node->type)->bytes;
    bool varies = nst_emit_varies(e, at);
    NstLanes *known = find_loaded(e, buffer, at, node->type, varies);
    if (known) return *known;
    nst_emit_check_bounds(e, buffer, index, bytes / bytes_of(e, buffer));
    Pattern pattern = pattern_of(e, at, bytes, &first);
    LLVMValueRef value;
    if (pattern != PATTERN_ANY) {
        value = load_simple(e, node, pattern, at, first);
    } else if (nst_emit_transposed(e, node, &transposed)) {
        return transposed;
    } else {
        LLVMTypeRef element = nst_llvm_storage_type(e->llvm, node->type);
        value = nst_emit_from_storage(e, node->type, gather(e, element, nst_emit_root(e, buffer), at));
    }
    NstLoaded loaded = {buffer, at, node->type, varies ? e->lane.mask : NULL, {value, varies ? e->lane.n : 1}};
    nst_vec_push(e->arena, &e->loaded, loaded);
    return loaded.value;
}

/* --- store --------------------------------------------------------------------------------------------------------- */

static LLVMValueRef to_storage(NstEmit *e, NstDtype type, NstLanes value)
{
    if (type != NST_BOOL) return value.v;
    return LLVMBuildZExt(e->llvm->builder, value.v, nst_llvm_lanes(e->llvm->i8, value.n), "");
}

/* The first `active` lanes as pieces of 1, 2, 4, ... elements.  Cores without mask registers are slow at masked stores (AMD up to
 * Zen 3: some 20 micro-operations; 32 groups of 3 channels, 3x3 at 29 x 29: 217 us, in pieces 171; 2026-12). */
static void store_pieces(NstEmit *e, LLVMValueRef value, LLVMValueRef at, uint32_t active)
{
    LLVMTypeRef element = LLVMGetElementType(LLVMTypeOf(value));
    for (uint32_t done = 0, piece; done < active; done += piece) {
        LLVMValueRef from[256];
        for (piece = 1; 2 * piece <= active - done;) piece *= 2;
        for (uint32_t k = 0; k < piece; k++) from[k] = int_arg(e, done + k);
        LLVMValueRef part = LLVMBuildShuffleVector(e->llvm->builder, value, LLVMGetPoison(LLVMTypeOf(value)),
                                                   LLVMConstVector(from, piece), "");
        LLVMValueRef place = nst_llvm_offset_const(e->llvm, at, done * element_bytes(element));
        nst_llvm_store(e->llvm, part, place, 1);
    }
}

static void store_vector(NstEmit *e, LLVMValueRef value, LLVMValueRef at)
{
    if (!e->lane.mask) {
        nst_llvm_store(e->llvm, value, at, 1);
        return;
    }
    if (e->lane.first && e->target->level < NST_TARGET_AVX512) {
        store_pieces(e, value, at, e->lane.first);
        return;
    }
    LLVMTypeRef overload[2] = {LLVMTypeOf(value), e->llvm->ptr};
    LLVMValueRef arg[4] = {value, at, int_arg(e, 1), e->lane.mask};
    nst_llvm_intrinsic(e->llvm, "llvm.masked.store", overload, 2, arg, 4);
}

/* A store past the caches where the address allows one: whole vectors that start at a multiple of their size. */
static void store_streamed(NstEmit *e, LLVMValueRef value, LLVMValueRef at)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMTypeRef word = e->llvm->i64;
    uint32_t align = (uint32_t)e->target->vector_bytes;
    LLVMValueRef low =
        LLVMBuildAnd(builder, LLVMBuildPtrToInt(builder, at, word, ""), nst_llvm_int(word, (int64_t)align - 1), "");
    LLVMBasicBlockRef plain = nst_emit_new_block(e, "plain"), past = nst_emit_new_block(e, "past");
    LLVMBasicBlockRef go_on = nst_emit_new_block(e, "on");
    LLVMValueRef off = LLVMBuildICmp(builder, LLVMIntNE, low, nst_llvm_int(word, 0), "");
    nst_llvm_unlikely(e->llvm, LLVMBuildCondBr(builder, off, plain, past));
    LLVMPositionBuilderAtEnd(builder, plain);
    nst_llvm_store(e->llvm, value, at, 1);
    LLVMBuildBr(builder, go_on);
    LLVMPositionBuilderAtEnd(builder, past);
    nst_llvm_past_caches(e->llvm, nst_llvm_store(e->llvm, value, at, align));
    LLVMBuildBr(builder, go_on);
    LLVMPositionBuilderAtEnd(builder, go_on);
}

static bool can_stream(const NstEmit *e, NstBuf buffer)
{
    const NstBuffer *info = nst_kernel_buffer(e->kernel, buffer);
    int64_t bytes = e->lane.n * (int64_t)nst_dtype_info(info->dtype)->bytes;
    return info->streamed && !e->lane.mask && bytes % e->target->vector_bytes == 0;
}

static void scatter(NstEmit *e, LLVMValueRef value, uint32_t root, NstDim at)
{
    LaneOffsets offsets;
    split_lanes(e, root, at, &offsets);
    if (e->lane.mask) {
        LLVMTypeRef overload[2] = {LLVMTypeOf(value), nst_llvm_lanes(e->llvm->ptr, e->lane.n)};
        LLVMValueRef arg[4] = {value, lane_pointers(e, &offsets), int_arg(e, 1), e->lane.mask};
        nst_llvm_intrinsic(e->llvm, "llvm.masked.scatter", overload, 2, arg, 4);
        return;
    }
    for (uint32_t k = 0; k < e->lane.n; k++) {
        LLVMValueRef lane = LLVMBuildExtractElement(e->llvm->builder, value, int_arg(e, k), "");
        nst_llvm_store(e->llvm, lane, lane_pointer(e, &offsets, k), 1);
    }
}

LLVMValueRef nst_emit_last_lane(NstEmit *e, NstLanes value)
{
    if (value.n == 1) return value.v;
    LLVMBuilderRef builder = e->llvm->builder;
    if (!e->lane.mask) return LLVMBuildExtractElement(builder, value.v, int_arg(e, value.n - 1), "");
    LLVMTypeRef word = LLVMIntTypeInContext(e->llvm->context, value.n);
    LLVMValueRef arg[2] = {LLVMBuildBitCast(builder, e->lane.mask, word, ""), nst_llvm_int(e->llvm->i1, 0)};
    LLVMValueRef zeros = nst_llvm_intrinsic(e->llvm, "llvm.ctlz", &word, 1, arg, 2);
    zeros = LLVMBuildZExt(builder, zeros, LLVMIntTypeInContext(e->llvm->context, value.n + 1), "");
    LLVMValueRef last = LLVMBuildSub(builder, nst_llvm_int(LLVMTypeOf(zeros), value.n - 1), zeros, "");
    return LLVMBuildExtractElement(builder, value.v, last, "");
}

void nst_emit_store_memory(NstEmit *e, NstBuf buffer, const NstDim *index, NstLanes value)
{
    NstDtype type = nst_kernel_buffer(e->kernel, buffer)->dtype;
    NstDim first, at = nst_emit_bytes(e, buffer, index);
    uint32_t root = nst_emit_root(e, buffer);
    nst_emit_check_bounds(e, buffer, index, 1);
    Pattern pattern = pattern_of(e, at, nst_dtype_info(type)->bytes, &first);
    if (pattern == PATTERN_SAME) {
        NstLanes last = {nst_emit_last_lane(e, value), 1};
        nst_llvm_store(e->llvm, to_storage(e, type, last), nst_emit_address(e, root, first), 1);
    } else {
        value = nst_emit_spread(e, value, e->lane.n);
        value.v = to_storage(e, type, value);
        if (pattern == PATTERN_NEXT && can_stream(e, buffer))
            store_streamed(e, value.v, nst_emit_address(e, root, first));
        else if (pattern == PATTERN_NEXT)
            store_vector(e, value.v, nst_emit_address(e, root, first));
        else
            scatter(e, value.v, root, at);
    }
    nst_emit_forget_buffer(e, buffer);
}

void nst_emit_streams_end(NstEmit *e)
{
    bool any = false;
    for (uint32_t k = 1; k <= e->kernel->n_args; k++) any = any || e->kernel->buffers.at[k].streamed;
    if (any) LLVMBuildFence(e->llvm->builder, LLVMAtomicOrderingSequentiallyConsistent, false, "");
}

/* --- prefetch -------------------------------------------------------------------------------------------------------- */

void nst_emit_prefetch(NstEmit *e, const NstStmt *stmt)
{
    NstDim index[NST_MAX_RANK], first;
    for (uint32_t k = 0; k < stmt->u.prefetch.n_index; k++) index[k] = nst_emit_dim(e, stmt->u.prefetch.index[k]);
    NstBuf buffer = stmt->u.prefetch.buffer;
    int64_t bytes = bytes_of(e, buffer);
    NstDim at = nst_emit_bytes(e, buffer, index);
    Pattern pattern = pattern_of(e, at, bytes, &first);
    if (pattern == PATTERN_ANY) first = nst_dim_subst(e->dims, at, e->lane.sym, nst_dim_const(e->dims, 0));
    if (nst_emit_varies(e, first)) return; /* a hint; scattered lines are not worth the instructions */
    int64_t span = pattern == PATTERN_NEXT ? bytes * e->lane.n : 1;
    for (int64_t line = 0; line < span; line += 64) {
        LLVMValueRef at_line = nst_emit_address(e, nst_emit_root(e, buffer), nst_dim_add_const(e->dims, first, line));
        LLVMValueRef arg[4] = {at_line, int_arg(e, stmt->u.prefetch.write), int_arg(e, 4 - stmt->u.prefetch.level),
                               int_arg(e, 1)};
        nst_llvm_intrinsic(e->llvm, "llvm.prefetch", &e->llvm->ptr, 1, arg, 4);
    }
}
