/* run_cases.c: official ONNX test cases through the reference interpreter.
 *
 *     run_cases [-v] [--known FILE] [--at-least N] FOLDER...
 *
 * Each folder below FOLDER that has a model.onnx is a case: inputs test_data_set_N/input_K.pb, outputs output_K.pb.
 * A case passes if every output is within rtol 1e-3, atol 1e-7 (integers and bools: equal), or is not supported if the
 * import says NST_E_UNSUPPORTED.  Anything else is a failure, unless FILE lists the case (first column, then why).
 * Prints a line for each failure, with -v for each case, and counts.  Exit status: 0 no failures and at least N passed, 1
 * otherwise, 2 usage. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "frontend/import.h"
#include "frontend/weights.h"
#include "frontend/wire.h"

#define MAX_FILE   ((size_t)256 << 20)
#define MAX_VALUES 64

typedef enum Verdict { PASSED, UNSUPPORTED, KNOWN, FAILED, N_VERDICTS } Verdict;

typedef struct Case {
    const char *path;
    Verdict verdict;
    char why[NST_ERROR_TEXT + 64];
} Case;

static bool verbose;
static const char *known_text = "";

/* --- files ----------------------------------------------------------------------------------------------------- */

/* A tensor of a .pb file; false if there is no such file. */
static bool read_tensor(NstCtx *ctx, const char *path, NstTensorValue *value, NstStatus *status)
{
    char *bytes;
    size_t n;
    ProtobufCMessage *message;
    NstWeight w;
    if (nst_os_read_file(ctx, ctx->arena, path, MAX_FILE, &bytes, &n) != NST_OK) {
        nst_ctx_clear(ctx);
        return false;
    }
    NstOnnxModel model = {.arena = ctx->arena, .bytes = (unsigned char *)bytes, .n = n};
    *status = nst_wire_unpack(ctx, ctx->arena, &onnx__tensor_proto__descriptor, "tensor", bytes, n, &message);
    if (*status == NST_OK) *status = nst_weight_read(ctx, &model, (Onnx__TensorProto *)message, path, &w);
    if (*status != NST_OK) return true;
    *value = (NstTensorValue){.dtype = w.dtype, .rank = w.rank, .bytes = w.bytes};
    value->data = nst_copy(ctx->arena, w.data, w.bytes);
    memcpy(value->shape, w.shape, sizeof w.shape);
    return true;
}

/* --- comparison ------------------------------------------------------------------------------------------------ */

static double number_at(const NstTensorValue *t, int64_t k)
{
    NstScalar v = nst_scalar_load(t->dtype, (const char *)t->data + k * nst_dtype_info(t->dtype)->bytes);
    if (!nst_dtype_is_float(t->dtype)) return (double)v.i;
    return nst_dtype_info(t->dtype)->compute == t->dtype ? v.f : (double)nst_narrow_to_f32(t->dtype, (uint32_t)v.bits);
}

static bool is_close(const NstTensorValue *a, const NstTensorValue *b, int64_t k)
{
    int size = nst_dtype_info(a->dtype)->bytes;
    if (!nst_dtype_is_float(a->dtype))
        return memcmp((char *)a->data + k * size, (char *)b->data + k * size, (size_t)size) == 0;
    double x = number_at(a, k), y = number_at(b, k);
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    if (isinf(x) || isinf(y)) return x == y;
    return fabs(x - y) <= 1e-7 + 1e-3 * fabs(y);
}

static bool equal_values(const NstTensorValue *given, const NstTensorValue *wanted, int output, char *why)
{
    bool shape = given->rank == wanted->rank && given->dtype == wanted->dtype;
    int64_t count = 1, bad = 0, first = -1;
    for (int k = 0; shape && k < given->rank; k++) {
        shape = given->shape[k] == wanted->shape[k];
        count *= given->shape[k];
    }
    if (!shape) {
        snprintf(why, NST_ERROR_TEXT, "output %d: %s of rank %d, expected %s of rank %d, or another extent", output,
                 nst_dtype_info(given->dtype)->name, given->rank, nst_dtype_info(wanted->dtype)->name, wanted->rank);
        return false;
    }
    for (int64_t k = 0; k < count; k++) {
        if (is_close(given, wanted, k)) continue;
        if (first < 0) first = k;
        bad++;
    }
    if (bad)
        snprintf(why, NST_ERROR_TEXT, "output %d: %lld of %lld elements differ, first at %lld: %g, expected %g", output,
                 (long long)bad, (long long)count, (long long)first, number_at(given, first), number_at(wanted, first));
    return bad == 0;
}

/* --- cases ----------------------------------------------------------------------------------------------------- */

static bool is_known(const char *name)
{
    size_t n = strlen(name);
    for (const char *p = known_text; (p = strstr(p, name)); p += n)
        if ((p == known_text || p[-1] == '\n') && p[n] == '\t') return true;
    return false;
}

static NstStatus run_data_set(NstCtx *ctx, Case *c, const NstGraph *graph, int set)
{
    NstTensorValue in[MAX_VALUES], out[MAX_VALUES], wanted;
    NstStatus status;
    const NstRegion *region = nst_graph_region(graph, NST_GRAPH_REGION);
    uint32_t n = 0;
    NST_CHECK(ctx, region->params.n <= MAX_VALUES && region->results.n <= MAX_VALUES, NST_E_UNSUPPORTED, "many values");
    for (; n < region->params.n; n++) {
        const char *path = nst_format(ctx->arena, "%s/test_data_set_%d/input_%u.pb", c->path, set, n);
        NST_CHECK(ctx, read_tensor(ctx, path, &in[n], &status), NST_E_INVALID, "no file %s", path);
        NST_TRY(status);
    }
    NST_TRY(nst_graph_interpret(ctx, ctx->arena, graph, in, n, true, NULL, out));
    for (uint32_t k = 0; k < region->results.n; k++) {
        const char *path = nst_format(ctx->arena, "%s/test_data_set_%d/output_%u.pb", c->path, set, k);
        NST_CHECK(ctx, read_tensor(ctx, path, &wanted, &status), NST_E_INVALID, "no file %s", path);
        NST_TRY(status);
        if (!equal_values(&out[k], &wanted, (int)k, c->why)) c->verdict = FAILED;
    }
    return NST_OK;
}

/* The number of a model's input, as the files count them; -1 if there is none of that name. */
static int input_number(NstCtx *ctx, const char *bytes, size_t n, const char *name)
{
    NstOnnxModel *model;
    if (nst_onnx_read(ctx, ctx->arena, ctx->arena, bytes, n, NULL, &model) != NST_OK) return -1;
    for (size_t k = 0; k < model->proto->graph->n_input; k++)
        if (strcmp(model->proto->graph->input[k]->name, name) == 0) return (int)k;
    return -1;
}

/* Imports; where the value of an input decides about the graph's structure, with that value. */
static NstStatus import_case(NstCtx *ctx, const Case *c, const char *bytes, size_t n, NstGraph **graph)
{
    NstFixedInput fixed[8];
    const char *needs;
    NstImportOptions options = {.folder = c->path, .fixed = fixed, .needs = &needs};
    for (;;) {
        NstStatus status = nst_import_onnx(ctx, ctx->arena, bytes, n, &options, graph);
        if (status != NST_E_UNSUPPORTED || !needs || options.n_fixed == 8) return status;
        NstFixedInput *next = &fixed[options.n_fixed];
        next->name = needs;
        for (uint32_t k = 0; k < options.n_fixed; k++)
            if (strcmp(fixed[k].name, needs) == 0) return status;
        int number = input_number(ctx, bytes, n, needs);
        const char *path = nst_format(ctx->arena, "%s/test_data_set_0/input_%d.pb", c->path, number);
        NstStatus read;
        NstCtx own = *ctx; /* keeps the error, should there be no value */
        nst_ctx_clear(ctx);
        if (!read_tensor(ctx, path, &next->value, &read) || read != NST_OK) return *ctx = own, status;
        options.n_fixed++;
    }
}

static NstStatus run_case(NstCtx *ctx, void *arg)
{
    Case *c = arg;
    char *bytes;
    size_t n;
    NstGraph *graph;
    NST_TRY(nst_os_read_file(ctx, ctx->arena, nst_format(ctx->arena, "%s/model.onnx", c->path), MAX_FILE, &bytes, &n));
    NST_TRY(import_case(ctx, c, bytes, n, &graph));
    for (int set = 0;; set++) {
        DIR *folder = opendir(nst_format(ctx->arena, "%s/test_data_set_%d", c->path, set));
        if (!folder) return NST_OK;
        closedir(folder);
        NST_TRY(run_data_set(ctx, c, graph, set));
    }
}

static Verdict judge(const char *path, const char *name)
{
    static const char *const words[] = {"passed", "not supported", "known", "FAILED"};
    NstCtx ctx;
    Case c = {.path = path};
    if (nst_ctx_init(&ctx) != NST_OK) exit(2);
    NstStatus status = nst_guard(&ctx, run_case, &c);
    if (status != NST_OK) {
        c.verdict = status == NST_E_UNSUPPORTED ? UNSUPPORTED : FAILED;
        snprintf(c.why, sizeof c.why, "%s: %s", nst_status_name(status), ctx.error);
    }
    if (c.verdict == FAILED && is_known(name)) c.verdict = KNOWN;
    if (verbose || c.verdict == FAILED) printf("%s\t%s\t%s\n", words[c.verdict], name, c.why);
    nst_ctx_dispose(&ctx);
    return c.verdict;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void run_folder(const char *path, long count[N_VERDICTS])
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    char **names = NULL;
    size_t n = 0, cap = 0;
    while (folder && (entry = readdir(folder))) {
        if (entry->d_name[0] == '.') continue;
        if (n == cap) names = realloc(names, (cap = 2 * cap + 64) * sizeof *names);
        if (!names) exit(2);
        size_t size = strlen(entry->d_name) + 1;
        names[n] = malloc(size);
        if (!names[n]) exit(2);
        memcpy(names[n++], entry->d_name, size);
    }
    if (folder) closedir(folder);
    if (n) qsort(names, n, sizeof *names, by_name);
    for (size_t k = 0; k < n; k++) {
        char file[4096], case_path[3000];
        snprintf(case_path, sizeof case_path, "%s/%s", path, names[k]);
        snprintf(file, sizeof file, "%s/model.onnx", case_path);
        FILE *model = fopen(file, "rb");
        if (model) {
            fclose(model);
            count[judge(case_path, names[k])]++;
        }
        free(names[k]);
    }
    free(names);
}

static char *read_known(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (!file || !text) exit(2);
    size_t n = fread(text, 1, (1 << 20) - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    long count[N_VERDICTS] = {0};
    char *known = NULL;
    long at_least = 1;
    int k = 1;
    for (; k < argc && argv[k][0] == '-'; k++) {
        if (strcmp(argv[k], "-v") == 0)
            verbose = true;
        else if (strcmp(argv[k], "--known") == 0 && k + 1 < argc)
            known_text = known = read_known(argv[++k]);
        else if (strcmp(argv[k], "--at-least") == 0 && k + 1 < argc)
            at_least = strtol(argv[++k], NULL, 10);
        else
            return 2;
    }
    if (k == argc) {
        fprintf(stderr, "usage: run_cases [-v] [--known FILE] [--at-least N] FOLDER...\n");
        return 2;
    }
    for (; k < argc; k++) run_folder(argv[k], count);
    printf("%ld passed, %ld failed, %ld not supported, %ld known\n", count[PASSED], count[FAILED], count[UNSUPPORTED],
           count[KNOWN]);
    free(known);
    if (count[PASSED] < at_least) printf("fewer than %ld passed\n", at_least);
    return count[FAILED] > 0 || count[PASSED] < at_least;
}
