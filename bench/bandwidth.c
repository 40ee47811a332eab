/* bandwidth.c: loops of loads and stores.  Inline assembler keeps every access, needs no target attribute,
 * and makes unoptimised builds measure the same; the widest vectors the CPU has are chosen at run time. */
#include "bench/bandwidth.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE = 64,
    GRAIN = 4096, /* parts of an array for threads are multiples of it */
    AHEAD = 2048  /* bytes between a load and the prefetch beside it (measurements of skinny products) */
};

typedef enum Width { SSE, AVX, AVX512 } Width;

static Width widest(void)
{
    return __builtin_cpu_supports("avx512f") ? AVX512 : __builtin_cpu_supports("avx") ? AVX : SSE;
}

#define INLINE static inline __attribute__((always_inline))

/* -- reading
 * ---------------------------------------------------------------------------------------------------- */

INLINE void load_line(const char *at, Width width)
{
    if (width == AVX512)
        __asm__ volatile("vmovups (%0), %%zmm0" : : "r"(at) : "xmm0");
    else if (width == AVX)
        __asm__ volatile("vmovups (%0), %%ymm0\n\tvmovups 32(%0), %%ymm0" : : "r"(at) : "xmm0");
    else
        __asm__ volatile("movups (%0), %%xmm0\n\tmovups 16(%0), %%xmm0\n\t"
                         "movups 32(%0), %%xmm0\n\tmovups 48(%0), %%xmm0"
                         :
                         : "r"(at)
                         : "xmm0");
}

/* Eight lines a step, spread over the streams; a prefetch that runs past the array is harmless. */
INLINE void read_streams(const NstRead *read, int streams, bool prefetch, Width width)
{
    const char *from = read->from;
    size_t stride = read->bytes / (size_t)streams;
    int lines = 8 / streams;
    for (size_t at = 0; at < stride; at += (size_t)lines * LINE)
        for (int s = 0; s < streams; s++)
            for (int l = 0; l < lines; l++) {
                const char *line = from + (size_t)s * stride + at + (size_t)l * LINE;
                if (prefetch) __builtin_prefetch(line + AHEAD);
                load_line(line, width);
            }
}

#define READ_CASE(name, streams, prefetch)                                                                             \
    static void name(void *arg)                                                                                        \
    {                                                                                                                  \
        switch (widest()) {                                                                                            \
        case AVX512: read_streams(arg, streams, prefetch, AVX512); break;                                              \
        case AVX: read_streams(arg, streams, prefetch, AVX); break;                                                    \
        case SSE: read_streams(arg, streams, prefetch, SSE); break;                                                    \
        }                                                                                                              \
    }
READ_CASE(read_plain, 1, false)
READ_CASE(read_1, 1, true)
READ_CASE(read_4, 4, true)
READ_CASE(read_8, 8, true)

int nst_read_cases(NstRead *read, NstBenchCase cases[NST_READ_CASES])
{
    double work = (double)read->bytes;
    cases[0] = (NstBenchCase){"read, no prefetch", read_plain, read, work};
    cases[1] = (NstBenchCase){"read, 1 stream", read_1, read, work};
    cases[2] = (NstBenchCase){"read, 4 streams", read_4, read, work};
    cases[3] = (NstBenchCase){"read, 8 streams", read_8, read, work};
    return NST_READ_CASES;
}

/* -- copying
 * ---------------------------------------------------------------------------------------------------- */

INLINE void copy_line(char *to, const char *from, Width width, bool stream)
{
    if (width == AVX512 && stream)
        __asm__ volatile("vmovups (%1), %%zmm0\n\tvmovntps %%zmm0, (%0)" : : "r"(to), "r"(from) : "xmm0", "memory");
    else if (width == AVX512)
        __asm__ volatile("vmovups (%1), %%zmm0\n\tvmovups %%zmm0, (%0)" : : "r"(to), "r"(from) : "xmm0", "memory");
    else if (width == AVX && stream)
        __asm__ volatile("vmovups (%1), %%ymm0\n\tvmovups 32(%1), %%ymm1\n\t"
                         "vmovntps %%ymm0, (%0)\n\tvmovntps %%ymm1, 32(%0)"
                         :
                         : "r"(to), "r"(from)
                         : "xmm0", "xmm1", "memory");
    else if (width == AVX)
        __asm__ volatile("vmovups (%1), %%ymm0\n\tvmovups 32(%1), %%ymm1\n\t"
                         "vmovups %%ymm0, (%0)\n\tvmovups %%ymm1, 32(%0)"
                         :
                         : "r"(to), "r"(from)
                         : "xmm0", "xmm1", "memory");
    else
        for (int i = 0; i < LINE; i += 16) {
            if (stream)
                __asm__ volatile("movups (%1), %%xmm0\n\tmovntps %%xmm0, (%0)"
                                 :
                                 : "r"(to + i), "r"(from + i)
                                 : "xmm0", "memory");
            else
                __asm__ volatile("movups (%1), %%xmm0\n\tmovups %%xmm0, (%0)"
                                 :
                                 : "r"(to + i), "r"(from + i)
                                 : "xmm0", "memory");
        }
}

INLINE void copy_lines(char *to, const char *from, size_t bytes, Width width, bool stream)
{
    size_t at = 0;
    for (; at + 4 * LINE <= bytes; at += 4 * LINE)
        for (size_t l = 0; l < 4 * LINE; l += LINE) copy_line(to + at + l, from + at + l, width, stream);
    for (; at < bytes; at += LINE) copy_line(to + at, from + at, width, stream);
    if (stream) __asm__ volatile("sfence" : : : "memory");
}

static void copy_vectors(char *to, const char *from, size_t bytes)
{
    switch (widest()) {
    case AVX512: copy_lines(to, from, bytes, AVX512, false); break;
    case AVX: copy_lines(to, from, bytes, AVX, false); break;
    case SSE: copy_lines(to, from, bytes, SSE, false); break;
    }
}

static void copy_streaming(char *to, const char *from, size_t bytes)
{
    switch (widest()) {
    case AVX512: copy_lines(to, from, bytes, AVX512, true); break;
    case AVX: copy_lines(to, from, bytes, AVX, true); break;
    case SSE: copy_lines(to, from, bytes, SSE, true); break;
    }
}

void nst_copy_bytes(NstCopyKind kind, void *to, const void *from, size_t bytes)
{
    switch (kind) {
    case NST_COPY_VECTOR: copy_vectors(to, from, bytes); break;
    case NST_COPY_STREAMING: copy_streaming(to, from, bytes); break;
    case NST_COPY_LIBRARY:
    case NST_COPY_CASES:
        memcpy(to, from, bytes);
        __asm__ volatile("" : : "r"(to) : "memory");
        break;
    }
}

static void run_library(void *arg)
{
    const NstCopy *copy = arg;
    nst_copy_bytes(NST_COPY_LIBRARY, copy->to, copy->from, copy->bytes);
}

static void run_vector(void *arg)
{
    const NstCopy *copy = arg;
    nst_copy_bytes(NST_COPY_VECTOR, copy->to, copy->from, copy->bytes);
}

static void run_streaming(void *arg)
{
    const NstCopy *copy = arg;
    nst_copy_bytes(NST_COPY_STREAMING, copy->to, copy->from, copy->bytes);
}

int nst_copy_cases(NstCopy *copy, NstBenchCase cases[NST_COPY_CASES])
{
    double work = 2.0 * (double)copy->bytes;
    cases[NST_COPY_LIBRARY] = (NstBenchCase){"copy, memcpy", run_library, copy, work};
    cases[NST_COPY_VECTOR] = (NstBenchCase){"copy, vector loop", run_vector, copy, work};
    cases[NST_COPY_STREAMING] = (NstBenchCase){"copy, streaming stores", run_streaming, copy, work};
    return NST_COPY_CASES;
}

/* -- threads
 * ---------------------------------------------------------------------------------------------------- */

/* Where part t of n begins. */
static size_t cut(size_t bytes, int t, int n)
{
    return t == n ? bytes : bytes / GRAIN * (size_t)t / (size_t)n * GRAIN;
}

NstCopy nst_copy_part(const NstCopy *copy, int t, int n)
{
    size_t begin = cut(copy->bytes, t, n), end = cut(copy->bytes, t + 1, n);
    return (NstCopy){(char *)copy->to + begin, (const char *)copy->from + begin, end - begin};
}

NstRead nst_read_part(const NstRead *read, int t, int n)
{
    size_t begin = cut(read->bytes, t, n), end = cut(read->bytes, t + 1, n);
    return (NstRead){(const char *)read->from + begin, end - begin};
}

/* Runs alternatives whose parts are jobs[k].parts and gives the best rate. */
static NstStatus measure(NstCtx *ctx, NstBenchJob *jobs, int n, int threads, double *rate)
{
    NstBenchTeam *team;
    NST_TRY(nst_bench_team_new(ctx, threads, &team));
    NstBenchCase cases[NST_READ_CASES];
    for (int k = 0; k < n; k++) {
        jobs[k].team = team;
        cases[k] = nst_bench_job_case(&jobs[k], jobs[k].parts[0].name);
    }
    NstBench bench;
    NstBenchLimits limits = NST_BENCH_DEFAULT;
    limits.seconds = 0.2;
    NstStatus status = nst_bench_run(ctx, cases, n, limits, &bench);
    *rate = 0;
    for (int k = 0; k < bench.n_cases; k++)
        if (nst_bench_rate(&bench, k) > *rate) *rate = nst_bench_rate(&bench, k);
    nst_bench_dispose(&bench);
    nst_bench_team_free(team);
    return status;
}

_Static_assert(NST_COPY_CASES <= NST_READ_CASES, "measure() holds as many cases");

/* A page-aligned array whose pages exist. */
static NstStatus make_array(NstCtx *ctx, size_t bytes, int threads, void **array)
{
    NST_CHECK(ctx, bytes > 0 && bytes % GRAIN == 0, NST_E_INVALID, "%zu bytes given, multiples of %d are allowed",
              bytes, GRAIN);
    NST_CHECK(ctx, threads >= 1 && threads <= NST_BENCH_MAX_THREADS, NST_E_INVALID,
              "%d threads given, 1 to %d are allowed", threads, NST_BENCH_MAX_THREADS);
    *array = aligned_alloc(GRAIN, bytes);
    NST_CHECK(ctx, *array, NST_E_NOMEM, "no memory for %zu bytes", bytes);
    memset(*array, 1, bytes);
    return NST_OK;
}

NstStatus nst_copy_measure(NstCtx *ctx, size_t bytes, int threads, double *rate)
{
    NstCopy whole = {.bytes = bytes}, parts[NST_BENCH_MAX_THREADS];
    void *from;
    NST_TRY(make_array(ctx, bytes, threads, &from));
    NstStatus status = make_array(ctx, bytes, threads, &whole.to);
    if (status == NST_OK) {
        whole.from = from;
        NstBenchJob jobs[NST_COPY_CASES];
        for (int t = 0; t < threads; t++) {
            NstBenchCase cases[NST_COPY_CASES];
            parts[t] = nst_copy_part(&whole, t, threads);
            nst_copy_cases(&parts[t], cases);
            for (int k = 0; k < NST_COPY_CASES; k++) jobs[k].parts[t] = cases[k];
        }
        status = measure(ctx, jobs, NST_COPY_CASES, threads, rate);
    }
    free(whole.to);
    free(from);
    return status;
}

NstStatus nst_read_measure(NstCtx *ctx, size_t bytes, int threads, double *rate)
{
    void *from;
    NST_TRY(make_array(ctx, bytes, threads, &from));
    NstRead whole = {.from = from, .bytes = bytes}, parts[NST_BENCH_MAX_THREADS];
    NstBenchJob jobs[NST_READ_CASES];
    for (int t = 0; t < threads; t++) {
        NstBenchCase cases[NST_READ_CASES];
        parts[t] = nst_read_part(&whole, t, threads);
        nst_read_cases(&parts[t], cases);
        for (int k = 0; k < NST_READ_CASES; k++) jobs[k].parts[t] = cases[k];
    }
    NstStatus status = measure(ctx, jobs, NST_READ_CASES, threads, rate);
    free(from);
    return status;
}
