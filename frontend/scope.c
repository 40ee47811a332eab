/* scope.c: a hash table of names; depth-first order of nodes with a stack of our own. */
#include "frontend/scope.h"

#include <string.h>

void nst_scope_init(NstScope *scope, NstArena *arena)
{
    *scope = (NstScope){.arena = arena};
    nst_map_init(&scope->map, arena);
}

/* Position of a name, or the free key it would have (two names of one hash take further seeds). */
static uint32_t find_position(const NstScope *scope, const char *name, uint64_t *key)
{
    for (uint64_t seed = 0;; seed++) {
        *key = nst_hash_bytes(name, strlen(name), seed);
        uint32_t at = nst_map_get(&scope->map, *key, UINT32_MAX);
        if (at == UINT32_MAX || strcmp(scope->list.at[at].name, name) == 0) return at;
    }
}

NstScopeEntry *nst_scope_find(const NstScope *scope, const char *name)
{
    uint64_t key;
    for (; scope; scope = scope->outer) {
        uint32_t at = find_position(scope, name, &key);
        if (at != UINT32_MAX) return &scope->list.at[at];
    }
    return NULL;
}

/* The same in this scope alone. */
static const NstScopeEntry *find_own(const NstScope *scope, const char *name)
{
    uint64_t key;
    uint32_t at = find_position(scope, name, &key);
    return at == UINT32_MAX ? NULL : &scope->list.at[at];
}

NstStatus nst_scope_define(NstCtx *ctx, NstScope *scope, const char *name, NstVal value, const char *by)
{
    uint64_t key;
    NST_CHECK(ctx, name && *name, NST_E_MODEL, "graph: %s without a name", by);
    uint32_t at = find_position(scope, name, &key);
    NST_CHECK(ctx, at == UINT32_MAX, NST_E_MODEL, "graph: value '%s' of %s is already defined by %s, allowed: once",
              name, by, scope->list.at[at].by);
    nst_map_put(&scope->map, key, scope->list.n);
    nst_vec_push(scope->arena, &scope->list, ((NstScopeEntry){name, value, by}));
    return NST_OK;
}

/* --- order ----------------------------------------------------------------------------------------------------- */

static const char *node_text(NstArena *arena, const Onnx__NodeProto *node)
{
    const char *name = node->name && *node->name ? node->name : node->n_output > 0 ? node->output[0] : "";
    return nst_format(arena, "%s '%s'", node->op_type ? node->op_type : "node", name);
}

typedef struct Order {
    NstCtx *ctx;
    NstArena *arena;
    const NstScope *outer;
    Onnx__NodeProto *const *node;
    size_t n;
    NstScope made;        /* names nodes make; the value is the node's number + 1 */
    unsigned char *state; /* 0 new, 1 on the stack, 2 done */
    uint32_t *stack, *next_input, n_stack;
} Order;

static NstStatus collect_outputs(Order *o)
{
    for (uint32_t k = 0; k < o->n; k++) {
        const Onnx__NodeProto *node = o->node[k];
        const char *text = node_text(o->arena, node);
        for (size_t j = 0; j < node->n_output; j++) {
            if (!*node->output[j]) continue;
            const NstScopeEntry *taken = find_own(o->outer, node->output[j]);
            NST_CHECK(o->ctx, !taken, NST_E_MODEL, "graph: value '%s' of %s is already defined by %s, allowed: once",
                      node->output[j], text, taken ? taken->by : "");
            NST_TRY(nst_scope_define(o->ctx, &o->made, node->output[j], (NstVal){k + 1}, text));
        }
    }
    return NST_OK;
}

/* Looks at one more input of the node on top of the stack: pushes its producer if that is not done. */
static NstStatus visit_input(Order *o, uint32_t k, uint32_t input)
{
    const Onnx__NodeProto *node = o->node[k];
    const char *name = node->input[input];
    if (!*name) return NST_OK;
    const NstScopeEntry *by = find_own(&o->made, name);
    if (!by && nst_scope_find(o->outer, name)) return NST_OK;
    NST_CHECK(o->ctx, by, NST_E_MODEL, "%s: input '%s' is no input, initializer or output of a node of the graph",
              node_text(o->arena, node), name);
    uint32_t producer = by->value.i - 1;
    NST_CHECK(o->ctx, o->state[producer] != 1, NST_E_MODEL,
              "%s: input '%s' depends on the node itself: a cycle with %s", node_text(o->arena, node), name, by->by);
    if (o->state[producer] == 2) return NST_OK;
    o->state[producer] = 1;
    o->next_input[o->n_stack] = 0;
    o->stack[o->n_stack++] = producer;
    return NST_OK;
}

NstStatus nst_scope_order(NstCtx *ctx, NstArena *arena, const NstScope *scope, Onnx__NodeProto *const *node, size_t n,
                          uint32_t *order)
{
    Order o = {.ctx = ctx, .arena = arena, .outer = scope, .node = node, .n = n};
    o.state = nst_alloc_array(arena, n, 1);
    o.stack = NST_NEW_ARRAY(arena, uint32_t, n);
    o.next_input = NST_NEW_ARRAY(arena, uint32_t, n);
    nst_scope_init(&o.made, arena);
    NST_TRY(collect_outputs(&o));
    uint32_t done = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (o.state[k] != 0) continue;
        o.state[k] = 1;
        o.next_input[0] = 0;
        o.stack[0] = k;
        for (o.n_stack = 1; o.n_stack > 0;) {
            uint32_t top = o.n_stack - 1, at = o.stack[top];
            if (o.next_input[top] < node[at]->n_input) {
                NST_TRY(visit_input(&o, at, o.next_input[top]++));
                continue;
            }
            o.state[at] = 2;
            order[done++] = at;
            o.n_stack--;
        }
    }
    return NST_OK;
}
