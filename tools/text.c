/* text.c: nestor opt, nestor dump-ir, nestor cache. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tools/progress.h"
#include "tools/tool.h"

#define MAX_SOURCE ((size_t)1 << 30) /* bytes */

static char *read_source(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0, room = 0;
    while (file) {
        if (room - n < 2) {
            room = room ? 2 * room : 1 << 16;
            char *grown = room > MAX_SOURCE ? NULL : realloc(text, room);
            if (!grown) break;
            text = grown;
        }
        size_t got = fread(text + n, 1, room - n - 1, file);
        n += got;
        text[n] = '\0';
        if (got != 0) continue;
        bool failed = ferror(file) || strlen(text) != n;
        fclose(file);
        if (!failed) return text;
        tool_usage("'%s' is no text, allowed are graphs (.nsg) and kernels (.nsl) in text form", path);
        free(text);
        return NULL;
    }
    tool_usage("cannot read '%s': %s", path, strerror(errno));
    if (file) fclose(file);
    free(text);
    return NULL;
}

int tool_opt(ToolOptions *options)
{
    NstEngine *engine;
    char *result = NULL, *source = read_source(options->file);
    if (!source) return TOOL_USAGE;
    NstStatus status = nst_engine_new(&options->engine, &engine);
    if (status == NST_OK)
        status = nst_text_optimise(engine, options->file, source, options->passes ? options->passes : "", &result);
    int code = status == NST_OK ? 0 : tool_fail(status);
    if (result) fputs(result, stdout);
    nst_text_free(result);
    nst_engine_free(engine);
    free(source);
    return code;
}

int tool_dump(ToolOptions *options)
{
    static const char *const stages[] = {"graph", "nest", "sched", "llvm", "asm", "plan"};
    size_t stage = 0, n = sizeof stages / sizeof *stages;
    while (options->stage && stage < n && strcmp(stages[stage], options->stage) != 0) stage++;
    if (stage == n) return tool_usage("stage '%s', allowed are graph, nest, sched, llvm, asm, plan", options->stage);
    ToolOpen open;
    char *text = NULL;
    int code = tool_open(options, false, &open);
    if (code == 0) {
        NstStatus status = nst_model_dump(open.model, &options->session, (NstDumpStage)stage, options->kernel, &text);
        tool_progress_clear();
        if (status != NST_OK) code = tool_fail(status);
    }
    if (text) fputs(text, stdout);
    nst_text_free(text);
    tool_close(&open);
    return code;
}

/* --- cache --------------------------------------------------------------------------------------------------- */

static void show_folder(const ToolOptions *options, const NstCacheFolderReport *r)
{
    if (options->json) {
        printf("{\"folder\": ");
        tool_json_text(stdout, r->folder);
        printf(", \"state\": ");
        tool_json_text(stdout, r->state);
        printf(", \"plans\": %llu, \"plan_bytes\": %llu, \"kernels\": %llu, \"kernel_bytes\": %llu, \"others\": %llu, "
               "\"damaged\": %llu, \"removed\": %llu}\n",
               (unsigned long long)r->plans, (unsigned long long)r->plan_bytes, (unsigned long long)r->kernels,
               (unsigned long long)r->kernel_bytes, (unsigned long long)r->others, (unsigned long long)r->damaged,
               (unsigned long long)r->removed);
        return;
    }
    printf("folder   %s\n", r->folder[0] ? r->folder : "none");
    if (r->state[0]) printf("not used %s\n", r->state);
    printf("plans    %llu, %llu bytes\nkernels  %llu, %llu bytes\nothers   %llu\ndamaged  %llu, removed %llu\n",
           (unsigned long long)r->plans, (unsigned long long)r->plan_bytes, (unsigned long long)r->kernels,
           (unsigned long long)r->kernel_bytes, (unsigned long long)r->others, (unsigned long long)r->damaged,
           (unsigned long long)r->removed);
}

int tool_cache(ToolOptions *options)
{
    bool verify = strcmp(options->word, "verify") == 0;
    if (!verify && strcmp(options->word, "stats") != 0)
        return tool_usage("cache '%s', allowed are stats and verify", options->word);
    NstEngine *engine;
    NstCacheFolderReport report;
    NstStatus status = nst_engine_new(&options->engine, &engine);
    if (status == NST_OK) status = nst_engine_cache_report(engine, verify, verify && options->remove, &report);
    if (status != NST_OK) {
        nst_engine_free(engine);
        return tool_fail(status);
    }
    show_folder(options, &report);
    nst_engine_free(engine);
    return report.damaged > report.removed ? TOOL_FAILED : 0;
}
