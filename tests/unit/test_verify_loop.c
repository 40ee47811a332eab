/* test_verify_loop.c: every numbered check of ir/verify.def is hit, by a text of tests/verify or by a kernel built here. */
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

TestSuite(verify_loop, .init = begin, .fini = end);

static void expect_broken(int number, const NstKernel *kernel)
{
    nst_ctx_clear(&ctx);
    NstStatus status = nst_kernel_verify(&ctx, kernel);
    const char *prefix = nst_format(ctx.arena, "L%02d: kernel '", number);
    cr_expect_eq(status, NST_E_VERIFY, "L%02d '%s' passes", number, kernel->name);
    cr_expect_eq(strncmp(ctx.error, prefix, strlen(prefix)), 0, "L%02d '%s': %s", number, kernel->name, ctx.error);
}

/* Every kernel of tests/verify/L<number>.nsl breaks that rule first. */
static void check_text(int number)
{
    char *bytes;
    size_t size;
    const char *path = nst_format(ctx.arena, "tests/verify/L%02d.nsl", number);
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, path, 1 << 20, &bytes, &size), NST_OK, "%s", ctx.error);
    NstDims *dims = nst_dims_new(ctx.arena);
    NstExprs *exprs = nst_exprs_new(ctx.arena, dims);
    NstOrigins *origins = nst_origins_new(ctx.arena);
    for (const char *p = bytes; *p != '\0';) {
        NstKernel *kernel;
        nst_ctx_clear(&ctx);
        cr_assert_eq(nst_kernel_parse_at(&ctx, ctx.arena, dims, exprs, origins, &p, &kernel), NST_OK, "%s: %s", path,
                     ctx.error);
        expect_broken(number, kernel);
    }
}

/* A kernel f(n) with x: f32[n] in, y: f32[n] out and two index variables. */
typedef struct Made {
    NstKernel *kernel;
    NstDims *dims;
    NstExprs *exprs;
    NstDim zero, n, i;
    NstSym var;
    NstBuf x, y;
} Made;

static Made make(void)
{
    Made m = {.dims = nst_dims_new(ctx.arena)};
    m.exprs = nst_exprs_new(ctx.arena, m.dims);
    m.kernel = nst_kernel_new(ctx.arena, m.dims, m.exprs, nst_origins_new(ctx.arena), "f");
    NstSym n = nst_dims_new_sym(m.dims, NST_SYM_INPUT, "n", 0, INT64_MAX);
    nst_kernel_param(m.kernel, n);
    m.zero = nst_dim_const(m.dims, 0);
    m.n = nst_dim_sym(m.dims, n);
    m.x = nst_kernel_arg(m.kernel, "x", NST_F32, 1, &m.n, NST_ACCESS_IN);
    m.y = nst_kernel_arg(m.kernel, "y", NST_F32, 1, &m.n, NST_ACCESS_OUT);
    m.var = nst_kernel_index(m.kernel, "i", m.zero, m.n);
    m.i = nst_dim_sym(m.dims, m.var);
    return m;
}

static NstStmt *loop(Made *m)
{
    return nst_stmt_for(m->kernel, m->var, m->zero, m->n, 1, NST_FOR_SERIAL, 0);
}

static NstStmt *store(Made *m, NstExpr value)
{
    return nst_stmt_store(m->kernel, m->y, &m->i, 1, value);
}

static void expect_with(int number, Made *m, NstStmt *stmt)
{
    NstStmt *outer = loop(m);
    nst_block_add(m->kernel, &outer->u.loop.body, stmt);
    m->kernel->body.n = 0;
    nst_block_add(m->kernel, &m->kernel->body, outer);
    expect_broken(number, m->kernel);
}

static NstExpr one(Made *m)
{
    return nst_expr_float(m->exprs, NST_F32, 1);
}

static void built_ids(Made *m) /* L01 */
{
    expect_with(1, m, nst_stmt_let(m->kernel, 7, one(m)));
    expect_with(1, m, store(m, (NstExpr){0}));
    NstStmt *stmt = store(m, one(m));
    stmt->u.store.target[0].buffer.i = 99;
    expect_with(1, m, stmt);
    stmt = store(m, one(m));
    stmt->u.store.index[0] = (NstDim){0};
    expect_with(1, m, stmt);
    stmt = loop(m);
    stmt->u.loop.step = 0;
    expect_with(1, m, stmt);
    nst_kernel_buffer(m->kernel, m->x)->space = NST_SPACE_SCRATCH;
    expect_with(1, m, loop(m));
}

static void built_symbol(Made *m) /* L05 */
{
    NstSym stranger = nst_kernel_index(m->kernel, "stranger", m->zero, m->n);
    NstDim index = nst_dim_sym(m->dims, stranger);
    expect_with(5, m, nst_stmt_store(m->kernel, m->y, &index, 1, one(m)));
    expect_with(5, m, store(m, nst_expr_load(m->exprs, NST_F32, m->x, &index, 1)));
    NstDim *shape = NST_NEW(ctx.arena, NstDim); /* no loop is around an argument */
    *shape = m->i;
    nst_kernel_buffer(m->kernel, m->x)->shape = shape;
    expect_broken(5, m->kernel);
}

static void built_let(Made *m) /* L06 */
{
    uint32_t id = nst_kernel_let(m->kernel, "t", NST_F32);
    expect_with(6, m, store(m, nst_expr_let(m->exprs, NST_F32, id)));
}

static void built_local(Made *m) /* L07 */
{
    NstBuf local = nst_kernel_local(m->kernel, "s", NST_F32, NST_SPACE_SCRATCH, 1, &m->n);
    expect_with(7, m, store(m, nst_expr_load(m->exprs, NST_F32, local, &m->i, 1)));
}

static void built_twice(Made *m) /* L08 */
{
    expect_with(8, m, loop(m));
    uint32_t id = nst_kernel_let(m->kernel, "t", NST_F32);
    NstStmt *branch = nst_stmt_if(m->kernel, nst_expr_int(m->exprs, NST_BOOL, 1));
    nst_block_add(m->kernel, &branch->u.branch.then, nst_stmt_let(m->kernel, id, one(m)));
    nst_block_add(m->kernel, &branch->u.branch.then, nst_stmt_let(m->kernel, id, one(m)));
    expect_with(8, m, branch);
}

static void built_type(Made *m) /* L11 */
{
    expect_with(11, m, store(m, nst_expr_int(m->exprs, NST_I32, 1)));
    expect_with(11, m, nst_stmt_if(m->kernel, one(m)));
    expect_with(11, m, nst_stmt_let(m->kernel, nst_kernel_let(m->kernel, "t", NST_F64), one(m)));
    expect_with(11, m, nst_stmt_assert(m->kernel, one(m), "?"));
    NstSym j = nst_kernel_index(m->kernel, "j", m->zero, m->n);
    expect_with(11, m, nst_stmt_index(m->kernel, j, one(m), m->zero, m->n, true));
}

static void built_merge(Made *m) /* L14 */
{
    NstExpr load = nst_expr_load(m->exprs, NST_F32, m->y, &m->i, 1);
    NstStoreTarget target = {.buffer = m->y, .value = load, .merge = load, .identity = one(m)};
    expect_with(14, m, nst_stmt_update(m->kernel, 1, &target, &m->i, 1));
    target.merge = nst_expr_arg(m->exprs, NST_F32, 2);
    expect_with(14, m, nst_stmt_update(m->kernel, 1, &target, &m->i, 1));
    target.merge = nst_expr_arg(m->exprs, NST_F64, 0);
    expect_with(14, m, nst_stmt_update(m->kernel, 1, &target, &m->i, 1));
}

static void built_slot(Made *m) /* L16 */
{
    expect_with(16, m, store(m, nst_expr_arg(m->exprs, NST_F32, 0)));
}

static void built_bounds(Made *m) /* L32: the loop grew and nobody told its variable */
{
    NstStmt *outer =
        nst_stmt_for(m->kernel, m->var, m->zero, nst_dim_add_const(m->dims, m->n, 1), 1, NST_FOR_SERIAL, 0);
    nst_block_add(m->kernel, &m->kernel->body, outer);
    nst_dims_sym(m->dims, m->kernel->params.at[0])->lo = 1;
    expect_broken(32, m->kernel);
}

static void built_deep(Made *m) /* L33 */
{
    NstBlock *block = &m->kernel->body;
    for (int k = 0; k < 65; k++) {
        NstStmt *stmt = nst_stmt_while(m->kernel);
        nst_block_add(m->kernel, block, stmt);
        block = &stmt->u.repeat.body;
    }
    expect_broken(33, m->kernel);
}

static void built_params(Made *m) /* L34 */
{
    nst_vec_push(ctx.arena, &m->kernel->params, m->kernel->params.at[0]);
    expect_broken(34, m->kernel);
    m->kernel->params.at[1] = m->var;
    expect_broken(34, m->kernel);
}

static void (*const built[])(Made *m) = {
    [1] = built_ids,     [5] = built_symbol, [6] = built_let,     [7] = built_local,
    [8] = built_twice,   [11] = built_type,  [14] = built_merge,  [16] = built_slot,
    [32] = built_bounds, [33] = built_deep,  [34] = built_params,
};

typedef enum Tested { TEXT, BUILT } Tested;

static void check(int number, Tested tested)
{
    if (tested == TEXT) {
        check_text(number);
        return;
    }
    cr_assert(number < (int)(sizeof built / sizeof *built) && built[number] != NULL, "L%02d has no test", number);
    Made m = make();
    built[number](&m);
}

Test(verify_loop, every_check_is_hit)
{
#define NST_LOOP_CHECK(number, tested, rule) check(number, tested);
#include "ir/verify.def"
#undef NST_LOOP_CHECK
}

Test(verify_loop, good_kernels_pass)
{
    static const char *const files[] = {"matmul", "softmax", "argmax", "gather", "layouts", "control", "matrix"};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char *bytes;
        size_t size;
        NstKernel *kernel;
        const char *path = nst_format(ctx.arena, "tests/kernels/%s.nsl", files[k]);
        cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, path, 1 << 20, &bytes, &size), NST_OK, "%s", ctx.error);
        cr_assert_eq(nst_kernel_parse(&ctx, ctx.arena, bytes, size, &kernel), NST_OK, "%s", ctx.error);
        cr_expect_eq(nst_kernel_verify(&ctx, kernel), NST_OK, "%s: %s", files[k], ctx.error);
        nst_ctx_clear(&ctx);
    }
}
