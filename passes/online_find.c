/* online_find.c: finds rows that are weighted sums about their maximum, by what nests compute.
 *
 * In: nests in order.  From a maximum over one axis, the keys, the axis is followed through every nest that touches what has an element
 * for each key.  One of these must be exp(score - maximum), and every sum over the keys linear in it: then a chunk of keys adds to
 * what those before it left, scaled by exp(maximum before - maximum now). */
#include "passes/online.h"

#include <math.h>

int nst_online_axis_of(const NstOnline *o, NstBuf buffer)
{
    for (uint32_t k = 0; k < o->along.n; k++)
        if (o->along.at[k].buffer.i == buffer.i) return (int)o->along.at[k].axis;
    return -1;
}

static bool is_load(const NstExprNode *node, NstBuf buffer)
{
    return node->op == NST_OP_LOAD && node->ref == buffer.i;
}

/* The index of `index` that is the symbol itself, -1 if none or more than one uses it. */
static int place_of(const NstModule *module, const NstDim *index, uint32_t n, NstSym sym)
{
    int place = -1;
    for (uint32_t d = 0; d < n; d++) {
        if (!nst_dim_uses(module->dims, index[d], sym)) continue;
        const NstDimNode *node = nst_dim_node(module->dims, index[d]);
        if (place >= 0 || node->op != NST_DIM_SYM) return -1;
        place = (int)d;
    }
    return place;
}

static bool uses(const NstModule *module, const NstDim *index, uint32_t n, NstSym sym)
{
    for (uint32_t d = 0; d < n; d++)
        if (nst_dim_uses(module->dims, index[d], sym)) return true;
    return false;
}

static bool is_zero(const NstModule *module, NstDim dim)
{
    int64_t value;
    return nst_dim_is_const(module->dims, dim, &value) && value == 0;
}

/* True if a[] without its index `key` is b[], indices of axes of one element left out. */
static bool same_row(const NstModule *module, const NstDim *a, uint32_t n_a, int key, const NstDim *b, uint32_t n_b)
{
    uint32_t i = 0, j = 0;
    for (;;) {
        while (i < n_a && ((int)i == key || is_zero(module, a[i]))) i++;
        while (j < n_b && is_zero(module, b[j])) j++;
        if (i == n_a || j == n_b) return i == n_a && j == n_b;
        if (!nst_dim_same(a[i++], b[j++])) return false;
    }
}

static bool is_arg(const NstModule *module, NstExpr e)
{
    const NstExprNode *node = nst_expr(module->exprs, e);
    return node->op == NST_OP_ARG && node->ref == 0;
}

static bool is_plain(const NstNest *nest)
{
    return !nest->n_lets && !nest->guard.i && !nest->store_guard.i && !nest->check.i && nest->n_outs == 1;
}

/* --- the maximum ------------------------------------------------------------------------------------------------ */

static bool is_max(const NstOnline *o, const NstNest *nest, NstExpr *score)
{
    NstExprs *exprs = o->module->exprs;
    if (!is_plain(nest) || nest->n_states != 1 || nest->n_reduce != 1) return false;
    const NstState *state = &nest->state[0];
    const NstExprNode *step = nst_expr(exprs, state->step);
    if (step->op != NST_OP_MAX || !nst_dtype_is_float(state->dtype) || !is_arg(o->module, nest->out[0].value))
        return false;
    if (state->identity.i != nst_expr_float(exprs, state->dtype, -INFINITY).i) return false;
    int which = is_arg(o->module, step->arg[0]) ? 1 : 0;
    *score = step->arg[which];
    return is_arg(o->module, step->arg[1 - which]) && nst_expr(exprs, *score)->op == NST_OP_LOAD;
}

static bool find_max(NstOnline *o)
{
    NstExpr score;
    for (o->at_max = 0; o->at_max < o->n; o->at_max++) {
        const NstNest *nest = o->nest[o->at_max];
        if (!is_max(o, nest, &score)) continue;
        const NstExprNode *load = nst_expr(o->module->exprs, score);
        const NstNestOut *out = &nest->out[0];
        int axis = place_of(o->module, load->index, load->n_index, nest->reduce[0].var);
        if (axis < 0 || !same_row(o->module, load->index, load->n_index, axis, out->index, out->n_index)) continue;
        o->score = (NstBuf){load->ref};
        o->max = out->buffer;
        o->keys = nest->reduce[0].extent;
        nst_vec_push(o->module->arena, &o->along, ((NstOnlineAlong){o->score, (uint32_t)axis}));
        return true;
    }
    return false;
}

/* --- the axis of the keys ------------------------------------------------------------------------------------------ */

/* What a visit to the loads of a nest looks for: its axis along the keys (asks), or buffers with an element for each key. */
typedef struct Follow {
    NstOnline *o;
    uint32_t nest;
    bool asks, wrong, changed;
} Follow;

static bool is_made_here(const NstOnline *o, NstBuf buffer)
{
    for (uint32_t k = 0; k < o->n; k++)
        for (uint32_t out = 0; out < o->nest[k]->n_outs; out++)
            if (o->nest[k]->out[out].buffer.i == buffer.i) return true;
    return false;
}

static void follow(Follow *f, NstBuf buffer, const NstDim *index, uint32_t n)
{
    NstOnline *o = f->o;
    NstSym *key = &o->key[f->nest];
    int axis = nst_online_axis_of(o, buffer);
    if (f->asks) {
        if (axis < 0) return;
        const NstDimNode *at = nst_dim_node(o->module->dims, index[axis]);
        f->wrong |= at->op != NST_DIM_SYM || (key->i && key->i != at->sym.i);
        f->changed |= !key->i;
        if (!f->wrong) *key = at->sym;
        return;
    }
    if (!is_made_here(o, buffer) || !uses(o->module, index, n, *key)) return;
    int place = place_of(o->module, index, n, *key);
    f->wrong |= place < 0 || (axis >= 0 && axis != place);
    if (place < 0 || axis >= 0) return;
    nst_vec_push(o->module->arena, &o->along, ((NstOnlineAlong){buffer, (uint32_t)place}));
    f->changed = true;
}

static void follow_load(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    if (node->op == NST_OP_LOAD) follow(arg, (NstBuf){node->ref}, node->index, node->n_index);
}

static void follow_nest(Follow *f)
{
    const NstNest *nest = f->o->nest[f->nest];
    NstExprs *exprs = f->o->module->exprs;
    for (uint32_t k = 0; k < nest->n_lets; k++) nst_expr_visit(exprs, nest->let[k].value, follow_load, f);
    for (uint32_t k = 0; k < nest->n_states; k++) nst_expr_visit(exprs, nest->state[k].step, follow_load, f);
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        nst_expr_visit(exprs, nest->out[k].value, follow_load, f);
        follow(f, nest->out[k].buffer, nest->out[k].index, nest->out[k].n_index);
    }
}

static bool follow_keys(NstOnline *o)
{
    bool again = true;
    while (again) {
        again = false;
        for (uint32_t k = 0; k < o->n; k++) {
            Follow f = {.o = o, .nest = k, .asks = true};
            follow_nest(&f);
            f.asks = false;
            if (o->key[k].i) follow_nest(&f);
            if (f.wrong) return false;
            again |= f.changed;
        }
    }
    return true;
}

/* Gives every nest with an axis along the keys its role; false if one has no place in the form. */
static bool give_roles(NstOnline *o)
{
    for (uint32_t k = 0; k < o->n; k++) {
        const NstNest *nest = o->nest[k];
        o->role[k] = NST_ONLINE_BEFORE;
        if (!o->key[k].i) continue;
        NstDim extent = {0};
        bool sum = false;
        if (!is_plain(nest)) return false;
        for (uint32_t a = 0; a < nest->n_axes; a++)
            if (nest->axis[a].var.i == o->key[k].i) extent = nest->axis[a].extent;
        for (uint32_t r = 0; r < nest->n_reduce; r++)
            if (nest->reduce[r].var.i == o->key[k].i) extent = nest->reduce[r].extent, sum = true;
        if (!extent.i || (sum && (nest->n_reduce != 1 || !nst_dim_same(extent, o->keys)))) return false;
        o->role[k] = k == o->at_max ? NST_ONLINE_MAX : sum ? NST_ONLINE_SUM : NST_ONLINE_ALONG;
        if ((nst_online_axis_of(o, nest->out[0].buffer) >= 0) == sum) return false;
    }
    return o->role[o->at_max] == NST_ONLINE_MAX;
}

/* --- weights and their sums ------------------------------------------------------------------------------------------ */

/* Whether an expression reads weights, or what is known only after all keys. */
typedef struct Reading {
    const NstBufList *list;
    bool found;
} Reading;

static void visit_reading(void *arg, NstExpr e, const NstExprNode *node)
{
    Reading *r = arg;
    (void)e;
    if (node->op == NST_OP_LOAD) r->found |= nst_fuser_holds(r->list, (NstBuf){node->ref});
}

static bool reads(const NstModule *module, NstExpr e, const NstBufList *list)
{
    Reading r = {list, false};
    nst_expr_visit(module->exprs, e, visit_reading, &r);
    return r.found;
}

static bool nest_reads(NstModule *module, const NstNest *nest, const NstBufList *list)
{
    NstBufList all = {0};
    nst_nest_reads(module, nest, &all);
    return nst_fuser_meet(&all, list);
}

/* True if e is a weight times what reads no weights. */
static bool is_linear(const NstModule *module, NstExpr e, const NstBufList *weights)
{
    const NstExprNode *node = nst_expr(module->exprs, e);
    switch (node->op) {
    case NST_OP_LOAD: return nst_fuser_holds(weights, (NstBuf){node->ref});
    case NST_OP_MUL:
        return reads(module, node->arg[0], weights)
                   ? is_linear(module, node->arg[0], weights) && !reads(module, node->arg[1], weights)
                   : is_linear(module, node->arg[1], weights);
    case NST_OP_DIV: return is_linear(module, node->arg[0], weights) && !reads(module, node->arg[1], weights);
    default: return false;
    }
}

/* exp(score - max), at the row's own place. */
static bool is_weight(const NstOnline *o, const NstNest *nest)
{
    NstExprs *exprs = o->module->exprs;
    const NstExprNode *exp = nst_expr(exprs, nest->out[0].value);
    if (nest->n_states || exp->op != NST_OP_EXP) return false;
    const NstExprNode *difference = nst_expr(exprs, exp->arg[0]);
    if (difference->op != NST_OP_SUB) return false;
    const NstExprNode *score = nst_expr(exprs, difference->arg[0]), *max = nst_expr(exprs, difference->arg[1]);
    if (!is_load(score, o->score) || !is_load(max, o->max)) return false;
    return same_row(o->module, score->index, score->n_index, nst_online_axis_of(o, o->score), max->index, max->n_index);
}

static bool is_weighted_sum(const NstOnline *o, const NstNest *nest, const NstBufList *weights, NstDtype type)
{
    NstModule *module = o->module;
    const NstState *state = &nest->state[0];
    if (nest->n_states != 1 || state->dtype != type) return false;
    const NstExprNode *step = nst_expr(module->exprs, state->step), *merge = nst_expr(module->exprs, state->merge);
    if (merge->op != NST_OP_ADD || state->identity.i != nst_expr_float(module->exprs, type, 0).i) return false;
    if (step->op == NST_OP_ADD) return is_arg(module, step->arg[0]) && is_linear(module, step->arg[1], weights);
    if (step->op != NST_OP_FMA || !is_arg(module, step->arg[2])) return false;
    bool first = is_linear(module, step->arg[0], weights), second = is_linear(module, step->arg[1], weights);
    return first ? !reads(module, step->arg[1], weights) : second && !reads(module, step->arg[0], weights);
}

/* Checks what the nests compute, in their order. */
static bool check_terms(NstOnline *o)
{
    NstModule *module = o->module;
    NstBufList weights = {0}, late = {0}; /* late: known after all keys */
    NstDtype type = o->nest[o->at_max]->state[0].dtype;
    bool contracts = false, scores = false, found = false;
    for (uint32_t k = 0; k < o->n; k++) {
        const NstNest *nest = o->nest[k];
        if (o->role[k] == NST_ONLINE_ALONG && !found && is_weight(o, nest)) {
            found = true;
            nst_nest_writes(module, nest, &weights);
        } else if (o->role[k] == NST_ONLINE_ALONG) {
            if (nest_reads(module, nest, &late)) return false;
            scores |= nst_nest_is_product(module, nest);
            if (!nest_reads(module, nest, &weights)) continue;
            if (nest->n_states || !is_linear(module, nest->out[0].value, &weights)) return false;
            nst_nest_writes(module, nest, &weights);
        } else if (o->role[k] == NST_ONLINE_SUM) {
            if (!is_weighted_sum(o, nest, &weights, type) || reads(module, nest->state[0].step, &late)) return false;
            contracts |= nst_nest_is_product(module, nest);
            nst_nest_writes(module, nest, &late);
        } else if (o->role[k] == NST_ONLINE_MAX || nest_reads(module, nest, &late)) {
            if (o->role[k] != NST_ONLINE_MAX) o->role[k] = NST_ONLINE_AFTER;
            nst_nest_writes(module, nest, &late);
        }
    }
    return found && contracts && scores;
}

bool nst_online_find(NstModule *module, NstNest *const *nest, uint32_t n, NstOnline *o)
{
    *o = (NstOnline){.module = module, .nest = nest, .n = n};
    return n <= NST_ONLINE_MAX_NESTS && find_max(o) && follow_keys(o) && give_roles(o) && check_terms(o);
}
