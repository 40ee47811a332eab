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

/* Bytes of a text field; at NULL: it is not there. */
typedef struct Span {
    const unsigned char *at;
    size_t n;
} Span;

/* What a node or a function of the model says of its operator. */
typedef struct Named {
    Span name, type, domain; /* a function's name is its type */
} Named;

/* Whether the search ends here. */
typedef bool (*See)(void *arg, const Named *named);

typedef struct Search {
    Message wanted; /* NODE or FUNCTION */
    See see;
    void *arg;
    bool malformed; /* bytes that are no such message: they may name anything */
} Search;

static bool is_text(Span span, const char *text)
{
    size_t n = strlen(text);
    return span.n == n && (n == 0 || memcmp(span.at, text, n) == 0);
}

static void take_field(Message message, uint64_t field, Span value, Named *named)
{
    if (message == NODE && field == 3) named->name = value;
    if ((message == NODE && field == 4) || (message == FUNCTION && field == 1)) named->type = value;
    if ((message == NODE && field == 7) || (message == FUNCTION && field == 10)) named->domain = value;
}

/* Shows each message of the wanted kind, inner ones first, until one ends the search; true if one did or the bytes are
 * malformed.  Steps over everything else by its length. */
static bool search(Search *s, Message message, const unsigned char *at, size_t n, int depth)
{
    const unsigned char *end = at + n;
    Named named = {0};
    if (depth > MAX_MESSAGE_DEPTH) return s->malformed = true;
    while (at < end) {
        uint64_t tag, size;
        if (!read_varint(&at, end, &tag)) return s->malformed = true;
        switch (tag & 7) {
        case 0: /* varint */
            if (!read_varint(&at, end, &size)) return s->malformed = true;
            continue;
        case 1: size = 8; break;
        case 5: size = 4; break;
        case 2:
            if (!read_varint(&at, end, &size)) return s->malformed = true;
            break;
        default: return s->malformed = true;
        }
        if (size > (size_t)(end - at)) return s->malformed = true;
        if ((tag & 7) == 2) {
            Message inner = message_in(message, tag >> 3);
            if (inner != NO_MESSAGE && search(s, inner, at, (size_t)size, depth + 1)) return true;
            take_field(message, tag >> 3, (Span){at, (size_t)size}, &named);
        }
        at += size;
    }
    return message == s->wanted && s->see(s->arg, &named);
}

static bool is_operator(void *arg, const Named *node)
{
    const NstOperator *op = arg;
    return is_text(node->domain, op->domain) && is_text(node->type, op->name);
}

/* Whether a node of the model names op, or may. */
static bool names(const NstModel *model, const NstOperator *op)
{
    Search s = {.wanted = NODE, .see = is_operator, .arg = (void *)(uintptr_t)op};
    return search(&s, MODEL, model->bytes, model->size, 0);
}

/* A graph in text form begins so. */
static bool is_graph_text(const NstModel *model)
{
    return model->size != 0 && strchr(" \t\n/#g", *(const char *)model->bytes);
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
    bool is_graph = is_graph_text(model); /* may name anything */
    n = 0;
    for (const NstCustom *at = list; at; at = at->next)
        if (is_graph || names(model, &at->op)) line[n++] = nst_custom_name(text->arena, &at->op);
    if (n > 1) qsort(line, n, sizeof *line, by_text);
    for (uint32_t k = 0; k < n; k++) nst_text_add(text, "operator %s\n", line[k]);
}

#define SHOWN 200 /* characters of a name in a message */

static int shown(Span span)
{
    return span.n < SHOWN ? (int)span.n : SHOWN;
}

/* The search for a node that nothing here does. */
typedef struct Missing {
    const NstModel *model;
    const NstCustom *list;
    Named node;
} Missing;

static bool is_same_function(void *arg, const Named *function)
{
    const Named *node = arg;
    return function->domain.n == node->domain.n && function->type.n == node->type.n && node->type.n != 0 &&
           memcmp(function->domain.at, node->domain.at, node->domain.n) == 0 &&
           memcmp(function->type.at, node->type.at, node->type.n) == 0;
}

static bool is_missing(void *arg, const Named *node)
{
    Missing *m = arg;
    static const char onnx[] = "ai.onnx"; /* and what begins so */
    if (node->domain.n == 0 || node->type.n == 0) return false;
    if (node->domain.n >= strlen(onnx) && memcmp(node->domain.at, onnx, strlen(onnx)) == 0) return false;
    for (const NstCustom *at = m->list; at; at = at->next)
        if (is_text(node->domain, at->op.domain) && is_text(node->type, at->op.name)) return false;
    m->node = *node;
    Search own = {.wanted = FUNCTION, .see = is_same_function, .arg = &m->node};
    return !search(&own, MODEL, m->model->bytes, m->model->size, 0);
}

const char *nst_operators_missing(NstArena *arena, const NstCustom *list, const NstModel *model)
{
    Missing m = {.model = model, .list = list};
    Search s = {.wanted = NODE, .see = is_missing, .arg = &m};
    if (is_graph_text(model) || !search(&s, MODEL, model->bytes, model->size, 0) || s.malformed) return "";
    const Named *node = &m.node;
    return nst_format(arena, "; node '%.*s': operator '%.*s' of domain '%.*s' is not registered with this engine",
                      shown(node->name), (const char *)node->name.at, shown(node->type), (const char *)node->type.at,
                      shown(node->domain), (const char *)node->domain.at);
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
