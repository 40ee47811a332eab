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
    NstText attributes, axis, graph;
    nst_text_init(&attributes, ctx.arena);
    nst_text_init(&axis, ctx.arena);
    nst_text_init(&graph, ctx.arena);
    onnx_attr_int(&axis, "axis", 0);
    onnx_input(&body, "i", 7, scalar);
    onnx_input(&body, "go", 9, scalar);
    onnx_input(&body, "s", 1, one);
    onnx_node(&body, "Concat", "append", "s x", "longer", &axis);
    onnx_node(&body, "ReduceSum", "sum", "longer", "total", NULL);
    onnx_output(&body, "go", 9, scalar);
    onnx_output(&body, "longer", 1, one);
    onnx_output(&body, "total", 1, one);
    pb_text(&graph, 1, "body");
    pb_message(&graph, 6, &body.graph);
    pb_int(&graph, 20, 5);
    pb_message(&attributes, 5, &graph);
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
