/* compiler.h: the one table of functions that libnestor-compiler exports, and how libnestor gets it.
 *
 * The two libraries have copies of ir/ and runtime/ of their own and share nothing but what crosses this table: plain
 * structures of one and the same build (the build ids are compared) and memory of the C library's malloc. */
#ifndef NST_RUNTIME_COMPILER_H
#define NST_RUNTIME_COMPILER_H

#include "ir/custom.h"
#include "ir/target.h"
#include "nestor/inspect.h"
#include "nestor/session.h"
#include "runtime/cache.h"

#define NST_COMPILER_ABI 6

/* Where compiled kernels are kept: libnestor's cache. */
typedef struct NstKernelStore {
    void *arg; /* NULL = nowhere */
    bool (*find)(void *arg, const void *material, size_t n, NstCacheHit *hit);
    void (*release)(void *arg, NstCacheHit *hit);
    void (*store)(void *arg, const void *material, size_t n, const NstPart *parts, int n_parts);
} NstKernelStore;

typedef struct NstCompileRequest {
    const char *name;   /* of the model, for messages */
    const char *folder; /* of its external data; NULL = none is allowed */
    const char *file;   /* it came from; NULL = from memory */
    const void *bytes;
    size_t size;
    const NstTarget *target;
    const NstSessionOptions *options;
    const NstCustom *operators; /* registered ones that nodes of the model may be */
    NstKernelStore kernels;
    int threads; /* to compile with */
    char *error; /* message of a failure */
    size_t error_bytes;
    void (*warn)(void *arg, const char *text); /* hears of what is odd and decides nothing; NULL = nobody */
    void *warn_arg;
    /* Hears how far compiling has come (NstProgress of nestor/engine.h); NULL = nobody */
    void (*progress)(void *arg, uint32_t done, uint32_t total);
    void *progress_arg;
} NstCompileRequest;

/* Bytes aligned to 64, ended with free(). */
typedef struct NstBlob {
    void *at;
    size_t bytes;
} NstBlob;

typedef struct NstCompilerTable {
    uint32_t abi;
    const char *build_id;
    /* The plan of the model (plan_io.h), weights not yet packed.  Under options->interpret a plan without kernels, for its
     * inputs and outputs; likewise (NstPlan.by_shape) where only given shapes have a plan and the options leave some open. */
    NstStatus (*compile)(const NstCompileRequest *request, NstBlob *plan);
    /* A stage as text, NUL-terminated. */
    NstStatus (*dump)(const NstCompileRequest *request, NstDumpStage stage, const char *kernel, NstBlob *text);
    /* Passes over text: request->bytes is the source. */
    NstStatus (*optimise)(const NstCompileRequest *request, const char *passes, NstBlob *text);
    /* The reference interpreter: inputs and outputs in the order of the plan; outputs are given memory (`owned`). */
    NstStatus (*interpret)(const NstCompileRequest *request, const NstTensor *inputs, uint32_t n_inputs,
                           NstTensor *outputs, uint32_t n_outputs);
    /* The tensors of a value of a type (nst_values_read_onnx): request->bytes; they are given memory (`owned`). */
    NstStatus (*values)(const NstCompileRequest *request, const char *type, NstTensor *tensors, uint32_t room,
                        uint32_t *n);
    /* What the model declares; ended with inspect_free. */
    NstStatus (*inspect)(const NstCompileRequest *request, const NstModelInfo **info);
    void (*inspect_free)(const NstModelInfo *info);
    /* The operator table as text. */
    NstStatus (*operators)(const NstCompileRequest *request, NstBlob *text);
} NstCompilerTable;

/* Names this very build: of sources, compiler and options.  Part of every cache key. */
extern const char nst_build_id[];

/* The table, loading the library with the first call.  Errors: NST_E_COMPILER saying what is not usable. */
NstStatus nst_compiler_get(NstCtx *ctx, const NstCompilerTable **table) NST_MUST_CHECK;

/* The table if nst_compiler_get gave it before, else NULL. */
const NstCompilerTable *nst_compiler_loaded(void);

/* Test hook: this table instead of a library. */
void nst_compiler_set(const NstCompilerTable *table);

#endif
