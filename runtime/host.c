/* host.c: the table of host functions, and those that only move data. */
#include "runtime/host.h"

#include <stdio.h>
#include <string.h>
#include "ir/random.h"

#define NST_HOST(name, function, what) NstStatus function(NstHostStep *step);
#include "runtime/host.def"
#undef NST_HOST

NstHostFn nst_host_find(const char *name)
{
    static const struct {
        const char *name;
        NstHostFn function;
    } rows[] = {
#define NST_HOST(name, function, what) {name, function},
#include "runtime/host.def"
#undef NST_HOST
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (strcmp(rows[k].name, name) == 0) return rows[k].function;
    return NULL;
}

NstStatus nst_host_compact(NstHostStep *step)
{
    int axis = -1;
    bool fits = step->n_in >= 1 && step->n_out == step->n_in - 1 && step->in[0].rank == 1 &&
                step->in[0].dtype == NST_BOOL && step->config && sscanf(step->config, "axis %d", &axis) == 1;
    NST_CHECK(step->ctx, fits, NST_E_INVALID, "compact: a step of another form");
    const unsigned char *mask = step->in[0].data;
    int64_t n = step->in[0].shape[0], count = 0;
    for (int64_t i = 0; i < n; i++) count += mask[i] != 0;
    for (uint32_t k = 0; k < step->n_out; k++) {
        const NstTensor *in = &step->in[k + 1];
        NstTensor *out = &step->out[k];
        fits = axis >= 0 && axis < in->rank && in->shape[axis] == n && out->rank == in->rank && out->dtype == in->dtype;
        NST_CHECK(step->ctx, fits, NST_E_SHAPE, "compact: a mask of %lld elements for another axis", (long long)n);
        memcpy(out->shape, in->shape, sizeof out->shape);
        out->shape[axis] = count;
        NST_TRY(step->give(step, k));
        size_t inner = (size_t)nst_dtype_info(in->dtype)->bytes, outer = 1;
        for (int d = 0; d < axis; d++) outer *= (size_t)in->shape[d];
        for (int d = axis + 1; d < in->rank; d++) inner *= (size_t)in->shape[d];
        const char *from = in->data;
        char *to = out->data;
        for (size_t o = 0; o < outer && inner != 0; o++)
            for (int64_t i = 0; i < n; i++, from += inner) {
                if (!mask[i]) continue;
                memcpy(to, from, inner);
                to += inner;
            }
    }
    return NST_OK;
}

NstStatus nst_host_random_bits(NstHostStep *step)
{
    bool fits = step->n_in == 1 && step->n_out == 1 && step->in[0].dtype == NST_I64 && step->in[0].rank == 1 &&
                step->in[0].shape[0] == 2 && step->out[0].dtype == NST_U32;
    NST_CHECK(step->ctx, fits, NST_E_INVALID, "random_bits: a step of another form");
    NST_TRY(step->give(step, 0));
    uint64_t key[2];
    size_t n = 1;
    memcpy(key, step->in[0].data, sizeof key);
    for (int d = 0; d < step->out[0].rank; d++) n *= (size_t)step->out[0].shape[d];
    nst_random_bits(key, step->out[0].data, n);
    return NST_OK;
}
