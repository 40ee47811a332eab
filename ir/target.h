/* target.h: what the code is compiled for: instruction set level, vector width, cache sizes.  The only x86 file of ir/. */
#ifndef NST_IR_TARGET_H
#define NST_IR_TARGET_H

#include "ir/base/dtype.h"
#include "ir/base/status.h"

/* Ascending: each level includes the ones before it, but AMX_BF16 is used only when an option allows it. */
typedef enum NstTargetLevel {
    NST_TARGET_BASELINE, /* x86-64: SSE2, mul and add */
    NST_TARGET_AVX2,     /* AVX2, FMA, F16C, BMI2 */
    NST_TARGET_AVX512,   /* F, BW, DQ, VL, CD */
    NST_TARGET_AVX512_VNNI,
    NST_TARGET_AMX_INT8,
    NST_TARGET_LEVEL_COUNT
} NstTargetLevel;

/* Bytes of a line of every cache. */
enum { NST_LINE_BYTES = 64 };

typedef struct NstTarget {
    NstTargetLevel level;
    bool has_fma;
    int vector_bytes;                     /* 16, 32, 64 */
    int vector_registers;                 /* 16 or 32 */
    int64_t l1_bytes, l2_bytes, l3_bytes; /* data caches of one core (l3: shared) */
    uint64_t feature_mask;                /* what code generation may use: part of every cache key */
    char cpu[32];                         /* LLVM's -mcpu */
    char features[256];                   /* LLVM's feature string, "+avx2,+fma" */
    bool nominal;                         /* a machine of fixed cache sizes, for texts: its code is not run */
} NstTarget;

/* This machine (CPUID, XCR0, AMX permission by arch_prctl; caches by CPUID leaf 4 / 0x8000001d). */
void nst_target_host(NstTarget *target);
/* The host limited to a level by name: "baseline", "avx2", "avx512", "vnni", "amx", "host"; "nominal-LEVEL" is that level
 * with fixed cache sizes, the same on every host.  Errors: NST_E_INVALID for an unknown name, NST_E_UNSUPPORTED when the
 * host lacks the level (naming what is lacking). */
NstStatus nst_target_parse(NstCtx *ctx, const char *name, NstTarget *target) NST_MUST_CHECK;
/* That level with the host's caches, whether the host has its instructions or not: for code that runs elsewhere. */
void nst_target_of_level(NstTargetLevel level, NstTarget *target);
const char *nst_target_level_name(NstTargetLevel level);

/* Lanes of one vector of that type. */
int nst_target_lanes(const NstTarget *target, NstDtype type);

typedef enum NstTensorInsn {
#define NST_TENSOR_INSN(name, text, level, a, b, acc, k, matrix, lanes, regs, rows, vectors) NST_INSN_##name,
#include "ir/tensor_insn.def"
#undef NST_TENSOR_INSN
    NST_INSN_COUNT
} NstTensorInsn;

typedef struct NstTensorInsnInfo {
    const char *name;
    NstTargetLevel level;
    NstDtype a, b, accumulator;
    int k_step, matrix_rows, lanes, registers, rows, vectors;
} NstTensorInsnInfo;
const NstTensorInsnInfo *nst_tensor_insn(NstTensorInsn insn);
/* The best row for these operand types on the target; NST_INSN_COUNT if there is none. */
NstTensorInsn nst_target_insn(const NstTarget *target, NstDtype a, NstDtype b, NstDtype accumulator);

#endif
