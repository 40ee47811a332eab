/* test_codegen_errors.c: what ends a kernel early: indices out of range, asserts, cancel, broken bounds; and memory. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include "tests/unit/support_codegen.h"

static NstCtx ctx;
static NstTarget target;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    nst_target_host(&target);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(codegen_errors, .init = begin, .fini = end);

static const char gather_text[] = "kernel g(n, v min 1) in t: f32[v] in q: i64[n] out y: f32[n] {\n"
                                  "  for parallel i in 0..n step 8 {\n"
                                  "    for vector l in i..min(n, i + 8) width 8 {\n"
                                  "      @\"pick (Gather)\" index j checked in 0..v = q[l]\n"
                                  "      y[l] = t[j]\n"
                                  "    }\n  }\n}\n";

Test(codegen_errors, an_index_out_of_range_is_reported_with_its_origin)
{
    for (int threads = 1; threads <= 2; threads++) {
        for (int64_t bad = 3; bad < 30; bad += 23) { /* in the range of either of two threads */
            NstKernel *kernel = support_parse(&ctx, gather_text);
            Compiled compiled = support_compile(&ctx, kernel, &target, false);
            int64_t param[2] = {30, 7};
            Data data = support_data(&ctx, kernel, param, 1, false, 7);
            ((int64_t *)data.at[1])[bad] = -2;
            NstErrorSlot error = {0};
            cr_assert_eq(support_run(&ctx, &compiled, &data, param, threads, &error, NULL), NST_E_INDEX);
            cr_assert_eq(error.status, NST_E_INDEX);
            cr_assert_eq(error.value, -2);
            cr_assert_eq(error.limit, 7);
            const NstKernelCode *code = &compiled.code.kernel[0];
            cr_assert(error.origin < code->n_origins);
            cr_assert_str_eq(nst_origin_text(kernel->origins, code->origin[error.origin]), "pick (Gather)");
            support_release(&compiled);
        }
    }
}

Test(codegen_errors, the_first_error_stays)
{
    NstKernel *kernel = support_parse(&ctx, gather_text);
    Compiled compiled = support_compile(&ctx, kernel, &target, false);
    int64_t param[2] = {30, 7};
    Data data = support_data(&ctx, kernel, param, 1, false, 7);
    ((int64_t *)data.at[1])[0] = 7;
    NstErrorSlot error = {.status = NST_E_ASSERT, .value = 42};
    cr_assert_eq(support_run(&ctx, &compiled, &data, param, 1, &error, NULL), NST_E_INDEX);
    cr_assert_eq(error.status, NST_E_ASSERT);
    cr_assert_eq(error.value, 42);
    support_release(&compiled);
}

Test(codegen_errors, masked_lanes_are_not_checked)
{
    NstKernel *kernel = support_parse(&ctx, gather_text);
    Compiled compiled = support_compile(&ctx, kernel, &target, false);
    int64_t param[2] = {5, 7};
    Data data = support_data(&ctx, kernel, param, 1, false, 7);
    memset((int64_t *)data.at[1] + 5, 0xff, 24); /* the lanes past n would read -1 */
    cr_assert_eq(support_run(&ctx, &compiled, &data, param, 1, NULL, NULL), NST_OK);
    support_release(&compiled);
}

Test(codegen_errors, a_failed_assert_gives_its_message)
{
    NstKernel *kernel = support_parse(&ctx, "kernel a(n) in x: f32[n] out y: f32[n] { for i in 0..n {\n"
                                            "assert (x[i] < 100f32) \"first\"\n assert (x[i] >= -2f32) \"second\"\n"
                                            "y[i] = x[i]\n } }");
    Compiled compiled = support_compile(&ctx, kernel, &target, false);
    int64_t param[1] = {4};
    Data data = support_data(&ctx, kernel, param, 1, false, 0);
    ((float *)data.at[0])[2] = -3;
    NstErrorSlot error = {0};
    cr_assert_eq(support_run(&ctx, &compiled, &data, param, 1, &error, NULL), NST_E_ASSERT);
    cr_assert_str_eq(kernel->messages.at[error.value], "second");
    support_release(&compiled);
}

Test(codegen_errors, bounds_checks_stop_loads_and_stores_outside)
{
    static const char *const bodies[] = {
        "y[i] = x[i + k]\n",
        "y[i + k] = x[i]\n",
        "for vector l in 0..4 width 4 {\n y[l] = x[2 * l + k]\n }\n",
        "for vector l in 0..4 width 4 {\n y[l + k] = x[l]\n }\n",
    };
    for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++) {
        const char *text = nst_format(
            ctx.arena, "kernel b(n min 8, k) in x: f32[n] out y: f32[n] { for i in 0..1 {\n%s } }", bodies[b]);
        NstKernel *kernel = support_parse(&ctx, text);
        Compiled compiled = support_compile(&ctx, kernel, &target, true);
        int64_t good[2] = {8, 0}, bad[2] = {8, 8};
        Data data = support_data(&ctx, kernel, good, 1, false, 0);
        NstErrorSlot error = {0};
        cr_assert_eq(support_run(&ctx, &compiled, &data, good, 1, &error, NULL), NST_OK, "%s", text);
        cr_assert_eq(support_run(&ctx, &compiled, &data, bad, 1, &error, NULL), NST_E_INDEX, "%s", text);
        cr_assert_eq(error.limit, 8);
        support_release(&compiled);
    }
}

/* --- cancel ----------------------------------------------------------------------------------------------------------- */

typedef struct Canceller {
    atomic_int flag;
    int64_t set_at;
} Canceller;

static void *cancel_soon(void *arg)
{
    Canceller *canceller = arg;
    thrd_sleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    canceller->set_at = nst_os_now_ns();
    atomic_store(&canceller->flag, 1);
    return NULL;
}

Test(codegen_errors, cancel_stops_long_runs_within_50_ms)
{
    static const char *const texts[] = {
        /* flat, nested with small inner loops, a while, many tiny iterations */
        "kernel c(n, m) in x: f32[64] out y: f32[64] { for i in 0..n {\n y[0] = y[0] * 0.5f32 + x[1]\n } }",
        "kernel c(n, m) in x: f32[64] out y: f32[64] { for i in 0..n { for k in 0..m {\n"
        "for vector l in 0..16 width 16 {\n y[l] = y[l] * 0.5f32 + x[l]\n } } } }",
        "kernel c(n, m) in x: f32[64] out y: f32[64] { y[0] = 0f32\n while {\n y[0] = y[0] * 0.5f32\n"
        "if (y[0] > 1000f32) {\n break\n } } }",
        "kernel c(n, m) in x: f32[64] out y: f32[64] { for i in 0..4000000000 {\n y[3] = y[3] * 0.5f32 + x[1]\n } }",
        "kernel c(n, m) in x: f32[64] out y: f32[64] { for parallel i in 0..64 { for k in 0..n {\n"
        "y[i] = y[i] * 0.5f32 + x[i]\n } } }",
    };
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        NstKernel *kernel = support_parse(&ctx, texts[k]);
        Compiled compiled = support_compile(&ctx, kernel, &target, false);
        int64_t param[2] = {INT64_C(1) << 40, 100};
        Data data = support_data(&ctx, kernel, param, 1, false, 0);
        Canceller canceller = {.flag = 0};
        pthread_t id;
        pthread_create(&id, NULL, cancel_soon, &canceller);
        NstStatus status = support_run(&ctx, &compiled, &data, param, 1, NULL, (const int32_t *)&canceller.flag);
        int64_t stopped = nst_os_now_ns();
        pthread_join(id, NULL);
        cr_assert_eq(status, NST_E_CANCELLED, "%s", texts[k]);
        cr_expect(stopped - canceller.set_at < 50 * 1000 * 1000, "%s: %lld us", texts[k],
                  (long long)(stopped - canceller.set_at) / 1000);
        support_release(&compiled);
    }
}

/* --- memory ------------------------------------------------------------------------------------------------------------ */

Test(codegen_errors, scratch_is_laid_out_by_scopes_and_depends_on_sizes)
{
    NstKernel *kernel =
        support_parse(&ctx, "kernel m(n) out y: f32[n] { shared s: f64[3]\n for i in 0..n { scratch a: f32[n]\n"
                            "a[i] = 1f32\n if (index(i) == 0) { scratch b: u8[100]\n b[0] = 1u8\n"
                            "} else { scratch c: f64[20]\n c[0] = 1f64\n }\n y[i] = a[i]\n } }");
    Compiled compiled = support_compile(&ctx, kernel, &target, false);
    int64_t param[1] = {17}, scratch, shared;
    cr_assert_eq(nst_kernel_code_memory(&ctx, &compiled.code.kernel[0], param, &scratch, &shared), NST_OK);
    cr_assert_eq(scratch, 128 + 192);
    cr_assert_eq(shared, 64);
    support_release(&compiled);
}

Test(codegen_errors, unrolling_is_bounded)
{
    NstKernel *kernel =
        support_parse(&ctx, "kernel u() out y: f32[256] { for unroll i in 0..256 { for unroll j in 0..256 {\n"
                            "y[i] = convert<f32>(index(j))\n} } }");
    NstCode code;
    const NstKernel *one = kernel;
    cr_assert_eq(nst_codegen_compile(&ctx, ctx.arena, &one, 1, &target, NULL, &code), NST_E_LIMIT);
    cr_assert_not_null(strstr(ctx.error, "kernel 'u' unrolls to more than"), "%s", ctx.error);
}

Test(codegen_errors, texts_of_a_kernel)
{
    NstKernel *kernel = support_parse(&ctx, gather_text);
    NstText ir, assembly;
    nst_text_init(&ir, ctx.arena);
    nst_text_init(&assembly, ctx.arena);
    cr_assert_eq(nst_codegen_ir_text(&ctx, kernel, &target, NULL, &ir), NST_OK);
    cr_assert_eq(nst_codegen_assembly_text(&ctx, kernel, &target, NULL, &assembly), NST_OK);
    cr_assert_not_null(strstr(nst_text_get(&ir), "define i32 @nst_kernel_0(ptr"));
    cr_assert_not_null(strstr(nst_text_get(&assembly), "nst_kernel_0:"));
    cr_assert(strncmp(nst_codegen_llvm_version(), "19.", 3) == 0);
}

/* --- threads and memory running out -------------------------------------------------------------------------------------- */

typedef struct Compiler {
    const NstKernel *kernel; /* shared */
    unsigned char *bytes;
    size_t size;
    NstStatus status;
} Compiler;

static void *compile_often(void *arg)
{
    Compiler *compiler = arg;
    NstCtx own;
    if (nst_ctx_init(&own) != NST_OK) return NULL;
    for (int k = 0; k < 5 && compiler->status == NST_OK; k++) {
        NstCode code;
        compiler->status = nst_codegen_compile(&own, own.arena, &compiler->kernel, 1, &target, NULL, &code);
        if (compiler->status != NST_OK) break;
        if (compiler->bytes && (code.size != compiler->size || memcmp(code.bytes, compiler->bytes, code.size) != 0))
            compiler->status = NST_E_COMPILER;
        if (!compiler->bytes) compiler->bytes = memcpy(malloc(code.size), code.bytes, code.size);
        compiler->size = code.size;
    }
    nst_ctx_dispose(&own);
    return NULL;
}

Test(codegen_errors, threads_compile_one_kernel_at_once_to_the_same_code)
{
    NstKernel *kernel = support_parse(&ctx, gather_text);
    Compiler compiler[2] = {{.kernel = kernel}, {.kernel = kernel}};
    pthread_t id;
    pthread_create(&id, NULL, compile_often, &compiler[1]);
    compile_often(&compiler[0]);
    pthread_join(id, NULL);
    for (int k = 0; k < 2; k++) cr_assert_eq(compiler[k].status, NST_OK);
    cr_assert_eq(compiler[0].size, compiler[1].size);
    cr_assert_eq(memcmp(compiler[0].bytes, compiler[1].bytes, compiler[0].size), 0);
    for (int k = 0; k < 2; k++) free(compiler[k].bytes);
}

static NstStatus compile_guarded(NstCtx *at, void *kernel)
{
    NstCode code;
    const NstKernel *one = kernel;
    NstArena *arena = nst_arena_new(at, at->arena);
    NstStatus status = nst_codegen_compile(at, arena, &one, 1, &target, NULL, &code);
    nst_arena_free(arena);
    return status;
}

Test(codegen_errors, memory_that_runs_out_is_a_status)
{
    NstKernel *kernel = support_parse(&ctx, gather_text);
    NstStatus status = NST_E_NOMEM;
    uint64_t n = 1;
    for (; status == NST_E_NOMEM && n < 1000; n++) {
        NstCtx own;
        cr_assert_eq(nst_ctx_init(&own), NST_OK);
        nst_arena_fail_after(n);
        status = nst_guard(&own, compile_guarded, kernel);
        nst_arena_fail_after(0);
        nst_ctx_dispose(&own);
    }
    cr_assert_eq(status, NST_OK);
    cr_assert(n > 3, "%llu allocations", (unsigned long long)n);
}
