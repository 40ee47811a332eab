/* gates_main.c: the program of bench/gates.
 *
 * gates [--quick] [--smoke] [--only SUBJECT] [--row TEXT] [--seed N] [--build FOLDER] [--known FILE]
 *       [--evidence FILE --commit TEXT]
 * --known: rows that may be unmet, for tests: they are printed as such and do not count.
 * --row: of the convolutions only those whose names hold the text.
 * Prints a table; exit status 1 if a row is unmet, 2 for bad usage. */
#include "bench/gates.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *name;
    void (*run)(NstGates *g);
} subjects[] = {{"products", nst_gates_products}, {"convolutions", nst_gates_convolutions},
                {"rows", nst_gates_rows},         {"attention", nst_gates_attention},
                {"lstm", nst_gates_lstm},         {"integer", nst_gates_integer},
                {"symbolic", nst_gates_symbolic}, {"maps", nst_gates_maps},
                {"warm", nst_gates_warm},         {"compile", nst_gates_compile},
                {"trees", nst_gates_trees}};
#define N_SUBJECTS (sizeof subjects / sizeof *subjects)

typedef struct Options {
    const char *only, *evidence, *commit, *known;
} Options;

static NstStatus prepare(NstCtx *ctx, void *arg)
{
    NstGates *g = arg;
    NST_TRY(nst_target_parse(ctx, "host", &g->host));
    g->peak = nst_peak_available(NST_PEAK_FMA_AVX512) ? NST_PEAK_FMA_AVX512
              : nst_peak_available(NST_PEAK_FMA_AVX2) ? NST_PEAK_FMA_AVX2
                                                      : NST_PEAK_MUL_ADD_SSE2;
    for (int t = 0; t < 2; t++) NST_TRY(nst_pool_new(t + 1, &g->pool[t]));
    if (nst_ort_load(ctx, NULL, &g->ort) != NST_OK) {
        g->ort_missing = nst_strdup(ctx->arena, ctx->error);
        nst_ctx_clear(ctx);
    }
    if (nst_onednn_load(ctx, 1, &g->onednn) != NST_OK) {
        g->onednn_missing = nst_strdup(ctx->arena, ctx->error);
        nst_ctx_clear(ctx);
    }
    return NST_OK;
}

static void run_subjects(NstGates *g, const char *only)
{
    for (size_t k = 0; k < N_SUBJECTS; k++) {
        if (only && strcmp(only, subjects[k].name) != 0) continue;
        time_t start = time(NULL);
        fprintf(stderr, "%s\n", subjects[k].name);
        subjects[k].run(g);
        fprintf(stderr, "%s took %ld s\n", subjects[k].name, (long)(time(NULL) - start));
    }
    char note[256];
    snprintf(note, sizeof note, "%d cases compared%s%s", g->cases_compared, g->cases_differ ? "; first: " : "",
             g->first_difference);
    if (g->cases_compared)
        nst_gates_most(g, "cases whose bits differ on 1 and 2 threads", g->cases_differ, 0, "", note);
}

static void cpu_model(char *text, size_t n)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(text, n, "unknown CPU");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "model name", 10) != 0) continue;
        const char *at = strchr(line, ':');
        snprintf(text, n, "%.*s", (int)strcspn(at + 2, "\n"), at + 2);
        break;
    }
    if (file) fclose(file);
}

static int write_evidence(const NstGates *g, const Options *o)
{
    char cpu[128], date[32];
    time_t now = time(NULL);
    FILE *file = fopen(o->evidence, "w");
    if (!file) {
        fprintf(stderr, "gates: %s cannot be written\n", o->evidence);
        return 2;
    }
    cpu_model(cpu, sizeof cpu);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    fprintf(file, "# Evidence\n\nWritten by `bench/gates --write`, never by hand. Commit %s, %s, %s.\n\n", o->commit,
            cpu, date);
    nst_gates_print(g, file);
    return fclose(file) == 0 ? 0 : 2;
}

static int usage(void)
{
    fprintf(stderr, "usage: gates [--quick] [--smoke] [--only SUBJECT] [--row TEXT] [--seed N]"
                    " [--build FOLDER] [--known FILE] [--evidence FILE --commit TEXT]\nsubjects:");
    for (size_t k = 0; k < N_SUBJECTS; k++) fprintf(stderr, " %s", subjects[k].name);
    fprintf(stderr, "\n");
    return 2;
}

static bool read_options(int n, char **words, NstGates *g, Options *o)
{
    for (int k = 1; k < n; k++) {
        const char *word = words[k], **text = NULL;
        if (strcmp(word, "--quick") == 0 || strcmp(word, "--smoke") == 0) {
            g->quick = true;
            g->smoke |= strcmp(word, "--smoke") == 0;
            continue;
        }
        if (k + 1 == n) return false;
        if (strcmp(word, "--only") == 0) text = &o->only;
        if (strcmp(word, "--row") == 0) text = &g->row;
        if (strcmp(word, "--build") == 0) text = &g->build;
        if (strcmp(word, "--known") == 0) text = &o->known;
        if (strcmp(word, "--evidence") == 0) text = &o->evidence;
        if (strcmp(word, "--commit") == 0) text = &o->commit;
        const char *value = words[++k];
        if (text)
            *text = value;
        else if (strcmp(word, "--seed") == 0)
            g->seed = strtoull(value, NULL, 10);
        else
            return false;
    }
    bool known = o->only == NULL;
    for (size_t k = 0; k < N_SUBJECTS; k++) known |= o->only && strcmp(o->only, subjects[k].name) == 0;
    return known;
}

static void dispose(NstGates *g)
{
    nst_ort_unload(g->ort);
    nst_onednn_unload(g->onednn);
    for (int t = 0; t < 2; t++) nst_pool_free(g->pool[t]);
    nst_ctx_dispose(&g->ctx);
}

int main(int n, char **words)
{
    NstGates g = {.seed = (uint64_t)time(NULL) % 100000, .build = "build/release"};
    Options o = {.commit = "unknown"};
    if (!read_options(n, words, &g, &o)) return usage();
    if (nst_ctx_init(&g.ctx) != NST_OK) return 2;
    int result = 2;
    if (nst_guard(&g.ctx, prepare, &g) == NST_OK && (!o.known || nst_gates_read_known(&g.ctx, &g, o.known) == NST_OK)) {
        run_subjects(&g, o.only);
        result = nst_gates_print(&g, stdout) ? 1 : 0;
        if (o.evidence && write_evidence(&g, &o) != 0) result = 2;
    } else {
        fprintf(stderr, "gates: %s\n", g.ctx.error);
    }
    dispose(&g);
    return result;
}
