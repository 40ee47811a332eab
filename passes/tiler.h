/* tiler.h: what the files of the register-tile schedule share: tile.c walks the tiles, tile_body.c writes one. */
#ifndef NST_PASSES_TILER_H
#define NST_PASSES_TILER_H

#include "passes/guard.h"
#include "passes/sched.h"

#define NST_TILER_MAX_STATES 8

/* Rows not taken part in at the ends of a tile. */
typedef struct NstRowsLeftOut {
    int first, last;
} NstRowsLeftOut;

/* How rows whose number is known at run time are dealt to tiles: `full` ones of as many rows as the schedule says, then the rest
 * in one. */
typedef struct NstDeal {
    NstDim full, n_tiles;
    NstDim rest, start; /* rows left and where they start */
    int64_t most;       /* what the rest may be */
    NstDim lo, hi;      /* tiles of this thread; none: all */
    bool asks;          /* the rest and tiles at borders are asked for each row */
} NstDeal;

typedef struct NstTiler {
    NstCtx *ctx;
    NstWriter *w;
    NstDims *dims;
    const NstNest *nest;
    const NstTileSchedule *s;
    uint32_t n_common;
    NstConditions guard;
    NstConditionSet open;    /* conditions not yet taken care of by a loop bound or an if */
    NstRowsLeftOut left_out; /* of the tile, in the version being written */
    NstConditionSet split;   /* row conditions for whose taps two versions were written */
    NST_VEC(NstSym) unbound; /* axes of the nest that are no loop yet, nor fixed */
    NstDim col_lo, col_hi;   /* column tiles of the current block; col_hi none: all */
    bool *unroll;            /* by reduction axis: taps written out in border tiles */
    NstDim block;            /* index of the block of the first reduction axis inside k_outer; none = not blocked */
    NstExpr first, last;     /* conditions of the k-block loops: none = there are none */
    NstDeal deal;
    NstBuf state[NST_TILER_MAX_STATES];
} NstTiler;

/* One register tile: rows start at row, columns at col. */
typedef struct NstTileAt {
    NstDim row, col;
    int rows, vectors;
    NstDim plane; /* with planes: the first one */
    int planes;   /* of `rows` rows each, along the plane axis; 0: none, the plane axis is a loop outside */
    bool border;  /* row is a constant, taps are written out */
    NstDim
        asked; /* the rows it has where that is known at run time only: each of `rows` is asked; none: it has them all */
    bool ragged; /* the last vector may be partial: columns end at the axis's end */
} NstTileAt;

static inline NstDim nst_tiler_const(NstTiler *t, int64_t value)
{
    return nst_dim_const(t->dims, value);
}

static inline NstAxis nst_tiler_row_axis(NstTiler *t)
{
    return t->nest->axis[t->s->row_axis];
}

static inline NstAxis nst_tiler_col_axis(NstTiler *t)
{
    return t->nest->axis[t->s->col_axis];
}

static inline void nst_tiler_mark(NstTiler *t, NstSym sym, bool bound)
{
    uint32_t k = 0;
    while (k < t->unbound.n && t->unbound.at[k].i != sym.i) k++;
    if (!bound && k == t->unbound.n) nst_vec_push(t->w->kernel->arena, &t->unbound, sym);
    if (bound && k < t->unbound.n) t->unbound.at[k] = nst_vec_pop(&t->unbound);
}

static inline NstAxis nst_tiler_plane_axis(NstTiler *t)
{
    return t->nest->axis[t->s->plane_axis];
}

/* What a loop over the lanes of one vector of the tile binds. */
typedef struct NstTilerLanes {
    NstBlock *body;
    NstDim index[3]; /* of the state tile */
} NstTilerLanes;

/* Appends the tile: its states, their reduction and the stores. */
void nst_tiler_write(NstTiler *t, NstBlock *block, const NstTileAt *tile);

/* The open conditions on rows that a tile inside the borders keeps for all its rows, first to last, and taps; *inside says at run
 * time that it does.  The empty set: there are none, or one cannot be said. */
NstConditionSet nst_tiler_row_conditions(NstTiler *t, NstDim first, NstDim last, NstExpr *inside);

/* e at its least over the taps of reduction axes not bound yet: false if it cannot be said. */
bool nst_tiler_least_over_taps(NstTiler *t, NstDim *e);

/* Opens loops v (vectors, unrolled) and l (lanes) for row `i` of the states and binds the column axis. */
NstTilerLanes nst_tiler_open_lanes(NstTiler *t, NstBlock *block, const NstTileAt *tile, NstDim i, bool masked);

/* Appends one step of the reduction into the states at `open.index`. */
void nst_tiler_step(NstTiler *t, NstTilerLanes *open);

/* In the innermost reduction loop: asks for what later steps of the tile read of the packed operand, and for the next block. */
void nst_tiler_prefetch(NstTiler *t, NstBlock *block, const NstTileAt *tile);

/* Before a tile of a window: asks for what the next tile reads of the windowed operand. */
void nst_tiler_prefetch_window(NstTiler *t, NstBlock *block, const NstTileAt *tile);

/* The first reduction axis from which on a tile's steps can be swept; n_reduce: none. */
uint32_t nst_tiler_swept_from(NstTiler *t, const NstTileAt *tile);
/* Appends all steps of the reduction axes from `depth` inward, written out in the order of the places that they read, so that what
 * is loaded is used by all that need it while it is in a register.  Each state's own order stays. */
void nst_tiler_sweep(NstTiler *t, NstBlock *block, const NstTileAt *tile, uint32_t depth);

#endif
