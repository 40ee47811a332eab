/* lowering.h: what the files of the lowering to nests share. */
#ifndef NST_PASSES_LOWERING_H
#define NST_PASSES_LOWERING_H

#include "passes/reading.h"

#define NST_LOWER_MAX_OUTS 16

/* The buffer a computed value goes to: a result's, or a new temporary one. */
NstBuf nst_lower_output(NstLowering *lower, NstVal value);
/* Appends an axis named letter + number to list and gives its index; an axis of extent 1 is left out: index 0. */
NstDim nst_lower_axis(NstLowering *lower, NstAxis *list, uint32_t *n, const char *letter, int number, NstDim extent);
/* The nest's axes over a shape; gives the index of each [arena]. */
NstDim *nst_lower_axes(NstLowering *lower, NstNest *nest, int rank, const NstDim *shape);
/* Appends an output: buffer[index] = value. */
void nst_lower_store(NstLowering *lower, NstNest *nest, NstBuf buffer, const NstDim *index, NstExpr value);
/* Appends a group of this nest to the module. */
NstGroup *nst_lower_add(NstLowering *lower, NstNest *nest);
/* The element of a view's node itself. */
NstExpr nst_read_view(NstReading *reading, const NstNode *node, const NstDim *index);

/* combine and indirect primitives (lower_combine.c, lower_indirect.c) */
void nst_lower_reduce(NstLowering *lower, const NstNode *node);
void nst_lower_prefix(NstLowering *lower, const NstNode *node);
void nst_lower_contract(NstLowering *lower, const NstNode *node);
void nst_lower_gather(NstLowering *lower, const NstNode *node);
void nst_lower_scatter(NstLowering *lower, const NstNode *node);

#endif
