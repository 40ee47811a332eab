/* progress.c: see progress.h.
 *
 * On a terminal the line is written over and over and is gone in the end; it appears once compiling has taken a second.
 * Where --progress asks for it, it appears at once, and in a file each state of it is a line of its own. */
#define _POSIX_C_SOURCE 200809L /* NOLINT: clock_gettime, isatty */
#include "tools/progress.h"

#include <time.h>
#include <unistd.h>

enum { AFTER_MS = 1000, EVERY_MS = 100, EVERY_LINE_MS = 1000 };

/* The engine calls one at a time for each session, and the tool makes one session at a time. */
typedef struct Progress {
    bool at_once, over; /* shown from the beginning; written over, not line by line */
    bool begun, shown;
    double begin_ms, last_ms;
} Progress;

static Progress progress;

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

void tool_progress_clear(void)
{
    if (progress.shown && progress.over) fputs("\r\x1b[K", stderr);
    progress.shown = progress.begun = false;
}

static void show(uint32_t done, uint32_t total)
{
    const char *before = progress.over ? "\r\x1b[K" : "", *after = progress.over ? "" : "\n";
    if (total == 0)
        fprintf(stderr, "%snestor: compiling: the model is read%s", before, after);
    else
        fprintf(stderr, "%snestor: compiling %u of %u kernels%s", before, done, total, after);
    fflush(stderr);
    progress.shown = true;
}

static void hear(void *arg, const char *model, uint32_t done, uint32_t total)
{
    double now = now_ms();
    (void)arg, (void)model;
    if (!progress.begun) {
        progress.begun = true;
        progress.begin_ms = now;
        progress.last_ms = now - EVERY_LINE_MS;
    }
    bool last = total != 0 && done == total;
    if (last && progress.over) {
        tool_progress_clear();
        return;
    }
    if (!progress.at_once && now - progress.begin_ms < AFTER_MS) return;
    if (!last && now - progress.last_ms < (progress.over ? EVERY_MS : EVERY_LINE_MS)) return;
    progress.last_ms = now;
    show(done, total);
}

void tool_progress_ask(const ToolOptions *options, NstEngineOptions *engine)
{
    bool terminal = isatty(STDERR_FILENO) != 0;
    if (options->json || options->quiet || (!terminal && !options->progress)) return;
    progress = (Progress){.at_once = options->progress, .over = terminal && !engine->log};
    engine->progress = hear;
}
