/* custom.h: operators of the caller's own: the list of them, and what a host node of one says.
 *
 * Such a node is a host primitive named "domain operator version"; its config is the text form of NstCustomNode. */
#ifndef NST_IR_CUSTOM_H
#define NST_IR_CUSTOM_H

#include "ir/base/status.h"
#include "ir/base/str.h"
#include "nestor/custom.h"

/* Newest registration first; a list never changes, a longer one has it as its end. */
typedef struct NstCustom NstCustom;
struct NstCustom {
    const NstCustom *next;
    NstOperator op; /* texts lie behind this structure */
};

/* The newest version of an operator that is at most `opset` (0: any), or NULL. */
const NstOperator *nst_custom_find(const NstCustom *list, const char *domain, const char *name, int64_t opset);
/* The operator of that version, or NULL. */
const NstOperator *nst_custom_find_version(const NstCustom *list, const char *domain, const char *name,
                                           int32_t version);
/* "domain operator version", as host nodes have it. */
const char *nst_custom_name(NstArena *arena, const NstOperator *op);
/* The operator of such a name, or NULL. */
const NstOperator *nst_custom_find_name(NstArena *arena, const NstCustom *list, const char *text);
/* Whether the name of a host function is of that form. */
bool nst_custom_is_name(const char *text);

typedef enum NstCustomKind {
    NST_CUSTOM_INT = 'i',
    NST_CUSTOM_FLOAT = 'f',
    NST_CUSTOM_TEXT = 's',
    NST_CUSTOM_INTS = 'I',
    NST_CUSTOM_FLOATS = 'F',
    NST_CUSTOM_TEXTS = 'S'
} NstCustomKind;

/* One value, or a list of n. */
typedef struct NstCustomAttr {
    const char *name;
    NstCustomKind kind;
    uint32_t n;
    const int64_t *ints;
    const float *floats;
    const char *const *texts;
} NstCustomAttr;

typedef struct NstCustomNode {
    uint32_t n_in, n_out, n_attr; /* n_in: those left out included */
    const bool *given;            /* by input */
    const NstOperatorType *out;   /* as infer has set them */
    const NstCustomAttr *attr;
} NstCustomNode;

/* The text form without element types of outputs, and back.  Owns: arena.  False where the text has another form. */
const char *nst_custom_node_text(NstArena *arena, const NstCustomNode *node);
bool nst_custom_node_read(NstArena *arena, const char *text, NstCustomNode *node);

/* The input and axis of NST_SAME_SIZE. */
static inline bool nst_custom_same(int64_t size, uint32_t *input, int *axis)
{
    if (size > -2) return false;
    uint64_t code = (uint64_t)(-2 - size);
    *input = (uint32_t)(code / NST_TENSOR_MAX_RANK);
    *axis = (int)(code % NST_TENSOR_MAX_RANK);
    return true;
}

/* A call while it runs. */
struct NstOperatorCall {
    const NstCustomNode *node;
    NstStatus (*give)(NstOperatorCall *call, uint32_t k, const int64_t *shape); /* NULL within infer */
    void *owner;                                                                /* of give */
    NstStatus failed; /* what went wrong and must not be lost if the function says all is well */
    char error[256];
};

/* What a function that returned `status` comes to: its text after `label`.  Errors: its own, or what failed within. */
NstStatus nst_custom_outcome(NstCtx *ctx, const char *label, const NstOperatorCall *call, NstStatus status);

#endif
