/* test.c: nestor test: folders of ONNX test data through the engine.
 *
 * A folder with model.onnx is a case; test_data_set_N/input_K.pb and output_K.pb beside it are its inputs and outputs, by
 * position; a sequence or optional is declared by the elements the data have.  All cases run in this process on one engine, each data set by a session of its own. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "nestor/inspect.h"
#include "tools/compare.h"
#include "tools/file.h"
#include "tools/progress.h"
#include "tools/tool.h"

#define MAX_DEPTH   32   /* folders in folders */
#define MAX_VALUES  256  /* inputs of a data set */
#define VALUE_BYTES 4096 /* inputs up to this size may decide about a graph's structure: they are offered as values */
#define PATH_BYTES  4096
#define NAME_BYTES  256 /* of an input, with the number of an element */

typedef enum Verdict { PASSED, FAILED, SKIPPED, N_VERDICTS } Verdict;

typedef struct Case {
    char *path;
    const char *name; /* last part of path */
    Verdict verdict;
    char why[COMPARE_TEXT + 640];
    uint64_t hash; /* of all outputs */
} Case;

typedef struct Cases {
    Case *at;
    size_t n, room;
} Cases;

/* --- finding --------------------------------------------------------------------------------------------------- */

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *copy_text(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = malloc(n);
    if (copy) memcpy(copy, text, n);
    return copy;
}

static bool is_file(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    struct stat facts;
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

static int add_case(Cases *cases, const char *path)
{
    if (cases->n == cases->room) {
        cases->room = 2 * cases->room + 64;
        Case *grown = realloc(cases->at, cases->room * sizeof *grown);
        if (!grown) return tool_usage("no memory for the list of cases");
        cases->at = grown;
    }
    Case *c = &cases->at[cases->n];
    *c = (Case){.path = copy_text(path)};
    if (!c->path) return tool_usage("no memory for the list of cases");
    const char *slash = strrchr(c->path, '/');
    c->name = slash && slash[1] ? slash + 1 : c->path;
    c->hash = COMPARE_HASH_START;
    cases->n++;
    return 0;
}

/* Names in a folder, sorted; NULL-terminated [malloc each]. */
static char **list_folder(const char *path)
{
    DIR *folder = opendir(path);
    char **names = NULL;
    size_t n = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        char **grown = realloc(names, (n + 2) * sizeof *names);
        if (!grown) break;
        names = grown;
        names[n] = copy_text(entry->d_name);
        if (names[n]) n++;
        names[n] = NULL;
    }
    if (folder) closedir(folder);
    if (n) qsort(names, n, sizeof *names, compare_text);
    return names;
}

/* Every case below a folder, itself included, in the order of names. */
static int find_cases(Cases *cases, const char *path, int depth)
{
    if (is_file(path, "model.onnx")) return add_case(cases, path);
    if (depth == MAX_DEPTH) return tool_usage("'%s' is more than %d folders deep", path, MAX_DEPTH);
    char **names = list_folder(path);
    int status = 0;
    for (size_t k = 0; names && names[k]; k++) {
        char inner[PATH_BYTES];
        struct stat facts;
        int n = snprintf(inner, sizeof inner, "%s/%s", path, names[k]);
        bool fits = n > 0 && (size_t)n < sizeof inner;
        if (status == 0 && fits && stat(inner, &facts) == 0 && S_ISDIR(facts.st_mode))
            status = find_cases(cases, inner, depth + 1);
        free(names[k]);
    }
    free(names);
    return status;
}

/* --- running --------------------------------------------------------------------------------------------------- */

typedef struct DataSet {
    NstEngine *engine;
    Case *c;
    char folder[PATH_BYTES];
    const NstModelInfo *info;
    NstNamedTensor in[MAX_VALUES], out[MAX_VALUES]; /* inputs by name */
    NstInputShape element[MAX_VALUES];              /* declared: of inputs that are sequences or optionals */
    char name[MAX_VALUES][NAME_BYTES];
    NstTensor read[MAX_VALUES]; /* of a file */
    uint32_t n_in, n_out, n_elements, n_names;
    NstSession *session;
} DataSet;

static void set_verdict(Case *c, Verdict verdict, const char *what, const char *why)
{
    if (c->verdict == FAILED) return; /* the first counts */
    c->verdict = verdict;
    snprintf(c->why, sizeof c->why, "%s%s%s", what, *what ? ": " : "", why);
}

/* What the library could not do; true if it is no failure. */
static bool take_status(Case *c, NstStatus status, const char *what)
{
    if (status == NST_OK) return true;
    char why[COMPARE_TEXT + 512];
    snprintf(why, sizeof why, "%s: %s", status == NST_E_UNSUPPORTED ? "not supported" : nst_status_name(status),
             nst_error_text());
    set_verdict(c, status == NST_E_UNSUPPORTED ? SKIPPED : FAILED, what, why);
    return false;
}

static bool has_elements(const NstModelPort *port)
{
    return strncmp(port->type, "seq(", 4) == 0 || strncmp(port->type, "optional(", 9) == 0;
}

/* Fails the case for lack of a file of its data. */
static void set_missing(DataSet *set, const char *what, const char *kind, uint32_t k)
{
    char why[64];
    snprintf(why, sizeof why, "the data have no %s_%u.pb", kind, k);
    set_verdict(set->c, FAILED, what, why);
}

/* The tensors of a .pb file: 0; 1 if there is no such file; 2 after a failure. */
static int read_values(DataSet *set, const char *kind, uint32_t k, const char *type, NstTensor *tensors, uint32_t room,
                       uint32_t *n)
{
    char path[PATH_BYTES + 48], what[32], error[FILE_ERROR];
    size_t size;
    *n = 0;
    snprintf(what, sizeof what, "%s_%u", kind, k);
    snprintf(path, sizeof path, "%s/%s_%u.pb", set->folder, kind, k);
    if (access(path, F_OK) != 0) return 1;
    void *bytes = file_read(path, &size, error);
    bool good = bytes;
    if (bytes)
        good = take_status(set->c, nst_values_read_onnx(set->engine, what, type, bytes, size, tensors, room, n), "");
    else
        set_verdict(set->c, FAILED, what, error);
    free(bytes);
    return good ? 0 : 2;
}

/* "s[3]"; element -1: "s[]". */
static const char *element_name(DataSet *set, const char *name, int element)
{
    char number[16] = "", *text = set->name[set->n_names++];
    if (element >= 0) snprintf(number, sizeof number, "%d", element);
    snprintf(text, NAME_BYTES, "%.200s[%s]", name, number);
    return text;
}

/* Names and declares the n elements of an input that were read. */
static void declare_elements(DataSet *set, const char *name, uint32_t n)
{
    if (n == 0) set->element[set->n_elements++].name = element_name(set, name, -1);
    for (uint32_t j = 0; j < n; j++) {
        NstNamedTensor *own = &set->in[set->n_in + j];
        NstInputShape *shape = &set->element[set->n_elements++];
        own->name = shape->name = element_name(set, name, (int)j);
        shape->rank = own->tensor.rank;
        memcpy(shape->shape, own->tensor.shape, sizeof shape->shape);
    }
}

static bool read_inputs(DataSet *set)
{
    for (uint32_t k = 0; k < set->info->n_inputs; k++) {
        const NstModelPort *port = &set->info->inputs[k];
        uint32_t n, room = MAX_VALUES / 2 - set->n_in;
        if (set->n_in + 1 >= MAX_VALUES / 2 || set->n_elements + 1 >= MAX_VALUES / 2) {
            set_verdict(set->c, FAILED, "", "more inputs than this tool takes");
            return false;
        }
        int result = read_values(set, "input", k, port->type, set->read, room, &n);
        if (result == 1) set_missing(set, port->name, "input", k);
        if (result != 0) return false;
        for (uint32_t j = 0; j < n; j++) set->in[set->n_in + j] = (NstNamedTensor){port->name, set->read[j]};
        if (has_elements(port)) declare_elements(set, port->name, n);
        set->n_in += n;
    }
    return true;
}

/* Small inputs are offered as values: the session uses those that decide about the structure of the model. */
static NstStatus open_session(DataSet *set, NstModel *model, const ToolOptions *options)
{
    NstSessionOptions session = options->session;
    NstNamedTensor values[MAX_VALUES];
    session.values = values;
    for (uint32_t k = 0; k < set->n_in; k++)
        if (set->in[k].tensor.bytes <= VALUE_BYTES) values[session.n_values++] = set->in[k];
    if (set->n_elements) {
        session.shapes = set->element;
        session.n_shapes = set->n_elements;
    }
    NstStatus status = nst_session_new(model, &session, &set->session);
    tool_progress_clear();
    return status;
}

/* Outputs of the session that belong to output `port`, from `at` on: its own, or one for each element. */
static uint32_t outputs_of(const DataSet *set, const NstModelPort *port, uint32_t at)
{
    uint32_t n = 0;
    NstPort own;
    size_t length = strlen(port->name);
    if (!has_elements(port)) return at < set->n_out;
    while (at + n < set->n_out && nst_session_output(set->session, at + n, &own) == NST_OK) {
        char number[16];
        snprintf(number, sizeof number, "[%u]", n);
        if (strncmp(own.name, port->name, length) != 0 || strcmp(own.name + length, number) != 0) break;
        n++;
    }
    return n;
}

static void compare_outputs(DataSet *set, double rtol)
{
    uint32_t at = 0;
    for (uint32_t k = 0; k < set->n_out; k++) set->c->hash = compare_hash(set->c->hash, &set->out[k].tensor);
    for (uint32_t k = 0; k < set->info->n_outputs; k++) {
        const NstModelPort *port = &set->info->outputs[k];
        uint32_t given = outputs_of(set, port, at), n;
        char what[32], why[COMPARE_TEXT];
        int read = read_values(set, "output", k, port->type, set->read, MAX_VALUES, &n);
        snprintf(what, sizeof what, "output %u", k);
        if (read == 1) set_missing(set, what, "output", k);
        if (read == 0 && n != given) {
            snprintf(why, sizeof why, "%u elements, expected %u", given, n);
            set_verdict(set->c, FAILED, what, why);
        }
        for (uint32_t j = 0; read == 0 && j < n && j < given; j++)
            if (!compare_tensors(&set->out[at + j].tensor, &set->read[j], rtol, why))
                set_verdict(set->c, FAILED, what, why);
        for (uint32_t j = 0; j < n; j++) nst_tensor_release(&set->read[j]);
        at += given;
    }
}

/* The tolerance that a case states: "rtol" in a data.json beside its model, as official cases have it. */
static double rtol_of(const Case *c, double otherwise)
{
    char path[PATH_BYTES + 16], text[512];
    snprintf(path, sizeof path, "%s/data.json", c->path);
    FILE *file = fopen(path, "rb");
    if (!file) return otherwise;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *word = strstr(text, "\"rtol\"");
    const char *value = word ? strchr(word, ':') : NULL;
    double rtol = value ? strtod(value + 1, NULL) : 0;
    return rtol > otherwise && rtol < 1 ? rtol : otherwise;
}

static void run_data_set(DataSet *set, NstModel *model, const ToolOptions *options)
{
    Case *c = set->c;
    if (!take_status(c, nst_model_info(model, &set->info), "")) return;
    bool read = read_inputs(set);
    NstStatus opened = read ? open_session(set, model, options) : NST_OK;
    if (!take_status(c, opened, "") || !read) return;
    uint32_t n_in = nst_session_input_count(set->session);
    set->n_out = nst_session_output_count(set->session);
    if (n_in != set->n_in) {
        char why[96];
        snprintf(why, sizeof why, "the model has %u inputs, the data %u", n_in, set->n_in);
        set_verdict(c, FAILED, "", why);
    } else if (set->n_out > MAX_VALUES) {
        set_verdict(c, FAILED, "", "more outputs than this tool takes");
    } else if (take_status(c, nst_session_run(set->session, set->in, n_in, set->out, set->n_out, NULL), "")) {
        compare_outputs(set, rtol_of(c, options->rtol));
    }
}

static void end_data_set(DataSet *set)
{
    nst_session_free(set->session);
    nst_model_info_free(set->info);
    for (uint32_t k = 0; k < MAX_VALUES; k++) {
        nst_tensor_release(&set->in[k].tensor);
        nst_tensor_release(&set->out[k].tensor);
    }
}

static int run_case(NstEngine *engine, Case *c, const ToolOptions *options)
{
    char path[PATH_BYTES + 16];
    NstModel *model = NULL;
    DataSet *set = malloc(sizeof *set);
    if (!set) return tool_usage("no memory for a data set");
    snprintf(path, sizeof path, "%s/model.onnx", c->path);
    c->verdict = PASSED;
    int n = 0;
    if (take_status(c, nst_model_open_file(engine, path, &model), "")) {
        for (struct stat facts; c->verdict == PASSED; n++) {
            *set = (DataSet){.engine = engine, .c = c};
            int bytes = snprintf(set->folder, sizeof set->folder, "%s/test_data_set_%d", c->path, n);
            if (bytes < 0 || (size_t)bytes >= sizeof set->folder || stat(set->folder, &facts) != 0) break;
            run_data_set(set, model, options);
            end_data_set(set);
        }
        if (n == 0) set_verdict(c, SKIPPED, "", "there is no test_data_set_0");
    }
    nst_model_free(model);
    free(set);
    return 0;
}

/* --- report ---------------------------------------------------------------------------------------------------- */

static const char *const verdict_words[N_VERDICTS] = {"passed", "failed", "skipped"};

static void show_case(const ToolOptions *options, const Case *c, bool first)
{
    if (!options->json) {
        if (c->verdict != PASSED) printf("%s %s: %s\n", verdict_words[c->verdict], c->name, c->why);
        return;
    }
    printf("%s\n  {\"name\": ", first ? "" : ",");
    tool_json_text(stdout, c->name);
    printf(", \"path\": ");
    tool_json_text(stdout, c->path);
    printf(", \"verdict\": \"%s\", \"why\": ", verdict_words[c->verdict]);
    tool_json_text(stdout, c->why);
    printf(", \"hash\": \"%016llx\"}", (unsigned long long)c->hash);
}

static int run_cases(const ToolOptions *options, NstEngine *engine, Cases *cases)
{
    size_t count[N_VERDICTS] = {0};
    if (options->json) printf("{\"cases\": [");
    for (size_t k = 0; k < cases->n; k++) {
        int status = run_case(engine, &cases->at[k], options);
        if (status != 0) return status;
        count[cases->at[k].verdict]++;
        show_case(options, &cases->at[k], k == 0);
    }
    if (options->json)
        printf("\n], \"passed\": %zu, \"failed\": %zu, \"skipped\": %zu}\n", count[PASSED], count[FAILED],
               count[SKIPPED]);
    else
        printf("%zu passed, %zu failed, %zu skipped\n", count[PASSED], count[FAILED], count[SKIPPED]);
    return count[FAILED] != 0 ? TOOL_FAILED : 0;
}

int tool_test(ToolOptions *options)
{
    Cases cases = {NULL, 0, 0};
    NstEngine *engine = NULL;
    int status = 0;
    for (uint32_t k = 0; k < options->n_files && status == 0; k++) {
        size_t before = cases.n;
        struct stat facts;
        if (stat(options->files[k], &facts) != 0 || !S_ISDIR(facts.st_mode)) {
            status = tool_usage("'%s' is no folder", options->files[k]);
            break;
        }
        status = find_cases(&cases, options->files[k], 0);
        if (status == 0 && cases.n == before) status = tool_usage("no model.onnx below '%s'", options->files[k]);
    }
    if (status == 0) {
        NstStatus made = nst_engine_new(&options->engine, &engine);
        status = made == NST_OK ? run_cases(options, engine, &cases) : tool_fail(made);
    }
    nst_engine_free(engine);
    for (size_t k = 0; k < cases.n; k++) free(cases.at[k].path);
    free(cases.at);
    return status;
}
