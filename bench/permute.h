/* permute.h: copies of f32 arrays that move axes, written by hand: what a fused chain of maps, which must read and
 * write in the same orders, is measured against. */
#ifndef NST_BENCH_PERMUTE_H
#define NST_BENCH_PERMUTE_H

#include <stddef.h>
#include "bench/timing.h"

#define NST_TRANSPOSE_CASES 6
#define NST_ROWS_CASES      3

/* to[c, r] = from[r, c]; rows and columns are multiples of 16, both arrays aligned to 64 bytes. */
typedef struct NstTranspose {
    float *to;
    const float *from;
    int rows, columns;
} NstTranspose;

/* Fills cases with transposes by tiles of 16x16 in registers, which walk the source in bands of 16, 64, 256 or all rows,
 * with plain or streaming stores.  Result: how many: NST_TRANSPOSE_CASES, or 0 on a CPU without AVX2.
 * Work counts bytes read plus bytes written. [transpose borrowed as long as the cases run] */
int nst_transpose_cases(NstTranspose *transpose, NstBenchCase cases[NST_TRANSPOSE_CASES]);

/* to[b, a, i] = from[a, b, i] with i < width; width is a multiple of 16, both arrays aligned to 64 bytes. */
typedef struct NstRows {
    float *to;
    const float *from;
    int outer, inner, width; /* sizes of a, b, i */
} NstRows;

/* Fills cases with copies row by row: memcpy, a vector loop, streaming stores.  Result: NST_ROWS_CASES.  Work counts
 * bytes read plus bytes written. [rows borrowed as long as the cases run] */
int nst_rows_cases(NstRows *rows, NstBenchCase cases[NST_ROWS_CASES]);

#endif
