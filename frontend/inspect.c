/* inspect.c: a model's declarations and the operators its nodes name; the operator table as text. */
#include "frontend/inspect.h"

#include <stdlib.h>
#include <string.h>
#include "frontend/model.h"
#include "frontend/schema.h"
#include "frontend/scope.h"
#include "ir/base/dtype.h"
#include "ir/base/vec.h"

typedef struct Inspect {
    NstArena *arena;
    const Onnx__ModelProto *model;
    const NstCustom *registered;
    NST_VEC(NstModelOperator) operators;
    uint64_t nodes, weight_bytes;
} Inspect;

/* Imports that hold for the nodes at hand: the model's, or a function's own. */
typedef struct Imports {
    Onnx__OperatorSetIdProto *const *at;
    size_t n;
} Imports;

static const char *copy(Inspect *in, const char *text)
{
    return nst_strdup(in->arena, text ? text : "");
}

/* --- types ----------------------------------------------------------------------------------------------------- */

static const char *element_name(int32_t onnx)
{
    NstDtype dtype = nst_dtype_from_onnx(onnx);
    return dtype == NST_DTYPE_NONE ? "?" : nst_dtype_info(dtype)->name;
}

static const char *type_text(Inspect *in, const Onnx__TypeProto *type)
{
    switch (type ? type->value_case : ONNX__TYPE_PROTO__VALUE__NOT_SET) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE: return element_name(type->tensor_type->elem_type);
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        return nst_format(in->arena, "seq(%s)", type_text(in, type->sequence_type->elem_type));
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        return nst_format(in->arena, "optional(%s)", type_text(in, type->optional_type->elem_type));
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE:
        return nst_format(in->arena, "map(%s, %s)", element_name(type->map_type->key_type),
                          type_text(in, type->map_type->value_type));
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
        return nst_format(in->arena, "sparse(%s)", element_name(type->sparse_tensor_type->elem_type));
    default: return "?";
    }
}

static NstModelPort port_of(Inspect *in, const Onnx__ValueInfoProto *value)
{
    const Onnx__TypeProto *type = value->type;
    NstModelPort port = {.name = copy(in, value->name), .type = type_text(in, type), .rank = -1};
    if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) return port;
    const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
    port.dtype = nst_dtype_from_onnx(type->tensor_type->elem_type);
    if (!shape || shape->n_dim > NST_TENSOR_MAX_RANK) return port;
    port.rank = (int32_t)shape->n_dim;
    for (size_t k = 0; k < shape->n_dim; k++) {
        const Onnx__TensorShapeProto__Dimension *dim = shape->dim[k];
        port.shape[k] = -1;
        if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) port.shape[k] = dim->dim_value;
        if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && dim->dim_param &&
            *dim->dim_param)
            port.symbol[k] = copy(in, dim->dim_param);
    }
    return port;
}

/* A name that comes again, or none, is compiling's to refuse. */
static NstStatus add_initializer(NstCtx *ctx, NstScope *initializers, const char *name)
{
    if (!name || !*name || nst_scope_find(initializers, name)) return NST_OK;
    return nst_scope_define(ctx, initializers, name, (NstVal){0}, "an initializer");
}

static NstStatus find_initializers(NstCtx *ctx, const Onnx__GraphProto *g, NstScope *initializers)
{
    for (size_t k = 0; k < g->n_initializer; k++) NST_TRY(add_initializer(ctx, initializers, g->initializer[k]->name));
    for (size_t k = 0; k < g->n_sparse_initializer; k++) {
        const Onnx__TensorProto *values = g->sparse_initializer[k]->values;
        NST_TRY(add_initializer(ctx, initializers, values ? values->name : NULL));
    }
    return NST_OK;
}

static NstStatus read_ports(NstCtx *ctx, NstArena *scratch, Inspect *in, NstModelInfo *info)
{
    const Onnx__GraphProto *g = in->model->graph;
    NstModelPort *inputs = NST_NEW_ARRAY(in->arena, NstModelPort, g->n_input);
    NstModelPort *overridable = NST_NEW_ARRAY(in->arena, NstModelPort, g->n_input);
    NstModelPort *outputs = NST_NEW_ARRAY(in->arena, NstModelPort, g->n_output);
    NstScope initializers;
    nst_scope_init(&initializers, scratch);
    NST_TRY(find_initializers(ctx, g, &initializers));
    for (size_t k = 0; k < g->n_input; k++) {
        const char *name = g->input[k]->name;
        if (name && nst_scope_find(&initializers, name))
            overridable[info->n_overridable++] = port_of(in, g->input[k]);
        else
            inputs[info->n_inputs++] = port_of(in, g->input[k]);
    }
    for (size_t k = 0; k < g->n_output; k++) outputs[info->n_outputs++] = port_of(in, g->output[k]);
    info->inputs = inputs;
    info->overridable = overridable;
    info->outputs = outputs;
    return NST_OK;
}

/* --- nodes ----------------------------------------------------------------------------------------------------- */

static void add_weight(Inspect *in, const Onnx__TensorProto *t)
{
    NstDtype dtype = nst_dtype_from_onnx(t->data_type);
    uint64_t n = 1;
    if (dtype == NST_DTYPE_NONE) return;
    for (size_t k = 0; k < t->n_dims; k++) {
        uint64_t extent = t->dims[k] > 0 ? (uint64_t)t->dims[k] : 0;
        if (extent != 0 && n > UINT64_MAX / 64 / extent) return; /* no such tensor: compiling says so */
        n *= extent;
    }
    in->weight_bytes += (n * (uint64_t)nst_dtype_info(dtype)->bits + 7) / 8;
}

static void add_sparse_weight(Inspect *in, const Onnx__SparseTensorProto *t)
{
    if (t->values) add_weight(in, t->values);
}

static int64_t version_of(const Imports *imports, const char *domain)
{
    for (size_t k = 0; k < imports->n; k++)
        if (strcmp(nst_onnx_domain(imports->at[k]->domain), domain) == 0) return imports->at[k]->version;
    return imports->n == 0 && strcmp(domain, "ai.onnx") == 0 ? 1 : 0;
}

static bool is_function(const Inspect *in, const char *domain, const char *name)
{
    for (size_t k = 0; k < in->model->n_functions; k++) {
        const Onnx__FunctionProto *f = in->model->functions[k];
        if (f->name && strcmp(f->name, name) == 0 && strcmp(nst_onnx_domain(f->domain), domain) == 0) return true;
    }
    return false;
}

/* The registered operator that compiling takes for a node, or NULL. */
static const NstOperator *find_custom(const Inspect *in, const char *domain, const char *name, int64_t imported)
{
    if (imported == 0 && strncmp(domain, "com.", 4) != 0) return NULL; /* as an exporter of com. domains may do */
    return nst_custom_find(in->registered, domain, name, imported);
}

static void add_node(Inspect *in, const Imports *imports, const Onnx__NodeProto *node)
{
    const char *domain = nst_onnx_domain(node->domain), *name = node->op_type ? node->op_type : "";
    int64_t imported = version_of(imports, domain);
    const NstOperator *custom = find_custom(in, domain, name, imported);
    const NstOpRow *row = nst_op_find(domain, name, imported);
    int64_t version = custom ? custom->version : row ? row->since : 0;
    in->nodes++;
    for (uint32_t k = 0; k < in->operators.n; k++) {
        NstModelOperator *o = &in->operators.at[k];
        if (o->version != version || strcmp(o->name, name) != 0 || strcmp(o->domain, domain) != 0) continue;
        o->nodes++;
        return;
    }
    NstOperatorState state = NST_OPERATOR_UNKNOWN;
    if (custom)
        state = NST_OPERATOR_CUSTOM;
    else if (is_function(in, domain, name))
        state = NST_OPERATOR_FUNCTION;
    else if (row)
        state = nst_op_is_implemented(row) ? NST_OPERATOR_RUNS : NST_OPERATOR_NOT_YET;
    NstModelOperator o = {copy(in, domain), copy(in, name), version, state, 1};
    nst_vec_push(in->arena, &in->operators, o);
}

static void read_nodes(Inspect *in, const Imports *imports, Onnx__NodeProto *const *node, size_t n);

static void read_subgraph(Inspect *in, const Imports *imports, const Onnx__GraphProto *g)
{
    for (size_t k = 0; k < g->n_initializer; k++) add_weight(in, g->initializer[k]);
    for (size_t k = 0; k < g->n_sparse_initializer; k++) add_sparse_weight(in, g->sparse_initializer[k]);
    read_nodes(in, imports, g->node, g->n_node);
}

/* Depth is bounded by the pre-scan of the bytes (wire.h). */
static void read_nodes(Inspect *in, const Imports *imports, Onnx__NodeProto *const *node, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        add_node(in, imports, node[k]);
        for (size_t a = 0; a < node[k]->n_attribute; a++) {
            const Onnx__AttributeProto *attribute = node[k]->attribute[a];
            if (attribute->t) add_weight(in, attribute->t); /* of a Constant: some exporters write weights so */
            for (size_t t = 0; t < attribute->n_tensors; t++) add_weight(in, attribute->tensors[t]);
            if (attribute->sparse_tensor) add_sparse_weight(in, attribute->sparse_tensor);
            for (size_t t = 0; t < attribute->n_sparse_tensors; t++)
                add_sparse_weight(in, attribute->sparse_tensors[t]);
            if (attribute->g) read_subgraph(in, imports, attribute->g);
            for (size_t g = 0; g < attribute->n_graphs; g++) read_subgraph(in, imports, attribute->graphs[g]);
        }
    }
}

static int by_name(const void *a, const void *b)
{
    const NstModelOperator *x = a, *y = b;
    int order = strcmp(x->domain, y->domain);
    if (order == 0) order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->version > y->version) - (x->version < y->version);
}

static void read_operators(Inspect *in, NstModelInfo *info)
{
    const Onnx__ModelProto *m = in->model;
    const char **functions = NST_NEW_ARRAY(in->arena, const char *, m->n_functions);
    Imports imports = {m->opset_import, m->n_opset_import};
    read_subgraph(in, &imports, m->graph);
    for (size_t k = 0; k < m->n_functions; k++) {
        const Onnx__FunctionProto *f = m->functions[k];
        Imports own = {f->opset_import, f->n_opset_import};
        functions[k] = nst_format(in->arena, "%s.%s", nst_onnx_domain(f->domain), f->name ? f->name : "");
        read_nodes(in, own.n ? &own : &imports, f->node, f->n_node);
    }
    if (in->operators.n) qsort(in->operators.at, in->operators.n, sizeof *in->operators.at, by_name);
    info->nodes = in->nodes;
    info->weight_bytes = in->weight_bytes;
    info->operators = in->operators.at;
    info->n_operators = in->operators.n;
    info->functions = functions;
    info->n_functions = (uint32_t)m->n_functions;
}

NstStatus nst_onnx_inspect(NstCtx *ctx, NstArena *arena, const void *bytes, size_t n, const NstCustom *operators,
                           NstModelInfo *info)
{
    NstArena *scratch = nst_arena_new(ctx, arena);
    NstOnnxModel *model;
    NST_TRY(nst_onnx_read(ctx, arena, scratch, bytes, n, NULL, &model));
    const Onnx__ModelProto *m = model->proto;
    Inspect in = {.arena = arena, .model = m, .registered = operators};
    NstModelOpset *opsets = NST_NEW_ARRAY(arena, NstModelOpset, m->n_opset_import);
    NstModelEntry *metadata = NST_NEW_ARRAY(arena, NstModelEntry, m->n_metadata_props);
    for (size_t k = 0; k < m->n_opset_import; k++)
        opsets[k] =
            (NstModelOpset){copy(&in, nst_onnx_domain(m->opset_import[k]->domain)), m->opset_import[k]->version};
    for (size_t k = 0; k < m->n_metadata_props; k++)
        metadata[k] = (NstModelEntry){copy(&in, m->metadata_props[k]->key), copy(&in, m->metadata_props[k]->value)};
    *info = (NstModelInfo){.format = "onnx",
                           .producer = copy(&in, m->producer_name),
                           .producer_version = copy(&in, m->producer_version),
                           .graph = copy(&in, m->graph->name),
                           .ir_version = m->ir_version,
                           .model_version = m->model_version,
                           .n_opsets = (uint32_t)m->n_opset_import,
                           .opsets = opsets,
                           .n_metadata = (uint32_t)m->n_metadata_props,
                           .metadata = metadata};
    NST_TRY(read_ports(ctx, scratch, &in, info));
    read_operators(&in, info);
    nst_arena_free(scratch);
    return NST_OK;
}

/* --- the table --------------------------------------------------------------------------------------------------- */

void nst_op_table_text(NstText *text)
{
    const NstOpRow *row;
    int n = nst_op_rows(&row);
    nst_text_add(text, "domain\toperator\tversion\tstate\tsignature\tattributes\ttypes\n");
    for (int k = 0; k < n; k++) {
        const char *state = row[k].how == NST_ROW_GONE       ? "removed"
                            : nst_op_is_implemented(&row[k]) ? "runs"
                                                             : "not yet";
        nst_text_add(text, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", row[k].domain, row[k].name, row[k].since, state,
                     nst_op_signature(&row[k]), nst_op_attributes(&row[k]), nst_op_types(&row[k]));
    }
}
