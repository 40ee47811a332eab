/* eval_race.h: finds what threads of a kernel would do to each other's memory, while the interpreter runs it in order.
 *
 * Each element of memory that threads share remembers who wrote and who read it since the last barrier: thread 0 (all
 * statements outside parallel loops; lets too, though every thread evaluates them), or iteration k of n of a parallel
 * loop (loops of equal n are dealt alike).  Two agents, one of them writing, is a race whatever the values are. */
#ifndef NST_IR_EVAL_RACE_H
#define NST_IR_EVAL_RACE_H

#include "ir/loop.h"

typedef struct NstRaces NstRaces;

NstRaces *nst_races_new(NstCtx *ctx, NstArena *arena, const NstKernel *kernel);
/* Forgets everything: a barrier. */
void nst_races_barrier(NstRaces *races);
/* From now on iteration k of n of a parallel loop acts / thread 0 acts again. */
void nst_races_iteration(NstRaces *races, int64_t k, int64_t n);
void nst_races_thread_0(NstRaces *races);
/* The agent touches elements offset .. offset + count - 1 of a buffer of `elements`.  Errors: NST_E_VERIFY on a race. */
NstStatus nst_races_access(NstRaces *races, NstBuf buffer, int64_t offset, int64_t count, int64_t elements,
                           bool write) NST_MUST_CHECK;

#endif
