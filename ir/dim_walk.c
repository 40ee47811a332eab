/* dim_walk.c: substitution, occurrence, linear form and evaluation: walks that visit each node once.
 *
 * A walk (but evaluation) takes a new stamp and keeps its result in the entries it visited; nested walks (a proof inside a
 * construction) take stamps of their own, and what they overwrite is computed again. */
#include "ir/dim_impl.h"

static bool recall(const NstDimEntry *entry, uint64_t stamp, int64_t *memo)
{
    *memo = entry->memo;
    return entry->stamp == stamp;
}

static void remember(NstDimEntry *entry, uint64_t stamp, int64_t memo)
{
    entry->stamp = stamp;
    entry->memo = memo;
}

/* -- occurrence -- */

static bool uses(const NstDims *dims, NstDim dim, NstSym sym, uint64_t stamp)
{
    NstDimEntry *entry = nst_dim_entry(dims, dim);
    int64_t memo;
    if (!nst_dim_may_use(entry, sym)) return false;
    if (entry->node.op == NST_DIM_SYM) return entry->node.sym.i == sym.i;
    if (recall(entry, stamp, &memo)) return memo;
    bool found = false;
    for (uint32_t k = 0; k < entry->node.n && !found; k++) found = uses(dims, entry->node.arg[k], sym, stamp);
    remember(entry, stamp, found);
    return found;
}

static uint64_t new_stamp(NstDims *dims)
{
    return ++dims->stamp;
}

bool nst_dim_uses(const NstDims *dims, NstDim dim, NstSym sym)
{
    if (!nst_dim_may_use(nst_dim_entry(dims, dim), sym)) return false;
    return uses(dims, dim, sym, new_stamp((NstDims *)(uintptr_t)dims));
}

static bool uses_kind(const NstDims *dims, NstDim dim, NstSymKind kind, uint64_t stamp)
{
    NstDimEntry *entry = nst_dim_entry(dims, dim);
    int64_t memo;
    if (entry->syms == 0) return false;
    if (entry->node.op == NST_DIM_SYM) return nst_dims_sym_info(dims, entry->node.sym)->kind == kind;
    if (recall(entry, stamp, &memo)) return memo;
    bool found = false;
    for (uint32_t k = 0; k < entry->node.n && !found; k++) found = uses_kind(dims, entry->node.arg[k], kind, stamp);
    remember(entry, stamp, found);
    return found;
}

bool nst_dim_uses_kind(const NstDims *dims, NstDim dim, NstSymKind kind)
{
    return uses_kind(dims, dim, kind, new_stamp((NstDims *)(uintptr_t)dims));
}

/* -- substitution -- */

typedef struct Subst {
    NstDims *dims;
    const NstDim *value_of; /* by symbol; NULL: only `sym` is replaced, by `value` */
    uint32_t n;
    NstSym sym;
    NstDim value;
    uint64_t mask;
    uint64_t stamp;
} Subst;

static NstDim subst(Subst *s, NstDim dim);

static NstDim subst_symbol(const Subst *s, NstDim dim, NstSym sym)
{
    if (!s->value_of) return sym.i == s->sym.i ? s->value : dim;
    return sym.i < s->n && s->value_of[sym.i].i != 0 ? s->value_of[sym.i] : dim;
}

static NstDim subst_sum(Subst *s, const NstDimNode *node)
{
    NstDimSum sum;
    nst_dim_sum_start(&sum, node->value);
    for (uint32_t k = 0; k < node->n; k++) {
        NstDim term = subst(s, node->arg[k]);
        if (nst_dim_sum_add(s->dims, &sum, term, node->coef[k])) continue;
        NstDim result = nst_dim_const(s->dims, node->value);
        for (uint32_t j = 0; j < node->n; j++)
            result = nst_dim_add(s->dims, result, nst_dim_mul_const(s->dims, subst(s, node->arg[j]), node->coef[j]));
        return result;
    }
    return nst_dim_from_sum(s->dims, &sum);
}

static NstDim subst_node(Subst *s, const NstDimNode *node)
{
    NstDim a = subst(s, node->arg[0]);
    if (node->op == NST_DIM_PRODUCT) {
        for (uint32_t k = 1; k < node->n; k++) a = nst_dim_mul(s->dims, a, subst(s, node->arg[k]));
        return a;
    }
    NstDim b = subst(s, node->arg[1]);
    switch (node->op) {
    case NST_DIM_FLOORDIV: return nst_dim_floordiv(s->dims, a, b);
    case NST_DIM_MOD: return nst_dim_mod(s->dims, a, b);
    case NST_DIM_MIN: return nst_dim_min(s->dims, a, b);
    case NST_DIM_MAX: return nst_dim_max(s->dims, a, b);
    case NST_DIM_CONST:
    case NST_DIM_SYM:
    case NST_DIM_SUM:
    case NST_DIM_PRODUCT: break;
    }
    return a;
}

static NstDim subst(Subst *s, NstDim dim)
{
    NstDimEntry *entry = nst_dim_entry(s->dims, dim);
    const NstDimNode *node = &entry->node;
    int64_t memo;
    if ((entry->syms & s->mask) == 0) return dim;
    if (node->op == NST_DIM_SYM) return subst_symbol(s, dim, node->sym);
    if (recall(entry, s->stamp, &memo)) return (NstDim){(uint32_t)memo};
    bool changed = false;
    for (uint32_t k = 0; k < node->n; k++) changed |= subst(s, node->arg[k]).i != node->arg[k].i;
    NstDim result = !changed ? dim : node->op == NST_DIM_SUM ? subst_sum(s, node) : subst_node(s, node);
    remember(entry, s->stamp, result.i);
    return result;
}

NstDim nst_dim_subst(NstDims *dims, NstDim dim, NstSym sym, NstDim value)
{
    Subst s = {.dims = dims, .sym = sym, .value = value, .mask = UINT64_C(1) << (sym.i & 63)};
    if ((nst_dim_entry(dims, dim)->syms & s.mask) == 0) return dim;
    s.stamp = new_stamp(dims);
    return subst(&s, dim);
}

NstDim nst_dim_subst_all(NstDims *dims, NstDim dim, const NstDim *value_of, uint32_t n)
{
    Subst s = {.dims = dims, .value_of = value_of, .n = n, .mask = UINT64_MAX}; /* tables are long, dims are short */
    if (nst_dim_entry(dims, dim)->syms == 0) return dim;
    s.stamp = new_stamp(dims);
    return subst(&s, dim);
}

NstDim *nst_dims_scratch(NstDims *dims, uint32_t *n)
{
    NST_ASSERT(!dims->scratch_lent);
    *n = nst_dims_sym_count(dims) + 1;
    if (dims->scratch_cap < *n) {
        dims->scratch_cap = 2 * *n;
        dims->scratch = NST_NEW_ARRAY(dims->arena, NstDim, dims->scratch_cap);
    }
    dims->scratch_lent = true;
    return dims->scratch;
}

void nst_dims_scratch_return(NstDims *dims)
{
    dims->scratch_lent = false;
}

/* -- linear form -- */

bool nst_dim_linear(NstDims *dims, NstDim dim, NstSym sym, NstDim *coef, NstDim *rest)
{
    NstDim symbol = nst_dim_sym(dims, sym);
    NstDimSum terms, left;
    nst_dim_to_sum(dims, dim, &terms);
    nst_dim_sum_start(&left, terms.value);
    *coef = nst_dim_const(dims, 0);
    for (uint32_t k = 0; k < terms.n; k++) {
        NstDim atom = terms.at[k].atom, quotient;
        if (!nst_dim_uses(dims, atom, sym)) {
            left.at[left.n++] = terms.at[k];
            continue;
        }
        if (!nst_dim_divide_atom(dims, atom, symbol, &quotient) || nst_dim_uses(dims, quotient, sym)) return false;
        *coef = nst_dim_add(dims, *coef, nst_dim_mul_const(dims, quotient, terms.at[k].coef));
    }
    *rest = nst_dim_from_sum(dims, &left);
    return true;
}

bool nst_dim_stride(NstDims *dims, NstDim dim, NstSym sym, int64_t *stride)
{
    NstDim coef, rest;
    return nst_dim_linear(dims, dim, sym, &coef, &rest) && nst_dim_is_const(dims, coef, stride);
}

/* -- evaluation -- */

/* Evaluation only reads the table, so that runs may share it: what shared nodes gave is kept on the stack. */
#define EVAL_MEMOS 32u
/* Nodes visited and nesting, both against hostile sharing and nesting only. */
#define MAX_EVAL_VISITS 1000000
#define MAX_EVAL_DEPTH  1000

typedef struct Eval {
    NstCtx *ctx;
    const NstDims *dims;
    const int64_t *value_of;
    uint32_t n;
    int visits, depth;
    uint32_t memo_id[EVAL_MEMOS]; /* direct-mapped by id; 0 = free */
    int64_t memo[EVAL_MEMOS];
} Eval;

static NstStatus eval(Eval *e, NstDim dim, int64_t *value);

static NstStatus fail_overflow(const Eval *e)
{
    NST_FAIL(e->ctx, NST_E_SHAPE, "a size computed from the input shapes does not fit 64 bits");
}

static NstStatus eval_symbol(Eval *e, NstSym sym, int64_t *value)
{
    const NstSymInfo *info = nst_dims_sym_info(e->dims, sym);
    if (info->def.i != 0) return eval(e, info->def, value);
    NST_CHECK(e->ctx, sym.i < e->n, NST_E_INVALID, "symbol '%s' (number %u) has no value among %u given", info->name,
              sym.i, e->n);
    *value = e->value_of[sym.i];
    return NST_OK;
}

static NstStatus eval_sum(Eval *e, const NstDimNode *node, int64_t *value)
{
    const NstWide limit = (NstWide)INT64_MAX << 32; /* partial sums below 2^95, terms below 2^126 */
    NstWide total = node->value;
    for (uint32_t k = 0; k < node->n; k++) {
        int64_t term = 0;
        NST_TRY(eval(e, node->arg[k], &term));
        total += (NstWide)term * node->coef[k];
        if (total > limit || total < -limit) return fail_overflow(e);
    }
    if (total > INT64_MAX || total < INT64_MIN) return fail_overflow(e);
    *value = (int64_t)total;
    return NST_OK;
}

static NstStatus eval_product(Eval *e, const NstDimNode *node, int64_t *value)
{
    bool zero = false, overflow = false;
    *value = 1;
    for (uint32_t k = 0; k < node->n; k++) {
        int64_t factor = 0;
        NST_TRY(eval(e, node->arg[k], &factor));
        zero |= factor == 0;
        overflow |= __builtin_mul_overflow(*value, factor, value);
    }
    if (zero) *value = 0;
    return overflow && !zero ? fail_overflow(e) : NST_OK;
}

static NstStatus eval_binary(Eval *e, const NstDimNode *node, int64_t *value)
{
    int64_t a = 0, b = 0;
    NST_TRY(eval(e, node->arg[0], &a));
    NST_TRY(eval(e, node->arg[1], &b));
    if (node->op == NST_DIM_MIN) {
        *value = a < b ? a : b;
        return NST_OK;
    }
    if (node->op == NST_DIM_MAX) {
        *value = a > b ? a : b;
        return NST_OK;
    }
    NST_CHECK(e->ctx, b != 0, NST_E_SHAPE, "a size computed from the input shapes divides %lld by zero", (long long)a);
    if (b == -1) { /* INT64_MIN / -1 and its remainder would trap */
        if (node->op == NST_DIM_FLOORDIV && a == INT64_MIN) return fail_overflow(e);
        *value = node->op == NST_DIM_FLOORDIV ? -a : 0;
        return NST_OK;
    }
    *value = node->op == NST_DIM_FLOORDIV ? nst_floordiv_i64(a, b) : nst_mod_i64(a, b);
    return NST_OK;
}

static NstStatus eval_node(Eval *e, const NstDimNode *node, int64_t *value)
{
    switch (node->op) {
    case NST_DIM_CONST: *value = node->value; return NST_OK;
    case NST_DIM_SYM: return eval_symbol(e, node->sym, value);
    case NST_DIM_SUM: return eval_sum(e, node, value);
    case NST_DIM_PRODUCT: return eval_product(e, node, value);
    case NST_DIM_FLOORDIV:
    case NST_DIM_MOD:
    case NST_DIM_MIN:
    case NST_DIM_MAX: break;
    }
    return eval_binary(e, node, value);
}

static NstStatus eval(Eval *e, NstDim dim, int64_t *value)
{
    const NstDimEntry *entry = nst_dim_entry(e->dims, dim);
    uint32_t slot = dim.i % EVAL_MEMOS;
    bool keep = entry->depth > 1;
    if (keep && e->memo_id[slot] == dim.i) {
        *value = e->memo[slot];
        return NST_OK;
    }
    NST_CHECK(e->ctx, e->visits-- > 0 && e->depth < MAX_EVAL_DEPTH, NST_E_LIMIT,
              "a size computed from the input shapes takes more than %d steps or nests deeper than %d", MAX_EVAL_VISITS,
              MAX_EVAL_DEPTH);
    e->depth++;
    NST_TRY(eval_node(e, &entry->node, value));
    e->depth--;
    if (!keep) return NST_OK;
    e->memo_id[slot] = dim.i;
    e->memo[slot] = *value;
    return NST_OK;
}

NstStatus nst_dim_eval(NstCtx *ctx, const NstDims *dims, NstDim dim, const int64_t *value_of, uint32_t n,
                       int64_t *value)
{
    const NstDimNode *node = nst_dim_node(dims, dim);
    if (node->op == NST_DIM_CONST) {
        *value = node->value;
        return NST_OK;
    }
    Eval e = {ctx, dims, value_of, n, MAX_EVAL_VISITS, 0, {0}, {0}};
    return eval(&e, dim, value);
}
