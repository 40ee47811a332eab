/* strings.c: a list of strings and a hash of where each lies. */
#include "ir/strings.h"

#include <string.h>
#include "ir/base/status.h"

#define MAX_STRINGS (1u << 28) /* in a table: what its hash can hold */

static NstStrings *new_table(NstArena *arena)
{
    NstStrings *strings = NST_NEW(arena, NstStrings);
    strings->arena = arena;
    nst_map_init(&strings->map, arena);
    return strings;
}

NstStrings *nst_strings_new(NstArena *arena)
{
    NstStrings *strings = new_table(arena);
    (void)nst_strings_put(strings, "", 0);
    return strings;
}

NstStrings *nst_strings_over(NstArena *arena, const NstStrings *below)
{
    NstStrings *strings = new_table(arena);
    strings->below = below;
    strings->first = nst_strings_count(below);
    return strings;
}

/* The place of a string in the table's own list, UINT32_MAX if it is not there; *key: under which it would go. */
static uint32_t find(const NstStrings *strings, const char *at, size_t n, uint64_t *key)
{
    *key = nst_hash_bytes(at, n, 0);
    for (uint64_t seed = 1;; seed++) { /* two strings of one hash take further seeds */
        uint32_t found = nst_map_get(&strings->map, *key, UINT32_MAX);
        if (found == UINT32_MAX) return found;
        const NstString *s = &strings->list.at[found];
        if (s->n == n && (n == 0 || memcmp(s->at, at, n) == 0)) return found;
        *key = nst_hash_bytes(at, n, seed);
    }
}

uint64_t nst_strings_put(NstStrings *strings, const char *at, size_t n)
{
    uint64_t key;
    for (const NstStrings *below = strings->below; below; below = below->below) {
        uint32_t found = find(below, at, n, &key);
        if (found != UINT32_MAX) return below->first + found;
    }
    uint32_t found = find(strings, at, n, &key);
    if (found != UINT32_MAX) return strings->first + found;
    if (strings->list.n == MAX_STRINGS) nst_out_of_memory(nst_arena_ctx(strings->arena));
    NstString s = {nst_copy_text(strings->arena, at, n), n};
    nst_vec_push(strings->arena, &strings->list, s);
    nst_map_put(&strings->map, key, strings->list.n - 1);
    return strings->first + strings->list.n - 1;
}

const NstString *nst_strings_get(const NstStrings *strings, uint64_t handle)
{
    while (handle < strings->first) strings = strings->below;
    return handle - strings->first < strings->list.n ? &strings->list.at[handle - strings->first] : NULL;
}

uint64_t nst_strings_count(const NstStrings *strings)
{
    return strings->first + strings->list.n;
}
