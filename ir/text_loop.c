/* text_loop.c: prints kernels as .nsl text (docs/IR.md, Loops) and as the canonical text that is hashed.
 *
 * Names in the IR are hints and may repeat; the text gives every variable in scope a name of its own, so that parsing the
 * text finds the same variables.  Cost: linear in the kernel. */
#include "ir/text_loop.h"

#include <string.h>
#include "ir/base/map.h"

typedef enum NameKind { NAME_SYM, NAME_LET, NAME_BUFFER } NameKind;

typedef struct Binding {
    NameKind kind;
    uint32_t id;
    const char *name;
    uint64_t key; /* of the name in `used` */
} Binding;

typedef struct Printer {
    NstText *text;
    NstArena *arena;
    const NstKernel *kernel;
    bool canonical;
    NstMap bound[3];     /* by NameKind: id -> 1 + its binding, 0 = not in scope */
    uint32_t counter[3]; /* canonical: how many were named */
    NstMap used;         /* hash of a name in scope -> 1 */
    NST_VEC(Binding) scope;
    NstFormulaNames names;
    NstOrigin origin; /* of the enclosing statement */
    int depth;
} Printer;

/* --- names --------------------------------------------------------------------------------------------------- */

static uint64_t name_key(const char *name)
{
    return nst_hash_bytes(name, strlen(name), 0);
}

/* The hint made a legal name that is not in use. */
static const char *choose_name(Printer *p, const char *hint)
{
    NstText text;
    nst_text_init(&text, p->arena);
    if (hint == NULL || hint[0] == '\0') hint = "v";
    if (hint[0] >= '0' && hint[0] <= '9') nst_text_add(&text, "_");
    for (const char *c = hint; *c != '\0'; c++) {
        bool ok = nst_text_is_name(c, 1) || (*c >= '0' && *c <= '9');
        nst_text_add_n(&text, ok ? c : "_", 1);
    }
    if (nst_text_reserved(text.at, text.n)) nst_text_add(&text, "_");
    size_t stem = text.n;
    for (int k = 1; nst_map_get(&p->used, name_key(text.at), 0) != 0; k++) {
        text.at[stem] = '\0';
        text.n = stem;
        nst_text_add(&text, "%d", k);
    }
    return text.at;
}

static const char *bind_name(Printer *p, NameKind kind, uint32_t id, const char *hint)
{
    static const char prefix[] = {'s', 't', 'b'};
    const char *name;
    if (p->canonical)
        name = nst_format(p->arena, "%c%u", prefix[kind], p->counter[kind]++);
    else
        name = choose_name(p, hint);
    Binding binding = {.kind = kind, .id = id, .name = name, .key = name_key(name)};
    nst_map_put(&p->used, binding.key, 1);
    nst_vec_push(p->arena, &p->scope, binding);
    nst_map_put(&p->bound[kind], id, p->scope.n);
    return name;
}

static void leave_scope(Printer *p, uint32_t mark)
{
    while (p->scope.n > mark) {
        Binding binding = nst_vec_pop(&p->scope);
        nst_map_put(&p->used, binding.key, 0);
        nst_map_put(&p->bound[binding.kind], binding.id, 0);
    }
}

/* A name for what is used outside its scope (broken IR, shown as it is; it does not parse). */
static const char *lookup(Printer *p, NameKind kind, uint32_t id)
{
    static const char *const what[] = {"sym", "let", "buffer"};
    uint32_t at = nst_map_get(&p->bound[kind], id, 0);
    return at != 0 ? p->scope.at[at - 1].name : nst_format(p->arena, "?%s#%u", what[kind], id);
}

static const char *buffer_name(void *arg, NstBuf buffer)
{
    return lookup(arg, NAME_BUFFER, buffer.i);
}

static const char *let_name(void *arg, uint32_t id)
{
    return lookup(arg, NAME_LET, id);
}

static const char *sym_name(void *arg, NstSym sym)
{
    return lookup(arg, NAME_SYM, sym.i);
}

/* For the formula printer, which asks for the element type of the buffer it is printing. */
static bool find_buffer(void *arg, const char *name, size_t n, NstBuf *buffer, NstDtype *type)
{
    const Printer *p = arg;
    (void)name;
    (void)n;
    if (buffer->i == 0 || buffer->i >= p->kernel->buffers.n) return false;
    *type = p->kernel->buffers.at[buffer->i].dtype;
    return true;
}

static const char *sym_hint(Printer *p, NstSym sym)
{
    return nst_dims_sym(p->kernel->dims, sym)->name;
}

/* --- pieces -------------------------------------------------------------------------------------------------- */

static void put_dim(Printer *p, NstDim dim)
{
    if (dim.i == 0)
        nst_text_add(p->text, "?none");
    else
        nst_dim_print(p->text, p->kernel->dims, dim, sym_name, p);
}

static void put_index(Printer *p, const NstDim *index, uint32_t n)
{
    nst_text_add(p->text, "[");
    for (uint32_t k = 0; k < n; k++) {
        nst_text_add(p->text, k ? ", " : "");
        put_dim(p, index[k]);
    }
    nst_text_add(p->text, "]");
}

static void put_expr(Printer *p, NstExpr e)
{
    if (e.i == 0)
        nst_text_add(p->text, "?none");
    else
        nst_expr_print(p->text, p->kernel->exprs, e, &p->names);
}

/* The prefix @"name" of what does not come from where its surroundings come from. */
static void put_origin(Printer *p, NstOrigin origin)
{
    if (p->canonical || origin.i == p->origin.i) return;
    const char *const *names;
    uint32_t n = nst_origin_names(p->kernel->origins, origin, &names);
    nst_text_add(p->text, n ? "@" : "@?");
    for (uint32_t k = 0; k < n; k++) {
        nst_text_add(p->text, k ? " " : "");
        nst_text_add_quoted(p->text, names[k], strlen(names[k]));
    }
    nst_text_add(p->text, " ");
}

static void put_layout(Printer *p, const NstBuffer *buffer)
{
    const NstLayout *layout = &buffer->layout;
    NstDims *dims = p->kernel->dims;
    int bits = 8 * nst_dtype_info(buffer->dtype)->bytes;
    bool dense = nst_dim_same(layout->elements, nst_layout_default_elements(dims, layout, buffer->shape));
    bool halo = false;
    for (int axis = 0; axis < buffer->rank; axis++) halo = halo || nst_layout_halo(layout, axis) != 0;
    if (dense && !halo && layout->bits == bits && nst_layout_is_row_major(dims, layout, buffer->rank, buffer->shape))
        return;
    nst_text_add(p->text, " layout(");
    const char *separator = "";
    for (uint32_t k = 0; k < layout->n_parts; k++, separator = ", ") {
        const NstLayoutPart *part = &layout->parts[k];
        nst_text_add(p->text, "%s%d", separator, part->axis);
        if (part->divisor != 1) nst_text_add(p->text, "/%lld", (long long)part->divisor);
        if (part->modulus != 0) nst_text_add(p->text, "%%%lld", (long long)part->modulus);
        if (nst_dim_same(part->stride, nst_layout_default_stride(dims, layout, buffer->shape, k))) continue;
        nst_text_add(p->text, ":");
        put_dim(p, part->stride);
    }
    if (halo) {
        nst_text_add(p->text, "%shalo", separator);
        for (int axis = 0; axis < buffer->rank; axis++)
            nst_text_add(p->text, " %lld", (long long)nst_layout_halo(layout, axis));
        separator = ", ";
    }
    if (!nst_dim_same(layout->offset, nst_dim_const(dims, 0))) {
        nst_text_add(p->text, "%soffset ", separator);
        put_dim(p, layout->offset);
        separator = ", ";
    }
    if (!dense) {
        nst_text_add(p->text, "%selements ", separator);
        put_dim(p, layout->elements);
        separator = ", ";
    }
    if (layout->bits != bits) nst_text_add(p->text, "%sbits %d", separator, layout->bits);
    nst_text_add(p->text, ")");
}

/* name: f32[n, 4] layout(...) */
static void put_buffer(Printer *p, NstBuf id)
{
    const NstBuffer *buffer = nst_kernel_buffer(p->kernel, id);
    const char *name = bind_name(p, NAME_BUFFER, id.i, buffer->name);
    nst_text_add(p->text, "%s: %s", name, nst_dtype_info(buffer->dtype)->name);
    put_index(p, buffer->shape, (uint32_t)buffer->rank);
    put_layout(p, buffer);
}

static void put_arg(Printer *p, NstBuf id)
{
    const NstBuffer *buffer = nst_kernel_buffer(p->kernel, id);
    NstOrigin outer = p->origin;
    nst_text_add(p->text, "    ");
    put_origin(p, buffer->origin);
    nst_text_add(p->text, "%s%s%s ", buffer->constant ? "const " : "", buffer->streamed ? "stream " : "",
                 nst_access_text(buffer->access));
    put_buffer(p, id);
    nst_text_add(p->text, "\n");
    p->origin = outer;
}

/* A size symbol with the facts that are not the default (INPUT, >= 0). */
static void put_param(Printer *p, NstSym sym)
{
    const NstSymInfo *info = nst_dims_sym(p->kernel->dims, sym);
    const char *name = bind_name(p, NAME_SYM, sym.i, info->name);
    nst_text_add(p->text, "%s", name);
    if (!p->canonical && strcmp(name, info->name) != 0) {
        nst_text_add(p->text, " ");
        nst_text_add_quoted(p->text, info->name, strlen(info->name));
    }
    if (info->kind == NST_SYM_VALUE) nst_text_add(p->text, " value");
    if (info->kind == NST_SYM_COUNTED) nst_text_add(p->text, " counted");
    if (info->lo != 0) nst_text_add(p->text, " min %lld", (long long)info->lo);
    if (info->hi != INT64_MAX) nst_text_add(p->text, " max %lld", (long long)info->hi);
    if (info->multiple != 1) nst_text_add(p->text, " multiple %lld", (long long)info->multiple);
}

/* --- statements ---------------------------------------------------------------------------------------------- */

static void put_block(Printer *p, const NstBlock *block);

static void put_indent(Printer *p)
{
    for (int k = 0; k < p->depth; k++) nst_text_add_n(p->text, "  ", 2);
}

static void put_for(Printer *p, const NstFor *loop)
{
    nst_text_add(p->text, "for %s%s", nst_for_text(loop->kind), loop->kind == NST_FOR_SERIAL ? "" : " ");
    uint32_t mark = p->scope.n;
    nst_text_add(p->text, "%s in ", bind_name(p, NAME_SYM, loop->var.i, sym_hint(p, loop->var)));
    put_dim(p, loop->begin);
    nst_text_add(p->text, "..");
    put_dim(p, loop->end);
    if (loop->step != 1) nst_text_add(p->text, " step %lld", (long long)loop->step);
    if (loop->kind == NST_FOR_VECTOR) nst_text_add(p->text, " width %lld", (long long)loop->width);
    nst_text_add(p->text, " ");
    put_block(p, &loop->body);
    leave_scope(p, mark);
}

static void put_store(Printer *p, const NstStore *store)
{
    nst_text_add(p->text, "%s", store->update ? "update " : store->n_targets == 1 ? "" : "store ");
    for (uint32_t k = 0; k < store->n_targets; k++) {
        nst_text_add(p->text, "%s%s", k ? ", " : "", lookup(p, NAME_BUFFER, store->target[k].buffer.i));
        put_index(p, store->index, store->n_index);
    }
    for (uint32_t k = 0; k < store->n_targets; k++) {
        nst_text_add(p->text, k ? ", " : " = ");
        put_expr(p, store->target[k].value);
    }
    for (uint32_t k = 0; store->update && k < store->n_targets; k++) {
        nst_text_add(p->text, k ? ", " : " merge ");
        put_expr(p, store->target[k].merge);
    }
    for (uint32_t k = 0; store->update && k < store->n_targets; k++) {
        nst_text_add(p->text, k ? ", " : " from ");
        put_expr(p, store->target[k].identity);
    }
}

static void put_if(Printer *p, const NstStmt *stmt)
{
    nst_text_add(p->text, "if (");
    put_expr(p, stmt->u.branch.condition);
    nst_text_add(p->text, ") ");
    put_block(p, &stmt->u.branch.then);
    if (stmt->u.branch.otherwise.n == 0) return;
    nst_text_add(p->text, " else ");
    put_block(p, &stmt->u.branch.otherwise);
}

static void put_let(Printer *p, const NstStmt *stmt)
{
    uint32_t id = stmt->u.let.id;
    NstLetInfo info = {.name = "?", .type = NST_DTYPE_NONE};
    if (id != 0 && id < p->kernel->lets.n) info = p->kernel->lets.at[id];
    nst_text_add(p->text, "let %s: %s = ", bind_name(p, NAME_LET, id, info.name), nst_dtype_info(info.type)->name);
    put_expr(p, stmt->u.let.value);
}

static void put_index_let(Printer *p, const NstStmt *stmt)
{
    const char *name = bind_name(p, NAME_SYM, stmt->u.index.var.i, sym_hint(p, stmt->u.index.var));
    nst_text_add(p->text, "index %s%s in ", name, stmt->u.index.checked ? " checked" : "");
    put_dim(p, stmt->u.index.lo);
    nst_text_add(p->text, "..");
    put_dim(p, stmt->u.index.hi);
    nst_text_add(p->text, " = ");
    put_expr(p, stmt->u.index.value);
}

static void put_prefetch(Printer *p, const NstStmt *stmt)
{
    nst_text_add(p->text, "prefetch %s", lookup(p, NAME_BUFFER, stmt->u.prefetch.buffer.i));
    put_index(p, stmt->u.prefetch.index, stmt->u.prefetch.n_index);
    nst_text_add(p->text, " level %d%s", stmt->u.prefetch.level, stmt->u.prefetch.write ? " write" : "");
}

/* matrix_load m = x[i, k] rows 0 columns 1; matrix_store y[i, j] = m rows ..; matrix_dot acc = dot4_u8s8(a, b); matrix_zero m */
static void put_matrix(Printer *p, const NstMatrix *m)
{
    const char *matrix = lookup(p, NAME_BUFFER, m->matrix.i);
    nst_text_add(p->text, "%s ", nst_matrix_text(m->op));
    if (m->op == NST_MATRIX_STORE) {
        nst_text_add(p->text, "%s", lookup(p, NAME_BUFFER, m->memory.i));
        put_index(p, m->index, m->n_index);
        nst_text_add(p->text, " = ");
    }
    nst_text_add(p->text, "%s", matrix);
    if (m->op == NST_MATRIX_LOAD) {
        nst_text_add(p->text, " = %s", lookup(p, NAME_BUFFER, m->memory.i));
        put_index(p, m->index, m->n_index);
    }
    if (m->op == NST_MATRIX_LOAD || m->op == NST_MATRIX_STORE)
        nst_text_add(p->text, " rows %d columns %d", m->row_axis, m->col_axis);
    if (m->op == NST_MATRIX_DOT)
        nst_text_add(p->text, " = %s(%s, %s)", nst_scalar_info(m->step)->text, lookup(p, NAME_BUFFER, m->a.i),
                     lookup(p, NAME_BUFFER, m->b.i));
}

static void put_call(Printer *p, const NstStmt *stmt)
{
    const char *helper = nst_helper_text(stmt->u.call.helper);
    nst_text_add(p->text, "call %s(", helper ? helper : "?");
    for (uint32_t k = 0; k < stmt->u.call.n_args; k++) {
        nst_text_add(p->text, k ? ", " : "");
        put_expr(p, stmt->u.call.arg[k]);
    }
    nst_text_add(p->text, ")");
    for (uint32_t k = 0; k < stmt->u.call.n_buffers; k++)
        nst_text_add(p->text, "%s%s", k ? ", " : " on ", lookup(p, NAME_BUFFER, stmt->u.call.buffer[k].i));
}

static void put_assert(Printer *p, const NstStmt *stmt)
{
    nst_text_add(p->text, "assert (");
    put_expr(p, stmt->u.check.condition);
    nst_text_add(p->text, ") ");
    uint32_t id = stmt->u.check.message;
    const char *message = id < p->kernel->messages.n ? p->kernel->messages.at[id] : "?";
    if (p->canonical)
        nst_text_add(p->text, "%u", id); /* the number is what the code reports */
    else
        nst_text_add_quoted(p->text, message, strlen(message));
}

static void put_stmt(Printer *p, const NstStmt *stmt)
{
    NstOrigin outer = p->origin;
    put_indent(p);
    put_origin(p, stmt->origin);
    p->origin = stmt->origin;
    switch (stmt->kind) {
    case NST_STMT_FOR: put_for(p, &stmt->u.loop); break;
    case NST_STMT_WHILE:
        nst_text_add(p->text, "while ");
        put_block(p, &stmt->u.repeat.body);
        break;
    case NST_STMT_BREAK: nst_text_add(p->text, "break"); break;
    case NST_STMT_IF: put_if(p, stmt); break;
    case NST_STMT_LET: put_let(p, stmt); break;
    case NST_STMT_INDEX: put_index_let(p, stmt); break;
    case NST_STMT_ALLOC:
        nst_text_add(p->text, "%s ", nst_space_text(nst_kernel_buffer(p->kernel, stmt->u.alloc.buffer)->space));
        put_buffer(p, stmt->u.alloc.buffer);
        break;
    case NST_STMT_STORE: put_store(p, &stmt->u.store); break;
    case NST_STMT_PREFETCH: put_prefetch(p, stmt); break;
    case NST_STMT_CALL: put_call(p, stmt); break;
    case NST_STMT_MATRIX: put_matrix(p, &stmt->u.matrix); break;
    case NST_STMT_BARRIER: nst_text_add(p->text, "barrier"); break;
    case NST_STMT_ASSERT: put_assert(p, stmt); break;
    }
    nst_text_add(p->text, "\n");
    p->origin = outer;
}

static void put_block(Printer *p, const NstBlock *block)
{
    uint32_t mark = p->scope.n;
    nst_text_add(p->text, "{\n");
    p->depth++;
    for (uint32_t k = 0; k < block->n; k++) put_stmt(p, block->at[k]);
    p->depth--;
    put_indent(p);
    nst_text_add(p->text, "}");
    leave_scope(p, mark);
}

/* --- kernels ------------------------------------------------------------------------------------------------- */

static void put_header(Printer *p)
{
    const NstKernel *kernel = p->kernel;
    put_origin(p, kernel->origin);
    p->origin = kernel->origin;
    nst_text_add(p->text, "kernel ");
    size_t n = strlen(kernel->name);
    bool plain = nst_text_is_name(kernel->name, n) && !nst_text_reserved(kernel->name, n);
    if (plain && !p->canonical) nst_text_add(p->text, "%s", kernel->name);
    if (!plain && !p->canonical) nst_text_add_quoted(p->text, kernel->name, n);
    nst_text_add(p->text, "(");
    for (uint32_t k = 0; k < kernel->params.n; k++) {
        nst_text_add(p->text, k ? ", " : "");
        put_param(p, kernel->params.at[k]);
    }
    nst_text_add(p->text, ")\n");
    for (uint32_t k = 1; k <= kernel->n_args; k++) put_arg(p, (NstBuf){k});
}

static void print(NstText *text, const NstKernel *kernel, bool canonical)
{
    Printer p = {.text = text, .arena = text->arena, .kernel = kernel, .canonical = canonical};
    for (int k = 0; k < 3; k++) nst_map_init(&p.bound[k], p.arena);
    nst_map_init(&p.used, p.arena);
    p.names = (NstFormulaNames){
        .arg = &p, .buffer_name = buffer_name, .let_name = let_name, .sym_name = sym_name, .find_buffer = find_buffer};
    put_header(&p);
    put_block(&p, &kernel->body);
    nst_text_add(text, "\n");
}

void nst_kernel_print(NstText *text, const NstKernel *kernel)
{
    print(text, kernel, false);
}

void nst_kernel_canonical(NstText *text, const NstKernel *kernel)
{
    print(text, kernel, true);
}
