/* support_folder.c: see support_folder.h. */
#define _GNU_SOURCE /* NOLINT: mkdtemp */
#include "tests/unit/support_folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

void support_new_folder(char *path, size_t n, const char *name)
{
    const char *base = getenv("TMPDIR");
    int used = snprintf(path, n, "%s/nestor-%s-XXXXXX", base && *base ? base : "/tmp", name);
    cr_assert(used > 0 && (size_t)used < n, "the path of a folder in '%s' is too long", base ? base : "");
    cr_assert_not_null(mkdtemp(path));
}

void support_remove_folder(const char *path)
{
    char command[600];
    if (!path[0]) return;
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    cr_assert_eq(system(command), 0);
}
