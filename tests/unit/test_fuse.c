/* test_fuse.c: what fusion joins (counted in kernels), and that it keeps every bit. */
#include <criterion/criterion.h>
#include <string.h>
#include "tests/unit/support_module.h"
#include "tests/unit/support_nest.h"

static NstCtx ctx;
static NstTarget target;

static void start(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    target = support_target(NST_TARGET_AVX512);
}

static void stop(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(fuse, .init = start, .fini = stop);

static const NstPassOptions plain = {.strict = true, .off = 1u << NST_PASS_FUSE | 1u << NST_PASS_SCHEDULE};
static const NstPassOptions unscheduled = {.strict = true, .off = 1u << NST_PASS_LAYOUT | 1u << NST_PASS_SCHEDULE};

static const char *names(const ModuleRun *run)
{
    char *text = nst_format(ctx.arena, "%u kernels:", run->n_kernels);
    for (uint32_t k = 0; k < run->n_kernels; k++) {
        const NstGroup *group = run->kernel[k].group;
        text = nst_format(ctx.arena, "%s %s (%s)", text, group->name, group->why_not_fused ? group->why_not_fused : "");
    }
    return text;
}

/* Runs without and with fusion, without and with schedules, and counts kernels. */
static void check(const char *text, const char *sizes, uint32_t kernels)
{
    ModuleCase test = {.text = text, .sizes = sizes, .seed = 3, .index_limit = 4};
    ModuleRun want = support_interpret_graph(&ctx, &test, &target);
    ModuleRun unfused = support_run_module(&ctx, &test, &target, &plain, 0);
    support_same_results(&want, &unfused, "one nest a primitive");
    ModuleRun fused = support_run_module(&ctx, &test, &target, &unscheduled, 0);
    support_same_results(&want, &fused, names(&fused));
    ModuleRun scheduled = support_run_module(&ctx, &test, &target, NULL, 0);
    support_same_results(&want, &scheduled, names(&scheduled));
    NstTarget host;
    nst_target_host(&host);
    if (host.has_fma) {
        ModuleRun compiled = support_run_module(&ctx, &test, &host, NULL, 2);
        support_same_results(&want, &compiled, "compiled");
    }
    cr_expect_eq(fused.n_kernels, kernels, "%s", names(&fused));
}

Test(fuse, chain_of_maps)
{
    check("graph g(x: f32[4, 40], y: f32[1, 40], z: f32[4, 1]) {\n"
          "  %a = map \"a + b\" %x, %y\n  %b = map \"a * b\" %a, %z\n  %c = map \"max(a, 0)\" %b\n"
          "  %s = slice start [0, 4] step [1, 2] %c : f32[4, 16]\n  %d = map \"a * 3\" %s\n"
          "  %cc = concat axis 1 %d, %x : f32[4, 56]\n  %e = map \"a + 1\" %cc\n"
          "  %t = permute [1, 0] %e : f32[56, 4]\n  %f = map \"exp(a)\" %t\n"
          "  return f = %f\n}\n",
          NULL, 1);
}

Test(fuse, map_with_two_readers_stays_when_dear)
{
    check("graph g(x: f32[4, 40]) {\n  %e = map \"exp(a)\" %x\n  %a = map \"a + 1\" %e\n"
          "  %b = map \"a * 2\" %e\n  return a = %a, b = %b\n}\n",
          NULL, 1);
}

Test(fuse, softmax)
{
    check("graph g(x: f32[6, 100]) {\n  %m = reduce \"max(a, b)\" axes [1] keep %x\n"
          "  %d = map \"a - b\" %x, %m\n  %e = map \"exp(a)\" %d\n  %s = reduce \"a + b\" axes [1] keep %e\n"
          "  %r = map \"1 / a\" %s\n  %y = map \"a * b\" %e, %r\n  return y = %y\n}\n",
          NULL, 1);
}

Test(fuse, softmax_of_symbolic_size)
{
    check("graph g(x: f32[b, n]) {\n  symbols b in 1..64, n in 1..4096\n  %m = reduce \"max(a, b)\" axes [1] keep %x\n"
          "  %d = map \"a - b\" %x, %m\n  %e = map \"exp(a)\" %d\n  %s = reduce \"a + b\" axes [1] keep %e\n"
          "  %y = map \"a / b\" %e, %s\n  return y = %y\n}\n",
          "b=3 n=77", 1);
}

Test(fuse, layer_norm)
{
    check("graph g(x: f32[2, 3, 70], g: f32[1, 1, 70], b: f32[1, 1, 70]) {\n"
          "  %s = reduce \"a + b\" axes [2] keep %x\n  %m = map \"a / 70\" %s\n  %d = map \"a - b\" %x, %m\n"
          "  %q = map \"a * a\" %d\n  %v = reduce \"a + b\" axes [2] keep %q\n"
          "  %r = map \"1 / sqrt(a / 70 + 0.00001)\" %v\n  %n = map \"a * b\" %d, %r\n"
          "  %y = map \"a * b + c\" %n, %g, %b\n  return y = %y\n}\n",
          NULL, 1);
}

Test(fuse, convolution_with_bias_residual_and_activation)
{
    check("graph g(x: f32[1, 4, 9, 9], r: f32[1, 8, 5, 5]) {\n"
          "  %w = window [axis 2 size 3 stride 2 dilation 1 pad 1, 1; axis 3 size 3 stride 2 dilation 1 pad 1, 1] %x\n"
          "  %k = const f32[8, 4, 3, 3] seed 3\n  %c = contract \"nchwuv,fcuv->nfhw\" %w, %k\n"
          "  %b = const f32[1, 8, 1, 1] seed 4\n  %a = map \"a + b\" %c, %b\n"
          "  %p = map \"a * 2\" %r\n  %z = map \"max(a + b, 0)\" %a, %p\n  return z = %z\n}\n",
          NULL, 1);
}

/* Joining with the copy that writes a result moves a product to the end: the next one is not left out for it. */
Test(fuse, every_one_of_many_products_gets_its_epilogue)
{
    NstText head, body, end;
    nst_text_init(&head, ctx.arena);
    nst_text_init(&body, ctx.arena);
    nst_text_init(&end, ctx.arena);
    for (int k = 0; k < 9; k++) {
        nst_text_add(&head, "%sx%d: f32[4, 8]", k ? ", " : "", k);
        nst_text_add(&body,
                     "  %%w%d = const f32[8, 6] seed %d\n  %%c%d = contract \"ik,kj->ij\" %%x%d, %%w%d\n"
                     "  %%a%d = map \"a + 1\" %%c%d\n  %%y%d = permute [1, 0] %%a%d\n",
                     k, k, k, k, k, k, k, k, k);
        nst_text_add(&end, "%sy%d = %%y%d", k ? ", " : "", k, k);
    }
    NstText all;
    nst_text_init(&all, ctx.arena);
    nst_text_add(&all, "graph g(%s) {\n%s  return ", nst_text_get(&head), nst_text_get(&body));
    nst_text_add(&all, "%s\n}\n", nst_text_get(&end));
    check(nst_text_get(&all), NULL, 9);
}

Test(fuse, attention)
{
    check("graph g(q: f32[2, 20, 16], k: f32[2, 40, 16], v: f32[2, 40, 16], mask: f32[1, 20, 40]) {\n"
          "  %s = contract \"hqd,hkd->hqk\" %q, %k\n  %m = map \"a * 0.25 + b\" %s, %mask\n"
          "  %x = reduce \"max(a, b)\" axes [2] keep %m\n  %e = map \"exp(a - b)\" %m, %x\n"
          "  %t = reduce \"a + b\" axes [2] keep %e\n  %r = map \"1 / a\" %t\n  %p = map \"a * b\" %e, %r\n"
          "  %o = contract \"hqk,hkd->hqd\" %p, %v\n  %w = permute [1, 0, 2] %o\n"
          "  %y = reshape %w : f32[20, 32]\n  return y = %y\n}\n",
          NULL, 1);
}

Test(fuse, split_heads)
{
    check("graph g(x: f32[6, 32]) {\n  %w = const f32[32, 24] seed 5\n  %y = contract \"ik,kj->ij\" %x, %w\n"
          "  %h = reshape %y : f32[6, 3, 8]\n  %t = permute [1, 0, 2] %h : f32[3, 6, 8]\n  return t = %t\n}\n",
          NULL, 1);
}

Test(fuse, gather_and_prefix_keep_their_place)
{
    check("graph g(x: f32[4, 8], i: i64[5]) {\n  %a = map \"a * 2\" %x\n  %g = gather axis 0 %a, %i\n"
          "  %b = map \"a + 1\" %g\n  %p = prefix \"a + b\" axis 1 %b\n  %c = map \"a * a\" %p\n"
          "  return c = %c\n}\n",
          NULL, 2);
}

Test(fuse, transposing_maps)
{
    check("graph g(x: f32[2, 37, 50], b: f32[1, 37, 1], c: f32[1, 1, 37]) {\n  %a = map \"max(a * 2 + b, 0)\" %x, %b\n"
          "  %t = permute [0, 2, 1] %a\n  %y = map \"a + b\" %t, %c\n  return y = %y\n}\n",
          NULL, 1);
    check("graph g(x: f32[a, b], z: f32[b, a]) {\n  symbols a in 1..100, b in 1..100\n  %t = permute [1, 0] %x\n"
          "  %y = map \"a * b\" %t, %z\n  return y = %y\n}\n",
          "a=35 b=70", 1);
}

Test(fuse, recurrent_layer)
{
    check("graph g(x: f32[5, 1, 32], h0: f32[1, 16], c0: f32[1, 16]) {\n"
          "  %w = const f32[64, 32] seed 1\n  %r = const f32[64, 16] seed 2\n  %steps = dim_value 5\n"
          "  %p = contract \"tni,gi->tng\" %x, %w\n"
          "  %hn, %cn, %all = loop trips %steps while none states %h0, %c0 body(t: i64[], go: b1[], h: f32[1, 16], "
          "c: f32[1, 16]) {\n"
          "    %px = slice start [%t, 0, 0] %p : f32[1, 1, 64]\n    %p0 = reshape %px : f32[1, 64]\n"
          "    %rh = contract \"nh,gh->ng\" %h, %r\n    %s = map \"a + b\" %p0, %rh\n"
          "    %i = slice start [0, 0] %s : f32[1, 16]\n    %o = slice start [0, 16] %s : f32[1, 16]\n"
          "    %f = slice start [0, 32] %s : f32[1, 16]\n    %g = slice start [0, 48] %s : f32[1, 16]\n"
          "    %c1 = map \"sigmoid(a) * b + sigmoid(c) * tanh(d)\" %f, %c, %i, %g\n"
          "    %h1 = map \"sigmoid(a) * tanh(b)\" %o, %c1\n    yield %go, %h1, %c1, %h1\n  }\n"
          "  return all = %all, hn = %hn, cn = %cn\n}\n",
          NULL, 6);
}

Test(fuse, pools_and_padding)
{
    check("graph g(x: f32[1, 3, 8, 8]) {\n  %a = map \"max(a, 0)\" %x\n"
          "  %w = window [axis 2 size 2 stride 2 dilation 1 pad 0, 0; axis 3 size 2 stride 2 dilation 1 pad 0, 0] %a\n"
          "  %p = reduce \"max(a, b)\" axes [4, 5] %w\n  %q = map \"a * 2\" %p\n"
          "  %z = const f32[] splat 0.5f32\n  %d = pad constant lo [0, 0, 1, 1] hi [0, 0, 1, 1] %q, %z\n"
          "  %s = reduce \"a + b\" axes [2, 3] %d\n  return s = %s\n}\n",
          NULL, 2);
}

/* Trees level by level: what a gather's index reads joins it too, also where the place it is read at is an index-let's. */
/* Where a row's conditions change depends on the row. */
Test(fuse, windows_of_rows_with_padding)
{
    check("graph g(p: f32[7, 2], w: f32[7, 2, 3]) {\n  %c = const f32[] splat 2f32\n"
          "  %x = window [axis 1 size 3 stride 1 dilation 1 pad 1, 1] %p, %c : f32[7, 2, 3]\n"
          "  %e = map \"exp(a)\" %x\n  %s = contract \"abd,abd->ab\" %e, %w\n  return s = %s, e = %e\n}\n",
          NULL, 1);
}

/* A padded window of constants as the operand that would be packed: its copy would read what is not there. */
Test(fuse, windows_of_constants_with_padding)
{
    check("graph g(x: f32[64, 4, 2]) {\n  %k = const f32[7, 24] seed 1\n  %z = const f32[] splat 0f32\n"
          "  %w = window [axis 0 size 2 stride 2 dilation 2 pad 1, 1] %k : f32[4, 24, 2]\n"
          "  %y = contract \"ras,acs->rc\" %x, %w\n  return y = %y\n}\n",
          NULL, 1);
}

Test(fuse, gathers_of_gathers)
{
    check("graph g(x: f32[6, 9], f: i64[35], t: f32[35]) {\n  %r = iota 5\n  %r1 = reshape %r : i64[1, 5]\n"
          "  %b = expand %r1 : i64[6, 5]\n  %j0 = map \"a * 0\" %b\n"
          "  %n0 = map \"a * 7 + b\" %b, %j0\n  %f0 = gather axis 0 clamped %f, %n0\n"
          "  %t0 = gather axis 0 clamped %t, %n0\n  %v0 = gather axis 1 batch 1 clamped %x, %f0\n"
          "  %j1 = map \"2 * a + (b > c ? 2 : 1)\" %j0, %v0, %t0\n"
          "  %n1 = map \"a * 7 + b\" %b, %j1\n  %f1 = gather axis 0 clamped %f, %n1\n"
          "  %t1 = gather axis 0 clamped %t, %n1\n  %v1 = gather axis 1 batch 1 clamped %x, %f1\n"
          "  %j2 = map \"2 * a + (b > c ? 2 : 1)\" %j1, %v1, %t1\n"
          "  %n2 = map \"a * 7 + b\" %b, %j2\n  %f2 = gather axis 0 clamped %f, %n2\n"
          "  %t2 = gather axis 0 clamped %t, %n2\n  %v2 = gather axis 1 batch 1 clamped %x, %f2\n"
          "  %j3 = map \"2 * a + (b > c ? 2 : 1)\" %j2, %v2, %t2\n"
          "  %n3 = map \"a * 7 + b\" %b, %j3\n  %f3 = gather axis 0 clamped %f, %n3\n"
          "  %t3 = gather axis 0 clamped %t, %n3\n  %v3 = gather axis 1 batch 1 clamped %x, %f3\n"
          "  %j4 = map \"2 * a + (b > c ? 2 : 1)\" %j3, %v3, %t3\n"
          "  return j = %j4\n}\n",
          NULL, 1);
}
