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

/* Puts nests that pack an operand before its user, those of constants before the run; rest may be NULL. */
static void place_pack(NstModule *module, NstNest *nest, NstNest *rest, bool is_constant, uint32_t *at)
{
    NstGroup *pack = nst_group_new(module, nest);
    if (rest) nst_vec_push(module->arena, &pack->items, ((NstGroupItem){.nest = rest}));
    if (is_constant)
        nst_vec_push(module->arena, &module->prepack, pack);
    else
        nst_module_insert_group(module, pack, (*at)++);
}

/* A contraction of 8-bit integers by matrix registers, where the target has them and they pay. */
static bool prepare_matrices(NstModule *module, uint32_t *at)
{
    NstNest *nest = module->groups.at[*at]->items.at[0].nest;
    NstTileSchedule *s = NST_NEW(module->arena, NstTileSchedule);
    NstDtype a, b;
    int axis[2];
    if (nest->state[0].dtype != NST_I32 || !nst_tile_schedule_choose(module, nest, 0, true, s)) return false;
    if (!nst_integer_contraction_types(module, *at, (uint32_t)s->col_axis, &a, &b)) return false;
    NstTensorInsn row = nst_target_insn(module->target, a, b, NST_I32);
    const NstTensorInsnInfo *insn = row < NST_INSN_COUNT ? nst_tensor_insn(row) : NULL;
    if (!insn || !insn->matrix_rows || !nst_tile_schedule_matrix(module, nest, insn, true, s)) return false;
    bool surrounded = nest->guard.i != 0;
    if (!nst_integer_surround(module, at, (uint32_t)s->col_axis, s->row_axis, insn)) return false;
    nst_integer_contraction(module, at, (uint32_t)s->col_axis, insn);
    module->groups.at[*at]->tile = s;
    NstContraction c;
    nst_nest_contraction_by(module, nest, (uint32_t)s->col_axis, &c);
    int64_t rows = nst_dim_known_multiple(module->dims, nest->axis[s->row_axis].extent);
    bool in_place = (surrounded || rows % insn->matrix_rows == 0) &&
                    nst_matrix_axes(module, nest, c.a, (uint32_t)s->row_axis, &axis[0], &axis[1]);
    NstPackedMatrix packed[2] = {{0}, nst_pack_matrix(module, nest, c.b, (uint32_t)s->col_axis, true, insn)};
    if (!in_place) packed[0] = nst_pack_matrix(module, nest, c.a, (uint32_t)s->row_axis, false, insn);
    for (int k = 0; k < 2; k++)
        for (uint32_t n = 0; n < packed[k].n_nests; n++)
            place_pack(module, packed[k].nest[n], NULL, packed[k].constant, at);
    return true;
}

static void prepare(NstModule *module, uint32_t *at)
{
    NstGroup *group = module->groups.at[*at];
    NstNest *nest = group->items.at[0].nest;
    NstTileSchedule *schedule = NST_NEW(module->arena, NstTileSchedule);
    nst_merge_groups(module, nest);
    if (!nst_tile_schedule_choose(module, nest, 0, true, schedule)) return;
    /* Padding along the vector axis: lanes differ, which columns with masks say (rows.c). */
    if (nst_expr_uses_sym(module->exprs, nest->guard, nest->axis[schedule->col_axis].var)) return;
    group->tile = schedule;
    NstPacked packed = nst_pack_columns(module, nest, 0, schedule);
    if (packed.nest) place_pack(module, packed.nest, packed.rest, packed.constant, at);
}

/* The axis that vectors will run along; the last one where none is known. */
static uint32_t column_axis(NstModule *module, const NstNest *nest)
{
    NstTileSchedule s;
    if (nest->guard.i && nst_tile_schedule_choose(module, nest, 0, true, &s)) return (uint32_t)s.col_axis;
    return nest->n_axes - 1;
}

/* Siblings, each as if it stood alone.  Those that take no tiles get kernels of their own after the others. */
static void prepare_siblings(NstModule *module, uint32_t *at)
{
    NstGroup *group = module->groups.at[*at], tiled = *group;
    NST_VEC(NstGroup *) placed = {0};
    memset(&tiled.items, 0, sizeof tiled.items);
    for (uint32_t k = 0; k < group->items.n; k++) {
        NstGroupItem *item = &group->items.at[k];
        NstGroup *single = module->groups.at[*at] = nst_group_new(module, item->nest);
        prepare(module, at);
        item->tile = single->tile;
        if (item->tile)
            nst_vec_push(module->arena, &tiled.items, *item);
        else
            nst_vec_push(module->arena, &placed, single);
    }
    *group = tiled;
    if (group->items.n == 1) group->tile = group->items.at[0].tile;
    if (group->items.n) nst_vec_push(module->arena, &placed, group);
    module->groups.at[*at] = placed.at[0];
    for (uint32_t k = 1; k < placed.n; k++) nst_module_insert_group(module, placed.at[k], ++*at);
}

void nst_prepare_tiles(NstModule *module)
{
    for (uint32_t k = 0; k < module->groups.n; k++) {
        NstGroup *group = module->groups.at[k];
        if (group->sequence) {
            nst_sequence_each(module, group, nst_prepare_tiles);
            continue;
        }
        if (nst_is_sibling_group(group)) {
            prepare_siblings(module, &k);
            continue;
        }
        if (nst_is_strip_group(module, group)) nst_prepare_strip(module, group);
        if (!is_contraction(module, group) || prepare_matrices(module, &k)) continue;
        nst_integer_contraction(module, &k, column_axis(module, group->items.at[0].nest), NULL);
        prepare(module, &k);
    }
}
