/* os.h: the operating system: files, mappings, clock, processors.  os.c alone includes POSIX headers for
 * this.
 *
 * Functions that take a context accept NULL for it: then only the status tells what happened. */
#ifndef NST_IR_BASE_OS_H
#define NST_IR_BASE_OS_H

#include <stdbool.h>
#include "ir/base/status.h"

/* Bytes mapped from a file or from nowhere; {NULL, 0} is the empty mapping. */
typedef struct NstMapping {
    const unsigned char *at;
    size_t size;
} NstMapping;

/* One piece of a file to be written. */
typedef struct NstPart {
    const void *at;
    size_t size;
} NstPart;

/* The whole file, followed by a NUL that size does not count.  Owns: arena.
 * Errors: NST_E_IO; NST_E_LIMIT if it has more than `limit` bytes. */
NstStatus nst_os_read_file(NstCtx *ctx, NstArena *arena, const char *path, size_t limit, char **bytes,
                           size_t *size) NST_MUST_CHECK;

/* A path without links, NULL if there is nothing there or no memory.  Owns: free. */
char *nst_os_real_path(const char *path);

/* Memory for data that are read again and again, in large pages where the system has them [in arena; begins at a line, zero].  A
 * decode step over 500 MB of weights: 20.7 ms, in large pages 18.1 (AMD Zen 4, 2026-11). */
void *nst_os_large_pages(NstArena *arena, size_t bytes);

/* Maps a regular file read-only and private.  Owns: the caller ends it with nst_os_unmap.
 * Errors: NST_E_IO, also for what is no regular file. */
NstStatus nst_os_map_file(NstCtx *ctx, const char *path, NstMapping *mapping) NST_MUST_CHECK;

/* Ends a mapping and empties it; the empty mapping is allowed. */
void nst_os_unmap(NstMapping *mapping);

/* Fresh pages with a copy of code that can be executed and not written.  Owns: the caller ends it with
 * nst_os_unmap. Errors: NST_E_NOMEM. */
NstStatus nst_os_map_code(NstCtx *ctx, const void *code, size_t size, NstMapping *mapping) NST_MUST_CHECK;

/* Makes the file at path hold exactly the parts, mode 0600, or leaves what was there: temporary file beside
 * it, fsync, rename, fsync of the folder.  Errors: NST_E_IO; the temporary file is gone then. */
NstStatus nst_os_write_file(NstCtx *ctx, const char *path, const NstPart *parts, int n_parts) NST_MUST_CHECK;

/* Nanoseconds of a clock that never goes back. */
int64_t nst_os_now_ns(void);

/* Processors this process may use: affinity mask and cgroup CPU quota (rounded up), at least 1. */
int nst_os_cpu_count(void);

/* A Unicode character in upper or lower case, by the system's tables; where one character would become several it stays. */
int32_t nst_os_letter_case(int32_t character, bool upper);

#endif
