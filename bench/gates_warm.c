/* gates_warm.c: a second process that runs digits.onnx from the disk cache: what it maps, and how long it lives. */
#include "bench/gates.h"

#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/os.h"

#define MODEL   "models/digits.onnx"
#define SAMPLES 20

extern char **environ;

/* Runs a program to its end; its standard output in `text`.  Result: its exit status, -1 if it could not be run. */
static int spawn(char *const *words, char *text, size_t n, double *ms)
{
    int ends[2], status = -1;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0) return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    int64_t start = nst_os_now_ns();
    int failed = posix_spawn(&pid, words[0], &actions, NULL, words, environ);
    if (!failed && waitpid(pid, &status, 0) != pid) status = -1;
    *ms = (double)(nst_os_now_ns() - start) / 1e6;
    close(ends[1]);
    ssize_t got = read(ends[0], text, n - 1);
    text[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    posix_spawn_file_actions_destroy(&actions);
    return failed ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* Median of the times of SAMPLES runs. */
static NstStatus median_of(NstCtx *ctx, char *const *words, char *text, size_t n, double *median)
{
    double ms[SAMPLES];
    for (int k = 0; k < SAMPLES; k++) {
        int status = spawn(words, text, n, &ms[k]);
        NST_CHECK(ctx, status == 0, NST_E_IO, "%s ended with status %d", words[0], status);
    }
    *median = nst_bench_quantile(ms, SAMPLES, 0.5);
    return NST_OK;
}

/* Of a second process: what it prints, and how long it lives.  Smoke takes the least of several medians: more of them while it
 * is too long, as long as the patience lasts. */
static NstStatus run_warm(NstCtx *ctx, const NstGates *g, char *const *words, char *text, size_t n, NstGateRow *row)
{
    int64_t end = nst_os_now_ns() + (int64_t)(g->patience * 1e9);
    row->measured = INFINITY;
    do {
        double median;
        NST_TRY(median_of(ctx, words, text, n, &median));
        row->measured = fmin(row->measured, median);
    } while (g->smoke && !nst_gates_is_met(g, row) && nst_os_now_ns() < end);
    return NST_OK;
}

static NstStatus measure_in(NstCtx *ctx, NstGates *g, char *folder)
{
    char text[256];
    double cold, empty;
    NstGateRow warm = {.name = "digits.onnx from the disk cache, exec to exit, median of 20",
                       .unit = "ms",
                       .kind = NST_GATE_MOST,
                       .required = 4};
    char *program = nst_format(ctx->arena, "%s/bin/tool_warm", g->build);
    char *words[] = {program, nst_strdup(ctx->arena, MODEL), folder, NULL}, *nothing[] = {"/bin/true", NULL};
    int status = spawn(words, text, sizeof text, &cold), compiled, cached, llvm, protobuf;
    NST_CHECK(ctx, status == 0, NST_E_IO, "%s ended with status %d", program, status);
    NST_TRY(median_of(ctx, nothing, text, sizeof text, &empty));
    NST_TRY(run_warm(ctx, g, words, text, sizeof text, &warm));
    NST_CHECK(ctx, sscanf(text, "compiled %d cached %d llvm %d protobuf %d", &compiled, &cached, &llvm, &protobuf) == 4,
              NST_E_PARSE, "%s printed '%s'", program, text);
    nst_gates_most(g, "digits.onnx from the disk cache, mappings of LLVM and protobuf", llvm + protobuf, 0, "",
                   nst_format(ctx->arena, "plans compiled %d, from the cache %d", compiled, cached));
    if (cached != 1) warm.measured = cold;
    warm.note = nst_format(ctx->arena, "an empty process %.2f ms, the first run %.0f ms", empty, cold);
    nst_gates_add(g, warm);
    return NST_OK;
}

static NstStatus measure(NstCtx *ctx, void *arg)
{
    const char *base = getenv("TMPDIR");
    char *folder = nst_format(ctx->arena, "%s/nestor-gates-XXXXXX", base && *base ? base : "/tmp");
    NST_CHECK(ctx, mkdtemp(folder), NST_E_IO, "no temporary folder can be made");
    NstStatus status = measure_in(ctx, arg, folder);
    char text[8], *words[] = {"/bin/rm", "-rf", folder, NULL};
    double ms;
    spawn(words, text, sizeof text, &ms);
    return status;
}

void nst_gates_warm(NstGates *g)
{
    nst_gates_try(g, "digits.onnx from the disk cache", measure, g);
}
