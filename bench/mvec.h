/* mvec.h: glibc's vector math library as a case of the timer, to compare our inline functions with. */
#ifndef NST_BENCH_MVEC_H
#define NST_BENCH_MVEC_H

#include "bench/timing.h"

/* to[i] = f(from[i]) for i < n; n is a multiple of 16.  Start from {.n, .from, .to}; load fills the rest. */
typedef struct NstMvec {
    int n;
    const float *from;
    float *to;
    void *function; /* of the library, for vectors of `lanes` */
    int lanes;
    char name[32];
} NstMvec;

/* Finds the function ("expf", "tanhf", "erff", "sinf", ...) for the widest vectors of this CPU, at most max_lanes
 * (16, 8 or 4).  Errors: NST_E_NOT_FOUND without libmvec; NST_E_UNSUPPORTED if it has no such function;
 * NST_E_INVALID for a bad max_lanes or n. */
NstStatus nst_mvec_load(NstCtx *ctx, const char *function, int max_lanes, NstMvec *mvec) NST_MUST_CHECK;

/* A case that computes all n; its work is n. [mvec borrowed as long as the case runs] */
NstBenchCase nst_mvec_case(NstMvec *mvec);

#endif
