/* test_target.c: ir/target.h on whatever machine runs the tests. */
#define _GNU_SOURCE /* NOLINT: sigaltstack */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include "ir/expr.h"
#include "ir/target.h"

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(target, .init = begin, .fini = end);

Test(target, host_is_consistent)
{
    NstTarget host;
    nst_target_host(&host);
    cr_assert_lt(host.level, NST_TARGET_LEVEL_COUNT);
    cr_assert_eq(host.has_fma, host.level >= NST_TARGET_AVX2);
    cr_assert_geq(host.l1_bytes, 8 << 10);
    cr_assert_geq(host.l2_bytes, host.l1_bytes);
    cr_assert_eq(nst_target_lanes(&host, NST_F32), host.vector_bytes / 4);
    cr_assert_lt(strlen(host.features), sizeof host.features - 1);
}

Test(target, every_level_is_made_or_refused_with_what_is_lacking)
{
    NstTarget host, target;
    nst_target_host(&host);
    uint64_t mask = 0;
    for (int level = 0; level < NST_TARGET_LEVEL_COUNT; level++) {
        const char *name = nst_target_level_name((NstTargetLevel)level);
        NstStatus status = nst_target_parse(&ctx, name, &target);
        if (level > (int)host.level) {
            cr_assert_eq(status, NST_E_UNSUPPORTED);
            cr_assert(strstr(ctx.error, "lacks") != NULL, "%s", ctx.error);
            nst_ctx_clear(&ctx);
            continue;
        }
        cr_assert_eq(status, NST_OK);
        cr_assert_eq((int)target.level, level);
        cr_assert_eq(mask & ~target.feature_mask, 0, "levels are not nested");
        mask = target.feature_mask;
    }
    cr_assert_eq(mask, host.feature_mask);
}

/* Linux grants AMX only while every alternate stack is large enough for a signal's frame with tiles. */
Test(target, a_small_alternate_stack_means_no_amx)
{
    NstTarget host;
    static char small[8192];
    stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
    cr_assert_eq(sigaltstack(&stack, NULL), 0);
    nst_target_host(&host);
    cr_assert_lt((int)host.level, (int)NST_TARGET_AMX_INT8);
    cr_assert_eq(nst_target_parse(&ctx, "amx", &host), NST_E_UNSUPPORTED);
}

Test(target, nominal_ones_are_the_same_everywhere)
{
    NstTarget target;
    cr_assert_eq(nst_target_parse(&ctx, "nominal-amx", &target), NST_OK);
    cr_assert_eq((int)target.level, NST_TARGET_AMX_INT8);
    cr_assert(target.nominal);
    cr_assert_eq(target.l2_bytes, 1 << 20);
}

Test(target, an_unknown_name_is_refused)
{
    static const char *const names[] = {"sse9", "", "nominal-", "nominal-host", "nominal-avx2x", "avx2-"};
    NstTarget target;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        cr_assert_eq(nst_target_parse(&ctx, names[k], &target), NST_E_INVALID, "%s", names[k]);
        nst_ctx_clear(&ctx);
    }
}

Test(target, picks_the_widest_tensor_instruction)
{
    NstTarget target;
    cr_assert_eq(nst_target_parse(&ctx, "baseline", &target), NST_OK);
    cr_assert_eq(nst_target_insn(&target, NST_F32, NST_F32, NST_F32), NST_INSN_MULADD_F32);
    cr_assert_eq(nst_target_insn(&target, NST_F16, NST_F16, NST_F16), NST_INSN_COUNT);
    cr_assert_eq(nst_target_insn(&target, NST_U8, NST_I8, NST_I32), NST_INSN_COUNT);
    target.level = NST_TARGET_AVX2;
    cr_assert_eq(nst_target_insn(&target, NST_F32, NST_F32, NST_F32), NST_INSN_FMA_F32_AVX2);
    target.level = NST_TARGET_AMX_INT8;
    static const NstDtype byte[] = {NST_U8, NST_I8};
    for (int k = 0; k < 4; k++) {
        NstTensorInsn insn = nst_target_insn(&target, byte[k / 2], byte[k % 2], NST_I32);
        cr_assert(insn < NST_INSN_COUNT && nst_tensor_insn(insn)->matrix_rows == 16);
        cr_assert_neq(nst_scalar_dot_of(byte[k / 2], byte[k % 2]), NST_OP_NONE);
    }
    cr_assert_eq(nst_target_insn(&target, NST_F64, NST_F64, NST_F64), NST_INSN_FMA_F64_AVX512);
}
