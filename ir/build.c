/* build.c: the builder's core; sources, pointwise and view primitives. */
#include "ir/build_impl.h"

#include <stdarg.h>

void nst_build_init(NstBuild *build, NstCtx *ctx, NstGraph *graph, NstRegionId region)
{
    *build = (NstBuild){.ctx = ctx, .graph = graph, .region = region};
}

NstStatus nst_build_status(const NstBuild *build)
{
    return build->status;
}

NstVal nst_build_fail(NstBuild *build, NstStatus status, const char *format, ...)
{
    char text[NST_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (build->status == NST_OK) build->status = nst_fail(build->ctx, status, "%s", text);
    return (NstVal){0};
}

/* Keeps a status that was reported to the context. */
void nst_build_keep(NstBuild *build, NstStatus status)
{
    if (build->status != NST_OK || status == NST_OK) return;
    build->status = build->ctx->status != NST_OK ? build->ctx->status : status; /* of a region's builder, perhaps */
    if (build->origin.i == 0) return;
    (void)nst_note(build->ctx, "at %s", nst_origin_text(build->graph->origins, build->origin));
}

const NstType *nst_build_type(NstBuild *build, NstVal value)
{
    if (build->status != NST_OK) return NULL;
    if (value.i != 0 && value.i < build->graph->values.n) return nst_value_type(build->graph, value);
    nst_build_fail(build, NST_E_INVALID, "an operand is absent, allowed: a value of the graph");
    nst_build_keep(build, build->status);
    return NULL;
}

NstStatus nst_build_add(NstBuild *build, NstPrim prim, const NstAttrs *attr, const NstVal *in, uint32_t n_in,
                        NstType *type, uint32_t n_out, NstVal *out)
{
    NstGraph *graph = build->graph;
    for (uint32_t k = 0; k < n_out; k++) out[k] = (NstVal){0};
    if (build->status != NST_OK) return build->status;
    NstInfer infer = {.ctx = build->ctx, .graph = graph};
    NstStatus status = nst_infer(&infer, prim, attr, in, n_in, type, n_out);
    if (status == NST_OK && graph->nodes.n > NST_MAX_NODES)
        status = nst_fail(build->ctx, NST_E_LIMIT, "graph: more than %d nodes", NST_MAX_NODES);
    if (status != NST_OK) {
        nst_build_keep(build, status);
        return status;
    }
    for (uint32_t k = 0; k < infer.unproven.n; k++)
        nst_build_require_equal(build, infer.unproven.at[k].a, infer.unproven.at[k].b, nst_prim_info(prim)->name);
    for (uint32_t k = 0; k < infer.unsure.n; k++)
        nst_build_require_size(build, infer.unsure.at[k], nst_prim_info(prim)->name);
    NstNodeId id = nst_graph_add(graph, build->region, prim, attr, in, n_in, type, n_out, build->origin);
    for (uint32_t k = 0; k < n_out; k++) out[k] = nst_graph_node(graph, id)->out[k];
    return NST_OK;
}

NstVal nst_build_add1(NstBuild *build, NstPrim prim, const NstAttrs *attr, const NstVal *in, uint32_t n_in,
                      NstType type)
{
    NstVal out;
    (void)nst_build_add(build, prim, attr, in, n_in, &type, 1, &out);
    return out;
}

static NstType wanted(NstBuild *build, NstDtype dtype, int rank, const NstDim *shape)
{
    if (rank < 0 || rank > NST_MAX_RANK) {
        nst_build_fail(build, NST_E_LIMIT, "rank %d, allowed: 0..%d", rank, NST_MAX_RANK);
        return (NstType){0};
    }
    return nst_tensor_type(build->graph->arena, dtype, rank, shape);
}

static void assert_equal(NstBuild *build, NstDim a, NstDim b, const char *message)
{
    NstVal pair[2] = {nst_build_dim_value(build, a), nst_build_dim_value(build, b)};
    nst_build_assert(build, nst_build_map(build, "a == b", 2, pair, NULL, 0), message);
}

void nst_build_require_equal(NstBuild *build, NstDim a, NstDim b, const char *what)
{
    NstDims *dims = build->graph->dims;
    if (build->status != NST_OK) return;
    NstTruth truth = nst_dim_compare(dims, a, NST_DIM_EQ, b);
    if (truth == NST_TRUE) return;
    NstText text;
    nst_text_init(&text, build->graph->arena);
    nst_text_add(&text, "%s: ", what);
    nst_dim_print(&text, dims, a, NULL, NULL);
    nst_text_add(&text, " and ");
    nst_dim_print(&text, dims, b, NULL, NULL);
    nst_text_add(&text, " must be equal");
    if (truth == NST_FALSE) {
        nst_build_fail(build, NST_E_SHAPE, "%s", nst_text_get(&text));
        return;
    }
    assert_equal(build, a, b, nst_text_get(&text));
    if (build->region.i == NST_GRAPH_REGION.i) nst_dims_assume_equal(dims, a, b);
}

void nst_build_require_size(NstBuild *build, NstDim dim, const char *what)
{
    NstDims *dims = build->graph->dims;
    NstDim zero = nst_dim_const(dims, 0);
    if (build->status != NST_OK || nst_dim_compare(dims, dim, NST_DIM_GE, zero) == NST_TRUE) return;
    NstText text;
    nst_text_init(&text, build->graph->arena);
    nst_text_add(&text, "%s: an extent would be ", what);
    nst_dim_print(&text, dims, dim, NULL, NULL);
    nst_text_add(&text, ", allowed: at least 0");
    assert_equal(build, dim, nst_dim_max(dims, dim, zero), nst_text_get(&text));
    if (build->region.i == NST_GRAPH_REGION.i) nst_dims_assume_nonneg(dims, dim);
}

const NstDim *nst_build_dims(NstBuild *build, int rank, const int64_t *shape)
{
    NstDim *dims = NST_NEW_ARRAY(build->graph->arena, NstDim, rank > 0 ? rank : 0);
    for (int k = 0; k < rank; k++) dims[k] = nst_dim_const(build->graph->dims, shape[k]);
    return dims;
}

/* --- sources --------------------------------------------------------------------------------------------------- */

NstVal nst_build_param(NstBuild *build, const char *name, NstType type)
{
    NstAttrs attr = {.param = {name}};
    return nst_build_add1(build, NST_PRIM_PARAM, &attr, NULL, 0, type);
}

NstVal nst_build_const_view(NstBuild *build, NstDtype dtype, int rank, const int64_t *shape, const void *data,
                            size_t bytes)
{
    NstAttrs attr = {.constant = {.data = data ? data : "", .bytes = bytes}};
    NstType type = wanted(build, dtype, rank, nst_build_dims(build, rank, shape));
    return nst_build_add1(build, NST_PRIM_CONST, &attr, NULL, 0, type);
}

/* Bytes of a constant shape; false if negative or over the budget of one tensor. */
static bool count_bytes(NstBuild *build, NstDtype dtype, int rank, const int64_t *shape, size_t *bytes)
{
    int64_t total = nst_dtype_info(dtype)->bytes;
    for (int k = 0; k < rank; k++) {
        if (shape[k] >= 0 && !__builtin_mul_overflow(total, shape[k], &total) && total <= NST_MAX_TENSOR_BYTES)
            continue;
        nst_build_fail(build, NST_E_LIMIT, "const: extent %lld of axis %d, allowed: >= 0 and %lld bytes in all",
                       (long long)shape[k], k, (long long)NST_MAX_TENSOR_BYTES);
        return false;
    }
    *bytes = (size_t)total;
    return build->status == NST_OK;
}

NstVal nst_build_const(NstBuild *build, NstDtype dtype, int rank, const int64_t *shape, const void *data)
{
    size_t bytes;
    if (!count_bytes(build, dtype, rank, shape, &bytes)) return (NstVal){0};
    return nst_build_const_view(build, dtype, rank, shape, nst_copy(build->graph->arena, data, bytes), bytes);
}

NstVal nst_build_seeded(NstBuild *build, NstDtype dtype, int rank, const int64_t *shape, uint64_t seed)
{
    size_t bytes;
    if (!count_bytes(build, dtype, rank, shape, &bytes)) return (NstVal){0};
    void *data = nst_alloc_aligned(build->graph->arena, bytes, 64);
    nst_const_fill_seeded(dtype, data, bytes / (size_t)nst_dtype_info(dtype)->bytes, seed);
    NstAttrs attr = {.constant = {.data = data, .bytes = bytes, .seed = seed, .seeded = true}};
    NstType type = wanted(build, dtype, rank, nst_build_dims(build, rank, shape));
    return nst_build_add1(build, NST_PRIM_CONST, &attr, NULL, 0, type);
}

NstVal nst_build_splat(NstBuild *build, NstDtype dtype, int rank, const NstDim *shape, NstScalar value)
{
    NstAttrs attr = {.constant = {.splat = value}};
    return nst_build_add1(build, NST_PRIM_CONST, &attr, NULL, 0, wanted(build, dtype, rank, shape));
}

NstVal nst_build_iota(NstBuild *build, NstDim extent)
{
    NstAttrs attr = {.iota = {extent}};
    return nst_build_add1(build, NST_PRIM_IOTA, &attr, NULL, 0, (NstType){0});
}

NstVal nst_build_random_bits(NstBuild *build, NstVal key, int rank, const NstDim *shape)
{
    return nst_build_add1(build, NST_PRIM_RANDOM_BITS, NULL, &key, 1, wanted(build, NST_U32, rank, shape));
}

NstVal nst_build_dim_value(NstBuild *build, NstDim dim)
{
    NstAttrs attr = {.dim_value = {dim}};
    return nst_build_add1(build, NST_PRIM_DIM_VALUE, &attr, NULL, 0, (NstType){0});
}

/* A symbol of a name no other one has. */
NstSym nst_build_fresh_sym(NstBuild *build, NstSymKind kind, const char *base, int64_t lo, int64_t hi)
{
    NstDims *dims = build->graph->dims;
    const char *name = base;
    for (uint32_t k = nst_dims_sym_count(dims); nst_dims_find_sym(dims, name, strlen(name)).i != 0; k++)
        name = nst_format(build->graph->arena, "%s%u", base, k);
    return nst_dims_new_sym(dims, kind, name, lo, hi);
}

NstDim nst_build_counted_dim(NstBuild *build, const char *name)
{
    return nst_dim_sym(build->graph->dims, nst_build_fresh_sym(build, NST_SYM_COUNTED, name, 0, INT64_MAX));
}

NstDim nst_build_value_dim(NstBuild *build, NstVal scalar, const char *name, int64_t lo, int64_t hi)
{
    const NstType *type = nst_build_type(build, scalar);
    NstDims *dims = build->graph->dims;
    if (!type) return nst_dim_const(dims, 0);
    if (type->kind != NST_TYPE_TENSOR || type->rank != 0 || !nst_dtype_is_int(type->dtype)) {
        nst_build_fail(build, NST_E_TYPE, "a size read from a value of rank %d, allowed: an integer scalar",
                       type->rank);
        return nst_dim_const(dims, 0);
    }
    const NstNode *node = nst_value_node(build->graph, scalar);
    if (node->prim == NST_PRIM_DIM_VALUE) return node->attr.dim_value.dim;
    if (node->prim == NST_PRIM_CONST) {
        const NstConst *c = &node->attr.constant;
        return nst_dim_const(dims, c->data ? nst_scalar_load(type->dtype, c->data).i : c->splat.i);
    }
    NstSym sym = nst_build_fresh_sym(build, NST_SYM_VALUE, name ? name : "v", lo, hi);
    nst_graph_define(build->graph, sym, scalar);
    return nst_dim_sym(dims, sym);
}

/* --- pointwise ------------------------------------------------------------------------------------------------- */

NstExpr nst_build_formula(NstBuild *build, const char *formula, const NstDtype *arg_type, uint32_t n_args,
                          NstDtype result_type)
{
    NstExpr e = {0};
    if (build->status != NST_OK) return e;
    nst_build_keep(build, nst_formula_parse(build->ctx, build->graph->exprs, formula, arg_type, n_args, NULL, 0,
                                            result_type, NULL, &e));
    return e;
}

/* Raises the rank by leading axes of extent 1. */
NstVal nst_build_raise(NstBuild *build, NstVal x, int rank)
{
    const NstType *type = nst_build_type(build, x);
    if (!type || type->rank >= rank || rank > NST_MAX_RANK) return x;
    NstDim shape[NST_MAX_RANK];
    int missing = rank - type->rank;
    for (int k = 0; k < rank; k++)
        shape[k] = k < missing ? nst_dim_const(build->graph->dims, 1) : type->shape[k - missing];
    return nst_build_reshape(build, x, rank, shape);
}

/* Operand types of a map, and the narrow float type that all float operands share, if any. */
static bool map_types(NstBuild *build, uint32_t n, const NstVal *in, NstDtype *type, NstDtype *narrow)
{
    bool mixed = false;
    *narrow = NST_DTYPE_NONE;
    for (uint32_t k = 0; k < n; k++) {
        const NstType *t = nst_build_type(build, in[k]);
        if (!t) return false;
        type[k] = t->dtype;
        if (!nst_dtype_is_float(t->dtype)) continue;
        mixed = mixed || (*narrow != NST_DTYPE_NONE && *narrow != t->dtype);
        *narrow = t->dtype;
    }
    if (mixed || nst_dtype_info(*narrow)->compute == *narrow) *narrow = NST_DTYPE_NONE;
    return build->status == NST_OK;
}

NstVal nst_build_map(NstBuild *build, const char *formula, uint32_t n, const NstVal *in, const NstFormulaWord *word,
                     uint32_t n_words)
{
    NstDtype *type = NST_NEW_ARRAY(build->graph->arena, NstDtype, n), narrow;
    NstExpr e;
    NstExprs *exprs = build->graph->exprs;
    if (!map_types(build, n, in, type, &narrow)) return (NstVal){0};
    nst_build_keep(build,
                   nst_formula_parse(build->ctx, exprs, formula, type, n, word, n_words, NST_DTYPE_NONE, NULL, &e));
    if (build->status != NST_OK) return (NstVal){0};
    if (narrow != NST_DTYPE_NONE && nst_expr(exprs, e)->type == nst_dtype_info(narrow)->compute)
        e = nst_expr_convert(exprs, narrow, e, false);
    return nst_build_map_expr(build, e, n, in);
}

NstVal nst_build_map_expr(NstBuild *build, NstExpr formula, uint32_t n, const NstVal *in)
{
    NstAttrs attr = {.map = {formula}};
    NstVal *raised = NST_NEW_ARRAY(build->graph->arena, NstVal, n);
    int rank = 0;
    for (uint32_t k = 0; k < n; k++) {
        const NstType *type = nst_build_type(build, in[k]);
        if (!type) return (NstVal){0};
        if (type->rank > rank) rank = type->rank;
    }
    for (uint32_t k = 0; k < n; k++) raised[k] = nst_build_raise(build, in[k], rank);
    return nst_build_add1(build, NST_PRIM_MAP, &attr, raised, n, (NstType){0});
}

NstVal nst_build_convert(NstBuild *build, NstVal x, NstDtype to, bool saturate)
{
    const NstType *type = nst_build_type(build, x);
    NstAttrs attr = {.convert = {to, saturate}};
    if (!type || (type->dtype == to && type->kind == NST_TYPE_TENSOR)) return x;
    return nst_build_add1(build, NST_PRIM_CONVERT, &attr, &x, 1, (NstType){0});
}

NstVal nst_build_bitcast(NstBuild *build, NstVal x, NstDtype to)
{
    const NstType *type = nst_build_type(build, x);
    NstAttrs attr = {.convert = {to, false}};
    if (!type || (type->dtype == to && type->kind == NST_TYPE_TENSOR)) return x;
    return nst_build_add1(build, NST_PRIM_BITCAST, &attr, &x, 1, (NstType){0});
}

/* --- views ----------------------------------------------------------------------------------------------------- */

static bool has_shape(const NstType *type, int rank, const NstDim *shape)
{
    if (type->kind != NST_TYPE_TENSOR || type->rank != rank) return false;
    for (int k = 0; k < rank; k++)
        if (!nst_dim_same(type->shape[k], shape[k])) return false;
    return true;
}

NstVal nst_build_reshape(NstBuild *build, NstVal x, int rank, const NstDim *shape)
{
    const NstType *type = nst_build_type(build, x);
    if (!type || has_shape(type, rank, shape)) return x;
    return nst_build_add1(build, NST_PRIM_RESHAPE, NULL, &x, 1, wanted(build, type->dtype, rank, shape));
}

NstVal nst_build_permute(NstBuild *build, NstVal x, const int *order)
{
    const NstType *type = nst_build_type(build, x);
    NstAttrs attr = {.permute = {{0}}};
    bool none = true;
    for (int k = 0; type && k < type->rank; k++) {
        attr.permute.order[k] = order[k];
        none = none && order[k] == k;
    }
    if (!type || (none && type->kind == NST_TYPE_TENSOR)) return x;
    return nst_build_add1(build, NST_PRIM_PERMUTE, &attr, &x, 1, (NstType){0});
}

NstVal nst_build_expand(NstBuild *build, NstVal x, int rank, const NstDim *shape)
{
    x = nst_build_raise(build, x, rank);
    const NstType *type = nst_build_type(build, x);
    if (!type || has_shape(type, rank, shape)) return x;
    return nst_build_add1(build, NST_PRIM_EXPAND, NULL, &x, 1, wanted(build, type->dtype, rank, shape));
}

NstVal nst_build_slice(NstBuild *build, NstVal x, const NstDim *start, const int64_t *step, const NstDim *size)
{
    const NstType *type = nst_build_type(build, x);
    NstAttrs attr = {.slice = {.start = start, .step = step}};
    if (!type) return x;
    bool none = has_shape(type, type->rank, size);
    for (int k = 0; k < type->rank; k++)
        none = none && nst_dim_same(start[k], nst_dim_const(build->graph->dims, 0)) && (!step || step[k] == 1);
    if (none) return x;
    return nst_build_add1(build, NST_PRIM_SLICE, &attr, &x, 1, wanted(build, type->dtype, type->rank, size));
}

/* Turns run-time starts (none = 0) into inputs behind the first n; fills attr. */
static uint32_t add_starts(NstBuild *build, int rank, const NstVal *start, uint32_t n, NstVal *in, NstAttrs *attr)
{
    NstArena *arena = build->graph->arena;
    NstDim *zero = NST_NEW_ARRAY(arena, NstDim, rank);
    int *input = NST_NEW_ARRAY(arena, int, rank);
    for (int k = 0; k < rank; k++) {
        zero[k] = nst_dim_const(build->graph->dims, 0);
        if (start[k].i == 0) continue;
        input[k] = (int)n;
        in[n++] = nst_build_convert(build, start[k], NST_I64, false);
    }
    attr->slice.start = zero;
    attr->slice.start_input = input;
    return n;
}

NstVal nst_build_slice_at(NstBuild *build, NstVal x, const NstVal *start, const NstDim *size)
{
    const NstType *type = nst_build_type(build, x);
    NstAttrs attr = {.slice = {0}};
    NstVal in[NST_MAX_RANK + 1] = {x};
    if (!type) return x;
    uint32_t n = add_starts(build, type->rank, start, 1, in, &attr);
    return nst_build_add1(build, NST_PRIM_SLICE, &attr, in, n, wanted(build, type->dtype, type->rank, size));
}

NstVal nst_build_update_slice(NstBuild *build, NstVal base, NstVal update, const NstVal *start)
{
    const NstType *type = nst_build_type(build, base);
    NstAttrs attr = {.slice = {0}};
    NstVal in[NST_MAX_RANK + 2] = {base, update};
    if (!type) return base;
    uint32_t n = add_starts(build, type->rank, start, 2, in, &attr);
    return nst_build_add1(build, NST_PRIM_UPDATE_SLICE, &attr, in, n, (NstType){0});
}

NstVal nst_build_pad(NstBuild *build, NstVal x, const NstDim *lo, const NstDim *hi, const int64_t *interior,
                     NstPadMode mode, NstVal value)
{
    const NstType *type = nst_build_type(build, x);
    NstAttrs attr = {.pad = {lo, hi, interior, mode}};
    NstVal in[2] = {x, value};
    NstDim zero = nst_dim_const(build->graph->dims, 0);
    if (!type) return x;
    bool none = true;
    for (int k = 0; k < type->rank; k++)
        none = none && nst_dim_same(lo[k], zero) && nst_dim_same(hi[k], zero) && (!interior || interior[k] == 0);
    if (none) return x;
    static const char zeros[16]; /* more than a scalar of a formula holds */
    if (!value.i && mode == NST_PAD_CONSTANT && type->dtype == NST_C128)
        in[1] = value = nst_build_const(build, NST_C128, 0, NULL, zeros);
    return nst_build_add1(build, NST_PRIM_PAD, &attr, in, value.i != 0 ? 2 : 1, (NstType){0});
}

NstVal nst_build_concat(NstBuild *build, uint32_t n, const NstVal *in, int axis)
{
    NstAttrs attr = {.concat = {axis}};
    if (n == 1) return in[0];
    return nst_build_add1(build, NST_PRIM_CONCAT, &attr, in, n, (NstType){0});
}

NstVal nst_build_window(NstBuild *build, NstVal x, int n, const NstWindowAxis *axis, NstVal padding)
{
    int axes[NST_MAX_RANK];
    int64_t stride[NST_MAX_RANK], dilation[NST_MAX_RANK];
    NstDim size[NST_MAX_RANK], lo[NST_MAX_RANK], hi[NST_MAX_RANK];
    NstVal in[2] = {x, padding};
    if (n < 0 || n > NST_MAX_RANK) return nst_build_fail(build, NST_E_LIMIT, "window: %d axes, allowed: 1..16", n);
    for (int w = 0; w < n; w++) {
        axes[w] = axis[w].axis;
        size[w] = axis[w].size;
        stride[w] = axis[w].stride;
        dilation[w] = axis[w].dilation;
        lo[w] = axis[w].lo;
        hi[w] = axis[w].hi;
    }
    NstAttrs attr = {.window = {n, axes, size, stride, dilation, lo, hi, NULL}};
    return nst_build_add1(build, NST_PRIM_WINDOW, &attr, in, padding.i != 0 ? 2 : 1, (NstType){0});
}
