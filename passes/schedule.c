/* schedule.c: gives each group of a module its kernel: picks the kind of schedule by the group's form. */
#include "passes/pass.h"

static NstStatus schedule_group(NstCtx *ctx, NstModule *module, const NstGroup *group, NstScheduled *result)
{
    NST_TRY(nst_group_to_kernel(ctx, module, group, &result->kernel, &result->arg));
    result->n_args = result->kernel->n_args;
    result->group = group;
    return NST_OK;
}

NstStatus nst_schedule_module(NstCtx *ctx, NstModule *module, const NstPassOptions *options, NstScheduled **scheduled,
                              uint32_t *n)
{
    (void)options;
    *n = module->groups.n;
    *scheduled = NST_NEW_ARRAY(module->arena, NstScheduled, *n);
    for (uint32_t k = 0; k < *n; k++)
        if (schedule_group(ctx, module, module->groups.at[k], &(*scheduled)[k]) != NST_OK)
            return nst_note(ctx, "kernel '%s'", module->groups.at[k]->name);
    return NST_OK;
}
