/* helpers.c: bodies of rtcall.def: what code for a small instruction set asks for instead of an instruction.  They run
 * in the default floating-point environment (exec.c sets it), so that rounding is to nearest even. */
#include "runtime/helpers.h"

#include <math.h>
#include <string.h>
#include "ir/base/dtype.h"
#include "ir/expr.h"
#include "runtime/threads.h"

static int32_t barrier(struct NstBarrier *at, int32_t threads)
{
    return nst_barrier_wait(at, threads);
}

static float f16_to_f32(uint16_t bits)
{
    return nst_narrow_to_f32(NST_F16, bits);
}

static uint16_t f32_to_f16(float a)
{
    return (uint16_t)nst_f32_to_narrow(NST_F16, a, false);
}

static uint16_t f64_to_f16(double a)
{
    return (uint16_t)nst_f64_to_narrow(NST_F16, a, false);
}

static void copy(void *to, const void *from, int64_t bytes)
{
    if (bytes > 0) memmove(to, from, (size_t)bytes);
}

static void fill(void *to, int32_t byte, int64_t bytes)
{
    if (bytes > 0) memset(to, byte, (size_t)bytes);
}

/* Rows that are a C function under another name. */
#define UNARY(name, function, type)                                                                                    \
    static type name(type a)                                                                                           \
    {                                                                                                                  \
        return function(a);                                                                                            \
    }
UNARY(round_f32, rintf, float)
UNARY(round_f64, rint, double)
UNARY(floor_f32, floorf, float)
UNARY(floor_f64, floor, double)
UNARY(ceil_f32, ceilf, float)
UNARY(ceil_f64, ceil, double)
UNARY(trunc_f32, truncf, float)
UNARY(trunc_f64, trunc, double)
#undef UNARY

static float fmod_f32(float a, float b)
{
    return fmodf(a, b);
}

static double fmod_f64(double a, double b)
{
    return fmod(a, b);
}

static double scale_f64(double a, double b)
{
    NstScalar arg[2] = {{.f = a}, {.f = b}};
    return nst_scalar_eval(NST_OP_SCALE, NST_F64, NST_F64, arg, true).f;
}

static float scale_f32(float a, float b)
{
    NstScalar arg[2] = {{.f = (double)a}, {.f = (double)b}};
    return (float)nst_scalar_eval(NST_OP_SCALE, NST_F32, NST_F32, arg, true).f;
}

static float fma_f32(float a, float b, float c)
{
    return fmaf(a, b, c);
}

static double fma_f64(double a, double b, double c)
{
    return fma(a, b, c);
}

const NstHelpers nst_helpers = {
#define NST_RTCALL(name, result, parameters) .name = name,
#include "ir/rtcall.def"
#undef NST_RTCALL
};
