/* test_bench_reference.c: the references that gates compare with compute what they say: bench/bandwidth.h, permute.h,
 * mvec.h, onednn.h. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bandwidth.h"
#include "bench/mvec.h"
#include "bench/onednn.h"
#include "bench/permute.h"

static float *make_array(int n, float first)
{
    float *array = aligned_alloc(64, (size_t)n * sizeof(float));
    cr_assert(array);
    for (int i = 0; i < n; i++) array[i] = first + (float)i;
    return array;
}

Test(bench_reference, copies_copy)
{
    enum { N = 64 * 1024 + 16 };
    float *from = make_array(N, 1), *to = make_array(N, 0);
    NstCopy copy = {to, from, N * sizeof(float)};
    NstBenchCase cases[NST_COPY_CASES];
    cr_assert_eq(nst_copy_cases(&copy, cases), NST_COPY_CASES);
    for (int k = 0; k < NST_COPY_CASES; k++) {
        memset(to, 0, copy.bytes);
        cases[k].run(cases[k].arg);
        cr_assert_eq(memcmp(to, from, copy.bytes), 0, "%s", cases[k].name);
        cr_assert_eq(cases[k].work, 2.0 * (double)copy.bytes);
    }
    free(from);
    free(to);
}

Test(bench_reference, parts_cover_the_array_once)
{
    char bytes[1];
    NstRead whole = {bytes, 7 * 4096};
    for (int n = 1; n <= 4; n++) {
        const char *end = bytes;
        for (int t = 0; t < n; t++) {
            NstRead part = nst_read_part(&whole, t, n);
            cr_assert_eq(part.from, end);
            cr_assert_eq(part.bytes % 4096, 0);
            end = (const char *)part.from + part.bytes;
        }
        cr_assert_eq(end, bytes + whole.bytes);
    }
}

static void check_transpose(int rows, int columns)
{
    int n = rows * columns;
    float *from = make_array(n, 0), *to = make_array(n, 0);
    NstTranspose transpose = {to, from, rows, columns};
    NstBenchCase cases[NST_TRANSPOSE_CASES];
    int n_cases = nst_transpose_cases(&transpose, cases);
    for (int k = 0; k < n_cases; k++) {
        memset(to, 0, (size_t)n * sizeof(float));
        cases[k].run(cases[k].arg);
        for (int i = 0; i < n; i++)
            cr_assert_eq(to[i], from[i % rows * columns + i / rows], "%s of %dx%d at %d", cases[k].name, rows, columns,
                         i);
    }
    free(from);
    free(to);
}

Test(bench_reference, transposes_transpose)
{
    check_transpose(16, 16);
    check_transpose(48, 80);
    check_transpose(144, 64);
}

Test(bench_reference, row_copies_swap_the_outer_axes)
{
    enum { OUTER = 3, INNER = 5, WIDTH = 48, N = OUTER * INNER * WIDTH };
    float *from = make_array(N, 0), *to = make_array(N, 0);
    NstRows rows = {to, from, OUTER, INNER, WIDTH};
    NstBenchCase cases[NST_ROWS_CASES];
    cr_assert_eq(nst_rows_cases(&rows, cases), NST_ROWS_CASES);
    for (int k = 0; k < NST_ROWS_CASES; k++) {
        memset(to, 0, N * sizeof(float));
        cases[k].run(cases[k].arg);
        for (int b = 0; b < INNER; b++)
            for (int a = 0; a < OUTER; a++)
                cr_assert_eq(
                    memcmp(to + (b * OUTER + a) * WIDTH, from + (a * INNER + b) * WIDTH, WIDTH * sizeof(float)), 0,
                    "%s, row %d %d", cases[k].name, b, a);
    }
    free(from);
    free(to);
}

Test(bench_reference, libmvec_computes_exp_for_every_width)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    float from[64], to[64];
    for (int i = 0; i < 64; i++) from[i] = (float)(i - 40) / 8;
    for (int lanes = 4; lanes <= 16; lanes *= 2) {
        NstMvec mvec = {.n = 64, .from = from, .to = to};
        cr_assert_eq(nst_mvec_load(&ctx, "expf", lanes, &mvec), NST_OK, "%s", ctx.error);
        cr_assert_leq(mvec.lanes, lanes);
        memset(to, 0, sizeof to);
        NstBenchCase exp_case = nst_mvec_case(&mvec);
        exp_case.run(exp_case.arg);
        for (int i = 0; i < 64; i++)
            cr_assert_lt(fabsf(to[i] - expf(from[i])), 1e-6f * expf(from[i]), "exp(%g) is %g", (double)from[i],
                         (double)to[i]);
    }
    NstMvec mvec = {.n = 64, .from = from, .to = to};
    cr_assert_eq(nst_mvec_load(&ctx, "no_such_function", 16, &mvec), NST_E_UNSUPPORTED);
    nst_ctx_clear(&ctx);
    cr_assert_eq(nst_mvec_load(&ctx, "expf", 5, &mvec), NST_E_INVALID);
    nst_ctx_dispose(&ctx);
}

/* Passes without a check where oneDNN is not installed. */
Test(bench_reference, onednn_multiplies_row_major)
{
    enum { M = 3, N = 5, K = 7 };
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    NstOnednn *onednn;
    NstStatus status = nst_onednn_load(&ctx, 1, &onednn);
    if (status == NST_OK) {
        float a[M * K], b[K * N], c[M * N];
        for (int i = 0; i < M * K; i++) a[i] = (float)(i % 5 - 2);
        for (int i = 0; i < K * N; i++) b[i] = (float)(i % 3 - 1);
        NstSgemm product = {.onednn = onednn, .m = M, .n = N, .k = K, .a = a, .b = b, .c = c, .status = -1};
        NstBenchCase sgemm = nst_onednn_case(&product);
        sgemm.run(sgemm.arg);
        cr_assert_eq(product.status, 0);
        for (int i = 0; i < M * N; i++) {
            float expected = 0;
            for (int k = 0; k < K; k++) expected += a[i / N * K + k] * b[k * N + i % N];
            cr_assert_eq(c[i], expected);
        }
        nst_onednn_unload(onednn);
    } else {
        cr_assert_eq(status, NST_E_NOT_FOUND, "%s", ctx.error);
    }
    nst_ctx_dispose(&ctx);
}
