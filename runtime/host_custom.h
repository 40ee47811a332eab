/* host_custom.h: host steps that a registered operator does. */
#ifndef NST_RUNTIME_HOST_CUSTOM_H
#define NST_RUNTIME_HOST_CUSTOM_H

#include "ir/custom.h"
#include "runtime/host.h"

/* A step and the operator it stands for. */
typedef struct NstCustomStep {
    const NstOperator *op; /* [borrowed from the engine] */
    NstCustomNode node;
} NstCustomStep;

/* Finds the operator that a host step names.  Owns: arena.  Errors: NST_E_UNSUPPORTED naming an operator that is not
 * registered, NST_E_INVALID for a step of another form. */
NstStatus nst_custom_bind(NstCtx *ctx, NstArena *arena, const NstCustom *list, const NstHostStep *step,
                          NstCustomStep *bound) NST_MUST_CHECK;

/* Does the step.  Errors: what compute returns; NST_E_SHAPE, NST_E_INVALID for outputs that are not what infer said. */
NstStatus nst_custom_call(const NstCustomStep *bound, NstHostStep *step) NST_MUST_CHECK;

#endif
