/* test_graph_verify.c: every numbered check of graphs is hit: by texts tests/verify/G*.nsg, whose first line
 * "// expect TEXT" is part of the message, or by a graph built here. */
#include <criterion/criterion.h>
#include <glob.h>
#include "ir/base/os.h"
#include "ir/build.h"

static NstCtx ctx;

static void start(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void stop(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(graph_verify, .init = start, .fini = stop);

static void expect_broken(int number, const char *what, const char *text, const NstGraph *graph)
{
    char *prefix = nst_format(ctx.arena, "G%02d: ", number);
    NstStatus status = nst_graph_verify(&ctx, graph);
    bool budget = strstr(ctx.error, "bytes; rule") != NULL; /* what a model may ask for */
    cr_expect_eq(status, budget ? NST_E_LIMIT : NST_E_VERIFY, "%s passes", what);
    cr_expect(strncmp(ctx.error, prefix, strlen(prefix)) == 0, "%s: %s", what, ctx.error);
    cr_expect(strstr(ctx.error, text) != NULL, "%s: \"%s\" is not in: %s", what, text, ctx.error);
    nst_ctx_clear(&ctx);
}

static void check_texts(int number)
{
    static const char mark[] = "// expect ";
    glob_t found;
    char *pattern = nst_format(ctx.arena, "tests/verify/G%02d*.nsg", number);
    cr_assert_eq(glob(pattern, 0, NULL, &found), 0, "no text %s", pattern);
    for (size_t k = 0; k < found.gl_pathc; k++) {
        char *text;
        size_t n;
        NstGraph *graph;
        const char *path = found.gl_pathv[k];
        cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, path, 1 << 20, &text, &n), NST_OK, "%s", ctx.error);
        NstStatus status = nst_graph_parse(&ctx, ctx.arena, text, n, &graph);
        cr_expect_eq(status, NST_OK, "%s: %s", path, ctx.error);
        if (status == NST_OK) {
            cr_assert_eq(strncmp(text, mark, sizeof mark - 1), 0, "%s does not say what it expects", path);
            size_t line = (size_t)(strchr(text, '\n') - text) - sizeof mark + 1;
            expect_broken(number, path, nst_copy_text(ctx.arena, text + sizeof mark - 1, line), graph);
        }
        nst_ctx_clear(&ctx);
    }
    globfree(&found);
}

/* --- graphs that no text can say ------------------------------------------------------------------------------- */

/* x: f32[4]; y = x + 1, returned. */
static NstGraph *small(NstVal *x, NstVal *y)
{
    NstGraph *graph = nst_graph_new(ctx.arena, "small");
    NstBuild build;
    nst_build_init(&build, &ctx, graph, NST_GRAPH_REGION);
    const int64_t four[1] = {4};
    const char *name = "y";
    *x = nst_build_param(&build, "x", nst_tensor_type(ctx.arena, NST_F32, 1, nst_build_dims(&build, 1, four)));
    *y = nst_build_map(&build, "a + 1", 1, x, NULL, 0);
    nst_build_results(&build, 1, y, &name);
    cr_assert_eq(nst_build_status(&build), NST_OK, "%s", ctx.error);
    cr_assert_eq(nst_graph_verify(&ctx, graph), NST_OK, "%s", ctx.error);
    return graph;
}

static void check_built(int number)
{
    NstVal x, y;
    NstGraph *graph = small(&x, &y);
    NstNode *map = nst_value_node(graph, y);
    NstType type = {.kind = NST_TYPE_NONE};
    NstAttrs attr = {.host = {NULL, NULL}};
    switch (number) {
    case 1: map->in[0].i = 99; break;
    case 2: nst_graph_value(graph, x)->uses.n = 0; break;
    case 10:
        attr = (NstAttrs){.call = {nst_graph_new_region(graph, (NstNodeId){0}), "f"}};
        nst_graph_add(graph, NST_GRAPH_REGION, NST_PRIM_CALL, &attr, NULL, 0, NULL, 0, (NstOrigin){0});
        nst_graph_add(graph, NST_GRAPH_REGION, NST_PRIM_CALL, &attr, NULL, 0, NULL, 0, (NstOrigin){0});
        break;
    case 11: nst_graph_region(graph, NST_GRAPH_REGION)->params.n = 0; break;
    case 20: nst_graph_value(graph, x)->type = type; break;
    case 46: nst_graph_add(graph, NST_GRAPH_REGION, NST_PRIM_HOST, &attr, NULL, 0, &type, 1, (NstOrigin){0}); break;
    default: cr_assert(false, "G%02d has no test", number);
    }
    expect_broken(number, "a built graph", "rule: ", graph);
}

typedef enum Tested { TEXT, BUILT } Tested;

static void check(int number, Tested tested)
{
    if (tested == TEXT)
        check_texts(number);
    else
        check_built(number);
}

Test(graph_verify, every_check_is_hit)
{
#define NST_GRAPH_CHECK(number, tested, rule) check(number, tested);
#include "ir/verify.def"
#undef NST_GRAPH_CHECK
}

/* A text names its strings; a graph that is built may hold any handle. */
Test(graph_verify, strings_are_those_of_the_graph)
{
    NstGraph *graph = nst_graph_new(ctx.arena, "words");
    const int64_t two[1] = {2};
    uint64_t handle[2] = {0, nst_strings_put(graph->strings, "word", 4)};
    NstBuild build;
    nst_build_init(&build, &ctx, graph, NST_GRAPH_REGION);
    NstVal words = nst_build_const(&build, NST_STR, 1, two, handle);
    cr_assert_eq(nst_build_status(&build), NST_OK, "%s", ctx.error);
    cr_assert_eq(nst_graph_verify(&ctx, graph), NST_OK, "%s", ctx.error);
    NstConst *constant = &nst_value_node(graph, words)->attr.constant;
    handle[1] = 2;
    constant->data = handle;
    expect_broken(21, "data", "element 1 is string 2, the graph has 2", graph);
    constant->data = NULL;
    constant->splat.bits = UINT64_MAX;
    expect_broken(21, "a splat", "element 0 is string 18446744073709551615, the graph has 2", graph);
}

Test(graph_verify, good_graphs_pass)
{
    glob_t found;
    cr_assert_eq(glob("tests/graph/*.nsg", 0, NULL, &found), 0);
    cr_assert_eq(glob("tests/graph/eval/*.nsg", GLOB_APPEND, NULL, &found), 0);
    for (size_t k = 0; k < found.gl_pathc; k++) {
        char *text;
        size_t n;
        NstGraph *graph;
        cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, found.gl_pathv[k], 1 << 20, &text, &n), NST_OK, "%s", ctx.error);
        cr_assert_eq(nst_graph_parse(&ctx, ctx.arena, text, n, &graph), NST_OK, "%s", ctx.error);
        cr_expect_eq(nst_graph_verify(&ctx, graph), NST_OK, "%s: %s", found.gl_pathv[k], ctx.error);
        nst_ctx_clear(&ctx);
    }
    globfree(&found);
}
