/* reciprocal.c: division of a whole row by one value as a product with its reciprocal (softmax, norms).
 *
 * In: a graph.  Out: in the formulas of maps, x / d becomes x * (1 / d) where d is one value a row and x is not; "simplify" then
 * computes 1 / d once a row.  What is one value a row is said by the graph, never by a size, which would be another one in plans
 * for open and for declared sizes: a reduce that keeps the last axis, a scalar, and maps of such; not what happens to have a last
 * axis of one element.  Nor what is computed from sizes and numbers alone, which is a constant where sizes are declared.
 * A quotient that is rounded to a whole number (quantisation) stays one: an ulp would move it by a step.
 * Approximate: one rounding more, so at most 2 ulp from the quotient while |d| is in 2^-126 .. 2^126; outside, a reciprocal
 * may overflow or lose bits.
 *
 * Where a row of exps is so divided and then contracted along its elements, the product with the reciprocal is taken of what the
 * contraction gives: one a result instead of one an element, and the contraction need not wait for the divisor (online.c).
 * Approximate: one rounding a result instead of one a term; a sum of more than 2^127 may overflow where the sum of parts does not. */
#include "ir/build.h"
#include "passes/pass.h"

/* How the elements of a value differ along its last axis. */
typedef enum Kind {
    VARIES,
    NUMBER, /* do not; computed from sizes and numbers */
    ROW     /* do not; computed from elements */
} Kind;

typedef struct Rows {
    NstGraph *graph;
    NstExprs *exprs;
    uint8_t *kind;     /* by value */
    uint32_t n_values; /* that there were when the pass began */
    const NstNode *map;
    NST_VEC(NstNode *) contractions;
} Rows;

static Kind kind_of(const Rows *r, NstVal value)
{
    return (Kind)r->kind[value.i];
}

static bool is_one(const NstGraph *graph, NstDim extent)
{
    return nst_dim_same(extent, nst_dim_const(graph->dims, 1));
}

static bool has_one_column(const NstGraph *graph, NstVal value)
{
    const NstType *type = nst_value_type(graph, value);
    return type->rank == 0 || is_one(graph, type->shape[type->rank - 1]);
}

/* Of what is computed element by element. */
static Kind kind_of_inputs(const Rows *r, const NstNode *node)
{
    Kind kind = NUMBER;
    for (uint32_t k = 0; k < node->n_in; k++) {
        if (kind_of(r, node->in[k]) == VARIES) return VARIES;
        if (kind_of(r, node->in[k]) == ROW) kind = ROW;
    }
    return kind;
}

static bool keeps_last_axis(const NstNode *reduce, int rank)
{
    for (int k = 0; k < reduce->attr.reduce.n_axes; k++)
        if (reduce->attr.reduce.axes[k] == rank - 1) return reduce->attr.reduce.keep;
    return false;
}

static Kind kind_by_node(const Rows *r, const NstNode *node, const NstType *type)
{
    switch (node->prim) {
    case NST_PRIM_CONST:
        if (!node->attr.constant.data) return NUMBER;
        return has_one_column(r->graph, node->out[0]) ? ROW : VARIES;
    case NST_PRIM_DIM_VALUE: return NUMBER;
    case NST_PRIM_MAP:
    case NST_PRIM_CONVERT:
    case NST_PRIM_BITCAST: return kind_of_inputs(r, node);
    case NST_PRIM_EXPAND: return kind_of(r, node->in[0]);
    case NST_PRIM_RESHAPE: {
        bool whole = nst_value_type(r->graph, node->in[0])->rank == 0 ||
                     nst_value_node(r->graph, node->in[0])->prim == NST_PRIM_CONST;
        return whole && has_one_column(r->graph, node->out[0]) ? kind_of(r, node->in[0]) : VARIES;
    }
    case NST_PRIM_REDUCE:
        if (keeps_last_axis(node, nst_value_type(r->graph, node->in[0])->rank)) return ROW;
        break;
    default: break;
    }
    return type->rank == 0 ? ROW : VARIES;
}

/* Whole numbers count as sizes, as which they may be constants. */
static void set_kinds(Rows *r, const NstNode *node)
{
    for (uint32_t k = 0; k < node->n_out; k++) {
        const NstType *type = nst_value_type(r->graph, node->out[k]);
        Kind kind = type->kind == NST_TYPE_TENSOR ? kind_by_node(r, node, type) : VARIES;
        r->kind[node->out[k].i] = (uint8_t)(kind == ROW && !nst_dtype_is_float(type->dtype) ? NUMBER : kind);
    }
}

/* --- divisions ------------------------------------------------------------------------------------------------ */

typedef struct Leaves {
    const Rows *rows;
    bool varies, row;
} Leaves;

static void note_leaf(void *arg, NstExpr e, const NstExprNode *node)
{
    Leaves *leaves = arg;
    (void)e;
    if (node->op != NST_OP_ARG) return;
    Kind kind = kind_of(leaves->rows, leaves->rows->map->in[node->ref]);
    leaves->varies |= kind == VARIES;
    leaves->row |= kind == ROW;
}

static Leaves leaves_of(const Rows *r, NstExpr e)
{
    Leaves leaves = {.rows = r};
    nst_expr_visit(r->exprs, e, note_leaf, &leaves);
    return leaves;
}

static NstExpr rewrite_division(void *arg, NstExprs *exprs, NstExpr rebuilt)
{
    const Rows *r = arg;
    const NstExprNode node = *nst_expr(exprs, rebuilt);
    if (node.op != NST_OP_DIV || !nst_dtype_is_float(node.type)) return (NstExpr){0};
    Leaves divisor = leaves_of(r, node.arg[1]);
    if (divisor.varies || !divisor.row || !leaves_of(r, node.arg[0]).varies) return (NstExpr){0};
    NstExpr one = nst_expr_float(exprs, node.type, 1);
    return nst_expr_binary(exprs, NST_OP_MUL, node.arg[0], nst_expr_binary(exprs, NST_OP_DIV, one, node.arg[1]));
}

/* --- quotients that are rounded ------------------------------------------------------------------------------- */

static bool is_rounding(const NstExprs *exprs, const NstExprNode *node)
{
    switch (node->op) {
    case NST_OP_ROUND:
    case NST_OP_FLOOR:
    case NST_OP_CEIL:
    case NST_OP_TRUNC: return true;
    case NST_OP_CONVERT:
        return !nst_dtype_is_float(node->type) && nst_dtype_is_float(nst_expr(exprs, node->arg[0])->type);
    default: return false;
    }
}

typedef struct Rounded {
    const NstExprs *exprs;
    NstScalarOp of; /* what is looked for: a rounded division, or a rounded operand */
    uint32_t slot;  /* of the operand */
    bool found;
} Rounded;

static void note_rounding(void *arg, NstExpr e, const NstExprNode *node)
{
    Rounded *rounded = arg;
    (void)e;
    if (!is_rounding(rounded->exprs, node)) return;
    const NstExprNode *of = nst_expr(rounded->exprs, node->arg[0]);
    rounded->found |= of->op == rounded->of && (of->op != NST_OP_ARG || of->ref == rounded->slot);
}

static bool rounds(const Rows *r, const NstNode *map, NstScalarOp of, uint32_t slot)
{
    Rounded rounded = {r->exprs, of, slot, false};
    nst_expr_visit(r->exprs, map->attr.map.formula, note_rounding, &rounded);
    return rounded.found;
}

/* Views that are looked through, one after another; behind more, a value counts as rounded. */
enum { MAX_VIEWS = 16 };

/* True if a user of the value, through views, rounds it. */
static bool is_rounded_by_user(const Rows *r, NstVal value, int views)
{
    const NstValue *info = nst_graph_value(r->graph, value);
    if (views > MAX_VIEWS) return true;
    for (uint32_t k = 0; k < info->uses.n; k++) {
        const NstNode *user = nst_graph_node(r->graph, info->uses.at[k].node);
        if (user->dead) continue;
        if (user->prim == NST_PRIM_MAP && rounds(r, user, NST_OP_ARG, info->uses.at[k].slot)) return true;
        if (user->prim == NST_PRIM_CONVERT && !nst_dtype_is_float(user->attr.convert.to)) return true;
        if (nst_prim_info(user->prim)->group == NST_GROUP_VIEW && is_rounded_by_user(r, user->out[0], views + 1))
            return true;
    }
    return false;
}

static bool is_rounded_quotient(const Rows *r, const NstNode *map)
{
    if (nst_expr(r->exprs, map->attr.map.formula)->op == NST_OP_DIV) return is_rounded_by_user(r, map->out[0], 0);
    return rounds(r, map, NST_OP_DIV, 0);
}

/* --- contractions of divided rows ------------------------------------------------------------------------------- */

/* x * factor, one value a row, which is an operand of a contraction. */
typedef struct Scaled {
    uint32_t operand;
    const NstNode *map;
    NstVal x;
    NstExpr factor; /* over the map's inputs */
} Scaled;

static bool is_exp(const Rows *r, NstVal value)
{
    const NstNode *node = nst_value_node(r->graph, value);
    return node->prim == NST_PRIM_MAP && nst_expr(r->exprs, node->attr.map.formula)->op == NST_OP_EXP;
}

/* True if the row's value keeps the last axis as one element, by what makes it. */
static bool is_column(const Rows *r, NstVal value)
{
    const NstNode *node = nst_value_node(r->graph, value);
    if (value.i >= r->n_values || kind_of(r, value) == VARIES || !has_one_column(r->graph, value)) return false;
    if (kind_of(r, value) == NUMBER) return true;
    if (node->prim == NST_PRIM_REDUCE) return keeps_last_axis(node, nst_value_type(r->graph, node->in[0])->rank);
    if (node->prim != NST_PRIM_MAP) return false;
    for (uint32_t k = 0; k < node->n_in; k++)
        if (!is_column(r, node->in[k])) return false;
    return true;
}

typedef struct Columns {
    const Rows *rows;
    bool all;
} Columns;

static void note_column(void *arg, NstExpr e, const NstExprNode *node)
{
    Columns *c = arg;
    (void)e;
    if (node->op == NST_OP_ARG) c->all = c->all && is_column(c->rows, c->rows->map->in[node->ref]);
}

/* The axis of the result that runs along the operand's axis, -1 if it is summed. */
static int result_axis(const NstAttrs *attr, uint32_t operand, int axis)
{
    for (int k = 0; k < attr->contract.out_rank; k++)
        if (attr->contract.out_labels[k] == attr->contract.labels[operand][axis]) return k;
    return -1;
}

/* True if the operand's last axis alone is summed, and its others stand in the result in their order. */
static bool sums_rows(const NstAttrs *attr, uint32_t operand, int rank)
{
    int before = -1;
    for (int k = 0; k + 1 < rank; k++) {
        int axis = result_axis(attr, operand, k);
        if (axis <= before) return false;
        before = axis;
    }
    return rank > 0 && result_axis(attr, operand, rank - 1) < 0;
}

/* True if the operand is a row of exps times one value, and nothing else uses it. */
static bool find_scaled(Rows *r, const NstNode *contract, uint32_t operand, Scaled *scaled)
{
    NstVal value = contract->in[operand];
    const NstNode *map = nst_value_node(r->graph, value);
    const NstType *type = nst_value_type(r->graph, value);
    if (value.i >= r->n_values || map->prim != NST_PRIM_MAP || nst_graph_value(r->graph, value)->uses.n != 1 ||
        nst_value_is_result(r->graph, value) || map->region.i != contract->region.i)
        return false;
    const NstExprNode *product = nst_expr(r->exprs, map->attr.map.formula);
    if (product->op != NST_OP_MUL || contract->attr.contract.pre || contract->attr.contract.n_operands != 2 ||
        contract->attr.contract.accumulate != type->dtype || !nst_dtype_is_float(type->dtype) ||
        !sums_rows(&contract->attr, operand, type->rank))
        return false;
    r->map = map;
    for (int side = 0; side < 2; side++) {
        const NstExprNode *x = nst_expr(r->exprs, product->arg[side]);
        Leaves factor = leaves_of(r, product->arg[1 - side]);
        Columns columns = {r, true};
        nst_expr_visit(r->exprs, product->arg[1 - side], note_column, &columns);
        if (x->op != NST_OP_ARG || factor.varies || !factor.row || !columns.all) continue;
        *scaled = (Scaled){operand, map, map->in[x->ref], product->arg[1 - side]};
        return is_exp(r, scaled->x) && nst_type_same(nst_value_type(r->graph, scaled->x), type);
    }
    return false;
}

/* An input of the factor, as it lies beside the contraction's result. */
static NstVal beside_result(NstBuild *build, const NstNode *contract, uint32_t operand, NstVal column)
{
    NstDim shape[NST_MAX_RANK], one = nst_dim_const(build->graph->dims, 1);
    const NstType *type = nst_value_type(build->graph, column);
    int rank = contract->attr.contract.out_rank;
    for (int k = 0; k < rank; k++) shape[k] = one;
    for (int k = 0; k + 1 < type->rank; k++) shape[result_axis(&contract->attr, operand, k)] = type->shape[k];
    return nst_build_reshape(build, column, rank, shape);
}

static NstStatus scale_result(NstCtx *ctx, Rows *r, NstNode *contract, const Scaled *scaled)
{
    NstBuild build;
    const NstNode *map = scaled->map;
    nst_build_init(&build, ctx, r->graph, contract->region);
    build.origin = nst_origin_merge(r->graph->origins, contract->origin, map->origin);
    NstVal *in = nst_copy(r->graph->arena, contract->in, contract->n_in * sizeof *in);
    in[scaled->operand] = scaled->x;
    NstVal *with = NST_NEW_ARRAY(r->graph->arena, NstVal, map->n_in + 1);
    NstExpr *arg = NST_NEW_ARRAY(r->graph->arena, NstExpr, map->n_in);
    uint32_t n = 0;
    with[n++] = nst_build_contract_full(&build, &contract->attr, contract->n_in, in);
    for (uint32_t k = 0; k < map->n_in; k++) {
        arg[k] = nst_expr_arg(r->exprs, nst_value_type(r->graph, map->in[k])->dtype, n);
        if (is_column(r, map->in[k])) with[n++] = beside_result(&build, contract, scaled->operand, map->in[k]);
    }
    NstExpr factor = nst_expr_subst_args(r->exprs, scaled->factor, arg, map->n_in);
    NstExpr sum = nst_expr_arg(r->exprs, contract->attr.contract.accumulate, 0);
    NST_TRY(nst_build_status(&build));
    NstVal value = nst_build_map_expr(&build, nst_expr_binary(r->exprs, NST_OP_MUL, sum, factor), n, with);
    NST_TRY(nst_build_status(&build));
    nst_graph_value(r->graph, value)->name = nst_graph_value(r->graph, contract->out[0])->name;
    nst_graph_replace(r->graph, contract->out[0], value);
    return NST_OK;
}

static NstStatus scale_results(NstCtx *ctx, Rows *r)
{
    bool changed = false;
    for (uint32_t k = 0; k < r->contractions.n; k++) {
        NstNode *contract = r->contractions.at[k];
        Scaled scaled;
        if (!find_scaled(r, contract, 0, &scaled) && !find_scaled(r, contract, 1, &scaled)) continue;
        NST_TRY(scale_result(ctx, r, contract, &scaled));
        changed = true;
    }
    if (changed) nst_graph_sweep(r->graph);
    return NST_OK;
}

/* --- the pass -------------------------------------------------------------------------------------------------- */

static void rewrite_region(Rows *r, NstRegionId region)
{
    const NstRegion *body = nst_graph_region(r->graph, region);
    for (uint32_t k = 0; k < body->nodes.n; k++) {
        NstNode *node = nst_graph_node(r->graph, body->nodes.at[k]);
        NstRegionId inner[2];
        if (node->dead) continue;
        set_kinds(r, node);
        for (int i = nst_node_regions(node, inner); i-- > 0;) rewrite_region(r, inner[i]);
        if (node->prim == NST_PRIM_CONTRACT) nst_vec_push(r->graph->arena, &r->contractions, node);
        if (node->prim != NST_PRIM_MAP) continue;
        r->map = node;
        NstExpr formula = nst_expr_rewrite(r->exprs, node->attr.map.formula, rewrite_division, r);
        if (formula.i != node->attr.map.formula.i && !is_rounded_quotient(r, node)) node->attr.map.formula = formula;
    }
}

NstStatus nst_pass_reciprocal(NstCtx *ctx, NstGraph *graph)
{
    Rows r = {.graph = graph, .exprs = graph->exprs, .n_values = graph->values.n};
    r.kind = NST_NEW_ARRAY(graph->arena, uint8_t, graph->values.n);
    rewrite_region(&r, NST_GRAPH_REGION);
    return scale_results(ctx, &r);
}
