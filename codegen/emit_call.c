/* emit_call.c: helpers of the runtime, the error slot and the cancel flag. */
#include "codegen/emit.h"

/* --- helpers --------------------------------------------------------------------------------------------------- */

/* Result and parameters as C text: rtcall.def is their only description. */
static const struct {
    const char *name, *result, *parameters;
} helpers[NST_HELPER_COUNT] = {
#define NST_RTCALL(name, result, parameters) [NST_HELPER_##name] = {#name, #result, #parameters},
#include "ir/rtcall.def"
#undef NST_RTCALL
};

/* The LLVM type of a C type's text of n characters: a pointer if it holds a star. */
static LLVMTypeRef type_of_text(NstEmit *e, const char *text, size_t n)
{
    static const struct {
        const char *text;
        int kind;
    } words[] = {{"float", 0}, {"double", 1}, {"int64_t", 64}, {"int32_t", 32}, {"uint16_t", 16}, {"void", 2}};
    if (memchr(text, '*', n)) return e->llvm->ptr;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        size_t length = strlen(words[k].text);
        if (n < length || memcmp(text, words[k].text, length) != 0) continue;
        if (words[k].kind > 2) return LLVMIntTypeInContext(e->llvm->context, (unsigned)words[k].kind);
        return words[k].kind == 0 ? e->llvm->f32 : words[k].kind == 1 ? e->llvm->f64 : e->llvm->void_type;
    }
    NST_ASSERT(!"a type of rtcall.def that is known here");
    return NULL;
}

#define MAX_PARAMETERS 8

static uint32_t parameter_types(NstEmit *e, uint32_t helper, LLVMTypeRef *type)
{
    uint32_t n = 0;
    const char *p = helpers[helper].parameters + 1; /* after the bracket */
    while (*p && *p != ')') {
        while (*p == ' ') p++;
        size_t length = strcspn(p, ",)");
        NST_ASSERT(n < MAX_PARAMETERS);
        type[n++] = type_of_text(e, p, length);
        p += length + (p[length] == ',');
    }
    return n;
}

LLVMValueRef nst_emit_helper(NstEmit *e, uint32_t helper, LLVMValueRef *arg, uint32_t n_args)
{
    LLVMTypeRef type[MAX_PARAMETERS];
    uint32_t n = parameter_types(e, helper, type);
    NST_ASSERT(n == n_args);
    LLVMTypeRef result = type_of_text(e, helpers[helper].result, strlen(helpers[helper].result));
    LLVMTypeRef function = LLVMFunctionType(result, type, n, false);
    LLVMValueRef table = nst_emit_argument(e, offsetof(NstKernelArgs, helpers), e->llvm->ptr);
    LLVMValueRef slot = nst_llvm_offset_const(e->llvm, table, (int64_t)helper * 8);
    LLVMValueRef address = nst_llvm_load(e->llvm, e->llvm->ptr, slot, 8);
    return LLVMBuildCall2(e->llvm->builder, function, address, arg, n, "");
}

LLVMValueRef nst_emit_helper_lanes(NstEmit *e, uint32_t helper, LLVMValueRef a, LLVMValueRef b)
{
    uint32_t lanes = nst_llvm_lane_count(a);
    LLVMValueRef pair[2] = {a, b};
    if (lanes == 1) return nst_emit_helper(e, helper, pair, b ? 2 : 1);
    LLVMValueRef result = NULL;
    for (uint32_t k = 0; k < lanes; k++) {
        LLVMValueRef at = nst_llvm_int(e->llvm->i32, k);
        pair[0] = LLVMBuildExtractElement(e->llvm->builder, a, at, "");
        if (b) pair[1] = LLVMBuildExtractElement(e->llvm->builder, b, at, "");
        LLVMValueRef value = nst_emit_helper(e, helper, pair, b ? 2 : 1);
        if (!result) result = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(value), lanes));
        result = LLVMBuildInsertElement(e->llvm->builder, result, value, at, "");
    }
    return result;
}

/* The address of a whole buffer's storage. */
static LLVMValueRef buffer_address(NstEmit *e, NstBuf buffer)
{
    const NstBuffer *info = nst_kernel_buffer(e->kernel, buffer);
    if (info->space == NST_SPACE_REG) {
        nst_emit_fail(e, NST_E_VERIFY, "kernel '%s' hands register tile '%s' to a helper", e->kernel->name, info->name);
        return LLVMConstNull(e->llvm->ptr);
    }
    NstDim at = e->memory_at[buffer.i].i ? e->memory_at[buffer.i] : nst_dim_const(e->dims, 0);
    return nst_emit_address(e, nst_emit_root(e, buffer), at);
}

void nst_emit_call(NstEmit *e, const NstStmt *stmt)
{
    LLVMTypeRef type[MAX_PARAMETERS];
    LLVMValueRef arg[MAX_PARAMETERS];
    uint32_t helper = stmt->u.call.helper, n = 0;
    bool known = helper < NST_HELPER_COUNT;
    uint32_t wanted = known ? parameter_types(e, helper, type) : 0;
    if (!known || wanted != stmt->u.call.n_buffers + stmt->u.call.n_args || e->lane.n > 1) {
        nst_emit_fail(e, NST_E_UNSUPPORTED, "kernel '%s': call of helper %u (%s) with %u buffers and %u values%s",
                      e->kernel->name, helper, known ? helpers[helper].name : "unknown", stmt->u.call.n_buffers,
                      stmt->u.call.n_args, e->lane.n > 1 ? " in a vector loop" : "");
        return;
    }
    for (uint32_t k = 0; k < stmt->u.call.n_buffers; k++) arg[n++] = buffer_address(e, stmt->u.call.buffer[k]);
    for (uint32_t k = 0; k < stmt->u.call.n_args; k++) {
        arg[n] = nst_emit_expr(e, stmt->u.call.arg[k]).v;
        if (e->status == NST_OK && LLVMTypeOf(arg[n]) != type[n])
            nst_emit_fail(e, NST_E_VERIFY, "kernel '%s': argument %u of helper %s has another type than its parameter",
                          e->kernel->name, n, helpers[helper].name);
        n++;
    }
    if (e->status != NST_OK) return;
    nst_emit_helper(e, helper, arg, n);
    nst_emit_forget(e);
}

/* --- leaving early ------------------------------------------------------------------------------------------------ */

/* One function a module: int32_t fail(NstErrorSlot *, int32_t status, uint32_t origin, int64_t value, int64_t limit).
 * The first failing thread fills the slot. */
void nst_emit_declare_fail(NstEmit *e)
{
    NstLlvm *llvm = e->llvm;
    LLVMBuilderRef builder = llvm->builder;
    LLVMTypeRef parameter[5] = {llvm->ptr, llvm->i32, llvm->i32, llvm->i64, llvm->i64};
    e->fail_type = LLVMFunctionType(llvm->i32, parameter, 5, false);
    e->fail_function = LLVMGetNamedFunction(llvm->module, "nst_kernel_fail");
    if (e->fail_function) return;
    LLVMValueRef function = LLVMAddFunction(llvm->module, "nst_kernel_fail", e->fail_type);
    e->fail_function = function;
    nst_llvm_set_attributes(llvm, function);
    LLVMSetLinkage(function, LLVMInternalLinkage);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(llvm->context, function, "entry");
    LLVMBasicBlockRef first = LLVMAppendBasicBlockInContext(llvm->context, function, "first");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(llvm->context, function, "done");
    LLVMPositionBuilderAtEnd(builder, entry);
    LLVMValueRef slot = LLVMGetParam(function, 0), status = LLVMGetParam(function, 1);
    LLVMValueRef pair = LLVMBuildAtomicCmpXchg(builder, slot, LLVMConstInt(llvm->i32, 0, false), status,
                                               LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, false);
    LLVMBuildCondBr(builder, LLVMBuildExtractValue(builder, pair, 1, ""), first, done);
    LLVMPositionBuilderAtEnd(builder, first);
    nst_llvm_store(llvm, LLVMGetParam(function, 2), nst_llvm_offset_const(llvm, slot, offsetof(NstErrorSlot, origin)),
                   4);
    nst_llvm_store(llvm, LLVMGetParam(function, 3), nst_llvm_offset_const(llvm, slot, offsetof(NstErrorSlot, value)),
                   8);
    nst_llvm_store(llvm, LLVMGetParam(function, 4), nst_llvm_offset_const(llvm, slot, offsetof(NstErrorSlot, limit)),
                   8);
    LLVMBuildBr(builder, done);
    LLVMPositionBuilderAtEnd(builder, done);
    LLVMBuildRet(builder, status);
}

/* From the current block to the function's return with a status. */
static void leave_with(NstEmit *e, LLVMValueRef status)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->llvm->builder);
    LLVMBuildBr(e->llvm->builder, e->return_block);
    LLVMAddIncoming(e->status_phi, &status, &here, 1);
}

/* The value of the first lane that is set in a mask. */
static LLVMValueRef first_lane(NstEmit *e, LLVMValueRef mask, LLVMValueRef value)
{
    uint32_t lanes = nst_llvm_lane_count(mask);
    if (lanes == 1 || nst_llvm_lane_count(value) == 1) return value;
    LLVMTypeRef word = LLVMIntTypeInContext(e->llvm->context, lanes);
    LLVMValueRef bits = LLVMBuildBitCast(e->llvm->builder, mask, word, "");
    LLVMValueRef arg[2] = {bits, nst_llvm_int(e->llvm->i1, 0)};
    LLVMValueRef lane = nst_llvm_intrinsic(e->llvm, "llvm.cttz", &word, 1, arg, 2);
    lane = LLVMBuildURem(e->llvm->builder, lane, nst_llvm_int(word, lanes), "");
    return LLVMBuildExtractElement(e->llvm->builder, value, lane, "");
}

void nst_emit_stop_if(NstEmit *e, LLVMValueRef bad, NstStatus status, LLVMValueRef value, LLVMValueRef limit)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMValueRef any = nst_llvm_any(e->llvm, bad);
    if (LLVMIsAConstantInt(any) && LLVMConstIntGetZExtValue(any) == 0) return;
    LLVMBasicBlockRef stop = nst_emit_new_block(e, "stop"), go_on = nst_emit_new_block(e, "on");
    nst_llvm_unlikely(e->llvm, LLVMBuildCondBr(builder, any, stop, go_on));
    LLVMPositionBuilderAtEnd(builder, stop);
    LLVMValueRef slot = nst_emit_argument(e, offsetof(NstKernelArgs, error), e->llvm->ptr);
    LLVMValueRef arg[5] = {slot, nst_llvm_int(e->llvm->i32, status), nst_llvm_int(e->llvm->i32, e->statement),
                           first_lane(e, bad, value), limit};
    leave_with(e, LLVMBuildCall2(builder, e->fail_type, e->fail_function, arg, 5, ""));
    LLVMPositionBuilderAtEnd(builder, go_on);
}

void nst_emit_return_if(NstEmit *e, LLVMValueRef status)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(builder), go_on = nst_emit_new_block(e, "on");
    LLVMValueRef bad = LLVMBuildICmp(builder, LLVMIntNE, status, nst_llvm_int(e->llvm->i32, 0), "");
    nst_llvm_unlikely(e->llvm, LLVMBuildCondBr(builder, bad, e->return_block, go_on));
    LLVMAddIncoming(e->status_phi, &status, &here, 1);
    LLVMPositionBuilderAtEnd(builder, go_on);
}

void nst_emit_poll_cancel(NstEmit *e)
{
    LLVMBuilderRef builder = e->llvm->builder;
    LLVMValueRef flag = nst_emit_argument(e, offsetof(NstKernelArgs, cancel), e->llvm->ptr);
    LLVMValueRef value = nst_llvm_load(e->llvm, e->llvm->i32, flag, 4);
    LLVMSetOrdering(value, LLVMAtomicOrderingMonotonic);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(builder), go_on = nst_emit_new_block(e, "on");
    LLVMValueRef stop = LLVMBuildICmp(builder, LLVMIntNE, value, nst_llvm_int(e->llvm->i32, 0), "");
    nst_llvm_unlikely(e->llvm, LLVMBuildCondBr(builder, stop, e->return_block, go_on));
    LLVMValueRef status = nst_llvm_int(e->llvm->i32, NST_E_CANCELLED);
    LLVMAddIncoming(e->status_phi, &status, &here, 1);
    LLVMPositionBuilderAtEnd(builder, go_on);
}
