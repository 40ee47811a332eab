/* text_loop.h: what the printer and the parser of the loop-nest text share; not for others. */
#ifndef NST_IR_TEXT_LOOP_H
#define NST_IR_TEXT_LOOP_H

#include "ir/loop.h"

#define NST_TEXT_MAX_DEPTH 64 /* nesting of blocks */

/* True for a word that cannot name a variable: keywords, element types, scalar operations, number words. */
bool nst_text_reserved(const char *word, size_t n);
/* True for a letter or '_' followed by letters, digits, '_'. */
bool nst_text_is_name(const char *word, size_t n);

/* Keywords of buffer spaces, loop kinds, accesses and matrix statements, by enum. */
const char *nst_space_text(NstSpace space);
const char *nst_for_text(NstForKind kind); /* "" for SERIAL */
const char *nst_access_text(NstAccess access);
const char *nst_matrix_text(NstMatrixOp op);
const char *nst_helper_text(uint32_t helper); /* NULL if there is none */

/* Halo of an axis, 0 when the layout has none. */
int64_t nst_layout_halo(const NstLayout *layout, int axis);
/* The stride that part k has in the text when none is stated: that of the next part times its extent; 1 innermost. */
NstDim nst_layout_default_stride(NstDims *dims, const NstLayout *layout, const NstDim *shape, uint32_t k);
/* The storage that a layout has in the text when none is stated: offset + outermost stride times extent. */
NstDim nst_layout_default_elements(NstDims *dims, const NstLayout *layout, const NstDim *shape);

#endif
