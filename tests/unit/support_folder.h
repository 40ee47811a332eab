/* support_folder.h: a folder of a test's own, below $TMPDIR. */
#ifndef NST_TESTS_UNIT_SUPPORT_FOLDER_H
#define NST_TESTS_UNIT_SUPPORT_FOLDER_H

#include <stddef.h>

/* Makes an empty folder, mode 0700, and writes its path into `path` of n bytes; asserts success (Criterion). */
void support_new_folder(char *path, size_t n, const char *name);
/* Removes it with all in it; "" and what is gone already are allowed. */
void support_remove_folder(const char *path);

#endif
