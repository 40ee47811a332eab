/* test_graph_build.c: the builder: broadcasting, narrow floats, asserts for what cannot be proven, poison and its messages. */
#include <criterion/criterion.h>
#include "ir/build.h"
#include "ir/order.h"

static NstCtx ctx;
static NstBuild b;

static void start(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    nst_build_init(&b, &ctx, nst_graph_new(ctx.arena, "g"), NST_GRAPH_REGION);
}

static void stop(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(graph_build, .init = start, .fini = stop);

/* A param of a type given as text. */
static NstVal param(const char *name, const char *text)
{
    NstType type;
    cr_assert_eq(nst_type_parse(&ctx, ctx.arena, b.graph->dims, &text, &type), NST_OK, "%s", ctx.error);
    return nst_build_param(&b, name, type);
}

static void expect_type(NstVal value, const char *wanted)
{
    NstText text;
    cr_assert_eq(nst_build_status(&b), NST_OK, "%s", ctx.error);
    nst_text_init(&text, ctx.arena);
    nst_type_print(&text, b.graph->dims, nst_value_type(b.graph, value));
    cr_expect_str_eq(nst_text_get(&text), wanted);
}

static void expect_error(NstStatus status, const char *wanted)
{
    cr_expect_eq(nst_build_status(&b), status, "%s", nst_status_name(nst_build_status(&b)));
    cr_expect_str_eq(ctx.error, wanted);
}

static uint32_t count(NstPrim prim)
{
    uint32_t n = 0;
    for (uint32_t k = 1; k < b.graph->nodes.n; k++)
        n += !b.graph->nodes.at[k]->dead && b.graph->nodes.at[k]->prim == prim;
    return n;
}

Test(graph_build, map_broadcasts_trailing_axes)
{
    NstVal in[3] = {param("x", "f32[n, 3]"), param("y", "f32[3]"), param("z", "f32[n, 1]")};
    expect_type(nst_build_map(&b, "a * b + c", 3, in, NULL, 0), "f32[n, 3]");
    in[0] = param("u", "f32[n]");
    in[1] = param("v", "f32[m]");
    expect_type(nst_build_map(&b, "a < b", 2, in, NULL, 0), "b1[min(n, min(m, 1))*max(n, m)]");
}

Test(graph_build, narrow_floats_compute_wide_and_come_back)
{
    NstVal x = param("x", "f16[n, 300]"), w = param("w", "f16[300, 4]"), in[2] = {x, w};
    int axis = 1;
    expect_type(nst_build_map(&b, "a * a", 1, &x, NULL, 0), "f16[n, 300]");
    expect_type(nst_build_reduce(&b, x, "a + b", 1, &axis, true), "f16[n, 1]");
    NstVal y = nst_build_contract(&b, "ik,kj->ij", 2, in, NST_DTYPE_NONE);
    expect_type(y, "f16[n, 4]");
    cr_expect_eq(nst_value_node(b.graph, y)->prim, NST_PRIM_CONVERT);
    expect_type(nst_build_contract(&b, "ik,kj->ij", 2, in, NST_F32), "f32[n, 4]");
}

Test(graph_build, nothing_is_built_for_what_changes_nothing)
{
    NstVal x = param("x", "f32[n, 3]");
    const NstType *type = nst_value_type(b.graph, x);
    cr_expect_eq(nst_build_reshape(&b, x, 2, type->shape).i, x.i);
    cr_expect_eq(nst_build_permute(&b, x, (int[]){0, 1}).i, x.i);
    cr_expect_eq(nst_build_convert(&b, x, NST_F32, false).i, x.i);
    cr_expect_eq(nst_build_concat(&b, 1, &x, 0).i, x.i);
    cr_expect_eq(b.graph->nodes.n, 2);
}

Test(graph_build, unproven_equalities_are_asserted_once)
{
    NstVal in[2] = {param("x", "f32[n, 3]"), param("y", "f32[m, 3]")};
    expect_type(nst_build_concat(&b, 2, in, 1), "f32[n, 6]");
    cr_expect_eq(count(NST_PRIM_ASSERT), 1);
    expect_type(nst_build_concat(&b, 2, in, 1), "f32[n, 6]");
    cr_expect_eq(count(NST_PRIM_ASSERT), 1); /* a fact by now */
    expect_type(nst_build_concat(&b, 2, in, 0), "f32[n + m, 3]");
    cr_expect_eq(nst_graph_verify(&ctx, b.graph), NST_OK, "%s", ctx.error);
}

/* Two extents below 0 have a product above it, and would be read as elements that nobody wrote. */
Test(graph_build, extents_that_may_be_negative_are_asserted_once)
{
    NstVal x = param("x", "f32[n, m]");
    NstDim two = nst_dim_const(b.graph->dims, 2), none = nst_dim_const(b.graph->dims, 0);
    NstWindowAxis axis[] = {{0, two, 1, 1, none, none}, {1, two, 1, 1, none, none}};
    expect_type(nst_build_window(&b, x, 2, axis, (NstVal){0}), "f32[n - 1, m - 1, 2, 2]");
    cr_expect_eq(count(NST_PRIM_ASSERT), 2);
    NstVal y = nst_build_window(&b, x, 2, axis, (NstVal){0});
    nst_build_map(&b, "-a", 1, &y, NULL, 0);
    cr_expect_eq(count(NST_PRIM_ASSERT), 2);
    nst_build_iota(&b, nst_value_type(b.graph, x)->shape[0]);
    cr_expect_eq(count(NST_PRIM_ASSERT), 2);
    cr_expect_eq(nst_graph_verify(&ctx, b.graph), NST_OK, "%s", ctx.error);
}

Test(graph_build, first_error_wins_and_says_where)
{
    b.origin = nst_origin_of(b.graph->origins, "fc1 (MatMul)");
    NstVal in[2] = {param("x", "f32[2, 3]"), param("y", "f32[4, 5]")};
    NstVal y = nst_build_contract(&b, "ik,kj->ij", 2, in, NST_DTYPE_NONE);
    cr_expect_eq(y.i, 0);
    y = nst_build_map(&b, "a + 1", 1, &y, NULL, 0);
    cr_expect_eq(y.i, 0);
    expect_error(NST_E_SHAPE, "contract: extents of one label: 3 and 4, allowed: equal; at fc1 (MatMul)");
}

Test(graph_build, absent_operands_poison)
{
    NstVal none = {0};
    nst_build_map(&b, "a + 1", 1, &none, NULL, 0);
    cr_expect_eq(nst_build_status(&b), NST_E_INVALID);
}

Test(graph_build, bad_formulas_and_equations_are_errors)
{
    NstVal x = param("x", "f32[2]"), in[2] = {x, x};
    nst_build_contract(&b, "i,i-i", 2, in, NST_DTYPE_NONE);
    expect_error(NST_E_PARSE, "equation \"i,i-i\" ends before \"->\"");
    nst_ctx_clear(&ctx);
    b.status = NST_OK;
    nst_build_contract(&b, "i,ij->i", 2, in, NST_DTYPE_NONE);
    expect_error(NST_E_SHAPE, "equation \"i,ij->i\": input 1 has rank 1, allowed: 2");
    nst_ctx_clear(&ctx);
    b.status = NST_OK;
    int axis = 0;
    nst_build_reduce(&b, x, "a - b", 1, &axis, false);
    expect_error(NST_E_INVALID,
                 "combiner \"a - b\" has no known neutral element, allowed: + * min max & | ^ of a and b");
}

Test(graph_build, run_time_sizes)
{
    NstVal k = param("k", "i64[]");
    NstDim dim = nst_build_value_dim(&b, k, "k", 0, 100);
    expect_type(nst_build_iota(&b, dim), "i64[k]");
    NstDim same = nst_build_value_dim(&b, nst_build_dim_value(&b, dim), NULL, 0, 100);
    cr_expect(nst_dim_same(dim, same));
    cr_expect_eq(nst_graph_sym_def(b.graph, nst_dims_find_sym(b.graph->dims, "k", 1)).i, k.i);
    NstVal x = param("x", "f32[n]"), out;
    NstSym count;
    NstVal mask = nst_build_map(&b, "a > 0", 1, &x, NULL, 0);
    cr_expect_eq(nst_build_compact(&b, mask, 1, &x, 0, &out, &count), NST_OK);
    expect_type(out, "f32[count]");
}

/* if and loop whose results change shape count anew. */
Test(graph_build, structure_types)
{
    NstVal c = param("c", "b1[]"), x = param("x", "f32[4]"), y = param("y", "f32[n]"), out[2];
    NstBuild inner, other;
    NstRegionId then_region = nst_build_region(&b, &inner), else_region = nst_build_region(&b, &other);
    nst_build_results(&inner, 1, &x, NULL);
    nst_build_results(&other, 1, &y, NULL);
    cr_assert_eq(nst_build_if(&b, c, then_region, else_region, out, 1), NST_OK, "%s", ctx.error);
    expect_type(out[0], "f32[branch]");
    NstRegionId body = nst_build_region(&b, &inner);
    nst_build_param(&inner, "i", nst_tensor_type(ctx.arena, NST_I64, 0, NULL));
    NstVal go = nst_build_param(&inner, "go", nst_tensor_type(ctx.arena, NST_BOOL, 0, NULL));
    NstVal state = nst_build_param(&inner, "s", *nst_value_type(b.graph, x)), results[3] = {go, state, state};
    nst_build_results(&inner, 3, results, NULL);
    NstVal trips = nst_build_dim_value(&b, nst_value_type(b.graph, y)->shape[0]), none = {0};
    cr_assert_eq(nst_build_loop(&b, trips, none, 1, &x, body, out, 2), NST_OK, "%s", ctx.error);
    expect_type(out[0], "f32[4]");
    expect_type(out[1], "f32[n, 4]");
    cr_expect_eq(nst_graph_verify(&ctx, b.graph), NST_OK, "%s", ctx.error);
}

Test(graph_build, regions_nest_to_a_limit)
{
    NstBuild level[40];
    level[0] = b;
    int depth = 0;
    while (depth < 39 && level[depth].status == NST_OK) {
        nst_build_region(&level[depth], &level[depth + 1]);
        depth++;
    }
    cr_expect_eq(depth, 33);
    cr_expect_eq(level[depth].status, NST_E_LIMIT);
}

Test(graph_build, order_of_sums)
{
    NstVal x = param("x", "f32[8, 300]"), y = param("y", "f32[9, 300]"), xy[2] = {x, y};
    NstVal dot = nst_build_contract(&b, "ik,jk->ij", 2, xy, NST_DTYPE_NONE);
    cr_expect_eq(nst_value_node(b.graph, dot)->attr.contract.lanes, 16);
    const int64_t shape[2] = {9, 300};
    NstVal xw[2] = {x, nst_build_seeded(&b, NST_F32, 2, shape, 1)};
    NstVal product = nst_build_contract(&b, "ik,jk->ij", 2, xw, NST_DTYPE_NONE);
    cr_expect_eq(nst_value_node(b.graph, product)->attr.contract.lanes, 1);
    cr_expect_eq(nst_value_node(b.graph, product)->attr.contract.block, NST_ORDER_BLOCK);
    cr_expect_eq(nst_value_node(b.graph, dot)->attr.contract.block, NST_ORDER_WHOLE, "lanes are blocks enough");
    NstVal rows[2] = {param("p", "f32[8, 256]"), param("q", "f32[256, 7]")};
    NstVal shorter = nst_build_contract(&b, "ik,kj->ij", 2, rows, NST_DTYPE_NONE);
    cr_expect_eq(nst_value_node(b.graph, shorter)->attr.contract.block, NST_ORDER_WHOLE);
    NstVal open[2] = {param("r", "f32[8, k]"), param("s", "f32[k, 7]")};
    NstVal unknown = nst_build_contract(&b, "ik,kj->ij", 2, open, NST_DTYPE_NONE);
    cr_expect_eq(nst_value_node(b.graph, unknown)->attr.contract.block, NST_ORDER_BLOCK);
    NstVal whole[2] = {param("t", "i32[8, 300]"), param("u", "i32[300, 7]")};
    NstVal exact = nst_build_contract(&b, "ik,kj->ij", 2, whole, NST_DTYPE_NONE);
    cr_expect_eq(nst_value_node(b.graph, exact)->attr.contract.block, NST_ORDER_WHOLE);
    NstVal image = param("image", "f32[1, 4, 9, 9]");
    NstDim three = nst_dim_const(b.graph->dims, 3), one = nst_dim_const(b.graph->dims, 1);
    const NstWindowAxis axis[2] = {{2, three, 1, 1, one, one}, {3, three, 1, 1, one, one}};
    const int64_t kernel[4] = {8, 4, 3, 3};
    NstVal conv[2] = {nst_build_window(&b, image, 2, axis, (NstVal){0}), nst_build_seeded(&b, NST_F32, 4, kernel, 1)};
    NstVal z = nst_build_contract(&b, "nchwuv,fcuv->nfhw", 2, conv, NST_DTYPE_NONE);
    const uint8_t *sum = nst_value_node(b.graph, z)->attr.contract.sum;
    cr_expect(sum[0] == 'u' - 'a' && sum[1] == 'v' - 'a' && sum[2] == 'c' - 'a');
}

Test(graph_build, sweep_drops_the_dead_and_orders_the_rest)
{
    NstVal k = param("k", "i64[]"), x = param("x", "f32[4]");
    NstVal dead = nst_build_map(&b, "a * 2", 1, &x, NULL, 0), size = nst_build_map(&b, "a + 1", 1, &k, NULL, 0);
    NstVal live = nst_build_iota(&b, nst_build_value_dim(&b, size, "s", 0, 9));
    const char *name = "y";
    nst_build_results(&b, 1, &live, &name);
    NstRegion *top = nst_graph_region(b.graph, NST_GRAPH_REGION);
    NstNodeId last = top->nodes.at[top->nodes.n - 1]; /* the iota before the scalar that gives its size */
    memmove(&top->nodes.at[3], &top->nodes.at[2], sizeof last * (top->nodes.n - 3));
    top->nodes.at[2] = last;
    cr_expect_eq(nst_graph_verify(&ctx, b.graph), NST_E_VERIFY);
    nst_ctx_clear(&ctx);
    nst_graph_sweep(b.graph);
    cr_expect_eq(nst_graph_verify(&ctx, b.graph), NST_OK, "%s", ctx.error);
    cr_expect(nst_value_node(b.graph, dead)->dead);
    cr_expect(!nst_value_node(b.graph, size)->dead);
    cr_expect_eq(top->nodes.n, 4);
    nst_graph_replace(b.graph, size, k);
    cr_expect_eq(nst_graph_sym_def(b.graph, nst_dims_find_sym(b.graph->dims, "s", 1)).i, k.i);
}
