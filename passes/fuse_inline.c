/* fuse_inline.c: rules 1 and 3: maps are evaluated where they are read.
 *
 * A map whose result is temporary and written by it alone disappears when every reader may take it (fuse_cost.c); loads of its
 * result become its expression at that index, its index-lets become the reader's. */
#include "passes/fuse.h"

typedef struct Inliner {
    NstFuser *f;
    const NstNest *producer;
    const NstNestOut *out;
    NstNest *consumer;
    NST_VEC(NstIndexLet) lets;    /* of the consumer, as they will be */
    NST_VEC(NstExpr) load, value; /* loads replaced so far */
} Inliner;

/* The producer's value where its result is read at `index`. */
static NstExpr value_at(Inliner *in, const NstExprNode *load)
{
    NstFuser *f = in->f;
    const NstNest *p = in->producer;
    NstNestSubst subst;
    nst_subst_begin(&subst, f->module);
    for (uint32_t d = 0; d < in->out->n_index; d++) {
        const NstDimNode *node = nst_dim_node(f->dims, in->out->index[d]);
        if (node->op == NST_DIM_SYM) nst_subst_set(&subst, node->sym, load->index[d]);
    }
    for (uint32_t k = 0; k < p->n_lets; k++) {
        NstIndexLet let = p->let[k];
        NstSymInfo info = *nst_dims_sym(f->dims, let.var);
        let.value = nst_expr_subst_syms(f->exprs, let.value, subst.value_of, subst.n);
        let.lo = nst_dim_subst_all(f->dims, let.lo, subst.value_of, subst.n);
        let.hi = nst_dim_subst_all(f->dims, let.hi, subst.value_of, subst.n);
        let.var = nst_dims_new_sym(f->dims, NST_SYM_INDEX, info.name, info.lo, info.hi);
        NstSymInfo *fresh = nst_dims_sym(f->dims, let.var);
        fresh->lo_dim = let.lo;
        fresh->hi_dim = nst_dim_add_const(f->dims, let.hi, -1);
        nst_subst_set(&subst, p->let[k].var, nst_dim_sym(f->dims, let.var));
        nst_vec_push(f->arena, &in->lets, let);
    }
    NstExpr value = nst_expr_subst_syms(f->exprs, in->out->value, subst.value_of, subst.n);
    nst_subst_end(&subst, NULL);
    return value;
}

static NstExpr inline_node(void *arg, NstExprs *exprs, NstExpr e)
{
    Inliner *in = arg;
    const NstExprNode node = *nst_expr(exprs, e);
    if (node.op != NST_OP_LOAD || node.ref != in->out->buffer.i) return (NstExpr){0};
    for (uint32_t k = 0; k < in->load.n; k++)
        if (in->load.at[k].i == e.i) return in->value.at[k];
    NstExpr value = value_at(in, &node);
    nst_vec_push(in->f->arena, &in->load, e);
    nst_vec_push(in->f->arena, &in->value, value);
    return value;
}

static void inline_into(NstFuser *f, const NstNest *producer, NstNest *consumer)
{
    Inliner in = {.f = f, .producer = producer, .out = &producer->out[0], .consumer = consumer};
    for (uint32_t k = 0; k < consumer->n_lets; k++) {
        NstIndexLet let = consumer->let[k];
        let.value = nst_expr_rewrite(f->exprs, let.value, inline_node, &in);
        nst_vec_push(f->arena, &in.lets, let);
    }
    nst_fuse_rewrite(f, consumer, inline_node, &in);
    consumer->let = in.lets.at;
    consumer->n_lets = in.lets.n;
    consumer->origin = nst_origin_merge(f->module->origins, producer->origin, consumer->origin);
}

/* Index-lets run before the reduction and whatever the guard says: then the place of reading must be known there. */
static bool lets_may_move(NstFuser *f, const NstNest *producer, const NstNest *consumer)
{
    if (!producer->n_lets) return true;
    if (consumer->guard.i || consumer->n_states) return false;
    NstExpr load[8];
    uint32_t n = nst_fuse_loads(f, consumer, producer->out[0].buffer, load, 8);
    return n <= 8;
}

/* All nests of a group that read the buffer must take the producer; *why says what one minds. */
static bool group_takes(NstFuser *f, const NstNest *producer, const NstGroup *group, bool repeats, const char **why)
{
    *why = "its reader is no kernel";
    if (group->step) return false;
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstNest *nest = group->items.at[k].nest;
        if (!nest) {
            if (!group_takes(f, producer, group->items.at[k].group, repeats, why)) return false;
            continue;
        }
        if (!nst_fuse_loads(f, nest, producer->out[0].buffer, NULL, 0)) continue;
        if (!nst_fuse_inline_pays(f, producer, nest, repeats, why)) return false;
        *why = "its gathered index would be read inside a reduction";
        if (!lets_may_move(f, producer, nest)) return false;
    }
    return true;
}

static void inline_into_group(NstFuser *f, const NstNest *producer, NstGroup *group)
{
    for (uint32_t k = 0; k < group->items.n; k++) {
        NstNest *nest = group->items.at[k].nest;
        if (!nest)
            inline_into_group(f, producer, group->items.at[k].group);
        else if (nst_fuse_loads(f, nest, producer->out[0].buffer, NULL, 0))
            inline_into(f, producer, nest);
    }
    group->origin = nst_origin_merge(f->module->origins, producer->origin, group->origin);
}

/* A map alone in its group whose one result is temporary, complete and its own. */
static NstNest *inlinable(NstFuser *f, uint32_t at)
{
    NstNest *nest = nst_fuse_single(f->groups.at[at].group);
    if (!nest || nest->n_states || nest->n_outs != 1 || nest->store_guard.i || nest->check.i) return NULL;
    NstBuf buffer = nest->out[0].buffer;
    if (!nst_fuse_private(f, buffer)) return NULL;
    if (nst_fuser_holds(&f->groups.at[at].reads, buffer)) return NULL;
    if (!nst_fuse_plain_out(f, nest, &nest->out[0]) || nst_fuse_writers(f, buffer) != 1) return NULL;
    return nest;
}

static void inline_group(NstFuser *f, uint32_t at)
{
    NstNest *producer = inlinable(f, at);
    if (!producer) return;
    bool repeats = nst_fuse_repeats(f, producer);
    const char *why = NULL;
    NstPlaces users = nst_fuser_users(f, at);
    for (uint32_t k = 0; k < users.n; k++) {
        if (group_takes(f, producer, f->groups.at[users.at[k]].group, repeats, &why)) continue;
        nst_fuse_refuse(f, at, why);
        return;
    }
    for (uint32_t k = 0; k < users.n; k++) {
        inline_into_group(f, producer, f->groups.at[users.at[k]].group);
        nst_fuser_refresh(f, users.at[k]);
    }
    nst_fuser_remove(f, at);
}

NstStatus nst_fuse_inline(NstFuser *f)
{
    for (uint32_t at = 0; at < f->groups.n; at++) inline_group(f, at);
    return NST_OK;
}
