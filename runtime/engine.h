/* engine.h: the engine and model behind the public handles, and how their calls report failures. */
#ifndef NST_RUNTIME_ENGINE_H
#define NST_RUNTIME_ENGINE_H

#include <stdatomic.h>
#include "ir/loop.h"
#include "runtime/compiler.h"
#include "runtime/threads.h"

/* Engines and models live until their handle and all that was made from them is freed, in any order. */
struct NstEngine {
    _Atomic uint32_t users; /* the handle and the models */
    NstPool *pool;
    NstCache *cache;
    char *folder; /* of the disk cache; NULL = none */
    NstTarget target;
    NstLog log;
    void *log_arg;
    NstProgress progress;
    void *progress_arg;
    _Atomic(const NstCustom *) operators; /* registered */
};

struct NstModel {
    _Atomic uint32_t users; /* the handle and the sessions */
    NstEngine *engine;
    char *name;   /* path or what the caller called it */
    char *folder; /* of external data; NULL = none */
    const void *bytes;
    size_t size;
    NstMapping mapping; /* of bytes, or ... */
    void *copy;         /* ... their memory */
    uint64_t hash_lo, hash_hi;
};

/* Sets the message of this thread and returns status. */
NstStatus nst_report(NstStatus status, const char *format, ...) NST_PRINTF(2, 3);

void nst_engine_log(const NstEngine *engine, NstLogLevel level, const char *format, ...) NST_PRINTF(3, 4);

/* What the compiler and the key of a plan rely on in options of a caller.  Errors: NST_E_INVALID, reported. */
NstStatus nst_session_options_check(const NstSessionOptions *options) NST_MUST_CHECK;

/* A request to the compiler for this model; error is where messages go. */
NstCompileRequest nst_model_request(const NstModel *model, const NstSessionOptions *options, char *error, size_t n);

/* Ends the list of registered operators. */
void nst_operators_free(const NstCustom *list);

/* Appends a line for each registered operator whose name stands in the model, in an order that does not depend on that of
 * registration: what a plan of the model depends on. */
void nst_operators_add_material(NstText *text, const NstCustom *list, const NstModel *model);

/* Why a plan of the model may be nowhere: "; node 'n': operator 'o' of domain 'd' is not registered with this engine" for
 * the first node of a domain that is not ONNX's which is neither registered nor a function of the model; "" for none.
 * Owns: arena. */
const char *nst_operators_missing(NstArena *arena, const NstCustom *list, const NstModel *model);

/* The table of the compiler library.  Errors are reported. */
NstStatus nst_engine_compiler(const NstEngine *engine, const NstCompilerTable **table) NST_MUST_CHECK;

/* A copy of text with malloc; NULL when there is no memory. */
char *nst_text_copy(const char *text);

#endif
