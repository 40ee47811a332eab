/* test_structure.c: steps of a plan that are no kernels, from text to results: host functions, if, loop, checks of sizes. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include "ir/base/os.h"
#include "nestor/session.h"
#include "runtime/compiler.h"
#include "runtime/host.h"
#include "tests/unit/support_onnx.h"

extern const NstCompilerTable nst_compiler_table;

static NstCtx ctx;
static NstEngine *engine;
static NstModel *model;
static NstSession *session;

static void begin(void)
{
    NstEngineOptions options = {.threads = 2, .cache = ""};
    nst_compiler_set(&nst_compiler_table);
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    cr_assert_eq(nst_engine_new(&options, &engine), NST_OK, "%s", nst_error_text());
}

static void close_session(void)
{
    nst_session_free(session);
    nst_model_free(model);
    session = NULL;
    model = NULL;
}

static void end(void)
{
    close_session();
    nst_engine_free(engine);
    nst_ctx_dispose(&ctx);
}

TestSuite(structure, .init = begin, .fini = end, .timeout = 60);

static void open_bytes(const void *bytes, size_t n)
{
    close_session();
    cr_assert_eq(nst_model_open_memory(engine, "test", bytes, n, &model), NST_OK, "%s", nst_error_text());
    cr_assert_eq(nst_session_new(model, NULL, &session), NST_OK, "%s", nst_error_text());
}

static void open_text(const char *text)
{
    open_bytes(text, strlen(text));
}

static NstNamedTensor tensor(NstDtype dtype, void *data, int rank, int64_t a, int64_t b, int64_t c)
{
    int64_t shape[3] = {a, b, c};
    NstNamedTensor named = {.tensor = {.dtype = dtype, .rank = rank, .data = data, .bytes = nst_dtype_size(dtype)}};
    for (int k = 0; k < rank; k++) named.tensor.bytes *= (size_t)(named.tensor.shape[k] = shape[k]);
    return named;
}

/* --- checks ---------------------------------------------------------------------------------------------------- */

/* Kernels rely on sizes that must agree; a plan without the check would write past its memory. */
Test(structure, a_wrong_size_from_a_value_is_an_error)
{
    static const int64_t shape[] = {2, 3, 4, INT64_MIN}, three[] = {3, INT64_MIN}, out[] = {-1, -1, -1, INT64_MIN};
    OnnxModel m = onnx_model(ctx.arena);
    onnx_input(&m, "x", 1, shape);
    onnx_input(&m, "shape", 7, three);
    onnx_output(&m, "y", 1, out);
    onnx_node(&m, "Reshape", "r", "x shape", "y", NULL);
    NstText bytes = onnx_bytes(&m);
    open_bytes(nst_text_get(&bytes), bytes.n);
    float x[24];
    int64_t to[3] = {4, -1, 3};
    for (int k = 0; k < 24; k++) x[k] = (float)k;
    NstNamedTensor in[2] = {tensor(NST_F32, x, 3, 2, 3, 4), tensor(NST_I64, to, 1, 3, 0, 0)}, y = {0};
    cr_assert_eq(nst_session_run(session, in, 2, &y, 1, NULL), NST_OK, "%s", nst_error_text());
    cr_assert(y.tensor.shape[0] == 4 && y.tensor.shape[1] == 2 && y.tensor.shape[2] == 3);
    cr_assert_eq(memcmp(y.tensor.data, x, sizeof x), 0);
    nst_tensor_release(&y.tensor);
    static const int64_t wrong[][3] = {{2, 2, 2}, {5, 5, 5}, {24, 1, 2}, {0, 0, 5}};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        memcpy(to, wrong[k], sizeof to);
        cr_assert_eq(nst_session_run(session, in, 2, &y, 1, NULL), NST_E_ASSERT);
        cr_assert(strstr(nst_error_text(), "Reshape") && strstr(nst_error_text(), "must be equal"), "%s",
                  nst_error_text());
        cr_assert_null(y.tensor.data);
    }
}

Test(structure, sizes_of_two_inputs_must_agree)
{
    static const int64_t two[] = {2, -1, INT64_MIN};
    OnnxModel p = onnx_model(ctx.arena);
    NstText attributes;
    nst_text_init(&attributes, ctx.arena);
    onnx_attr_ints(&attributes, "perm", 2, (int64_t[]){1, 0});
    onnx_input(&p, "a", 1, two);
    onnx_input(&p, "b", 1, (int64_t[]){2, 3, INT64_MIN});
    onnx_output(&p, "y", 1, (int64_t[]){2, 2, INT64_MIN});
    onnx_node(&p, "Transpose", "t", "b", "bt", &attributes);
    onnx_node(&p, "MatMul", "m", "a bt", "y", NULL);
    NstText bytes = onnx_bytes(&p);
    open_bytes(nst_text_get(&bytes), bytes.n);
    float a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[6] = {1, 0, 0, 0, 1, 0};
    NstNamedTensor in[2] = {tensor(NST_F32, a, 2, 2, 3, 0), tensor(NST_F32, b, 2, 2, 3, 0)}, y = {0};
    cr_assert_eq(nst_session_run(session, in, 2, &y, 1, NULL), NST_OK, "%s", nst_error_text());
    cr_assert_eq(((float *)y.tensor.data)[3], 5);
    nst_tensor_release(&y.tensor);
    in[0] = tensor(NST_F32, a, 2, 2, 4, 0);
    cr_assert_eq(nst_session_run(session, in, 2, &y, 1, NULL), NST_E_ASSERT);
    cr_assert(strstr(nst_error_text(), "MatMul"), "%s", nst_error_text());
}

/* --- host functions ------------------------------------------------------------------------------------------ */

Test(structure, sort_is_stable_and_puts_nan_last)
{
    float x[] = {2, NAN, -0.0f, 1, 0, -INFINITY, 1, NAN, INFINITY}, got[9];
    int64_t place[9];
    static const int64_t up[] = {5, 2, 4, 3, 6, 0, 8, 1, 7}, down[] = {8, 0, 3, 6, 2, 4, 5, 1, 7};
    for (int descending = 0; descending < 2; descending++) {
        open_text(nst_format(ctx.arena,
                             "graph g(x: f32[9]) {\n  %%i = iota 9 : i64[9]\n"
                             "  %%v, %%p = sort keys 1 axis 0 %s stable %%x, %%i\n  return v = %%v, p = %%p\n}\n",
                             descending ? "descending" : ""));
        NstNamedTensor in = tensor(NST_F32, x, 1, 9, 0, 0),
                       out[2] = {tensor(NST_F32, got, 1, 9, 0, 0), tensor(NST_I64, place, 1, 9, 0, 0)};
        cr_assert_eq(nst_session_run(session, &in, 1, out, 2, NULL), NST_OK, "%s", nst_error_text());
        for (int k = 0; k < 9; k++) {
            cr_assert_eq(place[k], (descending ? down : up)[k], "place %d is %ld", k, (long)place[k]);
            cr_assert_eq(memcmp(&got[k], &x[place[k]], 4), 0);
        }
    }
}

/* A heap of the few that are kept gives what sorting all gives. */
Test(structure, few_of_many_are_the_first_of_all)
{
    enum { N = 1000 };
    int32_t x[N], few[3], all[N];
    int64_t few_at[3], all_at[N];
    for (int k = 0; k < N; k++) x[k] = (int32_t)((unsigned)k * 2654435761u >> 24) - 128;
    NstNamedTensor in = tensor(NST_I32, x, 1, N, 0, 0);
    for (int keep = 3; keep <= N; keep += N - 3) {
        open_text(nst_format(ctx.arena,
                             "graph g(x: i32[1000]) {\n  %%i = iota 1000 : i64[1000]\n  %%v, %%p = sort keys 1 axis 0 "
                             "descending stable keep %d %%x, %%i\n  return v = %%v, p = %%p\n}\n",
                             keep));
        NstNamedTensor out[2] = {tensor(NST_I32, keep == 3 ? few : all, 1, keep, 0, 0),
                                 tensor(NST_I64, keep == 3 ? few_at : all_at, 1, keep, 0, 0)};
        cr_assert_eq(nst_session_run(session, &in, 1, out, 2, NULL), NST_OK, "%s", nst_error_text());
    }
    cr_assert_eq(memcmp(few, all, sizeof few), 0);
    cr_assert_eq(memcmp(few_at, all_at, sizeof few_at), 0);
    for (int k = 1; k < N; k++) cr_assert(all[k - 1] > all[k] || (all[k - 1] == all[k] && all_at[k - 1] < all_at[k]));
}

Test(structure, host_functions_refuse_what_has_another_form)
{
    static const char *const configs[] = {NULL, "", "axis", "axis 9", "axis -1", "axis 0 descending 0 keys 7"};
    int64_t data[4] = {0};
    NstTensor in[2] = {{.dtype = NST_F32, .rank = 1, .shape = {2}, .data = data},
                       {.dtype = NST_BOOL, .rank = 2, .shape = {1, 1}, .data = data}};
    static const char *const names[] = {"sort", "compact", "random_bits"};
    for (size_t f = 0; f < sizeof names / sizeof *names; f++)
        for (size_t k = 0; k < sizeof configs / sizeof *configs; k++)
            for (uint32_t n_in = 0; n_in <= 2; n_in++) {
                NstTensor out[1] = {{.dtype = NST_I8, .rank = 0}};
                NstHostStep step = {.ctx = &ctx, .arena = ctx.arena, .name = names[f], .config = configs[k]};
                step.n_in = n_in;
                step.n_out = 1;
                step.in = in;
                step.out = out;
                cr_assert_neq(nst_host_find(names[f])(&step), NST_OK);
                nst_ctx_clear(&ctx);
            }
    cr_assert_null(nst_host_find("none"));
}

/* --- if and loop --------------------------------------------------------------------------------------------- */

/* The branch that is not taken is not done: its assert would fail. */
Test(structure, only_the_branch_that_is_taken_runs)
{
    open_text("graph g(c: b1[], x: f32[n]) {\n"
              "  %h = map \"a * 2\" %x\n"
              "  %y = if %c : f32[n] then { %a = map \"a + 1\" %h : f32[n] yield %a }"
              " else { %f = const b1[] splat false assert \"never\" %f yield %x }\n"
              "  return y = %y\n}\n");
    float x[5] = {1, 2, 3, 4, 5};
    bool c = true;
    NstNamedTensor in[2] = {tensor(NST_BOOL, &c, 0, 0, 0, 0), tensor(NST_F32, x, 1, 5, 0, 0)}, y = {0};
    for (int n = 5; n >= 0; n--) {
        in[1] = tensor(NST_F32, x, 1, n, 0, 0);
        cr_assert_eq(nst_session_run(session, in, 2, &y, 1, NULL), NST_OK, "%s", nst_error_text());
        cr_assert_eq(y.tensor.shape[0], n);
        for (int k = 0; k < n; k++) cr_assert_eq(((float *)y.tensor.data)[k], 2 * x[k] + 1);
        nst_tensor_release(&y.tensor);
    }
    c = false;
    cr_assert_eq(nst_session_run(session, in, 2, &y, 1, NULL), NST_E_ASSERT);
    cr_assert(strstr(nst_error_text(), "never"), "%s", nst_error_text());
    cr_assert_null(y.tensor.data);
}

/* A state that grows by one entry in each iteration, an entry of a scan each. */
static const char growing[] = "graph g(x: i64[n], most: i64[]) {\n"
                              "  symbols counted k, counted m, counted trips\n"
                              "  %yes = const b1[] splat true\n"
                              "  %s, %all = loop trips %most while %yes count trips states %x : i64[m], i64[trips]"
                              " body(i: i64[], c: b1[], q: i64[k]) {\n"
                              "    %one = reshape %i : i64[1]\n"
                              "    %t = concat axis 0 %q, %one : i64[k + 1]\n"
                              "    %size = dim_value k : i64[]\n"
                              "    %go = map \"a < 6\" %size\n"
                              "    yield %go, %t, %size\n"
                              "  }\n"
                              "  return s = %s, all = %all\n}\n";

Test(structure, states_of_a_loop_may_grow)
{
    open_text(growing);
    int64_t x[3] = {70, 80, 90}, most = 100;
    NstNamedTensor in[2] = {tensor(NST_I64, x, 1, 3, 0, 0), tensor(NST_I64, &most, 0, 0, 0, 0)}, out[2] = {{0}};
    for (int round = 0; round < 4; round++) {
        static const int64_t limits[] = {100, 2, 0, 3}, states[] = {7, 5, 3, 6};
        most = limits[round];
        cr_assert_eq(nst_session_run(session, in, 2, out, 2, NULL), NST_OK, "%s", nst_error_text());
        cr_assert_eq(out[0].tensor.shape[0], states[round]);
        cr_assert_eq(out[1].tensor.shape[0], states[round] - 3);
        cr_assert_eq(memcmp(out[0].tensor.data, x, sizeof x), 0);
        for (int64_t k = 3; k < states[round]; k++) {
            cr_assert_eq(((int64_t *)out[0].tensor.data)[k], k - 3);
            cr_assert_eq(((int64_t *)out[1].tensor.data)[k - 3], k);
        }
        for (int k = 0; k < 2; k++) nst_tensor_release(&out[k].tensor);
    }
    int64_t small[4];
    out[0] = tensor(NST_I64, small, 1, 4, 0, 0);
    cr_assert_eq(nst_session_run(session, in, 2, out, 2, NULL),
                 NST_E_INVALID); /* six entries: the caller's memory is short */
    cr_assert_null(out[1].tensor.data);
}

static int32_t cancel_flag;
static void *cancel_later(void *arg)
{
    int64_t until = nst_os_now_ns() + 20000000;
    while (nst_os_now_ns() < until) continue;
    nst_cancel(arg);
    return NULL;
}

Test(structure, a_loop_without_end_is_cancelled)
{
    open_text("graph g(x: f32[4]) {\n  %yes = const b1[] splat true\n"
              "  %y = loop trips none while %yes states %x : f32[4] body(i: i64[], c: b1[], s: f32[4]) {\n"
              "    %t = map \"a * 0.5\" %s : f32[4]\n    yield %c, %t\n  }\n  return y = %y\n}\n");
    float x[4] = {1, 2, 3, 4};
    pthread_t other;
    NstNamedTensor in = tensor(NST_F32, x, 1, 4, 0, 0), y = {0};
    NstRunOptions options = {.cancel = &cancel_flag};
    cr_assert_eq(pthread_create(&other, NULL, cancel_later, &cancel_flag), 0);
    cr_assert_eq(nst_session_run(session, &in, 1, &y, 1, &options), NST_E_CANCELLED);
    pthread_join(other, NULL);
    cr_assert(strstr(nst_error_text(), "cancelled"), "%s", nst_error_text());
    cr_assert_null(y.tensor.data);
}

/* Memory that gives out at any allocation of a run is a status, and nothing leaks (the sanitizer build sees). */
Test(structure, no_memory_is_a_status)
{
    open_text(growing);
    int64_t x[3] = {70, 80, 90}, most = 5;
    NstNamedTensor in[2] = {tensor(NST_I64, x, 1, 3, 0, 0), tensor(NST_I64, &most, 0, 0, 0, 0)};
    int failures = 0;
    NstStatus status = NST_E_NOMEM;
    for (int64_t n = 1; n < 2000 && status != NST_OK; n++) {
        NstNamedTensor out[2] = {{0}};
        nst_arena_fail_after(n);
        status = nst_session_run(session, in, 2, out, 2, NULL);
        nst_arena_fail_after(0);
        cr_assert(status == NST_OK || status == NST_E_NOMEM, "%s", nst_error_text());
        failures += status != NST_OK;
        for (int k = 0; k < 2; k++) nst_tensor_release(&out[k].tensor);
    }
    cr_assert_eq(status, NST_OK);
    cr_assert_gt(failures, 2);
}

/* Sizes are read from integers of any type. */
Test(structure, sizes_are_read_from_every_integer_type)
{
    static const struct {
        const char *name;
        NstDtype dtype;
    } types[] = {{"i8", NST_I8},   {"u8", NST_U8},   {"i16", NST_I16}, {"u16", NST_U16},
                 {"i32", NST_I32}, {"u32", NST_U32}, {"i64", NST_I64}, {"u64", NST_U64}};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        open_text(nst_format(ctx.arena,
                             "graph g(x: %s[]) {\n  symbols value v in 0..120\n  %%s = reshape %%x : %s[] defines v\n"
                             "  %%i = iota v : i64[v]\n  return i = %%i\n}\n",
                             types[k].name, types[k].name));
        size_t n = nst_dtype_size(types[k].dtype);
        uint64_t size = n < 8 ? ~(uint64_t)0 << 8 * n | 100 : 100; /* what lies behind the element is not read */
        NstNamedTensor in = tensor(types[k].dtype, &size, 0, 0, 0, 0), out = {0};
        cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
        cr_assert_eq(out.tensor.shape[0], 100);
        nst_tensor_release(&out.tensor);
        memset(&size, 0xff, sizeof size);
        cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_SHAPE, "%s", types[k].name);
    }
}

/* --- sizes of zero ------------------------------------------------------------------------------------------- */

/* Padding and interior of an axis that may be empty. */
Test(structure, what_may_be_empty_can_be_padded)
{
    open_text("graph g(x: f32[n, m]) {\n  %v = const f32[] splat 7f32\n"
              "  %y = pad constant lo [0, 2] hi [0, 1] interior [0, 1] %x, %v : f32[n, 2*m + 2]\n"
              "  return y = %y\n}\n");
    float x[6] = {1, 2, 3, 4, 5, 6};
    static const float wanted[2][8] = {{7, 7, 1, 7, 2, 7, 3, 7}, {7, 7, 4, 7, 5, 7, 6, 7}};
    for (int64_t rows = 2; rows >= 0; rows--) {
        NstNamedTensor in = tensor(NST_F32, x, 2, rows, 3, 0), y = {0};
        cr_assert_eq(nst_session_run(session, &in, 1, &y, 1, NULL), NST_OK, "%s", nst_error_text());
        cr_assert(y.tensor.shape[0] == rows && y.tensor.shape[1] == 8);
        cr_assert(rows == 0 || memcmp(y.tensor.data, wanted, (size_t)rows * sizeof *wanted) == 0);
        nst_tensor_release(&y.tensor);
    }
    open_text("graph g(x: f32[n]) {\n  %v = const f32[] splat 7f32\n"
              "  %y = pad constant lo [1] hi [2] %x, %v : f32[n + 3]\n  return y = %y\n}\n");
    for (int64_t n = 2; n >= 0; n--) {
        NstNamedTensor in = tensor(NST_F32, x, 1, n, 0, 0), y = {0};
        cr_assert_eq(nst_session_run(session, &in, 1, &y, 1, NULL), NST_OK, "%s", nst_error_text());
        cr_assert_eq(y.tensor.shape[0], n + 3);
        for (int64_t k = 0; k < n + 3; k++) cr_assert_eq(((float *)y.tensor.data)[k], k >= 1 && k <= n ? x[k - 1] : 7);
        nst_tensor_release(&y.tensor);
    }
    open_text("graph g(x: f32[n]) {\n  %v = const f32[] splat 7f32\n"
              "  %y = pad constant lo [-2] hi [1] %x, %v : f32[n - 1]\n  return y = %y\n}\n");
    for (int64_t n = 6; n >= 1; n--) { /* two cropped at the front, one added at the end */
        NstNamedTensor in = tensor(NST_F32, x, 1, n, 0, 0), y = {0};
        cr_assert_eq(nst_session_run(session, &in, 1, &y, 1, NULL), NST_OK, "%s", nst_error_text());
        cr_assert_eq(y.tensor.shape[0], n - 1);
        for (int64_t k = 0; k < n - 1; k++) cr_assert_eq(((float *)y.tensor.data)[k], k + 2 < n ? x[k + 2] : 7);
        nst_tensor_release(&y.tensor);
    }
}

/* Facts count what bodies have; a profile names steps that are no kernels. */
Test(structure, facts_and_profiles_know_bodies)
{
    NstSessionFacts facts;
    NstProfile *profile;
    NstProfileStep step;
    open_text(growing);
    nst_session_facts(session, &facts);
    cr_assert_geq(facts.kernels, 3); /* two results copied, at least one kernel in the body */
    cr_assert_gt(facts.code_bytes, 64);
    cr_assert_eq(nst_profile_new(session, &profile), NST_OK);
    bool found = false;
    for (uint32_t k = 0; k < nst_profile_step_count(profile); k++) {
        cr_assert_eq(nst_profile_step(profile, k, &step), NST_OK);
        found = found || strcmp(step.name, "loop") == 0;
    }
    cr_assert(found);
    nst_profile_free(profile);
}
