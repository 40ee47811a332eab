/* test_graph_text.c: .nsg prints and parses with exact round trip. */
#include <criterion/criterion.h>
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

TestSuite(graph_text, .init = start, .fini = stop);

static const char *reprint(const char *text)
{
    NstGraph *graph;
    NstText out;
    cr_assert_eq(nst_graph_parse(&ctx, ctx.arena, text, strlen(text), &graph), NST_OK, "%s", ctx.error);
    nst_text_init(&out, ctx.arena);
    nst_graph_print(&out, graph);
    return nst_text_get(&out);
}

Test(graph_text, every_primitive_round_trips)
{
    char *text;
    size_t n;
    NstStatus status = nst_os_read_file(&ctx, ctx.arena, "tests/graph/all_primitives.nsg", 1 << 20, &text, &n);
    cr_assert_eq(status, NST_OK, "%s", ctx.error);
    cr_assert_str_eq(reprint(text), text);
    for (int prim = 0; prim < NST_PRIM_COUNT; prim++) {
        const char *name = nst_prim_info((NstPrim)prim)->name;
        if (prim == NST_PRIM_PARAM) continue;
        char *assigned = nst_format(ctx.arena, " = %s ", name), *plain = nst_format(ctx.arena, "  %s ", name);
        cr_assert(strstr(text, assigned) || strstr(text, plain), "no %s in the text", name);
    }
}

Test(graph_text, what_is_left_out_is_inferred)
{
    const char *text = "graph g(x: f32[n, 4]) { // a comment\n"
                       "  %w = const f32[4, 2] splat 0.5\n"
                       "  %y = contract \"ik,kj->ij\" %x, %w\n"
                       "  %m = reduce \"a + b\" axes [1] %y\n"
                       "  return y = %y, m = %m }\n";
    const char *wanted = "graph g(x: f32[n, 4]) {\n"
                         "  symbols n\n"
                         "  %w = const f32[4, 2] splat 0.5f32\n"
                         "  %y = contract \"ik,kj->ij\" %x, %w : f32[n, 2]\n"
                         "  %m = reduce \"a + b\" axes [1] %y : f32[n]\n"
                         "  return y = %y, m = %m\n"
                         "}\n";
    cr_assert_str_eq(reprint(text), wanted);
    cr_assert_str_eq(reprint(wanted), wanted);
}

/* Nodes with too few operands are the verifier's to refuse; printing bears them. */
Test(graph_text, nodes_with_missing_operands_print)
{
    static const char *const bodies[] = {"update_slice start [1] %u : f32[4]",
                                         "slice start [0] : f32[4]",
                                         "pad low [0] high [0] : f32[4]",
                                         "permute [0] : f32[4]",
                                         "map \"a + 1\" : f32[4]",
                                         "gather axis 0 : f32[4]",
                                         "contract \"i->i\" : f32[4]",
                                         "reduce \"a + b\" axes [0] : f32[]"};
    for (size_t k = 0; k < sizeof bodies / sizeof *bodies; k++) {
        const char *text =
            nst_format(ctx.arena, "graph g(x: f32[4], u: f32[3]) {\n  %%z = %s\n  return z = %%z\n}\n", bodies[k]);
        NstGraph *graph;
        nst_ctx_clear(&ctx);
        if (nst_graph_parse(&ctx, ctx.arena, text, strlen(text), &graph) != NST_OK) continue; /* refused earlier */
        const char *printed = reprint(text);
        cr_expect_str_eq(reprint(printed), printed, "%s", bodies[k]);
        cr_expect_neq(nst_graph_verify(&ctx, graph), NST_OK, "%s", bodies[k]);
    }
}

/* What is wrong about the order of a sum is said where it stands: 0 does not stand for the order that is chosen otherwise. */
Test(graph_text, wrong_orders_of_sums_are_told)
{
    static const struct {
        const char *body, *told;
    } cases[] = {{"contract \"ik,kj->ij\" block 0 %x, %x", "blocks of 0, allowed: 1 or more"},
                 {"contract \"ik,kj->ij\" lanes 0 %x, %x", "lanes of 0, allowed: 1 or more"},
                 {"reduce \"a + b\" axes [1] lanes 0 %x", "lanes of 0, allowed: 1 or more"},
                 {"contract \"ik,kj->ij\" block 1.5 %x, %x", "expected operands at '.5"},
                 {"contract \"ik,kj->ij\" block 7 lanes 1 %x, %x", "expected operands at 'lanes"},
                 {"contract \"ik,kj->ij\" block whole block 7 %x, %x", "expected operands at 'block"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *text =
            nst_format(ctx.arena, "graph g(x: f32[600, 600]) {\n  %%z = %s\n  return z = %%z\n}\n", cases[k].body);
        NstGraph *graph;
        nst_ctx_clear(&ctx);
        cr_expect_eq(nst_graph_parse(&ctx, ctx.arena, text, strlen(text), &graph), NST_E_PARSE, "%s", cases[k].body);
        cr_expect(strstr(ctx.error, "line 2") && strstr(ctx.error, cases[k].told), "%s: %s", cases[k].body, ctx.error);
    }
}

Test(graph_text, symbols_named_as_kinds_round_trip)
{
    const char *text = "graph g(x: f16[value, counted]) {\n  symbols \"value\", \"counted\"\n  return\n}\n";
    cr_assert_str_eq(reprint("graph g(x: f16[value, counted]) { return\n}\n"), text);
    cr_assert_str_eq(reprint(text), text);
}

/* Strings stand as what they are, also bytes that are no text, and many of them. */
Test(graph_text, strings_round_trip)
{
    const char *text =
        "graph words() {\n"
        "  %none = const str[0] data []\n"
        "  %one = const str[] splat \"a \\\"word\\\"\"\n"
        "  %many = const str[3, 6] data [\"\", \"a\", \"a\\x00b\", \"\\n\", \"\\x80\", \"a\", \"1\", \"2\", "
        "\"3\", \"4\", \"5\", \"6\", \"7\", \"8\", \"9\", \"10\", \"11\", \"12\"]\n"
        "  return none = %none, one = %one, many = %many\n"
        "}\n";
    cr_assert_str_eq(reprint(text), text);
}
