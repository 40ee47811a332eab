/* strings.h: the strings that elements of string tensors stand for: 8-byte handles into a table.
 *
 * A table holds each string once, so that handles are equal where strings are, and movement treats them as data.  Handle 0
 * is the empty string.  A graph has a table for its constants; a run has one over that of its plan, a body one over that of
 * the run around it: a table has the strings of the one below it under the same handles.  Handles of other tables mean
 * nothing in it. */
#ifndef NST_IR_STRINGS_H
#define NST_IR_STRINGS_H

#include "ir/base/map.h"
#include "ir/base/vec.h"
#include "nestor/tensor.h"

#define NST_MAX_STRING_BYTES ((size_t)INT32_MAX) /* of one string: what a model can hold, too */

/* Strings have a zero byte behind them. */
typedef struct NstStrings {
    NstArena *arena;
    const struct NstStrings *below; /* NULL = none.  Nothing is put there while this table is used */
    uint64_t first;                 /* handle of list.at[0]: how many the tables below have */
    NstMap map;                     /* of hashes to places in list */
    NST_VEC(NstString) list;
} NstStrings;

NstStrings *nst_strings_new(NstArena *arena);
/* A table over another one, which must live as long.  Threads: any number may stand over one that does not change. */
NstStrings *nst_strings_over(NstArena *arena, const NstStrings *below);
/* The handle of n bytes, which are copied when seen first. */
uint64_t nst_strings_put(NstStrings *strings, const char *at, size_t n);
/* The string of a handle, NULL if there is none.  Valid until the next put; its bytes as long as the table. */
const NstString *nst_strings_get(const NstStrings *strings, uint64_t handle);
/* One more than the highest handle. */
uint64_t nst_strings_count(const NstStrings *strings);

#endif
