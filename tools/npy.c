/* npy.c: NumPy files: "\x93NUMPY", version, length of a Python dict as text, the dict, the elements. */
#include "tools/npy.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    NstDtype dtype;
    const char *descr;
} descriptions[] = {
    {NST_F32, "<f4"}, {NST_F64, "<f8"},  {NST_F16, "<f2"}, {NST_I8, "|i1"},    {NST_U8, "|u1"},
    {NST_I16, "<i2"}, {NST_U16, "<u2"},  {NST_I32, "<i4"}, {NST_U32, "<u4"},   {NST_I64, "<i8"},
    {NST_U64, "<u8"}, {NST_BOOL, "|b1"}, {NST_C64, "<c8"}, {NST_C128, "<c16"},
};

/* Bytes of an element of texts: "|S5" has 5 bytes, "<U5" 5 characters of 4; 0 for any other type. */
static size_t text_width(const char *descr)
{
    bool wide = descr[0] != '\0' && descr[1] == 'U';
    if (descr[0] == '\0' || (!wide && descr[1] != 'S') || (wide && descr[0] != '<')) return 0;
    long n = strtol(descr + 2, NULL, 10);
    return n < 1 || n > 1 << 24 ? 0 : (size_t)n * (wide ? 4 : 1);
}

static NstDtype dtype_of(const char *descr, NstDtype expected)
{
    if (text_width(descr)) return NST_STR;
    for (size_t k = 0; k < sizeof descriptions / sizeof *descriptions; k++) {
        const char *known = descriptions[k].descr;
        if (strcmp(known, descr) == 0) return descriptions[k].dtype;
        if (known[0] == '|' && strcmp(known + 1, descr + 1) == 0) return descriptions[k].dtype; /* "<i1" */
    }
    bool raw = descr[0] != '\0' && descr[1] == 'V' && expected != NST_STR;
    if (raw && (size_t)atoi(descr + 2) == nst_dtype_size(expected)) return expected;
    return NST_DTYPE_NONE;
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

static int parse_header(const char *header, NstDtype expected, char descr[16], NstTensor *tensor, int *fortran)
{
    const char *at = find_key(header, "descr"), *order = find_key(header, "fortran_order"),
               *shape = find_key(header, "shape");
    if (!at || !order || !shape || (*at != '\'' && *at != '"') || *shape != '(') return -1;
    memset(descr, 0, 16);
    for (size_t k = 0; k + 1 < 16 && at[k + 1] && at[k + 1] != *at; k++) descr[k] = at[k + 1];
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

/* A character as UTF-8 at `to`; returns its bytes, at most 4, 0 for what is none. */
static size_t put_character(uint32_t c, char *to)
{
    if (c > 0x10ffff) return 0;
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t k = n - 1; k > 0; k--, c >>= 6) to[k] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(lead[n] | c);
    return n;
}

/* n elements of texts as NstString in `element`, their bytes in `to`, which has room for all.  Zeros behind a text are no part
 * of it.  -1 for what is no character. */
static int read_texts(const char *descr, const unsigned char *from, size_t n, NstString *element, char *to)
{
    size_t width = text_width(descr);
    bool wide = descr[1] == 'U';
    for (size_t k = 0; k < n; k++, from += width) {
        size_t used = width;
        while (used > 0 && from[used - 1] == 0) used--;
        element[k] = (NstString){to, used};
        if (!wide) {
            memcpy(to, from, used);
            to += used;
            continue;
        }
        for (size_t at = 0; at < used; at += 4) {
            size_t bytes = put_character((uint32_t)from[at] | (uint32_t)from[at + 1] << 8 |
                                             (uint32_t)from[at + 2] << 16 | (uint32_t)from[at + 3] << 24,
                                         to);
            if (bytes == 0) return -1;
            to += bytes;
        }
        element[k].n = (size_t)(to - element[k].at);
    }
    return 0;
}

int npy_read(const char *path, NstDtype expected, NstTensor *tensor, void **memory, char error[FILE_ERROR])
{
    size_t size, header, data;
    int fortran = 0;
    char descr[16];
    *memory = NULL;
    unsigned char *bytes = file_read(path, &size, error);
    if (!bytes) return -1;
    memset(tensor, 0, sizeof *tensor);
    snprintf(error, FILE_ERROR, "'%s' is no NumPy file of a type that can be read", path);
    char *text = find_parts(bytes, size, &header, &data) == 0 ? malloc(data - header + 1) : NULL;
    int failed = text == NULL;
    if (text) {
        memcpy(text, bytes + header, data - header);
        text[data - header] = '\0';
        failed = parse_header(text, expected, descr, tensor, &fortran) != 0;
        free(text);
    }
    int64_t elements = 1;
    for (int k = 0; !failed && k < tensor->rank; k++)
        failed = __builtin_mul_overflow(elements, tensor->shape[k], &elements);
    bool strings = !failed && tensor->dtype == NST_STR;
    size_t element = failed ? 1 : strings ? text_width(descr) : nst_dtype_size(tensor->dtype);
    if (!failed && (uint64_t)elements > (size - data) / element) {
        snprintf(error, FILE_ERROR, "'%s' ends before its %lld elements do", path, (long long)elements);
        failed = 1;
    }
    /* One block: strides, then the elements; of strings first what stands for them. */
    size_t room = NST_TENSOR_MAX_RANK * sizeof(int64_t);
    size_t head = strings ? (size_t)elements * sizeof(NstString) : 0;
    room += head;
    char *block = failed ? NULL : malloc(room + size - data);
    if (!block) {
        free(bytes);
        return -1;
    }
    NstString *first = (NstString *)(void *)(block + room - head);
    if (!strings) memcpy(block + room, bytes + data, size - data);
    failed = strings && read_texts(descr, bytes + data, (size_t)elements, first, block + room) != 0;
    free(bytes);
    if (failed) {
        free(block);
        return -1;
    }
    int64_t *strides = (int64_t *)(void *)block, stride = 1;
    for (int k = 0; k < tensor->rank; stride *= tensor->shape[k++]) strides[k] = stride;
    tensor->strides = fortran && tensor->rank > 1 ? strides : NULL;
    tensor->data = strings ? (void *)first : block + room;
    tensor->bytes = strings ? head : size - data;
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

/* Texts as long as the longest, filled up with zeros. */
static int write_texts(FILE *file, const NstString *element, uint64_t n, size_t width)
{
    int done = 1;
    for (uint64_t k = 0; k < n && done; k++) {
        done = element[k].n == 0 || fwrite(element[k].at, 1, element[k].n, file) == element[k].n;
        for (size_t at = element[k].n; at < width && done; at++) done = putc(0, file) != EOF;
    }
    return done;
}

/* The length of the longest text, at least 1; 0 and the reason where one ends in a zero, which NumPy would drop. */
static size_t longest_text(const NstString *element, uint64_t n, const char *path, char error[FILE_ERROR])
{
    size_t width = 1;
    for (uint64_t k = 0; k < n; k++) {
        if (element[k].n > 0 && element[k].at[element[k].n - 1] == '\0') {
            snprintf(error, FILE_ERROR, "string %llu for '%s' ends in a zero byte, which a NumPy file does not keep",
                     (unsigned long long)k, path);
            return 0;
        }
        if (element[k].n > width) width = element[k].n;
    }
    return width;
}

int npy_write(const char *path, const NstTensor *tensor, char error[FILE_ERROR])
{
    char descr[32], header[1024];
    bool strings = tensor->dtype == NST_STR;
    uint64_t count = 1;
    for (int k = 0; k < tensor->rank; k++) count *= (uint64_t)tensor->shape[k];
    size_t width = strings ? longest_text(tensor->data, count, path, error) : nst_dtype_size(tensor->dtype);
    if (width == 0) return -1;
    if (strings)
        snprintf(descr, sizeof descr, "|S%zu", width);
    else
        describe(tensor->dtype, descr);
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int k = 0; k < tensor->rank; k++)
        n += snprintf(header + n, sizeof header - (size_t)n, "%lld,%s", (long long)tensor->shape[k],
                      k + 1 < tensor->rank ? " " : "");
    n += snprintf(header + n, sizeof header - (size_t)n, "), }");
    while ((10 + n + 1) % 64 != 0) header[n++] = ' '; /* elements begin at a multiple of 64 */
    header[n++] = '\n';
    unsigned char head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(n & 255), (unsigned char)(n >> 8)};
    FILE *file = fopen(path, "wb");
    if (!file) {
        snprintf(error, FILE_ERROR, "cannot create '%s': %s", path, strerror(errno));
        return -1;
    }
    int done = fwrite(head, 1, sizeof head, file) == sizeof head && fwrite(header, 1, (size_t)n, file) == (size_t)n;
    if (strings)
        done = done && write_texts(file, tensor->data, count, width);
    else
        done = done && (count == 0 || fwrite(tensor->data, width, count, file) == count);
    done &= fclose(file) == 0;
    if (!done) snprintf(error, FILE_ERROR, "cannot write '%s': %s", path, strerror(errno));
    return done ? 0 : -1;
}
