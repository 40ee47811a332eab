/* test_math_near.c: what math_ulp takes for libm's values over a block, and its search, against libm and math_ulp. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "tests/unit/support_math_near.h"

/* Blocks of neighbours: `spread` of them over all floats, one at the start of each exponent, and one that crosses into the
 * next. */
static uint32_t first_of_block(uint32_t k, uint32_t spread)
{
    uint32_t exponent = (k - spread) / 2 << 23;
    if (k < spread) return k * (UINT32_MAX / spread) / BLOCK * BLOCK;
    return (k - spread) % 2 ? exponent : exponent - BLOCK / 2;
}

static void fill(float *x, uint32_t first)
{
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint32_t bits = first + i;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

Test(math_near, values_are_near_those_of_libm)
{
    enum { SPREAD = 500 };
    for (size_t f = 0; f < n_math_functions; f++) {
        const MathFunction *function = &math_functions[f];
        MathArcs arcs = {0};
        float x[BLOCK];
        double near[BLOCK];
        for (uint32_t k = 0; function->exact && k < SPREAD + 2 * 512; k++) {
            fill(x, first_of_block(k, SPREAD));
            math_near(function, &arcs, x, near);
            for (int i = 0; i < BLOCK; i++) {
                double exact = function->exact(x[i]);
                bool same = near[i] == exact || (isnan(near[i]) && isnan(exact));
                cr_assert(same || fabs(near[i] - exact) <= MATH_NEAR * fabs(exact), "%s of %a: %a, libm %a",
                          nst_scalar_info(function->op)->text, x[i], near[i], exact);
            }
        }
    }
}

/* One result of a block that is right otherwise, moved or replaced. */
Test(math_near, search_misses_nothing_beyond_the_limit)
{
    static const double exacts[] = {0,        -0.0,           1,       -1.25,    0x1.8p-126, 0x1.8p-130, 0x1p-149,
                                    0x1p-200, 0x1.fffffep127, 0x1p130, -0x1p300, INFINITY,   -INFINITY,  NAN};
    static const float gots[] = {0,           -0.0f,     1,          0x1.000002p0f,   -1.25f,           0x1.8p-126f,
                                 0x1.8p-130f, 0x1p-149f, -0x1p-149f, 0x1.fffffep127f, -0x1.fffffep127f, INFINITY,
                                 -INFINITY,   NAN};
    static const double flushes[] = {0, 0x1p-126};
    int n = 0, quiet = 0;
    for (size_t e = 0; e < sizeof exacts / sizeof exacts[0]; e++)
        for (size_t g = 0; g < sizeof gots / sizeof gots[0]; g++)
            for (int k = 0; k < 2; k++) {
                float got[BLOCK];
                double near[BLOCK];
                for (int i = 0; i < BLOCK; i++) got[i] = 3, near[i] = 3;
                got[n % BLOCK] = gots[g];
                near[n % BLOCK] = exacts[e];
                double ulp = math_ulp(gots[g], exacts[e], NST_F32, flushes[k]);
                bool found = math_may_exceed(got, near, flushes[k], 0.75);
                cr_expect(found || ulp <= 0.75, "%a for %a, flush %a: %g ulp", gots[g], exacts[e], flushes[k], ulp);
                bool zero = gots[g] == 0 || exacts[e] == 0;
                cr_expect(!found || zero || !(ulp <= 0.75), "%a for %a is searched in vain", gots[g], exacts[e]);
                quiet += !found;
                n++;
            }
    cr_expect(quiet > 0 && quiet < n / 2);
}
