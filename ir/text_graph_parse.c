/* text_graph_parse.c: reads .nsg.  Types that are stated are taken as they stand (the verifier judges them); types left out
 * are inferred.  Only what would make the graph's arrays inconsistent is refused here. */
#include "ir/text_graph.h"

#include <stdarg.h>
#include "ir/infer.h"

/* --- tokens ---------------------------------------------------------------------------------------------------- */

NstStatus nst_graph_read_fail(NstGraphReader *r, const char *format, ...)
{
    char text[NST_ERROR_TEXT / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int line = 1, column = 1;
    for (const char *c = r->start; c < r->p; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    return nst_fail(r->ctx, NST_E_PARSE, "line %d, column %d: %s", line, column, text);
}

/* Says where in the file a failure of another parser happened. */
static NstStatus located(NstGraphReader *r, NstStatus status)
{
    if (status == NST_OK) return status;
    int line = 1;
    for (const char *c = r->start; c < r->p; c++) line += *c == '\n';
    (void)nst_note(r->ctx, "in line %d", line);
    return status;
}

void nst_graph_read_space(NstGraphReader *r)
{
    for (;;) {
        while (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r') r->p++;
        if (*r->p != '#' && (r->p[0] != '/' || r->p[1] != '/')) return;
        while (*r->p && *r->p != '\n') r->p++;
    }
}

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

bool nst_graph_read_try(NstGraphReader *r, const char *sign)
{
    size_t n = strlen(sign);
    nst_graph_read_space(r);
    if (strncmp(r->p, sign, n) != 0) return false;
    r->p += n;
    return true;
}

bool nst_graph_read_try_word(NstGraphReader *r, const char *word)
{
    size_t n = strlen(word);
    nst_graph_read_space(r);
    if (strncmp(r->p, word, n) != 0 || name_char(r->p[n])) return false;
    r->p += n;
    return true;
}

NstStatus nst_graph_read_expect(NstGraphReader *r, const char *sign)
{
    return nst_graph_read_try(r, sign) ? NST_OK : nst_graph_read_fail(r, "expected '%s' at '%.20s'", sign, r->p);
}

NstStatus nst_graph_read_expect_word(NstGraphReader *r, const char *word)
{
    return nst_graph_read_try_word(r, word) ? NST_OK : nst_graph_read_fail(r, "expected '%s' at '%.20s'", word, r->p);
}

NstStatus nst_graph_read_int(NstGraphReader *r, int64_t *value)
{
    nst_graph_read_space(r);
    const char *end = nst_parse_int(r->p, value);
    if (!end) return nst_graph_read_fail(r, "expected an integer at '%.20s'", r->p);
    r->p = end;
    return NST_OK;
}

NstStatus nst_graph_read_small_int(NstGraphReader *r, int *value)
{
    int64_t wide;
    NST_TRY(nst_graph_read_int(r, &wide));
    if (wide < -10000 || wide > 10000) return nst_graph_read_fail(r, "%lld, allowed: a small integer", (long long)wide);
    *value = (int)wide;
    return NST_OK;
}

/* The characters of one word (letters, digits, _ and .). */
static NstStatus read_word(NstGraphReader *r, const char **word, size_t *n)
{
    nst_graph_read_space(r);
    *word = r->p;
    while (name_char(*r->p)) r->p++;
    *n = (size_t)(r->p - *word);
    return *n > 0 ? NST_OK : nst_graph_read_fail(r, "expected a name at '%.20s'", r->p);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

NstStatus nst_graph_read_string(NstGraphReader *r, const char **text, size_t *n)
{
    NstText out;
    nst_text_init(&out, r->arena);
    NST_TRY(nst_graph_read_expect(r, "\""));
    while (*r->p != '"') {
        char c = *r->p;
        if (c == '\0' || c == '\n') return nst_graph_read_fail(r, "a quoted text without an end");
        if (c == '\\') {
            c = *++r->p;
            if (c == 'x') {
                int hi = hex_digit(r->p[1]), lo = hi < 0 ? -1 : hex_digit(r->p[2]);
                if (lo < 0) return nst_graph_read_fail(r, "expected two hex digits after \\x");
                c = (char)(hi * 16 + lo);
                r->p += 2;
            } else if (c == 'n' || c == 't') {
                c = c == 'n' ? '\n' : '\t';
            } else if (c != '"' && c != '\\') {
                return nst_graph_read_fail(r, "unknown escape, allowed: \\\" \\\\ \\n \\t \\xHH");
            }
        }
        nst_text_add_n(&out, &c, 1);
        r->p++;
    }
    r->p++;
    *text = nst_text_get(&out);
    *n = out.n;
    return NST_OK;
}

NstStatus nst_graph_read_quoted(NstGraphReader *r, const char **text, size_t *n)
{
    NST_TRY(nst_graph_read_string(r, text, n));
    return memchr(*text, 0, *n) ? nst_graph_read_fail(r, "a NUL in a quoted text") : NST_OK;
}

/* --- dims, types, values --------------------------------------------------------------------------------------- */

/* The symbol of that name; an unknown one becomes an input size. */
static NstSym find_symbol(void *arg, const char *name, size_t n)
{
    NstGraphReader *r = arg;
    NstSym sym = nst_dims_find_sym(r->graph->dims, name, n);
    if (sym.i != 0) return sym;
    return nst_dims_new_sym(r->graph->dims, NST_SYM_INPUT, nst_copy_text(r->arena, name, n), 0, INT64_MAX);
}

NstStatus nst_graph_read_dim(NstGraphReader *r, NstDim *dim)
{
    nst_graph_read_space(r);
    return located(r, nst_dim_parse(r->ctx, r->graph->dims, &r->p, find_symbol, r, dim));
}

NstStatus nst_graph_read_symbol(NstGraphReader *r, NstSym *sym)
{
    NstDim dim;
    NST_TRY(nst_graph_read_dim(r, &dim));
    const NstDimNode *node = nst_dim_node(r->graph->dims, dim);
    if (node->op != NST_DIM_SYM) return nst_graph_read_fail(r, "expected the name of a symbol");
    *sym = node->sym;
    return NST_OK;
}

NstStatus nst_graph_read_type(NstGraphReader *r, NstType *type)
{
    nst_graph_read_space(r);
    return located(r, nst_type_parse(r->ctx, r->arena, r->graph->dims, &r->p, type));
}

NstStatus nst_graph_read_dtype(NstGraphReader *r, NstDtype *dtype)
{
    const char *word;
    size_t n;
    NST_TRY(read_word(r, &word, &n));
    *dtype = nst_dtype_parse(word, n);
    return *dtype != NST_DTYPE_NONE ? NST_OK : nst_graph_read_fail(r, "unknown element type '%.*s'", (int)n, word);
}

NstStatus nst_graph_read_formula(NstGraphReader *r, const char *text, const NstDtype *type, uint32_t n, NstDtype result,
                                 NstExpr *e)
{
    NstFormulaNames names = {.arg = r, .find_sym = find_symbol};
    return located(r, nst_formula_parse(r->ctx, r->graph->exprs, text, type, n, NULL, 0, result, &names, e));
}

static uint64_t name_key(const char *name, size_t n)
{
    return nst_hash_bytes(name, n, 0);
}

NstStatus nst_graph_read_value(NstGraphReader *r, NstVal *value)
{
    const char *name;
    size_t n;
    NST_TRY(nst_graph_read_expect(r, "%"));
    NST_TRY(read_word(r, &name, &n));
    value->i = nst_map_get(&r->names, name_key(name, n), 0);
    return value->i != 0 ? NST_OK : nst_graph_read_fail(r, "value %%%.*s is not defined before", (int)n, name);
}

/* Gives a value its name; names of digits alone are numbers, no hints. */
static NstStatus define_name(NstGraphReader *r, const char *name, size_t n, NstVal value)
{
    uint64_t key = name_key(name, n);
    if (nst_map_get(&r->names, key, 0) != 0)
        return nst_graph_read_fail(r, "value %%%.*s is defined twice", (int)n, name);
    nst_map_put(&r->names, key, value.i);
    bool number = true;
    for (size_t k = 0; k < n; k++) number = number && name[k] >= '0' && name[k] <= '9';
    nst_graph_value(r->graph, value)->name = number ? NULL : nst_copy_text(r->arena, name, n);
    return NST_OK;
}

/* --- statements ------------------------------------------------------------------------------------------------ */

static NstStatus read_region(NstGraphReader *r, NstRegionId region);

/* "(x: f32[n], %y "input:0": i64[])" */
static NstStatus read_params(NstGraphReader *r, NstRegionId region)
{
    NST_TRY(nst_graph_read_expect(r, "("));
    for (bool first = true; !nst_graph_read_try(r, ")"); first = false) {
        const char *name, *real = NULL;
        size_t n, n_real;
        NstType type;
        if (!first) NST_TRY(nst_graph_read_expect(r, ","));
        bool plain = !nst_graph_read_try(r, "%");
        NST_TRY(read_word(r, &name, &n));
        if (plain) real = nst_copy_text(r->arena, name, n);
        nst_graph_read_space(r);
        if (!plain && *r->p == '"') NST_TRY(nst_graph_read_quoted(r, &real, &n_real));
        NST_TRY(nst_graph_read_expect(r, ":"));
        NST_TRY(nst_graph_read_type(r, &type));
        NstAttrs attr = {.param = {real}};
        NstNodeId id = nst_graph_add(r->graph, region, NST_PRIM_PARAM, &attr, NULL, 0, &type, 1, (NstOrigin){0});
        NST_TRY(define_name(r, name, n, nst_graph_node(r->graph, id)->out[0]));
    }
    return NST_OK;
}

/* The primitive of that name; NST_PRIM_COUNT if there is none. */
static NstPrim find_prim(const char *word, size_t n)
{
    int prim = 0;
    while (prim < NST_PRIM_COUNT && (strlen(nst_prim_info((NstPrim)prim)->name) != n ||
                                     memcmp(nst_prim_info((NstPrim)prim)->name, word, n) != 0))
        prim++;
    return (NstPrim)prim;
}

typedef struct Tail {
    NstType *type; /* stated or none, n_out entries */
    bool stated;
    NST_VEC(NstSym) defines;
    NstOrigin origin;
} Tail;

/* " : f32[n], i64[] defines k origin "a", "b"" */
static NstStatus read_tail(NstGraphReader *r, const NstStatement *s, Tail *tail)
{
    tail->type = NST_NEW_ARRAY(r->arena, NstType, s->n_out);
    if (s->prim == NST_PRIM_CONST && s->n_out == 1) tail->type[0] = s->type;
    if (nst_graph_read_try(r, ":")) {
        tail->stated = true;
        for (uint32_t k = 0; k < s->n_out; k++) {
            if (k > 0) NST_TRY(nst_graph_read_expect(r, ","));
            NST_TRY(nst_graph_read_type(r, &tail->type[k]));
        }
    }
    while (nst_graph_read_try_word(r, "defines")) {
        NstSym sym;
        NST_TRY(nst_graph_read_symbol(r, &sym));
        if (s->n_out != 1) return nst_graph_read_fail(r, "a symbol defined by %u values, allowed: 1", s->n_out);
        nst_vec_push(r->arena, &tail->defines, sym);
    }
    if (!nst_graph_read_try_word(r, "origin")) return NST_OK;
    do {
        const char *name;
        size_t n;
        NST_TRY(nst_graph_read_quoted(r, &name, &n));
        tail->origin = nst_origin_merge(r->graph->origins, tail->origin, nst_origin_of(r->graph->origins, name));
    } while (nst_graph_read_try(r, ","));
    return NST_OK;
}

/* Regions of a structure node: "then {...} else {...}" or "body(...) {...}". */
static NstStatus read_regions(NstGraphReader *r, NstStatement *s)
{
    static const char *const word[2] = {"then", "else"};
    NstRegionId region[2] = {{0}, {0}};
    int n = s->prim == NST_PRIM_IF ? 2 : s->prim == NST_PRIM_LOOP || s->prim == NST_PRIM_CALL ? 1 : 0;
    for (int k = 0; k < n; k++) {
        region[k] = nst_graph_new_region(r->graph, (NstNodeId){0});
        NST_TRY(nst_graph_read_expect_word(r, n == 2 ? word[k] : "body"));
        if (n == 1) NST_TRY(read_params(r, region[k]));
        NST_TRY(read_region(r, region[k]));
    }
    if (s->prim == NST_PRIM_IF) {
        s->attr.branch.then_region = region[0];
        s->attr.branch.else_region = region[1];
    } else if (s->prim == NST_PRIM_LOOP) {
        s->attr.loop.body = region[0];
    } else if (s->prim == NST_PRIM_CALL) {
        s->attr.call.body = region[0];
    }
    return NST_OK;
}

typedef struct Name {
    const char *at;
    size_t n;
} Name;

static NstStatus add_statement(NstGraphReader *r, NstRegionId region, NstStatement *s, const Tail *tail,
                               const Name *name)
{
    NstGraph *graph = r->graph;
    if (s->prim == NST_PRIM_LOOP) s->attr.loop.n_scans = (int)s->n_out - s->attr.loop.n_states;
    if (!tail->stated && s->n_out > 0 && s->prim != NST_PRIM_CONST) {
        NstInfer infer = {.ctx = r->ctx, .graph = graph};
        NST_TRY(located(r, nst_infer(&infer, s->prim, &s->attr, s->in.at, s->in.n, tail->type, s->n_out)));
    }
    if (graph->nodes.n > NST_MAX_NODES) NST_FAIL(r->ctx, NST_E_LIMIT, "graph: more than %d nodes", NST_MAX_NODES);
    NstNodeId id =
        nst_graph_add(graph, region, s->prim, &s->attr, s->in.at, s->in.n, tail->type, s->n_out, tail->origin);
    const NstNode *node = nst_graph_node(graph, id);
    if (tail->defines.n > 0 && s->n_out == 0) return nst_graph_read_fail(r, "no output to define a symbol by");
    for (uint32_t k = 0; k < s->n_out; k++) NST_TRY(define_name(r, name[k].at, name[k].n, node->out[k]));
    for (uint32_t k = 0; k < tail->defines.n; k++) nst_graph_define(graph, tail->defines.at[k], node->out[0]);
    return NST_OK;
}

/* "%a, %b = prim ..." or "prim ..." */
static NstStatus read_statement(NstGraphReader *r, NstRegionId region)
{
    NST_VEC(Name) names = {0};
    NstStatement s = {.prim = NST_PRIM_COUNT};
    Tail tail = {.stated = false};
    const char *word;
    size_t n;
    nst_graph_read_space(r);
    if (*r->p == '%') {
        do {
            Name name;
            NST_TRY(nst_graph_read_expect(r, "%"));
            NST_TRY(read_word(r, &name.at, &name.n));
            nst_vec_push(r->arena, &names, name);
        } while (nst_graph_read_try(r, ","));
        NST_TRY(nst_graph_read_expect(r, "="));
    }
    NST_TRY(read_word(r, &word, &n));
    s.prim = find_prim(word, n);
    if (s.prim == NST_PRIM_COUNT || s.prim == NST_PRIM_PARAM)
        return nst_graph_read_fail(r, "'%.*s' is no primitive", (int)(n < 40 ? n : 40), word);
    s.n_out = names.n;
    const NstPrimInfo *info = nst_prim_info(s.prim);
    if (names.n < (uint32_t)info->min_out) /* too many are the verifier's to refuse */
        return nst_graph_read_fail(r, "%s: %u outputs, at least %d are needed", info->name, names.n, info->min_out);
    NST_TRY(nst_graph_read_node_body(r, &s));
    NST_TRY(read_tail(r, &s, &tail));
    NST_TRY(read_regions(r, &s));
    return add_statement(r, region, &s, &tail, names.at);
}

static NstStatus read_results(NstGraphReader *r, NstRegionId region)
{
    NST_VEC(NstVal) values = {0};
    NST_VEC(const char *) names = {0};
    bool named = region.i == NST_GRAPH_REGION.i;
    nst_graph_read_space(r);
    for (bool first = true; *r->p != '}'; first = false) {
        const char *name = NULL;
        size_t n;
        NstVal value;
        if (!first) NST_TRY(nst_graph_read_expect(r, ","));
        nst_graph_read_space(r);
        if (named && *r->p == '"') {
            NST_TRY(nst_graph_read_quoted(r, &name, &n));
        } else if (named) {
            NST_TRY(read_word(r, &name, &n));
            name = nst_copy_text(r->arena, name, n);
        }
        if (named) NST_TRY(nst_graph_read_expect(r, "="));
        NST_TRY(nst_graph_read_value(r, &value));
        nst_vec_push(r->arena, &values, value);
        nst_vec_push(r->arena, &names, name);
        nst_graph_read_space(r);
    }
    nst_graph_set_results(r->graph, region, values.at, values.n, names.at);
    return NST_OK;
}

/* "{ statements; return or yield }" */
static NstStatus read_region(NstGraphReader *r, NstRegionId region)
{
    if (r->depth > NST_MAX_NESTING) NST_FAIL(r->ctx, NST_E_LIMIT, "regions nested deeper than %d", NST_MAX_NESTING);
    r->depth++;
    if (region.i != NST_GRAPH_REGION.i) NST_TRY(nst_graph_read_expect(r, "{"));
    while (!nst_graph_read_try_word(r, region.i == NST_GRAPH_REGION.i ? "return" : "yield")) {
        if (*r->p == '\0' || *r->p == '}') return nst_graph_read_fail(r, "a region without return or yield");
        NST_TRY(read_statement(r, region));
    }
    NST_TRY(read_results(r, region));
    r->depth--;
    return nst_graph_read_expect(r, "}");
}

/* --- symbols and the file -------------------------------------------------------------------------------------- */

static NstStatus read_bounds(NstGraphReader *r, int64_t *lo, int64_t *hi)
{
    nst_graph_read_space(r);
    if (*r->p == '.')
        *lo = INT64_MIN;
    else
        NST_TRY(nst_graph_read_int(r, lo));
    NST_TRY(nst_graph_read_expect(r, ".."));
    nst_graph_read_space(r);
    *hi = INT64_MAX;
    if (*r->p == '-' || (*r->p >= '0' && *r->p <= '9')) NST_TRY(nst_graph_read_int(r, hi));
    return NST_OK;
}

/* "symbols n in 1..4096 multiple 8, value k, counted c in 0.. to n" */
static NstStatus read_symbols(NstGraphReader *r)
{
    NstDims *dims = r->graph->dims;
    if (!nst_graph_read_try_word(r, "symbols")) return NST_OK;
    do {
        NstSymKind kind = nst_graph_read_try_word(r, "value")     ? NST_SYM_VALUE
                          : nst_graph_read_try_word(r, "counted") ? NST_SYM_COUNTED
                                                                  : NST_SYM_INPUT;
        const char *name;
        size_t n;
        int64_t lo = 0, hi = INT64_MAX, multiple = 1;
        NstDim lo_dim = {0}, hi_dim = {0};
        nst_graph_read_space(r);
        if (*r->p == '"') {
            NST_TRY(nst_graph_read_quoted(r, &name, &n));
        } else {
            for (name = r->p; name_char(*r->p) || *r->p == '#' || *r->p == '$';)
                r->p++; /* as ir/dim.h's text has them */
            n = (size_t)(r->p - name);
            if (n == 0) return nst_graph_read_fail(r, "expected the name of a symbol at '%.20s'", r->p);
            name = nst_copy_text(r->arena, name, n);
        }
        if (nst_dims_find_sym(dims, name, n).i != 0) return nst_graph_read_fail(r, "symbol %s is declared twice", name);
        if (nst_graph_read_try_word(r, "in")) NST_TRY(read_bounds(r, &lo, &hi));
        if (lo > hi)
            return nst_graph_read_fail(r, "symbol %s has no value in %lld..%lld", name, (long long)lo, (long long)hi);
        if (nst_graph_read_try_word(r, "from")) NST_TRY(nst_graph_read_dim(r, &lo_dim));
        if (nst_graph_read_try_word(r, "to")) NST_TRY(nst_graph_read_dim(r, &hi_dim));
        if (nst_graph_read_try_word(r, "multiple")) NST_TRY(nst_graph_read_int(r, &multiple));
        if (multiple < 1) return nst_graph_read_fail(r, "multiple %lld, allowed: >= 1", (long long)multiple);
        NstSymInfo *info = nst_dims_sym(dims, nst_dims_new_sym(dims, kind, name, lo, hi));
        info->lo_dim = lo_dim;
        info->hi_dim = hi_dim;
        info->multiple = multiple;
    } while (nst_graph_read_try(r, ","));
    return NST_OK;
}

/* Leaves r->p after the "{" of the graph; skips its parameter list, whose types use symbols declared after it. */
static NstStatus skip_params(NstGraphReader *r)
{
    NST_TRY(nst_graph_read_expect(r, "("));
    for (int open = 1; open > 0; r->p++) {
        if (*r->p == '\0') return nst_graph_read_fail(r, "a parameter list without an end");
        if (*r->p == '"') {
            const char *text;
            size_t n;
            NST_TRY(nst_graph_read_quoted(r, &text, &n));
            r->p--;
            continue;
        }
        open += *r->p == '(' ? 1 : *r->p == ')' ? -1 : 0;
    }
    return nst_graph_read_expect(r, "{");
}

static NstStatus read_graph(NstGraphReader *r)
{
    const char *name;
    size_t n;
    NST_TRY(nst_graph_read_expect_word(r, "graph"));
    nst_graph_read_space(r);
    if (*r->p == '"') {
        NST_TRY(nst_graph_read_quoted(r, &name, &n));
    } else {
        NST_TRY(read_word(r, &name, &n));
        name = nst_copy_text(r->arena, name, n);
    }
    r->graph->name = name;
    const char *params = r->p;
    NST_TRY(skip_params(r));
    NST_TRY(read_symbols(r));
    const char *body = r->p;
    r->p = params;
    NST_TRY(read_params(r, NST_GRAPH_REGION));
    r->p = body;
    NST_TRY(read_region(r, NST_GRAPH_REGION));
    nst_graph_read_space(r);
    return r->p == r->end ? NST_OK : nst_graph_read_fail(r, "text after the graph's end: '%.20s'", r->p);
}

NstStatus nst_graph_parse(NstCtx *ctx, NstArena *arena, const char *text, size_t n, NstGraph **graph)
{
    const char *copy = nst_copy_text(arena, text, n); /* with a NUL at its end */
    NST_CHECK(ctx, memchr(copy, '\0', n) == NULL, NST_E_PARSE, "graph text with a NUL byte");
    NstGraphReader reader = {.ctx = ctx, .arena = arena, .start = copy, .p = copy, .end = copy + n};
    reader.graph = nst_graph_new(arena, "");
    nst_map_init(&reader.names, arena);
    NST_TRY(read_graph(&reader));
    *graph = reader.graph;
    return NST_OK;
}
