/* compare.h: a tensor against the one that was expected. */
#ifndef NST_TOOLS_COMPARE_H
#define NST_TOOLS_COMPARE_H

#include <stdbool.h>
#include "nestor/tensor.h"

#define COMPARE_TEXT 512

/* What the runner of the official cases allows where a case says nothing else. */
#define COMPARE_RTOL 1e-3

/* True if type and shape are equal and every element is: floats within rtol and an atol of 1e-7, NaN like NaN, infinity like itself; everything else to the bit.  Else `why` says how many differ,
 * which first, both values and, for floats, how many representable numbers lie between them (ulp). */
bool compare_tensors(const NstTensor *given, const NstTensor *expected, double rtol, char why[COMPARE_TEXT]);

/* Mixes type, shape and elements into a hash (FNV-1a, 64 bits). */
uint64_t compare_hash(uint64_t hash, const NstTensor *tensor);
#define COMPARE_HASH_START 0xcbf29ce484222325u

#endif
