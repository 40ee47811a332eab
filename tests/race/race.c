/* race.c: runs of one plan, the worker pool and the cache used by several threads at once, for the thread sanitizer
 * (tests/race/run.sh builds it so; Criterion and LLVM do not run under it).  usage: race CACHE-FOLDER */
#include <pthread.h>
#include <stdio.h>
#include "runtime/cache.h"
#include "tests/unit/support_plan.h"

#define CALLERS 4
#define ROUNDS  300
#define MOST    600 /* elements of a run */

static NstExec *exec;
static NstCache *cache;

static int32_t add_one(const NstKernelArgs *args)
{
    const float *in = args->buffers[0];
    float *out = args->buffers[1];
    int64_t n = args->dims[0], threads = args->threads, thread = args->thread;
    for (int64_t i = n * thread / threads; i < n * (thread + 1) / threads; i++) out[i] = in[i] + 1;
    return args->helpers->barrier(args->barrier, args->threads);
}

static long use_cache(int round)
{
    static const char bytes[1000];
    char key[8];
    size_t n = (size_t)snprintf(key, sizeof key, "%d", round % 7);
    NstCacheHit hit;
    if (!nst_cache_find(cache, NST_CACHE_KERNEL, key, n, &hit)) {
        nst_cache_store(cache, NST_CACHE_KERNEL, key, n, &(NstPart){bytes, sizeof bytes}, 1);
        return 0;
    }
    long wrong = hit.bytes != sizeof bytes;
    nst_cache_release(cache, &hit);
    return wrong;
}

static void *call_often(void *arg)
{
    float in[MOST], out[MOST];
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = 1 + round * 7 % MOST;
        for (int64_t i = 0; i < n; i++) in[i] = (float)(i + round);
        NstTensor x = nst_test_tensor(in, n), y = {.data = out, .bytes = sizeof out};
        NstExecRun run = {.inputs = &x, .outputs = &y};
        *(long *)arg += nst_exec_run(exec, &run) != NST_OK;
        for (int64_t i = 0; i < n; i++) *(long *)arg += out[i] != in[i] + 2;
        *(long *)arg += use_cache(round);
    }
    return NULL;
}

/* x -> +1 -> t -> +1 -> y, both steps parallel. */
static NstPlan *make_plan(NstArena *arena)
{
    NstPlan *plan = nst_test_plan_new(arena);
    NstDim n = nst_test_dim(plan, "n");
    uint32_t x = nst_test_buffer(plan, "x", NST_PLACE_INPUT, 0, n);
    uint32_t t = nst_test_buffer(plan, "t", NST_PLACE_ARENA, 0, n);
    uint32_t y = nst_test_buffer(plan, "y", NST_PLACE_OUTPUT, 0, n);
    NstSym params[] = {nst_dims_find_sym(plan->dims, "n", 1), {0}};
    plan->buffers.at[t].last = 1;
    nst_test_port(plan, false, "x", x);
    nst_test_port(plan, true, "y", y);
    for (int k = 0; k < 2; k++) nst_test_kernel(plan, "add_one", true);
    nst_test_step(plan, 0, (uint32_t[]){x, t, UINT32_MAX}, params);
    nst_test_step(plan, 1, (uint32_t[]){t, y, UINT32_MAX}, params);
    return plan;
}

int main(int n_words, char **words)
{
    static const NstKernelFn functions[] = {add_one, add_one};
    NstCtx ctx;
    NstPool *pool;
    pthread_t caller[CALLERS];
    long wrong[CALLERS] = {0}, all = 0;
    if (n_words != 2 || nst_ctx_init(&ctx) != NST_OK || nst_pool_new(3, &pool) != NST_OK) return 2;
    if (nst_cache_new(words[1], 3000, &cache) != NST_OK) return 2;
    if (nst_exec_new(&ctx, make_plan(ctx.arena), pool, functions, NULL, &exec) != NST_OK) return 2;
    for (int k = 0; k < CALLERS; k++)
        if (pthread_create(&caller[k], NULL, call_often, &wrong[k]) != 0) return 2;
    for (int k = 0; k < CALLERS; k++) {
        pthread_join(caller[k], NULL);
        all += wrong[k];
    }
    nst_exec_free(exec);
    nst_pool_free(pool);
    nst_cache_free(cache);
    nst_ctx_dispose(&ctx);
    printf("%ld wrong results\n", all);
    return all != 0;
}
