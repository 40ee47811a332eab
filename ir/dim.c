/* dim.c: the table of dims: symbols, interned nodes, their order, and walks over them.
 *
 * Nodes are found by a hash of their fields.  Arithmetic is in dim_sum.c (sums and products) and dim_div.c (floordiv,
 * mod, min, max), facts and proofs in dim_prove.c, text in dim_text.c. */
#include "ir/dim_impl.h"

NstDims *nst_dims_new(NstArena *arena)
{
    NstDims *dims = NST_NEW(arena, NstDims);
    dims->arena = arena;
    dims->facts = 1;
    nst_map_init(&dims->names, arena);
    dims->n_slots = 256;
    dims->slots = NST_NEW_ARRAY(arena, NstDimSlot, dims->n_slots);
    dims->cache = NST_NEW_ARRAY(arena, NstDimCached, NST_DIM_CACHE);
    nst_vec_push(arena, &dims->entries, NULL);
    nst_vec_push(arena, &dims->syms, NULL);
    return dims;
}

/* -- symbols -- */

static NstDim intern_symbol(NstDims *dims, NstSym sym);

void nst_dims_share(NstDims *dims, bool shared)
{
    dims->shared = shared;
}

NstSym nst_dims_new_sym(NstDims *dims, NstSymKind kind, const char *name, int64_t lo, int64_t hi)
{
    NST_ASSERT(!dims->shared);
    NstSymEntry *entry = NST_NEW(dims->arena, NstSymEntry);
    NstSym sym = {dims->syms.n};
    entry->info = (NstSymInfo){.kind = kind, .lo = lo, .hi = hi, .multiple = 1};
    entry->info.name = nst_strdup(dims->arena, name ? name : "");
    nst_vec_push(dims->arena, &dims->syms, entry);
    if (kind != NST_SYM_INDEX) {
        uint64_t hash = nst_hash_bytes(entry->info.name, strlen(entry->info.name), 0);
        entry->next = nst_map_get(&dims->names, hash, 0);
        nst_map_put(&dims->names, hash, sym.i);
        *(dims->last_size ? &dims->syms.at[dims->last_size]->next_size : &dims->first_size) = sym.i;
        dims->last_size = sym.i;
    }
    entry->dim = intern_symbol(dims, sym);
    return sym;
}

NstSym nst_dims_find_sym(const NstDims *dims, const char *name, size_t n)
{
    uint32_t i = nst_map_get(&dims->names, nst_hash_bytes(name, n, 0), 0);
    while (i != 0) {
        const NstSymEntry *entry = dims->syms.at[i];
        if (strlen(entry->info.name) == n && memcmp(entry->info.name, name, n) == 0) break;
        i = entry->next;
    }
    return (NstSym){i};
}

NstSymInfo *nst_dims_sym(NstDims *dims, NstSym sym)
{
    NST_ASSERT(sym.i != 0 && sym.i < dims->syms.n && !dims->shared);
    NstSymInfo *info = &dims->syms.at[sym.i]->info;
    if (dims->exposed.i != sym.i) {
        /* The symbol exposed before may have been written since it was last looked at. */
        if (dims->exposed.i != 0) nst_dim_refresh(dims, dims->entries.at[dims->syms.at[sym.i]->dim.i]);
        dims->exposed = sym;
        dims->seen = *info;
    }
    return info;
}

const NstSymInfo *nst_dims_sym_info(const NstDims *dims, NstSym sym)
{
    NST_ASSERT(sym.i != 0 && sym.i < dims->syms.n);
    return &dims->syms.at[sym.i]->info;
}

NstSym nst_dims_next_size(const NstDims *dims, NstSym after)
{
    return (NstSym){after.i ? dims->syms.at[after.i]->next_size : dims->first_size};
}

uint32_t nst_dims_sym_count(const NstDims *dims)
{
    return dims->syms.n - 1;
}

/* -- interning -- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 29);
}

static uint32_t hash_node(NstDimOp op, uint32_t n, const NstDim *arg, const int64_t *coef, int64_t value, NstSym sym,
                          bool opaque)
{
    uint64_t hash = mix(mix(mix((uint64_t)op * 2 + opaque, n), (uint64_t)value), sym.i);
    for (uint32_t k = 0; k < n; k++) {
        hash = mix(hash, arg[k].i);
        if (coef) hash = mix(hash, (uint64_t)coef[k]);
    }
    return (uint32_t)(hash ^ (hash >> 32));
}

static bool node_equals(const NstDimEntry *entry, NstDimOp op, uint32_t n, const NstDim *arg, const int64_t *coef,
                        int64_t value, NstSym sym, bool opaque)
{
    const NstDimNode *node = &entry->node;
    return node->op == op && node->n == n && node->value == value && node->sym.i == sym.i && entry->opaque == opaque &&
           (n == 0 || memcmp(node->arg, arg, n * sizeof *arg) == 0) &&
           (n == 0 || !coef || memcmp(node->coef, coef, n * sizeof *coef) == 0);
}

static void grow_slots(NstDims *dims)
{
    uint32_t n_slots = dims->n_slots * 2;
    NstDimSlot *slots = NST_NEW_ARRAY(dims->arena, NstDimSlot, n_slots);
    for (uint32_t i = 0; i < dims->n_slots; i++) {
        if (dims->slots[i].id == 0) continue;
        uint32_t at = dims->slots[i].hash & (n_slots - 1);
        while (slots[at].id != 0) at = (at + 1) & (n_slots - 1);
        slots[at] = dims->slots[i];
    }
    dims->slots = slots;
    dims->n_slots = n_slots;
}

static NstDim new_entry(NstDims *dims, uint32_t slot, uint32_t hash, NstDimOp op, uint32_t n, const NstDim *arg,
                        const int64_t *coef, int64_t value, NstSym sym, bool opaque)
{
    NstDimEntry *entry = NST_NEW(dims->arena, NstDimEntry);
    entry->node = (NstDimNode){.op = op, .n = n, .value = value, .sym = sym};
    if (n != 0) entry->node.arg = nst_copy(dims->arena, arg, n * sizeof *arg);
    if (n != 0 && coef) entry->node.coef = nst_copy(dims->arena, coef, n * sizeof *coef);
    entry->opaque = opaque;
    entry->syms = op == NST_DIM_SYM ? UINT64_C(1) << (sym.i & 63) : 0;
    for (uint32_t k = 0; k < n; k++) {
        const NstDimEntry *child = nst_dim_entry(dims, arg[k]);
        entry->syms |= child->syms;
        if (child->depth >= entry->depth) entry->depth = (uint16_t)(child->depth + 1);
    }
    NST_ASSERT(!dims->shared);
    NstDim dim = {dims->entries.n};
    nst_vec_push(dims->arena, &dims->entries, entry);
    dims->slots[slot] = (NstDimSlot){hash, dim.i};
    if (dims->entries.n * 2 > dims->n_slots) grow_slots(dims);
    return dim;
}

/* The slot where the node is, or would go. */
static uint32_t find_slot(const NstDims *dims, uint32_t hash, NstDimOp op, uint32_t n, const NstDim *arg,
                          const int64_t *coef, int64_t value, NstSym sym, bool opaque)
{
    uint32_t at = hash & (dims->n_slots - 1);
    while (dims->slots[at].id != 0) {
        if (dims->slots[at].hash == hash &&
            node_equals(dims->entries.at[dims->slots[at].id], op, n, arg, coef, value, sym, opaque))
            break;
        at = (at + 1) & (dims->n_slots - 1);
    }
    return at;
}

static NstDim intern_symbol(NstDims *dims, NstSym sym)
{
    uint32_t hash = hash_node(NST_DIM_SYM, 0, NULL, NULL, 0, sym, false);
    uint32_t slot = find_slot(dims, hash, NST_DIM_SYM, 0, NULL, NULL, 0, sym, false);
    if (dims->slots[slot].id != 0) return (NstDim){dims->slots[slot].id};
    return new_entry(dims, slot, hash, NST_DIM_SYM, 0, NULL, NULL, 0, sym, false);
}

/* A fresh symbol that stands for a node too deep to keep. */
static NstDim define_symbol(NstDims *dims, NstDim def)
{
    char name[32];
    snprintf(name, sizeof name, "deep#%u", dims->syms.n);
    NstSym sym = nst_dims_new_sym(dims, NST_SYM_VALUE, name, INT64_MIN, INT64_MAX);
    NstDimEntry *entry = nst_dim_entry(dims, def);
    nst_dim_refresh(dims, entry);
    NstSymInfo *info = &dims->syms.at[sym.i]->info;
    info->lo = entry->lo;
    info->hi = entry->hi;
    info->multiple = entry->multiple > 0 ? entry->multiple : 1;
    info->def = def;
    entry->symbol = sym.i;
    return dims->syms.at[sym.i]->dim;
}

NstDim nst_dim_intern(NstDims *dims, NstDimOp op, uint32_t n, const NstDim *arg, const int64_t *coef, int64_t value,
                      bool opaque)
{
    uint32_t hash = hash_node(op, n, arg, coef, value, (NstSym){0}, opaque);
    uint32_t slot = find_slot(dims, hash, op, n, arg, coef, value, (NstSym){0}, opaque);
    NstDim dim = {dims->slots[slot].id};
    if (dim.i == 0) dim = new_entry(dims, slot, hash, op, n, arg, coef, value, (NstSym){0}, opaque);
    const NstDimEntry *entry = nst_dim_entry(dims, dim);
    if (entry->depth < NST_DIM_MAX_DEPTH) return dim;
    return entry->symbol != 0 ? dims->syms.at[entry->symbol]->dim : define_symbol(dims, dim);
}

NstDim nst_dim_binary(NstDims *dims, NstDimOp op, NstDim a, NstDim b)
{
    NstDim arg[2] = {a, b};
    return nst_dim_intern(dims, op, 2, arg, NULL, 0, false);
}

NstDim nst_dim_find_binary(const NstDims *dims, NstDimOp op, NstDim a, NstDim b)
{
    NstDim arg[2] = {a, b};
    uint32_t hash = hash_node(op, 2, arg, NULL, 0, (NstSym){0}, false);
    return (NstDim){dims->slots[find_slot(dims, hash, op, 2, arg, NULL, 0, (NstSym){0}, false)].id};
}

NstDim nst_dim_const(NstDims *dims, int64_t value)
{
    return nst_dim_intern(dims, NST_DIM_CONST, 0, NULL, NULL, value, false);
}

NstDim nst_dim_sym(NstDims *dims, NstSym sym)
{
    NST_ASSERT(sym.i != 0 && sym.i < dims->syms.n);
    return dims->syms.at[sym.i]->dim;
}

static NstDimCached *cache_slot(const NstDims *dims, uint32_t op, NstDim a, NstDim b)
{
    return &dims->cache[mix(mix(op, a.i), b.i) & (NST_DIM_CACHE - 1)];
}

bool nst_dim_cache_get(const NstDims *dims, uint32_t op, NstDim a, NstDim b, NstDim *result)
{
    const NstDimCached *cached = cache_slot(dims, op, a, b);
    if (cached->result == 0 || cached->op != op || cached->a != a.i || cached->b != b.i) return false;
    result->i = cached->result;
    return true;
}

void nst_dim_cache_put(NstDims *dims, uint32_t op, NstDim a, NstDim b, NstDim result)
{
    /* Inside a proof, proofs are cut short: do not keep what may be simplified less. */
    if (dims->prove_depth > 0) return;
    *cache_slot(dims, op, a, b) = (NstDimCached){op, a.i, b.i, result.i};
}

/* -- queries -- */

const NstDimNode *nst_dim_node(const NstDims *dims, NstDim dim)
{
    NST_ASSERT(dim.i != 0 && dim.i < dims->entries.n);
    return &nst_dim_entry(dims, dim)->node;
}

bool nst_dim_is_const(const NstDims *dims, NstDim dim, int64_t *value)
{
    const NstDimNode *node = nst_dim_node(dims, dim);
    if (node->op != NST_DIM_CONST) return false;
    *value = node->value;
    return true;
}

/* Order of two dims that are no products of several factors. */
static int order_plain(const NstDims *dims, NstDim a, NstDim b)
{
    const NstDimEntry *x = nst_dim_entry(dims, a), *y = nst_dim_entry(dims, b);
    if (x->opaque != y->opaque) return x->opaque ? 1 : -1;
    if (x->node.op != y->node.op) {
        if (x->node.op == NST_DIM_CONST || y->node.op == NST_DIM_CONST) return x->node.op == NST_DIM_CONST ? 1 : -1;
        return x->node.op < y->node.op ? -1 : 1;
    }
    if (x->node.op == NST_DIM_SYM) return x->node.sym.i < y->node.sym.i ? -1 : 1;
    if (x->node.n != y->node.n) return x->node.n < y->node.n ? -1 : 1;
    for (uint32_t k = 0; k < x->node.n; k++) {
        int order = nst_dim_order(dims, x->node.arg[k], y->node.arg[k]);
        if (order != 0) return order;
        if (x->node.coef && x->node.coef[k] != y->node.coef[k]) return x->node.coef[k] < y->node.coef[k] ? -1 : 1;
    }
    return x->node.value < y->node.value ? -1 : x->node.value > y->node.value;
}

int nst_dim_order(const NstDims *dims, NstDim a, NstDim b)
{
    if (a.i == b.i) return 0;
    const NstDim *x, *y;
    uint32_t n = nst_dim_factors(dims, &a, &x), m = nst_dim_factors(dims, &b, &y);
    if (n != m) return n > m ? -1 : 1;
    if (n == 1) return order_plain(dims, a, b);
    for (uint32_t k = 0; k < n; k++)
        if (x[k].i != y[k].i) return nst_dim_order(dims, x[k], y[k]);
    return 0;
}
