/* test_misuse.c: calls of the public interface that are wrong, or right in an unusual order: each gives a status and no fault
 * (this test is of use under the sanitizers above all). */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "ir/base/os.h"
#include "nestor/inspect.h"
#include "nestor/session.h"
#include "runtime/compiler.h"
#include "tests/unit/support_onnx.h"
#include "tests/unit/support_folder.h"

extern const NstCompilerTable nst_compiler_table;

static NstEngine *engine;
static NstModel *model;
static char folder[256];

static const char scale[] = "graph scale(x: f32[n, 4]) {\n"
                            "  %y = map \"a * 2 + 1\" %x\n"
                            "  return y = %y\n"
                            "}\n";
static const char product[] = "graph mm(a: f32[m, k], b: f32[k, n]) {\n"
                              "  %c = contract \"mk,kn->mn\" %a, %b\n"
                              "  return c = %c\n"
                              "}\n";

static void begin(void)
{
    nst_compiler_set(&nst_compiler_table);
    cr_assert_eq(nst_engine_new(&(NstEngineOptions){.threads = 2, .cache = ""}, &engine), NST_OK);
    cr_assert_eq(nst_model_open_memory(engine, "scale", scale, strlen(scale), &model), NST_OK);
}

static void end(void)
{
    nst_model_free(model);
    nst_engine_free(engine);
    support_remove_folder(folder);
}

TestSuite(misuse, .init = begin, .fini = end, .timeout = 110);

#define refused(call, wanted, text)                                                                                    \
    do {                                                                                                               \
        NstStatus given_ = (call);                                                                                     \
        cr_expect_eq(given_, wanted, "%s: %s, %s", #call, nst_status_name(given_), nst_error_text());                  \
        cr_expect(strstr(nst_error_text(), text), "%s: '%s' has no '%s'", #call, nst_error_text(), text);              \
    } while (0)

static NstSession *make_session(const NstSessionOptions *options)
{
    NstSession *session;
    cr_assert_eq(nst_session_new(model, options, &session), NST_OK, "%s", nst_error_text());
    return session;
}

static NstNamedTensor rows(float *data, int64_t n)
{
    return (NstNamedTensor){"x", {.dtype = NST_F32, .rank = 2, .shape = {n, 4}, .data = data, .bytes = (size_t)n * 16}};
}

/* --- NULL ------------------------------------------------------------------------------------------------------------- */

Test(misuse, null_where_something_is_made)
{
    NstModel *other;
    NstSession *session;
    NstProfile *profile;
    const NstModelInfo *info;
    NstTensor tensor;
    uint32_t n;
    char *text;
    NstCacheFolderReport report;
    refused(nst_engine_new(NULL, NULL), NST_E_INVALID, "no place");
    refused(nst_model_open_file(NULL, "x", &other), NST_E_INVALID, "NULL");
    refused(nst_model_open_file(engine, NULL, &other), NST_E_INVALID, "NULL");
    refused(nst_model_open_memory(engine, NULL, "", 0, &other), NST_E_INVALID, "NULL");
    refused(nst_model_open_memory(engine, "x", NULL, 1, &other), NST_E_INVALID, "NULL");
    refused(nst_model_open_memory(engine, "x", "", 0, NULL), NST_E_INVALID, "NULL");
    refused(nst_session_new(NULL, NULL, &session), NST_E_INVALID, "NULL");
    refused(nst_session_new(model, NULL, NULL), NST_E_INVALID, "NULL");
    refused(nst_session_run(NULL, NULL, 0, NULL, 0, NULL), NST_E_INVALID, "NULL");
    refused(nst_profile_new(NULL, &profile), NST_E_INVALID, "NULL");
    refused(nst_model_info(NULL, &info), NST_E_INVALID, "NULL");
    refused(nst_model_info(model, NULL), NST_E_INVALID, "NULL");
    refused(nst_model_dump(NULL, NULL, NST_DUMP_GRAPH, NULL, &text), NST_E_INVALID, "NULL");
    refused(nst_text_optimise(engine, "x.nsg", NULL, "", &text), NST_E_INVALID, "NULL");
    refused(nst_operator_table(NULL, &text), NST_E_INVALID, "NULL");
    refused(nst_tensor_read_onnx(engine, "t", NULL, 3, &tensor), NST_E_INVALID, "NULL");
    refused(nst_values_read_onnx(engine, "t", "", "", 0, NULL, 1, &n), NST_E_INVALID, "NULL");
    refused(nst_engine_cache_report(NULL, 0, 0, &report), NST_E_INVALID, "NULL");
}

Test(misuse, null_where_something_is_asked)
{
    NstSession *session = make_session(NULL);
    NstPort port;
    NstProfileStep step;
    NstSessionFacts facts;
    NstCacheCounts counts;
    NstProfile *profile;
    refused(nst_session_input(NULL, 0, &port), NST_E_INVALID, "NULL");
    refused(nst_session_output(session, 0, NULL), NST_E_INVALID, "NULL");
    refused(nst_session_run(session, NULL, 1, NULL, 0, NULL), NST_E_INVALID, "NULL");
    refused(nst_session_run(session, NULL, 0, NULL, 1, NULL), NST_E_INVALID, "NULL");
    refused(nst_profile_step(NULL, 0, &step), NST_E_INVALID, "NULL");
    cr_assert_eq(nst_profile_new(session, &profile), NST_OK);
    refused(nst_profile_step(profile, 0, NULL), NST_E_INVALID, "NULL");
    refused(nst_profile_step(profile, 1000, &step), NST_E_NOT_FOUND, "step 1000");
    cr_expect_eq(nst_session_input_count(NULL) + nst_session_output_count(NULL) + nst_profile_step_count(NULL), 0);
    cr_expect_eq(nst_profile_runs(NULL), 0);
    cr_expect_eq(nst_dtype_of_name(NULL), NST_DTYPE_NONE);
    nst_session_facts(NULL, &facts);
    cr_expect_eq(facts.kernels, 0);
    nst_session_facts(session, NULL);
    nst_engine_cache_counts(NULL, &counts);
    nst_engine_cache_counts(engine, NULL);
    cr_expect_null(nst_engine_cache_reason(NULL, 0, NULL));
    cr_expect_null(nst_engine_cache_reason(engine, 99, NULL));
    nst_cancel(NULL);
    nst_tensor_release(NULL);
    nst_profile_free(NULL);
    nst_session_free(NULL);
    nst_model_free(NULL);
    nst_engine_free(NULL);
    nst_model_info_free(NULL);
    nst_text_free(NULL);
    nst_profile_free(profile);
    nst_session_free(session);
}

/* --- options ---------------------------------------------------------------------------------------------------------- */

static void refuse_options(NstSessionOptions options, const char *text)
{
    NstSession *session;
    char *dump;
    refused(nst_session_new(model, &options, &session), NST_E_INVALID, text);
    cr_expect_null(session);
    refused(nst_model_dump(model, &options, NST_DUMP_PLAN, NULL, &dump), NST_E_INVALID, text);
}

Test(misuse, options_that_contradict_themselves)
{
    float x[4] = {0};
    NstInputShape shape[2] = {{"x", 2, {1, 4}}, {"x", 2, {2, 4}}};
    NstNamedTensor value = rows(x, 1);
    const char *none = NULL;
    refuse_options((NstSessionOptions){.n_shapes = 1}, "NULL");
    refuse_options((NstSessionOptions){.n_values = 1}, "NULL");
    refuse_options((NstSessionOptions){.n_overridable = 1}, "NULL");
    refuse_options((NstSessionOptions){.overridable = &none, .n_overridable = 1}, "no name");
    refuse_options((NstSessionOptions){.shapes = shape, .n_shapes = 2}, "'x' is declared twice");
    shape[0].rank = NST_TENSOR_MAX_RANK + 1;
    refuse_options((NstSessionOptions){.shapes = shape, .n_shapes = 1}, "rank 17");
    shape[0].name = NULL;
    refuse_options((NstSessionOptions){.shapes = shape, .n_shapes = 1}, "no name");
    value.tensor.bytes = 15;
    refuse_options((NstSessionOptions){.values = &value, .n_values = 1}, "15 bytes");
    value.tensor.bytes = 16;
    value.tensor.data = NULL;
    refuse_options((NstSessionOptions){.values = &value, .n_values = 1}, "0 bytes");
    value.tensor.dtype = (NstDtype)999;
    refuse_options((NstSessionOptions){.values = &value, .n_values = 1}, "element type 999");
}

/* --- inputs and outputs ----------------------------------------------------------------------------------------------- */

/* Compiled and interpreted refuse the same. */
static void refuse_input(NstTensor tensor, NstStatus status)
{
    for (int interpret = 0; interpret < 2; interpret++) {
        NstSession *session = make_session(&(NstSessionOptions){.interpret = interpret});
        NstNamedTensor in = {"x", tensor}, out = {.name = "y"};
        refused(nst_session_run(session, &in, 1, &out, 1, NULL), status, "'x'");
        cr_expect_null(out.tensor.owned);
        nst_session_free(session);
    }
}

Test(misuse, inputs_that_do_not_fit)
{
    float x[16] = {0};
    int64_t back[2] = {-4, 1}, far[2] = {INT64_MAX / 2, 1}, still[2] = {0, 0};
    NstTensor good = rows(x, 2).tensor, bad = good;
    bad.dtype = NST_I32;
    refuse_input(bad, NST_E_TYPE);
    bad.dtype = (NstDtype)999;
    refuse_input(bad, NST_E_TYPE);
    bad.dtype = NST_DTYPE_NONE;
    refuse_input(bad, NST_E_TYPE);
    bad = good;
    bad.rank = 1;
    refuse_input(bad, NST_E_SHAPE);
    bad.rank = -1;
    refuse_input(bad, NST_E_SHAPE);
    bad.rank = 1000;
    refuse_input(bad, NST_E_SHAPE);
    bad = good;
    bad.shape[0] = -2;
    refuse_input(bad, NST_E_SHAPE);
    bad = good;
    bad.shape[1] = 5;
    bad.bytes = sizeof x;
    refuse_input(bad, NST_E_SHAPE);
    bad = good;
    bad.bytes = 31;
    refuse_input(bad, NST_E_INVALID);
    bad = good;
    bad.data = NULL;
    refuse_input(bad, NST_E_INVALID);
    bad = good;
    bad.strides = back;
    refuse_input(bad, NST_E_INVALID);
    bad.strides = far;
    refuse_input(bad, NST_E_INVALID);
    bad.strides = still; /* one element that stands for more than there can be */
    bad.shape[0] = INT64_MAX / 4 - 1;
    for (int interpret = 0; interpret < 2; interpret++) {
        NstSession *session = make_session(&(NstSessionOptions){.interpret = interpret});
        NstNamedTensor in = {"x", bad}, out = {.name = "y"};
        cr_expect_neq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK);
        cr_expect_null(out.tensor.owned);
        nst_session_free(session);
    }
}

Test(misuse, any_alignment_and_strides_of_zero_are_allowed)
{
    char raw[65], result[65];
    float wanted[8];
    int64_t still[2] = {0, 1};
    for (int shift = 0; shift < 4; shift++)
        for (int mode = 0; mode < 4; mode++) {
            NstSession *session = make_session(&(NstSessionOptions){.interpret = mode & 1});
            for (int k = 0; k < 8; k++) {
                float value = (float)k;
                memcpy(raw + shift + 4 * k, &value, 4);
                wanted[k] = 2 * (float)(mode & 2 ? k % 4 : k) + 1;
            }
            NstNamedTensor in = rows(NULL, 2), out = {"y", {.data = result + shift, .bytes = 32}};
            in.tensor.data = raw + shift;
            if (mode & 2) in.tensor.strides = still;
            cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
            cr_expect_arr_eq(result + shift, wanted, 32);
            nst_session_free(session);
        }
}

Test(misuse, room_that_is_too_small_is_not_replaced)
{
    float x[8] = {0}, y[8];
    for (int interpret = 0; interpret < 2; interpret++) {
        NstSession *session = make_session(&(NstSessionOptions){.interpret = interpret});
        NstNamedTensor in = rows(x, 2), out = {"y", {.data = y, .bytes = 31}};
        refused(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_INVALID,
                "output 'y' is given 31 bytes, it has 32");
        cr_expect_eq(out.tensor.data, y);
        cr_expect_null(out.tensor.owned);
        nst_session_free(session);
    }
}

Test(misuse, shapes_other_than_declared_run_interpreted_too)
{
    float x[12] = {0}, y[12];
    NstInputShape shape = {"x", 2, {2, 4}};
    for (int interpret = 0; interpret < 2; interpret++) {
        NstSession *session =
            make_session(&(NstSessionOptions){.interpret = interpret, .shapes = &shape, .n_shapes = 1});
        NstNamedTensor in = rows(x, 3), out = {"y", {.data = y, .bytes = sizeof y}};
        cr_expect_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
        cr_expect_eq(out.tensor.shape[0], 3);
        nst_session_free(session);
    }
}

/* --- bytes that are no model ------------------------------------------------------------------------------------------ */

Test(misuse, bytes_that_are_no_model_are_no_session_no_dump_and_no_facts)
{
    static const char *const bytes[] = {"", "This is a text file.\n", "\x08",
                                        "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 12345\n"};
    for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++) {
        NstModel *bad;
        NstSession *session;
        const NstModelInfo *info;
        char *text;
        const char *said = k == 0 ? "empty" : k == 3 ? "git lfs pull" : "model: ";
        cr_assert_eq(nst_model_open_memory(engine, "bad.onnx", bytes[k], strlen(bytes[k]), &bad), NST_OK);
        refused(nst_session_new(bad, NULL, &session), NST_E_PARSE, said);
        cr_expect_null(session);
        refused(nst_model_dump(bad, NULL, NST_DUMP_PLAN, NULL, &text), NST_E_PARSE, said);
        cr_expect_null(text);
        refused(nst_model_info(bad, &info), NST_E_PARSE, said);
        cr_expect_null(info);
        nst_model_free(bad);
    }
}

static const char *logged(void)
{
    static char text[512];
    return text;
}

static void keep_log(void *arg, NstLogLevel level, const char *text)
{
    if (level == NST_LOG_WARNING) snprintf(arg, 512, "%s", text);
}

Test(misuse, a_wrong_declared_output_is_logged)
{
    static const int64_t two[] = {2, INT64_MIN}, three[] = {3, INT64_MIN};
    NstCtx ctx;
    NstEngine *own;
    NstModel *wrong;
    NstSession *session;
    union {
        const char *from;
        void *to;
    } log = {logged()};
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    OnnxModel m = onnx_model(ctx.arena);
    onnx_input(&m, "x", 1, two);
    onnx_output(&m, "y", 1, three);
    onnx_node(&m, "Relu", "n1", "x", "y", NULL);
    NstText bytes = onnx_bytes(&m);
    NstEngineOptions options = {.threads = 1, .cache = "", .log = keep_log, .log_arg = log.to};
    cr_assert_eq(nst_engine_new(&options, &own), NST_OK);
    cr_assert_eq(nst_model_open_memory(own, "wrong", nst_text_get(&bytes), bytes.n, &wrong), NST_OK);
    cr_assert_eq(nst_session_new(wrong, NULL, &session), NST_OK, "%s", nst_error_text());
    cr_expect_str_eq(logged(), "'wrong': output 'y': declared with extent 3 at axis 0, its nodes give 2");
    NstPort port;
    cr_assert_eq(nst_session_output(session, 0, &port), NST_OK);
    cr_expect_eq(port.shape[0], 2);
    nst_session_free(session);
    nst_model_free(wrong);
    nst_engine_free(own);
    nst_ctx_dispose(&ctx);
}

/* A shape that makes a tensor too large is the caller's fault, not the compiler's. */
Test(misuse, a_shape_past_the_budget_is_a_limit)
{
    NstInputShape shape = {"image", 4, {INT64_C(5000000000), 1, 28, 28}};
    NstModel *digits;
    NstSession *session;
    cr_assert_eq(nst_model_open_file(engine, "models/digits.onnx", &digits), NST_OK, "%s", nst_error_text());
    refused(nst_session_new(digits, &(NstSessionOptions){.shapes = &shape, .n_shapes = 1}, &session), NST_E_LIMIT,
            "at most 68719476736 bytes");
    nst_model_free(digits);
}

/* --- order of ends ---------------------------------------------------------------------------------------------------- */

Test(misuse, ends_in_any_order)
{
    static const char *const orders[] = {"ems", "esm", "mes", "mse", "sem", "sme"};
    for (int k = 0; k < 6; k++) {
        NstEngine *e;
        NstModel *m;
        NstSession *s;
        float x[4] = {1, 2, 3, 4}, y[4];
        cr_assert_eq(nst_engine_new(&(NstEngineOptions){.threads = 2, .cache = ""}, &e), NST_OK);
        cr_assert_eq(nst_model_open_memory(e, "scale", scale, strlen(scale), &m), NST_OK);
        cr_assert_eq(nst_session_new(m, NULL, &s), NST_OK);
        for (const char *which = orders[k]; *which; which++) {
            if (*which == 'e') nst_engine_free(e);
            if (*which == 'm') nst_model_free(m);
            if (*which == 's') {
                NstNamedTensor in = rows(x, 1), out = {"y", {.data = y, .bytes = sizeof y}};
                cr_expect_eq(nst_session_run(s, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
                cr_expect_eq(y[3], 9);
                nst_session_free(s);
            }
        }
    }
}

/* --- many threads ----------------------------------------------------------------------------------------------------- */

static void *make_and_run(void *arg)
{
    intptr_t wrong = 0;
    for (int round = 0; round < 4; round++) {
        NstSession *session;
        NstInputShape shape = {"x", 2, {1 + round, 4}};
        NstSessionOptions options = {.shapes = &shape, .n_shapes = (uint32_t)round % 2, .interpret = round == 3};
        if (nst_session_new(model, &options, &session) != NST_OK) return (void *)(intptr_t)1000;
        for (int64_t n = 0; n < 6; n++) {
            float x[24] = {3}, y[24];
            NstNamedTensor in = rows(x, n), out = {"y", {.data = y, .bytes = sizeof y}};
            wrong += nst_session_run(session, &in, 1, &out, 1, NULL) != NST_OK || (n > 0 && y[0] != 7);
        }
        nst_session_free(session);
    }
    *(intptr_t *)arg = wrong;
    return NULL;
}

Test(misuse, sessions_of_one_model_from_several_threads)
{
    pthread_t thread[4];
    intptr_t wrong[4] = {0};
    for (int k = 0; k < 4; k++) cr_assert_eq(pthread_create(&thread[k], NULL, make_and_run, &wrong[k]), 0);
    for (int k = 0; k < 4; k++) {
        void *failed;
        pthread_join(thread[k], &failed);
        cr_expect_null(failed, "a session could not be made");
        cr_expect_eq(wrong[k], 0);
    }
}

enum { SIDE = 600 };
static NstSession *shared;
static int32_t flags[4];

/* Own memory, own flag: some runs are cancelled, none is anything but done or cancelled. */
static void *run_or_be_cancelled(void *arg)
{
    int32_t *flag = arg;
    intptr_t wrong = 0;
    float *a = calloc((size_t)SIDE * SIDE, 4), *b = calloc((size_t)SIDE * SIDE, 4);
    for (int round = 0; round < 6; round++) {
        NstNamedTensor in[2] = {
            {"a", {.dtype = NST_F32, .rank = 2, .shape = {SIDE, SIDE}, .data = a, .bytes = (size_t)SIDE * SIDE * 4}},
            {"b", {.dtype = NST_F32, .rank = 2, .shape = {SIDE, SIDE}, .data = b, .bytes = (size_t)SIDE * SIDE * 4}}};
        NstNamedTensor out = {.name = "c"};
        NstRunOptions options = {.cancel = flag};
        NstStatus status = nst_session_run(shared, in, 2, &out, 1, &options);
        wrong += status != NST_OK && status != NST_E_CANCELLED;
        wrong += (status == NST_OK) != (out.tensor.owned != NULL);
        nst_tensor_release(&out.tensor);
        __atomic_store_n(flag, 0, __ATOMIC_RELAXED);
    }
    free(a);
    free(b);
    return (void *)wrong;
}

Test(misuse, runs_at_once_are_cancelled_one_by_one)
{
    NstModel *mm;
    pthread_t thread[4];
    cr_assert_eq(nst_model_open_memory(engine, "mm", product, strlen(product), &mm), NST_OK);
    cr_assert_eq(nst_session_new(mm, NULL, &shared), NST_OK, "%s", nst_error_text());
    for (int k = 0; k < 4; k++) cr_assert_eq(pthread_create(&thread[k], NULL, run_or_be_cancelled, &flags[k]), 0);
    for (int round = 0; round < 40; round++) {
        int64_t until = nst_os_now_ns() + 1000000;
        while (nst_os_now_ns() < until) continue;
        nst_cancel(&flags[round % 4]);
    }
    for (int k = 0; k < 4; k++) {
        void *wrong;
        pthread_join(thread[k], &wrong);
        cr_expect_null(wrong);
    }
    nst_session_free(shared);
    nst_model_free(mm);
}

Test(misuse, a_flag_that_is_set_before_cancels_compiled_and_interpreted)
{
    float x[4] = {0};
    int32_t flag = 1;
    for (int interpret = 0; interpret < 2; interpret++) {
        NstSession *session = make_session(&(NstSessionOptions){.interpret = interpret});
        NstNamedTensor in = rows(x, 1), out = {.name = "y"};
        NstRunOptions options = {.cancel = &flag};
        refused(nst_session_run(session, &in, 1, &out, 1, &options), NST_E_CANCELLED, "cancelled");
        cr_expect_null(out.tensor.owned);
        nst_session_free(session);
    }
}

/* --- the cache -------------------------------------------------------------------------------------------------------- */

Test(misuse, a_cache_folder_that_vanishes_costs_a_compile_only)
{
    NstEngine *own;
    NstModel *m;
    NstSession *s;
    NstCacheFolderReport report;
    support_new_folder(folder, sizeof folder, "misuse");
    cr_assert_eq(nst_engine_new(&(NstEngineOptions){.threads = 1, .cache = folder}, &own), NST_OK);
    cr_assert_eq(nst_model_open_memory(own, "scale", scale, strlen(scale), &m), NST_OK);
    cr_assert_eq(nst_session_new(m, NULL, &s), NST_OK, "%s", nst_error_text());
    support_remove_folder(folder);
    NstSessionOptions options = {.strict = 1};
    for (int round = 0; round < 2; round++) {
        NstSession *second;
        float x[4] = {1, 2, 3, 4}, y[4];
        NstNamedTensor in = rows(x, 1), out = {"y", {.data = y, .bytes = sizeof y}};
        cr_expect_eq(nst_session_run(s, &in, 1, &out, 1, NULL), NST_OK);
        cr_assert_eq(nst_session_new(m, &options, &second), NST_OK, "%s", nst_error_text());
        cr_expect_eq(nst_session_run(second, &in, 1, &out, 1, NULL), NST_OK);
        cr_expect_eq(y[0], 3);
        nst_session_free(second);
        options.fail_on_compile = 1; /* memory has it */
    }
    cr_expect_eq(nst_engine_cache_report(own, 1, 1, &report), NST_OK);
    options.bounds_checks = 1;
    NstSession *none;
    refused(nst_session_new(m, &options, &none), NST_E_NOT_FOUND, "fail_on_compile");
    cr_expect_null(none);
    nst_session_free(s);
    nst_model_free(m);
    nst_engine_free(own);
}
