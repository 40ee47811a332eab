/* import_tensor.c: a tensor that stands alone, as ONNX test data have them. */
#include "frontend/import.h"
#include "frontend/weights.h"
#include "frontend/wire.h"

NstStatus nst_import_tensor(NstCtx *ctx, NstArena *arena, const char *name, const void *bytes, size_t n,
                            NstTensorValue *value)
{
    ProtobufCMessage *message;
    NstWeight weight;
    NstOnnxModel model = {.arena = arena, .bytes = bytes, .n = n};
    NST_TRY(nst_wire_unpack(ctx, arena, &onnx__tensor_proto__descriptor, "tensor", bytes, n, &message));
    NST_TRY(nst_weight_read(ctx, &model, (Onnx__TensorProto *)message, name, &weight));
    *value = (NstTensorValue){
        .dtype = weight.dtype, .rank = weight.rank, .data = (void *)(uintptr_t)weight.data, .bytes = weight.bytes};
    memcpy(value->shape, weight.shape, sizeof value->shape);
    return NST_OK;
}
