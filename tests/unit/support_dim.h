/* support_dim.h: dims from text and as text. */
#ifndef NST_TESTS_UNIT_SUPPORT_DIM_H
#define NST_TESTS_UNIT_SUPPORT_DIM_H

#include "ir/dim.h"

/* The dim of a whole text; asserts that it parses.  find: as nst_dim_parse; NULL: by name. */
NstDim support_dim_read(NstCtx *ctx, NstDims *dims, const char *text, NstSym (*find)(void *, const char *, size_t));
/* [ctx's arena]  name_of: as nst_dim_print; NULL: names, index variables numbered. */
const char *support_dim_text(NstCtx *ctx, const NstDims *dims, NstDim dim, const char *(*name_of)(void *, NstSym));

#endif
