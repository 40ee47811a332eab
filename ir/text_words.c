/* text_words.c: the words of the loop-nest text, and the rules that let it leave out what a dense layout implies. */
#include "ir/text_loop.h"

#include <string.h>
#include "ir/abi.h"

static const char *const keywords[] = {
    "kernel",  "in",          "out",     "inout",    "const",       "layout",      "offset",       "elements",
    "halo",    "bits",        "for",     "parallel", "vector",      "step",        "width",        "unroll",
    "while",   "break",       "if",      "else",     "let",         "index",       "checked",      "reg",
    "from",    "scratch",     "shared",  "store",    "update",      "merge",       "prefetch",     "level",
    "write",   "call",        "on",      "barrier",  "assert",      "true",        "false",        "value",
    "counted", "min",         "max",     "multiple", "floordiv",    "mod",         "ceil",         "ceildiv",
    "convert", "convert_sat", "bitcast", "matrix",   "matrix_zero", "matrix_load", "matrix_store", "matrix_dot",
};

static bool same_word(const char *text, const char *word, size_t n)
{
    return text != NULL && strlen(text) == n && memcmp(text, word, n) == 0;
}

bool nst_text_is_name(const char *word, size_t n)
{
    if (n == 0) return false;
    for (size_t k = 0; k < n; k++) {
        char c = word[k];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(k > 0 && c >= '0' && c <= '9')) return false;
    }
    return true;
}

bool nst_text_reserved(const char *word, size_t n)
{
    for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++)
        if (same_word(keywords[k], word, n)) return true;
    for (int op = NST_OP_LET + 1; op < NST_OP_COUNT; op++)
        if (same_word(nst_scalar_info((NstScalarOp)op)->text, word, n)) return true;
    if (nst_dtype_parse(word, n) != NST_DTYPE_NONE) return true;
    return n >= 3 && (memcmp(word, "inf", 3) == 0 || memcmp(word, "nan", 3) == 0); /* inff32 is a literal */
}

const char *nst_space_text(NstSpace space)
{
    static const char *const text[] = {"arg", "reg", "scratch", "shared", "matrix"};
    return text[space];
}

const char *nst_for_text(NstForKind kind)
{
    static const char *const text[] = {"", "parallel", "vector", "unroll"};
    return text[kind];
}

const char *nst_matrix_text(NstMatrixOp op)
{
    static const char *const text[] = {"matrix_zero", "matrix_load", "matrix_store", "matrix_dot"};
    return text[op];
}

const char *nst_access_text(NstAccess access)
{
    static const char *const text[] = {"?", "in", "out", "inout"};
    return text[access & 3];
}

const char *nst_helper_text(uint32_t helper)
{
    static const char *const text[] = {
#define NST_RTCALL(name, result, parameters) #name,
#include "ir/rtcall.def"
#undef NST_RTCALL
    };
    return helper < NST_HELPER_COUNT ? text[helper] : NULL;
}

int64_t nst_layout_halo(const NstLayout *layout, int axis)
{
    return layout->halo != NULL ? layout->halo[axis] : 0;
}

NstDim nst_layout_default_stride(NstDims *dims, const NstLayout *layout, const NstDim *shape, uint32_t k)
{
    if (k + 1 >= layout->n_parts) return nst_dim_const(dims, 1);
    return nst_dim_mul(dims, layout->parts[k + 1].stride, nst_layout_extent(dims, layout, shape, k + 1));
}

NstDim nst_layout_default_elements(NstDims *dims, const NstLayout *layout, const NstDim *shape)
{
    NstDim size = nst_dim_const(dims, 1);
    if (layout->n_parts > 0)
        size = nst_dim_mul(dims, layout->parts[0].stride, nst_layout_extent(dims, layout, shape, 0));
    return nst_dim_add(dims, layout->offset, size);
}
