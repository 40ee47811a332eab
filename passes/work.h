/* work.h: how long groups take on one core, estimated from their nests: the number of threads (ir/plan.h) and whether steps are dear
 * beside them (small.c) are decided by it. */
#ifndef NST_PASSES_WORK_H
#define NST_PASSES_WORK_H

#include "passes/nest.h"

/* The product of the extents of n axes. */
NstDim nst_axes_product(NstDims *dims, const NstAxis *axis, uint32_t n);

/* The time of a group on one core.  Units: 1 / NST_WORK_A_NS ns (ir/plan.h).  A group that is a step has none: 0. */
NstDim nst_group_work(NstModule *module, const NstGroup *group);

#endif
