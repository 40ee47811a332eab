/* support_random_impl.h: what the files of the random graph generator share. */
#ifndef NST_TESTS_UNIT_SUPPORT_RANDOM_IMPL_H
#define NST_TESTS_UNIT_SUPPORT_RANDOM_IMPL_H

#include "tests/unit/support_random_graph.h"

typedef struct Random {
    const RandomOptions *options;
    uint64_t state;
    NstCtx *ctx;
    NstGraph *graph;
    NstBuild build;
    NstSym sym[2];
    int64_t size[2]; /* of those, where floats are for rounding */
    NstVal scalar;   /* an i64 input */
    NstVal pool[64];
    int n_pool;
} Random;

uint64_t random_next(Random *r);
int random_below(Random *r, int n);
bool random_chance(Random *r, int percent);
NstDtype random_dtype(Random *r, bool (*test)(NstDtype type));
bool random_is_compute_number(NstDtype type);
bool random_is_number(NstDtype type);
NstDim random_extent(Random *r);
NstDim random_const_dim(Random *r, int64_t value);
const NstType *random_type(const Random *r, NstVal value);
void random_add(Random *r, NstVal value);
NstVal random_pick(Random *r, bool (*test)(const Random *r, const NstType *type));
NstScalar random_element(Random *r, NstDtype type, bool special);
NstVal random_const(Random *r, NstDtype type, int rank, const NstDim *shape);
NstVal random_indices(Random *r, NstDtype type, int rank, const int64_t *shape, int64_t below);
NstVal random_runtime_start(Random *r, NstDim limit);
/* A formula of result type `want` (NONE = any) over operands of these types. */
NstExpr random_formula(Random *r, const NstDtype *type, uint32_t n, NstDtype want);
/* Builds one node of that kind on values of the pool, or nothing where none suits. */
void random_build(Random *r, NstPrim prim);
NstVal random_window(Random *r, NstVal x);
/* Several nodes that make a pattern of models (support_random_patterns.c). */
void random_pattern(Random *r);
/* support_random_combine.c */
void random_pooling(Random *r, NstVal x, const char *combiner);
void random_reduce(Random *r);
void random_prefix(Random *r);
void random_contract(Random *r);
void random_sort(Random *r);
void random_gather(Random *r);
void random_scatter(Random *r);
void random_compact(Random *r);
void random_if(Random *r);
void random_loop(Random *r);
void random_call(Random *r);

#endif
