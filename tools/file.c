/* file.c: reads what may also be a pipe, so that its size is not known before. */
#include "tools/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)1 << 36) /* bytes */

void *file_read(const char *path, size_t *size, char error[FILE_ERROR])
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        snprintf(error, FILE_ERROR, "cannot open '%s': %s", path, strerror(errno));
        return NULL;
    }
    char *bytes = NULL;
    size_t n = 0, room = 0;
    for (;;) {
        if (n == room) {
            room = room ? 2 * room : 1 << 16;
            char *grown = room > MAX_FILE ? NULL : realloc(bytes, room);
            if (!grown) break;
            bytes = grown;
        }
        size_t got = fread(bytes + n, 1, room - n, file);
        if (got == 0) break;
        n += got;
    }
    int failed = ferror(file) || n == room;
    fclose(file);
    *size = n;
    if (!failed) return bytes;
    snprintf(error, FILE_ERROR, "cannot read '%s'", path);
    free(bytes);
    return NULL;
}
