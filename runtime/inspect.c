/* inspect.c: what a model declares and the operator table, both from the compiler's library. */
#include "nestor/inspect.h"

#include "runtime/engine.h"
#include "runtime/run_state.h"

NstStatus nst_model_info(NstModel *model, const NstModelInfo **info)
{
    if (!model || !info) return nst_report(NST_E_INVALID, "nst_model_info: NULL is given");
    *info = NULL;
    const NstCompilerTable *table;
    NST_TRY(nst_engine_compiler(model->engine, &table));
    char error[NST_ERROR_TEXT] = "";
    NstCompileRequest request = nst_model_request(model, NULL, error, sizeof error);
    request.operators = atomic_load(&model->engine->operators);
    NstStatus status = table->inspect(&request, info);
    return status == NST_OK ? NST_OK : nst_report(status, "%s", error);
}

void nst_model_info_free(const NstModelInfo *info)
{
    if (info) nst_compiler_loaded()->inspect_free(info); /* loaded, for it made info */
}

const char *nst_operator_state_name(NstOperatorState state)
{
    switch (state) {
    case NST_OPERATOR_RUNS: return "runs";
    case NST_OPERATOR_NOT_YET: return "not yet";
    case NST_OPERATOR_FUNCTION: return "function";
    case NST_OPERATOR_CUSTOM: return "custom";
    case NST_OPERATOR_UNKNOWN: break;
    }
    return "unknown";
}

NstStatus nst_operator_table(NstEngine *engine, char **text)
{
    if (!engine || !text) return nst_report(NST_E_INVALID, "nst_operator_table: NULL is given");
    *text = NULL;
    const NstCompilerTable *table;
    NST_TRY(nst_engine_compiler(engine, &table));
    char error[NST_ERROR_TEXT] = "";
    NstCompileRequest request = {.name = "operators", .error = error, .error_bytes = sizeof error};
    NstBlob blob = {NULL, 0};
    NstStatus status = table->operators(&request, &blob);
    if (status != NST_OK) return nst_report(status, "%s", error);
    *text = blob.at;
    return NST_OK;
}
