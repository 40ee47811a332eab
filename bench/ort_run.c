/* ort_run.c: runs models/digits.onnx on its sample images in ONNX Runtime's C library and compares with
 * models/expected.tsv: the check that bench/ort.c calls the library rightly.
 *
 * Usage: ort_run [MODELS [LIBRARY]]     (defaults: models, build/ort/libonnxruntime.so)
 * Exit status: 0 all agree, 1 a difference or an error, 77 skipped because the library is not there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/ort.h"

enum { DIGITS = 10, SIDE = 28, PIXELS = SIDE * SIDE, ELEMENT_F32 = 1, SKIPPED = 77 };

static const float TOLERANCE = 1e-5f; /* of a probability: other versions and CPUs sum in another order */

/* Reads a binary 28x28 PGM as pixel / 255. */
static NstStatus read_pgm(NstCtx *ctx, const char *path, float *image)
{
    FILE *file = fopen(path, "rb");
    NST_CHECK(ctx, file, NST_E_IO, "%s cannot be opened", path);
    static const char header[] = "P5\n28 28\n255\n";
    char head[sizeof header - 1];
    unsigned char pixels[PIXELS];
    bool good = fread(head, sizeof head, 1, file) == 1 && fread(pixels, PIXELS, 1, file) == 1 &&
                memcmp(head, header, sizeof head) == 0;
    fclose(file);
    NST_CHECK(ctx, good, NST_E_PARSE, "%s is no binary PGM of 28x28 pixels and maximum 255", path);
    for (int i = 0; i < PIXELS; i++) image[i] = (float)pixels[i] / 255;
    return NST_OK;
}

static NstStatus read_expected(NstCtx *ctx, const char *path, float expected[DIGITS][DIGITS])
{
    FILE *file = fopen(path, "r");
    NST_CHECK(ctx, file, NST_E_IO, "%s cannot be opened", path);
    char line[512];
    int rows = 0;
    while (fgets(line, sizeof line, file) && rows < DIGITS) {
        if (line[0] == '#') continue;
        char *at = line;
        if (strtol(at, &at, 10) != rows) break;
        for (int i = 0; i < DIGITS; i++) expected[rows][i] = strtof(at, &at);
        rows++;
    }
    fclose(file);
    NST_CHECK(ctx, rows == DIGITS, NST_E_PARSE, "%s has %d good rows, expected %d", path, rows, DIGITS);
    return NST_OK;
}

static int argmax(const float *values)
{
    int best = 0;
    for (int i = 1; i < DIGITS; i++)
        if (values[i] > values[best]) best = i;
    return best;
}

/* Runs n images at once and prints a line each; adds the number of wrong ones to *wrong. */
static NstStatus classify(NstCtx *ctx, NstOrtSession *session, float *images, int first, int n,
                          float expected[DIGITS][DIGITS], int *wrong)
{
    NstOrtTensor in = {.element = ELEMENT_F32, .rank = 4, .dims = {n, 1, SIDE, SIDE}, .data = images};
    NstOrtTensor out;
    NST_TRY(nst_ort_set_input(ctx, session, 0, &in));
    NST_TRY(nst_ort_run(ctx, session));
    NST_TRY(nst_ort_run(ctx, session)); /* writes over the outputs in place */
    NST_TRY(nst_ort_output(ctx, session, 0, &out));
    NST_CHECK(ctx, out.element == ELEMENT_F32 && out.rank == 2 && out.dims[0] == n && out.dims[1] == DIGITS,
              NST_E_SHAPE, "output is of type %d, rank %d; expected f32 [%d, %d]", out.element, out.rank, n, DIGITS);
    for (int i = 0; i < n; i++) {
        const float *found = (const float *)out.data + i * DIGITS;
        float worst = 0;
        for (int d = 0; d < DIGITS; d++) worst = fmaxf(worst, fabsf(found[d] - expected[first + i][d]));
        bool right = argmax(found) == first + i && worst <= TOLERANCE;
        printf("%d.pgm, batch of %d: %d, probability %.4f, difference %.1e%s\n", first + i, n, argmax(found),
               (double)found[argmax(found)], (double)worst, right ? "" : "  WRONG");
        *wrong += !right;
    }
    return NST_OK;
}

static NstStatus run(NstCtx *ctx, NstOrt *ort, const char *models, int *wrong)
{
    static float images[DIGITS][PIXELS], expected[DIGITS][DIGITS];
    for (int d = 0; d < DIGITS; d++)
        NST_TRY(read_pgm(ctx, nst_format(ctx->arena, "%s/digits/%d.pgm", models, d), images[d]));
    NST_TRY(read_expected(ctx, nst_format(ctx->arena, "%s/expected.tsv", models), expected));
    NstOrtSession *session;
    const char *model = nst_format(ctx->arena, "%s/digits.onnx", models);
    NST_TRY(nst_ort_open_file(ctx, ort, model, (NstOrtOptions){.threads = 1}, &session));
    printf("%s: input '%s', output '%s'\n", model, nst_ort_input_name(session, 0), nst_ort_output_name(session, 0));
    NstStatus status = NST_OK;
    for (int d = 0; d < DIGITS && status == NST_OK; d++)
        status = classify(ctx, session, images[d], d, 1, expected, wrong);
    if (status == NST_OK) status = classify(ctx, session, images[0], 0, DIGITS, expected, wrong);
    nst_ort_close(session);
    return status;
}

/* The library's errors must arrive as text. */
static NstStatus check_errors(NstCtx *ctx, NstOrt *ort)
{
    NstOrtSession *session;
    NstStatus status = nst_ort_open_bytes(ctx, ort, "no model", 8, (NstOrtOptions){.threads = 1}, &session);
    NST_CHECK(ctx, status == NST_E_COMPILER && !session, NST_E_ASSERT, "eight bytes of nonsense were opened: %s",
              nst_status_name(status));
    printf("as expected: %s\n", ctx->error);
    nst_ctx_clear(ctx);
    return NST_OK;
}

int main(int argc, char **argv)
{
    const char *models = argc > 1 ? argv[1] : "models";
    NstCtx ctx;
    NstOrt *ort = NULL;
    int wrong = 0;
    if (nst_ctx_init(&ctx) != NST_OK) return 1;
    NstStatus status = nst_ort_load(&ctx, argc > 2 ? argv[2] : NULL, &ort);
    bool missing = status == NST_E_NOT_FOUND;
    if (status == NST_OK) {
        printf("ONNX Runtime %s\n", nst_ort_version(ort));
        status = run(&ctx, ort, models, &wrong);
    }
    if (status == NST_OK) status = check_errors(&ctx, ort);
    nst_ort_unload(ort);
    if (missing)
        printf("skipped: %s\n", ctx.error);
    else if (status != NST_OK)
        printf("%s: %s\n", nst_status_name(status), ctx.error);
    nst_ctx_dispose(&ctx);
    return missing ? SKIPPED : status != NST_OK || wrong > 0;
}
