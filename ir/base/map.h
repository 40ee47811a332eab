/* map.h: hash map from 64-bit keys to 32-bit values, and the hash it uses.  Iteration order is insertion
 * order. */
#ifndef NST_IR_BASE_MAP_H
#define NST_IR_BASE_MAP_H

#include "ir/base/arena.h"

typedef struct NstMap {
    NstArena *arena;
    uint64_t *keys; /* in insertion order */
    uint32_t *values;
    uint32_t *slots; /* open addressing, index + 1 into keys; 0 = free */
    uint32_t n, cap, n_slots;
} NstMap;

/* An empty map in arena.  Removal is not offered. */
void nst_map_init(NstMap *map, NstArena *arena);

/* The value stored for key, or `missing`. */
uint32_t nst_map_get(const NstMap *map, uint64_t key, uint32_t missing);

/* Stores or replaces. */
void nst_map_put(NstMap *map, uint64_t key, uint32_t value);

/* XXH3 64-bit of bytes, seeded.  For tables only; cache keys use ir/hash.h. */
uint64_t nst_hash_bytes(const void *bytes, size_t size, uint64_t seed);

/* Mixes two hashes, order matters. */
uint64_t nst_hash_mix(uint64_t a, uint64_t b);

#endif
