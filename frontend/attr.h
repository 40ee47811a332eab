/* attr.h: attributes of a node, as lowerings and adapters read and change them. */
#ifndef NST_FRONTEND_ATTR_H
#define NST_FRONTEND_ATTR_H

#include "frontend/schema.h"
#include "ir/base/vec.h"
#include "onnx.pb-c.h"

typedef struct NstAttr {
    const char *name;
    int type; /* Onnx__AttributeProto__AttributeType */
    int64_t i;
    double f;
    const char *s; /* zero-terminated */
    size_t n;      /* of the lists */
    const int64_t *ints;
    const float *floats;
    const char *const *strings;
    const Onnx__AttributeProto *proto; /* tensors, graphs, types; NULL for a default */
} NstAttr;

typedef struct NstAttrList {
    NST_VEC(NstAttr) list;
} NstAttrList;

/* The attributes of a node.  row NULL: any (a call of a function).  outer: attributes of the call around, for references
 * (one that is not there leaves its own out); NULL: none allowed.  Errors: NST_E_MODEL (no name, twice, no type or one that contradicts the field, not of the
 * row, or of another type than the row's; a required one is missing). */
NstStatus nst_attrs_read(NstCtx *ctx, NstArena *arena, const NstOpRow *row, const char *label,
                         const Onnx__NodeProto *node, const NstAttrList *outer, NstAttrList *attrs) NST_MUST_CHECK;
/* Adds what the row has a default for and the list has not. */
void nst_attrs_add_defaults(NstArena *arena, const NstOpRow *row, NstAttrList *attrs);
/* The attribute of that name, or NULL. */
NstAttr *nst_attrs_find(const NstAttrList *attrs, const char *name);
void nst_attrs_remove(NstAttrList *attrs, const char *name);

#endif
