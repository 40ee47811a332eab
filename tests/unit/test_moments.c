/* test_moments.c: mean and variance of rows in one pass ("moments"): how exact they are on rows made to make them fail, against
 * double precision, and what rows that are not finite give. */
#include <criterion/criterion.h>
#include "tests/unit/support_module.h"

#include <math.h>

/* Kinds of rows. */
enum { FAR, FARTHER, OUTLIERS_FIRST, OUTLIER_FIRST, OUTLIER_LAST, CONSTANT, RAMP, TINY, ALTERNATING, KINDS };

static double random_in(uint64_t *state) /* -1 .. 1 */
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (double)(*state >> 33) / (double)(1U << 30) - 1;
}

static float element(int kind, int64_t at, int64_t n, uint64_t *state)
{
    double r = random_in(state);
    switch (kind) {
    case FAR: return (float)(1e4 + r);
    case FARTHER: return (float)(-1e6 + 4 * r);
    case OUTLIERS_FIRST: return (float)(at < 16 ? 1e4 : r);
    case OUTLIER_FIRST: return (float)(at == 0 ? 1e6 : r);
    case OUTLIER_LAST: return (float)(at == n - 1 ? 1e6 : r);
    case CONSTANT: return 1234.567F;
    case RAMP: return (float)at + 0.5F;
    case TINY: return (float)(1e-12 * r);
    default: return (float)(at % 2 ? 1e3 + r : -1e3 + r);
    }
}

static const char *norm_text(NstCtx *ctx, int64_t rows, int64_t n)
{
    return nst_format(ctx->arena,
                      "graph t(x: f32[%lld, %lld]) {\n"
                      "  %%s = reduce \"a + b\" axes [1] keep %%x\n  %%n = const f32[1, 1] splat %lldf32\n"
                      "  %%m = map \"a / b\" %%s, %%n\n  %%d = map \"a - b\" %%x, %%m\n  %%q = map \"a * a\" %%d\n"
                      "  %%t = reduce \"a + b\" axes [1] keep %%q\n  %%v = map \"a / b\" %%t, %%n\n"
                      "  %%y = map \"a / sqrt(b + 0.00001)\" %%d, %%v\n  return y = %%y, v = %%v\n}\n",
                      (long long)rows, (long long)n, (long long)n);
}

static ModuleRun run_norm(NstCtx *ctx, const NstTarget *target, bool strict, int64_t rows, int64_t n, float *x)
{
    NstPassOptions options = {.strict = strict};
    NstTensorValue input = {.dtype = NST_F32, .rank = 2, .shape = {rows, n}, .data = x};
    input.bytes = (size_t)(rows * n) * sizeof(float);
    ModuleCase test = {.text = norm_text(ctx, rows, n), .input = &input};
    return support_run_module(ctx, &test, target, &options, 1);
}

/* True if one nest makes both sums. */
static bool sums_once(const ModuleRun *run)
{
    for (uint32_t g = 0; g < run->module->groups.n; g++)
        for (uint32_t k = 0; k < run->module->groups.at[g]->items.n; k++)
            if (run->module->groups.at[g]->items.at[k].nest->n_states == 2) return true;
    return false;
}

static double variance(const float *x, int64_t n)
{
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < n; k++) sum += (double)x[k];
    for (int64_t k = 0; k < n; k++) squares += ((double)x[k] - sum / (double)n) * ((double)x[k] - sum / (double)n);
    return squares / (double)n;
}

/* Roundings (2^-24) of the variance: what sums of lanes make, and n / 16 times a few where all of the pivot are outliers. */
static double roundings(int kind, int64_t n)
{
    double sums = 8 + (double)n / 64;
    return kind == OUTLIERS_FIRST ? sums + 4 * (double)n / 16 : sums;
}

static void check_length(NstCtx *ctx, const NstTarget *target, int64_t n)
{
    float *x = nst_alloc_aligned(ctx->arena, (size_t)(KINDS * n) * sizeof *x + 64, 64);
    uint64_t state = (uint64_t)n;
    for (int kind = 0; kind < KINDS; kind++)
        for (int64_t k = 0; k < n; k++) x[kind * n + k] = element(kind, k, n, &state);
    ModuleRun run = run_norm(ctx, target, false, KINDS, n, x);
    cr_assert(sums_once(&run));
    const float *v = run.result[1];
    for (int kind = 0; kind < KINDS; kind++) {
        double right = variance(x + kind * n, n), error = fabs((double)v[kind] - right);
        double mean = fabs((double)x[kind * n]), rounded = mean * 0x1p-23; /* what the mean may be off by */
        double allowed = roundings(kind, n) * 0x1p-24 * right + 4 * rounded * rounded;
        cr_assert(error <= allowed, "%lld elements, kind %d: variance %.9g, right %.9g: off by %.1f roundings",
                  (long long)n, kind, (double)v[kind], right, error / right * 0x1p24);
    }
}

static void check(const char *target_name)
{
    static const int64_t lengths[] = {2, 3, 16, 17, 100, 768, 4096};
    NstCtx ctx;
    NstTarget target;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    if (nst_target_parse(&ctx, target_name, &target) == NST_OK)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) check_length(&ctx, &target, lengths[k]);
    nst_ctx_dispose(&ctx);
}

Test(moments, exact_enough_baseline)
{
    check("baseline");
}

Test(moments, exact_enough_avx2)
{
    check("avx2");
}

Test(moments, exact_enough_avx512)
{
    check("avx512");
}

/* Rows with a value that is not finite, or whose squares are not, give what two passes give. */
Test(moments, not_finite)
{
    enum { N = 70, ROWS = 5 };
    NstCtx ctx;
    NstTarget target;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    cr_assert_eq(nst_target_parse(&ctx, "host", &target), NST_OK);
    float *x = nst_alloc_aligned(ctx.arena, sizeof(float[ROWS * N]) + 64, 64);
    for (int k = 0; k < ROWS * N; k++) x[k] = (float)(k % 7);
    x[3] = NAN;
    x[N + 40] = INFINITY;
    x[2 * N] = -INFINITY;
    for (int k = 0; k < N; k++) x[3 * N + k] = k % 2 ? 1e20F : -1e20F;
    x[4 * N + 69] = 1e30F;
    ModuleRun one = run_norm(&ctx, &target, false, ROWS, N, x), two = run_norm(&ctx, &target, true, ROWS, N, x);
    cr_assert(sums_once(&one));
    cr_assert(!sums_once(&two));
    const float *a = one.result[0], *b = two.result[0];
    for (int k = 0; k < ROWS * N; k++)
        cr_assert((isnan(a[k]) && isnan(b[k])) || a[k] == b[k], "element %d: %g, in two passes %g", k, (double)a[k],
                  (double)b[k]);
    nst_ctx_dispose(&ctx);
}
