/* origin.c: interned sets of source names.  A set is an ordered list of distinct names; equal lists have equal ids, found
 * through a hash of the names' own ids.  Cost: a merge is linear in the names. */
#include "ir/origin.h"

#include <string.h>
#include "ir/base/map.h"
#include "ir/base/status.h"
#include "ir/base/vec.h"

typedef struct Set {
    uint32_t n;
    const uint32_t *name; /* ids into names */
    const char *const *text;
    const char *joined; /* made on demand */
    uint32_t next;      /* of the same hash; 0 = last */
} Set;

struct NstOrigins {
    NstArena *arena;
    NST_VEC(const char *) names; /* entry 0 unused */
    NST_VEC(uint32_t) next_name; /* of the same hash */
    NST_VEC(Set) sets;           /* index = NstOrigin.i; entry 0 unused */
    NstMap name_of, set_of;      /* hash -> newest id */
};

NstOrigins *nst_origins_new(NstArena *arena)
{
    NstOrigins *origins = NST_NEW(arena, NstOrigins);
    origins->arena = arena;
    nst_map_init(&origins->name_of, arena);
    nst_map_init(&origins->set_of, arena);
    nst_vec_push(arena, &origins->names, NULL);
    nst_vec_push(arena, &origins->next_name, 0);
    nst_vec_push(arena, &origins->sets, (Set){0});
    return origins;
}

static uint32_t intern_name(NstOrigins *origins, const char *name)
{
    uint64_t hash = nst_hash_bytes(name, strlen(name), 0);
    uint32_t first = nst_map_get(&origins->name_of, hash, 0);
    for (uint32_t id = first; id != 0; id = origins->next_name.at[id])
        if (strcmp(origins->names.at[id], name) == 0) return id;
    uint32_t id = origins->names.n;
    nst_vec_push(origins->arena, &origins->names, nst_strdup(origins->arena, name));
    nst_vec_push(origins->arena, &origins->next_name, first);
    nst_map_put(&origins->name_of, hash, id);
    return id;
}

static NstOrigin intern_set(NstOrigins *origins, const uint32_t *name, uint32_t n)
{
    uint64_t hash = nst_hash_bytes(name, n * sizeof *name, 1);
    uint32_t first = nst_map_get(&origins->set_of, hash, 0);
    for (uint32_t id = first; id != 0; id = origins->sets.at[id].next) {
        const Set *set = &origins->sets.at[id];
        if (set->n == n && memcmp(set->name, name, n * sizeof *name) == 0) return (NstOrigin){id};
    }
    const char **text = NST_NEW_ARRAY(origins->arena, const char *, n);
    for (uint32_t k = 0; k < n; k++) text[k] = origins->names.at[name[k]];
    Set set = {.n = n, .name = nst_copy(origins->arena, name, n * sizeof *name), .text = text, .next = first};
    uint32_t id = origins->sets.n;
    nst_vec_push(origins->arena, &origins->sets, set);
    nst_map_put(&origins->set_of, hash, id);
    return (NstOrigin){id};
}

NstOrigin nst_origin_of(NstOrigins *origins, const char *name)
{
    uint32_t id = intern_name(origins, name);
    return intern_set(origins, &id, 1);
}

NstOrigin nst_origin_merge(NstOrigins *origins, NstOrigin a, NstOrigin b)
{
    if (a.i == b.i || b.i == 0) return a;
    if (a.i == 0) return b;
    NST_ASSERT(a.i < origins->sets.n && b.i < origins->sets.n);
    Set left = origins->sets.at[a.i], right = origins->sets.at[b.i];
    uint32_t *name = NST_NEW_ARRAY(origins->arena, uint32_t, (size_t)left.n + right.n);
    uint32_t n = left.n;
    memcpy(name, left.name, left.n * sizeof *name);
    for (uint32_t k = 0; k < right.n; k++) {
        bool known = false;
        for (uint32_t m = 0; m < left.n && !known; m++) known = left.name[m] == right.name[k];
        if (!known) name[n++] = right.name[k];
    }
    return n == left.n ? a : intern_set(origins, name, n);
}

const char *nst_origin_text(NstOrigins *origins, NstOrigin origin)
{
    if (origin.i == 0) return "?";
    NST_ASSERT(origin.i < origins->sets.n);
    Set *set = &origins->sets.at[origin.i];
    if (set->joined == NULL) {
        NstText text;
        nst_text_init(&text, origins->arena);
        for (uint32_t k = 0; k < set->n; k++) nst_text_add(&text, "%s%s", k ? ", " : "", set->text[k]);
        set->joined = nst_text_get(&text);
    }
    return set->joined;
}

uint32_t nst_origin_names(const NstOrigins *origins, NstOrigin origin, const char *const **names)
{
    NST_ASSERT(origin.i < origins->sets.n);
    const Set *set = &origins->sets.at[origin.i];
    *names = set->text;
    return set->n;
}
