/* str.h: text builder, interned names, number parsing that does not depend on the locale. */
#ifndef NST_IR_BASE_STR_H
#define NST_IR_BASE_STR_H

#include "ir/base/arena.h"
#include "nestor/base.h"

/* Growable text.  `at` is always NUL-terminated once anything was added; empty text reads as "". */
typedef struct NstText {
    NstArena *arena;
    char *at;
    size_t n, cap;
} NstText;

void nst_text_init(NstText *text, NstArena *arena);
void nst_text_add(NstText *text, const char *format, ...) NST_PRINTF(2, 3);
void nst_text_add_n(NstText *text, const char *bytes, size_t n);
/* The text so far; valid until the next add. */
const char *nst_text_get(const NstText *text);

/* The shortest decimal that reads back to exactly this value: "0.5", "1e-07", "inf", "-inf", "nan". */
void nst_text_add_double(NstText *text, double value);

/* A quoted string with \" \\ \n \t and \xHH escapes. */
void nst_text_add_quoted(NstText *text, const char *bytes, size_t n);

/* Reads a decimal number at p (C locale, also "inf", "nan"); returns the end, or NULL if there is none. */
const char *nst_parse_double(const char *p, double *value);
/* Reads a decimal or 0x integer with sign; NULL if there is none or it does not fit. */
const char *nst_parse_int(const char *p, int64_t *value);

#endif
