/* support_math_block.h: evaluates expressions of one or two operands over blocks of values, an operation at a time.
 *
 * A second evaluator beside nst_scalar_eval, quick enough for all 2^32 floats: what tests/math_ulp.c measures is the very
 * expansion that code generation emits.  What does not depend on how FMA rounds is computed once for both ways, and values
 * share memory as registers do, so that a block stays in L1 and L2.  Operations and types that no expansion uses are
 * refused. */
#ifndef NST_TESTS_SUPPORT_MATH_BLOCK_H
#define NST_TESTS_SUPPORT_MATH_BLOCK_H

#include "ir/expr.h"

enum { BLOCK = 256, BLOCK_ROOTS = 3 };

/* An expression, and whether FMA rounds once in it. */
typedef struct BlockRoot {
    NstExpr e;
    bool fused;
} BlockRoot;

typedef struct BlockStep {
    NstExpr e;
    NstScalarOp op;
    NstDtype type, from; /* of the result, of the first operand */
    bool fused;          /* as in the root it belongs to */
    bool rounds;         /* it or a step that it needs is an FMA: a root of the other kind has one of its own */
    int arg[3];          /* steps before */
    void *values; /* BLOCK values; bool as uint32_t.  Those of operands, constants and results are theirs alone */
} BlockStep;

typedef struct BlockProgram {
    BlockStep *steps; /* operands before what needs them */
    int n;
    void *operand[2];                /* BLOCK values of ARG 0, 1; NULL if unused */
    const void *result[BLOCK_ROOTS]; /* of the roots */
} BlockProgram;

/* The program of 1 to BLOCK_ROOTS expressions.  [owned by arena] */
BlockProgram block_program(NstArena *arena, const NstExprs *exprs, const BlockRoot *roots, int n_roots);

/* From the operands' values the results. */
void block_run(const BlockProgram *program);

#endif
