/* test_unwritten.c: no lane of a vector computes with memory that nobody wrote.  Where buffers are padded, lanes past the last column
 * are read and dropped; what they hold may be denormal, with which processors compute up to a hundred times as long. */
#include <criterion/criterion.h>

#include "tests/unit/support_module.h"

static const SizedCase cases[] = {
    {"graph product(a: f32[53, 97], w: f32[97, 75]) {\n"
     "  %y = contract \"ik,kj->ij\" %a, %w\n  return y = %y\n}\n",
     {""}},
    {"graph turned(a: f32[53, 97], w: f32[75, 97]) {\n"
     "  %y = contract \"ik,jk->ij\" %a, %w\n  return y = %y\n}\n",
     {""}},
    {"graph wide(a: f64[53, 97], w: f64[97, 75]) {\n"
     "  %y = contract \"ik,kj->ij\" %a, %w\n  return y = %y\n}\n",
     {""}},
    {"graph open(a: f32[m, k], w: f32[n, k]) {\n"
     "  %y = contract \"ik,jk->ij\" %a, %w\n  return y = %y\n}\n",
     {"m=60 k=33 n=47", "m=60 k=33 n=48", "m=1 k=1 n=1"}},
    {"graph batch(a: f32[3, 53, 33], w: f32[3, 75, 33]) {\n"
     "  %y = contract \"bik,bjk->bij\" %a, %w\n  return y = %y\n}\n",
     {""}},
    {"graph convolution(x: f32[1, 19, 9, 9], w: f32[29, 19, 3, 3]) {\n"
     "  %t = window [axis 2 size 3 stride 1 dilation 1 pad 1, 1; axis 3 size 3 stride 1 dilation 1 pad 1, 1] %x\n"
     "  %y = contract \"nchwuv,fcuv->nfhw\" %t, %w\n  return y = %y\n}\n",
     {""}},
    {"graph depthwise(x: f32[1, 47, 9, 9]) {\n  %w = const f32[47, 3, 3] seed 1\n"
     "  %t = window [axis 2 size 3 stride 1 dilation 1 pad 1, 1; axis 3 size 3 stride 1 dilation 1 pad 1, 1] %x\n"
     "  %y = contract \"nchwuv,cuv->nchw\" %t, %w\n"
     "  %u = window [axis 2 size 3 stride 2 dilation 1 pad 1, 1; axis 3 size 3 stride 2 dilation 1 pad 1, 1] %y\n"
     "  %z = contract \"nchwuv,cuv->nchw\" %u, %w\n  return z = %z\n}\n",
     {""}},
    {"graph attention(q: f32[2, 103, 24], k: f32[2, 77, 24], v: f32[2, 77, 28]) {\n"
     "  %s = contract \"hqd,hkd->hqk\" %q, %k\n"
     "  %x = reduce \"max(a, b)\" axes [2] keep %s\n  %e = map \"exp(a - b)\" %s, %x\n"
     "  %t = reduce \"a + b\" axes [2] keep %e\n  %p = map \"a / b\" %e, %t\n"
     "  %o = contract \"hqk,hkd->hqd\" %p, %v\n  return o = %o\n}\n",
     {""}},
};

static void check(const char *target_name)
{
    NstCtx ctx;
    NstTarget target;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    bool here = nst_target_parse(&ctx, target_name, &target) == NST_OK;
    for (size_t k = 0; here && k < sizeof cases / sizeof *cases; k++) {
        for (int s = 0; s < 3 && cases[k].sizes[s]; s++) {
            ModuleCase test = {.text = cases[k].text, .sizes = cases[k].sizes[s], .seed = k + 1, .no_denormals = true};
            ModuleRun wanted = support_interpret_graph(&ctx, &test, &target);
            ModuleRun run = support_run_module(&ctx, &test, &target, NULL, 1);
            support_same_results(&wanted, &run, cases[k].text);
        }
    }
    nst_ctx_dispose(&ctx);
}

Test(unwritten, is_never_computed_with_baseline)
{
    check("baseline");
}

Test(unwritten, is_never_computed_with_avx2)
{
    check("avx2");
}

Test(unwritten, is_never_computed_with_avx512)
{
    check("avx512");
}
