/* sequence.c: sequences and optionals.  They are no values of the graph: while a model is imported one is a list of parts, kept
 * as a host node that nothing uses and that is gone when the import ends.  A part is an element, or elements of one shape
 * stacked along a new first axis (as many as a size says).  So the lengths of sequences are structure, known when the model is
 * imported, but for what is stacked. */
#include "frontend/lower/sequence.h"

#define MAX_PARTS 4096

static const char node_name[] = "onnx.parts";

V parts_value(NstLower *c, NstTypeKind kind, NstDtype dtype, int n, const V *part, const char *how)
{
    NstType *item = NST_NEW(c->b->graph->arena, NstType), sequence = {.kind = kind, .item = item};
    V made = {0};
    *item = (NstType){.kind = NST_TYPE_TENSOR, .dtype = dtype};
    if (n > MAX_PARTS) fail(c, NST_E_LIMIT, "a sequence of %d elements, allowed: at most %d", n, MAX_PARTS);
    if (failed(c)) return made;
    (void)nst_build_host(c->b, node_name, how, (uint32_t)n, part, &sequence, 1, &made);
    return made;
}

V sequence_of(NstLower *c, NstDtype dtype, int n, const V *element)
{
    if (failed(c)) return (V){0};
    char *how = nst_alloc(c->arena, (size_t)n + 1);
    memset(how, PART_ONE, (size_t)n);
    return parts_value(c, NST_TYPE_SEQUENCE, dtype, n, element, how);
}

bool is_parts(NstLower *c, V v)
{
    return !failed(c) && v.i && nst_value_type(c->b->graph, v)->kind != NST_TYPE_TENSOR;
}

Parts parts_of(NstLower *c, V v)
{
    if (failed(c) || v.i == 0) return (Parts){.dtype = NST_F32};
    const NstType *t = nst_value_type(c->b->graph, v);
    const NstNode *node = nst_value_node(c->b->graph, v);
    if (t->kind == NST_TYPE_TENSOR || node->prim != NST_PRIM_HOST || strcmp(node->attr.host.name, node_name) != 0) {
        fail(c, NST_E_UNSUPPORTED, "a sequence whose elements are not known: not supported");
        return (Parts){.dtype = NST_F32};
    }
    return (Parts){t->kind, t->item->dtype, (int)node->n_in, node->in, node->attr.host.config};
}

/* The number of elements of a stack; fails where it is not known, and names what would have to be. */
static int64_t stack_length(NstLower *c, V stack)
{
    int64_t n = 1;
    if (failed(c) || known(c, dim(c, stack, 0), &n)) return n;
    const NstNode *node = nst_value_node(c->b->graph, stack);
    for (int k = 0; node->prim == NST_PRIM_LOOP && k < 2; k++) needs_value(c, node->in[k]); /* how often it runs */
    fail(c, NST_E_UNSUPPORTED, "a sequence of an open length is not supported here");
    return 1;
}

Parts elements_of(NstLower *c, V v)
{
    Parts p = parts_of(c, v);
    V *element = NST_NEW_ARRAY(c->arena, V, MAX_PARTS);
    int n = 0;
    for (int k = 0; k < p.n && !failed(c); k++) {
        int64_t count = p.how[k] == PART_STACK ? stack_length(c, p.at[k]) : 1;
        if (p.how[k] == PART_BEFORE) fail(c, NST_E_UNSUPPORTED, "a sequence that a loop carries can only be added to");
        if (count > MAX_PARTS - n) fail(c, NST_E_LIMIT, "a sequence of more than %d elements", MAX_PARTS);
        for (int64_t j = 0; j < count && !failed(c); j++)
            element[n++] =
                p.how[k] == PART_ONE ? p.at[k] : drop_axis(c, slice1(c, p.at[k], 0, num(c, j), 1, num(c, 1)), 0);
    }
    char *how = nst_alloc(c->arena, (size_t)n + 1);
    memset(how, PART_ONE, (size_t)n);
    return (Parts){p.kind, p.dtype, n, element, how};
}

/* --- structure ------------------------------------------------------------------------------------------------- */

int count_leaves(NstLower *c, V v)
{
    if (!is_parts(c, v)) return 1;
    Parts p = parts_of(c, v);
    int n = 0;
    for (int k = 0; k < p.n; k++) n += count_leaves(c, p.at[k]);
    return n;
}

V *put_leaves(NstLower *c, V v, V *leaf)
{
    if (!is_parts(c, v)) {
        *leaf = v;
        return leaf + 1;
    }
    Parts p = parts_of(c, v);
    for (int k = 0; k < p.n; k++) leaf = put_leaves(c, p.at[k], leaf);
    return leaf;
}

V with_leaves(NstLower *c, V like, const V **leaf)
{
    if (failed(c) || !is_parts(c, like)) return *(*leaf)++;
    Parts p = parts_of(c, like);
    V *part = NST_NEW_ARRAY(c->arena, V, p.n);
    for (int k = 0; k < p.n; k++) part[k] = with_leaves(c, p.at[k], leaf);
    return parts_value(c, p.kind, p.dtype, p.n, part, p.how);
}

bool same_structure(NstLower *c, V a, V b)
{
    if (is_parts(c, a) != is_parts(c, b)) return false;
    if (!is_parts(c, a)) return true;
    Parts p = parts_of(c, a), q = parts_of(c, b);
    bool same = p.kind == q.kind && p.n == q.n && strcmp(p.how, q.how) == 0;
    for (int k = 0; same && k < p.n; k++) same = same_structure(c, p.at[k], q.at[k]);
    return same;
}

/* --- operators ------------------------------------------------------------------------------------------------- */

LOWER(sequence_empty)
{
    out(c, 0, sequence_of(c, attr_type(c, "dtype", NST_F32), 0, NULL));
}

LOWER(sequence_construct)
{
    out(c, 0, sequence_of(c, dtype(c, in(c, 0)), c->n_ins, c->ins));
}

static V length_of_parts(NstLower *c, const Parts *p)
{
    D n = num(c, 0);
    for (int k = 0; k < p->n; k++) {
        if (p->how[k] == PART_BEFORE) return fail(c, NST_E_UNSUPPORTED, "the length of a sequence that a loop carries");
        n = add(c, n, p->how[k] == PART_ONE ? num(c, 1) : dim(c, p->at[k], 0));
    }
    return size_value(c, n);
}

LOWER(sequence_length)
{
    Parts p = parts_of(c, in(c, 0));
    out(c, 0, length_of_parts(c, &p));
}

/* Input k as a known position -n..last (negative: from the end), `otherwise` if it is absent. */
static int position_in(NstLower *c, int k, int n, int last, int otherwise)
{
    int count;
    const int64_t *at = const_ints(c, k, "position", &count);
    if (failed(c) || count < 0) return otherwise;
    if (count != 1 || at[0] < -n || at[0] > last) {
        fail(c, NST_E_INDEX, "position %lld of a sequence of %d elements", count == 1 ? (long long)at[0] : 0, n);
        return 0;
    }
    return (int)(at[0] < 0 ? at[0] + n : at[0]);
}

/* All elements stacked along a new first axis; they have one shape. */
static V stacked(NstLower *c, const Parts *p)
{
    V *x = NST_NEW_ARRAY(c->arena, V, p->n);
    for (int k = 0; k < p->n; k++) {
        if (p->how[k] == PART_BEFORE)
            return fail(c, NST_E_UNSUPPORTED, "a sequence that a loop carries can only be added to");
        x[k] = p->how[k] == PART_ONE ? insert_axis(c, p->at[k], 0) : p->at[k];
        if (rank(c, x[k]) != rank(c, x[0]))
            return fail(c, NST_E_SHAPE, "elements have ranks %d and %d, allowed: equal", rank(c, x[0]) - 1,
                        rank(c, x[k]) - 1);
    }
    if (p->n == 0) return fail(c, NST_E_INDEX, "of an empty sequence");
    return p->n == 1 ? x[0] : concat(c, p->n, x, 0);
}

LOWER(sequence_at)
{
    Parts p = parts_of(c, in(c, 0));
    bool plain = strspn(p.how ? p.how : "", (char[]){PART_ONE, '\0'}) == (size_t)p.n;
    NstShapeValue at = failed(c) ? (NstShapeValue){-1, NULL} : nst_shape_value(c->sizes, in(c, 1));
    int64_t position;
    if (plain && at.n == 1 && known(c, at.dim[0], &position)) {
        int k = position_in(c, 1, p.n, p.n - 1, 0);
        if (!failed(c)) out(c, 0, p.at[k]);
        return;
    }
    V all = failed(c) ? (V){0} : stacked(c, &p), start[NST_MAX_RANK] = {{0}};
    D size[NST_MAX_RANK];
    if (failed(c)) return;
    V index = convert(c, reshape(c, in(c, 1), 0, NULL), NST_I64);
    start[0] = map(c, "a < 0 ? a + b : a", index, size_value(c, dim(c, all, 0)));
    for (int k = 0; k < rank(c, all); k++) size[k] = k == 0 ? num(c, 1) : dim(c, all, k);
    out(c, 0, drop_axis(c, nst_build_slice_at(c->b, all, start, size), 0));
}

LOWER(sequence_insert)
{
    Parts p = has(c, 2) ? elements_of(c, in(c, 0)) : parts_of(c, in(c, 0));
    int at = position_in(c, 2, p.n, p.n, p.n);
    V *part = NST_NEW_ARRAY(c->arena, V, p.n + 1);
    char *how = nst_alloc(c->arena, (size_t)p.n + 2);
    if (!failed(c) && p.dtype != dtype(c, in(c, 1)))
        fail(c, NST_E_TYPE, "tensor is %s, the sequence has %s", nst_dtype_info(dtype(c, in(c, 1)))->name,
             nst_dtype_info(p.dtype)->name);
    for (int k = 0; k <= p.n && !failed(c); k++) {
        part[k] = k == at ? in(c, 1) : p.at[k - (k > at)];
        how[k] = k == at ? PART_ONE : p.how[k - (k > at)];
    }
    out(c, 0, parts_value(c, NST_TYPE_SEQUENCE, p.dtype, p.n + 1, part, how));
}

LOWER(sequence_erase)
{
    Parts p = elements_of(c, in(c, 0));
    int at = position_in(c, 1, p.n, p.n - 1, p.n - 1);
    V *part = NST_NEW_ARRAY(c->arena, V, p.n);
    if (!failed(c) && p.n == 0) fail(c, NST_E_INDEX, "of an empty sequence");
    for (int k = 0; k + 1 < p.n && !failed(c); k++) part[k] = p.at[k + (k >= at)];
    out(c, 0, sequence_of(c, p.dtype, p.n - 1, part));
}

/* A stack [k, ...] with its first axis moved before axis `to` of the elements. */
static V unstack_at(NstLower *c, V x, int to)
{
    int order[NST_MAX_RANK];
    for (int k = 0; k < rank(c, x); k++) order[k] = k == to ? 0 : k < to ? k + 1 : k;
    return permute(c, x, order);
}

LOWER(concat_from_sequence)
{
    Parts p = parts_of(c, in(c, 0));
    bool fresh = attr_i(c, "new_axis") != 0;
    V *x = NST_NEW_ARRAY(c->arena, V, p.n);
    int axis = 0;
    if (!failed(c) && p.n == 0) fail(c, NST_E_UNSUPPORTED, "of an empty sequence: not supported");
    for (int k = 0; k < p.n && !failed(c); k++) {
        if (p.how[k] == PART_BEFORE) fail(c, NST_E_UNSUPPORTED, "a sequence that a loop carries can only be added to");
        bool one = p.how[k] == PART_ONE;
        int r = rank(c, p.at[k]) - !one;
        axis = norm_axis(c, attr_i(c, "axis"), r + fresh, false);
        if (failed(c)) return;
        x[k] = one ? p.at[k] : unstack_at(c, p.at[k], axis);
        if (one && fresh) x[k] = insert_axis(c, x[k], axis);
        if (!one && !fresh) x[k] = merge_axes(c, x[k], axis);
    }
    if (!failed(c)) out(c, 0, concat(c, p.n, x, axis));
}

/* Into pieces of one size, the last may be smaller. */
static V split_evenly(NstLower *c, V x, int axis, int64_t size, bool keep)
{
    int64_t extent;
    int r = rank(c, x);
    if (!known(c, dim(c, x, axis), &extent)) {
        int order[NST_MAX_RANK];
        if (size != 1)
            return fail(c, NST_E_UNSUPPORTED, "pieces of %lld of an open extent are not supported", (long long)size);
        for (int k = 0; k < r; k++) order[k] = k == 0 ? axis : k <= axis ? k - 1 : k;
        x = permute(c, x, order);
        if (keep) x = insert_axis(c, x, axis + 1);
        return parts_value(c, NST_TYPE_SEQUENCE, dtype(c, x), 1, &x, (char[]){PART_STACK, '\0'});
    }
    int64_t n = (extent + size - 1) / size;
    if (n > MAX_PARTS) return fail(c, NST_E_LIMIT, "%lld pieces, allowed: at most %d", (long long)n, MAX_PARTS);
    V *piece = NST_NEW_ARRAY(c->arena, V, n);
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = extent - k * size;
        piece[k] = slice1(c, x, axis, num(c, k * size), 1, num(c, rest < size ? rest : size));
        if (!keep) piece[k] = drop_axis(c, piece[k], axis);
    }
    return sequence_of(c, dtype(c, x), (int)n, piece);
}

LOWER(split_to_sequence)
{
    V x = in(c, 0);
    int n, axis = norm_axis(c, attr_i(c, "axis"), rank(c, x), false);
    if (!has(c, 1)) {
        if (!failed(c)) out(c, 0, split_evenly(c, x, axis, 1, attr_i(c, "keepdims") != 0));
        return;
    }
    if (rank(c, in(c, 1)) == 0) {
        const int64_t *size = const_ints(c, 1, "split", &n);
        if (!failed(c) && size[0] < 1) fail(c, NST_E_MODEL, "split is %lld, allowed: at least 1", (long long)size[0]);
        if (!failed(c)) out(c, 0, split_evenly(c, x, axis, size[0], true));
        return;
    }
    const D *size = sizes_in(c, 1, "split", 0, &n);
    D at = num(c, 0);
    V *piece = NST_NEW_ARRAY(c->arena, V, n > 0 ? n : 0);
    for (int k = 0; k < n && !failed(c); k++) {
        piece[k] = slice1(c, x, axis, at, 1, size[k]);
        at = add(c, at, size[k]);
    }
    if (!failed(c))
        nst_build_require_equal(c->b, at, dim(c, x, axis), nst_format(c->arena, "%s: sum of split", c->label));
    out(c, 0, sequence_of(c, dtype(c, x), n, piece));
}

/* The body for each element of the first input; tensors among the others are given to every one. */
LOWER(sequence_map)
{
    int outs = graph_outputs(c, "body"), n = 0;
    Parts *p = NST_NEW_ARRAY(c->arena, Parts, c->n_ins);
    for (int k = 0; k < c->n_ins && !failed(c); k++) {
        if (!is_parts(c, in(c, k))) continue;
        p[k] = elements_of(c, in(c, k));
        if (k > 0 && p[k].n != p[0].n)
            fail(c, NST_E_MODEL, "sequences of %d and %d elements, allowed: equal", p[0].n, p[k].n);
    }
    if (!failed(c) && c->n_outs > outs) fail(c, NST_E_MODEL, "%d outputs, the body has %d", c->n_outs, outs);
    if (failed(c)) return;
    n = p[0].n;
    V *from = NST_NEW_ARRAY(c->arena, V, c->n_ins), *to = NST_NEW_ARRAY(c->arena, V, outs),
      *made = NST_NEW_ARRAY(c->arena, V, n * outs);
    for (int j = 0; j < n && !failed(c); j++) {
        for (int k = 0; k < c->n_ins; k++) from[k] = is_parts(c, in(c, k)) ? p[k].at[j] : in(c, k);
        graph(c, "body", c->n_ins, from, outs, to);
        for (int k = 0; k < outs; k++) made[k * n + j] = to[k];
    }
    if (!failed(c) && n == 0) fail(c, NST_E_UNSUPPORTED, "over an empty sequence: not supported");
    for (int k = 0; k < c->n_outs && !failed(c); k++) out(c, k, sequence_of(c, dtype(c, made[k * n]), n, made + k * n));
}

/* --- optionals ------------------------------------------------------------------------------------------------- */

LOWER(optional)
{
    V x = in(c, 0);
    NstDtype t = is_parts(c, x) ? parts_of(c, x).dtype : x.i ? dtype(c, x) : NST_F32;
    if (!x.i && !has_attr(c, "type")) fail(c, NST_E_MODEL, "neither an input nor a type");
    out(c, 0, parts_value(c, NST_TYPE_OPTIONAL, t, x.i != 0, &x, x.i ? (char[]){PART_ONE, '\0'} : ""));
}

static bool is_optional(NstLower *c, V v)
{
    return is_parts(c, v) && nst_value_type(c->b->graph, v)->kind == NST_TYPE_OPTIONAL;
}

LOWER(optional_get_element)
{
    V x = in(c, 0);
    if (is_optional(c, x)) {
        Parts p = parts_of(c, x);
        x = p.n ? p.at[0] : fail(c, NST_E_INDEX, "of an empty optional");
    }
    out(c, 0, x);
}

LOWER(optional_has_element)
{
    V x = in(c, 0);
    out(c, 0, number(c, NST_BOOL, x.i != 0 && (!is_optional(c, x) || parts_of(c, x).n > 0)));
}
