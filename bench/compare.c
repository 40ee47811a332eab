/* compare.c: Nestor and ONNX Runtime over the models of tools/models.py, in one process and in turn.
 *
 * Both get the same inputs and the same number of threads; Nestor's plan is for declared shapes, as ONNX Runtime's session
 * knows them after its first run.  Outputs are compared before anything is timed: a ratio is only printed of results that
 * agree. */
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bench/model_set.h"
#include "bench/ort.h"
#include "bench/timing.h"
#include "ir/base/dtype.h"

#define MAX_OUTPUTS  64
#define MAX_RESULTS  256
#define CLOSE        1e-2 /* relative to the largest element: results that agree, whatever the order of sums */
#define PROFILE_RUNS 5
/* ONNX Runtime's threads spin for 40 ms of processor time after a run; beside our own threads they take a processor half of
 * the time and stretch that (squeezenet on two threads: ratio 0.35 to 1.25 after a pause of 20 ms, 1.11 to 1.33 at rest). */
#define REST_NS    5000000 /* how long a look at the process lasts */
#define REST_PART  0.04    /* of that time a process at rest may use */
#define REST_LOOKS 3       /* in a row, at most REST_MOST */
#define REST_MOST  200

static const char usage[] =
    "usage: compare [OPTION...]        models of build/models against ONNX Runtime; ratio = its median / ours\n"
    "  --filter TEXT     models whose names contain it\n"
    "  --threads 1,2     numbers of threads\n"
    "  --seconds S       of timing, a model and number of threads (2)\n"
    "  --prepare         compile into the cache and time nothing\n"
    "  --json            one JSON object\n"
    "  --cache DIR       Nestor's cache (absolute)\n";

typedef struct Options {
    const char *filter, *threads, *cache;
    double seconds;
    bool json, prepare;
} Options;

typedef struct Result {
    char name[64];
    int threads;
    double ours_ms, theirs_ms;
    NstBenchRatio ratio;
    char worst[256]; /* the kernel that costs most, if we are slower */
    char error[512]; /* instead of all else */
} Result;

/* Both sides of one comparison. */
typedef struct Pair {
    NstEngine *engine;
    NstModel *model;
    NstSession *session;
    NstModelInputs inputs;
    NstNamedTensor output[MAX_OUTPUTS];
    uint32_t n_outputs;
    NstOrtSession *theirs;
    bool afresh;      /* its outputs cannot be written over: their declared rank is wrong */
    const void *last; /* the side that ran last */
    NstCtx *ctx;
    NstStatus failed; /* of a run while timing */
} Pair;

/* --- both sides ---------------------------------------------------------------------------------------------- */

static NstStatus ours(NstCtx *ctx, NstStatus status)
{
    NST_CHECK(ctx, status == NST_OK, status, "Nestor: %s", nst_error_text());
    return NST_OK;
}

/* Memory of a run's outputs stays ours and is written again by the next one. */
static NstStatus run_ours(Pair *p)
{
    return nst_session_run(p->session, p->inputs.tensor, p->inputs.n, p->output, p->n_outputs, NULL);
}

static NstStatus open_theirs(NstCtx *ctx, NstOrt *ort, const char *path, int threads, Pair *p, NstModelRow *row)
{
    const char *names[NST_MODEL_MAX_INPUTS];
    NST_TRY(nst_ort_open_file(ctx, ort, path, (NstOrtOptions){.threads = threads}, &p->theirs));
    int n = nst_ort_input_count(p->theirs);
    for (int k = 0; k < n; k++) names[k] = nst_ort_input_name(p->theirs, k);
    return nst_model_inputs_shape(ctx, row, (uint32_t)n, names, &p->inputs);
}

static NstStatus open_ours(NstCtx *ctx, const Options *options, const char *path, int threads, Pair *p)
{
    NstEngineOptions engine = {.threads = threads, .cache = options->cache};
    NstSessionOptions session = {.shapes = p->inputs.shape, .n_shapes = p->inputs.n};
    NST_TRY(ours(ctx, nst_engine_new(&engine, &p->engine)));
    NST_TRY(ours(ctx, nst_model_open_file(p->engine, path, &p->model)));
    return ours(ctx, nst_session_new(p->model, &session, &p->session));
}

/* A run with new outputs: setting an input frees the old ones. */
static NstStatus run_theirs_afresh(NstCtx *ctx, Pair *p)
{
    for (uint32_t k = 0; k < p->inputs.n; k++) {
        const NstTensor *from = &p->inputs.tensor[k].tensor;
        NstOrtTensor tensor = {nst_dtype_info(from->dtype)->onnx, from->rank, {0}, from->data};
        NST_CHECK(ctx, from->rank <= NST_ORT_MAX_RANK, NST_E_LIMIT, "rank %d", from->rank);
        memcpy(tensor.dims, from->shape, (size_t)from->rank * sizeof *tensor.dims);
        NST_TRY(nst_ort_set_input(ctx, p->theirs, (int)k, &tensor));
    }
    return nst_ort_run(ctx, p->theirs);
}

static NstStatus first_runs(NstCtx *ctx, Pair *p)
{
    NST_TRY(nst_model_inputs_fill(ctx, p->session, &p->inputs));
    p->n_outputs = nst_session_output_count(p->session);
    NST_CHECK(ctx, p->n_outputs <= MAX_OUTPUTS, NST_E_LIMIT, "%u outputs, allowed: at most %d", p->n_outputs,
              MAX_OUTPUTS);
    for (uint32_t k = 0; k < p->n_outputs; k++) p->output[k].name = nst_ort_output_name(p->theirs, (int)k);
    NST_TRY(ours(ctx, run_ours(p)));
    NST_TRY(run_theirs_afresh(ctx, p));
    p->afresh = nst_ort_run(ctx, p->theirs) != NST_OK;
    nst_ctx_clear(ctx);
    return p->afresh ? run_theirs_afresh(ctx, p) : NST_OK;
}

static NstStatus check_output(NstCtx *ctx, Pair *p, uint32_t k)
{
    const NstTensor *a = &p->output[k].tensor;
    NstOrtTensor b;
    double largest = 0, difference = 0;
    NST_TRY(nst_ort_output(ctx, p->theirs, (int)k, &b));
    size_t n = 1;
    bool same = a->rank == b.rank && nst_dtype_info(a->dtype)->onnx == b.element;
    for (int axis = 0; axis < a->rank && same; axis++) {
        same = a->shape[axis] == b.dims[axis];
        n *= (size_t)a->shape[axis];
    }
    NST_CHECK(ctx, same, NST_E_SHAPE, "output '%s' has another type than ONNX Runtime's", p->output[k].name);
    if (a->dtype != NST_F32) {
        same = memcmp(a->data, b.data, n * nst_dtype_size(a->dtype)) == 0;
        NST_CHECK(ctx, same, NST_E_ASSERT, "output '%s' differs from ONNX Runtime's", p->output[k].name);
        return NST_OK;
    }
    for (size_t i = 0; i < n; i++) {
        double x = ((float *)a->data)[i], y = ((float *)b.data)[i];
        largest = fmax(largest, fabs(y));
        if (!(fabs(x - y) <= difference)) difference = fabs(x - y);
    }
    NST_CHECK(ctx, difference <= CLOSE * largest, NST_E_ASSERT,
              "output '%s' differs from ONNX Runtime's by %g, its largest element is %g", p->output[k].name, difference,
              largest);
    return NST_OK;
}

static void close_pair(Pair *p)
{
    nst_ort_close(p->theirs);
    for (uint32_t k = 0; k < p->n_outputs; k++) nst_tensor_release(&p->output[k].tensor);
    nst_model_inputs_free(&p->inputs);
    nst_session_free(p->session);
    nst_model_free(p->model);
    nst_engine_free(p->engine);
}

/* --- timing -------------------------------------------------------------------------------------------------- */

static double processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Waits until the threads of this process sleep. */
static void rest(void)
{
    for (int look = 0, calm = 0; look < REST_MOST && calm < REST_LOOKS; look++) {
        double before = processor_ns();
        nanosleep(&(struct timespec){0, REST_NS}, NULL);
        calm = processor_ns() - before < REST_PART * REST_NS ? calm + 1 : 0;
    }
}

/* Idle threads of a pool spin a while for more work: when sides change, the other's are left to go to sleep.  This is in the
 * warm call, which is not timed. */
static void settle(Pair *p, const void *side)
{
    if (p->last && p->last != side) rest();
    p->last = side;
}

static void time_ours(void *arg)
{
    Pair *p = arg;
    settle(p, p->session);
    void *owned[MAX_OUTPUTS]; /* kept from the run, which would take it for memory of its own */
    for (uint32_t k = 0; k < p->n_outputs; k++) {
        owned[k] = p->output[k].tensor.owned;
        p->output[k].tensor.owned = NULL;
    }
    NstStatus status = run_ours(p);
    for (uint32_t k = 0; k < p->n_outputs; k++) p->output[k].tensor.owned = owned[k];
    if (status != NST_OK && p->failed == NST_OK) p->failed = ours(p->ctx, status);
}

static void time_theirs(void *arg)
{
    Pair *p = arg;
    settle(p, p->theirs);
    NstStatus status = p->afresh ? run_theirs_afresh(p->ctx, p) : nst_ort_run(p->ctx, p->theirs);
    if (status != NST_OK && p->failed == NST_OK) p->failed = status;
}

static NstStatus time_pair(NstCtx *ctx, const Options *options, Pair *p, Result *result)
{
    NstBenchCase cases[2] = {{"Nestor", time_ours, p, 1}, {"ONNX Runtime", time_theirs, p, 1}};
    NstBenchLimits limits = {
        .seconds = options->seconds, .sample_ns = 2e6, .warm_calls = 1, .min_rounds = 5, .max_rounds = 1000};
    NstBench bench;
    NstStatus status = nst_bench_run(ctx, cases, 2, limits, &bench);
    if (status == NST_OK) status = p->failed;
    if (status == NST_OK) {
        result->ours_ms = bench.times[0].median / 1e6;
        result->theirs_ms = bench.times[1].median / 1e6;
        result->ratio = nst_bench_ratio(&bench, 1, 0);
        result->ratio.median = result->theirs_ms / result->ours_ms;
    }
    nst_bench_dispose(&bench);
    return status;
}

/* The step that takes longest, with its part of the run. */
static NstStatus find_worst(NstCtx *ctx, Pair *p, Result *result)
{
    NstProfile *profile;
    NstProfileStep step, worst = {0};
    uint64_t total = 0;
    NST_TRY(ours(ctx, nst_profile_new(p->session, &profile)));
    NstStatus status = NST_OK;
    for (int k = 0; k < PROFILE_RUNS && status == NST_OK; k++) {
        NstNamedTensor output[MAX_OUTPUTS];
        for (uint32_t o = 0; o < p->n_outputs; o++) output[o] = (NstNamedTensor){.name = p->output[o].name};
        status = nst_session_run(p->session, p->inputs.tensor, p->inputs.n, output, p->n_outputs,
                                 &(NstRunOptions){.profile = profile});
        for (uint32_t o = 0; o < p->n_outputs; o++) nst_tensor_release(&output[o].tensor);
    }
    for (uint32_t k = 0; status == NST_OK && k < nst_profile_step_count(profile); k++) {
        status = nst_profile_step(profile, k, &step);
        if (status != NST_OK) break;
        total += step.ns;
        if (step.ns > worst.ns) worst = step;
    }
    if (status == NST_OK && total > 0)
        snprintf(result->worst, sizeof result->worst, "%.0f%% %s: %s", 100.0 * (double)worst.ns / (double)total,
                 worst.name, worst.origin ? worst.origin : "");
    status = ours(ctx, status);
    nst_profile_free(profile);
    return status;
}

static NstStatus measure(NstCtx *ctx, const Options *options, NstOrt *ort, NstModelRow *row, int threads, Pair *p,
                         Result *result)
{
    const char *path = nst_format(ctx->arena, NST_MODEL_SET_FOLDER "/%s.onnx", row->name);
    NST_TRY(open_theirs(ctx, ort, path, threads, p, row));
    NST_TRY(open_ours(ctx, options, path, threads, p));
    if (options->prepare) return NST_OK;
    NST_TRY(first_runs(ctx, p));
    for (uint32_t k = 0; k < p->n_outputs; k++) NST_TRY(check_output(ctx, p, k));
    NST_TRY(time_pair(ctx, options, p, result));
    return result->ratio.median < 1 ? find_worst(ctx, p, result) : NST_OK;
}

static void compare(const Options *options, NstOrt *ort, const NstModelRow *row, int threads, Result *result)
{
    NstCtx ctx;
    NstModelRow own = *row; /* to be cut into words */
    own.name = own.line + (row->name - row->line);
    own.shapes = own.line + (row->shapes - row->line);
    *result = (Result){.threads = threads};
    snprintf(result->name, sizeof result->name, "%.63s", row->name);
    if (nst_ctx_init(&ctx) != NST_OK) {
        snprintf(result->error, sizeof result->error, "no memory");
        return;
    }
    Pair p = {.ctx = &ctx};
    if (measure(&ctx, options, ort, &own, threads, &p, result) != NST_OK)
        snprintf(result->error, sizeof result->error, "%.511s", ctx.error);
    close_pair(&p);
    nst_ctx_dispose(&ctx);
}

/* --- printing ------------------------------------------------------------------------------------------------ */

static void json_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        putchar((unsigned char)*text < 0x20 ? ' ' : *text);
    }
    putchar('"');
}

static void show_json(const Result *r)
{
    printf("{\"name\": \"%s\", \"threads\": %d, ", r->name, r->threads);
    if (*r->error) {
        printf("\"error\": ");
        json_text(r->error);
    } else {
        printf(
            "\"ratio\": %.4f, \"low\": %.4f, \"high\": %.4f, \"ours_ms\": %.5f, \"onnxruntime_ms\": %.5f, \"worst\": ",
            r->ratio.median, r->ratio.low, r->ratio.high, r->ours_ms, r->theirs_ms);
        json_text(r->worst);
    }
    printf("}");
}

static void show_line(const Options *options, const Result *r)
{
    if (*r->error)
        printf("%-18s %d  %s\n", r->name, r->threads, r->error);
    else if (options->prepare)
        printf("%-18s %d  ready\n", r->name, r->threads);
    else
        printf("%-18s %d  %6.3f  (%.3f to %.3f)  ours %9.4f ms, ONNX Runtime %9.4f ms  %s\n", r->name, r->threads,
               r->ratio.median, r->ratio.low, r->ratio.high, r->ours_ms, r->theirs_ms, r->worst);
    fflush(stdout);
}

static double geometric_mean(const Result *result, int n, int threads)
{
    double sum = 0;
    int count = 0;
    for (int k = 0; k < n; k++) {
        if (*result[k].error || result[k].threads != threads) continue;
        sum += log(result[k].ratio.median);
        count++;
    }
    return count ? exp(sum / count) : 0;
}

/* Tells, returns and leaves: 0 if every model ran. */
static int finish(const Options *options, const Result *result, int n)
{
    int failed = 0;
    for (int k = 0; k < n; k++) failed += *result[k].error != '\0';
    if (options->json) printf("{\"models\": [");
    for (int k = 0; options->json && k < n; k++) {
        if (k) printf(",\n");
        show_json(&result[k]);
    }
    if (options->json) printf("], \"geometric_mean\": {");
    const char *mark = "";
    for (const char *at = options->threads; *at && !options->prepare; at += strspn(at, ",")) {
        int threads = (int)strtol(at, (char **)(uintptr_t)&at, 10);
        double mean = geometric_mean(result, n, threads);
        if (options->json)
            printf("%s\"%d\": %.4f", mark, threads, mean);
        else
            printf("geometric mean, %d thread%s: %.3f\n", threads, threads == 1 ? "" : "s", mean);
        mark = ", ";
    }
    if (options->json) printf("}}\n");
    return failed != 0;
}

/* --- command line -------------------------------------------------------------------------------------------- */

static bool take_options(int n_words, char **words, Options *o)
{
    static const struct option names[] = {{"filter", required_argument, NULL, 'f'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"seconds", required_argument, NULL, 's'},
                                          {"prepare", no_argument, NULL, 'p'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"cache", required_argument, NULL, 'c'},
                                          {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(n_words, words, "", names, NULL)) != -1;) {
        switch (option) {
        case 'f': o->filter = optarg; break;
        case 't': o->threads = optarg; break;
        case 's': o->seconds = strtod(optarg, NULL); break;
        case 'p': o->prepare = true; break;
        case 'j': o->json = true; break;
        case 'c': o->cache = optarg; break;
        default: return false;
        }
    }
    return optind == n_words && o->seconds > 0 && o->threads[strspn(o->threads, "0123456789,")] == '\0';
}

static int run(const Options *options, NstOrt *ort, FILE *table)
{
    static Result result[MAX_RESULTS];
    static NstModelRow row;
    int n = 0;
    while (nst_model_row_next(table, &row)) {
        if (!strstr(row.name, options->filter)) continue;
        for (const char *at = options->threads; *at && n < MAX_RESULTS; at += strspn(at, ",")) {
            int threads = (int)strtol(at, (char **)(uintptr_t)&at, 10);
            compare(options, ort, &row, threads, &result[n]);
            if (!options->json) show_line(options, &result[n]);
            n++;
        }
    }
    return finish(options, result, n);
}

int main(int n_words, char **words)
{
    Options options = {.filter = "", .threads = "1,2", .seconds = 2};
    NstCtx ctx;
    NstOrt *ort = NULL;
    if (!take_options(n_words, words, &options)) {
        fputs(usage, stderr);
        return 2;
    }
    FILE *table = fopen(NST_MODEL_SET_FOLDER "/models.tsv", "r");
    if (!table || nst_ctx_init(&ctx) != NST_OK) {
        fprintf(stderr, "compare: there is no %s/models.tsv: tools/models.py writes it\n", NST_MODEL_SET_FOLDER);
        return 2;
    }
    int code = 2;
    if (nst_ort_load(&ctx, NULL, &ort) == NST_OK)
        code = run(&options, ort, table);
    else
        fprintf(stderr, "compare: %s\n", ctx.error);
    nst_ort_unload(ort);
    nst_ctx_dispose(&ctx);
    fclose(table);
    return code;
}
