/* onednn.c: dnnl_sgemm through dlopen.  The pool is sized by omp_set_num_threads of the OpenMP library that
 * libdnnl brings, because its environment variable is read only once, when it is loaded. */
#include "bench/onednn.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Its version structure begins with major, minor, patch. */
typedef struct Version {
    int major, minor, patch;
} Version;

struct NstOnednn {
    int (*sgemm)(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
    char version[32];
};

/* Copies the address of a function of the library; memcpy because ISO C has no such cast. */
static NstStatus find(NstCtx *ctx, void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    NST_CHECK(ctx, symbol, NST_E_UNSUPPORTED, "oneDNN was found but %s was not", name);
    memcpy(function, &symbol, sizeof symbol);
    return NST_OK;
}

NstStatus nst_onednn_load(NstCtx *ctx, int threads, NstOnednn **out)
{
    *out = NULL;
    NST_CHECK(ctx, threads >= 1, NST_E_INVALID, "%d threads given, at least 1 is allowed", threads);
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    NST_CHECK(ctx, library, NST_E_NOT_FOUND, "oneDNN is not installed (Debian package libdnnl-dev): %s", dlerror());
    NstOnednn found = {.sgemm = NULL};
    void (*set_threads)(int) = NULL;
    const Version *(*get_version)(void) = NULL;
    NST_TRY(find(ctx, library, "dnnl_sgemm", &found.sgemm));
    NST_TRY(find(ctx, library, "dnnl_version", &get_version));
    NST_TRY(find(ctx, library, "omp_set_num_threads", &set_threads));
    set_threads(threads);
    const Version *v = get_version();
    snprintf(found.version, sizeof found.version, "%d.%d.%d", v->major, v->minor, v->patch);
    NstOnednn *onednn = malloc(sizeof *onednn);
    NST_CHECK(ctx, onednn, NST_E_NOMEM, "no memory for %zu bytes", sizeof *onednn);
    *onednn = found;
    *out = onednn;
    return NST_OK;
}

void nst_onednn_unload(NstOnednn *onednn)
{
    free(onednn);
}

const char *nst_onednn_version(const NstOnednn *onednn)
{
    return onednn->version;
}

static void run_sgemm(void *arg)
{
    NstSgemm *g = arg;
    g->status = g->onednn->sgemm('N', 'N', g->m, g->n, g->k, 1, g->a, g->k, g->b, g->n, 0, g->c, g->n);
}

NstBenchCase nst_onednn_case(NstSgemm *g)
{
    return (NstBenchCase){"oneDNN sgemm", run_sgemm, g, 2.0 * (double)g->m * (double)g->n * (double)g->k};
}
