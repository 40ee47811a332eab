/* scalar.c: what each scalar operation of scalar.def does to one value.
 *
 * In: values as NstScalar holds them (ints extended to 64 bits, f32 as an exact double, narrow floats as bits).  Out: the
 * same.  Nothing here is undefined behaviour in C: integer arithmetic is done on uint64_t and wrapped, shifts and
 * conversions are range-checked.  f32 arithmetic rounds to float after each operation.  A NaN that arithmetic produces is
 * always the positive quiet one, so that folded constants do not depend on the host compiler; moves (load, store, bitcast,
 * neg, abs, select) keep every bit, also of signalling NaNs. */
#include "ir/expr.h"

#include <math.h>
#include <string.h>

#include "ir/base/status.h"
#include "ir/math.h"

#define F32_MANTISSA_BITS 24
#define F64_MANTISSA_BITS 53

static const NstScalarInfo scalar_infos[NST_OP_COUNT] = {
    [NST_OP_NONE] = {"none", 0, NST_RULE_NONE, false}, [NST_OP_CONST] = {"const", 0, NST_RULE_NONE, false},
    [NST_OP_ARG] = {"arg", 0, NST_RULE_NONE, false},   [NST_OP_INDEX] = {"index", 0, NST_RULE_NONE, false},
    [NST_OP_LOAD] = {"load", 0, NST_RULE_NONE, false}, [NST_OP_LET] = {"let", 0, NST_RULE_NONE, false},
#define NST_KIND_ELEMENTARY                       false
#define NST_KIND_EXPANDED                         true
#define NST_SCALAR(name, text, arity, rule, kind) [NST_OP_##name] = {text, arity, NST_RULE_##rule, NST_KIND_##kind},
#include "ir/scalar.def"
#undef NST_SCALAR
};

const NstScalarInfo *nst_scalar_info(NstScalarOp op)
{
    NST_ASSERT((unsigned)op < NST_OP_COUNT);
    return &scalar_infos[op];
}

/* -- types ----------------------------------------------------------------------------------------------------- */

static bool is_compute(NstDtype type)
{
    return type != NST_DTYPE_NONE && nst_dtype_info(type)->compute == type;
}

static bool is_compute_float(NstDtype type)
{
    return type == NST_F32 || type == NST_F64;
}

static bool is_compute_int(NstDtype type)
{
    return nst_dtype_is_int(type) && is_compute(type);
}

/* What a SAME-like rule allows for its one type. */
static bool rule_allows(NstScalarRule rule, NstDtype type)
{
    switch (rule) {
    case NST_RULE_SAME: return type != NST_DTYPE_NONE && type != NST_C128;
    case NST_RULE_FLOAT:
    case NST_RULE_TEST: return is_compute_float(type);
    case NST_RULE_INT: return is_compute_int(type);
    case NST_RULE_INT_BOOL: return is_compute_int(type) || type == NST_BOOL;
    case NST_RULE_NUMBER: return is_compute_int(type) || is_compute_float(type);
    case NST_RULE_BOOL: return type == NST_BOOL;
    case NST_RULE_COMPARE: return is_compute_int(type) || is_compute_float(type) || type == NST_BOOL;
    case NST_RULE_DOT: return type == NST_I32;
    case NST_RULE_NONE:
    case NST_RULE_SELECT:
    case NST_RULE_CONVERT:
    case NST_RULE_BITCAST: return false;
    }
    return false;
}

NstDtype nst_scalar_result(NstScalarOp op, const NstDtype *operand, int n)
{
    const NstScalarInfo *info = nst_scalar_info(op);
    if (n != info->arity || n == 0) return NST_DTYPE_NONE;
    if (info->rule == NST_RULE_SELECT) {
        bool ok = operand[0] == NST_BOOL && operand[1] == operand[2] && rule_allows(NST_RULE_SAME, operand[1]);
        return ok ? operand[1] : NST_DTYPE_NONE;
    }
    if (!rule_allows(info->rule, operand[0])) return NST_DTYPE_NONE;
    for (int k = 1; k < n; k++)
        if (operand[k] != operand[0]) return NST_DTYPE_NONE;
    return info->rule == NST_RULE_COMPARE || info->rule == NST_RULE_TEST ? NST_BOOL : operand[0];
}

static bool is_number_or_bool(NstDtype type)
{
    return type == NST_BOOL || nst_dtype_is_int(type) || nst_dtype_is_float(type);
}

bool nst_scalar_can_convert(NstDtype to, NstDtype from)
{
    return is_number_or_bool(to) && is_number_or_bool(from);
}

bool nst_scalar_can_bitcast(NstDtype to, NstDtype from)
{
    if (from == NST_STR) return to == NST_I64; /* the handle: what strings are compared by */
    return is_number_or_bool(to) && is_number_or_bool(from) && nst_dtype_info(to)->bits == nst_dtype_info(from)->bits;
}

/* Bits of integer that a float type holds exactly, 0 for the narrow floats. */
static int mantissa_bits(NstDtype type)
{
    return type == NST_F32 ? F32_MANTISSA_BITS : type == NST_F64 ? F64_MANTISSA_BITS : 0;
}

/* Bits of magnitude of an integer or bool type. */
static int magnitude_bits(NstDtype type)
{
    return type == NST_BOOL ? 1 : nst_dtype_info(type)->bits - (nst_dtype_is_signed(type) ? 1 : 0);
}

bool nst_scalar_convert_is_exact(NstDtype to, NstDtype from)
{
    if (to == from) return true;
    if (!nst_scalar_can_convert(to, from) || to == NST_BOOL) return false;
    if (nst_dtype_is_float(from)) return to == NST_F64 || (to == NST_F32 && from != NST_F64);
    if (nst_dtype_is_float(to)) return magnitude_bits(from) <= mantissa_bits(to);
    if (nst_dtype_is_signed(from) && !nst_dtype_is_signed(to)) return false;
    return magnitude_bits(from) <= magnitude_bits(to);
}

/* -- integers -------------------------------------------------------------------------------------------------- */

/* The value of type whose bits are the low bits of v. */
static int64_t wrap_int(NstDtype type, uint64_t v)
{
    if (type == NST_BOOL) return v != 0;
    int bits = nst_dtype_info(type)->bits;
    if (bits >= 64) return (int64_t)v;
    uint64_t mask = (UINT64_C(1) << bits) - 1, sign = UINT64_C(1) << (bits - 1);
    v &= mask;
    return nst_dtype_is_signed(type) ? (int64_t)((v ^ sign) - sign) : (int64_t)v;
}

/* v >> count with the sign filled in, count 0..63, without relying on the compiler's choice. */
static int64_t shift_arithmetic(int64_t v, unsigned count)
{
    return v < 0 ? (int64_t)~(~(uint64_t)v >> count) : (int64_t)((uint64_t)v >> count);
}

static int64_t shift_int(NstScalarOp op, NstDtype type, int64_t a, int64_t b)
{
    int bits = nst_dtype_info(type)->bits;
    uint64_t count = (uint64_t)b; /* a negative count is a large one */
    uint64_t pattern = bits >= 64 ? (uint64_t)a : (uint64_t)a & ((UINT64_C(1) << bits) - 1);
    bool past = count >= (uint64_t)bits;
    if (op == NST_OP_SHL) return past ? 0 : wrap_int(type, pattern << count);
    if (op == NST_OP_SHR) return past ? 0 : wrap_int(type, pattern >> count);
    uint64_t sign = UINT64_C(1) << (bits - 1);
    int64_t extended = bits >= 64 ? a : (int64_t)((pattern ^ sign) - sign);
    return wrap_int(type, (uint64_t)shift_arithmetic(extended, past ? 63 : (unsigned)count));
}

static int64_t divide_signed(NstScalarOp op, NstDtype type, int64_t a, int64_t b)
{
    if (b == 0) return op == NST_OP_DIV || op == NST_OP_FLOORDIV ? 0 : a;
    if (b == -1) return op == NST_OP_DIV || op == NST_OP_FLOORDIV ? wrap_int(type, 0 - (uint64_t)a) : 0;
    int64_t quotient = a / b, rest = a % b;
    bool floor_differs = rest != 0 && (rest < 0) != (b < 0);
    switch (op) {
    case NST_OP_DIV: return quotient;
    case NST_OP_FLOORDIV: return quotient - floor_differs;
    case NST_OP_MOD: return floor_differs ? rest + b : rest;
    default: return rest;
    }
}

static int64_t divide_int(NstScalarOp op, NstDtype type, int64_t a, int64_t b)
{
    if (nst_dtype_is_signed(type)) return divide_signed(op, type, a, b);
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    if (op == NST_OP_DIV || op == NST_OP_FLOORDIV) return y == 0 ? 0 : (int64_t)(x / y);
    return y == 0 ? a : (int64_t)(x % y);
}

static bool less_int(NstDtype type, int64_t a, int64_t b)
{
    return nst_dtype_is_signed(type) ? a < b : (uint64_t)a < (uint64_t)b;
}

static int64_t eval_int(NstScalarOp op, NstDtype type, int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (op) {
    case NST_OP_ADD: return wrap_int(type, x + y);
    case NST_OP_SUB: return wrap_int(type, x - y);
    case NST_OP_MUL: return wrap_int(type, x * y);
    case NST_OP_DIV:
    case NST_OP_FLOORDIV:
    case NST_OP_MOD:
    case NST_OP_REM: return divide_int(op, type, a, b);
    case NST_OP_NEG: return wrap_int(type, 0 - x);
    case NST_OP_ABS: return nst_dtype_is_signed(type) && a < 0 ? wrap_int(type, 0 - x) : a;
    case NST_OP_MIN: return less_int(type, b, a) ? b : a;
    case NST_OP_MAX: return less_int(type, a, b) ? b : a;
    case NST_OP_AND: return wrap_int(type, x & y);
    case NST_OP_OR: return wrap_int(type, x | y);
    case NST_OP_XOR: return wrap_int(type, x ^ y);
    case NST_OP_NOT: return type == NST_BOOL ? a == 0 : wrap_int(type, ~x);
    case NST_OP_SHL:
    case NST_OP_SHR:
    case NST_OP_SAR: return shift_int(op, type, a, b);
    default: NST_ASSERT(!"integer operation"); return 0;
    }
}

NstDotLanes nst_scalar_dot_lanes(NstScalarOp op)
{
    switch (op) {
    case NST_OP_DOT4_U8S8: return (NstDotLanes){NST_U8, NST_I8};
    case NST_OP_DOT4_S8U8: return (NstDotLanes){NST_I8, NST_U8};
    case NST_OP_DOT4_U8U8: return (NstDotLanes){NST_U8, NST_U8};
    case NST_OP_DOT4_S8S8: return (NstDotLanes){NST_I8, NST_I8};
    case NST_OP_DOT2_S16: return (NstDotLanes){NST_I16, NST_I16};
    default: NST_ASSERT(!"dot operation"); return (NstDotLanes){NST_DTYPE_NONE, NST_DTYPE_NONE};
    }
}

NstScalarOp nst_scalar_dot_of(NstDtype b, NstDtype c)
{
    for (int op = NST_OP_DOT4_U8S8; op <= NST_OP_DOT2_S16; op++) {
        NstDotLanes lanes = nst_scalar_dot_lanes((NstScalarOp)op);
        if (lanes.b == b && lanes.c == c) return (NstScalarOp)op;
    }
    return NST_OP_NONE;
}

static int64_t eval_dot(NstScalarOp op, int64_t acc, int64_t b, int64_t c)
{
    NstDotLanes lanes = nst_scalar_dot_lanes(op);
    uint64_t sum = (uint64_t)acc;
    int bits = nst_dtype_info(lanes.b)->bits;
    for (int at = 0; at < 32; at += bits)
        sum += (uint64_t)(wrap_int(lanes.b, (uint64_t)b >> at) * wrap_int(lanes.c, (uint64_t)c >> at));
    return wrap_int(NST_I32, sum);
}

/* -- floats ---------------------------------------------------------------------------------------------------- */

static NstScalar from_float(double value)
{
    return (NstScalar){.f = value != value ? (double)NAN : value};
}

/* Rounds to the compute type.  A double beyond f32's range becomes infinity (Annex F). */
static double round_to(NstDtype type, double value)
{
    return type == NST_F32 ? (double)(float)value : value;
}

static double min_float(double a, double b)
{
    if (a != a || b != b) return (double)NAN;
    if (a == b) return signbit(a) ? a : b;
    return a < b ? a : b;
}

static double max_float(double a, double b)
{
    if (a != a || b != b) return (double)NAN;
    if (a == b) return signbit(a) ? b : a;
    return a > b ? a : b;
}

/* The remainder with the divisor's sign; a zero remainder has it too. */
static double mod_float(NstDtype type, double a, double b)
{
    double rest = fmod(a, b); /* exact, also for f32 values */
    if (rest == 0) return copysign(0, b);
    return (rest < 0) != (b < 0) ? round_to(type, rest + b) : rest;
}

float nst_scalar_fma_f32(float a, float b, float c, bool has_fma)
{
    if (has_fma) return fmaf(a, b, c);
    float product = a * b;
    return product + c;
}

/* a * 2^floor(b).  The product of a float is exact in double. */
static double scale_float(NstDtype type, double a, double b)
{
    double most = type == NST_F32 ? 400 : 5000;
    if (isnan(a) || isnan(b)) return (double)NAN;
    if (isinf(b)) return b > 0 ? a * INFINITY : a * 0;
    return round_to(type, ldexp(a, (int)fmax(-most, fmin(floor(b), most))));
}

/* The entry that the low bits of the operand as it is stored choose. */
static double sixteenth(NstDtype type, double a)
{
    char stored[8];
    nst_scalar_store(type, stored, (NstScalar){.f = a});
    return nst_math_sixteenth(type, stored[0] & 15);
}

/* The operations that round, in float. */
static double eval_rounding_f32(NstScalarOp op, float a, float b, float c, bool has_fma)
{
    switch (op) {
    case NST_OP_ADD: return (double)(a + b);
    case NST_OP_SUB: return (double)(a - b);
    case NST_OP_MUL: return (double)(a * b);
    case NST_OP_DIV: return (double)(a / b);
    case NST_OP_SQRT: return (double)sqrtf(a);
    case NST_OP_FMA: return (double)nst_scalar_fma_f32(a, b, c, has_fma);
    default: NST_ASSERT(!"rounding operation"); return 0;
    }
}

static double eval_rounding_f64(NstScalarOp op, double a, double b, double c, bool has_fma)
{
    switch (op) {
    case NST_OP_ADD: return a + b;
    case NST_OP_SUB: return a - b;
    case NST_OP_MUL: return a * b;
    case NST_OP_DIV: return a / b;
    case NST_OP_SQRT: return sqrt(a);
    case NST_OP_FMA: {
        if (has_fma) return fma(a, b, c);
        double product = a * b;
        return product + c;
    }
    default: NST_ASSERT(!"rounding operation"); return 0;
    }
}

/* Flips or clears the sign without touching a NaN's payload. */
static NstScalar eval_sign(NstScalarOp op, NstScalar a)
{
    uint64_t sign = UINT64_C(1) << 63;
    return (NstScalar){.bits = op == NST_OP_NEG ? a.bits ^ sign : a.bits & ~sign};
}

static NstScalar eval_float(NstScalarOp op, NstDtype type, const NstScalar *arg, int n, bool has_fma)
{
    double a = arg[0].f, b = n > 1 ? arg[1].f : 0, c = n > 2 ? arg[2].f : 0;
    switch (op) {
    case NST_OP_NEG:
    case NST_OP_ABS: return eval_sign(op, arg[0]);
    case NST_OP_MIN: return from_float(min_float(a, b));
    case NST_OP_MAX: return from_float(max_float(a, b));
    case NST_OP_MOD: return from_float(mod_float(type, a, b));
    case NST_OP_REM: return from_float(fmod(a, b));
    case NST_OP_SCALE: return from_float(scale_float(type, a, b));
    case NST_OP_SIXTEENTH: return from_float(sixteenth(type, a));
    case NST_OP_FLOOR: return from_float(floor(a));
    case NST_OP_CEIL: return from_float(ceil(a));
    case NST_OP_TRUNC: return from_float(trunc(a));
    case NST_OP_ROUND: return from_float(rint(a)); /* the engine runs in the default rounding mode */
    default: break;
    }
    if (type == NST_F32) return from_float(eval_rounding_f32(op, (float)a, (float)b, (float)c, has_fma));
    return from_float(eval_rounding_f64(op, a, b, c, has_fma));
}

/* -- compare, convert, bitcast --------------------------------------------------------------------------------- */

static bool compare_float(NstScalarOp op, double a, double b)
{
    switch (op) {
    case NST_OP_EQ: return a == b;
    case NST_OP_NE: return a != b;
    case NST_OP_LT: return a < b;
    case NST_OP_LE: return a <= b;
    case NST_OP_GT: return a > b;
    default: return a >= b;
    }
}

static bool compare_int(NstScalarOp op, NstDtype type, int64_t a, int64_t b)
{
    switch (op) {
    case NST_OP_EQ: return a == b;
    case NST_OP_NE: return a != b;
    case NST_OP_LT: return less_int(type, a, b);
    case NST_OP_LE: return !less_int(type, b, a);
    case NST_OP_GT: return less_int(type, b, a);
    default: return !less_int(type, a, b);
    }
}

/* Truncates; NaN gives 0, out of range the nearest limit. */
static int64_t float_to_int(NstDtype to, double value)
{
    if (value != value) return 0;
    int bits = magnitude_bits(to);
    double limit = ldexp(1, bits); /* first value above the type's range */
    bool is_signed = nst_dtype_is_signed(to);
    value = trunc(value);
    if (value >= limit) return bits == 64 ? -1 : (int64_t)((UINT64_C(1) << bits) - 1);
    if (!is_signed) return value <= 0 ? 0 : (int64_t)(uint64_t)value;
    return value <= -limit ? -(int64_t)((UINT64_C(1) << bits) - 1) - 1 : (int64_t)value;
}

/* Nearest value of an integer type to an integer of type from. */
static int64_t clamp_int(NstDtype to, NstDtype from, int64_t value)
{
    uint64_t top = magnitude_bits(to) == 64 ? UINT64_MAX : (UINT64_C(1) << magnitude_bits(to)) - 1;
    bool negative = nst_dtype_is_signed(from) && value < 0;
    if (!negative) return (int64_t)((uint64_t)value > top ? top : (uint64_t)value);
    if (!nst_dtype_is_signed(to)) return 0;
    int64_t low = -(int64_t)top - 1;
    return value < low ? low : value;
}

static NstScalar convert_float(NstDtype to, NstDtype from, double value, bool saturate)
{
    if (to == NST_BOOL) return (NstScalar){.i = value != 0};
    if (nst_dtype_is_int(to)) return (NstScalar){.i = float_to_int(to, value)};
    if (is_compute_float(to)) return from_float(round_to(to, value));
    if (from == NST_F64) return (NstScalar){.i = nst_f64_to_narrow(to, value, saturate)};
    return (NstScalar){.i = nst_f32_to_narrow(to, (float)value, saturate)};
}

static NstScalar convert_int(NstDtype to, NstDtype from, int64_t value, bool saturate)
{
    if (to == NST_BOOL) return (NstScalar){.i = value != 0};
    if (nst_dtype_is_int(to))
        return (NstScalar){.i = saturate ? clamp_int(to, from, value) : wrap_int(to, (uint64_t)value)};
    bool is_signed = nst_dtype_is_signed(from);
    if (to == NST_F64) return from_float(is_signed ? (double)value : (double)(uint64_t)value);
    float rounded = is_signed ? (float)value : (float)(uint64_t)value;
    if (to == NST_F32) return from_float((double)rounded);
    return (NstScalar){.i = nst_f32_to_narrow(to, rounded, saturate)};
}

NstScalar nst_scalar_convert(NstDtype to, NstDtype from, NstScalar value, bool saturate)
{
    NST_ASSERT(nst_scalar_can_convert(to, from));
    if (to == from) return value;
    if (!nst_dtype_is_float(from)) return convert_int(to, from, value.i, saturate);
    if (is_compute_float(from)) return convert_float(to, from, value.f, saturate);
    return convert_float(to, from, (double)nst_narrow_to_f32(from, (uint32_t)value.bits), saturate);
}

/* f32 bits to and from the double that holds the value; NaNs keep sign and payload, signalling or not. */
static NstScalar widen_f32(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    if (value == value) return (NstScalar){.f = (double)value};
    uint64_t sign = (uint64_t)(bits >> 31) << 63, payload = (uint64_t)(bits & 0x7fffff) << 29;
    return (NstScalar){.bits = sign | UINT64_C(0x7ff0000000000000) | payload};
}

static uint32_t narrow_f32(NstScalar held)
{
    if (held.f == held.f) {
        float value = (float)held.f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
    uint32_t payload = (uint32_t)(held.bits >> 29) & 0x7fffff;
    return (uint32_t)(held.bits >> 63) << 31 | 0x7f800000 | (payload ? payload : 0x400000);
}

/* The bits of a value in the engine's storage of its type. */
static uint64_t storage_bits(NstDtype type, NstScalar value)
{
    if (type == NST_F32) return narrow_f32(value);
    return value.bits;
}

static NstScalar from_storage_bits(NstDtype type, uint64_t bits)
{
    if (type == NST_F32) return widen_f32((uint32_t)bits);
    if (type == NST_BOOL || nst_dtype_is_int(type)) return (NstScalar){.i = wrap_int(type, bits)};
    int width = nst_dtype_info(type)->bits;
    return (NstScalar){.bits = width >= 64 ? bits : bits & ((UINT64_C(1) << width) - 1)};
}

NstScalar nst_scalar_load(NstDtype type, const void *at)
{
    uint8_t byte;
    uint16_t half;
    uint32_t word;
    uint64_t wide;
    switch (nst_dtype_info(type)->bytes) {
    case 1: memcpy(&byte, at, 1); return from_storage_bits(type, byte);
    case 2: memcpy(&half, at, 2); return from_storage_bits(type, half);
    case 4: memcpy(&word, at, 4); return from_storage_bits(type, word);
    case 8: memcpy(&wide, at, 8); return from_storage_bits(type, wide);
    default: NST_ASSERT(!"a scalar of at most 8 bytes"); return (NstScalar){0};
    }
}

void nst_scalar_store(NstDtype type, void *at, NstScalar value)
{
    uint64_t wide = storage_bits(type, value);
    uint8_t byte = (uint8_t)wide;
    uint16_t half = (uint16_t)wide;
    uint32_t word = (uint32_t)wide;
    switch (nst_dtype_info(type)->bytes) {
    case 1: memcpy(at, &byte, 1); return;
    case 2: memcpy(at, &half, 2); return;
    case 4: memcpy(at, &word, 4); return;
    case 8: memcpy(at, &wide, 8); return;
    default: NST_ASSERT(!"a scalar of at most 8 bytes");
    }
}

/* -- one operation --------------------------------------------------------------------------------------------- */

NstScalar nst_scalar_normal(NstDtype type, NstScalar value)
{
    return from_storage_bits(type, storage_bits(type, value));
}

NstScalar nst_scalar_eval(NstScalarOp op, NstDtype type, NstDtype from, const NstScalar *arg, bool has_fma)
{
    const NstScalarInfo *info = nst_scalar_info(op);
    bool is_float = is_compute_float(from);
    if (info->expanded) return nst_math_eval(op, type, arg, has_fma);
    switch (info->rule) {
    case NST_RULE_SELECT: return arg[0].i ? arg[1] : arg[2];
    case NST_RULE_COMPARE:
        return (NstScalar){.i = is_float ? compare_float(op, arg[0].f, arg[1].f)
                                         : compare_int(op, from, arg[0].i, arg[1].i)};
    case NST_RULE_TEST: return (NstScalar){.i = op == NST_OP_ISNAN ? isnan(arg[0].f) != 0 : isinf(arg[0].f) != 0};
    case NST_RULE_CONVERT: return nst_scalar_convert(type, from, arg[0], op == NST_OP_CONVERT_SAT);
    case NST_RULE_BITCAST: return from_storage_bits(type, storage_bits(from, arg[0]));
    case NST_RULE_DOT: return (NstScalar){.i = eval_dot(op, arg[0].i, arg[1].i, arg[2].i)};
    default: break;
    }
    if (is_float) return eval_float(op, type, arg, info->arity, has_fma);
    return (NstScalar){.i = eval_int(op, type, arg[0].i, info->arity > 1 ? arg[1].i : 0)};
}
