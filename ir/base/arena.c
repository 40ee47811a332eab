/* arena.c: region memory.
 *
 * An arena is a list of chunks, newest first, filled from the bottom.  Chunks double from FIRST_CHUNK to
 * LAST_CHUNK; a request larger than a chunk gets one of its own.  Fresh chunks come zeroed from calloc, so
 * large requests touch no page; only a chunk kept by reset is cleared again as it is handed out.  Under the
 * address sanitizer the unused part of a chunk is poisoned and every piece is followed by a poisoned gap. */
#include "ir/base/arena.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/status.h"

#if defined(__SANITIZE_ADDRESS__)
#define NST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NST_ASAN 1
#endif
#endif
#ifdef NST_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(at, size)   __asan_poison_memory_region((at), (size))
#define UNPOISON(at, size) __asan_unpoison_memory_region((at), (size))
#define GAP                16
#else
#define POISON(at, size)   ((void)(at), (void)(size))
#define UNPOISON(at, size) ((void)(at), (void)(size))
#define GAP                0
#endif

#define PIECE       16            /* bytes; every piece starts and ends at a multiple */
#define FIRST_CHUNK 4096          /* bytes */
#define LAST_CHUNK  (1024 * 1024) /* bytes */
#define MAX_ALIGN   4096          /* bytes */

typedef struct Chunk {
    struct Chunk *next;
    size_t size; /* bytes of payload */
    size_t used; /* bytes of payload handed out, with gaps */
    bool dirty;  /* payload may hold old bytes */
    _Alignas(PIECE) unsigned char payload[];
} Chunk;

typedef struct Cleanup {
    struct Cleanup *next;
    void (*fn)(void *arg);
    void *arg;
} Cleanup;

struct NstArena {
    NstCtx *ctx;
    NstArena *parent;
    NstArena *first_child;
    NstArena *next, *prev; /* siblings */
    Chunk *chunks;
    Cleanup *cleanups; /* last in first */
    size_t bytes;      /* handed out by this arena alone */
};

static _Atomic uint64_t fail_countdown;

static _Atomic size_t chunk_limit;

void nst_arena_chunk_limit(size_t bytes)
{
    atomic_store(&chunk_limit, bytes);
}

void nst_arena_fail_after(uint64_t n)
{
    atomic_store(&fail_countdown, n);
}

bool nst_alloc_should_fail(void)
{
    uint64_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    while (left != 0)
        if (atomic_compare_exchange_weak(&fail_countdown, &left, left - 1)) return left == 1;
    return false;
}

static Chunk *new_chunk(size_t payload)
{
    if (nst_alloc_should_fail() || payload > SIZE_MAX - sizeof(Chunk)) return NULL;
    Chunk *chunk = calloc(1, sizeof(Chunk) + payload);
    if (!chunk) return NULL;
    chunk->size = payload;
    POISON(chunk->payload, payload);
    return chunk;
}

static void free_chunk(Chunk *chunk)
{
    UNPOISON(chunk->payload, chunk->size);
    free(chunk);
}

/* The start of a piece of `bytes` in chunk, or NULL when it does not fit. */
static void *take(Chunk *chunk, size_t bytes, size_t align)
{
    uintptr_t base = (uintptr_t)chunk->payload;
    size_t start = (size_t)(((base + chunk->used + align - 1) & ~(uintptr_t)(align - 1)) - base);
    if (start > chunk->size || bytes > chunk->size - start) return NULL;
    size_t end = start + ((bytes + PIECE - 1) & ~(size_t)(PIECE - 1)) + GAP;
    chunk->used = end < chunk->size ? end : chunk->size;
    void *piece = chunk->payload + start;
    UNPOISON(piece, bytes);
    if (chunk->dirty) memset(piece, 0, bytes);
    return piece;
}

/* Like nst_alloc_aligned, but NULL on failure. */
static void *try_alloc(NstArena *arena, size_t bytes, size_t align)
{
    if (bytes == 0) bytes = 1;
    void *piece = arena->chunks ? take(arena->chunks, bytes, align) : NULL;
    if (!piece) {
        size_t slack = PIECE + GAP + (align > PIECE ? align : 0);
        if (bytes > SIZE_MAX - slack) return NULL;
        size_t size = arena->chunks ? arena->chunks->size * 2 : FIRST_CHUNK;
        size_t limit = atomic_load_explicit(&chunk_limit, memory_order_relaxed);
        if (size > LAST_CHUNK) size = LAST_CHUNK;
        if (limit != 0 && size > limit) size = limit;
        bool own_chunk = bytes + slack > size / 2;
        if (own_chunk) size = (bytes + slack) & ~(size_t)(PIECE - 1);
        Chunk *chunk = new_chunk(size);
        if (!chunk) return NULL;
        if (own_chunk && arena->chunks) { /* keep filling the chunk in front */
            chunk->next = arena->chunks->next;
            arena->chunks->next = chunk;
        } else {
            chunk->next = arena->chunks;
            arena->chunks = chunk;
        }
        piece = take(chunk, bytes, align);
    }
    arena->bytes += bytes;
    return piece;
}

void *nst_alloc_aligned(NstArena *arena, size_t bytes, size_t align)
{
    NST_ASSERT(align != 0 && (align & (align - 1)) == 0 && align <= MAX_ALIGN);
    void *piece = try_alloc(arena, bytes, align < PIECE ? PIECE : align);
    if (!piece) nst_out_of_memory(arena->ctx);
    return piece;
}

void *nst_alloc(NstArena *arena, size_t bytes)
{
    return nst_alloc_aligned(arena, bytes, PIECE);
}

void *nst_alloc_array(NstArena *arena, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size) nst_out_of_memory(arena->ctx);
    return nst_alloc_aligned(arena, count * size, PIECE);
}

void *nst_copy(NstArena *arena, const void *bytes, size_t size)
{
    void *copy = nst_alloc(arena, size);
    if (size != 0) memcpy(copy, bytes, size);
    return copy;
}

char *nst_copy_text(NstArena *arena, const char *text, size_t n)
{
    if (n == SIZE_MAX) nst_out_of_memory(arena->ctx);
    char *copy = nst_alloc(arena, n + 1);
    if (n != 0) memcpy(copy, text, n);
    return copy;
}

char *nst_strdup(NstArena *arena, const char *text)
{
    return nst_copy_text(arena, text, strlen(text));
}

char *nst_format(NstArena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    NST_ASSERT(n >= 0);
    char *text = nst_alloc(arena, (size_t)n + 1);
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}

void nst_arena_on_free(NstArena *arena, void (*fn)(void *arg), void *arg)
{
    Cleanup *cleanup = try_alloc(arena, sizeof(Cleanup), PIECE);
    if (!cleanup) {
        fn(arg);
        nst_out_of_memory(arena->ctx);
    }
    *cleanup = (Cleanup){arena->cleanups, fn, arg};
    arena->cleanups = cleanup;
}

size_t nst_arena_bytes(const NstArena *arena)
{
    size_t bytes = arena->bytes;
    for (const NstArena *child = arena->first_child; child; child = child->next) bytes += nst_arena_bytes(child);
    return bytes;
}

/* Children first, since what they hold may stand on what the parent's cleanups release. */
static void end_contents(NstArena *arena)
{
    while (arena->first_child) nst_arena_free(arena->first_child);
    while (arena->cleanups) {
        Cleanup *cleanup = arena->cleanups;
        arena->cleanups = cleanup->next;
        cleanup->fn(cleanup->arg);
    }
}

void nst_arena_free(NstArena *arena)
{
    if (!arena) return;
    end_contents(arena);
    while (arena->chunks) {
        Chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        free_chunk(chunk);
    }
    if (arena->prev)
        arena->prev->next = arena->next;
    else if (arena->parent)
        arena->parent->first_child = arena->next;
    if (arena->next) arena->next->prev = arena->prev;
    free(arena);
}

void nst_arena_reset(NstArena *arena)
{
    end_contents(arena);
    Chunk *kept = NULL;
    while (arena->chunks) {
        Chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        bool better = chunk->size <= LAST_CHUNK && (!kept || chunk->size > kept->size);
        Chunk *dropped = better ? kept : chunk;
        if (better) kept = chunk;
        if (dropped) free_chunk(dropped);
    }
    if (kept) {
        kept->next = NULL;
        kept->used = 0;
        kept->dirty = true;
        POISON(kept->payload, kept->size);
    }
    arena->chunks = kept;
    arena->bytes = 0;
}

NstArena *nst_arena_try_new(NstCtx *ctx, NstArena *parent)
{
    if (nst_alloc_should_fail()) return NULL;
    NstArena *arena = calloc(1, sizeof(NstArena));
    if (!arena) return NULL;
    arena->ctx = ctx;
    arena->parent = parent;
    if (parent) {
        arena->next = parent->first_child;
        if (arena->next) arena->next->prev = arena;
        parent->first_child = arena;
    }
    return arena;
}

NstCtx *nst_arena_ctx(const NstArena *arena)
{
    return arena->ctx;
}

NstArena *nst_arena_new(NstCtx *ctx, NstArena *parent)
{
    NstArena *arena = nst_arena_try_new(ctx, parent);
    if (!arena) nst_out_of_memory(ctx);
    return arena;
}
