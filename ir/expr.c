/* expr.c: the pool of scalar expressions: hash-consed storage, leaves, and walks over an expression.
 *
 * Nodes live in fixed blocks, so that a NstExprNode pointer stays valid while the pool grows.  Operands have
 * smaller ids than their users.  Walks keep their own stack: an expression may be as deep as a fused chain is
 * long.  Cost: a constructor is one hash look-up, a walk is linear in the distinct nodes. */
#include "ir/expr_pool.h"

#include <string.h>

#include "ir/base/map.h"
#include "ir/base/vec.h"

#define BLOCK_BITS  8
#define BLOCK_SIZE  (1u << BLOCK_BITS)
#define FIRST_SLOTS 256u

/* Marks of one walk: value[id] is meaningful when stamp[id] == epoch.  Kept for reuse; walks may nest. */
typedef struct Walk {
    struct Walk *next;
    NST_VEC(NstExpr) stack;
    uint32_t *stamp;
    uint32_t *value;
    uint32_t cap, epoch;
} Walk;

typedef struct Scratch {
    Walk *unused;
} Scratch;

struct NstExprs {
    NstArena *arena;
    NstDims *dims;
    NST_VEC(NstExprNode *) blocks;
    NST_VEC(uint64_t) hashes; /* by id */
    uint32_t n;               /* ids 1 .. n - 1; id 0 is none */
    uint32_t *slots;          /* open addressing, id; 0 = free */
    uint32_t n_slots;
    Scratch *scratch;
    bool shared; /* by threads that only look at nodes */
};

static NstExprNode *node_at(const NstExprs *exprs, uint32_t id)
{
    return &exprs->blocks.at[id >> BLOCK_BITS][id & (BLOCK_SIZE - 1)];
}

static uint32_t push_node(NstExprs *exprs, const NstExprNode *node, uint64_t hash)
{
    uint32_t id = exprs->n;
    NST_ASSERT(id != UINT32_MAX && !exprs->shared);
    if ((id & (BLOCK_SIZE - 1)) == 0) {
        NstExprNode *block = NST_NEW_ARRAY(exprs->arena, NstExprNode, BLOCK_SIZE);
        nst_vec_push(exprs->arena, &exprs->blocks, block);
    }
    nst_vec_push(exprs->arena, &exprs->hashes, hash);
    exprs->n++;
    *node_at(exprs, id) = *node;
    return id;
}

NstExprs *nst_exprs_new(NstArena *arena, NstDims *dims)
{
    NstExprs *exprs = NST_NEW(arena, NstExprs);
    exprs->arena = arena;
    exprs->dims = dims;
    exprs->n_slots = FIRST_SLOTS;
    exprs->slots = NST_NEW_ARRAY(arena, uint32_t, FIRST_SLOTS);
    exprs->scratch = NST_NEW(arena, Scratch);
    push_node(exprs, &(NstExprNode){.op = NST_OP_NONE}, 0);
    return exprs;
}

void nst_exprs_share(NstExprs *exprs, bool shared)
{
    exprs->shared = shared;
}

NstDims *nst_exprs_dims(const NstExprs *exprs)
{
    return exprs->dims;
}

uint32_t nst_exprs_count(const NstExprs *exprs)
{
    return exprs->n - 1;
}

const NstExprNode *nst_expr(const NstExprs *exprs, NstExpr e)
{
    NST_ASSERT(e.i != 0 && e.i < exprs->n);
    return node_at(exprs, e.i);
}

/* -- interning ------------------------------------------------------------------------------------------------- */

static uint64_t hash_node(const NstExprNode *node)
{
    const uint32_t words[] = {(uint32_t)node->op, (uint32_t)node->type,     node->arg[0].i,
                              node->arg[1].i,     node->arg[2].i,           node->ref,
                              node->n_index,      (uint32_t)node->imm.bits, (uint32_t)(node->imm.bits >> 32)};
    uint64_t hash = nst_hash_bytes(words, sizeof words, 0);
    return node->n_index ? nst_hash_bytes(node->index, node->n_index * sizeof *node->index, hash) : hash;
}

static bool same_node(const NstExprNode *a, const NstExprNode *b)
{
    return a->op == b->op && a->type == b->type && a->ref == b->ref && a->imm.bits == b->imm.bits &&
           a->n_index == b->n_index && memcmp(a->arg, b->arg, sizeof a->arg) == 0 &&
           (a->n_index == 0 || memcmp(a->index, b->index, a->n_index * sizeof *a->index) == 0);
}

static uint32_t *find_slot(const NstExprs *exprs, const NstExprNode *node, uint64_t hash)
{
    uint32_t mask = exprs->n_slots - 1, k = (uint32_t)hash & mask;
    for (;; k = (k + 1) & mask) {
        uint32_t id = exprs->slots[k];
        if (id == 0 || (exprs->hashes.at[id] == hash && same_node(node_at(exprs, id), node))) return &exprs->slots[k];
    }
}

static void grow_slots(NstExprs *exprs)
{
    uint32_t n_slots = exprs->n_slots * 2, mask = n_slots - 1;
    uint32_t *slots = NST_NEW_ARRAY(exprs->arena, uint32_t, n_slots);
    for (uint32_t id = 1; id < exprs->n; id++) {
        uint32_t k = (uint32_t)exprs->hashes.at[id] & mask;
        while (slots[k] != 0) k = (k + 1) & mask;
        slots[k] = id;
    }
    exprs->slots = slots;
    exprs->n_slots = n_slots;
}

NstExpr nst_expr_intern(NstExprs *exprs, const NstExprNode *node)
{
    uint64_t hash = hash_node(node);
    uint32_t *slot = find_slot(exprs, node, hash);
    if (*slot != 0) return (NstExpr){*slot};
    NstExprNode stored = *node;
    if (node->n_index) stored.index = nst_copy(exprs->arena, node->index, node->n_index * sizeof *node->index);
    uint32_t id = push_node(exprs, &stored, hash);
    *slot = id;
    if (exprs->n >= exprs->n_slots / 2) grow_slots(exprs);
    return (NstExpr){id};
}

/* -- leaves ---------------------------------------------------------------------------------------------------- */

NstExpr nst_expr_const(NstExprs *exprs, NstDtype type, NstScalar value)
{
    NST_ASSERT(type != NST_DTYPE_NONE && nst_dtype_info(type)->bytes <= 8);
    return nst_expr_intern(exprs,
                           &(NstExprNode){.op = NST_OP_CONST, .type = type, .imm = nst_scalar_normal(type, value)});
}

NstExpr nst_expr_int(NstExprs *exprs, NstDtype type, int64_t value)
{
    return nst_expr_const(exprs, type, nst_scalar_convert(type, NST_I64, (NstScalar){.i = value}, false));
}

NstExpr nst_expr_float(NstExprs *exprs, NstDtype type, double value)
{
    return nst_expr_const(exprs, type, nst_scalar_convert(type, NST_F64, (NstScalar){.f = value}, false));
}

NstExpr nst_expr_arg(NstExprs *exprs, NstDtype type, uint32_t slot)
{
    NST_ASSERT(type != NST_DTYPE_NONE);
    return nst_expr_intern(exprs, &(NstExprNode){.op = NST_OP_ARG, .type = type, .ref = slot});
}

NstExpr nst_expr_index(NstExprs *exprs, NstDim dim)
{
    int64_t value;
    if (nst_dim_is_const(exprs->dims, dim, &value)) return nst_expr_int(exprs, NST_I64, value);
    return nst_expr_intern(exprs, &(NstExprNode){.op = NST_OP_INDEX, .type = NST_I64, .n_index = 1, .index = &dim});
}

NstExpr nst_expr_load(NstExprs *exprs, NstDtype type, NstBuf buffer, const NstDim *index, uint32_t n)
{
    NST_ASSERT(type != NST_DTYPE_NONE && buffer.i != 0);
    return nst_expr_intern(
        exprs,
        &(NstExprNode){.op = NST_OP_LOAD, .type = type, .ref = buffer.i, .n_index = n, .index = n ? index : NULL});
}

NstExpr nst_expr_let(NstExprs *exprs, NstDtype type, uint32_t id)
{
    NST_ASSERT(type != NST_DTYPE_NONE);
    return nst_expr_intern(exprs, &(NstExprNode){.op = NST_OP_LET, .type = type, .ref = id});
}

/* -- walks ----------------------------------------------------------------------------------------------------- */

static Walk *begin_walk(const NstExprs *exprs)
{
    NST_ASSERT(!exprs->shared);
    Walk *walk = exprs->scratch->unused;
    if (walk)
        exprs->scratch->unused = walk->next;
    else
        walk = NST_NEW(exprs->arena, Walk);
    if (walk->cap < exprs->n) {
        walk->cap = exprs->n_slots; /* a power of two above n */
        walk->stamp = NST_NEW_ARRAY(exprs->arena, uint32_t, walk->cap);
        walk->value = NST_NEW_ARRAY(exprs->arena, uint32_t, walk->cap);
        walk->epoch = 0;
    }
    walk->epoch++;
    if (walk->epoch == 0) { /* wrapped: forget all marks */
        memset(walk->stamp, 0, walk->cap * sizeof *walk->stamp);
        walk->epoch = 1;
    }
    walk->stack.n = 0;
    return walk;
}

static void end_walk(const NstExprs *exprs, Walk *walk)
{
    walk->next = exprs->scratch->unused;
    exprs->scratch->unused = walk;
}

static bool is_marked(const Walk *walk, NstExpr e)
{
    return walk->stamp[e.i] == walk->epoch;
}

static void mark(Walk *walk, NstExpr e, uint32_t value)
{
    walk->stamp[e.i] = walk->epoch;
    walk->value[e.i] = value;
}

/* Pushes the unmarked operands of e, last first; false if there are none. */
static bool push_operands(const NstExprs *exprs, Walk *walk, const NstExprNode *node)
{
    uint32_t before = walk->stack.n;
    for (int k = nst_scalar_info(node->op)->arity - 1; k >= 0; k--)
        if (!is_marked(walk, node->arg[k])) nst_vec_push(exprs->arena, &walk->stack, node->arg[k]);
    return walk->stack.n > before;
}

void nst_expr_visit(const NstExprs *exprs, NstExpr e, void (*visit)(void *arg, NstExpr e, const NstExprNode *node),
                    void *arg)
{
    Walk *walk = begin_walk(exprs);
    nst_vec_push(exprs->arena, &walk->stack, e);
    while (walk->stack.n > 0) {
        NstExpr top = walk->stack.at[walk->stack.n - 1];
        const NstExprNode *node = nst_expr(exprs, top);
        if (!is_marked(walk, top)) {
            if (push_operands(exprs, walk, node)) continue;
            mark(walk, top, 0);
            visit(arg, top, node);
        }
        (void)nst_vec_pop(&walk->stack);
    }
    end_walk(exprs, walk);
}

/* The node with its operands replaced by what the walk made of them. */
static NstExpr rebuild(NstExprs *exprs, const Walk *walk, NstExpr e, const NstExprNode *node)
{
    NstExpr arg[3] = {{0}, {0}, {0}};
    bool same = true;
    for (int k = 0; k < nst_scalar_info(node->op)->arity; k++) {
        arg[k].i = walk->value[node->arg[k].i];
        same = same && arg[k].i == node->arg[k].i;
    }
    return same ? e : nst_expr_make(exprs, node->op, node->type, arg);
}

static bool is_leaf(NstScalarOp op)
{
    return op == NST_OP_CONST || op == NST_OP_ARG || op == NST_OP_INDEX || op == NST_OP_LOAD || op == NST_OP_LET;
}

NstExpr nst_expr_rewrite(NstExprs *exprs, NstExpr e, NstExprRewrite fn, void *arg)
{
    Walk *walk = begin_walk(exprs);
    nst_vec_push(exprs->arena, &walk->stack, e);
    while (walk->stack.n > 0) {
        NstExpr top = walk->stack.at[walk->stack.n - 1];
        const NstExprNode *node = nst_expr(exprs, top);
        if (!is_marked(walk, top)) {
            if (push_operands(exprs, walk, node)) continue;
            bool was_leaf = is_leaf(node->op);
            NstExpr rebuilt = rebuild(exprs, walk, top, node), other = {0};
            /* An operation that folds to one of its operands' leaves gives what fn has made already. */
            if (was_leaf || !is_leaf(nst_expr(exprs, rebuilt)->op)) other = fn(arg, exprs, rebuilt);
            mark(walk, top, other.i ? other.i : rebuilt.i);
        }
        (void)nst_vec_pop(&walk->stack);
    }
    NstExpr result = {walk->value[e.i]};
    end_walk(exprs, walk);
    return result;
}

typedef struct ArgSubst {
    const NstExpr *with;
    uint32_t n;
} ArgSubst;

static NstExpr subst_arg(void *arg, NstExprs *exprs, NstExpr e)
{
    const ArgSubst *subst = arg;
    const NstExprNode *node = nst_expr(exprs, e);
    return node->op == NST_OP_ARG && node->ref < subst->n ? subst->with[node->ref] : (NstExpr){0};
}

NstExpr nst_expr_subst_args(NstExprs *exprs, NstExpr e, const NstExpr *with, uint32_t n)
{
    ArgSubst subst = {with, n};
    return nst_expr_rewrite(exprs, e, subst_arg, &subst);
}

typedef struct SymSubst {
    const NstDim *value_of;
    uint32_t n;
} SymSubst;

static NstExpr subst_syms(void *arg, NstExprs *exprs, NstExpr e)
{
    const SymSubst *subst = arg;
    const NstExprNode *node = nst_expr(exprs, e);
    if (node->n_index == 0) return (NstExpr){0};
    if (node->op == NST_OP_INDEX)
        return nst_expr_index(exprs, nst_dim_subst_all(exprs->dims, node->index[0], subst->value_of, subst->n));
    NstDim few[16], *index = few;
    if (node->n_index > 16) index = NST_NEW_ARRAY(exprs->arena, NstDim, node->n_index);
    for (uint32_t k = 0; k < node->n_index; k++)
        index[k] = nst_dim_subst_all(exprs->dims, node->index[k], subst->value_of, subst->n);
    return nst_expr_load(exprs, node->type, (NstBuf){node->ref}, index, node->n_index);
}

NstExpr nst_expr_subst_syms(NstExprs *exprs, NstExpr e, const NstDim *value_of, uint32_t n)
{
    SymSubst subst = {value_of, n};
    return nst_expr_rewrite(exprs, e, subst_syms, &subst);
}

typedef struct SymUse {
    const NstDims *dims;
    NstSym sym;
    bool found;
} SymUse;

static void find_sym(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    SymUse *use = arg;
    for (uint32_t k = 0; k < node->n_index; k++)
        use->found = use->found || nst_dim_uses(use->dims, node->index[k], use->sym);
}

bool nst_expr_uses_sym(const NstExprs *exprs, NstExpr e, NstSym sym)
{
    SymUse use = {exprs->dims, sym, false};
    if (e.i != 0) nst_expr_visit(exprs, e, find_sym, &use);
    return use.found;
}

static void count_operation(void *arg, NstExpr e, const NstExprNode *node)
{
    (void)e;
    uint32_t *count = arg;
    if (nst_scalar_info(node->op)->arity > 0) ++*count;
}

uint32_t nst_expr_cost(const NstExprs *exprs, NstExpr e)
{
    uint32_t count = 0;
    nst_expr_visit(exprs, e, count_operation, &count);
    return count;
}
