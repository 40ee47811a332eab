/* xform.h: transformations of single loops of a kernel, in place.
 *
 * A loop is named by its place: the block it stands in and its position there.  Each keeps the order in which one iteration
 * follows another unless it says otherwise; those that change the order leave it to the caller that the result is the same
 * (nst_xform_may_fuse and nst_xform_may_reorder answer for the plain cases).  The kernel verifies before and after. */
#ifndef NST_PASSES_XFORM_H
#define NST_PASSES_XFORM_H

#include "ir/loop.h"

typedef enum NstSplit {
    NST_SPLIT_EXACT,   /* the factor divides the trip count, provably */
    NST_SPLIT_MIN,     /* the inner loop ends at the outer one's end */
    NST_SPLIT_TAIL,    /* whole tiles, then a second loop for the rest (not there if the factor divides) */
    NST_SPLIT_BALANCED /* as many tiles as MIN has, of q + 1 and then of q iterations: two outer loops */
} NstSplit;

/* Splits the loop at block[at] into tiles of `factor` iterations: a loop over tiles (kept kind) with one of kind `inner` inside
 * (width: lanes of a vector loop).  Gives the number of statements that now stand at block[at..].
 * Errors: NST_E_INVALID if the loop is a vector loop, if EXACT is not proven, or if the inner trip count does not suit its kind. */
NstStatus nst_xform_split(NstCtx *ctx, NstKernel *kernel, NstBlock *block, uint32_t at, int64_t factor, NstSplit split,
                          NstForKind inner, int64_t width, uint32_t *n) NST_MUST_CHECK;

/* Reorders the n perfectly nested loops at block[at]: order[k] = which of them stands at depth k.  Changes the order of
 * iterations.  Errors: NST_E_INVALID if the nest is not perfect or a bound depends on a loop that would come to stand inside. */
NstStatus nst_xform_reorder(NstCtx *ctx, NstKernel *kernel, NstBlock *block, uint32_t at, uint32_t n,
                            const uint32_t *order) NST_MUST_CHECK;

/* Replaces the loop by copies of its body, one an iteration.  Errors: NST_E_INVALID if the trip count is not a constant of at
 * most `limit`, or the loop is a vector loop.  Gives the number of statements in its place. */
NstStatus nst_xform_unroll(NstCtx *ctx, NstKernel *kernel, NstBlock *block, uint32_t at, int64_t limit,
                           uint32_t *n) NST_MUST_CHECK;

/* Cuts the loop in two at `where` (begin..where, where..end, each clamped to the loop's range).  The step must be 1 or
 * provably divide where - begin.  Errors: NST_E_INVALID else, or for a vector loop. */
NstStatus nst_xform_cut(NstCtx *ctx, NstKernel *kernel, NstBlock *block, uint32_t at, NstDim where) NST_MUST_CHECK;

/* Fuses the loops at block[at] and block[at + 1] of equal bounds, step and kind: iterations are interleaved.
 * Errors: NST_E_INVALID if they differ. */
NstStatus nst_xform_fuse(NstCtx *ctx, NstKernel *kernel, NstBlock *block, uint32_t at) NST_MUST_CHECK;
/* True if fusing cannot change a result: whatever one of them writes and the other touches is indexed, on some axis, by the same
 * linear function of the loop variable in every access. */
bool nst_xform_may_fuse(NstKernel *kernel, const NstBlock *block, uint32_t at);
/* True if the iterations of the loop are independent: whatever it writes and lives outside of it is indexed, on some axis, by
 * the same linear function of its variable in every access.  Then it may change places with loops around and inside. */
bool nst_xform_is_independent(NstKernel *kernel, const NstFor *loop);

#endif
