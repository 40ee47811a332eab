/* npy.c: NumPy files: "\x93NUMPY", version, length of a Python dict as text, the dict, the elements. */
#include "tools/npy.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)1 << 36) /* bytes */

static const struct {
    NstDtype dtype;
    const char *descr;
} descriptions[] = {
    {NST_F32, "<f4"}, {NST_F64, "<f8"},  {NST_F16, "<f2"}, {NST_I8, "|i1"},    {NST_U8, "|u1"},
    {NST_I16, "<i2"}, {NST_U16, "<u2"},  {NST_I32, "<i4"}, {NST_U32, "<u4"},   {NST_I64, "<i8"},
    {NST_U64, "<u8"}, {NST_BOOL, "|b1"}, {NST_C64, "<c8"}, {NST_C128, "<c16"},
};

static NstDtype dtype_of(const char *descr, NstDtype expected)
{
    for (size_t k = 0; k < sizeof descriptions / sizeof *descriptions; k++) {
        const char *known = descriptions[k].descr;
        if (strcmp(known, descr) == 0) return descriptions[k].dtype;
        if (known[0] == '|' && strcmp(known + 1, descr + 1) == 0) return descriptions[k].dtype; /* "<i1" */
    }
    if (descr[0] != '\0' && descr[1] == 'V' && (size_t)atoi(descr + 2) == nst_dtype_size(expected)) return expected;
    return NST_DTYPE_NONE;
}

static void *read_whole(const char *path, size_t *size, char error[NPY_ERROR])
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        snprintf(error, NPY_ERROR, "cannot open '%s': %s", path, strerror(errno));
        return NULL;
    }
    char *bytes = NULL;
    size_t n = 0, room = 0;
    for (;;) {
        if (n == room) {
            room = room ? 2 * room : 1 << 16;
            char *grown = room > MAX_FILE ? NULL : realloc(bytes, room);
            if (!grown) break;
            bytes = grown;
        }
        size_t got = fread(bytes + n, 1, room - n, file);
        if (got == 0) break;
        n += got;
    }
    int failed = ferror(file) || n == room;
    fclose(file);
    *size = n;
    if (!failed) return bytes;
    snprintf(error, NPY_ERROR, "cannot read '%s'", path);
    free(bytes);
    return NULL;
}

/* The text after 'key': in the dict; NULL if there is none. */
static const char *find_key(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *at = strstr(header, quoted);
    if (!at) return NULL;
    at += strlen(quoted);
    while (isspace((unsigned char)*at)) at++;
    if (*at++ != ':') return NULL;
    while (isspace((unsigned char)*at)) at++;
    return at;
}

static int parse_header(const char *header, NstDtype expected, NstTensor *tensor, int *fortran)
{
    char descr[16] = "";
    const char *at = find_key(header, "descr"), *order = find_key(header, "fortran_order"),
               *shape = find_key(header, "shape");
    if (!at || !order || !shape || (*at != '\'' && *at != '"') || *shape != '(') return -1;
    for (size_t k = 0; k + 1 < sizeof descr && at[k + 1] && at[k + 1] != *at; k++) descr[k] = at[k + 1];
    tensor->dtype = dtype_of(descr, expected);
    *fortran = strncmp(order, "True", 4) == 0;
    shape++;
    for (tensor->rank = 0; tensor->rank < NST_TENSOR_MAX_RANK; tensor->rank++) {
        char *end;
        while (*shape == ',' || isspace((unsigned char)*shape)) shape++;
        if (*shape == ')') break;
        errno = 0;
        long long size = strtoll(shape, &end, 10);
        if (end == shape || size < 0 || errno != 0) return -1;
        tensor->shape[tensor->rank] = size;
        shape = end;
    }
    return *shape == ')' && tensor->dtype != NST_DTYPE_NONE ? 0 : -1;
}

/* Checks the magic; where header and data begin. */
static int find_parts(const unsigned char *bytes, size_t size, size_t *header, size_t *data)
{
    if (size < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0 || bytes[6] < 1 || bytes[6] > 3) return -1;
    size_t n = bytes[8] | (size_t)bytes[9] << 8;
    *header = 10;
    if (bytes[6] > 1) {
        n |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
        *header = 12;
    }
    if (n > size - *header) return -1;
    *data = *header + n;
    return 0;
}

int npy_read(const char *path, NstDtype expected, NstTensor *tensor, void **memory, char error[NPY_ERROR])
{
    size_t size, header, data;
    int fortran = 0;
    *memory = NULL;
    unsigned char *bytes = read_whole(path, &size, error);
    if (!bytes) return -1;
    memset(tensor, 0, sizeof *tensor);
    snprintf(error, NPY_ERROR, "'%s' is no NumPy file of a type that can be read", path);
    char *text = find_parts(bytes, size, &header, &data) == 0 ? malloc(data - header + 1) : NULL;
    int failed = text == NULL;
    if (text) {
        memcpy(text, bytes + header, data - header);
        text[data - header] = '\0';
        failed = parse_header(text, expected, tensor, &fortran) != 0;
        free(text);
    }
    int64_t elements = 1;
    for (int k = 0; !failed && k < tensor->rank; k++)
        failed = __builtin_mul_overflow(elements, tensor->shape[k], &elements);
    if (!failed && (uint64_t)elements > (size - data) / nst_dtype_size(tensor->dtype)) {
        snprintf(error, NPY_ERROR, "'%s' ends before its %lld elements do", path, (long long)elements);
        failed = 1;
    }
    /* One block: strides, then the elements. */
    size_t room = NST_TENSOR_MAX_RANK * sizeof(int64_t);
    char *block = failed ? NULL : malloc(room + size - data);
    if (!block) {
        free(bytes);
        return -1;
    }
    memcpy(block + room, bytes + data, size - data);
    free(bytes);
    int64_t *strides = (int64_t *)(void *)block, stride = 1;
    for (int k = 0; k < tensor->rank; stride *= tensor->shape[k++]) strides[k] = stride;
    tensor->strides = fortran && tensor->rank > 1 ? strides : NULL;
    tensor->data = block + room;
    tensor->bytes = size - data;
    *memory = block;
    return 0;
}

static void describe(NstDtype dtype, char descr[16])
{
    for (size_t k = 0; k < sizeof descriptions / sizeof *descriptions; k++) {
        if (descriptions[k].dtype != dtype) continue;
        snprintf(descr, 16, "%s", descriptions[k].descr);
        return;
    }
    snprintf(descr, 16, "|V%zu", nst_dtype_size(dtype));
}

int npy_write(const char *path, const NstTensor *tensor, char error[NPY_ERROR])
{
    char descr[16], header[1024];
    describe(tensor->dtype, descr);
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    uint64_t bytes = nst_dtype_size(tensor->dtype);
    for (int k = 0; k < tensor->rank; k++) {
        n += snprintf(header + n, sizeof header - (size_t)n, "%lld,%s", (long long)tensor->shape[k],
                      k + 1 < tensor->rank ? " " : "");
        bytes *= (uint64_t)tensor->shape[k];
    }
    n += snprintf(header + n, sizeof header - (size_t)n, "), }");
    while ((10 + n + 1) % 64 != 0) header[n++] = ' '; /* elements begin at a multiple of 64 */
    header[n++] = '\n';
    unsigned char head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(n & 255), (unsigned char)(n >> 8)};
    FILE *file = fopen(path, "wb");
    if (!file) {
        snprintf(error, NPY_ERROR, "cannot create '%s': %s", path, strerror(errno));
        return -1;
    }
    int done = fwrite(head, 1, sizeof head, file) == sizeof head && fwrite(header, 1, (size_t)n, file) == (size_t)n &&
               (bytes == 0 || fwrite(tensor->data, 1, bytes, file) == bytes);
    done &= fclose(file) == 0;
    if (!done) snprintf(error, NPY_ERROR, "cannot write '%s': %s", path, strerror(errno));
    return done ? 0 : -1;
}
