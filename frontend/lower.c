/* lower.c: the words of lower.h. */
#include "frontend/lower.h"

#include <stdarg.h>
#include <stdlib.h>

/* --- the node -------------------------------------------------------------------------------------------------- */

V fail(NstLower *c, NstStatus status, const char *format, ...)
{
    char text[NST_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c->refused |= !failed(c);
    return nst_build_fail(c->b, status, "%s: %s", c->label, text);
}

bool has_attr(const NstLower *c, const char *name)
{
    return nst_attrs_find(&c->attrs, name) != NULL;
}

static const NstAttr *attr_of(NstLower *c, const char *name)
{
    static const NstAttr nothing = {.s = ""};
    const NstAttr *a = nst_attrs_find(&c->attrs, name);
    return a ? a : &nothing;
}

int64_t attr_i(NstLower *c, const char *name)
{
    return attr_of(c, name)->i;
}

NstDtype attr_type(NstLower *c, const char *name, NstDtype otherwise)
{
    int64_t code = attr_i(c, name);
    NstDtype t = code > 0 && code < NST_DTYPE_COUNT ? nst_dtype_from_onnx((int)code) : NST_DTYPE_NONE;
    if (otherwise != NST_DTYPE_NONE && (!has_attr(c, name) || code == 0)) return otherwise;
    if (t == NST_DTYPE_NONE)
        fail(c, NST_E_MODEL, "%s %lld, allowed: 1 to %d", name, (long long)code, NST_DTYPE_COUNT - 1);
    return t == NST_DTYPE_NONE ? NST_F32 : t;
}

double attr_f(NstLower *c, const char *name)
{
    return attr_of(c, name)->f;
}

const char *attr_s(NstLower *c, const char *name)
{
    return attr_of(c, name)->s;
}

bool attr_is(NstLower *c, const char *name, const char *text)
{
    return strcmp(attr_s(c, name), text) == 0;
}

const int64_t *attr_ints(NstLower *c, const char *name, int *n)
{
    const NstAttr *a = attr_of(c, name);
    *n = (int)(a->n < INT16_MAX ? a->n : INT16_MAX);
    return a->ints;
}

/* --- types and sizes ------------------------------------------------------------------------------------------- */

const NstType *type(const NstLower *c, V v)
{
    static const NstType scalar = {.kind = NST_TYPE_TENSOR, .dtype = NST_F32};
    return v.i == 0 || failed(c) ? &scalar : nst_value_type(c->b->graph, v);
}

D counted(NstLower *c, int64_t least_size)
{
    NstDims *dims = c->b->graph->dims;
    const char *name = nst_format(c->arena, "s%u", nst_dims_sym_count(dims));
    return nst_dim_sym(dims, nst_dims_new_sym(dims, NST_SYM_COUNTED, name, least_size, INT64_MAX));
}

D num(NstLower *c, int64_t value)
{
    return nst_dim_const(c->b->graph->dims, value);
}

D dim(NstLower *c, V v, int axis)
{
    const NstType *t = type(c, v);
    return axis >= 0 && axis < t->rank ? t->shape[axis] : num(c, 1);
}

D add(NstLower *c, D a, D b)
{
    return nst_dim_add(c->b->graph->dims, a, b);
}

D sub(NstLower *c, D a, D b)
{
    return nst_dim_sub(c->b->graph->dims, a, b);
}

D mul(NstLower *c, D a, D b)
{
    return nst_dim_mul(c->b->graph->dims, a, b);
}

D minus1(NstLower *c, D a)
{
    return nst_dim_add_const(c->b->graph->dims, a, -1);
}

NstTruth compare(NstLower *c, D a, NstDimCompare op, D b)
{
    return nst_dim_compare(c->b->graph->dims, a, op, b);
}

D least(NstLower *c, D a, D b)
{
    NstTruth le = compare(c, a, NST_DIM_LE, b);
    return le == NST_TRUE ? a : le == NST_FALSE ? b : nst_dim_min(c->b->graph->dims, a, b);
}

D most(NstLower *c, D a, D b)
{
    NstTruth ge = compare(c, a, NST_DIM_GE, b);
    return ge == NST_TRUE ? a : ge == NST_FALSE ? b : nst_dim_max(c->b->graph->dims, a, b);
}

D product(NstLower *c, V v, int from, int to)
{
    D p = num(c, 1);
    for (int k = from; k < to; k++) p = mul(c, p, dim(c, v, k));
    return p;
}

bool known(NstLower *c, D a, int64_t *value)
{
    return nst_dim_is_const(c->b->graph->dims, a, value);
}

bool is_num(NstLower *c, D a, int64_t value)
{
    int64_t v;
    return known(c, a, &v) && v == value;
}

void require_size(NstLower *c, D extent, int64_t value, const char *what)
{
    int64_t own;
    if (failed(c)) return;
    if (known(c, extent, &own) && own != value)
        fail(c, NST_E_SHAPE, "%s is %lld, allowed: %lld", what, (long long)own, (long long)value);
    else
        nst_build_require_equal(c->b, extent, num(c, value), nst_format(c->arena, "%s: %s", c->label, what));
}

int norm_axis(NstLower *c, int64_t axis, int rank, bool inclusive)
{
    int64_t last = rank - (inclusive ? 0 : 1), first = -rank;
    if (axis < first || axis > last) {
        fail(c, NST_E_MODEL, "axis %lld, allowed for rank %d: %lld to %lld", (long long)axis, rank, (long long)first,
             (long long)last);
        return 0;
    }
    return (int)(axis < 0 ? axis + rank : axis);
}

bool has_axis(const Axes *axes, int axis)
{
    for (int k = 0; k < axes->n; k++)
        if (axes->at[k] == axis) return true;
    return false;
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

Axes axes_of(NstLower *c, const int64_t *axis, int n, int rank)
{
    Axes axes = {0};
    for (int k = 0; k < n; k++) {
        int a = norm_axis(c, axis[k], rank, false);
        if (has_axis(&axes, a) || axes.n == NST_MAX_RANK) {
            fail(c, NST_E_MODEL, "axis %lld stands there twice", (long long)axis[k]);
            return axes;
        }
        axes.at[axes.n++] = a;
    }
    qsort(axes.at, (size_t)axes.n, sizeof *axes.at, by_value);
    return axes;
}

Axes axes_from(int first, int last)
{
    Axes axes = {0};
    for (int k = first; k < last; k++) axes.at[axes.n++] = k;
    return axes;
}

void needs_value(NstLower *c, V v)
{
    if (v.i == 0) return;
    const NstNode *node = nst_value_node(c->b->graph, v);
    while (node->prim != NST_PRIM_PARAM && node->n_in == 1 && node->in[0].i)
        node = nst_value_node(c->b->graph, node->in[0]);
    if (node->prim == NST_PRIM_PARAM && node->region.i == NST_GRAPH_REGION.i) c->model->needs = node->attr.param.name;
}

const int64_t *const_ints(NstLower *c, int k, const char *what, int *n)
{
    *n = -1;
    if (!has(c, k) || failed(c)) return NULL;
    NstShapeValue is = nst_shape_value(c->sizes, in(c, k));
    int64_t *ints = NST_NEW_ARRAY(c->arena, int64_t, is.n > 0 ? is.n : 0);
    *n = 0;
    for (int j = 0; j < is.n; j++)
        if (!known(c, is.dim[j], &ints[j])) is.n = -1;
    if (is.n >= 0) return *n = is.n, ints;
    needs_value(c, in(c, k));
    fail(c, NST_E_UNSUPPORTED, "%s is computed at run time: not supported, allowed: a constant", what);
    return NULL;
}

bool const_scalar(NstLower *c, V v, NstScalar *value)
{
    int64_t n;
    if (failed(c) || v.i == 0 || !known(c, product(c, v, 0, rank(c, v)), &n) || n != 1) return false;
    const NstNode *node = nst_value_node(c->b->graph, v);
    while (node->prim == NST_PRIM_RESHAPE) node = nst_value_node(c->b->graph, node->in[0]);
    if (node->prim != NST_PRIM_CONST || dtype(c, v) == NST_STR || dtype(c, v) == NST_C128) return false;
    const NstConst *k = &node->attr.constant;
    *value = k->data ? nst_scalar_load(dtype(c, v), k->data) : k->splat;
    return true;
}

bool const_number(NstLower *c, V v, double *value)
{
    NstScalar s;
    if (!const_scalar(c, v, &s)) return false;
    *value = nst_scalar_convert(NST_F64, dtype(c, v), s, false).f;
    return true;
}

D broadcast_extent(NstLower *c, D own, D wanted)
{
    D one = num(c, 1);
    if (is_num(c, wanted, 1) || nst_dim_same(own, wanted)) return own;
    if (is_num(c, own, 1)) return wanted;
    if (compare(c, own, NST_DIM_EQ, one) == NST_FALSE) return own;
    if (compare(c, wanted, NST_DIM_EQ, one) == NST_FALSE) return wanted;
    return mul(c, most(c, own, wanted), least(c, least(c, own, wanted), one));
}

const D *sizes_in(NstLower *c, int k, const char *what, int64_t lo, int *n)
{
    *n = -1;
    if (!has(c, k) || failed(c)) return NULL;
    NstShapeValue is = nst_shape_value(c->sizes, in(c, k));
    *n = 0;
    if (is.n >= 0) {
        *n = is.n;
        return is.dim;
    }
    int64_t count;
    if (rank(c, in(c, k)) > 1 || !known(c, product(c, in(c, k), 0, rank(c, in(c, k))), &count)) {
        needs_value(c, in(c, k));
        fail(c, NST_E_UNSUPPORTED, "the number of entries of %s is not known: not supported", what);
        return NULL;
    }
    if (count > NST_MAX_RANK) {
        needs_value(c, in(c, k));
        fail(c, NST_E_LIMIT, "%s has %lld entries, allowed: at most %d", what, (long long)count, NST_MAX_RANK);
        return NULL;
    }
    D *dims = NST_NEW_ARRAY(c->arena, D, count);
    for (int j = 0; j < count; j++) {
        V one = rank(c, in(c, k)) == 0 ? in(c, k) : drop_axis(c, slice1(c, in(c, k), 0, num(c, j), 1, num(c, 1)), 0);
        dims[j] = nst_build_value_dim(c->b, one, NULL, lo, INT64_MAX);
    }
    if (nst_value_node(c->b->graph, in(c, k))->region.i ==
        c->b->region.i) /* else the sizes live in this region alone */
        nst_shape_value_set(c->sizes, in(c, k), (NstShapeValue){(int)count, dims});
    *n = (int)count;
    return dims;
}

/* --- values ---------------------------------------------------------------------------------------------------- */

V number(NstLower *c, NstDtype dtype, double value)
{
    static const char zero[16];
    uint64_t empty;
    NstScalar from = {.f = value};
    NstDtypeClass klass = nst_dtype_info(dtype)->klass;
    if (value != 0 && (klass == NST_CLASS_STRING || klass == NST_CLASS_COMPLEX))
        return fail(c, NST_E_UNSUPPORTED, "%g as %s is not supported", value, nst_dtype_info(dtype)->name);
    if (klass == NST_CLASS_COMPLEX) return nst_build_const(c->b, dtype, 0, NULL, zero);
    if (klass == NST_CLASS_STRING) {
        empty = nst_strings_put(c->model->strings, "", 0);
        return nst_build_const(c->b, dtype, 0, NULL, &empty);
    }
    return nst_build_splat(c->b, dtype, 0, NULL, nst_scalar_convert(dtype, NST_F64, from, false));
}

/* The elements of x in a row, and the place of each. */
static V places(NstLower *c, V x, V *flat)
{
    D all = product(c, x, 0, rank(c, x));
    *flat = reshape(c, x, 1, &all);
    return failed(c) ? x : reshape(c, nst_build_iota(c->b, all), rank(c, x), type(c, x)->shape);
}

V where(NstLower *c, V condition, V x, V y)
{
    if (failed(c) || dtype(c, x) != NST_C128) return map(c, "a ? b : c", condition, x, y);
    V flat[2], at[2] = {places(c, x, &flat[0]), places(c, y, &flat[1])};
    V first = size_value(c, product(c, x, 0, rank(c, x)));
    V from = map(c, "a ? b : c + d", condition, at[0], at[1], first);
    return failed(c) ? x : nst_build_gather(c->b, concat(c, 2, flat, 0), from, 0, 0, NST_INDEX_CHECKED);
}

V size_value(NstLower *c, D dim)
{
    int64_t value;
    if (known(c, dim, &value)) return nst_build_splat(c->b, NST_I64, 0, NULL, (NstScalar){.i = value});
    return nst_build_dim_value(c->b, dim);
}

V mapn(NstLower *c, const char *formula, int n, const V *x)
{
    NstFormulaWord word[16];
    uint32_t n_words = 0;
    NstExprs *exprs = c->b->graph->exprs;
    if (failed(c)) return (V){0};
    for (uint32_t k = 0; k < c->attrs.list.n && n_words < 16; k++) {
        const NstAttr *a = &c->attrs.list.at[k];
        bool is_float = a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
        if (!is_float && a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT) continue;
        word[n_words].name = nst_format(c->arena, "@%s", a->name);
        word[n_words++].value = is_float ? nst_expr_float(exprs, NST_F64, a->f) : nst_expr_int(exprs, NST_I64, a->i);
    }
    return nst_build_map(c->b, formula, (uint32_t)n, x, word, n_words);
}

V convert(NstLower *c, V x, NstDtype to)
{
    return nst_build_convert(c->b, x, to, false);
}

V widen(NstLower *c, V x)
{
    NstDtype own = dtype(c, x);
    return nst_dtype_is_float(own) ? convert(c, x, nst_dtype_info(own)->compute) : x;
}

V reduce(NstLower *c, const char *combine, V x, Axes axes, bool keep)
{
    return axes.n == 0 ? x : nst_build_reduce(c->b, x, combine, axes.n, axes.at, keep);
}

V reshape(NstLower *c, V x, int rank, const D *shape)
{
    return nst_build_reshape(c->b, x, rank, shape);
}

V permute(NstLower *c, V x, const int *order)
{
    return nst_build_permute(c->b, x, order);
}

V expand(NstLower *c, V x, int rank, const D *shape)
{
    return nst_build_expand(c->b, x, rank, shape);
}

V contract(NstLower *c, const char *equation, V a, V b)
{
    V x[2] = {a, b};
    return nst_build_contract(c->b, equation, 2, x, NST_DTYPE_NONE);
}

V contract_less(NstLower *c, const char *a_labels, const char *b_labels, const char *out_labels, V a, V a_zero,
                const char *la, V b, V b_zero, const char *lb)
{
    V x[4] = {a, b, a_zero, b_zero};
    NstAttrs attr = {.contract = {.accumulate = NST_I32}};
    if (!a_zero.i && !b_zero.i)
        return nst_build_contract(c->b, nst_format(c->arena, "%s,%s->%s", a_labels, b_labels, out_labels), 2, x,
                                  NST_I32);
    for (int k = 0; k < 2; k++)
        if (!x[k + 2].i) x[k + 2] = number(c, dtype(c, x[k]), 0);
    la = rank(c, x[2]) ? la : "";
    lb = rank(c, x[3]) ? lb : "";
    const char *equation = nst_format(c->arena, "%s,%s;%s,%s->%s", a_labels, b_labels, la, lb, out_labels);
    NstDtype a_types[3] = {dtype(c, a), dtype(c, x[2]), dtype(c, x[3])},
             b_types[3] = {dtype(c, b), a_types[1], a_types[2]};
    NstExpr pre[2] = {nst_build_formula(c->b, "convert<i32>(a) - convert<i32>(b)", a_types, 3, NST_I32),
                      nst_build_formula(c->b, "convert<i32>(a) - convert<i32>(c)", b_types, 3, NST_I32)};
    if (failed(c)) return (V){0};
    NstStatus status = nst_build_equation(c->b->ctx, c->arena, equation, 4, &attr);
    if (status != NST_OK) return c->b->status = status, (V){0};
    attr.contract.pre = pre;
    return nst_build_contract_full(c->b, &attr, 4, x);
}

V concat(NstLower *c, int n, const V *x, int axis)
{
    return nst_build_concat(c->b, (uint32_t)n, x, axis);
}

V gather(NstLower *c, V data, V index, int axis, NstIndexMode mode)
{
    return nst_build_gather(c->b, data, index, axis, 0, mode);
}

/* Reshapes x so that axes axis..axis+n_old-1 become the n_new given. */
static V replace_axes(NstLower *c, V x, int axis, int n_old, int n_new, const D *extent)
{
    D shape[NST_MAX_RANK + 2];
    int r = rank(c, x), n = 0;
    if (failed(c)) return (V){0};
    if (r - n_old + n_new > NST_MAX_RANK)
        return fail(c, NST_E_LIMIT, "rank %d, allowed: at most %d", r - n_old + n_new, NST_MAX_RANK);
    for (int k = 0; k < axis && k < r; k++) shape[n++] = dim(c, x, k);
    for (int k = 0; k < n_new; k++) shape[n++] = extent[k];
    for (int k = axis + n_old; k < r; k++) shape[n++] = dim(c, x, k);
    return reshape(c, x, n, shape);
}

V split_axis(NstLower *c, V x, int axis, int64_t g)
{
    D extent[2] = {num(c, g), nst_dim_floordiv(c->b->graph->dims, dim(c, x, axis), num(c, g))};
    return replace_axes(c, x, axis, 1, 2, extent);
}

V merge_axes(NstLower *c, V x, int axis)
{
    D extent = mul(c, dim(c, x, axis), dim(c, x, axis + 1));
    return replace_axes(c, x, axis, 2, 1, &extent);
}

V drop_axis(NstLower *c, V x, int axis)
{
    return replace_axes(c, x, axis, 1, 0, NULL);
}

V insert_axis(NstLower *c, V x, int axis)
{
    D one = num(c, 1);
    return replace_axes(c, x, axis, 0, 1, &one);
}

V slice1(NstLower *c, V x, int axis, D start, int64_t step, D size)
{
    D starts[NST_MAX_RANK], sizes[NST_MAX_RANK];
    int64_t steps[NST_MAX_RANK];
    for (int k = 0; k < rank(c, x); k++) {
        starts[k] = k == axis ? start : num(c, 0);
        sizes[k] = k == axis ? size : dim(c, x, k);
        steps[k] = k == axis ? step : 1;
    }
    return nst_build_slice(c->b, x, starts, steps, sizes);
}

V step_slice(NstLower *c, V x, int axis, V t)
{
    V start[NST_MAX_RANK] = {{0}};
    D size[NST_MAX_RANK];
    for (int k = 0; k < rank(c, x); k++) size[k] = k == axis ? num(c, 1) : dim(c, x, k);
    if (is_num(c, dim(c, x, axis), 0)) return expand(c, number(c, dtype(c, x), 0), rank(c, x), size);
    start[axis] = t;
    return nst_build_slice_at(c->b, x, start, size);
}

V along(NstLower *c, V vector, int axis, int rank_wanted)
{
    D shape[NST_MAX_RANK];
    if (failed(c) || rank_wanted > NST_MAX_RANK) return (V){0};
    for (int k = 0; k < rank_wanted; k++) shape[k] = k == axis ? dim(c, vector, 0) : num(c, 1);
    return reshape(c, vector, rank_wanted, shape);
}

V weight(NstLower *c, const Onnx__TensorProto *tensor, const char *what)
{
    NstWeight w;
    if (failed(c)) return (V){0};
    NstStatus status = nst_weight_read(c->b->ctx, c->model, tensor, nst_format(c->arena, "%s: %s", c->label, what), &w);
    if (status != NST_OK) return c->b->status = status, (V){0};
    return nst_build_const_view(c->b, w.dtype, w.rank, w.shape, w.data, w.bytes);
}

V sparse_weight(NstLower *c, const Onnx__SparseTensorProto *sparse, const char *what)
{
    NstWeight w;
    if (failed(c)) return (V){0};
    NstStatus status =
        nst_weight_read_sparse(c->b->ctx, c->model, sparse, nst_format(c->arena, "%s: %s", c->label, what), &w);
    if (status != NST_OK) return c->b->status = status, (V){0};
    return nst_build_const_view(c->b, w.dtype, w.rank, w.shape, w.data, w.bytes);
}

/* --- regions --------------------------------------------------------------------------------------------------- */

void enter(NstLower *c, Inner *inner)
{
    inner->outer = c->b;
    inner->region = nst_build_region(c->b, &inner->build);
    c->b = &inner->build;
}

V param(NstLower *c, const char *name, const NstType *type)
{
    return nst_build_param(c->b, name, *type);
}

V loop_params(NstLower *c, const char *step, V *go)
{
    static const NstType count = {.kind = NST_TYPE_TENSOR, .dtype = NST_I64},
                         flag = {.kind = NST_TYPE_TENSOR, .dtype = NST_BOOL};
    V number = param(c, step, &count);
    *go = param(c, "go", &flag);
    return number;
}

NstRegionId leave(NstLower *c, Inner *inner, int n, const V *results)
{
    nst_build_results(&inner->build, (uint32_t)n, results, NULL);
    if (inner->outer->status == NST_OK) inner->outer->status = inner->build.status;
    c->b = inner->outer;
    return inner->region;
}

LOWER(map)
{
    int n = c->n_ins;
    out(c, 0, mapn(c, arg, n, c->ins));
}
