/* text_graph_const.c: constants in .nsg: splat, short lists, base64 of the engine's storage, seeds.  Strings stand as quoted
 * texts: their handles mean nothing outside the graph. */
#include "ir/text_graph.h"

#define MAX_LIST         16                 /* elements printed as a readable list */
#define MAX_SEEDED_BYTES (INT64_C(1) << 30) /* a text of a few bytes must not ask for more */

static const char base64_digits[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static bool has_literal(NstDtype dtype)
{
    NstDtypeClass klass = nst_dtype_info(dtype)->klass;
    return klass != NST_CLASS_STRING && klass != NST_CLASS_COMPLEX;
}

static void print_base64(NstText *text, const unsigned char *data, size_t n)
{
    nst_text_add(text, "\"");
    for (size_t i = 0; i < n; i += 3) {
        size_t rest = n - i < 3 ? n - i : 3;
        uint32_t word =
            (uint32_t)data[i] << 16 | (rest > 1 ? (uint32_t)data[i + 1] << 8 : 0) | (rest > 2 ? data[i + 2] : 0);
        char out[4] = {base64_digits[word >> 18], base64_digits[word >> 12 & 63], '=', '='};
        if (rest > 1) out[2] = base64_digits[word >> 6 & 63];
        if (rest > 2) out[3] = base64_digits[word & 63];
        nst_text_add_n(text, out, 4);
    }
    nst_text_add(text, "\"");
}

static void print_literal(NstText *text, const NstGraph *graph, NstDtype dtype, NstScalar value)
{
    const NstString *string = dtype == NST_STR ? nst_strings_get(graph->strings, value.bits) : NULL;
    if (has_literal(dtype))
        nst_expr_print(text, graph->exprs, nst_expr_const(graph->exprs, dtype, value), NULL);
    else if (string)
        nst_text_add_quoted(text, string->at, string->n);
    else
        nst_text_add(text, "bits 0x%llx", (unsigned long long)value.bits);
}

/* True if the type has constant extents and takes exactly so many bytes: what a list of elements can say. */
static bool takes(NstDims *dims, const NstType *type, size_t bytes)
{
    int64_t extent, total = nst_dtype_info(type->dtype)->bytes;
    for (int k = 0; k < type->rank; k++) {
        if (!nst_dim_is_const(dims, type->shape[k], &extent) || extent < 0) return false;
        if (__builtin_mul_overflow(total, extent, &total)) return false;
    }
    return (uint64_t)total == bytes;
}

void nst_graph_print_const(NstText *text, const NstGraph *graph, const NstType *type, const NstConst *constant)
{
    nst_type_print(text, graph->dims, type);
    if (constant->seeded) {
        nst_text_add(text, " seed %lld", (long long)constant->seed);
        return;
    }
    if (!constant->data) {
        nst_text_add(text, " splat ");
        print_literal(text, graph, type->dtype, constant->splat);
        return;
    }
    size_t size = (size_t)nst_dtype_info(type->dtype)->bytes, n = size ? constant->bytes / size : 0;
    nst_text_add(text, " data ");
    bool as_list = type->dtype == NST_STR || (n <= MAX_LIST && has_literal(type->dtype));
    if (!as_list || !takes(graph->dims, type, constant->bytes)) {
        print_base64(text, constant->data, constant->bytes);
        return;
    }
    nst_text_add(text, "[");
    for (size_t i = 0; i < n; i++) {
        if (i > 0) nst_text_add(text, ", ");
        const char *at = (const char *)constant->data + i * size;
        print_literal(text, graph, type->dtype, nst_scalar_load(type->dtype, at));
    }
    nst_text_add(text, "]");
}

/* --- reading --------------------------------------------------------------------------------------------------- */

static NstStatus read_literal(NstGraphReader *r, NstDtype dtype, NstScalar *value)
{
    NstExpr e;
    if (dtype == NST_STR) {
        const char *text;
        size_t n;
        NST_TRY(nst_graph_read_string(r, &text, &n));
        value->bits = nst_strings_put(r->graph->strings, text, n);
        return NST_OK;
    }
    if (!has_literal(dtype)) {
        int64_t bits;
        NST_TRY(nst_graph_read_expect_word(r, "bits"));
        NST_TRY(nst_graph_read_int(r, &bits));
        value->i = bits;
        return NST_OK;
    }
    nst_graph_read_space(r);
    NST_TRY(nst_formula_parse_at(r->ctx, r->graph->exprs, &r->p, NULL, 0, NULL, 0, dtype, NULL, &e));
    const NstExprNode *node = nst_expr(r->graph->exprs, e);
    if (node->op != NST_OP_CONST || node->type != dtype)
        return nst_graph_read_fail(r, "a value of type %s, allowed: a constant of type %s",
                                   nst_dtype_info(node->type)->name, nst_dtype_info(dtype)->name);
    *value = node->imm;
    return NST_OK;
}

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static NstStatus read_base64(NstGraphReader *r, NstConst *constant)
{
    const char *start = ++r->p, *close = start;
    while (*close && *close != '"') close++;
    if (*close != '"') return nst_graph_read_fail(r, "base64 text without an end");
    size_t n = (size_t)(close - start), bytes = 0;
    unsigned char *data = nst_alloc_aligned(r->arena, n / 4 * 3 + 3, 64);
    uint32_t word = 0;
    if (n % 4 != 0) return nst_graph_read_fail(r, "%zu characters of base64, allowed: a multiple of 4", n);
    for (size_t i = 0; i < n; i++) {
        int digit = digit_of(start[i]);
        bool pad = start[i] == '=' && i + 2 >= n && (i + 1 == n || start[i + 1] == '=');
        r->p = start + i;
        if (digit < 0 && !pad) return nst_graph_read_fail(r, "'%c' in base64", start[i]);
        word = word << 6 | (uint32_t)(pad ? 0 : digit);
        if (i % 4 != 3) continue;
        data[bytes++] = (unsigned char)(word >> 16);
        if (start[i - 1] != '=') data[bytes++] = (unsigned char)(word >> 8);
        if (start[i] != '=') data[bytes++] = (unsigned char)word;
    }
    r->p = close + 1;
    constant->data = data;
    constant->bytes = bytes;
    return NST_OK;
}

/* Elements of the type, which has constant extents and at most `limit` bytes. */
static NstStatus count_elements(NstGraphReader *r, const NstType *type, int64_t limit, size_t *n)
{
    int64_t bytes = nst_dtype_info(type->dtype)->bytes, extent;
    for (int k = 0; k < type->rank; k++) {
        if (!nst_dim_is_const(r->graph->dims, type->shape[k], &extent) || extent < 0)
            return nst_graph_read_fail(r, "a constant with data needs constant extents >= 0");
        if (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > limit)
            NST_FAIL(r->ctx, NST_E_LIMIT, "const: more than %lld bytes", (long long)limit);
    }
    *n = (size_t)bytes / (size_t)nst_dtype_info(type->dtype)->bytes;
    return NST_OK;
}

static NstStatus read_list(NstGraphReader *r, const NstType *type, NstConst *constant)
{
    size_t size = (size_t)nst_dtype_info(type->dtype)->bytes, n, i = 0;
    NST_TRY(count_elements(r, type, (int64_t)(r->end - r->p + 1) * 16, &n)); /* no more than the text can hold */
    char *data = nst_alloc_aligned(r->arena, n * size, 64);
    for (; !nst_graph_read_try(r, "]"); i++) {
        NstScalar value;
        if (i > 0) NST_TRY(nst_graph_read_expect(r, ","));
        NST_TRY(read_literal(r, type->dtype, &value));
        if (i >= n) return nst_graph_read_fail(r, "more than %zu elements", n);
        nst_scalar_store(type->dtype, data + i * size, value);
    }
    if (i != n) return nst_graph_read_fail(r, "%zu elements, allowed: %zu", i, n);
    constant->data = data;
    constant->bytes = n * size;
    return NST_OK;
}

NstStatus nst_graph_read_const(NstGraphReader *r, NstStatement *s)
{
    NstConst *constant = &s->attr.constant;
    *constant = (NstConst){.data = NULL};
    NST_TRY(nst_graph_read_type(r, &s->type));
    if (s->type.kind != NST_TYPE_TENSOR) return nst_graph_read_fail(r, "a constant that is no tensor");
    if (nst_graph_read_try_word(r, "splat")) return read_literal(r, s->type.dtype, &constant->splat);
    if (nst_graph_read_try_word(r, "seed")) {
        int64_t seed;
        size_t n;
        NST_TRY(nst_graph_read_int(r, &seed));
        NST_TRY(count_elements(r, &s->type, MAX_SEEDED_BYTES, &n));
        if (!has_literal(s->type.dtype)) return nst_graph_read_fail(r, "seed makes numbers and b1 only");
        constant->bytes = n * (size_t)nst_dtype_info(s->type.dtype)->bytes;
        void *data = nst_alloc_aligned(r->arena, constant->bytes, 64);
        nst_const_fill_seeded(s->type.dtype, data, n, (uint64_t)seed);
        constant->data = data;
        constant->seed = (uint64_t)seed;
        constant->seeded = true;
        return NST_OK;
    }
    NST_TRY(nst_graph_read_expect_word(r, "data"));
    if (nst_graph_read_try(r, "[")) return read_list(r, &s->type, constant);
    nst_graph_read_space(r);
    if (s->type.dtype == NST_STR) return nst_graph_read_fail(r, "strings take data [\"...\", ...] or splat \"...\"");
    if (*r->p == '"') return read_base64(r, constant);
    return nst_graph_read_fail(r, "expected splat, seed, data [...] or data \"base64\"");
}
