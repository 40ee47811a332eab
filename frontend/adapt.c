/* adapt.c: how nodes of old versions become nodes of the next newer one.  Each adapter changes inputs and attributes. */
#include "frontend/lower.h"

/* Next "name:value" of a list; false at its end. */
static bool next_pair(NstLower *c, const char **p, const char **name, const char **value)
{
    while (**p == ' ') ++*p;
    if (!**p) return false;
    size_t n = strcspn(*p, ":"), m = strcspn(*p + n, " ");
    *name = nst_copy_text(c->arena, *p, n);
    *value = nst_copy_text(c->arena, *p + n + 1, m - 1);
    *p += n + m;
    return true;
}

static V ints_const(NstLower *c, const NstAttr *a)
{
    bool one = a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    int64_t shape = one ? 1 : (int64_t)a->n;
    return nst_build_const(c->b, NST_I64, 1, &shape, one ? &a->i : a->ints);
}

/* "axes:1": attribute axes becomes input 1; a number takes the type of input 0. */
ADAPT(attr_to_input)
{
    const char *name, *slot;
    while (next_pair(c, &arg, &name, &slot)) {
        const NstAttr *a = nst_attrs_find(&c->attrs, name);
        int k = slot[0] - '0';
        if (!a) continue;
        bool is_float = a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
        c->ins[k] = is_float ? number(c, dtype(c, in(c, 0)), a->f) : ints_const(c, a);
        if (c->n_ins <= k) c->n_ins = k + 1;
        nst_attrs_remove(&c->attrs, name);
    }
}

/* Attributes axis and broadcast of old arithmetic: B's axes lie at axis.. of A's (by default the last ones). */
ADAPT(broadcast)
{
    V a = in(c, 0), b = in(c, 1);
    D shape[NST_MAX_RANK];
    if (!attr_i(c, "broadcast") || !has_attr(c, "axis")) return;
    int r = rank(c, a), at = norm_axis(c, attr_i(c, "axis"), r, true), n = rank(c, b);
    if (at + n > r) {
        fail(c, NST_E_SHAPE, "B has rank %d at axis %d of A's rank %d, allowed: to fit inside", n, at, r);
        return;
    }
    for (int k = 0; k < r - at; k++) shape[k] = k < n ? dim(c, b, k) : num(c, 1);
    c->ins[1] = reshape(c, b, r - at, shape);
}

/* PRelu: a slope of one axis belonged to the channels. */
ADAPT(channel_slope)
{
    if (rank(c, in(c, 1)) == 1 && rank(c, in(c, 0)) > 1 && !is_num(c, dim(c, in(c, 1), 0), 1))
        c->ins[1] = along(c, in(c, 1), 0, rank(c, in(c, 0)) - 1);
}

/* Softmax of old: all axes from axis on are one row.  Sets axes, which the lowering takes instead of axis. */
ADAPT(coerce_2d)
{
    int r = rank(c, in(c, 0)), first = norm_axis(c, attr_i(c, "axis"), r, true);
    int64_t *axes = NST_NEW_ARRAY(c->arena, int64_t, r - first);
    for (int k = first; k < r; k++) axes[k - first] = k;
    NstAttr a = {.name = "axes", .type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS, .s = "", .ints = axes};
    a.n = (size_t)(r - first);
    nst_vec_push(c->arena, &c->attrs.list, a);
}

ADAPT(default_int)
{
    const char *name, *value;
    NstAttr a = {.type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT, .s = ""};
    if (!next_pair(c, &arg, &name, &value) || has_attr(c, name)) return;
    a.name = name;
    NST_ASSERT(nst_parse_int(value, &a.i));
    nst_vec_push(c->arena, &c->attrs.list, a);
}

static void set_text(NstLower *c, const char *name, const char *value)
{
    NstAttr a = {.name = name, .type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING, .s = value};
    nst_attrs_remove(&c->attrs, name);
    nst_vec_push(c->arena, &c->attrs.list, a);
}

static void set_numbers(NstLower *c, const char *name, int type, size_t n, const int64_t *ints, const float *floats)
{
    NstAttr a = {.name = name, .type = type, .s = "", .n = n, .ints = ints, .floats = floats};
    nst_attrs_remove(&c->attrs, name);
    nst_vec_push(c->arena, &c->attrs.list, a);
}

/* LpPool: p was a float. */
ADAPT(whole_number)
{
    NstAttr *a = nst_attrs_find(&c->attrs, arg);
    if (!a) return;
    if (!(a->f >= 1 && a->f <= 1000) || a->f != (double)(int64_t)a->f)
        fail(c, NST_E_UNSUPPORTED, "%s %g is not supported, allowed: a whole number", arg, a->f);
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    a->i = failed(c) ? 2 : (int64_t)a->f;
}

/* GroupNormalization: scale and bias were given a group. */
ADAPT(group_to_channels)
{
    int64_t groups = attr_i(c, "num_groups");
    if (groups < 1) fail(c, NST_E_MODEL, "num_groups is %lld, allowed: at least 1", (long long)groups);
    for (int k = 1; k < 3 && !failed(c); k++) {
        D each = nst_dim_floordiv(c->b->graph->dims, dim(c, in(c, 0), 1), num(c, groups)),
          shape[2] = {num(c, groups), each};
        c->ins[k] = merge_axes(c, expand(c, insert_axis(c, in(c, k), 1), 2, shape), 0);
    }
}

/* MeanVarianceNormalization: of each channel over all images, or of everything. */
ADAPT(mean_axes)
{
    int r = rank(c, in(c, 0)), n = 0;
    bool all = attr_i(c, "across_channels") != 0;
    int64_t *axes = NST_NEW_ARRAY(c->arena, int64_t, NST_MAX_RANK);
    if (!attr_i(c, "normalize_variance")) fail(c, NST_E_UNSUPPORTED, "normalize_variance 0 is not supported");
    for (int k = 0; k < r; k++)
        if (all || k != 1) axes[n++] = k;
    set_numbers(c, "axes", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS, (size_t)n, axes, NULL);
}

/* LabelEncoder-1: strings to their places in one list, or back. */
ADAPT(label_classes)
{
    NstAttr *words = nst_attrs_find(&c->attrs, "classes_strings");
    bool text = dtype(c, in(c, 0)) == NST_STR;
    if (!words) {
        fail(c, NST_E_MODEL, "without classes_strings");
        return;
    }
    int64_t *place = NST_NEW_ARRAY(c->arena, int64_t, words->n);
    size_t n = words->n;
    for (size_t k = 0; k < n; k++) place[k] = (int64_t)k;
    words->name = text ? "keys_strings" : "values_strings";
    set_numbers(c, text ? "values_int64s" : "keys_int64s", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS, n, place, NULL);
}

/* Tile: how often, along one axis; both numbers of the input's type, constant. */
ADAPT(tile_axis)
{
    double value[2] = {0};
    int r = rank(c, in(c, 0));
    int64_t *repeats = NST_NEW_ARRAY(c->arena, int64_t, NST_MAX_RANK), shape = r;
    for (int k = 0; k < 2; k++)
        if (!const_number(c, in(c, k + 1), &value[k]))
            fail(c, NST_E_UNSUPPORTED, "%s is computed at run time: not supported, allowed: a constant",
                 k ? "axis" : "tiles");
    int axis = norm_axis(c, (int64_t)value[1], r, false);
    if (!(value[0] >= 0 && value[0] <= INT32_MAX)) fail(c, NST_E_MODEL, "tiles %g, allowed: at least 0", value[0]);
    if (failed(c)) return;
    for (int k = 0; k < r; k++) repeats[k] = k == axis ? (int64_t)value[0] : 1;
    c->ins[1] = nst_build_const(c->b, NST_I64, 1, &shape, repeats);
    c->ins[2] = (V){0};
    c->n_ins = 2;
}

/* "name:text": what an attribute that did not exist meant. */
ADAPT(default_text)
{
    const char *name, *value;
    NstAttr a = {.type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING};
    if (!next_pair(c, &arg, &name, &value) || has_attr(c, name)) return;
    a.name = name;
    a.s = value;
    nst_vec_push(c->arena, &c->attrs.list, a);
}

ADAPT(rename)
{
    const char *old, *new_name;
    NstAttr *a = next_pair(c, &arg, &old, &new_name) ? nst_attrs_find(&c->attrs, old) : NULL;
    if (a) a->name = new_name;
}

ADAPT(drop_attr)
{
    nst_attrs_remove(&c->attrs, arg);
}

/* Cast's type by name. */
ADAPT(cast_name)
{
    static const struct {
        const char *name;
        int type;
    } names[] = {{"FLOAT", 1}, {"UINT8", 2}, {"INT8", 3},     {"UINT16", 4},  {"INT16", 5},   {"INT32", 6},
                 {"INT64", 7}, {"BOOL", 9},  {"FLOAT16", 10}, {"DOUBLE", 11}, {"UINT32", 12}, {"UINT64", 13}};
    NstAttr *a = nst_attrs_find(&c->attrs, "to");
    for (size_t k = 0; a && k < sizeof names / sizeof *names; k++) {
        if (strcmp(names[k].name, a->s) != 0) continue;
        a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
        a->i = names[k].type;
        return;
    }
    fail(c, NST_E_UNSUPPORTED, "casts to '%s' are not supported", a ? a->s : "");
}

/* Attribute is_test 0 asks for training. */
ADAPT(only_test)
{
    if (has_attr(c, "is_test") && !attr_i(c, "is_test") && c->n_outs > 1)
        fail(c, NST_E_UNSUPPORTED, "training (is_test 0) is not supported");
}

ADAPT(only_spatial)
{
    if (has_attr(c, "spatial") && !attr_i(c, "spatial"))
        fail(c, NST_E_UNSUPPORTED, "statistics an element (spatial 0) are not supported");
}

ADAPT(only_fmod)
{
    if (nst_dtype_is_float(dtype(c, in(c, 0))) && (!has_attr(c, "fmod") || !attr_i(c, "fmod")))
        fail(c, NST_E_MODEL, "fmod is 0, allowed for floats before version 28: 1");
}

ADAPT(only_first_output)
{
    for (int k = 1; k < c->n_outs; k++)
        if (wants(c, k)) fail(c, NST_E_UNSUPPORTED, "output %d is an output of training: not supported", k);
}

/* Resize-10 and Upsample: scales were input 1, positions o / scale, the nearest by floor, or ceil where it shrinks. */
ADAPT(resize_10)
{
    c->ins[2] = in(c, 1);
    c->ins[1] = (V){0};
    c->n_ins = 3;
    set_text(c, "coordinate_transformation_mode", "asymmetric");
    set_text(c, "nearest_mode", "simple");
}

/* Upsample-1 had scales for two axes of images. */
static void read_image_scales(NstLower *c)
{
    float *scales = NST_NEW_ARRAY(c->arena, float, 4);
    if (!has_attr(c, "height_scale")) return;
    if (rank(c, in(c, 0)) != 4) fail(c, NST_E_SHAPE, "X has rank %d, allowed: 4", rank(c, in(c, 0)));
    scales[0] = scales[1] = 1;
    scales[2] = (float)attr_f(c, "height_scale");
    scales[3] = (float)attr_f(c, "width_scale");
    set_numbers(c, "scales", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS, 4, NULL, scales);
}

/* Upsample was removed when Resize came: lowered as that. */
void nst_onnx_upsample(NstLower *c, const char *arg);
void nst_onnx_resize(NstLower *c, const char *arg);
void nst_onnx_upsample(NstLower *c, const char *arg)
{
    read_image_scales(c);
    const NstAttr *scales = nst_attrs_find(&c->attrs, "scales");
    int64_t n = scales ? (int64_t)scales->n : 0;
    if (scales) c->ins[1] = nst_build_const(c->b, NST_F32, 1, &n, scales->floats), c->n_ins = 2;
    nst_adapt_resize_10(c, arg);
    if (attr_is(c, "mode", "bilinear")) set_text(c, "mode", "linear");
    if (!failed(c)) nst_onnx_resize(c, arg);
}
