/* support_random_nodes.c: random formulas, sources, pointwise and view primitives. */
#include "tests/unit/support_random_impl.h"

#include "ir/infer.h"

#define FORMULA_NODES 24

/* --- formulas -------------------------------------------------------------------------------------------------- */

static NstExpr widen(NstExprs *exprs, NstExpr e)
{
    NstDtype type = nst_expr(exprs, e)->type, compute = nst_dtype_info(type)->compute;
    return compute == type ? e : nst_expr_convert(exprs, compute, e, false);
}

/* One more operation over what is there; none if the draw does not fit. */
static NstExpr draw_operation(Random *r, const NstExpr *have, int n)
{
    NstExprs *exprs = r->graph->exprs;
    NstScalarOp op = (NstScalarOp)(NST_OP_LET + 1 + random_below(r, NST_OP_COUNT - NST_OP_LET - 1));
    const NstScalarInfo *info = nst_scalar_info(op);
    NstExpr arg[3];
    NstDtype type[3];
    if (info->rule == NST_RULE_DOT || info->rule == NST_RULE_BITCAST || (info->expanded && !random_chance(r, 40)))
        return (NstExpr){0};
    for (int k = 0; k < info->arity; k++) {
        arg[k] = have[random_below(r, n)];
        type[k] = nst_expr(exprs, arg[k])->type;
    }
    if (info->rule == NST_RULE_CONVERT) {
        NstDtype to = random_dtype(r, random_is_compute_number);
        if (to == NST_DTYPE_NONE || !nst_scalar_can_convert(to, type[0])) return (NstExpr){0};
        return nst_expr_convert(exprs, to, arg[0], false);
    }
    if (nst_scalar_result(op, type, info->arity) == NST_DTYPE_NONE) return (NstExpr){0};
    return nst_expr_make(exprs, op, NST_DTYPE_NONE, arg);
}

NstExpr random_formula(Random *r, const NstDtype *type, uint32_t n, NstDtype want)
{
    NstExprs *exprs = r->graph->exprs;
    NstExpr have[FORMULA_NODES], last;
    int count = 0, wanted = 1 + random_below(r, 5);
    for (uint32_t k = 0; k < n; k++) have[count++] = widen(exprs, nst_expr_arg(exprs, type[k], k));
    NstDtype first = n ? nst_expr(exprs, have[0])->type : NST_F32;
    have[count++] = nst_expr_const(exprs, first, random_element(r, first, false));
    last = have[0];
    for (int tries = 0; tries < 80 && wanted > 0 && count < FORMULA_NODES; tries++) {
        NstExpr e = draw_operation(r, have, count);
        if (e.i == 0) continue;
        have[count++] = last = e;
        wanted--;
    }
    NstDtype gives = nst_expr(exprs, last)->type;
    return want == NST_DTYPE_NONE || want == gives ? last : nst_expr_convert(exprs, want, last, false);
}

/* --- sources and pointwise ------------------------------------------------------------------------------------- */

static void random_source(Random *r, NstPrim prim)
{
    NstDim shape[4];
    int rank = random_below(r, 4);
    for (int a = 0; a < rank; a++) shape[a] = random_extent(r);
    if (prim == NST_PRIM_IOTA) {
        random_add(r, nst_build_iota(&r->build, random_extent(r)));
    } else if (prim == NST_PRIM_DIM_VALUE) {
        NstDim dim = nst_dim_add_const(r->graph->dims, nst_dim_mul_const(r->graph->dims, random_extent(r), 3), 1);
        random_add(r, nst_build_dim_value(&r->build, dim));
    } else if (prim == NST_PRIM_RANDOM_BITS) {
        const int64_t two[1] = {2}, key[2] = {(int64_t)random_next(r), (int64_t)random_next(r)};
        random_add(r, nst_build_random_bits(&r->build, nst_build_const(&r->build, NST_I64, 1, two, key), rank, shape));
    } else {
        NstDtype type = random_dtype(r, NULL);
        if (type != NST_DTYPE_NONE) random_add(r, random_const(r, type, rank, shape));
    }
}

/* A value that broadcasts with x: one of the pool with its shape, or a constant with some extents 1, perhaps of lower rank. */
static NstVal random_partner(Random *r, NstVal x)
{
    const NstType *type = random_type(r, x);
    int start = random_below(r, r->n_pool);
    for (int k = 0; k < r->n_pool && random_chance(r, 90); k++) {
        NstVal y = r->pool[(start + k) % r->n_pool];
        const NstType *other = random_type(r, y);
        bool same = other->rank == type->rank;
        for (int a = 0; a < type->rank && same; a++) same = nst_dim_same(type->shape[a], other->shape[a]);
        if (same && y.i != x.i) return y;
    }
    NstDim shape[NST_MAX_RANK];
    int drop = random_below(r, type->rank + 1);
    for (int a = drop; a < type->rank; a++)
        shape[a - drop] = random_chance(r, 40) ? random_const_dim(r, 1) : type->shape[a];
    NstDtype dtype = random_chance(r, 60) ? type->dtype : random_dtype(r, NULL);
    return random_const(r, dtype, type->rank - drop, shape);
}

static void random_map(Random *r)
{
    NstVal in[3];
    NstDtype type[3];
    uint32_t n = 1 + (uint32_t)random_below(r, 3);
    in[0] = random_pick(r, NULL);
    if (in[0].i == 0) return;
    for (uint32_t k = 1; k < n; k++) in[k] = random_partner(r, in[0]);
    if (r->build.status != NST_OK) return;
    for (uint32_t k = 0; k < n; k++) type[k] = random_type(r, in[k])->dtype;
    NstDtype want = random_chance(r, 50) ? random_dtype(r, NULL) : NST_DTYPE_NONE;
    random_add(r, nst_build_map_expr(&r->build, random_formula(r, type, n, want), n, in));
}

static void random_convert(Random *r)
{
    NstVal x = random_pick(r, NULL);
    NstDtype to = random_dtype(r, NULL);
    if (x.i != 0 && to != NST_DTYPE_NONE) random_add(r, nst_build_convert(&r->build, x, to, random_chance(r, 30)));
}

static bool is_int_tensor(const Random *r, const NstType *type)
{
    (void)r;
    return nst_dtype_is_int(type->dtype);
}

/* From integers only: a float's NaN may differ in its bits. */
static void random_bitcast(Random *r)
{
    NstVal x = random_pick(r, is_int_tensor);
    NstDtype to = NST_DTYPE_NONE;
    if (x.i == 0) return;
    for (int tries = 0; tries < 20; tries++) {
        to = random_dtype(r, random_is_number);
        if (to == NST_DTYPE_NONE || nst_dtype_info(random_type(r, x)->dtype)->bits == nst_dtype_info(to)->bits) break;
        to = NST_DTYPE_NONE;
    }
    if (to == NST_DTYPE_NONE) return;
    random_add(r, nst_build_bitcast(&r->build, x, to));
}

/* --- views ----------------------------------------------------------------------------------------------------- */

static bool has_axes(const Random *r, const NstType *type)
{
    (void)r;
    return type->rank > 0 && type->rank <= 5;
}

static bool is_low(const Random *r, const NstType *type)
{
    (void)r;
    return type->rank < 5;
}

/* Merges two axes, adds an axis of 1, or drops all structure. */
static void random_reshape(Random *r)
{
    NstVal x = random_pick(r, is_low);
    if (x.i == 0) return;
    const NstType *type = random_type(r, x);
    NstDim shape[NST_MAX_RANK];
    int rank = 0, kind = random_below(r, 3), at = random_below(r, type->rank + 1);
    for (int a = 0; a <= type->rank; a++) {
        if (kind == 0 && a == at) shape[rank++] = random_const_dim(r, 1);
        if (a == type->rank) break;
        if (kind == 1 && a == at && a > 0)
            shape[rank - 1] = nst_dim_mul(r->graph->dims, shape[rank - 1], type->shape[a]);
        else
            shape[rank++] = type->shape[a];
    }
    if (kind == 2) {
        rank = 1;
        shape[0] = nst_type_elements(r->graph->dims, type);
    }
    random_add(r, nst_build_reshape(&r->build, x, rank, shape));
}

static void random_permute(Random *r)
{
    NstVal x = random_pick(r, has_axes);
    int order[NST_MAX_RANK];
    if (x.i == 0) return;
    int rank = random_type(r, x)->rank;
    for (int k = 0; k < rank; k++) {
        int j = random_below(r, k + 1);
        order[k] = order[j];
        order[j] = k;
    }
    random_add(r, nst_build_permute(&r->build, x, order));
}

static void random_expand(Random *r)
{
    NstVal x = random_pick(r, is_low);
    if (x.i == 0) return;
    const NstType *type = random_type(r, x);
    NstDim shape[NST_MAX_RANK], one = random_const_dim(r, 1);
    int extra = type->rank < 4 ? 1 : 0;
    for (int k = 0; k < extra; k++) shape[k] = random_extent(r);
    for (int a = 0; a < type->rank; a++)
        shape[a + extra] = nst_dim_same(type->shape[a], one) ? random_extent(r) : type->shape[a];
    random_add(r, nst_build_expand(&r->build, x, type->rank + extra, shape));
}

/* Start, step and size along one axis: any for constant extents; all, reversed or from the second on for symbols >= 1. */
static void random_range(Random *r, NstDim extent, NstDim *start, int64_t *step, NstDim *size)
{
    NstDims *dims = r->graph->dims;
    int64_t n, lo, hi;
    *start = nst_dim_const(dims, 0);
    *step = 1;
    *size = extent;
    if (nst_dim_is_const(dims, extent, &n)) {
        if (n == 0) return;
        int64_t from = random_below(r, (int)n);
        *step = 1 + random_below(r, 2);
        if (random_chance(r, 40)) *step = -*step;
        int64_t room = *step > 0 ? (n - 1 - from) / *step : from / -*step;
        *start = nst_dim_const(dims, from);
        *size = nst_dim_const(dims, random_below(r, (int)room + 2));
        return;
    }
    nst_dim_bounds(dims, extent, &lo, &hi);
    int kind = lo >= 1 ? random_below(r, 3) : 0;
    if (kind == 1) {
        *start = nst_dim_add_const(dims, extent, -1);
        *step = -1;
    } else if (kind == 2) {
        *start = nst_dim_const(dims, 1);
        *size = nst_dim_add_const(dims, extent, -1);
    }
}

static void random_slice(Random *r)
{
    NstVal x = random_pick(r, has_axes), value[NST_MAX_RANK] = {{0}};
    NstDim start[NST_MAX_RANK], size[NST_MAX_RANK];
    int64_t step[NST_MAX_RANK];
    if (x.i == 0) return;
    const NstType *type = random_type(r, x);
    bool runtime = random_chance(r, 30);
    for (int a = 0; a < type->rank; a++) {
        int64_t n;
        random_range(r, type->shape[a], &start[a], &step[a], &size[a]);
        if (!runtime) continue;
        size[a] = type->shape[a];
        if (!nst_dim_is_const(r->graph->dims, type->shape[a], &n) || n < 2) continue;
        size[a] = random_const_dim(r, 1 + random_below(r, (int)n - 1));
        value[a] = random_runtime_start(r, nst_dim_sub(r->graph->dims, type->shape[a], size[a]));
    }
    random_add(r, runtime ? nst_build_slice_at(&r->build, x, value, size)
                          : nst_build_slice(&r->build, x, start, step, size));
}

static void random_update_slice(Random *r)
{
    NstVal base = random_pick(r, has_axes), value[NST_MAX_RANK] = {{0}};
    NstDim size[NST_MAX_RANK];
    if (base.i == 0) return;
    const NstType *type = random_type(r, base);
    for (int a = 0; a < type->rank; a++) {
        int64_t n;
        size[a] = type->shape[a];
        if (!nst_dim_is_const(r->graph->dims, type->shape[a], &n) || n < 1) continue;
        size[a] = random_const_dim(r, random_below(r, (int)n + 1));
        value[a] = random_runtime_start(r, nst_dim_sub(r->graph->dims, type->shape[a], size[a]));
    }
    NstVal update = random_const(r, type->dtype, type->rank, size);
    random_add(r, nst_build_update_slice(&r->build, base, update, value));
}

static void random_pad(Random *r)
{
    NstVal x = random_pick(r, has_axes), value = {0};
    NstDim lo[NST_MAX_RANK], hi[NST_MAX_RANK];
    int64_t interior[NST_MAX_RANK];
    if (x.i == 0) return;
    const NstType *type = random_type(r, x);
    NstPadMode mode = (NstPadMode)random_below(r, 4);
    for (int a = 0; a < type->rank; a++) {
        int64_t least, most;
        nst_dim_bounds(r->graph->dims, type->shape[a], &least, &most);
        if (least < 1) mode = NST_PAD_CONSTANT;
        lo[a] = random_const_dim(r, random_below(r, 3) - (least >= 1));
        hi[a] = random_const_dim(r, random_below(r, 3));
    }
    for (int a = 0; a < type->rank; a++) interior[a] = mode == NST_PAD_CONSTANT ? random_below(r, 4) / 3 : 0;
    if (mode == NST_PAD_CONSTANT && random_chance(r, 60)) value = random_const(r, type->dtype, 0, NULL);
    random_add(r, nst_build_pad(&r->build, x, lo, hi, interior, mode, value));
}

static void random_concat(Random *r)
{
    NstVal in[3];
    NstDim start[NST_MAX_RANK], size[NST_MAX_RANK];
    int64_t step[NST_MAX_RANK];
    in[0] = random_pick(r, has_axes);
    if (in[0].i == 0) return;
    const NstType *type = random_type(r, in[0]);
    int axis = random_below(r, type->rank);
    for (int a = 0; a < type->rank; a++) {
        start[a] = random_const_dim(r, 0);
        step[a] = 1;
        size[a] = type->shape[a];
    }
    random_range(r, type->shape[axis], &start[axis], &step[axis], &size[axis]);
    in[1] = nst_build_slice(&r->build, in[0], start, step, size);
    size[axis] = random_extent(r);
    in[2] = random_const(r, type->dtype, type->rank, size);
    random_add(r, nst_build_concat(&r->build, 2 + (uint32_t)random_below(r, 2), in, axis));
}

/* A window over one or two axes that are long enough, with padding. */
NstVal random_window(Random *r, NstVal x)
{
    const NstType *type = random_type(r, x);
    NstWindowAxis axis[2];
    NstVal none = {0};
    int n = 0;
    for (int a = 0; a < type->rank && n < 2; a++) {
        int64_t lo, hi;
        nst_dim_bounds(r->graph->dims, type->shape[a], &lo, &hi);
        int pad_lo = random_below(r, 2), pad_hi = random_below(r, 2), room = (lo > 5 ? 5 : (int)lo) + pad_lo + pad_hi;
        if (lo < 1 || random_chance(r, 30)) continue;
        int size = 1 + random_below(r, room < 3 ? room : 3),
            dilation = size > 1 && 2 * (size - 1) < room ? 1 + random_below(r, 2) : 1;
        axis[n++] = (NstWindowAxis){a,        random_const_dim(r, size),   1 + random_below(r, 2),
                                    dilation, random_const_dim(r, pad_lo), random_const_dim(r, pad_hi)};
    }
    if (n == 0 || type->rank + n > 6) return none;
    return nst_build_window(&r->build, x, n, axis, random_chance(r, 30) ? random_const(r, type->dtype, 0, NULL) : none);
}

static void random_assert(Random *r)
{
    NstVal x = random_pick(r, is_int_tensor);
    if (x.i != 0)
        nst_build_assert(&r->build, nst_build_map(&r->build, "a == a", 1, &x, NULL, 0), "a value equals itself");
}

/* --- all ------------------------------------------------------------------------------------------------------- */

void random_build(Random *r, NstPrim prim)
{
    NstVal x;
    switch (prim) {
    case NST_PRIM_CONST:
    case NST_PRIM_IOTA:
    case NST_PRIM_RANDOM_BITS:
    case NST_PRIM_DIM_VALUE: random_source(r, prim); break;
    case NST_PRIM_MAP: random_map(r); break;
    case NST_PRIM_CONVERT: random_convert(r); break;
    case NST_PRIM_BITCAST: random_bitcast(r); break;
    case NST_PRIM_RESHAPE: random_reshape(r); break;
    case NST_PRIM_PERMUTE: random_permute(r); break;
    case NST_PRIM_EXPAND: random_expand(r); break;
    case NST_PRIM_SLICE: random_slice(r); break;
    case NST_PRIM_PAD: random_pad(r); break;
    case NST_PRIM_CONCAT: random_concat(r); break;
    case NST_PRIM_WINDOW:
        x = random_pick(r, has_axes);
        if (x.i != 0) random_add(r, random_window(r, x));
        break;
    case NST_PRIM_UPDATE_SLICE: random_update_slice(r); break;
    case NST_PRIM_REDUCE: random_reduce(r); break;
    case NST_PRIM_PREFIX: random_prefix(r); break;
    case NST_PRIM_CONTRACT: random_contract(r); break;
    case NST_PRIM_SORT: random_sort(r); break;
    case NST_PRIM_GATHER: random_gather(r); break;
    case NST_PRIM_SCATTER: random_scatter(r); break;
    case NST_PRIM_COMPACT: random_compact(r); break;
    case NST_PRIM_IF: random_if(r); break;
    case NST_PRIM_LOOP: random_loop(r); break;
    case NST_PRIM_CALL: random_call(r); break;
    case NST_PRIM_ASSERT: random_assert(r); break;
    case NST_PRIM_PARAM:
    case NST_PRIM_HOST:
    case NST_PRIM_COUNT: break;
    }
}
