/* gates_integer.c: u8 x s8 contractions with zero points: exact on every target, and their share of the integer peaks. */
#include "bench/gates.h"

#include <string.h>

typedef struct Integer {
    NstGates *g;
    int64_t m, n, k;
    const char *target;
    NstPeak peak;
    bool extremes; /* 255 x 127 everywhere, zero points 0 and 255 x -128 .. in turn; else random */
    bool weights;  /* B and its zero points are constants */
    const char *name;
    double required; /* share of the peak */
} Integer;

static const char *text_of(NstCtx *ctx, const Integer *i)
{
    long long m = i->m, n = i->n, k = i->k;
    const char *contract =
        "  %y = contract \"ik,kj;i,j->ij\" pre 0 \"convert<i32>(a) - convert<i32>(b)\""
        " pre 1 \"convert<i32>(a) - convert<i32>(c)\" acc i32 %a, %b, %za, %zb\n  return y = %y\n}\n";
    if (i->weights)
        return nst_format(ctx->arena,
                          "graph integer(a: u8[%lld, %lld], za: u8[%lld]) {\n  %%b = const i8[%lld, %lld] seed 5\n"
                          "  %%zb = const i8[%lld] seed 6\n%s",
                          m, k, m, k, n, n, contract);
    return nst_format(ctx->arena,
                      "graph integer(a: u8[%lld, %lld], b: i8[%lld, %lld], za: u8[%lld], zb: i8[%lld]) {\n%s", m, k, k,
                      n, m, n, contract);
}

/* What every target must give, in arithmetic modulo 2^32. */
static NstStatus check_result(NstCtx *ctx, const Integer *i, const NstGateProgram *p)
{
    const NstTensor *in = p->on[0].run.inputs;
    const uint8_t *a = in[0].data, *za = in[2].data;
    const int8_t *b = in[1].data, *zb = in[3].data;
    const int32_t *y = p->on[0].run.outputs[0].data;
    for (int64_t r = 0; r < i->m; r++)
        for (int64_t c = 0; c < i->n; c++) {
            uint32_t sum = 0;
            for (int64_t t = 0; t < i->k; t++) sum += (uint32_t)((a[r * i->k + t] - za[r]) * (b[t * i->n + c] - zb[c]));
            NST_CHECK(ctx, (int32_t)sum == y[r * i->n + c], NST_E_ASSERT, "element %lld, %lld is %d, exact is %d",
                      (long long)r, (long long)c, y[r * i->n + c], (int32_t)sum);
        }
    return NST_OK;
}

static NstStatus exact(NstCtx *ctx, void *arg)
{
    Integer *i = arg;
    NstGateProgram *p;
    NstGateSource source = {.text = text_of(ctx, i), .target = i->target};
    NST_TRY(nst_gate_program_new(ctx, i->g, &source, &p));
    NST_TRY(nst_gate_program_bind(ctx, i->g, p, NULL, 0));
    NST_TRY(check_result(ctx, i, p));
    const NstTensor *in = p->on[0].run.inputs;
    memset(in[0].data, 255, in[0].bytes);
    memset(in[1].data, 127, in[1].bytes);
    memset(in[2].data, 0, in[2].bytes);
    memset(in[3].data, 0, in[3].bytes);
    for (int64_t k = 0; k < i->m; k += 2) ((uint8_t *)in[2].data)[k] = 255;
    for (int64_t k = 0; k < i->n; k += 3) ((int8_t *)in[3].data)[k] = -128;
    NstStatus status = nst_exec_run(p->on[0].exec, &p->on[0].run);
    NST_CHECK(ctx, status == NST_OK, status, "%s", p->on[0].error);
    NST_TRY(check_result(ctx, i, p));
    nst_gates_least(i->g, i->name, 1, 1, "", nst_gate_program_facts(ctx, p));
    return NST_OK;
}

static NstStatus speed(NstCtx *ctx, void *arg)
{
    Integer *i = arg;
    NstGateProgram *p;
    NstGateSource source = {.text = text_of(ctx, i), .target = i->target};
    double work = 2.0 * (double)i->m * (double)i->n * (double)i->k;
    NstGateRow row = {.name = i->name, .unit = "%", .kind = NST_GATE_PEAK, .required = i->required, .peak = i->peak};
    NST_TRY(nst_gates_rate_of(ctx, i->g, &source, work, &row, &p));
    row.note = nst_gate_program_facts(ctx, p);
    nst_gates_add(i->g, row);
    return NST_OK;
}

void nst_gates_integer(NstGates *g)
{
    static const struct {
        const char *target;
        NstPeak peak;
        double required; /* 0: exactness only */
    } rows[] = {{"baseline", NST_PEAK_MUL_ADD_SSE2, 0},
                {"avx2", NST_PEAK_FMA_AVX2, 0},
                {"vnni", NST_PEAK_DOT4_AVX512_VNNI, 0.60},
                {"amx", NST_PEAK_TILES_AMX, 0.45}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const char *t = rows[k].target;
        const char *name = nst_format(g->ctx.arena, "u8 x s8 with zero points on %s, exact (33x70x4096)", t);
        const char *speed_name = nst_format(g->ctx.arena, "u8 x s8 with zero points on %s, 512x512x512", t);
        if (!nst_peak_available(rows[k].peak)) {
            nst_gates_absent(g, name, t);
            if (rows[k].required > 0) nst_gates_absent(g, speed_name, t);
            continue;
        }
        Integer i = {.g = g, .name = name, .m = 33, .n = 70, .k = 4096, .target = t, .peak = rows[k].peak};
        nst_gates_try(g, name, exact, &i);
        if (rows[k].required == 0) continue;
        i.name = speed_name;
        i.required = rows[k].required;
        i.m = i.n = i.k = 512;
        i.weights = true;
        nst_gates_try(g, speed_name, speed, &i);
    }
}
