/* graph.c: the graph's storage and its edits.  Uses are kept exact: every input slot of a live node has one entry in
 * its value's list. */
#include "ir/graph.h"

static const NstPrimInfo prim_infos[] = {
#define NST_PRIM(name, text, group, min_in, max_in, min_out, max_out)                                                  \
    [NST_PRIM_##name] = {text, NST_GROUP_##group, min_in, max_in, min_out, max_out},
#include "ir/prim.def"
#undef NST_PRIM
};

const NstPrimInfo *nst_prim_info(NstPrim prim)
{
    NST_ASSERT((unsigned)prim < NST_PRIM_COUNT);
    return &prim_infos[prim];
}

static NstGraph *new_graph(NstArena *arena, const char *name)
{
    NstGraph *graph = NST_NEW(arena, NstGraph);
    graph->arena = arena;
    graph->name = nst_strdup(arena, name);
    nst_vec_push(arena, &graph->nodes, NULL);
    nst_vec_push(arena, &graph->values, NULL);
    nst_vec_push(arena, &graph->regions, NULL);
    nst_graph_new_region(graph, (NstNodeId){0});
    return graph;
}

NstGraph *nst_graph_new(NstArena *arena, const char *name)
{
    NstGraph *graph = new_graph(arena, name);
    graph->dims = nst_dims_new(arena);
    graph->exprs = nst_exprs_new(arena, graph->dims);
    graph->origins = nst_origins_new(arena);
    graph->strings = nst_strings_new(arena);
    return graph;
}

NstGraph *nst_graph_new_like(NstArena *arena, const NstGraph *like, const char *name)
{
    NstGraph *graph = new_graph(arena, name);
    graph->dims = like->dims;
    graph->exprs = like->exprs;
    graph->origins = like->origins;
    graph->strings = like->strings;
    return graph;
}

NstNode *nst_graph_node(const NstGraph *graph, NstNodeId id)
{
    NST_ASSERT(id.i != 0 && id.i < graph->nodes.n);
    return graph->nodes.at[id.i];
}

NstValue *nst_graph_value(const NstGraph *graph, NstVal value)
{
    NST_ASSERT(value.i != 0 && value.i < graph->values.n);
    return graph->values.at[value.i];
}

NstRegion *nst_graph_region(const NstGraph *graph, NstRegionId region)
{
    NST_ASSERT(region.i != 0 && region.i < graph->regions.n);
    return graph->regions.at[region.i];
}

NstNode *nst_value_node(const NstGraph *graph, NstVal value)
{
    return nst_graph_node(graph, nst_graph_value(graph, value)->def);
}

const NstType *nst_value_type(const NstGraph *graph, NstVal value)
{
    return &nst_graph_value(graph, value)->type;
}

bool nst_value_is_result(const NstGraph *graph, NstVal value)
{
    for (uint32_t r = 1; r < graph->regions.n; r++) {
        const NstRegion *region = graph->regions.at[r];
        for (uint32_t k = 0; k < region->results.n; k++)
            if (region->results.at[k].i == value.i) return true;
    }
    return false;
}

NstRegionId nst_graph_new_region(NstGraph *graph, NstNodeId owner)
{
    NstRegion *region = NST_NEW(graph->arena, NstRegion);
    region->owner = owner;
    nst_vec_push(graph->arena, &graph->regions, region);
    return (NstRegionId){graph->regions.n - 1};
}

int nst_region_depth(const NstGraph *graph, NstRegionId region)
{
    int depth = 0;
    for (NstNodeId owner = nst_graph_region(graph, region)->owner; owner.i != 0; depth++)
        owner = nst_graph_region(graph, nst_graph_node(graph, owner)->region)->owner;
    return depth;
}

int nst_node_regions(const NstNode *node, NstRegionId region[2])
{
    if (node->prim == NST_PRIM_IF) {
        region[0] = node->attr.branch.then_region;
        region[1] = node->attr.branch.else_region;
        return 2;
    }
    if (node->prim != NST_PRIM_LOOP && node->prim != NST_PRIM_CALL) return 0;
    region[0] = node->prim == NST_PRIM_LOOP ? node->attr.loop.body : node->attr.call.body;
    return 1;
}

/* --- attributes ------------------------------------------------------------------------------------------------ */

#define COPY_ARRAY(field, count)                                                                                       \
    ((field) = (field) ? nst_copy(arena, (field), (size_t)(count) * sizeof *(field)) : NULL)

static void copy_combine(NstArena *arena, NstCombine *combine)
{
    COPY_ARRAY(combine->step, combine->n_states);
    COPY_ARRAY(combine->merge, combine->n_states);
    COPY_ARRAY(combine->init, combine->n_states);
}

static void copy_window(NstArena *arena, NstAttrs *attr)
{
    int n = attr->window.n;
    COPY_ARRAY(attr->window.axis, n);
    COPY_ARRAY(attr->window.size, n);
    COPY_ARRAY(attr->window.stride, n);
    COPY_ARRAY(attr->window.dilation, n);
    COPY_ARRAY(attr->window.lo, n);
    COPY_ARRAY(attr->window.hi, n);
    COPY_ARRAY(attr->window.out, n);
}

static void copy_contract(NstGraph *graph, NstAttrs *attr, const NstVal *in, uint32_t n_in)
{
    NstArena *arena = graph->arena;
    const uint8_t **labels = NST_NEW_ARRAY(arena, const uint8_t *, n_in);
    for (uint32_t j = 0; j < n_in; j++)
        labels[j] = nst_copy(arena, attr->contract.labels[j], (size_t)nst_value_type(graph, in[j])->rank);
    attr->contract.labels = labels;
    COPY_ARRAY(attr->contract.out_labels, attr->contract.out_rank);
    COPY_ARRAY(attr->contract.pre, attr->contract.n_operands);
    COPY_ARRAY(attr->contract.sum, attr->contract.n_sum);
}

static const char *copy_string(NstArena *arena, const char *text)
{
    return text ? nst_strdup(arena, text) : NULL;
}

/* Makes the arrays of attr the graph's own.  Lengths come from the operands' ranks. */
static void copy_attr(NstGraph *graph, NstPrim prim, NstAttrs *attr, const NstVal *in, uint32_t n_in)
{
    NstArena *arena = graph->arena;
    int rank = n_in > 0 && in[0].i != 0 ? nst_value_type(graph, in[0])->rank : 0;
    switch (prim) {
    case NST_PRIM_PARAM: attr->param.name = copy_string(arena, attr->param.name); break;
    case NST_PRIM_SLICE:
    case NST_PRIM_UPDATE_SLICE:
        COPY_ARRAY(attr->slice.start, rank);
        COPY_ARRAY(attr->slice.step, rank);
        COPY_ARRAY(attr->slice.start_input, rank);
        break;
    case NST_PRIM_PAD:
        COPY_ARRAY(attr->pad.lo, rank);
        COPY_ARRAY(attr->pad.hi, rank);
        COPY_ARRAY(attr->pad.interior, rank);
        break;
    case NST_PRIM_WINDOW: copy_window(arena, attr); break;
    case NST_PRIM_REDUCE:
        copy_combine(arena, &attr->reduce.combine);
        COPY_ARRAY(attr->reduce.axes, attr->reduce.n_axes);
        break;
    case NST_PRIM_PREFIX: copy_combine(arena, &attr->prefix.combine); break;
    case NST_PRIM_CONTRACT: copy_contract(graph, attr, in, n_in); break;
    case NST_PRIM_CALL: attr->call.name = copy_string(arena, attr->call.name); break;
    case NST_PRIM_HOST:
        attr->host.name = copy_string(arena, attr->host.name);
        attr->host.config = copy_string(arena, attr->host.config);
        break;
    case NST_PRIM_ASSERT: attr->assertion.message = copy_string(arena, attr->assertion.message); break;
    default: break; /* no arrays */
    }
}

/* --- edits ----------------------------------------------------------------------------------------------------- */

static void add_use(NstGraph *graph, NstVal value, NstNodeId node, uint32_t slot)
{
    if (value.i == 0) return;
    NstUse use = {node, slot};
    nst_vec_push(graph->arena, &nst_graph_value(graph, value)->uses, use);
}

static void drop_use(NstGraph *graph, NstVal value, NstNodeId node, uint32_t slot)
{
    if (value.i == 0) return;
    NstValue *v = nst_graph_value(graph, value);
    for (uint32_t k = 0; k < v->uses.n; k++) {
        if (v->uses.at[k].node.i != node.i || v->uses.at[k].slot != slot) continue;
        memmove(&v->uses.at[k], &v->uses.at[k + 1], (v->uses.n - k - 1) * sizeof *v->uses.at);
        v->uses.n--;
        return;
    }
    NST_ASSERT(!"a use is listed");
}

static NstType copy_type(NstArena *arena, const NstType *type)
{
    NstType copy = *type;
    if (type->kind == NST_TYPE_TENSOR) copy.shape = nst_copy(arena, type->shape, sizeof(NstDim) * (size_t)type->rank);
    return copy;
}

NstNodeId nst_graph_add(NstGraph *graph, NstRegionId region, NstPrim prim, const NstAttrs *attr, const NstVal *in,
                        uint32_t n_in, const NstType *out_type, uint32_t n_out, NstOrigin origin)
{
    NstArena *arena = graph->arena;
    NstNodeId id = {graph->nodes.n};
    NstNode *node = NST_NEW(arena, NstNode);
    node->prim = prim;
    node->n_in = n_in;
    node->n_out = n_out;
    node->in = n_in ? nst_copy(arena, in, n_in * sizeof *in) : NULL;
    node->out = NST_NEW_ARRAY(arena, NstVal, n_out);
    node->origin = origin;
    node->region = region;
    if (attr) node->attr = *attr;
    copy_attr(graph, prim, &node->attr, in, n_in);
    nst_vec_push(arena, &graph->nodes, node);
    for (uint32_t k = 0; k < n_in; k++) add_use(graph, in[k], id, k);
    for (uint32_t k = 0; k < n_out; k++) {
        NstValue *value = NST_NEW(arena, NstValue);
        value->type = copy_type(arena, &out_type[k]);
        value->def = id;
        value->slot = k;
        node->out[k] = (NstVal){graph->values.n};
        nst_vec_push(arena, &graph->values, value);
    }
    NstRegion *r = nst_graph_region(graph, region);
    nst_vec_push(arena, &r->nodes, id);
    if (prim == NST_PRIM_PARAM) {
        /* Params stand first, also those that come after constants. */
        NstNodeId *at = r->nodes.at + r->params.n;
        memmove(at + 1, at, (r->nodes.n - 1 - r->params.n) * sizeof *at);
        *at = id;
        nst_vec_push(arena, &r->params, node->out[0]);
        nst_graph_value(graph, node->out[0])->name = node->attr.param.name;
    }
    NstRegionId owned[2];
    int n_owned = nst_node_regions(node, owned);
    for (int k = 0; k < n_owned; k++) nst_graph_region(graph, owned[k])->owner = id;
    return id;
}

void nst_graph_set_results(NstGraph *graph, NstRegionId region, const NstVal *value, uint32_t n,
                           const char *const *name)
{
    NstRegion *r = nst_graph_region(graph, region);
    r->results.n = 0;
    for (uint32_t k = 0; k < n; k++) nst_vec_push(graph->arena, &r->results, value[k]);
    if (region.i != NST_GRAPH_REGION.i) return;
    graph->result_names.n = 0;
    for (uint32_t k = 0; k < n; k++) {
        const char *text = name && name[k] ? nst_strdup(graph->arena, name[k]) : nst_format(graph->arena, "out%u", k);
        nst_vec_push(graph->arena, &graph->result_names, text);
    }
}

void nst_graph_define(NstGraph *graph, NstSym sym, NstVal value)
{
    NstSymDef def = {sym, value};
    nst_vec_push(graph->arena, &graph->sym_defs, def);
}

NstVal nst_graph_sym_def(const NstGraph *graph, NstSym sym)
{
    for (uint32_t k = 0; k < graph->sym_defs.n; k++)
        if (graph->sym_defs.at[k].sym.i == sym.i) return graph->sym_defs.at[k].value;
    return (NstVal){0};
}

void nst_graph_set_input(NstGraph *graph, NstNodeId id, uint32_t slot, NstVal to)
{
    NstNode *node = nst_graph_node(graph, id);
    NST_ASSERT(slot < node->n_in);
    drop_use(graph, node->in[slot], id, slot);
    node->in[slot] = to;
    add_use(graph, to, id, slot);
}

void nst_graph_replace(NstGraph *graph, NstVal from, NstVal to)
{
    if (from.i == to.i) return;
    NstValue *old = nst_graph_value(graph, from);
    for (uint32_t k = 0; k < old->uses.n; k++) {
        NstUse use = old->uses.at[k];
        nst_graph_node(graph, use.node)->in[use.slot] = to;
        add_use(graph, to, use.node, use.slot);
    }
    old->uses.n = 0;
    for (uint32_t r = 1; r < graph->regions.n; r++) {
        NstRegion *region = graph->regions.at[r];
        for (uint32_t k = 0; k < region->results.n; k++)
            if (region->results.at[k].i == from.i) region->results.at[k] = to;
    }
    for (uint32_t k = 0; k < graph->sym_defs.n; k++)
        if (graph->sym_defs.at[k].value.i == from.i) graph->sym_defs.at[k].value = to;
}

/* Marks a node and the nodes of its regions dead.  Nesting is bounded by NST_MAX_NESTING. */
static void kill_node(NstGraph *graph, NstNodeId id)
{
    NstNode *node = nst_graph_node(graph, id);
    if (node->dead) return;
    node->dead = true;
    for (uint32_t k = 0; k < node->n_in; k++) drop_use(graph, node->in[k], id, k);
    NstRegionId owned[2];
    int n_owned = nst_node_regions(node, owned);
    for (int r = 0; r < n_owned; r++) {
        NstRegion *region = nst_graph_region(graph, owned[r]);
        region->results.n = 0;
        for (uint32_t k = region->nodes.n; k-- > 0;) kill_node(graph, region->nodes.at[k]);
    }
}

void nst_graph_drop_region(NstGraph *graph, NstRegionId id)
{
    NstRegion *region = nst_graph_region(graph, id);
    NST_ASSERT(id.i > NST_GRAPH_REGION.i && region->owner.i == 0);
    region->results.n = 0;
    for (uint32_t k = region->nodes.n; k-- > 0;) kill_node(graph, region->nodes.at[k]);
}

void nst_graph_erase(NstGraph *graph, NstNodeId id)
{
    NstNode *node = nst_graph_node(graph, id);
    for (uint32_t k = 0; k < node->n_out; k++) NST_ASSERT(nst_graph_value(graph, node->out[k])->uses.n == 0);
    kill_node(graph, id);
}

/* --- seeded constants ------------------------------------------------------------------------------------------ */

void nst_const_fill_seeded(NstDtype dtype, void *data, size_t n, uint64_t seed)
{
    size_t size = (size_t)nst_dtype_info(dtype)->bytes;
    bool is_float = nst_dtype_is_float(dtype), wide = nst_dtype_info(dtype)->compute == dtype;
    for (size_t i = 0; i < n; i++) {
        uint64_t z = ((seed << 32) + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
        NstScalar value;
        double real = (double)(z >> 40) * 0x1p-23 - 1.0;
        if (!is_float)
            value.i = dtype == NST_BOOL ? (int64_t)(z >> 63) : (int64_t)z;
        else if (wide)
            value.f = real;
        else
            value.i = (int64_t)nst_f64_to_narrow(dtype, real, true);
        if (!is_float && dtype != NST_BOOL) value = nst_scalar_convert(dtype, NST_I64, value, false);
        nst_scalar_store(dtype, (char *)data + i * size, value);
    }
}
