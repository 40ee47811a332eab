/* layout.c: physical layouts of buffers: the one place where logical indices become element offsets. */
#include "ir/loop.h"

/* Fills strides from the innermost part outwards (dense) and `elements`; extent[k] = values part k takes. */
static NstLayout make_dense(NstArena *arena, NstDims *dims, NstDtype dtype, uint32_t n, const NstLayoutPart *part,
                            const NstDim *extent)
{
    NstLayoutPart *own = nst_copy(arena, part, n * sizeof *part);
    NstDim stride = nst_dim_const(dims, 1);
    for (uint32_t k = n; k-- > 0;) {
        own[k].stride = stride;
        stride = nst_dim_mul(dims, stride, extent[k]);
    }
    return (NstLayout){.n_parts = n,
                       .parts = own,
                       .offset = nst_dim_const(dims, 0),
                       .elements = stride,
                       .bits = 8 * nst_dtype_info(dtype)->bytes};
}

NstLayout nst_layout_row_major(NstArena *arena, NstDims *dims, NstDtype dtype, int rank, const NstDim *shape)
{
    int order[NST_MAX_RANK];
    NST_ASSERT(rank >= 0 && rank <= NST_MAX_RANK);
    for (int axis = 0; axis < rank; axis++) order[axis] = axis;
    return nst_layout_permuted(arena, dims, dtype, rank, shape, order, 1);
}

NstLayout nst_layout_permuted(NstArena *arena, NstDims *dims, NstDtype dtype, int rank, const NstDim *shape,
                              const int *order, int64_t multiple)
{
    NstLayoutPart part[NST_MAX_RANK];
    NstDim extent[NST_MAX_RANK];
    NST_ASSERT(rank >= 0 && rank <= NST_MAX_RANK);
    for (int k = 0; k < rank; k++) {
        NST_ASSERT(order[k] >= 0 && order[k] < rank);
        part[k] = (NstLayoutPart){.axis = (uint8_t)order[k], .divisor = 1};
        extent[k] = shape[order[k]];
    }
    if (rank > 0) {
        NstDim *last = &extent[rank - 1];
        *last = nst_dim_mul_const(dims, nst_dim_ceildiv(dims, *last, nst_dim_const(dims, multiple)), multiple);
    }
    return make_dense(arena, dims, dtype, (uint32_t)rank, part, extent);
}

NstLayout nst_layout_blocked(NstArena *arena, NstDims *dims, NstDtype dtype, int rank, const NstDim *shape,
                             const int *order, int blocked, int64_t block)
{
    NstLayoutPart part[NST_MAX_RANK + 1];
    NstDim extent[NST_MAX_RANK + 1];
    NST_ASSERT(rank >= 1 && rank <= NST_MAX_RANK && blocked >= 0 && blocked < rank && block >= 1);
    for (int k = 0; k < rank; k++) {
        int axis = order[k];
        NST_ASSERT(axis >= 0 && axis < rank);
        part[k] = (NstLayoutPart){.axis = (uint8_t)axis, .divisor = axis == blocked ? block : 1};
        extent[k] = axis == blocked ? nst_dim_ceildiv(dims, shape[axis], nst_dim_const(dims, block)) : shape[axis];
    }
    part[rank] = (NstLayoutPart){.axis = (uint8_t)blocked, .divisor = 1, .modulus = block};
    extent[rank] = nst_dim_const(dims, block);
    return make_dense(arena, dims, dtype, (uint32_t)rank + 1, part, extent);
}

NstDim nst_layout_extent(NstDims *dims, const NstLayout *layout, const NstDim *shape, uint32_t k)
{
    const NstLayoutPart *part = &layout->parts[k];
    if (part->modulus != 0) return nst_dim_const(dims, part->modulus);
    NstDim extent = shape[part->axis];
    if (layout->halo != NULL) extent = nst_dim_add_const(dims, extent, 2 * layout->halo[part->axis]);
    return nst_dim_ceildiv(dims, extent, nst_dim_const(dims, part->divisor));
}

NstDim nst_layout_offset(NstDims *dims, const NstLayout *layout, const NstDim *index)
{
    NstDim offset = layout->offset;
    for (uint32_t k = 0; k < layout->n_parts; k++) {
        const NstLayoutPart *part = &layout->parts[k];
        NstDim at = index[part->axis];
        if (layout->halo != NULL) at = nst_dim_add_const(dims, at, layout->halo[part->axis]);
        if (part->divisor != 1) at = nst_dim_floordiv(dims, at, nst_dim_const(dims, part->divisor));
        if (part->modulus != 0) at = nst_dim_mod(dims, at, nst_dim_const(dims, part->modulus));
        offset = nst_dim_add(dims, offset, nst_dim_mul(dims, at, part->stride));
    }
    return offset;
}

static bool steps_by_one(NstDims *dims, NstDim offset, NstSym axis)
{
    int64_t step;
    return nst_dim_stride(dims, offset, axis, &step) && step == 1;
}

bool nst_layout_adjacent(NstDims *dims, const NstLayout *layout, const NstDim *index, NstSym axis, int64_t run)
{
    NstDim offset = nst_layout_offset(dims, layout, index);
    if (steps_by_one(dims, offset, axis)) return true;
    if (layout->n_parts == 0 || layout->parts[layout->n_parts - 1].modulus == 0) return false;
    NstSym block = nst_dims_new_sym(dims, NST_SYM_INDEX, "block", 0, INT32_MAX),
           lane = nst_dims_new_sym(dims, NST_SYM_INDEX, "lane", 0, run - 1);
    NstDim at = nst_dim_add(dims, nst_dim_mul_const(dims, nst_dim_sym(dims, block), run), nst_dim_sym(dims, lane));
    return steps_by_one(dims, nst_dim_subst(dims, offset, axis, at), lane);
}

bool nst_layout_is_row_major(NstDims *dims, const NstLayout *layout, int rank, const NstDim *shape)
{
    if (layout->n_parts != (uint32_t)rank) return false;
    NstDim stride = nst_dim_const(dims, 1);
    for (int axis = rank - 1; axis >= 0; axis--) {
        const NstLayoutPart *part = &layout->parts[axis];
        if (part->axis != axis || part->divisor != 1 || part->modulus != 0) return false;
        if (layout->halo != NULL && layout->halo[axis] != 0) return false;
        if (!nst_dim_same(part->stride, stride)) return false;
        stride = nst_dim_mul(dims, stride, shape[axis]);
    }
    return nst_dim_same(layout->offset, nst_dim_const(dims, 0));
}
