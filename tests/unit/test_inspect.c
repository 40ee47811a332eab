/* test_inspect.c: include/nestor/inspect.h: declarations of models and the operator table. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include "nestor/inspect.h"
#include "tests/unit/support_engine.h"
#include "tests/unit/support_onnx.h"

SUPPORT_ENGINE_SUITE(inspect, .timeout = 60);

static NstStatus info_of(const void *bytes, size_t n, const NstModelInfo **info)
{
    NstModel *model;
    NstStatus status = nst_model_open_memory(engine, "m", bytes, n, &model);
    if (status != NST_OK) return status;
    status = nst_model_info(model, info);
    nst_model_free(model); /* info outlives it */
    return status;
}

/* An If whose branch has an operator of its own, an operator of an unknown domain, a default for an input. */
static NstText sample(void)
{
    OnnxModel m = onnx_model(ctx.arena), branch = onnx_model(ctx.arena);
    NstText attributes, attribute;
    const int64_t shape[] = {-1, 3, INT64_MIN}, one[] = {1, INT64_MIN};
    const float two = 2;
    m.domain = "com.example";
    onnx_node(&branch, "Relu", "inner", "x", "r", NULL);
    onnx_output(&branch, "r", 1, shape);
    nst_text_init(&attributes, ctx.arena);
    for (int k = 0; k < 2; k++) {
        nst_text_init(&attribute, ctx.arena);
        pb_text(&attribute, 1, k ? "else_branch" : "then_branch");
        pb_message(&attribute, 6, &branch.graph);
        pb_int(&attribute, 20, 5);
        pb_message(&attributes, 5, &attribute);
    }
    onnx_input(&m, "x", 1, shape);
    onnx_input(&m, "scale", 1, one);
    onnx_floats(&m, "scale", one, &two, 1);
    onnx_output(&m, "y", 1, shape);
    onnx_node(&m, "Relu", "a", "x", "a", NULL);
    onnx_node(&m, "Frobnicate", "b", "a", "b", NULL);
    onnx_node(&m, "If", "c", "b", "y", &attributes);
    return onnx_bytes(&m);
}

Test(inspect, tells_ports_and_operators_of_subgraphs_too)
{
    NstText bytes = sample();
    const NstModelInfo *info;
    cr_assert_eq(info_of(bytes.at, bytes.n, &info), NST_OK, "%s", nst_error_text());
    cr_assert_str_eq(info->format, "onnx");
    cr_assert(info->n_inputs == 1 && info->n_outputs == 1 && info->n_overridable == 1);
    cr_assert_str_eq(info->inputs[0].name, "x");
    cr_assert_str_eq(info->inputs[0].type, "f32");
    cr_assert(info->inputs[0].rank == 2 && info->inputs[0].shape[0] == -1 && info->inputs[0].shape[1] == 3);
    cr_assert_str_eq(info->inputs[0].symbol[0], "N");
    cr_assert_str_eq(info->overridable[0].name, "scale");
    cr_assert_eq(info->weight_bytes, 4);
    cr_assert_eq(info->nodes, 5);
    cr_assert_eq(info->n_operators, 3);
    cr_assert_str_eq(info->operators[0].name, "Frobnicate");
    cr_assert_eq(info->operators[0].state, NST_OPERATOR_UNKNOWN);
    cr_assert_str_eq(info->operators[1].name, "If");
    cr_assert_str_eq(info->operators[2].name, "Relu");
    cr_assert(info->operators[2].nodes == 3 && info->operators[2].state == NST_OPERATOR_RUNS);
    cr_assert_eq(info->n_opsets, 2);
    nst_model_info_free(info);
}

/* Fields of AttributeProto, with as many tensors as are put there. */
static const struct Holder {
    unsigned field;
    int64_t type;
    bool sparse;
    unsigned n;
} holders[] = {{5, 4, false, 1}, {10, 9, false, 2}, {22, 11, true, 1}, {23, 12, true, 2}};

/* A tensor or lists of them, sparse (whose values count) or not. */
Test(inspect, counts_weights_that_nodes_hold)
{
    static const float six[6] = {1, 2, 3, 4, 5, 6};
    const int64_t shape[] = {2, 3, INT64_MIN};
    for (size_t k = 0; k < sizeof holders / sizeof *holders; k++) {
        OnnxModel m = onnx_model(ctx.arena);
        NstText attributes, attribute, tensor, sparse;
        const NstModelInfo *info;
        nst_text_init(&attributes, ctx.arena);
        nst_text_init(&attribute, ctx.arena);
        nst_text_init(&tensor, ctx.arena);
        nst_text_init(&sparse, ctx.arena);
        pb_int(&tensor, 1, 2);
        pb_int(&tensor, 1, 3);
        pb_int(&tensor, 2, 1);
        pb_bytes(&tensor, 9, six, sizeof six);
        pb_message(&sparse, 1, &tensor);
        pb_text(&attribute, 1, "value");
        for (unsigned t = 0; t < holders[k].n; t++)
            pb_message(&attribute, holders[k].field, holders[k].sparse ? &sparse : &tensor);
        pb_int(&attribute, 20, holders[k].type);
        pb_message(&attributes, 5, &attribute);
        onnx_output(&m, "y", 1, shape);
        onnx_node(&m, "Constant", "c", "", "y", &attributes);
        NstText bytes = onnx_bytes(&m);
        cr_assert_eq(info_of(bytes.at, bytes.n, &info), NST_OK, "%s", nst_error_text());
        cr_assert_eq(info->weight_bytes, holders[k].n * sizeof six, "field %u", holders[k].field);
        nst_model_info_free(info);
    }
}

Test(inspect, reads_graphs_in_text_form)
{
    static const char text[] = "graph f(x: f32[n, 4]) {\n  %y = map \"a + 1\" %x\n  return y = %y\n}\n";
    const NstModelInfo *info;
    cr_assert_eq(info_of(text, sizeof text - 1, &info), NST_OK, "%s", nst_error_text());
    cr_assert_str_eq(info->format, "nsg");
    cr_assert_str_eq(info->graph, "f");
    cr_assert_str_eq(info->outputs[0].symbol[0], "n");
    cr_assert(info->n_operators == 1 && info->nodes == 1);
    cr_assert_str_eq(info->operators[0].name, "map");
    nst_model_info_free(info);
    nst_model_info_free(NULL);
}

Test(inspect, what_is_no_model_is_said)
{
    const NstModelInfo *info = (const NstModelInfo *)&ctx;
    cr_assert_eq(info_of("version https://git-lfs", 23, &info), NST_E_PARSE);
    cr_assert_null(info);
    cr_assert(strlen(nst_error_text()) > 10);
    cr_assert_eq(nst_model_info(NULL, &info), NST_E_INVALID);
}

Test(inspect, every_allocation_may_fail)
{
    NstText bytes = sample();
    const NstModelInfo *info = NULL;
    NstStatus status = NST_E_NOMEM;
    uint64_t n = 0;
    while (status == NST_E_NOMEM) {
        nst_arena_fail_after(++n);
        status = info_of(bytes.at, bytes.n, &info);
        nst_arena_fail_after(0);
    }
    cr_assert_eq(status, NST_OK, "%s", nst_error_text());
    cr_assert_gt(n, 3);
    nst_model_info_free(info);
}

Test(inspect, the_table_names_versions_and_states)
{
    char *text;
    cr_assert_eq(nst_operator_table(engine, &text), NST_OK, "%s", nst_error_text());
    cr_assert_eq(strncmp(text, "domain\toperator\tversion\tstate\t", 30), 0);
    cr_assert_not_null(strstr(text, "\nai.onnx\tAbs\t13\truns\t"));
    nst_text_free(text);
    cr_assert_eq(nst_operator_table(NULL, &text), NST_E_INVALID);
    cr_assert_str_eq(nst_operator_state_name(NST_OPERATOR_NOT_YET), "not yet");
}
