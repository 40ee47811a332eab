/* serial.h: the schedule of groups whose common axis runs in order: recurrent layers with their time loop. */
#ifndef NST_PASSES_SERIAL_H
#define NST_PASSES_SERIAL_H

#include "passes/sched.h"

/* True for a serial group of plain nests over one common axis. */
bool nst_is_serial_group(const NstGroup *group);

/* Chooses the register tiles of members and packs their constant operands (into module->prepack). */
void nst_prepare_serial(NstModule *module);

/* Makes flat (flat.h) what members touch that are written by rows; before anything is written that touches it. */
void nst_flatten_serial(NstWriter *w, const NstGroup *group);

/* Appends such a group to the kernel: one loop over the steps; in a step each member after the other, every member on all threads
 * with a barrier after it (none in a sequence, which one thread does); locals are memory that the threads share.  Errors as
 * nst_tile_nest. */
NstStatus nst_write_serial(NstCtx *ctx, NstWriter *w, const NstGroup *group) NST_MUST_CHECK;

#endif
