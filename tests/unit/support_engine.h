/* support_engine.h: the fixture of tests of the public interface: an engine of one thread without a cache on disk, the compiler
 * linked in, and a context for what a test makes. */
#ifndef NST_TESTS_UNIT_SUPPORT_ENGINE_H
#define NST_TESTS_UNIT_SUPPORT_ENGINE_H

#include "ir/base/str.h"
#include "nestor/session.h"

void support_engine_begin(NstCtx *ctx, NstEngine **engine);
void support_engine_end(NstCtx *ctx, NstEngine *engine);

/* A model of these bytes and a session of it; asserts success (Criterion). */
void support_engine_open(NstEngine *engine, const NstText *bytes, const NstSessionOptions *options, NstModel **model,
                         NstSession **session);

/* Frees what there is of them and leaves NULL. */
void support_engine_close(NstSession **session, NstModel **model, NstEngine **engine);

#endif
