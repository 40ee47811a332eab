/* guard.h: guards of nests as lists of `e >= 0` conditions over index variables, for proving and for tightening loops. */
#ifndef NST_PASSES_GUARD_H
#define NST_PASSES_GUARD_H

#include "passes/writer.h"

typedef struct NstConditions {
    NST_VEC(NstDim) nonnegative; /* each e >= 0 */
    NstExpr rest;                /* what is no such condition; none = nothing */
} NstConditions;

/* Splits a conjunction of index comparisons. none guard: empty. */
void nst_conditions_of(NstModule *module, NstExpr guard, NstConditions *conditions);

/* True if the guard says that the load is inside of its buffer, and nothing else. */
bool nst_conditions_are_inside(NstModule *module, NstExpr guard, const NstExprNode *load);

/* Conditions are picked by a bit mask: condition k by bit k; those past bit 63 are always in it. */
typedef uint64_t NstConditionSet;
static inline bool nst_condition_in(NstConditionSet set, uint32_t k)
{
    return k >= 64 || (set >> k & 1);
}

/* Narrows begin..end-1 of an index variable by every condition of `set` that is linear in it with a constant coefficient and
 * otherwise made of index symbols accepted by `bound` (conditions are passed through the writer).  Returns the set
 * without those: inside the narrowed loop they hold. */
NstConditionSet nst_conditions_tighten(NstWriter *w, const NstConditions *conditions, NstConditionSet set, NstSym axis,
                                       bool (*bound)(void *arg, NstSym sym), void *arg, NstDim *begin, NstDim *end);

/* The subset whose index symbols are all accepted by `bound`. */
NstConditionSet nst_conditions_bound(NstModule *module, const NstConditions *conditions, NstConditionSet set,
                                     bool (*bound)(void *arg, NstSym sym), void *arg);

/* The conjunction of the set's conditions (and of `rest`) as the writer says them now: none if all are proven, a constant
 * false, or what is left. */
NstExpr nst_conditions_now(NstWriter *w, const NstConditions *conditions, NstConditionSet set, bool with_rest);

#endif
