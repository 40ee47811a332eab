/* weights.h: TensorProto, in each of its encodings, as row-major elements in the engine's storage. */
#ifndef NST_FRONTEND_WEIGHTS_H
#define NST_FRONTEND_WEIGHTS_H

#include "frontend/model.h"
#include "ir/type.h"

typedef struct NstWeight {
    NstDtype dtype;
    int rank;
    int64_t shape[NST_MAX_RANK];
    int64_t count; /* elements */
    const void *data;
    size_t bytes;
} NstWeight;

/* The tensor's elements.  Raw data of at least NST_WEIGHT_BORROW bytes and external data whose storage is the engine's
 * are borrowed from the model's bytes or the mapped file, everything else is copied into the model's arena.
 * what: for messages, "initializer 'w'".  Errors: NST_E_MODEL (sizes, fields), NST_E_UNSUPPORTED (strings), NST_E_LIMIT,
 * NST_E_IO. */
#define NST_WEIGHT_BORROW 256 /* bytes: below this a copy is cheaper than an unaligned view */
NstStatus nst_weight_read(NstCtx *ctx, NstOnnxModel *model, const Onnx__TensorProto *tensor, const char *what,
                          NstWeight *weight) NST_MUST_CHECK;

/* The dense tensor that a sparse one stands for, in the model's arena.  Errors: as above; NST_E_MODEL for indices outside or
 * out of order, NST_E_LIMIT for a dense tensor over 256 MB. */
NstStatus nst_weight_read_sparse(NstCtx *ctx, NstOnnxModel *model, const Onnx__SparseTensorProto *sparse,
                                 const char *what, NstWeight *weight) NST_MUST_CHECK;

#endif
