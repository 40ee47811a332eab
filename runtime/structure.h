/* structure.h: steps of a plan that are no kernels. */
#ifndef NST_RUNTIME_STRUCTURE_H
#define NST_RUNTIME_STRUCTURE_H

#include "runtime/run_state.h"

/* Does a HOST, IF or LOOP step.  Errors are in state->ctx; what a body reports, NST_E_SHAPE, NST_E_NOMEM. */
NstStatus nst_run_structure(NstRunState *state, const NstExecRun *run, const NstPlanStep *step) NST_MUST_CHECK;

#endif
