/* test_open_sizes.c: graphs whose open sizes say less than declared ones do: the same bits compiled for any size, for these sizes,
 * and interpreted. */
#include <criterion/criterion.h>
#include <string.h>
#include "ir/base/status.h"
#include "nestor/session.h"
#include "tests/unit/support_engine.h"

#define MAX_INS 2

SUPPORT_ENGINE_SUITE(open_sizes, .timeout = 110);

typedef struct OpenCase {
    const char *text;
    NstInputShape in[MAX_INS];
} OpenCase;

static NstTensor filled(NstDtype dtype, const NstInputShape *shape)
{
    NstTensor t = {.dtype = dtype, .rank = shape->rank};
    int64_t n = 1;
    for (int k = 0; k < t.rank; k++) n *= t.shape[k] = shape->shape[k];
    t.bytes = (size_t)n * nst_dtype_size(dtype);
    t.data = nst_alloc(ctx.arena, t.bytes + 1);
    for (int64_t k = 0; k < n; k++) {
        int value = (int)(k * 7919 % 251) - 125;
        if (dtype == NST_F32)
            ((float *)t.data)[k] = (float)value / 8;
        else
            ((int8_t *)t.data)[k] = (int8_t)value;
    }
    return t;
}

static NstStatus run(const OpenCase *test, const NstSessionOptions *options, NstTensor *out)
{
    NstText text;
    NstModel *model = NULL;
    NstSession *session = NULL;
    nst_text_init(&text, ctx.arena);
    nst_text_add(&text, "%s", test->text);
    NstNamedTensor in[MAX_INS] = {{0}}, result = {.name = NULL};
    NstStatus status = nst_model_open_memory(engine, "case.nsg", text.at, text.n, &model);
    if (status == NST_OK) status = nst_session_new(model, options, &session);
    uint32_t n = session ? nst_session_input_count(session) : 0;
    for (uint32_t k = 0; k < n && status == NST_OK; k++) {
        NstPort port;
        status = nst_session_input(session, k, &port);
        in[k] = (NstNamedTensor){test->in[k].name, filled(port.dtype, &test->in[k])};
    }
    if (status == NST_OK) status = nst_session_run(session, in, n, &result, 1, NULL);
    *out = result.tensor;
    nst_session_free(session);
    nst_model_free(model);
    return status;
}

static void expect_same(const OpenCase *test, const NstTensor *wanted, const NstSessionOptions *options,
                        const char *how)
{
    NstTensor got;
    NstStatus status = run(test, options, &got);
    cr_assert_eq(status, NST_OK, "%s: %s\n%s", how, nst_error_text(), test->text);
    cr_assert(got.bytes == wanted->bytes && (got.bytes == 0 || memcmp(got.data, wanted->data, got.bytes) == 0),
              "%s differs:\n%s", how, test->text);
    nst_tensor_release(&got);
}

#define OPEN_PRODUCT                                                                                                   \
    "graph g(x: f32[n, k], w: f32[k, 40]) {\n  symbols n, k\n  %y = contract \"ik,kj->ij\" %x, %w : f32[n, 40]\n"      \
    "  return y = %y\n}\n"

static const OpenCase cases[] = {
    /* sums of no block, of one whole, of one element more than a block, of several; also past a block of the cache */
    {OPEN_PRODUCT, {{"x", 2, {20, 0}}, {"w", 2, {0, 40}}}},
    {OPEN_PRODUCT, {{"x", 2, {20, 256}}, {"w", 2, {256, 40}}}},
    {OPEN_PRODUCT, {{"x", 2, {1, 257}}, {"w", 2, {257, 40}}}},
    {OPEN_PRODUCT, {{"x", 2, {20, 700}}, {"w", 2, {700, 40}}}},
    {OPEN_PRODUCT, {{"x", 2, {50, 1600}}, {"w", 2, {1600, 40}}}},
    /* a window of one channel that is longer than a block */
    {"graph g(x: f32[n, m]) {\n  symbols n, m\n  %w = const f32[24, 400] seed 1\n"
     "  %v = window [axis 1 size 400 stride 50 dilation 1 pad 100, 100] %x\n"
     "  %y = contract \"ntk,fk->nft\" %v, %w\n  return y = %y\n}\n",
     {{"x", 2, {2, 1100}}}},
    /* a product of rows and columns of one tensor */
    {"graph g(x: f32[b, k, n]) {\n  symbols b, k, n\n  %y = contract \"bkj,bki->bij\" %x, %x : f32[b, n, n]\n"
     "  return y = %y\n}\n",
     {{"x", 3, {2, 300, 48}}}},
    /* a product with what it is made of, in one kernel that packs the result of its first member: panels, and the rest of them */
    {"graph g(x: f32[n, k], w: f32[k, m]) {\n  symbols n, k, m\n  %y = contract \"ik,kj->ij\" %x, %w : f32[n, m]\n"
     "  %z = contract \"ij,kj->ik\" %y, %y : f32[n, n]\n  return z = %z, y = %y\n}\n",
     {{"x", 2, {17, 3}}, {"w", 2, {3, 15}}}},
    /* a constant operand whose panels have as many elements as an open size says is packed in the run */
    {"graph g(x: f32[n, k]) {\n  symbols n, k\n  %w = const f32[70, 96] seed 1\n"
     "  %y = contract \"ik,kj->ij\" %x, %w : f32[n, 96]\n  return y = %y\n}\n",
     {{"x", 2, {50, 70}}}},
    {"graph g(x: i8[n, k]) {\n  symbols n, k\n  %w = const i8[128, 96] seed 1\n  %a = convert i32 %x\n  %b = convert "
     "i32 %w\n"
     "  %y = contract \"ik,kj->ij\" %a, %b : i32[n, 96]\n  return y = %y\n}\n",
     {{"x", 2, {64, 128}}}},
    {"graph g(x: i8[n, k]) {\n  symbols n, k\n  %w = const i8[128, 96] seed 1\n  %a = convert i32 %x\n"
     "  %s = const i32[1, 1] splat 3\n  %c = map \"a - b\" %a, %s\n  %b = convert i32 %w\n"
     "  %y = contract \"ik,kj->ij\" %c, %b : i32[n, 96]\n  return y = %y\n}\n",
     {{"x", 2, {64, 128}}}},
    /* pads by elements of an axis that may be empty */
    {"graph g(x: f32[n, m]) {\n  symbols n, m\n  %y = pad reflect lo [0, 2] hi [1, 1] %x\n  return y = %y\n}\n",
     {{"x", 2, {3, 5}}}},
    {"graph g(x: f32[n, m]) {\n  symbols n, m\n  %y = pad edge lo [0, 2] hi [1, 1] %x\n  return y = %y\n}\n",
     {{"x", 2, {1, 1}}}},
    {"graph g(x: f32[n, m]) {\n  symbols n, m\n  %y = pad wrap lo [0, 2] hi [0, 0] %x\n  return y = %y\n}\n",
     {{"x", 2, {0, 5}}}},
    /* a pad between elements that crops */
    {"graph g(x: f32[n, m]) {\n  symbols n, m\n  %h = const f32[] splat 0.5\n"
     "  %y = pad constant lo [-1, 0] hi [0, -2] interior [1, 2] %x, %h\n  return y = %y\n}\n",
     {{"x", 2, {3, 4}}}},
    /* rows of two open axes that share weights, their last map by blocks of columns */
    {"graph g(x: f32[n, p, m], w: f32[p, m]) {\n  symbols n, p, m\n  %s = reduce \"a + b\" axes [1, 2] keep %x\n"
     "  %v = reshape %w : f32[1, p, m]\n  %y = map \"(a - b / 40) * c\" %x, %s, %v\n  return y = %y\n}\n",
     {{"x", 3, {40, 33, 4}}, {"w", 2, {33, 4}}}},
    /* a product whose columns are an axis of its rows too, which are prefetched */
    {"graph g(x: f32[b, h, n, 17]) {\n  symbols b, h, n\n  %w = const f32[3, 2, 17, 1] seed 1\n"
     "  %m = reduce \"max(a, b)\" axes [2] keep %x\n  %z = map \"a - b\" %x, %m\n"
     "  %y = contract \"cdik,cdkj->cdij\" %z, %w : f32[b, h, n, 1]\n  return y = %y\n}\n",
     {{"x", 4, {3, 2, 20, 17}}}},
};

Test(open_sizes, give_the_bits_of_declared_ones)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const OpenCase *test = &cases[k];
        NstSessionOptions open = {.strict = 1}, interpreted = {.strict = 1, .interpret = 1}, declared = {.strict = 1};
        NstTensor wanted = {0};
        declared.shapes = test->in;
        declared.n_shapes = test->in[1].name ? 2 : 1;
        cr_assert_eq(run(test, &interpreted, &wanted), NST_OK, "%s\n%s", nst_error_text(), test->text);
        expect_same(test, &wanted, &open, "open");
        expect_same(test, &wanted, &declared, "declared");
        expect_same(test, &wanted, &interpreted, "interpreted");
        nst_tensor_release(&wanted);
    }
}
