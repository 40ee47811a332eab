/* operators.c: docs/OPERATORS.md out of the operator table.
 *
 *     operators --tsv                   prints the table: domain, operator, version, state, signature, attributes, types
 *     operators --check FILE PROOFS     exit status 1 if FILE holds another text than the page; PROOFS: tests (proofs.py)
 *     operators --write FILE PROOFS */
#include <stdlib.h>
#include <string.h>
#include "frontend/schema.h"
#include "ir/base/os.h"
#include "ir/base/str.h"

static const char head[] =
    "# Operators\n\n"
    "Written by `operators --write` out of the operator table (frontend/ops), checked by a test; nobody edits it.\n"
    "A version is in force up to the next one. Types: groups of frontend/ops/all.def. *not yet*: import answers with\n"
    "NST_E_UNSUPPORTED naming operator, version and node.\n\n"
    "Random operators (Bernoulli, Multinomial, Random*) draw from Philox 4x32-10 keyed by the attribute seed, or "
    "without one\n"
    "by the node's name: every run of a model gives the same numbers. They are not those of other engines.\n\n";

static void print_operator(NstText *text, const NstOpRow *row, const NstOpRow *end)
{
    int since = 0;
    for (const NstOpRow *r = row; r < end && (r == row || !r->newest); r++)
        if (nst_op_is_implemented(r)) since = r->since;
    nst_text_add(text, "| %s | %d | ", row->name, row->since);
    if (row->how == NST_ROW_GONE)
        nst_text_add(text, "removed");
    else if (since)
        nst_text_add(text, "%d to %d", since, row->since);
    else
        nst_text_add(text, "not yet");
    nst_text_add(text, " | `%s` | %s%s%s | %s |\n", nst_op_signature(row), *nst_op_attributes(row) ? "`" : "",
                 nst_op_attributes(row), *nst_op_attributes(row) ? "`" : "", nst_op_types(row));
}

static void print_page(NstText *text)
{
    const NstOpRow *rows, *end;
    int n = nst_op_rows(&rows), ops = 0, done = 0, versions = 0;
    const char *domain = "";
    end = rows + n;
    for (const NstOpRow *r = rows; r < end; r++) {
        ops += r->newest;
        done += r->newest && nst_op_is_implemented(r);
        versions += nst_op_is_implemented(r);
    }
    nst_text_add(text, "%s%d of %d operators, %d of %d versions.\n", head, done, ops, versions, n);
    for (const NstOpRow *r = rows; r < end; r++) {
        if (strcmp(domain, r->domain) != 0) {
            domain = r->domain;
            nst_text_add(
                text,
                "\n## %s\n\n| operator | newest | versions that run | inputs -> outputs | attributes | types |\n"
                "| --- | --- | --- | --- | --- | --- |\n",
                domain);
        }
        if (r->newest) print_operator(text, r, end);
    }
}

static const char tests_head[] =
    "\n## Tests\n\n"
    "The tests that prove each version that runs, and the types that none does (they run as far as the table says, or "
    "are\n"
    "refused by name). `test_*`: official cases of the package onnx; `types_*`: official cases rewritten to that "
    "version and\n"
    "to each type (tests/onnx/make_types.py); `cases.txt`: tests/onnx/cases.txt. Each runs interpreted, and compiled "
    "on one\n"
    "and two threads. Written out of tests/onnx/proofs.tsv, which `onnx_proofs` holds against what passed.\n\n"
    "| operator | version | tests | types without a test |\n"
    "| --- | --- | --- | --- |\n";

/* The next cell of a line, which ends at a tab or at the line's end. */
static const char *next_cell(const char **at, int *n)
{
    const char *cell = *at;
    *n = (int)strcspn(cell, "\t\n");
    *at += *n + (cell[*n] == '\t');
    return cell;
}

static void print_tests(NstText *text, const char *proofs)
{
    nst_text_add(text, "%s", tests_head);
    for (const char *line = proofs; *line; line += strcspn(line, "\n") + 1) {
        int n[5];
        const char *cell[5], *at = line;
        if (*line == '#') continue;
        for (int k = 0; k < 5; k++) cell[k] = next_cell(&at, &n[k]);
        bool plain = n[0] == 7; /* ai.onnx */
        nst_text_add(text, "| %.*s%s%.*s | %.*s | %.*s | %.*s |\n", plain ? 0 : n[0], cell[0], plain ? "" : " ", n[1],
                     cell[1], n[2], cell[2], n[3], cell[3], n[4], cell[4]);
    }
}

/* "T=num-bf16+seq" as "T=+f32+f64..+seq" */
static void print_types(NstText *text, const char *types)
{
    static const char *const kinds[] = {"seq", "optseq", "opt", "map"};
    for (const char *p = types; *p;) {
        const char *set = strchr(p, '=') + 1;
        size_t n = strcspn(set, " ");
        nst_text_add(text, "%.*s", (int)(set - p), p);
        for (int t = 1; t < NST_DTYPE_COUNT; t++)
            if (nst_type_set_has(set, n, (NstDtype)t)) nst_text_add(text, "+%s", nst_dtype_info((NstDtype)t)->name);
        for (const char *word = set; word < set + n; word += strcspn(word, "+-") + 1)
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
                if (strcspn(word, "+- ") == strlen(kinds[k]) && strncmp(word, kinds[k], strlen(kinds[k])) == 0)
                    nst_text_add(text, "+%s", kinds[k]);
        p = set + n + (set[n] == ' ');
        if (*p) nst_text_add(text, " ");
    }
}

static void print_tsv(NstText *text)
{
    const NstOpRow *rows;
    int n = nst_op_rows(&rows);
    for (const NstOpRow *r = rows; r < rows + n; r++) {
        const char *state = r->how == NST_ROW_GONE ? "gone" : nst_op_is_implemented(r) ? "runs" : "not yet";
        nst_text_add(text, "%s\t%s\t%d\t%s\t%s\t%s\t", r->domain, r->name, r->since, state, nst_op_signature(r),
                     nst_op_attributes(r));
        print_types(text, nst_op_types(r));
        nst_text_add(text, "\n");
    }
}

int main(int argc, char **argv)
{
    NstCtx ctx;
    NstText page;
    int result = 0;
    if (nst_ctx_init(&ctx) != NST_OK) return 2;
    nst_text_init(&page, ctx.arena);
    char *bytes;
    size_t n;
    if (argc == 4) {
        print_page(&page);
        if (nst_os_read_file(&ctx, ctx.arena, argv[3], 1 << 24, &bytes, &n) != NST_OK) {
            fprintf(stderr, "%s\n", ctx.error);
            return 2;
        }
        print_tests(&page, nst_copy_text(ctx.arena, bytes, n));
    } else {
        print_tsv(&page);
    }
    if (argc == 4 && strcmp(argv[1], "--check") == 0) {
        if (nst_os_read_file(&ctx, ctx.arena, argv[2], 1 << 24, &bytes, &n) != NST_OK || n != page.n ||
            memcmp(bytes, page.at, n) != 0) {
            fprintf(stderr, "%s is not what the operator table says: run `operators --write %s %s`\n", argv[2], argv[2],
                    argv[3]);
            result = 1;
        }
    } else if (argc == 4 && strcmp(argv[1], "--write") == 0) {
        FILE *file = fopen(argv[2], "wb");
        result = !file || fwrite(page.at, 1, page.n, file) != page.n;
        if (file) result |= fclose(file) != 0;
    } else {
        fwrite(nst_text_get(&page), 1, page.n, stdout);
    }
    nst_ctx_dispose(&ctx);
    return result;
}
