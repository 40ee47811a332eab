/* rows_impl.h: what the files of the row schedule share. */
#ifndef NST_PASSES_ROWS_IMPL_H
#define NST_PASSES_ROWS_IMPL_H

#include "passes/rows.h"

enum { NST_ROWS_MAX_BREAKS = 6 };

/* Rows done side by side: everything that one row does is done for each of them in turn, vector by vector, so that what they
 * share is loaded once and the latency of one hides behind the others. */
typedef struct NstJam {
    int64_t rows;
    NstDim first;          /* number of the first row */
    const NstGroup *group; /* whose common axes number the rows */
    NstSym which;          /* in flat addresses of locals: which of the rows */
} NstJam;

typedef struct Rows {
    NstCtx *ctx;
    NstWriter *w;
    NstDims *dims;
    NstNest *nest;
    uint32_t n_common, n_split; /* axes split so far */
    int64_t lanes;
    int unroll;
    bool parallel;     /* the next outer loop may be parallel */
    uint32_t next_let; /* index-lets up to here are bound */
    const NstJam *jam; /* rows done side by side; NULL: the common axes are bound */
    bool fetch_ahead;  /* this nest prefetches the next rows of what it reads */
} Rows;

/* The last axis from begin to end in vectors: several side by side, single ones, a masked rest. */
void nst_rows_run(Rows *r, NstBlock *block, NstDim begin, NstDim end);

/* Writes axes k and k + 1 .. in register transposes if k is the last axis but one and the map reads along it what it stores
 * along the last; false (and nothing written) if it is not so. */
bool nst_rows_turn(Rows *r, NstBlock *block, uint32_t k, bool parallel);
/* Moves the axis that transposed loads run along right before the last one. */
void nst_rows_turn_order(Rows *r);

#endif
