/* custom.c: the list of registered operators; nodes of them as text.
 *
 * Text: "in" number, one 0 or 1 an input; "out" number, rank and sizes of each; "attr" number, of each name, kind, number and
 * values.  Texts are written "length:bytes", floats as the integer of their bits: exact, and the same in every locale. */
#include "ir/custom.h"

#include <inttypes.h>
#include <string.h>

#define MAX_ITEMS (1 << 20) /* inputs, attributes, values: what a text may claim */

const NstOperator *nst_custom_find(const NstCustom *list, const char *domain, const char *name, int64_t opset)
{
    const NstOperator *best = NULL;
    for (; list; list = list->next) {
        const NstOperator *op = &list->op;
        if (strcmp(op->domain, domain) != 0 || strcmp(op->name, name) != 0) continue;
        if ((opset == 0 || op->version <= opset) && (!best || op->version > best->version)) best = op;
    }
    return best;
}

const NstOperator *nst_custom_find_version(const NstCustom *list, const char *domain, const char *name, int32_t version)
{
    for (; list; list = list->next)
        if (list->op.version == version && strcmp(list->op.domain, domain) == 0 && strcmp(list->op.name, name) == 0)
            return &list->op;
    return NULL;
}

const char *nst_custom_name(NstArena *arena, const NstOperator *op)
{
    return nst_format(arena, "%s %s %d", op->domain, op->name, (int)op->version);
}

const NstOperator *nst_custom_find_name(NstArena *arena, const NstCustom *list, const char *text)
{
    for (; list; list = list->next)
        if (strcmp(nst_custom_name(arena, &list->op), text) == 0) return &list->op;
    return NULL;
}

bool nst_custom_is_name(const char *text)
{
    return strchr(text, ' ') != NULL;
}

/* --- text ------------------------------------------------------------------------------------------------------ */

static void add_text(NstText *to, const char *text)
{
    nst_text_add(to, " %zu:%s", strlen(text), text);
}

static void add_attr(NstText *to, const NstCustomAttr *a)
{
    add_text(to, a->name);
    nst_text_add(to, " %d %u", (int)a->kind, a->n);
    for (uint32_t k = 0; k < a->n; k++) {
        uint32_t bits = 0;
        switch (a->kind) {
        case NST_CUSTOM_INT:
        case NST_CUSTOM_INTS: nst_text_add(to, " %" PRId64, a->ints[k]); break;
        case NST_CUSTOM_FLOAT:
        case NST_CUSTOM_FLOATS:
            memcpy(&bits, &a->floats[k], sizeof bits);
            nst_text_add(to, " %" PRIu32, bits);
            break;
        case NST_CUSTOM_TEXT:
        case NST_CUSTOM_TEXTS: add_text(to, a->texts[k]); break;
        }
    }
}

const char *nst_custom_node_text(NstArena *arena, const NstCustomNode *node)
{
    NstText text;
    nst_text_init(&text, arena);
    nst_text_add(&text, "in %u", node->n_in);
    for (uint32_t k = 0; k < node->n_in; k++) nst_text_add(&text, " %d", node->given[k]);
    nst_text_add(&text, " out %u", node->n_out);
    for (uint32_t k = 0; k < node->n_out; k++) {
        nst_text_add(&text, " %d", (int)node->out[k].rank);
        for (int d = 0; d < node->out[k].rank; d++) nst_text_add(&text, " %" PRId64, node->out[k].shape[d]);
    }
    nst_text_add(&text, " attr %u", node->n_attr);
    for (uint32_t k = 0; k < node->n_attr; k++) add_attr(&text, &node->attr[k]);
    return nst_text_get(&text);
}

typedef struct Reader {
    NstArena *arena;
    const char *at; /* NULL after a fault */
} Reader;

static int64_t read_int(Reader *r, int64_t lo, int64_t hi)
{
    int64_t value = lo;
    if (r->at && *r->at == ' ') r->at++;
    if (r->at) r->at = nst_parse_int(r->at, &value);
    if (!r->at || value < lo || value > hi) {
        r->at = NULL;
        return lo > 0 ? lo : 0;
    }
    return value;
}

static void read_word(Reader *r, const char *word)
{
    size_t n = strlen(word);
    if (r->at && *r->at == ' ') r->at++;
    if (r->at) r->at = strncmp(r->at, word, n) == 0 ? r->at + n : NULL;
}

static const char *read_text(Reader *r)
{
    size_t n = (size_t)read_int(r, 0, INT32_MAX);
    if (!r->at || *r->at != ':' || strlen(r->at + 1) < n) {
        r->at = NULL;
        return "";
    }
    const char *text = nst_copy_text(r->arena, r->at + 1, n);
    r->at += 1 + n;
    return text;
}

/* Each item takes two characters at least: no text makes more memory than its length allows. */
static uint32_t read_count(Reader *r)
{
    uint32_t n = (uint32_t)read_int(r, 0, MAX_ITEMS);
    if (r->at && strlen(r->at) < 2 * (size_t)n) r->at = NULL;
    return r->at ? n : 0;
}

static void read_attr(Reader *r, NstCustomAttr *a)
{
    a->name = read_text(r);
    int64_t kind = read_int(r, 0, 127);
    a->kind = (NstCustomKind)kind;
    a->n = read_count(r);
    if (!r->at || kind == 0 || !strchr("ifsIFS", (int)kind) || (strchr("ifs", (int)kind) && a->n != 1)) {
        r->at = NULL;
        return;
    }
    int64_t *ints = NST_NEW_ARRAY(r->arena, int64_t, a->n);
    float *floats = NST_NEW_ARRAY(r->arena, float, a->n);
    const char **texts = NST_NEW_ARRAY(r->arena, const char *, a->n);
    for (uint32_t k = 0; k < a->n; k++) {
        if (strchr("iI", (int)kind)) ints[k] = read_int(r, INT64_MIN, INT64_MAX);
        if (strchr("sS", (int)kind)) texts[k] = read_text(r);
        if (!strchr("fF", (int)kind)) continue;
        uint32_t bits = (uint32_t)read_int(r, 0, UINT32_MAX);
        memcpy(&floats[k], &bits, sizeof bits);
    }
    a->ints = ints;
    a->floats = floats;
    a->texts = texts;
}

bool nst_custom_node_read(NstArena *arena, const char *text, NstCustomNode *node)
{
    Reader r = {arena, text};
    read_word(&r, "in");
    node->n_in = read_count(&r);
    bool *given = NST_NEW_ARRAY(arena, bool, node->n_in);
    for (uint32_t k = 0; k < node->n_in; k++) given[k] = read_int(&r, 0, 1) != 0;
    read_word(&r, "out");
    node->n_out = read_count(&r);
    NstOperatorType *out = NST_NEW_ARRAY(arena, NstOperatorType, node->n_out);
    for (uint32_t k = 0; k < node->n_out; k++) {
        out[k].rank = (int32_t)read_int(&r, 0, NST_TENSOR_MAX_RANK);
        for (int d = 0; d < out[k].rank; d++) {
            uint32_t input;
            int axis;
            out[k].shape[d] = read_int(&r, INT64_MIN, INT64_MAX);
            if (nst_custom_same(out[k].shape[d], &input, &axis) && (input >= node->n_in || !given[input])) r.at = NULL;
        }
    }
    read_word(&r, "attr");
    node->n_attr = read_count(&r);
    NstCustomAttr *attr = NST_NEW_ARRAY(arena, NstCustomAttr, node->n_attr);
    for (uint32_t k = 0; k < node->n_attr; k++) read_attr(&r, &attr[k]);
    node->given = given;
    node->out = out;
    node->attr = attr;
    return r.at && !*r.at;
}

/* --- calls ----------------------------------------------------------------------------------------------------- */

NstStatus nst_custom_outcome(NstCtx *ctx, const char *label, const NstOperatorCall *call, NstStatus status)
{
    if (status == NST_OK) status = call->failed;
    if (status == NST_OK) return NST_OK;
    NST_FAIL(ctx, status, "%s: %s", label, call->error[0] ? call->error : nst_status_meaning(status));
}
