/* sizes.h: the dims of a plan as a flat program that any number of runs evaluate at once, without memory or locks.
 *
 * ir/dim.h's tables belong to one thread; a plan is run by many.  The program is also how dims are written to disk. */
#ifndef NST_RUNTIME_SIZES_H
#define NST_RUNTIME_SIZES_H

#include "ir/plan.h"

typedef struct NstSizeNode {
    NstDimOp op;
    NstSym sym;    /* SYM */
    int64_t value; /* CONST; SUM: the constant term */
    uint32_t n;    /* operands: entries at .. at + n - 1 of args and coefs */
    uint32_t at;
} NstSizeNode;

/* Nodes in an order in which operands come first. */
typedef struct NstSizes {
    NST_VEC(NstSizeNode) nodes;
    NST_VEC(uint32_t) args; /* nodes */
    NST_VEC(int64_t) coefs;
    uint32_t *node_of; /* by NstDim.i: node + 1, 0 = not part of the program */
    uint32_t n_node_of;
} NstSizes;

/* What is known of a node's value. */
typedef enum NstSizeState { NST_SIZE_UNKNOWN, NST_SIZE_KNOWN, NST_SIZE_OVERFLOW, NST_SIZE_DIVISION } NstSizeState;

/* Adds a dim of `dims` to the program [arena]; none is allowed and adds nothing. */
void nst_sizes_add(NstSizes *sizes, NstArena *arena, const NstDims *dims, NstDim dim);

/* Adds every dim a plan mentions, those of its bodies too if asked for. */
void nst_sizes_add_plan(NstSizes *sizes, NstArena *arena, const NstPlan *plan, bool bodies);

/* The program of every dim a plan mentions without its bodies.  Owns: arena. */
void nst_sizes_of_plan(NstSizes *sizes, NstArena *arena, const NstPlan *plan);

/* Evaluates all nodes: sym_known[s] tells whether sym_value[s] holds; value and state have nodes.n entries. */
void nst_sizes_eval(const NstSizes *sizes, const int64_t *sym_value, const bool *sym_known, int64_t *value,
                    uint8_t *state);

/* True if all symbols of a dim had values (its value may be a fault all the same). */
bool nst_sizes_known(const NstSizes *sizes, NstDim dim, const uint8_t *state);

/* The value of a dim after nst_sizes_eval; none reads as 0.  Errors: NST_E_SHAPE on overflow or division by zero,
 * NST_E_INVALID when a symbol in it has no value yet; `what` says what the size is of. */
NstStatus nst_sizes_get(NstCtx *ctx, const NstSizes *sizes, NstDim dim, const int64_t *value, const uint8_t *state,
                        const char *what, int64_t *result) NST_MUST_CHECK;

#endif
