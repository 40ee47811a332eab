/* import_custom.c: nodes of registered operators: their types by the caller's infer, then one host node. */
#include "frontend/import_impl.h"

#define TYPE(name) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##name

static NstStatus one_attr(NstImport *m, const NstLower *c, const NstAttr *from, NstCustomAttr *to)
{
    float *one = NST_NEW_ARRAY(m->scratch, float, 1);
    *one = (float)from->f;
    *to = (NstCustomAttr){.name = from->name, .n = 1, .ints = &from->i, .floats = one, .texts = &from->s};
    switch (from->type) {
    case TYPE(INT): to->kind = NST_CUSTOM_INT; return NST_OK;
    case TYPE(FLOAT): to->kind = NST_CUSTOM_FLOAT; return NST_OK;
    case TYPE(STRING): to->kind = NST_CUSTOM_TEXT; return NST_OK;
    case TYPE(INTS): to->kind = NST_CUSTOM_INTS; break;
    case TYPE(FLOATS): to->kind = NST_CUSTOM_FLOATS; break;
    case TYPE(STRINGS): to->kind = NST_CUSTOM_TEXTS; break;
    default:
        NST_FAIL(m->ctx, NST_E_UNSUPPORTED,
                 "%s: attribute '%s' has type %d; registered operators can have numbers, texts and lists of them",
                 c->label, from->name, from->type);
    }
    NST_CHECK(m->ctx, from->n <= UINT16_MAX, NST_E_LIMIT, "%s: attribute '%s' has %zu values, allowed: at most %d",
              c->label, from->name, from->n, UINT16_MAX);
    to->n = (uint32_t)from->n;
    to->ints = from->ints;
    to->floats = from->floats;
    to->texts = from->strings;
    return NST_OK;
}

static NstStatus input_types(NstImport *m, const NstLower *c, NstOperatorType *in, bool *given)
{
    for (int k = 0; k < c->n_ins; k++) {
        given[k] = c->ins[k].i != 0;
        if (!given[k]) continue;
        const NstType *t = nst_value_type(m->graph, c->ins[k]);
        NST_CHECK(m->ctx, t->kind == NST_TYPE_TENSOR && t->dtype != NST_STR, NST_E_UNSUPPORTED,
                  "%s: input %d is no tensor of numbers; registered operators take no other", c->label, k);
        in[k].dtype = t->dtype;
        in[k].rank = t->rank;
        for (int d = 0; d < t->rank; d++)
            if (!nst_dim_is_const(m->graph->dims, t->shape[d], &in[k].shape[d])) in[k].shape[d] = -1;
    }
    return NST_OK;
}

/* One size that infer has set, as a dim. */
static NstStatus output_size(NstImport *m, NstLower *c, int k, int d, int64_t size, NstDim *made)
{
    uint32_t input;
    int axis;
    if (size == NST_COUNTED_SIZE) {
        *made = counted(c, 0);
    } else if (nst_custom_same(size, &input, &axis)) {
        bool there = input < (uint32_t)c->n_ins && c->ins[input].i != 0 && axis < rank(c, c->ins[input]);
        NST_CHECK(m->ctx, there, NST_E_SHAPE,
                  "%s: output %d: infer gives axis %d the size of axis %d of input %u, which there is not", c->label, k,
                  d, axis, input);
        *made = dim(c, c->ins[input], axis);
    } else {
        NST_CHECK(m->ctx, size <= NST_MAX_TENSOR_BYTES, NST_E_LIMIT,
                  "%s: output %d: infer gives axis %d the size %lld, allowed: at most %lld", c->label, k, d,
                  (long long)size, (long long)NST_MAX_TENSOR_BYTES);
        *made = num(c, size);
    }
    return nst_build_status(m->b);
}

static NstStatus output_type(NstImport *m, NstLower *c, int k, const NstOperatorType *from, NstType *type)
{
    NstDim shape[NST_MAX_RANK];
    NST_CHECK(m->ctx, from->dtype > NST_DTYPE_NONE && from->dtype < NST_DTYPE_COUNT && from->dtype != NST_STR,
              NST_E_TYPE, "%s: output %d: infer gives element type %d, allowed: those of numbers", c->label, k,
              (int)from->dtype);
    NST_CHECK(m->ctx, from->rank >= 0 && from->rank <= NST_MAX_RANK, NST_E_SHAPE,
              "%s: output %d: infer gives rank %d, allowed: 0 to %d", c->label, k, (int)from->rank, NST_MAX_RANK);
    for (int d = 0; d < from->rank; d++) NST_TRY(output_size(m, c, k, d, from->shape[d], &shape[d]));
    *type = nst_tensor_type(m->graph->arena, from->dtype, from->rank, shape);
    return NST_OK;
}

static NstStatus check_count(NstImport *m, const NstLower *c, const char *what, int n, int lo, int hi)
{
    if (hi < 0) hi = UINT16_MAX;
    NST_CHECK(m->ctx, n >= lo && n <= hi, NST_E_MODEL, "%s: %d %s, the registered operator has %d to %d", c->label, n,
              what, lo, hi);
    return NST_OK;
}

NstStatus nst_import_custom(NstImport *m, const NstOperator *op, const Onnx__NodeProto *node, NstLower *c)
{
    NST_TRY(check_count(m, c, "inputs", c->n_ins, op->min_inputs, op->max_inputs));
    NST_TRY(check_count(m, c, "outputs", c->n_outs, op->min_outputs, op->max_outputs));
    NST_TRY(nst_attrs_read(m->ctx, m->scratch, NULL, c->label, node, m->context->attrs, &c->attrs));
    uint32_t n_in = (uint32_t)c->n_ins, n_out = (uint32_t)c->n_outs, n_given = 0;
    NstCustomAttr *attr = NST_NEW_ARRAY(m->scratch, NstCustomAttr, c->attrs.list.n);
    NstOperatorType *in = NST_NEW_ARRAY(m->scratch, NstOperatorType, n_in);
    NstOperatorType *out = NST_NEW_ARRAY(m->scratch, NstOperatorType, n_out);
    bool *given = NST_NEW_ARRAY(m->scratch, bool, n_in);
    NstType *types = NST_NEW_ARRAY(m->scratch, NstType, n_out);
    NstVal *from = NST_NEW_ARRAY(m->scratch, NstVal, n_in);
    for (uint32_t k = 0; k < c->attrs.list.n; k++) NST_TRY(one_attr(m, c, &c->attrs.list.at[k], &attr[k]));
    NST_TRY(input_types(m, c, in, given));
    NstCustomNode form = {n_in, n_out, c->attrs.list.n, given, out, attr};
    NstOperatorCall call = {.node = &form};
    NST_TRY(nst_custom_outcome(m->ctx, c->label, &call, op->infer(op->user, &call, in, n_in, out, n_out)));
    for (uint32_t k = 0; k < n_out; k++) NST_TRY(output_type(m, c, (int)k, &out[k], &types[k]));
    for (uint32_t k = 0; k < n_in; k++)
        if (given[k]) from[n_given++] = c->ins[k];
    const char *config = nst_custom_node_text(m->graph->arena, &form);
    return nst_build_host(m->b, nst_custom_name(m->graph->arena, op), config, n_given, from, types, n_out, c->outs);
}
