/* infer.c: entry of inference; rules of sources and pointwise primitives, and what all rules share. */
#include "ir/infer_impl.h"

#include <math.h>

bool nst_dtype_is_number(NstDtype dtype)
{
    return nst_dtype_is_int(dtype) || nst_dtype_is_float(dtype);
}

const NstType *nst_rule_in(const NstRule *rule, uint32_t k)
{
    return nst_value_type(rule->graph, rule->in[k]);
}

void nst_rule_out(const NstRule *rule, uint32_t k, NstDtype dtype, int rank, const NstDim *shape)
{
    rule->out[k] = nst_tensor_type(rule->graph->arena, dtype, rank, shape);
}

const char *nst_rule_dim(const NstRule *rule, NstDim dim)
{
    NstText text;
    nst_text_init(&text, rule->graph->arena);
    nst_dim_print(&text, rule->dims, dim, NULL, NULL);
    return nst_text_get(&text);
}

const char *nst_rule_type(const NstRule *rule, const NstType *type)
{
    NstText text;
    nst_text_init(&text, rule->graph->arena);
    nst_type_print(&text, rule->dims, type);
    return nst_text_get(&text);
}

NstStatus nst_rule_equal(const NstRule *rule, NstDim a, NstDim b, const char *what)
{
    NstTruth truth = nst_dim_compare(rule->dims, a, NST_DIM_EQ, b);
    if (truth == NST_TRUE) return NST_OK;
    NST_CHECK(rule->ctx, truth == NST_UNKNOWN, NST_E_SHAPE, "%s: %s: %s and %s, allowed: equal", rule->name, what,
              nst_rule_dim(rule, a), nst_rule_dim(rule, b));
    NstDimPair pair = {a, b};
    nst_vec_push(rule->graph->arena, &rule->infer->unproven, pair);
    return NST_OK;
}

NstStatus nst_rule_same_dtype(const NstRule *rule, uint32_t a, uint32_t b)
{
    NstDtype first = nst_rule_in(rule, a)->dtype, second = nst_rule_in(rule, b)->dtype;
    NST_CHECK(rule->ctx, first == second, NST_E_TYPE, "%s: input %u has type %s, input %u has %s, allowed: equal",
              rule->name, a, nst_dtype_info(first)->name, b, nst_dtype_info(second)->name);
    return NST_OK;
}

NstStatus nst_rule_same_rank(const NstRule *rule, uint32_t a, uint32_t b)
{
    int first = nst_rule_in(rule, a)->rank, second = nst_rule_in(rule, b)->rank;
    NST_CHECK(rule->ctx, first == second, NST_E_SHAPE, "%s: input %u has rank %d, input %u has %d, allowed: equal",
              rule->name, a, first, b, second);
    return NST_OK;
}

NstStatus nst_rule_i64_scalar(const NstRule *rule, uint32_t k, const char *what)
{
    const NstType *type = nst_rule_in(rule, k);
    NST_CHECK(rule->ctx, type->dtype == NST_I64 && type->rank == 0, NST_E_TYPE,
              "%s: %s (input %u) is %s, allowed: i64[]", rule->name, what, k, nst_rule_type(rule, type));
    return NST_OK;
}

NstStatus nst_rule_axis(const NstRule *rule, int axis, int rank)
{
    NST_CHECK(rule->ctx, axis >= 0 && axis < rank, NST_E_INVALID, "%s: axis %d, allowed: 0..%d", rule->name, axis,
              rank - 1);
    return NST_OK;
}

NstStatus nst_rule_rank(const NstRule *rule, int rank)
{
    NST_CHECK(rule->ctx, rank >= 0 && rank <= NST_MAX_RANK, NST_E_LIMIT, "%s: rank %d, allowed: at most %d", rule->name,
              rank, NST_MAX_RANK);
    return NST_OK;
}

NstStatus nst_rule_wanted(const NstRule *rule, uint32_t k)
{
    NST_CHECK(rule->ctx, rule->out[k].kind == NST_TYPE_TENSOR, NST_E_INVALID,
              "%s: no tensor type was given for output %u, which operands do not determine", rule->name, k);
    return nst_rule_rank(rule, rule->out[k].rank);
}

typedef struct FormulaCheck {
    const NstRule *rule;
    const NstDtype *type;
    uint32_t n;
    const char *what;
    NstStatus status;
} FormulaCheck;

static void check_formula_node(void *arg, NstExpr e, const NstExprNode *node)
{
    FormulaCheck *c = arg;
    (void)e;
    if (c->status != NST_OK) return;
    const NstRule *rule = c->rule;
    if (node->op == NST_OP_LOAD || node->op == NST_OP_LET)
        c->status = nst_fail(rule->ctx, NST_E_INVALID, "%s: %s reads a buffer or a let, allowed: operands", rule->name,
                             c->what);
    if (node->op != NST_OP_ARG) return;
    if (node->ref >= c->n)
        c->status = nst_fail(rule->ctx, NST_E_INVALID, "%s: %s uses operand %u, allowed: below %u", rule->name, c->what,
                             node->ref, c->n);
    else if (node->type != c->type[node->ref])
        c->status = nst_fail(rule->ctx, NST_E_TYPE, "%s: %s reads operand %u as %s, it is %s", rule->name, c->what,
                             node->ref, nst_dtype_info(node->type)->name, nst_dtype_info(c->type[node->ref])->name);
}

NstStatus nst_rule_formula(const NstRule *rule, NstExpr e, const NstDtype *type, uint32_t n, const char *what)
{
    NST_CHECK(rule->ctx, e.i != 0 && e.i < nst_exprs_count(rule->graph->exprs) + 1, NST_E_INVALID, "%s: no %s",
              rule->name, what);
    FormulaCheck check = {rule, type, n, what, NST_OK};
    nst_expr_visit(rule->graph->exprs, e, check_formula_node, &check);
    return check.status;
}

NstExpr nst_combine_identity(NstExprs *exprs, NstExpr merge, NstDtype type)
{
    const NstDtypeInfo *info = nst_dtype_info(type);
    const NstExprNode *node = nst_expr(exprs, merge);
    if (node->arg[0].i == 0 || node->arg[1].i == 0 || node->arg[2].i != 0) return (NstExpr){0};
    const NstExprNode *a = nst_expr(exprs, node->arg[0]), *b = nst_expr(exprs, node->arg[1]);
    bool plain = a->op == NST_OP_ARG && b->op == NST_OP_ARG && a->ref + b->ref == 1 && info->compute == type;
    if (!plain || (info->klass != NST_CLASS_BOOL && !nst_dtype_is_number(type))) return (NstExpr){0};
    bool is_float = info->klass == NST_CLASS_FLOAT, is_signed = info->klass == NST_CLASS_SINT;
    int64_t top = is_signed ? INT64_MAX >> (64 - info->bits) : -1; /* of unsigned types: all ones */
    switch (node->op) {
    case NST_OP_ADD:
    case NST_OP_OR:
    case NST_OP_XOR: return is_float ? nst_expr_float(exprs, type, 0.0) : nst_expr_int(exprs, type, 0);
    case NST_OP_MUL: return is_float ? nst_expr_float(exprs, type, 1.0) : nst_expr_int(exprs, type, 1);
    case NST_OP_MAX:
        if (is_float) return nst_expr_float(exprs, type, -INFINITY);
        return nst_expr_int(exprs, type, is_signed ? -top - 1 : 0);
    case NST_OP_MIN: return is_float ? nst_expr_float(exprs, type, INFINITY) : nst_expr_int(exprs, type, top);
    case NST_OP_AND: return nst_expr_int(exprs, type, info->klass == NST_CLASS_BOOL ? 1 : -1);
    default: return (NstExpr){0};
    }
}

/* --- sources --------------------------------------------------------------------------------------------------- */

/* Handles of a constant are those of the graph's table. */
static NstStatus check_handles(const NstRule *rule, const NstConst *constant)
{
    uint64_t n = nst_strings_count(rule->graph->strings);
    size_t count = constant->data ? constant->bytes / sizeof n : 1;
    for (size_t k = 0; k < count; k++) {
        uint64_t handle = constant->splat.bits;
        if (constant->data) memcpy(&handle, (const char *)constant->data + k * sizeof handle, sizeof handle);
        NST_CHECK(rule->ctx, handle < n, NST_E_INVALID, "const: element %zu is string %llu, the graph has %llu", k,
                  (unsigned long long)handle, (unsigned long long)n);
    }
    return NST_OK;
}

static NstStatus infer_const(NstRule *rule)
{
    NST_TRY(nst_rule_wanted(rule, 0));
    const NstType *type = &rule->out[0];
    const NstConst *constant = &rule->attr->constant;
    int64_t bytes = nst_dtype_info(type->dtype)->bytes;
    NST_CHECK(rule->ctx, type->dtype != NST_DTYPE_NONE, NST_E_TYPE, "const: no element type");
    if (!constant->data) return type->dtype == NST_STR ? check_handles(rule, constant) : NST_OK;
    for (int k = 0; k < type->rank; k++) {
        int64_t extent;
        NST_CHECK(rule->ctx, nst_dim_is_const(rule->dims, type->shape[k], &extent) && extent >= 0, NST_E_SHAPE,
                  "const: extent %s of axis %d, allowed with data: constants >= 0", nst_rule_dim(rule, type->shape[k]),
                  k);
        NST_CHECK(rule->ctx, !__builtin_mul_overflow(bytes, extent, &bytes) && bytes <= NST_MAX_TENSOR_BYTES,
                  NST_E_LIMIT, "const: %s, allowed: at most %lld bytes", nst_rule_type(rule, type),
                  (long long)NST_MAX_TENSOR_BYTES);
    }
    NST_CHECK(rule->ctx, (uint64_t)bytes == constant->bytes, NST_E_SHAPE, "const: %zu bytes of data, %s takes %lld",
              constant->bytes, nst_rule_type(rule, type), (long long)bytes);
    return type->dtype == NST_STR ? check_handles(rule, constant) : NST_OK;
}

static NstStatus infer_random_bits(NstRule *rule)
{
    const NstType *key = nst_rule_in(rule, 0);
    NST_TRY(nst_rule_wanted(rule, 0));
    NST_CHECK(rule->ctx, key->dtype == NST_I64 && key->rank == 1, NST_E_TYPE, "random_bits: key is %s, allowed: i64[2]",
              nst_rule_type(rule, key));
    NST_TRY(nst_rule_equal(rule, key->shape[0], nst_dim_const(rule->dims, 2), "key's size and 2"));
    nst_rule_out(rule, 0, NST_U32, rule->out[0].rank, rule->out[0].shape);
    return NST_OK;
}

/* --- pointwise ------------------------------------------------------------------------------------------------- */

/* The extent that a and b broadcast to.  Where nothing can be proven: b if a is 1 at run time, else a (0 included). */
static NstStatus broadcast(const NstRule *rule, uint32_t input, int axis, NstDim a, NstDim b, NstDim *out)
{
    NstDims *dims = rule->dims;
    NstDim one = nst_dim_const(dims, 1);
    bool b_is_one = nst_dim_same(b, one);
    *out = a;
    if (b_is_one || nst_dim_compare(dims, a, NST_DIM_EQ, b) == NST_TRUE) return NST_OK;
    *out = b;
    if (nst_dim_same(a, one)) return NST_OK;
    NstTruth a_one = nst_dim_compare(dims, a, NST_DIM_EQ, one), b_one = nst_dim_compare(dims, b, NST_DIM_EQ, one);
    NST_CHECK(rule->ctx,
              a_one != NST_FALSE || b_one != NST_FALSE || nst_dim_compare(dims, a, NST_DIM_EQ, b) != NST_FALSE,
              NST_E_SHAPE, "%s: input %u has extent %s at axis %d, the others %s, allowed: equal or 1", rule->name,
              input, nst_rule_dim(rule, b), axis, nst_rule_dim(rule, a));
    if (b_one == NST_FALSE) return NST_OK; /* a is b or 1 */
    *out = a;
    if (a_one == NST_FALSE) return NST_OK;
    NstDim least = nst_dim_min(dims, nst_dim_min(dims, a, b), one);
    *out = nst_dim_mul(dims, nst_dim_max(dims, a, b), least);
    return NST_OK;
}

static NstStatus infer_map(NstRule *rule)
{
    NstDim shape[NST_MAX_RANK];
    int rank = rule->n_in ? nst_rule_in(rule, 0)->rank : 0;
    NstDtype *types = NST_NEW_ARRAY(rule->graph->arena, NstDtype, rule->n_in);
    for (uint32_t k = 0; k < rule->n_in; k++) {
        const NstType *type = nst_rule_in(rule, k);
        types[k] = type->dtype;
        if (k > 0) NST_TRY(nst_rule_same_rank(rule, 0, k));
        for (int axis = 0; axis < rank; axis++) {
            if (k == 0)
                shape[axis] = type->shape[axis];
            else
                NST_TRY(broadcast(rule, k, axis, shape[axis], type->shape[axis], &shape[axis]));
        }
    }
    NST_TRY(nst_rule_formula(rule, rule->attr->map.formula, types, rule->n_in, "formula"));
    nst_rule_out(rule, 0, nst_expr(rule->graph->exprs, rule->attr->map.formula)->type, rank, shape);
    return NST_OK;
}

static NstStatus infer_convert(NstRule *rule)
{
    const NstType *x = nst_rule_in(rule, 0);
    NstDtype to = rule->attr->convert.to;
    bool from_ok = nst_dtype_is_number(x->dtype) || x->dtype == NST_BOOL;
    NST_CHECK(rule->ctx, from_ok && (nst_dtype_is_number(to) || to == NST_BOOL), NST_E_TYPE,
              "convert: %s to %s, allowed: numbers and b1", nst_dtype_info(x->dtype)->name, nst_dtype_info(to)->name);
    nst_rule_out(rule, 0, to, x->rank, x->shape);
    return NST_OK;
}

static NstStatus infer_bitcast(NstRule *rule)
{
    const NstType *x = nst_rule_in(rule, 0);
    const NstDtypeInfo *from = nst_dtype_info(x->dtype), *to = nst_dtype_info(rule->attr->convert.to);
    bool is_handle = x->dtype == NST_STR && rule->attr->convert.to == NST_I64; /* what strings are compared by */
    bool plain = is_handle || (from->klass != NST_CLASS_STRING && to->klass != NST_CLASS_STRING);
    plain = plain && from->klass != NST_CLASS_COMPLEX && to->klass != NST_CLASS_COMPLEX &&
            from->klass != NST_CLASS_BOOL && to->klass != NST_CLASS_BOOL;
    NST_CHECK(rule->ctx, is_handle || (plain && from->bits == to->bits && from->bits > 0), NST_E_TYPE,
              "bitcast: %s to %s, allowed: numbers of one width, strings as i64", from->name, to->name);
    nst_rule_out(rule, 0, rule->attr->convert.to, x->rank, x->shape);
    return NST_OK;
}

static NstStatus infer_assert(NstRule *rule)
{
    NST_CHECK(rule->ctx, nst_rule_in(rule, 0)->dtype == NST_BOOL, NST_E_TYPE, "assert: condition is %s, allowed: b1",
              nst_rule_type(rule, nst_rule_in(rule, 0)));
    return NST_OK;
}

/* --- entry ----------------------------------------------------------------------------------------------------- */

/* Number of inputs and outputs; every input present and a tensor, where the primitive has no other say. */
static NstStatus check_operands(const NstRule *rule)
{
    const NstPrimInfo *info = nst_prim_info(rule->prim);
    NST_CHECK(rule->ctx,
              rule->n_in >= (uint32_t)info->min_in && (info->max_in < 0 || rule->n_in <= (uint32_t)info->max_in),
              NST_E_INVALID, "%s: %u inputs, allowed: %d..%d", info->name, rule->n_in, info->min_in, info->max_in);
    NST_CHECK(rule->ctx,
              rule->n_out >= (uint32_t)info->min_out && (info->max_out < 0 || rule->n_out <= (uint32_t)info->max_out),
              NST_E_INVALID, "%s: %u outputs, allowed: %d..%d", info->name, rule->n_out, info->min_out, info->max_out);
    bool any_kind = rule->prim == NST_PRIM_HOST || rule->prim == NST_PRIM_CALL || rule->prim == NST_PRIM_LOOP;
    for (uint32_t k = 0; k < rule->n_in; k++) {
        bool optional = rule->prim == NST_PRIM_HOST || (rule->prim == NST_PRIM_LOOP && k < 2);
        NST_CHECK(rule->ctx, rule->in[k].i < rule->graph->values.n, NST_E_INVALID, "%s: input %u does not exist",
                  info->name, k);
        NST_CHECK(rule->ctx, rule->in[k].i != 0 || optional, NST_E_INVALID, "%s: input %u is absent", info->name, k);
        if (rule->in[k].i == 0 || any_kind) continue;
        NST_CHECK(rule->ctx, nst_rule_in(rule, k)->kind == NST_TYPE_TENSOR, NST_E_TYPE,
                  "%s: input %u is %s, allowed: a tensor", info->name, k, nst_rule_type(rule, nst_rule_in(rule, k)));
    }
    return NST_OK;
}

static NstStatus apply_rule(NstRule *rule)
{
    switch (rule->prim) {
    case NST_PRIM_PARAM:
        NST_CHECK(rule->ctx, rule->out[0].kind != NST_TYPE_NONE, NST_E_INVALID, "param: no type");
        return rule->out[0].kind == NST_TYPE_TENSOR ? nst_rule_wanted(rule, 0) : NST_OK;
    case NST_PRIM_CONST: return infer_const(rule);
    case NST_PRIM_IOTA: nst_rule_out(rule, 0, NST_I64, 1, &rule->attr->iota.extent); return NST_OK;
    case NST_PRIM_RANDOM_BITS: return infer_random_bits(rule);
    case NST_PRIM_DIM_VALUE: nst_rule_out(rule, 0, NST_I64, 0, NULL); return NST_OK;
    case NST_PRIM_MAP: return infer_map(rule);
    case NST_PRIM_CONVERT: return infer_convert(rule);
    case NST_PRIM_BITCAST: return infer_bitcast(rule);
    case NST_PRIM_RESHAPE: return nst_infer_reshape(rule);
    case NST_PRIM_PERMUTE: return nst_infer_permute(rule);
    case NST_PRIM_EXPAND: return nst_infer_expand(rule);
    case NST_PRIM_SLICE: return nst_infer_slice(rule);
    case NST_PRIM_PAD: return nst_infer_pad(rule);
    case NST_PRIM_CONCAT: return nst_infer_concat(rule);
    case NST_PRIM_WINDOW: return nst_infer_window(rule);
    case NST_PRIM_UPDATE_SLICE: return nst_infer_update_slice(rule);
    case NST_PRIM_REDUCE: return nst_infer_reduce(rule);
    case NST_PRIM_PREFIX: return nst_infer_prefix(rule);
    case NST_PRIM_CONTRACT: return nst_infer_contract(rule);
    case NST_PRIM_SORT: return nst_infer_sort(rule);
    case NST_PRIM_GATHER: return nst_infer_gather(rule);
    case NST_PRIM_SCATTER: return nst_infer_scatter(rule);
    case NST_PRIM_COMPACT: return nst_infer_compact(rule);
    case NST_PRIM_IF: return nst_infer_if(rule);
    case NST_PRIM_LOOP: return nst_infer_loop(rule);
    case NST_PRIM_CALL: return nst_infer_call(rule);
    case NST_PRIM_HOST:
        NST_CHECK(rule->ctx, rule->attr->host.name, NST_E_INVALID, "host: no function name");
        for (uint32_t k = 0; k < rule->n_out; k++)
            NST_CHECK(rule->ctx, rule->out[k].kind != NST_TYPE_NONE, NST_E_INVALID, "host: no type for output %u", k);
        return NST_OK;
    case NST_PRIM_ASSERT: return infer_assert(rule);
    case NST_PRIM_COUNT: break;
    }
    NST_FAIL(rule->ctx, NST_E_INVALID, "no primitive has number %d", (int)rule->prim);
}

/* Extents that operands have were checked with them, those of regions in their bodies. */
static bool makes_extent(const NstRule *rule, NstDim extent)
{
    if (rule->prim == NST_PRIM_PARAM || rule->prim == NST_PRIM_IF || rule->prim == NST_PRIM_LOOP ||
        rule->prim == NST_PRIM_CALL)
        return false;
    for (uint32_t k = 0; k < rule->n_in; k++) {
        const NstType *t = rule->in[k].i ? nst_rule_in(rule, k) : NULL;
        for (int axis = 0; t && t->kind == NST_TYPE_TENSOR && axis < t->rank; axis++)
            if (nst_dim_same(t->shape[axis], extent)) return false;
    }
    return true;
}

NstStatus nst_infer(NstInfer *infer, NstPrim prim, const NstAttrs *attr, const NstVal *in, uint32_t n_in, NstType *out,
                    uint32_t n_out)
{
    NstRule rule = {infer, infer->ctx, infer->graph, infer->graph->dims, prim, nst_prim_info(prim)->name, attr, in,
                    n_in,  n_out,      out};
    NST_TRY(check_operands(&rule));
    NST_TRY(apply_rule(&rule));
    for (uint32_t k = 0; k < n_out; k++) {
        if (out[k].kind == NST_TYPE_TENSOR) NST_TRY(nst_rule_rank(&rule, out[k].rank));
        for (int axis = 0; out[k].kind == NST_TYPE_TENSOR && axis < out[k].rank; axis++) {
            NstTruth bad = nst_dim_compare(rule.dims, out[k].shape[axis], NST_DIM_LT, nst_dim_const(rule.dims, 0));
            NST_CHECK(rule.ctx, bad != NST_TRUE, NST_E_SHAPE, "%s: output %u would be %s, extents are >= 0", rule.name,
                      k, nst_rule_type(&rule, &out[k]));
            if (bad == NST_UNKNOWN && makes_extent(&rule, out[k].shape[axis]))
                nst_vec_push(infer->graph->arena, &infer->unsure, out[k].shape[axis]);
        }
    }
    return NST_OK;
}
