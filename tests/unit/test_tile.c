/* test_tile.c: the register-tile schedule gives the plain nest's bits: products, convolutions with borders, pooling, symbolic
 * sizes, on each vector width. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "passes/sched.h"
#include "tests/unit/support_nest.h"

static const char product[] =
    "kernel product() in a: f32[%d, %d], const in b: f32[%d, %d], out c: f32[%d, %d] {\n"
    "  for i in 0..%d {\n for j in 0..%d {\n reg s: f32[]\n s[] = 0f32\n"
    "   for k in 0..%d {\n update s[] = fma(a[i, k], b[k, j], s[]) merge a + b from 0f32\n }\n"
    "   c[i, j] = max(s[], 0f32)\n } }\n}\n";

static const char convolution[] =
    "kernel conv() in x: f32[%d, %d, %d], const in w: f32[3, 3, %d, %d], out y: f32[%d, %d, %d] {\n"
    "  for oy in 0..%d {\n for ox in 0..%d {\n for f in 0..%d {\n reg s: f32[]\n s[] = 0f32\n"
    "   for ky in 0..3 {\n for kx in 0..3 {\n for c in 0..%d {\n"
    "    if (index(%d*oy + ky - 1) >= 0i64 && index(%d*oy + ky - 1) < %di64 && index(%d*ox + kx - 1) >= 0i64 && "
    "index(%d*ox + kx - 1) < %di64) {\n"
    "     update s[] = fma(x[%d*oy + ky - 1, %d*ox + kx - 1, c], w[ky, kx, c, f], s[]) merge a + b from 0f32\n"
    "   } } } }\n y[oy, ox, f] = s[]\n } } }\n}\n";

static const char product_symbolic[] =
    "kernel product(m max 4096) in a: f32[m, 40], const in b: f32[40, 70], out c: f32[m, 70] {\n"
    "  for i in 0..m {\n for j in 0..70 {\n reg s: f32[]\n s[] = 0f32\n"
    "   for k in 0..40 {\n update s[] = fma(a[i, k], b[k, j], s[]) merge a + b from 0f32\n }\n"
    "   c[i, j] = s[]\n } }\n}\n";

typedef struct Case {
    NstCtx ctx;
    NstTarget target;
    NstModule *module;
    NstNest *nest;
} Case;

static void open_case(Case *c, const char *text, NstTargetLevel level)
{
    cr_assert_eq(nst_ctx_init(&c->ctx), NST_OK);
    c->target = support_target(level);
    NstKernel *kernel;
    cr_assert_eq(nst_kernel_parse(&c->ctx, c->ctx.arena, text, strlen(text), &kernel), NST_OK, "%s\n%s", c->ctx.error,
                 text);
    cr_assert_eq(nst_kernel_to_module(&c->ctx, c->ctx.arena, kernel, &c->target, &c->module), NST_OK, "%s",
                 c->ctx.error);
    c->nest = c->module->groups.at[0]->items.at[0].nest;
}

/* Keys of a kernel's arguments: the module buffer's number, so that both kernels read equal inputs. */
static uint64_t *keys_of(Case *c, const NstKernel *kernel, const NstBuf *arg)
{
    uint64_t *key = NST_NEW_ARRAY(c->ctx.arena, uint64_t, kernel->n_args);
    for (uint32_t k = 0; k < kernel->n_args; k++) key[k] = arg[k].i;
    return key;
}

/* Position of the first output among a kernel's arguments. */
static uint32_t output_of(const NstKernel *kernel)
{
    uint32_t k = 0;
    while (nst_kernel_buffer(kernel, (NstBuf){k + 1})->access != NST_ACCESS_OUT) k++;
    return k;
}

/* Plain and tiled kernels give the same bytes; pack: the column operand goes through its packed form. */
static void check_tiled(const char *text, NstTargetLevel level, bool pack, const char *schedule_text,
                        const int64_t *param)
{
    Case c = {0};
    open_case(&c, text, level);
    NstArena *arena = c.ctx.arena;
    NstKernel *plain, *tiled;
    NstBuf *plain_arg, *tiled_arg;
    size_t plain_bytes[8], bytes[8];
    cr_assert_eq(nst_group_to_kernel(&c.ctx, c.module, c.module->groups.at[0], &plain, &plain_arg), NST_OK);
    cr_assert_eq(nst_kernel_verify(&c.ctx, plain), NST_OK, "%s", c.ctx.error);
    void **plain_data =
        support_interpret(&c.ctx, arena, plain, param, keys_of(&c, plain, plain_arg), NULL, plain_bytes);

    NstTileSchedule schedule;
    cr_assert(nst_tile_schedule_choose(c.module, c.nest, 0, true, &schedule));
    if (schedule_text)
        cr_assert_eq(nst_tile_schedule_parse(&c.ctx, schedule_text, &schedule), NST_OK, "%s", c.ctx.error);
    NstPacked packed = {0};
    if (pack) packed = nst_pack_columns(c.module, c.nest, 0, &schedule);
    NstWriter w;
    nst_writer_init(&w, c.module, c.module->groups.at[0]);
    cr_assert_eq(nst_tile_nest(&c.ctx, &w, &w.kernel->body, c.nest, 0, &schedule), NST_OK, "%s", c.ctx.error);
    nst_writer_finish(&w, &tiled, &tiled_arg);
    NstText printed;
    nst_text_init(&printed, arena);
    nst_kernel_print(&printed, tiled);
    cr_assert_eq(nst_kernel_verify(&c.ctx, tiled), NST_OK, "%s\n%s", c.ctx.error, nst_text_get(&printed));

    const void *operand = NULL;
    if (packed.nest) {
        NstKernel *pack_kernel;
        NstBuf *pack_arg;
        size_t pack_bytes[8];
        NstGroup *group = nst_group_new(c.module, packed.nest);
        cr_assert_eq(nst_group_to_kernel(&c.ctx, c.module, group, &pack_kernel, &pack_arg), NST_OK);
        void **made =
            support_interpret(&c.ctx, arena, pack_kernel, param, keys_of(&c, pack_kernel, pack_arg), NULL, pack_bytes);
        operand = made[output_of(pack_kernel)];
    }
    const void **given = NST_NEW_ARRAY(arena, const void *, tiled->n_args);
    for (uint32_t k = 0; k < tiled->n_args; k++)
        if (tiled_arg[k].i == packed.buffer.i) given[k] = operand;
    void **data = support_interpret(&c.ctx, arena, tiled, param, keys_of(&c, tiled, tiled_arg), given, bytes);
    uint32_t expected = output_of(plain), actual = output_of(tiled);
    cr_assert_eq(plain_bytes[expected], bytes[actual]);
    cr_assert_eq(memcmp(plain_data[expected], data[actual], bytes[actual]), 0, "tiled differs from plain:\n%s",
                 nst_text_get(&printed));
    nst_ctx_dispose(&c.ctx);
}

static const NstTargetLevel levels[] = {NST_TARGET_BASELINE, NST_TARGET_AVX2, NST_TARGET_AVX512};

static void check_product(int m, int n, int k, bool pack, const char *schedule)
{
    char text[2048];
    snprintf(text, sizeof text, product, m, k, k, n, m, n, m, n, k);
    for (size_t t = 0; t < sizeof levels / sizeof *levels; t++) check_tiled(text, levels[t], pack, schedule, NULL);
}

Test(tile, products_of_many_shapes)
{
    static const int shape[][3] = {{1, 1, 1},    {1, 33, 5},   {7, 16, 3}, {8, 48, 20},
                                   {17, 100, 9}, {30, 96, 33}, {5, 200, 2}};
    for (size_t s = 0; s < sizeof shape / sizeof *shape; s++)
        for (int pack = 0; pack < 2; pack++) check_product(shape[s][0], shape[s][1], shape[s][2], pack, NULL);
}

Test(tile, blocked_products)
{
    check_product(
        40, 100, 50, true,
        "tile row_axis=0 col_axis=1 rows=6 vectors=2 lanes=16 k_block=17 col_block=2 parallel=rows row_chunks=3");
    check_product(40, 100, 50, true,
                  "tile row_axis=0 col_axis=1 rows=4 vectors=1 lanes=8 k_block=20 col_block=3 parallel=cols");
}

static void check_convolution(int h, int width, int channels, int filters, int stride, bool pack, const char *schedule)
{
    char text[4096];
    int oh = (h - 1) / stride + 1, ow = (width - 1) / stride + 1;
    snprintf(text, sizeof text, convolution, h, width, channels, channels, filters, oh, ow, filters, oh, ow, filters,
             channels, stride, stride, h, stride, stride, width, stride, stride);
    for (size_t t = 0; t < sizeof levels / sizeof *levels; t++) check_tiled(text, levels[t], pack, schedule, NULL);
}

Test(tile, convolutions_with_borders)
{
    check_convolution(7, 7, 5, 32, 1, true, NULL);
    check_convolution(9, 30, 3, 20, 1, true, NULL);
    check_convolution(8, 17, 2, 16, 2, false, NULL);
    check_convolution(1, 1, 4, 16, 1, true, NULL);
    check_convolution(6, 20, 4, 40, 1, true,
                      "tile row_axis=1 col_axis=2 rows=5 vectors=1 lanes=16 k_outer=1 col_block=1 inside=1 "
                      "parallel=outer parallel_axis=0");
}

Test(tile, symbolic_rows)
{
    for (int64_t m = 0; m < 40; m++)
        for (size_t t = 0; t < sizeof levels / sizeof *levels; t++)
            check_tiled(product_symbolic, levels[t], true, NULL, &m);
}

static const char convolution_symbolic[] =
    "kernel conv(h max 64, w max 64) in x: f32[h, w, 4], const in f: f32[3, 3, 4, 20], out y: f32[h, w, 20] {\n"
    "  for oy in 0..h {\n for ox in 0..w {\n for j in 0..20 {\n reg s: f32[]\n s[] = 0f32\n"
    "   for ky in 0..3 {\n for kx in 0..3 {\n for c in 0..4 {\n"
    "    if (index(oy + ky - 1) >= 0i64 && index(oy + ky - 1) < index(h) && index(ox + kx - 1) >= 0i64 && index(ox + "
    "kx - 1) < index(w)) {\n"
    "     update s[] = fma(x[oy + ky - 1, ox + kx - 1, c], f[ky, kx, c, j], s[]) merge a + b from 0f32\n"
    "   } } } }\n y[oy, ox, j] = s[]\n } } }\n}\n";

Test(tile, symbolic_convolution)
{
    static const int64_t size[][2] = {{1, 1}, {2, 9}, {7, 7}, {5, 23}, {30, 31}};
    for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
        check_tiled(convolution_symbolic, NST_TARGET_AVX512, true, NULL, size[k]);
        check_tiled(convolution_symbolic, NST_TARGET_AVX2, true, NULL, size[k]);
    }
}

/* A window over channels apart: the taps are what is innermost. */
static const char depthwise_symbolic[] =
    "kernel conv(h max 64, w max 64) in x: f32[h, w, 20], const in f: f32[3, 5, 20], in r: f32[h, floordiv(w + %d, "
    "%d), "
    "20], out y: f32[h, floordiv(w + %d, %d), 20] {\n"
    "  for oy in 0..h {\n for ox in 0..floordiv(w + %d, %d) {\n for j in 0..20 {\n reg s: f32[]\n s[] = 0f32\n"
    "   for ky in 0..3 {\n for kx in 0..5 {\n"
    "    if (index(oy + ky - 1) >= 0i64 && index(oy + ky - 1) < index(h) && index(%d*ox + kx - 2) >= 0i64 && "
    "index(%d*ox + kx - 2) < index(w)) {\n"
    "     update s[] = fma(x[oy + ky - 1, %d*ox + kx - 2, j], f[ky, kx, j], s[]) merge a + b from 0f32\n"
    "   } } }\n y[oy, ox, j] = s[] + r[oy, ox, j]\n } } }\n}\n";

Test(tile, symbolic_windows_over_channels_apart)
{
    for (int stride = 1; stride <= 2; stride++) {
        char text[2048];
        snprintf(text, sizeof text, depthwise_symbolic, stride - 1, stride, stride - 1, stride, stride - 1, stride,
                 stride, stride, stride);
        for (int64_t w = 1; w < 45; w += w < 30 ? 1 : 5)
            for (size_t t = 0; t < sizeof levels / sizeof *levels; t++) {
                const int64_t size[2] = {1 + w % 3, w};
                check_tiled(text, levels[t], true, NULL, size);
            }
    }
}

Test(tile, schedule_text_round_trips)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    static const char *const texts[] = {
        "tile row_axis=1 col_axis=2 rows=5 vectors=1 lanes=16 columns=15 k_outer=1 k_block=0 col_block=1 padded=1 "
        "prefetch=8 "
        "taps=1 sweep=1 plane_axis=0 planes=2 rows_outside=1 inside=1 parallel=outer parallel_axis=0 row_chunks=0 "
        "next_block=1 next_rows=1",
        "tile row_axis=0 col_axis=1 rows=32 vectors=2 lanes=16 columns=16 k_outer=0 k_block=0 col_block=2 padded=0 "
        "prefetch=0 "
        "taps=0 sweep=0 plane_axis=-1 planes=1 rows_outside=0 inside=0 parallel=cols parallel_axis=-1 row_chunks=0 "
        "next_block=0 next_rows=0 matrix=matrix_u8s8_amx"};
    NstTileSchedule schedule;
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        cr_assert_eq(nst_tile_schedule_parse(&ctx, texts[k], &schedule), NST_OK, "%s", ctx.error);
        NstText printed;
        nst_text_init(&printed, ctx.arena);
        nst_tile_schedule_print(&printed, &schedule);
        cr_assert_str_eq(nst_text_get(&printed), texts[k]);
    }
    cr_assert_eq(nst_tile_schedule_parse(&ctx, "tile matrix=dot4_vnni", &schedule), NST_E_PARSE);
    cr_assert_eq(nst_tile_schedule_parse(&ctx, "tile rows=0", &schedule), NST_E_PARSE);
    cr_assert_eq(nst_tile_schedule_parse(&ctx, "tile rows=1", &schedule), NST_E_PARSE, "no axis of columns");
    cr_assert_eq(nst_tile_schedule_parse(&ctx, "tile colour=3", &schedule), NST_E_PARSE);
    nst_ctx_dispose(&ctx);
}

/* A schedule of another nest is refused: it would leave out work, or sum in another order. */
Test(tile, schedules_that_do_not_fit_are_refused)
{
    static const struct {
        const char *schedule, *told;
        uint32_t block; /* of the nest's sum */
    } cases[] = {{"k_block=512", NULL, 256},
                 {"k_block=300", "in k blocks of 300, allowed: a multiple", 256},
                 {"k_outer=1", "in k blocks of 1, allowed: a multiple", 256},
                 {"k_outer=1", NULL, 0},
                 {"k_block=300", NULL, 0},
                 {"k_outer=2", "k_outer=2", 0},
                 {"k_outer=1 k_block=256", "k_outer=1 k_block=256", 0},
                 {"k_block=-256", "k_block=-256", 0},
                 {"col_block=-4", "col_block=-4", 0},
                 {"parallel=rows row_chunks=0", "row_chunks=0", 0},
                 {"parallel=outer parallel_axis=5", "parallel_axis=5", 0},
                 {"row_axis=7", "row_axis=7", 0},
                 {"col_axis=9", "col_axis=9", 0},
                 {"plane_axis=2", "plane_axis=2", 0},
                 {"inside=2", "inside=2", 0}};
    char text[2048];
    snprintf(text, sizeof text, product, 40, 600, 600, 64, 40, 64, 40, 64, 600);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        Case c = {0};
        NstTileSchedule schedule;
        NstWriter w;
        open_case(&c, text, NST_TARGET_AVX2);
        c.nest->block = cases[k].block;
        const char *fields =
            nst_format(c.ctx.arena, "tile row_axis=0 col_axis=1 rows=4 vectors=2 lanes=8 %s", cases[k].schedule);
        cr_assert_eq(nst_tile_schedule_parse(&c.ctx, fields, &schedule), NST_OK, "%s", c.ctx.error);
        nst_writer_init(&w, c.module, c.module->groups.at[0]);
        NstStatus status = nst_tile_nest(&c.ctx, &w, &w.kernel->body, c.nest, 0, &schedule);
        cr_expect_eq(status, cases[k].told ? NST_E_INVALID : NST_OK, "%s: %s", fields, c.ctx.error);
        cr_expect(!cases[k].told || strstr(c.ctx.error, cases[k].told), "%s: %s", fields, c.ctx.error);
        nst_ctx_dispose(&c.ctx);
    }
}

static NstTileSchedule chosen(int m, int n, int k, NstTargetLevel level)
{
    Case c = {0};
    char text[2048];
    NstTileSchedule schedule;
    snprintf(text, sizeof text, product, m, k, k, n, m, n, m, n, k);
    open_case(&c, text, level);
    cr_assert(nst_tile_schedule_choose(c.module, c.nest, 0, true, &schedule));
    nst_ctx_dispose(&c.ctx);
    return schedule;
}

/* All rows in one tile, so that columns from beyond L2 are read once; not where L1 does not hold the rows' operand or L2 the columns. */
Test(tile, few_rows_read_far_columns_once)
{
    for (int m = 2; m <= 9; m++) {
        cr_expect_eq(chosen(m, 3072, 768, NST_TARGET_AVX2).rows, m);
        cr_expect_eq(chosen(m, 3072, 768, NST_TARGET_AVX512).rows, m);
    }
    cr_expect_lt(chosen(8, 3072, 3072, NST_TARGET_AVX2).rows, 8);
    cr_expect_lt(chosen(8, 96, 96, NST_TARGET_AVX2).rows, 8);
}

/* Tiles for many rows, of 16 and of 32 registers. */
Test(tile, many_rows)
{
    NstTileSchedule narrow = chosen(240, 240, 240, NST_TARGET_AVX2), wide = chosen(240, 240, 240, NST_TARGET_AVX512);
    cr_expect(narrow.rows == 6 && narrow.vectors == 2, "%d x %d", narrow.rows, narrow.vectors);
    cr_expect(wide.rows == 9 && wide.vectors == 3, "%d x %d", wide.rows, wide.vectors);
}
