/* infer_combine.c: rules of the combining, indirect and structure primitives. */
#include "ir/infer_impl.h"
#include "ir/order.h"

/* --- reduce, prefix -------------------------------------------------------------------------------------------- */

/* All inputs have the shape of input 0. */
static NstStatus check_same_shapes(const NstRule *rule, uint32_t first, uint32_t end)
{
    const NstType *x = nst_rule_in(rule, first);
    for (uint32_t k = first + 1; k < end; k++) {
        NST_TRY(nst_rule_same_rank(rule, first, k));
        for (int a = 0; a < x->rank; a++)
            NST_TRY(nst_rule_equal(rule, x->shape[a], nst_rule_in(rule, k)->shape[a], "extents of the inputs"));
    }
    return NST_OK;
}

/* Checks the formulas and gives the type of each state. */
static NstStatus check_combine(const NstRule *rule, const NstCombine *combine, NstDtype *state)
{
    NstExprs *exprs = rule->graph->exprs;
    uint32_t m = combine->n_states, n = rule->n_in;
    NST_CHECK(rule->ctx, m >= 1 && m == rule->n_out, NST_E_INVALID,
              "%s: %u states and %u outputs, allowed: equal, >= 1", rule->name, m, rule->n_out);
    NST_CHECK(rule->ctx, combine->step && combine->merge && combine->init, NST_E_INVALID, "%s: no combiner",
              rule->name);
    NstDtype *step = NST_NEW_ARRAY(rule->graph->arena, NstDtype, m + n);
    NstDtype *merge = NST_NEW_ARRAY(rule->graph->arena, NstDtype, 2 * m);
    for (uint32_t k = 0; k < m; k++) {
        NST_TRY(nst_rule_formula(rule, combine->init[k], NULL, 0, "initial state"));
        const NstExprNode *init = nst_expr(exprs, combine->init[k]);
        NST_CHECK(rule->ctx, init->op == NST_OP_CONST, NST_E_INVALID, "%s: initial state %u is no constant", rule->name,
                  k);
        state[k] = step[k] = merge[k] = merge[m + k] = init->type;
    }
    for (uint32_t k = 0; k < n; k++) step[m + k] = nst_rule_in(rule, k)->dtype;
    for (uint32_t k = 0; k < m; k++) {
        NST_TRY(nst_rule_formula(rule, combine->step[k], step, m + n, "step formula"));
        NST_TRY(nst_rule_formula(rule, combine->merge[k], merge, 2 * m, "merge formula"));
        NstDtype s = nst_expr(exprs, combine->step[k])->type, g = nst_expr(exprs, combine->merge[k])->type;
        NST_CHECK(rule->ctx, s == state[k] && g == state[k], NST_E_TYPE,
                  "%s: state %u has type %s, its step gives %s and its merge %s, allowed: equal", rule->name, k,
                  nst_dtype_info(state[k])->name, nst_dtype_info(s)->name, nst_dtype_info(g)->name);
    }
    return NST_OK;
}

NstStatus nst_infer_reduce(NstRule *rule)
{
    const NstType *x = nst_rule_in(rule, 0);
    NstDim shape[NST_MAX_RANK];
    bool reduced[NST_MAX_RANK] = {false};
    int rank = 0, lanes = rule->attr->reduce.lanes;
    NstDtype *state = NST_NEW_ARRAY(rule->graph->arena, NstDtype, rule->attr->reduce.combine.n_states);
    NST_TRY(check_same_shapes(rule, 0, rule->n_in));
    NST_TRY(check_combine(rule, &rule->attr->reduce.combine, state));
    for (int k = 0; k < rule->attr->reduce.n_axes; k++) {
        int axis = rule->attr->reduce.axes[k];
        NST_TRY(nst_rule_axis(rule, axis, x->rank));
        NST_CHECK(rule->ctx, !reduced[axis], NST_E_INVALID, "reduce: axis %d appears twice", axis);
        reduced[axis] = true;
    }
    NST_CHECK(rule->ctx, lanes >= 1 && lanes <= NST_ORDER_MAX_LANES && (lanes & (lanes - 1)) == 0, NST_E_INVALID,
              "reduce: %d lanes, allowed: a power of two up to %d", lanes, NST_ORDER_MAX_LANES);
    NST_CHECK(rule->ctx, lanes == 1 || (x->rank > 0 && reduced[x->rank - 1]), NST_E_INVALID,
              "reduce: %d lanes, allowed where the last axis is not reduced: 1", lanes);
    for (int axis = 0; axis < x->rank; axis++) {
        if (!reduced[axis])
            shape[rank++] = x->shape[axis];
        else if (rule->attr->reduce.keep)
            shape[rank++] = nst_dim_const(rule->dims, 1);
    }
    for (uint32_t k = 0; k < rule->n_out; k++) nst_rule_out(rule, k, state[k], rank, shape);
    return NST_OK;
}

NstStatus nst_infer_prefix(NstRule *rule)
{
    const NstType *x = nst_rule_in(rule, 0);
    NstDtype *state = NST_NEW_ARRAY(rule->graph->arena, NstDtype, rule->attr->prefix.combine.n_states);
    NST_TRY(check_same_shapes(rule, 0, rule->n_in));
    NST_TRY(check_combine(rule, &rule->attr->prefix.combine, state));
    NST_TRY(nst_rule_axis(rule, rule->attr->prefix.axis, x->rank));
    for (uint32_t k = 0; k < rule->n_out; k++) nst_rule_out(rule, k, state[k], x->rank, x->shape);
    return NST_OK;
}

/* --- contract -------------------------------------------------------------------------------------------------- */

/* Gives every label its extent; a label may not appear twice in one operand. */
static NstStatus collect_labels(const NstRule *rule, NstDim *extent)
{
    int n_operands = rule->attr->contract.n_operands;
    for (uint32_t j = 0; j < rule->n_in; j++) {
        const NstType *type = nst_rule_in(rule, j);
        const uint8_t *label = rule->attr->contract.labels[j];
        for (int axis = 0; axis < type->rank; axis++) {
            NST_CHECK(rule->ctx, label[axis] < NST_MAX_LABELS, NST_E_INVALID, "contract: label %u, allowed: below %d",
                      label[axis], NST_MAX_LABELS);
            for (int b = 0; b < axis; b++)
                NST_CHECK(rule->ctx, label[b] != label[axis], NST_E_INVALID,
                          "contract: a label appears twice in input %u, allowed: once", j);
            NstDim *known = &extent[label[axis]];
            NST_CHECK(rule->ctx, known->i != 0 || (int)j < n_operands, NST_E_INVALID,
                      "contract: input %u of a pre formula has a label of no operand", j);
            if (known->i == 0)
                *known = type->shape[axis];
            else
                NST_TRY(nst_rule_equal(rule, *known, type->shape[axis], "extents of one label"));
        }
    }
    return NST_OK;
}

static bool has_label(const uint8_t *label, int n, uint8_t wanted)
{
    for (int k = 0; k < n; k++)
        if (label[k] == wanted) return true;
    return false;
}

typedef struct PreUse {
    const NstRule *rule;
    int operand;
    NstStatus status;
} PreUse;

/* The labels of what a pre formula reads must be labels of its operand. */
static void check_pre_use(void *arg, NstExpr e, const NstExprNode *node)
{
    PreUse *use = arg;
    const NstRule *rule = use->rule;
    (void)e;
    if (node->op != NST_OP_ARG || node->ref == 0 || use->status != NST_OK) return;
    uint32_t input = (uint32_t)rule->attr->contract.n_operands + node->ref - 1;
    const uint8_t *label = rule->attr->contract.labels[input], *own = rule->attr->contract.labels[use->operand];
    for (int axis = 0; axis < nst_rule_in(rule, input)->rank; axis++)
        if (!has_label(own, nst_rule_in(rule, (uint32_t)use->operand)->rank, label[axis]))
            use->status =
                nst_fail(rule->ctx, NST_E_INVALID,
                         "contract: pre formula of operand %d reads input %u, which has an axis that the operand "
                         "has not",
                         use->operand, input);
}

static NstStatus check_pre(const NstRule *rule)
{
    NstExprs *exprs = rule->graph->exprs;
    uint32_t n = (uint32_t)rule->attr->contract.n_operands, n_extra = rule->n_in - n;
    NstDtype *type = NST_NEW_ARRAY(rule->graph->arena, NstDtype, 1 + n_extra);
    for (uint32_t k = 0; k < n_extra; k++) type[1 + k] = nst_rule_in(rule, n + k)->dtype;
    for (uint32_t j = 0; j < n; j++) {
        NstDtype element = type[0] = nst_rule_in(rule, j)->dtype;
        if (rule->attr->contract.pre && rule->attr->contract.pre[j].i != 0) {
            NstExpr pre = rule->attr->contract.pre[j];
            NST_TRY(nst_rule_formula(rule, pre, type, 1 + n_extra, "pre formula"));
            PreUse use = {rule, (int)j, NST_OK};
            nst_expr_visit(exprs, pre, check_pre_use, &use);
            NST_TRY(use.status);
            element = nst_expr(exprs, pre)->type;
        }
        NST_CHECK(rule->ctx, nst_dtype_is_number(element), NST_E_TYPE,
                  "contract: operand %u gives %s, allowed: numbers", j, nst_dtype_info(element)->name);
    }
    return NST_OK;
}

/* The summed labels are exactly those that are not in the output, each once. */
static NstStatus check_sum(const NstRule *rule, const NstDim *extent, int out_rank)
{
    const NstAttrs *a = rule->attr;
    int n_labels = 0;
    for (int k = 0; k < NST_MAX_LABELS; k++) n_labels += extent[k].i != 0;
    NST_CHECK(rule->ctx, a->contract.n_sum == n_labels - out_rank, NST_E_INVALID,
              "contract: %d summed labels, allowed: %d, all that the output has not", a->contract.n_sum,
              n_labels - out_rank);
    for (int k = 0; k < a->contract.n_sum; k++) {
        uint8_t label = a->contract.sum[k];
        NST_CHECK(rule->ctx,
                  label < NST_MAX_LABELS && extent[label].i != 0 && !has_label(a->contract.sum, k, label) &&
                      !has_label(a->contract.out_labels, out_rank, label),
                  NST_E_INVALID, "contract: summed label %d of the order is no label to sum, or appears twice", k);
    }
    int lanes = a->contract.lanes;
    NST_CHECK(rule->ctx, lanes >= 1 && lanes <= NST_ORDER_MAX_LANES && (lanes & (lanes - 1)) == 0, NST_E_INVALID,
              "contract: %d lanes, allowed: a power of two up to %d", lanes, NST_ORDER_MAX_LANES);
    int block = a->contract.block;
    NST_CHECK(rule->ctx, block >= 1, NST_E_INVALID, "contract: blocks of %d, allowed: 1 or more", block);
    NST_CHECK(rule->ctx, block == NST_ORDER_WHOLE || (a->contract.n_sum == 1 && lanes == 1), NST_E_INVALID,
              "contract: blocks of %d over %d summed labels in %d lanes, allowed: one label, one lane", block,
              a->contract.n_sum, lanes);
    return NST_OK;
}

NstStatus nst_infer_contract(NstRule *rule)
{
    const NstAttrs *a = rule->attr;
    NstDim extent[NST_MAX_LABELS] = {{0}}, shape[NST_MAX_RANK];
    int n = a->contract.n_operands, rank = a->contract.out_rank;
    NST_CHECK(rule->ctx, n >= 2 && n <= NST_CONTRACT_MAX_OPERANDS && (uint32_t)n <= rule->n_in, NST_E_INVALID,
              "contract: %d operands, allowed: 2..%d", n, NST_CONTRACT_MAX_OPERANDS);
    NST_CHECK(rule->ctx, a->contract.labels && (rank == 0 || a->contract.out_labels), NST_E_INVALID,
              "contract: no labels");
    NST_TRY(nst_rule_rank(rule, rank));
    NST_TRY(collect_labels(rule, extent));
    for (int axis = 0; axis < rank; axis++) {
        uint8_t label = a->contract.out_labels[axis];
        NST_CHECK(rule->ctx, label < NST_MAX_LABELS && extent[label].i != 0, NST_E_INVALID,
                  "contract: the output's label %d is in no operand", axis);
        NST_CHECK(rule->ctx, !has_label(a->contract.out_labels, axis, label), NST_E_INVALID,
                  "contract: a label appears twice in the output, allowed: once");
        shape[axis] = extent[label];
    }
    NST_TRY(check_pre(rule));
    NST_TRY(check_sum(rule, extent, rank));
    NstDtype acc = a->contract.accumulate;
    NST_CHECK(rule->ctx, nst_dtype_is_number(acc) && nst_dtype_info(acc)->compute == acc, NST_E_TYPE,
              "contract: accumulates in %s, allowed: a type of arithmetic", nst_dtype_info(acc)->name);
    nst_rule_out(rule, 0, acc, rank, shape);
    return NST_OK;
}

/* --- sort ------------------------------------------------------------------------------------------------------ */

NstStatus nst_infer_sort(NstRule *rule)
{
    const NstType *x = nst_rule_in(rule, 0);
    const NstAttrs *a = rule->attr;
    NstDim shape[NST_MAX_RANK];
    NST_CHECK(rule->ctx, a->sort.n_keys >= 1 && (uint32_t)a->sort.n_keys <= rule->n_in && rule->n_in == rule->n_out,
              NST_E_INVALID, "sort: %d keys, %u inputs, %u outputs, allowed: 1..inputs keys, as many outputs as inputs",
              a->sort.n_keys, rule->n_in, rule->n_out);
    NST_TRY(check_same_shapes(rule, 0, rule->n_in));
    NST_TRY(nst_rule_axis(rule, a->sort.axis, x->rank));
    for (int k = 0; k < a->sort.n_keys; k++) {
        NstDtype key = nst_rule_in(rule, (uint32_t)k)->dtype;
        NST_CHECK(rule->ctx, nst_dtype_is_number(key) || key == NST_BOOL, NST_E_TYPE,
                  "sort: key %d is %s, allowed: numbers and b1", k, nst_dtype_info(key)->name);
    }
    memcpy(shape, x->shape, sizeof(NstDim) * (size_t)x->rank);
    if (a->sort.keep.i != 0) {
        NstTruth more = nst_dim_compare(rule->dims, a->sort.keep, NST_DIM_GT, x->shape[a->sort.axis]);
        NST_CHECK(rule->ctx, more != NST_TRUE, NST_E_SHAPE, "sort: keeps %s of %s elements, allowed: at most all",
                  nst_rule_dim(rule, a->sort.keep), nst_rule_dim(rule, x->shape[a->sort.axis]));
        shape[a->sort.axis] = a->sort.keep;
    }
    for (uint32_t k = 0; k < rule->n_out; k++) nst_rule_out(rule, k, nst_rule_in(rule, k)->dtype, x->rank, shape);
    return NST_OK;
}

/* --- gather, scatter, compact ---------------------------------------------------------------------------------- */

static NstStatus check_index_type(const NstRule *rule)
{
    NST_CHECK(rule->ctx, nst_dtype_is_int(nst_rule_in(rule, 1)->dtype), NST_E_TYPE,
              "%s: indices are %s, allowed: integers", rule->name, nst_dtype_info(nst_rule_in(rule, 1)->dtype)->name);
    return NST_OK;
}

NstStatus nst_infer_gather(NstRule *rule)
{
    const NstType *data = nst_rule_in(rule, 0), *index = nst_rule_in(rule, 1);
    NstDim shape[2 * NST_MAX_RANK];
    int axis = rule->attr->gather.axis, batch = rule->attr->gather.batch, rank = 0;
    NST_TRY(check_index_type(rule));
    NST_TRY(nst_rule_axis(rule, axis, data->rank));
    NST_CHECK(rule->ctx, batch >= 0 && batch <= axis && batch <= index->rank, NST_E_INVALID,
              "gather: %d batch axes, allowed: 0 to the axis (%d) and the indices' rank (%d)", batch, axis,
              index->rank);
    NST_CHECK(rule->ctx, rule->attr->gather.mode != NST_INDEX_FILL || nst_dtype_info(data->dtype)->bytes <= 8,
              NST_E_TYPE, "gather: %s that is 0 outside, allowed: elements of at most 8 bytes",
              nst_dtype_info(data->dtype)->name);
    for (int k = 0; k < batch; k++)
        NST_TRY(nst_rule_equal(rule, data->shape[k], index->shape[k], "extents of a batch axis"));
    for (int k = 0; k < axis; k++) shape[rank++] = data->shape[k];
    for (int k = batch; k < index->rank; k++) shape[rank++] = index->shape[k];
    for (int k = axis + 1; k < data->rank; k++) shape[rank++] = data->shape[k];
    NST_TRY(nst_rule_rank(rule, rank));
    nst_rule_out(rule, 0, data->dtype, rank, shape);
    return NST_OK;
}

/* Shapes of a scatter by rows: updates = data[:axis] + indices + data[axis+1:]. */
static NstStatus check_scatter_rows(const NstRule *rule, int axis)
{
    const NstType *data = nst_rule_in(rule, 0), *index = nst_rule_in(rule, 1), *update = nst_rule_in(rule, 2);
    NST_CHECK(rule->ctx, update->rank == data->rank - 1 + index->rank, NST_E_SHAPE,
              "scatter: updates have rank %d, allowed: %d (data %d, indices %d)", update->rank,
              data->rank - 1 + index->rank, data->rank, index->rank);
    for (int k = 0; k < update->rank; k++) {
        NstDim wanted;
        if (k < axis)
            wanted = data->shape[k];
        else if (k < axis + index->rank)
            wanted = index->shape[k - axis];
        else
            wanted = data->shape[k - index->rank + 1];
        NST_TRY(nst_rule_equal(rule, update->shape[k], wanted, "extent of updates and what it follows from"));
    }
    return NST_OK;
}

NstStatus nst_infer_scatter(NstRule *rule)
{
    const NstType *data = nst_rule_in(rule, 0);
    int axis = rule->attr->scatter.axis;
    NST_TRY(check_index_type(rule));
    NST_TRY(nst_rule_axis(rule, axis, data->rank));
    NST_TRY(nst_rule_same_dtype(rule, 0, 2));
    if (rule->attr->scatter.elementwise) {
        NST_TRY(nst_rule_same_rank(rule, 0, 1));
        NST_TRY(check_same_shapes(rule, 1, 3));
    } else {
        NST_TRY(check_scatter_rows(rule, axis));
    }
    if (rule->attr->scatter.combine.i != 0) {
        NstDtype type[2] = {data->dtype, data->dtype};
        NST_TRY(nst_rule_formula(rule, rule->attr->scatter.combine, type, 2, "combiner"));
        NstDtype gives = nst_expr(rule->graph->exprs, rule->attr->scatter.combine)->type;
        NST_CHECK(rule->ctx, gives == data->dtype, NST_E_TYPE,
                  "scatter: the combiner gives %s, data are %s, allowed: equal", nst_dtype_info(gives)->name,
                  nst_dtype_info(data->dtype)->name);
    }
    nst_rule_out(rule, 0, data->dtype, data->rank, data->shape);
    return NST_OK;
}

NstStatus nst_infer_compact(NstRule *rule)
{
    const NstType *mask = nst_rule_in(rule, 0);
    NstSym count = rule->attr->compact.count;
    int axis = rule->attr->compact.axis;
    NST_CHECK(rule->ctx, rule->n_out == rule->n_in - 1, NST_E_INVALID, "compact: %u outputs for %u inputs, allowed: %u",
              rule->n_out, rule->n_in, rule->n_in - 1);
    NST_CHECK(rule->ctx, mask->dtype == NST_BOOL && mask->rank == 1, NST_E_TYPE, "compact: mask is %s, allowed: b1[n]",
              nst_rule_type(rule, mask));
    NST_CHECK(rule->ctx, count.i != 0 && nst_dims_sym(rule->dims, count)->kind == NST_SYM_COUNTED, NST_E_INVALID,
              "compact: the count is no counted symbol");
    for (uint32_t k = 1; k < rule->n_in; k++) {
        const NstType *x = nst_rule_in(rule, k);
        NstDim shape[NST_MAX_RANK];
        NST_TRY(nst_rule_axis(rule, axis, x->rank));
        NST_TRY(nst_rule_equal(rule, mask->shape[0], x->shape[axis], "lengths of the mask and the compacted axis"));
        memcpy(shape, x->shape, sizeof(NstDim) * (size_t)x->rank);
        shape[axis] = nst_dim_sym(rule->dims, count);
        nst_rule_out(rule, k - 1, x->dtype, x->rank, shape);
    }
    return NST_OK;
}

/* --- structure ------------------------------------------------------------------------------------------------- */

static bool same_kind(const NstType *a, const NstType *b)
{
    if (a->kind != b->kind || a->dtype != b->dtype) return false;
    if (a->kind == NST_TYPE_TENSOR) return a->rank == b->rank;
    return !a->item || !b->item || same_kind(a->item, b->item);
}

/* A value goes where another type stands: kind, element type and rank equal; extents may differ (they are bound anew). */
static NstStatus check_passed(const NstRule *rule, const NstType *from, const NstType *to, const char *what, uint32_t k)
{
    NST_CHECK(rule->ctx, same_kind(from, to), NST_E_TYPE,
              "%s: %s %u is %s, allowed: the kind, element type and rank of %s", rule->name, what, k,
              nst_rule_type(rule, from), nst_rule_type(rule, to));
    return NST_OK;
}

static NstStatus find_region(const NstRule *rule, NstRegionId id, uint32_t n_params, uint32_t n_results,
                             const NstRegion **region)
{
    NST_CHECK(rule->ctx, id.i > 1 && id.i < rule->graph->regions.n, NST_E_INVALID, "%s: region %u does not exist",
              rule->name, id.i);
    *region = nst_graph_region(rule->graph, id);
    NST_CHECK(rule->ctx, (*region)->params.n == n_params && (*region)->results.n == n_results, NST_E_INVALID,
              "%s: region has %u parameters and %u results, allowed: %u and %u", rule->name, (*region)->params.n,
              (*region)->results.n, n_params, n_results);
    for (uint32_t k = 0; k < n_results; k++)
        NST_CHECK(rule->ctx, (*region)->results.at[k].i != 0, NST_E_INVALID, "%s: result %u of the region is absent",
                  rule->name, k);
    return NST_OK;
}

static const NstType *result_type(const NstRule *rule, const NstRegion *region, uint32_t k)
{
    return nst_value_type(rule->graph, region->results.at[k]);
}

NstStatus nst_infer_if(NstRule *rule)
{
    const NstRegion *a, *b;
    const NstType *condition = nst_rule_in(rule, 0);
    NST_CHECK(rule->ctx, condition->dtype == NST_BOOL && condition->rank == 0, NST_E_TYPE,
              "if: condition is %s, allowed: b1[]", nst_rule_type(rule, condition));
    NST_TRY(find_region(rule, rule->attr->branch.then_region, 0, rule->n_out, &a));
    NST_TRY(find_region(rule, rule->attr->branch.else_region, 0, rule->n_out, &b));
    for (uint32_t k = 0; k < rule->n_out; k++) {
        const NstType *x = result_type(rule, a, k), *y = result_type(rule, b, k);
        NST_TRY(check_passed(rule, y, x, "result of else", k));
        if (rule->out[k].kind != NST_TYPE_NONE) {
            NST_TRY(check_passed(rule, x, &rule->out[k], "result", k));
            continue;
        }
        rule->out[k] = *x;
        for (int axis = 0; x->kind == NST_TYPE_TENSOR && axis < x->rank; axis++)
            NST_TRY(nst_rule_equal(rule, x->shape[axis], y->shape[axis], "extents of the branches' results"));
    }
    return NST_OK;
}

/* Trip count and condition. */
static NstStatus check_loop_control(const NstRule *rule, const NstRegion *body)
{
    if (rule->in[0].i != 0) NST_TRY(nst_rule_i64_scalar(rule, 0, "trip count"));
    for (int from_body = 0; from_body < 2; from_body++) {
        if (!from_body && rule->in[1].i == 0) continue;
        const NstType *type = from_body ? result_type(rule, body, 0) : nst_rule_in(rule, 1);
        NST_CHECK(rule->ctx, type->kind == NST_TYPE_TENSOR && type->dtype == NST_BOOL && type->rank == 0, NST_E_TYPE,
                  "loop: condition is %s, allowed: b1[]", nst_rule_type(rule, type));
    }
    const NstType *i = nst_value_type(rule->graph, body->params.at[0]),
                  *c = nst_value_type(rule->graph, body->params.at[1]);
    bool control = i->kind == NST_TYPE_TENSOR && i->dtype == NST_I64 && i->rank == 0 && c->kind == NST_TYPE_TENSOR &&
                   c->dtype == NST_BOOL && c->rank == 0;
    NST_CHECK(rule->ctx, control, NST_E_TYPE,
              "loop: the region's first parameters are %s and %s, allowed: i64[] and b1[]", nst_rule_type(rule, i),
              nst_rule_type(rule, c));
    return NST_OK;
}

bool nst_known_trips(const NstGraph *graph, NstVal trips, NstDim *extent)
{
    const NstNode *node = nst_value_node(graph, trips);
    if (node->prim == NST_PRIM_DIM_VALUE)
        *extent = node->attr.dim_value.dim;
    else if (node->prim == NST_PRIM_CONST)
        *extent =
            nst_dim_const(graph->dims, node->attr.constant.data ? nst_scalar_load(NST_I64, node->attr.constant.data).i
                                                                : node->attr.constant.splat.i);
    else
        return false;
    return true;
}

/* How often the loop runs, as a dim: its counted symbol, or the trip count where that is a known dim. */
static NstStatus loop_extent(const NstRule *rule, NstDim *extent)
{
    NstSym count = rule->attr->loop.count;
    if (count.i != 0)
        *extent = nst_dim_sym(rule->dims, count);
    else if (rule->in[0].i == 0 || !nst_known_trips(rule->graph, rule->in[0], extent))
        NST_FAIL(rule->ctx, NST_E_INVALID, "loop: scans need a counted symbol, or a trip count that is a known dim");
    return NST_OK;
}

NstStatus nst_infer_loop(NstRule *rule)
{
    const NstAttrs *a = rule->attr;
    const NstRegion *body;
    uint32_t n = (uint32_t)a->loop.n_states, scans = (uint32_t)a->loop.n_scans;
    NST_CHECK(rule->ctx, rule->n_in == n + 2 && rule->n_out == n + scans, NST_E_INVALID,
              "loop: %u inputs and %u outputs for %u states and %u scans, allowed: states + 2 and states + scans",
              rule->n_in, rule->n_out, n, scans);
    NST_TRY(find_region(rule, a->loop.body, n + 2, n + scans + 1, &body));
    NST_CHECK(rule->ctx, rule->in[0].i != 0 || rule->in[1].i != 0, NST_E_INVALID,
              "loop: neither trip count nor condition, allowed: one or both");
    NST_TRY(check_loop_control(rule, body));
    for (uint32_t k = 0; k < n; k++) {
        const NstType *state = nst_value_type(rule->graph, body->params.at[k + 2]);
        NST_TRY(check_passed(rule, nst_rule_in(rule, k + 2), state, "state", k));
        NST_TRY(check_passed(rule, result_type(rule, body, k + 1), state, "state's result", k));
        if (rule->out[k].kind == NST_TYPE_NONE)
            rule->out[k] = *state;
        else
            NST_TRY(check_passed(rule, state, &rule->out[k], "state", k));
    }
    for (uint32_t k = 0; k < scans; k++) {
        const NstType *item = result_type(rule, body, n + 1 + k);
        NstDim shape[NST_MAX_RANK + 1];
        NST_CHECK(rule->ctx, item->kind == NST_TYPE_TENSOR, NST_E_TYPE, "loop: scan %u is %s, allowed: a tensor", k,
                  nst_rule_type(rule, item));
        NST_TRY(nst_rule_rank(rule, item->rank + 1));
        NST_TRY(loop_extent(rule, &shape[0]));
        memcpy(shape + 1, item->shape, sizeof(NstDim) * (size_t)item->rank);
        const NstType *stated = &rule->out[n + k];
        if (stated->kind == NST_TYPE_TENSOR && stated->rank == item->rank + 1) {
            /* Sizes that the body alone knows are counted outside. */
            NST_TRY(nst_rule_equal(rule, stated->shape[0], shape[0], "steps of a scan"));
            memcpy(shape + 1, stated->shape + 1, sizeof(NstDim) * (size_t)item->rank);
        }
        nst_rule_out(rule, n + k, item->dtype, item->rank + 1, shape);
    }
    return NST_OK;
}

NstStatus nst_infer_call(NstRule *rule)
{
    const NstRegion *body;
    NST_TRY(find_region(rule, rule->attr->call.body, rule->n_in, rule->n_out, &body));
    for (uint32_t k = 0; k < rule->n_in; k++) {
        NST_CHECK(rule->ctx, rule->in[k].i != 0, NST_E_INVALID, "call: input %u is absent", k);
        NST_TRY(
            check_passed(rule, nst_rule_in(rule, k), nst_value_type(rule->graph, body->params.at[k]), "argument", k));
    }
    for (uint32_t k = 0; k < rule->n_out; k++) {
        if (rule->out[k].kind == NST_TYPE_NONE)
            rule->out[k] = *result_type(rule, body, k);
        else
            NST_TRY(check_passed(rule, result_type(rule, body, k), &rule->out[k], "result", k));
    }
    return NST_OK;
}
