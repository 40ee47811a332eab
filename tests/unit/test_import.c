/* test_import.c: frontend/import.h: the shipped model, sizes, names. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include "ir/base/os.h"
#include "tests/unit/support_onnx.h"

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(import, .init = begin, .fini = end);

#define PIXELS 784

static void read_image(int digit, float *pixel)
{
    char *bytes;
    size_t n;
    NstStatus status =
        nst_os_read_file(&ctx, ctx.arena, nst_format(ctx.arena, "models/digits/%d.pgm", digit), 10000, &bytes, &n);
    cr_assert_eq(status, NST_OK, "%s", ctx.error);
    cr_assert_eq(n, PIXELS + 13);
    for (int k = 0; k < PIXELS; k++) pixel[k] = (float)(unsigned char)bytes[13 + k] / 255.0f;
}

Test(import, digits_equal_what_onnx_runtime_gives, .timeout = 60)
{
    char *bytes, *expected;
    size_t n, m;
    NstGraph *graph;
    NstTensorValue in = {.dtype = NST_F32, .rank = 4, .shape = {10, 1, 28, 28}, .bytes = 10 * PIXELS * sizeof(float)},
                   out;
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, "models/digits.onnx", 1 << 20, &bytes, &n), NST_OK);
    NstStatus status = nst_import_onnx(&ctx, ctx.arena, bytes, n, NULL, &graph);
    cr_assert_eq(status, NST_OK, "%s", ctx.error);
    in.data = nst_alloc(ctx.arena, in.bytes);
    for (int k = 0; k < 10; k++) read_image(k, (float *)in.data + k * PIXELS);
    status = nst_graph_interpret(&ctx, ctx.arena, graph, &in, 1, true, NULL, &out);
    cr_assert_eq(status, NST_OK, "%s", ctx.error);
    cr_assert(out.rank == 2 && out.shape[0] == 10 && out.shape[1] == 10);
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, "models/expected.tsv", 100000, &expected, &m), NST_OK);
    int rows = 0;
    for (char *line = strtok(expected, "\n"); line; line = strtok(NULL, "\n")) {
        char *at = line, *stop;
        long image = strtol(at, &stop, 10);
        if (stop == at) continue; /* the head */
        at = stop;
        for (int k = 0; k < 10; k++) {
            double wanted = strtod(at, &stop), given = (double)((float *)out.data)[image * 10 + k];
            cr_assert(stop != at && fabs(wanted - given) <= 1e-5, "image %ld, digit %d: %g, expected %g", image, k,
                      given, wanted);
            at = stop;
        }
        rows++;
    }
    cr_assert_eq(rows, 10);
}
