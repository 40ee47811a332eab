/* import_tensor.c: values that stand alone, as ONNX test data have them. */
#include "frontend/import.h"
#include "frontend/weights.h"
#include "frontend/wire.h"

typedef struct Reader {
    NstCtx *ctx;
    NstOnnxModel *model;
    const char *name;
    NstTensorValue *value;
    uint32_t room, n;
} Reader;

static NstStatus add_tensor(Reader *r, const Onnx__TensorProto *proto)
{
    NstWeight weight;
    NST_CHECK(r->ctx, r->n < r->room, NST_E_LIMIT, "%s: more than %u elements", r->name, r->room);
    NST_TRY(nst_weight_read(r->ctx, r->model, proto, r->name, &weight));
    NstTensorValue *value = &r->value[r->n++];
    *value = (NstTensorValue){
        .dtype = weight.dtype, .rank = weight.rank, .data = (void *)(uintptr_t)weight.data, .bytes = weight.bytes};
    memcpy(value->shape, weight.shape, sizeof value->shape);
    return NST_OK;
}

static NstStatus add_sequence(Reader *r, const Onnx__SequenceProto *proto)
{
    NST_CHECK(r->ctx,
              proto->n_sequence_values == 0 && proto->n_optional_values == 0 && proto->n_sparse_tensor_values == 0,
              NST_E_UNSUPPORTED, "%s: sequences of anything but tensors are not supported", r->name);
    for (size_t k = 0; k < proto->n_tensor_values; k++) NST_TRY(add_tensor(r, proto->tensor_values[k]));
    return NST_OK;
}

static NstStatus add_optional(Reader *r, const Onnx__OptionalProto *proto)
{
    NST_CHECK(r->ctx, !proto->optional_value && !proto->sparse_tensor_value, NST_E_UNSUPPORTED,
              "%s: optionals of anything but tensors and sequences are not supported", r->name);
    if (proto->sequence_value) return add_sequence(r, proto->sequence_value);
    return proto->tensor_value ? add_tensor(r, proto->tensor_value) : NST_OK;
}

NstStatus nst_import_values(NstCtx *ctx, NstArena *arena, NstStrings *strings, const char *name, const char *type,
                            const void *bytes, size_t n, NstTensorValue *value, uint32_t room, uint32_t *count)
{
    ProtobufCMessage *message;
    NstOnnxModel model = {.arena = arena, .bytes = bytes, .n = n, .strings = strings};
    Reader r = {.ctx = ctx, .model = &model, .name = name, .value = value, .room = room};
    bool sequence = strncmp(type, "seq(", 4) == 0, optional = strncmp(type, "optional(", 9) == 0;
    const ProtobufCMessageDescriptor *kind = sequence   ? &onnx__sequence_proto__descriptor
                                             : optional ? &onnx__optional_proto__descriptor
                                                        : &onnx__tensor_proto__descriptor;
    NST_TRY(nst_wire_unpack(ctx, arena, kind,
                            sequence   ? "sequence"
                            : optional ? "optional"
                                       : "tensor",
                            bytes, n, &message));
    NstStatus status = sequence   ? add_sequence(&r, (Onnx__SequenceProto *)message)
                       : optional ? add_optional(&r, (Onnx__OptionalProto *)message)
                                  : add_tensor(&r, (Onnx__TensorProto *)message);
    *count = r.n;
    return status;
}
