/* graph_bench.c: times the kernels of a graph against copies of the bytes it reads and writes.
 *
 * graph_bench FILE.nsg [--target NAME] [--off PASS] [--print] [--transpose ROWS COLUMNS] [--exp N]
 * All sizes are constants.  One thread.  Cases: the graph, each kernel alone, copies of (inputs + outputs) / 2 bytes, the
 * stand-alone transposed copies, libmvec's expf over N elements. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bandwidth.h"
#include "bench/mvec.h"
#include "bench/permute.h"
#include "codegen/codegen.h"
#include "ir/base/os.h"
#include "passes/pass.h"
#include "runtime/helpers.h"

enum { MAX_KERNELS = 16 };

typedef struct Options {
    const char *file, *target;
    NstPassOptions pass;
    bool print, assembly;
    int rows, columns, exp;
} Options;

typedef struct Runnable {
    NstKernelFn fn;
    NstKernelArgs args;
} Runnable;

typedef struct Program {
    Runnable *kernel;
    uint32_t n;
} Program;

static void run_one(void *arg)
{
    Runnable *r = arg;
    if (r->fn(&r->args)) abort();
}

static void run_all(void *arg)
{
    const Program *p = arg;
    for (uint32_t k = 0; k < p->n; k++) run_one(&p->kernel[k]);
}

static NstStatus compile(NstCtx *ctx, const NstScheduled *scheduled, const NstTarget *target, Runnable *r)
{
    const NstKernel *kernel = scheduled->kernel;
    NstCode code;
    int64_t *dims = NST_NEW_ARRAY(ctx->arena, int64_t, kernel->params.n);
    for (uint32_t k = 0; k < kernel->params.n; k++)
        NST_TRY(nst_dim_eval(ctx, kernel->dims, scheduled->size[k], NULL, 0, &dims[k]));
    NstCodegenOptions options = {0};
    int64_t start = nst_os_now_ns();
    NST_TRY(nst_codegen_compile(ctx, ctx->arena, &kernel, 1, target, &options, &code));
    double ms = (double)(nst_os_now_ns() - start) / 1e6;
    NstMapping *map = NST_NEW(ctx->arena, NstMapping);
    NST_TRY(nst_os_map_code(ctx, code.bytes, code.size, map));
    int64_t scratch, shared;
    NST_TRY(nst_kernel_code_memory(ctx, &code.kernel[0], dims, &scratch, &shared));
    union {
        const unsigned char *at;
        NstKernelFn fn;
    } entry = {.at = map->at + code.kernel[0].entry};
    r->fn = entry.fn;
    r->args = (NstKernelArgs){.dims = dims, .threads = 1, .helpers = &nst_helpers};
    r->args.scratch = nst_alloc_aligned(ctx->arena, (size_t)scratch + 64, 64);
    r->args.shared = nst_alloc_aligned(ctx->arena, (size_t)shared + 64, 64);
    r->args.error = NST_NEW(ctx->arena, NstErrorSlot);
    r->args.cancel = NST_NEW(ctx->arena, int32_t);
    printf("  %s: %zu bytes of code, %lld of scratch, %.1f ms\n", kernel->name, code.size, (long long)scratch, ms);
    return NST_OK;
}

/* Memory of a module buffer, made and filled once. */
static NstStatus data_of(NstCtx *ctx, NstModule *module, NstBuf buffer, void **data, size_t *traffic)
{
    if (data[buffer.i]) return NST_OK;
    const NstModuleBuffer *item = nst_module_get(module, buffer);
    int64_t elements = 0;
    NST_TRY(nst_dim_eval(ctx, module->dims, item->buffer.layout.elements, NULL, 0, &elements));
    size_t bytes = (size_t)elements * (size_t)nst_dtype_info(item->buffer.dtype)->bytes;
    data[buffer.i] = nst_alloc_aligned(ctx->arena, bytes + 4096, 4096);
    for (size_t b = 0; b + 4 <= bytes && item->buffer.dtype == NST_F32; b += 4)
        ((float *)data[buffer.i])[b / 4] = (float)((b / 4) % 13) * 0.125f - 0.75f;
    if (item->role == NST_ROLE_CONST) memcpy(data[buffer.i], module->consts.at[item->index].data, bytes);
    if (item->role == NST_ROLE_INPUT || item->role == NST_ROLE_OUTPUT) *traffic += bytes;
    return NST_OK;
}

static NstStatus load(NstCtx *ctx, NstModule *module, const Options *o, const NstTarget *target,
                      const NstScheduledList *list, void **data, size_t *traffic, Program *program)
{
    program->kernel = NST_NEW_ARRAY(ctx->arena, Runnable, list->n);
    program->n = list->n;
    for (uint32_t k = 0; k < list->n; k++) {
        const NstScheduled *s = &list->at[k];
        NstText text;
        NST_CHECK(ctx, s->kernel, NST_E_UNSUPPORTED, "step '%s' is no kernel", s->group->name);
        nst_text_init(&text, ctx->arena);
        if (o->print) nst_kernel_print(&text, s->kernel);
        if (o->assembly) NST_TRY(nst_codegen_assembly_text(ctx, s->kernel, target, &(NstCodegenOptions){0}, &text));
        printf("%s", nst_text_get(&text));
        NST_TRY(nst_kernel_verify(ctx, s->kernel));
        NST_TRY(compile(ctx, s, target, &program->kernel[k]));
        void **args = NST_NEW_ARRAY(ctx->arena, void *, s->n_args);
        for (uint32_t a = 0; a < s->n_args; a++) {
            NST_TRY(data_of(ctx, module, s->arg[a], data, traffic));
            args[a] = data[s->arg[a].i];
        }
        program->kernel[k].args.buffers = args;
        if (s->group->why_not_fused) printf("    then: %s\n", s->group->why_not_fused);
    }
    return NST_OK;
}

static NstStatus time_all(NstCtx *ctx, const Options *o, Program *program, size_t traffic)
{
    NstBenchCase cases[NST_BENCH_MAX_CASES];
    int n = 0;
    cases[n++] = (NstBenchCase){"graph", run_all, program, (double)traffic};
    for (uint32_t k = 0; k < program->n && program->n > 1 && k < MAX_KERNELS; k++)
        cases[n++] =
            (NstBenchCase){nst_format(ctx->arena, "kernel %u", k), run_one, &program->kernel[k], (double)traffic};
    size_t bytes = traffic / 2 / 64 * 64;
    void *from = nst_alloc_aligned(ctx->arena, bytes + 64, 4096);
    memset(from, 1, bytes); /* untouched pages would all be one page of zeros */
    NstCopy copy = {nst_alloc_aligned(ctx->arena, bytes + 64, 4096), from, bytes};
    n += nst_copy_cases(&copy, cases + n);
    NstTranspose transpose = {.rows = o->rows, .columns = o->columns};
    size_t floats = (size_t)o->rows * (size_t)o->columns * sizeof(float);
    if (floats) {
        transpose.to = nst_alloc_aligned(ctx->arena, floats, 4096);
        from = nst_alloc_aligned(ctx->arena, floats, 4096);
        memset(from, 1, floats);
        transpose.from = from;
        n += nst_transpose_cases(&transpose, cases + n);
    }
    NstMvec mvec = {.n = o->exp};
    if (o->exp) {
        mvec.from = nst_alloc_aligned(ctx->arena, (size_t)o->exp * sizeof(float), 64);
        mvec.to = nst_alloc_aligned(ctx->arena, (size_t)o->exp * sizeof(float), 64);
        if (nst_mvec_load(ctx, "expf", 16, &mvec) == NST_OK) cases[n++] = nst_mvec_case(&mvec);
        nst_ctx_clear(ctx);
    }
    NstBench bench;
    NST_TRY(nst_bench_run(ctx, cases, n, NST_BENCH_DEFAULT, &bench));
    for (int k = 0; k < n; k++)
        printf("  %-44s %10.2f us best %10.2f median %8.2f work/ns, graph / this %.3f\n", cases[k].name,
               bench.times[k].best / 1e3, bench.times[k].median / 1e3, nst_bench_rate(&bench, k),
               bench.times[0].best / bench.times[k].best);
    nst_bench_dispose(&bench);
    return NST_OK;
}

static NstStatus bench_file(NstCtx *ctx, void *arg)
{
    const Options *o = arg;
    NstTarget target;
    char *text;
    size_t size, traffic = 0;
    NstGraph *graph;
    NstModule *module;
    NstScheduledList run, prepack;
    Program program, ahead;
    NST_TRY(nst_target_parse(ctx, o->target, &target));
    NST_TRY(nst_os_read_file(ctx, ctx->arena, o->file, 1 << 20, &text, &size));
    NST_TRY(nst_graph_parse(ctx, ctx->arena, text, size, &graph));
    int64_t start = nst_os_now_ns();
    NST_TRY(nst_lower_graph(ctx, ctx->arena, graph, &target, &o->pass, &module));
    NST_TRY(nst_schedule_module(ctx, module, &o->pass, &run, &prepack));
    printf("%s: %u kernels, passes took %.2f ms\n", o->file, run.n, (double)(nst_os_now_ns() - start) / 1e6);
    void **data = NST_NEW_ARRAY(ctx->arena, void *, module->buffers.n);
    NST_TRY(load(ctx, module, o, &target, &prepack, data, &traffic, &ahead));
    run_all(&ahead);
    traffic = 0;
    NST_TRY(load(ctx, module, o, &target, &run, data, &traffic, &program));
    return time_all(ctx, o, &program, traffic);
}

int main(int argc, char **argv)
{
    Options o = {.target = "host"};
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--target") == 0 && k + 1 < argc)
            o.target = argv[++k];
        else if (strcmp(argv[k], "--off") == 0 && k + 1 < argc)
            o.pass.off |= 1ull << nst_pass_find(argv[++k]);
        else if (strcmp(argv[k], "--print") == 0)
            o.print = true;
        else if (strcmp(argv[k], "--asm") == 0)
            o.assembly = true;
        else if (strcmp(argv[k], "--transpose") == 0 && k + 2 < argc)
            o.rows = atoi(argv[k + 1]), o.columns = atoi(argv[k + 2]), k += 2;
        else if (strcmp(argv[k], "--exp") == 0 && k + 1 < argc)
            o.exp = atoi(argv[++k]);
        else
            o.file = argv[k];
    }
    if (!o.file) {
        fprintf(stderr, "usage: graph_bench FILE.nsg [--target NAME] [--off PASS] [--print] [--asm]\n"
                        "                   [--transpose ROWS COLUMNS] [--exp N]\n");
        return 2;
    }
    NstCtx ctx;
    if (nst_ctx_init(&ctx) != NST_OK) return 1;
    NstStatus status = nst_guard(&ctx, bench_file, &o);
    if (status != NST_OK) fprintf(stderr, "%s: %s\n", nst_status_name(status), ctx.error);
    nst_ctx_dispose(&ctx);
    return status == NST_OK ? 0 : 1;
}
