/* verify_matrix.c: the part of the loop-nest verifier that checks matrix registers and the statements on them. */
#include "ir/verify_impl.h"

#define MAX_MATRIX 4096 /* elements */

NstStatus nst_verify_matrix_shape(NstVerifier *v, NstBuf id)
{
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, id);
    int64_t shape[2];
    bool fits = nst_matrix_shape(v->kernel, id, shape) && shape[0] >= 1 && shape[1] >= 1 && shape[0] <= MAX_MATRIX &&
                shape[1] <= MAX_MATRIX && shape[0] * shape[1] <= MAX_MATRIX && buffer->dtype == NST_I32;
    if (!fits || !nst_layout_is_row_major(v->kernel->dims, &buffer->layout, buffer->rank, buffer->shape))
        return nst_verify_broken(v, 35, "matrix '%s' of %d axes of %s", buffer->name, buffer->rank,
                                 nst_dtype_info(buffer->dtype)->name);
    return NST_OK;
}

static NstStatus check_register(NstVerifier *v, NstBuf id)
{
    NST_TRY(nst_verify_buffer_use(v, id));
    const NstBuffer *buffer = nst_kernel_buffer(v->kernel, id);
    if (buffer->space != NST_SPACE_MATRIX) return nst_verify_broken(v, 36, "'%s' is no matrix", buffer->name);
    return NST_OK;
}

static bool is_at(NstVerifier *v, const NstLayout *layout, const NstDim *index, NstDim expected)
{
    return nst_dim_same(nst_layout_offset(v->kernel->dims, layout, index), expected);
}

/* Offsets are sums over axes: rows and columns each in line is all in line. */
static NstStatus check_lines(NstVerifier *v, const NstMatrix *m, const int64_t *shape)
{
    NstDims *dims = v->kernel->dims;
    const NstBuffer *memory = nst_kernel_buffer(v->kernel, m->memory);
    NstDim index[NST_MAX_RANK], first = nst_layout_offset(dims, &memory->layout, m->index);
    NstDim stride = nst_matrix_stride(dims, &memory->layout, m, m->index);
    int64_t wide = nst_dtype_info(nst_kernel_buffer(v->kernel, m->matrix)->dtype)->bytes;
    int64_t words = wide / nst_dtype_info(memory->dtype)->bytes;
    bool in_line = true;
    for (int64_t r = 0; r < shape[0] && in_line; r++) {
        nst_matrix_index(v->kernel, m, r, 0, index);
        in_line = is_at(v, &memory->layout, index, nst_dim_add(dims, first, nst_dim_mul_const(dims, stride, r)));
    }
    nst_matrix_index(v->kernel, m, 0, 0, index);
    for (int64_t c = 0; c < shape[1] * words && in_line; c++) {
        index[m->col_axis] = nst_dim_add_const(dims, m->index[m->col_axis], c);
        in_line = is_at(v, &memory->layout, index, nst_dim_add_const(dims, first, c));
    }
    if (in_line) return NST_OK;
    return nst_verify_broken(v, 37, "rows of '%s' on axis %d and columns on axis %d of '%s'",
                             nst_verify_buffer_name(v, m->matrix), m->row_axis, m->col_axis, memory->name);
}

static NstStatus check_move(NstVerifier *v, const NstMatrix *m, const int64_t *shape)
{
    NST_TRY(nst_verify_buffer_use(v, m->memory));
    const NstBuffer *memory = nst_kernel_buffer(v->kernel, m->memory);
    bool store = m->op == NST_MATRIX_STORE;
    if (memory->space == NST_SPACE_REG || memory->space == NST_SPACE_MATRIX)
        return nst_verify_broken(v, 36, "'%s' is no memory", memory->name);
    NST_TRY(nst_verify_access(v, m->memory, m->index, m->n_index));
    if (store && memory->space == NST_SPACE_ARG && memory->access == NST_ACCESS_IN)
        return nst_verify_broken(v, 12, "argument '%s' is written", memory->name);
    int wide = nst_dtype_info(nst_kernel_buffer(v->kernel, m->matrix)->dtype)->bytes;
    int bytes = nst_dtype_info(memory->dtype)->bytes;
    bool axes = m->row_axis >= 0 && m->row_axis < memory->rank && m->col_axis >= 0 && m->col_axis < memory->rank &&
                m->row_axis != m->col_axis;
    if (!axes || bytes < 1 || wide % bytes != 0 || memory->layout.bits < 8)
        return nst_verify_broken(v, 37, "axes %d and %d of '%s' of %s", m->row_axis, m->col_axis, memory->name,
                                 nst_dtype_info(memory->dtype)->name);
    NST_TRY(check_lines(v, m, shape));
    NstDim last[NST_MAX_RANK];
    nst_matrix_index(v->kernel, m, shape[0] - 1, shape[1] - 1, last);
    last[m->col_axis] = nst_dim_add_const(v->kernel->dims, last[m->col_axis], wide / bytes - 1);
    NST_TRY(nst_verify_access(v, m->memory, last, m->n_index));
    return store ? nst_verify_parallel_store(v, m->memory, m->index, m->n_index) : NST_OK;
}

static NstStatus check_dot(NstVerifier *v, const NstMatrix *m, const int64_t *shape)
{
    int64_t a[2], b[2];
    NST_TRY(check_register(v, m->a));
    NST_TRY(check_register(v, m->b));
    bool shapes = nst_matrix_shape(v->kernel, m->a, a) && nst_matrix_shape(v->kernel, m->b, b);
    bool step = m->step > NST_OP_NONE && m->step < NST_OP_COUNT && nst_scalar_info(m->step)->rule == NST_RULE_DOT;
    bool apart = m->a.i != m->matrix.i && m->b.i != m->matrix.i && m->a.i != m->b.i;
    if (shapes && step && apart && a[0] == shape[0] && a[1] == b[0] && b[1] == shape[1]) return NST_OK;
    return nst_verify_broken(v, 38, "'%s' of '%s' and '%s'", nst_verify_buffer_name(v, m->matrix),
                             nst_verify_buffer_name(v, m->a), nst_verify_buffer_name(v, m->b));
}

NstStatus nst_verify_matrix(NstVerifier *v, const NstMatrix *m)
{
    int64_t shape[2] = {0, 0};
    if (m->op > NST_MATRIX_DOT) return nst_verify_broken(v, 1, "matrix operation %d", (int)m->op);
    if (v->vector != NULL) return nst_verify_broken(v, 19, "a matrix statement");
    NST_TRY(check_register(v, m->matrix));
    if (!nst_matrix_shape(v->kernel, m->matrix, shape)) return nst_verify_broken(v, 35, "no shape");
    if (m->op == NST_MATRIX_LOAD || m->op == NST_MATRIX_STORE) return check_move(v, m, shape);
    return m->op == NST_MATRIX_DOT ? check_dot(v, m, shape) : NST_OK;
}
