/* model.c: bytes -> messages -> checks of what stands outside the graph. */
#include "frontend/model.h"

#include <string.h>
#include "frontend/wire.h"

const char *nst_onnx_domain(const char *domain)
{
    return domain && *domain ? domain : "ai.onnx";
}

int64_t nst_onnx_opset(const NstOnnxModel *model, const char *domain)
{
    const Onnx__ModelProto *p = model->proto;
    for (size_t k = 0; k < p->n_opset_import; k++)
        if (strcmp(nst_onnx_domain(p->opset_import[k]->domain), domain) == 0) return p->opset_import[k]->version;
    return p->n_opset_import == 0 && p->ir_version < 3 && strcmp(domain, "ai.onnx") == 0 ? 1 : 0;
}

static NstStatus check_imports(NstCtx *ctx, const NstOnnxModel *model)
{
    const Onnx__ModelProto *p = model->proto;
    NST_CHECK(ctx, p->n_opset_import > 0 || p->ir_version < 3, NST_E_MODEL,
              "model: no opset_import, allowed: one for each domain (IR version %lld)", (long long)p->ir_version);
    for (size_t k = 0; k < p->n_opset_import; k++) {
        const char *domain = nst_onnx_domain(p->opset_import[k]->domain);
        int64_t version = p->opset_import[k]->version;
        NST_CHECK(ctx, version >= 1, NST_E_MODEL, "model: imports version %lld of domain '%s', allowed: at least 1",
                  (long long)version, domain);
        NST_CHECK(ctx, version <= NST_ONNX_MAX_OPSET || strcmp(domain, "ai.onnx") != 0, NST_E_UNSUPPORTED,
                  "model: imports opset %lld of ai.onnx, supported: 1 to %d", (long long)version, NST_ONNX_MAX_OPSET);
        for (size_t other = 0; other < k; other++)
            NST_CHECK(ctx,
                      strcmp(nst_onnx_domain(p->opset_import[other]->domain), domain) != 0 ||
                          p->opset_import[other]->version == version,
                      NST_E_MODEL, "model: imports domain '%s' twice, as version %lld and %lld", domain,
                      (long long)p->opset_import[other]->version, (long long)version);
    }
    return NST_OK;
}

NstStatus nst_onnx_read(NstCtx *ctx, NstArena *arena, NstArena *scratch, const void *bytes, size_t n,
                        const char *folder, NstOnnxModel **model)
{
    ProtobufCMessage *message;
    NST_TRY(nst_wire_unpack(ctx, scratch, &onnx__model_proto__descriptor, "model", bytes, n, &message));
    NstOnnxModel *m = NST_NEW(scratch, NstOnnxModel);
    *m = (NstOnnxModel){.arena = arena, .bytes = bytes, .n = n, .folder = folder, .proto = (Onnx__ModelProto *)message};
    NST_CHECK(ctx, m->proto->has_ir_version, NST_E_PARSE, "model: no ir_version: these are no bytes of an ONNX model");
    NST_CHECK(ctx, m->proto->ir_version >= 1, NST_E_MODEL, "model: IR version %lld, allowed: at least 1",
              (long long)m->proto->ir_version);
    NST_CHECK(ctx, m->proto->ir_version <= NST_ONNX_MAX_IR, NST_E_UNSUPPORTED,
              "model: IR version %lld, supported: 1 to %d", (long long)m->proto->ir_version, NST_ONNX_MAX_IR);
    NST_CHECK(ctx, m->proto->graph, NST_E_MODEL, "model: no graph");
    NST_TRY(check_imports(ctx, m));
    *model = m;
    return NST_OK;
}
