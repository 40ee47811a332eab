/* plan_layout.c: where each arena buffer of a plan lies: greedy by size over lifetimes.  Big buffers first, each at the
 * lowest place that is free for its whole life; n^2 in the number of buffers, done once a signature. */
#include "runtime/plan_layout.h"

#include <stdlib.h>

#define ALIGN 64 /* bytes: a cache line and the widest vector */

typedef struct Life {
    uint32_t buffer, first, last;
    uint64_t bytes, offset;
} Life;

uint32_t nst_plan_root(const NstPlan *plan, uint32_t b)
{
    while (plan->buffers.at[b].place == NST_PLACE_ALIAS) b = plan->buffers.at[b].index;
    return b;
}

static int by_size(const void *a, const void *b)
{
    const Life *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static int by_offset(const void *a, const void *b)
{
    const Life *const *x = a, *const *y = b;
    if ((*x)->offset != (*y)->offset) return (*x)->offset < (*y)->offset ? -1 : 1;
    return (*x)->buffer<(*y)->buffer ? -1 : (*x)->buffer>(*y)->buffer;
}

/* The lowest offset at which life fits between those of the first n that live at the same time. */
static uint64_t find_place(const Life *life, Life *placed, uint32_t n, Life **busy)
{
    uint32_t n_busy = 0;
    for (uint32_t k = 0; k < n; k++)
        if (placed[k].first <= life->last && life->first <= placed[k].last) busy[n_busy++] = &placed[k];
    if (n_busy > 1) qsort(busy, n_busy, sizeof(Life *), by_offset);
    uint64_t at = 0;
    for (uint32_t k = 0; k < n_busy; k++) {
        if (busy[k]->offset >= at && busy[k]->offset - at >= life->bytes) return at;
        if (busy[k]->offset + busy[k]->bytes > at) at = busy[k]->offset + busy[k]->bytes;
    }
    return at;
}

static NstStatus place_all(NstCtx *ctx, Life *life, uint32_t n, Life **busy, uint64_t *offset, uint64_t *bytes)
{
    if (n > 1) qsort(life, n, sizeof *life, by_size);
    *bytes = 0;
    for (uint32_t k = 0; k < n; k++) {
        life[k].offset = find_place(&life[k], life, k, busy);
        offset[life[k].buffer] = life[k].offset;
        uint64_t end = life[k].offset + life[k].bytes;
        NST_CHECK(ctx, end <= INT64_MAX, NST_E_LIMIT, "the memory of one run does not fit 63 bits");
        if (end > *bytes) *bytes = end;
    }
    return NST_OK;
}

/* Lives of arena buffers, those of aliases included; index_of[b] is 1 + place in life. */
static uint32_t collect_lives(const NstPlan *plan, Life *life, uint32_t *index_of)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < plan->buffers.n; b++) {
        const NstPlanBuffer *buffer = &plan->buffers.at[b];
        if (buffer->place != NST_PLACE_ARENA) continue;
        life[n] = (Life){b, buffer->first, buffer->last, 0, 0};
        index_of[b] = ++n;
    }
    for (uint32_t b = 0; b < plan->buffers.n; b++) {
        const NstPlanBuffer *buffer = &plan->buffers.at[b];
        uint32_t at = buffer->place == NST_PLACE_ALIAS ? index_of[nst_plan_root(plan, b)] : 0;
        if (at == 0) continue;
        if (buffer->first < life[at - 1].first) life[at - 1].first = buffer->first;
        if (buffer->last > life[at - 1].last) life[at - 1].last = buffer->last;
    }
    return n;
}

NstStatus nst_plan_place(NstCtx *ctx, NstArena *scratch, const NstPlan *plan, const NstSizes *sizes,
                         const int64_t *value, const uint8_t *state, uint64_t *offset, uint64_t *bytes)
{
    Life *life = NST_NEW_ARRAY(scratch, Life, plan->buffers.n);
    uint32_t *index_of = NST_NEW_ARRAY(scratch, uint32_t, plan->buffers.n), n_placed = 0;
    uint32_t n = collect_lives(plan, life, index_of);
    for (uint32_t k = 0; k < n; k++) {
        const NstPlanBuffer *buffer = &plan->buffers.at[life[k].buffer];
        if (!nst_sizes_known(sizes, buffer->bytes, state)) continue;
        int64_t size = 0;
        NST_TRY(nst_sizes_get(ctx, sizes, buffer->bytes, value, state, buffer->name, &size));
        NST_CHECK(ctx, size >= 0 && size <= INT64_MAX / 4, NST_E_SHAPE, "'%s' would have %lld bytes", buffer->name,
                  (long long)size);
        life[k].bytes = ((uint64_t)size + ALIGN - 1) / ALIGN * ALIGN;
        life[n_placed++] = life[k];
    }
    return place_all(ctx, life, n_placed, NST_NEW_ARRAY(scratch, Life *, n), offset, bytes);
}

NstStatus nst_plan_layout(NstCtx *ctx, const NstPlan *plan, const int64_t *sym_value, uint32_t n_syms, uint64_t *offset,
                          uint64_t *bytes)
{
    NstArena *scratch = nst_arena_new(ctx, ctx->arena);
    NstSizes sizes;
    nst_sizes_of_plan(&sizes, scratch, plan);
    uint32_t n_all = nst_dims_sym_count(plan->dims) + 1;
    int64_t *symbol = NST_NEW_ARRAY(scratch, int64_t, n_all), *value = NST_NEW_ARRAY(scratch, int64_t, sizes.nodes.n);
    bool *known = NST_NEW_ARRAY(scratch, bool, n_all);
    uint8_t *state = NST_NEW_ARRAY(scratch, uint8_t, sizes.nodes.n);
    for (uint32_t s = 1; s < n_all && s < n_syms; s++) {
        symbol[s] = sym_value[s];
        known[s] = true;
    }
    nst_sizes_eval(&sizes, symbol, known, value, state);
    NstStatus status = nst_plan_place(ctx, scratch, plan, &sizes, value, state, offset, bytes);
    nst_arena_free(scratch);
    return status;
}
