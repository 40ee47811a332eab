/* test_shapes.c: models whose open sizes decide about ranks: plans for the shapes of each run. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include "nestor/session.h"
#include "runtime/compiler.h"
#include "runtime/variant.h"
#include "tests/unit/support_engine.h"
#include "tests/unit/support_folder.h"
#include "tests/unit/support_onnx.h"

extern const NstCompilerTable nst_compiler_table;

#define END     INT64_MIN
#define COLUMNS 4
#define ROWS    32 /* at most */

static NstCtx ctx;
static NstEngine *engine;
static NstModel *model;
static NstSession *session;
static char folder[200];

static void open_engine(const char *cache)
{
    NstEngineOptions options = {.threads = 2, .cache = cache};
    cr_assert_eq(nst_engine_new(&options, &engine), NST_OK, "%s", nst_error_text());
}

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    nst_compiler_set(&nst_compiler_table);
    open_engine("");
}

static void end(void)
{
    nst_arena_fail_after(0);
    support_engine_close(&session, &model, &engine);
    support_remove_folder(folder);
    nst_ctx_dispose(&ctx);
}

TestSuite(shapes, .init = begin, .fini = end, .timeout = 110);

static NstText text(void)
{
    NstText made;
    nst_text_init(&made, ctx.arena);
    return made;
}

/* y = -(x has one row ? that row : x), or, by an input, whichever of the two the caller wants; declared: y says a rank. */
static NstText squeezed_as(bool by_input, bool declared)
{
    static const int64_t scalar[] = {END}, one[] = {1, END}, matrix[] = {-1, COLUMNS, END};
    OnnxModel m = onnx_model(ctx.arena), yes = onnx_model(ctx.arena), no = onnx_model(ctx.arena);
    NstText branches = text();
    m.opset = 13;
    onnx_ints(&yes, "axes", one, (int64_t[]){0}, 1);
    onnx_node(&yes, by_input ? "Gather" : "Squeeze", "row", by_input ? "x zero" : "x axes", "row", NULL);
    onnx_output(&yes, "row", 1, matrix);
    onnx_node(&no, "Identity", "same", "x", "rows", NULL);
    onnx_output(&no, "rows", 1, matrix);
    onnx_attr_graph(&branches, "then_branch", &yes);
    onnx_attr_graph(&branches, "else_branch", &no);
    onnx_input(&m, "x", 1, matrix);
    if (by_input) onnx_input(&m, "go", 9, scalar);
    onnx_output(&m, "y", 1, declared ? matrix : NULL);
    onnx_ints(&m, "zero", scalar, (int64_t[]){0}, 1);
    onnx_ints(&m, "one", scalar, (int64_t[]){1}, 1);
    onnx_node(&m, "Shape", "shape", "x", "s", NULL);
    onnx_node(&m, "Gather", "gather", "s zero", "n", NULL);
    onnx_node(&m, "Equal", "equal", "n one", "is_one", NULL);
    onnx_node(&m, "If", "choice", by_input ? "go" : "is_one", "z", &branches);
    onnx_node(&m, "Neg", "neg", "z", "y", NULL);
    return onnx_bytes(&m);
}

static NstText squeezed(bool by_input)
{
    return squeezed_as(by_input, true);
}

static NstStatus open_bytes(const NstText *bytes, const NstSessionOptions *options)
{
    NstStatus status = nst_model_open_memory(engine, "squeezed", bytes->at, bytes->n, &model);
    return status == NST_OK ? nst_session_new(model, options, &session) : status;
}

static NstStatus open_session(const NstSessionOptions *options)
{
    NstText bytes = squeezed(false);
    return open_bytes(&bytes, options);
}

static NstNamedTensor matrix_of(float *x, int64_t rows)
{
    for (int64_t k = 0; k < rows * COLUMNS; k++) x[k] = (float)(k + rows);
    return (NstNamedTensor){.name = "x",
                            .tensor = {.dtype = NST_F32,
                                       .rank = 2,
                                       .shape = {rows, COLUMNS},
                                       .data = x,
                                       .bytes = (size_t)(rows * COLUMNS) * sizeof *x}};
}

/* Runs with so many rows; whether the result is right. */
static NstStatus run_rows(NstSession *with, int64_t rows, const NstRunOptions *options, bool *right)
{
    float x[ROWS * COLUMNS];
    NstNamedTensor in = matrix_of(x, rows), out = {.name = "y"};
    NstStatus status = nst_session_run(with, &in, 1, &out, 1, options);
    *right = status == NST_OK && out.tensor.rank == (rows == 1 ? 1 : 2);
    const float *y = out.tensor.data;
    for (int64_t k = 0; *right && k < rows * COLUMNS; k++) *right = y[k] == -x[k];
    nst_tensor_release(&out.tensor);
    return status;
}

static void expect_rows(int64_t rows)
{
    bool right;
    cr_assert_eq(run_rows(session, rows, NULL, &right), NST_OK, "%s", nst_error_text());
    cr_assert(right, "%lld rows", (long long)rows);
}

static NstSessionFacts facts(void)
{
    NstSessionFacts is;
    nst_session_facts(session, &is);
    return is;
}

Test(shapes, each_shape_has_a_plan_made_once)
{
    NstPort port;
    cr_assert_eq(open_session(NULL), NST_OK, "%s", nst_error_text());
    cr_assert_eq(facts().compiled, 0);
    cr_assert_eq(facts().kernels, 0);
    expect_rows(1);
    expect_rows(3);
    expect_rows(1);
    cr_assert_eq(facts().compiled, 2);
    cr_assert_gt(facts().compile_ns, 0);
    cr_assert_gt(facts().kernels, 0);
    cr_assert_eq(nst_session_input(session, 0, &port), NST_OK);
    cr_assert_eq(port.shape[0], -1);
    cr_assert_str_eq(port.symbol[0], "N");
    cr_assert_eq(nst_session_output(session, 0, &port), NST_OK);
    cr_assert_eq(port.dtype, NST_F32); /* as it is declared */
    cr_assert_eq(port.rank, 2);
}

Test(shapes, an_output_may_be_declared_without_rank)
{
    NstText bytes = squeezed_as(false, false);
    NstPort port;
    cr_assert_eq(open_bytes(&bytes, NULL), NST_OK, "%s", nst_error_text());
    expect_rows(1);
    expect_rows(3);
    cr_assert_eq(nst_session_output(session, 0, &port), NST_OK);
    cr_assert_eq(port.rank, -1);
}

/* Squeeze without axes: what is 1 decides about the rank. */
Test(shapes, a_squeeze_of_all_axes_of_one)
{
    static const int64_t matrix[] = {-1, COLUMNS, END};
    OnnxModel m = onnx_model(ctx.arena);
    onnx_input(&m, "x", 1, matrix);
    onnx_output(&m, "y", 1, NULL);
    onnx_node(&m, "Squeeze", "squeeze", "x", "z", NULL);
    onnx_node(&m, "Neg", "neg", "z", "y", NULL);
    NstText bytes = onnx_bytes(&m);
    cr_assert_eq(open_bytes(&bytes, NULL), NST_OK, "%s", nst_error_text());
    expect_rows(3);
    expect_rows(1);
}

/* More shapes than a session keeps plans for: the engine's cache has them. */
Test(shapes, the_number_of_plans_is_bounded)
{
    cr_assert_eq(open_session(NULL), NST_OK, "%s", nst_error_text());
    int64_t most = 2 * NST_SHAPE_SLOTS;
    for (int64_t rows = 1; rows <= most; rows++) expect_rows(rows);
    for (int64_t rows = 1; rows <= most; rows++) expect_rows(rows);
    cr_assert_eq(facts().compiled, most);
    cr_assert_eq(facts().from_cache, most);
    for (int round = 0; round < 3; round++) expect_rows(most); /* stays */
    cr_assert_eq(facts().from_cache, most);
}

Test(shapes, plans_are_found_on_disk)
{
    support_new_folder(folder, sizeof folder, "shapes");
    for (int round = 0; round < 2; round++) {
        support_engine_close(&session, &model, &engine);
        open_engine(folder);
        NstSessionOptions options = {.fail_on_compile = round};
        cr_assert_eq(open_session(&options), NST_OK, "%s", nst_error_text());
        expect_rows(1);
        expect_rows(5);
        cr_assert_eq(facts().compiled, round ? 0 : 2);
        cr_assert_eq(facts().from_cache, round ? 2 : 0);
    }
    bool right;
    cr_assert_eq(run_rows(session, 6, NULL, &right), NST_E_NOT_FOUND);
    cr_assert(strstr(nst_error_text(), "fail_on_compile"), "%s", nst_error_text());
}

static void *run_many(void *arg)
{
    intptr_t wrong = 0, seed = (intptr_t)arg;
    for (int64_t k = 0; k < 40; k++) {
        bool right;
        int64_t rows = 1 + (k * 7 + seed * 3) % (NST_SHAPE_SLOTS + 4);
        wrong += run_rows(session, rows, NULL, &right) != NST_OK || !right;
    }
    return (void *)wrong;
}

Test(shapes, threads_run_one_session_while_plans_come_and_go)
{
    pthread_t caller[4];
    cr_assert_eq(open_session(NULL), NST_OK, "%s", nst_error_text());
    for (intptr_t k = 0; k < 4; k++) cr_assert_eq(pthread_create(&caller[k], NULL, run_many, (void *)k), 0);
    for (int k = 0; k < 4; k++) {
        void *wrong;
        pthread_join(caller[k], &wrong);
        cr_assert_null(wrong);
    }
}

Test(shapes, wrong_inputs_are_refused_before_anything_is_compiled)
{
    float x[ROWS * COLUMNS];
    cr_assert_eq(open_session(NULL), NST_OK, "%s", nst_error_text());
    NstNamedTensor in = matrix_of(x, 2), out = {.name = "y"};
    in.tensor.shape[1] = 3;
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_SHAPE);
    cr_assert_str_eq(nst_error_text(), "input 'x': axis 1 is 3, allowed is 4 (f32[N, 4] with the other axes given)");
    in.tensor.rank = 17;
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_SHAPE);
    in = matrix_of(x, 2);
    in.tensor.shape[0] = -2;
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_SHAPE);
    in = matrix_of(x, 2);
    in.tensor.dtype = NST_I32;
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_E_TYPE);
    cr_assert_eq(nst_session_run(session, NULL, 0, &out, 1, NULL), NST_E_INVALID);
    cr_assert_eq(facts().compiled, 0);
}

/* Declared shapes leave nothing open, or do; runs of other shapes get plans of their own. */
Test(shapes, declared_shapes_and_others)
{
    for (int64_t rows = -1; rows <= 3; rows += 2) {
        NstInputShape shape = {.name = "x", .rank = 2, .shape = {rows, COLUMNS}};
        NstSessionOptions options = {.shapes = &shape, .n_shapes = 1, .strict = rows == 1};
        cr_assert_eq(open_session(&options), NST_OK, "%s", nst_error_text());
        expect_rows(3);
        expect_rows(1);
        expect_rows(7);
        support_engine_close(&session, &model, &engine);
        open_engine("");
    }
}

Test(shapes, the_interpreter_takes_the_shapes_of_a_run)
{
    NstSessionOptions options = {.interpret = 1};
    cr_assert_eq(open_session(&options), NST_OK, "%s", nst_error_text());
    expect_rows(1);
    expect_rows(3);
    expect_rows(1);
}

Test(shapes, a_profile_is_of_the_first_plan_it_measures)
{
    bool right;
    NstProfile *profile;
    NstProfileStep step;
    cr_assert_eq(open_session(NULL), NST_OK, "%s", nst_error_text());
    cr_assert_eq(nst_profile_new(session, &profile), NST_OK);
    cr_assert_eq(nst_profile_step_count(profile), 0);
    cr_assert_eq(nst_profile_step(profile, 0, &step), NST_E_NOT_FOUND);
    NstRunOptions options = {.profile = profile};
    for (int64_t rows = 1; rows < 2 * NST_SHAPE_SLOTS; rows++) /* it keeps its plan */
        cr_assert_eq(run_rows(session, rows, &options, &right), NST_OK, "%s", nst_error_text());
    cr_assert_eq(run_rows(session, 1, &options, &right), NST_OK);
    cr_assert_eq(nst_profile_runs(profile), 2);
    cr_assert_geq(nst_profile_step_count(profile), 1);
    cr_assert_eq(nst_profile_step(profile, 0, &step), NST_OK);
    cr_assert_gt(step.ns, 0);
    nst_profile_free(profile);
}

/* What no size changes is said when the session is made. */
Test(shapes, what_sizes_do_not_decide_is_an_error_at_once)
{
    NstText bytes = squeezed(true);
    cr_assert_eq(open_bytes(&bytes, NULL), NST_E_UNSUPPORTED);
    cr_assert_str_eq(nst_error_text(), "If 'choice': output 0 has rank 1 or 2: not supported");
}

Test(shapes, dumps_want_shapes_declared)
{
    char *dump;
    NstInputShape shape = {.name = "x", .rank = 2, .shape = {1, COLUMNS}};
    NstSessionOptions options = {.shapes = &shape, .n_shapes = 1};
    cr_assert_eq(open_session(NULL), NST_OK, "%s", nst_error_text());
    cr_assert_eq(nst_model_dump(model, NULL, NST_DUMP_GRAPH, NULL, &dump), NST_E_UNSUPPORTED);
    cr_assert(strstr(nst_error_text(), "open sizes of the inputs decide about it: declare their shapes"), "%s",
              nst_error_text());
    cr_assert_eq(nst_model_dump(model, &options, NST_DUMP_GRAPH, NULL, &dump), NST_OK, "%s", nst_error_text());
    nst_text_free(dump);
}

Test(shapes, each_allocation_may_fail)
{
    bool through = false;
    NstText bytes = squeezed(false);
    for (uint64_t n = 1; n < 20000 && !through; n += n < 200 ? 1 : 17) {
        support_engine_close(&session, &model, &engine);
        open_engine("");
        nst_arena_fail_after(n);
        bool right = false;
        NstStatus status = open_bytes(&bytes, NULL);
        if (status == NST_OK) status = run_rows(session, 2, NULL, &right);
        nst_arena_fail_after(0);
        cr_assert(status == NST_OK || status == NST_E_NOMEM, "allocation %llu: %s: %s", (unsigned long long)n,
                  nst_status_name(status), nst_error_text());
        cr_assert(status == NST_E_NOMEM || right);
        through = status == NST_OK && n > 40;
    }
    cr_assert(through);
}
