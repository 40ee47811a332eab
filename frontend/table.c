/* table.c: the files of ops/ as data, and lookups. */
#include "frontend/schema.h"

#include <string.h>

/* Prototypes of the functions the rows name. */
#define OP(name, since, signature, attributes, types, how, tolerance) D_##how
#define WAS(name, since, how, signature, attributes, types)           D_##how
#define D_MAP(formula)
#define D_LOWER(fn, text) void nst_onnx_##fn(NstLower *c, const char *arg);
#define D_ADAPT(fn, text) void nst_adapt_##fn(NstLower *c, const char *arg);
#define D_SAME
#define D_NOT_YET
#define D_GONE
void nst_onnx_map(NstLower *c, const char *arg);
#include "frontend/ops/all.def"
#undef OP
#undef WAS

#define OP(name, since, signature, attributes, types, how, tolerance)                                                  \
    {DOMAIN, #name, since, signature, attributes, types, I_##how, true, NST_TOL_##tolerance},
#define WAS(name, since, how, signature, attributes, types)                                                            \
    {DOMAIN, #name, since, signature, attributes, types, I_##how, false, NST_TOL_EXACT},
#define I_MAP(formula)    NST_ROW_LOWER, nst_onnx_map, formula
#define I_LOWER(fn, text) NST_ROW_LOWER, nst_onnx_##fn, text
#define I_ADAPT(fn, text) NST_ROW_ADAPT, nst_adapt_##fn, text
#define I_SAME            NST_ROW_SAME, NULL, NULL
#define I_NOT_YET         NST_ROW_NOT_YET, NULL, NULL
#define I_GONE            NST_ROW_GONE, NULL, NULL
static const NstOpRow table[] = {
#include "frontend/ops/all.def"
};
#define N_ROWS ((int)(sizeof table / sizeof *table))

int nst_op_rows(const NstOpRow **rows)
{
    *rows = table;
    return N_ROWS;
}

/* Position of the newest row of an operator, or -1. */
static int find_newest(const char *domain, const char *name)
{
    for (int k = 0; k < N_ROWS; k++)
        if (table[k].newest && strcmp(table[k].name, name) == 0 && strcmp(table[k].domain, domain) == 0) return k;
    return -1;
}

const NstOpRow *nst_op_find(const char *domain, const char *name, int64_t opset)
{
    int at = find_newest(domain, name);
    if (at < 0) return NULL;
    for (int k = at; k < N_ROWS && (k == at || !table[k].newest); k++)
        if (table[k].since <= opset) return &table[k];
    return NULL;
}

int nst_op_first_version(const char *domain, const char *name)
{
    int at = find_newest(domain, name);
    if (at < 0) return 0;
    while (at + 1 < N_ROWS && !table[at + 1].newest) at++;
    return table[at].since;
}

bool nst_op_is_implemented(const NstOpRow *row)
{
    for (; !row->newest && row->how != NST_ROW_LOWER; row--)
        if (row->how != NST_ROW_SAME && row->how != NST_ROW_ADAPT) return false;
    return row->how == NST_ROW_LOWER;
}

const char *nst_op_signature(const NstOpRow *row)
{
    while (!row->signature) row--;
    return row->signature;
}

const char *nst_op_attributes(const NstOpRow *row)
{
    while (!row->attributes) row--;
    return row->attributes;
}

const char *nst_op_types(const NstOpRow *row)
{
    while (!row->types) row--;
    return row->types;
}
