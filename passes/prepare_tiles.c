/* prepare_tiles.c: decides which groups take the register-tile schedule, and prepares their operands for it. */
#include "passes/int_dot.h"
#include "passes/sched.h"
#include "passes/strip.h"

/* A contraction in floats or words, alone in its group. */
static bool is_contraction(NstModule *module, const NstGroup *group)
{
    NstContraction contraction;
    if (group->n_axes || group->items.n != 1 || !group->items.at[0].nest) return false;
    const NstNest *nest = group->items.at[0].nest;
    return nest->n_lets == 0 && nest->lanes <= 1 && !nest->check.i && nst_nest_contraction(module, nest, &contraction);
}

static void prepare(NstModule *module, uint32_t at)
{
    NstGroup *group = module->groups.at[at];
    NstNest *nest = group->items.at[0].nest;
    NstTileSchedule *schedule = NST_NEW(module->arena, NstTileSchedule);
    nst_merge_groups(module, nest);
    if (!nst_tile_schedule_choose(module, nest, 0, true, schedule)) return;
    /* Padding along the vector axis: lanes differ, which columns with masks say (rows.c). */
    if (nst_expr_uses_sym(module->exprs, nest->guard, nest->axis[schedule->col_axis].var)) return;
    group->tile = schedule;
    NstPacked packed = nst_pack_columns(module, nest, 0, schedule);
    if (!packed.nest) return;
    NstGroup *pack = nst_group_new(module, packed.nest);
    if (packed.constant)
        nst_vec_push(module->arena, &module->prepack, pack);
    else
        nst_module_insert_group(module, pack, at);
}

void nst_prepare_tiles(NstModule *module)
{
    for (uint32_t k = 0; k < module->groups.n; k++) {
        NstGroup *group = module->groups.at[k];
        if (nst_is_strip_group(module, group)) nst_prepare_strip(module, group);
        if (!is_contraction(module, group)) continue;
        nst_integer_contraction(module, &k);
        uint32_t before = module->groups.n;
        prepare(module, k);
        k += module->groups.n - before;
    }
}
