/* cache_evict.h: keeps the folder of a cache within its bytes: what was not used for longest goes first. */
#ifndef NST_RUNTIME_CACHE_EVICT_H
#define NST_RUNTIME_CACHE_EVICT_H

#include "runtime/cache_file.h"

/* Bytes of the folder's entries; if they are more than limit, removes the oldest until they are at most target.  The time of use
 * is the file's time of change, which each find from disk sets (nst_folder_touch): access times are often not kept.
 * Several processes: one removes at a time, another one that comes then leaves it to that; a process that has an entry
 * mapped keeps it.  Returns false, and nothing is known, where the folder cannot be listed or memory is short. */
bool nst_cache_evict(int fd, uint64_t limit, uint64_t target, uint64_t *bytes, uint64_t *removed);

#endif
