/* test_graph_eval.c: the graph interpreter.  Texts of tests/graph/eval check themselves by asserts; a first line
 * "// expect STATUS message" says how a run must fail. */
#include <criterion/criterion.h>
#include <glob.h>
#include <math.h>
#include "ir/base/os.h"
#include "ir/graph.h"

static NstCtx ctx;

static void start(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void stop(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(graph_eval, .init = start, .fini = stop);

static NstGraph *parse(const char *text)
{
    NstGraph *graph;
    cr_assert_eq(nst_graph_parse(&ctx, ctx.arena, text, strlen(text), &graph), NST_OK, "%s", ctx.error);
    return graph;
}

static void check_file(const char *path)
{
    static const char mark[] = "// expect ";
    char *text;
    size_t n;
    NstTensorValue result[8];
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, path, 1 << 20, &text, &n), NST_OK, "%s", ctx.error);
    NstStatus status = nst_graph_interpret(&ctx, ctx.arena, parse(text), NULL, 0, true, NULL, result);
    if (strncmp(text, mark, sizeof mark - 1) != 0) {
        cr_expect_eq(status, NST_OK, "%s: %s", path, ctx.error);
    } else {
        const char *end = strchr(text, '\n');
        const char *wanted = nst_copy_text(ctx.arena, text + sizeof mark - 1, (size_t)(end - text) - sizeof mark + 1);
        const char *got = nst_format(ctx.arena, "%s %s", nst_status_name(status), ctx.error);
        cr_expect_str_eq(got, wanted, "%s: %s, expected %s", path, got, wanted);
    }
    nst_ctx_clear(&ctx);
}

Test(graph_eval, texts_check_themselves)
{
    glob_t found;
    cr_assert_eq(glob("tests/graph/eval/*.nsg", 0, NULL, &found), 0);
    cr_assert_geq(found.gl_pathc, 10);
    for (size_t k = 0; k < found.gl_pathc; k++) check_file(found.gl_pathv[k]);
    globfree(&found);
}

Test(graph_eval, input_symbols_are_solved_from_shapes)
{
    NstGraph *graph = parse("graph g(x: f32[2*n, m], y: f32[m + n]) { symbols n in 1..8\n"
                            "  %a = dim_value n\n  %b = dim_value m * n\n  return a = %a, b = %b }");
    NstTensorValue in[2] = {{.dtype = NST_F32, .rank = 2, .shape = {6, 5}, .data = (float[30]){0}, .bytes = 120},
                            {.dtype = NST_F32, .rank = 1, .shape = {8}, .data = (float[8]){0}, .bytes = 32}};
    NstTensorValue out[2];
    cr_assert_eq(nst_graph_interpret(&ctx, ctx.arena, graph, in, 2, true, NULL, out), NST_OK, "%s", ctx.error);
    cr_expect_eq(*(int64_t *)out[0].data, 3);
    cr_expect_eq(*(int64_t *)out[1].data, 15);
    in[0].shape[0] = 5;
    cr_expect_eq(nst_graph_interpret(&ctx, ctx.arena, graph, in, 2, true, NULL, out), NST_E_SHAPE);
    nst_ctx_clear(&ctx);
    in[0].shape[0] = 4;
    cr_expect_eq(nst_graph_interpret(&ctx, ctx.arena, graph, in, 2, true, NULL, out), NST_E_SHAPE);
    cr_expect_str_eq(ctx.error, "input 'y' has extent 8 at axis 0, allowed: 7");
}

/* Sums by the order that ir/order.h states, written out once more. */
static float lanes_sum(const float *x, int n, int lanes)
{
    float state[64] = {0};
    for (int i = 0; i < n; i++) state[i % lanes] += x[i];
    for (int h = lanes / 2; h > 0; h /= 2)
        for (int l = 0; l < h; l++) state[l] += state[l + h];
    return state[0];
}

static void check_sum(int n, int lanes)
{
    const char *text = nst_format(ctx.arena,
                                  "graph g() { %%x = const f32[%d] seed 9\n %%s = reduce \"a + b\" axes [0] %%x\n"
                                  " return s = %%s }",
                                  n);
    float *x = NST_NEW_ARRAY(ctx.arena, float, n);
    NstTensorValue out;
    nst_const_fill_seeded(NST_F32, x, (size_t)n, 9);
    NstStatus status = nst_graph_interpret(&ctx, ctx.arena, parse(text), NULL, 0, true, NULL, &out);
    cr_assert_eq(status, NST_OK, "%s", ctx.error);
    cr_expect_eq(*(float *)out.data, lanes_sum(x, n, lanes), "%d elements", n);
}

/* The same for blocks of a product's sum, of column `at` of [k, 3]. */
static float block_sum(const float *x, const float *w, int k, int block, int at)
{
    float total = 0;
    for (int first = 0; first < k; first += block) {
        float sum = 0;
        for (int i = first; i < k && i < first + block; i++) sum = fmaf(x[i], w[3 * i + at], sum);
        total = first ? total + sum : sum;
    }
    return total;
}

static void check_product(const char *block, int k, int length)
{
    const char *text = nst_format(ctx.arena,
                                  "graph g() { %%x = const f32[1, %d] seed 3\n %%w = const f32[%d, 3] seed 4\n"
                                  " %%s = contract \"ik,kj->ij\" %s%%x, %%w\n return s = %%s }",
                                  k, k, block);
    float *x = NST_NEW_ARRAY(ctx.arena, float, k), *w = NST_NEW_ARRAY(ctx.arena, float, 3 * k);
    NstTensorValue out;
    nst_const_fill_seeded(NST_F32, x, (size_t)k, 3);
    nst_const_fill_seeded(NST_F32, w, (size_t)(3 * k), 4);
    NstStatus status = nst_graph_interpret(&ctx, ctx.arena, parse(text), NULL, 0, true, NULL, &out);
    cr_assert_eq(status, NST_OK, "%s", ctx.error);
    for (int at = 0; at < 3; at++)
        cr_expect_eq(((float *)out.data)[at], block_sum(x, w, k, length, at), "%d elements in blocks of %d", k, length);
}

Test(graph_eval, products_sum_in_blocks)
{
    check_product("", 256, 256);
    check_product("", 257, 256);
    check_product("", 1000, 256);
    check_product("block whole ", 1000, 1000);
    check_product("block 7 ", 50, 7);
    check_product("block 1 ", 9, 1);
}

Test(graph_eval, reduce_sums_in_lanes_and_a_tree)
{
    check_sum(31, 1);
    check_sum(32, 16);
    check_sum(255, 16);
    check_sum(256, 64);
    check_sum(1001, 64);
}
