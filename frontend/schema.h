/* schema.h: the operator table: what a node of each operator and version may look like, and how it becomes primitives.
 *
 * Rows stand in the files of ops/ (form: ops/all.def).  Rows of an operator lie together, newest first, so that row[-1] of a row
 * that is not `newest` is the next newer version. */
#ifndef NST_FRONTEND_SCHEMA_H
#define NST_FRONTEND_SCHEMA_H

#include "ir/type.h"
#include "ir/base/status.h"

typedef struct NstLower NstLower; /* lower.h */
typedef void (*NstLowerFn)(NstLower *c, const char *arg);

typedef enum NstRowHow {
    NST_ROW_LOWER,   /* fn(c, arg) builds it: the newest row, or an old one of an operator that was removed */
    NST_ROW_SAME,    /* old row: a node of the next newer version as it stands */
    NST_ROW_ADAPT,   /* old row: fn(c, arg) makes it one */
    NST_ROW_NOT_YET, /* not implemented */
    NST_ROW_GONE     /* removed from the standard */
} NstRowHow;

typedef enum NstTolerance { NST_TOL_EXACT, NST_TOL_REL, NST_TOL_SUM, NST_TOL_RAND, NST_TOL_SET } NstTolerance;

typedef struct NstOpRow {
    const char *domain, *name;
    int since;
    const char *signature, *attributes, *types; /* NULL: as row[-1] */
    NstRowHow how;
    NstLowerFn fn;
    const char *arg;
    bool newest;
    NstTolerance tolerance; /* of the newest row */
} NstOpRow;

/* One input or output of a signature. */
typedef struct NstFormal {
    const char *name, *type; /* n characters each; type: a variable or an element type */
    int name_n, type_n;
    bool optional, variadic, mixed;
} NstFormal;

#define NST_MAX_FORMALS 24
typedef struct NstSignature {
    int n_in, n_out;
    NstFormal in[NST_MAX_FORMALS], out[NST_MAX_FORMALS];
} NstSignature;

/* One attribute of a row.  text points at the default (default_n characters). */
typedef struct NstAttrFormal {
    const char *name, *kind, *text;
    int name_n, kind_n, text_n;
    bool required, has_default;
} NstAttrFormal;

/* All rows; returns how many. */
int nst_op_rows(const NstOpRow **rows);
/* The row of the newest version that is at most `opset`, or NULL. */
const NstOpRow *nst_op_find(const char *domain, const char *name, int64_t opset);
/* The first version of that operator, 0 if there is none of that name. */
int nst_op_first_version(const char *domain, const char *name);
/* Whether a node of this row can be lowered: it and all newer rows are implemented. */
bool nst_op_is_implemented(const NstOpRow *row);

const char *nst_op_signature(const NstOpRow *row);
const char *nst_op_attributes(const NstOpRow *row);
const char *nst_op_types(const NstOpRow *row);

/* Parses; false if the text does not follow the form (tests ask for every row). */
bool nst_signature_parse(const char *text, NstSignature *signature);
/* Reads the attribute at *p and moves *p behind it; false at the end or, with *ok false, where the form is broken. */
bool nst_attr_formal_next(const char **p, NstAttrFormal *formal, bool *ok);
/* Whether a set like "num-bf16+b1" holds an element type. */
bool nst_type_set_has(const char *set, size_t n, NstDtype type);

/* A node as the check sees it: types of inputs (NULL: absent), number of inputs and outputs. */
typedef struct NstNodeShape {
    const char *label; /* "Conv 'c1'" */
    const NstType *const *in;
    int n_in, n_out;
} NstNodeShape;
/* Checks number, presence, kinds and element types of inputs.  Errors: NST_E_MODEL, NST_E_TYPE. */
NstStatus nst_op_check(NstCtx *ctx, const NstOpRow *row, const NstNodeShape *node) NST_MUST_CHECK;

#endif
