/* gates_program.c: graphs compiled through the driver and run through exec. */
#include "bench/gates.h"

#include <stdlib.h>
#include <string.h>

static uint64_t next_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t nst_gates_near(uint64_t *state, int64_t base)
{
    double factor = 0.8 + 0.45 * ((double)(next_random(state) >> 11) * 0x1p-53);
    int64_t near = (int64_t)((double)base * factor + 0.5);
    return near < 1 ? 1 : near;
}

float *nst_gates_floats(NstArena *arena, size_t n, uint64_t seed)
{
    float *at = nst_alloc_aligned(arena, n * sizeof *at + 64, 64);
    for (size_t k = 0; k < n; k++) at[k] = (float)((double)(next_random(&seed) >> 40) * 0x1p-23 - 1);
    return at;
}

/* --- compiling ----------------------------------------------------------------------------------------------- */

static void free_exec(void *exec)
{
    nst_exec_free(exec);
}

NstStatus nst_gate_program_new(NstCtx *ctx, NstGates *g, const NstGateSource *source, NstGateProgram **program)
{
    NstGateProgram *p = *program = NST_NEW(ctx->arena, NstGateProgram);
    NstTarget target = g->host;
    if (source->target) NST_TRY(nst_target_parse(ctx, source->target, &target));
    NstSessionOptions options = {.passes_off = source->passes_off, .strict = source->strict};
    NstCompileRequest *request = NST_NEW(ctx->arena, NstCompileRequest);
    *request = (NstCompileRequest){.name = "gate",
                                   .bytes = source->text,
                                   .size = source->size ? source->size : strlen(source->text),
                                   .target = nst_copy(ctx->arena, &target, sizeof target),
                                   .options = nst_copy(ctx->arena, &options, sizeof options),
                                   .threads = source->compile_threads ? source->compile_threads : 1};
    NstCompile c = {.ctx = ctx, .arena = ctx->arena, .request = request};
    NST_TRY(nst_compile_read(&c));
    int64_t start = nst_os_now_ns();
    NST_TRY(nst_compile_plan(&c, &p->plan));
    p->compile_ms = (double)(nst_os_now_ns() - start) / 1e6;
    for (int t = 0; t < 2; t++) {
        NST_TRY(nst_exec_new(ctx, p->plan, g->pool[t], NULL, NULL, &p->on[t].exec));
        nst_arena_on_free(ctx->arena, free_exec, p->on[t].exec);
    }
    return NST_OK;
}

/* --- inputs and outputs -------------------------------------------------------------------------------------- */

static void fill(NstTensor *tensor, uint64_t seed)
{
    for (size_t at = 0; at < tensor->bytes; at++) {
        float *wide = (float *)tensor->data + at / 4;
        if (tensor->dtype != NST_F32)
            ((uint8_t *)tensor->data)[at] = (uint8_t)next_random(&seed);
        else if (at % 4 == 0)
            *wide = (float)((double)(next_random(&seed) >> 40) * 0x1p-23 - 1);
    }
}

static NstStatus make_inputs(NstCtx *ctx, const NstPlan *plan, const int64_t *value, uint32_t n, NstTensor **inputs)
{
    *inputs = NST_NEW_ARRAY(ctx->arena, NstTensor, plan->inputs.n);
    for (uint32_t k = 0; k < plan->inputs.n; k++) {
        const NstType *type = &plan->inputs.at[k].type;
        NstTensor *in = &(*inputs)[k];
        *in = (NstTensor){.dtype = type->dtype, .rank = type->rank, .bytes = nst_dtype_size(type->dtype)};
        for (int axis = 0; axis < type->rank; axis++) {
            NST_TRY(nst_dim_eval(ctx, plan->dims, type->shape[axis], value, n, &in->shape[axis]));
            in->bytes *= (size_t)in->shape[axis];
        }
        in->data = nst_alloc_aligned(ctx->arena, in->bytes + 64, 64);
        fill(in, k + 1);
    }
    return NST_OK;
}

static NstStatus run_first(NstCtx *ctx, NstGateRun *run, uint32_t n_outputs)
{
    NstStatus status = nst_exec_run(run->exec, &run->run);
    NST_CHECK(ctx, status == NST_OK, status, "%s", run->error);
    for (uint32_t k = 0; k < n_outputs; k++) {
        NstTensor *out = &run->run.outputs[k];
        NstTensor made = *out;
        if (!out->owned) continue;
        out->data = nst_alloc_aligned(ctx->arena, made.bytes + 64, 64);
        memcpy(out->data, made.data, made.bytes);
        out->owned = NULL;
        nst_tensor_release(&made);
    }
    return NST_OK;
}

static void compare(NstGates *g, const NstGateProgram *p)
{
    bool same = true;
    for (uint32_t k = 0; k < p->plan->outputs.n; k++) {
        const NstTensor *a = &p->on[0].run.outputs[k], *b = &p->on[1].run.outputs[k];
        if (a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes) != 0) same = false;
    }
    g->cases_compared++;
    if (same) return;
    if (g->cases_differ++ == 0)
        snprintf(g->first_difference, sizeof g->first_difference, "%s, kernel %s", p->plan->model_name,
                 p->plan->kernels.at[p->plan->kernels.n - 1].name);
}

NstStatus nst_gate_program_bind(NstCtx *ctx, NstGates *g, NstGateProgram *p, const NstGateSize *sizes, int n)
{
    uint32_t n_syms = nst_dims_sym_count(p->plan->dims) + 1;
    int64_t *value = NST_NEW_ARRAY(ctx->arena, int64_t, n_syms);
    for (int k = 0; k < n; k++) {
        NstSym sym = nst_dims_find_sym(p->plan->dims, sizes[k].symbol, strlen(sizes[k].symbol));
        NST_CHECK(ctx, sym.i != 0, NST_E_NOT_FOUND, "the plan has no symbol '%s'", sizes[k].symbol);
        value[sym.i] = sizes[k].value;
    }
    NstTensor *inputs;
    NST_TRY(make_inputs(ctx, p->plan, value, n_syms, &inputs));
    for (int t = 0; t < 2; t++) {
        NstGateRun *run = &p->on[t];
        run->run = (NstExecRun){.inputs = inputs,
                                .outputs = NST_NEW_ARRAY(ctx->arena, NstTensor, p->plan->outputs.n),
                                .error = run->error,
                                .error_bytes = sizeof run->error};
        NST_TRY(run_first(ctx, run, p->plan->outputs.n));
    }
    uint64_t states;
    nst_exec_memory(p->on[0].exec, &states, &p->arena_bytes);
    compare(g, p);
    return NST_OK;
}

NstStatus nst_gate_program_make(NstCtx *ctx, NstGates *g, const char *text, NstGateProgram **program)
{
    NstGateSource source = {.text = text};
    NST_TRY(nst_gate_program_new(ctx, g, &source, program));
    return nst_gate_program_bind(ctx, g, *program, NULL, 0);
}

uint32_t nst_gate_program_kernels(const NstGateProgram *program)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < program->plan->steps.n; k++) n += program->plan->steps.at[k].kind == NST_STEP_KERNEL;
    return n;
}

const char *nst_gate_program_facts(NstCtx *ctx, const NstGateProgram *program)
{
    return nst_format(ctx->arena, "kernels %u, arena %llu B, code %zu B, compiled in %.1f ms",
                      nst_gate_program_kernels(program), (unsigned long long)program->arena_bytes,
                      program->plan->code_bytes, program->compile_ms);
}

/* --- running ------------------------------------------------------------------------------------------------- */

static void run_program(void *arg)
{
    NstGateRun *run = arg;
    if (nst_exec_run(run->exec, &run->run) != NST_OK) {
        fprintf(stderr, "a run that had succeeded failed: %s\n", run->error);
        abort();
    }
}

NstBenchCase nst_gate_program_case(NstGateProgram *program, int threads_less_1, double work)
{
    return (NstBenchCase){
        .name = program->plan->model_name, .run = run_program, .arg = &program->on[threads_less_1], .work = work};
}

NstStatus nst_gate_program_step_case(NstCtx *ctx, NstGateProgram *program, double work, NstBenchCase *run)
{
    uint32_t n = program->plan->steps.n, most = 0;
    NstGateRun *step = nst_copy(ctx->arena, &program->on[0], sizeof *step);
    step->run.error = step->error;
    NstExecRun profiled = step->run;
    profiled.step_ns = NST_NEW_ARRAY(ctx->arena, uint64_t, n);
    profiled.step_operations = NST_NEW_ARRAY(ctx->arena, uint64_t, n);
    NstStatus status = nst_exec_run(step->exec, &profiled);
    NST_CHECK(ctx, status == NST_OK, status, "%s", step->error);
    for (uint32_t k = 1; k < n; k++)
        if (profiled.step_operations[k] > profiled.step_operations[most]) most = k;
    step->run.only_step = most + 1;
    *run = nst_gate_program_case(program, 0, work);
    run->arg = step;
    return NST_OK;
}
