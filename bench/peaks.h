/* peaks.h: what this CPU can compute at best, from registers, as cases of the timer (bench/timing.h), so that
 * the peak is taken in turn with what is compared to it.
 *
 * Every loop checks the CPU at run time: a case that it lacks is reported as missing, never run. */
#ifndef NST_BENCH_PEAKS_H
#define NST_BENCH_PEAKS_H

#include <stdbool.h>
#include "bench/timing.h"

/* Independent chains of one instruction from registers.  Operations: a multiplication and an addition are
 * two. */
typedef enum NstPeak {
    NST_PEAK_MUL_ADD_SSE2,     /* f32, 4 lanes, separate mul and add: the baseline's peak */
    NST_PEAK_FMA_AVX2,         /* f32, 8 lanes */
    NST_PEAK_FMA_AVX512,       /* f32, 16 lanes */
    NST_PEAK_DOT4_AVX_VNNI,    /* u8 x s8 -> s32, 32 products */
    NST_PEAK_DOT4_AVX512_VNNI, /* u8 x s8 -> s32, 64 products */
    NST_PEAK_TILES_AMX,        /* u8 x s8 -> s32, tiles of 16 x 64 by 64 x 16 */
    NST_PEAK_COUNT
} NstPeak;

/* "FMA f32 AVX-512", for tables. */
const char *nst_peak_name(NstPeak peak);

/* True if this CPU (and, for AMX, the kernel's permission, which is asked for here) can run the loop. */
bool nst_peak_available(NstPeak peak);

/* A case of about 10 us whose work counts operations, so that nst_bench_rate is in GOP/s.  Any thread may run
 * it. Errors: NST_E_UNSUPPORTED if this CPU lacks it. */
NstStatus nst_peak_case(NstCtx *ctx, NstPeak peak, NstBenchCase *out) NST_MUST_CHECK;

/* Best rate of `threads` threads running the loop at once.  Units: GOP/s.
 * Errors: as nst_peak_case and nst_bench_team_new. */
NstStatus nst_peak_measure(NstCtx *ctx, NstPeak peak, int threads, double *rate) NST_MUST_CHECK;

#endif
