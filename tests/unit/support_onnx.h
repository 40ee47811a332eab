/* support_onnx.h: a writer of protobuf bytes, for models that tests make. */
#ifndef NST_TESTS_SUPPORT_ONNX_H
#define NST_TESTS_SUPPORT_ONNX_H

#include "frontend/import.h"
#include "ir/base/str.h"

/* Appends a field to a message. */
void pb_int(NstText *message, unsigned field, int64_t value);
void pb_bytes(NstText *message, unsigned field, const void *bytes, size_t n);
void pb_text(NstText *message, unsigned field, const char *text);
void pb_message(NstText *message, unsigned field, const NstText *part);
void pb_float(NstText *message, unsigned field, float value);

/* A model while it is written. */
typedef struct OnnxModel {
    NstArena *arena;
    NstText graph;
    int64_t ir_version, opset;
    const char *domain; /* imported beside ai.onnx, or NULL */
    int64_t domain_version;
} OnnxModel;
OnnxModel onnx_model(NstArena *arena);
/* type: TensorProto.DataType; shape ends with INT64_MIN (NULL: none is declared); an extent of -1 becomes the symbol "N". */
#define ONNX_UNNAMED   (-100) /* an extent whose symbol is "?" */
#define ONNX_MINUS_ONE (-101) /* an extent that is written as -1 */
void onnx_input(OnnxModel *model, const char *name, int type, const int64_t *shape);
void onnx_output(OnnxModel *model, const char *name, int type, const int64_t *shape);
/* in, out: names split by blanks ("-" = absent); attributes: bytes of AttributeProto messages, or NULL. */
void onnx_node(OnnxModel *model, const char *op, const char *name, const char *in, const char *out,
               const NstText *attributes);
void onnx_attr_int(NstText *attributes, const char *name, int64_t value);
void onnx_attr_text(NstText *attributes, const char *name, const char *value);
void onnx_attr_ints(NstText *attributes, const char *name, int n, const int64_t *value);
void onnx_attr_graph(NstText *attributes, const char *name, const OnnxModel *graph);
void onnx_floats(OnnxModel *model, const char *name, const int64_t *shape, const float *value, size_t n);
void onnx_ints(OnnxModel *model, const char *name, const int64_t *shape, const int64_t *value, size_t n);
void onnx_tensor(OnnxModel *model, const char *name, int type, const int64_t *shape, const void *data, size_t bytes);
/* The model's bytes. */
NstText onnx_bytes(const OnnxModel *model);

/* Imports; the message if that fails, or NULL. */
const char *onnx_import(NstCtx *ctx, const NstText *bytes, NstGraph **graph);

#endif
