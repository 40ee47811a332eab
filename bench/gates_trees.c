/* gates_trees.c: an ensemble of 500 trees of depth 6 as a graph of gathers: no gate, a number to watch. */
#include "bench/gates.h"

#define TREES    500
#define DEPTH    6
#define FEATURES 100
#define NODES    ((1 << DEPTH) - 1) /* inner nodes of a perfect tree */
#define LEAVES   (1 << DEPTH)

typedef struct Ensemble {
    NstGates *g;
    const char *name;
    int rows;
} Ensemble;

/* Level by level, node numbers of all trees at once: j = 2 j + 1 or 2. */
static const char *text_of(NstCtx *ctx, int rows)
{
    NstText t;
    nst_text_init(&t, ctx->arena);
    nst_text_add(&t, "graph trees(x: f32[%d, %d]) {\n  %%feature = const i64[%d] data [", rows, FEATURES,
                 TREES * NODES);
    for (int k = 0; k < TREES * NODES; k++)
        nst_text_add(&t, "%s%d", k ? ", " : "", (int)(((unsigned)k * 2654435761u >> 8) % FEATURES));
    nst_text_add(&t, "]\n  %%threshold = const f32[%d] seed 9\n  %%leaf = const f32[%d] seed 10\n", TREES * NODES,
                 TREES * LEAVES);
    nst_text_add(&t, "  %%tree = iota %d : i64[%d]\n  %%tree1 = reshape %%tree : i64[1, %d]\n", TREES, TREES, TREES);
    nst_text_add(&t, "  %%trees = expand %%tree1 : i64[%d, %d]\n  %%j0 = map \"a * 0\" %%trees\n", rows, TREES);
    for (int d = 0; d < DEPTH; d++)
        nst_text_add(&t,
                     "  %%n%d = map \"a * %d + b\" %%trees, %%j%d\n  %%f%d = gather axis 0 clamped %%feature, %%n%d\n"
                     "  %%h%d = gather axis 0 clamped %%threshold, %%n%d\n"
                     "  %%v%d = gather axis 1 batch 1 clamped %%x, %%f%d\n"
                     "  %%j%d = map \"2 * a + (b > c ? 2 : 1)\" %%j%d, %%v%d, %%h%d\n",
                     d, NODES, d, d, d, d, d, d, d, d + 1, d, d, d);
    nst_text_add(&t,
                 "  %%at = map \"a * %d + b - %d\" %%trees, %%j%d\n  %%value = gather axis 0 clamped %%leaf, %%at\n"
                 "  %%y = reduce \"a + b\" axes [1] %%value\n  return y = %%y\n}\n",
                 LEAVES, NODES, DEPTH);
    return nst_text_get(&t);
}

static NstStatus measure(NstCtx *ctx, void *arg)
{
    const Ensemble *e = arg;
    NstGateProgram *p;
    NstGateSource source = {.text = text_of(ctx, e->rows)};
    NstGateRow row = {.kind = NST_GATE_INFO, .peak = NST_PEAK_COUNT};
    NST_TRY(nst_gates_rate_of(ctx, e->g, &source, (double)e->rows * TREES, &row, &p));
    nst_gates_info(e->g, e->name, 1 / row.measured, "ns a row and tree", nst_gate_program_facts(ctx, p));
    return NST_OK;
}

void nst_gates_trees(NstGates *g)
{
    for (int rows = 1; rows <= 1000; rows += 999) {
        Ensemble e = {.g = g, .name = nst_format(g->ctx.arena, "500 trees of depth 6, %d rows", rows), .rows = rows};
        nst_gates_try(g, e.name, measure, &e);
    }
}
