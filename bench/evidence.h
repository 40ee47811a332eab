/* evidence.h: the page docs/EVIDENCE.md: what bench/gates measured, a section a CPU, and a table of all of them at the top.
 *
 * A section is a heading, the CPU as nst_evidence_cpu names it; a line "Commit C, DATE."; and the table of the rows. */
#ifndef NST_BENCH_EVIDENCE_H
#define NST_BENCH_EVIDENCE_H

#include "ir/base/status.h"

typedef struct NstEvidence {
    const char *cpu, *commit, *date;
    const char *table; /* Markdown, as nst_gates_table writes it */
} NstEvidence;

/* "AMD EPYC (family 25, model 17, vnni)": model name and numbers out of the text of /proc/cpuinfo, for clouds give CPUs of
 * several kinds one name; level: of instruction sets. [arena] */
const char *nst_evidence_cpu(NstArena *arena, const char *cpuinfo, const char *level);

/* The page with this section in the place of the one of the same CPU, or behind all if there is none; the other sections stay as
 * they are.  old: the page so far; "" is none.
 * Owns: ctx's arena.  Errors: NST_E_PARSE if the old page is not of this form: nothing may get lost. */
NstStatus nst_evidence_merge(NstCtx *ctx, const char *old, const NstEvidence *section,
                             const char **page) NST_MUST_CHECK;

#endif
