/* strings.c: a list of strings and a hash of where each lies. */
#include "ir/strings.h"

#include <string.h>

NstStrings *nst_strings_new(NstArena *arena)
{
    NstStrings *strings = NST_NEW(arena, NstStrings);
    strings->arena = arena;
    nst_map_init(&strings->map, arena);
    (void)nst_strings_put(strings, "", 0);
    return strings;
}

uint64_t nst_strings_put(NstStrings *strings, const char *at, size_t n)
{
    uint64_t key = nst_hash_bytes(at, n, 0);
    for (uint64_t seed = 1;; seed++) { /* two strings of one hash take further seeds */
        uint32_t found = nst_map_get(&strings->map, key, UINT32_MAX);
        if (found == UINT32_MAX) break;
        const NstString *s = &strings->list.at[found];
        if (s->n == n && (n == 0 || memcmp(s->at, at, n) == 0)) return found;
        key = nst_hash_bytes(at, n, seed);
    }
    NstString s = {nst_copy_text(strings->arena, at, n), n};
    nst_map_put(&strings->map, key, strings->list.n);
    nst_vec_push(strings->arena, &strings->list, s);
    return strings->list.n - 1;
}

const NstString *nst_strings_get(const NstStrings *strings, uint64_t handle)
{
    return handle < strings->list.n ? &strings->list.at[handle] : NULL;
}
