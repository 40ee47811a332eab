/* bandwidth.h: how fast this CPU reads and copies arrays of a given size, as cases of the timer
 * (bench/timing.h), so that bandwidth is taken in turn with what is compared to it. */
#ifndef NST_BENCH_BANDWIDTH_H
#define NST_BENCH_BANDWIDTH_H

#include <stddef.h>
#include "bench/timing.h"

#define NST_READ_CASES 4

typedef enum NstCopyKind {
    NST_COPY_LIBRARY,   /* memcpy */
    NST_COPY_VECTOR,    /* a loop of the widest vectors */
    NST_COPY_STREAMING, /* the same with non-temporal stores */
    NST_COPY_CASES
} NstCopyKind;

/* Copies bytes, a multiple of 64; for streaming stores `to` is aligned to 64. */
void nst_copy_bytes(NstCopyKind kind, void *to, const void *from, size_t bytes);

/* Two arrays that do not overlap, aligned to 64 bytes; bytes is a multiple of 64. */
typedef struct NstCopy {
    void *to;
    const void *from;
    size_t bytes;
} NstCopy;

/* Fills cases[kind] for each kind.
 * Result: NST_COPY_CASES.  Work counts bytes read plus bytes written.  The best of them is the copy
 * bandwidth. [copy borrowed as long as the cases run] */
int nst_copy_cases(NstCopy *copy, NstBenchCase cases[NST_COPY_CASES]);

/* An array aligned to 64 bytes; bytes is a multiple of 4096. */
typedef struct NstRead {
    const void *from;
    size_t bytes;
} NstRead;

/* Fills cases with loops of vector loads: one stream without prefetch, then one, four and eight far-apart
 * streams with it; nothing is computed. Result: NST_READ_CASES.  Work counts bytes.  The best of them is the
 * read bandwidth. [read borrowed] */
int nst_read_cases(NstRead *read, NstBenchCase cases[NST_READ_CASES]);

/* Part t of n of an array, cut at multiples of 4096 bytes, for one thread of a team. */
NstCopy nst_copy_part(const NstCopy *copy, int t, int n);
NstRead nst_read_part(const NstRead *read, int t, int n);

/* Best bandwidth over the alternatives and `threads` threads, of arrays made for it.  Units: GB/s (copy: read
 * plus written).  Errors: NST_E_INVALID unless bytes is a positive multiple of 4096; NST_E_NOMEM. */
NstStatus nst_copy_measure(NstCtx *ctx, size_t bytes, int threads, double *rate) NST_MUST_CHECK;
NstStatus nst_read_measure(NstCtx *ctx, size_t bytes, int threads, double *rate) NST_MUST_CHECK;

#endif
