/* read_loop.c: the words of .nsl text: names in scope, sizes, formulas, buffers with their layouts. */
#include "ir/read_loop.h"

#include <string.h>

/* --- words --------------------------------------------------------------------------------------------------- */

static void position(const NstReader *q, int *line, int *column)
{
    *line = *column = 1;
    for (const char *c = q->base; c < q->p; c++) {
        *column = *c == '\n' ? 1 : *column + 1;
        *line += *c == '\n';
    }
}

void nst_read_space(NstReader *q)
{
    while (*q->p == ' ' || *q->p == '\t' || *q->p == '\n' || *q->p == '\r') q->p++;
}

/* Fails at the current place: "3:14: expected '=', found 'foo'". */
NstStatus nst_read_fail(NstReader *q, const char *expected)
{
    int line, column;
    nst_read_space(q);
    position(q, &line, &column);
    char found[24];
    size_t n = 0;
    for (; n + 1 < sizeof found && q->p[n] != '\0' && q->p[n] != '\n'; n++)
        found[n] = q->p[n] >= ' ' && q->p[n] <= '~' ? q->p[n] : '?';
    found[n] = '\0';
    return nst_fail(q->ctx, NST_E_PARSE, "%d:%d: expected %s, found '%s'", line, column, expected,
                    *q->p == '\0' ? "end of text" : found);
}

static NstStatus note_position(NstReader *q, const char *at, NstStatus status)
{
    int line, column;
    const char *now = q->p;
    q->p = at;
    position(q, &line, &column);
    q->p = now;
    (void)nst_note(q->ctx, "at %d:%d of the kernel text", line, column);
    return status;
}

size_t nst_read_word_size(const char *p)
{
    size_t n = 0;
    while (nst_text_is_name(p, n + 1)) n++;
    return n;
}

bool nst_read_take(NstReader *q, char c)
{
    nst_read_space(q);
    if (*q->p != c) return false;
    q->p++;
    return true;
}

bool nst_read_take_word(NstReader *q, const char *word)
{
    nst_read_space(q);
    size_t n = nst_read_word_size(q->p);
    if (n != strlen(word) || memcmp(q->p, word, n) != 0) return false;
    q->p += n;
    return true;
}

NstStatus nst_read_expect(NstReader *q, char c)
{
    char text[4] = {'\'', c, '\'', '\0'};
    return nst_read_take(q, c) ? NST_OK : nst_read_fail(q, text);
}

NstStatus nst_read_expect_word(NstReader *q, const char *word)
{
    return nst_read_take_word(q, word) ? NST_OK : nst_read_fail(q, word);
}

NstStatus nst_read_int(NstReader *q, int64_t lo, int64_t hi, int64_t *value)
{
    nst_read_space(q);
    const char *end = nst_parse_int(q->p, value);
    if (end == NULL) return nst_read_fail(q, "an integer");
    if (*value < lo || *value > hi) return nst_read_fail(q, "a number within the allowed range");
    q->p = end;
    return NST_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

NstStatus nst_read_quoted(NstReader *q, const char **text)
{
    NST_TRY(nst_read_expect(q, '"'));
    NstText out;
    nst_text_init(&out, q->arena);
    for (; *q->p != '"'; q->p++) {
        char c = *q->p;
        if (c == '\0' || c == '\n') return nst_read_fail(q, "'\"'");
        if (c == '\\') {
            c = *++q->p;
            if (c == 'n')
                c = '\n';
            else if (c == 't')
                c = '\t';
            else if (c == 'x' && hex_digit(q->p[1]) >= 0 && hex_digit(q->p[2]) >= 0) {
                c = (char)(hex_digit(q->p[1]) * 16 + hex_digit(q->p[2]));
                if (c == '\0') return nst_read_fail(q, "a character that is not NUL");
                q->p += 2;
            } else if (c != '"' && c != '\\')
                return nst_read_fail(q, "an escape \\\" \\\\ \\n \\t \\xHH");
        }
        nst_text_add_n(&out, &c, 1);
    }
    q->p++;
    *text = nst_text_get(&out);
    return NST_OK;
}

/* --- names --------------------------------------------------------------------------------------------------- */

const NstReadName *nst_read_find(const NstReader *q, NstReadKind kind, const char *at, size_t n)
{
    for (uint32_t k = q->scope.n; k-- > 0;) {
        const NstReadName *name = &q->scope.at[k];
        if (name->n == n && memcmp(name->at, at, n) == 0) return name->kind == kind ? name : NULL;
    }
    return NULL;
}

bool nst_read_find_buffer(void *arg, const char *at, size_t n, NstBuf *buffer, NstDtype *type)
{
    const NstReader *q = arg;
    const NstReadName *name = nst_read_find(q, NST_READ_BUFFER, at, n);
    if (name == NULL) return false;
    buffer->i = name->id;
    *type = nst_kernel_buffer(q->kernel, *buffer)->dtype;
    return true;
}

bool nst_read_find_let(void *arg, const char *at, size_t n, uint32_t *id, NstDtype *type)
{
    const NstReader *q = arg;
    const NstReadName *name = nst_read_find(q, NST_READ_LET, at, n);
    if (name == NULL) return false;
    *id = name->id;
    *type = q->kernel->lets.at[name->id].type;
    return true;
}

NstSym nst_read_find_sym(void *arg, const char *at, size_t n)
{
    const NstReadName *name = nst_read_find(arg, NST_READ_SYM, at, n);
    return (NstSym){name != NULL ? name->id : 0};
}

/* A word that names something new: not a keyword, not in use. */
NstStatus nst_read_new_name(NstReader *q, NstReadName *name)
{
    nst_read_space(q);
    *name = (NstReadName){.at = q->p, .n = nst_read_word_size(q->p)};
    if (name->n == 0) return nst_read_fail(q, "a name");
    if (nst_text_reserved(name->at, name->n)) return nst_read_fail(q, "a name that is not a keyword");
    for (uint32_t k = 0; k < q->scope.n; k++)
        if (q->scope.at[k].n == name->n && memcmp(q->scope.at[k].at, name->at, name->n) == 0)
            return nst_read_fail(q, "a name that is not in use");
    if (q->scope.n >= NST_READ_MAX_NAMES) return nst_read_fail(q, "fewer names");
    q->p += name->n;
    return NST_OK;
}

void nst_read_bind(NstReader *q, NstReadName name, NstReadKind kind, uint32_t id)
{
    name.kind = kind;
    name.id = id;
    nst_vec_push(q->arena, &q->scope, name);
}

const char *nst_read_name_text(NstReader *q, const NstReadName *name)
{
    return nst_copy_text(q->arena, name->at, name->n);
}

NstStatus nst_read_known_buffer(NstReader *q, NstBuf *buffer)
{
    nst_read_space(q);
    size_t n = nst_read_word_size(q->p);
    NstDtype type;
    if (n == 0 || !nst_read_find_buffer(q, q->p, n, buffer, &type)) return nst_read_fail(q, "the name of a buffer");
    q->p += n;
    return NST_OK;
}

/* --- dims, expressions --------------------------------------------------------------------------------------- */

NstStatus nst_read_dim(NstReader *q, NstDim *dim)
{
    nst_read_space(q);
    const char *at = q->p;
    NstStatus status = nst_dim_parse(q->ctx, q->kernel->dims, &q->p, nst_read_find_sym, q, dim);
    return status == NST_OK ? NST_OK : note_position(q, at, status);
}

/* [dim, dim, ...], at most NST_MAX_RANK of them. */
NstStatus nst_read_dims(NstReader *q, NstDim *dim, uint32_t *n)
{
    NST_TRY(nst_read_expect(q, '['));
    for (*n = 0; !nst_read_take(q, ']'); ++*n) {
        if (*n > 0) NST_TRY(nst_read_expect(q, ','));
        if (*n == NST_MAX_RANK) return nst_read_fail(q, "at most 16 indices");
        NST_TRY(nst_read_dim(q, &dim[*n]));
    }
    return NST_OK;
}

NstStatus nst_read_formula(NstReader *q, const NstDtype *arg, uint32_t n_args, NstDtype type, NstExpr *e)
{
    nst_read_space(q);
    const char *at = q->p;
    NstStatus status = nst_formula_parse_at(q->ctx, q->kernel->exprs, &q->p, arg, n_args, NULL, 0, type,
                                            n_args == 0 ? &q->names : NULL, e);
    return status == NST_OK ? NST_OK : note_position(q, at, status);
}

NstStatus nst_read_expr(NstReader *q, NstDtype type, NstExpr *e)
{
    return nst_read_formula(q, NULL, 0, type, e);
}

NstStatus nst_read_dtype(NstReader *q, NstDtype *type)
{
    nst_read_space(q);
    size_t n = nst_read_word_size(q->p);
    *type = nst_dtype_parse(q->p, n);
    if (*type == NST_DTYPE_NONE) return nst_read_fail(q, "an element type");
    q->p += n;
    return NST_OK;
}

/* @"name" "name" or @? before what does not come from where its surroundings come from. */
NstStatus nst_read_origin(NstReader *q, NstOrigin *origin)
{
    if (!nst_read_take(q, '@')) return NST_OK;
    *origin = (NstOrigin){0};
    if (nst_read_take(q, '?')) return NST_OK;
    do {
        const char *name;
        NST_TRY(nst_read_quoted(q, &name));
        NstOrigins *origins = q->kernel->origins;
        *origin = nst_origin_merge(origins, *origin, nst_origin_of(origins, name));
        nst_read_space(q);
    } while (*q->p == '"');
    return NST_OK;
}

/* --- buffers ------------------------------------------------------------------------------------------------- */

static NstStatus parse_part(NstReader *q, int rank, NstLayoutPart *part)
{
    int64_t axis;
    NST_TRY(nst_read_int(q, 0, rank - 1, &axis));
    *part = (NstLayoutPart){.axis = (uint8_t)axis, .divisor = 1};
    if (nst_read_take(q, '/')) NST_TRY(nst_read_int(q, 1, INT32_MAX, &part->divisor));
    if (nst_read_take(q, '%')) NST_TRY(nst_read_int(q, 1, INT32_MAX, &part->modulus));
    if (nst_read_take(q, ':')) NST_TRY(nst_read_dim(q, &part->stride));
    return NST_OK;
}

static NstStatus parse_halo(NstReader *q, NstBuffer *buffer)
{
    int64_t *halo = NST_NEW_ARRAY(q->kernel->arena, int64_t, buffer->rank);
    for (int axis = 0; axis < buffer->rank; axis++) NST_TRY(nst_read_int(q, 0, INT32_MAX, &halo[axis]));
    buffer->layout.halo = halo;
    return NST_OK;
}

/* The inside of layout(...); strides left out are none so far. */
static NstStatus parse_layout_items(NstReader *q, NstBuffer *buffer, NstLayoutPart *part)
{
    NstLayout *layout = &buffer->layout;
    for (int n = 0; !nst_read_take(q, ')'); n++) {
        if (n > 0) NST_TRY(nst_read_expect(q, ','));
        if (nst_read_take_word(q, "halo")) {
            NST_TRY(parse_halo(q, buffer));
        } else if (nst_read_take_word(q, "offset")) {
            NST_TRY(nst_read_dim(q, &layout->offset));
        } else if (nst_read_take_word(q, "elements")) {
            NST_TRY(nst_read_dim(q, &layout->elements));
        } else if (nst_read_take_word(q, "bits")) {
            int64_t bits;
            NST_TRY(nst_read_int(q, 1, 128, &bits));
            layout->bits = (int)bits;
        } else if (layout->n_parts == NST_READ_MAX_PARTS) {
            return nst_read_fail(q, "at most 64 parts");
        } else {
            NST_TRY(parse_part(q, buffer->rank, &part[layout->n_parts++]));
        }
    }
    return NST_OK;
}

static NstStatus parse_layout(NstReader *q, NstBuffer *buffer)
{
    NstDims *dims = q->kernel->dims;
    NstLayoutPart *part = NST_NEW_ARRAY(q->kernel->arena, NstLayoutPart, NST_READ_MAX_PARTS);
    NstLayout *layout = &buffer->layout;
    *layout = (NstLayout){.parts = part, .offset = nst_dim_const(dims, 0), .bits = layout->bits};
    NST_TRY(nst_read_expect(q, '('));
    NST_TRY(parse_layout_items(q, buffer, part));
    for (uint32_t k = layout->n_parts; k-- > 0;)
        if (part[k].stride.i == 0) part[k].stride = nst_layout_default_stride(dims, layout, buffer->shape, k);
    if (layout->elements.i == 0) layout->elements = nst_layout_default_elements(dims, layout, buffer->shape);
    return NST_OK;
}

/* name: f32[n, 4] layout(...) */
NstStatus nst_read_buffer(NstReader *q, NstSpace space, NstBuf *id)
{
    NstReadName name;
    NstDtype dtype;
    NstDim shape[NST_MAX_RANK];
    uint32_t rank;
    NST_TRY(nst_read_new_name(q, &name));
    NST_TRY(nst_read_expect(q, ':'));
    NST_TRY(nst_read_dtype(q, &dtype));
    NST_TRY(nst_read_dims(q, shape, &rank));
    const char *text = nst_read_name_text(q, &name);
    *id = space == NST_SPACE_ARG ? nst_kernel_arg(q->kernel, text, dtype, (int)rank, shape, NST_ACCESS_IN)
                                 : nst_kernel_local(q->kernel, text, dtype, space, (int)rank, shape);
    nst_read_bind(q, name, NST_READ_BUFFER, id->i);
    if (nst_read_take_word(q, "layout")) NST_TRY(parse_layout(q, nst_kernel_buffer(q->kernel, *id)));
    return NST_OK;
}
