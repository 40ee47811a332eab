/* build_combine.c: builder of the combining, indirect and structure primitives. */
#include "ir/build_impl.h"
#include "ir/order.h"

/* --- reduce, prefix -------------------------------------------------------------------------------------------- */

/* A one-state combiner from its text, over elements of type `element` in their compute type. */
static bool make_combine(NstBuild *build, const char *formula, NstDtype element, NstExpr parts[3], NstCombine *combine)
{
    NstDtype compute = nst_dtype_info(element)->compute, step[2] = {compute, element}, merge[2] = {compute, compute};
    parts[0] = nst_build_formula(build, formula, step, 2, compute);
    parts[1] = nst_build_formula(build, formula, merge, 2, compute);
    if (build->status != NST_OK) return false;
    parts[2] = nst_combine_identity(build->graph->exprs, parts[1], compute);
    if (parts[2].i == 0) {
        nst_build_fail(build, NST_E_INVALID,
                       "combiner \"%s\" has no known neutral element, allowed: + * min max & | ^ of a and b", formula);
        return false;
    }
    *combine = (NstCombine){1, &parts[0], &parts[1], &parts[2]};
    return true;
}

NstVal nst_build_reduce(NstBuild *build, NstVal x, const char *combiner, int n_axes, const int *axes, bool keep)
{
    const NstType *type = nst_build_type(build, x);
    NstExpr parts[3];
    NstCombine combine;
    NstVal out;
    if (!type || !make_combine(build, combiner, type->dtype, parts, &combine)) return (NstVal){0};
    if (nst_build_reduce_tuple(build, 1, &x, combine, n_axes, axes, keep, false, &out) != NST_OK) return (NstVal){0};
    return nst_build_convert(build, out, type->dtype, false);
}

/* Lanes of the innermost reduced axis; 1 where the axes are wrong (inference reports that). */
static int reduce_lanes(NstBuild *build, const NstType *x, int n_axes, const int *axes)
{
    int last = -1;
    for (int k = 0; k < n_axes; k++)
        if (axes[k] > last) last = axes[k];
    if (last < 0 || last >= x->rank) return 1;
    return nst_order_reduce_lanes(build->graph->dims, x->shape[last], last == x->rank - 1);
}

NstStatus nst_build_reduce_tuple(NstBuild *build, uint32_t n_in, const NstVal *in, NstCombine combine, int n_axes,
                                 const int *axes, bool keep, bool skip_padding, NstVal *out)
{
    const NstType *type = n_in > 0 ? nst_build_type(build, in[0]) : NULL;
    int lanes = type && type->kind == NST_TYPE_TENSOR ? reduce_lanes(build, type, n_axes, axes) : 1;
    NstAttrs attr = {.reduce = {combine, n_axes, axes, keep, skip_padding, lanes}};
    NstType *types = NST_NEW_ARRAY(build->graph->arena, NstType, combine.n_states);
    return nst_build_add(build, NST_PRIM_REDUCE, &attr, in, n_in, types, combine.n_states, out);
}

NstVal nst_build_prefix(NstBuild *build, NstVal x, const char *combiner, int axis, bool exclusive, bool reverse)
{
    const NstType *type = nst_build_type(build, x);
    NstExpr parts[3];
    NstAttrs attr = {.prefix = {.axis = axis, .exclusive = exclusive, .reverse = reverse}};
    if (!type || !make_combine(build, combiner, type->dtype, parts, &attr.prefix.combine)) return (NstVal){0};
    NstVal out = nst_build_add1(build, NST_PRIM_PREFIX, &attr, &x, 1, (NstType){0});
    return nst_build_convert(build, out, type->dtype, false);
}

/* --- contract -------------------------------------------------------------------------------------------------- */

static int label_of(char c)
{
    if (c >= 'a' && c <= 'z') return c - 'a';
    return c >= 'A' && c <= 'Z' ? 26 + c - 'A' : -1;
}

/* Labels up to the next separator; *p is left on it. */
static NstStatus read_labels(NstCtx *ctx, const char *equation, const char **p, uint8_t *labels, int *n)
{
    for (*n = 0; **p && !strchr(",;-", **p); ++*p) {
        if (**p == ' ') continue;
        int label = label_of(**p);
        NST_CHECK(ctx, label >= 0, NST_E_PARSE, "equation \"%s\": column %d, allowed: letters , ; ->", equation,
                  (int)(*p - equation) + 1);
        NST_CHECK(ctx, *n < NST_MAX_RANK, NST_E_LIMIT, "equation \"%s\": more than %d labels of one operand", equation,
                  NST_MAX_RANK);
        labels[(*n)++] = (uint8_t)label;
    }
    return NST_OK;
}

NstStatus nst_build_equation(NstCtx *ctx, NstArena *arena, const char *equation, uint32_t n_in, NstAttrs *attr)
{
    uint8_t buffer[NST_MAX_RANK];
    const uint8_t **labels = NST_NEW_ARRAY(arena, const uint8_t *, n_in);
    const char *p = equation;
    uint32_t count = 0, operands = 0;
    bool more = true;
    int n;
    for (bool extra = false; more; p++) {
        NST_TRY(read_labels(ctx, equation, &p, buffer, &n));
        NST_CHECK(ctx, count < n_in, NST_E_INVALID, "equation \"%s\" has more operands than inputs (%u)", equation,
                  n_in);
        uint8_t *copy = nst_alloc(arena, NST_MAX_RANK); /* its full length: ranks are checked by inference */
        memset(copy, 0xff, NST_MAX_RANK);
        memcpy(copy, buffer, (size_t)n);
        labels[count++] = copy;
        if (!extra) operands = count;
        if (*p == ';') extra = true;
        more = *p == ',' || *p == ';';
        if (!more) break;
    }
    NST_CHECK(ctx, p[0] == '-' && p[1] == '>', NST_E_PARSE, "equation \"%s\" ends before \"->\"", equation);
    NST_CHECK(ctx, count == n_in, NST_E_INVALID, "equation \"%s\" has %u operands, the node has %u inputs", equation,
              count, n_in);
    p += 2;
    NST_TRY(read_labels(ctx, equation, &p, buffer, &n));
    NST_CHECK(ctx, *p == '\0', NST_E_PARSE, "equation \"%s\" goes on after the result", equation);
    attr->contract.n_operands = (int)operands;
    attr->contract.labels = labels;
    attr->contract.out_labels = nst_copy(arena, buffer, (size_t)n);
    attr->contract.out_rank = n;
    return NST_OK;
}

/* Every operand has as many labels as axes: labels past the equation's are 0xff, and one past the rank is not. */
static bool check_label_counts(NstBuild *build, const char *equation, const NstAttrs *attr, uint32_t n,
                               const NstVal *in)
{
    for (uint32_t j = 0; j < n; j++) {
        const NstType *type = nst_build_type(build, in[j]);
        if (!type) return false;
        int count = 0;
        while (count < NST_MAX_RANK && attr->contract.labels[j][count] != 0xff) count++;
        if (count == type->rank) continue;
        nst_build_fail(build, NST_E_SHAPE, "equation \"%s\": input %u has rank %d, allowed: %d", equation, j,
                       type->rank, count);
        return false;
    }
    return true;
}

NstVal nst_build_contract(NstBuild *build, const char *equation, uint32_t n, const NstVal *in, NstDtype accumulate)
{
    NstAttrs attr = {.contract = {0}};
    if (build->status != NST_OK) return (NstVal){0};
    nst_build_keep(build, nst_build_equation(build->ctx, build->graph->arena, equation, n, &attr));
    if (build->status != NST_OK || !check_label_counts(build, equation, &attr, n, in)) return (NstVal){0};
    NstDtype element = nst_build_type(build, in[0])->dtype;
    for (int j = 1; j < attr.contract.n_operands; j++)
        if (nst_build_type(build, in[j])->dtype != element) element = NST_DTYPE_NONE;
    if (accumulate == NST_DTYPE_NONE && element == NST_DTYPE_NONE)
        return nst_build_fail(build, NST_E_TYPE, "contract \"%s\": operands of different types need an accumulate type",
                              equation);
    attr.contract.accumulate = accumulate == NST_DTYPE_NONE ? nst_dtype_info(element)->compute : accumulate;
    NstVal out = nst_build_contract_full(build, &attr, n, in);
    return accumulate == NST_DTYPE_NONE ? nst_build_convert(build, out, element, false) : out;
}

/* Chooses the order of the sum where the attributes leave it open.  sum: room for NST_MAX_LABELS labels. */
void nst_build_choose_order(const NstGraph *graph, NstAttrs *attr, const NstVal *in, uint8_t *sum)
{
    if (!attr->contract.sum) {
        attr->contract.n_sum = nst_order_contract_sum(graph, attr, in, sum);
        attr->contract.sum = sum;
    }
    if (attr->contract.lanes == 0) attr->contract.lanes = nst_order_contract_lanes(graph, attr, in);
    if (attr->contract.block == 0) attr->contract.block = nst_order_contract_block(graph, attr, in);
}

NstVal nst_build_contract_full(NstBuild *build, const NstAttrs *attr, uint32_t n, const NstVal *in)
{
    uint8_t sum[NST_MAX_LABELS];
    NstAttrs own = *attr;
    for (uint32_t j = 0; j < n; j++)
        if (!nst_build_type(build, in[j])) return (NstVal){0};
    if (build->status != NST_OK) return (NstVal){0};
    if (own.contract.n_operands < 2 || (uint32_t)own.contract.n_operands > n)
        return nst_build_fail(build, NST_E_INVALID, "contract: %d operands of %u inputs, allowed: 2..4",
                              own.contract.n_operands, n);
    nst_build_choose_order(build->graph, &own, in, sum);
    return nst_build_add1(build, NST_PRIM_CONTRACT, &own, in, n, (NstType){0});
}

/* --- sort, gather, scatter, compact ---------------------------------------------------------------------------- */

NstStatus nst_build_sort(NstBuild *build, uint32_t n, const NstVal *in, int n_keys, int axis, bool descending,
                         NstDim keep, NstVal *out)
{
    NstAttrs attr = {.sort = {axis, descending, true, keep, n_keys}};
    NstType *types = NST_NEW_ARRAY(build->graph->arena, NstType, n);
    return nst_build_add(build, NST_PRIM_SORT, &attr, in, n, types, n, out);
}

NstVal nst_build_gather(NstBuild *build, NstVal data, NstVal indices, int axis, int batch, NstIndexMode mode)
{
    NstAttrs attr = {.gather = {axis, batch, mode}};
    NstVal in[2] = {data, indices};
    return nst_build_add1(build, NST_PRIM_GATHER, &attr, in, 2, (NstType){0});
}

NstVal nst_build_scatter(NstBuild *build, NstVal data, NstVal indices, NstVal updates, int axis, bool elementwise,
                         const char *combine, NstIndexMode mode)
{
    const NstType *type = nst_build_type(build, data);
    NstAttrs attr = {.scatter = {axis, mode, {0}, elementwise}};
    NstVal in[3] = {data, indices, updates};
    if (!type) return (NstVal){0};
    NstDtype pair[2] = {type->dtype, type->dtype};
    if (combine) attr.scatter.combine = nst_build_formula(build, combine, pair, 2, type->dtype);
    return nst_build_add1(build, NST_PRIM_SCATTER, &attr, in, 3, (NstType){0});
}

NstStatus nst_build_compact(NstBuild *build, NstVal mask, uint32_t n, const NstVal *in, int axis, NstVal *out,
                            NstSym *count)
{
    const NstType *type = nst_build_type(build, mask);
    NstDims *dims = build->graph->dims;
    NstVal *all = NST_NEW_ARRAY(build->graph->arena, NstVal, n + 1);
    NstType *types = NST_NEW_ARRAY(build->graph->arena, NstType, n);
    int64_t lo, hi = INT64_MAX;
    *count = (NstSym){0};
    if (!type) return build->status;
    bool vector = type->kind == NST_TYPE_TENSOR && type->rank == 1;
    if (vector) nst_dim_bounds(dims, type->shape[0], &lo, &hi);
    *count = nst_build_fresh_sym(build, NST_SYM_COUNTED, "count", 0, hi);
    if (vector) nst_dims_sym(dims, *count)->hi_dim = type->shape[0];
    all[0] = mask;
    for (uint32_t k = 0; k < n; k++) all[k + 1] = in[k];
    NstAttrs attr = {.compact = {*count, axis}};
    return nst_build_add(build, NST_PRIM_COMPACT, &attr, all, n + 1, types, n, out);
}

/* --- structure ------------------------------------------------------------------------------------------------- */

NstRegionId nst_build_region(NstBuild *build, NstBuild *inner)
{
    NstRegionId region = nst_graph_new_region(build->graph, (NstNodeId){0});
    nst_build_init(inner, build->ctx, build->graph, region);
    inner->origin = build->origin;
    inner->status = build->status;
    inner->depth = build->depth + 1;
    if (inner->depth > NST_MAX_NESTING) {
        nst_build_fail(inner, NST_E_LIMIT, "regions nested %d deep, allowed: at most %d", inner->depth,
                       NST_MAX_NESTING);
        build->status = inner->status;
    }
    return region;
}

void nst_build_results(NstBuild *build, uint32_t n, const NstVal *value, const char *const *name)
{
    for (uint32_t k = 0; k < n; k++)
        if (!nst_build_type(build, value[k])) return;
    if (build->status == NST_OK) nst_graph_set_results(build->graph, build->region, value, n, name);
}

/* True if a symbol of dim belongs to what runs inside `region`. */
static bool is_local(NstBuild *build, NstRegionId region, NstDim dim)
{
    NstGraph *graph = build->graph;
    const NstDimNode *node = nst_dim_node(graph->dims, dim);
    if (node->op == NST_DIM_SYM && nst_dims_sym(graph->dims, node->sym)->kind != NST_SYM_INPUT) {
        NstNodeId definer = nst_graph_definer(graph, node->sym);
        while (definer.i != 0) {
            NstRegionId at = nst_graph_node(graph, definer)->region;
            if (at.i == region.i) return true;
            definer = nst_graph_region(graph, at)->owner;
        }
    }
    for (uint32_t k = 0; k < node->n && node->arg; k++)
        if (is_local(build, region, node->arg[k])) return true;
    return false;
}

static NstDim counted_like(NstBuild *build, const char *base, NstDim a, NstDim b)
{
    NstDims *dims = build->graph->dims;
    int64_t lo, hi, lo2, hi2;
    nst_dim_bounds(dims, a, &lo, &hi);
    nst_dim_bounds(dims, b, &lo2, &hi2);
    if (lo2 < lo) lo = lo2;
    return nst_dim_sym(dims, nst_build_fresh_sym(build, NST_SYM_COUNTED, base, lo < 0 ? 0 : lo, hi > hi2 ? hi : hi2));
}

/* The type outside of a value that is `a` in one region or run and `b` in another: local or different extents are
 * counted anew. */
static NstType outer_type(NstBuild *build, const char *base, NstRegionId region, const NstType *a, const NstType *b)
{
    NstType type = *a;
    if (a->kind != NST_TYPE_TENSOR || b->kind != NST_TYPE_TENSOR || a->rank != b->rank) return type;
    NstDim *shape = NST_NEW_ARRAY(build->graph->arena, NstDim, a->rank);
    for (int k = 0; k < a->rank; k++) {
        bool same = nst_dim_compare(build->graph->dims, a->shape[k], NST_DIM_EQ, b->shape[k]) == NST_TRUE;
        shape[k] = same && !is_local(build, region, a->shape[k]) ? a->shape[k]
                                                                 : counted_like(build, base, a->shape[k], b->shape[k]);
    }
    type.shape = shape;
    return type;
}

static const NstRegion *region_of(NstBuild *build, NstRegionId id)
{
    return id.i > 0 && id.i < build->graph->regions.n ? nst_graph_region(build->graph, id) : NULL;
}

NstStatus nst_build_if(NstBuild *build, NstVal condition, NstRegionId then_region, NstRegionId else_region, NstVal *out,
                       uint32_t n_out)
{
    NstAttrs attr = {.branch = {then_region, else_region}};
    NstType *type = NST_NEW_ARRAY(build->graph->arena, NstType, n_out);
    const NstRegion *a = region_of(build, then_region), *b = region_of(build, else_region);
    for (uint32_t k = 0; k < n_out && a && b && k < a->results.n && k < b->results.n; k++) {
        const NstType *x = nst_value_type(build->graph, a->results.at[k]);
        const NstType *y = nst_value_type(build->graph, b->results.at[k]);
        if (build->status == NST_OK) type[k] = outer_type(build, "branch", then_region, x, y);
    }
    return nst_build_add(build, NST_PRIM_IF, &attr, &condition, 1, type, n_out, out);
}

/* The number of iterations, if it is a dim known before the loop runs: else none. */
static NstDim known_trips(NstBuild *build, NstVal trips, NstVal condition)
{
    NstDim extent = {0};
    if (trips.i != 0 && condition.i == 0) (void)nst_known_trips(build->graph, trips, &extent);
    return extent;
}

/* The type of a scan of that many entries.  A body that never runs may have sizes below 0. */
static NstType scan_type(NstBuild *build, NstRegionId body, NstDim count, NstVal entry)
{
    const NstType *own = nst_value_type(build->graph, entry);
    NstDim shape[NST_MAX_RANK + 1] = {count};
    if (own->kind != NST_TYPE_TENSOR || own->rank >= NST_MAX_RANK) return (NstType){0};
    NstType type = outer_type(build, "scan", body, own, own);
    for (int k = 0; k < own->rank; k++) {
        NstDim zero = nst_dim_const(build->graph->dims, 0);
        bool is_size = nst_dim_compare(build->graph->dims, type.shape[k], NST_DIM_GE, zero) == NST_TRUE;
        shape[k + 1] = is_size ? type.shape[k] : nst_dim_max(build->graph->dims, type.shape[k], zero);
    }
    return nst_tensor_type(build->graph->arena, own->dtype, own->rank + 1, shape);
}

NstStatus nst_build_loop(NstBuild *build, NstVal trips, NstVal condition, uint32_t n_states, const NstVal *state,
                         NstRegionId body, NstVal *out, uint32_t n_out)
{
    NstArena *arena = build->graph->arena;
    NstAttrs attr = {.loop = {body, (int)n_states, (int)n_out - (int)n_states, {0}}};
    NstVal *in = NST_NEW_ARRAY(arena, NstVal, n_states + 2);
    NstType *type = NST_NEW_ARRAY(arena, NstType, n_out);
    const NstRegion *region = region_of(build, body);
    in[0] = trips;
    in[1] = condition;
    for (uint32_t k = 0; k < n_states; k++) in[k + 2] = state[k];
    for (uint32_t k = 0; k < n_states && k < n_out && region && build->status == NST_OK; k++) {
        if (k + 2 >= region->params.n || k + 1 >= region->results.n || !nst_build_type(build, state[k])) break;
        const NstType *param = nst_value_type(build->graph, region->params.at[k + 2]);
        const NstType *result = nst_value_type(build->graph, region->results.at[k + 1]);
        type[k] = outer_type(build, "state", body, param, result);
    }
    NstDim count = build->status == NST_OK ? known_trips(build, trips, condition) : (NstDim){0};
    if (n_out > n_states && build->status == NST_OK && count.i == 0) {
        attr.loop.count = nst_build_fresh_sym(build, NST_SYM_COUNTED, "trips", 0, INT64_MAX);
        count = nst_dim_sym(build->graph->dims, attr.loop.count);
    }
    for (uint32_t k = n_states; k < n_out && region && k + 1 < region->results.n && build->status == NST_OK; k++)
        type[k] = scan_type(build, body, count, region->results.at[k + 1]);
    return nst_build_add(build, NST_PRIM_LOOP, &attr, in, n_states + 2, type, n_out, out);
}

NstStatus nst_build_call(NstBuild *build, NstRegionId body, const char *name, uint32_t n, const NstVal *in, NstVal *out,
                         uint32_t n_out)
{
    NstAttrs attr = {.call = {body, name}};
    NstType *type = NST_NEW_ARRAY(build->graph->arena, NstType, n_out);
    const NstRegion *region = region_of(build, body);
    for (uint32_t k = 0; k < n_out && region && k < region->results.n && build->status == NST_OK; k++) {
        const NstType *result = nst_value_type(build->graph, region->results.at[k]);
        type[k] = outer_type(build, "call", body, result, result);
    }
    return nst_build_add(build, NST_PRIM_CALL, &attr, in, n, type, n_out, out);
}

NstStatus nst_build_host(NstBuild *build, const char *name, const char *config, uint32_t n, const NstVal *in,
                         const NstType *out_type, uint32_t n_out, NstVal *out)
{
    NstAttrs attr = {.host = {name, config}};
    NstType *type = n_out ? nst_copy(build->graph->arena, out_type, n_out * sizeof *out_type) : NULL;
    return nst_build_add(build, NST_PRIM_HOST, &attr, in, n, type, n_out, out);
}

void nst_build_assert(NstBuild *build, NstVal condition, const char *message)
{
    NstAttrs attr = {.assertion = {message}};
    (void)nst_build_add(build, NST_PRIM_ASSERT, &attr, &condition, 1, NULL, 0, NULL);
}
