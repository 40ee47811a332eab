/* order.h: the order in which reductions and contractions add up; read by builder, interpreter and lowering to loops.
 *
 * A node carries `lanes` (and a contraction the order of its summed labels) as attributes, chosen here once, when it is
 * built from the model: binding a symbol to a size, the schedule, the number of threads and the target never change them,
 * so all variants give the same bits.
 *
 * lanes = 1: one state, elements in increasing index, outermost reduced axis first.
 * lanes = L: L states start neutral; the element at index i of the innermost reduced axis goes to state i mod L, in
 * increasing order (outer reduced axes outermost, the states live across them).  Then the tree: for h = L/2, L/4, ..., 1:
 * state l = merge(state l, state l + h) for every l < h.  States that got no element take part: they are neutral.
 *
 * block = B (contractions of one lane and one summed label): elements 0 .. B - 1, B .. 2B - 1, ... are summed in a state that starts
 * neutral, in increasing index; the result is the first block's state, merged with the second's, then with the third's, and so on: of
 * at most B elements it is what it were without blocks, to the bit.  Rounding errors grow with the length of one chain: of 3,072 products
 * a chain leaves three times the error of blocks of 256 (Higham, Accuracy and Stability of Numerical Algorithms, 4.2). */
#ifndef NST_IR_ORDER_H
#define NST_IR_ORDER_H

#include <limits.h>

#include "ir/graph.h"

#define NST_ORDER_MAX_LANES 64
/* One addition in so many is of blocks, and costs a tile of registers a load and a store: under 1 %. */
#define NST_ORDER_BLOCK 256
#define NST_ORDER_WHOLE INT_MAX

/* Lanes of a reduce whose innermost reduced axis has this extent.  More than one only if that axis is the input's last
 * (contiguous) one: 64 from 256 elements on (four AVX-512 accumulators hide the latency of an add), 16 from 32 on and for
 * symbolic extents that may reach 32, else 1. */
int nst_order_reduce_lanes(NstDims *dims, NstDim extent, bool is_last_axis);

/* Lanes of a contraction's innermost summed label: 16 for a dot of two computed operands (one summed label, the last of
 * both, of at least 256 elements, no operand constant), else 1.  Shorter dots (attention scores) and products with
 * weights run faster as outer products over packed operands, with one accumulator an output. */
int nst_order_contract_lanes(const NstGraph *graph, const NstAttrs *attr, const NstVal *in);

/* Elements of a block of a contraction's sum: NST_ORDER_WHOLE, no blocks, where the sum is of integers, has lanes, runs over several
 * labels or is never longer than a block, else NST_ORDER_BLOCK.  Lanes and the summed labels of attr are set. */
int nst_order_contract_block(const NstGraph *graph, const NstAttrs *attr, const NstVal *in);

/* Gives a reduce or contract the order of one that stands for it in another graph, where sizes say more or less. */
void nst_order_take(NstNode *to, const NstNode *from);

/* Writes the summed labels of a contraction, outermost first: those of window kernel axes in order of appearance, then
 * the others.  Returns how many.  Labels, out_labels, out_rank and n_operands of attr are set; sum has NST_MAX_LABELS entries. */
int nst_order_contract_sum(const NstGraph *graph, const NstAttrs *attr, const NstVal *in, uint8_t *sum);

#endif
