/* dim_text.c: text of dims, and the parser that reads it back to the same normal form. */
#include "ir/dim_impl.h"

/* Nesting of parentheses and calls the parser takes: more than NST_DIM_MAX_DEPTH prints. */
#define MAX_TEXT_DEPTH 256
/* Nodes printed; what comes after is "...", which does not parse.  Text grows with each use of a shared node, so without
 * an end it could take all memory. */
#define MAX_PRINTED 8192

typedef struct Printer {
    NstText *text;
    const NstDims *dims;
    const char *(*name_of)(void *arg, NstSym sym);
    void *arg;
    int left; /* nodes still to be printed; shared ones count once a use */
} Printer;

static void print(Printer *p, NstDim dim);

static bool name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool name_char(char c)
{
    return name_start(c) || (c >= '0' && c <= '9') || c == '.' || c == '#' || c == '$';
}

/* A name goes on at c: not where ".." follows, the range sign of texts around a dim. */
static bool takes_char(const char *c)
{
    return name_char(*c) && !(c[0] == '.' && (c[1] == '.' || c[1] == '\0'));
}

static void print_name(const Printer *p, NstSym sym)
{
    const NstSymInfo *info = nst_dims_sym_info(p->dims, sym);
    const char *name = p->name_of ? p->name_of(p->arg, sym) : NULL;
    if (!name && info->kind == NST_SYM_INDEX) {
        nst_text_add(p->text, "%s#%u", name_start(info->name[0]) ? info->name : "i", sym.i);
        return;
    }
    if (!name) name = info->name;
    bool plain = name_start(name[0]);
    for (const char *c = name; *c && plain; c++) plain = takes_char(c);
    if (plain)
        nst_text_add(p->text, "%s", name);
    else
        nst_text_add_quoted(p->text, name, strlen(name));
}

/* An argument that needs parentheses where a factor is expected. */
static void print_factor(Printer *p, NstDim dim)
{
    const NstDimEntry *entry = nst_dim_entry(p->dims, dim);
    bool wrap = entry->node.op == NST_DIM_SUM || (entry->node.op == NST_DIM_PRODUCT && entry->opaque);
    if (wrap) nst_text_add(p->text, "(");
    print(p, dim);
    if (wrap) nst_text_add(p->text, ")");
}

static void print_sum(Printer *p, const NstDimEntry *entry)
{
    const NstDimNode *node = &entry->node;
    for (uint32_t k = 0; k < node->n; k++) {
        int64_t coef = node->coef[k];
        bool minus = coef < 0 && coef != INT64_MIN;
        if (k > 0)
            nst_text_add(p->text, minus ? " - " : " + ");
        else if (minus)
            nst_text_add(p->text, "-");
        if (minus) coef = -coef;
        if (coef != 1) nst_text_add(p->text, "%lld*", (long long)coef);
        print_factor(p, node->arg[k]);
    }
    if (node->value == INT64_MIN)
        nst_text_add(p->text, " + %lld", (long long)node->value);
    else if (node->value != 0)
        nst_text_add(p->text, node->value < 0 ? " - %lld" : " + %lld",
                     (long long)(node->value < 0 ? -node->value : node->value));
}

static void print(Printer *p, NstDim dim)
{
    static const char *const call[] = {
        [NST_DIM_FLOORDIV] = "floordiv", [NST_DIM_MOD] = "mod", [NST_DIM_MIN] = "min", [NST_DIM_MAX] = "max"};
    const NstDimEntry *entry = nst_dim_entry(p->dims, dim);
    const NstDimNode *node = &entry->node;
    if (--p->left < 0) {
        nst_text_add(p->text, "...");
        return;
    }
    switch (node->op) {
    case NST_DIM_CONST: nst_text_add(p->text, "%lld", (long long)node->value); return;
    case NST_DIM_SYM: print_name(p, node->sym); return;
    case NST_DIM_SUM: print_sum(p, entry); return;
    case NST_DIM_PRODUCT:
        for (uint32_t k = 0; k < node->n; k++) {
            if (k > 0) nst_text_add(p->text, "*");
            print_factor(p, node->arg[k]);
        }
        return;
    case NST_DIM_FLOORDIV:
    case NST_DIM_MOD:
    case NST_DIM_MIN:
    case NST_DIM_MAX: break;
    }
    nst_text_add(p->text, "%s(", call[node->op]);
    print(p, node->arg[0]);
    nst_text_add(p->text, ", ");
    print(p, node->arg[1]);
    nst_text_add(p->text, ")");
}

void nst_dim_print(NstText *text, const NstDims *dims, NstDim dim, const char *(*name_of)(void *arg, NstSym sym),
                   void *arg)
{
    Printer p = {text, dims, name_of, arg, MAX_PRINTED};
    print(&p, dim);
}

/* -- parser -- */

typedef struct Parser {
    NstCtx *ctx;
    NstDims *dims;
    const char *p;
    NstSym (*find)(void *arg, const char *name, size_t n);
    void *arg;
    int depth;
} Parser;

static NstStatus parse_sum(Parser *p, NstDim *dim);

static void skip_space(Parser *p)
{
    while (*p->p == ' ' || *p->p == '\t' || *p->p == '\n') p->p++;
}

static NstStatus expect(Parser *p, char c)
{
    skip_space(p);
    NST_CHECK(p->ctx, *p->p == c, NST_E_PARSE, "expected '%c' in a size expression at '%.20s'", c, p->p);
    p->p++;
    return NST_OK;
}

static NstStatus parse_symbol(Parser *p, const char *name, size_t n, NstDim *dim)
{
    NstSym sym = p->find ? p->find(p->arg, name, n) : nst_dims_find_sym(p->dims, name, n);
    NST_CHECK(p->ctx, sym.i != 0, NST_E_PARSE, "unknown name '%.*s' in a size expression", (int)n, name);
    *dim = nst_dim_sym(p->dims, sym);
    return NST_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* A name in quotes, as nst_text_add_quoted writes it. */
static NstStatus parse_quoted(Parser *p, NstDim *dim)
{
    size_t n = strcspn(p->p + 1, "\n") + 1, length = 0;
    char *name = nst_alloc(p->dims->arena, n);
    const char *c = p->p + 1;
    for (; *c && *c != '"' && *c != '\n'; c++) {
        char value = *c;
        if (value == '\\' && c[1] != 0 && c[1] != '\n') {
            value = *++c;
            if (value == 'n') value = '\n';
            if (value == 't') value = '\t';
            if (value == 'x') {
                int high = hex_digit(c[1]), low = high < 0 ? -1 : hex_digit(c[2]);
                NST_CHECK(p->ctx, low >= 0, NST_E_PARSE, "bad \\x escape in a quoted name at '%.20s'", c);
                value = (char)(high * 16 + low);
                c += 2;
            }
        }
        name[length++] = value;
    }
    NST_CHECK(p->ctx, *c == '"', NST_E_PARSE, "unfinished quoted name at '%.20s'", p->p);
    p->p = c + 1;
    return parse_symbol(p, name, length, dim);
}

typedef struct Call {
    const char *name;
    NstDim (*build)(NstDims *dims, NstDim a, NstDim b);
} Call;

static NstStatus parse_name(Parser *p, NstDim *dim)
{
    static const Call calls[] = {{"floordiv", nst_dim_floordiv},
                                 {"ceildiv", nst_dim_ceildiv},
                                 {"mod", nst_dim_mod},
                                 {"min", nst_dim_min},
                                 {"max", nst_dim_max}};
    const char *name = p->p;
    while (takes_char(p->p)) p->p++;
    size_t n = (size_t)(p->p - name);
    skip_space(p);
    if (*p->p != '(') return parse_symbol(p, name, n, dim);
    for (size_t k = 0; k < sizeof calls / sizeof calls[0]; k++) {
        if (strlen(calls[k].name) != n || memcmp(calls[k].name, name, n) != 0) continue;
        NstDim a, b;
        p->p++;
        NST_TRY(parse_sum(p, &a));
        NST_TRY(expect(p, ','));
        NST_TRY(parse_sum(p, &b));
        NST_TRY(expect(p, ')'));
        *dim = calls[k].build(p->dims, a, b);
        return NST_OK;
    }
    NST_FAIL(p->ctx, NST_E_PARSE, "'%.*s' is no function of sizes: floordiv, ceildiv, mod, min, max are", (int)n, name);
}

static NstStatus parse_factor(Parser *p, NstDim *dim)
{
    skip_space(p);
    if (*p->p == '(') {
        p->p++;
        NST_TRY(parse_sum(p, dim));
        return expect(p, ')');
    }
    if (*p->p == '"') return parse_quoted(p, dim);
    if (name_start(*p->p)) return parse_name(p, dim);
    int64_t value;
    const char *end = nst_parse_int(p->p, &value);
    NST_CHECK(p->ctx, end != NULL, NST_E_PARSE, "expected a size expression at '%.20s'", p->p);
    p->p = end;
    *dim = nst_dim_const(p->dims, value);
    return NST_OK;
}

static NstStatus parse_term(Parser *p, NstDim *dim)
{
    NST_TRY(parse_factor(p, dim));
    for (;;) {
        NstDim factor;
        skip_space(p);
        if (*p->p != '*') return NST_OK;
        p->p++;
        NST_TRY(parse_factor(p, &factor));
        *dim = nst_dim_mul(p->dims, *dim, factor);
    }
}

static NstStatus parse_terms(Parser *p, NstDim *dim)
{
    skip_space(p);
    bool minus = *p->p == '-' && !(p->p[1] >= '0' && p->p[1] <= '9');
    if (minus) p->p++;
    NST_TRY(parse_term(p, dim));
    if (minus) *dim = nst_dim_mul_const(p->dims, *dim, -1);
    for (;;) {
        NstDim term;
        skip_space(p);
        char sign = *p->p;
        if (sign != '+' && sign != '-') return NST_OK;
        p->p++;
        NST_TRY(parse_term(p, &term));
        *dim = sign == '+' ? nst_dim_add(p->dims, *dim, term) : nst_dim_sub(p->dims, *dim, term);
    }
}

static NstStatus parse_sum(Parser *p, NstDim *dim)
{
    NST_CHECK(p->ctx, p->depth < MAX_TEXT_DEPTH, NST_E_LIMIT, "a size expression nests deeper than %d", MAX_TEXT_DEPTH);
    p->depth++;
    NST_TRY(parse_terms(p, dim));
    p->depth--;
    return NST_OK;
}

NstStatus nst_dim_parse(NstCtx *ctx, NstDims *dims, const char **text,
                        NstSym (*find)(void *arg, const char *name, size_t n), void *arg, NstDim *dim)
{
    Parser p = {ctx, dims, *text, find, arg, 0};
    NST_TRY(parse_sum(&p, dim));
    *text = p.p;
    return NST_OK;
}
