/* compile.h: the driver's parts: the one place where frontend, passes and codegen meet. */
#ifndef NST_RUNTIME_COMPILE_H
#define NST_RUNTIME_COMPILE_H

#include "frontend/import.h"
#include "nestor/inspect.h"
#include "passes/pass.h"
#include "runtime/compiler.h"
#include "runtime/plan_io.h"
#include "runtime/threads.h"

/* Kernels that have code, of those known so far. */
typedef struct NstCompileCount {
    NstLock *lock;
    uint32_t done, total;
} NstCompileCount;

/* What one call of the compiler works on; all of it lives in ctx's arena. */
typedef struct NstCompile {
    NstCtx *ctx;
    NstArena *arena;
    const NstCompileRequest *request;
    NstPassOptions passes;
    NstGraph *graph;
    const char *const *external; /* paths of the files of external data that were read */
    uint32_t n_external;
    const NstFixedInput *fixed; /* inputs whose value decided about the graph's structure */
    uint32_t n_fixed;
    const char *by_shape; /* after a failure: why there is a plan for given shapes only; NULL = there is none at all */
    const NstDeclaredOutput *declared; /* then: the outputs, and graph has the inputs */
    uint32_t n_declared;
    NstModule *module;
    NstScheduledList run, prepack;
    NstCompileCount *count; /* of the whole call, shared with bodies; NULL = nobody hears of it */
} NstCompile;

/* Counts `done` kernels more that have code and `total` more that are known, and tells request->progress.
 * Threads: any that compile. */
void nst_compile_count(const NstCompile *c, uint32_t done, uint32_t total);

/* Reads the model (ONNX or .nsg text) into a verified graph and ties the symbols of declared shapes.
 * Errors: NST_E_PARSE, NST_E_MODEL, ... of the reader; NST_E_NOT_FOUND, NST_E_SHAPE for declared shapes that do not fit. */
NstStatus nst_compile_read(NstCompile *c) NST_MUST_CHECK;

/* After an import with `options` that failed with NST_E_UNSUPPORTED: whether sizes that are open made it fail.  Then c->by_shape,
 * the declared ports and a note to the error are set.  The error stays. */
void nst_compile_try_sizes(NstCompile *c, const NstImportOptions *options);

/* Then: the plan that has ports alone (NstPlan.by_shape). */
NstStatus nst_compile_outline(NstCompile *c, NstPlan **plan) NST_MUST_CHECK;

/* Imports the model; the fixed inputs of `options` grow by those of the request that are asked for. */
NstStatus nst_compile_import(NstCompile *c, NstImportOptions *options, NstFixedInput *fixed,
                             NstGraph **graph) NST_MUST_CHECK;

/* Gives the sums of c->graph, whose sizes are declared, the orders of the same model's graph with open ones. */
void nst_compile_take_orders(NstCompile *c, const NstGraph *open);

/* True if a model is a graph in text form. */
bool nst_compile_is_graph_text(const void *bytes, size_t n);

/* Bodies of the table's inspect and inspect_free. */
NstStatus nst_compile_inspect(const NstCompileRequest *request, const NstModelInfo **info) NST_MUST_CHECK;
void nst_compile_inspect_free(const NstModelInfo *info);

/* The passes named in a list with commas between, as bits.  Errors: NST_E_NOT_FOUND naming the pass and the passes there are. */
NstStatus nst_compile_pass_names(NstCtx *ctx, const char *names, uint64_t *bits) NST_MUST_CHECK;

/* From graph to fused nests, and on to kernels. */
NstStatus nst_compile_lower(NstCompile *c) NST_MUST_CHECK;
NstStatus nst_compile_schedule(NstCompile *c) NST_MUST_CHECK;

/* A compiled kernel in a plan of its own: one kernel, its code, sizes over symbols "p0", "p1", ... for its params. */
typedef struct NstCompiledKernel {
    NstPlan *plan;
    NstHash hash;
} NstCompiledKernel;

/* Code of n kernels, each found in the kernel cache or compiled; equal kernels share an entry: kernel k has
 * compiled[index[k]].  Owns: c->arena.  Errors: as nst_codegen_compile. */
NstStatus nst_compile_kernels(NstCompile *c, const NstScheduled *const *kernels, uint32_t n,
                              NstCompiledKernel **compiled, uint32_t *n_compiled, uint32_t **index) NST_MUST_CHECK;

/* The inputs, outputs and their buffers of a plan without steps. */
NstStatus nst_compile_ports(NstCompile *c, NstPlan **plan) NST_MUST_CHECK;

/* The plan of a lowered module, with those of its bodies. */
NstStatus nst_compile_module_plan(NstCompile *c, NstPlan **plan) NST_MUST_CHECK;

/* The whole plan. */
NstStatus nst_compile_plan(NstCompile *c, NstPlan **plan) NST_MUST_CHECK;

/* Bodies of the table's dump and optimise. */
NstStatus nst_compile_dump(NstCompile *c, NstDumpStage stage, const char *kernel, NstText *text) NST_MUST_CHECK;
NstStatus nst_compile_optimise(NstCompile *c, const char *passes, NstText *text) NST_MUST_CHECK;

/* A dim of another table in `to`; symbol s of the other one becomes value_of[s] (by NstSym.i). */
NstDim nst_compile_copy_dim(NstDims *to, const NstDims *from, NstDim dim, const NstDim *value_of);

#endif
