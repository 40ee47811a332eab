/* host_text.c: functions over strings.  Elements are handles of step->strings; what is new is put there.  Text is UTF-8; bytes
 * that are none are kept as they are. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ir/base/os.h"
#include "ir/base/str.h"
#include "runtime/host.h"

NstStatus nst_host_string_concat(NstHostStep *step);
NstStatus nst_host_string_split(NstHostStep *step);
NstStatus nst_host_string_normalize(NstHostStep *step);
NstStatus nst_host_string_rank(NstHostStep *step);
NstStatus nst_host_string_to_float(NstHostStep *step);
NstStatus nst_host_string_to_integer(NstHostStep *step);
NstStatus nst_host_number_to_string(NstHostStep *step);

static size_t count_of(const NstTensor *t)
{
    size_t n = 1;
    for (int k = 0; k < t->rank; k++) n *= (size_t)t->shape[k];
    return n;
}

/* A form has a letter for each input, a blank, one for each output. */
static bool is_letter(char letter, NstDtype dtype)
{
    switch (letter) {
    case 's': return dtype == NST_STR;
    case 'i': return dtype == NST_I64;
    case 'd': return dtype == NST_F64;
    default: return letter == 'n' && (dtype == NST_F32 || dtype == NST_F64 || dtype == NST_I64);
    }
}

/* Types as the form says; outputs of the rank of input 0, the first one of `more` axes more. */
static NstStatus check_form(NstHostStep *step, const char *form, int more)
{
    NST_CHECK(step->ctx, step->strings, NST_E_UNSUPPORTED, "%s: strings are not supported here", step->name);
    uint32_t n_in = (uint32_t)strcspn(form, " "), n_out = (uint32_t)strlen(form) - n_in - 1;
    bool fits = step->n_in == n_in && step->n_out == n_out && step->config;
    for (uint32_t k = 0; k < n_in && fits; k++) fits = is_letter(form[k], step->in[k].dtype);
    for (uint32_t k = 0; k < n_out && fits; k++)
        fits = is_letter(form[n_in + 1 + k], step->out[k].dtype) &&
               step->out[k].rank == step->in[0].rank + (k == 0 ? more : 0);
    NST_CHECK(step->ctx, fits, NST_E_INVALID, "%s: a step of another form", step->name);
    return NST_OK;
}

/* String k of a tensor.  Its bytes stay; the entry may move when a string is put. */
static NstString string_at(const NstHostStep *step, const NstTensor *t, size_t k)
{
    uint64_t handle;
    memcpy(&handle, (const char *)t->data + k * sizeof handle, sizeof handle);
    const NstString *s = nst_strings_get(step->strings, handle);
    return s ? *s : (NstString){"", 0};
}

static void put_string(NstHostStep *step, NstTensor *t, size_t k, const char *at, size_t n)
{
    uint64_t handle = nst_strings_put(step->strings, at, n);
    memcpy((char *)t->data + k * sizeof handle, &handle, sizeof handle);
}

/* Output k takes input j's shape and gets its memory. */
static NstStatus give_like(NstHostStep *step, uint32_t k, uint32_t j)
{
    memcpy(step->out[k].shape, step->in[j].shape, sizeof step->out[k].shape);
    return step->give(step, k);
}

NstStatus nst_host_string_concat(NstHostStep *step)
{
    NstText text;
    NST_TRY(check_form(step, "ss s", 0));
    NST_CHECK(step->ctx, count_of(&step->in[0]) == count_of(&step->in[1]), NST_E_SHAPE, "string_concat: two shapes");
    NST_TRY(give_like(step, 0, 0));
    for (size_t k = 0; k < count_of(&step->in[0]); k++) {
        NstString a = string_at(step, &step->in[0], k), b = string_at(step, &step->in[1], k);
        NST_CHECK(step->ctx, a.n + b.n <= NST_MAX_STRING_BYTES, NST_E_LIMIT,
                  "string_concat: %zu and %zu bytes, allowed: at most %zu together", a.n, b.n, NST_MAX_STRING_BYTES);
        nst_text_init(&text, step->arena);
        nst_text_add_n(&text, a.at, a.n);
        nst_text_add_n(&text, b.at, b.n);
        put_string(step, &step->out[0], k, nst_text_get(&text), text.n);
    }
    return NST_OK;
}

/* --- split ----------------------------------------------------------------------------------------------------- */

typedef struct Cutter {
    const char *delimiter; /* "" = runs of white space */
    size_t n;
    int64_t limit; /* of cuts; below 0: none */
} Cutter;

static bool is_space(char c)
{
    return isspace((unsigned char)c) != 0;
}

/* The next piece of at..end; moves *at behind it and its delimiter.  done: cuts so far. */
static bool next_piece(const Cutter *c, const char **at, const char *end, int64_t done, NstString *piece)
{
    const char *p = *at;
    if (!p) return false;
    while (c->n == 0 && p < end && is_space(*p)) p++;
    if (c->n == 0 && p == end) return false;
    const char *stop = p;
    bool cuts = c->limit < 0 || done < c->limit;
    while (cuts && stop < end) {
        if (c->n == 0 ? is_space(*stop) : (size_t)(end - stop) >= c->n && memcmp(stop, c->delimiter, c->n) == 0) break;
        stop++;
    }
    if (!cuts) stop = end;
    *at = stop == end ? NULL : stop + (c->n ? c->n : 1);
    if (!cuts && c->n == 0) /* what is left, without the white space behind it */
        while (stop > p && is_space(stop[-1])) stop--;
    *piece = (NstString){p, (size_t)(stop - p)};
    return true;
}

/* config: "LIMIT DELIMITER".  An empty string has one piece where there is a delimiter, else none. */
NstStatus nst_host_string_split(NstHostStep *step)
{
    NST_TRY(check_form(step, "s si", 1));
    char *rest;
    Cutter cutter = {.limit = strtoll(step->config, &rest, 10)};
    cutter.delimiter = *rest == ' ' ? rest + 1 : rest;
    cutter.n = strlen(cutter.delimiter);
    const NstTensor *in = &step->in[0];
    size_t n = count_of(in), width = 0;
    NST_TRY(give_like(step, 1, 0));
    int64_t *count = step->out[1].data;
    for (size_t k = 0; k < n; k++) {
        NstString s = string_at(step, in, k), piece;
        const char *at = s.at;
        count[k] = 0;
        while (next_piece(&cutter, &at, s.at + s.n, count[k], &piece)) count[k]++;
        if ((size_t)count[k] > width) width = (size_t)count[k];
    }
    NstTensor *out = &step->out[0];
    memcpy(out->shape, in->shape, sizeof out->shape);
    out->shape[in->rank] = (int64_t)width;
    NST_TRY(step->give(step, 0));
    for (size_t k = 0; k < n; k++) {
        NstString s = string_at(step, in, k), piece;
        const char *at = s.at;
        for (size_t j = 0; j < width; j++) {
            bool more = next_piece(&cutter, &at, s.at + s.n, (int64_t)j, &piece);
            put_string(step, out, k * width + j, more ? piece.at : "", more ? piece.n : 0);
        }
    }
    return NST_OK;
}

/* --- upper and lower case ---------------------------------------------------------------------------------------- */

/* The character at *p, at most end; moves *p behind it.  A byte that begins no UTF-8 character is itself, negative. */
static int32_t next_character(const char **p, const char *end)
{
    unsigned char first = (unsigned char)*(*p)++;
    int more = first < 0x80 ? 0 : first >= 0xf0 && first < 0xf8 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : -1;
    if (more == 0) return first;
    if (more < 0 || end - *p < more || first >= 0xf8) return -(int32_t)first;
    int32_t value = first & (0x3f >> more);
    for (int k = 0; k < more; k++) {
        unsigned char c = (unsigned char)(*p)[k];
        if ((c & 0xc0) != 0x80) return -(int32_t)first;
        value = value << 6 | (c & 0x3f);
    }
    *p += more;
    return value;
}

static void add_character(NstText *text, int32_t c)
{
    char b[4];
    int n = 0;
    if (c < 0x80) {
        b[n++] = (char)(c < 0 ? -c : c);
    } else if (c < 0x800) {
        b[n++] = (char)(0xc0 | c >> 6);
        b[n++] = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        b[n++] = (char)(0xe0 | c >> 12);
        b[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        b[n++] = (char)(0x80 | (c & 0x3f));
    } else {
        b[n++] = (char)(0xf0 | c >> 18);
        b[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        b[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        b[n++] = (char)(0x80 | (c & 0x3f));
    }
    nst_text_add_n(text, b, (size_t)n);
}

static NstString in_case(NstArena *arena, NstString s, bool upper)
{
    NstText text;
    nst_text_init(&text, arena);
    for (const char *p = s.at; p < s.at + s.n;) {
        int32_t c = next_character(&p, s.at + s.n);
        add_character(&text, c < 0 ? c : nst_os_letter_case(c, upper));
    }
    return (NstString){nst_text_get(&text), text.n};
}

static bool is_stopword(const NstHostStep *step, NstString s, bool exact)
{
    size_t n = step->n_in > 1 ? count_of(&step->in[1]) : 0;
    if (!exact) s = in_case(step->arena, s, false);
    for (size_t k = 0; k < n; k++) {
        NstString stop = string_at(step, &step->in[1], k);
        if (!exact) stop = in_case(step->arena, stop, false);
        if (stop.n == s.n && memcmp(stop.at, s.at, s.n) == 0) return true;
    }
    return false;
}

/* config: "NONE|LOWER|UPPER exact|any".  Input 1: words that are left out.  One empty string where none is left. */
NstStatus nst_host_string_normalize(NstHostStep *step)
{
    NST_TRY(check_form(step, step->n_in == 2 ? "ss s" : "s s", 0));
    NST_CHECK(step->ctx, step->in[0].rank >= 1, NST_E_INVALID, "string_normalize: a step of another form");
    const NstTensor *in = &step->in[0];
    size_t n = count_of(in), kept = 0;
    bool exact = strstr(step->config, "exact") != NULL, *keep = NST_NEW_ARRAY(step->arena, bool, n);
    for (size_t k = 0; k < n; k++) kept += keep[k] = !is_stopword(step, string_at(step, in, k), exact);
    NstTensor *out = &step->out[0];
    memcpy(out->shape, in->shape, sizeof out->shape);
    out->shape[in->rank - 1] = (int64_t)(kept ? kept : 1);
    NST_TRY(step->give(step, 0));
    if (kept == 0) put_string(step, out, 0, "", 0);
    for (size_t k = 0, at = 0; k < n; k++) {
        if (!keep[k]) continue;
        NstString s = string_at(step, in, k);
        if (strncmp(step->config, "NONE", 4) != 0) s = in_case(step->arena, s, step->config[0] == 'U');
        put_string(step, out, at++, s.at, s.n);
    }
    return NST_OK;
}

/* --- order ------------------------------------------------------------------------------------------------------ */

typedef struct Ranked {
    NstString s;
    size_t at; /* element */
} Ranked;

/* By bytes, which for UTF-8 is by characters; the shorter first where one begins the other. */
static int compare_strings(const void *a, const void *b)
{
    const NstString *x = &((const Ranked *)a)->s, *y = &((const Ranked *)b)->s;
    int order = memcmp(x->at, y->at, x->n < y->n ? x->n : y->n);
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

NstStatus nst_host_string_rank(NstHostStep *step)
{
    NST_TRY(check_form(step, "s i", 0));
    NST_TRY(give_like(step, 0, 0));
    size_t n = count_of(&step->in[0]);
    Ranked *all = NST_NEW_ARRAY(step->arena, Ranked, n);
    for (size_t k = 0; k < n; k++) all[k] = (Ranked){string_at(step, &step->in[0], k), k};
    if (n != 0) qsort(all, n, sizeof *all, compare_strings);
    int64_t rank = 0, *out = step->out[0].data;
    for (size_t k = 0; k < n; k++) {
        if (k > 0 && compare_strings(&all[k - 1], &all[k]) != 0) rank++;
        out[all[k].at] = rank;
    }
    return NST_OK;
}

/* --- numbers --------------------------------------------------------------------------------------------------- */

/* White space around a number is allowed, nothing else. */
static NstStatus check_end(NstHostStep *step, NstString s, const char *stop, const char *what)
{
    while (stop != s.at && is_space(*stop)) stop++;
    NST_CHECK(step->ctx, stop != s.at && stop == s.at + s.n, NST_E_INVALID, "string '%.60s' is no %s", s.at, what);
    return NST_OK;
}

NstStatus nst_host_string_to_float(NstHostStep *step)
{
    NST_TRY(check_form(step, "s d", 0));
    NST_TRY(give_like(step, 0, 0));
    for (size_t k = 0; k < count_of(&step->in[0]); k++) {
        NstString s = string_at(step, &step->in[0], k);
        char *stop;
        ((double *)step->out[0].data)[k] = strtod(s.at, &stop);
        NST_TRY(check_end(step, s, stop, "number"));
    }
    return NST_OK;
}

NstStatus nst_host_string_to_integer(NstHostStep *step)
{
    NST_TRY(check_form(step, "s i", 0));
    NST_TRY(give_like(step, 0, 0));
    for (size_t k = 0; k < count_of(&step->in[0]); k++) {
        NstString s = string_at(step, &step->in[0], k);
        char *stop;
        errno = 0;
        ((int64_t *)step->out[0].data)[k] = strtoll(s.at, &stop, 10);
        NST_TRY(check_end(step, s, errno ? s.at : stop, "whole number"));
    }
    return NST_OK;
}

/* The shortest decimals that read back; as the standard has them: NaN, INF, -INF. */
static void print_number(char text[64], const NstTensor *t, size_t k)
{
    if (t->dtype == NST_I64) {
        snprintf(text, 64, "%lld", (long long)((const int64_t *)t->data)[k]);
        return;
    }
    bool single = t->dtype == NST_F32;
    double value = single ? (double)((const float *)t->data)[k] : ((const double *)t->data)[k];
    if (isnan(value) || isinf(value)) {
        strcpy(text, isnan(value) ? "NaN" : value > 0 ? "INF" : "-INF");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, 64, "%.*g", digits, value);
        if (single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value) return;
    }
}

NstStatus nst_host_number_to_string(NstHostStep *step)
{
    char text[64];
    NST_TRY(check_form(step, "n s", 0));
    NST_TRY(give_like(step, 0, 0));
    for (size_t k = 0; k < count_of(&step->in[0]); k++) {
        print_number(text, &step->in[0], k);
        put_string(step, &step->out[0], k, text, strlen(text));
    }
    return NST_OK;
}
