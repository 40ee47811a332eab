/* gates_convolutions.c: convolutions from window + contract: share of the peak, or of the copy bandwidth of their bytes.
 *
 * The graphs are NCHW as models are; a row's graph turns its input from and its output to channels-last by permutes, which
 * cost nothing where that is the layout the layout pass chooses.  Where it pads the channels of buffers in between, which ports
 * cannot have, the row's graph has ports as they are, and the step of its plan that does the operations is timed alone, between
 * two such buffers (depthwise rows).  The row "NCHW" has ports as they are, and all steps. */
#include "bench/bandwidth.h"
#include "bench/gates.h"

#include <math.h>
#include <string.h>

typedef enum Kind {
    DENSE,
    GROUPED,    /* 32 groups of c and f channels */
    DEPTHWISE,  /* c channels */
    VOLUME,     /* 3-D, size x size x size */
    TRANSPOSED, /* kernel 2x2, stride 2 */
} Kind;

#define GROUPS 32

typedef struct Convolution {
    NstGates *g;
    Kind kind;
    int64_t c, f, size, kernel, stride, dilation;
    double required;
    bool copy; /* required is a share of the copy bandwidth */
    bool nchw; /* ports as in the model */
    const char *name;
    NstGateProgram *program;
    NstCopy bytes; /* of a row of the copy bandwidth: as many as the input and the output have */
    NstGateTrial *trial;
} Convolution;

static int64_t pad_of(const Convolution *v)
{
    return v->dilation * (v->kernel - 1) / 2;
}

static int64_t out_size(const Convolution *v)
{
    if (v->kind == TRANSPOSED) return 2 * v->size;
    return (v->size + 2 * pad_of(v) - v->dilation * (v->kernel - 1) - 1) / v->stride + 1;
}

static const char *window(NstCtx *ctx, const Convolution *v, int axis)
{
    long long pad = pad_of(v);
    return nst_format(ctx->arena, "axis %d size %lld stride %lld dilation %lld pad %lld, %lld", axis,
                      (long long)v->kernel, (long long)v->stride, (long long)v->dilation, pad, pad);
}

/* Output y of input %x, in NCHW. */
static const char *body(NstCtx *ctx, const Convolution *v)
{
    long long c = v->c, f = v->f, k = v->kernel, o = out_size(v);
    switch (v->kind) {
    case GROUPED: {
        long long s = v->size, all = GROUPS * f;
        return nst_format(ctx->arena,
                          "  %%g = reshape %%x : f32[1, %d, %lld, %lld, %lld]\n"
                          "  %%w = const f32[%d, %lld, %lld, %lld, %lld] seed 3\n  %%t = window [%s; %s] %%g\n"
                          "  %%z = contract \"ngchwuv,gfcuv->ngfhw\" %%t, %%w\n"
                          "  %%y = reshape %%z : f32[1, %lld, %lld, %lld]\n",
                          GROUPS, c, s, s, GROUPS, f, c, k, k, window(ctx, v, 3), window(ctx, v, 4), all, o, o);
    }
    case DEPTHWISE:
        return nst_format(ctx->arena,
                          "  %%w = const f32[%lld, %lld, %lld] seed 3\n  %%t = window [%s; %s] %%x\n"
                          "  %%y = contract \"nchwuv,cuv->nchw\" %%t, %%w\n",
                          c, k, k, window(ctx, v, 2), window(ctx, v, 3));
    case VOLUME:
        return nst_format(ctx->arena,
                          "  %%w = const f32[%lld, %lld, %lld, %lld, %lld] seed 3\n  %%t = window [%s; %s; %s] %%x\n"
                          "  %%y = contract \"ncdhwtuv,fctuv->nfdhw\" %%t, %%w\n",
                          f, c, k, k, k, window(ctx, v, 2), window(ctx, v, 3), window(ctx, v, 4));
    case TRANSPOSED:
        return nst_format(
            ctx->arena,
            "  %%w = const f32[%lld, %lld, 2, 2] seed 3\n"
            "  %%z = contract \"nchw,cfuv->nfhuwv\" %%x, %%w\n  %%y = reshape %%z : f32[1, %lld, %lld, %lld]\n",
            c, f, f, o, o);
    case DENSE: break;
    }
    return nst_format(ctx->arena,
                      "  %%w = const f32[%lld, %lld, %lld, %lld] seed 3\n  %%t = window [%s; %s] %%x\n"
                      "  %%y = contract \"nchwuv,fcuv->nfhw\" %%t, %%w\n",
                      f, c, k, k, window(ctx, v, 2), window(ctx, v, 3));
}

static const char *text_of(NstCtx *ctx, const Convolution *v)
{
    bool volume = v->kind == VOLUME;
    long long s = v->size, c = v->kind == GROUPED ? GROUPS * v->c : v->c;
    const char *planes = volume ? nst_format(ctx->arena, "%lld, ", s) : "";
    if (v->nchw || v->kind == DEPTHWISE)
        return nst_format(ctx->arena, "graph convolution(x: f32[1, %lld, %s%lld, %lld]) {\n%s  return y = %%y\n}\n", c,
                          planes, s, s, body(ctx, v));
    return nst_format(ctx->arena,
                      "graph convolution(last: f32[1, %s%lld, %lld, %lld]) {\n  %%x = permute [%s] %%last\n%s"
                      "  %%out = permute [%s] %%y\n  return y = %%out\n}\n",
                      planes, s, s, c, volume ? "0, 4, 1, 2, 3" : "0, 3, 1, 2", body(ctx, v),
                      volume ? "0, 2, 3, 4, 1" : "0, 2, 3, 1");
}

/* Multiplications and additions of all taps, those in the padding too. */
static double operations(const Convolution *v)
{
    double plane = (double)out_size(v) * (double)out_size(v), taps = (double)v->kernel * (double)v->kernel;
    double channels = (double)v->c * (double)v->f;
    if (v->kind == TRANSPOSED) return 2 * channels * plane;
    if (v->kind == DEPTHWISE) channels = (double)v->c;
    if (v->kind == GROUPED) channels *= GROUPS;
    if (v->kind == VOLUME) plane *= (double)out_size(v), taps *= (double)v->kernel;
    return 2 * channels * plane * taps;
}

/* --- what a trial says --------------------------------------------------------------------------------------- */

static double copy_ns(const NstGateTimes *times)
{
    return nst_bench_least(times->ns, 1 + NST_COPY_CASES);
}

static double fma_ns(const Convolution *v, const NstGateTimes *times)
{
    return operations(v) / times->peak;
}

/* GOP/s.  Of a row of the copy bandwidth: the time of the quickest copy, or that of the FMAs at their peak where that is longer
 * (nine of them an element, with vectors of 256 bits on a CPU whose last-level cache holds all), over the convolution's. */
static double says(const void *arg, const NstGateTimes *times)
{
    const Convolution *v = arg;
    return (v->copy ? fmax(copy_ns(times), fma_ns(v, times)) : operations(v)) / times->ns[0];
}

static double measured(const Convolution *v)
{
    NstGateTimes bests = nst_gate_trial_bests(v->g, v->trial);
    return says(v, &bests);
}

static NstGateRow row_of(const Convolution *v, double required)
{
    NstGateRow row = {.name = v->name,
                      .unit = "%",
                      .kind = v->copy ? NST_GATE_LEAST : NST_GATE_PEAK,
                      .required = required,
                      .peak = v->g->peak,
                      .counts_skipped = v->kernel > 1 && v->kind != TRANSPOSED};
    nst_gate_trial_judge(v->g, v->trial, says, v, &row);
    return row;
}

static double milliseconds(const Convolution *v)
{
    return v->trial->bench.times[0].best / 1e6;
}

static const char *facts(NstCtx *ctx, const Convolution *v)
{
    const char *program = nst_gate_program_facts(ctx, v->program);
    NstGateTimes bests = nst_gate_trial_bests(v->g, v->trial);
    if (!v->copy) return nst_format(ctx->arena, "%.3f ms, %s", milliseconds(v), program);
    return nst_format(ctx->arena, "%.3f ms, %.1f %% of the copy, %.1f %% of the FMA peak, %s", milliseconds(v),
                      100 * copy_ns(&bests) / bests.ns[0], 100 * fma_ns(v, &bests) / bests.ns[0], program);
}

static NstGateTrial *behind(void *arg)
{
    Convolution *v = arg;
    NstGateRow row = row_of(v, v->required);
    return nst_gates_is_met(v->g, &row) ? NULL : v->trial;
}

/* --- measuring ----------------------------------------------------------------------------------------------- */

/* Compiles, and measures the first rounds. */
static NstStatus begin(NstCtx *ctx, Convolution *v)
{
    NST_TRY(nst_gate_program_make(ctx, v->g, text_of(ctx, v), &v->program));
    NstBenchCase cases[1 + NST_COPY_CASES] = {nst_gate_program_case(v->program, 0, operations(v))};
    int n = 1;
    if (v->kind == DEPTHWISE && !v->nchw)
        NST_TRY(nst_gate_program_step_case(ctx, v->program, operations(v), &cases[0]));
    if (v->copy) {
        size_t in = v->program->on[0].run.inputs[0].bytes, out = v->program->on[0].run.outputs[0].bytes;
        v->bytes.bytes = (in + out) / 2 / 64 * 64;
        v->bytes.from = nst_gates_floats(ctx->arena, v->bytes.bytes / 4, 1);
        v->bytes.to = nst_gates_floats(ctx->arena, v->bytes.bytes / 4, 2);
        n += nst_copy_cases(&v->bytes, cases + n);
    }
    return nst_gate_trial_new(ctx, v->g, cases, n, v->g->peak, &v->trial);
}

static NstStatus measure(NstCtx *ctx, void *arg)
{
    Convolution *v = arg;
    const char *more;
    NST_TRY(begin(ctx, v));
    NST_TRY(nst_gates_insist(ctx, v->g, behind, v, &more));
    NstGateRow row = row_of(v, v->required);
    row.note = facts(ctx, v);
    row.more = more;
    nst_gates_add(v->g, row);
    return NST_OK;
}

/* As a model's: a time without requirement. */
static NstStatus measure_nchw(NstCtx *ctx, void *arg)
{
    Convolution *v = arg;
    NST_TRY(begin(ctx, v));
    nst_gates_info(v->g, v->name, milliseconds(v), "ms", facts(ctx, v));
    return NST_OK;
}

static const char *shape_of(NstCtx *ctx, const Convolution *v)
{
    return nst_format(ctx->arena, "%lld->%lld at %lld", (long long)v->c, (long long)v->f, (long long)v->size);
}

/* The worst of the shapes near the row's. */
static NstStatus measure_near(NstCtx *ctx, void *arg)
{
    const Convolution *row = arg;
    NstGates *g = row->g;
    uint64_t state = g->seed;
    Convolution *shapes = NST_NEW_ARRAY(ctx->arena, Convolution, NST_GATES_NEAR);
    NstGateNear near = {.g = g, .says = says};
    for (int k = 0; k < NST_GATES_NEAR; k++) {
        Convolution *v = &shapes[k];
        *v = *row;
        v->c = nst_gates_near(&state, row->c);
        v->f = nst_gates_near(&state, row->f);
        v->size = nst_gates_near(&state, row->size);
        if (begin(ctx, v) != NST_OK) return nst_note(ctx, "at %s", shape_of(ctx, v));
        near.shape[k] = v;
        near.trial[k] = v->trial;
    }
    near.row = row_of(&shapes[0], row->required * NST_GATES_NEAR_SHARE);
    NST_TRY(nst_gates_insist_near(ctx, &near));
    for (int k = 0; k < NST_GATES_NEAR; k++)
        fprintf(stderr, "    %s: %.4g %s, %s\n", shape_of(ctx, &shapes[k]),
                row->copy ? 100 * measured(&shapes[k]) : measured(&shapes[k]), row->copy ? "% of the limit" : "GOP/s",
                facts(ctx, &shapes[k]));
    near.row.note =
        nst_format(ctx->arena, "worst %s; seed %llu", shape_of(ctx, &shapes[near.worst]), (unsigned long long)g->seed);
    nst_gates_add(g, near.row);
    return NST_OK;
}

static void row(NstGates *g, const char *name, Convolution v)
{
    if (g->row && !strstr(name, g->row)) return;
    v.g = g;
    v.name = name;
    if (v.stride == 0) v.stride = 1;
    if (v.dilation == 0) v.dilation = 1;
    Convolution near = v, model = v;
    near.name = nst_format(g->ctx.arena, "%s, %d shapes near", name, NST_GATES_NEAR);
    if (nst_gates_try(g, name, measure, &v)) nst_gates_try(g, near.name, measure_near, &near);
    model.nchw = true;
    model.name = nst_format(g->ctx.arena, "%s, NCHW to NCHW", name);
    nst_gates_try(g, model.name, measure_nchw, &model);
}

void nst_gates_convolutions(NstGates *g)
{
    row(g, "3x3 64->64 at 56",
        (Convolution){.kind = DENSE, .c = 64, .f = 64, .size = 56, .kernel = 3, .required = 0.82});
    row(g, "3x3 512->512 at 7",
        (Convolution){.kind = DENSE, .c = 512, .f = 512, .size = 7, .kernel = 3, .required = 0.82});
    row(g, "1x1 256->64 at 56",
        (Convolution){.kind = DENSE, .c = 256, .f = 64, .size = 56, .kernel = 1, .required = 0.82});
    row(g, "3x3 stride 2 128->128 at 56",
        (Convolution){.kind = DENSE, .c = 128, .f = 128, .size = 56, .kernel = 3, .stride = 2, .required = 0.82});
    row(g, "depthwise 3x3 960 at 7",
        (Convolution){.kind = DEPTHWISE, .c = 960, .f = 1, .size = 7, .kernel = 3, .required = 0.45});
    row(g, "depthwise 3x3 144 at 56, of copy",
        (Convolution){.kind = DEPTHWISE, .c = 144, .f = 1, .size = 56, .kernel = 3, .required = 0.80, .copy = true});
    row(g, "3-D 3x3x3 32->32 at 16",
        (Convolution){.kind = VOLUME, .c = 32, .f = 32, .size = 16, .kernel = 3, .required = 0.50});
    row(g, "dilated 2 3x3 64->64 at 56",
        (Convolution){.kind = DENSE, .c = 64, .f = 64, .size = 56, .kernel = 3, .dilation = 2, .required = 0.50});
    row(g, "transposed 2x2 stride 2 256->128 at 28",
        (Convolution){.kind = TRANSPOSED, .c = 256, .f = 128, .size = 28, .kernel = 2, .stride = 2, .required = 0.50});
    row(g, "grouped 3x3 32 groups of 4 at 28",
        (Convolution){.kind = GROUPED, .c = 4, .f = 4, .size = 28, .kernel = 3, .required = 0.50});
}
