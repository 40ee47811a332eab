/* build_impl.h: what the files of the builder share; private to ir/build*.c. */
#ifndef NST_IR_BUILD_IMPL_H
#define NST_IR_BUILD_IMPL_H

#include "ir/build.h"
#include "ir/infer.h"

/* Keeps a failure already recorded in the context, and adds where it happened. */
void nst_build_keep(NstBuild *build, NstStatus status);
/* Type of a value; NULL when the builder is or becomes poisoned (value absent). */
const NstType *nst_build_type(NstBuild *build, NstVal value);
/* Infers, asserts what is unproven, adds the node; out[] are none on failure.  type: wanted types in, as in nst_infer. */
NstStatus nst_build_add(NstBuild *build, NstPrim prim, const NstAttrs *attr, const NstVal *in, uint32_t n_in,
                        NstType *type, uint32_t n_out, NstVal *out);
NstVal nst_build_add1(NstBuild *build, NstPrim prim, const NstAttrs *attr, const NstVal *in, uint32_t n_in,
                      NstType type);
NstVal nst_build_raise(NstBuild *build, NstVal x, int rank);
NstSym nst_build_fresh_sym(NstBuild *build, NstSymKind kind, const char *base, int64_t lo, int64_t hi);
void nst_build_choose_order(const NstGraph *graph, NstAttrs *attr, const NstVal *in, uint8_t *sum);

#endif
