/* rows.h: the schedule of maps and of rows: groups whose members are maps and reductions over a row.
 *
 * Maps run along the output's memory in vectors, loops split where conditions change.  Row reductions keep the lanes of
 * ir/order.h in a register tile.  A group with common axes runs one row an iteration, its locals in scratch. */
#ifndef NST_PASSES_ROWS_H
#define NST_PASSES_ROWS_H

#include "passes/flat.h"

/* True if the group is a list of nests whose common axes, if any, may run in any order. */
bool nst_is_row_group(const NstGroup *group);

/* Makes flat (flat.h) what the group touches; before anything is written that touches it. */
void nst_flatten_rows(NstWriter *w, const NstGroup *group);
/* The group with each local that a member replaces by an output, element by element, lying in that output. */
NstGroup nst_rows_in_place(NstModule *module, const NstGroup *group);
/* Appends such a group to the kernel; `fused` is the group before locals were put in place. */
NstStatus nst_write_rows(NstCtx *ctx, NstWriter *w, const NstGroup *group, const NstGroup *fused) NST_MUST_CHECK;

/* One nest in vectors along its axes from n_common on (those before are bound); parallel: may use all threads.  The
 * buffers that it touches are flat, and the writer is told so (flat.h). */
NstStatus nst_write_row_nest(NstCtx *ctx, NstWriter *w, NstBlock *block, const NstNest *nest, uint32_t n_common,
                             bool parallel) NST_MUST_CHECK;

#endif
