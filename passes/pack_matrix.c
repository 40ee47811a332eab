/* pack_matrix.c: operands of matrix registers laid out register by register.
 *
 * The operand (in words of packed elements, with all that it computes) is written by a pack nest into a buffer whose
 * logical axes are those it depends on, last x (rows or columns) and words of k, and whose layout is
 *   [outer axes][x / block][other reductions][words / register][register]
 * so that a register is loaded from one run of memory and the next one along k follows. */
#include "passes/sched.h"

/* Bytes of a word: what one element of a matrix register holds. */
enum { WORD_BYTES = 4 };

typedef struct Axes {
    NstAxis axis[NST_MAX_RANK];
    int n, n_outer; /* x and the words of k are the last two */
} Axes;

static void collect_axes(NstModule *module, const NstNest *nest, NstExpr operand, uint32_t x, Axes *axes)
{
    *axes = (Axes){0};
    for (uint32_t k = 0; k < nest->n_axes; k++)
        if (k != x && nst_expr_uses_sym(module->exprs, operand, nest->axis[k].var))
            axes->axis[axes->n++] = nest->axis[k];
    axes->n_outer = axes->n;
    for (uint32_t k = 0; k + 1 < nest->n_reduce; k++)
        if (nst_expr_uses_sym(module->exprs, operand, nest->reduce[k].var)) axes->axis[axes->n++] = nest->reduce[k];
    axes->axis[axes->n++] = nest->axis[x];
    axes->axis[axes->n++] = nest->reduce[nest->n_reduce - 1];
}

/* Parts outermost first; extents are rounded up to whole registers. */
static NstLayout register_layout(NstModule *module, const Axes *axes, int64_t block, int64_t words, bool words_down)
{
    NstDims *dims = module->dims;
    uint32_t n = 0, x = (uint32_t)axes->n - 2, w = (uint32_t)axes->n - 1;
    NstLayoutPart *part = NST_NEW_ARRAY(module->arena, NstLayoutPart, axes->n + 2);
    for (int k = 0; k < axes->n_outer; k++) part[n++] = (NstLayoutPart){.axis = (uint8_t)k, .divisor = 1};
    part[n++] = (NstLayoutPart){.axis = (uint8_t)x, .divisor = block};
    for (uint32_t k = (uint32_t)axes->n_outer; k < x; k++)
        part[n++] = (NstLayoutPart){.axis = (uint8_t)k, .divisor = 1};
    part[n++] = (NstLayoutPart){.axis = (uint8_t)w, .divisor = words};
    NstLayoutPart of_x = {.axis = (uint8_t)x, .divisor = 1, .modulus = block};
    NstLayoutPart of_words = {.axis = (uint8_t)w, .divisor = 1, .modulus = words};
    part[n++] = words_down ? of_words : of_x;
    part[n++] = words_down ? of_x : of_words;
    NstDim stride = nst_dim_const(dims, 1);
    for (uint32_t k = n; k-- > 0;) {
        part[k].stride = stride;
        NstDim extent = axes->axis[part[k].axis].extent;
        if (part[k].modulus)
            extent = nst_dim_const(dims, part[k].modulus);
        else if (part[k].divisor > 1)
            extent = nst_dim_ceildiv(dims, extent, nst_dim_const(dims, part[k].divisor));
        stride = nst_dim_mul(dims, stride, extent);
    }
    return (NstLayout){
        .n_parts = n, .parts = part, .offset = nst_dim_const(dims, 0), .elements = stride, .bits = 8 * WORD_BYTES};
}

typedef struct Constancy {
    NstModule *module;
    bool constant;
} Constancy;

static void visit_load(void *arg, NstExpr e, const NstExprNode *node)
{
    Constancy *c = arg;
    (void)e;
    if (node->op != NST_OP_LOAD) return;
    NstBufferRole role = nst_module_get(c->module, (NstBuf){node->ref})->role;
    if (role != NST_ROLE_CONST && role != NST_ROLE_PACKED) c->constant = false;
}

typedef struct Replace {
    NstExpr from, to;
} Replace;

static NstExpr replace_node(void *arg, NstExprs *exprs, NstExpr e)
{
    const Replace *replace = arg;
    (void)exprs;
    return e.i == replace->from.i ? replace->to : (NstExpr){0};
}

NstPacked nst_pack_matrix(NstModule *module, NstNest *nest, NstExpr operand, uint32_t x, bool words_down,
                          const NstTensorInsnInfo *insn)
{
    Axes axes;
    NstDim shape[NST_MAX_RANK], *index = NST_NEW_ARRAY(module->arena, NstDim, NST_MAX_RANK);
    collect_axes(module, nest, operand, x, &axes);
    for (int k = 0; k < axes.n; k++) {
        shape[k] = axes.axis[k].extent;
        index[k] = nst_dim_sym(module->dims, axes.axis[k].var);
    }
    Constancy constancy = {module, true};
    nst_expr_visit(module->exprs, operand, visit_load, &constancy);
    NstPacked result = {.constant = constancy.constant};
    const char *name = nst_format(module->arena, "%s_%s", nest->name, words_down ? "columns" : "rows");
    result.buffer =
        nst_module_buffer(module, name, NST_I32, axes.n, shape, result.constant ? NST_ROLE_PACKED : NST_ROLE_TEMP);
    NstModuleBuffer *buffer = nst_module_get(module, result.buffer);
    int elements = WORD_BYTES / nst_dtype_info(insn->a)->bytes;
    buffer->buffer.layout = register_layout(module, &axes, words_down ? insn->lanes : insn->matrix_rows,
                                            insn->k_step / elements, words_down);
    buffer->buffer.constant = result.constant;
    NstNest *pack = nst_nest_new(module, nst_format(module->arena, "%s_pack", name), nest->origin);
    pack->n_axes = (uint32_t)axes.n;
    pack->axis = axes.axis;
    pack->n_outs = 1;
    NstNestOut out = {.buffer = result.buffer, .n_index = (uint32_t)axes.n, .index = index, .value = operand};
    pack->out = &out;
    result.nest = nst_nest_clone(module, pack);
    Replace replace = {operand, nst_expr_load(module->exprs, NST_I32, result.buffer, index, (uint32_t)axes.n)};
    nest->state = nst_copy(module->arena, nest->state, nest->n_states * sizeof *nest->state);
    nest->state[0].step = nst_expr_rewrite(module->exprs, nest->state[0].step, replace_node, &replace);
    return result;
}

/* The one axis of a load's index that is `var` times coef plus something without it; -1: none, or several use it. */
static int axis_along(NstModule *module, const NstExprNode *load, NstSym var, int64_t coef)
{
    NstDims *dims = module->dims;
    int found = -1;
    for (uint32_t k = 0; k < load->n_index; k++) {
        NstDim factor, rest;
        int64_t c;
        if (!nst_dim_uses(dims, load->index[k], var)) continue;
        if (found >= 0 || !nst_dim_linear(dims, load->index[k], var, &factor, &rest) ||
            !nst_dim_is_const(dims, factor, &c) || c != coef)
            return -1;
        found = (int)k;
    }
    return found;
}

/* True if a layout keeps elements of an axis at one stride: nothing of it is divided. */
static bool is_plain(const NstLayout *layout, int axis, NstDim *stride)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < layout->n_parts; k++) {
        if (layout->parts[k].axis != axis) continue;
        if (layout->parts[k].divisor != 1 || layout->parts[k].modulus != 0 || n++) return false;
        *stride = layout->parts[k].stride;
    }
    return n == 1;
}

bool nst_matrix_axes(NstModule *module, const NstNest *nest, NstExpr operand, uint32_t x, int *x_axis, int *word_axis)
{
    const NstExprNode *load = nst_expr(module->exprs, operand);
    if (load->op != NST_OP_LOAD || load->type != NST_I32) return false;
    const NstModuleBuffer *from = nst_module_get(module, (NstBuf){load->ref});
    const NstBuffer *buffer = &from->buffer;
    int64_t words = WORD_BYTES / nst_dtype_info(buffer->dtype)->bytes, one;
    *x_axis = axis_along(module, load, nest->axis[x].var, 1);
    *word_axis = axis_along(module, load, nest->reduce[nest->n_reduce - 1].var, words);
    if (*x_axis < 0 || *word_axis < 0 || *x_axis == *word_axis) return false;
    if (buffer->dtype == NST_I32) return true; /* laid out for it */
    NstDim stride;
    return is_plain(&buffer->layout, *x_axis, &stride) && is_plain(&buffer->layout, *word_axis, &stride) &&
           nst_dim_is_const(module->dims, stride, &one) && one == 1;
}
