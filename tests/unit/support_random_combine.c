/* support_random_combine.c: random combining, indirect and structure primitives. */
#include "tests/unit/support_random_impl.h"

#include "ir/infer.h"

static bool is_plain(NstDtype type)
{
    NstDtypeClass klass = nst_dtype_info(type)->klass;
    return type != NST_DTYPE_NONE && klass != NST_CLASS_STRING && klass != NST_CLASS_COMPLEX;
}

bool random_graph_covers(NstPrim prim, NstDtype dtype)
{
    if (!is_plain(dtype)) return false;
    bool compute = nst_dtype_info(dtype)->compute == dtype;
    switch (prim) {
    case NST_PRIM_HOST: return false;
    case NST_PRIM_IOTA:
    case NST_PRIM_DIM_VALUE: return dtype == NST_I64;
    case NST_PRIM_RANDOM_BITS: return dtype == NST_U32;
    case NST_PRIM_ASSERT: return dtype == NST_BOOL;
    case NST_PRIM_REDUCE:
    case NST_PRIM_PREFIX: return compute;
    case NST_PRIM_CONTRACT: return random_is_compute_number(dtype);
    case NST_PRIM_BITCAST: return dtype != NST_BOOL && nst_dtype_info(dtype)->bits >= 8;
    default: return true;
    }
}

static bool has_axes(const Random *r, const NstType *type)
{
    (void)r;
    return type->rank > 0 && type->rank <= 5;
}

static bool has_number_axes(const Random *r, const NstType *type)
{
    return has_axes(r, type) && nst_dtype_is_number(type->dtype);
}

static bool is_low(const Random *r, const NstType *type)
{
    (void)r;
    return type->rank <= 3;
}

/* --- reduce, prefix -------------------------------------------------------------------------------------------- */

static const char *draw_combiner(Random *r, NstDtype type)
{
    static const char *const number[] = {"a + b", "a * b", "max(a, b)", "min(a, b)"};
    static const char *const integer[] = {"a + b", "max(a, b)", "a & b", "a | b", "a ^ b"};
    static const char *const boolean[] = {"a & b", "a | b", "a ^ b"};
    if (type == NST_BOOL) return boolean[random_below(r, 3)];
    return nst_dtype_is_int(type) ? integer[random_below(r, 5)] : number[random_below(r, 4)];
}

static int draw_axes(Random *r, int rank, int *axes)
{
    int n = 0;
    for (int a = 0; a < rank; a++)
        if (random_chance(r, 50)) axes[n++] = a;
    if (n == 0) axes[n++] = random_below(r, rank);
    return n;
}

/* Largest element and where, as two states. */
static void random_argmax(Random *r, NstVal x, int n_axes, const int *axes)
{
    const NstType *type = random_type(r, x);
    NstExprs *exprs = r->graph->exprs;
    NstDtype compute = nst_dtype_info(type->dtype)->compute, merge[4] = {compute, NST_I64, compute, NST_I64};
    if (!nst_dtype_is_number(compute)) return;
    NstDtype pair[2] = {compute, compute};
    NstExpr init[2], step[2], both[2];
    init[0] = nst_combine_identity(exprs, nst_build_formula(&r->build, "max(a, b)", pair, 2, compute), compute);
    init[1] = nst_expr_int(exprs, NST_I64, 0);
    step[0] = both[0] = nst_build_formula(&r->build, "c > a ? c : a", merge, 4, NST_DTYPE_NONE);
    step[1] = both[1] = nst_build_formula(&r->build, "c > a ? d : b", merge, 4, NST_DTYPE_NONE);
    NstVal iota = nst_build_iota(&r->build, type->shape[type->rank - 1]);
    NstVal in[2] = {nst_build_convert(&r->build, x, compute, false),
                    nst_build_expand(&r->build, iota, type->rank, type->shape)},
           out[2];
    NstCombine combine = {2, step, both, init};
    if (nst_build_reduce_tuple(&r->build, 2, in, combine, n_axes, axes, random_chance(r, 50), false, out) != NST_OK)
        return;
    random_add(r, out[0]);
    random_add(r, out[1]);
}

/* A reduction over the taps of a window that leaves padding out. */
void random_pooling(Random *r, NstVal x, const char *combiner)
{
    NstVal window = random_window(r, x), out;
    if (window.i == 0) return;
    const NstType *type = random_type(r, window);
    NstDtype compute = nst_dtype_info(type->dtype)->compute, step[2] = {compute, type->dtype},
             merge[2] = {compute, compute};
    int n = type->rank - random_type(r, x)->rank, axes[2];
    for (int k = 0; k < n; k++) axes[k] = type->rank - n + k;
    NstExpr s = nst_build_formula(&r->build, combiner, step, 2, compute),
            m = nst_build_formula(&r->build, combiner, merge, 2, compute);
    if (r->build.status != NST_OK) return;
    NstExpr init = nst_combine_identity(r->graph->exprs, m, compute);
    NstCombine combine = {1, &s, &m, &init};
    if (nst_build_reduce_tuple(&r->build, 1, &window, combine, n, axes, false, true, &out) == NST_OK)
        random_add(r, out);
}

void random_reduce(Random *r)
{
    NstVal x = random_pick(r, has_axes);
    int axes[NST_MAX_RANK];
    if (x.i == 0) return;
    const NstType *type = random_type(r, x);
    const char *combiner = draw_combiner(r, type->dtype);
    int n = draw_axes(r, type->rank, axes), kind = random_below(r, 4);
    if (kind == 0)
        random_argmax(r, x, n, axes);
    else if (kind == 1)
        random_pooling(r, x, combiner);
    else
        random_add(r, nst_build_reduce(&r->build, x, combiner, n, axes, random_chance(r, 50)));
}

void random_prefix(Random *r)
{
    NstVal x = random_pick(r, has_axes);
    if (x.i == 0) return;
    const NstType *type = random_type(r, x);
    int axis = random_below(r, type->rank);
    bool exclusive = random_chance(r, 50), reverse = random_chance(r, 50);
    random_add(r, nst_build_prefix(&r->build, x, draw_combiner(r, type->dtype), axis, exclusive, reverse));
}

/* --- contract -------------------------------------------------------------------------------------------------- */

static bool suits_contract(const Random *r, const NstType *type)
{
    return has_number_axes(r, type) && type->rank <= 4;
}

/* a has labels a b c ...; b takes some of them in any order and perhaps a new one; the output some of all, in any order. */
static char *draw_equation(Random *r, const NstType *a, NstDim *b_shape, int *b_rank)
{
    char used[8], text[40], out[9];
    int n_used = a->rank, n = 0, n_out = 0;
    *b_rank = 0;
    for (int k = 0; k < a->rank; k++) text[n++] = used[k] = (char)('a' + k);
    text[n++] = ',';
    for (int k = a->rank - 1; k >= 0; k--) {
        if (!random_chance(r, 60)) continue;
        b_shape[(*b_rank)++] = a->shape[k];
        text[n++] = used[k];
    }
    if (random_chance(r, 70)) {
        b_shape[(*b_rank)++] = random_extent(r);
        text[n++] = used[n_used++] = 'z';
    }
    for (int k = 0; k < n_used; k++) {
        if (random_chance(r, 45)) continue;
        int at = random_below(r, n_out + 1);
        memmove(out + at + 1, out + at, (size_t)(n_out - at));
        out[at] = used[k];
        n_out++;
    }
    return nst_format(r->graph->arena, "%.*s->%.*s", n, text, n_out, out);
}

/* With zero points of each operand. */
static void random_quantised(Random *r, const char *equation, NstVal *in)
{
    NstAttrs attr = {.contract = {0}};
    NstDtype type[3] = {random_type(r, in[0])->dtype, random_type(r, in[0])->dtype, random_type(r, in[1])->dtype};
    const char *arrow = strchr(equation, '-');
    char *text = nst_format(r->graph->arena, "%.*s;,%s", (int)(arrow - equation), equation, arrow);
    NstExpr pre[2];
    in[2] = random_const(r, type[1], 0, NULL);
    in[3] = random_const(r, type[2], 0, NULL);
    pre[0] = nst_build_formula(&r->build, "convert<i32>(a) - convert<i32>(b)", type, 3, NST_I32);
    type[0] = type[2];
    pre[1] = nst_build_formula(&r->build, "convert<i32>(a) - convert<i32>(c)", type, 3, NST_I32);
    if (r->build.status != NST_OK || nst_build_equation(r->ctx, r->graph->arena, text, 4, &attr) != NST_OK) return;
    attr.contract.pre = pre;
    attr.contract.accumulate = NST_I32;
    random_add(r, nst_build_contract_full(&r->build, &attr, 4, in));
}

/* A product of that value and a constant. */
static void random_product(Random *r, NstVal a)
{
    NstVal in[4] = {a};
    NstDim shape[NST_MAX_RANK];
    int rank;
    const NstType *type = random_type(r, a);
    const char *equation = draw_equation(r, type, shape, &rank);
    NstDtype other = type->dtype;
    if (other == NST_U8 && random_chance(r, 50)) other = NST_I8;
    in[1] = random_const(r, other, rank, shape);
    if (nst_dtype_info(type->dtype)->bits == 8 && nst_dtype_is_int(type->dtype) && random_chance(r, 70)) {
        random_quantised(r, equation, in);
        return;
    }
    NstDtype acc = nst_dtype_info(type->dtype)->compute;
    if (nst_dtype_is_int(acc) && random_chance(r, 30)) acc = NST_I32;
    random_add(r, nst_build_contract(&r->build, equation, 2, in, acc));
}

void random_contract(Random *r)
{
    NstVal a = random_pick(r, suits_contract), window;
    if (a.i == 0) return;
    if (random_type(r, a)->rank <= 3 && random_chance(r, 30) && (window = random_window(r, a)).i != 0) a = window;
    if (random_type(r, a)->rank > 5) return;
    int siblings = random_chance(r, 60) ? 1 + random_below(r, 3) : 0;
    for (int k = 0; k <= siblings; k++) random_product(r, a);
}

/* --- sort, gather, scatter, compact ---------------------------------------------------------------------------- */

void random_sort(Random *r)
{
    NstVal in[2] = {random_pick(r, has_axes)}, out[2];
    if (in[0].i == 0) return;
    const NstType *type = random_type(r, in[0]);
    int axis = random_below(r, type->rank);
    int64_t n;
    NstDim keep = {0};
    if (nst_dim_is_const(r->graph->dims, type->shape[axis], &n) && random_chance(r, 50))
        keep = random_const_dim(r, random_below(r, (int)n + 1));
    in[1] =
        nst_build_expand(&r->build, nst_build_iota(&r->build, type->shape[type->rank - 1]), type->rank, type->shape);
    if (nst_build_sort(&r->build, 2, in, 1, axis, random_chance(r, 50), keep, out) != NST_OK) return;
    random_add(r, out[0]);
    random_add(r, out[1]);
}

static NstDtype draw_index_type(Random *r)
{
    return random_chance(r, 50) ? NST_I64 : NST_I32;
}

static NstIndexMode draw_mode(Random *r, int64_t extent)
{
    return extent > 0 ? (NstIndexMode)random_below(r, 3) : NST_INDEX_FILL;
}

void random_gather(Random *r)
{
    NstVal data = random_pick(r, has_axes);
    int64_t shape[3], n, batch_extent;
    if (data.i == 0) return;
    const NstType *type = random_type(r, data);
    int axis = random_below(r, type->rank), rank = random_below(r, 3), batch = 0;
    bool known = nst_dim_is_const(r->graph->dims, type->shape[axis], &n);
    if (!known) n = 1; /* a symbol is at least 1 or, as a difference, may be 0 */
    NstIndexMode mode = draw_mode(r, known ? n : 0);
    if (axis > 0 && rank > 0 && nst_dim_is_const(r->graph->dims, type->shape[0], &batch_extent) && random_chance(r, 40))
        batch = 1;
    for (int k = 0; k < rank; k++) shape[k] = k < batch ? batch_extent : random_below(r, 4);
    int64_t below = mode == NST_INDEX_CHECKED ? n : n + 2;
    NstVal index = random_indices(r, draw_index_type(r), rank, shape, below);
    random_add(r, nst_build_gather(&r->build, data, index, axis, batch, mode));
}

void random_scatter(Random *r)
{
    NstVal data = random_pick(r, has_axes);
    int64_t shape[NST_MAX_RANK], n;
    NstDim update[NST_MAX_RANK];
    if (data.i == 0) return;
    const NstType *type = random_type(r, data);
    int axis = random_below(r, type->rank), rank = 0;
    bool known = nst_dim_is_const(r->graph->dims, type->shape[axis], &n), elementwise = random_chance(r, 50);
    NstIndexMode mode = draw_mode(r, known ? n : 0);
    for (int a = 0; a < type->rank && elementwise; a++) {
        int64_t extent;
        if (!nst_dim_is_const(r->graph->dims, type->shape[a], &extent)) extent = 1, elementwise = a == axis;
        shape[a] = a == axis ? random_below(r, 4) : extent;
        update[rank++] = random_const_dim(r, shape[a]);
    }
    if (!elementwise) {
        rank = 0;
        shape[0] = random_below(r, 4);
        for (int a = 0; a < type->rank; a++)
            update[rank++] = a == axis ? random_const_dim(r, shape[0]) : type->shape[a];
    }
    NstVal index =
        random_indices(r, draw_index_type(r), elementwise ? rank : 1, shape, mode == NST_INDEX_CHECKED ? n : n + 2);
    NstVal updates = random_const(r, type->dtype, rank, update);
    const char *combine = nst_dtype_is_number(type->dtype) && random_chance(r, 50) ? "a + b" : NULL;
    random_add(r, nst_build_scatter(&r->build, data, index, updates, axis, elementwise, combine, mode));
}

void random_compact(Random *r)
{
    NstVal x = random_pick(r, has_axes), out;
    NstSym count;
    if (x.i == 0) return;
    const NstType *type = random_type(r, x);
    int axis = random_below(r, type->rank);
    NstVal iota = nst_build_iota(&r->build, type->shape[axis]);
    NstVal mask = nst_build_map(&r->build, random_chance(r, 50) ? "mod(a, 2) == 0" : "a > 1", 1, &iota, NULL, 0);
    if (nst_build_compact(&r->build, mask, 1, &x, axis, &out, &count) == NST_OK) random_add(r, out);
}

/* --- structure ------------------------------------------------------------------------------------------------- */

/* x after a random formula that keeps its type. */
static NstVal same_type(Random *r, NstBuild *build, NstVal x)
{
    NstDtype type = random_type(r, x)->dtype;
    return nst_build_map_expr(build, random_formula(r, &type, 1, type), 1, &x);
}

void random_if(Random *r)
{
    NstVal x = random_pick(r, NULL), out;
    NstBuild then_build, else_build;
    if (x.i == 0) return;
    NstVal condition = nst_build_map(&r->build, "mod(a, 2) == 0", 1, &r->scalar, NULL, 0);
    NstRegionId then_region = nst_build_region(&r->build, &then_build),
                else_region = nst_build_region(&r->build, &else_build);
    NstVal a = same_type(r, &then_build, x), b = random_chance(r, 50) ? x : same_type(r, &else_build, x);
    nst_build_results(&then_build, 1, &a, NULL);
    nst_build_results(&else_build, 1, &b, NULL);
    if (nst_build_if(&r->build, condition, then_region, else_region, &out, 1) == NST_OK) random_add(r, out);
}

/* A state that stays in shape, and a scan of it. */
void random_loop(Random *r)
{
    NstVal x = random_pick(r, is_low), out[2];
    NstBuild body;
    if (x.i == 0) return;
    NstType scalar = nst_tensor_type(r->graph->arena, NST_I64, 0, NULL),
            flag = nst_tensor_type(r->graph->arena, NST_BOOL, 0, NULL);
    NstVal none = {0}, trips = random_chance(r, 60) ? nst_build_dim_value(&r->build, random_extent(r)) : r->scalar;
    NstRegionId region = nst_build_region(&r->build, &body);
    (void)nst_build_param(&body, "i", scalar);
    NstVal go = nst_build_param(&body, "go", flag), state = nst_build_param(&body, "state", *random_type(r, x));
    NstVal results[3] = {go, same_type(r, &body, state), state};
    uint32_t n_out = 1 + (uint32_t)random_below(r, 2);
    nst_build_results(&body, n_out + 1, results, NULL);
    if (nst_build_loop(&r->build, trips, none, 1, &x, region, out, n_out) != NST_OK) return;
    for (uint32_t k = 0; k < n_out; k++) random_add(r, out[k]);
}

void random_call(Random *r)
{
    NstVal x = random_pick(r, NULL), out;
    NstBuild body;
    if (x.i == 0) return;
    NstRegionId region = nst_build_region(&r->build, &body);
    NstVal result = same_type(r, &body, nst_build_param(&body, "x", *random_type(r, x)));
    nst_build_results(&body, 1, &result, NULL);
    if (nst_build_call(&r->build, region, "f", 1, &x, &out, 1) == NST_OK) random_add(r, out);
}
