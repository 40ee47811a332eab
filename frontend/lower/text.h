/* text.h: what lowerings that meet strings share (text.c). */
#ifndef NST_FRONTEND_LOWER_TEXT_H
#define NST_FRONTEND_LOWER_TEXT_H

#include "frontend/lower.h"

/* Strings as their handles, i64, equal where they are; all else as it is. */
V handles(NstLower *c, V x);
/* A constant vector of strings. */
V strings_const(NstLower *c, size_t n, const char *const *text);
/* The same of a list attribute, or none. */
V strings_attr(NstLower *c, const char *name);
/* Their places in the order of their bytes, i64: equal where they are, smaller where they are. */
V string_ranks(NstLower *c, V x);
/* i64 for integers, else f64; the caller converts further. */
V string_to_number(NstLower *c, V x, NstDtype to);
V number_to_string(NstLower *c, V x);

#endif
