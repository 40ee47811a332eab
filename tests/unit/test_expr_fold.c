/* test_expr_fold.c: whatever the constructors fold, the value stays: random small programs are evaluated step by step as
 * written, and as the expression the constructors made of them, on special values.  Bits must agree, except which NaN. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

#include "ir/expr.h"

#define STEPS  10
#define LEAVES 4
#define TRIALS 12 /* operand values each program is run on */

static NstCtx ctx;
static NstDims *dims;
static NstExprs *exprs;
static NstSym syms[2];

static void setup(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    dims = nst_dims_new(ctx.arena);
    exprs = nst_exprs_new(ctx.arena, dims);
    syms[0] = nst_dims_new_sym(dims, NST_SYM_INPUT, "n", 0, 40);
    syms[1] = nst_dims_new_sym(dims, NST_SYM_INDEX, "i", -7, 9);
}

static void teardown(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(expr_fold, .init = setup, .fini = teardown, .timeout = 100);

static uint64_t random_state = 99;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % n);
}

static NstScalar special_value(NstDtype type)
{
    static const double floats[] = {0.0,      -0.0,      1,    -1,           2,     -2,      0.5,     0.25,    -4,
                                    3,        0.1,       1e10, 2147483648.0, 1e-40, FLT_MAX, FLT_MIN, 0x1p127, 0x1p-126,
                                    INFINITY, -INFINITY, NAN,  255,          65504};
    static const int64_t ints[] = {0,   1,     -1,    2,         -2,        3,          4,         7,        8,
                                   15,  16,    31,    32,        63,        64,         127,       -128,     128,
                                   255, 32767, 65535, INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN};
    if (type == NST_F32 || type == NST_F64)
        return nst_scalar_convert(type, NST_F64, (NstScalar){.f = floats[random_below(sizeof floats / sizeof *floats)]},
                                  false);
    if (nst_dtype_is_float(type)) return nst_scalar_normal(type, (NstScalar){.bits = random_below(65536)});
    return nst_scalar_convert(type, NST_I64, (NstScalar){.i = ints[random_below(sizeof ints / sizeof *ints)]}, false);
}

/* One operation on earlier values, as written. */
typedef struct Step {
    NstScalarOp op; /* CONST, ARG, INDEX or an operation */
    NstDtype type;
    uint32_t arg[3];
    NstScalar imm;  /* CONST */
    NstExpr folded; /* what the constructors made of it */
} Step;

typedef struct Program {
    Step step[STEPS];
    uint32_t n;
} Program;

static const NstDtype types[] = {NST_F32,  NST_F64, NST_I32,  NST_I64, NST_U8, NST_I8, NST_U64,
                                 NST_BOOL, NST_F16, NST_BF16, NST_U16, NST_I4, NST_U32};
#define N_TYPES (sizeof types / sizeof *types)

static void add_leaf(Program *program, NstDtype type)
{
    Step *step = &program->step[program->n];
    uint32_t kind = random_below(8);
    *step = (Step){.type = type};
    if (kind < 4) {
        step->op = NST_OP_ARG;
        step->folded = nst_expr_arg(exprs, type, program->n);
    } else if (kind < 6 && type == NST_I64) {
        step->op = NST_OP_INDEX;
        step->arg[0] = random_below(2);
        step->folded = nst_expr_index(exprs, nst_dim_sym(dims, syms[step->arg[0]]));
    } else {
        step->op = NST_OP_CONST;
        step->imm = special_value(type);
        step->folded = nst_expr_const(exprs, type, step->imm);
    }
    program->n++;
}

/* An operation on random earlier values, if their types allow it. */
static void try_operation(Program *program)
{
    Step step = {.op = (NstScalarOp)(NST_OP_LET + 1 + random_below(NST_OP_COUNT - NST_OP_LET - 1))};
    const NstScalarInfo *info = nst_scalar_info(step.op);
    NstDtype operand[3];
    NstExpr arg[3];
    if (info->expanded) return;
    for (int k = 0; k < info->arity; k++) {
        step.arg[k] = random_below(program->n);
        operand[k] = program->step[step.arg[k]].type;
        arg[k] = program->step[step.arg[k]].folded;
    }
    step.type = types[random_below(N_TYPES)];
    bool allowed = info->rule == NST_RULE_CONVERT
                       ? nst_scalar_can_convert(step.type, operand[0])
                       : info->rule == NST_RULE_BITCAST && nst_scalar_can_bitcast(step.type, operand[0]);
    if (info->rule != NST_RULE_CONVERT && info->rule != NST_RULE_BITCAST) {
        step.type = nst_scalar_result(step.op, operand, info->arity);
        allowed = step.type != NST_DTYPE_NONE;
    }
    if (!allowed) return;
    step.folded = nst_expr_make(exprs, step.op, step.type, arg);
    program->step[program->n++] = step;
}

static void make_program(Program *program)
{
    NstDtype first = types[random_below(N_TYPES)];
    program->n = 0;
    for (int k = 0; k < LEAVES; k++) add_leaf(program, random_below(3) ? first : types[random_below(N_TYPES)]);
    for (int tries = 0; tries < 200 && program->n < STEPS; tries++) try_operation(program);
}

typedef struct Values {
    NstScalar arg[STEPS];
    int64_t sym[8];
    bool overflow; /* of an index: such sizes do not occur */
} Values;

static void run_as_written(const Program *program, Values *values, NstScalar *out)
{
    for (uint32_t k = 0; k < program->n; k++) {
        const Step *step = &program->step[k];
        NstScalar arg[3];
        if (step->op == NST_OP_CONST) out[k] = step->imm;
        if (step->op == NST_OP_ARG) out[k] = values->arg[k];
        if (step->op == NST_OP_INDEX) out[k].i = values->sym[syms[step->arg[0]].i];
        if (step->op <= NST_OP_LET) continue;
        for (int j = 0; j < nst_scalar_info(step->op)->arity; j++) arg[j] = out[step->arg[j]];
        out[k] = nst_scalar_eval(step->op, step->type, program->step[step->arg[0]].type, arg, true);
    }
}

static NstScalar run_folded(NstExpr e, Values *values)
{
    const NstExprNode *node = nst_expr(exprs, e);
    NstScalar arg[3] = {{0}}, result = {0};
    switch (node->op) {
    case NST_OP_CONST: return node->imm;
    case NST_OP_ARG: return values->arg[node->ref];
    case NST_OP_INDEX:
        if (nst_dim_eval(&ctx, dims, node->index[0], values->sym, 8, &result.i) != NST_OK) values->overflow = true;
        nst_ctx_clear(&ctx);
        return result;
    default: break;
    }
    for (int k = 0; k < nst_scalar_info(node->op)->arity; k++) arg[k] = run_folded(node->arg[k], values);
    return nst_scalar_eval(node->op, node->type, nst_expr(exprs, node->arg[0])->type, arg, true);
}

static bool is_nan(NstDtype type, NstScalar value)
{
    return nst_dtype_is_float(type) && isnan(nst_scalar_convert(NST_F64, type, value, false).f);
}

/* NaNs whose bits are looked at may differ, and so may all that follows from them. */
static bool looks_at_nan_bits(const Program *program, const NstScalar *out)
{
    for (uint32_t k = 0; k < program->n; k++)
        if (program->step[k].op == NST_OP_BITCAST &&
            is_nan(program->step[program->step[k].arg[0]].type, out[program->step[k].arg[0]]))
            return true;
    return false;
}

static const char *describe(const Program *program, uint32_t k, const NstScalar *out)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    for (uint32_t j = 0; j <= k; j++) {
        const Step *step = &program->step[j];
        nst_text_add(&text, "%u: %s %s %u %u %u = %llx;  ", j, nst_scalar_info(step->op)->text,
                     nst_dtype_info(step->type)->name, step->arg[0], step->arg[1], step->arg[2],
                     (unsigned long long)out[j].bits);
    }
    nst_expr_print(&text, exprs, program->step[k].folded, NULL);
    return nst_text_get(&text);
}

static void check_program(const Program *program)
{
    for (int trial = 0; trial < TRIALS; trial++) {
        Values values = {.overflow = false};
        NstScalar out[STEPS] = {{0}};
        for (uint32_t k = 0; k < program->n; k++) values.arg[k] = special_value(program->step[k].type);
        values.sym[syms[0].i] = random_below(41);
        values.sym[syms[1].i] = (int64_t)random_below(17) - 7;
        run_as_written(program, &values, out);
        if (looks_at_nan_bits(program, out)) continue;
        for (uint32_t k = 0; k < program->n; k++) {
            NstDtype type = program->step[k].type;
            cr_assert_eq(nst_expr(exprs, program->step[k].folded)->type, type);
            NstScalar got = run_folded(program->step[k].folded, &values);
            bool same = got.bits == out[k].bits || (is_nan(type, got) && is_nan(type, out[k])) || values.overflow;
            cr_assert(same, "got %llx: %s", (unsigned long long)got.bits, describe(program, k, out));
        }
    }
}

Test(expr_fold, random_programs_keep_their_values)
{
    for (int round = 0; round < 150000; round++) {
        Program program;
        make_program(&program);
        check_program(&program);
        if (round % 5000 == 4999) { /* keep the pool small */
            teardown();
            setup();
        }
    }
}
