/* support_nest.c: see support_nest.h. */
#include "tests/unit/support_nest.h"

#include <criterion/criterion.h>
#include <string.h>

NstTarget support_target(NstTargetLevel level)
{
    NstTarget target;
    nst_target_of_level(level, &target);
    target.l1_bytes = 48 << 10;
    target.l2_bytes = 1 << 20;
    target.l3_bytes = 32 << 20;
    return target;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

void support_fill(NstDtype dtype, void *data, size_t elements, uint64_t seed)
{
    uint64_t state = seed * 2654435761u + 1;
    int bytes = nst_dtype_info(dtype)->bytes;
    for (size_t k = 0; k < elements; k++) {
        NstScalar value = {.i = (int64_t)(next(&state) % 7)};
        if (dtype == NST_F32 || dtype == NST_F64) value.f = (float)((double)next(&state) / 1073741824.0 - 1.0);
        if (dtype == NST_BOOL) value.i &= 1;
        nst_scalar_store(dtype, (char *)data + k * (size_t)bytes, value);
    }
}

void **support_interpret(NstCtx *ctx, NstArena *arena, const NstKernel *kernel, const int64_t *param,
                         const uint64_t *arg_key, const void *const *given, size_t *bytes)
{
    uint32_t n_syms = nst_dims_sym_count(kernel->dims) + 1;
    int64_t *value = NST_NEW_ARRAY(arena, int64_t, n_syms);
    for (uint32_t k = 0; k < kernel->params.n; k++) value[kernel->params.at[k].i] = param[k];
    void **data = NST_NEW_ARRAY(arena, void *, kernel->n_args);
    for (uint32_t k = 0; k < kernel->n_args; k++) {
        const NstBuffer *buffer = nst_kernel_buffer(kernel, (NstBuf){k + 1});
        int64_t elements;
        cr_assert_eq(nst_dim_eval(ctx, kernel->dims, buffer->layout.elements, value, n_syms, &elements), NST_OK, "%s",
                     ctx->error);
        bytes[k] = (size_t)elements * (size_t)nst_dtype_info(buffer->dtype)->bytes;
        data[k] = nst_alloc_aligned(arena, bytes[k] + 64, 64);
        if (given && given[k])
            memcpy(data[k], given[k], bytes[k]);
        else if (buffer->access == NST_ACCESS_IN)
            support_fill(buffer->dtype, data[k], (size_t)elements, arg_key[k]);
    }
    NstKernelRun run = {.buffer = data, .buffer_bytes = bytes, .param = param, .has_fma = true, .find_races = true};
    cr_assert_eq(nst_kernel_interpret(ctx, kernel, &run), NST_OK, "%s: %s", kernel->name, ctx->error);
    return data;
}
