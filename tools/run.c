/* run.c: nestor run, nestor bench. */
#define _POSIX_C_SOURCE 200809L /* NOLINT: clock_gettime, mkdir */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include "tools/npy.h"
#include "tools/tool.h"

#define SHOWN 10 /* elements of an output that are printed */

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* In quotes; other bytes than printable ones and those above 127 as \xHH. */
static void print_string(const char *at)
{
    NstString s;
    memcpy(&s, at, sizeof s);
    putchar('"');
    for (size_t k = 0; k < s.n; k++) {
        unsigned char c = (unsigned char)s.at[k];
        if (c < 32 || c == 127)
            printf("\\x%02x", c);
        else
            printf(c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    putchar('"');
}

static void print_element(NstDtype dtype, const char *at)
{
    if (dtype == NST_STR) {
        print_string(at);
        return;
    }
    union {
        float f32;
        double f64;
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
    } v = {.u64 = 0};
    memcpy(&v, at, nst_dtype_size(dtype) < sizeof v ? nst_dtype_size(dtype) : sizeof v);
    switch (dtype) {
    case NST_F32: printf("%.9g", (double)v.f32); return;
    case NST_F64: printf("%.17g", v.f64); return;
    case NST_I8: printf("%d", v.i8); return;
    case NST_BOOL:
    case NST_U8: printf("%u", v.u8); return;
    case NST_I16: printf("%d", v.i16); return;
    case NST_U16: printf("%u", v.u16); return;
    case NST_I32: printf("%d", v.i32); return;
    case NST_U32: printf("%u", v.u32); return;
    case NST_I64: printf("%lld", (long long)v.i64); return;
    case NST_U64: printf("%llu", (unsigned long long)v.u64); return;
    default: printf("0x%llx", (unsigned long long)v.u64); return;
    }
}

static size_t count_elements(const NstTensor *tensor)
{
    size_t n = 1;
    for (int axis = 0; axis < tensor->rank; axis++) n *= (size_t)tensor->shape[axis];
    return n;
}

static void print_shape(const NstTensor *tensor)
{
    for (int axis = 0; axis < tensor->rank; axis++) printf("%s%lld", axis ? ", " : "", (long long)tensor->shape[axis]);
}

static void print_output(const NstNamedTensor *output)
{
    const NstTensor *tensor = &output->tensor;
    size_t n = count_elements(tensor);
    printf("%s: %s[", output->name, nst_dtype_name(tensor->dtype));
    print_shape(tensor);
    printf("] =");
    for (size_t k = 0; k < n && k < SHOWN; k++) {
        printf(" ");
        print_element(tensor->dtype, (const char *)tensor->data + k * nst_dtype_size(tensor->dtype));
    }
    printf("%s\n", n > SHOWN ? " ..." : "");
}

/* Names become file names: letters, digits, "-", "_" and "." stay. */
static int save_output(const char *folder, const NstNamedTensor *output)
{
    char path[4096], error[FILE_ERROR];
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return tool_usage("cannot make the folder '%s': %s", folder, strerror(errno));
    int n = snprintf(path, sizeof path, "%s/%s.npy", folder, output->name);
    if (n < 0 || (size_t)n >= sizeof path) return tool_usage("the name of output '%.40s' is too long", output->name);
    for (char *c = path + strlen(folder) + 1; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", *c)) *c = '_';
    return npy_write(path, &output->tensor, error) == 0 ? 0 : tool_usage("%s", error);
}

typedef struct Outputs {
    NstNamedTensor *at;
    uint32_t n;
} Outputs;

static int make_outputs(const NstSession *session, Outputs *outputs)
{
    outputs->n = nst_session_output_count(session);
    outputs->at = calloc(outputs->n + 1, sizeof *outputs->at);
    if (!outputs->at) return tool_usage("no memory for the outputs");
    for (uint32_t k = 0; k < outputs->n; k++) {
        NstPort port;
        NstStatus status = nst_session_output(session, k, &port);
        if (status != NST_OK) return tool_fail(status);
        outputs->at[k].name = port.name;
    }
    return 0;
}

static void free_outputs(Outputs *outputs)
{
    for (uint32_t k = 0; outputs->at && k < outputs->n; k++) nst_tensor_release(&outputs->at[k].tensor);
    free(outputs->at);
}

static void print_facts(const ToolOptions *options, const ToolOpen *open, double open_ms, double run_ms)
{
    NstSessionFacts facts;
    nst_session_facts(open->session, &facts);
    if (options->json)
        printf("\"ready_ms\": %.3f, \"compile_ms\": %.3f, \"run_ms\": %.3f, \"from_cache\": %s, \"kernels\": %u, "
               "\"code_bytes\": %llu, \"arena_bytes\": %llu",
               open_ms, (double)facts.compile_ns / 1e6, run_ms, facts.compiled ? "false" : "true", facts.kernels,
               (unsigned long long)facts.code_bytes, (unsigned long long)facts.arena_bytes);
    else
        printf("%s in %.2f ms, run in %.3f ms; %u kernels, %llu bytes of code, %llu of arena\n",
               facts.compiled ? "compiled" : "from the cache", open_ms, run_ms, facts.kernels,
               (unsigned long long)facts.code_bytes, (unsigned long long)facts.arena_bytes);
}

static int show_run(const ToolOptions *options, const ToolOpen *open, const Outputs *outputs, double open_ms,
                    double run_ms)
{
    if (options->json) {
        printf("{");
        print_facts(options, open, open_ms, run_ms);
        printf(", \"outputs\": [");
        for (uint32_t k = 0; k < outputs->n; k++) {
            const NstTensor *tensor = &outputs->at[k].tensor;
            printf("%s{\"name\": ", k ? ", " : "");
            tool_json_text(stdout, outputs->at[k].name);
            printf(", \"dtype\": \"%s\", \"shape\": [", nst_dtype_name(tensor->dtype));
            print_shape(tensor);
            printf("]}");
        }
        printf("]}\n");
    } else {
        for (uint32_t k = 0; k < outputs->n; k++) print_output(&outputs->at[k]);
        print_facts(options, open, open_ms, run_ms);
    }
    int status = 0;
    for (uint32_t k = 0; options->output_dir && k < outputs->n && status == 0; k++)
        status = save_output(options->output_dir, &outputs->at[k]);
    return status;
}

/* A plan for the shapes of a run is made by the run: that time belongs to making ready.  Without compiling it is a lookup. */
static double plan_ms(NstSession *session)
{
    NstSessionFacts facts;
    nst_session_facts(session, &facts);
    return (double)facts.compile_ns / 1e6;
}

int tool_run(ToolOptions *options)
{
    ToolOpen open;
    ToolInputs inputs = {NULL, NULL, 0};
    Outputs outputs = {NULL, 0};
    double start = now_ms();
    int status = tool_open(options, true, &open);
    double opened = now_ms();
    if (status == 0) status = tool_inputs_make(options, &open, &inputs);
    if (status == 0) status = make_outputs(open.session, &outputs);
    if (status == 0) {
        double planned = plan_ms(open.session), before = now_ms();
        NstStatus ran = nst_session_run(open.session, inputs.at, inputs.n, outputs.at, outputs.n, NULL);
        double after = now_ms(), late = plan_ms(open.session) - planned;
        status = ran == NST_OK ? show_run(options, &open, &outputs, opened - start + late, after - before - late)
                               : tool_fail(ran);
    }
    free_outputs(&outputs);
    tool_inputs_free(&inputs);
    tool_close(&open);
    return status;
}

/* --- bench --------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* 10^9 operations a second; 0 where nothing was counted or no time passed. */
static double rate(double operations, double ns)
{
    return ns > 0 ? operations / ns : 0;
}

static void show_step(const ToolOptions *options, const NstProfileStep *step, uint32_t k, double runs)
{
    double us = (double)step->ns / 1e3 / runs, gflops = rate((double)step->operations, (double)step->ns);
    if (!options->json) {
        char speed[32] = "";
        if (step->operations != 0) snprintf(speed, sizeof speed, "%.1f GFLOP/s", gflops);
        printf("%4u %9.2f us %14s  %-24s %s\n", k, us, speed, step->name, step->origin ? step->origin : "");
        return;
    }
    printf("%s{\"us\": %.3f, \"operations\": %.0f, \"gflop_per_s\": %.3f, \"kernel\": ", k ? ", " : "", us,
           (double)step->operations / runs, gflops);
    tool_json_text(stdout, step->name);
    printf(", \"origin\": ");
    tool_json_text(stdout, step->origin ? step->origin : "");
    printf(", \"not_fused\": ");
    tool_json_text(stdout, step->not_fused ? step->not_fused : "");
    printf("}");
}

/* What comes before the runs that are measured. */
typedef struct Start {
    double ready_ms; /* from opening the engine to a session: compiled, or warm from the cache */
    double first_ms; /* the first run */
} Start;

static void show_times(const ToolOptions *options, const Start *start, const double *times)
{
    size_t n = (size_t)options->repeat;
    struct rusage usage = {.ru_maxrss = 0};
    (void)getrusage(RUSAGE_SELF, &usage);
    if (options->json)
        printf("{\"runs\": %zu, \"best_ms\": %.6f, \"median_ms\": %.6f, \"p90_ms\": %.6f, \"p99_ms\": %.6f, "
               "\"first_ms\": %.6f, \"peak_rss_bytes\": %lld, ",
               n, times[0], times[n / 2], times[n * 9 / 10], times[n * 99 / 100], start->first_ms,
               (long long)usage.ru_maxrss * 1024);
    else
        printf(
            "%zu runs: best %.4f ms, median %.4f ms, 90%% %.4f ms, 99%% %.4f ms; first %.4f ms, peak memory %.1f MB\n",
            n, times[0], times[n / 2], times[n * 9 / 10], times[n * 99 / 100], start->first_ms,
            (double)usage.ru_maxrss / 1024);
}

static int show_bench(const ToolOptions *options, const ToolOpen *open, const NstProfile *profile, const Start *start,
                      double *times)
{
    qsort(times, (size_t)options->repeat, sizeof *times, by_value);
    show_times(options, start, times);
    double median = times[options->repeat / 2], runs = (double)nst_profile_runs(profile), operations = 0;
    NstProfileStep step;
    for (uint32_t k = 0; k < nst_profile_step_count(profile); k++)
        if (nst_profile_step(profile, k, &step) == NST_OK) operations += (double)step.operations / runs;
    print_facts(options, open, start->ready_ms, median);
    if (options->json)
        printf(", \"operations\": %.0f, \"gflop_per_s\": %.3f, \"steps\": [", operations,
               rate(operations, median * 1e6));
    else
        printf("%.6g million operations of products and convolutions, %.1f GFLOP/s\n", operations / 1e6,
               rate(operations, median * 1e6));
    for (uint32_t k = 0; k < nst_profile_step_count(profile); k++) {
        NstStatus status = nst_profile_step(profile, k, &step);
        if (status != NST_OK) return tool_fail(status);
        show_step(options, &step, k, runs);
    }
    if (options->json) printf("]}\n");
    return 0;
}

static int run_often(const ToolOptions *options, const ToolOpen *open, const ToolInputs *inputs, Outputs *outputs,
                     const Start *started, double *times)
{
    NstProfile *profile;
    NstStatus status = nst_profile_new(open->session, &profile);
    if (status != NST_OK) return tool_fail(status);
    for (int64_t k = -options->warmup; k < 2 * options->repeat && status == NST_OK; k++) {
        /* The first time outputs get memory, which then is used again; the second half is profiled. */
        NstRunOptions run = {.profile = k >= options->repeat ? profile : NULL};
        double start = now_ms();
        for (uint32_t o = 0; o < outputs->n; o++) {
            NstTensor *tensor = &outputs->at[o].tensor;
            if (tensor->dtype == NST_STR) /* texts are new in every run */
                nst_tensor_release(tensor);
            else
                tensor->owned = NULL;
        }
        status = nst_session_run(open->session, inputs->at, inputs->n, outputs->at, outputs->n, &run);
        if (k >= 0 && k < options->repeat) times[k] = now_ms() - start;
    }
    int code = status == NST_OK ? show_bench(options, open, profile, started, times) : tool_fail(status);
    nst_profile_free(profile);
    return code;
}

int tool_bench(ToolOptions *options)
{
    ToolOpen open;
    ToolInputs inputs = {NULL, NULL, 0};
    Outputs outputs = {NULL, 0};
    double *times = calloc((size_t)options->repeat, sizeof *times);
    void **memory = NULL;
    double begin = now_ms();
    int status = tool_open(options, true, &open);
    Start start = {.ready_ms = now_ms() - begin};
    if (status == 0) status = tool_inputs_make(options, &open, &inputs);
    if (status == 0) status = make_outputs(open.session, &outputs);
    if (status == 0) {
        begin = now_ms();
        NstStatus ran = nst_session_run(open.session, inputs.at, inputs.n, outputs.at, outputs.n, NULL);
        start.first_ms = now_ms() - begin;
        status = ran == NST_OK ? 0 : tool_fail(ran);
    }
    if (status == 0) {
        memory = calloc(outputs.n + 1, sizeof *memory);
        for (uint32_t k = 0; memory && k < outputs.n; k++) memory[k] = outputs.at[k].tensor.owned;
        status =
            times && memory ? run_often(options, &open, &inputs, &outputs, &start, times) : tool_usage("no memory");
        for (uint32_t k = 0; memory && k < outputs.n; k++)
            if (outputs.at[k].tensor.dtype != NST_STR) outputs.at[k].tensor.owned = memory[k];
    }
    free(memory);
    free(times);
    free_outputs(&outputs);
    tool_inputs_free(&inputs);
    tool_close(&open);
    return status;
}
