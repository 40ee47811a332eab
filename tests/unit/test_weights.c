/* test_weights.c: frontend/weights.h: each encoding of a tensor. */
#include <criterion/criterion.h>
#include <string.h>
#include "frontend/weights.h"
#include "frontend/wire.h"
#include "tests/unit/support_onnx.h"

static NstCtx ctx;

static void begin(void)
{
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
}

static void end(void)
{
    nst_ctx_dispose(&ctx);
}

TestSuite(weights, .init = begin, .fini = end);

/* A tensor of one axis and what its fields hold. */
static NstText tensor(int type, int64_t n)
{
    NstText t;
    nst_text_init(&t, ctx.arena);
    pb_int(&t, 1, n);
    pb_int(&t, 2, type);
    return t;
}

static NstStatus read_weight(const NstText *bytes, NstWeight *w)
{
    ProtobufCMessage *message;
    NstOnnxModel *model = NST_NEW(ctx.arena, NstOnnxModel);
    *model = (NstOnnxModel){.arena = ctx.arena, .bytes = (const unsigned char *)bytes->at, .n = bytes->n};
    nst_ctx_clear(&ctx);
    NST_TRY(nst_wire_unpack(&ctx, ctx.arena, &onnx__tensor_proto__descriptor, "tensor", bytes->at, bytes->n, &message));
    return nst_weight_read(&ctx, model, (Onnx__TensorProto *)message, "w", w);
}

static void expect(const NstText *bytes, NstDtype dtype, const void *wanted, size_t n)
{
    NstWeight w;
    NstStatus status = read_weight(bytes, &w);
    cr_assert_eq(status, NST_OK, "%s", ctx.error);
    cr_expect_eq(w.dtype, dtype);
    cr_assert_eq(w.bytes, n, "%s: %zu bytes", nst_dtype_info(dtype)->name, w.bytes);
    cr_expect_eq(memcmp(w.data, wanted, n), 0, "%s", nst_dtype_info(dtype)->name);
}

Test(weights, raw_data)
{
    const struct {
        int type;
        NstDtype dtype;
        const char *raw;
        size_t n;
        int64_t count;
        const char *wanted;
        size_t bytes;
    } rows[] = {{1, NST_F32, "\0\0\x80\x3f", 4, 1, "\0\0\x80\x3f", 4},
                {9, NST_BOOL, "\0\1\7", 3, 3, "\0\1\1", 3},
                {10, NST_F16, "\0\x3c", 2, 1, "\0\x3c", 2},
                {21, NST_U4, "\x21\x03", 2, 3, "\1\2\3", 3},
                {22, NST_I4, "\xf1\x08", 2, 3, "\x01\xff\xf8", 3},
                {25, NST_U2, "\xe4", 1, 4, "\0\1\2\3", 4},
                {26, NST_I2, "\xe4", 1, 4, "\0\1\xfe\xff", 4},
                {27, NST_F6E2M3, "\x41\x30\x80\x3f", 4, 5, "\1\1\3\x20\x3f", 5},
                {28, NST_F6E3M2, "\x3f\x08", 2, 2, "\x3f\x20", 2},
                {20, NST_F8E5M2FNUZ, "\x80", 1, 1, "\x80", 1},
                {14, NST_C64, "\0\0\x80\x3f\0\0\0\0", 8, 1, "\0\0\x80\x3f\0\0\0\0", 8}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        NstText t = tensor(rows[k].type, rows[k].count);
        pb_bytes(&t, 9, rows[k].raw, rows[k].n);
        expect(&t, rows[k].dtype, rows[k].wanted, rows[k].bytes);
    }
}

Test(weights, typed_fields)
{
    NstText t = tensor(1, 2);
    pb_float(&t, 4, 1.5f);
    pb_float(&t, 4, -2.0f);
    expect(&t, NST_F32, (float[]){1.5f, -2.0f}, 8);
    t = tensor(1, 2); /* packed */
    pb_bytes(&t, 4, (float[]){1.5f, -2.0f}, 8);
    expect(&t, NST_F32, (float[]){1.5f, -2.0f}, 8);
    t = tensor(11, 1);
    pb_bytes(&t, 10, (double[]){0.1}, 8);
    expect(&t, NST_F64, (double[]){0.1}, 8);
    t = tensor(3, 2);
    pb_int(&t, 5, -3);
    pb_int(&t, 5, 7);
    expect(&t, NST_I8, (int8_t[]){-3, 7}, 2);
    t = tensor(6, 1);
    pb_int(&t, 5, -3);
    expect(&t, NST_I32, (int32_t[]){-3}, 4);
    t = tensor(7, 1);
    pb_int(&t, 7, INT64_MIN);
    expect(&t, NST_I64, (int64_t[]){INT64_MIN}, 8);
    t = tensor(12, 1);
    pb_int(&t, 11, 0xffffffff);
    expect(&t, NST_U32, (uint32_t[]){0xffffffff}, 4);
    t = tensor(10, 1);
    pb_int(&t, 5, 0x3c00);
    expect(&t, NST_F16, (uint16_t[]){0x3c00}, 2);
    t = tensor(9, 2);
    pb_int(&t, 5, 0);
    pb_int(&t, 5, 256);
    expect(&t, NST_BOOL, "\0\1", 2);
    t = tensor(22, 3);
    pb_int(&t, 5, 0xf1);
    pb_int(&t, 5, 0x08);
    expect(&t, NST_I4, "\x01\xff\xf8", 3);
    t = tensor(14, 1);
    pb_float(&t, 4, 1);
    pb_float(&t, 4, 2);
    expect(&t, NST_C64, (float[]){1, 2}, 8);
}

Test(weights, what_does_not_fit)
{
    NstWeight w;
    NstText t = tensor(1, 2);
    pb_float(&t, 4, 1.5f);
    cr_expect_eq(read_weight(&t, &w), NST_E_MODEL);
    cr_expect_str_eq(ctx.error, "w: 1 entries of float_data, its shape needs 2");
    t = tensor(1, 1);
    pb_int(&t, 5, 3); /* another type's field */
    cr_expect_eq(read_weight(&t, &w), NST_E_MODEL);
    t = tensor(8, 0);
    cr_expect_eq(read_weight(&t, &w), NST_E_UNSUPPORTED);
    t = tensor(0, 0);
    cr_expect_eq(read_weight(&t, &w), NST_E_MODEL);
    cr_expect_str_eq(ctx.error, "w: data type 0, allowed: 1 to 28");
    t = tensor(1, 1);
    pb_int(&t, 1000, 0); /* our own fields do not come from outside */
    pb_int(&t, 1001, 4);
    cr_expect_eq(read_weight(&t, &w), NST_E_MODEL);
    t = tensor(1, 1);
    pb_bytes(&t, 4, "abc", 3);
    cr_expect_eq(read_weight(&t, &w), NST_E_PARSE);
    cr_expect(strstr(ctx.error, "multiples of 4"));
}

/* A sparse tensor of f32 [rows, 4]; indices per entry 1 (flat) or 2. */
static NstText sparse(int64_t rows, const float *value, const int64_t *index, int64_t n, int per_entry)
{
    NstText message, values = tensor(1, n), indices;
    nst_text_init(&message, ctx.arena);
    nst_text_init(&indices, ctx.arena);
    pb_bytes(&values, 9, value, (size_t)n * sizeof *value);
    pb_int(&indices, 1, n);
    if (per_entry > 1) pb_int(&indices, 1, per_entry);
    pb_int(&indices, 2, 7);
    pb_bytes(&indices, 9, index, (size_t)(n * per_entry) * sizeof *index);
    pb_message(&message, 1, &values);
    pb_message(&message, 2, &indices);
    pb_int(&message, 3, rows);
    pb_int(&message, 3, 4);
    return message;
}

static NstStatus read_sparse(const NstText *bytes, NstWeight *w)
{
    ProtobufCMessage *message;
    NstOnnxModel *model = NST_NEW(ctx.arena, NstOnnxModel);
    *model = (NstOnnxModel){.arena = ctx.arena, .bytes = (const unsigned char *)bytes->at, .n = bytes->n};
    nst_ctx_clear(&ctx);
    NST_TRY(nst_wire_unpack(&ctx, ctx.arena, &onnx__sparse_tensor_proto__descriptor, "sparse", bytes->at, bytes->n,
                            &message));
    return nst_weight_read_sparse(&ctx, model, (Onnx__SparseTensorProto *)message, "w", w);
}

Test(weights, sparse_tensors_become_dense)
{
    static const float value[] = {5, 6, 7}, wanted[8] = {0, 5, 0, 6, 0, 0, 0, 7};
    const struct {
        int64_t index[6];
        int per_entry;
    } cases[] = {{{1, 3, 7}, 1}, {{0, 1, 0, 3, 1, 3}, 2}};
    NstWeight w;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        NstText bytes = sparse(2, value, cases[k].index, 3, cases[k].per_entry);
        cr_assert_eq(read_sparse(&bytes, &w), NST_OK, "%s", ctx.error);
        cr_assert(w.dtype == NST_F32 && w.rank == 2 && w.shape[0] == 2 && w.shape[1] == 4 && w.bytes == sizeof wanted);
        cr_expect_eq(memcmp(w.data, wanted, sizeof wanted), 0);
    }
    NstText none = sparse(2, value, cases[0].index, 0, 1);
    cr_assert_eq(read_sparse(&none, &w), NST_OK, "%s", ctx.error);
    cr_expect_eq(((const float *)w.data)[7], 0);
}

Test(weights, sparse_tensors_that_contradict_themselves)
{
    static const float value[] = {5, 6};
    const struct {
        int64_t rows, index[4], n;
        int per_entry;
        NstStatus status;
        const char *text;
    } cases[] = {{2, {1, 8}, 2, 1, NST_E_MODEL, "index 8, allowed: 0 to 7"},
                 {2, {-1, 3}, 2, 1, NST_E_MODEL, "index -1"},
                 {2, {3, 3}, 2, 1, NST_E_MODEL, "entry 1 is not behind"},
                 {2, {3, 1}, 2, 1, NST_E_MODEL, "entry 1 is not behind"},
                 {2, {0, 1, 2, 0}, 2, 2, NST_E_MODEL, "index 2 of axis 0, allowed: 0 to 1"},
                 {2, {0, 1, 0}, 1, 3, NST_E_MODEL, "allowed: values [n]"},
                 {-2, {1, 3}, 2, 1, NST_E_MODEL, "extent -2 of axis 0"},
                 {INT64_C(1) << 40, {1, 3}, 2, 1, NST_E_LIMIT, "more than 268435456 bytes"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        NstWeight w;
        NstText bytes = sparse(cases[k].rows, value, cases[k].index, cases[k].n, cases[k].per_entry);
        cr_expect_eq(read_sparse(&bytes, &w), cases[k].status, "case %zu: %s", k, ctx.error);
        cr_expect_not_null(strstr(ctx.error, cases[k].text), "case %zu: %s", k, ctx.error);
    }
}
