/* support_loop.h: for tests of passes on kernels: parse, run on made-up data, compare two kernels bit for bit. */
#ifndef NST_TESTS_SUPPORT_LOOP_H
#define NST_TESTS_SUPPORT_LOOP_H

#include "ir/loop.h"

/* The kernel of a text; fails the test if it does not parse or verify. */
NstKernel *nst_test_parse_kernel(NstCtx *ctx, const char *text);
/* Printed text. [ctx's arena] */
const char *nst_test_kernel_text(NstCtx *ctx, const NstKernel *kernel);
/* Runs both kernels (of equal arguments) with params param[k] on the same data, made from `seed`: small numbers that sum
 * exactly; fails the test if a status or a byte of an argument differs, or if `changed` does not verify. */
void nst_test_same_results(NstCtx *ctx, const NstKernel *given, const NstKernel *changed, const int64_t *param,
                           uint64_t seed);

#endif
