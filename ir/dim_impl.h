/* dim_impl.h: what the dim_*.c files share: the table, its entries, sums being built.  Nobody else includes it. */
#ifndef NST_IR_DIM_IMPL_H
#define NST_IR_DIM_IMPL_H

#include "ir/base/map.h"
#include "ir/base/vec.h"
#include "ir/dim.h"

/* Entries of the direct-mapped cache of results (a power of two). */
#define NST_DIM_CACHE 4096u
/* Operands a MIN or MAX is flattened to at most. */
#define NST_DIM_MAX_CHOICES 8

/* NstDims.combine_depth at which sums are kept as their terms are. */
#define NST_DIM_NO_COMBINING 4

typedef struct NstDimEntry {
    NstDimNode node; /* first: nst_dim_node hands it out */
    uint64_t syms;   /* bit (sym.i % 64) is set for every symbol in the expression */
    int64_t lo, hi, multiple;
    uint32_t facts; /* NstDims.facts when lo, hi, multiple were computed; 0 = never */
    uint64_t stamp; /* the walk that wrote memo */
    int64_t memo;
    uint32_t symbol; /* the symbol defined as this node, which is too deep to be used; 0 = none */
    uint16_t depth;
    bool opaque; /* kept as built, because a cap or an overflow forbade the normal form: an atom to all rules */
} NstDimEntry;

typedef struct NstSymEntry {
    NstSymInfo info;
    NstDim dim;
    uint32_t next;      /* next symbol whose name has the same hash */
    uint32_t next_size; /* the next symbol that is no index, or 0 */
} NstSymEntry;

/* id 0 = free; the hash is here too, so that a probe seldom touches an entry. */
typedef struct NstDimSlot {
    uint32_t hash, id;
} NstDimSlot;

typedef struct NstDimCached {
    uint32_t op, a, b, result;
} NstDimCached;

/* coef * atom; the atom is no constant and no SUM, unless opaque. */
typedef struct NstDimTerm {
    NstDim atom;
    int64_t coef;
} NstDimTerm;

/* value + sum of terms, sorted by nst_dim_order, no coefficient 0. */
typedef struct NstDimSum {
    int64_t value;
    uint32_t n;
    NstDimTerm at[NST_DIM_MAX_TERMS];
} NstDimSum;

/* The sum becomes a constant.  (An initialiser would clear the whole array.) */
static inline void nst_dim_sum_start(NstDimSum *sum, int64_t value)
{
    sum->value = value;
    sum->n = 0;
}

/* A fact of nst_dims_assume_equal that no symbol could be solved for: the product `left` equals `right`. */
typedef struct NstDimRule {
    NstDim left, right;
} NstDimRule;

struct NstDims {
    NstArena *arena;
    NST_VEC(NstDimEntry *) entries; /* [0] is unused */
    NST_VEC(NstSymEntry *) syms;    /* [0] is unused */
    uint32_t first_size, last_size; /* symbols that are no indices; 0: there is none */
    NstMap names;
    NstDimSlot *slots; /* open addressing into entries */
    uint32_t n_slots;
    NstDimCached *cache;
    uint32_t facts;            /* grows when a bound or an assumption is added; never 0 */
    NstSym exposed;            /* the symbol whose facts the caller may be writing */
    NstSymInfo seen;           /* its facts when last looked at */
    uint64_t stamp;            /* of the last walk */
    int bounds_depth;          /* nesting of bounds through symbols */
    struct NstDimProof *proof; /* the innermost under way, or NULL */
    int prove_depth;           /* nesting of proofs through construction */
    int combine_depth;         /* nesting of sum rules */
    NST_VEC(NstDim) solved;    /* by symbol: what an assumed equality says it is, or none */
    uint32_t n_solved;
    NST_VEC(NstDimRule) rules;
    NST_VEC(NstDim) nonneg; /* assumed >= 0 */
    NstDim *scratch;        /* table by symbol that is lent out: none everywhere */
    uint32_t scratch_cap;
    bool scratch_lent;
    bool shared; /* by threads that only read */
};

static inline NstDimEntry *nst_dim_entry(const NstDims *dims, NstDim dim)
{
    return dims->entries.at[dim.i];
}

/* True if the dim is a SUM whose terms rules may look at. */
static inline bool nst_dim_is_sum(const NstDimEntry *entry)
{
    return entry->node.op == NST_DIM_SUM && !entry->opaque;
}

/* The factors of an atom: those of a PRODUCT, else the atom itself. */
static inline uint32_t nst_dim_factors(const NstDims *dims, const NstDim *atom, const NstDim **factors)
{
    const NstDimEntry *entry = nst_dim_entry(dims, *atom);
    if (entry->node.op == NST_DIM_PRODUCT && !entry->opaque) {
        *factors = entry->node.arg;
        return entry->node.n;
    }
    *factors = atom;
    return 1;
}

static inline bool nst_dim_may_use(const NstDimEntry *entry, NstSym sym)
{
    return (entry->syms >> (sym.i & 63)) & 1;
}

/* dim.c */
/* The total order of terms: higher degree first, then symbols by number, then the rest by structure. */
int nst_dim_order(const NstDims *dims, NstDim a, NstDim b);
/* The interned node as given, no rule applied. */
NstDim nst_dim_intern(NstDims *dims, NstDimOp op, uint32_t n, const NstDim *arg, const int64_t *coef, int64_t value,
                      bool opaque);
NstDim nst_dim_binary(NstDims *dims, NstDimOp op, NstDim a, NstDim b);
/* The binary node if it exists already, else none. */
NstDim nst_dim_find_binary(const NstDims *dims, NstDimOp op, NstDim a, NstDim b);
bool nst_dim_cache_get(const NstDims *dims, uint32_t op, NstDim a, NstDim b, NstDim *result);
void nst_dim_cache_put(NstDims *dims, uint32_t op, NstDim a, NstDim b, NstDim result);

/* dim_sum.c */
void nst_dim_to_sum(const NstDims *dims, NstDim dim, NstDimSum *sum);
NstDim nst_dim_from_sum(NstDims *dims, const NstDimSum *sum);
/* sum += coef * dim; false (sum spoiled) on overflow or past the cap. */
bool nst_dim_sum_add(const NstDims *dims, NstDimSum *sum, NstDim dim, int64_t coef);
/* The coefficient of an atom, 0 if absent. */
int64_t nst_dim_sum_coef(const NstDimSum *sum, NstDim atom);
/* dim == coef * atom. */
bool nst_dim_single(const NstDims *dims, NstDim dim, NstDimTerm *term);
/* The product of two atoms (or constants). */
NstDim nst_dim_mul_atoms(NstDims *dims, NstDim a, NstDim b);
/* atom / by for products of atoms; false if some factor of by is missing.  The quotient may be the constant 1. */
bool nst_dim_divide_atom(NstDims *dims, NstDim atom, NstDim by, NstDim *quotient);

/* dim_prove.c */
void nst_dim_refresh(NstDims *dims, NstDimEntry *entry); /* recomputes lo, hi, multiple if facts grew */
/* Proves dim >= 0 with a bounded effort. */
bool nst_dim_prove_nonneg(NstDims *dims, NstDim dim);
/* Proves dim >= 1; `context` are dims evaluated at the same place: the loops of their indices run at least once. */
bool nst_dim_prove_positive(NstDims *dims, NstDim dim, NstDim context);

__extension__ typedef __int128 NstWide;

static inline int64_t nst_floordiv_i64(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return (a % b != 0 && (a % b < 0) != (b < 0)) ? q - 1 : q;
}

static inline int64_t nst_mod_i64(int64_t a, int64_t b)
{
    int64_t r = a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}

#endif
