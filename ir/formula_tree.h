/* formula_tree.h: a formula between its text and its expression; shared by the files of the formula language and not
 * for others.  A tree's literals have no type yet; types are inferred bottom up while the tree grows, and the tree is
 * built top down: a literal takes the type its siblings or the result ask for. */
#ifndef NST_IR_FORMULA_TREE_H
#define NST_IR_FORMULA_TREE_H

#include "ir/base/vec.h"
#include "ir/expr.h"

#define NST_FORMULA_NESTING   64  /* parentheses, calls, prefix signs and ?: within one another */
#define NST_FORMULA_MAX_DEPTH 512 /* operations chained within one another, a + b + c + ... included */
#define NST_FORMULA_LETTERS   26
#define NST_PRECEDENCE_PREFIX 11

/* Binding strength of an operation written between its operands, as in C: 1 binds least, 0 = not infix. */
int nst_formula_precedence(NstScalarOp op);

typedef struct NstFormulaLiteral {
    bool negative, integral; /* integral: `magnitude` is exact */
    uint64_t magnitude;
    double value; /* without the sign; may be NaN */
} NstFormulaLiteral;

typedef enum NstFormulaTreeKind { TREE_LITERAL, TREE_LEAF, TREE_OP, TREE_CONVERT } NstFormulaTreeKind;

typedef struct NstFormulaTree {
    NstFormulaTreeKind kind;
    NstScalarOp op;   /* OP; CONVERT: CONVERT, CONVERT_SAT or BITCAST */
    NstDtype type;    /* of the result; NONE = only literals so far */
    NstDtype operand; /* OP: type its operands are brought to; NONE = the type asked of the result, or the default */
    bool fractional;  /* without a type: f32 is the default, not i64 */
    int column, depth;
    NstExpr leaf;
    NstFormulaLiteral literal;
    struct NstFormulaTree *arg[3];
} NstFormulaTree;

typedef struct NstFormulaParser {
    NstCtx *ctx;
    NstExprs *exprs;
    NstArena *scratch; /* trees live here */
    const char *start, *p;
    bool whole; /* the text is the formula: newlines are spaces, and it must end where the formula does */
    int nesting;
    const NstDtype *arg_type;
    uint32_t n_args;
    const NstFormulaWord *word;
    uint32_t n_words;
    const NstFormulaNames *names;
    NST_VEC(NstExpr) bindings;
} NstFormulaParser;

/* Fails with the formula's text and the column before the message. */
NstStatus nst_formula_fail(NstFormulaParser *parser, NstStatus code, int column, const char *format, ...)
    NST_PRINTF(4, 5);

/* Trees of a typed value and of an untyped literal. */
NstFormulaTree *nst_formula_leaf(NstFormulaParser *parser, NstExpr e, int column);
NstFormulaTree *nst_formula_literal(NstFormulaParser *parser, NstFormulaLiteral literal, int column);

/* The tree of an operation, its operand and result types inferred.  Errors: NST_E_TYPE, NST_E_LIMIT (depth). */
NstStatus nst_formula_op(NstFormulaParser *parser, NstScalarOp op, int column, NstFormulaTree *const *arg, int n,
                         NstFormulaTree **out) NST_MUST_CHECK;
/* The same for CONVERT, CONVERT_SAT and BITCAST to a type. */
NstStatus nst_formula_cast(NstFormulaParser *parser, NstScalarOp op, NstDtype to, int column, NstFormulaTree *arg,
                           NstFormulaTree **out) NST_MUST_CHECK;

/* The constant of a literal in a type.  Errors: NST_E_TYPE if an integer type cannot hold it. */
NstStatus nst_formula_build_literal(NstFormulaParser *parser, const NstFormulaLiteral *literal, int column,
                                    NstDtype type, NstExpr *out) NST_MUST_CHECK;
/* The expression of a whole formula, rounded to type result (NONE: its own).  Errors: NST_E_TYPE. */
NstStatus nst_formula_build(NstFormulaParser *parser, const NstFormulaTree *tree, NstDtype result,
                            NstExpr *out) NST_MUST_CHECK;

#endif
