/* plan_layout.h: where the buffers of a plan lie in the memory of one run. */
#ifndef NST_RUNTIME_PLAN_LAYOUT_H
#define NST_RUNTIME_PLAN_LAYOUT_H

#include "runtime/sizes.h"

/* The buffer whose storage buffer b uses: itself unless it is an alias. */
uint32_t nst_plan_root(const NstPlan *plan, uint32_t b);

/* nst_plan_layout on evaluated sizes.  Arena buffers whose size is not known yet (it depends on a value read later) are
 * left out: they get memory of their own when it is.  Errors: NST_E_SHAPE, NST_E_LIMIT.  Memory: scratch. */
NstStatus nst_plan_place(NstCtx *ctx, NstArena *scratch, const NstPlan *plan, const NstSizes *sizes,
                         const int64_t *value, const uint8_t *state, uint64_t *offset, uint64_t *bytes) NST_MUST_CHECK;

#endif
