/* warm.c: a user of the public interface: runs a model once with random-free inputs and tells what its process has mapped.
 *
 * usage: warm MODEL.nsg CACHE-FOLDER      prints "compiled N cached N llvm N protobuf N" */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "nestor/session.h"

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, nst_error_text());
    return 1;
}

static int count_maps(const char *word)
{
    char line[4096];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) n += strstr(line, word) != NULL;
    if (maps) fclose(maps);
    return n;
}

static int run_once(NstSession *session)
{
    NstNamedTensor input = {0}, output = {0};
    NstPort port;
    if (nst_session_input(session, 0, &port) != NST_OK) return fail("input");
    size_t n = 1;
    input.tensor.dtype = port.dtype;
    input.tensor.rank = port.rank;
    for (int axis = 0; axis < port.rank; axis++) {
        input.tensor.shape[axis] = port.shape[axis] < 0 ? 3 : port.shape[axis];
        n *= (size_t)input.tensor.shape[axis];
    }
    input.tensor.bytes = n * nst_dtype_size(port.dtype);
    input.tensor.data = calloc(1, input.tensor.bytes);
    NstStatus status = nst_session_run(session, &input, 1, &output, 1, NULL);
    free(input.tensor.data);
    nst_tensor_release(&output.tensor);
    return status == NST_OK ? 0 : fail("run");
}

int main(int n_words, char **words)
{
    NstEngine *engine = NULL;
    NstModel *model = NULL;
    NstSession *session = NULL;
    if (n_words != 3) return 2;
    NstEngineOptions options = {.cache = words[2]};
    if (nst_engine_new(&options, &engine) != NST_OK) return fail("engine");
    if (nst_model_open_file(engine, words[1], &model) != NST_OK) return fail("model");
    if (nst_session_new(model, NULL, &session) != NST_OK) return fail("session");
    if (run_once(session) != 0) return 1;
    NstSessionFacts facts;
    nst_session_facts(session, &facts);
    printf("compiled %u cached %u llvm %d protobuf %d\n", facts.compiled, facts.from_cache, count_maps("LLVM"),
           count_maps("protobuf"));
    nst_session_free(session);
    nst_model_free(model);
    nst_engine_free(engine);
    return 0;
}
