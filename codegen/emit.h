/* emit.h: the state of emitting one kernel, shared by the emit_*.c files.
 *
 * Values.  An expression becomes a NstLanes: a scalar that all lanes share (n = 1) or a vector, one value a lane of the
 * enclosing VECTOR loop.  Scalars are spread only where an operation needs it.
 *
 * Sizes and indices.  Dims and expressions of the kernel are copied into private tables; there, variables of unrolled
 * loops are replaced by constants and the variable of a vector loop by begin + step * lane, so that the normal form of
 * ir/dim.h folds addresses.
 *
 * Scopes.  The function, each loop and each branch is a scope.  A size or address is computed once, in the outermost
 * scope in which all its symbols have values, and kept in that scope's table.
 *
 * Errors are sticky: the first one is in e->status, emission goes on with zeros and the driver stops at the end of the
 * statement. */
#ifndef NST_CODEGEN_EMIT_H
#define NST_CODEGEN_EMIT_H

#include "codegen/codegen.h"
#include "codegen/llvm.h"
#include "ir/abi.h"
#include "ir/base/map.h"

typedef struct NstLanes {
    LLVMValueRef v;
    uint32_t n; /* 1: the same in all lanes */
} NstLanes;

/* A pointer that runs with a loop: at root + coef * var + rest bytes. */
typedef struct NstCursor {
    uint32_t root;
    NstDim coef, rest;
    LLVMValueRef phi;
} NstCursor;

typedef struct NstScope {
    LLVMBasicBlockRef block; /* where code of this scope goes: its end, before the terminator if it has one */
    /* Loops only. */
    LLVMBasicBlockRef header;
    NstSym var;
    NstDim begin;
    int64_t step;
    bool has_cursors; /* no loop inside: addresses that run with var get a cursor */
    const NstBlock *body;
    bool is_sure; /* runs at least once */
    bool is_few;  /* the outermost loop, of a few iterations: what is known before it may as well be computed in it */
    uint8_t *unchanged; /* by NstBuf.i: 1: no iteration changes the buffer or stops; 2: one may; 0: not looked yet */
    int hoisted;        /* loads moved before it */
    int free_registers; /* for such loads, plus 1; 0: not counted yet */
    NST_VEC(NstCursor) cursors;
    NST_VEC(NstDim) strides; /* distances between addresses that share a cursor, each in a register */
    NstMap known;            /* key of a value -> index in values */
    NST_VEC(LLVMValueRef) values;
} NstScope;

typedef struct NstBinding {
    NstDim replacement; /* unrolled and vector variables */
    LLVMValueRef value; /* the rest: an i64 ... */
    uint32_t scope;     /* ... known in this scope and those inside */
    LLVMValueRef lanes; /* varying: a vector of i64 instead */
} NstBinding;

/* A register tile.  Its last axis is cut into chunks of `lanes`; each chunk is one SSA value. */
typedef struct NstTile {
    bool live;
    uint32_t lanes;
    int64_t chunks; /* a row */
    const int64_t *extent;
    LLVMTypeRef type; /* of one chunk */
    uint32_t n;
    LLVMValueRef *value;
    /* A square of the tile transposed, while no edge of control flow was met since; NULL: none. */
    LLVMValueRef *turned;
    int64_t turned_row, turned_chunk;
    uint32_t turned_edges;
} NstTile;

/* A value loaded in the current straight run of code. */
typedef struct NstLoaded {
    NstBuf buffer;
    NstDim at;
    NstDtype type;
    LLVMValueRef mask;
    NstLanes value;
} NstLoaded;

typedef struct NstSpread {
    LLVMValueRef scalar, vector;
} NstSpread;

typedef struct NstLaneState {
    uint32_t n;        /* 1: outside vector loops */
    NstSym sym;        /* 0 <= sym < n */
    LLVMValueRef mask; /* active lanes; NULL: all */
    uint32_t first;    /* the first so many lanes are active, known when code is made; 0: not known */
} NstLaneState;

/* A place where control leaves a WHILE, with the tiles' values there. */
typedef struct NstLeave {
    LLVMBasicBlockRef block;
    LLVMValueRef **tile_value;
} NstLeave;

typedef struct NstRepeat {
    LLVMBasicBlockRef exit;
    uint32_t lane_depth; /* of NstEmit at its start */
    NST_VEC(NstLeave) leaves;
} NstRepeat;

/* An unrolled loop whose body is being emitted. */
typedef struct NstUnrolled {
    const NstFor *loop;
    NstSym var; /* private */
    NstDim begin;
    int64_t trips, at;        /* this iteration's number */
    uint32_t scopes, choices; /* of NstEmit at its start: control flow in between is conditional */
} NstUnrolled;

#define NST_MATRIX_REGISTERS 8

typedef struct NstMatrixShape {
    uint8_t rows, row_bytes; /* 0: not in use */
} NstMatrixShape;

typedef struct NstMemo {
    uint32_t generation;
    NstLanes value;
} NstMemo;

/* A piece of scratch, and the last statement of its block that touches what lies there. */
typedef struct NstScratchPiece {
    NstDim at, bytes;
    uint32_t last;
} NstScratchPiece;

typedef struct NstEmit {
    NstCtx *ctx;
    NstArena *arena;
    NstLlvm *llvm;
    const NstTarget *target;
    const NstCodegenOptions *options;
    const NstKernel *kernel;
    NstStatus status;
    /* Private tables and what the kernel's entries are in them. */
    NstDims *dims;
    NstExprs *exprs;
    NST_VEC(NstDim) dim_of;       /* by NstDim.i of the kernel */
    NST_VEC(NstSym) sym_of;       /* by NstSym.i of the kernel */
    NST_VEC(NstExpr) expr_of;     /* by NstExpr.i of the kernel, math expanded */
    NstLayout *layout;            /* by NstBuf.i */
    NstDim *memory_at;            /* SCRATCH, SHARED: byte offset of the buffer from its root */
    NST_VEC(NstBinding) bindings; /* by private NstSym.i */
    NST_VEC(NstDim) replacement;  /* the bindings' replacements side by side */
    /* The function. */
    LLVMValueRef function, args, status_phi;
    LLVMBasicBlockRef return_block;
    LLVMValueRef fail_function; /* of the module */
    LLVMTypeRef fail_type;
    NST_VEC(NstScope *) scopes;
    NstLaneState lane;
    NST_VEC(NstSym) lane_syms;
    NstTile *tile;        /* by NstBuf.i */
    uint32_t *tile_lanes; /* by NstBuf.i: widest vector access */
    uint32_t *tile_read;  /* by NstBuf.i: only the first so many elements of the last axis are ever read */
    bool has_matrices;
    uint8_t *matrix_number; /* by NstBuf.i */
    NstMatrixShape matrix_shape[NST_MATRIX_REGISTERS];
    NstLanes *let;     /* by let id */
    NstRepeat *repeat; /* innermost WHILE */
    const NstFor
        *serial; /* innermost serial loop outside of parallel ones that is a loop in machine code; NULL: none */
    NST_VEC(NstUnrolled) unrolled;
    uint32_t choices;                      /* branches around this point that were decided when code was made */
    uint32_t lane_depth;                   /* vector loops and branches by lane around this point */
    bool dead;                             /* after a break */
    bool has_parallel, in_parallel, alone; /* parallel loops exist; inside one; only thread 0 is here */
    /* Straight-line knowledge, forgotten at every edge of control flow. */
    NST_VEC(NstLoaded) loaded;
    NST_VEC(NstSpread) spreads;
    NST_VEC(NstMemo) memo; /* by private NstExpr.i */
    uint32_t generation;   /* counts statements and edges */
    uint32_t edges;
    /* Statements and memory. */
    NstMap statement_number;
    uint32_t statement;
    uint32_t n_emitted;              /* statements so far */
    NstDim top[2], most[2];          /* bytes in use and their maximum: scratch, shared */
    NST_VEC(NstScratchPiece) pieces; /* of the blocks around this point */
} NstEmit;

/* --- emit.c ---------------------------------------------------------------------------------------------------- */

void nst_emit_fail(NstEmit *e, NstStatus status, const char *format, ...) NST_PRINTF(3, 4);

/* --- emit_import.c: private copies ----------------------------------------------------------------------------- */

/* The private copy of a dim, without / with the replacements of bound loop variables. */
NstDim nst_emit_import_dim(NstEmit *e, NstDim dim);
NstDim nst_emit_dim(NstEmit *e, NstDim dim);
/* Applies the replacements to a private dim. */
NstDim nst_emit_replace(NstEmit *e, NstDim dim);
NstSym nst_emit_import_sym(NstEmit *e, NstSym sym);
NstExpr nst_emit_import_expr(NstEmit *e, NstExpr expr);
/* The same with its elementary functions as they are. */
NstExpr nst_emit_copy_expr(NstEmit *e, NstExpr expr);
NstLayout nst_emit_import_layout(NstEmit *e, const NstBuffer *buffer);
NstBinding *nst_emit_binding(NstEmit *e, NstSym sym);
void nst_emit_bind_value(NstEmit *e, NstSym sym, LLVMValueRef value);
/* none = no replacement any more. */
void nst_emit_bind_replacement(NstEmit *e, NstSym sym, NstDim replacement);

/* --- emit_scope.c: scopes, sizes, addresses ----------------------------------------------------------------------- */

/* Opens a scope whose code starts in `block`; the builder moves there.  The outer block must have its terminator. */
NstScope *nst_emit_open(NstEmit *e, LLVMBasicBlockRef block);
/* Closes the innermost scope; code goes on in `block`, of the scope around it. */
void nst_emit_close(NstEmit *e, LLVMBasicBlockRef block);
/* The current block changed inside the innermost scope. */
LLVMBasicBlockRef nst_emit_new_block(NstEmit *e, const char *name);
void nst_emit_forget(NstEmit *e);
/* The i64 value of a private, replaced dim without lane-varying symbols. */
LLVMValueRef nst_emit_size(NstEmit *e, NstDim dim);
/* One i64 a lane of a dim that varies by lane. */
LLVMValueRef nst_emit_lane_sizes(NstEmit *e, NstDim dim);
bool nst_emit_varies(NstEmit *e, NstDim dim);
/* A pointer `bytes` (not varying) from a root. */
LLVMValueRef nst_emit_address(NstEmit *e, uint32_t root, NstDim bytes);
/* Adds the steps of the innermost scope's cursors, at its latch. */
void nst_emit_step_cursors(NstEmit *e, LLVMBasicBlockRef latch);
/* Lanes below `count` (a private dim), kept in count's scope. */
LLVMValueRef nst_emit_lane_mask(NstEmit *e, NstDim count, uint32_t lanes);
/* The outermost loop (number of its scope, 0: none) that a load which stands here can be moved before: all loops from it in run at
 * least once, do it in every iteration, and change neither `at` (lane 0's place) nor the buffer. */
uint32_t nst_emit_hoist_loop(NstEmit *e, NstBuf buffer, NstDim at);
/* Whether registers are left for one more. */
bool nst_emit_may_hoist(NstEmit *e, uint32_t loop);
/* A load that was moved before the loop; NULL if it was not yet. */
LLVMValueRef nst_emit_find_hoisted(NstEmit *e, uint32_t loop, NstBuf buffer, NstDtype type, NstDim at);
/* Moves the builder before the loop, gives the block to come back to; back, and notes the value loaded there. */
LLVMBasicBlockRef nst_emit_enter_before(NstEmit *e, uint32_t loop);
void nst_emit_leave_before(NstEmit *e, LLVMBasicBlockRef here, uint32_t loop, NstBuf buffer, NstDtype type, NstDim at,
                           LLVMValueRef value);
/* Whether statements of the block store to the buffer, or may through a call or another thread. */
bool nst_emit_stores_to(const NstBlock *block, NstBuf buffer);
/* A field of NstKernelArgs, loaded once in the entry block. */
LLVMValueRef nst_emit_argument(NstEmit *e, size_t offset, LLVMTypeRef type);

/* --- emit_memory.c: buffers in memory -------------------------------------------------------------------------------- */

NstLanes nst_emit_load(NstEmit *e, const NstExprNode *node);
/* A value of the type from what memory holds of it. */
LLVMValueRef nst_emit_from_storage(NstEmit *e, NstDtype type, LLVMValueRef stored);
void nst_emit_store_memory(NstEmit *e, NstBuf buffer, const NstDim *index, NstLanes value);
/* What stays when all lanes write one element: the value of the last active lane (there is one). */
LLVMValueRef nst_emit_last_lane(NstEmit *e, NstLanes value);
/* Root and byte offset of an element; index is private and replaced. */
uint32_t nst_emit_root(NstEmit *e, NstBuf buffer);
NstDim nst_emit_bytes(NstEmit *e, NstBuf buffer, const NstDim *index);
void nst_emit_forget_buffer(NstEmit *e, NstBuf buffer);
/* In the bounds-checked mode: stops unless the element and the `width - 1` after it lie in the buffer's storage. */
void nst_emit_check_bounds(NstEmit *e, NstBuf buffer, const NstDim *index, int64_t width);
/* Makes what streamed stores wrote visible before what follows: such stores are not ordered otherwise. */
void nst_emit_streams_end(NstEmit *e);
void nst_emit_prefetch(NstEmit *e, const NstStmt *stmt);

/* --- emit_transpose.c ------------------------------------------------------------------------------------------ */

/* A strided load in an unrolled loop that walks adjacent elements: loads the block of all its iterations by rows, transposes it
 * in registers and notes every column as loaded.  False where that is not the pattern. */
bool nst_emit_transposed(NstEmit *e, const NstExprNode *node, NstLanes *value);
/* Transposes n vectors of n lanes in place. */
void nst_emit_transpose(NstEmit *e, LLVMValueRef *row, uint32_t n);

/* --- emit_tile.c: register tiles -------------------------------------------------------------------------------------- */

void nst_emit_tile_open(NstEmit *e, NstBuf buffer);
void nst_emit_tile_close(NstEmit *e, NstBuf buffer);
NstLanes nst_emit_tile_read(NstEmit *e, NstBuf buffer, const NstDim *index, NstDtype type);
void nst_emit_tile_write(NstEmit *e, NstBuf buffer, const NstDim *index, NstLanes value);
/* A copy of the values of all live tiles. */
LLVMValueRef **nst_emit_tiles_save(NstEmit *e);
void nst_emit_tiles_restore(NstEmit *e, LLVMValueRef **saved);
/* At the start of `e`'s current block: phis for what differs between n predecessors. */
void nst_emit_tiles_merge(NstEmit *e, uint32_t n, const LLVMBasicBlockRef *from, LLVMValueRef ***values);
/* Sets stored[buffer] for every REG buffer that the block stores to. */
void nst_emit_tiles_stored(NstEmit *e, const NstBlock *block, bool *stored);
/* Finds the widest vector access of every REG buffer. */
void nst_emit_tiles_scan(NstEmit *e);

/* --- emit_matrix.c: matrix registers ---------------------------------------------------------------------------------- */

/* Gives every MATRIX buffer its register. */
void nst_emit_matrices_number(NstEmit *e);
/* At the entry and before the return of a kernel: set up and release, where it has matrix registers. */
void nst_emit_matrices_begin(NstEmit *e);
void nst_emit_matrices_end(NstEmit *e);
void nst_emit_matrix(NstEmit *e, const NstStmt *stmt);

/* --- emit_expr.c, emit_float.c, emit_convert.c: scalar operations -------------------------------------------------------------------- */

/* The value of an expression of the kernel. */
NstLanes nst_emit_expr(NstEmit *e, NstExpr expr);
NstLanes nst_emit_spread(NstEmit *e, NstLanes value, uint32_t lanes);
LLVMValueRef nst_emit_convert(NstEmit *e, NstDtype to, NstDtype from, LLVMValueRef value, bool saturate);
/* The value as a type of less than a byte is kept: extended to one.  Other types: itself. */
LLVMValueRef nst_emit_part(NstEmit *e, NstDtype type, LLVMValueRef value);
LLVMValueRef nst_emit_float(NstEmit *e, NstScalarOp op, NstDtype type, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/* max or min of a value and a number. */
LLVMValueRef nst_emit_clamp(NstEmit *e, bool is_max, LLVMValueRef value, double bound);
LLVMValueRef nst_emit_dot(NstEmit *e, NstScalarOp op, LLVMValueRef acc, LLVMValueRef b, LLVMValueRef c);
LLVMValueRef nst_emit_int_division(NstEmit *e, NstScalarOp op, NstDtype type, LLVMValueRef a, LLVMValueRef b);

/* --- emit_call.c: helpers, errors ---------------------------------------------------------------------------------------- */

LLVMValueRef nst_emit_helper(NstEmit *e, uint32_t helper, LLVMValueRef *arg, uint32_t n_args);
/* The helper applied to each lane. */
LLVMValueRef nst_emit_helper_lanes(NstEmit *e, uint32_t helper, LLVMValueRef a, LLVMValueRef b);
void nst_emit_call(NstEmit *e, const NstStmt *stmt);
/* Stops the kernel with status when `bad` (i1, or a vector: any lane) holds; value and limit go to the error slot. */
void nst_emit_stop_if(NstEmit *e, LLVMValueRef bad, NstStatus status, LLVMValueRef value, LLVMValueRef limit);
/* Returns `status` (an i32) when it is not zero. */
void nst_emit_return_if(NstEmit *e, LLVMValueRef status);
void nst_emit_poll_cancel(NstEmit *e);
void nst_emit_declare_fail(NstEmit *e);

/* --- emit_alloc.c: where local buffers lie --------------------------------------------------------------------------------- */

/* Statement `at` of the block, an alloc; the block's pieces of scratch are those from first_piece on. */
void nst_emit_alloc(NstEmit *e, const NstBlock *block, uint32_t at, uint32_t first_piece);

/* --- emit_loop.c, emit_stmt.c: statements -------------------------------------------------------------------------------- */

void nst_emit_block(NstEmit *e, const NstBlock *block);
void nst_emit_for(NstEmit *e, const NstStmt *stmt);
void nst_emit_while(NstEmit *e, const NstStmt *stmt);
void nst_emit_if(NstEmit *e, const NstStmt *stmt);
void nst_emit_break(NstEmit *e);
/* Runs `body` under a condition that is not constant, merging tiles after it. */
void nst_emit_guarded(NstEmit *e, LLVMValueRef condition, const NstBlock *body);
bool nst_emit_has_parallel(const NstBlock *block);

#endif
