/* npy.h: tensors as NumPy files (format 1.0 to 3.0). */
#ifndef NST_TOOLS_NPY_H
#define NST_TOOLS_NPY_H

#include "nestor/tensor.h"
#include "tools/file.h"

/* Reads a file.  Texts ("S", bytes, and "U", characters, which become UTF-8) are strings.  Element types NumPy has no name for (bf16, f8) are read as those of `expected` when their size agrees.
 * Fortran order becomes strides.  Owns: *memory (and the strides inside) is ended with free().
 * Returns 0, or -1 and the reason in error. */
int npy_read(const char *path, NstDtype expected, NstTensor *tensor, void **memory, char error[FILE_ERROR]);

/* Writes a row-major tensor; strings as bytes ("S").  Returns 0, or -1 and the reason in error. */
int npy_write(const char *path, const NstTensor *tensor, char error[FILE_ERROR]);

#endif
