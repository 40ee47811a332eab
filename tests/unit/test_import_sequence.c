/* test_import_sequence.c: sequences and optionals, which are gone when a model is imported: what official cases do not show. */
#include <criterion/criterion.h>
#include "tests/unit/support_onnx.h"

#define END INT64_MIN

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(import_sequence, .init = begin, .fini = end);

static const int64_t scalar[] = {END}, open_vector[] = {-1, END}, vector[] = {2, END}, matrix[] = {3, 2, END};

static NstText attributes(void)
{
    NstText t;
    nst_text_init(&t, ctx.arena);
    return t;
}

static NstStatus import(const OnnxModel *m, NstImportOptions *options, NstGraph **graph)
{
    NstText bytes = onnx_bytes(m);
    nst_ctx_clear(&ctx);
    return nst_import_onnx(&ctx, ctx.arena, nst_text_get(&bytes), bytes.n, options, graph);
}

static void check(const OnnxModel *m, uint32_t n_in, const NstTensorValue *in, int rank, const int64_t *shape,
                  const float *wanted)
{
    NstGraph *graph;
    NstTensorValue out;
    int64_t count = 1;
    cr_assert_eq(import(m, NULL, &graph), NST_OK, "%s", ctx.error);
    cr_assert_eq(nst_graph_interpret(&ctx, ctx.arena, graph, in, n_in, true, NULL, &out), NST_OK, "%s", ctx.error);
    cr_assert_eq(out.rank, rank);
    for (int k = 0; k < rank; k++) {
        cr_assert_eq(out.shape[k], shape[k], "extent %d is %lld", k, (long long)out.shape[k]);
        count *= shape[k];
    }
    for (int64_t k = 0; k < count; k++) cr_expect_eq(((float *)out.data)[k], wanted[k], "element %d", (int)k);
}

static NstTensorValue f32_vector(float *data, int64_t n)
{
    return (NstTensorValue){.dtype = NST_F32, .rank = 1, .shape = {n}, .data = data, .bytes = (size_t)n * 4};
}

static NstTensorValue i64_scalar(int64_t *data)
{
    return (NstTensorValue){.dtype = NST_I64, .data = data, .bytes = 8};
}

/* A loop of a number of steps that is data, whose body adds x * step to a sequence. */
static OnnxModel growing_loop(const char *body_op, const char *operands, const char *first)
{
    OnnxModel m = onnx_model(ctx.arena), body = onnx_model(ctx.arena);
    NstText a = attributes(), axis = attributes(), cast = attributes();
    onnx_input(&body, "i", 7, scalar);
    onnx_input(&body, "go", 9, scalar);
    onnx_input(&body, "s", 1, scalar); /* its type is not looked at */
    onnx_attr_int(&cast, "to", 1);
    onnx_node(&body, "Cast", "c", "i", "f", &cast);
    onnx_node(&body, "Mul", "m", "x f", "xf", NULL);
    onnx_node(&body, body_op, "add", operands, "s2", NULL);
    onnx_output(&body, "go", 9, scalar);
    onnx_output(&body, "s2", 1, scalar);
    onnx_attr_graph(&a, "body", &body);
    onnx_input(&m, "n", 7, scalar);
    onnx_input(&m, "x", 1, vector);
    onnx_output(&m, "y", 1, open_vector);
    onnx_node(&m, first, "first", strcmp(first, "SequenceEmpty") == 0 ? "" : "x", "s0", NULL);
    onnx_node(&m, "Loop", "l", "n - s0", "s1", &a);
    onnx_attr_int(&axis, "axis", 0);
    onnx_node(&m, "ConcatFromSequence", "join", "s1", "y", &axis);
    return m;
}

Test(import_sequence, a_loop_of_open_length_stacks_what_it_adds)
{
    float x[] = {1, 2};
    int64_t n = 3;
    NstTensorValue in[] = {i64_scalar(&n), f32_vector(x, 2)};
    OnnxModel m = growing_loop("SequenceInsert", "s xf", "SequenceEmpty");
    check(&m, 2, in, 1, (int64_t[]){6}, (float[]){0, 0, 1, 2, 2, 4});
    m = growing_loop("SequenceInsert", "s xf", "SequenceConstruct");
    check(&m, 2, in, 1, (int64_t[]){8}, (float[]){1, 2, 0, 0, 1, 2, 2, 4});
}

Test(import_sequence, a_loop_of_open_length_may_only_add)
{
    OnnxModel m = growing_loop("SequenceErase", "s", "SequenceConstruct");
    const char *needs;
    NstImportOptions options = {.needs = &needs};
    NstGraph *graph;
    cr_expect_eq(import(&m, &options, &graph), NST_E_UNSUPPORTED);
    cr_expect(strstr(ctx.error, "'add': a sequence that a loop carries can only be added to"), "%s", ctx.error);
    cr_expect_str_eq(needs, "n"); /* with a known number of steps it could */
    m = growing_loop("SequenceAt", "s i", "SequenceConstruct");
    cr_expect_eq(import(&m, &options, &graph), NST_E_UNSUPPORTED);
    cr_expect(strstr(ctx.error, "'add': a sequence that a loop carries can only be added to"), "%s", ctx.error);
    cr_expect_str_eq(needs, "n"); /* with a known number of steps it could */
}

/* Elements that are all alike can be chosen at run time. */
Test(import_sequence, positions_may_be_data)
{
    float x[] = {1, 2, 3, 4, 5, 6};
    int64_t at = -2;
    OnnxModel m = onnx_model(ctx.arena);
    onnx_input(&m, "x", 1, matrix);
    onnx_input(&m, "at", 7, scalar);
    onnx_output(&m, "y", 1, (int64_t[]){1, 2, END});
    onnx_node(&m, "SplitToSequence", "split", "x", "s", NULL);
    onnx_node(&m, "SequenceAt", "get", "s at", "y", NULL);
    NstTensorValue in[] = {{.dtype = NST_F32, .rank = 2, .shape = {3, 2}, .data = x, .bytes = 24}, i64_scalar(&at)};
    check(&m, 2, in, 2, (int64_t[]){1, 2}, (float[]){3, 4});
}

/* A tensor of open extent is split into a stack: length and elements follow from its size. */
Test(import_sequence, splits_of_open_extents)
{
    float x[] = {1, 2, 3};
    OnnxModel m = onnx_model(ctx.arena);
    NstText keep = attributes(), cast = attributes();
    onnx_attr_int(&keep, "keepdims", 0);
    onnx_attr_int(&cast, "to", 1);
    onnx_input(&m, "x", 1, open_vector);
    onnx_output(&m, "y", 1, scalar);
    onnx_ints(&m, "last", scalar, (int64_t[]){-1}, 1);
    onnx_node(&m, "SplitToSequence", "split", "x", "s", &keep);
    onnx_node(&m, "SequenceLength", "count", "s", "n", NULL);
    onnx_node(&m, "SequenceAt", "get", "s last", "e", NULL);
    onnx_node(&m, "Cast", "c", "n", "nf", &cast);
    onnx_node(&m, "Mul", "m", "nf e", "y", NULL);
    NstTensorValue in = f32_vector(x, 3);
    check(&m, 1, &in, 0, NULL, (float[]){9});
}

static OnnxModel branches(const char *other)
{
    OnnxModel m = onnx_model(ctx.arena), yes = onnx_model(ctx.arena), no = onnx_model(ctx.arena);
    NstText a = attributes(), axis = attributes();
    onnx_node(&yes, "SequenceConstruct", "a", "x x", "s", NULL);
    onnx_output(&yes, "s", 1, scalar);
    onnx_node(&no, "Neg", "b", "x", "z", NULL);
    onnx_node(&no, "SequenceConstruct", "c", other, "t", NULL);
    onnx_output(&no, "t", 1, scalar);
    onnx_attr_graph(&a, "then_branch", &yes);
    onnx_attr_graph(&a, "else_branch", &no);
    onnx_input(&m, "go", 9, scalar);
    onnx_input(&m, "x", 1, vector);
    onnx_output(&m, "y", 1, (int64_t[]){4, END});
    onnx_node(&m, "If", "if", "go", "r", &a);
    onnx_attr_int(&axis, "axis", 0);
    onnx_node(&m, "ConcatFromSequence", "join", "r", "y", &axis);
    return m;
}

Test(import_sequence, branches_of_one_length)
{
    float x[] = {1, 2};
    char go = 0;
    OnnxModel m = branches("x z");
    NstTensorValue in[] = {{.dtype = NST_BOOL, .data = &go, .bytes = 1}, f32_vector(x, 2)};
    check(&m, 2, in, 1, (int64_t[]){4}, (float[]){1, 2, -1, -2});
    go = 1;
    check(&m, 2, in, 1, (int64_t[]){4}, (float[]){1, 2, 1, 2});
}

Test(import_sequence, branches_of_two_lengths_ask_for_the_condition)
{
    OnnxModel m = branches("z");
    const char *needs;
    NstImportOptions options = {.needs = &needs};
    NstGraph *graph;
    cr_expect_eq(import(&m, &options, &graph), NST_E_UNSUPPORTED);
    cr_expect(strstr(ctx.error, "If 'if': output 0 is a sequence or optional of another length"), "%s", ctx.error);
    cr_assert_str_eq(needs, "go");
}

Test(import_sequence, inputs_must_be_declared)
{
    OnnxModel m = onnx_model(ctx.arena);
    NstText info = attributes(), type = attributes(), tensor = attributes(), element = attributes(),
            list = attributes();
    NstText axis = attributes();
    pb_int(&tensor, 1, 1);
    pb_message(&element, 1, &tensor);
    pb_message(&list, 1, &element);
    pb_message(&type, 4, &list);
    pb_text(&info, 1, "s");
    pb_message(&info, 2, &type);
    pb_message(&m.graph, 11, &info);
    onnx_output(&m, "y", 1, open_vector);
    onnx_attr_int(&axis, "axis", 0);
    onnx_node(&m, "ConcatFromSequence", "join", "s", "y", &axis);
    NstGraph *graph;
    cr_expect_eq(import(&m, NULL, &graph), NST_E_UNSUPPORTED);
    cr_expect(strstr(ctx.error, "input 's': a sequence or optional, whose elements must be declared"), "%s", ctx.error);
    int64_t two = 2, one = 1;
    NstDeclaredInput elements[] = {{"s[0]", 1, &two}, {"s[1]", 1, &one}, {"s[]", 0, NULL}};
    NstImportOptions options = {.input = elements, .n_inputs = 3};
    cr_expect_eq(import(&m, &options, &graph), NST_E_INVALID, "both with and without elements");
    options.n_inputs = 2;
    cr_assert_eq(import(&m, &options, &graph), NST_OK, "%s", ctx.error);
    float a[] = {1, 2}, b[] = {3};
    NstTensorValue in[] = {f32_vector(a, 2), f32_vector(b, 1)}, out;
    cr_assert_eq(nst_graph_interpret(&ctx, ctx.arena, graph, in, 2, true, NULL, &out), NST_OK, "%s", ctx.error);
    cr_assert(out.rank == 1 && out.shape[0] == 3 && ((float *)out.data)[2] == 3);
}
