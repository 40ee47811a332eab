/* emit_matrix.c: matrix registers as tiles of AMX: the target file of matrix statements.
 *
 * Registers are numbered before anything is emitted: each gets the lowest number whose shape is its own and which nothing has
 * from its alloc to the last statement of that block that uses it.  So one configuration serves a whole call of the kernel: loaded at its entry, on every thread
 * that runs it, released where it returns, whatever it returns.  Instructions name registers by number; LLVM keeps them in
 * order.  Source: Intel SDM volume 1 chapter 18, volume 2 (LDTILECFG, TILELOADD, TDPBUSD). */
#include "codegen/emit.h"

/* The operand of LDTILECFG. */
typedef struct Config {
    uint8_t palette, start_row, reserved[14];
    uint8_t row_bytes[16][2]; /* little-endian */
    uint8_t rows[16];
} Config;
_Static_assert(sizeof(Config) == 64, "the processor reads 64 bytes");

enum { MAX_ROWS = 16, MAX_ROW_BYTES = 64 }; /* of palette 1 */

/* --- numbering --------------------------------------------------------------------------------------------------- */

static void number_matrix(NstEmit *e, NstBuf matrix, uint32_t in_use)
{
    const NstBuffer *buffer = nst_kernel_buffer(e->kernel, matrix);
    int64_t shape[2] = {0, 0};
    bool known = nst_matrix_shape(e->kernel, matrix, shape);
    int64_t row_bytes = shape[1] * nst_dtype_info(buffer->dtype)->bytes;
    if (e->target->level < NST_TARGET_AMX_INT8) {
        nst_emit_fail(e, NST_E_UNSUPPORTED, "kernel '%s' has matrix registers, target %s has none", e->kernel->name,
                      nst_target_level_name(e->target->level));
        return;
    }
    if (!known || shape[0] > MAX_ROWS || row_bytes > MAX_ROW_BYTES) {
        nst_emit_fail(e, NST_E_UNSUPPORTED,
                      "kernel '%s': matrix '%s' has %lld rows of %lld bytes, target %s has at most %d of %d",
                      e->kernel->name, buffer->name, (long long)shape[0], (long long)row_bytes,
                      nst_target_level_name(e->target->level), MAX_ROWS, MAX_ROW_BYTES);
        return;
    }
    for (uint32_t k = 0; k < NST_MATRIX_REGISTERS; k++) {
        NstMatrixShape *used = &e->matrix_shape[k];
        if (in_use >> k & 1 || (used->rows && (used->rows != shape[0] || used->row_bytes != row_bytes))) continue;
        *used = (NstMatrixShape){(uint8_t)shape[0], (uint8_t)row_bytes};
        e->matrix_number[matrix.i] = (uint8_t)k;
        e->has_matrices = true;
        return;
    }
    nst_emit_fail(e, NST_E_UNSUPPORTED, "kernel '%s': matrix '%s' is one more than %d registers hold", e->kernel->name,
                  buffer->name, NST_MATRIX_REGISTERS);
}

static bool block_uses(const NstBlock *block, NstBuf matrix);

static bool stmt_uses(const NstStmt *stmt, NstBuf matrix)
{
    const NstMatrix *m = &stmt->u.matrix;
    switch (stmt->kind) {
    case NST_STMT_FOR: return block_uses(&stmt->u.loop.body, matrix);
    case NST_STMT_WHILE: return block_uses(&stmt->u.repeat.body, matrix);
    case NST_STMT_IF: return block_uses(&stmt->u.branch.then, matrix) || block_uses(&stmt->u.branch.otherwise, matrix);
    case NST_STMT_MATRIX: return m->matrix.i == matrix.i || m->a.i == matrix.i || m->b.i == matrix.i;
    default: return false;
    }
}

static bool block_uses(const NstBlock *block, NstBuf matrix)
{
    for (uint32_t k = 0; k < block->n; k++)
        if (stmt_uses(block->at[k], matrix)) return true;
    return false;
}

/* Where in the block, from its alloc at `at` on, a register is used for the last time. */
static uint32_t last_use(const NstBlock *block, uint32_t at, NstBuf matrix)
{
    uint32_t last = block->n - 1;
    while (last > at && !stmt_uses(block->at[last], matrix)) last--;
    return last;
}

static void number_block(NstEmit *e, const NstBlock *block, uint32_t in_use)
{
    uint32_t last[NST_MATRIX_REGISTERS] = {0}, own = 0; /* of this block: where each is used last */
    for (uint32_t k = 0; k < block->n && e->status == NST_OK; k++) {
        const NstStmt *stmt = block->at[k];
        for (uint32_t r = 0; r < NST_MATRIX_REGISTERS; r++)
            if (own >> r & 1 && last[r] < k) own &= ~(1u << r), in_use &= ~(1u << r);
        if (stmt->kind == NST_STMT_FOR) number_block(e, &stmt->u.loop.body, in_use);
        if (stmt->kind == NST_STMT_WHILE) number_block(e, &stmt->u.repeat.body, in_use);
        if (stmt->kind == NST_STMT_IF) {
            number_block(e, &stmt->u.branch.then, in_use);
            number_block(e, &stmt->u.branch.otherwise, in_use);
        }
        if (stmt->kind != NST_STMT_ALLOC) continue;
        NstBuf buffer = stmt->u.alloc.buffer;
        if (nst_kernel_buffer(e->kernel, buffer)->space != NST_SPACE_MATRIX) continue;
        number_matrix(e, buffer, in_use);
        uint32_t number = e->matrix_number[buffer.i];
        own |= 1u << number;
        in_use |= 1u << number;
        last[number] = last_use(block, k, buffer);
    }
}

void nst_emit_matrices_number(NstEmit *e)
{
    number_block(e, &e->kernel->body, 0);
}

/* --- configuration ----------------------------------------------------------------------------------------------- */

void nst_emit_matrices_begin(NstEmit *e)
{
    if (!e->has_matrices) return;
    Config config = {.palette = 1};
    for (uint32_t k = 0; k < NST_MATRIX_REGISTERS; k++) {
        config.row_bytes[k][0] = e->matrix_shape[k].row_bytes;
        config.rows[k] = e->matrix_shape[k].rows;
    }
    const char *bytes = (const char *)&config;
    LLVMValueRef data = LLVMConstStringInContext(e->llvm->context, bytes, sizeof config, true);
    LLVMValueRef place = LLVMAddGlobal(e->llvm->module, LLVMTypeOf(data), "nst_matrix_config");
    LLVMSetInitializer(place, data);
    LLVMSetGlobalConstant(place, true);
    LLVMSetLinkage(place, LLVMPrivateLinkage);
    LLVMSetAlignment(place, sizeof config);
    nst_llvm_intrinsic(e->llvm, "llvm.x86.ldtilecfg", NULL, 0, &place, 1);
}

void nst_emit_matrices_end(NstEmit *e)
{
    if (e->has_matrices) nst_llvm_intrinsic(e->llvm, "llvm.x86.tilerelease", NULL, 0, NULL, 0);
}

/* --- statements -------------------------------------------------------------------------------------------------- */

static LLVMValueRef number_of(NstEmit *e, NstBuf matrix)
{
    return nst_llvm_int(e->llvm->i8, e->matrix_number[matrix.i]);
}

static void emit_move(NstEmit *e, const NstMatrix *m)
{
    NstDim index[NST_MAX_RANK], last[NST_MAX_RANK];
    int64_t shape[2] = {0, 0};
    nst_matrix_shape(e->kernel, m->matrix, shape);
    for (uint32_t k = 0; k < m->n_index; k++) last[k] = index[k] = nst_emit_dim(e, m->index[k]);
    last[m->row_axis] = nst_dim_add_const(e->dims, index[m->row_axis], shape[0] - 1);
    int64_t bytes = nst_dtype_info(nst_kernel_buffer(e->kernel, m->memory)->dtype)->bytes;
    int64_t width = shape[1] * nst_dtype_info(nst_kernel_buffer(e->kernel, m->matrix)->dtype)->bytes / bytes;
    nst_emit_check_bounds(e, m->memory, index, width);
    nst_emit_check_bounds(e, m->memory, last, width);
    NstDim stride = nst_emit_replace(e, nst_matrix_stride(e->dims, &e->layout[m->memory.i], m, index));
    NstDim at = nst_emit_bytes(e, m->memory, index);
    LLVMValueRef arg[3] = {number_of(e, m->matrix), nst_emit_address(e, nst_emit_root(e, m->memory), at),
                           nst_emit_size(e, nst_dim_mul_const(e->dims, stride, bytes))};
    const char *name = m->op == NST_MATRIX_LOAD ? "llvm.x86.tileloadd64" : "llvm.x86.tilestored64";
    nst_llvm_intrinsic(e->llvm, name, NULL, 0, arg, 3);
    if (m->op == NST_MATRIX_STORE) nst_emit_forget_buffer(e, m->memory);
}

static void emit_dot(NstEmit *e, const NstMatrix *m)
{
    static const struct {
        NstScalarOp step;
        const char *name;
    } products[] = {{NST_OP_DOT4_U8S8, "llvm.x86.tdpbusd"},
                    {NST_OP_DOT4_S8U8, "llvm.x86.tdpbsud"},
                    {NST_OP_DOT4_U8U8, "llvm.x86.tdpbuud"},
                    {NST_OP_DOT4_S8S8, "llvm.x86.tdpbssd"}};
    LLVMValueRef arg[3] = {number_of(e, m->matrix), number_of(e, m->a), number_of(e, m->b)};
    for (size_t k = 0; k < sizeof products / sizeof *products; k++) {
        if (products[k].step != m->step) continue;
        nst_llvm_intrinsic(e->llvm, products[k].name, NULL, 0, arg, 3);
        return;
    }
    nst_emit_fail(e, NST_E_UNSUPPORTED, "kernel '%s': target %s has no matrix product by %s", e->kernel->name,
                  nst_target_level_name(e->target->level), nst_scalar_info(m->step)->text);
}

void nst_emit_matrix(NstEmit *e, const NstStmt *stmt)
{
    const NstMatrix *m = &stmt->u.matrix;
    if (m->op == NST_MATRIX_ZERO) {
        LLVMValueRef number = number_of(e, m->matrix);
        nst_llvm_intrinsic(e->llvm, "llvm.x86.tilezero", NULL, 0, &number, 1);
    } else if (m->op == NST_MATRIX_DOT) {
        emit_dot(e, m);
    } else {
        emit_move(e, m);
    }
}
