/* formula_tree.c: types of a formula's parts, and the expression it becomes.
 *
 * Narrow operands are widened to their compute type only where an operation needs it, so that a formula that just
 * moves values moves bits.  Recursion is bounded by NST_FORMULA_MAX_DEPTH. */
#include "ir/formula_tree.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#define SHOWN_TEXT  80  /* characters of a formula in an error */
#define MAX_MESSAGE 256 /* characters */

typedef NstFormulaTree Tree;
typedef NstFormulaLiteral Literal;
typedef NstFormulaParser Parser;

NstStatus nst_formula_fail(Parser *parser, NstStatus code, int column, const char *format, ...)
{
    char message[MAX_MESSAGE];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    size_t n = strcspn(parser->start, parser->whole ? "" : "\n");
    bool cut = n > SHOWN_TEXT;
    return nst_fail(parser->ctx, code, "formula '%.*s%s', column %d: %s", (int)(cut ? SHOWN_TEXT : n), parser->start,
                    cut ? "..." : "", column, message);
}

static const char *type_name(NstDtype type)
{
    return nst_dtype_info(type)->name;
}

static NstDtype type_of(const Parser *parser, NstExpr e)
{
    return nst_expr(parser->exprs, e)->type;
}

/* -- tree nodes with inferred types ---------------------------------------------------------------------------- */

static Tree *new_tree(Parser *parser, NstFormulaTreeKind kind, int column_number)
{
    Tree *tree = NST_NEW(parser->scratch, Tree);
    tree->kind = kind;
    tree->column = column_number;
    tree->depth = 1;
    return tree;
}

Tree *nst_formula_leaf(Parser *parser, NstExpr e, int column_number)
{
    Tree *tree = new_tree(parser, TREE_LEAF, column_number);
    tree->leaf = e;
    tree->type = type_of(parser, e);
    return tree;
}

Tree *nst_formula_literal(Parser *parser, Literal literal, int column_number)
{
    Tree *tree = new_tree(parser, TREE_LITERAL, column_number);
    tree->literal = literal;
    tree->fractional = !literal.integral;
    return tree;
}

static NstStatus set_args(Parser *parser, Tree *tree, Tree *const *arg, int n)
{
    for (int k = 0; k < n; k++) {
        tree->arg[k] = arg[k];
        tree->fractional = tree->fractional || arg[k]->fractional;
        if (tree->depth <= arg[k]->depth) tree->depth = arg[k]->depth + 1;
    }
    if (tree->depth <= NST_FORMULA_MAX_DEPTH) return NST_OK;
    return nst_formula_fail(parser, NST_E_LIMIT, tree->column, "more than %d operations within one another",
                            NST_FORMULA_MAX_DEPTH);
}

/* The one type operands first .. n-1 share: their compute type where they differ or `compute` asks for it.
 * NONE if all are literals; false if they do not fit together. */
static bool common_type(Tree *const *arg, int first, int n, bool compute, NstDtype *type)
{
    bool literals = false, differ = false;
    NstDtype raw = NST_DTYPE_NONE, widened = NST_DTYPE_NONE;
    for (int k = first; k < n; k++) {
        if (arg[k]->type == NST_DTYPE_NONE) {
            literals = true;
            continue;
        }
        NstDtype wide = nst_dtype_info(arg[k]->type)->compute;
        if (widened != NST_DTYPE_NONE && wide != widened) return false;
        differ = differ || (raw != NST_DTYPE_NONE && raw != arg[k]->type);
        raw = arg[k]->type;
        widened = wide;
    }
    *type = compute || literals || differ ? widened : raw;
    return true;
}

static const char *rule_text(NstScalarRule rule)
{
    switch (rule) {
    case NST_RULE_FLOAT: return "floats of one type";
    case NST_RULE_TEST: return "a float";
    case NST_RULE_INT: return "integers of one type";
    case NST_RULE_INT_BOOL: return "integers or bools of one type";
    case NST_RULE_NUMBER: return "numbers of one type";
    case NST_RULE_BOOL: return "bools";
    case NST_RULE_COMPARE: return "numbers or bools of one type";
    case NST_RULE_SELECT: return "a bool and two values of one type";
    case NST_RULE_DOT: return "i32";
    default: return "operands";
    }
}

static NstStatus fail_types(Parser *parser, NstScalarOp op, int column_number, Tree *const *arg, int n)
{
    char given[64] = "";
    for (int k = 0; k < n; k++) {
        size_t used = strlen(given);
        snprintf(given + used, sizeof given - used, "%s%s", k ? ", " : "",
                 arg[k]->type == NST_DTYPE_NONE ? "literal" : type_name(arg[k]->type));
    }
    const NstScalarInfo *info = nst_scalar_info(op);
    return nst_formula_fail(parser, NST_E_TYPE, column_number, "'%s' of (%s); allowed: %s", info->text, given,
                            rule_text(info->rule));
}

/* The tree of an operation, its operand and result types inferred. */
NstStatus nst_formula_op(Parser *parser, NstScalarOp op, int column_number, Tree *const *arg, int n, Tree **out)
{
    const NstScalarInfo *info = nst_scalar_info(op);
    Tree *tree = new_tree(parser, TREE_OP, column_number);
    tree->op = op;
    NST_TRY(set_args(parser, tree, arg, n));
    bool select = info->rule == NST_RULE_SELECT,
         to_bool = info->rule == NST_RULE_COMPARE || info->rule == NST_RULE_TEST;
    if (n != info->arity || (select && arg[0]->type != NST_BOOL) ||
        !common_type(arg, select ? 1 : 0, n, !select, &tree->operand))
        return fail_types(parser, op, column_number, arg, n);
    tree->fractional = !to_bool && (tree->fractional || info->rule == NST_RULE_FLOAT);
    if (tree->operand != NST_DTYPE_NONE) {
        const NstDtype operand[3] = {select ? NST_BOOL : tree->operand, tree->operand, tree->operand};
        tree->type = nst_scalar_result(op, operand, n);
        if (tree->type == NST_DTYPE_NONE) return fail_types(parser, op, column_number, arg, n);
    } else if (to_bool) {
        tree->operand = info->rule == NST_RULE_TEST || arg[0]->fractional || arg[n - 1]->fractional ? NST_F32 : NST_I64;
        tree->type = NST_BOOL;
    }
    *out = tree;
    return NST_OK;
}

/* The tree of CONVERT, CONVERT_SAT or BITCAST of arg to a type. */
NstStatus nst_formula_cast(Parser *parser, NstScalarOp op, NstDtype to, int column_number, Tree *arg, Tree **out)
{
    Tree *tree = new_tree(parser, TREE_CONVERT, column_number);
    tree->op = op;
    tree->type = to;
    NST_TRY(set_args(parser, tree, &arg, 1));
    tree->fractional = false;
    NstDtype from = arg->type;
    bool bitcast = op == NST_OP_BITCAST, allowed;
    if (from == NST_DTYPE_NONE)
        allowed = !bitcast && nst_scalar_can_convert(to, NST_F64);
    else
        allowed = bitcast ? nst_scalar_can_bitcast(to, from) : nst_scalar_can_convert(to, from);
    if (!allowed)
        return nst_formula_fail(parser, NST_E_TYPE, column_number, "'%s' from %s to %s; allowed: %s",
                                nst_scalar_info(op)->text, from == NST_DTYPE_NONE ? "a literal" : type_name(from),
                                type_name(to), bitcast ? "numbers of equal width" : "numbers and bools");
    *out = tree;
    return NST_OK;
}

/* -- building -------------------------------------------------------------------------------------------------- */

/* True and *value set if the literal is exactly representable in the integer type. */
static bool literal_to_int(const Literal *literal, NstDtype type, NstScalar *value)
{
    uint64_t magnitude = literal->magnitude;
    if (!literal->integral) {
        if (!(literal->value < 18446744073709551616.0) || literal->value != trunc(literal->value)) return false;
        magnitude = (uint64_t)literal->value;
    }
    *value = nst_scalar_normal(type, (NstScalar){.bits = literal->negative ? 0 - magnitude : magnitude});
    bool negative = nst_dtype_is_signed(type) && value->i < 0;
    uint64_t kept = negative ? 0 - value->bits : value->bits;
    return kept == magnitude && (magnitude == 0 || negative == literal->negative);
}

static double literal_to_double(const Literal *literal)
{
    double value = literal->integral ? (double)literal->magnitude : literal->value;
    return literal->negative ? -value : value;
}

NstStatus nst_formula_build_literal(Parser *parser, const Literal *literal, int column_number, NstDtype type,
                                    NstExpr *out)
{
    NstScalar value = {0};
    if (nst_dtype_is_float(type)) {
        *out = nst_expr_float(parser->exprs, type, literal_to_double(literal));
        return NST_OK;
    }
    bool raw = type == NST_STR || type == NST_C64; /* handles and pairs have no literals but their bits */
    if (raw && literal->integral && !literal->negative) {
        *out = nst_expr_const(parser->exprs, type, (NstScalar){.bits = literal->magnitude});
        return NST_OK;
    }
    if (!nst_dtype_is_int(type) || !literal_to_int(literal, type, &value))
        return nst_formula_fail(parser, NST_E_TYPE, column_number, "literal %.17g does not fit %s",
                                literal_to_double(literal), type_name(type));
    *out = nst_expr_const(parser->exprs, type, value);
    return NST_OK;
}

static NstStatus build(Parser *parser, const Tree *tree, NstDtype want, NstExpr *out);

/* The tree's value brought to exactly `type`. */
static NstStatus build_as(Parser *parser, const Tree *tree, NstDtype type, NstExpr *out)
{
    NST_TRY(build(parser, tree, type, out));
    if (type_of(parser, *out) != type) *out = nst_expr_convert(parser->exprs, type, *out, false);
    return NST_OK;
}

static NstStatus build_convert(Parser *parser, const Tree *tree, NstExpr *out)
{
    const Tree *arg = tree->arg[0];
    NstDtype natural = arg->type != NST_DTYPE_NONE ? arg->type : arg->fractional ? NST_F64 : NST_I64;
    NST_TRY(build(parser, arg, natural, out));
    if (tree->op == NST_OP_BITCAST)
        *out = nst_expr_bitcast(parser->exprs, tree->type, *out);
    else
        *out = nst_expr_convert(parser->exprs, tree->type, *out, tree->op == NST_OP_CONVERT_SAT);
    return NST_OK;
}

/* want: the type for literals; a compute type. */
static NstStatus build(Parser *parser, const Tree *tree, NstDtype want, NstExpr *out)
{
    switch (tree->kind) {
    case TREE_LITERAL: return nst_formula_build_literal(parser, &tree->literal, tree->column, want, out);
    case TREE_LEAF: *out = tree->leaf; return NST_OK;
    case TREE_CONVERT: return build_convert(parser, tree, out);
    case TREE_OP: break;
    }
    const NstScalarInfo *info = nst_scalar_info(tree->op);
    NstDtype type = tree->operand != NST_DTYPE_NONE ? tree->operand : want, operand[3] = {type, type, type};
    if (info->rule == NST_RULE_SELECT) operand[0] = NST_BOOL;
    if (nst_scalar_result(tree->op, operand, info->arity) == NST_DTYPE_NONE)
        return nst_formula_fail(parser, NST_E_TYPE, tree->column, "'%s' of literals where %s is needed; allowed: %s",
                                info->text, type_name(type), rule_text(info->rule));
    NstExpr arg[3] = {{0}, {0}, {0}};
    for (int k = 0; k < info->arity; k++) NST_TRY(build_as(parser, tree->arg[k], operand[k], &arg[k]));
    *out = nst_expr_make(parser->exprs, tree->op, NST_DTYPE_NONE, arg);
    return NST_OK;
}

/* The value of a whole formula (result NONE: its own type). */
NstStatus nst_formula_build(Parser *parser, const Tree *tree, NstDtype result, NstExpr *out)
{
    NstDtype wanted = nst_dtype_info(result)->compute, own = tree->fractional ? NST_F32 : NST_I64;
    NST_TRY(build(parser, tree, wanted != NST_DTYPE_NONE ? wanted : own, out));
    NstDtype type = type_of(parser, *out);
    if (result == NST_DTYPE_NONE || type == result) return NST_OK;
    bool rounds = (nst_dtype_is_float(type) && nst_dtype_is_float(result)) ||
                  (nst_dtype_is_int(type) && nst_dtype_is_int(result));
    if (!rounds)
        return nst_formula_fail(parser, NST_E_TYPE, 1, "the formula gives %s where %s is needed", type_name(type),
                                type_name(result));
    *out = nst_expr_convert(parser->exprs, result, *out, false);
    return NST_OK;
}
