/* pipeline.c: see pass.h. */
#include <string.h>
#include "passes/pass.h"
#include "passes/simplify.h"

static const NstPassInfo pass_info[NST_PASS_COUNT] = {
#define NST_PASS(name, text, level, exact, what) [NST_PASS_##name] = {text, NST_LEVEL_##level, exact, what},
#include "passes/pass.def"
#undef NST_PASS
};

const NstPassInfo *nst_pass_info(NstPass pass)
{
    NST_ASSERT(pass < NST_PASS_COUNT);
    return &pass_info[pass];
}

NstPass nst_pass_find(const char *name)
{
    for (int k = 0; k < NST_PASS_COUNT; k++)
        if (!strcmp(pass_info[k].name, name)) return (NstPass)k;
    return NST_PASS_COUNT;
}

bool nst_pass_on(const NstPassOptions *options, NstPass pass)
{
    if (!options) return true;
    if (options->strict && !pass_info[pass].exact) return false;
    return !(options->off >> pass & 1);
}

NstStatus nst_optimise_nests(NstCtx *ctx, NstModule *module, const NstPassOptions *options)
{
    for (uint32_t k = 0; k < module->groups.n; k++) {
        const NstModuleStep *step = module->groups.at[k]->step;
        for (int b = 0; step && b < 2; b++)
            if (step->body[b]) NST_TRY(nst_optimise_nests(ctx, step->body[b], options));
    }
    if (nst_pass_on(options, NST_PASS_FUSE)) NST_TRY(nst_fuse_module(ctx, module));
    if (nst_pass_on(options, NST_PASS_ONLINE)) NST_TRY(nst_pass_online(ctx, module));
    if (nst_pass_on(options, NST_PASS_AHEAD)) nst_pass_ahead(module);
    if (nst_pass_on(options, NST_PASS_LAYOUT)) NST_TRY(nst_pass_layout(ctx, module));
    if (nst_pass_on(options, NST_PASS_SIBLINGS)) NST_TRY(nst_pass_siblings(ctx, module));
    if (nst_pass_on(options, NST_PASS_SMALL)) NST_TRY(nst_pass_small(ctx, module));
    return NST_OK;
}

NstStatus nst_optimise_kernel(NstCtx *ctx, NstKernel *kernel, const NstPassOptions *options)
{
    bool changed;
    if (nst_pass_on(options, NST_PASS_SIMPLIFY)) NST_TRY(nst_pass_simplify(ctx, kernel, &changed));
    return NST_OK;
}

NstStatus nst_optimise_graph(NstCtx *ctx, NstGraph *graph, const NstPassOptions *options)
{
    if (nst_pass_on(options, NST_PASS_MOMENTS)) NST_TRY(nst_pass_moments(ctx, graph));
    if (nst_pass_on(options, NST_PASS_RECIPROCAL)) NST_TRY(nst_pass_reciprocal(ctx, graph));
    return NST_OK;
}

NstStatus nst_lower_graph(NstCtx *ctx, NstArena *arena, NstGraph *graph, const NstTarget *target,
                          const NstPassOptions *options, NstModule **result)
{
    NST_TRY(nst_optimise_graph(ctx, graph, options));
    NstModule *module = *result = nst_module_new(arena, graph, target, options && options->strict);
    NST_TRY(nst_to_nests(ctx, module));
    return nst_optimise_nests(ctx, module, options);
}
