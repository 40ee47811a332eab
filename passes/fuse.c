/* fuse.c: fusion of a module's nests into groups: maps into users, epilogues, common axes (architecture.md section 4).
 *
 * In: one group a nest.  Out: fewer groups, each to become one kernel; for each the reason why it was not fused with the next. */
#include "passes/fuse.h"
#include "passes/pass.h"

void nst_fuser_explain(NstFuser *f)
{
    nst_fuser_compact(f);
    for (uint32_t k = 0; k + 1 < f->groups.n; k++) {
        NstFuseGroup *a = &f->groups.at[k], *b = &f->groups.at[k + 1];
        if (!nst_fuser_meet(&a->writes, &b->reads))
            a->group->why_not_fused = "the next kernel does not read its result";
        if (!a->group->why_not_fused) a->group->why_not_fused = "no rule joins them";
    }
    if (f->groups.n) f->groups.at[f->groups.n - 1].group->why_not_fused = NULL;
}

static NstStatus fuse_list(NstFuser *f)
{
    NST_TRY(nst_fuse_epilogues(f, true)); /* what follows a sum joins it before it is copied into its readers */
    NST_TRY(nst_fuse_inline(f));
    nst_fuser_compact(f);
    NST_TRY(nst_fuse_epilogues(f, false));
    nst_fuser_compact(f);
    return NST_OK;
}

static bool touches(const NstFuser *f, NstBuf buffer)
{
    return nst_fuser_readers(f, buffer).n != 0 || nst_fuser_writers(f, buffer).n != 0;
}

/* Members of a serial group are fused among themselves: one step is a module of its own. */
static NstStatus fuse_serial(NstCtx *ctx, NstModule *module, NstGroup *group)
{
    NstModule step = *module;
    NstFuser f;
    memset(&step.groups, 0, sizeof step.groups);
    for (uint32_t k = 0; k < group->items.n; k++) {
        if (!group->items.at[k].nest) return NST_OK;
        nst_vec_push(module->arena, &step.groups, nst_group_new(module, group->items.at[k].nest));
    }
    nst_fuser_init(&f, ctx, &step);
    f.within = group;
    NST_TRY(fuse_list(&f));
    module->buffers = step.buffers;
    group->items.n = 0;
    for (uint32_t k = 0; k < f.groups.n; k++)
        nst_vec_push(module->arena, &group->items, f.groups.at[k].group->items.at[0]);
    uint32_t kept = 0;
    for (uint32_t k = 0; k < group->locals.n; k++)
        if (touches(&f, group->locals.at[k])) group->locals.at[kept++] = group->locals.at[k];
    group->locals.n = kept;
    return NST_OK;
}

NstStatus nst_fuse_module(NstCtx *ctx, NstModule *module)
{
    NstFuser f;
    for (uint32_t k = 0; k < module->groups.n; k++)
        if (module->groups.at[k]->serial && module->groups.at[k]->items.n > 1)
            NST_TRY(fuse_serial(ctx, module, module->groups.at[k]));
    nst_fuser_init(&f, ctx, module);
    NST_TRY(fuse_list(&f));
    NST_TRY(nst_fuse_rows(&f));
    nst_fuser_explain(&f);
    module->groups.n = 0;
    for (uint32_t k = 0; k < f.groups.n; k++) nst_vec_push(module->arena, &module->groups, f.groups.at[k].group);
    return NST_OK;
}
