/* import_nodes.c: nodes through their rows of the table; functions of the model, inline; graphs in attributes. */
#include "frontend/import_impl.h"

#define MAX_FUNCTION_DEPTH 32

static int64_t opset_of(const NstImport *m, const char *domain)
{
    for (size_t k = 0; k < m->context->n_opset; k++)
        if (strcmp(nst_onnx_domain(m->context->opset[k]->domain), domain) == 0) return m->context->opset[k]->version;
    return m->context->n_opset == 0 ? nst_onnx_opset(m->model, domain) : 0;
}

/* The function of the model that a node calls, or NULL. */
static const Onnx__FunctionProto *find_function(const NstImport *m, const Onnx__NodeProto *node)
{
    const Onnx__ModelProto *proto = m->model->proto;
    for (size_t k = 0; k < proto->n_functions; k++) {
        const Onnx__FunctionProto *f = proto->functions[k];
        const char *own = f->overload ? f->overload : "", *wanted = node->overload ? node->overload : "";
        if (f->name && strcmp(f->name, node->op_type) == 0 && strcmp(own, wanted) == 0 &&
            strcmp(nst_onnx_domain(f->domain), nst_onnx_domain(node->domain)) == 0)
            return f;
    }
    return NULL;
}

bool nst_import_choice(const NstImportChoices *given, uint32_t *next, const char *label, bool own)
{
    for (uint32_t at = *next; at < given->at.n; at++) {
        if (strcmp(given->at.at[at].label, label) != 0) continue;
        *next = at + 1;
        return given->at.at[at].taken;
    }
    return own;
}

bool choose(NstLower *c, bool known)
{
    NstImport *m = c->import;
    NstImportChoices *made = m->options->made;
    if (m->options->given) known = nst_import_choice(m->options->given, &m->n_given, c->label, known);
    if (made) nst_vec_push(made->arena, &made->at, ((NstImportChoice){nst_strdup(made->arena, c->label), known}));
    return known;
}

/* The row of a node's operator in the version that is imported. */
static NstStatus find_row(NstImport *m, const Onnx__NodeProto *node, const char *label, const NstOpRow **row)
{
    const char *domain = nst_onnx_domain(node->domain);
    int64_t opset = opset_of(m, domain);
    NST_CHECK(m->ctx, opset > 0 || strncmp(domain, "com.", 4) == 0, NST_E_MODEL,
              "%s: domain '%s' is not imported by the model", label, domain);
    *row = nst_op_find(domain, node->op_type, opset);
    int first = nst_op_first_version(domain, node->op_type);
    if (*row && (*row)->how == NST_ROW_GONE)
        NST_FAIL(m->ctx, NST_E_MODEL, "%s: removed in version %d, the model imports opset %lld", label, (*row)->since,
                 (long long)opset);
    if (*row) return NST_OK;
    if (first > 0)
        NST_FAIL(m->ctx, NST_E_MODEL, "%s: exists from version %d on, the model imports opset %lld", label, first,
                 (long long)opset);
    if (strcmp(domain, "ai.onnx") == 0)
        NST_FAIL(m->ctx, NST_E_MODEL, "%s: no operator '%s' in ai.onnx (opset %lld)", label, node->op_type,
                 (long long)opset);
    NST_FAIL(m->ctx, NST_E_UNSUPPORTED, "%s: operator '%s' of domain '%s' is not supported, and not registered", label,
             node->op_type, domain);
}

static NstStatus find_inputs(NstImport *m, const Onnx__NodeProto *node, NstLower *c)
{
    c->n_ins = (int)node->n_input;
    c->ins = NST_NEW_ARRAY(m->scratch, NstVal, node->n_input + NST_MAX_FORMALS);
    for (size_t k = 0; k < node->n_input; k++) {
        if (!*node->input[k]) continue;
        const NstScopeEntry *entry = nst_scope_find(m->scope, node->input[k]);
        NST_CHECK(m->ctx, entry && entry->value.i, NST_E_MODEL, "%s: input '%s' is not defined", c->label,
                  node->input[k]);
        c->ins[k] = entry->value;
    }
    while (c->n_ins > 0 && c->ins[c->n_ins - 1].i == 0) c->n_ins--;
    return NST_OK;
}

/* NULL where a value is absent. */
static const NstType *const *types_of(NstImport *m, const NstVal *value, int n)
{
    const NstType **types = NST_NEW_ARRAY(m->scratch, const NstType *, n);
    for (int k = 0; k < n; k++)
        if (value[k].i) types[k] = nst_value_type(m->graph, value[k]);
    return types;
}

/* Adapters up to the newest row, then its lowering. */
static NstStatus run_row(NstImport *m, const NstOpRow *row, NstLower *c)
{
    for (; !row->newest && row->how != NST_ROW_LOWER; row--) {
        if (row->how == NST_ROW_ADAPT) row->fn(c, row->arg);
        NST_TRY(nst_build_status(m->b));
    }
    nst_attrs_add_defaults(m->scratch, row, &c->attrs);
    row->fn(c, row->arg);
    return nst_build_status(m->b);
}

static NstStatus define_outputs(NstImport *m, const Onnx__NodeProto *node, const NstLower *c)
{
    for (int k = 0; k < c->n_outs; k++) {
        if (!c->wanted[k]) continue;
        NST_CHECK(m->ctx, c->outs[k].i, NST_E_UNSUPPORTED, "%s: output %d ('%s') is not supported", c->label, k,
                  node->output[k]);
        NstValue *value = nst_graph_value(m->graph, c->outs[k]);
        if (!value->name) value->name = nst_strdup(m->graph->arena, node->output[k]);
        NST_TRY(nst_scope_define(m->ctx, m->scope, node->output[k], c->outs[k], c->label));
    }
    return NST_OK;
}

/* --- functions ------------------------------------------------------------------------------------------------- */

/* Attributes of a call, with what the function has defaults for. */
static NstStatus read_call(NstImport *m, const Onnx__FunctionProto *f, const Onnx__NodeProto *node, NstLower *c)
{
    NST_TRY(nst_attrs_read(m->ctx, m->scratch, NULL, c->label, node, m->context->attrs, &c->attrs));
    for (size_t k = 0; k < f->n_attribute_proto; k++) {
        Onnx__NodeProto given = ONNX__NODE_PROTO__INIT;
        NstAttrList one;
        given.n_attribute = 1;
        given.attribute = &f->attribute_proto[k];
        NST_TRY(nst_attrs_read(m->ctx, m->scratch, NULL, c->label, &given, NULL, &one));
        if (!nst_attrs_find(&c->attrs, one.list.at[0].name)) nst_vec_push(m->scratch, &c->attrs.list, one.list.at[0]);
    }
    return NST_OK;
}

/* The function's nodes in the current scope and context. */
static NstStatus fill_call(NstImport *m, const Onnx__FunctionProto *f, NstLower *c)
{
    for (size_t k = 0; k < f->n_input; k++)
        NST_TRY(nst_scope_define(m->ctx, m->scope, f->input[k], k < (size_t)c->n_ins ? c->ins[k] : (NstVal){0},
                                 "an input of the function"));
    NST_TRY(nst_import_nodes(m, f->node, f->n_node));
    for (int k = 0; k < c->n_outs; k++) {
        const NstScopeEntry *entry = nst_scope_find(m->scope, f->output[k]);
        NST_CHECK(m->ctx, entry || !c->wanted[k], NST_E_MODEL, "%s: output '%s' of its function is made by no node",
                  c->label, f->output[k]);
        if (entry) c->outs[k] = entry->value;
    }
    return NST_OK;
}

/* The nodes of the function in place of the call. */
static NstStatus import_call(NstImport *m, const Onnx__FunctionProto *f, const Onnx__NodeProto *node, NstLower *c)
{
    NstScope scope, *outer = m->scope;
    const NstContext *around = m->context;
    NstContext context = {.opset = (const Onnx__OperatorSetIdProto *const *)f->opset_import,
                          .n_opset = f->n_opset_import,
                          .attrs = &c->attrs,
                          .depth = around->depth + 1};
    NST_CHECK(m->ctx, context.depth <= MAX_FUNCTION_DEPTH, NST_E_LIMIT, "%s: functions nested more than %d deep",
              c->label, MAX_FUNCTION_DEPTH);
    NST_CHECK(m->ctx, (size_t)c->n_ins <= f->n_input && (size_t)c->n_outs <= f->n_output, NST_E_MODEL,
              "%s: %d inputs and %d outputs, its function has %zu and %zu", c->label, c->n_ins, c->n_outs, f->n_input,
              f->n_output);
    NST_TRY(read_call(m, f, node, c));
    nst_scope_init(&scope, m->scratch);
    m->scope = &scope;
    m->context = &context;
    NstStatus status = fill_call(m, f, c);
    m->scope = outer;
    m->context = around;
    return status;
}

/* --- one node -------------------------------------------------------------------------------------------------- */

/* The schema allows the types: what the builder refuses then is a type that the lowering lacks, not a fault of the model (whose
 * graphs in attributes may have some). */
static NstStatus refuse_types(NstImport *m, const NstOpRow *row, const NstLower *c, const NstNodeShape *shape)
{
    if (m->ctx->status != NST_E_TYPE || c->refused) return m->ctx->status;
    for (uint32_t k = 0; k < c->attrs.list.n; k++)
        if (c->attrs.list.at[k].type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH) return m->ctx->status;
    NstText types;
    const char *why = nst_strdup(m->scratch, m->ctx->error);
    nst_text_init(&types, m->scratch);
    for (int k = 0; k < shape->n_in; k++)
        if (shape->in[k]) nst_text_add(&types, "%s%s", types.n ? ", " : "", nst_dtype_info(shape->in[k]->dtype)->name);
    nst_ctx_clear(m->ctx);
    NST_FAIL(m->ctx, NST_E_UNSUPPORTED, "%s: %s-%d of %s is not supported: %s", c->label, row->name, row->since,
             nst_text_get(&types), why);
}

static NstStatus import_operator(NstImport *m, const Onnx__NodeProto *node, const char *name, NstLower *c)
{
    const NstOpRow *row = NULL;
    NST_TRY(find_row(m, node, c->label, &row));
    NST_CHECK(m->ctx, nst_op_is_implemented(row), NST_E_UNSUPPORTED, "%s: operator %s-%d of %s is not supported",
              c->label, row->name, row->since, row->domain);
    NST_TRY(nst_attrs_read(m->ctx, m->scratch, row, c->label, node, m->context->attrs, &c->attrs));
    NstNodeShape shape = {c->label, types_of(m, c->ins, c->n_ins), c->n_ins, c->n_outs};
    NST_TRY(nst_op_check(m->ctx, row, &shape));
    m->b->origin = nst_origin_of(m->graph->origins, nst_format(m->scratch, "%.200s (%s)", name, row->name));
    if (run_row(m, row, c) != NST_OK) return refuse_types(m, row, c, &shape);
    if (!m->options->imported) return NST_OK;
    NstImportedNode heard = {row, shape.in, types_of(m, c->outs, c->n_outs), shape.n_in, shape.n_out};
    m->options->imported(m->options->imported_arg, &heard);
    return NST_OK;
}

/* The registered operator that a node is, or NULL. */
static NstStatus find_custom(NstImport *m, const Onnx__NodeProto *node, const char *label, const NstOperator **op)
{
    const char *domain = nst_onnx_domain(node->domain);
    const NstCustom *list = m->options->operators;
    const NstOperator *any = nst_custom_find(list, domain, node->op_type, 0);
    *op = NULL;
    if (!any) return NST_OK;
    int64_t opset = opset_of(m, domain);
    NST_CHECK(m->ctx, opset > 0 || strncmp(domain, "com.", 4) == 0, NST_E_MODEL,
              "%s: domain '%s' is not imported by the model", label, domain);
    *op = nst_custom_find(list, domain, node->op_type, opset);
    NST_CHECK(m->ctx, *op, NST_E_UNSUPPORTED, "%s: registered in version %d, the model imports opset %lld of '%s'",
              label, (int)any->version, (long long)opset, domain);
    return NST_OK;
}

static NstStatus import_node(NstImport *m, const Onnx__NodeProto *node)
{
    NST_CHECK(m->ctx, node->op_type && *node->op_type, NST_E_MODEL, "graph: a node without an operator");
    NST_CHECK(m->ctx, ++m->n_nodes <= NST_MAX_NODES, NST_E_LIMIT, "graph: more than %d nodes", NST_MAX_NODES);
    const char *name = node->name && *node->name ? node->name : node->n_output > 0 ? node->output[0] : "";
    const Onnx__FunctionProto *function = find_function(m, node);
    NstLower c = {.b = m->b, .arena = m->scratch, .model = m->model, .sizes = &m->sizes, .import = m};
    c.label = nst_format(m->scratch, "%s '%.200s'", node->op_type, name);
    c.n_outs = (int)node->n_output;
    c.outs = NST_NEW_ARRAY(m->scratch, NstVal, c.n_outs);
    c.wanted = NST_NEW_ARRAY(m->scratch, bool, c.n_outs);
    for (int k = 0; k < c.n_outs; k++) c.wanted[k] = *node->output[k] != '\0';
    NST_TRY(find_inputs(m, node, &c));
    const NstOperator *custom;
    NST_TRY(find_custom(m, node, c.label, &custom));
    if (custom) {
        m->b->origin = nst_origin_of(m->graph->origins, nst_format(m->scratch, "%.200s (%s)", name, node->op_type));
        NST_TRY(nst_import_custom(m, custom, node, &c));
        return define_outputs(m, node, &c);
    }
    NST_TRY(function ? import_call(m, function, node, &c) : import_operator(m, node, name, &c));
    return define_outputs(m, node, &c);
}

NstStatus nst_import_nodes(NstImport *m, Onnx__NodeProto *const *node, size_t n)
{
    NST_CHECK(m->ctx, n <= NST_MAX_NODES, NST_E_LIMIT, "graph: %zu nodes, allowed: at most %d", n, NST_MAX_NODES);
    uint32_t *order = NST_NEW_ARRAY(m->scratch, uint32_t, n);
    NST_TRY(nst_scope_order(m->ctx, m->scratch, m->scope, node, n, order));
    for (size_t k = 0; k < n; k++) NST_TRY(import_node(m, node[order[k]]));
    return NST_OK;
}

/* --- graphs in attributes -------------------------------------------------------------------------------------- */

/* The graph's nodes in the current scope, which has its inputs. */
static NstStatus fill_graph(NstLower *c, const Onnx__GraphProto *g, int n_in, const V *in, V *out)
{
    NstImport *m = c->import;
    for (int k = 0; k < n_in; k++) NST_TRY(nst_scope_define(m->ctx, m->scope, g->input[k]->name, in[k], "an input"));
    NST_TRY(nst_import_initializers(m, g));
    NST_TRY(nst_import_nodes(m, g->node, g->n_node));
    return nst_import_find_outputs(m, g, out);
}

static NstStatus import_graph_inline(NstLower *c, const Onnx__GraphProto *g, int n_in, const V *in, int n_out, V *out)
{
    NstImport *m = c->import;
    NstScope scope, *outer = m->scope;
    NstBuild *build = m->b;
    NST_CHECK(m->ctx, g->n_input == (size_t)n_in && g->n_output == (size_t)n_out, NST_E_MODEL,
              "%s: graph '%s' has %zu inputs and %zu outputs, allowed: %d and %d", c->label, g->name ? g->name : "",
              g->n_input, g->n_output, n_in, n_out);
    nst_scope_init(&scope, m->scratch);
    scope.outer = outer;
    m->scope = &scope;
    m->b = c->b;
    NstStatus status = fill_graph(c, g, n_in, in, out);
    m->scope = outer; /* on failure too: they live here */
    m->b = build;
    return status;
}

int graph_outputs(NstLower *c, const char *attr)
{
    const NstAttr *a = nst_attrs_find(&c->attrs, attr);
    return a && a->proto->g->n_output < INT16_MAX ? (int)a->proto->g->n_output : 0;
}

bool graph_output_type(NstLower *c, const char *attr, int k, NstType *type)
{
    const Onnx__TypeProto *t = nst_attrs_find(&c->attrs, attr)->proto->g->output[k]->type;
    D shape[NST_MAX_RANK];
    if (!t || t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !t->tensor_type->shape) return false;
    const Onnx__TensorShapeProto *s = t->tensor_type->shape;
    NstDtype dtype = nst_dtype_from_onnx(t->tensor_type->elem_type);
    if (dtype == NST_DTYPE_NONE || s->n_dim > NST_MAX_RANK) return false;
    for (size_t axis = 0; axis < s->n_dim; axis++) {
        bool is_number = s->dim[axis]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        shape[axis] = num(c, is_number && s->dim[axis]->dim_value > 0 ? s->dim[axis]->dim_value : 0);
    }
    *type = nst_tensor_type(c->b->graph->arena, dtype, (int)s->n_dim, shape);
    return true;
}

void graph(NstLower *c, const char *attr, int n_in, const V *in, int n_out, V *out)
{
    NstOrigin origin = c->b->origin;
    for (int k = 0; k < n_out; k++) out[k] = (V){0};
    if (failed(c)) return;
    NstStatus status = import_graph_inline(c, nst_attrs_find(&c->attrs, attr)->proto->g, n_in, in, n_out, out);
    if (c->b->status == NST_OK) c->b->status = status;
    c->b->origin = origin;
}
