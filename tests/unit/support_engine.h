/* support_engine.h: the fixture of tests of the public interface: an engine of one thread without a cache on disk, the compiler
 * linked in, and a context for what a test makes. */
#ifndef NST_TESTS_UNIT_SUPPORT_ENGINE_H
#define NST_TESTS_UNIT_SUPPORT_ENGINE_H

#include "ir/base/status.h"
#include "ir/base/str.h"
#include "nestor/session.h"

void support_engine_begin(NstCtx *ctx, NstEngine **engine);
void support_engine_end(NstCtx *ctx, NstEngine *engine);

/* Declares the suite, with `ctx` and `engine` anew for each of its tests; more options of TestSuite may follow. */
#define SUPPORT_ENGINE_SUITE(suite, ...)                                                                               \
    static NstCtx ctx;                                                                                                 \
    static NstEngine *engine;                                                                                          \
    static void begin(void)                                                                                            \
    {                                                                                                                  \
        support_engine_begin(&ctx, &engine);                                                                           \
    }                                                                                                                  \
    static void end(void)                                                                                              \
    {                                                                                                                  \
        support_engine_end(&ctx, engine);                                                                              \
    }                                                                                                                  \
    TestSuite(suite, .init = begin, .fini = end, __VA_ARGS__)

/* A model of these bytes and a session of it; asserts success (Criterion). */
void support_engine_open(NstEngine *engine, const NstText *bytes, const NstSessionOptions *options, NstModel **model,
                         NstSession **session);

/* The same of a graph in text form. */
void support_engine_open_graph(NstEngine *engine, const char *text, const NstSessionOptions *options, NstModel **model,
                               NstSession **session);

/* A tensor of floats, of rank 1 (rows) or 2, in the caller's memory. */
NstNamedTensor support_engine_floats(const char *name, float *data, int rank, int64_t rows, int64_t columns);

/* Frees what there is of them and leaves NULL. */
void support_engine_close(NstSession **session, NstModel **model, NstEngine **engine);

#endif
