/* sizes.c: dims as a flat program; evaluation as ir/dim.h states it. */
#include "runtime/sizes.h"

static uint32_t find_node(const NstSizes *sizes, NstDim dim)
{
    return dim.i < sizes->n_node_of ? sizes->node_of[dim.i] : 0;
}

static void note_node(NstSizes *sizes, NstArena *arena, NstDim dim, uint32_t node)
{
    if (dim.i >= sizes->n_node_of) {
        uint32_t n = dim.i + 1 > 2 * sizes->n_node_of ? dim.i + 1 : 2 * sizes->n_node_of;
        uint32_t *grown = NST_NEW_ARRAY(arena, uint32_t, n);
        if (sizes->n_node_of != 0) memcpy(grown, sizes->node_of, sizes->n_node_of * sizeof *grown);
        sizes->node_of = grown;
        sizes->n_node_of = n;
    }
    sizes->node_of[dim.i] = node + 1;
}

/* Depth is bounded by NST_DIM_MAX_DEPTH a definition; definitions refer to older ones only. */
void nst_sizes_add(NstSizes *sizes, NstArena *arena, const NstDims *dims, NstDim dim)
{
    if (dim.i == 0 || find_node(sizes, dim) != 0) return;
    const NstDimNode *node = nst_dim_node(dims, dim);
    if (node->op == NST_DIM_SYM && nst_dims_sym_info(dims, node->sym)->def.i != 0) {
        NstDim def = nst_dims_sym_info(dims, node->sym)->def;
        nst_sizes_add(sizes, arena, dims, def);
        note_node(sizes, arena, dim, find_node(sizes, def) - 1);
        return;
    }
    for (uint32_t k = 0; k < node->n; k++) nst_sizes_add(sizes, arena, dims, node->arg[k]);
    NstSizeNode made = {node->op, node->sym, node->value, node->n, sizes->args.n};
    for (uint32_t k = 0; k < node->n; k++) {
        nst_vec_push(arena, &sizes->args, find_node(sizes, node->arg[k]) - 1);
        nst_vec_push(arena, &sizes->coefs, node->op == NST_DIM_SUM ? node->coef[k] : 1);
    }
    note_node(sizes, arena, dim, sizes->nodes.n);
    nst_vec_push(arena, &sizes->nodes, made);
}

static void add_steps(NstSizes *sizes, NstArena *arena, const NstPlan *plan, const NstPlanStep *step, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        nst_sizes_add(sizes, arena, plan->dims, step[k].a);
        nst_sizes_add(sizes, arena, plan->dims, step[k].b);
        for (uint32_t s = 0; s < step[k].n_sizes; s++) nst_sizes_add(sizes, arena, plan->dims, step[k].size[s]);
    }
}

static void add_ports(NstSizes *sizes, NstArena *arena, const NstPlan *plan, const NstPlanPort *port, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        for (int axis = 0; axis < port[k].type.rank; axis++)
            nst_sizes_add(sizes, arena, plan->dims, port[k].type.shape[axis]);
}

void nst_sizes_add_plan(NstSizes *sizes, NstArena *arena, const NstPlan *plan, bool bodies)
{
    add_ports(sizes, arena, plan, plan->inputs.at, plan->inputs.n);
    add_ports(sizes, arena, plan, plan->outputs.at, plan->outputs.n);
    for (uint32_t b = 0; b < plan->buffers.n; b++) {
        const NstPlanBuffer *buffer = &plan->buffers.at[b];
        nst_sizes_add(sizes, arena, plan->dims, buffer->bytes);
        for (int axis = 0; axis < buffer->rank; axis++) nst_sizes_add(sizes, arena, plan->dims, buffer->shape[axis]);
    }
    for (uint32_t k = 0; k < plan->kernels.n; k++) {
        nst_sizes_add(sizes, arena, plan->dims, plan->kernels.at[k].scratch_bytes);
        nst_sizes_add(sizes, arena, plan->dims, plan->kernels.at[k].shared_bytes);
        nst_sizes_add(sizes, arena, plan->dims, plan->kernels.at[k].work);
        nst_sizes_add(sizes, arena, plan->dims, plan->kernels.at[k].operations);
    }
    add_steps(sizes, arena, plan, plan->prepack.at, plan->prepack.n);
    add_steps(sizes, arena, plan, plan->steps.at, plan->steps.n);
    for (uint32_t k = 0; bodies && k < plan->bodies.n; k++) nst_sizes_add_plan(sizes, arena, plan->bodies.at[k], true);
}

void nst_sizes_of_plan(NstSizes *sizes, NstArena *arena, const NstPlan *plan)
{
    *sizes = (NstSizes){0};
    nst_sizes_add_plan(sizes, arena, plan, false);
}

/* --- evaluation ---------------------------------------------------------------------------------------------- */

__extension__ typedef __int128 Wide;

static uint8_t eval_sum(const NstSizes *sizes, const NstSizeNode *node, const int64_t *value, int64_t *result)
{
    Wide total = node->value;
    for (uint32_t k = node->at; k < node->at + node->n; k++) {
        Wide term = (Wide)sizes->coefs.at[k] * value[sizes->args.at[k]];
        if (__builtin_add_overflow(total, term, &total)) return NST_SIZE_OVERFLOW;
    }
    if (total > INT64_MAX || total < INT64_MIN) return NST_SIZE_OVERFLOW;
    *result = (int64_t)total;
    return NST_SIZE_KNOWN;
}

static uint8_t eval_product(const NstSizes *sizes, const NstSizeNode *node, const int64_t *value, int64_t *result)
{
    bool zero = false, overflow = false;
    *result = 1;
    for (uint32_t k = node->at; k < node->at + node->n; k++) {
        int64_t factor = value[sizes->args.at[k]];
        zero |= factor == 0;
        overflow |= __builtin_mul_overflow(*result, factor, result);
    }
    if (zero) *result = 0;
    return overflow && !zero ? NST_SIZE_OVERFLOW : NST_SIZE_KNOWN;
}

static uint8_t eval_division(NstDimOp op, int64_t a, int64_t b, int64_t *result)
{
    if (b == 0) return NST_SIZE_DIVISION;
    if (b == -1) {
        if (op == NST_DIM_FLOORDIV && a == INT64_MIN) return NST_SIZE_OVERFLOW;
        *result = op == NST_DIM_FLOORDIV ? -a : 0;
        return NST_SIZE_KNOWN;
    }
    int64_t quotient = a / b, rest = a % b;
    bool round_down = rest != 0 && (rest < 0) != (b < 0);
    *result = op == NST_DIM_FLOORDIV ? quotient - round_down : rest + (round_down ? b : 0);
    return NST_SIZE_KNOWN;
}

static uint8_t eval_node(const NstSizes *sizes, const NstSizeNode *node, const int64_t *value, int64_t *result)
{
    if (node->op == NST_DIM_SUM) return eval_sum(sizes, node, value, result);
    if (node->op == NST_DIM_PRODUCT) return eval_product(sizes, node, value, result);
    int64_t a = value[sizes->args.at[node->at]], b = value[sizes->args.at[node->at + 1]];
    if (node->op == NST_DIM_FLOORDIV || node->op == NST_DIM_MOD) return eval_division(node->op, a, b, result);
    *result = (node->op == NST_DIM_MIN) == (a < b) ? a : b;
    return NST_SIZE_KNOWN;
}

void nst_sizes_eval(const NstSizes *sizes, const int64_t *sym_value, const bool *sym_known, int64_t *value,
                    uint8_t *state)
{
    for (uint32_t i = 0; i < sizes->nodes.n; i++) {
        const NstSizeNode *node = &sizes->nodes.at[i];
        value[i] = 0;
        state[i] = NST_SIZE_KNOWN;
        if (node->op == NST_DIM_CONST) {
            value[i] = node->value;
        } else if (node->op == NST_DIM_SYM) {
            if (sym_known[node->sym.i])
                value[i] = sym_value[node->sym.i];
            else
                state[i] = NST_SIZE_UNKNOWN;
        } else {
            for (uint32_t k = node->at; k < node->at + node->n && state[i] == NST_SIZE_KNOWN; k++)
                state[i] = state[sizes->args.at[k]];
            if (state[i] == NST_SIZE_KNOWN) state[i] = eval_node(sizes, node, value, &value[i]);
        }
    }
}

bool nst_sizes_known(const NstSizes *sizes, NstDim dim, const uint8_t *state)
{
    uint32_t node = find_node(sizes, dim);
    return node == 0 || state[node - 1] != NST_SIZE_UNKNOWN;
}

NstStatus nst_sizes_get(NstCtx *ctx, const NstSizes *sizes, NstDim dim, const int64_t *value, const uint8_t *state,
                        const char *what, int64_t *result)
{
    *result = 0;
    if (dim.i == 0) return NST_OK;
    uint32_t node = find_node(sizes, dim);
    NST_ASSERT(node != 0);
    switch ((NstSizeState)state[node - 1]) {
    case NST_SIZE_KNOWN: *result = value[node - 1]; return NST_OK;
    case NST_SIZE_OVERFLOW:
        NST_FAIL(ctx, NST_E_SHAPE, "the size of %s does not fit 64 bits for these input shapes", what);
    case NST_SIZE_DIVISION: NST_FAIL(ctx, NST_E_SHAPE, "the size of %s divides by zero for these input shapes", what);
    case NST_SIZE_UNKNOWN: break;
    }
    NST_FAIL(ctx, NST_E_INVALID, "the size of %s depends on a value that is not known yet", what);
}
