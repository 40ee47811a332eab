/* support_amx.h: kernels with AMX tiles on processors without them.
 *
 * There, a tile instruction is an invalid opcode: a handler of SIGILL carries it out on eight tiles of the thread, with the
 * processor's rules (shapes, limits, no tiles before LDTILECFG), and goes on behind it.  Whatever breaks a rule, or is no
 * tile instruction, goes to the handler that was there before.  On processors with AMX nothing is installed: the same
 * tests run natively.  Source: Intel SDM volume 2 (LDTILECFG, STTILECFG, TILE*, TDPB*). */
#ifndef NST_TESTS_SUPPORT_AMX_H
#define NST_TESTS_SUPPORT_AMX_H

#include "ir/target.h"

/* Makes this process able to run target "amx" and gives that target.  False, with the reason on stderr, on processors
 * that lack its vector instructions. */
bool support_amx_begin(NstTarget *target);
/* The target of a name, made runnable if need be; false where this machine cannot run it. */
bool support_runnable_target(NstCtx *ctx, const char *name, NstTarget *target);
/* True if tile instructions of this process are emulated. */
bool support_amx_is_emulated(void);
/* Tile instructions emulated so far, by all threads. */
uint64_t support_amx_count(void);
/* True if the calling thread has tiles set up: what a kernel must not leave behind.  False before support_amx_begin. */
bool support_amx_is_configured(void);

#endif
