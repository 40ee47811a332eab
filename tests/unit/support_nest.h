/* support_nest.h: run plain and scheduled kernels of one nest with the interpreter and compare their bits. */
#ifndef NST_TESTS_UNIT_SUPPORT_NEST_H
#define NST_TESTS_UNIT_SUPPORT_NEST_H

#include "passes/nest.h"

/* The target of that level whatever the host is: for passes, whose output the interpreter runs. */
NstTarget support_target(NstTargetLevel level);

/* Fills memory with values of a type: small integers or floats in [-1, 1), the same for the same seed. */
void support_fill(NstDtype dtype, void *data, size_t elements, uint64_t seed);

/* Interprets kernel on seeded inputs and zeroed outputs: buffer k has the bytes its layout says at the given parameters.
 * arg_key[k]: seed of ARG k (equal keys hold equal bytes); given[k], where set, are its bytes instead.  Returns a buffer per ARG [arena]. */
void **support_interpret(NstCtx *ctx, NstArena *arena, const NstKernel *kernel, const int64_t *param,
                         const uint64_t *arg_key, const void *const *given, size_t *bytes);

#endif
