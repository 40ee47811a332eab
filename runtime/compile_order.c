/* compile_order.c: the orders of sums of a graph with declared sizes are those of the graph with open ones.
 *
 * An order is chosen when a node is built, from what is then known of its extents (ir/order.h).  A plan for declared sizes must
 * give the same bits as the plan for all sizes, so the model is read once more with its sizes open, and each reduce and
 * contract takes the order of the node that stands for it there: nodes come in the same order from the same nodes of the
 * model, but for branches that sizes have decided. */
#include "runtime/compile.h"

#include <string.h>
#include "ir/order.h"

typedef struct Sums {
    const NstGraph *graph;
    NST_VEC(NstNode *) at;
} Sums;

static void find_sums(NstCompile *c, const NstGraph *graph, Sums *sums)
{
    *sums = (Sums){.graph = graph};
    for (uint32_t k = 1; k < graph->nodes.n; k++) {
        NstNode *node = graph->nodes.at[k];
        if (!node->dead && (node->prim == NST_PRIM_REDUCE || node->prim == NST_PRIM_CONTRACT))
            nst_vec_push(c->arena, &sums->at, node);
    }
}

static bool stand_for_one_another(const Sums *a, const NstNode *x, const Sums *b, const NstNode *y)
{
    return x->prim == y->prim &&
           strcmp(nst_origin_text(a->graph->origins, x->origin), nst_origin_text(b->graph->origins, y->origin)) == 0;
}

void nst_compile_take_orders(NstCompile *c, const NstGraph *open)
{
    Sums own, general;
    find_sums(c, c->graph, &own);
    find_sums(c, open, &general);
    uint32_t next = 0;
    for (uint32_t k = 0; k < own.at.n; k++) {
        uint32_t at = next;
        while (at < general.at.n && !stand_for_one_another(&own, own.at.at[k], &general, general.at.at[at])) at++;
        if (at == general.at.n) continue; /* of a branch that the open graph does not have */
        nst_order_take(own.at.at[k], general.at.at[at]);
        next = at + 1;
    }
}
