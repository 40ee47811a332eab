/* attr.c: AttributeProto -> NstAttr, checked against the row. */
#include "frontend/attr.h"

#include <string.h>

#define TYPE(name) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##name

static const struct {
    const char *kind;
    int type;
} kinds[] = {{"i", TYPE(INT)},          {"f", TYPE(FLOAT)},         {"s", TYPE(STRING)},
             {"t", TYPE(TENSOR)},       {"g", TYPE(GRAPH)},         {"ints", TYPE(INTS)},
             {"floats", TYPE(FLOATS)},  {"strings", TYPE(STRINGS)}, {"sparse", TYPE(SPARSE_TENSOR)},
             {"type", TYPE(TYPE_PROTO)}};
#define N_KINDS (sizeof kinds / sizeof *kinds)

static int type_of_kind(const NstAttrFormal *f)
{
    for (size_t k = 0; k < N_KINDS; k++)
        if (strlen(kinds[k].kind) == (size_t)f->kind_n && memcmp(kinds[k].kind, f->kind, (size_t)f->kind_n) == 0)
            return kinds[k].type;
    return TYPE(UNDEFINED);
}

/* What field is set, for models of IR versions that had no type. */
static int guess_type(const Onnx__AttributeProto *p)
{
    if (p->has_f) return TYPE(FLOAT);
    if (p->has_i) return TYPE(INT);
    if (p->has_s) return TYPE(STRING);
    if (p->t) return TYPE(TENSOR);
    if (p->g) return TYPE(GRAPH);
    if (p->n_floats) return TYPE(FLOATS);
    if (p->n_ints) return TYPE(INTS);
    return p->n_strings ? TYPE(STRINGS) : TYPE(UNDEFINED);
}

static const char *text_of(NstArena *arena, ProtobufCBinaryData bytes)
{
    return nst_copy_text(arena, (const char *)bytes.data, bytes.len);
}

static NstAttr read_one(NstArena *arena, const Onnx__AttributeProto *p)
{
    NstAttr a = {.name = p->name, .type = p->type, .i = p->i, .f = (double)p->f, .proto = p};
    if (a.type == TYPE(UNDEFINED)) a.type = guess_type(p);
    a.s = text_of(arena, p->s);
    a.n = a.type == TYPE(INTS) ? p->n_ints : a.type == TYPE(FLOATS) ? p->n_floats : p->n_strings;
    a.ints = p->ints;
    a.floats = p->floats;
    const char **strings = NST_NEW_ARRAY(arena, const char *, p->n_strings);
    for (size_t k = 0; k < p->n_strings; k++) strings[k] = text_of(arena, p->strings[k]);
    a.strings = strings;
    return a;
}

NstAttr *nst_attrs_find(const NstAttrList *attrs, const char *name)
{
    for (uint32_t k = 0; k < attrs->list.n; k++)
        if (strcmp(attrs->list.at[k].name, name) == 0) return &attrs->list.at[k];
    return NULL;
}

void nst_attrs_remove(NstAttrList *attrs, const char *name)
{
    NstAttr *a = nst_attrs_find(attrs, name);
    if (a) *a = nst_vec_pop(&attrs->list);
}

/* The row's formal of that name. */
static bool find_formal(const NstOpRow *row, const char *name, NstAttrFormal *f)
{
    bool ok;
    for (const char *p = nst_op_attributes(row); nst_attr_formal_next(&p, f, &ok);)
        if (strlen(name) == (size_t)f->name_n && memcmp(name, f->name, (size_t)f->name_n) == 0) return true;
    return false;
}

static NstStatus check_one(NstCtx *ctx, const NstOpRow *row, const char *label, const NstAttr *a)
{
    NstAttrFormal f;
    NST_CHECK(ctx, find_formal(row, a->name, &f), NST_E_MODEL, "%s: attribute '%s' is none of version %d, allowed: %s",
              label, a->name, row->since, *nst_op_attributes(row) ? nst_op_attributes(row) : "none");
    int wanted = type_of_kind(&f);
    bool empty_list = a->type == TYPE(UNDEFINED) && wanted >= TYPE(FLOATS); /* an empty list of an untyped attribute */
    NST_CHECK(ctx, a->type == wanted || empty_list, NST_E_MODEL, "%s: attribute '%s' has type %d, allowed: %d (%.*s)",
              label, a->name, a->type, wanted, f.kind_n, f.kind);
    bool has = wanted == TYPE(TENSOR) ? a->proto->t != NULL : wanted == TYPE(GRAPH) ? a->proto->g != NULL : true;
    NST_CHECK(ctx, has, NST_E_MODEL, "%s: attribute '%s' has no value", label, a->name);
    return NST_OK;
}

/* Texts of attributes are zero-terminated here: a zero inside would cut them short in silence. */
static NstStatus check_texts(NstCtx *ctx, const char *label, const Onnx__AttributeProto *p)
{
    bool zero = p->s.len != 0 && memchr(p->s.data, 0, p->s.len);
    for (size_t k = 0; k < p->n_strings && !zero; k++)
        zero = p->strings[k].len != 0 && memchr(p->strings[k].data, 0, p->strings[k].len);
    NST_CHECK(ctx, !zero, NST_E_UNSUPPORTED, "%s: attribute '%s' has a text with a zero byte in it, not supported",
              label, p->name);
    return NST_OK;
}

/* One attribute, its reference resolved; *absent: it refers to one that the call leaves out. */
static NstStatus resolve(NstCtx *ctx, NstArena *arena, const char *label, const Onnx__AttributeProto *p,
                         const NstAttrList *outer, NstAttr *a, bool *absent)
{
    *absent = false;
    NST_TRY(check_texts(ctx, label, p));
    *a = read_one(arena, p);
    if (!p->ref_attr_name || !*p->ref_attr_name) return NST_OK;
    NST_CHECK(ctx, outer, NST_E_MODEL, "%s: attribute '%s' refers to '%s' of a function, but stands in none", label,
              p->name, p->ref_attr_name);
    const NstAttr *from = nst_attrs_find(outer, p->ref_attr_name);
    *absent = !from;
    if (from) *a = *from;
    a->name = p->name;
    return NST_OK;
}

NstStatus nst_attrs_read(NstCtx *ctx, NstArena *arena, const NstOpRow *row, const char *label,
                         const Onnx__NodeProto *node, const NstAttrList *outer, NstAttrList *attrs)
{
    NstAttrFormal f;
    bool ok, absent;
    *attrs = (NstAttrList){0};
    for (size_t k = 0; k < node->n_attribute; k++) {
        const Onnx__AttributeProto *p = node->attribute[k];
        NstAttr a;
        NST_CHECK(ctx, p->name && *p->name, NST_E_MODEL, "%s: attribute %zu has no name", label, k);
        NST_CHECK(ctx, !nst_attrs_find(attrs, p->name), NST_E_MODEL, "%s: attribute '%s' stands there twice", label,
                  p->name);
        NST_TRY(resolve(ctx, arena, label, p, outer, &a, &absent));
        if (absent) continue;
        if (row) NST_TRY(check_one(ctx, row, label, &a));
        nst_vec_push(arena, &attrs->list, a);
    }
    if (!row) return NST_OK;
    for (const char *p = nst_op_attributes(row); nst_attr_formal_next(&p, &f, &ok);) {
        const char *name = nst_copy_text(arena, f.name, (size_t)f.name_n);
        NST_CHECK(ctx, !f.required || nst_attrs_find(attrs, name), NST_E_MODEL, "%s: attribute '%s' is missing", label,
                  name);
    }
    nst_attrs_add_defaults(arena, row, attrs);
    return NST_OK;
}

/* A default of a list: "0,2,3" or "Tanh,Tanh". */
static void read_list(NstArena *arena, const char *text, NstAttr *a)
{
    int64_t *ints = NST_NEW_ARRAY(arena, int64_t, strlen(text) + 1);
    const char **strings = NST_NEW_ARRAY(arena, const char *, strlen(text) + 1);
    for (const char *p = text; *p; a->n++) {
        size_t n = strcspn(p, ",");
        strings[a->n] = nst_copy_text(arena, p, n);
        if (a->type == TYPE(INTS)) NST_ASSERT(nst_parse_int(strings[a->n], &ints[a->n]));
        p += n + (p[n] == ',');
    }
    a->ints = ints;
    a->strings = strings;
}

void nst_attrs_add_defaults(NstArena *arena, const NstOpRow *row, NstAttrList *attrs)
{
    NstAttrFormal f;
    bool ok;
    for (const char *p = nst_op_attributes(row); nst_attr_formal_next(&p, &f, &ok);) {
        NstAttr a = {.name = nst_copy_text(arena, f.name, (size_t)f.name_n), .type = type_of_kind(&f), .s = ""};
        if (!f.has_default || nst_attrs_find(attrs, a.name)) continue;
        const char *text = nst_copy_text(arena, f.text, (size_t)f.text_n);
        if (a.type == TYPE(INT))
            NST_ASSERT(nst_parse_int(text, &a.i));
        else if (a.type == TYPE(FLOAT))
            NST_ASSERT(nst_parse_double(text, &a.f));
        else if (a.type == TYPE(STRING))
            a.s = text;
        else
            read_list(arena, text, &a);
        if (a.type == TYPE(FLOAT)) a.f = (double)(float)a.f; /* the type of the wire */
        nst_vec_push(arena, &attrs->list, a);
    }
}
