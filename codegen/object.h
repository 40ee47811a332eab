/* object.h: from a relocatable ELF64 object in memory to one position-independent blob of code and constants.
 *
 * The loader accepts only what generated code may contain: sections of code and read-only data, and relocations that
 * are relative within them (R_X86_64_PC32, R_X86_64_PLT32).  Everything else, above all an undefined symbol, is an
 * error that names it: the blob must run from any address without a loader.  Unwind tables, notes and debug sections
 * are dropped.  The object is parsed defensively: no byte of it is trusted. */
#ifndef NST_CODEGEN_OBJECT_H
#define NST_CODEGEN_OBJECT_H

#include "ir/base/status.h"

typedef struct NstObjectSymbol {
    const char *name;
    size_t offset; /* in the blob */
} NstObjectSymbol;

/* Alignment that the blob's first byte must have in memory. */
#define NST_OBJECT_ALIGN 64

typedef struct NstObject {
    unsigned char *bytes; /* relocated */
    size_t size;
    uint32_t n_symbols; /* functions defined in the object */
    NstObjectSymbol *symbol;
} NstObject;

/* Relocates the object.  Owns: arena holds the result; `object` may be freed afterwards.
 * Errors: NST_E_COMPILER naming the section, symbol or relocation that is not allowed, or what is malformed. */
NstStatus nst_object_load(NstCtx *ctx, NstArena *arena, const void *object, size_t size,
                          NstObject *result) NST_MUST_CHECK;

/* Offset of a function in the blob.  Errors: NST_E_COMPILER if it is not defined. */
NstStatus nst_object_find(NstCtx *ctx, const NstObject *object, const char *name, size_t *offset) NST_MUST_CHECK;

#endif
