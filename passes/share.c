/* share.c: which kernels take the canonical form (canon.h).
 *
 * In: scheduled kernels.  Out: the same, those in canonical form that then have the text of a kernel of other sizes.  Cost: the
 * text of each kernel, and of the canonical form of each distinct one. */
#include "passes/canon.h"

typedef struct Distinct {
    NstHash own, canon;
    bool shared; /* with a kernel of another text */
} Distinct;

typedef struct Share {
    NstModule *module;
    NstCanonSyms *syms;
    bool once;
    NST_VEC(Distinct) distinct;
} Share;

static bool same(NstHash a, NstHash b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

static NstHash text_hash(const NstText *text)
{
    return nst_hash128(text->at, text->n);
}

static NstHash canon_hash(Share *s, const NstKernel *kernel)
{
    NstDim *value;
    NstText text;
    NstKernel *copy = nst_kernel_clone(s->module->arena, kernel);
    nst_kernel_to_canon(copy, s->syms, s->once, &value);
    nst_text_init(&text, s->module->arena);
    nst_kernel_canonical(&text, copy);
    return text_hash(&text);
}

/* The kernel's place among those of different texts. */
static uint32_t note_kernel(Share *s, const NstScheduled *scheduled)
{
    NstHash own = text_hash(&scheduled->text);
    for (uint32_t k = 0; k < s->distinct.n; k++)
        if (same(s->distinct.at[k].own, own)) return k;
    Distinct made = {.own = own, .canon = canon_hash(s, scheduled->kernel)};
    for (uint32_t k = 0; k < s->distinct.n; k++)
        if (same(s->distinct.at[k].canon, made.canon)) s->distinct.at[k].shared = made.shared = true;
    nst_vec_push(s->module->arena, &s->distinct, made);
    return s->distinct.n - 1;
}

void nst_pass_canon(NstModule *module, NstCanonSyms *syms, bool once, NstScheduledList *list)
{
    Share s = {.module = module, .syms = syms, .once = once};
    uint32_t *number = NST_NEW_ARRAY(module->arena, uint32_t, list->n);
    for (uint32_t k = 0; k < list->n; k++)
        if (list->at[k].kernel) number[k] = note_kernel(&s, &list->at[k]);
    for (uint32_t k = 0; k < list->n; k++) {
        NstScheduled *scheduled = &list->at[k];
        if (!scheduled->kernel || !s.distinct.at[number[k]].shared) continue;
        nst_kernel_to_canon(scheduled->kernel, syms, once, &scheduled->size);
        nst_text_init(&scheduled->text, module->arena);
        nst_kernel_canonical(&scheduled->text, scheduled->kernel);
    }
}
