/* online.h: rows that are weighted sums about their maximum, taken in chunks of keys: what is found (online_find.c) and how it is
 * rewritten (online.c). */
#ifndef NST_PASSES_ONLINE_H
#define NST_PASSES_ONLINE_H

#include "passes/fuse.h"

/* Keys of one chunk.  With the tile of a strip (32 rows of 8 lanes) its scores take 128 KB: a quarter of an L2 of 512 KB, from
 * where on chunks are faster than whole strips (measurements.md). */
#define NST_ONLINE_CHUNK 1024

/* What a nest does for the rows. */
typedef enum NstOnlineRole {
    NST_ONLINE_BEFORE, /* reads nothing of what follows */
    NST_ONLINE_ALONG,  /* makes something for every key: scores, weights */
    NST_ONLINE_MAX,    /* the row's maximum of the scores */
    NST_ONLINE_SUM,    /* a sum over the keys, each term a weight times something */
    NST_ONLINE_AFTER   /* reads the maximum or a sum */
} NstOnlineRole;

/* A buffer with an element for every key, and the index that runs along the keys. */
typedef struct NstOnlineAlong {
    NstBuf buffer;
    uint32_t axis;
} NstOnlineAlong;

#define NST_ONLINE_MAX_NESTS 24
/* max = maximum over keys of score; weight = exp(score - max); sums of weight, and of weight times something. */
typedef struct NstOnline {
    NstModule *module;
    NstNest *const *nest; /* in order */
    uint32_t n;
    NstOnlineRole role[NST_ONLINE_MAX_NESTS];
    NstSym key[NST_ONLINE_MAX_NESTS]; /* the axis along the keys; none: the nest has none */
    uint32_t at_max;                  /* nest */
    NstBuf score, max;
    NstDim keys; /* how many */
    NST_VEC(NstOnlineAlong) along;
} NstOnline;

/* True if the nests, which run in this order, have that form; what they pass on must be read by none but them, which is the caller's
 * to see: the buffers of `along` and `max`. */
bool nst_online_find(NstModule *module, NstNest *const *nest, uint32_t n, NstOnline *online);
/* The index of a buffer that runs along the keys; -1 if none does. */
int nst_online_axis_of(const NstOnline *online, NstBuf buffer);

#endif
