/* tool.h: the tool's commands and what they share: options, exit status, messages. */
#ifndef NST_TOOLS_TOOL_H
#define NST_TOOLS_TOOL_H

#include <stdbool.h>
#include <stdio.h>
#include "nestor/session.h"

#define TOOL_MAX_NAMED 256 /* --input, --shape, --dim options of one command line */
#define TOOL_FAILED    1   /* exit status: `test` saw a case that failed, `cache verify` damage that stays */
#define TOOL_USAGE     2   /* exit status: the command line is wrong */
#define TOOL_STATUS    10  /* exit status: this plus the NstStatus */

/* name=value of an option that may come several times. */
typedef struct ToolNamed {
    const char *name; /* up to the "=" */
    const char *value;
} ToolNamed;

typedef struct ToolNamedList {
    ToolNamed at[TOOL_MAX_NAMED];
    uint32_t n;
} ToolNamedList;

typedef struct ToolOptions {
    NstEngineOptions engine;
    NstSessionOptions session;
    const char *file, *passes, *stage, *kernel, *output_dir;
    char *const *files; /* all words after the command */
    uint32_t n_files;
    const char *word; /* what follows the command, if it takes no file: "stats" */
    ToolNamedList inputs, shapes, dims;
    NstInputShape shape[TOOL_MAX_NAMED]; /* of shapes */
    int64_t repeat, warmup;
    double rtol;
    const char *overridable[TOOL_MAX_NAMED];
    const char *layers[TOOL_MAX_NAMED]; /* of the cache */
    bool json, tsv, remove, quiet, progress;
} ToolOptions;

/* One command: its status is the exit status. */
typedef int (*ToolCommand)(ToolOptions *options);
int tool_run(ToolOptions *options);
int tool_bench(ToolOptions *options);
int tool_opt(ToolOptions *options);
int tool_dump(ToolOptions *options);
int tool_cache(ToolOptions *options);
int tool_test(ToolOptions *options);
int tool_inspect(ToolOptions *options);
int tool_ops(ToolOptions *options);

/* Reports a failed call of the library and gives the exit status. */
int tool_fail(NstStatus status);
/* Reports what is wrong with the command line or a file it names, and gives TOOL_USAGE. */
int tool_usage(const char *format, ...) NST_PRINTF(1, 2);

/* A JSON string with its quotes. */
void tool_json_text(FILE *file, const char *text);

/* Engine, model and session of the command line.  0 or an exit status; what was opened is closed by tool_close. */
typedef struct ToolOpen {
    NstEngine *engine;
    NstModel *model;
    NstSession *session;
} ToolOpen;
int tool_open(const ToolOptions *options, bool with_session, ToolOpen *open);
void tool_close(ToolOpen *open);

/* A model's inputs as the command line gives them.  Owns: tool_inputs_free. */
typedef struct ToolInputs {
    NstNamedTensor *at;
    void **memory;
    uint32_t n;
} ToolInputs;
/* 0 or an exit status. */
int tool_inputs_make(const ToolOptions *options, const ToolOpen *open, ToolInputs *inputs);
void tool_inputs_free(ToolInputs *inputs);

#endif
