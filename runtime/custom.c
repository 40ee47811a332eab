/* custom.c: registered operators: the calls of include/nestor/custom.h, and which of them a model's bytes name. */
#include "nestor/custom.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "ir/custom.h"
#include "runtime/engine.h"

#define MAX_MESSAGE_DEPTH 200 /* of graphs in attributes of nodes, and so on: what is deeper may name anything */

/* --- registering ----------------------------------------------------------------------------------------------- */

static NstStatus check_operator(const NstOperator *op)
{
    if (!op->domain || !op->name || !op->name[0] || strpbrk(op->domain, " \t\n") || strpbrk(op->name, " \t\n"))
        return nst_report(NST_E_INVALID, "operator '%s' of domain '%s': names must be there and have no blanks",
                          op->name ? op->name : "", op->domain ? op->domain : "");
    if (!op->domain[0] || strcmp(op->domain, "ai.onnx") == 0)
        return nst_report(NST_E_INVALID, "operator '%s': the domain of ONNX itself has no place for it", op->name);
    if (op->version < 1)
        return nst_report(NST_E_INVALID, "operator '%s': version %d, allowed: at least 1", op->name, (int)op->version);
    bool counts = op->min_inputs >= 0 && (op->max_inputs < 0 || op->max_inputs >= op->min_inputs) &&
                  op->min_outputs >= 1 && (op->max_outputs < 0 || op->max_outputs >= op->min_outputs);
    if (!counts)
        return nst_report(NST_E_INVALID, "operator '%s': %d to %d inputs and %d to %d outputs", op->name,
                          (int)op->min_inputs, (int)op->max_inputs, (int)op->min_outputs, (int)op->max_outputs);
    if (!op->infer || !op->compute)
        return nst_report(NST_E_INVALID, "operator '%s': a function is not given", op->name);
    return NST_OK;
}

static NstCustom *copy_operator(const NstOperator *op)
{
    size_t n_domain = strlen(op->domain) + 1, n_name = strlen(op->name) + 1;
    NstCustom *made = nst_alloc_should_fail() ? NULL : malloc(sizeof *made + n_domain + n_name);
    if (!made) return NULL;
    char *texts = (char *)(made + 1);
    memcpy(texts, op->domain, n_domain);
    memcpy(texts + n_domain, op->name, n_name);
    *made = (NstCustom){NULL, *op};
    made->op.domain = texts;
    made->op.name = texts + n_domain;
    return made;
}

NstStatus nst_engine_add_operator(NstEngine *engine, const NstOperator *op)
{
    if (!engine || !op) return nst_report(NST_E_INVALID, "nst_engine_add_operator: NULL is given");
    NST_TRY(check_operator(op));
    NstCustom *made = copy_operator(op);
    if (!made) return nst_report(NST_E_NOMEM, "no memory for operator '%s'", op->name);
    const NstCustom *head = atomic_load(&engine->operators);
    do {
        made->next = head;
        if (nst_custom_find_version(head, op->domain, op->name, op->version)) {
            free(made);
            return nst_report(NST_E_INVALID, "operator '%s' of domain '%s' is registered in version %d already",
                              op->name, op->domain, (int)op->version);
        }
    } while (!atomic_compare_exchange_weak(&engine->operators, &head, made));
    return NST_OK;
}

void nst_operators_free(const NstCustom *list)
{
    while (list) {
        const NstCustom *next = list->next;
        free((void *)(uintptr_t)list);
        list = next;
    }
}

/* --- what a model names ---------------------------------------------------------------------------------------- */

/* The messages of onnx.proto on the way to nodes, and the fields in which they lie. */
typedef enum Message { NO_MESSAGE, MODEL, GRAPH, FUNCTION, NODE, ATTRIBUTE } Message;

static Message message_in(Message outer, uint64_t field)
{
    switch (outer) {
    case MODEL: return field == 7 ? GRAPH : field == 25 ? FUNCTION : NO_MESSAGE;
    case GRAPH: return field == 1 ? NODE : NO_MESSAGE;
    case FUNCTION: return field == 7 ? NODE : NO_MESSAGE;
    case NODE: return field == 5 ? ATTRIBUTE : NO_MESSAGE;
    case ATTRIBUTE: return field == 6 || field == 11 ? GRAPH : NO_MESSAGE;
    case NO_MESSAGE: break;
    }
    return NO_MESSAGE;
}

static bool read_varint(const unsigned char **at, const unsigned char *end, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        unsigned char byte = *(*at)++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

/* Whether a node names op.  Steps over everything else by its length; bytes that are no such message may name anything. */
static bool names(Message message, const unsigned char *at, size_t n, const NstOperator *op, int depth)
{
    const unsigned char *end = at + n;
    bool domain = false, type = false;
    if (depth > MAX_MESSAGE_DEPTH) return true;
    while (at < end) {
        uint64_t tag, size;
        if (!read_varint(&at, end, &tag)) return true;
        switch (tag & 7) {
        case 0: /* varint */
            if (!read_varint(&at, end, &size)) return true;
            continue;
        case 1: size = 8; break;
        case 5: size = 4; break;
        case 2:
            if (!read_varint(&at, end, &size)) return true;
            break;
        default: return true;
        }
        if (size > (size_t)(end - at)) return true;
        Message inner = (tag & 7) == 2 ? message_in(message, tag >> 3) : NO_MESSAGE;
        if (inner != NO_MESSAGE && names(inner, at, (size_t)size, op, depth + 1)) return true;
        if (message == NODE && tag == (4 << 3 | 2)) type = size == strlen(op->name) && memcmp(at, op->name, size) == 0;
        if (message == NODE && tag == (7 << 3 | 2))
            domain = size == strlen(op->domain) && memcmp(at, op->domain, size) == 0;
        at += size;
    }
    return domain && type;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void nst_operators_add_material(NstText *text, const NstCustom *list, const NstModel *model)
{
    uint32_t n = 0;
    for (const NstCustom *at = list; at; at = at->next) n++;
    const char **line = NST_NEW_ARRAY(text->arena, const char *, n);
    bool is_text = model->size != 0 && strchr(" \t\n/#g", *(const char *)model->bytes); /* a graph: may name anything */
    n = 0;
    for (const NstCustom *at = list; at; at = at->next)
        if (is_text || names(MODEL, model->bytes, model->size, &at->op, 0))
            line[n++] = nst_custom_name(text->arena, &at->op);
    if (n > 1) qsort(line, n, sizeof *line, by_text);
    for (uint32_t k = 0; k < n; k++) nst_text_add(text, "operator %s\n", line[k]);
}

/* --- within a call --------------------------------------------------------------------------------------------- */

NstStatus nst_operator_fail(NstOperatorCall *call, NstStatus status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(call->error, sizeof call->error, format, args);
    va_end(args);
    return status;
}

/* The attribute of that name and kind; one of another kind fails the call. */
static const NstCustomAttr *find(NstOperatorCall *call, const char *name, NstCustomKind kind, const char *wanted)
{
    for (uint32_t k = 0; k < call->node->n_attr; k++) {
        const NstCustomAttr *a = &call->node->attr[k];
        if (strcmp(a->name, name) != 0) continue;
        if (a->kind == kind) return a;
        call->failed = nst_operator_fail(call, NST_E_TYPE, "attribute '%s' is no %s", name, wanted);
        return NULL;
    }
    return NULL;
}

int64_t nst_operator_int(NstOperatorCall *call, const char *name, int64_t otherwise)
{
    const NstCustomAttr *a = find(call, name, NST_CUSTOM_INT, "integer");
    return a ? a->ints[0] : otherwise;
}

float nst_operator_float(NstOperatorCall *call, const char *name, float otherwise)
{
    const NstCustomAttr *a = find(call, name, NST_CUSTOM_FLOAT, "float");
    return a ? a->floats[0] : otherwise;
}

const char *nst_operator_text(NstOperatorCall *call, const char *name, const char *otherwise)
{
    const NstCustomAttr *a = find(call, name, NST_CUSTOM_TEXT, "text");
    return a ? a->texts[0] : otherwise;
}

const int64_t *nst_operator_ints(NstOperatorCall *call, const char *name, size_t *n)
{
    const NstCustomAttr *a = find(call, name, NST_CUSTOM_INTS, "list of integers");
    *n = a ? a->n : 0;
    return a ? a->ints : NULL;
}

const float *nst_operator_floats(NstOperatorCall *call, const char *name, size_t *n)
{
    const NstCustomAttr *a = find(call, name, NST_CUSTOM_FLOATS, "list of floats");
    *n = a ? a->n : 0;
    return a ? a->floats : NULL;
}

const char *const *nst_operator_texts(NstOperatorCall *call, const char *name, size_t *n)
{
    const NstCustomAttr *a = find(call, name, NST_CUSTOM_TEXTS, "list of texts");
    *n = a ? a->n : 0;
    return a ? a->texts : NULL;
}

NstStatus nst_operator_give(NstOperatorCall *call, uint32_t output, const int64_t *shape)
{
    if (call->give) return call->give(call, output, shape);
    return call->failed = nst_operator_fail(call, NST_E_INVALID, "nst_operator_give is for compute");
}
