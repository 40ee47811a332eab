/* test_custom.c: include/nestor/custom.h: registered operators from ONNX bytes to results. */
#define _GNU_SOURCE /* NOLINT: mkdtemp */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include "ir/custom.h"
#include "nestor/custom.h"
#include "nestor/inspect.h"
#include "nestor/session.h"
#include "runtime/compiler.h"
#include "tests/unit/support_onnx.h"
#include "tests/unit/support_folder.h"

extern const NstCompilerTable nst_compiler_table;

static NstCtx ctx;
static char folder[256];
static int calls; /* of compute */

static void begin(void)
{
    nst_compiler_set(&nst_compiler_table);
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    calls = 0;
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
    support_remove_folder(folder);
    folder[0] = '\0';
}

TestSuite(custom, .init = begin, .fini = end, .timeout = 100);

static NstEngine *new_engine(int threads)
{
    NstEngine *engine;
    NstEngineOptions options = {.threads = threads, .cache = folder};
    cr_assert_eq(nst_engine_new(&options, &engine), NST_OK, "%s", nst_error_text());
    return engine;
}

static void new_folder(void)
{
    support_new_folder(folder, sizeof folder, "custom");
}

/* --- operators ------------------------------------------------------------------------------------------------- */

static size_t count_of(const NstTensor *t)
{
    size_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= (size_t)t->shape[d];
    return n;
}

/* Scale(x, bias?) -> alpha * x + bias: as large as x. */
static NstStatus infer_scale(void *user, NstOperatorCall *call, const NstOperatorType *in, uint32_t n_in,
                             NstOperatorType *out, uint32_t n_out)
{
    (void)user, (void)n_in, (void)n_out;
    if (in[0].dtype != NST_F32) return nst_operator_fail(call, NST_E_TYPE, "x is %s", nst_dtype_name(in[0].dtype));
    out[0].dtype = NST_F32;
    out[0].rank = in[0].rank;
    for (int d = 0; d < in[0].rank; d++) out[0].shape[d] = in[0].shape[d] < 0 ? NST_SAME_SIZE(0, d) : in[0].shape[d];
    return NST_OK;
}

static NstStatus compute_scale(void *user, NstOperatorCall *call, const NstTensor *in, uint32_t n_in, NstTensor *out,
                               uint32_t n_out)
{
    const float *x = in[0].data, alpha = nst_operator_float(call, "alpha", 1.0f);
    float *y = out[0].data, bias = n_in > 1 && in[1].dtype != NST_DTYPE_NONE ? *(const float *)in[1].data : 0.0f;
    (void)n_out;
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    cr_assert_eq(out[0].bytes, in[0].bytes);
    if (user && in[0].bytes != 0 && x[0] == 13.0f)
        return nst_operator_fail(call, NST_E_ASSERT, "%s: thirteen at 0", (const char *)user);
    for (size_t k = 0; k < count_of(&in[0]); k++) y[k] = alpha * x[k] + bias;
    return NST_OK;
}

static const NstOperator scale = {.domain = "org.test",
                                  .name = "Scale",
                                  .version = 1,
                                  .min_inputs = 1,
                                  .max_inputs = 2,
                                  .min_outputs = 1,
                                  .max_outputs = 1,
                                  .infer = infer_scale,
                                  .compute = compute_scale,
                                  .user = (void *)(uintptr_t)"told"};

/* Positive(x) -> those above 0, and where they were: as many as there are. */
static NstStatus infer_positive(void *user, NstOperatorCall *call, const NstOperatorType *in, uint32_t n_in,
                                NstOperatorType *out, uint32_t n_out)
{
    (void)user, (void)call, (void)n_in;
    for (uint32_t k = 0; k < n_out; k++)
        out[k] = (NstOperatorType){.dtype = k ? NST_I64 : in[0].dtype, .rank = 1, .shape = {NST_COUNTED_SIZE}};
    return NST_OK;
}

static NstStatus compute_positive(void *user, NstOperatorCall *call, const NstTensor *in, uint32_t n_in, NstTensor *out,
                                  uint32_t n_out)
{
    const float *x = in[0].data;
    int64_t n = 0;
    (void)n_in;
    for (size_t k = 0; k < count_of(&in[0]); k++) n += x[k] > 0;
    if (user && n == 0) return NST_OK; /* forgets the outputs */
    if (user && n == 1) n = -1;
    for (uint32_t k = 0; k < n_out; k++) {
        NstStatus status = nst_operator_give(call, k, &n);
        if (status != NST_OK) return NST_OK; /* the engine must see it all the same */
    }
    float *y = out[0].data;
    int64_t *at = n_out > 1 ? out[1].data : NULL;
    for (size_t k = 0; k < count_of(&in[0]); k++) {
        if (!(x[k] > 0)) continue;
        *y++ = x[k];
        if (at) *at++ = (int64_t)k;
    }
    return NST_OK;
}

static const NstOperator positive = {.domain = "org.test",
                                     .name = "Positive",
                                     .version = 1,
                                     .min_inputs = 1,
                                     .max_inputs = 1,
                                     .min_outputs = 1,
                                     .max_outputs = 2,
                                     .infer = infer_positive,
                                     .compute = compute_positive};

/* --- models ---------------------------------------------------------------------------------------------------- */

static void attr_float(NstText *attributes, const char *name, float value)
{
    NstText a;
    nst_text_init(&a, attributes->arena);
    pb_text(&a, 1, name);
    pb_float(&a, 2, value);
    pb_int(&a, 20, 1);
    pb_message(attributes, 5, &a);
}

/* y = Neg(op(Abs(x))) over x[N, 3]; more: a second output of op. */
static NstText one_node(const char *op, const NstText *attributes, bool more)
{
    OnnxModel m = onnx_model(ctx.arena);
    m.domain = "org.test";
    onnx_input(&m, "x", 1, (int64_t[]){-1, 3, INT64_MIN});
    onnx_node(&m, "Neg", "first", "x", "a", NULL);
    onnx_node(&m, op, "mine", "a", more ? "b c" : "b", attributes);
    onnx_node(&m, "Abs", "last", "b", "y", NULL);
    onnx_output(&m, "y", 1, (int64_t[]){INT64_MIN});
    if (more) onnx_output(&m, "c", 7, (int64_t[]){-1, INT64_MIN});
    return onnx_bytes(&m);
}

static NstText scale_model(void)
{
    NstText attributes;
    nst_text_init(&attributes, ctx.arena);
    attr_float(&attributes, "alpha", 2.5f);
    return one_node("org.test:Scale", &attributes, false);
}

static NstStatus try_open(NstEngine *engine, const NstText *bytes, const NstSessionOptions *options, NstModel **model,
                          NstSession **session)
{
    *session = NULL;
    cr_assert_eq(nst_model_open_memory(engine, "test", nst_text_get(bytes), bytes->n, model), NST_OK);
    return nst_session_new(*model, options, session);
}

static NstNamedTensor rows(const float *x, int64_t n)
{
    return (NstNamedTensor){
        NULL, {.dtype = NST_F32, .rank = 2, .shape = {n, 3}, .data = (void *)(uintptr_t)x, .bytes = (size_t)n * 12}};
}

static void expect_scaled(NstSession *session, int64_t n, float factor)
{
    float *x = malloc((size_t)n * 12 + 12);
    for (int64_t k = 0; k < 3 * n; k++) x[k] = (float)(k % 17) - 6.0f;
    NstNamedTensor in = rows(x, n), out = {0};
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    cr_assert_eq(out.tensor.shape[0], n);
    const float *y = out.tensor.data;
    for (int64_t k = 0; k < 3 * n; k++) cr_assert_eq(y[k], x[k] < 0 ? -factor * x[k] : factor * x[k]);
    nst_tensor_release(&out.tensor);
    free(x);
}

static void expect_failure(const NstOperator *op, const NstText *bytes, NstStatus status, const char *text)
{
    NstEngine *engine = new_engine(1);
    NstModel *model;
    NstSession *session;
    if (op) cr_assert_eq(nst_engine_add_operator(engine, op), NST_OK, "%s", nst_error_text());
    cr_expect_eq(try_open(engine, bytes, NULL, &model, &session), status);
    cr_expect_not_null(strstr(nst_error_text(), text), "'%s' instead of '%s'", nst_error_text(), text);
    nst_session_free(session);
    nst_model_free(model);
    nst_engine_free(engine);
}

/* --- tests ----------------------------------------------------------------------------------------------------- */

Test(custom, a_registered_operator_gives_its_values_on_any_number_of_threads_and_interpreted)
{
    NstText bytes = scale_model();
    for (int threads = 1; threads <= 2; threads++)
        for (int interpret = 0; interpret < 2; interpret++) {
            NstEngine *engine = new_engine(threads);
            NstModel *model;
            NstSession *session;
            NstSessionOptions options = {.interpret = interpret};
            cr_assert_eq(nst_engine_add_operator(engine, &scale), NST_OK);
            cr_assert_eq(try_open(engine, &bytes, &options, &model, &session), NST_OK, "%s", nst_error_text());
            expect_scaled(session, 1, 2.5f);
            expect_scaled(session, 1000, 2.5f);
            expect_scaled(session, 0, 2.5f);
            nst_session_free(session);
            nst_model_free(model);
            nst_engine_free(engine);
        }
    cr_expect_eq(calls, 12);
}

Test(custom, counted_sizes_come_from_compute)
{
    NstText bytes = one_node("org.test:Positive", NULL, true);
    for (int interpret = 0; interpret < 2; interpret++) {
        NstEngine *engine = new_engine(2);
        NstModel *model;
        NstSession *session;
        NstSessionOptions options = {.interpret = interpret};
        cr_assert_eq(nst_engine_add_operator(engine, &positive), NST_OK);
        cr_assert_eq(try_open(engine, &bytes, &options, &model, &session), NST_OK, "%s", nst_error_text());
        static const float x[6] = {1, -2, 3, -4, 0, -5};
        NstNamedTensor in = rows(x, 2), out[2] = {{0}};
        cr_assert_eq(nst_session_run(session, &in, 1, out, 2, NULL), NST_OK, "%s", nst_error_text());
        cr_assert_eq(out[0].tensor.shape[0], 3);
        cr_assert_eq(out[1].tensor.shape[0], 3);
        cr_expect_arr_eq(out[0].tensor.data, ((float[]){2, 4, 5}), 12);
        cr_expect_arr_eq(out[1].tensor.data, ((int64_t[]){1, 3, 5}), 24);
        for (int k = 0; k < 2; k++) nst_tensor_release(&out[k].tensor);
        nst_session_free(session);
        nst_model_free(model);
        nst_engine_free(engine);
    }
}

Test(custom, counted_outputs_that_are_not_given_are_errors_with_the_node)
{
    NstOperator careless = positive;
    NstText bytes = one_node("org.test:Positive", NULL, true);
    careless.user = &calls;
    for (int interpret = 0; interpret < 2; interpret++) {
        NstEngine *engine = new_engine(1);
        NstModel *model;
        NstSession *session;
        NstSessionOptions options = {.interpret = interpret};
        cr_assert_eq(nst_engine_add_operator(engine, &careless), NST_OK);
        cr_assert_eq(try_open(engine, &bytes, &options, &model, &session), NST_OK, "%s", nst_error_text());
        static const float none[3] = {1, 2, 3}, one[3] = {-1, 2, 3}, all[3] = {-1, -2, -3};
        NstNamedTensor in = rows(none, 1), out[2] = {{0}};
        cr_expect_eq(nst_session_run(session, &in, 1, out, 2, NULL), NST_E_INVALID);
        cr_expect_not_null(strstr(nst_error_text(), "output 0 has a counted size"), "%s", nst_error_text());
        cr_expect_not_null(strstr(nst_error_text(), "mine (Positive)"), "%s", nst_error_text());
        in = rows(one, 1);
        cr_expect_eq(nst_session_run(session, &in, 1, out, 2, NULL), NST_E_SHAPE);
        cr_expect_not_null(strstr(nst_error_text(), "size -1 at axis 0, allowed: at least 0"), "%s", nst_error_text());
        in = rows(all, 1);
        cr_assert_eq(nst_session_run(session, &in, 1, out, 2, NULL), NST_OK, "%s", nst_error_text());
        for (int k = 0; k < 2; k++) nst_tensor_release(&out[k].tensor);
        nst_session_free(session);
        nst_model_free(model);
        nst_engine_free(engine);
    }
}

Test(custom, a_failure_of_compute_names_the_node_and_the_next_run_works)
{
    NstText bytes = scale_model();
    for (int interpret = 0; interpret < 2; interpret++) {
        NstEngine *engine = new_engine(2);
        NstModel *model;
        NstSession *session;
        NstSessionOptions options = {.interpret = interpret};
        cr_assert_eq(nst_engine_add_operator(engine, &scale), NST_OK);
        cr_assert_eq(try_open(engine, &bytes, &options, &model, &session), NST_OK, "%s", nst_error_text());
        static const float x[3] = {-13, 0, 0};
        NstNamedTensor in = rows(x, 1), out = {0};
        cr_expect_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_ASSERT);
        cr_expect_not_null(strstr(nst_error_text(), "Scale: told: thirteen at 0"), "%s", nst_error_text());
        cr_expect_not_null(strstr(nst_error_text(), "mine (Scale)"), "%s", nst_error_text());
        expect_scaled(session, 5, 2.5f);
        nst_session_free(session);
        nst_model_free(model);
        nst_engine_free(engine);
    }
}

static NstOperatorType wrong; /* what infer_wrong gives */
static NstStatus infer_wrong(void *user, NstOperatorCall *call, const NstOperatorType *in, uint32_t n_in,
                             NstOperatorType *out, uint32_t n_out)
{
    (void)user, (void)call, (void)in, (void)n_in, (void)n_out;
    out[0] = wrong;
    return NST_OK;
}

Test(custom, what_infer_gives_wrong_is_refused_with_the_node)
{
    NstOperator op = scale;
    NstText bytes = scale_model();
    op.infer = infer_wrong;
    wrong = (NstOperatorType){.dtype = NST_DTYPE_NONE, .rank = 1, .shape = {1}};
    expect_failure(&op, &bytes, NST_E_TYPE, "Scale 'mine': output 0: infer gives element type 0");
    wrong = (NstOperatorType){.dtype = NST_F32, .rank = 17};
    expect_failure(&op, &bytes, NST_E_SHAPE, "Scale 'mine': output 0: infer gives rank 17, allowed: 0 to 16");
    wrong = (NstOperatorType){.dtype = NST_F32, .rank = 1, .shape = {NST_SAME_SIZE(1, 0)}};
    expect_failure(&op, &bytes, NST_E_SHAPE, "the size of axis 0 of input 1, which there is not");
    wrong = (NstOperatorType){.dtype = NST_F32, .rank = 1, .shape = {NST_SAME_SIZE(0, 2)}};
    expect_failure(&op, &bytes, NST_E_SHAPE, "the size of axis 2 of input 0, which there is not");
    wrong = (NstOperatorType){.dtype = NST_F32, .rank = 1, .shape = {INT64_MAX}};
    expect_failure(&op, &bytes, NST_E_LIMIT, "the size 9223372036854775807");
}

static NstStatus infer_asks_integer(void *user, NstOperatorCall *call, const NstOperatorType *in, uint32_t n_in,
                                    NstOperatorType *out, uint32_t n_out)
{
    cr_expect_eq(nst_operator_int(call, "alpha", 7), 7);
    cr_expect_eq(nst_operator_int(call, "beta", 8), 8);
    cr_expect_eq(nst_operator_give(call, 0, &(int64_t){1}), NST_E_INVALID);
    (void)nst_operator_int(call, "alpha", 7);
    return infer_scale(user, call, in, n_in, out, n_out);
}

Test(custom, nodes_that_do_not_fit_the_operator_are_refused)
{
    NstOperator op = scale;
    NstText bytes = scale_model();
    op.infer = infer_asks_integer;
    expect_failure(&op, &bytes, NST_E_TYPE, "Scale 'mine': attribute 'alpha' is no integer");
    op = scale;
    op.min_inputs = 2;
    expect_failure(&op, &bytes, NST_E_MODEL, "Scale 'mine': 1 inputs, the registered operator has 2 to 2");
    op = scale;
    op.version = 2;
    expect_failure(&op, &bytes, NST_E_UNSUPPORTED, "registered in version 2, the model imports opset 1 of 'org.test'");
    expect_failure(NULL, &bytes, NST_E_UNSUPPORTED,
                   "Scale 'mine': operator 'Scale' of domain 'org.test' is not supported, and not registered");
    expect_failure(&positive, &bytes, NST_E_UNSUPPORTED, "and not registered");
    NstText attributes, tensor;
    nst_text_init(&attributes, ctx.arena);
    nst_text_init(&tensor, ctx.arena);
    pb_text(&tensor, 1, "t");
    pb_int(&tensor, 20, 4);
    pb_message(&attributes, 5, &tensor);
    bytes = one_node("org.test:Scale", &attributes, false);
    expect_failure(&scale, &bytes, NST_E_UNSUPPORTED, "attribute 't' has type 4");
}

/* A plan from the disk is bound to the functions of this process; without them the session says which it lacks. */
Test(custom, plans_of_the_disk_cache_are_bound_by_name)
{
    NstText bytes = scale_model();
    NstModel *model;
    NstSession *session;
    new_folder();
    for (int warm = 0; warm < 2; warm++) {
        NstEngine *engine = new_engine(2);
        NstSessionOptions options = {.fail_on_compile = warm};
        NstSessionFacts facts;
        if (warm) cr_assert_eq(nst_engine_add_operator(engine, &positive), NST_OK); /* which the model does not name */
        cr_assert_eq(nst_engine_add_operator(engine, &scale), NST_OK);
        cr_assert_eq(try_open(engine, &bytes, &options, &model, &session), NST_OK, "%s", nst_error_text());
        nst_session_facts(session, &facts);
        cr_expect_eq(facts.from_cache, (uint32_t)warm);
        calls = 0;
        expect_scaled(session, 4, 2.5f);
        cr_expect_eq(calls, 1);
        nst_session_free(session);
        nst_model_free(model);
        nst_engine_free(engine);
    }
    expect_failure(NULL, &bytes, NST_E_UNSUPPORTED, "and not registered");
    NstOperator old = scale; /* another version in use is another plan */
    NstEngine *engine = new_engine(1);
    NstSessionOptions options = {.fail_on_compile = 1};
    old.version = 2;
    cr_assert_eq(nst_engine_add_operator(engine, &old), NST_OK);
    cr_expect_eq(try_open(engine, &bytes, &options, &model, &session), NST_E_NOT_FOUND);
    nst_model_free(model);
    nst_engine_free(engine);
}

/* The message of a session that may not compile says which operator it lacks. */
Test(custom, fail_on_compile_names_node_operator_and_domain_that_are_not_registered)
{
    static const char *const told[] = {"fail_on_compile", "node 'mine'", "operator 'Scale'", "domain 'org.test'"};
    NstText bytes = scale_model();
    NstModel *model;
    NstSession *session;
    NstSessionOptions options = {.fail_on_compile = 1};
    new_folder();
    for (int registered = 0; registered < 2; registered++) {
        NstEngine *engine = new_engine(1);
        cr_assert_eq(nst_engine_add_operator(engine, registered ? &scale : &positive), NST_OK);
        cr_expect_eq(try_open(engine, &bytes, &options, &model, &session), NST_E_NOT_FOUND);
        for (size_t k = 0; k < sizeof told / sizeof *told; k++)
            cr_expect_eq(strstr(nst_error_text(), told[k]) != NULL, k == 0 || !registered, "%s", nst_error_text());
        nst_model_free(model);
        nst_engine_free(engine);
    }
}

static NstOperatorState state_of(NstEngine *engine, const NstText *bytes, const char *name)
{
    NstModel *model;
    const NstModelInfo *info;
    NstOperatorState state = NST_OPERATOR_NOT_YET;
    cr_assert_eq(nst_model_open_memory(engine, "test", bytes->at, bytes->n, &model), NST_OK);
    cr_assert_eq(nst_model_info(model, &info), NST_OK, "%s", nst_error_text());
    for (uint32_t k = 0; k < info->n_operators; k++)
        if (strcmp(info->operators[k].name, name) == 0) state = info->operators[k].state;
    nst_model_info_free(info);
    nst_model_free(model);
    return state;
}

Test(custom, inspection_calls_a_registered_operator_custom)
{
    NstText bytes = scale_model();
    NstEngine *engine = new_engine(1);
    NstOperator op = scale;
    cr_expect_eq(state_of(engine, &bytes, "Scale"), NST_OPERATOR_UNKNOWN);
    op.version = 2; /* the model imports version 1 of the domain */
    cr_assert_eq(nst_engine_add_operator(engine, &op), NST_OK);
    cr_expect_eq(state_of(engine, &bytes, "Scale"), NST_OPERATOR_UNKNOWN);
    cr_assert_eq(nst_engine_add_operator(engine, &scale), NST_OK);
    cr_expect_eq(state_of(engine, &bytes, "Scale"), NST_OPERATOR_CUSTOM);
    cr_expect_eq(state_of(engine, &bytes, "Abs"), NST_OPERATOR_RUNS);
    cr_expect_str_eq(nst_operator_state_name(NST_OPERATOR_CUSTOM), "custom");
    nst_engine_free(engine);
}

/* A graph in text form names its operator itself: bound, or refused, when its plan is made ready. */
Test(custom, a_plan_whose_operator_is_not_registered_names_it)
{
    NstText bytes;
    NstModel *model;
    NstSession *session;
    nst_text_init(&bytes, ctx.arena);
    nst_text_add(&bytes,
                 "graph g(x: f32[n, 3]) {\n  %%y = host \"org.test Scale 1\" \"in 1 1 out 1 2 -2 3 attr 0\" %%x "
                 ": f32[n, 3]\n  return y = %%y\n}\n");
    expect_failure(NULL, &bytes, NST_E_UNSUPPORTED,
                   "operator 'org.test Scale 1' (domain, name, version) is not registered");
    NstEngine *engine = new_engine(1);
    cr_assert_eq(nst_engine_add_operator(engine, &scale), NST_OK);
    cr_assert_eq(try_open(engine, &bytes, NULL, &model, &session), NST_OK, "%s", nst_error_text());
    static const float x[3] = {1, 2, 3};
    NstNamedTensor in = rows(x, 1), out = {0};
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    cr_expect_arr_eq(out.tensor.data, x, sizeof x);
    nst_tensor_release(&out.tensor);
    nst_session_free(session);
    nst_model_free(model);
    nst_engine_free(engine);
}

typedef struct Worker {
    NstSession *session;
    pthread_t thread;
} Worker;

static void *run_often(void *arg)
{
    for (int k = 0; k < 50; k++) expect_scaled(((Worker *)arg)->session, 1 + k % 7, 2.5f);
    return NULL;
}

Test(custom, two_sessions_and_two_threads_of_each_run_at_once)
{
    NstText bytes = scale_model();
    NstEngine *engine = new_engine(2);
    NstModel *model[2];
    NstSession *session[2];
    Worker worker[4];
    cr_assert_eq(nst_engine_add_operator(engine, &scale), NST_OK);
    for (int k = 0; k < 2; k++) cr_assert_eq(try_open(engine, &bytes, NULL, &model[k], &session[k]), NST_OK);
    for (int k = 0; k < 4; k++) {
        worker[k].session = session[k % 2];
        cr_assert_eq(pthread_create(&worker[k].thread, NULL, run_often, &worker[k]), 0);
    }
    for (int k = 0; k < 4; k++) cr_assert_eq(pthread_join(worker[k].thread, NULL), 0);
    cr_expect_eq(calls, 200);
    for (int k = 0; k < 2; k++) {
        nst_session_free(session[k]);
        nst_model_free(model[k]);
    }
    nst_engine_free(engine);
}

Test(custom, the_newest_version_that_the_model_allows_is_taken)
{
    NstOperator newer = scale;
    OnnxModel m = onnx_model(ctx.arena);
    NstEngine *engine = new_engine(1);
    NstModel *model;
    NstSession *session;
    m.domain = "org.test";
    m.domain_version = 3;
    onnx_input(&m, "x", 1, (int64_t[]){-1, 3, INT64_MIN});
    onnx_floats(&m, "bias", (int64_t[]){INT64_MIN}, (float[]){0}, 1);
    onnx_node(&m, "org.test:Scale", "mine", "x bias", "y", NULL);
    onnx_output(&m, "y", 1, (int64_t[]){-1, 3, INT64_MIN});
    NstText bytes = onnx_bytes(&m);
    newer.version = 4;
    newer.infer = infer_wrong; /* would fail */
    wrong = (NstOperatorType){0};
    cr_assert_eq(nst_engine_add_operator(engine, &newer), NST_OK);
    newer = scale;
    newer.version = 3;
    newer.user = NULL;
    cr_assert_eq(nst_engine_add_operator(engine, &newer), NST_OK);
    cr_assert_eq(nst_engine_add_operator(engine, &scale), NST_OK);
    cr_assert_eq(try_open(engine, &bytes, NULL, &model, &session), NST_OK, "%s", nst_error_text());
    static const float x[3] = {13, 1, 2};
    NstNamedTensor in = rows(x, 1), out = {0};
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text()); /* not version 1 */
    cr_expect_arr_eq(out.tensor.data, x, sizeof x);
    nst_tensor_release(&out.tensor);
    nst_session_free(session);
    nst_model_free(model);
    nst_engine_free(engine);
}

Test(custom, registrations_that_are_not_allowed_are_refused)
{
    NstEngine *engine = new_engine(1);
    NstOperator op = scale;
    cr_expect_eq(nst_engine_add_operator(engine, NULL), NST_E_INVALID);
    cr_assert_eq(nst_engine_add_operator(engine, &op), NST_OK);
    cr_expect_eq(nst_engine_add_operator(engine, &op), NST_E_INVALID);
    cr_expect_not_null(strstr(nst_error_text(), "is registered in version 1 already"), "%s", nst_error_text());
    op.domain = "";
    cr_expect_eq(nst_engine_add_operator(engine, &op), NST_E_INVALID);
    op.domain = "a b";
    cr_expect_eq(nst_engine_add_operator(engine, &op), NST_E_INVALID);
    op = scale;
    op.version = 0;
    cr_expect_eq(nst_engine_add_operator(engine, &op), NST_E_INVALID);
    op = scale;
    op.name = "Other";
    op.max_outputs = 0;
    cr_expect_eq(nst_engine_add_operator(engine, &op), NST_E_INVALID);
    op = scale;
    op.name = "Other";
    op.compute = NULL;
    cr_expect_eq(nst_engine_add_operator(engine, &op), NST_E_INVALID);
    nst_engine_free(engine);
}

/* What a plan on disk keeps of a node: read back the same; no other text is taken, whatever it claims. */
Test(custom, nodes_as_text_read_back_the_same_and_nothing_else_does)
{
    static const char *const texts[] = {"a b", "", "7:x"};
    NstCustomAttr attr[4] = {{"one", NST_CUSTOM_INT, 1, (int64_t[]){INT64_MIN}, NULL, NULL},
                             {"f l", NST_CUSTOM_FLOATS, 2, NULL, (float[]){-0.0f, 1e-40f}, NULL},
                             {"words", NST_CUSTOM_TEXTS, 3, NULL, NULL, texts},
                             {"none", NST_CUSTOM_INTS, 0, NULL, NULL, NULL}};
    NstOperatorType out = {NST_F32, 3, {NST_SAME_SIZE(2, 15), NST_COUNTED_SIZE, 9}};
    NstCustomNode node = {3, 1, 4, (bool[]){true, false, true}, &out, attr}, again;
    const char *text = nst_custom_node_text(ctx.arena, &node);
    cr_assert(nst_custom_node_read(ctx.arena, text, &again), "%s", text);
    cr_expect_str_eq(nst_custom_node_text(ctx.arena, &again), text);
    cr_expect_str_eq(again.attr[2].texts[0], "a b");
    cr_expect_arr_eq(again.attr[1].floats, attr[1].floats, 8);
    for (size_t n = 0; n < strlen(text); n++) {
        const char *part = nst_copy_text(ctx.arena, text, n);
        cr_expect(!nst_custom_node_read(ctx.arena, part, &again), "%zu characters", n);
    }
    static const char *const bad[] = {"in 9999999 1 out 0 attr 0",     "in 1 2 out 0 attr 0",
                                      "in 0 out 1 17 attr 0",          "in 1 0 out 1 1 -2 attr 0",
                                      "in 1 1 out 1 1 -18 attr 0",     "in 0 out 0 attr 0 ",
                                      "in 0 out 0 attr 1 1:a 120 1 1", "in 0 out 0 attr 1 1:a 105 2 1 1"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        cr_expect(!nst_custom_node_read(ctx.arena, bad[k], &again), "%s", bad[k]);
}
