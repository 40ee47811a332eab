/* ml.h: what lowerings of classical models share (ml.c, svm.c, trees.c). */
#ifndef NST_FRONTEND_LOWER_ML_H
#define NST_FRONTEND_LOWER_ML_H

#include "frontend/lower.h"

/* A list attribute of numbers as a constant vector, or none. */
V numbers_attr(NstLower *c, const char *name, NstDtype to);
/* f64 as it is, all else as f32. */
V as_score(NstLower *c, V x);
/* x as [N, F]; a vector is one row. */
V as_rows(NstLower *c, V x);
/* "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO" of scores' last axis. */
V post_transform(NstLower *c, const char *name, V x);
/* The labels of classes: integers or strings. */
V labels_attr(NstLower *c, const char *ints, const char *strings);
/* Place of the first greatest score of each row. */
V first_largest(NstLower *c, V x);
/* Scores [N, 2] of two labels from the second's score, with *place of the label: above 0.5 of a probability, whose complement
 * is the first's; else above 0, and the first's is the negative before the transform. */
V two_of_one(NstLower *c, V score, const char *transform, bool is_probability, V *place);

#endif
