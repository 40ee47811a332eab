/* status.h: the compile context: current arena, the first error with its notes, the out-of-memory guard.
 *
 * Every fallible function returns NstStatus and takes the context.  The first error wins; outer layers add
 * notes that say where ("node 'conv1', op Conv-22").  Text = what was given, what was allowed, where. */
#ifndef NST_IR_BASE_STATUS_H
#define NST_IR_BASE_STATUS_H

#include <setjmp.h>
#include <stdio.h>
#include "nestor/base.h"
#include "ir/base/arena.h"

#define NST_ERROR_TEXT 1024

struct NstCtx {
    NstArena *arena;            /* session-long memory of this context */
    NstStatus status;           /* first error, NST_OK if none */
    char error[NST_ERROR_TEXT]; /* its text and the notes added, "; "-separated */
    jmp_buf *guard;             /* where arena exhaustion jumps; NULL outside nst_guard */
};

/* Makes an empty context with its own arena.  Returns NST_E_NOMEM without an arena. */
NstStatus nst_ctx_init(NstCtx *ctx) NST_MUST_CHECK;

/* Frees the context's arena and all in it. */
void nst_ctx_dispose(NstCtx *ctx);

/* Forgets the error, keeps memory. */
void nst_ctx_clear(NstCtx *ctx);

/* Runs body(ctx, arg) under the out-of-memory guard: its status, or NST_E_NOMEM when an arena ran dry.
 * Guards nest: the innermost catches. */
NstStatus nst_guard(NstCtx *ctx, NstStatus (*body)(NstCtx *ctx, void *arg), void *arg) NST_MUST_CHECK;

/* Records the first error (later ones are dropped) and returns `status`. */
NstStatus nst_fail(NstCtx *ctx, NstStatus status, const char *format, ...) NST_PRINTF(3, 4);

/* Adds "; text" to the recorded error and returns its status. */
NstStatus nst_note(NstCtx *ctx, const char *format, ...) NST_PRINTF(2, 3);

/* Does not return: unwinds to the guard (aborts with a message when there is none: our bug). */
_Noreturn void nst_out_of_memory(NstCtx *ctx);

#define NST_TRY(call)                                                                                                  \
    do {                                                                                                               \
        NstStatus nst_try_status = (call);                                                                             \
        if (nst_try_status != NST_OK) return nst_try_status;                                                           \
    } while (0)

#define NST_FAIL(ctx, code, ...) return nst_fail((ctx), (code), __VA_ARGS__)

#define NST_CHECK(ctx, condition, code, ...)                                                                           \
    do {                                                                                                               \
        if (!(condition)) return nst_fail((ctx), (code), __VA_ARGS__);                                                 \
    } while (0)

/* For our own bugs only, never for what a model or caller can cause.  Stays on in release builds. */
#define NST_ASSERT(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) nst_assert_failed(#condition, __FILE__, __LINE__);                                           \
    } while (0)
_Noreturn void nst_assert_failed(const char *condition, const char *file, int line);

#endif
