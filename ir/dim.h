/* dim.h: integer algebra of sizes and loop indices, with facts and a prover.
 *
 * One interned algebra serves tensor dimensions, loop bounds and buffer indices: constants, symbols, sums, products,
 * floordiv, mod, min, max (ceildiv is written with floordiv).  Every expression is kept in one normal form (a sum of
 * coefficient * product of atoms, sorted), so that equal ids are equal values and most equalities are found by
 * construction; nst_dim_compare proves the rest from bounds and divisibility, or says that it cannot.
 *
 * Symbols, products and the other operators are the atoms of a sum.  Terms are ordered by degree (higher first), then
 * symbols by number, then by structure, so text does not depend on the order of construction.
 *
 * Bounded effort: at most NST_DIM_MAX_TERMS terms a sum, NST_DIM_MAX_FACTORS factors a product.  What would pass a
 * cap, or needs a constant outside 64 bits, becomes a SUM or PRODUCT of the two operands as they are ("opaque": its
 * arguments may be sums and constants; no rule looks inside; it evaluates and prints like any other).  What would nest
 * deeper than NST_DIM_MAX_DEPTH becomes a fresh VALUE symbol whose definition is in NstSymInfo.def (evaluation follows
 * it).  Bounds saturate at INT64_MIN and INT64_MAX, which mean unknown.  Proofs try a fixed number of steps.
 *
 * Semantics: 64-bit integers; floordiv and mod round towards minus infinity (mod has the divisor's sign);
 * division by zero is a fault of evaluation, never of building, and the normal form may drop the fault
 * (floordiv(n*w, w) is n also where w may be 0).  Evaluation reports overflow.
 * Memory and threads: a table belongs to one arena and one thread at a time. */
#ifndef NST_IR_DIM_H
#define NST_IR_DIM_H

#include "ir/base/status.h"
#include "ir/base/str.h"

#define NST_DIM_MAX_TERMS   64
#define NST_DIM_MAX_FACTORS 24
#define NST_DIM_MAX_DEPTH   96

typedef struct NstDim {
    uint32_t i;
} NstDim; /* 0 = none */
typedef struct NstSym {
    uint32_t i;
} NstSym; /* 0 = none */
typedef struct NstDims NstDims;

typedef enum NstSymKind {
    NST_SYM_INPUT,   /* read from the shape of an input: known before the run starts */
    NST_SYM_VALUE,   /* known before its consumer runs: read from a run-time scalar or computed by a host formula */
    NST_SYM_COUNTED, /* true size known only after the producer ran; its upper bound is storage */
    NST_SYM_INDEX    /* loop variable or index-let of the loop-nest IR */
} NstSymKind;

typedef struct NstSymInfo {
    NstSymKind kind;
    const char *name;      /* unique within the table for INPUT, VALUE, COUNTED */
    int64_t lo, hi;        /* inclusive constant bounds; INT64_MIN / INT64_MAX = unknown */
    NstDim lo_dim, hi_dim; /* tighter symbolic inclusive bounds, or none (a loop variable: begin, end - 1) */
    int64_t multiple;      /* the value is a multiple of this, >= 1 */
    NstDim def;            /* the expression this symbol stands for (only past NST_DIM_MAX_DEPTH), or none */
} NstSymInfo;

/* What one node of the normal form is. */
typedef enum NstDimOp {
    NST_DIM_CONST,
    NST_DIM_SYM,
    NST_DIM_SUM,
    NST_DIM_PRODUCT,
    NST_DIM_FLOORDIV,
    NST_DIM_MOD,
    NST_DIM_MIN,
    NST_DIM_MAX
} NstDimOp;

/* CONST: value.  SYM: sym.  SUM: value + sum of coef[k] * arg[k], n >= 1.  PRODUCT: product of arg[k], n >= 2, none
 * constant or a sum (opaque ones: any arguments).  The four binary operators: arg[0], arg[1]; MIN and MAX are nested
 * to the right, sorted. */
typedef struct NstDimNode {
    NstDimOp op;
    uint32_t n;
    int64_t value;
    NstSym sym;
    const NstDim *arg;
    const int64_t *coef;
} NstDimNode;

NstDims *nst_dims_new(NstArena *arena);
/* While the table is shared, threads may read it (what takes it as const): anything else stops the program. */
void nst_dims_share(NstDims *dims, bool shared);

/* A new symbol.  `name` is copied; INDEX symbols may share names (text forms number them). */
NstSym nst_dims_new_sym(NstDims *dims, NstSymKind kind, const char *name, int64_t lo, int64_t hi);
/* The INPUT/VALUE/COUNTED symbol of that name; none if there is none. */
NstSym nst_dims_find_sym(const NstDims *dims, const char *name, size_t n);
/* Facts may be tightened through the returned pointer until the next nst_dims_sym of another symbol; what was built
 * before stays right, and compares use the new facts. */
NstSymInfo *nst_dims_sym(NstDims *dims, NstSym sym);
/* The same for reading. */
const NstSymInfo *nst_dims_sym_info(const NstDims *dims, NstSym sym);
uint32_t nst_dims_sym_count(const NstDims *dims); /* symbols are 1 .. count */
/* The symbol made after another, of those that are no loop indices: inputs, values, counts.  After none the first; none after the
 * last.  `after` is none or what this function gave. */
NstSym nst_dims_next_size(const NstDims *dims, NstSym after);

NstDim nst_dim_const(NstDims *dims, int64_t value);
NstDim nst_dim_sym(NstDims *dims, NstSym sym);
NstDim nst_dim_add(NstDims *dims, NstDim a, NstDim b);
NstDim nst_dim_sub(NstDims *dims, NstDim a, NstDim b);
NstDim nst_dim_mul(NstDims *dims, NstDim a, NstDim b);
NstDim nst_dim_add_const(NstDims *dims, NstDim a, int64_t b);
NstDim nst_dim_mul_const(NstDims *dims, NstDim a, int64_t b);
NstDim nst_dim_floordiv(NstDims *dims, NstDim a, NstDim b);
NstDim nst_dim_ceildiv(NstDims *dims, NstDim a, NstDim b);
NstDim nst_dim_mod(NstDims *dims, NstDim a, NstDim b);
NstDim nst_dim_min(NstDims *dims, NstDim a, NstDim b);
NstDim nst_dim_max(NstDims *dims, NstDim a, NstDim b);

const NstDimNode *nst_dim_node(const NstDims *dims, NstDim dim);
static inline bool nst_dim_same(NstDim a, NstDim b)
{
    return a.i == b.i;
} /* equal by normal form */

/* True and *value set when the dim is a constant. */
bool nst_dim_is_const(const NstDims *dims, NstDim dim, int64_t *value);
/* Inclusive constant bounds that hold for every value of the symbols. */
void nst_dim_bounds(NstDims *dims, NstDim dim, int64_t *lo, int64_t *hi);
/* The largest known k >= 1 such that k divides the dim always (0 for the constant 0). */
int64_t nst_dim_known_multiple(NstDims *dims, NstDim dim);

typedef enum NstTruth { NST_UNKNOWN, NST_TRUE, NST_FALSE } NstTruth;
typedef enum NstDimCompare { NST_DIM_EQ, NST_DIM_NE, NST_DIM_LT, NST_DIM_LE, NST_DIM_GT, NST_DIM_GE } NstDimCompare;
/* What can be proven of `a op b` for all values of the symbols within their bounds. */
NstTruth nst_dim_compare(NstDims *dims, NstDim a, NstDimCompare op, NstDim b);

/* Adds to the facts: a == b / dim >= 0 holds (from an assert or a loop's guard).  Used by later compares.  Dims keep
 * their ids; nst_dim_resolve gives the representative of a dim under all equalities assumed. */
void nst_dims_assume_equal(NstDims *dims, NstDim a, NstDim b);
void nst_dims_assume_nonneg(NstDims *dims, NstDim dim);
/* A scope for assume_nonneg: leave forgets what was assumed since enter.  Dims built inside may rely on it: use them only
 * where it holds. */
uint32_t nst_dims_enter(const NstDims *dims);
void nst_dims_leave(NstDims *dims, uint32_t scope);
NstDim nst_dim_resolve(NstDims *dims, NstDim dim);

/* True if sym occurs in dim. */
bool nst_dim_uses(const NstDims *dims, NstDim dim, NstSym sym);
/* True if a symbol of that kind occurs in dim. */
bool nst_dim_uses_kind(const NstDims *dims, NstDim dim, NstSymKind kind);
/* Replaces sym by value, renormalising. */
NstDim nst_dim_subst(NstDims *dims, NstDim dim, NstSym sym, NstDim value);
/* Replaces many at once: value_of[sym.i] (none = keep) for sym.i < n. */
NstDim nst_dim_subst_all(NstDims *dims, NstDim dim, const NstDim *value_of, uint32_t n);
/* A table by symbol (*n entries), none everywhere, to build a substitution in: lent to one at a time, who makes it none
 * again before giving it back. */
NstDim *nst_dims_scratch(NstDims *dims, uint32_t *n);
void nst_dims_scratch_return(NstDims *dims);
/* Splits dim = coef * sym + rest with sym in neither coef nor rest; false if it is not linear in sym. */
bool nst_dim_linear(NstDims *dims, NstDim dim, NstSym sym, NstDim *coef, NstDim *rest);
/* The constant that dim changes by from one value of sym to the next (the distance of neighbours along an axis); false if there is
 * none. */
bool nst_dim_stride(NstDims *dims, NstDim dim, NstSym sym, int64_t *stride);

/* Value for given symbol values (value_of[sym.i], n entries).  Errors: NST_E_SHAPE on overflow or division by zero;
 * NST_E_INVALID if a symbol has no value (n too small); NST_E_LIMIT past a million steps or a nesting of 1000.
 * Threads: only reads the table, so many threads may evaluate at once while none builds. */
NstStatus nst_dim_eval(NstCtx *ctx, const NstDims *dims, NstDim dim, const int64_t *value_of, uint32_t n,
                       int64_t *value) NST_MUST_CHECK;

/* Text: "n", "4*n + 16", "floordiv(n + 1, 2)", "min(n, 7)"; a name that is no identifier is quoted.  Symbols print
 * through name_of; where it is NULL or gives NULL, by their name, INDEX ones as "name#id".  Parse reads the same form; unknown names go to find
 * (NULL: nst_dims_find_sym; returns none = error). */
void nst_dim_print(NstText *text, const NstDims *dims, NstDim dim, const char *(*name_of)(void *arg, NstSym sym),
                   void *arg);
NstStatus nst_dim_parse(NstCtx *ctx, NstDims *dims, const char **p,
                        NstSym (*find)(void *arg, const char *name, size_t n), void *arg, NstDim *dim) NST_MUST_CHECK;

/* The greatest common divisor, >= 0; of the magnitudes, INT64_MIN counts as 2^62. */
static inline int64_t nst_gcd_i64(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y != 0) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return x > (uint64_t)INT64_MAX ? INT64_C(1) << 62 : (int64_t)x;
}

#endif
