/* gates_main.c: the program of bench/gates.
 *
 * gates [--quick] [--smoke] [--only SUBJECT] [--row TEXT] [--target LEVEL] [--seed N] [--patience SECONDS] [--build FOLDER]
 *       [--known FILE] [--evidence FILE --commit TEXT]
 * --patience: how long a row that falls short may be measured beyond its first rounds, for busy machines.
 * --known: rows that may be unmet, for tests: they are printed as such and do not count.
 * --row: of the convolutions only those whose names hold the text.
 * --target: what rows without one of their own are compiled for, and judged by the peak of; the CPU's best if not given.
 * --evidence: the page to put the table into as this CPU's section; only with all rows at their full values.
 * Prints a table; exit status 1 if a row is unmet, 2 for bad usage. */
#include "bench/gates.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/evidence.h"
#include "ir/base/os.h"

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
    const char *only, *evidence, *commit, *known, *target;
} Options;

typedef struct Start {
    NstGates *g;
    const Options *options;
} Start;

static NstStatus prepare(NstCtx *ctx, void *arg)
{
    NstGates *g = ((const Start *)arg)->g;
    const Options *o = ((const Start *)arg)->options;
    NST_TRY(nst_target_parse(ctx, o->target, &g->host));
    g->peak = g->host.level >= NST_TARGET_AVX512 ? NST_PEAK_FMA_AVX512
              : g->host.level >= NST_TARGET_AVX2 ? NST_PEAK_FMA_AVX2
                                                 : NST_PEAK_MUL_ADD_SSE2;
    NST_CHECK(ctx, nst_peak_available(g->peak), NST_E_UNSUPPORTED, "this CPU cannot run code for %s", o->target);
    if (o->known) NST_TRY(nst_gates_read_known(ctx, g, o->known));
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

/* --- the page of evidence ------------------------------------------------------------------------------------ */

typedef struct Page {
    const char *path;
    NstEvidence section;
} Page;

/* The beginning of /proc/cpuinfo, which tells no size: its first processor. */
static const char *read_cpuinfo(NstArena *arena)
{
    enum { ENOUGH = 8192 };
    char *text = nst_alloc(arena, ENOUGH);
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file) return text;
    text[fread(text, 1, ENOUGH - 1, file)] = '\0';
    fclose(file);
    return text;
}

static NstStatus write_page(NstCtx *ctx, void *arg)
{
    const Page *page = arg;
    char *old;
    size_t size;
    const char *merged;
    NST_TRY(nst_os_read_file(ctx, ctx->arena, page->path, 1 << 24, &old, &size));
    NST_TRY(nst_evidence_merge(ctx, old, &page->section, &merged));
    FILE *file = fopen(page->path, "w");
    NST_CHECK(ctx, file, NST_E_IO, "%s cannot be written", page->path);
    bool written = fputs(merged, file) >= 0;
    written = fclose(file) == 0 && written;
    NST_CHECK(ctx, written, NST_E_IO, "%s was not written to its end", page->path);
    return NST_OK;
}

static NstStatus write_evidence(NstGates *g, const Options *o, const char *table)
{
    char date[32];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    const char *cpu = nst_evidence_cpu(g->ctx.arena, read_cpuinfo(g->ctx.arena), nst_target_level_name(g->host.level));
    Page page = {.path = o->evidence, .section = {.cpu = cpu, .commit = o->commit, .date = date, .table = table}};
    return nst_guard(&g->ctx, write_page, &page);
}

/* --- options ------------------------------------------------------------------------------------------------- */

static int usage(void)
{
    fprintf(stderr, "usage: gates [--quick] [--smoke] [--only SUBJECT] [--row TEXT] [--target LEVEL] [--seed N]"
                    " [--patience SECONDS] [--build FOLDER] [--known FILE] [--evidence FILE --commit TEXT]\nsubjects:");
    for (size_t k = 0; k < N_SUBJECTS; k++) fprintf(stderr, " %s", subjects[k].name);
    fprintf(stderr, "\n");
    return 2;
}

static bool read_seconds(const char *text, double *seconds)
{
    const char *end = nst_parse_double(text, seconds);
    return end && !*end && *seconds >= 0 && *seconds <= 3600;
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
        if (strcmp(word, "--target") == 0) text = &o->target;
        if (strcmp(word, "--build") == 0) text = &g->build;
        if (strcmp(word, "--known") == 0) text = &o->known;
        if (strcmp(word, "--evidence") == 0) text = &o->evidence;
        if (strcmp(word, "--commit") == 0) text = &o->commit;
        const char *value = words[++k];
        if (text)
            *text = value;
        else if (strcmp(word, "--seed") == 0)
            g->seed = strtoull(value, NULL, 10);
        else if (strcmp(word, "--patience") != 0 || !read_seconds(value, &g->patience))
            return false;
    }
    if (o->evidence && (g->quick || o->only || g->row || o->known || strcmp(o->target, "host") != 0)) {
        fprintf(stderr, "gates: a page of evidence takes all rows at full values:"
                        " no --quick, --smoke, --only, --row, --known or --target with --evidence\n");
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
    NstGates g = {.seed = (uint64_t)time(NULL) % 100000, .build = "build/release", .patience = 1};
    Options o = {.commit = "unknown", .target = "host"};
    Start start = {.g = &g, .options = &o};
    if (!read_options(n, words, &g, &o)) return usage();
    if (nst_ctx_init(&g.ctx) != NST_OK) return 2;
    int result = 2;
    if (nst_guard(&g.ctx, prepare, &start) == NST_OK) {
        NstText table;
        nst_text_init(&table, g.ctx.arena);
        run_subjects(&g, o.only);
        result = nst_gates_table(&g, &table) ? 1 : 0;
        fputs(nst_text_get(&table), stdout);
        if (o.evidence && write_evidence(&g, &o, nst_text_get(&table)) != NST_OK) result = 2;
    }
    if (result == 2) fprintf(stderr, "gates: %s\n", g.ctx.error);
    dispose(&g);
    return result;
}
