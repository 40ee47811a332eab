/* strip.h: the schedule of groups whose members share outer axes and hand whole strips to one another through scratch:
 * contraction -> maps -> row reductions -> contraction (attention and its like). */
#ifndef NST_PASSES_STRIP_H
#define NST_PASSES_STRIP_H

#include "passes/sched.h"

/* True if the group has that form: common axes, plain nests without index-lets, at least one contraction among them, the last
 * common axis long enough to fill vectors. */
bool nst_is_strip_group(NstModule *module, const NstGroup *group);

/* Packs ahead of the run what members that write no local read as columns and what is constant: weights (module->prepack).
 * Before the group is scheduled. */
void nst_prepare_strip(NstModule *module, NstGroup *group);

/* Appends such a group to the kernel: the last common axis runs in tiles that become the lanes of every member that works on a
 * local; locals are scratch strips with that axis innermost; each member is tiled for itself.  Errors as nst_tile_nest. */
NstStatus nst_write_strip(NstCtx *ctx, NstWriter *w, const NstGroup *group) NST_MUST_CHECK;

#endif
