/* test_amx.c: kernels for AMX tiles, natively where the processor has them, else under the emulator of support_amx.h, which
 * is tested first: each instruction against plain C. */
#include <criterion/criterion.h>
#include <immintrin.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/unit/support_amx.h"
#include "tests/unit/support_codegen.h"

static NstCtx ctx;
static NstTarget target;
static bool runs;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    runs = support_amx_begin(&target);
}

static void end(void)
{
    if (runs) cr_expect_not(support_amx_is_configured(), "tiles are left set up");
    nst_ctx_dispose(&ctx);
}

TestSuite(amx, .init = begin, .fini = end);

#define NEEDS_AMX()                                                                                                    \
    if (!runs) cr_skip_test("this machine cannot run target amx")
#define AMX __attribute__((target("amx-tile,amx-int8")))

/* --- instructions -------------------------------------------------------------------------------------------- */

typedef struct Config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} Config;

/* The compiler's own intrinsic says that it reads eight bytes. */
AMX static void load_config(const Config *config)
{
    __asm__ volatile("ldtilecfg %0" : : "m"(*config));
}

/* acc[M x N] += a[M x 4K] * b[K x 4N], shapes of our choice: tiles 3 (acc), 5 (a), 6 (b). */
enum { M = 11, N = 13, K = 9 };
static uint8_t a[M][4 * K], b[K][4 * N];
static int32_t given[M][N], acc[M][N];

static void fill_operands(void)
{
    uint32_t state = 7;
    uint8_t *bytes[2] = {&a[0][0], &b[0][0]};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < (k ? sizeof b : sizeof a); i++)
            bytes[k][i] = (uint8_t)((state = state * 69069 + 1) >> 24);
    for (int i = 0; i < M * N; i++) given[i / N][i % N] = (int32_t)(state = state * 69069 + 1);
}

static void check_product(bool a_signed, bool b_signed, const char *what)
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            uint32_t sum = (uint32_t)given[i][j];
            for (int k = 0; k < 4 * K; k++) {
                int x = a[i][k], y = b[k / 4][4 * j + k % 4];
                if (a_signed) x = (int8_t)x;
                if (b_signed) y = (int8_t)y;
                sum += (uint32_t)(x * y);
            }
            cr_assert_eq(acc[i][j], (int32_t)sum, "%s: [%d, %d] is %d, not %d", what, i, j, acc[i][j], (int32_t)sum);
        }
}

AMX static void set_up(void)
{
    Config config = {.palette = 1};
    config.rows[3] = M, config.row_bytes[3] = 4 * N;
    config.rows[5] = M, config.row_bytes[5] = 4 * K;
    config.rows[6] = K, config.row_bytes[6] = 4 * N;
    load_config(&config);
    _tile_loadd(5, a, 4 * K);
    _tile_stream_loadd(6, b, 4 * N);
}

#define PRODUCT(insn, a_signed, b_signed)                                                                              \
    _tile_loadd(3, given, 4 * N);                                                                                      \
    insn(3, 5, 6);                                                                                                     \
    _tile_stored(3, acc, 4 * N);                                                                                       \
    check_product(a_signed, b_signed, #insn);

AMX static void all_products(void)
{
    set_up();
    PRODUCT(_tile_dpbssd, true, true)
    PRODUCT(_tile_dpbsud, true, false)
    PRODUCT(_tile_dpbusd, false, true)
    PRODUCT(_tile_dpbuud, false, false)
    _tile_zero(3);
    memset(given, 0, sizeof given);
    _tile_dpbuud(3, 5, 6);
    _tile_stored(3, acc, 4 * N);
    check_product(false, false, "_tile_zero");
    _tile_release();
}

Test(amx, products_of_tiles_are_those_of_plain_c)
{
    NEEDS_AMX();
    fill_operands();
    uint64_t before = support_amx_count();
    all_products();
    /* The configuration, 2 operands, 4 times 3, zero, product, store, release. */
    if (support_amx_is_emulated()) cr_assert_eq(support_amx_count() - before, 1 + 2 + 12 + 3 + 1);
}

/* Registers 8 to 15, scales, and displacements of one and four bytes. */
AMX static void move_by_addresses(const char *from, char *to)
{
    register const char *near __asm__("r13") = (const char *)((uintptr_t)from - 64);
    register int64_t step __asm__("r12") = 16;
    register char *far __asm__("r9") = to + 1024;
    __asm__ volatile("tileloadd 64(%0,%1,4), %%tmm2\n\ttilestored %%tmm2, -1024(%2,%1,8)"
                     :
                     : "r"(near), "r"(step), "r"(far)
                     : "memory");
}

AMX static void configure_rows(Config *read_back)
{
    Config config = {.palette = 1};
    config.rows[2] = 16, config.row_bytes[2] = 64;
    load_config(&config);
    __asm__ volatile("sttilecfg %0" : "=m"(*read_back));
}

AMX static void release(void)
{
    _tile_release();
}

Test(amx, addresses_have_bases_indices_scales_and_displacements)
{
    NEEDS_AMX();
    static char from[16 * 64], to[16 * 128];
    Config config;
    for (size_t k = 0; k < sizeof from; k++) from[k] = (char)(k * 31);
    configure_rows(&config);
    cr_assert(config.palette == 1 && config.rows[2] == 16 && config.row_bytes[2] == 64 && config.rows[3] == 0);
    cr_assert(support_amx_is_configured());
    move_by_addresses(from, to);
    release();
    for (int row = 0; row < 16; row++) {
        cr_assert_arr_eq(to + 128 * row, from + 64 * row, 64);
        for (int k = 64; k < 128; k++) cr_assert_eq(to[128 * row + k], 0);
    }
}

AMX static void use_what_is_not_set_up(void)
{
    configure_rows(&(Config){0});
    _tile_zero(3);
}

/* In a process of its own: a test that expects a signal cannot be skipped. */
Test(amx, a_tile_that_is_not_set_up_ends_the_process)
{
    NEEDS_AMX();
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (!child) {
        use_what_is_not_set_up();
        _exit(0);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGILL, "status %d", status);
}

/* --- kernels of matrix registers ----------------------------------------------------------------------------- */

Test(amx, matrix_registers_compiled_and_interpreted)
{
    NEEDS_AMX();
    static const int64_t sizes[][2] = {{1, 1}, {16, 3}, {37, 2}, {64, 1}, {70, 5}};
    char *text;
    size_t size;
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, "tests/kernels/matrix.nsl", 1 << 20, &text, &size), NST_OK);
    NstKernel *kernel = support_parse(&ctx, text);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int checks = 0; checks < 2; checks++)
            support_check_on(&ctx, kernel, sizes[k], &target, checks, k + 1, false, 0);
    if (support_amx_is_emulated()) cr_assert_gt(support_amx_count(), 0);
}

/* A kernel that stops in the middle, on one of two threads, has released its tiles (support_run looks). */
Test(amx, errors_and_cancel_release_the_tiles)
{
    NEEDS_AMX();
    NstKernel *kernel =
        support_parse(&ctx, "kernel e(n, m) in q: i64[n] in a: i32[16, 16] out y: i32[n, 16, 16] {\n"
                            "for parallel i in 0..n {\n matrix acc: i32[16, 16] matrix x: i32[16, 16]\n"
                            "matrix z: i32[16, 16] matrix_zero acc matrix_load x = a[0, 0] rows 0 columns 1\n"
                            "matrix_load z = a[0, 0] rows 0 columns 1\n"
                            "for k in 0..m {\n matrix_dot acc = dot4_u8u8(x, z) }\n"
                            "index j checked in 0..n = q[i]\n"
                            "matrix_store y[j, 0, 0] = acc rows 1 columns 2 } }");
    Compiled compiled = support_compile(&ctx, kernel, &target, false);
    int64_t few[2] = {8, 3}, many[2] = {8, INT64_C(1) << 40};
    static const int32_t cancelled = 1;
    for (int threads = 1; threads <= 2; threads++) {
        Data data = support_data(&ctx, kernel, few, 1, false, 8);
        cr_assert_eq(support_run(&ctx, &compiled, &data, few, threads, NULL, NULL), NST_OK);
        for (int bad = 2; bad < 8; bad += 4) { /* of either thread */
            NstErrorSlot error = {0};
            int64_t good = ((int64_t *)data.at[0])[bad];
            ((int64_t *)data.at[0])[bad] = 8;
            cr_assert_eq(support_run(&ctx, &compiled, &data, few, threads, &error, NULL), NST_E_INDEX);
            cr_assert_eq(error.value, 8);
            ((int64_t *)data.at[0])[bad] = good;
        }
        cr_assert_eq(support_run(&ctx, &compiled, &data, many, threads, NULL, &cancelled), NST_E_CANCELLED);
    }
    support_release(&compiled);
}

static volatile sig_atomic_t interruptions;

static void on_alarm(int number)
{
    (void)number;
    interruptions = interruptions + 1;
}

/* Signals that come while tiles hold sums, each with all the state put on the stack and back. */
Test(amx, signals_leave_the_tiles_alone)
{
    NEEDS_AMX();
    NstKernel *kernel =
        support_parse(&ctx, "kernel s(m) in a: i32[16, 16] out y: i32[16, 16] {\n"
                            "matrix acc: i32[16, 16] matrix x: i32[16, 16]\n"
                            "matrix z: i32[16, 16] matrix_zero acc matrix_load x = a[0, 0] rows 0 columns 1\n"
                            "matrix_load z = a[0, 0] rows 0 columns 1\n"
                            "for k in 0..m {\n matrix_dot acc = dot4_u8u8(x, z) }\n"
                            "matrix_store y[0, 0] = acc rows 0 columns 1 }");
    Compiled compiled = support_compile(&ctx, kernel, &target, false);
    int64_t steps = support_amx_is_emulated() ? 2000 : 2000000, one = 1;
    Data single = support_data(&ctx, kernel, &one, 1, false, 256),
         many = support_data(&ctx, kernel, &steps, 1, false, 256);
    struct sigaction action = {.sa_handler = on_alarm}, former;
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    cr_assert_eq(support_run(&ctx, &compiled, &single, &one, 1, NULL, NULL), NST_OK);
    cr_assert_eq(sigaction(SIGALRM, &action, &former), 0);
    cr_assert_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
    for (int tries = 0; tries < 1000 && interruptions < 10; tries++)
        cr_assert_eq(support_run(&ctx, &compiled, &many, &steps, 1, NULL, NULL), NST_OK);
    cr_assert_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
    cr_assert_eq(sigaction(SIGALRM, &former, NULL), 0);
    cr_assert_geq(interruptions, 10);
    const uint32_t *first = (const uint32_t *)single.at[1], *sum = (const uint32_t *)many.at[1];
    for (int k = 0; k < 256; k++) cr_assert_eq(sum[k], first[k] * (uint32_t)steps);
    support_release(&compiled);
}

Test(amx, bounds_of_matrices_are_checked)
{
    NEEDS_AMX();
    static const char *const moves[] = {
        "matrix_load m = x[i + k, 0] rows 0 columns 1 matrix_store y[0, 0] = m rows 0 columns 1",
        "matrix_zero m matrix_store y[i + k, 0] = m rows 0 columns 1"};
    for (size_t k = 0; k < 2; k++) {
        NstKernel *kernel = support_parse(
            &ctx, nst_format(ctx.arena,
                             "kernel b(k) in x: i32[20, 16] out y: i32[20, 16] { for i in 0..1 { matrix m: "
                             "i32[16, 16] %s } }",
                             moves[k]));
        Compiled compiled = support_compile(&ctx, kernel, &target, true);
        int64_t good = 4, bad[2] = {5, -1};
        Data data = support_data(&ctx, kernel, &good, 1, false, 0);
        NstErrorSlot error = {0};
        cr_assert_eq(support_run(&ctx, &compiled, &data, &good, 1, &error, NULL), NST_OK);
        for (int b = 0; b < 2; b++)
            cr_assert_eq(support_run(&ctx, &compiled, &data, &bad[b], 1, &error, NULL), NST_E_INDEX);
        cr_assert_eq(error.limit, 320);
        support_release(&compiled);
    }
}

Test(amx, what_the_target_lacks_is_refused)
{
    static const struct {
        const char *body, *error;
        NstTargetLevel level;
    } cases[] = {
        {"matrix m: i32[16, 16] matrix_zero m", "target vnni has none", NST_TARGET_AVX512_VNNI},
        {"matrix m: i32[17, 16] matrix_zero m", "17 rows of 64 bytes", NST_TARGET_AMX_INT8},
        {"matrix m: i32[16, 17] matrix_zero m", "16 rows of 68 bytes", NST_TARGET_AMX_INT8},
        {"matrix m: i32[4, 4] matrix n: i32[4, 4] matrix o: i32[4, 4] matrix_dot m = dot2_s16(n, o)",
         "no matrix product by dot2_s16", NST_TARGET_AMX_INT8},
        {"matrix a0: i32[1, 1] matrix a1: i32[1, 1] matrix a2: i32[1, 1] matrix a3: i32[1, 1] matrix a4: i32[1, 1]\n"
         "matrix a5: i32[1, 1] matrix a6: i32[1, 1] matrix a7: i32[1, 1] matrix a8: i32[1, 1] matrix_zero a8\n"
         "matrix_zero a0 matrix_zero a1 matrix_zero a2 matrix_zero a3 matrix_zero a4 matrix_zero a5 matrix_zero a6\n"
         "matrix_zero a7",
         "'a8' is one more than 8 registers hold", NST_TARGET_AMX_INT8},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        NstTarget other;
        NstCode code;
        nst_target_of_level(cases[k].level, &other);
        const NstKernel *kernel = support_parse(&ctx, nst_format(ctx.arena, "kernel r() { %s }", cases[k].body));
        nst_ctx_clear(&ctx);
        cr_assert_eq(nst_codegen_compile(&ctx, ctx.arena, &kernel, 1, &other, NULL, &code), NST_E_UNSUPPORTED);
        cr_assert(strstr(ctx.error, cases[k].error) != NULL, "%s", ctx.error);
    }
}
