/* gates_attention.c: product, scale and mask, softmax, product of separate nodes as one kernel. */
#include "bench/gates.h"

#define HEADS   12
#define QUERIES 128
#define WIDE    64

typedef struct Attention {
    NstGates *g;
    const char *name;
    int keys;
    const char *extra; /* a formula of the user on the scores: only its kernel and its arena are judged; NULL = none */
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
    const Attention *a = arg;
    NstGates *g = a->g;
    NstGateProgram *program;
    double work = 4.0 * HEADS * QUERIES * (double)a->keys * WIDE;
    NstGateSource source = {.text = text_of(ctx, a)};
    NstGateRow row = {.name = a->name,
                      .unit = "%",
                      .kind = a->extra ? NST_GATE_INFO : NST_GATE_PEAK,
                      .required = 0.65,
                      .peak = g->peak};
    NST_TRY(nst_gates_rate_of(ctx, g, &source, work, &row, &program));
    row.note = nst_format(ctx->arena, "%.3f ms, %s", work / row.measured / 1e6, nst_gate_program_facts(ctx, program));
    if (!a->extra) nst_gates_add(g, row);
    nst_gates_most(g, nst_format(ctx->arena, "%s, kernels", a->name), nst_gate_program_kernels(program), 1, "",
                   a->extra ? row.note : NULL);
    nst_gates_most(g, nst_format(ctx->arena, "%s, bytes of arena", a->name), (double)program->arena_bytes, 0, "", NULL);
    return NST_OK;
}

static void row(NstGates *g, int keys)
{
    const char *name = nst_format(g->ctx.arena, "attention 12 heads, 128 queries, %d keys, 64 wide", keys);
    Attention plain = {.g = g, .name = name, .keys = keys}, user = plain;
    user.extra = "20 * tanh(a * 0.05)";
    user.name = nst_format(g->ctx.arena, "%s with the formula %s", name, user.extra);
    if (nst_gates_try(g, plain.name, measure, &plain)) nst_gates_try(g, user.name, measure, &user);
}

void nst_gates_attention(NstGates *g)
{
    row(g, 128);
    row(g, 2048);
}
