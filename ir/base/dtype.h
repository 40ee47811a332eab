/* dtype.h: element types: facts from dtype.def, and exact conversions of the narrow floats. */
#ifndef NST_IR_BASE_DTYPE_H
#define NST_IR_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "nestor/tensor.h"

typedef enum NstDtypeClass {
    NST_CLASS_BOOL,
    NST_CLASS_SINT,
    NST_CLASS_UINT,
    NST_CLASS_FLOAT,
    NST_CLASS_COMPLEX,
    NST_CLASS_STRING
} NstDtypeClass;

typedef struct NstDtypeInfo {
    const char *name; /* as in the IR text: "f32" */
    int onnx;         /* TensorProto.DataType */
    int bits;         /* in packed ONNX storage */
    int bytes;        /* per element inside the engine; of tensors as they cross the interface nst_dtype_size tells */
    NstDtypeClass klass;
    NstDtype compute; /* type scalar arithmetic is done in */
} NstDtypeInfo;

/* Facts of a type; NST_DTYPE_NONE has name "none" and zeros. */
const NstDtypeInfo *nst_dtype_info(NstDtype type);

/* The type of that IR name / ONNX code, NST_DTYPE_NONE if there is none. */
NstDtype nst_dtype_parse(const char *name, size_t n);
NstDtype nst_dtype_from_onnx(int onnx);

static inline bool nst_dtype_is_float(NstDtype t)
{
    return nst_dtype_info(t)->klass == NST_CLASS_FLOAT;
}
bool nst_dtype_is_int(NstDtype type);    /* SINT or UINT, not BOOL */
bool nst_dtype_is_signed(NstDtype type); /* SINT */

/* Value of the float whose bits are the low bits of `bits` (f16, bf16, f8*, f4, e8m0), exact in f32. */
float nst_narrow_to_f32(NstDtype type, uint32_t bits);

/* Nearest-even rounding of an f32 to a narrow float's bits.  saturate: out of range finite values and
 * infinity give the largest finite value (8- and 4-bit types), else what the format has: infinity or NaN.
 * f16/bf16 overflow to infinity.  Source: ONNX "Float stored in 8 bits" tables; IEEE 754 for f16;
 * truncated-f32 rounding for bf16. */
uint32_t nst_f32_to_narrow(NstDtype type, float value, bool saturate);

/* The same from f64 with a single rounding. */
uint32_t nst_f64_to_narrow(NstDtype type, double value, bool saturate);

#endif
