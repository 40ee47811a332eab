/* machine.c: prints what this CPU can do at best: arithmetic peaks, bandwidths by size, oneDNN's product, libmvec's exp,
 * hand-written transposes.
 *
 * Usage: machine [--smoke]     (--smoke: few sizes, to show that everything runs)
 * Exit status: 0, or 1 after an error.  What the CPU or the machine lacks is said and is no error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bandwidth.h"
#include "bench/mvec.h"
#include "bench/onednn.h"
#include "bench/peaks.h"
#include "bench/permute.h"

enum { KB = 1024, MB = 1024 * KB };

static NstStatus print_peaks(NstCtx *ctx)
{
    for (NstPeak peak = 0; peak < NST_PEAK_COUNT; peak++) {
        if (!nst_peak_available(peak)) {
            printf("%-28s not on this CPU\n", nst_peak_name(peak));
            continue;
        }
        double one = 0, two = 0;
        NST_TRY(nst_peak_measure(ctx, peak, 1, &one));
        NST_TRY(nst_peak_measure(ctx, peak, 2, &two));
        printf("%-28s %7.1f GOP/s, two threads %7.1f\n", nst_peak_name(peak), one, two);
    }
    return NST_OK;
}

static NstStatus print_bandwidth(NstCtx *ctx, size_t bytes)
{
    double read = 0, read2 = 0, copy = 0, copy2 = 0;
    NST_TRY(nst_read_measure(ctx, bytes, 1, &read));
    NST_TRY(nst_read_measure(ctx, bytes, 2, &read2));
    NST_TRY(nst_copy_measure(ctx, bytes, 1, &copy));
    NST_TRY(nst_copy_measure(ctx, bytes, 2, &copy2));
    printf("%7zu KB: read %6.1f GB/s, two threads %6.1f; copy %6.1f GB/s, two threads %6.1f\n", bytes / KB, read, read2,
           copy, copy2);
    return NST_OK;
}

/* One product beside the peak in the same rounds. */
static NstStatus time_product(NstCtx *ctx, NstSgemm *product)
{
    NstPeak peak = nst_peak_available(NST_PEAK_FMA_AVX512) ? NST_PEAK_FMA_AVX512
                   : nst_peak_available(NST_PEAK_FMA_AVX2) ? NST_PEAK_FMA_AVX2
                                                           : NST_PEAK_MUL_ADD_SSE2;
    NstBenchCase cases[2] = {nst_onednn_case(product)};
    NST_TRY(nst_peak_case(ctx, peak, &cases[1]));
    NstBench bench;
    NstStatus status = nst_bench_run(ctx, cases, 2, NST_BENCH_DEFAULT, &bench);
    if (status == NST_OK)
        printf("oneDNN %s sgemm %lld^3: best %.1f, median %.1f GFLOP/s, %.0f %% of '%s' in the same run\n",
               nst_onednn_version(product->onednn), (long long)product->n, nst_bench_rate(&bench, 0),
               nst_bench_median_rate(&bench, 0), 100 * nst_bench_rate(&bench, 0) / nst_bench_rate(&bench, 1),
               nst_peak_name(peak));
    nst_bench_dispose(&bench);
    NST_CHECK(ctx, status != NST_OK || product->status == 0, NST_E_COMPILER, "dnnl_sgemm returned %d", product->status);
    return status;
}

static NstStatus print_product(NstCtx *ctx, int64_t n)
{
    NstOnednn *onednn;
    NstStatus status = nst_onednn_load(ctx, 1, &onednn);
    if (status == NST_E_NOT_FOUND) {
        printf("%s\n", ctx->error);
        nst_ctx_clear(ctx);
        return NST_OK;
    }
    NST_TRY(status);
    float *values = calloc((size_t)(3 * n * n), sizeof *values);
    if (values) {
        for (int64_t i = 0; i < 2 * n * n; i++) values[i] = (float)(i % 7 - 3);
        NstSgemm product = {onednn, n, n, n, values, values + n * n, values + 2 * n * n, 0};
        status = time_product(ctx, &product);
        free(values);
    }
    nst_onednn_unload(onednn);
    NST_CHECK(ctx, values, NST_E_NOMEM, "no memory for three matrices of %lld^2", (long long)n);
    return status;
}

/* A line a case; work is in bytes. */
static NstStatus print_cases(NstCtx *ctx, const NstBenchCase *cases, int n, const char *what)
{
    NstBench bench;
    NstStatus status = nst_bench_run(ctx, cases, n, NST_BENCH_DEFAULT, &bench);
    for (int i = 0; i < bench.n_cases; i++)
        printf("%s, %s: %.1f GB/s, %.0f us\n", what, cases[i].name, nst_bench_rate(&bench, i),
               bench.times[i].best / 1e3);
    nst_bench_dispose(&bench);
    return status;
}

/* Copies, transposes and row copies of n x n floats. */
static NstStatus print_copies(NstCtx *ctx, int n)
{
    size_t bytes = (size_t)n * (size_t)n * sizeof(float);
    float *from = aligned_alloc(4 * KB, bytes), *to = aligned_alloc(4 * KB, bytes);
    NstStatus status = NST_E_NOMEM;
    if (from && to) {
        memset(from, 0, bytes);
        NstCopy copy = {to, from, bytes};
        NstTranspose transpose = {to, from, n, n};
        NstRows rows = {to, from, n / 16, 16, n};
        NstBenchCase cases[NST_COPY_CASES + NST_TRANSPOSE_CASES + NST_ROWS_CASES];
        int n_cases = nst_copy_cases(&copy, cases);
        n_cases += nst_transpose_cases(&transpose, cases + n_cases);
        n_cases += nst_rows_cases(&rows, cases + n_cases);
        status = print_cases(ctx, cases, n_cases, nst_format(ctx->arena, "%dx%d", n, n));
    }
    free(from);
    free(to);
    NST_CHECK(ctx, status != NST_E_NOMEM, NST_E_NOMEM, "no memory for two arrays of %zu bytes", bytes);
    return status;
}

static NstStatus print_exp(NstCtx *ctx)
{
    enum { N = 4096 };
    static float from[N], to[N];
    for (int i = 0; i < N; i++) from[i] = (float)(i - N / 2) / 64;
    for (int lanes = 4; lanes <= 16; lanes *= 2) {
        NstMvec mvec = {.n = N, .from = from, .to = to};
        NST_TRY(nst_mvec_load(ctx, "expf", lanes, &mvec));
        NstBenchCase exp_case = nst_mvec_case(&mvec);
        NstBench bench;
        NstStatus status = nst_bench_run(ctx, &exp_case, 1, NST_BENCH_DEFAULT, &bench);
        if (status == NST_OK) printf("%s: %.3f ns an element\n", mvec.name, bench.times[0].best / N);
        nst_bench_dispose(&bench);
        NST_TRY(status);
    }
    return NST_OK;
}

static NstStatus print_all(NstCtx *ctx, bool smoke)
{
    static const size_t sizes[] = {32 * KB, 256 * KB, 512 * KB, 2 * MB, 9 * MB, 64 * MB};
    NST_TRY(print_peaks(ctx));
    for (size_t i = 0; i < (smoke ? 2 : sizeof sizes / sizeof *sizes); i++) NST_TRY(print_bandwidth(ctx, sizes[i]));
    NST_TRY(print_exp(ctx));
    NST_TRY(print_copies(ctx, smoke ? 256 : 1008));
    if (!smoke) NST_TRY(print_copies(ctx, 2048));
    NST_TRY(print_product(ctx, 256));
    if (!smoke) NST_TRY(print_product(ctx, 1024));
    return NST_OK;
}

int main(int argc, char **argv)
{
    bool smoke = argc > 1 && strcmp(argv[1], "--smoke") == 0;
    if (argc > 1 + smoke) {
        fprintf(stderr, "usage: machine [--smoke]\n");
        return 1;
    }
    NstCtx ctx;
    if (nst_ctx_init(&ctx) != NST_OK) return 1;
    NstStatus status = print_all(&ctx, smoke);
    if (status != NST_OK) fprintf(stderr, "%s: %s\n", nst_status_name(status), ctx.error);
    nst_ctx_dispose(&ctx);
    return status != NST_OK;
}
