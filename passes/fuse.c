/* fuse.c: fusion of a module's nests into groups: maps into users, epilogues, common axes (architecture.md section 4).
 *
 * In: one group a nest.  Out: fewer groups, each to become one kernel; for each the reason why it was not fused with the next. */
#include "passes/fuse.h"
#include "passes/pass.h"

/* The plan tells for each kernel why the next one is not part of it. */
static void explain(NstFuser *f)
{
    for (uint32_t k = 0; k + 1 < f->groups.n; k++) {
        NstFuseGroup *a = &f->groups.at[k], *b = &f->groups.at[k + 1];
        bool reads = false;
        for (uint32_t w = 0; w < a->writes.n; w++) reads = reads || nst_fuser_holds(&b->reads, a->writes.at[w]);
        if (!reads) a->group->why_not_fused = "the next kernel does not read its result";
        if (!a->group->why_not_fused) a->group->why_not_fused = "no rule joins them";
    }
    if (f->groups.n) f->groups.at[f->groups.n - 1].group->why_not_fused = NULL;
}

NstStatus nst_fuse_module(NstCtx *ctx, NstModule *module)
{
    NstFuser f;
    nst_fuser_init(&f, ctx, module);
    NST_TRY(nst_fuse_epilogues(&f, true)); /* what follows a sum joins it before it is copied into its readers */
    NST_TRY(nst_fuse_inline(&f));
    NST_TRY(nst_fuse_epilogues(&f, false));
    NST_TRY(nst_fuse_rows(&f));
    explain(&f);
    module->groups.n = 0;
    for (uint32_t k = 0; k < f.groups.n; k++) nst_vec_push(module->arena, &module->groups, f.groups.at[k].group);
    return NST_OK;
}
