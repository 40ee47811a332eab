#include "tests/unit/support_math_block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The loops are compiled for AVX2 with FMA and for AVX-512 too; which copy runs is chosen at load time.  Without fma
 * hardware fmaf comes from libm: the same bits, slower. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NO_CLONES 1 /* a resolver runs before the sanitizer is ready */
#endif
#endif
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(NO_CLONES)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

#define LOOP(Out, In, value)                                                                                           \
    do {                                                                                                               \
        Out *restrict y = out;                                                                                         \
        const In *a = in[0], *b = in[1], *c = in[2];                                                                   \
        for (int i = 0; i < BLOCK; i++) y[i] = (value);                                                                \
        (void)b, (void)c;                                                                                              \
        return;                                                                                                        \
    } while (0)

typedef struct In3 {
    const void *at[3];
} In3;

static void refuse(NstScalarOp op, NstDtype type)
{
    fprintf(stderr, "math_block: no %s of %s\n", nst_scalar_info(op)->text, nst_dtype_info(type)->name);
    abort();
}

/* SCALE and SIXTEENTH one by one, as the interpreter does them. */
static void run_one_by_one(NstScalarOp op, NstDtype type, void *out, const In3 *operands)
{
    size_t bytes = (size_t)nst_dtype_info(type)->bytes;
    int arity = nst_scalar_info(op)->arity;
    for (size_t i = 0; i < BLOCK; i++) {
        NstScalar arg[2];
        for (int k = 0; k < arity; k++) arg[k] = nst_scalar_load(type, (const char *)operands->at[k] + i * bytes);
        nst_scalar_store(type, (char *)out + i * bytes, nst_scalar_eval(op, type, type, arg, true));
    }
}

#define FLOAT_LOOPS(name, T, fma_of, trunc_of, sqrt_of, abs_of)                                                        \
    CLONES static void name(NstScalarOp op, bool fused, void *out, const In3 *operands)                                \
    {                                                                                                                  \
        const void *const *in = operands->at;                                                                          \
        switch (op) {                                                                                                  \
        case NST_OP_ADD: LOOP(T, T, a[i] + b[i]);                                                                      \
        case NST_OP_SUB: LOOP(T, T, a[i] - b[i]);                                                                      \
        case NST_OP_MUL: LOOP(T, T, a[i] * b[i]);                                                                      \
        case NST_OP_DIV: LOOP(T, T, a[i] / b[i]);                                                                      \
        case NST_OP_NEG: LOOP(T, T, -a[i]);                                                                            \
        case NST_OP_ABS: LOOP(T, T, abs_of(a[i]));                                                                     \
        case NST_OP_SQRT: LOOP(T, T, sqrt_of(a[i]));                                                                   \
        case NST_OP_TRUNC: LOOP(T, T, trunc_of(a[i]));                                                                 \
        case NST_OP_FMA:                                                                                               \
            if (fused) LOOP(T, T, fma_of(a[i], b[i], c[i]));                                                           \
            LOOP(T, T, a[i] * b[i] + c[i]);                                                                            \
        case NST_OP_SCALE:                                                                                             \
        case NST_OP_SIXTEENTH: run_one_by_one(op, sizeof(T) == 4 ? NST_F32 : NST_F64, out, operands); return;          \
        case NST_OP_EQ: LOOP(uint32_t, T, a[i] == b[i]);                                                               \
        case NST_OP_NE: LOOP(uint32_t, T, a[i] != b[i]);                                                               \
        case NST_OP_LT: LOOP(uint32_t, T, a[i] < b[i]);                                                                \
        case NST_OP_LE: LOOP(uint32_t, T, a[i] <= b[i]);                                                               \
        case NST_OP_GT: LOOP(uint32_t, T, a[i] > b[i]);                                                                \
        case NST_OP_GE: LOOP(uint32_t, T, a[i] >= b[i]);                                                               \
        default: refuse(op, sizeof(T) == 4 ? NST_F32 : NST_F64);                                                       \
        }                                                                                                              \
    }
FLOAT_LOOPS(run_f32, float, fmaf, truncf, sqrtf, fabsf)
FLOAT_LOOPS(run_f64, double, fma, trunc, sqrt, fabs)

#define INT_LOOPS(name, T, U, type, width)                                                                             \
    CLONES static void name(NstScalarOp op, void *out, const In3 *operands)                                            \
    {                                                                                                                  \
        const void *const *in = operands->at;                                                                          \
        switch (op) {                                                                                                  \
        case NST_OP_ADD: LOOP(U, U, a[i] + b[i]);                                                                      \
        case NST_OP_SUB: LOOP(U, U, a[i] - b[i]);                                                                      \
        case NST_OP_MUL: LOOP(U, U, a[i] * b[i]);                                                                      \
        case NST_OP_AND: LOOP(U, U, a[i] & b[i]);                                                                      \
        case NST_OP_OR: LOOP(U, U, a[i] | b[i]);                                                                       \
        case NST_OP_XOR: LOOP(U, U, a[i] ^ b[i]);                                                                      \
        case NST_OP_SHL: LOOP(U, U, b[i] < width ? a[i] << (b[i] & (width - 1)) : 0);                                  \
        case NST_OP_SHR: LOOP(U, U, b[i] < width ? a[i] >> (b[i] & (width - 1)) : 0);                                  \
        case NST_OP_SAR: LOOP(T, T, a[i] >> ((U)b[i] < width ? b[i] : width - 1));                                     \
        case NST_OP_EQ: LOOP(uint32_t, T, a[i] == b[i]);                                                               \
        case NST_OP_NE: LOOP(uint32_t, T, a[i] != b[i]);                                                               \
        case NST_OP_LT: LOOP(uint32_t, T, a[i] < b[i]);                                                                \
        case NST_OP_GT: LOOP(uint32_t, T, a[i] > b[i]);                                                                \
        default: refuse(op, type);                                                                                     \
        }                                                                                                              \
    }
INT_LOOPS(run_i32, int32_t, uint32_t, NST_I32, 32)
INT_LOOPS(run_u32, uint32_t, uint32_t, NST_U32, 32)
INT_LOOPS(run_i64, int64_t, uint64_t, NST_I64, 64)
INT_LOOPS(run_u64, uint64_t, uint64_t, NST_U64, 64)

CLONES static void run_bool(NstScalarOp op, void *out, const In3 *operands)
{
    const void *const *in = operands->at;
    switch (op) {
    case NST_OP_AND: LOOP(uint32_t, uint32_t, a[i] & b[i]);
    case NST_OP_OR: LOOP(uint32_t, uint32_t, a[i] | b[i]);
    case NST_OP_NOT: LOOP(uint32_t, uint32_t, a[i] ^ 1);
    default: refuse(op, NST_BOOL);
    }
}

CLONES static void run_select(int bytes, void *out, const In3 *operands)
{
    const uint32_t *condition = operands->at[0];
    if (bytes == 8) {
        uint64_t *restrict y = out;
        const uint64_t *yes = operands->at[1], *no = operands->at[2];
        for (int i = 0; i < BLOCK; i++) y[i] = condition[i] ? yes[i] : no[i];
    } else {
        uint32_t *restrict y = out;
        const uint32_t *yes = operands->at[1], *no = operands->at[2];
        for (int i = 0; i < BLOCK; i++) y[i] = condition[i] ? yes[i] : no[i];
    }
}

CLONES static void run_convert(NstDtype to, NstDtype from, void *out, const In3 *operands)
{
    const void *const *in = operands->at;
    if (to == NST_F32 && from == NST_I32) LOOP(float, int32_t, (float)a[i]);
    if (to == NST_F64 && from == NST_I64) LOOP(double, int64_t, (double)a[i]);
    if (to == NST_F64 && from == NST_F32) LOOP(double, float, a[i]);
    if (to == NST_F32 && from == NST_F64) LOOP(float, double, (float)a[i]);
    if (to == NST_U64 && from == NST_U32) LOOP(uint64_t, uint32_t, a[i]);
    if (to == NST_I32 && from == NST_U64) LOOP(int32_t, uint64_t, (int32_t)a[i]);
    refuse(NST_OP_CONVERT, to);
}

static void run_step(const BlockProgram *program, const BlockStep *step, bool fused)
{
    In3 in = {{NULL, NULL, NULL}};
    int arity = nst_scalar_info(step->op)->arity;
    for (int k = 0; k < arity; k++) in.at[k] = program->steps[step->arg[k]].values;
    switch (step->op) {
    case NST_OP_CONST:
    case NST_OP_ARG: return;
    case NST_OP_SELECT: run_select(nst_dtype_info(step->type)->bytes, step->values, &in); return;
    case NST_OP_CONVERT: run_convert(step->type, step->from, step->values, &in); return;
    case NST_OP_BITCAST: memcpy(step->values, in.at[0], BLOCK * (size_t)nst_dtype_info(step->type)->bytes); return;
    default: break;
    }
    switch (step->from) {
    case NST_F32: run_f32(step->op, fused, step->values, &in); return;
    case NST_F64: run_f64(step->op, fused, step->values, &in); return;
    case NST_I32: run_i32(step->op, step->values, &in); return;
    case NST_U32: run_u32(step->op, step->values, &in); return;
    case NST_I64: run_i64(step->op, step->values, &in); return;
    case NST_U64: run_u64(step->op, step->values, &in); return;
    case NST_BOOL: run_bool(step->op, step->values, &in); return;
    default: refuse(step->op, step->from);
    }
}

const void *block_run(const BlockProgram *program, bool fused)
{
    for (int k = 0; k < program->n; k++) run_step(program, &program->steps[k], fused);
    return program->steps[program->n - 1].values;
}

/* -- from the expression ----------------------------------------------------------------------------------- */

typedef struct Compile {
    NstArena *arena;
    const NstExprs *exprs;
    BlockProgram program;
    int *step_of; /* by expression id */
} Compile;

static void fill(BlockStep *step, NstScalar value)
{
    char bytes[8];
    size_t size = step->type == NST_BOOL ? 4 : (size_t)nst_dtype_info(step->type)->bytes;
    uint32_t truth = (uint32_t)value.i;
    if (step->type == NST_BOOL)
        memcpy(bytes, &truth, 4);
    else
        nst_scalar_store(step->type, bytes, value);
    for (int i = 0; i < BLOCK; i++) memcpy((char *)step->values + (size_t)i * size, bytes, size);
}

static void add_step(void *arg, NstExpr e, const NstExprNode *node)
{
    Compile *compile = arg;
    BlockStep *step = &compile->program.steps[compile->program.n];
    *step = (BlockStep){.op = node->op, .type = node->type};
    int arity = nst_scalar_info(node->op)->arity;
    for (int k = 0; k < arity; k++) step->arg[k] = compile->step_of[node->arg[k].i];
    if (arity > 0) step->from = compile->program.steps[step->arg[0]].type;
    step->values = nst_alloc_aligned(compile->arena, BLOCK * 8, 64);
    if (node->op == NST_OP_CONST)
        fill(step, node->imm);
    else if (node->op == NST_OP_ARG)
        compile->program.operand[node->ref] = compile->program.n;
    compile->step_of[e.i] = compile->program.n++;
}

BlockProgram block_program(NstArena *arena, const NstExprs *exprs, NstExpr e)
{
    uint32_t n = nst_exprs_count(exprs) + 1;
    Compile compile = {.arena = arena, .exprs = exprs, .program = {.operand = {-1, -1}}};
    compile.program.steps = NST_NEW_ARRAY(arena, BlockStep, n);
    compile.step_of = NST_NEW_ARRAY(arena, int, n);
    nst_expr_visit(exprs, e, add_step, &compile);
    return compile.program;
}
