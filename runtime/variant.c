/* variant.c: plans of a session, from the cache or the compiler. */
#include "runtime/variant.h"

#include <stdlib.h>
#include <time.h>
#include "runtime/plan_io.h"

/* --- key ----------------------------------------------------------------------------------------------------- */

/* All a plan depends on, as text. */
static void add_material(NstText *text, const NstSession *session, const NstInputShape *shapes, uint32_t n_shapes)
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
    for (uint32_t k = 0; k < n_shapes; k++) {
        const NstInputShape *shape = &shapes[k];
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

void nst_variant_free(const NstSession *session, NstVariant *variant)
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
    NstVariant *variant;
    const NstInputShape *shapes;
    uint32_t n_shapes;
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
    options.shapes = m->shapes;
    options.n_shapes = m->n_shapes;
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
    if (m->variant->plan->by_shape)
        nst_engine_log(session->model->engine, NST_LOG_INFO, "'%s' is compiled for the shapes of each run: %s",
                       session->model->name, m->variant->plan->by_shape);
    else
        nst_engine_log(session->model->engine, NST_LOG_INFO, "compiled '%s' in %.1f ms: %u kernels",
                       session->model->name, (double)m->variant->plan->compile_ns / 1e6, m->variant->plan->kernels.n);
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
    NstTrust trust = nst_cache_trust(cache);
    if (trust != NST_TRUSTED)
        nst_engine_log(m->session->model->engine, NST_LOG_WARNING, "the disk cache '%s' is not used: %s",
                       m->session->model->engine->folder, nst_trust_text(trust));
    return NST_OK;
}

static NstStatus make_variant(NstCtx *ctx, void *arg)
{
    Making *m = arg;
    NstSession *session = m->session;
    NstEngine *engine = session->model->engine;
    NstText key;
    nst_text_init(&key, ctx->arena);
    add_material(&key, session, m->shapes, m->n_shapes);
    NstStatus status = load_plan(ctx, &key, m);
    if (status != NST_OK) NST_TRY(compile_plan(ctx, m));
    const NstPlan *plan = m->variant->plan;
    if (!plan->by_shape) atomic_fetch_add(m->variant->compiled ? &session->n_compiled : &session->n_from_cache, 1);
    if (!session->options.interpret || plan->by_shape)
        NST_TRY(nst_exec_new(ctx, m->variant->plan, engine->pool, NULL, session->operators, &m->variant->exec));
    if (session->options.interpret || !m->variant->compiled) return NST_OK;
    return store_plan(ctx, &key, m);
}

NstStatus nst_variant_new(NstSession *session, const NstInputShape *shapes, uint32_t n_shapes, NstVariant **variant)
{
    NstVariant *made = nst_alloc_should_fail() ? NULL : calloc(1, sizeof *made);
    if (!made) return nst_report(NST_E_NOMEM, "no memory for a plan");
    NstStatus status = nst_ctx_init(&made->ctx);
    if (status != NST_OK) {
        free(made);
        return nst_report(status, "no memory for a plan");
    }
    Making making = {session, made, shapes, n_shapes};
    status = nst_guard(&made->ctx, make_variant, &making);
    if (status != NST_OK) {
        nst_report(status, "%s", made->ctx.error);
        nst_variant_free(session, made);
        return status;
    }
    *variant = made;
    return NST_OK;
}
