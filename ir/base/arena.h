/* arena.h: region memory.  Everything the compile side allocates lives in an arena and dies with it.
 *
 * Allocation never returns NULL: on failure the arena jumps to the guard of its NstCtx (status.h), which
 * turns it into NST_E_NOMEM.  Foreign resources (mappings, LLVM objects, files) are attached as cleanups, run
 * last in, first out.  An arena is used by one thread at a time. */
#ifndef NST_IR_BASE_ARENA_H
#define NST_IR_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct NstArena NstArena;
typedef struct NstCtx NstCtx;

/* A new arena whose allocation failures unwind to ctx's guard.  Child arenas (parent not NULL) die with their
 * parent.  Owns: the caller ends it with nst_arena_free unless the parent does. */
NstArena *nst_arena_new(NstCtx *ctx, NstArena *parent);

/* The same, but NULL instead of unwinding: for places that have no guard yet. */
NstArena *nst_arena_try_new(NstCtx *ctx, NstArena *parent);

/* Frees children, runs cleanups, frees all memory.  NULL is allowed. */
void nst_arena_free(NstArena *arena);

/* Frees children, runs cleanups, keeps one chunk for reuse. */
void nst_arena_reset(NstArena *arena);

/* Zeroed memory of `bytes` (0 gives a valid unique pointer), aligned to 16.  [owned by arena] */
void *nst_alloc(NstArena *arena, size_t bytes);

/* Zeroed array; a product that overflows counts as out of memory.  [owned by arena] */
void *nst_alloc_array(NstArena *arena, size_t count, size_t size);

/* Zeroed memory aligned to `align` (a power of two <= 4096).  [owned by arena] */
void *nst_alloc_aligned(NstArena *arena, size_t bytes, size_t align);

/* A copy of bytes.  [owned by arena] */
void *nst_copy(NstArena *arena, const void *bytes, size_t size);

/* A NUL-terminated copy of n characters / of text / of formatted text.  [owned by arena] */
char *nst_copy_text(NstArena *arena, const char *text, size_t n);
char *nst_strdup(NstArena *arena, const char *text);
char *nst_format(NstArena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Registers fn(arg) to run when the arena is freed or reset.  When the registration itself runs out of
 * memory, fn(arg) runs at once before unwinding, so that nothing leaks. */
void nst_arena_on_free(NstArena *arena, void (*fn)(void *arg), void *arg);

/* The context that the arena was made with. */
NstCtx *nst_arena_ctx(const NstArena *arena);

/* Bytes handed out and not yet freed, children included. */
size_t nst_arena_bytes(const NstArena *arena);

/* Test hook: the n-th chunk allocation of this process from now on fails (1 = the next); 0 turns it off. */
void nst_arena_fail_after(uint64_t n);

/* Test hook: chunks of at most so many bytes, so that nearly every allocation is one of memory; 0 turns it off. */
void nst_arena_chunk_limit(size_t bytes);

/* The test hook's question, for the own allocations made outside arenas: true when this one must fail. */
bool nst_alloc_should_fail(void);

#define NST_NEW(arena, Type)              ((Type *)nst_alloc((arena), sizeof(Type)))
#define NST_NEW_ARRAY(arena, Type, count) ((Type *)nst_alloc_array((arena), (size_t)(count), sizeof(Type)))

#endif
