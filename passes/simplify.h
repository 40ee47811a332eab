/* simplify.h: loop algebra on kernels: what is proven is not computed, what does not change is computed once.
 *
 * All of it is exact: the same bits, and no load that was not made before at the same indices. */
#ifndef NST_PASSES_SIMPLIFY_H
#define NST_PASSES_SIMPLIFY_H

#include "ir/loop.h"

/* Decides comparisons of indices from the bounds of the loops around, in ifs and inside expressions; makes a loop begin and
 * end where an if that is all of its body lets it; moves such an if out of a loop that it does not depend on; removes what
 * never runs and what does nothing; puts the body of a loop that runs once in its place.  *changed: it did something. */
NstStatus nst_simplify_guards(NstCtx *ctx, NstKernel *kernel, bool *changed) NST_MUST_CHECK;

/* Moves what a loop computes alike in every iteration into lets before it: operations, and loads of memory that the loop does
 * not write, if it provably runs and nothing that may stop the kernel comes first.  Register tiles stay. */
NstStatus nst_simplify_hoist(NstCtx *ctx, NstKernel *kernel, bool *changed) NST_MUST_CHECK;

/* Gives a value of some cost that several statements of a block compute, with no write to what it loads in between, to a let before the
 * first of them. */
NstStatus nst_simplify_cse(NstCtx *ctx, NstKernel *kernel, bool *changed) NST_MUST_CHECK;

/* All three in this order: the pass "simplify". */
NstStatus nst_pass_simplify(NstCtx *ctx, NstKernel *kernel, bool *changed) NST_MUST_CHECK;

#endif
