/* gates_maps.c: a chain of 20 maps with broadcasting, a slice and a concat in it and a permute at its end: one kernel, as
 * fast as a hand-written copy that moves the axes. */
#include "bench/gates.h"
#include "bench/permute.h"

#include <math.h>

typedef struct Chain {
    NstGates *g;
    int outer, inner, width; /* x[outer, inner, width] -> y[inner, outer, width]; outer 0: x[inner, width] transposed */
    double required;
    bool has_exp; /* three of the maps; else cheap ones stand in their places */
    const char *name;
    int n_copies; /* cases 1 to n_copies; then exp alone */
    NstGateTrial *trial;
} Chain;

/* Elements of the array in L2 over which exp alone is timed. */
enum { EXP_ELEMENTS = 1 << 16 };

/* Columns of the first slice. */
static int first_part(const Chain *c)
{
    return c->width / 2 / 16 * 16;
}

/* Twenty maps; the second exp is of the second slice alone. */
static const char *body(NstCtx *ctx, const Chain *c)
{
    int axis = c->outer ? 2 : 1, half = first_part(c), rest = c->width - half, rows = c->inner;
    const char *lead = c->outer ? nst_format(ctx->arena, "%d, %d", c->outer, rows) : nst_format(ctx->arena, "%d", rows);
    const char *zero = c->outer ? "0, 0" : "0", *ones = c->outer ? "1, 1" : "1";
    const char *factor =
        c->outer ? nst_format(ctx->arena, "%d, 1, 1", c->outer) : nst_format(ctx->arena, "%d, 1", rows);
    const char *first =
        nst_format(ctx->arena,
                   "  %%bias = const f32[%s, %d] seed 1\n  %%factor = const f32[%s] seed 2\n"
                   "  %%a1 = map \"a + b\" %%x, %%bias\n  %%a2 = map \"a * b\" %%a1, %%factor\n"
                   "  %%a3 = map \"max(a, -3)\" %%a2\n  %%a4 = map \"%s\" %%a3\n  %%a5 = map \"a * 0.25\" %%a4\n"
                   "  %%lo = slice start [%s, 0] step [%s, 1] %%a5 : f32[%s, %d]\n"
                   "  %%hi = slice start [%s, %d] step [%s, 1] %%a5 : f32[%s, %d]\n",
                   ones, c->width, factor, c->has_exp ? "exp(a)" : "a + 0.375", zero, ones, lead, half, zero, half,
                   ones, lead, rest);
    return nst_format(
        ctx->arena,
        "%s  %%b1 = map \"a + 1\" %%lo\n  %%b2 = map \"a * 0.5\" %%b1\n  %%b3 = map \"max(a, 0.75)\" %%b2\n"
        "  %%c1 = map \"a * 0.5\" %%hi\n  %%c2 = map \"%s\" %%c1\n"
        "  %%d = concat axis %d %%b3, %%c2\n"
        "  %%e1 = map \"a * b\" %%d, %%factor\n  %%e2 = map \"a + b\" %%e1, %%bias\n"
        "  %%e3 = map \"max(a, -2)\" %%e2\n  %%e4 = map \"a + 0.125\" %%e3\n  %%e5 = map \"a * 0.5\" %%e4\n"
        "  %%e6 = map \"%s\" %%e5\n  %%e7 = map \"a + b\" %%e6, %%bias\n  %%e8 = map \"a * b\" %%e7, %%factor\n"
        "  %%e9 = map \"max(a, 0)\" %%e8\n  %%f = map \"a + 3\" %%e9\n"
        "  %%y = permute [%s] %%f\n  return y = %%y\n}\n",
        first, c->has_exp ? "exp(a)" : "max(a, 0.25)", axis, c->has_exp ? "exp(a)" : "a * 1.5",
        c->outer ? "1, 0, 2" : "1, 0");
}

static const char *name_of(const Chain *c, NstArena *arena)
{
    const char *maps = c->has_exp ? "20 maps" : "20 maps without exp";
    if (c->outer) return nst_format(arena, "%s, outer axes permuted, %dx%dx%d", maps, c->outer, c->inner, c->width);
    return nst_format(arena, "%s, transposed, %dx%d", maps, c->inner, c->width);
}

/* Exp of an array in L2. */
static NstStatus make_exp(NstCtx *ctx, NstGates *g, NstGateProgram **p)
{
    const char *text = nst_format(
        ctx->arena, "graph exp(x: f32[%d]) {\n  %%y = map \"exp(a)\" %%x\n  return y = %%y\n}\n", EXP_ELEMENTS);
    return nst_gate_program_make(ctx, g, text, p);
}

/* --- what a trial says --------------------------------------------------------------------------------------- */

static double copy_ns(const Chain *c, const NstGateTimes *times)
{
    return nst_bench_least(times->ns + 1, c->n_copies);
}

static double says(const void *arg, const NstGateTimes *times)
{
    return times->ns[0] / copy_ns(arg, times);
}

static NstGateRow copy_row(const Chain *c)
{
    NstGateRow row = {.unit = "x", .kind = NST_GATE_MOST, .required = c->required};
    nst_gate_trial_judge(c->g, c->trial, says, c, &row);
    return row;
}

static NstGateTrial *behind(void *arg)
{
    Chain *c = arg;
    NstGateRow row = copy_row(c);
    return nst_gates_is_met(c->g, &row) ? NULL : c->trial;
}

static const char *copy_note(NstCtx *ctx, const Chain *c, double elements)
{
    NstGateTimes bests = nst_gate_trial_bests(c->g, c->trial);
    double exps = 2 + (double)(c->width - first_part(c)) / c->width; /* an element */
    double exp_ns = exps * bests.ns[1 + c->n_copies] / EXP_ELEMENTS * elements;
    const char *note = nst_format(ctx->arena, "%.3f ms, copy %.3f ms", bests.ns[0] / 1e6, copy_ns(c, &bests) / 1e6);
    if (!c->has_exp) return note;
    return nst_format(ctx->arena, "%s; its %.1f exp an element alone, in L2: %.3f ms", note, exps, exp_ns / 1e6);
}

/* --- measuring ----------------------------------------------------------------------------------------------- */

/* The chain as one kernel, against a copy of n elements. */
static NstStatus against_copy(NstCtx *ctx, Chain *c, NstGateProgram *p, size_t n)
{
    NstGates *g = c->g;
    NstGateProgram *bare;
    const char *more;
    float *to = nst_gates_floats(ctx->arena, n, 3);
    const float *from = nst_gates_floats(ctx->arena, n, 4);
    NstBenchCase cases[2 + NST_TRANSPOSE_CASES] = {nst_gate_program_case(p, 0, 8 * (double)n)};
    NstRows rows = {.to = to, .from = from, .outer = c->outer, .inner = c->inner, .width = c->width};
    NstTranspose transpose = {.to = to, .from = from, .rows = c->inner, .columns = c->width};
    c->n_copies = c->outer ? nst_rows_cases(&rows, cases + 1) : nst_transpose_cases(&transpose, cases + 1);
    NST_CHECK(ctx, c->n_copies > 0, NST_E_UNSUPPORTED, "no hand-written transposed copy for this CPU");
    NST_TRY(make_exp(ctx, g, &bare));
    cases[1 + c->n_copies] = nst_gate_program_case(bare, 0, 8.0 * EXP_ELEMENTS);
    NST_TRY(nst_gate_trial_new(ctx, g, cases, 2 + c->n_copies, NST_PEAK_COUNT, &c->trial));
    NST_TRY(nst_gates_insist(ctx, g, behind, c, &more));
    NstGateRow row = copy_row(c);
    row.name = nst_format(ctx->arena, "%s, time over the copy", c->name);
    row.note = copy_note(ctx, c, (double)n);
    row.more = more;
    nst_gates_add(g, row);
    return NST_OK;
}

static NstStatus measure(NstCtx *ctx, void *arg)
{
    Chain *c = arg;
    NstGateProgram *p;
    const char *shape = c->outer ? nst_format(ctx->arena, "%d, %d, %d", c->outer, c->inner, c->width)
                                 : nst_format(ctx->arena, "%d, %d", c->inner, c->width);
    const char *text = nst_format(ctx->arena, "graph chain(x: f32[%s]) {\n%s", shape, body(ctx, c));
    NST_TRY(nst_gate_program_make(ctx, c->g, text, &p));
    nst_gates_most(c->g, nst_format(ctx->arena, "%s, kernels", c->name), nst_gate_program_kernels(p), 1, "",
                   nst_gate_program_facts(ctx, p));
    return against_copy(ctx, c, p, p->on[0].run.inputs[0].bytes / 4);
}

void nst_gates_maps(NstGates *g)
{
    static const struct {
        int outer, inner, width;
        double required;
        bool has_exp;
    } rows[] = {{128, 96, 1024, 1.20, true},  {0, 1008, 1008, 1.15, true},  {0, 2048, 2048, 1.15, true},
                {128, 96, 1024, 1.20, false}, {0, 1008, 1008, 1.15, false}, {0, 2048, 2048, 1.15, false}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        Chain c = {.g = g,
                   .outer = rows[k].outer,
                   .inner = rows[k].inner,
                   .width = rows[k].width,
                   .required = rows[k].required,
                   .has_exp = rows[k].has_exp};
        c.name = name_of(&c, g->ctx.arena);
        nst_gates_try(g, c.name, measure, &c);
    }
}
