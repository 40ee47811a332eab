/* support_module.c: see support_module.h. */
#include "tests/unit/support_module.h"

#include <criterion/criterion.h>
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>
#include "ir/order.h"
#include "passes/canon.h"
#include "tests/unit/support_codegen.h"
#include "tests/unit/support_nest.h"

typedef struct Runner {
    NstCtx *ctx;
    const ModuleCase *test;
    NstModule *module;
    const NstTarget *target;
    int threads;
    int64_t *sym; /* by symbol */
    uint32_t n_syms;
    void **data; /* by module buffer */
    size_t *bytes;
} Runner;

static void set_sizes(Runner *r)
{
    const char *p = r->test->sizes ? r->test->sizes : "";
    while (*p) {
        size_t n = strcspn(p, "=");
        NstSym sym = nst_dims_find_sym(r->module->dims, p, n);
        cr_assert(sym.i, "no symbol in '%s'", p);
        r->sym[sym.i] = strtol(p + n + 1, NULL, 10);
        p += strcspn(p, " ");
        while (*p == ' ') p++;
    }
}

/* What memory that nobody wrote holds: the smallest denormals as floats, which no result shows and arithmetic leaves a trace of. */
static void fill_unwritten(NstDtype dtype, void *data, size_t bytes)
{
    static const union {
        uint32_t f32[2];
        uint64_t f64;
    } least = {.f32 = {1, 1}}, least_f64 = {.f64 = 1};
    const void *pattern = dtype == NST_F64 ? &least_f64 : &least;
    if (dtype != NST_F32 && dtype != NST_F64)
        memset(data, 0xa5, bytes);
    else
        for (size_t at = 0; at < bytes; at += 8) memcpy((char *)data + at, pattern, bytes - at < 8 ? bytes - at : 8);
}

static void fill(Runner *r, const NstModuleBuffer *item, void *data, size_t elements, size_t bytes)
{
    NstDtype dtype = item->buffer.dtype;
    if (item->role == NST_ROLE_CONST) {
        memcpy(data, r->module->consts.at[item->index].data, bytes);
    } else if (item->role == NST_ROLE_INPUT && r->test->input) {
        cr_assert_eq(r->test->input[item->index].bytes, bytes, "input %u: %zu bytes, wanted %zu", item->index,
                     r->test->input[item->index].bytes, bytes);
        memcpy(data, r->test->input[item->index].data, bytes);
    } else if (item->role == NST_ROLE_INPUT && r->test->index_limit && nst_dtype_is_int(dtype)) {
        for (size_t k = 0; k < elements; k++) {
            int64_t value = (int64_t)((k * 7 + r->test->seed * 13 + item->index) % (uint64_t)r->test->index_limit);
            nst_scalar_store(dtype, (char *)data + k * (size_t)nst_dtype_info(dtype)->bytes, (NstScalar){.i = value});
        }
    } else if (item->role == NST_ROLE_INPUT) {
        support_fill(dtype, data, elements, r->test->seed + item->index);
    } else if (item->role == NST_ROLE_PACKED) {
        memset(data, 0, bytes);
    } else {
        fill_unwritten(dtype, data, bytes);
    }
}

static void *buffer_data(Runner *r, NstBuf buffer)
{
    if (r->data[buffer.i]) return r->data[buffer.i];
    const NstModuleBuffer *item = nst_module_get(r->module, buffer);
    int64_t elements;
    NstStatus status =
        nst_dim_eval(r->ctx, r->module->dims, item->buffer.layout.elements, r->sym, r->n_syms, &elements);
    cr_assert_eq(status, NST_OK, "%s", r->ctx->error);
    r->bytes[buffer.i] = (size_t)elements * (size_t)nst_dtype_info(item->buffer.dtype)->bytes;
    r->data[buffer.i] = nst_alloc_aligned(r->ctx->arena, r->bytes[buffer.i] + 64, 64);
    fill(r, item, r->data[buffer.i], (size_t)elements, r->bytes[buffer.i]);
    return r->data[buffer.i];
}

/* What this process compiled last, by text: runs at other sizes and on other numbers of threads take the same code. */
typedef struct Known {
    NstCtx ctx; /* owns what follows */
    const char *text;
    NstTarget target;
    bool bounds_checks;
    Compiled compiled;
} Known;

#define N_KNOWN 64

/* The bit of MXCSR that arithmetic on a denormal operand sets. */
#define DENORMAL_OPERAND 2u

static const Compiled *compile_once(Runner *r, const NstKernel *kernel, bool bounds_checks)
{
    static Known known[N_KNOWN];
    static uint32_t n_compiled;
    NstText text;
    nst_text_init(&text, r->ctx->arena);
    nst_kernel_print(&text, kernel);
    for (uint32_t k = 0; k < n_compiled && k < N_KNOWN; k++)
        if (known[k].bounds_checks == bounds_checks && memcmp(&known[k].target, r->target, sizeof *r->target) == 0 &&
            strcmp(known[k].text, nst_text_get(&text)) == 0)
            return &known[k].compiled;
    Known *added = &known[n_compiled % N_KNOWN];
    if (n_compiled++ >= N_KNOWN) {
        support_release(&added->compiled);
        nst_ctx_dispose(&added->ctx);
    }
    cr_assert_eq(nst_ctx_init(&added->ctx), NST_OK);
    added->text = nst_copy(added->ctx.arena, nst_text_get(&text), strlen(nst_text_get(&text)) + 1);
    memcpy(&added->target, r->target, sizeof added->target);
    added->bounds_checks = bounds_checks;
    added->compiled = support_compile(&added->ctx, kernel, r->target, bounds_checks);
    return &added->compiled;
}

static NstStatus run_kernel(Runner *r, const NstScheduled *s)
{
    const NstKernel *kernel = s->kernel;
    int64_t *param = NST_NEW_ARRAY(r->ctx->arena, int64_t, kernel->params.n + 1);
    Data data = {.n = s->n_args};
    data.at = NST_NEW_ARRAY(r->ctx->arena, void *, s->n_args + 1);
    data.bytes = NST_NEW_ARRAY(r->ctx->arena, size_t, s->n_args + 1);
    for (uint32_t k = 0; k < s->n_args; k++) {
        data.at[k] = buffer_data(r, s->arg[k]);
        data.bytes[k] = r->bytes[s->arg[k].i];
    }
    for (uint32_t k = 0; k < kernel->params.n; k++)
        cr_assert_eq(nst_dim_eval(r->ctx, r->module->dims, s->size[k], r->sym, r->n_syms, &param[k]), NST_OK, "%s",
                     r->ctx->error);
    NstStatus status;
    if (r->threads == 0) {
        NstKernelRun run = {data.at, data.bytes, param, r->target->has_fma, .find_races = true};
        status = nst_kernel_interpret(r->ctx, kernel, &run);
    } else {
        const Compiled *compiled = compile_once(r, kernel, !r->test->unchecked && !getenv("NST_NO_BOUNDS"));
        NstErrorSlot error = {0};
        _mm_setcsr(_mm_getcsr() & ~DENORMAL_OPERAND);
        status = support_run(r->ctx, compiled, &data, param, r->threads, &error, NULL);
        cr_assert(!r->test->no_denormals || r->threads > 1 || !(_mm_getcsr() & DENORMAL_OPERAND),
                  "kernel '%s' computes with denormals, which no input has: with memory that nobody wrote\n%s",
                  kernel->name, r->test->text);
    }
    for (uint32_t k = 0; k < r->module->reads.n && status == NST_OK; k++)
        for (uint32_t a = 0; a < s->n_args; a++)
            if (s->arg[a].i == r->module->reads.at[k].buffer.i)
                r->sym[r->module->reads.at[k].sym.i] =
                    nst_scalar_load(nst_module_get(r->module, s->arg[a])->buffer.dtype, data.at[a]).i;
    return status;
}

static NstStatus verify_and_run(Runner *r, const NstScheduled *s)
{
    NstText text;
    nst_text_init(&text, r->ctx->arena);
    nst_kernel_print(&text, s->kernel);
    if (getenv("NST_TEST_PRINT")) fprintf(stderr, "%s\n", nst_text_get(&text));
    if (nst_kernel_verify(r->ctx, s->kernel) != NST_OK) return nst_note(r->ctx, "%s", nst_text_get(&text));
    return run_kernel(r, s);
}

static void to_canonical(const ModuleCase *test, NstScheduledList *list)
{
    NstCanonSyms syms = {0};
    for (uint32_t k = 0; test->canon && k < list->n; k++)
        nst_kernel_to_canon(list->at[k].kernel, &syms, test->canon == 2, &list->at[k].size);
}

static NstNode *next_sum(const NstGraph *graph, uint32_t *at)
{
    while (++*at < graph->nodes.n) {
        NstNode *node = graph->nodes.at[*at];
        if (!node->dead && (node->prim == NST_PRIM_REDUCE || node->prim == NST_PRIM_CONTRACT)) return node;
    }
    return NULL;
}

static NstStatus take_orders(NstCtx *ctx, NstGraph *graph, const char *orders)
{
    NstGraph *open;
    NST_TRY(nst_graph_parse(ctx, ctx->arena, orders, strlen(orders), &open));
    uint32_t from = 0, to = 0;
    for (;;) {
        NstNode *sum = next_sum(graph, &to), *wanted = next_sum(open, &from);
        NST_CHECK(ctx, !sum == !wanted && (!sum || sum->prim == wanted->prim), NST_E_INVALID,
                  "the graph with open sizes has other sums");
        if (!sum) return NST_OK;
        nst_order_take(sum, wanted);
    }
}

NstStatus support_try_module(NstCtx *ctx, const ModuleCase *test, const NstTarget *target,
                             const NstPassOptions *options, int threads, ModuleRun *run)
{
    static const NstPassOptions strict = {.strict = true};
    NstPassOptions chosen = options ? *options : strict;
    if (!test->sequences) chosen.off |= UINT64_C(1) << NST_PASS_SMALL;
    options = &chosen;
    NstGraph *graph;
    *run = (ModuleRun){0};
    NST_TRY(nst_graph_parse(ctx, ctx->arena, test->text, strlen(test->text), &graph));
    if (test->orders) NST_TRY(take_orders(ctx, graph, test->orders));
    NST_TRY(nst_lower_graph(ctx, ctx->arena, graph, target, options, &run->module));
    NstScheduledList scheduled, prepack;
    NST_TRY(nst_schedule_module(ctx, run->module, options, &scheduled, &prepack));
    for (uint32_t k = 0; k < scheduled.n; k++)
        NST_CHECK(ctx, scheduled.at[k].kernel, NST_E_UNSUPPORTED, "step '%s': kernels alone are run here",
                  scheduled.at[k].group->name);
    to_canonical(test, &prepack);
    to_canonical(test, &scheduled);
    run->kernel = scheduled.at;
    run->n_kernels = scheduled.n;
    Runner r = {.ctx = ctx, .test = test, .module = run->module, .target = target, .threads = threads};
    r.n_syms = nst_dims_sym_count(graph->dims) + 1;
    r.sym = NST_NEW_ARRAY(ctx->arena, int64_t, r.n_syms);
    r.data = NST_NEW_ARRAY(ctx->arena, void *, run->module->buffers.n);
    r.bytes = NST_NEW_ARRAY(ctx->arena, size_t, run->module->buffers.n);
    set_sizes(&r);
    for (uint32_t k = 0; k < prepack.n; k++) NST_TRY(verify_and_run(&r, &prepack.at[k]));
    for (uint32_t k = 0; k < scheduled.n; k++) NST_TRY(verify_and_run(&r, &scheduled.at[k]));
    run->n_results = nst_graph_region(graph, (NstRegionId){1})->results.n;
    run->result = NST_NEW_ARRAY(ctx->arena, void *, run->n_results);
    run->bytes = NST_NEW_ARRAY(ctx->arena, size_t, run->n_results);
    for (uint32_t k = 1; k < run->module->buffers.n; k++) {
        const NstModuleBuffer *item = &run->module->buffers.at[k];
        if (item->role != NST_ROLE_OUTPUT) continue;
        run->result[item->index] = buffer_data(&r, (NstBuf){k});
        run->bytes[item->index] = r.bytes[k];
    }
    return NST_OK;
}

static uint32_t count_group(const NstGroup *group, bool (*is)(const NstGroup *group))
{
    uint32_t n = is(group);
    for (uint32_t k = 0; group->sequence && k < group->items.n; k++) n += count_group(group->items.at[k].group, is);
    return n;
}

uint32_t support_count_groups(const NstModule *module, bool (*is)(const NstGroup *group))
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < module->groups.n; k++) n += count_group(module->groups.at[k], is);
    return n;
}

bool support_is_sequence(const NstGroup *group)
{
    return group->sequence;
}

ModuleRun support_run_module(NstCtx *ctx, const ModuleCase *test, const NstTarget *target,
                             const NstPassOptions *options, int threads)
{
    ModuleRun run;
    cr_assert_eq(support_try_module(ctx, test, target, options, threads, &run), NST_OK, "%s\n%s", test->text,
                 ctx->error);
    return run;
}

ModuleRun support_interpret_graph(NstCtx *ctx, const ModuleCase *test, const NstTarget *target)
{
    NstGraph *graph;
    ModuleRun run = {0};
    cr_assert_eq(nst_graph_parse(ctx, ctx->arena, test->text, strlen(test->text), &graph), NST_OK, "%s", ctx->error);
    NstModule *module = nst_module_new(ctx->arena, graph, target, false); /* for the sizes of the inputs */
    Runner r = {.ctx = ctx, .test = test, .module = module, .target = target};
    r.n_syms = nst_dims_sym_count(graph->dims) + 1;
    r.sym = NST_NEW_ARRAY(ctx->arena, int64_t, r.n_syms);
    set_sizes(&r);
    const NstRegion *top = nst_graph_region(graph, (NstRegionId){1});
    NstTensorValue *input = NST_NEW_ARRAY(ctx->arena, NstTensorValue, top->params.n);
    NstTensorValue *result = NST_NEW_ARRAY(ctx->arena, NstTensorValue, top->results.n);
    for (uint32_t k = 0; k < top->params.n; k++) {
        const NstType *type = nst_value_type(graph, top->params.at[k]);
        size_t elements = 1;
        input[k] = (NstTensorValue){.dtype = type->dtype, .rank = type->rank};
        for (int a = 0; a < type->rank; a++) {
            NstStatus status = nst_dim_eval(ctx, graph->dims, type->shape[a], r.sym, r.n_syms, &input[k].shape[a]);
            cr_assert_eq(status, NST_OK, "%s", ctx->error);
            elements *= (size_t)input[k].shape[a];
        }
        input[k].bytes = elements * (size_t)nst_dtype_info(type->dtype)->bytes;
        input[k].data = nst_alloc_aligned(ctx->arena, input[k].bytes + 64, 64);
        NstModuleBuffer item = {.role = NST_ROLE_INPUT, .index = k};
        item.buffer.dtype = type->dtype;
        fill(&r, &item, input[k].data, elements, input[k].bytes);
    }
    NstStatus status = nst_graph_interpret(ctx, ctx->arena, graph, input, top->params.n, target->has_fma, NULL, result);
    cr_assert_eq(status, NST_OK, "%s", ctx->error);
    run.n_results = top->results.n;
    run.result = NST_NEW_ARRAY(ctx->arena, void *, run.n_results);
    run.bytes = NST_NEW_ARRAY(ctx->arena, size_t, run.n_results);
    for (uint32_t k = 0; k < run.n_results; k++) {
        run.result[k] = result[k].data;
        run.bytes[k] = result[k].bytes;
    }
    return run;
}

void support_same_results(const ModuleRun *a, const ModuleRun *b, const char *what)
{
    cr_assert_eq(a->n_results, b->n_results);
    for (uint32_t k = 0; k < a->n_results; k++) {
        cr_assert_eq(a->bytes[k], b->bytes[k]);
        for (size_t at = 0; at < a->bytes[k]; at++)
            cr_assert_eq(((const char *)a->result[k])[at], ((const char *)b->result[k])[at],
                         "result %u differs at byte %zu of %zu: %s", k, at, a->bytes[k], what);
    }
}

void support_same_on_threads(NstCtx *ctx, const ModuleCase *test, const NstTarget *target, const char *what)
{
    ModuleRun wanted = support_interpret_graph(ctx, test, target);
    for (int threads = 0; threads <= 2; threads++) {
        ModuleRun run = support_run_module(ctx, test, target, NULL, threads);
        support_same_results(&wanted, &run, nst_format(ctx->arena, "%s, %d threads", what, threads));
    }
}

void support_same_on_target(const SizedCase *cases, size_t n, const char *target_name)
{
    NstCtx ctx;
    NstTarget target;
    cr_assert_eq(nst_ctx_init(&ctx), NST_OK);
    if (nst_target_parse(&ctx, target_name, &target) == NST_OK) {
        for (size_t k = 0; k < n; k++) {
            for (int s = 0; s < 3 && cases[k].sizes[s]; s++) {
                ModuleCase test = {.text = cases[k].text, .sizes = cases[k].sizes[s], .seed = k + 1};
                support_same_on_threads(&ctx, &test, &target, nst_format(ctx.arena, "case %zu, %s", k, test.sizes));
            }
        }
    }
    nst_ctx_dispose(&ctx);
}
