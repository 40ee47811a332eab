/* sweep.c: dead nodes and topological order of a graph.
 *
 * A node depends on the definers of its inputs, on what the nodes of its regions use from outside, and on the definers
 * of the VALUE and COUNTED symbols in its types and attributes.  Cost: linear in nodes, inputs and dims. */
#include "ir/graph.h"

/* --- dims of a node -------------------------------------------------------------------------------------------- */

typedef struct DimVisit {
    void (*visit)(void *arg, NstDim dim);
    void *arg;
} DimVisit;

static void visit_dims(const DimVisit *v, const NstDim *dim, int n)
{
    for (int k = 0; dim && k < n; k++)
        if (dim[k].i != 0) v->visit(v->arg, dim[k]);
}

static void visit_type(const DimVisit *v, const NstType *type)
{
    for (; type; type = type->item)
        if (type->kind == NST_TYPE_TENSOR) visit_dims(v, type->shape, type->rank);
}

static void visit_expr_node(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    visit_dims(arg, node->index, (int)node->n_index);
}

static void visit_exprs(const NstGraph *graph, const DimVisit *v, const NstExpr *e, uint32_t n)
{
    for (uint32_t k = 0; e && k < n; k++)
        if (e[k].i != 0) nst_expr_visit(graph->exprs, e[k], visit_expr_node, (void *)v);
}

static void visit_combine(const NstGraph *graph, const DimVisit *v, const NstCombine *combine)
{
    visit_exprs(graph, v, combine->step, combine->n_states);
    visit_exprs(graph, v, combine->merge, combine->n_states);
    visit_exprs(graph, v, combine->init, combine->n_states);
}

static void visit_attr(const NstGraph *graph, const NstNode *node, const DimVisit *v)
{
    const NstAttrs *a = &node->attr;
    int rank = node->n_in > 0 && node->in[0].i != 0 ? nst_value_type(graph, node->in[0])->rank : 0;
    switch (node->prim) {
    case NST_PRIM_IOTA: visit_dims(v, &a->iota.extent, 1); break;
    case NST_PRIM_DIM_VALUE: visit_dims(v, &a->dim_value.dim, 1); break;
    case NST_PRIM_MAP: visit_exprs(graph, v, &a->map.formula, 1); break;
    case NST_PRIM_SLICE:
    case NST_PRIM_UPDATE_SLICE: visit_dims(v, a->slice.start, rank); break;
    case NST_PRIM_PAD:
        visit_dims(v, a->pad.lo, rank);
        visit_dims(v, a->pad.hi, rank);
        break;
    case NST_PRIM_WINDOW:
        visit_dims(v, a->window.size, a->window.n);
        visit_dims(v, a->window.lo, a->window.n);
        visit_dims(v, a->window.hi, a->window.n);
        visit_dims(v, a->window.out, a->window.n);
        break;
    case NST_PRIM_REDUCE: visit_combine(graph, v, &a->reduce.combine); break;
    case NST_PRIM_PREFIX: visit_combine(graph, v, &a->prefix.combine); break;
    case NST_PRIM_CONTRACT: visit_exprs(graph, v, a->contract.pre, (uint32_t)a->contract.n_operands); break;
    case NST_PRIM_SORT: visit_dims(v, &a->sort.keep, 1); break;
    case NST_PRIM_SCATTER: visit_exprs(graph, v, &a->scatter.combine, 1); break;
    default: break; /* no dims */
    }
}

void nst_node_dims(const NstGraph *graph, const NstNode *node, void (*visit)(void *arg, NstDim dim), void *arg)
{
    DimVisit v = {visit, arg};
    visit_attr(graph, node, &v);
    for (uint32_t k = 0; k < node->n_out; k++) visit_type(&v, nst_value_type(graph, node->out[k]));
}

/* --- dependencies ---------------------------------------------------------------------------------------------- */

typedef struct Sweep {
    NstGraph *graph;
    NstArena *scratch;
    uint32_t n_syms;
    NstNodeId *definer; /* by symbol; NULL when no symbol needs one */
    bool *live;         /* by node */
    uint8_t *state;     /* by node, of the ordering: 0 new, 1 open, 2 done */
    void (*dep)(struct Sweep *sweep, NstNodeId node);
    NST_VEC(NstNodeId) work;
} Sweep;

static void dep_dim(void *arg, NstDim dim)
{
    Sweep *s = arg;
    const NstDimNode *node = nst_dim_node(s->graph->dims, dim);
    if (node->op == NST_DIM_SYM && node->sym.i < s->n_syms && s->definer[node->sym.i].i != 0)
        s->dep(s, s->definer[node->sym.i]);
    for (uint32_t k = 0; k < node->n && node->arg; k++) dep_dim(arg, node->arg[k]);
}

/* Calls s->dep for everything the node itself needs. */
static void node_deps(Sweep *s, const NstNode *node)
{
    for (uint32_t k = 0; k < node->n_in; k++)
        if (node->in[k].i != 0) s->dep(s, nst_graph_value(s->graph, node->in[k])->def);
    if (s->definer) nst_node_dims(s->graph, node, dep_dim, s);
}

/* True if a node of this kind can give a symbol its value by the size of an output. */
static bool counts(const NstNode *node)
{
    return !node->dead &&
           (node->prim == NST_PRIM_COMPACT || node->prim == NST_PRIM_HOST || node->prim == NST_PRIM_CALL ||
            node->prim == NST_PRIM_IF || node->prim == NST_PRIM_LOOP || node->prim == NST_PRIM_PARAM);
}

typedef struct Definers {
    const NstGraph *graph;
    NstNodeId *definer; /* by symbol */
    NstNodeId node;
} Definers;

static void note_definer(void *arg, NstDim dim)
{
    Definers *d = arg;
    const NstDimNode *node = nst_dim_node(d->graph->dims, dim);
    if (node->op != NST_DIM_SYM || nst_dims_sym(d->graph->dims, node->sym)->kind != NST_SYM_COUNTED) return;
    if (d->definer[node->sym.i].i == 0) d->definer[node->sym.i] = d->node;
}

/* Fills definer[sym.i]: COUNTED symbols belong to the first counting node with an output of that size. */
static void list_definers(const NstGraph *graph, NstNodeId *definer)
{
    Definers d = {graph, definer, {0}};
    DimVisit v = {note_definer, &d};
    for (uint32_t k = 0; k < graph->sym_defs.n; k++)
        definer[graph->sym_defs.at[k].sym.i] = nst_graph_value(graph, graph->sym_defs.at[k].value)->def;
    for (uint32_t i = 1; i < graph->nodes.n; i++) {
        const NstNode *node = graph->nodes.at[i];
        d.node = (NstNodeId){i};
        for (uint32_t k = 0; counts(node) && k < node->n_out; k++) visit_type(&v, nst_value_type(graph, node->out[k]));
    }
}

NstNodeId nst_graph_definer(const NstGraph *graph, NstSym sym)
{
    NstArena *scratch = nst_arena_new(nst_arena_ctx(graph->arena), graph->arena);
    NstNodeId *definer = NST_NEW_ARRAY(scratch, NstNodeId, nst_dims_sym_count(graph->dims) + 1), found;
    list_definers(graph, definer);
    found = definer[sym.i];
    nst_arena_free(scratch);
    return found;
}

static void find_definers(Sweep *s)
{
    NstGraph *graph = s->graph;
    bool any = graph->sym_defs.n > 0;
    for (uint32_t k = 1; k <= nst_dims_sym_count(graph->dims); k++)
        any = any || nst_dims_sym(graph->dims, (NstSym){k})->kind == NST_SYM_COUNTED;
    if (!any) return;
    s->n_syms = nst_dims_sym_count(graph->dims) + 1;
    s->definer = NST_NEW_ARRAY(s->scratch, NstNodeId, s->n_syms);
    list_definers(graph, s->definer);
}

/* --- liveness -------------------------------------------------------------------------------------------------- */

static void mark_live(Sweep *s, NstNodeId id)
{
    if (s->live[id.i]) return;
    s->live[id.i] = true;
    nst_vec_push(s->scratch, &s->work, id);
}

static bool is_root(const NstNode *node)
{
    return node->prim == NST_PRIM_PARAM || node->prim == NST_PRIM_ASSERT ||
           (node->prim == NST_PRIM_HOST && node->n_out == 0);
}

static void mark_region(Sweep *s, NstRegionId id)
{
    const NstRegion *region = nst_graph_region(s->graph, id);
    for (uint32_t k = 0; k < region->results.n; k++)
        if (region->results.at[k].i != 0) mark_live(s, nst_graph_value(s->graph, region->results.at[k])->def);
    for (uint32_t k = 0; k < region->nodes.n; k++) {
        const NstNode *node = nst_graph_node(s->graph, region->nodes.at[k]);
        if (!node->dead && is_root(node)) mark_live(s, region->nodes.at[k]);
    }
}

/* True if a region holds, at any depth, a node that must run. */
static bool has_root(const NstGraph *graph, const NstNode *owner)
{
    NstRegionId owned[2];
    int n_owned = nst_node_regions(owner, owned);
    for (int r = 0; r < n_owned; r++) {
        const NstRegion *region = nst_graph_region(graph, owned[r]);
        for (uint32_t k = 0; k < region->nodes.n; k++) {
            const NstNode *node = nst_graph_node(graph, region->nodes.at[k]);
            if (!node->dead && node->prim != NST_PRIM_PARAM && (is_root(node) || has_root(graph, node))) return true;
        }
    }
    return false;
}

static void mark_all(Sweep *s)
{
    s->dep = mark_live;
    mark_region(s, NST_GRAPH_REGION);
    const NstRegion *top = nst_graph_region(s->graph, NST_GRAPH_REGION);
    for (uint32_t k = 0; k < top->nodes.n; k++) {
        const NstNode *node = nst_graph_node(s->graph, top->nodes.at[k]);
        if (!node->dead && has_root(s->graph, node)) mark_live(s, top->nodes.at[k]);
    }
    while (s->work.n > 0) {
        const NstNode *node = nst_graph_node(s->graph, nst_vec_pop(&s->work));
        node_deps(s, node);
        NstRegionId owned[2];
        int n_owned = nst_node_regions(node, owned);
        for (int r = 0; r < n_owned; r++) {
            const NstRegion *region = nst_graph_region(s->graph, owned[r]);
            mark_region(s, owned[r]);
            for (uint32_t k = 0; k < region->nodes.n; k++)
                if (has_root(s->graph, nst_graph_node(s->graph, region->nodes.at[k])))
                    mark_live(s, region->nodes.at[k]);
        }
    }
}

/* --- order ----------------------------------------------------------------------------------------------------- */

/* The node of `region` that holds `id` or is it; none if it lies outside. */
static NstNodeId node_in_region(const NstGraph *graph, NstNodeId id, NstRegionId region)
{
    while (id.i != 0 && nst_graph_node(graph, id)->region.i != region.i)
        id = nst_graph_region(graph, nst_graph_node(graph, id)->region)->owner;
    return id;
}

typedef struct Order {
    Sweep sweep; /* first: passed as Sweep */
    NstRegionId region;
    NstRegion sorted;
} Order;

static void open_dep(Sweep *s, NstNodeId id)
{
    Order *order = (Order *)s;
    id = node_in_region(s->graph, id, order->region);
    if (id.i != 0 && s->state[id.i] == 0) nst_vec_push(s->scratch, &s->work, id);
}

/* Dependencies of a node and of all nodes below it. */
static void deep_deps(Sweep *s, const NstNode *node)
{
    node_deps(s, node);
    NstRegionId owned[2];
    int n_owned = nst_node_regions(node, owned);
    for (int r = 0; r < n_owned; r++) {
        const NstRegion *region = nst_graph_region(s->graph, owned[r]);
        for (uint32_t k = 0; k < region->nodes.n; k++) {
            const NstNode *inner = nst_graph_node(s->graph, region->nodes.at[k]);
            if (!inner->dead) deep_deps(s, inner);
        }
        for (uint32_t k = 0; k < region->results.n; k++)
            if (region->results.at[k].i != 0) s->dep(s, nst_graph_value(s->graph, region->results.at[k])->def);
    }
}

/* Depth-first in the old order; a node is emitted when it is met the second time.  A cycle keeps the old order. */
static void order_region(Order *order, NstRegionId id)
{
    Sweep *s = &order->sweep;
    NstRegion *region = nst_graph_region(s->graph, id);
    order->region = id;
    order->sorted.nodes.n = 0;
    for (uint32_t k = 0; k < region->nodes.n; k++) {
        if (nst_graph_node(s->graph, region->nodes.at[k])->dead) continue;
        nst_vec_push(s->scratch, &s->work, region->nodes.at[k]);
        while (s->work.n > 0) {
            NstNodeId top = s->work.at[s->work.n - 1];
            if (s->state[top.i] == 0) {
                s->state[top.i] = 1;
                deep_deps(s, nst_graph_node(s->graph, top));
                continue;
            }
            s->work.n--;
            if (s->state[top.i] == 1) nst_vec_push(s->scratch, &order->sorted.nodes, top);
            s->state[top.i] = 2;
        }
    }
    if (order->sorted.nodes.n > 0)
        memcpy(region->nodes.at, order->sorted.nodes.at, order->sorted.nodes.n * sizeof *region->nodes.at);
    region->nodes.n = order->sorted.nodes.n;
}

void nst_graph_sweep(NstGraph *graph)
{
    Order order = {.sweep = {.graph = graph, .scratch = nst_arena_new(nst_arena_ctx(graph->arena), graph->arena)}};
    Sweep *s = &order.sweep;
    s->live = NST_NEW_ARRAY(s->scratch, bool, graph->nodes.n);
    s->state = NST_NEW_ARRAY(s->scratch, uint8_t, graph->nodes.n);
    find_definers(s);
    mark_all(s);
    for (uint32_t i = 1; i < graph->nodes.n; i++)
        for (uint32_t k = 0; !s->live[i] && k < graph->nodes.at[i]->n_in && !graph->nodes.at[i]->dead; k++)
            nst_graph_set_input(graph, (NstNodeId){i}, k, (NstVal){0});
    for (uint32_t i = 1; i < graph->nodes.n; i++)
        if (!graph->nodes.at[i]->dead && !s->live[i]) nst_graph_erase(graph, (NstNodeId){i});
    s->dep = open_dep;
    for (uint32_t r = 1; r < graph->regions.n; r++) {
        NstNodeId owner = graph->regions.at[r]->owner;
        if (owner.i == 0 || !nst_graph_node(graph, owner)->dead) order_region(&order, (NstRegionId){r});
    }
    nst_arena_free(s->scratch);
}
