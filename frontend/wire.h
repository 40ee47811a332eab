/* wire.h: one pass over protobuf bytes before protobuf-c sees them.
 *
 * Checks every tag, length and wire type against the message's description, bounds depth and numbers, and gives a thin
 * copy: unknown fields are dropped, and each TensorProto.raw_data becomes the pair mapped_offset, mapped_size that says
 * where its bytes lie in the original.  protobuf-c then unpacks the thin copy, whose size does not grow with the weights. */
#ifndef NST_FRONTEND_WIRE_H
#define NST_FRONTEND_WIRE_H

#include <protobuf-c/protobuf-c.h>
#include "ir/base/status.h"

#define NST_WIRE_MAX_DEPTH    160      /* messages in messages: 32 graphs in graphs and what stands in the last */
#define NST_WIRE_MAX_MESSAGES 20000000 /* in all */

/* The message of these bytes, unpacked. [owned by arena; raw data stay in bytes]
 * what: for messages, "model".  Errors: NST_E_PARSE names the byte offset and the field; NST_E_LIMIT. */
NstStatus nst_wire_unpack(NstCtx *ctx, NstArena *arena, const ProtobufCMessageDescriptor *message, const char *what,
                          const void *bytes, size_t n, ProtobufCMessage **out) NST_MUST_CHECK;

#endif
