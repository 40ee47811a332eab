/* canon.h: the canonical form of a kernel before it is hashed: sizes and strides as arguments, so that kernels that differ in
 * them alone are one. */
#ifndef NST_PASSES_CANON_H
#define NST_PASSES_CANON_H

#include "passes/pass.h"

/* Symbols that stand for arguments, shared by the kernels of one table of dims: made after all loop variables, so that equal
 * kernels write their sums in one order. */
typedef NST_VEC(NstSym) NstCanonSyms;

/* Turns into arguments what costs little there: trip counts of loops, the storage of buffers, and the strides at which loops
 * walk memory; `once`: the kernel runs once a plan, then the strides of unrolled rows and of lanes and constant offsets too.
 * (*value)[k] is what kernel->params.at[k] has to be given [kernel's arena].  The same bits, the same accesses. */
void nst_kernel_to_canon(NstKernel *kernel, NstCanonSyms *syms, bool once, NstDim **value);

/* The pass "canon": gives that form to the kernels of which several different ones become one by it, and every kernel of
 * the list its sizes.  A kernel that shares with none keeps its constants: it compiles faster. */
void nst_pass_canon(NstModule *module, NstCanonSyms *syms, bool once, NstScheduledList *list);

#endif
