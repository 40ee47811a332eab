/* object.c: own loader of ELF64 relocatable objects.
 *
 * In: the bytes of an object file as LLVM writes it.  Out: the kept sections side by side in one blob with their
 * relocations applied.  Cost: one pass over sections, symbols and relocations.
 * Source: System V ABI, AMD64 supplement, sections 4.1 to 4.4. */
#include "codegen/object.h"

#include <elf.h>
#include <string.h>

/* The whole blob lies within the reach of a 32-bit displacement. */
#define BLOB_LIMIT ((size_t)1 << 30)
#define NOT_PLACED SIZE_MAX

typedef struct Loader {
    NstCtx *ctx;
    NstArena *arena;
    const unsigned char *at;
    size_t size;
    const Elf64_Shdr *section;
    uint32_t n_sections, section_names;
    size_t *placed; /* offset of each section in the blob, NOT_PLACED for those dropped */
    const Elf64_Sym *symbol;
    uint32_t n_symbols, symbol_names;
    NstObject *result;
} Loader;

static bool in_file(const Loader *loader, uint64_t offset, uint64_t bytes)
{
    return offset <= loader->size && bytes <= loader->size - offset;
}

/* A NUL-terminated string of a string section, "?" where it is malformed. */
static const char *string_at(const Loader *loader, uint32_t section, uint32_t offset)
{
    if (section >= loader->n_sections) return "?";
    const Elf64_Shdr *strings = &loader->section[section];
    if (strings->sh_type != SHT_STRTAB || offset >= strings->sh_size) return "?";
    const char *text = (const char *)loader->at + strings->sh_offset + offset;
    return memchr(text, 0, strings->sh_size - offset) ? text : "?";
}

static const char *section_name(const Loader *loader, uint32_t index)
{
    return index < loader->n_sections ? string_at(loader, loader->section_names, loader->section[index].sh_name) : "?";
}

static NstStatus read_header(Loader *loader)
{
    Elf64_Ehdr header;
    NST_CHECK(loader->ctx, loader->size >= sizeof header, NST_E_COMPILER, "object file of %zu bytes has no header",
              loader->size);
    memcpy(&header, loader->at, sizeof header);
    bool good = memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
                header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_type == ET_REL && header.e_machine == EM_X86_64;
    NST_CHECK(loader->ctx, good, NST_E_COMPILER, "object file is no relocatable little-endian ELF64 of x86-64");
    NST_CHECK(loader->ctx, header.e_shentsize == sizeof(Elf64_Shdr) && header.e_shnum > 0, NST_E_COMPILER,
              "object file has section headers of %u bytes, %u of them", header.e_shentsize, header.e_shnum);
    uint64_t bytes = (uint64_t)header.e_shnum * sizeof(Elf64_Shdr);
    NST_CHECK(loader->ctx, in_file(loader, header.e_shoff, bytes), NST_E_COMPILER,
              "section headers of the object file lie outside it");
    loader->section = nst_copy(loader->arena, loader->at + header.e_shoff, bytes);
    loader->n_sections = header.e_shnum;
    loader->section_names = header.e_shstrndx;
    for (uint32_t k = 0; k < loader->n_sections; k++) {
        const Elf64_Shdr *section = &loader->section[k];
        bool inside = section->sh_type == SHT_NOBITS || in_file(loader, section->sh_offset, section->sh_size);
        NST_CHECK(loader->ctx, inside, NST_E_COMPILER, "section %u of the object file lies outside it", k);
    }
    return NST_OK;
}

static bool is_dropped(const Elf64_Shdr *section, const char *name)
{
    return !(section->sh_flags & SHF_ALLOC) || section->sh_size == 0 || strcmp(name, ".eh_frame") == 0;
}

static NstStatus place_sections(Loader *loader)
{
    loader->placed = NST_NEW_ARRAY(loader->arena, size_t, loader->n_sections);
    size_t size = 0;
    for (uint32_t k = 0; k < loader->n_sections; k++) {
        const Elf64_Shdr *section = &loader->section[k];
        const char *name = section_name(loader, k);
        loader->placed[k] = NOT_PLACED;
        if (is_dropped(section, name)) continue;
        NST_CHECK(loader->ctx, section->sh_type == SHT_PROGBITS && !(section->sh_flags & (SHF_WRITE | SHF_TLS)),
                  NST_E_COMPILER, "generated object has section '%s': only code and read-only data are allowed", name);
        size_t align = section->sh_addralign ? section->sh_addralign : 1;
        NST_CHECK(loader->ctx, (align & (align - 1)) == 0 && align <= NST_OBJECT_ALIGN, NST_E_COMPILER,
                  "section '%s' wants alignment %zu, at most %d is allowed", name, align, NST_OBJECT_ALIGN);
        size = (size + align - 1) & ~(align - 1);
        NST_CHECK(loader->ctx, size + section->sh_size < BLOB_LIMIT && section->sh_size < BLOB_LIMIT, NST_E_COMPILER,
                  "generated code exceeds %zu bytes", BLOB_LIMIT);
        loader->placed[k] = size;
        size += section->sh_size;
    }
    NST_CHECK(loader->ctx, size > 0, NST_E_COMPILER, "generated object holds no code");
    loader->result->bytes = nst_alloc_aligned(loader->arena, size, NST_OBJECT_ALIGN);
    loader->result->size = size;
    for (uint32_t k = 0; k < loader->n_sections; k++) {
        const Elf64_Shdr *section = &loader->section[k];
        if (loader->placed[k] == NOT_PLACED) continue;
        memcpy(loader->result->bytes + loader->placed[k], loader->at + section->sh_offset, section->sh_size);
    }
    return NST_OK;
}

static NstStatus read_symbols(Loader *loader)
{
    for (uint32_t k = 0; k < loader->n_sections; k++) {
        const Elf64_Shdr *section = &loader->section[k];
        if (section->sh_type != SHT_SYMTAB) continue;
        NST_CHECK(loader->ctx, section->sh_entsize == sizeof(Elf64_Sym), NST_E_COMPILER,
                  "symbols of the object file have %llu bytes", (unsigned long long)section->sh_entsize);
        loader->n_symbols = (uint32_t)(section->sh_size / sizeof(Elf64_Sym));
        loader->symbol =
            nst_copy(loader->arena, loader->at + section->sh_offset, loader->n_symbols * sizeof(Elf64_Sym));
        loader->symbol_names = section->sh_link;
    }
    loader->result->symbol = NST_NEW_ARRAY(loader->arena, NstObjectSymbol, loader->n_symbols);
    for (uint32_t k = 1; k < loader->n_symbols; k++) {
        const Elf64_Sym *symbol = &loader->symbol[k];
        const char *name = string_at(loader, loader->symbol_names, symbol->st_name);
        NST_CHECK(loader->ctx, symbol->st_shndx != SHN_UNDEF, NST_E_COMPILER,
                  "generated code needs the undefined symbol '%s'", name);
        if (symbol->st_shndx >= loader->n_sections || loader->placed[symbol->st_shndx] == NOT_PLACED) continue;
        if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC) continue;
        NST_CHECK(loader->ctx, symbol->st_value < loader->section[symbol->st_shndx].sh_size, NST_E_COMPILER,
                  "function '%s' lies outside its section", name);
        NstObjectSymbol *out = &loader->result->symbol[loader->result->n_symbols++];
        out->name = nst_strdup(loader->arena, name);
        out->offset = loader->placed[symbol->st_shndx] + symbol->st_value;
    }
    return NST_OK;
}

/* Name of a relocation's target: sections are named by their section. */
static const char *target_name(const Loader *loader, const Elf64_Sym *symbol)
{
    if (ELF64_ST_TYPE(symbol->st_info) == STT_SECTION) return section_name(loader, symbol->st_shndx);
    return string_at(loader, loader->symbol_names, symbol->st_name);
}

static NstStatus apply_relocation(Loader *loader, uint32_t section, const Elf64_Rela *relocation)
{
    uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
    uint64_t index = ELF64_R_SYM(relocation->r_info);
    NST_CHECK(loader->ctx, index < loader->n_symbols, NST_E_COMPILER, "relocation in '%s' names symbol %llu of %u",
              section_name(loader, section), (unsigned long long)index, loader->n_symbols);
    const Elf64_Sym *symbol = &loader->symbol[index];
    const char *name = target_name(loader, symbol);
    NST_CHECK(loader->ctx, type == R_X86_64_PC32 || type == R_X86_64_PLT32, NST_E_COMPILER,
              "relocation of type %u against '%s' in '%s': only PC32 and PLT32 are allowed", type, name,
              section_name(loader, section));
    NST_CHECK(loader->ctx, symbol->st_shndx < loader->n_sections && loader->placed[symbol->st_shndx] != NOT_PLACED,
              NST_E_COMPILER, "relocation in '%s' against '%s', which is not part of the code",
              section_name(loader, section), name);
    uint64_t size = loader->section[section].sh_size;
    NST_CHECK(loader->ctx, size >= 4 && relocation->r_offset <= size - 4, NST_E_COMPILER,
              "relocation outside section '%s'", section_name(loader, section));
    NST_CHECK(loader->ctx, symbol->st_value <= loader->section[symbol->st_shndx].sh_size, NST_E_COMPILER,
              "symbol '%s' lies outside its section", name);
    size_t place = loader->placed[section] + relocation->r_offset;
    int64_t target = (int64_t)(loader->placed[symbol->st_shndx] + symbol->st_value);
    bool near = relocation->r_addend > -(int64_t)BLOB_LIMIT && relocation->r_addend < (int64_t)BLOB_LIMIT;
    NST_CHECK(loader->ctx, near, NST_E_COMPILER, "relocation against '%s' has an addend out of reach", name);
    int32_t value = (int32_t)(target + relocation->r_addend - (int64_t)place);
    memcpy(loader->result->bytes + place, &value, sizeof value);
    return NST_OK;
}

static NstStatus apply_relocations(Loader *loader)
{
    for (uint32_t k = 0; k < loader->n_sections; k++) {
        const Elf64_Shdr *section = &loader->section[k];
        if (section->sh_type != SHT_RELA && section->sh_type != SHT_REL) continue;
        uint32_t applies_to = section->sh_info;
        if (applies_to >= loader->n_sections || loader->placed[applies_to] == NOT_PLACED) continue;
        NST_CHECK(loader->ctx, section->sh_type == SHT_RELA && section->sh_entsize == sizeof(Elf64_Rela),
                  NST_E_COMPILER, "relocations of '%s' have no addends", section_name(loader, applies_to));
        for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= section->sh_size; at += sizeof(Elf64_Rela)) {
            Elf64_Rela relocation;
            memcpy(&relocation, loader->at + section->sh_offset + at, sizeof relocation);
            NST_TRY(apply_relocation(loader, applies_to, &relocation));
        }
    }
    return NST_OK;
}

NstStatus nst_object_find(NstCtx *ctx, const NstObject *object, const char *name, size_t *offset)
{
    for (uint32_t k = 0; k < object->n_symbols; k++) {
        if (strcmp(object->symbol[k].name, name) != 0) continue;
        *offset = object->symbol[k].offset;
        return NST_OK;
    }
    NST_FAIL(ctx, NST_E_COMPILER, "generated object does not define '%s'", name);
}

NstStatus nst_object_load(NstCtx *ctx, NstArena *arena, const void *object, size_t size, NstObject *result)
{
    Loader loader = {.ctx = ctx, .arena = arena, .at = object, .size = size, .result = result};
    memset(result, 0, sizeof *result);
    NST_TRY(read_header(&loader));
    NST_TRY(place_sections(&loader));
    NST_TRY(read_symbols(&loader));
    return apply_relocations(&loader);
}
