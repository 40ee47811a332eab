/* use.c: every public header, and a run; also compiled as C++ (use.cpp). */
#include <nestor/base.h>
#include <nestor/engine.h>
#include <nestor/inspect.h>
#include <nestor/model.h>
#include <nestor/session.h>
#include <nestor/tensor.h>
#include <stdio.h>
#include <string.h>

static const char graph[] = "graph twice(x: f32[n]) {\n  %y = map \"a + a\" %x\n  return y = %y\n}\n";

int main(void)
{
    NstEngine *engine;
    NstModel *model;
    NstSession *session;
    NstEngineOptions options;
    NstNamedTensor in, out;
    float x[3] = {1, 2, 3}, y[3];
    memset(&options, 0, sizeof options);
    memset(&in, 0, sizeof in);
    memset(&out, 0, sizeof out);
    options.cache = "";
    in.name = "x";
    in.tensor.dtype = NST_F32;
    in.tensor.rank = 1;
    in.tensor.shape[0] = 3;
    in.tensor.data = x;
    in.tensor.bytes = sizeof x;
    out.tensor.data = y;
    out.tensor.bytes = sizeof y;
    if (nst_engine_new(&options, &engine) != NST_OK ||
        nst_model_open_memory(engine, "twice", graph, sizeof graph - 1, &model) != NST_OK ||
        nst_session_new(model, NULL, &session) != NST_OK || nst_session_run(session, &in, 1, &out, 1, NULL) != NST_OK) {
        fprintf(stderr, "%s\n", nst_error_text());
        return 1;
    }
    printf("nestor %s: %g %g %g\n", nst_version(), (double)y[0], (double)y[1], (double)y[2]);
    nst_session_free(session);
    nst_model_free(model);
    nst_engine_free(engine);
    return 0;
}
