/* random.h: the generator behind random_bits. */
#ifndef NST_IR_RANDOM_H
#define NST_IR_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Philox 4x32-10: element p is word p mod 4 of the block with counter (p div 4, key[1]), keyed by key[0].
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). */
void nst_random_bits(const uint64_t key[2], uint32_t *out, size_t n);

#endif
