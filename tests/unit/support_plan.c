/* support_plan.c: plans made by hand. */
#include "tests/unit/support_plan.h"

NstPlan *nst_test_plan_new(NstArena *arena)
{
    NstPlan *plan = NST_NEW(arena, NstPlan);
    plan->arena = arena;
    plan->dims = nst_dims_new(arena);
    plan->model_name = "test";
    return plan;
}

NstDim nst_test_dim(NstPlan *plan, const char *name)
{
    NstSym sym = nst_dims_find_sym(plan->dims, name, strlen(name));
    if (sym.i == 0) sym = nst_dims_new_sym(plan->dims, NST_SYM_INPUT, name, 0, (int64_t)1 << 40);
    return nst_dim_sym(plan->dims, sym);
}

uint32_t nst_test_buffer(NstPlan *plan, const char *name, NstPlanPlace place, uint32_t index, NstDim n)
{
    NstPlanBuffer buffer = {.name = name, .place = place, .index = index, .dtype = NST_F32, .rank = 1};
    buffer.shape = nst_copy(plan->arena, &n, sizeof n);
    buffer.bytes = nst_dim_mul_const(plan->dims, n, 4);
    nst_vec_push(plan->arena, &plan->buffers, buffer);
    return plan->buffers.n - 1;
}

void nst_test_port(NstPlan *plan, bool output, const char *name, uint32_t buffer)
{
    const NstPlanBuffer *b = &plan->buffers.at[buffer];
    NstPlanPort port = {
        .name = name, .type = nst_tensor_type(plan->arena, b->dtype, b->rank, b->shape), .buffer = buffer};
    if (output)
        nst_vec_push(plan->arena, &plan->outputs, port);
    else
        nst_vec_push(plan->arena, &plan->inputs, port);
}

uint32_t nst_test_kernel(NstPlan *plan, const char *name, bool parallel)
{
    NstPlanKernel kernel = {.name = name, .origin = name, .parallel = parallel};
    nst_vec_push(plan->arena, &plan->kernels, kernel);
    return plan->kernels.n - 1;
}

NstPlanStep *nst_test_step(NstPlan *plan, uint32_t kernel, const uint32_t *buffers, const NstSym *params)
{
    NstPlanStep step = {.kind = NST_STEP_KERNEL, .kernel = kernel};
    while (buffers[step.n_buffers] != UINT32_MAX) step.n_buffers++;
    step.buffer = nst_copy(plan->arena, buffers, step.n_buffers * sizeof *buffers);
    while (params && params[step.n_sizes].i != 0) step.n_sizes++;
    NstDim *size = NST_NEW_ARRAY(plan->arena, NstDim, step.n_sizes);
    for (uint32_t k = 0; k < step.n_sizes; k++) size[k] = nst_dim_sym(plan->dims, params[k]);
    step.size = size;
    nst_vec_push(plan->arena, &plan->steps, step);
    return &plan->steps.at[plan->steps.n - 1];
}

NstTensor nst_test_tensor(float *data, int64_t n)
{
    NstTensor tensor = {.dtype = NST_F32, .rank = 1, .data = data, .bytes = (size_t)n * 4};
    tensor.shape[0] = n;
    return tensor;
}
