/* flat.c: see flat.h. */
#include "passes/flat.h"

/* --- linear addresses ---------------------------------------------------------------------------------------- */

void nst_flat_buffer(NstWriter *w, NstBuf module_buffer)
{
    NstBuffer *buffer = nst_kernel_buffer(w->kernel, nst_writer_buffer(w, module_buffer));
    if (nst_writer_entry(w, module_buffer)->flattened) return;
    NstDim elements = nst_dim_resolve(w->module->dims, buffer->layout.elements);
    NstDim *shape = nst_copy(w->kernel->arena, &elements, sizeof *shape);
    buffer->rank = 1;
    buffer->shape = shape;
    buffer->layout = nst_layout_row_major(w->kernel->arena, w->module->dims, buffer->dtype, 1, shape);
    nst_writer_entry(w, module_buffer)->flattened = true;
}

void nst_flat_touched(NstWriter *w, const NstNest *nest)
{
    NstBufList list = {0};
    nst_nest_reads(w->module, nest, &list);
    nst_nest_writes(w->module, nest, &list);
    for (uint32_t b = 0; b < list.n; b++) nst_flat_buffer(w, list.at[b]);
}

typedef struct Flattener {
    NstWriter *w;
    NstArena *arena;
} Flattener;

static NstExpr flat_load(void *arg, NstExprs *exprs, NstExpr e)
{
    Flattener *f = arg;
    const NstExprNode node = *nst_expr(exprs, e);
    if (node.op != NST_OP_LOAD) return (NstExpr){0};
    NstDim offset = nst_writer_offset(f->w, (NstBuf){node.ref}, node.index);
    return nst_expr_load(exprs, node.type, (NstBuf){node.ref}, &offset, 1);
}

static NstExpr flat_expr(Flattener *f, NstExpr e)
{
    return e.i ? nst_expr_rewrite(f->w->module->exprs, e, flat_load, f) : e;
}

static void flatten_accesses(Flattener *f, NstNest *nest)
{
    for (uint32_t k = 0; k < nest->n_lets; k++) nest->let[k].value = flat_expr(f, nest->let[k].value);
    nest->guard = flat_expr(f, nest->guard);
    nest->store_guard = flat_expr(f, nest->store_guard);
    nest->check = flat_expr(f, nest->check);
    for (uint32_t k = 0; k < nest->n_states; k++) nest->state[k].step = flat_expr(f, nest->state[k].step);
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        NstNestOut *out = &nest->out[k];
        NstDim *offset = NST_NEW_ARRAY(f->arena, NstDim, 1);
        *offset = nst_writer_offset(f->w, out->buffer, out->index);
        out->value = flat_expr(f, out->value);
        out->index = offset;
        out->n_index = 1;
    }
}

/* --- what a nest touches ------------------------------------------------------------------------------------- */

typedef struct TouchVisit {
    NstModule *module;
    NstTouched *t;
} TouchVisit;

static void add_address(TouchVisit *v, NstBuf buffer, NstDim address, bool stored)
{
    NstTouched *t = v->t;
    for (uint32_t k = 0; k < t->address.n; k++)
        if (nst_dim_same(t->address.at[k], address) && t->buffer.at[k].i == buffer.i && t->stored.at[k] == stored)
            return;
    nst_vec_push(v->module->arena, &t->address, address);
    nst_vec_push(v->module->arena, &t->buffer, buffer);
    nst_vec_push(v->module->arena, &t->stored, stored);
}

static void note_width(TouchVisit *v, NstDtype type)
{
    int bytes = nst_dtype_info(type)->bytes;
    if (bytes > v->t->widest) v->t->widest = bytes;
}

/* The address of a load in elements of what is loaded: of words where it takes several elements of the buffer as one. */
static NstDim address_of(TouchVisit *v, const NstExprNode *load)
{
    NstDtype stored = nst_module_get(v->module, (NstBuf){load->ref})->buffer.dtype;
    int64_t several = nst_dtype_info(load->type)->bytes / nst_dtype_info(stored)->bytes;
    if (several <= 1) return load->index[0];
    return nst_dim_floordiv(v->module->dims, load->index[0], nst_dim_const(v->module->dims, several));
}

static void visit_touched(void *arg, NstExpr e, const NstExprNode *node)
{
    TouchVisit *v = arg;
    (void)e;
    if (node->op == NST_OP_LOAD) {
        add_address(v, (NstBuf){node->ref}, address_of(v, node), false);
        note_width(v, node->type);
    } else if (node->op == NST_OP_INDEX) {
        nst_vec_push(v->module->arena, &v->t->other, node->index[0]);
    } else if (node->op != NST_OP_CONST && node->type != NST_BOOL) {
        note_width(v, node->type);
    }
}

void nst_touched(NstModule *module, const NstNest *nest, NstTouched *touched)
{
    *touched = (NstTouched){.widest = 1};
    TouchVisit v = {module, touched};
    NstExprs *exprs = module->exprs;
    for (uint32_t k = 0; k < nest->n_lets; k++) nst_expr_visit(exprs, nest->let[k].value, visit_touched, &v);
    if (nest->guard.i) nst_expr_visit(exprs, nest->guard, visit_touched, &v);
    if (nest->store_guard.i) nst_expr_visit(exprs, nest->store_guard, visit_touched, &v);
    if (nest->check.i) nst_expr_visit(exprs, nest->check, visit_touched, &v);
    touched->widest = 1; /* index arithmetic does not count */
    for (uint32_t k = 0; k < nest->n_states; k++) nst_expr_visit(exprs, nest->state[k].step, visit_touched, &v);
    for (uint32_t k = 0; k < nest->n_outs; k++) {
        nst_expr_visit(exprs, nest->out[k].value, visit_touched, &v);
        add_address(&v, nest->out[k].buffer, nest->out[k].index[0], true);
        note_width(&v, nst_module_get(module, nest->out[k].buffer)->buffer.dtype);
    }
}

/* --- order and merging --------------------------------------------------------------------------------------- */

/* Distance along an axis as a dim; none if the address is not linear in it. */
static NstDim step_of(NstDims *dims, NstDim address, NstAxis axis)
{
    NstDim coef, rest;
    if (!nst_dim_uses(dims, address, axis.var)) return nst_dim_const(dims, 0);
    return nst_dim_linear(dims, address, axis.var, &coef, &rest) ? coef : (NstDim){0};
}

/* Axes in the order in which the first output lies in memory, outermost first. */
static void order_axes(NstModule *module, NstNest *nest, uint32_t n_common)
{
    NstDims *dims = module->dims;
    for (uint32_t k = n_common + 1; k < nest->n_axes; k++) {
        for (uint32_t at = k; at > n_common; at--) {
            NstAxis a = nest->axis[at - 1], b = nest->axis[at];
            NstDim outer = step_of(dims, nest->out[0].index[0], a), inner = step_of(dims, nest->out[0].index[0], b);
            if (!outer.i || !inner.i || nst_dim_compare(dims, inner, NST_DIM_GT, outer) != NST_TRUE) break;
            nest->axis[at - 1] = b;
            nest->axis[at] = a;
        }
    }
}

static bool mergeable(NstModule *module, const NstTouched *t, NstAxis outer, NstAxis inner)
{
    NstDims *dims = module->dims;
    for (uint32_t k = 0; k < t->address.n; k++) {
        NstDim far = step_of(dims, t->address.at[k], outer), near = step_of(dims, t->address.at[k], inner);
        if (!far.i || !near.i || !nst_dim_same(far, nst_dim_mul(dims, near, inner.extent))) return false;
    }
    for (uint32_t k = 0; k < t->other.n; k++)
        if (nst_dim_uses(dims, t->other.at[k], outer.var) || nst_dim_uses(dims, t->other.at[k], inner.var))
            return false;
    return true;
}

/* Axes k and k + 1 of a list of *n become one. */
static void merge(NstModule *module, NstNest *nest, NstAxis *list, uint32_t *n, uint32_t k)
{
    NstDims *dims = module->dims;
    NstAxis outer = list[k], inner = list[k + 1];
    const char *name = nst_dims_sym(dims, inner.var)->name;
    NstDim extent = nst_dim_resolve(dims, nst_dim_mul(dims, outer.extent, inner.extent));
    NstAxis both = nst_nest_axis(module, name, extent);
    NstNestSubst subst;
    nst_subst_begin(&subst, module);
    nst_subst_set(&subst, outer.var, nst_dim_const(dims, 0));
    nst_subst_set(&subst, inner.var, nst_dim_sym(dims, both.var));
    list[k] = both;
    for (uint32_t a = k + 1; a + 1 < *n; a++) list[a] = list[a + 1];
    --*n;
    nst_subst_end(&subst, nest);
}

static void merge_axes(NstModule *module, NstNest *nest, NstAxis *list, uint32_t *n, uint32_t first)
{
    for (uint32_t k = first; k + 1 < *n;) {
        NstTouched t;
        nst_touched(module, nest, &t);
        if (!mergeable(module, &t, list[k], list[k + 1])) {
            k++;
            continue;
        }
        merge(module, nest, list, n, k);
        if (k > first) k--;
    }
}

void nst_flat_merge_reduced(NstModule *module, NstNest *flat)
{
    merge_axes(module, flat, flat->reduce, &flat->n_reduce, 0);
}

NstNest *nst_flat_addresses(NstWriter *w, const NstNest *nest)
{
    NstNest *flat = nst_nest_clone(w->module, nest);
    Flattener f = {w, w->module->arena};
    flatten_accesses(&f, flat);
    return flat;
}

void nst_flat_axes(NstModule *module, NstNest *flat, uint32_t n_common)
{
    nst_nest_split_divided(module, flat, n_common);
    if (!flat->n_states && flat->n_outs) order_axes(module, flat, n_common);
    merge_axes(module, flat, flat->axis, &flat->n_axes, n_common);
}

NstNest *nst_flat_nest(NstWriter *w, const NstNest *nest, uint32_t n_common)
{
    NstNest *flat = nst_flat_addresses(w, nest);
    nst_flat_axes(w->module, flat, n_common);
    return flat;
}

NstNest *nst_nest_range(NstModule *module, const NstNest *nest, uint32_t k, NstDim begin, NstDim end)
{
    NstDims *dims = module->dims;
    NstNest *part = nst_nest_clone(module, nest);
    NstAxis whole = part->axis[k];
    part->axis[k] = nst_nest_axis(module, nst_dims_sym(dims, whole.var)->name, nst_dim_sub(dims, end, begin));
    NstNestSubst subst;
    nst_subst_begin(&subst, module);
    nst_subst_set(&subst, whole.var, nst_dim_add(dims, begin, nst_dim_sym(dims, part->axis[k].var)));
    nst_subst_end(&subst, part);
    return part;
}
