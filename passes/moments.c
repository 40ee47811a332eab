/* moments.c: the sum of a row and the sum of its squared distances from a value, in one pass over the row (layer norm, variance).
 *
 * In: a graph with a reduce  s = sum x  and, over the same axes, one  t = sum (x - m)^2,  m one value a row that is made of s (so
 * that t would have to wait for the end of s).  Out: a pivot k of each row, the mean of its first elements; one reduce with both
 * a = sum (x - k)  and  b = sum (x - k)^2;  s = a + n k,  and  t = b - d (2 a - n d)  with d = m - k, maps of one value a row.
 * It is decided on the graph, by which nodes read which values, and never by a size nor by what sizes let be fused: plans for
 * open and for declared sizes sum alike.
 * Approximate.  What cancels in t is at most the square of what lies between pivot and mean: with p elements in the pivot, at most
 * n / p times t (Cauchy-Schwarz), so t is off by up to about n / p times the roundings of a sum where all p are outliers, and
 * by as little as in two passes where they are not.  A row that is not finite gives NaN as before; one with elements within a factor n of the largest
 * float may overflow where sum x does not. */
#include "passes/pass.h"

#include "ir/build.h"

/* Elements of the pivot: one vector, summed by as many lanes. */
enum { PIVOT = 16 };
/* Nodes that are looked at to see that a value is made of a sum: a mean takes a few. */
enum { MAX_VISITS = 64 };
/* Inputs of a map whose formula has the difference. */
enum { MAX_OPERANDS = 64 };

/* A sum, and one of squared distances from a value made of it. */
typedef struct Pair {
    const NstNode *sum, *squares;
    const NstNode *difference; /* the map that has x - m as (part of) its formula */
    NstExpr value;             /* m, over that map's inputs */
    bool done;
} Pair;

typedef struct Moments {
    NstGraph *graph;
    NstExprs *exprs;
    NstArena *arena;
    NST_VEC(Pair) pairs;
} Moments;

static bool is_arg(const Moments *m, NstExpr e, uint32_t slot)
{
    const NstExprNode *node = nst_expr(m->exprs, e);
    return node->op == NST_OP_ARG && node->ref == slot;
}

/* True if the node sums the elements of its one input, floats of one type. */
static bool is_plain_sum(const Moments *m, const NstNode *node)
{
    if (node->dead || node->prim != NST_PRIM_REDUCE || node->n_in != 1 || node->attr.reduce.skip_padding) return false;
    const NstCombine *combine = &node->attr.reduce.combine;
    if (combine->n_states != 1 || node->attr.reduce.n_axes == 0) return false;
    const NstExprNode *step = nst_expr(m->exprs, combine->step[0]), *merge = nst_expr(m->exprs, combine->merge[0]),
                      *start = nst_expr(m->exprs, combine->init[0]);
    NstDtype type = nst_value_type(m->graph, node->in[0])->dtype;
    if (!nst_dtype_is_float(type) || step->type != type) return false;
    if (step->op != NST_OP_ADD || merge->op != NST_OP_ADD || start->op != NST_OP_CONST || start->imm.f != 0)
        return false;
    return (is_arg(m, step->arg[0], 0) && is_arg(m, step->arg[1], 1)) ||
           (is_arg(m, step->arg[1], 0) && is_arg(m, step->arg[0], 1));
}

static bool reduces_axis(const NstNode *reduce, int axis)
{
    for (int k = 0; k < reduce->attr.reduce.n_axes; k++)
        if (reduce->attr.reduce.axes[k] == axis) return true;
    return false;
}

static bool same_axes(const NstNode *a, const NstNode *b)
{
    if (a->attr.reduce.n_axes != b->attr.reduce.n_axes) return false;
    for (int k = 0; k < a->attr.reduce.n_axes; k++)
        if (!reduces_axis(b, a->attr.reduce.axes[k])) return false;
    return true;
}

/* A map's formula with the numbers it reads in it. */
static NstExpr formula_of(const Moments *m, const NstNode *map)
{
    NstExpr *with = NST_NEW_ARRAY(m->arena, NstExpr, map->n_in);
    for (uint32_t k = 0; k < map->n_in; k++) {
        const NstNode *from = nst_value_node(m->graph, map->in[k]);
        NstDtype type = nst_value_type(m->graph, map->in[k])->dtype;
        while (from->prim == NST_PRIM_RESHAPE || from->prim == NST_PRIM_EXPAND)
            from = nst_value_node(m->graph, from->in[0]);
        bool number = from->prim == NST_PRIM_CONST && !from->attr.constant.data;
        with[k] = number ? nst_expr_const(m->exprs, type, from->attr.constant.splat) : nst_expr_arg(m->exprs, type, k);
    }
    return nst_expr_subst_args(m->exprs, map->attr.map.formula, with, map->n_in);
}

/* The map that makes the difference whose square is summed, and the difference; false if none is. */
static bool find_difference(const Moments *m, const NstNode *squares, Pair *pair, NstExprNode *difference)
{
    const NstNode *node = nst_value_node(m->graph, squares->in[0]);
    if (node->prim != NST_PRIM_MAP) return false;
    const NstExprNode *square = nst_expr(m->exprs, formula_of(m, node));
    if (square->op != NST_OP_MUL || square->arg[0].i != square->arg[1].i) return false;
    const NstExprNode *factor = nst_expr(m->exprs, square->arg[0]);
    if (factor->op == NST_OP_ARG) {
        node = nst_value_node(m->graph, node->in[factor->ref]);
        if (node->prim != NST_PRIM_MAP) return false;
        factor = nst_expr(m->exprs, formula_of(m, node));
    }
    pair->difference = node;
    *difference = *factor;
    return factor->op == NST_OP_SUB;
}

/* What a value is made of, element by element: the sum, with constants and sizes at most besides; those alone; anything. */
typedef enum Source { OF_SUM, OF_NUMBERS, OF_OTHERS } Source;

static Source source_of(const Moments *m, const NstNode *sum, NstVal value, int *visits)
{
    const NstNode *node = nst_value_node(m->graph, value);
    Source source = OF_NUMBERS;
    if (node == sum) return OF_SUM;
    if (--*visits < 0) return OF_OTHERS;
    switch (node->prim) {
    case NST_PRIM_CONST:
    case NST_PRIM_DIM_VALUE: return OF_NUMBERS;
    case NST_PRIM_MAP:
    case NST_PRIM_CONVERT:
    case NST_PRIM_RESHAPE:
        for (uint32_t k = 0; k < node->n_in && source != OF_OTHERS; k++) {
            Source of = source_of(m, sum, node->in[k], visits);
            if (of != OF_NUMBERS) source = of;
        }
        return source;
    default: return OF_OTHERS;
    }
}

/* True if the value has one element for each row of what is summed. */
static bool is_one_a_row(const Moments *m, const NstNode *sum, NstVal value)
{
    const NstType *type = nst_value_type(m->graph, value), *x = nst_value_type(m->graph, sum->in[0]);
    if (type->rank != x->rank) return false;
    for (int k = 0; k < sum->attr.reduce.n_axes; k++)
        if (!nst_dim_same(type->shape[sum->attr.reduce.axes[k]], nst_dim_const(m->graph->dims, 1))) return false;
    return true;
}

typedef struct Operands {
    bool used[MAX_OPERANDS];
    bool too_many;
} Operands;

static void note_operand(void *arg, NstExpr e, const NstExprNode *node)
{
    Operands *operands = arg;
    (void)e;
    if (node->op != NST_OP_ARG) return;
    if (node->ref < MAX_OPERANDS)
        operands->used[node->ref] = true;
    else
        operands->too_many = true;
}

/* True if m is one value a row, made of the sum. */
static bool is_made_of_sum(const Moments *m, const Pair *pair)
{
    Operands operands = {.too_many = false};
    int visits = MAX_VISITS;
    bool made = false;
    nst_expr_visit(m->exprs, pair->value, note_operand, &operands);
    for (uint32_t k = 0; k < pair->difference->n_in && k < MAX_OPERANDS; k++) {
        if (!operands.used[k]) continue;
        NstVal value = pair->difference->in[k];
        Source source = source_of(m, pair->sum, value, &visits);
        if (source == OF_OTHERS || !is_one_a_row(m, pair->sum, value)) return false;
        made = made || source == OF_SUM;
    }
    return made && !operands.too_many;
}

/* True if the region is that of the other one, or in it: a branch, of which sizes may say that it is taken. */
static bool is_within(const Moments *m, NstRegionId region, NstRegionId outer)
{
    while (region.i != outer.i) {
        NstNodeId owner = nst_graph_region(m->graph, region)->owner;
        if (!owner.i) return false;
        region = nst_graph_node(m->graph, owner)->region;
    }
    return true;
}

/* Finds the sum of x that goes with a sum of squares of x - m. */
static bool find_sum(const Moments *m, NstVal x, Pair *pair)
{
    const NstValue *info = nst_graph_value(m->graph, x);
    for (uint32_t k = 0; k < info->uses.n; k++) {
        pair->sum = nst_graph_node(m->graph, info->uses.at[k].node);
        if (is_plain_sum(m, pair->sum) && is_within(m, pair->squares->region, pair->sum->region) &&
            same_axes(pair->sum, pair->squares) && is_made_of_sum(m, pair))
            return true;
    }
    return false;
}

static bool find_pair(const Moments *m, const NstNode *squares, Pair *pair)
{
    NstExprNode difference;
    *pair = (Pair){.squares = squares};
    if (!is_plain_sum(m, squares) || !find_difference(m, squares, pair, &difference)) return false;
    for (int side = 0; side < 2; side++) {
        const NstExprNode *x = nst_expr(m->exprs, difference.arg[side]);
        pair->value = difference.arg[1 - side];
        if (x->op == NST_OP_ARG && find_sum(m, pair->difference->in[x->ref], pair)) return true;
    }
    return false;
}

/* --- rewriting ----------------------------------------------------------------------------------------------- */

/* What is known of each row of a sum, its axes kept. */
typedef struct Row {
    NstVal count, pivot, total, square; /* n, k, a, b */
} Row;

/* The number of elements of the reduced axes, of a value of that type. */
static NstVal count_of(NstBuild *build, const NstType *type, const NstNode *sum)
{
    NstDims *dims = build->graph->dims;
    NstDim count = nst_dim_const(dims, 1);
    for (int k = 0; k < sum->attr.reduce.n_axes; k++)
        count = nst_dim_mul(dims, count, type->shape[sum->attr.reduce.axes[k]]);
    return nst_build_convert(build, nst_build_dim_value(build, count), type->dtype, false);
}

/* The mean of the first elements of the innermost reduced axis; 0 of none. */
static NstVal build_pivot(NstBuild *build, const NstNode *sum)
{
    NstDims *dims = build->graph->dims;
    const NstType *x = nst_value_type(build->graph, sum->in[0]);
    NstDim size[NST_MAX_RANK], start[NST_MAX_RANK];
    int64_t step[NST_MAX_RANK];
    int inner = 0;
    for (int k = 0; k < sum->attr.reduce.n_axes; k++)
        if (sum->attr.reduce.axes[k] > inner) inner = sum->attr.reduce.axes[k];
    for (int axis = 0; axis < x->rank; axis++) {
        NstDim most = nst_dim_const(dims, axis == inner ? PIVOT : 1);
        size[axis] = reduces_axis(sum, axis) ? nst_dim_min(dims, x->shape[axis], most) : x->shape[axis];
        start[axis] = nst_dim_const(dims, 0);
        step[axis] = 1;
    }
    NstVal first = nst_build_slice(build, sum->in[0], start, step, size), in[2];
    in[0] = nst_build_reduce(build, first, "a + b", sum->attr.reduce.n_axes, sum->attr.reduce.axes, true);
    if (build->status != NST_OK) return in[0];
    nst_value_node(build->graph, in[0])->attr.reduce.lanes = inner == x->rank - 1 ? PIVOT : 1;
    in[1] = count_of(build, nst_value_type(build->graph, first), sum);
    NstVal pivot = nst_build_map(build, "a / max(b, 1)", 2, in, NULL, 0);
    if (build->status == NST_OK) nst_graph_value(build->graph, pivot)->name = "pivot";
    return pivot;
}

/* Both sums about the pivot, in one pass. */
static void build_sums(NstBuild *build, const NstNode *sum, Row *row)
{
    static const char *const formula[2][2] = {{"a + (c - d)", "a + c"}, {"fma(c - d, c - d, b)", "b + d"}};
    const NstType *x = nst_value_type(build->graph, sum->in[0]);
    NstDtype type[4] = {x->dtype, x->dtype, x->dtype, x->dtype};
    NstVal in[2] = {sum->in[0], nst_build_expand(build, row->pivot, x->rank, x->shape)}, out[2];
    NstExpr step[2], merge[2], init[2];
    for (int k = 0; k < 2; k++) {
        step[k] = nst_build_formula(build, formula[k][0], type, 4, x->dtype);
        merge[k] = nst_build_formula(build, formula[k][1], type, 4, x->dtype);
        init[k] = nst_expr_float(build->graph->exprs, x->dtype, 0);
    }
    NstCombine combine = {2, step, merge, init};
    if (nst_build_reduce_tuple(build, 2, in, combine, sum->attr.reduce.n_axes, sum->attr.reduce.axes, true, false,
                               out) != NST_OK)
        return;
    nst_value_node(build->graph, out[0])->attr.reduce.lanes = sum->attr.reduce.lanes;
    row->total = out[0];
    row->square = out[1];
}

/* `value`, which has the axes kept, in the place of a reduce's result. */
static void put_in_place(NstBuild *build, const NstNode *reduce, NstVal value)
{
    const NstType *type = nst_value_type(build->graph, reduce->out[0]);
    if (!reduce->attr.reduce.keep) value = nst_build_reshape(build, value, type->rank, type->shape);
    if (build->status != NST_OK) return;
    nst_graph_value(build->graph, value)->name = nst_graph_value(build->graph, reduce->out[0])->name;
    nst_graph_replace(build->graph, reduce->out[0], value);
}

/* m as a value: an input of the difference, or a map of its own. */
static NstVal build_value(const Moments *m, NstBuild *build, const Pair *pair)
{
    const NstNode *map = pair->difference;
    NstExpr *with = NST_NEW_ARRAY(m->arena, NstExpr, map->n_in);
    NstVal *in = NST_NEW_ARRAY(m->arena, NstVal, map->n_in);
    Operands operands = {.too_many = false};
    uint32_t n = 0;
    const NstExprNode *node = nst_expr(m->exprs, pair->value);
    if (node->op == NST_OP_ARG) return map->in[node->ref];
    nst_expr_visit(m->exprs, pair->value, note_operand, &operands);
    for (uint32_t k = 0; k < map->n_in; k++) {
        NstDtype type = nst_value_type(m->graph, map->in[k])->dtype;
        with[k] = nst_expr_arg(m->exprs, type, n);
        if (k < MAX_OPERANDS && operands.used[k]) in[n++] = map->in[k];
    }
    return nst_build_map_expr(build, nst_expr_subst_args(m->exprs, pair->value, with, map->n_in), n, in);
}

/* t = b - d (2 a - n d), never below 0; infinite where b is (the difference would be of two infinities). */
static NstVal build_squares(const Moments *m, NstBuild *build, const Pair *pair, const Row *row)
{
    NstVal value = build_value(m, build, pair);
    NstVal distance = nst_build_map(build, "a - b", 2, (NstVal[]){value, row->pivot}, NULL, 0);
    NstVal in[4] = {row->total, row->square, distance, row->count};
    return nst_build_map(build, "b == inf ? b : max(b - c * (a + (a - c * d)), 0)", 4, in, NULL, 0);
}

/* Rewrites the sum of a pair, and every sum of squares that goes with it. */
static NstStatus rewrite(NstCtx *ctx, Moments *m, uint32_t first)
{
    const NstNode *sum = m->pairs.at[first].sum;
    NstBuild build;
    nst_build_init(&build, ctx, m->graph, sum->region);
    build.origin = nst_origin_merge(m->graph->origins, sum->origin, m->pairs.at[first].squares->origin);
    Row row = {.count = count_of(&build, nst_value_type(m->graph, sum->in[0]), sum), .pivot = build_pivot(&build, sum)};
    build_sums(&build, sum, &row);
    NstVal in[3] = {row.count, row.pivot, row.total};
    put_in_place(&build, sum, nst_build_map(&build, "fma(a, b, c)", 3, in, NULL, 0));
    for (uint32_t k = first; k < m->pairs.n && build.status == NST_OK; k++) {
        Pair *pair = &m->pairs.at[k];
        if (pair->sum != sum) continue;
        build.region = pair->squares->region;
        put_in_place(&build, pair->squares, build_squares(m, &build, pair, &row));
        pair->done = true;
    }
    return nst_build_status(&build);
}

/* A loop's body runs in order, step by step: its states are rows of a serial group, which keeps its sums. */
static bool is_in_loop(const NstGraph *graph, NstRegionId region)
{
    while (nst_graph_region(graph, region)->owner.i) {
        const NstNode *owner = nst_graph_node(graph, nst_graph_region(graph, region)->owner);
        if (owner->prim == NST_PRIM_LOOP) return true;
        region = owner->region;
    }
    return false;
}

NstStatus nst_pass_moments(NstCtx *ctx, NstGraph *graph)
{
    Moments m = {.graph = graph, .exprs = graph->exprs, .arena = graph->arena};
    for (uint32_t k = 1; k < graph->nodes.n; k++) {
        Pair pair;
        const NstNode *node = graph->nodes.at[k];
        if (find_pair(&m, node, &pair) && !is_in_loop(graph, node->region)) nst_vec_push(m.arena, &m.pairs, pair);
    }
    for (uint32_t k = 0; k < m.pairs.n; k++)
        if (!m.pairs.at[k].done) NST_TRY(rewrite(ctx, &m, k));
    if (m.pairs.n) nst_graph_sweep(graph);
    return NST_OK;
}
