/* session.c: sessions, what can be asked of them, and runs. */
#include "nestor/session.h"

#include <stdlib.h>
#include "runtime/run_state.h"
#include "runtime/variant.h"

/* --- life ---------------------------------------------------------------------------------------------------- */

static bool copy_values(NstSession *session, const NstSessionOptions *options)
{
    if (options->n_values == 0) return true;
    session->values = nst_alloc_should_fail() ? NULL : calloc(options->n_values, sizeof *session->values);
    if (!session->values) return false;
    session->options.values = session->values;
    for (uint32_t k = 0; k < options->n_values; k++) {
        NstNamedTensor *value = &session->values[k];
        value->tensor = options->values[k].tensor;
        if (value->tensor.dtype == NST_STR) value->tensor.bytes = 0; /* not looked at: nothing is made for strings */
        value->tensor.data = nst_memory_new(value->tensor.bytes);
        value->name = options->values[k].name ? nst_text_copy(options->values[k].name) : NULL;
        if (!value->tensor.data || (options->values[k].name && !value->name)) return false;
        if (value->tensor.bytes != 0) memcpy(value->tensor.data, options->values[k].tensor.data, value->tensor.bytes);
    }
    return true;
}

static bool copy_overridable(NstSession *session, const NstSessionOptions *options)
{
    uint32_t n = options->n_overridable;
    if (n == 0) return true;
    session->overridable = nst_alloc_should_fail() ? NULL : calloc(n, sizeof *session->overridable);
    if (!session->overridable) return false;
    for (uint32_t k = 0; k < n; k++)
        if (!(session->overridable[k] = nst_text_copy(options->overridable[k]))) return false;
    session->options.overridable = (const char *const *)session->overridable;
    return true;
}

static bool copy_options(NstSession *session, const NstSessionOptions *options)
{
    session->options = *options;
    if (options->passes_off) {
        session->options.passes_off = session->passes_off = nst_text_copy(options->passes_off);
        if (!session->passes_off) return false;
    }
    if (!copy_values(session, options) || !copy_overridable(session, options)) return false;
    uint32_t n = options->n_shapes;
    if (n == 0) return true;
    session->shapes = nst_alloc_should_fail() ? NULL : calloc(n, sizeof *session->shapes);
    session->shape_names = nst_alloc_should_fail() ? NULL : calloc(n, sizeof *session->shape_names);
    if (!session->shapes || !session->shape_names) return false;
    for (uint32_t k = 0; k < n; k++) {
        session->shapes[k] = options->shapes[k];
        session->shapes[k].name = session->shape_names[k] = nst_text_copy(options->shapes[k].name);
        if (!session->shape_names[k]) return false;
    }
    session->options.shapes = session->shapes;
    return true;
}

void nst_session_free(NstSession *session)
{
    if (!session) return;
    nst_variant_free(session, session->variant);
    nst_variant_free(session, atomic_load(&session->general));
    nst_shapes_free(session);
    nst_lock_free(session->lock);
    for (uint32_t k = 0; session->shape_names && k < session->options.n_shapes; k++) free(session->shape_names[k]);
    for (uint32_t k = 0; session->values && k < session->options.n_values; k++) {
        free((void *)(uintptr_t)session->values[k].name);
        free(session->values[k].tensor.data);
    }
    for (uint32_t k = 0; session->overridable && k < session->options.n_overridable; k++) free(session->overridable[k]);
    free(session->overridable);
    free(session->values);
    free(session->shape_names);
    free(session->shapes);
    free(session->passes_off);
    nst_model_free(session->model);
    free(session);
}

NstStatus nst_session_new(NstModel *model, const NstSessionOptions *options, NstSession **session)
{
    static const NstSessionOptions defaults;
    if (!model || !session) return nst_report(NST_E_INVALID, "nst_session_new: NULL is given");
    if (!options) options = &defaults;
    *session = NULL;
    NST_TRY(nst_session_options_check(options));
    if (model->engine->target.nominal && !options->interpret)
        return nst_report(NST_E_UNSUPPORTED, "a nominal target is for texts; sessions need one of this machine");
    NstSession *made = nst_alloc_should_fail() ? NULL : calloc(1, sizeof *made);
    if (!made) return nst_report(NST_E_NOMEM, "no memory for a session");
    made->model = model;
    made->operators = atomic_load(&model->engine->operators);
    atomic_fetch_add(&model->users, 1);
    NstStatus status = NST_OK;
    if (!copy_options(made, options) || nst_lock_new(&made->lock) != NST_OK)
        status = nst_report(NST_E_NOMEM, "no memory for a session");
    else
        status = nst_variant_new(made, made->options.shapes, made->options.n_shapes, &made->variant);
    if (status != NST_OK) {
        nst_session_free(made);
        return status;
    }
    *session = made;
    return NST_OK;
}

/* --- facts --------------------------------------------------------------------------------------------------- */

uint32_t nst_session_input_count(const NstSession *session)
{
    return session ? session->variant->plan->inputs.n : 0;
}

uint32_t nst_session_output_count(const NstSession *session)
{
    return session ? session->variant->plan->outputs.n : 0;
}

static NstStatus describe_port(NstCtx *ctx, void *arg)
{
    const NstPlanPort *from = ((void **)arg)[0];
    NstPort *port = ((void **)arg)[1];
    const NstPlan *plan = ((void **)arg)[2];
    *port = (NstPort){.name = from->name, .dtype = from->type.dtype, .rank = from->type.rank};
    for (int axis = 0; axis < port->rank; axis++) {
        if (nst_dim_is_const(plan->dims, from->type.shape[axis], &port->shape[axis])) continue;
        NstText text;
        nst_text_init(&text, ctx->arena);
        nst_dim_print(&text, plan->dims, from->type.shape[axis], NULL, NULL);
        port->shape[axis] = -1;
        port->symbol[axis] = nst_text_get(&text);
    }
    return NST_OK;
}

static NstStatus get_port(const NstSession *session, bool output, uint32_t index, NstPort *port)
{
    if (!session || !port) return nst_report(NST_E_INVALID, "a port is asked for: NULL is given");
    const NstPlan *plan = session->variant->plan;
    const NstPlanPort *ports = output ? plan->outputs.at : plan->inputs.at;
    uint32_t n = output ? plan->outputs.n : plan->inputs.n;
    if (index >= n) return nst_report(NST_E_NOT_FOUND, "port %u is asked for, there are %u", index, n);
    NstVariant *variant = session->variant;
    void *arg[3] = {(void *)(uintptr_t)&ports[index], port, (void *)(uintptr_t)plan};
    nst_lock_take(session->lock);
    NstStatus status = nst_guard(&variant->ctx, describe_port, arg);
    if (status != NST_OK) nst_report(status, "%s", variant->ctx.error);
    nst_ctx_clear(&variant->ctx);
    nst_lock_drop(session->lock);
    return status;
}

NstStatus nst_session_input(const NstSession *session, uint32_t index, NstPort *port)
{
    return get_port(session, false, index, port);
}

NstStatus nst_session_output(const NstSession *session, uint32_t index, NstPort *port)
{
    return get_port(session, true, index, port);
}

/* Kernels, code and constants of a plan and of its bodies. */
static void add_facts(const NstPlan *plan, NstSessionFacts *facts)
{
    facts->kernels += plan->kernels.n;
    facts->code_bytes += plan->code_bytes;
    for (uint32_t k = 0; k < plan->constants.n; k++)
        if (plan->constants.at[k].data) facts->constant_bytes += plan->constants.at[k].bytes;
    for (uint32_t k = 0; k < plan->bodies.n; k++) add_facts(plan->bodies.at[k], facts);
}

static void add_plan(const NstVariant *variant, NstSessionFacts *facts)
{
    facts->steps = variant->plan->steps.n;
    facts->compile_ns = variant->plan->compile_ns;
    add_facts(variant->plan, facts);
    if (variant->exec) nst_exec_memory(variant->exec, &facts->run_states, &facts->arena_bytes);
}

void nst_session_facts(NstSession *session, NstSessionFacts *facts)
{
    NstHeldVariant held;
    if (!facts) return;
    *facts = (NstSessionFacts){0};
    if (!session) return;
    facts->compiled = atomic_load(&session->n_compiled);
    facts->from_cache = atomic_load(&session->n_from_cache);
    if (!session->variant->plan->by_shape) {
        add_plan(session->variant, facts);
    } else if (nst_shapes_take_last(session, &held)) {
        add_plan(held.variant, facts);
        nst_shapes_give(session, &held);
    }
}

/* --- runs ---------------------------------------------------------------------------------------------------- */

#define STACK_PORTS 16 /* inputs and outputs of a run that need no memory of the heap */

/* The port a name (or a position) stands for; n when there is none. */
static uint32_t find_port(const NstPlanPort *ports, uint32_t n, const char *name, uint32_t position)
{
    if (!name) return position < n ? position : n;
    uint32_t k = 0;
    while (k < n && strcmp(ports[k].name, name) != 0) k++;
    return k;
}

static NstStatus order_inputs(const NstPlan *plan, const NstNamedTensor *inputs, uint32_t n_inputs, NstTensor *ordered,
                              bool *given)
{
    const NstPlanPort *ports = plan->inputs.at;
    uint32_t n = plan->inputs.n;
    for (uint32_t k = 0; k < n; k++) given[k] = false;
    for (uint32_t k = 0; k < n_inputs; k++) {
        uint32_t at = find_port(ports, n, inputs[k].name, k);
        if (at == n && inputs[k].name)
            return nst_report(NST_E_NOT_FOUND, "there is no input '%s'; the first is '%s'", inputs[k].name,
                              n ? ports[0].name : "none");
        if (at == n) return nst_report(NST_E_NOT_FOUND, "input %u is given, there are %u", k, n);
        if (given[at]) return nst_report(NST_E_INVALID, "input '%s' is given twice", ports[at].name);
        given[at] = true;
        ordered[at] = inputs[k].tensor;
    }
    for (uint32_t k = 0; k < n; k++)
        if (!given[k]) return nst_report(NST_E_INVALID, "input '%s' is not given", ports[k].name);
    return NST_OK;
}

static NstStatus order_outputs(const NstPlan *plan, const NstNamedTensor *outputs, uint32_t n_outputs,
                               NstTensor *ordered, bool *wanted, uint32_t *place)
{
    const NstPlanPort *ports = plan->outputs.at;
    uint32_t n = plan->outputs.n;
    for (uint32_t k = 0; k < n; k++) {
        wanted[k] = false;
        ordered[k] = (NstTensor){0};
    }
    for (uint32_t k = 0; k < n_outputs; k++) {
        uint32_t at = place[k] = find_port(ports, n, outputs[k].name, k);
        if (at == n && outputs[k].name)
            return nst_report(NST_E_NOT_FOUND, "there is no output '%s'; the first is '%s'", outputs[k].name,
                              n ? ports[0].name : "none");
        if (at == n) return nst_report(NST_E_NOT_FOUND, "output %u is asked for, there are %u", k, n);
        if (wanted[at]) return nst_report(NST_E_INVALID, "output '%s' is asked for twice", ports[at].name);
        wanted[at] = true;
        ordered[at].data = outputs[k].tensor.data;
        ordered[at].bytes = outputs[k].tensor.data ? outputs[k].tensor.bytes : 0;
    }
    return NST_OK;
}

static bool fits_declared(const NstSession *session, const NstPlan *plan, const NstTensor *inputs)
{
    for (uint32_t s = 0; s < session->options.n_shapes; s++) {
        const NstInputShape *shape = &session->options.shapes[s];
        uint32_t k = find_port(plan->inputs.at, plan->inputs.n, shape->name, 0);
        if (k == plan->inputs.n || inputs[k].rank != shape->rank) continue; /* the run says what is wrong */
        for (int axis = 0; axis < shape->rank; axis++)
            if (shape->shape[axis] >= 0 && inputs[k].shape[axis] != shape->shape[axis]) return false;
    }
    return true;
}

/* The general variant, made when it is first needed. */
static NstStatus get_general(NstSession *session, NstVariant **variant)
{
    *variant = atomic_load_explicit(&session->general, memory_order_acquire);
    if (*variant) return NST_OK;
    NstStatus status = NST_OK;
    nst_lock_take(session->lock);
    *variant = atomic_load(&session->general);
    if (!*variant) {
        status = nst_variant_new(session, NULL, 0, variant);
        if (status == NST_OK) atomic_store_explicit(&session->general, *variant, memory_order_release);
    }
    nst_lock_drop(session->lock);
    return status;
}

/* The variant for these inputs. */
static NstStatus choose_variant(NstSession *session, const NstTensor *inputs, NstHeldVariant *held)
{
    *held = (NstHeldVariant){session->variant, NULL, false};
    if (session->options.n_shapes != 0 && !fits_declared(session, session->variant->plan, inputs))
        NST_TRY(get_general(session, &held->variant));
    if (!held->variant->plan->by_shape) return NST_OK;
    return nst_shapes_take(session, held->variant, inputs, held);
}

/* The times of the steps of one plan.  Where a session has plans for the shapes of runs, that of the first run it measures. */
struct NstProfile {
    NstSession *session;
    NstHeldVariant held;
    const NstPlan *plan; /* NULL: none yet */
    uint64_t runs;
    uint64_t *ns, *operations; /* by step */
};

/* Gives output k of the interpreter to the caller: in the memory of his, if he has any. */
static NstStatus give_output(const NstPlanPort *port, NstTensor *made, NstTensor *output)
{
    NstTensor target = *made;
    if (output->data) {
        bool strings = made->dtype == NST_STR; /* whose texts stay where they are */
        if (output->bytes < made->bytes)
            return nst_report(NST_E_INVALID, "output '%s' is given %zu bytes, it has %zu", port->name, output->bytes,
                              made->bytes);
        if (made->bytes != 0) memcpy(output->data, made->data, made->bytes);
        target.data = output->data;
        target.bytes = output->bytes;
        if (!strings) {
            target.owned = NULL;
            nst_tensor_release(made);
        }
    }
    *made = (NstTensor){0};
    *output = target;
    return NST_OK;
}

static NstStatus check_inputs(NstCtx *ctx, void *arg)
{
    const NstPlan *plan = ((void **)arg)[0];
    const NstTensor *inputs = ((void **)arg)[1];
    for (uint32_t k = 0; k < plan->inputs.n; k++) NST_TRY(nst_input_check(ctx, plan, &plan->inputs.at[k], &inputs[k]));
    return NST_OK;
}

/* Refuses inputs of another form in the words of a compiled run. */
static NstStatus check_forms(const NstPlan *plan, const NstTensor *inputs)
{
    NstCtx ctx;
    void *arg[2] = {(void *)(uintptr_t)plan, (void *)(uintptr_t)inputs};
    NstStatus status = nst_ctx_init(&ctx);
    if (status != NST_OK) return nst_report(status, "no memory for a run");
    status = nst_guard(&ctx, check_inputs, arg);
    if (status != NST_OK) nst_report(status, "%s", ctx.error);
    nst_ctx_dispose(&ctx);
    return status;
}

static NstStatus interpret(NstSession *session, const NstVariant *variant, const NstTensor *inputs, NstTensor *outputs,
                           const int32_t *cancel)
{
    const NstPlan *plan = variant->plan;
    uint32_t n = plan->outputs.n;
    if (cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0)
        return nst_report(NST_E_CANCELLED, "the run was cancelled before it began");
    NST_TRY(check_forms(plan, inputs));
    char error[NST_ERROR_TEXT] = "";
    const NstCompilerTable *table;
    NST_TRY(nst_engine_compiler(session->model->engine, &table));
    NstSessionOptions options = session->options;
    if (variant == atomic_load(&session->general)) options.n_shapes = 0;
    NstInputShape *shapes = NULL;
    if (variant != session->variant && variant != atomic_load(&session->general)) { /* for these very shapes */
        NST_TRY(nst_shapes_of(variant->plan, inputs, &shapes));
        options.shapes = shapes;
        options.n_shapes = plan->inputs.n;
    }
    NstCompileRequest request = nst_model_request(session->model, &options, error, sizeof error);
    request.operators = session->operators;
    NstTensor *made = nst_alloc_should_fail() ? NULL : calloc((size_t)n + 1, sizeof *made);
    NstStatus status = made ? NST_OK : nst_report(NST_E_NOMEM, "no memory for the outputs of a run");
    if (status == NST_OK) status = table->interpret(&request, inputs, plan->inputs.n, made, n);
    free(shapes);
    if (!made) return status;
    if (status != NST_OK) nst_report(status, "%s", error);
    for (uint32_t k = 0; k < n && status == NST_OK; k++)
        status = give_output(&plan->outputs.at[k], &made[k], &outputs[k]);
    for (uint32_t k = 0; k < n; k++) {
        nst_tensor_release(&made[k]);
        if (status != NST_OK) nst_tensor_release(&outputs[k]);
    }
    free(made);
    return status;
}

/* Ties a profile without a plan to the one that runs; false if it is of another. */
static bool profiles(NstProfile *profile, NstSession *session, const NstHeldVariant *held)
{
    if (!profile->plan && held->slot && profile->session == session) {
        size_t n = (size_t)held->variant->plan->steps.n + 1;
        profile->ns = nst_alloc_should_fail() ? NULL : calloc(2 * n, sizeof *profile->ns);
        if (!profile->ns) return false;
        profile->operations = profile->ns + n;
        profile->plan = held->variant->plan;
        profile->held = *held;
        nst_shapes_again(held);
    }
    return profile->plan == held->variant->plan;
}

static NstStatus run_variant(NstSession *session, const NstHeldVariant *held, const NstTensor *inputs,
                             NstTensor *outputs, const bool *wanted, const NstRunOptions *options)
{
    char error[NST_ERROR_TEXT];
    if (session->options.interpret)
        return interpret(session, held->variant, inputs, outputs, options ? options->cancel : NULL);
    NstProfile *profile = options ? options->profile : NULL;
    if (profile && !profiles(profile, session, held)) profile = NULL;
    NstExecRun run = {.inputs = inputs,
                      .outputs = outputs,
                      .wanted = wanted,
                      .cancel = options ? options->cancel : NULL,
                      .step_ns = profile ? profile->ns : NULL,
                      .step_operations = profile ? profile->operations : NULL,
                      .error = error,
                      .error_bytes = sizeof error};
    NstStatus status = nst_exec_run(held->variant->exec, &run);
    if (status != NST_OK) return nst_report(status, "%s", error);
    if (profile) profile->runs++;
    return NST_OK;
}

typedef struct Ports {
    NstTensor *inputs, *outputs;
    bool *given, *wanted;
    uint32_t *place;
} Ports;

static NstStatus run_ordered(NstSession *session, const NstNamedTensor *inputs, uint32_t n_inputs,
                             NstNamedTensor *outputs, uint32_t n_outputs, const NstRunOptions *options, Ports *p)
{
    const NstPlan *plan = session->variant->plan;
    NstHeldVariant held;
    NST_TRY(order_inputs(plan, inputs, n_inputs, p->inputs, p->given));
    NST_TRY(order_outputs(plan, outputs, n_outputs, p->outputs, p->wanted, p->place));
    NST_TRY(choose_variant(session, p->inputs, &held));
    NstStatus status = run_variant(session, &held, p->inputs, p->outputs, p->wanted, options);
    nst_shapes_give(session, &held);
    if (status != NST_OK) return status;
    for (uint32_t k = 0; k < n_outputs; k++) {
        outputs[k].tensor = p->outputs[p->place[k]];
        p->outputs[p->place[k]].owned = NULL;
    }
    for (uint32_t k = 0; k < plan->outputs.n; k++) nst_tensor_release(&p->outputs[k]);
    return NST_OK;
}

NstStatus nst_session_run(NstSession *session, const NstNamedTensor *inputs, uint32_t n_inputs, NstNamedTensor *outputs,
                          uint32_t n_outputs, const NstRunOptions *options)
{
    if (!session || (!inputs && n_inputs != 0) || (!outputs && n_outputs != 0))
        return nst_report(NST_E_INVALID, "nst_session_run: NULL is given");
    uint32_t n_in = session->variant->plan->inputs.n, n_out = session->variant->plan->outputs.n;
    if (n_outputs > n_out) return nst_report(NST_E_INVALID, "%u outputs are asked for, there are %u", n_outputs, n_out);
    if (n_in <= STACK_PORTS && n_out <= STACK_PORTS) {
        NstTensor in[STACK_PORTS], out[STACK_PORTS];
        bool given[STACK_PORTS], wanted[STACK_PORTS];
        uint32_t place[STACK_PORTS];
        Ports ports = {in, out, given, wanted, place};
        return run_ordered(session, inputs, n_inputs, outputs, n_outputs, options, &ports);
    }
    size_t n = (size_t)n_in + n_out;
    NstTensor *tensors = nst_alloc_should_fail() ? NULL : calloc(n, sizeof *tensors);
    bool *flags = nst_alloc_should_fail() ? NULL : calloc(n, sizeof *flags);
    uint32_t *place = nst_alloc_should_fail() ? NULL : calloc(n_out + 1, sizeof *place);
    NstStatus status = NST_E_NOMEM;
    if (tensors && flags && place) {
        Ports ports = {tensors, tensors + n_in, flags, flags + n_in, place};
        status = run_ordered(session, inputs, n_inputs, outputs, n_outputs, options, &ports);
    } else {
        nst_report(status, "no memory for the tensors of a run");
    }
    free(tensors);
    free(flags);
    free(place);
    return status;
}

void nst_cancel(int32_t *flag)
{
    if (flag) __atomic_store_n(flag, 1, __ATOMIC_RELAXED);
}

/* --- profiles ------------------------------------------------------------------------------------------------ */

NstStatus nst_profile_new(NstSession *session, NstProfile **profile)
{
    if (!session || !profile) return nst_report(NST_E_INVALID, "nst_profile_new: NULL is given");
    *profile = NULL;
    const NstPlan *plan = session->variant->plan;
    size_t n = (size_t)plan->steps.n + 1;
    NstProfile *made = nst_alloc_should_fail() ? NULL : calloc(1, sizeof *made);
    if (made && !plan->by_shape) made->ns = nst_alloc_should_fail() ? NULL : calloc(2 * n, sizeof *made->ns);
    if (!made || (!made->ns && !plan->by_shape)) {
        nst_profile_free(made);
        return nst_report(NST_E_NOMEM, "no memory for a profile");
    }
    made->session = session;
    if (made->ns) {
        made->operations = made->ns + n;
        made->plan = plan;
    }
    *profile = made;
    return NST_OK;
}

void nst_profile_free(NstProfile *profile)
{
    if (!profile) return;
    nst_shapes_give(profile->session, &profile->held);
    free(profile->ns);
    free(profile);
}

uint32_t nst_profile_step_count(const NstProfile *profile)
{
    return profile && profile->plan ? profile->plan->steps.n : 0;
}

uint64_t nst_profile_runs(const NstProfile *profile)
{
    return profile ? profile->runs : 0;
}

NstStatus nst_profile_step(const NstProfile *profile, uint32_t index, NstProfileStep *step)
{
    if (!profile || !step) return nst_report(NST_E_INVALID, "nst_profile_step: NULL is given");
    const NstPlan *plan = profile->plan;
    if (index >= nst_profile_step_count(profile))
        return nst_report(NST_E_NOT_FOUND, "step %u is asked for, there are %u", index,
                          nst_profile_step_count(profile));
    static const char *const words[] = {"", "size", "check", "host", "if", "loop"};
    const NstPlanStep *from = &plan->steps.at[index];
    *step = (NstProfileStep){.name = words[from->kind],
                             .origin = from->origin,
                             .ns = profile->ns[index],
                             .operations = profile->operations[index]};
    if (from->kind == NST_STEP_HOST) step->name = from->text;
    if (from->kind != NST_STEP_KERNEL) return NST_OK;
    const NstPlanKernel *kernel = &plan->kernels.at[from->kernel];
    step->name = kernel->name;
    step->origin = kernel->origin;
    step->not_fused = kernel->not_fused;
    return NST_OK;
}
