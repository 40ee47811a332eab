/* eval_graph.c: the reference interpreter of graphs: slow and obvious.  Nodes are evaluated in order, each value in full.
 *
 * Symbols: INPUT ones are solved from the inputs' shapes, VALUE ones set by the scalar that defines them, COUNTED ones by
 * the first output that has them as extent.  What a region made known is forgotten when it ends or repeats.  A loop's
 * iterations have an arena each, which lives until the next one has ended. */
#include "ir/eval_graph.h"

/* --- symbols --------------------------------------------------------------------------------------------------- */

static NstStatus check_known(const NstEval *e, NstDim dim)
{
    const NstDimNode *node = nst_dim_node(e->graph->dims, dim);
    if (node->op == NST_DIM_SYM)
        NST_CHECK(e->ctx, node->sym.i < e->n_syms && e->known[node->sym.i], NST_E_SHAPE, "size '%s' is not known here",
                  nst_dims_sym(e->graph->dims, node->sym)->name);
    for (uint32_t k = 0; k < node->n && node->arg; k++) NST_TRY(check_known(e, node->arg[k]));
    return NST_OK;
}

static bool is_known(const NstEval *e, NstDim dim)
{
    const NstDimNode *node = nst_dim_node(e->graph->dims, dim);
    if (node->op == NST_DIM_SYM) return node->sym.i < e->n_syms && e->known[node->sym.i];
    for (uint32_t k = 0; k < node->n && node->arg; k++)
        if (!is_known(e, node->arg[k])) return false;
    return true;
}

NstStatus nst_eval_dim(NstEval *e, NstDim dim, int64_t *value)
{
    NST_TRY(check_known(e, dim));
    return nst_dim_eval(e->ctx, e->graph->dims, dim, e->sym, e->n_syms, value);
}

/* Gives a symbol its value, which must keep its facts. */
static NstStatus set_symbol(NstEval *e, NstSym sym, int64_t value)
{
    const NstSymInfo *info = nst_dims_sym(e->graph->dims, sym);
    NST_CHECK(e->ctx, value >= info->lo && value <= info->hi, NST_E_SHAPE, "size '%s' is %lld, allowed: %lld..%lld",
              info->name, (long long)value, (long long)info->lo, (long long)info->hi);
    NST_CHECK(e->ctx, info->multiple <= 1 || value % info->multiple == 0, NST_E_SHAPE,
              "size '%s' is %lld, allowed: multiples of %lld", info->name, (long long)value, (long long)info->multiple);
    const NstDim limit[2] = {info->lo_dim, info->hi_dim};
    for (int k = 0; k < 2; k++) {
        int64_t bound;
        if (limit[k].i == 0 || !is_known(e, limit[k])) continue;
        NST_TRY(nst_eval_dim(e, limit[k], &bound));
        NST_CHECK(e->ctx, k ? value <= bound : value >= bound, NST_E_SHAPE, "size '%s' is %lld, allowed: at %s %lld",
                  info->name, (long long)value, k ? "most" : "least", (long long)bound);
    }
    e->sym[sym.i] = value;
    e->known[sym.i] = true;
    return NST_OK;
}

/* The unknown symbol of a dim if there is exactly one, and it is a tensor size (no VALUE or INDEX symbol). */
static NstSym only_unknown(const NstEval *e, NstDim dim, bool *several)
{
    const NstDimNode *node = nst_dim_node(e->graph->dims, dim);
    NstSym found = {0};
    if (node->op == NST_DIM_SYM) {
        NstSymKind kind = nst_dims_sym(e->graph->dims, node->sym)->kind;
        bool unknown = node->sym.i < e->n_syms && !e->known[node->sym.i];
        if (unknown && (kind == NST_SYM_VALUE || kind == NST_SYM_INDEX)) *several = true;
        return unknown ? node->sym : found;
    }
    for (uint32_t k = 0; k < node->n && node->arg; k++) {
        NstSym other = only_unknown(e, node->arg[k], several);
        if (other.i == 0 || other.i == found.i) continue;
        if (found.i != 0) *several = true;
        found = other;
    }
    return found;
}

/* Solves dim == extent for its only unknown symbol, where dim is linear in it. */
static NstStatus solve_dim(NstEval *e, NstDim dim, int64_t extent, bool *progress)
{
    bool several = false;
    NstDim coef, rest;
    int64_t c, r;
    NstSym sym = only_unknown(e, dim, &several);
    if (sym.i == 0 || several || !nst_dim_linear(e->graph->dims, dim, sym, &coef, &rest)) return NST_OK;
    NST_TRY(nst_eval_dim(e, coef, &c));
    NST_TRY(nst_eval_dim(e, rest, &r));
    int64_t left;
    bool ok = !__builtin_sub_overflow(extent, r, &left) && c != 0 && !(c == -1 && left == INT64_MIN) && left % c == 0;
    NST_CHECK(e->ctx, ok, NST_E_SHAPE, "extent %lld does not have the form of its dim in '%s' (%lld * %s + %lld)",
              (long long)extent, nst_dims_sym(e->graph->dims, sym)->name, (long long)c,
              nst_dims_sym(e->graph->dims, sym)->name, (long long)r);
    NST_TRY(set_symbol(e, sym, left / c));
    *progress = true;
    return NST_OK;
}

/* A value has its stated type; unknown symbols of the type are solved from the extents. */
static NstStatus bind_type(NstEval *e, const NstType *type, const NstTensorValue *t, const char *what)
{
    NST_CHECK(e->ctx, type->kind == NST_TYPE_TENSOR, NST_E_UNSUPPORTED,
              "%s is no tensor: not supported by the interpreter", what);
    NST_CHECK(e->ctx, t->dtype == type->dtype, NST_E_TYPE, "%s has type %s, allowed: %s", what,
              nst_dtype_info(t->dtype)->name, nst_dtype_info(type->dtype)->name);
    NST_CHECK(e->ctx, t->rank == type->rank, NST_E_SHAPE, "%s has rank %d, allowed: %d", what, t->rank, type->rank);
    for (bool progress = true; progress;) {
        progress = false;
        for (int k = 0; k < t->rank; k++) NST_TRY(solve_dim(e, type->shape[k], t->shape[k], &progress));
    }
    for (int k = 0; k < t->rank; k++) {
        int64_t wanted;
        if (!is_known(e, type->shape[k])) continue; /* two unknowns: a later tensor may say */
        NST_TRY(nst_eval_dim(e, type->shape[k], &wanted));
        NST_CHECK(e->ctx, wanted == t->shape[k], NST_E_SHAPE, "%s has extent %lld at axis %d, allowed: %lld", what,
                  (long long)t->shape[k], k, (long long)wanted);
    }
    return NST_OK;
}

/* --- structure ------------------------------------------------------------------------------------------------- */

static NstStatus eval_region(NstEval *e, NstRegionId id);

static NstEvalValue *value_at(NstEval *e, NstVal value)
{
    return &e->value[value.i];
}

/* Sets region parameters, binding their types. */
static NstStatus pass_params(NstEval *e, const NstRegion *region, uint32_t first, const NstEvalValue *const *value,
                             uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        NstVal param = region->params.at[first + k];
        NST_TRY(bind_type(e, nst_value_type(e->graph, param), &value[k]->t, "a region's parameter"));
        *value_at(e, param) = *value[k];
        value_at(e, param)->pad = NULL;
    }
    return NST_OK;
}

static bool *save_known(NstEval *e)
{
    return nst_copy(e->arena, e->known, e->n_syms * sizeof *e->known);
}

static void restore_known(NstEval *e, const bool *known)
{
    memcpy(e->known, known, e->n_syms * sizeof *known);
}

/* if and call: results leave without marks of padding. */
static NstStatus eval_once(NstEvalNode *n, NstRegionId id)
{
    NstEval *e = n->eval;
    const NstRegion *region = nst_graph_region(e->graph, id);
    bool *known = save_known(e);
    if (n->node->prim == NST_PRIM_CALL) NST_TRY(pass_params(e, region, 0, n->in, n->node->n_in));
    NST_TRY(eval_region(e, id));
    for (uint32_t k = 0; k < n->node->n_out; k++) {
        n->out[k] = *value_at(e, region->results.at[k]);
        n->out[k].pad = NULL;
    }
    restore_known(e, known);
    return NST_OK;
}

/* Rows of one scan, appended as iterations end. */
typedef struct Scan {
    NstTensorValue item;
    char *data;
    size_t n, cap; /* bytes */
    int64_t rows;
} Scan;

typedef struct Loop {
    NstEvalNode *n;
    const NstRegion *body;
    NstArena *outer;
    NstEvalValue *state;
    Scan *scan;
    int64_t trips;
    bool go;
} Loop;

static NstStatus append_scan(Loop *loop, Scan *scan, const NstTensorValue *item)
{
    if (scan->rows++ == 0) scan->item = *item;
    for (int k = 0; k < item->rank; k++)
        NST_CHECK(loop->n->eval->ctx, item->shape[k] == scan->item.shape[k], NST_E_SHAPE,
                  "a scan has extent %lld at axis %d, %lld before, allowed: equal", (long long)item->shape[k], k,
                  (long long)scan->item.shape[k]);
    if (scan->n + item->bytes > scan->cap) {
        scan->cap = 2 * (scan->n + item->bytes);
        char *grown = nst_alloc_aligned(loop->outer, scan->cap, 64);
        if (scan->n) memcpy(grown, scan->data, scan->n);
        scan->data = grown;
    }
    if (item->bytes) memcpy(scan->data + scan->n, item->data, item->bytes);
    scan->n += item->bytes;
    return NST_OK;
}

/* One iteration in an arena of its own. */
static NstStatus run_iteration(Loop *loop, int64_t i)
{
    NstEval *e = loop->n->eval;
    uint32_t n_states = (uint32_t)loop->n->node->attr.loop.n_states,
             n_scans = (uint32_t)loop->n->node->attr.loop.n_scans;
    NstEvalValue counter, go;
    NST_TRY(nst_eval_new(e, NST_I64, 0, NULL, &counter));
    NST_TRY(nst_eval_new(e, NST_BOOL, 0, NULL, &go));
    nst_eval_put(&counter.t, 0, (NstScalar){.i = i});
    nst_eval_put(&go.t, 0, (NstScalar){.i = 1});
    const NstEvalValue *control[2] = {&counter, &go};
    NST_TRY(pass_params(e, loop->body, 0, control, 2));
    for (uint32_t k = 0; k < n_states; k++) {
        const NstEvalValue *state = &loop->state[k];
        NST_TRY(pass_params(e, loop->body, k + 2, &state, 1));
    }
    NST_TRY(eval_region(e, loop->n->node->attr.loop.body));
    if (loop->n->in[1]) loop->go = nst_eval_get(&value_at(e, loop->body->results.at[0])->t, 0).i != 0;
    for (uint32_t k = 0; k < n_states; k++) {
        NstEvalValue *state = &loop->state[k]; /* copied: what it came from may die with the iteration before */
        *state = *value_at(e, loop->body->results.at[k + 1]);
        state->t.data = nst_copy(e->arena, state->t.data, state->t.bytes);
        state->pad = NULL;
    }
    for (uint32_t k = 0; k < n_scans; k++)
        NST_TRY(append_scan(loop, &loop->scan[k], &value_at(e, loop->body->results.at[n_states + 1 + k])->t));
    return NST_OK;
}

/* States and scans become outputs, in the arena outside. */
static NstStatus finish_loop(Loop *loop, int64_t iterations)
{
    NstEval *e = loop->n->eval;
    const NstNode *node = loop->n->node;
    uint32_t n_states = (uint32_t)node->attr.loop.n_states;
    if (node->attr.loop.count.i != 0) NST_TRY(set_symbol(e, node->attr.loop.count, iterations));
    for (uint32_t k = 0; k < n_states; k++) {
        loop->n->out[k] = loop->state[k];
        loop->n->out[k].t.data = nst_copy(loop->outer, loop->state[k].t.data, loop->state[k].t.bytes);
    }
    for (uint32_t k = n_states; k < node->n_out; k++) {
        Scan *scan = &loop->scan[k - n_states];
        const NstType *type = nst_value_type(e->graph, node->out[k]);
        int64_t shape[NST_MAX_RANK + 1] = {iterations};
        for (int a = 1; a < type->rank; a++) {
            if (scan->rows > 0)
                shape[a] = scan->item.shape[a - 1];
            else if (is_known(e, type->shape[a]))
                NST_TRY(nst_eval_dim(e, type->shape[a], &shape[a]));
        }
        NST_TRY(nst_eval_new(e, type->dtype, type->rank, shape, &loop->n->out[k]));
        if (scan->n) memcpy(loop->n->out[k].t.data, scan->data, scan->n);
    }
    return NST_OK;
}

static NstStatus run_loop(Loop *loop)
{
    NstEval *e = loop->n->eval;
    bool *known = save_known(e);
    NstArena *before = NULL;
    int64_t i = 0;
    for (; i < loop->trips && loop->go; i++) {
        NstArena *own = nst_arena_new(e->ctx, loop->outer);
        e->arena = own;
        NstStatus status = run_iteration(loop, i);
        e->arena = loop->outer;
        NST_TRY(status);
        restore_known(e, known);
        nst_arena_free(before);
        before = own;
    }
    NST_TRY(finish_loop(loop, i));
    nst_arena_free(before);
    return NST_OK;
}

static NstStatus eval_loop(NstEvalNode *n)
{
    NstEval *e = n->eval;
    const NstNode *node = n->node;
    uint32_t n_states = (uint32_t)node->attr.loop.n_states;
    Loop loop = {.n = n, .body = nst_graph_region(e->graph, node->attr.loop.body), .outer = e->arena};
    loop.trips = n->in[0] ? nst_eval_get(&n->in[0]->t, 0).i : INT64_MAX;
    loop.go = !n->in[1] || nst_eval_get(&n->in[1]->t, 0).i != 0;
    loop.state = NST_NEW_ARRAY(e->arena, NstEvalValue, n_states);
    loop.scan = NST_NEW_ARRAY(e->arena, Scan, node->attr.loop.n_scans);
    for (uint32_t k = 0; k < n_states; k++) loop.state[k] = *n->in[k + 2];
    return run_loop(&loop);
}

static NstStatus eval_host(NstEvalNode *n)
{
    NstEval *e = n->eval;
    NstTensorValue *in = NST_NEW_ARRAY(e->arena, NstTensorValue, n->node->n_in);
    NstTensorValue *out = NST_NEW_ARRAY(e->arena, NstTensorValue, n->node->n_out);
    NST_CHECK(e->ctx, e->host && e->host->call, NST_E_UNSUPPORTED, "host function '%s' is not available here",
              n->node->attr.host.name);
    for (uint32_t k = 0; k < n->node->n_in; k++)
        if (n->in[k]) in[k] = n->in[k]->t;
    NST_TRY(e->host->call(e->host->arg, e->ctx, e->arena, n->node, in, out));
    for (uint32_t k = 0; k < n->node->n_out; k++) n->out[k] = (NstEvalValue){.t = out[k], .set = true};
    return NST_OK;
}

static NstStatus eval_assert(NstEvalNode *n)
{
    const NstTensorValue *x = &n->in[0]->t;
    int64_t count = nst_eval_count(x);
    for (int64_t i = 0; i < count; i++)
        NST_CHECK(n->eval->ctx, nst_eval_get(x, i).i != 0, NST_E_ASSERT, "%s", n->node->attr.assertion.message);
    return NST_OK;
}

/* --- nodes ----------------------------------------------------------------------------------------------------- */

static NstStatus eval_prim(NstEvalNode *n)
{
    switch (n->node->prim) {
    case NST_PRIM_PARAM: return NST_OK;
    case NST_PRIM_CONST:
    case NST_PRIM_IOTA:
    case NST_PRIM_RANDOM_BITS:
    case NST_PRIM_DIM_VALUE: return nst_eval_source(n);
    case NST_PRIM_MAP: return nst_eval_map(n);
    case NST_PRIM_CONVERT:
    case NST_PRIM_BITCAST: return nst_eval_convert(n);
    case NST_PRIM_RESHAPE:
    case NST_PRIM_PERMUTE:
    case NST_PRIM_EXPAND:
    case NST_PRIM_SLICE:
    case NST_PRIM_PAD:
    case NST_PRIM_WINDOW: return nst_eval_view(n);
    case NST_PRIM_CONCAT: return nst_eval_concat(n);
    case NST_PRIM_UPDATE_SLICE: return nst_eval_update_slice(n);
    case NST_PRIM_REDUCE: return nst_eval_reduce(n);
    case NST_PRIM_PREFIX: return nst_eval_prefix(n);
    case NST_PRIM_CONTRACT: return nst_eval_contract(n);
    case NST_PRIM_SORT: return nst_eval_sort(n);
    case NST_PRIM_GATHER: return nst_eval_gather(n);
    case NST_PRIM_SCATTER: return nst_eval_scatter(n);
    case NST_PRIM_COMPACT: return nst_eval_compact(n);
    case NST_PRIM_IF:
        return eval_once(n, nst_eval_get(&n->in[0]->t, 0).i ? n->node->attr.branch.then_region
                                                            : n->node->attr.branch.else_region);
    case NST_PRIM_LOOP: return eval_loop(n);
    case NST_PRIM_CALL: return eval_once(n, n->node->attr.call.body);
    case NST_PRIM_HOST: return eval_host(n);
    case NST_PRIM_ASSERT: return eval_assert(n);
    case NST_PRIM_COUNT: break;
    }
    NST_FAIL(n->eval->ctx, NST_E_INVALID, "no primitive has number %d", (int)n->node->prim);
}

/* Symbols that a value defines take its element. */
static NstStatus define_symbols(NstEval *e, NstVal id)
{
    for (uint32_t d = 0; d < e->graph->sym_defs.n; d++) {
        if (e->graph->sym_defs.at[d].value.i != id.i) continue;
        NST_TRY(set_symbol(e, e->graph->sym_defs.at[d].sym, nst_eval_get(&value_at(e, id)->t, 0).i));
    }
    return NST_OK;
}

/* Stores outputs, binds their types and the symbols they define. */
static NstStatus take_outputs(NstEvalNode *n)
{
    NstEval *e = n->eval;
    for (uint32_t k = 0; k < n->node->n_out; k++) {
        NstVal id = n->node->out[k];
        NST_TRY(bind_type(e, nst_value_type(e->graph, id), &n->out[k].t, "the result"));
        *value_at(e, id) = n->out[k];
        NST_TRY(define_symbols(e, id));
    }
    return NST_OK;
}

static NstStatus eval_node(NstEval *e, const NstNode *node)
{
    NstEvalNode n = {.eval = e, .node = node};
    n.in = NST_NEW_ARRAY(e->arena, const NstEvalValue *, node->n_in);
    n.out = NST_NEW_ARRAY(e->arena, NstEvalValue, node->n_out);
    NstStatus status = NST_OK;
    for (uint32_t k = 0; k < node->n_in && status == NST_OK; k++) {
        if (node->in[k].i == 0) continue;
        n.in[k] = value_at(e, node->in[k]);
        if (!n.in[k]->set) status = nst_fail(e->ctx, NST_E_INVALID, "input %u was not computed", k);
    }
    if (status == NST_OK) status = eval_prim(&n);
    if (status == NST_OK) status = take_outputs(&n);
    if (status != NST_OK)
        (void)nst_note(e->ctx, "%s of %s", nst_prim_info(node->prim)->name,
                       nst_origin_text(e->graph->origins, node->origin));
    return status;
}

static NstStatus eval_region(NstEval *e, NstRegionId id)
{
    const NstRegion *region = nst_graph_region(e->graph, id);
    for (uint32_t k = 0; k < region->nodes.n; k++) {
        const NstNode *node = nst_graph_node(e->graph, region->nodes.at[k]);
        if (node->dead) continue;
        NST_TRY(node->prim == NST_PRIM_PARAM ? define_symbols(e, node->out[0]) : eval_node(e, node));
    }
    return NST_OK;
}

/* --- entry ----------------------------------------------------------------------------------------------------- */

/* Binds the graph's inputs: twice, so that the order of inputs does not matter to what can be solved. */
static NstStatus bind_inputs(NstEval *e, const NstTensorValue *input, uint32_t n_inputs)
{
    const NstRegion *top = nst_graph_region(e->graph, NST_GRAPH_REGION);
    NST_CHECK(e->ctx, n_inputs == top->params.n, NST_E_INVALID, "%u inputs, allowed: %u", n_inputs, top->params.n);
    for (int round = 0; round < 2; round++) {
        for (uint32_t k = 0; k < n_inputs; k++) {
            NstVal param = top->params.at[k];
            const char *name = nst_value_node(e->graph, param)->attr.param.name;
            char *what = nst_format(e->arena, "input '%s'", name ? name : "?");
            const NstTensorValue *t = &input[k];
            NST_CHECK(e->ctx, t->rank >= 0 && t->rank <= NST_MAX_RANK, NST_E_LIMIT, "%s has rank %d", what, t->rank);
            for (int a = 0; a < t->rank; a++)
                NST_CHECK(e->ctx, t->shape[a] >= 0, NST_E_SHAPE, "%s has extent %lld at axis %d, allowed: >= 0", what,
                          (long long)t->shape[a], a);
            int64_t bytes = nst_eval_count(t) * nst_dtype_info(t->dtype)->bytes;
            NST_CHECK(e->ctx, bytes == 0 || (size_t)bytes <= t->bytes, NST_E_INVALID, "%s has %zu bytes, allowed: %lld",
                      what, t->bytes, (long long)bytes);
            NST_TRY(bind_type(e, nst_value_type(e->graph, param), t, what));
            *value_at(e, param) = (NstEvalValue){.t = *t, .set = true};
        }
    }
    return NST_OK;
}

NstStatus nst_graph_interpret(NstCtx *ctx, NstArena *arena, const NstGraph *graph, const NstTensorValue *input,
                              uint32_t n_inputs, bool has_fma, const NstHostCall *host, NstTensorValue *result)
{
    NstEval e = {.ctx = ctx, .arena = arena, .graph = graph, .host = host, .has_fma = has_fma};
    e.value = NST_NEW_ARRAY(arena, NstEvalValue, graph->values.n);
    e.n_syms = nst_dims_sym_count(graph->dims) + 1;
    e.sym = NST_NEW_ARRAY(arena, int64_t, e.n_syms);
    e.known = NST_NEW_ARRAY(arena, bool, e.n_syms);
    NST_TRY(bind_inputs(&e, input, n_inputs));
    NST_TRY(eval_region(&e, NST_GRAPH_REGION));
    const NstRegion *top = nst_graph_region(graph, NST_GRAPH_REGION);
    for (uint32_t k = 0; k < top->results.n; k++) {
        NST_CHECK(ctx, value_at(&e, top->results.at[k])->set, NST_E_INVALID, "result %u was not computed", k);
        result[k] = value_at(&e, top->results.at[k])->t;
    }
    return NST_OK;
}
