/* support_codegen.h: runs a kernel compiled and interpreted on the same data and compares every byte. */
#ifndef NST_TESTS_SUPPORT_CODEGEN_H
#define NST_TESTS_SUPPORT_CODEGEN_H

#include "codegen/codegen.h"
#include "ir/abi.h"
#include "ir/base/os.h"

/* A kernel's code in executable memory. */
typedef struct Compiled {
    NstCode code;
    NstMapping mapping;
    NstKernelFn run;
} Compiled;

/* The buffers of one run. */
typedef struct Data {
    uint32_t n;
    void **at;
    size_t *bytes;
} Data;

/* Asserts success (Criterion); ctx's arena owns everything but the mapping. */
NstKernel *support_parse(NstCtx *ctx, const char *text);
Compiled support_compile(NstCtx *ctx, const NstKernel *kernel, const NstTarget *target, bool bounds_checks);
void support_release(Compiled *compiled);

/* Random buffers for given params: floats are small numbers, one in eight a special value when `specials`; index
 * buffers (i64 and i32 inputs) hold 0 .. index_limit - 1 when that is not 0. */
Data support_data(NstCtx *ctx, const NstKernel *kernel, const int64_t *param, uint64_t seed, bool specials,
                  int64_t index_limit);
Data support_copy(NstCtx *ctx, const Data *data);

/* Runs on 1 to 8 threads; the first status that is not OK, and the error slot. */
NstStatus support_run(NstCtx *ctx, const Compiled *compiled, const Data *data, const int64_t *param, int threads,
                      NstErrorSlot *error, const int32_t *cancel);

/* NULL if every output of two runs is the same (all NaNs of a type are), else what differs first. */
const char *support_difference(NstCtx *ctx, const NstKernel *kernel, const Data *a, const Data *b);

/* Compiles for the target, runs with 1 and 2 threads, interprets, asserts equality. Skips targets the host lacks. */
void support_check(NstCtx *ctx, const NstKernel *kernel, const int64_t *param, const char *target, bool bounds_checks,
                   uint64_t seed, bool specials, int64_t index_limit);
/* The same for a target that the process can run. */
void support_check_on(NstCtx *ctx, const NstKernel *kernel, const int64_t *param, const NstTarget *target,
                      bool bounds_checks, uint64_t seed, bool specials, int64_t index_limit);

#endif
