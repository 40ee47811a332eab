/* test_swept_taps.c: windows over channels apart (one or a few a group), compiled, have the interpreter's bits: taps ordered by what
 * they read, tiles of planes, borders, vectors that hold whole groups. */
#include <criterion/criterion.h>
#include "tests/unit/support_module.h"

/* Groups of c channels and f filters over h x w, kernel kh x kw. */
typedef struct Shape {
    int groups, c, f, h, w, kh, kw, stride, dilation;
} Shape;

static const Shape shapes[] = {
    {165, 1, 1, 7, 40, 3, 3, 1, 1}, /* planes inside, single ones at both borders */
    {165, 1, 1, 2, 40, 3, 3, 1, 1}, /* no plane is inside */
    {163, 1, 1, 9, 41, 5, 3, 1, 1}, {163, 1, 1, 8, 41, 3, 3, 2, 1}, {161, 1, 1, 9, 41, 3, 3, 1, 2},
    {160, 1, 1, 5, 45, 3, 3, 1, 1}, /* whole lines: no planes */
    {37, 1, 1, 5, 9, 3, 3, 1, 1},   {9, 4, 4, 5, 17, 3, 3, 1, 1},   {9, 4, 3, 5, 17, 3, 3, 1, 1},
    {11, 5, 3, 3, 16, 3, 3, 1, 1},  {7, 5, 5, 3, 15, 3, 3, 1, 1},   {7, 3, 5, 3, 15, 3, 3, 2, 1},
    {5, 2, 7, 3, 15, 1, 3, 1, 2},   {6, 7, 9, 3, 8, 3, 3, 1, 1},    {4, 20, 6, 3, 5, 3, 3, 1, 1},
    {6, 3, 4, 4, 17, 3, 3, 1, 1}, /* the channels of a vector's groups are less than a vector */
};

static int out_size(int size, int kernel, const Shape *s)
{
    int pad = s->dilation * (kernel - 1) / 2;
    return (size + 2 * pad - s->dilation * (kernel - 1) - 1) / s->stride + 1;
}

/* Channels last in and out, a bias and a maximum after the product. */
static const char *text_of(NstCtx *ctx, const Shape *s)
{
    int oh = out_size(s->h, s->kh, s), ow = out_size(s->w, s->kw, s), g = s->groups, all = g * s->f;
    int ph = s->dilation * (s->kh - 1) / 2, pw = s->dilation * (s->kw - 1) / 2;
    return nst_format(ctx->arena,
                      "graph t(last: f32[1, %d, %d, %d], bias: f32[1, %d, 1, 1]) {\n"
                      "  %%x = permute [0, 3, 1, 2] %%last\n  %%g = reshape %%x : f32[1, %d, %d, %d, %d]\n"
                      "  %%w = const f32[%d, %d, %d, %d, %d] seed 3\n"
                      "  %%t = window [axis 3 size %d stride %d dilation %d pad %d, %d; axis 4 size %d stride %d "
                      "dilation %d pad %d, %d] %%g\n"
                      "  %%z = contract \"ngchwuv,gfcuv->ngfhw\" %%t, %%w\n"
                      "  %%y = reshape %%z : f32[1, %d, %d, %d]\n  %%b = map \"max(a + b, 0)\" %%y, %%bias\n"
                      "  %%out = permute [0, 2, 3, 1] %%b\n  return y = %%out\n}\n",
                      s->h, s->w, g * s->c, all, g, s->c, s->h, s->w, g, s->f, s->c, s->kh, s->kw, s->kh, s->stride,
                      s->dilation, ph, ph, s->kw, s->stride, s->dilation, pw, pw, all, oh, ow);
}

/* cache_bytes: of L2 and L3, which decide what is prefetched; 0 = this machine's. */
static void check(const char *target_name, int64_t cache_bytes)
{
    NstCtx ctx;
    NstTarget target;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes && nst_target_parse(&ctx, target_name, &target) == NST_OK;
         k++) {
        if (cache_bytes) target.l2_bytes = target.l3_bytes = cache_bytes;
        ModuleCase test = {.text = text_of(&ctx, &shapes[k]), .seed = k + 1};
        ModuleRun wanted = support_run_module(&ctx, &test, &target, NULL, 0);
        for (int threads = 1; threads <= 2; threads++) {
            ModuleRun run = support_run_module(&ctx, &test, &target, NULL, threads);
            support_same_results(&wanted, &run, nst_format(ctx.arena, "shape %zu, %d threads", k, threads));
        }
        wanted = support_interpret_graph(&ctx, &test, &target);
        ModuleRun run = support_run_module(&ctx, &test, &target, NULL, 1);
        support_same_results(&wanted, &run, nst_format(ctx.arena, "shape %zu, against the graph", k));
    }
    nst_ctx_dispose(&ctx);
}

Test(swept_taps, baseline)
{
    check("baseline", 0);
}

Test(swept_taps, avx2)
{
    check("avx2", 0);
}

Test(swept_taps, avx512)
{
    check("avx512", 0);
}

/* All shapes lie past caches of 4 KB: tiles ask for the next one's part of the window. */
Test(swept_taps, past_the_caches)
{
    check("host", 4096);
}
