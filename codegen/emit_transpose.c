/* emit_transpose.c: strided loads of a whole block as rows and a transposition in registers.
 *
 * `unroll u in 0..W { vector l in 0..W { ... x[l * stride + u] ... } }` reads a W x W block column by column.  The first
 * such load reads the W rows as vectors instead and transposes; the other iterations find their columns as loaded.  Of 16
 * lanes and 8 iterations (the rows of a register tile) the block's rows are half vectors.  Elements have 32 bits, or 8 in whole blocks. */
#include "codegen/emit.h"

#include <string.h>

#define MAX_BLOCK 16

/* What a strided load looks like while the unrolled variable is left in place. */
typedef struct BlockAccess {
    const NstUnrolled *unrolled;
    NstDim rest; /* byte offset = bytes * var + rest */
    NstDim index[NST_MAX_RANK];
} BlockAccess;

/* Elements of a block's rows: as many as lanes, or half of 16. */
static uint32_t block_width(const NstEmit *e, int64_t trips)
{
    return e->lane.n == 16 && trips < 16 ? 8 : e->lane.n;
}

/* The unrolled loop around here in which the load walks adjacent elements, all of whose iterations run it. */
static bool find_walk(NstEmit *e, const NstExprNode *node, int64_t bytes, BlockAccess *access)
{
    for (uint32_t k = e->unrolled.n; k-- > 0;) {
        const NstUnrolled *unrolled = &e->unrolled.at[k];
        if (unrolled->scopes != e->scopes.n || unrolled->choices != e->choices) return false;
        if (unrolled->loop->step != 1 || unrolled->trips < block_width(e, unrolled->trips)) continue;
        NstDim kept = nst_emit_binding(e, unrolled->var)->replacement, coef;
        nst_emit_bind_replacement(e, unrolled->var, (NstDim){0});
        for (uint32_t i = 0; i < node->n_index; i++) access->index[i] = nst_emit_replace(e, node->index[i]);
        NstDim at = nst_emit_bytes(e, (NstBuf){node->ref}, access->index);
        nst_emit_bind_replacement(e, unrolled->var, kept);
        int64_t step;
        if (!nst_dim_linear(e->dims, at, unrolled->var, &coef, &access->rest)) continue;
        if (!nst_dim_is_const(e->dims, coef, &step) || step != bytes) continue;
        access->unrolled = unrolled;
        return !nst_emit_stores_to(&unrolled->loop->body, (NstBuf){node->ref});
    }
    return false;
}

/* --- transposition ----------------------------------------------------------------------------------------------- */

static LLVMValueRef shuffle(NstEmit *e, LLVMValueRef a, LLVMValueRef b, const uint32_t *from, uint32_t n)
{
    LLVMValueRef lane[MAX_BLOCK];
    for (uint32_t k = 0; k < n; k++) lane[k] = nst_llvm_int(e->llvm->i32, from[k]);
    return LLVMBuildShuffleVector(e->llvm->builder, a, b, LLVMConstVector(lane, n), "");
}

/* Pairs of `unit` elements of a and b in turn, from the lower or upper half of each group of four: unpcklps, unpckhpd... */
static LLVMValueRef unpack(NstEmit *e, LLVMValueRef a, LLVMValueRef b, uint32_t n, uint32_t unit, bool upper)
{
    uint32_t from[MAX_BLOCK];
    for (uint32_t k = 0; k < n; k++) {
        uint32_t group = k / 4 * 4, within = k % 4;
        uint32_t source = unit == 1 ? within / 2 + (upper ? 2 : 0) : within % 2 + (upper ? 2 : 0);
        bool from_b = unit == 1 ? within % 2 == 1 : within / 2 == 1;
        from[k] = group + source + (from_b ? n : 0);
    }
    return shuffle(e, a, b, from, n);
}

/* The even or odd groups of four of a, then those of b. */
static LLVMValueRef deal(NstEmit *e, LLVMValueRef a, LLVMValueRef b, uint32_t n, bool odd)
{
    uint32_t from[MAX_BLOCK], groups = n / 4;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t group = k / 4;
        bool from_b = group >= groups / 2;
        uint32_t source = 2 * (group - (from_b ? groups / 2 : 0)) + odd;
        from[k] = 4 * source + k % 4 + (from_b ? n : 0);
    }
    return shuffle(e, a, b, from, n);
}

/* 4, 8 or 16 lanes of 32 bits.  Rows and columns are numbered in four-by-four blocks: in 128-bit lanes first, lanes after. */
static void transpose_words(NstEmit *e, LLVMValueRef *row, uint32_t n)
{
    LLVMValueRef pair[MAX_BLOCK], quad[MAX_BLOCK];
    for (uint32_t k = 0; k < n; k += 2) {
        pair[k] = unpack(e, row[k], row[k + 1], n, 1, false);
        pair[k + 1] = unpack(e, row[k], row[k + 1], n, 1, true);
    }
    for (uint32_t k = 0; k < n; k += 4) {
        for (uint32_t half = 0; half < 2; half++) {
            quad[k + 2 * half] = unpack(e, pair[k + half], pair[k + half + 2], n, 2, false);
            quad[k + 2 * half + 1] = unpack(e, pair[k + half], pair[k + half + 2], n, 2, true);
        }
    }
    /* quad[4 * r + c] holds, in lane group g, column 4 * g + c of rows 4 * r .. 4 * r + 3. */
    for (uint32_t c = 0; c < 4; c++) {
        LLVMValueRef v[4], even[4];
        uint32_t groups = n / 4;
        for (uint32_t r = 0; r < groups; r++) v[r] = quad[4 * r + c];
        if (groups == 1) {
            row[c] = v[0];
        } else if (groups == 2) {
            row[c] = deal(e, v[0], v[1], n, false);
            row[4 + c] = deal(e, v[0], v[1], n, true);
        } else {
            for (uint32_t odd = 0; odd < 2; odd++) {
                for (uint32_t r = 0; r < 2; r++) even[r] = deal(e, v[2 * r], v[2 * r + 1], n, odd);
                row[4 * odd + c] = deal(e, even[0], even[1], n, false);
                row[4 * (odd + 2) + c] = deal(e, even[0], even[1], n, true);
            }
        }
    }
}

/* Any power of two of lanes: squares of 1, 2, 4, ... lanes change places across the diagonal. */
static void transpose_any(NstEmit *e, LLVMValueRef *row, uint32_t n)
{
    LLVMValueRef low[256], high[256];
    for (uint32_t d = 1; d < n; d *= 2) {
        for (uint32_t k = 0; k < n; k++) {
            low[k] = nst_llvm_int(e->llvm->i32, k & d ? n + k - d : k);
            high[k] = nst_llvm_int(e->llvm->i32, k & d ? n + k : k + d);
        }
        LLVMValueRef low_mask = LLVMConstVector(low, n), high_mask = LLVMConstVector(high, n);
        for (uint32_t k = 0; k < n; k++) {
            if (k & d) continue;
            LLVMValueRef a = row[k], b = row[k + d];
            row[k] = LLVMBuildShuffleVector(e->llvm->builder, a, b, low_mask, "");
            row[k + d] = LLVMBuildShuffleVector(e->llvm->builder, a, b, high_mask, "");
        }
    }
}

void nst_emit_transpose(NstEmit *e, LLVMValueRef *row, uint32_t n)
{
    LLVMTypeRef element = n > 1 ? LLVMGetElementType(LLVMTypeOf(row[0])) : LLVMTypeOf(row[0]);
    if ((element == e->llvm->f32 || element == e->llvm->i32) && (n == 4 || n == 8 || n == 16))
        transpose_words(e, row, n);
    else
        transpose_any(e, row, n);
}

/* Rows 0 .. 15 of eight elements: row k and row 8 + k go side by side, and both halves are transposed at once. */
static void transpose_halves(NstEmit *e, LLVMValueRef *row)
{
    LLVMValueRef wide[8], pair[8], quad[8];
    uint32_t join[16];
    for (uint32_t k = 0; k < 16; k++) join[k] = k;
    for (uint32_t k = 0; k < 8; k++) wide[k] = shuffle(e, row[k], row[k + 8], join, 16);
    for (uint32_t k = 0; k < 8; k += 2) {
        pair[k] = unpack(e, wide[k], wide[k + 1], 16, 1, false);
        pair[k + 1] = unpack(e, wide[k], wide[k + 1], 16, 1, true);
    }
    for (uint32_t k = 0; k < 8; k += 4) {
        for (uint32_t half = 0; half < 2; half++) {
            quad[k + 2 * half] = unpack(e, pair[k + half], pair[k + half + 2], 16, 2, false);
            quad[k + 2 * half + 1] = unpack(e, pair[k + half], pair[k + half + 2], 16, 2, true);
        }
    }
    /* quad[4 * r + c] holds, in lane group g, column 4 * (g % 2) + c of rows 8 * (g / 2) + 4 * r and the next three. */
    for (uint32_t column = 0; column < 8; column++) {
        uint32_t from[16], group = column / 4;
        for (uint32_t k = 0; k < 16; k++) from[k] = (k / 8 * 2 + group) * 4 + k % 4 + (k / 4 % 2 ? 16 : 0);
        row[column] = shuffle(e, quad[column % 4], quad[4 + column % 4], from, 16);
    }
}

/* Bytes: each stage lays the rows of one half between those of the other. */
static void transpose_bytes(NstEmit *e, LLVMValueRef *row, uint32_t n)
{
    LLVMValueRef between[MAX_BLOCK];
    uint32_t from[MAX_BLOCK];
    for (uint32_t stage = 1; stage < n; stage *= 2) {
        for (uint32_t half = 0; half < 2; half++) {
            for (uint32_t k = 0; k < n; k++) from[k] = half * n / 2 + k / 2 + (k % 2 ? n : 0);
            for (uint32_t k = 0; k < n / 2; k++) between[2 * k + half] = shuffle(e, row[k], row[k + n / 2], from, n);
        }
        memcpy(row, between, n * sizeof *row);
    }
}

/* Rows of `width` elements become as many columns of n. */
static void transpose_block(NstEmit *e, LLVMValueRef *row, uint32_t n, uint32_t width, int64_t bytes)
{
    if (bytes == 1)
        transpose_bytes(e, row, n);
    else if (width < n)
        transpose_halves(e, row);
    else
        transpose_words(e, row, n);
}

/* --- the load --------------------------------------------------------------------------------------------------------- */

bool nst_emit_transposed(NstEmit *e, const NstExprNode *node, NstLanes *value)
{
    BlockAccess access;
    uint32_t n = e->lane.n;
    NstBuf buffer = {node->ref};
    int64_t bytes = nst_dtype_info(node->type)->bytes;
    if (e->lane.mask || (n != 4 && n != 8 && n != 16) || (bytes != 4 && bytes != 1) || e->options->bounds_checks)
        return false;
    if (bytes != nst_dtype_info(nst_kernel_buffer(e->kernel, buffer)->dtype)->bytes) return false;
    if (!find_walk(e, node, bytes, &access)) return false;
    NstDim coef, fixed;
    if (!nst_dim_linear(e->dims, access.rest, e->lane.sym, &coef, &fixed) || nst_emit_varies(e, fixed)) return false;
    uint32_t width = block_width(e, access.unrolled->trips);
    int64_t start = access.unrolled->at / width * width;
    if (start + width > access.unrolled->trips || (bytes == 1 && width < n)) return false;
    NstDim first =
        nst_dim_add(e->dims, access.rest,
                    nst_dim_mul_const(e->dims, nst_dim_add_const(e->dims, access.unrolled->begin, start), bytes));
    LLVMTypeRef type = nst_llvm_lanes(nst_llvm_storage_type(e->llvm, node->type), width);
    LLVMValueRef row[MAX_BLOCK];
    for (uint32_t r = 0; r < n; r++) {
        NstDim at = nst_dim_subst(e->dims, first, e->lane.sym, nst_dim_const(e->dims, r));
        row[r] = nst_llvm_load(e->llvm, type, nst_emit_address(e, nst_emit_root(e, buffer), at), 1);
    }
    transpose_block(e, row, n, width, bytes);
    for (uint32_t c = 0; c < width; c++) {
        NstLanes column = {nst_emit_from_storage(e, node->type, row[c]), n};
        NstLoaded loaded = {buffer, nst_dim_add_const(e->dims, first, c * bytes), node->type, NULL, column};
        nst_vec_push(e->arena, &e->loaded, loaded);
        if (start + c == access.unrolled->at) *value = loaded.value;
    }
    return true;
}
