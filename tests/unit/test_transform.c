/* test_transform.c: Fourier transforms long enough to be split, against sums in f64. */
#include <criterion/criterion.h>
#include <math.h>
#include "tests/unit/support_engine.h"
#include "tests/unit/support_onnx.h"

SUPPORT_ENGINE_SUITE(transform, .timeout = 60);

#define ROWS 2

/* Entry k of the transform of a row of n complex numbers. */
static void sum_of(const double *row, int n, int k, bool inverse, double result[2])
{
    result[0] = result[1] = 0;
    for (int j = 0; j < n; j++) {
        double angle = (inverse ? 2 : -2) * 3.14159265358979323846 * (double)((int64_t)j * k % n) / n;
        result[0] += row[2 * j] * cos(angle) - row[2 * j + 1] * sin(angle);
        result[1] += row[2 * j] * sin(angle) + row[2 * j + 1] * cos(angle);
    }
    for (int p = 0; p < 2 && inverse; p++) result[p] /= n;
}

static const float *run_dft(const float *x, int64_t n, int64_t parts, bool inverse, bool onesided, int64_t length)
{
    const int64_t shape[] = {ROWS, n, parts, INT64_MIN}, any[] = {ROWS, -1, -1, INT64_MIN};
    OnnxModel m = onnx_model(ctx.arena);
    NstText a;
    nst_text_init(&a, ctx.arena);
    onnx_attr_int(&a, "inverse", inverse);
    onnx_attr_int(&a, "onesided", onesided);
    m.opset = 20;
    onnx_input(&m, "x", 1, shape);
    onnx_ints(&m, "length", (int64_t[]){INT64_MIN}, &length, 1);
    onnx_output(&m, "y", 1, any);
    onnx_node(&m, "DFT", "d", "x length", "y", &a);
    NstText bytes = onnx_bytes(&m);
    NstModel *model;
    NstSession *session;
    cr_assert_eq(nst_model_open_memory(engine, "dft", nst_text_get(&bytes), bytes.n, &model), NST_OK);
    cr_assert_eq(nst_session_new(model, NULL, &session), NST_OK, "%s", nst_error_text());
    NstNamedTensor in = {"x", {.dtype = NST_F32, .rank = 3, .shape = {ROWS, n, parts}}}, out = {.name = "y"};
    in.tensor.bytes = (size_t)(ROWS * n * parts) * 4;
    in.tensor.data = nst_copy(ctx.arena, x, in.tensor.bytes);
    cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    const float *y = nst_copy(ctx.arena, out.tensor.data, out.tensor.bytes);
    nst_tensor_release(&out.tensor);
    nst_session_free(session);
    nst_model_free(model);
    return y;
}

static float *noise(int64_t n)
{
    float *x = nst_alloc(ctx.arena, (size_t)n * sizeof *x);
    nst_const_fill_seeded(NST_F32, x, (size_t)n, 7);
    return x;
}

static void expect(const float *y, const double *row, int n, int k, bool inverse, int parts, int64_t at)
{
    double wanted[2];
    sum_of(row, n, k, inverse, wanted);
    double room = (inverse ? 1e-6 : 1e-6 * sqrt(n)) * 4; /* of f32 sums of n numbers up to 1 */
    for (int p = 0; p < parts; p++)
        cr_assert(fabs((double)y[at * parts + p] - wanted[p]) <= room, "n %d, entry %d, part %d: %g, expected %g", n, k,
                  p, (double)y[at * parts + p], wanted[p]);
}

/* 640 is 20 times 32, 1172 4 times a prime; 521 is a prime. */
static const int lengths[] = {640, 1172, 521};

Test(transform, complex_both_ways, .timeout = 60)
{
    for (int l = 0; l < 3; l++) {
        int n = lengths[l];
        float *x = noise(2 * ROWS * n);
        double *row = nst_alloc(ctx.arena, (size_t)(2 * ROWS * n) * sizeof *row);
        for (int j = 0; j < 2 * ROWS * n; j++) row[j] = (double)x[j];
        for (int inverse = 0; inverse < 2; inverse++) {
            const float *y = run_dft(x, n, 2, inverse, false, n);
            for (int r = 0; r < ROWS; r++)
                for (int k = 0; k < n; k += 37) expect(y, row + 2 * n * r, n, k, inverse, 2, (int64_t)r * n + k);
        }
    }
}

/* Real to half a spectrum and back, with a signal that is filled up with zeros. */
Test(transform, one_sided_both_ways, .timeout = 60)
{
    for (int l = 0; l < 3; l++) {
        int n = lengths[l], half = n / 2 + 1, given = n - 40;
        float *x = noise(ROWS * given);
        double *row = nst_alloc(ctx.arena, (size_t)(2 * ROWS * n) * sizeof *row);
        for (int r = 0; r < ROWS; r++)
            for (int j = 0; j < given; j++) row[2 * (r * n + j)] = (double)x[r * given + j];
        const float *y = run_dft(x, given, 1, false, true, n);
        for (int r = 0; r < ROWS; r++)
            for (int k = 0; k < half; k += 7) expect(y, row + 2 * n * r, n, k, false, 2, (int64_t)r * half + k);
        const float *back = run_dft(y, half, 2, true, true, n);
        for (int j = 0; j < ROWS * n; j++)
            cr_assert(fabs((double)back[j] - row[2 * j]) <= 4e-6, "n %d, element %d: %g, expected %g", n, j,
                      (double)back[j], row[2 * j]);
    }
}

/* A length that the model leaves open is transformed the same way where it is declared: no size decides about bits. */
Test(transform, open_and_declared_lengths, .timeout = 60)
{
    enum { N = 640 };
    const int64_t shape[] = {ROWS, -1, 2, INT64_MIN}, any[] = {ROWS, -1, 2, INT64_MIN};
    OnnxModel m = onnx_model(ctx.arena);
    NstModel *model;
    float *y[2];
    m.opset = 20;
    onnx_input(&m, "x", 1, shape);
    onnx_output(&m, "y", 1, any);
    onnx_node(&m, "DFT", "d", "x", "y", NULL);
    NstText bytes = onnx_bytes(&m);
    cr_assert_eq(nst_model_open_memory(engine, "dft", nst_text_get(&bytes), bytes.n, &model), NST_OK);
    NstInputShape declared = {.name = "x", .rank = 3, .shape = {ROWS, N, 2}};
    for (uint32_t n_shapes = 0; n_shapes < 2; n_shapes++) {
        NstSessionOptions options = {.shapes = &declared, .n_shapes = n_shapes};
        NstSession *session;
        cr_assert_eq(nst_session_new(model, &options, &session), NST_OK, "%s", nst_error_text());
        NstNamedTensor in = {"x", {.dtype = NST_F32, .rank = 3, .shape = {ROWS, N, 2}}}, out = {.name = "y"};
        in.tensor.bytes = sizeof(float[ROWS * N * 2]);
        in.tensor.data = noise(2 * ROWS * N);
        cr_assert_eq(nst_session_run(session, &in, 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
        y[n_shapes] = nst_copy(ctx.arena, out.tensor.data, out.tensor.bytes);
        nst_tensor_release(&out.tensor);
        nst_session_free(session);
    }
    cr_assert_arr_eq(y[0], y[1], sizeof(float[ROWS * N * 2]));
    nst_model_free(model);
}
