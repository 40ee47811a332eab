/* cache_file.c: framing and checking of one entry. */
#include "runtime/cache_file.h"

#include <string.h>
#define XXH_INLINE_ALL /* the streaming state on the stack: only inline is that no matter of library versions */
#include <xxhash.h>

static const char magic[16] = "nestor cache 01";
#define SUMMED_FROM offsetof(NstCacheHeader, file_bytes)
#define MAX_PAYLOAD ((uint64_t)1 << 46)

void nst_cache_name(NstCacheKind kind, const void *material, size_t n, char name[NST_CACHE_NAME_BYTES])
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(material, n, (XXH64_hash_t)kind);
    snprintf(name, NST_CACHE_NAME_BYTES, "%016llx%016llx.%s", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64, nst_cache_kind_text(kind));
}

NstCacheKind nst_cache_kind_of_name(const char *name)
{
    const char *dot = strchr(name, '.');
    int kind = 0;
    if (!dot || dot - name != 32) return NST_CACHE_KIND_COUNT;
    while (kind < NST_CACHE_KIND_COUNT && strcmp(dot + 1, nst_cache_kind_text((NstCacheKind)kind)) != 0) kind++;
    return (NstCacheKind)kind;
}

void nst_cache_frame(NstCacheKind kind, const void *material, size_t n, const NstPart *parts, int n_parts,
                     NstCacheHeader *header, NstPart *file_parts)
{
    static const char zeros[NST_CACHE_ALIGN];
    size_t padding = (NST_CACHE_ALIGN - n % NST_CACHE_ALIGN) % NST_CACHE_ALIGN;
    memset(header, 0, sizeof *header);
    memcpy(header->magic, magic, sizeof magic);
    header->kind = (uint32_t)kind;
    header->material_bytes = n;
    header->payload_at = sizeof *header + n + padding;
    for (int k = 0; k < n_parts; k++) header->payload_bytes += parts[k].size;
    header->file_bytes = header->payload_at + header->payload_bytes;
    file_parts[0] = (NstPart){header, sizeof *header};
    file_parts[1] = (NstPart){material, n};
    file_parts[2] = (NstPart){zeros, padding};
    for (int k = 0; k < n_parts; k++) file_parts[3 + k] = parts[k];
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, (const char *)header + SUMMED_FROM, sizeof *header - SUMMED_FROM);
    for (int k = 1; k < n_parts + 3; k++)
        if (file_parts[k].size != 0) XXH3_128bits_update(&state, file_parts[k].at, file_parts[k].size);
    XXH128_hash_t sum = XXH3_128bits_digest(&state);
    header->sum_lo = sum.low64;
    header->sum_hi = sum.high64;
}

bool nst_cache_open(const NstMapping *file, NstCacheKind kind, NstPart *material, NstPart *payload)
{
    NstCacheHeader header;
    if (file->size < sizeof header) return false;
    memcpy(&header, file->at, sizeof header);
    if (memcmp(header.magic, magic, sizeof magic) != 0 || header.file_bytes != file->size) return false;
    if (header.kind != (uint32_t)kind || header.payload_bytes > MAX_PAYLOAD) return false;
    if (header.material_bytes > file->size - sizeof header || header.payload_at % NST_CACHE_ALIGN != 0) return false;
    if (header.payload_at < sizeof header + header.material_bytes || header.payload_at > file->size) return false;
    if (header.payload_bytes != file->size - header.payload_at) return false;
    XXH128_hash_t sum = XXH3_128bits(file->at + SUMMED_FROM, file->size - SUMMED_FROM);
    if (sum.low64 != header.sum_lo || sum.high64 != header.sum_hi) return false;
    *material = (NstPart){file->at + sizeof header, header.material_bytes};
    *payload = (NstPart){file->at + header.payload_at, header.payload_bytes};
    return true;
}
