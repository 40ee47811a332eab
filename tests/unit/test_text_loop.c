/* test_text_loop.c: .nsl text: exact round trips, errors with places, copies, canonical text. */
#include <criterion/criterion.h>
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

TestSuite(text_loop, .init = begin, .fini = end);

static const char *const files[] = {"matmul", "softmax", "argmax", "gather", "layouts", "control", "matrix"};
#define N_FILES (sizeof files / sizeof *files)

static NstKernel *parse(const char *text)
{
    NstKernel *kernel = NULL;
    NstStatus status = nst_kernel_parse(&ctx, ctx.arena, text, strlen(text), &kernel);
    cr_assert_eq(status, NST_OK, "%s\n%s", ctx.error, text);
    return kernel;
}

static NstKernel *parse_file(const char *name, const char **text)
{
    char *bytes;
    size_t size;
    const char *path = nst_format(ctx.arena, "tests/kernels/%s.nsl", name);
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, path, 1 << 20, &bytes, &size), NST_OK, "%s", ctx.error);
    if (text != NULL) *text = bytes;
    return parse(bytes);
}

static const char *print(const NstKernel *kernel)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    nst_kernel_print(&text, kernel);
    return nst_text_get(&text);
}

static const char *canonical(const NstKernel *kernel)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    nst_kernel_canonical(&text, kernel);
    return nst_text_get(&text);
}

Test(text_loop, the_kernels_of_the_tests_print_as_they_are_written)
{
    for (size_t k = 0; k < N_FILES; k++) {
        const char *text;
        NstKernel *kernel = parse_file(files[k], &text);
        const char *body = strchr(text, '\n') + 1; /* after the comment */
        cr_expect_str_eq(print(kernel), body, "%s:\n%s", files[k], print(kernel));
    }
}

Test(text_loop, a_copy_prints_the_same)
{
    for (size_t k = 0; k < N_FILES; k++) {
        NstKernel *kernel = parse_file(files[k], NULL);
        cr_expect_str_eq(print(nst_kernel_clone(ctx.arena, kernel)), print(kernel));
    }
}

Test(text_loop, canonical_text_ignores_names_and_origins)
{
    NstKernel *a =
        parse("@\"x\" kernel f(n) in p: f32[n] out q: f32[n] { for i in 0..n { let t: f32 = p[i]\n q[i] = t } }");
    NstKernel *b =
        parse("kernel g(m) in u: f32[m] out v: f32[m] { for j in 0..m { let w: f32 = u[j]\n @\"y\" v[j] = w } }");
    NstKernel *c = parse("kernel g(m) in u: f32[m] out v: f32[m] { for j in 0..m { let w: f32 = u[j]\n v[j] = -w } }");
    NstKernel *d =
        parse("kernel g(m) in u: f32[m] layout(0:2) out v: f32[m] { for j in 0..m { let w: f32 = u[j]\n v[j] = w } }");
    cr_expect_str_eq(canonical(a), canonical(b));
    cr_expect_str_neq(canonical(a), canonical(c));
    cr_expect_str_neq(canonical(a), canonical(d));
    NstHash ha = nst_kernel_hash(a, ctx.arena), hb = nst_kernel_hash(b, ctx.arena), hc = nst_kernel_hash(c, ctx.arena);
    cr_expect(ha.lo == hb.lo && ha.hi == hb.hi);
    cr_expect(ha.lo != hc.lo);
}

Test(text_loop, names_in_scope_are_made_unique)
{
    NstKernel *kernel = parse("kernel f(n) out y: f32[n, n] { }");
    NstDims *dims = kernel->dims;
    NstDim zero = nst_dim_const(dims, 0), n = nst_dim_sym(dims, kernel->params.at[0]);
    NstSym outer = nst_kernel_index(kernel, "i", zero, n), inner = nst_kernel_index(kernel, "i", zero, n);
    NstSym word = nst_kernel_index(kernel, "for", zero, n);
    NstStmt *loop[3] = {nst_stmt_for(kernel, outer, zero, n, 1, NST_FOR_SERIAL, 0),
                        nst_stmt_for(kernel, inner, zero, n, 1, NST_FOR_SERIAL, 0),
                        nst_stmt_for(kernel, word, zero, n, 1, NST_FOR_SERIAL, 0)};
    NstDim index[2] = {nst_dim_sym(dims, outer), nst_dim_sym(dims, inner)};
    NstExpr value = nst_expr_float(kernel->exprs, NST_F32, 0.1);
    nst_block_add(kernel, &loop[2]->u.loop.body, nst_stmt_store(kernel, (NstBuf){1}, index, 2, value));
    nst_block_add(kernel, &loop[1]->u.loop.body, loop[2]);
    nst_block_add(kernel, &loop[0]->u.loop.body, loop[1]);
    nst_block_add(kernel, &kernel->body, loop[0]);
    nst_block_add(kernel, &kernel->body, nst_stmt_clone(kernel, loop[0], NULL, 0, true));
    const char *text = print(kernel);
    cr_expect(strstr(text, "for i1 in 0..n") != NULL, "%s", text);
    cr_expect(strstr(text, "for for_ in 0..n") != NULL, "%s", text);
    cr_expect(strstr(text, "y[i, i1] = 0.1f32") != NULL, "%s", text);
    cr_expect_str_eq(print(parse(text)), text);
}

Test(text_loop, a_fresh_copy_defines_everything_anew)
{
    NstKernel *kernel =
        parse("kernel f(n) in x: f32[n] out y: f32[n] { for i in 0..n { scratch s: f32[2]\n let t: f32 = x[i]\n"
              "s[0] = t\n index j in 0..n = index(i)\n y[j] = s[0] } }");
    NstDims *dims = kernel->dims;
    NstStmt *loop = kernel->body.at[0];
    NstSymValue four = {kernel->params.at[0], nst_dim_const(dims, 4)};
    NstStmt *copy = nst_stmt_clone(kernel, loop, &four, 1, true);
    cr_assert_neq(copy->u.loop.var.i, loop->u.loop.var.i);
    cr_assert_neq(copy->u.loop.body.at[0]->u.alloc.buffer.i, loop->u.loop.body.at[0]->u.alloc.buffer.i);
    cr_assert_neq(copy->u.loop.body.at[1]->u.let.id, loop->u.loop.body.at[1]->u.let.id);
    nst_block_add(kernel, &kernel->body, copy);
    const char *text = print(kernel);
    cr_expect(strstr(text, "for i in 0..4") != NULL, "%s", text);
    cr_expect_str_eq(print(parse(text)), text);
}

Test(text_loop, errors_say_where_and_what)
{
    static const char *const cases[][2] = {
        {"", "1:1: expected kernel, found 'end of text'"},
        {"kernel f(n) out y: f32[n] {\n  for i in 0..n {\n    z[i] = 1f32\n  }\n}",
         "3:5: expected a statement, found 'z[i] = 1f32'"},
        {"kernel f(n) out y: f32[n] { for for in 0..n { } }", "a name that is not a keyword"},
        {"kernel f(n) out y: f32[n] { for n in 0..n { } }", "a name that is not in use"},
        {"kernel f(n) out y: f33[n] { }", "1:20: expected an element type"},
        {"kernel f(n) out y: f32[n] { y[0] = }", "at 1:36 of the kernel text"},
        {"kernel f(n) out y: f32[m] { }", "at 1:24 of the kernel text"},
        {"kernel f(n) out y: f32[n] { call foo() }", "the name of a helper"},
        {"kernel f(n) out y: f32[n] { ", "expected a statement, found 'end of text'"},
        {"kernel f() out y: f32[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0] {}", "at most 16 indices"},
        {"kernel f() { } more", "more text after the kernel"},
        {"kernel f() { \"", "expected a statement"},
        {"kernel \"f", "expected '\"'"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        NstKernel *kernel;
        nst_ctx_clear(&ctx);
        NstStatus status = nst_kernel_parse(&ctx, ctx.arena, cases[k][0], strlen(cases[k][0]), &kernel);
        cr_expect_eq(status, NST_E_PARSE);
        cr_expect(strstr(ctx.error, cases[k][1]) != NULL, "%s\n%s", cases[k][0], ctx.error);
    }
}

Test(text_loop, nesting_is_bounded)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    nst_text_add(&text, "kernel f() {");
    for (int k = 0; k < 1000; k++) nst_text_add(&text, "while {");
    NstKernel *kernel;
    cr_assert_eq(nst_kernel_parse(&ctx, ctx.arena, text.at, text.n, &kernel), NST_E_PARSE);
    cr_assert(strstr(ctx.error, "at most 64 nested blocks") != NULL, "%s", ctx.error);
}

Test(text_loop, several_kernels_of_one_text_share_tables)
{
    const char *text = "kernel f(n) out y: f32[n] { } kernel g(n) out y: f32[n] { }", *p = text;
    NstDims *dims = nst_dims_new(ctx.arena);
    NstExprs *exprs = nst_exprs_new(ctx.arena, dims);
    NstOrigins *origins = nst_origins_new(ctx.arena);
    NstKernel *f, *g;
    cr_assert_eq(nst_kernel_parse_at(&ctx, ctx.arena, dims, exprs, origins, &p, &f), NST_OK, "%s", ctx.error);
    cr_assert_eq(nst_kernel_parse_at(&ctx, ctx.arena, dims, exprs, origins, &p, &g), NST_OK, "%s", ctx.error);
    cr_assert_eq(*p, '\0');
    cr_assert_eq(f->params.at[0].i, g->params.at[0].i);
}

Test(text_loop, layouts_map_indices)
{
    NstKernel *kernel = parse_file("layouts", NULL);
    NstDims *dims = kernel->dims;
    NstDim index[3] = {nst_dim_const(dims, 1), nst_dim_const(dims, 17), nst_dim_const(dims, 2)};
    static const int64_t expected[] = {1 * 140 + 2 * 20 + 17, 1 * 224 + 1 * 112 + 2 * 16 + 1};
    for (uint32_t k = 0; k < 2; k++) {
        int64_t offset;
        NstDim dim = nst_layout_offset(dims, &nst_kernel_buffer(kernel, (NstBuf){k + 1})->layout, index);
        cr_assert(nst_dim_is_const(dims, dim, &offset));
        cr_expect_eq(offset, expected[k], "%d: %lld", (int)k, (long long)offset);
    }
    NstDim at[2] = {nst_dim_const(dims, -1), nst_dim_const(dims, 6)};
    int64_t offset;
    cr_assert(
        nst_dim_is_const(dims, nst_layout_offset(dims, &nst_kernel_buffer(kernel, (NstBuf){4})->layout, at), &offset));
    cr_expect_eq(offset, 8);
    const int order[] = {0, 2, 1};
    const NstBuffer *b = nst_kernel_buffer(kernel, (NstBuf){2});
    NstLayout made = nst_layout_blocked(ctx.arena, dims, NST_F32, 3, b->shape, (const int[]){0, 1, 2}, 1, 16);
    cr_expect(nst_dim_same(made.elements, b->layout.elements));
    cr_expect_eq(made.n_parts, b->layout.n_parts);
    made = nst_layout_permuted(ctx.arena, dims, NST_F32, 3, b->shape, order, 1);
    cr_expect(nst_dim_same(made.parts[0].stride, kernel->buffers.at[1].layout.parts[0].stride));
    cr_expect_not(nst_layout_is_row_major(dims, &made, 3, b->shape));
}

Test(text_loop, runs_of_an_axis_are_adjacent)
{
    NstDims *dims = parse_file("layouts", NULL)->dims;
    NstSym x = nst_dims_new_sym(dims, NST_SYM_INDEX, "x", 0, 63), y = nst_dims_new_sym(dims, NST_SYM_INDEX, "y", 0, 7);
    NstDim shape[2] = {nst_dim_const(dims, 64), nst_dim_const(dims, 8)};
    NstDim at[2] = {nst_dim_sym(dims, x), nst_dim_sym(dims, y)};
    NstLayout panels = nst_layout_blocked(ctx.arena, dims, NST_F32, 2, shape, (const int[]){0, 1}, 0, 16),
              rows = nst_layout_row_major(ctx.arena, dims, NST_F32, 2, shape);
    cr_expect(nst_layout_adjacent(dims, &panels, at, x, 16));
    cr_expect(nst_layout_adjacent(dims, &panels, at, x, 8));
    cr_expect_not(nst_layout_adjacent(dims, &panels, at, x, 32), "a run crosses panels");
    cr_expect_not(nst_layout_adjacent(dims, &panels, at, y, 8));
    cr_expect(nst_layout_adjacent(dims, &rows, at, y, 8));
    cr_expect_not(nst_layout_adjacent(dims, &rows, at, x, 16));
    at[0] = nst_dim_add_const(dims, at[0], 32);
    cr_expect(nst_layout_adjacent(dims, &panels, at, x, 16));
    at[0] = nst_dim_add_const(dims, at[0], 4);
    cr_expect_not(nst_layout_adjacent(dims, &panels, at, x, 16), "no multiple starts a panel");
}

Test(text_loop, a_padded_layout_counts_its_padding)
{
    NstDims *dims = nst_dims_new(ctx.arena);
    NstDim shape[] = {nst_dim_const(dims, 5), nst_dim_const(dims, 9), nst_dim_const(dims, 4)};
    const int order[] = {0, 2, 1};
    NstLayout made = nst_layout_permuted(ctx.arena, dims, NST_F32, 3, shape, order, 8);
    const int64_t stride[] = {4 * 16, 16, 1};
    for (int k = 0; k < 3; k++)
        cr_expect(nst_dim_same(made.parts[k].stride, nst_dim_const(dims, stride[k])), "part %d", k);
    cr_expect(nst_dim_same(made.elements, nst_dim_const(dims, 5 * 4 * 16)));
    const int same[] = {0, 1, 2};
    made = nst_layout_permuted(ctx.arena, dims, NST_F32, 3, shape, same, 8);
    cr_expect_not(nst_layout_is_row_major(dims, &made, 3, shape));
}

Test(text_loop, the_hash_is_xxh3)
{
    NstHash empty = nst_hash128("", 0); /* the published value of the empty input */
    cr_assert_eq(empty.hi, UINT64_C(0x99aa06d3014798d8));
    cr_assert_eq(empty.lo, UINT64_C(0x6001c324468d497f));
}
