/* weights_sparse.c: SparseTensorProto as the dense tensor it stands for.
 * Source: ONNX IR, "SparseTensorProto": values [NNZ]; indices [NNZ] of the flattened tensor or [NNZ, rank], ascending. */
#include "frontend/weights.h"

#include <string.h>
#include "ir/base/dtype.h"

/* Bytes of a dense tensor that is made of a sparse one: as many as folding may make. */
#define MOST_DENSE ((int64_t)256 << 20)

static NstStatus read_shape(NstCtx *ctx, const Onnx__SparseTensorProto *sparse, const char *what, int64_t size,
                            NstWeight *w)
{
    NST_CHECK(ctx, sparse->n_dims <= NST_MAX_RANK, NST_E_LIMIT, "%s: rank %zu, allowed: at most %d", what,
              sparse->n_dims, NST_MAX_RANK);
    w->rank = (int)sparse->n_dims;
    w->count = 1;
    for (int k = 0; k < w->rank; k++) {
        int64_t extent = w->shape[k] = sparse->dims[k];
        NST_CHECK(ctx, extent >= 0, NST_E_MODEL, "%s: extent %lld of axis %d, allowed: at least 0", what,
                  (long long)extent, k);
        NST_CHECK(ctx, extent == 0 || w->count <= MOST_DENSE / size / extent, NST_E_LIMIT,
                  "%s: the dense tensor has more than %lld bytes", what, (long long)MOST_DENSE);
        w->count *= extent;
    }
    return NST_OK;
}

/* The place of entry k in the flattened tensor. */
static NstStatus place_of(NstCtx *ctx, const NstWeight *dense, const NstWeight *indices, const char *what, int64_t k,
                          int64_t *place)
{
    const char *at = indices->data;
    int64_t index;
    if (indices->rank == 1) {
        memcpy(&index, at + 8 * k, 8);
        NST_CHECK(ctx, index >= 0 && index < dense->count, NST_E_MODEL, "%s: index %lld, allowed: 0 to %lld", what,
                  (long long)index, (long long)dense->count - 1);
        *place = index;
        return NST_OK;
    }
    *place = 0;
    for (int axis = 0; axis < dense->rank; axis++) {
        memcpy(&index, at + 8 * (k * dense->rank + axis), 8);
        NST_CHECK(ctx, index >= 0 && index < dense->shape[axis], NST_E_MODEL,
                  "%s: index %lld of axis %d, allowed: 0 to %lld", what, (long long)index, axis,
                  (long long)dense->shape[axis] - 1);
        *place = *place * dense->shape[axis] + index;
    }
    return NST_OK;
}

NstStatus nst_weight_read_sparse(NstCtx *ctx, NstOnnxModel *model, const Onnx__SparseTensorProto *sparse,
                                 const char *what, NstWeight *weight)
{
    NstWeight values, indices;
    NST_CHECK(ctx, sparse->values && sparse->indices, NST_E_MODEL, "%s: values and indices must be there", what);
    NST_TRY(nst_weight_read(ctx, model, sparse->values, what, &values));
    NST_TRY(nst_weight_read(ctx, model, sparse->indices, what, &indices));
    size_t size = (size_t)nst_dtype_info(values.dtype)->bytes;
    *weight = (NstWeight){.dtype = values.dtype};
    NST_TRY(read_shape(ctx, sparse, what, (int64_t)size, weight));
    bool fits = indices.rank == 1 || (indices.rank == 2 && indices.shape[1] == weight->rank);
    NST_CHECK(
        ctx, values.rank == 1 && indices.dtype == NST_I64 && fits && indices.shape[0] == values.count, NST_E_MODEL,
        "%s: values of rank %d (%lld), indices of type %s and rank %d, allowed: values [n], i64 indices [n] or [n, %d]",
        what, values.rank, (long long)values.count, nst_dtype_info(indices.dtype)->name, indices.rank, weight->rank);
    weight->bytes = (size_t)weight->count * size;
    char *dense = nst_alloc_aligned(model->arena, weight->bytes ? weight->bytes : 1, 64);
    memset(dense, 0, weight->bytes);
    weight->data = dense;
    int64_t before = -1;
    for (int64_t k = 0; k < values.count; k++) {
        int64_t place = 0;
        NST_TRY(place_of(ctx, weight, &indices, what, k, &place));
        NST_CHECK(ctx, place > before, NST_E_MODEL,
                  "%s: entry %lld is not behind the one before, allowed: ascending, none twice", what, (long long)k);
        before = place;
        memcpy(dense + (size_t)place * size, (const char *)values.data + (size_t)k * size, size);
    }
    return NST_OK;
}
