/* library.c: shared libraries, dlopen. */
#include "ir/base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_LIMIT 4096 /* bytes, with NUL */

/* path = folder of the object that holds own, with "/"; false if it is not known or too long. */
static bool own_folder(const void *own, char *path, size_t size)
{
    Dl_info info;
    if (dladdr(own, &info) == 0 || !info.dli_fname) return false;
    const char *name = info.dli_fname;
    char program[PATH_LIMIT];
    if (!strchr(name, '/')) { /* a program started by its bare name */
        ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
        if (n < 0) return false;
        program[n] = '\0';
        name = program;
    }
    const char *slash = strrchr(name, '/');
    size_t n = slash ? (size_t)(slash - name) + 1 : 0;
    if (n == 0 || n >= size) return false;
    memcpy(path, name, n);
    path[n] = '\0';
    return true;
}

NstStatus nst_library_open_beside(NstCtx *ctx, const void *own, const char *file, void **library)
{
    static const char *const places[] = {"", "../lib/"};
    char folder[PATH_LIMIT], path[PATH_LIMIT + 256];
    NST_CHECK(ctx, own_folder(own, folder, sizeof folder), NST_E_COMPILER, "cannot find the folder to load '%s' from",
              file);
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        snprintf(path, sizeof path, "%s%s%s", folder, places[k], file);
        if (access(path, F_OK) != 0) continue;
        *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        NST_CHECK(ctx, *library, NST_E_COMPILER, "cannot load '%s': %s", path, dlerror());
        return NST_OK;
    }
    NST_FAIL(ctx, NST_E_COMPILER, "there is no '%s' in '%s' or '../lib' of it", file, folder);
}

NstStatus nst_library_open(NstCtx *ctx, const char *name, void **library)
{
    *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    NST_CHECK(ctx, *library, NST_E_UNSUPPORTED, "cannot load '%s': %s", name, dlerror());
    return NST_OK;
}

void *nst_library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}
