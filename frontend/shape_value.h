/* shape_value.h: small integer tensors as vectors of dims: what Shape, Gather, Concat, Slice and arithmetic make of sizes.
 *
 * Read off the graph of primitives, so that every lowering takes part without knowing it. */
#ifndef NST_FRONTEND_SHAPE_VALUE_H
#define NST_FRONTEND_SHAPE_VALUE_H

#include "ir/base/map.h"
#include "ir/graph.h"

#define NST_SHAPE_VALUE_MAX 256 /* elements of a tensor that is tracked */

typedef struct NstShapeValue {
    int n; /* elements, row-major; -1: not a vector of dims */
    const NstDim *dim;
} NstShapeValue;

typedef struct NstShapeValues {
    const NstGraph *graph;
    NstArena *arena;
    NstMap known; /* value id -> position in list */
    NST_VEC(NstShapeValue) list;
} NstShapeValues;

void nst_shape_values_init(NstShapeValues *values, NstArena *arena, const NstGraph *graph);
/* The elements of an integer or bool tensor as dims, or n = -1. [owned by values' arena] */
NstShapeValue nst_shape_value(NstShapeValues *values, NstVal value);
/* Remembers what the elements of a value are (sizes that were read at run time). */
void nst_shape_value_set(NstShapeValues *values, NstVal value, NstShapeValue is);

#endif
