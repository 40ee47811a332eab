/* str.c: text builder and numbers.
 *
 * Locale: strtod and printf are never shown a decimal point.  Printing takes the digits of "%.*e" and places
 * the point itself; reading turns "12.5e3" into "125e2" before strtod sees it. */
#include "ir/base/str.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/status.h"

#define FIRST_CAP    128    /* bytes */
#define MAX_DIGITS   17     /* decimal digits that tell any two doubles apart */
#define KEPT         800    /* digits read exactly: no halfway point between doubles has more than 767 */
#define EXPONENT_CAP 100000 /* beyond it every number is zero or infinite */

void nst_text_init(NstText *text, NstArena *arena)
{
    *text = (NstText){.arena = arena};
}

/* Room for n more bytes and the NUL. */
static void reserve(NstText *text, size_t n)
{
    if (text->cap - text->n > n) return;
    size_t cap = text->cap ? text->cap * 2 : FIRST_CAP;
    while (cap - text->n <= n) cap *= 2;
    char *grown = nst_alloc(text->arena, cap);
    if (text->n != 0) memcpy(grown, text->at, text->n);
    text->at = grown;
    text->cap = cap;
}

void nst_text_add_n(NstText *text, const char *bytes, size_t n)
{
    reserve(text, n);
    if (n != 0) memcpy(text->at + text->n, bytes, n);
    text->n += n;
    text->at[text->n] = '\0';
}

void nst_text_add(NstText *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->cap ? text->at + text->n : NULL, text->cap - text->n, format, args);
    va_end(args);
    NST_ASSERT(n >= 0);
    if ((size_t)n >= text->cap - text->n) {
        reserve(text, (size_t)n);
        va_start(args, format);
        vsnprintf(text->at + text->n, text->cap - text->n, format, args);
        va_end(args);
    }
    text->n += (size_t)n;
}

const char *nst_text_get(const NstText *text)
{
    return text->at ? text->at : "";
}

/* The fewest digits whose nearest double is value (finite, > 0): value = 0.digits * 10^(*point). */
static int shortest_digits(double value, char digits[MAX_DIGITS + 1], int *point)
{
    for (int n = 1;; n++) {
        char text[64], tried[64];
        snprintf(text, sizeof text, "%.*e", n - 1, value);
        int count = 0;
        const char *p = text;
        for (; *p != 'e'; p++)
            if (isdigit((unsigned char)*p)) digits[count++] = *p;
        digits[count] = '\0';
        int exponent = atoi(p + 1);
        snprintf(tried, sizeof tried, "%se%d", digits, exponent - (n - 1));
        if (n == MAX_DIGITS || strtod(tried, NULL) == value) {
            *point = exponent + 1;
            return count;
        }
    }
}

void nst_text_add_double(NstText *text, double value)
{
    if (isnan(value)) {
        nst_text_add_n(text, "nan", 3);
        return;
    }
    if (signbit(value)) nst_text_add_n(text, "-", 1);
    value = fabs(value);
    if (isinf(value) || value == 0) {
        nst_text_add(text, "%s", value == 0 ? "0" : "inf");
        return;
    }
    char digits[MAX_DIGITS + 1];
    int point, n = shortest_digits(value, digits, &point);
    if (point < -3 || point > 16) { /* 1e-07, 1.5e+20 */
        nst_text_add(text, n > 1 ? "%c.%se%+03d" : "%c%se%+03d", digits[0], digits + 1, point - 1);
    } else if (point <= 0) { /* 0.00012 */
        nst_text_add(text, "0.%.*s%s", -point, "000", digits);
    } else if (n > point) { /* 12.5 */
        nst_text_add(text, "%.*s.%s", point, digits, digits + point);
    } else { /* 1200 */
        nst_text_add(text, "%s%.*s", digits, point - n, "0000000000000000");
    }
}

void nst_text_add_quoted(NstText *text, const char *bytes, size_t n)
{
    nst_text_add_n(text, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\')
            nst_text_add(text, "\\%c", c);
        else if (c == '\n')
            nst_text_add_n(text, "\\n", 2);
        else if (c == '\t')
            nst_text_add_n(text, "\\t", 2);
        else if (c < 0x20 || c >= 0x7f)
            nst_text_add(text, "\\x%02X", c);
        else
            nst_text_add_n(text, bytes + i, 1);
    }
    nst_text_add_n(text, "\"", 1);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Digits of a number as read: significant ones kept, the value is digits * 10^scale. */
typedef struct Digits {
    char at[KEPT + 2];
    int n;
    long scale;
    bool any;
} Digits;

static const char *read_digits(const char *p, Digits *d, bool fraction)
{
    for (; isdigit((unsigned char)*p); p++) {
        d->any = true;
        if (d->n < KEPT) {
            if (d->n > 0 || *p != '0') d->at[d->n++] = *p;
            if (fraction && d->scale > -EXPONENT_CAP) d->scale--;
        } else {
            if (*p != '0') d->at[KEPT - 1] = *p; /* sticky: any non-zero digit beyond decides like any other */
            if (!fraction && d->scale < EXPONENT_CAP) d->scale++;
        }
    }
    return p;
}

/* Reads e[+-]digits if they are there. */
static const char *read_exponent(const char *p, long *scale)
{
    if (*p != 'e' && *p != 'E') return p;
    const char *q = p + 1;
    bool minus = *q == '-';
    if (*q == '-' || *q == '+') q++;
    if (!isdigit((unsigned char)*q)) return p;
    long exponent = 0;
    for (; isdigit((unsigned char)*q); q++)
        if (exponent < 4L * EXPONENT_CAP) exponent = exponent * 10 + (*q - '0');
    *scale += minus ? -exponent : exponent;
    return q;
}

const char *nst_parse_double(const char *p, double *value)
{
    bool minus = *p == '-';
    if (*p == '-' || *p == '+') p++;
    bool is_inf = strncmp(p, "inf", 3) == 0, is_nan = strncmp(p, "nan", 3) == 0;
    if (is_inf || is_nan) {
        if (is_word(p[3])) return NULL;
        double special = is_inf ? (double)INFINITY : (double)NAN;
        *value = minus ? -special : special;
        return p + 3;
    }
    Digits d = {.n = 0};
    p = read_digits(p, &d, false);
    if (*p == '.') p = read_digits(p + 1, &d, true);
    if (!d.any) return NULL;
    p = read_exponent(p, &d.scale);
    char text[KEPT + 32];
    snprintf(text, sizeof text, "%.*se%ld", d.n ? d.n : 1, d.n ? d.at : "0", d.scale);
    double magnitude = strtod(text, NULL);
    *value = minus ? -magnitude : magnitude;
    return p;
}

const char *nst_parse_int(const char *p, int64_t *value)
{
    bool minus = *p == '-';
    if (*p == '-' || *p == '+') p++;
    unsigned base = 10;
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X') && isxdigit((unsigned char)p[2])) {
        base = 16;
        p += 2;
    }
    if (!isxdigit((unsigned char)*p) || (base == 10 && !isdigit((unsigned char)*p))) return NULL;
    uint64_t limit = minus ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX, n = 0;
    for (; base == 16 ? isxdigit((unsigned char)*p) : isdigit((unsigned char)*p); p++) {
        unsigned digit = isdigit((unsigned char)*p) ? (unsigned)(*p - '0') : (unsigned)(tolower(*p) - 'a' + 10);
        if (n > (limit - digit) / base) return NULL;
        n = n * base + digit;
    }
    *value = minus ? (int64_t)(0 - n) : (int64_t)n;
    return p;
}
