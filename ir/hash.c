/* hash.c: the 128-bit hashes that cache keys are made of. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/loop.h"

NstHash nst_hash128(const void *bytes, size_t n)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, n);
    return (NstHash){.lo = hash.low64, .hi = hash.high64};
}

NstHash nst_kernel_hash(const NstKernel *kernel, NstArena *scratch)
{
    NstText text;
    nst_text_init(&text, scratch);
    nst_kernel_canonical(&text, kernel);
    return nst_hash128(text.at, text.n);
}
