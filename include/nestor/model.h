/* model.h: a model as it was read: bytes of an ONNX file, or a graph in Nestor's text form (.nsg). */
#ifndef NESTOR_MODEL_H
#define NESTOR_MODEL_H

#include "nestor/engine.h"
#include "nestor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct NstModel NstModel;

/* Opens a file; it is mapped, and must not be written to while the model is open.  External data is looked for beside it.
 * Owns: the caller ends it with nst_model_free.  Errors: NST_E_IO, NST_E_NOMEM.  Faults inside show when it is compiled. */
NST_API NstStatus nst_model_open_file(NstEngine *engine, const char *path, NstModel **model) NST_MUST_CHECK;

/* Opens bytes, which are copied.  name: for messages.  Owns and errors as above. */
NST_API NstStatus nst_model_open_memory(NstEngine *engine, const char *name, const void *bytes, size_t size,
                                        NstModel **model) NST_MUST_CHECK;

/* Ends the model, or, while it has sessions, when the last of them is freed.  NULL is allowed. */
NST_API void nst_model_free(NstModel *model);

/* What nst_model_dump gives: the graph as read, the nests after fusion, the scheduled kernels, LLVM's IR, assembly, or
 * the plan.  The texts are for people and may change. */
typedef enum NstDumpStage {
    NST_DUMP_GRAPH,
    NST_DUMP_NEST,
    NST_DUMP_SCHED,
    NST_DUMP_LLVM,
    NST_DUMP_ASM,
    NST_DUMP_PLAN
} NstDumpStage;

struct NstSessionOptions;

/* A stage of compiling the model as text.  kernel: only the kernel of that name or number, NULL = all; options: as of a
 * session, may be NULL.  Owns: *text is ended with nst_text_free.  Errors: what compiling gives; NST_E_NOT_FOUND for an
 * unknown kernel. */
NST_API NstStatus nst_model_dump(NstModel *model, const struct NstSessionOptions *options, NstDumpStage stage,
                                 const char *kernel, char **text) NST_MUST_CHECK;

/* Runs named passes, separated by commas, over a graph (.nsg) or kernels (.nsl) in text form and gives the result as
 * text.  name tells the form by its ending and is used in messages.  Owns: *text is ended with nst_text_free.
 * Errors: NST_E_PARSE, NST_E_NOT_FOUND for an unknown pass, what the passes give. */
NST_API NstStatus nst_text_optimise(NstEngine *engine, const char *name, const char *source, const char *passes,
                                    char **text) NST_MUST_CHECK;
NST_API void nst_text_free(char *text);

/* A tensor as ONNX stores it beside a model (a TensorProto, usually a file .pb).  Owns: *tensor has memory of the engine, to
 * be ended with nst_tensor_release.  Errors: NST_E_PARSE, NST_E_MODEL for the bytes; NST_E_COMPILER. */
NST_API NstStatus nst_tensor_read_onnx(NstEngine *engine, const char *name, const void *bytes, size_t size,
                                       NstTensor *tensor) NST_MUST_CHECK;

/* The tensors of a value that ONNX stores beside a model (files .pb of test data).  type: as nst_model_info gives it: of
 * "seq(f32)" the elements, of "optional(f32)" none or one, of "optional(seq(f32))" the elements of what is there, else the
 * tensor.  At most room are written, *n says how many; each is ended with nst_tensor_release.
 * Errors: as nst_tensor_read_onnx; NST_E_LIMIT if there are more. */
NST_API NstStatus nst_values_read_onnx(NstEngine *engine, const char *name, const char *type, const void *bytes,
                                       size_t size, NstTensor *tensors, uint32_t room, uint32_t *n) NST_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
