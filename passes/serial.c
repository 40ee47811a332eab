/* serial.c: see serial.h. */
#include "passes/serial.h"

#include "passes/int_dot.h"
#include "passes/rows.h"

bool nst_is_serial_group(const NstGroup *group)
{
    if (!group->serial || group->n_axes != 1) return false;
    for (uint32_t k = 0; k < group->items.n; k++)
        if (!group->items.at[k].nest) return false;
    return true;
}

/* True if the column operand is made of constants alone: it is packed once, not in every step. */
static bool constant_columns(NstModule *module, const NstNest *nest, const NstTileSchedule *schedule)
{
    NstContraction c;
    if (!nst_nest_contraction_by(module, nest, (uint32_t)schedule->col_axis, &c)) return false;
    return nst_module_is_constant(module, c.b);
}

/* What every step reads again comes from L2 without being asked for, and in the order in which codegen/emit_loop.c turns round,
 * tile by tile (100 steps over 1 MB: 1,124 us with prefetches, 1,057 without, 957 there and back; AMD Zen 4, 1 MB of L2,
 * 2026-11). */
static void keep_in_cache(const NstModule *module, NstTileSchedule *schedule)
{
    int64_t lo, hi;
    if (!schedule->columns_of.i) return;
    const NstBuffer *packed = &nst_module_get(module, schedule->columns_of)->buffer;
    nst_dim_bounds(module->dims, packed->layout.elements, &lo, &hi);
    if (hi <= module->target->l2_bytes / nst_dtype_info(packed->dtype)->bytes) schedule->prefetch = 0;
    if (schedule->parallel == NST_PARALLEL_COLS) schedule->col_block = 1;
}

static void prepare_item(NstModule *module, NstGroupItem *item)
{
    NstNest *nest = item->nest;
    NstTileSchedule *schedule = NST_NEW(module->arena, NstTileSchedule);
    if (!nest->n_states) return; /* a map: by rows */
    if (nest->n_lets || nest->store_guard.i || nest->check.i || nest->lanes > 1 || nest->n_axes < 2) return;
    nst_integer_step(module, nest, nest->n_axes - 1);
    if (!nst_tile_schedule_choose(module, nest, 1, true, schedule)) return;
    if (nest->guard.i && nst_expr_uses_sym(module->exprs, nest->guard, nest->axis[schedule->col_axis].var)) return;
    if (constant_columns(module, nest, schedule)) {
        NstPacked packed = nst_pack_columns(module, nest, 1, schedule);
        if (packed.nest) {
            /* The constant does not change by step. */
            NstNestSubst subst;
            nst_subst_begin(&subst, module);
            nst_subst_set(&subst, packed.nest->axis[0].var, nst_dim_const(module->dims, 0));
            NstNest *once = packed.nest;
            once->axis++;
            once->n_axes--;
            nst_subst_end(&subst, once);
            nst_vec_push(module->arena, &module->prepack, nst_group_new(module, once));
        }
    }
    keep_in_cache(module, schedule);
    item->tile = schedule;
}

void nst_prepare_serial(NstModule *module)
{
    for (uint32_t k = 0; k < module->groups.n; k++) {
        NstGroup *group = module->groups.at[k];
        if (group->sequence) nst_sequence_each(module, group, nst_prepare_serial);
        for (uint32_t i = 0; nst_is_serial_group(group) && i < group->items.n; i++)
            prepare_item(module, &group->items.at[i]);
    }
}

/* Locals in memory that all threads see, with their leading index (the step) left out. */
static void make_shared(NstWriter *w, const NstGroup *group, NstBlock *block)
{
    for (uint32_t k = 0; k < group->locals.n; k++) {
        NstBuf local = nst_writer_buffer(w, group->locals.at[k]);
        nst_kernel_buffer(w->kernel, local)->space = NST_SPACE_SHARED;
        nst_block_add(w->kernel, block, nst_stmt_alloc(w->kernel, local));
    }
}

/* What is written by rows has flat buffers; the tiles that share them find their places in those. */
void nst_flatten_serial(NstWriter *w, const NstGroup *group)
{
    for (uint32_t k = 0; k < group->items.n; k++)
        if (!group->items.at[k].tile) nst_flat_touched(w, group->items.at[k].nest);
}

NstStatus nst_write_serial(NstCtx *ctx, NstWriter *w, const NstGroup *group)
{
    NST_CHECK(ctx, nst_is_serial_group(group), NST_E_UNSUPPORTED, "group '%s' is no serial group", group->name);
    NstModule *module = w->module;
    nst_flatten_serial(w, group);
    make_shared(w, group, &w->kernel->body);
    NstBlock *block = nst_writer_axis_loop(w, &w->kernel->body, group->axis[0], NST_FOR_SERIAL);
    int64_t steps;
    bool never =
        nst_dim_is_const(module->dims, group->axis[0].extent, &steps) && steps <= 0; /* addresses are void then */
    for (uint32_t k = 0; k < group->items.n && !never; k++) {
        const NstGroupItem *item = &group->items.at[k];
        nst_writer_bind(w, item->nest->axis[0].var, nst_writer_dim(w, nst_dim_sym(module->dims, group->axis[0].var)));
        w->flat = !item->tile;
        if (item->tile)
            NST_TRY(nst_tile_nest(ctx, w, block, item->nest, 1, item->tile));
        else
            NST_TRY(nst_write_row_nest(ctx, w, block, item->nest, 1, true));
        if (!w->alone) nst_block_add(w->kernel, block, nst_stmt_barrier(w->kernel));
    }
    w->flat = false;
    return NST_OK;
}
