/* eval_graph_index.c: gather, scatter and compact of the graph interpreter. */
#include "ir/eval_graph.h"

/* Brings an index into 0..n-1 as the mode says; *skip: outside in fill mode. */
static NstStatus apply_mode(NstEvalNode *n, NstIndexMode mode, NstScalar raw, NstDtype type, int64_t extent,
                            int64_t *at, bool *skip)
{
    bool huge = type == NST_U64 && raw.i < 0; /* above INT64_MAX */
    *at = huge ? INT64_MAX : raw.i;
    *skip = false;
    if (*at >= 0 && *at < extent) return NST_OK;
    if (mode == NST_INDEX_CHECKED || (mode == NST_INDEX_CLAMPED && extent == 0))
        NST_FAIL(n->eval->ctx, NST_E_INDEX, "index %lld, allowed: 0 to below %lld", (long long)*at, (long long)extent);
    *skip = mode == NST_INDEX_FILL;
    *at = *at < 0 ? 0 : extent - 1;
    return NST_OK;
}

NstStatus nst_eval_gather(NstEvalNode *n)
{
    const NstTensorValue *data = &n->in[0]->t, *indices = &n->in[1]->t;
    int axis = n->node->attr.gather.axis, batch = n->node->attr.gather.batch, rank = 0;
    int64_t shape[2 * NST_MAX_RANK], index[NST_MAX_RANK] = {0}, from[NST_MAX_RANK], where[NST_MAX_RANK], position = 0;
    int middle = indices->rank - batch; /* axes of the output that index the indices */
    for (int k = 0; k < batch; k++)
        NST_CHECK(n->eval->ctx, data->shape[k] == indices->shape[k], NST_E_SHAPE,
                  "batch axis %d has extents %lld and %lld, allowed: equal", k, (long long)data->shape[k],
                  (long long)indices->shape[k]);
    for (int k = 0; k < axis; k++) shape[rank++] = data->shape[k];
    for (int k = batch; k < indices->rank; k++) shape[rank++] = indices->shape[k];
    for (int k = axis + 1; k < data->rank; k++) shape[rank++] = data->shape[k];
    NST_TRY(nst_eval_new(n->eval, data->dtype, rank, shape, &n->out[0]));
    if (nst_eval_count(&n->out[0].t) == 0) return NST_OK;
    size_t size = (size_t)nst_dtype_info(data->dtype)->bytes;
    do {
        bool skip;
        for (int k = 0; k < indices->rank; k++) where[k] = k < batch ? index[k] : index[axis + k - batch];
        for (int k = 0; k < data->rank; k++) from[k] = k < axis ? index[k] : k > axis ? index[k - 1 + middle] : 0;
        NstScalar raw = nst_eval_get(indices, nst_eval_position(indices, where));
        NST_TRY(apply_mode(n, n->node->attr.gather.mode, raw, indices->dtype, data->shape[axis], &from[axis], &skip));
        char *to = (char *)n->out[0].t.data + (size_t)position++ * size; /* zero already */
        if (!skip) memcpy(to, (const char *)data->data + (size_t)nst_eval_position(data, from) * size, size);
    } while (nst_eval_next(rank, shape, index));
    return NST_OK;
}

/* Shapes of indices and updates against the data. */
static NstStatus check_scatter(NstEvalNode *n, int axis, bool elementwise)
{
    const NstTensorValue *data = &n->in[0]->t, *indices = &n->in[1]->t, *updates = &n->in[2]->t;
    for (int k = 0; k < updates->rank; k++) {
        int64_t wanted = elementwise                ? indices->shape[k]
                         : k < axis                 ? data->shape[k]
                         : k < axis + indices->rank ? indices->shape[k - axis]
                                                    : data->shape[k - indices->rank + 1];
        NST_CHECK(n->eval->ctx, updates->shape[k] == wanted, NST_E_SHAPE,
                  "updates have extent %lld at axis %d, allowed: %lld", (long long)updates->shape[k], k,
                  (long long)wanted);
        NST_CHECK(n->eval->ctx, !elementwise || k == axis || wanted <= data->shape[k], NST_E_SHAPE,
                  "indices have extent %lld at axis %d, allowed: at most the data's %lld", (long long)wanted, k,
                  (long long)data->shape[k]);
    }
    return NST_OK;
}

/* Moves an update of any type, or combines it with what is there. */
static void put_update(NstEvalNode *n, NstEvalFormula *combine, int64_t to, int64_t from)
{
    NstTensorValue *data = &n->out[0].t;
    const NstTensorValue *updates = &n->in[2]->t;
    size_t size = (size_t)nst_dtype_info(data->dtype)->bytes;
    if (combine) {
        NstScalar pair[2] = {nst_eval_get(data, to), nst_eval_get(updates, from)};
        nst_eval_put(data, to, nst_eval_formula(combine, pair));
    } else {
        memcpy((char *)data->data + (size_t)to * size, (const char *)updates->data + (size_t)from * size, size);
    }
}

NstStatus nst_eval_scatter(NstEvalNode *n)
{
    const NstTensorValue *data = &n->in[0]->t, *indices = &n->in[1]->t, *updates = &n->in[2]->t;
    const NstAttrs *a = &n->node->attr;
    int axis = a->scatter.axis, q = indices->rank;
    bool elementwise = a->scatter.elementwise;
    int64_t index[NST_MAX_RANK] = {0}, to[NST_MAX_RANK];
    NstEvalFormula combine;
    if (a->scatter.combine.i != 0) NST_TRY(nst_eval_formula_init(n->eval, a->scatter.combine, &combine));
    NST_TRY(check_scatter(n, axis, elementwise));
    NST_TRY(nst_eval_new(n->eval, data->dtype, data->rank, data->shape, &n->out[0]));
    if (data->bytes > 0) memcpy(n->out[0].t.data, data->data, data->bytes);
    if (nst_eval_count(updates) == 0) return NST_OK;
    int64_t position = 0;
    do {
        bool skip;
        for (int k = 0; k < data->rank; k++)
            to[k] = elementwise || k < axis ? index[k] : k > axis ? index[k - 1 + q] : 0;
        int64_t where = elementwise ? position : nst_eval_position(indices, index + axis);
        NST_TRY(apply_mode(n, a->scatter.mode, nst_eval_get(indices, where), indices->dtype, data->shape[axis],
                           &to[axis], &skip));
        int64_t from = position++;
        if (!skip) put_update(n, a->scatter.combine.i != 0 ? &combine : NULL, nst_eval_position(data, to), from);
    } while (nst_eval_next(updates->rank, updates->shape, index));
    return NST_OK;
}

NstStatus nst_eval_compact(NstEvalNode *n)
{
    const NstTensorValue *mask = &n->in[0]->t;
    int axis = n->node->attr.compact.axis;
    int64_t count = 0;
    for (int64_t i = 0; i < mask->shape[0]; i++) count += nst_eval_get(mask, i).i != 0;
    for (uint32_t k = 1; k < n->node->n_in; k++) {
        const NstTensorValue *x = &n->in[k]->t;
        size_t size = (size_t)nst_dtype_info(x->dtype)->bytes;
        int64_t shape[NST_MAX_RANK], index[NST_MAX_RANK] = {0}, position = 0, to = 0;
        memcpy(shape, x->shape, sizeof shape);
        NST_CHECK(n->eval->ctx, x->shape[axis] == mask->shape[0], NST_E_SHAPE,
                  "mask of %lld elements for an axis of %lld, allowed: equal", (long long)mask->shape[0],
                  (long long)x->shape[axis]);
        shape[axis] = count;
        NST_TRY(nst_eval_new(n->eval, x->dtype, x->rank, shape, &n->out[k - 1]));
        if (nst_eval_count(&n->out[k - 1].t) == 0) continue;
        do {
            if (nst_eval_get(mask, index[axis]).i != 0)
                memcpy((char *)n->out[k - 1].t.data + (size_t)to++ * size,
                       (const char *)x->data + (size_t)position * size, size);
            position++;
        } while (nst_eval_next(x->rank, x->shape, index));
    }
    return NST_OK;
}
