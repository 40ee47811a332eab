/* shapes.c: plans for the shapes of runs: see variant.h. */
#include <stdlib.h>
#include "runtime/variant.h"

/* True if a plan, whose inputs have known sizes, is for the shapes of these. */
static bool is_for(const NstPlan *plan, const NstTensor *inputs)
{
    for (uint32_t k = 0; k < plan->inputs.n; k++) {
        const NstType *type = &plan->inputs.at[k].type;
        if (inputs[k].rank != type->rank || inputs[k].dtype != type->dtype) return false;
        for (int axis = 0; axis < type->rank; axis++) {
            int64_t size;
            if (!nst_dim_is_const(plan->dims, type->shape[axis], &size) || size != inputs[k].shape[axis]) return false;
        }
    }
    return true;
}

/* Holds what stands in a slot if it is for these inputs (NULL: whatever it is). */
static bool hold(NstSession *session, NstShapeSlot *slot, const NstTensor *inputs, NstHeldVariant *held)
{
    atomic_fetch_add(&slot->users, 1);
    NstVariant *variant = atomic_load(&slot->variant);
    if (variant && (!inputs || is_for(variant->plan, inputs))) {
        if (inputs) atomic_store(&slot->last_use, atomic_fetch_add(&session->uses, 1) + 1);
        *held = (NstHeldVariant){variant, slot, false};
        return true;
    }
    atomic_fetch_sub(&slot->users, 1);
    return false;
}

static bool find(NstSession *session, const NstTensor *inputs, NstHeldVariant *held)
{
    for (int k = 0; k < NST_SHAPE_SLOTS; k++)
        if (hold(session, &session->slot[k], inputs, held)) return true;
    return false;
}

/* Takes a slot's variant out of it, unless it is held. */
static bool empty(const NstSession *session, NstShapeSlot *slot)
{
    NstVariant *variant = atomic_exchange(&slot->variant, NULL);
    if (variant && atomic_load(&slot->users) != 0) {
        atomic_store(&slot->variant, variant);
        return false;
    }
    nst_variant_free(session, variant);
    return true;
}

/* Puts a new variant into a slot, held: one that is empty, else the one used least recently.  Where all are held it stays the
 * caller's own.  Only one thread at a time. */
static void place(NstSession *session, NstVariant *variant, NstHeldVariant *held)
{
    uint64_t tried = 0; /* slots used before are held */
    *held = (NstHeldVariant){variant, NULL, true};
    for (int n = 0; n < NST_SHAPE_SLOTS; n++) {
        NstShapeSlot *oldest = NULL;
        uint64_t when = UINT64_MAX;
        for (int k = 0; k < NST_SHAPE_SLOTS; k++) {
            NstShapeSlot *slot = &session->slot[k];
            uint64_t used = atomic_load(&slot->variant) ? atomic_load(&slot->last_use) : 0;
            if (used < when && (used >= tried || n == 0)) {
                oldest = slot;
                when = used;
            }
        }
        if (!oldest) return;
        if (empty(session, oldest)) {
            atomic_fetch_add(&oldest->users, 1);
            atomic_store(&oldest->last_use, atomic_fetch_add(&session->uses, 1) + 1);
            atomic_store(&oldest->variant, variant);
            *held = (NstHeldVariant){variant, oldest, false};
            return;
        }
        tried = when + 1;
    }
}

NstStatus nst_shapes_of(const NstPlan *plan, const NstTensor *inputs, NstInputShape **shapes)
{
    NstInputShape *shape = *shapes = nst_alloc_should_fail() ? NULL : calloc((size_t)plan->inputs.n + 1, sizeof *shape);
    if (!shape) return nst_report(NST_E_NOMEM, "no memory for the shapes of a run");
    for (uint32_t k = 0; k < plan->inputs.n; k++) {
        shape[k] = (NstInputShape){.name = plan->inputs.at[k].name, .rank = inputs[k].rank};
        memcpy(shape[k].shape, inputs[k].shape, sizeof shape[k].shape);
    }
    return NST_OK;
}

static NstStatus make(NstSession *session, const NstPlan *outline, const NstTensor *inputs, NstVariant **variant)
{
    uint32_t n = outline->inputs.n;
    NstInputShape *shape;
    NST_TRY(nst_shapes_of(outline, inputs, &shape));
    NstStatus status = nst_variant_new(session, shape, n, variant);
    free(shape);
    NST_TRY(status);
    const NstPlan *plan = (*variant)->plan;
    if (!plan->by_shape && plan->inputs.n == n && plan->outputs.n == outline->outputs.n) return NST_OK;
    status = plan->by_shape ? nst_report(NST_E_UNSUPPORTED, "%s", plan->by_shape)
                            : nst_report(NST_E_MODEL,
                                         "for these shapes the model has %u inputs and %u outputs, it "
                                         "declares %u and %u",
                                         plan->inputs.n, plan->outputs.n, n, outline->outputs.n);
    nst_variant_free(session, *variant);
    return status;
}

NstStatus nst_shapes_take(NstSession *session, const NstVariant *outline, const NstTensor *inputs, NstHeldVariant *held)
{
    if (find(session, inputs, held)) return NST_OK;
    char error[NST_ERROR_TEXT];
    NstStatus status = nst_exec_check(outline->exec, inputs, error, sizeof error);
    if (status != NST_OK) return nst_report(status, "%s", error);
    nst_lock_take(session->lock);
    if (!find(session, inputs, held)) { /* another thread may have made it meanwhile */
        NstVariant *made = NULL;
        status = make(session, outline->plan, inputs, &made);
        if (status == NST_OK) place(session, made, held);
    }
    nst_lock_drop(session->lock);
    return status;
}

bool nst_shapes_take_last(NstSession *session, NstHeldVariant *held)
{
    NstShapeSlot *last = NULL;
    for (int k = 0; k < NST_SHAPE_SLOTS; k++) {
        NstShapeSlot *slot = &session->slot[k];
        if (atomic_load(&slot->variant) && (!last || atomic_load(&slot->last_use) > atomic_load(&last->last_use)))
            last = slot;
    }
    return last && hold(session, last, NULL, held);
}

void nst_shapes_give(NstSession *session, NstHeldVariant *held)
{
    if (held->slot) atomic_fetch_sub(&held->slot->users, 1);
    if (held->own) nst_variant_free(session, held->variant);
    *held = (NstHeldVariant){NULL, NULL, false};
}

void nst_shapes_again(const NstHeldVariant *held)
{
    if (held->slot) atomic_fetch_add(&held->slot->users, 1);
}

void nst_shapes_free(NstSession *session)
{
    for (int k = 0; k < NST_SHAPE_SLOTS; k++) nst_variant_free(session, atomic_load(&session->slot[k].variant));
}
