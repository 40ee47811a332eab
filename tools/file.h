/* file.h: files as bytes. */
#ifndef NST_TOOLS_FILE_H
#define NST_TOOLS_FILE_H

#include <stddef.h>

#define FILE_ERROR 512

/* The bytes of a file.  Owns: ended with free().  NULL, and the reason in error, if it cannot be read. */
void *file_read(const char *path, size_t *size, char error[FILE_ERROR]);

#endif
