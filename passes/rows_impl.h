/* rows_impl.h: what the files of the row schedule share. */
#ifndef NST_PASSES_ROWS_IMPL_H
#define NST_PASSES_ROWS_IMPL_H

#include "passes/rows.h"

enum { NST_ROWS_MAX_BREAKS = 6, NST_ROWS_MAX_STAGES = 8 };

/* Rows done side by side: everything that one row does is done for each of them in turn, vector by vector, so that what they
 * share is loaded once and the latency of one hides behind the others. */
typedef struct NstJam {
    int64_t rows;          /* side by side */
    NstDim offset;         /* of the first among the rows of an iteration */
    NstDim first;          /* its number */
    const NstGroup *group; /* whose common axes number the rows */
    NstSym which;          /* in flat addresses of locals: which of the rows of an iteration */
} NstJam;

/* How the rows of a group are taken. */
typedef struct NstRowPlan {
    int64_t side_by_side;
    int64_t total;   /* rows of an iteration */
    int64_t columns; /* their last maps run in blocks of so many columns, row after row; 0: each whole */
} NstRowPlan;
/* The plan of a group of so many rows. */
NstRowPlan nst_rows_plan(NstWriter *w, const NstGroup *group, NstDim rows);

/* A map's value in pieces. */
typedef struct NstStages {
    uint32_t n, at;                     /* pieces; the one being written */
    NstExpr value[NST_ROWS_MAX_STAGES]; /* of the flat nest; ARG j is piece j */
    NstBuf strip[NST_ROWS_MAX_STAGES];  /* scratch of a piece; none: it is stored as the nest's output */
    NstDim base;                        /* of the last axis: element 0 of the strips */
} NstStages;

typedef struct Rows {
    NstCtx *ctx;
    NstWriter *w;
    NstDims *dims;
    NstNest *nest;
    uint32_t n_common, n_split; /* axes split so far */
    int64_t lanes;
    int unroll; /* vectors an iteration of a map's main loop */
    bool join;  /* they are one wide vector: each operation is done for all of them in turn, so that chains overlap */
    bool parallel;     /* the next outer loop may be parallel */
    uint32_t next_let; /* index-lets up to here are bound */
    const NstJam *jam; /* rows done side by side; NULL: the common axes are bound */
    NstStages *stages; /* NULL: the map is one piece */
} Rows;

static inline NstDim nst_rows_const(Rows *r, int64_t value)
{
    return nst_dim_const(r->dims, value);
}

static inline int64_t nst_rows_jammed(const Rows *r)
{
    return r->jam ? r->jam->rows : 1;
}

/* Opens the unrolled loop over the rows done side by side and binds their axes; *row is which of them. */
NstBlock *nst_rows_open_jam(Rows *r, NstBlock *block, NstDim *row);

/* The last axis from begin to end in vectors: several side by side, single ones, a masked rest. */
void nst_rows_run(Rows *r, NstBlock *block, NstDim begin, NstDim end);

/* The same for the piece at hand, or a map of one piece. */
void nst_rows_run_piece(Rows *r, NstBlock *block, NstDim begin, NstDim end);

/* The pieces of a dear map, at most one elementary function in each; NULL: it has to be written otherwise. */
NstStages *nst_rows_stages(Rows *r);
/* The value of a map of at most so many operations in parts of a few, each of which asks for the one before it alone; false: it has
 * more. */
bool nst_rows_parts(Rows *r, uint32_t most, NstStages *parts);
/* Scratch of `elements` for the first n pieces, for the rest of a block of its own. */
NstBlock *nst_rows_open_strips(Rows *r, NstBlock *block, uint32_t n, int64_t elements);
/* The last axis from begin to end, strip by strip, piece by piece. */
void nst_rows_run_stages(Rows *r, NstBlock *block, NstDim begin, NstDim end);
/* The store of the piece at hand for one vector. */
void nst_rows_stage_point(Rows *r, NstBlock *block);

/* Gives a reduction whose order does not matter (a maximum, a sum of integers) the order in which its elements lie in memory. */
void nst_rows_free_order(NstModule *module, NstNest *flat);

/* True if the reduction can run by lanes here: lanes asked for, no condition, lanes side by side in every load. */
bool nst_rows_by_lanes(NstModule *module, const NstNest *flat);
/* A reduction with lanes whose output axes are all bound. */
void nst_rows_reduce(Rows *r, NstBlock *block);
/* True if results of neighbours along the last axis are adjacent, so that a vector of them can be summed at once. */
bool nst_rows_by_columns(NstModule *module, const NstNest *flat, uint32_t n_common);
/* The last output axis in vectors, the whole reduction for each. */
void nst_rows_reduce_columns(Rows *r, NstBlock *block);

/* Writes axes k and k + 1 .. in register transposes if k is the last axis but one and the map reads along it what it stores
 * along the last; false (and nothing written) if it is not so. */
bool nst_rows_turn(Rows *r, NstBlock *block, uint32_t k, bool parallel);
/* Moves the axis that transposed loads run along right before the last one. */
void nst_rows_turn_order(Rows *r);

#endif
