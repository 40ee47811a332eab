/* host.h: primitives that no kernel does: functions over whole tensors, called by HOST steps of a plan. */
#ifndef NST_RUNTIME_HOST_H
#define NST_RUNTIME_HOST_H

#include "ir/base/dtype.h"
#include "ir/base/status.h"
#include "ir/strings.h"
#include "nestor/tensor.h"

typedef struct NstHostStep {
    NstCtx *ctx;
    NstArena *arena; /* scratch until the step ends */
    const char *name, *config;
    uint32_t n_in, n_out;
    const NstTensor *in; /* row-major and dense */
    NstTensor
        *out; /* dtype, rank and sizes the plan knows are set; the function sets the others, then has memory given */
    /* Memory for out[k] of its shape.  Errors: NST_E_SHAPE where the plan has another one, NST_E_NOMEM. */
    NstStatus (*give)(struct NstHostStep *step, uint32_t k);
    void *owner;         /* of give */
    NstStrings *strings; /* of the run: what elements of string tensors stand for; NULL: there are none */
} NstHostStep;

/* Trusts the data to have the size their shapes say, and nothing else.  Arena exhaustion unwinds. */
typedef NstStatus (*NstHostFn)(NstHostStep *step);

/* The function of that name, or NULL. */
NstHostFn nst_host_find(const char *name);

#endif
