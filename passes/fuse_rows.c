/* fuse_rows.c: rules 4 and 5: nests that share their outer axes run as one kernel, row by row.
 *
 * Two groups join when every buffer that passes between them is written and read at the same place along the first n axes
 * (n >= 1), and what passes in one iteration fits the cache.  A buffer that nobody else reads becomes a local: scratch of one
 * iteration.  Contractions join only where a row is summed between two of them: then the strip between them is passed over
 * several times, which costs more than what the register tiles lose. */
#include "passes/fuse.h"

enum { MAX_MEMBERS = 24 };

/* What two groups have in common. */
typedef struct Common {
    uint32_t n;      /* outer axes */
    const char *why; /* n == 0: why nothing */
} Common;

static bool is_axis(const NstFuser *f, NstDim index, NstAxis axis)
{
    const NstDimNode *node = nst_dim_node(f->dims, index);
    return node->op == NST_DIM_SYM && node->sym.i == axis.var.i;
}

/* The index of `index` that is the axis itself, -1 if none. */
static int place_of(const NstFuser *f, const NstDim *index, uint32_t n, NstAxis axis)
{
    for (uint32_t d = 0; d < n; d++)
        if (is_axis(f, index[d], axis)) return (int)d;
    return -1;
}

enum { MAX_LOADS = 8 };

/* Leading axes along which `reader` reads output `out` of `writer` where that is written. */
static uint32_t common_axes(const NstFuser *f, const NstNest *writer, const NstNestOut *out, const NstNest *reader)
{
    NstExpr load[MAX_LOADS];
    uint32_t loads = nst_fuse_loads(f, reader, out->buffer, load, MAX_LOADS), n = 0;
    if (loads > MAX_LOADS) return 0;
    for (; n < writer->n_axes && n < reader->n_axes; n++) {
        if (!nst_dim_same(writer->axis[n].extent, reader->axis[n].extent)) break;
        int d = place_of(f, out->index, out->n_index, writer->axis[n]);
        bool same = d >= 0;
        for (uint32_t k = 0; k < loads && same; k++) {
            const NstExprNode *node = nst_expr(f->exprs, load[k]);
            same = is_axis(f, node->index[d], reader->axis[n]);
        }
        if (!same) break;
    }
    return n;
}

/* Axes and offsets of what is read inside a row must be plain: a row, not a window over it. */
static bool reads_plainly(const NstFuser *f, const NstNest *reader, NstBuf buffer)
{
    NstExpr load[MAX_LOADS];
    uint32_t loads = nst_fuse_loads(f, reader, buffer, load, MAX_LOADS);
    for (uint32_t k = 0; k < loads; k++) {
        const NstExprNode *node = nst_expr(f->exprs, load[k]);
        for (uint32_t d = 0; d < node->n_index; d++) {
            const NstDimNode *at = nst_dim_node(f->dims, node->index[d]);
            if (at->op != NST_DIM_SYM && at->op != NST_DIM_CONST) return false;
        }
    }
    return true;
}

/* The flat list of nests of a group (inner groups are not joined further: false). */
static bool members(const NstGroup *group, NstNest **list, uint32_t *n)
{
    for (uint32_t k = 0; k < group->items.n; k++) {
        if (!group->items.at[k].nest || *n == MAX_MEMBERS) return false;
        list[(*n)++] = group->items.at[k].nest;
    }
    return !group->serial && !group->step;
}

/* Search for a load that moves with the reduction and whose elements lie side by side along an axis of the nest. */
typedef struct SideBySide {
    const NstFuser *f;
    const NstNest *nest;
    NstSym axis;
    bool found;
} SideBySide;

static void visit_side_by_side(void *arg, NstExpr e, const NstExprNode *node)
{
    SideBySide *v = arg;
    int64_t stride;
    (void)e;
    if (node->op != NST_OP_LOAD) return;
    const NstBuffer *buffer = &nst_module_get(v->f->module, (NstBuf){node->ref})->buffer;
    NstDim offset = nst_layout_offset(v->f->dims, &buffer->layout, node->index);
    bool moves = false;
    for (uint32_t k = 0; k < v->nest->n_reduce; k++)
        moves = moves || nst_dim_uses(v->f->dims, offset, v->nest->reduce[k].var);
    v->found |= moves && nst_dim_stride(v->f->dims, offset, v->axis, &stride) && stride == 1;
}

/* True if a reduction would have no axis of its own inside n common ones although what it reads lies side by side along the last
 * of them: vectors of columns would become single elements, one a line (256 columns of 512: 284 us, by columns 18; AMD Zen 4,
 * 2026-11). */
static bool rows_cross_memory(const NstFuser *f, NstNest *const *nest, uint32_t n_nests, uint32_t n)
{
    for (uint32_t k = 0; k < n_nests; k++) {
        int64_t lo, hi;
        if (!nest[k]->n_states || nest[k]->n_axes != n) continue;
        nst_dim_bounds(f->dims, nest[k]->axis[n - 1].extent, &lo, &hi);
        if (hi <= 1) continue;
        SideBySide v = {f, nest[k], nest[k]->axis[n - 1].var, false};
        for (uint32_t s = 0; s < nest[k]->n_states; s++)
            nst_expr_visit(f->exprs, nest[k]->state[s].step, visit_side_by_side, &v);
        if (v.found) return true;
    }
    return false;
}

static Common common_of(const NstFuser *f, const NstGroup *from, const NstGroup *to)
{
    NstNest *writer[MAX_MEMBERS], *reader[MAX_MEMBERS];
    uint32_t n_writers = 0, n_readers = 0;
    Common c = {NST_MAX_RANK, NULL};
    bool passes = false;
    if (!members(from, writer, &n_writers) || !members(to, reader, &n_readers) || n_writers + n_readers > MAX_MEMBERS)
        return (Common){0, "one of them is no kernel or runs in a serial loop, or there are too many nests"};
    if (from->n_axes && from->n_axes < c.n) c.n = from->n_axes;
    if (to->n_axes && to->n_axes < c.n) c.n = to->n_axes;
    for (uint32_t w = 0; w < n_writers; w++)
        for (uint32_t o = 0; o < writer[w]->n_outs; o++)
            for (uint32_t r = 0; r < n_readers; r++) {
                const NstNestOut *out = &writer[w]->out[o];
                if (!nst_fuse_loads(f, reader[r], out->buffer, NULL, 0)) continue;
                uint32_t n = common_axes(f, writer[w], out, reader[r]);
                if (n < c.n) c.n = n;
                passes = true;
                if (!nst_fuse_plain_out(f, writer[w], out) || !reads_plainly(f, reader[r], out->buffer))
                    return (Common){0, "its reader reads neighbours, not rows"};
            }
    for (uint32_t k = 0; k < n_writers && c.n > writer[k]->n_axes; k++) c.n = writer[k]->n_axes;
    for (uint32_t k = 0; k < n_readers; k++)
        if (c.n > reader[k]->n_axes) c.n = reader[k]->n_axes;
    for (uint32_t a = 0; a < c.n; a++) /* all members: same extents */
        for (uint32_t k = 0; k < n_writers + n_readers; k++) {
            const NstNest *nest = k < n_writers ? writer[k] : reader[k - n_writers];
            if (!nst_dim_same(nest->axis[a].extent, writer[0]->axis[a].extent)) c.n = a;
        }
    if (!passes) c.n = 0;
    if (!c.n) c.why = "they share no outer axes";
    while (c.n && (rows_cross_memory(f, writer, n_writers, c.n) || rows_cross_memory(f, reader, n_readers, c.n)))
        if (--c.n == 0) c.why = "its rows run across memory, where columns are read side by side";
    return c;
}

typedef struct Traits {
    bool contracts, sums; /* has a contraction; has another reduction */
} Traits;

static Traits traits_of(const NstFuser *f, const NstGroup *group)
{
    Traits t = {false, false};
    for (uint32_t k = 0; k < group->items.n; k++) {
        const NstNest *nest = group->items.at[k].nest;
        if (!nest || !nest->n_states) continue;
        if (nst_nest_is_product(f->module, nest))
            t.contracts = true;
        else
            t.sums = true;
    }
    return t;
}

/* True if all readers of the buffer are among groups a and b. */
static bool only_read_by(const NstFuser *f, NstBuf buffer, uint32_t a, uint32_t b)
{
    NstPlaces readers = nst_fuser_readers(f, buffer);
    for (uint32_t k = 0; k < readers.n; k++)
        if (readers.at[k] != a && readers.at[k] != b) return false;
    for (uint32_t k = 0; k < f->module->reads.n; k++)
        if (f->module->reads.at[k].buffer.i == buffer.i) return false;
    return nst_module_get(f->module, buffer)->role == NST_ROLE_TEMP;
}

/* What passes between the groups in one iteration must fit; NULL if it does, else why not. */
static const char *passed_fits(const NstFuser *f, uint32_t from, uint32_t to, uint32_t n)
{
    const NstBufList *writes = &f->groups.at[from].writes;
    for (uint32_t k = 0; k < writes->n; k++)
        if (nst_fuser_holds(&f->groups.at[to].reads, writes->at[k]) && !nst_fuse_row_fits(f, writes->at[k], n))
            return "a row of what passes between them does not fit the cache";
    return NULL;
}

/* --- locals -------------------------------------------------------------------------------------------------- */

/* A local's new form: the common axes first, the other indices after, those of extent 1 left out. */
typedef struct Local {
    NstFuser *f;
    NstBuf old, fresh;
    uint32_t rank;
    int from[NST_MAX_RANK]; /* index d of the new buffer is index from[d] of the old */
} Local;

static NstDim *local_index(const Local *l, const NstDim *index)
{
    NstDim *to = NST_NEW_ARRAY(l->f->arena, NstDim, l->rank);
    for (uint32_t d = 0; d < l->rank; d++) to[d] = index[l->from[d]];
    return to;
}

static NstExpr local_load(void *arg, NstExprs *exprs, NstExpr e)
{
    const Local *l = arg;
    const NstExprNode node = *nst_expr(exprs, e);
    if (node.op != NST_OP_LOAD || node.ref != l->old.i) return (NstExpr){0};
    return nst_expr_load(exprs, node.type, l->fresh, local_index(l, node.index), l->rank);
}

static void make_local(NstFuser *f, NstGroup *group, const NstNest *writer, const NstNestOut *out)
{
    NstBuffer old = nst_module_get(f->module, out->buffer)->buffer;
    Local l = {.f = f, .old = out->buffer};
    NstDim shape[NST_MAX_RANK];
    bool used[NST_MAX_RANK] = {false};
    for (uint32_t a = 0; a < group->n_axes; a++) {
        l.from[l.rank] = place_of(f, out->index, out->n_index, writer->axis[a]);
        used[l.from[l.rank]] = true;
        shape[l.rank] = old.shape[l.from[l.rank]];
        l.rank++;
    }
    for (int d = 0; d < old.rank; d++) {
        if (used[d] || nst_dim_same(old.shape[d], nst_dim_const(f->dims, 1))) continue;
        l.from[l.rank] = d;
        shape[l.rank++] = old.shape[d];
    }
    l.fresh = nst_module_buffer(f->module, old.name, old.dtype, (int)l.rank, shape, NST_ROLE_TEMP);
    for (uint32_t k = 0; k < group->items.n; k++) {
        NstNest *nest = group->items.at[k].nest;
        nst_fuse_rewrite(f, nest, local_load, &l);
        for (uint32_t i = 0; i < nest->n_lets; i++)
            nest->let[i].value = nst_expr_rewrite(f->exprs, nest->let[i].value, local_load, &l);
        for (uint32_t o = 0; o < nest->n_outs; o++) {
            if (nest->out[o].buffer.i != l.old.i) continue;
            nest->out[o].index = local_index(&l, nest->out[o].index);
            nest->out[o].buffer = l.fresh;
            nest->out[o].n_index = l.rank;
        }
    }
    nst_vec_push(f->arena, &group->locals, l.fresh);
}

/* Buffers written and read in group `at` alone become locals. */
static void find_locals(NstFuser *f, uint32_t at)
{
    NstGroup *group = f->groups.at[at].group;
    bool again = true;
    while (again) {
        again = false;
        for (uint32_t k = 0; k < group->items.n && !again; k++) {
            const NstNest *nest = group->items.at[k].nest;
            for (uint32_t o = 0; o < nest->n_outs && !again; o++) {
                const NstNestOut *out = &nest->out[o];
                if (nst_group_is_local(group, out->buffer) || !only_read_by(f, out->buffer, at, at)) continue;
                make_local(f, group, nest, out);
                again = true;
            }
        }
    }
    nst_fuser_refresh(f, at);
}

/* --- joining ------------------------------------------------------------------------------------------------- */

/* Locals of a group whose number of common axes shrinks keep their form: their leading axes are those of the group still. */
static uint32_t join(NstFuser *f, uint32_t from, uint32_t to, uint32_t n)
{
    NstModule *module = f->module;
    NstGroup *a = f->groups.at[from].group, *b = f->groups.at[to].group;
    NstGroup *group = NST_NEW(f->arena, NstGroup);
    group->name = nst_format(f->arena, "%.40s_%.40s", a->name, b->name);
    group->origin = nst_origin_merge(module->origins, a->origin, b->origin);
    const NstGroup *parts[2] = {a, b};
    for (int p = 0; p < 2; p++) {
        for (uint32_t k = 0; k < parts[p]->items.n; k++) nst_vec_push(f->arena, &group->items, parts[p]->items.at[k]);
        for (uint32_t k = 0; k < parts[p]->locals.n; k++)
            nst_vec_push(f->arena, &group->locals, parts[p]->locals.at[k]);
    }
    group->n_axes = n;
    group->axis = NST_NEW_ARRAY(f->arena, NstAxis, n);
    const NstNest *first = group->items.at[0].nest;
    for (uint32_t k = 0; k < n; k++) group->axis[k] = nst_nest_axis(module, "row", first->axis[k].extent);
    uint32_t place = nst_fuser_join(f, from, to, group);
    find_locals(f, place);
    return place;
}

static bool is_constant(const NstFuser *f, NstBuf buffer)
{
    return nst_module_buffer_is_constant(f->module, buffer) || (buffer.i < f->n_constant && f->constant[buffer.i]);
}

/* True if the group is made of constants alone, which pass "ahead" computes once: inside a row it would be computed anew each run, and
 * bind the row to its axes (a batch norm's scale behind DenseNet's first pool: 5.0 ms, apart 0.3; Intel, 2026-11). */
static bool of_constants(const NstFuser *f, uint32_t at)
{
    const NstFuseGroup *item = &f->groups.at[at];
    if (f->within) return false;
    for (uint32_t k = 0; k < item->reads.n; k++)
        if (!nst_group_is_local(item->group, item->reads.at[k]) && !is_constant(f, item->reads.at[k])) return false;
    return item->reads.n > 0;
}

/* Marks what groups of constants write, unless another group writes to it too. */
static void find_constants(NstFuser *f)
{
    f->n_constant = f->uses.n;
    f->constant = NST_NEW_ARRAY(f->arena, bool, f->n_constant);
    for (uint32_t at = 0; at < f->groups.n; at++) {
        const NstFuseGroup *item = &f->groups.at[at];
        if (!item->group || !of_constants(f, at)) continue;
        for (uint32_t k = 0; k < item->writes.n; k++)
            f->constant[item->writes.at[k].i] = nst_fuser_writers(f, item->writes.at[k]).n == 1;
    }
}

/* Reductions with their maps: a row held in L1. */
static bool join_row(NstFuser *f, uint32_t from, uint32_t to)
{
    NstGroup *a = f->groups.at[from].group, *b = f->groups.at[to].group;
    Traits ta = traits_of(f, a), tb = traits_of(f, b);
    const char *why = NULL;
    if (ta.contracts || tb.contracts)
        why = "a contraction keeps its register tiles to itself";
    else if (!ta.sums && !tb.sums)
        why = "its reader reads it at other places than it is written at";
    else if (of_constants(f, from) && !of_constants(f, to))
        why = "it is made of constants alone and computed once";
    Common c = {0};
    if (!why) {
        c = common_of(f, a, b);
        why = c.n ? passed_fits(f, from, to, c.n) : c.why;
    }
    if (!why && !nst_fuser_can_join(f, from, to)) why = "a kernel between needs its result first";
    if (why) {
        nst_fuse_refuse(f, from, why);
        return false;
    }
    join(f, from, to, c.n);
    return true;
}

/* A contraction `first`, rows `middle` and a contraction `last` that hand strips on. */
static bool join_strip(NstFuser *f, uint32_t first, uint32_t middle, uint32_t last)
{
    NstGroup *rows = f->groups.at[middle].group;
    Common before = common_of(f, f->groups.at[first].group, rows), after = common_of(f, rows, f->groups.at[last].group);
    uint32_t n = before.n < after.n ? before.n : after.n;
    if (!n || passed_fits(f, first, middle, n) || passed_fits(f, middle, last, n)) return false;
    if (!nst_fuser_can_join(f, first, middle)) return false;
    for (uint32_t b = 0; b < f->groups.at[first].writes.n; b++)
        if (!only_read_by(f, f->groups.at[first].writes.at[b], middle, middle)) return false;
    /* Indices of groups shift with the first joining: the last one comes after both and stays last. */
    const NstGroup *end = f->groups.at[last].group;
    uint32_t place = join(f, first, middle, n);
    for (uint32_t k = place + 1; k < f->groups.n; k++)
        if (f->groups.at[k].group == end && nst_fuser_can_join(f, place, k)) {
            join(f, place, k, n);
            return true;
        }
    return true;
}

bool nst_fuse_hands_rows(const NstFuser *f, uint32_t from, uint32_t to)
{
    const NstGroup *a = f->groups.at[from].group, *b = f->groups.at[to].group;
    if (from >= to || !a || !b) return false;
    Common c = common_of(f, a, b);
    return c.n && passed_fits(f, from, to, c.n);
}

bool nst_fuse_join_all(NstFuser *f, const NstPlaces *places)
{
    uint32_t n = NST_MAX_RANK, place = places->at[0];
    const NstGroup **group = NST_NEW_ARRAY(f->arena, const NstGroup *, places->n);
    for (uint32_t b = 0; b < places->n; b++) {
        group[b] = f->groups.at[places->at[b]].group;
        for (uint32_t a = 0; a < b; a++) {
            if (!nst_fuser_depends(f, places->at[b], places->at[a])) continue;
            Common c = common_of(f, group[a], group[b]);
            if (c.n < n) n = c.n;
        }
    }
    if (n == 0 || n == NST_MAX_RANK) return false;
    for (uint32_t k = 1; k < places->n; k++) { /* what is joined stays before what is not yet */
        uint32_t to = place + 1;
        while (to < f->groups.n && f->groups.at[to].group != group[k]) to++;
        if (to == f->groups.n || !nst_fuser_can_join(f, place, to)) return k > 1;
        place = join(f, place, to, n);
    }
    return true;
}

static bool single_contraction(const NstFuser *f, uint32_t at)
{
    NstNest *nest = nst_fuse_single(f->groups.at[at].group);
    return nest && !nest->n_lets && nst_nest_is_product(f->module, nest);
}

/* Joins a strip whose rows are group `middle`; *changed is then the first place that has changed. */
static bool join_strip_of(NstFuser *f, uint32_t middle, uint32_t *changed)
{
    const NstGroup *rows = f->groups.at[middle].group;
    if (!rows || !rows->n_axes || rows->serial || traits_of(f, rows).contracts) return false;
    NstPlaces first = nst_fuser_sources(f, middle), last = nst_fuser_users(f, middle);
    for (uint32_t a = 0; a < first.n; a++) {
        if (!single_contraction(f, first.at[a])) continue;
        for (uint32_t b = 0; b < last.n; b++) {
            if (!single_contraction(f, last.at[b]) || !join_strip(f, first.at[a], middle, last.at[b])) continue;
            *changed = first.at[a];
            return true;
        }
    }
    return false;
}

/* Joins a group with the nearest one before it that it may be joined with; *changed likewise. */
static bool join_row_of(NstFuser *f, uint32_t to, uint32_t *changed)
{
    NstPlaces from = nst_fuser_sources(f, to);
    for (uint32_t k = from.n; k-- > 0;)
        if (join_row(f, from.at[k], to)) {
            *changed = from.at[k];
            return true;
        }
    return false;
}

/* Whether two groups are joined depends on them and on what stands between: what stands before a change need not be looked at
 * again. */
NstStatus nst_fuse_rows(NstFuser *f)
{
    find_constants(f);
    for (uint32_t to = 1; to < f->groups.n;)
        if (!join_row_of(f, to, &to)) to++;
    nst_fuser_compact(f);
    for (uint32_t middle = 1; middle < f->groups.n;)
        if (!join_strip_of(f, middle, &middle)) middle++;
    return NST_OK;
}
