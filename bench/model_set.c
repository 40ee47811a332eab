/* model_set.c: see model_set.h. */
#include "bench/model_set.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

bool nst_model_row_next(FILE *table, NstModelRow *row)
{
    if (!fgets(row->line, sizeof row->line, table)) return false;
    row->line[strcspn(row->line, "\n")] = '\0';
    char *field[4] = {row->line, NULL, NULL, NULL};
    for (int k = 1; k < 4 && field[k - 1]; k++) {
        field[k] = strchr(field[k - 1], '\t');
        if (field[k]) *field[k]++ = '\0';
    }
    row->name = field[0];
    row->shapes = field[3] ? field[3] : row->line + strlen(row->line);
    char *second = strstr(row->shapes, " | ");
    if (second) *second = '\0';
    return true;
}

/* "1x3x224"; "" is a scalar. */
static bool parse_shape(const char *text, NstInputShape *shape)
{
    shape->rank = 0;
    while (*text) {
        char *end;
        errno = 0;
        long long size = strtoll(text, &end, 10);
        if (end == text || errno || size < 0 || shape->rank == NST_TENSOR_MAX_RANK || (*end && *end != 'x'))
            return false;
        shape->shape[shape->rank++] = size;
        text = *end ? end + 1 : end;
    }
    return true;
}

static NstStatus take_word(NstCtx *ctx, char *word, uint32_t n, const char *const *names, NstModelInputs *inputs)
{
    char *value = strchr(word, '=');
    NST_CHECK(ctx, value, NST_E_INVALID, "'%s' is given, allowed is NAME=SHAPE[:FILL]", word);
    *value++ = '\0';
    char *filling = strchr(value, ':');
    if (filling) *filling++ = '\0';
    for (uint32_t k = 0; k < n; k++) {
        if (strcmp(names[k], word) != 0 && fnmatch(word, names[k], 0) != 0) continue;
        inputs->shape[k].name = names[k];
        inputs->filling[k] = filling ? filling : "";
        NST_CHECK(ctx, parse_shape(value, &inputs->shape[k]), NST_E_INVALID,
                  "shape '%s' of '%s', allowed is like 1x3x224", value, word);
    }
    return NST_OK;
}

NstStatus nst_model_inputs_shape(NstCtx *ctx, NstModelRow *row, uint32_t n, const char *const *names,
                                 NstModelInputs *inputs)
{
    NST_CHECK(ctx, n <= NST_MODEL_MAX_INPUTS, NST_E_LIMIT, "%u inputs, allowed: at most %d", n, NST_MODEL_MAX_INPUTS);
    memset(inputs, 0, sizeof *inputs);
    inputs->n = n;
    char *rest;
    for (char *word = strtok_r(row->shapes, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        NST_TRY(take_word(ctx, word, n, names, inputs));
    for (uint32_t k = 0; k < n; k++)
        NST_CHECK(ctx, inputs->shape[k].name, NST_E_INVALID, "the table has no shape for input '%s'", names[k]);
    return NST_OK;
}

/* SplitMix64's finaliser. */
static uint64_t random_bits(uint64_t i)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Value i of a filling. */
static double value_of(const char *filling, uint64_t i)
{
    if (*filling == '=') return strtod(filling + 1, NULL);
    uint64_t z = random_bits(i), below = strtoull(filling, NULL, 10);
    return below ? (double)(z % below) : (double)(z >> 40) * 0x1p-23 - 1;
}

static NstStatus fill(NstCtx *ctx, const char *filling, NstTensor *tensor)
{
    size_t n = tensor->bytes / nst_dtype_size(tensor->dtype);
    for (size_t i = 0; i < n; i++) {
        double value = value_of(filling, i);
        switch (tensor->dtype) {
        case NST_F32: ((float *)tensor->data)[i] = (float)value; break;
        case NST_F64: ((double *)tensor->data)[i] = value; break;
        case NST_I64: ((int64_t *)tensor->data)[i] = (int64_t)value; break;
        case NST_I32: ((int32_t *)tensor->data)[i] = (int32_t)value; break;
        default: NST_FAIL(ctx, NST_E_UNSUPPORTED, "inputs of type %s are not made here", nst_dtype_name(tensor->dtype));
        }
    }
    return NST_OK;
}

NstStatus nst_model_inputs_fill(NstCtx *ctx, const NstSession *session, NstModelInputs *inputs)
{
    for (uint32_t k = 0; k < inputs->n; k++) {
        NstPort port;
        uint32_t at = 0;
        NST_CHECK(ctx, nst_session_input(session, k, &port) == NST_OK, NST_E_INVALID, "%s", nst_error_text());
        while (at < inputs->n && strcmp(inputs->shape[at].name, port.name) != 0) at++;
        NST_CHECK(ctx, at < inputs->n, NST_E_NOT_FOUND, "there is no shape for input '%s'", port.name);
        const NstInputShape *shape = &inputs->shape[at];
        NstTensor *tensor = &inputs->tensor[at].tensor;
        *tensor = (NstTensor){.dtype = port.dtype, .rank = shape->rank, .bytes = nst_dtype_size(port.dtype)};
        for (int axis = 0; axis < shape->rank; axis++) {
            tensor->shape[axis] = shape->shape[axis];
            tensor->bytes *= (size_t)shape->shape[axis];
        }
        inputs->tensor[at].name = shape->name;
        tensor->data = malloc(tensor->bytes + 1);
        NST_CHECK(ctx, tensor->data, NST_E_NOMEM, "no memory for %zu bytes", tensor->bytes);
        NST_TRY(fill(ctx, inputs->filling[at], tensor));
    }
    return NST_OK;
}

void nst_model_inputs_free(NstModelInputs *inputs)
{
    for (uint32_t k = 0; k < inputs->n; k++) free(inputs->tensor[k].tensor.data);
    inputs->n = 0;
}
