/* nestor.c: the tool's command line. */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "tools/compare.h"
#include "tools/progress.h"
#include "tools/tool.h"

static const char help[] =
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
    "  cache stats|verify   look at the disk cache; verify reads and checks every entry\n"
    "\n"
    "run, bench\n"
    "  --input NAME=FILE.npy         an input from a NumPy file\n"
    "  --input NAME=FILE.pb          an input from a tensor as ONNX stores it (test data)\n"
    "  --input NAME=FILE.pgm         an input from a grey image of 8 bits, as floats from 0 to 1\n"
    "  --input NAME=random[:SEED]    pseudo-random values (what inputs that are not given have, seed 0)\n"
    "  --shape NAME=2x3x224          the shape of an input; the plan is made for it\n"
    "  --dim NAME=SIZE               the value of an open size, for random inputs\n"
    "  --override NAME               an initializer that is an input too shall be one\n"
    "  --output-dir DIR              write each output as DIR/NAME.npy\n"
    "  --interpret                   use the reference interpreter (test too)\n"
    "  --repeat N, --warmup N        bench: runs measured (100), runs before (10)\n"
    "test\n"
    "  --rtol R                      how far floats may be from what is expected, relatively (0.001)\n"
    "dump-ir\n"
    "  --stage graph|nest|sched|llvm|asm|plan   (graph)\n"
    "  --kernel NAME|NUMBER          only this kernel\n"
    "opt\n"
    "  --passes A,B                  the passes to run; none prints the text as it was read\n"
    "ops\n"
    "  --tsv                         columns between tabs\n"
    "cache\n"
    "  --remove                      verify: remove damaged entries and left-over files\n"
    "all\n"
    "  --threads N                   of a run (all processors)\n"
    "  --target baseline|avx2|avx512|vnni|amx|host, opt and dump-ir also nominal-avx2 ...: the same texts on every "
    "machine\n"
    "  --strict                      no approximate optimisations\n"
    "  --bounds-checks               compiled code checks every access\n"
    "  --passes-off A,B              leave passes out\n"
    "  --fail-on-compile             what is in no cache is an error\n"
    "  --cache DIR, --no-cache       the disk cache (else $NESTOR_CACHE, $XDG_CACHE_HOME/nestor, ~/.cache/nestor)\n"
    "  --cache-layer DIR             one more folder, only read, for what the disk cache lacks\n"
    "  --cache-limit MB              what the disk cache may hold (4096; 0 = no limit); the longest unused goes first\n"
    "  --json                        results as JSON\n"
    "  --progress                    show from the beginning how far compiling is; else a terminal shows it after a "
    "second\n"
    "  --quiet                       never show it\n"
    "  --verbose                     the whole log on standard error, not its warnings alone\n"
    "  --help, --version\n"
    "\n"
    "exit status: 0 done; 1 a case of test failed, or cache verify found damage; 2 the command line is wrong; 10 + N "
    "the "
    "status N of the library (docs/TOOL.md)\n";

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

static const struct option long_options[] = {{"input", required_argument, NULL, OPT_INPUT},
                                             {"shape", required_argument, NULL, OPT_SHAPE},
                                             {"override", required_argument, NULL, OPT_OVERRIDE},
                                             {"dim", required_argument, NULL, OPT_DIM},
                                             {"output-dir", required_argument, NULL, OPT_OUTPUT_DIR},
                                             {"interpret", no_argument, NULL, OPT_INTERPRET},
                                             {"repeat", required_argument, NULL, OPT_REPEAT},
                                             {"warmup", required_argument, NULL, OPT_WARMUP},
                                             {"rtol", required_argument, NULL, OPT_RTOL},
                                             {"stage", required_argument, NULL, OPT_STAGE},
                                             {"kernel", required_argument, NULL, OPT_KERNEL},
                                             {"passes", required_argument, NULL, OPT_PASSES},
                                             {"remove", no_argument, NULL, OPT_REMOVE},
                                             {"threads", required_argument, NULL, OPT_THREADS},
                                             {"target", required_argument, NULL, OPT_TARGET},
                                             {"strict", no_argument, NULL, OPT_STRICT},
                                             {"bounds-checks", no_argument, NULL, OPT_BOUNDS},
                                             {"passes-off", required_argument, NULL, OPT_PASSES_OFF},
                                             {"fail-on-compile", no_argument, NULL, OPT_FAIL},
                                             {"cache", required_argument, NULL, OPT_CACHE},
                                             {"no-cache", no_argument, NULL, OPT_NO_CACHE},
                                             {"cache-layer", required_argument, NULL, OPT_CACHE_LAYER},
                                             {"cache-limit", required_argument, NULL, OPT_CACHE_LIMIT},
                                             {"json", no_argument, NULL, OPT_JSON},
                                             {"tsv", no_argument, NULL, OPT_TSV},
                                             {"progress", no_argument, NULL, OPT_PROGRESS},
                                             {"quiet", no_argument, NULL, OPT_QUIET},
                                             {"verbose", no_argument, NULL, OPT_VERBOSE},
                                             {"help", no_argument, NULL, OPT_HELP},
                                             {"version", no_argument, NULL, OPT_VERSION},
                                             {NULL, 0, NULL, 0}};

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

/* Options of some commands; all others belong to every one. */
static const struct {
    int option;
    const char *commands; /* between spaces */
} own_options[] = {{OPT_INPUT, " run bench "},
                   {OPT_SHAPE, " run bench dump-ir "},
                   {OPT_DIM, " run bench dump-ir "},
                   {OPT_OVERRIDE, " run bench dump-ir "},
                   {OPT_OUTPUT_DIR, " run "},
                   {OPT_INTERPRET, " run bench test "},
                   {OPT_REPEAT, " bench "},
                   {OPT_WARMUP, " bench "},
                   {OPT_RTOL, " test "},
                   {OPT_STAGE, " dump-ir "},
                   {OPT_KERNEL, " dump-ir "},
                   {OPT_PASSES, " opt "},
                   {OPT_TSV, " ops "},
                   {OPT_REMOVE, " cache "}};

static const char *option_name(int option)
{
    const struct option *at = long_options;
    while (at->val != option) at++;
    return at->name;
}

/* 0, or an exit status where an option was given that another command has. */
static int check_options(const bool *given, const char *command)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", command);
    for (size_t k = 0; k < sizeof own_options / sizeof *own_options; k++)
        if (given[own_options[k].option - OPT_FIRST] && !strstr(own_options[k].commands, word))
            return tool_usage("'%s' has no option --%s, which belongs to%s(nestor --help)", command,
                              option_name(own_options[k].option), own_options[k].commands);
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
    opterr = 0;
    for (int option; (option = getopt_long(n_words, words, "h", long_options, NULL)) != -1;) {
        if (option == OPT_HELP || option == 'h') {
            fputs(help, stdout);
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
        fputs(help, stdout);
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
