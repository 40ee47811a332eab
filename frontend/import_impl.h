/* import_impl.h: what the files of the import share; private to frontend/import*.c. */
#ifndef NST_FRONTEND_IMPORT_IMPL_H
#define NST_FRONTEND_IMPORT_IMPL_H

#include "frontend/import.h"
#include "frontend/lower.h"
#include "frontend/scope.h"

/* Whose nodes are being imported: the model's, or a function's. */
typedef struct NstContext {
    const Onnx__OperatorSetIdProto *const *opset; /* imports */
    size_t n_opset;
    const NstAttrList *attrs; /* of the call, for references; NULL: no function */
    int depth;                /* functions and graphs around */
} NstContext;

typedef struct NstImport {
    NstCtx *ctx;
    NstArena *scratch; /* ends with the import */
    NstGraph *graph;
    NstOnnxModel *model;
    const NstImportOptions *options;
    NstBuild build;
    NstBuild *b; /* of the region that is being filled */
    NstShapeValues sizes;
    NstScope *scope; /* innermost */
    const NstContext *context;
    uint32_t n_given; /* choices that were given and taken, or passed over */
    uint32_t n_nodes; /* so far, those of functions each time they are called */
} NstImport;

/* The nodes of a graph or function, in the current scope and region. */
NstStatus nst_import_nodes(NstImport *m, Onnx__NodeProto *const *node, size_t n) NST_MUST_CHECK;
/* A node that a registered operator does.  Errors: NST_E_MODEL for counts that it does not have, what infer returns, what is
 * wrong with the types it gives. */
NstStatus nst_import_custom(NstImport *m, const NstOperator *op, const Onnx__NodeProto *node,
                            NstLower *c) NST_MUST_CHECK;
/* Constants of a graph; overridable ones are left out. */
NstStatus nst_import_initializers(NstImport *m, const Onnx__GraphProto *g) NST_MUST_CHECK;
/* The values named by a graph's outputs. */
NstStatus nst_import_find_outputs(NstImport *m, const Onnx__GraphProto *g, NstVal *value) NST_MUST_CHECK;

#endif
