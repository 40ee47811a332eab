/* test_operator_cases.c: operators without an official case: tests/onnx/cases.txt, computed from the text of the standard.
 *
 *     case DOMAIN NAME VERSION {attribute:kind=value}     a node of that operator in that version of its domain
 *     in TYPE[SHAPE] {number}      an input (str: words in quotes); const: a constant; none: an absent one
 *     out TYPE[SHAPE] {number}     what it gives, floats within 1e-5 of the value or 1e-6
 *     error TEXT                   or what the message of its refusal has in it
 *
 * Kinds of attributes as in frontend/ops/all.def; entries of lists are split by commas.  Each case is interpreted, and compiled
 * and run by a session.  Where $NESTOR_PROOFS names a file, what the cases prove is written there (tests/onnx/proof.h). */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include "ir/base/os.h"
#include "nestor/session.h"
#include "runtime/compiler.h"
#include "runtime/host_eval.h"
#include "tests/onnx/proof.h"
#include "tests/unit/support_onnx.h"

#define MAX_TENSORS 12

extern const NstCompilerTable nst_compiler_table;

static NstCtx ctx;
static NstEngine *engine;
static FILE *proofs;

static void begin(void)
{
    NstEngineOptions options = {.threads = 2, .cache = ""};
    nst_compiler_set(&nst_compiler_table);
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    cr_assert_eq(nst_engine_new(&options, &engine), NST_OK, "%s", nst_error_text());
}

static void end(void)
{
    nst_engine_free(engine);
    nst_ctx_dispose(&ctx);
}

TestSuite(operator_cases, .init = begin, .fini = end, .timeout = 110);

typedef struct Case {
    OnnxModel model;
    const char *name; /* "ai.onnx Affine 10" */
    char *op, *version, *domain;
    NstText attributes, ins, outs;
    NstTensorValue in[MAX_TENSORS], out[MAX_TENSORS];
    int n_in, n_out, n_any;
    const char *error;
    NstStrings *strings;
    Proof proof;
} Case;

static char *next_word(char **p)
{
    char *word = *p + strspn(*p, " ");
    size_t n = strcspn(word, " ");
    *p = word + n + (word[n] != '\0');
    word[n] = '\0';
    return word;
}

/* --- attributes ------------------------------------------------------------------------------------------------ */

static void add_entry(NstText *a, const char *kind, const char *text)
{
    if (kind[0] == 'i')
        pb_int(a, kind[1] ? 8 : 3, strtoll(text, NULL, 10));
    else if (kind[0] == 'f')
        pb_float(a, kind[1] ? 7 : 2, strtof(text, NULL));
    else
        pb_text(a, kind[1] ? 9 : 4, text);
}

static void add_attribute(Case *c, char *text)
{
    static const struct {
        const char *kind;
        int type;
    } kinds[] = {{"f", 1}, {"i", 2}, {"s", 3}, {"floats", 6}, {"ints", 7}, {"strings", 8}};
    char *kind = strchr(text, ':'), *value = strchr(text, '=');
    cr_assert(kind && value, "%s: attribute %s", c->name, text);
    *kind++ = *value++ = '\0';
    NstText a;
    nst_text_init(&a, ctx.arena);
    pb_text(&a, 1, text);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (strcmp(kinds[k].kind, kind) != 0) continue;
        pb_int(&a, 20, kinds[k].type);
        for (char *at = kind[1] ? strtok(value, ",") : value; at; at = kind[1] ? strtok(NULL, ",") : NULL)
            add_entry(&a, kind, at);
        pb_message(&c->attributes, 5, &a);
        return;
    }
    cr_assert(false, "%s: kind of attribute %s", c->name, text);
}

/* --- tensors --------------------------------------------------------------------------------------------------- */

/* The k-th entry: a number (of complex ones the real part, the other is 0), or of a string tensor a word in quotes. */
static char *read_element(const Case *c, char *at, NstTensorValue *t, int64_t k)
{
    char *to = (char *)t->data + k * nst_dtype_info(t->dtype)->bytes, *stop;
    at += strspn(at, " ");
    if (t->dtype == NST_STR) {
        cr_assert_eq(*at, '"', "%s: string %d", c->name, (int)k);
        stop = strchr(at + 1, '"');
        cr_assert(stop, "%s: string %d", c->name, (int)k);
        uint64_t handle = nst_strings_put(c->strings, at + 1, (size_t)(stop - at) - 1);
        memcpy(to, &handle, sizeof handle);
        return stop + 1;
    }
    double value = strtod(at, &stop);
    cr_assert(stop != at, "%s: number %d", c->name, (int)k);
    NstDtype part = t->dtype == NST_C64 ? NST_F32 : t->dtype == NST_C128 ? NST_F64 : t->dtype;
    nst_scalar_store(part, to, nst_scalar_convert(part, NST_F64, (NstScalar){.f = value}, true));
    return stop;
}

/* "f32[2,3] 1 2 3 4 5 6", "str[2] "a" "b"" */
static NstTensorValue read_tensor(const Case *c, char *text, int64_t *shape)
{
    NstTensorValue t = {.rank = 0};
    size_t n = strcspn(text, "[");
    t.dtype = nst_dtype_parse(text, n);
    cr_assert(t.dtype != NST_DTYPE_NONE, "%s: type of %s", c->name, text);
    int64_t count = 1;
    char *at = text + n + 1;
    for (; *at && *at != ']'; at += *at == ',') count *= t.shape[t.rank++] = strtoll(at, &at, 10);
    memcpy(shape, t.shape, sizeof t.shape);
    shape[t.rank] = INT64_MIN;
    at += 1;
    t.bytes = (size_t)(count * nst_dtype_info(t.dtype)->bytes);
    t.data = nst_alloc(ctx.arena, t.bytes + 1);
    for (int64_t k = 0; k < count; k++) at = read_element(c, at, &t, k);
    cr_assert_eq(at[strspn(at, " ")], '\0', "%s: numbers of %s", c->name, text);
    return t;
}

static void add_tensor(Case *c, const char *word, char *rest)
{
    int64_t shape[NST_MAX_RANK + 1];
    const char *name = nst_format(ctx.arena, "t%d", c->n_any++);
    bool is_out = strcmp(word, "out") == 0, none = strcmp(word, "none") == 0;
    nst_text_add(is_out ? &c->outs : &c->ins, " %s", none ? "-" : name);
    if (none) return;
    cr_assert(c->n_in < MAX_TENSORS && c->n_out < MAX_TENSORS);
    NstTensorValue t = read_tensor(c, rest, shape);
    int type = nst_dtype_info(t.dtype)->onnx;
    if (is_out) {
        onnx_output(&c->model, name, type, shape);
        c->out[c->n_out++] = t;
    } else if (strcmp(word, "const") == 0) {
        onnx_tensor(&c->model, name, type, shape, t.data, t.bytes);
    } else {
        onnx_input(&c->model, name, type, shape);
        c->in[c->n_in++] = t;
    }
}

/* --- running --------------------------------------------------------------------------------------------------- */

/* Strings are compared by handle: tables hold each once. */
static double number_at(const NstTensorValue *t, int64_t k)
{
    if (t->dtype == NST_STR) return (double)((const uint64_t *)t->data)[k];
    NstScalar v = nst_scalar_load(t->dtype, (const char *)t->data + k * nst_dtype_info(t->dtype)->bytes);
    return nst_scalar_convert(NST_F64, t->dtype, v, false).f;
}

static void compare(const Case *c, int output, const NstTensorValue *given, const NstTensorValue *wanted)
{
    int64_t count = 1;
    cr_assert_eq(given->dtype, wanted->dtype, "%s: output %d is %s", c->name, output,
                 nst_dtype_info(given->dtype)->name);
    cr_assert_eq(given->rank, wanted->rank, "%s: output %d has rank %d", c->name, output, given->rank);
    for (int k = 0; k < wanted->rank; k++) {
        cr_assert_eq(given->shape[k], wanted->shape[k], "%s: output %d has extent %lld at axis %d", c->name, output,
                     (long long)given->shape[k], k);
        count *= wanted->shape[k];
    }
    for (int64_t k = 0; k < count; k++) {
        double x = number_at(given, k), y = number_at(wanted, k);
        bool close = nst_dtype_is_float(wanted->dtype) ? fabs(x - y) <= 1e-6 + 1e-5 * fabs(y) : x == y;
        cr_expect(close || (isnan(x) && isnan(y)) || x == y, "%s: output %d, element %d: %g, expected %g", c->name,
                  output, (int)k, x, y);
    }
}

static NstStatus run(Case *c, NstTensorValue *out)
{
    NstGraph *graph;
    NstText bytes = onnx_bytes(&c->model);
    NstImportOptions options = {.strings = c->strings, .imported = proof_add, .imported_arg = &c->proof};
    proof_begin(&c->proof, ctx.arena);
    NST_TRY(nst_import_onnx(&ctx, ctx.arena, nst_text_get(&bytes), bytes.n, &options, &graph));
    NstHostGraph owner = {graph, NULL};
    NstHostCall host = nst_host_for_graph(&owner);
    return nst_graph_interpret(&ctx, ctx.arena, graph, c->in, (uint32_t)c->n_in, true, &host, out);
}

/* A value as a session takes it. */
static NstTensor tensor_of(const Case *c, const NstTensorValue *value)
{
    NstTensor t = {.dtype = value->dtype, .rank = value->rank, .data = value->data, .bytes = value->bytes};
    memcpy(t.shape, value->shape, sizeof t.shape);
    if (t.dtype != NST_STR) return t;
    size_t n = value->bytes / sizeof(uint64_t);
    NstString *s = NST_NEW_ARRAY(ctx.arena, NstString, n);
    for (size_t k = 0; k < n; k++) s[k] = *nst_strings_get(c->strings, ((uint64_t *)value->data)[k]);
    t.data = s;
    t.bytes = n * sizeof *s;
    return t;
}

static NstTensorValue value_of(Case *c, const NstTensor *t)
{
    NstTensorValue value = {.dtype = t->dtype, .rank = t->rank, .data = t->data};
    size_t n = 1;
    for (int axis = 0; axis < t->rank; axis++) n *= (size_t)t->shape[axis];
    memcpy(value.shape, t->shape, sizeof value.shape);
    value.bytes = n * (size_t)nst_dtype_info(t->dtype)->bytes;
    value.data = nst_alloc(ctx.arena, value.bytes);
    const NstString *s = t->data;
    for (size_t k = 0; t->dtype == NST_STR && k < n; k++)
        ((uint64_t *)value.data)[k] = nst_strings_put(c->strings, s[k].at, s[k].n);
    if (t->dtype != NST_STR && value.bytes != 0) memcpy(value.data, t->data, value.bytes);
    return value;
}

/* Compiled: the same, or a refusal with the same words. */
static void finish_compiled(Case *c)
{
    NstModel *model;
    NstSession *session = NULL;
    NstNamedTensor in[MAX_TENSORS] = {{.name = NULL}}, out[MAX_TENSORS] = {{.name = NULL}};
    NstText bytes = onnx_bytes(&c->model);
    for (int k = 0; k < c->n_in; k++) in[k].tensor = tensor_of(c, &c->in[k]);
    cr_assert_eq(nst_model_open_memory(engine, c->name, nst_text_get(&bytes), bytes.n, &model), NST_OK);
    NstStatus status = nst_session_new(model, NULL, &session);
    uint32_t n_out = session ? nst_session_output_count(session) : 0;
    cr_assert_leq(n_out, MAX_TENSORS);
    if (status == NST_OK) status = nst_session_run(session, in, (uint32_t)c->n_in, out, n_out, NULL);
    if (c->error)
        cr_expect(status != NST_OK && strstr(nst_error_text(), c->error),
                  "%s, compiled: status %s, message '%s', expected '%s'", c->name, nst_status_name(status),
                  nst_error_text(), c->error);
    else
        cr_expect_eq(status, NST_OK, "%s, compiled: %s", c->name, nst_error_text());
    for (int k = 0; k < c->n_out && status == NST_OK; k++) {
        NstTensorValue value = value_of(c, &out[k].tensor);
        compare(c, k, &value, &c->out[k]);
    }
    for (int k = 0; k < MAX_TENSORS; k++) nst_tensor_release(&out[k].tensor);
    nst_session_free(session);
    nst_model_free(model);
}

static void finish(Case *c)
{
    NstTensorValue out[MAX_TENSORS] = {{0}};
    const char *op = strcmp(c->domain, "ai.onnx") == 0 ? c->op : nst_format(ctx.arena, "%s:%s", c->domain, c->op);
    if (c->error) { /* any output will do */
        NstText info;
        nst_text_init(&info, ctx.arena);
        pb_text(&info, 1, "y"); /* of no stated type */
        pb_message(&c->model.graph, 12, &info);
        nst_text_add(&c->outs, " y");
    }
    onnx_node(&c->model, op, "case", nst_text_get(&c->ins) + (c->ins.n > 0), nst_text_get(&c->outs) + 1,
              &c->attributes);
    nst_ctx_clear(&ctx);
    NstStatus status = run(c, out);
    finish_compiled(c);
    if (c->error) {
        cr_expect(status != NST_OK && strstr(ctx.error, c->error), "%s: status %s, message '%s', expected '%s'",
                  c->name, nst_status_name(status), ctx.error, c->error);
        return;
    }
    cr_expect_eq(status, NST_OK, "%s: %s", c->name, ctx.error);
    for (int k = 0; k < c->n_out && status == NST_OK; k++) compare(c, k, &out[k], &c->out[k]);
    if (status == NST_OK) proof_print(&c->proof, proofs, "cases.txt");
}

static void begin_case(Case *c, char *rest)
{
    *c = (Case){
        .model = onnx_model(ctx.arena), .name = nst_strdup(ctx.arena, rest), .strings = nst_strings_new(ctx.arena)};
    nst_text_init(&c->attributes, ctx.arena);
    nst_text_init(&c->ins, ctx.arena);
    nst_text_init(&c->outs, ctx.arena);
    c->domain = next_word(&rest);
    c->op = next_word(&rest);
    c->version = next_word(&rest);
    int64_t version = strtoll(c->version, NULL, 10);
    bool own = strcmp(c->domain, "ai.onnx") == 0;
    c->model.ir_version = 14;
    c->model.opset = own ? version : 28;
    c->model.domain = own ? NULL : c->domain;
    c->model.domain_version = version;
    while (*rest) add_attribute(c, next_word(&rest));
}

Test(operator_cases, give_what_the_standard_says)
{
    char *text, *line;
    size_t n;
    Case c = {.name = NULL};
    int cases = 0;
    cr_assert_eq(nst_os_read_file(&ctx, ctx.arena, "tests/onnx/cases.txt", 1 << 20, &text, &n), NST_OK, "%s",
                 ctx.error);
    text = nst_copy_text(ctx.arena, text, n);
    if (getenv("NESTOR_PROOFS")) cr_assert(proofs = fopen(getenv("NESTOR_PROOFS"), "w"));
    while (*text) {
        line = text;
        size_t length = strcspn(line, "\n");
        text += length + (line[length] != '\0');
        line[length] = '\0';
        if (*line == '#' || *line == '\0') continue;
        char *word = next_word(&line);
        if (strcmp(word, "case") == 0) {
            if (c.name) finish(&c);
            begin_case(&c, line);
            cases++;
        } else if (strcmp(word, "error") == 0) {
            c.error = line;
        } else {
            add_tensor(&c, word, line);
        }
    }
    if (c.name) finish(&c);
    cr_expect_gt(cases, 20);
    if (proofs) fclose(proofs);
}

/* --- random numbers -------------------------------------------------------------------------------------------- */

#define DRAWS 20000

/* DRAWS numbers of an operator with that seed (below 0: none). */
static const float *draw(const char *op, const char *name, float seed)
{
    static const int64_t shape[] = {DRAWS, INT64_MIN};
    Case c = {.model = onnx_model(ctx.arena), .name = op};
    NstTensorValue out;
    nst_text_init(&c.attributes, ctx.arena);
    onnx_attr_ints(&c.attributes, "shape", 1, shape);
    if (seed >= 0) add_attribute(&c, nst_strdup(ctx.arena, nst_format(ctx.arena, "seed:f=%g", (double)seed)));
    onnx_output(&c.model, "y", 1, shape);
    onnx_node(&c.model, op, name, "", "y", &c.attributes);
    cr_assert_eq(run(&c, &out), NST_OK, "%s", ctx.error);
    return out.data;
}

Test(operator_cases, random_numbers_have_their_distribution_and_follow_the_seed)
{
    static const struct {
        const char *op;
        double mean, variance;
    } rows[] = {{"RandomUniform", 0.5, 1.0 / 12}, {"RandomNormal", 0, 1}};
    for (int k = 0; k < 2; k++) {
        const float *x = draw(rows[k].op, "r", 1), *again = draw(rows[k].op, "s", 1), *other = draw(rows[k].op, "r", 2),
                    *free = draw(rows[k].op, "r", -1), *named = draw(rows[k].op, "s", -1);
        double sum = 0, squares = 0, product = 0;
        int same_other = 0, same_named = 0;
        for (int j = 0; j < DRAWS; j++) {
            sum += (double)x[j];
            squares += ((double)x[j] - rows[k].mean) * ((double)x[j] - rows[k].mean);
            product += ((double)x[j] - rows[k].mean) * ((double)x[(j + 1) % DRAWS] - rows[k].mean);
            cr_assert_eq(x[j], again[j]);
            same_other += x[j] == other[j];
            same_named += free[j] == named[j];
        }
        double spread = 5 * sqrt(rows[k].variance / DRAWS); /* five standard deviations of the mean */
        cr_expect_lt(fabs(sum / DRAWS - rows[k].mean), spread, "%s: mean %g", rows[k].op, sum / DRAWS);
        cr_expect_lt(fabs(squares / DRAWS / rows[k].variance - 1), 0.05, "%s: %g", rows[k].op, squares / DRAWS);
        cr_expect_lt(fabs(product / DRAWS / rows[k].variance), 0.04, "%s: %g", rows[k].op, product / DRAWS);
        cr_expect_lt(same_other, 20);
        cr_expect_lt(same_named, 20);
    }
}
