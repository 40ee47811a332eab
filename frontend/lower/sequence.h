/* sequence.h: sequences and optionals while a model is imported: lists of parts (sequence.c says how they are kept), and what
 * control flow needs to carry them: the tensors in them (leaves), in order. */
#ifndef NST_FRONTEND_LOWER_SEQUENCE_H
#define NST_FRONTEND_LOWER_SEQUENCE_H

#include "frontend/lower.h"

enum {
    PART_ONE = 's',   /* an element */
    PART_STACK = 'm', /* elements stacked along a new first axis */
    PART_BEFORE =
        'o' /* in the body of a loop: what the sequence had before (its value stands for it, and means nothing) */
};

typedef struct Parts {
    NstTypeKind kind; /* SEQUENCE or OPTIONAL */
    NstDtype dtype;   /* of the elements */
    int n;
    const V *at;
    const char *how; /* n letters */
} Parts;

/* A new sequence or optional of these parts. */
V parts_value(NstLower *c, NstTypeKind kind, NstDtype dtype, int n, const V *part, const char *how);
/* A sequence of elements. */
V sequence_of(NstLower *c, NstDtype dtype, int n, const V *element);
/* Whether a value is a sequence or an optional. */
bool is_parts(NstLower *c, V v);
Parts parts_of(NstLower *c, V v);
/* The parts with stacks taken apart.  Fails where that needs a length that is not known. */
Parts elements_of(NstLower *c, V v);

int count_leaves(NstLower *c, V v);
/* Writes the leaves of v; returns behind the last. */
V *put_leaves(NstLower *c, V v, V *leaf);
/* A value of the structure of `like` with other leaves; moves *leaf behind them. */
V with_leaves(NstLower *c, V like, const V **leaf);
bool same_structure(NstLower *c, V a, V b);

#endif
