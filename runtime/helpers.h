/* helpers.h: the functions of ir/rtcall.def, as generated code reaches them. */
#ifndef NST_RUNTIME_HELPERS_H
#define NST_RUNTIME_HELPERS_H

#include "ir/abi.h"

/* The one table of this process; a member a row. */
extern const NstHelpers nst_helpers;

#endif
