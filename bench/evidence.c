/* evidence.c: splits the page into its sections, replaces one, and makes the table at the top anew out of all. */
#include "bench/evidence.h"

#include <string.h>

#include "ir/base/str.h"
#include "ir/base/vec.h"

static const char head[] = "# Evidence\n\nWritten by `bench/gates --write`, never by hand: a section a CPU, which a "
                           "run on that CPU replaces.\n\n";

/* --- the CPU ------------------------------------------------------------------------------------------------- */

/* What stands behind "key :" where that is first said, "unknown" if it is not. */
static const char *field(NstArena *arena, const char *cpuinfo, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = cpuinfo; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *at = line + n;
        if (strncmp(line, key, n) != 0) continue;
        at += strspn(at, " \t"); /* "model" is not "model name" */
        if (*at != ':') continue;
        at++;
        at += strspn(at, " ");
        return nst_copy_text(arena, at, strcspn(at, "\n"));
    }
    return "unknown";
}

const char *nst_evidence_cpu(NstArena *arena, const char *cpuinfo, const char *level)
{
    return nst_format(arena, "%s (family %s, model %s, %s)", field(arena, cpuinfo, "model name"),
                      field(arena, cpuinfo, "cpu family"), field(arena, cpuinfo, "model"), level);
}

/* --- sections ------------------------------------------------------------------------------------------------ */

typedef NST_VEC(NstEvidence) Sections;

/* The text from `from` up to `end`, which must come before `limit`; *from is then behind it. */
static NstStatus take(NstCtx *ctx, const char **from, const char *limit, const char *end, const char *what,
                      const char **text)
{
    const char *at = strstr(*from, end);
    NST_CHECK(ctx, at && at <= limit, NST_E_PARSE, "the page of evidence: '%.40s' is no %s", *from, what);
    *text = nst_copy_text(ctx->arena, *from, (size_t)(at - *from));
    *from = at + strlen(end);
    return NST_OK;
}

/* The section between `at`, behind its "## ", and `end`. */
static NstStatus read_section(NstCtx *ctx, const char *at, const char *end, NstEvidence *section)
{
    NST_TRY(take(ctx, &at, end, "\n\nCommit ", "heading with its commit", &section->cpu));
    NST_TRY(take(ctx, &at, end, ", ", "commit and date", &section->commit));
    NST_TRY(take(ctx, &at, end, ".\n\n", "date", &section->date));
    while (end > at && end[-1] == '\n') end--;
    section->table = nst_copy_text(ctx->arena, at, (size_t)(end - at));
    return NST_OK;
}

static NstStatus read_sections(NstCtx *ctx, const char *page, Sections *sections)
{
    static const char mark[] = "\n## ";
    const char *at = strstr(page, mark);
    NST_CHECK(ctx, at || !*page, NST_E_PARSE, "the page of evidence has no section '## CPU'");
    while (at) {
        NstEvidence section;
        const char *begin = at + strlen(mark), *next = strstr(begin, mark);
        NST_TRY(read_section(ctx, begin, next ? next : page + strlen(page), &section));
        nst_vec_push(ctx->arena, sections, section);
        at = next;
    }
    return NST_OK;
}

/* Replaces the section of that CPU, or adds it. */
static void place(NstCtx *ctx, Sections *sections, const NstEvidence *section)
{
    for (uint32_t k = 0; k < sections->n; k++) {
        if (strcmp(sections->at[k].cpu, section->cpu) != 0) continue;
        sections->at[k] = *section;
        return;
    }
    nst_vec_push(ctx->arena, sections, *section);
}

/* --- writing ------------------------------------------------------------------------------------------------- */

/* Rows of the table with that verdict, in whatever way it goes on. */
static int count(const char *table, const char *verdict)
{
    int n = 0;
    for (const char *at = table; (at = strstr(at, verdict)); at++) n++;
    return n;
}

NstStatus nst_evidence_merge(NstCtx *ctx, const char *old, const NstEvidence *section, const char **page)
{
    NstText text;
    Sections sections = {0};
    NST_TRY(read_sections(ctx, old, &sections));
    place(ctx, &sections, section);
    nst_text_init(&text, ctx->arena);
    nst_text_add(&text,
                 "%s| CPU | date | commit | met | unmet | not on this CPU |\n| --- | --- | --- | --- | --- | --- |\n",
                 head);
    for (uint32_t k = 0; k < sections.n; k++) {
        const NstEvidence *s = &sections.at[k];
        nst_text_add(&text, "| %s | %s | %s | %d | %d | %d |\n", s->cpu, s->date, s->commit,
                     count(s->table, " | met | "), count(s->table, " | **unmet**"),
                     count(s->table, " | not on this CPU | "));
    }
    for (uint32_t k = 0; k < sections.n; k++) {
        const NstEvidence *s = &sections.at[k];
        nst_text_add(&text, "\n## %s\n\nCommit %s, %s.\n\n%s\n", s->cpu, s->commit, s->date, s->table);
    }
    *page = nst_text_get(&text);
    return NST_OK;
}
