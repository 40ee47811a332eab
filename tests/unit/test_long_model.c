/* test_long_model.c: what models of many nodes cost: twice the nodes must take less than three times the time to read, to
 * inspect and to compile. */
#define _POSIX_C_SOURCE 200809L /* NOLINT: clock_gettime */
#include <criterion/criterion.h>
#include <time.h>
#include "nestor/inspect.h"
#include "tests/unit/support_engine.h"
#include "tests/unit/support_onnx.h"

#define MOST_TIMES 3.0 /* the cost of n nodes, for 2 n: 2 where all is linear, 4 where it is a square */
#define TRIES      4   /* the least of them counts: a busy machine adds to some */

SUPPORT_ENGINE_SUITE(long_model, .timeout = 250);

typedef struct Chain {
    const char *op[3]; /* in turn; "MatMul" and "Add" have a constant as second operand */
    int n_ops;
} Chain;

/* Nodes one after another over x[N, 8]. */
static NstText chain_model(const Chain *chain, int n)
{
    static const float w[64] = {0.5f}, b[8] = {0.25f};
    OnnxModel m = onnx_model(ctx.arena);
    const char *x = "x";
    onnx_input(&m, "x", 1, (int64_t[]){-1, 8, INT64_MIN});
    onnx_floats(&m, "MatMul", (int64_t[]){8, 8, INT64_MIN}, w, 64);
    onnx_floats(&m, "Add", (int64_t[]){8, INT64_MIN}, b, 8);
    for (int k = 0; k < n; k++) {
        const char *op = chain->op[k % chain->n_ops], *y = k == n - 1 ? "y" : nst_format(ctx.arena, "v%d", k);
        bool binary = strcmp(op, "MatMul") == 0 || strcmp(op, "Add") == 0;
        onnx_node(&m, op, y, binary ? nst_format(ctx.arena, "%s %s", x, op) : x, y, NULL);
        x = y;
    }
    onnx_output(&m, "y", 1, (int64_t[]){-1, 8, INT64_MIN});
    return onnx_bytes(&m);
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

typedef void Work(const NstText *bytes);

static double cost(Work *work, const NstText *bytes)
{
    double start = processor_seconds();
    work(bytes);
    return processor_seconds() - start;
}

static void expect_linear(Work *work, const NstText *small, const NstText *large, const char *what)
{
    double least[2] = {1e9, 1e9};
    for (int k = 0; k < TRIES && (k == 0 || least[1] >= MOST_TIMES * least[0]); k++) {
        double now[2] = {cost(work, small), cost(work, large)};
        for (int s = 0; s < 2; s++)
            if (now[s] < least[s]) least[s] = now[s];
    }
    cr_expect_lt(least[1], MOST_TIMES * least[0], "%s: %.3f s, and %.3f s for twice as much", what, least[0], least[1]);
}

static void compile(const NstText *bytes)
{
    NstModel *model;
    NstSession *session;
    NstEngine *own; /* whose cache is empty */
    NstEngineOptions options = {.threads = 1, .cache = ""};
    cr_assert_eq(nst_engine_new(&options, &own), NST_OK);
    support_engine_open(own, bytes, NULL, &model, &session);
    nst_session_free(session);
    nst_model_free(model);
    nst_engine_free(own);
}

static void expect_linear_chain(Chain chain, int n)
{
    NstText small = chain_model(&chain, n), large = chain_model(&chain, 2 * n);
    expect_linear(compile, &small, &large, chain.op[0]);
}

Test(long_model, compiling_a_chain_of_products)
{
    expect_linear_chain((Chain){{"MatMul", "Relu"}, 2}, 1500);
}

Test(long_model, compiling_a_chain_of_rows)
{
    expect_linear_chain((Chain){{"Softmax", "Add", "Add"}, 3}, 1500);
}

/* As old exporters write it: every weight is an input too. */
static NstText listed_weights(int n)
{
    static const float one[1] = {1};
    const int64_t shape[] = {1, INT64_MIN};
    OnnxModel m = onnx_model(ctx.arena);
    for (int k = 0; k < n; k++) {
        const char *name = nst_format(ctx.arena, "weight_of_the_layer_%d", k);
        onnx_input(&m, name, 1, shape);
        onnx_floats(&m, name, shape, one, 1);
    }
    onnx_input(&m, "x", 1, shape);
    onnx_node(&m, "Neg", "neg", "x", "y", NULL);
    onnx_output(&m, "y", 1, shape);
    return onnx_bytes(&m);
}

static void inspect(const NstText *bytes)
{
    NstModel *model;
    const NstModelInfo *info;
    cr_assert_eq(nst_model_open_memory(engine, "m", nst_text_get(bytes), bytes->n, &model), NST_OK);
    cr_assert_eq(nst_model_info(model, &info), NST_OK, "%s", nst_error_text());
    cr_assert_eq(info->n_inputs, 1);
    cr_assert_gt(info->n_overridable, 1000);
    nst_model_info_free(info);
    nst_model_free(model);
}

Test(long_model, inspecting_weights_that_are_inputs_too)
{
    NstText small = listed_weights(10000), large = listed_weights(20000);
    expect_linear(inspect, &small, &large, "weights that are inputs");
}
