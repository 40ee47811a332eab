/* cache_evict.c: lists a folder's entries, sorts them by time of use, removes from the old end: one pass over the names, one
 * fstatat a file. */
#include "runtime/cache_evict.h"

#include <stdlib.h>
#include <string.h>

typedef struct Used {
    char name[NST_CACHE_NAME_BYTES];
    uint64_t bytes;
    int64_t time_ns;
} Used;

typedef struct Listing {
    int fd;
    Used *at;
    size_t n, room;
    uint64_t bytes;
    bool failed;
} Listing;

static void list_name(void *arg, const char *name)
{
    Listing *list = arg;
    Used used = {.bytes = 0};
    if (nst_cache_kind_of_name(name) == NST_CACHE_KIND_COUNT) return;
    if (!nst_folder_facts(list->fd, name, &used.bytes, &used.time_ns)) return; /* gone meanwhile */
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 256;
        Used *grown = nst_alloc_should_fail() ? NULL : realloc(list->at, room * sizeof *grown);
        list->failed |= !grown;
        if (!grown) return;
        list->at = grown;
        list->room = room;
    }
    snprintf(used.name, sizeof used.name, "%s", name);
    list->at[list->n++] = used;
    list->bytes += used.bytes;
}

static int by_time(const void *a, const void *b)
{
    const Used *x = a, *y = b;
    return x->time_ns != y->time_ns ? (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns) : strcmp(x->name, y->name);
}

bool nst_cache_evict(int fd, uint64_t limit, uint64_t target, uint64_t *bytes, uint64_t *removed)
{
    Listing list = {.fd = fd};
    *removed = 0;
    bool listed = nst_folder_list(fd, list_name, &list) == NST_TRUSTED && !list.failed;
    int lock = listed && list.bytes > limit ? nst_folder_lock(fd) : -1;
    if (lock >= 0) {
        qsort(list.at, list.n, sizeof *list.at, by_time);
        for (size_t k = 0; k < list.n && list.bytes > target; k++) {
            NstTrust trust = nst_folder_remove(fd, list.at[k].name);
            if (trust != NST_TRUSTED && trust != NST_TRUST_ABSENT) continue;
            *removed += trust == NST_TRUSTED;
            list.bytes -= list.at[k].bytes;
        }
        nst_folder_close(lock);
    }
    free(list.at);
    *bytes = list.bytes;
    return listed;
}
