/* eval_graph_formula.c: formulas as lists, tensors, and the pointwise primitives of the graph interpreter. */
#include "ir/eval_graph.h"

/* --- tensors --------------------------------------------------------------------------------------------------- */

int64_t nst_eval_count(const NstTensorValue *t)
{
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++) n *= t->shape[k];
    return n;
}

NstStatus nst_eval_new(NstEval *eval, NstDtype dtype, int rank, const int64_t *shape, NstEvalValue *out)
{
    int64_t bytes = nst_dtype_info(dtype)->bytes;
    NST_CHECK(eval->ctx, rank <= NST_MAX_RANK, NST_E_LIMIT, "rank %d, allowed: at most %d", rank, NST_MAX_RANK);
    *out = (NstEvalValue){.t = {.dtype = dtype, .rank = rank}, .set = true};
    bool over = false, empty = false;
    for (int k = 0; k < rank; k++) {
        NST_CHECK(eval->ctx, shape[k] >= 0, NST_E_SHAPE, "extent %lld of axis %d, allowed: >= 0", (long long)shape[k],
                  k);
        out->t.shape[k] = shape[k];
        empty = empty || shape[k] == 0;
        over = over || __builtin_mul_overflow(bytes, shape[k] ? shape[k] : 1, &bytes) || bytes > NST_MAX_TENSOR_BYTES;
    }
    NST_CHECK(eval->ctx, !over || empty, NST_E_LIMIT, "a tensor of more than %lld bytes",
              (long long)NST_MAX_TENSOR_BYTES);
    out->t.bytes = empty ? 0 : (size_t)bytes;
    out->t.data = nst_alloc_aligned(eval->arena, out->t.bytes, 64);
    return NST_OK;
}

int64_t nst_eval_position(const NstTensorValue *t, const int64_t *index)
{
    int64_t position = 0;
    for (int k = 0; k < t->rank; k++) position = position * t->shape[k] + index[k];
    return position;
}

bool nst_eval_next(int rank, const int64_t *shape, int64_t *index)
{
    for (int k = rank - 1; k >= 0; k--) {
        if (++index[k] < shape[k]) return true;
        index[k] = 0;
    }
    return false;
}

NstScalar nst_eval_get(const NstTensorValue *t, int64_t position)
{
    return nst_scalar_load(t->dtype, (const char *)t->data + position * nst_dtype_info(t->dtype)->bytes);
}

void nst_eval_put(NstTensorValue *t, int64_t position, NstScalar value)
{
    nst_scalar_store(t->dtype, (char *)t->data + position * nst_dtype_info(t->dtype)->bytes, value);
}

NstStatus nst_eval_outside(NstEval *eval, NstStatus code, int axis, int64_t at, int64_t n)
{
    NST_FAIL(eval->ctx, code, "axis %d is read at index %lld, allowed: 0 to below %lld", axis, (long long)at,
             (long long)n);
}

/* --- formulas -------------------------------------------------------------------------------------------------- */

static void list_node(void *arg, NstExpr e, const NstExprNode *node)
{
    NstEvalFormula *f = arg;
    if (f->n == f->cap) {
        uint32_t cap = f->cap ? 2 * f->cap : 16;
        NstExpr *list = NST_NEW_ARRAY(f->arena, NstExpr, cap);
        if (f->n) memcpy(list, f->node, f->n * sizeof *list);
        f->node = list;
        f->cap = cap;
    }
    (void)node;
    nst_map_put(&f->where, e.i, f->n);
    f->node[f->n++] = e;
}

NstStatus nst_eval_formula_init(NstEval *eval, NstExpr e, NstEvalFormula *f)
{
    *f = (NstEvalFormula){.exprs = eval->graph->exprs, .arena = eval->arena, .eval = eval};
    nst_map_init(&f->where, f->arena);
    nst_expr_visit(f->exprs, e, list_node, f);
    f->arg = nst_alloc_array(f->arena, f->n, sizeof *f->arg);
    f->value = NST_NEW_ARRAY(f->arena, NstScalar, f->n);
    for (uint32_t i = 0; i < f->n; i++) {
        const NstExprNode *node = nst_expr(f->exprs, f->node[i]);
        for (int k = 0; k < 3; k++)
            if (node->arg[k].i != 0) f->arg[i][k] = nst_map_get(&f->where, node->arg[k].i, 0);
        if (node->op == NST_OP_CONST)
            f->value[i] = node->imm;
        else if (node->op == NST_OP_INDEX)
            NST_TRY(nst_eval_dim(eval, node->index[0], &f->value[i].i));
    }
    return NST_OK;
}

NstScalar nst_eval_formula(NstEvalFormula *f, const NstScalar *arg)
{
    for (uint32_t i = 0; i < f->n; i++) {
        const NstExprNode *node = nst_expr(f->exprs, f->node[i]);
        if (node->op == NST_OP_CONST || node->op == NST_OP_INDEX) continue;
        if (node->op == NST_OP_ARG) {
            f->value[i] = arg[node->ref];
            continue;
        }
        NstScalar operand[3];
        int arity = nst_scalar_info(node->op)->arity;
        for (int k = 0; k < arity; k++) operand[k] = f->value[f->arg[i][k]];
        NstDtype from = nst_expr(f->exprs, node->arg[0])->type;
        f->value[i] = nst_scalar_eval(node->op, node->type, from, operand, f->eval->has_fma);
    }
    return f->value[f->n - 1];
}

/* --- map, convert ---------------------------------------------------------------------------------------------- */

/* The shape that all inputs broadcast to. */
static NstStatus broadcast_shape(NstEvalNode *n, int64_t *shape, int *rank)
{
    *rank = n->node->n_in > 0 ? n->in[0]->t.rank : 0;
    for (int axis = 0; axis < *rank; axis++) shape[axis] = 1;
    for (uint32_t k = 0; k < n->node->n_in; k++) {
        for (int axis = 0; axis < *rank; axis++) {
            int64_t extent = n->in[k]->t.shape[axis];
            NST_CHECK(n->eval->ctx, extent == shape[axis] || extent == 1 || shape[axis] == 1, NST_E_SHAPE,
                      "input %u has extent %lld at axis %d, the others %lld, allowed: equal or 1", k, (long long)extent,
                      axis, (long long)shape[axis]);
            if (extent != 1) shape[axis] = extent;
        }
    }
    return NST_OK;
}

NstStatus nst_eval_map(NstEvalNode *n)
{
    int64_t shape[NST_MAX_RANK], index[NST_MAX_RANK] = {0}, at[NST_MAX_RANK], position = 0;
    int rank;
    NstEvalFormula formula;
    NstExpr e = n->node->attr.map.formula;
    NST_TRY(broadcast_shape(n, shape, &rank));
    NST_TRY(nst_eval_formula_init(n->eval, e, &formula));
    NST_TRY(nst_eval_new(n->eval, nst_expr(n->eval->graph->exprs, e)->type, rank, shape, &n->out[0]));
    NstScalar *arg = NST_NEW_ARRAY(n->eval->arena, NstScalar, n->node->n_in);
    if (nst_eval_count(&n->out[0].t) == 0) return NST_OK;
    do {
        for (uint32_t k = 0; k < n->node->n_in; k++) {
            for (int axis = 0; axis < rank; axis++) at[axis] = n->in[k]->t.shape[axis] == 1 ? 0 : index[axis];
            arg[k] = nst_eval_get(&n->in[k]->t, nst_eval_position(&n->in[k]->t, at));
        }
        nst_eval_put(&n->out[0].t, position++, nst_eval_formula(&formula, arg));
    } while (nst_eval_next(rank, shape, index));
    return NST_OK;
}

/* convert and bitcast */
NstStatus nst_eval_convert(NstEvalNode *n)
{
    const NstTensorValue *x = &n->in[0]->t;
    NstDtype to = n->node->attr.convert.to;
    NST_TRY(nst_eval_new(n->eval, to, x->rank, x->shape, &n->out[0]));
    int64_t count = nst_eval_count(x);
    for (int64_t i = 0; i < count; i++) {
        NstScalar value = nst_eval_get(x, i);
        if (n->node->prim == NST_PRIM_BITCAST)
            value = nst_scalar_eval(NST_OP_BITCAST, to, x->dtype, &value, false);
        else
            value = nst_scalar_convert(to, x->dtype, value, n->node->attr.convert.saturate);
        nst_eval_put(&n->out[0].t, i, value);
    }
    return NST_OK;
}
