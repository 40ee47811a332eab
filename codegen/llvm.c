/* llvm.c: LLVM contexts, target machines and one-call emission helpers. */
#include "codegen/llvm.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <string.h>
#include <threads.h>
#include "ir/base/str.h"

/* Loop strength reduction takes up to three quarters of a kernel's compile time and gains nothing on code whose
 * addresses are already reduced (measurements.md, "Compile time"). */
static void initialise_llvm(void)
{
    static const char *const options[] = {"nestor", "-disable-lsr"};
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMParseCommandLineOptions(2, options, NULL);
}

static void keep_first_error(LLVMDiagnosticInfoRef info, void *arg)
{
    NstLlvm *llvm = arg;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || llvm->error[0]) return;
    char *text = LLVMGetDiagInfoDescription(info);
    snprintf(llvm->error, sizeof llvm->error, "%s", text);
    LLVMDisposeMessage(text);
}

static void dispose_llvm(void *arg)
{
    NstLlvm *llvm = arg;
    if (llvm->builder) LLVMDisposeBuilder(llvm->builder);
    if (llvm->module) LLVMDisposeModule(llvm->module);
    if (llvm->machine) LLVMDisposeTargetMachine(llvm->machine);
    if (llvm->context) LLVMContextDispose(llvm->context);
}

/* LLVM ends the process when an instruction is asked for that its features lack: refuse targets that claim a level
 * without naming its features. */
static NstStatus check_features(NstLlvm *llvm)
{
    static const struct {
        NstTargetLevel level;
        const char *feature;
    } needed[] = {{NST_TARGET_AVX2, "+avx2"},         {NST_TARGET_AVX2, "+fma"},
                  {NST_TARGET_AVX2, "+f16c"},         {NST_TARGET_AVX512, "+avx512f"},
                  {NST_TARGET_AVX512, "+avx512bw"},   {NST_TARGET_AVX512, "+avx512dq"},
                  {NST_TARGET_AVX512, "+avx512vl"},   {NST_TARGET_AVX512_VNNI, "+avx512vnni"},
                  {NST_TARGET_AMX_INT8, "+amx-tile"}, {NST_TARGET_AMX_INT8, "+amx-int8"}};
    for (size_t k = 0; k < sizeof needed / sizeof *needed; k++)
        NST_CHECK(llvm->ctx, llvm->target->level < needed[k].level || strstr(llvm->target->features, needed[k].feature),
                  NST_E_INVALID, "target of level %s has features '%s': '%s' is missing",
                  nst_target_level_name(llvm->target->level), llvm->target->features, needed[k].feature);
    return NST_OK;
}

static NstStatus create_machine(NstLlvm *llvm)
{
    NST_TRY(check_features(llvm));
    char *triple = LLVMGetDefaultTargetTriple(), *error = NULL;
    LLVMTargetRef target;
    if (LLVMGetTargetFromTriple(triple, &target, &error)) {
        nst_fail(llvm->ctx, NST_E_COMPILER, "LLVM has no target for '%s': %s", triple, error);
        LLVMDisposeMessage(error);
        LLVMDisposeMessage(triple);
        return NST_E_COMPILER;
    }
    llvm->machine = LLVMCreateTargetMachine(target, triple, llvm->target->cpu, llvm->target->features,
                                            LLVMCodeGenLevelLess, LLVMRelocPIC, LLVMCodeModelSmall);
    LLVMSetTarget(llvm->module, triple);
    LLVMDisposeMessage(triple);
    NST_CHECK(llvm->ctx, llvm->machine, NST_E_COMPILER, "LLVM makes no target machine for cpu '%s', features '%s'",
              llvm->target->cpu, llvm->target->features);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(llvm->machine);
    LLVMSetModuleDataLayout(llvm->module, layout);
    LLVMDisposeTargetData(layout);
    return NST_OK;
}

static void cache_types(NstLlvm *llvm)
{
    LLVMContextRef context = llvm->context;
    llvm->void_type = LLVMVoidTypeInContext(context);
    llvm->i1 = LLVMInt1TypeInContext(context);
    llvm->i8 = LLVMInt8TypeInContext(context);
    llvm->i16 = LLVMInt16TypeInContext(context);
    llvm->i32 = LLVMInt32TypeInContext(context);
    llvm->i64 = LLVMInt64TypeInContext(context);
    llvm->f16 = LLVMHalfTypeInContext(context);
    llvm->f32 = LLVMFloatTypeInContext(context);
    llvm->f64 = LLVMDoubleTypeInContext(context);
    llvm->ptr = LLVMPointerTypeInContext(context, 0);
}

NstStatus nst_llvm_new(NstCtx *ctx, NstArena *arena, const NstTarget *target, NstLlvm **result)
{
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, initialise_llvm);
    NstLlvm *llvm = NST_NEW(arena, NstLlvm);
    nst_arena_on_free(arena, dispose_llvm, llvm);
    llvm->ctx = ctx;
    llvm->target = target;
    llvm->context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(llvm->context, keep_first_error, llvm);
    llvm->module = LLVMModuleCreateWithNameInContext("nestor", llvm->context);
    llvm->builder = LLVMCreateBuilderInContext(llvm->context);
    cache_types(llvm);
    *result = llvm;
    return create_machine(llvm);
}

static void add_text_attribute(NstLlvm *llvm, LLVMValueRef function, const char *key, const char *value)
{
    LLVMAttributeRef attribute =
        LLVMCreateStringAttribute(llvm->context, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(function, LLVMAttributeFunctionIndex, attribute);
}

void nst_llvm_set_attributes(NstLlvm *llvm, LLVMValueRef function)
{
    char bits[16];
    snprintf(bits, sizeof bits, "%d", llvm->target->vector_bytes * 8);
    unsigned kind = LLVMGetEnumAttributeKindForName("nounwind", 8);
    LLVMAddAttributeAtIndex(function, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(llvm->context, kind, 0));
    add_text_attribute(llvm, function, "prefer-vector-width", bits);
    add_text_attribute(llvm, function, "min-legal-vector-width", bits);
    /* Only with a frame pointer does LLVM align a stack for vectors that it finds no register for; else half of those of 256 bits, and more
     * of 512, straddle lines as the caller's stack has it (32 groups of 4 channels to 3 at 31 x 31, AVX2: 81 or 112 us from run to run, now
     * 83; of 5 at 26 x 26, AVX-512: 58 to 65, now 59; no kernel slower; Zen 5, 2026-12). */
    add_text_attribute(llvm, function, "frame-pointer", "all");
}

static NstStatus emit_buffer(NstLlvm *llvm, LLVMCodeGenFileType kind, LLVMMemoryBufferRef *buffer)
{
    char *error = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(llvm->machine, llvm->module, kind, &error, buffer)) {
        nst_fail(llvm->ctx, NST_E_COMPILER, "LLVM could not emit code: %s", error ? error : "no reason given");
        LLVMDisposeMessage(error);
        return NST_E_COMPILER;
    }
    if (llvm->error[0]) {
        return nst_fail(llvm->ctx, NST_E_COMPILER, "LLVM could not emit code: %s", llvm->error);
    }
    return NST_OK;
}

static void dispose_buffer(void *arg)
{
    LLVMMemoryBufferRef *buffer = arg;
    if (*buffer) LLVMDisposeMemoryBuffer(*buffer);
}

/* A place for a buffer that dies with the arena, made before LLVM is asked: an arena that runs dry later leaks nothing. */
static LLVMMemoryBufferRef *new_buffer(NstArena *arena)
{
    LLVMMemoryBufferRef *buffer = NST_NEW(arena, LLVMMemoryBufferRef);
    nst_arena_on_free(arena, dispose_buffer, buffer);
    return buffer;
}

NstStatus nst_llvm_emit_object(NstLlvm *llvm, NstArena *arena, const void **bytes, size_t *size)
{
    LLVMMemoryBufferRef *buffer = new_buffer(arena);
    NST_TRY(emit_buffer(llvm, LLVMObjectFile, buffer));
    *bytes = LLVMGetBufferStart(*buffer);
    *size = LLVMGetBufferSize(*buffer);
    return NST_OK;
}

NstStatus nst_llvm_emit_assembly(NstLlvm *llvm, NstArena *arena, NstText *text)
{
    LLVMMemoryBufferRef *buffer = new_buffer(arena);
    NST_TRY(emit_buffer(llvm, LLVMAssemblyFile, buffer));
    nst_text_add_n(text, LLVMGetBufferStart(*buffer), LLVMGetBufferSize(*buffer));
    return NST_OK;
}

static void dispose_text(void *arg)
{
    char **text = arg;
    LLVMDisposeMessage(*text);
}

void nst_llvm_print(NstLlvm *llvm, NstArena *arena, NstText *text)
{
    char **printed = NST_NEW(arena, char *);
    nst_arena_on_free(arena, dispose_text, printed);
    *printed = LLVMPrintModuleToString(llvm->module);
    nst_text_add_n(text, *printed, strlen(*printed));
}

NstStatus nst_llvm_verify(NstLlvm *llvm)
{
    char *error = NULL;
    bool broken = LLVMVerifyModule(llvm->module, LLVMReturnStatusAction, &error);
    if (broken) nst_fail(llvm->ctx, NST_E_COMPILER, "LLVM's verifier: %s", error);
    LLVMDisposeMessage(error);
    return broken ? NST_E_COMPILER : NST_OK;
}

static char version_text[32];

static void write_version(void)
{
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    snprintf(version_text, sizeof version_text, "%u.%u.%u", major, minor, patch);
}

const char *nst_llvm_version(void)
{
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, write_version);
    return version_text;
}

LLVMTypeRef nst_llvm_storage_type(NstLlvm *llvm, NstDtype type)
{
    if (type == NST_F32) return llvm->f32;
    if (type == NST_F64) return llvm->f64;
    return LLVMIntTypeInContext(llvm->context, 8 * (unsigned)nst_dtype_info(type)->bytes);
}

LLVMTypeRef nst_llvm_type(NstLlvm *llvm, NstDtype type)
{
    return type == NST_BOOL ? llvm->i1 : nst_llvm_storage_type(llvm, type);
}

LLVMTypeRef nst_llvm_lanes(LLVMTypeRef type, uint32_t lanes)
{
    return lanes == 1 ? type : LLVMVectorType(type, lanes);
}

uint32_t nst_llvm_lane_count(LLVMValueRef value)
{
    LLVMTypeRef type = LLVMTypeOf(value);
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 1;
}

static LLVMValueRef splat_constant(LLVMTypeRef type, LLVMValueRef scalar)
{
    LLVMValueRef lane[256];
    uint32_t lanes = LLVMGetVectorSize(type);
    NST_ASSERT(lanes <= 256);
    for (uint32_t k = 0; k < lanes; k++) lane[k] = scalar;
    return LLVMConstVector(lane, lanes);
}

LLVMValueRef nst_llvm_int(LLVMTypeRef type, int64_t value)
{
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind) return LLVMConstInt(type, (uint64_t)value, true);
    return splat_constant(type, LLVMConstInt(LLVMGetElementType(type), (uint64_t)value, true));
}

LLVMValueRef nst_llvm_float(LLVMTypeRef type, double value)
{
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind) return LLVMConstReal(type, value);
    return splat_constant(type, LLVMConstReal(LLVMGetElementType(type), value));
}

LLVMValueRef nst_llvm_iota(LLVMTypeRef element, uint32_t lanes)
{
    LLVMValueRef lane[256];
    NST_ASSERT(lanes <= 256);
    for (uint32_t k = 0; k < lanes; k++) lane[k] = LLVMConstInt(element, k, false);
    return lanes == 1 ? lane[0] : LLVMConstVector(lane, lanes);
}

LLVMValueRef nst_llvm_splat(NstLlvm *llvm, LLVMValueRef scalar, uint32_t lanes)
{
    if (lanes == 1 || nst_llvm_lane_count(scalar) != 1) return scalar;
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), lanes);
    if (LLVMIsConstant(scalar)) return splat_constant(type, scalar);
    LLVMValueRef zero = LLVMConstInt(llvm->i32, 0, false);
    LLVMValueRef first = LLVMBuildInsertElement(llvm->builder, LLVMGetPoison(type), scalar, zero, "");
    LLVMValueRef mask = LLVMConstNull(LLVMVectorType(llvm->i32, lanes));
    return LLVMBuildShuffleVector(llvm->builder, first, LLVMGetPoison(type), mask, "");
}

LLVMValueRef nst_llvm_intrinsic(NstLlvm *llvm, const char *name, const LLVMTypeRef *types, uint32_t n_types,
                                LLVMValueRef *arg, uint32_t n_args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    NST_ASSERT(id != 0);
    LLVMTypeRef *overload = (LLVMTypeRef *)types;
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(llvm->module, id, overload, n_types);
    LLVMTypeRef type = LLVMIntrinsicGetType(llvm->context, id, overload, n_types);
    return LLVMBuildCall2(llvm->builder, type, function, arg, n_args, "");
}

LLVMValueRef nst_llvm_call_same(NstLlvm *llvm, const char *name, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef arg[3] = {a, b, c};
    return nst_llvm_intrinsic(llvm, name, &type, 1, arg, c ? 3 : b ? 2 : 1);
}

/* Lanes first, first + 1, ... of two vectors side by side. */
static LLVMValueRef shuffle_run(NstLlvm *llvm, LLVMValueRef a, LLVMValueRef b, uint32_t first, uint32_t n)
{
    LLVMValueRef lane[256];
    NST_ASSERT(n <= 256);
    for (uint32_t k = 0; k < n; k++) lane[k] = LLVMConstInt(llvm->i32, first + k, false);
    return LLVMBuildShuffleVector(llvm->builder, a, b, LLVMConstVector(lane, n), "");
}

LLVMValueRef nst_llvm_half(NstLlvm *llvm, LLVMValueRef vector, int which)
{
    uint32_t half = nst_llvm_lane_count(vector) / 2;
    if (half == 1)
        return LLVMBuildExtractElement(llvm->builder, vector, LLVMConstInt(llvm->i32, (unsigned)which, false), "");
    return shuffle_run(llvm, vector, LLVMGetPoison(LLVMTypeOf(vector)), which ? half : 0, half);
}

LLVMValueRef nst_llvm_join(NstLlvm *llvm, LLVMValueRef low, LLVMValueRef high)
{
    return shuffle_run(llvm, low, high, 0, 2 * nst_llvm_lane_count(low));
}

LLVMValueRef nst_llvm_offset(NstLlvm *llvm, LLVMValueRef base, LLVMValueRef bytes)
{
    if (LLVMIsAConstantInt(bytes) && LLVMConstIntGetSExtValue(bytes) == 0) return base;
    return LLVMBuildGEP2(llvm->builder, llvm->i8, base, &bytes, 1, "");
}

LLVMValueRef nst_llvm_offset_const(NstLlvm *llvm, LLVMValueRef base, int64_t bytes)
{
    return nst_llvm_offset(llvm, base, LLVMConstInt(llvm->i64, (uint64_t)bytes, true));
}

LLVMValueRef nst_llvm_load(NstLlvm *llvm, LLVMTypeRef type, LLVMValueRef at, uint32_t align)
{
    LLVMValueRef load = LLVMBuildLoad2(llvm->builder, type, at, "");
    LLVMSetAlignment(load, align);
    return load;
}

LLVMValueRef nst_llvm_store(NstLlvm *llvm, LLVMValueRef value, LLVMValueRef at, uint32_t align)
{
    LLVMValueRef store = LLVMBuildStore(llvm->builder, value, at);
    LLVMSetAlignment(store, align);
    return store;
}

LLVMValueRef nst_llvm_select(NstLlvm *llvm, LLVMValueRef condition, LLVMValueRef yes, LLVMValueRef no)
{
    if (yes == no) return yes;
    if (LLVMIsAConstantInt(condition)) return LLVMConstIntGetZExtValue(condition) ? yes : no;
    return LLVMBuildSelect(llvm->builder, condition, yes, no, "");
}

LLVMValueRef nst_llvm_any(NstLlvm *llvm, LLVMValueRef mask)
{
    uint32_t lanes = nst_llvm_lane_count(mask);
    if (lanes == 1) return mask;
    LLVMTypeRef word = LLVMIntTypeInContext(llvm->context, lanes);
    LLVMValueRef bits = LLVMBuildBitCast(llvm->builder, mask, word, "");
    return LLVMBuildICmp(llvm->builder, LLVMIntNE, bits, LLVMConstInt(word, 0, false), "");
}

void nst_llvm_unlikely(NstLlvm *llvm, LLVMValueRef branch)
{
    LLVMContextRef context = llvm->context;
    LLVMMetadataRef part[3] = {LLVMMDStringInContext2(context, "branch_weights", 14),
                               LLVMValueAsMetadata(LLVMConstInt(llvm->i32, 1, false)),
                               LLVMValueAsMetadata(LLVMConstInt(llvm->i32, 2000, false))};
    LLVMMetadataRef node = LLVMMDNodeInContext2(context, part, 3);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(context, "prof", 4), LLVMMetadataAsValue(context, node));
}

void nst_llvm_past_caches(NstLlvm *llvm, LLVMValueRef store)
{
    LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(llvm->i32, 1, false));
    LLVMMetadataRef node = LLVMMDNodeInContext2(llvm->context, &one, 1);
    LLVMSetMetadata(store, LLVMGetMDKindIDInContext(llvm->context, "nontemporal", 11),
                    LLVMMetadataAsValue(llvm->context, node));
}
