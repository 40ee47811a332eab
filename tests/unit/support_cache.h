/* support_cache.h: entries of the cache under keys of one character. */
#ifndef NST_TESTS_UNIT_SUPPORT_CACHE_H
#define NST_TESTS_UNIT_SUPPORT_CACHE_H

#include "runtime/cache.h"

#define SUPPORT_ENTRY 10000 /* bytes of such an entry */

/* Stores one, and waits until the clock that files get their times from has gone on. */
void support_store_key(NstCache *cache, char key);
bool support_find_key(NstCache *cache, char key);

#endif
