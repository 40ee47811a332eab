/* codegen.h: from kernels of the loop-nest IR to machine code, through LLVM.
 *
 * In: verified kernels.  Out: one position-independent blob without relocations or addresses, with an entry point a
 * kernel that follows ir/abi.h.  The kernels' own tables (dims, exprs) are only read: each call works on copies in its
 * own arena and has its own LLVM context, so calls on kernels of one graph may run on several threads at once, as long
 * as nobody changes the graph's tables meanwhile. */
#ifndef NST_CODEGEN_CODEGEN_H
#define NST_CODEGEN_CODEGEN_H

#include "ir/loop.h"
#include "ir/target.h"

typedef struct NstCodegenOptions {
    bool bounds_checks; /* every access is checked against the buffer's layout: outside is NST_E_INDEX */
} NstCodegenOptions;

typedef struct NstKernelCode {
    const char *name;
    size_t entry; /* offset of the kernel's first instruction in the blob */
    /* Memory the caller hands in, in bytes, over the symbols param[0..n_params-1] of `dims`, which stand for the
     * kernel's params in ABI order.  Constants where nothing depends on sizes. */
    NstDims *dims;
    NstDim scratch; /* of each thread */
    NstDim shared;  /* of the kernel */
    const NstSym *param;
    uint32_t n_params;
    /* NstErrorSlot.origin is a number of this table (0: unknown).  Numbers follow from the statement's place alone, so
     * that kernels of equal canonical text share code and have tables of their own (nst_codegen_origins). */
    uint32_t n_origins;
    const NstOrigin *origin;
} NstKernelCode;

typedef struct NstCode {
    unsigned char *bytes; /* to be placed at an address that is a multiple of 64 (nst_os_map_code) */
    size_t size;
    uint32_t n_kernels;
    NstKernelCode *kernel;
} NstCode;

/* Compiles kernels into one blob.  Owns: arena holds the result.
 * Errors: NST_E_UNSUPPORTED naming what this version cannot emit; NST_E_COMPILER from LLVM or the loader; NST_E_NOMEM. */
NstStatus nst_codegen_compile(NstCtx *ctx, NstArena *arena, const NstKernel *const *kernels, uint32_t n_kernels,
                              const NstTarget *target, const NstCodegenOptions *options, NstCode *code) NST_MUST_CHECK;

/* The LLVM IR / the assembly of one kernel, for dumps. */
NstStatus nst_codegen_ir_text(NstCtx *ctx, const NstKernel *kernel, const NstTarget *target,
                              const NstCodegenOptions *options, NstText *text) NST_MUST_CHECK;
NstStatus nst_codegen_assembly_text(NstCtx *ctx, const NstKernel *kernel, const NstTarget *target,
                                    const NstCodegenOptions *options, NstText *text) NST_MUST_CHECK;

/* The origin table of a kernel: entry k belongs to the k-th statement, outer before inner, from 1; entry 0 is unknown.
 * Owns: arena. */
const NstOrigin *nst_codegen_origins(NstArena *arena, const NstKernel *kernel, uint32_t *n);

/* Bytes of scratch (each thread) and shared memory for given values of the params.
 * Errors: NST_E_SHAPE on overflow. */
NstStatus nst_kernel_code_memory(NstCtx *ctx, const NstKernelCode *kernel, const int64_t *param, int64_t *scratch,
                                 int64_t *shared) NST_MUST_CHECK;

/* LLVM's version, "19.1.7": part of cache keys. */
const char *nst_codegen_llvm_version(void);

#endif
