/* test_integer_division.c: Div and Mod of ONNX on all integer types, where C has no answer: x/0 and the least value over -1
 * give the scalar table's values (x/0 = 0, x mod 0 = x, least/-1 = least, least mod -1 = 0) and no signal: compiled for each
 * level this machine has, and interpreted; divisors as inputs and as constants of the model. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include "nestor/session.h"
#include "runtime/compiler.h"
#include "tests/unit/support_onnx.h"

extern const NstCompilerTable nst_compiler_table;

enum { N = 37 }; /* whole vectors of every type up to 32 lanes, and a rest */

typedef struct Integer {
    NstDtype dtype;
    int onnx, bits;
    bool is_signed;
} Integer;
static const Integer integers[] = {{NST_I8, 3, 8, true},     {NST_I16, 5, 16, true},  {NST_I32, 6, 32, true},
                                   {NST_I64, 7, 64, true},   {NST_U8, 2, 8, false},   {NST_U16, 4, 16, false},
                                   {NST_U32, 12, 32, false}, {NST_U64, 13, 64, false}};

typedef struct Operator {
    const char *name;
    int fmod; /* attribute; -1 = none */
} Operator;
static const Operator operators[] = {{"Div", -1}, {"Mod", 0}, {"Mod", 1}};

/* The definition, bits in and bits out. */
static uint64_t expected(const Operator *op, const Integer *type, uint64_t a, uint64_t b)
{
    bool divides = op->fmod < 0;
    if (b == 0) return divides ? 0 : a;
    if (!type->is_signed) return divides ? a / b : a % b;
    int64_t x = (int64_t)(a << (64 - type->bits)) >> (64 - type->bits);
    int64_t y = (int64_t)(b << (64 - type->bits)) >> (64 - type->bits);
    if (y == -1) return divides ? 0 - (uint64_t)x : 0;
    if (divides) return (uint64_t)(x / y);
    int64_t rest = x % y;
    return (uint64_t)(op->fmod == 0 && rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
}

static uint64_t edge(const Integer *type, int k)
{
    const uint64_t least = UINT64_C(1) << (type->bits - 1);
    const uint64_t edges[] = {0, 1, UINT64_MAX, least, least - 1, 7, 0 - UINT64_C(7), least + 1, 2, 0 - UINT64_C(2)};
    return edges[k % 10];
}

static void put(char *data, const Integer *type, int k, uint64_t value)
{
    memcpy(data + (size_t)k * (size_t)type->bits / 8, &value, (size_t)type->bits / 8); /* little-endian */
}

/* y = op(a, b); constant: b is one value, held by the model. */
static NstText write_model(NstCtx *ctx, const Operator *op, const Integer *type, const char *constant)
{
    static const int64_t shape[] = {N, INT64_MIN}, one[] = {1, INT64_MIN};
    NstText attributes;
    OnnxModel m = onnx_model(ctx->arena);
    nst_text_init(&attributes, ctx->arena);
    if (op->fmod >= 0) onnx_attr_int(&attributes, "fmod", op->fmod);
    onnx_input(&m, "a", type->onnx, shape);
    if (constant)
        onnx_tensor(&m, "b", type->onnx, one, constant, (size_t)type->bits / 8);
    else
        onnx_input(&m, "b", type->onnx, shape);
    onnx_output(&m, "y", type->onnx, shape);
    onnx_node(&m, op->name, "n", "a b", "y", &attributes);
    return onnx_bytes(&m);
}

static void run(NstEngine *engine, const NstText *bytes, bool interpret, const Integer *type, char *a, char *b, char *y)
{
    NstModel *model;
    NstSession *session;
    size_t size = (size_t)type->bits / 8 * N;
    NstNamedTensor in[2] = {{"a", {.dtype = type->dtype, .rank = 1, .shape = {N}, .data = a, .bytes = size}},
                            {"b", {.dtype = type->dtype, .rank = 1, .shape = {N}, .data = b, .bytes = size}}};
    NstNamedTensor out = {"y", {.data = y, .bytes = size}};
    cr_assert_eq(nst_model_open_memory(engine, "division", bytes->at, bytes->n, &model), NST_OK);
    cr_assert_eq(nst_session_new(model, &(NstSessionOptions){.interpret = interpret}, &session), NST_OK, "%s",
                 nst_error_text());
    cr_assert_eq(nst_session_run(session, in, b ? 2 : 1, &out, 1, NULL), NST_OK, "%s", nst_error_text());
    nst_session_free(session);
    nst_model_free(model);
}

static void check(NstEngine *engine, const char *how, const Operator *op, const Integer *type, int divisor)
{
    NstCtx ctx;
    char a[8 * N], b[8 * N], y[8 * N] = {0}, wanted[8 * N] = {0};
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    for (int k = 0; k < N; k++) { /* all pairs of the four that matter most, and others */
        uint64_t x = edge(type, k), by = divisor < 0 ? edge(type, k < 16 ? k / 4 : k / 5 + k) : edge(type, divisor);
        if (divisor < 0 && k < 16) x = edge(type, k % 4);
        uint64_t low = UINT64_MAX >> (64 - type->bits);
        put(a, type, k, x);
        put(b, type, k, by);
        put(wanted, type, k, expected(op, type, x & low, by & low));
    }
    NstText bytes = write_model(&ctx, op, type, divisor < 0 ? NULL : b);
    for (int interpret = 0; interpret < 2; interpret++) {
        run(engine, &bytes, interpret != 0, type, a, divisor < 0 ? b : NULL, y);
        for (int k = 0; k < N; k++)
            cr_expect_eq(memcmp(y + (size_t)k * (size_t)type->bits / 8, wanted + (size_t)k * (size_t)type->bits / 8,
                                (size_t)type->bits / 8),
                         0, "%s fmod %d of %s, %s, divisor %d: element %d", op->name, op->fmod,
                         nst_dtype_name(type->dtype), interpret ? "interpreted" : how, divisor, k);
    }
    nst_ctx_dispose(&ctx);
}

static void check_target(const char *target)
{
    NstEngine *engine;
    nst_compiler_set(&nst_compiler_table);
    NstStatus status = nst_engine_new(&(NstEngineOptions){.threads = 1, .cache = "", .target = target}, &engine);
    if (status == NST_E_UNSUPPORTED) cr_skip_test("this machine has no %s", target);
    cr_assert_eq(status, NST_OK, "%s", nst_error_text());
    for (size_t t = 0; t < sizeof integers / sizeof *integers; t++)
        for (size_t o = 0; o < sizeof operators / sizeof *operators; o++)
            for (int divisor = -1; divisor < 3; divisor++) check(engine, target, &operators[o], &integers[t], divisor);
    nst_engine_free(engine);
}

Test(integer_division, baseline)
{
    check_target("baseline");
}

Test(integer_division, avx2)
{
    check_target("avx2");
}

Test(integer_division, avx512)
{
    check_target("avx512");
}
