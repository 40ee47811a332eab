/* import.c: the graph of a model: inputs and initialisers, then each node through its row of the table, then outputs. */
#include "frontend/import_impl.h"
#include "frontend/lower/sequence.h"

#define OPEN_EXTENT (-1) /* what some exporters write for a size they leave open */

typedef NstImport Import;

/* --- types ----------------------------------------------------------------------------------------------------- */

/* The symbol of that name, made on first sight. */
static NstDim symbol(Import *m, const char *name)
{
    NstDims *dims = m->graph->dims;
    NstSym sym = nst_dims_find_sym(dims, name, strlen(name));
    if (sym.i == 0) sym = nst_dims_new_sym(dims, NST_SYM_INPUT, name, 0, INT64_MAX);
    return nst_dim_sym(dims, sym);
}

static const NstDeclaredInput *declared(const Import *m, const char *name)
{
    for (uint32_t k = 0; k < m->options->n_inputs; k++)
        if (strcmp(m->options->input[k].name, name) == 0) return &m->options->input[k];
    return NULL;
}

static NstStatus read_extent(Import *m, const char *name, int axis, const Onnx__TensorShapeProto__Dimension *d,
                             NstDim *extent)
{
    bool opened = m->options->open_sizes && d->dim_value > 1;
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && d->dim_value != OPEN_EXTENT &&
        !opened) {
        NST_CHECK(m->ctx, d->dim_value >= 0, NST_E_MODEL,
                  "input '%s': extent %lld of axis %d, allowed: at least 0, or -1 for an open one", name,
                  (long long)d->dim_value, axis);
        NST_CHECK(m->ctx, d->dim_value <= NST_MAX_TENSOR_BYTES, NST_E_LIMIT,
                  "input '%s': extent %lld of axis %d, allowed: at most %lld", name, (long long)d->dim_value, axis,
                  (long long)NST_MAX_TENSOR_BYTES);
        *extent = nst_dim_const(m->graph->dims, d->dim_value);
        return NST_OK;
    }
    bool named = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && d->dim_param &&
                 *d->dim_param && strcmp(d->dim_param, "?") != 0; /* written for what has no name */
    *extent = symbol(m, named ? d->dim_param : nst_format(m->scratch, "%s_d%d", name, axis));
    return NST_OK;
}

/* What the caller declared for an input replaces the model's extents. */
static NstStatus apply_declared(Import *m, const char *name, const NstDeclaredInput *by, int rank, NstDim *shape)
{
    NST_CHECK(m->ctx, rank == by->rank, NST_E_SHAPE, "input '%s': declared with rank %d, the model has %d", name,
              by->rank, rank);
    for (int k = 0; k < rank; k++) {
        int64_t own;
        if (by->shape[k] < 0) continue;
        bool fits = !nst_dim_is_const(m->graph->dims, shape[k], &own) || own == by->shape[k];
        NST_CHECK(m->ctx, fits, NST_E_SHAPE, "input '%s': declared with extent %lld at axis %d, the model has %lld",
                  name, (long long)by->shape[k], k, (long long)own);
        shape[k] = nst_dim_const(m->graph->dims, by->shape[k]);
    }
    return NST_OK;
}

static NstStatus read_tensor_type(Import *m, const char *name, const Onnx__TypeProto *proto, const NstDeclaredInput *by,
                                  NstType *type)
{
    NST_CHECK(m->ctx, proto && proto->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET, NST_E_MODEL,
              "input '%s': no type", name);
    NST_CHECK(m->ctx, proto->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE, NST_E_UNSUPPORTED,
              "input '%s': maps, sparse tensors and sequences of sequences are not supported", name);
    const Onnx__TypeProto__Tensor *t = proto->tensor_type;
    NstDtype dtype = nst_dtype_from_onnx(t->elem_type);
    NstDim shape[NST_MAX_RANK];
    NST_CHECK(m->ctx, dtype != NST_DTYPE_NONE, NST_E_MODEL, "input '%s': element type %d, allowed: 1 to %d", name,
              t->elem_type, NST_DTYPE_COUNT - 1);
    NST_CHECK(m->ctx, t->shape || by, NST_E_UNSUPPORTED,
              "input '%s': the model does not say its rank; declare its shape", name);
    size_t rank = t->shape ? t->shape->n_dim : (size_t)by->rank;
    NST_CHECK(m->ctx, rank <= NST_MAX_RANK, NST_E_LIMIT, "input '%s': rank %zu, allowed: at most %d", name, rank,
              NST_MAX_RANK);
    for (size_t k = 0; k < rank; k++) {
        Onnx__TensorShapeProto__Dimension open = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT;
        NST_TRY(read_extent(m, name, (int)k, t->shape ? t->shape->dim[k] : &open, &shape[k]));
    }
    if (by) NST_TRY(apply_declared(m, name, by, (int)rank, shape));
    *type = nst_tensor_type(m->graph->arena, dtype, (int)rank, shape);
    return NST_OK;
}

/* --- inputs and initialisers ----------------------------------------------------------------------------------- */

static bool is_overridable(const Import *m, const char *name)
{
    for (uint32_t k = 0; k < m->options->n_overridable; k++)
        if (strcmp(m->options->overridable[k], name) == 0) return true;
    return false;
}

/* Whether a name is an initializer's that keeps its value. */
static bool is_constant(const Import *m, const NstScope *initializers, const char *name)
{
    return nst_scope_find(initializers, name) && !is_overridable(m, name);
}

static NstStatus define_initializer(Import *m, const char *name, const NstWeight *w)
{
    NstVal value = nst_build_const_view(m->b, w->dtype, w->rank, w->shape, w->data, w->bytes);
    NST_TRY(nst_build_status(m->b));
    NST_TRY(nst_scope_define(m->ctx, m->scope, name, value, "an initializer"));
    nst_graph_value(m->graph, value)->name = nst_strdup(m->graph->arena, name);
    return NST_OK;
}

/* The name of a sparse initializer is that of its values. */
static const char *sparse_name(const Onnx__SparseTensorProto *sparse)
{
    return sparse->values && sparse->values->name ? sparse->values->name : "";
}

NstStatus nst_import_initializers(Import *m, const Onnx__GraphProto *g)
{
    NstWeight w;
    for (size_t k = 0; k < g->n_initializer; k++) {
        const Onnx__TensorProto *t = g->initializer[k];
        const char *name = t->name ? t->name : "";
        if (m->scope->outer == NULL && is_overridable(m, name)) continue;
        NST_TRY(nst_weight_read(m->ctx, m->model, t, nst_format(m->scratch, "initializer '%s'", name), &w));
        NST_TRY(define_initializer(m, name, &w));
    }
    for (size_t k = 0; k < g->n_sparse_initializer; k++) {
        const Onnx__SparseTensorProto *sparse = g->sparse_initializer[k];
        const char *name = sparse_name(sparse);
        if (m->scope->outer == NULL && is_overridable(m, name)) continue;
        NST_TRY(nst_weight_read_sparse(m->ctx, m->model, sparse,
                                       nst_format(m->scratch, "sparse initializer '%s'", name), &w));
        NST_TRY(define_initializer(m, name, &w));
    }
    return NST_OK;
}

/* Constants take the place of inputs whose values are fixed. */
static NstStatus apply_fixed(Import *m)
{
    for (uint32_t k = 0; k < m->options->n_fixed; k++) {
        const NstTensorValue *t = &m->options->fixed[k].value;
        NstScopeEntry *entry = nst_scope_find(m->scope, m->options->fixed[k].name);
        NST_CHECK(m->ctx, entry, NST_E_NOT_FOUND, "input '%s' is fixed, but there is none", m->options->fixed[k].name);
        const NstType *type = nst_value_type(m->graph, entry->value);
        NST_CHECK(m->ctx, t->dtype == type->dtype && t->rank == type->rank, NST_E_TYPE,
                  "input '%s': fixed as %s of rank %d, the model has %s of rank %d", entry->name,
                  nst_dtype_info(t->dtype)->name, t->rank, nst_dtype_info(type->dtype)->name, type->rank);
        entry->value = nst_build_const(m->b, t->dtype, t->rank, t->shape, t->data);
        NST_TRY(nst_build_status(m->b));
    }
    return NST_OK;
}

/* A param under that name. */
static NstStatus import_tensor(Import *m, const char *name, const Onnx__TypeProto *proto, const NstDeclaredInput *by,
                               NstVal *value)
{
    NstType type;
    NST_TRY(read_tensor_type(m, name, proto, by, &type));
    *value = nst_build_param(m->b, nst_strdup(m->graph->arena, name), type);
    return nst_build_status(m->b);
}

#define MAX_ELEMENTS 4096 /* of a sequence that is an input */

/* An input that is a sequence or optional: a param for each element that was declared. */
static NstStatus import_parts(Import *m, const char *name, const Onnx__TypeProto *proto, NstVal *value)
{
    NstLower c = {.b = m->b,
                  .arena = m->scratch,
                  .model = m->model,
                  .sizes = &m->sizes,
                  .label = nst_format(m->scratch, "input '%s'", name)};
    bool optional = proto->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
    const Onnx__TypeProto *inner = optional ? proto->optional_type->elem_type : proto;
    bool is_list = inner && inner->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    const Onnx__TypeProto *element = is_list ? inner->sequence_type->elem_type : inner;
    NST_CHECK(m->ctx, element && element->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE, NST_E_UNSUPPORTED,
              "input '%s': sequences of anything but tensors are not supported", name);
    bool none = declared(m, nst_format(m->scratch, "%s[]", name)) != NULL;
    const NstDeclaredInput *by;
    NstVal part[MAX_ELEMENTS];
    int n = 0;
    for (const char *own; (own = nst_format(m->scratch, "%s[%d]", name, n), by = declared(m, own)); n++) {
        NST_CHECK(m->ctx, n < (is_list ? MAX_ELEMENTS : 1) && !none, NST_E_INVALID, "input '%s': declared with %s",
                  name, none ? "and without elements" : "too many elements");
        NST_TRY(import_tensor(m, own, element, by, &part[n]));
    }
    NST_CHECK(
        m->ctx, n > 0 || none, NST_E_UNSUPPORTED,
        "input '%s': a sequence or optional, whose elements must be declared (shapes of '%s[0]' and so on, or '%s[]')",
        name, name, name);
    NstDtype dtype = nst_dtype_from_onnx(element->tensor_type->elem_type);
    if (is_list) *value = sequence_of(&c, dtype, n, part);
    if (optional) *value = parts_value(&c, NST_TYPE_OPTIONAL, dtype, n > 0, is_list ? value : part, n ? "s" : "");
    return nst_build_status(m->b);
}

static bool has_parts(const Onnx__TypeProto *proto)
{
    return proto && (proto->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE ||
                     proto->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE);
}

static NstStatus import_inputs(Import *m, const Onnx__GraphProto *g)
{
    NstScope initializers;
    nst_scope_init(&initializers, m->scratch);
    for (size_t k = 0; k < g->n_initializer; k++)
        NST_TRY(nst_scope_define(m->ctx, &initializers, g->initializer[k]->name, (NstVal){0}, "an initializer"));
    for (size_t k = 0; k < g->n_sparse_initializer; k++)
        NST_TRY(nst_scope_define(m->ctx, &initializers, sparse_name(g->sparse_initializer[k]), (NstVal){0},
                                 "an initializer"));
    for (size_t k = 0; k < g->n_input; k++) {
        const char *name = g->input[k]->name;
        NstVal value = {0};
        NST_CHECK(m->ctx, name && *name, NST_E_MODEL, "graph: input %zu has no name", k);
        if (is_constant(m, &initializers, name)) continue; /* its default is its value */
        if (has_parts(g->input[k]->type))
            NST_TRY(import_parts(m, name, g->input[k]->type, &value));
        else
            NST_TRY(import_tensor(m, name, g->input[k]->type, declared(m, name), &value));
        NST_TRY(nst_scope_define(m->ctx, m->scope, name, value, "an input"));
    }
    for (uint32_t k = 0; k < m->options->n_overridable; k++)
        NST_CHECK(m->ctx, nst_scope_find(m->scope, m->options->overridable[k]), NST_E_NOT_FOUND,
                  "initializer '%s' is no input of the graph and cannot be overridden", m->options->overridable[k]);
    return apply_fixed(m);
}

/* --- outputs --------------------------------------------------------------------------------------------------- */

static void warn(const Import *m, const char *text)
{
    if (m->options->warn) m->options->warn(m->options->warn_arg, text);
}

/* What the model says about an output must not contradict the type its nodes give.  A declared shape that does is an
 * exporter's slip and decides nothing: the nodes' shape holds. */
static NstStatus check_declared_output(Import *m, const char *name, const Onnx__TypeProto *proto, NstVal value)
{
    if (!proto || proto->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) return NST_OK;
    const Onnx__TypeProto__Tensor *t = proto->tensor_type;
    const NstType *type = nst_value_type(m->graph, value);
    NstDtype dtype = nst_dtype_from_onnx(t->elem_type);
    NST_CHECK(m->ctx, type->kind == NST_TYPE_TENSOR, NST_E_MODEL,
              "output '%s': declared as tensor, its nodes give none", name);
    NST_CHECK(m->ctx, t->elem_type == 0 || dtype == type->dtype, NST_E_MODEL,
              "output '%s': declared as %s, its nodes give %s", name, nst_dtype_info(dtype)->name,
              nst_dtype_info(type->dtype)->name);
    if (!t->shape) return NST_OK;
    if (t->shape->n_dim != (size_t)type->rank) {
        warn(m, nst_format(m->scratch, "output '%s': declared with rank %zu, its nodes give %d", name, t->shape->n_dim,
                           type->rank));
        return NST_OK;
    }
    for (int k = 0; k < type->rank; k++) {
        const Onnx__TensorShapeProto__Dimension *d = t->shape->dim[k];
        int64_t own;
        if (d->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE || d->dim_value < 0) continue;
        if (nst_dim_is_const(m->graph->dims, type->shape[k], &own) && own != d->dim_value)
            warn(m, nst_format(m->scratch, "output '%s': declared with extent %lld at axis %d, its nodes give %lld",
                               name, (long long)d->dim_value, k, (long long)own));
    }
    return NST_OK;
}

NstStatus nst_import_find_outputs(Import *m, const Onnx__GraphProto *g, NstVal *value)
{
    NST_CHECK(m->ctx, g->n_output > 0, NST_E_MODEL, "graph: no outputs");
    for (size_t k = 0; k < g->n_output; k++) {
        const char *name = g->output[k]->name;
        const NstScopeEntry *entry = name ? nst_scope_find(m->scope, name) : NULL;
        NST_CHECK(m->ctx, entry, NST_E_MODEL, "output '%s' is made by no node, input or initializer", name ? name : "");
        NST_CHECK(m->ctx, entry->value.i, NST_E_MODEL, "output '%s' is absent", name);
        value[k] = entry->value;
    }
    return NST_OK;
}

/* The results of the graph, under their names; a sequence is one for each element. */
typedef NST_VEC(NstVal) Values;
typedef NST_VEC(const char *) Names;

static NstStatus add_result(Import *m, NstLower *c, const char *name, NstVal value, Values *values, Names *names)
{
    if (!is_parts(c, value)) {
        nst_vec_push(m->scratch, values, value);
        nst_vec_push(m->graph->arena, names, nst_strdup(m->graph->arena, name));
        return NST_OK;
    }
    Parts p = elements_of(c, value);
    bool nested = p.n == 1 && p.kind == NST_TYPE_OPTIONAL && is_parts(c, p.at[0]); /* an optional sequence */
    NST_TRY(nst_build_status(m->b));
    for (int k = 0; k < p.n; k++)
        NST_TRY(add_result(m, c, nested ? name : nst_format(m->scratch, "%s[%d]", name, k), p.at[k], values, names));
    return NST_OK;
}

static NstStatus import_graph(Import *m)
{
    const Onnx__GraphProto *g = m->model->proto->graph;
    NstVal *value = NST_NEW_ARRAY(m->scratch, NstVal, g->n_output);
    Values values = {0};
    Names names = {0};
    NST_TRY(import_inputs(m, g));
    NST_TRY(nst_import_initializers(m, g));
    NST_TRY(nst_import_nodes(m, g->node, g->n_node));
    NST_TRY(nst_import_find_outputs(m, g, value));
    for (size_t k = 0; k < g->n_output; k++) {
        const char *name = g->output[k]->name;
        NstLower c = {.b = m->b,
                      .arena = m->scratch,
                      .model = m->model,
                      .sizes = &m->sizes,
                      .label = nst_format(m->scratch, "output '%s'", name)};
        NST_TRY(check_declared_output(m, name, g->output[k]->type, value[k]));
        NST_TRY(add_result(m, &c, name, value[k], &values, &names));
    }
    nst_build_results(m->b, values.n, values.at, names.at);
    return nst_build_status(m->b);
}

static void tell_external(Import *m)
{
    uint32_t n = m->model->files.n;
    const char **path = NST_NEW_ARRAY(m->graph->arena, const char *, n);
    for (uint32_t k = 0; k < n; k++)
        path[k] = nst_format(m->graph->arena, "%s/%s", m->options->folder, m->model->files.at[k]->location);
    *m->options->external = path;
    *m->options->n_external = n;
}

static void tell_needs(Import *m)
{
    const char *needs = m->model->needs;
    const NstRegion *top = nst_graph_region(m->graph, NST_GRAPH_REGION);
    if (m->options->needs) *m->options->needs = needs ? nst_strdup(m->graph->arena, needs) : NULL;
    for (uint32_t k = 0; needs && m->options->needs_position && k < top->params.n; k++)
        if (strcmp(nst_value_node(m->graph, top->params.at[k])->attr.param.name, needs) == 0)
            *m->options->needs_position = k;
}

/* Reads the model and opens a graph for it; scope and context must live as long as m. */
static NstStatus begin_import(Import *m, NstArena *arena, const void *bytes, size_t n, NstScope *scope,
                              NstContext *context)
{
    NST_TRY(nst_onnx_read(m->ctx, arena, m->scratch, bytes, n, m->options->folder, &m->model));
    m->model->file = m->options->file;
    const char *name = m->model->proto->graph->name;
    m->graph = nst_graph_new(arena, nst_strdup(arena, name && *name ? name : "model"));
    if (m->options->strings) m->graph->strings = m->options->strings;
    m->model->strings = m->graph->strings;
    *context = (NstContext){.opset = (const Onnx__OperatorSetIdProto *const *)m->model->proto->opset_import,
                            .n_opset = m->model->proto->n_opset_import};
    m->context = context;
    m->scope = scope;
    m->b = &m->build;
    nst_build_init(&m->build, m->ctx, m->graph, NST_GRAPH_REGION);
    nst_shape_values_init(&m->sizes, m->scratch, m->graph);
    nst_scope_init(scope, m->scratch);
    return NST_OK;
}

NstStatus nst_import_onnx(NstCtx *ctx, NstArena *arena, const void *bytes, size_t n, const NstImportOptions *options,
                          NstGraph **graph)
{
    static const NstImportOptions defaults = {0};
    Import m = {.ctx = ctx, .scratch = nst_arena_new(ctx, arena), .options = options ? options : &defaults};
    NstScope scope;
    NstContext context;
    *graph = NULL;
    if (m.options->needs) *m.options->needs = NULL;
    NST_TRY(begin_import(&m, arena, bytes, n, &scope, &context));
    NstStatus status = import_graph(&m);
    if (status == NST_OK) nst_graph_sweep(m.graph);
    if (status == NST_OK && m.options->external) tell_external(&m);
#ifdef NST_DEBUG
    if (status == NST_OK) status = nst_graph_verify(ctx, m.graph);
#endif
    tell_needs(&m);
    if (status != NST_OK) return status;
    nst_arena_free(m.scratch);
    *graph = m.graph;
    return NST_OK;
}

/* --- what is declared ------------------------------------------------------------------------------------------ */

static NstStatus declared_output(Import *m, const Onnx__ValueInfoProto *info, NstDeclaredOutput *output)
{
    const Onnx__TypeProto *proto = info->type;
    bool typed = proto && proto->value_case != ONNX__TYPE_PROTO__VALUE__NOT_SET;
    NST_CHECK(m->ctx, info->name && *info->name, NST_E_MODEL, "graph: an output has no name");
    *output = (NstDeclaredOutput){.name = nst_strdup(m->graph->arena, info->name),
                                  .type = {.kind = NST_TYPE_TENSOR, .rank = -1}};
    NST_CHECK(m->ctx, !typed || proto->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE, NST_E_UNSUPPORTED,
              "output '%s': no tensor", info->name);
    if (!typed) return NST_OK;
    const Onnx__TensorShapeProto *s = proto->tensor_type->shape;
    output->type.dtype = nst_dtype_from_onnx(proto->tensor_type->elem_type);
    if (!s || s->n_dim > NST_MAX_RANK) return NST_OK;
    NstDim *shape = NST_NEW_ARRAY(m->graph->arena, NstDim, s->n_dim);
    for (size_t k = 0; k < s->n_dim; k++) NST_TRY(read_extent(m, info->name, (int)k, s->dim[k], &shape[k]));
    output->type.rank = (int)s->n_dim;
    output->type.shape = shape;
    return NST_OK;
}

NstStatus nst_import_ports(NstCtx *ctx, NstArena *arena, const void *bytes, size_t n, const NstImportOptions *options,
                           NstGraph **graph, const NstDeclaredOutput **output, uint32_t *n_outputs)
{
    Import m = {.ctx = ctx, .scratch = nst_arena_new(ctx, arena), .options = options};
    NstScope scope;
    NstContext context;
    NST_TRY(begin_import(&m, arena, bytes, n, &scope, &context));
    const Onnx__GraphProto *g = m.model->proto->graph;
    NST_TRY(import_inputs(&m, g));
    NstDeclaredOutput *made = NST_NEW_ARRAY(arena, NstDeclaredOutput, g->n_output);
    for (size_t k = 0; k < g->n_output; k++) NST_TRY(declared_output(&m, g->output[k], &made[k]));
    *graph = m.graph;
    *output = made;
    *n_outputs = (uint32_t)g->n_output;
    nst_arena_free(m.scratch);
    return NST_OK;
}
