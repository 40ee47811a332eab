/* writer.h: writes nests into a kernel under construction: maps module buffers, common axes and states to the kernel's.
 * Shared by the plain form (nest_kernel.c) and every scheduler; a writer lives as long as its kernel is being built. */
#ifndef NST_PASSES_WRITER_H
#define NST_PASSES_WRITER_H

#include "passes/nest.h"

typedef struct NstWriter {
    NstModule *module;
    NstKernel *kernel;
    NstArena *
        scratch; /* of what is by buffer and by symbol of the whole module: ends with the kernel, of which there are many */
    NST_VEC(NstBuf) kernel_buffer; /* by module buffer; none = not part of this kernel */
    NST_VEC(uint32_t) dropped;     /* by module buffer: leading indices that a group's local leaves out */
    NST_VEC(bool) flattened;       /* by module buffer: one row of elements in the kernel (flat.h) */
    bool flat;                     /* nests are in flat form (flat.h): one index, nothing to leave out */
    NST_VEC(NstBuf) args;          /* module buffers in ABI order */
    NST_VEC(NstDim) sym_value;     /* by symbol: what stands for an axis now; none = itself */
    NstExpr *state;                /* what stands for ARG k: loads of the current nest's states */
    uint32_t n_states;
} NstWriter;

/* Starts the kernel of a group: arguments in order of first use, locals of inner groups as scratch. */
void nst_writer_init(NstWriter *w, NstModule *module, const NstGroup *group);
/* Collects the kernel's parameters; gives the kernel and the module buffer of each argument. */
void nst_writer_finish(NstWriter *w, NstKernel **kernel, NstBuf **arg_buffer);

/* From now on `value` stands for sym. */
void nst_writer_bind(NstWriter *w, NstSym sym, NstDim value);
/* A dim, an expression, an index into a module buffer, as the kernel being built says it. */
NstDim nst_writer_dim(NstWriter *w, NstDim dim);
NstExpr nst_writer_expr(NstWriter *w, NstExpr e);
NstDim *nst_writer_index(NstWriter *w, NstBuf buffer, const NstDim *index, uint32_t n, uint32_t *n_out);
/* The element offset of a logical index into a module buffer; a group's local leaves its leading indices out. */
NstDim nst_writer_offset(NstWriter *w, NstBuf buffer, const NstDim *index);
/* The kernel's buffer for a module buffer. */
NstBuf nst_writer_buffer(NstWriter *w, NstBuf buffer);

/* Appends a loop var = begin .. end - 1 with a fresh variable named `name`; gives its body and *var. */
NstBlock *nst_writer_loop(NstWriter *w, NstBlock *block, const char *name, NstDim begin, NstDim end, int64_t step,
                          NstForKind kind, int64_t width, NstDim *var);
/* Appends a loop over a whole axis, whose variable then stands for it. */
NstBlock *nst_writer_axis_loop(NstWriter *w, NstBlock *block, NstAxis axis, NstForKind kind);
/* Appends the nest's index-lets. */
void nst_writer_lets(NstWriter *w, NstBlock *block, const NstNest *nest);
/* Appends an if for a guard that is not provably true; gives the block to go on in.  none guard: block itself. */
NstBlock *nst_writer_guard(NstWriter *w, NstBlock *block, NstExpr guard);
/* Appends the stores of the nest's outputs, states standing as w->state says. */
void nst_writer_stores(NstWriter *w, NstBlock *block, const NstNest *nest);
/* Appends a nest plainly: serial loops over its axes past the first n_common (bound by the caller). */
void nst_writer_plain(NstWriter *w, NstBlock *block, const NstNest *nest, uint32_t n_common);

#endif
