/* support_plan.h: plans made by hand, with C functions as kernels. */
#ifndef NST_TESTS_SUPPORT_PLAN_H
#define NST_TESTS_SUPPORT_PLAN_H

#include "runtime/exec.h"

NstPlan *nst_test_plan_new(NstArena *arena);
NstDim nst_test_dim(NstPlan *plan, const char *name); /* the INPUT symbol of that name, made if new (0 .. 2^40) */
/* Adds a buffer of f32 of one axis. */
uint32_t nst_test_buffer(NstPlan *plan, const char *name, NstPlanPlace place, uint32_t index, NstDim n);
void nst_test_port(NstPlan *plan, bool output, const char *name, uint32_t buffer);
uint32_t nst_test_kernel(NstPlan *plan, const char *name, bool parallel);
/* A kernel step; buffers end with UINT32_MAX; params end with none. */
NstPlanStep *nst_test_step(NstPlan *plan, uint32_t kernel, const uint32_t *buffers, const NstSym *params);
/* A one-axis f32 tensor over memory. */
NstTensor nst_test_tensor(float *data, int64_t n);

#endif
