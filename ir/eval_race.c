/* eval_race.c: see eval_race.h. */
#include "ir/eval_race.h"

#define MAX_ELEMENTS (INT64_C(1) << 22) /* of a buffer that is watched: 96 MB of marks */

/* Iteration k of n; thread 0 is iteration -1 of 0. */
typedef struct Agent {
    int32_t k, n;
} Agent;

typedef struct Mark {
    uint32_t epoch; /* the marks below are of this one; older ones count for nothing */
    bool written, read, read_by_several;
    Agent writer, reader;
} Mark;

struct NstRaces {
    NstCtx *ctx;
    NstArena *arena;
    const NstKernel *kernel;
    Mark **mark; /* by buffer, by element; made on first use */
    int64_t *n_marks;
    uint32_t epoch;
    Agent agent;
};

NstRaces *nst_races_new(NstCtx *ctx, NstArena *arena, const NstKernel *kernel)
{
    NstRaces *races = NST_NEW(arena, NstRaces);
    *races = (NstRaces){.ctx = ctx, .arena = arena, .kernel = kernel, .epoch = 1};
    races->mark = NST_NEW_ARRAY(arena, Mark *, kernel->buffers.n);
    races->n_marks = NST_NEW_ARRAY(arena, int64_t, kernel->buffers.n);
    nst_races_thread_0(races);
    return races;
}

void nst_races_barrier(NstRaces *races)
{
    races->epoch++;
}

void nst_races_iteration(NstRaces *races, int64_t k, int64_t n)
{
    races->agent = (Agent){.k = (int32_t)k, .n = (int32_t)n};
}

void nst_races_thread_0(NstRaces *races)
{
    races->agent = (Agent){.k = -1};
}

static bool same(Agent a, Agent b)
{
    return a.k == b.k && a.n == b.n;
}

static const char *agent_text(const NstRaces *races, Agent agent)
{
    if (agent.k < 0) return "thread 0";
    return nst_format(races->arena, "iteration %d of %d of a parallel loop", (int)agent.k, (int)agent.n);
}

static NstStatus fail_race(NstRaces *races, NstBuf buffer, int64_t element, bool write, Agent other, const char *what)
{
    return nst_fail(races->ctx, NST_E_VERIFY, "kernel '%s': race on buffer '%s' element %lld: %s %s what %s %s",
                    races->kernel->name, nst_kernel_buffer(races->kernel, buffer)->name, (long long)element,
                    agent_text(races, races->agent), write ? "writes" : "reads", agent_text(races, other), what);
}

static NstStatus touch(NstRaces *races, NstBuf buffer, int64_t element, bool write)
{
    Mark *mark = &races->mark[buffer.i][element];
    if (mark->epoch != races->epoch) *mark = (Mark){.epoch = races->epoch};
    if (mark->written && !same(mark->writer, races->agent))
        return fail_race(races, buffer, element, write, mark->writer, "wrote");
    if (write && mark->read && (mark->read_by_several || !same(mark->reader, races->agent)))
        return fail_race(races, buffer, element, write, mark->reader,
                         mark->read_by_several ? "and others read" : "read");
    if (write) {
        mark->written = true;
        mark->writer = races->agent;
    } else {
        mark->read_by_several = mark->read_by_several || (mark->read && !same(mark->reader, races->agent));
        if (!mark->read) mark->reader = races->agent;
        mark->read = true;
    }
    return NST_OK;
}

NstStatus nst_races_access(NstRaces *races, NstBuf buffer, int64_t offset, int64_t count, int64_t elements, bool write)
{
    NstSpace space = nst_kernel_buffer(races->kernel, buffer)->space;
    if ((space != NST_SPACE_ARG && space != NST_SPACE_SHARED) || elements > MAX_ELEMENTS) return NST_OK;
    if (races->n_marks[buffer.i] < elements) { /* a shared buffer that came to life again, larger */
        races->mark[buffer.i] = NST_NEW_ARRAY(races->arena, Mark, elements);
        races->n_marks[buffer.i] = elements;
    }
    for (int64_t k = 0; k < count; k++) NST_TRY(touch(races, buffer, offset + k, write));
    return NST_OK;
}
