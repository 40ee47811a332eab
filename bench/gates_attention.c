/* gates_attention.c: product, scale and mask, softmax, product of separate nodes as one kernel. */
#include "bench/gates.h"

#define HEADS   12
#define QUERIES 128
#define WIDE    64

typedef struct Attention {
    NstGates *g;
    int keys;
    const char *extra; /* a formula of the user on the scores; NULL = none */
    double rate, ms;   /* results */
    const char *facts;
    uint32_t kernels;
    uint64_t arena;
} Attention;

static const char *text_of(NstCtx *ctx, const Attention *a)
{
    int k = a->keys;
    const char *extra = a->extra ? nst_format(ctx->arena, "  %%u = map \"%s\" %%x\n", a->extra) : "";
    const char *scores = a->extra ? "u" : "x";
    const char *head = nst_format(
        ctx->arena,
        "graph attention(q: f32[%d, %d, %d], k: f32[%d, %d, %d], v: f32[%d, %d, %d], mask: f32[1, %d, %d]) {\n", HEADS,
        QUERIES, WIDE, HEADS, k, WIDE, HEADS, k, WIDE, QUERIES, k);
    return nst_format(ctx->arena,
                      "%s  %%s = contract \"bqd,bkd->bqk\" %%q, %%k\n"
                      "  %%c = map \"a * 0.125\" %%s\n"
                      "  %%x = map \"a + b\" %%c, %%mask\n%s"
                      "  %%t = reduce \"max(a, b)\" axes [2] keep %%%s\n"
                      "  %%d = map \"a - b\" %%%s, %%t\n"
                      "  %%e = map \"exp(a)\" %%d\n"
                      "  %%z = reduce \"a + b\" axes [2] keep %%e\n"
                      "  %%i = map \"1 / a\" %%z\n"
                      "  %%p = map \"a * b\" %%e, %%i\n"
                      "  %%o = contract \"bqk,bkd->bqd\" %%p, %%v\n"
                      "  return o = %%o\n}\n",
                      head, extra, scores, scores);
}

static NstStatus measure(NstCtx *ctx, void *arg)
{
    Attention *a = arg;
    NstGateProgram *program;
    double work = 4.0 * HEADS * QUERIES * (double)a->keys * WIDE;
    NstGateSource source = {.text = text_of(ctx, a)};
    NST_TRY(nst_gates_rate_of(ctx, a->g, &source, a->g->peak, work, &a->rate, &program));
    a->ms = work / a->rate / 1e6;
    a->facts = nst_format(a->g->ctx.arena, "%.3f ms, %s", a->ms, nst_gate_program_facts(&a->g->ctx, program));
    a->kernels = nst_gate_program_kernels(program);
    a->arena = program->arena_bytes;
    return NST_OK;
}

static void row(NstGates *g, int keys)
{
    Attention plain = {.g = g, .keys = keys}, user = {.g = g, .keys = keys, .extra = "20 * tanh(a * 0.05)"};
    const char *name = nst_format(g->ctx.arena, "attention 12 heads, 128 queries, %d keys, 64 wide", keys);
    if (!nst_gates_try(g, name, measure, &plain)) return;
    nst_gates_rate(g, name, g->peak, plain.rate, 0.65, plain.facts);
    nst_gates_most(g, nst_format(g->ctx.arena, "%s, kernels", name), plain.kernels, 1, "", NULL);
    nst_gates_most(g, nst_format(g->ctx.arena, "%s, bytes of arena", name), (double)plain.arena, 0, "", NULL);
    name = nst_format(g->ctx.arena, "%s with the formula %s", name, user.extra);
    if (!nst_gates_try(g, name, measure, &user)) return;
    nst_gates_most(g, nst_format(g->ctx.arena, "%s, kernels", name), user.kernels, 1, "", user.facts);
    nst_gates_most(g, nst_format(g->ctx.arena, "%s, bytes of arena", name), (double)user.arena, 0, "", NULL);
}

void nst_gates_attention(NstGates *g)
{
    row(g, 128);
    row(g, 2048);
}
