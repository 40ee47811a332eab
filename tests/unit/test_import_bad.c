/* test_import_bad.c: models that break a rule: the status, and a message that says what was given and what was allowed. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>
#include "frontend/model.h"
#include "tests/unit/support_onnx.h"
#include "tests/unit/support_folder.h"

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(import_bad, .init = begin, .fini = end);

#define END INT64_MIN
static const int64_t two[] = {2, END}, two_three[] = {2, 3, END};

static void expect_bytes(const void *bytes, size_t n, NstStatus status, const char *text)
{
    NstGraph *graph;
    nst_ctx_clear(&ctx);
    NstStatus given = nst_import_onnx(&ctx, ctx.arena, bytes, n, NULL, &graph);
    cr_expect_eq(given, status, "status %s, expected %s: %s", nst_status_name(given), nst_status_name(status),
                 ctx.error);
    cr_expect(strstr(ctx.error, text), "message '%s' does not contain '%s'", ctx.error, text);
}

static void expect(const OnnxModel *model, NstStatus status, const char *text)
{
    NstText bytes = onnx_bytes(model);
    expect_bytes(nst_text_get(&bytes), bytes.n, status, text);
}

/* x: f32[2, 3] -> y, from one node over x. */
static OnnxModel one_node(const char *op, const char *in, const char *out)
{
    OnnxModel m = onnx_model(ctx.arena);
    onnx_input(&m, "x", 1, two_three);
    onnx_output(&m, "y", 1, two_three);
    onnx_node(&m, op, "n1", in, out, NULL);
    return m;
}

/* What is said of a model of one such node. */
static void refuse(const char *op, const char *in, const char *out, NstStatus status, const char *text)
{
    OnnxModel m = one_node(op, in, out);
    expect(&m, status, text);
}

Test(import_bad, bytes_that_are_no_model)
{
    static const char text[] = "This is a text file, not a model.\nIt goes on for a while.\n";
    static const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 12345\n";
    static const char zeros[64];
    expect_bytes("", 0, NST_E_PARSE, "model: empty");
    expect_bytes(text, sizeof text - 1, NST_E_PARSE, "model: ");
    expect_bytes(lfs, sizeof lfs - 1, NST_E_PARSE, "git lfs pull");
    expect_bytes(zeros, sizeof zeros, NST_E_PARSE, "field number 0");
    expect_bytes("\x08", 1, NST_E_PARSE, "truncated inside a number at byte 1");
    expect_bytes("\x08\x08", 2, NST_E_MODEL, "model: no graph");
    expect_bytes("\x12\x03"
                 "a\0b",
                 5, NST_E_PARSE, "zero byte");
    expect_bytes("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12, NST_E_PARSE, "more than ten bytes");
}

Test(import_bad, every_truncation_is_refused)
{
    OnnxModel m = one_node("Relu", "x", "y");
    onnx_floats(&m, "w", two_three, (float[]){1, 2, 3, 4, 5, 6}, 6);
    NstText bytes = onnx_bytes(&m);
    NstGraph *graph;
    cr_assert_null(onnx_import(&ctx, &bytes, &graph), "%s", ctx.error);
    for (size_t n = 0; n < bytes.n; n++) {
        nst_ctx_clear(&ctx);
        cr_expect_neq(nst_import_onnx(&ctx, ctx.arena, nst_copy(ctx.arena, nst_text_get(&bytes), n), n, NULL, &graph),
                      NST_OK, "%zu bytes", n);
    }
}

Test(import_bad, versions_and_domains)
{
    OnnxModel m = one_node("Relu", "x", "y");
    m.ir_version = NST_ONNX_MAX_IR + 1;
    expect(&m, NST_E_UNSUPPORTED, "IR version 15, supported: 1 to 14");
    m = one_node("Relu", "x", "y");
    m.opset = 99;
    expect(&m, NST_E_UNSUPPORTED, "opset 99 of ai.onnx, supported: 1 to 28");
    m.opset = 0;
    expect(&m, NST_E_MODEL, "imports version 0 of domain 'ai.onnx'");
    refuse("Gelu", "x", "y", NST_E_MODEL, "Gelu 'n1': exists from version 20 on, the model imports opset 17");
    refuse("Upsample", "x x", "y", NST_E_MODEL, "Upsample 'n1': removed in version 10");
    refuse("Frobnicate", "x", "y", NST_E_MODEL, "no operator 'Frobnicate' in ai.onnx");
    m = one_node("org.example:Foo", "x", "y");
    expect(&m, NST_E_MODEL, "domain 'org.example' is not imported");
    m.domain = "org.example";
    expect(&m, NST_E_UNSUPPORTED, "operator 'Foo' of domain 'org.example' is not supported");
    refuse("com.microsoft:FusedConv", "x", "y", NST_E_UNSUPPORTED,
           "operator 'FusedConv' of domain 'com.microsoft' is not supported");
    refuse("PyramidROIAlign_TRT", "x x", "y", NST_E_UNSUPPORTED,
           "PyramidROIAlign_TRT 'n1': operator PyramidROIAlign_TRT-1 of ai.onnx is not supported");
}

Test(import_bad, names)
{
    refuse("Relu", "ghost", "y", NST_E_MODEL, "Relu 'n1': input 'ghost' is no input, initializer or output of a node");
    refuse("Relu", "x", "x", NST_E_MODEL, "value 'x' of Relu 'n1' is already defined by an input");
    OnnxModel m = one_node("Relu", "x", "y");
    onnx_node(&m, "Neg", "n2", "x", "y", NULL);
    expect(&m, NST_E_MODEL, "value 'y' of Neg 'n2' is already defined by Relu 'n1'");
    refuse("Relu", "x", "z", NST_E_MODEL, "output 'y' is made by no node");
    m = one_node("Relu", "x", "y");
    onnx_input(&m, "x", 1, two);
    expect(&m, NST_E_MODEL, "'x' of an input is already defined");
    m = one_node("Relu", "x", "y");
    onnx_floats(&m, "w", two, (float[]){1, 2}, 2);
    onnx_floats(&m, "w", two, (float[]){1, 2}, 2);
    expect(&m, NST_E_MODEL, "'w' of an initializer is already defined");
    m = onnx_model(ctx.arena);
    onnx_input(&m, "x", 1, two);
    expect(&m, NST_E_MODEL, "graph: no outputs");
}

Test(import_bad, cycles)
{
    refuse("Relu", "y", "y", NST_E_MODEL, "a cycle with Relu 'n1'");
    OnnxModel m = one_node("Add", "x b", "a");
    onnx_node(&m, "Neg", "n2", "a", "b", NULL);
    onnx_node(&m, "Relu", "n3", "b", "y", NULL);
    expect(&m, NST_E_MODEL, "Neg 'n2': input 'a' depends on the node itself: a cycle with Add 'n1'");
}

Test(import_bad, nodes_out_of_order_are_put_in_order)
{
    OnnxModel m = one_node("Relu", "a", "y");
    NstGraph *graph;
    onnx_node(&m, "Neg", "n2", "x", "a", NULL);
    NstText bytes = onnx_bytes(&m);
    cr_assert_null(onnx_import(&ctx, &bytes, &graph), "%s", ctx.error);
}

Test(import_bad, types_and_arity)
{
    OnnxModel m = one_node("Add", "x i", "y");
    onnx_input(&m, "i", 7, two_three);
    expect(&m, NST_E_TYPE, "Add 'n1': B is i64, A is f32, allowed: one type for both");
    m = one_node("Sqrt", "i", "y");
    onnx_input(&m, "i", 7, two_three);
    expect(&m, NST_E_TYPE, "Sqrt 'n1': X is i64, allowed in version 13: float");
    refuse("Add", "x", "y", NST_E_MODEL, "Add 'n1': input 1 (B) is missing");
    refuse("Add", "x -", "y", NST_E_MODEL, "Add 'n1': input 1 (B) is missing");
    refuse("Relu", "x x", "y", NST_E_MODEL, "Relu 'n1': 2 inputs, allowed in version 14: at most 1");
    refuse("Relu", "x", "y z", NST_E_MODEL, "Relu 'n1': 2 outputs, allowed in version 14: at most 1");
    m = one_node("Add", "x v", "y");
    onnx_input(&m, "v", 1, two);
    expect(&m, NST_E_SHAPE, "allowed: equal or 1");
    m = onnx_model(ctx.arena);
    onnx_input(&m, "x", 99, two);
    onnx_output(&m, "x", 99, two);
    expect(&m, NST_E_MODEL, "input 'x': element type 99");
}

/* ConstantOfShape of a shape that is given, filled with a tensor of n floats. */
static void expect_fill(int64_t n, NstStatus status, const char *text)
{
    static const float zeros[2];
    const int64_t shape[] = {2, 3};
    OnnxModel m = onnx_model(ctx.arena);
    NstText attributes, attribute, tensor;
    nst_text_init(&attributes, ctx.arena);
    nst_text_init(&attribute, ctx.arena);
    nst_text_init(&tensor, ctx.arena);
    pb_int(&tensor, 1, n);
    pb_int(&tensor, 2, 1);
    pb_bytes(&tensor, 9, zeros, (size_t)n * sizeof *zeros);
    pb_text(&attribute, 1, "value");
    pb_message(&attribute, 5, &tensor);
    pb_int(&attribute, 20, 4);
    pb_message(&attributes, 5, &attribute);
    onnx_ints(&m, "shape", two, shape, 2);
    onnx_output(&m, "y", 1, two_three);
    onnx_node(&m, "ConstantOfShape", "n1", "shape", "y", &attributes);
    expect(&m, status, text);
}

/* Found by the fuzzer: the constant was looked at after making it had failed. */
Test(import_bad, fill_of_constant_of_shape)
{
    expect_fill(1, NST_OK, "");
    expect_fill(0, NST_E_MODEL, "ConstantOfShape 'n1': attribute 'value' is no tensor of one number");
    expect_fill(2, NST_E_MODEL, "ConstantOfShape 'n1': attribute 'value' is no tensor of one number");
}

Test(import_bad, attributes)
{
    NstText a;
    OnnxModel m = onnx_model(ctx.arena);
    onnx_input(&m, "x", 1, two_three);
    onnx_output(&m, "y", 1, two_three);
    nst_text_init(&a, ctx.arena);
    onnx_attr_int(&a, "axis", 7);
    OnnxModel far_axis = m;
    onnx_node(&far_axis, "Softmax", "n1", "x", "y", &a);
    expect(&far_axis, NST_E_MODEL, "Softmax 'n1': axis 7, allowed for rank 2: -2 to 1");
    m.graph = one_node("Neg", "x", "z").graph;
    onnx_node(&m, "Relu", "n1", "x", "y", &a);
    expect(&m, NST_E_MODEL, "Relu 'n1': attribute 'axis' is none of version 14, allowed: none");
    m.graph = one_node("Neg", "x", "z").graph;
    onnx_node(&m, "Concat", "n1", "x", "y", NULL);
    expect(&m, NST_E_MODEL, "Concat 'n1': attribute 'axis' is missing");
    onnx_attr_int(&a, "axis", 0);
    m.graph = one_node("Neg", "x", "z").graph;
    onnx_node(&m, "Concat", "n1", "x", "y", &a);
    expect(&m, NST_E_MODEL, "Concat 'n1': attribute 'axis' stands there twice");
    nst_text_init(&a, ctx.arena);
    onnx_attr_ints(&a, "axis", 1, (int64_t[]){0});
    m.graph = one_node("Neg", "x", "z").graph;
    onnx_node(&m, "Concat", "n1", "x", "y", &a);
    expect(&m, NST_E_MODEL, "Concat 'n1': attribute 'axis' has type 7, allowed: 2 (i)");
}

/* What would be cut short at the zero. */
Test(import_bad, texts_of_attributes_with_a_zero)
{
    for (unsigned field = 4; field <= 9; field += 5) { /* s, strings */
        NstText list, a;
        nst_text_init(&list, ctx.arena);
        nst_text_init(&a, ctx.arena);
        pb_text(&a, 1, field == 4 ? "value_string" : "value_strings");
        pb_bytes(&a, field, "a\0b", 3);
        pb_int(&a, 20, field == 4 ? 3 : 8);
        pb_message(&list, 5, &a);
        OnnxModel m = onnx_model(ctx.arena);
        onnx_node(&m, "Constant", "n1", "", "y", &list);
        onnx_output(&m, "y", 8, (int64_t[]){-1, INT64_MIN});
        expect(&m, NST_E_UNSUPPORTED,
               field == 4 ? "attribute 'value_string' has a text with a zero byte in it"
                          : "attribute 'value_strings' has a text with a zero byte in it");
    }
}

Test(import_bad, convolution_says_which_channels)
{
    static const int64_t image[] = {1, 64, 8, 8, END}, kernel[] = {8, 3, 1, 1, END};
    NstText a;
    nst_text_init(&a, ctx.arena);
    onnx_attr_int(&a, "group", 32);
    OnnxModel m = onnx_model(ctx.arena);
    float w[24] = {0};
    onnx_input(&m, "x", 1, image);
    onnx_floats(&m, "w", kernel, w, 24);
    onnx_output(&m, "y", 1, image);
    onnx_node(&m, "Conv", "c1", "x w", "y", &a);
    expect(&m, NST_E_SHAPE, "Conv 'c1': W has 3 input channels, X has 64/group 32 = 2");
}

Test(import_bad, extents)
{
    static const int64_t negative[] = {2, -3, END}, huge[] = {INT64_MAX, END};
    static const int64_t overflow[] = {1 << 30, 1 << 30, 1 << 30, END};
    OnnxModel m = one_node("Relu", "x", "y");
    onnx_input(&m, "z", 1, negative);
    expect(&m, NST_E_MODEL, "input 'z': extent -3 of axis 1, allowed: at least 0");
    m = one_node("Relu", "x", "y");
    onnx_input(&m, "z", 1, huge);
    expect(&m, NST_E_LIMIT, "input 'z': extent 9223372036854775807 of axis 0");
    m = one_node("Relu", "x", "y");
    onnx_floats(&m, "w", negative, (float[]){1}, 1);
    expect(&m, NST_E_MODEL, "initializer 'w': extent -3 of axis 1");
    m = one_node("Relu", "x", "y");
    onnx_floats(&m, "w", overflow, (float[]){1}, 1);
    expect(&m, NST_E_LIMIT, "initializer 'w': its shape passes");
    m = one_node("Relu", "x", "y");
    onnx_floats(&m, "w", two_three, (float[]){1}, 1);
    expect(&m, NST_E_MODEL, "initializer 'w': 4 bytes of data, its shape and type f32 need 24");
}

static void keep_warning(void *arg, const char *text)
{
    snprintf(arg, 256, "%s", text);
}

/* Shapes of outputs are what the nodes give; a wrong declaration is said and decides nothing. */
static void expect_warning(const int64_t *declared, const char *text)
{
    char said[256] = "";
    NstImportOptions options = {.warn = keep_warning, .warn_arg = said};
    NstGraph *graph;
    OnnxModel m = onnx_model(ctx.arena);
    onnx_input(&m, "x", 1, two_three);
    onnx_output(&m, "y", 1, declared);
    onnx_node(&m, "Relu", "n1", "x", "y", NULL);
    NstText bytes = onnx_bytes(&m);
    cr_expect_eq(nst_import_onnx(&ctx, ctx.arena, nst_text_get(&bytes), bytes.n, &options, &graph), NST_OK, "%s",
                 ctx.error);
    cr_expect_str_eq(said, text);
}

Test(import_bad, declared_outputs)
{
    static const int64_t two_four[] = {2, 4, END}, open[] = {2, -1, END};
    OnnxModel m = onnx_model(ctx.arena);
    expect_warning(two, "output 'y': declared with rank 1, its nodes give 2");
    expect_warning(two_four, "output 'y': declared with extent 4 at axis 1, its nodes give 3");
    expect_warning(two_three, "");
    expect_warning(open, "");
    onnx_input(&m, "x", 1, two_three);
    onnx_output(&m, "y", 7, two_three);
    onnx_node(&m, "Relu", "n1", "x", "y", NULL);
    expect(&m, NST_E_MODEL, "output 'y': declared as i64, its nodes give f32");
}

Test(import_bad, deep_nesting)
{
    NstText inner, outer;
    nst_text_init(&inner, ctx.arena);
    for (int k = 0; k < 1000; k++) { /* a graph in an attribute of a node of a graph ... */
        NstText attr, node;
        nst_text_init(&attr, ctx.arena);
        pb_text(&attr, 1, "body");
        pb_message(&attr, 6, &inner);
        nst_text_init(&node, ctx.arena);
        pb_message(&node, 5, &attr);
        nst_text_init(&outer, ctx.arena);
        pb_message(&outer, 1, &node);
        inner = outer;
    }
    OnnxModel m = onnx_model(ctx.arena);
    m.graph = inner;
    expect(&m, NST_E_LIMIT, "messages nested more than 160 deep");
}

static void external(OnnxModel *m, const char *location)
{
    NstText t, entry;
    nst_text_init(&t, ctx.arena);
    nst_text_init(&entry, ctx.arena);
    pb_text(&entry, 1, "location");
    pb_text(&entry, 2, location);
    pb_int(&t, 1, 2);
    pb_int(&t, 2, 1);
    pb_text(&t, 8, "w");
    pb_message(&t, 13, &entry);
    pb_int(&t, 14, 1);
    pb_message(&m->graph, 5, &t);
}

Test(import_bad, external_data)
{
    static const char *const outside[] = {"../secret", "/etc/passwd", "a/../../b", ""};
    for (int k = 0; k < 4; k++) {
        OnnxModel m = one_node("Relu", "x", "y");
        external(&m, outside[k]);
        expect(&m, NST_E_MODEL, "allowed: a path below the model's folder");
    }
    OnnxModel m = one_node("Relu", "x", "y");
    external(&m, "weights.bin");
    expect(&m, NST_E_INVALID, "came from memory without a folder");
    NstText bytes = onnx_bytes(&m);
    NstGraph *graph;
    NstImportOptions options = {.folder = "models"};
    nst_ctx_clear(&ctx);
    cr_assert_eq(nst_import_onnx(&ctx, ctx.arena, nst_text_get(&bytes), bytes.n, &options, &graph), NST_E_IO);
    m = one_node("Relu", "x", "y");
    external(&m, "README.md"); /* 8 bytes of it are two floats */
    bytes = onnx_bytes(&m);
    nst_ctx_clear(&ctx);
    cr_assert_eq(nst_import_onnx(&ctx, ctx.arena, nst_text_get(&bytes), bytes.n, &options, &graph), NST_OK, "%s",
                 ctx.error);
}

/* A link beside the model may not lead out of its folder, but to where the model itself is linked to. */
Test(import_bad, links_of_external_data)
{
    static const char *const commands[] = {
        "mkdir -p %s/snapshot %s/store/deep", "echo 0123456789 > %s/store/data",
        "cd %s/snapshot && ln -s ../store/data out && ln -s ../store far && ln -s /etc etc",
        "cd %s/snapshot && cp ../store/data own && ln -s own in && ln -s ../store/m m", "touch %s/store/m"};
    static const struct {
        const char *location, *file;
        bool good;
    } cases[] = {{"in", NULL, true},          {"out", NULL, false},       {"far/data", NULL, false},
                 {"etc/passwd", NULL, false}, {"etc/passwd", "m", false}, {"out", "m", true},
                 {"far/data", "m", true},     {"own", "m", true},         {"out", "own", false}};
    char folder[256], command[800], snapshot[280], file[400];
    support_new_folder(folder, sizeof folder, "links");
    for (size_t k = 0; k < sizeof commands / sizeof *commands; k++) {
        snprintf(command, sizeof command, commands[k], folder, folder);
        cr_assert_eq(system(command), 0);
    }
    snprintf(snapshot, sizeof snapshot, "%s/snapshot", folder);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        snprintf(file, sizeof file, "%s/%s", snapshot, cases[k].file ? cases[k].file : "");
        NstImportOptions options = {.folder = snapshot, .file = cases[k].file ? file : NULL};
        NstGraph *graph;
        OnnxModel m = one_node("Relu", "x", "y");
        external(&m, cases[k].location);
        NstText bytes = onnx_bytes(&m);
        nst_ctx_clear(&ctx);
        NstStatus status = nst_import_onnx(&ctx, ctx.arena, nst_text_get(&bytes), bytes.n, &options, &graph);
        cr_expect_eq(status, cases[k].good ? NST_OK : NST_E_MODEL, "case %zu: %s", k, ctx.error);
        cr_expect(cases[k].good || strstr(ctx.error, "a link that leaves the model's folder"), "case %zu: %s", k,
                  ctx.error);
    }
    support_remove_folder(folder);
}

Test(import_bad, any_changed_byte_gives_a_status)
{
    static const int64_t shape[] = {2, END};
    OnnxModel m = one_node("Add", "x w", "t");
    onnx_floats(&m, "w", two_three, (float[]){1, 2, 3, 4, 5, 6}, 6);
    onnx_ints(&m, "s", shape, (int64_t[]){3, -1}, 2);
    onnx_node(&m, "Reshape", "n2", "t s", "y", NULL);
    NstText bytes = onnx_bytes(&m);
    for (size_t k = 0; k < bytes.n; k++)
        for (int bit = 0; bit < 8; bit++) {
            NstCtx own;
            NstGraph *graph;
            cr_assert_eq(nst_ctx_init(&own), NST_OK);
            char *copy = nst_copy(own.arena, nst_text_get(&bytes), bytes.n);
            copy[k] = (char)(copy[k] ^ 1 << bit);
            NstStatus status = nst_import_onnx(&own, own.arena, copy, bytes.n, NULL, &graph);
            cr_expect(status == NST_OK || own.error[0], "byte %zu", k);
            nst_ctx_dispose(&own);
        }
}

/* An error inside a graph in an attribute is told like any other. */
Test(import_bad, inside_a_branch)
{
    static const int64_t one[] = {END};
    NstText branch, attributes;
    OnnxModel inner = onnx_model(ctx.arena), m = onnx_model(ctx.arena);
    onnx_node(&inner, "Frobnicate", "deep", "x", "y", NULL);
    onnx_output(&inner, "y", 1, two_three);
    nst_text_init(&attributes, ctx.arena);
    for (int k = 0; k < 2; k++) {
        nst_text_init(&branch, ctx.arena);
        pb_text(&branch, 1, k ? "else_branch" : "then_branch");
        pb_message(&branch, 6, &inner.graph);
        pb_int(&branch, 20, 5);
        pb_message(&attributes, 5, &branch);
    }
    onnx_input(&m, "x", 1, two_three);
    onnx_input(&m, "c", 9, one);
    onnx_output(&m, "y", 1, two_three);
    onnx_node(&m, "If", "choice", "c", "y", &attributes);
    expect(&m, NST_E_MODEL, "Frobnicate 'deep': no operator 'Frobnicate'");
}
