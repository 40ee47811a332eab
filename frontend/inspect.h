/* inspect.h: what a model declares, read without lowering anything. */
#ifndef NST_FRONTEND_INSPECT_H
#define NST_FRONTEND_INSPECT_H

#include "ir/base/str.h"
#include "ir/custom.h"
#include "nestor/inspect.h"

/* Fills info from ONNX bytes; operators: registered ones.  Owns: arena; bytes may end.  Errors: as nst_onnx_read. */
NstStatus nst_onnx_inspect(NstCtx *ctx, NstArena *arena, const void *bytes, size_t n, const NstCustom *operators,
                           NstModelInfo *info) NST_MUST_CHECK;

/* The operator table as nst_operator_table gives it. */
void nst_op_table_text(NstText *text);

#endif
