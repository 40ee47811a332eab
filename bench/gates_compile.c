/* gates_compile.c: the kernels of ResNet-50's shapes, compiled on one thread, against a fixed module of about 300 IR
 * instructions in the same run; compile time a kernel, two threads against one, bytes of code. */
#include "bench/gates.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "codegen/codegen.h"
#include "ir/base/os.h"

#define REPEATS 3 /* of everything; the best counts; smoke ends with the first that is good enough */

/* A register tile of 14 rows and two vectors, scheduled by hand: its IR does not depend on the passes. */
static const char fixed_kernel[] =
    "kernel fixed_14x32(M min 14 multiple 14, N min 1, K min 1)\n"
    "    in a: f32[M, K]\n    const in b: f32[N, K, 32]\n    out c: f32[M, N, 32]\n"
    "{\n  for parallel j in 0..N {\n    for i in 0..M step 14 {\n      reg acc: f32[14, 32]\n"
    "      for unroll r in 0..14 {\n        for unroll v in 0..2 {\n          for vector l in 0..16 width 16 {\n"
    "            acc[r, 16*v + l] = 0f32\n          }\n        }\n      }\n"
    "      for k in 0..K {\n        for unroll r in 0..14 {\n          for unroll v in 0..2 {\n"
    "            for vector l in 0..16 width 16 {\n"
    "              acc[r, 16*v + l] = fma(a[i + r, k], b[j, k, 16*v + l], acc[r, 16*v + l])\n"
    "            }\n          }\n        }\n      }\n"
    "      for unroll r in 0..14 {\n        for unroll v in 0..2 {\n          for vector l in 0..16 width 16 {\n"
    "            c[i + r, j, 16*v + l] = acc[r, 16*v + l]\n          }\n        }\n      }\n"
    "    }\n  }\n}\n";

typedef struct Layer {
    int c, f, size, kernel, stride;
    bool add; /* a residual is added before relu */
} Layer;

/* Distinct shapes of ResNet-50 at batch 1; the classifier is a 1x1 convolution of one pixel.  Two come twice, with and
 * without a residual. */
static const Layer layers[] = {{3, 64, 224, 7, 2, false},    {64, 64, 56, 1, 1, false},     {64, 64, 56, 3, 1, false},
                               {64, 256, 56, 1, 1, false},   {64, 256, 56, 1, 1, true},     {256, 64, 56, 1, 1, false},
                               {256, 128, 56, 1, 1, false},  {128, 128, 56, 3, 2, false},   {128, 512, 28, 1, 1, true},
                               {256, 512, 56, 1, 2, false},  {512, 128, 28, 1, 1, false},   {128, 128, 28, 3, 1, false},
                               {512, 256, 28, 1, 1, false},  {256, 256, 28, 3, 2, false},   {256, 1024, 14, 1, 1, true},
                               {512, 1024, 28, 1, 2, false}, {1024, 256, 14, 1, 1, false},  {256, 256, 14, 3, 1, false},
                               {1024, 512, 14, 1, 1, false}, {512, 512, 14, 3, 2, false},   {512, 2048, 7, 1, 1, true},
                               {512, 2048, 7, 1, 1, false},  {1024, 2048, 14, 1, 2, false}, {2048, 512, 7, 1, 1, false},
                               {512, 512, 7, 3, 1, false},   {2048, 1000, 1, 1, 1, false}};
#define N_LAYERS ((int)(sizeof layers / sizeof *layers))

typedef struct Compile {
    NstGates *g;
    const NstKernel *fixed;
    double fixed_ms, passes_ms, kernels_ms, prepack_ms; /* best of the repeats */
    double slowest_ms;
    const char *slowest;
    size_t code_bytes;
    uint32_t n_kernels, n_distinct, n_prepack, n_prepack_distinct;
} Compile;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void add_layer(NstText *head, NstText *body, NstText *end, int k, const Layer *l)
{
    int pad = (l->kernel - 1) / 2, out = (l->size + 2 * pad - l->kernel) / l->stride + 1;
    nst_text_add(head, "%sx%d: f32[1, %d, %d, %d]", k ? ", " : "", k, l->size, l->size, l->c);
    if (l->add) nst_text_add(head, ", r%d: f32[1, %d, %d, %d]", k, out, out, l->f);
    nst_text_add(body, "  %%p%d = permute [0, 3, 1, 2] %%x%d\n  %%w%d = const f32[%d, %d, %d, %d] seed 3\n", k, k, k,
                 l->f, l->c, l->kernel, l->kernel);
    nst_text_add(
        body,
        "  %%t%d = window [axis 2 size %d stride %d dilation 1 pad %d, %d; axis 3 size %d stride %d dilation 1 pad"
        " %d, %d] %%p%d\n  %%z%d = contract \"nchwuv,fcuv->nfhw\" %%t%d, %%w%d\n"
        "  %%b%d = const f32[1, %d, 1, 1] seed 4\n  %%s%d = map \"a + b\" %%z%d, %%b%d\n",
        k, l->kernel, l->stride, pad, pad, l->kernel, l->stride, pad, pad, k, k, k, k, k, l->f, k, k, k);
    if (l->add)
        nst_text_add(body, "  %%q%d = permute [0, 3, 1, 2] %%r%d\n  %%u%d = map \"a + b\" %%s%d, %%q%d\n", k, k, k, k,
                     k);
    nst_text_add(body, "  %%v%d = map \"max(a, 0)\" %%%s%d\n  %%y%d = permute [0, 2, 3, 1] %%v%d\n", k,
                 l->add ? "u" : "s", k, k, k);
    nst_text_add(end, "%sy%d = %%y%d", k ? ", " : "", k, k);
}

static const char *resnet(NstCtx *ctx)
{
    NstText head, body, end;
    nst_text_init(&head, ctx->arena);
    nst_text_init(&body, ctx->arena);
    nst_text_init(&end, ctx->arena);
    for (int k = 0; k < N_LAYERS; k++) add_layer(&head, &body, &end, k, &layers[k]);
    NstText all;
    nst_text_init(&all, ctx->arena);
    nst_text_add(&all, "graph resnet50(%s) {\n%s  return ", nst_text_get(&head), nst_text_get(&body));
    nst_text_add(&all, "%s\n}\n", nst_text_get(&end));
    return nst_text_get(&all);
}

/* Milliseconds to compile one kernel. */
static NstStatus codegen_ms(NstCtx *ctx, const NstKernel *kernel, const NstTarget *target, double *ms, size_t *bytes)
{
    NstCodegenOptions options = {0};
    NstCode code;
    double start = now_ms();
    NST_TRY(nst_codegen_compile(ctx, ctx->arena, &kernel, 1, target, &options, &code));
    *ms = now_ms() - start;
    if (bytes) *bytes += code.size;
    return NST_OK;
}

static NstStatus fixed_module(NstCtx *ctx, Compile *c)
{
    for (int k = 0; k < 10; k++) {
        double ms;
        NST_TRY(codegen_ms(ctx, c->fixed, &c->g->host, &ms, NULL));
        c->fixed_ms = fmin(c->fixed_ms, ms);
    }
    return NST_OK;
}

/* The first kernel of the list with that canonical text; its own place if there is none before. */
static uint32_t first_like(const NstScheduledList *list, NstHash *hash, uint32_t k)
{
    uint32_t at = 0;
    hash[k] = nst_hash128(list->at[k].text.at, list->at[k].text.n);
    while (hash[at].lo != hash[k].lo || hash[at].hi != hash[k].hi) at++;
    return at;
}

/* Compiles each distinct kernel of the list. */
static NstStatus list_ms(NstCtx *ctx, Compile *c, const NstScheduledList *list, double *total, size_t *bytes, bool name,
                         uint32_t *distinct)
{
    NstHash *hash = NST_NEW_ARRAY(ctx->arena, NstHash, list->n);
    *total = 0;
    *distinct = 0;
    for (uint32_t k = 0; k < list->n; k++) {
        double ms;
        if (first_like(list, hash, k) != k) continue;
        ++*distinct;
        NST_TRY(codegen_ms(ctx, list->at[k].kernel, &c->g->host, &ms, bytes));
        *total += ms;
        if (!name || ms <= c->slowest_ms) continue;
        c->slowest_ms = ms;
        c->slowest = nst_strdup(c->g->ctx.arena, list->at[k].kernel->name);
    }
    return NST_OK;
}

/* All kernels once. */
static NstStatus compile_all(NstCtx *ctx, Compile *c, bool last)
{
    const char *text = resnet(ctx);
    NstSessionOptions options = {0};
    NstCompileRequest request = {.name = "resnet50",
                                 .bytes = text,
                                 .size = strlen(text),
                                 .target = &c->g->host,
                                 .options = &options,
                                 .threads = 1};
    NstCompile compile = {.ctx = ctx, .arena = ctx->arena, .request = &request};
    NST_TRY(nst_compile_read(&compile));
    double start = now_ms(), kernels, prepack;
    NST_TRY(nst_compile_lower(&compile));
    NST_TRY(nst_compile_schedule(&compile));
    c->passes_ms = fmin(c->passes_ms, now_ms() - start);
    c->code_bytes = 0;
    NST_TRY(list_ms(ctx, c, &compile.run, &kernels, &c->code_bytes, last, &c->n_distinct));
    NST_TRY(list_ms(ctx, c, &compile.prepack, &prepack, NULL, false, &c->n_prepack_distinct));
    c->kernels_ms = fmin(c->kernels_ms, kernels);
    c->prepack_ms = fmin(c->prepack_ms, prepack);
    c->n_kernels = compile.run.n;
    c->n_prepack = compile.prepack.n;
    return NST_OK;
}

static NstStatus one_pass(NstCtx *ctx, void *arg)
{
    Compile *c = arg;
    NstKernel *fixed;
    NST_TRY(nst_kernel_parse(ctx, ctx->arena, fixed_kernel, strlen(fixed_kernel), &fixed));
    NST_TRY(nst_kernel_verify(ctx, fixed));
    c->fixed = fixed;
    NST_TRY(fixed_module(ctx, c));
    return compile_all(ctx, c, c->kernels_ms < INFINITY);
}

static NstStatus count_instructions(NstCtx *ctx, void *arg)
{
    int *n = arg;
    NstTarget target;
    NstKernel *fixed;
    NstText text;
    NST_TRY(nst_target_parse(ctx, "host", &target));
    NST_TRY(nst_kernel_parse(ctx, ctx->arena, fixed_kernel, strlen(fixed_kernel), &fixed));
    nst_text_init(&text, ctx->arena);
    NST_TRY(nst_codegen_ir_text(ctx, fixed, &target, &(NstCodegenOptions){0}, &text));
    for (const char *line = nst_text_get(&text); line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        *n += strncmp(line, "  ", 2) == 0;
    return NST_OK;
}

/* The whole plan on one and on two threads, in wall time. */
static NstStatus two_threads(NstCtx *ctx, void *arg)
{
    Compile *c = arg;
    double ms[2] = {INFINITY, INFINITY};
    NstGateSource source = {.text = resnet(ctx)};
    for (int round = 0; round < 2 * (c->g->quick ? 1 : 2); round++) {
        NstGateProgram *p;
        source.compile_threads = round % 2 + 1;
        NST_TRY(nst_gate_program_new(ctx, c->g, &source, &p));
        ms[round % 2] = fmin(ms[round % 2], p->compile_ms);
    }
    nst_gates_info(c->g, "ResNet-50's kernels, two compile threads over one", ms[0] / ms[1], "x",
                   nst_format(ctx->arena, "whole plan, wall time: %.0f and %.0f ms", ms[0], ms[1]));
    return NST_OK;
}

static NstStatus digits(NstCtx *ctx, void *arg)
{
    Compile *c = arg;
    char *bytes;
    size_t size;
    NST_TRY(nst_os_read_file(ctx, ctx->arena, "models/digits.onnx", 1 << 26, &bytes, &size));
    NstGateSource source = {.text = bytes, .size = size};
    NstGateProgram *p;
    NST_TRY(nst_gate_program_new(ctx, c->g, &source, &p));
    nst_gates_info(c->g, "digits.onnx, compile time", p->compile_ms, "ms", nst_gate_program_facts(ctx, p));
    return NST_OK;
}

static NstGateRow over_fixed(const Compile *c)
{
    return (NstGateRow){.name = "ResNet-50's kernels, compile time over that of the fixed module",
                        .unit = "x",
                        .kind = NST_GATE_MOST,
                        .measured = (c->passes_ms + c->kernels_ms) / c->fixed_ms,
                        .required = 100};
}

void nst_gates_compile(NstGates *g)
{
    Compile c = {.g = g, .fixed_ms = INFINITY, .passes_ms = INFINITY, .kernels_ms = INFINITY, .prepack_ms = INFINITY};
    int instructions = 0;
    if (!nst_gates_try(g, "fixed module", count_instructions, &instructions)) return;
    bool good = true;
    NstGateRow row = {0};
    for (int k = 0; k < REPEATS && good; k++) {
        good = nst_gates_try(g, "ResNet-50's kernels", one_pass, &c);
        row = over_fixed(&c);
        if (g->smoke && nst_gates_is_met(g, &row)) break;
    }
    NstArena *arena = g->ctx.arena;
    if (good) {
        row.note = nst_format(
            arena, "%u kernels, %u distinct: passes %.0f ms, code %.0f ms; fixed module of %d instructions %.2f ms",
            c.n_kernels, c.n_distinct, c.passes_ms, c.kernels_ms, instructions, c.fixed_ms);
        nst_gates_add(g, row);
        nst_gates_info(g, "compile time a kernel", c.kernels_ms / c.n_distinct, "ms",
                       nst_format(arena, "slowest %s %.1f ms; %u prepack kernels, %u distinct, %.0f ms more",
                                  c.slowest ? c.slowest : "?", c.slowest_ms, c.n_prepack, c.n_prepack_distinct,
                                  c.prepack_ms));
        nst_gates_info(g, "code of ResNet-50's kernels", (double)c.code_bytes, "bytes", NULL);
    }
    nst_gates_try(g, "ResNet-50's kernels on two compile threads", two_threads, &c);
    nst_gates_try(g, "digits.onnx, compile time", digits, &c);
}
