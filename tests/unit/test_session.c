/* test_session.c: include/nestor/session.h from text to results, with the compiler linked in. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include "ir/base/os.h"
#include "nestor/session.h"
#include "runtime/compiler.h"
#include "tests/unit/support_engine.h"
#include "tests/unit/support_onnx.h"

extern const NstCompilerTable nst_compiler_table;

static NstEngine *engine;
static NstModel *model;
static NstSession *session;
static char folder[64];

static void begin(void)
{
    nst_compiler_set(&nst_compiler_table);
    NstEngineOptions options = {.threads = 2, .cache = ""};
    cr_assert_eq(nst_engine_new(&options, &engine), NST_OK, "%s", nst_error_text());
}

static void end(void)
{
    nst_arena_fail_after(0);
    nst_session_free(session);
    nst_model_free(model);
    nst_engine_free(engine);
    if (folder[0]) {
        char command[100];
        snprintf(command, sizeof command, "rm -rf '%s'", folder);
        cr_assert_eq(system(command), 0);
    }
}

TestSuite(session, .init = begin, .fini = end, .timeout = 110);

static const char softmax[] = "graph softmax(x: f32[n, 50]) {\n"
                              "  %m = reduce \"max(a, b)\" axes [1] keep %x\n"
                              "  %e = map \"exp(a - b)\" %x, %m\n"
                              "  %s = reduce \"a + b\" axes [1] keep %e\n"
                              "  %y = map \"a / b\" %e, %s\n"
                              "  return y = %y, sum = %s\n"
                              "}\n";
static const char pick[] = "graph pick(x: f32[10, 4], i: i64[n]) {\n"
                           "  %y = gather axis 0 %x, %i\n"
                           "  return y = %y\n"
                           "}\n";
static const char product[] = "graph mm(a: f32[m, k], b: f32[k, n]) {\n"
                              "  %c = contract \"mk,kn->mn\" %a, %b\n"
                              "  return y = %c\n"
                              "}\n";

static void open_session(const char *text, const NstSessionOptions *options)
{
    support_engine_open_graph(engine, text, options, &model, &session);
}

static void fill(float *data, size_t n, unsigned seed)
{
    for (size_t k = 0; k < n; k++) {
        seed = seed * 1664525 + 1013904223;
        data[k] = (float)(seed >> 8) * 0x1p-24f - 0.5f;
    }
}

static void check_rows(const float *y, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0;
        for (int c = 0; c < 50; c++) sum += y[50 * r + c];
        cr_assert(fabsf(sum - 1) < 1e-5f);
    }
}

Test(session, runs_what_it_compiled)
{
    open_session(softmax, NULL);
    float x[350], y[350];
    fill(x, 350, 1);
    NstNamedTensor in = support_engine_floats("x", x, 2, 7, 50), out[2] = {{.name = "sum"}, {.name = "y"}};
    out[1].tensor.data = y;
    out[1].tensor.bytes = sizeof y;
    cr_assert_eq(nst_session_run(session, &in, 1, out, 2, NULL), NST_OK, "%s", nst_error_text());
    check_rows(y, 7);
    cr_assert_eq(out[0].tensor.rank, 2);
    cr_assert_eq(out[0].tensor.shape[0], 7);
    cr_assert_not_null(out[0].tensor.owned);
    cr_assert_null(out[1].tensor.owned);
    nst_tensor_release(&out[0].tensor);
    in.name = NULL; /* by position, one output only */
    NstNamedTensor sum = {.name = "sum"};
    cr_assert_eq(nst_session_run(session, &in, 1, &sum, 1, NULL), NST_OK, "%s", nst_error_text());
    nst_tensor_release(&sum.tensor);
    NstSessionFacts facts;
    nst_session_facts(session, &facts);
    cr_assert_eq(facts.compiled, 1);
    cr_assert_geq(facts.kernels, 1);
    cr_assert_gt(facts.code_bytes, 0);
}

Test(session, names_its_inputs_and_outputs)
{
    open_session(softmax, NULL);
    NstPort port;
    cr_assert_eq(nst_session_input_count(session), 1);
    cr_assert_eq(nst_session_output_count(session), 2);
    cr_assert_eq(nst_session_input(session, 0, &port), NST_OK);
    cr_assert_str_eq(port.name, "x");
    cr_assert_eq(port.shape[0], -1);
    cr_assert_str_eq(port.symbol[0], "n");
    cr_assert_eq(port.shape[1], 50);
    cr_assert_eq(nst_session_output(session, 1, &port), NST_OK);
    cr_assert_str_eq(port.name, "sum");
    cr_assert_eq(nst_session_output(session, 2, &port), NST_E_NOT_FOUND);
}

/* Also by the interpreter, in the same words. */
Test(session, inputs_of_another_form_are_refused)
{
    for (int32_t interpret = 0; interpret < 2; interpret++) {
        NstSessionOptions options = {.interpret = interpret};
        float x[100];
        NstNamedTensor in = support_engine_floats("x", x, 2, 2, 50), out = {.name = "y"};
        open_session(softmax, &options);
        in.tensor.dtype = NST_I32;
        cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_TYPE);
        cr_assert_str_eq(nst_error_text(), "input 'x' is given as i32, allowed is f32[n, 50]");
        in = support_engine_floats("x", x, 1, 100, 1);
        cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_SHAPE);
        cr_assert_str_eq(nst_error_text(), "input 'x' is given with rank 1, allowed is f32[n, 50]");
        in = support_engine_floats("x", x, 2, -1, 50);
        cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_SHAPE);
        cr_assert_str_eq(nst_error_text(), "input 'x': axis 0 is given as -1");
        nst_session_free(session);
        nst_model_free(model);
        session = NULL;
        model = NULL;
    }
}

Test(session, wrong_calls_are_explained)
{
    open_session(softmax, NULL);
    float x[100], y[100];
    NstNamedTensor in[2] = {support_engine_floats("x", x, 2, 2, 50), support_engine_floats("x", x, 2, 2, 50)},
                   out[3] = {{.name = "y"}, {.name = "y"}};
    cr_assert_eq(nst_session_run(session, in, 0, out, 1, NULL), NST_E_INVALID);
    cr_assert_str_eq(nst_error_text(), "input 'x' is not given");
    cr_assert_eq(nst_session_run(session, in, 2, out, 1, NULL), NST_E_INVALID);
    cr_assert_str_eq(nst_error_text(), "input 'x' is given twice");
    cr_assert_eq(nst_session_run(session, in, 1, out, 2, NULL), NST_E_INVALID);
    cr_assert_str_eq(nst_error_text(), "output 'y' is asked for twice");
    cr_assert_eq(nst_session_run(session, in, 1, out, 3, NULL), NST_E_INVALID);
    in[0].name = "z";
    cr_assert_eq(nst_session_run(session, in, 1, out, 1, NULL), NST_E_NOT_FOUND);
    cr_assert_str_eq(nst_error_text(), "there is no input 'z'; the first is 'x'");
    in[0].name = NULL;
    in[0].tensor.shape[1] = 49;
    cr_assert_eq(nst_session_run(session, in, 1, out, 1, NULL), NST_E_SHAPE);
    cr_assert_str_eq(nst_error_text(), "input 'x': axis 1 is 49, allowed is 50 (f32[n, 50] with the other axes given)");
    in[0].tensor.shape[1] = 50;
    out[0].tensor.data = y;
    out[0].tensor.bytes = sizeof y - 1;
    cr_assert_eq(nst_session_run(session, in, 1, out, 1, NULL), NST_E_INVALID);
    cr_assert_str_eq(nst_error_text(), "output 'y' is given 399 bytes, it has 400");
    cr_assert_eq(nst_session_run(NULL, in, 1, out, 1, NULL), NST_E_INVALID);
    NstSession *none;
    NstInputShape shape = {.name = "x", .rank = 2, .shape = {3, 51}};
    NstSessionOptions options = {.shapes = &shape, .n_shapes = 1};
    cr_assert_eq(nst_session_new(model, &options, &none), NST_E_SHAPE);
    cr_assert_null(none);
    shape = (NstInputShape){.name = "w", .rank = 1};
    cr_assert_eq(nst_session_new(model, &options, &none), NST_E_NOT_FOUND);
    shape = (NstInputShape){.name = "x", .rank = 17};
    cr_assert_eq(nst_session_new(model, &options, &none), NST_E_INVALID);
    NstEngine *other;
    cr_assert_eq(nst_engine_new(&(NstEngineOptions){.target = "z80"}, &other), NST_E_INVALID);
    cr_assert_eq(nst_engine_new(&(NstEngineOptions){.threads = -1}, &other), NST_E_INVALID);
}

/* A size that is read from a view of a computed value is there before what uses it, an assert too. */
Test(session, sizes_read_from_views_come_before_their_users)
{
    open_session("graph sized(k: i64[1], x: f32[2, 1, 3]) {\n"
                 "  symbols value v in 0..100\n"
                 "  %b = map \"a + 2\" %k : i64[1]\n"
                 "  %o = const i64[1] data [5i64]\n"
                 "  %c = concat axis 0 %o, %b, %o : i64[3]\n"
                 "  %t = slice start [1] %c : i64[1]\n"
                 "  %s = reshape %t : i64[] defines v\n"
                 "  %e = expand %x : f32[2, v, 3]\n"
                 "  %a = dim_value 6*v : i64[]\n"
                 "  %d = dim_value 12 : i64[]\n"
                 "  %h = map \"a == b\" %a, %d : b1[]\n"
                 "  assert \"must be equal\" %h\n"
                 "  %r = reshape %e : f32[2*v, 3]\n"
                 "  return y = %r\n"
                 "}\n",
                 NULL);
    int64_t k = 0;
    float x[6] = {1, 2, 3, 4, 5, 6}, y[18];
    NstNamedTensor in[2] = {
        {.name = "k", .tensor = {.dtype = NST_I64, .rank = 1, .shape = {1}, .data = &k, .bytes = 8}},
        {.name = "x", .tensor = {.dtype = NST_F32, .rank = 3, .shape = {2, 1, 3}, .data = x, .bytes = 24}}};
    NstNamedTensor out = support_engine_floats("y", y, 2, 4, 3);
    cr_assert_eq(nst_session_run(session, in, 2, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    cr_assert(y[3] == 1 && y[6] == 4 && y[11] == 6);
    k = 1;
    out = support_engine_floats("y", y, 2, 4, 3);
    cr_assert_eq(nst_session_run(session, in, 2, &out, 1, NULL), NST_E_INVALID); /* more than the caller has room for */
    out = support_engine_floats("y", y, 2, 6, 3);
    cr_assert_eq(nst_session_run(session, in, 2, &out, 1, NULL), NST_E_ASSERT);
}

Test(session, interpreter_and_threads_agree)
{
    open_session(product, NULL);
    enum { M = 37, K = 65, N = 83 };
    static float a[M * K], b[K * N], y[M * N], z[M * N];
    fill(a, M * K, 1);
    fill(b, K * N, 2);
    NstNamedTensor in[2] = {support_engine_floats("b", b, 2, K, N), support_engine_floats("a", a, 2, M, K)},
                   out = support_engine_floats("y", y, 2, M, N);
    cr_assert_eq(nst_session_run(session, in, 2, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    NstSession *slow;
    NstSessionOptions options = {.interpret = 1};
    cr_assert_eq(nst_session_new(model, &options, &slow), NST_OK, "%s", nst_error_text());
    out = support_engine_floats("y", z, 2, M, N);
    cr_assert_eq(nst_session_run(slow, in, 2, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    cr_assert_eq(memcmp(y, z, sizeof y), 0);
    nst_session_free(slow);
}

Test(session, index_error_of_each_thread_is_a_status)
{
    open_session(pick, NULL);
    enum { N = 200000 };
    static int64_t index[N];
    static float x[40], y[4 * N];
    NstNamedTensor in[2] = {
        support_engine_floats("x", x, 2, 10, 4),
        {.name = "i", .tensor = {.dtype = NST_I64, .rank = 1, .shape = {N}, .data = index, .bytes = sizeof index}}};
    NstNamedTensor out = support_engine_floats("y", y, 2, N, 4);
    cr_assert_eq(nst_session_run(session, in, 2, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    size_t places[] = {0, N / 2 - 1, N / 2, N - 1}; /* in the halves of both threads */
    for (int k = 0; k < 4; k++) {
        index[places[k]] = 10 + k;
        cr_assert_eq(nst_session_run(session, in, 2, &out, 1, NULL), NST_E_INDEX);
        char expected[64];
        snprintf(expected, sizeof expected, "index %d is given, allowed are 0 to 9", 10 + k);
        cr_assert(strstr(nst_error_text(), expected) != NULL, "%s", nst_error_text());
        index[places[k]] = 0;
    }
    cr_assert_eq(nst_session_run(session, in, 2, &out, 1, NULL), NST_OK);
}

static int32_t cancel_flag;
static void *cancel_later(void *arg)
{
    int64_t until = nst_os_now_ns() + 30000000;
    while (nst_os_now_ns() < until) continue;
    *(int64_t *)arg = nst_os_now_ns();
    nst_cancel(&cancel_flag);
    return NULL;
}

Test(session, cancel_stops_a_long_run_within_50_ms)
{
    open_session(product, NULL);
    enum { SIZE = 4096 };
    float *a = calloc((size_t)SIZE * SIZE, 4), *b = calloc((size_t)SIZE * SIZE, 4),
          *y = malloc((size_t)SIZE * SIZE * 4);
    memset(y, 0, (size_t)SIZE * SIZE * 4); /* page faults are not what is measured */
    NstNamedTensor in[2] = {support_engine_floats("a", a, 2, SIZE, SIZE), support_engine_floats("b", b, 2, SIZE, SIZE)},
                   out = support_engine_floats("y", y, 2, SIZE, SIZE);
    NstRunOptions options = {.cancel = &cancel_flag};
    int64_t when = 0, best = INT64_MAX;
    for (int round = 0; round < 3; round++) { /* the machine may be busy: the best of three */
        cancel_flag = 0;
        pthread_t other;
        cr_assert_eq(pthread_create(&other, NULL, cancel_later, &when), 0);
        cr_assert_eq(nst_session_run(session, in, 2, &out, 1, &options), NST_E_CANCELLED);
        int64_t stopped = nst_os_now_ns();
        pthread_join(other, NULL);
        if (stopped - when < best) best = stopped - when;
    }
    cr_assert_lt(best, 50000000, "stopped after %lld ns", (long long)best);
    cr_assert(strstr(nst_error_text(), "cancelled") != NULL);
    free(a);
    free(b);
    free(y);
}

static void *run_often(void *arg)
{
    intptr_t wrong = 0;
    static const int64_t sizes[] = {1, 7, 300, 64};
    float *x = malloc(300 * 50 * 4), *y = malloc(300 * 50 * 4), *first = malloc(300 * 50 * 4);
    fill(x, 300 * 50, 5);
    NstNamedTensor all = support_engine_floats("x", x, 2, 300, 50),
                   whole = support_engine_floats("y", first, 2, 300, 50);
    wrong += nst_session_run(arg, &all, 1, &whole, 1, NULL) != NST_OK;
    for (int round = 0; round < 100; round++) {
        int64_t rows = sizes[round % 4];
        NstNamedTensor in = support_engine_floats("x", x, 2, rows, 50),
                       out = support_engine_floats("y", y, 2, rows, 50);
        wrong += nst_session_run(arg, &in, 1, &out, 1, NULL) != NST_OK;
        wrong += memcmp(y, first, (size_t)rows * 50 * 4) != 0; /* a row does not depend on its batch */
    }
    free(x);
    free(y);
    free(first);
    return (void *)wrong;
}

Test(session, runs_of_one_session_at_once_give_the_same_bits)
{
    open_session(softmax, NULL);
    pthread_t caller[4];
    for (int k = 0; k < 4; k++) cr_assert_eq(pthread_create(&caller[k], NULL, run_often, session), 0);
    for (int k = 0; k < 4; k++) {
        void *wrong;
        pthread_join(caller[k], &wrong);
        cr_assert_null(wrong);
    }
}

Test(session, declared_shapes_have_a_plan_and_others_run_too)
{
    NstInputShape shape = {.name = "x", .rank = 2, .shape = {3, -1}};
    NstSessionOptions options = {.shapes = &shape, .n_shapes = 1};
    open_session(softmax, &options);
    float x[250], y[250], z[250];
    fill(x, 250, 9);
    NstNamedTensor in = support_engine_floats("x", x, 2, 3, 50), out = support_engine_floats("y", y, 2, 3, 50);
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    NstSessionFacts facts;
    nst_session_facts(session, &facts);
    cr_assert_eq(facts.compiled, 1);
    in = support_engine_floats("x", x, 2, 5, 50), out = support_engine_floats("y", z, 2, 5, 50);
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    nst_session_facts(session, &facts);
    cr_assert_eq(facts.compiled, 2);
    cr_assert_eq(memcmp(y, z, 600), 0);
}

Test(session, an_output_may_lie_over_inputs_not_over_another_output)
{
    float x[150], y[150], sum[3], both[153];
    fill(x, 150, 5);
    open_session(softmax, NULL);
    NstNamedTensor in = support_engine_floats("x", x, 2, 3, 50),
                   out[2] = {support_engine_floats("y", y, 2, 3, 50), support_engine_floats("sum", sum, 2, 3, 1)};
    cr_assert_eq(nst_session_run(session, &in, 1, out, 2, NULL), NST_OK, "%s", nst_error_text());
    for (int shift = 0; shift <= 3; shift += 3) { /* over it, and over most of it */
        memcpy(both + shift, x, sizeof x);
        in = support_engine_floats("x", both + shift, 2, 3, 50);
        out[0] = support_engine_floats("y", both, 2, 3, 50);
        cr_assert_eq(nst_session_run(session, &in, 1, out, 2, NULL), NST_OK, "%s", nst_error_text());
        cr_assert_eq(memcmp(both, y, sizeof y), 0, "shift %d", shift);
    }
    in = support_engine_floats("x", x, 2, 3, 50);
    out[1] = support_engine_floats("sum", both + 149, 2, 3, 1);
    cr_assert_eq(nst_session_run(session, &in, 1, out, 2, NULL), NST_E_INVALID);
    cr_assert(strstr(nst_error_text(), "overlap") && strstr(nst_error_text(), "'sum'"), "%s", nst_error_text());
    out[1] = support_engine_floats("sum", both + 150, 2, 3, 1);
    cr_assert_eq(nst_session_run(session, &in, 1, out, 2, NULL), NST_OK, "%s", nst_error_text());
}

/* One whole life: engine, model, session, run; the first failure ends it. */
static NstStatus live(float *x, float *y)
{
    NstEngine *own = NULL;
    NstModel *read = NULL;
    NstSession *ready = NULL;
    NstNamedTensor in = support_engine_floats("x", x, 2, 2, 50), out = support_engine_floats("y", y, 2, 2, 50);
    NstEngineOptions options = {.threads = 2, .cache = folder};
    NstStatus status = nst_engine_new(&options, &own);
    if (status == NST_OK) status = nst_model_open_memory(own, "test", softmax, strlen(softmax), &read);
    if (status == NST_OK) status = nst_session_new(read, NULL, &ready);
    if (status == NST_OK) status = nst_session_run(ready, &in, 1, &out, 1, NULL);
    nst_session_free(ready);
    nst_model_free(read);
    nst_engine_free(own);
    return status;
}

static void fail_each(float *x, float *y, uint64_t step)
{
    bool through = false;
    for (uint64_t n = 1; n < 5000 && !through; n += step) {
        nst_arena_fail_after(n);
        NstStatus status = live(x, y);
        nst_arena_fail_after(0);
        cr_assert(status == NST_OK || status == NST_E_NOMEM, "allocation %llu: %s: %s", (unsigned long long)n,
                  nst_status_name(status), nst_error_text());
        through = status == NST_OK && n > 40;
    }
    cr_assert(through);
}

Test(session, each_allocation_may_fail_over_compile_and_run)
{
    float x[100], y[100];
    fill(x, 100, 3);
    fail_each(x, y, 1); /* no cache: "" */
    check_rows(y, 2);
}

Test(session, a_second_session_finds_what_the_first_compiled)
{
    float x[100], y[100];
    fill(x, 100, 3);
    open_session(softmax, NULL);
    NstSession *second;
    NstSessionOptions options = {.fail_on_compile = 1};
    cr_assert_eq(nst_session_new(model, &options, &second), NST_OK, "%s", nst_error_text());
    NstNamedTensor in = support_engine_floats("x", x, 2, 2, 50), out = support_engine_floats("y", y, 2, 2, 50);
    cr_assert_eq(nst_session_run(second, &in, 1, &out, 1, NULL), NST_OK);
    check_rows(y, 2);
    NstSessionFacts facts;
    nst_session_facts(second, &facts);
    cr_assert_eq(facts.from_cache, 1);
    cr_assert_eq(facts.compile_ns, 0);
    nst_session_free(second);
    options.strict = 1;
    cr_assert_eq(nst_session_new(model, &options, &second), NST_E_NOT_FOUND);
}

Test(session, bad_models_are_a_status_with_a_place)
{
    static const char *const texts[] = {
        "",
        "graph",
        "graph f(x: f32[n]) { return y = %z }",
        "graph f(x: f32[n]) {\n  %y = map \"a +\" %x\n  return y = %y\n}",
        "graph f(x: f32[n], z: f32[3, n]) {\n  %y = concat axis 0 %x, %z : f32[n]\n  return y = %y\n}",
        "\x08\x09 no model"};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        NstSession *none;
        cr_assert_eq(nst_model_open_memory(engine, "bad", texts[k], strlen(texts[k]), &model), NST_OK);
        NstStatus status = nst_session_new(model, NULL, &none);
        cr_assert(status != NST_OK && status != NST_E_NOMEM);
        cr_assert_null(none);
        cr_assert_neq(nst_error_text()[0], '\0');
        nst_model_free(model);
        model = NULL;
    }
}

/* A sum over the axes that an input names: compiled for a value, by name or position; another value is refused, compiled,
 * interpreted and from the cache. */
Test(session, plans_for_a_value_that_decides_the_structure)
{
    static const int64_t shape[] = {2, 3, INT64_MIN}, one[] = {1, INT64_MIN}, out[] = {2, 1, INT64_MIN};
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    OnnxModel m = onnx_model(ctx.arena);
    m.opset = 18;
    onnx_input(&m, "x", 1, shape);
    onnx_input(&m, "axes", 7, one);
    onnx_output(&m, "y", 1, out);
    onnx_node(&m, "ReduceSum", "r", "x axes", "y", NULL);
    NstText bytes = onnx_bytes(&m);
    cr_assert_eq(nst_model_open_memory(engine, "sum", nst_text_get(&bytes), bytes.n, &model), NST_OK);
    cr_assert_eq(nst_session_new(model, NULL, &session), NST_E_UNSUPPORTED);
    cr_assert(strstr(nst_error_text(), "axes"), "%s", nst_error_text());
    float x[6] = {1, 2, 3, 4, 5, 6}, y[2];
    int64_t axis = 1, other = 0;
    NstNamedTensor in[2] = {support_engine_floats("x", x, 2, 2, 3),
                            {.name = "axes", .tensor = {.dtype = NST_I64, .rank = 1}}};
    in[1].tensor.shape[0] = 1;
    in[1].tensor.bytes = sizeof axis;
    for (int mode = 0; mode < 3; mode++) {
        in[1].tensor.data = &axis;
        NstNamedTensor value[2] = {in[0], in[1]}, result = support_engine_floats("y", y, 2, 2, 1);
        value[0].name = value[1].name = NULL;
        NstSessionOptions options = {.values = mode ? value : &in[1], .n_values = mode ? 2 : 1, .interpret = mode == 2};
        cr_assert_eq(nst_session_new(model, &options, &session), NST_OK, "%s", nst_error_text());
        cr_assert_eq(nst_session_run(session, in, 2, &result, 1, NULL), NST_OK, "%s", nst_error_text());
        cr_assert(y[0] == 6 && y[1] == 15);
        in[1].tensor.data = &other;
        cr_assert_eq(nst_session_run(session, in, 2, &result, 1, NULL), NST_E_INVALID);
        cr_assert_str_eq(nst_error_text(), "input 'axes' has another value than the one the session was made for");
        nst_session_free(session);
        session = NULL;
    }
    nst_ctx_dispose(&ctx);
}

static float run_scaled(float x, const float *scale)
{
    float y = 0;
    NstNamedTensor in[2] = {{"x", {.dtype = NST_F32, .rank = 1, .shape = {1}, .data = &x, .bytes = 4}},
                            {"s", {.dtype = NST_F32, .rank = 1, .shape = {1}, .bytes = 4}}};
    NstNamedTensor out = {"y", {.data = &y, .bytes = 4}};
    union {
        const float *from;
        void *to;
    } data = {scale};
    in[1].tensor.data = data.to;
    cr_assert_eq(nst_session_run(session, in, scale ? 2 : 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    return y;
}

Test(session, initializers_that_are_inputs_keep_or_lose_their_default)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    OnnxModel m = onnx_model(ctx.arena);
    const int64_t one[] = {1, INT64_MIN};
    const float three = 3, five = 5;
    const char *const names[] = {"s", "nothing"};
    onnx_input(&m, "x", 1, one);
    onnx_input(&m, "s", 1, one);
    onnx_floats(&m, "s", one, &three, 1);
    onnx_node(&m, "Mul", "m", "x s", "y", NULL);
    onnx_output(&m, "y", 1, one);
    NstText bytes = onnx_bytes(&m);
    cr_assert_eq(nst_model_open_memory(engine, "m", bytes.at, bytes.n, &model), NST_OK);
    cr_assert_eq(nst_session_new(model, NULL, &session), NST_OK, "%s", nst_error_text());
    cr_assert_float_eq(run_scaled(2, NULL), 6, 0);
    nst_session_free(session);
    session = NULL;
    NstSessionOptions options = {.overridable = names, .n_overridable = 1};
    cr_assert_eq(nst_session_new(model, &options, &session), NST_OK, "%s", nst_error_text());
    cr_assert_eq(nst_session_input_count(session), 2);
    cr_assert_float_eq(run_scaled(2, &five), 10, 0);
    options.n_overridable = 2;
    NstSession *none;
    cr_assert_eq(nst_session_new(model, &options, &none), NST_E_NOT_FOUND);
    cr_assert_not_null(strstr(nst_error_text(), "'nothing'"), "%s", nst_error_text());
    nst_ctx_dispose(&ctx);
}

/* A sequence that is an input is declared by its elements, which are inputs then; one that is an output likewise. */
Test(session, elements_of_sequences_are_inputs_and_outputs)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    OnnxModel m = onnx_model(ctx.arena);
    static const int64_t any[] = {-1, INT64_MIN}, none[] = {INT64_MIN};
    NstText part[4];
    for (int k = 0; k < 4; k++) nst_text_init(&part[k], ctx.arena);
    pb_int(&part[0], 1, 1); /* seq(f32) */
    pb_message(&part[1], 1, &part[0]);
    pb_message(&part[2], 1, &part[1]);
    pb_message(&part[3], 4, &part[2]);
    for (unsigned k = 0; k < 2; k++) {
        NstText info;
        nst_text_init(&info, ctx.arena);
        pb_text(&info, 1, k == 0 ? "s" : "t");
        pb_message(&info, 2, &part[3]);
        pb_message(&m.graph, 11 + k, &info);
    }
    onnx_input(&m, "x", 1, any);
    onnx_ints(&m, "first", none, (int64_t[]){0}, 1);
    onnx_node(&m, "SequenceInsert", "i", "s x first", "t", NULL);
    NstText bytes = onnx_bytes(&m);
    cr_assert_eq(nst_model_open_memory(engine, "m", nst_text_get(&bytes), bytes.n, &model), NST_OK);
    cr_assert_eq(nst_session_new(model, NULL, &session), NST_E_UNSUPPORTED);
    cr_assert(strstr(nst_error_text(), "input 's': a sequence or optional, whose elements must be declared"), "%s",
              nst_error_text());
    float x[2] = {1, 2}, s[3] = {3, 4, 5};
    NstNamedTensor in[2] = {{"x", {.dtype = NST_F32, .rank = 1, .shape = {2}, .data = x, .bytes = 8}},
                            {"s[0]", {.dtype = NST_F32, .rank = 1, .shape = {3}, .data = s, .bytes = 12}}};
    for (uint32_t n = 0; n < 2; n++) { /* elements of s */
        NstInputShape shape = {.name = n ? "s[0]" : "s[]", .rank = (int32_t)n, .shape = {3}};
        NstSessionOptions options = {.shapes = &shape, .n_shapes = 1};
        cr_assert_eq(nst_session_new(model, &options, &session), NST_OK, "%s", nst_error_text());
        cr_assert_eq(nst_session_input_count(session), 1 + n);
        cr_assert_eq(nst_session_output_count(session), 1 + n);
        NstNamedTensor out[2] = {{.name = "t[0]"}, {.name = "t[1]"}};
        cr_assert_eq(nst_session_run(session, in, 1 + n, out, 1 + n, NULL), NST_OK, "%s", nst_error_text());
        cr_assert(out[0].tensor.shape[0] == 2 && ((float *)out[0].tensor.data)[1] == 2);
        cr_assert(n == 0 || (out[1].tensor.shape[0] == 3 && ((float *)out[1].tensor.data)[2] == 5));
        for (uint32_t k = 0; k <= n; k++) nst_tensor_release(&out[k].tensor);
        nst_session_free(session);
        session = NULL;
    }
    nst_ctx_dispose(&ctx);
}

/* ReduceMean and a product of rows over an open axis, once for all sizes and once for declared ones, whose sums would be ordered
 * otherwise: by lanes. */
Test(session, declared_sizes_do_not_change_the_order_of_sums)
{
    enum { ROWS = 3, LONGEST = 400 };
    static const int64_t open_shape[] = {-1, ONNX_UNNAMED, INT64_MIN}, rows_shape[] = {-1, INT64_MIN};
    static const int64_t product_shape[] = {-1, -1, INT64_MIN};
    static const int64_t sizes[] = {5, 20, 100, LONGEST};
    static float x[ROWS * LONGEST];
    nst_arena_fail_after(0);
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    OnnxModel m = onnx_model(ctx.arena);
    NstText attrs;
    nst_text_init(&attrs, ctx.arena);
    onnx_attr_ints(&attrs, "axes", 1, (const int64_t[]){-1});
    onnx_attr_int(&attrs, "keepdims", 0);
    m.opset = 13;
    onnx_input(&m, "x", 1, open_shape);
    onnx_output(&m, "y", 1, rows_shape);
    onnx_node(&m, "ReduceMean", "r", "x", "y", &attrs);
    nst_text_init(&attrs, ctx.arena);
    onnx_attr_int(&attrs, "transB", 1);
    onnx_output(&m, "z", 1, product_shape);
    onnx_node(&m, "Gemm", "p", "x x", "z", &attrs);
    NstText bytes = onnx_bytes(&m);
    cr_assert_eq(nst_model_open_memory(engine, "m", nst_text_get(&bytes), bytes.n, &model), NST_OK);
    fill(x, ROWS * LONGEST, 3);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        float y[2][ROWS], z[2][ROWS * ROWS];
        NstInputShape shape = {.name = "x", .rank = 2, .shape = {ROWS, sizes[k]}};
        for (int exact = 0; exact < 2; exact++) {
            NstSessionOptions options = {.shapes = exact ? &shape : NULL, .n_shapes = exact ? 1 : 0};
            cr_assert_eq(nst_session_new(model, &options, &session), NST_OK, "%s", nst_error_text());
            NstNamedTensor in = support_engine_floats("x", x, 2, ROWS, sizes[k]),
                           out[] = {support_engine_floats("y", y[exact], 1, ROWS, 1),
                                    support_engine_floats("z", z[exact], 2, ROWS, ROWS)};
            cr_assert_eq(nst_session_run(session, &in, 1, out, 2, NULL), NST_OK, "%s", nst_error_text());
            nst_session_free(session);
            session = NULL;
        }
        cr_expect_arr_eq(y[0], y[1], sizeof y[0], "%lld columns", (long long)sizes[k]);
        cr_expect_arr_eq(z[0], z[1], sizeof z[0], "%lld columns", (long long)sizes[k]);
    }
    nst_ctx_dispose(&ctx);
}
