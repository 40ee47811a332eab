/* model_set.h: the models that tools/models.py brought, and inputs for them. */
#ifndef NST_BENCH_MODEL_SET_H
#define NST_BENCH_MODEL_SET_H

#include <stdio.h>
#include "ir/base/status.h"
#include "nestor/session.h"

#define NST_MODEL_SET_FOLDER "build/models"
#define NST_MODEL_MAX_INPUTS 64
#define NST_MODEL_LINE       4096

/* One row of models.tsv. */
typedef struct NstModelRow {
    char line[NST_MODEL_LINE];
    const char *name;
    char *shapes; /* the first set: words NAME=1x3x224x224[:FILL] (tools/models.py has the form) */
} NstModelRow;

/* Reads the next row; false at the end. */
bool nst_model_row_next(FILE *table, NstModelRow *row);

/* Shapes of the words of a row, for the declared shapes of a session; patterns are matched against `ports`. */
typedef struct NstModelInputs {
    uint32_t n;
    NstInputShape shape[NST_MODEL_MAX_INPUTS];
    const char *filling[NST_MODEL_MAX_INPUTS]; /* "" uniform in [-1, 1), "100" whole numbers below, "=0" that value */
    NstNamedTensor tensor[NST_MODEL_MAX_INPUTS];
} NstModelInputs;

/* Shapes for every input that `names` lists.  row is cut into words and must live as long as inputs.
 * Errors: NST_E_INVALID for a malformed word or an input without one. */
NstStatus nst_model_inputs_shape(NstCtx *ctx, NstModelRow *row, uint32_t n, const char *const *names,
                                 NstModelInputs *inputs) NST_MUST_CHECK;

/* Fills the tensors in the types of the session's inputs.  Owns: ended with nst_model_inputs_free. */
NstStatus nst_model_inputs_fill(NstCtx *ctx, const NstSession *session, NstModelInputs *inputs) NST_MUST_CHECK;
void nst_model_inputs_free(NstModelInputs *inputs);

#endif
