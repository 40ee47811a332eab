/* support_random_graph.c: draws a primitive, finds or makes operands that suit it, builds it; inputs and comparison. */
#include "tests/unit/support_random_impl.h"

#include <math.h>
#include "ir/base/map.h"
#include "ir/infer.h"

#define POOL_MAX     64
#define ELEMENTS_MAX 4096  /* estimated elements of a value in the pool */
#define ROUNDING_MAX 12000 /* where floats are for rounding */

uint64_t random_next(Random *r)
{
    r->state += UINT64_C(0x9e3779b97f4a7c15);
    return nst_hash_mix(r->state, 0x5eed);
}

int random_below(Random *r, int n)
{
    return n > 0 ? (int)(random_next(r) % (uint64_t)n) : 0;
}

bool random_chance(Random *r, int percent)
{
    return random_below(r, 100) < percent;
}

/* --- types and shapes ------------------------------------------------------------------------------------------ */

static bool is_plain(NstDtype type)
{
    NstDtypeClass klass = nst_dtype_info(type)->klass;
    return type != NST_DTYPE_NONE && klass != NST_CLASS_STRING && klass != NST_CLASS_COMPLEX;
}

static bool allows_dtype(const Random *r, NstDtype type)
{
    return is_plain(type) && (r->options->dtypes == 0 || (r->options->dtypes >> type & 1));
}

/* An allowed type that passes the test; NST_DTYPE_NONE if there is none. */
NstDtype random_dtype(Random *r, bool (*test)(NstDtype type))
{
    NstDtype found = NST_DTYPE_NONE;
    int n = 0;
    for (int t = 1; t < NST_DTYPE_COUNT; t++)
        if (allows_dtype(r, (NstDtype)t) && (!test || test((NstDtype)t)) && random_below(r, ++n) == 0)
            found = (NstDtype)t;
    return found;
}

bool random_is_compute_number(NstDtype type)
{
    return nst_dtype_is_number(type) && nst_dtype_info(type)->compute == type;
}

bool random_is_number(NstDtype type)
{
    return nst_dtype_is_number(type);
}

NstDim random_extent(Random *r)
{
    static const int sizes[] = {0, 1, 1, 2, 3, 4, 5, 7}, longer[] = {1, 2, 3, 4, 8, 16, 17, 33};
    if (r->options->rounding && random_chance(r, 50)) return nst_dim_const(r->graph->dims, longer[random_below(r, 8)]);
    if (!r->options->fixed && random_chance(r, 35)) return nst_dim_sym(r->graph->dims, r->sym[random_below(r, 2)]);
    int size = sizes[random_below(r, 8)];
    if (size == 0 && !random_chance(r, 30)) size = 2;
    return nst_dim_const(r->graph->dims, size);
}

NstDim random_const_dim(Random *r, int64_t value)
{
    return nst_dim_const(r->graph->dims, value);
}

/* Elements if every symbol is 5, or of its size where that is drawn. */
static int64_t estimate(const Random *r, const NstType *type)
{
    int64_t n = 1, size[8] = {0};
    for (int s = 0; s < 2; s++) size[r->sym[s].i] = r->size[s];
    for (int k = 0; k < type->rank; k++) {
        int64_t lo, hi;
        nst_dim_bounds(r->graph->dims, type->shape[k], &lo, &hi);
        if (r->options->rounding && nst_dim_eval(r->ctx, r->graph->dims, type->shape[k], size, 3, &lo) == NST_OK)
            hi = lo;
        n *= hi < 0 || hi > 1000 ? 1000 : hi;
        if (n > 1000000) return n;
    }
    return n;
}

const NstType *random_type(const Random *r, NstVal value)
{
    return nst_value_type(r->graph, value);
}

void random_add(Random *r, NstVal value)
{
    if (r->build.status != NST_OK || value.i == 0) return;
    if (estimate(r, random_type(r, value)) > (r->options->rounding ? ROUNDING_MAX : ELEMENTS_MAX)) return;
    if (r->n_pool < POOL_MAX)
        r->pool[r->n_pool++] = value;
    else
        r->pool[random_below(r, POOL_MAX)] = value;
}

/* A value of the pool that passes the test (most recent ones more often); none if there is none. */
NstVal random_pick(Random *r, bool (*test)(const Random *r, const NstType *type))
{
    NstVal found = {0};
    int n = 0;
    for (int k = 0; k < r->n_pool; k++) {
        if (test && !test(r, random_type(r, r->pool[k]))) continue;
        n += 1 + (k > r->n_pool - 4);
        if (random_below(r, n) <= (k > r->n_pool - 4)) found = r->pool[k];
    }
    return found;
}

/* --- elements -------------------------------------------------------------------------------------------------- */

static double special_float(Random *r)
{
    static const double values[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e30, -1e30, 1e-40, 65504.0, 0.5, 1.5, 2.5};
    return values[random_below(r, 12)];
}

/* An element: mostly small, sometimes special. */
NstScalar random_element(Random *r, NstDtype type, bool special)
{
    bool odd = special && random_chance(r, 10);
    if (nst_dtype_is_float(type) && r->options->rounding) {
        double value = (double)(random_next(r) >> 11) * 0x1p-52 - 1;
        return nst_scalar_convert(type, NST_F64, (NstScalar){.f = value}, false);
    }
    if (nst_dtype_is_float(type)) {
        double value = odd ? special_float(r) : (double)(random_below(r, 33) - 16) / 4.0;
        return nst_scalar_convert(type, NST_F64, (NstScalar){.f = value}, false);
    }
    int64_t value = odd ? (int64_t)random_next(r) : random_below(r, 9) - 2;
    if (odd && random_chance(r, 30)) value = INT64_MIN >> random_below(r, 64);
    if (type == NST_BOOL) return (NstScalar){.i = value & 1};
    return nst_scalar_convert(type, NST_I64, (NstScalar){.i = value}, false);
}

NstVal random_const(Random *r, NstDtype type, int rank, const NstDim *shape)
{
    int64_t extent[NST_MAX_RANK], n = 1;
    bool constant = true;
    for (int k = 0; k < rank; k++) {
        constant = constant && nst_dim_is_const(r->graph->dims, shape[k], &extent[k]);
        if (constant) n *= extent[k];
    }
    if (!constant || random_chance(r, 15))
        return nst_build_splat(&r->build, type, rank, shape, random_element(r, type, true));
    size_t size = (size_t)nst_dtype_info(type)->bytes;
    char *data = nst_alloc(r->graph->arena, (size_t)n * size);
    for (int64_t i = 0; i < n; i++) nst_scalar_store(type, data + (size_t)i * size, random_element(r, type, true));
    return nst_build_const(&r->build, type, rank, extent, data);
}

/* Indices 0..below-1 of that shape. */
NstVal random_indices(Random *r, NstDtype type, int rank, const int64_t *shape, int64_t below)
{
    int64_t n = 1;
    size_t size = (size_t)nst_dtype_info(type)->bytes;
    for (int k = 0; k < rank; k++) n *= shape[k];
    char *data = nst_alloc(r->graph->arena, (size_t)n * size);
    for (int64_t i = 0; i < n; i++)
        nst_scalar_store(type, data + (size_t)i * size, (NstScalar){.i = random_below(r, (int)below)});
    return nst_build_const(&r->build, type, rank, shape, data);
}

/* An integer scalar in 0..limit, known at run time only. */
NstVal random_runtime_start(Random *r, NstDim limit)
{
    NstVal in[2] = {r->scalar, nst_build_dim_value(&r->build, limit)};
    return nst_build_map(&r->build, "max(min(a, b), 0)", 2, in, NULL, 0);
}

/* --- the graph ------------------------------------------------------------------------------------------------- */

static void add_param(Random *r, int k)
{
    NstDim shape[4];
    int rank = k == 0 ? 2 : random_below(r, 5);
    NstDtype type = k == 0 && allows_dtype(r, NST_F32) ? NST_F32 : random_dtype(r, NULL);
    for (int a = 0; a < rank; a++)
        shape[a] = k == 0 && !r->options->fixed ? nst_dim_sym(r->graph->dims, r->sym[a]) : random_extent(r);
    char *name = nst_format(r->graph->arena, "p%d", k);
    random_add(r, nst_build_param(&r->build, name, nst_tensor_type(r->graph->arena, type, rank, shape)));
}

static bool may_draw(const Random *r, NstPrim prim)
{
    if (prim == NST_PRIM_HOST || prim == NST_PRIM_PARAM) return false;
    return r->options->prims == 0 || (r->options->prims >> prim & 1);
}

static void draw_node(Random *r)
{
    NstPrim prim;
    if (r->options->rounding && random_chance(r, 50)) {
        random_pattern(r);
        return;
    }
    do prim = (NstPrim)random_below(r, NST_PRIM_COUNT);
    while (!may_draw(r, prim));
    random_build(r, prim);
}

static void count_nodes(const NstGraph *graph, RandomCounts *counts)
{
    for (uint32_t i = 1; counts && i < graph->nodes.n; i++) {
        const NstNode *node = graph->nodes.at[i];
        if (node->dead) continue;
        for (uint32_t k = 0; k < node->n_out; k++) counts->of[node->prim][nst_value_type(graph, node->out[k])->dtype]++;
        if (node->prim == NST_PRIM_ASSERT) counts->of[node->prim][NST_BOOL]++;
    }
}

/* Results: the last values of the pool and a few others, so that most nodes matter. */
static void choose_results(Random *r)
{
    NstVal value[6];
    const char *name[6];
    uint32_t n = 0;
    for (int k = r->n_pool - 1; k >= 0 && n < 4; k--) value[n++] = r->pool[k];
    if (n < 6 && r->n_pool > 4) value[n++] = r->pool[random_below(r, r->n_pool - 4)];
    for (uint32_t k = 0; k < n; k++) name[k] = nst_format(r->graph->arena, "r%u", k);
    nst_build_results(&r->build, n, value, name);
}

/* The sizes of n and m: those around the lanes of vectors and of sums; n is often 1, where axes vanish. */
static void draw_sizes(const RandomOptions *options, int64_t size[2])
{
    static const int64_t sizes[] = {1, 1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 40, 64, 65, 70};
    Random r = {.state = options->seed ^ 0x512e};
    for (int s = 0; s < 2; s++) {
        size[s] = sizes[random_below(&r, 16)];
        if (s == 0 && random_chance(&r, 30)) size[s] = 1;
        if (s == 1 && size[s] < 3) size[s] = 3;
    }
}

/* Gives half of the sums that may have blocks short ones. */
static void draw_blocks(Random *r)
{
    for (uint32_t k = 1; k < r->graph->nodes.n; k++) {
        NstNode *node = r->graph->nodes.at[k];
        NstAttrs *attr = &node->attr;
        if (node->dead || node->prim != NST_PRIM_CONTRACT || !nst_dtype_is_float(attr->contract.accumulate)) continue;
        if (attr->contract.n_sum == 1 && attr->contract.lanes == 1 && random_chance(r, 50))
            attr->contract.block = 1 + random_below(r, 9);
    }
}

NstGraph *random_graph(NstCtx *ctx, NstArena *arena, const RandomOptions *options, RandomCounts *counts)
{
    Random r = {.options = options, .state = options->seed, .ctx = ctx};
    r.graph = nst_graph_new(arena, nst_format(arena, "random%llu", (unsigned long long)options->seed));
    nst_build_init(&r.build, ctx, r.graph, NST_GRAPH_REGION);
    int64_t hi = options->rounding ? 4096 : 5;
    r.sym[0] = nst_dims_new_sym(r.graph->dims, NST_SYM_INPUT, "n", 1, hi);
    r.sym[1] = nst_dims_new_sym(r.graph->dims, NST_SYM_INPUT, "m", options->rounding ? 3 : 1, hi);
    draw_sizes(options, r.size);
    int n_params = 1 + random_below(&r, 3), n_nodes = options->n_nodes ? options->n_nodes : 8;
    for (int k = 0; k < n_params; k++) add_param(&r, k);
    r.scalar = nst_build_param(&r.build, "scalar", nst_tensor_type(arena, NST_I64, 0, NULL));
    for (int k = 0; k < n_nodes && r.build.status == NST_OK; k++) draw_node(&r);
    choose_results(&r);
    draw_blocks(&r);
    NST_ASSERT(nst_build_status(&r.build) == NST_OK ||
               !fprintf(stderr, "seed %llu: %s\n", (unsigned long long)options->seed, ctx->error));
    nst_graph_sweep(r.graph);
    NstStatus status = nst_graph_verify(ctx, r.graph);
    NST_ASSERT(status == NST_OK || !fprintf(stderr, "seed %llu: %s\n", (unsigned long long)options->seed, ctx->error));
    count_nodes(r.graph, counts);
    return r.graph;
}

/* --- inputs and results ---------------------------------------------------------------------------------------- */

/* Inputs of the graph's shapes for the symbols' sizes. */
static void draw_inputs(Random *r, NstArena *arena, const NstGraph *graph, const int64_t *size, NstTensorValue *input)
{
    const NstRegion *top = nst_graph_region(graph, NST_GRAPH_REGION);
    for (uint32_t k = 0; k < top->params.n; k++) {
        const NstType *type = nst_value_type(graph, top->params.at[k]);
        NstTensorValue *t = &input[k];
        int64_t n = 1;
        *t = (NstTensorValue){.dtype = type->dtype, .rank = type->rank};
        for (int a = 0; a < type->rank; a++) {
            NstStatus status = nst_dim_eval(r->ctx, graph->dims, type->shape[a], size,
                                            nst_dims_sym_count(graph->dims) + 1, &t->shape[a]);
            NST_ASSERT(status == NST_OK);
            n *= t->shape[a];
        }
        size_t bytes = (size_t)nst_dtype_info(type->dtype)->bytes;
        t->bytes = (size_t)n * bytes;
        t->data = nst_alloc_aligned(arena, t->bytes, 64);
        bool scalar = type->rank == 0 && type->dtype == NST_I64;
        for (int64_t i = 0; i < n; i++)
            nst_scalar_store(type->dtype, (char *)t->data + (size_t)i * bytes,
                             scalar ? (NstScalar){.i = random_below(r, 8)} : random_element(r, type->dtype, true));
    }
}

void random_inputs(NstCtx *ctx, NstArena *arena, const NstGraph *graph, uint64_t seed, NstTensorValue *input,
                   int64_t *sym)
{
    static const RandomOptions plain;
    Random r = {.options = &plain, .state = seed ^ 0x1234567, .ctx = ctx};
    uint32_t n_syms = nst_dims_sym_count(graph->dims) + 1;
    int64_t *size = NST_NEW_ARRAY(arena, int64_t, n_syms);
    for (uint32_t k = 1; k < n_syms; k++) {
        const NstSymInfo *info = nst_dims_sym(graph->dims, (NstSym){k});
        size[k] = 1 + random_below(&r, 5);
        if (size[k] < info->lo) size[k] = info->lo;
        if (size[k] > info->hi) size[k] = info->hi;
        if (sym) sym[k] = size[k];
    }
    draw_inputs(&r, arena, graph, size, input);
}

void random_rounding_inputs(NstCtx *ctx, NstArena *arena, const NstGraph *graph, const RandomOptions *options,
                            NstTensorValue *input, int64_t *sym)
{
    Random r = {.options = options, .state = options->seed ^ 0x1234567, .ctx = ctx};
    int64_t size[2];
    draw_sizes(options, size);
    for (int s = 0; s < 2; s++) sym[nst_dims_find_sym(graph->dims, s ? "m" : "n", 1).i] = size[s];
    draw_inputs(&r, arena, graph, sym, input);
}

static bool is_nan(NstDtype type, NstScalar value)
{
    if (!nst_dtype_is_float(type)) return false;
    return isnan(nst_scalar_convert(NST_F64, type, value, false).f);
}

bool random_same_bits(const NstTensorValue *a, const NstTensorValue *b, char *what, size_t n)
{
    if (a->dtype != b->dtype || a->rank != b->rank) {
        snprintf(what, n, "%s rank %d and %s rank %d", nst_dtype_info(a->dtype)->name, a->rank,
                 nst_dtype_info(b->dtype)->name, b->rank);
        return false;
    }
    int64_t count = 1;
    for (int k = 0; k < a->rank; k++) {
        count *= a->shape[k];
        if (a->shape[k] == b->shape[k]) continue;
        snprintf(what, n, "axis %d: %lld and %lld", k, (long long)a->shape[k], (long long)b->shape[k]);
        return false;
    }
    size_t size = (size_t)nst_dtype_info(a->dtype)->bytes;
    for (int64_t i = 0; i < count; i++) {
        const char *x = (const char *)a->data + (size_t)i * size, *y = (const char *)b->data + (size_t)i * size;
        if (memcmp(x, y, size) == 0) continue;
        NstScalar p = nst_scalar_load(a->dtype, x), q = nst_scalar_load(a->dtype, y);
        if (is_nan(a->dtype, p) && is_nan(a->dtype, q)) continue;
        NstScalar pd = nst_scalar_convert(NST_F64, a->dtype, p, false),
                  qd = nst_scalar_convert(NST_F64, a->dtype, q, false);
        snprintf(what, n, "element %lld: %.17g (0x%llx) and %.17g (0x%llx)", (long long)i, pd.f,
                 (unsigned long long)p.bits, qd.f, (unsigned long long)q.bits);
        return false;
    }
    return true;
}
