/* test_oom.c: the n-th own allocation fails, for every n until all goes through, over the parsers of all texts, the
 * verifiers, the printers and the import of models: each time the status says so, nothing crashes, and nothing leaks (the
 * sanitizer build).  Chunks are small, so that nearly every allocation of an arena is one of memory. */
#include <criterion/criterion.h>
#include <glob.h>
#include "frontend/import.h"
#include "ir/base/os.h"
#include "ir/graph.h"
#include "ir/loop.h"
#include "tests/unit/support_onnx.h"

#define CHUNK      128    /* bytes */
#define ALL_CHUNKS 200000 /* more than any case here takes */

typedef struct Text {
    const char *at;
    size_t n;
    bool kernel; /* else a graph, or a model's bytes */
} Text;

static NstCtx files; /* for what the cases read */

static void start(void)
{
    cr_assert_eq(nst_ctx_init(&files), NST_OK);
}

static void stop(void)
{
    nst_arena_fail_after(0);
    nst_arena_chunk_limit(0);
    nst_ctx_dispose(&files);
}

TestSuite(oom, .init = start, .fini = stop);

typedef NstStatus Body(NstCtx *ctx, void *arg);

static NstStatus run(Body *body, void *arg)
{
    NstCtx ctx;
    NstStatus status = nst_ctx_init(&ctx);
    if (status != NST_OK) return status;
    status = nst_guard(&ctx, body, arg);
    cr_expect_eq(ctx.status, status);
    cr_expect(status == NST_OK || ctx.error[0], "a status without a message");
    nst_ctx_dispose(&ctx);
    return status;
}

/* Fails each allocation once; `wanted` is the status when none fails.  Returns how many there are. */
static uint64_t fail_each(Body *body, void *arg, NstStatus wanted, const char *what)
{
    uint64_t n = 0;
    NstStatus status = NST_E_NOMEM;
    nst_arena_chunk_limit(CHUNK);
    while (status == NST_E_NOMEM && n < ALL_CHUNKS) {
        nst_arena_fail_after(++n);
        status = run(body, arg);
        nst_arena_fail_after(0);
    }
    nst_arena_chunk_limit(0);
    cr_assert_eq(status, wanted, "%s, allocation %lu: %s", what, n, nst_status_name(status));
    return n;
}

static NstStatus wanted_status(Body *body, void *arg)
{
    nst_arena_fail_after(0);
    return run(body, arg);
}

/* Parses, verifies and prints. */
static NstStatus text_body(NstCtx *ctx, void *arg)
{
    const Text *text = arg;
    NstGraph *graph;
    NstKernel *kernel;
    NstText printed;
    nst_text_init(&printed, ctx->arena);
    if (!text->kernel) {
        NST_TRY(nst_graph_parse(ctx, ctx->arena, text->at, text->n, &graph));
        NST_TRY(nst_graph_verify(ctx, graph));
        nst_graph_print(&printed, graph);
        return NST_OK;
    }
    NST_TRY(nst_kernel_parse(ctx, ctx->arena, text->at, text->n, &kernel));
    NST_TRY(nst_kernel_verify(ctx, kernel));
    nst_kernel_print(&printed, kernel);
    nst_kernel_canonical(&printed, kernel);
    return NST_OK;
}

/* Every file of the pattern: what is wrong with a text stays the same, or memory is short. */
static void each_file(const char *pattern, bool kernel)
{
    glob_t found;
    cr_assert_eq(glob(pattern, 0, NULL, &found), 0, "no file %s", pattern);
    for (size_t k = 0; k < found.gl_pathc; k++) {
        char *at;
        Text text;
        cr_assert_eq(nst_os_read_file(&files, files.arena, found.gl_pathv[k], 1 << 20, &at, &text.n), NST_OK);
        text.at = at;
        text.kernel = kernel;
        uint64_t n = fail_each(text_body, &text, wanted_status(text_body, &text), found.gl_pathv[k]);
        cr_expect_gt(n, 5, "%s: %lu allocations", found.gl_pathv[k], n);
    }
    globfree(&found);
}

Test(oom, graph_texts)
{
    each_file("docs/architecture.nsg", false);
    each_file("tests/graph/all_primitives.nsg", false);
}

Test(oom, broken_graph_texts)
{
    each_file("tests/verify/G*.nsg", false);
}

Test(oom, loop_texts)
{
    each_file("tests/kernels/[a-m]*.nsl", true);
}

Test(oom, more_loop_texts)
{
    each_file("tests/kernels/[n-z]*.nsl", true);
}

Test(oom, broken_loop_texts)
{
    each_file("tests/verify/L*.nsl", true);
}

/* --- formulas and sizes -------------------------------------------------------------------------------------- */

static NstStatus formula_body(NstCtx *ctx, void *arg)
{
    static const NstDtype types[] = {NST_F32, NST_F32, NST_I64};
    NstExprs *exprs = nst_exprs_new(ctx->arena, nst_dims_new(ctx->arena));
    NstExpr e;
    NstText printed;
    NST_TRY(nst_formula_parse(ctx, exprs, arg, types, 3, NULL, 0, NST_F32, NULL, &e));
    nst_text_init(&printed, ctx->arena);
    nst_expr_print(&printed, exprs, e, NULL);
    return NST_OK;
}

static NstStatus dim_body(NstCtx *ctx, void *arg)
{
    NstDims *dims = nst_dims_new(ctx->arena);
    NstDim dim;
    NstText printed;
    const char *p = arg;
    nst_dims_new_sym(dims, NST_SYM_INPUT, "n", 1, 100);
    nst_dims_new_sym(dims, NST_SYM_INPUT, "m", 0, INT64_MAX);
    NST_TRY(nst_dim_parse(ctx, dims, &p, NULL, NULL, &dim));
    nst_text_init(&printed, ctx->arena);
    nst_dim_print(&printed, dims, dim, NULL, NULL);
    return NST_OK;
}

static void each_text(Body *body, char *text, NstStatus wanted)
{
    cr_assert_eq(wanted_status(body, text), wanted, "%s", text);
    cr_expect_gt(fail_each(body, text, wanted, text), 3);
}

Test(oom, formulas)
{
    each_text(formula_body, "$0 = exp(a * b); $0 + max($0, convert<f32>(c)) / (1 + $0 * $0) ? $0 : sqrt(b)",
              NST_E_TYPE);
    each_text(formula_body, "$0 = exp(a * b); a > b && c != 3 ? $0 + max($0, convert<f32>(c)) : fma(a, b, 0.5) - $0",
              NST_OK);
    each_text(formula_body, "a + (b * ", NST_E_PARSE);
    each_text(formula_body, "a + unknown(b)", NST_E_PARSE);
}

Test(oom, sizes)
{
    each_text(dim_body, "floordiv(4*n*m + 3*n + 7, 16)*min(n, m + 3) + mod(n*n*m, 12) - max(0, 5 - m)", NST_OK);
    each_text(dim_body, "4*n + floordiv(k, 3)", NST_E_PARSE);
}

/* --- models -------------------------------------------------------------------------------------------------- */

static NstStatus import_body(NstCtx *ctx, void *arg)
{
    const Text *bytes = arg;
    NstGraph *graph;
    NST_TRY(nst_import_onnx(ctx, ctx->arena, bytes->at, bytes->n, NULL, &graph));
    return nst_graph_verify(ctx, graph);
}

#define END INT64_MIN

/* x: f32[N, 4] -> Gemm, Softmax, Split and the op given. */
static Text model_bytes(const char *op)
{
    OnnxModel m = onnx_model(files.arena);
    onnx_input(&m, "x", 1, (int64_t[]){-1, 4, END});
    onnx_floats(&m, "w", (int64_t[]){4, 6, END}, (float[24]){1, 2, 3}, 24);
    onnx_floats(&m, "b", (int64_t[]){6, END}, (float[6]){0.5f}, 6);
    onnx_ints(&m, "shape", (int64_t[]){2, END}, (int64_t[]){-1, 3}, 2);
    onnx_node(&m, "Gemm", "gemm", "x w b", "h", NULL);
    onnx_node(&m, "Softmax", "soft", "h", "s", NULL);
    onnx_node(&m, "Reshape", "shape it", "s shape", "r", NULL);
    onnx_node(&m, op, "last", "r", "y", NULL);
    onnx_output(&m, "y", 1, (int64_t[]){ONNX_UNNAMED, 3, END});
    NstText bytes = onnx_bytes(&m);
    return (Text){nst_text_get(&bytes), bytes.n, false};
}

Test(oom, models)
{
    Text good = model_bytes("Relu"), unknown = model_bytes("NoSuchOperator"), cut = good;
    cut.n -= 20;
    cr_assert_eq(wanted_status(import_body, &good), NST_OK);
    cr_expect_gt(fail_each(import_body, &good, NST_OK, "a model"), 100);
    fail_each(import_body, &unknown, wanted_status(import_body, &unknown), "an unknown operator");
    fail_each(import_body, &cut, wanted_status(import_body, &cut), "a cut model");
}
