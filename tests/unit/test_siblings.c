/* test_siblings.c: small products of one operand are one kernel, with the same bits; others stay apart. */
#include <criterion/criterion.h>
#include <string.h>
#include "tests/unit/support_module.h"
#include "tests/unit/support_amx.h"

static NstCtx ctx;

static void start(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void stop(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(siblings, .init = start, .fini = stop);

/* True for several products side by side; a packed operand and the rest of its panels are side by side too. */
static bool is_products(const NstGroup *group)
{
    return nst_is_sibling_group(group) && group->items.at[0].tile;
}

/* Kernels of the run, and how many of them are several products side by side. */
static void check(const char *text, uint32_t kernels, uint32_t together)
{
    static const NstTargetLevel levels[] = {NST_TARGET_AVX512, NST_TARGET_AVX2, NST_TARGET_BASELINE};
    ModuleCase test = {.text = text, .sizes = strstr(text, "symbols") ? "n=7" : NULL, .seed = 3, .index_limit = 4};
    for (size_t k = 0; k < sizeof levels / sizeof *levels; k++) {
        NstTarget target;
        if (!support_runnable_target(&ctx, nst_target_level_name(levels[k]), &target)) continue;
        NstPassOptions exact = {.strict = true};
        ModuleRun run = support_run_module(&ctx, &test, &target, &exact, 0);
        uint32_t found = 0;
        for (uint32_t g = 0; g < run.module->groups.n; g++) found += is_products(run.module->groups.at[g]);
        cr_expect_eq(run.module->groups.n, kernels, "%u kernels: %s", run.module->groups.n, text);
        cr_expect_eq(found, together, "%u of siblings: %s", found, text);
        support_same_on_threads(&ctx, &test, &target, text);
    }
}

#define WEIGHT(name, k, n) "  %" name " = const f32[" k ", " n "] seed 1\n"

Test(siblings, sizes_and_epilogues_of_their_own)
{
    check("graph g(x: f32[4, 33]) {\n" WEIGHT("a", "33", "70") WEIGHT("b", "33", "16") WEIGHT(
              "c", "33",
              "200") "  %p = contract \"ik,kj->ij\" %x, %a\n  %q = contract \"ik,kj->ij\" %x, %b\n"
                     "  %r = contract \"ik,kj->ij\" %x, %c\n  %s = map \"tanh(a)\" %q\n  %t = map \"max(a, 0)\" %r\n"
                     "  return p = %p, s = %s, t = %t\n}\n",
          1, 1);
    check("graph g(x: f32[n, 64]) {\n  symbols n in 1..40\n" WEIGHT("a", "64", "64")
              WEIGHT("b", "64", "64") "  %p = contract \"ik,kj->ij\" %x, %a\n  %q = contract \"ik,kj->ij\" %x, %b\n"
                                      "  return p = %p, q = %q\n}\n",
          1, 1);
}

/* Enough of them for two threads, each too little alone. */
Test(siblings, are_dealt_out_together)
{
    check("graph g(x: f32[1, 256]) {\n" WEIGHT("a", "256", "256") WEIGHT("b", "256", "256")
              WEIGHT("c", "256", "256") "  %p = contract \"ik,kj->ij\" %x, %a\n  %q = contract \"ik,kj->ij\" %x, %b\n"
                                        "  %r = contract \"ik,kj->ij\" %x, %c\n  return p = %p, q = %q, r = %r\n}\n",
          1, 1);
}

/* Weights that are made in the run are packed before the kernel of both. */
Test(siblings, operands_packed_while_running)
{
    check("graph g(x: f32[64, 48], u: f32[40, 48], v: f32[24, 48]) {\n"
          "  %p = contract \"ik,jk->ij\" %x, %u\n  %q = contract \"ik,jk->ij\" %x, %v\n"
          "  return p = %p, q = %q\n}\n",
          3, 1);
}

Test(siblings, large_and_dependent_ones_stay)
{
    check("graph g(x: f32[64, 128]) {\n" WEIGHT("a", "128", "128")
              WEIGHT("b", "128", "16") "  %p = contract \"ik,kj->ij\" %x, %a\n  %q = contract \"ik,kj->ij\" %x, %b\n"
                                       "  return p = %p, q = %q\n}\n",
          2, 0);
    /* The second reads what is made of the first. */
    check("graph g(x: f32[4, 32]) {\n" WEIGHT(
              "a", "32", "32") "  %p = contract \"ik,kj->ij\" %x, %a\n  %q = contract \"ik,jk->ij\" %x, %p\n"
                               "  return p = %p, q = %q\n}\n",
          2, 0);
    /* Both write one concat: the order of their stores is kept. */
    check("graph g(x: f32[4, 32]) {\n" WEIGHT("a", "32", "32")
              WEIGHT("b", "32", "48") "  %p = contract \"ik,kj->ij\" %x, %a\n  %q = contract \"ik,kj->ij\" %x, %b\n"
                                      "  %c = concat axis 1 %p, %q\n  %s = reduce \"a + b\" axes [1] keep %c\n"
                                      "  return c = %c, s = %s\n}\n",
          3, 0);
}

/* A kernel has at most eight: the ninth starts another. */
Test(siblings, a_kernel_takes_so_many)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    nst_text_add(&text, "%s", "graph g(x: f32[2, 16]) {\n" WEIGHT("w", "16", "24"));
    for (int k = 0; k < 9; k++)
        nst_text_add(&text, "  %%p%d = contract \"ik,kj->ij\" %%x, %%w\n  %%y%d = map \"a * %d\" %%p%d\n", k, k, k + 2,
                     k);
    nst_text_add(&text, "  return ");
    for (int k = 0; k < 9; k++) nst_text_add(&text, "%sy%d = %%y%d", k ? ", " : "", k, k);
    nst_text_add(&text, "\n}\n");
    check(nst_text_get(&text), 2, 1);
}
