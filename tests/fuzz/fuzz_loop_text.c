/* fuzz_loop_text.c: libFuzzer target: any bytes as .nsl text.  What parses must print, parse again and print the same; what
 * verifies is interpreted on small buffers and must only fail with a status; what runs must do the same once simplified. */
#include <stdlib.h>
#include <string.h>
#include "ir/loop.h"
#include "passes/simplify.h"

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

/* Fixes the size symbols, so that the work can be bounded; false if it cannot. */
static bool choose_sizes(NstKernel *kernel, int64_t *param)
{
    if (kernel->n_args > MAX_ARGS || kernel->params.n > MAX_ARGS) return false;
    for (uint32_t k = 0; k < kernel->params.n; k++) {
        NstSymInfo *info = nst_dims_sym(kernel->dims, kernel->params.at[k]);
        int64_t value = (2 / info->multiple + 1) * info->multiple; /* 3, or more where that is no multiple */
        if (value < info->lo || value > info->hi) value = info->lo;
        if (value < 0 || value > info->hi || value % info->multiple != 0) return false;
        param[k] = info->lo = info->hi = value;
    }
    return work_of(kernel, &kernel->body, 1) <= MAX_WORK;
}

static NstStatus interpret(NstCtx *ctx, const NstKernel *kernel, const int64_t *param, void **buffer)
{
    size_t bytes[MAX_ARGS];
    for (uint32_t k = 0; k < kernel->n_args; k++) {
        buffer[k] = nst_alloc(ctx->arena, MAX_BYTES);
        bytes[k] = MAX_BYTES;
        for (size_t b = 0; b < MAX_BYTES; b++) ((uint8_t *)buffer[k])[b] = (uint8_t)((b * 7 + k) % 61 % 4);
    }
    NstKernelRun run = {.buffer = buffer, .buffer_bytes = bytes, .param = param, .has_fma = true, .find_races = true};
    return nst_kernel_interpret(ctx, kernel, &run);
}

static void compare_simplified(NstCtx *ctx, NstKernel *kernel)
{
    int64_t param[MAX_ARGS];
    void *before[MAX_ARGS], *after[MAX_ARGS];
    if (!choose_sizes(kernel, param) || nst_kernel_verify(ctx, kernel) != NST_OK) return; /* known sizes prove more */
    NstKernel *changed = nst_kernel_clone(ctx->arena, kernel);
    NstStatus status = interpret(ctx, kernel, param, before);
    nst_ctx_clear(ctx);
    bool any, same = nst_pass_simplify(ctx, changed, &any) == NST_OK && nst_kernel_verify(ctx, changed) == NST_OK;
    if (same && status == NST_OK) {
        same = interpret(ctx, changed, param, after) == NST_OK;
        for (uint32_t k = 0; same && k < kernel->n_args; k++) same = memcmp(before[k], after[k], MAX_BYTES) == 0;
    }
    if (same) return;
    fprintf(stderr, "simplified differently: %s\n%s\n%s\n", ctx->error, print(ctx->arena, kernel),
            print(ctx->arena, changed));
    abort();
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
    compare_simplified(ctx, kernel);
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
