/* pgm.h: grey images as inputs. */
#ifndef NST_TOOLS_PGM_H
#define NST_TOOLS_PGM_H

#include "tools/npy.h"

/* Reads a binary PGM file of 8 bits (P5) as f32 of the given rank >= 2: rows and columns are the last two axes, 0 to 1
 * from black to white.  Owns: *memory is ended with free().  Returns 0, or -1 and the reason in error. */
int pgm_read(const char *path, int32_t rank, NstTensor *tensor, void **memory, char error[FILE_ERROR]);

#endif
