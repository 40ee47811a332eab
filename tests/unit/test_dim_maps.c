/* test_dim_maps.c: ir/dim.h on the index maps and guards that views, tiling and partitioning produce. */
#include <criterion/criterion.h>
#include <string.h>
#include "ir/dim.h"
#include "tests/unit/support_dim.h"

static NstCtx ctx;
static NstDims *dims;

static void setup(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    dims = nst_dims_new(ctx.arena);
}

static void teardown(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(dim_maps, .init = setup, .fini = teardown);

static NstDim read(const char *text)
{
    return support_dim_read(&ctx, dims, text, NULL);
}

static const char *show(NstDim dim)
{
    return support_dim_text(&ctx, dims, dim, NULL);
}

/* A size >= lo. */
static void size(const char *name, int64_t lo)
{
    (void)nst_dims_new_sym(dims, NST_SYM_INPUT, name, lo, INT64_MAX);
}

/* A loop variable in [0, extent).  A named kind, so that text finds it. */
static void loop(const char *name, const char *extent)
{
    NstDim end = read(extent);
    NstSym sym = nst_dims_new_sym(dims, NST_SYM_VALUE, name, 0, INT64_MAX);
    nst_dims_sym(dims, sym)->hi_dim = nst_dim_add_const(dims, end, -1);
}

static void is(const char *from, const char *to)
{
    NstDim dim = read(from);
    cr_expect_eq(dim.i, read(to).i, "%s gives %s, not %s", from, show(dim), to);
}

static void yes(const char *a, NstDimCompare op, const char *b)
{
    NstTruth truth = nst_dim_compare(dims, read(a), op, read(b));
    cr_expect_eq(truth, NST_TRUE, "%s, op %d, %s: %d", a, op, b, truth);
}

static void unknown(const char *a, NstDimCompare op, const char *b)
{
    NstTruth truth = nst_dim_compare(dims, read(a), op, read(b));
    cr_expect_eq(truth, NST_UNKNOWN, "%s, op %d, %s: %d", a, op, b, truth);
}

Test(dim_maps, reshape_of_symbolic_sizes_that_may_be_zero)
{
    size("a", 0), size("b", 0), size("c", 0), size("d", 0);
    loop("i", "a"), loop("j", "b"), loop("k", "c"), loop("l", "d");
    is("floordiv((i*b + j)*c + k, b*c)", "i");
    is("mod(floordiv((i*b + j)*c + k, c), b)", "j");
    is("floordiv(mod((i*b + j)*c + k, b*c), c)", "j");
    is("mod((i*b + j)*c + k, c)", "k");
    is("floordiv(((i*b + j)*c + k)*d + l, b*c*d)", "i");
    is("mod(floordiv(((i*b + j)*c + k)*d + l, c*d), b)", "j");
    is("mod(floordiv(((i*b + j)*c + k)*d + l, d), c)", "k");
    yes("(i*b + j)*c + k", NST_DIM_LT, "a*b*c");
    yes("((i*b + j)*c + k)*d + l", NST_DIM_LT, "a*b*c*d");
    /* and back: coordinates of a flat index, made flat again */
    loop("x", "a*b*c");
    is("(floordiv(x, b*c)*b + mod(floordiv(x, c), b))*c + mod(x, c)", "x");
    yes("floordiv(x, b*c)", NST_DIM_LT, "a");
    yes("floordiv(x, c)", NST_DIM_LT, "a*b");
}

Test(dim_maps, reshape_of_constant_sizes)
{
    size("n", 0);
    loop("i", "n"), loop("h", "12"), loop("s", "n"), loop("d", "64"), loop("x", "n*768");
    is("floordiv(64*h + d, 64)", "h");
    is("mod(64*h + d, 64)", "d");
    is("floordiv(768*i + 64*h + d, 768)", "i");
    is("mod(floordiv(768*i + 64*h + d, 64), 12)", "h");
    is("768*floordiv(x, 768) + 64*mod(floordiv(x, 64), 12) + mod(x, 64)", "x");
    is("64*mod(floordiv(x, 64), 12) + mod(x, 64)", "mod(x, 768)");
    yes("floordiv(x, 768)", NST_DIM_LT, "n");
    /* [n, 768] seen as [n*24, 32] */
    is("floordiv(768*i + 64*h + d, 32)", "24*i + 2*h + floordiv(d, 32)");
    /* depth to space: channel c of 16 as (c1 of 4, by of 2, bx of 2) */
    loop("c1", "4"), loop("by", "2"), loop("bx", "2");
    is("floordiv(by*8 + bx*4 + c1, 8)", "by");
    is("mod(floordiv(by*8 + bx*4 + c1, 4), 2)", "bx");
    is("mod(by*8 + bx*4 + c1, 4)", "c1");
    /* im2col: r = 9*c + 3*y + x */
    loop("c", "n"), loop("y", "3"), loop("z", "3"), loop("r", "9*n");
    is("floordiv(9*c + 3*y + z, 9)", "c");
    is("floordiv(mod(9*c + 3*y + z, 9), 3)", "y");
    is("mod(9*c + 3*y + z, 3)", "z");
    is("9*floordiv(r, 9) + 3*floordiv(mod(r, 9), 3) + mod(r, 3)", "r");
    yes("floordiv(r, 9)", NST_DIM_LT, "n");
}

Test(dim_maps, tiles_and_their_remainders)
{
    size("n", 0);
    loop("o", "floordiv(n, 16)"), loop("e", "16"), loop("t", "mod(n, 16)");
    yes("16*o + e", NST_DIM_LT, "n");
    yes("16*o + 16", NST_DIM_LE, "n");
    yes("16*floordiv(n, 16) + t", NST_DIM_LT, "n");
    is("16*floordiv(n, 16) + mod(n, 16)", "n");
    loop("p", "ceildiv(n, 16)"), loop("q", "min(16, n - 16*p)");
    yes("16*p", NST_DIM_LT, "n");
    yes("16*p + q", NST_DIM_LT, "n");
    yes("min(16, n - 16*p)", NST_DIM_GE, "1");
    unknown("16*p + e", NST_DIM_LT, "n");
    yes("16*p + e", NST_DIM_LT, "16*ceildiv(n, 16)");
    is("floordiv(16*p + e, 16)", "p");
    /* two levels: 128 = 8 tiles of 16 */
    loop("u", "floordiv(n, 128)"), loop("v", "8");
    yes("128*u + 16*v + e", NST_DIM_LT, "n");
    is("floordiv(128*u + 16*v + e, 16)", "8*u + v");
    is("mod(128*u + 16*v + e, 128)", "16*v + e");
    /* the last, partial outer tile */
    loop("w", "min(8, floordiv(n, 16) - 8*u)");
    yes("128*u + 16*w + e", NST_DIM_LT, "n");
}

Test(dim_maps, partitions_among_threads)
{
    size("n", 0), size("T", 1);
    loop("p", "4"), loop("t", "T");
    is("4*floordiv(n, 4) + min(4, mod(n, 4))", "n");
    yes("(p + 1)*floordiv(n, 4) + min(p + 1, mod(n, 4))", NST_DIM_LE, "n");
    is("T*floordiv(n, T) + min(T, mod(n, T))", "n");
    yes("(t + 1)*floordiv(n, T) + min(t + 1, mod(n, T))", NST_DIM_LE, "n");
    yes("t*floordiv(n, T) + min(t, mod(n, T))", NST_DIM_GE, "0");
    yes("floordiv(t*n, T)", NST_DIM_LE, "n");
}

Test(dim_maps, windows_and_padding)
{
    size("H", 1), size("W", 1);
    loop("y", "floordiv(H - 1, 2) + 1"), loop("k", "3"), loop("r", "H"), loop("c", "W");
    /* stride 2, kernel 3, padding 1: inside the padded input */
    yes("2*y + k", NST_DIM_LE, "H + 1");
    yes("2*y + k - 1", NST_DIM_GE, "-1");
    yes("2*y", NST_DIM_LT, "H");
    /* stride 1, kernel 3, no padding */
    size("G", 3);
    loop("z", "G - 2");
    yes("z + k", NST_DIM_LT, "G");
    is("floordiv(G - 3, 1) + 1", "G - 2");
    /* clamped reads */
    yes("max(0, min(r + k - 1, H - 1))", NST_DIM_LT, "H");
    yes("max(0, min(r + k - 1, H - 1))", NST_DIM_GE, "0");
    /* upsampled by two, and pooled again */
    is("floordiv(2*H - 2, 2) + 1", "H");
    loop("u", "2*H");
    yes("floordiv(u, 2)", NST_DIM_LT, "H");
    /* flip */
    yes("H - 1 - r", NST_DIM_LT, "H");
    yes("H - 1 - r", NST_DIM_GE, "0");
    /* a row-major offset */
    yes("W*r + c", NST_DIM_LT, "H*W");
    yes("W*(H - 1 - r) + c", NST_DIM_LE, "H*W - 1");
}

Test(dim_maps, sequences_and_caches)
{
    size("past", 0), size("seq", 1), size("batch", 1);
    loop("b", "batch"), loop("i", "seq"), loop("k", "past + seq"), loop("h", "12"), loop("d", "64");
    yes("past + i", NST_DIM_LT, "past + seq");
    yes("past + i + 1", NST_DIM_LE, "past + seq");
    yes("min(k, past + seq - 1)", NST_DIM_EQ, "k");
    yes("((b*12 + h)*(past + seq) + k)*64 + d", NST_DIM_LT, "batch*12*64*(past + seq)");
    is("floordiv((b*12 + h)*(past + seq) + k, past + seq)", "12*b + h");
    is("mod((b*12 + h)*(past + seq) + k, past + seq)", "k");
    yes("batch*12*64*(past + seq)", NST_DIM_EQ, "768*batch*past + 768*seq*batch");
    unknown("past", NST_DIM_EQ, "seq");
    unknown("past + seq", NST_DIM_EQ, "1");
}
