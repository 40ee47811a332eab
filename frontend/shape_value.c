/* shape_value.c: evaluates primitives over dims, element by element, memoised by value.
 *
 * Depth is bounded: a value's operands were asked for when they were made only if they are small, so the recursion follows
 * chains of small integer tensors, at most MAX_DEPTH of them.  A value on which it gives up is no vector of dims. */
#include "frontend/shape_value.h"

#include <string.h>

#define MAX_DEPTH 200

static NstShapeValue none(void)
{
    return (NstShapeValue){-1, NULL};
}

void nst_shape_values_init(NstShapeValues *values, NstArena *arena, const NstGraph *graph)
{
    *values = (NstShapeValues){.graph = graph, .arena = arena};
    nst_map_init(&values->known, arena);
}

void nst_shape_value_set(NstShapeValues *values, NstVal value, NstShapeValue is)
{
    nst_map_put(&values->known, value.i, values->list.n);
    nst_vec_push(values->arena, &values->list, is);
}

static NstShapeValue value_of(NstShapeValues *values, NstVal value, int depth);

/* Elements of a type with constant extents, -1 if too many or unknown. */
static int count_of(NstShapeValues *values, const NstType *type)
{
    int64_t n = 1, extent;
    if (type->kind != NST_TYPE_TENSOR) return -1;
    for (int k = 0; k < type->rank; k++) {
        if (!nst_dim_is_const(values->graph->dims, type->shape[k], &extent) || extent < 0) return -1;
        if (extent > NST_SHAPE_VALUE_MAX || n * extent > NST_SHAPE_VALUE_MAX) return -1;
        n *= extent;
    }
    return (int)n;
}

/* --- formulas -------------------------------------------------------------------------------------------------- */

typedef struct Formula {
    NstShapeValues *values;
    const NstDim *arg;
} Formula;

static NstDim truth_dim(NstDims *dims, NstTruth truth)
{
    return truth == NST_UNKNOWN ? (NstDim){0} : nst_dim_const(dims, truth == NST_TRUE);
}

/* min and max by proof where there is one, so that the result stays simple. */
static NstDim choose(NstDims *dims, bool least, NstDim a, NstDim b)
{
    NstTruth le = nst_dim_compare(dims, a, NST_DIM_LE, b);
    if (le != NST_UNKNOWN) return (le == NST_TRUE) == least ? a : b;
    return least ? nst_dim_min(dims, a, b) : nst_dim_max(dims, a, b);
}

static bool is_nonneg(NstDims *dims, NstDim a)
{
    return nst_dim_compare(dims, a, NST_DIM_GE, nst_dim_const(dims, 0)) == NST_TRUE;
}

/* Logic of known truth values. */
static NstDim logic(NstDims *dims, NstScalarOp op, NstDim a, NstDim b)
{
    int64_t x, y;
    bool are_flags = nst_dim_is_const(dims, a, &x) && nst_dim_is_const(dims, b, &y) && (x & ~1) == 0 && (y & ~1) == 0;
    if (!are_flags) return (NstDim){0};
    return nst_dim_const(dims, op == NST_OP_AND ? x & y : op == NST_OP_OR ? x | y : x ^ y);
}

static NstDim apply_binary(NstDims *dims, NstScalarOp op, NstDim a, NstDim b)
{
    int64_t divisor;
    bool by_positive = nst_dim_is_const(dims, b, &divisor) && divisor > 0;
    switch (op) {
    case NST_OP_ADD: return nst_dim_add(dims, a, b);
    case NST_OP_SUB: return nst_dim_sub(dims, a, b);
    case NST_OP_MUL: return nst_dim_mul(dims, a, b);
    case NST_OP_DIV: return by_positive && is_nonneg(dims, a) ? nst_dim_floordiv(dims, a, b) : (NstDim){0};
    case NST_OP_FLOORDIV: return by_positive ? nst_dim_floordiv(dims, a, b) : (NstDim){0};
    case NST_OP_MOD: return by_positive ? nst_dim_mod(dims, a, b) : (NstDim){0};
    case NST_OP_REM: return by_positive && is_nonneg(dims, a) ? nst_dim_mod(dims, a, b) : (NstDim){0};
    case NST_OP_MIN: return choose(dims, true, a, b);
    case NST_OP_MAX: return choose(dims, false, a, b);
    case NST_OP_AND:
    case NST_OP_OR:
    case NST_OP_XOR: return logic(dims, op, a, b);
    case NST_OP_EQ: return truth_dim(dims, nst_dim_compare(dims, a, NST_DIM_EQ, b));
    case NST_OP_NE: return truth_dim(dims, nst_dim_compare(dims, a, NST_DIM_NE, b));
    case NST_OP_LT: return truth_dim(dims, nst_dim_compare(dims, a, NST_DIM_LT, b));
    case NST_OP_LE: return truth_dim(dims, nst_dim_compare(dims, a, NST_DIM_LE, b));
    case NST_OP_GT: return truth_dim(dims, nst_dim_compare(dims, a, NST_DIM_GT, b));
    case NST_OP_GE: return truth_dim(dims, nst_dim_compare(dims, a, NST_DIM_GE, b));
    default: return (NstDim){0};
    }
}

static bool holds_sizes(NstDtype type)
{
    return type == NST_I64 || type == NST_I32;
}

static NstDim eval_expr(const Formula *f, NstExpr e, int depth)
{
    const NstExprNode *node = nst_expr(f->values->graph->exprs, e);
    NstDims *dims = f->values->graph->dims;
    int64_t chosen;
    bool is_bool = node->type == NST_BOOL;
    if (depth > 32 || (!holds_sizes(node->type) && !is_bool)) return (NstDim){0};
    if (node->op == NST_OP_CONST) return nst_dim_const(dims, node->imm.i);
    if (node->op == NST_OP_ARG) return f->arg[node->ref];
    if (node->op == NST_OP_INDEX) return node->index[0];
    int arity = node->op > NST_OP_LET ? nst_scalar_info(node->op)->arity : 0;
    if (arity < 1) return (NstDim){0};
    NstDim a = eval_expr(f, node->arg[0], depth + 1);
    if (a.i == 0) return a;
    if (node->op == NST_OP_CONVERT && !is_bool) return a;
    if (node->op == NST_OP_NOT)
        return is_bool && nst_dim_is_const(dims, a, &chosen) ? nst_dim_const(dims, !chosen) : (NstDim){0};
    if (node->op == NST_OP_NEG) return nst_dim_mul_const(dims, a, -1);
    if (node->op == NST_OP_ABS) return is_nonneg(dims, a) ? a : (NstDim){0};
    if (node->op == NST_OP_SELECT)
        return nst_dim_is_const(dims, a, &chosen) ? eval_expr(f, node->arg[chosen ? 1 : 2], depth + 1) : (NstDim){0};
    NstDim b = arity == 2 ? eval_expr(f, node->arg[1], depth + 1) : (NstDim){0};
    return b.i ? apply_binary(dims, node->op, a, b) : b;
}

/* Position in an operand (extents equal or 1, ranks equal) of element `at` of the result. */
static int broadcast_position(NstShapeValues *values, const NstType *to, const NstType *from, int at)
{
    int position = 0, stride = 1;
    for (int k = to->rank - 1; k >= 0; k--) {
        int64_t extent = 1, own = 1;
        (void)nst_dim_is_const(values->graph->dims, to->shape[k], &extent);
        (void)nst_dim_is_const(values->graph->dims, from->shape[k], &own);
        if (own != 1) position += (int)(at % extent) * stride;
        stride *= (int)own;
        at /= (int)extent;
    }
    return position;
}

static NstShapeValue eval_map(NstShapeValues *values, const NstNode *node, int n, int depth)
{
    NstShapeValue in[8];
    NstDim arg[8], *out = NST_NEW_ARRAY(values->arena, NstDim, n);
    const NstType *type = nst_value_type(values->graph, node->out[0]);
    if (node->n_in > 8) return none();
    for (uint32_t j = 0; j < node->n_in; j++) {
        in[j] = value_of(values, node->in[j], depth + 1);
        if (in[j].n < 0) return none();
    }
    for (int k = 0; k < n; k++) {
        for (uint32_t j = 0; j < node->n_in; j++)
            arg[j] = in[j].dim[broadcast_position(values, type, nst_value_type(values->graph, node->in[j]), k)];
        out[k] = eval_expr(&(Formula){values, arg}, node->attr.map.formula, 0);
        if (out[k].i == 0) return none();
    }
    return (NstShapeValue){n, out};
}

/* --- other primitives ------------------------------------------------------------------------------------------ */

static NstShapeValue eval_const(NstShapeValues *values, const NstNode *node, const NstType *type, int n)
{
    const NstConst *c = &node->attr.constant;
    NstDim *out = NST_NEW_ARRAY(values->arena, NstDim, n);
    size_t size = (size_t)nst_dtype_info(type->dtype)->bytes;
    for (int k = 0; k < n; k++) {
        NstScalar v = c->data ? nst_scalar_load(type->dtype, (const char *)c->data + (size_t)k * size) : c->splat;
        out[k] = nst_dim_const(values->graph->dims, v.i);
    }
    return (NstShapeValue){n, out};
}

/* Row-major strides of a type whose extents are known (count_of said so). */
static void strides_of(const NstShapeValues *values, const NstType *type, int64_t *stride)
{
    int64_t n = 1, extent = 1;
    for (int k = type->rank - 1; k >= 0; k--) {
        (void)nst_dim_is_const(values->graph->dims, type->shape[k], &extent);
        stride[k] = n;
        n *= extent;
    }
}

/* The index of element `at`. */
static void index_of(const NstType *type, const int64_t *stride, int64_t at, int64_t *index)
{
    for (int k = 0; k < type->rank; k++) {
        index[k] = at / stride[k];
        at %= stride[k];
    }
}

static NstShapeValue eval_concat(NstShapeValues *values, const NstNode *node, const NstType *type, int n, int depth)
{
    NstDim *out = NST_NEW_ARRAY(values->arena, NstDim, n);
    int64_t to[NST_MAX_RANK], from[NST_MAX_RANK], index[NST_MAX_RANK], begin = 0, extent;
    int axis = node->attr.concat.axis;
    strides_of(values, type, to);
    for (uint32_t j = 0; j < node->n_in; j++) {
        const NstType *part = nst_value_type(values->graph, node->in[j]);
        NstShapeValue in = value_of(values, node->in[j], depth + 1);
        if (in.n < 0 || !nst_dim_is_const(values->graph->dims, part->shape[axis], &extent)) return none();
        strides_of(values, part, from);
        for (int k = 0; k < in.n; k++) {
            int64_t at = begin * to[axis];
            index_of(part, from, k, index);
            for (int d = 0; d < type->rank; d++) at += index[d] * to[d];
            if (at >= n) return none();
            out[at] = in.dim[k];
        }
        begin += extent;
    }
    return (NstShapeValue){n, out};
}

/* Slices with known starts; permutations. */
static NstShapeValue eval_moved(NstShapeValues *values, const NstNode *node, const NstType *type, int n, int depth)
{
    const NstType *source = nst_value_type(values->graph, node->in[0]);
    NstShapeValue in = value_of(values, node->in[0], depth + 1);
    NstDim *out = NST_NEW_ARRAY(values->arena, NstDim, n);
    int64_t to[NST_MAX_RANK], from[NST_MAX_RANK], step[NST_MAX_RANK], index[NST_MAX_RANK], start = 0, first = 0;
    if (in.n < 0 || node->n_in > 1) return none();
    strides_of(values, type, to);
    strides_of(values, source, from);
    for (int k = 0; k < type->rank; k++) {
        if (node->prim == NST_PRIM_PERMUTE) {
            step[k] = from[node->attr.permute.order[k]];
            continue;
        }
        const NstAttrs *attr = &node->attr;
        if (attr->slice.start && !nst_dim_is_const(values->graph->dims, attr->slice.start[k], &start)) return none();
        first += attr->slice.start ? start * from[k] : 0;
        step[k] = from[k] * (attr->slice.step ? attr->slice.step[k] : 1);
    }
    for (int k = 0; k < n; k++) {
        int64_t at = first;
        index_of(type, to, k, index);
        for (int d = 0; d < type->rank; d++) at += index[d] * step[d];
        if (at < 0 || at >= in.n) return none();
        out[k] = in.dim[at];
    }
    return (NstShapeValue){n, out};
}

/* Elements at known indices along an axis. */
static NstShapeValue eval_gather(NstShapeValues *values, const NstNode *node, const NstType *type, int n, int depth)
{
    NstShapeValue in = value_of(values, node->in[0], depth + 1), pick = value_of(values, node->in[1], depth + 1);
    const NstType *source = nst_value_type(values->graph, node->in[0]);
    NstDim *out = NST_NEW_ARRAY(values->arena, NstDim, n);
    int axis = node->attr.gather.axis, picked = nst_value_type(values->graph, node->in[1])->rank;
    int64_t to[NST_MAX_RANK], from[NST_MAX_RANK], index[NST_MAX_RANK], chosen, extent;
    if (in.n < 0 || pick.n < 0 || node->attr.gather.batch) return none();
    if (!nst_dim_is_const(values->graph->dims, source->shape[axis], &extent)) return none();
    strides_of(values, type, to);
    strides_of(values, source, from);
    for (int k = 0; k < n; k++) {
        int64_t at = 0, place = 0;
        index_of(type, to, k, index);
        for (int d = 0; d < picked; d++) place += index[axis + d] * (to[axis + d] / to[axis + picked - 1]);
        if (place >= pick.n || !nst_dim_is_const(values->graph->dims, pick.dim[place], &chosen)) return none();
        if (chosen < 0 || chosen >= extent) return none();
        for (int d = 0; d < source->rank; d++)
            at += from[d] * (d < axis ? index[d] : d == axis ? chosen : index[d - 1 + picked]);
        if (at >= in.n) return none();
        out[k] = in.dim[at];
    }
    return (NstShapeValue){n, out};
}

static NstShapeValue eval_expand(NstShapeValues *values, const NstNode *node, int n, int depth)
{
    NstShapeValue in = value_of(values, node->in[0], depth + 1);
    NstDim *out = NST_NEW_ARRAY(values->arena, NstDim, n);
    const NstType *to = nst_value_type(values->graph, node->out[0]);
    if (in.n < 0) return none();
    for (int k = 0; k < n; k++)
        out[k] = in.dim[broadcast_position(values, to, nst_value_type(values->graph, node->in[0]), k)];
    return (NstShapeValue){n, out};
}

/* All elements reduced to one (the product or sum of sizes). */
static NstShapeValue eval_reduce(NstShapeValues *values, const NstNode *node, int n, int depth)
{
    NstShapeValue in = value_of(values, node->in[0], depth + 1);
    const NstCombine *combine = &node->attr.reduce.combine;
    NstDim *out = NST_NEW_ARRAY(values->arena, NstDim, 1), arg[2];
    if (in.n < 0 || n != 1 || node->n_in != 1 || combine->n_states != 1) return none();
    out[0] = eval_expr(&(Formula){values, NULL}, combine->init[0], 0);
    for (int k = 0; k < in.n && out[0].i; k++) {
        arg[0] = out[0];
        arg[1] = in.dim[k];
        out[0] = eval_expr(&(Formula){values, arg}, combine->step[0], 0);
    }
    return out[0].i ? (NstShapeValue){1, out} : none();
}

static NstShapeValue eval_node(NstShapeValues *values, const NstNode *node, const NstType *type, int n, int depth)
{
    NstDim *out;
    switch (node->prim) {
    case NST_PRIM_CONST: return eval_const(values, node, type, n);
    case NST_PRIM_DIM_VALUE:
        out = NST_NEW_ARRAY(values->arena, NstDim, 1);
        out[0] = node->attr.dim_value.dim;
        return (NstShapeValue){1, out};
    case NST_PRIM_IOTA:
        out = NST_NEW_ARRAY(values->arena, NstDim, n);
        for (int k = 0; k < n; k++) out[k] = nst_dim_const(values->graph->dims, k);
        return (NstShapeValue){n, out};
    case NST_PRIM_RESHAPE: return value_of(values, node->in[0], depth + 1);
    case NST_PRIM_CONVERT:
        if (type->dtype == NST_BOOL || nst_dtype_is_float(nst_value_type(values->graph, node->in[0])->dtype))
            return none();
        return value_of(values, node->in[0], depth + 1);
    case NST_PRIM_MAP: return eval_map(values, node, n, depth);
    case NST_PRIM_CONCAT: return eval_concat(values, node, type, n, depth);
    case NST_PRIM_SLICE:
    case NST_PRIM_PERMUTE: return eval_moved(values, node, type, n, depth);
    case NST_PRIM_GATHER: return eval_gather(values, node, type, n, depth);
    case NST_PRIM_EXPAND: return eval_expand(values, node, n, depth);
    case NST_PRIM_REDUCE: return eval_reduce(values, node, n, depth);
    default: return none();
    }
}

static NstShapeValue value_of(NstShapeValues *values, NstVal value, int depth)
{
    uint32_t at = nst_map_get(&values->known, value.i, UINT32_MAX);
    if (at != UINT32_MAX) return values->list.at[at];
    const NstType *type = nst_value_type(values->graph, value);
    if (!holds_sizes(type->dtype) && type->dtype != NST_BOOL) return none();
    int n = count_of(values, type);
    if (n < 0 || depth > MAX_DEPTH) return none();
    NstShapeValue is = eval_node(values, nst_value_node(values->graph, value), type, n, depth);
    nst_shape_value_set(values, value, is);
    return is;
}

NstShapeValue nst_shape_value(NstShapeValues *values, NstVal value)
{
    return value.i == 0 ? none() : value_of(values, value, 0);
}
