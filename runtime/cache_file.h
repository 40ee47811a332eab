/* cache_file.h: the form of one cache entry on disk. */
#ifndef NST_RUNTIME_CACHE_FILE_H
#define NST_RUNTIME_CACHE_FILE_H

#include "runtime/cache.h"

#define NST_CACHE_ALIGN      64 /* bytes: of material and payload in the file */
#define NST_CACHE_NAME_BYTES 48

/* All fields little-endian.  The sum is XXH3-128 of every byte of the file from file_bytes on. */
typedef struct NstCacheHeader {
    char magic[16];
    uint64_t sum_lo, sum_hi;
    uint64_t file_bytes;
    uint32_t kind, zero;
    uint64_t material_bytes;
    uint64_t payload_at, payload_bytes;
    uint8_t rest[56]; /* zero */
} NstCacheHeader;
_Static_assert(sizeof(NstCacheHeader) == 128, "the form on disk");

/* The file name of material: 32 hexadecimal digits and the kind. */
void nst_cache_name(NstCacheKind kind, const void *material, size_t n, char name[NST_CACHE_NAME_BYTES]);

/* The kind such a name stands for, NST_CACHE_KIND_COUNT for any other name. */
NstCacheKind nst_cache_kind_of_name(const char *name);

/* The header for these contents and the parts of the whole file: header, material, padding, payload (n_parts + 3 parts). */
void nst_cache_frame(NstCacheKind kind, const void *material, size_t n, const NstPart *parts, int n_parts,
                     NstCacheHeader *header, NstPart *file_parts);

/* Checks a whole file; true if it is an entry, then payload and material are set.  kind is what its name says. */
bool nst_cache_open(const NstMapping *file, NstCacheKind kind, NstPart *material, NstPart *payload);

#endif
