/* status.c: the compile context: first error, notes, out-of-memory guard. */
#include "ir/base/status.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

NstStatus nst_ctx_init(NstCtx *ctx)
{
    memset(ctx, 0, sizeof *ctx);
    ctx->arena = nst_arena_try_new(ctx, NULL);
    return ctx->arena ? NST_OK : NST_E_NOMEM;
}

void nst_ctx_dispose(NstCtx *ctx)
{
    nst_arena_free(ctx->arena);
    memset(ctx, 0, sizeof *ctx);
}

void nst_ctx_clear(NstCtx *ctx)
{
    ctx->status = NST_OK;
    ctx->error[0] = '\0';
}

NstStatus nst_guard(NstCtx *ctx, NstStatus (*body)(NstCtx *ctx, void *arg), void *arg)
{
    jmp_buf here;
    jmp_buf *outer = ctx->guard; /* not changed between setjmp and longjmp: keeps its value */
    NstStatus status;
    if (setjmp(here) == 0) {
        ctx->guard = &here;
        status = body(ctx, arg);
    } else {
        status = nst_fail(ctx, NST_E_NOMEM, "out of memory");
    }
    ctx->guard = outer;
    return status;
}

NstStatus nst_fail(NstCtx *ctx, NstStatus status, const char *format, ...)
{
    NST_ASSERT(status != NST_OK);
    if (ctx->status != NST_OK) return status;
    ctx->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(ctx->error, sizeof ctx->error, format, args);
    va_end(args);
    return status;
}

NstStatus nst_note(NstCtx *ctx, const char *format, ...)
{
    if (ctx->status == NST_OK) return NST_OK;
    size_t n = strlen(ctx->error);
    n += (size_t)snprintf(ctx->error + n, sizeof ctx->error - n, "; ");
    if (n < sizeof ctx->error) {
        va_list args;
        va_start(args, format);
        vsnprintf(ctx->error + n, sizeof ctx->error - n, format, args);
        va_end(args);
    }
    return ctx->status;
}

_Noreturn void nst_out_of_memory(NstCtx *ctx)
{
    if (ctx && ctx->guard) longjmp(*ctx->guard, 1);
    fputs("nestor: out of memory outside any guard\n", stderr);
    abort();
}

_Noreturn void nst_assert_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "nestor: %s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
