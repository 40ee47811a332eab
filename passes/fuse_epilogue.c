/* fuse_epilogue.c: rule 2: a map that reads a nest's result at exactly the places where it is written joins that nest.
 *
 * The place of reading is solved for the map's axes: each is an axis of the producer, or a digit of one (after a reshape
 * that splits), or several producer axes joined (after one that merges).  The result itself stays stored only if others read it. */
#include "passes/fuse.h"

enum { MAX_OUTS = 8, MAX_EPILOGUE_COST = 400 };

typedef struct Match {
    NstFuser *f;
    const NstNest *producer;
    const NstNestOut *out[MAX_OUTS]; /* the results that the map reads, all at one place */
    uint32_t n_outs;
    const NstNest *map;
    NstDim *value; /* by axis of the map: the axis in terms of the producer's */
    uint32_t solved;
} Match;

/* A term coef * axis of an index. */
typedef struct Digit {
    uint32_t axis; /* of the map */
    int64_t coef;
} Digit;

static int axis_of(const NstNest *nest, NstSym sym)
{
    for (uint32_t k = 0; k < nest->n_axes; k++)
        if (nest->axis[k].var.i == sym.i) return (int)k;
    return -1;
}

/* The terms of an index that is a sum of constant multiples of the map's axes; false if it is anything else. */
static bool digits_of(const Match *m, NstDim index, Digit *digit, uint32_t *n)
{
    const NstDimNode *node = nst_dim_node(m->f->dims, index);
    *n = 0;
    if (node->op == NST_DIM_CONST) return node->value == 0;
    if (node->op == NST_DIM_SYM) {
        int axis = axis_of(m->map, node->sym);
        digit[(*n)++] = (Digit){(uint32_t)axis, 1};
        return axis >= 0;
    }
    if (node->op != NST_DIM_SUM || node->value != 0 || node->n > NST_MAX_RANK) return false;
    for (uint32_t k = 0; k < node->n; k++) {
        const NstDimNode *term = nst_dim_node(m->f->dims, node->arg[k]);
        int axis = term->op == NST_DIM_SYM ? axis_of(m->map, term->sym) : -1;
        if (axis < 0 || node->coef[k] < 1) return false;
        uint32_t at = (*n)++;
        for (; at > 0 && digit[at - 1].coef < node->coef[k]; at--) digit[at] = digit[at - 1];
        digit[at] = (Digit){(uint32_t)axis, node->coef[k]};
    }
    return true;
}

static bool set_axis(Match *m, uint32_t axis, NstDim value)
{
    if (m->value[axis].i) return false;
    m->value[axis] = value;
    m->solved++;
    return true;
}

/* Solves index == place for the map's axes in it; place runs over 0 .. extent - 1. */
static bool solve(Match *m, NstDim index, NstDim place, NstDim extent)
{
    NstDims *dims = m->f->dims;
    Digit digit[NST_MAX_RANK];
    uint32_t n;
    if (!digits_of(m, index, digit, &n)) return false;
    if (n == 0) return nst_dim_same(extent, nst_dim_const(dims, 1));
    NstDim radix = nst_dim_const(dims, 1);
    for (uint32_t k = n; k-- > 0;) {
        NstAxis axis = m->map->axis[digit[k].axis];
        if (!nst_dim_same(radix, nst_dim_const(dims, digit[k].coef))) return false;
        NstDim value = nst_dim_floordiv(dims, place, radix);
        if (k > 0) value = nst_dim_mod(dims, value, axis.extent);
        if (!set_axis(m, digit[k].axis, value)) return false;
        radix = nst_dim_mul(dims, radix, axis.extent);
    }
    return nst_dim_compare(dims, radix, NST_DIM_EQ, extent) == NST_TRUE;
}

static bool same_place(const NstDim *a, const NstDim *b, uint32_t n)
{
    for (uint32_t d = 0; d < n; d++)
        if (!nst_dim_same(a[d], b[d])) return false;
    return true;
}

/* True if the map reads each of the producer's results once, where it is written, and nothing else twice. */
static bool match(Match *m)
{
    NstExpr load;
    const NstNestOut *first = m->out[0];
    if (nst_fuse_loads(m->f, m->map, first->buffer, &load, 1) != 1) return false;
    const NstExprNode node = *nst_expr(m->f->exprs, load);
    for (uint32_t k = 1; k < m->n_outs; k++) {
        if (nst_fuse_loads(m->f, m->map, m->out[k]->buffer, &load, 1) != 1) return false;
        const NstExprNode *other = nst_expr(m->f->exprs, load);
        if (other->n_index != node.n_index || m->out[k]->n_index != first->n_index) return false;
        if (!same_place(other->index, node.index, node.n_index)) return false;
        if (!same_place(m->out[k]->index, first->index, first->n_index)) return false;
    }
    m->value = NST_NEW_ARRAY(m->f->arena, NstDim, m->map->n_axes);
    const NstDim *shape = nst_module_get(m->f->module, first->buffer)->buffer.shape;
    for (uint32_t d = 0; d < node.n_index; d++)
        if (!solve(m, node.index[d], first->index[d], shape[d])) return false;
    return m->solved == m->map->n_axes;
}

static NstExpr replace_load(void *arg, NstExprs *exprs, NstExpr e)
{
    const Match *m = arg;
    const NstExprNode *node = nst_expr(exprs, e);
    for (uint32_t k = 0; node->op == NST_OP_LOAD && k < m->n_outs; k++)
        if (node->ref == m->out[k]->buffer.i) return m->out[k]->value;
    return (NstExpr){0};
}

/* True if a result of the producer is still to be stored: something else reads it. */
static bool is_kept(const Match *m, const NstNestOut *out)
{
    bool read = false;
    for (uint32_t k = 0; k < m->n_outs; k++) read = read || m->out[k] == out;
    return !read || !nst_fuse_private(m->f, out->buffer) || nst_fuse_readers(m->f, out->buffer) > 1;
}

/* The producer with the map's outputs after (or instead of) its own. */
static NstNest *joined_nest(Match *m)
{
    NstFuser *f = m->f;
    NstNest *nest = nst_copy(f->arena, m->producer, sizeof *nest), *map = nst_nest_clone(f->module, m->map);
    /* The clone has fresh axes: express the old ones' values for them. */
    NstNestSubst subst;
    nst_subst_begin(&subst, f->module);
    for (uint32_t k = 0; k < map->n_axes; k++) nst_subst_set(&subst, map->axis[k].var, m->value[k]);
    nst_subst_end(&subst, map);
    nst_fuse_rewrite(f, map, replace_load, m);
    for (uint32_t k = 0; k < map->n_lets; k++)
        map->let[k].value = nst_expr_rewrite(f->exprs, map->let[k].value, replace_load, m);
    nest->out = NST_NEW_ARRAY(f->arena, NstNestOut, m->producer->n_outs + map->n_outs);
    nest->n_outs = 0;
    for (uint32_t k = 0; k < m->producer->n_outs; k++)
        if (is_kept(m, &m->producer->out[k])) nest->out[nest->n_outs++] = m->producer->out[k];
    for (uint32_t k = 0; k < map->n_outs; k++) nest->out[nest->n_outs++] = map->out[k];
    NstIndexLet *let = NST_NEW_ARRAY(f->arena, NstIndexLet, nest->n_lets + map->n_lets);
    for (uint32_t k = 0; k < nest->n_lets; k++) let[k] = nest->let[k]; /* there may be none */
    for (uint32_t k = 0; k < map->n_lets; k++) let[nest->n_lets + k] = map->let[k];
    nest->let = let;
    nest->n_lets += map->n_lets;
    nest->origin = nst_origin_merge(f->module->origins, m->producer->origin, m->map->origin);
    return nest;
}

/* True if the two nests have the form: a producer of whole buffers, a map without conditions of its own. */
static bool may_join(const NstFuser *f, const NstNest *producer, const NstNest *map, const char **why)
{
    *why = "it stores under a condition";
    if (producer->store_guard.i || map->store_guard.i || map->check.i || producer->check.i) return false;
    *why = "its reader sums";
    if (map->n_states) return false;
    *why = "too many results for one kernel";
    if (producer->n_outs + map->n_outs > MAX_OUTS) return false;
    *why = "its reader gathers";
    if (map->n_lets && producer->n_states) return false;
    *why = "the epilogue would grow too large";
    uint32_t cost = 0;
    for (uint32_t k = 0; k < map->n_outs; k++) cost += nst_fuse_cost(f, map->out[k].value);
    return cost <= MAX_EPILOGUE_COST;
}

/* The outputs of the producer that the map reads; none if one may not go on alone. */
static uint32_t read_outputs(const NstFuser *f, const NstNest *producer, const NstNest *map, const NstNestOut **found)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < producer->n_outs; k++) {
        const NstNestOut *out = &producer->out[k];
        if (!nst_fuse_loads(f, map, out->buffer, NULL, 0)) continue;
        if (n == MAX_OUTS || !nst_fuse_plain_out(f, producer, out) || nst_fuse_writers(f, out->buffer) != 1) return 0;
        found[n++] = out;
    }
    return n;
}

typedef struct Weights {
    const NstModule *module;
    uint32_t loads, constant;
} Weights;

static void visit_weight(void *arg, NstExpr e, const NstExprNode *node)
{
    Weights *w = arg;
    (void)e;
    if (node->op != NST_OP_LOAD) return;
    w->loads++;
    w->constant += nst_module_get(w->module, (NstBuf){node->ref})->role == NST_ROLE_CONST;
}

/* True if an operand of constants has no part in the output's last axis: the layout pass turns the output then. */
static bool is_turned_later(const Match *m)
{
    NstContraction c;
    const NstNestOut *out = &m->producer->out[0];
    const NstExprs *exprs = m->f->exprs;
    if (!m->producer->n_states || !nst_nest_contraction(m->f->module, m->producer, &c) || !out->n_index) return false;
    for (int side = 0; side < 2; side++) {
        NstExpr operand = side ? c.b : c.a;
        Weights w = {m->f->module, 0, 0};
        nst_expr_visit(exprs, operand, visit_weight, &w);
        if (!w.loads || w.loads != w.constant) continue;
        bool steps = false;
        for (uint32_t k = 0; k < m->producer->n_axes; k++) {
            NstSym var = m->producer->axis[k].var;
            steps = steps || (nst_dim_uses(m->f->dims, out->index[out->n_index - 1], var) &&
                              nst_expr_uses_sym(exprs, operand, var));
        }
        if (!steps) return true;
    }
    return false;
}

/* What the layout pass turns must have one result: 10 to 20 times the time otherwise, measured on convolutions of nudenet. */
static bool splits_contraction(const Match *m)
{
    uint32_t n = m->map->n_outs;
    for (uint32_t k = 0; k < m->producer->n_outs; k++) n += is_kept(m, &m->producer->out[k]);
    return n > 1 && is_turned_later(m);
}

static bool join(NstFuser *f, uint32_t from, uint32_t to, uint32_t *place)
{
    const char *why = NULL;
    NstNest *producer = nst_fuse_single(f->groups.at[from].group), *map = nst_fuse_single(f->groups.at[to].group);
    if (!producer || !map || !may_join(f, producer, map, &why)) {
        if (producer && map) nst_fuse_refuse(f, from, why);
        return false;
    }
    map = nst_nest_clone(f->module, map);
    nst_nest_split_divided(f->module, map, 0);
    Match m = {.f = f, .producer = producer, .map = map};
    m.n_outs = read_outputs(f, producer, map, m.out);
    if (m.n_outs == 0 || !match(&m)) {
        nst_fuse_refuse(f, from, "its reader reads it at other places than it is written at");
        return false;
    }
    if (splits_contraction(&m)) {
        nst_fuse_refuse(f, from, "others read its result, and a product with weights keeps to one");
        return false;
    }
    if (!nst_fuser_can_join(f, from, to)) {
        nst_fuse_refuse(f, from, "a kernel between needs its result first");
        return false;
    }
    *place = nst_fuser_join(f, from, to, nst_group_new(f->module, joined_nest(&m)));
    return true;
}

/* Joins the first reader that may join; *place is then where the joined group stands. */
static bool join_reader(NstFuser *f, uint32_t from, uint32_t *place)
{
    NstPlaces users = nst_fuser_users(f, from);
    for (uint32_t k = 0; k < users.n; k++)
        if (join(f, from, users.at[k], place)) return true;
    return false;
}

NstStatus nst_fuse_epilogues(NstFuser *f, bool only_sums)
{
    for (uint32_t from = 0; from < f->groups.n;) {
        const NstNest *nest = nst_fuse_single(f->groups.at[from].group);
        uint32_t place;
        /* A joined group comes up once more: where it stood, or further on, and then another one has taken its place. */
        if (!nest || (only_sums && !nest->n_states) || !join_reader(f, from, &place)) from++;
    }
    return NST_OK;
}
