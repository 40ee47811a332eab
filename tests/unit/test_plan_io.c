/* test_plan_io.c: runtime/plan_io.h: what is written reads back; damaged bytes are a status. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include "runtime/plan_io.h"
#include "tests/unit/support_plan.h"

static NstCtx ctx;
static NstPlan *plan;
static char model[64];

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    plan = nst_test_plan_new(ctx.arena);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(plan_io, .init = begin, .fini = end, .timeout = 60);

/* A body: one input and one output of the plan's dims, a constant, a kernel that takes both. */
static NstPlan *make_body(const char *name, NstDim n, uint32_t n_in, uint32_t n_out)
{
    static const char code[70] = "more code";
    static const float weight[2] = {7, 8};
    NstPlan *body = nst_test_plan_new(ctx.arena);
    body->dims = plan->dims;
    body->model_name = name;
    body->code = code;
    body->code_bytes = sizeof code;
    for (uint32_t k = 0; k < n_in; k++)
        nst_test_port(body, false, "in", nst_test_buffer(body, "in", NST_PLACE_INPUT, k, n));
    for (uint32_t k = 0; k < n_out; k++)
        nst_test_port(body, true, "out", nst_test_buffer(body, "out", NST_PLACE_OUTPUT, k, n));
    uint32_t w = nst_test_buffer(body, "w", NST_PLACE_CONST, 0, nst_dim_const(body->dims, 2));
    nst_vec_push(ctx.arena, &body->constants, ((NstPlanConst){.dtype = NST_F32, .data = weight, .bytes = 8}));
    nst_test_kernel(body, name, false);
    body->kernels.at[0].n_args = 2;
    nst_test_step(body, 0, (uint32_t[]){w, n_in, UINT32_MAX}, NULL);
    return body;
}

/* Makes a port and its buffer a scalar. */
static void make_scalar(NstPlan *body, NstPlanPort *port, NstDtype dtype)
{
    NstPlanBuffer *buffer = &body->buffers.at[port->buffer];
    buffer->dtype = port->type.dtype = dtype;
    buffer->rank = port->type.rank = 0;
    buffer->bytes = nst_dim_const(body->dims, (int64_t)nst_dtype_size(dtype));
}

/* if c then x else x, a loop of it with one state and one scan, a sort. */
static void add_structure(uint32_t x, uint32_t y, NstDim n)
{
    NstDims *dims = plan->dims;
    uint32_t c = nst_test_buffer(plan, "c", NST_PLACE_ARENA, 0, nst_dim_const(dims, 1)),
             i = nst_test_buffer(plan, "i", NST_PLACE_ARENA, 0, nst_dim_const(dims, 2)),
             s = nst_test_buffer(plan, "s", NST_PLACE_ARENA, 0, n);
    plan->buffers.at[c].dtype = NST_BOOL;
    plan->buffers.at[i].dtype = NST_I64;
    plan->buffers.at[i].rank = plan->buffers.at[c].rank = 0;
    uint32_t scan = nst_test_buffer(plan, "scan", NST_PLACE_ARENA, 0, n);
    plan->buffers.at[scan].rank = 2;
    plan->buffers.at[scan].shape = nst_copy(ctx.arena, ((NstDim[]){n, n}), 2 * sizeof n);
    NstPlan *loop = make_body("loop", n, 3, 3);
    make_scalar(loop, &loop->inputs.at[0], NST_I64);
    make_scalar(loop, &loop->inputs.at[1], NST_BOOL);
    make_scalar(loop, &loop->outputs.at[0], NST_BOOL);
    nst_vec_push(ctx.arena, &plan->bodies, make_body("yes", n, 1, 1));
    nst_vec_push(ctx.arena, &plan->bodies, make_body("no", n, 1, 1));
    nst_vec_push(ctx.arena, &plan->bodies, loop);
    nst_vec_push(ctx.arena, &plan->bodies.at[1]->bodies, make_body("inner", n, 0, 1));
    uint32_t branch[] = {c, x, x, y}, loops[] = {i, c, x, s, scan}, sorts[] = {x, s};
    NstPlanStep step = {.kind = NST_STEP_IF, .n_buffers = 4, .n_in = 3, .body = 0, .other = 1, .origin = "if1 (If)"};
    step.buffer = nst_copy(ctx.arena, branch, sizeof branch);
    nst_vec_push(ctx.arena, &plan->steps, step);
    step = (NstPlanStep){.kind = NST_STEP_LOOP, .n_buffers = 5, .n_in = 3, .body = 2, .n_states = 1};
    step.buffer = nst_copy(ctx.arena, loops, sizeof loops);
    nst_vec_push(ctx.arena, &plan->steps, step);
    step = (NstPlanStep){.kind = NST_STEP_HOST, .n_buffers = 2, .n_in = 1, .text = "sort", .config = "axis 0"};
    step.buffer = nst_copy(ctx.arena, sorts, sizeof sorts);
    nst_vec_push(ctx.arena, &plan->steps, step);
}

/* One of everything. */
static void make_plan(void)
{
    static const char *const texts[] = {"?", "add1 (Add)"};
    static const float weight[3] = {1, 2, 3};
    NstDims *dims = plan->dims;
    NstDim n = nst_test_dim(plan, "n"), m = nst_test_dim(plan, "m");
    NstSym late = nst_dims_new_sym(dims, NST_SYM_VALUE, "late", 0, 10), ns = nst_dims_find_sym(dims, "n", 1);
    nst_dims_new_sym(dims, NST_SYM_INDEX, "i", 0, 5);
    nst_dims_sym(dims, ns)->multiple = 2;
    NstDim size = nst_dim_max(dims, nst_dim_floordiv(dims, nst_dim_mul(dims, n, m), nst_dim_add_const(dims, m, 3)),
                              nst_dim_mod(dims, n, nst_dim_const(dims, 7)));
    uint32_t x = nst_test_buffer(plan, "x", NST_PLACE_INPUT, 0, n),
             w = nst_test_buffer(plan, "w", NST_PLACE_CONST, 0, nst_dim_const(dims, 3));
    uint32_t p = nst_test_buffer(plan, "p", NST_PLACE_CONST, 1, nst_dim_const(dims, 3));
    uint32_t m8 = nst_test_buffer(plan, "m8", NST_PLACE_CONST, 2, nst_dim_const(dims, 14));
    uint32_t t = nst_test_buffer(plan, "t", NST_PLACE_ARENA, 0, size),
             a = nst_test_buffer(plan, "a", NST_PLACE_ALIAS, t, m);
    uint32_t y = nst_test_buffer(plan, "y", NST_PLACE_OUTPUT, 0, nst_dim_min(dims, n, nst_dim_sym(dims, late)));
    plan->buffers.at[t].dtype = NST_I64;
    plan->buffers.at[t].last = 3;
    plan->buffers.at[a].dtype = NST_BOOL;
    nst_vec_push(ctx.arena, &plan->constants, ((NstPlanConst){.dtype = NST_F32, .data = weight, .bytes = 12}));
    nst_vec_push(ctx.arena, &plan->constants, ((NstPlanConst){.dtype = NST_F32, .bytes = 12, .packed = true}));
    nst_vec_push(ctx.arena, &plan->constants,
                 ((NstPlanConst){.dtype = NST_I8, .data = model + 5, .model_offset = 5, .bytes = 59}));
    nst_vec_push(ctx.arena, &plan->files, ((NstPlanFile){"weights.bin", {1, 2, 3, 4, 5}}));
    static const uint64_t handle[2] = {2, 1};
    plan->strings = nst_strings_new(ctx.arena);
    (void)nst_strings_put(plan->strings, "one", 3);
    (void)nst_strings_put(plan->strings, "t\0o", 3);
    uint32_t words = nst_test_buffer(plan, "words", NST_PLACE_CONST, 3, nst_dim_const(dims, 4)); /* 16 bytes */
    plan->buffers.at[words].dtype = NST_STR;
    nst_vec_push(ctx.arena, &plan->constants, ((NstPlanConst){.dtype = NST_STR, .data = handle, .bytes = 16}));
    nst_test_port(plan, false, "x", x);
    static const float only[2] = {3, 4};
    static const int64_t only_shape[1] = {2};
    plan->inputs.at[0].only = only;
    plan->inputs.at[0].only_bytes = sizeof only;
    plan->inputs.at[0].only_shape = only_shape;
    nst_test_port(plan, true, "y", y);
    nst_test_port(plan, true, "m8", m8);
    nst_test_port(plan, true, "words", words);
    nst_test_kernel(plan, "pack", false);
    uint32_t k = nst_test_kernel(plan, "main", true);
    NstPlanKernel *kernel = &plan->kernels.at[k];
    *kernel = (NstPlanKernel){"main",
                              "add1 (Add)",
                              "its reader is a loop",
                              32,
                              size,
                              n,
                              2,
                              2,
                              true,
                              nst_dim_mul(dims, n, n),
                              nst_dim_mul_const(dims, n, 6),
                              2,
                              texts,
                              1,
                              texts,
                              5,
                              6};
    plan->kernels.at[0].n_args = 2;
    nst_test_step(plan, 0, (uint32_t[]){w, p, UINT32_MAX}, NULL);
    nst_vec_push(ctx.arena, &plan->prepack, nst_vec_pop(&plan->steps));
    nst_test_step(plan, k, (uint32_t[]){x, t, UINT32_MAX}, (NstSym[]){ns, late, {0}});
    uint32_t scalar = nst_test_buffer(plan, "scalar", NST_PLACE_ARENA, 0, nst_dim_const(dims, 2));
    plan->buffers.at[scalar].dtype = NST_I64;
    uint32_t *buffers = nst_copy(ctx.arena, &scalar, sizeof scalar);
    NstDim late_size = nst_dim_sym(dims, late);
    nst_vec_push(ctx.arena, &plan->steps,
                 ((NstPlanStep){.kind = NST_STEP_READ,
                                .n_buffers = 1,
                                .buffer = buffers,
                                .n_sizes = 1,
                                .size = nst_copy(ctx.arena, &late_size, sizeof late_size)}));
    add_structure(x, y, n);
    nst_vec_push(ctx.arena, &plan->steps,
                 ((NstPlanStep){.kind = NST_STEP_CHECK, .a = n, .b = m, .text = "must agree"}));
    nst_vec_push(ctx.arena, &plan->steps, ((NstPlanStep){.kind = NST_STEP_CHECK, .a = size, .b = m, .text = ""}));
    nst_test_step(plan, k, (uint32_t[]){p, y, UINT32_MAX}, (NstSym[]){ns, late, {0}});
    static const char code[100] = "code";
    plan->code = code;
    plan->code_bytes = sizeof code;
    plan->compile_ns = 1234;
}

static unsigned char *written(const NstPlan *from, size_t *n)
{
    NstPart *parts;
    int n_parts;
    cr_assert_eq(nst_plan_write(&ctx, ctx.arena, from, &parts, &n_parts), NST_OK);
    *n = 0;
    for (int k = 0; k < n_parts; k++) *n += parts[k].size;
    unsigned char *bytes = nst_alloc_aligned(ctx.arena, *n, 64), *at = bytes;
    for (int k = 0; k < n_parts; k++) {
        if (parts[k].size != 0) memcpy(at, parts[k].at, parts[k].size);
        at += parts[k].size;
    }
    return bytes;
}

static const char *printed(const NstPlan *from)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    nst_plan_print(&text, from);
    return nst_text_get(&text);
}

Test(plan_io, reads_back_what_was_written)
{
    make_plan();
    size_t n, again;
    unsigned char *bytes = written(plan, &n);
    NstPlan *back;
    cr_assert_eq(nst_plan_read(&ctx, ctx.arena, bytes, n, model, sizeof model, &back), NST_OK, "%s", ctx.error);
    cr_assert_str_eq(printed(back), printed(plan));
    cr_assert_eq(back->compile_ns, 1234);
    cr_assert_str_eq(back->kernels.at[1].origin_text[1], "add1 (Add)");
    cr_assert_eq(memcmp(back->code, "code", 5), 0);
    cr_assert_eq(memcmp(back->constants.at[0].data, plan->constants.at[0].data, 12), 0);
    cr_assert_eq(back->constants.at[2].data, model + 5);
    cr_assert_eq(nst_strings_count(back->strings), 3);
    cr_assert_eq(memcmp(nst_strings_get(back->strings, 2)->at, "t\0o", 4), 0);
    cr_assert_eq(memcmp(back->constants.at[3].data, plan->constants.at[3].data, 16), 0);
    cr_assert_eq(back->bodies.at[1]->bodies.at[0]->strings, back->strings);
    cr_assert_eq(back->bodies.n, 3);
    cr_assert_eq(memcmp(back->bodies.at[1]->code, "more code", 10), 0);
    cr_assert_eq(((const float *)back->bodies.at[2]->constants.at[0].data)[1], 8);
    cr_assert_str_eq(back->bodies.at[1]->bodies.at[0]->model_name, "inner");
    cr_assert_eq(back->bodies.at[0]->dims, back->dims);
    cr_assert_eq(memcmp(back->inputs.at[0].only, plan->inputs.at[0].only, back->inputs.at[0].only_bytes), 0);
    cr_assert_eq(back->inputs.at[0].only_shape[0], 2);
    cr_assert_null(back->outputs.at[0].only);
    cr_assert_str_eq(back->files.at[0].path, "weights.bin");
    cr_assert_eq(back->files.at[0].mark.ctime_ns, 5);
    cr_assert_eq(nst_dims_sym_info(back->dims, nst_dims_find_sym(back->dims, "n", 1))->multiple, 2);
    cr_assert_eq(nst_dims_find_sym(back->dims, "i", 1).i, 0);
    unsigned char *second = written(back, &again);
    cr_assert_eq(again, n);
    cr_assert_eq(memcmp(bytes, second, n), 0);
}

Test(plan_io, constants_that_were_packed_are_left_out)
{
    make_plan();
    size_t with, without;
    written(plan, &with);
    plan->prepack.n = 0;
    plan->constants.at[1].data = plan->constants.at[0].data;
    unsigned char *bytes = written(plan, &without);
    NstPlan *back;
    cr_assert_eq(nst_plan_read(&ctx, ctx.arena, bytes, without, model, sizeof model, &back), NST_OK, "%s", ctx.error);
    cr_assert_null(back->constants.at[0].data);
    cr_assert_not_null(back->constants.at[1].data);
}

/* What a run would take for strings must be strings that the file has. */
static void expect_damage(const char *text)
{
    size_t n;
    unsigned char *bytes = written(plan, &n);
    NstPlan *back;
    cr_assert_eq(nst_plan_read(&ctx, ctx.arena, bytes, n, model, sizeof model, &back), NST_E_PARSE);
    cr_assert(strstr(ctx.error, text), "%s", ctx.error);
    nst_ctx_clear(&ctx);
}

Test(plan_io, strings_that_are_not_there_are_damage)
{
    static const uint64_t beyond[2] = {0, 3};
    make_plan();
    NstPlanConst *constant = &plan->constants.at[3], good = *constant;
    constant->data = beyond;
    expect_damage("a string that is not there");
    *constant = good;
    constant->bytes = 12;
    expect_damage("a constant of no whole strings");
    *constant = good;
    constant->model_offset = 5;
    expect_damage("a constant of no whole strings");
    *constant = good;
    constant->dtype = NST_I64;
    expect_damage("strings in a constant of another type");
    *constant = good;
    plan->outputs.at[2].type.dtype = NST_I64;
    expect_damage("strings in a buffer of another type");
    plan->outputs.at[2].type.dtype = NST_STR;
    plan->inputs.at[0].type.dtype = NST_STR;
    expect_damage("strings as the only value of an input");
    plan->inputs.at[0].type.dtype = NST_F32;
    plan->strings->list.at[2] = plan->strings->list.at[1];
    expect_damage("a string that stands twice");
}

/* Reads what may be damaged: any status but no crash; what is accepted can be written and printed. */
static void read_damaged(const unsigned char *bytes, size_t n)
{
    NstCtx own;
    NstPlan *back;
    cr_assert_eq(nst_ctx_init(&own), NST_OK);
    unsigned char *copy = nst_alloc_aligned(own.arena, n, 64);
    memcpy(copy, bytes, n);
    NstStatus status = nst_plan_read(&own, own.arena, copy, n, model, sizeof model, &back);
    if (status == NST_OK) {
        NstPart *parts;
        int n_parts;
        NstText text;
        nst_text_init(&text, own.arena);
        nst_plan_print(&text, back);
        cr_assert_eq(nst_plan_write(&own, own.arena, back, &parts, &n_parts), NST_OK);
    } else {
        cr_assert_eq(status, NST_E_PARSE);
        cr_assert(strstr(own.error, "damaged: ") != NULL);
    }
    nst_ctx_dispose(&own);
}

Test(plan_io, no_damage_is_more_than_a_status)
{
    make_plan();
    size_t n;
    unsigned char *bytes = written(plan, &n);
    for (size_t k = 0; k < n; k++) read_damaged(bytes, k);
    static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    for (size_t k = 0; k < n; k++) {
        unsigned char old = bytes[k];
        for (size_t v = 0; v < sizeof values; v++) {
            bytes[k] = values[v];
            read_damaged(bytes, n);
        }
        bytes[k] = old ^ 0x10;
        read_damaged(bytes, n);
        bytes[k] = old;
    }
}

Test(plan_io, what_is_no_plan_says_so)
{
    NstPlan *back;
    char *bytes = nst_alloc_aligned(ctx.arena, 128, 64);
    cr_assert_eq(nst_plan_read(&ctx, ctx.arena, bytes, 128, model, sizeof model, &back), NST_E_PARSE);
    cr_assert_str_eq(ctx.error, "the bytes of a plan are damaged: it does not begin as one");
    nst_ctx_clear(&ctx);
    cr_assert_eq(nst_plan_read(&ctx, ctx.arena, bytes, 0, model, sizeof model, &back), NST_E_PARSE);
    nst_ctx_clear(&ctx);
    cr_assert_eq(nst_plan_read(&ctx, ctx.arena, bytes + 1, 64, model, sizeof model, &back), NST_E_INVALID);
}
