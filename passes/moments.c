/* moments.c: the sum of a row and the sum of its squared distances from a value, in one pass over the row (layer norm, variance).
 *
 * In: fused groups with a nest  s = sum x  and, after it, one  t = sum (x - m)^2  over the same elements, m one value a row (most
 * often made of s, so that t would have to wait for the end of s).  Out: a pivot k of each row, the mean of its first elements;
 * one nest with both  a = sum (x - k)  and  b = sum (x - k)^2;  s = a + n k,  and  t = b - d (2 a - n d)  with d = m - k, which
 * becomes a map of one value a row.
 * Approximate.  What cancels in t is at most the square of what lies between pivot and mean: with p elements in the pivot, at most
 * n / p times t (Cauchy-Schwarz), so t is off by up to about n / p times the roundings of a sum where all p are outliers, and
 * by as little as in two passes where they are not.  A row that is not finite gives NaN as before; one with elements within a factor n of the largest
 * float may overflow where sum x does not. */
#include "passes/pass.h"

#include <math.h>

/* Elements of the pivot: one vector, summed by as many lanes. */
enum { PIVOT = 16 };

typedef struct Moments {
    NstModule *module;
    NstExprs *exprs;
    NstDims *dims;
    NstGroup *group;
    NstNest *sum, *squares;
    NstExpr x;     /* of `sum` */
    NstExpr value; /* m, of `squares` */
    NstDtype type;
    NstBuf pivot, total, square; /* k, a, b by row */
} Moments;

static NstExpr binary(Moments *m, NstScalarOp op, NstExpr a, NstExpr b)
{
    return nst_expr_binary(m->exprs, op, a, b);
}

static bool is_arg(const Moments *m, NstExpr e, uint32_t slot)
{
    const NstExprNode *node = nst_expr(m->exprs, e);
    return node->op == NST_OP_ARG && node->ref == slot;
}

/* What a plain sum adds up; none: the nest is no plain sum of floats. */
static NstExpr summand(const Moments *m, const NstNest *nest)
{
    NstExpr none = {0};
    if (!nest || nest->n_states != 1 || !nest->n_reduce || nest->n_lets || nest->guard.i || nest->store_guard.i ||
        nest->check.i || !nst_dtype_is_float(nest->state[0].dtype))
        return none;
    const NstExprNode *merge = nst_expr(m->exprs, nest->state[0].merge),
                      *step = nst_expr(m->exprs, nest->state[0].step);
    const NstExprNode *start = nst_expr(m->exprs, nest->state[0].identity);
    if (merge->op != NST_OP_ADD || start->op != NST_OP_CONST || start->imm.f != 0) return none;
    if (step->op == NST_OP_ADD && is_arg(m, step->arg[0], 0)) return step->arg[1];
    if (step->op == NST_OP_ADD && is_arg(m, step->arg[1], 0)) return step->arg[0];
    return none;
}

/* d of a sum of d * d; none: it is no such sum. */
static NstExpr squared(const Moments *m, const NstNest *nest)
{
    NstExpr none = {0}, e = summand(m, nest);
    if (!e.i) return none;
    const NstExprNode *node = nst_expr(m->exprs, e);
    return node->op == NST_OP_MUL && node->arg[0].i == node->arg[1].i ? node->arg[0] : none;
}

static bool moves(const Moments *m, NstExpr e, const NstNest *nest)
{
    for (uint32_t k = 0; k < nest->n_reduce; k++)
        if (nst_expr_uses_sym(m->exprs, e, nest->reduce[k].var)) return true;
    return false;
}

/* e of nest `from` in the axes of nest `to`; none: they have not the same axes. */
static NstExpr in_axes_of(const Moments *m, NstExpr e, const NstNest *from, const NstNest *to)
{
    uint32_t n = nst_dims_sym_count(m->dims) + 1;
    NstDim *value = NST_NEW_ARRAY(m->module->arena, NstDim, n);
    if (from->n_axes != to->n_axes || from->n_reduce != to->n_reduce) return (NstExpr){0};
    for (uint32_t k = 0; k < from->n_axes + from->n_reduce; k++) {
        const NstAxis *a = k < from->n_axes ? &from->axis[k] : &from->reduce[k - from->n_axes];
        const NstAxis *b = k < from->n_axes ? &to->axis[k] : &to->reduce[k - from->n_axes];
        if (!nst_dim_same(a->extent, b->extent)) return (NstExpr){0};
        value[a->var.i] = nst_dim_sym(m->dims, b->var);
    }
    return nst_expr_subst_syms(m->exprs, e, value, n);
}

static bool matches(Moments *m)
{
    NstExpr d = squared(m, m->squares);
    m->x = summand(m, m->sum);
    if (!m->x.i || !d.i || m->sum->state[0].dtype != m->squares->state[0].dtype) return false;
    m->type = m->sum->state[0].dtype;
    const NstExprNode node = *nst_expr(m->exprs, d);
    if (node.op != NST_OP_SUB || !moves(m, m->x, m->sum)) return false;
    for (int side = 0; side < 2; side++) {
        m->value = node.arg[1 - side];
        if (!moves(m, m->value, m->squares) && in_axes_of(m, node.arg[side], m->squares, m->sum).i == m->x.i)
            return true;
    }
    return false;
}

/* --- rewriting ----------------------------------------------------------------------------------------------- */

static NstDim *row_index(Moments *m, const NstNest *nest)
{
    NstDim *index = NST_NEW_ARRAY(m->module->arena, NstDim, nest->n_axes);
    for (uint32_t k = 0; k < nest->n_axes; k++) index[k] = nst_dim_sym(m->dims, nest->axis[k].var);
    return index;
}

/* A buffer of one value a row that lives within the group. */
static NstBuf row_buffer(Moments *m, const char *name)
{
    NstDim *shape = NST_NEW_ARRAY(m->module->arena, NstDim, m->sum->n_axes);
    for (uint32_t k = 0; k < m->sum->n_axes; k++) shape[k] = m->sum->axis[k].extent;
    NstBuf buffer = nst_module_buffer(m->module, name, m->type, (int)m->sum->n_axes, shape, NST_ROLE_TEMP);
    nst_vec_push(m->module->arena, &m->group->locals, buffer);
    return buffer;
}

static NstExpr row_value(Moments *m, NstBuf buffer, const NstNest *nest)
{
    return nst_expr_load(m->exprs, m->type, buffer, row_index(m, nest), nest->n_axes);
}

static NstNestOut row_out(Moments *m, NstBuf buffer, const NstNest *nest, NstExpr value)
{
    return (NstNestOut){.buffer = buffer, .n_index = nest->n_axes, .index = row_index(m, nest), .value = value};
}

/* The number of elements of the reduced axes. */
static NstExpr count_of(Moments *m, const NstNest *nest)
{
    NstDim count = nst_dim_const(m->dims, 1);
    for (uint32_t k = 0; k < nest->n_reduce; k++) count = nst_dim_mul(m->dims, count, nest->reduce[k].extent);
    return nst_expr_convert(m->exprs, m->type, nst_expr_index(m->exprs, count), false);
}

static NstNest *pivot_nest(Moments *m)
{
    NstNest *nest = nst_copy(m->module->arena, m->sum, sizeof *nest);
    nest->name = "pivot";
    nest->lanes = PIVOT;
    nest->reduce = nst_copy(m->module->arena, nest->reduce, nest->n_reduce * sizeof *nest->reduce);
    for (uint32_t k = 0; k < nest->n_reduce; k++) {
        NstDim most = nst_dim_const(m->dims, k + 1 < nest->n_reduce ? 1 : PIVOT);
        nest->reduce[k].extent = nst_dim_min(m->dims, nest->reduce[k].extent, most);
    }
    nest->n_outs = 1;
    nest->out = NST_NEW(m->module->arena, NstNestOut);
    NstExpr mean = binary(m, NST_OP_DIV, nst_expr_arg(m->exprs, m->type, 0), count_of(m, nest));
    nest->out[0] = row_out(m, m->pivot, nest, mean);
    return nst_nest_clone(m->module, nest);
}

/* The outputs of `nest` with its sum replaced, and room for `more`. */
static NstNestOut *outs_with(Moments *m, const NstNest *nest, NstExpr sum, uint32_t more)
{
    NstNestOut *out = NST_NEW_ARRAY(m->module->arena, NstNestOut, nest->n_outs + more);
    memcpy(out, nest->out, nest->n_outs * sizeof *out);
    for (uint32_t k = 0; k < nest->n_outs; k++) out[k].value = nst_expr_subst_args(m->exprs, out[k].value, &sum, 1);
    return out;
}

static void sum_both(Moments *m)
{
    NstNest *nest = m->sum;
    NstExpr a = nst_expr_arg(m->exprs, m->type, 0), b = nst_expr_arg(m->exprs, m->type, 1);
    NstExpr k = row_value(m, m->pivot, nest), d = binary(m, NST_OP_SUB, m->x, k);
    NstExpr zero = nst_expr_float(m->exprs, m->type, 0);
    nest->n_states = 2;
    nest->state = NST_NEW_ARRAY(m->module->arena, NstState, 2);
    nest->state[0] = (NstState){m->type, zero, binary(m, NST_OP_ADD, a, d),
                                binary(m, NST_OP_ADD, a, nst_expr_arg(m->exprs, m->type, 2))};
    nest->state[1] = (NstState){m->type, zero, nst_expr_ternary(m->exprs, NST_OP_FMA, d, d, b),
                                binary(m, NST_OP_ADD, b, nst_expr_arg(m->exprs, m->type, 3))};
    NstExpr sum = nst_expr_ternary(m->exprs, NST_OP_FMA, count_of(m, nest), k, a);
    nest->out = outs_with(m, nest, sum, 2);
    nest->out[nest->n_outs++] = row_out(m, m->total, nest, a);
    nest->out[nest->n_outs++] = row_out(m, m->square, nest, b);
}

/* t = b - d (2 a - n d), never below 0; infinite where b is (the difference would be of two infinities). */
static void squares_from_both(Moments *m)
{
    NstNest *nest = m->squares;
    NstExpr a = row_value(m, m->total, nest), b = row_value(m, m->square, nest), k = row_value(m, m->pivot, nest);
    NstExpr d = binary(m, NST_OP_SUB, m->value, k), n = count_of(m, nest), zero = nst_expr_float(m->exprs, m->type, 0);
    NstExpr twice = binary(m, NST_OP_ADD, a, binary(m, NST_OP_SUB, a, binary(m, NST_OP_MUL, n, d)));
    NstExpr t = binary(m, NST_OP_MAX, binary(m, NST_OP_SUB, b, binary(m, NST_OP_MUL, d, twice)), zero);
    NstExpr infinite = binary(m, NST_OP_EQ, b, nst_expr_float(m->exprs, m->type, INFINITY));
    t = nst_expr_ternary(m->exprs, NST_OP_SELECT, infinite, b, t);
    nest->out = outs_with(m, nest, t, 0);
    nest->n_states = nest->n_reduce = 0;
    nest->lanes = 0;
}

static void rewrite(Moments *m, uint32_t at)
{
    NstGroup *group = m->group;
    m->pivot = row_buffer(m, "pivot");
    m->total = row_buffer(m, "total");
    m->square = row_buffer(m, "square");
    NstNest *pivot = pivot_nest(m);
    sum_both(m);
    squares_from_both(m);
    nst_vec_push(m->module->arena, &group->items, (NstGroupItem){.nest = pivot});
    for (uint32_t k = group->items.n - 1; k > at; k--) group->items.at[k] = group->items.at[k - 1];
    group->items.at[at] = (NstGroupItem){.nest = pivot};
}

void nst_pass_moments(NstModule *module)
{
    Moments m = {.module = module, .exprs = module->exprs, .dims = module->dims};
    for (uint32_t g = 0; g < module->groups.n; g++) {
        m.group = module->groups.at[g];
        if (m.group->serial || !m.group->n_axes) continue; /* one kernel, a row an iteration */
        for (uint32_t a = 0; a < m.group->items.n; a++)
            for (uint32_t b = a + 1; b < m.group->items.n; b++) {
                m.sum = m.group->items.at[a].nest;
                m.squares = m.group->items.at[b].nest;
                if (m.sum && m.squares && matches(&m)) rewrite(&m, a);
            }
    }
}
