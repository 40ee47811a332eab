/* expr.h: hash-consed scalar expressions, used by graph nodes (map, reduce, ...) and by the loop-nest IR.
 *
 * A node is a scalar operation of scalar.def or one of the leaves below.  Constructors check types by the rule of the
 * operation, fold constants and apply identities that keep every bit (x*1, x+0 only for ints, select of a constant...).
 * Semantics are those of scalar.def.  Nothing here has side effects: a load is evaluated when its statement runs. */
#ifndef NST_IR_EXPR_H
#define NST_IR_EXPR_H

#include "ir/base/dtype.h"
#include "ir/dim.h"

typedef struct NstExpr {
    uint32_t i;
} NstExpr; /* 0 = none */
typedef struct NstBuf {
    uint32_t i;
} NstBuf; /* buffer of a kernel (loop.h); 0 = none */
typedef struct NstExprs NstExprs;

typedef enum NstScalarOp {
    NST_OP_NONE = 0,
    /* leaves */
    NST_OP_CONST, /* imm, type */
    NST_OP_ARG,   /* ref = operand slot of the enclosing map or combiner */
    NST_OP_INDEX, /* index[0] as an i64 value */
    NST_OP_LOAD,  /* ref = buffer, index[0..n_index-1] logical indices; a type wider than the buffer's element reads
                     consecutive elements along the innermost physical axis as one word (packed int8 operands) */
    NST_OP_LET,   /* ref = id of a let statement's value */
#define NST_SCALAR(name, text, arity, rule, kind) NST_OP_##name,
#include "ir/scalar.def"
#undef NST_SCALAR
    NST_OP_COUNT
} NstScalarOp;

typedef enum NstScalarRule {
    NST_RULE_NONE,
    NST_RULE_SAME,
    NST_RULE_FLOAT,
    NST_RULE_INT,
    NST_RULE_INT_BOOL,
    NST_RULE_NUMBER,
    NST_RULE_BOOL,
    NST_RULE_COMPARE,
    NST_RULE_TEST,
    NST_RULE_SELECT,
    NST_RULE_DOT,
    NST_RULE_CONVERT,
    NST_RULE_BITCAST
} NstScalarRule;

typedef struct NstScalarInfo {
    const char *text; /* in formulas and IR text; infix if it is a sign */
    int arity;
    NstScalarRule rule;
    bool expanded; /* rewritten by ir/math.h before code generation and interpretation */
} NstScalarInfo;
const NstScalarInfo *nst_scalar_info(NstScalarOp op);

/* A scalar value of any element type: ints and bools in i (sign- or zero-extended; u64 reinterpreted), f64 and f32 in f
 * (f32 values are exactly representable), narrow floats as their bits in i. */
typedef union NstScalar {
    int64_t i;
    double f;
    uint64_t bits; /* of i or f: what is hashed and compared */
} NstScalar;

typedef struct NstExprNode {
    NstScalarOp op;
    NstDtype type; /* of the result */
    NstExpr arg[3];
    uint32_t ref;
    uint32_t n_index;
    const NstDim *index; /* [pool's arena] */
    NstScalar imm;
} NstExprNode;

NstExprs *nst_exprs_new(NstArena *arena, NstDims *dims);
/* While the pool is shared, threads may look at its nodes: making one, or a walk, stops the program. */
void nst_exprs_share(NstExprs *exprs, bool shared);
NstDims *nst_exprs_dims(const NstExprs *exprs);
const NstExprNode *nst_expr(const NstExprs *exprs, NstExpr e);
uint32_t nst_exprs_count(const NstExprs *exprs);

/* Leaves. */
NstExpr nst_expr_const(NstExprs *exprs, NstDtype type, NstScalar value);
NstExpr nst_expr_int(NstExprs *exprs, NstDtype type, int64_t value);  /* converted to type; any type but str, complex */
NstExpr nst_expr_float(NstExprs *exprs, NstDtype type, double value); /* rounded to type */
NstExpr nst_expr_arg(NstExprs *exprs, NstDtype type, uint32_t slot);
NstExpr nst_expr_index(NstExprs *exprs, NstDim dim);
NstExpr nst_expr_load(NstExprs *exprs, NstDtype type, NstBuf buffer, const NstDim *index, uint32_t n);
NstExpr nst_expr_let(NstExprs *exprs, NstDtype type, uint32_t id);

/* The result type of op on these operand types, NST_DTYPE_NONE if the rule forbids them (and for CONVERT and BITCAST,
 * whose result type is not a function of the operand's: ask the next two).  Types: arithmetic takes compute types
 * (dtype.def) only; SELECT moves any type but c128. */
NstDtype nst_scalar_result(NstScalarOp op, const NstDtype *operand, int n);
/* Whether CONVERT (any two of bool, ints, floats) / BITCAST (the same, of equal width) exists between the types. */
bool nst_scalar_can_convert(NstDtype to, NstDtype from);
bool nst_scalar_can_bitcast(NstDtype to, NstDtype from);
/* Whether CONVERT keeps every value of from (NaN stays NaN). */
bool nst_scalar_convert_is_exact(NstDtype to, NstDtype from);

/* An operation.  Operand types must satisfy the rule (asserted: callers check with nst_scalar_result first where types
 * come from a model).  Folds constants, INDEX arithmetic and exact identities.  For CONVERT, CONVERT_SAT, BITCAST use
 * nst_expr_convert / nst_expr_bitcast. */
NstExpr nst_expr_unary(NstExprs *exprs, NstScalarOp op, NstExpr a);
NstExpr nst_expr_binary(NstExprs *exprs, NstScalarOp op, NstExpr a, NstExpr b);
NstExpr nst_expr_ternary(NstExprs *exprs, NstScalarOp op, NstExpr a, NstExpr b, NstExpr c);
NstExpr nst_expr_convert(NstExprs *exprs, NstDtype to, NstExpr a, bool saturate);
NstExpr nst_expr_bitcast(NstExprs *exprs, NstDtype to, NstExpr a);
/* Any operation by one of the above; `type` matters for CONVERT, CONVERT_SAT and BITCAST only. */
NstExpr nst_expr_make(NstExprs *exprs, NstScalarOp op, NstDtype type, const NstExpr *arg);

/* Evaluates one elementary operation on values of the operand type; `type` is the result type, `from` the operand's.
 * For expanded operations evaluates their expansion (fma or mul+add as `has_fma` says). */
NstScalar nst_scalar_eval(NstScalarOp op, NstDtype type, NstDtype from, const NstScalar *arg, bool has_fma);
/* NST_OP_FMA of f32 values, for loops of the interpreter that do little else. */
float nst_scalar_fma_f32(float a, float b, float c, bool has_fma);
/* What the packed lanes of a DOT operation's second and third operand are; the operation with such lanes, NST_OP_NONE if
 * there is none. */
typedef struct NstDotLanes {
    NstDtype b, c;
} NstDotLanes;
NstDotLanes nst_scalar_dot_lanes(NstScalarOp op);
NstScalarOp nst_scalar_dot_of(NstDtype b, NstDtype c);
/* Value conversion with the semantics of CONVERT (or CONVERT_SAT). */
NstScalar nst_scalar_convert(NstDtype to, NstDtype from, NstScalar value, bool saturate);
/* The value as type holds it: ints wrapped and extended, f32 rounded, narrow floats cut to their bits. */
NstScalar nst_scalar_normal(NstDtype type, NstScalar value);
/* Reads / writes one element at memory in the engine's storage of type. */
NstScalar nst_scalar_load(NstDtype type, const void *at);
void nst_scalar_store(NstDtype type, void *at, NstScalar value);

/* Rebuilds e with each node passed through fn after its operands were rebuilt; fn returns none to keep the rebuilt node.
 * An operation that folds to a leaf is not passed: the leaf was.
 * Memoised per call. */
typedef NstExpr (*NstExprRewrite)(void *arg, NstExprs *exprs, NstExpr rebuilt);
NstExpr nst_expr_rewrite(NstExprs *exprs, NstExpr e, NstExprRewrite fn, void *arg);
/* Replaces ARG slots: with[slot] (none = keep) for slot < n. */
NstExpr nst_expr_subst_args(NstExprs *exprs, NstExpr e, const NstExpr *with, uint32_t n);
/* Replaces symbols in all indices: value_of[sym.i] (none = keep) for sym.i < n. */
NstExpr nst_expr_subst_syms(NstExprs *exprs, NstExpr e, const NstDim *value_of, uint32_t n);
/* Calls visit for every distinct node below and including e, operands first. */
void nst_expr_visit(const NstExprs *exprs, NstExpr e, void (*visit)(void *arg, NstExpr e, const NstExprNode *node),
                    void *arg);
/* True if sym occurs in an index of e (none: false). */
bool nst_expr_uses_sym(const NstExprs *exprs, NstExpr e, NstSym sym);
/* Number of distinct operation nodes. */
uint32_t nst_expr_cost(const NstExprs *exprs, NstExpr e);

/* Text <-> expression (formula.c, formula_print.c): infix C operators and ?:, calls by the text of scalar.def,
 * `convert<f16>(x)`, literals `1.5`, `1.5f32`, `0xffu8`, `3i64`, `inff32`, `nan`, `true`; ARG slots a b c ... z then a26
 * a27 ...; INDEX as `index(dim)`; LOAD as `buf[dim, dim]` (`buf.i32[...]` when the type differs); LET as its name
 * (names of lets and buffers: letters, digits, _, and a first @ or %).  Bools: `!x x && y x || y`, printed as not(x),
 * & and |; `~x` is not(x) of an integer, `%` is rem.  Comparisons do not chain.  Shared or deep parts stand before the
 * formula as bindings: `$0 = a * b; $0 + exp($0)`.  Print then parse gives the same expression, bit for bit. */
typedef struct NstFormulaNames {
    void *arg;
    const char *(*buffer_name)(void *arg, NstBuf buffer);
    const char *(*let_name)(void *arg, uint32_t id);
    const char *(*sym_name)(void *arg, NstSym sym);
    bool (*find_buffer)(void *arg, const char *name, size_t n, NstBuf *buffer, NstDtype *type);
    bool (*find_let)(void *arg, const char *name, size_t n, uint32_t *id, NstDtype *type);
    NstSym (*find_sym)(void *arg, const char *name, size_t n);
} NstFormulaNames;
void nst_expr_print(NstText *text, const NstExprs *exprs, NstExpr e, const NstFormulaNames *names);

/* Parses a formula in which operand slot k has type arg_type[k]; untyped literals take the type the context needs
 * (compute type of the other operand; of the result; else i64 or, with a fraction, f32).  A literal that the type
 * cannot hold exactly is an error for integers, rounded for floats.  word[] gives values for words that are not
 * operands ("@alpha", "n"), and goes before operands of that name; a constant there acts as an untyped literal.
 * Narrow types are widened to their compute type where an operation needs it, and the final result is rounded to
 * result_type (NONE = as it comes; only float to float and integer to integer, else NST_E_TYPE).
 * names may be NULL.  Errors: NST_E_PARSE with the column and the text; NST_E_TYPE; NST_E_LIMIT for parentheses, calls
 * and ?: nested deeper than 64. */
typedef struct NstFormulaWord {
    const char *name;
    NstExpr value;
} NstFormulaWord;
NstStatus nst_formula_parse(NstCtx *ctx, NstExprs *exprs, const char *text, const NstDtype *arg_type, uint32_t n_args,
                            const NstFormulaWord *word, uint32_t n_words, NstDtype result_type,
                            const NstFormulaNames *names, NstExpr *result) NST_MUST_CHECK;
/* The same for a formula inside a longer text: starts at *p, ends before what cannot continue it (a newline always
 * ends it), and leaves *p there. */
NstStatus nst_formula_parse_at(NstCtx *ctx, NstExprs *exprs, const char **p, const NstDtype *arg_type, uint32_t n_args,
                               const NstFormulaWord *word, uint32_t n_words, NstDtype result_type,
                               const NstFormulaNames *names, NstExpr *result) NST_MUST_CHECK;
#endif
