/* test_strip.c: product, scale, mask, softmax, product (attention) as one kernel of strips gives the plain kernels' bits, for
 * whole and partial tiles of queries, fixed and symbolic, for few and many keys, and with masks that are applied apart. */
#include <criterion/criterion.h>
#include <stdio.h>
#include "tests/unit/support_module.h"
#include "tests/unit/support_nest.h"

static const char attention[] =
    "graph attention(q: f32[3, %s, 16], k: f32[3, %s, 16], v: f32[3, %s, 24], mask: f32[%s, %s]) {\n"
    "  %%s = contract \"bqd,bkd->bqk\" %%q, %%k : f32[3, %s, %s]\n"
    "  %%m = reshape %%mask : f32[1, %s, %s]\n"
    "  %%x = map \"a * 0.25 + b\" %%s, %%m : f32[3, %s, %s]\n"
    "  %%t = reduce \"max(a, b)\" axes [2] keep %%x : f32[3, %s, 1]\n"
    "  %%e = map \"exp(a - b)\" %%x, %%t : f32[3, %s, %s]\n"
    "  %%z = reduce \"a + b\" axes [2] keep %%e : f32[3, %s, 1]\n"
    "  %%p = map \"a * (1 / b)\" %%e, %%z : f32[3, %s, %s]\n"
    "  %%o = contract \"bqk,bkd->bqd\" %%p, %%v : f32[3, %s, 24]\n"
    "  return o = %%o\n}\n";

static void check(const char *queries, const char *keys, const char *sizes, NstTargetLevel level)
{
    char text[2048];
    const char *q = queries, *k = keys;
    snprintf(text, sizeof text, attention, q, k, k, q, k, q, k, q, k, q, k, q, q, k, q, q, k, q);
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    NstTarget target = support_target(level);
    ModuleCase test = {.text = text, .sizes = sizes, .seed = 7};
    NstPassOptions plain = {.strict = true, .off = 1u << NST_PASS_SCHEDULE | 1u << NST_PASS_FUSE};
    ModuleRun expected = support_run_module(&ctx, &test, &target, &plain, 0);
    ModuleRun actual = support_run_module(&ctx, &test, &target, NULL, 0);
    cr_assert_eq(actual.n_kernels, 1, "%u kernels", actual.n_kernels);
    support_same_results(&expected, &actual, "strip schedule");
    nst_ctx_dispose(&ctx);
}

Test(strip, attention_is_one_kernel_of_the_same_bits)
{
    check("64", "40", NULL, NST_TARGET_AVX512);
    check("70", "33", NULL, NST_TARGET_AVX512);
    check("20", "8", NULL, NST_TARGET_AVX2);
}

Test(strip, many_keys_go_through_lanes_in_groups)
{
    check("16", "300", NULL, NST_TARGET_AVX2);
    check("17", "257", NULL, NST_TARGET_AVX512);
}

Test(strip, symbolic_queries_and_keys)
{
    check("n", "m", "n=70 m=50", NST_TARGET_AVX512);
    check("n", "m", "n=3 m=1", NST_TARGET_AVX512);
}

/* Masks that the contraction's tiles leave to a map over the strip: lines of them, and what is left of rows and keys. */
#define MASKED(keys, type, formula)                                                                                    \
    "graph attention(q: f32[3, n, 48], k: f32[3, " keys ", 48], v: f32[3, " keys ", 24], mask: " type "[1, n, " keys   \
    "]) {\n"                                                                                                           \
    "  %s = contract \"bqd,bkd->bqk\" %q, %k : f32[3, n, " keys "]\n"                                                  \
    "  %x = map \"" formula "\" %s, %mask : f32[3, n, " keys "]\n"                                                     \
    "  %t = reduce \"max(a, b)\" axes [2] keep %x : f32[3, n, 1]\n"                                                    \
    "  %e = map \"exp(a - b)\" %x, %t : f32[3, n, " keys "]\n"                                                         \
    "  %z = reduce \"a + b\" axes [2] keep %e : f32[3, n, 1]\n"                                                        \
    "  %p = map \"a * (1 / b)\" %e, %z : f32[3, n, " keys "]\n"                                                        \
    "  %o = contract \"bqk,bkd->bqd\" %p, %v : f32[3, n, 24]\n"                                                        \
    "  return o = %o\n}\n"

static const SizedCase masked[] = {
    {MASKED("43", "b1", "select(b, a * 0.25, -4)"), {"n=21"}},
    {MASKED("48", "f32", "a * 0.25 + b"), {"n=37"}},
    {MASKED("m", "f32", "a * 0.25 + b"), {"n=9 m=35"}},
};

Test(strip, masks_apart_avx2)
{
    support_same_on_target(masked, sizeof masked / sizeof *masked, "avx2");
}

Test(strip, masks_apart_avx512)
{
    support_same_on_target(masked, 1, "avx512");
}
