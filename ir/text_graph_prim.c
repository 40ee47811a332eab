/* text_graph_prim.c: reads attributes and operands of each primitive. */
#include "ir/build_impl.h"
#include "ir/order.h"
#include "ir/text_graph.h"

/* Operands start on the line of what stands before them: the next line's %name is the next statement's. */
static NstStatus read_operands(NstGraphReader *r, NstStatement *s)
{
    while (*r->p == ' ' || *r->p == '\t') r->p++;
    while (*r->p == '%' || strncmp(r->p, "none", 4) == 0) {
        NstVal value = {0};
        if (!nst_graph_read_try_word(r, "none")) NST_TRY(nst_graph_read_value(r, &value));
        nst_vec_push(r->arena, &s->in, value);
        if (!nst_graph_read_try(r, ",")) return NST_OK;
        nst_graph_read_space(r);
        if (*r->p != '%' && strncmp(r->p, "none", 4) != 0)
            return nst_graph_read_fail(r, "expected an operand at '%.20s'", r->p);
    }
    return NST_OK;
}

static const NstType *operand_type(NstGraphReader *r, const NstStatement *s, uint32_t k)
{
    static const NstType none = {.kind = NST_TYPE_NONE};
    return k < s->in.n && s->in.at[k].i != 0 ? nst_value_type(r->graph, s->in.at[k]) : &none;
}

static NstDtype *operand_dtypes(NstGraphReader *r, const NstStatement *s)
{
    NstDtype *type = NST_NEW_ARRAY(r->arena, NstDtype, s->in.n);
    for (uint32_t k = 0; k < s->in.n; k++) type[k] = operand_type(r, s, k)->dtype;
    return type;
}

/* --- lists ----------------------------------------------------------------------------------------------------- */

/* "[1, 2]" of at most NST_MAX_RANK entries. */
static NstStatus read_ints(NstGraphReader *r, int64_t *value, int *n)
{
    NST_TRY(nst_graph_read_expect(r, "["));
    for (*n = 0; !nst_graph_read_try(r, "]"); ++*n) {
        if (*n > 0) NST_TRY(nst_graph_read_expect(r, ","));
        if (*n >= NST_MAX_RANK) return nst_graph_read_fail(r, "more than %d entries", NST_MAX_RANK);
        NST_TRY(nst_graph_read_int(r, &value[*n]));
    }
    return NST_OK;
}

static NstStatus read_small_ints(NstGraphReader *r, int *value, int *n)
{
    int64_t wide[NST_MAX_RANK];
    NST_TRY(read_ints(r, wide, n));
    for (int k = 0; k < *n; k++) {
        if (wide[k] < -1000 || wide[k] > 1000)
            return nst_graph_read_fail(r, "%lld, allowed: an axis", (long long)wide[k]);
        value[k] = (int)wide[k];
    }
    return NST_OK;
}

static NstStatus read_dims(NstGraphReader *r, NstDim *dim, int *n)
{
    NST_TRY(nst_graph_read_expect(r, "["));
    for (*n = 0; !nst_graph_read_try(r, "]"); ++*n) {
        if (*n > 0) NST_TRY(nst_graph_read_expect(r, ","));
        if (*n >= NST_MAX_RANK) return nst_graph_read_fail(r, "more than %d entries", NST_MAX_RANK);
        NST_TRY(nst_graph_read_dim(r, &dim[*n]));
    }
    return NST_OK;
}

static NstStatus check_count(NstGraphReader *r, const char *what, int n, int rank)
{
    return n == rank ? NST_OK
                     : nst_graph_read_fail(r, "%s has %d entries, allowed: %d, the operand's rank", what, n, rank);
}

/* --- views ----------------------------------------------------------------------------------------------------- */

static NstStatus read_permute(NstGraphReader *r, NstStatement *s)
{
    int n;
    NST_TRY(read_small_ints(r, s->attr.permute.order, &n));
    NST_TRY(read_operands(r, s));
    return check_count(r, "permutation", n, operand_type(r, s, 0)->rank);
}

/* Starts are dims or values; values become inputs behind the operands. */
static NstStatus read_slice(NstGraphReader *r, NstStatement *s)
{
    NstDim start[NST_MAX_RANK];
    NstVal value[NST_MAX_RANK] = {{0}};
    int64_t step[NST_MAX_RANK];
    int n = 0, n_steps = -1, input[NST_MAX_RANK] = {0};
    NST_TRY(nst_graph_read_expect_word(r, "start"));
    NST_TRY(nst_graph_read_expect(r, "["));
    for (; !nst_graph_read_try(r, "]"); n++) {
        if (n > 0) NST_TRY(nst_graph_read_expect(r, ","));
        if (n >= NST_MAX_RANK) return nst_graph_read_fail(r, "more than %d entries", NST_MAX_RANK);
        start[n] = nst_dim_const(r->graph->dims, 0);
        nst_graph_read_space(r);
        if (*r->p == '%')
            NST_TRY(nst_graph_read_value(r, &value[n]));
        else
            NST_TRY(nst_graph_read_dim(r, &start[n]));
    }
    if (s->prim == NST_PRIM_SLICE && nst_graph_read_try_word(r, "step")) NST_TRY(read_ints(r, step, &n_steps));
    NST_TRY(read_operands(r, s));
    int rank = operand_type(r, s, 0)->rank;
    NST_TRY(check_count(r, "start", n, rank));
    if (n_steps >= 0) NST_TRY(check_count(r, "step", n_steps, rank));
    for (int k = 0; k < n; k++) {
        if (value[k].i == 0) continue;
        input[k] = (int)s->in.n;
        nst_vec_push(r->arena, &s->in, value[k]);
    }
    s->attr.slice.start = nst_copy(r->arena, start, sizeof *start * (size_t)n);
    s->attr.slice.step = n_steps >= 0 ? nst_copy(r->arena, step, sizeof *step * (size_t)n) : NULL;
    s->attr.slice.start_input = nst_copy(r->arena, input, sizeof *input * (size_t)n);
    return NST_OK;
}

static NstStatus read_pad(NstGraphReader *r, NstStatement *s)
{
    NstDim lo[NST_MAX_RANK], hi[NST_MAX_RANK];
    int64_t interior[NST_MAX_RANK];
    int n_lo, n_hi, n_interior = -1, mode = 0;
    while (mode < 4 && !nst_graph_read_try_word(r, nst_pad_mode_names[mode])) mode++;
    if (mode == 4) return nst_graph_read_fail(r, "expected constant, edge, reflect or wrap");
    NST_TRY(nst_graph_read_expect_word(r, "lo"));
    NST_TRY(read_dims(r, lo, &n_lo));
    NST_TRY(nst_graph_read_expect_word(r, "hi"));
    NST_TRY(read_dims(r, hi, &n_hi));
    if (nst_graph_read_try_word(r, "interior")) NST_TRY(read_ints(r, interior, &n_interior));
    NST_TRY(read_operands(r, s));
    int rank = operand_type(r, s, 0)->rank;
    NST_TRY(check_count(r, "lo", n_lo, rank));
    NST_TRY(check_count(r, "hi", n_hi, rank));
    if (n_interior >= 0) NST_TRY(check_count(r, "interior", n_interior, rank));
    s->attr.pad.lo = nst_copy(r->arena, lo, sizeof *lo * (size_t)rank);
    s->attr.pad.hi = nst_copy(r->arena, hi, sizeof *hi * (size_t)rank);
    s->attr.pad.interior = n_interior >= 0 ? nst_copy(r->arena, interior, sizeof *interior * (size_t)rank) : NULL;
    s->attr.pad.mode = (NstPadMode)mode;
    return NST_OK;
}

static NstStatus read_axis(NstGraphReader *r, int *axis)
{
    NST_TRY(nst_graph_read_expect_word(r, "axis"));
    return nst_graph_read_small_int(r, axis);
}

static NstStatus read_window(NstGraphReader *r, NstStatement *s)
{
    int n = 0, *axis = NST_NEW_ARRAY(r->arena, int, NST_MAX_RANK);
    NstDim *size = NST_NEW_ARRAY(r->arena, NstDim, NST_MAX_RANK), *lo = NST_NEW_ARRAY(r->arena, NstDim, NST_MAX_RANK);
    NstDim *hi = NST_NEW_ARRAY(r->arena, NstDim, NST_MAX_RANK);
    int64_t *stride = NST_NEW_ARRAY(r->arena, int64_t, NST_MAX_RANK);
    int64_t *dilation = NST_NEW_ARRAY(r->arena, int64_t, NST_MAX_RANK);
    NST_TRY(nst_graph_read_expect(r, "["));
    do {
        if (n >= NST_MAX_RANK) return nst_graph_read_fail(r, "more than %d axes", NST_MAX_RANK);
        stride[n] = dilation[n] = 1;
        lo[n] = hi[n] = nst_dim_const(r->graph->dims, 0);
        NST_TRY(read_axis(r, &axis[n]));
        NST_TRY(nst_graph_read_expect_word(r, "size"));
        NST_TRY(nst_graph_read_dim(r, &size[n]));
        if (nst_graph_read_try_word(r, "stride")) NST_TRY(nst_graph_read_int(r, &stride[n]));
        if (nst_graph_read_try_word(r, "dilation")) NST_TRY(nst_graph_read_int(r, &dilation[n]));
        if (nst_graph_read_try_word(r, "pad")) {
            NST_TRY(nst_graph_read_dim(r, &lo[n]));
            NST_TRY(nst_graph_read_expect(r, ","));
            NST_TRY(nst_graph_read_dim(r, &hi[n]));
        }
        n++;
    } while (nst_graph_read_try(r, ";"));
    NST_TRY(nst_graph_read_expect(r, "]"));
    s->attr.window.n = n;
    s->attr.window.axis = axis;
    s->attr.window.size = size;
    s->attr.window.stride = stride;
    s->attr.window.dilation = dilation;
    s->attr.window.lo = lo;
    s->attr.window.hi = hi;
    return read_operands(r, s);
}

/* --- reduce, prefix -------------------------------------------------------------------------------------------- */

#define MAX_STATES 32

/* Texts of a combiner, until the operands' types are known.  Short form: merge[0] alone, n = 0. */
typedef struct CombineText {
    uint32_t n;
    const char *init[MAX_STATES], *step[MAX_STATES], *merge[MAX_STATES];
} CombineText;

static NstStatus read_combine_text(NstGraphReader *r, CombineText *c)
{
    size_t n;
    c->n = 0;
    while (nst_graph_read_try_word(r, "state")) {
        if (c->n >= MAX_STATES) NST_FAIL(r->ctx, NST_E_LIMIT, "more than %d states", MAX_STATES);
        NST_TRY(nst_graph_read_quoted(r, &c->init[c->n], &n));
        NST_TRY(nst_graph_read_expect_word(r, "step"));
        NST_TRY(nst_graph_read_quoted(r, &c->step[c->n], &n));
        NST_TRY(nst_graph_read_expect_word(r, "merge"));
        NST_TRY(nst_graph_read_quoted(r, &c->merge[c->n], &n));
        c->n++;
    }
    return c->n ? NST_OK : nst_graph_read_quoted(r, &c->merge[0], &n);
}

static NstStatus make_short(NstGraphReader *r, const NstStatement *s, const CombineText *c, NstExpr *step,
                            NstExpr *merge, NstExpr *init)
{
    NstDtype element = operand_type(r, s, 0)->dtype, compute = nst_dtype_info(element)->compute;
    NstDtype of_step[2] = {compute, element}, of_merge[2] = {compute, compute};
    NST_TRY(nst_graph_read_formula(r, c->merge[0], of_step, 2, compute, step));
    NST_TRY(nst_graph_read_formula(r, c->merge[0], of_merge, 2, compute, merge));
    *init = nst_combine_identity(r->graph->exprs, *merge, compute);
    return init->i != 0 ? NST_OK
                        : nst_graph_read_fail(
                              r, "\"%s\" has no known neutral element, allowed: state ... step ... merge", c->merge[0]);
}

static NstStatus make_combine(NstGraphReader *r, const NstStatement *s, const CombineText *c, NstCombine *combine)
{
    uint32_t m = c->n ? c->n : 1, n = s->in.n;
    NstExpr *step = NST_NEW_ARRAY(r->arena, NstExpr, m), *merge = NST_NEW_ARRAY(r->arena, NstExpr, m);
    NstExpr *init = NST_NEW_ARRAY(r->arena, NstExpr, m);
    *combine = (NstCombine){m, step, merge, init};
    if (c->n == 0) return make_short(r, s, c, step, merge, init);
    NstDtype *of_step = NST_NEW_ARRAY(r->arena, NstDtype, m + n), *of_merge = NST_NEW_ARRAY(r->arena, NstDtype, 2 * m);
    for (uint32_t k = 0; k < m; k++) {
        NST_TRY(nst_graph_read_formula(r, c->init[k], NULL, 0, NST_DTYPE_NONE, &init[k]));
        of_step[k] = of_merge[k] = of_merge[m + k] = nst_expr(r->graph->exprs, init[k])->type;
    }
    for (uint32_t k = 0; k < n; k++) of_step[m + k] = operand_type(r, s, k)->dtype;
    for (uint32_t k = 0; k < m; k++) {
        NST_TRY(nst_graph_read_formula(r, c->step[k], of_step, m + n, NST_DTYPE_NONE, &step[k]));
        NST_TRY(nst_graph_read_formula(r, c->merge[k], of_merge, 2 * m, NST_DTYPE_NONE, &merge[k]));
    }
    return NST_OK;
}

/* A count that may be left out: 0 stands for that. */
static NstStatus read_order_count(NstGraphReader *r, const char *of, int *count)
{
    NST_TRY(nst_graph_read_small_int(r, count));
    return *count ? NST_OK : nst_graph_read_fail(r, "%s of 0, allowed: 1 or more", of);
}

static NstStatus read_reduce(NstGraphReader *r, NstStatement *s)
{
    CombineText text;
    int n, lanes = 0, last = -1, *axes = NST_NEW_ARRAY(r->arena, int, NST_MAX_RANK);
    NST_TRY(read_combine_text(r, &text));
    NST_TRY(nst_graph_read_expect_word(r, "axes"));
    NST_TRY(read_small_ints(r, axes, &n));
    s->attr.reduce.n_axes = n;
    s->attr.reduce.axes = axes;
    s->attr.reduce.keep = nst_graph_read_try_word(r, "keep");
    s->attr.reduce.skip_padding = nst_graph_read_try_word(r, "skip_padding");
    if (nst_graph_read_try_word(r, "lanes")) NST_TRY(read_order_count(r, "lanes", &lanes));
    NST_TRY(read_operands(r, s));
    const NstType *x = operand_type(r, s, 0);
    for (int k = 0; k < n; k++)
        if (axes[k] > last) last = axes[k];
    if (lanes == 0 && last >= 0 && last < x->rank)
        lanes = nst_order_reduce_lanes(r->graph->dims, x->shape[last], last == x->rank - 1);
    s->attr.reduce.lanes = lanes ? lanes : 1;
    return make_combine(r, s, &text, &s->attr.reduce.combine);
}

static NstStatus read_prefix(NstGraphReader *r, NstStatement *s)
{
    CombineText text;
    NST_TRY(read_combine_text(r, &text));
    NST_TRY(read_axis(r, &s->attr.prefix.axis));
    s->attr.prefix.exclusive = nst_graph_read_try_word(r, "exclusive");
    s->attr.prefix.reverse = nst_graph_read_try_word(r, "reverse");
    NST_TRY(read_operands(r, s));
    return make_combine(r, s, &text, &s->attr.prefix.combine);
}

/* --- contract -------------------------------------------------------------------------------------------------- */

/* "over "uvc"" */
static NstStatus read_sum(NstGraphReader *r, NstAttrs *attr)
{
    const char *text;
    size_t n;
    uint8_t *sum = nst_alloc(r->arena, NST_MAX_LABELS);
    NST_TRY(nst_graph_read_quoted(r, &text, &n));
    if (n > NST_MAX_LABELS) return nst_graph_read_fail(r, "%zu summed labels, allowed: at most %d", n, NST_MAX_LABELS);
    for (size_t k = 0; k < n; k++) {
        uint8_t label = 0;
        while (label < NST_MAX_LABELS && nst_label_letter(label) != text[k]) label++;
        if (label == NST_MAX_LABELS) return nst_graph_read_fail(r, "'%c' is no label, allowed: letters", text[k]);
        sum[k] = label;
    }
    attr->contract.sum = sum;
    attr->contract.n_sum = (int)n;
    return NST_OK;
}

/* Reads the equation into attr, and checks its label counts against the operands' ranks. */
static NstStatus apply_equation(NstGraphReader *r, NstStatement *s, const char *equation)
{
    NST_TRY(nst_build_equation(r->ctx, r->arena, equation, s->in.n, &s->attr));
    for (uint32_t j = 0; j < s->in.n; j++) {
        int count = 0, rank = operand_type(r, s, j)->rank;
        if (s->in.at[j].i == 0) return nst_graph_read_fail(r, "operand %u is absent", j);
        while (count < NST_MAX_RANK && s->attr.contract.labels[j][count] != 0xff) count++;
        if (count != rank)
            return nst_graph_read_fail(r, "equation \"%s\": operand %u has rank %d, allowed: %d", equation, j, rank,
                                       count);
    }
    return NST_OK;
}

static NstStatus read_block(NstGraphReader *r, NstAttrs *attr)
{
    attr->contract.block = NST_ORDER_WHOLE;
    return nst_graph_read_try_word(r, "whole") ? NST_OK : read_order_count(r, "blocks", &attr->contract.block);
}

static NstStatus read_contract(NstGraphReader *r, NstStatement *s)
{
    const char *equation, *pre[4] = {NULL, NULL, NULL, NULL};
    size_t n;
    bool any = false;
    NstDtype acc = NST_DTYPE_NONE;
    s->attr.contract.sum = NULL;
    NST_TRY(nst_graph_read_quoted(r, &equation, &n));
    while (nst_graph_read_try_word(r, "pre")) {
        int k;
        NST_TRY(nst_graph_read_small_int(r, &k));
        if (k < 0 || k > 3) return nst_graph_read_fail(r, "pre formula of operand %d, allowed: 0..3", k);
        NST_TRY(nst_graph_read_quoted(r, &pre[k], &n));
        any = true;
    }
    if (nst_graph_read_try_word(r, "acc")) NST_TRY(nst_graph_read_dtype(r, &acc));
    if (nst_graph_read_try_word(r, "over")) NST_TRY(read_sum(r, &s->attr));
    if (nst_graph_read_try_word(r, "lanes")) NST_TRY(read_order_count(r, "lanes", &s->attr.contract.lanes));
    if (nst_graph_read_try_word(r, "block")) NST_TRY(read_block(r, &s->attr));
    NST_TRY(read_operands(r, s));
    if (!s->in.n) return nst_graph_read_fail(r, "expected operands at '%.20s'", r->p);
    NST_TRY(apply_equation(r, s, equation));
    uint32_t n_operands = (uint32_t)s->attr.contract.n_operands, n_types = 1 + s->in.n - n_operands;
    if (n_operands > NST_CONTRACT_MAX_OPERANDS)
        return nst_graph_read_fail(r, "%u operands, allowed: 2..%d", n_operands, NST_CONTRACT_MAX_OPERANDS);
    NstDtype *type = NST_NEW_ARRAY(r->arena, NstDtype, n_types);
    for (uint32_t k = 1; k < n_types; k++) type[k] = operand_type(r, s, n_operands + k - 1)->dtype;
    NstExpr *e = NST_NEW_ARRAY(r->arena, NstExpr, 4);
    for (uint32_t k = 0; k < 4; k++) {
        if (!pre[k]) continue;
        if (k >= n_operands)
            return nst_graph_read_fail(r, "pre formula of operand %u, allowed: below %u", k, n_operands);
        type[0] = operand_type(r, s, k)->dtype;
        NST_TRY(nst_graph_read_formula(r, pre[k], type, n_types, NST_DTYPE_NONE, &e[k]));
    }
    s->attr.contract.pre = any ? e : NULL;
    s->attr.contract.accumulate = acc != NST_DTYPE_NONE ? acc : nst_dtype_info(operand_type(r, s, 0)->dtype)->compute;
    nst_build_choose_order(r->graph, &s->attr, s->in.at, nst_alloc(r->arena, NST_MAX_LABELS));
    return NST_OK;
}

/* --- the others ------------------------------------------------------------------------------------------------ */

static NstStatus read_map(NstGraphReader *r, NstStatement *s)
{
    const char *formula;
    size_t n;
    NST_TRY(nst_graph_read_quoted(r, &formula, &n));
    NST_TRY(read_operands(r, s));
    return nst_graph_read_formula(r, formula, operand_dtypes(r, s), s->in.n, NST_DTYPE_NONE, &s->attr.map.formula);
}

static NstStatus read_sort(NstGraphReader *r, NstStatement *s)
{
    NST_TRY(nst_graph_read_expect_word(r, "keys"));
    NST_TRY(nst_graph_read_small_int(r, &s->attr.sort.n_keys));
    NST_TRY(read_axis(r, &s->attr.sort.axis));
    s->attr.sort.descending = nst_graph_read_try_word(r, "descending");
    s->attr.sort.stable = nst_graph_read_try_word(r, "stable");
    if (nst_graph_read_try_word(r, "keep")) NST_TRY(nst_graph_read_dim(r, &s->attr.sort.keep));
    return read_operands(r, s);
}

static NstIndexMode read_index_mode(NstGraphReader *r)
{
    for (int mode = 0; mode < 3; mode++)
        if (nst_graph_read_try_word(r, nst_index_mode_names[mode])) return (NstIndexMode)mode;
    return NST_INDEX_CHECKED;
}

static NstStatus read_gather(NstGraphReader *r, NstStatement *s)
{
    NST_TRY(read_axis(r, &s->attr.gather.axis));
    if (nst_graph_read_try_word(r, "batch")) NST_TRY(nst_graph_read_small_int(r, &s->attr.gather.batch));
    s->attr.gather.mode = read_index_mode(r);
    return read_operands(r, s);
}

static NstStatus read_scatter(NstGraphReader *r, NstStatement *s)
{
    const char *formula = NULL;
    size_t n;
    NST_TRY(read_axis(r, &s->attr.scatter.axis));
    s->attr.scatter.elementwise = nst_graph_read_try_word(r, "elementwise");
    nst_graph_read_space(r);
    if (*r->p == '"') NST_TRY(nst_graph_read_quoted(r, &formula, &n));
    s->attr.scatter.mode = read_index_mode(r);
    NST_TRY(read_operands(r, s));
    NstDtype element = operand_type(r, s, 0)->dtype, pair[2] = {element, element};
    return formula ? nst_graph_read_formula(r, formula, pair, 2, element, &s->attr.scatter.combine) : NST_OK;
}

static NstStatus read_compact(NstGraphReader *r, NstStatement *s)
{
    NST_TRY(read_axis(r, &s->attr.compact.axis));
    NST_TRY(nst_graph_read_expect_word(r, "count"));
    NST_TRY(nst_graph_read_symbol(r, &s->attr.compact.count));
    return read_operands(r, s);
}

static NstStatus read_optional_value(NstGraphReader *r, NstStatement *s)
{
    NstVal value = {0};
    if (!nst_graph_read_try_word(r, "none")) NST_TRY(nst_graph_read_value(r, &value));
    nst_vec_push(r->arena, &s->in, value);
    return NST_OK;
}

static NstStatus read_loop(NstGraphReader *r, NstStatement *s)
{
    NST_TRY(nst_graph_read_expect_word(r, "trips"));
    NST_TRY(read_optional_value(r, s));
    NST_TRY(nst_graph_read_expect_word(r, "while"));
    NST_TRY(read_optional_value(r, s));
    if (nst_graph_read_try_word(r, "count")) NST_TRY(nst_graph_read_symbol(r, &s->attr.loop.count));
    NST_TRY(nst_graph_read_expect_word(r, "states"));
    NST_TRY(read_operands(r, s));
    s->attr.loop.n_states = (int)s->in.n - 2;
    return NST_OK;
}

static NstStatus read_named(NstGraphReader *r, NstStatement *s, const char **name, const char **config)
{
    size_t n;
    NST_TRY(nst_graph_read_quoted(r, name, &n));
    nst_graph_read_space(r);
    if (config && *r->p == '"') NST_TRY(nst_graph_read_quoted(r, config, &n));
    return read_operands(r, s);
}

static NstStatus read_convert(NstGraphReader *r, NstStatement *s)
{
    NST_TRY(nst_graph_read_dtype(r, &s->attr.convert.to));
    s->attr.convert.saturate = s->prim == NST_PRIM_CONVERT && nst_graph_read_try_word(r, "saturate");
    return read_operands(r, s);
}

NstStatus nst_graph_read_node_body(NstGraphReader *r, NstStatement *s)
{
    memset(&s->attr, 0, sizeof s->attr);
    switch (s->prim) {
    case NST_PRIM_CONST: return nst_graph_read_const(r, s);
    case NST_PRIM_IOTA: return nst_graph_read_dim(r, &s->attr.iota.extent);
    case NST_PRIM_DIM_VALUE: return nst_graph_read_dim(r, &s->attr.dim_value.dim);
    case NST_PRIM_MAP: return read_map(r, s);
    case NST_PRIM_CONVERT:
    case NST_PRIM_BITCAST: return read_convert(r, s);
    case NST_PRIM_PERMUTE: return read_permute(r, s);
    case NST_PRIM_SLICE:
    case NST_PRIM_UPDATE_SLICE: return read_slice(r, s);
    case NST_PRIM_PAD: return read_pad(r, s);
    case NST_PRIM_CONCAT: NST_TRY(read_axis(r, &s->attr.concat.axis)); break;
    case NST_PRIM_WINDOW: return read_window(r, s);
    case NST_PRIM_REDUCE: return read_reduce(r, s);
    case NST_PRIM_PREFIX: return read_prefix(r, s);
    case NST_PRIM_CONTRACT: return read_contract(r, s);
    case NST_PRIM_SORT: return read_sort(r, s);
    case NST_PRIM_GATHER: return read_gather(r, s);
    case NST_PRIM_SCATTER: return read_scatter(r, s);
    case NST_PRIM_COMPACT: return read_compact(r, s);
    case NST_PRIM_LOOP: return read_loop(r, s);
    case NST_PRIM_CALL: return read_named(r, s, &s->attr.call.name, NULL);
    case NST_PRIM_HOST: return read_named(r, s, &s->attr.host.name, &s->attr.host.config);
    case NST_PRIM_ASSERT: return read_named(r, s, &s->attr.assertion.message, NULL);
    case NST_PRIM_PARAM:
    case NST_PRIM_RANDOM_BITS:
    case NST_PRIM_RESHAPE:
    case NST_PRIM_EXPAND:
    case NST_PRIM_IF:
    case NST_PRIM_COUNT: break;
    }
    return read_operands(r, s);
}
