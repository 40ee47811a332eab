/* schedule.c: gives each group of a module its kernel: picks the kind of schedule by the group's form.
 *
 * Register tiles where nst_prepare_tiles chose them (several of them for siblings), strips for groups with contractions, rows for maps
 * and other reductions, plain loops for what runs in order; a sequence is its members by theirs. */
#include "passes/canon.h"
#include "passes/pass.h"
#include "passes/rows.h"
#include "passes/serial.h"
#include "passes/strip.h"

static NstStatus write_tile(NstCtx *ctx, NstWriter *w, const NstGroup *group)
{
    NstBlock *block = &w->kernel->body;
    const NstNest *nest = group->items.at[0].nest;
    if (group->tile->matrix) return nst_tile_matrices(ctx, w, block, nest, group->tile);
    return nst_tile_nest(ctx, w, block, nest, 0, group->tile);
}

/* What a group's form asks for. */
typedef enum Form { FORM_TILE, FORM_SIBLINGS, FORM_STRIP, FORM_SERIAL, FORM_ROWS, FORM_SEQUENCE, FORM_PLAIN } Form;

static Form form_of(NstModule *module, const NstGroup *group)
{
    if (group->tile) return FORM_TILE;
    if (group->sequence) return FORM_SEQUENCE;
    if (nst_is_sibling_group(group)) return FORM_SIBLINGS;
    if (nst_is_strip_group(module, group)) return FORM_STRIP;
    if (nst_is_serial_group(group)) return FORM_SERIAL;
    return nst_is_row_group(group) ? FORM_ROWS : FORM_PLAIN;
}

static NstStatus write_group(NstCtx *ctx, NstWriter *w, const NstGroup *group, const NstGroup *fused);

/* Item k of siblings as a group of its own. */
static NstGroup *sibling(NstModule *module, const NstGroup *group, uint32_t k)
{
    NstGroup *single = nst_group_new(module, group->items.at[k].nest);
    single->tile = group->items.at[k].tile;
    return single;
}

/* Flattens what the group needs flat: of groups in one kernel, all are asked before any is written. */
static void flatten(NstWriter *w, const NstGroup *group)
{
    Form form = form_of(w->module, group);
    if (form == FORM_SERIAL) nst_flatten_serial(w, group);
    if (form == FORM_ROWS) nst_flatten_rows(w, group);
    if (form == FORM_SIBLINGS)
        for (uint32_t k = 0; k < group->items.n; k++) flatten(w, sibling(w->module, group, k));
}

/* Groups one after the other.  What one of them needs flat is flat for all; locals of rows stay where they are, for rows are short. */
static NstStatus write_sequence(NstCtx *ctx, NstWriter *w, const NstGroup *group)
{
    for (uint32_t k = 0; k < group->items.n; k++) flatten(w, group->items.at[k].group);
    for (uint32_t k = 0; k < group->items.n; k++) {
        nst_writer_open_locals(w, &w->kernel->body, group, k);
        NST_TRY(write_group(ctx, w, group->items.at[k].group, group->items.at[k].group));
    }
    return NST_OK;
}

/* Nests side by side, with no barrier between them: products, each tiled, or a packed operand and the rest of its panels. */
static NstStatus write_siblings(NstCtx *ctx, NstWriter *w, const NstGroup *group)
{
    flatten(w, group);
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstGroup *single = sibling(w->module, group, k);
        NST_TRY(write_group(ctx, w, single, single));
    }
    return NST_OK;
}

/* `fused` is the group before locals of rows were put in place. */
static NstStatus write_group(NstCtx *ctx, NstWriter *w, const NstGroup *group, const NstGroup *fused)
{
    switch (form_of(w->module, group)) {
    case FORM_TILE: return write_tile(ctx, w, group);
    case FORM_SIBLINGS: return write_siblings(ctx, w, group);
    case FORM_STRIP: return nst_write_strip(ctx, w, group);
    case FORM_SERIAL: return nst_write_serial(ctx, w, group);
    case FORM_ROWS: return nst_write_rows(ctx, w, group, fused);
    case FORM_SEQUENCE: return write_sequence(ctx, w, group);
    case FORM_PLAIN: nst_writer_plain_group(w, &w->kernel->body, group); break;
    }
    return NST_OK;
}

/* Elements up to which what is made once is made by plain loops: an element takes some ns then, 0.1 ms in all, where code for
 * vectors and transposes takes 3 to 15 ms more to compile (AMD Zen 5, 2026-11). */
enum { PLAIN_ONCE = 1 << 14 };

/* True if the nests of a group do so little that it is not worth a schedule. */
static bool is_short(NstModule *module, const NstGroup *group)
{
    int64_t total = 0;
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstNest *nest = group->items.at[k].nest;
        NstDim steps = nst_dim_const(module->dims, 1);
        int64_t n;
        if (!nest) return false;
        for (uint32_t a = 0; a < nest->n_axes; a++) steps = nst_dim_mul(module->dims, steps, nest->axis[a].extent);
        for (uint32_t a = 0; a < nest->n_reduce; a++) steps = nst_dim_mul(module->dims, steps, nest->reduce[a].extent);
        if (!nst_dim_is_const(module->dims, steps, &n) || n > PLAIN_ONCE - total) return false;
        total += n;
    }
    return true;
}

static NstStatus schedule_group(NstCtx *ctx, NstModule *module, const NstGroup *group, const NstPassOptions *options,
                                bool once, NstScheduled *result)
{
    bool on = nst_pass_on(options, NST_PASS_SCHEDULE) && !(once && is_short(module, group));
    NstGroup placed = on && form_of(module, group) == FORM_ROWS ? nst_rows_in_place(module, group) : *group;
    NstWriter w;
    nst_writer_init(&w, module, &placed);
    if (on)
        NST_TRY(write_group(ctx, &w, &placed, group));
    else
        nst_writer_plain_group(&w, &w.kernel->body, group);
    nst_writer_finish(&w, &result->kernel, &result->arg);
    NST_TRY(nst_optimise_kernel(ctx, result->kernel, options));
    result->n_args = result->kernel->n_args;
    result->group = group;
    return NST_OK;
}

static NstStatus schedule_groups(NstCtx *ctx, NstModule *module, NstGroup *const *group, uint32_t n,
                                 const NstPassOptions *options, bool once, NstScheduledList *list)
{
    list->n = n;
    list->at = NST_NEW_ARRAY(module->arena, NstScheduled, n);
    for (uint32_t k = 0; k < n; k++)
        if (group[k]->step)
            list->at[k] = (NstScheduled){.group = group[k]};
        else if (schedule_group(ctx, module, group[k], options, once, &list->at[k]) != NST_OK)
            return nst_note(ctx, "kernel '%s'", group[k]->name);
    return NST_OK;
}

/* The kernels' texts; every parameter is given the symbol that it is. */
static void finish(NstScheduledList *list)
{
    for (uint32_t k = 0; k < list->n; k++) {
        NstKernel *kernel = list->at[k].kernel;
        if (!kernel) continue;
        nst_text_init(&list->at[k].text, kernel->arena);
        nst_kernel_canonical(&list->at[k].text, kernel);
        list->at[k].size = NST_NEW_ARRAY(kernel->arena, NstDim, kernel->params.n);
        for (uint32_t p = 0; p < kernel->params.n; p++)
            list->at[k].size[p] = nst_dim_sym(kernel->dims, kernel->params.at[p]);
    }
}

NstStatus nst_schedule_module(NstCtx *ctx, NstModule *module, const NstPassOptions *options, NstScheduledList *run,
                              NstScheduledList *prepack)
{
    if (nst_pass_on(options, NST_PASS_SCHEDULE)) {
        nst_prepare_tiles(module);
        nst_prepare_serial(module);
    }
    NST_TRY(schedule_groups(ctx, module, module->prepack.at, module->prepack.n, options, true, prepack));
    NST_TRY(schedule_groups(ctx, module, module->groups.at, module->groups.n, options, false, run));
    finish(prepack);
    finish(run);
    if (!nst_pass_on(options, NST_PASS_CANON)) return NST_OK;
    NstCanonSyms syms = {0};
    nst_pass_canon(module, &syms, true, prepack);
    nst_pass_canon(module, &syms, false, run);
    return NST_OK;
}
