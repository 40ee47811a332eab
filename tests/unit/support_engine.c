/* support_engine.c: see support_engine.h. */
#include "tests/unit/support_engine.h"

#include <criterion/criterion.h>
#include "runtime/compiler.h"

extern const NstCompilerTable nst_compiler_table;

void support_engine_begin(NstCtx *ctx, NstEngine **engine)
{
    nst_compiler_set(&nst_compiler_table);
    NstEngineOptions options = {.threads = 1, .cache = ""};
    cr_assert_eq(nst_ctx_init(ctx), NST_OK);
    cr_assert_eq(nst_engine_new(&options, engine), NST_OK, "%s", nst_error_text());
}

void support_engine_end(NstCtx *ctx, NstEngine *engine)
{
    nst_arena_fail_after(0);
    nst_engine_free(engine);
    nst_ctx_dispose(ctx);
}

static void open_bytes(NstEngine *engine, const char *bytes, size_t n, const NstSessionOptions *options,
                       NstModel **model, NstSession **session)
{
    cr_assert_eq(nst_model_open_memory(engine, "test", bytes, n, model), NST_OK, "%s", nst_error_text());
    cr_assert_eq(nst_session_new(*model, options, session), NST_OK, "%s", nst_error_text());
}

void support_engine_open(NstEngine *engine, const NstText *bytes, const NstSessionOptions *options, NstModel **model,
                         NstSession **session)
{
    open_bytes(engine, nst_text_get(bytes), bytes->n, options, model, session);
}

void support_engine_open_graph(NstEngine *engine, const char *text, const NstSessionOptions *options, NstModel **model,
                               NstSession **session)
{
    open_bytes(engine, text, strlen(text), options, model, session);
}

NstNamedTensor support_engine_floats(const char *name, float *data, int rank, int64_t rows, int64_t columns)
{
    NstNamedTensor named = {.name = name, .tensor = {.dtype = NST_F32, .rank = rank, .data = data}};
    named.tensor.shape[0] = rows;
    named.tensor.shape[1] = columns;
    named.tensor.bytes = (size_t)(rows * columns) * 4;
    return named;
}

void support_engine_close(NstSession **session, NstModel **model, NstEngine **engine)
{
    nst_session_free(*session);
    nst_model_free(*model);
    nst_engine_free(*engine);
    *session = NULL;
    *model = NULL;
    *engine = NULL;
}
