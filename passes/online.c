/* online.c: rows that are weighted sums about their maximum run in chunks of keys: contraction, maximum, exp, sums, contraction over a
 * strip of NST_ONLINE_CHUNK scores instead of one as long as the row (architecture.md section 4, rule 5).
 *
 * In: fused groups.  Out: where a row may have more keys than a chunk, the group's nests over the keys stand in a serial group over
 * the chunks.  Each chunk leaves in locals of the rows
 *   peak   = max(max, maximum of the chunk's scores)
 *   factor = exp(max - peak)
 *   sum    = max > -inf ? sum * factor + part : part, where part = sum of the chunk's terms about peak
 *   max    = peak
 * and what follows a sum reads it after the last.  The first chunk finds max = -inf: alone it is the plain form, to the bit.  A row of
 * which all before was masked (-inf) forgets it: exp(-inf - -inf) is NaN, as it is in the plain form where the whole row is masked.
 * Which rows take chunks is said by what they compute and by the number of keys alone, never by the number of rows, and a chunk has
 * its keys whatever the size was known as: results have the same bits in every variant, batch and schedule.
 * Approximate: the sums are those of the plain form with other roundings, one a chunk and sum more.  A sum of terms about an earlier
 * maximum may overflow where those about the last do not, if values are within n of the largest float. */
#include "passes/online.h"

#include <math.h>

#include "passes/pass.h"

typedef struct Chunked {
    NstModule *module;
    NstExprs *exprs;
    NstDims *dims;
    const NstOnline *o;
    const NstGroup *group; /* as it was */
    uint32_t n;            /* its common axes: the rows */
    NstGroup *rows, *loop; /* as it becomes; the chunks inside of it */
    NstDim chunks;
    NstBuf *moved; /* by buffer: what holds one chunk of it */
    uint32_t n_moved;
    NstBuf peak, factor; /* of a chunk */
    NstDtype type;
} Chunked;

/* --- nests and buffers over the rows ------------------------------------------------------------------------------- */

/* A new nest over the rows, over the chunks where it stands inside of them, and over axes like those of `more`. */
static NstNest *row_nest(Chunked *c, const char *name, bool inside, const NstAxis *more, uint32_t n_more)
{
    const NstNest *max = c->o->nest[c->o->at_max];
    NstNest *nest = nst_nest_new(c->module, name, max->origin);
    nest->axis = NST_NEW_ARRAY(c->module->arena, NstAxis, c->n + inside + n_more);
    for (uint32_t k = 0; k < c->n; k++)
        nest->axis[nest->n_axes++] = nst_nest_axis(c->module, "row", c->group->axis[k].extent);
    if (inside) nest->axis[nest->n_axes++] = nst_nest_axis(c->module, "chunk", c->chunks);
    for (uint32_t k = 0; k < n_more; k++) nest->axis[nest->n_axes++] = nst_nest_axis(c->module, "i", more[k].extent);
    nest->n_outs = 1;
    nest->out = NST_NEW_ARRAY(c->module->arena, NstNestOut, 1);
    return nest;
}

/* The place of the nest's first n axes. */
static NstDim *place_of(Chunked *c, const NstNest *nest, uint32_t n)
{
    NstDim *index = NST_NEW_ARRAY(c->module->arena, NstDim, n ? n : 1);
    for (uint32_t k = 0; k < n; k++) index[k] = nst_dim_sym(c->dims, nest->axis[k].var);
    return index;
}

static NstExpr load_row(Chunked *c, const NstNest *nest, NstBuf buffer, bool inside)
{
    uint32_t n = c->n + inside;
    return nst_expr_load(c->exprs, c->type, buffer, place_of(c, nest, n), n);
}

static void set_out(NstNest *nest, NstBuf buffer, NstDim *index, uint32_t n, NstExpr value)
{
    nest->out[0] = (NstNestOut){.buffer = buffer, .n_index = n, .index = index, .value = value};
}

static void set_row_out(Chunked *c, NstNest *nest, NstBuf buffer, bool inside, NstExpr value)
{
    set_out(nest, buffer, place_of(c, nest, c->n + inside), c->n + inside, value);
}

static void add(Chunked *c, NstGroup *group, NstNest *nest)
{
    nst_vec_push(c->module->arena, &group->items, ((NstGroupItem){.nest = nest}));
}

/* A new local of the rows (inside: of one chunk of them) with further extents. */
static NstBuf add_local(Chunked *c, const char *name, bool inside, const NstAxis *more, uint32_t n_more)
{
    NstDim shape[NST_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t k = 0; k < c->n; k++) shape[rank++] = c->group->axis[k].extent;
    if (inside) shape[rank++] = c->chunks;
    for (uint32_t k = 0; k < n_more; k++) shape[rank++] = more[k].extent;
    NstBuf buffer = nst_module_buffer(c->module, name, c->type, (int)rank, shape, NST_ROLE_TEMP);
    nst_vec_push(c->module->arena, inside ? &c->loop->locals : &c->rows->locals, buffer);
    return buffer;
}

/* --- members of a chunk -------------------------------------------------------------------------------------------- */

/* Keys of chunk `chunk` for a nest over `extent` of them: all, which may be written in another way than in the sums. */
static NstDim keys_of(Chunked *c, NstDim extent, NstDim chunk)
{
    NstDim size = nst_dim_const(c->dims, NST_ONLINE_CHUNK);
    if (nst_dim_same(extent, c->o->keys) && nst_dim_known_multiple(c->dims, extent) % NST_ONLINE_CHUNK == 0)
        return size;
    NstDim first = nst_dim_mul(c->dims, chunk, size);
    return nst_dim_min(c->dims, size, nst_dim_sub(c->dims, extent, first));
}

/* Loads and stores of one nest, which moves into the chunks. */
typedef struct Move {
    Chunked *c;
    NstDim chunk, first; /* and its first key */
} Move;

/* The place, in what holds one chunk, of a place of a buffer with an element for each key. */
static NstDim *moved_index(Move *m, NstBuf buffer, const NstDim *index, uint32_t n)
{
    Chunked *c = m->c;
    uint32_t axis = (uint32_t)nst_online_axis_of(c->o, buffer);
    NstDim *moved = NST_NEW_ARRAY(c->module->arena, NstDim, n + 1);
    for (uint32_t d = 0; d < n; d++) moved[d + (d >= c->n)] = index[d];
    moved[c->n] = m->chunk;
    moved[axis + 1] = nst_dim_sub(c->dims, index[axis], m->first);
    return moved;
}

static NstExpr move_load(void *arg, NstExprs *exprs, NstExpr e)
{
    Move *m = arg;
    const NstExprNode node = *nst_expr(exprs, e);
    if (node.op != NST_OP_LOAD) return (NstExpr){0};
    NstBuf buffer = {node.ref};
    if (buffer.i == m->c->o->max.i) { /* only the weight reads it */
        NstDim *index = NST_NEW_ARRAY(m->c->module->arena, NstDim, m->c->n + 1);
        for (uint32_t d = 0; d < m->c->n; d++) index[d] = node.index[d];
        index[m->c->n] = m->chunk;
        return nst_expr_load(exprs, node.type, m->c->peak, index, m->c->n + 1);
    }
    if (buffer.i >= m->c->n_moved || !m->c->moved[buffer.i].i) return (NstExpr){0};
    return nst_expr_load(exprs, node.type, m->c->moved[buffer.i], moved_index(m, buffer, node.index, node.n_index),
                         node.n_index + 1);
}

/* The nest over the keys of one chunk. */
static NstNest *in_chunk(Chunked *c, uint32_t k)
{
    NstModule *module = c->module;
    const NstNest *whole = c->o->nest[k];
    NstNest *nest = nst_nest_clone(module, whole);
    NstAxis chunk = nst_nest_axis(module, "chunk", c->chunks), *key = NULL;
    Move m = {c, nst_dim_sym(c->dims, chunk.var), {0}};
    m.first = nst_dim_mul_const(c->dims, m.chunk, NST_ONLINE_CHUNK);
    for (uint32_t a = 0; a < nest->n_axes; a++)
        if (whole->axis[a].var.i == c->o->key[k].i) key = &nest->axis[a];
    for (uint32_t r = 0; r < nest->n_reduce; r++)
        if (whole->reduce[r].var.i == c->o->key[k].i) key = &nest->reduce[r];
    NstAxis part = nst_nest_axis(module, "key", keys_of(c, key->extent, m.chunk));
    NstNestSubst subst;
    nst_subst_begin(&subst, module);
    nst_subst_set(&subst, key->var, nst_dim_add(c->dims, m.first, nst_dim_sym(c->dims, part.var)));
    nst_subst_end(&subst, nest);
    *key = part;
    NstAxis *axis = NST_NEW_ARRAY(module->arena, NstAxis, nest->n_axes + 1);
    for (uint32_t a = 0; a < nest->n_axes; a++) axis[a + (a >= c->n)] = nest->axis[a];
    axis[c->n] = chunk;
    nest->axis = axis;
    nest->n_axes++;
    for (uint32_t s = 0; s < nest->n_states; s++)
        nest->state[s].step = nst_expr_rewrite(c->exprs, nest->state[s].step, move_load, &m);
    NstNestOut *out = &nest->out[0];
    out->value = nst_expr_rewrite(c->exprs, out->value, move_load, &m);
    if (out->buffer.i < c->n_moved && c->moved[out->buffer.i].i) {
        out->index = moved_index(&m, out->buffer, out->index, out->n_index);
        out->buffer = c->moved[out->buffer.i];
        out->n_index++;
    }
    return nest;
}

/* What holds one chunk of each buffer with an element for each key. */
static void move_buffers(Chunked *c)
{
    c->n_moved = c->module->buffers.n;
    c->moved = NST_NEW_ARRAY(c->module->arena, NstBuf, c->n_moved);
    for (uint32_t k = 0; k < c->o->along.n; k++) {
        const NstOnlineAlong *along = &c->o->along.at[k];
        const NstBuffer from = nst_module_get(c->module, along->buffer)->buffer;
        NstDim shape[NST_MAX_RANK];
        for (uint32_t d = 0; d < (uint32_t)from.rank; d++)
            shape[d + (d >= c->n)] = d == along->axis ? nst_dim_const(c->dims, NST_ONLINE_CHUNK) : from.shape[d];
        shape[c->n] = c->chunks;
        NstBuf moved = nst_module_buffer(c->module, from.name, from.dtype, from.rank + 1, shape, NST_ROLE_TEMP);
        c->moved[along->buffer.i] = moved;
        nst_vec_push(c->module->arena, &c->loop->locals, moved);
    }
}

/* The maximum of the rows before any chunk, that of one chunk, and the factor that it gives what was before. */
static void write_max(Chunked *c)
{
    NstExprs *exprs = c->exprs;
    NstNest *start = row_nest(c, "start", false, NULL, 0), *factor = row_nest(c, "factor", true, NULL, 0);
    set_row_out(c, start, c->o->max, false, nst_expr_float(exprs, c->type, -INFINITY));
    add(c, c->rows, start);
    NstNest *peak = in_chunk(c, c->o->at_max);
    set_row_out(
        c, peak, c->peak, true,
        nst_expr_binary(exprs, NST_OP_MAX, load_row(c, peak, c->o->max, false), nst_expr_arg(exprs, c->type, 0)));
    add(c, c->loop, peak);
    NstExpr difference =
        nst_expr_binary(exprs, NST_OP_SUB, load_row(c, factor, c->o->max, false), load_row(c, factor, c->peak, true));
    set_row_out(c, factor, c->factor, true, nst_expr_unary(exprs, NST_OP_EXP, difference));
    add(c, c->loop, factor);
}

/* sum = max > -inf ? sum * factor + part : part, over the rows and the axes of `more`. */
static void add_part(Chunked *c, NstBuf sum, NstBuf part, const NstAxis *more, uint32_t n_more)
{
    NstExprs *exprs = c->exprs;
    NstNest *nest = row_nest(c, "add", true, more, n_more);
    NstDim *at_part = place_of(c, nest, nest->n_axes), *at_sum = place_of(c, nest, nest->n_axes);
    for (uint32_t k = c->n; k + 1 < nest->n_axes; k++) at_sum[k] = at_part[k + 1]; /* all axes but the chunk's */
    NstExpr of_chunk = nst_expr_load(exprs, c->type, part, at_part, nest->n_axes);
    NstExpr before = nst_expr_load(exprs, c->type, sum, at_sum, nest->n_axes - 1);
    NstExpr scaled = nst_expr_binary(exprs, NST_OP_MUL, before, load_row(c, nest, c->factor, true));
    NstExpr any = nst_expr_binary(exprs, NST_OP_GT, load_row(c, nest, c->o->max, false),
                                  nst_expr_float(exprs, c->type, -INFINITY));
    NstExpr both = nst_expr_binary(exprs, NST_OP_ADD, scaled, of_chunk);
    set_out(nest, sum, at_sum, nest->n_axes - 1, nst_expr_ternary(exprs, NST_OP_SELECT, any, both, of_chunk));
    add(c, c->loop, nest);
}

/* Sum k: zero before any chunk, a chunk's added to what was before, and what the nest makes of it after the last. */
static void write_sum(Chunked *c, uint32_t k, NstGroup *after)
{
    const NstNest *whole = c->o->nest[k];
    uint32_t n_more = whole->n_axes - c->n;
    const NstAxis *more = whole->axis + c->n;
    bool itself = n_more == 0 && nst_expr(c->exprs, whole->out[0].value)->op == NST_OP_ARG &&
                  nst_group_is_local(c->group, whole->out[0].buffer);
    NstBuf sum = itself ? whole->out[0].buffer : add_local(c, "sum", false, more, n_more);
    NstBuf part = add_local(c, "part", true, more, n_more);
    NstNest *start = row_nest(c, "start", false, more, n_more), *of_chunk = in_chunk(c, k);
    set_out(start, sum, place_of(c, start, start->n_axes), start->n_axes, nst_expr_float(c->exprs, c->type, 0));
    add(c, c->rows, start);
    set_out(of_chunk, part, place_of(c, of_chunk, of_chunk->n_axes), of_chunk->n_axes,
            nst_expr_arg(c->exprs, c->type, 0));
    add(c, c->loop, of_chunk);
    add_part(c, sum, part, more, n_more);
    if (itself) return;
    NstNest *last = nst_nest_clone(c->module, whole);
    NstExpr total = nst_expr_load(c->exprs, c->type, sum, place_of(c, last, last->n_axes), last->n_axes);
    last->out[0].value = nst_expr_subst_args(c->exprs, last->out[0].value, &total, 1);
    last->n_states = last->n_reduce = 0;
    last->lanes = 0;
    add(c, after, last);
}

static void keep_max(Chunked *c)
{
    NstNest *keep = row_nest(c, "keep", true, NULL, 0);
    set_out(keep, c->o->max, place_of(c, keep, c->n), c->n, load_row(c, keep, c->peak, true));
    add(c, c->loop, keep);
}

/* The group with its keys in chunks. */
static NstGroup *in_chunks(NstModule *module, const NstGroup *group, const NstOnline *o)
{
    NstArena *arena = module->arena;
    Chunked c = {
        .module = module, .exprs = module->exprs, .dims = module->dims, .o = o, .group = group, .n = group->n_axes};
    NstDim size = nst_dim_const(c.dims, NST_ONLINE_CHUNK);
    c.chunks = nst_dim_ceildiv(c.dims, o->keys, size);
    c.type = o->nest[o->at_max]->state[0].dtype;
    c.rows = nst_copy(arena, group, sizeof *group);
    memset(&c.rows->items, 0, sizeof c.rows->items);
    memset(&c.rows->locals, 0, sizeof c.rows->locals);
    c.loop = NST_NEW(arena, NstGroup);
    *c.loop = (NstGroup){.name = group->name, .origin = group->origin, .n_axes = 1, .serial = true};
    c.loop->axis = NST_NEW_ARRAY(arena, NstAxis, 1);
    c.loop->axis[0] = nst_nest_axis(module, "chunk", c.chunks);
    for (uint32_t k = 0; k < group->locals.n; k++)
        if (nst_online_axis_of(o, group->locals.at[k]) < 0) nst_vec_push(arena, &c.rows->locals, group->locals.at[k]);
    move_buffers(&c);
    c.peak = add_local(&c, "peak", true, NULL, 0);
    c.factor = add_local(&c, "factor", true, NULL, 0);
    NstGroup after = {0};
    for (uint32_t k = 0; k < o->n; k++) switch (o->role[k]) {
        case NST_ONLINE_BEFORE: add(&c, c.rows, o->nest[k]); break;
        case NST_ONLINE_ALONG: add(&c, c.loop, in_chunk(&c, k)); break;
        case NST_ONLINE_MAX: write_max(&c); break;
        case NST_ONLINE_SUM: write_sum(&c, k, &after); break;
        case NST_ONLINE_AFTER: add(&c, &after, o->nest[k]); break;
        }
    keep_max(&c);
    nst_vec_push(arena, &c.rows->items, ((NstGroupItem){.group = c.loop}));
    for (uint32_t k = 0; k < after.items.n; k++) nst_vec_push(arena, &c.rows->items, after.items.at[k]);
    return c.rows;
}

/* --- the pass -------------------------------------------------------------------------------------------------- */

static bool list_nests(const NstGroup *group, NstNest **nest, uint32_t *n)
{
    if (!group || group->serial || group->step || group->sequence) return false;
    for (uint32_t k = 0; k < group->items.n; k++) {
        if (!group->items.at[k].nest || *n == NST_ONLINE_MAX_NESTS) return false;
        nest[(*n)++] = group->items.at[k].nest;
    }
    return true;
}

static bool takes_chunks(const NstOnline *o)
{
    int64_t lo, hi;
    nst_dim_bounds(o->module->dims, o->keys, &lo, &hi);
    return hi > NST_ONLINE_CHUNK;
}

/* True if nothing but the group reads what passes between its nests, and each of its rows has one maximum. */
static bool is_closed(const NstGroup *group, const NstOnline *o)
{
    uint32_t n = group->n_axes;
    for (uint32_t k = 0; k < o->along.n; k++)
        if (!nst_group_is_local(group, o->along.at[k].buffer) || o->along.at[k].axis < n) return false;
    for (uint32_t k = 0; k < o->n; k++)
        for (uint32_t a = 0; a < n; a++)
            if (o->nest[k]->axis[a].var.i == o->key[k].i && o->key[k].i) return false;
    return nst_group_is_local(group, o->max) && o->nest[o->at_max]->n_axes == n;
}

static void rewrite(NstFuser *f, uint32_t at)
{
    NstGroup *group = f->groups.at[at].group;
    NstNest *nest[NST_ONLINE_MAX_NESTS];
    NstOnline o;
    uint32_t n = 0;
    if (!group || !group->n_axes || !list_nests(group, nest, &n)) return;
    if (!nst_online_find(f->module, nest, n, &o) || !takes_chunks(&o) || !is_closed(group, &o)) return;
    f->groups.at[at].group = in_chunks(f->module, group, &o);
}

/* The groups that hand rows of keys on to one another, beginning with what makes the scores of group `at`'s maximum: ascending. */
static NstPlaces gather(NstFuser *f, uint32_t at)
{
    bool *taken = NST_NEW_ARRAY(f->arena, bool, f->groups.n);
    NstPlaces places = {0}, sources = nst_fuser_sources(f, at);
    taken[at] = true;
    for (uint32_t k = 0; k < sources.n; k++) taken[sources.at[k]] = nst_fuse_hands_rows(f, sources.at[k], at);
    for (uint32_t k = 0; k < f->groups.n; k++) {
        if (!taken[k]) continue;
        nst_vec_push(f->arena, &places, k);
        NstPlaces users = nst_fuser_users(f, k);
        for (uint32_t u = 0; u < users.n; u++) taken[users.at[u]] |= nst_fuse_hands_rows(f, k, users.at[u]);
    }
    return places;
}

/* True if the groups at the places alone read the buffer. */
static bool is_within(const NstFuser *f, NstBuf buffer, const NstPlaces *places)
{
    NstPlaces readers = nst_fuser_readers(f, buffer);
    for (uint32_t r = 0; r < readers.n; r++) {
        uint32_t k = 0;
        while (k < places->n && places->at[k] != readers.at[r]) k++;
        if (k == places->n) return false;
    }
    return nst_fuse_private(f, buffer);
}

/* Joins rows too long to be fused whole around the maximum in group `at`, where they will run in chunks; *changed is then the first
 * place that has changed. */
static bool join_long(NstFuser *f, uint32_t at, uint32_t *changed)
{
    NstNest *nest[NST_ONLINE_MAX_NESTS];
    NstOnline o;
    uint32_t n = 0;
    NstPlaces places = gather(f, at);
    for (uint32_t k = 0; k < places.n; k++)
        if (!list_nests(f->groups.at[places.at[k]].group, nest, &n)) return false;
    if (places.n < 2 || !nst_online_find(f->module, nest, n, &o) || !takes_chunks(&o)) return false;
    for (uint32_t k = 0; k < o.along.n; k++)
        if (!is_within(f, o.along.at[k].buffer, &places)) return false;
    *changed = places.at[0];
    return is_within(f, o.max, &places) && nst_fuse_join_all(f, &places);
}

static bool has_row_reduction(const NstGroup *group)
{
    for (uint32_t k = 0; group && k < group->items.n; k++) {
        const NstNest *nest = group->items.at[k].nest;
        if (nest && nest->n_states == 1 && nest->n_reduce == 1) return true;
    }
    return false;
}

NstStatus nst_pass_online(NstCtx *ctx, NstModule *module)
{
    NstFuser f;
    uint32_t changed;
    nst_fuser_init(&f, ctx, module);
    for (uint32_t at = 1; at < f.groups.n; at++)
        if (has_row_reduction(f.groups.at[at].group) && join_long(&f, at, &changed)) at = changed;
    nst_fuser_compact(&f);
    for (uint32_t at = 0; at < f.groups.n; at++) rewrite(&f, at);
    module->groups.n = 0;
    for (uint32_t k = 0; k < f.groups.n; k++) nst_vec_push(module->arena, &module->groups, f.groups.at[k].group);
    return NST_OK;
}
