/* order.c: see order.h. */
#include "ir/order.h"

#define SHORT_LANES  16
#define LONG_LANES   64
#define SHORT_EXTENT 32  /* elements of the innermost axis from which lanes pay */
#define LONG_EXTENT  256 /* elements from which 64 lanes pay */
#define DOT_EXTENT   256 /* summed elements from which a dot keeps lanes instead of packing one operand */

int nst_order_reduce_lanes(NstDims *dims, NstDim extent, bool is_last_axis)
{
    int64_t value, lo, hi;
    if (!is_last_axis) return 1;
    if (nst_dim_is_const(dims, extent, &value)) {
        if (value >= LONG_EXTENT) return LONG_LANES;
        return value >= SHORT_EXTENT ? SHORT_LANES : 1;
    }
    nst_dim_bounds(dims, extent, &lo, &hi);
    return hi >= SHORT_EXTENT ? SHORT_LANES : 1;
}

/* The node a value comes from when views are looked through. */
static const NstNode *behind_views(const NstGraph *graph, NstVal value)
{
    const NstNode *node = nst_value_node(graph, value);
    while (nst_prim_info(node->prim)->group == NST_GROUP_VIEW && node->prim != NST_PRIM_WINDOW &&
           node->prim != NST_PRIM_CONCAT && node->n_in > 0 && node->in[0].i != 0)
        node = nst_value_node(graph, node->in[0]);
    return node;
}

/* True if axis `axis` of a value is a kernel axis of a window (seen through permutations). */
static bool is_kernel_axis(const NstGraph *graph, NstVal value, int axis)
{
    const NstNode *node = nst_value_node(graph, value);
    while (node->prim == NST_PRIM_PERMUTE) {
        axis = node->attr.permute.order[axis];
        node = nst_value_node(graph, node->in[0]);
    }
    if (node->prim != NST_PRIM_WINDOW) return false;
    return axis >= nst_value_type(graph, node->out[0])->rank - node->attr.window.n;
}

static bool holds(const uint8_t *labels, int n, uint8_t label)
{
    for (int k = 0; k < n; k++)
        if (labels[k] == label) return true;
    return false;
}

int nst_order_contract_sum(const NstGraph *graph, const NstAttrs *attr, const NstVal *in, uint8_t *sum)
{
    int n = 0;
    for (int taps = 1; taps >= 0; taps--) {
        for (int j = 0; j < attr->contract.n_operands; j++) {
            int rank = nst_value_type(graph, in[j])->rank;
            for (int axis = 0; axis < rank; axis++) {
                uint8_t label = attr->contract.labels[j][axis];
                if (holds(attr->contract.out_labels, attr->contract.out_rank, label) || holds(sum, n, label)) continue;
                if (!taps || is_kernel_axis(graph, in[j], axis)) sum[n++] = label;
            }
        }
    }
    return n;
}

int nst_order_contract_lanes(const NstGraph *graph, const NstAttrs *attr, const NstVal *in)
{
    int64_t extent;
    if (attr->contract.n_operands != 2 || attr->contract.n_sum != 1) return 1;
    for (int j = 0; j < 2; j++) {
        const NstType *type = nst_value_type(graph, in[j]);
        if (type->rank == 0 || attr->contract.labels[j][type->rank - 1] != attr->contract.sum[0]) return 1;
        if (behind_views(graph, in[j])->prim == NST_PRIM_CONST) return 1;
        if (!nst_dim_is_const(graph->dims, type->shape[type->rank - 1], &extent) || extent < DOT_EXTENT) return 1;
    }
    return SHORT_LANES;
}

int nst_order_contract_block(const NstGraph *graph, const NstAttrs *attr, const NstVal *in)
{
    if (!nst_dtype_is_float(attr->contract.accumulate) || attr->contract.lanes > 1 || attr->contract.n_sum != 1)
        return NST_ORDER_WHOLE;
    for (int j = 0; j < attr->contract.n_operands; j++) {
        const NstType *type = nst_value_type(graph, in[j]);
        for (int axis = 0; axis < type->rank; axis++) {
            int64_t lo, hi;
            if (attr->contract.labels[j][axis] != attr->contract.sum[0]) continue;
            nst_dim_bounds(graph->dims, type->shape[axis], &lo, &hi);
            return hi > NST_ORDER_BLOCK ? NST_ORDER_BLOCK : NST_ORDER_WHOLE;
        }
    }
    return NST_ORDER_WHOLE;
}

void nst_order_take(NstNode *to, const NstNode *from)
{
    if (to->prim == NST_PRIM_REDUCE) {
        to->attr.reduce.lanes = from->attr.reduce.lanes;
        return;
    }
    to->attr.contract.lanes = from->attr.contract.lanes;
    to->attr.contract.block = from->attr.contract.block;
}
