/* onednn.h: oneDNN's f32 matrix product (Debian package libdnnl-dev), loaded at run time, as a case of the
 * timer. */
#ifndef NST_BENCH_ONEDNN_H
#define NST_BENCH_ONEDNN_H

#include <stdint.h>
#include "bench/timing.h"

typedef struct NstOnednn NstOnednn;

/* Loads libdnnl and gives its OpenMP pool `threads` threads for calls from this thread.
 * Owns: ended with nst_onednn_unload.  Errors: NST_E_NOT_FOUND if the library is not installed;
 * NST_E_UNSUPPORTED if it lacks dnnl_sgemm, or the number of threads cannot be set; NST_E_INVALID if threads
 * < 1. */
NstStatus nst_onednn_load(NstCtx *ctx, int threads, NstOnednn **onednn) NST_MUST_CHECK;

/* Frees what load made; NULL is allowed.  The shared object stays mapped. */
void nst_onednn_unload(NstOnednn *onednn);

/* "2.6.3" [valid as long as onednn] */
const char *nst_onednn_version(const NstOnednn *onednn);

/* C[m, n] = A[m, k] B[k, n], all dense and row-major; B is packed by the library in each call. */
typedef struct NstSgemm {
    NstOnednn *onednn;
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    int status; /* what the library returned last; 0 is success */
} NstSgemm;

/* A case that computes the product; its work is 2 m n k. [sgemm borrowed as long as the case runs] */
NstBenchCase nst_onednn_case(NstSgemm *sgemm);

#endif
