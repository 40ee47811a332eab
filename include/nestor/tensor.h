/* tensor.h: element types and tensors as they cross the interface. */
#ifndef NESTOR_TENSOR_H
#define NESTOR_TENSOR_H

#include "nestor/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types, one per row of dtype.def.  Values are part of the ABI: rows are appended, never moved. */
typedef enum NstDtype {
    NST_DTYPE_NONE = 0,
#define NST_DTYPE(NAME, text, onnx, bits, bytes, klass, compute) NST_##NAME,
#include "nestor/dtype.def"
#undef NST_DTYPE
    NST_DTYPE_COUNT
} NstDtype;

#define NST_TENSOR_MAX_RANK 16

/* An element of a tensor of strings (NST_STR): n bytes, of UTF-8 as a rule.  Strings that Nestor gives have a zero byte behind
 * them, which n does not count; those it is given need none:
 *     NstString words[2] = {{"one", 3}, {"two", 3}};
 *     NstTensor in = {.dtype = NST_STR, .rank = 1, .shape = {2}, .data = words, .bytes = sizeof words}; */
typedef struct NstString {
    const char *at; /* may be NULL where n is 0; may hold zeros */
    size_t n;
} NstString;

/* A tensor in memory.  As an input it is borrowed until the run returns; any alignment is allowed.
 * As an output: with data set it is the caller's memory of `bytes` bytes, filled row-major; with data NULL the run
 * provides memory, marks it in `owned`, and the caller ends it with nst_tensor_release.  The caller's may lie over inputs
 * (the run copies those first), not over another output (NST_E_INVALID).
 * Strings: data are NstString.  The texts of an input are borrowed like it; those of an output are always memory of the
 * engine, marked in `owned` (with data NULL the elements are in it too), so that every one of them is released. */
typedef struct NstTensor {
    NstDtype dtype;
    int32_t rank;
    int64_t shape[NST_TENSOR_MAX_RANK];
    const int64_t *strides; /* inputs only, in elements; NULL = row-major and dense */
    void *data;
    size_t bytes; /* of data */
    void *owned;  /* memory of the engine behind data (of strings: behind their texts); NULL for the caller's own */
} NstTensor;

/* A tensor under the name of an input or output; name NULL = the one at the same position. */
typedef struct NstNamedTensor {
    const char *name;
    NstTensor tensor;
} NstNamedTensor;

/* The name of an element type ("f32"); "none" for what is none.  Static storage.  Thread-safe. */
NST_API const char *nst_dtype_name(NstDtype dtype);

/* The element type of that name, NST_DTYPE_NONE if there is none.  Thread-safe. */
NST_API NstDtype nst_dtype_of_name(const char *name);

/* Bytes of one element of a tensor's data: 4- and 2-bit types take a byte each, a string is an NstString; 0 for NST_DTYPE_NONE.
 * Thread-safe. */
NST_API size_t nst_dtype_size(NstDtype dtype);

/* Frees memory that a run provided and empties the tensor; nothing happens to the caller's own memory. */
NST_API void nst_tensor_release(NstTensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
