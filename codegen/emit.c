/* emit.c: kernels into one module, the module into a blob. */
#include "codegen/emit.h"

#include <stdarg.h>
#include "codegen/object.h"
#include "ir/base/str.h"

void nst_emit_fail(NstEmit *e, NstStatus status, const char *format, ...)
{
    if (e->status != NST_OK) return;
    char text[NST_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    e->status = nst_fail(e->ctx, status, "%s", text);
}

/* --- statement numbers --------------------------------------------------------------------------------------- */

typedef struct Numbering {
    NstArena *arena;
    NstMap *map; /* may be NULL */
    NST_VEC(NstOrigin) origins;
} Numbering;

static void number_stmt(void *arg, NstStmt *stmt, int depth)
{
    Numbering *numbering = arg;
    (void)depth;
    if (numbering->map) nst_map_put(numbering->map, (uint64_t)(uintptr_t)stmt, numbering->origins.n);
    nst_vec_push(numbering->arena, &numbering->origins, stmt->origin);
}

static Numbering number_statements(NstArena *arena, const NstKernel *kernel, NstMap *map)
{
    Numbering numbering = {.arena = arena, .map = map};
    NstOrigin unknown = {0};
    nst_vec_push(arena, &numbering.origins, unknown);
    NstBlock body = kernel->body;
    nst_block_visit(&body, number_stmt, &numbering);
    return numbering;
}

const NstOrigin *nst_codegen_origins(NstArena *arena, const NstKernel *kernel, uint32_t *n)
{
    Numbering numbering = number_statements(arena, kernel, NULL);
    *n = numbering.origins.n;
    return numbering.origins.at;
}

/* --- one kernel -------------------------------------------------------------------------------------------------- */

/* The table of sizes goes to `keep`: the result's memory sizes are in it. */
static NstEmit *new_emit(NstCtx *ctx, NstArena *arena, NstArena *keep, NstLlvm *llvm, const NstKernel *kernel,
                         const NstCodegenOptions *options)
{
    NstEmit *e = NST_NEW(arena, NstEmit);
    uint32_t n = kernel->buffers.n;
    *e = (NstEmit){
        .ctx = ctx, .arena = arena, .llvm = llvm, .target = llvm->target, .options = options, .kernel = kernel};
    e->dims = nst_dims_new(keep);
    e->exprs = nst_exprs_new(arena, e->dims);
    e->layout = NST_NEW_ARRAY(arena, NstLayout, n);
    e->memory_at = NST_NEW_ARRAY(arena, NstDim, n);
    e->tile = NST_NEW_ARRAY(arena, NstTile, n);
    e->tile_lanes = NST_NEW_ARRAY(arena, uint32_t, n);
    e->tile_read = NST_NEW_ARRAY(arena, uint32_t, n);
    e->matrix_number = NST_NEW_ARRAY(arena, uint8_t, n);
    e->let = NST_NEW_ARRAY(arena, NstLanes, kernel->lets.n + 1);
    e->lane.n = 1;
    e->has_parallel = nst_emit_has_parallel(&kernel->body);
    NstDim zero = nst_dim_const(e->dims, 0);
    for (int kind = 0; kind < 2; kind++) e->top[kind] = e->most[kind] = zero;
    nst_map_init(&e->statement_number, arena);
    number_statements(arena, kernel, &e->statement_number);
    for (uint32_t k = 1; k < n; k++) {
        e->layout[k] = nst_emit_import_layout(e, nst_kernel_buffer(kernel, (NstBuf){k}));
    }
    nst_emit_tiles_scan(e);
    nst_emit_matrices_number(e);
    return e;
}

static void bind_params(NstEmit *e)
{
    if (e->kernel->params.n == 0) return;
    LLVMValueRef dims = nst_emit_argument(e, offsetof(NstKernelArgs, dims), e->llvm->ptr);
    for (uint32_t k = 0; k < e->kernel->params.n; k++) {
        LLVMValueRef at = nst_llvm_offset_const(e->llvm, dims, 8 * (int64_t)k);
        nst_emit_bind_value(e, nst_emit_import_sym(e, e->kernel->params.at[k]),
                            nst_llvm_load(e->llvm, e->llvm->i64, at, 8));
    }
}

/* The entry block holds what is computed once; `begin` goes on after it.  Without parallel loops, threads other than
 * the first leave at once. */
static void emit_function(NstEmit *e, const char *symbol)
{
    NstLlvm *llvm = e->llvm;
    LLVMBuilderRef builder = llvm->builder;
    nst_emit_declare_fail(e);
    LLVMTypeRef type = LLVMFunctionType(llvm->i32, &llvm->ptr, 1, false);
    e->function = LLVMAddFunction(llvm->module, symbol, type);
    nst_llvm_set_attributes(llvm, e->function);
    e->args = LLVMGetParam(e->function, 0);
    LLVMBasicBlockRef entry = nst_emit_new_block(e, "entry");
    e->return_block = nst_emit_new_block(e, "return");
    LLVMPositionBuilderAtEnd(builder, e->return_block);
    e->status_phi = LLVMBuildPhi(builder, llvm->i32, "");
    nst_emit_matrices_end(e);
    LLVMBuildRet(builder, e->status_phi);
    nst_emit_open(e, entry);
    nst_emit_matrices_begin(e);
    bind_params(e);
    if (e->has_parallel) {
        nst_emit_block(e, &e->kernel->body);
    } else {
        LLVMValueRef thread = nst_emit_argument(e, offsetof(NstKernelArgs, thread), llvm->i32);
        e->alone = true;
        nst_emit_guarded(e, LLVMBuildICmp(builder, LLVMIntEQ, thread, nst_llvm_int(llvm->i32, 0), ""),
                         &e->kernel->body);
    }
    if (e->dead || e->status != NST_OK) return;
    nst_emit_streams_end(e);
    LLVMBasicBlockRef last = LLVMGetInsertBlock(builder);
    LLVMValueRef ok = nst_llvm_int(llvm->i32, NST_OK);
    LLVMBuildBr(builder, e->return_block);
    LLVMAddIncoming(e->status_phi, &ok, &last, 1);
}

static void describe(NstEmit *e, NstArena *arena, NstKernelCode *code)
{
    code->name = nst_strdup(arena, e->kernel->name);
    code->dims = e->dims;
    code->scratch = e->most[0];
    code->shared = e->most[1];
    code->n_params = e->kernel->params.n;
    NstSym *param = NST_NEW_ARRAY(arena, NstSym, code->n_params);
    for (uint32_t k = 0; k < code->n_params; k++) param[k] = nst_emit_import_sym(e, e->kernel->params.at[k]);
    code->param = param;
    code->origin = nst_codegen_origins(arena, e->kernel, &code->n_origins);
}

static NstStatus emit_kernel(NstLlvm *llvm, NstArena *arena, NstArena *keep, const NstKernel *kernel,
                             const NstCodegenOptions *options, const char *symbol, NstKernelCode *code)
{
    NstEmit *e = new_emit(llvm->ctx, arena, keep, llvm, kernel, options);
    if (e->status == NST_OK) emit_function(e, symbol);
    if (e->status != NST_OK) return e->status;
    if (code) describe(e, keep, code);
    return NST_OK;
}

/* --- the calls of codegen.h ------------------------------------------------------------------------------------------ */

static NstStatus check_module(NstLlvm *llvm)
{
#ifdef NST_DEBUG
    return nst_llvm_verify(llvm);
#else
    (void)llvm;
    return NST_OK;
#endif
}

/* A module of one or several kernels, named nst_kernel_0, nst_kernel_1, ... */
static NstStatus emit_module(NstLlvm *llvm, NstArena *arena, NstArena *keep, const NstKernel *const *kernels,
                             uint32_t n, const NstCodegenOptions *options, NstKernelCode *code)
{
    static const NstCodegenOptions plain = {0};
    if (!options) options = &plain;
    for (uint32_t k = 0; k < n; k++) {
        const char *symbol = nst_format(arena, "nst_kernel_%u", k);
        NST_TRY(emit_kernel(llvm, arena, keep, kernels[k], options, symbol, code ? &code[k] : NULL));
    }
    return check_module(llvm);
}

NstStatus nst_codegen_compile(NstCtx *ctx, NstArena *arena, const NstKernel *const *kernels, uint32_t n_kernels,
                              const NstTarget *target, const NstCodegenOptions *options, NstCode *code)
{
    NstLlvm *llvm;
    NstObject object;
    const void *bytes;
    size_t size;
    NstArena *scratch = nst_arena_new(ctx, arena);
    memset(code, 0, sizeof *code);
    code->kernel = NST_NEW_ARRAY(arena, NstKernelCode, n_kernels);
    NstStatus status = nst_llvm_new(ctx, scratch, target, &llvm);
    if (status == NST_OK) status = emit_module(llvm, scratch, arena, kernels, n_kernels, options, code->kernel);
    if (status == NST_OK) status = nst_llvm_emit_object(llvm, scratch, &bytes, &size);
    if (status == NST_OK) status = nst_object_load(ctx, arena, bytes, size, &object);
    nst_arena_free(scratch);
    NST_TRY(status);
    code->bytes = object.bytes;
    code->size = object.size;
    code->n_kernels = n_kernels;
    for (uint32_t k = 0; k < n_kernels; k++)
        NST_TRY(nst_object_find(ctx, &object, nst_format(arena, "nst_kernel_%u", k), &code->kernel[k].entry));
    return NST_OK;
}

NstStatus nst_codegen_ir_text(NstCtx *ctx, const NstKernel *kernel, const NstTarget *target,
                              const NstCodegenOptions *options, NstText *text)
{
    NstLlvm *llvm;
    NstArena *arena = nst_arena_new(ctx, ctx->arena);
    NstStatus status = nst_llvm_new(ctx, arena, target, &llvm);
    if (status == NST_OK) status = emit_module(llvm, arena, arena, &kernel, 1, options, NULL);
    if (status == NST_OK) nst_llvm_print(llvm, arena, text);
    nst_arena_free(arena);
    return status;
}

NstStatus nst_codegen_assembly_text(NstCtx *ctx, const NstKernel *kernel, const NstTarget *target,
                                    const NstCodegenOptions *options, NstText *text)
{
    NstLlvm *llvm;
    NstArena *arena = nst_arena_new(ctx, ctx->arena);
    NstStatus status = nst_llvm_new(ctx, arena, target, &llvm);
    if (status == NST_OK) status = emit_module(llvm, arena, arena, &kernel, 1, options, NULL);
    if (status == NST_OK) status = nst_llvm_emit_assembly(llvm, arena, text);
    nst_arena_free(arena);
    return status;
}

NstStatus nst_kernel_code_memory(NstCtx *ctx, const NstKernelCode *kernel, const int64_t *param, int64_t *scratch,
                                 int64_t *shared)
{
    uint32_t n = nst_dims_sym_count(kernel->dims) + 1;
    int64_t *value = NST_NEW_ARRAY(ctx->arena, int64_t, n);
    for (uint32_t k = 0; k < kernel->n_params; k++) value[kernel->param[k].i] = param[k];
    NST_TRY(nst_dim_eval(ctx, kernel->dims, kernel->scratch, value, n, scratch));
    return nst_dim_eval(ctx, kernel->dims, kernel->shared, value, n, shared);
}

const char *nst_codegen_llvm_version(void)
{
    return nst_llvm_version();
}
