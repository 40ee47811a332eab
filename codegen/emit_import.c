/* emit_import.c: private copies of a kernel's sizes and expressions.
 *
 * The kernel's tables belong to its graph and are only read.  Copies are made when first needed and kept by id. */
#include "codegen/emit.h"
#include "ir/math.h"

#define GROW_TO(e, vec, i)                                                                                             \
    do {                                                                                                               \
        nst_vec_reserve((e)->arena, (vec), (i) + 1);                                                                   \
        while ((vec)->n <= (i)) memset(&(vec)->at[(vec)->n++], 0, sizeof *(vec)->at);                                  \
    } while (0)

NstBinding *nst_emit_binding(NstEmit *e, NstSym sym)
{
    GROW_TO(e, &e->bindings, sym.i);
    return &e->bindings.at[sym.i];
}

void nst_emit_bind_value(NstEmit *e, NstSym sym, LLVMValueRef value)
{
    nst_emit_bind_replacement(e, sym, (NstDim){0});
    NstBinding *binding = nst_emit_binding(e, sym);
    binding->scope = e->scopes.n - 1;
    binding->value = nst_llvm_lane_count(value) == 1 ? value : NULL;
    binding->lanes = binding->value ? NULL : value;
}

void nst_emit_bind_replacement(NstEmit *e, NstSym sym, NstDim replacement)
{
    nst_emit_binding(e, sym)->replacement = replacement;
    GROW_TO(e, &e->replacement, sym.i);
    e->replacement.at[sym.i] = replacement;
}

NstSym nst_emit_import_sym(NstEmit *e, NstSym sym)
{
    GROW_TO(e, &e->sym_of, sym.i);
    if (e->sym_of.at[sym.i].i) return e->sym_of.at[sym.i];
    const NstSymInfo *info = nst_dims_sym_info(e->kernel->dims, sym);
    NstSym copy = nst_dims_new_sym(e->dims, NST_SYM_INDEX, info->name, info->lo, info->hi);
    e->sym_of.at[sym.i] = copy;
    nst_dims_sym(e->dims, copy)->multiple = info->multiple;
    if (info->lo_dim.i) {
        NstDim lo = nst_emit_import_dim(e, info->lo_dim);
        nst_dims_sym(e->dims, copy)->lo_dim = lo;
    }
    if (info->hi_dim.i) {
        NstDim hi = nst_emit_import_dim(e, info->hi_dim);
        nst_dims_sym(e->dims, copy)->hi_dim = hi;
    }
    return copy;
}

static NstDim copy_dim(NstEmit *e, const NstDimNode *node)
{
    NstDims *dims = e->dims;
    if (node->op == NST_DIM_CONST) return nst_dim_const(dims, node->value);
    if (node->op == NST_DIM_SYM) {
        NstDim def = nst_dims_sym_info(e->kernel->dims, node->sym)->def; /* a name for what nests deeply */
        return def.i ? nst_emit_import_dim(e, def) : nst_dim_sym(dims, nst_emit_import_sym(e, node->sym));
    }
    if (node->op == NST_DIM_SUM) {
        NstDim sum = nst_dim_const(dims, node->value);
        for (uint32_t k = 0; k < node->n; k++)
            sum = nst_dim_add(dims, sum, nst_dim_mul_const(dims, nst_emit_import_dim(e, node->arg[k]), node->coef[k]));
        return sum;
    }
    NstDim a = nst_emit_import_dim(e, node->arg[0]);
    for (uint32_t k = 1; k < node->n; k++) {
        NstDim b = nst_emit_import_dim(e, node->arg[k]);
        switch (node->op) {
        case NST_DIM_PRODUCT: a = nst_dim_mul(dims, a, b); break;
        case NST_DIM_FLOORDIV: a = nst_dim_floordiv(dims, a, b); break;
        case NST_DIM_MOD: a = nst_dim_mod(dims, a, b); break;
        case NST_DIM_MIN: a = nst_dim_min(dims, a, b); break;
        default: a = nst_dim_max(dims, a, b); break;
        }
    }
    return a;
}

NstDim nst_emit_import_dim(NstEmit *e, NstDim dim)
{
    GROW_TO(e, &e->dim_of, dim.i);
    if (e->dim_of.at[dim.i].i) return e->dim_of.at[dim.i];
    NstDim copy = copy_dim(e, nst_dim_node(e->kernel->dims, dim));
    e->dim_of.at[dim.i] = copy;
    return copy;
}

NstDim nst_emit_replace(NstEmit *e, NstDim dim)
{
    return nst_dim_subst_all(e->dims, dim, e->replacement.at, e->replacement.n);
}

NstDim nst_emit_dim(NstEmit *e, NstDim dim)
{
    return nst_emit_replace(e, nst_emit_import_dim(e, dim));
}

NstLayout nst_emit_import_layout(NstEmit *e, const NstBuffer *buffer)
{
    NstLayout copy = buffer->layout;
    NstLayoutPart *part = NST_NEW_ARRAY(e->arena, NstLayoutPart, copy.n_parts);
    for (uint32_t k = 0; k < copy.n_parts; k++) {
        part[k] = buffer->layout.parts[k];
        part[k].stride = nst_emit_import_dim(e, part[k].stride);
    }
    copy.parts = part;
    copy.offset = nst_emit_import_dim(e, copy.offset);
    copy.elements = nst_emit_import_dim(e, copy.elements);
    return copy;
}

/* --- expressions ------------------------------------------------------------------------------------------- */

static NstExpr copy_expr(NstEmit *e, NstExpr expr);

NstExpr nst_emit_copy_expr(NstEmit *e, NstExpr expr)
{
    GROW_TO(e, &e->expr_of, expr.i);
    if (e->expr_of.at[expr.i].i) return e->expr_of.at[expr.i];
    NstExpr copy = copy_expr(e, expr);
    e->expr_of.at[expr.i] = copy;
    return copy;
}

static NstExpr copy_leaf(NstEmit *e, const NstExprNode *node)
{
    NstDim index[NST_MAX_RANK];
    switch (node->op) {
    case NST_OP_CONST: return nst_expr_const(e->exprs, node->type, node->imm);
    case NST_OP_INDEX: return nst_expr_index(e->exprs, nst_emit_import_dim(e, node->index[0]));
    case NST_OP_LET: return nst_expr_let(e->exprs, node->type, node->ref);
    case NST_OP_LOAD:
        for (uint32_t k = 0; k < node->n_index; k++) index[k] = nst_emit_import_dim(e, node->index[k]);
        return nst_expr_load(e->exprs, node->type, (NstBuf){node->ref}, index, node->n_index);
    default:
        nst_emit_fail(e, NST_E_VERIFY, "expression of kernel '%s' holds operand slot %u outside a combiner",
                      e->kernel->name, node->ref);
        return nst_expr_int(e->exprs, NST_I32, 0);
    }
}

static NstExpr copy_expr(NstEmit *e, NstExpr expr)
{
    const NstExprNode node = *nst_expr(e->kernel->exprs, expr);
    if (node.op < NST_OP_ADD) return copy_leaf(e, &node);
    const NstScalarInfo *info = nst_scalar_info(node.op);
    NstExpr arg[3] = {{0}, {0}, {0}};
    for (int k = 0; k < info->arity; k++) arg[k] = nst_emit_copy_expr(e, node.arg[k]);
    if (node.op == NST_OP_CONVERT || node.op == NST_OP_CONVERT_SAT)
        return nst_expr_convert(e->exprs, node.type, arg[0], node.op == NST_OP_CONVERT_SAT);
    if (node.op == NST_OP_BITCAST) return nst_expr_bitcast(e->exprs, node.type, arg[0]);
    if (info->arity == 1) return nst_expr_unary(e->exprs, node.op, arg[0]);
    if (info->arity == 2) return nst_expr_binary(e->exprs, node.op, arg[0], arg[1]);
    return nst_expr_ternary(e->exprs, node.op, arg[0], arg[1], arg[2]);
}

NstExpr nst_emit_import_expr(NstEmit *e, NstExpr expr)
{
    NstMathForm form = {.has_fma = e->target->has_fma, .has_scale = e->target->level >= NST_TARGET_AVX512};
    return nst_math_expand(e->exprs, nst_emit_copy_expr(e, expr), form);
}
