/* loader.c: loads libnestor-compiler with the first thing that must be compiled. */
#include <stdatomic.h>
#include <string.h>
#include "ir/base/library.h"
#include "runtime/compiler.h"

#define TEXT(x)   #x
#define VALUE(x)  TEXT(x)
#define FILE_NAME "libnestor-compiler.so." VALUE(NST_VERSION_MAJOR)

static _Atomic(const NstCompilerTable *) loaded;

void nst_compiler_set(const NstCompilerTable *table)
{
    atomic_store(&loaded, table);
}

const NstCompilerTable *nst_compiler_loaded(void)
{
    return atomic_load(&loaded);
}

NstStatus nst_compiler_get(NstCtx *ctx, const NstCompilerTable **table)
{
    *table = atomic_load(&loaded);
    if (*table) return NST_OK;
    void *library;
    NST_TRY(nst_library_open_beside(ctx, nst_build_id, FILE_NAME, &library));
    const NstCompilerTable *found = nst_library_symbol(library, "nst_compiler_table");
    NST_CHECK(ctx, found, NST_E_COMPILER, "'%s' has no table of functions", FILE_NAME);
    NST_CHECK(ctx, found->abi == NST_COMPILER_ABI && strcmp(found->build_id, nst_build_id) == 0, NST_E_COMPILER,
              "'%s' is of another build (%.40s) than this library (%s)", FILE_NAME,
              found->abi == NST_COMPILER_ABI ? found->build_id : "another interface", nst_build_id);
    atomic_store(&loaded, found);
    *table = found;
    return NST_OK;
}
