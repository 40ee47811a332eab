/* int_dot.c: see int_dot.h.
 *
 * A contraction without conditions becomes words of four bytes and sums of rows and columns.  One whose conditions say that the row
 * operand is inside (the padding of a window) gets a copy of that operand with the zero point around it, and has none any more, where
 * the target multiplies words; else it becomes pairs of 16-bit differences, which need no sums.
 *
 * For vectors the row operand is brought to u8 and the column operand to s8 by adding or subtracting 128 to values and zero
 * points alike.
 * Source: (a - za)(b - zb) = ab - zb a - za b + za zb, summed over k, in arithmetic modulo 2^32. */
#include "passes/int_dot.h"
#include "passes/guard.h"

/* Elements of k in one word: bytes, and differences of 16 bits. */
enum { WORD = 4, PAIR = 2 };
/* Fewer elements of k than this do not repay widening the rows, or a copy of them. */
enum { LEAST_COPIED = 4 };

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
    bool in_pairs;                   /* zero points are multiplied as pairs of 16 bits */
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

static bool all_zero(const NstModuleConst *c)
{
    const unsigned char *byte = c->data;
    if (!byte) return c->splat.i == 0;
    for (size_t k = 0; k < c->bytes; k++)
        if (byte[k]) return false;
    return true;
}

/* True if e is 0 whatever it reads. */
static bool is_known_zero(IntDot *d, NstExpr e)
{
    const NstExprNode node = *nst_expr(d->exprs, e);
    if (node.op == NST_OP_CONST) return node.imm.i == 0;
    if (node.op == NST_OP_CONVERT) return is_known_zero(d, node.arg[0]);
    if (node.op != NST_OP_LOAD) return false;
    const NstModuleBuffer *buffer = nst_module_get(d->module, (NstBuf){node.ref});
    return buffer->role == NST_ROLE_CONST && !nst_dtype_is_float(buffer->buffer.dtype) &&
           all_zero(&d->module->consts.at[buffer->index]);
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
        if (is_known_zero(d, operand->zero)) operand->zero = (NstExpr){0};
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
    NstDim offset = nst_layout_offset(dims, &buffer->layout, node->index);
    int64_t stride;
    /* The word read runs along the innermost physical axis: k must be that axis. */
    const NstLayoutPart *inner = &buffer->layout.parts[buffer->layout.n_parts - 1];
    return nst_dim_stride(dims, offset, d->k.var, &stride) && stride == 1 &&
           nst_dim_uses(dims, node->index[inner->axis], d->k.var);
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

/* A nest out[axes] = value (with states: their result), stored in a buffer of its own; the load that reads it back.  constants: the
 * nest reads no other. */
static NstExpr through_buffer(IntDot *d, NstNest *nest, NstAxis *axis, uint32_t n, NstDtype dtype, NstExpr value,
                              bool constants)
{
    NstModule *module = d->module;
    NstDim *shape = NST_NEW_ARRAY(module->arena, NstDim, n), *index = NST_NEW_ARRAY(module->arena, NstDim, n);
    for (uint32_t k = 0; k < n; k++) {
        shape[k] = axis[k].extent;
        index[k] = nst_dim_sym(module->dims, axis[k].var);
    }
    NstBuf buffer = nst_module_buffer(module, nest->name, dtype, (int)n, shape, NST_ROLE_TEMP);
    nest->n_axes = n;
    nest->axis = axis;
    nest->n_outs = 1;
    nest->out = NST_NEW(module->arena, NstNestOut);
    nest->out[0] = (NstNestOut){.buffer = buffer, .n_index = n, .index = index, .value = value};
    bool constant = constants && !nst_nest_uses_sizes(module, nest);
    if (constant) nst_module_get(module, buffer)->role = NST_ROLE_PACKED;
    NstNest *fresh = nst_nest_clone(module, nest);
    if (constant)
        nst_vec_push(module->arena, &d->prepack, fresh);
    else
        nst_vec_push(module->arena, &d->before, fresh);
    return nst_expr_load(d->exprs, dtype, buffer, index, n);
}

static NstDim number_of_k(IntDot *d)
{
    NstDim count = nst_dim_const(d->module->dims, 1);
    for (uint32_t k = 0; k < d->nest->n_reduce; k++)
        count = nst_dim_mul(d->module->dims, count, d->nest->reduce[k].extent);
    return count;
}

static NstExpr count_of_k(IntDot *d)
{
    return nst_expr_convert(d->exprs, NST_I32, nst_expr_index(d->exprs, number_of_k(d)), false);
}

/* One step of a sum of an operand's bytes: a byte, or four of them as the dot product with ones where they are a word in memory and
 * the target has such products (512 x 512 bytes: 3.4 us instead of 7.6, Emerald Rapids). */
static NstExpr sum_step(IntDot *d, const Operand *operand, NstExpr sum, NstAxis *k)
{
    if (nst_target_insn(d->module->target, NST_U8, NST_I8, NST_I32) == NST_INSN_COUNT || !loads_words(d, operand))
        return binary(d, NST_OP_ADD, sum, nst_expr_convert(d->exprs, NST_I32, operand->byte, false));
    NstDims *dims = d->module->dims;
    *k = nst_nest_axis(d->module, "kw", nst_dim_floordiv(dims, d->k.extent, nst_dim_const(dims, WORD)));
    const NstExprNode node =
        *nst_expr(d->exprs, at_k(d, operand->byte, nst_dim_mul_const(dims, nst_dim_sym(dims, k->var), WORD)));
    NstExpr word = nst_expr_load(d->exprs, NST_I32, (NstBuf){node.ref}, node.index, node.n_index);
    NstExpr ones = i32(d, 0x01010101);
    bool is_signed = operand->dtype == NST_I8;
    return binary(
        d, NST_OP_ADD, sum,
        nst_expr_ternary(d->exprs, NST_OP_DOT4_U8S8, i32(d, 0), is_signed ? ones : word, is_signed ? word : ones));
}

/* A product of a zero point and a sum over k is a product of pairs of 16 bits, one instruction where words are multiplied and added in
 * one: u * t = u * (t mod 128) + (128 u) * (t div 128), for |t| < 2^22 and u of 9 bits.  (512^3, zero points a row and a column: 106 us, 116
 * with products of 32 bits; Emerald Rapids, 2026-11.) */
enum { PAIR_SPLIT = 7, PAIR_BITS = 16, PAIRED_K = (1 << 22) / 256 };

/* The pair of -total. */
static NstExpr less_as_pair(IntDot *d, NstExpr total)
{
    NstExpr less = binary(d, NST_OP_SUB, i32(d, 0), total);
    NstExpr high = binary(d, NST_OP_SHR, less, i32(d, PAIR_SPLIT));
    return binary(d, NST_OP_OR, binary(d, NST_OP_AND, less, i32(d, (1 << PAIR_SPLIT) - 1)),
                  binary(d, NST_OP_SHL, high, i32(d, PAIR_BITS)));
}

/* The sum over k of an operand's bytes, each plus `shift` and less `zero` (none = 0), for each of its other axes; as the pair of its
 * negative where products are those of pairs. */
static NstExpr sum_over_k(IntDot *d, const Operand *operand, int64_t shift, NstExpr zero, const char *suffix)
{
    NstNest *nest = new_nest(d, suffix);
    NstAxis *axis = NST_NEW_ARRAY(d->module->arena, NstAxis, d->nest->n_axes + 1);
    uint32_t n = axes_of(d, operand->byte, axis);
    nest->reduce = nst_copy(d->module->arena, d->nest->reduce, d->nest->n_reduce * sizeof(NstAxis));
    nest->n_reduce = d->nest->n_reduce;
    nest->guard = d->nest->guard;
    nest->n_states = 1;
    nest->state = NST_NEW(d->module->arena, NstState);
    NstExpr sum = nst_expr_arg(d->exprs, NST_I32, 0), count = count_of_k(d), total = sum;
    NstExpr step = sum_step(d, operand, sum, &nest->reduce[nest->n_reduce - 1]);
    nest->state[0] = (NstState){NST_I32, i32(d, 0), step, d->nest->state[0].merge};
    if (shift) total = binary(d, NST_OP_ADD, total, binary(d, NST_OP_MUL, count, i32(d, shift)));
    if (zero.i) total = binary(d, NST_OP_SUB, total, binary(d, NST_OP_MUL, count, zero));
    if (d->in_pairs) total = less_as_pair(d, total);
    return through_buffer(d, nest, axis, n, NST_I32, total,
                          operand->constant && (!zero.i || nst_module_is_constant(d->module, zero)));
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

/* True if the operand's sums may have `zero`, its own, taken off: it depends on no other axis, and constant sums stay constant. */
static bool sums_take_zero(IntDot *d, const Operand *operand, NstExpr zero)
{
    if (operand->constant && !nst_module_is_constant(d->module, zero)) return false;
    for (uint32_t k = 0; k < d->nest->n_axes; k++) {
        NstSym var = d->nest->axis[k].var;
        if (nst_expr_uses_sym(d->exprs, zero, var) && !nst_expr_uses_sym(d->exprs, operand->byte, var)) return false;
    }
    return true;
}

/* True if the zero point is a byte too, so that a difference of both takes 9 bits. */
static bool zero_is_byte(IntDot *d, const Operand *operand)
{
    Operand zero;
    if (!operand->zero.i || converts_byte(d, operand->zero, &zero)) return true;
    const NstExprNode *node = nst_expr(d->exprs, operand->zero);
    return node->op == NST_OP_CONST && node->imm.i >= INT8_MIN && node->imm.i <= UINT8_MAX;
}

/* True if the zero point is one for all places. */
static bool is_uniform(IntDot *d, NstExpr zero)
{
    for (uint32_t k = 0; k < d->nest->n_axes; k++)
        if (zero.i && nst_expr_uses_sym(d->exprs, zero, d->nest->axis[k].var)) return false;
    return true;
}

/* True if the products of zero points may be those of pairs: one is made ahead, or once a row, not for each element. */
static bool takes_pairs(IntDot *d, NstExpr za, NstExpr zb)
{
    int64_t least, most;
    nst_dim_bounds(d->module->dims, number_of_k(d), &least, &most);
    if (most > PAIRED_K || nst_target_insn(d->module->target, NST_U8, NST_I8, NST_I32) == NST_INSN_COUNT) return false;
    if (zb.i && !nst_module_is_constant(d->module, zb) && !is_uniform(d, zb)) return false;
    return (!za.i || zero_is_byte(d, &d->a)) && (!zb.i || zero_is_byte(d, &d->b)) && (za.i || zb.i);
}

/* The pair of a zero point, through a buffer where it differs by column. */
static NstExpr zero_as_pair(IntDot *d, const Operand *operand, NstExpr zero)
{
    NstExpr low = binary(d, NST_OP_AND, zero, i32(d, (1 << PAIR_BITS) - 1));
    NstExpr pair = binary(d, NST_OP_OR, low, binary(d, NST_OP_SHL, zero, i32(d, PAIR_BITS + PAIR_SPLIT)));
    if (operand == &d->a || is_uniform(d, zero)) return pair;
    NstAxis *axis = NST_NEW_ARRAY(d->module->arena, NstAxis, d->nest->n_axes + 1);
    uint32_t n = axes_of(d, zero, axis);
    return through_buffer(d, new_nest(d, "column_zeros"), axis, n, NST_I32, pair, true);
}

/* sum - zero * total, or as pairs. */
static NstExpr less_product(IntDot *d, NstExpr sum, const Operand *operand, NstExpr zero, NstExpr total)
{
    if (!d->in_pairs) return binary(d, NST_OP_SUB, sum, binary(d, NST_OP_MUL, zero, total));
    return nst_expr_ternary(d->exprs, NST_OP_DOT2_S16, sum, zero_as_pair(d, operand, zero), total);
}

/* What the outputs read instead of the sum: the product corrected by the zero points.  Where both operands have one, K za zb is taken
 * off the sums of one of them, so that an element costs two products. */
static NstExpr corrected(IntDot *d, NstExpr za, NstExpr zb, bool flip_a, bool flip_b)
{
    NstExpr sum = nst_expr_arg(d->exprs, NST_I32, 0), none = {0};
    d->in_pairs = takes_pairs(d, za, zb);
    bool both = za.i && zb.i, in_b = both && sums_take_zero(d, &d->b, zb);
    bool in_a = both && !in_b && sums_take_zero(d, &d->a, za);
    if (zb.i) {
        NstExpr total = sum_over_k(d, &d->a, flip_a ? 128 : 0, in_a ? za : none, "row_sums");
        sum = less_product(d, sum, &d->b, zb, total);
    }
    if (za.i) {
        NstExpr total = sum_over_k(d, &d->b, flip_b ? -128 : 0, in_b ? zb : none, "column_sums");
        sum = less_product(d, sum, &d->a, za, total);
    }
    if (!both || in_a || in_b) return sum;
    return binary(d, NST_OP_ADD, sum, binary(d, NST_OP_MUL, count_of_k(d), binary(d, NST_OP_MUL, za, zb)));
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

/* --- pairs of differences ------------------------------------------------------------------------------------ */

/* The index of the row operand's load that is k itself, and no other is; -1: none. */
static int place_of_k(IntDot *d)
{
    const NstExprNode *node = nst_expr(d->exprs, d->a.byte);
    int place = -1;
    if (node->op != NST_OP_LOAD) return -1;
    for (uint32_t i = 0; i < node->n_index; i++) {
        if (!nst_dim_uses(d->module->dims, node->index[i], d->k.var)) continue;
        if (place >= 0 || !nst_dim_same(node->index[i], nst_dim_sym(d->module->dims, d->k.var))) return -1;
        place = (int)i;
    }
    return place;
}

static bool fits_pairs(IntDot *d, uint32_t col)
{
    int64_t least, most;
    nst_dim_bounds(d->module->dims, d->k.extent, &least, &most);
    if (least < LEAST_COPIED || place_of_k(d) < 0 || d->a.constant || !d->b.constant) return false;
    if (!zero_is_byte(d, &d->a) || !zero_is_byte(d, &d->b)) return false;
    if (d->b.zero.i && !nst_module_is_constant(d->module, d->b.zero)) return false;
    if (!is_uniform(d, d->a.zero)) return false;
    NstSym columns = d->nest->axis[col].var;
    return !nst_expr_uses_sym(d->exprs, d->nest->guard, d->k.var) && nst_expr_uses_sym(d->exprs, d->b.byte, columns) &&
           !nst_expr_uses_sym(d->exprs, d->a.byte, columns);
}

/* byte - zero at k, 0 past its end. */
static NstExpr difference(IntDot *d, const Operand *operand, NstExpr byte, NstDim k)
{
    NstExpr value = nst_expr_convert(d->exprs, NST_I32, byte, false);
    if (operand->zero.i) value = binary(d, NST_OP_SUB, value, operand->zero);
    NstExpr inside = binary(d, NST_OP_LT, nst_expr_index(d->exprs, k), nst_expr_index(d->exprs, d->k.extent));
    return nst_expr_ternary(d->exprs, NST_OP_SELECT, inside, value, i32(d, 0));
}

static NstDim last_k(IntDot *d)
{
    return nst_dim_add_const(d->module->dims, d->k.extent, -1);
}

/* The row operand's buffer as 16-bit differences, k innermost and padded to whole pairs, is filled by a nest before; the load of a
 * pair from it. */
static NstExpr row_pairs(IntDot *d)
{
    NstModule *module = d->module;
    NstDims *dims = module->dims;
    const NstExprNode load = *nst_expr(d->exprs, d->a.byte);
    const NstBuffer *from = &nst_module_get(module, (NstBuf){load.ref})->buffer;
    uint32_t place = (uint32_t)place_of_k(d), n = load.n_index;
    NstAxis *axis = NST_NEW_ARRAY(module->arena, NstAxis, n);
    NstDim *at = NST_NEW_ARRAY(module->arena, NstDim, n), *index = NST_NEW_ARRAY(module->arena, NstDim, n);
    uint32_t to = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i == place) continue;
        axis[to] = nst_nest_axis(module, "i", from->shape[i]);
        at[i] = nst_dim_sym(dims, axis[to].var);
        index[to++] = load.index[i];
    }
    axis[to] = nst_nest_axis(module, "k", nst_dim_mul_const(dims, d->word.extent, PAIR));
    NstDim k = nst_dim_sym(dims, axis[to].var);
    at[place] = nst_dim_min(dims, k, last_k(d));
    index[to] = nst_dim_mul_const(dims, nst_dim_sym(dims, d->word.var), PAIR);
    NstExpr byte = nst_expr_load(d->exprs, load.type, (NstBuf){load.ref}, at, n);
    NstExpr value = nst_expr_convert(d->exprs, NST_I16, difference(d, &d->a, byte, k), false);
    NstExpr stored = through_buffer(d, new_nest(d, "differences"), axis, n, NST_I16, value, false);
    return nst_expr_load(d->exprs, NST_I32, (NstBuf){nst_expr(d->exprs, stored)->ref}, index, n);
}

/* Two differences of the column operand as one i32. */
static NstExpr column_pair(IntDot *d)
{
    NstDims *dims = d->module->dims;
    NstDim first = nst_dim_mul_const(dims, nst_dim_sym(dims, d->word.var), PAIR);
    NstExpr half[PAIR];
    for (int t = 0; t < PAIR; t++) {
        NstDim k = nst_dim_add_const(dims, first, t);
        half[t] = difference(d, &d->b, at_k(d, d->b.byte, nst_dim_min(dims, k, last_k(d))), k);
    }
    return binary(d, NST_OP_OR, binary(d, NST_OP_AND, half[0], i32(d, 0xffff)),
                  binary(d, NST_OP_SHL, half[1], i32(d, 16)));
}

static void rewrite_to_pairs(IntDot *d)
{
    NstNest *nest = d->nest;
    NstExpr a = row_pairs(d), b = column_pair(d);
    nest->reduce = nst_copy(d->module->arena, nest->reduce, nest->n_reduce * sizeof(NstAxis));
    nest->reduce[nest->n_reduce - 1] = d->word;
    nest->state = nst_copy(d->module->arena, nest->state, sizeof(NstState));
    nest->state[0].step = nst_expr_ternary(d->exprs, NST_OP_DOT2_S16, nst_expr_arg(d->exprs, NST_I32, 0), a, b);
}

/* --- windows with padding ------------------------------------------------------------------------------------ */

/* An operand's zero point as its own element type; none: it is no such byte. */
static NstExpr zero_as_byte(IntDot *d, const Operand *operand)
{
    Operand zero;
    NstExpr none = {0};
    if (!operand->zero.i) return nst_expr_int(d->exprs, operand->dtype, 0);
    if (converts_byte(d, operand->zero, &zero)) return zero.dtype == operand->dtype ? zero.byte : none;
    const NstExprNode *node = nst_expr(d->exprs, operand->zero);
    bool is_signed = operand->dtype == NST_I8;
    int64_t least = is_signed ? INT8_MIN : 0, most = is_signed ? INT8_MAX : UINT8_MAX;
    if (node->op != NST_OP_CONST || node->imm.i < least || node->imm.i > most) return none;
    return nst_expr_int(d->exprs, operand->dtype, node->imm.i);
}

/* The least or the greatest value of e over all axes, rows counted in whole blocks; false if it is not linear in them. */
static bool extreme(IntDot *d, NstDim *e, bool greatest, int row_axis, int64_t block)
{
    NstDims *dims = d->module->dims;
    for (uint32_t k = 0; k < d->nest->n_axes + d->nest->n_reduce; k++) {
        NstAxis axis = k < d->nest->n_axes ? d->nest->axis[k] : d->nest->reduce[k - d->nest->n_axes];
        NstDim coef, rest, extent = axis.extent;
        int64_t c;
        if (!nst_dim_uses(dims, *e, axis.var)) continue;
        if (!nst_dim_linear(dims, *e, axis.var, &coef, &rest) || !nst_dim_is_const(dims, coef, &c)) return false;
        if ((int)k == row_axis)
            extent = nst_dim_mul_const(dims, nst_dim_ceildiv(dims, extent, nst_dim_const(dims, block)), block);
        bool at_end = (c > 0) == greatest;
        *e = at_end ? nst_dim_add(dims, rest, nst_dim_mul_const(dims, nst_dim_add_const(dims, extent, -1), c)) : rest;
    }
    return true;
}

/* The operand's buffer with the byte `around` on all sides that any place of the nest reads, k innermost and `depth` long, what is past
 * its end left as it is; the load from it.  None if those sides are not known. */
static NstExpr with_surroundings(IntDot *d, NstExpr around, int row_axis, int64_t block, NstAxis k, uint32_t place)
{
    NstModule *module = d->module;
    NstDims *dims = module->dims;
    const NstExprNode load = *nst_expr(d->exprs, d->a.byte);
    const NstBuffer *from = &nst_module_get(module, (NstBuf){load.ref})->buffer;
    uint32_t n = load.n_index, to = 0;
    NstAxis *axis = NST_NEW_ARRAY(module->arena, NstAxis, n);
    NstDim *at = NST_NEW_ARRAY(module->arena, NstDim, n), *index = NST_NEW_ARRAY(module->arena, NstDim, n);
    NstDim *out = NST_NEW_ARRAY(module->arena, NstDim, n), shape[NST_MAX_RANK];
    NstExpr inside = {0};
    for (uint32_t i = 0; i < n; i++) {
        NstDim least = load.index[i], most = least;
        if (i == place) continue;
        if (!extreme(d, &least, false, row_axis, block) || !extreme(d, &most, true, row_axis, block))
            return (NstExpr){0};
        shape[to] = nst_dim_add_const(dims, nst_dim_sub(dims, most, least), 1);
        axis[to] = nst_nest_axis(module, "i", shape[to]);
        out[to] = nst_dim_sym(dims, axis[to].var);
        index[to++] = nst_dim_sub(dims, load.index[i], least);
        NstDim last = nst_dim_add_const(dims, from->shape[i], -1), zero = nst_dim_const(dims, 0);
        NstDim source = nst_dim_add(dims, out[to - 1], least);
        at[i] = nst_dim_max(dims, zero, nst_dim_min(dims, source, last));
        if (nst_dim_same(at[i], source)) continue;
        NstExpr same = binary(d, NST_OP_EQ, nst_expr_index(d->exprs, at[i]), nst_expr_index(d->exprs, source));
        inside = inside.i ? binary(d, NST_OP_AND, inside, same) : same;
    }
    axis[to] = nst_nest_axis(module, "k", d->k.extent);
    shape[to] = k.extent;
    at[place] = out[to] = nst_dim_sym(dims, axis[to].var);
    index[to] = nst_dim_sym(dims, k.var);
    NstNest *nest = new_nest(d, "surrounded");
    NstExpr byte = nst_expr_load(d->exprs, load.type, (NstBuf){load.ref}, at, n);
    NstBuf buffer = nst_module_buffer(module, nest->name, load.type, (int)n, shape, NST_ROLE_TEMP);
    nest->n_axes = n;
    nest->axis = axis;
    nest->n_outs = 1;
    nest->out = NST_NEW(module->arena, NstNestOut);
    nest->out[0] = (NstNestOut){.buffer = buffer, .n_index = n, .index = out};
    nest->out[0].value = inside.i ? nst_expr_ternary(d->exprs, NST_OP_SELECT, inside, byte, around) : byte;
    nst_vec_push(module->arena, &d->before, nst_nest_clone(module, nest));
    return nst_expr_load(d->exprs, load.type, buffer, index, n);
}

/* Takes the conditions off the nest: the row operand is read from a copy with its zero point around it, k counted in whole registers.
 * Past the end of k the columns are their zero points, so that it does not matter what the rows are there.  False, and nothing changed,
 * where the conditions say something else. */
static bool surround(IntDot *d, uint32_t col, int row_axis, int64_t block)
{
    NstDims *dims = d->module->dims;
    int place = place_of_k(d);
    NstExpr around = zero_as_byte(d, &d->a), past_k = zero_as_byte(d, &d->b);
    NstSym columns = d->nest->axis[col].var;
    int64_t shortest, longest;
    nst_dim_bounds(dims, d->k.extent, &shortest, &longest);
    if (shortest < LEAST_COPIED || place < 0 || !around.i || !is_uniform(d, d->a.zero) || !past_k.i || d->a.constant ||
        !d->b.constant || nst_expr_uses_sym(d->exprs, d->a.byte, columns) ||
        !nst_conditions_are_inside(d->module, d->nest->guard, nst_expr(d->exprs, d->a.byte)))
        return false;
    NstAxis k = nst_nest_axis(d->module, "k", nst_dim_mul_const(dims, d->word.extent, WORD));
    NstExpr byte = with_surroundings(d, around, row_axis, block, k, (uint32_t)place);
    if (!byte.i) return false;
    NstExpr a = nst_expr_convert(d->exprs, NST_I32, byte, false);
    if (d->a.zero.i) a = binary(d, NST_OP_SUB, a, d->a.zero);
    NstDim at = nst_dim_sym(dims, k.var), last = nst_dim_add_const(dims, d->k.extent, -1);
    NstExpr b = at_k(d, d->b.byte, nst_dim_min(dims, at, last));
    NstExpr exists = binary(d, NST_OP_LT, nst_expr_index(d->exprs, at), nst_expr_index(d->exprs, d->k.extent));
    b = nst_expr_convert(d->exprs, NST_I32, nst_expr_ternary(d->exprs, NST_OP_SELECT, exists, b, past_k), false);
    if (d->b.zero.i) b = binary(d, NST_OP_SUB, b, d->b.zero);
    nst_nest_replace_factor(d->module, d->nest, d->c.a, a);
    nst_nest_replace_factor(d->module, d->nest, d->c.b, b);
    d->nest->reduce = nst_copy(d->module->arena, d->nest->reduce, d->nest->n_reduce * sizeof(NstAxis));
    d->nest->reduce[d->nest->n_reduce - 1] = k;
    d->nest->guard = (NstExpr){0};
    return true;
}

/* --- the rewrites -------------------------------------------------------------------------------------------- */

/* False if the nest is no such contraction. */
static bool read_nest(IntDot *d, NstModule *module, NstNest *nest, uint32_t col)
{
    *d = (IntDot){.module = module, .exprs = module->exprs, .nest = nest};
    if (!nst_nest_contraction_by(module, nest, col, &d->c) || nest->state[0].dtype != NST_I32 || nest->n_lets)
        return false;
    if (!read_operand(d, d->c.a, &d->a) || !read_operand(d, d->c.b, &d->b)) return false;
    d->k = nest->reduce[nest->n_reduce - 1];
    return nst_expr_uses_sym(d->exprs, d->a.byte, d->k.var) && nst_expr_uses_sym(d->exprs, d->b.byte, d->k.var);
}

static bool read_contraction(IntDot *d, NstModule *module, uint32_t at, uint32_t col)
{
    NstGroup *group = module->groups.at[at];
    return group->items.n == 1 && group->items.at[0].nest && !group->n_axes &&
           read_nest(d, module, group->items.at[0].nest, col);
}

/* Counts k in words of `step` elements, rounded up to whole registers of `words`. */
static void count_words(IntDot *d, int64_t step, int64_t words)
{
    NstDims *dims = d->module->dims;
    NstDim registers = nst_dim_ceildiv(dims, d->k.extent, nst_dim_const(dims, step * words));
    d->word = nst_nest_axis(d->module, "kw", nst_dim_mul_const(dims, registers, words));
}

static void add_prepack(IntDot *d)
{
    for (uint32_t k = 0; k < d->prepack.n; k++)
        nst_vec_push(d->module->arena, &d->module->prepack, nst_group_new(d->module, d->prepack.at[k]));
}

static void add_before(IntDot *d, uint32_t *at)
{
    for (uint32_t k = 0; k < d->before.n; k++)
        nst_module_insert_group(d->module, nst_group_new(d->module, d->before.at[k]), (*at)++);
}

bool nst_integer_contraction_types(NstModule *module, uint32_t at, uint32_t col, NstDtype *a, NstDtype *b)
{
    IntDot d;
    if (!read_contraction(&d, module, at, col)) return false;
    *a = d.a.dtype;
    *b = d.b.dtype;
    return true;
}

bool nst_integer_surround(NstModule *module, uint32_t *at, uint32_t col, int row_axis, const NstTensorInsnInfo *matrix)
{
    IntDot d;
    if (!read_contraction(&d, module, *at, col)) return false;
    if (!d.nest->guard.i) return true;
    count_words(&d, WORD, matrix ? matrix->k_step / WORD : 1);
    if (!surround(&d, col, row_axis, matrix ? matrix->matrix_rows : 1)) return false;
    add_before(&d, at);
    return true;
}

bool nst_integer_contraction(NstModule *module, uint32_t *at, uint32_t col, const NstTensorInsnInfo *matrix)
{
    IntDot d;
    if (!matrix && nst_target_insn(module->target, NST_U8, NST_I8, NST_I32) != NST_INSN_COUNT)
        (void)nst_integer_surround(module, at, col, -1, NULL);
    if (!read_contraction(&d, module, *at, col)) return false;
    d.matrix = matrix;
    if (!d.nest->guard.i) {
        count_words(&d, WORD, matrix ? matrix->k_step / WORD : 1);
        rewrite(&d);
    } else if (!matrix && fits_pairs(&d, col)) {
        count_words(&d, PAIR, 1);
        rewrite_to_pairs(&d);
    } else {
        return false;
    }
    add_prepack(&d);
    add_before(&d, at);
    return true;
}

bool nst_integer_step(NstModule *module, NstNest *nest, uint32_t col)
{
    IntDot d;
    if (!read_nest(&d, module, nest, col) || nest->guard.i) return false;
    if (d.b.zero.i || d.b.dtype != NST_I8 || !d.b.constant || !loads_words(&d, &d.a)) return false;
    count_words(&d, WORD, 1);
    rewrite(&d);
    NST_ASSERT(d.before.n == 0);
    add_prepack(&d);
    return true;
}
