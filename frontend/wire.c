/* wire.c: the pre-scan: descends through the description of messages that protobuf-c generated from onnx.proto.
 *
 * Input: any bytes.  Output: bytes that protobuf-c accepts, at most 16 bytes longer a nested message than what they came
 * from.  Cost: linear.  Lengths of nested messages are written in five bytes, patched when the message is done. */
#include "frontend/wire.h"

#include <string.h>
#include "ir/base/str.h"
#include "onnx.pb-c.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { RAW_DATA_FIELD = 9, MAPPED_OFFSET_FIELD = 1000, MAPPED_SIZE_FIELD = 1001 };
#define LENGTH_BYTES 5

typedef struct Scan {
    NstCtx *ctx;
    const char *what;
    const unsigned char *start;
    NstText thin;
    uint32_t messages;
} Scan;

/* A stretch of the original. */
typedef struct Span {
    const unsigned char *p, *end;
} Span;

static long long offset_of(const Scan *scan, const unsigned char *p)
{
    return (long long)(p - scan->start);
}

static NstStatus read_varint(const Scan *scan, Span *span, uint64_t *value)
{
    const unsigned char *at = span->p;
    *value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        NST_CHECK(scan->ctx, span->p < span->end, NST_E_PARSE, "%s: truncated inside a number at byte %lld", scan->what,
                  offset_of(scan, at));
        unsigned char byte = *span->p++;
        if (shift < 64) *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return NST_OK;
    }
    NST_FAIL(scan->ctx, NST_E_PARSE, "%s: a number of more than ten bytes at byte %lld", scan->what,
             offset_of(scan, at));
}

static void put_varint(Scan *scan, uint64_t value)
{
    char bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value);
    nst_text_add_n(&scan->thin, bytes, n);
}

static int wire_type_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return WIRE_32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return WIRE_64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
    default: return WIRE_VARINT;
    }
}

/* The value of one field as a stretch of bytes (for WIRE_BYTES without its length). */
static NstStatus read_value(const Scan *scan, Span *span, int wire, Span *value)
{
    uint64_t n = wire == WIRE_64 ? 8 : 4;
    *value = (Span){span->p, span->p};
    if (wire == WIRE_VARINT) {
        NST_TRY(read_varint(scan, span, &n));
        value->end = span->p;
        return NST_OK;
    }
    NST_CHECK(scan->ctx, wire == WIRE_BYTES || wire == WIRE_64 || wire == WIRE_32, NST_E_PARSE,
              "%s: wire type %d at byte %lld, allowed: 0, 1, 2, 5; these are no bytes of an ONNX message", scan->what,
              wire, offset_of(scan, span->p));
    if (wire == WIRE_BYTES) NST_TRY(read_varint(scan, span, &n));
    NST_CHECK(scan->ctx, n <= (uint64_t)(span->end - span->p), NST_E_PARSE,
              "%s: truncated: %llu bytes announced at byte %lld, %lld are left", scan->what, (unsigned long long)n,
              offset_of(scan, value->p), (long long)(span->end - span->p));
    *value = (Span){span->p, span->p + n};
    span->p += n;
    return NST_OK;
}

/* Packed numbers must end where their field ends. */
static NstStatus check_packed(const Scan *scan, const ProtobufCFieldDescriptor *field, Span value)
{
    int wire = wire_type_of(field->type);
    const unsigned char *at = value.p;
    size_t size = wire == WIRE_64 ? 8 : 4;
    uint64_t ignored;
    if (wire != WIRE_VARINT) {
        NST_CHECK(scan->ctx, (size_t)(value.end - value.p) % size == 0, NST_E_PARSE,
                  "%s: field '%s' at byte %lld has %lld bytes, allowed: multiples of %zu", scan->what, field->name,
                  offset_of(scan, at), (long long)(value.end - value.p), size);
        return NST_OK;
    }
    while (value.p < value.end) NST_TRY(read_varint(scan, &value, &ignored));
    return NST_OK;
}

static NstStatus check_text(const Scan *scan, const ProtobufCFieldDescriptor *field, Span value)
{
    NST_CHECK(scan->ctx, !memchr(value.p, 0, (size_t)(value.end - value.p)), NST_E_PARSE,
              "%s: field '%s' at byte %lld holds a zero byte, allowed: text", scan->what, field->name,
              offset_of(scan, value.p));
    return NST_OK;
}

static NstStatus scan_message(Scan *scan, const ProtobufCMessageDescriptor *message, Span span, int depth);

static NstStatus scan_nested(Scan *scan, const ProtobufCFieldDescriptor *field, Span value, int depth)
{
    size_t at = scan->thin.n;
    nst_text_add_n(&scan->thin, (const char[LENGTH_BYTES]){0}, LENGTH_BYTES);
    NST_TRY(scan_message(scan, field->descriptor, value, depth + 1));
    uint64_t n = scan->thin.n - at - LENGTH_BYTES;
    NST_CHECK(scan->ctx, n < INT32_MAX, NST_E_LIMIT, "%s: field '%s' has 2 GB without its raw data", scan->what,
              field->name);
    for (int k = 0; k < LENGTH_BYTES; k++)
        scan->thin.at[at + (size_t)k] = (char)((n >> (7 * k) & 0x7f) | (k + 1 < LENGTH_BYTES ? 0x80 : 0));
    return NST_OK;
}

/* Where the raw data lie, instead of the data. */
static void put_mapped(Scan *scan, Span value)
{
    put_varint(scan, MAPPED_OFFSET_FIELD << 3 | WIRE_VARINT);
    put_varint(scan, (uint64_t)(value.p - scan->start));
    put_varint(scan, MAPPED_SIZE_FIELD << 3 | WIRE_VARINT);
    put_varint(scan, (uint64_t)(value.end - value.p));
}

static NstStatus scan_field(Scan *scan, const ProtobufCMessageDescriptor *message, Span *span, int depth)
{
    const unsigned char *at = span->p;
    uint64_t tag;
    Span value;
    NST_TRY(read_varint(scan, span, &tag));
    NST_CHECK(scan->ctx, tag >> 3 > 0 && tag >> 3 < 1 << 29, NST_E_PARSE,
              "%s: field number %llu of %s at byte %lld: these are no bytes of an ONNX message", scan->what,
              (unsigned long long)(tag >> 3), message->short_name, offset_of(scan, at));
    unsigned number = (unsigned)(tag >> 3);
    int wire = (int)(tag & 7);
    bool is_tensor = message == &onnx__tensor_proto__descriptor;
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(message, number);
    NST_TRY(read_value(scan, span, wire, &value));
    if (!field || (is_tensor && number >= MAPPED_OFFSET_FIELD)) return NST_OK;
    bool packed = field->label == PROTOBUF_C_LABEL_REPEATED && wire == WIRE_BYTES && wire_type_of(field->type) != wire;
    NST_CHECK(scan->ctx, packed || wire == wire_type_of(field->type), NST_E_PARSE,
              "%s: field '%s' of %s at byte %lld has wire type %d, allowed: %d; these are no bytes of an ONNX message",
              scan->what, field->name, message->short_name, offset_of(scan, at), wire, wire_type_of(field->type));
    if (packed) NST_TRY(check_packed(scan, field, value));
    if (field->type == PROTOBUF_C_TYPE_STRING) NST_TRY(check_text(scan, field, value));
    if (is_tensor && number == RAW_DATA_FIELD) {
        put_mapped(scan, value);
        return NST_OK;
    }
    put_varint(scan, tag);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) return scan_nested(scan, field, value, depth);
    if (wire == WIRE_BYTES) put_varint(scan, (uint64_t)(value.end - value.p));
    nst_text_add_n(&scan->thin, (const char *)value.p, (size_t)(value.end - value.p));
    return NST_OK;
}

static NstStatus scan_message(Scan *scan, const ProtobufCMessageDescriptor *message, Span span, int depth)
{
    NST_CHECK(scan->ctx, depth <= NST_WIRE_MAX_DEPTH, NST_E_LIMIT, "%s: messages nested more than %d deep at byte %lld",
              scan->what, NST_WIRE_MAX_DEPTH, offset_of(scan, span.p));
    NST_CHECK(scan->ctx, ++scan->messages <= NST_WIRE_MAX_MESSAGES, NST_E_LIMIT, "%s: more than %d messages",
              scan->what, NST_WIRE_MAX_MESSAGES);
    while (span.p < span.end) NST_TRY(scan_field(scan, message, &span, depth));
    return NST_OK;
}

static void *arena_alloc(void *arena, size_t size)
{
    return nst_alloc(arena, size);
}

static void arena_free(void *arena, void *pointer)
{
    (void)arena;
    (void)pointer;
}

NstStatus nst_wire_unpack(NstCtx *ctx, NstArena *arena, const ProtobufCMessageDescriptor *message, const char *what,
                          const void *bytes, size_t n, ProtobufCMessage **out)
{
    static const char lfs[] = "version https://git-lfs";
    NST_CHECK(ctx, n > 0, NST_E_PARSE, "%s: empty, allowed: the bytes of an ONNX %s", what, what);
    NST_CHECK(ctx, n < sizeof lfs || memcmp(bytes, lfs, sizeof lfs - 1) != 0, NST_E_PARSE,
              "%s: a git-LFS pointer, not the file itself: fetch it with 'git lfs pull'", what);
    NstArena *own = nst_arena_new(ctx, arena);
    Scan scan = {.ctx = ctx, .what = what, .start = bytes};
    nst_text_init(&scan.thin, own);
    NST_TRY(scan_message(&scan, message, (Span){scan.start, scan.start + n}, 0));
    ProtobufCAllocator allocator = {arena_alloc, arena_free, arena};
    *out = protobuf_c_message_unpack(message, &allocator, scan.thin.n, (const uint8_t *)nst_text_get(&scan.thin));
    nst_arena_free(own);
    NST_CHECK(ctx, *out, NST_E_PARSE, "%s: the bytes do not follow the format of %s", what, message->short_name);
    return NST_OK;
}
