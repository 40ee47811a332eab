/* mvec.c: libmvec through dlopen.  Names follow the vector ABI: _ZGV, b d e for 128, 256, 512 bits, N, lanes, v, _f. */
#include "bench/mvec.h"

#include <dlfcn.h>
#include <immintrin.h>
#include <string.h>

static int widest_lanes(void)
{
    return __builtin_cpu_supports("avx512f") ? 16 : __builtin_cpu_supports("avx2") ? 8 : 4;
}

NstStatus nst_mvec_load(NstCtx *ctx, const char *function, int max_lanes, NstMvec *mvec)
{
    NST_CHECK(ctx, max_lanes == 16 || max_lanes == 8 || max_lanes == 4, NST_E_INVALID,
              "%d lanes given, 16, 8 and 4 are allowed", max_lanes);
    NST_CHECK(ctx, mvec->n >= 0 && mvec->n % 16 == 0, NST_E_INVALID, "%d elements given, multiples of 16 are allowed",
              mvec->n);
    void *library = dlopen("libmvec.so.1", RTLD_NOW | RTLD_LOCAL);
    NST_CHECK(ctx, library, NST_E_NOT_FOUND, "%s", dlerror());
    int lanes = widest_lanes() < max_lanes ? widest_lanes() : max_lanes;
    char symbol[64];
    snprintf(symbol, sizeof symbol, "_ZGV%cN%dv_%s", lanes == 16 ? 'e' : lanes == 8 ? 'd' : 'b', lanes, function);
    mvec->function = dlsym(library, symbol);
    NST_CHECK(ctx, mvec->function, NST_E_UNSUPPORTED, "libmvec has no %s", symbol);
    mvec->lanes = lanes;
    snprintf(mvec->name, sizeof mvec->name, "libmvec %s x%d", function, lanes);
    return NST_OK;
}

static void run_sse(void *arg)
{
    const NstMvec *m = arg;
    __m128 (*f)(__m128);
    memcpy(&f, &m->function, sizeof f);
    for (int i = 0; i < m->n; i += 4) _mm_storeu_ps(m->to + i, f(_mm_loadu_ps(m->from + i)));
}

__attribute__((target("avx2"))) static void run_avx2(void *arg)
{
    const NstMvec *m = arg;
    __m256 (*f)(__m256);
    memcpy(&f, &m->function, sizeof f);
    for (int i = 0; i < m->n; i += 8) _mm256_storeu_ps(m->to + i, f(_mm256_loadu_ps(m->from + i)));
}

__attribute__((target("avx512f"))) static void run_avx512(void *arg)
{
    const NstMvec *m = arg;
    __m512 (*f)(__m512);
    memcpy(&f, &m->function, sizeof f);
    for (int i = 0; i < m->n; i += 16) _mm512_storeu_ps(m->to + i, f(_mm512_loadu_ps(m->from + i)));
}

NstBenchCase nst_mvec_case(NstMvec *mvec)
{
    void (*run)(void *) = mvec->lanes == 16 ? run_avx512 : mvec->lanes == 8 ? run_avx2 : run_sse;
    return (NstBenchCase){mvec->name, run, mvec, mvec->n};
}
