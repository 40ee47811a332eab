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
