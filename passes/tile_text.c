/* tile_text.c: the text form of a register-tile schedule. */
#include "passes/sched.h"

static const char *const parallel_names[] = {"none", "outer", "rows", "cols"};

void nst_tile_schedule_print(NstText *text, const NstTileSchedule *s)
{
    nst_text_add(
        text,
        "tile row_axis=%d col_axis=%d rows=%d vectors=%d lanes=%d columns=%d k_outer=%d k_block=%lld col_block=%lld "
        "padded=%d "
        "prefetch=%d taps=%d sweep=%d plane_axis=%d planes=%d rows_outside=%d inside=%u parallel=%s parallel_axis=%d "
        "row_chunks=%d next_block=%d next_rows=%d",
        s->row_axis, s->col_axis, s->rows, s->vectors, s->lanes, s->columns, s->k_outer, (long long)s->k_block,
        (long long)s->col_block, s->padded, s->prefetch, s->taps, s->sweep, s->plane_axis, s->planes, s->rows_outside,
        s->inside, parallel_names[s->parallel], s->parallel_axis, s->row_chunks, s->next_block, s->next_rows);
    if (s->matrix) nst_text_add(text, " matrix=%s", s->matrix->name);
}

typedef struct Field {
    const char *name;
    int64_t *value;
} Field;

NstStatus nst_tile_schedule_parse(NstCtx *ctx, const char *text, NstTileSchedule *s)
{
    int64_t v[21] = {-1, -1, 1, 1, 1, 0, 0, 0, 0, 0, 0, -1, 0, 0, 0, -1, 1, 0};
    const Field fields[] = {{"row_axis", &v[0]},    {"col_axis", &v[1]},    {"rows", &v[2]},
                            {"vectors", &v[3]},     {"lanes", &v[4]},       {"k_outer", &v[5]},
                            {"k_block", &v[6]},     {"col_block", &v[7]},   {"padded", &v[8]},
                            {"prefetch", &v[9]},    {"inside", &v[10]},     {"parallel_axis", &v[11]},
                            {"row_chunks", &v[12]}, {"taps", &v[13]},       {"sweep", &v[14]},
                            {"plane_axis", &v[15]}, {"planes", &v[16]},     {"rows_outside", &v[17]},
                            {"columns", &v[18]},    {"next_block", &v[19]}, {"next_rows", &v[20]}};
    *s = (NstTileSchedule){0};
    NST_CHECK(ctx, strncmp(text, "tile", 4) == 0, NST_E_PARSE, "a schedule starts with 'tile', not '%.16s'", text);
    for (const char *p = text + 4; *p;) {
        while (*p == ' ') p++;
        if (!*p) break;
        size_t n = strcspn(p, "= ");
        NST_CHECK(ctx, p[n] == '=', NST_E_PARSE, "schedule field '%.*s' has no value", (int)n, p);
        const char *value = p + n + 1;
        size_t used = strcspn(value, " ");
        bool known = false;
        for (size_t f = 0; f < sizeof fields / sizeof *fields && !known; f++)
            if (strlen(fields[f].name) == n && memcmp(fields[f].name, p, n) == 0)
                known = nst_parse_int(value, fields[f].value) == value + used;
        for (size_t f = 0; f < 4 && !known && n == 8 && memcmp(p, "parallel", 8) == 0; f++)
            if (strlen(parallel_names[f]) == used && memcmp(parallel_names[f], value, used) == 0) {
                s->parallel = (NstParallelBy)f;
                known = true;
            }
        for (int k = 0; k < NST_INSN_COUNT && !known && n == 6 && memcmp(p, "matrix", 6) == 0; k++) {
            const NstTensorInsnInfo *insn = nst_tensor_insn((NstTensorInsn)k);
            known = insn->matrix_rows && strlen(insn->name) == used && memcmp(insn->name, value, used) == 0;
            if (known) s->matrix = insn;
        }
        NST_CHECK(ctx, known, NST_E_PARSE, "schedule field '%.*s' is unknown or has a bad value", (int)(n + 1 + used),
                  p);
        p = value + used;
    }
    s->row_axis = (int)v[0], s->col_axis = (int)v[1], s->rows = (int)v[2], s->vectors = (int)v[3], s->lanes = (int)v[4];
    s->k_outer = (int)v[5], s->k_block = v[6], s->col_block = v[7], s->padded = v[8] != 0, s->prefetch = (int)v[9];
    s->inside = (uint32_t)v[10], s->parallel_axis = (int)v[11], s->row_chunks = (int)v[12];
    s->taps = (int)v[13], s->sweep = v[14] != 0, s->plane_axis = (int)v[15], s->planes = (int)v[16];
    s->next_block = v[19] != 0, s->next_rows = v[20] != 0;
    s->rows_outside = v[17] != 0, s->columns = v[18] ? (int)v[18] : s->lanes;
    NST_CHECK(ctx,
              s->rows >= 1 && s->vectors >= 1 && s->lanes >= 1 && s->columns >= 1 && s->columns <= s->lanes &&
                  s->rows * s->vectors <= 64 && s->col_axis >= 0,
              NST_E_PARSE,
              "schedule tile %d x %d x %d, columns along axis %d: rows, vectors and lanes are at least 1, rows x "
              "vectors at most 64, the axis is at least 0",
              s->rows, s->vectors, s->lanes, s->col_axis);
    return NST_OK;
}
