/* library.h: shared libraries opened while running. */
#ifndef NST_IR_BASE_LIBRARY_H
#define NST_IR_BASE_LIBRARY_H

#include "ir/base/status.h"

/* Opens `file` from the folder of the library or program that holds `own` (any object of it), else from ../lib of that
 * folder.  It stays open.  Errors: NST_E_COMPILER with the system's message. */
NstStatus nst_library_open_beside(NstCtx *ctx, const void *own, const char *file, void **library) NST_MUST_CHECK;

/* Opens a library of the system by its name.  It stays open.  Errors: NST_E_UNSUPPORTED with the system's message. */
NstStatus nst_library_open(NstCtx *ctx, const char *name, void **library) NST_MUST_CHECK;

/* The address of a symbol, NULL if there is none. */
void *nst_library_symbol(void *library, const char *name);

#endif
