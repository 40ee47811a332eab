/* target.c: what this processor offers, from CPUID and XCR0, and the levels cut from it.  The only x86 file of ir/.
 *
 * Everything else in the tree sees levels, a feature mask and sizes.  Source: Intel SDM volume 2 (CPUID), volume 1
 * chapters 13 and 18 (XSAVE, AMX); AMD APM volume 3 (leaf 8000001D). */
#include "ir/target.h"

#include <cpuid.h>
#include <string.h>
#include <threads.h>

/* One row per feature that code generation may use: bit of feature_mask, LLVM's name, the level that needs it. */
typedef struct Feature {
    const char *name;
    NstTargetLevel level;
    uint32_t leaf, subleaf;
    int reg, bit;   /* reg: 0 eax, 1 ebx, 2 ecx, 3 edx */
    uint32_t state; /* XCR0 bits the operating system must have enabled */
} Feature;

enum { EAX, EBX, ECX, EDX };
#define STATE_AVX    0x06u
#define STATE_AVX512 0xe6u
#define STATE_AMX    0x60000u

static const Feature features[] = {
    {"avx", NST_TARGET_AVX2, 1, 0, ECX, 28, STATE_AVX},
    {"avx2", NST_TARGET_AVX2, 7, 0, EBX, 5, STATE_AVX},
    {"fma", NST_TARGET_AVX2, 1, 0, ECX, 12, STATE_AVX},
    {"f16c", NST_TARGET_AVX2, 1, 0, ECX, 29, STATE_AVX},
    {"bmi", NST_TARGET_AVX2, 7, 0, EBX, 3, 0},
    {"bmi2", NST_TARGET_AVX2, 7, 0, EBX, 8, 0},
    {"popcnt", NST_TARGET_AVX2, 1, 0, ECX, 23, 0},
    {"lzcnt", NST_TARGET_AVX2, 0x80000001u, 0, ECX, 5, 0},
    {"movbe", NST_TARGET_AVX2, 1, 0, ECX, 22, 0},
    {"avx512f", NST_TARGET_AVX512, 7, 0, EBX, 16, STATE_AVX512},
    {"avx512bw", NST_TARGET_AVX512, 7, 0, EBX, 30, STATE_AVX512},
    {"avx512dq", NST_TARGET_AVX512, 7, 0, EBX, 17, STATE_AVX512},
    {"avx512vl", NST_TARGET_AVX512, 7, 0, EBX, 31, STATE_AVX512},
    {"avx512cd", NST_TARGET_AVX512, 7, 0, EBX, 28, STATE_AVX512},
    {"avx512vnni", NST_TARGET_AVX512_VNNI, 7, 0, ECX, 11, STATE_AVX512},
    {"amx-tile", NST_TARGET_AMX_INT8, 7, 0, EDX, 24, STATE_AMX},
    {"amx-int8", NST_TARGET_AMX_INT8, 7, 0, EDX, 25, STATE_AMX},
};
enum { FEATURE_COUNT = sizeof features / sizeof *features };

typedef struct LevelInfo {
    const char *name; /* as an option says it */
    const char *cpu;  /* LLVM's -mcpu: its scheduling model and baseline features */
    int vector_bytes, vector_registers;
} LevelInfo;

static const LevelInfo levels[NST_TARGET_LEVEL_COUNT] = {
    [NST_TARGET_BASELINE] = {"baseline", "x86-64", 16, 16}, [NST_TARGET_AVX2] = {"avx2", "x86-64-v3", 32, 16},
    [NST_TARGET_AVX512] = {"avx512", "x86-64-v4", 64, 32},  [NST_TARGET_AVX512_VNNI] = {"vnni", "x86-64-v4", 64, 32},
    [NST_TARGET_AMX_INT8] = {"amx", "x86-64-v4", 64, 32},
};

/* --- asking the processor ------------------------------------------------------------------------------------ */

static bool read_leaf(uint32_t leaf, uint32_t subleaf, uint32_t reg[4])
{
    return __get_cpuid_count(leaf, subleaf, &reg[0], &reg[1], &reg[2], &reg[3]) != 0;
}

static uint32_t read_xcr0(void)
{
    uint32_t reg[4];
    if (!read_leaf(1, 0, reg) || (reg[ECX] >> 27 & 1) == 0) return 0; /* no OSXSAVE */
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Linux grants the AMX tile registers to a process that asks, for all its threads, once and for all:
 * arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).  The system call stands here as an instruction, because this file may
 * know the machine and not POSIX. */
static bool amx_is_granted;

static void ask_for_amx(void)
{
    long result = 158; /* SYS_arch_prctl */
    __asm__ volatile("syscall" : "+a"(result) : "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
    amx_is_granted = result == 0;
}

static bool may_use_amx(void)
{
    static once_flag asked = ONCE_FLAG_INIT;
    call_once(&asked, ask_for_amx);
    return amx_is_granted;
}

static uint64_t read_features(void)
{
    uint32_t xcr0 = read_xcr0();
    uint64_t mask = 0;
    for (int k = 0; k < FEATURE_COUNT; k++) {
        const Feature *f = &features[k];
        uint32_t reg[4];
        bool usable = (xcr0 & f->state) == f->state && read_leaf(f->leaf, f->subleaf, reg);
        if (usable && (reg[f->reg] >> f->bit & 1) != 0) mask |= UINT64_C(1) << k;
    }
    return mask;
}

static void read_caches(NstTarget *target)
{
    uint32_t reg[4], vendor[4];
    bool amd = read_leaf(0, 0, vendor) && vendor[EBX] == 0x68747541u; /* "Auth" */
    uint32_t leaf = amd ? 0x8000001du : 4;
    for (uint32_t k = 0; k < 16 && read_leaf(leaf, k, reg) && (reg[EAX] & 31) != 0; k++) {
        uint32_t type = reg[EAX] & 31, level = reg[EAX] >> 5 & 7;
        int64_t bytes = ((int64_t)(reg[EBX] >> 22) + 1) * ((reg[EBX] >> 12 & 1023) + 1) * ((reg[EBX] & 4095) + 1) *
                        ((int64_t)reg[ECX] + 1);
        if (type == 2) continue; /* instructions */
        if (level == 1) target->l1_bytes = bytes;
        if (level == 2) target->l2_bytes = bytes;
        if (level == 3) target->l3_bytes = bytes;
    }
}

/* --- levels -------------------------------------------------------------------------------------------------- */

/* Features needed by a level and not in mask, as "a, b"; empty when none. */
static void list_missing(uint64_t mask, NstTargetLevel level, char *text, size_t size)
{
    text[0] = '\0';
    for (int k = 0; k < FEATURE_COUNT; k++) {
        if (features[k].level > level || (mask >> k & 1) != 0) continue;
        size_t n = strlen(text);
        snprintf(text + n, size - n, "%s%s", n ? ", " : "", features[k].name);
    }
}

/* Restricts a target to a level that its feature mask has. */
static void cut_to_level(NstTarget *target, NstTargetLevel level)
{
    const LevelInfo *info = &levels[level];
    target->level = level;
    target->vector_bytes = info->vector_bytes;
    target->vector_registers = info->vector_registers;
    uint64_t mask = 0;
    NST_ASSERT(strlen(info->cpu) < sizeof target->cpu);
    strcpy(target->cpu, info->cpu);
    target->features[0] = '\0';
    for (int k = 0; k < FEATURE_COUNT; k++) {
        if (features[k].level > level) continue;
        mask |= UINT64_C(1) << k;
        size_t n = strlen(target->features);
        snprintf(target->features + n, sizeof target->features - n, "%s+%s", n ? "," : "", features[k].name);
    }
    /* x86-64-v4 asks for 256-bit vectors by default; ours are chosen by hand. */
    size_t n = strlen(target->features);
    if (level >= NST_TARGET_AVX512) snprintf(target->features + n, sizeof target->features - n, ",-prefer-256-bit");
    target->feature_mask = mask;
    target->has_fma = level >= NST_TARGET_AVX2;
}

void nst_target_of_level(NstTargetLevel level, NstTarget *target)
{
    *target = (NstTarget){.l1_bytes = 32 << 10, .l2_bytes = 256 << 10, .l3_bytes = 2 << 20}; /* if not told */
    read_caches(target);
    cut_to_level(target, level);
}

void nst_target_host(NstTarget *target)
{
    uint64_t mask = read_features();
    NstTargetLevel level = NST_TARGET_BASELINE;
    for (int k = NST_TARGET_AVX2; k < NST_TARGET_LEVEL_COUNT; k++) {
        char missing[256];
        list_missing(mask, (NstTargetLevel)k, missing, sizeof missing);
        if (missing[0] != '\0' || (k == NST_TARGET_AMX_INT8 && !may_use_amx())) break;
        level = (NstTargetLevel)k;
    }
    nst_target_of_level(level, target);
}

/* Cache sizes of the nominal machine: between those of the servers and desktops of its time. */
static void set_nominal(NstTarget *target, NstTargetLevel level)
{
    *target = (NstTarget){.l1_bytes = 48 << 10, .l2_bytes = 1 << 20, .l3_bytes = 32 << 20, .nominal = true};
    cut_to_level(target, level);
}

NstStatus nst_target_parse(NstCtx *ctx, const char *name, NstTarget *target)
{
    static const char nominal[] = "nominal-";
    for (int k = 0; strncmp(name, nominal, sizeof nominal - 1) == 0 && k < NST_TARGET_LEVEL_COUNT; k++) {
        if (strcmp(name + sizeof nominal - 1, levels[k].name) != 0) continue;
        set_nominal(target, (NstTargetLevel)k);
        return NST_OK;
    }
    nst_target_host(target);
    if (strcmp(name, "host") == 0) return NST_OK;
    for (int k = 0; k < NST_TARGET_LEVEL_COUNT; k++) {
        if (strcmp(name, levels[k].name) != 0) continue;
        NstTargetLevel level = (NstTargetLevel)k;
        if (level <= target->level) {
            cut_to_level(target, level);
            return NST_OK;
        }
        char missing[256];
        list_missing(read_features(), level, missing, sizeof missing);
        NST_FAIL(ctx, NST_E_UNSUPPORTED, "target '%s': this machine lacks %s", name,
                 missing[0] ? missing : "the kernel's permission to use AMX");
    }
    NST_FAIL(ctx, NST_E_INVALID, "target '%s' is none of host, baseline, avx2, avx512, vnni, amx, nominal-avx2, ...",
             name);
}

const char *nst_target_level_name(NstTargetLevel level)
{
    return levels[level].name;
}

int nst_target_lanes(const NstTarget *target, NstDtype type)
{
    int bytes = nst_dtype_info(type)->bytes;
    NST_ASSERT(bytes > 0);
    return target->vector_bytes > bytes ? target->vector_bytes / bytes : 1;
}

/* --- tensor instructions ------------------------------------------------------------------------------------- */

const NstTensorInsnInfo *nst_tensor_insn(NstTensorInsn insn)
{
    static const NstTensorInsnInfo rows[NST_INSN_COUNT] = {
#define NST_TENSOR_INSN(name, text, level, a, b, acc, k, matrix, lanes, regs, rows, vectors)                           \
    {text, NST_TARGET_##level, NST_##a, NST_##b, NST_##acc, k, matrix, lanes, regs, rows, vectors},
#include "ir/tensor_insn.def"
#undef NST_TENSOR_INSN
    };
    NST_ASSERT(insn < NST_INSN_COUNT);
    return &rows[insn];
}

NstTensorInsn nst_target_insn(const NstTarget *target, NstDtype a, NstDtype b, NstDtype accumulator)
{
    NstTensorInsn best = NST_INSN_COUNT;
    for (int k = 0; k < NST_INSN_COUNT; k++) {
        const NstTensorInsnInfo *row = nst_tensor_insn((NstTensorInsn)k);
        if (row->level > target->level || row->a != a || row->b != b || row->accumulator != accumulator) continue;
        if (best == NST_INSN_COUNT || row->level >= nst_tensor_insn(best)->level) best = (NstTensorInsn)k;
    }
    return best;
}
