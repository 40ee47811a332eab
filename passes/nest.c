/* nest.c: the module of nests: buffers, nests, groups, and what fusion and scheduling ask of them. */
#include "passes/nest.h"

NstModule *nst_module_new(NstArena *arena, NstGraph *graph, const NstTarget *target, bool strict)
{
    NstModule *module = NST_NEW(arena, NstModule);
    module->arena = arena;
    module->graph = graph;
    module->dims = graph->dims;
    module->exprs = graph->exprs;
    module->origins = graph->origins;
    module->target = target;
    module->strict = strict;
    module->region = NST_GRAPH_REGION;
    nst_vec_push(arena, &module->buffers, (NstModuleBuffer){0});
    nst_vec_push(arena, &module->consts, (NstModuleConst){0});
    return module;
}

NstBuf nst_module_buffer(NstModule *module, const char *name, NstDtype dtype, int rank, const NstDim *shape,
                         NstBufferRole role)
{
    NstModuleBuffer item = {.role = role};
    item.buffer.name = nst_strdup(module->arena, name);
    item.buffer.dtype = dtype;
    item.buffer.space = NST_SPACE_ARG;
    item.buffer.rank = rank;
    item.buffer.shape = nst_copy(module->arena, shape, (size_t)rank * sizeof *shape);
    item.buffer.layout = nst_layout_row_major(module->arena, module->dims, dtype, rank, item.buffer.shape);
    item.buffer.constant = role == NST_ROLE_CONST;
    nst_vec_push(module->arena, &module->buffers, item);
    return (NstBuf){module->buffers.n - 1};
}

NstModuleBuffer *nst_module_get(const NstModule *module, NstBuf buffer)
{
    NST_ASSERT(buffer.i > 0 && buffer.i < module->buffers.n);
    return &module->buffers.at[buffer.i];
}

NstNest *nst_nest_new(NstModule *module, const char *name, NstOrigin origin)
{
    NstNest *nest = NST_NEW(module->arena, NstNest);
    nest->name = nst_strdup(module->arena, name);
    nest->origin = origin;
    return nest;
}

NstAxis nst_nest_axis(NstModule *module, const char *name, NstDim extent)
{
    NstAxis axis = {nst_dims_new_sym(module->dims, NST_SYM_INDEX, name, 0, INT64_MAX), extent};
    NstSymInfo *info = nst_dims_sym(module->dims, axis.var);
    int64_t lo, hi;
    nst_dim_bounds(module->dims, extent, &lo, &hi);
    info->hi = hi == INT64_MAX ? hi : hi - 1;
    info->hi_dim = nst_dim_add_const(module->dims, extent, -1);
    return axis;
}

NstGroup *nst_group_new(NstModule *module, NstNest *nest)
{
    NstGroup *group = NST_NEW(module->arena, NstGroup);
    group->name = nest->name;
    group->origin = nest->origin;
    nst_vec_push(module->arena, &group->items, ((NstGroupItem){.nest = nest}));
    return group;
}

bool nst_is_sibling_group(const NstGroup *group)
{
    if (group->n_axes || group->serial || group->step || group->items.n < 2) return false;
    for (uint32_t k = 0; k < group->items.n; k++)
        if (!group->items.at[k].nest) return false;
    return true;
}

bool nst_group_is_local(const NstGroup *group, NstBuf buffer)
{
    for (uint32_t k = 0; k < group->locals.n; k++)
        if (group->locals.at[k].i == buffer.i) return true;
    for (uint32_t k = 0; k < group->items.n; k++)
        if (group->items.at[k].group && nst_group_is_local(group->items.at[k].group, buffer)) return true;
    return false;
}

void nst_sequence_each(NstModule *module, NstGroup *sequence, void (*pass)(NstModule *module))
{
    const NstModule outer = *module;
    memset(&module->groups, 0, sizeof module->groups);
    for (uint32_t k = 0; k < sequence->items.n; k++)
        nst_vec_push(module->arena, &module->groups, sequence->items.at[k].group);
    pass(module);
    sequence->items.n = 0;
    for (uint32_t k = 0; k < module->groups.n; k++)
        nst_vec_push(module->arena, &sequence->items, ((NstGroupItem){.group = module->groups.at[k]}));
    for (uint32_t b = outer.buffers.n; b < module->buffers.n; b++)
        if (module->buffers.at[b].role == NST_ROLE_TEMP) nst_vec_push(module->arena, &sequence->locals, ((NstBuf){b}));
    module->groups = outer.groups;
}

/* --- symbols ------------------------------------------------------------------------------------------------- */

static bool buffers_use(NstModule *module, const NstBufList *list, NstSym sym)
{
    for (uint32_t k = 0; k < list->n; k++) {
        const NstBuffer *buffer = &nst_module_get(module, list->at[k])->buffer;
        for (int axis = 0; axis < buffer->rank; axis++)
            if (nst_dim_uses(module->dims, buffer->shape[axis], sym)) return true;
    }
    return false;
}

static bool expr_uses(const NstModule *module, NstExpr e, NstSym sym)
{
    return e.i && nst_expr_uses_sym(module->exprs, e, sym);
}

static bool nest_uses(NstModule *module, const NstNest *nest, NstSym sym)
{
    NstBufList touched = {0};
    bool uses = expr_uses(module, nest->guard, sym) || expr_uses(module, nest->store_guard, sym) ||
                expr_uses(module, nest->check, sym);
    for (uint32_t k = 0; k < nest->n_axes; k++) uses |= nst_dim_uses(module->dims, nest->axis[k].extent, sym);
    for (uint32_t k = 0; k < nest->n_reduce; k++) uses |= nst_dim_uses(module->dims, nest->reduce[k].extent, sym);
    for (uint32_t k = 0; k < nest->n_lets; k++)
        uses |= expr_uses(module, nest->let[k].value, sym) || nst_dim_uses(module->dims, nest->let[k].lo, sym) ||
                nst_dim_uses(module->dims, nest->let[k].hi, sym);
    for (uint32_t k = 0; k < nest->n_states; k++) uses |= expr_uses(module, nest->state[k].step, sym);
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        uses |= expr_uses(module, nest->out[k].value, sym);
        for (uint32_t d = 0; d < nest->out[k].n_index; d++)
            uses |= nst_dim_uses(module->dims, nest->out[k].index[d], sym);
    }
    nst_nest_reads(module, nest, &touched);
    nst_nest_writes(module, nest, &touched);
    return uses || buffers_use(module, &touched, sym);
}

bool nst_nest_uses_sizes(NstModule *module, const NstNest *nest)
{
    for (NstSym sym = nst_dims_next_size(module->dims, (NstSym){0}); sym.i; sym = nst_dims_next_size(module->dims, sym))
        if (nest_uses(module, nest, sym)) return true;
    return false;
}

/* Bodies may use any symbol that is known outside. */
bool nst_group_uses_sym(NstModule *module, const NstGroup *group, NstSym sym)
{
    if (group->step) {
        NstBufList touched = {group->step->in, group->step->n_in, group->step->n_in};
        NstBufList made = {group->step->out, group->step->n_out, group->step->n_out};
        return group->step->body[0] || buffers_use(module, &touched, sym) || buffers_use(module, &made, sym);
    }
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstGroupItem *item = &group->items.at[k];
        if (item->group ? nst_group_uses_sym(module, item->group, sym) : nest_uses(module, item->nest, sym))
            return true;
    }
    return false;
}

/* --- rewriting ----------------------------------------------------------------------------------------------- */

typedef struct SymTable {
    const NstDim *value_of;
    uint32_t n;
} SymTable;

static NstExpr subst_expr(NstModule *module, NstExpr e, const SymTable *table)
{
    return e.i ? nst_expr_subst_syms(module->exprs, e, table->value_of, table->n) : e;
}

static void subst_nest(NstModule *module, NstNest *nest, const NstDim *value_of, uint32_t n)
{
    SymTable table = {value_of, n};
    for (uint32_t k = 0; k < nest->n_axes; k++)
        nest->axis[k].extent = nst_dim_subst_all(module->dims, nest->axis[k].extent, value_of, n);
    for (uint32_t k = 0; k < nest->n_reduce; k++)
        nest->reduce[k].extent = nst_dim_subst_all(module->dims, nest->reduce[k].extent, value_of, n);
    for (uint32_t k = 0; k < nest->n_lets; k++) {
        nest->let[k].value = subst_expr(module, nest->let[k].value, &table);
        nest->let[k].lo = nst_dim_subst_all(module->dims, nest->let[k].lo, value_of, n);
        nest->let[k].hi = nst_dim_subst_all(module->dims, nest->let[k].hi, value_of, n);
    }
    nest->guard = subst_expr(module, nest->guard, &table);
    nest->store_guard = subst_expr(module, nest->store_guard, &table);
    nest->check = subst_expr(module, nest->check, &table);
    for (uint32_t k = 0; k < nest->n_states; k++) nest->state[k].step = subst_expr(module, nest->state[k].step, &table);
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        NstNestOut *out = &nest->out[k];
        NstDim *index = NST_NEW_ARRAY(module->arena, NstDim, out->n_index);
        for (uint32_t d = 0; d < out->n_index; d++)
            index[d] = nst_dim_subst_all(module->dims, out->index[d], value_of, n);
        out->index = index;
        out->value = subst_expr(module, out->value, &table);
    }
}

void nst_subst_begin(NstNestSubst *s, NstModule *module)
{
    *s = (NstNestSubst){.module = module};
    s->value_of = nst_dims_scratch(module->dims, &s->n);
}

void nst_subst_set(NstNestSubst *s, NstSym sym, NstDim value)
{
    NST_ASSERT(sym.i < s->n);
    s->value_of[sym.i] = value;
    nst_vec_push(s->module->arena, &s->set, sym);
}

void nst_subst_end(NstNestSubst *s, NstNest *nest)
{
    if (nest) subst_nest(s->module, nest, s->value_of, s->n);
    for (uint32_t k = 0; k < s->set.n; k++) s->value_of[s->set.at[k].i] = (NstDim){0};
    nst_dims_scratch_return(s->module->dims);
}

static NstAxis *clone_axes(NstModule *module, const NstAxis *axis, uint32_t n, NstNestSubst *subst)
{
    NstAxis *copy = NST_NEW_ARRAY(module->arena, NstAxis, n);
    for (uint32_t k = 0; k < n; k++) {
        copy[k] = nst_nest_axis(module, nst_dims_sym(module->dims, axis[k].var)->name, axis[k].extent);
        nst_subst_set(subst, axis[k].var, nst_dim_sym(module->dims, copy[k].var));
    }
    return copy;
}

NstNest *nst_nest_clone(NstModule *module, const NstNest *nest)
{
    NstNest *copy = nst_copy(module->arena, nest, sizeof *nest);
    NstNestSubst subst;
    nst_subst_begin(&subst, module);
    copy->axis = clone_axes(module, nest->axis, nest->n_axes, &subst);
    copy->reduce = clone_axes(module, nest->reduce, nest->n_reduce, &subst);
    copy->let = nst_copy(module->arena, nest->let, nest->n_lets * sizeof *nest->let);
    for (uint32_t k = 0; k < nest->n_lets; k++) {
        NstSymInfo info = *nst_dims_sym(module->dims, nest->let[k].var);
        copy->let[k].var = nst_dims_new_sym(module->dims, NST_SYM_INDEX, info.name, info.lo, info.hi);
        nst_subst_set(&subst, nest->let[k].var, nst_dim_sym(module->dims, copy->let[k].var));
    }
    copy->state = nst_copy(module->arena, nest->state, nest->n_states * sizeof *nest->state);
    copy->out = nst_copy(module->arena, nest->out, nest->n_outs * sizeof *nest->out);
    nst_subst_end(&subst, copy);
    return copy;
}

/* --- queries ------------------------------------------------------------------------------------------------- */

static void add_once(NstModule *module, NstBufList *list, NstBuf buffer)
{
    for (uint32_t k = 0; k < list->n; k++)
        if (list->at[k].i == buffer.i) return;
    nst_vec_push(module->arena, list, buffer);
}

typedef struct ReadVisit {
    NstModule *module;
    NstBufList *list;
} ReadVisit;

static void visit_read(void *arg, NstExpr e, const NstExprNode *node)
{
    ReadVisit *visit = arg;
    (void)e;
    if (node->op == NST_OP_LOAD) add_once(visit->module, visit->list, (NstBuf){node->ref});
}

void nst_nest_reads(NstModule *module, const NstNest *nest, NstBufList *list)
{
    ReadVisit visit = {module, list};
    for (uint32_t k = 0; k < nest->n_lets; k++) nst_expr_visit(module->exprs, nest->let[k].value, visit_read, &visit);
    if (nest->guard.i) nst_expr_visit(module->exprs, nest->guard, visit_read, &visit);
    if (nest->store_guard.i) nst_expr_visit(module->exprs, nest->store_guard, visit_read, &visit);
    if (nest->check.i) nst_expr_visit(module->exprs, nest->check, visit_read, &visit);
    for (uint32_t k = 0; k < nest->n_states; k++)
        nst_expr_visit(module->exprs, nest->state[k].step, visit_read, &visit);
    for (uint32_t k = 0; k < nest->n_outs; k++) nst_expr_visit(module->exprs, nest->out[k].value, visit_read, &visit);
}

void nst_nest_writes(NstModule *module, const NstNest *nest, NstBufList *list)
{
    for (uint32_t k = 0; k < nest->n_outs; k++) add_once(module, list, nest->out[k].buffer);
}

bool nst_module_buffer_is_constant(const NstModule *module, NstBuf buffer)
{
    NstBufferRole role = nst_module_get(module, buffer)->role;
    return role == NST_ROLE_CONST || role == NST_ROLE_PACKED;
}

typedef struct Constancy {
    NstModule *module;
    bool constant;
} Constancy;

static void visit_constancy(void *arg, NstExpr e, const NstExprNode *node)
{
    Constancy *c = arg;
    (void)e;
    if (node->op != NST_OP_LOAD) return;
    c->constant = c->constant && nst_module_buffer_is_constant(c->module, (NstBuf){node->ref});
}

bool nst_module_is_constant(NstModule *module, NstExpr e)
{
    Constancy c = {module, true};
    nst_expr_visit(module->exprs, e, visit_constancy, &c);
    return c.constant;
}

bool nst_module_is_ahead(NstModule *module, NstExpr e, const NstAxis *axis, uint32_t n)
{
    for (NstSym sym = nst_dims_next_size(module->dims, (NstSym){0}); sym.i;
         sym = nst_dims_next_size(module->dims, sym)) {
        if (expr_uses(module, e, sym)) return false;
        for (uint32_t k = 0; k < n; k++)
            if (nst_dim_uses(module->dims, axis[k].extent, sym)) return false;
    }
    return nst_module_is_constant(module, e);
}

typedef struct Factor {
    NstExpr from, to;
} Factor;

static NstExpr replace_factor(void *arg, NstExprs *exprs, NstExpr e)
{
    const Factor *factor = arg;
    (void)exprs;
    return e.i == factor->from.i ? factor->to : (NstExpr){0};
}

void nst_nest_replace_factor(NstModule *module, NstNest *nest, NstExpr from, NstExpr to)
{
    Factor factor = {from, to};
    nest->state = nst_copy(module->arena, nest->state, nest->n_states * sizeof *nest->state);
    nest->state[0].step = nst_expr_rewrite(module->exprs, nest->state[0].step, replace_factor, &factor);
}

static bool is_arg(const NstExprs *exprs, NstExpr e, uint32_t slot)
{
    const NstExprNode *node = nst_expr(exprs, e);
    return node->op == NST_OP_ARG && node->ref == slot;
}

/* The factors of step = fma(a, b, state), dot4(state, a, b) or state + a * b. */
static bool product_of_step(const NstExprs *exprs, NstExpr step, NstExpr *a, NstExpr *b)
{
    const NstExprNode *node = nst_expr(exprs, step);
    if (node->op == NST_OP_FMA && is_arg(exprs, node->arg[2], 0)) {
        *a = node->arg[0];
        *b = node->arg[1];
        return true;
    }
    if (nst_scalar_info(node->op)->rule == NST_RULE_DOT && is_arg(exprs, node->arg[0], 0)) {
        *a = node->arg[1];
        *b = node->arg[2];
        return true;
    }
    if (node->op != NST_OP_ADD) return false;
    int state = is_arg(exprs, node->arg[0], 0) ? 0 : is_arg(exprs, node->arg[1], 0) ? 1 : -1;
    if (state < 0) return false;
    const NstExprNode *product = nst_expr(exprs, node->arg[1 - state]);
    if (product->op != NST_OP_MUL) return false;
    *a = product->arg[0];
    *b = product->arg[1];
    return true;
}

bool nst_nest_contraction(NstModule *module, const NstNest *nest, NstContraction *contraction)
{
    return nst_nest_contraction_by(module, nest, nest->n_axes ? nest->n_axes - 1 : 0, contraction);
}

bool nst_nest_is_product(NstModule *module, const NstNest *nest)
{
    NstContraction c;
    return nst_nest_contraction(module, nest, &c) && c.n_rows + c.n_cols > 0;
}

bool nst_nest_contraction_by(NstModule *module, const NstNest *nest, uint32_t col_axis, NstContraction *contraction)
{
    const NstExprs *exprs = module->exprs;
    NstContraction c = {0};
    if (nest->n_states != 1 || nest->n_reduce == 0) return false;
    const NstExprNode *merge = nest->state[0].merge.i ? nst_expr(exprs, nest->state[0].merge) : NULL;
    if (!merge || merge->op != NST_OP_ADD) return false;
    if (!product_of_step(exprs, nest->state[0].step, &c.a, &c.b)) return false;
    if (nest->n_axes) {
        NstSym last = nest->axis[col_axis].var;
        if (nst_expr_uses_sym(exprs, c.a, last) && !nst_expr_uses_sym(exprs, c.b, last)) {
            NstExpr swap = c.a;
            c.a = c.b;
            c.b = swap;
        }
    }
    for (uint32_t k = 0; k < nest->n_axes; k++) {
        bool in_a = nst_expr_uses_sym(exprs, c.a, nest->axis[k].var);
        bool in_b = nst_expr_uses_sym(exprs, c.b, nest->axis[k].var);
        if (in_a && !in_b)
            c.rows[c.n_rows++] = (uint8_t)k;
        else if (in_b && !in_a)
            c.cols[c.n_cols++] = (uint8_t)k;
        else
            c.batch[c.n_batch++] = (uint8_t)k;
    }
    for (uint32_t k = 0; k < nest->n_reduce; k++) c.k[c.n_k++] = (uint8_t)k;
    *contraction = c;
    return true;
}
