/* structure.c: steps of a plan that are no kernels: host functions, if and loop.
 *
 * Their outputs may have sizes that are known only when they are made.  Bodies are plans of their own, run like any plan on
 * tensors; a loop hands its states from one iteration to the next in two blocks of memory each, which grow as they must. */
#include "runtime/structure.h"

#include <stdlib.h>
#include "runtime/host_custom.h"

/* What a buffer holds now. */
static NstStatus buffer_tensor(NstRunState *state, uint32_t b, NstTensor *tensor)
{
    const NstPlanBuffer *buffer = &state->exec->plan->buffers.at[b];
    int64_t bytes = 0;
    *tensor = (NstTensor){.dtype = buffer->dtype, .rank = buffer->rank, .data = state->at[b]};
    for (int axis = 0; axis < buffer->rank; axis++)
        NST_TRY(nst_run_state_size(state, buffer->shape[axis], buffer->name, &tensor->shape[axis]));
    NST_TRY(nst_run_state_size(state, buffer->bytes, buffer->name, &bytes));
    tensor->bytes = (size_t)bytes;
    return NST_OK;
}

/* Stores a tensor, unless it was made in its place. */
static NstStatus store(NstRunState *state, const NstExecRun *run, uint32_t b, const NstTensor *from)
{
    NST_TRY(nst_run_state_shape(state, run, b, from->shape));
    if (from->data == state->at[b]) return NST_OK;
    size_t bytes = (size_t)nst_dtype_info(from->dtype)->bytes;
    for (int axis = 0; axis < from->rank; axis++) bytes *= (size_t)from->shape[axis];
    if (bytes != 0) memcpy(state->at[b], from->data, bytes);
    return NST_OK;
}

/* --- host functions ------------------------------------------------------------------------------------------- */

typedef struct HostCall {
    NstRunState *state;
    const NstExecRun *run;
    const NstPlanStep *step;
} HostCall;

static NstStatus give(NstHostStep *host, uint32_t k)
{
    const HostCall *call = host->owner;
    uint32_t b = call->step->buffer[call->step->n_in + k];
    NST_TRY(nst_run_state_shape(call->state, call->run, b, host->out[k].shape));
    return buffer_tensor(call->state, b, &host->out[k]);
}

static NstStatus host_body(NstCtx *ctx, void *arg)
{
    HostCall *call = arg;
    NstRunState *state = call->state;
    const NstPlanStep *step = call->step;
    NstArena *scratch = state->beside;
    nst_arena_reset(scratch);
    uint32_t n_out = step->n_buffers - step->n_in;
    NstTensor *in = NST_NEW_ARRAY(scratch, NstTensor, step->n_in), *out = NST_NEW_ARRAY(scratch, NstTensor, n_out);
    NstHostStep host = {.ctx = ctx,
                        .arena = scratch,
                        .name = step->text,
                        .config = step->config,
                        .n_in = step->n_in,
                        .n_out = n_out,
                        .in = in,
                        .out = out,
                        .give = give,
                        .owner = call,
                        .strings = state->strings};
    for (uint32_t k = 0; k < step->n_in; k++) NST_TRY(buffer_tensor(state, step->buffer[k], &in[k]));
    for (uint32_t k = 0; k < n_out; k++) {
        const NstPlanBuffer *buffer = &state->exec->plan->buffers.at[step->buffer[step->n_in + k]];
        out[k].dtype = buffer->dtype;
        out[k].rank = buffer->rank;
        for (int axis = 0; axis < buffer->rank; axis++)
            if (nst_sizes_known(&state->exec->sizes, buffer->shape[axis], state->state))
                NST_TRY(nst_run_state_size(state, buffer->shape[axis], buffer->name, &out[k].shape[axis]));
    }
    const NstCustomStep *custom = state->exec->custom[step - state->exec->plan->steps.at];
    return custom ? nst_custom_call(custom, &host) : nst_host_find(step->text)(&host);
}

/* --- bodies --------------------------------------------------------------------------------------------------- */

static NstStatus run_body(NstRunState *state, const NstExecRun *run, uint32_t body, const NstTensor *in, NstTensor *out)
{
    char error[NST_ERROR_TEXT]; /* emptied by the run */
    NstExecRun inner = {.inputs = in,
                        .outputs = out,
                        .cancel = run->cancel,
                        .outer = state,
                        .error = error,
                        .error_bytes = sizeof error};
    NstStatus status = nst_exec_run(state->exec->body[body], &inner);
    return status == NST_OK ? NST_OK : nst_fail(&state->ctx, status, "%s", error);
}

typedef struct Tensors {
    NstRunState *state;
    uint32_t n_in, n_out, n_blocks;
    NstTensor *in, *out;
    NstBlockMemory *block;
} Tensors;

static NstStatus alloc_tensors(NstCtx *ctx, void *arg)
{
    Tensors *t = arg;
    NstArena *arena = t->state->beside;
    (void)ctx;
    nst_arena_reset(arena);
    t->in = NST_NEW_ARRAY(arena, NstTensor, t->n_in);
    t->out = NST_NEW_ARRAY(arena, NstTensor, t->n_out);
    t->block = NST_NEW_ARRAY(arena, NstBlockMemory, t->n_blocks);
    return NST_OK;
}

static void free_tensors(Tensors *t)
{
    for (uint32_t k = 0; t->block && k < t->n_blocks; k++) free(t->block[k].at);
}

/* Where memory and size of a result are known, the body writes it there. */
static void lend_buffer(NstRunState *state, uint32_t b, NstTensor *out)
{
    const NstPlanBuffer *buffer = &state->exec->plan->buffers.at[b];
    int64_t bytes = 0;
    if (!state->at[b] || !nst_sizes_known(&state->exec->sizes, buffer->bytes, state->state)) return;
    if (nst_run_state_size(state, buffer->bytes, buffer->name, &bytes) == NST_OK)
        *out = (NstTensor){.data = state->at[b], .bytes = (size_t)bytes};
}

static NstStatus branch(Tensors *t, const NstExecRun *run, const NstPlanStep *step)
{
    NstRunState *state = t->state;
    const NstPlan *plan = state->exec->plan;
    bool holds = *(const uint8_t *)state->at[step->buffer[0]] != 0;
    uint32_t body = holds ? step->body : step->other, n = plan->bodies.at[body]->inputs.n;
    const uint32_t *from = step->buffer + 1 + (holds ? 0 : plan->bodies.at[step->body]->inputs.n);
    for (uint32_t k = 0; k < n; k++) NST_TRY(buffer_tensor(state, from[k], &t->in[k]));
    for (uint32_t k = 0; k < t->n_out; k++) lend_buffer(state, step->buffer[step->n_in + k], &t->out[k]);
    NST_TRY(run_body(state, run, body, t->in, t->out));
    NstStatus status = NST_OK;
    for (uint32_t k = 0; k < t->n_out; k++) {
        if (status == NST_OK) status = store(state, run, step->buffer[step->n_in + k], &t->out[k]);
        nst_tensor_release(&t->out[k]);
    }
    return status;
}

/* --- loops ---------------------------------------------------------------------------------------------------- */

/* Blocks of a loop: two a state, then one for an entry of each scan and one for the whole scan. */
typedef struct Loop {
    Tensors t;
    const NstExecRun *run;
    const NstPlanStep *step;
    uint32_t n_states, n_scans;
    int64_t iteration;
    uint8_t go, goes_on;
    size_t *scan_bytes; /* of each scan: filled so far */
} Loop;

static void lend(NstTensor *out, const NstBlockMemory *block)
{
    *out = (NstTensor){.data = block->at, .bytes = block->bytes};
}

/* The run took memory of its own where the block was too small: that is the block now. */
static void take_back(NstTensor *out, NstBlockMemory *block)
{
    if (!out->owned) return;
    free(block->at);
    *block = (NstBlockMemory){out->owned, out->bytes};
    out->owned = NULL;
}

static NstStatus append(Loop *loop, uint32_t scan)
{
    Tensors *t = &loop->t;
    const NstTensor *entry = &t->out[1 + loop->n_states + scan];
    NstBlockMemory *whole = &t->block[2 * loop->n_states + 2 * scan + 1];
    NstTensor *first = &t->in[loop->step->n_in + scan]; /* shape of the first entry */
    size_t bytes = (size_t)nst_dtype_info(entry->dtype)->bytes, filled = loop->scan_bytes[scan];
    for (int axis = 0; axis < entry->rank; axis++) {
        NST_CHECK(&t->state->ctx, loop->iteration == 0 || entry->shape[axis] == first->shape[axis], NST_E_SHAPE,
                  "a scan has extent %lld at axis %d, %lld before, allowed: equal", (long long)entry->shape[axis], axis,
                  (long long)first->shape[axis]);
        bytes *= (size_t)entry->shape[axis];
    }
    if (loop->iteration == 0) *first = *entry;
    if (filled + bytes > whole->bytes) {
        size_t room = 2 * (filled + bytes);
        char *grown = nst_memory_new(room);
        NST_CHECK(&t->state->ctx, grown, NST_E_NOMEM, "no memory for %zu bytes of a scan", room);
        if (filled != 0) memcpy(grown, whole->at, filled);
        free(whole->at);
        *whole = (NstBlockMemory){grown, room};
    }
    if (bytes != 0) memcpy(whole->at + filled, entry->data, bytes);
    loop->scan_bytes[scan] += bytes;
    return NST_OK;
}

static NstStatus iterate(Loop *loop)
{
    Tensors *t = &loop->t;
    int turn = (int)(loop->iteration & 1);
    t->out[0] = (NstTensor){.data = &loop->goes_on, .bytes = 1};
    for (uint32_t k = 0; k < loop->n_states; k++) lend(&t->out[1 + k], &t->block[2 * k + (uint32_t)turn]);
    for (uint32_t k = 0; k < loop->n_scans; k++)
        lend(&t->out[1 + loop->n_states + k], &t->block[2 * loop->n_states + 2 * k]);
    NST_TRY(run_body(t->state, loop->run, loop->step->body, t->in, t->out));
    for (uint32_t k = 0; k < loop->n_states; k++) {
        take_back(&t->out[1 + k], &t->block[2 * k + (uint32_t)turn]);
        t->in[2 + k] = t->out[1 + k];
    }
    for (uint32_t k = 0; k < loop->n_scans; k++)
        take_back(&t->out[1 + loop->n_states + k], &t->block[2 * (loop->n_states + k)]);
    for (uint32_t k = 0; k < loop->n_scans; k++) NST_TRY(append(loop, k));
    loop->go = loop->goes_on;
    return NST_OK;
}

static NstStatus finish_loop(Loop *loop)
{
    Tensors *t = &loop->t;
    NstRunState *state = t->state;
    const uint32_t *out = loop->step->buffer + loop->step->n_in;
    for (uint32_t k = 0; k < loop->n_states; k++) NST_TRY(store(state, loop->run, out[k], &t->in[2 + k]));
    for (uint32_t k = 0; k < loop->n_scans; k++) {
        uint32_t b = out[loop->n_states + k];
        const NstPlanBuffer *buffer = &state->exec->plan->buffers.at[b];
        NstTensor whole = {.dtype = buffer->dtype, .rank = buffer->rank};
        whole.shape[0] = loop->iteration;
        for (int axis = 1; axis < buffer->rank; axis++) {
            if (loop->iteration > 0)
                whole.shape[axis] = t->in[loop->step->n_in + k].shape[axis - 1];
            else if (nst_sizes_known(&state->exec->sizes, buffer->shape[axis], state->state))
                NST_TRY(nst_run_state_size(state, buffer->shape[axis], buffer->name, &whole.shape[axis]));
        }
        whole.data = t->block[2 * loop->n_states + 2 * k + 1].at;
        NST_TRY(store(state, loop->run, b, &whole));
    }
    return NST_OK;
}

static NstStatus run_loop(Loop *loop)
{
    Tensors *t = &loop->t;
    NstRunState *state = t->state;
    const NstPlanStep *step = loop->step;
    int64_t trips;
    for (uint32_t k = 0; k < step->n_in; k++) NST_TRY(buffer_tensor(state, step->buffer[k], &t->in[k]));
    memcpy(&trips, t->in[0].data, sizeof trips);
    loop->go = *(const uint8_t *)t->in[1].data;
    t->in[0].data = &loop->iteration;
    t->in[1].data = &loop->go;
    for (; loop->iteration < trips && loop->go; loop->iteration++) {
        NST_CHECK(&state->ctx, !loop->run->cancel || __atomic_load_n(loop->run->cancel, __ATOMIC_RELAXED) == 0,
                  NST_E_CANCELLED, "the run was cancelled in iteration %lld of a loop", (long long)loop->iteration);
        NST_TRY(iterate(loop));
    }
    return finish_loop(loop);
}

/* --- the step ------------------------------------------------------------------------------------------------- */

static NstStatus alloc_loop(NstCtx *ctx, void *arg)
{
    Loop *loop = arg;
    NST_TRY(alloc_tensors(ctx, &loop->t));
    loop->scan_bytes = NST_NEW_ARRAY(loop->t.state->beside, size_t, loop->n_scans);
    return NST_OK;
}

static NstStatus do_step(NstRunState *state, const NstExecRun *run, const NstPlanStep *step)
{
    uint32_t n_out = step->n_buffers - step->n_in;
    HostCall call = {state, run, step};
    if (step->kind == NST_STEP_HOST) return nst_guard(&state->ctx, host_body, &call);
    Loop loop = {.t = {.state = state, .n_in = step->n_in, .n_out = n_out}, .run = run, .step = step};
    NstStatus status;
    if (step->kind == NST_STEP_IF) {
        status = nst_guard(&state->ctx, alloc_tensors, &loop.t);
        if (status == NST_OK) status = branch(&loop.t, run, step);
    } else {
        loop.n_states = step->n_states;
        loop.n_scans = n_out - step->n_states;
        loop.t.n_in += loop.n_scans;
        loop.t.n_out++;
        loop.t.n_blocks = 2 * (loop.n_states + loop.n_scans);
        status = nst_guard(&state->ctx, alloc_loop, &loop);
        if (status == NST_OK) status = run_loop(&loop);
    }
    free_tensors(&loop.t);
    return status;
}

NstStatus nst_run_structure(NstRunState *state, const NstExecRun *run, const NstPlanStep *step)
{
    NstStatus status = do_step(state, run, step);
    if (status != NST_OK && step->origin) (void)nst_note(&state->ctx, "in %s", step->origin);
    return status;
}
