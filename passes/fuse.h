/* fuse.h: what the files of fusion share.  Fusion looks at nests, index maps and costs, never at operators. */
#ifndef NST_PASSES_FUSE_H
#define NST_PASSES_FUSE_H

#include "passes/flat.h"

/* A group under fusion and the buffers it touches. */
typedef struct NstFuseGroup {
    NstGroup *group;
    NstBufList reads, writes;
    NST_VEC(NstSym) makes; /* symbols that have their value after it */
} NstFuseGroup;

/* Positions of groups, ascending. */
typedef struct NstPlaces {
    uint32_t *at, n, cap;
} NstPlaces;

/* The groups that touch a buffer, and perhaps some that did before: nst_fuser_readers and _writers give the former. */
typedef struct NstBufferUse {
    NstPlaces readers, writers;
} NstBufferUse;

typedef struct NstFuser {
    NstCtx *ctx;
    NstModule *module;
    NstDims *dims;
    NstExprs *exprs;
    NstArena *arena;
    const NstGroup *within; /* a serial group whose members are fused: only its locals may vanish; NULL: the module */
    /* In execution order; a place whose group is NULL is empty: a group keeps its place until one is joined across it. */
    NST_VEC(NstFuseGroup) groups;
    NST_VEC(NstBufferUse) uses; /* by NstBuf.i */
    bool *constant;             /* by NstBuf.i below n_constant, while rows are fused: made of constants alone */
    uint32_t n_constant;
} NstFuser;

/* --- dependences (fuse_deps.c) --- */
void nst_fuser_init(NstFuser *f, NstCtx *ctx, NstModule *module);
/* Recomputes what group `at` reads and writes. */
void nst_fuser_refresh(NstFuser *f, uint32_t at);
void nst_fuser_remove(NstFuser *f, uint32_t at);
/* Closes the empty places. */
void nst_fuser_compact(NstFuser *f);
/* The groups that read, or write, the buffer; valid until the next change or question. */
NstPlaces nst_fuser_readers(const NstFuser *f, NstBuf buffer);
NstPlaces nst_fuser_writers(const NstFuser *f, NstBuf buffer);
/* The groups after `at` that read what it writes, and those before it that write what it reads.  Owns: arena. */
NstPlaces nst_fuser_users(const NstFuser *f, uint32_t at);
NstPlaces nst_fuser_sources(const NstFuser *f, uint32_t at);
bool nst_fuser_holds(const NstBufList *list, NstBuf buffer);
/* True if a buffer is in both lists. */
bool nst_fuser_meet(const NstBufList *a, const NstBufList *b);
/* True if group `later` reads or makes what `earlier` makes, or overwrites what that reads. */
bool nst_fuser_depends(const NstFuser *f, uint32_t later, uint32_t earlier);
/* True if groups `from` < `to` may run as one: nothing between them needs the first and is needed by the second. */
bool nst_fuser_can_join(const NstFuser *f, uint32_t from, uint32_t to);
/* Puts `joined` in the place of both; gives its position. */
uint32_t nst_fuser_join(NstFuser *f, uint32_t from, uint32_t to, NstGroup *joined);
/* The single nest of a group without common axes, or NULL; group may be NULL. */
NstNest *nst_fuse_single(const NstGroup *group);
/* Number of nests (in whole groups) that write / groups that read the buffer. */
uint32_t nst_fuse_writers(const NstFuser *f, NstBuf buffer);
uint32_t nst_fuse_readers(const NstFuser *f, NstBuf buffer);
/* True if nothing outside of what is being fused reads the buffer: it may vanish with its last reader. */
bool nst_fuse_private(const NstFuser *f, NstBuf buffer);
/* Says why a group was not fused with what reads it (kept for the plan). */
void nst_fuse_refuse(NstFuser *f, uint32_t at, const char *why);
/* Gives every group a reason why the next one is not part of it. */
void nst_fuser_explain(NstFuser *f);

/* --- nests --- */
/* Distinct loads of a buffer in a nest's expressions (at most `max` stored); gives their number. */
uint32_t nst_fuse_loads(const NstFuser *f, const NstNest *nest, NstBuf buffer, NstExpr *load, uint32_t max);
/* Rewrites every expression of a nest. */
void nst_fuse_rewrite(NstFuser *f, NstNest *nest, NstExprRewrite fn, void *arg);
/* True if output `out` covers its buffer by plain axes: every index is an axis of the nest, each once, or 0. */
bool nst_fuse_plain_out(const NstFuser *f, const NstNest *nest, const NstNestOut *out);
/* --- cost (fuse_cost.c) --- */
/* Nominal scalar operations of an expression: one an elementary operation, more for the slow ones. */
uint32_t nst_fuse_cost(const NstFuser *f, NstExpr e);
/* True if the producer may be evaluated inside the consumer; else *why says why not. */
bool nst_fuse_inline_pays(const NstFuser *f, const NstNest *producer, const NstNest *consumer, bool repeats,
                          const char **why);
/* True if the producer's readers together would evaluate it more often than it does by itself. */
bool nst_fuse_repeats(const NstFuser *f, const NstNest *producer);
/* True if one iteration of the first n common axes keeps the buffer in the first-level cache. */
bool nst_fuse_row_fits(const NstFuser *f, NstBuf buffer, uint32_t n_common);
/* True if any index of a load is clamped into its buffer: a pad or concat that scheduling will split. */
bool nst_fuse_has_clamp(const NstFuser *f, NstExpr e);

/* --- the rules --- */
NstStatus nst_fuse_inline(NstFuser *f); /* maps into users (fuse_inline.c) */
/* maps into the reductions (and maps) they read (fuse_epilogue.c) */
NstStatus nst_fuse_epilogues(NstFuser *f, bool only_sums);
NstStatus nst_fuse_rows(NstFuser *f); /* nests under common axes (fuse_rows.c) */
/* True if group `from` hands group `to` rows that are too long to be fused whole. */
bool nst_fuse_hands_rows(const NstFuser *f, uint32_t from, uint32_t to);
/* Joins groups (ascending, the first with each of the others or one between) under the outer axes that all share, however long
 * the rows that pass, from the first on while they may be; false, and nothing changed, where not even the second may. */
bool nst_fuse_join_all(NstFuser *f, const NstPlaces *places);

#endif
