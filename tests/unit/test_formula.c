/* test_formula.c: formula text <-> expression: precedence, types of literals, errors, exact round trip. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "ir/expr.h"

static NstCtx ctx;
static NstDims *dims;
static NstExprs *exprs;

static void setup(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    dims = nst_dims_new(ctx.arena);
    exprs = nst_exprs_new(ctx.arena, dims);
}

static void teardown(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(formula, .init = setup, .fini = teardown);

static const NstDtype floats[4] = {NST_F32, NST_F32, NST_F32, NST_F32};

static NstExpr parse_typed(const char *text, const NstDtype *type, uint32_t n, NstDtype result)
{
    NstExpr e;
    NstStatus status = nst_formula_parse(&ctx, exprs, text, type, n, NULL, 0, result, NULL, &e);
    cr_assert_eq(status, NST_OK, "%s", ctx.error);
    return e;
}

static NstExpr parse(const char *text)
{
    return parse_typed(text, floats, 4, NST_DTYPE_NONE);
}

static const char *print(NstExpr e)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    nst_expr_print(&text, exprs, e, NULL);
    return nst_text_get(&text);
}

static void expect_error(const char *text, const NstDtype *type, uint32_t n, NstDtype result, NstStatus code,
                         const char *message)
{
    NstExpr e;
    nst_ctx_clear(&ctx);
    cr_assert_eq(nst_formula_parse(&ctx, exprs, text, type, n, NULL, 0, result, NULL, &e), code, "'%s': %s", text,
                 ctx.error);
    cr_assert(strstr(ctx.error, message) != NULL, "'%s' gives '%s', wanted '%s'", text, ctx.error, message);
    nst_ctx_clear(&ctx);
}

Test(formula, precedence_is_that_of_c)
{
    static const char *const pairs[][2] = {
        {"a + b * c", "a + (b * c)"},
        {"a - b - c", "(a - b) - c"},
        {"a / b * c", "(a / b) * c"},
        {"-a * b", "(-a) * b"},
        {"a < b ? a : b < c ? b : c", "(a < b) ? a : ((b < c) ? b : c)"},
        {"a < b == c < d", "(a < b) == (c < d)"},
        {"a < b && c < d || a > d", "((a < b) && (c < d)) || (a > d)"},
        {"!(a < b) && c < d", "(not(a < b)) & (c < d)"},
        {"2 - a", "2.0f32 - a"},
        {"  a+b ", "a + b"},
        {"a - -1", "a - (-1)"},
        {"max(a, b) + 1e3", "max(a,b) + 1000"},
        {"a * .5", "a * 5e-1"},
        {"- - a", "a"},
    };
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
        cr_assert_eq(parse(pairs[k][0]).i, parse(pairs[k][1]).i, "%s", pairs[k][0]);
    const NstDtype ints[3] = {NST_I32, NST_I32, NST_I32};
    cr_assert_eq(parse_typed("a | b ^ c & 3", ints, 3, NST_DTYPE_NONE).i,
                 parse_typed("a | (b ^ (c & 3))", ints, 3, NST_DTYPE_NONE).i);
    cr_assert_eq(parse_typed("a << b + 1", ints, 3, NST_DTYPE_NONE).i,
                 parse_typed("a << (b + 1)", ints, 3, NST_DTYPE_NONE).i);
    cr_assert_eq(parse_typed("a % b", ints, 3, NST_DTYPE_NONE).i, parse_typed("rem(a, b)", ints, 3, NST_DTYPE_NONE).i);
    cr_assert_eq(parse_typed("~a", ints, 3, NST_DTYPE_NONE).i, parse_typed("not(a)", ints, 3, NST_DTYPE_NONE).i);
}

Test(formula, literals_take_the_type_around_them)
{
    const NstDtype half[2] = {NST_F16, NST_F16}, bytes[1] = {NST_U8}, wide[1] = {NST_F64}, nibble[1] = {NST_I4};
    cr_assert_str_eq(print(parse_typed("a * b + 0.1", half, 2, NST_F16)),
                     "convert<f16>(convert<f32>(a) * convert<f32>(b) + 0.1)");
    cr_assert_str_eq(print(parse_typed("a", half, 2, NST_F16)), "a");
    cr_assert_str_eq(print(parse_typed("a", half, 2, NST_DTYPE_NONE)), "a");
    cr_assert_str_eq(print(parse_typed("a < b ? a : b", half, 2, NST_F16)),
                     "convert<f32>(a) < convert<f32>(b) ? a : b");
    cr_assert_str_eq(print(parse_typed("a + 200", bytes, 1, NST_DTYPE_NONE)), "a + 200");
    cr_assert_str_eq(print(parse_typed("1/3*a", wide, 1, NST_DTYPE_NONE)), "a * 0.3333333333333333");
    cr_assert_str_eq(print(parse_typed("a + 1", nibble, 1, NST_I4)), "convert<i4>(convert<i8>(a) + 1)");
    cr_assert_str_eq(print(parse_typed("a > 0 ? 1 : a < 0 ? -1 : 0", wide, 1, NST_F64)),
                     "a > 0 ? 1 : a < 0 ? -1f64 : 0f64");
    cr_assert_str_eq(print(parse_typed("7", wide, 1, NST_DTYPE_NONE)), "7i64");
    cr_assert_str_eq(print(parse_typed("7.5", wide, 1, NST_DTYPE_NONE)), "7.5f32");
    cr_assert_str_eq(print(parse_typed("7", wide, 1, NST_F16)), "7f16");
    cr_assert_str_eq(print(parse_typed("convert<i32>(a) + 0x10", wide, 1, NST_DTYPE_NONE)), "convert<i32>(a) + 16");
    cr_assert_str_eq(print(parse_typed("convert<bf16>(1.5)", wide, 1, NST_DTYPE_NONE)), "1.5bf16");
}

Test(formula, word_constants_act_as_literals)
{
    const NstDtype type[2] = {NST_F64, NST_I32};
    const NstFormulaWord word[] = {{"@alpha", nst_expr_float(exprs, NST_F32, 0.5)},
                                   {"n", nst_expr_int(exprs, NST_I64, 7)},
                                   {"@beta", nst_expr_float(exprs, NST_F32, 2)},
                                   {"size", nst_expr_arg(exprs, NST_I32, 9)}};
    NstExpr e;
    cr_assert_eq(nst_formula_parse(&ctx, exprs, "a * @alpha / n", type, 2, word, 4, NST_DTYPE_NONE, NULL, &e), NST_OK,
                 "%s", ctx.error);
    cr_assert_str_eq(print(e), "a * 0.5 / 7");
    cr_assert_eq(nst_formula_parse(&ctx, exprs, "b * @beta + size", type, 2, word, 4, NST_DTYPE_NONE, NULL, &e), NST_OK,
                 "%s", ctx.error);
    cr_assert_str_eq(print(e), "b * 2 + j");
    cr_assert_eq(nst_formula_parse(&ctx, exprs, "b * @alpha", type, 2, word, 4, NST_DTYPE_NONE, NULL, &e), NST_E_TYPE);
    cr_assert(strstr(ctx.error, "literal 0.5 does not fit i32"), "%s", ctx.error);
}

Test(formula, errors_name_the_place)
{
    const NstDtype mixed[4] = {NST_F32, NST_I32, NST_BOOL, NST_STR};
#define PARSE(text, message) expect_error(text, mixed, 4, NST_DTYPE_NONE, NST_E_PARSE, message)
#define TYPE(text, message)  expect_error(text, mixed, 4, NST_DTYPE_NONE, NST_E_TYPE, message)
    PARSE("", "formula '', column 1: expected an operand, found the end");
    PARSE("a + * b", "formula 'a + * b', column 5: expected an operand, found '*'");
    PARSE("a b", "column 3: expected an operator or the end, found 'b'");
    PARSE("(a", "column 3: expected ')', found the end");
    PARSE("exp(a", "column 6: expected ')'");
    PARSE("exp(a, a)", "column 7: 'exp' takes 1 operand");
    PARSE("pow(a)", "'pow' takes 2 operands, given 1");
    PARSE("expo(a)", "column 1: unknown operation 'expo'");
    PARSE("a + e", "column 5: unknown name 'e' (the formula has 4 operands)");
    PARSE("@alpha", "column 1: unknown name '@alpha'");
    PARSE("a < a < a", "column 7: comparisons do not chain");
    PARSE("a ? a", "expected ':'");
    PARSE("1.5q", "column 4: 'q' is no element type");
    PARSE("x[1]", "no buffer is named 'x'");
    PARSE("convert<f31>(a)", "'f31' is no element type");
    PARSE("$0 + a", "no binding of that number");
    PARSE("$1 = a; $1", "binding 0 expected");
    PARSE("0x11112222333344445", "at most 64 bits");
    PARSE("a \x01", "byte 0x01");
    PARSE("index(\"a\\\nbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\")", "unfinished quoted name"); /* found by fuzzing */
    TYPE("a + b", "column 3: '+' of (f32, i32); allowed: numbers of one type");
    TYPE("c + c", "'+' of (b1, b1)");
    TYPE("d == d", "'==' of (str, str)");
    TYPE("exp(b)", "'exp' of (i32); allowed: floats of one type");
    TYPE("b ? a : a", "'select' of (i32, f32, f32)");
    TYPE("a && c", "column 3: '&&' takes two bools");
    TYPE("!b", "column 1: '!' of i32; allowed: a bool");
    TYPE("~c", "'~' of b1; allowed: an integer");
    TYPE("b + 0.5", "column 5: literal 0.5 does not fit i32");
    TYPE("b + 3000000000", "literal 3000000000 does not fit i32");
    TYPE("b + sqrt(2)", "'sqrt' of literals where i32 is needed; allowed: floats of one type");
    TYPE("bitcast<i64>(a)", "'bitcast' from f32 to i64; allowed: numbers of equal width");
    TYPE("bitcast<u32>(1.0)", "'bitcast' from a literal");
    TYPE("convert<str>(a)", "'convert' from f32 to str");
    TYPE("200i8", "literal 200 does not fit i8");
    TYPE("-1u8", "does not fit u8");
    const NstDtype absent[2] = {NST_F32, NST_DTYPE_NONE};
    expect_error("a + b", absent, 2, NST_F32, NST_E_TYPE, "column 5: operand 'b' has no value");
    expect_error("a < a", mixed, 4, NST_F32, NST_E_TYPE, "the formula gives b1 where f32 is needed");
    expect_error("a", mixed, 4, NST_I32, NST_E_TYPE, "the formula gives f32 where i32 is needed");
#undef PARSE
#undef TYPE
}

static const char *repeated(const char *before, const char *middle, const char *after, int n)
{
    NstText text;
    nst_text_init(&text, ctx.arena);
    for (int k = 0; k < n; k++) nst_text_add(&text, "%s", before);
    nst_text_add(&text, "%s", middle);
    for (int k = 0; k < n; k++) nst_text_add(&text, "%s", after);
    return nst_text_get(&text);
}

Test(formula, recursion_is_bounded)
{
    static const char *const deep[][3] = {
        {"(", "a", ")"}, {"-", "a", ""}, {"exp(", "a", ")"}, {"a < b ? a : ", "b", ""}, {"!", "(a < b)", ""}};
    for (size_t k = 0; k < sizeof deep / sizeof *deep; k++) {
        expect_error(repeated(deep[k][0], deep[k][1], deep[k][2], 100000), floats, 4, NST_DTYPE_NONE, NST_E_LIMIT,
                     "nesting deeper than 64");
        (void)parse(repeated(deep[k][0], deep[k][1], deep[k][2], 60));
    }
    expect_error(repeated("a + ", "a", "", 100000), floats, 4, NST_DTYPE_NONE, NST_E_LIMIT, "512 operations");
    (void)parse(repeated("a + ", "a", "", 500));
}

/* -- round trips ----------------------------------------------------------------------------------------------- */

/* Texts that print as they are written. */
Test(formula, prints_plainly)
{
    static const char *const same[] = {"a",
                                       "a + b * c",
                                       "(a + b) * c",
                                       "a - (b - c)",
                                       "a - b - c",
                                       "-a",
                                       "-(a + b)",
                                       "exp(-a)",
                                       "a < b ? a : b",
                                       "(a < b ? a : b) + 1",
                                       "a < (b < c ? a : d) ? b : c",
                                       "fma(a, 2, b)",
                                       "1 - a",
                                       "a * 0.1",
                                       "a * 1e-07",
                                       "a + -0.5",
                                       "convert<i32>(a) << 3",
                                       "bitcast<u32>(a) >> 31",
                                       "convert_sat<i8>(round(a / b))",
                                       "not(a < b)",
                                       "a < b | c == d",
                                       "a < b == c < d",
                                       "(a - b) * (a - b)",
                                       "fma(1.1f32, 1.1f32, -1.21f32)",
                                       "a == nan",
                                       "min(a, inf)",
                                       "max(a, -inf)",
                                       "floor(a) != a",
                                       "mod(a, 3) + rem(b, 3)",
                                       "true",
                                       "1.5f32",
                                       "-0f32",
                                       "inff32",
                                       "nanf64",
                                       "-inff16",
                                       "3u8",
                                       "18446744073709551615u64",
                                       "-9223372036854775808i64",
                                       "0.1f64",
                                       "bitcast<f32>(0x7fc00001u32)",
                                       "1.5bf16",
                                       "7i4",
                                       "0.5f4e2m1",
                                       "2f8e8m0",
                                       "bitcast<f8e5m2>(0xfeu8)",
                                       "12str"};
    for (size_t k = 0; k < sizeof same / sizeof *same; k++) cr_assert_str_eq(print(parse(same[k])), same[k]);
    cr_assert_str_eq(print(parse("(a*b + c*d - exp(a)) * (a*b + c*d - exp(a))")),
                     "$0 = a * b + c * d - exp(a); $0 * $0");
}

Test(formula, operands_beyond_z_have_numbers)
{
    NstDtype many[60];
    for (int k = 0; k < 60; k++) many[k] = NST_F32;
    NstExpr e = parse_typed("z + a26 * a59", many, 60, NST_DTYPE_NONE);
    cr_assert_str_eq(print(e), "z + a26 * a59");
    expect_error("a60", many, 60, NST_DTYPE_NONE, NST_E_PARSE, "unknown name 'a60'");
    expect_error("a7", many, 60, NST_DTYPE_NONE, NST_E_PARSE, "unknown name 'a7'");
}

static const char *buffer_name(void *arg, NstBuf buffer)
{
    (void)arg;
    return buffer.i == 1 ? "x" : "weights";
}

static bool find_buffer(void *arg, const char *name, size_t n, NstBuf *buffer, NstDtype *type)
{
    (void)arg;
    bool is_x = n == 1 && name[0] == 'x';
    *buffer = (NstBuf){is_x ? 1 : 2};
    *type = is_x ? NST_F32 : NST_I8;
    return is_x || (n == 7 && memcmp(name, "weights", 7) == 0);
}

static const char *let_name(void *arg, uint32_t id)
{
    (void)arg;
    return id == 4 ? "%t4" : "%t5";
}

static bool find_let(void *arg, const char *name, size_t n, uint32_t *id, NstDtype *type)
{
    (void)arg;
    if (n != 3 || memcmp(name, "%t", 2) != 0) return false;
    *id = (uint32_t)(name[2] - '0');
    *type = NST_F32;
    return true;
}

static const NstFormulaNames names = {
    .buffer_name = buffer_name, .let_name = let_name, .find_buffer = find_buffer, .find_let = find_let};

Test(formula, loads_lets_and_indices)
{
    nst_dims_new_sym(dims, NST_SYM_INPUT, "n", 1, 100);
    static const char *const same[] = {
        "x[n, 3] * %t4 + 1", "convert<i32>(weights[n + 1])", "weights.i32[2*n]", "x[]", "convert<f32>(index(n)) * %t5",
        "index(n + 1) == 7"};
    for (size_t k = 0; k < sizeof same / sizeof *same; k++) {
        NstExpr e;
        cr_assert_eq(nst_formula_parse(&ctx, exprs, same[k], NULL, 0, NULL, 0, NST_DTYPE_NONE, &names, &e), NST_OK,
                     "%s", ctx.error);
        NstText text;
        nst_text_init(&text, ctx.arena);
        nst_expr_print(&text, exprs, e, &names);
        cr_assert_str_eq(nst_text_get(&text), same[k]);
    }
}

Test(formula, parse_at_stops_behind_the_formula)
{
    static const char *const texts[][2] = {{"a + b, c", ", c"}, {"a + b) x", ") x"}, {"a\n- b", "\n- b"},
                                           {"a = 3", "= 3"},    {"a ; b", "; b"},    {"a {", "{"}};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        NstExpr e;
        const char *p = texts[k][0];
        cr_assert_eq(nst_formula_parse_at(&ctx, exprs, &p, floats, 4, NULL, 0, NST_DTYPE_NONE, NULL, &e), NST_OK, "%s",
                     ctx.error);
        cr_assert_str_eq(p, texts[k][1]);
    }
}

static uint64_t random_state = 12345;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % n);
}

static NstScalar random_bits(void)
{
    uint64_t bits = 0;
    for (int k = 0; k < 4; k++) bits = bits << 16 | random_below(65536);
    return (NstScalar){.bits = random_below(4) ? bits : bits & 0xff};
}

#define POOL 64

/* A random pool member, of that type if there is one and it is not NONE. */
static NstExpr pick(const NstExpr *pool, int n, NstDtype type)
{
    int start = (int)random_below((uint32_t)n);
    for (int k = 0; type != NST_DTYPE_NONE && k < n; k++)
        if (nst_expr(exprs, pool[(start + k) % n])->type == type) return pool[(start + k) % n];
    return pool[start];
}

/* Grows a random expression of all operations and types that accept what is there. */
static NstExpr random_expression(const NstDtype *type, uint32_t n_args, int steps)
{
    NstExpr pool[POOL] = {{0}};
    int n = 0;
    for (uint32_t k = 0; k < n_args; k++) pool[n++] = nst_expr_arg(exprs, type[k], k);
    for (int step = 0; step < steps; step++) {
        NstScalarOp op = (NstScalarOp)(NST_OP_LET + 1 + random_below(NST_OP_COUNT - NST_OP_LET - 1));
        NstExpr arg[3], made = {0};
        NstDtype operand[3], to = (NstDtype)(1 + random_below(NST_DTYPE_COUNT - 1));
        int arity = nst_scalar_info(op)->arity;
        for (int k = 0; k < arity; k++) {
            bool select = op == NST_OP_SELECT;
            arg[k] = pick(pool, n,
                          select && k == 0       ? NST_BOOL
                          : k > (select ? 1 : 0) ? operand[k - 1]
                                                 : NST_DTYPE_NONE);
            operand[k] = nst_expr(exprs, arg[k])->type;
        }
        if (arity == 2 && random_below(3) == 0) {
            arg[1] = nst_expr_const(exprs, operand[0], random_bits());
            operand[1] = operand[0];
        }
        NstScalarRule rule = nst_scalar_info(op)->rule;
        if (rule == NST_RULE_BITCAST ? nst_scalar_can_bitcast(to, operand[0])
                                     : rule == NST_RULE_CONVERT && nst_scalar_can_convert(to, operand[0]))
            made = nst_expr_make(exprs, op, to, arg);
        else if (nst_scalar_result(op, operand, arity) != NST_DTYPE_NONE)
            made = nst_expr_make(exprs, op, NST_DTYPE_NONE, arg);
        if (made.i == 0) continue;
        if (n < POOL)
            pool[n++] = made;
        else
            pool[n_args + random_below(POOL - n_args)] = made;
    }
    NstExpr largest = pool[0];
    for (int k = 1; k < n; k++)
        if (nst_expr_cost(exprs, pool[k]) > nst_expr_cost(exprs, largest)) largest = pool[k];
    return largest;
}

Test(formula, random_expressions_round_trip)
{
    static const NstDtype type[] = {NST_F32, NST_F64,  NST_I32, NST_I64,      NST_U8, NST_BOOL,
                                    NST_F16, NST_BF16, NST_I4,  NST_F8E4M3FN, NST_I8, NST_U64};
    const uint32_t n_args = sizeof type / sizeof *type;
    size_t longest = 0;
    for (int round = 0; round < 3000; round++) {
        NstExpr e = random_expression(type, n_args, 20 + round % 2000);
        const char *text = print(e);
        if (strlen(text) > longest) longest = strlen(text);
        NstExpr back = parse_typed(text, type, n_args, NST_DTYPE_NONE);
        cr_assert_eq(back.i, e.i, "%s\n%s", text, print(back));
    }
    cr_assert_gt(longest, 1000u, "the longest is %zu", longest);
}

/* A text printed from one pool and read into another prints the same again. */
Test(formula, text_does_not_depend_on_the_pool)
{
    static const NstDtype type[] = {NST_F32, NST_F32, NST_I32, NST_I64, NST_BOOL};
    for (int round = 0; round < 300; round++) {
        NstExpr e = random_expression(type, 5, 100);
        const char *text = print(e);
        NstExprs *old = exprs;
        exprs = nst_exprs_new(ctx.arena, dims);
        const char *again = print(parse_typed(text, type, 5, NST_DTYPE_NONE));
        cr_assert_str_eq(again, text);
        exprs = old;
    }
}

Test(formula, deep_and_shared_expressions_print_in_linear_size)
{
    NstExpr deep = nst_expr_arg(exprs, NST_F32, 0), shared = deep;
    for (int k = 0; k < 5000; k++) deep = nst_expr_unary(exprs, k % 2 ? NST_OP_SQRT : NST_OP_NEG, deep);
    for (int k = 0; k < 200; k++) shared = nst_expr_binary(exprs, k % 2 ? NST_OP_MUL : NST_OP_ADD, shared, shared);
    cr_assert_lt(strlen(print(deep)), 60000u);
    cr_assert_eq(parse(print(deep)).i, deep.i);
    cr_assert_lt(strlen(print(shared)), 10000u);
    cr_assert_eq(parse(print(shared)).i, shared.i);
}
