/* plan_write.c: a plan as bytes.  A stream of little-endian words and texts, then code and constants at multiples of 64;
 * plan_read.c reads the same in the same order. */
#include "runtime/plan_form.h"

#include "runtime/sizes.h"

typedef struct Writer {
    NstArena *arena;
    const NstPlan *plan;
    NstSizes sizes;
    uint32_t *sym_number; /* by NstSym.i: number in the file, 0 = not used */
    NST_VEC(NstSym) syms;
    NST_VEC(unsigned char) bytes;
} Writer;

static void put(Writer *w, uint64_t value, int n_bytes)
{
    for (int k = 0; k < n_bytes; k++) nst_vec_push(w->arena, &w->bytes, (unsigned char)(value >> 8 * k));
}

static void put_8(Writer *w, uint64_t value)
{
    put(w, value, 1);
}

static void put_32(Writer *w, uint64_t value)
{
    put(w, value, 4);
}

static void put_64(Writer *w, uint64_t value)
{
    put(w, value, 8);
}

/* NULL and "" are kept apart. */
static void put_text(Writer *w, const char *text)
{
    size_t n = text ? strlen(text) + 1 : 0;
    put_32(w, n);
    for (size_t k = 0; k < n; k++) nst_vec_push(w->arena, &w->bytes, (unsigned char)text[k]);
}

static void put_texts(Writer *w, const char *const *text, uint32_t n)
{
    put_32(w, n);
    for (uint32_t k = 0; k < n; k++) put_text(w, text[k]);
}

/* Node + 1; 0 for none. */
static void put_dim(Writer *w, NstDim dim)
{
    put_32(w, dim.i < w->sizes.n_node_of ? w->sizes.node_of[dim.i] : 0);
}

/* --- symbols and dims ---------------------------------------------------------------------------------------- */

static void use_symbol(Writer *w, NstSym sym)
{
    if (w->sym_number[sym.i] != 0) return;
    nst_vec_push(w->arena, &w->syms, sym);
    w->sym_number[sym.i] = w->syms.n;
}

static void collect_symbols(Writer *w)
{
    w->sym_number = NST_NEW_ARRAY(w->arena, uint32_t, nst_dims_sym_count(w->plan->dims) + 1);
    for (uint32_t k = 0; k < w->sizes.nodes.n; k++)
        if (w->sizes.nodes.at[k].op == NST_DIM_SYM) use_symbol(w, w->sizes.nodes.at[k].sym);
}

static void put_dims(Writer *w)
{
    put_32(w, w->syms.n);
    for (uint32_t k = 0; k < w->syms.n; k++) {
        const NstSymInfo *info = nst_dims_sym_info(w->plan->dims, w->syms.at[k]);
        put_8(w, (uint64_t)info->kind);
        put_text(w, info->name ? info->name : "");
        put_64(w, (uint64_t)info->lo);
        put_64(w, (uint64_t)info->hi);
        put_64(w, (uint64_t)info->multiple);
    }
    put_32(w, w->sizes.nodes.n);
    for (uint32_t k = 0; k < w->sizes.nodes.n; k++) {
        const NstSizeNode *node = &w->sizes.nodes.at[k];
        put_8(w, (uint64_t)node->op);
        put_64(w, (uint64_t)node->value);
        put_32(w, node->op == NST_DIM_SYM ? w->sym_number[node->sym.i] : 0);
        put_32(w, node->n);
        for (uint32_t i = node->at; i < node->at + node->n; i++) {
            put_32(w, w->sizes.args.at[i]);
            put_64(w, (uint64_t)w->sizes.coefs.at[i]);
        }
    }
}

/* --- the plan ------------------------------------------------------------------------------------------------ */

static void put_ports(Writer *w, const NstPlanPort *port, uint32_t n)
{
    put_32(w, n);
    for (uint32_t k = 0; k < n; k++) {
        put_text(w, port[k].name);
        put_8(w, (uint64_t)port[k].type.dtype);
        put_8(w, (uint64_t)(port[k].type.rank + 1)); /* 0: not said */
        for (int axis = 0; axis < port[k].type.rank; axis++) put_dim(w, port[k].type.shape[axis]);
        put_32(w, port[k].buffer);
        put_8(w, port[k].only != NULL);
        put_32(w, port[k].only_bytes);
        for (int axis = 0; port[k].only && axis < port[k].type.rank; axis++)
            put_64(w, (uint64_t)port[k].only_shape[axis]);
        for (size_t b = 0; b < port[k].only_bytes; b++)
            nst_vec_push(w->arena, &w->bytes, ((const unsigned char *)port[k].only)[b]);
    }
}

static void put_buffers(Writer *w)
{
    put_32(w, w->plan->buffers.n);
    for (uint32_t k = 0; k < w->plan->buffers.n; k++) {
        const NstPlanBuffer *buffer = &w->plan->buffers.at[k];
        put_text(w, buffer->name);
        put_8(w, (uint64_t)buffer->place);
        put_32(w, buffer->index);
        put_8(w, (uint64_t)buffer->dtype);
        put_8(w, (uint64_t)buffer->rank);
        for (int axis = 0; axis < buffer->rank; axis++) put_dim(w, buffer->shape[axis]);
        put_dim(w, buffer->bytes);
        put_32(w, buffer->first);
        put_32(w, buffer->last);
    }
}

static void put_kernels(Writer *w)
{
    put_32(w, w->plan->kernels.n);
    for (uint32_t k = 0; k < w->plan->kernels.n; k++) {
        const NstPlanKernel *kernel = &w->plan->kernels.at[k];
        put_text(w, kernel->name);
        put_text(w, kernel->origin);
        put_text(w, kernel->not_fused);
        put_64(w, kernel->entry);
        put_dim(w, kernel->scratch_bytes);
        put_dim(w, kernel->shared_bytes);
        put_32(w, kernel->n_args);
        put_32(w, kernel->n_params);
        put_8(w, kernel->parallel);
        put_dim(w, kernel->work);
        put_dim(w, kernel->operations);
        put_texts(w, kernel->origin_text, kernel->n_origins);
        put_texts(w, kernel->message_text, kernel->n_messages);
        put_64(w, kernel->hash_lo);
        put_64(w, kernel->hash_hi);
    }
}

static void put_steps(Writer *w, const NstPlanStep *step, uint32_t n)
{
    put_32(w, n);
    for (uint32_t k = 0; k < n; k++) {
        put_8(w, (uint64_t)step[k].kind);
        put_32(w, step[k].kernel);
        put_32(w, step[k].n_buffers);
        for (uint32_t b = 0; b < step[k].n_buffers; b++) put_32(w, step[k].buffer[b]);
        put_32(w, step[k].n_sizes);
        for (uint32_t s = 0; s < step[k].n_sizes; s++) put_dim(w, step[k].size[s]);
        put_dim(w, step[k].a);
        put_dim(w, step[k].b);
        put_text(w, step[k].text);
        put_text(w, step[k].config);
        put_text(w, step[k].origin);
        put_32(w, step[k].n_in);
        put_32(w, step[k].body);
        put_32(w, step[k].other);
        put_32(w, step[k].n_states);
    }
}

/* Which constants are still read: by a step, an output, or a prepack step yet to run. */
static bool *used_constants(const Writer *w)
{
    const NstPlan *plan = w->plan;
    bool *used = NST_NEW_ARRAY(w->arena, bool, plan->constants.n),
         *buffer = NST_NEW_ARRAY(w->arena, bool, plan->buffers.n);
    for (uint32_t k = 0; k < plan->outputs.n; k++) buffer[plan->outputs.at[k].buffer] = true;
    for (uint32_t k = 0; k < plan->steps.n; k++)
        for (uint32_t b = 0; b < plan->steps.at[k].n_buffers; b++) buffer[plan->steps.at[k].buffer[b]] = true;
    for (uint32_t k = 0; k < plan->prepack.n; k++)
        for (uint32_t b = 0; b < plan->prepack.at[k].n_buffers; b++) buffer[plan->prepack.at[k].buffer[b]] = true;
    for (uint32_t b = 0; b < plan->buffers.n; b++) {
        uint32_t root = b;
        while (buffer[b] && plan->buffers.at[root].place == NST_PLACE_ALIAS) root = plan->buffers.at[root].index;
        if (buffer[b] && plan->buffers.at[root].place == NST_PLACE_CONST) used[plan->buffers.at[root].index] = true;
    }
    return used;
}

typedef struct Blobs {
    NstPart *parts;
    int n;
    uint64_t at;
} Blobs;

static const char zeros[NST_PLAN_ALIGN];

/* Appends bytes at the next multiple of 64; returns where they lie. */
static uint64_t add_blob(Blobs *blobs, const void *bytes, size_t size)
{
    size_t padding = (size_t)(-blobs->at % NST_PLAN_ALIGN);
    blobs->parts[blobs->n++] = (NstPart){zeros, padding};
    uint64_t at = blobs->at += padding;
    blobs->parts[blobs->n++] = (NstPart){bytes, size};
    blobs->at += size;
    return at;
}

static NstPlanConstState const_state(const NstPlanConst *constant, bool used)
{
    if (!used) return NST_PLAN_CONST_UNUSED;
    if (constant->model_offset != 0) return NST_PLAN_CONST_MODEL;
    return constant->data ? NST_PLAN_CONST_HERE : NST_PLAN_CONST_TO_PACK;
}

static void put_files(Writer *w)
{
    put_32(w, w->plan->files.n);
    for (uint32_t k = 0; k < w->plan->files.n; k++) {
        const NstPlanFile *file = &w->plan->files.at[k];
        put_text(w, file->path);
        put_64(w, file->mark.device);
        put_64(w, file->mark.inode);
        put_64(w, file->mark.size);
        put_64(w, (uint64_t)file->mark.mtime_ns);
        put_64(w, (uint64_t)file->mark.ctime_ns);
    }
}

static void put_constants(Writer *w, Blobs *blobs)
{
    const NstPlan *plan = w->plan;
    const bool *used = used_constants(w);
    put_32(w, plan->constants.n);
    for (uint32_t k = 0; k < plan->constants.n; k++) {
        const NstPlanConst *constant = &plan->constants.at[k];
        NstPlanConstState state = const_state(constant, used[k]);
        put_8(w, (uint64_t)constant->dtype);
        put_8(w, (uint64_t)state);
        put_8(w, constant->packed && used[k]); /* what only made others is not made again */
        put_64(w, used[k] ? constant->bytes : 0);
        uint64_t at = state == NST_PLAN_CONST_MODEL ? constant->model_offset : 0;
        if (state == NST_PLAN_CONST_HERE) at = add_blob(blobs, constant->data, constant->bytes);
        put_64(w, at);
    }
}

/* All but the empty string, which every table begins with. */
static void put_strings(Writer *w)
{
    const NstStrings *strings = w->plan->strings;
    uint64_t n = strings ? nst_strings_count(strings) : 1;
    put_32(w, n - 1);
    for (uint64_t k = 1; k < n; k++) {
        const NstString *s = nst_strings_get(strings, k);
        put_32(w, s->n);
        for (size_t b = 0; b < s->n; b++) nst_vec_push(w->arena, &w->bytes, (unsigned char)s->at[b]);
    }
}

/* A plan without the dims and strings it shares with its bodies. */
static void put_parts(Writer *w, Blobs *blobs, const NstPlan *plan)
{
    w->plan = plan;
    put_constants(w, blobs);
    put_kernels(w);
    put_ports(w, plan->inputs.at, plan->inputs.n);
    put_ports(w, plan->outputs.at, plan->outputs.n);
    put_buffers(w);
    put_32(w, plan->bodies.n);
    for (uint32_t k = 0; k < plan->bodies.n; k++) {
        const NstPlan *body = plan->bodies.at[k];
        put_64(w, add_blob(blobs, body->code, body->code_bytes));
        put_64(w, body->code_bytes);
        put_text(w, body->model_name);
        put_parts(w, blobs, body);
    }
    w->plan = plan;
    put_steps(w, plan->prepack.at, plan->prepack.n);
    put_steps(w, plan->steps.at, plan->steps.n);
}

/* The words are written twice, since they hold where the blobs lie and the blobs follow them: their length does not
 * depend on what they hold. */
static void put_plan(Writer *w, Blobs *blobs, uint64_t words_bytes)
{
    const NstPlan *plan = w->plan;
    w->bytes.n = 0;
    blobs->n = 1; /* the words */
    blobs->at = words_bytes;
    put_64(w, NST_PLAN_MAGIC);
    put_64(w, words_bytes);
    uint64_t code_at = add_blob(blobs, plan->code, plan->code_bytes);
    put_64(w, code_at);
    put_64(w, plan->code_bytes);
    put_text(w, plan->model_name);
    put_64(w, plan->compile_ns);
    put_text(w, plan->by_shape);
    put_dims(w);
    put_files(w);
    put_strings(w);
    put_parts(w, blobs, plan);
}

static size_t count_blobs(const NstPlan *plan)
{
    size_t n = 1 + plan->constants.n;
    for (uint32_t k = 0; k < plan->bodies.n; k++) n += count_blobs(plan->bodies.at[k]);
    return n;
}

NstStatus nst_plan_write(NstCtx *ctx, NstArena *arena, const NstPlan *plan, NstPart **parts, int *n_parts)
{
    (void)ctx;
    Writer w = {.arena = arena, .plan = plan};
    nst_sizes_add_plan(&w.sizes, arena, plan, true);
    collect_symbols(&w);
    Blobs blobs = {.parts = NST_NEW_ARRAY(arena, NstPart, 1 + 2 * count_blobs(plan))};
    put_plan(&w, &blobs, 0);
    put_plan(&w, &blobs, w.bytes.n);
    blobs.parts[0] = (NstPart){w.bytes.at, w.bytes.n};
    *parts = blobs.parts;
    *n_parts = blobs.n;
    return NST_OK;
}
