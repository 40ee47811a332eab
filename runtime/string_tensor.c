/* string_tensor.c: strings are copied in and out; nothing of the caller's is kept beyond the run, and nothing of the run. */
#include "runtime/string_tensor.h"

#include "runtime/run_state.h"

static NstString string_at(const void *data, size_t k)
{
    NstString s; /* the caller's data may have any alignment */
    memcpy(&s, (const char *)data + k * sizeof s, sizeof s);
    return s;
}

static size_t count_of(const NstTensor *tensor)
{
    size_t n = 1;
    for (int axis = 0; axis < tensor->rank; axis++) n *= (size_t)tensor->shape[axis];
    return n;
}

NstStatus nst_strings_take(NstCtx *ctx, NstStrings *strings, const NstTensor *tensor, const char *name,
                           uint64_t *handle)
{
    size_t n = count_of(tensor);
    const void *data = tensor->data;
    if (n == 0) return NST_OK;
    NstArena *scratch = nst_arena_new(ctx, ctx->arena);
    if (tensor->strides) {
        NstString *dense = NST_NEW_ARRAY(scratch, NstString, n);
        nst_tensor_gather((char *)dense, tensor);
        data = dense;
    }
    for (size_t k = 0; k < n; k++) {
        NstString s = string_at(data, k);
        NST_CHECK(ctx, s.at || s.n == 0, NST_E_INVALID, "input '%s': string %zu is given as NULL with %zu bytes", name,
                  k, s.n);
        NST_CHECK(ctx, s.n <= NST_MAX_STRING_BYTES, NST_E_LIMIT,
                  "input '%s': string %zu has %zu bytes, allowed: at most %zu", name, k, s.n, NST_MAX_STRING_BYTES);
        handle[k] = nst_strings_put(strings, s.n ? s.at : "", s.n);
    }
    nst_arena_free(scratch);
    return NST_OK;
}

/* Bytes of all texts with the zeros behind them. */
static NstStatus text_bytes(NstCtx *ctx, const NstStrings *strings, const uint64_t *handle, size_t n, const char *name,
                            size_t *bytes)
{
    *bytes = 0;
    for (size_t k = 0; k < n; k++) {
        const NstString *s = nst_strings_get(strings, handle[k]);
        NST_CHECK(ctx, s, NST_E_INVALID, "output '%s': element %zu is string %llu, of %llu", name, k,
                  (unsigned long long)handle[k], (unsigned long long)nst_strings_count(strings));
        bool over = __builtin_add_overflow(*bytes, s->n + 1, bytes);
        NST_CHECK(ctx, !over, NST_E_LIMIT, "output '%s': more bytes than there can be", name);
    }
    return NST_OK;
}

NstStatus nst_strings_give(NstCtx *ctx, const NstStrings *strings, const uint64_t *handle, size_t n, const char *name,
                           NstTensor *out)
{
    size_t elements = n * sizeof(NstString), texts, bytes;
    NST_TRY(text_bytes(ctx, strings, handle, n, name, &texts));
    NST_CHECK(ctx, !out->data || out->bytes >= elements, NST_E_INVALID, "output '%s' is given %zu bytes, it has %zu",
              name, out->bytes, elements);
    bool over = __builtin_add_overflow(texts, out->data ? 0 : elements, &bytes);
    char *block = over ? NULL : nst_memory_new(bytes);
    NST_CHECK(ctx, block, NST_E_NOMEM, "no memory for the strings of output '%s'", name);
    char *at = block + (bytes - texts);
    if (!out->data) {
        out->data = block;
        out->bytes = elements;
    }
    out->owned = block;
    for (size_t k = 0; k < n; k++) {
        NstString s = *nst_strings_get(strings, handle[k]);
        memcpy(at, s.at, s.n);
        at[s.n] = '\0';
        s.at = at;
        memcpy((char *)out->data + k * sizeof s, &s, sizeof s);
        at += s.n + 1;
    }
    return NST_OK;
}

void nst_strings_hand_down(const NstStrings *strings, NstStrings *below, uint64_t *handle, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        if (handle[k] < strings->first) continue; /* known below */
        const NstString *s = nst_strings_get(strings, handle[k]);
        handle[k] = s ? nst_strings_put(below, s->at, s->n) : 0;
    }
}
