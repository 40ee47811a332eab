/* peaks.c: loops that reach the arithmetic peak from registers.  Each keeps enough independent chains to
 * cover the instruction's latency (4 to 6 cycles, up to two a cycle), and hides its values from the optimiser
 * with empty asm. Always built with optimisation (bench/CMakeLists.txt): an unoptimised build would spill
 * every chain. */
#include "bench/peaks.h"

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CHAINS = 14, ROUNDS = 4000, TILE_ROUNDS = 4000 }; /* 14 chains and two operands fill 16 registers */

#define EACH_CHAIN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13)
#define HIDE(x)        __asm__ volatile("" : "+v"(x));
#define START(c)                                                                                                       \
    v##c = a;                                                                                                          \
    HIDE(v##c)
#define MUL_ADD_128(c)                                                                                                 \
    v##c = _mm_add_ps(_mm_mul_ps(v##c, a), b);                                                                         \
    HIDE(v##c)
#define FMA_256(c)                                                                                                     \
    v##c = _mm256_fmadd_ps(v##c, a, b);                                                                                \
    HIDE(v##c)
#define FMA_512(c)                                                                                                     \
    v##c = _mm512_fmadd_ps(v##c, a, b);                                                                                \
    HIDE(v##c)
#define DOT4_256(c)                                                                                                    \
    v##c = _mm256_dpbusd_avx_epi32(v##c, a, b);                                                                        \
    HIDE(v##c)
#define DOT4_512(c)                                                                                                    \
    v##c = _mm512_dpbusd_epi32(v##c, a, b);                                                                            \
    HIDE(v##c)

/* The body of a loop function: operands a and b, 14 chains that start at a, ROUNDS times STEP on each. */
#define CHAIN_LOOP(Vector, first, second, STEP)                                                                        \
    (void)arg;                                                                                                         \
    Vector a = first, b = second, v0, v1, v2, v3, v4, v5, v6, v7, v8, v9, v10, v11, v12, v13;                          \
    HIDE(a)                                                                                                            \
    HIDE(b)                                                                                                            \
    EACH_CHAIN(START)                                                                                                  \
    for (int round = 0; round < ROUNDS; round++) {                                                                     \
        EACH_CHAIN(STEP)                                                                                               \
    }

static void mul_add_sse2(void *arg)
{
    CHAIN_LOOP(__m128, _mm_set1_ps(0.5f), _mm_set1_ps(1), MUL_ADD_128)
}

__attribute__((target("avx2,fma"))) static void fma_avx2(void *arg)
{
    CHAIN_LOOP(__m256, _mm256_set1_ps(0.5f), _mm256_set1_ps(1), FMA_256)
}

__attribute__((target("avx512f"))) static void fma_avx512(void *arg)
{
    CHAIN_LOOP(__m512, _mm512_set1_ps(0.5f), _mm512_set1_ps(1), FMA_512)
}

__attribute__((target("avx2,avxvnni"))) static void dot4_avx_vnni(void *arg)
{
    CHAIN_LOOP(__m256i, _mm256_set1_epi8(3), _mm256_set1_epi8(5), DOT4_256)
}

__attribute__((target("avx512f,avx512vnni"))) static void dot4_avx512_vnni(void *arg)
{
    CHAIN_LOOP(__m512i, _mm512_set1_epi8(3), _mm512_set1_epi8(5), DOT4_512)
}

/* The operand of ldtilecfg. */
typedef struct TileConfig {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} TileConfig;

/* Tiles 0 to 3 accumulate the products of 4, 5 with 6, 7.  Their bytes are arbitrary ones: with nearly all zero the processor clocks higher
 * than in any product of real data (5528 GOP/s, with these 4708, either steady; Emerald Rapids, 2026-11). */
__attribute__((target("amx-tile,amx-int8"))) static void tiles_amx(void *arg)
{
    (void)arg;
    uint8_t operand[4][16 * 64];
    uint32_t state = 1;
    for (size_t k = 0; k < sizeof operand; k++)
        (&operand[0][0])[k] = (uint8_t)((state = state * 1664525 + 1013904223) >> 24);
    TileConfig config = {.palette = 1};
    for (int t = 0; t < 8; t++) config.row_bytes[t] = 64, config.rows[t] = 16;
    __asm__ volatile("ldtilecfg %0" : : "m"(config)); /* the intrinsic says it reads eight bytes */
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, operand[0], 64);
    _tile_loadd(5, operand[1], 64);
    _tile_loadd(6, operand[2], 64);
    _tile_loadd(7, operand[3], 64);
    for (int round = 0; round < TILE_ROUNDS; round++) {
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 7);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_release();
}

/* -- what this CPU has
 * ------------------------------------------------------------------------------------------ */

static bool has_avx_vnni(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4) != 0;
}

/* Linux gives a process the tile registers only on request. */
static bool has_amx(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    const unsigned amx_tile = 1u << 24, amx_int8 = 1u << 25;
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & amx_tile) || !(d & amx_int8)) return false;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

bool nst_peak_available(NstPeak peak)
{
    switch (peak) {
    case NST_PEAK_MUL_ADD_SSE2: return true;
    case NST_PEAK_FMA_AVX2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case NST_PEAK_FMA_AVX512: return __builtin_cpu_supports("avx512f");
    case NST_PEAK_DOT4_AVX_VNNI: return has_avx_vnni();
    case NST_PEAK_DOT4_AVX512_VNNI: return __builtin_cpu_supports("avx512vnni");
    case NST_PEAK_TILES_AMX: return has_amx();
    case NST_PEAK_COUNT: break;
    }
    return false;
}

/* -- cases
 * ------------------------------------------------------------------------------------------------------ */

#define VECTOR_WORK(products) (2.0 * (products) * CHAINS * ROUNDS)

static const NstBenchCase rows[NST_PEAK_COUNT] = {
    [NST_PEAK_MUL_ADD_SSE2] = {"mul + add f32 SSE2", mul_add_sse2, NULL, VECTOR_WORK(4)},
    [NST_PEAK_FMA_AVX2] = {"FMA f32 AVX2", fma_avx2, NULL, VECTOR_WORK(8)},
    [NST_PEAK_FMA_AVX512] = {"FMA f32 AVX-512", fma_avx512, NULL, VECTOR_WORK(16)},
    [NST_PEAK_DOT4_AVX_VNNI] = {"dot u8 x s8 AVX-VNNI", dot4_avx_vnni, NULL, VECTOR_WORK(32)},
    [NST_PEAK_DOT4_AVX512_VNNI] = {"dot u8 x s8 AVX-512 VNNI", dot4_avx512_vnni, NULL, VECTOR_WORK(64)},
    [NST_PEAK_TILES_AMX] = {"tiles u8 x s8 AMX", tiles_amx, NULL, 2.0 * 16 * 16 * 64 * 4 * TILE_ROUNDS},
};

const char *nst_peak_name(NstPeak peak)
{
    return peak < NST_PEAK_COUNT ? rows[peak].name : "?";
}

NstStatus nst_peak_case(NstCtx *ctx, NstPeak peak, NstBenchCase *out)
{
    NST_CHECK(ctx, nst_peak_available(peak), NST_E_UNSUPPORTED, "this CPU cannot run the peak loop '%s'",
              nst_peak_name(peak));
    *out = rows[peak];
    return NST_OK;
}

NstStatus nst_peak_measure(NstCtx *ctx, NstPeak peak, int threads, double *rate)
{
    NstBenchJob job;
    NST_TRY(nst_peak_case(ctx, peak, &job.parts[0]));
    NST_TRY(nst_bench_team_new(ctx, threads, &job.team));
    for (int t = 1; t < threads; t++) job.parts[t] = job.parts[0];
    NstBenchCase whole = nst_bench_job_case(&job, nst_peak_name(peak));
    NstBenchLimits limits = NST_BENCH_DEFAULT;
    limits.seconds = 0.1;
    NstBench bench;
    NstStatus status = nst_bench_run(ctx, &whole, 1, limits, &bench);
    if (status == NST_OK) *rate = nst_bench_rate(&bench, 0);
    nst_bench_dispose(&bench);
    nst_bench_team_free(job.team);
    return status;
}
