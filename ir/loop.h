/* loop.h: the loop-nest IR: kernels as trees of loops over buffers and scalar expressions.
 *
 * A kernel works on buffers and size symbols handed in through the ABI (ir/abi.h).  Every pass from lowering to the last
 * scheduling step maps kernels to kernels; any state of one can be printed (.nsl), parsed, verified and interpreted.
 *
 * Meaning
 * - Indices and bounds are NstDim expressions over size symbols and INDEX symbols (loop variables, index-lets).
 * - A statement's expressions are evaluated completely, in scalar.def's semantics, before it stores.
 * - `for` runs begin <= var < end by step.  SERIAL in order.  UNROLL: constant trip count, one copy of the body an
 *   iteration.  VECTOR: at most `width` iterations, executed as lanes of one vector statement by statement: a statement is
 *   evaluated for all lanes before it stores for any; lanes at or past `end` are off (no load, no store, register lanes
 *   keep their value), and so are, inside an if, the lanes of the other branch.  The body of a vector loop holds no SERIAL
 *   loop whose bounds depend on the lane, no PARALLEL loop, no other VECTOR loop, no while, barrier, call or alloc of memory;
 *   what it stores is indexed by the lane.  `break` leaves the while around it; only ifs may stand between.
 * - PARALLEL: iterations are independent.  They are dealt to the kernel's threads in contiguous balanced ranges.  A loop,
 *   while or if that contains a parallel loop or a barrier runs on every thread; any other statement outside parallel loops
 *   runs on thread 0 only, except let / index-let (all threads) and alloc (per space).  There is no implied barrier
 *   after a parallel loop: `barrier` is a statement.
 * - REG buffers are register tiles: after unrolling every index is a constant, but for the variable of an enclosing VECTOR
 *   loop on the last axis, which then is the lane (plus a constant: lanes shifted, for trees over lanes).  SCRATCH is memory private to a thread, SHARED one memory for all
 *   threads of the kernel; both are uninitialised, and live from their alloc to the end of its block.
 * - MATRIX buffers are two-dimensional registers [rows, columns] of tensor_insn.def; matrix statements alone touch them, and
 *   none stands in a vector loop.  LOAD: m[r, c] = what lies in memory r further on the axis `rows` and c matrix elements
 *   further on the axis `columns` (an element may take several of memory); STORE the other way round; there, elements of a
 *   row of m lie side by side and rows at one stride.  DOT: acc[i, j] = step(acc[i, j], a[i, k], b[k, j]) for each k in order.
 * - `store` writes one or several buffers at one index at once (all values first).  With `merge` set it is a reduction update:
 *   it says how two partial states combine and what the neutral state is, so that scheduling may split the reduction.
 * - Reduction order is part of the nest: passes that split a reduction must give the order that architecture.md section 4 fixes.
 */
#ifndef NST_IR_LOOP_H
#define NST_IR_LOOP_H

#include "ir/base/vec.h"
#include "ir/expr.h"
#include "ir/origin.h"
#include "ir/type.h"

/* --- buffers ------------------------------------------------------------------------------------------------- */

typedef enum NstSpace { NST_SPACE_ARG, NST_SPACE_REG, NST_SPACE_SCRATCH, NST_SPACE_SHARED, NST_SPACE_MATRIX } NstSpace;
typedef enum NstAccess { NST_ACCESS_IN = 1, NST_ACCESS_OUT = 2, NST_ACCESS_INOUT = 3 } NstAccess;

/* One physical axis: index = floordiv(logical[axis] + halo[axis], divisor) mod modulus (modulus 0: no mod), times stride. */
typedef struct NstLayoutPart {
    uint8_t axis;
    int64_t divisor, modulus;
    NstDim stride; /* elements */
} NstLayoutPart;

/* Physical layout.  Element address = offset + sum over parts.  Blocking of axis a by 16 is two parts: {a, 16, 0} outer and
 * {a, 1, 16} inner.  Channel padding shows in strides and `elements`; halo[a] elements lie before index 0. */
typedef struct NstLayout {
    uint32_t n_parts;
    const NstLayoutPart *parts; /* outermost first */
    NstDim offset;              /* elements from the buffer's address */
    NstDim elements;            /* storage that the buffer takes, in elements */
    const int64_t *halo;        /* rank entries or NULL for all 0 */
    int bits; /* of storage an element: 8 * bytes of the dtype, or 4 / 2 for packed constants and inputs */
} NstLayout;

typedef struct NstBuffer {
    const char *name;
    NstDtype dtype;
    NstSpace space;
    NstAccess access; /* ARG only */
    int rank;
    const NstDim *shape; /* logical */
    NstLayout layout;
    bool constant; /* ARG: the same bytes every run (weights): may be repacked ahead */
    bool streamed; /* ARG, out: far larger than the caches and read by nobody soon: stores may go past them */
    NstOrigin origin;
} NstBuffer;

/* --- statements ---------------------------------------------------------------------------------------------- */

typedef struct NstStmt NstStmt;
typedef NST_VEC(NstStmt *) NstBlock;

typedef enum NstStmtKind {
    NST_STMT_FOR,
    NST_STMT_WHILE,
    NST_STMT_BREAK,
    NST_STMT_IF,
    NST_STMT_LET,
    NST_STMT_INDEX,
    NST_STMT_ALLOC,
    NST_STMT_STORE,
    NST_STMT_PREFETCH,
    NST_STMT_CALL,
    NST_STMT_BARRIER,
    NST_STMT_MATRIX,
    NST_STMT_ASSERT
} NstStmtKind;

typedef enum NstForKind { NST_FOR_SERIAL, NST_FOR_PARALLEL, NST_FOR_VECTOR, NST_FOR_UNROLL } NstForKind;

typedef struct NstFor {
    NstSym var;
    NstDim begin, end;
    int64_t step; /* >= 1 */
    NstForKind kind;
    int64_t width; /* VECTOR: lanes */
    NstBlock body;
} NstFor;

typedef struct NstStoreTarget {
    NstBuf buffer;
    NstExpr value; /* of the buffer's dtype; for an update it reads the old state by LOADs of the targets */
    NstExpr
        merge; /* update only: new state of this target from ARG 0..n-1 (left) and ARG n..2n-1 (right partial states) */
    NstExpr identity; /* update only: neutral state, a constant */
} NstStoreTarget;

/* Writes target[k].buffer[index] = target[k].value for all k at once. */
typedef struct NstStore {
    uint32_t n_targets;
    NstStoreTarget *target;
    uint32_t n_index;
    NstDim *index;
    bool update;
} NstStore;

typedef enum NstMatrixOp { NST_MATRIX_ZERO, NST_MATRIX_LOAD, NST_MATRIX_STORE, NST_MATRIX_DOT } NstMatrixOp;

typedef struct NstMatrix {
    NstMatrixOp op;
    NstBuf matrix;    /* STORE reads it, the others write it */
    NstBuf a, b;      /* DOT */
    NstScalarOp step; /* DOT: of rule DOT */
    NstBuf memory;    /* LOAD, STORE: where m[0, 0] lies, and the axes of memory that rows and columns run along */
    NstDim *index;
    uint32_t n_index;
    int row_axis, col_axis;
} NstMatrix;

struct NstStmt {
    NstStmtKind kind;
    NstOrigin origin;
    /* clang-format off: one line a kind */
    union {
        NstFor loop;
        struct {
            NstBlock body;
        } repeat; /* WHILE: until BREAK */
        struct {
            NstExpr condition;
            NstBlock then, otherwise;
        } branch;
        struct {
            uint32_t id;
            NstExpr value;
        } let; /* names a scalar for the rest of the block */
        struct {
            NstSym var;
            NstExpr value;
            NstDim lo, hi;
            bool checked;
        } index; /* names an i64 as an index in lo..hi-1;
                                                                    checked: outside is NST_E_INDEX (and the kernel stops) */
        struct {
            NstBuf buffer;
        } alloc; /* for the rest of the block */
        NstStore store;
        NstMatrix matrix;
        struct {
            NstBuf buffer;
            NstDim *index;
            uint32_t n_index;
            int level;
            bool write;
        } prefetch; /* a hint; level 1..3 */
        struct {
            uint32_t helper;
            NstExpr *arg;
            uint32_t n_args;
            NstBuf *buffer;
            uint32_t n_buffers;
        } call; /* rtcall.def */
        struct {
            NstExpr condition;
            uint32_t message;
        } check; /* ASSERT: false is NST_E_ASSERT with origin */
    } u;
    /* clang-format on */
};

/* --- kernels ------------------------------------------------------------------------------------------------- */

typedef struct NstLetInfo {
    const char *name;
    NstDtype type;
} NstLetInfo;

typedef struct NstKernel {
    NstArena *arena;
    NstDims *dims; /* shared with the graph it came from */
    NstExprs *exprs;
    NstOrigins *origins;
    const char *name;
    NST_VEC(NstBuffer) buffers;     /* index = NstBuf.i; entry 0 unused; ARG buffers first, in ABI order */
    NST_VEC(NstLetInfo) lets;       /* index = let id; entry 0 unused */
    NST_VEC(NstSym) params;         /* size symbols in ABI order */
    NST_VEC(const char *) messages; /* of asserts */
    uint32_t n_args;                /* ARG buffers are 1 .. n_args */
    NstBlock body;
    NstOrigin origin;
} NstKernel;

NstKernel *nst_kernel_new(NstArena *arena, NstDims *dims, NstExprs *exprs, NstOrigins *origins, const char *name);
/* A deep copy (statements, buffers) that shares dims, exprs, origins. */
NstKernel *nst_kernel_clone(NstArena *arena, const NstKernel *kernel);
NstBuffer *nst_kernel_buffer(const NstKernel *kernel, NstBuf buffer);

/* Adds an ARG buffer (before any other is added) / a local one; row-major dense layout. */
NstBuf nst_kernel_arg(NstKernel *kernel, const char *name, NstDtype dtype, int rank, const NstDim *shape,
                      NstAccess access);
NstBuf nst_kernel_local(NstKernel *kernel, const char *name, NstDtype dtype, NstSpace space, int rank,
                        const NstDim *shape);
/* A size symbol the kernel may use (idempotent). */
void nst_kernel_param(NstKernel *kernel, NstSym sym);
/* Adds every size symbol the kernel's bounds, indices and shapes use, in order of first use. */
void nst_kernel_collect_params(NstKernel *kernel);
uint32_t nst_kernel_let(NstKernel *kernel, const char *name, NstDtype type);
/* A new loop variable with bounds begin <= v <= end - 1 known to the prover. */
NstSym nst_kernel_index(NstKernel *kernel, const char *name, NstDim begin, NstDim end);
/* Restates the bounds of a loop variable after its loop's changed. */
void nst_kernel_index_bounds(NstKernel *kernel, NstSym var, NstDim begin, NstDim end);

/* Layouts. */
NstLayout nst_layout_row_major(NstArena *arena, NstDims *dims, NstDtype dtype, int rank, const NstDim *shape);
/* order[k] = logical axis at physical position k, dense but for the last one, which takes a multiple of so many elements. */
NstLayout nst_layout_permuted(NstArena *arena, NstDims *dims, NstDtype dtype, int rank, const NstDim *shape,
                              const int *order, int64_t multiple);
/* As row major over the order, with axis `blocked` split by `block`: its inner part innermost; extents rounded up. */
NstLayout nst_layout_blocked(NstArena *arena, NstDims *dims, NstDtype dtype, int rank, const NstDim *shape,
                             const int *order, int blocked, int64_t block);
/* Element offset of a logical index. */
NstDim nst_layout_offset(NstDims *dims, const NstLayout *layout, const NstDim *index);
/* True if elements of consecutive values of the axis are adjacent, in whole runs from each multiple of `run` on at least. */
bool nst_layout_adjacent(NstDims *dims, const NstLayout *layout, const NstDim *index, NstSym axis, int64_t run);
/* Extent of part k in a dense layout: its modulus, or the axis with its halo on both sides divided by the divisor, rounded up. */
NstDim nst_layout_extent(NstDims *dims, const NstLayout *layout, const NstDim *shape, uint32_t k);
/* True when elements of consecutive logical index along the last axis are adjacent and all is dense. */
bool nst_layout_is_row_major(NstDims *dims, const NstLayout *layout, int rank, const NstDim *shape);

/* Statements [kernel's arena].  Append to a block with nst_block_add. */
NstStmt *nst_stmt_for(NstKernel *kernel, NstSym var, NstDim begin, NstDim end, int64_t step, NstForKind kind,
                      int64_t width);
NstStmt *nst_stmt_store(NstKernel *kernel, NstBuf buffer, const NstDim *index, uint32_t n_index, NstExpr value);
NstStmt *nst_stmt_update(NstKernel *kernel, uint32_t n_targets, const NstStoreTarget *target, const NstDim *index,
                         uint32_t n_index);
NstStmt *nst_stmt_let(NstKernel *kernel, uint32_t id, NstExpr value);
NstStmt *nst_stmt_index(NstKernel *kernel, NstSym var, NstExpr value, NstDim lo, NstDim hi, bool checked);
NstStmt *nst_stmt_if(NstKernel *kernel, NstExpr condition);
NstStmt *nst_stmt_while(NstKernel *kernel);
NstStmt *nst_stmt_break(NstKernel *kernel);
NstStmt *nst_stmt_alloc(NstKernel *kernel, NstBuf buffer);
NstStmt *nst_stmt_prefetch(NstKernel *kernel, NstBuf buffer, const NstDim *index, uint32_t n_index, int level,
                           bool write);
NstStmt *nst_stmt_barrier(NstKernel *kernel);
NstStmt *nst_stmt_assert(NstKernel *kernel, NstExpr condition, const char *message);
NstStmt *nst_stmt_call(NstKernel *kernel, uint32_t helper, const NstExpr *arg, uint32_t n_args, const NstBuf *buffer,
                       uint32_t n_buffers);
/* A matrix statement; copies the index. */
NstStmt *nst_stmt_matrix(NstKernel *kernel, const NstMatrix *matrix);
/* The buffer that a matrix statement writes: a register or, for STORE, memory. */
NstBuf nst_matrix_written(const NstMatrix *matrix);
/* Rows and columns of a MATRIX buffer; false if its shape is not constant or has not two axes. */
bool nst_matrix_shape(const NstKernel *kernel, NstBuf matrix, int64_t shape[2]);
/* The index of m[row, column], in memory, of a LOAD or STORE whose index is set. */
void nst_matrix_index(const NstKernel *kernel, const NstMatrix *matrix, int64_t row, int64_t column, NstDim *index);
/* Elements of memory that rows of a LOAD or STORE lie apart, for that index (in `dims`, which may be a copy of the kernel's). */
NstDim nst_matrix_stride(NstDims *dims, const NstLayout *layout, const NstMatrix *matrix, const NstDim *index);
void nst_block_add(NstKernel *kernel, NstBlock *block, NstStmt *stmt);
typedef struct NstSymValue {
    NstSym sym;
    NstDim value;
} NstSymValue;
/* A deep copy of a statement with n symbols replaced.  With `fresh` everything the statement defines (loop variables,
 * index-lets, lets, buffers of allocs) is defined anew in the copy. */
NstStmt *nst_stmt_clone(NstKernel *kernel, const NstStmt *stmt, const NstSymValue *replace, uint32_t n, bool fresh);
/* The same for all statements of a block together: what one defines and another uses stays connected. */
NstBlock nst_block_clone(NstKernel *kernel, const NstBlock *block, const NstSymValue *replace, uint32_t n, bool fresh);
/* Replaces n_removed statements of a block from `at` on by n_inserted others. */
void nst_block_splice(NstKernel *kernel, NstBlock *block, uint32_t at, uint32_t n_removed, NstStmt *const *stmt,
                      uint32_t n_inserted);
/* Visits the expressions that a statement itself evaluates, for reading or replacing: not those of the statements inside, not
 * merges and identities. */
void nst_stmt_visit_exprs(NstStmt *stmt, void (*visit)(void *arg, NstExpr *e), void *arg);
/* True if a loop that is one in the code too (serial, parallel, while) stands in the block, at any depth. */
bool nst_block_has_loop(const NstBlock *block);
/* Visits every statement, outer before inner, in order. */
void nst_block_visit(NstBlock *block, void (*visit)(void *arg, NstStmt *stmt, int depth), void *arg);

/* --- text, checks, hash, interpretation ---------------------------------------------------------------------- */

/* .nsl text: grammar in docs/IR.md.  Print and parse round-trip exactly. */
void nst_kernel_print(NstText *text, const NstKernel *kernel);
NstStatus nst_kernel_parse(NstCtx *ctx, NstArena *arena, const char *text, size_t n, NstKernel **kernel) NST_MUST_CHECK;
/* Into existing tables; *p is left after the kernel (files may hold several). */
NstStatus nst_kernel_parse_at(NstCtx *ctx, NstArena *arena, NstDims *dims, NstExprs *exprs, NstOrigins *origins,
                              const char **p, NstKernel **kernel) NST_MUST_CHECK;

/* Numbered checks (ir/verify.def); the first broken one is NST_E_VERIFY "L07: ...". */
NstStatus nst_kernel_verify(NstCtx *ctx, const NstKernel *kernel) NST_MUST_CHECK;

/* Canonical text for hashing: names replaced by numbers in order of appearance, layout included, origins left out. */
void nst_kernel_canonical(NstText *text, const NstKernel *kernel);
typedef struct NstHash {
    uint64_t lo, hi;
} NstHash;
NstHash nst_hash128(const void *bytes, size_t n); /* XXH3-128 */
NstHash nst_kernel_hash(const NstKernel *kernel, NstArena *scratch);

/* The reference interpreter of kernels.  buffer[k] is the address of ARG buffer k + 1, param[k] the value of params[k].
 * Every access is bounds-checked (a violation is NST_E_INDEX: for tests of passes).  Runs parallel loops in order. */
typedef struct NstKernelRun {
    void *const *buffer;
    const size_t *buffer_bytes;
    const int64_t *param;
    bool has_fma;
    bool find_races; /* fail with NST_E_VERIFY where threads would race (ir/eval_race.h) */
} NstKernelRun;
NstStatus nst_kernel_interpret(NstCtx *ctx, const NstKernel *kernel, const NstKernelRun *run) NST_MUST_CHECK;

#endif
