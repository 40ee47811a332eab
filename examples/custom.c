/* custom.c: a model with an operator of our own: Scale of domain "org.example", y = alpha * x.
 *
 * usage: custom        the model is written here, byte for byte, so that the program needs no file
 * Prints the result of one run, and what a model says whose operator nobody has registered. */
#include <stdio.h>
#include <stdlib.h>
#include "nestor/custom.h"
#include "nestor/session.h"

/* Called when the model is made ready: y is as large as x, open sizes included. */
static NstStatus infer(void *user, NstOperatorCall *call, const NstOperatorType *inputs, uint32_t n_inputs,
                       NstOperatorType *outputs, uint32_t n_outputs)
{
    (void)user, (void)n_inputs, (void)n_outputs;
    if (inputs[0].dtype != NST_F32)
        return nst_operator_fail(call, NST_E_TYPE, "x is %s, allowed: f32", nst_dtype_name(inputs[0].dtype));
    outputs[0].dtype = NST_F32;
    outputs[0].rank = inputs[0].rank;
    for (int axis = 0; axis < inputs[0].rank; axis++) {
        int64_t size = inputs[0].shape[axis];
        outputs[0].shape[axis] = size < 0 ? NST_SAME_SIZE(0, axis) : size;
    }
    return NST_OK;
}

/* Called in every run, from whatever thread runs the session. */
static NstStatus compute(void *user, NstOperatorCall *call, const NstTensor *inputs, uint32_t n_inputs,
                         NstTensor *outputs, uint32_t n_outputs)
{
    (void)user, (void)n_inputs, (void)n_outputs;
    const float *x = inputs[0].data, alpha = nst_operator_float(call, "alpha", 1.0f);
    float *y = outputs[0].data;
    for (size_t k = 0; k < inputs[0].bytes / sizeof *x; k++) y[k] = alpha * x[k];
    return NST_OK;
}

/* y = Scale(x), alpha = 2.5, x: f32[N]: what an exporter would write, field by field. */
static const char bytes[] = "\x08\x08" /* IR version 8 */
                            ":Z"       /* the graph */
                            "\x0a"
                            "1"                              /* its node */
                            "\x0a\x01x\x12\x01y\x1a\x04mine" /* input, output, name */
                            "\x22\x05Scale:\x0borg.example"  /* operator, domain */
                            "*\x0f\x0a\x05"
                            "alpha\x15\x00\x00 @\xa0\x01\x01"                                 /* alpha = 2.5, a float */
                            "\x12\x01g"                                                       /* name of the graph */
                            "Z\x10\x0a\x01x\x12\x0b\x0a\x09\x08\x01\x12\x05\x0a\x03\x12\x01N" /* x: f32[N] */
                            "b\x10\x0a\x01y\x12\x0b\x0a\x09\x08\x01\x12\x05\x0a\x03\x12\x01N" /* y: f32[N] */
                            "B\x02\x10\x11" /* imports opset 17 of ONNX */
                            "B\x0f\x0a\x0borg.example\x10\x01" /* and version 1 of org.example */;

static void must(NstStatus status, const char *what)
{
    if (status == NST_OK) return;
    fprintf(stderr, "%s: %s\n", what, nst_error_text());
    exit(1);
}

int main(void)
{
    const NstOperator scale = {.domain = "org.example",
                               .name = "Scale",
                               .version = 1,
                               .min_inputs = 1,
                               .max_inputs = 1,
                               .min_outputs = 1,
                               .max_outputs = 1,
                               .infer = infer,
                               .compute = compute};
    float x[4] = {1, 2, 3, -4};
    NstEngine *engine;
    NstModel *model;
    NstSession *session = NULL;
    must(nst_engine_new(NULL, &engine), "engine");
    must(nst_model_open_memory(engine, "scale", bytes, sizeof bytes - 1, &model), "model");
    if (nst_session_new(model, NULL, &session) != NST_OK) printf("without: %s\n", nst_error_text());
    must(nst_engine_add_operator(engine, &scale), "operator");
    must(nst_session_new(model, NULL, &session), "session");
    NstNamedTensor input = {"x", {.dtype = NST_F32, .rank = 1, .shape = {4}, .data = x, .bytes = sizeof x}};
    NstNamedTensor output = {.name = "y"};
    must(nst_session_run(session, &input, 1, &output, 1, NULL), "run");
    const float *y = output.tensor.data;
    printf("with: %g %g %g %g\n", (double)y[0], (double)y[1], (double)y[2], (double)y[3]);
    nst_tensor_release(&output.tensor);
    nst_session_free(session);
    nst_model_free(model);
    nst_engine_free(engine);
    return 0;
}
