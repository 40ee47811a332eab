/* concurrent.c: two threads run one session at once; nothing needs a lock, and each gets what it would get alone.
 *
 * usage: concurrent MODEL.onnx [RUNS]      a model with one f32 input; open sizes become 1
 * Prints how many runs a second one thread makes, and two. */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "nestor/session.h"

enum { THREADS = 2 };

typedef struct Work {
    NstSession *session;
    NstNamedTensor input; /* the thread's own */
    int runs;
    NstTensor last; /* output of the last run */
    NstStatus status;
    char error[256]; /* nst_error_text() is the thread's own, so it is copied out */
} Work;

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void must(NstStatus status, const char *what)
{
    if (status != NST_OK) stop(what, nst_error_text());
}

static void *run_often(void *arg)
{
    Work *work = arg;
    for (int k = 0; k < work->runs; k++) {
        NstNamedTensor output = {0};
        work->status = nst_session_run(work->session, &work->input, 1, &output, 1, NULL);
        if (work->status != NST_OK) {
            snprintf(work->error, sizeof work->error, "%s", nst_error_text());
            return NULL;
        }
        nst_tensor_release(&work->last);
        work->last = output.tensor;
    }
    return NULL;
}

static NstTensor input_of(const NstPort *port, int seed)
{
    NstTensor t = {.dtype = port->dtype, .rank = port->rank, .bytes = sizeof(float)};
    if (port->dtype != NST_F32) stop(port->name, "the input is not f32");
    for (int axis = 0; axis < port->rank; axis++) {
        t.shape[axis] = port->shape[axis] < 0 ? 1 : port->shape[axis];
        t.bytes *= (size_t)t.shape[axis];
    }
    float *at = t.data = calloc(t.bytes ? t.bytes : 1, 1);
    if (!at) stop("concurrent", "no memory");
    for (size_t k = 0; k < t.bytes / sizeof(float); k++) at[k] = sinf((float)(k % 1000) + (float)seed);
    return t;
}

static double seconds(void)
{
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Runs a second of n threads together. */
static double measure(Work *work, int n)
{
    pthread_t id[THREADS];
    double start = seconds();
    for (int k = 0; k < n; k++)
        if (pthread_create(&id[k], NULL, run_often, &work[k]) != 0) stop("concurrent", "no thread can be made");
    for (int k = 0; k < n; k++) pthread_join(id[k], NULL);
    double took = seconds() - start;
    for (int k = 0; k < n; k++)
        if (work[k].status != NST_OK) stop("run", work[k].error);
    return n * work[0].runs / took;
}

int main(int argc, char **argv)
{
    NstEngineOptions options = {.threads = 1}; /* each run on its caller's thread alone */
    NstEngine *engine;
    NstModel *model;
    NstSession *session;
    NstPort port;
    Work work[THREADS] = {{0}};
    int runs = argc == 3 ? atoi(argv[2]) : 1000;
    if ((argc != 2 && argc != 3) || runs < 1) {
        fprintf(stderr, "usage: concurrent MODEL.onnx [RUNS]\n");
        return 2;
    }
    must(nst_engine_new(&options, &engine), "engine");
    must(nst_model_open_file(engine, argv[1], &model), argv[1]);
    must(nst_session_new(model, NULL, &session), argv[1]);
    must(nst_session_input(session, 0, &port), argv[1]);
    for (int k = 0; k < THREADS; k++)
        work[k] = (Work){.session = session, .input = {NULL, input_of(&port, k)}, .runs = runs};

    double alone = measure(work, 1);
    NstTensor first = work[0].last;
    work[0].last = (NstTensor){0};
    double together = measure(work, THREADS);
    bool same = first.bytes == work[0].last.bytes && memcmp(first.data, work[0].last.data, first.bytes) == 0;
    printf("one thread: %.0f runs a second; two threads on one session: %.0f; results %s\n", alone, together,
           same ? "the same" : "DIFFER");

    nst_tensor_release(&first);
    for (int k = 0; k < THREADS; k++) {
        nst_tensor_release(&work[k].last);
        free(work[k].input.tensor.data);
    }
    nst_session_free(session);
    nst_model_free(model);
    nst_engine_free(engine);
    return same ? 0 : 1;
}
