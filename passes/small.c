/* small.c: rule 8: where the steps of a plan cost something beside what they do, groups side by side become one kernel.
 *
 * In: fused groups, siblings together.  Out: in a module whose kernels are so short on average, sequences: groups that follow one
 * another are the members of one, in order; each keeps the schedule that it would have alone, but one thread does them all, for none
 * would be given a second one; what they hand to one another is memory of the kernel.  Nothing is joined across a step that is no
 * kernel, a size that is read while running, or a group that may be dealt out to several threads: the parts between them become
 * kernels of their own.  Where groups repeat that are one kernel apart (layers), each repetition becomes the same sequence, so that
 * there is no more to compile.  Cost: linear in the nests, and in the members of a sequence times its locals. */
#include "ir/plan.h"
#include "passes/fuse.h"
#include "passes/pass.h"
#include "passes/work.h"

/* What a step costs beside its kernel: 16 and 30 tiny kernels that differ take 7 ns each less as one (Emerald Rapids, 2026-11). */
enum { STEP_NS = 7 };
/* Steps matter where they are at least one part in so many of the time of a module: kernels of 1.4 us on average. */
enum { STEP_PART = 200 };
/* Nests of one sequence: 30 products of 16 to 46 columns, the most that was measured, take 1 ms each to compile. */
enum { MOST_NESTS = 32 };
/* A kernel takes so many times as long to compile as a member of a sequence (those 30 products: 4 ms apart, 1 ms together; Emerald
 * Rapids, 2026-11). */
enum { KERNEL_IN_MEMBERS = 4 };

/* What is asked of a group again and again. */
typedef struct Part {
    int64_t ns;     /* estimated time, at most */
    uint32_t nests; /* 0: it is no kernel */
    uint32_t same;  /* the first group that is the same kernel, as fusion leaves them */
} Part;

typedef struct Small {
    NstFuser f;
    Part *part;
} Small;

static uint32_t count_nests(const NstGroup *group)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < group->items.n; k++)
        n += group->items.at[k].group ? count_nests(group->items.at[k].group) : 1;
    return n;
}

static void measure(Small *s)
{
    NstFuser *f = &s->f;
    s->part = NST_NEW_ARRAY(f->arena, Part, f->groups.n);
    for (uint32_t k = 0; k < f->groups.n; k++) {
        int64_t lo, hi;
        nst_dim_bounds(f->dims, nst_group_work(f->module, f->groups.at[k].group), &lo, &hi);
        s->part[k].ns = hi / NST_WORK_A_NS;
        s->part[k].nests = count_nests(f->groups.at[k].group);
    }
}

/* True if kernels take so little time that their steps matter. */
static bool steps_matter(const Small *s)
{
    int64_t total = 0, kernels = 0;
    for (uint32_t k = 0; k < s->f.groups.n; k++) {
        if (s->part[k].ns > INT64_MAX / 2 - total) return false;
        total += s->part[k].ns;
        kernels += s->part[k].nests != 0;
    }
    return kernels > 1 && total <= kernels * STEP_NS * STEP_PART;
}

/* A product that matrix registers may take: they are loaded from layouts that rows beside them could not share. */
static bool may_take_matrices(const NstFuser *f, const NstGroup *group)
{
    const NstNest *nest = nst_fuse_single(group);
    NstContraction c;
    if (!nest || !nst_nest_contraction(f->module, nest, &c) || nest->state[0].dtype != NST_I32) return false;
    NstTensorInsn row = nst_target_insn(f->module->target, NST_U8, NST_I8, NST_I32);
    return row < NST_INSN_COUNT && nst_tensor_insn(row)->matrix_rows;
}

/* NULL if group `at` and the next may be members of one sequence; else why not. */
static const char *why_apart(const Small *s, uint32_t at)
{
    for (uint32_t k = at; k <= at + 1; k++) {
        if (!s->part[k].nests) return "a step of the plan that is no kernel stands beside it";
        if (s->part[k].ns >= NST_NS_FOR_TWO) return "one of the two is long enough for several threads";
        if (may_take_matrices(&s->f, s->f.groups.at[k].group)) return "one of the two may take matrix registers";
    }
    return s->f.groups.at[at].makes.n ? "a size is read from its result" : NULL;
}

/* --- what repeats -------------------------------------------------------------------------------------------- */

static NstStatus find_same(Small *s)
{
    NstFuser *f = &s->f;
    NstText *text = NST_NEW_ARRAY(f->arena, NstText, f->groups.n);
    NstMap first_of; /* by hash: the first group + 1 */
    nst_map_init(&first_of, f->arena);
    for (uint32_t k = 0; k < f->groups.n; k++) {
        NstKernel *kernel;
        NstBuf *arg;
        s->part[k].same = k;
        if (!s->part[k].nests) continue;
        NST_TRY(nst_group_to_kernel(f->ctx, f->module, f->groups.at[k].group, &kernel, &arg));
        nst_text_init(&text[k], f->arena);
        nst_kernel_canonical(&text[k], kernel);
        uint64_t hash = nst_hash128(text[k].at, text[k].n).lo;
        uint32_t first = nst_map_get(&first_of, hash, k);
        if (first == k)
            nst_map_put(&first_of, hash, k);
        else if (strcmp(nst_text_get(&text[first]), nst_text_get(&text[k])) == 0)
            s->part[k].same = first;
    }
    return NST_OK;
}

/* True if one of groups first .. at - 1 is the same as group `at`. */
static bool repeats(const Small *s, uint32_t first, uint32_t at)
{
    for (uint32_t k = first; k < at; k++)
        if (s->part[k].same == s->part[at].same) return true;
    return false;
}

/* True if groups first .. last take no longer to compile as one kernel. */
static bool compiles_as_fast(const Small *s, uint32_t first, uint32_t last)
{
    uint32_t nests = 0, kernels = 0;
    for (uint32_t k = first; k <= last; k++) {
        nests += s->part[k].nests;
        if (nests > MOST_NESTS) return false;
        kernels += !repeats(s, first, k);
    }
    return last - first + KERNEL_IN_MEMBERS <= kernels * KERNEL_IN_MEMBERS;
}

/* The last group of the sequence that begins at `first`, of groups that may be joined up to `end`, where they are not all one: those
 * before one that repeats. */
static uint32_t cut(const Small *s, uint32_t first, uint32_t end, const char **why)
{
    uint32_t nests = s->part[first].nests, last = first;
    for (; last < end && !repeats(s, first, last + 1); last++) {
        nests += s->part[last + 1].nests;
        if (nests > MOST_NESTS) break;
    }
    if (last < end)
        *why = nests > MOST_NESTS ? "a kernel of short groups takes no more nests"
                                  : "the next repeats what is in it: apart they share code";
    return last;
}

/* --- sequences ----------------------------------------------------------------------------------------------- */

/* True if groups first .. last alone touch the buffer, which one of them writes. */
static bool is_within(const NstFuser *f, NstBuf buffer, uint32_t first, uint32_t last)
{
    NstPlaces places[2] = {nst_fuser_readers(f, buffer), nst_fuser_writers(f, buffer)};
    for (int k = 0; k < 2; k++)
        if (places[k].n && (places[k].at[0] < first || places[k].at[places[k].n - 1] > last)) return false;
    return nst_fuse_private(f, buffer);
}

static NstGroup *joined_group(const NstFuser *f, uint32_t first, uint32_t last)
{
    NstGroup *group = NST_NEW(f->arena, NstGroup);
    group->sequence = true;
    for (uint32_t k = first; k <= last; k++) {
        const NstFuseGroup *member = &f->groups.at[k];
        nst_vec_push(f->arena, &group->items, ((NstGroupItem){.group = member->group}));
        group->origin = nst_origin_merge(f->module->origins, group->origin, member->group->origin);
        for (uint32_t b = 0; b < member->writes.n; b++) {
            NstBuf buffer = member->writes.at[b];
            bool first_time = nst_fuser_writers(f, buffer).at[0] == k && !nst_group_is_local(member->group, buffer);
            if (first_time && is_within(f, buffer, first, last)) nst_vec_push(f->arena, &group->locals, buffer);
        }
    }
    group->name = nst_format(f->arena, "%s_to_%s", f->groups.at[first].group->name, f->groups.at[last].group->name);
    group->why_not_fused = f->groups.at[last].group->why_not_fused;
    return group;
}

/* Groups first .. last as one kernel. */
static void add_sequence(const Small *s, uint32_t first, uint32_t last, const char *why)
{
    NstModule *module = s->f.module;
    NstGroup *group = last > first ? joined_group(&s->f, first, last) : s->f.groups.at[first].group;
    if (why && !group->step) group->why_not_fused = why;
    nst_vec_push(module->arena, &module->groups, group);
}

NstStatus nst_pass_small(NstCtx *ctx, NstModule *module)
{
    Small s;
    nst_fuser_init(&s.f, ctx, module);
    measure(&s);
    if (!steps_matter(&s)) return NST_OK;
    NST_TRY(find_same(&s));
    module->groups.n = 0;
    for (uint32_t first = 0, end; first < s.f.groups.n; first = end + 1) {
        const char *why_end = NULL;
        for (end = first; end + 1 < s.f.groups.n && !(why_end = why_apart(&s, end));) end++;
        bool whole = compiles_as_fast(&s, first, end);
        for (uint32_t at = first, last; at <= end; at = last + 1) {
            const char *why = why_end;
            last = whole ? end : cut(&s, at, end, &why);
            add_sequence(&s, at, last, why);
        }
    }
    return NST_OK;
}
