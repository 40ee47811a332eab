/* pass.h: the passes between graph and kernels, and the two calls the driver makes: lower, schedule.
 *
 * nst_lower_graph turns a graph into a module of groups of nests (one nest a primitive, then fused); nst_schedule_module
 * turns each group into one kernel.  The list of passes is pass.def; each can be switched off by name, which tests use to
 * compare with and without. */
#ifndef NST_PASSES_PASS_H
#define NST_PASSES_PASS_H

#include "passes/nest.h"

typedef enum NstPass {
#define NST_PASS(name, text, level, exact, what) NST_PASS_##name,
#include "passes/pass.def"
#undef NST_PASS
    NST_PASS_COUNT
} NstPass;

typedef enum NstPassLevel { NST_LEVEL_GRAPH, NST_LEVEL_NESTS, NST_LEVEL_KERNEL } NstPassLevel;

typedef struct NstPassInfo {
    const char *name;
    NstPassLevel level;
    bool exact; /* same bits; an approximate pass is skipped under strict */
    const char *what;
} NstPassInfo;
const NstPassInfo *nst_pass_info(NstPass pass);
/* The pass of that name; NST_PASS_COUNT if there is none. */
NstPass nst_pass_find(const char *name);

typedef struct NstPassOptions {
    bool strict;  /* no approximate passes */
    uint64_t off; /* bit NST_PASS_X: that pass is skipped */
} NstPassOptions;
/* True if the options let the pass run; NULL options: all on. */
bool nst_pass_on(const NstPassOptions *options, NstPass pass);

/* The nests of a graph, which the passes on graphs change first, grouped and fused [module in arena; shares the graph's
 * dims, exprs and origins, which must live as long].  Inputs, constants and results of the graph are the module's buffers of those roles.
 * Errors: NST_E_UNSUPPORTED naming a primitive that has no nest form. */
NstStatus nst_lower_graph(NstCtx *ctx, NstArena *arena, NstGraph *graph, const NstTarget *target,
                          const NstPassOptions *options, NstModule **module) NST_MUST_CHECK;

/* The passes on graphs that the options let run: those that change roundings, which no size may decide about; the rest keeps
 * bits, whatever sizes let be fused. */
NstStatus nst_optimise_graph(NstCtx *ctx, NstGraph *graph, const NstPassOptions *options) NST_MUST_CHECK;
/* The passes on nests that the options let run, over the groups of a module. */
NstStatus nst_optimise_nests(NstCtx *ctx, NstModule *module, const NstPassOptions *options) NST_MUST_CHECK;
/* The passes on one kernel, once it has its loops; all but "canon", which takes all kernels together. */
NstStatus nst_optimise_kernel(NstCtx *ctx, NstKernel *kernel, const NstPassOptions *options) NST_MUST_CHECK;

/* Sums and sums of squared distances of rows in one pass; approximate (moments.c states the tolerance). */
NstStatus nst_pass_moments(NstCtx *ctx, NstGraph *graph) NST_MUST_CHECK;
/* Division of a row by one value as a product with its reciprocal, past a contraction of exps; approximate (reciprocal.c states the
 * tolerance). */
NstStatus nst_pass_reciprocal(NstCtx *ctx, NstGraph *graph) NST_MUST_CHECK;

/* One nest a primitive, views as index maps, one group a nest: the first step of nst_lower_graph. */
NstStatus nst_to_nests(NstCtx *ctx, NstModule *module) NST_MUST_CHECK;
/* Fusion: inlines maps, gives reductions prologues and epilogues, gathers nests into groups (fuse.c). */
NstStatus nst_fuse_module(NstCtx *ctx, NstModule *module) NST_MUST_CHECK;

/* Rows that are weighted sums about their maximum run in chunks of keys; approximate (online.c says by how much). */
NstStatus nst_pass_online(NstCtx *ctx, NstModule *module) NST_MUST_CHECK;

/* Groups that read constants alone go ahead of the run (ahead.c). */
void nst_pass_ahead(NstModule *module);

/* Physical layouts of intermediate buffers (layout.c). */
NstStatus nst_pass_layout(NstCtx *ctx, NstModule *module) NST_MUST_CHECK;

/* Small products that read the same operand become one kernel (fuse_siblings.c). */
NstStatus nst_pass_siblings(NstCtx *ctx, NstModule *module) NST_MUST_CHECK;

/* Groups so short that a step of their own is dear become one kernel (small.c). */
NstStatus nst_pass_small(NstCtx *ctx, NstModule *module) NST_MUST_CHECK;

/* A group's kernel: ARG k + 1 is module buffer arg[k], parameter k is size[k].  A group that is a step has none. */
typedef struct NstScheduled {
    NstKernel *kernel;
    NstBuf *arg;
    uint32_t n_args;
    NstDim *size; /* what kernel->params.at[k] is given, over the module's symbols */
    NstText text; /* nst_kernel_canonical */
    const NstGroup *group;
} NstScheduled;

/* One entry a group, in execution order (the bodies of its steps are modules to be scheduled by themselves), and one for each group that packs constants before the first run, in order
 * [module's arena].  Adds the groups that pack run-time operands to the module. */
typedef struct NstScheduledList {
    NstScheduled *at;
    uint32_t n;
} NstScheduledList;
NstStatus nst_schedule_module(NstCtx *ctx, NstModule *module, const NstPassOptions *options, NstScheduledList *run,
                              NstScheduledList *prepack) NST_MUST_CHECK;

#endif
