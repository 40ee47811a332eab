/* fuzz_loop_text.c: libFuzzer target: any bytes as .nsl text.  What parses must print, parse again and print the same; what
 * verifies is interpreted on small buffers and must only fail with a status. */
#include <stdlib.h>
#include <string.h>
#include "ir/loop.h"

#define MAX_ARGS  8
#define MAX_BYTES 4096
#define MAX_WORK  20000 /* estimated statements that are still interpreted */

static const char *print(NstArena *arena, const NstKernel *kernel)
{
    NstText text;
    nst_text_init(&text, arena);
    nst_kernel_print(&text, kernel);
    return nst_text_get(&text);
}

/* Statements run at most, or more than MAX_WORK; whiles may never end. */
static int64_t work_of(NstKernel *kernel, const NstBlock *block, int64_t times)
{
    int64_t sum = 0;
    for (uint32_t k = 0; k < block->n && sum <= MAX_WORK; k++) {
        NstStmt *stmt = block->at[k];
        sum += times;
        int64_t n = 0, lo, hi;
        if (stmt->kind == NST_STMT_WHILE) return MAX_WORK + 1;
        if (stmt->kind == NST_STMT_IF) {
            sum += work_of(kernel, &stmt->u.branch.then, times);
            sum += work_of(kernel, &stmt->u.branch.otherwise, times);
        }
        if (stmt->kind != NST_STMT_FOR) continue;
        nst_dim_bounds(kernel->dims, stmt->u.loop.begin, &lo, &n);
        nst_dim_bounds(kernel->dims, stmt->u.loop.end, &n, &hi);
        if (lo < -MAX_WORK || hi > MAX_WORK) return MAX_WORK + 1;
        sum += work_of(kernel, &stmt->u.loop.body, hi > lo ? times * (hi - lo) : 0);
    }
    return sum;
}

static void interpret(NstCtx *ctx, NstKernel *kernel)
{
    void *buffer[MAX_ARGS];
    size_t bytes[MAX_ARGS];
    int64_t param[MAX_ARGS];
    if (kernel->n_args > MAX_ARGS || kernel->params.n > MAX_ARGS) return;
    for (uint32_t k = 0; k < kernel->params.n; k++) {
        NstSymInfo *info = nst_dims_sym(kernel->dims, kernel->params.at[k]);
        param[k] = 3;
        if (info->lo > 3 || info->hi < 3) param[k] = info->lo;
        info->lo = info->hi = param[k]; /* so that the work can be bounded */
    }
    if (work_of(kernel, &kernel->body, 1) > MAX_WORK) return;
    for (uint32_t k = 0; k < kernel->n_args; k++) {
        buffer[k] = nst_alloc(ctx->arena, MAX_BYTES);
        bytes[k] = MAX_BYTES;
    }
    NstKernelRun run = {.buffer = buffer, .buffer_bytes = bytes, .param = param, .has_fma = true};
    if (nst_kernel_interpret(ctx, kernel, &run) != NST_OK) nst_ctx_clear(ctx);
}

typedef struct Input {
    const char *text;
    size_t n;
} Input;

static NstStatus check(NstCtx *ctx, void *arg)
{
    const Input *input = arg;
    NstKernel *kernel, *again;
    NST_TRY(nst_kernel_parse(ctx, ctx->arena, input->text, input->n, &kernel));
    const char *first = print(ctx->arena, kernel);
    if (nst_kernel_parse(ctx, ctx->arena, first, strlen(first), &again) != NST_OK) {
        fprintf(stderr, "does not parse again: %s\n%s\n", ctx->error, first);
        abort();
    }
    const char *second = print(ctx->arena, again);
    if (strcmp(first, second) != 0) {
        fprintf(stderr, "prints differently:\n%s\n%s\n", first, second);
        abort();
    }
    (void)nst_kernel_hash(kernel, ctx->arena);
    (void)nst_kernel_clone(ctx->arena, kernel);
    NST_TRY(nst_kernel_verify(ctx, kernel));
    interpret(ctx, kernel);
    return NST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    NstCtx ctx;
    if (nst_ctx_init(&ctx) != NST_OK) return 0;
    Input input = {.text = (const char *)data, .n = size};
    if (nst_guard(&ctx, check, &input) != NST_OK) nst_ctx_clear(&ctx);
    nst_ctx_dispose(&ctx);
    return 0;
}
