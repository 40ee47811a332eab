/* lowering.h: what the files of the lowering to nests share. */
#ifndef NST_PASSES_LOWERING_H
#define NST_PASSES_LOWERING_H

#include "passes/reading.h"

#define NST_LOWER_MAX_OUTS 16

/* The buffer a computed value goes to: a result's, or a new temporary one. */
NstBuf nst_lower_output(NstLowering *lower, NstVal value);
/* Appends an axis named letter + number to list and gives its index; an axis of extent 1 is left out: index 0. */
NstDim nst_lower_axis(NstLowering *lower, NstAxis *list, uint32_t *n, const char *letter, int number, NstDim extent);
/* Starts a nest of at most `rank` output axes: inside a loop its first axis is the step. */
NstReading nst_lower_begin(NstLowering *lower, const char *name, NstOrigin origin, int rank);
/* The nest's axes over a shape; gives the index of each [arena]. */
NstDim *nst_lower_axes(NstLowering *lower, NstNest *nest, int rank, const NstDim *shape);
/* Appends an output: buffer[index] = value; the step goes before the index of a value made anew in each. */
void nst_lower_store(NstLowering *lower, NstNest *nest, NstBuf buffer, const NstDim *index, NstExpr value);
/* The same with all of the buffer's indices given. */
void nst_lower_store_at(NstLowering *lower, NstNest *nest, NstBuf buffer, const NstDim *index, NstExpr value);
/* Appends a group of this nest to the module. */
NstGroup *nst_lower_add(NstLowering *lower, NstNest *nest);
/* Lowers the nodes of a region in order. */
NstStatus nst_lower_region(NstLowering *lower, NstRegionId region);
/* A temporary buffer of `rank` axes with no value of the graph in it. */
NstBuf nst_lower_temporary(NstLowering *lower, const char *name, NstDtype dtype, int rank, const NstDim *shape);
/* The element of a view's node itself. */
NstExpr nst_read_view(NstReading *reading, const NstNode *node, const NstDim *index);

/* combine and indirect primitives (lower_combine.c, lower_indirect.c) */
void nst_lower_reduce(NstLowering *lower, const NstNode *node);
void nst_lower_prefix(NstLowering *lower, const NstNode *node);
void nst_lower_contract(NstLowering *lower, const NstNode *node);
void nst_lower_gather(NstLowering *lower, const NstNode *node);
void nst_lower_scatter(NstLowering *lower, const NstNode *node);
/* A primitive without a nest form as a step of the plan (lower_step.c). */
NstStatus nst_lower_step(NstLowering *lower, const NstNode *node);
/* buffer[begin + i] = value[i], all of value; begin NULL = 0. */
void nst_lower_copy(NstLowering *lower, NstVal value, NstBuf buffer, const NstDim *begin, NstOrigin origin);
/* A buffer of the module that holds a value of the graph. */
NstBuf nst_lower_buffer(NstLowering *lower, NstVal value, NstBufferRole role, uint32_t index);
NstBuf nst_lower_const(NstLowering *lower, NstVal value);
/* Lowers module->region; outer: the lowering of the region around it, or NULL. */
NstStatus nst_lower_module(NstCtx *ctx, NstModule *module, const NstLowering *outer);
/* True if a loop can be one serial group of nests. */
bool nst_loop_is_nest(NstLowering *lower, const NstNode *node);

/* A loop of invariant shapes and a known number of steps as one serial group (lower_loop.c). */
NstStatus nst_lower_loop(NstLowering *lower, const NstNode *node);

#endif
