/* origin.h: where things come from: interned sets of source names ("conv1 (Conv)"), carried by nodes, nests, kernels. */
#ifndef NST_IR_ORIGIN_H
#define NST_IR_ORIGIN_H

#include "ir/base/str.h"

typedef struct NstOrigin {
    uint32_t i;
} NstOrigin; /* 0 = unknown */
typedef struct NstOrigins NstOrigins;

NstOrigins *nst_origins_new(NstArena *arena);
/* The origin of one source name. */
NstOrigin nst_origin_of(NstOrigins *origins, const char *name);
/* The union of two origins, order of first appearance kept. */
NstOrigin nst_origin_merge(NstOrigins *origins, NstOrigin a, NstOrigin b);
/* Names joined by ", "; "?" for unknown. [owned by origins] */
const char *nst_origin_text(NstOrigins *origins, NstOrigin origin);
/* The number of source names of an origin (0 for unknown); *names is set to them. [owned by origins] */
uint32_t nst_origin_names(const NstOrigins *origins, NstOrigin origin, const char *const **names);

#endif
