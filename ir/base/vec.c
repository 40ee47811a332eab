/* vec.c: growth of typed arrays; cost amortised by doubling. */
#include "ir/base/vec.h"

#include "ir/base/status.h"

#define FIRST_CAP 8 /* items */

void *nst_vec_grow(NstArena *arena, void *at, uint32_t n, uint32_t *cap, uint32_t need, size_t size)
{
    NST_ASSERT(need > n); /* need = n + 1 that wrapped, or a reserve that is none */
    uint32_t to = *cap < FIRST_CAP ? FIRST_CAP : *cap;
    while (to < need) to = to > UINT32_MAX / 2 ? UINT32_MAX : to * 2;
    void *grown = nst_alloc_array(arena, to, size);
    if (n != 0) memcpy(grown, at, n * size);
    *cap = to;
    return grown;
}
