/* map.c: open addressing with linear probing, at most half full; keys and values apart in insertion order. */
#include "ir/base/map.h"

#include <string.h>
#include <xxhash.h>
#include "ir/base/status.h"

#define FIRST_CAP 8 /* entries; slots are twice as many */

uint64_t nst_hash_bytes(const void *bytes, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, size, seed);
}

uint64_t nst_hash_mix(uint64_t a, uint64_t b)
{
    uint64_t pair[2] = {a, b};
    return XXH3_64bits(pair, sizeof pair);
}

/* Scatters a key over all 64 bits.  Source: the finaliser of SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t scatter(uint64_t key)
{
    key ^= key >> 30;
    key *= UINT64_C(0xbf58476d1ce4e5b9);
    key ^= key >> 27;
    key *= UINT64_C(0x94d049bb133111eb);
    return key ^ key >> 31;
}

/* The slot that holds key, or the free slot where it belongs. */
static uint32_t find_slot(const NstMap *map, uint64_t key)
{
    uint32_t mask = map->n_slots - 1;
    uint32_t slot = (uint32_t)scatter(key) & mask;
    while (map->slots[slot] != 0 && map->keys[map->slots[slot] - 1] != key) slot = (slot + 1) & mask;
    return slot;
}

static void grow(NstMap *map)
{
    NST_ASSERT(map->cap <= UINT32_MAX / 8);
    uint32_t cap = map->cap ? map->cap * 2 : FIRST_CAP;
    uint64_t *keys = NST_NEW_ARRAY(map->arena, uint64_t, cap);
    uint32_t *values = NST_NEW_ARRAY(map->arena, uint32_t, cap);
    uint32_t *slots = NST_NEW_ARRAY(map->arena, uint32_t, cap * 2);
    if (map->n != 0) {
        memcpy(keys, map->keys, map->n * sizeof *keys);
        memcpy(values, map->values, map->n * sizeof *values);
    }
    map->keys = keys;
    map->values = values;
    map->slots = slots;
    map->cap = cap;
    map->n_slots = cap * 2;
    for (uint32_t i = 0; i < map->n; i++) map->slots[find_slot(map, keys[i])] = i + 1;
}

void nst_map_init(NstMap *map, NstArena *arena)
{
    *map = (NstMap){.arena = arena};
}

uint32_t nst_map_get(const NstMap *map, uint64_t key, uint32_t missing)
{
    if (map->n == 0) return missing;
    uint32_t entry = map->slots[find_slot(map, key)];
    return entry ? map->values[entry - 1] : missing;
}

void nst_map_put(NstMap *map, uint64_t key, uint32_t value)
{
    if (map->n == map->cap) grow(map);
    uint32_t slot = find_slot(map, key);
    if (map->slots[slot] == 0) {
        map->keys[map->n] = key;
        map->slots[slot] = ++map->n;
    }
    map->values[map->slots[slot] - 1] = value;
}
