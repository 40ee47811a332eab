/* llvm.h: one LLVM context with its module, builder and target machine, and one-call helpers to emit instructions.
 *
 * Only codegen/ includes this.  A NstLlvm belongs to one thread; it dies with its arena.  LLVM's own out of memory is
 * fatal for the process.  Nothing here runs IR passes: what is emitted is what is selected. */
#ifndef NST_CODEGEN_LLVM_H
#define NST_CODEGEN_LLVM_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include "ir/base/dtype.h"
#include "ir/base/status.h"
#include "ir/base/str.h"
#include "ir/target.h"

#define NST_LLVM_ERROR_TEXT 256

typedef struct NstLlvm {
    NstCtx *ctx;
    const NstTarget *target;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTargetMachineRef machine;
    LLVMTypeRef void_type, i1, i8, i16, i32, i64, f16, f32, f64, ptr;
    char error[NST_LLVM_ERROR_TEXT]; /* first diagnostic of severity error */
} NstLlvm;

/* A context for one compile call.  Owns: arena ends it.  Errors: NST_E_COMPILER if LLVM lacks the target. */
NstStatus nst_llvm_new(NstCtx *ctx, NstArena *arena, const NstTarget *target, NstLlvm **llvm) NST_MUST_CHECK;

/* Adds attributes every generated function has. */
void nst_llvm_set_attributes(NstLlvm *llvm, LLVMValueRef function);

/* The module as an object file.  Owns: arena.  Errors: NST_E_COMPILER with LLVM's text. */
NstStatus nst_llvm_emit_object(NstLlvm *llvm, NstArena *arena, const void **bytes, size_t *size) NST_MUST_CHECK;
/* The module as assembly / as LLVM IR text, added to text; arena is scratch. */
NstStatus nst_llvm_emit_assembly(NstLlvm *llvm, NstArena *arena, NstText *text) NST_MUST_CHECK;
void nst_llvm_print(NstLlvm *llvm, NstArena *arena, NstText *text);
/* LLVM's verifier.  Errors: NST_E_COMPILER with its text. */
NstStatus nst_llvm_verify(NstLlvm *llvm) NST_MUST_CHECK;
/* "19.1.7": part of cache keys. */
const char *nst_llvm_version(void);

/* The type of values of an element type (bool: i1, narrow floats: their bits), and of its storage in memory. */
LLVMTypeRef nst_llvm_type(NstLlvm *llvm, NstDtype type);
LLVMTypeRef nst_llvm_storage_type(NstLlvm *llvm, NstDtype type);
/* A vector of lanes of it; lanes = 1 is the type itself. */
LLVMTypeRef nst_llvm_lanes(LLVMTypeRef type, uint32_t lanes);
/* Lanes of a value: 1 if it is no vector. */
uint32_t nst_llvm_lane_count(LLVMValueRef value);

/* A constant in every lane of `type`, which is a scalar or a vector. */
LLVMValueRef nst_llvm_int(LLVMTypeRef type, int64_t value);
LLVMValueRef nst_llvm_float(LLVMTypeRef type, double value);
/* <0, 1, 2, ...> of an integer element type. */
LLVMValueRef nst_llvm_iota(LLVMTypeRef element, uint32_t lanes);
/* A scalar in every lane. */
LLVMValueRef nst_llvm_splat(NstLlvm *llvm, LLVMValueRef scalar, uint32_t lanes);

/* Calls an intrinsic overloaded by `types`. */
LLVMValueRef nst_llvm_intrinsic(NstLlvm *llvm, const char *name, const LLVMTypeRef *types, uint32_t n_types,
                                LLVMValueRef *arg, uint32_t n_args);
/* Calls an intrinsic whose operands (b, c may be NULL) have one type that overloads it. */
LLVMValueRef nst_llvm_call_same(NstLlvm *llvm, const char *name, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/* The lower (0) or upper (1) half of a vector's lanes, and two halves side by side. */
LLVMValueRef nst_llvm_half(NstLlvm *llvm, LLVMValueRef vector, int which);
LLVMValueRef nst_llvm_join(NstLlvm *llvm, LLVMValueRef low, LLVMValueRef high);
/* base + bytes, folded when the offset is 0. */
LLVMValueRef nst_llvm_offset(NstLlvm *llvm, LLVMValueRef base, LLVMValueRef bytes);
LLVMValueRef nst_llvm_offset_const(NstLlvm *llvm, LLVMValueRef base, int64_t bytes);
LLVMValueRef nst_llvm_load(NstLlvm *llvm, LLVMTypeRef type, LLVMValueRef at, uint32_t align);
LLVMValueRef nst_llvm_store(NstLlvm *llvm, LLVMValueRef value, LLVMValueRef at, uint32_t align);
/* Marks a store: what it writes need not stay in the caches. */
void nst_llvm_past_caches(NstLlvm *llvm, LLVMValueRef store);
LLVMValueRef nst_llvm_select(NstLlvm *llvm, LLVMValueRef condition, LLVMValueRef yes, LLVMValueRef no);
/* True when any lane of a bool or vector of bool is set, as i1. */
LLVMValueRef nst_llvm_any(NstLlvm *llvm, LLVMValueRef mask);
/* Marks the value with branch weights: the first successor is rare. */
void nst_llvm_unlikely(NstLlvm *llvm, LLVMValueRef branch);

#endif
