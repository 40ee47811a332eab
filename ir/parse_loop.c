/* parse_loop.c: reads .nsl text (docs/IR.md, Loops) into kernels.
 *
 * Recursive descent over a copy of the text in which comments are blanked.  Any bytes are safe: nesting, ranks and counts
 * are bounded, and every error says line:column, what was expected and what stands there.  Types, ranks and scopes beyond
 * name lookup are the verifier's. */
#include "ir/text_loop.h"

#include <string.h>
#include "ir/abi.h"

#define MAX_STATEMENTS 1000000u /* a kernel; larger text is not one of ours */
#define MAX_NAMES      65536u   /* in scope at once */
#define MAX_PARTS      64u      /* of a layout */
#define MAX_TARGETS    64u      /* of a store */

typedef enum NameKind { NAME_SYM, NAME_LET, NAME_BUFFER } NameKind;

typedef struct Name {
    const char *at;
    size_t n;
    NameKind kind;
    uint32_t id;
} Name;

typedef struct Parser {
    NstCtx *ctx;
    const char *base, *p; /* copy without comments */
    NstArena *arena;
    NstKernel *kernel;
    NST_VEC(Name) scope;
    NstFormulaNames names;
    NstOrigin origin; /* of the enclosing statement */
    uint32_t n_statements;
    int depth;
} Parser;

/* --- words --------------------------------------------------------------------------------------------------- */

static void position(const Parser *q, int *line, int *column)
{
    *line = *column = 1;
    for (const char *c = q->base; c < q->p; c++) {
        *column = *c == '\n' ? 1 : *column + 1;
        *line += *c == '\n';
    }
}

static void skip_space(Parser *q)
{
    while (*q->p == ' ' || *q->p == '\t' || *q->p == '\n' || *q->p == '\r') q->p++;
}

/* Fails at the current place: "3:14: expected '=', found 'foo'". */
static NstStatus fail_expected(Parser *q, const char *expected)
{
    int line, column;
    skip_space(q);
    position(q, &line, &column);
    char found[24];
    size_t n = 0;
    for (; n + 1 < sizeof found && q->p[n] != '\0' && q->p[n] != '\n'; n++)
        found[n] = q->p[n] >= ' ' && q->p[n] <= '~' ? q->p[n] : '?';
    found[n] = '\0';
    return nst_fail(q->ctx, NST_E_PARSE, "%d:%d: expected %s, found '%s'", line, column, expected,
                    *q->p == '\0' ? "end of text" : found);
}

static NstStatus note_position(Parser *q, const char *at, NstStatus status)
{
    int line, column;
    const char *now = q->p;
    q->p = at;
    position(q, &line, &column);
    q->p = now;
    (void)nst_note(q->ctx, "at %d:%d of the kernel text", line, column);
    return status;
}

static size_t word_size(const char *p)
{
    size_t n = 0;
    while (nst_text_is_name(p, n + 1)) n++;
    return n;
}

static bool take(Parser *q, char c)
{
    skip_space(q);
    if (*q->p != c) return false;
    q->p++;
    return true;
}

static bool take_word(Parser *q, const char *word)
{
    skip_space(q);
    size_t n = word_size(q->p);
    if (n != strlen(word) || memcmp(q->p, word, n) != 0) return false;
    q->p += n;
    return true;
}

static NstStatus expect(Parser *q, char c)
{
    char text[4] = {'\'', c, '\'', '\0'};
    return take(q, c) ? NST_OK : fail_expected(q, text);
}

static NstStatus expect_word(Parser *q, const char *word)
{
    return take_word(q, word) ? NST_OK : fail_expected(q, word);
}

static NstStatus parse_int(Parser *q, int64_t lo, int64_t hi, int64_t *value)
{
    skip_space(q);
    const char *end = nst_parse_int(q->p, value);
    if (end == NULL) return fail_expected(q, "an integer");
    if (*value < lo || *value > hi) return fail_expected(q, "a number within the allowed range");
    q->p = end;
    return NST_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static NstStatus parse_quoted(Parser *q, const char **text)
{
    NST_TRY(expect(q, '"'));
    NstText out;
    nst_text_init(&out, q->arena);
    for (; *q->p != '"'; q->p++) {
        char c = *q->p;
        if (c == '\0' || c == '\n') return fail_expected(q, "'\"'");
        if (c == '\\') {
            c = *++q->p;
            if (c == 'n')
                c = '\n';
            else if (c == 't')
                c = '\t';
            else if (c == 'x' && hex_digit(q->p[1]) >= 0 && hex_digit(q->p[2]) >= 0) {
                c = (char)(hex_digit(q->p[1]) * 16 + hex_digit(q->p[2]));
                if (c == '\0') return fail_expected(q, "a character that is not NUL");
                q->p += 2;
            } else if (c != '"' && c != '\\')
                return fail_expected(q, "an escape \\\" \\\\ \\n \\t \\xHH");
        }
        nst_text_add_n(&out, &c, 1);
    }
    q->p++;
    *text = nst_text_get(&out);
    return NST_OK;
}

/* --- names --------------------------------------------------------------------------------------------------- */

static const Name *find_name(const Parser *q, NameKind kind, const char *at, size_t n)
{
    for (uint32_t k = q->scope.n; k-- > 0;) {
        const Name *name = &q->scope.at[k];
        if (name->n == n && memcmp(name->at, at, n) == 0) return name->kind == kind ? name : NULL;
    }
    return NULL;
}

static bool find_buffer(void *arg, const char *at, size_t n, NstBuf *buffer, NstDtype *type)
{
    const Parser *q = arg;
    const Name *name = find_name(q, NAME_BUFFER, at, n);
    if (name == NULL) return false;
    buffer->i = name->id;
    *type = nst_kernel_buffer(q->kernel, *buffer)->dtype;
    return true;
}

static bool find_let(void *arg, const char *at, size_t n, uint32_t *id, NstDtype *type)
{
    const Parser *q = arg;
    const Name *name = find_name(q, NAME_LET, at, n);
    if (name == NULL) return false;
    *id = name->id;
    *type = q->kernel->lets.at[name->id].type;
    return true;
}

static NstSym find_sym(void *arg, const char *at, size_t n)
{
    const Name *name = find_name(arg, NAME_SYM, at, n);
    return (NstSym){name != NULL ? name->id : 0};
}

/* A word that names something new: not a keyword, not in use. */
static NstStatus parse_new_name(Parser *q, Name *name)
{
    skip_space(q);
    *name = (Name){.at = q->p, .n = word_size(q->p)};
    if (name->n == 0) return fail_expected(q, "a name");
    if (nst_text_reserved(name->at, name->n)) return fail_expected(q, "a name that is not a keyword");
    for (uint32_t k = 0; k < q->scope.n; k++)
        if (q->scope.at[k].n == name->n && memcmp(q->scope.at[k].at, name->at, name->n) == 0)
            return fail_expected(q, "a name that is not in use");
    if (q->scope.n >= MAX_NAMES) return fail_expected(q, "fewer names");
    q->p += name->n;
    return NST_OK;
}

static void bind_name(Parser *q, Name name, NameKind kind, uint32_t id)
{
    name.kind = kind;
    name.id = id;
    nst_vec_push(q->arena, &q->scope, name);
}

static const char *name_text(Parser *q, const Name *name)
{
    return nst_copy_text(q->arena, name->at, name->n);
}

static NstStatus parse_known_buffer(Parser *q, NstBuf *buffer)
{
    skip_space(q);
    size_t n = word_size(q->p);
    NstDtype type;
    if (n == 0 || !find_buffer(q, q->p, n, buffer, &type)) return fail_expected(q, "the name of a buffer");
    q->p += n;
    return NST_OK;
}

/* --- dims, expressions --------------------------------------------------------------------------------------- */

static NstStatus parse_dim(Parser *q, NstDim *dim)
{
    skip_space(q);
    const char *at = q->p;
    NstStatus status = nst_dim_parse(q->ctx, q->kernel->dims, &q->p, find_sym, q, dim);
    return status == NST_OK ? NST_OK : note_position(q, at, status);
}

/* [dim, dim, ...], at most NST_MAX_RANK of them. */
static NstStatus parse_dims(Parser *q, NstDim *dim, uint32_t *n)
{
    NST_TRY(expect(q, '['));
    for (*n = 0; !take(q, ']'); ++*n) {
        if (*n > 0) NST_TRY(expect(q, ','));
        if (*n == NST_MAX_RANK) return fail_expected(q, "at most 16 indices");
        NST_TRY(parse_dim(q, &dim[*n]));
    }
    return NST_OK;
}

static NstStatus parse_formula(Parser *q, const NstDtype *arg, uint32_t n_args, NstDtype type, NstExpr *e)
{
    skip_space(q);
    const char *at = q->p;
    NstStatus status = nst_formula_parse_at(q->ctx, q->kernel->exprs, &q->p, arg, n_args, NULL, 0, type,
                                            n_args == 0 ? &q->names : NULL, e);
    return status == NST_OK ? NST_OK : note_position(q, at, status);
}

static NstStatus parse_expr(Parser *q, NstDtype type, NstExpr *e)
{
    return parse_formula(q, NULL, 0, type, e);
}

static NstStatus parse_dtype(Parser *q, NstDtype *type)
{
    skip_space(q);
    size_t n = word_size(q->p);
    *type = nst_dtype_parse(q->p, n);
    if (*type == NST_DTYPE_NONE) return fail_expected(q, "an element type");
    q->p += n;
    return NST_OK;
}

/* @"name" "name" or @? before what does not come from where its surroundings come from. */
static NstStatus parse_origin(Parser *q, NstOrigin *origin)
{
    if (!take(q, '@')) return NST_OK;
    *origin = (NstOrigin){0};
    if (take(q, '?')) return NST_OK;
    do {
        const char *name;
        NST_TRY(parse_quoted(q, &name));
        NstOrigins *origins = q->kernel->origins;
        *origin = nst_origin_merge(origins, *origin, nst_origin_of(origins, name));
        skip_space(q);
    } while (*q->p == '"');
    return NST_OK;
}

/* --- buffers ------------------------------------------------------------------------------------------------- */

static NstStatus parse_part(Parser *q, int rank, NstLayoutPart *part)
{
    int64_t axis;
    NST_TRY(parse_int(q, 0, rank - 1, &axis));
    *part = (NstLayoutPart){.axis = (uint8_t)axis, .divisor = 1};
    if (take(q, '/')) NST_TRY(parse_int(q, 1, INT32_MAX, &part->divisor));
    if (take(q, '%')) NST_TRY(parse_int(q, 1, INT32_MAX, &part->modulus));
    if (take(q, ':')) NST_TRY(parse_dim(q, &part->stride));
    return NST_OK;
}

static NstStatus parse_halo(Parser *q, NstBuffer *buffer)
{
    int64_t *halo = NST_NEW_ARRAY(q->kernel->arena, int64_t, buffer->rank);
    for (int axis = 0; axis < buffer->rank; axis++) NST_TRY(parse_int(q, 0, INT32_MAX, &halo[axis]));
    buffer->layout.halo = halo;
    return NST_OK;
}

/* The inside of layout(...); strides left out are none so far. */
static NstStatus parse_layout_items(Parser *q, NstBuffer *buffer, NstLayoutPart *part)
{
    NstLayout *layout = &buffer->layout;
    for (int n = 0; !take(q, ')'); n++) {
        if (n > 0) NST_TRY(expect(q, ','));
        if (take_word(q, "halo")) {
            NST_TRY(parse_halo(q, buffer));
        } else if (take_word(q, "offset")) {
            NST_TRY(parse_dim(q, &layout->offset));
        } else if (take_word(q, "elements")) {
            NST_TRY(parse_dim(q, &layout->elements));
        } else if (take_word(q, "bits")) {
            int64_t bits;
            NST_TRY(parse_int(q, 1, 128, &bits));
            layout->bits = (int)bits;
        } else if (layout->n_parts == MAX_PARTS) {
            return fail_expected(q, "at most 64 parts");
        } else {
            NST_TRY(parse_part(q, buffer->rank, &part[layout->n_parts++]));
        }
    }
    return NST_OK;
}

static NstStatus parse_layout(Parser *q, NstBuffer *buffer)
{
    NstDims *dims = q->kernel->dims;
    NstLayoutPart *part = NST_NEW_ARRAY(q->kernel->arena, NstLayoutPart, MAX_PARTS);
    NstLayout *layout = &buffer->layout;
    *layout = (NstLayout){.parts = part, .offset = nst_dim_const(dims, 0), .bits = layout->bits};
    NST_TRY(expect(q, '('));
    NST_TRY(parse_layout_items(q, buffer, part));
    for (uint32_t k = layout->n_parts; k-- > 0;)
        if (part[k].stride.i == 0) part[k].stride = nst_layout_default_stride(dims, layout, buffer->shape, k);
    if (layout->elements.i == 0) layout->elements = nst_layout_default_elements(dims, layout, buffer->shape);
    return NST_OK;
}

/* name: f32[n, 4] layout(...) */
static NstStatus parse_buffer(Parser *q, NstSpace space, NstBuf *id)
{
    Name name;
    NstDtype dtype;
    NstDim shape[NST_MAX_RANK];
    uint32_t rank;
    NST_TRY(parse_new_name(q, &name));
    NST_TRY(expect(q, ':'));
    NST_TRY(parse_dtype(q, &dtype));
    NST_TRY(parse_dims(q, shape, &rank));
    const char *text = name_text(q, &name);
    *id = space == NST_SPACE_ARG ? nst_kernel_arg(q->kernel, text, dtype, (int)rank, shape, NST_ACCESS_IN)
                                 : nst_kernel_local(q->kernel, text, dtype, space, (int)rank, shape);
    bind_name(q, name, NAME_BUFFER, id->i);
    if (take_word(q, "layout")) NST_TRY(parse_layout(q, nst_kernel_buffer(q->kernel, *id)));
    return NST_OK;
}

/* --- statements ---------------------------------------------------------------------------------------------- */

static NstStatus parse_block(Parser *q, NstBlock *block);

static NstStatus parse_for(Parser *q, NstStmt **stmt)
{
    NstForKind kind = NST_FOR_SERIAL;
    for (int k = NST_FOR_PARALLEL; k <= NST_FOR_UNROLL; k++)
        if (take_word(q, nst_for_text((NstForKind)k))) kind = (NstForKind)k;
    Name name;
    NstDim begin, end;
    int64_t step = 1, width = 0;
    NST_TRY(parse_new_name(q, &name));
    NST_TRY(expect_word(q, "in"));
    NST_TRY(parse_dim(q, &begin));
    NST_TRY(expect(q, '.'));
    NST_TRY(expect(q, '.'));
    NST_TRY(parse_dim(q, &end));
    if (take_word(q, "step")) NST_TRY(parse_int(q, 1, INT32_MAX, &step));
    if (kind == NST_FOR_VECTOR) {
        NST_TRY(expect_word(q, "width"));
        NST_TRY(parse_int(q, 1, 4096, &width));
    }
    NstSym var = nst_kernel_index(q->kernel, name_text(q, &name), begin, end);
    *stmt = nst_stmt_for(q->kernel, var, begin, end, step, kind, width);
    uint32_t mark = q->scope.n;
    bind_name(q, name, NAME_SYM, var.i);
    NST_TRY(parse_block(q, &(*stmt)->u.loop.body));
    q->scope.n = mark;
    return NST_OK;
}

static NstStatus parse_if(Parser *q, NstStmt **stmt)
{
    NstExpr condition;
    NST_TRY(expect(q, '('));
    NST_TRY(parse_expr(q, NST_BOOL, &condition));
    NST_TRY(expect(q, ')'));
    *stmt = nst_stmt_if(q->kernel, condition);
    NST_TRY(parse_block(q, &(*stmt)->u.branch.then));
    if (take_word(q, "else")) NST_TRY(parse_block(q, &(*stmt)->u.branch.otherwise));
    return NST_OK;
}

static NstStatus parse_let(Parser *q, NstStmt **stmt)
{
    Name name;
    NstDtype type;
    NstExpr value;
    NST_TRY(parse_new_name(q, &name));
    NST_TRY(expect(q, ':'));
    NST_TRY(parse_dtype(q, &type));
    NST_TRY(expect(q, '='));
    NST_TRY(parse_expr(q, type, &value));
    uint32_t id = nst_kernel_let(q->kernel, name_text(q, &name), type);
    bind_name(q, name, NAME_LET, id);
    *stmt = nst_stmt_let(q->kernel, id, value);
    return NST_OK;
}

static NstStatus parse_index_let(Parser *q, NstStmt **stmt)
{
    Name name;
    NstDim lo, hi;
    NstExpr value;
    NST_TRY(parse_new_name(q, &name));
    bool checked = take_word(q, "checked");
    NST_TRY(expect_word(q, "in"));
    NST_TRY(parse_dim(q, &lo));
    NST_TRY(expect(q, '.'));
    NST_TRY(expect(q, '.'));
    NST_TRY(parse_dim(q, &hi));
    NST_TRY(expect(q, '='));
    NST_TRY(parse_expr(q, NST_I64, &value));
    NstSym var = nst_kernel_index(q->kernel, name_text(q, &name), lo, hi);
    bind_name(q, name, NAME_SYM, var.i);
    *stmt = nst_stmt_index(q->kernel, var, value, lo, hi, checked);
    return NST_OK;
}

/* buffer[index], buffer[index] ...: the same index each time. */
static NstStatus parse_targets(Parser *q, NstStoreTarget *target, uint32_t *n, NstDim *index, uint32_t *n_index)
{
    *n = 0;
    do {
        NstDim again[NST_MAX_RANK];
        uint32_t n_again;
        if (*n == MAX_TARGETS) return fail_expected(q, "at most 64 targets");
        target[*n] = (NstStoreTarget){0};
        NST_TRY(parse_known_buffer(q, &target[*n].buffer));
        const char *at = q->p;
        NST_TRY(parse_dims(q, again, &n_again));
        bool same = *n == 0 || (n_again == *n_index && memcmp(index, again, n_again * sizeof *index) == 0);
        if (!same) {
            q->p = at;
            return fail_expected(q, "the same index for all targets");
        }
        memcpy(index, again, n_again * sizeof *index);
        *n_index = n_again;
        ++*n;
    } while (take(q, ','));
    return NST_OK;
}

static NstStatus parse_values(Parser *q, NstStoreTarget *target, uint32_t n)
{
    NST_TRY(expect(q, '='));
    for (uint32_t k = 0; k < n; k++) {
        if (k > 0) NST_TRY(expect(q, ','));
        NST_TRY(parse_expr(q, nst_kernel_buffer(q->kernel, target[k].buffer)->dtype, &target[k].value));
    }
    return NST_OK;
}

static NstStatus parse_merge(Parser *q, NstStoreTarget *target, uint32_t n)
{
    NstDtype type[2 * MAX_TARGETS];
    for (uint32_t k = 0; k < n; k++) type[k] = type[n + k] = nst_kernel_buffer(q->kernel, target[k].buffer)->dtype;
    NST_TRY(expect_word(q, "merge"));
    for (uint32_t k = 0; k < n; k++) {
        if (k > 0) NST_TRY(expect(q, ','));
        NST_TRY(parse_formula(q, type, 2 * n, type[k], &target[k].merge));
    }
    NST_TRY(expect_word(q, "from"));
    for (uint32_t k = 0; k < n; k++) {
        if (k > 0) NST_TRY(expect(q, ','));
        NST_TRY(parse_expr(q, type[k], &target[k].identity));
    }
    return NST_OK;
}

static NstStatus parse_store(Parser *q, bool update, NstStmt **stmt)
{
    NstStoreTarget *target = NST_NEW_ARRAY(q->arena, NstStoreTarget, MAX_TARGETS);
    NstDim index[NST_MAX_RANK];
    uint32_t n, n_index = 0;
    NST_TRY(parse_targets(q, target, &n, index, &n_index));
    NST_TRY(parse_values(q, target, n));
    if (update) NST_TRY(parse_merge(q, target, n));
    *stmt = nst_stmt_update(q->kernel, n, target, index, n_index);
    (*stmt)->u.store.update = update;
    return NST_OK;
}

static NstStatus parse_prefetch(Parser *q, NstStmt **stmt)
{
    NstBuf buffer;
    NstDim index[NST_MAX_RANK];
    uint32_t n;
    int64_t level;
    NST_TRY(parse_known_buffer(q, &buffer));
    NST_TRY(parse_dims(q, index, &n));
    NST_TRY(expect_word(q, "level"));
    NST_TRY(parse_int(q, 1, 3, &level));
    *stmt = nst_stmt_prefetch(q->kernel, buffer, index, n, (int)level, take_word(q, "write"));
    return NST_OK;
}

static NstStatus parse_call(Parser *q, NstStmt **stmt)
{
    NstExpr arg[16];
    NstBuf buffer[16];
    uint32_t helper = 0, n_args = 0, n_buffers = 0;
    while (helper < NST_HELPER_COUNT && !take_word(q, nst_helper_text(helper))) helper++;
    if (helper == NST_HELPER_COUNT) return fail_expected(q, "the name of a helper");
    NST_TRY(expect(q, '('));
    while (!take(q, ')')) {
        if (n_args > 0) NST_TRY(expect(q, ','));
        if (n_args == 16) return fail_expected(q, "at most 16 arguments");
        NST_TRY(parse_expr(q, NST_DTYPE_NONE, &arg[n_args++]));
    }
    if (take_word(q, "on")) {
        do {
            if (n_buffers == 16) return fail_expected(q, "at most 16 buffers");
            NST_TRY(parse_known_buffer(q, &buffer[n_buffers++]));
        } while (take(q, ','));
    }
    *stmt = nst_stmt_call(q->kernel, helper, arg, n_args, buffer, n_buffers);
    return NST_OK;
}

static NstStatus parse_assert(Parser *q, NstStmt **stmt)
{
    NstExpr condition;
    const char *message;
    NST_TRY(expect(q, '('));
    NST_TRY(parse_expr(q, NST_BOOL, &condition));
    NST_TRY(expect(q, ')'));
    NST_TRY(parse_quoted(q, &message));
    *stmt = nst_stmt_assert(q->kernel, condition, message);
    return NST_OK;
}

static NstStatus parse_while(Parser *q, NstStmt **stmt)
{
    *stmt = nst_stmt_while(q->kernel);
    return parse_block(q, &(*stmt)->u.repeat.body);
}

static NstStatus parse_alloc(Parser *q, NstSpace space, NstOrigin origin, NstStmt **stmt)
{
    NstBuf buffer;
    NST_TRY(parse_buffer(q, space, &buffer));
    nst_kernel_buffer(q->kernel, buffer)->origin = origin;
    *stmt = nst_stmt_alloc(q->kernel, buffer);
    return NST_OK;
}

static NstStatus parse_stmt(Parser *q, NstStmt **stmt)
{
    if (take_word(q, "for")) return parse_for(q, stmt);
    if (take_word(q, "while")) return parse_while(q, stmt);
    if (take_word(q, "if")) return parse_if(q, stmt);
    if (take_word(q, "let")) return parse_let(q, stmt);
    if (take_word(q, "index")) return parse_index_let(q, stmt);
    for (int space = NST_SPACE_REG; space <= NST_SPACE_SHARED; space++)
        if (take_word(q, nst_space_text((NstSpace)space))) return parse_alloc(q, (NstSpace)space, q->origin, stmt);
    if (take_word(q, "update")) return parse_store(q, true, stmt);
    if (take_word(q, "store")) return parse_store(q, false, stmt);
    if (take_word(q, "prefetch")) return parse_prefetch(q, stmt);
    if (take_word(q, "call")) return parse_call(q, stmt);
    if (take_word(q, "assert")) return parse_assert(q, stmt);
    *stmt = NULL;
    if (take_word(q, "break"))
        *stmt = nst_stmt_break(q->kernel);
    else if (take_word(q, "barrier"))
        *stmt = nst_stmt_barrier(q->kernel);
    if (*stmt != NULL) return NST_OK;
    size_t n = word_size(q->p);
    if (n == 0 || find_name(q, NAME_BUFFER, q->p, n) == NULL) return fail_expected(q, "a statement");
    return parse_store(q, false, stmt);
}

static NstStatus parse_block(Parser *q, NstBlock *block)
{
    if (q->depth == NST_TEXT_MAX_DEPTH) return fail_expected(q, "at most 64 nested blocks");
    NST_TRY(expect(q, '{'));
    uint32_t mark = q->scope.n;
    q->depth++;
    while (!take(q, '}')) {
        NstOrigin outer = q->origin;
        NstStmt *stmt = NULL;
        if (q->n_statements++ == MAX_STATEMENTS) return fail_expected(q, "fewer statements");
        NST_TRY(parse_origin(q, &q->origin));
        NstOrigin origin = q->origin;
        NST_TRY(parse_stmt(q, &stmt));
        stmt->origin = origin;
        q->origin = outer;
        nst_block_add(q->kernel, block, stmt);
    }
    q->depth--;
    q->scope.n = mark;
    return NST_OK;
}

/* --- kernels ------------------------------------------------------------------------------------------------- */

static NstStatus parse_param_facts(Parser *q, NstSymInfo *info)
{
    for (;;) {
        if (take_word(q, "value"))
            info->kind = NST_SYM_VALUE;
        else if (take_word(q, "counted"))
            info->kind = NST_SYM_COUNTED;
        else if (take_word(q, "min"))
            NST_TRY(parse_int(q, INT64_MIN, INT64_MAX, &info->lo));
        else if (take_word(q, "max"))
            NST_TRY(parse_int(q, INT64_MIN, INT64_MAX, &info->hi));
        else if (take_word(q, "multiple"))
            NST_TRY(parse_int(q, 1, INT32_MAX, &info->multiple));
        else
            return NST_OK;
    }
}

/* A size symbol: the one of that name in the table, or a new one with the facts stated. */
static NstStatus parse_param(Parser *q)
{
    Name name;
    NST_TRY(parse_new_name(q, &name));
    const char *text = name_text(q, &name);
    skip_space(q);
    if (*q->p == '"') NST_TRY(parse_quoted(q, &text));
    NstDims *dims = q->kernel->dims;
    NstSymInfo facts = {.kind = NST_SYM_INPUT, .lo = 0, .hi = INT64_MAX, .multiple = 1};
    NST_TRY(parse_param_facts(q, &facts));
    NstSym sym = nst_dims_find_sym(dims, text, strlen(text));
    if (sym.i == 0) {
        sym = nst_dims_new_sym(dims, facts.kind, text, facts.lo, facts.hi);
        nst_dims_sym(dims, sym)->multiple = facts.multiple;
    }
    nst_kernel_param(q->kernel, sym);
    bind_name(q, name, NAME_SYM, sym.i);
    return NST_OK;
}

static NstStatus parse_arg(Parser *q)
{
    NstOrigin origin = q->origin;
    NST_TRY(parse_origin(q, &origin));
    bool constant = take_word(q, "const");
    int access = NST_ACCESS_IN;
    while (access <= NST_ACCESS_INOUT && !take_word(q, nst_access_text((NstAccess)access))) access++;
    if (access > NST_ACCESS_INOUT) return fail_expected(q, "in, out, inout or '{'");
    NstBuf id;
    NST_TRY(parse_buffer(q, NST_SPACE_ARG, &id));
    NstBuffer *buffer = nst_kernel_buffer(q->kernel, id);
    buffer->access = (NstAccess)access;
    buffer->constant = constant;
    buffer->origin = origin;
    (void)take(q, ',');
    return NST_OK;
}

static NstStatus parse_kernel(Parser *q)
{
    NST_TRY(parse_origin(q, &q->kernel->origin));
    q->origin = q->kernel->origin;
    NST_TRY(expect_word(q, "kernel"));
    skip_space(q);
    if (*q->p == '"') {
        NST_TRY(parse_quoted(q, &q->kernel->name));
    } else {
        Name name;
        NST_TRY(parse_new_name(q, &name));
        q->kernel->name = nst_copy_text(q->kernel->arena, name.at, name.n);
    }
    NST_TRY(expect(q, '('));
    for (int n = 0; !take(q, ')'); n++) {
        if (n > 0) NST_TRY(expect(q, ','));
        NST_TRY(parse_param(q));
    }
    for (skip_space(q); *q->p != '{'; skip_space(q)) NST_TRY(parse_arg(q));
    return parse_block(q, &q->kernel->body);
}

/* A copy of the text in which comments are spaces: from # to the end of the line, and lines that begin with ;.  Quoted
 * strings are left alone. */
static char *blank_comments(NstArena *arena, const char *text)
{
    char *copy = nst_strdup(arena, text);
    bool quoted = false, fresh = true; /* fresh: only spaces so far on the line */
    for (char *c = copy; *c != '\0'; c++) {
        bool comment = !quoted && (*c == '#' || (*c == ';' && fresh));
        for (; comment && *c != '\0' && *c != '\n'; c++) *c = ' ';
        if (*c == '\0') break;
        if (quoted && *c == '\\' && c[1] != '\0')
            c++;
        else if (*c == '"')
            quoted = !quoted;
        fresh = *c == '\n' || (fresh && (*c == ' ' || *c == '\t' || *c == '\r'));
        if (*c == '\n') quoted = false;
    }
    return copy;
}

NstStatus nst_kernel_parse_at(NstCtx *ctx, NstArena *arena, NstDims *dims, NstExprs *exprs, NstOrigins *origins,
                              const char **p, NstKernel **kernel)
{
    Parser q = {.ctx = ctx, .arena = arena};
    q.base = q.p = blank_comments(arena, *p);
    q.kernel = nst_kernel_new(arena, dims, exprs, origins, "");
    q.names = (NstFormulaNames){.arg = &q, .find_buffer = find_buffer, .find_let = find_let, .find_sym = find_sym};
    NST_TRY(parse_kernel(&q));
    skip_space(&q);
    *p += q.p - q.base;
    *kernel = q.kernel;
    return NST_OK;
}

NstStatus nst_kernel_parse(NstCtx *ctx, NstArena *arena, const char *text, size_t n, NstKernel **kernel)
{
    const char *nul = memchr(text, '\0', n);
    NST_CHECK(ctx, nul == NULL, NST_E_PARSE, "kernel text: byte %zu is NUL", (size_t)(nul - text));
    const char *p = nst_copy_text(arena, text, n);
    NstDims *dims = nst_dims_new(arena);
    NstExprs *exprs = nst_exprs_new(arena, dims);
    NST_TRY(nst_kernel_parse_at(ctx, arena, dims, exprs, nst_origins_new(arena), &p, kernel));
    NST_CHECK(ctx, *p == '\0', NST_E_PARSE, "kernel text: more text after the kernel: '%.20s'", p);
    return NST_OK;
}
