/* nestor.c: the tool's command line. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "tools/compare.h"
#include "tools/progress.h"
#include "tools/tool.h"

enum {
    OPT_FIRST = 256,
    OPT_INPUT = OPT_FIRST,
    OPT_SHAPE,
    OPT_DIM,
    OPT_OVERRIDE,
    OPT_OUTPUT_DIR,
    OPT_INTERPRET,
    OPT_REPEAT,
    OPT_WARMUP,
    OPT_RTOL,
    OPT_STAGE,
    OPT_KERNEL,
    OPT_PASSES,
    OPT_REMOVE,
    OPT_THREADS,
    OPT_TARGET,
    OPT_STRICT,
    OPT_BOUNDS,
    OPT_PASSES_OFF,
    OPT_FAIL,
    OPT_CACHE,
    OPT_NO_CACHE,
    OPT_CACHE_LAYER,
    OPT_CACHE_LIMIT,
    OPT_JSON,
    OPT_TSV,
    OPT_PROGRESS,
    OPT_QUIET,
    OPT_VERBOSE,
    OPT_HELP,
    OPT_VERSION,
    OPT_END
};

/* What an option is called, its value (NULL: none), the commands that have it (between spaces; NULL: all) and what it says.  A further
 * row of an option is one more form of its value.  Options of the same commands stand together: the help has a part for each. */
static const struct {
    int option;
    const char *name, *value, *commands, *text;
} option_rows[] = {
    {OPT_INPUT, "input", "NAME=FILE.npy", " run bench ", "an input from a NumPy file"},
    {OPT_INPUT, "input", "NAME=FILE.pb", " run bench ", "an input from a tensor as ONNX stores it (test data)"},
    {OPT_INPUT, "input", "NAME=FILE.pgm", " run bench ", "an input from a grey image of 8 bits, as floats from 0 to 1"},
    {OPT_INPUT, "input", "NAME=random[:SEED]", " run bench ",
     "pseudo-random values (what inputs that are not given have, seed 0)"},
    {OPT_SHAPE, "shape", "NAME=2x3x224", " run bench dump-ir ", "the shape of an input; the plan is made for it"},
    {OPT_DIM, "dim", "NAME=SIZE", " run bench dump-ir ", "the value of an open size, for random inputs"},
    {OPT_OVERRIDE, "override", "NAME", " run bench dump-ir ", "an initializer that is an input too shall be one"},
    {OPT_OUTPUT_DIR, "output-dir", "DIR", " run ", "write each output as DIR/NAME.npy"},
    {OPT_INTERPRET, "interpret", NULL, " run bench test ", "use the reference interpreter"},
    {OPT_REPEAT, "repeat", "N", " bench ", "runs measured (100)"},
    {OPT_WARMUP, "warmup", "N", " bench ", "runs before (10)"},
    {OPT_RTOL, "rtol", "R", " test ", "how far floats may be from what is expected, relatively (0.001)"},
    {OPT_STAGE, "stage", "STAGE", " dump-ir ", "graph, nest, sched, llvm, asm or plan (graph)"},
    {OPT_KERNEL, "kernel", "NAME|NUMBER", " dump-ir ", "only this kernel"},
    {OPT_PASSES, "passes", "A,B", " opt ", "the passes to run; none prints the text as it was read"},
    {OPT_TSV, "tsv", NULL, " ops ", "columns between tabs"},
    {OPT_REMOVE, "remove", NULL, " cache ", "verify: remove damaged entries and left-over files"},
    {OPT_THREADS, "threads", "N", NULL, "of a run (all processors)"},
    {OPT_TARGET, "target", "NAME", NULL,
     "baseline, avx2, avx512, vnni, amx or host; opt and dump-ir also nominal-avx2 ...: the same texts on every "
     "machine"},
    {OPT_STRICT, "strict", NULL, NULL, "no approximate optimisations"},
    {OPT_BOUNDS, "bounds-checks", NULL, NULL, "compiled code checks every access"},
    {OPT_PASSES_OFF, "passes-off", "A,B", NULL, "leave passes out"},
    {OPT_FAIL, "fail-on-compile", NULL, NULL, "what is in no cache is an error"},
    {OPT_CACHE, "cache", "DIR", NULL, "the disk cache (else $NESTOR_CACHE, $XDG_CACHE_HOME/nestor, ~/.cache/nestor)"},
    {OPT_NO_CACHE, "no-cache", NULL, NULL, "no disk cache"},
    {OPT_CACHE_LAYER, "cache-layer", "DIR", NULL, "one more folder, only read, for what the disk cache lacks"},
    {OPT_CACHE_LIMIT, "cache-limit", "MB", NULL,
     "what the disk cache may hold (4096; 0 = no limit); the longest unused goes first"},
    {OPT_JSON, "json", NULL, NULL, "results as JSON"},
    {OPT_PROGRESS, "progress", NULL, NULL,
     "show from the beginning how far compiling is; else a terminal shows it after a second"},
    {OPT_QUIET, "quiet", NULL, NULL, "never show it"},
    {OPT_VERBOSE, "verbose", NULL, NULL, "the whole log on standard error, not its warnings alone"},
    {OPT_HELP, "help", NULL, NULL, "this text"},
    {OPT_VERSION, "version", NULL, NULL, "the version"},
};

enum { OPTION_ROWS = sizeof option_rows / sizeof *option_rows };

static const char help_commands[] =
    "usage: nestor COMMAND [FILE] [OPTION...]\n"
    "\n"
    "commands\n"
    "  run MODEL            run a model once (.onnx, or a graph in text form, .nsg)\n"
    "  bench MODEL          run it many times and show where the time goes\n"
    "  inspect MODEL        inputs, outputs, open sizes, operator sets, operators and whether they run\n"
    "  ops                  every operator version this build knows, and whether it runs\n"
    "  dump-ir MODEL        show a stage of compiling\n"
    "  test DIR...          run the cases of ONNX test data below folders and compare with what they expect\n"
    "  opt FILE             run passes over a graph (.nsg) or kernels (.nsl) in text form\n"
    "  cache stats|verify   look at the disk cache; verify reads and checks every entry\n";

static const char help_status[] = "\nexit status: 0 done; 1 a case of test failed, or cache verify found damage; 2 the "
                                  "command line is wrong; 10 + N the "
                                  "status N of the library (docs/TOOL.md)\n";

static bool same_commands(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static void print_help(void)
{
    fputs(help_commands, stdout);
    for (int k = 0; k < OPTION_ROWS; k++) {
        const char *commands = option_rows[k].commands, *value = option_rows[k].value;
        if (k == 0 || !same_commands(commands, option_rows[k - 1].commands))
            printf("\noptions of%.*s\n", commands ? (int)strlen(commands) - 1 : 13,
                   commands ? commands : " all commands");
        int n = printf("  --%s%s%s", option_rows[k].name, value ? " " : "", value ? value : "");
        printf("%*s%s\n", n < 31 ? 32 - n : 2, "", option_rows[k].text);
    }
    fputs(help_status, stdout);
}

/* The rows as getopt wants them. */
static void list_options(struct option list[OPTION_ROWS + 1])
{
    int n = 0;
    for (int k = 0; k < OPTION_ROWS; k++)
        if (k == 0 || option_rows[k].option != option_rows[k - 1].option)
            list[n++] = (struct option){option_rows[k].name, option_rows[k].value ? required_argument : no_argument,
                                        NULL, option_rows[k].option};
    list[n] = (struct option){NULL, 0, NULL, 0};
}

int tool_usage(const char *format, ...)
{
    va_list args;
    fputs("nestor: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return TOOL_USAGE;
}

int tool_fail(NstStatus status)
{
    tool_progress_clear();
    fprintf(stderr, "nestor: %s: %s\n", nst_status_name(status), nst_error_text());
    return TOOL_STATUS + (int)status;
}

void tool_json_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

static void log_line(void *arg, NstLogLevel level, const char *text)
{
    static const char *const names[] = {"error", "warning", "info", "trace"};
    (void)arg;
    fprintf(stderr, "nestor: %s: %s\n", names[level], text);
}

/* Without --verbose: what the caller would want to change. */
static void log_warning(void *arg, NstLogLevel level, const char *text)
{
    if (level <= NST_LOG_WARNING) log_line(arg, level, text);
}

/* Splits "name=value" in place; false without a "=". */
static bool add_named(ToolNamedList *list, char *text)
{
    char *sign = strchr(text, '=');
    if (!sign || sign == text || list->n == TOOL_MAX_NAMED) return false;
    *sign = '\0';
    list->at[list->n++] = (ToolNamed){text, sign + 1};
    return true;
}

/* "2x3x4", "" for a scalar; "?" leaves an axis open. */
static bool parse_shape(const ToolNamed *named, NstInputShape *shape)
{
    const char *at = named->value;
    *shape = (NstInputShape){.name = named->name};
    while (*at) {
        char *end = (char *)(uintptr_t)at + 1;
        errno = 0;
        long long size = *at == '?' ? -1 : strtoll(at, &end, 10);
        if (end == at || errno != 0 || size < -1 || (size < 0 && *at != '?')) return false;
        if (shape->rank == NST_TENSOR_MAX_RANK || (*end != 'x' && *end != '\0')) return false;
        shape->shape[shape->rank++] = size;
        at = *end ? end + 1 : end;
        if (*end == 'x' && !*at) return false;
    }
    return true;
}

static bool parse_number(const char *text, int64_t least, int64_t most, int64_t *value)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    *value = parsed;
    return end != text && *end == '\0' && errno == 0 && parsed >= least && parsed <= most;
}

static bool parse_fraction(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value >= 0 && *value <= 1;
}

static int take_named(ToolOptions *o, int option, char *value)
{
    ToolNamedList *list = option == OPT_INPUT ? &o->inputs : option == OPT_SHAPE ? &o->shapes : &o->dims;
    if (!add_named(list, value)) return tool_usage("'%s' is given, allowed is NAME=VALUE", value);
    const ToolNamed *named = &list->at[list->n - 1];
    int64_t size;
    if (option == OPT_DIM && !parse_number(named->value, 0, INT64_MAX, &size))
        return tool_usage("--dim '%s=%s', allowed are 0 and above", named->name, named->value);
    if (option != OPT_SHAPE) return 0;
    if (!parse_shape(named, &o->shape[list->n - 1]))
        return tool_usage("shape '%s' of '%s', allowed is like 2x3x224, ? for an open size", named->value, named->name);
    o->session.shapes = o->shape;
    o->session.n_shapes = list->n;
    return 0;
}

/* One option; 0 or an exit status. */
static int take_option(ToolOptions *o, int option, char *value)
{
    int64_t number = 0;
    switch (option) {
    case OPT_INPUT:
    case OPT_SHAPE:
    case OPT_DIM: return take_named(o, option, value);
    case OPT_OVERRIDE:
        if (o->session.n_overridable == TOOL_MAX_NAMED) return tool_usage("more than %d --override", TOOL_MAX_NAMED);
        o->overridable[o->session.n_overridable++] = value;
        o->session.overridable = o->overridable;
        return 0;
    case OPT_OUTPUT_DIR: o->output_dir = value; return 0;
    case OPT_INTERPRET: o->session.interpret = 1; return 0;
    case OPT_STAGE: o->stage = value; return 0;
    case OPT_KERNEL: o->kernel = value; return 0;
    case OPT_PASSES: o->passes = value; return 0;
    case OPT_REMOVE: o->remove = true; return 0;
    case OPT_TARGET: o->engine.target = value; return 0;
    case OPT_STRICT: o->session.strict = 1; return 0;
    case OPT_BOUNDS: o->session.bounds_checks = 1; return 0;
    case OPT_PASSES_OFF: o->session.passes_off = value; return 0;
    case OPT_FAIL: o->session.fail_on_compile = 1; return 0;
    case OPT_CACHE: o->engine.cache = value; return 0;
    case OPT_NO_CACHE: o->engine.cache = ""; return 0;
    case OPT_CACHE_LAYER:
        if (o->engine.n_cache_layers == TOOL_MAX_NAMED) return tool_usage("more than %d --cache-layer", TOOL_MAX_NAMED);
        o->layers[o->engine.n_cache_layers++] = value;
        o->engine.cache_layers = o->layers;
        return 0;
    case OPT_CACHE_LIMIT:
        if (!parse_number(value, 0, INT64_MAX >> 20, &number))
            return tool_usage("--cache-limit '%s', allowed are megabytes, 0 for no limit", value);
        o->engine.cache_disk = number ? (uint64_t)number << 20 : UINT64_MAX;
        return 0;
    case OPT_JSON: o->json = true; return 0;
    case OPT_TSV: o->tsv = true; return 0;
    case OPT_PROGRESS: o->progress = true; return 0;
    case OPT_QUIET: o->quiet = true; return 0;
    case OPT_VERBOSE: o->engine.log = log_line; return 0;
    case OPT_RTOL:
        if (!parse_fraction(value, &o->rtol)) return tool_usage("--rtol '%s', allowed are 0 to 1", value);
        return 0;
    case OPT_REPEAT:
        if (!parse_number(value, 1, 1000000000, &o->repeat))
            return tool_usage("--repeat '%s', allowed are 1 and above", value);
        return 0;
    case OPT_WARMUP:
        if (!parse_number(value, 0, 1000000000, &o->warmup))
            return tool_usage("--warmup '%s', allowed are 0 and above", value);
        return 0;
    case OPT_THREADS:
        if (!parse_number(value, 1, 1024, &number)) return tool_usage("--threads '%s', allowed are 1 to 1024", value);
        o->engine.threads = (int32_t)number;
        return 0;
    default: return TOOL_USAGE; /* getopt has said why */
    }
}

/* 0, or an exit status where an option was given that another command has. */
static int check_options(const bool *given, const char *command)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", command);
    for (int k = 0; k < OPTION_ROWS; k++)
        if (given[option_rows[k].option - OPT_FIRST] && option_rows[k].commands &&
            !strstr(option_rows[k].commands, word))
            return tool_usage("'%s' has no option --%s, which belongs to%s(nestor --help)", command,
                              option_rows[k].name, option_rows[k].commands);
    return 0;
}

int main(int n_words, char **words)
{
    static const struct {
        const char *name;
        ToolCommand command;
        int fewest, most; /* words after the name; most -1: any number */
    } commands[] = {{"run", tool_run, 1, 1},      {"bench", tool_bench, 1, 1}, {"inspect", tool_inspect, 1, 1},
                    {"dump-ir", tool_dump, 1, 1}, {"opt", tool_opt, 1, 1},     {"cache", tool_cache, 1, 1},
                    {"test", tool_test, 1, -1},   {"ops", tool_ops, 0, 0}};
    static ToolOptions options = {.repeat = 100, .warmup = 10, .rtol = COMPARE_RTOL};
    bool given[OPT_END - OPT_FIRST] = {false};
    struct option long_options[OPTION_ROWS + 1];
    list_options(long_options);
    opterr = 0;
    for (int option; (option = getopt_long(n_words, words, "h", long_options, NULL)) != -1;) {
        if (option == OPT_HELP || option == 'h') {
            print_help();
            return 0;
        }
        if (option == OPT_VERSION) {
            printf("nestor %s\n", nst_version());
            return 0;
        }
        if (option == '?')
            return tool_usage("option '%s' is unknown, or lacks its value; 'nestor --help' lists them",
                              words[optind - 1]);
        int status = take_option(&options, option, optarg);
        if (status != 0) return status;
        given[option - OPT_FIRST] = true;
    }
    if (optind >= n_words) return tool_usage("no command is given; 'nestor --help' lists them");
    const char *name = words[optind++];
    if (strcmp(name, "help") == 0) {
        print_help();
        return 0;
    }
    tool_progress_ask(&options, &options.engine);
    options.files = words + optind;
    options.n_files = (uint32_t)(n_words - optind);
    options.file = options.word = optind < n_words ? words[optind] : NULL;
    for (size_t k = 0; k < sizeof commands / sizeof *commands; k++) {
        if (strcmp(commands[k].name, name) != 0) continue;
        int n = (int)options.n_files, most = commands[k].most, misplaced = check_options(given, name);
        if (misplaced) return misplaced;
        if (n < commands[k].fewest) return tool_usage("'%s' needs one more word; see 'nestor --help'", name);
        if (most >= 0 && n > most) return tool_usage("'%s' is one word too many", options.files[most]);
        /* Cases are judged by what they give: what is odd about their models is no news. */
        if (!options.engine.log && commands[k].command != tool_test) options.engine.log = log_warning;
        int status = commands[k].command(&options);
        if (fflush(stdout) != 0 && status == 0) return tool_usage("cannot write the output");
        return status;
    }
    return tool_usage("there is no command '%s'; 'nestor --help' lists them", name);
}
