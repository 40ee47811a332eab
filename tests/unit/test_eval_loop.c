/* test_eval_loop.c: the interpreter of kernels against plain C, and everything it refuses. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "ir/base/os.h"
#include "ir/loop.h"

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(eval_loop, .init = begin, .fini = end);

static NstKernel *parse(const char *text)
{
    NstKernel *kernel = NULL;
    cr_assert_eq(nst_kernel_parse(&ctx, ctx.arena, text, strlen(text), &kernel), NST_OK, "%s\n%s", ctx.error, text);
    return kernel;
}

static NstKernel *parse_file(const char *name)
{
    char *bytes;
    size_t size;
    const char *path = nst_format(ctx.arena, "tests/kernels/%s.nsl", name);
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, path, 1 << 20, &bytes, &size), NST_OK, "%s", ctx.error);
    return parse(bytes);
}

#define N_BUFFERS 8
typedef struct Args {
    int n;
    void *at[N_BUFFERS];
    size_t bytes[N_BUFFERS];
    int64_t param[4];
} Args;

#define GIVE(args, array) give(&(args), (array), sizeof(array))

static void give(Args *args, void *at, size_t bytes)
{
    args->at[args->n] = at;
    args->bytes[args->n++] = bytes;
}

static NstStatus run(const NstKernel *kernel, const Args *args)
{
    nst_ctx_clear(&ctx);
    NstKernelRun given = {
        .buffer = args->at, .buffer_bytes = args->bytes, .param = args->param, .has_fma = true, .find_races = true};
    return nst_kernel_interpret(&ctx, kernel, &given);
}

/* Runs a text on one array of eight f32 called y. */
static NstStatus run_text(const char *body, float *y)
{
    const char *text = nst_format(ctx.arena, "kernel f(n)\n inout y: f32[8]\n{\n%s\n}", body);
    Args args = {.param = {8}};
    give(&args, y, 8 * sizeof *y);
    return run(parse(text), &args);
}

Test(eval_loop, matmul)
{
    static float a[3][96], b[96][32], c[3][32];
    for (int k = 0; k < 3 * 96; k++) a[k / 96][k % 96] = (float)((k * 37 % 101) - 50) / 16;
    for (int k = 0; k < 96 * 32; k++) b[k / 32][k % 32] = (float)((k * 53 % 97) - 48) / 8;
    Args args = {.param = {3}};
    GIVE(args, a);
    GIVE(args, b);
    GIVE(args, c);
    cr_assert_eq(run(parse_file("matmul"), &args), NST_OK, "%s", ctx.error);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 32; j++) {
            float sum = 0;
            for (int k = 0; k < 96; k++) sum = fmaf(a[i][k], b[k][j], sum);
            cr_assert_eq(c[i][j], sum);
        }
}

Test(eval_loop, matrix)
{
    enum { M = 37, K = 2, ROWS = 64 };
    static uint8_t a[ROWS][64 * K];
    static int8_t b[16 * K][16][4];
    static int32_t c[ROWS][16], expected[ROWS][16];
    for (int k = 0; k < ROWS * 64 * K; k++) a[k / (64 * K)][k % (64 * K)] = (uint8_t)(k * 37 % 256);
    for (int k = 0; k < 16 * K * 64; k++) b[k / 64][k / 4 % 16][k % 4] = (int8_t)(k * 53 % 256 - 128);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < 16; j++) {
            c[i][j] = i * 1000 + j;
            expected[i][j] =
                i % 32 < 16 ? 0 : c[i][j]; /* the second register of rows starts from memory, bytes of other signs */
            for (int k = 0; k < 64 * K; k++)
                expected[i][j] +=
                    i % 32 < 16 ? a[i][k] * b[k / 4][j][k % 4] : (int8_t)a[i][k] * (uint8_t)b[k / 4][j][k % 4];
        }
    Args args = {.param = {M, K}};
    GIVE(args, a);
    GIVE(args, b);
    GIVE(args, c);
    cr_assert_eq(run(parse_file("matrix"), &args), NST_OK, "%s", ctx.error);
    cr_assert_arr_eq(c, expected, sizeof c);
}

Test(eval_loop, argmax)
{
    static float x[2][5] = {{1, 5, 3, 5, -1}, {-1, -2, -3, -INFINITY, -0.5f}};
    static int64_t y[2];
    Args args = {.param = {2, 5}};
    GIVE(args, x);
    GIVE(args, y);
    cr_assert_eq(run(parse_file("argmax"), &args), NST_OK, "%s", ctx.error);
    cr_assert_eq(y[0], 1);
    cr_assert_eq(y[1], 4);
}

Test(eval_loop, gather_in_vector_loops_with_a_tail)
{
    static uint16_t t[4] = {10, 11, 12, 13}, y[11];
    static int32_t q[11] = {0, 1, 2, 3, -1, -4, 0, 2, 3, 1, -2};
    Args args = {.param = {11, 4}};
    GIVE(args, t);
    GIVE(args, q);
    GIVE(args, y);
    NstKernel *kernel = parse_file("gather");
    cr_assert_eq(run(kernel, &args), NST_OK, "%s", ctx.error);
    for (int i = 0; i < 11; i++) cr_assert_eq(y[i], t[(q[i] + 4) % 4]);
    q[9] = 4;
    cr_assert_eq(run(kernel, &args), NST_E_INDEX);
    cr_assert_str_eq(ctx.error, "g (Gather): index 4 outside 0..3");
}

Test(eval_loop, layouts)
{
    static float a[2 * 140], b[2 * 2 * 7 * 16], c[100], d[6 * 9], f[100], g[1] = {32}, y[1], z[6];
    static uint8_t e[32];
    a[140 * 0 + 20 * 2 + 1] = 1;
    b[0 + 112 + 2 * 16 + 1] = 2;
    c[3 + 8 * 3 + 4] = 4;
    d[0 * 9 + 8] = 8;
    f[5] = 16;
    Args args = {.param = {2}};
    GIVE(args, a);
    GIVE(args, b);
    GIVE(args, c);
    GIVE(args, d);
    GIVE(args, e);
    GIVE(args, f);
    GIVE(args, g);
    GIVE(args, y);
    NstKernel *kernel = parse_file("layouts");
    kernel->n_args = 8; /* the interpreter takes what it is told: without z */
    kernel->buffers.n = 9;
    cr_assert_eq(run(kernel, &args), NST_OK, "%s", ctx.error);
    cr_assert_eq(y[0], 63);
    (void)z;
}

Test(eval_loop, packed_elements)
{
    static uint8_t x[4] = {0x21, 0x43, 0xf8, 0x90};
    static int8_t s[8];
    static uint8_t u[8], w[8];
    const char *text =
        "kernel f() in x: i4[8] layout(0, bits 4) in z: u4[8] layout(0, bits 4) in v: u2[8] layout(0, bits 2)"
        "out s: i8[8] out u: u8[8] out w: u8[8]"
        "{ for i in 0..8 { s[i] = convert<i8>(x[i])\n u[i] = convert<u8>(z[i])\n w[i] = convert<u8>(v[i]) } }";
    Args args = {0};
    GIVE(args, x);
    GIVE(args, x);
    GIVE(args, x);
    GIVE(args, s);
    GIVE(args, u);
    GIVE(args, w);
    cr_assert_eq(run(parse(text), &args), NST_OK, "%s", ctx.error);
    static const int8_t signed_values[] = {1, 2, 3, 4, -8, -1, 0, -7};
    static const uint8_t values[] = {1, 2, 3, 4, 8, 15, 0, 9}, pairs[] = {1, 0, 2, 0, 3, 0, 0, 1};
    for (int k = 0; k < 8; k++) {
        cr_expect_eq(s[k], signed_values[k]);
        cr_expect_eq(u[k], values[k]);
        cr_expect_eq(w[k], pairs[k]);
    }
}

Test(eval_loop, control)
{
    static uint8_t words[8] = {0, 0, 0, 0, 1, 2, 3, 4};
    static int32_t y[2][8];
    Args args = {.param = {2}};
    GIVE(args, words);
    GIVE(args, y);
    cr_assert_eq(run(parse_file("control"), &args), NST_OK, "%s", ctx.error);
    for (int k = 0; k < 16; k++) cr_assert_eq(y[k / 8][k % 8], 0x04030201);
}

Test(eval_loop, lanes_read_before_any_writes)
{
    float y[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    cr_assert_eq(run_text("for vector l in 0..7 width 8 { y[l + 1] = y[l] }", y), NST_OK, "%s", ctx.error);
    for (int k = 1; k < 8; k++) cr_assert_eq(y[k], (float)(k - 1));
    cr_assert_eq(run_text("for l in 0..7 { y[l + 1] = y[l] }", y), NST_OK, "%s", ctx.error);
    for (int k = 0; k < 8; k++) cr_assert_eq(y[k], 0);
}

Test(eval_loop, conditions_in_vector_loops_turn_lanes_off)
{
    float y[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const char *body = "for vector l in 0..8 width 8 {\n let t: f32 = y[l]\n"
                       "if (t > 2) { if (t < 6) { y[l] = t * 10 } else { y[l] = -1f32 } } else { y[l] = t + 0.5 } }";
    cr_assert_eq(run_text(body, y), NST_OK, "%s", ctx.error);
    static const float expected[] = {0.5f, 1.5f, 2.5f, 30, 40, 50, -1, -1};
    for (int k = 0; k < 8; k++) cr_assert_eq(y[k], expected[k]);
}

Test(eval_loop, a_tree_over_lanes)
{
    float y[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const char *body = "reg r: f32[8]\n for vector l in 0..8 width 8 { r[l] = y[l] }\n"
                       "for vector l in 0..4 width 4 { r[l] = r[l] + r[l + 4] }\n"
                       "for vector l in 0..2 width 2 { r[l] = r[l] + r[l + 2] }\n"
                       "y[0] = r[0] + r[1]";
    cr_assert_eq(run_text(body, y), NST_OK, "%s", ctx.error);
    cr_assert_eq(y[0], 36);
}

Test(eval_loop, uninitialised_memory_shows)
{
    float y[8] = {0};
    cr_assert_eq(run_text("scratch s: f32[2]\n y[0] = s[1]", y), NST_OK, "%s", ctx.error);
    cr_assert(isnan(y[0]));
    const char *twice = "for i in 0..2 { scratch s: f32[1]\n y[i] = s[0]\n s[0] = 1f32 }";
    cr_assert_eq(run_text(twice, y), NST_OK, "%s", ctx.error);
    cr_assert(isnan(y[1]));
}

Test(eval_loop, what_it_refuses)
{
    static const struct {
        const char *body;
        NstStatus status;
        const char *text;
    } cases[] = {
        {"for i in 0..n + 1 { y[i] = 0f32 }", NST_E_INDEX, "buffer 'y' axis 0: index 8 outside 0..7"},
        {"for i in 0..8 { y[i] = y[i - 1] }", NST_E_INDEX, "index -1 outside 0..7"},
        {"assert (y[0] > 0) \"y is positive\"", NST_E_ASSERT, "?: y is positive"},
        {"@\"a (Assert)\" assert (false) \"never\"", NST_E_ASSERT, "a (Assert): never"},
        {"index j in 0..4 = index(n)\n y[j] = 0f32", NST_E_INDEX, "index 8 outside 0..3 (stated as certain)"},
        {"for vector l in 0..n width 4 { y[l] = 0f32 }", NST_E_VERIFY, "vector loop of width 4 has 8 iterations"},
        {"y[floordiv(n, n - 8)] = 0f32", NST_E_SHAPE, "zero"},
        {"scratch s: f32[n - 9]\n y[0] = 0f32", NST_E_SHAPE, "axis 0 has -1 elements"},
        {"scratch s: f32[1000000*n*n]\n y[0] = 0f32", NST_OK, ""},
        {"scratch s: f32[1000000*n*n*n]\n y[0] = 0f32", NST_E_LIMIT, "512000000 elements"},
        {"call copy(40i64) on y, y", NST_E_INDEX, "call touches 40 bytes"},
        {"call floor_f32(0f32) on y", NST_E_UNSUPPORTED, "no helper 'floor_f32'"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        float y[8] = {0};
        cr_expect_eq(run_text(cases[k].body, y), cases[k].status, "%s: %s", cases[k].body, ctx.error);
        cr_expect(strstr(ctx.error, cases[k].text) != NULL, "%s: %s", cases[k].body, ctx.error);
    }
}

Test(eval_loop, a_buffer_that_is_too_small_is_refused)
{
    float y[4];
    Args args = {.param = {8}};
    GIVE(args, y);
    cr_assert_eq(run(parse("kernel f(n) out y: f32[n] { }"), &args), NST_E_INVALID);
    cr_assert_str_eq(ctx.error, "kernel 'f', buffer 'y': given 16 bytes, needs 8 elements of 32 bits");
}

Test(eval_loop, races_are_found)
{
    static const struct {
        const char *body;
        const char *text; /* NULL: there is none */
    } cases[] = {
        {"for parallel i in 0..8 { y[i] = y[i] * 2 }", NULL},
        {"for parallel i in 0..7 { y[i] = y[i + 1] }",
         "race on buffer 'y' element 1: iteration 1 of 7 of a parallel loop writes what iteration 0 of 7"},
        {"for parallel i in 1..8 { y[i] = y[0] }", NULL},
        {"y[0] = 1f32\nfor parallel i in 1..8 { y[i] = y[0] }",
         "iteration 0 of 7 of a parallel loop reads what thread 0 wrote"},
        {"y[0] = 1f32\nbarrier\nfor parallel i in 1..8 { y[i] = y[0] }", NULL},
        {"for parallel i in 0..8 { y[i] = 1f32 }\nfor parallel i in 0..8 { y[i] = y[i] * 2 }", NULL},
        {"for parallel i in 0..8 { y[i] = 1f32 }\nfor parallel i in 0..4 { y[i] = y[i + 4] }",
         "element 4: iteration 0 of 4"},
        {"for parallel i in 0..8 { y[i] = 1f32 }\nbarrier\nfor parallel i in 0..4 { y[i] = y[i + 4] }", NULL},
        {"for parallel i in 0..8 { y[i] = 1f32 }\ny[0] = y[7]", "thread 0 reads what iteration 7 of 8"},
        {"for k in 0..2 {\nfor parallel i in 0..7 { y[i + 1] = 1f32 }\nbarrier\ny[0] = y[1]\nbarrier\n}", NULL},
        {"for k in 0..2 {\nfor parallel i in 0..7 { y[i + 1] = 1f32 }\nbarrier\ny[0] = y[1]\n}",
         "writes what thread 0 read"},
        {"shared s: f32[8]\nfor parallel i in 0..8 { s[0*i + 7 - i] = 1f32\ny[i] = s[i] }", "buffer 's'"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        float y[8] = {0};
        NstStatus status = run_text(cases[k].body, y);
        cr_expect_eq(status, cases[k].text ? NST_E_VERIFY : NST_OK, "%s: %s", cases[k].body, ctx.error);
        cr_expect(!cases[k].text || strstr(ctx.error, cases[k].text) != NULL, "%s: %s", cases[k].body, ctx.error);
    }
}
