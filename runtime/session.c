/* session.c: sessions: plans from the cache or the compiler, and runs. */
#include "nestor/session.h"

#include <stdlib.h>
#include <time.h>
#include "runtime/engine.h"
#include "runtime/exec.h"
#include "runtime/plan_io.h"
#include "runtime/run_state.h"

/* A plan for all sizes, or one for the declared shapes. */
typedef struct Variant {
    NstCtx ctx; /* its arena holds the plan */
    NstPlan *plan;
    NstExec *exec;   /* NULL when the session interprets */
    NstCacheHit hit; /* holds the plan's bytes, or ... */
    NstBlob blob;    /* ... they are here */
    bool compiled;
} Variant;

struct NstSession {
    NstModel *model;
    NstSessionOptions options; /* texts and shapes copied */
    char *passes_off;
    NstInputShape *shapes;
    char **shape_names;
    char **overridable;
    const NstCustom *operators; /* registered when the session was made */
    NstNamedTensor *values;     /* names and data are copies */
    NstLock *lock;              /* of making the general variant beside an exact one */
    Variant *variant;           /* made with the session: exact if shapes are declared */
    _Atomic(Variant *) general;
};

/* --- key ----------------------------------------------------------------------------------------------------- */

/* All a plan depends on, as text. */
static void add_material(NstText *text, const NstSession *session, bool exact)
{
    const NstModel *model = session->model;
    const NstSessionOptions *options = &session->options;
    const NstTarget *target = &model->engine->target;
    nst_text_add(text, "plan of model %016llx%016llx %zu\nbuild %s\n", (unsigned long long)model->hash_hi,
                 (unsigned long long)model->hash_lo, model->size, nst_build_id);
    nst_text_add(text, "target %d %016llx %s %s\ncaches %lld %lld %lld\n", (int)target->level,
                 (unsigned long long)target->feature_mask, target->cpu, target->features, (long long)target->l1_bytes,
                 (long long)target->l2_bytes, (long long)target->l3_bytes);
    nst_text_add(text, "strict %d bounds %d interpret %d off %s\n", options->strict != 0, options->bounds_checks != 0,
                 options->interpret != 0, options->passes_off ? options->passes_off : "");
    nst_operators_add_material(text, session->operators, model);
    for (uint32_t k = 0; exact && k < options->n_shapes; k++) {
        const NstInputShape *shape = &options->shapes[k];
        nst_text_add_quoted(text, shape->name, strlen(shape->name));
        for (int axis = 0; axis < shape->rank; axis++) nst_text_add(text, " %lld", (long long)shape->shape[axis]);
        nst_text_add(text, "\n");
    }
    for (uint32_t k = 0; k < options->n_overridable; k++) {
        nst_text_add(text, "input ");
        nst_text_add_quoted(text, options->overridable[k], strlen(options->overridable[k]));
        nst_text_add(text, "\n");
    }
    for (uint32_t k = 0; k < options->n_values; k++) {
        const NstTensor *value = &options->values[k].tensor;
        const char *name = options->values[k].name;
        if (value->dtype == NST_STR) continue; /* not looked at */
        nst_text_add(text, "value %u ", k);
        nst_text_add_quoted(text, name ? name : "", name ? strlen(name) : 0);
        nst_text_add(text, " %s", nst_dtype_name(value->dtype));
        for (int axis = 0; axis < value->rank; axis++) nst_text_add(text, " %lld", (long long)value->shape[axis]);
        nst_text_add(text, " ");
        nst_text_add_quoted(text, value->data, value->bytes);
        nst_text_add(text, "\n");
    }
}

/* --- variants ------------------------------------------------------------------------------------------------ */

static void free_variant(const NstSession *session, Variant *variant)
{
    if (!variant) return;
    nst_exec_free(variant->exec);
    nst_ctx_dispose(&variant->ctx);
    nst_cache_release(session->model->engine->cache, &variant->hit);
    free(variant->blob.at);
    free(variant);
}

typedef struct Making {
    NstSession *session;
    Variant *variant;
    bool exact;
} Making;

/* Plans with more bytes of constants than this are stored as they were before weights were packed, and are packed again
 * from the mapped model: reading back costs what packing does, and the disk is not ours alone. */
#define PACKED_LIMIT ((uint64_t)512 << 20)
/* A file changed less than this before it was read may change again under the same mark. */
#define MARK_AGE_NS ((int64_t)2000000000)

static bool files_are_same(const NstPlan *plan)
{
    for (uint32_t k = 0; k < plan->files.n; k++) {
        NstFileMark mark;
        const NstFileMark *then = &plan->files.at[k].mark;
        if (nst_file_mark(NULL, plan->files.at[k].path, &mark) != NST_OK) return false;
        if (mark.device != then->device || mark.inode != then->inode || mark.size != then->size ||
            mark.mtime_ns != then->mtime_ns || mark.ctime_ns != then->ctime_ns)
            return false;
    }
    return true;
}

static bool files_are_settled(const NstPlan *plan)
{
    int64_t now = (int64_t)time(NULL) * 1000000000;
    for (uint32_t k = 0; k < plan->files.n; k++)
        if (now - plan->files.at[k].mark.mtime_ns < MARK_AGE_NS || now - plan->files.at[k].mark.ctime_ns < MARK_AGE_NS)
            return false;
    return true;
}

static NstStatus load_plan(NstCtx *ctx, const NstText *key, Making *m)
{
    NstEngine *engine = m->session->model->engine;
    if (!nst_cache_find(engine->cache, NST_CACHE_PLAN, key->at, key->n, &m->variant->hit)) return NST_E_NOT_FOUND;
    const NstModel *model = m->session->model;
    NstStatus status = nst_plan_read(ctx, ctx->arena, m->variant->hit.at, m->variant->hit.bytes, model->bytes,
                                     model->size, &m->variant->plan);
    if (status == NST_OK && files_are_same(m->variant->plan)) {
        m->variant->plan->compile_ns = 0;
        return NST_OK;
    }
    nst_engine_log(engine, NST_LOG_WARNING, "a plan of the cache is not used: %s",
                   status == NST_OK ? "a file of external data has changed" : ctx->error);
    nst_ctx_clear(ctx);
    nst_cache_release(engine->cache, &m->variant->hit);
    return NST_E_NOT_FOUND;
}

static NstStatus compile_plan(NstCtx *ctx, Making *m)
{
    NstSession *session = m->session;
    NST_CHECK(ctx, !session->options.fail_on_compile, NST_E_NOT_FOUND,
              "'%s' is in no cache for these options, and fail_on_compile forbids to compile it%s",
              session->model->name, nst_operators_missing(ctx->arena, session->operators, session->model));
    const NstCompilerTable *table;
    NST_TRY(nst_compiler_get(ctx, &table));
    NstSessionOptions options = session->options;
    if (!m->exact) options.n_shapes = 0;
    NstCompileRequest request = nst_model_request(session->model, &options, ctx->error, sizeof ctx->error);
    request.operators = session->operators;
    int64_t start = nst_os_now_ns();
    NstStatus status = table->compile(&request, &m->variant->blob);
    if (status != NST_OK) {
        ctx->status = status; /* the message is there */
        return status;
    }
    NST_TRY(nst_plan_read(ctx, ctx->arena, m->variant->blob.at, m->variant->blob.bytes, session->model->bytes,
                          session->model->size, &m->variant->plan));
    m->variant->plan->compile_ns = (uint64_t)(nst_os_now_ns() - start);
    m->variant->compiled = true;
    nst_engine_log(session->model->engine, NST_LOG_INFO, "compiled '%s' in %.1f ms: %u kernels", session->model->name,
                   (double)m->variant->plan->compile_ns / 1e6, m->variant->plan->kernels.n);
    return NST_OK;
}

static NstStatus store_plan(NstCtx *ctx, const NstText *key, Making *m)
{
    NstCache *cache = m->session->model->engine->cache;
    NstPart *parts, unpacked = {m->variant->blob.at, m->variant->blob.bytes};
    int n_parts;
    uint64_t bytes = 0;
    if (!files_are_settled(m->variant->plan)) return NST_OK;
    NST_TRY(nst_plan_write(ctx, ctx->arena, m->variant->plan, &parts, &n_parts));
    for (int k = 0; k < n_parts; k++) bytes += parts[k].size;
    if (bytes > PACKED_LIMIT)
        nst_cache_store(cache, NST_CACHE_PLAN, key->at, key->n, &unpacked, 1);
    else
        nst_cache_store(cache, NST_CACHE_PLAN, key->at, key->n, parts, n_parts);
    return NST_OK;
}

static NstStatus make_variant(NstCtx *ctx, void *arg)
{
    Making *m = arg;
    NstEngine *engine = m->session->model->engine;
    NstText key;
    nst_text_init(&key, ctx->arena);
    add_material(&key, m->session, m->exact);
    NstStatus status = load_plan(ctx, &key, m);
    if (status != NST_OK) NST_TRY(compile_plan(ctx, m));
    if (m->session->options.interpret) return NST_OK;
    NST_TRY(nst_exec_new(ctx, m->variant->plan, engine->pool, NULL, m->session->operators, &m->variant->exec));
    if (!m->variant->compiled) return NST_OK;
    return store_plan(ctx, &key, m);
}

static NstStatus new_variant(NstSession *session, bool exact, Variant **variant)
{
    Variant *made = nst_alloc_should_fail() ? NULL : calloc(1, sizeof *made);
    if (!made) return nst_report(NST_E_NOMEM, "no memory for a plan");
    NstStatus status = nst_ctx_init(&made->ctx);
    if (status != NST_OK) {
        free(made);
        return nst_report(status, "no memory for a plan");
    }
    Making making = {session, made, exact};
    status = nst_guard(&made->ctx, make_variant, &making);
    if (status != NST_OK) {
        nst_report(status, "%s", made->ctx.error);
        free_variant(session, made);
        return status;
    }
    *variant = made;
    return NST_OK;
}

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
    free_variant(session, session->variant);
    free_variant(session, atomic_load(&session->general));
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
        status = new_variant(made, options->n_shapes != 0, &made->variant);
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
    Variant *variant = session->variant;
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

void nst_session_facts(NstSession *session, NstSessionFacts *facts)
{
    if (!facts) return;
    *facts = (NstSessionFacts){0};
    if (!session) return;
    const NstPlan *plan = session->variant->plan;
    Variant *all[2] = {session->variant, atomic_load(&session->general)};
    facts->steps = plan->steps.n;
    facts->compile_ns = plan->compile_ns;
    add_facts(plan, facts);
    if (session->variant->exec) nst_exec_memory(session->variant->exec, &facts->run_states, &facts->arena_bytes);
    for (int k = 0; k < 2; k++) {
        if (!all[k]) continue;
        facts->compiled += all[k]->compiled;
        facts->from_cache += !all[k]->compiled;
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

/* The variant for these inputs; the general one is made when it is first needed. */
static NstStatus choose_variant(NstSession *session, const NstTensor *inputs, Variant **variant)
{
    *variant = session->variant;
    if (session->options.n_shapes == 0 || fits_declared(session, session->variant->plan, inputs)) return NST_OK;
    *variant = atomic_load_explicit(&session->general, memory_order_acquire);
    if (*variant) return NST_OK;
    NstStatus status = NST_OK;
    nst_lock_take(session->lock);
    *variant = atomic_load(&session->general);
    if (!*variant) {
        status = new_variant(session, false, variant);
        if (status == NST_OK) atomic_store_explicit(&session->general, *variant, memory_order_release);
    }
    nst_lock_drop(session->lock);
    return status;
}

struct NstProfile {
    const NstPlan *plan;
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

static NstStatus interpret(NstSession *session, const Variant *variant, const NstTensor *inputs, NstTensor *outputs,
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
    if (variant != session->variant) options.n_shapes = 0; /* the general one */
    NstCompileRequest request = nst_model_request(session->model, &options, error, sizeof error);
    request.operators = session->operators;
    NstTensor *made = nst_alloc_should_fail() ? NULL : calloc((size_t)n + 1, sizeof *made);
    if (!made) return nst_report(NST_E_NOMEM, "no memory for the outputs of a run");
    NstStatus status = table->interpret(&request, inputs, plan->inputs.n, made, n);
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

static NstStatus run_variant(NstSession *session, Variant *variant, const NstTensor *inputs, NstTensor *outputs,
                             const bool *wanted, const NstRunOptions *options)
{
    char error[NST_ERROR_TEXT];
    if (session->options.interpret)
        return interpret(session, variant, inputs, outputs, options ? options->cancel : NULL);
    NstProfile *profile = options ? options->profile : NULL;
    if (profile && profile->plan != variant->plan) profile = NULL; /* of the other variant */
    NstExecRun run = {.inputs = inputs,
                      .outputs = outputs,
                      .wanted = wanted,
                      .cancel = options ? options->cancel : NULL,
                      .step_ns = profile ? profile->ns : NULL,
                      .step_operations = profile ? profile->operations : NULL,
                      .error = error,
                      .error_bytes = sizeof error};
    NstStatus status = nst_exec_run(variant->exec, &run);
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
    Variant *variant;
    NST_TRY(order_inputs(plan, inputs, n_inputs, p->inputs, p->given));
    NST_TRY(order_outputs(plan, outputs, n_outputs, p->outputs, p->wanted, p->place));
    NST_TRY(choose_variant(session, p->inputs, &variant));
    NST_TRY(run_variant(session, variant, p->inputs, p->outputs, p->wanted, options));
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
    NstProfile *made = nst_alloc_should_fail() ? NULL : calloc(1, sizeof *made);
    if (made) made->ns = nst_alloc_should_fail() ? NULL : calloc(2 * ((size_t)plan->steps.n + 1), sizeof *made->ns);
    if (!made || !made->ns) {
        nst_profile_free(made);
        return nst_report(NST_E_NOMEM, "no memory for a profile");
    }
    made->operations = made->ns + plan->steps.n + 1;
    made->plan = plan;
    *profile = made;
    return NST_OK;
}

void nst_profile_free(NstProfile *profile)
{
    if (!profile) return;
    free(profile->ns);
    free(profile);
}

uint32_t nst_profile_step_count(const NstProfile *profile)
{
    return profile ? profile->plan->steps.n : 0;
}

uint64_t nst_profile_runs(const NstProfile *profile)
{
    return profile ? profile->runs : 0;
}

NstStatus nst_profile_step(const NstProfile *profile, uint32_t index, NstProfileStep *step)
{
    if (!profile || !step) return nst_report(NST_E_INVALID, "nst_profile_step: NULL is given");
    const NstPlan *plan = profile->plan;
    if (index >= plan->steps.n)
        return nst_report(NST_E_NOT_FOUND, "step %u is asked for, there are %u", index, plan->steps.n);
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
