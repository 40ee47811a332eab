/* weights.c: where a tensor's elements lie, whether there are as many as its shape says, and how they are coded. */
#include "frontend/weights.h"

#include <stdlib.h>
#include <string.h>
#include "ir/graph.h"

typedef struct Source {
    NstCtx *ctx;
    NstOnnxModel *model;
    const Onnx__TensorProto *t;
    const char *what;
    const NstDtypeInfo *info;
    NstWeight *w;
} Source;

static NstStatus read_shape(Source *s)
{
    NstWeight *w = s->w;
    w->dtype = nst_dtype_from_onnx(s->t->data_type);
    s->info = nst_dtype_info(w->dtype);
    NST_CHECK(s->ctx, w->dtype != NST_DTYPE_NONE, NST_E_MODEL, "%s: data type %d, allowed: 1 to %d", s->what,
              s->t->data_type, NST_DTYPE_COUNT - 1);
    NST_CHECK(s->ctx, s->t->n_dims <= NST_MAX_RANK, NST_E_LIMIT, "%s: rank %zu, allowed: at most %d", s->what,
              s->t->n_dims, NST_MAX_RANK);
    NST_CHECK(s->ctx, !s->t->segment, NST_E_UNSUPPORTED, "%s: tensors in segments are not supported", s->what);
    w->rank = (int)s->t->n_dims;
    w->count = 1;
    for (int k = 0; k < w->rank; k++) {
        w->shape[k] = s->t->dims[k];
        NST_CHECK(s->ctx, w->shape[k] >= 0, NST_E_MODEL, "%s: extent %lld of axis %d, allowed: at least 0", s->what,
                  (long long)w->shape[k], k);
        bool over = __builtin_mul_overflow(w->count, w->shape[k], &w->count) ||
                    w->count > NST_MAX_TENSOR_BYTES / s->info->bytes;
        NST_CHECK(s->ctx, !over, NST_E_LIMIT, "%s: its shape passes %lld bytes", s->what,
                  (long long)NST_MAX_TENSOR_BYTES);
    }
    w->bytes = (size_t)w->count * (size_t)s->info->bytes;
    return NST_OK;
}

/* --- packed bytes ---------------------------------------------------------------------------------------------- */

/* Elements of 6, 4 and 2 bits, low bits first, to a byte each; signed ones are extended. */
static void unpack_small(const Source *s, const unsigned char *from, unsigned char *to)
{
    int bits = s->info->bits;
    unsigned mask = (1u << bits) - 1, sign = nst_dtype_is_signed(s->w->dtype) ? 1u << (bits - 1) : 0;
    for (int64_t k = 0; k < s->w->count; k++) {
        int64_t at = k * bits / 8;
        int shift = (int)(k * bits % 8);
        unsigned v = (unsigned)from[at] >> shift;
        if (shift + bits > 8) v |= (unsigned)from[at + 1] << (8 - shift);
        v &= mask;
        to[k] = (unsigned char)(v & sign ? v | ~mask : v);
    }
}

static bool all_bools(const unsigned char *at, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (at[k] > 1) return false;
    return true;
}

static NstStatus take_raw(Source *s, const unsigned char *at, size_t n)
{
    NstWeight *w = s->w;
    size_t wanted = (size_t)((w->count * s->info->bits + 7) / 8);
    NST_CHECK(s->ctx, n == wanted, NST_E_MODEL, "%s: %zu bytes of data, its shape and type %s need %zu", s->what, n,
              s->info->name, wanted);
    if (s->info->bits < 8) {
        unsigned char *data = nst_alloc(s->model->arena, w->bytes);
        unpack_small(s, at, data);
        w->data = data;
        return NST_OK;
    }
    bool keep = n >= NST_WEIGHT_BORROW && (w->dtype != NST_BOOL || all_bools(at, n));
    w->data = keep ? at : nst_copy(s->model->arena, at, n);
    for (size_t k = 0; !keep && w->dtype == NST_BOOL && k < n; k++) ((unsigned char *)w->data)[k] = at[k] != 0;
    return NST_OK;
}

/* --- typed fields ---------------------------------------------------------------------------------------------- */

/* n numbers of `size` bytes each, little-endian, of which the low `keep` bytes count. */
static NstStatus take_field(Source *s, const char *field, const void *from, size_t n, size_t size)
{
    NstWeight *w = s->w;
    size_t keep = (size_t)s->info->bytes, per = keep > size ? keep / size : 1; /* complex: two numbers an element */
    size_t wanted = (size_t)w->count * per;
    bool packed =
        s->info->bits < 8 && s->info->bits != 6; /* entries hold a byte of 4- and 2-bit elements, one of 6 bits */
    if (packed) wanted = ((size_t)w->count * (size_t)s->info->bits + 7) / 8;
    NST_CHECK(s->ctx, n == wanted, NST_E_MODEL, "%s: %zu entries of %s, its shape needs %zu", s->what, n, field,
              wanted);
    unsigned char *data = nst_alloc(s->model->arena, w->bytes);
    w->data = data;
    if (keep >= size) {
        if (w->bytes) memcpy(data, from, w->bytes);
        return NST_OK;
    }
    unsigned char *low = packed ? nst_alloc(s->model->arena, n) : data;
    for (size_t k = 0; k < n; k++) memcpy(low + k * keep, (const unsigned char *)from + k * size, keep);
    if (packed) unpack_small(s, low, data);
    for (size_t k = 0; s->info->bits == 6 && k < n; k++) data[k] &= 0x3f;
    for (size_t k = 0; w->dtype == NST_BOOL && k < n; k++) data[k] = ((const int32_t *)from)[k] != 0;
    return NST_OK;
}

/* Strings as handles of the model's table. */
static NstStatus take_strings(Source *s)
{
    NstWeight *w = s->w;
    NST_CHECK(s->ctx, s->model->strings, NST_E_UNSUPPORTED, "%s: string tensors are not supported here", s->what);
    NST_CHECK(s->ctx, s->t->n_string_data == (size_t)w->count && s->t->data_location != 1 && !s->t->has_mapped_offset,
              NST_E_MODEL, "%s: %zu entries of string_data, its shape needs %zu", s->what, s->t->n_string_data,
              (size_t)w->count);
    uint64_t *handle = nst_alloc(s->model->arena, w->bytes);
    for (size_t k = 0; k < s->t->n_string_data; k++)
        handle[k] =
            nst_strings_put(s->model->strings, (const char *)s->t->string_data[k].data, s->t->string_data[k].len);
    w->data = handle;
    return NST_OK;
}

static NstStatus take_typed(Source *s)
{
    const Onnx__TensorProto *t = s->t;
    switch (s->w->dtype) {
    case NST_F32:
    case NST_C64: return take_field(s, "float_data", t->float_data, t->n_float_data, 4);
    case NST_F64:
    case NST_C128: return take_field(s, "double_data", t->double_data, t->n_double_data, 8);
    case NST_I64: return take_field(s, "int64_data", t->int64_data, t->n_int64_data, 8);
    case NST_U32:
    case NST_U64: return take_field(s, "uint64_data", t->uint64_data, t->n_uint64_data, 8);
    default: return take_field(s, "int32_data", t->int32_data, t->n_int32_data, 4);
    }
}

/* --- external data --------------------------------------------------------------------------------------------- */

static const char *external_entry(const Onnx__TensorProto *t, const char *key)
{
    for (size_t k = 0; k < t->n_external_data; k++)
        if (t->external_data[k]->key && strcmp(t->external_data[k]->key, key) == 0) return t->external_data[k]->value;
    return NULL;
}

/* Relative, and no component that leaves the folder. */
static bool stays_inside(const char *location)
{
    if (*location == '\0' || *location == '/' || strchr(location, '\\')) return false;
    for (const char *p = location; p;) {
        const char *end = strchr(p, '/');
        size_t n = end ? (size_t)(end - p) : strlen(p);
        if (n == 2 && p[0] == '.' && p[1] == '.') return false;
        p = end ? end + 1 : NULL;
    }
    return true;
}

static void end_mapping(void *arg)
{
    nst_os_unmap(arg);
}

/* True if path, links followed, lies below the folder, links followed; file: below the folder that has the file. */
static bool lies_below(const char *path, const char *folder, bool file)
{
    char *real = nst_os_real_path(path), *base = nst_os_real_path(folder);
    char *slash = base && file ? strrchr(base, '/') : NULL;
    if (slash) *slash = '\0';
    size_t n = base ? strlen(base) : 0;
    if (n == 1) n = 0; /* "/" */
    bool below = real && base && strncmp(real, base, n) == 0 && real[n] == '/';
    free(real);
    free(base);
    return below;
}

/* What is beside the model by name may be a link out of its folder: only to where the model's file itself is linked to (stores
 * of models keep files so), or one could read any file of the user by a model. */
static NstStatus check_links(const Source *s, const char *path)
{
    const NstOnnxModel *m = s->model;
    char *real = nst_os_real_path(path);
    NST_CHECK(s->ctx, real, NST_E_IO, "%s: cannot open external data '%s'", s->what, path);
    free(real);
    if (lies_below(path, m->folder, false) || (m->file && lies_below(path, m->file, true))) return NST_OK;
    NST_FAIL(s->ctx, NST_E_MODEL, "%s: external data at '%s', a link that leaves the model's folder", s->what, path);
}

static NstStatus find_file(Source *s, const char *location, const NstMapping **mapping)
{
    NstOnnxModel *m = s->model;
    for (uint32_t k = 0; k < m->files.n; k++) {
        *mapping = &m->files.at[k]->mapping;
        if (strcmp(m->files.at[k]->location, location) == 0) return NST_OK;
    }
    NstExternalFile *file = NST_NEW(m->arena, NstExternalFile);
    file->location = location;
    const char *path = nst_format(m->arena, "%s/%s", m->folder, location);
    NST_TRY(check_links(s, path));
    NST_TRY(nst_os_map_file(s->ctx, path, &file->mapping));
    nst_arena_on_free(m->arena, end_mapping, &file->mapping);
    nst_vec_push(m->arena, &m->files, file);
    *mapping = &file->mapping;
    return NST_OK;
}

/* A size entry, or `otherwise` if there is none. */
static NstStatus read_size(Source *s, const char *key, size_t otherwise, size_t *value)
{
    const char *text = external_entry(s->t, key), *end;
    int64_t number;
    *value = otherwise;
    if (!text) return NST_OK;
    end = nst_parse_int(text, &number);
    NST_CHECK(s->ctx, end && *end == '\0' && number >= 0, NST_E_MODEL,
              "%s: external data with %s '%s', allowed: a number of bytes", s->what, key, text);
    *value = (size_t)number;
    return NST_OK;
}

static NstStatus take_external(Source *s)
{
    const char *location = external_entry(s->t, "location");
    const NstMapping *mapping;
    size_t offset, length;
    NST_CHECK(s->ctx, location, NST_E_MODEL, "%s: external data without a location", s->what);
    NST_CHECK(s->ctx, stays_inside(location), NST_E_MODEL,
              "%s: external data at '%s', allowed: a path below the model's folder", s->what, location);
    NST_CHECK(s->ctx, s->model->folder, NST_E_INVALID,
              "%s: external data at '%s', but the model came from memory without a folder", s->what, location);
    NST_TRY(find_file(s, location, &mapping));
    NST_TRY(read_size(s, "offset", 0, &offset));
    NST_CHECK(s->ctx, offset <= mapping->size, NST_E_MODEL,
              "%s: external data begin at byte %zu of '%s', which has %zu", s->what, offset, location, mapping->size);
    size_t rest = mapping->size - offset, wanted = (size_t)((s->w->count * s->info->bits + 7) / 8);
    NST_TRY(read_size(s, "length", wanted < rest ? wanted : rest, &length));
    NST_CHECK(s->ctx, length <= rest, NST_E_MODEL, "%s: external data of %zu bytes at byte %zu of '%s', which has %zu",
              s->what, length, offset, location, mapping->size);
    return take_raw(s, mapping->at + offset, length);
}

NstStatus nst_weight_read(NstCtx *ctx, NstOnnxModel *model, const Onnx__TensorProto *tensor, const char *what,
                          NstWeight *weight)
{
    Source s = {ctx, model, tensor, what, NULL, weight};
    *weight = (NstWeight){0};
    NST_TRY(read_shape(&s));
    if (weight->dtype == NST_STR) return take_strings(&s);
    if (tensor->data_location == 1) return take_external(&s);
    if (!tensor->has_mapped_offset) return take_typed(&s);
    NST_CHECK(ctx, tensor->mapped_offset <= model->n && tensor->mapped_size <= model->n - tensor->mapped_offset,
              NST_E_MODEL, "%s: its data lie outside the model", what);
    return take_raw(&s, model->bytes + tensor->mapped_offset, (size_t)tensor->mapped_size);
}
