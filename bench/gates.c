/* gates.c: rows of bench/gates and their table. */
#include "bench/gates.h"

#include <string.h>
#include "ir/base/os.h"

/* Smoke halves what is required. */
static double required_of(const NstGates *g, const NstGateRow *row)
{
    if (!g->smoke) return row->required;
    return row->kind == NST_GATE_MOST ? 2 * row->required : row->required / 2;
}

/* As the table shows it: a rate as the share of its peak. */
static double measured_of(const NstGates *g, const NstGateRow *row)
{
    return row->kind == NST_GATE_PEAK ? row->measured / g->peak_rate[row->peak] : row->measured;
}

static bool reaches(const NstGates *g, const NstGateRow *row, double measured)
{
    double required = required_of(g, row);
    if (row->kind == NST_GATE_INFO) return true;
    return row->kind == NST_GATE_MOST ? measured <= required : measured >= required;
}

bool nst_gates_is_met(const NstGates *g, const NstGateRow *row)
{
    return reaches(g, row, measured_of(g, row));
}

/* The second judgement, which only smoke has. */
static bool is_met_by_median_alone(const NstGates *g, const NstGateRow *row)
{
    return g->smoke && !row->missing && row->rounds > 0 && !nst_gates_is_met(g, row) && reaches(g, row, row->typical);
}

static const char *join_notes(NstGates *g, const NstGateRow *row)
{
    if (!row->more) return row->note ? nst_strdup(g->ctx.arena, row->note) : NULL;
    return nst_format(g->ctx.arena, "%s%s%s", row->note ? row->note : "", row->note ? "; " : "", row->more);
}

void nst_gates_add(NstGates *g, NstGateRow row)
{
    row.name = nst_strdup(g->ctx.arena, row.name);
    row.note = join_notes(g, &row);
    row.missing = row.missing ? nst_strdup(g->ctx.arena, row.missing) : NULL;
    if (!row.missing && row.kind == NST_GATE_PEAK && !row.counts_skipped && row.measured > g->peak_rate[row.peak])
        g->peak_rate[row.peak] = row.measured;
    nst_vec_push(g->ctx.arena, &g->rows, row);
    fprintf(stderr, "  %s: %.4g %s%s%s%s%s\n", row.name, row.measured, row.kind == NST_GATE_PEAK ? "GOP/s" : row.unit,
            row.note ? ", " : "", row.note ? row.note : "", row.missing ? ", " : "", row.missing ? row.missing : "");
}

void nst_gates_least(NstGates *g, const char *name, double value, double required, const char *unit, const char *note)
{
    nst_gates_add(
        g,
        (NstGateRow){
            .name = name, .unit = unit, .note = note, .kind = NST_GATE_LEAST, .measured = value, .required = required});
}

void nst_gates_most(NstGates *g, const char *name, double value, double required, const char *unit, const char *note)
{
    nst_gates_add(
        g,
        (NstGateRow){
            .name = name, .unit = unit, .note = note, .kind = NST_GATE_MOST, .measured = value, .required = required});
}

void nst_gates_info(NstGates *g, const char *name, double value, const char *unit, const char *note)
{
    nst_gates_add(g, (NstGateRow){.name = name, .unit = unit, .note = note, .kind = NST_GATE_INFO, .measured = value});
}

void nst_gates_missing(NstGates *g, const char *name, const char *why, bool required)
{
    nst_gates_add(g, (NstGateRow){.name = name,
                                  .unit = "",
                                  .kind = required ? NST_GATE_LEAST : NST_GATE_INFO,
                                  .required = 1,
                                  .missing = why});
}

void nst_gates_absent(NstGates *g, const char *name, const char *what)
{
    nst_gates_add(g, (NstGateRow){.name = name, .unit = "", .kind = NST_GATE_INFO, .missing = what, .absent = true});
}

bool nst_gates_try(NstGates *g, const char *name, NstStatus (*body)(NstCtx *ctx, void *arg), void *arg)
{
    NstCtx ctx;
    if (nst_ctx_init(&ctx) != NST_OK) {
        nst_gates_missing(g, name, "no memory", true);
        return false;
    }
    NstStatus status = nst_guard(&ctx, body, arg);
    if (status != NST_OK)
        nst_gates_missing(g, name, nst_format(g->ctx.arena, "%s: %s", nst_status_name(status), ctx.error), true);
    nst_ctx_dispose(&ctx);
    return status == NST_OK;
}

/* --- the table ----------------------------------------------------------------------------------------------- */

static void print_number(NstText *text, double value, const char *unit)
{
    if (strcmp(unit, "%") == 0)
        nst_text_add(text, "%.1f %%", 100 * value);
    else if (value == (double)(int64_t)value)
        nst_text_add(text, "%.0f %s", value, unit);
    else
        nst_text_add(text, "%.3g %s", value, unit);
}

static const char *verdict(const NstGates *g, const NstGateRow *row)
{
    if (row->absent) return "not on this CPU";
    if (row->kind == NST_GATE_INFO) return "";
    bool met = !row->missing && (nst_gates_is_met(g, row) || is_met_by_median_alone(g, row));
    return met ? "met" : "**unmet**";
}

NstStatus nst_gates_read_known(NstCtx *ctx, NstGates *g, const char *path)
{
    char *bytes;
    size_t n;
    NST_TRY(nst_os_read_file(ctx, g->ctx.arena, path, 1 << 20, &bytes, &n));
    for (char *line = bytes, *end = bytes + n, *next; line < end; line = next) {
        char *stop = memchr(line, '\n', (size_t)(end - line)), *tab;
        NST_CHECK(ctx, stop, NST_E_PARSE, "%s: the last line has no end", path);
        next = stop + 1;
        *stop = '\0';
        if (*line == '#' || line == stop) continue;
        tab = strchr(line, '\t');
        NST_CHECK(ctx, tab && tab > line && tab[1], NST_E_PARSE, "%s: '%s' is not a name, a tab and why", path, line);
        *tab = '\0';
        nst_vec_push(g->ctx.arena, &g->known, line);
    }
    return NST_OK;
}

static bool is_known(const NstGates *g, const char *name)
{
    for (uint32_t k = 0; k < g->known.n; k++)
        if (strcmp(g->known.at[k], name) == 0) return true;
    return false;
}

static bool print_row(const NstGates *g, const NstGateRow *row, NstText *text)
{
    nst_text_add(text, "| %s | ", row->name);
    if (row->missing)
        nst_text_add(text, "not measured: %s", row->missing);
    else
        print_number(text, measured_of(g, row), row->unit);
    if (row->kind == NST_GATE_PEAK && !row->missing) nst_text_add(text, " (%.1f)", row->measured);
    nst_text_add(text, " | ");
    if (row->kind != NST_GATE_INFO && !row->missing) {
        nst_text_add(text, row->kind == NST_GATE_MOST ? "&le; " : "&ge; ");
        print_number(text, required_of(g, row), row->unit);
    }
    const char *word = verdict(g, row);
    bool unmet = strcmp(word, "**unmet**") == 0, known = unmet && is_known(g, row->name);
    nst_text_add(text, " | %s%s | %s", word, known ? " (known)" : "", row->note ? row->note : "");
    if (is_met_by_median_alone(g, row)) {
        nst_text_add(text, "%sjudged by the median of %d rounds beside its %s: ", row->note ? "; " : "", row->rounds,
                     row->kind == NST_GATE_PEAK ? "peak" : "reference");
        print_number(text, row->typical, row->unit);
    }
    nst_text_add(text, " |\n");
    return unmet && !known;
}

int nst_gates_table(const NstGates *g, NstText *text)
{
    int unmet = 0;
    nst_text_add(text, "Peaks of this run (GOP/s, one thread):");
    for (int p = 0; p < NST_PEAK_COUNT; p++)
        if (g->peak_rate[p] > 0) nst_text_add(text, " %s %.1f;", nst_peak_name((NstPeak)p), g->peak_rate[p]);
    nst_text_add(text, "\n\n| row | measured | required | verdict | note |\n| --- | --- | --- | --- | --- |\n");
    for (uint32_t k = 0; k < g->rows.n; k++) unmet += print_row(g, &g->rows.at[k], text);
    nst_text_add(text, "\n%d rows unmet.\n", unmet);
    return unmet;
}
