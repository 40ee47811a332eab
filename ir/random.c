/* random.c: see random.h. */
#include "ir/random.h"

#include <string.h>

static void philox(const uint32_t key[2], uint32_t counter[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53 * counter[0], b = (uint64_t)0xCD9E8D57 * counter[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ counter[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ counter[3] ^ k1,
                            (uint32_t)a};
        memcpy(counter, next, sizeof next);
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
}

void nst_random_bits(const uint64_t key[2], uint32_t *out, size_t n)
{
    const uint32_t words[2] = {(uint32_t)key[0], (uint32_t)(key[0] >> 32)};
    for (size_t at = 0; at < n; at += 4) {
        uint64_t block = (uint64_t)at / 4;
        uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)key[1], (uint32_t)(key[1] >> 32)};
        philox(words, counter);
        memcpy(out + at, counter, (n - at < 4 ? n - at : 4) * sizeof *out);
    }
}
