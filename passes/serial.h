/* serial.h: the schedule of groups whose common axis runs in order: recurrent layers with their time loop. */
#ifndef NST_PASSES_SERIAL_H
#define NST_PASSES_SERIAL_H

#include "passes/sched.h"

/* True for a serial group of plain nests over one common axis. */
bool nst_is_serial_group(const NstGroup *group);

/* Chooses the register tiles of members and packs their constant operands (into module->prepack). */
void nst_prepare_serial(NstModule *module);

/* The kernel of such a group: one loop over the steps; in a step each member after the other, every member on all threads with
 * a barrier after it; locals are memory that the threads share.  Errors as nst_tile_nest. */
NstStatus nst_schedule_serial(NstCtx *ctx, NstModule *module, const NstGroup *group, NstKernel **kernel,
                              NstBuf **arg_buffer) NST_MUST_CHECK;

#endif
