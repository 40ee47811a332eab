/* permute.c: transposes by 16x16 tiles (64 shuffles of AVX-512, or four 8x8 tiles of AVX2) and row-wise copies. */
#include "bench/permute.h"

#include <immintrin.h>
#include <stdint.h>
#include "bench/bandwidth.h"

enum { TILE = 16 };

#define INLINE static inline __attribute__((always_inline))
#define AVX2   __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))

/* -- tiles ------------------------------------------------------------------------------------------------------ */

/* Each step interleaves ever larger pieces: elements, pairs, then vectors of 128 bits. */
AVX512 INLINE void tile_avx512(float *to, size_t to_stride, const float *from, size_t from_stride, bool stream)
{
    __m512 r[TILE], t[TILE];
    for (size_t i = 0; i < TILE; i++) r[i] = _mm512_load_ps(from + i * from_stride);
    for (int i = 0; i < TILE; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
#define PAIRS(low_high, x, y) _mm512_castpd_ps(_mm512_unpack##low_high##_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)))
    for (int i = 0; i < TILE; i += 4) {
        r[i] = PAIRS(lo, t[i], t[i + 2]);
        r[i + 1] = PAIRS(hi, t[i], t[i + 2]);
        r[i + 2] = PAIRS(lo, t[i + 1], t[i + 3]);
        r[i + 3] = PAIRS(hi, t[i + 1], t[i + 3]);
    }
#undef PAIRS
    for (int j = 0; j < 4; j++) {
        __m512 even_low = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88),
               odd_low = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
        __m512 even_high = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88);
        __m512 odd_high = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
        t[j] = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
        t[4 + j] = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
        t[8 + j] = _mm512_shuffle_f32x4(even_low, even_high, 0xdd);
        t[12 + j] = _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd);
    }
    for (size_t i = 0; i < TILE; i++) {
        if (stream)
            _mm512_stream_ps(to + i * to_stride, t[i]);
        else
            _mm512_store_ps(to + i * to_stride, t[i]);
    }
}

AVX2 INLINE void transpose_8x8(__m256 r[8], const float *from, size_t stride)
{
    __m256 t[8];
    for (size_t i = 0; i < 8; i++) r[i] = _mm256_load_ps(from + i * stride);
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int j = 0; j < 4; j++) {
        t[j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x20);
        t[4 + j] = _mm256_permute2f128_ps(r[j], r[4 + j], 0x31);
    }
    for (int i = 0; i < 8; i++) r[i] = t[i];
}

/* Half a tile at a time: two 8x8 tiles that make whole lines of the result. */
AVX2 INLINE void tile_avx2(float *to, size_t to_stride, const float *from, size_t from_stride, bool stream)
{
    for (size_t half = 0; half < TILE; half += 8) {
        __m256 left[8], right[8];
        transpose_8x8(left, from + half, from_stride);
        transpose_8x8(right, from + half + 8 * from_stride, from_stride);
        for (size_t i = 0; i < 8; i++) {
            float *line = to + (half + i) * to_stride;
            if (stream) {
                _mm256_stream_ps(line, left[i]);
                _mm256_stream_ps(line + 8, right[i]);
            } else {
                _mm256_store_ps(line, left[i]);
                _mm256_store_ps(line + 8, right[i]);
            }
        }
    }
}

/* -- orders of tiles ------------------------------------------------------------------------------------------------ */

/* Tiles of one band of source rows after another; in a band along its rows, or along its columns, which writes runs of
 * `band` elements and needs the next tile's lines fetched ahead: the CPU's own prefetch does not follow columns.
 * (2048x2048 in bands of 64 or 256 rows: 40 to 47 GB/s, all rows at once 10 to 29; 2026-11, Zen 5.) */
#define WALK(tile)                                                                                                     \
    size_t rows = (size_t)p->rows, columns = (size_t)p->columns;                                                       \
    for (size_t first = 0; first < rows; first += band) {                                                              \
        size_t end = first + band < rows ? first + band : rows;                                                        \
        for (size_t c = 0; c < columns; c += TILE)                                                                     \
            for (size_t r = first; r < end; r += TILE) {                                                               \
                const float *from = p->from + r * columns + c;                                                         \
                if (band > TILE && r + TILE < end)                                                                     \
                    for (size_t i = TILE; i < TILE + TILE; i++) __builtin_prefetch(from + i * columns);                \
                tile(p->to + c * rows + r, rows, from, columns, stream);                                               \
            }                                                                                                          \
    }                                                                                                                  \
    if (stream) _mm_sfence();

AVX512 INLINE void walk_avx512(const NstTranspose *p, size_t band, bool stream){WALK(tile_avx512)}

AVX2 INLINE void walk_avx2(const NstTranspose *p, size_t band, bool stream){WALK(tile_avx2)}

#define TRANSPOSE(name, band, stream)                                                                                  \
    AVX512 static void name##_avx512(void *arg)                                                                        \
    {                                                                                                                  \
        walk_avx512(arg, band, stream);                                                                                \
    }                                                                                                                  \
    AVX2 static void name##_avx2(void *arg)                                                                            \
    {                                                                                                                  \
        walk_avx2(arg, band, stream);                                                                                  \
    }
TRANSPOSE(band_16_plain, 16, false) TRANSPOSE(band_16_stream, 16, true) TRANSPOSE(band_64_plain, 64, false)
    TRANSPOSE(band_64_stream, 64, true) TRANSPOSE(band_256_stream, 256, true)
        TRANSPOSE(band_all_stream, SIZE_MAX / 2, true)

            int nst_transpose_cases(NstTranspose *p, NstBenchCase cases[NST_TRANSPOSE_CASES])
{
    static const struct {
        const char *name;
        void (*avx512)(void *), (*avx2)(void *);
    } rows[NST_TRANSPOSE_CASES] = {
        {"transpose, bands of 16 rows", band_16_plain_avx512, band_16_plain_avx2},
        {"transpose, bands of 16 rows, streaming", band_16_stream_avx512, band_16_stream_avx2},
        {"transpose, bands of 64 rows", band_64_plain_avx512, band_64_plain_avx2},
        {"transpose, bands of 64 rows, streaming", band_64_stream_avx512, band_64_stream_avx2},
        {"transpose, bands of 256 rows, streaming", band_256_stream_avx512, band_256_stream_avx2},
        {"transpose, along columns, streaming", band_all_stream_avx512, band_all_stream_avx2},
    };
    bool wide = __builtin_cpu_supports("avx512f");
    if (!wide && !__builtin_cpu_supports("avx2")) return 0;
    double work = 8.0 * p->rows * p->columns;
    for (int i = 0; i < NST_TRANSPOSE_CASES; i++)
        cases[i] = (NstBenchCase){rows[i].name, wide ? rows[i].avx512 : rows[i].avx2, p, work};
    return NST_TRANSPOSE_CASES;
}

/* -- rows ------------------------------------------------------------------------------------------------------- */

/* The result's order outermost, so that stores run through memory. */
static void copy_rows(const NstRows *p, NstCopyKind kind)
{
    size_t outer = (size_t)p->outer, inner = (size_t)p->inner, width = (size_t)p->width;
    for (size_t b = 0; b < inner; b++)
        for (size_t a = 0; a < outer; a++)
            nst_copy_bytes(kind, p->to + (b * outer + a) * width, p->from + (a * inner + b) * width,
                           width * sizeof(float));
}

static void rows_library(void *arg)
{
    copy_rows(arg, NST_COPY_LIBRARY);
}

static void rows_vector(void *arg)
{
    copy_rows(arg, NST_COPY_VECTOR);
}

static void rows_streaming(void *arg)
{
    copy_rows(arg, NST_COPY_STREAMING);
}

int nst_rows_cases(NstRows *p, NstBenchCase cases[NST_ROWS_CASES])
{
    double work = 8.0 * p->outer * p->inner * p->width;
    cases[0] = (NstBenchCase){"row copy, memcpy", rows_library, p, work};
    cases[1] = (NstBenchCase){"row copy, vector loop", rows_vector, p, work};
    cases[2] = (NstBenchCase){"row copy, streaming stores", rows_streaming, p, work};
    return NST_ROWS_CASES;
}
