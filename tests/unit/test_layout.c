/* test_layout.c: the layout pass: convolutions and pooling run channels last inside, results and bits stay as they were. */
#include <criterion/criterion.h>
#include "tests/unit/support_module.h"
#include "tests/unit/support_nest.h"

static NstCtx ctx;

static void start(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void stop(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(layout, .init = start, .fini = stop);

static const char network[] =
    "graph net(x: f32[1, 3, 12, 12]) {\n"
    "  %w1 = const f32[20, 3, 3, 3] seed 1\n"
    "  %b1 = const f32[1, 20, 1, 1] seed 2\n"
    "  %w2 = const f32[20, 20, 3, 3] seed 3\n"
    "  %v1 = window [axis 2 size 3 stride 1 dilation 1 pad 1, 1; axis 3 size 3 stride 1 dilation 1 pad 1, 1] %x : "
    "f32[1, 3, 12, 12, 3, 3]\n"
    "  %c1 = contract \"ncyxuv,fcuv->nfyx\" %v1, %w1 : f32[1, 20, 12, 12]\n"
    "  %a1 = map \"max(a + b, 0)\" %c1, %b1 : f32[1, 20, 12, 12]\n"
    "  %vp = window [axis 2 size 2 stride 2 dilation 1 pad 0, 0; axis 3 size 2 stride 2 dilation 1 pad 0, 0] %a1 : "
    "f32[1, 20, 6, 6, 2, 2]\n"
    "  %p = reduce \"max(a, b)\" axes [4, 5] skip_padding %vp : f32[1, 20, 6, 6]\n"
    "  %v2 = window [axis 2 size 3 stride 1 dilation 1 pad 1, 1; axis 3 size 3 stride 1 dilation 1 pad 1, 1] %p : "
    "f32[1, 20, 6, 6, 3, 3]\n"
    "  %c2 = contract \"ncyxuv,fcuv->nfyx\" %v2, %w2 : f32[1, 20, 6, 6]\n"
    "  %r = map \"a + b\" %c2, %p : f32[1, 20, 6, 6]\n"
    "  return r = %r\n}\n";

static const char depthwise[] =
    "graph depthwise(x: f32[1, 20, 9, 9]) {\n"
    "  %w = const f32[20, 3, 3] seed 1\n"
    "  %v = window [axis 2 size 3 stride 2 dilation 1 pad 1, 1; axis 3 size 3 stride 2 dilation 1 pad 1, 1] %x : "
    "f32[1, 20, 5, 5, 3, 3]\n"
    "  %c = contract \"ncyxuv,cuv->ncyx\" %v, %w : f32[1, 20, 5, 5]\n"
    "  return c = %c\n}\n";

static const char grouped[] =
    "graph grouped(x: f32[1, 24, 9, 9]) {\n"
    "  %g = reshape %x : f32[1, 6, 4, 9, 9]\n"
    "  %w = const f32[6, 4, 4, 3, 3] seed 1\n"
    "  %v = window [axis 3 size 3 stride 1 dilation 1 pad 1, 1; axis 4 size 3 stride 1 dilation 1 pad 1, 1] %g : "
    "f32[1, 6, 4, 9, 9, 3, 3]\n"
    "  %c = contract \"ngcyxuv,gfcuv->ngfyx\" %v, %w : f32[1, 6, 4, 9, 9]\n"
    "  %y = reshape %c : f32[1, 24, 9, 9]\n"
    "  return y = %y\n}\n";

/* 30 channels, padded to 32 by all targets; the results of a window, of a pool and of both beside each other; the latter's 60 to 64. */
static const char padded[] =
    "graph padded(x: f32[1, 30, 8, 7]) {\n"
    "  %w1 = const f32[30, 3, 3] seed 1\n  %w2 = const f32[9, 60] seed 2\n"
    "  %v1 = window [axis 2 size 3 stride 1 dilation 1 pad 1, 1; axis 3 size 3 stride 1 dilation 1 pad 1, 1] %x\n"
    "  %c1 = contract \"ncyxuv,cuv->ncyx\" %v1, %w1\n"
    "  %vp = window [axis 2 size 3 stride 1 dilation 1 pad 1, 1; axis 3 size 3 stride 1 dilation 1 pad 1, 1] %c1\n"
    "  %p = reduce \"max(a, b)\" axes [4, 5] skip_padding %vp\n"
    "  %m = map \"exp(a) / (1 + b)\" %p, %c1\n  %s = reduce \"a + b\" axes [1, 2, 3] keep %m\n"
    "  %both = concat axis 1 %p, %m\n"
    "  %c2 = contract \"ncyx,fc->nfyx\" %both, %w2\n  return c = %c2, s = %s\n}\n";

static const char whole_groups[] =
    "graph whole(last: f32[1, 9, 9, 32]) {\n"
    "  %x = permute [0, 3, 1, 2] %last\n  %g = reshape %x : f32[1, 8, 4, 9, 9]\n"
    "  %w = const f32[8, 4, 4, 3, 3] seed 1\n"
    "  %v = window [axis 3 size 3 stride 1 dilation 1 pad 1, 1; axis 4 size 3 stride 1 dilation 1 pad 1, 1] %g\n"
    "  %c = contract \"ngcyxuv,gfcuv->ngfyx\" %v, %w\n"
    "  %y = reshape %c : f32[1, 32, 9, 9]\n  %out = permute [0, 2, 3, 1] %y\n  return y = %out\n}\n";

static ModuleRun check(const char *text, NstTargetLevel level)
{
    NstTarget target = support_target(level);
    ModuleCase test = {.text = text, .seed = 5};
    NstPassOptions plain = {.strict = true,
                            .off = 1u << NST_PASS_FUSE | 1u << NST_PASS_SCHEDULE | 1u << NST_PASS_LAYOUT};
    ModuleRun expected = support_run_module(&ctx, &test, &target, &plain, 0);
    ModuleRun actual = support_run_module(&ctx, &test, &target, NULL, 0);
    support_same_results(&expected, &actual, "layout");
    return actual;
}

static uint32_t buffers_with_innermost(const ModuleRun *run, int axis)
{
    uint32_t n = 0;
    for (uint32_t k = 1; k < run->module->buffers.n; k++) {
        const NstModuleBuffer *item = &run->module->buffers.at[k];
        const NstLayout *layout = &item->buffer.layout;
        bool inside = item->role == NST_ROLE_TEMP && item->buffer.rank == 4;
        n += inside && layout->parts[layout->n_parts - 1].axis == axis;
    }
    return n;
}

Test(layout, a_network_runs_channels_last_inside)
{
    static const NstTargetLevel level[] = {NST_TARGET_BASELINE, NST_TARGET_AVX2, NST_TARGET_AVX512};
    for (size_t k = 0; k < sizeof level / sizeof *level; k++) {
        ModuleRun run = check(network, level[k]);
        cr_assert_geq(buffers_with_innermost(&run, 1), 3, "convolution, pool, result before its copy");
    }
}

Test(layout, depthwise_reads_and_writes_channels_last)
{
    ModuleRun run = check(depthwise, NST_TARGET_AVX512);
    cr_assert_eq(run.n_kernels, 3, "copy in, product, copy out: %u", run.n_kernels);
    cr_assert_eq(buffers_with_innermost(&run, 1), 2);
}

Test(layout, narrow_groups_become_one_column_axis)
{
    check(grouped, NST_TARGET_AVX512);
    check(grouped, NST_TARGET_AVX2);
    NstTarget host;
    nst_target_host(&host);
    if (host.level < NST_TARGET_AVX2) return;
    ModuleCase test = {.text = grouped, .seed = 5};
    ModuleRun expected = support_run_module(&ctx, &test, &host, NULL, 0);
    ModuleRun compiled = support_run_module(&ctx, &test, &host, NULL, 2);
    support_same_results(&expected, &compiled, "compiled");
}

Test(layout, a_pixel_spread_over_several_keeps_channels_last)
{
    static const char spread[] = "graph spread(last: f32[1, 5, 6, 16]) {\n  %x = permute [0, 3, 1, 2] %last\n"
                                 "  %w = const f32[16, 20, 2, 2] seed 3\n"
                                 "  %z = contract \"nchw,cfuv->nfhuwv\" %x, %w\n"
                                 "  %y = reshape %z : f32[1, 20, 10, 12]\n"
                                 "  %out = permute [0, 2, 3, 1] %y\n  return out = %out\n}\n";
    ModuleRun run = check(spread, NST_TARGET_AVX2);
    cr_expect_eq(run.n_kernels, 1, "%u kernels", run.n_kernels);
}

static void check_on_levels(const char *text, const char *what)
{
    static const NstTargetLevel level[] = {NST_TARGET_BASELINE, NST_TARGET_AVX2, NST_TARGET_AVX512};
    NstTarget host;
    nst_target_host(&host);
    for (size_t k = 0; k < sizeof level / sizeof *level && level[k] <= host.level; k++) {
        NstTarget target = support_target(level[k]);
        ModuleCase test = {.text = text, .seed = 5};
        support_same_on_threads(&ctx, &test, &target, what);
        test.unchecked = true;
        support_same_on_threads(&ctx, &test, &target, what);
    }
}

Test(layout, padding_of_channels_is_neither_read_nor_counted)
{
    check_on_levels(padded, "padded");
    ModuleRun run = check(padded, NST_TARGET_AVX512);
    uint32_t n = 0;
    for (uint32_t k = 1; k < run.module->buffers.n; k++) {
        const NstBuffer *buffer = &run.module->buffers.at[k].buffer;
        int64_t elements = 0;
        if (nst_dim_is_const(run.module->dims, buffer->layout.elements, &elements)) n += elements == 8 * 7 * 32;
    }
    cr_assert_geq(n, 2, "%u padded buffers", n);
}

Test(layout, whole_vectors_are_loaded_where_groups_fill_them)
{
    check_on_levels(whole_groups, "whole groups");
}
