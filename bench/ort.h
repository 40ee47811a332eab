/* ort.h: a client of ONNX Runtime's C library, for comparisons of speed and as an oracle of results.
 *
 * The library is loaded at run time (bench/fetch_ort.sh brings it) and none of its headers is needed.  Order
 * of calls: load, open, set every input, run, read outputs, (set inputs, run)*, close, unload.  One thread at
 * a time per session.  Errors of the library arrive as NST_E_COMPILER with its text. */
#ifndef NST_BENCH_ORT_H
#define NST_BENCH_ORT_H

#include <stdbool.h>
#include "ir/base/status.h"

#define NST_ORT_MAX_RANK   8
#define NST_ORT_MAX_VALUES 64 /* inputs, and outputs, of a model */
#define NST_ORT_LIBRARY    "build/ort/libonnxruntime.so"

typedef struct NstOrt NstOrt;
typedef struct NstOrtSession NstOrtSession;

/* A dense row-major tensor in somebody else's memory. */
typedef struct NstOrtTensor {
    int element; /* TensorProto.DataType: 1 f32, 7 i64, ... */
    int rank;
    int64_t dims[NST_ORT_MAX_RANK];
    void *data;
} NstOrtTensor;

typedef struct NstOrtOptions {
    int threads;  /* of the pool inside an operator, the calling one included; at least 1 */
    bool no_spin; /* the pool's threads sleep at once between operators instead of spinning a while */
} NstOrtOptions;

/* Loads the library at path (NULL: NST_ORT_LIBRARY).
 * Owns: the caller ends it with nst_ort_unload, after closing its sessions.
 * Errors: NST_E_NOT_FOUND if there is no such file; NST_E_UNSUPPORTED if it is no usable ONNX Runtime. */
NstStatus nst_ort_load(NstCtx *ctx, const char *path, NstOrt **ort) NST_MUST_CHECK;

/* Frees what load made; NULL is allowed.  The shared object stays mapped (its threads' exit code may still
 * run). */
void nst_ort_unload(NstOrt *ort);

/* The library's version, "1.32.0".  [owned by the library] */
const char *nst_ort_version(const NstOrt *ort);

/* Opens a model with all graph optimisations, sequential execution, and the CPU provider.
 * Owns: the caller ends it with nst_ort_close.
 * Errors: NST_E_COMPILER with the library's text; NST_E_LIMIT beyond NST_ORT_MAX_VALUES inputs or outputs. */
NstStatus nst_ort_open_file(NstCtx *ctx, NstOrt *ort, const char *path, NstOrtOptions options,
                            NstOrtSession **session) NST_MUST_CHECK;

/* The same from the bytes of a model. [bytes borrowed until the call returns] */
NstStatus nst_ort_open_bytes(NstCtx *ctx, NstOrt *ort, const void *bytes, size_t size, NstOrtOptions options,
                             NstOrtSession **session) NST_MUST_CHECK;

/* Frees the session and its outputs; NULL is allowed. */
void nst_ort_close(NstOrtSession *session);

/* Numbers and names of the model's inputs and outputs.  NULL for an index out of range. [owned by the
 * session] */
int nst_ort_input_count(const NstOrtSession *session);
int nst_ort_output_count(const NstOrtSession *session);
const char *nst_ort_input_name(const NstOrtSession *session, int index);
const char *nst_ort_output_name(const NstOrtSession *session, int index);

/* Makes the tensor the input of the next runs.  Frees the outputs of the last run.
 * [tensor.data borrowed until the input is set again or the session closed; its values are read at each run]
 * Errors: NST_E_INVALID for an index, element type, rank or dim that is not allowed; NST_E_UNSUPPORTED for
 * strings. */
NstStatus nst_ort_set_input(NstCtx *ctx, NstOrtSession *session, int index, const NstOrtTensor *tensor) NST_MUST_CHECK;

/* Runs the model.  Outputs of an earlier run since the last set_input are written over in place, so that a
 * timed repetition allocates nothing; a model whose output shapes depend on values needs set_input before
 * each run. Errors: NST_E_INVALID if an input was never set; NST_E_COMPILER with the library's text. */
NstStatus nst_ort_run(NstCtx *ctx, NstOrtSession *session) NST_MUST_CHECK;

/* Describes an output of the last run. [data owned by the session until set_input or close]
 * Errors: NST_E_INVALID for a bad index or before the first run; NST_E_UNSUPPORTED for a sequence, map or
 * string. */
NstStatus nst_ort_output(NstCtx *ctx, NstOrtSession *session, int index, NstOrtTensor *tensor) NST_MUST_CHECK;

#endif
