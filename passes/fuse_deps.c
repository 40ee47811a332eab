/* fuse_deps.c: which group touches which buffer, what may be joined, and rewriting of whole nests. */
#include "passes/fuse.h"

#include <stdlib.h>

bool nst_fuser_holds(const NstBufList *list, NstBuf buffer)
{
    for (uint32_t k = 0; k < list->n; k++)
        if (list->at[k].i == buffer.i) return true;
    return false;
}

static void collect(NstModule *module, const NstGroup *group, NstBufList *reads, NstBufList *writes)
{
    const NstModuleStep *step = group->step;
    for (uint32_t k = 0; step && k < step->n_in; k++) nst_vec_push(module->arena, reads, step->in[k]);
    for (uint32_t k = 0; step && k < step->n_out; k++) nst_vec_push(module->arena, writes, step->out[k]);
    for (uint32_t k = 0; k < group->items.n; k++) {
        if (group->items.at[k].group) {
            collect(module, group->items.at[k].group, reads, writes);
            continue;
        }
        nst_nest_reads(module, group->items.at[k].nest, reads);
        nst_nest_writes(module, group->items.at[k].nest, writes);
    }
}

/* --- who touches a buffer ------------------------------------------------------------------------------------ */

static NstBufferUse *use_of(NstFuser *f, NstBuf buffer)
{
    while (f->uses.n <= buffer.i) nst_vec_push(f->arena, &f->uses, (NstBufferUse){0});
    return &f->uses.at[buffer.i];
}

/* Group `at` is new at its place. */
static void enter(NstFuser *f, uint32_t at)
{
    const NstFuseGroup *item = &f->groups.at[at];
    for (uint32_t k = 0; k < item->reads.n; k++) nst_vec_push(f->arena, &use_of(f, item->reads.at[k])->readers, at);
    for (uint32_t k = 0; k < item->writes.n; k++) nst_vec_push(f->arena, &use_of(f, item->writes.at[k])->writers, at);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts, and leaves each place once. */
static void tidy(NstPlaces *places)
{
    uint32_t n = 0;
    if (places->n > 1) qsort(places->at, places->n, sizeof *places->at, by_number);
    for (uint32_t k = 0; k < places->n; k++)
        if (n == 0 || places->at[n - 1] != places->at[k]) places->at[n++] = places->at[k];
    places->n = n;
}

/* Drops the groups that touch the buffer no more. */
static NstPlaces still(const NstFuser *f, NstPlaces *places, NstBuf buffer, bool writes)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < places->n; k++) {
        const NstFuseGroup *item = &f->groups.at[places->at[k]];
        if (nst_fuser_holds(writes ? &item->writes : &item->reads, buffer)) places->at[n++] = places->at[k];
    }
    places->n = n;
    tidy(places);
    return *places;
}

NstPlaces nst_fuser_readers(const NstFuser *f, NstBuf buffer)
{
    return buffer.i < f->uses.n ? still(f, &f->uses.at[buffer.i].readers, buffer, false) : (NstPlaces){0};
}

NstPlaces nst_fuser_writers(const NstFuser *f, NstBuf buffer)
{
    return buffer.i < f->uses.n ? still(f, &f->uses.at[buffer.i].writers, buffer, true) : (NstPlaces){0};
}

/* The groups after `at`, or before it, that touch one of the buffers in the other way. */
static NstPlaces neighbours(const NstFuser *f, uint32_t at, const NstBufList *buffers,
                            NstPlaces (*others)(const NstFuser *f, NstBuf buffer), bool after)
{
    NstPlaces found = {0};
    for (uint32_t b = 0; b < buffers->n; b++) {
        NstPlaces of = others(f, buffers->at[b]);
        for (uint32_t k = 0; k < of.n; k++)
            if (after ? of.at[k] > at : of.at[k] < at) nst_vec_push(f->arena, &found, of.at[k]);
    }
    tidy(&found);
    return found;
}

NstPlaces nst_fuser_users(const NstFuser *f, uint32_t at)
{
    return neighbours(f, at, &f->groups.at[at].writes, nst_fuser_readers, true);
}

NstPlaces nst_fuser_sources(const NstFuser *f, uint32_t at)
{
    return neighbours(f, at, &f->groups.at[at].reads, nst_fuser_writers, false);
}

void nst_fuser_refresh(NstFuser *f, uint32_t at)
{
    NstFuseGroup *item = &f->groups.at[at];
    const NstModuleStep *step = item->group->step;
    item->reads = item->writes = (NstBufList){0};
    item->makes.n = 0;
    collect(f->module, item->group, &item->reads, &item->writes);
    for (uint32_t k = 0; step && k < step->n_makes; k++) nst_vec_push(f->arena, &item->makes, step->makes[k]);
    for (uint32_t k = 0; k < f->module->reads.n; k++)
        if (nst_fuser_holds(&item->writes, f->module->reads.at[k].buffer))
            nst_vec_push(f->arena, &item->makes, f->module->reads.at[k].sym);
    enter(f, at);
}

void nst_fuser_init(NstFuser *f, NstCtx *ctx, NstModule *module)
{
    *f = (NstFuser){.ctx = ctx, .module = module, .dims = module->dims, .exprs = module->exprs, .arena = module->arena};
    for (uint32_t k = 0; k < module->groups.n; k++) {
        nst_vec_push(f->arena, &f->groups, ((NstFuseGroup){.group = module->groups.at[k]}));
        nst_fuser_refresh(f, k);
    }
}

void nst_fuser_remove(NstFuser *f, uint32_t at)
{
    f->groups.at[at] = (NstFuseGroup){0};
}

void nst_fuser_compact(NstFuser *f)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->groups.n; k++) {
        if (!f->groups.at[k].group) continue;
        f->groups.at[n] = f->groups.at[k];
        if (n != k) enter(f, n);
        n++;
    }
    for (uint32_t k = n; k < f->groups.n; k++) nst_fuser_remove(f, k);
    for (uint32_t b = 0; b < f->uses.n; b++) { /* while the places that end here can still be looked at */
        (void)nst_fuser_readers(f, (NstBuf){b});
        (void)nst_fuser_writers(f, (NstBuf){b});
    }
    f->groups.n = n;
}

/* --- what may be joined -------------------------------------------------------------------------------------- */

bool nst_fuser_meet(const NstBufList *a, const NstBufList *b)
{
    for (uint32_t k = 0; k < a->n; k++)
        if (nst_fuser_holds(b, a->at[k])) return true;
    return false;
}

static bool depends(const NstFuser *f, const NstFuseGroup *later, const NstFuseGroup *earlier)
{
    if (!later->group || !earlier->group) return false;
    for (uint32_t k = 0; k < earlier->makes.n; k++)
        if (nst_group_uses_sym(f->module, later->group, earlier->makes.at[k])) return true;
    return nst_fuser_meet(&earlier->writes, &later->reads) || nst_fuser_meet(&earlier->writes, &later->writes) ||
           nst_fuser_meet(&earlier->reads, &later->writes);
}

bool nst_fuser_depends(const NstFuser *f, uint32_t later, uint32_t earlier)
{
    return depends(f, &f->groups.at[later], &f->groups.at[earlier]);
}

/* Marks the groups between that need `from`, directly or not. */
static bool *needing(const NstFuser *f, uint32_t from, uint32_t to)
{
    bool *marked = NST_NEW_ARRAY(f->arena, bool, to - from + 1);
    marked[0] = true;
    for (uint32_t k = from + 1; k < to; k++)
        for (uint32_t e = from; e < k && !marked[k - from]; e++)
            marked[k - from] = marked[e - from] && depends(f, &f->groups.at[k], &f->groups.at[e]);
    return marked;
}

bool nst_fuser_can_join(const NstFuser *f, uint32_t from, uint32_t to)
{
    const bool *marked = needing(f, from, to);
    for (uint32_t k = from + 1; k < to; k++)
        if (marked[k - from] && depends(f, &f->groups.at[to], &f->groups.at[k])) return false;
    return true;
}

uint32_t nst_fuser_join(NstFuser *f, uint32_t from, uint32_t to, NstGroup *joined)
{
    const bool *marked = needing(f, from, to);
    NstFuseGroup *old = nst_copy(f->arena, f->groups.at + from, (to - from + 1) * sizeof *old);
    uint32_t at = from, place;
    for (uint32_t k = from + 1; k < to; k++)
        if (!marked[k - from] && old[k - from].group) f->groups.at[at++] = old[k - from];
    place = at;
    f->groups.at[at++] = (NstFuseGroup){.group = joined};
    for (uint32_t k = from + 1; k < to; k++)
        if (marked[k - from]) f->groups.at[at++] = old[k - from];
    for (uint32_t k = at; k <= to; k++) nst_fuser_remove(f, k);
    for (uint32_t k = from; k < at; k++)
        if (k != place && f->groups.at[k].group != old[k - from].group) enter(f, k);
    nst_fuser_refresh(f, place);
    return place;
}

NstNest *nst_fuse_single(const NstGroup *group)
{
    return group && group->n_axes == 0 && group->items.n == 1 ? group->items.at[0].nest : NULL;
}

static uint32_t count_writers(const NstGroup *group, NstBuf buffer)
{
    uint32_t n = 0;
    for (uint32_t k = 0; group->step && k < group->step->n_out; k++) n += group->step->out[k].i == buffer.i;
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstNest *nest = group->items.at[k].nest;
        if (!nest) n += count_writers(group->items.at[k].group, buffer);
        for (uint32_t o = 0; nest && o < nest->n_outs; o++) n += nest->out[o].buffer.i == buffer.i;
    }
    return n;
}

uint32_t nst_fuse_writers(const NstFuser *f, NstBuf buffer)
{
    uint32_t n = 0;
    NstPlaces writers = nst_fuser_writers(f, buffer);
    for (uint32_t k = 0; k < writers.n; k++) n += count_writers(f->groups.at[writers.at[k]].group, buffer);
    return n;
}

uint32_t nst_fuse_readers(const NstFuser *f, NstBuf buffer)
{
    uint32_t n = nst_fuser_readers(f, buffer).n;
    for (uint32_t k = 0; k < f->module->reads.n; k++) n += f->module->reads.at[k].buffer.i == buffer.i;
    return n;
}

bool nst_fuse_private(const NstFuser *f, NstBuf buffer)
{
    if (nst_module_get(f->module, buffer)->role != NST_ROLE_TEMP) return false;
    for (uint32_t k = 0; k < f->module->reads.n; k++)
        if (f->module->reads.at[k].buffer.i == buffer.i) return false;
    for (uint32_t k = 0; f->within && k < f->within->locals.n; k++)
        if (f->within->locals.at[k].i == buffer.i) return true;
    return !f->within;
}

void nst_fuse_refuse(NstFuser *f, uint32_t at, const char *why)
{
    f->groups.at[at].group->why_not_fused = why;
}

/* --- nests --------------------------------------------------------------------------------------------------- */

typedef struct LoadVisit {
    NstBuf buffer;
    NstExpr *load;
    uint32_t n, max;
} LoadVisit;

static void visit_load(void *arg, NstExpr e, const NstExprNode *node)
{
    LoadVisit *v = arg;
    if (node->op != NST_OP_LOAD || node->ref != v->buffer.i) return;
    for (uint32_t k = 0; k < v->n && k < v->max; k++)
        if (v->load[k].i == e.i) return;
    if (v->n < v->max) v->load[v->n] = e;
    v->n++;
}

uint32_t nst_fuse_loads(const NstFuser *f, const NstNest *nest, NstBuf buffer, NstExpr *load, uint32_t max)
{
    LoadVisit v = {buffer, load, 0, max};
    for (uint32_t k = 0; k < nest->n_lets; k++) nst_expr_visit(f->exprs, nest->let[k].value, visit_load, &v);
    if (nest->guard.i) nst_expr_visit(f->exprs, nest->guard, visit_load, &v);
    if (nest->store_guard.i) nst_expr_visit(f->exprs, nest->store_guard, visit_load, &v);
    if (nest->check.i) nst_expr_visit(f->exprs, nest->check, visit_load, &v);
    for (uint32_t k = 0; k < nest->n_states; k++) nst_expr_visit(f->exprs, nest->state[k].step, visit_load, &v);
    for (uint32_t k = 0; k < nest->n_outs; k++) nst_expr_visit(f->exprs, nest->out[k].value, visit_load, &v);
    return v.n;
}

static NstExpr rewrite(NstFuser *f, NstExpr e, NstExprRewrite fn, void *arg)
{
    return e.i ? nst_expr_rewrite(f->exprs, e, fn, arg) : e;
}

void nst_fuse_rewrite(NstFuser *f, NstNest *nest, NstExprRewrite fn, void *arg)
{
    nest->guard = rewrite(f, nest->guard, fn, arg);
    nest->store_guard = rewrite(f, nest->store_guard, fn, arg);
    nest->check = rewrite(f, nest->check, fn, arg);
    for (uint32_t k = 0; k < nest->n_states; k++) nest->state[k].step = rewrite(f, nest->state[k].step, fn, arg);
    for (uint32_t k = 0; k < nest->n_outs; k++) nest->out[k].value = rewrite(f, nest->out[k].value, fn, arg);
}

bool nst_fuse_plain_out(const NstFuser *f, const NstNest *nest, const NstNestOut *out)
{
    uint32_t used = 0;
    for (uint32_t d = 0; d < out->n_index; d++) {
        const NstDimNode *node = nst_dim_node(f->dims, out->index[d]);
        if (node->op == NST_DIM_CONST && node->value == 0) continue;
        if (node->op != NST_DIM_SYM) return false;
        bool found = false;
        for (uint32_t k = 0; k < nest->n_axes; k++) found = found || nest->axis[k].var.i == node->sym.i;
        for (uint32_t e = 0; e < d; e++)
            if (nst_dim_same(out->index[e], out->index[d])) found = false;
        if (!found) return false;
        used++;
    }
    return used == nest->n_axes;
}
