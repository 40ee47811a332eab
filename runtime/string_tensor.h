/* string_tensor.h: tensors of strings on their way between the interface (NstString) and a run (handles of its table). */
#ifndef NST_RUNTIME_STRING_TENSOR_H
#define NST_RUNTIME_STRING_TENSOR_H

#include "ir/base/status.h"
#include "ir/strings.h"

/* Puts the elements of a caller's tensor, whose extent was checked, into the table: handle[] is row-major and dense.
 * Arena exhaustion unwinds.  Errors: NST_E_INVALID for a string without bytes, NST_E_LIMIT for one that is too long. */
NstStatus nst_strings_take(NstCtx *ctx, NstStrings *strings, const NstTensor *tensor, const char *name,
                           uint64_t *handle) NST_MUST_CHECK;

/* Gives the strings of n handles to out: elements in the caller's memory if it has any, else with the texts in one block
 * of memory, which `owned` marks.  Errors: NST_E_INVALID where the caller's memory is too small; NST_E_NOMEM. */
NstStatus nst_strings_give(NstCtx *ctx, const NstStrings *strings, const uint64_t *handle, size_t n, const char *name,
                           NstTensor *out) NST_MUST_CHECK;

/* Makes n handles of a table into handles of the one below it, which gets what it lacks.  Exhaustion of that one's arena
 * unwinds. */
void nst_strings_hand_down(const NstStrings *strings, NstStrings *below, uint64_t *handle, size_t n);

#endif
