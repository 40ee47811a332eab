/* tile_bench.c: times one register-tiled nest against the FMA peak of the same run.  (Graphs: graph_bench.)
 *
 * tile_bench FILE.nsl [--schedule "tile ..."]... [--target NAME] [--seconds S] [--no-pack] [--asm] [--simplify] [--print]
 * FILE.nsl holds one plain nest; arguments are filled with small values.  Several schedules are timed in turn; none: the one that
 * the compiler chooses.  Prints of each GFLOP/s (two operations an innermost step), the share of the peak, the time over that of the
 * first schedule (median of the rounds), the schedule and the compile time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peaks.h"
#include "codegen/codegen.h"
#include "ir/base/os.h"
#include "passes/pass.h"
#include "passes/sched.h"
#include "passes/simplify.h"
#include "runtime/helpers.h"

#define MOST_SCHEDULES (NST_BENCH_MAX_CASES - 1)

typedef struct Options {
    const char *file, *target, *schedule[MOST_SCHEDULES]; /* NULL: the compiler's */
    int n_schedules;
    double seconds;
    bool pack, assembly, print, simplify;
} Options;

typedef struct Runnable {
    NstKernelFn fn;
    NstKernelArgs args;
} Runnable;

static void run_once(void *arg)
{
    Runnable *r = arg;
    if (r->fn(&r->args)) abort();
}

static NstStatus prepare(NstCtx *ctx, const NstKernel *kernel, const NstTarget *target, void **data, Runnable *r)
{
    NstCode code;
    NstCodegenOptions options = {0};
    NST_TRY(nst_codegen_compile(ctx, ctx->arena, &kernel, 1, target, &options, &code));
    NstMapping *map = NST_NEW(ctx->arena, NstMapping);
    NST_TRY(nst_os_map_code(ctx, code.bytes, code.size, map));
    int64_t scratch, shared;
    NST_TRY(nst_kernel_code_memory(ctx, &code.kernel[0], NULL, &scratch, &shared));
    union {
        const unsigned char *at;
        NstKernelFn fn;
    } entry = {.at = map->at + code.kernel[0].entry};
    r->fn = entry.fn;
    r->args = (NstKernelArgs){.buffers = data, .threads = 1, .helpers = &nst_helpers};
    r->args.scratch = nst_alloc_aligned(ctx->arena, (size_t)scratch + 64, 64);
    r->args.shared = nst_alloc_aligned(ctx->arena, (size_t)shared + 64, 64);
    r->args.error = NST_NEW(ctx->arena, NstErrorSlot);
    r->args.cancel = NST_NEW(ctx->arena, int32_t);
    printf("  %s: %zu bytes of code\n", kernel->name, code.size);
    return NST_OK;
}

/* Memory for the kernel's arguments. */
static NstStatus arguments(NstCtx *ctx, const NstKernel *kernel, void ***data)
{
    *data = NST_NEW_ARRAY(ctx->arena, void *, kernel->n_args);
    for (uint32_t k = 0; k < kernel->n_args; k++) {
        const NstBuffer *buffer = nst_kernel_buffer(kernel, (NstBuf){k + 1});
        int64_t elements = 0;
        NST_TRY(nst_dim_eval(ctx, kernel->dims, buffer->layout.elements, NULL, 0, &elements));
        size_t bytes = (size_t)elements * (size_t)nst_dtype_info(buffer->dtype)->bytes;
        (*data)[k] = nst_os_large_pages(ctx->arena, bytes + 4096); /* as the runtime holds what is large */
        for (size_t b = 0; b + 4 <= bytes && buffer->dtype == NST_F32; b += 4)
            ((float *)(*data)[k])[b / 4] = (float)((b / 4) % 13) * 0.125f - 0.75f;
    }
    return NST_OK;
}

static double operations(NstCtx *ctx, NstModule *module, const NstNest *nest)
{
    double work = nest->n_reduce ? 2 : 1;
    int64_t extent = 0;
    for (uint32_t k = 0; k < nest->n_axes; k++)
        if (nst_dim_eval(ctx, module->dims, nest->axis[k].extent, NULL, 0, &extent) == NST_OK) work *= (double)extent;
    for (uint32_t k = 0; k < nest->n_reduce; k++)
        if (nst_dim_eval(ctx, module->dims, nest->reduce[k].extent, NULL, 0, &extent) == NST_OK) work *= (double)extent;
    return work;
}

static NstStatus tile(NstCtx *ctx, NstModule *module, const Options *o, const char *text, NstTileSchedule *schedule,
                      NstKernel **kernel)
{
    NstBuf *arg;
    NstNest *nest = module->groups.at[0]->items.at[0].nest;
    NST_CHECK(ctx, nst_tile_schedule_choose(module, nest, 0, true, schedule), NST_E_UNSUPPORTED, "no vector axis");
    if (text) NST_TRY(nst_tile_schedule_parse(ctx, text, schedule));
    int prefetch = schedule->prefetch;
    if (o->pack) (void)nst_pack_columns(module, nest, 0, schedule);
    if (text) schedule->prefetch = prefetch;
    NstWriter w;
    nst_writer_init(&w, module, module->groups.at[0]);
    NST_TRY(nst_tile_nest(ctx, &w, &w.kernel->body, nest, 0, schedule));
    nst_writer_finish(&w, kernel, &arg);
    bool changed;
    if (o->simplify) NST_TRY(nst_pass_simplify(ctx, *kernel, &changed));
    return nst_kernel_verify(ctx, *kernel);
}

static NstStatus measure(NstCtx *ctx, const Options *o, Runnable *r, int n, double work, const NstTarget *target)
{
    NstBenchCase cases[NST_BENCH_MAX_CASES];
    for (int k = 0; k < n; k++)
        cases[k] = (NstBenchCase){.name = "kernel", .run = run_once, .arg = &r[k], .work = work};
    NST_TRY(nst_peak_case(ctx, target->vector_bytes == 64 ? NST_PEAK_FMA_AVX512 : NST_PEAK_FMA_AVX2, &cases[n]));
    NstBench bench;
    NstBenchLimits limits = NST_BENCH_DEFAULT;
    if (o->seconds > 0) limits.seconds = o->seconds;
    NST_TRY(nst_bench_run(ctx, cases, n + 1, limits, &bench));
    double peak = nst_bench_rate(&bench, n);
    for (int k = 0; k < n; k++) {
        double rate = nst_bench_rate(&bench, k);
        printf("  %.1f GFLOP/s, %.1f %% of the peak %.1f, best %.1f us, median %.1f us, time over the first's %.3f\n",
               rate, 100 * rate / peak, peak, bench.times[k].best / 1e3, bench.times[k].median / 1e3,
               nst_bench_ratio(&bench, k, 0).median);
    }
    nst_bench_dispose(&bench);
    return NST_OK;
}

/* Compiles FILE's nest by that schedule and makes it ready to run. */
static NstStatus make(NstCtx *ctx, const Options *o, const char *text, const NstTarget *target, double *work,
                      Runnable *r)
{
    char *bytes;
    size_t size;
    NST_TRY(nst_os_read_file(ctx, ctx->arena, o->file, 1 << 20, &bytes, &size));
    NstKernel *plain, *kernel;
    NstModule *module;
    NST_TRY(nst_kernel_parse(ctx, ctx->arena, bytes, size, &plain));
    NST_TRY(nst_kernel_to_module(ctx, ctx->arena, plain, target, &module));
    *work = operations(ctx, module, module->groups.at[0]->items.at[0].nest);
    NstTileSchedule schedule;
    NST_TRY(tile(ctx, module, o, text, &schedule, &kernel));
    NstText out;
    nst_text_init(&out, ctx->arena);
    nst_tile_schedule_print(&out, &schedule);
    nst_text_add(&out, "\n");
    if (o->print) nst_kernel_print(&out, kernel);
    if (o->assembly) NST_TRY(nst_codegen_assembly_text(ctx, kernel, target, &(NstCodegenOptions){0}, &out));
    printf("%s: %s", o->file, nst_text_get(&out));
    void **data;
    NST_TRY(arguments(ctx, kernel, &data));
    int64_t start = nst_os_now_ns();
    NST_TRY(prepare(ctx, kernel, target, data, r));
    printf("  compiled in %.1f ms\n", (double)(nst_os_now_ns() - start) / 1e6);
    return NST_OK;
}

static NstStatus bench_file(NstCtx *ctx, void *arg)
{
    const Options *o = arg;
    NstTarget target;
    Runnable r[MOST_SCHEDULES];
    double work = 0;
    int n = o->n_schedules ? o->n_schedules : 1;
    NST_TRY(nst_target_parse(ctx, o->target, &target));
    for (int k = 0; k < n; k++) NST_TRY(make(ctx, o, o->schedule[k], &target, &work, &r[k]));
    return measure(ctx, o, r, n, work, &target);
}

int main(int argc, char **argv)
{
    Options o = {.target = "host", .pack = true};
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--schedule") == 0 && k + 1 < argc && o.n_schedules < MOST_SCHEDULES)
            o.schedule[o.n_schedules++] = argv[++k];
        else if (strcmp(argv[k], "--seconds") == 0 && k + 1 < argc)
            o.seconds = strtod(argv[++k], NULL);
        else if (strcmp(argv[k], "--target") == 0 && k + 1 < argc)
            o.target = argv[++k];
        else if (strcmp(argv[k], "--no-pack") == 0)
            o.pack = false;
        else if (strcmp(argv[k], "--asm") == 0)
            o.assembly = true;
        else if (strcmp(argv[k], "--simplify") == 0)
            o.simplify = true;
        else if (strcmp(argv[k], "--print") == 0)
            o.print = true;
        else
            o.file = argv[k];
    }
    if (!o.file) {
        fprintf(stderr,
                "usage: tile_bench FILE.nsl [--schedule TEXT]... [--target NAME] [--seconds S] [--no-pack] [--asm] "
                "[--simplify] [--print]\n");
        return 2;
    }
    NstCtx ctx;
    if (nst_ctx_init(&ctx) != NST_OK) return 1;
    NstStatus status = nst_guard(&ctx, bench_file, &o);
    if (status != NST_OK) fprintf(stderr, "%s: %s\n", nst_status_name(status), ctx.error);
    nst_ctx_dispose(&ctx);
    return status == NST_OK ? 0 : 1;
}
