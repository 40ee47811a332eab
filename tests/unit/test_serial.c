/* test_serial.c: time loops inside a kernel: what a step does by tiles and what by rows, and weights that are read there and back,
 * give the interpreter's bits. */
#include <criterion/criterion.h>
#include "tests/unit/support_module.h"

typedef struct SerialCase {
    const char *text, *sizes;
} SerialCase;

static const SerialCase cases[] = {
    /* enough weights for all threads: an odd and an even number of steps */
    {"graph t(x: f32[5, 1, 512], h0: f32[1, 512]) {\n  %r = const f32[512, 512] seed 2\n  %steps = dim_value 5\n"
     "  %last, %all = loop trips %steps while none states %h0 body(%t: i64[], %go: b1[], %h: f32[1, 512]) {\n"
     "    %row = slice start [%t, 0, 0] %x : f32[1, 1, 512]\n    %in = reshape %row : f32[1, 512]\n"
     "    %u = contract \"bk,kj->bj\" %h, %r : f32[1, 512]\n"
     "    %y = map \"tanh(a * 0.05 + b)\" %u, %in : f32[1, 512]\n    yield %go, %y, %y\n  }\n"
     "  return last = %last, all = %all\n}\n",
     NULL},
    /* a step of sums, maxima and maps: a state that is made of its own largest and mean element */
    {"graph t(x: f32[4, n, 90], h0: f32[n, 90]) {\n  %steps = dim_value 4\n"
     "  %last, %all = loop trips %steps while none states %h0 body(%t: i64[], %go: b1[], %h: f32[n, 90]) {\n"
     "    %row = slice start [%t, 0, 0] %x : f32[1, n, 90]\n    %in = reshape %row : f32[n, 90]\n"
     "    %m = reduce \"max(a, b)\" axes [0, 1] keep %h : f32[1, 1]\n    %s = reduce \"a + b\" axes [1] keep lanes 16 "
     "%h : f32[n, 1]\n"
     "    %y = map \"(a + b) / (abs(c) + 1) - d * 0.01\" %h, %in, %m, %s : f32[n, 90]\n"
     "    yield %go, %y, %y\n  }\n  return last = %last, all = %all\n}\n",
     "n=3"},
    /* integers made in the step, and a product of them */
    {"graph t(x: f32[3, 2, 70], h0: f32[2, 70]) {\n  %r = const i8[70, 70] seed 3\n  %steps = dim_value 3\n"
     "  %last = loop trips %steps while none states %h0 body(%t: i64[], %go: b1[], %h: f32[2, 70]) {\n"
     "    %row = slice start [%t, 0, 0] %x : f32[1, 2, 70]\n    %in = reshape %row : f32[2, 70]\n"
     "    %m = reduce \"max(a, b)\" axes [0, 1] keep %h : f32[1, 1]\n"
     "    %q = map \"convert<u8>(convert<i32>(max(min(round(a / (abs(b) + 0.5) * 50) + 100, 255), 0)))\" %h, %m : "
     "u8[2, 70]\n"
     "    %u = contract \"bk,kj->bj\" pre 0 \"convert<i32>(a) - 100\" pre 1 \"convert<i32>(a)\" acc i32 %q, %r : "
     "i32[2, 70]\n"
     "    %y = map \"tanh(convert<f32>(a) * 0.0001) + b * 0.5\" %u, %in : f32[2, 70]\n"
     "    yield %go, %y\n  }\n  return last = %last\n}\n",
     NULL},
    /* a prefix over the leading axis: the others in vectors */
    {"graph t(x: f32[n, 77]) {\n  %y = prefix \"a + b\" axis 0 %x : f32[n, 77]\n  return y = %y\n}\n", "n=6"},
};

static void check(const char *target_name)
{
    NstCtx ctx;
    NstTarget target;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    if (nst_target_parse(&ctx, target_name, &target) == NST_OK)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            ModuleCase test = {.text = cases[k].text, .sizes = cases[k].sizes, .seed = k + 1};
            support_same_on_threads(&ctx, &test, &target, nst_format(ctx.arena, "case %zu", k));
        }
    nst_ctx_dispose(&ctx);
}

Test(serial, baseline)
{
    check("baseline");
}

Test(serial, avx2)
{
    check("avx2");
}

Test(serial, avx512)
{
    check("avx512");
}

/* Weights of more than the cache are asked for ahead, those of less are not. */
Test(serial, small_cache)
{
    NstCtx ctx;
    NstTarget target;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    cr_assert_eq(nst_target_parse(&ctx, "host", &target), NST_OK);
    target.l2_bytes = 1 << 16;
    ModuleCase test = {.text = cases[0].text, .seed = 1};
    support_same_on_threads(&ctx, &test, &target, "a cache of 64 KB");
    nst_ctx_dispose(&ctx);
}
