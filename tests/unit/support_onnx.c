/* support_onnx.c: see support_onnx.h. */
#include "tests/unit/support_onnx.h"

#include <string.h>

static void varint(NstText *t, uint64_t v)
{
    for (; v > 127; v >>= 7) nst_text_add_n(t, (char[]){(char)(v | 0x80)}, 1);
    nst_text_add_n(t, (char[]){(char)v}, 1);
}

void pb_int(NstText *message, unsigned field, int64_t value)
{
    varint(message, (uint64_t)field << 3);
    varint(message, (uint64_t)value);
}

void pb_bytes(NstText *message, unsigned field, const void *bytes, size_t n)
{
    varint(message, (uint64_t)field << 3 | 2);
    varint(message, n);
    nst_text_add_n(message, bytes, n);
}

void pb_text(NstText *message, unsigned field, const char *text)
{
    pb_bytes(message, field, text, strlen(text));
}

void pb_message(NstText *message, unsigned field, const NstText *part)
{
    pb_bytes(message, field, nst_text_get(part), part->n);
}

void pb_float(NstText *message, unsigned field, float value)
{
    varint(message, (uint64_t)field << 3 | 5);
    nst_text_add_n(message, (const char *)&value, 4);
}

static NstText part(NstArena *arena)
{
    NstText t;
    nst_text_init(&t, arena);
    return t;
}

OnnxModel onnx_model(NstArena *arena)
{
    return (OnnxModel){.arena = arena, .graph = part(arena), .ir_version = 8, .opset = 17, .domain_version = 1};
}

static void value_info(OnnxModel *m, unsigned field, const char *name, int type, const int64_t *shape)
{
    NstText info = part(m->arena), proto = part(m->arena), tensor = part(m->arena), dims = part(m->arena);
    pb_int(&tensor, 1, type);
    for (; shape && *shape != INT64_MIN; shape++) {
        NstText dim = part(m->arena);
        if (*shape == -1 || *shape == ONNX_UNNAMED)
            pb_text(&dim, 2, *shape == -1 ? "N" : "?");
        else
            pb_int(&dim, 1, *shape == ONNX_MINUS_ONE ? -1 : *shape);
        pb_message(&dims, 1, &dim);
    }
    if (shape) pb_message(&tensor, 2, &dims);
    pb_message(&proto, 1, &tensor);
    pb_text(&info, 1, name);
    pb_message(&info, 2, &proto);
    pb_message(&m->graph, field, &info);
}

void onnx_input(OnnxModel *model, const char *name, int type, const int64_t *shape)
{
    value_info(model, 11, name, type, shape);
}

void onnx_output(OnnxModel *model, const char *name, int type, const int64_t *shape)
{
    value_info(model, 12, name, type, shape);
}

static void names(NstText *node, unsigned field, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, " ");
        bool absent = n == 1 && *list == '-';
        pb_bytes(node, field, list, absent ? 0 : n);
        list += n + (list[n] == ' ');
    }
}

void onnx_node(OnnxModel *model, const char *op, const char *name, const char *in, const char *out,
               const NstText *attributes)
{
    NstText node = part(model->arena);
    const char *colon = strchr(op, ':');
    names(&node, 1, in);
    names(&node, 2, out);
    pb_text(&node, 3, name);
    pb_text(&node, 4, colon ? colon + 1 : op);
    if (colon) pb_bytes(&node, 7, op, (size_t)(colon - op));
    if (attributes) nst_text_add_n(&node, nst_text_get(attributes), attributes->n);
    pb_message(&model->graph, 1, &node);
}

void onnx_attr_int(NstText *attributes, const char *name, int64_t value)
{
    NstText a = part(attributes->arena);
    pb_text(&a, 1, name);
    pb_int(&a, 3, value);
    pb_int(&a, 20, 2);
    pb_message(attributes, 5, &a);
}

void onnx_attr_text(NstText *attributes, const char *name, const char *value)
{
    NstText a = part(attributes->arena);
    pb_text(&a, 1, name);
    pb_text(&a, 4, value);
    pb_int(&a, 20, 3);
    pb_message(attributes, 5, &a);
}

void onnx_attr_ints(NstText *attributes, const char *name, int n, const int64_t *value)
{
    NstText a = part(attributes->arena);
    pb_text(&a, 1, name);
    for (int k = 0; k < n; k++) pb_int(&a, 8, value[k]);
    pb_int(&a, 20, 7);
    pb_message(attributes, 5, &a);
}

void onnx_tensor(OnnxModel *model, const char *name, int type, const int64_t *shape, const void *data, size_t bytes)
{
    NstText t = part(model->arena);
    for (; *shape != INT64_MIN; shape++) pb_int(&t, 1, *shape);
    pb_int(&t, 2, type);
    pb_text(&t, 8, name);
    pb_bytes(&t, 9, data, bytes);
    pb_message(&model->graph, 5, &t);
}

void onnx_attr_graph(NstText *attributes, const char *name, const OnnxModel *graph)
{
    NstText attribute = part(graph->arena);
    pb_text(&attribute, 1, name);
    pb_message(&attribute, 6, &graph->graph);
    pb_int(&attribute, 20, 5);
    pb_message(attributes, 5, &attribute);
}

void onnx_floats(OnnxModel *model, const char *name, const int64_t *shape, const float *value, size_t n)
{
    onnx_tensor(model, name, 1, shape, value, n * sizeof *value);
}

void onnx_ints(OnnxModel *model, const char *name, const int64_t *shape, const int64_t *value, size_t n)
{
    onnx_tensor(model, name, 7, shape, value, n * sizeof *value);
}

NstText onnx_bytes(const OnnxModel *model)
{
    NstText m = part(model->arena), import = part(model->arena);
    pb_int(&m, 1, model->ir_version);
    pb_int(&import, 2, model->opset);
    pb_message(&m, 8, &import);
    if (model->domain) {
        NstText more = part(model->arena);
        pb_text(&more, 1, model->domain);
        pb_int(&more, 2, model->domain_version);
        pb_message(&m, 8, &more);
    }
    pb_message(&m, 7, &model->graph);
    return m;
}

const char *onnx_import(NstCtx *ctx, const NstText *bytes, NstGraph **graph)
{
    nst_ctx_clear(ctx);
    return nst_import_onnx(ctx, ctx->arena, nst_text_get(bytes), bytes->n, NULL, graph) == NST_OK ? NULL : ctx->error;
}
