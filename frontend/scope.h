/* scope.h: names of a graph's values, and the order of its nodes. */
#ifndef NST_FRONTEND_SCOPE_H
#define NST_FRONTEND_SCOPE_H

#include "frontend/model.h"
#include "ir/base/map.h"
#include "ir/graph.h"

typedef struct NstScopeEntry {
    const char *name;
    NstVal value;   /* none: will be made by a node */
    const char *by; /* what defines it: "input", "initializer", or the node's operator */
} NstScopeEntry;

typedef struct NstScope {
    NstArena *arena;
    const struct NstScope *outer; /* of the graph around, or NULL */
    NstMap map;
    NST_VEC(NstScopeEntry) list;
} NstScope;

void nst_scope_init(NstScope *scope, NstArena *arena);
/* The entry of a name, here or in a scope around, or NULL. */
NstScopeEntry *nst_scope_find(const NstScope *scope, const char *name);
/* A new entry.  Errors: NST_E_MODEL if the name is taken (in this scope) or empty. */
NstStatus nst_scope_define(NstCtx *ctx, NstScope *scope, const char *name, NstVal value, const char *by) NST_MUST_CHECK;

/* An order in which every node comes after those that make its inputs (the model's own order where that is one).
 * scope: names known before any node runs.  Errors: NST_E_MODEL for two producers of a name, a cycle, an unknown input. */
NstStatus nst_scope_order(NstCtx *ctx, NstArena *arena, const NstScope *scope, Onnx__NodeProto *const *node, size_t n,
                          uint32_t *order) NST_MUST_CHECK;

#endif
