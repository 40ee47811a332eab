/* type.h: value types of the graph: tensors with symbolic shapes, sequences, optionals, maps. */
#ifndef NST_IR_TYPE_H
#define NST_IR_TYPE_H

#include "ir/base/dtype.h"
#include "ir/dim.h"

#define NST_MAX_RANK 16

typedef enum NstTypeKind {
    NST_TYPE_NONE,
    NST_TYPE_TENSOR,
    NST_TYPE_SEQUENCE,
    NST_TYPE_OPTIONAL,
    NST_TYPE_MAP
} NstTypeKind;

typedef struct NstType {
    NstTypeKind kind;
    NstDtype dtype;             /* TENSOR element; MAP key */
    int rank;                   /* TENSOR */
    const NstDim *shape;        /* TENSOR, rank entries [arena] */
    const struct NstType *item; /* SEQUENCE, OPTIONAL element; MAP value */
} NstType;

/* A tensor type; shape is copied. */
NstType nst_tensor_type(NstArena *arena, NstDtype dtype, int rank, const NstDim *shape);
/* Same kind, element type and identical (by normal form) shapes. */
bool nst_type_same(const NstType *a, const NstType *b);
/* Product of the shape. */
NstDim nst_type_elements(NstDims *dims, const NstType *type);
/* "f32[n, 3, 224]", "seq<f32[..]>"; parse reads the same (unknown symbols become new INPUT symbols >= 0). */
void nst_type_print(NstText *text, const NstDims *dims, const NstType *type);
NstStatus nst_type_parse(NstCtx *ctx, NstArena *arena, NstDims *dims, const char **p, NstType *type) NST_MUST_CHECK;

#endif
