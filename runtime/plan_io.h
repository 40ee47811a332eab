/* plan_io.h: plans as bytes: what the compiler library hands over and what the plan cache stores.
 *
 * Bytes hold everything a run needs: dims as a flat program, steps, code, constants.  Reading trusts nothing: every
 * count, index and offset is checked before it is used. */
#ifndef NST_RUNTIME_PLAN_IO_H
#define NST_RUNTIME_PLAN_IO_H

#include "ir/base/os.h"
#include "ir/plan.h"

/* The plan as parts that follow one another; the code's and constants' bytes are borrowed from the plan.  Constants that
 * lie in the model (model_offset) and constants that no step and no output uses any more (weights that were packed) are
 * left out.  The bytes are the same for equal plans.
 * Owns: arena. */
NstStatus nst_plan_write(NstCtx *ctx, NstArena *arena, const NstPlan *plan, NstPart **parts,
                         int *n_parts) NST_MUST_CHECK;

/* The plan in these bytes, which must be aligned to 64; code and constants stay where they are and are borrowed, from the
 * model too (its `model_bytes` bytes at `model`; NULL where none can be used).
 * Owns: arena holds the rest.  Errors: NST_E_PARSE saying what is wrong. */
NstStatus nst_plan_read(NstCtx *ctx, NstArena *arena, const void *bytes, size_t n, const void *model,
                        size_t model_bytes, NstPlan **plan) NST_MUST_CHECK;

#endif
