/* sched.h: schedules as data.  A schedule says how one nest becomes loops; it is chosen from the nest's form and the target
 * (never from an operator), printed, edited and replayed.  No schedule changes the order in which anything is summed. */
#ifndef NST_PASSES_SCHED_H
#define NST_PASSES_SCHED_H

#include "passes/writer.h"

typedef enum NstParallelBy {
    NST_PARALLEL_NONE,
    NST_PARALLEL_OUTER, /* the outermost of the axes that are neither tile rows nor columns */
    NST_PARALLEL_ROWS,  /* chunks of row tiles */
    NST_PARALLEL_COLS   /* blocks of columns */
} NstParallelBy;

/* The register-tile schedule: rows x vectors of states stay in registers while the reduction runs.  Serves contractions,
 * convolutions, pooling and every reduction whose reduced axes are not the vector axis. */
typedef struct NstTileSchedule {
    int row_axis;      /* position in nest->axis, -1: none */
    int col_axis;      /* the vector axis */
    int rows, vectors; /* register tile: rows x (vectors * lanes) elements */
    int lanes;         /* of one vector */
    int columns; /* of one vector: all lanes, or fewer where what the columns read repeats in steps that do not fill them */
    const NstTensorInsnInfo *matrix; /* the row of the table whose matrix registers hold the tile; NULL: vectors do */
    int k_outer;       /* this many outermost reduction axes run outside the tiles, partial sums kept in the output */
    int64_t k_block;   /* blocks of the first reduction axis inside k_outer, likewise; 0 = whole */
    int64_t col_block; /* column tiles in one block, which stays in L2 while rows pass by; 0 = all */
    bool padded;       /* column operands are packed in whole panels: reads past the last column are allowed */
    int taps;          /* this many innermost reduction axes are written out: neighbouring rows share what they read */
    bool sweep;        /* those are written out row by row, in the order of what they read (tile_sweep.c) */
    int plane_axis;    /* position in nest->axis, -1: none; a second axis of rows for swept tiles */
    int planes;        /* of a tile along it where no border is near: the tile is planes x rows x vectors */
    int prefetch;      /* elements of the innermost reduction axis to prefetch the column operand ahead; 0 = none */
    bool next_block;   /* the next block of the packed operand is prefetched to L2 while rows pass by the present one */
    bool next_rows;    /* what the tile of rows after the present one reads of the row operand is prefetched to L1 */
    NstBuf columns_of; /* the column operand: packed, or read in place where it is prefetched */
    uint32_t
        inside; /* bit k: nest->axis[k] runs inside the column and k blocks (the packed operand does not depend on it) */
    bool rows_outside; /* row tiles run outside the axes of `inside` */
    NstParallelBy parallel;
    int parallel_axis; /* NST_PARALLEL_OUTER: position in nest->axis */
    int row_chunks;    /* NST_PARALLEL_ROWS: chunks of row tiles dealt to the threads */
} NstTileSchedule;

/* Columns of one tile. */
static inline int64_t nst_tile_width(const NstTileSchedule *s)
{
    return (int64_t)s->vectors * s->columns;
}

void nst_tile_schedule_print(NstText *text, const NstTileSchedule *schedule);
NstStatus nst_tile_schedule_parse(NstCtx *ctx, const char *text, NstTileSchedule *schedule) NST_MUST_CHECK;

/* Chooses the schedule of a reduction nest whose columns are its last axis (or the last one contiguous in the output).
 * parallel: may use all threads (false inside a group's common axes).  n_common: axes bound by a group.
 * False when no axis of the output has adjacent elements in memory: no vector axis. */
bool nst_tile_schedule_choose(NstModule *module, const NstNest *nest, uint32_t n_common, bool parallel,
                              NstTileSchedule *schedule);

/* True if it costs less to store a reduction's states and to apply the outputs' formula, which reads something along the tiles' rows,
 * in a pass over them than to keep tiles to what is turned in registers.  The states have room in the outputs. */
bool nst_tile_formula_apart(NstModule *module, const NstNest *nest, uint32_t n_common);

/* Makes it a schedule by matrix registers of that row; false, and nothing changed, where they would not pay or do not fit. */
bool nst_tile_schedule_matrix(NstModule *module, const NstNest *nest, const NstTensorInsnInfo *insn, bool parallel,
                              NstTileSchedule *schedule);

/* One column axis for narrow groups of columns that lie side by side (merge_groups.c); false if the nest has none. */
bool nst_merge_groups(NstModule *module, NstNest *nest);

typedef struct NstPacked {
    NstNest *nest; /* fills the packed buffer; NULL: nothing was packed */
    /* Writes zeros where the last panel has no columns; NULL: it has all, or memory is zero there (constants). */
    NstNest *rest;
    NstBuf buffer;
    bool constant; /* made of constants alone: belongs before the run */
} NstPacked;

/* Gives the column operand of a contraction the layout that the schedule walks: panels of (vectors * lanes) columns, in a
 * buffer of its own that the returned nests fill (their first n_common axes are the nest's); the caller places them.  Does
 * nothing where reading in place is as good.  Rewrites the nest and the schedule. */
NstPacked nst_pack_columns(NstModule *module, NstNest *nest, uint32_t n_common, NstTileSchedule *schedule);

/* Gives an operand of a contraction in words the layout that matrix registers are loaded from, block by block: the nest's axis x
 * (its rows or columns) in blocks of insn->matrix_rows or lanes, the innermost reduction axis in blocks of a register's words; words
 * stand in the rows of a register where that axis is x, in its columns where `words_down`. */
typedef struct NstPackedMatrix {
    uint32_t n_nests;
    NstNest *nest[2]; /* fill the packed buffer, in any order */
    bool constant;    /* made of constants alone */
} NstPackedMatrix;
NstPackedMatrix nst_pack_matrix(NstModule *module, NstNest *nest, NstExpr operand, uint32_t x, bool words_down,
                                const NstTensorInsnInfo *insn);
/* The axes of a load's index that x and the innermost reduction axis run along, one each; false if it is no load, or not of
 * that form: then no register can be loaded from there. */
bool nst_matrix_axes(NstModule *module, const NstNest *nest, NstExpr operand, uint32_t x, int *x_axis, int *word_axis);

/* Chooses the register-tile schedule of every group that has one (group->tile), rewrites contractions of 8-bit integers to packed
 * dot products, and packs column operands: puts pack nests before their users, and those of constants in module->prepack. */
void nst_prepare_tiles(NstModule *module);

/* Appends the nest, tiled as scheduled, to block.  The nest's first n_common axes are bound by the caller. */
NstStatus nst_tile_nest(NstCtx *ctx, NstWriter *w, NstBlock *block, const NstNest *nest, uint32_t n_common,
                        const NstTileSchedule *schedule) NST_MUST_CHECK;

/* The same for a schedule by matrix registers, whose operands nst_matrix_axes takes. */
NstStatus nst_tile_matrices(NstCtx *ctx, NstWriter *w, NstBlock *block, const NstNest *nest,
                            const NstTileSchedule *schedule) NST_MUST_CHECK;

/* The same for a nest whose order has lanes: tiles are one vector wide, all lanes' states beside each other. */
NstStatus nst_tile_lanes(NstCtx *ctx, NstWriter *w, NstBlock *block, const NstNest *nest, uint32_t n_common,
                         const NstTileSchedule *schedule) NST_MUST_CHECK;

#endif
