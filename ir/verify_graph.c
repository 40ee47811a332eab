/* verify_graph.c: checks a graph against the rules numbered in verify.def.  The first broken one is reported.
 *
 * One walk in program order keeps what is visible: values and symbols; what a region made visible is hidden at its end.
 * Types are inferred anew and compared with those that stand.  Cost: linear in the graph, plus the prover's steps. */
#include "ir/base/map.h"
#include "ir/infer.h"

#include <stdarg.h>

static const char *const rules[] = {
#define NST_GRAPH_CHECK(number, tested, rule) [number] = rule,
#include "ir/verify.def"
#undef NST_GRAPH_CHECK
};

#define RULE_OF_PRIM 20 /* the number of the first primitive's rule */

typedef struct Verifier {
    NstCtx *ctx;
    NstArena *scratch;
    const NstGraph *graph;
    NstGraph view;       /* the graph, making new types in scratch */
    const NstNode *node; /* being checked, NULL outside of nodes */
    uint32_t n_syms;
    bool *visible;  /* by value */
    bool *owned;    /* by region */
    bool *known;    /* by symbol */
    NstDim unknown; /* the first dim met with a symbol that is not known */
} Verifier;

static NstStatus NST_PRINTF(3, 4) broken(Verifier *v, int number, const char *format, ...)
{
    char values[NST_ERROR_TEXT / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(values, sizeof values, format, args);
    va_end(args);
    const char *where = "", *name;
    if (v->node) {
        name = v->node->n_out > 0 && v->node->out ? nst_graph_value(v->graph, v->node->out[0])->name : NULL;
        where = nst_format(v->scratch, ", %s%s%s(%s) of %s", name ? "%" : "", name ? name : "", name ? " " : "",
                           nst_prim_info(v->node->prim)->name, nst_origin_text(v->graph->origins, v->node->origin));
    }
    return nst_fail(v->ctx, NST_E_VERIFY, "G%02d: graph '%s'%s: %s; rule: %s", number, v->graph->name, where, values,
                    rules[number]);
}

static const char *dim_text(Verifier *v, NstDim dim)
{
    NstText text;
    nst_text_init(&text, v->scratch);
    nst_dim_print(&text, v->graph->dims, dim, NULL, NULL);
    return nst_text_get(&text);
}

static const char *type_text(Verifier *v, const NstType *type)
{
    NstText text;
    nst_text_init(&text, v->scratch);
    nst_type_print(&text, v->graph->dims, type);
    return nst_text_get(&text);
}

/* --- structure of the lists ------------------------------------------------------------------------------------ */

static NstStatus check_ids(Verifier *v)
{
    const NstGraph *graph = v->graph;
    for (uint32_t i = 1; i < graph->nodes.n; i++) {
        const NstNode *node = graph->nodes.at[i];
        if (node->dead) continue;
        if ((unsigned)node->prim >= NST_PRIM_COUNT)
            return broken(v, 1, "node %u is primitive %u", i, (unsigned)node->prim);
        if (node->region.i == 0 || node->region.i >= graph->regions.n) return broken(v, 1, "node %u in no region", i);
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k].i >= graph->values.n)
                return broken(v, 1, "input %u of node %u is value %u", k, i, node->in[k].i);
        for (uint32_t k = 0; k < node->n_out; k++) {
            NstVal out = node->out[k];
            if (out.i == 0 || out.i >= graph->values.n || graph->values.at[out.i]->def.i != i ||
                graph->values.at[out.i]->slot != k)
                return broken(v, 1, "output %u of node %u is value %u of another node", k, i, out.i);
        }
        NstRegionId owned[2];
        int n_owned = nst_node_regions(node, owned);
        for (int r = 0; r < n_owned; r++) {
            if (owned[r].i <= 1 || owned[r].i >= graph->regions.n)
                return broken(v, 1, "node %u has region %u", i, owned[r].i);
            if (v->owned[owned[r].i] || graph->regions.at[owned[r].i]->owner.i != i)
                return broken(v, 10, "region %u of node %u belongs to another", owned[r].i, i);
            v->owned[owned[r].i] = true;
        }
    }
    return NST_OK;
}

static NstStatus check_uses(Verifier *v)
{
    const NstGraph *graph = v->graph;
    uint32_t *count = NST_NEW_ARRAY(v->scratch, uint32_t, graph->values.n);
    for (uint32_t i = 1; i < graph->nodes.n; i++)
        for (uint32_t k = 0; !graph->nodes.at[i]->dead && k < graph->nodes.at[i]->n_in; k++)
            count[graph->nodes.at[i]->in[k].i]++;
    for (uint32_t i = 1; i < graph->values.n; i++) {
        const NstValue *value = graph->values.at[i];
        if (value->uses.n != count[i])
            return broken(v, 2, "value %u has %u uses in its list, %u inputs", i, value->uses.n, count[i]);
        for (uint32_t k = 0; k < value->uses.n; k++) {
            NstUse use = value->uses.at[k];
            bool right = use.node.i != 0 && use.node.i < graph->nodes.n && !graph->nodes.at[use.node.i]->dead &&
                         use.slot < graph->nodes.at[use.node.i]->n_in &&
                         graph->nodes.at[use.node.i]->in[use.slot].i == i;
            if (!right) return broken(v, 2, "a use of value %u by node %u is not there", i, use.node.i);
        }
    }
    return NST_OK;
}

/* --- symbols --------------------------------------------------------------------------------------------------- */

static void note_unknown(void *arg, NstDim dim)
{
    Verifier *v = arg;
    const NstDimNode *node = nst_dim_node(v->graph->dims, dim);
    if (node->op == NST_DIM_SYM && (node->sym.i >= v->n_syms || !v->known[node->sym.i]) && v->unknown.i == 0)
        v->unknown = dim;
    for (uint32_t k = 0; k < node->n && node->arg; k++) note_unknown(arg, node->arg[k]);
}

/* Counted symbols that this node's outputs, or its attribute, give a value. */
static void learn_counted(Verifier *v, const NstNode *node)
{
    NstDims *dims = v->graph->dims;
    if (node->prim == NST_PRIM_LOOP && node->attr.loop.count.i != 0) v->known[node->attr.loop.count.i] = true;
    bool counts = node->prim == NST_PRIM_COMPACT || node->prim == NST_PRIM_HOST || node->prim == NST_PRIM_CALL ||
                  node->prim == NST_PRIM_IF || node->prim == NST_PRIM_LOOP || node->prim == NST_PRIM_PARAM;
    for (uint32_t k = 0; counts && k < node->n_out; k++) {
        const NstType *type = nst_value_type(v->graph, node->out[k]);
        for (int axis = 0; type->kind == NST_TYPE_TENSOR && axis < type->rank; axis++) {
            const NstDimNode *dim = nst_dim_node(dims, type->shape[axis]);
            if (dim->op == NST_DIM_SYM && nst_dims_sym(dims, dim->sym)->kind == NST_SYM_COUNTED)
                v->known[dim->sym.i] = true;
        }
    }
}

static NstStatus check_symbols(Verifier *v, const NstNode *node)
{
    learn_counted(v, node);
    v->unknown = (NstDim){0};
    nst_node_dims(v->graph, node, note_unknown, v);
    if (v->unknown.i != 0) return broken(v, 8, "size '%s' has no value here", dim_text(v, v->unknown));
    for (uint32_t k = 0; k < v->graph->sym_defs.n && node->n_out == 1; k++)
        if (v->graph->sym_defs.at[k].value.i == node->out[0].i) v->known[v->graph->sym_defs.at[k].sym.i] = true;
    return NST_OK;
}

static NstStatus check_sym_defs(Verifier *v)
{
    const NstGraph *graph = v->graph;
    for (uint32_t k = 0; k < graph->sym_defs.n; k++) {
        NstSymDef def = graph->sym_defs.at[k];
        if (def.sym.i == 0 || def.sym.i >= v->n_syms || def.value.i == 0 || def.value.i >= graph->values.n)
            return broken(v, 1, "definition %u of a symbol", k);
        const NstSymInfo *info = nst_dims_sym(graph->dims, def.sym);
        const NstType *type = nst_value_type(graph, def.value);
        if (info->kind != NST_SYM_VALUE) return broken(v, 7, "'%s' is defined by a value", info->name);
        if (type->kind != NST_TYPE_TENSOR || type->rank != 0 || !nst_dtype_is_int(type->dtype))
            return broken(v, 7, "'%s' is defined by %s", info->name, type_text(v, type));
        for (uint32_t m = 0; m < k; m++)
            if (graph->sym_defs.at[m].sym.i == def.sym.i) return broken(v, 7, "'%s' is defined twice", info->name);
    }
    return NST_OK;
}

/* --- types ----------------------------------------------------------------------------------------------------- */

static bool types_agree(NstDims *dims, const NstType *a, const NstType *b)
{
    if (a->kind != b->kind || a->dtype != b->dtype) return false;
    if (a->kind != NST_TYPE_TENSOR) return !a->item || !b->item || types_agree(dims, a->item, b->item);
    if (a->rank != b->rank) return false;
    for (int k = 0; k < a->rank; k++)
        if (nst_dim_compare(dims, a->shape[k], NST_DIM_EQ, b->shape[k]) == NST_FALSE) return false;
    return true;
}

/* No extent below 0, and a known size within the budget of one tensor. */
static NstStatus check_size(Verifier *v, const NstType *type)
{
    NstDims *dims = v->graph->dims;
    int64_t bytes = type->kind == NST_TYPE_TENSOR ? nst_dtype_info(type->dtype)->bytes : 0, extent;
    bool over = false;
    for (int k = 0; type->kind == NST_TYPE_TENSOR && k < type->rank; k++) {
        if (nst_dim_compare(dims, type->shape[k], NST_DIM_LT, nst_dim_const(dims, 0)) == NST_TRUE)
            return broken(v, 12, "%s has a negative extent", type_text(v, type));
        if (!nst_dim_is_const(dims, type->shape[k], &extent)) return NST_OK;
        if (extent == 0) return NST_OK;
        over = over || __builtin_mul_overflow(bytes, extent, &bytes) || bytes > NST_MAX_TENSOR_BYTES;
    }
    if (!over) return NST_OK;
    NstStatus status =
        broken(v, 12, "%s, allowed: at most %lld bytes", type_text(v, type), (long long)NST_MAX_TENSOR_BYTES);
    return status == NST_E_VERIFY ? v->ctx->status = NST_E_LIMIT : status; /* what a model or a caller may ask for */
}

/* Which outputs' stated types the rule needs, since operands do not determine them. */
static bool is_wanted(NstPrim prim)
{
    return prim == NST_PRIM_PARAM || prim == NST_PRIM_CONST || prim == NST_PRIM_RANDOM_BITS ||
           prim == NST_PRIM_RESHAPE || prim == NST_PRIM_EXPAND || prim == NST_PRIM_SLICE || prim == NST_PRIM_HOST ||
           prim == NST_PRIM_IF || prim == NST_PRIM_LOOP || prim == NST_PRIM_CALL;
}

static NstStatus check_counts(Verifier *v, const NstNode *node)
{
    const NstPrimInfo *info = nst_prim_info(node->prim);
    if (node->n_in < (uint32_t)info->min_in || (info->max_in >= 0 && node->n_in > (uint32_t)info->max_in) ||
        node->n_out < (uint32_t)info->min_out || (info->max_out >= 0 && node->n_out > (uint32_t)info->max_out))
        return broken(v, 4, "%u inputs and %u outputs", node->n_in, node->n_out);
    for (uint32_t k = 0; k < node->n_in; k++) {
        bool optional = node->prim == NST_PRIM_HOST || (node->prim == NST_PRIM_LOOP && k < 2);
        if (node->in[k].i == 0 && !optional) return broken(v, 5, "input %u is absent", k);
    }
    return NST_OK;
}

static NstStatus check_rule(Verifier *v, const NstNode *node)
{
    NstCtx own = {.arena = v->ctx->arena, .guard = v->ctx->guard};
    NstInfer infer = {.ctx = &own, .graph = &v->view};
    NstType *type = NST_NEW_ARRAY(v->scratch, NstType, node->n_out);
    for (uint32_t k = 0; k < node->n_out && is_wanted(node->prim); k++)
        type[k] = *nst_value_type(v->graph, node->out[k]);
    for (uint32_t k = 0; k < node->n_out; k++) NST_TRY(check_size(v, nst_value_type(v->graph, node->out[k])));
    NstStatus status = nst_infer(&infer, node->prim, &node->attr, node->in, node->n_in, type, node->n_out);
    if (status != NST_OK) return broken(v, RULE_OF_PRIM + (int)node->prim, "%s", own.error);
    for (uint32_t k = 0; k < node->n_out; k++) {
        const NstType *stated = nst_value_type(v->graph, node->out[k]);
        if (!types_agree(v->graph->dims, stated, &type[k]))
            return broken(v, 6, "output %u is %s, the rule gives %s", k, type_text(v, stated), type_text(v, &type[k]));
    }
    return NST_OK;
}

/* --- the walk -------------------------------------------------------------------------------------------------- */

static NstStatus check_region(Verifier *v, NstRegionId id, int depth);

static NstStatus check_inner_regions(Verifier *v, const NstNode *node, int depth)
{
    NstRegionId owned[2];
    int n_owned = nst_node_regions(node, owned);
    for (int r = 0; r < n_owned; r++) {
        bool *known = nst_copy(v->scratch, v->known, v->n_syms * sizeof *v->known);
        NST_TRY(check_region(v, owned[r], depth + 1));
        const NstRegion *region = nst_graph_region(v->graph, owned[r]);
        for (uint32_t k = 0; k < region->nodes.n; k++) {
            const NstNode *inner = nst_graph_node(v->graph, region->nodes.at[k]);
            for (uint32_t o = 0; o < inner->n_out; o++) v->visible[inner->out[o].i] = false;
        }
        memcpy(v->known, known, v->n_syms * sizeof *known);
        v->node = node;
    }
    return NST_OK;
}

static NstStatus check_node(Verifier *v, const NstNode *node, int depth)
{
    v->node = node;
    for (uint32_t k = 0; k < node->n_in; k++)
        if (node->in[k].i != 0 && !v->visible[node->in[k].i]) return broken(v, 3, "input %u is not visible here", k);
    NST_TRY(check_counts(v, node));
    NST_TRY(check_inner_regions(v, node, depth));
    NST_TRY(check_rule(v, node));
    NST_TRY(check_symbols(v, node));
    for (uint32_t k = 0; k < node->n_out; k++) v->visible[node->out[k].i] = true;
    v->node = NULL;
    return NST_OK;
}

/* Params are listed, in the order of their nodes, and stand first. */
static NstStatus check_params(Verifier *v, const NstRegion *region, uint32_t id)
{
    uint32_t n = 0;
    bool others = false;
    for (uint32_t k = 0; k < region->nodes.n; k++) {
        const NstNode *node = nst_graph_node(v->graph, region->nodes.at[k]);
        if (node->dead) continue;
        others = others || node->prim != NST_PRIM_PARAM;
        if (node->prim != NST_PRIM_PARAM) continue;
        if (others || n >= region->params.n || node->n_out != 1 || region->params.at[n++].i != node->out[0].i)
            return broken(v, 11, "parameter of region %u is out of place", id);
    }
    return n == region->params.n ? NST_OK
                                 : broken(v, 11, "region %u lists %u parameters and has %u", id, region->params.n, n);
}

static NstStatus check_region(Verifier *v, NstRegionId id, int depth)
{
    const NstRegion *region = nst_graph_region(v->graph, id);
    if (depth > NST_MAX_NESTING) return broken(v, 10, "region %u is %d deep", id.i, depth);
    NST_TRY(check_params(v, region, id.i));
    for (uint32_t k = 0; k < region->nodes.n; k++) {
        const NstNode *node = nst_graph_node(v->graph, region->nodes.at[k]);
        if (node->dead) continue;
        if (node->region.i != id.i) return broken(v, 1, "node %u is listed in region %u", region->nodes.at[k].i, id.i);
        NST_TRY(check_node(v, node, depth));
    }
    v->node = NULL;
    for (uint32_t k = 0; k < region->results.n; k++) {
        NstVal result = region->results.at[k];
        if (result.i == 0 || result.i >= v->graph->values.n) return broken(v, 1, "result %u of region %u", k, id.i);
        if (!v->visible[result.i]) return broken(v, 3, "result %u of region %u is not visible there", k, id.i);
    }
    return NST_OK;
}

/* Names of the graph's inputs and results. */
static NstStatus check_names(Verifier *v)
{
    const NstGraph *graph = v->graph;
    const NstRegion *top = nst_graph_region(graph, NST_GRAPH_REGION);
    for (int results = 0; results < 2; results++) {
        uint32_t n = results ? top->results.n : top->params.n;
        NstMap seen;
        nst_map_init(&seen, v->scratch);
        if (results && n != graph->result_names.n)
            return broken(v, 9, "%u results, %u names", n, graph->result_names.n);
        for (uint32_t k = 0; k < n; k++) {
            const char *name =
                results ? graph->result_names.at[k] : nst_value_node(graph, top->params.at[k])->attr.param.name;
            if (!name) return broken(v, 9, "%s %u has no name", results ? "result" : "input", k);
            uint64_t key = nst_hash_bytes(name, strlen(name), 0);
            if (nst_map_get(&seen, key, 0) != 0)
                return broken(v, 9, "two %s named '%s'", results ? "results" : "inputs", name);
            nst_map_put(&seen, key, 1);
        }
    }
    return NST_OK;
}

static NstStatus check_all(Verifier *v)
{
    NST_TRY(check_ids(v));
    NST_TRY(check_uses(v));
    NST_TRY(check_sym_defs(v));
    for (uint32_t k = 1; k < v->n_syms; k++)
        v->known[k] = nst_dims_sym(v->graph->dims, (NstSym){k})->kind == NST_SYM_INPUT;
    NST_TRY(check_region(v, NST_GRAPH_REGION, 0));
    return check_names(v);
}

NstStatus nst_graph_verify(NstCtx *ctx, const NstGraph *graph)
{
    Verifier v = {.ctx = ctx, .graph = graph, .view = *graph};
    v.scratch = v.view.arena = nst_arena_new(ctx, graph->arena);
    v.n_syms = nst_dims_sym_count(graph->dims) + 1;
    v.visible = NST_NEW_ARRAY(v.scratch, bool, graph->values.n);
    v.owned = NST_NEW_ARRAY(v.scratch, bool, graph->regions.n);
    v.known = NST_NEW_ARRAY(v.scratch, bool, v.n_syms);
    NstStatus status = check_all(&v);
    nst_arena_free(v.scratch);
    return status;
}
