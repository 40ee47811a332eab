/* fuse_siblings.c: rule 6: small products that read the same operand (the gates of a cell, heads side by side) become one kernel.
 *
 * In: fused groups with their layouts.  Out: groups without common axes whose nests do not depend on one another; each keeps its tiles,
 * its weights, its results and its epilogue, and none waits for another.  What that saves is a step and, on several threads, a fork
 * and join a product, and work that is too little to be dealt out alone is dealt out together; one wide product would save no more and
 * ask for copies where sizes or epilogues differ (docs/ARCHITECTURE.md has the numbers).  Cost: linear in the groups times REACH. */
#include "passes/fuse.h"
#include "passes/pass.h"

/* A product of at least so many multiplications repays a fork and join of its own: 12 us and more at 85 a ns, of which 0.3 us is 2 %. */
enum { LARGE = 1 << 20 };
/* Products of one kernel: code grows by the tiles of each. */
enum { MOST_PRODUCTS = 8 };
/* Groups after a product among which its siblings are looked for. */
enum { REACH = 32 };
/* Stands for an extent that is not known, within its bounds. */
enum { TYPICAL_EXTENT = 256 };

typedef struct Operand {
    const NstModule *module;
    NstBuf buffer;
    bool several;
} Operand;

static void visit_load(void *arg, NstExpr e, const NstExprNode *node)
{
    Operand *o = arg;
    (void)e;
    if (node->op != NST_OP_LOAD) return;
    NstBufferRole role = nst_module_get(o->module, (NstBuf){node->ref})->role;
    if (role == NST_ROLE_CONST || role == NST_ROLE_PACKED) return;
    o->several |= o->buffer.i && o->buffer.i != node->ref;
    o->buffer.i = node->ref;
}

/* The buffer that a product with weights multiplies: its rows', or its columns' where the weights have the rows; none if the nest is
 * no product of numbers. */
static NstBuf operand_of(const NstFuser *f, const NstNest *nest)
{
    NstContraction c;
    Operand o = {.module = f->module};
    if (nest->n_lets || nest->store_guard.i || nest->check.i || nest->lanes > 1) return o.buffer;
    if (!nst_nest_contraction(f->module, nest, &c) || !c.n_cols || !nst_dtype_is_float(nest->state[0].dtype))
        return o.buffer;
    nst_expr_visit(f->exprs, c.a, visit_load, &o);
    if (!o.buffer.i) nst_expr_visit(f->exprs, c.b, visit_load, &o);
    return o.several ? (NstBuf){0} : o.buffer;
}

/* Of a group of products: that of its first. */
static NstBuf group_operand(const NstFuser *f, uint32_t at)
{
    const NstGroup *group = f->groups.at[at].group;
    if (!group || group->n_axes || group->serial || !group->items.n || !group->items.at[0].nest) return (NstBuf){0};
    return operand_of(f, group->items.at[0].nest);
}

static bool is_large(const NstFuser *f, const NstNest *nest)
{
    int64_t work = 1, lowest, extent;
    for (uint32_t k = 0; k < nest->n_axes + nest->n_reduce; k++) {
        const NstAxis *axis = k < nest->n_axes ? &nest->axis[k] : &nest->reduce[k - nest->n_axes];
        nst_dim_bounds(f->dims, axis->extent, &lowest, &extent);
        if (lowest < extent && extent > TYPICAL_EXTENT) extent = lowest > TYPICAL_EXTENT ? lowest : TYPICAL_EXTENT;
        if (extent > 0 && __builtin_mul_overflow(work, extent, &work)) return true;
    }
    return work >= LARGE;
}

/* NULL if group `to`, which reads the same operand, may be a part of the kernel of group `from`; else why not. */
static const char *why_apart(const NstFuser *f, uint32_t from, uint32_t to)
{
    const NstGroup *a = f->groups.at[from].group, *b = f->groups.at[to].group;
    if (is_large(f, a->items.at[0].nest) || is_large(f, b->items.at[0].nest))
        return "the next reads the same operand, but products as large as these repay kernels of their own";
    if (a->items.n + b->items.n > MOST_PRODUCTS)
        return "the next reads the same operand, but a kernel has no more products";
    if (nst_fuser_depends(f, to, from))
        return "the next reads the same operand, but also what this one makes, or it writes where this one does";
    if (!nst_fuser_can_join(f, from, to)) return "the next reads the same operand, but a kernel between needs this one";
    return NULL;
}

static NstGroup *joined_group(const NstFuser *f, const NstGroup *a, const NstGroup *b)
{
    NstGroup *group = nst_copy(f->arena, a, sizeof *a);
    memset(&group->items, 0, sizeof group->items);
    for (uint32_t k = 0; k < a->items.n; k++) nst_vec_push(f->arena, &group->items, a->items.at[k]);
    for (uint32_t k = 0; k < b->items.n; k++) nst_vec_push(f->arena, &group->items, b->items.at[k]);
    group->origin = nst_origin_merge(f->module->origins, a->origin, b->origin);
    return group;
}

/* Joins the first sibling that may join; *at is then where the joined group stands. */
static bool join_sibling(NstFuser *f, uint32_t *at)
{
    NstBuf operand = group_operand(f, *at);
    for (uint32_t to = *at + 1; operand.i && to < f->groups.n && to <= *at + REACH; to++) {
        if (group_operand(f, to).i != operand.i || why_apart(f, *at, to)) continue;
        *at = nst_fuser_join(f, *at, to, joined_group(f, f->groups.at[*at].group, f->groups.at[to].group));
        return true;
    }
    return false;
}

/* The plan says for siblings side by side why they are two kernels. */
static void explain(NstFuser *f)
{
    for (uint32_t k = 0; k + 1 < f->groups.n; k++) {
        NstBuf operand = group_operand(f, k);
        if (!operand.i || group_operand(f, k + 1).i != operand.i) continue;
        nst_fuse_refuse(f, k, why_apart(f, k, k + 1));
    }
}

NstStatus nst_pass_siblings(NstCtx *ctx, NstModule *module)
{
    NstFuser f;
    nst_fuser_init(&f, ctx, module);
    for (uint32_t at = 0; at < f.groups.n;) {
        uint32_t place = at;
        while (join_sibling(&f, &place)) continue;
        if (place == at) at++; /* else another group has taken its place */
    }
    nst_fuser_compact(&f);
    if (f.groups.n < module->groups.n) nst_fuser_explain(&f);
    explain(&f);
    module->groups.n = 0;
    for (uint32_t k = 0; k < f.groups.n; k++) nst_vec_push(module->arena, &module->groups, f.groups.at[k].group);
    return NST_OK;
}
