/* int_dot.h: contractions of 8-bit integers with zero points become packed dot products plus row and column sums. */
#ifndef NST_PASSES_INT_DOT_H
#define NST_PASSES_INT_DOT_H

#include "passes/nest.h"

/* Rewrites the contraction sum (a - za)(b - zb) of 8-bit a, b in i32 as  sum a*b - zb * sum a - za * sum b + K za zb, all
 * wrapping: exact on every target.  The product runs over words of four k (DOT4_U8S8); sums become nests of their own before it (of
 * constants: before the run).  Returns true if the nest of group `at` had that form and was rewritten; `at` then counts the
 * groups put before it. */
bool nst_integer_contraction(NstModule *module, uint32_t *at);

#endif
