/* support_math_block.h: evaluates an expression of one or two operands over blocks of values, an operation at a time.
 *
 * A second evaluator beside nst_scalar_eval, quick enough for all 2^32 floats: what tests/math_ulp.c measures is the very
 * expansion that code generation emits.  Operations and types that no expansion uses are refused. */
#ifndef NST_TESTS_SUPPORT_MATH_BLOCK_H
#define NST_TESTS_SUPPORT_MATH_BLOCK_H

#include "ir/expr.h"

enum { BLOCK = 1024 };

typedef struct BlockStep {
    NstScalarOp op;
    NstDtype type, from; /* of the result, of the first operand (SELECT: of the second) */
    int arg[3];          /* steps before */
    void *values;        /* BLOCK values; bool as uint32_t */
} BlockStep;

typedef struct BlockProgram {
    BlockStep *steps; /* operands first, the result last */
    int n;
    int operand[2]; /* step of ARG 0, 1; -1 if unused */
} BlockProgram;

/* The program of e.  [owned by arena] */
BlockProgram block_program(NstArena *arena, const NstExprs *exprs, NstExpr e);

/* Runs it on the values in the operands' steps; returns the result's values.  fused: FMA rounds once. */
const void *block_run(const BlockProgram *program, bool fused);

#endif
