/* strings.h: the strings that elements of string tensors stand for: 8-byte handles into a table.
 *
 * A table holds each string once, so that handles are equal where strings are, and movement treats them as data.  Handle 0
 * is the empty string.  A graph has a table for its constants; handles of one table mean nothing in another. */
#ifndef NST_IR_STRINGS_H
#define NST_IR_STRINGS_H

#include "ir/base/map.h"
#include "ir/base/vec.h"

typedef struct NstString {
    const char *at; /* zero-terminated, but may hold zeros */
    size_t n;
} NstString;

typedef struct NstStrings {
    NstArena *arena;
    NstMap map;
    NST_VEC(NstString) list;
} NstStrings;

NstStrings *nst_strings_new(NstArena *arena);
/* The handle of n bytes, which are copied when seen first. */
uint64_t nst_strings_put(NstStrings *strings, const char *at, size_t n);
/* The string of a handle, NULL if there is none.  Valid until the next put. */
const NstString *nst_strings_get(const NstStrings *strings, uint64_t handle);

#endif
