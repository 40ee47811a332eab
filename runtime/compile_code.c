/* compile_code.c: kernels as code: equal ones share it, the kernel cache is asked first, the rest is compiled on several
 * threads.
 *
 * What the cache stores for a kernel is a plan of one kernel (plan_io.h): code, and memory sizes over its params. */
#include <stdatomic.h>
#include <stdlib.h>
#include "codegen/codegen.h"
#include "ir/abi.h"
#include "runtime/compile.h"
#include "runtime/threads.h"

typedef struct Unique {
    const NstKernel *kernel;
    NstText canonical, material;
    NstCompiledKernel compiled; /* plan NULL: to be compiled */
    NstCtx *ctx;                /* of the thread that compiled it */
    NstStatus status;
} Unique;

NstDim nst_compile_copy_dim(NstDims *to, const NstDims *from, NstDim dim, const NstDim *value_of)
{
    NstDim result = {0}, arg;
    if (dim.i == 0) return result;
    const NstDimNode *node = nst_dim_node(from, dim);
    switch (node->op) {
    case NST_DIM_CONST: return nst_dim_const(to, node->value);
    case NST_DIM_SYM: {
        NstDim def = nst_dims_sym_info(from, node->sym)->def;
        return def.i ? nst_compile_copy_dim(to, from, def, value_of) : value_of[node->sym.i];
    }
    case NST_DIM_SUM: result = nst_dim_const(to, node->value); break;
    case NST_DIM_PRODUCT: result = nst_dim_const(to, 1); break;
    case NST_DIM_FLOORDIV:
    case NST_DIM_MOD:
    case NST_DIM_MIN:
    case NST_DIM_MAX: result = nst_compile_copy_dim(to, from, node->arg[0], value_of); break;
    }
    bool binary = node->op != NST_DIM_SUM && node->op != NST_DIM_PRODUCT;
    for (uint32_t k = binary; k < node->n; k++) {
        arg = nst_compile_copy_dim(to, from, node->arg[k], value_of);
        if (node->op == NST_DIM_SUM) result = nst_dim_add(to, result, nst_dim_mul_const(to, arg, node->coef[k]));
        if (node->op == NST_DIM_PRODUCT) result = nst_dim_mul(to, result, arg);
        if (node->op == NST_DIM_FLOORDIV) result = nst_dim_floordiv(to, result, arg);
        if (node->op == NST_DIM_MOD) result = nst_dim_mod(to, result, arg);
        if (node->op == NST_DIM_MIN) result = nst_dim_min(to, result, arg);
        if (node->op == NST_DIM_MAX) result = nst_dim_max(to, result, arg);
    }
    return result;
}

/* All the code of a kernel depends on. */
static void add_material(const NstCompile *c, Unique *u)
{
    const NstTarget *target = c->request->target;
    nst_text_init(&u->material, c->arena);
    nst_text_add(&u->material, "kernel abi %d build %s llvm %s\ntarget %d %016llx %s %s bounds %d\n", NST_ABI_VERSION,
                 nst_build_id, nst_codegen_llvm_version(), (int)target->level, (unsigned long long)target->feature_mask,
                 target->cpu, target->features, c->request->options->bounds_checks != 0);
    nst_text_add_n(&u->material, u->canonical.at, u->canonical.n);
}

static void find_stored(const NstCompile *c, Unique *u)
{
    const NstKernelStore *store = &c->request->kernels;
    NstCacheHit hit;
    if (!store->arg || !store->find(store->arg, u->material.at, u->material.n, &hit)) return;
    void *bytes = nst_alloc_aligned(c->arena, hit.bytes, 64);
    memcpy(bytes, hit.at, hit.bytes);
    size_t n = hit.bytes;
    store->release(store->arg, &hit);
    NstPlan *plan;
    if (nst_plan_read(c->ctx, c->arena, bytes, n, NULL, 0, &plan) != NST_OK || plan->kernels.n != 1) {
        nst_ctx_clear(c->ctx); /* a miss */
        return;
    }
    u->compiled.plan = plan;
}

/* --- compiling ----------------------------------------------------------------------------------------------- */

typedef struct Job {
    const NstCompile *c;
    Unique **todo;
    uint32_t n;
    _Atomic uint32_t next;
} Job;

typedef struct One {
    const NstCompile *c;
    Unique *unique;
} One;

/* Compiles one kernel into a plan of its own in ctx's arena. */
static NstStatus compile_one(NstCtx *ctx, void *arg)
{
    One *one = arg;
    NstArena *arena = ctx->arena;
    NstCodegenOptions options = {.bounds_checks = one->c->request->options->bounds_checks != 0};
    NstCode code;
    NST_TRY(nst_codegen_compile(ctx, arena, &one->unique->kernel, 1, one->c->request->target, &options, &code));
    NstPlan *plan = NST_NEW(arena, NstPlan);
    *plan = (NstPlan){.arena = arena, .dims = nst_dims_new(arena), .code = code.bytes, .code_bytes = code.size};
    const NstKernelCode *made = &code.kernel[0];
    NstDim *value_of = NST_NEW_ARRAY(arena, NstDim, nst_dims_sym_count(made->dims) + 1);
    for (uint32_t k = 0; k < made->n_params; k++) {
        const char *name = nst_format(arena, "p%u", k);
        NstSym sym = nst_dims_new_sym(plan->dims, NST_SYM_INPUT, name, INT64_MIN, INT64_MAX);
        value_of[made->param[k].i] = nst_dim_sym(plan->dims, sym);
    }
    NstPlanKernel kernel = {.name = made->name, .entry = made->entry};
    kernel.scratch_bytes = nst_compile_copy_dim(plan->dims, made->dims, made->scratch, value_of);
    kernel.shared_bytes = nst_compile_copy_dim(plan->dims, made->dims, made->shared, value_of);
    nst_vec_push(arena, &plan->kernels, kernel);
    one->unique->compiled.plan = plan;
    return NST_OK;
}

void nst_compile_count(const NstCompile *c, uint32_t done, uint32_t total)
{
    NstCompileCount *count = c->count;
    if (!count) return;
    nst_lock_take(count->lock);
    count->done += done;
    count->total += total;
    c->request->progress(c->request->progress_arg, count->done, count->total);
    nst_lock_drop(count->lock);
}

static void compile_some(void *arg, int thread, int threads)
{
    Job *job = arg;
    (void)thread;
    (void)threads;
    for (uint32_t k; (k = atomic_fetch_add(&job->next, 1)) < job->n;) {
        Unique *u = job->todo[k];
        One one = {job->c, u};
        u->status = nst_guard(u->ctx, compile_one, &one);
        nst_compile_count(job->c, 1, 0);
    }
}

static void dispose_ctx(void *ctx)
{
    nst_ctx_dispose(ctx);
}

/* Kernels have the tables of their graph in common, which their threads may only read. */
static void share_tables(Unique **todo, uint32_t n, bool shared)
{
    for (uint32_t k = 0; k < n; k++) {
        nst_dims_share(todo[k]->kernel->dims, shared);
        nst_exprs_share(todo[k]->kernel->exprs, shared);
    }
}

static NstStatus compile_missing(NstCompile *c, Unique **todo, uint32_t n)
{
    Job job = {.c = c, .todo = todo, .n = n};
    for (uint32_t k = 0; k < n; k++) {
        todo[k]->ctx = NST_NEW(c->arena, NstCtx);
        NST_CHECK(c->ctx, nst_ctx_init(todo[k]->ctx) == NST_OK, NST_E_NOMEM, "no memory to compile a kernel");
        nst_arena_on_free(c->arena, dispose_ctx, todo[k]->ctx);
    }
    NstPool *pool = NULL;
    int threads = c->request->threads < (int)n ? c->request->threads : (int)n;
    if (threads > 1 && nst_pool_new(threads, &pool) != NST_OK) pool = NULL; /* then on this thread alone */
    share_tables(todo, n, true);
    nst_pool_run(pool, threads, compile_some, &job);
    share_tables(todo, n, false);
    nst_pool_free(pool);
    for (uint32_t k = 0; k < n; k++)
        if (todo[k]->status != NST_OK)
            NST_FAIL(c->ctx, todo[k]->status, "kernel '%s': %s", todo[k]->kernel->name, todo[k]->ctx->error);
    return NST_OK;
}

static NstStatus store_compiled(NstCompile *c, const Unique *u)
{
    const NstKernelStore *store = &c->request->kernels;
    NstPart *parts;
    int n_parts;
    if (!store->arg) return NST_OK;
    NST_TRY(nst_plan_write(c->ctx, c->arena, u->compiled.plan, &parts, &n_parts));
    store->store(store->arg, u->material.at, u->material.n, parts, n_parts);
    return NST_OK;
}

static bool same_text(const NstText *a, const NstText *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->at, b->at, a->n) == 0);
}

NstStatus nst_compile_kernels(NstCompile *c, const NstScheduled *const *kernels, uint32_t n,
                              NstCompiledKernel **compiled, uint32_t *n_compiled, uint32_t **index)
{
    Unique *unique = NST_NEW_ARRAY(c->arena, Unique, n), **todo = NST_NEW_ARRAY(c->arena, Unique *, n);
    *index = NST_NEW_ARRAY(c->arena, uint32_t, n);
    uint32_t n_unique = 0, n_todo = 0;
    for (uint32_t k = 0; k < n; k++) {
        Unique *u = &unique[n_unique];
        u->kernel = kernels[k]->kernel;
        u->canonical = kernels[k]->text;
        u->compiled.hash = nst_hash128(u->canonical.at, u->canonical.n);
        uint32_t at = 0;
        while (at < n_unique &&
               (unique[at].compiled.hash.lo != u->compiled.hash.lo || !same_text(&unique[at].canonical, &u->canonical)))
            at++;
        (*index)[k] = at;
        if (at < n_unique) continue;
        n_unique++;
        add_material(c, u);
        find_stored(c, u);
        if (!u->compiled.plan) todo[n_todo++] = u;
    }
    nst_compile_count(c, n_unique - n_todo, n_unique);
    NST_TRY(compile_missing(c, todo, n_todo));
    for (uint32_t k = 0; k < n_todo; k++) NST_TRY(store_compiled(c, todo[k]));
    *compiled = NST_NEW_ARRAY(c->arena, NstCompiledKernel, n_unique);
    for (uint32_t k = 0; k < n_unique; k++) (*compiled)[k] = unique[k].compiled;
    *n_compiled = n_unique;
    return NST_OK;
}
