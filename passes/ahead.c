/* ahead.c: what is computed from constants alone is computed once, before the first run.
 *
 * In: fused groups.  Out: those that read nothing but constants stand in module->prepack, and what they write is constant: a
 * dequantised weight, a table.  Left where they are: groups that may fail, results of the graph, sizes that are read while running,
 * and results much larger than what they are made of.  Cost: linear in the loads of the module, once more for each buffer that
 * several groups write, and in its size symbols for each group that reads constants alone. */
#include "passes/pass.h"

/* Bytes that a group may make out of few: above them no more than twice what it reads, for they are kept. */
#define SMALL_BYTES 65536

/* Adds the bytes of each buffer; false if one has no constant size. */
static bool add_bytes(const NstModule *module, const NstBufList *list, int64_t *bytes)
{
    for (uint32_t k = 0; k < list->n; k++) {
        const NstBuffer *buffer = &nst_module_get(module, list->at[k])->buffer;
        int64_t elements, size;
        if (!nst_dim_is_const(module->dims, buffer->layout.elements, &elements)) return false;
        if (__builtin_mul_overflow(elements, nst_dtype_info(buffer->dtype)->bytes, &size)) return false;
        if (__builtin_add_overflow(*bytes, size, bytes)) return false;
    }
    return true;
}

static bool is_read_as_size(const NstModule *module, NstBuf buffer)
{
    for (uint32_t k = 0; k < module->reads.n; k++)
        if (module->reads.at[k].buffer.i == buffer.i) return true;
    return false;
}

static void add_all(NstModule *module, const NstGroup *group, const NstBufList *from, NstBufList *to)
{
    for (uint32_t k = 0; k < from->n; k++)
        if (!nst_group_is_local(group, from->at[k])) nst_vec_push(module->arena, to, from->at[k]);
}

/* What a group reads and writes outside of itself; false if it may fail, carries state or is a step. */
static bool touches(NstModule *module, const NstGroup *group, NstBufList *reads, NstBufList *writes)
{
    if (group->step || group->serial) return false;
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstNest *nest = group->items.at[k].nest;
        NstBufList in = {0}, out = {0};
        if (!nest && !touches(module, group->items.at[k].group, &in, &out)) return false;
        if (nest && (nest->n_lets || nest->check.i)) return false;
        if (nest) nst_nest_reads(module, nest, &in);
        if (nest) nst_nest_writes(module, nest, &out);
        add_all(module, group, &in, reads);
        add_all(module, group, &out, writes);
    }
    return true;
}

/* True if the group computes with a size that is known only when the plan runs. */
static bool uses_sizes(NstModule *module, const NstGroup *group)
{
    for (NstSym sym = nst_dims_next_size(module->dims, (NstSym){0}); sym.i; sym = nst_dims_next_size(module->dims, sym))
        if (nst_group_uses_sym(module, group, sym)) return true;
    return false;
}

/* True if the group is made of constants alone, cannot fail, and what it writes (*writes) may be constant. */
static bool may_go(NstModule *module, const NstGroup *group, NstBufList *writes)
{
    NstBufList reads = {0};
    int64_t in = 0, out = 0;
    if (!touches(module, group, &reads, writes) || !reads.n) return false;
    for (uint32_t k = 0; k < reads.n; k++)
        if (!nst_module_buffer_is_constant(module, reads.at[k])) return false;
    if (!add_bytes(module, &reads, &in) || !add_bytes(module, writes, &out)) return false;
    if (out > SMALL_BYTES && out / 2 > in) return false;
    for (uint32_t k = 0; k < writes->n; k++) {
        const NstModuleBuffer *buffer = nst_module_get(module, writes->at[k]);
        if (buffer->role != NST_ROLE_TEMP || buffer->plain || is_read_as_size(module, writes->at[k])) return false;
    }
    return !uses_sizes(module, group);
}

static bool meet(const NstBufList *a, const NstBufList *b)
{
    for (uint32_t k = 0; k < a->n; k++)
        for (uint32_t e = 0; e < b->n; e++)
            if (a->at[k].i == b->at[e].i) return true;
    return false;
}

/* What the nests of any group write.  A step has none: what it writes is marked plain. */
static void add_writes(NstModule *module, const NstGroup *group, NstBufList *writes)
{
    for (uint32_t k = 0; k < group->items.n; k++)
        if (group->items.at[k].nest)
            nst_nest_writes(module, group->items.at[k].nest, writes);
        else
            add_writes(module, group->items.at[k].group, writes);
}

static uint32_t *count_writers(NstModule *module)
{
    uint32_t *n = NST_NEW_ARRAY(module->arena, uint32_t, module->buffers.n + 1);
    for (uint32_t k = 0; k < module->groups.n; k++) {
        NstBufList writes = {0};
        add_writes(module, module->groups.at[k], &writes);
        for (uint32_t w = 0; w < writes.n; w++) n[writes.at[w].i]++;
    }
    return n;
}

/* Marks in `going` group g and all others that write what it writes (a stored concat has one a piece); false if one of them must
 * stay. */
static bool may_all_go(NstModule *module, uint32_t g, const uint32_t *n_writers, bool *going)
{
    NstBufList written = {0};
    bool several = false;
    if (!may_go(module, module->groups.at[g], &written)) return false;
    for (uint32_t k = 0; k < module->groups.n; k++) going[k] = k == g;
    for (uint32_t k = 0; k < written.n; k++) several |= n_writers[written.at[k].i] > 1;
    for (uint32_t k = 0; several && k < module->groups.n; k++) {
        NstBufList writes = {0}, may = {0};
        add_writes(module, module->groups.at[k], &writes);
        if (k == g || !meet(&writes, &written)) continue;
        going[k] = true;
        if (writes.n != 1 || !may_go(module, module->groups.at[k], &may)) return false;
    }
    return true;
}

/* Takes the marked groups out of the run. */
static void move_ahead(NstModule *module, const bool *going)
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < module->groups.n; k++) {
        NstGroup *group = module->groups.at[k];
        NstBufList reads = {0}, writes = {0};
        if (!going[k]) {
            module->groups.at[kept++] = group;
            continue;
        }
        (void)touches(module, group, &reads, &writes);
        for (uint32_t w = 0; w < writes.n; w++) {
            NstModuleBuffer *buffer = nst_module_get(module, writes.at[w]);
            buffer->role = NST_ROLE_PACKED;
            buffer->buffer.constant = true;
        }
        nst_vec_push(module->arena, &module->prepack, group);
    }
    module->groups.n = kept;
}

void nst_pass_ahead(NstModule *module)
{
    bool *going = NST_NEW_ARRAY(module->arena, bool, module->groups.n);
    const uint32_t *n_writers = count_writers(module);
    for (uint32_t g = 0; g < module->groups.n;) {
        bool ahead = may_all_go(module, g, n_writers, going);
        uint32_t before = 0;
        for (uint32_t k = 0; k < g && ahead; k++) before += going[k];
        if (ahead) move_ahead(module, going);
        g += ahead ? 0 : 1;
        g -= before;
    }
}
