/* parse_loop.c: reads .nsl text (docs/IR.md, Loops) into kernels.
 *
 * Recursive descent over a copy of the text in which comments are blanked.  Any bytes are safe: nesting, ranks and counts
 * are bounded, and every error says line:column, what was expected and what stands there.  Types, ranks and scopes beyond
 * name lookup are the verifier's. */
#include "ir/read_loop.h"

#include <string.h>
#include "ir/abi.h"

/* --- statements ---------------------------------------------------------------------------------------------- */

static NstStatus parse_block(NstReader *q, NstBlock *block);

static NstStatus parse_for(NstReader *q, NstStmt **stmt)
{
    NstForKind kind = NST_FOR_SERIAL;
    for (int k = NST_FOR_PARALLEL; k <= NST_FOR_UNROLL; k++)
        if (nst_read_take_word(q, nst_for_text((NstForKind)k))) kind = (NstForKind)k;
    NstReadName name;
    NstDim begin, end;
    int64_t step = 1, width = 0;
    NST_TRY(nst_read_new_name(q, &name));
    NST_TRY(nst_read_expect_word(q, "in"));
    NST_TRY(nst_read_dim(q, &begin));
    NST_TRY(nst_read_expect(q, '.'));
    NST_TRY(nst_read_expect(q, '.'));
    NST_TRY(nst_read_dim(q, &end));
    if (nst_read_take_word(q, "step")) NST_TRY(nst_read_int(q, 1, INT32_MAX, &step));
    if (kind == NST_FOR_VECTOR) {
        NST_TRY(nst_read_expect_word(q, "width"));
        NST_TRY(nst_read_int(q, 1, 4096, &width));
    }
    NstSym var = nst_kernel_index(q->kernel, nst_read_name_text(q, &name), begin, end);
    *stmt = nst_stmt_for(q->kernel, var, begin, end, step, kind, width);
    uint32_t mark = q->scope.n;
    nst_read_bind(q, name, NST_READ_SYM, var.i);
    NST_TRY(parse_block(q, &(*stmt)->u.loop.body));
    q->scope.n = mark;
    return NST_OK;
}

static NstStatus parse_if(NstReader *q, NstStmt **stmt)
{
    NstExpr condition;
    NST_TRY(nst_read_expect(q, '('));
    NST_TRY(nst_read_expr(q, NST_BOOL, &condition));
    NST_TRY(nst_read_expect(q, ')'));
    *stmt = nst_stmt_if(q->kernel, condition);
    NST_TRY(parse_block(q, &(*stmt)->u.branch.then));
    if (nst_read_take_word(q, "else")) NST_TRY(parse_block(q, &(*stmt)->u.branch.otherwise));
    return NST_OK;
}

static NstStatus parse_let(NstReader *q, NstStmt **stmt)
{
    NstReadName name;
    NstDtype type;
    NstExpr value;
    NST_TRY(nst_read_new_name(q, &name));
    NST_TRY(nst_read_expect(q, ':'));
    NST_TRY(nst_read_dtype(q, &type));
    NST_TRY(nst_read_expect(q, '='));
    NST_TRY(nst_read_expr(q, type, &value));
    uint32_t id = nst_kernel_let(q->kernel, nst_read_name_text(q, &name), type);
    nst_read_bind(q, name, NST_READ_LET, id);
    *stmt = nst_stmt_let(q->kernel, id, value);
    return NST_OK;
}

static NstStatus parse_index_let(NstReader *q, NstStmt **stmt)
{
    NstReadName name;
    NstDim lo, hi;
    NstExpr value;
    NST_TRY(nst_read_new_name(q, &name));
    bool checked = nst_read_take_word(q, "checked");
    NST_TRY(nst_read_expect_word(q, "in"));
    NST_TRY(nst_read_dim(q, &lo));
    NST_TRY(nst_read_expect(q, '.'));
    NST_TRY(nst_read_expect(q, '.'));
    NST_TRY(nst_read_dim(q, &hi));
    NST_TRY(nst_read_expect(q, '='));
    NST_TRY(nst_read_expr(q, NST_I64, &value));
    NstSym var = nst_kernel_index(q->kernel, nst_read_name_text(q, &name), lo, hi);
    nst_read_bind(q, name, NST_READ_SYM, var.i);
    *stmt = nst_stmt_index(q->kernel, var, value, lo, hi, checked);
    return NST_OK;
}

/* buffer[index], buffer[index] ...: the same index each time. */
static NstStatus parse_targets(NstReader *q, NstStoreTarget *target, uint32_t *n, NstDim *index, uint32_t *n_index)
{
    *n = 0;
    do {
        NstDim again[NST_MAX_RANK];
        uint32_t n_again;
        if (*n == NST_READ_MAX_TARGETS) return nst_read_fail(q, "at most 64 targets");
        target[*n] = (NstStoreTarget){0};
        NST_TRY(nst_read_known_buffer(q, &target[*n].buffer));
        const char *at = q->p;
        NST_TRY(nst_read_dims(q, again, &n_again));
        bool same = *n == 0 || (n_again == *n_index && memcmp(index, again, n_again * sizeof *index) == 0);
        if (!same) {
            q->p = at;
            return nst_read_fail(q, "the same index for all targets");
        }
        memcpy(index, again, n_again * sizeof *index);
        *n_index = n_again;
        ++*n;
    } while (nst_read_take(q, ','));
    return NST_OK;
}

static NstStatus parse_values(NstReader *q, NstStoreTarget *target, uint32_t n)
{
    NST_TRY(nst_read_expect(q, '='));
    for (uint32_t k = 0; k < n; k++) {
        if (k > 0) NST_TRY(nst_read_expect(q, ','));
        NST_TRY(nst_read_expr(q, nst_kernel_buffer(q->kernel, target[k].buffer)->dtype, &target[k].value));
    }
    return NST_OK;
}

static NstStatus parse_merge(NstReader *q, NstStoreTarget *target, uint32_t n)
{
    NstDtype type[2 * NST_READ_MAX_TARGETS];
    for (uint32_t k = 0; k < n; k++) type[k] = type[n + k] = nst_kernel_buffer(q->kernel, target[k].buffer)->dtype;
    NST_TRY(nst_read_expect_word(q, "merge"));
    for (uint32_t k = 0; k < n; k++) {
        if (k > 0) NST_TRY(nst_read_expect(q, ','));
        NST_TRY(nst_read_formula(q, type, 2 * n, type[k], &target[k].merge));
    }
    NST_TRY(nst_read_expect_word(q, "from"));
    for (uint32_t k = 0; k < n; k++) {
        if (k > 0) NST_TRY(nst_read_expect(q, ','));
        NST_TRY(nst_read_expr(q, type[k], &target[k].identity));
    }
    return NST_OK;
}

static NstStatus parse_store(NstReader *q, bool update, NstStmt **stmt)
{
    NstStoreTarget *target = NST_NEW_ARRAY(q->arena, NstStoreTarget, NST_READ_MAX_TARGETS);
    NstDim index[NST_MAX_RANK];
    uint32_t n, n_index = 0;
    NST_TRY(parse_targets(q, target, &n, index, &n_index));
    NST_TRY(parse_values(q, target, n));
    if (update) NST_TRY(parse_merge(q, target, n));
    *stmt = nst_stmt_update(q->kernel, n, target, index, n_index);
    (*stmt)->u.store.update = update;
    return NST_OK;
}

static NstStatus parse_prefetch(NstReader *q, NstStmt **stmt)
{
    NstBuf buffer;
    NstDim index[NST_MAX_RANK];
    uint32_t n;
    int64_t level;
    NST_TRY(nst_read_known_buffer(q, &buffer));
    NST_TRY(nst_read_dims(q, index, &n));
    NST_TRY(nst_read_expect_word(q, "level"));
    NST_TRY(nst_read_int(q, 1, 3, &level));
    *stmt = nst_stmt_prefetch(q->kernel, buffer, index, n, (int)level, nst_read_take_word(q, "write"));
    return NST_OK;
}

static NstStatus parse_call(NstReader *q, NstStmt **stmt)
{
    NstExpr arg[16];
    NstBuf buffer[16];
    uint32_t helper = 0, n_args = 0, n_buffers = 0;
    while (helper < NST_HELPER_COUNT && !nst_read_take_word(q, nst_helper_text(helper))) helper++;
    if (helper == NST_HELPER_COUNT) return nst_read_fail(q, "the name of a helper");
    NST_TRY(nst_read_expect(q, '('));
    while (!nst_read_take(q, ')')) {
        if (n_args > 0) NST_TRY(nst_read_expect(q, ','));
        if (n_args == 16) return nst_read_fail(q, "at most 16 arguments");
        NST_TRY(nst_read_expr(q, NST_DTYPE_NONE, &arg[n_args++]));
    }
    if (nst_read_take_word(q, "on")) {
        do {
            if (n_buffers == 16) return nst_read_fail(q, "at most 16 buffers");
            NST_TRY(nst_read_known_buffer(q, &buffer[n_buffers++]));
        } while (nst_read_take(q, ','));
    }
    *stmt = nst_stmt_call(q->kernel, helper, arg, n_args, buffer, n_buffers);
    return NST_OK;
}

static NstStatus parse_dot(NstReader *q, NstMatrix *m)
{
    int op = 0;
    while (op < NST_OP_COUNT && (nst_scalar_info((NstScalarOp)op)->rule != NST_RULE_DOT ||
                                 !nst_read_take_word(q, nst_scalar_info((NstScalarOp)op)->text)))
        op++;
    if (op == NST_OP_COUNT) return nst_read_fail(q, "a packed dot product");
    m->step = (NstScalarOp)op;
    NST_TRY(nst_read_expect(q, '('));
    NST_TRY(nst_read_known_buffer(q, &m->a));
    NST_TRY(nst_read_expect(q, ','));
    NST_TRY(nst_read_known_buffer(q, &m->b));
    return nst_read_expect(q, ')');
}

static NstStatus parse_matrix(NstReader *q, NstMatrixOp op, NstStmt **stmt)
{
    NstDim index[NST_MAX_RANK];
    NstMatrix m = {.op = op, .index = index};
    int64_t axis[2] = {0, 0};
    NST_TRY(nst_read_known_buffer(q, op == NST_MATRIX_STORE ? &m.memory : &m.matrix));
    if (op == NST_MATRIX_STORE) NST_TRY(nst_read_dims(q, index, &m.n_index));
    if (op != NST_MATRIX_ZERO) NST_TRY(nst_read_expect(q, '='));
    if (op == NST_MATRIX_DOT) NST_TRY(parse_dot(q, &m));
    if (op == NST_MATRIX_STORE) NST_TRY(nst_read_known_buffer(q, &m.matrix));
    if (op == NST_MATRIX_LOAD) {
        NST_TRY(nst_read_known_buffer(q, &m.memory));
        NST_TRY(nst_read_dims(q, index, &m.n_index));
    }
    if (op == NST_MATRIX_LOAD || op == NST_MATRIX_STORE) {
        NST_TRY(nst_read_expect_word(q, "rows"));
        NST_TRY(nst_read_int(q, 0, NST_MAX_RANK - 1, &axis[0]));
        NST_TRY(nst_read_expect_word(q, "columns"));
        NST_TRY(nst_read_int(q, 0, NST_MAX_RANK - 1, &axis[1]));
    }
    m.row_axis = (int)axis[0];
    m.col_axis = (int)axis[1];
    *stmt = nst_stmt_matrix(q->kernel, &m);
    return NST_OK;
}

static NstStatus parse_assert(NstReader *q, NstStmt **stmt)
{
    NstExpr condition;
    const char *message;
    NST_TRY(nst_read_expect(q, '('));
    NST_TRY(nst_read_expr(q, NST_BOOL, &condition));
    NST_TRY(nst_read_expect(q, ')'));
    NST_TRY(nst_read_quoted(q, &message));
    *stmt = nst_stmt_assert(q->kernel, condition, message);
    return NST_OK;
}

static NstStatus parse_while(NstReader *q, NstStmt **stmt)
{
    *stmt = nst_stmt_while(q->kernel);
    return parse_block(q, &(*stmt)->u.repeat.body);
}

static NstStatus parse_alloc(NstReader *q, NstSpace space, NstOrigin origin, NstStmt **stmt)
{
    NstBuf buffer;
    NST_TRY(nst_read_buffer(q, space, &buffer));
    nst_kernel_buffer(q->kernel, buffer)->origin = origin;
    *stmt = nst_stmt_alloc(q->kernel, buffer);
    return NST_OK;
}

static NstStatus parse_stmt(NstReader *q, NstStmt **stmt)
{
    if (nst_read_take_word(q, "for")) return parse_for(q, stmt);
    if (nst_read_take_word(q, "while")) return parse_while(q, stmt);
    if (nst_read_take_word(q, "if")) return parse_if(q, stmt);
    if (nst_read_take_word(q, "let")) return parse_let(q, stmt);
    if (nst_read_take_word(q, "index")) return parse_index_let(q, stmt);
    for (int space = NST_SPACE_REG; space <= NST_SPACE_MATRIX; space++)
        if (nst_read_take_word(q, nst_space_text((NstSpace)space)))
            return parse_alloc(q, (NstSpace)space, q->origin, stmt);
    if (nst_read_take_word(q, "update")) return parse_store(q, true, stmt);
    if (nst_read_take_word(q, "store")) return parse_store(q, false, stmt);
    if (nst_read_take_word(q, "prefetch")) return parse_prefetch(q, stmt);
    if (nst_read_take_word(q, "call")) return parse_call(q, stmt);
    if (nst_read_take_word(q, "assert")) return parse_assert(q, stmt);
    for (int op = NST_MATRIX_ZERO; op <= NST_MATRIX_DOT; op++)
        if (nst_read_take_word(q, nst_matrix_text((NstMatrixOp)op))) return parse_matrix(q, (NstMatrixOp)op, stmt);
    *stmt = NULL;
    if (nst_read_take_word(q, "break"))
        *stmt = nst_stmt_break(q->kernel);
    else if (nst_read_take_word(q, "barrier"))
        *stmt = nst_stmt_barrier(q->kernel);
    if (*stmt != NULL) return NST_OK;
    size_t n = nst_read_word_size(q->p);
    if (n == 0 || nst_read_find(q, NST_READ_BUFFER, q->p, n) == NULL) return nst_read_fail(q, "a statement");
    return parse_store(q, false, stmt);
}

static NstStatus parse_block(NstReader *q, NstBlock *block)
{
    if (q->depth == NST_TEXT_MAX_DEPTH) return nst_read_fail(q, "at most 64 nested blocks");
    NST_TRY(nst_read_expect(q, '{'));
    uint32_t mark = q->scope.n;
    q->depth++;
    while (!nst_read_take(q, '}')) {
        NstOrigin outer = q->origin;
        NstStmt *stmt = NULL;
        if (q->n_statements++ == NST_READ_MAX_STATEMENTS) return nst_read_fail(q, "fewer statements");
        NST_TRY(nst_read_origin(q, &q->origin));
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

static NstStatus parse_param_facts(NstReader *q, NstSymInfo *info)
{
    for (;;) {
        if (nst_read_take_word(q, "value"))
            info->kind = NST_SYM_VALUE;
        else if (nst_read_take_word(q, "counted"))
            info->kind = NST_SYM_COUNTED;
        else if (nst_read_take_word(q, "min"))
            NST_TRY(nst_read_int(q, INT64_MIN, INT64_MAX, &info->lo));
        else if (nst_read_take_word(q, "max"))
            NST_TRY(nst_read_int(q, INT64_MIN, INT64_MAX, &info->hi));
        else if (nst_read_take_word(q, "multiple"))
            NST_TRY(nst_read_int(q, 1, INT32_MAX, &info->multiple));
        else
            return NST_OK;
    }
}

/* A size symbol: the one of that name in the table, or a new one with the facts stated. */
static NstStatus parse_param(NstReader *q)
{
    NstReadName name;
    NST_TRY(nst_read_new_name(q, &name));
    const char *text = nst_read_name_text(q, &name);
    nst_read_space(q);
    if (*q->p == '"') NST_TRY(nst_read_quoted(q, &text));
    NstDims *dims = q->kernel->dims;
    NstSymInfo facts = {.kind = NST_SYM_INPUT, .lo = 0, .hi = INT64_MAX, .multiple = 1};
    NST_TRY(parse_param_facts(q, &facts));
    NstSym sym = nst_dims_find_sym(dims, text, strlen(text));
    if (sym.i == 0) {
        sym = nst_dims_new_sym(dims, facts.kind, text, facts.lo, facts.hi);
        nst_dims_sym(dims, sym)->multiple = facts.multiple;
    }
    nst_kernel_param(q->kernel, sym);
    nst_read_bind(q, name, NST_READ_SYM, sym.i);
    return NST_OK;
}

static NstStatus parse_arg(NstReader *q)
{
    NstOrigin origin = q->origin;
    NST_TRY(nst_read_origin(q, &origin));
    bool constant = nst_read_take_word(q, "const"), streamed = nst_read_take_word(q, "stream");
    int access = NST_ACCESS_IN;
    while (access <= NST_ACCESS_INOUT && !nst_read_take_word(q, nst_access_text((NstAccess)access))) access++;
    if (access > NST_ACCESS_INOUT) return nst_read_fail(q, "in, out, inout or '{'");
    NstBuf id;
    NST_TRY(nst_read_buffer(q, NST_SPACE_ARG, &id));
    NstBuffer *buffer = nst_kernel_buffer(q->kernel, id);
    buffer->access = (NstAccess)access;
    buffer->constant = constant;
    buffer->streamed = streamed;
    buffer->origin = origin;
    (void)nst_read_take(q, ',');
    return NST_OK;
}

static NstStatus parse_kernel(NstReader *q)
{
    NST_TRY(nst_read_origin(q, &q->kernel->origin));
    q->origin = q->kernel->origin;
    NST_TRY(nst_read_expect_word(q, "kernel"));
    nst_read_space(q);
    if (*q->p == '"') {
        NST_TRY(nst_read_quoted(q, &q->kernel->name));
    } else {
        NstReadName name;
        NST_TRY(nst_read_new_name(q, &name));
        q->kernel->name = nst_copy_text(q->kernel->arena, name.at, name.n);
    }
    NST_TRY(nst_read_expect(q, '('));
    for (int n = 0; !nst_read_take(q, ')'); n++) {
        if (n > 0) NST_TRY(nst_read_expect(q, ','));
        NST_TRY(parse_param(q));
    }
    for (nst_read_space(q); *q->p != '{'; nst_read_space(q)) NST_TRY(parse_arg(q));
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
    NstReader q = {.ctx = ctx, .arena = arena};
    q.base = q.p = blank_comments(arena, *p);
    q.kernel = nst_kernel_new(arena, dims, exprs, origins, "");
    q.names = (NstFormulaNames){
        .arg = &q, .find_buffer = nst_read_find_buffer, .find_let = nst_read_find_let, .find_sym = nst_read_find_sym};
    NST_TRY(parse_kernel(&q));
    nst_read_space(&q);
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
