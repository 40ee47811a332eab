/* eval_graph_combine.c: reduce, prefix, contract and sort of the graph interpreter; order of sums as ir/order.h says. */
#include "ir/eval_graph.h"
#include "ir/order.h"

/* --- combiners ------------------------------------------------------------------------------------------------- */

typedef struct Combiner {
    uint32_t m, n; /* states, elements */
    NstEvalFormula *step, *merge;
    NstScalar *init, *arg, *next;
} Combiner;

static NstStatus combiner_init(NstEvalNode *n, const NstCombine *combine, Combiner *c)
{
    NstArena *arena = n->eval->arena;
    c->m = combine->n_states;
    c->n = n->node->n_in;
    c->step = NST_NEW_ARRAY(arena, NstEvalFormula, c->m);
    c->merge = NST_NEW_ARRAY(arena, NstEvalFormula, c->m);
    c->init = NST_NEW_ARRAY(arena, NstScalar, c->m);
    c->arg = NST_NEW_ARRAY(arena, NstScalar, 2 * c->m + c->n);
    c->next = NST_NEW_ARRAY(arena, NstScalar, c->m);
    for (uint32_t k = 0; k < c->m; k++) {
        NST_TRY(nst_eval_formula_init(n->eval, combine->step[k], &c->step[k]));
        NST_TRY(nst_eval_formula_init(n->eval, combine->merge[k], &c->merge[k]));
        c->init[k] = nst_expr(n->eval->graph->exprs, combine->init[k])->imm;
    }
    return NST_OK;
}

/* state = step(state, elements), all states at once. */
static void take_element(Combiner *c, NstScalar *state, const NstEvalValue **in, int64_t position)
{
    memcpy(c->arg, state, c->m * sizeof *state);
    for (uint32_t k = 0; k < c->n; k++) c->arg[c->m + k] = nst_eval_get(&in[k]->t, position);
    for (uint32_t k = 0; k < c->m; k++) c->next[k] = nst_eval_formula(&c->step[k], c->arg);
    memcpy(state, c->next, c->m * sizeof *state);
}

static void merge_states(Combiner *c, NstScalar *left, const NstScalar *right)
{
    memcpy(c->arg, left, c->m * sizeof *left);
    memcpy(c->arg + c->m, right, c->m * sizeof *right);
    for (uint32_t k = 0; k < c->m; k++) c->next[k] = nst_eval_formula(&c->merge[k], c->arg);
    memcpy(left, c->next, c->m * sizeof *left);
}

static NstStatus check_shapes(NstEvalNode *n, uint32_t first, uint32_t end)
{
    const NstTensorValue *x = &n->in[first]->t;
    for (uint32_t k = first + 1; k < end; k++)
        for (int a = 0; a < x->rank; a++)
            NST_CHECK(n->eval->ctx, n->in[k]->t.shape[a] == x->shape[a], NST_E_SHAPE,
                      "input %u has extent %lld at axis %d, input %u has %lld, allowed: equal", k,
                      (long long)n->in[k]->t.shape[a], a, first, (long long)x->shape[a]);
    return NST_OK;
}

static bool is_padding(NstEvalNode *n, int64_t position)
{
    for (uint32_t k = 0; k < n->node->n_in; k++)
        if (n->in[k]->pad && n->in[k]->pad[position]) return true;
    return false;
}

/* One output element: outer[] has its index on the kept axes, reduced axes run through. */
static void reduce_one(NstEvalNode *n, Combiner *c, const bool *reduced, int64_t *index, NstScalar *state)
{
    const NstTensorValue *x = &n->in[0]->t;
    int lanes = n->node->attr.reduce.lanes;
    int64_t shape[NST_MAX_RANK], at[NST_MAX_RANK], run[NST_MAX_RANK] = {0};
    bool empty = false;
    for (int a = 0; a < x->rank; a++) {
        shape[a] = reduced[a] ? x->shape[a] : 1;
        empty = empty || shape[a] == 0;
    }
    for (int l = 0; l < lanes; l++) memcpy(state + (uint32_t)l * c->m, c->init, c->m * sizeof *state);
    if (empty) return;
    do {
        for (int a = 0; a < x->rank; a++) at[a] = reduced[a] ? run[a] : index[a];
        int64_t position = nst_eval_position(x, at);
        if (n->node->attr.reduce.skip_padding && is_padding(n, position)) continue;
        uint32_t lane = lanes > 1 ? (uint32_t)(run[x->rank - 1] % lanes) : 0;
        take_element(c, state + lane * c->m, n->in, position);
    } while (nst_eval_next(x->rank, shape, run));
    for (int h = lanes / 2; h > 0; h /= 2)
        for (int l = 0; l < h; l++) merge_states(c, state + (uint32_t)l * c->m, state + (uint32_t)(l + h) * c->m);
}

NstStatus nst_eval_reduce(NstEvalNode *n)
{
    const NstTensorValue *x = &n->in[0]->t;
    const NstAttrs *a = &n->node->attr;
    Combiner c;
    bool reduced[NST_MAX_RANK] = {false};
    int64_t shape[NST_MAX_RANK], kept[NST_MAX_RANK], index[NST_MAX_RANK] = {0}, position = 0;
    int rank = 0;
    NST_TRY(check_shapes(n, 0, n->node->n_in));
    NST_TRY(combiner_init(n, &a->reduce.combine, &c));
    for (int k = 0; k < a->reduce.n_axes; k++) reduced[a->reduce.axes[k]] = true;
    bool empty = false;
    for (int axis = 0; axis < x->rank; axis++) {
        kept[axis] = reduced[axis] ? 1 : x->shape[axis];
        empty = empty || kept[axis] == 0;
        if (!reduced[axis] || a->reduce.keep) shape[rank++] = kept[axis];
    }
    for (uint32_t k = 0; k < c.m; k++) {
        NstDtype type = nst_expr(n->eval->graph->exprs, a->reduce.combine.init[k])->type;
        NST_TRY(nst_eval_new(n->eval, type, rank, shape, &n->out[k]));
    }
    NstScalar *state = NST_NEW_ARRAY(n->eval->arena, NstScalar, (uint32_t)a->reduce.lanes * c.m);
    if (empty) return NST_OK;
    do {
        reduce_one(n, &c, reduced, index, state);
        for (uint32_t k = 0; k < c.m; k++) nst_eval_put(&n->out[k].t, position, state[k]);
        position++;
    } while (nst_eval_next(x->rank, kept, index));
    return NST_OK;
}

NstStatus nst_eval_prefix(NstEvalNode *n)
{
    const NstTensorValue *x = &n->in[0]->t;
    const NstAttrs *a = &n->node->attr;
    Combiner c;
    int axis = a->prefix.axis;
    int64_t outer[NST_MAX_RANK], index[NST_MAX_RANK] = {0};
    NST_TRY(check_shapes(n, 0, n->node->n_in));
    NST_TRY(combiner_init(n, &a->prefix.combine, &c));
    for (uint32_t k = 0; k < c.m; k++) {
        NstDtype type = nst_expr(n->eval->graph->exprs, a->prefix.combine.init[k])->type;
        NST_TRY(nst_eval_new(n->eval, type, x->rank, x->shape, &n->out[k]));
    }
    if (nst_eval_count(x) == 0) return NST_OK;
    NstScalar *state = NST_NEW_ARRAY(n->eval->arena, NstScalar, c.m);
    memcpy(outer, x->shape, sizeof outer);
    outer[axis] = 1;
    do {
        memcpy(state, c.init, c.m * sizeof *state);
        for (int64_t i = 0; i < x->shape[axis]; i++) {
            index[axis] = a->prefix.reverse ? x->shape[axis] - 1 - i : i;
            int64_t position = nst_eval_position(x, index);
            for (uint32_t k = 0; k < c.m && a->prefix.exclusive; k++) nst_eval_put(&n->out[k].t, position, state[k]);
            take_element(&c, state, n->in, position);
            for (uint32_t k = 0; k < c.m && !a->prefix.exclusive; k++) nst_eval_put(&n->out[k].t, position, state[k]);
        }
        index[axis] = 0;
    } while (nst_eval_next(x->rank, outer, index));
    return NST_OK;
}

/* --- contract -------------------------------------------------------------------------------------------------- */

/* An operand after its pre formula, in the accumulator's type. */
typedef struct Operand {
    const NstEvalValue *from;
    const uint8_t *label;
    int64_t stride[NST_MAX_RANK]; /* by axis */
    NstScalar *element;
} Operand;

/* Extents by label, checked to agree. */
static NstStatus label_extents(NstEvalNode *n, int64_t *extent)
{
    for (int k = 0; k < NST_MAX_LABELS; k++) extent[k] = -1;
    for (uint32_t j = 0; j < n->node->n_in; j++) {
        const NstTensorValue *t = &n->in[j]->t;
        for (int a = 0; a < t->rank; a++) {
            uint8_t label = n->node->attr.contract.labels[j][a];
            NST_CHECK(n->eval->ctx, extent[label] < 0 || extent[label] == t->shape[a], NST_E_SHAPE,
                      "axis %d of input %u has extent %lld, its label has %lld, allowed: equal", a, j,
                      (long long)t->shape[a], (long long)extent[label]);
            extent[label] = t->shape[a];
        }
    }
    return NST_OK;
}

/* Position in a tensor whose axes have these labels, at the given index by label. */
static int64_t labelled_position(const NstTensorValue *t, const uint8_t *label, const int64_t *at)
{
    int64_t position = 0;
    for (int a = 0; a < t->rank; a++) position = position * t->shape[a] + at[label[a]];
    return position;
}

static NstStatus operand_init(NstEvalNode *n, uint32_t j, Operand *operand)
{
    const NstAttrs *a = &n->node->attr;
    const NstTensorValue *t = &n->in[j]->t;
    uint32_t n_operands = (uint32_t)a->contract.n_operands, n_extra = n->node->n_in - n_operands;
    int64_t index[NST_MAX_RANK] = {0}, at[NST_MAX_LABELS] = {0}, count = nst_eval_count(t), position = 0;
    NstExpr pre = a->contract.pre ? a->contract.pre[j] : (NstExpr){0};
    NstDtype type = pre.i ? nst_expr(n->eval->graph->exprs, pre)->type : t->dtype;
    NstScalar *arg = NST_NEW_ARRAY(n->eval->arena, NstScalar, 1 + n_extra);
    NstEvalFormula formula;
    if (pre.i != 0) NST_TRY(nst_eval_formula_init(n->eval, pre, &formula));
    *operand = (Operand){
        .from = n->in[j], .label = a->contract.labels[j], .element = NST_NEW_ARRAY(n->eval->arena, NstScalar, count)};
    int64_t stride = 1;
    for (int axis = t->rank - 1; axis >= 0; stride *= t->shape[axis--]) operand->stride[axis] = stride;
    for (; position < count; position++) {
        NstScalar value = arg[0] = nst_eval_get(t, position);
        for (int axis = 0; axis < t->rank; axis++) at[a->contract.labels[j][axis]] = index[axis];
        for (uint32_t k = 0; pre.i != 0 && k < n_extra; k++) {
            const NstTensorValue *extra = &n->in[n_operands + k]->t;
            int64_t where = labelled_position(extra, a->contract.labels[n_operands + k], at);
            arg[1 + k] = where < nst_eval_count(extra) ? nst_eval_get(extra, where) : (NstScalar){0};
        }
        if (pre.i != 0) value = nst_eval_formula(&formula, arg);
        operand->element[position] = nst_scalar_convert(a->contract.accumulate, type, value, false);
        nst_eval_next(t->rank, t->shape, index);
    }
    return NST_OK;
}

/* acc + product of the operands' elements at their positions; unchanged if one of them is padding. */
static NstScalar add_product(NstEvalNode *n, const Operand *operand, const int64_t *position, NstScalar acc)
{
    NstDtype type = n->node->attr.contract.accumulate;
    int count = n->node->attr.contract.n_operands;
    NstScalar product = {0}, arg[3];
    for (int j = 0; j < count; j++) {
        if (operand[j].from->pad && operand[j].from->pad[position[j]]) return acc;
        NstScalar element = operand[j].element[position[j]];
        arg[0] = product;
        arg[1] = element;
        if (j == count - 1 && nst_dtype_is_float(type)) {
            arg[2] = acc;
            return nst_scalar_eval(NST_OP_FMA, type, type, arg, n->eval->has_fma);
        }
        product = j == 0 ? element : nst_scalar_eval(NST_OP_MUL, type, type, arg, n->eval->has_fma);
    }
    arg[0] = acc;
    arg[1] = product;
    return nst_scalar_eval(NST_OP_ADD, type, type, arg, n->eval->has_fma);
}

/* Elements from one index of a label to the next. */
static int64_t label_step(const Operand *operand, int label)
{
    int64_t step = 0;
    for (int axis = 0; axis < operand->from->t.rank; axis++)
        if (operand->label[axis] == label) step += operand->stride[axis];
    return step;
}

/* The common cases, so that whole networks can be interpreted: products of two operands in f32, ... */
static bool is_f32_product(const NstEvalNode *n)
{
    return n->node->attr.contract.accumulate == NST_F32 && n->node->attr.contract.n_operands == 2;
}

/* Its operands. */
typedef struct Product {
    const NstScalar *element[2];
    const uint8_t *pad[2];
    bool has_fma;
} Product;

static Product f32_product(const NstEvalNode *n, const Operand *operand)
{
    return (Product){.element = {operand[0].element, operand[1].element},
                     .pad = {operand[0].from->pad, operand[1].from->pad},
                     .has_fma = n->eval->has_fma};
}

static inline float add_f32_product(const Product *p, int64_t a, int64_t b, float acc)
{
    if ((p->pad[0] && p->pad[0][a]) || (p->pad[1] && p->pad[1][b])) return acc;
    return nst_scalar_fma_f32((float)p->element[0][a].f, (float)p->element[1][b].f, acc, p->has_fma);
}

/* ... along the innermost summed label ... */
static void add_f32_products(const NstEvalNode *n, const Operand *operand, int64_t *position, const int64_t *step,
                             int64_t count, NstScalar *state)
{
    int64_t lanes = n->node->attr.contract.lanes > 1 ? n->node->attr.contract.lanes : 1;
    int64_t a = position[0], b = position[1];
    float acc[NST_ORDER_MAX_LANES];
    for (int64_t l = 0; l < lanes; l++) acc[l] = (float)state[l].f;
    const Product product = f32_product(n, operand);
    for (int64_t i = 0; i < count; i++, a += step[0], b += step[1])
        acc[i % lanes] = add_f32_product(&product, a, b, acc[i % lanes]);
    for (int64_t l = 0; l < lanes; l++) state[l].f = (double)acc[l];
    position[0] = a, position[1] = b;
}

/* ... and, of one lane, for a strip of outputs side by side, whose sums do not wait for one another. */
#define STRIP 64

/* acc = before + acc, each of `count`. */
static void add_before(const float *before, float *acc, int64_t count)
{
    for (int64_t c = 0; c < count; c++) acc[c] = before[c] + acc[c];
}

static void contract_f32_strip(NstEvalNode *n, const Operand *operand, const int64_t *extent, int64_t *at,
                               int64_t count, float *acc)
{
    const NstAttrs *attrs = &n->node->attr;
    int n_sum = attrs->contract.n_sum, last = attrs->contract.out_labels[attrs->contract.out_rank - 1];
    int64_t shape[NST_MAX_LABELS], run[NST_MAX_LABELS] = {0};
    int64_t step_a = label_step(&operand[0], last), step_b = label_step(&operand[1], last);
    const Product product = f32_product(n, operand);
    float before[STRIP]; /* sums of the blocks before */
    int64_t blocks = 0;
    memset(acc, 0, STRIP * sizeof *acc);
    for (int k = 0; k < n_sum; k++) {
        shape[k] = extent[attrs->contract.sum[k]];
        if (shape[k] == 0) return;
    }
    do {
        if (n_sum == 1 && run[0] > 0 && run[0] % attrs->contract.block == 0) {
            if (blocks++) add_before(before, acc, count);
            memcpy(before, acc, sizeof before);
            memset(acc, 0, sizeof before);
        }
        for (int k = 0; k < n_sum; k++) at[attrs->contract.sum[k]] = run[k];
        int64_t a = labelled_position(&operand[0].from->t, operand[0].label, at);
        int64_t b = labelled_position(&operand[1].from->t, operand[1].label, at);
        for (int64_t c = 0; c < count; c++, a += step_a, b += step_b) acc[c] = add_f32_product(&product, a, b, acc[c]);
    } while (nst_eval_next(n_sum, shape, run));
    if (blocks) add_before(before, acc, count);
}

/* Adds the products along the innermost summed label, from the given positions on. */
static void add_products(NstEvalNode *n, const Operand *operand, int64_t *position, int inner, int64_t count,
                         NstScalar *state)
{
    int operands = n->node->attr.contract.n_operands, lanes = n->node->attr.contract.lanes;
    int64_t step[NST_CONTRACT_MAX_OPERANDS];
    for (int j = 0; j < operands; j++) step[j] = label_step(&operand[j], inner);
    if (is_f32_product(n)) {
        add_f32_products(n, operand, position, step, count, state);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        NstScalar *acc = &state[i % lanes];
        *acc = add_product(n, operand, position, *acc);
        for (int j = 0; j < operands; j++) position[j] += step[j];
    }
}

static NstScalar add_states(NstEvalNode *n, NstScalar left, NstScalar right)
{
    NstDtype type = n->node->attr.contract.accumulate;
    NstScalar arg[2] = {left, right};
    return nst_scalar_eval(NST_OP_ADD, type, type, arg, n->eval->has_fma);
}

/* The same, block by block where the sum has blocks. */
static void add_blocks(NstEvalNode *n, const Operand *operand, int64_t *position, int inner, int64_t count,
                       NstScalar *state)
{
    int64_t block = n->node->attr.contract.block;
    add_products(n, operand, position, inner, count < block ? count : block, state);
    for (int64_t first = block; first < count; first += block) {
        NstScalar sum = {0};
        add_products(n, operand, position, inner, count - first < block ? count - first : block, &sum);
        *state = add_states(n, *state, sum);
    }
}

/* Sum over the summed labels in their order, for the output's index in at[]. */
static NstScalar contract_one(NstEvalNode *n, const Operand *operand, const int64_t *extent, int64_t *at)
{
    const NstAttrs *a = &n->node->attr;
    NstScalar state[NST_ORDER_MAX_LANES];
    int64_t shape[NST_MAX_LABELS], run[NST_MAX_LABELS] = {0}, position[NST_CONTRACT_MAX_OPERANDS];
    int outer = a->contract.n_sum - 1, lanes = a->contract.lanes; /* summed labels around the innermost */
    bool empty = false;
    memset(state, 0, sizeof state); /* 0 and 0.0 */
    for (int k = 0; k <= outer; k++) {
        at[a->contract.sum[k]] = 0;
        shape[k] = extent[a->contract.sum[k]];
        empty = empty || shape[k] == 0;
    }
    if (empty) return state[0];
    do {
        for (int k = 0; k < outer; k++) at[a->contract.sum[k]] = run[k];
        for (int j = 0; j < a->contract.n_operands; j++)
            position[j] = labelled_position(&operand[j].from->t, operand[j].label, at);
        if (outer < 0)
            state[0] = add_product(n, operand, position, state[0]);
        else
            add_blocks(n, operand, position, a->contract.sum[outer], shape[outer], state);
    } while (outer > 0 && nst_eval_next(outer, shape, run));
    for (int h = lanes / 2; h > 0; h /= 2)
        for (int l = 0; l < h; l++) state[l] = add_states(n, state[l], state[l + h]);
    return state[0];
}

NstStatus nst_eval_contract(NstEvalNode *n)
{
    const NstAttrs *a = &n->node->attr;
    int64_t extent[NST_MAX_LABELS], at[NST_MAX_LABELS] = {0}, shape[NST_MAX_RANK], index[NST_MAX_RANK] = {0},
                                    position = 0;
    Operand operand[NST_CONTRACT_MAX_OPERANDS];
    NST_TRY(label_extents(n, extent));
    for (uint32_t j = 0; j < (uint32_t)a->contract.n_operands; j++) NST_TRY(operand_init(n, j, &operand[j]));
    for (int k = 0; k < a->contract.out_rank; k++) shape[k] = extent[a->contract.out_labels[k]];
    NST_TRY(nst_eval_new(n->eval, a->contract.accumulate, a->contract.out_rank, shape, &n->out[0]));
    int64_t count = nst_eval_count(&n->out[0].t);
    bool strips = is_f32_product(n) && a->contract.lanes <= 1 && a->contract.out_rank > 0;
    while (position < count) {
        int last = a->contract.out_rank - 1;
        int64_t left = strips ? shape[last] - index[last] : 1, taken = left < STRIP ? left : STRIP;
        float acc[STRIP];
        for (int k = 0; k <= last; k++) at[a->contract.out_labels[k]] = index[k];
        if (strips) contract_f32_strip(n, operand, extent, at, taken, acc);
        for (int64_t c = 0; c < taken; c++)
            nst_eval_put(&n->out[0].t, position++,
                         strips ? (NstScalar){.f = (double)acc[c]} : contract_one(n, operand, extent, at));
        if (last >= 0) index[last] += taken - 1;
        nst_eval_next(a->contract.out_rank, shape, index);
    }
    return NST_OK;
}

/* --- sort ------------------------------------------------------------------------------------------------------ */

/* One line of elements along the sorted axis: position of element i is base + i * stride. */
typedef struct Line {
    NstEvalNode *n;
    int64_t base, stride;
} Line;

static bool less(NstDtype type, NstScalar a, NstScalar b)
{
    NstScalar pair[2] = {a, b};
    return nst_scalar_eval(NST_OP_LT, NST_BOOL, type, pair, false).i != 0;
}

/* True if element i goes strictly before element j. */
static bool goes_before(const Line *line, int64_t i, int64_t j)
{
    const NstAttrs *attr = &line->n->node->attr;
    for (int k = 0; k < attr->sort.n_keys; k++) {
        const NstTensorValue *key = &line->n->in[k]->t;
        NstDtype type = nst_dtype_info(key->dtype)->compute;
        NstScalar a = nst_eval_get(key, line->base + i * line->stride),
                  b = nst_eval_get(key, line->base + j * line->stride);
        if (key->dtype == NST_BOOL)
            type = NST_U8;
        else if (type != key->dtype) {
            a = nst_scalar_convert(type, key->dtype, a, false);
            b = nst_scalar_convert(type, key->dtype, b, false);
        }
        bool a_nan = nst_dtype_is_float(type) && a.f != a.f, b_nan = nst_dtype_is_float(type) && b.f != b.f;
        if (a_nan || b_nan) {
            if (a_nan && b_nan) continue;
            return b_nan;
        }
        if (less(type, a, b)) return !attr->sort.descending;
        if (less(type, b, a)) return attr->sort.descending;
    }
    return false;
}

/* Bottom-up merge sort: stable. */
static void sort_line(const Line *line, int64_t n, int64_t *order, int64_t *other)
{
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t lo = 0; lo < n; lo += 2 * width) {
            int64_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n;
            for (int64_t i = lo, j = mid, k = lo; k < hi; k++) {
                bool right = i >= mid || (j < hi && goes_before(line, order[j], order[i]));
                other[k] = right ? order[j++] : order[i++];
            }
        }
        memcpy(order, other, (size_t)n * sizeof *order);
    }
}

NstStatus nst_eval_sort(NstEvalNode *n)
{
    const NstTensorValue *x = &n->in[0]->t;
    const NstAttrs *a = &n->node->attr;
    int axis = a->sort.axis;
    int64_t outer[NST_MAX_RANK], shape[NST_MAX_RANK], index[NST_MAX_RANK] = {0}, keep = x->shape[axis];
    NST_TRY(check_shapes(n, 0, n->node->n_in));
    if (a->sort.keep.i != 0) NST_TRY(nst_eval_dim(n->eval, a->sort.keep, &keep));
    NST_CHECK(n->eval->ctx, keep >= 0 && keep <= x->shape[axis], NST_E_SHAPE, "keeps %lld of %lld elements",
              (long long)keep, (long long)x->shape[axis]);
    memcpy(shape, x->shape, sizeof shape);
    memcpy(outer, x->shape, sizeof outer);
    shape[axis] = keep;
    outer[axis] = 1;
    for (uint32_t k = 0; k < n->node->n_in; k++)
        NST_TRY(nst_eval_new(n->eval, n->in[k]->t.dtype, x->rank, shape, &n->out[k]));
    if (nst_eval_count(x) == 0) return NST_OK;
    Line line = {.n = n, .stride = 1};
    for (int k = axis + 1; k < x->rank; k++) line.stride *= x->shape[k];
    int64_t *order = NST_NEW_ARRAY(n->eval->arena, int64_t, x->shape[axis]);
    int64_t *other = NST_NEW_ARRAY(n->eval->arena, int64_t, x->shape[axis]);
    do {
        line.base = nst_eval_position(x, index);
        sort_line(&line, x->shape[axis], order, other);
        int64_t base = nst_eval_position(&n->out[0].t, index);
        for (int64_t i = 0; i < keep; i++)
            for (uint32_t k = 0; k < n->node->n_in; k++)
                nst_eval_put(&n->out[k].t, base + i * line.stride,
                             nst_eval_get(&n->in[k]->t, line.base + order[i] * line.stride));
    } while (nst_eval_next(x->rank, outer, index));
    return NST_OK;
}
