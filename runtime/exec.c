/* exec.c: makes plans ready and runs them. */
#include "runtime/exec.h"

#include <stdlib.h>
#include "runtime/float_state.h"
#include "runtime/helpers.h"
#include "runtime/host_custom.h"
#include "runtime/structure.h"

/* --- steps --------------------------------------------------------------------------------------------------- */

typedef struct Launch {
    NstRunState *state;
    NstKernelFn function;
    NstKernelArgs args;
} Launch;

static void run_part(void *arg, int thread, int threads)
{
    Launch *launch = arg;
    NstKernelArgs args = launch->args;
    args.thread = thread;
    args.threads = threads;
    args.scratch += (size_t)thread * launch->state->per_thread;
    int32_t status = launch->function(&args);
    if (status == NST_OK) return;
    int32_t none = NST_OK; /* a kernel that left the slot empty */
    __atomic_compare_exchange_n(&launch->state->error.status, &none, status, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    nst_barrier_break(args.barrier);
}

static const char *origin_text(const NstPlanKernel *kernel, uint32_t origin)
{
    if (origin != 0 && origin < kernel->n_origins && kernel->origin_text[origin]) return kernel->origin_text[origin];
    return kernel->origin ? kernel->origin : kernel->name;
}

/* The error slot as a message. */
static NstStatus kernel_error(NstRunState *state, const NstPlanKernel *kernel)
{
    const NstErrorSlot *slot = &state->error;
    NstStatus status = (NstStatus)slot->status;
    const char *where = origin_text(kernel, slot->origin);
    if (status == NST_E_INDEX)
        NST_FAIL(&state->ctx, status, "%s: index %lld is given, allowed are 0 to %lld", where, (long long)slot->value,
                 (long long)slot->limit - 1);
    if (status == NST_E_ASSERT && (uint64_t)slot->value < kernel->n_messages)
        NST_FAIL(&state->ctx, status, "%s: %s", where, kernel->message_text[slot->value]);
    if (status == NST_E_CANCELLED) NST_FAIL(&state->ctx, status, "the run was cancelled in %s", where);
    NST_FAIL(&state->ctx, status, "%s: %s", where, nst_status_meaning(status));
}

/* One thread: the kernel takes the arguments as they stand.  Their copy and the pool's bookkeeping took 4 of the 11 ns that a
 * step cost beside its kernel (100 tiny steps). */
static void run_alone(Launch *launch)
{
    int32_t status = launch->function(&launch->args);
    if (status != NST_OK && launch->state->error.status == NST_OK) launch->state->error.status = status;
}

static NstStatus run_kernel(NstRunState *state, const NstPlanStep *step, const NstStepState *prepared,
                            const int32_t *cancel)
{
    const NstExec *exec = state->exec;
    for (uint32_t k = 0; k < step->n_buffers; k++) state->args[k] = state->at[step->buffer[k]];
    char *scratch = state->scratch.at + nst_barrier_size();
    size_t threads = (size_t)nst_pool_threads(exec->pool);
    Launch launch = {
        .state = state,
        .function = exec->function[step->kernel],
        .args = {.buffers = state->args,
                 .dims = prepared->params,
                 .threads = 1,
                 .barrier = nst_run_state_barrier(state),
                 .scratch = scratch,
                 .shared = scratch + threads * state->per_thread,
                 .error = &state->error,
                 .cancel = cancel,
                 .helpers = &nst_helpers},
    };
    nst_barrier_init(launch.args.barrier);
    state->error = (NstErrorSlot){0};
    int wanted = prepared->threads;
    if (wanted > 1 && nst_pool_defer(exec->pool, prepared->ns)) wanted = 1;
    if (wanted > 1)
        nst_pool_run(exec->pool, wanted, run_part, &launch);
    else
        run_alone(&launch);
    return state->error.status == NST_OK ? NST_OK : kernel_error(state, &exec->plan->kernels.at[step->kernel]);
}

static NstStatus read_symbol(NstRunState *state, const NstExecRun *run, const NstPlanStep *step)
{
    const NstPlan *plan = state->exec->plan;
    NstSym sym = nst_dim_node(plan->dims, step->size[0])->sym;
    const NstSymInfo *info = nst_dims_sym_info(plan->dims, sym);
    NstDtype dtype = plan->buffers.at[step->buffer[0]].dtype;
    int64_t value = nst_scalar_load(dtype, state->at[step->buffer[0]]).i, lo = info->lo, hi = info->hi;
    if (dtype == NST_U64 && value < 0) value = INT64_MAX; /* what no size is */
    if (step->a.i != 0) NST_TRY(nst_run_state_size(state, step->a, info->name, &lo));
    if (step->b.i != 0) NST_TRY(nst_run_state_size(state, step->b, info->name, &hi));
    NST_CHECK(&state->ctx, value >= lo && value <= hi, NST_E_SHAPE, "size %s is %lld, allowed are %lld to %lld%s%s",
              info->name, (long long)value, (long long)lo, (long long)hi, step->text ? "; at " : "",
              step->text ? step->text : "");
    return nst_run_state_learn(state, run, sym, value);
}

static NstStatus check_equal(NstRunState *state, const NstPlanStep *step)
{
    int64_t a = 0, b = 0;
    const char *text = step->text ? step->text : "sizes must be equal";
    NST_TRY(nst_run_state_size(state, step->a, text, &a));
    NST_TRY(nst_run_state_size(state, step->b, text, &b));
    NST_CHECK(&state->ctx, a == b, NST_E_ASSERT, "%s: %lld and %lld", text, (long long)a, (long long)b);
    return NST_OK;
}

static NstStatus run_step(NstRunState *state, const NstExecRun *run, uint32_t k, const int32_t *cancel)
{
    const NstPlanStep *step = &state->exec->plan->steps.at[k];
    switch (step->kind) {
    case NST_STEP_KERNEL:
        if (state->exec->value_defined) NST_TRY(nst_run_state_scratch(state, step, 1));
        return run_kernel(state, step, &state->step[k], cancel);
    case NST_STEP_READ: return read_symbol(state, run, step);
    case NST_STEP_CHECK: return check_equal(state, step);
    case NST_STEP_HOST:
    case NST_STEP_IF:
    case NST_STEP_LOOP: return nst_run_structure(state, run, step);
    }
    NST_FAIL(&state->ctx, NST_E_UNSUPPORTED, "a plan step of kind %d", (int)step->kind);
}

/* Adds what the step has cost: its time, and the operations of its kernel at the sizes of this run. */
static void profile_step(NstRunState *state, const NstExecRun *run, uint32_t k, int64_t start)
{
    const NstPlan *plan = state->exec->plan;
    int64_t operations = 0;
    run->step_ns[k] += (uint64_t)(nst_os_now_ns() - start);
    if (plan->steps.at[k].kind != NST_STEP_KERNEL) return;
    const NstPlanKernel *kernel = &plan->kernels.at[plan->steps.at[k].kernel];
    if (nst_run_state_size(state, kernel->operations, kernel->name, &operations) != NST_OK)
        nst_ctx_clear(&state->ctx); /* more than 64 bits count */
    else
        run->step_operations[k] += (uint64_t)operations;
}

static NstStatus run_steps(NstRunState *state, const NstExecRun *run)
{
    static const int32_t never;
    const int32_t *cancel = run->cancel ? run->cancel : &never;
    uint32_t n = state->exec->plan->steps.n, first = run->only_step ? run->only_step - 1 : 0;
    for (uint32_t k = first; k < (run->only_step ? run->only_step : n); k++) {
        NST_CHECK(&state->ctx, __atomic_load_n(cancel, __ATOMIC_RELAXED) == 0, NST_E_CANCELLED,
                  "the run was cancelled before step %u of %u", k, n);
        int64_t start = run->step_ns ? nst_os_now_ns() : 0;
        NST_TRY(run_step(state, run, k, cancel));
        if (run->step_ns) profile_step(state, run, k, start);
    }
    return NST_OK;
}

/* --- runs ---------------------------------------------------------------------------------------------------- */

static NstRunState *take_state(NstExec *exec)
{
    for (int k = 0; k < NST_EXEC_SPARE; k++) {
        if (!atomic_load_explicit(&exec->spare[k], memory_order_relaxed)) continue;
        NstRunState *state = atomic_exchange_explicit(&exec->spare[k], NULL, memory_order_acquire);
        if (state) return state;
    }
    return NULL;
}

static void give_state(NstExec *exec, NstRunState *state)
{
    for (int k = 0; k < NST_EXEC_SPARE; k++) {
        NstRunState *empty = NULL;
        if (atomic_compare_exchange_strong_explicit(&exec->spare[k], &empty, state, memory_order_release,
                                                    memory_order_relaxed))
            return;
    }
    nst_run_state_free(state);
}

static NstStatus run_bound(NstRunState *state, const NstExecRun *run)
{
    NST_TRY(nst_run_state_bind(state, run));
    NST_TRY(run_steps(state, run));
    return nst_run_state_finish(state, run);
}

/* After a failure: what the run had provided. */
static void drop_outputs(const NstExec *exec, const NstExecRun *run)
{
    for (uint32_t k = 0; k < exec->plan->outputs.n; k++)
        if (run->outputs[k].owned) nst_tensor_release(&run->outputs[k]);
}

/* A state for one run.  Errors: NST_E_NOMEM, told in run->error. */
static NstStatus begin_run(NstExec *exec, const NstExecRun *run, NstRunState **state)
{
    if (run->error && run->error_bytes != 0) run->error[0] = '\0';
    *state = take_state(exec);
    if (*state) return NST_OK;
    NstStatus made = nst_run_state_new(exec, state);
    if (made != NST_OK && run->error) snprintf(run->error, run->error_bytes, "no memory for the state of a run");
    return made;
}

/* Gives the state back; after a failure its message is told and it ends, with what the message took of its memory. */
static void end_run(NstExec *exec, const NstExecRun *run, NstRunState *state, NstStatus status)
{
    if (status == NST_OK) {
        give_state(exec, state);
        return;
    }
    if (run->error) snprintf(run->error, run->error_bytes, "%s", state->ctx.error);
    nst_run_state_free(state);
}

NstStatus nst_exec_check(NstExec *exec, const NstTensor *inputs, char *error, size_t error_bytes)
{
    NstExecRun run = {.inputs = inputs, .error = error, .error_bytes = error_bytes};
    NstRunState *state;
    NST_TRY(begin_run(exec, &run, &state));
    NstStatus status = nst_run_state_prepare(state, &run);
    end_run(exec, &run, state, status);
    return status;
}

NstStatus nst_exec_run(NstExec *exec, const NstExecRun *run)
{
    NstFloatState float_state;
    NstRunState *state;
    for (uint32_t k = 0; k < exec->plan->outputs.n; k++) run->outputs[k].owned = NULL;
    NST_TRY(begin_run(exec, run, &state));
    nst_float_state_enter(&float_state);
    NstStatus status = run_bound(state, run);
    nst_float_state_leave(&float_state);
    if (status != NST_OK) drop_outputs(exec, run);
    end_run(exec, run, state, status);
    return status;
}

void nst_tensor_release(NstTensor *tensor)
{
    if (!tensor || !tensor->owned) return;
    free(tensor->owned);
    tensor->owned = tensor->data = NULL;
    tensor->bytes = 0;
}

/* --- making ready -------------------------------------------------------------------------------------------- */

static size_t whole_lines(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Memory for the constants that prepack steps fill: one piece, so that pages can be large. */
static NstStatus alloc_packed(NstCtx *ctx, NstPlan *plan)
{
    size_t total = 0, at = 0;
    for (uint32_t k = 0; k < plan->constants.n; k++) {
        const NstPlanConst *constant = &plan->constants.at[k];
        if (constant->data || constant->bytes == 0) continue;
        NST_CHECK(ctx, constant->packed, NST_E_INVALID, "constant %u of the plan has no data", k);
        NST_CHECK(ctx, constant->bytes <= SIZE_MAX / 2 - total, NST_E_LIMIT, "constant %u of the plan has %zu bytes", k,
                  constant->bytes);
        total += whole_lines(constant->bytes);
    }
    if (total == 0) return NST_OK;
    char *piece = nst_os_large_pages(plan->arena, total);
    for (uint32_t k = 0; k < plan->constants.n; k++) {
        NstPlanConst *constant = &plan->constants.at[k];
        if (constant->data || constant->bytes == 0) continue;
        constant->data = piece + at;
        at += whole_lines(constant->bytes);
    }
    return NST_OK;
}

/* Runs the prepack steps as a run of a plan without inputs. */
static NstStatus prepack(NstCtx *ctx, NstExec *exec)
{
    NstPlan *plan = exec->plan;
    if (plan->prepack.n == 0) return NST_OK;
    NstRunState *state = NULL;
    NST_CHECK(ctx, nst_run_state_new(exec, &state) == NST_OK, NST_E_NOMEM, "no memory for packing weights");
    static const int32_t never;
    nst_sizes_eval(&exec->sizes, state->sym, state->known, state->value, state->state);
    NstStatus status = nst_run_state_scratch(state, plan->prepack.at, plan->prepack.n);
    for (uint32_t b = 0; b < plan->buffers.n; b++)
        if (plan->buffers.at[b].place == NST_PLACE_CONST)
            state->at[b] = (void *)(uintptr_t)plan->constants.at[plan->buffers.at[b].index].data;
    NstStepState prepared = {nst_pool_threads(exec->pool), INT64_MAX, NULL};
    for (uint32_t k = 0; k < plan->prepack.n && status == NST_OK; k++) {
        const NstPlanStep *step = &plan->prepack.at[k];
        prepared.threads = plan->kernels.at[step->kernel].parallel ? nst_pool_threads(exec->pool) : 1;
        prepared.params = NST_NEW_ARRAY(state->ctx.arena, int64_t, step->n_sizes);
        status = nst_run_state_params(state, step, prepared.params);
        if (status == NST_OK) status = run_kernel(state, step, &prepared, &never);
    }
    if (status != NST_OK) status = nst_fail(ctx, status, "packing weights: %s", state->ctx.error);
    nst_run_state_free(state);
    plan->prepack.n = 0;
    return status;
}

static bool has_constant_sizes(const NstPlan *plan, const NstPlanStep *step)
{
    int64_t value;
    for (uint32_t s = 0; s < step->n_sizes; s++)
        if (!nst_dim_is_const(plan->dims, step->size[s], &value)) return false;
    return true;
}

/* The function of a host step must be there; a registered operator is bound. */
static NstStatus check_host(NstCtx *ctx, NstExec *exec, const NstPlanStep *step, const NstCustomStep **bound)
{
    NstArena *arena = exec->plan->arena;
    const char *where = step->origin ? step->origin : "a step";
    if (!nst_custom_is_name(step->text)) {
        NST_CHECK(ctx, nst_host_find(step->text), NST_E_UNSUPPORTED, "%s: the host function '%s'", where, step->text);
        return NST_OK;
    }
    uint32_t n_out = step->n_buffers - step->n_in;
    NstTensor *out = NST_NEW_ARRAY(arena, NstTensor, n_out);
    for (uint32_t k = 0; k < n_out; k++) out[k].rank = exec->plan->buffers.at[step->buffer[step->n_in + k]].rank;
    NstHostStep form = {.name = step->text, .config = step->config, .n_in = step->n_in, .n_out = n_out, .out = out};
    NstCustomStep *made = NST_NEW_ARRAY(arena, NstCustomStep, 1);
    if (nst_custom_bind(ctx, arena, exec->operators, &form, made) != NST_OK) return nst_note(ctx, "in %s", where);
    *bound = made;
    return NST_OK;
}

static NstStatus check_steps(NstCtx *ctx, NstExec *exec)
{
    const NstPlan *plan = exec->plan;
    exec->custom = NST_NEW_ARRAY(plan->arena, const NstCustomStep *, plan->steps.n);
    for (uint32_t k = 0; k < plan->prepack.n; k++) {
        const NstPlanStep *step = &plan->prepack.at[k];
        NST_CHECK(ctx, step->kind == NST_STEP_KERNEL && has_constant_sizes(plan, step), NST_E_UNSUPPORTED,
                  "prepack step %u is no kernel of constant size", k);
        if (step->n_buffers > exec->max_buffers) exec->max_buffers = step->n_buffers;
    }
    for (uint32_t k = 0; k < plan->steps.n; k++) {
        const NstPlanStep *step = &plan->steps.at[k];
        if (step->kind == NST_STEP_HOST) NST_TRY(check_host(ctx, exec, step, &exec->custom[k]));
        if (step->kind == NST_STEP_KERNEL) exec->n_params += step->n_sizes;
        if (step->n_buffers > exec->max_buffers) exec->max_buffers = step->n_buffers;
    }
    return NST_OK;
}

/* True if a size depends on what is known only while running. */
static bool has_late_sizes(const NstExec *exec)
{
    for (uint32_t k = 0; k < exec->sizes.nodes.n; k++) {
        const NstSizeNode *node = &exec->sizes.nodes.at[k];
        if (node->op == NST_DIM_SYM && nst_dims_sym_info(exec->plan->dims, node->sym)->kind != NST_SYM_INPUT)
            return true;
    }
    return false;
}

static bool has_strings(const NstPlan *plan)
{
    for (uint32_t b = 0; b < plan->buffers.n; b++)
        if (plan->buffers.at[b].dtype == NST_STR) return true;
    for (uint32_t k = 0; k < plan->bodies.n; k++)
        if (has_strings(plan->bodies.at[k])) return true;
    return false;
}

static void find_functions(NstExec *exec, const NstKernelFn *function)
{
    const NstPlan *plan = exec->plan;
    exec->function = NST_NEW_ARRAY(plan->arena, NstKernelFn, plan->kernels.n);
    for (uint32_t k = 0; k < plan->kernels.n; k++) {
        if (function) {
            exec->function[k] = function[k];
        } else {
            NST_ASSERT(plan->kernels.at[k].entry < exec->code.size);
            const void *entry = exec->code.at + plan->kernels.at[k].entry;
            memcpy(&exec->function[k], &entry, sizeof entry);
        }
    }
}

static NstStatus ready(NstCtx *ctx, NstExec *exec, const NstKernelFn *function)
{
    NstPlan *plan = exec->plan;
    exec->n_syms = nst_dims_sym_count(plan->dims) + 1;
    for (uint32_t k = 0; k < plan->inputs.n; k++) exec->n_in_dims += (uint32_t)plan->inputs.at[k].type.rank;
    NST_TRY(check_steps(ctx, exec));
    NST_CHECK(ctx, function || plan->code_bytes != 0 || plan->kernels.n == 0, NST_E_INVALID, "the plan has no code");
    NST_TRY(alloc_packed(ctx, plan));
    if (!function) NST_TRY(nst_os_map_code(ctx, plan->code, plan->code_bytes, &exec->code));
    nst_sizes_of_plan(&exec->sizes, plan->arena, plan);
    exec->value_defined = has_late_sizes(exec);
    exec->has_strings = has_strings(plan);
    if (exec->has_strings && !plan->strings) plan->strings = nst_strings_new(plan->arena);
    find_functions(exec, function);
    exec->body = NST_NEW_ARRAY(plan->arena, NstExec *, plan->bodies.n);
    if (function) function += plan->kernels.n;
    for (uint32_t k = 0; k < plan->bodies.n; k++) {
        NST_TRY(nst_exec_new(ctx, plan->bodies.at[k], exec->pool, function, exec->operators, &exec->body[k]));
        if (function) function += plan->bodies.at[k]->kernels.n;
    }
    return prepack(ctx, exec);
}

typedef struct Ready {
    NstExec *exec;
    const NstKernelFn *function;
} Ready;

static NstStatus ready_body(NstCtx *ctx, void *arg)
{
    Ready *job = arg;
    return ready(ctx, job->exec, job->function);
}

NstStatus nst_exec_new(NstCtx *ctx, NstPlan *plan, NstPool *pool, const NstKernelFn *function,
                       const NstCustom *operators, NstExec **exec)
{
    NstExec *made = nst_alloc_should_fail() ? NULL : calloc(1, sizeof *made);
    NST_CHECK(ctx, made, NST_E_NOMEM, "no memory for a plan that runs");
    made->plan = plan;
    made->pool = pool;
    made->operators = operators;
    Ready job = {made, function};
    NstStatus status = nst_guard(ctx, ready_body, &job);
    if (status != NST_OK) {
        nst_exec_free(made);
        return status;
    }
    *exec = made;
    return NST_OK;
}

void nst_exec_free(NstExec *exec)
{
    if (!exec) return;
    for (int k = 0; k < NST_EXEC_SPARE; k++) nst_run_state_free(atomic_load(&exec->spare[k]));
    for (uint32_t k = 0; exec->body && k < exec->plan->bodies.n; k++) nst_exec_free(exec->body[k]);
    nst_os_unmap(&exec->code);
    free(exec);
}

void nst_exec_memory(const NstExec *exec, uint64_t *n_states, uint64_t *arena_bytes)
{
    NstExec *seen = (NstExec *)(uintptr_t)exec;
    *n_states = atomic_load_explicit(&seen->n_states, memory_order_relaxed);
    *arena_bytes = atomic_load_explicit(&seen->arena_bytes, memory_order_relaxed);
}
