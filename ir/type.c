/* type.c: value types: construction, comparison, text. */
#include "ir/type.h"

#include <string.h>

/* Nesting of sequence, optional and map types the parser takes. */
#define MAX_TYPE_DEPTH 32

NstType nst_tensor_type(NstArena *arena, NstDtype dtype, int rank, const NstDim *shape)
{
    NST_ASSERT(rank >= 0 && rank <= NST_MAX_RANK);
    NstType type = {.kind = NST_TYPE_TENSOR, .dtype = dtype, .rank = rank};
    type.shape = nst_copy(arena, shape, (size_t)rank * sizeof *shape);
    return type;
}

bool nst_type_same(const NstType *a, const NstType *b)
{
    for (;;) {
        if (a->kind != b->kind || a->dtype != b->dtype) return false;
        if (a->kind == NST_TYPE_TENSOR) {
            if (a->rank != b->rank) return false;
            for (int k = 0; k < a->rank; k++)
                if (!nst_dim_same(a->shape[k], b->shape[k])) return false;
            return true;
        }
        if (!a->item || !b->item) return a->item == b->item;
        a = a->item;
        b = b->item;
    }
}

NstDim nst_type_elements(NstDims *dims, const NstType *type)
{
    NstDim elements = nst_dim_const(dims, 1);
    for (int k = 0; k < type->rank; k++) elements = nst_dim_mul(dims, elements, type->shape[k]);
    return elements;
}

void nst_type_print(NstText *text, const NstDims *dims, const NstType *type)
{
    int open = 0;
    for (; type && type->kind != NST_TYPE_TENSOR && type->kind != NST_TYPE_NONE; type = type->item, open++) {
        if (type->kind == NST_TYPE_MAP)
            nst_text_add(text, "map<%s, ", nst_dtype_info(type->dtype)->name);
        else
            nst_text_add(text, type->kind == NST_TYPE_SEQUENCE ? "seq<" : "opt<");
    }
    if (!type || type->kind == NST_TYPE_NONE) {
        nst_text_add(text, "none");
    } else {
        nst_text_add(text, "%s[", nst_dtype_info(type->dtype)->name);
        for (int k = 0; k < type->rank; k++) {
            if (k > 0) nst_text_add(text, ", ");
            nst_dim_print(text, dims, type->shape[k], NULL, NULL);
        }
        nst_text_add(text, "]");
    }
    while (open-- > 0) nst_text_add(text, ">");
}

/* -- parser -- */

typedef struct Reader {
    NstCtx *ctx;
    NstArena *arena;
    NstDims *dims;
    const char *p;
} Reader;

static void skip_space(Reader *r)
{
    while (*r->p == ' ' || *r->p == '\t' || *r->p == '\n') r->p++;
}

static NstStatus expect(Reader *r, char c)
{
    skip_space(r);
    NST_CHECK(r->ctx, *r->p == c, NST_E_PARSE, "expected '%c' in a type at '%.20s'", c, r->p);
    r->p++;
    return NST_OK;
}

static size_t read_word(Reader *r, const char **word)
{
    skip_space(r);
    *word = r->p;
    while ((*r->p >= 'a' && *r->p <= 'z') || (*r->p >= '0' && *r->p <= '9') || *r->p == '_') r->p++;
    return (size_t)(r->p - *word);
}

static bool is_word(const char *word, size_t n, const char *expected)
{
    return strlen(expected) == n && memcmp(word, expected, n) == 0;
}

/* The symbol of that name; a new name becomes an input size. */
static NstSym find_or_add(void *arg, const char *name, size_t n)
{
    const Reader *r = arg;
    NstSym sym = nst_dims_find_sym(r->dims, name, n);
    if (sym.i != 0) return sym;
    return nst_dims_new_sym(r->dims, NST_SYM_INPUT, nst_copy_text(r->arena, name, n), 0, INT64_MAX);
}

static NstStatus read_dtype(Reader *r, const char *word, size_t n, NstDtype *dtype)
{
    *dtype = nst_dtype_parse(word, n);
    NST_CHECK(r->ctx, *dtype != NST_DTYPE_NONE, NST_E_PARSE, "unknown element type '%.*s'", (int)n, word);
    return NST_OK;
}

static NstStatus read_tensor(Reader *r, const char *word, size_t n, NstType *type)
{
    NstDtype dtype;
    NstDim shape[NST_MAX_RANK];
    int rank = 0;
    NST_TRY(read_dtype(r, word, n, &dtype));
    NST_TRY(expect(r, '['));
    skip_space(r);
    while (*r->p != ']') {
        NST_CHECK(r->ctx, rank < NST_MAX_RANK, NST_E_LIMIT, "a tensor type has more than %d dimensions", NST_MAX_RANK);
        if (rank > 0) NST_TRY(expect(r, ','));
        NST_TRY(nst_dim_parse(r->ctx, r->dims, &r->p, find_or_add, r, &shape[rank++]));
        skip_space(r);
    }
    r->p++;
    *type = nst_tensor_type(r->arena, dtype, rank, shape);
    return NST_OK;
}

static NstStatus read_type(Reader *r, NstType *type, int depth)
{
    const char *word;
    size_t n = read_word(r, &word);
    NstTypeKind kind = is_word(word, n, "seq")   ? NST_TYPE_SEQUENCE
                       : is_word(word, n, "opt") ? NST_TYPE_OPTIONAL
                       : is_word(word, n, "map") ? NST_TYPE_MAP
                                                 : NST_TYPE_TENSOR;
    NST_CHECK(r->ctx, depth < MAX_TYPE_DEPTH, NST_E_LIMIT, "a type nests deeper than %d", MAX_TYPE_DEPTH);
    *type = (NstType){.kind = NST_TYPE_NONE};
    if (is_word(word, n, "none")) return NST_OK;
    if (kind == NST_TYPE_TENSOR) return read_tensor(r, word, n, type);
    NstType *item = NST_NEW(r->arena, NstType);
    type->kind = kind;
    type->item = item;
    NST_TRY(expect(r, '<'));
    if (kind == NST_TYPE_MAP) {
        n = read_word(r, &word);
        NST_TRY(read_dtype(r, word, n, &type->dtype));
        NST_TRY(expect(r, ','));
    }
    NST_TRY(read_type(r, item, depth + 1));
    return expect(r, '>');
}

NstStatus nst_type_parse(NstCtx *ctx, NstArena *arena, NstDims *dims, const char **p, NstType *type)
{
    Reader r = {ctx, arena, dims, *p};
    NST_TRY(read_type(&r, type, 0));
    *p = r.p;
    return NST_OK;
}
