/* float_state.h: the floating-point state that compiled code runs in, and the caller's, which it gets back.
 *
 * Compiled code and its helpers need the default state: round to nearest even, denormals kept, no traps. */
#ifndef NST_RUNTIME_FLOAT_STATE_H
#define NST_RUNTIME_FLOAT_STATE_H

#include <fenv.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct NstFloatState {
    fenv_t environment; /* where `whole` */
    uint32_t control;   /* else: what alone a run may change */
    bool whole;
} NstFloatState;

/* Sets the default state; *saved is what there was. */
void nst_float_state_enter(NstFloatState *saved);
/* Sets what there was, exception flags included. */
void nst_float_state_leave(const NstFloatState *saved);

#endif
