#include "tests/unit/support_math_block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/math.h"
#include "tests/unit/support_clones.h"

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

/* One by one, as the interpreter does it: no expansion without has_scale has it. */
static void run_scale(NstDtype type, void *out, const In3 *operands)
{
    size_t bytes = (size_t)nst_dtype_info(type)->bytes;
    for (size_t i = 0; i < BLOCK; i++) {
        NstScalar arg[2];
        for (int k = 0; k < 2; k++) arg[k] = nst_scalar_load(type, (const char *)operands->at[k] + i * bytes);
        nst_scalar_store(type, (char *)out + i * bytes, nst_scalar_eval(NST_OP_SCALE, type, type, arg, true));
    }
}

CLONES static void run_sixteenth(NstDtype type, void *out, const In3 *operands)
{
    const void *const *in = operands->at;
    float narrow[16];
    double wide[16];
    for (int k = 0; k < 16; k++) narrow[k] = (float)(wide[k] = nst_math_sixteenth(type, k));
    if (type == NST_F32) LOOP(float, uint32_t, narrow[a[i] & 15]);
    LOOP(double, uint64_t, wide[a[i] & 15]);
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

static void run_step(const BlockProgram *program, const BlockStep *step)
{
    In3 in = {{NULL, NULL, NULL}};
    int arity = nst_scalar_info(step->op)->arity;
    for (int k = 0; k < arity; k++) in.at[k] = program->steps[step->arg[k]].values;
    switch (step->op) {
    case NST_OP_CONST:
    case NST_OP_ARG: return;
    case NST_OP_SELECT: run_select(nst_dtype_info(step->type)->bytes, step->values, &in); return;
    case NST_OP_CONVERT: run_convert(step->type, step->from, step->values, &in); return;
    case NST_OP_SIXTEENTH: run_sixteenth(step->type, step->values, &in); return;
    case NST_OP_SCALE: run_scale(step->type, step->values, &in); return;
    case NST_OP_BITCAST: memcpy(step->values, in.at[0], BLOCK * (size_t)nst_dtype_info(step->type)->bytes); return;
    default: break;
    }
    switch (step->from) {
    case NST_F32: run_f32(step->op, step->fused, step->values, &in); return;
    case NST_F64: run_f64(step->op, step->fused, step->values, &in); return;
    case NST_I32: run_i32(step->op, step->values, &in); return;
    case NST_U32: run_u32(step->op, step->values, &in); return;
    case NST_I64: run_i64(step->op, step->values, &in); return;
    case NST_U64: run_u64(step->op, step->values, &in); return;
    case NST_BOOL: run_bool(step->op, step->values, &in); return;
    default: refuse(step->op, step->from);
    }
}

void block_run(const BlockProgram *program)
{
    for (int k = 0; k < program->n; k++) run_step(program, &program->steps[k]);
}

/* -- from the expressions ---------------------------------------------------------------------------------- */

typedef struct Compile {
    BlockProgram program;
    bool fused;
    int *step_of[2]; /* by expression id, for FMA that rounds twice and once; -1: none yet */
} Compile;

static void add_step(void *arg, NstExpr e, const NstExprNode *node)
{
    Compile *compile = arg;
    BlockStep *steps = compile->program.steps, *step = &steps[compile->program.n];
    int *step_of = compile->step_of[compile->fused], other = compile->step_of[!compile->fused][e.i];
    if (step_of[e.i] < 0 && other >= 0 && !steps[other].rounds) step_of[e.i] = other;
    if (step_of[e.i] >= 0) return;
    *step = (BlockStep){
        .e = e, .op = node->op, .type = node->type, .fused = compile->fused, .rounds = node->op == NST_OP_FMA};
    int arity = nst_scalar_info(node->op)->arity;
    for (int k = 0; k < arity; k++) {
        step->arg[k] = step_of[node->arg[k].i];
        step->rounds |= steps[step->arg[k]].rounds;
    }
    if (arity > 0) step->from = steps[step->arg[0]].type;
    step_of[e.i] = compile->program.n++;
}

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

/* The last step that needs each step's values; n: they are kept. */
static int *last_uses(NstArena *arena, const BlockProgram *program, const int *results, int n_results)
{
    int *last = NST_NEW_ARRAY(arena, int, program->n);
    for (int k = 0; k < program->n; k++) {
        const BlockStep *step = &program->steps[k];
        int arity = nst_scalar_info(step->op)->arity;
        last[k] = arity == 0 ? program->n : k;
        for (int a = 0; a < arity; a++)
            if (last[step->arg[a]] < k) last[step->arg[a]] = k;
    }
    for (int r = 0; r < n_results; r++) last[results[r]] = program->n;
    return last;
}

/* Memory for each step's values, from what no later step needs; operands and constants are there before a run. */
static void place_values(NstArena *arena, BlockProgram *program, int *last)
{
    void **unused = NST_NEW_ARRAY(arena, void *, program->n);
    int n_unused = 0;
    for (int k = 0; k < program->n; k++) {
        BlockStep *step = &program->steps[k];
        int arity = nst_scalar_info(step->op)->arity;
        bool reuse = arity > 0 && n_unused > 0;
        step->values = reuse ? unused[--n_unused] : nst_alloc_aligned(arena, BLOCK * 8, 64);
        for (int a = 0; a < arity; a++) {
            int arg = step->arg[a];
            if (last[arg] != k) continue;
            unused[n_unused++] = program->steps[arg].values;
            last[arg] = -1; /* once, also as two operands */
        }
    }
}

BlockProgram block_program(NstArena *arena, const NstExprs *exprs, const BlockRoot *roots, int n_roots)
{
    uint32_t n = nst_exprs_count(exprs) + 1;
    Compile compile = {.fused = false};
    BlockProgram *program = &compile.program;
    int results[BLOCK_ROOTS];
    program->steps = NST_NEW_ARRAY(arena, BlockStep, 2 * (size_t)n);
    for (int fused = 0; fused < 2; fused++) {
        compile.step_of[fused] = NST_NEW_ARRAY(arena, int, n);
        for (uint32_t k = 0; k < n; k++) compile.step_of[fused][k] = -1;
    }
    for (int r = 0; r < n_roots; r++) {
        compile.fused = roots[r].fused;
        nst_expr_visit(exprs, roots[r].e, add_step, &compile);
        results[r] = compile.step_of[compile.fused][roots[r].e.i];
    }
    place_values(arena, program, last_uses(arena, program, results, n_roots));
    for (int r = 0; r < n_roots; r++) program->result[r] = program->steps[results[r]].values;
    for (int k = 0; k < program->n; k++) {
        BlockStep *step = &program->steps[k];
        const NstExprNode *node = nst_expr(exprs, step->e);
        if (step->op == NST_OP_CONST) fill(step, node->imm);
        if (step->op == NST_OP_ARG) program->operand[node->ref] = step->values;
    }
    return *program;
}
