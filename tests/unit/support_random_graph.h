/* support_random_graph.h: random graphs for differential tests: seeded, small shapes with sizes 0 and 1, rank 0 and symbols,
 * every primitive but host, every element type but str and complex.  They verify, and run without error.
 *
 * Two runs may differ in the bits of a NaN only: compare with random_same_bits.  (Floats are bitcast to ints only where they
 * cannot be NaN.) */
#ifndef NST_TESTS_UNIT_SUPPORT_RANDOM_GRAPH_H
#define NST_TESTS_UNIT_SUPPORT_RANDOM_GRAPH_H

#include "ir/build.h"

typedef struct RandomOptions {
    uint64_t seed;
    int n_nodes;     /* primitives drawn (helpers come on top), 0 = 8 */
    uint32_t prims;  /* bit of NstPrim: may be drawn; 0 = all but host */
    uint32_t dtypes; /* bit of NstDtype: may be drawn; 0 = all but str and complex */
    bool fixed;      /* no symbols in shapes */
    /* What shows the order of sums: floats with all bits of their mantissa and none of them special, sizes to 70 (symbols may be
     * up to 4096), and half of the time a whole pattern (norm, softmax, pool, product, convolution...) for a primitive. */
    bool rounding;
} RandomOptions;

/* How often a primitive gave an output of a type (assert: took an input). */
typedef struct RandomCounts {
    uint64_t of[NST_PRIM_COUNT][NST_DTYPE_COUNT];
} RandomCounts;

/* Whether the generator can draw this pair at all: what a test may demand a count of. */
bool random_graph_covers(NstPrim prim, NstDtype dtype);

/* A verified graph of that seed; adds to *counts (may be NULL). */
NstGraph *random_graph(NstCtx *ctx, NstArena *arena, const RandomOptions *options, RandomCounts *counts);

/* Inputs for a graph: sizes of its symbols are drawn from 1..5 (within their bounds), elements small or special values
 * (zeros of both signs, infinities, NaN, limits); integer scalars are in 0..7.  Entries: the graph's params.  sym, of
 * nst_dims_sym_count + 1 entries, gets the sizes (may be NULL). */
void random_inputs(NstCtx *ctx, NstArena *arena, const NstGraph *graph, uint64_t seed, NstTensorValue *input,
                   int64_t *sym);
/* The same for a graph made with `rounding`, of those options. */
void random_rounding_inputs(NstCtx *ctx, NstArena *arena, const NstGraph *graph, const RandomOptions *options,
                            NstTensorValue *input, int64_t *sym);

/* Same type, shape and bits, any NaN being equal to any NaN; false writes the first difference to what[n]. */
bool random_same_bits(const NstTensorValue *a, const NstTensorValue *b, char *what, size_t n);

#endif
