/* inputs.c: engine, model and session of a command line, and the model's inputs. */
#include <stdlib.h>
#include <string.h>
#include "tools/npy.h"
#include "tools/pgm.h"
#include "tools/progress.h"
#include "tools/tool.h"

int tool_open(const ToolOptions *options, bool with_session, ToolOpen *open)
{
    *open = (ToolOpen){NULL, NULL, NULL};
    NstStatus status = nst_engine_new(&options->engine, &open->engine);
    if (status == NST_OK) status = nst_model_open_file(open->engine, options->file, &open->model);
    if (status == NST_OK && with_session) status = nst_session_new(open->model, &options->session, &open->session);
    tool_progress_clear();
    return status == NST_OK ? 0 : tool_fail(status);
}

void tool_close(ToolOpen *open)
{
    nst_session_free(open->session);
    nst_model_free(open->model);
    nst_engine_free(open->engine);
}

/* SplitMix64's finaliser: element i of a seed, as nst_const_fill_seeded of the library makes it. */
static uint64_t random_bits(uint64_t seed, uint64_t i)
{
    uint64_t z = (seed << 32) + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Floats in [-1, 1); narrow floats with bits of values of that size; ints and bools from the low bits. */
static void fill_random(NstDtype dtype, char *data, size_t n, uint64_t seed)
{
    size_t size = nst_dtype_size(dtype);
    for (size_t i = 0; i < n; i++) {
        uint64_t z = random_bits(seed, i);
        double unit = (double)(z >> 40) * 0x1p-23 - 1;
        float narrow = (float)unit;
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        if (dtype == NST_F64) {
            memcpy(data + i * size, &unit, size);
        } else if (dtype == NST_F32) {
            memcpy(data + i * size, &narrow, size);
        } else if (dtype == NST_BF16) {
            uint16_t high = (uint16_t)(bits >> 16);
            memcpy(data + i * size, &high, size);
        } else if (dtype == NST_F16) {
            uint16_t half = (uint16_t)((z & 0x8000) | 0x3800 | (z >> 16 & 0x3ff)); /* 0.5 <= |x| < 1 */
            memcpy(data + i * size, &half, size);
        } else if (dtype == NST_BOOL) {
            data[i] = (char)(z & 1);
        } else {
            memcpy(data + i * size, &z, size < sizeof z ? size : sizeof z); /* little-endian */
        }
    }
}

/* The size of an open axis from --dim; -1 when it is not given. */
static int64_t find_dim(const ToolOptions *options, const char *symbol)
{
    for (uint32_t k = 0; symbol && k < options->dims.n; k++)
        if (strcmp(options->dims.at[k].name, symbol) == 0) return strtoll(options->dims.at[k].value, NULL, 10);
    return -1;
}

static int make_random(const ToolOptions *options, const NstPort *port, uint64_t seed, NstTensor *tensor, void **memory)
{
    size_t n = 1;
    *tensor = (NstTensor){.dtype = port->dtype, .rank = port->rank};
    if (port->dtype == NST_STR)
        return tool_usage("input '%s' holds strings, which are not made at random: give --input %s=FILE.npy",
                          port->name, port->name);
    for (int axis = 0; axis < port->rank; axis++) {
        int64_t size = port->shape[axis];
        for (uint32_t s = 0; s < options->shapes.n; s++)
            if (strcmp(options->shape[s].name, port->name) == 0 && options->shape[s].rank == port->rank &&
                options->shape[s].shape[axis] >= 0)
                size = options->shape[s].shape[axis];
        if (size < 0) size = find_dim(options, port->symbol[axis]);
        if (size < 0)
            return tool_usage("axis %d of input '%s' is open (%s): give --shape %s=... or --dim %s=...", axis,
                              port->name, port->symbol[axis], port->name, port->symbol[axis]);
        tensor->shape[axis] = size;
        if (__builtin_mul_overflow(n, (size_t)size, &n)) n = SIZE_MAX / 32;
    }
    tensor->bytes = n * nst_dtype_size(port->dtype);
    tensor->data = *memory = malloc(tensor->bytes + 1);
    if (!tensor->data) return tool_usage("no memory for %zu bytes of input '%s'", tensor->bytes, port->name);
    fill_random(port->dtype, tensor->data, n, seed);
    return 0;
}

/* A TensorProto beside a model, as ONNX test data are. */
static int read_onnx(NstEngine *engine, const char *path, const char *name, NstTensor *tensor)
{
    char error[FILE_ERROR];
    size_t size;
    void *bytes = file_read(path, &size, error);
    if (!bytes) return tool_usage("%s", error);
    NstStatus status = nst_tensor_read_onnx(engine, name, bytes, size, tensor);
    free(bytes);
    return status == NST_OK ? 0 : tool_usage("'%s' is no tensor of ONNX: %s", path, nst_error_text());
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static int make_input(const ToolOptions *options, NstEngine *engine, const NstPort *port, NstTensor *tensor,
                      void **memory)
{
    const char *value = "random";
    char error[FILE_ERROR];
    for (uint32_t k = 0; k < options->inputs.n; k++)
        if (strcmp(options->inputs.at[k].name, port->name) == 0) value = options->inputs.at[k].value;
    if (strncmp(value, "random", 6) == 0 && (value[6] == '\0' || value[6] == ':')) {
        const char *seed = value[6] ? value + 7 : "0";
        if (*seed == '\0' || strspn(seed, "0123456789") != strlen(seed))
            return tool_usage("--input '%s=%s': the seed is '%s', allowed are 0 and above", port->name, value, seed);
        return make_random(options, port, strtoull(seed, NULL, 10), tensor, memory);
    }
    if (ends_in(value, ".pb")) return read_onnx(engine, value, port->name, tensor);
    if (ends_in(value, ".pgm"))
        return pgm_read(value, port->rank, tensor, memory, error) == 0 ? 0 : tool_usage("%s", error);
    return npy_read(value, port->dtype, tensor, memory, error) == 0 ? 0 : tool_usage("%s", error);
}

void tool_inputs_free(ToolInputs *inputs)
{
    for (uint32_t k = 0; inputs->memory && k < inputs->n; k++) {
        nst_tensor_release(&inputs->at[k].tensor);
        free(inputs->memory[k]);
    }
    free(inputs->memory);
    free(inputs->at);
    *inputs = (ToolInputs){NULL, NULL, 0};
}

/* A --dim must name an open size of an input; where --shape declares shapes, sizes may be open no longer. */
static int check_dims(const ToolOptions *options, const ToolOpen *open, uint32_t n)
{
    for (uint32_t i = 0; i < options->dims.n && options->shapes.n == 0; i++) {
        const char *name = options->dims.at[i].name;
        bool found = false;
        for (uint32_t k = 0; k < n && !found; k++) {
            NstPort port;
            NstStatus status = nst_session_input(open->session, k, &port);
            if (status != NST_OK) return tool_fail(status);
            for (int axis = 0; axis < port.rank; axis++)
                found |= port.symbol[axis] && strcmp(port.symbol[axis], name) == 0;
        }
        if (!found) return tool_usage("--dim '%s': no input of the model has an open size of this name", name);
    }
    return 0;
}

int tool_inputs_make(const ToolOptions *options, const ToolOpen *open, ToolInputs *inputs)
{
    inputs->n = nst_session_input_count(open->session);
    inputs->at = calloc(inputs->n + 1, sizeof *inputs->at);
    inputs->memory = calloc(inputs->n + 1, sizeof *inputs->memory);
    if (!inputs->at || !inputs->memory) return tool_usage("no memory for the inputs");
    for (uint32_t k = 0; k < inputs->n; k++) {
        NstPort port;
        NstStatus status = nst_session_input(open->session, k, &port);
        if (status != NST_OK) return tool_fail(status);
        inputs->at[k].name = port.name;
        int made = make_input(options, open->engine, &port, &inputs->at[k].tensor, &inputs->memory[k]);
        if (made != 0) return made;
    }
    for (uint32_t i = 0; i < options->inputs.n; i++) {
        uint32_t k = 0;
        while (k < inputs->n && strcmp(inputs->at[k].name, options->inputs.at[i].name) != 0) k++;
        if (k == inputs->n) return tool_usage("the model has no input '%s'", options->inputs.at[i].name);
    }
    return check_dims(options, open, inputs->n);
}
