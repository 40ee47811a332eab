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

/* A nest that writes the operand, the nest's axis x standing for `at`, over the given axes. */
static NstNest *write_part(NstModule *module, const NstNest *nest, NstExpr operand, const Axes *axes, NstSym x,
                           NstDim at, NstAxis *axis, uint32_t n, NstBuf to)
{
    NstDim *value = NST_NEW_ARRAY(module->arena, NstDim, x.i + 1);
    NstNest *pack = nst_nest_new(module, nst_format(module->arena, "%s_pack", nst_module_get(module, to)->buffer.name),
                                 nest->origin);
    value[x.i] = at;
    pack->n_axes = n;
    pack->axis = axis;
    pack->n_outs = 1;
    pack->out = NST_NEW(module->arena, NstNestOut);
    NstDim *index = NST_NEW_ARRAY(module->arena, NstDim, axes->n);
    for (int k = 0; k < axes->n; k++) {
        NstSym var = axes->axis[k].var;
        index[k] = var.i == x.i ? at : nst_dim_sym(module->dims, var);
    }
    *pack->out = (NstNestOut){.buffer = to, .n_index = (uint32_t)axes->n, .index = index};
    pack->out->value = nst_expr_subst_syms(module->exprs, operand, value, x.i + 1);
    return nst_nest_clone(module, pack);
}

/* The nests that fill the buffer.  Where words stand in columns of a register, x runs along memory: whole blocks of it and what
 * is left are nests of their own, so that the innermost axis of each is a run. */
static void write_parts(NstModule *module, const NstNest *nest, NstExpr operand, const Axes *axes, int64_t block,
                        bool words_down, NstBuf to, NstPackedMatrix *result)
{
    NstDims *dims = module->dims;
    NstAxis x = axes->axis[axes->n - 2], word = axes->axis[axes->n - 1];
    NstDim full = nst_dim_floordiv(dims, x.extent, nst_dim_const(dims, block));
    NstDim done = nst_dim_mul_const(dims, full, block), rest = nst_dim_sub(dims, x.extent, done);
    if (!words_down) {
        NstAxis *axis = nst_copy(module->arena, axes->axis, (size_t)axes->n * sizeof *axis);
        NstDim at = nst_dim_sym(dims, x.var);
        result->nest[result->n_nests++] =
            write_part(module, nest, operand, axes, x.var, at, axis, (uint32_t)axes->n, to);
        return;
    }
    for (int part = 0; part < 2; part++) { /* whole blocks, the rest */
        NstDim none = nst_dim_const(dims, 0), count = part == 0 ? full : rest;
        if (nst_dim_same(count, none)) continue;
        NstAxis *axis = NST_NEW_ARRAY(module->arena, NstAxis, axes->n + 1);
        NstAxis inner = nst_nest_axis(module, "xi", part == 0 ? nst_dim_const(dims, block) : rest);
        NstDim at = nst_dim_add(dims, done, nst_dim_sym(dims, inner.var));
        uint32_t n = 0;
        for (int k = 0; k < axes->n_outer; k++) axis[n++] = axes->axis[k];
        if (part == 0) {
            axis[n++] = nst_nest_axis(module, "xb", full);
            NstDim first = nst_dim_mul_const(dims, nst_dim_sym(dims, axis[n - 1].var), block);
            at = nst_dim_add(dims, first, nst_dim_sym(dims, inner.var));
        }
        for (int k = axes->n_outer; k < axes->n - 2; k++) axis[n++] = axes->axis[k];
        axis[n++] = word;
        axis[n++] = inner;
        result->nest[result->n_nests++] = write_part(module, nest, operand, axes, x.var, at, axis, n, to);
    }
}

NstPackedMatrix nst_pack_matrix(NstModule *module, NstNest *nest, NstExpr operand, uint32_t x, bool words_down,
                                const NstTensorInsnInfo *insn)
{
    Axes axes;
    NstDim shape[NST_MAX_RANK], *index = NST_NEW_ARRAY(module->arena, NstDim, NST_MAX_RANK);
    int64_t block = words_down ? insn->lanes : insn->matrix_rows;
    int64_t words = (int64_t)insn->k_step * nst_dtype_info(insn->a)->bytes / WORD_BYTES;
    collect_axes(module, nest, operand, x, &axes);
    for (int k = 0; k < axes.n; k++) {
        shape[k] = axes.axis[k].extent;
        index[k] = nst_dim_sym(module->dims, axes.axis[k].var);
    }
    NstPackedMatrix result = {.constant = nst_module_is_ahead(module, operand, axes.axis, (uint32_t)axes.n)};
    const char *name = nst_format(module->arena, "%s_%s", nest->name, words_down ? "columns" : "rows");
    NstBuf packed =
        nst_module_buffer(module, name, NST_I32, axes.n, shape, result.constant ? NST_ROLE_PACKED : NST_ROLE_TEMP);
    NstModuleBuffer *buffer = nst_module_get(module, packed);
    buffer->buffer.layout = register_layout(module, &axes, block, words, words_down);
    buffer->buffer.constant = result.constant;
    write_parts(module, nest, operand, &axes, block, words_down, packed, &result);
    nst_nest_replace_factor(module, nest, operand,
                            nst_expr_load(module->exprs, NST_I32, packed, index, (uint32_t)axes.n));
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
