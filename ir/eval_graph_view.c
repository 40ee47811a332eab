/* eval_graph_view.c: sources, views and update_slice of the graph interpreter. */
#include "ir/eval_graph.h"
#include "ir/random.h"

/* --- sources --------------------------------------------------------------------------------------------------- */

/* Shape of the node's stated output type. */
static NstStatus stated_shape(NstEvalNode *n, int64_t *shape)
{
    const NstType *type = nst_value_type(n->eval->graph, n->node->out[0]);
    for (int k = 0; k < type->rank; k++) NST_TRY(nst_eval_dim(n->eval, type->shape[k], &shape[k]));
    return NST_OK;
}

static NstStatus eval_const(NstEvalNode *n, const NstType *type, const int64_t *shape)
{
    const NstConst *constant = &n->node->attr.constant;
    NST_TRY(nst_eval_new(n->eval, type->dtype, type->rank, shape, &n->out[0]));
    if (constant->data) {
        NST_CHECK(n->eval->ctx, constant->bytes == n->out[0].t.bytes, NST_E_SHAPE, "%zu bytes of data, allowed: %zu",
                  constant->bytes, n->out[0].t.bytes);
        n->out[0].t.data = (void *)(uintptr_t)constant->data; /* never written */
        return NST_OK;
    }
    int64_t count = nst_eval_count(&n->out[0].t);
    for (int64_t i = 0; i < count; i++) nst_eval_put(&n->out[0].t, i, constant->splat);
    return NST_OK;
}

static NstStatus eval_random_bits(NstEvalNode *n, const NstType *type, const int64_t *shape)
{
    const NstTensorValue *key = &n->in[0]->t;
    NST_CHECK(n->eval->ctx, nst_eval_count(key) == 2, NST_E_SHAPE, "key of %lld elements, allowed: 2",
              (long long)nst_eval_count(key));
    const uint64_t words[2] = {nst_eval_get(key, 0).bits, nst_eval_get(key, 1).bits};
    NST_TRY(nst_eval_new(n->eval, NST_U32, type->rank, shape, &n->out[0]));
    nst_random_bits(words, n->out[0].t.data, (size_t)nst_eval_count(&n->out[0].t));
    return NST_OK;
}

NstStatus nst_eval_source(NstEvalNode *n)
{
    const NstType *type = nst_value_type(n->eval->graph, n->node->out[0]);
    int64_t shape[NST_MAX_RANK], value;
    NST_TRY(stated_shape(n, shape));
    if (n->node->prim == NST_PRIM_CONST) return eval_const(n, type, shape);
    if (n->node->prim == NST_PRIM_RANDOM_BITS) return eval_random_bits(n, type, shape);
    if (n->node->prim == NST_PRIM_DIM_VALUE) {
        NST_TRY(nst_eval_dim(n->eval, n->node->attr.dim_value.dim, &value));
        NST_TRY(nst_eval_new(n->eval, NST_I64, 0, NULL, &n->out[0]));
        nst_eval_put(&n->out[0].t, 0, (NstScalar){.i = value});
        return NST_OK;
    }
    NST_TRY(nst_eval_dim(n->eval, n->node->attr.iota.extent, &value));
    NST_TRY(nst_eval_new(n->eval, NST_I64, 1, &value, &n->out[0]));
    for (int64_t i = 0; i < value; i++) nst_eval_put(&n->out[0].t, i, (NstScalar){.i = i});
    return NST_OK;
}

/* --- views ----------------------------------------------------------------------------------------------------- */

/* What a view needs to say where an output element comes from. */
typedef struct View {
    NstEvalNode *n;
    int64_t start[NST_MAX_RANK]; /* slice; lo of pad and window */
    int64_t step[NST_MAX_RANK];  /* slice; interior + 1 of pad */
} View;

/* Index in an axis of extent n where the padded index p reads; -1 for a padding constant. */
static int64_t padded_index(NstPadMode mode, int64_t p, int64_t n)
{
    if (mode == NST_PAD_CONSTANT) return p >= 0 && p < n ? p : -1;
    if (mode == NST_PAD_EDGE) return p < 0 ? 0 : p >= n ? n - 1 : p;
    int64_t period = mode == NST_PAD_WRAP ? n : n > 1 ? 2 * (n - 1) : 1;
    int64_t r = p % period;
    if (r < 0) r += period;
    return mode == NST_PAD_WRAP || r < n ? r : period - r;
}

/* Writes the operand's index for an output index; false: padding. */
static bool source_index(const View *view, const int64_t *out, int64_t *in)
{
    const NstNode *node = view->n->node;
    const NstTensorValue *x = &view->n->in[0]->t;
    if (node->prim == NST_PRIM_PERMUTE) {
        for (int k = 0; k < x->rank; k++) in[node->attr.permute.order[k]] = out[k];
    } else if (node->prim == NST_PRIM_EXPAND) {
        for (int k = 0; k < x->rank; k++) in[k] = x->shape[k] == 1 ? 0 : out[k];
    } else if (node->prim == NST_PRIM_SLICE) {
        for (int k = 0; k < x->rank; k++) in[k] = view->start[k] + out[k] * view->step[k];
    } else if (node->prim == NST_PRIM_PAD) {
        for (int k = 0; k < x->rank; k++) {
            int64_t p = out[k] - view->start[k], step = view->step[k];
            if (step > 1 && (p < 0 || p % step != 0)) return false;
            in[k] = padded_index(node->attr.pad.mode, step > 1 ? p / step : p, x->shape[k]);
            if (in[k] < 0) return false;
        }
    } else {
        memcpy(in, out, sizeof *in * (size_t)x->rank);
        for (int w = 0; w < node->attr.window.n; w++) {
            int axis = node->attr.window.axis[w];
            in[axis] = out[axis] * node->attr.window.stride[w] + out[x->rank + w] * node->attr.window.dilation[w] -
                       view->start[w];
            if (in[axis] < 0 || in[axis] >= x->shape[axis]) return false;
        }
    }
    return true;
}

/* Copies every element of the output from where the view says.  Marks of padding are carried on, but for pad. */
static NstStatus copy_view(const View *view)
{
    NstEvalNode *n = view->n;
    const NstEvalValue *x = n->in[0];
    NstEvalValue *out = &n->out[0];
    size_t size = (size_t)nst_dtype_info(x->t.dtype)->bytes;
    int64_t index[NST_MAX_RANK] = {0}, from[NST_MAX_RANK], position = 0;
    bool window = n->node->prim == NST_PRIM_WINDOW, carry = n->node->prim != NST_PRIM_PAD && (x->pad || window);
    if (nst_eval_count(&out->t) == 0) return NST_OK;
    uint8_t *pad = carry ? nst_alloc(n->eval->arena, (size_t)nst_eval_count(&out->t)) : NULL;
    do {
        char *to = (char *)out->t.data + (size_t)position * size;
        if (source_index(view, index, from)) {
            int64_t at = nst_eval_position(&x->t, from);
            memcpy(to, (const char *)x->t.data + (size_t)at * size, size);
            if (pad && x->pad) pad[position] = x->pad[at];
        } else {
            if (n->node->n_in > 1) memcpy(to, n->in[1]->t.data, size);
            if (pad) pad[position] = 1;
        }
        position++;
    } while (nst_eval_next(out->t.rank, out->t.shape, index));
    out->pad = pad;
    return NST_OK;
}

/* Starts and steps of a slice of `size`, which must lie inside the operand. */
static NstStatus slice_bounds(NstEvalNode *n, const int64_t *size, View *view)
{
    const NstAttrs *a = &n->node->attr;
    const NstTensorValue *x = &n->in[0]->t;
    for (int k = 0; k < x->rank; k++) {
        int input = a->slice.start_input ? a->slice.start_input[k] : 0;
        view->step[k] = a->slice.step ? a->slice.step[k] : 1;
        if (input > 0)
            view->start[k] = nst_eval_get(&n->in[input]->t, 0).i;
        else
            NST_TRY(nst_eval_dim(n->eval, a->slice.start[k], &view->start[k]));
        if (size[k] <= 0) continue;
        NstStatus code = input > 0 ? NST_E_INDEX : NST_E_SHAPE;
        int64_t span, last;
        bool over = __builtin_mul_overflow(size[k] - 1, view->step[k], &span) ||
                    __builtin_add_overflow(view->start[k], span, &last);
        if (over || view->start[k] < 0 || view->start[k] >= x->shape[k])
            return nst_eval_outside(n->eval, code, k, view->start[k], x->shape[k]);
        if (last < 0 || last >= x->shape[k]) return nst_eval_outside(n->eval, code, k, last, x->shape[k]);
    }
    return NST_OK;
}

static NstStatus pad_shape(NstEvalNode *n, int64_t *shape, View *view)
{
    const NstAttrs *a = &n->node->attr;
    const NstTensorValue *x = &n->in[0]->t;
    for (int k = 0; k < x->rank; k++) {
        int64_t hi, inner, extent = x->shape[k];
        NST_TRY(nst_eval_dim(n->eval, a->pad.lo[k], &view->start[k]));
        NST_TRY(nst_eval_dim(n->eval, a->pad.hi[k], &hi));
        view->step[k] = 1 + (a->pad.interior ? a->pad.interior[k] : 0);
        bool over = __builtin_mul_overflow(extent > 0 ? extent - 1 : 0, view->step[k], &inner) ||
                    __builtin_add_overflow(inner, extent > 0, &inner) ||
                    __builtin_add_overflow(inner, view->start[k], &inner) ||
                    __builtin_add_overflow(inner, hi, &shape[k]);
        NST_CHECK(n->eval->ctx, !over, NST_E_LIMIT, "padded extent of axis %d does not fit 64 bits", k);
        NST_CHECK(n->eval->ctx, extent > 0 || shape[k] == 0 || a->pad.mode == NST_PAD_CONSTANT, NST_E_SHAPE,
                  "axis %d is empty, allowed for a result that is not: constant mode", k);
    }
    return NST_OK;
}

static NstStatus window_shape(NstEvalNode *n, int64_t *shape, View *view)
{
    const NstAttrs *a = &n->node->attr;
    const NstTensorValue *x = &n->in[0]->t;
    memcpy(shape, x->shape, sizeof *shape * (size_t)x->rank);
    for (int w = 0; w < a->window.n; w++) {
        int axis = a->window.axis[w];
        int64_t size, hi, room;
        NST_TRY(nst_eval_dim(n->eval, a->window.size[w], &size));
        NST_TRY(nst_eval_dim(n->eval, a->window.lo[w], &view->start[w]));
        NST_TRY(nst_eval_dim(n->eval, a->window.hi[w], &hi));
        bool over = size < 1 || __builtin_mul_overflow(size - 1, a->window.dilation[w], &room) ||
                    __builtin_sub_overflow(x->shape[axis] - 1, room, &room) ||
                    __builtin_add_overflow(room, view->start[w], &room) || __builtin_add_overflow(room, hi, &room);
        NST_CHECK(n->eval->ctx, !over && room >= -a->window.stride[w], NST_E_SHAPE,
                  "window of size %lld over axis %d of extent %lld with padding %lld and %lld does not fit",
                  (long long)size, axis, (long long)x->shape[axis], (long long)view->start[w], (long long)hi);
        shape[axis] = room < 0 ? 0 : room / a->window.stride[w] + 1;
        shape[x->rank + w] = size;
    }
    return NST_OK;
}

/* expand: an extent of 1 becomes any, others stay. */
static NstStatus check_expand(NstEvalNode *n, const int64_t *shape)
{
    const NstTensorValue *x = &n->in[0]->t;
    for (int k = 0; k < x->rank; k++)
        NST_CHECK(n->eval->ctx, x->shape[k] == 1 || x->shape[k] == shape[k], NST_E_SHAPE,
                  "extent %lld of axis %d expanded to %lld, allowed: from 1, or equal", (long long)x->shape[k], k,
                  (long long)shape[k]);
    return NST_OK;
}

static NstStatus eval_reshape(NstEvalNode *n, const int64_t *shape)
{
    const NstType *type = nst_value_type(n->eval->graph, n->node->out[0]);
    int64_t count = 1;
    for (int k = 0; k < type->rank; k++)
        NST_CHECK(n->eval->ctx, !__builtin_mul_overflow(count, shape[k], &count), NST_E_LIMIT, "too many elements");
    NST_CHECK(n->eval->ctx, count == nst_eval_count(&n->in[0]->t), NST_E_SHAPE,
              "%lld elements reshaped to %lld, allowed: equal", (long long)nst_eval_count(&n->in[0]->t),
              (long long)count);
    n->out[0] = *n->in[0];
    n->out[0].t.rank = type->rank;
    for (int k = 0; k < type->rank; k++) n->out[0].t.shape[k] = shape[k];
    return NST_OK;
}

/* reshape, permute, expand, slice, pad, window */
NstStatus nst_eval_view(NstEvalNode *n)
{
    const NstTensorValue *x = &n->in[0]->t;
    View view = {.n = n};
    int64_t shape[2 * NST_MAX_RANK];
    int rank = x->rank;
    switch (n->node->prim) {
    case NST_PRIM_RESHAPE: NST_TRY(stated_shape(n, shape)); return eval_reshape(n, shape);
    case NST_PRIM_PERMUTE:
        for (int k = 0; k < rank; k++) shape[k] = x->shape[n->node->attr.permute.order[k]];
        break;
    case NST_PRIM_EXPAND:
        NST_TRY(stated_shape(n, shape));
        NST_TRY(check_expand(n, shape));
        break;
    case NST_PRIM_SLICE:
        NST_TRY(stated_shape(n, shape));
        NST_TRY(slice_bounds(n, shape, &view));
        break;
    case NST_PRIM_PAD: NST_TRY(pad_shape(n, shape, &view)); break;
    default:
        NST_TRY(window_shape(n, shape, &view));
        rank += n->node->attr.window.n;
        break;
    }
    NST_TRY(nst_eval_new(n->eval, x->dtype, rank, shape, &n->out[0]));
    return copy_view(&view);
}

NstStatus nst_eval_concat(NstEvalNode *n)
{
    const NstTensorValue *x = &n->in[0]->t;
    int axis = n->node->attr.concat.axis;
    int64_t shape[NST_MAX_RANK], offset = 0;
    size_t size = (size_t)nst_dtype_info(x->dtype)->bytes;
    memcpy(shape, x->shape, sizeof shape);
    for (uint32_t k = 1; k < n->node->n_in; k++) {
        const NstTensorValue *y = &n->in[k]->t;
        for (int a = 0; a < x->rank; a++)
            NST_CHECK(n->eval->ctx, a == axis || y->shape[a] == x->shape[a], NST_E_SHAPE,
                      "input %u has extent %lld at axis %d, input 0 has %lld, allowed: equal", k,
                      (long long)y->shape[a], a, (long long)x->shape[a]);
        NST_CHECK(n->eval->ctx, !__builtin_add_overflow(shape[axis], y->shape[axis], &shape[axis]), NST_E_LIMIT,
                  "joined extent does not fit 64 bits");
    }
    NST_TRY(nst_eval_new(n->eval, x->dtype, x->rank, shape, &n->out[0]));
    for (uint32_t k = 0; k < n->node->n_in; k++) {
        const NstTensorValue *y = &n->in[k]->t;
        int64_t index[NST_MAX_RANK] = {0}, to[NST_MAX_RANK], position = 0;
        if (nst_eval_count(y) != 0) {
            do {
                memcpy(to, index, sizeof to);
                to[axis] += offset;
                char *at = (char *)n->out[0].t.data + (size_t)nst_eval_position(&n->out[0].t, to) * size;
                memcpy(at, (const char *)y->data + (size_t)position++ * size, size);
            } while (nst_eval_next(y->rank, y->shape, index));
        }
        offset += y->shape[axis];
    }
    return NST_OK;
}

NstStatus nst_eval_update_slice(NstEvalNode *n)
{
    const NstTensorValue *base = &n->in[0]->t, *update = &n->in[1]->t;
    View view = {.n = n};
    int64_t index[NST_MAX_RANK] = {0}, to[NST_MAX_RANK], position = 0;
    size_t size = (size_t)nst_dtype_info(base->dtype)->bytes;
    NST_TRY(slice_bounds(n, update->shape, &view));
    NST_TRY(nst_eval_new(n->eval, base->dtype, base->rank, base->shape, &n->out[0]));
    if (base->bytes > 0) memcpy(n->out[0].t.data, base->data, base->bytes);
    if (nst_eval_count(update) == 0) return NST_OK;
    do {
        for (int k = 0; k < base->rank; k++) to[k] = view.start[k] + index[k];
        char *at = (char *)n->out[0].t.data + (size_t)nst_eval_position(base, to) * size;
        memcpy(at, (const char *)update->data + (size_t)position++ * size, size);
    } while (nst_eval_next(update->rank, update->shape, index));
    return NST_OK;
}
