/* run_cases.c: official ONNX test cases through the reference interpreter.
 *
 *     run_cases [-v] [--open] [--known FILE] [--at-least N] [--proofs FILE] FOLDER...
 *
 * Each folder below FOLDER that has a model.onnx is a case: inputs test_data_set_N/input_K.pb, outputs output_K.pb.
 * A case passes if every output is within rtol 1e-3, atol 1e-7 (integers and bools: equal), or is not supported if the
 * import says NST_E_UNSUPPORTED.  Anything else is a failure, unless FILE lists the case: name, tab, why.  Between them may
 * stand "rtol R" and a tab: then the case must pass, within that.
 * Prints a line for each failure, with -v for each case, and counts.  --proofs: writes what cases that passed prove (proof.h).  Exit status: 0 no failures and at least N passed, 1
 * otherwise, 2 usage. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "frontend/import.h"
#include "frontend/weights.h"
#include "frontend/wire.h"
#include "runtime/host_eval.h"
#include "tests/onnx/proof.h"

#define MAX_FILE   ((size_t)256 << 20)
#define MAX_VALUES 256 /* of a case */

typedef enum Verdict { PASSED, UNSUPPORTED, KNOWN, FAILED, N_VERDICTS } Verdict;

typedef struct Case {
    const char *path;
    Verdict verdict;
    char why[NST_ERROR_TEXT + 64];
} Case;

static bool verbose, open_sizes;
static NstStrings *strings; /* of the case */
static const char *known_text = "";
static double rtol; /* of the case */
static Proof proof; /* of the case */
static FILE *proofs;

/* --- files ----------------------------------------------------------------------------------------------------- */

/* What a .pb file holds: a tensor, or the elements of a sequence or optional. */
typedef struct FileValue {
    const char *name;
    bool is_parts;
    int n;
    NstTensorValue at[MAX_VALUES];
} FileValue;

/* Reads a file as the type of a graph's input or output says.  *found: whether there is such a file. */
static NstStatus read_value(NstCtx *ctx, const char *path, const Onnx__ValueInfoProto *info, FileValue *value,
                            bool *found)
{
    char *bytes;
    size_t size;
    uint32_t n;
    bool optional = info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
    bool sequence = info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    *value = (FileValue){.name = info->name, .is_parts = optional || sequence};
    *found = nst_os_read_file(ctx, ctx->arena, path, MAX_FILE, &bytes, &size) == NST_OK;
    if (!*found) return nst_ctx_clear(ctx), NST_OK;
    NST_TRY(nst_import_values(ctx, ctx->arena, strings, path,
                              optional   ? "optional("
                              : sequence ? "seq("
                                         : "",
                              bytes, size, value->at, MAX_VALUES, &n));
    value->n = (int)n;
    return NST_OK;
}

/* --- comparison ------------------------------------------------------------------------------------------------ */

static double number_at(const NstTensorValue *t, int64_t k)
{
    if (nst_dtype_info(t->dtype)->klass == NST_CLASS_COMPLEX) return NAN; /* for messages alone */
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
    return fabs(x - y) <= 1e-7 + rtol * fabs(y);
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

/* What the list of known cases says after a name; NULL: nothing. */
static const char *find_known(const char *name)
{
    size_t n = strlen(name);
    for (const char *p = known_text; (p = strstr(p, name)); p += n)
        if ((p == known_text || p[-1] == '\n') && p[n] == '\t') return p + n + 1;
    return NULL;
}

/* The values of a data set for the model's inputs (outputs). */
static NstStatus read_values(NstCtx *ctx, const Case *c, int set, const Onnx__GraphProto *g, bool inputs,
                             FileValue *value, int *n)
{
    size_t count = inputs ? g->n_input : g->n_output;
    int file = 0;
    NST_CHECK(ctx, count <= MAX_VALUES, NST_E_UNSUPPORTED, "many values");
    *n = 0;
    for (size_t k = 0; k < count; k++) {
        const Onnx__ValueInfoProto *info = inputs ? g->input[k] : g->output[k];
        bool found, constant = false;
        for (size_t j = 0; inputs && j < g->n_initializer; j++)
            constant = constant || strcmp(g->initializer[j]->name, info->name) == 0;
        if (constant) continue;
        const char *path =
            nst_format(ctx->arena, "%s/test_data_set_%d/%s_%d.pb", c->path, set, inputs ? "input" : "output", file++);
        NST_TRY(read_value(ctx, path, info, &value[*n], &found));
        NST_CHECK(ctx, found, NST_E_INVALID, "no file %s", path);
        ++*n;
    }
    return NST_OK;
}

/* Imports; where the value of an input decides about the graph's structure, with that value. */
static NstStatus import_case(NstCtx *ctx, const Case *c, const char *bytes, size_t n, const FileValue *in, int n_in,
                             NstGraph **graph)
{
    NstFixedInput fixed[MAX_VALUES];
    NstDeclaredInput declared[4 * MAX_VALUES];
    const char *needs;
    NstImportOptions options = {.folder = c->path,
                                .fixed = fixed,
                                .needs = &needs,
                                .input = declared,
                                .strings = strings,
                                .open_sizes = open_sizes,
                                .imported = proof_add,
                                .imported_arg = &proof};
    for (int k = 0; k < n_in; k++) {
        if (!in[k].is_parts) continue;
        NST_CHECK(ctx, options.n_inputs + (uint32_t)in[k].n < 4 * MAX_VALUES, NST_E_UNSUPPORTED, "many values");
        for (int j = 0; j < in[k].n || (j == 0 && in[k].n == 0); j++) {
            const char *number = in[k].n ? nst_format(ctx->arena, "%d", j) : "";
            const char *own = nst_format(ctx->arena, "%s[%s]", in[k].name, number);
            declared[options.n_inputs++] = (NstDeclaredInput){own, in[k].at[j].rank, in[k].at[j].shape};
        }
    }
    for (;;) {
        NstStatus status = nst_import_onnx(ctx, ctx->arena, bytes, n, &options, graph);
        if (status != NST_E_UNSUPPORTED || !needs || options.n_fixed == MAX_VALUES) return status;
        for (uint32_t k = 0; k < options.n_fixed; k++)
            if (strcmp(fixed[k].name, needs) == 0) return status;
        int at = 0;
        while (at < n_in && (in[at].is_parts || strcmp(in[at].name, needs) != 0)) at++;
        if (at == n_in) return status;
        nst_ctx_clear(ctx);
        fixed[options.n_fixed++] = (NstFixedInput){needs, in[at].at[0]};
    }
}

/* The results that belong to an output: its own, or one for each element. */
static uint32_t results_of(NstCtx *ctx, const NstGraph *graph, const FileValue *wanted, uint32_t from)
{
    uint32_t n = 0, all = nst_graph_region(graph, NST_GRAPH_REGION)->results.n;
    for (; from + n < all && wanted->is_parts; n++) {
        const char *name = graph->result_names.at[from + n];
        if (strcmp(name, nst_format(ctx->arena, "%s[%u]", wanted->name, n)) != 0) break;
    }
    return wanted->is_parts ? n : 1;
}

static NstStatus run_data_set(NstCtx *ctx, Case *c, const char *bytes, size_t n, const Onnx__GraphProto *g, int set)
{
    FileValue *in = NST_NEW_ARRAY(ctx->arena, FileValue, MAX_VALUES),
              *wanted = NST_NEW_ARRAY(ctx->arena, FileValue, MAX_VALUES);
    NstTensorValue value[4 * MAX_VALUES], out[4 * MAX_VALUES];
    int n_in, n_wanted;
    uint32_t n_values = 0, at = 0;
    NstGraph *graph;
    NST_TRY(read_values(ctx, c, set, g, true, in, &n_in));
    NST_TRY(import_case(ctx, c, bytes, n, in, n_in, &graph));
    for (int k = 0; k < n_in; k++)
        for (int j = 0; j < in[k].n && n_values < 4 * MAX_VALUES; j++) value[n_values++] = in[k].at[j];
    const NstRegion *region = nst_graph_region(graph, NST_GRAPH_REGION);
    NST_CHECK(ctx, region->results.n <= 4 * MAX_VALUES && n_values < 4 * MAX_VALUES, NST_E_UNSUPPORTED, "many values");
    NstHostGraph owner = {graph, NULL};
    NstHostCall host = nst_host_for_graph(&owner);
    NST_TRY(nst_graph_interpret(ctx, ctx->arena, graph, value, n_values, true, &host, out));
    NST_TRY(read_values(ctx, c, set, g, false, wanted, &n_wanted));
    for (int k = 0; k < n_wanted; k++) {
        uint32_t count = results_of(ctx, graph, &wanted[k], at);
        int elements = wanted[k].n;
        if (count != (uint32_t)elements) {
            snprintf(c->why, NST_ERROR_TEXT, "output %d: %u elements, expected %d", k, count, elements);
            c->verdict = FAILED;
        }
        for (uint32_t j = 0; j < count && j < (uint32_t)elements; j++)
            if (!equal_values(&out[at + j], &wanted[k].at[j], k, c->why)) c->verdict = FAILED;
        at += count;
    }
    return NST_OK;
}

static NstStatus run_case(NstCtx *ctx, void *arg)
{
    Case *c = arg;
    char *bytes;
    size_t n;
    NstOnnxModel *model;
    strings = nst_strings_new(ctx->arena);
    proof_begin(&proof, ctx->arena);
    NST_TRY(nst_os_read_file(ctx, ctx->arena, nst_format(ctx->arena, "%s/model.onnx", c->path), MAX_FILE, &bytes, &n));
    NST_TRY(nst_onnx_read(ctx, ctx->arena, ctx->arena, bytes, n, NULL, &model));
    for (int set = 0;; set++) {
        DIR *folder = opendir(nst_format(ctx->arena, "%s/test_data_set_%d", c->path, set));
        if (!folder) return NST_OK;
        closedir(folder);
        NST_TRY(run_data_set(ctx, c, bytes, n, model->proto->graph, set));
    }
}

/* "rtol" in a data.json beside the model, as official cases have it, or what their runner takes. */
static double rtol_of(const char *path)
{
    char name[4096], text[512] = "";
    snprintf(name, sizeof name, "%s/data.json", path);
    FILE *file = fopen(name, "rb");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    const char *word = strstr(text, "\"rtol\":");
    return word ? strtod(word + 7, NULL) : 1e-3;
}

static Verdict judge(const char *path, const char *name)
{
    static const char *const words[] = {"passed", "not supported", "known", "FAILED"};
    NstCtx ctx;
    Case c = {.path = path};
    const char *known = find_known(name);
    bool near = known && strncmp(known, "rtol ", 5) == 0;
    rtol = near ? strtod(known + 5, NULL) : rtol_of(path);
    if (nst_ctx_init(&ctx) != NST_OK) exit(2);
    NstStatus status = nst_guard(&ctx, run_case, &c);
    if (status != NST_OK) {
        c.verdict = status == NST_E_UNSUPPORTED ? UNSUPPORTED : FAILED;
        snprintf(c.why, sizeof c.why, "%s: %s", nst_status_name(status), ctx.error);
    }
    if (c.verdict == FAILED && known && !near) c.verdict = KNOWN;
    if (verbose || c.verdict == FAILED) printf("%s\t%s\t%s\n", words[c.verdict], name, c.why);
    if (c.verdict == PASSED) proof_print(&proof, proofs, name);
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
        else if (strcmp(argv[k], "--open") == 0)
            open_sizes = true;
        else if (strcmp(argv[k], "--known") == 0 && k + 1 < argc)
            known_text = known = read_known(argv[++k]);
        else if (strcmp(argv[k], "--at-least") == 0 && k + 1 < argc)
            at_least = strtol(argv[++k], NULL, 10);
        else if (strcmp(argv[k], "--proofs") == 0 && k + 1 < argc)
            proofs = fopen(argv[++k], "w");
        else
            return 2;
    }
    if (k == argc) {
        fprintf(stderr, "usage: run_cases [-v] [--open] [--known FILE] [--at-least N] [--proofs FILE] FOLDER...\n");
        return 2;
    }
    for (; k < argc; k++) run_folder(argv[k], count);
    printf("%ld passed, %ld failed, %ld not supported, %ld known\n", count[PASSED], count[FAILED], count[UNSUPPORTED],
           count[KNOWN]);
    free(known);
    if (proofs && fclose(proofs) != 0) return 2;
    if (count[PASSED] < at_least) printf("fewer than %ld passed\n", at_least);
    return count[FAILED] > 0 || count[PASSED] < at_least;
}
