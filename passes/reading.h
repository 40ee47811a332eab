/* reading.h: how lowering reads graph values: views and small sources become index maps and expressions, never nests. */
#ifndef NST_PASSES_READING_H
#define NST_PASSES_READING_H

#include "passes/nest.h"

/* Lowering of one graph. */
typedef struct NstLowering {
    NstCtx *ctx;
    NstModule *module;
    const NstGraph *graph;
    NstDims *dims;
    NstExprs *exprs;
    NstArena *arena;
    NstBuf *buffer_of;   /* by value: where it is stored; none = a view, or not lowered yet */
    NstVal *stands_for;  /* by value: a region's parameter or result that is another value */
    uint32_t *result_of; /* by value: 1 + number of the first result it is; 0 = none */
    /* Loops as nests (lower_loop.c).  Inside one, every nest's first axis is the step. */
    bool in_loop;
    NstDim steps;         /* how often the loop runs */
    NstVal iteration, go; /* parameters of the body: the number of the step, and whether to go on (always) */
    bool *per_step;       /* by value: its buffer has a leading axis of steps */
    NstBuf *history;      /* by value: where the states of a loop lie: [steps + 1][state]; none = no state */
    NstDim *history_step; /* by value: which of them it is; none: that of the step before (a parameter of the body) */
} NstLowering;

/* What one nest reads: collects the index-lets that run-time starts need and, where the nest may skip padding, the
 * condition under which an element counts. */
typedef struct NstReading {
    NstLowering *lower;
    NstNest *nest;
    bool skip_padding;
    NstExpr guard; /* none = always */
    NstDim step;   /* inside a loop: the nest's first axis */
    NST_VEC(NstIndexLet) lets;
    NST_VEC(NstVal) let_value; /* by let: the scalar it reads */
} NstReading;

/* The element of a value at an index (rank entries over axis vars and lets). */
NstExpr nst_read_value(NstReading *reading, NstVal value, const NstDim *index);
/* What a pad or window has outside of its input. */
NstExpr nst_read_padding(NstReading *reading, const NstNode *node);
/* index of an input of extent `from` where the output has extent `to`: index itself, 0, or a product that is 0 for extent 1. */
NstDim nst_read_broadcast(NstLowering *lower, NstDim index, NstDim from, NstDim to);
/* An index-let of the scalar `value`, lo <= var < hi checked; the same scalar with the same bounds gives the same let. */
NstDim nst_read_let(NstReading *reading, NstVal value, NstDim lo, NstDim hi, NstOrigin origin);
/* A let of any expression (no sharing). */
NstDim nst_read_let_of(NstReading *reading, NstExpr value, NstDim lo, NstDim hi, bool checked, NstOrigin origin);
/* Hands the collected lets and the guard to the nest. */
void nst_read_finish(NstReading *reading);

/* True if reading the value at an index needs no buffer: a view or a source without data. */
bool nst_is_view(const NstLowering *lower, NstVal value);
/* The buffer of a value of an outer region: a constant, or an input that the region's module captures. */
NstBuf nst_lower_capture(NstLowering *lower, NstVal value);
/* The value behind region parameters. */
NstVal nst_lowered_value(const NstLowering *lower, NstVal value);

/* Conditions and clamping; provable parts vanish. */
NstExpr nst_and(NstExprs *exprs, NstExpr a, NstExpr b); /* none = true */
NstExpr nst_in_range(NstLowering *lower, NstDim index, NstDim extent);
NstDim nst_clamp_index(NstLowering *lower, NstDim index, NstDim extent);

#endif
