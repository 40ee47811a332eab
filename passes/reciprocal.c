/* reciprocal.c: division of a whole row by one value as a product with its reciprocal (softmax, norms).
 *
 * In: a graph.  Out: in the formulas of maps, x / d becomes x * (1 / d) where d is one value a row and x is not; "simplify" then
 * computes 1 / d once a row.  What is one value a row is said by the graph, never by a size, which would be another one in plans
 * for open and for declared sizes: a reduce that keeps the last axis, a scalar, and maps of such; not what happens to have a last
 * axis of one element.  Nor what is computed from sizes and numbers alone, which is a constant where sizes are declared.
 * A quotient that is rounded to a whole number (quantisation) stays one: an ulp would move it by a step.
 * Approximate: one rounding more, so at most 2 ulp from the quotient while |d| is in 2^-126 .. 2^126; outside, a reciprocal
 * may overflow or lose bits. */
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
    uint8_t *kind; /* by value */
    const NstNode *map;
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
        if (node->prim != NST_PRIM_MAP) continue;
        r->map = node;
        NstExpr formula = nst_expr_rewrite(r->exprs, node->attr.map.formula, rewrite_division, r);
        if (formula.i != node->attr.map.formula.i && !is_rounded_quotient(r, node)) node->attr.map.formula = formula;
    }
}

void nst_pass_reciprocal(NstGraph *graph)
{
    Rows r = {.graph = graph, .exprs = graph->exprs};
    r.kind = NST_NEW_ARRAY(graph->arena, uint8_t, graph->values.n);
    rewrite_region(&r, NST_GRAPH_REGION);
}
