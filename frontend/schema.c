/* schema.c: reads the small texts of table rows, and checks nodes against them.  Cost: linear in the row's text. */
#include "frontend/schema.h"

#include <ctype.h>
#include <string.h>

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static int name_length(const char *p)
{
    int n = 0;
    while (is_name(p[n])) n++;
    return n;
}

static const char *skip_spaces(const char *p)
{
    while (*p == ' ') p++;
    return p;
}

/* --- signatures ------------------------------------------------------------------------------------------------ */

static const char *parse_formal(const char *p, NstFormal *f)
{
    *f = (NstFormal){.name = p, .name_n = name_length(p)};
    p += f->name_n;
    if (f->name_n == 0 || *p++ != ':') return NULL;
    f->type = p;
    f->type_n = name_length(p);
    p += f->type_n;
    f->optional = *p == '?';
    f->variadic = *p == '*';
    f->mixed = f->variadic && p[1] == '*';
    p += f->optional || f->variadic ? 1 + f->mixed : 0;
    return f->type_n > 0 && (*p == ' ' || *p == '\0') ? p : NULL;
}

bool nst_signature_parse(const char *text, NstSignature *signature)
{
    const char *p = skip_spaces(text);
    signature->n_in = signature->n_out = 0;
    for (bool out = false;; p = skip_spaces(p)) {
        if (*p == '\0') return out;
        if (p[0] == '-' && p[1] == '>' && !out) {
            out = true;
            p += 2;
            continue;
        }
        int *n = out ? &signature->n_out : &signature->n_in;
        if (*n == NST_MAX_FORMALS) return false;
        p = parse_formal(p, out ? &signature->out[*n] : &signature->in[*n]);
        if (!p) return false;
        ++*n;
    }
}

bool nst_attr_formal_next(const char **p, NstAttrFormal *formal, bool *ok)
{
    const char *at = skip_spaces(*p);
    *ok = true;
    if (*at == '\0') return false;
    *formal = (NstAttrFormal){.name = at, .name_n = name_length(at)};
    at += formal->name_n;
    *ok = formal->name_n > 0 && *at == ':';
    if (!*ok) return false;
    formal->kind = ++at;
    formal->kind_n = name_length(at);
    at += formal->kind_n;
    formal->required = *at == ' ' || *at == '\0';
    formal->has_default = *at == '=';
    if (*at == '?' || *at == '=') at++;
    formal->text = at;
    while (*at && *at != ' ') at++;
    formal->text_n = (int)(at - formal->text);
    *p = at;
    *ok = formal->kind_n > 0;
    return *ok;
}

/* --- type sets ------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *set;
} groups[] = {
    {"float", "f32+f64+f16+bf16"},
    {"sint", "i8+i16+i32+i64"},
    {"uint", "u8+u16+u32+u64"},
    {"int", "sint+uint"},
    {"num", "float+int"},
    {"num32", "float+i32+i64+u32+u64"},
    {"plain", "num+b1"},
    {"basic", "plain+c64+c128+str"},
    {"f8", "f8e4m3fn+f8e4m3fnuz+f8e5m2+f8e5m2fnuz"},
    {"f6", "f6e2m3+f6e3m2"},
    {"any", "basic+f8+i4+u4+i2+u2+f4e2m1+f8e8m0"}, /* before opset 28 */
};

static bool word_has(const char *word, size_t n, NstDtype type)
{
    for (size_t k = 0; k < sizeof groups / sizeof *groups; k++)
        if (strlen(groups[k].name) == n && memcmp(groups[k].name, word, n) == 0)
            return nst_type_set_has(groups[k].set, strlen(groups[k].set), type);
    return nst_dtype_parse(word, n) == type;
}

bool nst_type_set_has(const char *set, size_t n, NstDtype type)
{
    bool has = false, add = true;
    for (size_t at = 0; at < n;) {
        size_t len = (size_t)name_length(set + at);
        if (len == 0) {
            add = set[at] == '+';
            at++;
            continue;
        }
        if (word_has(set + at, len, type)) has = add;
        at += len;
    }
    return has;
}

/* True if a set allows values of a kind other than tensor. */
static bool set_has_kind(const char *set, size_t n, NstTypeKind kind)
{
    const char *word = kind == NST_TYPE_SEQUENCE ? "seq" : kind == NST_TYPE_OPTIONAL ? "opt" : "map";
    for (size_t at = 0; at < n; at++) {
        size_t len = (size_t)name_length(set + at);
        if (len >= strlen(word) && memcmp(set + at, word, strlen(word)) == 0) return true;
        at += len;
    }
    return false;
}

/* The set of a type variable; false if the name is no variable of the row. */
static bool find_variable(const char *types, const NstFormal *f, const char **set, size_t *n)
{
    for (const char *p = skip_spaces(types); *p; p = skip_spaces(p)) {
        int len = name_length(p);
        const char *end = strchr(p, ' ');
        if (!end) end = p + strlen(p);
        if (len == f->type_n && memcmp(p, f->type, (size_t)len) == 0 && p[len] == '=') {
            *set = p + len + 1;
            *n = (size_t)(end - *set);
            return true;
        }
        p = end;
    }
    return false;
}

/* --- node check ------------------------------------------------------------------------------------------------ */

/* What the inputs seen so far made of each type variable (by the formal that saw it first). */
typedef struct Bound {
    const NstFormal *formal;
    NstDtype type;
} Bound;

static NstStatus check_input(NstCtx *ctx, const NstOpRow *row, const NstNodeShape *node, const NstFormal *f,
                             const NstType *type, Bound *bound, int *n_bound)
{
    const char *set;
    size_t n;
    if (!find_variable(nst_op_types(row), f, &set, &n)) {
        set = f->type;
        n = (size_t)f->type_n;
    }
    if (type->kind != NST_TYPE_TENSOR) {
        NST_CHECK(ctx, set_has_kind(set, n, type->kind), NST_E_TYPE, "%s: %.*s is no tensor, allowed: %.*s",
                  node->label, f->name_n, f->name, (int)n, set);
        return NST_OK;
    }
    const char *name = nst_dtype_info(type->dtype)->name;
    NST_CHECK(ctx, nst_type_set_has(set, n, type->dtype), NST_E_TYPE, "%s: %.*s is %s, allowed in version %d: %.*s",
              node->label, f->name_n, f->name, name, row->since, (int)n, set);
    for (int k = 0; k < *n_bound && !f->mixed; k++) {
        const NstFormal *other = bound[k].formal;
        bool same = other->type_n == f->type_n && memcmp(other->type, f->type, (size_t)f->type_n) == 0;
        NST_CHECK(ctx, !same || bound[k].type == type->dtype, NST_E_TYPE,
                  "%s: %.*s is %s, %.*s is %s, allowed: one type for both", node->label, f->name_n, f->name, name,
                  other->name_n, other->name, nst_dtype_info(bound[k].type)->name);
    }
    if (*n_bound < NST_MAX_FORMALS && !f->mixed) bound[(*n_bound)++] = (Bound){f, type->dtype};
    return NST_OK;
}

static const NstFormal *formal_at(const NstFormal *formal, int n, int k)
{
    if (k < n) return &formal[k];
    return n > 0 && formal[n - 1].variadic ? &formal[n - 1] : NULL;
}

NstStatus nst_op_check(NstCtx *ctx, const NstOpRow *row, const NstNodeShape *node)
{
    NstSignature s;
    Bound bound[NST_MAX_FORMALS];
    int n_bound = 0;
    NST_ASSERT(nst_signature_parse(nst_op_signature(row), &s));
    NST_CHECK(ctx, node->n_in <= s.n_in || formal_at(s.in, s.n_in, node->n_in), NST_E_MODEL,
              "%s: %d inputs, allowed in version %d: at most %d", node->label, node->n_in, row->since, s.n_in);
    NST_CHECK(ctx, node->n_out <= s.n_out || formal_at(s.out, s.n_out, node->n_out), NST_E_MODEL,
              "%s: %d outputs, allowed in version %d: at most %d", node->label, node->n_out, row->since, s.n_out);
    for (int k = 0; k < node->n_in || k < s.n_in; k++) {
        const NstFormal *f = formal_at(s.in, s.n_in, k);
        const NstType *type = k < node->n_in ? node->in[k] : NULL;
        bool optional = f->optional || (f->variadic && k >= s.n_in);
        NST_CHECK(ctx, type || optional || (f->variadic && f->mixed), NST_E_MODEL, "%s: input %d (%.*s) is missing",
                  node->label, k, f->name_n, f->name);
        if (type) NST_TRY(check_input(ctx, row, node, f, type, bound, &n_bound));
    }
    return NST_OK;
}
