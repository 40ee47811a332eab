/* check_online.c: rows of many keys in chunks of them: the scheduled and compiled form gives the bits of the plain loops for any number of
 * threads, queries and ways to know the sizes, one chunk those of the plain form, and several what the graph says but for roundings; rows
 * that are masked, in part or whole, and what keeps rows whole. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "passes/online.h"
#include "tests/unit/support_module.h"
#include "tests/unit/support_nest.h"

#define HEADS 2
#define WIDE  4

/* Roundings of sums of 4,096 terms of one sign, and of exps of scores that differ by roundings. */
#define TOLERANCE 2e-5

static const NstPassOptions all, strict = {.strict = true};
static const char soft_cap[] = "20 * tanh((a * 0.25 + b) * 0.05)", scale_and_mask[] = "a * 0.25 + b";

/* A softmax of scores and its product with values; q and k: numbers or the names of sizes. */
static const char *attention(NstCtx *ctx, const char *q, const char *k, const char *formula, const char *more)
{
    bool open_q = *q == 'n', open_k = *k == 'm';
    const char *symbols = open_q && open_k ? "  symbols n in 1..4096, m in 1..8192\n"
                          : open_q         ? "  symbols n in 1..4096\n"
                          : open_k         ? "  symbols m in 1..8192\n"
                                           : "";
    return nst_format(ctx->arena,
                      "graph g(q: f32[2, %s, 4], k: f32[2, %s, 4], v: f32[2, %s, 4], mask: f32[1, %s, %s]) {\n%s"
                      "  %%s = contract \"bqd,bkd->bqk\" %%q, %%k\n"
                      "  %%x = map \"%s\" %%s, %%mask\n"
                      "  %%t = reduce \"max(a, b)\" axes [2] keep %%x\n"
                      "  %%e = map \"exp(a - b)\" %%x, %%t\n"
                      "  %%z = reduce \"a + b\" axes [2] keep %%e\n"
                      "  %%p = map \"a / b\" %%e, %%z\n"
                      "  %%o = contract \"bqk,bkd->bqd\" %%p, %%v\n"
                      "  return o = %%o%s\n}\n",
                      q, k, k, q, k, symbols, formula, more);
}

typedef struct Inputs {
    NstTensorValue at[4];
    int64_t queries, keys;
} Inputs;

static NstTensorValue tensor(NstCtx *ctx, int64_t a, int64_t b, int64_t c, uint64_t seed)
{
    NstTensorValue t = {.dtype = NST_F32, .rank = 3, .shape = {a, b, c}, .bytes = (size_t)(a * b * c) * 4};
    t.data = nst_alloc_aligned(ctx->arena, t.bytes + 64, 64);
    nst_const_fill_seeded(NST_F32, t.data, (size_t)(a * b * c), seed);
    return t;
}

/* Masked: row 0 whole, row 1 all but the last key, row 2 the first chunk, row 3 after it, of the others what is later than the query. */
static Inputs make_inputs(NstCtx *ctx, int64_t queries, int64_t keys, bool masked)
{
    Inputs in = {.queries = queries, .keys = keys};
    in.at[0] = tensor(ctx, HEADS, queries, WIDE, 1);
    in.at[1] = tensor(ctx, HEADS, keys, WIDE, 2);
    in.at[2] = tensor(ctx, HEADS, keys, WIDE, 3);
    in.at[3] = tensor(ctx, 1, queries, keys, 4);
    float *mask = in.at[3].data, *q = in.at[0].data;
    for (int64_t k = 0; k < HEADS * queries * WIDE; k++) q[k] *= 40; /* maxima that rise by more than roundings */
    for (int64_t r = 0; masked && r < queries; r++)
        for (int64_t k = 0; k < keys; k++) {
            bool off = r == 0   ? true
                       : r == 1 ? k + 1 < keys
                       : r == 2 ? k < NST_ONLINE_CHUNK
                       : r == 3 ? k >= NST_ONLINE_CHUNK
                                : k > (r + 1) * keys / queries;
            if (off) mask[r * keys + k] = -INFINITY;
        }
    return in;
}

static ModuleRun run(NstCtx *ctx, const char *text, const char *orders, const Inputs *in, const NstTarget *target,
                     const NstPassOptions *options, int threads)
{
    ModuleCase test = {.text = text, .orders = orders, .input = in->at};
    test.sizes = nst_format(ctx->arena, "%s%s",
                            strstr(text, "symbols n") ? nst_format(ctx->arena, "n=%ld ", (long)in->queries) : "",
                            strstr(text, "m in") ? nst_format(ctx->arena, "m=%ld", (long)in->keys) : "");
    return support_run_module(ctx, &test, target, options, threads);
}

static bool has_chunks(const ModuleRun *of)
{
    for (uint32_t g = 0; g < of->module->groups.n; g++)
        for (uint32_t k = 0; k < of->module->groups.at[g]->items.n; k++) {
            const NstGroup *inner = of->module->groups.at[g]->items.at[k].group;
            if (inner && inner->serial) return true;
        }
    return false;
}

/* The same bits, or NaN, whose sign and payload nobody promises, at the same places. */
static void same(const ModuleRun *wanted, const ModuleRun *actual, const char *what)
{
    const float *a = wanted->result[0], *b = actual->result[0];
    cr_assert_eq(wanted->bytes[0], actual->bytes[0]);
    for (size_t k = 0; k < wanted->bytes[0] / 4; k++) {
        if (isnan(a[k]) && isnan(b[k])) continue;
        cr_assert_arr_eq(&a[k], &b[k], 4, "%s: element %zu is %a, wanted %a", what, k, (double)b[k], (double)a[k]);
    }
}

/* The same numbers but for roundings, and NaN at the same places. */
static void near(const ModuleRun *wanted, const ModuleRun *actual, const char *what)
{
    const float *a = wanted->result[0], *b = actual->result[0];
    cr_assert_eq(wanted->bytes[0], actual->bytes[0]);
    for (size_t k = 0; k < wanted->bytes[0] / 4; k++) {
        if (isnan(a[k]) && isnan(b[k])) continue;
        cr_assert(fabsf(a[k] - b[k]) <= TOLERANCE, "%s: element %zu is %g, wanted %g", what, k, (double)b[k],
                  (double)a[k]);
    }
}

static const char *number(NstCtx *ctx, int64_t n)
{
    return nst_format(ctx->arena, "%ld", (long)n);
}

/* One case: plain loops, schedule, `least` (0: interpreted) to `most` threads, sizes open, all of the same bits and near to the strict
 * form. */
static void check(NstCtx *ctx, const NstTarget *target, int least, int most, int64_t queries, int64_t keys,
                  const char *formula, bool masked)
{
    const char *what = nst_format(ctx->arena, "%ld queries, %ld keys, %s", (long)queries, (long)keys, formula);
    Inputs in = make_inputs(ctx, queries, keys, masked);
    const char *open = attention(ctx, "n", "m", formula, "");
    const char *fixed = attention(ctx, number(ctx, queries), number(ctx, keys), formula, "");
    NstPassOptions plain = {.off = UINT64_C(1) << NST_PASS_SCHEDULE};
    ModuleRun wanted = run(ctx, fixed, open, &in, target, &plain, least);
    ModuleRun exact = run(ctx, fixed, open, &in, target, &strict, most > 0);
    cr_assert_eq(has_chunks(&wanted), keys > NST_ONLINE_CHUNK, "%s", what);
    near(&exact, &wanted, what);
    for (int threads = least; threads <= most; threads++) {
        ModuleRun actual = run(ctx, fixed, open, &in, target, &all, threads);
        cr_assert_eq(actual.n_kernels, 1, "%s: %u kernels", what, actual.n_kernels);
        same(&wanted, &actual, nst_format(ctx->arena, "%s, %d threads", what, threads));
        if (threads == 0) continue; /* slow, and no other code than what compiles */
        actual = run(ctx, open, NULL, &in, target, &all, threads);
        cr_assert(has_chunks(&actual) && actual.n_kernels == 1, "%s, open: %u kernels", what, actual.n_kernels);
        same(&wanted, &actual, nst_format(ctx->arena, "%s, open, %d threads", what, threads));
    }
}

/* Interpreted on any machine, compiled where it has the instructions. */
static void check_level(NstTargetLevel level)
{
    NstCtx ctx;
    NstTarget target = support_target(level), host;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    int most = nst_target_parse(&ctx, nst_target_level_name(level), &host) == NST_OK ? 2 : 0;
    check(&ctx, &target, 0, most, 5, NST_ONLINE_CHUNK + 3, soft_cap, true);
    if (most && level > NST_TARGET_BASELINE) { /* compiling takes most of the time */
        check(&ctx, &target, 1, most, 9, NST_ONLINE_CHUNK, scale_and_mask, false);
        check(&ctx, &target, 1, most, 20, 2 * NST_ONLINE_CHUNK + 77, scale_and_mask, true);
        check(&ctx, &target, 1, most, 1, 2 * NST_ONLINE_CHUNK, scale_and_mask, false);
    }
    nst_ctx_dispose(&ctx);
}

static void begin_on_host(NstCtx *ctx, NstTarget *target)
{
    cr_assert_eq(nst_ctx_init(ctx), NST_OK);
    cr_assert_eq(nst_target_parse(ctx, "host", target), NST_OK);
}

Test(online, baseline, .timeout = 250)
{
    check_level(NST_TARGET_BASELINE);
}

Test(online, avx2, .timeout = 250)
{
    check_level(NST_TARGET_AVX2);
}

Test(online, avx512, .timeout = 250)
{
    check_level(NST_TARGET_AVX512);
}

Test(online, random_sizes, .timeout = 250)
{
    NstCtx ctx;
    NstTarget target;
    uint64_t x = 88172645463325252u;
    for (int k = 0; k < 2; k++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        begin_on_host(&ctx, &target);
        check(&ctx, &target, 1, 2, 1 + (int64_t)(x % 70), 1 + (int64_t)(x / 128 % 4000),
              x >> 60 & 1 ? soft_cap : scale_and_mask, x >> 61 & 1);
        nst_ctx_dispose(&ctx);
    }
}

Test(online, longer_than_any_strip)
{
    NstCtx ctx;
    NstTarget target;
    begin_on_host(&ctx, &target);
    Inputs in = make_inputs(&ctx, 12, 20000, true);
    const char *text = attention(&ctx, "12", "20000", scale_and_mask, "");
    ModuleRun exact = run(&ctx, text, NULL, &in, &target, &strict, 1);
    ModuleRun chunks = run(&ctx, text, NULL, &in, &target, &all, 2);
    cr_assert(!has_chunks(&exact) && exact.n_kernels > 1);
    cr_assert(has_chunks(&chunks) && chunks.n_kernels == 1);
    near(&exact, &chunks, "20,000 keys");
    nst_ctx_dispose(&ctx);
}

Test(online, a_row_does_not_depend_on_the_others)
{
    NstCtx ctx;
    NstTarget target;
    begin_on_host(&ctx, &target);
    Inputs many = make_inputs(&ctx, 37, 2500, false), one = make_inputs(&ctx, 1, 2500, false);
    for (int head = 0; head < HEADS; head++)
        memcpy((float *)one.at[0].data + head * WIDE, (float *)many.at[0].data + (head * 37 + 36) * WIDE,
               WIDE * sizeof(float));
    memcpy(one.at[3].data, (float *)many.at[3].data + 36 * 2500, 2500 * sizeof(float));
    ModuleRun a = run(&ctx, attention(&ctx, "37", "2500", scale_and_mask, ""), NULL, &many, &target, &all, 1);
    ModuleRun b = run(&ctx, attention(&ctx, "1", "2500", scale_and_mask, ""), NULL, &one, &target, &all, 1);
    for (int head = 0; head < HEADS; head++)
        cr_assert_arr_eq((float *)a.result[0] + (head * 37 + 36) * WIDE, (float *)b.result[0] + head * WIDE,
                         WIDE * sizeof(float), "head %d", head);
    nst_ctx_dispose(&ctx);
}

/* What is read beside keeps its row whole: the probabilities as a result, another use of the scores. */
Test(online, rows_that_others_read_stay_whole)
{
    NstCtx ctx;
    NstTarget target = support_target(NST_TARGET_AVX2);
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    Inputs in = make_inputs(&ctx, 9, 1100, false);
    for (int k = 0; k < 2; k++) {
        const char *more = k ? ", s = %x" : ", p = %p";
        const char *text = attention(&ctx, "9", "1100", scale_and_mask, more);
        ModuleRun exact = run(&ctx, text, NULL, &in, &target, &strict, 0);
        ModuleRun whole = run(&ctx, text, NULL, &in, &target, &all, 0);
        cr_assert(!has_chunks(&whole), "%s", more);
        near(&exact, &whole, more);
    }
    nst_ctx_dispose(&ctx);
}
