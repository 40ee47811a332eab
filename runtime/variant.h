/* variant.h: a session and its plans: one for all sizes or for declared shapes, and where no plan serves those (its by_shape
 * says why), one for the shapes of each run.
 *
 * Plans for the shapes of runs stand in slots that runs pin without a lock: a run counts itself in a slot before it looks at
 * what stands there; who empties a slot takes its plan out first and then looks whether anybody is counted. */
#ifndef NST_RUNTIME_VARIANT_H
#define NST_RUNTIME_VARIANT_H

#include "nestor/session.h"
#include "runtime/engine.h"
#include "runtime/exec.h"

typedef struct NstVariant {
    NstCtx ctx; /* its arena holds the plan */
    NstPlan *plan;
    NstExec *exec;   /* NULL when the session interprets what the plan is of */
    NstCacheHit hit; /* holds the plan's bytes, or ... */
    NstBlob blob;    /* ... they are here */
    bool compiled;
} NstVariant;

/* Plans for shapes of runs that a session keeps: each has packed weights of its own. */
#define NST_SHAPE_SLOTS 8

typedef struct NstShapeSlot {
    _Atomic(NstVariant *) variant;
    _Atomic uint32_t users;    /* who may look at the variant */
    _Atomic uint64_t last_use; /* a number that grows from run to run */
} NstShapeSlot;

struct NstSession {
    NstModel *model;
    NstSessionOptions options; /* texts and shapes copied */
    char *passes_off;
    NstInputShape *shapes;
    char **shape_names;
    char **overridable;
    const NstCustom *operators; /* registered when the session was made */
    NstNamedTensor *values;     /* names and data are copies */
    NstLock *lock;              /* of making variants */
    NstVariant *variant;        /* made with the session: exact if shapes are declared */
    _Atomic(NstVariant *) general;
    NstShapeSlot slot[NST_SHAPE_SLOTS];
    _Atomic uint64_t uses;                     /* of slots */
    _Atomic uint32_t n_compiled, n_from_cache; /* plans; outlines (by_shape) are none */
};

/* The plan for these shapes (none: for all sizes) from the cache or the compiler, ready to run.
 * Owns: the caller ends *variant with nst_variant_free.  Errors are reported. */
NstStatus nst_variant_new(NstSession *session, const NstInputShape *shapes, uint32_t n_shapes,
                          NstVariant **variant) NST_MUST_CHECK;
/* NULL is allowed. */
void nst_variant_free(const NstSession *session, NstVariant *variant);

/* A variant that stays until it is given back. */
typedef struct NstHeldVariant {
    NstVariant *variant;
    NstShapeSlot *slot; /* it stands there */
    bool own;           /* it stands nowhere and ends when given back */
} NstHeldVariant;

/* The plan for the shapes of these inputs, made when none of the slots has it; the one that was used least recently makes
 * room.  outline: says what inputs there are and why none of its own runs.
 * Errors are reported: those of nst_exec_check and nst_variant_new. */
NstStatus nst_shapes_take(NstSession *session, const NstVariant *outline, const NstTensor *inputs,
                          NstHeldVariant *held) NST_MUST_CHECK;
/* The plan used last; false if there is none. */
bool nst_shapes_take_last(NstSession *session, NstHeldVariant *held);
void nst_shapes_give(NstSession *session, NstHeldVariant *held);
/* One more holder of what stands in a slot. */
void nst_shapes_again(const NstHeldVariant *held);
/* The shapes of a plan's inputs as they are declared.  Owns: the caller frees *shapes with free.  Errors: NST_E_NOMEM, reported. */
NstStatus nst_shapes_of(const NstPlan *plan, const NstTensor *inputs, NstInputShape **shapes) NST_MUST_CHECK;
/* Ends the plans in the slots; nobody may hold one. */
void nst_shapes_free(NstSession *session);

#endif
