/* support_amx.c: see support_amx.h. */
#define _GNU_SOURCE /* NOLINT: names of registers in ucontext.h */
#include "tests/unit/support_amx.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

enum { TILES = 8, MAX_ROWS = 16, MAX_ROW_BYTES = 64, CONFIG_BYTES = 64 };

typedef struct Config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} Config;
_Static_assert(sizeof(Config) == CONFIG_BYTES, "the operand of LDTILECFG");

static _Thread_local Config config;
static _Thread_local uint8_t tile[TILES][MAX_ROWS][MAX_ROW_BYTES];
static atomic_ullong emulated;
static bool is_usable, is_installed;
static struct sigaction former;

/* --- decoding ------------------------------------------------------------------------------------------------ */

/* VEX.128.pp.0F38.W0 opcode /r with its operands. */
typedef struct Insn {
    int pp; /* 0 none, 1 66, 2 F3, 3 F2 */
    uint8_t opcode;
    int mod, reg, rm, v;
    bool has_sib;
    uint8_t *address;
    int64_t stride; /* index register times scale */
    size_t size;
} Insn;

static int64_t register_of(const ucontext_t *context, int number)
{
    static const int greg[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                 REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return context->uc_mcontext.gregs[greg[number]];
}

/* Reads the memory operand whose ModRM byte is at p[-1]; gives what follows it. */
static const uint8_t *decode_memory(const ucontext_t *context, Insn *insn, bool x, bool b, const uint8_t *p)
{
    int64_t address = 0;
    int32_t far = 0;
    int base = insn->rm;
    bool no_base = false;
    if (insn->rm == 4) {
        int scale = *p >> 6, index = (*p >> 3 & 7) + 8 * x;
        base = *p++ & 7;
        insn->has_sib = true;
        insn->stride = index == 4 ? 0 : register_of(context, index) * (1 << scale);
    }
    if (insn->mod == 0 && base == 5) no_base = true; /* absolute, or relative to the next instruction */
    if (insn->mod == 1) {
        far = (int8_t)*p++;
    } else if (insn->mod == 2 || no_base) {
        memcpy(&far, p, sizeof far);
        p += sizeof far;
    }
    if (!no_base)
        address = register_of(context, base + 8 * b);
    else if (!insn->has_sib)
        address = (int64_t)(intptr_t)p;
    address += far;
    memcpy(&insn->address, &address, sizeof address);
    return p;
}

static bool decode(const ucontext_t *context, Insn *insn)
{
    const uint8_t *at, *p;
    int64_t rip = context->uc_mcontext.gregs[REG_RIP];
    memcpy(&at, &rip, sizeof at);
    p = at;
    *insn = (Insn){0};
    if (p[0] != 0xc4 || (p[1] & 0x1f) != 2 || (p[2] & 0x84) != 0) return false; /* map 0F38, W0, 128 bits */
    bool r = !(p[1] & 0x80), x = !(p[1] & 0x40), b = !(p[1] & 0x20);
    insn->pp = p[2] & 3;
    insn->v = ~p[2] >> 3 & 15;
    insn->opcode = p[3];
    insn->mod = p[4] >> 6;
    insn->reg = (p[4] >> 3 & 7) + 8 * r;
    insn->rm = p[4] & 7;
    p += 5;
    if (insn->mod == 3)
        insn->rm += 8 * b;
    else
        p = decode_memory(context, insn, x, b, p);
    insn->size = (size_t)(p - at);
    return true;
}

/* --- carrying out -------------------------------------------------------------------------------------------- */

static bool is_set_up(int number)
{
    return number < TILES && config.palette == 1 && config.rows[number] != 0;
}

static bool load_config(const uint8_t *from)
{
    Config next;
    memcpy(&next, from, sizeof next);
    memset(tile, 0, sizeof tile);
    if (next.palette == 0) {
        memset(&config, 0, sizeof config);
        return true;
    }
    bool good = next.palette == 1 && next.start_row == 0;
    for (size_t k = 0; k < sizeof next.reserved; k++) good = good && next.reserved[k] == 0;
    for (int k = 0; k < 16; k++) {
        bool none = next.rows[k] == 0 && next.row_bytes[k] == 0;
        bool fits = k < TILES && next.rows[k] >= 1 && next.rows[k] <= MAX_ROWS && next.row_bytes[k] >= 1 &&
                    next.row_bytes[k] <= MAX_ROW_BYTES;
        good = good && (none || fits);
    }
    if (good) config = next;
    return good;
}

static bool load_tile(const Insn *insn)
{
    if (!is_set_up(insn->reg) || !insn->has_sib || insn->v != 0) return false;
    memset(tile[insn->reg], 0, sizeof tile[0]);
    for (int row = 0; row < config.rows[insn->reg]; row++)
        memcpy(tile[insn->reg][row], insn->address + row * insn->stride, config.row_bytes[insn->reg]);
    return true;
}

static bool store_tile(const Insn *insn)
{
    if (!is_set_up(insn->reg) || !insn->has_sib || insn->v != 0) return false;
    for (int row = 0; row < config.rows[insn->reg]; row++)
        memcpy(insn->address + row * insn->stride, tile[insn->reg][row], config.row_bytes[insn->reg]);
    return true;
}

static int32_t byte_of(uint8_t byte, bool is_signed)
{
    return is_signed ? (int8_t)byte : byte;
}

/* acc += a * b, by words of four bytes; pp says whose bytes are signed. */
static bool multiply(const Insn *insn)
{
    int acc = insn->reg, a = insn->rm, b = insn->v;
    bool a_signed = insn->pp == 3 || insn->pp == 2, b_signed = insn->pp == 3 || insn->pp == 1;
    if (!is_set_up(acc) || !is_set_up(a) || !is_set_up(b) || acc == a || acc == b || a == b) return false;
    if (config.rows[a] != config.rows[acc] || config.row_bytes[a] != 4 * config.rows[b] ||
        config.row_bytes[b] != config.row_bytes[acc] || config.row_bytes[b] % 4 != 0)
        return false;
    for (int m = 0; m < config.rows[acc]; m++)
        for (int n = 0; n < config.row_bytes[acc] / 4; n++) {
            uint32_t sum;
            memcpy(&sum, &tile[acc][m][4 * n], sizeof sum);
            for (int k = 0; k < config.rows[b]; k++)
                for (int i = 0; i < 4; i++)
                    sum +=
                        (uint32_t)(byte_of(tile[a][m][4 * k + i], a_signed) * byte_of(tile[b][k][4 * n + i], b_signed));
            memcpy(&tile[acc][m][4 * n], &sum, sizeof sum);
        }
    return true;
}

/* False if the processor would refuse it too. */
static bool carry_out(const Insn *insn)
{
    enum { CONFIG = 0x49, MOVE = 0x4b, PRODUCT = 0x5e };
    if (insn->opcode == PRODUCT) return insn->mod == 3 && multiply(insn);
    if (insn->opcode == MOVE && insn->mod != 3) {
        if (insn->pp == 3 || insn->pp == 1) return load_tile(insn); /* pp 1: TILELOADDT1 */
        return insn->pp == 2 && store_tile(insn);
    }
    if (insn->opcode != CONFIG || insn->v != 0) return false;
    if (insn->mod == 3 && insn->pp == 3) {
        if (insn->rm != 0 || !is_set_up(insn->reg)) return false;
        memset(tile[insn->reg], 0, sizeof tile[0]);
        return true;
    }
    if (insn->mod == 3) {
        if (insn->pp != 0 || insn->reg != 0 || insn->rm != 0) return false;
        memset(&config, 0, sizeof config);
        memset(tile, 0, sizeof tile);
        return true;
    }
    if (insn->reg != 0) return false;
    if (insn->pp == 1) memcpy(insn->address, &config, sizeof config);
    return insn->pp == 1 || (insn->pp == 0 && load_config(insn->address));
}

static void on_invalid_opcode(int signal_number, siginfo_t *info, void *arg)
{
    ucontext_t *context = arg;
    Insn insn;
    if (decode(context, &insn) && carry_out(&insn)) {
        context->uc_mcontext.gregs[REG_RIP] += (greg_t)insn.size;
        atomic_fetch_add(&emulated, 1);
        return;
    }
    if (former.sa_flags & SA_SIGINFO)
        former.sa_sigaction(signal_number, info, arg);
    else if (former.sa_handler == SIG_DFL || former.sa_handler == SIG_IGN)
        signal(signal_number, SIG_DFL); /* comes again, for good */
    else
        former.sa_handler(signal_number);
}

/* --- the calls ----------------------------------------------------------------------------------------------- */

bool support_amx_begin(NstTarget *target)
{
    NstTarget host;
    nst_target_host(&host);
    nst_target_of_level(NST_TARGET_AMX_INT8, target);
    if (host.level < NST_TARGET_AVX512_VNNI) {
        fprintf(stderr, "skipped: target amx needs AVX-512 VNNI beside its tiles, this machine has %s\n",
                nst_target_level_name(host.level));
        return false;
    }
    if (host.level >= NST_TARGET_AMX_INT8 || is_installed) return is_usable = true;
    struct sigaction action = {.sa_sigaction = on_invalid_opcode, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    is_usable = is_installed = sigaction(SIGILL, &action, &former) == 0;
    return is_usable;
}

bool support_runnable_target(NstCtx *ctx, const char *name, NstTarget *target)
{
    if (strcmp(name, nst_target_level_name(NST_TARGET_AMX_INT8)) == 0) return support_amx_begin(target);
    bool has = nst_target_parse(ctx, name, target) == NST_OK;
    nst_ctx_clear(ctx);
    return has;
}

bool support_amx_is_emulated(void)
{
    return is_installed;
}

uint64_t support_amx_count(void)
{
    return atomic_load(&emulated);
}

bool support_amx_is_configured(void)
{
    Config now = {0};
    if (!is_usable) return false;
    __asm__ volatile(".byte 0xc4, 0xe2, 0x79, 0x49, 0x00" /* sttilecfg (%rax) */ : : "a"(&now) : "memory");
    return now.palette != 0;
}
