/* abi.h: the contract between generated kernels and the runtime.  Offsets are asserted; generated code has no relocations
 * and no addresses: all it needs comes through NstKernelArgs. */
#ifndef NST_IR_ABI_H
#define NST_IR_ABI_H

#include <stddef.h>
#include <stdint.h>

#define NST_ABI_VERSION 1

struct NstBarrier; /* runtime/threads.h */

typedef struct NstHelpers {
#define NST_RTCALL(name, result, parameters) result(*name) parameters;
#include "ir/rtcall.def"
#undef NST_RTCALL
} NstHelpers;

enum {
#define NST_RTCALL(name, result, parameters) NST_HELPER_##name,
#include "ir/rtcall.def"
#undef NST_RTCALL
    NST_HELPER_COUNT
};

/* The first error of a run: set by compare-and-swap of status from 0. */
typedef struct NstErrorSlot {
    int32_t status;  /* NstStatus; 0 = none */
    uint32_t origin; /* NstOrigin.i of the failing statement, as numbered in the kernel's table */
    int64_t value;   /* the offending index, or the number of the assert's message */
    int64_t limit;   /* the bound that was broken */
} NstErrorSlot;

typedef struct NstKernelArgs {
    void *const *buffers;       /* 0: ARG buffers in order */
    const int64_t *dims;        /* 8: values of params in order */
    int32_t thread, threads;    /* 16, 20 */
    struct NstBarrier *barrier; /* 24 */
    char *scratch;              /* 32: this thread's, 64-byte aligned */
    char *shared;               /* 40: the kernel's, 64-byte aligned */
    NstErrorSlot *error;        /* 48 */
    const int32_t *cancel;      /* 56: non-zero = stop soon (read with a plain atomic load) */
    const NstHelpers *helpers;  /* 64 */
} NstKernelArgs;

_Static_assert(offsetof(NstKernelArgs, thread) == 16 && offsetof(NstKernelArgs, scratch) == 32 &&
                   offsetof(NstKernelArgs, helpers) == 64,
               "generated code depends on these offsets");

/* A kernel: 0, or the NstStatus it stopped with (also in the error slot). */
typedef int32_t (*NstKernelFn)(const NstKernelArgs *args);

#endif
