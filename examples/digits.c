/* digits.c: classifies a picture of a digit with models/digits.onnx, through the public interface alone.
 *
 * usage: digits MODEL.onnx PICTURE.pgm     (8-bit binary PGM, 28 x 28, white on black)
 * Prints the digit, how sure the model is, the compile time (0 when the plan came from the cache) and the run time. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "nestor/session.h"

enum { SIDE = 28, CLASSES = 10, RUNS = 100 };

static void must(NstStatus status, const char *what)
{
    if (status == NST_OK) return;
    fprintf(stderr, "%s: %s: %s\n", what, nst_status_name(status), nst_error_text());
    exit(1);
}

/* Pixels of a picture as 0 .. 1. */
static void read_picture(const char *path, float *pixel)
{
    unsigned char bytes[SIDE * SIDE];
    int width = 0, height = 0, most = 0;
    FILE *file = fopen(path, "rb");
    if (!file || fscanf(file, "P5 %d %d %d", &width, &height, &most) != 3 || fgetc(file) == EOF || width != SIDE ||
        height != SIDE || most != 255 || fread(bytes, 1, sizeof bytes, file) != sizeof bytes) {
        fprintf(stderr, "%s is no 8-bit binary PGM of %d x %d\n", path, SIDE, SIDE);
        exit(1);
    }
    fclose(file);
    for (int k = 0; k < SIDE * SIDE; k++) pixel[k] = (float)bytes[k] / 255;
}

static double now_ms(void)
{
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: digits MODEL.onnx PICTURE.pgm\n");
        return 2;
    }
    float pixel[SIDE * SIDE], probability[CLASSES];
    read_picture(argv[2], pixel);

    NstEngine *engine;
    NstModel *model;
    NstSession *session;
    must(nst_engine_new(NULL, &engine), "engine");
    must(nst_model_open_file(engine, argv[1], &model), argv[1]);
    must(nst_session_new(model, NULL, &session), argv[1]);

    NstNamedTensor input = {
        "image", {.dtype = NST_F32, .rank = 4, .shape = {1, 1, SIDE, SIDE}, .data = pixel, .bytes = sizeof pixel}};
    NstNamedTensor output = {"probability", {.data = probability, .bytes = sizeof probability}};
    double best = 0;
    for (int run = 0; run < RUNS; run++) {
        double start = now_ms();
        must(nst_session_run(session, &input, 1, &output, 1, NULL), "run");
        double took = now_ms() - start;
        if (run == 0 || took < best) best = took;
    }

    int digit = 0;
    for (int k = 1; k < CLASSES; k++)
        if (probability[k] > probability[digit]) digit = k;
    NstSessionFacts facts;
    nst_session_facts(session, &facts);
    printf("digit %d (%.1f %%), ", digit, 100 * (double)probability[digit]);
    if (facts.compiled)
        printf("compiled in %.1f ms, ", (double)facts.compile_ns / 1e6);
    else
        printf("warm from the cache, ");
    printf("run in %.3f ms (best of %d), %u kernels\n", best, RUNS, facts.kernels);

    nst_session_free(session);
    nst_model_free(model);
    nst_engine_free(engine);
    return 0;
}
