/* plan_form.h: constants of a plan's bytes, shared by plan_write.c and plan_read.c. */
#ifndef NST_RUNTIME_PLAN_FORM_H
#define NST_RUNTIME_PLAN_FORM_H

#include "runtime/plan_io.h"

#define NST_PLAN_MAGIC 0x36304e4c5054534eull /* "NSTPLN06" */
#define NST_PLAN_ALIGN 64                    /* bytes: of code and constants */

typedef enum NstPlanConstState {
    NST_PLAN_CONST_HERE,    /* its bytes follow */
    NST_PLAN_CONST_MODEL,   /* its bytes lie in the model */
    NST_PLAN_CONST_TO_PACK, /* a prepack step makes it */
    NST_PLAN_CONST_UNUSED   /* nobody reads it any more */
} NstPlanConstState;

#endif
