/* run_state.c: symbols, sizes and memory of one run.
 *
 * All that depends on shapes alone is kept from run to run; the shapes of the inputs are compared with those of the last
 * run first, and only addresses are bound anew when they are equal. */
#include "runtime/run_state.h"

#include <limits.h>
#include <stdlib.h>
#include "runtime/string_tensor.h"

#define ALIGN     64        /* bytes */
#define HUGE_FROM (1 << 22) /* bytes: blocks from here on are aligned to huge pages */
#define HUGE_PAGE (1 << 21)
#define MAX_BYTES ((int64_t)1 << 46)
/* Work in ns a thread must get so that dealing out pays: fork and join take 0.3 us warm and the other cores' caches are cold
 * (design/measurements, "Fork-join": chunks under 5 us).  The second thread pays from less on (NST_NS_FOR_TWO). */
#define NS_A_THREAD 5000

void *nst_memory_new(size_t bytes)
{
    size_t align = bytes >= HUGE_FROM ? HUGE_PAGE : ALIGN;
    if (bytes > (size_t)MAX_BYTES || nst_alloc_should_fail()) return NULL;
    return aligned_alloc(align, bytes == 0 ? align : (bytes + align - 1) / align * align);
}

/* Makes a block at least `bytes` large; its contents are lost when it grows. */
static NstStatus grow(NstCtx *ctx, NstBlockMemory *block, size_t bytes, const char *what)
{
    if (block->at && block->bytes >= bytes) return NST_OK;
    free(block->at);
    block->at = nst_memory_new(bytes);
    block->bytes = block->at ? bytes : 0;
    NST_CHECK(ctx, block->at, NST_E_NOMEM, "no memory for %zu bytes of %s", bytes, what);
    return NST_OK;
}

NstStatus nst_run_state_size(NstRunState *state, NstDim dim, const char *what, int64_t *value)
{
    return nst_sizes_get(&state->ctx, &state->exec->sizes, dim, state->value, state->state, what, value);
}

static NstStatus byte_size(NstRunState *state, uint32_t b, int64_t *bytes)
{
    const NstPlanBuffer *buffer = &state->exec->plan->buffers.at[b];
    NST_TRY(nst_run_state_size(state, buffer->bytes, buffer->name, bytes));
    NST_CHECK(&state->ctx, *bytes >= 0 && *bytes <= MAX_BYTES, NST_E_SHAPE, "'%s' would have %lld bytes", buffer->name,
              (long long)*bytes);
    return NST_OK;
}

/* --- symbols ------------------------------------------------------------------------------------------------- */

/* "f32[n, 3]" for messages. */
static const char *port_text(NstArena *arena, const NstPlan *plan, const NstPlanPort *port)
{
    NstText text;
    nst_text_init(&text, arena);
    nst_type_print(&text, plan->dims, &port->type);
    return nst_text_get(&text);
}

NstStatus nst_input_check(NstCtx *ctx, const NstPlan *plan, const NstPlanPort *port, const NstTensor *tensor)
{
    NST_CHECK(ctx, tensor->dtype == port->type.dtype, NST_E_TYPE, "input '%s' is given as %s, allowed is %s",
              port->name, nst_dtype_name(tensor->dtype), port_text(ctx->arena, plan, port));
    NST_CHECK(ctx, tensor->rank == port->type.rank, NST_E_SHAPE, "input '%s' is given with rank %d, allowed is %s",
              port->name, (int)tensor->rank, port_text(ctx->arena, plan, port));
    int64_t elements = 1;
    for (int axis = 0; axis < tensor->rank; axis++) {
        NST_CHECK(ctx, tensor->shape[axis] >= 0, NST_E_SHAPE, "input '%s': axis %d is given as %lld", port->name, axis,
                  (long long)tensor->shape[axis]);
        NST_CHECK(ctx, !__builtin_mul_overflow(elements, tensor->shape[axis], &elements), NST_E_SHAPE,
                  "input '%s' has more than 2^63 elements", port->name);
    }
    return NST_OK;
}

static NstStatus check_fact(NstRunState *state, const NstPlanPort *port, int axis, const NstSymInfo *info, int64_t size)
{
    NST_CHECK(&state->ctx, size >= info->lo && size <= info->hi, NST_E_SHAPE,
              "input '%s': axis %d (%s) is %lld, allowed are %lld to %lld", port->name, axis, info->name,
              (long long)size, (long long)info->lo, (long long)info->hi);
    NST_CHECK(&state->ctx, info->multiple <= 1 || size % info->multiple == 0, NST_E_SHAPE,
              "input '%s': axis %d (%s) is %lld, allowed are multiples of %lld", port->name, axis, info->name,
              (long long)size, (long long)info->multiple);
    return NST_OK;
}

/* First the axes that are a symbol alone: they define it. */
static NstStatus define_symbols(NstRunState *state, const NstTensor *inputs)
{
    const NstPlan *plan = state->exec->plan;
    for (uint32_t k = 0; k < plan->inputs.n; k++) {
        const NstPlanPort *port = &plan->inputs.at[k];
        NST_TRY(nst_input_check(&state->ctx, plan, port, &inputs[k]));
        for (int axis = 0; axis < port->type.rank; axis++) {
            const NstDimNode *node = nst_dim_node(plan->dims, port->type.shape[axis]);
            if (node->op != NST_DIM_SYM || state->known[node->sym.i]) continue;
            NST_TRY(check_fact(state, port, axis, nst_dims_sym_info(plan->dims, node->sym), inputs[k].shape[axis]));
            state->sym[node->sym.i] = inputs[k].shape[axis];
            state->known[node->sym.i] = true;
        }
    }
    return NST_OK;
}

/* Then every axis must agree with what the symbols say. */
static NstStatus check_axes(NstRunState *state, const NstTensor *inputs)
{
    const NstPlan *plan = state->exec->plan;
    for (uint32_t k = 0; k < plan->inputs.n; k++) {
        const NstPlanPort *port = &plan->inputs.at[k];
        for (int axis = 0; axis < port->type.rank; axis++) {
            int64_t expected = 0, given = inputs[k].shape[axis];
            NST_TRY(nst_run_state_size(state, port->type.shape[axis], port->name, &expected));
            NST_CHECK(&state->ctx, given == expected, NST_E_SHAPE,
                      "input '%s': axis %d is %lld, allowed is %lld (%s with the other axes given)", port->name, axis,
                      (long long)given, (long long)expected, port_text(state->ctx.arena, plan, port));
        }
    }
    return NST_OK;
}

/* --- steps --------------------------------------------------------------------------------------------------- */

struct NstBarrier *nst_run_state_barrier(const NstRunState *state)
{
    return (struct NstBarrier *)(void *)state->scratch.at;
}

static NstStatus scratch_size(NstRunState *state, NstDim dim, const char *what, size_t *most)
{
    int64_t bytes = 0;
    NST_TRY(nst_run_state_size(state, dim, what, &bytes));
    NST_CHECK(&state->ctx, bytes >= 0 && bytes <= MAX_BYTES, NST_E_SHAPE, "%s would have %lld bytes of scratch", what,
              (long long)bytes);
    size_t rounded = ((size_t)bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (rounded > *most) *most = rounded;
    return NST_OK;
}

NstStatus nst_run_state_scratch(NstRunState *state, const NstPlanStep *steps, uint32_t n)
{
    const NstPlan *plan = state->exec->plan;
    for (uint32_t k = 0; k < n; k++) {
        if (steps[k].kind != NST_STEP_KERNEL) continue;
        const NstPlanKernel *kernel = &plan->kernels.at[steps[k].kernel];
        NST_TRY(scratch_size(state, kernel->scratch_bytes, kernel->name, &state->per_thread));
        NST_TRY(scratch_size(state, kernel->shared_bytes, kernel->name, &state->shared));
    }
    size_t threads = (size_t)nst_pool_threads(state->exec->pool), all;
    if (__builtin_mul_overflow(threads, state->per_thread, &all)) all = SIZE_MAX / 2;
    return grow(&state->ctx, &state->scratch, nst_barrier_size() + all + state->shared, "scratch");
}

NstStatus nst_run_state_params(NstRunState *state, const NstPlanStep *step, int64_t *params)
{
    const char *kernel = state->exec->plan->kernels.at[step->kernel].name;
    for (uint32_t s = 0; s < step->n_sizes; s++) {
        params[s] = 0;
        if (nst_sizes_known(&state->exec->sizes, step->size[s], state->state))
            NST_TRY(nst_run_state_size(state, step->size[s], kernel, &params[s]));
    }
    return NST_OK;
}

static int64_t threads_worth(int64_t ns)
{
    if (ns < NST_NS_FOR_TWO) return 1;
    return ns < 2 * NS_A_THREAD ? 2 : ns / NS_A_THREAD;
}

/* Threads and parameters of each kernel step. */
static NstStatus prepare_steps(NstRunState *state)
{
    const NstExec *exec = state->exec;
    for (uint32_t k = 0; k < exec->plan->steps.n; k++) {
        const NstPlanStep *step = &exec->plan->steps.at[k];
        if (step->kind != NST_STEP_KERNEL) continue;
        const NstPlanKernel *kernel = &exec->plan->kernels.at[step->kernel];
        int64_t work, ns = INT64_MAX, most = nst_pool_threads(exec->pool);
        if (kernel->work.i != 0 && nst_sizes_known(&exec->sizes, kernel->work, state->state)) {
            NST_TRY(nst_run_state_size(state, kernel->work, kernel->name, &work));
            ns = work / NST_WORK_A_NS;
            if (most > threads_worth(ns)) most = threads_worth(ns);
        }
        state->step[k].threads = kernel->parallel && most > 1 ? (int)most : 1;
        state->step[k].ns = ns;
        NST_TRY(nst_run_state_params(state, step, state->step[k].params));
    }
    return NST_OK;
}

static NstStatus prepare_body(NstCtx *ctx, void *arg)
{
    NstRunState *state = ((void **)arg)[0];
    const NstTensor *inputs = ((void **)arg)[1];
    NstExec *exec = state->exec;
    memcpy(state->sym, state->outer, exec->n_syms * sizeof *state->sym);
    memcpy(state->known, state->outer_known, exec->n_syms * sizeof *state->known);
    NST_TRY(define_symbols(state, inputs));
    nst_sizes_eval(&exec->sizes, state->sym, state->known, state->value, state->state);
    NST_TRY(check_axes(state, inputs));
    uint64_t bytes = 0;
    NstArena *scratch = nst_arena_new(ctx, ctx->arena);
    NstStatus placed =
        nst_plan_place(ctx, scratch, exec->plan, &exec->sizes, state->value, state->state, state->offset, &bytes);
    nst_arena_free(scratch);
    NST_TRY(placed);
    NST_TRY(grow(ctx, &state->arena, bytes, "the arena"));
    if (bytes > atomic_load_explicit(&exec->arena_bytes, memory_order_relaxed))
        atomic_store_explicit(&exec->arena_bytes, bytes, memory_order_relaxed); /* a race loses a number, no more */
    if (!exec->value_defined) NST_TRY(nst_run_state_scratch(state, exec->plan->steps.at, exec->plan->steps.n));
    return prepare_steps(state);
}

static bool same_shapes(const NstRunState *state, const NstTensor *inputs)
{
    const NstPlan *plan = state->exec->plan;
    const int64_t *shape = state->shape;
    for (uint32_t k = 0; k < plan->inputs.n; k++) {
        int rank = plan->inputs.at[k].type.rank;
        if (inputs[k].rank != rank || inputs[k].dtype != plan->inputs.at[k].type.dtype) return false;
        for (int axis = 0; axis < rank; axis++)
            if (inputs[k].shape[axis] != *shape++) return false;
    }
    return true;
}

/* True if the symbols of the run around are as they were; remembers them. */
static bool same_outer(NstRunState *state, const NstRunState *outer)
{
    if (!outer) return true; /* none was known, ever */
    size_t n = state->exec->n_syms;
    if (memcmp(state->outer, outer->sym, n * sizeof *state->outer) == 0 &&
        memcmp(state->outer_known, outer->known, n * sizeof *state->outer_known) == 0)
        return true;
    memcpy(state->outer, outer->sym, n * sizeof *state->outer);
    memcpy(state->outer_known, outer->known, n * sizeof *state->outer_known);
    return false;
}

NstStatus nst_run_state_prepare(NstRunState *state, const NstExecRun *run)
{
    const NstTensor *inputs = run->inputs;
    bool same = same_outer(state, run->outer);
    if (same && state->ready && !state->exec->value_defined && same_shapes(state, inputs)) return NST_OK;
    state->ready = state->placed = false;
    void *arg[2] = {state, (void *)(uintptr_t)inputs};
    NST_TRY(nst_guard(&state->ctx, prepare_body, arg));
    const NstPlan *plan = state->exec->plan;
    int64_t *shape = state->shape;
    for (uint32_t k = 0; k < plan->inputs.n; k++)
        for (int axis = 0; axis < plan->inputs.at[k].type.rank; axis++) *shape++ = inputs[k].shape[axis];
    state->ready = true;
    return NST_OK;
}

/* --- inputs and outputs -------------------------------------------------------------------------------------- */

/* Copies a strided input, axis by axis, row-major. */
static char *copy_axis(char *to, const char *from, const NstTensor *tensor, int axis, size_t size)
{
    if (axis == tensor->rank) {
        memcpy(to, from, size);
        return to + size;
    }
    for (int64_t i = 0; i < tensor->shape[axis]; i++)
        to = copy_axis(to, from + i * tensor->strides[axis] * (int64_t)size, tensor, axis + 1, size);
    return to;
}

void nst_tensor_gather(char *to, const NstTensor *tensor)
{
    size_t bytes = nst_dtype_size(tensor->dtype);
    for (int axis = 0; axis < tensor->rank; axis++) bytes *= (size_t)tensor->shape[axis];
    if (!tensor->strides)
        memcpy(to, tensor->data, bytes);
    else
        copy_axis(to, tensor->data, tensor, 0, nst_dtype_size(tensor->dtype));
}

NstStatus nst_tensor_span(NstCtx *ctx, const NstTensor *tensor, size_t size, const char *name, size_t *bytes)
{
    int64_t last = 0, step;
    *bytes = 0;
    for (int axis = 0; axis < tensor->rank; axis++)
        if (tensor->shape[axis] == 0) return NST_OK;
    int64_t dense = 1;
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        int64_t stride = tensor->strides ? tensor->strides[axis] : dense;
        NST_CHECK(ctx, stride >= 0, NST_E_INVALID, "input '%s': the stride of axis %d is %lld, allowed are 0 and above",
                  name, axis, (long long)stride);
        bool overflow = __builtin_mul_overflow(tensor->shape[axis] - 1, stride, &step);
        NST_CHECK(ctx, !overflow && !__builtin_add_overflow(last, step, &last) && last < MAX_BYTES, NST_E_INVALID,
                  "input '%s': the strides reach further than 2^46 elements", name);
        NST_CHECK(ctx, !__builtin_mul_overflow(dense, tensor->shape[axis], &dense), NST_E_SHAPE,
                  "input '%s' has more than 2^63 elements", name);
    }
    *bytes = ((size_t)last + 1) * size;
    return NST_OK;
}

/* --- strings ------------------------------------------------------------------------------------------------- */

static bool is_string(const NstPlanPort *port)
{
    return port->type.dtype == NST_STR;
}

/* An empty table for this run. */
static NstStatus new_strings(NstCtx *ctx, void *arg)
{
    NstRunState *state = ((void **)arg)[0];
    const NstRunState *outer = ((void **)arg)[1];
    if (!state->string_memory) state->string_memory = nst_arena_new(ctx, ctx->arena);
    nst_arena_reset(state->string_memory);
    state->strings = nst_strings_over(state->string_memory, outer ? outer->strings : state->exec->plan->strings);
    return NST_OK;
}

typedef struct StringMove {
    NstRunState *state, *outer;
    const NstPlanPort *port;
    const NstTensor *tensor;
    size_t room; /* handles that fit */
} StringMove;

static NstStatus take_strings(NstCtx *ctx, void *arg)
{
    const StringMove *move = arg;
    uint64_t *handle = (uint64_t *)(void *)move->state->own[move->port->buffer].at;
    size_t n = 1;
    for (int axis = 0; axis < move->tensor->rank; axis++) n *= (size_t)move->tensor->shape[axis];
    NST_CHECK(ctx, n <= move->room, NST_E_INVALID, "input '%s': %zu strings, the plan has room for %zu",
              move->port->name, n, move->room);
    return nst_strings_take(ctx, move->state->strings, move->tensor, move->port->name, handle);
}

/* The caller's strings as handles. */
static NstStatus bind_strings(NstRunState *state, const NstPlanPort *port, const NstTensor *tensor)
{
    StringMove move = {state, NULL, port, tensor, 0};
    int64_t bytes = 0;
    NST_TRY(byte_size(state, port->buffer, &bytes));
    NST_TRY(grow(&state->ctx, &state->own[port->buffer], (size_t)bytes, port->name));
    state->at[port->buffer] = state->own[port->buffer].at;
    move.room = (size_t)bytes / sizeof(uint64_t);
    return nst_guard(&state->ctx, take_strings, &move);
}

static NstStatus hand_down(NstCtx *ctx, void *arg)
{
    (void)ctx;
    const StringMove *move = arg;
    int64_t bytes = 0;
    NST_TRY(byte_size(move->state, move->port->buffer, &bytes));
    nst_strings_hand_down(move->state->strings, move->outer->strings, move->tensor->data,
                          (size_t)bytes / sizeof(uint64_t));
    return NST_OK;
}

/* --- inputs and outputs, continued ----------------------------------------------------------------------------- */

static bool is_wanted(const NstExecRun *run, uint32_t k)
{
    return !run->wanted || run->wanted[k];
}

static bool share_memory(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    uintptr_t first = (uintptr_t)a, second = (uintptr_t)b;
    return a && b && first < second + b_bytes && second < first + a_bytes;
}

/* True if the caller's memory of an output lies over these bytes of an input: kernels may write a result before they have read all. */
static bool lies_under_output(const NstRunState *state, const NstExecRun *run, const void *data, size_t bytes)
{
    for (uint32_t k = 0; k < state->exec->plan->outputs.n && !run->outer; k++)
        if (is_wanted(run, k) && share_memory(data, bytes, run->outputs[k].data, run->outputs[k].bytes)) return true;
    return false;
}

static NstStatus bind_input(NstRunState *state, const NstExecRun *run, const NstPlanPort *port, const NstTensor *tensor)
{
    size_t bytes, size = nst_dtype_size(tensor->dtype);
    if (run->outer) size = (size_t)nst_dtype_info(tensor->dtype)->bytes;
    NST_TRY(nst_tensor_span(&state->ctx, tensor, size, port->name, &bytes));
    NST_CHECK(&state->ctx, tensor->bytes >= bytes && (tensor->data || bytes == 0), NST_E_INVALID,
              "input '%s' is given %zu bytes, its shape needs %zu", port->name, tensor->data ? tensor->bytes : 0,
              bytes);
    if (is_string(port) && !run->outer) return bind_strings(state, port, tensor);
    state->at[port->buffer] = tensor->data ? tensor->data : state->scratch.at;
    int64_t dense = 0;
    if (bytes != 0 && (tensor->strides || lies_under_output(state, run, tensor->data, bytes))) {
        NST_TRY(byte_size(state, port->buffer, &dense));
        NST_TRY(grow(&state->ctx, &state->own[port->buffer], (size_t)dense, port->name));
        nst_tensor_gather(state->own[port->buffer].at, tensor);
        state->at[port->buffer] = state->own[port->buffer].at;
    }
    if (!port->only) return NST_OK;
    NST_TRY(byte_size(state, port->buffer, &dense));
    bool same = (size_t)dense == port->only_bytes &&
                memcmp(tensor->shape, port->only_shape, (size_t)tensor->rank * sizeof *tensor->shape) == 0 &&
                (dense == 0 || memcmp(state->at[port->buffer], port->only, (size_t)dense) == 0);
    NST_CHECK(&state->ctx, same, NST_E_INVALID, "input '%s' has another value than the one the session was made for",
              port->name);
    return NST_OK;
}

/* Refuses memory of the caller for output k that another output is in too. */
static NstStatus check_apart(NstRunState *state, const NstExecRun *run, uint32_t k, int64_t bytes)
{
    const NstPlan *plan = state->exec->plan;
    for (uint32_t other = 0; other < plan->outputs.n; other++) {
        const NstPlanPort *port = &plan->outputs.at[other];
        int64_t taken = 0;
        const NstTensor *out = &run->outputs[other];
        if (other == k || !is_wanted(run, other) || out->owned) continue;
        if (!share_memory(run->outputs[k].data, (size_t)bytes, out->data, out->bytes))
            continue; /* the size may be less */
        if (!nst_sizes_known(&state->exec->sizes, plan->buffers.at[port->buffer].bytes, state->state)) continue;
        NST_TRY(byte_size(state, port->buffer, &taken));
        NST_CHECK(&state->ctx, !share_memory(run->outputs[k].data, (size_t)bytes, out->data, (size_t)taken),
                  NST_E_INVALID, "outputs '%s' and '%s' are given memory that overlaps", plan->outputs.at[k].name,
                  port->name);
    }
    return NST_OK;
}

/* Memory of output k: the caller's, or the engine's when there is none; *at is NULL while its size is not known. */
static NstStatus output_memory(NstRunState *state, const NstExecRun *run, uint32_t k, void **at)
{
    const NstPlanPort *port = &state->exec->plan->outputs.at[k];
    NstTensor *out = &run->outputs[k];
    *at = NULL;
    if (!nst_sizes_known(&state->exec->sizes, state->exec->plan->buffers.at[port->buffer].bytes, state->state))
        return NST_OK;
    int64_t bytes = 0;
    *at = out->data;
    NST_TRY(byte_size(state, port->buffer, &bytes));
    if (out->data && (!run->outer || out->bytes >= (size_t)bytes)) {
        NST_CHECK(&state->ctx, out->bytes >= (size_t)bytes, NST_E_INVALID,
                  "output '%s' is given %zu bytes, it has %lld", port->name, out->bytes, (long long)bytes);
        return run->outer ? NST_OK : check_apart(state, run, k, bytes);
    }
    out->owned = out->data = *at = nst_memory_new((size_t)bytes);
    out->bytes = (size_t)bytes;
    NST_CHECK(&state->ctx, out->data, NST_E_NOMEM, "no memory for %lld bytes of output '%s'", (long long)bytes,
              port->name);
    return NST_OK;
}

/* Gives memory to buffer b if it has none and its size is known. */
static NstStatus bind_buffer(NstRunState *state, const NstExecRun *run, uint32_t b)
{
    const NstPlan *plan = state->exec->plan;
    const NstPlanBuffer *buffer = &plan->buffers.at[b];
    if (state->at[b]) return NST_OK;
    bool handles = buffer->dtype == NST_STR && !run->outer; /* what the caller gets is made of them at the end */
    if (buffer->place == NST_PLACE_OUTPUT && is_wanted(run, buffer->index) && !handles)
        return output_memory(state, run, buffer->index, &state->at[b]);
    if (!nst_sizes_known(&state->exec->sizes, buffer->bytes, state->state)) return NST_OK;
    int64_t bytes = 0;
    NST_TRY(byte_size(state, b, &bytes));
    NST_TRY(grow(&state->ctx, &state->own[b], (size_t)bytes, buffer->name));
    state->at[b] = state->own[b].at;
    return NST_OK;
}

static NstStatus bind_buffers(NstRunState *state, const NstExecRun *run)
{
    const NstExec *exec = state->exec;
    const NstPlan *plan = exec->plan;
    for (uint32_t b = 0; b < plan->buffers.n; b++) {
        const NstPlanBuffer *buffer = &plan->buffers.at[b];
        if (buffer->place == NST_PLACE_INPUT || buffer->place == NST_PLACE_ALIAS) continue;
        if (state->placed && buffer->place != NST_PLACE_OUTPUT) continue;
        state->at[b] = NULL;
        if (buffer->place == NST_PLACE_CONST)
            state->at[b] = (void *)(uintptr_t)plan->constants.at[buffer->index].data;
        else if (buffer->place == NST_PLACE_ARENA && nst_sizes_known(&exec->sizes, buffer->bytes, state->state))
            state->at[b] = state->arena.at + state->offset[b];
        else
            NST_TRY(bind_buffer(state, run, b));
    }
    state->placed = !exec->value_defined;
    return NST_OK;
}

static void bind_aliases(NstRunState *state)
{
    const NstPlan *plan = state->exec->plan;
    for (uint32_t b = 0; b < plan->buffers.n; b++)
        if (plan->buffers.at[b].place == NST_PLACE_ALIAS) state->at[b] = state->at[nst_plan_root(plan, b)];
}

NstStatus nst_run_state_bind(NstRunState *state, const NstExecRun *run)
{
    const NstPlan *plan = state->exec->plan;
    NST_TRY(nst_run_state_prepare(state, run));
    void *tables[2] = {state, run->outer};
    if (state->exec->has_strings) NST_TRY(nst_guard(&state->ctx, new_strings, tables));
    for (uint32_t k = 0; k < plan->inputs.n; k++) NST_TRY(bind_input(state, run, &plan->inputs.at[k], &run->inputs[k]));
    NST_TRY(bind_buffers(state, run));
    bind_aliases(state);
    return NST_OK;
}

/* Memory and steps after symbols have got their values. */
static NstStatus refresh(NstRunState *state, const NstExecRun *run)
{
    NstExec *exec = state->exec;
    state->placed = false;
    nst_sizes_eval(&exec->sizes, state->sym, state->known, state->value, state->state);
    for (uint32_t b = 0; b < exec->plan->buffers.n; b++) {
        NstPlanPlace place = exec->plan->buffers.at[b].place;
        if (place == NST_PLACE_ARENA || place == NST_PLACE_OUTPUT) NST_TRY(bind_buffer(state, run, b));
    }
    bind_aliases(state);
    return prepare_steps(state);
}

NstStatus nst_run_state_learn(NstRunState *state, const NstExecRun *run, NstSym sym, int64_t value)
{
    state->sym[sym.i] = value;
    state->known[sym.i] = true;
    return refresh(state, run);
}

NstStatus nst_run_state_shape(NstRunState *state, const NstExecRun *run, uint32_t b, const int64_t *shape)
{
    const NstPlan *plan = state->exec->plan;
    const NstPlanBuffer *buffer = &plan->buffers.at[b];
    bool learned = false;
    for (int axis = 0; axis < buffer->rank; axis++) {
        const NstDimNode *node = nst_dim_node(plan->dims, buffer->shape[axis]);
        if (node->op != NST_DIM_SYM || state->known[node->sym.i]) continue;
        const NstSymInfo *info = nst_dims_sym_info(plan->dims, node->sym);
        NST_CHECK(&state->ctx, shape[axis] >= info->lo && shape[axis] <= info->hi, NST_E_SHAPE,
                  "'%s' has extent %lld at axis %d, allowed are %lld to %lld", buffer->name, (long long)shape[axis],
                  axis, (long long)info->lo, (long long)info->hi);
        state->sym[node->sym.i] = shape[axis];
        state->known[node->sym.i] = learned = true;
    }
    if (learned) NST_TRY(refresh(state, run));
    for (int axis = 0; axis < buffer->rank; axis++) {
        int64_t planned = 0;
        NST_TRY(nst_run_state_size(state, buffer->shape[axis], buffer->name, &planned));
        NST_CHECK(&state->ctx, planned == shape[axis], NST_E_SHAPE, "'%s' has extent %lld at axis %d, allowed: %lld",
                  buffer->name, (long long)shape[axis], axis, (long long)planned);
    }
    return NST_OK;
}

/* Sets the shape of output k and copies it if it was not written in place. */
static NstStatus finish_output(NstRunState *state, const NstExecRun *run, uint32_t k)
{
    const NstPlan *plan = state->exec->plan;
    const NstPlanPort *port = &plan->outputs.at[k];
    NstTensor *out = &run->outputs[k];
    out->dtype = port->type.dtype;
    out->rank = port->type.rank;
    out->strides = NULL;
    for (int axis = 0; axis < port->type.rank; axis++)
        NST_TRY(nst_run_state_size(state, port->type.shape[axis], port->name, &out->shape[axis]));
    uint32_t root = nst_plan_root(plan, port->buffer);
    if (is_string(port) && !run->outer) {
        int64_t size = 0;
        NST_TRY(byte_size(state, port->buffer, &size));
        return nst_strings_give(&state->ctx, state->strings, state->at[port->buffer], (size_t)size / sizeof(uint64_t),
                                port->name, out);
    }
    if (plan->buffers.at[root].place == NST_PLACE_OUTPUT && plan->buffers.at[root].index == k) return NST_OK;
    void *at;
    int64_t bytes = 0;
    NST_TRY(output_memory(state, run, k, &at));
    NST_TRY(byte_size(state, port->buffer, &bytes));
    if (bytes != 0) memcpy(at, state->at[port->buffer], (size_t)bytes);
    return NST_OK;
}

NstStatus nst_run_state_finish(NstRunState *state, const NstExecRun *run)
{
    for (uint32_t k = 0; k < state->exec->plan->outputs.n; k++)
        if (is_wanted(run, k)) NST_TRY(finish_output(state, run, k));
    /* After all are there: one may be a copy of another. */
    for (uint32_t k = 0; run->outer && k < state->exec->plan->outputs.n; k++) {
        const NstPlanPort *port = &state->exec->plan->outputs.at[k];
        StringMove move = {state, run->outer, port, &run->outputs[k], 0};
        if (!is_string(port) || nst_guard(&run->outer->ctx, hand_down, &move) == NST_OK) continue;
        NST_FAIL(&state->ctx, NST_E_NOMEM, "no memory for the strings of '%s'", port->name);
    }
    return NST_OK;
}

/* --- life ---------------------------------------------------------------------------------------------------- */

static NstStatus init_body(NstCtx *ctx, void *arg)
{
    NstRunState *state = arg;
    NstExec *exec = state->exec;
    const NstPlan *plan = exec->plan;
    NstArena *arena = ctx->arena;
    state->beside = nst_arena_new(ctx, arena);
    state->shape = NST_NEW_ARRAY(arena, int64_t, exec->n_in_dims);
    state->sym = NST_NEW_ARRAY(arena, int64_t, exec->n_syms);
    state->outer = NST_NEW_ARRAY(arena, int64_t, exec->n_syms);
    state->outer_known = NST_NEW_ARRAY(arena, bool, exec->n_syms);
    state->known = NST_NEW_ARRAY(arena, bool, exec->n_syms);
    state->value = NST_NEW_ARRAY(arena, int64_t, exec->sizes.nodes.n);
    state->state = NST_NEW_ARRAY(arena, uint8_t, exec->sizes.nodes.n);
    state->at = NST_NEW_ARRAY(arena, void *, plan->buffers.n);
    state->offset = NST_NEW_ARRAY(arena, uint64_t, plan->buffers.n);
    state->step = NST_NEW_ARRAY(arena, NstStepState, plan->steps.n);
    state->args = NST_NEW_ARRAY(arena, void *, exec->max_buffers);
    state->own = NST_NEW_ARRAY(arena, NstBlockMemory, plan->buffers.n);
    int64_t *params = NST_NEW_ARRAY(arena, int64_t, exec->n_params);
    for (uint32_t k = 0; k < plan->steps.n; k++) {
        state->step[k].params = params;
        if (plan->steps.at[k].kind == NST_STEP_KERNEL) params += plan->steps.at[k].n_sizes;
    }
    return NST_OK;
}

void nst_run_state_free(NstRunState *state)
{
    if (!state) return;
    if (state->own)
        for (uint32_t b = 0; b < state->exec->plan->buffers.n; b++) free(state->own[b].at);
    free(state->arena.at);
    free(state->scratch.at);
    nst_ctx_dispose(&state->ctx);
    free(state);
}

NstStatus nst_run_state_new(NstExec *exec, NstRunState **state)
{
    NstRunState *made = nst_alloc_should_fail() ? NULL : calloc(1, sizeof *made);
    if (!made) return NST_E_NOMEM;
    made->exec = exec;
    NstStatus status = nst_ctx_init(&made->ctx);
    if (status == NST_OK) status = nst_guard(&made->ctx, init_body, made);
    if (status != NST_OK) {
        nst_run_state_free(made);
        return status;
    }
    atomic_fetch_add_explicit(&exec->n_states, 1, memory_order_relaxed);
    *state = made;
    return NST_OK;
}
