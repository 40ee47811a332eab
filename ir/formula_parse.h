/* formula_parse.h: shared by the two halves of the formula language, formula.c (parse) and formula_print.c;
 * not for others.  The precedence of infix operations stands here once. */
#ifndef NST_IR_FORMULA_PARSE_H
#define NST_IR_FORMULA_PARSE_H

#include "ir/expr.h"

#define NST_FORMULA_NESTING 64 /* parentheses, calls, prefix signs and ?: within one another */

/* Binding strength of an operation written between its operands, as in C: 1 binds least, 0 = not infix. */
int nst_formula_precedence(NstScalarOp op);
#define NST_PRECEDENCE_PREFIX 11

#endif
