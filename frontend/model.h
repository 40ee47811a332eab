/* model.h: an ONNX model read into memory: its messages, its bytes, the operator sets it imports. */
#ifndef NST_FRONTEND_MODEL_H
#define NST_FRONTEND_MODEL_H

#include "ir/base/os.h"
#include "ir/base/vec.h"
#include "ir/strings.h"
#include "onnx.pb-c.h"

#define NST_ONNX_MAX_IR    14 /* newest IR version this was written for */
#define NST_ONNX_MAX_OPSET 28 /* newest opset of ai.onnx in the operator table */

/* A file of external data that was mapped for some tensor. */
typedef struct NstExternalFile {
    const char *location;
    NstMapping mapping;
} NstExternalFile;

typedef struct NstOnnxModel {
    NstArena *arena; /* of the graph: mappings end with it */
    const unsigned char *bytes;
    size_t n;
    const char *folder; /* of external data; NULL: none allowed */
    const char *file;   /* of the model itself, which may be a link; NULL: not known */
    const Onnx__ModelProto *proto;
    NstStrings *strings; /* of the graph: what elements of string tensors stand for; NULL: none are read */
    NST_VEC(NstExternalFile *) files;
    const char *needs; /* an input whose value a lowering had to know; NULL: none */
} NstOnnxModel;

/* Reads and checks a model.  Owns: messages in scratch; arena (of the graph) gets weights and
 * mappings.  bytes are borrowed for arena's life.
 * Errors: NST_E_PARSE (no ONNX bytes), NST_E_MODEL, NST_E_UNSUPPORTED (newer IR version or opset), NST_E_LIMIT. */
NstStatus nst_onnx_read(NstCtx *ctx, NstArena *arena, NstArena *scratch, const void *bytes, size_t n,
                        const char *folder, NstOnnxModel **model) NST_MUST_CHECK;

/* "ai.onnx" for the default domain, else the name itself. */
const char *nst_onnx_domain(const char *domain);
/* The version of a domain that the model imports, 0 if it does not. */
int64_t nst_onnx_opset(const NstOnnxModel *model, const char *domain);

#endif
