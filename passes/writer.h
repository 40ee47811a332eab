/* writer.h: writes nests into a kernel under construction: maps module buffers, common axes and states to the kernel's.
 * Shared by the plain form (nest_kernel.c) and every scheduler; a writer lives as long as its kernel is being built. */
#ifndef NST_PASSES_WRITER_H
#define NST_PASSES_WRITER_H

#include "passes/nest.h"

/* What a module buffer is in the kernel. */
typedef struct NstWriterBuffer {
    NstBuf to;        /* none = it is not part of this kernel */
    uint32_t dropped; /* leading indices that a group's local leaves out */
    bool flattened;   /* one row of elements in the kernel (flat.h) */
} NstWriterBuffer;

/* What is by buffer and by symbol of the whole module.  The module lends it from one kernel to the next, all none in between:
 * a new one for each kernel, of which there are many, would take time by the size of the model. */
typedef struct NstWriterTables {
    NST_VEC(NstWriterBuffer) buffer; /* by module buffer */
    NST_VEC(NstBuf) touched;         /* those that are not none */
    NST_VEC(NstDim) sym_value;       /* by symbol: what stands for an axis now; none = itself */
    NST_VEC(NstSym) bound;           /* those that are not none */
} NstWriterTables;

typedef struct NstWriter {
    NstModule *module;
    NstKernel *kernel;
    NstWriterTables *tables;
    bool alone;           /* a sequence: one thread does all, loops are not dealt out */
    bool flat;            /* nests are in flat form (flat.h): one index, nothing to leave out */
    NST_VEC(NstBuf) args; /* module buffers in ABI order */
    NstExpr *state;       /* what stands for ARG k: loads of the current nest's states */
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
/* What a module buffer is in the kernel; made with the first use. */
NstWriterBuffer *nst_writer_entry(NstWriter *w, NstBuf buffer);
/* The kernel's buffer for a module buffer, and how many leading indices it leaves out. */
NstBuf nst_writer_buffer(NstWriter *w, NstBuf buffer);
uint32_t nst_writer_dropped(NstWriter *w, NstBuf buffer);
/* From now on `to` is the kernel's buffer for a module buffer. */
void nst_writer_set_buffer(NstWriter *w, NstBuf buffer, NstBuf to, uint32_t dropped);

/* Appends a loop var = begin .. end - 1 with a fresh variable named `name`; gives its body and *var. */
NstBlock *nst_writer_loop(NstWriter *w, NstBlock *block, const char *name, NstDim begin, NstDim end, int64_t step,
                          NstForKind kind, int64_t width, NstDim *var);
/* Appends a loop over a whole axis, whose variable then stands for it. */
NstBlock *nst_writer_axis_loop(NstWriter *w, NstBlock *block, NstAxis axis, NstForKind kind);
/* Appends the loop over the blocks of a nest's sum over the elements *begin .. *end - 1, which become those of one block; *later says
 * that it is not the first. */
NstBlock *nst_writer_sum_blocks(NstWriter *w, NstBlock *block, const NstNest *nest, NstDim *begin, NstDim *end,
                                NstExpr *later);
/* Allocates the locals of a sequence that member `member` is the first to touch. */
void nst_writer_open_locals(NstWriter *w, NstBlock *block, const NstGroup *sequence, uint32_t member);
/* Appends the nest's index-lets. */
void nst_writer_lets(NstWriter *w, NstBlock *block, const NstNest *nest);
/* Appends an if for a guard that is not provably true; gives the block to go on in.  none guard: block itself. */
NstBlock *nst_writer_guard(NstWriter *w, NstBlock *block, NstExpr guard);
/* Appends the stores of the nest's outputs, states standing as w->state says. */
void nst_writer_stores(NstWriter *w, NstBlock *block, const NstNest *nest);
/* Appends a group as the loops that it means. */
void nst_writer_plain_group(NstWriter *w, NstBlock *block, const NstGroup *group);
/* Appends a nest plainly: serial loops over its axes past the first n_common (bound by the caller). */
void nst_writer_plain(NstWriter *w, NstBlock *block, const NstNest *nest, uint32_t n_common);

#endif
