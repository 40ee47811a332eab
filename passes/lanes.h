/* lanes.h: reductions with lanes as two nests without. */
#ifndef NST_PASSES_LANES_H
#define NST_PASSES_LANES_H

#include "passes/nest.h"

typedef struct NstLaneSplit {
    NstNest *sums, *merge; /* to be run in this order */
    NstBuf *partial;       /* one a state: [axes of the nest][lanes] */
    uint32_t n_partial;
} NstLaneSplit;

/* Splits a nest with lanes > 1; false if it has none (or index-lets).  The nest itself stays as it is. */
bool nst_split_lanes(NstModule *module, const NstNest *nest, NstLaneSplit *split);

#endif
