/* int_dot.c: see int_dot.h.
 *
 * For vectors the row operand is brought to u8 and the column operand to s8 by adding or subtracting 128 to values and zero
 * points alike.
 * Source: (a - za)(b - zb) = ab - zb a - za b + za zb, summed over k, in arithmetic modulo 2^32. */
#include "passes/int_dot.h"

/* Elements of k in one word. */
enum { WORD = 4 };

/* One operand: value(k) - zero, 8 bits wide. */
typedef struct Operand {
    NstExpr byte;   /* the 8-bit value */
    NstDtype dtype; /* U8 or I8 */
    NstExpr zero;   /* i32; none = 0 */
    bool constant;  /* made of constants alone */
} Operand;

typedef struct IntDot {
    NstModule *module;
    NstExprs *exprs;
    NstNest *nest;
    NstContraction c;
    NstAxis k;    /* the innermost reduction axis, counted in elements */
    NstAxis word; /* the same in words */
    Operand a, b;
    const NstTensorInsnInfo *matrix; /* the matrix registers to come; NULL: vectors */
    NST_VEC(NstNest *) before;       /* nests to run before the product */
    NST_VEC(NstNest *) prepack;      /* the same, of constants */
} IntDot;

static NstExpr i32(IntDot *d, int64_t value)
{
    return nst_expr_int(d->exprs, NST_I32, value);
}

static NstExpr binary(IntDot *d, NstScalarOp op, NstExpr a, NstExpr b)
{
    return nst_expr_binary(d->exprs, op, a, b);
}

static bool converts_byte(IntDot *d, NstExpr e, Operand *operand)
{
    const NstExprNode *node = nst_expr(d->exprs, e);
    if (node->op != NST_OP_CONVERT || node->type != NST_I32) return false;
    operand->byte = node->arg[0];
    operand->dtype = nst_expr(d->exprs, node->arg[0])->type;
    return operand->dtype == NST_U8 || operand->dtype == NST_I8;
}

/* e = convert<i32>(byte) or convert<i32>(byte) - zero, zero the same for all k. */
static bool read_operand(IntDot *d, NstExpr e, Operand *operand)
{
    *operand = (Operand){0};
    const NstExprNode node = *nst_expr(d->exprs, e);
    if (node.type != NST_I32) return false;
    if (!converts_byte(d, e, operand)) {
        if (node.op != NST_OP_SUB || !converts_byte(d, node.arg[0], operand)) return false;
        operand->zero = node.arg[1];
        for (uint32_t k = 0; k < d->nest->n_reduce; k++)
            if (nst_expr_uses_sym(d->exprs, operand->zero, d->nest->reduce[k].var)) return false;
    }
    operand->constant = nst_module_is_constant(d->module, operand->byte);
    return true;
}

/* The operand with its innermost k at `k`. */
static NstExpr at_k(IntDot *d, NstExpr e, NstDim k)
{
    NstDim *value = NST_NEW_ARRAY(d->module->arena, NstDim, d->k.var.i + 1);
    value[d->k.var.i] = k;
    return nst_expr_subst_syms(d->exprs, e, value, d->k.var.i + 1);
}

/* Four bytes from k = 4 * word on as one i32, zero past the end of k; flip adds 128 modulo 256 to each. */
static NstExpr gathered_word(IntDot *d, const Operand *operand, bool flip)
{
    NstDims *dims = d->module->dims;
    NstDim first = nst_dim_mul_const(dims, nst_dim_sym(dims, d->word.var), WORD),
           last = nst_dim_add_const(dims, d->k.extent, -1);
    NstExpr word = {0};
    for (int t = 0; t < WORD; t++) {
        NstDim k = nst_dim_add_const(dims, first, t);
        NstExpr byte = nst_expr_convert(d->exprs, NST_I32, at_k(d, operand->byte, nst_dim_min(dims, k, last)), false);
        if (flip) byte = binary(d, NST_OP_XOR, byte, i32(d, 0x80));
        NstExpr inside = binary(d, NST_OP_LT, nst_expr_index(d->exprs, k), nst_expr_index(d->exprs, d->k.extent));
        byte = nst_expr_ternary(d->exprs, NST_OP_SELECT, inside, binary(d, NST_OP_AND, byte, i32(d, 0xff)), i32(d, 0));
        byte = binary(d, NST_OP_SHL, byte, i32(d, 8 * t));
        word = t ? binary(d, NST_OP_OR, word, byte) : byte;
    }
    return word;
}

/* True if four consecutive k lie side by side in memory, whole words only. */
static bool loads_words(IntDot *d, const Operand *operand)
{
    NstDims *dims = d->module->dims;
    const NstExprNode *node = nst_expr(d->exprs, operand->byte);
    if (node->op != NST_OP_LOAD || nst_dim_known_multiple(dims, d->k.extent) % WORD != 0) return false;
    const NstBuffer *buffer = &nst_module_get(d->module, (NstBuf){node->ref})->buffer;
    NstDim offset = nst_layout_offset(dims, &buffer->layout, node->index), coef, rest;
    int64_t stride;
    /* The word read runs along the innermost physical axis: k must be that axis. */
    const NstLayoutPart *inner = &buffer->layout.parts[buffer->layout.n_parts - 1];
    return nst_dim_linear(dims, offset, d->k.var, &coef, &rest) && nst_dim_is_const(dims, coef, &stride) &&
           stride == 1 && nst_dim_uses(dims, node->index[inner->axis], d->k.var);
}

static NstExpr loaded_word(IntDot *d, const Operand *operand, bool flip)
{
    NstDims *dims = d->module->dims;
    NstDim at = nst_dim_sym(dims, d->word.var), words = nst_dim_floordiv(dims, d->k.extent, nst_dim_const(dims, WORD));
    bool padded = !nst_dim_same(words, d->word.extent);
    NstDim inside = padded ? nst_dim_min(dims, at, nst_dim_add_const(dims, words, -1)) : at;
    const NstExprNode node = *nst_expr(d->exprs, at_k(d, operand->byte, nst_dim_mul_const(dims, inside, WORD)));
    NstExpr word = nst_expr_load(d->exprs, NST_I32, (NstBuf){node.ref}, node.index, node.n_index);
    if (padded) {
        NstExpr is_inside = binary(d, NST_OP_LT, nst_expr_index(d->exprs, at), nst_expr_index(d->exprs, words));
        word = nst_expr_ternary(d->exprs, NST_OP_SELECT, is_inside, word, i32(d, 0));
    }
    return flip ? binary(d, NST_OP_XOR, word, i32(d, (int32_t)0x80808080)) : word;
}

static NstNest *new_nest(IntDot *d, const char *suffix)
{
    return nst_nest_new(d->module, nst_format(d->module->arena, "%s_%s", d->nest->name, suffix), d->nest->origin);
}

/* Axes of the product that the expression depends on. */
static uint32_t axes_of(IntDot *d, NstExpr e, NstAxis *axis)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < d->nest->n_axes; k++)
        if (nst_expr_uses_sym(d->exprs, e, d->nest->axis[k].var)) axis[n++] = d->nest->axis[k];
    return n;
}

/* A nest out[axes] = value (with states: their result), stored in a buffer of its own; the load that reads it back. */
static NstExpr through_buffer(IntDot *d, NstNest *nest, NstAxis *axis, uint32_t n, NstDtype dtype, NstExpr value,
                              bool constant)
{
    NstModule *module = d->module;
    NstDim *shape = NST_NEW_ARRAY(module->arena, NstDim, n), *index = NST_NEW_ARRAY(module->arena, NstDim, n);
    for (uint32_t k = 0; k < n; k++) {
        shape[k] = axis[k].extent;
        index[k] = nst_dim_sym(module->dims, axis[k].var);
    }
    NstBuf buffer =
        nst_module_buffer(module, nest->name, dtype, (int)n, shape, constant ? NST_ROLE_PACKED : NST_ROLE_TEMP);
    nest->n_axes = n;
    nest->axis = axis;
    nest->n_outs = 1;
    nest->out = NST_NEW(module->arena, NstNestOut);
    nest->out[0] = (NstNestOut){.buffer = buffer, .n_index = n, .index = index, .value = value};
    NstNest *fresh = nst_nest_clone(module, nest);
    if (constant)
        nst_vec_push(module->arena, &d->prepack, fresh);
    else
        nst_vec_push(module->arena, &d->before, fresh);
    return nst_expr_load(d->exprs, dtype, buffer, index, n);
}

/* The sum of an operand's bytes over k, for each of its other axes. */
static NstExpr sum_over_k(IntDot *d, const Operand *operand, const char *suffix)
{
    NstNest *nest = new_nest(d, suffix);
    NstAxis *axis = NST_NEW_ARRAY(d->module->arena, NstAxis, d->nest->n_axes + 1);
    uint32_t n = axes_of(d, operand->byte, axis);
    nest->reduce = nst_copy(d->module->arena, d->nest->reduce, d->nest->n_reduce * sizeof(NstAxis));
    nest->n_reduce = d->nest->n_reduce;
    nest->guard = d->nest->guard;
    nest->n_states = 1;
    nest->state = NST_NEW(d->module->arena, NstState);
    NstExpr value = nst_expr_convert(d->exprs, NST_I32, operand->byte, false), sum = nst_expr_arg(d->exprs, NST_I32, 0);
    nest->state[0] = (NstState){NST_I32, i32(d, 0), binary(d, NST_OP_ADD, sum, value), d->nest->state[0].merge};
    return through_buffer(d, nest, axis, n, NST_I32, sum, operand->constant);
}

static NstExpr row_words(IntDot *d, bool flip)
{
    if (loads_words(d, &d->a)) return loaded_word(d, &d->a, flip);
    if (d->matrix) return gathered_word(d, &d->a, flip);
    NstNest *nest = new_nest(d, "rows");
    NstAxis *axis = NST_NEW_ARRAY(d->module->arena, NstAxis, d->nest->n_axes + d->nest->n_reduce + 1);
    uint32_t n = axes_of(d, d->a.byte, axis);
    for (uint32_t k = 0; k + 1 < d->nest->n_reduce; k++)
        if (nst_expr_uses_sym(d->exprs, d->a.byte, d->nest->reduce[k].var)) axis[n++] = d->nest->reduce[k];
    axis[n++] = d->word;
    return through_buffer(d, nest, axis, n, NST_I32, gathered_word(d, &d->a, flip), d->a.constant);
}

/* The zero point of an operand after the shift by 128 that a flip means; none = 0. */
static NstExpr shifted_zero(IntDot *d, const Operand *operand, bool flip, int64_t by)
{
    if (!flip) return operand->zero;
    return operand->zero.i ? binary(d, NST_OP_ADD, operand->zero, i32(d, by)) : i32(d, by);
}

/* Number of k, as i32. */
static NstExpr count_of_k(IntDot *d)
{
    NstDim count = nst_dim_const(d->module->dims, 1);
    for (uint32_t k = 0; k < d->nest->n_reduce; k++)
        count = nst_dim_mul(d->module->dims, count, d->nest->reduce[k].extent);
    return nst_expr_convert(d->exprs, NST_I32, nst_expr_index(d->exprs, count), false);
}

/* What the outputs read instead of the sum: the product corrected by the zero points. */
static NstExpr corrected(IntDot *d, NstExpr za, NstExpr zb, bool flip_a, bool flip_b)
{
    NstExpr sum = nst_expr_arg(d->exprs, NST_I32, 0), k = count_of_k(d);
    if (zb.i) {
        NstExpr total = sum_over_k(d, &d->a, "row_sums");
        if (flip_a) total = binary(d, NST_OP_ADD, total, binary(d, NST_OP_MUL, k, i32(d, 128)));
        sum = binary(d, NST_OP_SUB, sum, binary(d, NST_OP_MUL, zb, total));
    }
    if (za.i) {
        NstExpr total = sum_over_k(d, &d->b, "column_sums");
        if (flip_b) total = binary(d, NST_OP_SUB, total, binary(d, NST_OP_MUL, k, i32(d, 128)));
        sum = binary(d, NST_OP_SUB, sum, binary(d, NST_OP_MUL, za, total));
    }
    if (za.i && zb.i) sum = binary(d, NST_OP_ADD, sum, binary(d, NST_OP_MUL, k, binary(d, NST_OP_MUL, za, zb)));
    return sum;
}

static void rewrite(IntDot *d)
{
    NstNest *nest = d->nest;
    bool flip_a = !d->matrix && d->a.dtype == NST_I8, flip_b = !d->matrix && d->b.dtype == NST_U8;
    NstExpr za = shifted_zero(d, &d->a, flip_a, 128), zb = shifted_zero(d, &d->b, flip_b, -128);
    NstScalarOp dot = d->matrix ? nst_scalar_dot_of(d->a.dtype, d->b.dtype) : NST_OP_DOT4_U8S8;
    NstExpr a = row_words(d, flip_a), b = gathered_word(d, &d->b, flip_b);
    NstExpr result = corrected(d, za, zb, flip_a, flip_b);
    nest->reduce = nst_copy(d->module->arena, nest->reduce, nest->n_reduce * sizeof(NstAxis));
    nest->reduce[nest->n_reduce - 1] = d->word;
    nest->state = nst_copy(d->module->arena, nest->state, sizeof(NstState));
    nest->state[0].step = nst_expr_ternary(d->exprs, dot, nst_expr_arg(d->exprs, NST_I32, 0), a, b);
    nest->out = nst_copy(d->module->arena, nest->out, nest->n_outs * sizeof(NstNestOut));
    for (uint32_t k = 0; k < nest->n_outs; k++)
        nest->out[k].value = nst_expr_subst_args(d->exprs, nest->out[k].value, &result, 1);
}

/* False if the nest of the group is no such contraction. */
static bool read_contraction(IntDot *d, NstModule *module, uint32_t at, uint32_t col)
{
    NstGroup *group = module->groups.at[at];
    if (group->items.n != 1 || !group->items.at[0].nest || group->n_axes) return false;
    *d = (IntDot){.module = module, .exprs = module->exprs, .nest = group->items.at[0].nest};
    if (!nst_nest_contraction_by(module, d->nest, col, &d->c) || d->nest->state[0].dtype != NST_I32 ||
        d->nest->guard.i || d->nest->n_lets)
        return false;
    if (!read_operand(d, d->c.a, &d->a) || !read_operand(d, d->c.b, &d->b)) return false;
    d->k = d->nest->reduce[d->nest->n_reduce - 1];
    return nst_expr_uses_sym(d->exprs, d->a.byte, d->k.var) && nst_expr_uses_sym(d->exprs, d->b.byte, d->k.var);
}

bool nst_integer_contraction_types(NstModule *module, uint32_t at, uint32_t col, NstDtype *a, NstDtype *b)
{
    IntDot d;
    if (!read_contraction(&d, module, at, col)) return false;
    *a = d.a.dtype;
    *b = d.b.dtype;
    return true;
}

bool nst_integer_contraction(NstModule *module, uint32_t *at, uint32_t col, const NstTensorInsnInfo *matrix)
{
    IntDot d;
    if (!read_contraction(&d, module, *at, col)) return false;
    d.matrix = matrix;
    int64_t step = matrix ? matrix->k_step : WORD;
    NstDim steps = nst_dim_ceildiv(module->dims, d.k.extent, nst_dim_const(module->dims, step));
    d.word = nst_nest_axis(module, "kw", nst_dim_mul_const(module->dims, steps, step / WORD));
    rewrite(&d);
    for (uint32_t k = 0; k < d.prepack.n; k++)
        nst_vec_push(module->arena, &module->prepack, nst_group_new(module, d.prepack.at[k]));
    for (uint32_t k = 0; k < d.before.n; k++)
        nst_module_insert_group(module, nst_group_new(module, d.before.at[k]), (*at)++);
    return true;
}
