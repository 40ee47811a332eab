/* test_tile_matrix.c: contractions of 8-bit integers by matrix registers are exact: every mix of signs, zero points a row and a
 * column, odd borders, open sizes, convolutions; scheduled kernels interpreted, and compiled for target amx (support_amx.h)
 * with one and two threads. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/support_amx.h"
#include "tests/unit/support_module.h"
#include "tests/unit/support_nest.h"

static NstCtx ctx;
static NstTarget target;
static bool runs; /* compiled code too */

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    runs = support_amx_begin(&target);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(tile_matrix, .init = begin, .fini = end);

static bool has_matrices(const ModuleRun *run)
{
    for (uint32_t k = 0; k < run->n_kernels; k++) {
        NstText text;
        nst_text_init(&text, ctx.arena);
        nst_kernel_print(&text, run->kernel[k].kernel);
        if (strstr(nst_text_get(&text), "matrix_dot")) return true;
    }
    return false;
}

/* Interpreted as a graph, as kernels, and run as code: the same bits; `by_matrices` says by what. */
static void check(const ModuleCase *test, bool by_matrices)
{
    ModuleRun expected = support_interpret_graph(&ctx, test, &target);
    ModuleRun run = support_run_module(&ctx, test, &target, NULL, 0);
    support_same_results(&expected, &run, test->text);
    cr_assert_eq(has_matrices(&run), by_matrices, "%s", test->text);
    static const NstPassOptions in_tests_hands = {.strict = true, .off = UINT64_C(1) << NST_PASS_CANON};
    for (int threads = 1; threads <= 2 && runs; threads++) {
        ModuleCase again = *test;
        again.unchecked = threads == 2;
        again.canon = threads - 1;
        run = support_run_module(&ctx, &again, &target, &in_tests_hands, threads);
        support_same_results(&expected, &run, test->text);
    }
}

typedef struct Product {
    const char *a, *b;     /* element types */
    const char *m, *k, *n; /* as the text says them */
    bool zero_a, zero_b, weights;
} Product;

static const char *text_of(const Product *p)
{
    const char *pre_a = p->zero_a ? " - convert<i32>(b)" : "", *pre_b = p->zero_b ? " - convert<i32>(c)" : "";
    const char *b = nst_format(ctx.arena, p->weights ? "const %s[%s, %s] seed 5" : "%s[%s, %s]", p->b, p->k, p->n);
    return nst_format(
        ctx.arena,
        "graph g(a: %s[%s, %s], za: %s[%s], zb: %s[%s]%s%s) {\n%s%s%s"
        "  %%y = contract \"ik,kj;i,j->ij\" pre 0 \"convert<i32>(a)%s\" pre 1 \"convert<i32>(a)%s\" acc i32 %%a, "
        "%%b, %%za, %%zb\n  return y = %%y\n}\n",
        p->a, p->m, p->k, p->a, p->m, p->b, p->n, p->weights ? "" : ", b: ", p->weights ? "" : b,
        p->weights ? "  %b = " : "", p->weights ? b : "", p->weights ? "\n" : "", pre_a, pre_b);
}

static void check_product(const Product *p, const char *sizes, uint64_t seed, bool by_matrices)
{
    ModuleCase test = {.text = text_of(p), .sizes = sizes, .seed = seed, .index_limit = 256};
    check(&test, by_matrices);
}

Test(tile_matrix, every_mix_of_signs_and_zero_points)
{
    static const char *const type[] = {"u8", "i8"};
    for (int k = 0; k < 16; k++) {
        Product p = {type[k & 1], type[k >> 1 & 1], "35", "70", "33", k >> 2 & 1, k >> 3 & 1, k % 3 == 0};
        check_product(&p, NULL, (uint64_t)k, true);
    }
}

Test(tile_matrix, odd_borders)
{
    static const char *const sizes[][3] = {{"16", "512", "16"}, {"32", "64", "32"},  {"33", "65", "33"},
                                           {"48", "128", "47"}, {"17", "67", "100"}, {"4", "200", "100"},
                                           {"64", "68", "17"},  {"5", "500", "31"}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        Product p = {"u8", "i8", sizes[k][0], sizes[k][1], sizes[k][2], true, true, k % 2};
        check_product(&p, NULL, k, true);
    }
}

Test(tile_matrix, open_sizes)
{
    Product rows = {"u8", "i8", "m", "70", "40", true, true, true},
            all = {"i8", "u8", "m", "k", "n", true, true, false};
    static const char *const m[] = {"m=1", "m=16", "m=31", "m=33", "m=70"};
    static const char *const sizes[] = {"m=3 k=5 n=2", "m=40 k=64 n=50", "m=64 k=130 n=33", "m=0 k=4 n=4",
                                        "m=5 k=0 n=20"};
    for (size_t k = 0; k < sizeof m / sizeof *m; k++) check_product(&rows, m[k], k, true);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) check_product(&all, sizes[k], k, true);
}

Test(tile_matrix, what_does_not_pay_stays_with_vectors)
{
    static const char *const sizes[][3] = {
        {"3", "640", "64"}, {"64", "640", "15"}, {"640", "63", "64"}, {"8", "64", "64"}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        Product p = {"u8", "i8", sizes[k][0], sizes[k][1], sizes[k][2], true, true, false};
        check_product(&p, NULL, k, false);
    }
}

/* What takes K za zb: the sums of the columns (constant, or made in each run), those of the rows, or neither. */
Test(tile_matrix, zero_points_of_both)
{
    static const char *const forms[] = {
        "graph g(a: u8[40, 68], za: u8[40]) {\n  %zb = const i8[36] seed 3\n  %b = const i8[68, 36] seed 4\n"
        "  %y = contract \"ik,kj;i,j->ij\"",
        "graph g(a: i8[40, 68], za: i8[40], b: u8[68, 36], zb: u8[]) {\n  %y = contract \"ik,kj;i,->ij\"",
        "graph g(a: u8[40, 68], za: u8[], zb: i8[36]) {\n  %b = const i8[68, 36] seed 4\n"
        "  %y = contract \"ik,kj;,j->ij\"",
        "graph g(za: u8[40], zb: i8[36]) {\n  %a = const u8[40, 68] seed 3\n  %b = const i8[68, 36] seed 4\n"
        "  %y = contract \"ik,kj;i,j->ij\"",
    };
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        const char *text = nst_format(ctx.arena,
                                      "%s pre 0 \"convert<i32>(a) - convert<i32>(b)\" pre 1 \"convert<i32>(a) - "
                                      "convert<i32>(c)\" acc i32 %%a, %%b, %%za, %%zb\n  return y = %%y\n}\n",
                                      forms[k]);
        check(&(ModuleCase){.text = text, .seed = k, .index_limit = 256}, true);
    }
}

static int drawn(uint32_t *state, int least, int most)
{
    *state = *state * 1664525 + 1013904223;
    return least + (int)((*state >> 8) % (uint32_t)(most - least + 1));
}

/* Sizes, signs and zero points at random, wherever matrix registers take them. */
Test(tile_matrix, random_products)
{
    static const char *const type[] = {"u8", "i8"};
    uint32_t state = 20261130;
    for (uint64_t k = 0; k < 30; k++) {
        int m = drawn(&state, 20, 110), depth = drawn(&state, 64, 300), n = drawn(&state, 52, 150);
        Product p = {.a = type[drawn(&state, 0, 1)],
                     .b = type[drawn(&state, 0, 1)],
                     .m = nst_format(ctx.arena, "%d", m),
                     .k = nst_format(ctx.arena, "%d", depth),
                     .n = nst_format(ctx.arena, "%d", n),
                     .zero_a = drawn(&state, 0, 1),
                     .zero_b = drawn(&state, 0, 1),
                     .weights = drawn(&state, 0, 1)};
        check_product(&p, NULL, k, true);
    }
}

/* More columns than a block of them takes: rows pass by each block. */
Test(tile_matrix, blocks_of_columns)
{
    NstTarget host = target;
    Product p = {"u8", "i8", "50", "64", "200", true, true, true};
    for (target.l2_bytes = 8 << 10; target.l2_bytes <= 64 << 10; target.l2_bytes *= 2) check_product(&p, NULL, 1, true);
    target = host;
}

/* Larger ones, dealt to threads by rows, by columns and by an outer axis; bias and requantisation behind. */
Test(tile_matrix, threads_and_epilogues)
{
    static const char form[] =
        "graph g(a: u8[%s, %d, %d], b: i8[%s, %d, %d], c: f32[1, 1, %d]) {\n"
        "  %%s = contract \"bik,bkj->bij\" pre 0 \"convert<i32>(a) - 3\" pre 1 \"convert<i32>(a)\" acc i32 %%a, %%b\n"
        "  %%f = convert f32 %%s\n  %%y = map \"convert_sat<u8>(round(max(a * 0.001 + b, 0)))\" %%f, %%c\n"
        "  return y = %%y\n}\n";
    static const struct {
        const char *batch;
        int m, k, n;
    } sizes[] = {{"1", 200, 70, 40}, {"1", 40, 70, 200}, {"5", 33, 64, 33}, {"2", 48, 96, 64}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int m = sizes[k].m, depth = sizes[k].k, n = sizes[k].n;
        ModuleCase test = {.text = nst_format(ctx.arena, form, sizes[k].batch, m, depth, sizes[k].batch, depth, n, n),
                           .seed = k,
                           .index_limit = 256};
        check(&test, true);
    }
}

/* The columns are not the last axis of the product's text, the rows have several axes, the sum two. */
Test(tile_matrix, convolutions_and_transposed_results)
{
    ModuleCase turned = {.text = "graph g(a: u8[40, 70], b: i8[70, 36]) {\n  %y = contract \"ik,kj->ji\" pre 0 "
                                 "\"convert<i32>(a)\" pre 1 \"convert<i32>(a)\" acc i32 %a, %b\n  return y = %y\n}\n",
                         .index_limit = 256};
    check(&turned, true);
    for (int channels = 48; channels <= 64; channels += 16) {
        const char *text =
            nst_format(ctx.arena,
                       "graph g(x: u8[1, %d, 10, 18], z: u8[1]) {\n  %%w = const i8[24, %d, 3, 3] seed 3\n"
                       "  %%v = window [axis 2 size 3; axis 3 size 3] %%x\n"
                       "  %%y = contract \"nchwpq,ocpq;n->nohw\" pre 0 \"convert<i32>(a) - convert<i32>(b)\" "
                       "pre 1 \"convert<i32>(a)\" acc i32 %%v, %%w, %%z\n  return y = %%y\n}\n",
                       channels, channels);
        ModuleCase test = {.text = text, .index_limit = 256};
        check(&test, true);
    }
}

/* 255 x 127 and its like, 4096 of them. */
Test(tile_matrix, extremes)
{
    enum { M = 33, K = 4096, N = 70 };
    static uint8_t a[M * K], za[M];
    static int8_t b[K * N], zb[N];
    memset(a, 255, sizeof a);
    memset(b, 127, sizeof b);
    for (int k = 0; k < M; k += 2) za[k] = 255;
    for (int k = 0; k < N; k += 3) zb[k] = -128;
    NstTensorValue input[4] = {{NST_U8, 2, {M, K}, a, sizeof a},
                               {NST_U8, 1, {M}, za, sizeof za},
                               {NST_I8, 1, {N}, zb, sizeof zb},
                               {NST_I8, 2, {K, N}, b, sizeof b}};
    Product p = {"u8", "i8", "33", "4096", "70", true, true, false};
    ModuleCase test = {.text = text_of(&p), .input = input};
    ModuleRun run = support_run_module(&ctx, &test, &target, NULL, runs ? 2 : 0);
    cr_assert(has_matrices(&run));
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            cr_assert_eq(((int32_t *)run.result[0])[i * N + j], K * (255 - za[i]) * (127 - zb[j]));
}
