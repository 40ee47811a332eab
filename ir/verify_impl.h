/* verify_impl.h: what the files of the loop-nest verifier share; not for others. */
#ifndef NST_IR_VERIFY_IMPL_H
#define NST_IR_VERIFY_IMPL_H

#include "ir/text_loop.h"

/* How a symbol in scope varies. */
typedef enum NstVerifySym {
    SYM_UNKNOWN,
    SYM_PARAM,
    SYM_SERIAL,
    SYM_PARALLEL,
    SYM_VECTOR,
    SYM_UNROLL,
    SYM_INDEX
} NstVerifySym;

typedef struct NstVerifyScope { /* one thing in scope, to be taken out again */
    enum { SCOPE_SYM, SCOPE_LET, SCOPE_BUFFER } kind;
    uint32_t id;
} NstVerifyScope;

typedef struct NstVerifier {
    NstCtx *ctx;
    NstArena *arena;
    const NstKernel *kernel;
    uint8_t *sym;           /* NstVerifySym by symbol */
    bool *sym_by_iteration; /* differs by iteration of the parallel loop around */
    bool *sym_by_lane;      /* may differ by lane of the vector loop around */
    bool *let;              /* in scope */
    bool *buffer;           /* in scope (ARGs always) */
    uint32_t *buffer_loop;  /* number of the parallel loop a local buffer was allocated in; 0 = none */
    uint32_t n_syms;
    NST_VEC(NstVerifyScope) scope;
    uint32_t statement; /* number of the statement that is checked, from 1 in text order */
    const NstStmt *stmt;
    uint32_t parallel, n_parallel; /* number of the parallel loop around; 0 = none */
    bool parallel_once;            /* that loop runs at most once: no two iterations meet */
    const NstFor *vector;          /* the vector loop around */
    bool in_while;                 /* a break may stand here */
    int never;                     /* loops around that provably run no iteration */
    int maybe_dead;                /* ifs and loops that may not run around: what stands here may never be reached */
    int depth;
    NstStatus status; /* of a walk over an expression */
} NstVerifier;

typedef bool (*NstVerifySymTest)(const NstVerifier *v, NstSym sym);

/* Fails: "L07: kernel 'k', statement 3 (store): <values>; rule: <text of verify.def>". */
NstStatus nst_verify_broken(NstVerifier *v, int number, const char *format, ...) NST_PRINTF(3, 4);
/* Texts for messages. [owned by v->arena or the kernel] */
const char *nst_verify_dim_text(NstVerifier *v, NstDim dim);
const char *nst_verify_sym_name(NstVerifier *v, uint32_t sym);
const char *nst_verify_buffer_name(NstVerifier *v, NstBuf buffer);
/* Puts something in scope / takes out all that came since the scope had `mark` entries. */
void nst_verify_enter_scope(NstVerifier *v, int kind, uint32_t id);
void nst_verify_leave_scope(NstVerifier *v, uint32_t mark);
/* Brings an index variable into scope (L08). */
NstStatus nst_verify_define_sym(NstVerifier *v, NstSym sym, NstVerifySym state);
/* True if any symbol of dim passes the test. */
bool nst_verify_any_sym(const NstVerifier *v, NstDim dim, NstVerifySymTest test);
bool nst_verify_is_by_iteration(const NstVerifier *v, NstSym sym);
bool nst_verify_is_by_lane(const NstVerifier *v, NstSym sym);
/* Set, and of symbols in scope (L01, L05). */
NstStatus nst_verify_dim(NstVerifier *v, NstDim dim);
/* A buffer's type, shape and layout (L01-L03) / all arguments (L12) / a use in scope (L07, L24). */
NstStatus nst_verify_buffer(NstVerifier *v, const NstBuffer *buffer);
NstStatus nst_verify_args(NstVerifier *v);
NstStatus nst_verify_buffer_use(NstVerifier *v, NstBuf id);
/* A store to a buffer at an index by a parallel loop's iteration (L25). */
NstStatus nst_verify_parallel_store(NstVerifier *v, NstBuf id, const NstDim *index, uint32_t n_index);
/* verify_matrix.c: a matrix register's shape (L35) / a matrix statement (L36-L38 and what holds for all accesses). */
NstStatus nst_verify_matrix_shape(NstVerifier *v, NstBuf id);
NstStatus nst_verify_matrix(NstVerifier *v, const NstMatrix *matrix);
/* A load or store at an index (L09, L22, L31) / an expression of a type, NONE for any / a merge and its identity. */
NstStatus nst_verify_access(NstVerifier *v, NstBuf id, const NstDim *index, uint32_t n_index);
NstStatus nst_verify_expr(NstVerifier *v, NstExpr e, NstDtype type, const char *what);
NstStatus nst_verify_merge(NstVerifier *v, const NstStore *store, const NstStoreTarget *target);

#endif
