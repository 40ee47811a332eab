/* test_bench_evidence.c: bench/evidence.h. */
#include <criterion/criterion.h>
#include <string.h>
#include "bench/evidence.h"

#define TABLE                                                                                                          \
    "Peaks of this run (GOP/s, one thread): FMA f32 AVX2 118.2;\n\n"                                                   \
    "| row | measured | required | verdict | note |\n| --- | --- | --- | --- | --- |\n"                                \
    "| a product | 99.6 % (117.7) | &ge; 88.0 % | met | kernels 1 |\n"                                                 \
    "| a time | 3 ms |  |  |  |\n"                                                                                     \
    "| tiles | not measured: amx |  | not on this CPU |  |\n"                                                          \
    "| a map | 2.07 x | &le; 1.2 x | **unmet** | copy 4.9 ms |\n"                                                      \
    "| another map | 1.1 x | &le; 1.2 x | met |  |\n\n1 rows unmet."

static const NstEvidence zen = {"AMD EPYC (family 25, model 17, vnni)", "5ce6b67", "2026-11-30", TABLE};

static const char *merged(NstCtx *ctx, const char *old, NstEvidence section)
{
    const char *page = NULL;
    cr_assert_eq(nst_evidence_merge(ctx, old, &section, &page), NST_OK, "%s", ctx->error);
    return page;
}

Test(bench_evidence, first_section_makes_the_page)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    cr_assert_str_eq(
        merged(&ctx, "", zen),
        "# Evidence\n\nWritten by `bench/gates --write`, never by hand: a section a CPU, which a run on that"
        " CPU replaces.\n\n| CPU | date | commit | met | unmet | not on this CPU |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| AMD EPYC (family 25, model 17, vnni) | 2026-11-30 | 5ce6b67 | 2 | 1 | 1 |\n"
        "\n## AMD EPYC (family 25, model 17, vnni)\n\nCommit 5ce6b67, 2026-11-30.\n\n" TABLE "\n");
    nst_ctx_dispose(&ctx);
}

Test(bench_evidence, section_of_the_same_cpu_is_replaced_and_others_stay)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    NstEvidence other = {"Xeon (family 6, model 207, amx)", "abc with changes", "2026-12-01", "| r | 1 | 1 | met |  |"};
    const char *two = merged(&ctx, merged(&ctx, "", zen), other);
    cr_assert(strstr(two, "| Xeon (family 6, model 207, amx) | 2026-12-01 | abc with changes | 1 | 0 | 0 |\n"));
    const char *first = strstr(two, "\n## AMD"), *second = strstr(two, "\n## Xeon");
    cr_assert(first && second && first < second, "a new section stands behind the others");
    cr_assert_str_eq(merged(&ctx, two, other), two, "the same section again changes nothing");

    NstEvidence newer = zen;
    newer.commit = "0123456";
    newer.table = "| r | 1 | 2 | **unmet** |  |";
    const char *page = merged(&ctx, two, newer);
    cr_assert_not(strstr(page, "5ce6b67"));
    cr_assert(strstr(page, "| AMD EPYC (family 25, model 17, vnni) | 2026-11-30 | 0123456 | 0 | 1 | 0 |\n| Xeon"));
    cr_assert_str_eq(strstr(page, "\n## Xeon"), second, "the other section, byte for byte");
    cr_assert_str_eq(merged(&ctx, page, zen), two, "and back");
    nst_ctx_dispose(&ctx);
}

/* A CPU of the same name and other numbers is another one. */
Test(bench_evidence, cpus_of_one_name_have_sections_of_their_own)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    NstEvidence genoa = zen;
    genoa.cpu = "AMD EPYC (family 26, model 2, vnni)";
    const char *page = merged(&ctx, merged(&ctx, "", zen), genoa);
    cr_assert(strstr(page, "\n## AMD EPYC (family 25, model 17, vnni)\n"));
    cr_assert(strstr(page, "\n## AMD EPYC (family 26, model 2, vnni)\n"));
    nst_ctx_dispose(&ctx);
}

Test(bench_evidence, page_of_another_form_is_refused)
{
    static const char *const pages[][2] = {
        {"# Evidence\n\nCommit 5ce6b67, AMD EPYC, 2026-11-30.\n\n| r | 1 | 1 | met |  |\n", "no section"},
        {"# Evidence\n\n## AMD\n\n| r | 1 | 1 | met |  |\n", "'AMD"},
        {"# Evidence\n\n## AMD\n\nCommit 5ce6b67\n\n| r |\n", "commit and date"},
        {"# Evidence\n\n## AMD\n\nsome words\n\n## Xeon\n\nCommit 5ce6b67, 2026-11-30.\n\n| r |\n", "'AMD"}};
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    for (size_t k = 0; k < sizeof pages / sizeof *pages; k++) {
        const char *page;
        cr_assert_eq(nst_evidence_merge(&ctx, pages[k][0], &zen, &page), NST_E_PARSE, "%s", pages[k][0]);
        cr_assert(strstr(ctx.error, pages[k][1]), "%s", ctx.error);
        nst_ctx_clear(&ctx);
    }
    nst_ctx_dispose(&ctx);
}

Test(bench_evidence, cpu_is_named_with_its_numbers)
{
    NstCtx ctx;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    static const char info[] = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
                               "model name\t: AMD EPYC\nstepping\t: 1\n\nprocessor\t: 1\nmodel\t\t: 99\n";
    cr_assert_str_eq(nst_evidence_cpu(ctx.arena, info, "vnni"), "AMD EPYC (family 25, model 17, vnni)");
    cr_assert_str_eq(nst_evidence_cpu(ctx.arena, "", "avx2"), "unknown (family unknown, model unknown, avx2)");
    nst_ctx_dispose(&ctx);
}
