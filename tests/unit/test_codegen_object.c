/* test_codegen_object.c: the object loader refuses what is malformed or would need a real loader. */
#include <criterion/criterion.h>
#include <elf.h>
#include <string.h>
#include "codegen/llvm.h"
#include "codegen/object.h"

static NstCtx ctx;
static NstTarget target;
static NstLlvm *llvm;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    nst_target_host(&target);
    cr_assert_eq(nst_llvm_new(&ctx, ctx.arena, &target, &llvm), NST_OK, "%s", ctx.error);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(codegen_object, .init = begin, .fini = end);

/* double f(double x) = callee(x) + 1.5: a constant of the object, and a call if there is a callee. */
static void add_function(const char *callee)
{
    LLVMTypeRef type = LLVMFunctionType(llvm->f64, &llvm->f64, 1, false);
    LLVMValueRef function = LLVMAddFunction(llvm->module, "f", type);
    nst_llvm_set_attributes(llvm, function);
    LLVMPositionBuilderAtEnd(llvm->builder, LLVMAppendBasicBlockInContext(llvm->context, function, "entry"));
    LLVMValueRef value = LLVMGetParam(function, 0);
    if (callee) value = LLVMBuildCall2(llvm->builder, type, LLVMAddFunction(llvm->module, callee, type), &value, 1, "");
    LLVMBuildRet(llvm->builder, LLVMBuildFAdd(llvm->builder, value, nst_llvm_float(llvm->f64, 1.5), ""));
}

static void object_of(const char *callee, unsigned char **bytes, size_t *size)
{
    const void *object;
    add_function(callee);
    cr_assert_eq(nst_llvm_verify(llvm), NST_OK, "%s", ctx.error);
    cr_assert_eq(nst_llvm_emit_object(llvm, ctx.arena, &object, size), NST_OK, "%s", ctx.error);
    *bytes = nst_copy(ctx.arena, object, *size);
}

Test(codegen_object, code_and_constants_are_joined)
{
    unsigned char *bytes;
    size_t size, offset;
    NstObject object;
    object_of(NULL, &bytes, &size);
    cr_assert_eq(nst_object_load(&ctx, ctx.arena, bytes, size, &object), NST_OK, "%s", ctx.error);
    cr_assert_eq(nst_object_find(&ctx, &object, "f", &offset), NST_OK);
    cr_assert(offset < object.size);
    cr_assert_eq(nst_object_find(&ctx, &object, "g", &offset), NST_E_COMPILER);
    cr_assert_not_null(strstr(ctx.error, "'g'"));
}

Test(codegen_object, an_undefined_symbol_is_named)
{
    unsigned char *bytes;
    size_t size;
    NstObject object;
    object_of("outside", &bytes, &size);
    cr_assert_eq(nst_object_load(&ctx, ctx.arena, bytes, size, &object), NST_E_COMPILER);
    cr_assert_not_null(strstr(ctx.error, "undefined symbol 'outside'"), "%s", ctx.error);
}

Test(codegen_object, writable_data_is_refused)
{
    unsigned char *bytes;
    size_t size;
    NstObject object;
    LLVMSetInitializer(LLVMAddGlobal(llvm->module, llvm->i32, "counter"), nst_llvm_int(llvm->i32, 7));
    object_of(NULL, &bytes, &size);
    cr_assert_eq(nst_object_load(&ctx, ctx.arena, bytes, size, &object), NST_E_COMPILER);
    cr_assert_not_null(strstr(ctx.error, ".data"), "%s", ctx.error);
}

Test(codegen_object, any_truncation_and_any_changed_byte_is_survived)
{
    unsigned char *bytes;
    size_t size;
    object_of(NULL, &bytes, &size);
    for (size_t n = 0; n < size; n += n < 256 ? 1 : 7) {
        NstObject object;
        unsigned char *part = nst_copy(ctx.arena, bytes, n);
        cr_expect_neq(nst_object_load(&ctx, ctx.arena, part, n, &object), NST_OK);
        nst_ctx_clear(&ctx);
    }
    for (size_t at = 0; at < size; at++) {
        for (int flip = 0; flip < 3; flip++) {
            static const unsigned char pattern[3] = {0x01, 0x80, 0xff};
            NstObject object;
            unsigned char kept = bytes[at];
            bytes[at] ^= pattern[flip];
            if (nst_object_load(&ctx, ctx.arena, bytes, size, &object) != NST_OK) nst_ctx_clear(&ctx);
            bytes[at] = kept;
        }
    }
}
