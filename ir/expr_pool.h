/* expr_pool.h: what expr.c and expr_fold.c share; not for others.  The pool stores nodes once each
 * (hash-consing); expr_fold.c decides which node an operation becomes. */
#ifndef NST_IR_EXPR_POOL_H
#define NST_IR_EXPR_POOL_H

#include "ir/expr.h"

/* The id of the node equal to `node`, added if new.  The index array is copied. */
NstExpr nst_expr_intern(NstExprs *exprs, const NstExprNode *node);

#endif
