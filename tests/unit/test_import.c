/* test_import.c: frontend/import.h: the shipped model, sizes, names. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include "ir/base/os.h"
#include "tests/unit/support_onnx.h"

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(import, .init = begin, .fini = end);

#define PIXELS 784

static void read_image(int digit, float *pixel)
{
    char *bytes;
    size_t n;
    NstStatus status =
        nst_os_read_file(&ctx, ctx.arena, nst_format(ctx.arena, "models/digits/%d.pgm", digit), 10000, &bytes, &n);
    cr_assert_eq(status, NST_OK, "%s", ctx.error);
    cr_assert_eq(n, PIXELS + 13);
    for (int k = 0; k < PIXELS; k++) pixel[k] = (float)(unsigned char)bytes[13 + k] / 255.0f;
}

Test(import, digits_equal_what_onnx_runtime_gives, .timeout = 60)
{
    char *bytes, *expected;
    size_t n, m;
    NstGraph *graph;
    NstTensorValue in = {.dtype = NST_F32, .rank = 4, .shape = {10, 1, 28, 28}, .bytes = 10 * PIXELS * sizeof(float)},
                   out;
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, "models/digits.onnx", 1 << 20, &bytes, &n), NST_OK);
    NstStatus status = nst_import_onnx(&ctx, ctx.arena, bytes, n, NULL, &graph);
    cr_assert_eq(status, NST_OK, "%s", ctx.error);
    in.data = nst_alloc(ctx.arena, in.bytes);
    for (int k = 0; k < 10; k++) read_image(k, (float *)in.data + k * PIXELS);
    status = nst_graph_interpret(&ctx, ctx.arena, graph, &in, 1, true, NULL, &out);
    cr_assert_eq(status, NST_OK, "%s", ctx.error);
    cr_assert(out.rank == 2 && out.shape[0] == 10 && out.shape[1] == 10);
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, "models/expected.tsv", 100000, &expected, &m), NST_OK);
    int rows = 0;
    for (char *line = strtok(expected, "\n"); line; line = strtok(NULL, "\n")) {
        char *at = line, *stop;
        long image = strtol(at, &stop, 10);
        if (stop == at) continue; /* the head */
        at = stop;
        for (int k = 0; k < 10; k++) {
            double wanted = strtod(at, &stop), given = (double)((float *)out.data)[image * 10 + k];
            cr_assert(stop != at && fabs(wanted - given) <= 1e-5, "image %ld, digit %d: %g, expected %g", image, k,
                      given, wanted);
            at = stop;
        }
        rows++;
    }
    cr_assert_eq(rows, 10);
}

#define END INT64_MIN

static NstGraph *import_or_fail(const OnnxModel *model, const NstImportOptions *options)
{
    NstGraph *graph;
    NstText bytes = onnx_bytes(model);
    nst_ctx_clear(&ctx);
    NstStatus status = nst_import_onnx(&ctx, ctx.arena, nst_text_get(&bytes), bytes.n, options, &graph);
    cr_assert_eq(status, NST_OK, "%s", ctx.error);
    return graph;
}

static const char *result_type(const NstGraph *graph, uint32_t k)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    nst_type_print(&text, graph->dims, nst_value_type(graph, nst_graph_region(graph, NST_GRAPH_REGION)->results.at[k]));
    return nst_text_get(&text);
}

static int count_prim(const NstGraph *graph, NstPrim prim)
{
    int n = 0;
    for (uint32_t k = 1; k < graph->nodes.n; k++) n += !graph->nodes.at[k]->dead && graph->nodes.at[k]->prim == prim;
    return n;
}

Test(import, large_weights_are_views_of_the_model)
{
    static const int64_t shape[] = {64, 1000, END};
    float *w = nst_alloc(ctx.arena, 64000 * sizeof *w);
    OnnxModel m = onnx_model(ctx.arena);
    w[63999] = 7;
    onnx_input(&m, "x", 1, shape);
    onnx_floats(&m, "w", shape, w, 64000);
    onnx_output(&m, "y", 1, shape);
    onnx_node(&m, "Add", "a", "x w", "y", NULL);
    NstText bytes = onnx_bytes(&m);
    NstArena *own = nst_arena_new(&ctx, ctx.arena);
    NstGraph *graph;
    cr_assert_eq(nst_import_onnx(&ctx, own, nst_text_get(&bytes), bytes.n, NULL, &graph), NST_OK, "%s", ctx.error);
    cr_assert_lt(nst_arena_bytes(own), 128 << 10, "%zu bytes", nst_arena_bytes(own));
    bool seen = false;
    for (uint32_t k = 1; k < graph->nodes.n; k++) {
        const NstNode *node = graph->nodes.at[k];
        if (node->dead || node->prim != NST_PRIM_CONST) continue;
        const char *at = node->attr.constant.data;
        seen = seen || (at > bytes.at && at + node->attr.constant.bytes <= bytes.at + bytes.n);
    }
    cr_assert(seen);
}

/* Shape -> Slice -> Concat -> Reshape: no size is read at run time. */
Test(import, sizes_are_tracked_through_shape_arithmetic)
{
    static const int64_t in[] = {-1, 4, 6, END}, out[] = {-1, 24, END}, one[] = {1, END};
    OnnxModel m = onnx_model(ctx.arena);
    onnx_input(&m, "x", 1, in);
    onnx_ints(&m, "zero", one, (int64_t[]){0}, 1);
    onnx_ints(&m, "one", one, (int64_t[]){1}, 1);
    onnx_ints(&m, "rest", one, (int64_t[]){-1}, 1);
    onnx_output(&m, "y", 1, out);
    onnx_output(&m, "z", 1, in);
    onnx_node(&m, "Shape", "s", "x", "shape", NULL);
    onnx_node(&m, "Slice", "l", "shape zero one", "n", NULL);
    NstText axis;
    nst_text_init(&axis, ctx.arena);
    onnx_attr_int(&axis, "axis", 0);
    onnx_node(&m, "Concat", "c", "n rest", "to", &axis);
    onnx_node(&m, "Reshape", "r", "x to", "y", NULL);
    onnx_node(&m, "Reshape", "back", "y shape", "z", NULL);
    NstGraph *graph = import_or_fail(&m, NULL);
    cr_expect_str_eq(result_type(graph, 0), "f32[N, 24]");
    cr_expect_str_eq(result_type(graph, 1), "f32[N, 4, 6]");
    cr_expect_eq(graph->sym_defs.n, 0);
    cr_expect_eq(count_prim(graph, NST_PRIM_ASSERT), 0);
    int64_t stated[] = {5, -1, -1};
    NstDeclaredInput declared = {"x", 3, stated};
    graph = import_or_fail(&m, &(NstImportOptions){.input = &declared, .n_inputs = 1});
    cr_expect_str_eq(result_type(graph, 0), "f32[5, 24]");
}

/* The list of pads as tracing exporters compute it: pairs of axes, reversed, turned, and made one list again. */
Test(import, sizes_are_tracked_through_matrices)
{
    static const int64_t shape[] = {2, 576, END}, four[] = {4, END}, two[] = {2, END}, one[] = {1, END};
    OnnxModel m = onnx_model(ctx.arena);
    NstText turn;
    nst_text_init(&turn, ctx.arena);
    onnx_attr_ints(&turn, "perm", 2, (const int64_t[]){1, 0});
    onnx_input(&m, "x", 1, shape);
    onnx_ints(&m, "pads", four, (const int64_t[]){3, 64, 0, 5}, 4); /* last axis first: before, after */
    onnx_ints(&m, "pairs", two, (const int64_t[]){-1, 2}, 2);
    onnx_ints(&m, "flat", one, (const int64_t[]){-1}, 1);
    onnx_ints(&m, "end", one, (const int64_t[]){INT64_MIN + 1}, 1);
    onnx_ints(&m, "axis", one, (const int64_t[]){0}, 1);
    onnx_node(&m, "Reshape", "n1", "pads pairs", "a", NULL);
    onnx_node(&m, "Slice", "n2", "a flat end axis flat", "b", NULL);
    onnx_node(&m, "Transpose", "n3", "b", "c", &turn);
    onnx_node(&m, "Reshape", "n4", "c flat", "d", NULL);
    onnx_node(&m, "Pad", "n5", "x d", "y", NULL);
    onnx_output(&m, "y", 1, shape);
    cr_assert_str_eq(result_type(import_or_fail(&m, NULL), 0), "f32[7, 643]");
}

Test(import, open_extents_as_exporters_write_them)
{
    static const int64_t shape[] = {ONNX_MINUS_ONE, ONNX_UNNAMED, ONNX_UNNAMED, -1, END};
    OnnxModel m = onnx_model(ctx.arena);
    onnx_input(&m, "x", 1, shape);
    onnx_output(&m, "y", 1, shape);
    onnx_node(&m, "Relu", "n1", "x", "y", NULL);
    cr_assert_str_eq(result_type(import_or_fail(&m, NULL), 0), "f32[x_d0, x_d1, x_d2, N]");
}

Test(import, initialisers_that_are_inputs_may_be_overridden)
{
    static const int64_t shape[] = {2, END};
    OnnxModel m = onnx_model(ctx.arena);
    onnx_input(&m, "x", 1, shape);
    onnx_input(&m, "w", 1, shape);
    onnx_floats(&m, "w", shape, (float[]){1, 2}, 2);
    onnx_output(&m, "y", 1, shape);
    onnx_node(&m, "Add", "a", "x w", "y", NULL);
    NstGraph *graph = import_or_fail(&m, NULL);
    cr_expect_eq(nst_graph_region(graph, NST_GRAPH_REGION)->params.n, 1);
    const char *names[] = {"w"};
    graph = import_or_fail(&m, &(NstImportOptions){.overridable = names, .n_overridable = 1});
    cr_expect_eq(nst_graph_region(graph, NST_GRAPH_REGION)->params.n, 2);
}

Test(import, inputs_that_decide_the_structure_are_named_and_can_be_fixed)
{
    static const int64_t shape[] = {2, 3, END}, one[] = {1, END}, out[] = {2, 1, END};
    const char *needs;
    NstGraph *graph;
    OnnxModel m = onnx_model(ctx.arena);
    m.opset = 18;
    onnx_input(&m, "x", 1, shape);
    onnx_input(&m, "axes", 7, one);
    onnx_output(&m, "y", 1, out);
    onnx_node(&m, "ReduceSum", "r", "x axes", "y", NULL);
    NstText bytes = onnx_bytes(&m);
    NstImportOptions options = {.needs = &needs};
    NstStatus status = nst_import_onnx(&ctx, ctx.arena, nst_text_get(&bytes), bytes.n, &options, &graph);
    cr_assert_eq(status, NST_E_UNSUPPORTED);
    cr_assert_str_eq(needs, "axes");
    int64_t axis = 1;
    NstFixedInput fixed = {"axes", {.dtype = NST_I64, .rank = 1, .shape = {1}, .data = &axis, .bytes = sizeof axis}};
    graph = import_or_fail(&m, &(NstImportOptions){.fixed = &fixed, .n_fixed = 1});
    cr_expect_str_eq(result_type(graph, 0), "f32[2, 1]");
    cr_expect_eq(nst_graph_region(graph, NST_GRAPH_REGION)->params.n, 2);
}

/* One contraction for all steps before the loop, one in it; states of invariant shape. */
Test(import, lstm_projects_its_input_before_the_loop)
{
    static const int64_t x[] = {-1, 2, 3, END}, w[] = {1, 16, 3, END}, r[] = {1, 16, 4, END}, y[] = {-1, 1, 2, 4, END};
    float zeros[64] = {0};
    OnnxModel m = onnx_model(ctx.arena);
    onnx_input(&m, "x", 1, x);
    onnx_floats(&m, "w", w, zeros, 48);
    onnx_floats(&m, "r", r, zeros, 64);
    onnx_output(&m, "y", 1, y);
    onnx_node(&m, "LSTM", "l", "x w r", "y", NULL);
    NstGraph *graph = import_or_fail(&m, NULL);
    cr_expect_str_eq(result_type(graph, 0), "f32[N, 1, 2, 4]");
    cr_expect_eq(count_prim(graph, NST_PRIM_CONTRACT), 2);
    cr_expect_eq(count_prim(graph, NST_PRIM_LOOP), 1);
}

Test(import, sparse_initialisers_are_dense_constants)
{
    static const int64_t shape[] = {3, END};
    const float two = 2;
    const int64_t at = 1;
    OnnxModel m = onnx_model(ctx.arena);
    NstText sparse, values, indices;
    nst_text_init(&sparse, ctx.arena);
    nst_text_init(&values, ctx.arena);
    nst_text_init(&indices, ctx.arena);
    pb_int(&values, 1, 1);
    pb_int(&values, 2, 1);
    pb_text(&values, 8, "w");
    pb_bytes(&values, 9, &two, 4);
    pb_int(&indices, 1, 1);
    pb_int(&indices, 2, 7);
    pb_bytes(&indices, 9, &at, 8);
    pb_message(&sparse, 1, &values);
    pb_message(&sparse, 2, &indices);
    pb_int(&sparse, 3, 3);
    pb_message(&m.graph, 15, &sparse);
    onnx_input(&m, "x", 1, shape);
    onnx_output(&m, "y", 1, shape);
    onnx_node(&m, "Add", "a", "x w", "y", NULL);
    float x[3] = {10, 20, 30};
    NstTensorValue in = {.dtype = NST_F32, .rank = 1, .shape = {3}, .data = x, .bytes = sizeof x}, out;
    NstGraph *graph = import_or_fail(&m, NULL);
    cr_assert_eq(nst_graph_interpret(&ctx, ctx.arena, graph, &in, 1, true, NULL, &out), NST_OK, "%s", ctx.error);
    const float *y = out.data;
    cr_expect(y[0] == 10 && y[1] == 22 && y[2] == 30);
}
