/* test_model_loop.c: a loop of a model through a session: compiled and interpreted. */
#include <criterion/criterion.h>
#include "nestor/session.h"
#include "runtime/compiler.h"
#include "tests/unit/support_onnx.h"

extern const NstCompilerTable nst_compiler_table;

static NstEngine *engine;
static NstModel *model;
static NstSession *session;

static void begin(void)
{
    nst_compiler_set(&nst_compiler_table);
    NstEngineOptions options = {.threads = 1, .cache = ""};
    cr_assert_eq(nst_engine_new(&options, &engine), NST_OK, "%s", nst_error_text());
}

static void end(void)
{
    nst_session_free(session);
    nst_model_free(model);
    nst_engine_free(engine);
}

TestSuite(model_loop, .init = begin, .fini = end, .timeout = 60);

/* A loop that appends to a state: its length is known after the run; compiled as interpreted.  What the body declares of the
 * state's shape is an exporter's slip. */
Test(model_loop, states_may_grow)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    static const int64_t scalar[] = {INT64_MIN}, one[] = {1, INT64_MIN}, any[] = {-1, INT64_MIN};
    OnnxModel m = onnx_model(ctx.arena), body = onnx_model(ctx.arena);
    NstText attributes, axis;
    nst_text_init(&attributes, ctx.arena);
    nst_text_init(&axis, ctx.arena);
    onnx_attr_int(&axis, "axis", 0);
    onnx_input(&body, "i", 7, scalar);
    onnx_input(&body, "go", 9, scalar);
    onnx_input(&body, "s", 1, one);
    onnx_node(&body, "Concat", "append", "s x", "longer", &axis);
    onnx_node(&body, "ReduceSum", "sum", "longer", "total", NULL);
    onnx_output(&body, "go", 9, scalar);
    onnx_output(&body, "longer", 1, one);
    onnx_output(&body, "total", 1, one);
    onnx_attr_graph(&attributes, "body", &body);
    onnx_input(&m, "n", 7, scalar);
    onnx_input(&m, "x", 1, one);
    onnx_output(&m, "y", 1, any);
    onnx_output(&m, "totals", 1, (int64_t[]){-1, 1, INT64_MIN});
    onnx_node(&m, "Loop", "loop", "n - x", "y totals", &attributes);
    NstText bytes = onnx_bytes(&m);
    cr_assert_eq(nst_model_open_memory(engine, "m", nst_text_get(&bytes), bytes.n, &model), NST_OK);
    for (int interpret = 0; interpret < 2; interpret++) {
        NstSessionOptions options = {.interpret = interpret};
        cr_assert_eq(nst_session_new(model, &options, &session), NST_OK, "%s", nst_error_text());
        for (int64_t n = 0; n < 4; n += 3) {
            float x = 2;
            int64_t trips = n;
            NstNamedTensor in[2] = {{"n", {.dtype = NST_I64, .data = &trips, .bytes = 8}},
                                    {"x", {.dtype = NST_F32, .rank = 1, .shape = {1}, .data = &x, .bytes = 4}}},
                           out[2] = {{.name = "y"}, {.name = "totals"}};
            cr_assert_eq(nst_session_run(session, in, 2, out, 2, NULL), NST_OK, "%s", nst_error_text());
            cr_assert_eq(out[0].tensor.shape[0], n + 1);
            cr_assert_eq(out[1].tensor.shape[0], n);
            for (int64_t k = 0; k <= n; k++) cr_assert_eq(((float *)out[0].tensor.data)[k], 2);
            for (int64_t k = 0; k < n; k++) cr_assert_eq(((float *)out[1].tensor.data)[k], (float)(2 * k + 4));
            for (int k = 0; k < 2; k++) nst_tensor_release(&out[k].tensor);
        }
        nst_session_free(session);
        session = NULL;
    }
    nst_ctx_dispose(&ctx);
}

/* A body that adds row e of x to its state and gives the sums; a loop gathers the row, a scan is given it. */
static OnnxModel sum_body(NstArena *arena, bool scan)
{
    static const int64_t scalar[] = {INT64_MIN}, two[] = {2, INT64_MIN};
    OnnxModel body = onnx_model(arena);
    if (!scan) {
        onnx_input(&body, "i", 7, scalar);
        onnx_input(&body, "go", 9, scalar);
        onnx_output(&body, "go", 9, scalar);
    }
    onnx_input(&body, "s", 1, two);
    if (scan)
        onnx_input(&body, "e", 1, two);
    else
        onnx_node(&body, "Gather", "row", "x i", "e", NULL);
    onnx_node(&body, "Add", "sum", "s e", "more", NULL);
    onnx_node(&body, "Identity", "copy", "more", "given", NULL);
    onnx_output(&body, "more", 1, two);
    onnx_output(&body, "given", 1, two);
    return body;
}

/* Scan of an axis without elements, Loop of no trips over one: the state as it was and no rows; sizes declared or open. */
Test(model_loop, no_steps_give_no_rows)
{
    static const int64_t scalar[] = {INT64_MIN}, two[] = {2, INT64_MIN};
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    for (int variant = 0; variant < 8; variant++) {
        bool scan = variant & 1, open = variant & 2;
        NstSessionOptions options = {.interpret = variant >= 4};
        OnnxModel m = onnx_model(ctx.arena), body = sum_body(ctx.arena, scan);
        NstText attributes;
        nst_text_init(&attributes, ctx.arena);
        onnx_attr_graph(&attributes, "body", &body);
        if (scan) onnx_attr_int(&attributes, "num_scan_inputs", 1);
        onnx_input(&m, "n", 7, scalar);
        onnx_input(&m, "state", 1, two);
        onnx_input(&m, "x", 1, (int64_t[]){open ? -1 : 0, 2, INT64_MIN});
        onnx_output(&m, "last", 1, two);
        onnx_output(&m, "all", 1, (int64_t[]){-1, 2, INT64_MIN});
        onnx_node(&m, scan ? "Scan" : "Loop", "loop", scan ? "state x" : "n - state", "last all", &attributes);
        NstText bytes = onnx_bytes(&m);
        cr_assert_eq(nst_model_open_memory(engine, "m", nst_text_get(&bytes), bytes.n, &model), NST_OK);
        cr_assert_eq(nst_session_new(model, &options, &session), NST_OK, "%s", nst_error_text());
        float state[2] = {3, -4}, none[2];
        int64_t trips = 0;
        NstNamedTensor in[3] = {{"n", {.dtype = NST_I64, .data = &trips, .bytes = 8}},
                                {"state", {.dtype = NST_F32, .rank = 1, .shape = {2}, .data = state, .bytes = 8}},
                                {"x", {.dtype = NST_F32, .rank = 2, .shape = {0, 2}, .data = none, .bytes = 0}}},
                       out[2] = {{.name = "last"}, {.name = "all"}};
        cr_assert_eq(nst_session_run(session, in, 3, out, 2, NULL), NST_OK, "variant %d: %s", variant,
                     nst_error_text());
        cr_assert_eq(out[1].tensor.shape[0], 0);
        for (int k = 0; k < 2; k++) cr_assert_eq(((float *)out[0].tensor.data)[k], state[k]);
        for (int k = 0; k < 2; k++) nst_tensor_release(&out[k].tensor);
        nst_session_free(session);
        nst_model_free(model);
        session = NULL;
        model = NULL;
    }
    nst_ctx_dispose(&ctx);
}

/* A body of which no step can run where x has no row, or more than one: all of it is one row.  Its scan has fewer entries than x
 * has rows. */
static OnnxModel one_row_body(NstArena *arena, bool scan)
{
    static const int64_t scalar[] = {INT64_MIN}, two[] = {2, INT64_MIN}, one[] = {1, INT64_MIN}, row = 2;
    OnnxModel body = onnx_model(arena);
    NstText window;
    nst_text_init(&window, arena);
    onnx_attr_ints(&window, "kernel_shape", 1, &row);
    if (!scan) {
        onnx_input(&body, "i", 7, scalar);
        onnx_input(&body, "go", 9, scalar);
        onnx_output(&body, "go", 9, scalar);
    }
    onnx_input(&body, "s", 1, two);
    if (scan) onnx_input(&body, "given", 1, two);
    onnx_ints(&body, "shape", one, &row, 1);
    onnx_node(&body, "Reshape", "flat", "x shape", "e", NULL);
    onnx_node(&body, "Add", "sum", "s e", "more", NULL);
    onnx_node(&body, "MaxPool", "pool", "columns", "pooled", &window);
    onnx_output(&body, "more", 1, two);
    onnx_output(&body, "pooled", 1, (int64_t[]){1, 2, -1, INT64_MIN});
    return body;
}

typedef struct OneRow {
    bool scan, open, constant, interpret; /* constant: the number of trips */
    int64_t rows, trips;
} OneRow;

static void open_one_row(NstArena *arena, const OneRow *test)
{
    static const int64_t scalar[] = {INT64_MIN}, two[] = {2, INT64_MIN};
    const int64_t x[] = {test->open ? -1 : test->rows, 2, INT64_MIN}, columns[] = {1, 2, x[0], INT64_MIN};
    OnnxModel m = onnx_model(arena), body = one_row_body(arena, test->scan);
    NstText attributes;
    nst_text_init(&attributes, arena);
    onnx_attr_graph(&attributes, "body", &body);
    if (test->scan) onnx_attr_int(&attributes, "num_scan_inputs", 1);
    onnx_input(&m, "state", 1, two);
    onnx_input(&m, "x", 1, x);
    onnx_input(&m, "columns", 1, columns);
    if (test->constant)
        onnx_ints(&m, "n", scalar, &test->trips, 1);
    else
        onnx_input(&m, "n", 7, scalar);
    onnx_output(&m, "last", 1, two);
    onnx_output(&m, "all", 1, NULL);
    onnx_node(&m, test->scan ? "Scan" : "Loop", "loop", test->scan ? "state x" : "n - state", "last all", &attributes);
    NstText bytes = onnx_bytes(&m);
    cr_assert_eq(nst_model_open_memory(engine, "m", nst_text_get(&bytes), bytes.n, &model), NST_OK);
}

/* What the session says; where it runs, the state is as it was and there are no entries. */
static NstStatus run_one_row(const OneRow *test)
{
    static const int64_t shape[] = {0, 1, 2, 0};
    NstSessionOptions options = {.interpret = test->interpret};
    NstStatus status = nst_session_new(model, &options, &session);
    if (status != NST_OK) return status;
    float state[2] = {3, -4}, x[4] = {0};
    size_t bytes = (size_t)test->rows * 8;
    int64_t trips = test->trips;
    NstNamedTensor in[4] = {{"state", {.dtype = NST_F32, .rank = 1, .shape = {2}, .data = state, .bytes = 8}},
                            {"x", {.dtype = NST_F32, .rank = 2, .shape = {test->rows, 2}, .data = x, .bytes = bytes}},
                            {"columns",
                             {.dtype = NST_F32, .rank = 3, .shape = {1, 2, test->rows}, .data = x, .bytes = bytes}},
                            {"n", {.dtype = NST_I64, .data = &trips, .bytes = 8}}},
                   out[2] = {{.name = "last"}, {.name = "all"}};
    status = nst_session_run(session, in, test->constant ? 3 : 4, out, 2, NULL);
    if (status != NST_OK) return status;
    cr_expect_eq(out[1].tensor.bytes, 0);
    cr_expect_eq(out[1].tensor.rank, 4);
    for (int axis = 0; axis < 4; axis++) cr_expect_eq(out[1].tensor.shape[axis], shape[axis]);
    for (int k = 0; k < 2; k++) cr_expect_eq(((float *)out[0].tensor.data)[k], state[k]);
    for (int k = 0; k < 2; k++) nst_tensor_release(&out[k].tensor);
    return NST_OK;
}

/* Sizes with which a body is impossible are an error only if there is a step; what it gives then is as long as it declares, or
 * empty.  Less than no steps are none. */
Test(model_loop, impossible_bodies_that_do_not_run)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    for (int variant = 0; variant < 48; variant++) {
        OneRow test = {.scan = variant & 1, .open = variant & 2, .interpret = variant & 4, .constant = variant & 8};
        bool steps = variant / 16 == 2;
        test.rows = test.scan && steps ? 2 : 0;
        test.trips = steps ? 2 : variant / 16 == 1 ? -3 : 0;
        open_one_row(ctx.arena, &test);
        NstStatus status = run_one_row(&test);
        bool refused = status == NST_E_SHAPE || status == NST_E_ASSERT;
        cr_expect(steps ? refused : status == NST_OK, "variant %d: status %d %s", variant, status, nst_error_text());
        nst_session_free(session);
        nst_model_free(model);
        session = NULL;
        model = NULL;
    }
    nst_ctx_dispose(&ctx);
}

/* A loop of a known number of steps whose state an operand of another open size widens: the size of what it scans is the body's
 * own, and has a value outside. */
Test(model_loop, scans_of_states_of_open_sizes)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    static const int64_t scalar[] = {INT64_MIN}, n[] = {-1, INT64_MIN}, other[] = {ONNX_UNNAMED, INT64_MIN}, trips = 2;
    OnnxModel m = onnx_model(ctx.arena), body = onnx_model(ctx.arena);
    NstText attributes;
    nst_text_init(&attributes, ctx.arena);
    onnx_input(&body, "i", 7, scalar);
    onnx_input(&body, "go", 9, scalar);
    onnx_input(&body, "s", 1, NULL);
    onnx_node(&body, "Add", "widen", "s b", "t", NULL);
    onnx_node(&body, "Neg", "turn", "t", "u", NULL);
    onnx_output(&body, "go", 9, scalar);
    onnx_output(&body, "t", 1, NULL);
    onnx_output(&body, "u", 1, NULL);
    onnx_attr_graph(&attributes, "body", &body);
    onnx_input(&m, "a", 1, n);
    onnx_input(&m, "b", 1, other);
    onnx_ints(&m, "trips", scalar, &trips, 1);
    onnx_output(&m, "y", 1, NULL);
    onnx_output(&m, "each", 1, NULL);
    onnx_node(&m, "Loop", "loop", "trips - a", "y each", &attributes);
    NstText bytes = onnx_bytes(&m);
    cr_assert_eq(nst_model_open_memory(engine, "m", nst_text_get(&bytes), bytes.n, &model), NST_OK);
    for (int interpret = 0; interpret < 2; interpret++) {
        NstSessionOptions options = {.interpret = interpret};
        cr_assert_eq(nst_session_new(model, &options, &session), NST_OK, "%s", nst_error_text());
        for (int64_t length = 1; length <= 3; length += 2) {
            float a[] = {1, 2, 3}, b[] = {10, 20, 30};
            NstNamedTensor in[2] = {
                {"a", {.dtype = NST_F32, .rank = 1, .shape = {length}, .data = a, .bytes = (size_t)length * 4}},
                {"b", {.dtype = NST_F32, .rank = 1, .shape = {3}, .data = b, .bytes = sizeof b}}};
            NstNamedTensor out[2] = {{.name = "y"}, {.name = "each"}};
            cr_assert_eq(nst_session_run(session, in, 2, out, 2, NULL), NST_OK, "%s", nst_error_text());
            cr_assert_eq(out[0].tensor.shape[0], 3);
            cr_assert_eq(out[1].tensor.shape[0], 2);
            cr_assert_eq(out[1].tensor.shape[1], 3);
            for (int k = 0; k < 6; k++)
                cr_assert_eq(((float *)out[1].tensor.data)[k],
                             -(a[length == 1 ? 0 : k % 3] + b[k % 3] * (float)(k / 3 + 1)));
            for (int k = 0; k < 2; k++) nst_tensor_release(&out[k].tensor);
        }
        nst_session_free(session);
        session = NULL;
    }
    nst_ctx_dispose(&ctx);
}
