/* support_cache.c: see support_cache.h. */
#define _GNU_SOURCE /* NOLINT: usleep */
#include "tests/unit/support_cache.h"

#include <criterion/criterion.h>
#include <unistd.h>

void support_store_key(NstCache *cache, char key)
{
    static char bytes[SUPPORT_ENTRY];
    nst_cache_store(cache, NST_CACHE_KERNEL, &key, 1, &(NstPart){bytes, SUPPORT_ENTRY}, 1);
    usleep(12000);
}

bool support_find_key(NstCache *cache, char key)
{
    NstCacheHit hit;
    if (!nst_cache_find(cache, NST_CACHE_KERNEL, &key, 1, &hit)) return false;
    cr_assert_eq(hit.bytes, SUPPORT_ENTRY);
    nst_cache_release(cache, &hit);
    return true;
}
